//! Usage limits that several runs of a user share.

use std::{fs, path::Path};

use raymond_flow::machine::{Halt, OnUsageLimit, Record, Run, Status};
use tempfile::TempDir;

use crate::{
    Engine,
    exec::steps::memory::Fate,
    run::{
        events::{Event, Observer, Seen},
        usage_limit::SharedLimits,
    },
    store::user::UserDir,
    sys::clock,
    testing::{RESULT, Recorder, Stage, fails, id, says},
};

/// The account of the program that all stages use.
const ACCOUNT: &str = "program-";

/// A user with several projects.
struct User {
    home: TempDir,
}

impl User {
    fn new() -> Self {
        Self { home: tempfile::tempdir().unwrap() }
    }

    fn dir(&self) -> UserDir {
        UserDir::new(self.home.path().join("state"))
    }

    fn engine<'a>(&self, stage: &'a Stage) -> Engine<'a> {
        Engine { user_dir: Some(self.dir()), is_hurried: false, ..stage.engine() }
    }

    fn start(&self, stage: &Stage) -> Run {
        let end = self.engine(stage).start(stage.started.clone(), &mut stage.seen.clone());
        end.unwrap().run
    }

    fn resume(&self, stage: &Stage) -> Run {
        self.engine(stage).resume(&id(), |_, _| {}, &mut stage.seen.clone()).unwrap().run
    }

    /// The accounts whose limits are known.
    fn limits(&self) -> Vec<String> {
        let entries = fs::read_dir(self.dir().file("usage-limits")).into_iter().flatten();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }
}

/// A limit that is lifted in an hour.
fn limited() -> Fate {
    let resets_at = clock::now_ms() / 1000 + 3600;
    let line = serde_json::json!({ "error": "no", "class": "usage_limit", "resets_at": resets_at });
    Fate::prints(&line.to_string())
}

/// A project with one turn that has these outcomes, in a run that does not wait.
fn impatient(fates: Vec<Fate>) -> Stage {
    let mut stage = Stage::new(&["START.md"], [("START.md", fates)]);
    stage.started.settings.on_usage_limit = OnUsageLimit::Pause;
    stage
}

/// Lifts the limit as soon as the run waits for it, as another run would.
struct Lifter<'a> {
    seen: Recorder,
    home: &'a Path,
}

impl Observer for Lifter<'_> {
    fn see(&mut self, seen: &Seen) {
        self.seen.see(seen);
        if let Event::Recorded { record: Record::UsageLimited { .. }, .. } = &seen.event {
            fs::remove_dir_all(self.home.join("state/usage-limits")).unwrap();
        }
    }
}

#[test]
fn limit_that_one_run_has_reached_keeps_others_from_paying_for_it() {
    let user = User::new();
    let first = impatient(vec![limited()]);
    let run = user.start(&first);
    assert!(matches!(run.halt, Some(Halt::UsageLimit { resets_at: Some(_) })), "{:?}", run.halt);
    assert!(user.limits()[0].starts_with(ACCOUNT), "{:?}", user.limits());
    let second = impatient(vec![says(RESULT)]);
    let paused = user.start(&second);
    assert_eq!((paused.status, &paused.halt), (Status::Paused, &run.halt));
    assert_eq!(second.launches(), 0);
}

#[test]
fn run_that_is_started_meanwhile_waits_and_goes_on_when_the_limit_is_lifted() {
    let user = User::new();
    user.start(&impatient(vec![limited()]));
    let stage = Stage::new(&["START.md"], [("START.md", vec![says(RESULT)])]);
    let mut lifter = Lifter { seen: stage.seen.clone(), home: user.home.path() };
    let end = user.engine(&stage).start(stage.started.clone(), &mut lifter).unwrap();
    assert_eq!(end.run.status, Status::Completed);
    let count = |is: fn(&Record) -> bool| stage.records(is);
    assert_eq!(count(|record| matches!(record, Record::UsageLimited { resets_at: Some(_) })), 1);
    assert_eq!(count(|record| matches!(record, Record::UsageLimitLifted)), 1);
    assert_eq!(stage.launches(), 1, "no turn was refused");
}

#[test]
fn run_that_has_reached_the_limit_goes_on_when_another_finds_it_lifted() {
    let user = User::new();
    let stage = Stage::new(&["START.md"], [("START.md", vec![limited(), says(RESULT)])]);
    let mut lifter = Lifter { seen: stage.seen.clone(), home: user.home.path() };
    let end = user.engine(&stage).start(stage.started.clone(), &mut lifter).unwrap();
    assert_eq!(end.run.status, Status::Completed);
    assert_eq!(stage.launches(), 2);
}

#[test]
fn script_does_not_wait_for_a_limit() {
    let user = User::new();
    user.start(&impatient(vec![limited()]));
    let stage = Stage::new(&["START.sh"], [("START.sh", vec![Fate::prints(RESULT)])]);
    assert_eq!(user.start(&stage).status, Status::Completed);
}

#[test]
fn user_who_resumes_a_paused_run_lets_it_try_and_an_answer_lifts_the_limit_for_all() {
    let user = User::new();
    let stage = impatient(vec![limited(), limited(), says(RESULT)]);
    user.start(&stage);
    assert_eq!(user.resume(&stage).status, Status::Paused);
    assert_eq!((stage.launches(), user.limits().len()), (2, 1), "it tried, and was refused");
    assert_eq!(user.resume(&stage).status, Status::Completed);
    assert_eq!(user.limits(), [""; 0]);
    let other = impatient(vec![says(RESULT)]);
    assert_eq!(user.start(&other).status, Status::Completed);
}

#[test]
fn limit_that_is_over_according_to_the_provider_is_not_told_to_others() {
    let user = User::new();
    let line = "{\"error\":\"no\",\"class\":\"usage_limit\",\"resets_at\":1000000000}";
    let stage = Stage::new(&["START.md"], [("START.md", vec![Fate::prints(line), says(RESULT)])]);
    assert_eq!(user.start(&stage).status, Status::Completed);
    assert_eq!(user.limits(), [""; 0]);
}

#[test]
fn run_whose_limit_cannot_be_written_down_waits_by_itself() {
    let user = User::new();
    fs::write(user.home.path().join("state"), "").unwrap();
    let stage = impatient(vec![fails("usage_limit")]);
    assert_eq!(user.start(&stage).halt, Some(Halt::UsageLimit { resets_at: None }));
    let other = impatient(vec![says(RESULT)]);
    assert_eq!(user.start(&other).status, Status::Completed);
}

#[test]
fn limit_in_effect_is_read_back_from_the_file() {
    let user = User::new();
    user.start(&impatient(vec![fails("usage_limit")]));
    let limits = SharedLimits::new(Some(user.dir()));
    let limit = limits.of(&user.limits()[0], clock::now_ms()).unwrap();
    assert_eq!(limit.resets_at, None);
    let wait_ms = limit.until_ms - clock::now_ms();
    assert!((240_000..=300_000).contains(&wait_ms), "about five minutes: {wait_ms}");
}
