//! What a person meets: settings, commands about runs, progress, errors.

use std::{
    fs,
    io::Write as _,
    process::{Command, Stdio},
    time::Duration,
};

use crate::env::{Project, Ran, WithAgent as _, agent_table, wait_until};

const PATIENCE: Duration = Duration::from_mins(1);

/// A script that waits for a file, and one that follows it.
const WAITS: [(&str, &str); 2] = [
    ("START.sh", "touch began; while [ ! -e go ]; do sleep 0.01; done; echo '<goto>END</goto>'"),
    ("END.sh", "echo '<result>the end</result>'"),
];

fn simple() -> Project {
    Project::new([
        ("START.sh", "echo '<goto>END</goto>'"),
        ("END.sh", "echo '<result>the end</result>'"),
    ])
}

fn with_env(project: &Project, arguments: &[&str], variables: &[(&str, &str)]) -> Ran {
    let mut command = project.command(arguments);
    command.envs(variables.iter().copied());
    Ran::of(&command.output().unwrap())
}

#[test]
fn command_line_overrides_environment_overrides_file() {
    let project = simple();
    project.write(".raymond/config.toml", "budget = 1\nmax_parallel = 2\nretries = 7\n");
    let shown = with_env(&project, &["config"], &[("RAYMOND_BUDGET", "2")]).stdout;
    let line = |name: &str| {
        let line = shown.lines().find(|line| line.starts_with(name)).unwrap();
        line.split_whitespace().skip(1).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(line("budget"), "2 RAYMOND_BUDGET");
    assert!(line("max_parallel").ends_with("config.toml line 2"), "{shown}");
    assert_eq!(line("warm"), "4 default");

    let variables = [("RAYMOND_BUDGET", "2"), ("RAYMOND_RETRIES", "8")];
    let arguments = ["start", "flow", "--id", "r", "--budget", "3"];
    with_env(&project, &arguments, &variables).completed("the end");
    let journal = project.read(".raymond/workflows/r.journal");
    assert!(journal.contains("\"budget_usd\":3.0"), "{journal}");
    assert!(journal.contains("\"max_retries\":8") && journal.contains("\"max_parallel\":2"));
}

#[test]
fn wrong_setting_names_its_file_and_line() {
    let project = simple();
    project.write(".raymond/config.toml", "# mine\n\nbugdet = 3\n");
    let ran = project.raymond(&["flow"]);
    let ran =
        ran.failed(2, "config.toml line 3: unknown setting `bugdet` (did you mean `budget`?)");
    assert!(!ran.stderr.contains("panicked"));
}

#[test]
fn init_writes_a_file_without_effect_and_never_overwrites_it() {
    let project = simple();
    let path = project.raymond(&["init"]).stdout;
    assert!(path.trim_end().ends_with(".raymond/config.toml"), "{path}");
    project.raymond(&["flow"]).completed("the end");
    project.raymond(&["init"]).failed(2, "already exists");
}

#[test]
fn log_shows_events_with_their_times() {
    let project = simple();
    project.raymond(&["start", "flow", "--id", "r"]).completed("the end");
    let log = project.raymond(&["log", "r"]).stdout;
    let lines: Vec<_> = log.lines().collect();
    assert!(lines.iter().any(|line| line.ends_with("main  START → END  goto")), "{log}");
    assert!(lines.last().unwrap().ends_with("run completed"), "{log}");
    assert!(lines.iter().all(|line| line.starts_with("20")), "{log}");
    project.raymond(&["log", "nobody"]).failed(2, "there is no run `nobody`");
}

#[test]
fn log_follows_a_run_to_its_end() {
    let project = Project::new(WAITS);
    let run = project.spawn(&["start", "flow", "--id", "r"]);
    wait_until("the step began", PATIENCE, || project.file("began").exists());
    let log = project.spawn(&["log", "r", "--follow"]);
    project.write("go", "");
    let log = Ran::of(&log.wait_with_output().unwrap());
    assert!(log.stdout.contains("run completed"), "{}", log.stdout);
    Ran::of(&run.wait_with_output().unwrap()).completed("the end");
}

#[test]
fn cancel_ends_a_run_of_another_process() {
    let project = Project::new(WAITS);
    let run = project.spawn(&["start", "flow", "--id", "r"]);
    wait_until("the step began", PATIENCE, || project.file("began").exists());
    assert_eq!(project.raymond(&["cancel", "r", "--yes"]).code, 0);
    Ran::of(&run.wait_with_output().unwrap()).failed(1, "cancelled");
    project.wait_until_quiet();
    assert!(project.raymond(&["status", "r"]).stdout.contains("cancelled"));
    project.raymond(&["run", "r"]).failed(1, "is cancelled");
    // Twice does no harm.
    assert_eq!(project.raymond(&["cancel", "r", "--yes"]).code, 0);
}

#[test]
fn cancel_ends_what_a_dead_orchestrator_left() {
    let project = Project::new(WAITS);
    let mut run = project.spawn(&["start", "flow", "--id", "r"]);
    wait_until("the step began", PATIENCE, || project.file("began").exists());
    run.kill().unwrap();
    run.wait().unwrap();
    assert_eq!(project.raymond(&["cancel", "r", "--yes"]).code, 0);
    project.wait_until_quiet();
    assert!(project.raymond(&["list"]).stdout.contains("cancelled"));
}

#[test]
fn ended_run_cannot_be_cancelled() {
    let project = simple();
    project.raymond(&["start", "flow", "--id", "r"]).completed("the end");
    project.raymond(&["cancel", "r", "--yes"]).failed(2, "there is nothing to cancel");
}

#[test]
fn detached_run_continues_in_the_background() {
    let project = Project::new(WAITS);
    let id = project.raymond(&["start", "flow", "--detach"]).stdout;
    let id = id.trim_end();
    assert!(id.starts_with("flow-"), "{id}");
    wait_until("the step began", PATIENCE, || project.file("began").exists());
    project.write("go", "");
    let log = project.spawn(&["log", id, "--follow"]);
    let log = Ran::of(&log.wait_with_output().unwrap());
    assert!(log.stdout.contains("run completed"), "{}", log.stdout);
    project.wait_until_quiet();
    assert!(project.read(&format!(".raymond/workflows/{id}.log")).contains("the end"));
}

#[test]
fn detached_run_has_the_input_that_was_piped_in() {
    let project = Project::new([("START.sh", "echo \"<result>$RAYMOND_INPUT</result>\"")]);
    let mut command = project.command(&["start", "flow", "--detach", "--id", "r", "--input", "-"]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"from a pipe").unwrap();
    assert_eq!(Ran::of(&child.wait_with_output().unwrap()).stdout, "r\n");
    let log = project.spawn(&["log", "r", "--follow"]);
    let log = Ran::of(&log.wait_with_output().unwrap());
    assert!(log.stdout.contains("result: from a pipe"), "{}", log.stdout);
    project.wait_until_quiet();
}

#[test]
fn id_derived_from_an_odd_directory_name_is_never_an_option() {
    let project = Project::new([]);
    for name in ["-v", "日本", "--help", "…"] {
        let folder = project.file(name);
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join("START.sh"), "echo '<result>x</result>'").unwrap();
        project.raymond(&["start", &format!("./{name}")]).completed("x");
    }
    let list = project.raymond(&["list"]);
    let ids = list.stdout.lines().skip(1).filter_map(|line| line.split(' ').next());
    let ids: Vec<_> = ids.collect();
    assert_eq!(ids.len(), 4, "{list:?}");
    for id in ids {
        assert!(!id.starts_with('-'), "{id}");
        assert_eq!(project.raymond(&["status", id]).code, 0, "{id}");
    }
}

