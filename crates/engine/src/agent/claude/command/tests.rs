#![allow(clippy::unwrap_used, reason = "in tests a panic is the message")]

use std::fs;

use raymond_flow::{
    id::{AgentId, SessionId},
    machine::Turn,
    money::Usd,
};

use super::*;
use crate::testing::{turn, turn_step};

/// What a turn may differ in.
struct Asked<'a> {
    turn: Turn,
    follows_a_model: bool,
    prompt: &'a str,
}

fn fresh() -> SessionPlan {
    SessionPlan::Fresh { id: SessionId::new("own") }
}

fn asked<'a>(session: SessionPlan) -> Asked<'a> {
    Asked { turn: turn(session), follows_a_model: false, prompt: "Do it." }
}

fn config(home: &Path) -> ClaudeConfig {
    ClaudeConfig {
        name: "claude".to_owned(),
        program: "claude".to_owned(),
        config_dir: home.to_owned(),
        ..ClaudeConfig::default()
    }
}

fn of(config: &ClaudeConfig, asked: &Asked<'_>) -> TurnCommand {
    with_folder(config, asked, None)
}

fn with_folder(config: &ClaudeConfig, asked: &Asked<'_>, folder: Option<&Path>) -> TurnCommand {
    let step = turn_step(asked.turn.clone());
    let &Asked { ref turn, follows_a_model, prompt, .. } = asked;
    let (agent, cwd) = (&AgentId::main(), Path::new("/nowhere"));
    let step = &step;
    let continuation = "Go on.";
    let request = TurnRequest {
        agent,
        step,
        turn,
        cwd,
        prompt,
        continuation,
        earlier: &[],
        folder,
        state_dir: Path::new("/work/.raymond"),
        scope: Path::new("/nowhere"),
        follows_a_model,
    };
    command(config, &request).unwrap()
}

/// The value of an option, and whether it is there.
fn option<'c>(command: &'c TurnCommand, name: &str) -> Option<&'c str> {
    let at = command.program.iter().position(|word| word == name)?;
    command.program.get(at + 1).map(String::as_str)
}

fn has(command: &TurnCommand, name: &str) -> bool {
    command.program.iter().any(|word| word == name)
}

/// The words that Claude is given.
fn said(command: &TurnCommand) -> String {
    let message: serde_json::Value = serde_json::from_str(&command.stdin).unwrap();
    message["message"]["content"][0]["text"].as_str().unwrap().to_owned()
}

#[test]
fn session_is_begun_resumed_or_branched_as_planned() {
    let home = tempfile::tempdir().unwrap();
    let config = config(home.path());
    let (own, from) = (SessionId::new("own"), SessionId::new("from"));
    for (plan, resume, own_id, is_branch) in [
        (SessionPlan::Fresh { id: own.clone() }, None, Some("own"), false),
        (SessionPlan::Resume { id: own.clone() }, Some("own"), None, false),
        (SessionPlan::Branch { from, id: own, cwd: None }, Some("from"), Some("own"), true),
    ] {
        let command = of(&config, &asked(plan.clone()));
        assert_eq!(option(&command, "--resume"), resume, "{plan:?}");
        assert_eq!(option(&command, "--session-id"), own_id, "{plan:?}");
        assert_eq!(has(&command, "--fork-session"), is_branch, "{plan:?}");
    }
}

#[test]
fn folder_that_the_prompt_names_may_be_written_to_and_another_process_is_needed_for_it() {
    let home = tempfile::tempdir().unwrap();
    let config = config(home.path());
    let asked = asked(fresh());
    let without = of(&config, &asked);
    assert!(!has(&without, "--add-dir"));
    let with = with_folder(&config, &asked, Some(Path::new("/state/agents/main")));
    assert_eq!(option(&with, "--add-dir"), Some("/state/agents/main"));
    assert_ne!(with.reuse.unwrap(), without.reuse.unwrap());
}

