//! `--debug` from the command line. What its files say is tested in `crates/engine/src/observe/debug/tests.rs`.

use std::fs;

use serde_json::{Value, json};

use crate::env::{Project, Ran, WithAgent as _};

/// Answers with the next line of `replies/STATE`.
const AGENT: &str = r#"
cat > /dev/null
number=1
until mkdir "calls/$RAYMOND_STATE.$number" 2>/dev/null; do number=$((number + 1)); done
echo 'not JSON'
echo oops >&2
sed -n "${number}p" "replies/$RAYMOND_STATE"
"#;

fn project<'a>(files: impl IntoIterator<Item = (&'a str, &'a str)>) -> Project {
    let project = Project::new(files);
    for folder in ["calls", "replies"] {
        fs::create_dir(project.file(folder)).unwrap();
    }
    project.write("agent.sh", AGENT);
    project
}

fn replies(project: &Project, state: &str, replies: &[Value]) {
    let lines: Vec<_> = replies.iter().map(Value::to_string).collect();
    project.write(&format!("replies/{state}"), &(lines.join("\n") + "\n"));
}

fn start(project: &Project, more: &[&str]) -> Ran {
    let mut command =
        project.command(&[&["start", "flow", "--id", "r", "--debug", "--no-lint"], more].concat());
    command.agent("bash agent.sh");
    Ran::of(&command.output().unwrap())
}

/// A file of the debug directory.
fn read(project: &Project, name: &str) -> String {
    let folder = fs::read_dir(project.file(".raymond/debug")).unwrap().next().unwrap().unwrap();
    fs::read_to_string(folder.path().join(name)).unwrap()
}

/// What the log says about one thing, entry by entry.
fn values(log: &str, name: &str) -> Vec<String> {
    let prefix = format!("  {name}: ");
    log.lines().filter_map(|line| line.strip_prefix(&prefix)).map(str::to_owned).collect()
}

#[test]
fn output_of_a_turn_is_a_list_of_objects() {
    let project = project([("START.md", "x")]);
    let answer = json!({ "result": "<result>x</result>", "cost_usd": 0.5 });
    replies(&project, "START.md", std::slice::from_ref(&answer));
    start(&project, &[]).completed("x");
    let text = read(&project, "main_START_001.json");
    let list: Vec<Value> = serde_json::from_str(&text).unwrap();
    let about = &list[0];
    assert_eq!(
        (&about["type"], &about["agent_id"], &about["current_state"], &about["step_number"]),
        (&json!("raymond_step"), &json!("main"), &json!("START.md"), &json!(1)),
        "{text}"
    );
    assert_eq!(about["timestamp"].as_str().unwrap().len(), "2026-01-15 14:30:22".len());
    assert_eq!(list[1..], [json!("not JSON"), answer]);
    assert!(text.contains("\n    \"cost_usd\": 0.5"), "it is indented: {text}");
    assert_eq!(read(&project, "main_START_001.stderr.txt"), "oops\n");
}

#[test]
fn costs_of_all_lines_add_up_to_the_total() {
    let start_md = "---\nallowed_transitions:\n  - { tag: goto, target: NEXT.md }\n  \
                    - { tag: result }\nevaluators:\n  - prompt: JUDGE.md\n---\nx";
    let project = project([("START.md", start_md), ("NEXT.md", "x"), ("JUDGE.md", "x")]);
    let says = |text: &str, cost: f64| json!({ "result": text, "cost_usd": cost });
    let fails = |cost: f64| json!({ "error": "later", "class": "other", "cost_usd": cost });
    replies(&project, "START.md", &[says("no tag", 0.01), says("<goto>NEXT</goto>", 0.02)]);
    replies(&project, "JUDGE.md", &[says("<result>accept</result>", 0.04)]);
    // The last one fails for good.
    replies(&project, "NEXT.md", &[fails(0.08), fails(0.16)]);
    assert_eq!(start(&project, &["--retries", "1"]).code, 1);
    let log = read(&project, "transitions.log");
    for head in [
        "[main] START.md -> START.md (reminder)\n",
        "[main] START.md -> (evaluator)\n",
        "[main] START.md -> NEXT.md (goto)\n",
        "[main] NEXT.md -> NEXT.md (retry)\n",
        "[main] NEXT.md -> (failed)\n",
    ] {
        assert!(log.contains(head), "{head:?} is not in:\n{log}");
    }
    assert_eq!(values(&log, "cost"), ["$0.01", "$0.02", "$0.04", "$0.08", "$0.16"], "{log}");
    assert_eq!(values(&log, "total_cost").last().unwrap(), "$0.31", "{log}");
    assert_eq!(values(&log, "problem"), ["no transition tag was found"], "{log}");
}

#[test]
fn debug_directory_that_cannot_be_created_causes_a_warning() {
    let project = project([("START.sh", "echo '<result>x</result>'")]);
    project.write(".raymond/debug", "a file in its place");
    let ran = start(&project, &["-q"]).completed("x");
    let warning = "warning: --debug is disabled: cannot create ";
    assert!(ran.stderr.starts_with(warning), "{}", ran.stderr);
    assert_eq!(ran.stderr.lines().count(), 1, "{}", ran.stderr);
}
