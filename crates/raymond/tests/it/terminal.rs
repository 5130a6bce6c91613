//! Output on a terminal: no text of a model, a script, a file name or a setting may control it.

use std::{
    fs,
    io::Write as _,
    process::{Command, Stdio},
    time::Duration,
};

use serde_json::{Value, json};

use crate::env::{Project, Ran, wait_until};

const PATIENCE: Duration = Duration::from_mins(1);

/// Sets the clipboard and the title, clears the screen, turns the text around, hides some of it and
/// forges a line. A file can have that name.
const EVIL: &str = "\u{1b}]52;c;RVZJTA==\u{7}\u{1b}[2J\u{1b}[45m\u{1b}]0;owned\u{7}\u{9b}31m\u{85}\u{202e}\
                    \u{2066}\u{200f}\u{61c}\u{200b}\u{2028}\u{feff}\u{8}\u{7f}\rFORGED\nFORGED";
/// The same as far as the name of a state can go in a tag.
const SLY: &str = "A\u{202e}\u{200b}";

/// A text as JSON, YAML and TOML can all write it.
fn quoted(text: &str) -> String {
    let units = text.encode_utf16();
    let written = units.map(|unit| match u8::try_from(unit) {
        Ok(byte @ b' '..=b'~') => char::from(byte).to_string(),
        _ => format!("\\u{unit:04x}"),
    });
    format!("\"{}\"", written.collect::<String>())
}

/// Plays Claude Code: answers a prompt with the lines of a file that is named after the prompt, and
/// holds back the last one until there is a file `go` if the prompt says so.
const CLAUDE: &str = r#"
cd "$(dirname "$0")" || exit 1
read -r prompt
case $prompt in *ask-*) state=${prompt##*ask-}; state=${state:0:1} ;; *) state=A ;; esac
number=1
until mkdir "calls/$state.$number" 2>/dev/null; do number=$((number + 1)); done
[ -e "replies/$state.$number" ] || number=last
head -n -1 "replies/$state.$number"
case $prompt in *and-wait*) while [ ! -e go ]; do sleep 0.01; done ;; esac
tail -n 1 "replies/$state.$number"
"#;

/// A project in which everything that can have a name or words of its own is hostile.
struct Hostile {
    project: Project,
}

impl Hostile {
    fn new() -> Self {
        let project = Project::new([]);
        let hostile = Self { project };
        let folder = hostile.folder();
        fs::create_dir_all(format!("{folder}/tests")).unwrap();
        for name in ["calls", "replies"] {
            fs::create_dir(hostile.project.file(name)).unwrap();
        }
        hostile.project.write("claude.sh", CLAUDE);
        let key = quoted(EVIL);
        let prompt = format!(
            "---\n{key}: 1\nallowed_transitions:\n  - {{ tag: fork }}\n  - {{ tag: result }}\n---\n\
             <goto>{SLY}\u{202e}</goto>{EVIL} ask-A"
        );
        for (name, text) in [
            (format!("{EVIL}.sh"), format!("printf '%s' '{EVIL}' >&2; echo '<goto>{SLY}</goto>'")),
            (format!("{SLY}.md"), prompt),
            ("B.md".to_owned(), format!("{EVIL} ask-B and-wait")),
            ("W.md".to_owned(), format!("{EVIL} ask-W")),
            ("R.sh".to_owned(), format!("printf '<result>%s</result>' '{EVIL}'")),
            ("F.sh".to_owned(), format!("printf '%s' '{EVIL}' >&2; exit 3")),
            ("START.sh".to_owned(), format!("echo '<goto>{EVIL}</goto>'")),
        ] {
            fs::write(format!("{folder}/{name}"), text).unwrap();
        }
        hostile.replies();
        hostile
    }

    /// The folder of the workflow, relative to the project.
    fn folder(&self) -> String {
        format!("{}/in {EVIL}/flow", self.project.path().display())
    }

