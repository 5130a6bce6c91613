//! Tools that need a permission, put to a person by way of the orchestrator.
//!
//! Nothing answers Claude's permission requests (see [`questions`](super::questions)), so such a call fails with the words
//! [`DENIED`]. A hook that Claude runs after all tools of a reply then ends the turn: the session is complete on disk,
//! and the person's answer is an ordinary next message of it. The hook leaves subagents alone: it would end only the
//! subagent, and the coding agent would go on without an answer.
//!
//! What a person allows is a hook of the following turns, not one of Claude's rules: no rule allows a command
//! that contains a `*` and nothing else, or one that touches files outside the directory.

use raymond_flow::turn::OwnQuestion;
use serde_json::{Value, json};

/// How the result of a call begins that needed a permission.
pub(super) const DENIED: &str = "Tool permission request failed: ";

/// How the field begins that names the directory in which a tool is used.
const CWD: &str = r#""cwd":"#;
/// The tool for commands.
const BASH: &str = "Bash";

/// The tools of which a person allows one use, and the field of their input that says which. Of any other tool, every
/// use is allowed.
const SCOPES: [(&str, &str); 7] = [
    (BASH, "command"),
    ("Edit", "file_path"),
    ("MultiEdit", "file_path"),
    ("NotebookEdit", "notebook_path"),
    ("Read", "file_path"),
    ("WebFetch", "url"),
    ("Write", "file_path"),
];
/// Makes a call something else than the same call without it: Claude runs the command outside of its sandbox.
const UNSANDBOXED: &str = r#""dangerouslyDisableSandbox":true"#;

/// The longest command or path that a person can allow: it must fit into the question.
const SCOPE_BYTES_MAX: usize = 8 * 1024;
/// The most that all hooks for allowed tools take: they are in one argument of a program, and the system allows 128 KiB.
const HOOKS_BYTES_MAX: usize = 64 * 1024;

/// Whether a person allows a call that needed a permission.
/// The turn works in `cwd`: there, and only there, a command means what the person saw.
pub(super) fn question(tool: &str, input: &Value, cwd: Option<&str>) -> OwnQuestion {
    let Some(key) = scope(tool) else {
        let shown = serde_json::to_string_pretty(input).unwrap_or_default();
        if shown.len() > SCOPE_BYTES_MAX {
            return too_long(tool, "input", shown.len());
        }
        let what = format!("{shown}\n\n`allow` holds for every use of it until the next state.");
        return OwnQuestion::of_tool(tool, &what);
    };
    let value = input[key].as_str().unwrap_or_default();
    if value.len() > SCOPE_BYTES_MAX {
        return too_long(tool, key, value.len());
    }
    let mut grant = format!("{tool}\n{}", field(key, value));
    if let Some(cwd) = cwd.filter(|_| tool == BASH) {
        grant = format!("{grant}\n{}", field("cwd", cwd));
    }
    let mut what = format!("{value}\n\n{}", meaning(tool, key, cwd));
    if input["dangerouslyDisableSandbox"] == true {
        grant = format!("{grant}\n{UNSANDBOXED}");
        what.push_str("\n\nIt is to run outside of the sandbox.");
    }
    OwnQuestion { grants: Some(grant), ..OwnQuestion::of_tool(tool, &what) }
}

/// A call of which not all can be shown: what a person cannot see, a person cannot allow.
fn too_long(tool: &str, what: &str, bytes: usize) -> OwnQuestion {
    let text = format!(
        "The coding agent may not use `{tool}`, and its {what} of {bytes} bytes is too long to be allowed here. What \
         should it do instead?"
    );
    OwnQuestion { text, ..OwnQuestion::default() }
}

/// What `allow` holds for.
fn meaning(tool: &str, key: &str, cwd: Option<&str>) -> String {
    match (tool, cwd) {
        (BASH, Some(cwd)) => format!(
            "In the directory {cwd}. `allow` holds for this command there until the next state, whatever the files that \
             it names contain by then."
        ),
        (BASH, None) => "`allow` holds for this command in every directory until the next state, whatever the files \
                         that it names contain by then."
            .to_owned(),
        ("Read" | "WebFetch", _) => {
            format!("`allow` holds for every use of it with this {key} until the next state.")
        }
        _ => format!(
            "`allow` holds for every use of it with this {key} until the next state, whatever it writes there."
        ),
    }
}

/// A field as Claude writes it for hooks. No text inside of another field can look like it: there the quotes are escaped.
fn field(key: &str, value: &str) -> String {
    format!("{}:{}", json!(key), json!(value))
}