#[test]
fn turn_that_recovers_goes_on_in_what_its_session_has() {
    let home = tempfile::tempdir().unwrap();
    let config = config(home.path());
    let project = home.path().join("projects/-p");
    fs::create_dir_all(&project).unwrap();
    let branch =
        SessionPlan::Branch { from: SessionId::new("from"), id: SessionId::new("own"), cwd: None };
    let line = r#"{"type":"user","message":{"content":[{"type":"text","text":"Do it."}]}}"#;
    for plan in [fresh(), branch] {
        let mut asked = asked(plan.clone());
        asked.turn.recovers = true;
        let transcript = project.join("own.jsonl");
        let _ = fs::remove_file(&transcript);
        // Nothing of it is there: as if for the first time.
        let command = of(&config, &asked);
        assert_eq!(option(&command, "--session-id"), Some("own"), "{plan:?}");
        assert_eq!(said(&command), "Do it.", "{plan:?}");
        // The session is there, without the prompt.
        fs::write(&transcript, "{}\n").unwrap();
        let command = of(&config, &asked);
        assert_eq!(option(&command, "--resume"), Some("own"), "{plan:?}");
        assert_eq!(option(&command, "--session-id"), None, "{plan:?}");
        assert_eq!(said(&command), "Do it.", "{plan:?}");
        // With the prompt, which has no answer.
        fs::write(&transcript, line).unwrap();
        assert_eq!(said(&of(&config, &asked)), "Go on.", "{plan:?}");
        // With an answer, which counts only if the turn was stopped because of its share.
        let answered = format!("{line}{{\"message\":{{\"stop_reason\":\"end_turn\"}}}}\n");
        fs::write(&transcript, answered).unwrap();
        assert_eq!(said(&of(&config, &asked)), "Do it.", "{plan:?}");
        asked.turn.spent_share = true;
        assert_eq!(said(&of(&config, &asked)), "Go on.", "{plan:?}");
        asked.turn.spent_share = false;
        // One that does not recover does not look.
        asked.turn.recovers = false;
        assert_eq!(said(&of(&config, &asked)), "Do it.", "{plan:?}");
    }
}

#[test]
fn prompt_cannot_be_taken_for_a_command() {
    let home = tempfile::tempdir().unwrap();
    for (prompt, expected) in [
        ("/clear", "\n/clear"),
        ("/", "\n/"),
        (" /clear", " /clear"),
        ("Do it.\n/clear", "Do it.\n/clear"),
        ("\"quoted\"\n\\ and \u{0} and ünïcode", "\"quoted\"\n\\ and \u{0} and ünïcode"),
        ("", ""),
    ] {
        let command = of(&config(home.path()), &Asked { prompt, ..asked(fresh()) });
        assert_eq!(said(&command), expected);
        assert_eq!(command.stdin.matches('\n').count(), 1, "one line: {}", command.stdin);
        assert!(command.stdin.ends_with('\n'));
    }
}

#[test]
fn model_and_effort_are_named_if_somebody_asks_for_them() {
    let home = tempfile::tempdir().unwrap();
    let configured = ClaudeConfig { model: Some("configured".to_owned()), ..config(home.path()) };
    let plain = config(home.path());
    let model = |config: &ClaudeConfig, own: Option<&str>, follows_a_model: bool| {
        let mut asked = Asked { follows_a_model, ..asked(fresh()) };
        asked.turn.settings.model = own.map(str::to_owned);
        option(&of(config, &asked), "--model").map(str::to_owned)
    };
    assert_eq!(model(&plain, None, false), None);
    assert_eq!(model(&plain, None, true).as_deref(), Some("default"), "after another model");
    assert_eq!(model(&configured, None, true).as_deref(), Some("configured"));
    assert_eq!(model(&configured, Some("asked"), true).as_deref(), Some("asked"));
    let mut with_effort = asked(fresh());
    assert!(!has(&of(&plain, &with_effort), "--effort"));
    with_effort.turn.settings.effort = Some("high".to_owned());
    assert_eq!(option(&of(&plain, &with_effort), "--effort"), Some("high"));
}

#[test]
fn budget_is_the_share_of_the_turn() {
    let home = tempfile::tempdir().unwrap();
    let budget = |budget| {
        let budget_usd = Option::and_then(budget, Usd::from_dollars);
        let turn = Turn { budget_usd, ..turn(fresh()) };
        let command = of(&config(home.path()), &Asked { turn, ..asked(fresh()) });
        option(&command, "--max-budget-usd").map(str::to_owned)
    };
    assert_eq!(budget(None), None);
    assert_eq!(budget(Some(1.5)).as_deref(), Some("1.5"));
    assert_eq!(budget(Some(0.000_001)).as_deref(), Some("0.000001"), "no exponent");
}

