//! What Home and Run show, live, and what can be done there.

use std::fs;

use serde_json::json;

use super::env::{Desk, PATIENCE, gated};
use crate::env::{Project, Ran, WithAgent as _, agent_table, wait_until};

/// A script that fails until there is a file `good`.
const SHAKY: &str = "[ -e good ] && echo '<result>good now</result>' || exit 3";

/// A project with workflows of one script each, besides `flow`.
fn project(flows: &[(&str, &str)]) -> Project {
    let project = Project::new([("START.sh", "echo '<result>said so</result>'")]);
    for (name, script) in flows {
        fs::create_dir(project.file(name)).unwrap();
        project.write(&format!("{name}/START.sh"), script);
    }
    project
}

#[test]
fn home_groups_runs_by_what_they_need_and_keys_move_among_them() {
    let project = project(&[("shaky", SHAKY), ("slow", &gated("gate", "<result>slow</result>"))]);
    project.raymond(&["flow", "--id", "ended"]);
    project.raymond(&["shaky", "--id", "broken"]);
    project.raymond(&["slow", "--id", "busy", "--detach"]);
    let Some(mut desk) = Desk::or_skip(project) else { return };
    desk.until("document.querySelectorAll('.row').length === 3");
    let groups = "[...document.querySelectorAll('.group')].map((group) => \
                  [group.ariaLabel, ...[...group.querySelectorAll('.row')].map((row) => row.dataset.run)].join(' '))";
    let expected = json!(["Needs you broken", "Running busy", "Ended ended"]);
    assert_eq!(desk.value(groups), expected);
    desk.until_says("[data-run=broken]", "exited with code 3");
    desk.until_says("[data-run=ended]", "said so");
    assert_eq!(desk.value("document.title"), json!("(1) raymond"));

    desk.press("j");
    desk.press("j");
    desk.until("document.querySelector('.row.cursor')?.dataset.run === 'busy'");
    desk.press("k");
    desk.press("x");
    desk.until_says(".chosen", "1 selected");
    desk.press("/");
    desk.write("said so");
    desk.until("document.querySelectorAll('.row').length === 1");
    assert_eq!(desk.count("[data-run=ended]"), 1);
    desk.press("Escape");
    desk.press("?");
    desk.until_says("dialog", "search runs");
    desk.press("Escape");
    desk.until("!document.querySelector('dialog')");
    desk.press("j");
    desk.press("Enter");
    desk.until_says(".run h1", "ended");

    desk.project.write("gate", "");
    desk.wait_for_end("busy");
    desk.go("#/");
    desk.until("document.querySelectorAll('.group.ended .row').length === 2");
    desk.is_sound();
}

#[test]
fn run_that_the_form_starts_is_followed_to_its_end() {
    let project = Project::new([
        ("START.sh", "echo '<goto>MIDDLE</goto>'"),
        ("MIDDLE.sh", &gated("gate", "<goto>LAST</goto>")),
        ("LAST.sh", "echo \"<result>made $RAYMOND_INPUT</result>\""),
    ]);
    // A first run leaves the project in the list of the server.
    project.write("gate", "");
    project.raymond(&["flow", "--id", "first", "--input", "it before"]);
    fs::remove_file(project.file("gate")).unwrap();
    let Some(mut desk) = Desk::or_skip(project) else { return };
    desk.go("#/workflows");
    desk.until("document.querySelector('.row.flow .cover')");
    desk.value("location.hash = document.querySelector('.row.flow .cover').hash; 0");
    desk.until("document.querySelectorAll('.node.script').length === 3");
    if desk.count(".start textarea") == 1 {
        desk.value("document.querySelector('.start textarea').focus()");
        desk.write("a hat");
    }
    desk.click(".start button", "start");
    desk.until_says(".run .status", "running");
    desk.until_says(".agent .state", "MIDDLE.sh");
    desk.until("document.querySelector('.dot.running title')?.textContent.startsWith('main')");
    desk.until("document.querySelector('.bar.open')");
    desk.until("document.querySelectorAll('.steps .step').length === 2");

    desk.project.write("gate", "");
    desk.until_says(".run .status", "completed");
    desk.until_says(".result", "made");
    desk.until("document.querySelectorAll('.steps .step').length === 3");
    desk.until("document.querySelectorAll('.node .visit').length === 3");
    desk.until("!document.querySelector('.bar.open') && !document.querySelector('.dot')");
    let names =
        "[...document.querySelectorAll('.steps .step .name')].map((name) => name.textContent)";
    assert_eq!(desk.value(names), json!(["main.3", "main.2", "main.1"]));

    // Its other tabs, a step and its raw output.
    desk.press("2");
    desk.until_says(".tab", "MIDDLE.sh");
    desk.press("3");
    desk.until_says(".log", "transition");
    desk.press("4");
    desk.until_says(".settings", "START.sh");
    desk.press("1");
    desk.until("document.querySelector('.steps .step .cover')");
    desk.value("location.hash = document.querySelector('.steps .step .cover').hash; 0");
    desk.until_says(".step-page .head", "LAST.sh");
    desk.is_sound();
}

