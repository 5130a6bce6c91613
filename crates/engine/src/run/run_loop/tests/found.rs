//! What an orchestrator finds that comes after another: steps in every state, and journals that lost their end.

use std::{fs, io, sync::mpsc, thread};

use raymond_flow::{
    machine::{CountsAs, Halt, Record, Status},
    money::Usd,
    payload::Payload,
};

use crate::{
    Engine, EngineError,
    agent::Agents,
    exec::{
        step::HowEnded,
        steps::memory::{Fate, Memory},
    },
    load,
    run::{events::Event, inbox::Message},
    store::journal::Journal,
    testing::{RESULT, Stage, id, says, variable},
};

/// A run whose orchestrator has died while its first step was running.
fn died_while_running(files: &[&str]) -> Stage {
    let stage = Stage::new(files, []);
    // A look that fails ends the orchestrator in the middle of everything.
    stage.memory.change({
        let memory = stage.memory.clone();
        move |_| {
            // Not in this thread, which holds the memory.
            let memory = memory.clone();
            thread::spawn(move || {
                memory.set_blind(Some(io::ErrorKind::PermissionDenied));
                memory.tell(Message::ReaperGone);
            });
            Fate::Runs
        }
    });
    assert!(matches!(stage.try_start(), Err(EngineError::AtWork { what: "look at a step", .. })));
    stage.memory.set_blind(None);
    stage.memory.change(|_| Fate::prints("a second start"));
    stage
}

#[test]
fn step_that_still_runs_is_waited_for_and_not_started_again() {
    let stage = died_while_running(&["START.sh"]);
    let (memory, folder) = (stage.memory.clone(), stage.step("main.1").path().to_owned());
    let (looked, looks) = mpsc::channel();
    stage.memory.tell_when_found_running(looked);
    let caller = thread::spawn(move || {
        looks.recv().unwrap();
        memory.finish(&folder, HowEnded::Code(0), RESULT);
        memory.tell(Message::Step("main.1".to_owned()));
    });
    let end = stage.resume();
    caller.join().unwrap();
    assert_eq!(
        (end.run.status, end.run.result.as_ref().and_then(Payload::as_text)),
        (Status::Completed, Some("done"))
    );
    assert_eq!(stage.launches(), 1);
    let found = stage.seen.all(|event| match event {
        Event::StepStarted { is_found, .. } => Some(*is_found),
        _ => None,
    });
    assert_eq!(found, [false, true]);
}

#[test]
fn step_that_has_ended_meanwhile_counts_whatever_its_end_was() {
    let stage = died_while_running(&["START.sh"]);
    let folder = stage.step("main.1");
    stage.memory.finish(folder.path(), HowEnded::Code(3), "");
    let end = stage.resume();
    assert_eq!(end.run.status, Status::Failed);
    assert!(matches!(end.run.halt, Some(Halt::ScriptFailed { .. })));
    assert_eq!(stage.launches(), 1);
}

#[test]
fn step_that_failed_on_a_full_disk_pauses_the_run_and_is_started_again() {
    let stage = died_while_running(&["START.sh"]);
    stage.memory.finish(stage.step("main.1").path(), HowEnded::Code(1), "");
    let engine = Engine { disk_reserve_bytes: u64::MAX, ..stage.engine() };
    let end = engine.resume(&id(), |_, _| {}, &mut stage.seen.clone()).unwrap();
    assert_eq!(end.run.status, Status::Paused);
    assert!(matches!(end.run.halt, Some(Halt::DiskLow { .. })));
    assert!(stage.seen.troubles()[0].contains("failed while the disk of"));
    let records = stage.seen.records();
    let halted = records.iter().position(|record| matches!(record, Record::Halted { .. }));
    let ended = records.iter().position(|record| matches!(record, Record::Ended { .. }));
    assert!(halted < ended, "a step that starts because of the outcome would find no room");
    stage.memory.change(|_| Fate::prints(RESULT));
    assert_eq!(stage.resume().run.status, Status::Completed);
}

#[test]
fn step_that_ended_well_on_a_full_disk_counts() {
    let stage = died_while_running(&["START.sh"]);
    stage.memory.finish(stage.step("main.1").path(), HowEnded::Code(0), RESULT);
    let engine = Engine { disk_reserve_bytes: u64::MAX, ..stage.engine() };
    let end = engine.resume(&id(), |_, _| {}, &mut stage.seen.clone()).unwrap();
    assert_eq!(
        (end.run.status, end.run.result.as_ref().and_then(Payload::as_text)),
        (Status::Completed, Some("done"))
    );
}

