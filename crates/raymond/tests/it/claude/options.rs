//! Keys of frontmatter that become options of Claude.

use raymond_testkit::{Block, Reply};
use serde_json::json;

use super::env::{DONE, Desk};
use crate::env::Ran;

/// No process is kept: what is proved here is what a start of Claude gets.
const COLD: [&str; 2] = ["--warm", "0"];

/// A call that wants another one.
fn works() -> Reply {
    Reply::tool("Bash", json!({ "command": "echo working" }))
}

#[test]
fn turn_that_exceeds_the_budget_of_its_state_fails_and_goes_on_in_its_session_with_a_higher_one() {
    // Less than one call costs.
    let Some(desk) = Desk::or_skip([("START.md", "---\nbudget: 0.001\n---\nthe prompt")]) else {
        return;
    };
    desk.replies("the prompt", [works()]);
    let ran = desk.start(&COLD);
    ran.failed(1, "the `budget` of `START.md` is $0.001").failed(1, "raise `budget` of the state");
    assert_eq!(desk.asked().len(), 1);
    assert_eq!(desk.state()["status"], "failed");
    desk.says("Your last turn was stopped because", DONE);
    desk.project.write("flow/START.md", "---\nbudget: 1\n---\nthe prompt");
    desk.run(&COLD).completed("done");
    assert_eq!(desk.session(0), desk.session(1));
}

#[test]
fn turn_that_asks_the_model_too_often_fails_at_once_and_goes_on_when_the_run_is_resumed() {
    let Some(desk) = Desk::or_skip([("START.md", "---\nmax_turns: 2\n---\nthe prompt")]) else {
        return;
    };
    desk.replies("the prompt", [works()]);
    let ran = desk.start(&COLD);
    ran.failed(1, "maximum number of turns (2)").failed(1, "raise `max_turns` of the state");
    assert_eq!(desk.asked().len(), 2, "nothing is retried");
    desk.says("Your last turn was interrupted", DONE);
    desk.run(&COLD).completed("done");
    assert_eq!(desk.session(0), desk.session(2));
}

#[test]
fn fallback_models_are_asked_in_order_while_the_model_is_overloaded() {
    let state = "---\nfallback_model: [haiku, opus]\n---\nthe prompt";
    let Some(desk) = Desk::or_skip([("START.md", state)]) else { return };
    let busy = || Reply::status(529, "overloaded_error", "busy");
    let replies = std::iter::repeat_with(busy).take(6).chain([Reply::text(DONE)]);
    desk.replies("the prompt", replies);
    desk.start(&COLD).completed("done");
    let models = desk.models();
    let family = |index: usize| {
        ["sonnet", "haiku", "opus"].into_iter().find(|name| models[index].contains(name)).unwrap()
    };
    assert_eq!([0, 3, 6].map(family), ["sonnet", "haiku", "opus"], "{models:?}");
    // Both changes are told, and the turn is that of the last model.
    let shown = Ran::of(&desk.command(&["show", "r"]).output().unwrap()).stdout;
    for model in ["haiku", "opus"] {
        assert!(shown.contains(&format!("goes on with claude-{model}")), "{shown}");
    }
    let spent = desk.records("ended")[0]["spent"]["model"].clone();
    assert!(spent.as_str().unwrap().starts_with("claude-opus"), "{spent}");
}

#[test]
fn system_text_holds_in_its_own_state_only_also_within_a_session() {
    let Some(desk) = Desk::or_skip([
        ("START.md", "---\nsystem: You are ALPHA.\n---\nfirst"),
        ("SECOND.md", "---\nsystem: You are BETA.\n---\nsecond"),
        ("THIRD.md", "third"),
        ("FOURTH.md", "---\nsystem: You are ALPHA.\n---\nfourth"),
    ]) else {
        return;
    };
    desk.says("first", "<goto>SECOND</goto>").says("second", "<goto>THIRD</goto>");
    desk.says("third", "<goto>FOURTH</goto>").says("fourth", DONE);
    desk.start(&COLD).completed("done");
    let requests = desk.api.requests();
    let told = requests.iter().map(|request| {
        let system = request.body["system"].to_string();
        ["ALPHA", "BETA"].into_iter().filter(|name| system.contains(name)).collect::<Vec<_>>()
    });
    assert_eq!(told.collect::<Vec<_>>(), [vec!["ALPHA"], vec!["BETA"], vec![], vec!["ALPHA"]]);
    assert_eq!(desk.session(0), desk.session(3));
}

