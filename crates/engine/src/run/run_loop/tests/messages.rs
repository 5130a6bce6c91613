//! What arrives in the inbox while steps run: interrupts, lost helpers, word of steps that is false or late.

use std::{
    fs, io,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

use raymond_flow::{
    coding_agent::Capabilities,
    id::StateName,
    machine::{CountsAs, Halt, Record, Status, TurnFailure},
    money::Usd,
    payload::Payload,
};

use super::{Warmable, warm_stage};
use crate::{
    Engine, Runner,
    agent::{
        Activity, Agents, CodingAgent, ProgramAgent, Script, ScriptedAgent, ScriptedReply,
        TurnCommand, TurnEnd, TurnOutput, TurnRequest,
    },
    exec::{
        step::HowEnded,
        steps::memory::{Fate, Memory},
    },
    run::{
        events::{Event, StepEnd},
        inbox::Message,
    },
    testing::{RESULT, Recorder, Stage, Talkative, engine, fails, id, says, shell, state},
};

/// What a turn prints that answers with a result.
const ANSWER: &str = r#"{"result":"<result>x</result>"}"#;

#[test]
fn first_interrupt_lets_running_steps_finish_and_starts_nothing_new() {
    let stage = Stage::new(
        &["START.sh", "NEXT.sh"],
        [
            ("START.sh", vec![Fate::prints("<goto>NEXT</goto>").after([Message::Interrupt])]),
            ("NEXT.sh", vec![Fate::prints(RESULT)]),
        ],
    );
    let end = stage.start();
    assert_eq!((end.run.status, end.run.halt), (Status::Paused, Some(Halt::Interrupted)));
    assert!(end.is_interrupted);
    assert_eq!(stage.asked(), ["launch main.1"]);
    // What it did counts: only the next one is started.
    assert_eq!(stage.resume().run.status, Status::Completed);
    assert_eq!(stage.asked(), ["launch main.1", "launch main.2"]);
}

#[test]
fn second_interrupt_ends_running_steps_and_they_are_started_again() {
    let interrupts = [Message::Interrupt, Message::Interrupt];
    let stage = Stage::new(
        &["START.sh"],
        [("START.sh", vec![Fate::Runs.after(interrupts), Fate::prints(RESULT)])],
    );
    assert_eq!(stage.start().run.status, Status::Paused);
    assert_eq!(stage.asked(), ["launch main.1", "end main.1"]);
    assert_eq!(stage.ends(), [("main/1".to_owned(), StepEnd::NoCode)]);
    let end = stage.resume();
    assert_eq!((end.run.status, end.is_interrupted), (Status::Completed, false));
    stage.check_ends();
}

#[test]
fn step_that_is_not_claimed_when_all_are_ended_is_forbidden() {
    let interrupts = [Message::Interrupt, Message::Interrupt];
    let stage = Stage::new(
        &["START.sh"],
        [("START.sh", vec![Fate::Unclaimed.after(interrupts), Fate::prints(RESULT)])],
    );
    assert_eq!(stage.start().run.status, Status::Paused);
    assert_eq!(stage.asked(), ["launch main.1", "forbid main.1"]);
    assert_eq!(stage.resume().run.status, Status::Completed);
    assert_eq!(stage.launches(), 2);
}

#[test]
fn word_of_a_step_that_nobody_claimed_counts_as_a_loss() {
    // The reaper has told of it, so it was there; asking again and again would not help.
    let told = Fate::Unclaimed.after([Message::Step("main.1".to_owned())]);
    let stage = Stage::new(&["START.sh"], [("START.sh", vec![told, Fate::prints(RESULT)])]);
    assert_eq!(stage.start().run.status, Status::Completed);
    assert_eq!(retries(&stage), [CountsAs::Loss]);
    assert_eq!(stage.asked(), ["launch main.1", "forbid main.1", "launch main.2"]);
}

fn retries(stage: &Stage) -> Vec<CountsAs> {
    let counts = |record| match record {
        Record::Retried { counts_as, .. } => Some(counts_as),
        _ => None,
    };
    stage.seen.records().into_iter().filter_map(counts).collect()
}

#[test]
fn keeper_that_is_gone_takes_only_requests_of_its_own_connection() {
    for (gone, is_taken) in [(6, false), (7, true)] {
        // Word of the step follows: whatever is left unclaimed by then counts as a loss.
        let messages = [Message::KeeperGone(gone), Message::Step("main.1".to_owned())];
        let stage = Stage::new(
            &["START.sh"],
            [("START.sh", vec![Fate::Unclaimed.after(messages), Fate::prints(RESULT)])],
        );
        stage.memory.set_connection(7);
        assert_eq!(stage.start().run.status, Status::Completed);
        let expected = if is_taken { CountsAs::Nothing } else { CountsAs::Loss };
        assert_eq!(retries(&stage), [expected], "connection {gone}");
    }
}

#[test]
fn messages_about_steps_that_are_unknown_over_or_running_change_nothing() {
    let names = ["main.1", "main.99", "other.1", "", "!what", "../../etc", "main.1\n"];
    let messages = names.map(|name| Message::Step(name.to_owned()));
    let stage = Stage::new(
        &["START.sh", "NEXT.sh"],
        [
            ("START.sh", vec![Fate::prints("<goto>NEXT</goto>")]),
            ("NEXT.sh", vec![Fate::prints(RESULT).after(messages)]),
        ],
    );
    let end = stage.start();
    assert_eq!(
        (end.run.status, end.run.result.as_ref().and_then(Payload::as_text)),
        (Status::Completed, Some("done"))
    );
    assert_eq!(stage.asked(), ["launch main.1", "launch main.2"]);
    stage.check_ends();
}

#[test]
fn end_of_a_step_that_is_told_twice_counts_once() {
    let twice = [Message::Step("main.1".to_owned()), Message::Step("main.1".to_owned())];
    let stage = Stage::new(
        &["START.md", "NEXT.md"],
        [
            ("START.md", vec![says("<goto>NEXT</goto>").after(twice)]),
            ("NEXT.md", vec![says(RESULT)]),
        ],
    );
    let end = stage.start();
    assert_eq!(end.run.total_cost_usd, Usd::from_dollars(1.0).unwrap());
    assert_eq!(stage.ends().len(), 2);
}

#[test]
fn survivors_of_a_lost_step_are_told() {
    for (count, words) in [(1, "ended 1 process "), (3, "ended 3 processes ")] {
        let lost = Fate::Lost(String::new());
        let stage = Stage::new(&["START.sh"], [("START.sh", vec![lost, Fate::prints(RESULT)])]);
        stage.memory.set_survivors(count);
        stage.start();
        assert!(stage.seen.troubles()[0].contains(words), "{:?}", stage.seen.troubles());
    }
}

#[test]
fn remarks_of_the_runner_reach_the_observer_once() {
    let stage = Stage::new(&["START.sh"], [("START.sh", vec![Fate::prints(RESULT)])]);
    stage.memory.remark("the keeper was woken");
    stage.start();
    assert_eq!(stage.seen.troubles(), ["the keeper was woken"]);
}

#[test]
fn turn_whose_kept_process_dies_before_it_takes_it_is_started_in_another() {
    let stage = warm_stage(
        2,
        [
            ("START.md", vec![says("<goto>NEXT</goto>")]),
            ("NEXT.md", vec![Fate::Unclaimed.after([Message::ProcessGone(1)]), says(RESULT)]),
        ],
    );
    assert_eq!(stage.start().run.status, Status::Completed);
    let asked = stage.asked();
    assert_eq!(asked[..2], ["launch main.1", "give 1 main.2"]);
    assert!(asked[2..].contains(&"forbid main.2".to_owned()), "{asked:?}");
    assert!(asked[2..].contains(&"launch main.3".to_owned()), "{asked:?}");
    stage.check_ends();
}

/// Like [`Warmable`], with a total that makes what a process spends by itself visible.
struct Spending(Warmable);

impl CodingAgent for Spending {
    fn name(&self) -> &'static str {
        "spending"
    }

    fn capabilities(&self) -> Capabilities {
        self.0.capabilities()
    }

    fn command(&self, request: &TurnRequest<'_>) -> Result<TurnCommand, TurnFailure> {
        self.0.command(request)
    }

    fn outcome(&self, output: &TurnOutput<'_>) -> io::Result<TurnEnd> {
        let end = self.0.outcome(output)?;
        Ok(TurnEnd { total: Some("so far".to_owned()), ..end })
    }
}