#[test]
fn json_is_one_event_a_line_and_nothing_else() {
    let project = simple();
    let ran = project.raymond(&["start", "flow", "--id", "r", "--json"]);
    let events: Vec<serde_json::Value> =
        ran.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let kinds: Vec<_> = events.iter().map(|event| event["event"].as_str().unwrap()).collect();
    assert_eq!(kinds[0], "opened");
    assert_eq!(kinds.iter().filter(|kind| **kind == "step_started").count(), 2);
    let moves = events.iter().filter(|event| event["event"] == "transition");
    let moves: Vec<_> = moves.map(|event| (&event["tag"], &event["from"], &event["to"])).collect();
    assert_eq!(moves[0], (&"goto".into(), &"START.sh".into(), &"END.sh".into()));
    assert!(kinds.contains(&"finished"));
    assert!(events.iter().all(|event| event["at"].as_u64().is_some()));
    let closed = events.last().unwrap();
    assert_eq!(closed["event"], "closed");
    assert_eq!(closed["status"], "completed");
    assert_eq!(closed["result"], "the end");
}

#[test]
fn json_begins_with_what_the_run_was_started_or_resumed_with() {
    let project = Project::new([("START.sh", "test -e go || exit 3; echo '<result>x</result>'")]);
    let events = |arguments: &[&str]| -> Vec<serde_json::Value> {
        let lines = project.raymond(arguments).stdout;
        lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    let started = ["start", "flow", "--id", "r", "--json", "--input", "words", "--budget", "3"];
    let events_of_start = events(&started);
    let names: Vec<_> = events_of_start.iter().take(2).map(|event| &event["event"]).collect();
    assert_eq!(names, ["opened", "started"]);
    let started = &events_of_start[1];
    assert_eq!((&started["run"], &started["entry"]), (&"r".into(), &"START.sh".into()));
    assert_eq!(
        (&started["input"], started["limits"]["budget_usd"].as_f64()),
        (&"words".into(), Some(3.0))
    );
    project.write("go", "");
    let events_of_run = events(&["run", "r", "--json", "--budget", "4"]);
    let names: Vec<_> = events_of_run.iter().take(2).map(|event| &event["event"]).collect();
    assert_eq!(names, ["opened", "resumed"]);
    assert_eq!(events_of_run[1]["limits"]["budget_usd"].as_f64(), Some(4.0));
}

#[test]
fn json_of_a_completed_run_reports_its_status() {
    let project = simple();
    project.raymond(&["start", "flow", "--id", "r"]).completed("the end");
    let again = project.raymond(&["run", "r", "--json"]);
    let last: serde_json::Value =
        serde_json::from_str(again.stdout.lines().last().unwrap()).unwrap();
    assert_eq!(
        (&last["event"], &last["run"], &last["result"]),
        (&"closed".into(), &"r".into(), &"the end".into())
    );
    let failing = Project::new([("START.sh", "exit 3")]);
    let ran = failing.raymond(&["start", "flow", "--id", "f", "--json"]);
    let last: serde_json::Value = serde_json::from_str(ran.stdout.lines().last().unwrap()).unwrap();
    assert_eq!((ran.code, &last["status"]), (1, &"failed".into()));
}

#[test]
fn input_can_come_from_standard_input() {
    let project = Project::new([("START.sh", "echo \"<result>$RAYMOND_INPUT</result>\"")]);
    let mut command = project.command(&["flow", "--input", "-", "--quiet"]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"piped").unwrap();
    assert_eq!(Ran::of(&child.wait_with_output().unwrap()).stdout, "piped\n");
}

#[test]
fn log_file_has_all_lines_even_with_quiet() {
    let project = simple();
    let ran = project.raymond(&["flow", "--quiet", "--log-file", "log.txt"]);
    assert_eq!(ran.completed("the end").stderr, "");
    let log = project.read("log.txt");
    assert!(log.contains("main  START (step 1)") && log.contains("completed"), "{log}");
}

#[test]
fn status_shows_agents_cost_and_next_command() {
    let project = Project::new([
        ("START.sh", "echo '<call return=\"BACK\">SUB</call>'"),
        ("SUB.sh", "echo oops >&2; exit 3"),
        ("BACK.sh", "echo '<result>x</result>'"),
    ]);
    assert_eq!(project.raymond(&["start", "flow", "--id", "r"]).code, 1);
    let status = project.raymond(&["status", "r"]).stdout;
    for part in [
        "status    ✗ failed",
        "main  SUB  failed: ",
        "returns to BACK",
        "Cost by state",
        "1 step ",
        "Fix the failure, then resume: raymond resume r",
    ] {
        assert!(status.contains(part), "{part:?} is not in:\n{status}");
    }
}

#[test]
fn completions_and_manual_page_are_printed() {
    let project = simple();
    for shell in ["bash", "zsh", "fish"] {
        let script = project.raymond(&["completions", shell]).stdout;
        assert!(script.contains("recover") && script.contains("dangerously"), "{shell}");
    }
    assert!(project.raymond(&["man"]).stdout.contains(".TH raymond"));
}

#[test]
fn version_shows_the_commit() {
    let version = simple().raymond(&["--version"]).stdout;
    assert!(version.starts_with("raymond 0."), "{version}");
}

#[test]
fn live_progress_shows_a_line_for_each_agent() {
    let project = Project::new([(
        "START.sh",
        "touch began; while [ ! -e go ]; do sleep 0.01; done; echo '<result>x</result>'",
    )]);
    // `script` gives the program a terminal.
    let command = format!("{} flow", env!("CARGO_BIN_EXE_raymond"));
    let mut terminal = Command::new("script");
    terminal.args(["-qfec", &command, "screen"]).current_dir(project.path());
    terminal.env_remove("NO_COLOR").env("TERM", "xterm").stdin(Stdio::null());
    let Ok(child) = terminal.stdout(Stdio::null()).spawn() else {
        let _ = writeln!(std::io::stderr(), "skipped: there is no `script` command");
        return;
    };
    let screen = || {
        String::from_utf8_lossy(&fs::read(project.file("screen")).unwrap_or_default()).into_owned()
    };
    wait_until("the agent has a line", PATIENCE, || screen().contains("runs its script"));
    wait_until("there is a total", PATIENCE, || screen().contains("1 agent"));
    project.write("go", "");
    assert!(child.wait_with_output().unwrap().status.success());
    let screen = screen();
    assert!(screen.contains("\u{1b}]0;raymond: START"), "no title in {screen:?}");
    assert!(screen.contains("result: x"), "{screen:?}");
}

#[test]
fn demo_runs_without_a_key_and_says_that_no_model_is_asked() {
    let ran = simple().raymond(&["demo"]);
    let ran = ran.completed("The shop has a search box.");
    for part in ["No model is asked", "reminded: ", "s (try 2)", "main_work3", "Claude Code"] {
        assert!(ran.stderr.contains(part), "{part:?} is not in:\n{}", ran.stderr);
    }
}

#[test]
fn mistake_in_a_state_is_shown_with_a_caret_under_it() {
    let project = Project::new([
        ("START.md", "---\nallowed_transitions:\n  - { tag: goto, traget: END }\n---\nx"),
        ("END.md", "x"),
    ]);
    let ran = project.raymond(&["flow", "--no-lint"]).failed(1, "START.md:3:18");
    assert!(ran.stderr.contains("3 |   - { tag: goto, traget: END }"), "{}", ran.stderr);
    assert!(ran.stderr.contains("  |                  ^^^^^^"), "{}", ran.stderr);
}

#[test]
fn detached_run_cannot_reuse_the_id_of_another_run() {
    let project = simple();
    project.raymond(&["start", "flow", "--id", "r"]).completed("the end");
    project
        .raymond(&["start", "flow", "--id", "r", "--detach"])
        .failed(2, "there is a run `r` already");
}

#[test]
fn detached_run_takes_a_long_input() {
    let project = Project::new([("START.sh", "echo \"<result>${#RAYMOND_INPUT}</result>\"")]);
    let input = "x".repeat(90_000);
    let ran = project.raymond(&["start", "flow", "--id", "r", "--detach", "--input", &input]);
    assert_eq!(ran.stdout, "r\n", "{}", ran.stderr);
    let log = Ran::of(&project.spawn(&["log", "r", "-f"]).wait_with_output().unwrap());
    assert!(log.stdout.contains("result: 90000"), "{}", log.stdout);
    project.wait_until_quiet();
}

#[test]
fn recover_takes_the_options_that_are_typed() {
    let project = Project::new(WAITS);
    let mut run = project.spawn(&["start", "flow", "--id", "r"]);
    wait_until("the step began", PATIENCE, || project.file("began").exists());
    run.kill().unwrap();
    run.wait().unwrap();
    project.write("go", "");
    project.raymond(&["recover", "--budget", "nan"]).failed(2, "is not an amount of dollars");
    project.raymond(&["recover", "--max-iterations", "1"]).failed(3, "1 state was entered");
    project.raymond(&["run", "r", "--max-iterations", "9"]).completed("the end");
}

#[test]
fn run_is_not_resumed_with_another_coding_agent() {
    let project = Project::new([("START.md", "x")]);
    project.write("agent.sh", "cat > /dev/null; exit 1");
    let settings = format!("agent = 'program'\n{}", agent_table("bash agent.sh"));
    project.write(".raymond/config.toml", &settings);
    let ran = project.raymond(&["start", "flow", "--id", "r", "--retries", "0", "--no-lint"]);
    assert_eq!(ran.code, 1);
    project.write(".raymond/config.toml", "");
    project.raymond(&["run", "r"]).failed(2, "the coding agent `program`, which is not configured");
    project.write("agent.sh", "cat > /dev/null; echo '{\"result\":\"<result>x</result>\"}'");
    project.write(".raymond/config.toml", &settings);
    project.raymond(&["run", "r"]).completed("x");
}

#[test]
fn limit_that_stops_a_run_is_reported_even_with_quiet() {
    let project = simple();
    project.raymond(&["flow", "-q", "--max-iterations", "1"]).failed(3, "1 state was entered");
}

#[test]
fn run_can_be_cancelled_despite_a_mistake_in_the_settings() {
    let project = Project::new(WAITS);
    let run = project.spawn(&["start", "flow", "--id", "r"]);
    wait_until("the step began", PATIENCE, || project.file("began").exists());
    project.write(".raymond/config.toml", "nonsense = 1");
    assert_eq!(project.raymond(&["cancel", "r", "--yes"]).code, 0);
    assert_eq!(Ran::of(&run.wait_with_output().unwrap()).code, 1);
    project.wait_until_quiet();
}

#[test]
fn failed_script_shows_the_end_of_its_output_and_the_file() {
    let project = Project::new([(
        "START.sh",
        "for i in $(seq 1 50); do echo \"line $i\" >&2; done; printf 'cannot open \\033[2J the door' >&2; exit 3",
    )]);
    let ran = project.raymond(&["start", "flow", "--id", "r"]).failed(1, "exited with code 3");
    let outputs = [
        ran.stderr,
        project.raymond(&["status", "r"]).stdout,
        project.raymond(&["log", "r"]).stdout,
        project.raymond(&["run", "r", "--quiet"]).stderr,
    ];
    for (shown, step) in outputs.iter().zip(["main.1", "main.1", "main.1", "main.2"]) {
        for part in
            ["│ line 50", "│ cannot open \\u{1b}[2J the door", &format!("steps/{step}/stderr")]
        {
            assert!(shown.contains(part), "{part:?} is not in:\n{shown}");
        }
        assert!(!shown.contains("line 41\n") && shown.contains("line 42\n"), "{shown}");
    }
}

#[test]
fn script_that_prints_no_tag_shows_what_it_printed() {
    let project = Project::new([("START.sh", "echo almost done")]);
    let ran = project.raymond(&["flow"]).failed(1, "│ almost done");
    assert!(ran.stderr.contains("main.1/stdout"), "{}", ran.stderr);
}

#[test]
fn advice_is_a_complete_command_that_works() {
    let project = Project::new([("START.md", "x"), ("END.md", "y")]);
    let raymond = |arguments: &[&str]| {
        Ran::of(&project.command(arguments).agent("bash agent.sh").output().unwrap())
    };
    let reply = "cat > /dev/null; case $RAYMOND_STATE in START*) t='<goto>END</goto>' ;; \
                 *) t='<result>done</result>' ;; esac; \
                 printf '{\"result\": \"%s\", \"cost_usd\": 0.25}\\n' \"$t\"";
    project.write("agent.sh", reply);
    let arguments =
        ["start", "flow", "--no-lint", "--id", "r", "--budget", "0.2", "--data-dir", "my data"];
    let ran = raymond(&arguments).failed(3, "$0.25 of $0.20 are spent");
    let advice = ran.stderr.lines().find_map(|line| line.split_once("raymond resume ")).unwrap().1;
    assert_eq!(advice, "r --data-dir 'my data' --budget 0.50");
    for shown in [&ran.stderr, &raymond(&["status", "--data-dir", "my data"]).stdout] {
        assert!(!shown.contains(" ID"), "{shown}");
    }
    let words = ["resume", "r", "--data-dir", "my data", "--budget", "0.50"];
    raymond(&words).completed("done");
}

#[test]
fn failure_of_a_quiet_run_names_the_run() {
    let project = Project::new([("START.sh", "exit 3")]);
    let ran = project.raymond(&["start", "flow", "--id", "abc", "-q"]);
    let ran = ran.failed(1, "run abc failed").failed(1, "raymond resume abc");
    assert!(!ran.stderr.contains("step 1"), "{}", ran.stderr);
}

#[test]
fn mistyped_commands_and_paths_are_explained() {
    let project = simple();
    for (arguments, message, hint) in [
        (&["lst"][..], "`lst` is neither a command nor a file or directory here", "raymond list"),
        (&["statuss", "foo"], "`statuss` is neither a command", "raymond status"),
        (&["flwo"], "`flwo` is neither a command nor a file", "did you mean `flow`?"),
        (
            &["start", "flow/STRAT.sh"],
            "there is no file or directory `flow/STRAT.sh`",
            "`flow/START.sh`",
        ),
        (&["run", "nowhere"], "`nowhere` is neither", "raymond --help"),
        (&["status"], "there are no runs in .raymond yet", "start one"),
        (&["resume"], "there are no runs in .raymond yet", "start one"),
        (&["log", "x"], "there are no runs in .raymond yet", "start one"),
        (&["flow", "more"], "`flow` is a workflow: only options may follow it", "--input TEXT"),
        (&["lint", "flwo"], "there is no file or directory `flwo`", "did you mean `flow`?"),
        (&["pack", "nowhere"], "there is no file or directory `nowhere`", "a workflow is"),
        (&["test", "nowhere"], "there is no file or directory `nowhere`", "a workflow is"),
        (&["start", "."], "no entry state", "raymond new NAME"),
        (&["flow", "--budget", "-1"], "is not an amount of dollars", "for instance 5"),
        (&["flow", "--budget", "abc"], "is not an amount of dollars", "for instance 5"),
        (&["flow", "--id", "a/b"], "a run id has only letters", "--id my-run"),
        (&["flow", "--data-dir", "/dev/null"], "/dev/null is not a directory", "--data-dir DIR"),
        (&["new", "flow"], "flow already exists", "choose another name"),
    ] {
        let ran = project.raymond(arguments).failed(2, message).failed(2, hint);
        // There is no run, so nothing may be promised about one.
        assert!(!ran.stderr.contains("lost") && !ran.stderr.contains("raymond resume"), "{ran:?}");
    }
    assert!(!project.file(".raymond/workflows").exists(), "nothing was written");
}

#[test]
fn errors_about_files_and_runs_say_what_to_do_next() {
    let project = simple();
    project.raymond(&["flow", "--id", "one"]).completed("the end");
    project.write("broken.zip", "no archive");
    project.write(".raymond/workflows/empty.journal", "");
    for (arguments, message, hint) in [
        (
            &["show", "one", "main.9"][..],
            "run `one` has no step or agent `main.9`",
            "raymond log one --all",
        ),
        (&["broken.zip"], "broken.zip is not a workflow", "raymond pack DIR"),
        (&["status", "empty"], "the journal is empty", "raymond prune --status unreadable"),
        (&["start", "flow", "--id", "one"], "there is a run `one` already", "raymond status one"),
    ] {
        let ran = project.raymond(arguments);
        assert_ne!(ran.code, 0, "{ran:?}");
        assert!(ran.stderr.contains(message) && ran.stderr.contains(hint), "{ran:?}");
    }
    project.raymond(&["init"]);
    project.raymond(&["init"]).failed(2, "already exists").failed(2, "raymond config");
    // The command that is advised removes the run that cannot be read.
    let prune = ["prune", "--status", "unreadable", "--older-than", "0s", "--yes"];
    assert_eq!(project.raymond(&prune).code, 0);
    assert!(!project.file(".raymond/workflows/empty.journal").exists());
}

#[test]
fn raymond_without_arguments_prints_help() {
    let ran = simple().raymond(&[]);
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""));
    assert!(
        ran.stdout.contains("Usage: raymond") && ran.stdout.contains("resume"),
        "{}",
        ran.stdout
    );
}

