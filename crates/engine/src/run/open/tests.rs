//! Opening runs: which may be started, resumed, changed and cancelled, and what is refused.

#![allow(clippy::unwrap_used, reason = "in tests a panic is the message")]

use std::{fs, thread};

use super::*;
use crate::{
    exec::steps::memory::Fate,
    testing::{RESULT, Recorder, Stage, fails, id, says},
};

fn completed() -> Stage {
    let stage = Stage::new(&["START.sh"], [("START.sh", vec![Fate::prints(RESULT)])]);
    stage.start();
    stage
}

fn failed() -> Stage {
    let stage = Stage::new(&["START.md"], [("START.md", vec![fails("refused"), says(RESULT)])]);
    assert_eq!(stage.start().run.status, Status::Failed);
    stage
}

#[test]
fn run_that_does_not_exist_is_not_created_by_asking_for_it() {
    let stage = Stage::new(&["START.sh"], []);
    let (engine, mut seen) = (stage.engine(), Recorder::default());
    let unknown = RunId::new("unknown").unwrap();
    let is_none = |error: EngineError| {
        assert!(matches!(error, EngineError::NoSuchRun { id } if id == unknown));
    };
    is_none(load(&stage.state_dir(), &unknown).unwrap_err());
    is_none(engine.resume(&unknown, |_, _| {}, &mut seen).unwrap_err());
    is_none(engine.cancel(&unknown, &mut seen).unwrap_err());
    is_none(engine.stop(&unknown, true, &mut seen).unwrap_err());
    is_none(engine.limit(&unknown, &LimitChange::default(), &mut seen).unwrap_err());
    assert!(!stage.state_dir().root().exists());
}

#[test]
fn id_whose_run_never_began_can_be_used() {
    for left in ["", "{\"v\":1,\"at\":1,\"rec"] {
        let stage = Stage::new(&["START.sh"], [("START.sh", vec![Fate::prints(RESULT)])]);
        let files = stage.files();
        private::create_dir_all(&files.folder).unwrap();
        fs::write(&files.journal, left).unwrap();
        assert_eq!(stage.start().run.status, Status::Completed, "{left}");
    }
}

#[test]
fn id_of_a_run_that_cannot_be_read_is_not_used_again() {
    let stage = Stage::new(&["START.sh"], [("START.sh", vec![Fate::prints(RESULT)])]);
    let files = stage.files();
    private::create_dir_all(&files.folder).unwrap();
    fs::write(&files.journal, "something else\n").unwrap();
    assert!(matches!(stage.try_start(), Err(EngineError::Exists { .. })));
    assert_eq!(fs::read_to_string(&files.journal).unwrap(), "something else\n");
}

#[test]
fn workflow_that_cannot_be_opened_leaves_no_run() {
    let mut stage = Stage::new(&["START.sh"], [("START.sh", vec![Fate::prints(RESULT)])]);
    let archive = stage.folder.path().join("flow.zip");
    fs::write(&archive, "no archive").unwrap();
    let flow =
        std::mem::replace(&mut stage.started.scope_dir, archive.to_str().unwrap().to_owned());
    assert!(matches!(stage.try_start(), Err(EngineError::Scope(_))));
    assert!(!stage.files().journal.exists());
    stage.started.scope_dir = flow;
    assert_eq!(stage.start().run.status, Status::Completed, "its id is free");
}

#[test]
fn run_that_another_process_owns_is_left_alone() {
    let stage = failed();
    let _lock = RunLock::take(&stage.files().lock).unwrap();
    let before = fs::read(&stage.files().journal).unwrap();
    let refused = stage.engine().resume(&id(), |_, _| {}, &mut stage.seen.clone()).unwrap_err();
    let text = refused.to_string();
    assert!(text.contains(&format!("(process {})", std::process::id())), "{text}");
    assert!(matches!(stage.try_start(), Err(EngineError::Lock { .. })));
    assert_eq!(fs::read(&stage.files().journal).unwrap(), before);
}

#[cfg(unix)]
#[test]
fn state_directory_that_others_can_write_to_is_refused_by_everything() {
    use std::os::unix::fs::PermissionsExt as _;
    let stage = failed();
    let steps = stage.files().steps;
    fs::set_permissions(&steps, fs::Permissions::from_mode(0o777)).unwrap();
    let (engine, mut seen) = (stage.engine(), Recorder::default());
    let is_trust = |error: EngineError| assert!(matches!(error, EngineError::Trust(_)), "{error}");
    is_trust(engine.resume(&id(), |_, _| {}, &mut seen).unwrap_err());
    is_trust(engine.cancel(&id(), &mut seen).unwrap_err());
    is_trust(engine.stop(&id(), false, &mut seen).unwrap_err());
    is_trust(engine.limit(&id(), &LimitChange::default(), &mut seen).unwrap_err());
    is_trust(stage.try_start().unwrap_err());
}

#[cfg(unix)]
#[test]
fn directories_of_a_run_are_its_owners_alone() {
    use std::os::unix::fs::PermissionsExt as _;
    let stage = completed();
    let files = stage.files();
    for path in [&stage.state_dir().workflows(), &files.folder, &files.steps, &files.journal] {
        let mode = fs::metadata(path).unwrap().permissions().mode();
        assert_eq!(mode & 0o077, 0, "{}", path.display());
    }
}

#[test]
fn run_that_is_completed_is_told_again_and_its_journal_stays_as_it_is() {
    let stage = completed();
    let before = fs::read(&stage.files().journal).unwrap();
    let end = stage.resume();
    assert_eq!(
        (
            end.run.result.as_ref().and_then(raymond_flow::payload::Payload::as_text),
            end.is_interrupted
        ),
        (Some("done"), false)
    );
    assert_eq!(fs::read(&stage.files().journal).unwrap(), before);
}