#[test]
fn what_a_process_spends_after_its_last_turn_is_paid_by_the_next_turn_that_ends() {
    let mut stage = warm_stage(
        2,
        [
            ("START.md", vec![says("<reset>LAST</reset>")]),
            ("LAST.md", vec![says(RESULT).after([Message::ProcessGone(1)])]),
        ],
    );
    fs::write(stage.file("START.md"), "Do it.").unwrap();
    let agent = Spending(Warmable(ProgramAgent::new(shell())));
    stage.agents = Agents::new(vec![Box::new(agent)]);
    let end = stage.start();
    assert_eq!(stage.asked()[..2], ["launch main.1", "let go 1"]);
    // Half a dollar for each turn, and what the first process says that it has spent since.
    assert_eq!(end.run.total_cost_usd, Usd::from_dollars(1.5).unwrap());
}

#[test]
fn observer_that_wants_to_see_what_turns_do_sees_it() {
    for is_curious in [true, false] {
        let talks = Fate::Talks("thinking\nhalf a li".to_owned());
        let mut stage = Stage::new(&["START.md"], [("START.md", vec![talks])]);
        let launches = stage.memory.launches();
        stage.agents = Agents::new(vec![Box::new(Talkative)]);
        stage.seen.is_curious = is_curious;
        let memory = stage.memory.clone();
        let caller = thread::spawn(move || {
            let launch = launches.recv().unwrap();
            let text = format!("thinking\nhalf a line\n{ANSWER}\n");
            memory.finish(&launch.folder, HowEnded::Code(0), &text);
            memory.tell(Message::Door);
            memory.tell(Message::Step("main.1".to_owned()));
        });
        assert_eq!(stage.start().run.status, Status::Completed);
        caller.join().unwrap();
        let said = stage.seen.all(|event| match event {
            Event::Activity { activity: Activity::Says(text), .. } => Some(text.clone()),
            _ => None,
        });
        let is_seen = said.first().is_some_and(|first| first == "thinking");
        assert_eq!(is_seen, is_curious, "{said:?}");
        assert!(!said.contains(&"half a li".to_owned()), "only whole lines are shown");
    }
}