    /// What Claude answers: two wrong answers, a fork, a failure and a result.
    fn replies(&self) {
        let answers = [
            ("A.1", json!(format!("no tag {EVIL}"))),
            ("A.2", json!(format!("<goto>{EVIL}</goto>"))),
            ("A.3", json!(format!("<fork next=\"B\" cd=\"{EVIL}\" item=\"x\">W</fork>"))),
            ("A.last", json!(format!("<fork next=\"B\" item=\"{EVIL}\">W</fork>"))),
            ("B.last", json!(format!("<result>{EVIL}</result>"))),
        ];
        for (name, answer) in answers {
            self.reply(name, &json!({ "is_error": false, "result": answer }));
        }
        self.reply("W.last", &json!({ "is_error": true, "result": format!("API Error: {EVIL}") }));
    }

    fn reply(&self, name: &str, end: &Value) {
        let says = |block: Value| json!({ "type": "assistant", "message": { "content": [block] } });
        let mut result = json!({
            "type": "result", "subtype": "success", "num_turns": 1, "total_cost_usd": 0.01,
            "usage": { "input_tokens": 10, "output_tokens": 5 },
            "permission_denials": [
                { "tool_name": EVIL, "tool_use_id": "1", "tool_input": { "command": EVIL } },
            ],
        });
        for (key, value) in end.as_object().unwrap() {
            result[key] = value.clone();
        }
        let lines = [
            json!({ "type": "system", "subtype": "init", "model": EVIL }),
            json!({ "type": "system", "subtype": "api_retry", "error": EVIL }),
            says(json!({ "type": "text", "text": EVIL })),
            says(
                json!({ "type": "tool_use", "name": format!("USES{EVIL}"), "input": { "command": EVIL } }),
            ),
            result,
        ];
        let text = lines.map(|line| line.to_string()).join("\n") + "\n";
        self.project.write(&format!("replies/{name}"), &text);
    }

    fn forget_calls(&self) {
        fs::remove_dir_all(self.project.file("calls")).unwrap();
        fs::create_dir(self.project.file("calls")).unwrap();
    }

    /// Runs `raymond` on a terminal of its own, from the hostile folder, and gives what it shows.
    /// `meanwhile` is called again and again with that until it says that it has seen enough.
    fn show(
        &self,
        arguments: &[&str],
        variables: &[(&str, &str)],
        meanwhile: impl Fn(&str) -> bool,
    ) -> Option<String> {
        let quoted = |word: &&str| format!(" '{word}'");
        let words: String = arguments.iter().map(quoted).collect();
        let program = env!("CARGO_BIN_EXE_raymond");
        self.project.write("command.sh", &format!("'{program}'{words}\n"));
        let _ = fs::remove_file(self.project.file("screen"));
        let mut terminal = Command::new("script");
        let command = format!("bash {}", self.project.file("command.sh").display());
        let screen = self.project.file("screen");
        terminal.args(["-qfec", &command]).arg(&screen).current_dir(self.folder());
        for (name, _) in std::env::vars_os() {
            if name.as_encoded_bytes().starts_with(b"RAYMOND_") {
                terminal.env_remove(name);
            }
        }
        terminal.env_remove("NO_COLOR").env("TERM", "xterm").envs(variables.iter().copied());
        let claude = format!("{}/claude", self.project.path().display());
        let script = format!("#!/bin/sh\nexec bash {claude}.sh\n");
        fs::write(&claude, script).unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        fs::set_permissions(&claude, mode).unwrap();
        terminal.env("RAYMOND_CLAUDE", &claude);
        // Held until the end: at the end of its input, `script` types characters of its own.
        let stdin = Stdio::piped();
        let Ok(mut child) = terminal.stdin(stdin).stdout(Stdio::null()).spawn() else {
            let _ = writeln!(std::io::stderr(), "skipped: there is no `script` command");
            return None;
        };
        let _stdin = child.stdin.take();
        let read = || String::from_utf8_lossy(&fs::read(&screen).unwrap_or_default()).into_owned();
        wait_until("the screen shows it", PATIENCE, || meanwhile(&read()));
        child.wait().unwrap();
        let text = read();
        // What `script` itself writes around it.
        let text = text.split_once('\n').map_or("", |(_, rest)| rest).to_owned();
        Some(text.rsplit_once("\nScript done").map(|(rest, _)| rest.to_owned()).unwrap_or(text))
    }

