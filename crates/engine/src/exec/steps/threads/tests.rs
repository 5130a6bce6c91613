//! The engine with threads as its runner and real scripts.

#![allow(clippy::unwrap_used, reason = "in tests a panic is the message")]

use std::{
    fs,
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

use raymond_flow::{
    machine::{Halt, Status},
    payload::Payload,
};

use crate::{
    Engine, RunEnd, Runner,
    exec::step::StepState,
    run::events::StepEnd,
    testing::{Recorder, Stage, engine, id},
};

/// A workflow with these scripts, of which `START.sh` is the first.
fn stage(scripts: &[(&str, &str)]) -> Stage {
    let names: Vec<_> = scripts.iter().map(|(name, _)| *name).collect();
    let stage = Stage::new(&names, []);
    for (name, text) in scripts {
        fs::write(stage.folder.path().join("flow").join(name), text).unwrap();
    }
    stage
}

fn threads(stage: &Stage) -> Engine<'_> {
    engine(stage.state_dir(), Runner::threads(), &stage.agents)
}

fn start(stage: &Stage) -> RunEnd {
    threads(stage).start(stage.started.clone(), &mut stage.seen.clone()).unwrap()
}

fn file(stage: &Stage, name: &str) -> PathBuf {
    stage.folder.path().join(name)
}

fn wait_for(path: &Path) {
    while !path.exists() {
        thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn scripts_run_with_their_variables_and_their_output_is_kept() {
    let stage = stage(&[
        ("START.sh", "echo out; echo err >&2; echo '<call return=\"NEXT\">INNER</call>'"),
        ("INNER.sh", "echo '<result>inner</result>'"),
        ("NEXT.sh", "echo \"<result>$RAYMOND_RESULT from $(basename $PWD)</result>\""),
    ]);
    let end = start(&stage);
    let place = stage.folder.path().file_name().unwrap().to_str().unwrap();
    assert_eq!(end.run.result, Some(format!("inner from {place}").into()));
    let first = stage.step("main.1");
    assert!(fs::read_to_string(first.stdout()).unwrap().starts_with("out\n"));
    assert_eq!(fs::read_to_string(first.stderr()).unwrap(), "err\n");
    assert!(matches!(first.state().unwrap(), StepState::Ended(_)));
    stage.check_ends();
}

#[test]
fn script_that_fails_or_is_killed_fails_the_run_with_its_end() {
    let stage = stage(&[("START.sh", "exit 7")]);
    assert_eq!(start(&stage).run.status, Status::Failed);
    assert_eq!(stage.ends(), [("main/1".to_owned(), StepEnd::Code(7))]);
    let stage = self::stage(&[("START.sh", "kill -KILL $$")]);
    assert_eq!(start(&stage).run.status, Status::Failed);
    assert_eq!(stage.ends(), [("main/1".to_owned(), StepEnd::NoCode)]);
}

#[test]
fn script_that_prints_nothing_for_too_long_is_ended() {
    let mut stage = stage(&[("START.sh", "sleep 1000")]);
    stage.started.settings.timeout = Some("1".parse().unwrap());
    let end = start(&stage);
    assert_eq!(end.run.status, Status::Failed);
    assert_eq!(stage.ends(), [("main/1".to_owned(), StepEnd::NoCode)]);
}

#[test]
fn what_a_script_leaves_in_its_group_ends_with_it() {
    let stage = stage(&[("START.sh", "sleep 1000 & echo $! > left; echo '<result>fine</result>'")]);
    assert_eq!(start(&stage).run.status, Status::Completed);
    let left = fs::read_to_string(file(&stage, "left")).unwrap();
    let process = PathBuf::from(format!("/proc/{}/cmdline", left.trim()));
    // A process that was killed and not collected yet has no command line any more.
    while fs::read(&process).is_ok_and(|line| !line.is_empty()) {
        thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn stop_now_ends_the_script_and_a_resume_starts_it_again() {
    let stage = stage(&[(
        "START.sh",
        "[ -e began ] || { touch began; sleep 1000; }; echo '<result>fine</result>'",
    )]);
    let (state_dir, began) = (stage.state_dir(), file(&stage, "began"));
    let caller = thread::spawn(move || {
        wait_for(&began);
        let agents = crate::agent::Agents::new(Vec::new());
        let engine = engine(state_dir, Runner::threads(), &agents);
        engine.stop(&id(), true, &mut Recorder::default()).unwrap()
    });
    let end = start(&stage);
    assert!(caller.join().unwrap().is_some());
    assert_eq!((end.run.status, end.run.halt), (Status::Paused, Some(Halt::Interrupted)));
    let resumed = threads(&stage).resume(&id(), |_, _| {}, &mut stage.seen.clone()).unwrap();
    assert_eq!(resumed.run.result.as_ref().and_then(Payload::as_text), Some("fine"));
    stage.check_ends();
}

#[test]
fn program_that_is_not_there_fails_the_step_with_its_name() {
    let mut stage = Stage::new(&["START.md"], []);
    stage.agents = crate::agent::Agents::new(vec![Box::new(crate::agent::ProgramAgent::new(
        crate::agent::ProgramConfig {
            program: vec!["/no/such/program".to_owned()],
            ..crate::testing::shell()
        },
    ))]);
    let end = start(&stage);
    assert_eq!(end.run.status, Status::Failed);
    let failures = stage.failures();
    assert!(failures[0].contains("/no/such/program"), "{failures:?}");
}

#[test]
fn ten_scripts_run_at_once() {
    let stage = stage(&[
        (
            "START.sh",
            "n=$(cat n 2>/dev/null || echo 0); echo $((n + 1)) > n; if [ $n -lt 10 ]; then echo '<fork next=\"START\">WORK</fork>'; else echo '<result>main</result>'; fi",
        ),
        // Each waits for all others, so they must run at the same time.
        (
            "WORK.sh",
            "mkdir -p here; mktemp here/XXXXXX > /dev/null; while [ $(ls here | wc -l) -lt 10 ]; do sleep 0.01; done; echo '<result>w</result>'",
        ),
    ]);
    let end = start(&stage);
    assert_eq!((end.run.status, end.run.agents_born), (Status::Completed, 11));
    stage.check_ends();
}