fn scope(tool: &str) -> Option<&'static str> {
    SCOPES.iter().find(|(scoped, _)| *scoped == tool).map(|(_, key)| *key)
}

/// The hook that ends a turn after a reply with a call that needed a permission.
pub(super) fn stop() -> Value {
    let output = json!({
        "continue": false,
        "stopReason": "the user is asked",
        "hookSpecificOutput": {
            "hookEventName": "PostToolBatch",
            "additionalContext": "The user is asked for the permission; the next message has the answer. If it is \
                                  allowed, use the tool again exactly as before.",
        },
    });
    let denied = format!(r#""tool_response":"{DENIED}"#);
    let conditions = [having(&denied), lacking(r#""agent_id":"#)];
    json!({ "hooks": [when(&conditions, &output)] })
}

/// The hooks that allow what a person has allowed. What was allowed first is left out if there is too much: it is asked for again.
pub(super) fn allow(granted: &[String]) -> Vec<Value> {
    let mut bytes = 0;
    let hooks = granted.iter().rev().filter_map(|grant| allow_one(grant));
    let fits = |hook: &Value| {
        bytes += hook.to_string().len();
        bytes <= HOOKS_BYTES_MAX
    };
    hooks.take_while(fits).collect()
}

fn allow_one(grant: &str) -> Option<Value> {
    let mut lines = grant.lines();
    let tool = lines.next()?;
    let mut conditions: Vec<_> = lines.map(having).collect();
    if let Some(key) = scope(tool) {
        // Another coding agent of the same run may have been granted a tool of the same name as a whole.
        if conditions.is_empty() {
            return None;
        }
        conditions.push(once(key));
        if grant.lines().any(|line| line.starts_with(CWD)) {
            conditions.push(once("cwd"));
        }
    }
    if !grant.ends_with(UNSANDBOXED) {
        conditions.push(lacking(UNSANDBOXED));
    }
    let output = json!({ "hookSpecificOutput": {
        "hookEventName": "PreToolUse",
        "permissionDecision": "allow",
    } });
    Some(json!({ "matcher": format!("^{tool}$"), "hooks": [when(&conditions, &output)] }))
}

/// Keeps the input of a hook, which is one line, if `text` is in it.
fn having(text: &str) -> String {
    format!("grep -F -e {}", quoted(text))
}

/// Keeps the input of a hook if `text` is not in it.
fn lacking(text: &str) -> String {
    format!("grep -v -F -e {}", quoted(text))
}

/// Keeps the input of a hook if only one object in it has the field `key`: the allowed value in a nested object would hide
/// another one where the tool looks.
fn once(key: &str) -> String {
    let key = format!("{}:", json!(key));
    format!("grep -v -e {}", quoted(&format!("{key}.*{key}")))
}

/// Prints `output` if each condition keeps the input.
fn when(conditions: &[String], output: &Value) -> Value {
    let conditions = conditions.join(" | ");
    let command =
        format!("if {conditions} >/dev/null; then echo {}; fi", quoted(&output.to_string()));
    json!({ "type": "command", "command": command })
}

/// One word for the shell.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use std::{
        io::Write as _,
        process::{Command, Stdio},
    };

    use super::*;

    /// What a hook prints about an input, run as Claude runs it.
    fn says(hook: &Value, input: &Value) -> String {
        let command = hook["hooks"][0]["command"].as_str().unwrap();
        let mut shell = Command::new("sh")
            .args(["-c", command])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        shell.stdin.take().unwrap().write_all(format!("{input}\n").as_bytes()).unwrap();
        let output = shell.wait_with_output().unwrap();
        assert!(output.status.success());
        String::from_utf8(output.stdout).unwrap()
    }

    /// Whether a person's `allow` for the first call allows the second.
    fn allows(tool: &str, asked: &Value, used: &Value) -> bool {
        allows_in("/work", tool, asked, used)
    }

    /// The same if the second call is made in the directory `cwd`, and the first one in `/work`.
    fn allows_in(cwd: &str, tool: &str, asked: &Value, used: &Value) -> bool {
        let grant = question(tool, asked, Some("/work")).grants.unwrap();
        let [hook] = &allow(&[grant])[..] else { panic!() };
        assert_eq!(hook["matcher"], format!("^{tool}$"));
        says(hook, &json!({ "cwd": cwd, "tool_name": tool, "tool_input": used })).contains("allow")
    }

    #[test]
    fn command_is_allowed_only_in_the_directory_that_the_question_names() {
        let make = json!({ "command": "make" });
        let asked = question("Bash", &make, Some("/work"));
        assert!(asked.text.contains("In the directory /work."), "{}", asked.text);
        assert!(asked.text.contains("whatever the files that it names contain"));
        assert!(allows_in("/work", "Bash", &make, &make));
        assert!(!allows_in("/work/evil", "Bash", &make, &make));
        let nested = json!({ "command": "make", "description": { "cwd": "/work" } });
        assert!(!allows_in("/work/evil", "Bash", &make, &nested));
    }

    #[test]
    fn allowed_is_the_same_command_and_no_other() {
        for command in ["rm *", "echo 'a' \"b\" $(date) \\n", "cat <<'E'\nä\nE\n", "-e (x)"] {
            let asked = json!({ "command": command, "description": "first" });
            let again = json!({ "command": command, "description": "second" });
            assert!(allows("Bash", &asked, &again), "{command}");
            let quoting = format!("x; echo {}", field("command", command));
            for other in [&format!("{command} b"), "rm x", &quoting] {
                assert!(
                    !allows("Bash", &asked, &json!({ "command": other })),
                    "{command}: {other}"
                );
            }
        }
    }

    #[test]
    fn allowed_command_inside_another_object_allows_nothing() {
        let asked = json!({ "command": "make" });
        let nested = json!({ "command": "rm -r .", "description": { "command": "make" } });
        assert!(!allows("Bash", &asked, &nested));
    }

    #[test]
    fn command_outside_of_the_sandbox_is_allowed_only_as_such() {
        let inside = json!({ "command": "make" });
        let outside = json!({ "command": "make", "dangerouslyDisableSandbox": true });
        assert!(!allows("Bash", &inside, &outside));
        assert!(allows("Bash", &outside, &outside));
        assert!(question("Bash", &outside, None).text.contains("outside of the sandbox"));
    }

    #[test]
    fn tool_without_a_scope_is_allowed_as_a_whole_and_the_question_says_so() {
        let (asked, used) = (json!({ "query": "a" }), json!({ "query": "b" }));
        assert!(allows("WebSearch", &asked, &used));
        assert!(question("WebSearch", &asked, None).text.contains("every use"));
        assert!(allow(&["Bash".to_owned()]).is_empty(), "granted by another coding agent");
    }

    #[test]
    fn question_says_that_what_is_written_to_a_file_is_not_part_of_what_is_allowed() {
        let asked = |tool: &str, key: &str| question(tool, &json!({ key: "/etc/x" }), None).text;
        assert!(asked("Write", "file_path").contains("/etc/x\n\n`allow` holds for every use"));
        assert!(asked("Edit", "file_path").contains("whatever it writes there"));
        assert!(!asked("Read", "file_path").contains("writes"));
        assert!(asked("Bash", "command").contains("in every directory"));
    }

    #[test]
    fn what_is_too_long_to_be_shown_cannot_be_allowed() {
        let long = json!({ "text": "x".repeat(SCOPE_BYTES_MAX) });
        let asked = question("mcp__shell__run", &long, None);
        assert!(asked.grants.is_none() && asked.text.contains("too long"), "{}", asked.text);
        let long = json!({ "command": "x".repeat(SCOPE_BYTES_MAX + 1) });
        let asked = question("Bash", &long, None);
        assert_eq!((asked.grants, asked.options), (None, Vec::new()));
        assert!(asked.text.contains("too long"), "{}", asked.text);
        let grant = |tail| {
            let command = format!("{}{tail}", "x".repeat(SCOPE_BYTES_MAX - 3));
            question("Bash", &json!({ "command": command }), None).grants.unwrap()
        };
        let hooks = allow(&(100..120).map(grant).collect::<Vec<_>>());
        assert!(json!(hooks).to_string().len() <= HOOKS_BYTES_MAX + hooks.len() + 2);
        assert!(hooks[0].to_string().contains("x119"), "the last one is kept");
    }

    #[test]
    fn turn_is_ended_only_by_a_denied_call_of_its_own() {
        let call = |response: &str| json!({ "tool_calls": [{ "tool_response": response }] });
        let denied = format!("{DENIED}Error: Stream closed");
        assert!(says(&stop(), &call(&denied)).contains(r#""continue":false"#));
        assert_eq!(says(&stop(), &call(&format!("a file says: {denied}"))), "");
        let mut inner = call(&denied);
        inner["agent_id"] = json!("a1");
        assert_eq!(says(&stop(), &inner), "");
    }
}
