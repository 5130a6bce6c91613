//! A server that dies and a tab that is hidden: nothing is missed, nothing is shown twice, nothing is loaded again.

use serde_json::json;

use super::env::{Desk, gated};
use crate::env::Project;

/// A run of five steps, the second and the fourth of which wait.
fn project() -> Project {
    Project::new([
        ("START.sh", "echo '<goto>TWO</goto>'"),
        ("TWO.sh", &gated("gate2", "<goto>THREE</goto>")),
        ("THREE.sh", "echo '<goto>FOUR</goto>'"),
        ("FOUR.sh", &gated("gate4", "<goto>FIVE</goto>")),
        ("FIVE.sh", "echo '<result>five</result>'"),
    ])
}

const STEPS: &str =
    "[...document.querySelectorAll('.steps .step .name')].map((name) => name.textContent)";

#[test]
fn page_continues_without_gap_or_repeat_when_the_server_is_killed_and_started_again() {
    let project = project();
    project.raymond(&["flow", "--id", "r", "--detach"]);
    let Some(mut desk) = Desk::or_skip(project) else { return };
    desk.go_to_run("r");
    desk.until_says(".agent .state", "TWO.sh");
    desk.until("document.querySelectorAll('.steps .step').length === 2");

    desk.kill_server();
    desk.until_says(".bottom", "connection lost at");
    desk.until("document.querySelector('main.stale')");
    assert_eq!(desk.count(".steps .step"), 2, "what was shown stays");
    // The run goes on without the server.
    desk.project.write("gate2", "");
    crate::env::wait_until("the run went on", super::env::PATIENCE, || {
        desk.project.raymond(&["status", "r", "--json"]).stdout.contains("FOUR.sh")
    });

    desk.restart_server();
    desk.until_says(".bottom", "connected");
    desk.until_says(".agent .state", "FOUR.sh");
    desk.until("document.querySelectorAll('.steps .step').length === 4");
    desk.project.write("gate4", "");
    desk.until_says(".run .status", "completed");
    desk.until("document.querySelectorAll('.steps .step').length === 5");
    assert_eq!(desk.value(STEPS), json!(["main.5", "main.4", "main.3", "main.2", "main.1"]));
    desk.until("!document.querySelector('.timeline .bar.open')");
    desk.is_sound();
}

#[test]
fn hidden_tab_has_everything_when_it_is_shown_again() {
    let project = project();
    project.raymond(&["flow", "--id", "r", "--detach"]);
    let Some(mut desk) = Desk::or_skip(project) else { return };
    desk.go_to_run("r");
    desk.until("document.querySelectorAll('.steps .step').length === 2");
    let other = desk.browser.tab();
    desk.until("document.hidden");
    desk.project.write("gate2", "");
    desk.project.write("gate4", "");
    desk.wait_for_end("r");
    desk.browser.call(None, "Target.closeTarget", &json!({ "targetId": other.target }));
    desk.call("Page.bringToFront", &json!({}));
    desk.until("!document.hidden");
    desk.until_says(".run .status", "completed");
    desk.until("document.querySelectorAll('.steps .step').length === 5");
    desk.is_sound();
}

#[test]
fn page_without_the_token_says_how_to_get_it() {
    let Some(mut desk) = Desk::or_skip(project()) else { return };
    desk.value("localStorage.clear()");
    desk.call("Page.reload", &json!({}));
    desk.until_says("main", "raymond open");
    assert_eq!(desk.count(".row"), 0);
    desk.open();
    desk.until_says("main", "No runs yet");
    desk.is_sound();
}