#[test]
fn run_whose_steps_run_is_cancelled_by_ending_them() {
    let stage = died_while_running(&["START.sh"]);
    let before = stage.asked().len();
    let run = stage.engine().cancel(&id(), &mut stage.seen.clone()).unwrap();
    assert_eq!(run.status, Status::Cancelled);
    assert_eq!(stage.asked()[before..], ["end main.1"]);
    let again = stage.engine().cancel(&id(), &mut stage.seen.clone()).unwrap();
    assert_eq!(again.status, Status::Cancelled, "it can be asked for twice");
}

#[test]
fn run_is_cancelled_although_what_a_step_printed_cannot_be_read() {
    let stage = died_while_running(&["START.md"]);
    let folder = stage.step("main.1");
    stage.memory.finish(folder.path(), HowEnded::Code(0), "");
    fs::remove_file(folder.stdout()).unwrap();
    fs::create_dir(folder.stdout()).unwrap();
    let resumed = stage.engine().resume(&id(), |_, _| {}, &mut stage.seen.clone());
    assert!(matches!(resumed, Err(EngineError::AtWork { what: "read an outcome", .. })));
    let run = stage.engine().cancel(&id(), &mut stage.seen.clone()).unwrap();
    assert_eq!(run.status, Status::Cancelled);
}

#[test]
fn run_is_cancelled_although_its_archive_or_its_coding_agent_is_gone() {
    let mut stage = died_while_running(&["START.md"]);
    fs::remove_dir_all(stage.folder.path().join("flow")).unwrap();
    stage.agents = Agents::new(Vec::new());
    let run = stage.engine().cancel(&id(), &mut stage.seen.clone()).unwrap();
    assert_eq!(run.status, Status::Cancelled);
}

#[test]
fn steps_that_end_with_the_orchestrator_are_closed_when_it_fails() {
    let stage = Stage::new(
        &["START.sh"],
        [("START.sh", vec![Fate::Refused(io::ErrorKind::PermissionDenied)])],
    );
    stage.memory.set_mortal();
    assert!(stage.try_start().is_err());
    assert_eq!(stage.memory.asked(), ["launch main.1", "close all"]);
}

/// Cuts the journal back to its first `lines` lines, as a crash of the machine may.
fn lose_all_but(stage: &Stage, lines: usize) {
    let journal = stage.files().journal;
    let text = fs::read(&journal).unwrap();
    let kept: Vec<_> = text.split_inclusive(|byte| *byte == b'\n').take(lines).collect();
    fs::write(&journal, kept.concat()).unwrap();
}

#[test]
fn journal_that_lost_its_end_finds_everything_again_and_starts_nothing_twice() {
    let stage = Stage::new(
        &["START.md", "NEXT.md", "LAST.sh"],
        [
            ("START.md", vec![says("<goto>NEXT</goto>")]),
            ("NEXT.md", vec![says("<goto>LAST</goto>")]),
            ("LAST.sh", vec![Fate::prints(RESULT)]),
        ],
    );
    let whole = stage.start().run;
    let lines = Journal::read(&stage.files().journal).unwrap().len();
    for left in (1..lines).rev() {
        lose_all_but(&stage, left);
        let again = stage.resume().run;
        assert_eq!(again.status, Status::Completed, "{left} lines");
        assert_eq!(again.result, whole.result, "{left} lines");
        assert_eq!(again.total_cost_usd, Usd::from_dollars(1.0).unwrap(), "{left} lines");
        assert_eq!(stage.launches(), 3, "{left} lines");
    }
}

#[test]
fn session_of_a_turn_that_was_really_started_counts() {
    let stage = Stage::new(&["START.md"], []);
    stage.memory.change(|_| says(RESULT));
    stage.start();
    lose_all_but(&stage, 1);
    // What the lost records said is in the intent of the step.
    let intent = stage.step("main.1").of_run(&identity(&stage)).intent().unwrap().unwrap();
    stage.resume();
    let intended: Vec<_> = stage
        .seen
        .records()
        .into_iter()
        .filter_map(|record| match record {
            Record::Intended { step, .. } => Some(*step),
            _ => None,
        })
        .collect();
    let [first, second] = &intended[..] else { panic!("{intended:?}") };
    assert_eq!(second, &intent);
    assert_eq!(first, second);
}

fn identity(stage: &Stage) -> String {
    load(&stage.state_dir(), &id()).unwrap().run.identity
}

