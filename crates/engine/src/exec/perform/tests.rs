//! Effects as the runner sees them: which command and environment a step gets, and what its end means.

#![allow(clippy::unwrap_used, reason = "in tests a panic is the message")]

use std::{fs, io};

use raymond_flow::{
    coding_agent::Capabilities,
    machine::{FailureClass, Halt, Record, Status},
    money::Usd,
};

use crate::{
    Engine,
    agent::{
        Agents, CodingAgent, ProgramAgent, ProgramConfig, TurnCommand, TurnEnd, TurnOutput,
        TurnRequest,
    },
    exec::{step::HowEnded, steps::memory::Fate},
    keeper::{LaunchKind, StepLaunch},
    run::events::{Event, StepEnd},
    testing::{RESULT, Stage, says, shell, state, variable},
};

#[test]
fn script_gets_its_variables_and_none_that_an_outer_run_left() {
    let mut stage = Stage::new(&["START.sh"], []);
    stage.started.input = Some("words".to_owned());
    let launches = stage.note_launches(|_| Fate::prints(RESULT));
    let outer = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let environment = vec![outer("RAYMOND_AGENT_ID", "liar"), outer("EXTRA", "1")];
    let engine = Engine { environment, ..stage.engine() };
    engine.start(stage.started.clone(), &mut stage.seen.clone()).unwrap();
    let launches = launches.lock().unwrap();
    let launch = &launches[0];
    let flow = stage.folder.path().join("flow");
    for (name, value) in [
        ("RAYMOND_WORKFLOW_ID", "r"),
        ("RAYMOND_AGENT_ID", "main"),
        ("RAYMOND_INPUT", "words"),
        ("RAYMOND_STATE_DIR", flow.to_str().unwrap()),
        ("RAYMOND_STATE_FILE", stage.files().state.to_str().unwrap()),
        ("EXTRA", "1"),
    ] {
        assert_eq!(variable(launch, name), value, "{name}");
    }
    let mut names: Vec<_> = launch.environment.iter().map(|(name, _)| name).collect();
    names.sort();
    let all = names.len();
    names.dedup();
    assert_eq!(names.len(), all, "a name stands once: {names:?}");
    for name in ["RAYMOND_RESULT", "RAYMOND_RESULT_FILE", "RAYMOND_INPUT", "RAYMOND_INPUT_FILE"] {
        assert!(launch.without.contains(&name.to_owned()), "{name}");
    }
    assert!(variable(launch, "RAYMOND_STEP").ends_with("/main.1"));
    assert!(launch.program[0].ends_with("bash"), "{:?}", launch.program);
    assert_eq!(launch.cwd, stage.folder.path());
    assert_eq!(launch.idle_seconds, 600);
}

#[test]
fn value_that_no_environment_can_hold_is_in_a_file_of_its_own() {
    for (input, is_file) in [
        ("x".repeat(100 * 1024), false),
        ("x".repeat(100 * 1024 + 1), true),
        ("with\0zero".to_owned(), true),
        (String::new(), false),
    ] {
        let mut stage = Stage::new(&["START.sh"], []);
        stage.started.input = Some(input.clone());
        let launches = stage.note_launches(|_| Fate::prints(RESULT));
        stage.start();
        let launches = launches.lock().unwrap();
        let has = |name: &str| launches[0].environment.iter().any(|(own, _)| own == name);
        assert_eq!(has("RAYMOND_INPUT"), !is_file, "{} bytes", input.len());
        assert_eq!(has("RAYMOND_INPUT_FILE"), is_file, "{} bytes", input.len());
        if is_file {
            let path = variable(&launches[0], "RAYMOND_INPUT_FILE");
            assert_eq!(fs::read_to_string(path).unwrap(), input);
        }
    }
}

#[test]
fn attribute_of_a_fork_cannot_pass_for_a_file_of_the_step() {
    let value = "x".repeat(60 * 1024);
    let mut stage = Stage::new(&["START.sh", "WORK.sh"], []);
    // Zero bytes make it a file, and its name is what a step's own files are called.
    let fork = format!("<fork next=\"NEXT\" stdout=\"{value}\0\" exit=\"\0\">WORK</fork>");
    fs::write(stage.file("NEXT.sh"), "").unwrap();
    let launches = stage.note_launches(move |launch| match &*state(launch) {
        "START.sh" => Fate::prints(&fork),
        _ => Fate::prints(RESULT),
    });
    assert_eq!(stage.start().run.status, Status::Completed);
    let launches = launches.lock().unwrap();
    let work = launches.iter().find(|launch| state(launch) == "WORK.sh").unwrap();
    for (name, value) in [("stdout", format!("{value}\0")), ("exit", "\0".to_owned())] {
        let path = variable(work, &format!("{name}_FILE"));
        assert_eq!(fs::read_to_string(&path).unwrap(), value);
        assert!(path.ends_with(&format!("values/{name}")), "{path}");
    }
}