    /// The same for a command that needs nobody; what it shows cannot steer the terminal.
    fn is_tame(&self, arguments: &[&str], variables: &[(&str, &str)]) -> Option<String> {
        let shown = self.show(arguments, variables, |_| true)?;
        is_tame(&shown, &format!("{arguments:?} {variables:?}"));
        has_no_forged_line(&shown, &format!("{arguments:?} {variables:?}"));
        Some(shown)
    }
}

/// Whether a sequence that begins after an escape is one that Raymond uses to draw, and its length.
fn own_sequence(rest: &str) -> Option<usize> {
    if let Some(title) = rest.strip_prefix("]0;") {
        let (title, _) = title.split_once('\u{7}')?;
        let is_own = title.is_empty() || title.starts_with("raymond: ");
        return is_own.then_some("]0;".len() + title.len() + 1);
    }
    let rest = rest.strip_prefix('[')?;
    let end = rest.find(|c: char| c.is_ascii_alphabetic())?;
    let (parameters, last) = rest.split_at(end);
    let is_drawing = match last.chars().next()? {
        // Up to the first row of the live view.
        'A' => parameters.chars().all(|c| c.is_ascii_digit()),
        'J' => parameters.is_empty(),
        // A frame is shown at once.
        'h' | 'l' => parameters == "?2026",
        // Ours, and those of clap.
        'm' => matches!(parameters, "0" | "1" | "2" | "4" | "31" | "32" | "33" | "36"),
        _ => false,
    };
    is_drawing.then_some(1 + end + 1)
}

#[track_caller]
fn is_tame(shown: &str, what: &str) {
    let mut rest = shown;
    while let Some(c) = rest.chars().next() {
        rest = rest.split_at(c.len_utf8()).1;
        if c == '\u{1b}' {
            let length = own_sequence(rest);
            assert!(length.is_some(), "{what}: a foreign sequence {rest:.20?} in {shown:?}");
            rest = rest.split_at(length.unwrap()).1;
            continue;
        }
        let is_hostile = (c.is_control() && !matches!(c, '\n' | '\r' | '\t'))
            || matches!(c, '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}')
            || matches!(c, '\u{2060}'..='\u{206f}' | '\u{feff}');
        assert!(!is_hostile, "{what}: {c:?} in {shown:?}");
    }
}

#[track_caller]
fn has_no_forged_line(shown: &str, what: &str) {
    let forged = shown.split(['\n', '\r']).find(|line| line.starts_with("FORGED"));
    assert_eq!(forged, None, "{what}: {shown:?}");
}

#[test]
fn run_cannot_control_the_terminal_in_the_live_view() {
    let hostile = Hostile::new();
    let entry = format!("{EVIL}.sh");
    let path = format!("{}/{entry}", hostile.folder());
    let seen = |screen: &str| {
        let is_there = screen.contains("USES");
        if is_there {
            hostile.project.write("go", "");
        }
        is_there
    };
    let arguments =
        ["start", &path, "--no-lint", "--id", "r", "--retries", "0", "--warm", "0", "-v"];
    let Some(shown) = hostile.show(&arguments, &[], seen) else { return };
    is_tame(&shown, "live");
    has_no_forged_line(&shown, "live");
    // A line may be broken between any two words.
    let words = shown.split_whitespace().collect::<Vec<_>>().join(" ");
    for part in ["unknown key", "reminded: ", "was not allowed: ", "failed: API Error: "] {
        assert!(words.contains(part), "{part:?} is not in {shown:?}");
    }
    let shown = hostile.is_tame(&["status", "r"], &[]).unwrap();
    assert!(shown.contains("\\u{1b}]52;c;"), "{shown:?}");
    for command in [&["log", "r"][..], &["list"], &["diagram", "--run", "r"], &["run", "r", "-q"]] {
        hostile.is_tame(command, &[]);
    }
}

