//! Permissions and settings of coding agents that speak ACP.

use raymond_testkit::Reply;

use super::{
    backend::{Backend, claude_acp, goose},
    desk::{Desk, PATIENCE},
};
use crate::env::{Project, wait_until};

/// A turn that uses the shell to make a file, with a line more in the settings; whether the file is there afterwards.
fn makes_a_file(backend: Backend, setting: &str) -> (Desk, bool) {
    let desk = Desk::new(backend, [("START.md", "Prompt alpha.")]);
    let path = ".raymond/config.toml";
    desk.project.write(path, &format!("{}{setting}\n", desk.project.read(path)));
    let tool = (desk.backend.shell)("touch made");
    desk.on("Prompt alpha", [tool, Reply::text("<result>done</result>")]);
    desk.start(&[]).completed("done");
    let is_made = desk.project.file("made").exists();
    (desk, is_made)
}

#[test]
fn tool_that_is_not_allowed_is_denied_and_told() {
    let Some(backend) = goose() else { return };
    let (desk, is_made) = makes_a_file(backend, "");
    assert!(!is_made);
    let log = desk.raymond(&["log", "r"]).stdout;
    let told =
        "was not allowed: shell: touch made; allow it in config.toml: `tools` of `[agents.goose]`";
    assert!(log.contains(told), "{log}");
}

#[test]
fn tool_of_the_settings_is_allowed() {
    let Some(backend) = goose() else { return };
    assert!(makes_a_file(backend, "tools = ['shell']").1);
}

/// A person is asked for a tool and allows it; the turn goes on in its session and uses it.
fn person_allows_a_tool(backend: Backend) {
    let desk = Desk::new(backend, [("START.md", "Prompt alpha.")]);
    let path = ".raymond/config.toml";
    desk.project.write(path, &format!("{}questions = true\n", desk.project.read(path)));
    let tool = || (desk.backend.shell)("touch made");
    desk.on("Prompt alpha", [tool()]);
    desk.on("Here is the user's answer", [tool(), Reply::text("<result>done</result>")]);
    desk.start(&["--no-wait"]).failed(4, "touch made");
    assert!(!desk.project.file("made").exists());
    let asks = desk.raymond(&["asks", "--json"]).stdout;
    assert!(asks.contains("May the coding agent use"), "{asks}");
    let answered = desk.raymond(&["answer", "r", "allow"]);
    assert_eq!(answered.code, 0, "{answered:?}");
    // The answer resumes the run.
    let is_done = || desk.raymond(&["status", "r", "--json"]).stdout.contains("\"completed\"");
    wait_until("the run is completed", PATIENCE, is_done);
    assert!(desk.project.file("made").exists());
    let last = desk.heard().pop().unwrap();
    assert!(last.iter().any(|text| text.contains("Prompt alpha")), "the same session: {last:?}");
}

#[test]
fn person_allows_a_tool_of_goose() {
    if let Some(backend) = goose() {
        person_allows_a_tool(backend);
    }
}

#[test]
fn person_allows_a_tool_of_claude_agent_acp() {
    if let Some(backend) = claude_acp() {
        person_allows_a_tool(backend);
    }
}

/// A project whose coding agent `other` has this command.
fn project(command: &str) -> Project {
    let project = Project::new([("START.md", "<result>x</result>")]);
    let settings = format!("agent = 'other'\n[agents.other]\nacp = [{command}]\n");
    project.write(".raymond/config.toml", &settings);
    project
}

#[test]
fn command_that_does_not_speak_acp_fails_at_once_and_doctor_says_so() {
    for (command, expected) in [
        ("'/nowhere/agent'", "`/nowhere/agent` is not installed"),
        ("'true'", "it does not speak ACP: the coding agent exited"),
        ("'cat'", "it does not speak ACP: unknown method"),
    ] {
        let project = project(command);
        let ran = project.raymond(&["flow", "--budget", "0", "--no-lint"]).failed(1, expected);
        assert!(!ran.stderr.contains("starts again"), "{}", ran.stderr);
        let doctor = project.raymond(&["doctor"]);
        assert_eq!(doctor.code, 1, "{}", doctor.stdout);
        assert!(doctor.stdout.contains("problem  other"), "{}", doctor.stdout);
    }
}
