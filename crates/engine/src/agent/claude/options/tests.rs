#![allow(clippy::unwrap_used, reason = "in tests a panic is the message")]

use std::{collections::BTreeMap, fs};

use raymond_flow::{
    id::{AgentId, SessionId},
    machine::SessionPlan,
    source::TurnOptions,
};

use super::*;
use crate::testing::{turn, turn_step};

fn config() -> ClaudeConfig {
    ClaudeConfig {
        name: "claude".to_owned(),
        program: "claude".to_owned(),
        config_dir: "/nowhere".into(),
        ..ClaudeConfig::default()
    }
}

/// What a turn in `cwd` gets that asks for `options`.
fn given(
    config: &ClaudeConfig,
    cwd: &Path,
    options: TurnOptions,
    skip_permissions: bool,
) -> Result<Chosen, String> {
    let mut turn = turn(SessionPlan::Fresh { id: SessionId::new("own") });
    turn.settings.options = options;
    turn.settings.skip_permissions = skip_permissions;
    let step = turn_step(turn.clone());
    let request = TurnRequest {
        agent: &AgentId::main(),
        step: &step,
        turn: &turn,
        cwd,
        prompt: "",
        continuation: "",
        earlier: &[],
        folder: None,
        state_dir: Path::new("/work/.raymond"),
        scope: Path::new("/nowhere"),
        follows_a_model: false,
    };
    chosen(config, &request).map_err(|failure| failure.message)
}

fn words(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

#[test]
fn options_of_the_state_win_over_those_of_the_settings() {
    let nowhere = Path::new("/nowhere");
    let settings = ClaudeConfig {
        fallback_model: words(&["haiku"]),
        max_turns: Some(9),
        system: Some("Be kind.".to_owned()),
        ..config()
    };
    let of_settings = given(&settings, nowhere, TurnOptions::default(), false).unwrap();
    let expected = "--fallback-model haiku --max-turns 9 --append-system-prompt Be kind.";
    assert_eq!(of_settings.arguments.join(" "), expected);
    let asked = TurnOptions {
        fallback_model: words(&["sonnet", "opus"]),
        max_turns: Some(3),
        system: Some("Be brief.".to_owned()),
        ..TurnOptions::default()
    };
    let own = given(&settings, nowhere, asked, false).unwrap();
    let expected = "--fallback-model sonnet,opus --max-turns 3 --append-system-prompt Be brief.";
    assert_eq!(own.arguments.join(" "), expected);
    assert_eq!(given(&config(), nowhere, TurnOptions::default(), false), Ok(Chosen::default()));
}

#[test]
fn state_adds_only_directories_that_the_user_allows() {
    let place = tempfile::tempdir().unwrap();
    let root = place.path().canonicalize().unwrap();
    for name in ["work/inside", "shared/data", "other"] {
        fs::create_dir_all(root.join(name)).unwrap();
    }
    let (cwd, shared) = (root.join("work"), root.join("shared"));
    let config = ClaudeConfig { add_dirs: vec![shared.clone()], ..config() };
    let asks = |directory: &str, skips: bool| {
        let options = TurnOptions { add_dirs: words(&[directory]), ..TurnOptions::default() };
        given(&config, &cwd, options, skips).map(|chosen| chosen.arguments[1].clone())
    };
    let path = |path: PathBuf| Ok(path.to_string_lossy().into_owned());
    assert_eq!(asks("inside", false), path(cwd.join("inside")));
    assert_eq!(asks("../shared/data", false), path(shared.join("data")));
    let refused = asks("../other", false).unwrap_err();
    assert!(refused.contains("outside of the working directory"), "{refused}");
    assert_eq!(asks("../other", true), path(root.join("other")));
    assert!(asks("missing", true).unwrap_err().contains("there is no directory `missing`"));
}

#[cfg(unix)]
#[test]
fn link_inside_the_working_directory_does_not_lead_out_of_it() {
    let place = tempfile::tempdir().unwrap();
    let (cwd, other) = (place.path().join("work"), place.path().join("other"));
    fs::create_dir_all(&cwd).unwrap();
    fs::create_dir_all(&other).unwrap();
    std::os::unix::fs::symlink(&other, cwd.join("link")).unwrap();
    let options = TurnOptions { add_dirs: words(&["link"]), ..TurnOptions::default() };
    assert!(given(&config(), &cwd, options, false).unwrap_err().contains("outside"));
}

#[test]
fn state_has_only_the_servers_that_it_names_and_their_secrets_are_no_arguments() {
    let one = json!({
        "command": "serve",
        "args": ["--x"],
        "env": { "A_TOKEN": "secret", "B": "${FROM_USER}" },
    });
    let two =
        json!({ "type": "http", "url": "https://x", "headers": { "authorization": "hidden" } });
    let mcp = BTreeMap::from([("one".to_owned(), one), ("two".to_owned(), two)]);
    let config = ClaudeConfig { mcp, ..config() };
    let asks = |names: &[&str]| {
        let options = TurnOptions { mcp: Some(words(names)), ..TurnOptions::default() };
        given(&config, Path::new("/nowhere"), options, false)
    };
    let chosen = asks(&["one", "two"]).unwrap();
    let [option, servers, strict] = &chosen.arguments[..] else { panic!("{chosen:?}") };
    assert_eq!((option.as_str(), strict.as_str()), ("--mcp-config", "--strict-mcp-config"));
    assert!(!servers.contains("secret") && !servers.contains("hidden"), "{servers}");
    let servers: Value = serde_json::from_str(servers).unwrap();
    let env = &servers["mcpServers"]["one"]["env"];
    assert_eq!((&env["A_TOKEN"], &env["B"]), (&json!("${MCP_VALUE_1}"), &json!("${FROM_USER}")));
    let values: Vec<_> = chosen.environment.iter().map(|(_, value)| value.as_str()).collect();
    assert_eq!(values, ["secret", "hidden"]);
    assert_eq!(asks(&[]).unwrap().arguments[1], r#"{"mcpServers":{}}"#);
    let refused = asks(&["three"]).unwrap_err();
    assert!(refused.contains("[agents.claude.mcp.three]"), "{refused}");
}