#[test]
fn run_cannot_control_the_terminal_in_lines_or_events() {
    let hostile = Hostile::new();
    hostile.project.write("go", "");
    let path = format!("{}/{EVIL}.sh", hostile.folder());
    let plain = [("NO_COLOR", "1")];
    for (id, how, variables) in [("l", "-v", &plain[..]), ("q", "-q", &plain), ("j", "--json", &[])]
    {
        hostile.forget_calls();
        let arguments =
            ["start", &path, "--no-lint", "--id", id, "--retries", "0", "--warm", "0", how];
        let shown = hostile.is_tame(&arguments, variables);
        let Some(shown) = shown else { return };
        assert!(shown.contains("API Error"), "{shown:?}");
        assert!(shown.contains("u{1b}]52;c") || shown.contains("u001b]52;c"), "{shown:?}");
    }
    // What is written down for later is shown on a terminal, then.
    let arguments =
        ["start", &path, "--no-lint", "--id", "f", "--retries", "0", "--warm", "0", "--log-file"];
    hostile.forget_calls();
    hostile.is_tame(&[&arguments[..], &["log.txt"]].concat(), &[]);
    let log = fs::read_to_string(format!("{}/log.txt", hostile.folder())).unwrap();
    is_tame(&log, "the log file");
    has_no_forged_line(&log, "the log file");
}

#[test]
fn result_is_escaped_on_a_terminal_and_unchanged_on_a_pipe() {
    let hostile = Hostile::new();
    let path = format!("{}/R.sh", hostile.folder());
    let piped = hostile.project.raymond(&[&path, "-q"]);
    assert_eq!((piped.code, piped.stdout), (0, format!("{EVIL}\n")));
    let Some(shown) = hostile.show(&["start", &path, "-q"], &[], |_| true) else { return };
    // A result may have several lines.
    is_tame(&shown, "the result");
    assert!(shown.contains("\\u{1b}[2J"), "{shown:?}");
    // So may a page.
    let shown = hostile.show(&["diagram", &hostile.folder(), "--html"], &[], |_| true).unwrap();
    is_tame(&shown, "a page");
}

#[test]
fn errors_and_hints_cannot_control_the_terminal() {
    let hostile = Hostile::new();
    let folder = hostile.folder();
    let (gone, fails) = (format!("{folder}/gone {EVIL}"), format!("{folder}/F.sh"));
    let option = format!("--{EVIL}");
    for arguments in [
        &["start", &gone][..],
        &["start", &fails],
        &["start", &folder],
        &["lint", &gone],
        &["lint", &folder],
        &["lint", &folder, "--json"],
        &["lint", "--explain", EVIL],
        &["diagram", &folder],
        &["pack", &gone],
        &["pack", &folder],
        &["new", &format!("{folder}/{EVIL}")],
        &["status", EVIL],
        &["run", EVIL, "--input", "x"],
        &["start", &folder, EVIL],
        &["start", &folder, &option],
        &["--data-dir", EVIL],
        &["list", "--data-dir", EVIL],
        &["init", "--data-dir", EVIL],
    ] {
        if hostile.is_tame(arguments, &[]).is_none() {
            return;
        }
    }
}

#[test]
fn settings_cannot_control_the_terminal() {
    let hostile = Hostile::new();
    let text = quoted(EVIL);
    for settings in [
        format!("model = {text}\n"),
        format!("{text} = 1\n"),
        format!("budget = {text}\n"),
        format!("budget = 1 {EVIL}\n"),
    ] {
        hostile.project.write(".raymond/config.toml", &settings);
        if hostile.is_tame(&["config"], &[]).is_none() {
            return;
        }
    }
    hostile.project.write(".raymond/config.toml", "");
    for name in ["RAYMOND_MODEL", "RAYMOND_BUDGET"] {
        hostile.is_tame(&["config"], &[(name, EVIL)]);
    }
}