#[test]
fn run_starts_a_path_and_resumes_an_id() {
    let project = simple();
    project.raymond(&["run", "flow", "--id", "first"]).completed("the end");
    project.raymond(&["run", "first"]).completed("the end");
    project.raymond(&["run", "fir"]).completed("the end");
    project.raymond(&["run", "first", "--input", "x"]).failed(2, "--input is for new ones");
    // A run of exactly that name counts more than a folder, as it always has.
    project.raymond(&["run", "flow", "--id", "flow"]).completed("the end");
    let ran = project.raymond(&["run", "flow"]).completed("the end");
    assert!(ran.stderr.contains("raymond start flow"), "{}", ran.stderr);
    assert_eq!(project.raymond(&["list"]).stdout.lines().count(), 3);
}

#[test]
fn ids_may_be_abbreviated_and_default_to_the_latest_run() {
    let project = simple();
    for id in ["alpha-1", "alpha-2", "beta"] {
        project.raymond(&["start", "flow", "--id", id]).completed("the end");
    }
    assert!(project.raymond(&["status", "b"]).stdout.starts_with("run       beta\n"));
    assert!(project.raymond(&["status"]).stdout.starts_with("run       beta\n"));
    assert!(project.raymond(&["log", "alpha-2"]).stdout.contains("START → END"));
    assert!(project.raymond(&["log"]).stdout.contains("START → END"));
    project.raymond(&["resume"]).completed("the end");
    project.raymond(&["status", "alpha"]).failed(2, "alpha-1, alpha-2");
    project.raymond(&["status", "alpah-1"]).failed(2, "did you mean `alpha-1`?");
    project.raymond(&["resume", "zzz"]).failed(2, "raymond list");
}

