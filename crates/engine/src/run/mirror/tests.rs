#![allow(clippy::unwrap_used, reason = "in tests a panic is the message")]

use std::{io::Write as _, thread};

use raymond_flow::{
    id::AgentId,
    machine::{Response, Via},
    payload::Payload,
};

use super::*;
use crate::{
    Engine, Runner,
    agent::Agents,
    asks::{self, Reply, open_questions, question as find_question},
    load,
    run::door::LimitChange,
    store::lock::LockError,
    testing::{
        Recorder, asked, ended, engine, followed, goto, id, intended, question, result, started,
    },
};

/// A project, and the workflow's archive.
struct Place {
    root: tempfile::TempDir,
    state_dir: StateDir,
}

impl Place {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        let flow = root.path().join("flow");
        fs::create_dir_all(flow.join("review")).unwrap();
        for name in ["START.sh", "NEXT.sh", "review/START.sh"] {
            fs::write(flow.join(name), "echo").unwrap();
        }
        fs::write(root.path().join("bundle.zip"), scope::pack(&flow).unwrap()).unwrap();
        let state_dir = StateDir::new(root.path().join(".raymond"));
        Self { root, state_dir }
    }

    fn open<'o>(&self, seen: &'o mut Recorder) -> Result<(Mirror<'o>, Bell), EngineError> {
        self.open_as("5f", seen)
    }

    fn open_as<'o>(
        &self,
        identity: &str,
        seen: &'o mut Recorder,
    ) -> Result<(Mirror<'o>, Bell), EngineError> {
        let started = Started { identity: identity.to_owned(), ..started("/far/flow") };
        let first = entry(10, [Record::Started(Box::new(started))]);
        let options = vec![("--store".to_owned(), "file:///s".to_owned())];
        let bundle = self.root.path().join("bundle.zip");
        Mirror::open(&self.state_dir, (&id(), &Origin { options }), first, &bundle, seen)
    }

    fn files(&self) -> RunFiles {
        self.state_dir.run(&id())
    }

    fn journal(&self) -> Vec<JournalEntry> {
        Journal::read(&self.files().journal).unwrap()
    }
}

fn entry(at_ms: u64, records: impl IntoIterator<Item = Record>) -> JournalEntry {
    JournalEntry { at_ms, records: records.into_iter().collect() }
}

/// What the other machine decides: a step that asks.
fn asks_something() -> Vec<JournalEntry> {
    vec![
        entry(20, [intended("main", 1, "START.sh")]),
        entry(30, [ended("main", 1, 0.0), asked("main", question("Shall I?"))]),
    ]
}

fn ask_id() -> AskId {
    AskId { agent: AgentId::main(), number: 1 }
}

fn response(result: &str, by: &str) -> Response {
    Response {
        result: result.to_owned(),
        comment: String::new(),
        files: None,
        by: by.to_owned(),
        how: "command".to_owned(),
        at_ms: 40,
        attachments: Vec::new(),
    }
}

/// The other machine takes an answer.
fn answered(result: &str, by: &str) -> JournalEntry {
    let record = Record::Answered {
        agent: AgentId::main(),
        number: 1,
        response: Box::new(response(result, by)),
    };
    let Record::Followed { agent, transition, session, workers, .. } =
        followed("main", goto("NEXT.sh"), &[])
    else {
        panic!()
    };
    let discarded_returns = 0;
    let via = Via::Answer;
    let followed = Record::Followed { agent, transition, via, session, workers, discarded_returns };
    entry(50, [record, followed])
}

fn reply(result: &str) -> Reply {
    let (by, how) = ("me".to_owned(), "command".to_owned());
    Reply { result: result.to_owned(), by, how, ..Reply::default() }
}