#[test]
fn step_that_begins_while_the_steps_are_fetched_is_shown() {
    let project = Project::new([
        ("START.sh", gated("first", "<goto>LAST</goto>").as_str()),
        ("LAST.sh", &gated("second", "<result>done</result>")),
    ]);
    project.raymond(&["flow", "--id", "busy", "--detach"]);
    let Some(mut desk) = Desk::or_skip(project) else { return };
    // The answers are as old as the request, and come when the page has heard of the second step.
    desk.value(
        "{ const real = window.fetch; window.held = []; window.fetch = async (...request) => { \
         const answer = await real(...request); \
         if (/\\/(steps|timeline)\\b/.test(String(request[0]))) \
         await new Promise((then) => window.held?.push(then) ?? then()); \
         return answer; }; } 0",
    );
    desk.go_to_run("busy");
    desk.until("window.held.length === 2");
    desk.project.write("first", "");
    desk.until_says(".agent .state", "LAST.sh");
    desk.value("window.held.splice(0).forEach((then) => then()); window.held = null; 0");
    desk.until("document.querySelectorAll('.steps .step').length === 2");
    desk.until("document.querySelectorAll('.timeline .bar').length === 2");
    desk.project.write("second", "");
    desk.until_says(".run .status", "completed");
    desk.is_sound();
}

#[test]
fn failed_run_is_resumed_and_another_is_cancelled() {
    let project = project(&[("shaky", SHAKY), ("slow", &gated("gate", "<result>slow</result>"))]);
    project.raymond(&["shaky", "--id", "broken"]);
    project.raymond(&["slow", "--id", "busy", "--detach"]);
    let Some(mut desk) = Desk::or_skip(project) else { return };
    desk.go_to_run("broken");
    desk.until_says(".banner", "exited with code 3");
    desk.until("document.querySelector('.node.failed')");
    desk.project.write("good", "");
    desk.click(".head button", "resume");
    desk.until_says(".run .status", "completed");
    desk.until_says(".result", "good now");

    desk.go_to_run("busy");
    desk.click(".head button", "cancel");
    desk.until_says("dialog", "cannot be resumed");
    desk.click("dialog button", "cancel for good");
    desk.until_says(".run .status", "cancelled");
    desk.is_sound();
}

#[test]
fn stopped_run_goes_on_with_a_higher_budget_and_a_refusal_stays_on_the_page() {
    let project = Project::new([
        ("START.md", "Begin. <goto>NEXT</goto>"),
        ("NEXT.sh", "echo '<result>paid for</result>'"),
    ]);
    let reply = json!({ "result": "<goto>NEXT</goto>", "cost_usd": 2.0 }).to_string();
    project.write("agent.sh", &format!("cat > /dev/null; echo '{reply}'"));
    let agent = format!("bash {}", project.file("agent.sh").display());
    project.write(
        ".raymond/config.toml",
        &format!("agent = \"program\"\nbudget = 1.0\n{}", agent_table(&agent)),
    );
    project.raymond(&["flow", "--id", "dear"]);
    let Some(mut desk) = Desk::or_skip(project) else { return };
    desk.until_says("[data-run=dear]", "budget");
    desk.click("[data-run=dear] button", "raise budget");
    desk.until("document.querySelector('dialog input[name=budget]')");
    let set = |value: &str| {
        format!(
            "{{ const box = document.querySelector('dialog input[name=budget]'); box.value = '{value}'; box.select() }}"
        )
    };
    desk.value(&set("1000"));
    desk.click("dialog button", "raise");
    desk.until("document.querySelector('dialog .problem')");
    assert_eq!(
        desk.value("document.querySelector('dialog input[name=budget]').value"),
        json!("1000")
    );
    desk.value(&set("7.5"));
    desk.click("dialog button", "raise");
    desk.until("!document.querySelector('dialog')");
    desk.until("document.querySelector('.group.ended [data-run=dear]')");
    desk.until_says("[data-run=dear]", "paid for");
    desk.go_to_run("dear");
    desk.until_says(".head .cost", "$2.00 of $7.50");
    desk.is_sound();
}

