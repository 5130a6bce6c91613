//! What a project brings along does not run because a coding agent is started in it.

use std::fs;

use raymond_testkit::{Reply, table::Selection};
use serde_json::json;

use super::{backend::pi, desk::Desk};

/// Whether pi starts the MCP server of the project for a turn of this state.
fn starts_server(state: &str, more: &[&str]) -> Option<bool> {
    let desk = Desk::new(pi()?, [("START.md", state)]);
    let server = json!({ "command": "bash", "args": ["-c", "touch started; cat >/dev/null"] });
    let servers = json!({ "mcpServers": { "own": server } });
    fs::create_dir(desk.project.file(".pi")).unwrap();
    desk.project.write(".pi/mcp.json", &servers.to_string());
    desk.on("the prompt", [Reply::text("<result>done</result>")]);
    desk.start(more).completed("done");
    Some(desk.project.file("started").exists())
}

#[test]
fn pi_starts_servers_of_the_project_only_where_a_turn_may_do_everything() {
    let (usual, planning) = ("the prompt", "---\npermissions: plan\n---\nthe prompt");
    let everything = "--dangerously-skip-permissions";
    let Some(starts) = starts_server(usual, &[everything]) else { return };
    // Older versions know no such servers.
    assert_eq!(starts, Selection::from_environment() != Selection::Oldest);
    assert_eq!(starts_server(usual, &[]), Some(false));
    assert_eq!(starts_server(planning, &[everything]), Some(false));
}
