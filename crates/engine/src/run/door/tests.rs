#![allow(clippy::unwrap_used, reason = "in tests a panic is the message")]

use std::{
    sync::mpsc,
    thread::{self, JoinHandle},
};

use raymond_flow::machine::{Halt, Record};

use super::*;
use crate::{
    Engine, EngineError, Runner,
    agent::Agents,
    exec::steps::memory::{Fate, Memory},
    load,
    store::{journal::Journal, layout::StateDir},
    testing::{RESULT, Recorder, Stage, engine, id},
};

/// A run whose step runs until it is ended, and what another process does meanwhile.
fn with_caller<T: Send + 'static>(
    call: impl FnOnce(&Engine<'_>, &StateDir) -> T + Send + 'static,
) -> (Stage, JoinHandle<T>) {
    let mut stage = Stage::new(&["START.sh"], []);
    let (began, begins) = mpsc::channel();
    stage.memory = Memory::new(move |_| {
        let _ = began.send(());
        Fate::Runs
    });
    let state_dir = stage.state_dir();
    let caller = thread::spawn(move || {
        begins.recv().unwrap();
        with_engine(&state_dir, |engine| call(engine, &state_dir))
    });
    (stage, caller)
}

/// What another process of the same user does.
fn with_engine<T>(state_dir: &StateDir, call: impl FnOnce(&Engine<'_>) -> T) -> T {
    let agents = Agents::new(Vec::new());
    call(&engine(state_dir.clone(), Runner::threads(), &agents))
}

fn raise(max_iterations: u64) -> LimitChange {
    LimitChange { max_iterations: Some(max_iterations), ..LimitChange::default() }
}

fn changes(stage: &Stage) -> Vec<Option<u64>> {
    let entries = Journal::read(&stage.files().journal).unwrap();
    let records = entries.into_iter().flat_map(|entry| entry.records);
    let changed = |record| match record {
        Record::LimitsChanged { limits } => Some(limits.max_iterations),
        _ => None,
    };
    records.filter_map(changed).collect()
}

fn left_at_door(stage: &Stage) -> Vec<String> {
    let entries = fs::read_dir(stage.files().folder.join(DOOR)).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

#[test]
fn stop_that_waits_lets_the_step_run_and_stop_now_ends_it() {
    let (stage, caller) = with_caller(|engine, state_dir| {
        let mut seen = Recorder::default();
        let waiting = engine.stop(&id(), false, &mut seen).unwrap().unwrap();
        // Confirmed means durable.
        let halt = load(state_dir, &id()).unwrap().run.halt;
        (waiting, halt, engine.stop(&id(), true, &mut seen).unwrap())
    });
    let end = stage.start();
    let (waiting, halt, ended) = caller.join().unwrap();
    assert_eq!(waiting, DoorAnswer { status: Status::Running, running_steps: 1 });
    assert_eq!(halt, Some(Halt::Interrupted));
    assert!(ended.is_some());
    assert_eq!(end.run.status, Status::Paused);
    assert!(end.is_interrupted);
    assert!(left_at_door(&stage).is_empty(), "{:?}", left_at_door(&stage));
    stage.memory.change(|_| Fate::prints(RESULT));
    assert_eq!(stage.resume().run.status, Status::Completed);
}

#[test]
fn cancel_of_a_run_under_way_is_done_by_its_orchestrator() {
    let (stage, caller) =
        with_caller(|engine, _| engine.cancel(&id(), &mut Recorder::default()).unwrap().status);
    assert_eq!(stage.start().run.status, Status::Cancelled);
    assert_eq!(caller.join().unwrap(), Status::Cancelled);
    assert!(stage.asked().contains(&"end main.1".to_owned()));
    // The record of it is seen by the orchestrator's observer.
    let is_cancel = |record: &Record| matches!(record, Record::Halted { why: Halt::Cancelled });
    assert!(stage.seen.records().iter().any(is_cancel));
    let again = stage.engine().resume(&id(), |_, _| {}, &mut stage.seen.clone());
    assert!(matches!(again, Err(EngineError::Cancelled { .. })));
}

#[test]
fn changed_limit_is_in_the_journal_before_it_is_confirmed() {
    let (stage, caller) = with_caller(|engine, state_dir| {
        let mut seen = Recorder::default();
        let answer = engine.limit(&id(), &raise(77), &mut seen).unwrap();
        let limits = load(state_dir, &id()).unwrap().run.limits;
        engine.stop(&id(), true, &mut seen).unwrap();
        (answer, limits.max_iterations)
    });
    let end = stage.start();
    let (answer, seen) = caller.join().unwrap();
    assert_eq!((answer.status, seen), (Status::Running, Some(77)));
    assert_eq!(end.run.limits.max_iterations, Some(77));
}

#[test]
fn fifty_requests_at_once_are_answered_once_each() {
    let (stage, caller) = with_caller(|engine, state_dir| {
        let callers: Vec<_> = (1..=50)
            .map(|number| {
                let state_dir = state_dir.clone();
                thread::spawn(move || {
                    with_engine(&state_dir, |engine| {
                        engine.limit(&id(), &raise(number), &mut Recorder::default()).is_ok()
                    })
                })
            })
            .collect();
        let answered = callers.into_iter().map(|caller| caller.join().unwrap());
        let answered: Vec<_> = answered.collect();
        engine.stop(&id(), true, &mut Recorder::default()).unwrap();
        answered
    });
    stage.start();
    assert_eq!(caller.join().unwrap(), [true; 50]);
    let mut changes = changes(&stage);
    changes.sort();
    let all: Vec<_> = (1..=50).map(Some).collect();
    assert_eq!(changes, all, "each was carried out once");
    assert!(left_at_door(&stage).is_empty());
}

#[test]
fn run_without_an_orchestrator_is_changed_or_cancelled_by_the_caller() {
    let stage = Stage::new(
        &["START.sh"],
        [("START.sh", vec![Fate::Refused(io::ErrorKind::PermissionDenied)])],
    );
    assert!(stage.try_start().is_err());
    let mut seen = stage.seen.clone();
    let engine = stage.engine();
    assert_eq!(engine.stop(&id(), false, &mut seen).unwrap(), None);
    let answer = engine.limit(&id(), &raise(9), &mut seen).unwrap();
    assert_eq!(answer, DoorAnswer { status: Status::Running, running_steps: 0 });
    assert_eq!(load(&stage.state_dir(), &id()).unwrap().run.limits.max_iterations, Some(9));
    assert_eq!(engine.cancel(&id(), &mut seen).unwrap().status, Status::Cancelled);
    let refused = engine.limit(&id(), &raise(10), &mut seen);
    assert!(matches!(refused, Err(EngineError::Cancelled { .. })));
    // Its observer has seen every record, the cancel's, too.
    let is_cancel = |record: &Record| matches!(record, Record::Halted { why: Halt::Cancelled });
    assert!(stage.seen.records().iter().any(is_cancel));
}

#[test]
fn unknown_run_is_reported() {
    let stage = Stage::new(&["START.sh"], []);
    let mut seen = Recorder::default();
    let engine = stage.engine();
    let stopped = engine.stop(&id(), false, &mut seen);
    assert!(matches!(stopped, Err(EngineError::NoSuchRun { .. })));
    assert!(!stage.files().folder.exists(), "nothing is left behind");
}

/// The identity of the run behind the door.
const RUN: &str = "identity";

/// A door, and the folder that it is in.
fn door() -> (tempfile::TempDir, Door) {
    let folder = tempfile::tempdir().unwrap();
    let door = Door::open(folder.path(), RUN).unwrap();
    (folder, door)
}

#[test]
fn request_is_gone_before_its_answer_is_there() {
    let (folder, mut door) = door();
    let letter = Letter::post(folder.path(), RUN, &Request::Cancel).unwrap();
    assert!(letter.answer().is_none());
    let requests = door.requests();
    assert_eq!(requests[0].what, Request::Cancel);
    // Nothing was answered yet, so it is still there.
    assert_eq!(door.requests().len(), 1);
    let answer = DoorAnswer { status: Status::Running, running_steps: 2 };
    door.confirm(&requests[0], &answer);
    assert!(door.requests().is_empty());
    assert_eq!(letter.answer().unwrap().unwrap(), answer);
    drop(letter);
    assert_eq!(fs::read_dir(&door.folder).unwrap().count(), 0);
}

#[test]
fn request_that_is_put_back_is_not_carried_out_again() {
    let (folder, mut door) = door();
    let letter = Letter::post(folder.path(), RUN, &Request::Limit(raise(100))).unwrap();
    let (path, copy) = (letter.path(REQUEST), fs::read(letter.path(REQUEST)).unwrap());
    let answer = DoorAnswer { status: Status::Running, running_steps: 0 };
    let requests = door.requests();
    door.confirm(&requests[0], &answer);
    drop(letter);
    for _ in 0..2 {
        fs::write(&path, &copy).unwrap();
        assert!(door.requests().is_empty());
        assert!(!path.exists());
    }
    // The seal fits no other name.
    fs::write(door.folder.join("9999999999999999-x.request"), &copy).unwrap();
    assert!(door.requests().is_empty());
}

#[test]
fn request_from_before_the_door_was_opened_is_made_again_by_its_caller() {
    let (folder, mut door) = door();
    let request = Request::Limit(raise(100));
    let letter = Letter::post(folder.path(), RUN, &request).unwrap();
    // The orchestrator was killed, and another one opens the door later.
    door.opened_ms = clock::now_ms() + 1;
    assert!(door.requests().is_empty());
    assert!(letter.is_too_early() && letter.answer().is_none());
    assert!(letter.wait(PATIENCE).is_none(), "at once");
    drop(letter);
    assert_eq!(fs::read_dir(&door.folder).unwrap().count(), 0);
    // Later, a request from before it is not valid any more; the clock may have been set back.
    let _letter = Letter::post(folder.path(), RUN, &request).unwrap();
    door.opened_ms = clock::now_ms() + 3_600_000;
    if let Some(long_ago) = Instant::now().checked_sub(2 * PATIENCE) {
        door.opened = long_ago;
        assert_eq!(door.requests().len(), 1);
    }
}

#[test]
fn request_whose_caller_gave_up_or_died_long_ago_has_no_effect() {
    let (folder, door) = door();
    drop(Letter::post(folder.path(), RUN, &Request::Cancel).unwrap());
    assert!(door.requests().is_empty());
    let old =
        RequestFile { run: RUN.to_owned(), until_ms: clock::now_ms() - 1, what: Request::Cancel };
    write(&door.folder, "old", REQUEST, &old).unwrap();
    assert!(door.requests().is_empty());
    assert_eq!(fs::read_dir(&door.folder).unwrap().count(), 0);
}

#[test]
fn request_to_an_earlier_run_of_the_same_name_has_no_effect() {
    let (folder, door) = door();
    let letter = Letter::post(folder.path(), "earlier", &Request::Cancel).unwrap();
    assert!(door.requests().is_empty());
    assert!(!letter.path(REQUEST).exists());
}

#[test]
fn invalid_request_is_refused_with_the_reason() {
    let (folder, door) = door();
    let letter = Letter::post(folder.path(), RUN, &Request::Cancel).unwrap();
    let forged =
        serde_json::json!({ "until_ms": u64::MAX, "what": { "limit": { "budget_usd": 5000 } } });
    fs::write(letter.path(REQUEST), forged.to_string()).unwrap();
    assert!(door.requests().is_empty());
    let why = letter.answer().unwrap().unwrap_err().to_string();
    assert!(why.contains("your Raymond did not write it"), "{why}");
    // One that is too large, and something that is no file at all.
    fs::write(letter.path(REQUEST), vec![b' '; 600_000]).unwrap();
    fs::create_dir(door.folder.join("folder.request")).unwrap();
    assert!(door.requests().is_empty());
    let why = letter.answer().unwrap().unwrap_err().to_string();
    assert!(why.contains("524288 bytes"), "{why}");
}

#[test]
fn half_written_request_is_not_seen() {
    let (_folder, door) = door();
    let draft = door.folder.join("x.request.draft");
    fs::write(&draft, "{\"until").unwrap();
    fs::write(door.folder.join("x.answer"), "").unwrap();
    assert!(door.requests().is_empty());
    assert!(draft.exists(), "its caller still writes it");
}

#[cfg(unix)]
#[test]
fn only_the_owner_can_enter_the_door() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(DOOR);
    Door::open(folder.path(), RUN).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o700);
}