#[test]
fn agents_of_a_run_that_waits_or_died_do_not_look_busy() {
    let project = Project::new([("START.md", "do it")]);
    let limit = "cat >/dev/null; echo '{\"error\":\"no\",\"class\":\"usage_limit\",\"resets_at\":9999999999}'";
    project.write("limited.sh", limit);
    let mut command = project.command(&["flow", "--id", "limited", "--detach", "--no-lint"]);
    let agent = format!("bash {}", project.file("limited.sh").display());
    assert!(command.agent(agent).status().unwrap().success());
    fs::create_dir(project.file("dead")).unwrap();
    project.write("dead/START.sh", "touch waits; sleep 600");
    let mut dead = project.spawn(&["dead", "--id", "dead"]);
    wait_until("it runs", PATIENCE, || project.file("waits").exists());
    dead.kill().unwrap();
    dead.wait().unwrap();
    let Some(mut desk) = Desk::or_skip(project) else { return };
    desk.until("document.querySelector('.waiting [data-run=limited]')");
    desk.go_to_run("limited");
    desk.until_says(".agent .doing", "waits for the usage limit");
    desk.until("document.querySelector('.graph .dot.idle')");
    desk.go_to_run("dead");
    desk.until_says(".agent .doing", "interrupted");
    desk.until_says(".step .end", "interrupted");
    desk.until("document.querySelector('.graph .dot.idle') && !document.querySelector('.run .icon.running')");
    desk.go("#/");
    desk.click(".needs_you h2 button", "resume the run that died");
    desk.until("document.querySelector('.running [data-run=dead]')");
    desk.is_sound();
    desk.project.raymond(&["cancel", "dead", "--yes"]);
}

#[test]
fn agent_is_told_something_from_the_page_and_reads_it_with_its_next_prompt() {
    let project = Project::new([("START.md", "Begin."), ("NEXT.md", "Go on.")]);
    let agent = "cat > said; until [ -e gate ]; do sleep 0.01; done; \
                 if grep -q 'Go on' said; then echo '{\"result\":\"<result>done</result>\"}'; \
                 else echo '{\"result\":\"<goto>NEXT</goto>\"}'; fi";
    project.write("agent.sh", agent);
    let agent = format!("bash {}", project.file("agent.sh").display());
    let config = format!("agent = \"program\"\nbudget = 0\n{}", agent_table(&agent));
    project.write(".raymond/config.toml", &config);
    project.raymond(&["flow", "--id", "busy", "--detach", "--no-lint"]);
    let Some(mut desk) = Desk::or_skip(project) else { return };
    desk.until_says("[data-run=busy]", "START");
    desk.go_to_run("busy");
    desk.until(
        "[...document.querySelectorAll('.acts button')].some((it) => it.textContent === 'tell')",
    );
    desk.press("t");
    desk.until_says("dialog", "Tell main");
    desk.until("document.activeElement?.tagName === 'TEXTAREA'");
    desk.write("use the other table");
    desk.click("dialog button", "tell");
    desk.until_says(".notices", "main reads it at its next tool call");
    desk.until("!document.querySelector('dialog')");
    let step = desk.value("location.hash").as_str().unwrap().replace("#/run/", "#/step/");
    desk.go(&format!("{}/main.1", step.split('?').next().unwrap()));
    desk.until("document.querySelector('form.tell input')");
    desk.value("document.querySelector('form.tell input').focus()");
    desk.write("be quick");
    desk.press("Enter");
    desk.until("document.querySelector('form.tell input').value === ''");
    desk.project.write("gate", "");
    desk.wait_for_end("busy");
    let said = desk.project.read("said");
    assert!(said.contains("use the other table") && said.contains("be quick"), "{said}");
    desk.is_sound();
}