fn scripted(replies: &[(&str, ScriptedReply)]) -> (Stage, ScriptedAgent) {
    let mut script = Script::new();
    for (state, reply) in replies {
        script.entry((*state).to_owned()).or_default().push(reply.clone());
    }
    let mut stage = Stage::new(&["START.md", "NEXT.md"], []);
    let agent = ScriptedAgent::new(script);
    stage.agents = Agents::only(Box::new(agent.clone()));
    (stage, agent)
}

#[test]
fn answer_that_is_there_already_needs_no_program_now_or_later() {
    let later = Duration::from_millis(30);
    let (stage, agent) = scripted(&[
        ("START", ScriptedReply::text("<goto>NEXT</goto>")),
        ("NEXT", ScriptedReply { after: later, ..ScriptedReply::text(RESULT) }),
    ]);
    let end = stage.start();
    assert_eq!(
        (end.run.status, end.run.result.as_ref().and_then(Payload::as_text)),
        (Status::Completed, Some("done"))
    );
    assert_eq!(stage.asked(), [""; 0]);
    let ends = ["main/1", "main/2"].map(|id| (id.to_owned(), StepEnd::Answered));
    assert_eq!(stage.ends(), ends);
    let states: Vec<_> = agent.prompts().into_iter().map(|given| given.state).collect();
    assert_eq!(states, ["START.md", "NEXT.md"].map(StateName::new));
    let durations = stage.seen.all(|event| match event {
        Event::StepEnded { duration_ms, .. } => Some(*duration_ms),
        _ => None,
    });
    assert_eq!(durations, [0, 30], "as long as it would have taken, also in a hurry");
}