#[test]
fn list_reads_only_the_ends_of_journals() {
    let project = Project::new([
        ("START.sh", "echo '<goto>MORE</goto>'"),
        ("MORE.sh", "echo '<goto>END</goto>'"),
        ("END.sh", "echo '<result>x</result>'"),
    ]);
    project.raymond(&["flow", "--id", "r"]).completed("x");
    let journal = project.file(".raymond/workflows/r.journal");
    let mut bytes = std::fs::read(&journal).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&journal, bytes).unwrap();
    project.raymond(&["status", "r"]).failed(1, "is damaged at byte ");
    let list = project.raymond(&["list"]);
    assert!(list.code == 0 && list.stdout.contains("✓ completed"), "{list:?}");
}

#[test]
fn list_has_a_header_and_the_newest_run_first() {
    let project = simple();
    let empty = project.raymond(&["list"]);
    assert_eq!((empty.code, empty.stdout.as_str()), (0, ""));
    assert!(empty.stderr.contains("There are no runs in .raymond yet"), "{}", empty.stderr);
    assert_eq!(project.raymond(&["list", "--json"]).stdout.trim(), "[]");
    project.raymond(&["start", "flow", "--id", "old"]).completed("the end");
    project.raymond(&["start", "flow", "--id", "a-newer-one", "--max-iterations", "1"]);
    let list = project.raymond(&["list"]).stdout;
    let rows: Vec<Vec<_>> = list.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows[0], ["RUN", "STATUS", "AGE", "COST", "WORKFLOW"]);
    assert_eq!((rows[1][0], rows[1][2], rows[1][5]), ("a-newer-one", "stopped", "flow"));
    assert_eq!((rows[2][0], rows[2][2], rows[2][4]), ("old", "completed", "$0.00"));
    let json: serde_json::Value =
        serde_json::from_str(&project.raymond(&["list", "--json"]).stdout).unwrap();
    assert_eq!((&json[0]["run"], &json[0]["status"]), (&"a-newer-one".into(), &"stopped".into()));
}

