//! The loop with steps in memory: no process is started, and nothing depends on time.

#![allow(clippy::unwrap_used, reason = "in tests a panic is the message")]

mod durable;
mod found;
mod limited;
mod messages;

use std::{fs, io, path::PathBuf};

use raymond_flow::{
    coding_agent::Capabilities,
    machine::{Halt, Limits, OnUsageLimit, Record, Settings, Status},
    money::Usd,
    payload::Payload,
};

use crate::{
    EngineError,
    agent::{Agents, CodingAgent, ProgramAgent, TurnCommand, TurnEnd, TurnOutput, TurnRequest},
    exec::{
        step::HowEnded,
        steps::memory::{Fate, Memory},
    },
    run::events::StepEnd,
    testing::{RESULT, Stage, fails, id, says, shell, variable},
};

#[test]
fn chain_launches_each_step_once_and_reads_its_result() {
    let stage = Stage::new(
        &["START.sh", "NEXT.sh"],
        [
            ("START.sh", vec![Fate::prints("<goto>NEXT</goto>")]),
            ("NEXT.sh", vec![Fate::prints(RESULT)]),
        ],
    );
    let end = stage.start();
    assert_eq!(
        (end.run.status, end.run.result.as_ref().and_then(Payload::as_text)),
        (Status::Completed, Some("done"))
    );
    assert_eq!(stage.memory.asked(), ["launch main.1", "launch main.2", "close all"]);
    assert_eq!(stage.ends().len(), 2);
    stage.check_ends();
    // One that is completed is told again, and nothing is started.
    assert_eq!(stage.resume().run.result.as_ref().and_then(Payload::as_text), Some("done"));
    assert_eq!(stage.launches(), 2);
}

#[test]
fn run_of_the_same_id_is_refused() {
    let stage = Stage::new(&["START.sh"], [("START.sh", vec![Fate::prints(RESULT)])]);
    stage.start();
    assert!(matches!(stage.try_start(), Err(EngineError::Exists { .. })));
    assert_eq!(stage.launches(), 1);
}

#[test]
fn two_hundred_forks_run_once_each_and_all_are_waited_for() {
    let mut forks = vec![Fate::prints("<fork next=\"START\">WORK</fork>"); 200];
    forks.push(Fate::prints(RESULT));
    let stage = Stage::new(
        &["START.sh", "WORK.sh"],
        [("START.sh", forks), ("WORK.sh", vec![Fate::prints(RESULT)])],
    );
    let end = stage.start();
    assert_eq!((end.run.status, end.run.agents_born), (Status::Completed, 201));
    assert_eq!(stage.launches(), 401);
    let mut asked = stage.asked();
    asked.sort();
    asked.dedup();
    assert_eq!(asked.len(), 401);
    stage.check_ends();
}

#[test]
fn transient_failure_is_retried_in_the_same_session_until_it_passes() {
    let stage = Stage::new(
        &["START.md"],
        [("START.md", vec![fails("transient"), fails("transient"), says(RESULT)])],
    );
    let end = stage.start();
    assert_eq!(end.run.status, Status::Completed);
    assert_eq!(stage.launches(), 3);
    assert_eq!(stage.records(|record| matches!(record, Record::Retried { .. })), 2);
    assert_eq!(end.run.total_cost_usd, Usd::from_dollars(0.5).unwrap());
}

#[test]
fn persistent_failure_fails_the_run_and_a_resume_retries() {
    let stage = Stage::new(&["START.md"], [("START.md", vec![fails("unknown")])]);
    assert_eq!(stage.start().run.status, Status::Failed);
    assert_eq!(stage.launches(), 4, "one start and three retries");
    stage.memory.change(|_| says(RESULT));
    assert_eq!(stage.resume().run.status, Status::Completed);
    assert_eq!(stage.launches(), 5);
    stage.check_ends();
}

