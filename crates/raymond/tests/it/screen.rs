//! What a person sees on a real terminal: tmux draws it, wraps it and is resized.

use std::{
    process::Command,
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

use crate::env::{Project, agent_table, wait_until};

const PATIENCE: Duration = Duration::from_mins(1);

/// Two steps that are over, and one that waits for a file `go`.
const WAITS: [(&str, &str); 3] = [
    ("START.sh", "echo '<goto>NEXT</goto>'"),
    (
        "NEXT.sh",
        "echo '<fork next=\"WAIT\" item=\"a rather long value of an attribute\">WAIT</fork>'",
    ),
    (
        "WAIT.sh",
        "touch began-$RAYMOND_AGENT_ID; while [ ! -e go ]; do sleep 0.02; done; echo '<result>the end</result>'",
    ),
];

/// A terminal of its own. `None` where there is no tmux.
struct Terminal<'a> {
    project: &'a Project,
    name: String,
}

impl<'a> Terminal<'a> {
    fn new(project: &'a Project, columns: u32, command: &str) -> Option<Self> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let terminal =
            Self { project, name: format!("raymond-test-{}-{number}", std::process::id()) };
        let program = env!("CARGO_BIN_EXE_raymond");
        // What comes after the command shows that nothing was left of the live view.
        let variables = project.user();
        let exports =
            variables.iter().map(|(name, value)| format!("export {name}='{}'", value.display()));
        let user = exports.collect::<Vec<_>>().join("\n");
        let command = command.replace("raymond", program);
        let script = format!("{user}\n{command}\necho \"ended $?\"\nread -r");
        project.write("terminal.sh", &script);
        let size = [columns.to_string(), "30".to_owned()];
        let folder = project.path().to_string_lossy().into_owned();
        let shell = "env -u NO_COLOR bash terminal.sh";
        let arguments = [
            "-f",
            "/dev/null",
            "new-session",
            "-d",
            "-c",
            &folder,
            "-x",
            &size[0],
            "-y",
            &size[1],
            shell,
        ];
        if terminal.tmux(&arguments).is_none() {
            use std::io::Write as _;
            let _ = writeln!(std::io::stderr(), "skipped: there is no tmux");
            return None;
        }
        Some(terminal)
    }

    fn tmux(&self, arguments: &[&str]) -> Option<String> {
        let mut command = Command::new("tmux");
        command.args(["-L", &self.name]).args(arguments).env("LC_ALL", "C.UTF-8");
        for (name, _) in std::env::vars_os() {
            if name.as_encoded_bytes().starts_with(b"RAYMOND_") {
                command.env_remove(name);
            }
        }
        let output = command.current_dir(self.project.path()).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Everything on the screen and above it; a line that wraps is one line.
    fn text(&self) -> String {
        self.tmux(&["capture-pane", "-p", "-J", "-S", "-"]).unwrap_or_default()
    }

    /// The same with colours.
    fn coloured(&self) -> String {
        self.tmux(&["capture-pane", "-p", "-e", "-S", "-"]).unwrap_or_default()
    }

    fn press(&self, key: &str) {
        self.tmux(&["send-keys", key]);
    }

    fn resize(&self, columns: u32) {
        self.tmux(&["resize-window", "-x", &columns.to_string()]);
    }

    #[track_caller]
    fn wait_for(&self, text: &str) {
        wait_until(&format!("{text:?} is shown"), PATIENCE, || self.text().contains(text));
    }

    /// Waits until the live view stands for the width that the terminal has: `total` is its last row.
    #[track_caller]
    fn wait_for_total(&self, total: &str) {
        wait_until(&format!("the last row is {total:?}"), PATIENCE, || {
            self.text().trim_end().lines().last().is_some_and(|last| last.starts_with(total))
        });
    }
}

impl Drop for Terminal<'_> {
    fn drop(&mut self) {
        self.tmux(&["kill-server"]);
    }
}

fn count(text: &str, part: &str) -> usize {
    text.matches(part).count()
}