#[test]
fn limits_that_are_not_named_stay_and_zero_is_no_limit() {
    let before = Limits { max_iterations: Some(5), ..Limits::default() };
    let zero = LimitChange { budget_usd: Some(Usd::ZERO), ..LimitChange::default() };
    let after = zero.apply(before.clone());
    assert_eq!((after.budget_usd, after.max_iterations), (None, Some(5)));
    let none = LimitChange { max_iterations: Some(0), ..LimitChange::default() };
    assert_eq!(none.apply(before.clone()).max_iterations, None);
    assert_eq!(LimitChange::default().apply(before.clone()), before);
}

#[test]
fn burst_is_taken_in_batches_the_oldest_first() {
    let (_folder, mut door) = door();
    let until_ms = clock::now_ms() + 60_000;
    // Written in another order than that of their names.
    for number in (0..BATCH_MAX + 3).rev() {
        let what = Request::Answered { ask: format!("main.{number}") };
        write(
            &door.folder,
            &format!("{number:05}"),
            REQUEST,
            &RequestFile { run: RUN.to_owned(), until_ms, what },
        )
        .unwrap();
    }
    let number = |request: &PendingRequest| match &request.what {
        Request::Answered { ask } => ask.clone(),
        other => panic!("{other:?}"),
    };
    let batch = door.requests();
    assert_eq!(batch.len(), BATCH_MAX);
    assert_eq!((number(&batch[0]), number(&batch[1])), ("main.0".to_owned(), "main.1".to_owned()));
    let answer = DoorAnswer { status: Status::Running, running_steps: 0 };
    for request in &batch {
        door.confirm(request, &answer);
    }
    let rest: Vec<_> = door.requests().iter().map(number).collect();
    assert_eq!(rest, ["main.256", "main.257", "main.258"]);
}