#[test]
fn turn_gets_its_prompt_session_locks_and_mark() {
    let mut stage = Stage::new(&["START.md", "NEXT.md"], []);
    fs::write(stage.file("NEXT.md"), "---\ntimeout: 5\nmodel: opus\neffort: low\n---\nGo on.")
        .unwrap();
    let launches = stage.note_launches(|launch| match &*state(launch) {
        "START.md" => says("<goto>NEXT</goto>"),
        _ => says(RESULT),
    });
    assert_eq!(stage.start().run.status, Status::Completed);
    let launches = launches.lock().unwrap();
    let [first, second] = &launches[..] else { panic!("{launches:?}") };
    let stdin = |launch: &StepLaunch| match &launch.kind {
        LaunchKind::Turn { stdin, .. } => fs::read_to_string(stdin).unwrap(),
        LaunchKind::Script => panic!("it is a turn"),
    };
    assert!(stdin(first).starts_with("Do it."), "{}", stdin(first));
    assert!(stdin(second).starts_with("Go on."), "{}", stdin(second));
    let own = |launch: &StepLaunch| match &launch.kind {
        LaunchKind::Turn { sessions, .. } => sessions.own.clone(),
        LaunchKind::Script => panic!("it is a turn"),
    };
    assert_eq!(own(first), own(second), "one session, one lock");
    assert_eq!(second.idle_seconds, 5);
    assert_eq!(variable(second, "RAYMOND_TURN_MODEL"), "opus");
    assert_eq!(variable(second, "RAYMOND_TURN_EFFORT"), "low");
    assert!(first.without.contains(&"RAYMOND_TURN_MODEL".to_owned()));
    assert!(variable(second, "RAYMOND_STEP").ends_with("/main.2"));
    assert!(first.program[0].starts_with('/'), "the reaper searches no path: {:?}", first.program);
}

#[test]
fn branch_locks_the_session_that_it_begins_with() {
    let mut stage = Stage::new(&["START.md", "SUB.md", "BACK.md"], []);
    fs::write(stage.file("START.md"), "Do it.").unwrap();
    let launches = stage.note_launches(|launch| match &*state(launch) {
        "START.md" => says("<call return=\"BACK\">SUB</call>"),
        _ => says(RESULT),
    });
    assert_eq!(stage.start().run.status, Status::Completed);
    let launches = launches.lock().unwrap();
    let files = |launch: &StepLaunch| match &launch.kind {
        LaunchKind::Turn { sessions, .. } => sessions.clone(),
        LaunchKind::Script => panic!("it is a turn"),
    };
    let [start, sub, back] = [0, 1, 2].map(|index| files(&launches[index]));
    assert_eq!(start.source, None);
    assert_eq!(sub.source.as_ref(), Some(&start.own));
    assert_ne!(sub.own, start.own);
    assert_eq!((back.own, back.source), (start.own, None));
    assert_eq!(variable(&launches[1], "RAYMOND_SESSION_MODE"), "branch");
    let from = variable(&launches[1], "RAYMOND_SESSION_FROM");
    assert_eq!(from, variable(&launches[0], "RAYMOND_SESSION"));
}

/// What an end means for a run of one state: its status, how often the step was started, and what
/// observers are told of the first one.
type Meaning = (Status, usize, StepEnd);

fn meaning(entry: &str, how: HowEnded, printed: &str) -> Meaning {
    let mut first = Some(Fate::Ends(how, printed.to_owned()));
    let mut stage = Stage::new(&[entry], []);
    let is_turn = entry == "START.md";
    let launches = stage.note_launches(move |_| {
        let well = if is_turn { says(RESULT) } else { Fate::prints(RESULT) };
        first.take().unwrap_or(well)
    });
    let status = stage.start().run.status;
    stage.check_ends();
    let launches = launches.lock().unwrap().len();
    (status, launches, stage.ends()[0].1)
}