/// The lines that stay must be there once, and nothing of the live view.
#[track_caller]
fn is_clean(text: &str) {
    // A line may be broken between any two words.
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    for part in [
        "START → NEXT goto",
        "fork main_wait1",
        "main_wait1 a rather long value of… WAIT result: the end",
        "run r completed",
    ] {
        assert_eq!(count(&words, part), 1, "{part:?} in:\n{text}");
    }
    for part in ["runs its script", "2 agents ·", "^C"] {
        assert_eq!(count(text, part), 0, "{part:?} in:\n{text}");
    }
    assert!(text.lines().all(|line| line.trim_end().len() == line.len()), "padded:\n{text}");
}

#[test]
fn live_view_leaves_nothing_behind_at_any_width() {
    for columns in [45, 60, 100, 200] {
        let project = Project::new(WAITS);
        let Some(terminal) = Terminal::new(&project, columns, "raymond flow --id r") else {
            return;
        };
        terminal.wait_for_total("2 agents · 2 steps");
        project.write("go", "");
        terminal.wait_for("ended 0");
        is_clean(&terminal.text());
    }
}

#[test]
fn live_view_survives_a_terminal_that_is_resized_while_it_runs() {
    let project = Project::new(WAITS);
    let Some(terminal) = Terminal::new(&project, 100, "raymond flow --id r") else { return };
    terminal.wait_for_total("2 agents · 2 steps");
    // No row of the live view is wider: a frame that was under way during the change would miscount wrapped rows.
    for columns in [70, 200, 80, 70, 100] {
        terminal.resize(columns);
        // A frame of that width: its rows are drawn, and there is one copy of each.
        wait_until("the rows are drawn again", PATIENCE, || {
            let text = terminal.text();
            count(&text, "2 agents ·") == 1 && count(&text, "main_wait1  WAIT ") == 1
        });
    }
    project.write("go", "");
    terminal.wait_for("ended 0");
    is_clean(&terminal.text());
}

/// A coding agent that answers with the prompt that it got.
const ECHO: &str = "prompt=$(cat); echo \"{\\\"result\\\": \\\"<result>$prompt</result>\\\"}\"";

#[test]
fn input_that_is_missing_is_asked_for_on_a_terminal() {
    for more in ["", " --detach"] {
        let project = Project::new([("START.md", "Do: {{input}}.")]);
        project.write("agent.sh", ECHO);
        project.write(".raymond/config.toml", &agent_table("bash agent.sh"));
        let command = format!("raymond flow --agent program --no-lint --id r{more}");
        let Some(terminal) = Terminal::new(&project, 100, &command) else { return };
        terminal.wait_for("START.md uses {{input}}. The input, on one line:");
        assert!(!project.file(".raymond/workflows").exists());
        terminal.press("dishes");
        terminal.press("Enter");
        terminal.wait_for("ended 0");
        wait_until("the answer is in the journal", PATIENCE, || {
            project.read(".raymond/workflows/r.journal").contains("Do: dishes.")
        });
    }
}

#[test]
fn missing_input_that_is_not_typed_starts_nothing() {
    for key in ["Enter", "C-d", "C-c"] {
        let project = Project::new([("START.md", "Do: {{input}}.")]);
        let Some(terminal) = Terminal::new(&project, 100, "raymond flow --no-lint --id r") else {
            return;
        };
        terminal.wait_for("The input, on one line:");
        terminal.press(key);
        // An interrupt also ends the shell, and the terminal with it.
        wait_until("the program has ended", PATIENCE, || {
            let text = terminal.text();
            text.contains("ended 2") || (key == "C-c" && text.is_empty())
        });
        assert!(!project.file(".raymond/workflows").exists(), "{key}");
    }
}

