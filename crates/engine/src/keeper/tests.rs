//! A keeper, its reapers and real children. The keeper is this test program in another process: see
//! [`keeper_process`].

#![allow(clippy::unwrap_used, reason = "in tests a panic is the message")]

use std::{
    ffi::OsString,
    fs,
    io::Write as _,
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use raymond_flow::{
    id::{RunId, SessionId},
    machine::SessionPlan,
};
use tempfile::TempDir;

use super::{LaunchKind, StepLaunch, protocol};
use crate::{
    Runner,
    agent::{
        marks::{Mark, TurnMarks},
        warm,
    },
    exec::{
        step::{ExitRecord, HowEnded, StepFolder, StepState},
        steps::Steps,
    },
    run::inbox::{Inbox, Message},
    store::layout::{RunFiles, StateDir},
    sys, testing,
    testing::step_id,
    trust::private,
};

/// Longer than anything here takes on a busy machine.
const PATIENCE: Duration = Duration::from_mins(1);
/// What a turn prints when it is done.
const DONE: &str = r#"{"type":"done"}"#;

/// The keeper of other tests, if it is called with a run's directory: no test of its own.
#[test]
#[ignore = "a process of other tests"]
fn keeper_process() {
    let folder = std::env::args_os().next_back().map(PathBuf::from);
    let Some(folder) = folder.filter(|folder| folder.is_dir()) else { return };
    // A keeper has one thread, and the harness has more. Only this one is in the new process.
    if matches!(sys::fork().unwrap(), sys::ForkSide::Child) {
        sys::exit_now(i32::from(super::serve(&folder).is_err()));
    }
}

/// The command of a keeper. The test harness prints more than a keeper does.
fn program() -> Vec<OsString> {
    let script = "\"$0\" --ignored --exact --quiet \
                  keeper::tests::keeper_process \"$1\" | grep -o --line-buffered 'ready$'";
    let own = std::env::current_exe().unwrap();
    vec!["/bin/sh".into(), "-c".into(), script.into(), own.into()]
}

/// A run whose steps a keeper runs.
struct Place {
    root: TempDir,
    /// Its own: processes are found by it, and other tests run at the same time.
    identity: String,
    files: RunFiles,
    inbox: Inbox,
    steps: Box<dyn Steps>,
}

fn place() -> Place {
    let root = tempfile::tempdir().unwrap();
    let files = StateDir::new(root.path().join(".raymond")).run(&RunId::new("r").unwrap());
    private::create_dir_all(&files.steps).unwrap();
    let inbox = Inbox::open(&files.folder).unwrap();
    let identity = uuid::Uuid::new_v4().simple().to_string();
    let steps = Runner::here(program()).steps(&identity, &files, inbox.outbox());
    Place { root, identity, files, inbox, steps }
}

impl Place {
    fn folder(&self, number: u32) -> StepFolder {
        StepFolder::new(&self.files.steps, &step_id(number)).of_run(&self.identity)
    }

    /// The step with this number, as a script.
    fn script(&self, number: u32, text: &str) -> StepLaunch {
        let program = ["/bin/bash", "-c", text].map(str::to_owned).to_vec();
        let folder = self.folder(number);
        let mark = format!("{}/{}", self.identity, folder.name());
        StepLaunch {
            claim: folder.claim_text(),
            folder: folder.path().to_owned(),
            program,
            environment: vec![("RAYMOND_STEP".to_owned(), mark)],
            without: Vec::new(),
            cwd: self.root.path().to_owned(),
            idle_seconds: 0,
            kind: LaunchKind::Script,
        }
    }

    /// The step with this number, as a turn in `session` that is given `prompt`.
    fn turn(&self, number: u32, session: &str, prompt: &str, text: &str) -> StepLaunch {
        let plan = SessionPlan::Fresh { id: SessionId::new(session) };
        let step = testing::turn_step(testing::turn(plan.clone()));
        let folder = self.folder(number);
        folder.create_turn(&step, prompt, None).unwrap();
        let kind = LaunchKind::Turn {
            stdin: folder.prompt(),
            sessions: warm::lock_files(&self.files.folder, &plan),
            marks: TurnMarks::none().with(Mark::Done, &[("type", "done")]),
            is_kept: true,
        };
        StepLaunch { kind, ..self.script(number, text) }
    }

    /// Waits until the reaper tells of this step. Other messages are passed over.
    #[track_caller]
    fn wait(&self, number: u32) {
        let name = self.folder(number).name();
        while self.next() != Message::Step(name.clone()) {}
    }

    #[track_caller]
    fn next(&self) -> Message {
        self.inbox.next(Some(PATIENCE)).expect("a message comes in time")
    }

    #[track_caller]
    fn ended(&mut self, number: u32) -> ExitRecord {
        self.wait(number);
        let folder = self.folder(number);
        match self.steps.standing(&folder).unwrap() {
            StepState::Ended(record) => record,
            state => panic!("{state:?}"),
        }
    }

    /// Runs a script to its end.
    #[track_caller]
    fn run(&mut self, number: u32, text: &str) -> HowEnded {
        self.steps.launch(&self.script(number, text)).unwrap();
        self.ended(number).how
    }

    fn stdout(&self, number: u32) -> String {
        fs::read_to_string(self.folder(number).stdout()).unwrap()
    }

    fn file(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    /// The reaper of a step that runs.
    #[track_caller]
    fn reaper(&mut self, number: u32) -> sys::Pid {
        let folder = self.folder(number);
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let StepState::Running(Some(reaper)) = self.steps.standing(&folder).unwrap() {
                return reaper;
            }
            assert!(Instant::now() < deadline, "step {number} is not claimed");
            std::thread::yield_now();
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.steps.close(&self.inbox);
    }
}

/// Waits until a file is there, and returns its text.
#[track_caller]
fn wait_for(path: &Path) -> String {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match fs::read_to_string(path) {
            Ok(text) if text.ends_with('\n') => return text.trim().to_owned(),
            _ => assert!(Instant::now() < deadline, "{} does not come", path.display()),
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Waits until a process is gone, or at least dead.
#[track_caller]
fn wait_until_gone(pid: &str) {
    let deadline = Instant::now() + PATIENCE;
    // A process that was killed and not collected yet has no command line any more.
    while fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| !line.is_empty()) {
        assert!(Instant::now() < deadline, "process {pid} lives on");
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn script_runs_in_its_directory_with_its_variables_and_an_end() {
    let mut place = place();
    let mut launch = place.script(1, "pwd; echo \"$OWN|${GONE-unset}|$0\"; echo err >&2; exit 3");
    launch.environment.push(("OWN".to_owned(), "a \"b\" ü".to_owned()));
    launch.environment.push(("PATH".to_owned(), "/nowhere".to_owned()));
    launch.without.push("GONE".to_owned());
    place.steps.launch(&launch).unwrap();
    let record = place.ended(1);
    assert_eq!(record.how, HowEnded::Code(3));
    let cwd = fs::canonicalize(place.root.path()).unwrap();
    let expected = format!("{}\na \"b\" ü|unset|/bin/bash\n", cwd.display());
    assert_eq!(place.stdout(1), expected);
    assert_eq!(record.stdout_bytes, expected.len() as u64);
    assert_eq!(fs::read_to_string(place.folder(1).stderr()).unwrap(), "err\n");
}

#[test]
fn child_that_kills_itself_ends_by_that_signal() {
    let mut place = place();
    assert_eq!(place.run(1, "kill -KILL $$"), HowEnded::Signal(9));
    assert_eq!(place.run(2, "kill -TERM $$"), HowEnded::Signal(15));
    assert_eq!(place.run(3, "exit 0"), HowEnded::Code(0), "the next one is not affected");
}

#[test]
fn program_or_directory_that_is_missing_is_told_in_the_record() {
    let mut place = place();
    let mut launch = place.script(1, "");
    launch.program[0] = "/no/such/program".to_owned();
    place.steps.launch(&launch).unwrap();
    let HowEnded::NotRun(why) = place.ended(1).how else { panic!("it ran") };
    assert!(why.starts_with("/no/such/program in "), "{why}");
    let launch = StepLaunch { cwd: place.file("gone"), ..place.script(2, "") };
    place.steps.launch(&launch).unwrap();
    assert!(matches!(place.ended(2).how, HowEnded::NotRun(_)));
}

#[test]
fn step_that_was_claimed_before_is_not_started() {
    let mut place = place();
    assert!(place.folder(1).forbid().unwrap());
    place.steps.launch(&place.script(1, "touch ran")).unwrap();
    // The reaper takes the next step all the same, and after that the first one cannot come any more.
    assert_eq!(place.run(2, "exit 0"), HowEnded::Code(0));
    assert!(!place.file("ran").exists());
    let StepState::Ended(record) = place.folder(1).state().unwrap() else { panic!("it ran") };
    assert_eq!(record.how, HowEnded::Forbidden);
}

#[test]
fn silent_script_is_ended_and_one_that_prints_is_not() {
    let mut place = place();
    let silent = StepLaunch { idle_seconds: 1, ..place.script(1, "sleep 1000") };
    let busy = "for i in 1 2 3 4 5 6 7 8; do echo $i; sleep 0.2; done";
    let busy = StepLaunch { idle_seconds: 1, ..place.script(2, busy) };
    place.steps.launch(&silent).unwrap();
    place.steps.launch(&busy).unwrap();
    let mut ends = Vec::new();
    while ends.len() < 2 {
        if let Message::Step(name) = place.next() {
            ends.push(name);
        }
    }
    let how = |number| match place.folder(number).state().unwrap() {
        StepState::Ended(record) => record.how,
        state => panic!("{state:?}"),
    };
    assert_eq!(how(1), HowEnded::TimedOut(1));
    assert_eq!(how(2), HowEnded::Code(0));
}

#[test]
fn step_that_is_ended_takes_everything_with_it_that_it_started() {
    let mut place = place();
    // In a session of its own, whose parent is gone.
    let text = "(setsid sleep 1000 & echo $! > left); echo $$ > own; exec sleep 1000";
    place.steps.launch(&place.script(1, text)).unwrap();
    let (left, own) = (wait_for(&place.file("left")), wait_for(&place.file("own")));
    let reaper = place.reaper(1);
    let folder = place.folder(1);
    place.steps.end(&folder, Some(reaper), false);
    assert_eq!(place.ended(1).how, HowEnded::Interrupted);
    wait_until_gone(&left);
    wait_until_gone(&own);
}

#[test]
fn what_a_script_leaves_behind_is_ended_and_does_not_delay_the_next_step() {
    let mut place = place();
    let text = "(setsid sleep 1000 & echo $! > left); echo '<result>x</result>'";
    assert_eq!(place.run(1, text), HowEnded::Code(0));
    let left = wait_for(&place.file("left"));
    assert_eq!(place.run(2, "exit 4"), HowEnded::Code(4));
    wait_until_gone(&left);
}

#[test]
fn child_dies_with_its_reaper_and_the_rest_is_killed_by_the_keeper() {
    let mut place = place();
    let text = "(setsid sleep 1000 & echo $! > left); echo $$ > own; exec sleep 1000";
    place.steps.launch(&place.script(1, text)).unwrap();
    let (left, own) = (wait_for(&place.file("left")), wait_for(&place.file("own")));
    let reaper = place.reaper(1);
    sys::kill(reaper, libc::SIGKILL);
    while place.next() != Message::ReaperGone {}
    wait_until_gone(&own);
    wait_until_gone(&left);
    assert_eq!(place.folder(1).state().unwrap(), StepState::Lost);
    assert_eq!(place.run(2, "exit 0"), HowEnded::Code(0), "the keeper has another");
}

#[test]
fn steps_outlive_a_keeper_that_is_killed_and_the_next_launch_starts_another() {
    let mut place = place();
    place
        .steps
        .launch(&place.script(1, "touch began; until [ -e go ]; do sleep 0.01; done"))
        .unwrap();
    let reaper = place.reaper(1);
    let keeper = wait_for(&place.files.folder.join("keeper.lock"));
    assert_eq!(sys::parent(reaper), keeper.parse().ok());
    sys::kill(keeper.parse().unwrap(), libc::SIGKILL);
    while !matches!(place.next(), Message::KeeperGone(_)) {}
    let connection = place.steps.connection();
    place.steps.connection_is_over(connection);
    assert_eq!(place.run(2, "exit 0"), HowEnded::Code(0));
    assert!(place.steps.connection() > connection);
    assert_ne!(wait_for(&place.files.folder.join("keeper.lock")), keeper);
    fs::write(place.file("go"), "").unwrap();
    assert_eq!(place.ended(1).how, HowEnded::Code(0));
}

#[test]
fn next_orchestrator_finds_the_keeper_and_gives_children_its_own_environment() {
    let mut place = place();
    assert_eq!(place.run(1, "exit 0"), HowEnded::Code(0));
    let keeper = wait_for(&place.files.folder.join("keeper.lock"));
    let mut second =
        Runner::here(program()).steps(&place.identity, &place.files, place.inbox.outbox());
    second.launch(&place.script(2, "exit 5")).unwrap();
    assert_eq!(place.ended(2).how, HowEnded::Code(5));
    assert_eq!(wait_for(&place.files.folder.join("keeper.lock")), keeper);
}

#[test]
fn orchestrator_that_leaves_without_a_word_loses_no_step() {
    let mut place = place();
    place.steps.launch(&place.script(1, "until [ -e go ]; do sleep 0.01; done; echo out")).unwrap();
    place.reaper(1);
    place.steps =
        Runner::here(program()).steps(&place.identity, &place.files, place.inbox.outbox());
    fs::write(place.file("go"), "").unwrap();
    assert_eq!(place.ended(1).how, HowEnded::Code(0));
    assert_eq!(place.stdout(1), "out\n");
}

#[test]
fn close_ends_what_runs_and_the_keeper_leaves() {
    let mut place = place();
    place.steps.launch(&place.script(1, "echo $$ > own; exec sleep 1000")).unwrap();
    let own = wait_for(&place.file("own"));
    let keeper = wait_for(&place.files.folder.join("keeper.lock"));
    let Place { steps, inbox, .. } = &mut place;
    steps.close(inbox);
    wait_until_gone(&own);
    wait_until_gone(&keeper);
    let StepState::Ended(record) = place.folder(1).state().unwrap() else { panic!("it is lost") };
    assert_eq!(record.how, HowEnded::Interrupted);
    assert!(!place.files.folder.join(protocol::KEEPER_SOCKET).exists());
    assert_eq!(place.steps.remarks(), [""; 0]);
}

#[test]
fn reaper_that_is_stopped_is_woken_then_killed_by_force() {
    let mut place = place();
    place.steps.launch(&place.script(1, "exec sleep 1000")).unwrap();
    let reaper = place.reaper(1);
    sys::kill(reaper, libc::SIGSTOP);
    let deadline = Instant::now() + PATIENCE;
    while !sys::is_stopped(reaper) {
        assert!(Instant::now() < deadline);
        std::thread::yield_now();
    }
    place.steps.check();
    assert!(sys::is_stopped(reaper), "once, it may be stopped together with us");
    place.steps.check();
    assert!(place.steps.remarks()[0].contains("was stopped; it was woken"));
    let folder = place.folder(1);
    place.steps.end(&folder, Some(reaper), true);
    assert!(place.steps.remarks()[0].contains("its reaper"));
    while place.next() != Message::ReaperGone {}
    assert_eq!(folder.state().unwrap(), StepState::Lost);
}

#[test]
fn what_a_lost_step_left_is_swept_by_its_mark() {
    let mut place = place();
    // Neither a reaper nor a keeper is there for it.
    let mut child = std::process::Command::new("sleep")
        .arg("1000")
        .env("RAYMOND_STEP", format!("{}/{}", place.identity, place.folder(1).name()))
        .spawn()
        .unwrap();
    let folder = place.folder(1);
    let reaped = std::thread::spawn(move || child.wait().unwrap().code());
    assert_eq!(place.steps.sweep(&folder).unwrap(), 1);
    assert_eq!(reaped.join().unwrap(), None);
    assert_eq!(place.steps.sweep(&folder).unwrap(), 0);
}

#[test]
fn folder_of_another_run_is_moved_away_with_its_reaper() {
    let mut place = place();
    let theirs = StepLaunch { claim: "another".to_owned(), ..place.script(1, "exec sleep 1000") };
    place.steps.launch(&theirs).unwrap();
    let folder = place.folder(1);
    let deadline = Instant::now() + PATIENCE;
    while !matches!(folder.state().unwrap(), StepState::Foreign { reaper: Some(_), .. }) {
        assert!(Instant::now() < deadline);
        std::thread::yield_now();
    }
    let StepState::Foreign { reaper: Some(reaper), .. } = folder.state().unwrap() else {
        panic!("it has just been so")
    };
    assert_eq!(place.steps.standing(&folder).unwrap(), StepState::Unclaimed);
    assert!(place.steps.remarks()[0].contains("belongs to another run and was moved to"));
    wait_until_gone(&reaper.to_string());
    assert_eq!(place.run(1, "exit 0"), HowEnded::Code(0));
}

/// A coding agent that answers each line of its input, and says when it is done.
const ECHO: &str =
    r#"while read -r line; do echo "got $line"; echo '{"type":"done"}'; done; echo bye"#;

#[test]
fn process_takes_one_turn_after_another_and_each_has_its_own_output() {
    let mut place = place();
    let number = place.steps.launch(&place.turn(1, "s", "one\n", ECHO)).unwrap().unwrap();
    assert_eq!(place.ended(1).how, HowEnded::Code(0));
    let second = place.turn(2, "s", "two\n", "exit 9");
    place.steps.give(number, &second).unwrap();
    let record = place.ended(2);
    assert_eq!((record.how, record.stdout_bytes), (HowEnded::Code(0), 24));
    assert_eq!(place.stdout(2), format!("got two\n{DONE}\n"));
    assert_eq!(place.folder(2).first_step(), Some(place.folder(1).name()));
    // The keeper gives it no further launch: it reads the end of its input and exits.
    place.steps.let_go(number);
    while place.next() != Message::ProcessGone(number) {}
    assert!(place.stdout(1).ends_with("bye\n"), "{}", place.stdout(1));
    assert!(place.steps.give(number, &place.turn(3, "s", "three\n", "")).is_err());
}

#[test]
fn process_that_dies_between_turns_is_told() {
    let mut place = place();
    let text = &format!("read -r line; echo $$ > own; echo '{DONE}'; exec sleep 1000");
    let number = place.steps.launch(&place.turn(1, "s", "one\n", text)).unwrap().unwrap();
    place.wait(1);
    let own: sys::Pid = wait_for(&place.file("own")).parse().unwrap();
    sys::kill(own, libc::SIGKILL);
    while place.next() != Message::ProcessGone(number) {}
}

#[test]
fn session_is_led_by_one_process_at_a_time() {
    let mut place = place();
    // The lock is taken after the claim, so the child says when it has begun.
    let text = "echo > began; until [ -e go ]; do sleep 0.01; done; echo first";
    let first = place.turn(1, "s", "one\n", text);
    let second = place.turn(2, "s", "two\n", "ls go; echo second");
    let other = place.turn(3, "t", "three\n", "echo third");
    place.steps.launch(&first).unwrap();
    wait_for(&place.file("began"));
    place.steps.launch(&second).unwrap();
    place.steps.launch(&other).unwrap();
    // Another session does not wait.
    assert_eq!(place.ended(3).how, HowEnded::Code(0));
    fs::write(place.file("go"), "").unwrap();
    place.wait(2);
    assert_eq!(place.stdout(2), "go\nsecond\n", "it began after the first had ended");
}

#[test]
fn turn_that_waits_for_its_session_can_be_ended() {
    let mut place = place();
    place.steps.launch(&place.turn(1, "s", "", "echo > began; exec sleep 1000")).unwrap();
    wait_for(&place.file("began"));
    place.steps.launch(&place.turn(2, "s", "", "echo never")).unwrap();
    let reaper = place.reaper(2);
    let folder = place.folder(2);
    place.steps.end(&folder, Some(reaper), false);
    assert_eq!(place.ended(2).how, HowEnded::Interrupted);
    assert_eq!(place.stdout(2), "");
}

#[test]
fn answer_that_a_turn_finishes_when_it_is_asked_to_end_counts() {
    let mut place = place();
    let text = "trap 'echo answer; exit 0' TERM; echo began > own; while :; do sleep 0.01; done";
    place.steps.launch(&place.turn(1, "s", "", text)).unwrap();
    wait_for(&place.file("own"));
    let (folder, reaper) = (place.folder(1), place.reaper(1));
    place.steps.end(&folder, Some(reaper), false);
    assert_eq!(place.ended(1).how, HowEnded::Code(0));
    assert_eq!(place.stdout(1), "answer\n");
}

#[test]
fn prompt_of_any_size_reaches_the_child_and_one_that_is_not_read_harms_nobody() {
    let mut place = place();
    let prompt = "x".repeat(1024 * 1024);
    place.steps.launch(&place.turn(1, "s", &prompt, "head -c 1048576 | wc -c")).unwrap();
    assert_eq!(place.ended(1).how, HowEnded::Code(0));
    assert_eq!(place.stdout(1).trim(), prompt.len().to_string());
    place.steps.launch(&place.turn(2, "t", &prompt, "exit 7")).unwrap();
    assert_eq!(place.ended(2).how, HowEnded::Code(7));
}

#[test]
fn what_is_no_request_or_no_launch_starts_nothing_and_ends_nobody() {
    let mut place = place();
    assert_eq!(place.run(1, "exit 0"), HowEnded::Code(0));
    let long = "x".repeat(200_000);
    for text in ["", "\n", "garbage\n", "{\"run\":\"5f\"}\n", "{\"half", &long] {
        let mut stream =
            UnixStream::connect(place.files.folder.join(protocol::STEPS_SOCKET)).unwrap();
        let _ = stream.write_all(text.as_bytes());
        drop(stream);
        assert_eq!(place.run(2, "exit 0"), HowEnded::Code(0), "after {text:.20}");
        fs::remove_dir_all(place.folder(2).path()).unwrap();
    }
}

#[test]
fn fifty_steps_at_once_end_once_each() {
    let mut place = place();
    for number in 1..=50 {
        place.steps.launch(&place.script(number, "echo $RAYMOND_STEP")).unwrap();
    }
    let mut names: Vec<_> = Vec::new();
    while names.len() < 50 {
        if let Message::Step(name) = place.next() {
            names.push(name);
        }
    }
    names.sort();
    names.dedup();
    assert_eq!(names.len(), 50);
    for number in 1..=50 {
        assert_eq!(place.stdout(number), format!("{}/main.{number}\n", place.identity));
    }
}

#[test]
fn second_keeper_of_a_run_leaves_at_once() {
    let mut place = place();
    assert_eq!(place.run(1, "exit 0"), HowEnded::Code(0));
    let program = program();
    let output = std::process::Command::new(&program[0])
        .args(&program[1..])
        .arg(&place.files.folder)
        .output()
        .unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "ready\n");
    assert_eq!(place.run(2, "exit 0"), HowEnded::Code(0));
}

#[test]
fn keeper_that_cannot_be_started_is_told_with_its_own_words() {
    let place = place();
    let script = "echo 'it is broken' >&2; exit 1";
    let program = ["/bin/sh", "-c", script].map(OsString::from).to_vec();
    let mut steps =
        Runner::here(program).steps(&place.identity, &place.files, place.inbox.outbox());
    let error = steps.launch(&place.script(1, "exit 0")).unwrap_err().to_string();
    assert!(error.contains("the keeper did not start: it is broken"), "{error}");
    assert_eq!(place.folder(1).state().unwrap(), StepState::Unclaimed);
}