#[test]
fn end_of_a_script_means_what_its_record_says() {
    use Status::{Completed, Failed};
    let not_run = || "bash: gone".to_owned();
    for (how, printed, expected) in [
        (HowEnded::Code(0), RESULT, (Completed, 1, StepEnd::Code(0))),
        (HowEnded::Code(0), "no tag", (Failed, 1, StepEnd::Code(0))),
        // A tag of a script that failed does not count.
        (HowEnded::Code(1), RESULT, (Failed, 1, StepEnd::Code(1))),
        (HowEnded::Signal(9), RESULT, (Failed, 1, StepEnd::NoCode)),
        (HowEnded::TimedOut(600), RESULT, (Failed, 1, StepEnd::NoCode)),
        (HowEnded::NotRun(not_run()), "", (Failed, 1, StepEnd::NoCode)),
        // The machine had no room for one more process.
        (HowEnded::NotRunNow(not_run()), "", (Completed, 2, StepEnd::NoCode)),
        (HowEnded::Interrupted, "", (Completed, 2, StepEnd::NoCode)),
        (HowEnded::Forbidden, "", (Completed, 2, StepEnd::NotStarted)),
    ] {
        assert_eq!(meaning("START.sh", how.clone(), printed), expected, "{how:?} {printed}");
    }
}

#[test]
fn end_of_a_turn_means_what_it_said_before_it() {
    use Status::{Completed, Failed};
    let answer = &*serde_json::json!({ "result": RESULT }).to_string();
    let why = || "sh: gone".to_owned();
    for (how, printed, expected) in [
        (HowEnded::Code(0), answer, (Completed, 1, StepEnd::Code(0))),
        // An answer that is paid for counts, however the process ended after it.
        (HowEnded::Code(1), answer, (Completed, 1, StepEnd::Code(1))),
        (HowEnded::Signal(9), answer, (Completed, 1, StepEnd::NoCode)),
        (HowEnded::TimedOut(600), answer, (Completed, 1, StepEnd::NoCode)),
        (HowEnded::Interrupted, answer, (Completed, 1, StepEnd::NoCode)),
        // Without one it is tried again.
        (HowEnded::Code(0), "", (Completed, 2, StepEnd::Code(0))),
        (HowEnded::Signal(9), "half an ans", (Completed, 2, StepEnd::NoCode)),
        (HowEnded::TimedOut(600), "", (Completed, 2, StepEnd::NoCode)),
        (HowEnded::Interrupted, "", (Completed, 2, StepEnd::NoCode)),
        (HowEnded::NotRunNow(why()), "", (Completed, 2, StepEnd::NoCode)),
        (HowEnded::Forbidden, "", (Completed, 2, StepEnd::NotStarted)),
        // A program that cannot be executed will not be executable the next time.
        (HowEnded::NotRun(why()), "", (Failed, 1, StepEnd::NoCode)),
    ] {
        assert_eq!(meaning("START.md", how.clone(), printed), expected, "{how:?} {printed}");
    }
}

#[test]
fn timeout_of_a_turn_is_told_with_its_seconds() {
    let silent = Fate::Ends(HowEnded::TimedOut(42), String::new());
    let stage = Stage::new(&["START.md"], [("START.md", vec![silent])]);
    assert_eq!(stage.start().run.status, Status::Failed);
    assert!(
        stage.failures()[0].contains("printed nothing for 42 seconds"),
        "{:?}",
        stage.failures()
    );
    let is_timeout = |record: &Record| {
        matches!(record, Record::Failed { class: Some(FailureClass::TimedOut), .. })
    };
    assert_eq!(stage.records(is_timeout), 1);
}

#[test]
fn cost_of_a_turn_that_fails_or_is_lost_counts() {
    let paid = |more: &str| format!("{{\"cost_usd\":0.25,{more}}}");
    for fate in [
        Fate::prints(&paid("\"error\":\"no\",\"class\":\"transient\"")),
        Fate::Lost(paid("\"error\":\"no\"")),
    ] {
        let stage = Stage::new(&["START.md"], [("START.md", vec![fate.clone(), says(RESULT)])]);
        let end = stage.start();
        assert_eq!(end.run.total_cost_usd, Usd::from_dollars(0.75).unwrap(), "{fate:?}");
        assert_eq!(stage.launches(), 2);
    }
}