#[test]
fn interrupts_leave_no_stale_rows_on_the_screen() {
    let project = Project::new(WAITS);
    let Some(terminal) = Terminal::new(&project, 80, "raymond flow --id r") else { return };
    terminal.wait_for_total("2 agents · 2 steps");
    wait_until("both wait", PATIENCE, || {
        project.file("began-main_wait1").exists() && project.file("began-main").exists()
    });
    terminal.press("C-c");
    terminal.wait_for("Waiting for 2 running steps; press Ctrl-C again to stop them now.");
    terminal.press("C-c");
    terminal.wait_for("ended 130");
    let text = terminal.text();
    for part in ["^C", "runs its script", "2 agents ·"] {
        assert_eq!(count(&text, part), 0, "{part:?} in:\n{text}");
    }
    assert!(text.contains("run r paused") && text.contains("raymond resume r"), "{text}");
}

#[test]
fn dumb_terminal_gets_plain_lines() {
    for unset in ["TERM=dumb", "-u TERM"] {
        let project = Project::new([("START.sh", "echo oops >&2; exit 3")]);
        let command = format!("env {unset} raymond flow --id r");
        let Some(terminal) = Terminal::new(&project, 100, &command) else { return };
        terminal.wait_for("ended 1");
        let text = terminal.coloured();
        for part in ["exited with code 3", "oops", "raymond resume r"] {
            assert!(text.contains(part), "{part:?} in:\n{text}");
        }
        assert!(!text.contains('\u{1b}'), "{text:?}");
    }
}

#[test]
fn no_color_turns_off_the_colours_and_nothing_else() {
    let project = Project::new(WAITS);
    let Some(terminal) = Terminal::new(&project, 100, "NO_COLOR=1 raymond flow --id r") else {
        return;
    };
    terminal.wait_for_total("2 agents · 2 steps");
    terminal.wait_for("main_wait1  WAIT ");
    let text = terminal.coloured();
    assert!(text.contains("main_wait1  WAIT ") && !text.contains("\u{1b}["), "{text:?}");
    project.write("go", "");
    terminal.wait_for("ended 0");
    let Some(terminal) = Terminal::new(&project, 100, "raymond list; raymond status r") else {
        return;
    };
    terminal.wait_for("ended 0");
    assert!(terminal.coloured().contains("\u{1b}[32m"), "{:?}", terminal.coloured());
}

#[test]
fn attached_terminal_shows_what_another_process_runs_and_leaves_it_running() {
    let project = Project::new(WAITS);
    let id = project.raymond(&["start", "flow", "--id", "r", "--detach"]).stdout;
    assert_eq!(id, "r\n");
    wait_until("both wait", PATIENCE, || {
        project.file("began-main_wait1").exists() && project.file("began-main").exists()
    });
    let Some(terminal) = Terminal::new(&project, 100, "raymond attach") else { return };
    terminal.wait_for_total("2 agents · 2 steps");
    assert!(terminal.text().contains("main_wait1  WAIT "), "{}", terminal.text());
    terminal.press("C-c");
    terminal.wait_for("ended 0");
    let text = terminal.text();
    for part in ["Detached: run r keeps running", "raymond attach r", "raymond stop r"] {
        assert!(text.contains(part), "{part:?} in:\n{text}");
    }
    assert_eq!(count(&text, "^C"), 0, "{text}");
    // It keeps running, and the next observer sees its end.
    let Some(terminal) = Terminal::new(&project, 100, "raymond attach r") else { return };
    terminal.wait_for_total("2 agents · 2 steps");
    project.write("go", "");
    terminal.wait_for("ended 0");
    assert!(terminal.text().contains("run r completed"), "{}", terminal.text());
}

#[test]
fn cancel_asks_on_a_terminal() {
    let project = Project::new([("START.sh", "exit 3")]);
    project.raymond(&["start", "flow", "--id", "r"]).failed(1, "exited with code 3");
    let Some(terminal) = Terminal::new(&project, 100, "raymond cancel r") else { return };
    terminal.wait_for("Run r is failed (1 agent, $0.00 spent). Cancel it permanently? [y/N]");
    terminal.press("Enter");
    terminal.wait_for("ended 1");
    assert!(terminal.text().contains("Nothing was changed."), "{}", terminal.text());
    assert!(project.raymond(&["status", "r"]).stdout.contains("failed"));
    let Some(terminal) = Terminal::new(&project, 100, "raymond cancel r") else { return };
    terminal.wait_for("[y/N]");
    terminal.press("y");
    terminal.press("Enter");
    terminal.wait_for("Cancelled run r.");
    terminal.wait_for("ended 0");
}