#[test]
fn answer_without_a_tag_is_reminded_of_it_in_its_session() {
    let mut stage = Stage::new(&["START.md"], []);
    let sessions = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let noted = std::sync::Arc::clone(&sessions);
    stage.memory = Memory::new(move |launch| {
        let mut sessions = noted.lock().unwrap();
        sessions
            .push((variable(launch, "RAYMOND_SESSION"), variable(launch, "RAYMOND_SESSION_MODE")));
        if sessions.len() < 3 { says("Hm.") } else { says(RESULT) }
    });
    assert_eq!(stage.start().run.status, Status::Completed);
    assert_eq!(stage.records(|record| matches!(record, Record::Reminded { .. })), 2);
    let sessions = sessions.lock().unwrap();
    let modes: Vec<_> = sessions.iter().map(|(_, mode)| &**mode).collect();
    assert_eq!(modes, ["fresh", "resume", "resume"]);
    assert!(sessions.iter().all(|(session, _)| *session == sessions[0].0));
}

#[test]
fn agent_that_ignores_every_reminder_fails() {
    let stage = Stage::new(&["START.md"], [("START.md", vec![says("Hm.")])]);
    assert_eq!(stage.start().run.status, Status::Failed);
    assert_eq!(stage.launches(), 4, "an answer and three reminders");
}

#[test]
fn usage_limit_is_waited_for_and_the_turn_is_taken_again() {
    let stage = Stage::new(&["START.md"], [("START.md", vec![fails("usage_limit"), says(RESULT)])]);
    assert_eq!(stage.start().run.status, Status::Completed);
    assert_eq!(stage.records(|record| matches!(record, Record::UsageLimited { .. })), 1);
    assert_eq!(stage.records(|record| matches!(record, Record::UsageLimitLifted)), 1);
    assert_eq!(stage.launches(), 2);
}

#[test]
fn usage_limit_pauses_the_run_if_it_shall_not_wait() {
    let mut stage =
        Stage::new(&["START.md"], [("START.md", vec![fails("usage_limit"), says(RESULT)])]);
    stage.started.settings.on_usage_limit = OnUsageLimit::Pause;
    let end = stage.start();
    assert_eq!(end.run.status, Status::Paused);
    assert!(!end.is_interrupted);
    assert_eq!(stage.resume().run.status, Status::Completed);
    assert_eq!(stage.launches(), 2);
}

#[test]
fn budget_stops_the_run_and_a_higher_one_lets_it_continue() {
    let mut stage = Stage::new(
        &["START.md", "NEXT.md"],
        [("START.md", vec![says("<goto>NEXT</goto>")]), ("NEXT.md", vec![says(RESULT)])],
    );
    stage.started.limits.budget_usd = Usd::from_dollars(0.4);
    assert_eq!(stage.start().run.status, Status::Stopped);
    assert_eq!(stage.launches(), 1);
    let raise = |_: &mut Settings, limits: &mut Limits| limits.budget_usd = Usd::from_dollars(2.0);
    let end = stage.engine().resume(&id(), raise, &mut stage.seen.clone()).unwrap();
    assert_eq!(end.run.status, Status::Completed);
}

#[test]
fn script_that_fails_halts_the_run() {
    let failed = Fate::Ends(HowEnded::Code(3), String::new());
    let stage = Stage::new(&["START.sh"], [("START.sh", vec![failed, Fate::prints(RESULT)])]);
    let end = stage.start();
    assert_eq!(end.run.status, Status::Failed);
    assert!(matches!(end.run.halt, Some(Halt::ScriptFailed { .. })));
    assert_eq!(stage.ends(), [("main/1".to_owned(), StepEnd::Code(3))]);
    assert_eq!(stage.resume().run.status, Status::Completed);
}

#[test]
fn lost_step_is_swept_and_started_again_under_another_id() {
    let stage = Stage::new(
        &["START.sh"],
        [("START.sh", vec![Fate::Lost("half".to_owned()), Fate::prints(RESULT)])],
    );
    assert_eq!(stage.start().run.status, Status::Completed);
    assert_eq!(stage.asked(), ["launch main.1", "sweep main.1", "launch main.2"]);
    let ends = [("main/1".to_owned(), StepEnd::Lost), ("main/2".to_owned(), StepEnd::Code(0))];
    assert_eq!(stage.ends(), ends);
}