#[test]
fn use_of_a_subscription_is_shown_before_its_limit_is_reached() {
    let project = Project::new([("START.md", "Begin.")]);
    let info = r#"{"status":"allowed","unifiedWindows":{"five_hour":{"utilization":0.93,"resetsAt":4000000000},"seven_day":{"utilization":0.41}}}"#;
    let limits = format!(r#"{{"type":"rate_limit_event","rate_limit_info":{info}}}"#);
    let result = r#"{"type":"result","usage":{"input_tokens":1},"total_cost_usd":0.01,"is_error":false,"result":"<result>done</result>"}"#;
    let claude = format!(
        "#!/bin/bash\nread -r prompt\necho \"$prompt\"\necho '{limits}'\necho '{result}'\n"
    );
    project.write("claude", &claude);
    let runs = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(project.file("claude"), runs).unwrap();
    let mut command = project.command(&["flow", "--id", "used", "--no-lint"]);
    command.env("RAYMOND_CLAUDE", project.file("claude"));
    Ran::of(&command.output().unwrap()).completed("done");
    let Some(mut desk) = Desk::or_skip(project) else { return };
    desk.go_to_run("used");
    desk.until_says(".usage:has(.near)", "5-hour 93 %");
    desk.until_says(".usage:not(:has(.near))", "weekly 41 %");
    desk.is_sound();
}

#[test]
fn several_runs_are_resumed_and_cancelled_at_once() {
    let project = project(&[("shaky", SHAKY), ("slow", &gated("gate", "<result>slow</result>"))]);
    for run in ["one", "two"] {
        project.raymond(&["shaky", "--id", run]);
        project.raymond(&["slow", "--id", &format!("busy-{run}"), "--detach"]);
    }
    let Some(mut desk) = Desk::or_skip(project) else { return };
    desk.until("document.querySelectorAll('.row').length === 4");
    let select = |desk: &mut Desk, runs: [&str; 2]| {
        for run in runs {
            desk.value(&format!("document.querySelector('[data-run={run}] input').click()"));
        }
        desk.until_says(".chosen", "2 selected");
    };
    desk.project.write("good", "");
    select(&mut desk, ["one", "two"]);
    desk.click(".chosen button", "resume 2");
    desk.until("document.querySelectorAll('.ended .row').length === 2");
    desk.until("!document.querySelector('.chosen')");

    select(&mut desk, ["busy-one", "busy-two"]);
    desk.click(".chosen button", "cancel 2");
    desk.until_says("dialog", "Cancel 2 runs?");
    desk.click("dialog button", "back");
    desk.until("!document.querySelector('dialog')");
    desk.until_says(".chosen", "2 selected");
    desk.click(".chosen button", "cancel 2");
    desk.click("dialog button", "cancel for good");
    desk.until("document.querySelectorAll('.ended .row').length === 4");
    desk.until("!document.querySelector('.chosen')");
    desk.until_says("[data-run=busy-one]", "cancelled");
    desk.is_sound();
}

#[test]
fn damaged_run_says_what_is_wrong_and_which_command_helps_instead_of_offering_to_resume() {
    let project = project(&[("shaky", SHAKY)]);
    for run in ["cut", "lost"] {
        project.raymond(&["shaky", "--id", run]);
        let journal = project.file(&format!(".raymond/workflows/{run}.journal"));
        let text = fs::read_to_string(&journal).unwrap();
        let whole = text.lines().next().filter(|_| run == "cut").map(|line| format!("{line}\n"));
        fs::write(&journal, whole.unwrap_or_default() + "nothing\n{}\n").unwrap();
    }
    project.raymond(&["shaky", "--id", "good"]);
    let Some(mut desk) = Desk::or_skip(project) else { return };
    desk.until_says("[data-run=good] .acts", "resume");
    for (run, wrong) in [("cut", "is damaged at byte"), ("lost", "is damaged at byte 0")] {
        desk.until_says(&format!("[data-run={run}] .what"), wrong);
        assert_eq!(desk.count(&format!("[data-run={run}] .acts button")), 0, "{run}");
    }
    desk.press("j");
    desk.press("x");
    desk.press("j");
    desk.press("x");
    desk.press("j");
    desk.press("x");
    desk.until_says(".chosen", "3 selected");
    let offered = desk.value(
        "[...document.querySelectorAll('.chosen button')].map((button) => button.innerText)",
    );
    assert_eq!(offered.as_array().unwrap()[..2], [json!("resume 1"), json!("cancel 1")]);
    for run in ["cut", "lost"] {
        desk.go_to_run(run);
        desk.until_says(".run .status", "unreadable");
        desk.until_says(".banner", &format!("raymond resume {run}"));
        assert_eq!(desk.count(".head .acts button"), 0);
        let said = desk.project.raymond(&["resume", run]).stderr;
        assert!(said.contains("restore the file from a backup"), "{said}");
    }
    desk.is_sound();
}