#[test]
fn status_and_log_can_be_printed_as_json() {
    let project = Project::new([("START.sh", "echo '<goto>END</goto>'"), ("END.sh", "exit 3")]);
    project.raymond(&["start", "flow", "--id", "r"]).failed(1, "exited with code 3");
    let status = project.raymond(&["status", "r", "--json"]).stdout;
    let status: serde_json::Value = serde_json::from_str(&status).unwrap();
    assert_eq!(
        (&status["status"], &status["next"]),
        (&"failed".into(), &"raymond resume r".into())
    );
    assert_eq!(status["agents"][0]["state"], "END.sh");
    assert_eq!(status["agents"][0]["phase"], "failed");
    let log = project.raymond(&["log", "r", "--json"]).stdout;
    let events: Vec<serde_json::Value> =
        log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(events[0]["event"], "started");
    let moved = events.iter().find(|event| event["event"] == "transition").unwrap();
    assert_eq!((&moved["from"], &moved["to"]), (&"START.sh".into(), &"END.sh".into()));
    assert!(events.iter().all(|event| event["at"].as_u64().is_some()));
}

#[test]
fn log_that_follows_exits_like_the_run() {
    let project =
        Project::new([("START.sh", "touch began; while [ ! -e go ]; do sleep 0.01; done; exit 3")]);
    let run = project.spawn(&["start", "flow", "--id", "r"]);
    wait_until("the step began", PATIENCE, || project.file("began").exists());
    let log = project.spawn(&["log", "r", "--follow"]);
    project.write("go", "");
    let log = Ran::of(&log.wait_with_output().unwrap());
    assert_eq!(log.code, 1, "{log:?}");
    run.wait_with_output().unwrap();
    project.raymond(&["log", "r"]).completed(project.raymond(&["log", "r"]).stdout.trim_end());
}