fn with_engine<T>(state_dir: &StateDir, call: impl FnOnce(&Engine<'_>) -> T) -> T {
    let agents = Agents::new(Vec::new());
    call(&engine(state_dir.clone(), Runner::threads(), &agents))
}

#[test]
fn mirror_has_the_records_with_their_times_and_the_files_of_the_workflow() {
    let place = Place::new();
    let mut seen = Recorder::default();
    let (mut mirror, _bell) = place.open(&mut seen).unwrap();
    assert_eq!(mirror.decisions(), 1);
    mirror.append(asks_something()).unwrap();
    assert_eq!(mirror.decisions(), 3);
    let scope = place.files().folder.join("workflow/flow");
    assert_eq!(mirror.run().scope_dir, scope.to_str().unwrap());
    assert_eq!(scope::subworkflows(&scope).unwrap(), ["review/"]);
    let times: Vec<_> = place.journal().iter().map(|entry| entry.at_ms).collect();
    assert_eq!(times, [10, 20, 30]);
    let run = mirror.close();
    assert_eq!(load(&place.state_dir, &id()).unwrap().run, run);
    assert!(place.files().state.exists());
}

#[test]
fn mirror_that_was_killed_goes_on_where_its_journal_ends() {
    let place = Place::new();
    let mut seen = Recorder::default();
    let (mut mirror, bell) = place.open(&mut seen).unwrap();
    let mut rest = asks_something();
    let last = rest.pop().unwrap();
    mirror.append(rest).unwrap();
    drop((mirror, bell));
    // It was killed while it wrote a line.
    let mut journal = fs::OpenOptions::new().append(true).open(&place.files().journal).unwrap();
    journal.write_all(b"{\"v\":1,\"at\":30,").unwrap();
    let mut seen = Recorder::default();
    let (mut mirror, _bell) = place.open(&mut seen).unwrap();
    assert_eq!(mirror.decisions(), 2);
    mirror.append(vec![last]).unwrap();
    assert_eq!(place.journal().len(), 3);
    assert_eq!(open_questions(&place.state_dir, &id()).unwrap().len(), 1);
}

#[test]
fn mirror_that_was_killed_before_it_had_a_journal_begins_again() {
    let place = Place::new();
    let files = place.files();
    fs::create_dir_all(files.folder.join("workflow/flow")).unwrap();
    fs::write(&files.journal, "{\"v\":1").unwrap();
    let mut seen = Recorder::default();
    let (mirror, _bell) = place.open(&mut seen).unwrap();
    assert_eq!(mirror.decisions(), 1);
}

#[test]
fn another_run_with_the_same_id_is_not_mirrored_into_it() {
    let place = Place::new();
    let mut seen = Recorder::default();
    drop(place.open(&mut seen).unwrap());
    let refused = place.open_as("other", &mut seen);
    assert!(matches!(refused, Err(EngineError::Exists { .. })));
}

#[test]
fn run_is_owned_by_its_mirror_and_without_one_nobody_here_continues_it() {
    let place = Place::new();
    let mut seen = Recorder::default();
    let opened = place.open(&mut seen).unwrap();
    with_engine(&place.state_dir, |engine| {
        let mut seen = Recorder::default();
        let resumed = engine.resume(&id(), |_, _| {}, &mut seen);
        let is_owned =
            matches!(resumed, Err(EngineError::Lock { source: LockError::Owned { .. }, .. }));
        assert!(is_owned, "{resumed:?}");
        drop(opened);
        let change = LimitChange::default();
        let all = [
            engine.resume(&id(), |_, _| {}, &mut seen).map(drop),
            engine.stop(&id(), true, &mut seen).map(drop),
            engine.cancel(&id(), &mut seen).map(drop),
            engine.limit(&id(), &change, &mut seen).map(drop),
            engine.tell_answered(&id(), &ask_id(), &mut seen).map(drop),
        ];
        for refused in all {
            let Err(EngineError::Mirrored { origin, .. }) = refused else { panic!("{refused:?}") };
            assert_eq!(origin.options[0].0, "--store");
        }
    });
    assert_eq!(place.journal().len(), 1, "nothing was decided here");
}

#[test]
fn completed_run_is_returned_although_it_was_mirrored() {
    let place = Place::new();
    let mut seen = Recorder::default();
    let (mut mirror, bell) = place.open(&mut seen).unwrap();
    let done = [ended("main", 1, 0.0), followed("main", result("done"), &[])];
    mirror.append(vec![entry(20, [intended("main", 1, "START.sh")]), entry(30, done)]).unwrap();
    let finished = Record::Finished { status: Status::Completed };
    mirror.append(vec![entry(30, [finished])]).unwrap();
    drop((mirror, bell));
    with_engine(&place.state_dir, |engine| {
        let end = engine.resume(&id(), |_, _| {}, &mut Recorder::default()).unwrap();
        assert_eq!(end.run.result.as_ref().and_then(Payload::as_text), Some("done"));
    });
}

#[test]
fn answer_is_a_wish_until_it_is_confirmed_and_closed_by_its_record() {
    let place = Place::new();
    let mut seen = Recorder::default();
    let (mut mirror, bell) = place.open(&mut seen).unwrap();
    mirror.append(asks_something()).unwrap();
    assert!(mirror.wishes().unwrap().is_empty());
    asks::answer(&place.state_dir, &id(), &ask_id(), &reply("yes")).unwrap();
    // Also for a mirror that comes later.
    drop((mirror, bell));
    let mut seen = Recorder::default();
    let (mut mirror, bell) = place.open(&mut seen).unwrap();
    let wishes = mirror.wishes().unwrap();
    let [Wish { input: Input::Answered { id: ask, response }, ends_steps: false }] =
        &wishes.wishes[..]
    else {
        panic!("{wishes:?}")
    };
    assert_eq!((ask, &*response.result, &*response.by), (&ask_id(), "yes", "me"));
    mirror.confirm(wishes);
    assert!(mirror.wishes().unwrap().is_empty(), "sent once");
    mirror.append(vec![answered("yes", "me")]).unwrap();
    assert!(mirror.wishes().unwrap().is_empty());
    drop(bell);
    let (_, given) = find_question(&place.state_dir, &id(), &ask_id()).unwrap().unwrap();
    assert_eq!(given.unwrap().by, "me");
}

#[test]
fn answer_that_the_other_machine_took_counts_against_one_that_was_given_here() {
    let place = Place::new();
    for is_answered_here in [false, true] {
        let mut seen = Recorder::default();
        let place = if is_answered_here { &place } else { &Place::new() };
        let (mut mirror, _bell) = place.open(&mut seen).unwrap();
        mirror.append(asks_something()).unwrap();
        if is_answered_here {
            asks::answer(&place.state_dir, &id(), &ask_id(), &reply("no")).unwrap();
        }
        mirror.append(vec![answered("yes", "somebody else")]).unwrap();
        assert_eq!(open_questions(&place.state_dir, &id()).unwrap(), []);
        let (_, given) = find_question(&place.state_dir, &id(), &ask_id()).unwrap().unwrap();
        let given = given.unwrap();
        assert_eq!((&*given.result, &*given.by), ("yes", "somebody else"));
    }
}

#[test]
fn requests_at_the_door_become_wishes_and_are_confirmed_with_the_state_of_the_run() {
    let place = Place::new();
    let mut seen = Recorder::default();
    let (mut mirror, bell) = place.open(&mut seen).unwrap();
    mirror.append(vec![entry(20, [intended("main", 1, "START.sh")])]).unwrap();
    let state_dir = place.state_dir.clone();
    let caller = thread::spawn(move || {
        with_engine(&state_dir, |engine| {
            let mut seen = Recorder::default();
            let change = LimitChange { max_iterations: Some(7), ..LimitChange::default() };
            let limited = engine.limit(&id(), &change, &mut seen).unwrap();
            (limited, engine.stop(&id(), true, &mut seen).unwrap().unwrap())
        })
    });
    let mut told = Vec::new();
    while told.len() < 2 {
        bell.wait();
        let wishes = mirror.wishes().unwrap();
        told.extend(wishes.wishes.iter().map(|wish| format!("{wish:?}")));
        mirror.confirm(wishes);
    }
    let (limited, stopped) = caller.join().unwrap();
    assert_eq!((limited.status, limited.running_steps), (Status::Running, 1));
    assert_eq!(stopped, limited);
    assert!(told[0].contains("ChangeLimits") && told[0].contains("Some(7)"), "{told:?}");
    assert!(told[1].contains("Interrupted") && told[1].contains("ends_steps: true"), "{told:?}");
    assert_eq!(place.journal().len(), 2, "nothing was decided here");
}

#[test]
fn files_that_a_question_shows_are_those_that_came_with_its_step() {
    let place = Place::new();
    let mut seen = Recorder::default();
    let (mut mirror, _bell) = place.open(&mut seen).unwrap();
    let shown = place.files().step(&crate::testing::step_id(1)).join("shown");
    fs::create_dir_all(&shown).unwrap();
    fs::write(shown.join("plan.md"), "a plan").unwrap();
    let mut attached = question("Shall I?");
    attached.attach = vec!["plan.md".to_owned()];
    let ends = [ended("main", 1, 0.0), asked("main", attached)];
    mirror.append(vec![entry(20, [intended("main", 1, "START.sh")]), entry(30, ends)]).unwrap();
    let [question] = &open_questions(&place.state_dir, &id()).unwrap()[..] else { panic!() };
    let file = &question.attachments[0];
    let bytes = asks::attachment(&place.state_dir, &id(), &ask_id(), file).unwrap();
    assert_eq!(bytes, b"a plan");
}

#[test]
fn questions_of_a_cancelled_run_are_closed() {
    let place = Place::new();
    let mut seen = Recorder::default();
    let (mut mirror, _bell) = place.open(&mut seen).unwrap();
    mirror.append(asks_something()).unwrap();
    let halted = Record::Halted { why: Halt::Cancelled };
    let finished = Record::Finished { status: Status::Cancelled };
    mirror.append(vec![entry(40, [halted]), entry(40, [finished])]).unwrap();
    assert_eq!(open_questions(&place.state_dir, &id()).unwrap(), []);
}