#[test]
fn completed_run_is_cancelled_by_nobody() {
    let stage = completed();
    let run = stage.engine().cancel(&id(), &mut stage.seen.clone()).unwrap();
    assert_eq!(run.status, Status::Completed);
}

#[test]
fn settings_and_limits_of_a_resumed_run_are_those_that_it_had_with_the_changes() {
    let mut stage = Stage::new(&["START.md"], [("START.md", vec![fails("refused"), says(RESULT)])]);
    stage.started.settings.model = Some("opus".to_owned());
    stage.started.limits.max_parallel = 3;
    stage.start();
    let change = |settings: &mut Settings, limits: &mut Limits| {
        assert_eq!((settings.model.as_deref(), limits.max_parallel), (Some("opus"), 3));
        limits.max_parallel = 5;
    };
    let end = stage.engine().resume(&id(), change, &mut stage.seen.clone()).unwrap();
    assert_eq!(end.run.status, Status::Completed);
    assert_eq!((end.run.settings.model.as_deref(), end.run.limits.max_parallel), (Some("opus"), 5));
    let loaded = load(&stage.state_dir(), &id()).unwrap();
    assert_eq!(loaded.run.limits.max_parallel, 5, "it is in the journal");
}

#[test]
fn limit_of_a_run_without_an_orchestrator_is_durable_and_a_cancelled_one_has_none() {
    let stage = failed();
    let change = LimitChange { max_retries: Some(9), ..LimitChange::default() };
    let answer = stage.engine().limit(&id(), &change, &mut stage.seen.clone()).unwrap();
    assert_eq!((answer.status, answer.running_steps), (Status::Failed, 0));
    assert_eq!(load(&stage.state_dir(), &id()).unwrap().run.limits.max_retries, 9);
    stage.engine().cancel(&id(), &mut stage.seen.clone()).unwrap();
    let refused = stage.engine().limit(&id(), &change, &mut stage.seen.clone());
    assert!(matches!(refused, Err(EngineError::Cancelled { .. })));
    let resumed = stage.engine().resume(&id(), |_, _| {}, &mut stage.seen.clone());
    assert!(matches!(resumed, Err(EngineError::Cancelled { .. })));
}

#[test]
fn stop_of_a_run_without_an_orchestrator_finds_nobody_and_frees_its_lock() {
    let stage = failed();
    assert_eq!(stage.engine().stop(&id(), true, &mut stage.seen.clone()).unwrap(), None);
    assert_eq!(RunLock::holder(&stage.files().lock), None);
    assert_eq!(stage.resume().run.status, Status::Completed);
}

#[test]
fn run_that_is_loaded_is_the_one_that_ended() {
    let stage = failed();
    let end = stage.resume();
    let loaded = load(&stage.state_dir(), &id()).unwrap();
    assert_eq!(loaded.run, end.run);
    assert_eq!(loaded.view.steps.len(), 2);
}

#[test]
fn only_one_of_many_that_resume_a_run_gets_it() {
    let stage = failed();
    let state_dir = stage.state_dir();
    let threads: Vec<_> = (0..4)
        .map(|_| {
            let state_dir = state_dir.clone();
            thread::spawn(move || {
                let agents = crate::agent::Agents::new(vec![Box::new(crate::testing::Talkative)]);
                let runner =
                    Runner::memory(crate::exec::steps::memory::Memory::new(|_| says(RESULT)));
                let engine = crate::testing::engine(state_dir, runner, &agents);
                engine.resume(&id(), |_, _| {}, &mut Recorder::default()).map(|end| end.run.status)
            })
        })
        .collect();
    for thread in threads {
        match thread.join().unwrap() {
            Ok(status) => assert_eq!(status, Status::Completed),
            Err(error) => assert!(matches!(error, EngineError::Lock { .. }), "{error}"),
        }
    }
    let entries = Journal::read(&state_dir.run(&id()).journal).unwrap();
    let resumed = entries.into_iter().flat_map(|entry| entry.records);
    let is_resume = |record: &raymond_flow::machine::Record| {
        matches!(record, raymond_flow::machine::Record::Resumed { .. })
    };
    assert_eq!(resumed.filter(is_resume).count(), 1);
}

#[cfg(target_os = "linux")]
#[test]
fn owner_of_a_run_that_is_stopped_is_woken_and_that_is_told() {
    let mut child = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
    let pid = sys::Pid::try_from(child.id()).unwrap();
    let mut seen = Recorder::default();
    let owner = Owner { pid: child.id(), since_ms: 0 };
    wake_owner(Some(&owner), &mut seen);
    assert_eq!(seen.troubles(), [""; 0], "it runs");
    sys::kill(pid, libc::SIGSTOP);
    while !sys::is_stopped(pid) {
        thread::yield_now();
    }
    wake_owner(Some(&owner), &mut seen);
    while sys::is_stopped(pid) {
        thread::yield_now();
    }
    assert!(seen.troubles()[0].contains("it was woken"));
    child.kill().unwrap();
    child.wait().unwrap();
    // No run matches these.
    wake_owner(None, &mut seen);
    wake_owner(Some(&Owner { pid: 0, since_ms: 0 }), &mut seen);
    wake_owner(Some(&Owner { pid: u32::MAX, since_ms: 0 }), &mut seen);
    assert_eq!(seen.troubles().len(), 1);
}