#[test]
fn directory_outside_is_added_only_if_the_settings_allow_it() {
    let place = tempfile::tempdir().unwrap();
    let shared = place.path().canonicalize().unwrap();
    let state = format!("---\nadd_dirs: ['{}']\n---\nthe prompt", shared.display());
    let Some(desk) = Desk::or_skip([("START.md", &*state)]) else { return };
    desk.start(&COLD).failed(1, "add it to `add_dirs` under `[agents.claude]`");
    assert_eq!(desk.asked().len(), 0);
    let settings = format!("[agents.claude]\nadd_dirs = [\"{}\"]\n", shared.display());
    desk.project.write(".raymond/config.toml", &settings);
    let file = shared.join("made.txt");
    let write = json!({ "file_path": file, "content": "x" });
    desk.replies("the prompt", [Reply::tool("Write", write), Reply::text(DONE)]);
    desk.run(&COLD).completed("done");
    assert!(file.exists());
}

/// A server of the settings, in bash. It logs that it was started, and what it was given.
const SERVER: &str = r#"
echo "started with $TOKEN" >> mcp.log
while read -r line; do
  id=$(echo "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
  case "$line" in
    *'"initialize"'*) r='{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}' ;;
    *'"tools/list"'*) r='{"tools":[{"name":"ping","description":"d","inputSchema":{"type":"object","properties":{}}}]}' ;;
    *'"tools/call"'*) r='{"content":[{"type":"text","text":"pong"}]}' ;;
    *) r='{}' ;;
  esac
  [ -n "$id" ] && echo "{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":$r}"
done
"#;

#[test]
fn state_uses_the_servers_of_the_settings_that_it_names_and_no_others() {
    let Some(desk) = Desk::or_skip([
        ("START.md", "---\nmcp: [own]\ntools: [mcp__own__ping]\n---\nfirst"),
        ("NEXT.md", "---\nmcp: []\n---\nsecond"),
    ]) else {
        return;
    };
    desk.project.write("server.sh", SERVER);
    let server = |log: &str| json!({ "command": "bash", "args": ["-c", log] });
    let projects = json!({ "mcpServers": { "project": server("touch project-server-ran") } });
    desk.project.write(".mcp.json", &projects.to_string());
    let settings = "[agents.claude]\ntools = [\"mcp__own__ping\"]\n\
                    [agents.claude.mcp.own]\ncommand = \"bash\"\nargs = [\"server.sh\"]\n\
                    env = { TOKEN = \"hush-hush\" }\n";
    desk.project.write(".raymond/config.toml", settings);
    let ping = Reply::tool("mcp__own__ping", json!({}));
    desk.replies("first", [ping, Reply::text("<goto>NEXT</goto>")]).says("second", DONE);
    desk.start(&COLD).completed("done");
    let results = desk.api.requests()[1].tool_results();
    assert!(format!("{results:?}").contains("pong"), "{results:?}");
    assert_eq!(
        desk.project.read("mcp.log"),
        "started with hush-hush\n",
        "not for the second state"
    );
    assert!(!desk.project.file("project-server-ran").exists());
    assert!(!desk.project.read(".raymond/workflows/r.journal").contains("hush-hush"));
    let shown = Ran::of(&desk.command(&["config"]).output().unwrap());
    assert!(!shown.stdout.contains("hush-hush"), "{}", shown.stdout);
}