#[test]
fn step_that_is_lost_every_time_fails_after_its_attempts() {
    let stage = Stage::new(&["START.sh"], [("START.sh", vec![Fate::Lost(String::new())])]);
    let end = stage.start();
    assert_eq!(end.run.status, Status::Failed);
    assert_eq!(stage.launches(), 3);
    stage.check_ends();
}

#[test]
fn whole_answer_of_a_lost_turn_counts_and_is_paid_once() {
    let answer = serde_json::json!({ "result": RESULT, "cost_usd": 0.5 }).to_string();
    let stage = Stage::new(&["START.md"], [("START.md", vec![Fate::Lost(answer)])]);
    let end = stage.start();
    assert_eq!(end.run.status, Status::Completed);
    assert_eq!(end.run.total_cost_usd, Usd::from_dollars(0.5).unwrap());
    assert_eq!(stage.launches(), 1);
}

#[test]
fn request_that_is_lost_is_forbidden_and_asked_for_again() {
    let stage = Stage::new(
        &["START.sh"],
        [("START.sh", vec![Fate::vanishes(), Fate::vanishes(), Fate::prints(RESULT)])],
    );
    assert_eq!(stage.start().run.status, Status::Completed);
    let asked = ["launch main.1", "forbid main.1", "launch main.2", "forbid main.2"];
    assert_eq!(stage.asked()[..4], asked);
    assert_eq!(stage.ends()[0], ("main/1".to_owned(), StepEnd::NotStarted));
    stage.check_ends();
}

#[test]
fn requests_that_are_always_lost_end_the_run() {
    let stage = Stage::new(&["START.sh"], [("START.sh", vec![Fate::vanishes()])]);
    let end = stage.start();
    assert_eq!(end.run.status, Status::Failed);
    assert!(stage.launches() < 20, "{}", stage.launches());
}

#[test]
fn outcome_of_a_step_that_outlived_its_orchestrator_is_used() {
    let stage = Stage::new(
        &["START.sh", "WORK.sh"],
        [
            (
                "START.sh",
                vec![
                    Fate::prints("<fork next=\"START\">WORK</fork>"),
                    Fate::Refused(io::ErrorKind::PermissionDenied),
                ],
            ),
            ("WORK.sh", vec![Fate::Runs]),
        ],
    );
    // The orchestrator leaves while a step runs, and another was not even asked for.
    assert!(matches!(stage.try_start(), Err(EngineError::AtWork { .. })));
    let asked = stage.memory.asked();
    assert!(!asked.contains(&"close all".to_owned()), "steps outlive it: {asked:?}");
    stage.memory.finish(stage.step("main_work1.1").path(), HowEnded::Code(0), RESULT);
    stage.memory.change(|_| Fate::prints(RESULT));
    let end = stage.resume();
    assert_eq!(end.run.status, Status::Completed);
    let later: Vec<_> = stage.asked().split_off(asked.len());
    assert_eq!(later, ["forbid main.2", "launch main.3"]);
}

#[test]
fn full_disk_while_a_step_is_launched_pauses_the_run_and_starts_nothing_twice() {
    let stage = Stage::new(
        &["START.sh", "NEXT.sh"],
        [
            ("START.sh", vec![Fate::prints("<goto>NEXT</goto>")]),
            ("NEXT.sh", vec![Fate::Refused(io::ErrorKind::StorageFull), Fate::prints(RESULT)]),
        ],
    );
    let end = stage.start();
    assert_eq!(end.run.status, Status::Paused);
    assert!(matches!(end.run.halt, Some(Halt::DiskLow { .. })));
    assert!(stage.seen.troubles().iter().any(|text| text.contains("is full")));
    assert_eq!(stage.resume().run.status, Status::Completed);
    assert_eq!(stage.asked(), ["launch main.1", "launch main.2", "launch main.3"]);
    stage.check_ends();
}