#[test]
fn intent_that_cannot_be_understood_does_not_stop_the_run() {
    let stage = Stage::new(&["START.md"], []);
    stage.memory.change(|_| says(RESULT));
    stage.start();
    lose_all_but(&stage, 1);
    fs::write(stage.step("main.1").path().join("intent"), "{\"half").unwrap();
    assert_eq!(stage.resume().run.status, Status::Completed);
    assert_eq!(stage.launches(), 1, "its outcome is there");
}

#[test]
fn turn_of_a_coding_agent_that_is_gone_keeps_its_answer_until_it_is_back() {
    let mut stage = died_while_running(&["START.md"]);
    let answer = serde_json::json!({ "result": RESULT, "cost_usd": 0.5 }).to_string();
    stage.memory.finish(stage.step("main.1").path(), HowEnded::Code(0), &answer);
    let agents = std::mem::replace(&mut stage.agents, Agents::new(Vec::new()));
    let resumed = stage.engine().resume(&id(), |_, _| {}, &mut stage.seen.clone());
    assert!(matches!(resumed, Err(EngineError::AtWork { what: "read an outcome", .. })));
    stage.agents = agents;
    let end = stage.resume();
    assert_eq!(end.run.status, Status::Completed);
    assert_eq!(end.run.total_cost_usd, Usd::from_dollars(0.5).unwrap());
}

#[test]
fn outcome_waits_until_the_workflow_can_be_read() {
    let stage = died_while_running(&["START.sh", "NEXT.sh"]);
    stage.memory.finish(stage.step("main.1").path(), HowEnded::Code(0), "<goto>NEXT</goto>");
    let flow = stage.folder.path().join("flow");
    let away = stage.folder.path().join("away");
    fs::rename(&flow, &away).unwrap();
    let resumed = stage.engine().resume(&id(), |_, _| {}, &mut stage.seen.clone());
    let listing = "list the files of the workflow";
    assert!(matches!(resumed, Err(EngineError::AtWork { what, .. }) if what == listing));
    fs::rename(&away, &flow).unwrap();
    stage.memory.change(|_| Fate::prints(RESULT));
    assert_eq!(stage.resume().run.status, Status::Completed);
    assert_eq!(stage.launches(), 2, "the first one was not started again");
}

#[test]
fn turn_that_is_lost_without_a_trace_recovers_its_session() {
    let mut stage = Stage::new(&["START.md"], []);
    let mut count = 0;
    let launches = stage.note_launches(move |_| {
        count += 1;
        if count == 1 { Fate::Lost("half an ans".to_owned()) } else { says(RESULT) }
    });
    assert_eq!(stage.start().run.status, Status::Completed);
    let launches = launches.lock().unwrap();
    let of = |name: &str| -> Vec<String> {
        launches.iter().map(|launch| variable(launch, name)).collect()
    };
    assert_eq!(of("RAYMOND_RECOVERS"), ["", "1"]);
    let sessions = of("RAYMOND_SESSION");
    assert_eq!(sessions[0], sessions[1]);
    let counted =
        stage.records(|record| matches!(record, Record::Retried { counts_as: CountsAs::Loss, .. }));
    assert_eq!(counted, 1);
}

#[test]
fn output_files_that_are_gone_make_a_turn_a_lost_one() {
    let stage = died_while_running(&["START.md"]);
    let folder = stage.step("main.1");
    stage.memory.lose(folder.path());
    let _ = fs::remove_file(folder.stdout());
    stage.memory.change(|_| says(RESULT));
    assert_eq!(stage.resume().run.status, Status::Completed);
    assert_eq!(stage.launches(), 2);
}

#[test]
fn intents_of_turns_are_durable_before_they_are_launched() {
    let mut stage = Stage::new(&["START.md"], []);
    let folders = stage.note_launches(|launch| {
        assert!(launch.folder.join("intent").is_file());
        assert!(launch.folder.join("prompt").is_file());
        says(RESULT)
    });
    assert_eq!(stage.start().run.status, Status::Completed);
    assert_eq!(folders.lock().unwrap().len(), 1);
}

#[test]
fn journal_has_the_intent_before_the_step_is_launched() {
    let mut stage = Stage::new(&["START.sh"], []);
    let journal = stage.files().journal;
    stage.memory = Memory::new(move |_| {
        let entries = Journal::read(&journal).unwrap();
        let mut records = entries.iter().flat_map(|entry| &entry.records);
        let is_there = records.any(|record| matches!(record, Record::Intended { .. }));
        if is_there { Fate::prints(RESULT) } else { Fate::Ends(HowEnded::Code(9), String::new()) }
    });
    assert_eq!(stage.start().run.status, Status::Completed);
}