#[test]
fn program_that_is_not_installed_fails_the_agent_without_a_launch() {
    for (program, named) in [
        (vec!["no-such-program-at-all".to_owned()], "`no-such-program-at-all`"),
        (Vec::new(), "`program`"),
    ] {
        let mut stage = Stage::new(&["START.md"], []);
        let config = ProgramConfig { program, ..shell() };
        stage.agents = Agents::new(vec![Box::new(ProgramAgent::new(config))]);
        assert_eq!(stage.start().run.status, Status::Failed);
        assert_eq!(stage.launches(), 0);
        let failures = stage.failures();
        assert!(failures[0].contains(&format!("{named} is not installed")), "{failures:?}");
    }
}

/// A coding agent that notes whether each of its turns follows a certain model.
struct Noting {
    program: ProgramAgent,
    follows: std::rc::Rc<std::cell::RefCell<Vec<bool>>>,
}

impl CodingAgent for Noting {
    fn name(&self) -> &'static str {
        "noting"
    }

    fn capabilities(&self) -> Capabilities {
        self.program.capabilities()
    }

    fn command(
        &self,
        request: &TurnRequest<'_>,
    ) -> Result<TurnCommand, raymond_flow::machine::TurnFailure> {
        self.follows.borrow_mut().push(request.follows_a_model);
        self.program.command(request)
    }

    fn outcome(&self, output: &TurnOutput<'_>) -> io::Result<TurnEnd> {
        self.program.outcome(output)
    }
}

#[test]
fn turn_knows_whether_the_one_before_it_in_its_session_asked_for_a_model() {
    let mut stage = Stage::new(
        &["START.md", "OPUS.md", "PLAIN.md", "SUB.md", "BACK.md", "LAST.md"],
        [
            ("START.md", vec![says("<goto>OPUS</goto>")]),
            ("OPUS.md", vec![says("<goto>PLAIN</goto>")]),
            // A script in between does not change the session.
            ("PLAIN.md", vec![says("<call return=\"BACK\">SUB</call>")]),
            ("SUB.md", vec![says("<result>sub</result>")]),
            ("BACK.md", vec![says("<reset>LAST</reset>")]),
            ("LAST.md", vec![says(RESULT)]),
        ],
    );
    fs::write(stage.file("START.md"), "Do it.").unwrap();
    fs::write(stage.file("OPUS.md"), "---\nmodel: opus\n---\nDo it.").unwrap();
    fs::write(stage.file("BACK.md"), "---\nmodel: opus\n---\nDo it.").unwrap();
    let follows = std::rc::Rc::default();
    let program = ProgramAgent::new(shell());
    let agent = Noting { program, follows: std::rc::Rc::clone(&follows) };
    stage.agents = Agents::new(vec![Box::new(agent)]);
    assert_eq!(stage.start().run.status, Status::Completed);
    // PLAIN follows OPUS; SUB branches off PLAIN, which asked for none; LAST is fresh.
    assert_eq!(*follows.borrow(), [false, false, true, false, false, false]);
}

#[test]
fn warning_about_a_state_is_given_once_however_often_it_is_entered() {
    let stage = Stage::new(
        &["START.md"],
        [("START.md", vec![says("<goto>START</goto>"), says("<goto>START</goto>"), says(RESULT)])],
    );
    fs::write(stage.file("START.md"), "---\nno_such_key: 1\n---\nSay {{no_such_variable}}.")
        .unwrap();
    assert_eq!(stage.start().run.status, Status::Completed);
    let warnings = stage.seen.all(|event| match event {
        Event::StateFileWarning(warning) => Some(warning.to_string()),
        _ => None,
    });
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    let unknown = stage.seen.all(|event| match event {
        Event::UnknownVariables { names, state, .. } => Some((state.to_string(), names.clone())),
        _ => None,
    });
    assert_eq!(unknown, [("START.md".to_owned(), vec!["no_such_variable".to_owned()])]);
}

#[test]
fn full_disk_while_a_turn_is_prepared_pauses_the_run() {
    let stage = Stage::new(
        &["START.md"],
        [("START.md", vec![Fate::Refused(io::ErrorKind::QuotaExceeded), says(RESULT)])],
    );
    let end = stage.start();
    assert!(matches!(end.run.halt, Some(Halt::DiskLow { .. })));
    assert_eq!(stage.resume().run.status, Status::Completed);
    stage.check_ends();
}