#[test]
fn full_disk_while_a_step_is_forbidden_leaves_the_run_to_be_resumed() {
    let stage =
        Stage::new(&["START.sh"], [("START.sh", vec![Fate::vanishes(), Fate::prints(RESULT)])]);
    stage.memory.set_full(true);
    let end = stage.start();
    assert!(matches!(end.run.halt, Some(Halt::DiskLow { .. })));
    stage.memory.set_full(false);
    assert_eq!(stage.resume().run.status, Status::Completed);
    let asked = ["launch main.1", "forbid main.1", "forbid main.1", "launch main.2"];
    assert_eq!(stage.asked(), asked);
}

#[test]
fn workflow_that_cannot_be_prepared_fails_without_a_launch() {
    let stage = Stage::new(&["START.md"], []);
    let path: PathBuf = stage.folder.path().join("flow/START.md");
    fs::write(path, "---\nno_such_key: [\n---\n").unwrap();
    assert_eq!(stage.start().run.status, Status::Failed);
    assert_eq!(stage.launches(), 0);
}

#[test]
fn coding_agent_of_a_resumed_run_must_be_configured() {
    let mut stage = Stage::new(&["START.md"], [("START.md", vec![fails("refused")])]);
    stage.started.settings.agent = Some("program".to_owned());
    stage.start();
    stage.agents = Agents::new(vec![Box::new(Warmable(ProgramAgent::new(shell())))]);
    let resumed = stage.engine().resume(&id(), |_, _| {}, &mut stage.seen.clone());
    assert!(matches!(resumed, Err(EngineError::NoAgent { agent, .. }) if agent == "program"));
}

/// A program whose processes can take more than one turn.
struct Warmable(ProgramAgent);

impl CodingAgent for Warmable {
    fn name(&self) -> &'static str {
        "warmable"
    }

    fn capabilities(&self) -> Capabilities {
        self.0.capabilities()
    }

    fn command(
        &self,
        request: &TurnRequest<'_>,
    ) -> Result<TurnCommand, raymond_flow::machine::TurnFailure> {
        let reuse = vec![request.turn.settings.model.clone().unwrap_or_default()];
        Ok(TurnCommand { reuse: Some(reuse), ..self.0.command(request)? })
    }

    fn outcome(&self, output: &TurnOutput<'_>) -> io::Result<TurnEnd> {
        self.0.outcome(output)
    }
}

fn warm_stage(limit: usize, script: impl IntoIterator<Item = (&'static str, Vec<Fate>)>) -> Stage {
    let mut stage = Stage::new(&["START.md", "NEXT.md", "LAST.md"], script);
    stage.agents = Agents::new(vec![Box::new(Warmable(ProgramAgent::new(shell())))]);
    stage.warm_limit = limit;
    stage
}

#[test]
fn next_turn_of_a_session_is_given_to_its_kept_process() {
    let stage = warm_stage(
        2,
        [
            ("START.md", vec![says("<goto>NEXT</goto>")]),
            ("NEXT.md", vec![says("<reset>LAST</reset>")]),
            ("LAST.md", vec![says(RESULT)]),
        ],
    );
    assert_eq!(stage.start().run.status, Status::Completed);
    let asked = stage.asked();
    assert_eq!(asked[..2], ["launch main.1", "give 1 main.2"]);
    // A reset forgets the session, and so the process is not kept.
    assert_eq!(asked[2..4], ["let go 1", "launch main.3"]);
}

#[test]
fn process_is_not_kept_after_a_turn_that_failed_or_without_a_limit() {
    let script = || {
        [
            ("START.md", vec![fails("transient"), says("<goto>NEXT</goto>")]),
            ("NEXT.md", vec![says(RESULT)]),
        ]
    };
    let stage = warm_stage(2, script());
    stage.start();
    let expected = ["launch main.1", "let go 1", "launch main.2", "give 2 main.3"];
    assert_eq!(stage.asked()[..4], expected);
    let stage = warm_stage(0, script());
    stage.start();
    assert_eq!(stage.asked(), ["launch main.1", "launch main.2", "launch main.3"]);
}