#[test]
fn model_that_claude_replaces_is_told_once() {
    let state = "---\nmodel: claude-opus-4-1\n---\n";
    let (start, next) = (format!("{state}first"), format!("{state}second"));
    let Some(desk) = Desk::or_skip([("START.md", &*start), ("NEXT.md", &*next)]) else { return };
    desk.says("first", "<goto>NEXT</goto>").says("second", DONE);
    let ran = desk.start(&COLD).completed("done");
    let told = "`claude-opus-4-1` was asked for, and `claude-opus-";
    assert_eq!(ran.stderr.matches(&format!("the model {told}")).count(), 1, "{}", ran.stderr);
    let shown = Ran::of(&desk.command(&["show", "r"]).output().unwrap()).stdout;
    assert_eq!(shown.matches(told).count(), 2, "a note in each turn: {shown}");
}

#[test]
fn state_that_only_plans_starts_no_server_of_the_project() {
    let check = "[ -e started ] && echo '<result>too early</result>' || echo '<goto>NEXT</goto>'";
    let Some(desk) = Desk::or_skip([
        ("START.md", "---\npermissions: plan\n---\nfirst"),
        ("CHECK.sh", check),
        ("NEXT.md", "---\npermissions: acceptEdits\n---\nsecond"),
    ]) else {
        return;
    };
    let server = json!({ "command": "bash", "args": ["-c", "touch started"] });
    let projects = json!({ "mcpServers": { "project": server } });
    desk.project.write(".mcp.json", &projects.to_string());
    desk.says("first", "<goto>CHECK</goto>").says("second", DONE);
    desk.start(&COLD).completed("done");
    assert!(desk.project.file("started").exists(), "for the last state");
}

/// A state whose output has a risk.
const RISKY: &str = "---\nschema:\n  type: object\n  required: [risk]\n  properties:\n    \
                     risk: { enum: [low, high] }\nallowed_transitions:\n";

fn output(risk: &str) -> Reply {
    Reply::tool("StructuredOutput", json!({ "risk": risk }))
}

#[test]
fn structured_output_is_checked_and_its_fields_are_variables_of_the_next_state() {
    let start = format!("{RISKY}  - {{ tag: goto, target: NEXT }}\n---\nassess");
    let Some(desk) = Desk::or_skip([("START.md", &*start), ("NEXT.md", "The risk is {{risk}}.")])
    else {
        return;
    };
    // Claude itself refuses the first one.
    desk.replies("assess", [output("none"), output("high")]).says("The risk is high.", DONE);
    desk.start(&COLD).completed("done");
    assert_eq!(desk.asked().len(), 3);
    let schema = desk.api.requests()[0].body["tools"].to_string();
    assert!(schema.contains(r#""enum":["low","high"]"#), "{schema}");
}

#[test]
fn tag_in_the_reply_with_the_output_is_followed_and_missing_output_is_reminded_of() {
    let start =
        format!("{RISKY}  - {{ tag: goto, target: NEXT }}\n  - {{ tag: result }}\n---\nassess");
    let Some(desk) = Desk::or_skip([("START.md", &*start), ("NEXT.md", "The risk is {{risk}}.")])
    else {
        return;
    };
    // The model never calls the tool, and Claude calls that a success.
    desk.says("assess", "<goto>NEXT</goto>")
        .says("[structured-output-enforce]", "<goto>NEXT</goto>");
    let both = Reply::blocks([
        Block::text("It is low. <goto>NEXT</goto>"),
        Block::tool("StructuredOutput", json!({ "risk": "low" })),
    ]);
    desk.replies("the structured output is missing", [both]);
    desk.says("The risk is low.", DONE);
    desk.start(&COLD).completed("done");
    assert_eq!(desk.records("reminded").len(), 1);
}

#[test]
fn output_that_never_fits_fails_the_agent_and_is_not_retried() {
    let start = format!("{RISKY}  - {{ tag: result }}\n---\nassess");
    let Some(desk) = Desk::or_skip([("START.md", &*start)]) else { return };
    desk.replies("assess", [output("none")]);
    let ran = desk.start(&COLD);
    ran.failed(1, "Failed to provide valid structured output").failed(1, "check `schema`");
    assert_eq!(desk.records("intended").len(), 1);
    desk.replies("Your last turn was interrupted", [output("low")]);
    desk.run(&COLD).completed(r#"{"risk":"low"}"#);
}