#[test]
fn disk_with_less_than_the_reserve_pauses_the_run_before_anything_is_started() {
    let stage = Stage::new(&["START.sh"], [("START.sh", vec![Fate::prints(RESULT)])]);
    let engine = Engine { disk_reserve_bytes: u64::MAX, ..stage.engine() };
    let end = engine.start(stage.started.clone(), &mut stage.seen.clone()).unwrap();
    assert_eq!(end.run.status, Status::Paused);
    assert!(matches!(end.run.halt, Some(Halt::DiskLow { free_bytes }) if free_bytes > 0));
    assert_eq!(stage.launches(), 0);
    assert_eq!(stage.resume().run.status, Status::Completed);
}

#[test]
fn usage_limit_of_one_agent_is_waited_for_by_all() {
    let stage = Stage::new(&["START.sh", "WORK.md"], []);
    fs::write(stage.file("WORK.md"), "Work.").unwrap();
    let mut forks = 0;
    let mut works = 0;
    stage.memory.change(move |launch| {
        if state(launch) == "START.sh" {
            forks += 1;
            return match forks {
                1..=5 => Fate::prints("<fork next=\"START\">WORK</fork>"),
                _ => Fate::prints(RESULT),
            };
        }
        works += 1;
        if works <= 3 { fails("usage_limit") } else { says(RESULT) }
    });
    let end = stage.start();
    assert_eq!((end.run.status, end.run.agents_born), (Status::Completed, 6));
    let limited = stage.records(|record| matches!(record, Record::UsageLimited { .. }));
    let lifted = stage.records(|record| matches!(record, Record::UsageLimitLifted));
    assert!((1..=3).contains(&limited), "{limited}");
    assert_eq!(limited, lifted);
    assert_eq!(end.run.total_cost_usd, Usd::from_dollars(2.5).unwrap());
}

#[test]
fn no_more_turns_run_at_once_than_the_limit_says() {
    let mut stage = Stage::new(&["START.sh", "WORK.md"], []);
    stage.started.limits.max_parallel = 2;
    let running = Arc::new(AtomicUsize::new(0));
    let (mut forks, now) = (0, Arc::clone(&running));
    stage.memory = Memory::new(move |launch| {
        if state(launch) == "START.sh" {
            forks += 1;
            return match forks {
                1..=5 => Fate::prints("<fork next=\"START\">WORK</fork>"),
                _ => Fate::prints(RESULT),
            };
        }
        assert!(now.fetch_add(1, Ordering::SeqCst) < 2, "a third one was started");
        Fate::Runs
    });
    let (memory, launches) = (stage.memory.clone(), stage.memory.launches());
    let caller = thread::spawn(move || {
        for launch in launches.iter().filter(|launch| state(launch) == "WORK.md").take(5) {
            running.fetch_sub(1, Ordering::SeqCst);
            memory.finish(&launch.folder, HowEnded::Code(0), ANSWER);
            memory.tell(Message::Step(launch.name()));
        }
    });
    let end = stage.start();
    caller.join().unwrap();
    assert_eq!((end.run.status, end.run.agents_born), (Status::Completed, 6));
}

#[test]
fn reply_that_never_runs_out_can_be_interrupted() {
    let again = ScriptedReply { times: None, ..ScriptedReply::text("<goto>START</goto>") };
    let (stage, agent) = scripted(&[("START", again)]);
    fs::write(stage.file("START.md"), "Do it.").unwrap();
    let state_dir = stage.state_dir();
    let caller = thread::spawn(move || {
        let agents = Agents::new(Vec::new());
        let engine = engine(state_dir, Runner::threads(), &agents);
        let mut seen = Recorder::default();
        // Until there is a run to be stopped.
        while !matches!(engine.stop(&id(), true, &mut seen), Ok(Some(_))) {
            thread::yield_now();
        }
    });
    assert_eq!(stage.start().run.status, Status::Paused);
    caller.join().unwrap();
    assert!(!agent.prompts().is_empty());
}