#[test]
fn permissions_are_skipped_only_if_that_was_asked_for() {
    let home = tempfile::tempdir().unwrap();
    let mut asked = asked(fresh());
    let command = of(&config(home.path()), &asked);
    assert_eq!(option(&command, "--permission-mode"), Some("acceptEdits"));
    assert!(!has(&command, "--dangerously-skip-permissions"));
    asked.turn.settings.skip_permissions = true;
    let command = of(&config(home.path()), &asked);
    assert!(has(&command, "--dangerously-skip-permissions"));
    assert!(!has(&command, "--permission-mode"));
    let tools = option(&command, "--disallowedTools").unwrap();
    assert!(tools.contains("AskUserQuestion") && !tools.contains(' '), "{tools}");
}

#[test]
fn claude_that_may_ask_is_given_its_tool_and_hooks_and_no_second_turn() {
    let home = tempfile::tempdir().unwrap();
    let config = ClaudeConfig { questions: true, ..config(home.path()) };
    let command = of(&config, &asked(fresh()));
    assert!(!option(&command, "--disallowedTools").unwrap().contains("AskUserQuestion"));
    assert_eq!(option(&command, "--permission-prompt-tool"), Some("stdio"));
    let settings = option(&command, "--settings").unwrap();
    let settings: serde_json::Value = serde_json::from_str(settings).unwrap();
    let hook = settings["hooks"]["PostToolUse"][0]["hooks"][0]["command"].as_str().unwrap();
    assert!(hook.contains(r#""continue":false"#) && hook.matches('\'').count() == 2, "{hook}");
    assert_eq!(command.reuse, None, "a kept process would wait for answers on its standard input");
    let mut granted = asked(fresh());
    granted.turn.settings.granted = vec!["Bash\n\"command\":\"make\"".to_owned()];
    let settings = of(&config, &granted);
    let settings: serde_json::Value =
        serde_json::from_str(option(&settings, "--settings").unwrap()).unwrap();
    assert_eq!(settings["hooks"]["PreToolUse"][0]["matcher"], "^Bash$");
}

#[test]
fn own_arguments_come_last_and_claude_does_not_believe_to_be_nested() {
    let home = tempfile::tempdir().unwrap();
    let arguments = ["--mcp-config", "x.json"].map(str::to_owned).to_vec();
    let config = ClaudeConfig { arguments: arguments.clone(), ..config(home.path()) };
    let command = of(&config, &asked(fresh()));
    assert!(command.program.ends_with(&arguments), "{:?}", command.program);
    assert_eq!(command.program[..2], ["claude", "-p"]);
    assert!(command.without.contains(&"CLAUDECODE".to_owned()));
    assert!(!command.environment.iter().any(|(name, _)| command.without.contains(name)));
}

#[test]
fn process_is_used_again_only_by_turns_that_ask_for_the_same() {
    let home = tempfile::tempdir().unwrap();
    let plain = config(home.path());
    let reuse = |change: fn(&mut Turn)| {
        let mut asked = asked(fresh());
        change(&mut asked.turn);
        let command = of(&plain, &asked);
        (command.reuse.unwrap(), command.marks)
    };
    let (first, marks) = reuse(|_| {});
    let (second, others) = reuse(|_| {});
    assert_eq!(first, second);
    assert_ne!(marks, others, "each turn has an id of its own");
    for change in [
        (|turn| turn.settings.model = Some("opus".to_owned())) as fn(&mut Turn),
        |turn| turn.settings.effort = Some("opus".to_owned()),
        |turn| turn.settings.skip_permissions = true,
    ] {
        assert_ne!(reuse(change).0, first);
    }
}

#[test]
fn id_of_a_prompt_is_read_back_from_its_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("prompt");
    let command = of(&config(folder.path()), &asked(fresh()));
    fs::write(&path, &command.stdin).unwrap();
    let id = prompt_id(&path).unwrap();
    assert_eq!(command.marks, marks(&id));
    for text in ["", "{\"type\":\"user\"}", " {\"uuid\":\"7\"}"] {
        fs::write(&path, text).unwrap();
        assert_eq!(prompt_id(&path), None, "{text}");
    }
    assert_eq!(prompt_id(&folder.path().join("gone")), None);
}

#[test]
fn options_of_a_state_need_another_process() {
    let home = tempfile::tempdir().unwrap();
    let config = config(home.path());
    let plain = asked(fresh());
    let mut brief = asked(fresh());
    brief.turn.settings.options.system = Some("Be brief.".to_owned());
    let (plain, brief) = (of(&config, &plain), of(&config, &brief));
    assert_eq!(option(&brief, "--append-system-prompt"), Some("Be brief."));
    assert!(!has(&plain, "--append-system-prompt"));
    assert_ne!(plain.reuse.unwrap(), brief.reuse.unwrap());
}