#[test]
fn tests_of_a_workflow_cannot_control_the_terminal() {
    let hostile = Hostile::new();
    let folder = hostile.folder();
    let text = quoted(EVIL);
    let case = |name: &str, text: String| {
        fs::write(format!("{folder}/tests/{name}.yaml"), text).unwrap();
    };
    case(
        "a",
        format!("name: {text}\nreplies: {{ {text}: {text} }}\nexpect: {{ result: {text} }}\n"),
    );
    case("b", format!("setup: printf '%s' \"$EVIL\" >&2; false\nexpect: {{ status: {text} }}\n"));
    case("c", format!("{text}: 1\n"));
    case(EVIL, "x".to_owned());
    let path = format!("{folder}/R.sh");
    hostile.is_tame(&["test", &path], &[("EVIL", EVIL)]);
    hostile.is_tame(&["test", &folder], &[("EVIL", EVIL)]);
}

#[test]
fn unreadable_run_is_listed_with_escaped_text() {
    let hostile = Hostile::new();
    let workflows = hostile.project.file(".raymond/workflows");
    fs::create_dir_all(&workflows).unwrap();
    fs::write(workflows.join("bad.journal"), format!("{EVIL}\n{EVIL}\n")).unwrap();
    for command in [&["list"][..], &["status", "bad"], &["log", "bad"]] {
        hostile.is_tame(command, &[]);
    }
}

/// Runs `raymond` with a standard output whose reader is gone after the first line.
fn with_a_reader_that_leaves(project: &Project, arguments: &[&str]) -> Ran {
    let mut command = project.command(arguments);
    // A pipe without a reader from the beginning: whatever is written breaks it.
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    Ran::of(&command.stdout(writer).stderr(Stdio::piped()).output().unwrap())
}

#[test]
fn broken_pipe_is_silent_and_does_not_change_the_exit_code() {
    let project = Project::new([
        ("START.sh", "echo '<goto>END</goto>'"),
        ("END.sh", "echo '<result>the end</result>'"),
        ("tests", ""),
    ]);
    fs::remove_file(project.file("flow/tests")).unwrap();
    fs::create_dir(project.file("flow/tests")).unwrap();
    project.write("flow/tests/a.yaml", "expect: { result: the end }\n");
    project.raymond(&["start", "flow", "--id", "r"]).completed("the end");
    for arguments in [
        &["start", "flow", "-q"][..],
        &["start", "flow", "-q", "--json"],
        &["run", "r", "-q"],
        &["list"],
        &["status", "r"],
        &["log", "r"],
        &["log", "r", "--follow"],
        &["config"],
        &["man"],
        &["completions", "bash"],
        &["lint", "--explain", "all"],
        &["diagram", "flow"],
        &["pack", "flow"],
        &["test", "flow"],
        &["init"],
        &["--help"],
        &["--version"],
    ] {
        let ran = with_a_reader_that_leaves(&project, arguments);
        assert_eq!((ran.code, ran.stderr.as_str()), (0, ""), "{arguments:?}");
    }
    // What the exit code tells does not depend on whether anybody reads the rest.
    project.write("flow/END.sh", "echo '<goto>GONE</goto>'");
    assert_eq!(with_a_reader_that_leaves(&project, &["lint", "flow"]).code, 1);
    assert_eq!(with_a_reader_that_leaves(&project, &["test", "flow"]).code, 1);
}

#[test]
fn broken_standard_error_does_not_end_a_run() {
    let project = Project::new([("START.sh", "echo '<result>x</result>'")]);
    for arguments in [&["start", "flow"][..], &["lint", "flow"], &["start", "gone"]] {
        let mut command = project.command(arguments);
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let ran = Ran::of(&command.stderr(writer).stdout(Stdio::piped()).output().unwrap());
        let expected = if arguments[1] == "gone" { 2 } else { 0 };
        assert_eq!(ran.code, expected, "{arguments:?}");
    }
}