#[test]
fn demo_prints_events() {
    let ran = simple().raymond(&["demo", "--json"]);
    let events: Vec<serde_json::Value> =
        ran.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let closed = events.last().unwrap();
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""));
    assert_eq!(
        (&closed["event"], &closed["result"]),
        (&"closed".into(), &"The shop has a search box.".into())
    );
}

#[test]
fn unknown_variable_that_looks_like_a_setting_causes_a_warning() {
    let project = simple();
    let ran = with_env(&project, &["list"], &[("RAYMOND_BUGDET", "3"), ("RAYMOND_BUDGET", "3")]);
    let warning = "warning: RAYMOND_BUGDET is set, but there is no such setting (did you mean RAYMOND_BUDGET?)";
    assert!(ran.stderr.contains(warning), "{}", ran.stderr);
    assert_eq!(ran.stderr.matches("warning").count(), 1, "{}", ran.stderr);
    // A script that calls raymond has what Raymond itself has set.
    let inner =
        format!("{} list 2> inner; echo '<result>x</result>'", env!("CARGO_BIN_EXE_raymond"));
    let project = Project::new([("START.sh", inner.as_str())]);
    project.raymond(&["flow", "--input", "y"]).completed("x");
    assert!(!project.read("inner").contains("warning"), "{}", project.read("inner"));
}

#[test]
fn data_dir_option_sets_the_directory_for_runs() {
    let project = simple();
    project.raymond(&["start", "flow", "--id", "r", "--data-dir", "here"]).completed("the end");
    assert!(project.file("here/workflows/r.journal").exists());
    assert!(project.raymond(&["list", "--data-dir", "here"]).stdout.contains("completed"));
}