#[test]
fn prune_and_cancel_ask_on_a_terminal_wherever_standard_output_goes() {
    let project = Project::new([("START.sh", "[ -e ok ] || exit 3; echo '<result>x</result>'")]);
    project.raymond(&["start", "flow", "--id", "bad"]).failed(1, "exited with code 3");
    project.write("ok", "");
    project.raymond(&["start", "flow", "--id", "good"]).completed("x");
    let there = || project.raymond(&["list", "--json"]).stdout;
    for (command, question, done) in [
        ("raymond cancel bad", "Cancel it permanently? [y/N]", "\"cancelled\""),
        ("raymond prune --older-than 0s --status completed", "Remove them? [y/N]", "\"bad\""),
    ] {
        let before = there();
        let to_file = format!("{command} > out");
        for (keys, is_agreed) in
            [(&["Enter"][..], false), (&["n", "Enter"], false), (&["y", "Enter"], true)]
        {
            let Some(terminal) = Terminal::new(&project, 100, &to_file) else { return };
            terminal.wait_for(question);
            assert_eq!(there(), before, "{command} waits");
            for key in keys {
                terminal.press(key);
            }
            terminal.wait_for("ended ");
            assert_eq!(there() != before, is_agreed, "{command} {keys:?}");
        }
        assert!(there().contains(done), "{}", there());
    }
    assert!(!there().contains("good"));
}

/// `main` asks, and so does a worker.
const ASKS: [(&str, &str); 4] = [
    ("START.sh", "echo '<fork next=\"MAIN\">WORK</fork>'"),
    ("MAIN.sh", "echo '<ask choices=\"approve=LAST|stop=LAST\">Is the plan right?</ask>'"),
    ("WORK.sh", "echo '<ask next=\"LAST\">Which file?</ask>'"),
    (
        "LAST.sh",
        "echo \"$RAYMOND_AGENT_ID $RAYMOND_RESULT $RAYMOND_COMMENT\" >> log; echo '<result>ok</result>'",
    ),
];

#[test]
fn questions_are_asked_on_the_terminal_one_after_the_other() {
    let project = Project::new(ASKS);
    let Some(terminal) = Terminal::new(&project, 90, "raymond start flow --id r") else { return };
    terminal.wait_for("Answer");
    // Whichever was asked first comes first; the other one comes when it is answered.
    for _ in 0..2 {
        wait_until("a question waits for its answer", PATIENCE, || {
            let text = terminal.text();
            let last = text.trim_end().lines().last().unwrap_or_default().to_owned();
            last.starts_with("Answer:") || last.starts_with("Answer [1-2")
        });
        let text = terminal.text();
        let is_free = text.trim_end().lines().last().unwrap().starts_with("Answer:");
        let before = project.lines("log").len();
        terminal.tmux(&["send-keys", "-l", if is_free { "the old one" } else { "1 but gently" }]);
        terminal.press("Enter");
        wait_until("the answer is followed", PATIENCE, || project.lines("log").len() > before);
    }
    terminal.wait_for("ended 0");
    let mut log = project.lines("log");
    log.sort();
    assert_eq!(log, ["main approve but gently", "main_work1 the old one "]);
}

#[test]
fn line_typed_before_a_question_does_not_answer_it() {
    let project = Project::new([
        (
            "START.sh",
            "touch began; while [ ! -e go ]; do sleep 0.02; done; echo '<ask next=\"LAST\" choices=\"go|stop\">Go on?</ask>'",
        ),
        ("LAST.sh", "echo \"<result>it is $RAYMOND_RESULT</result>\""),
    ]);
    let command = "TERM=dumb raymond start flow --id r";
    let Some(terminal) = Terminal::new(&project, 120, command) else { return };
    wait_until("the step runs", PATIENCE, || project.file("began").exists());
    terminal.tmux(&["send-keys", "-l", "1 typed early"]);
    terminal.press("Enter");
    terminal.wait_for("1 typed early");
    project.write("go", "");
    terminal.wait_for("Answer [1-2");
    terminal.press("2");
    terminal.press("Enter");
    terminal.wait_for("ended 0");
    assert!(terminal.text().contains("it is stop"), "{}", terminal.text());
}