#[test]
fn answer_tells_every_status() {
    let (folder, mut door) = door();
    for status in [
        Status::Running,
        Status::Completed,
        Status::Failed,
        Status::Stopped,
        Status::Paused,
        Status::Cancelled,
    ] {
        let letter = Letter::post(folder.path(), RUN, &Request::Stop { now: true }).unwrap();
        let answer = DoorAnswer { status, running_steps: 1 };
        let requests = door.requests();
        door.confirm(&requests[0], &answer);
        assert_eq!(letter.answer().unwrap().unwrap(), answer);
    }
}

#[test]
fn files_that_no_caller_fetched_are_removed_when_the_door_is_opened_again() {
    let (folder, door) = door();
    for name in ["old.answer", "new.answer"] {
        fs::write(door.folder.join(name), "{}").unwrap();
    }
    let old = fs::File::options().append(true).open(door.folder.join("old.answer")).unwrap();
    old.set_modified(std::time::SystemTime::now() - 2 * PATIENCE).unwrap();
    Door::open(folder.path(), RUN).unwrap();
    let left: Vec<_> =
        fs::read_dir(&door.folder).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(left, ["new.answer"]);
}

#[test]
fn word_of_an_answered_question_stays_at_the_door_for_the_orchestrator() {
    let (folder, door) = door();
    let ask = AskId::parse("main.2").unwrap();
    tell_answered(folder.path(), RUN, &ask);
    let requests = door.requests();
    assert_eq!(requests[0].what, Request::Answered { ask: "main.2".to_owned() });
}