#[test]
fn run_is_not_cancelled_by_accident() {
    let project = Project::new([("START.sh", "exit 3")]);
    project.raymond(&["start", "flow", "--id", "r"]).failed(1, "exited with code 3");
    let ran = project.raymond(&["cancel", "r"]).failed(2, "it was not cancelled");
    assert!(ran.stderr.contains("raymond cancel r --yes"), "{}", ran.stderr);
    assert!(project.raymond(&["status", "r"]).stdout.contains("✗ failed"));
    let ran = project.raymond(&["cancel", "r", "--yes"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.stderr.contains("Cancelled run r"), "{}", ran.stderr);
    project.raymond(&["resume", "r"]).failed(1, "is cancelled");
}

#[test]
fn rounds_of_a_polling_loop_are_folded_into_one_line() {
    let script = "n=$(cat n 2>/dev/null || echo 0); echo $((n + 1)) > n; \
                  if [ $n -lt 40 ]; then echo '<goto>START</goto>'; else echo '<goto>A</goto>'; fi";
    let pair = "n=$(cat m 2>/dev/null || echo 0); echo $((n + 1)) > m; \
                if [ $n -lt 20 ]; then echo '<goto>B</goto>'; else echo '<result>x</result>'; fi";
    let project =
        Project::new([("START.sh", script), ("A.sh", pair), ("B.sh", "echo '<goto>A</goto>'")]);
    let ran = project.raymond(&["start", "flow", "--id", "r"]).completed("x");
    for shown in [&ran.stderr, &project.raymond(&["log", "r"]).stdout] {
        assert_eq!(shown.matches("START → START  goto").count(), 2, "{shown}");
        assert_eq!(shown.matches("START → START  38 more rounds").count(), 1, "{shown}");
        assert_eq!(shown.matches("A → B  goto").count(), 2, "{shown}");
        assert_eq!(shown.matches("A → B → A  18 more rounds").count(), 1, "{shown}");
        assert!(shown.lines().count() < 15, "{shown}");
    }
    let all = project.raymond(&["log", "r", "--all"]).stdout;
    assert_eq!(all.matches("START → START  goto").count(), 40, "{all}");
}

#[test]
fn forks_are_shown_with_attributes_and_agents_in_natural_order() {
    let mut files = vec![("W.sh".to_owned(), "echo '<result>w</result>'".to_owned())];
    for number in 1..=11 {
        let next = if number == 11 { "END".to_owned() } else { format!("F{}", number + 1) };
        let fork = format!("echo '<fork next=\"{next}\" item=\"n{number}\">W</fork>'");
        files.push((format!("F{number}.sh"), fork));
    }
    files.push(("END.sh".to_owned(), "echo '<result>x</result>'".to_owned()));
    let project = Project::new(files.iter().map(|(name, text)| (name.as_str(), text.as_str())));
    let ran = project.raymond(&["start", "flow/F1.sh", "--id", "r"]).completed("x");
    assert!(ran.stderr.contains("F2 → W  fork main_w2 item=n2, goes on at F3"), "{}", ran.stderr);
    let status = project.raymond(&["status", "r"]).stdout;
    let (_, agents) = status.split_once("Cost by agent").unwrap();
    let names: Vec<_> = agents.lines().filter_map(|line| line.split_whitespace().next()).collect();
    assert_eq!(names[..4], ["main", "main_w1", "main_w2", "main_w3"], "{status}");
    let row = agents.lines().find(|line| line.contains("main_w1 ")).unwrap();
    assert_eq!(row.split_whitespace().collect::<Vec<_>>().join(" "), "main_w1 n1 $0.00 1 step 0s");
    let log = project.raymond(&["log", "r"]).stdout;
    assert!(log.contains("main_w2  n2  W  result: w"), "{log}");
}

#[test]
fn items_of_workers_are_named_wherever_workers_are() {
    let split =
        "for n in 1 2 3; do echo \"<fork next=\\\"ALL\\\" file=\\\"src/$n.rs\\\">W</fork>\"; done";
    let project = Project::new([
        ("START.sh", split),
        ("W.md", "work at {{file}}"),
        ("ALL.sh", "echo '<join>END</join>'"),
        ("END.sh", "echo '<result>x</result>'"),
    ]);
    project.write("agent.sh", "echo '{\"result\": \"<result>w</result>\", \"cost_usd\": 0.1}'");
    let mut command = project.command(&["flow", "--id", "r"]);
    let ran = command.agent("bash agent.sh").output().unwrap();
    let ran = Ran::of(&ran).completed("x");
    let fork = "fork 3 workers, main_w1 (src/1.rs) to main_w3 (src/3.rs)";
    assert!(ran.stderr.contains(fork), "{}", ran.stderr);
    assert!(ran.stderr.contains("main_w2  src/2.rs  W  result: w"), "{}", ran.stderr);
    for command in ["log", "status", "cost"] {
        let said = project.raymond(&[command, "r"]).stdout;
        assert!(said.contains("main_w2  src/2.rs"), "{command}: {said}");
    }
    let cost = project.raymond(&["cost", "r", "--json"]).stdout;
    let cost: serde_json::Value = serde_json::from_str(&cost).unwrap();
    let items = cost["frames"].as_array().unwrap().iter().map(|frame| frame["item"].clone());
    assert!(items.collect::<Vec<_>>().contains(&serde_json::json!("src/3.rs")), "{cost}");
}

#[test]
fn worker_that_has_only_an_input_is_named_by_it() {
    let split = "for n in 1 2; do echo \"<fork next=\\\"ALL\\\" input=\\\"look at src/$n.rs\\\">W</fork>\"; done";
    let project = Project::new([
        ("START.sh", split),
        ("W.sh", "echo \"<result>$RAYMOND_INPUT</result>\""),
        ("ALL.sh", "echo '<join>END</join>'"),
        ("END.sh", "echo '<result>x</result>'"),
    ]);
    let ran = project.raymond(&["flow", "--id", "r"]).completed("x");
    let fork = "fork 2 workers, main_w1 (look at src/1.rs) to main_w2 (look at src/2.rs)";
    assert!(ran.stderr.contains(fork), "{}", ran.stderr);
    for command in ["log", "status"] {
        let said = project.raymond(&[command, "r"]).stdout;
        assert!(said.contains("main_w2  look at src/2.rs"), "{command}: {said}");
    }
}

#[test]
fn control_characters_of_an_agent_are_shown_in_transitions() {
    let project = Project::new([("START.sh", "printf '<result>a\\033[2Jb</result>'")]);
    let ran = project.raymond(&["flow"]);
    assert!(ran.stderr.contains("result: a\\u{1b}[2Jb"), "{}", ran.stderr);
}

#[test]
fn several_rules_can_be_denied_at_once() {
    let project = Project::new([("START.sh", "echo '<goto>GONE</goto>'")]);
    project.raymond(&["lint", "flow", "--deny", "missing-target,nonsense"]).failed(2, "`nonsense`");
}

#[test]
fn status_of_a_running_turn_shows_its_tool_and_duration() {
    let project = Project::new([("START.md", "x")]);
    let claude = "#!/bin/bash\nread -r _\n\
        echo '{\"type\":\"assistant\",\"message\":{\"content\":[{\"type\":\"tool_use\",\"name\":\"Bash\",\"input\":{\"command\":\"cargo test\"}}]}}'\n\
        touch began; while [ ! -e go ]; do sleep 0.02; done\n\
        echo '{\"type\":\"result\",\"subtype\":\"success\",\"is_error\":false,\"num_turns\":1,\"usage\":{\"input_tokens\":9,\"output_tokens\":5},\"total_cost_usd\":0.01,\"result\":\"<result>x</result>\"}'\n";
    project.write("claude", claude);
    std::fs::set_permissions(
        project.file("claude"),
        std::os::unix::fs::PermissionsExt::from_mode(0o755),
    )
    .unwrap();
    let path = project.file("claude").display().to_string();
    let mut command = project.command(&["start", "flow", "--id", "r", "--warm", "0", "--no-lint"]);
    command.env("RAYMOND_CLAUDE", &path).stdout(Stdio::piped()).stderr(Stdio::piped());
    let run = command.spawn().unwrap();
    wait_until("the tool is used", PATIENCE, || project.file("began").exists());
    let status = project.raymond(&["status", "r"]).stdout;
    let row = status.lines().find(|line| line.contains("START ")).unwrap();
    let words: Vec<_> = row.split_whitespace().collect();
    assert_eq!(
        (&words[..2], &words[3..6]),
        (&["main", "START"][..], &["Bash", "cargo", "test"][..])
    );
    assert!(words[2].ends_with('s'), "{status}");
    let json: serde_json::Value =
        serde_json::from_str(&project.raymond(&["status", "r", "--json"]).stdout).unwrap();
    assert_eq!((&json["agents"][0]["tool"], &json["status"]), (&"Bash".into(), &"running".into()));
    project.raymond(&["resume", "r"]).failed(1, "raymond attach r");
    project.write("go", "");
    Ran::of(&run.wait_with_output().unwrap()).completed("x");
}

#[test]
fn help_has_the_documents_and_every_command() {
    let project = Project::new([]);
    for (topic, first) in [
        ("protocol", "# The workflow language\n"),
        ("authoring", "# Writing workflows\n"),
        ("operations", "# Operations\n"),
        ("agents", "# Coding agents\n"),
    ] {
        let ran = project.raymond(&["help", topic]);
        assert!(ran.code == 0 && ran.stdout.starts_with(first), "{topic}: {ran:?}");
    }
    assert!(project.raymond(&["help", "prune"]).stdout.contains("--older-than"));
    let all = project.raymond(&["help"]).stdout;
    assert!(all.contains("Usage: raymond") && all.contains("  protocol     the workflow"), "{all}");
    assert!(all.contains("\n  agents       coding agents: "), "{all}");
    project.raymond(&["help", "protocl"]).failed(2, "did you mean `raymond help protocol`?");
    project.raymond(&["help", "prune", "x"]).failed(2, "there is no help about `prune x`");
}

#[test]
fn man_writes_a_page_for_each_command_that_man_can_read() {
    let project = Project::new([]);
    let ran = project.raymond(&["man", "pages"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let pages: Vec<_> = ran.stdout.lines().collect();
    assert!(
        pages.contains(&"pages/raymond.1") && pages.contains(&"pages/raymond-show.1"),
        "{pages:?}"
    );
    assert!(pages.len() > 20 && !pages.iter().any(|page| page.contains("__keeper")), "{pages:?}");
    for path in pages {
        let page = project.read(path);
        for section in [
            "SH NAME\n",
            "SH SYNOPSIS\n",
            "SH \"EXIT STATUS\"\n",
            "SH \"FILES\"\n",
            "SH \"ENVIRONMENT\"\n",
        ] {
            assert!(page.contains(section), "{path}: {section}");
        }
        let name = path.trim_start_matches("pages/").trim_end_matches(".1");
        assert!(page.contains(&format!(".TH {name} 1")), "{path}: {page:.300}");
    }
}