#[test]
fn key_typed_before_a_confirmation_does_not_agree() {
    let project = Project::new([("START.sh", "exit 3")]);
    project.raymond(&["start", "flow", "--id", "r"]).failed(1, "exited with code 3");
    project.write(".raymond/config.toml", "budget = 50\n");
    for (command, question, keys) in [
        ("unset RAYMOND_TRUST; raymond start flow", "Are they yours? [y/N]", &["n"][..]),
        ("raymond cancel r", "Cancel it permanently? [y/N]", &["n", "Enter"]),
        ("raymond prune --older-than 0s --status failed", "Remove them? [y/N]", &["n", "Enter"]),
    ] {
        let command = format!("until [ -e go ]; do sleep 0.02; done; {command}");
        let Some(terminal) = Terminal::new(&project, 120, &command) else { return };
        terminal.press("y");
        terminal.press("Enter");
        terminal.wait_for("y\n");
        project.write("go", "");
        terminal.wait_for(question);
        for key in keys {
            terminal.press(key);
        }
        terminal.wait_for("ended ");
        std::fs::remove_file(project.file("go")).unwrap();
    }
    let list = project.raymond(&["list"]).stdout;
    assert!(list.contains("failed"), "neither cancelled nor removed: {list}");
}

#[test]
fn ctrl_c_at_a_question_leaves_it_open_and_tells_how_to_answer_it() {
    let project =
        Project::new([("START.sh", "echo '<ask next=\"START\" choices=\"go|stop\">Go on?</ask>'")]);
    let Some(terminal) = Terminal::new(&project, 90, "raymond start flow --id r") else { return };
    terminal.wait_for("Answer [1-2");
    terminal.tmux(&["send-keys", "-l", "7"]);
    terminal.press("Enter");
    terminal.wait_for("type a number from 1 to 2");
    terminal.press("C-c");
    terminal.wait_for("ended 130");
    let text = terminal.text();
    assert!(text.contains("raymond answer r main.1 go\n"), "{text}");
    assert!(project.raymond(&["asks"]).stdout.contains("Go on?"));
}

#[test]
fn question_that_is_answered_elsewhere_disappears_from_the_terminal() {
    let project = Project::new([
        ("START.sh", "echo '<ask next=\"LAST\" choices=\"go|stop\">Go on?</ask>'"),
        ("LAST.sh", "echo \"<result>$RAYMOND_RESULT</result>\""),
    ]);
    let Some(terminal) = Terminal::new(&project, 90, "raymond start flow --id r") else { return };
    terminal.wait_for("Answer [1-2");
    assert_eq!(project.raymond(&["answer", "r", "stop"]).code, 0);
    terminal.wait_for("ended 0");
    assert!(terminal.text().contains("answered by"), "{}", terminal.text());
}

#[test]
fn settings_of_ones_own_clone_cost_one_key_once() {
    let project = Project::new([("START.sh", "echo '<result>fine</result>'")]);
    project.write(".raymond/config.toml", "budget = 50\n");
    let command = "unset RAYMOND_TRUST; raymond flow --quiet; echo \"first $?\"; raymond flow";
    for (key, ends) in [("n", ["first 2", "ended 2"]), ("y", ["first 0", "ended 0"])] {
        let Some(terminal) = Terminal::new(&project, 120, command) else { return };
        terminal.wait_for("Are they yours? [y/N]");
        assert!(terminal.text().contains("setting  budget = 50"), "{}", terminal.text());
        terminal.press(key);
        terminal.wait_for(ends[0]);
        if key == "n" {
            wait_until("it asks again", PATIENCE, || {
                terminal.text().matches("Are they yours?").count() == 2
            });
            terminal.press(key);
        }
        terminal.wait_for(ends[1]);
    }
}
