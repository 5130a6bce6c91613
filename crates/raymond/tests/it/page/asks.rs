//! Questions to people on the page: answered by click and by key, in several tabs, too late, and without a server.

use std::fs;

use serde_json::{Value, json};

use super::env::{Desk, PATIENCE};
use crate::env::{Project, agent_table, wait_until};

/// A bitmap of one pixel.
const PIXEL: &[u8] = b"GIF89a\x01\x00\x01\x00\x80\x00\x00\xff\xff\xff\x00\x00\x00!\xf9\x04\x01\x00\x00\x00\x00,\x00\x00\x00\x00\x01\x00\x01\x00\x00\x02\x02D\x01\x00;";
const PATCH: &str = "--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n same\n--- old\n+++ new\n";

/// A workflow that asks whether to ship, and ends with the whole answer.
fn asking() -> Project {
    let project = Project::new([
        (
            "START.sh",
            "echo '<ask next=\"LAST\" choices=\"ship|hold\" attach=\"plan.md|change.diff|pixel.gif|data.bin\">Ship **it**?</ask>'",
        ),
        (
            "LAST.sh",
            "[ -z \"$RAYMOND_FILES\" ] || files=$(cat \"$RAYMOND_FILES\"/*); echo \"<result>$RAYMOND_RESULT|$RAYMOND_COMMENT|$files</result>\"",
        ),
    ]);
    project.write("plan.md", "first the plan");
    project.write("change.diff", PATCH);
    fs::write(project.file("pixel.gif"), PIXEL).unwrap();
    fs::write(project.file("data.bin"), b"\0\x01\x02").unwrap();
    project.write("photo.txt", "a photo");
    project
}

impl Desk {
    /// Starts a run that asks, and waits for its row.
    fn asks(&mut self, run: &str) {
        let started = self.project.raymond(&["flow", "--id", run, "--detach"]);
        assert_eq!(started.code, 0, "{started:?}");
        self.until(&format!("document.querySelector('.needs_you [data-run={run}].asking')"));
    }

    /// Opens the page of a run's question.
    fn go_to_ask(&mut self, run: &str) {
        self.go("#/");
        let cover = format!("document.querySelector('[data-run={run}].asking .cover')");
        self.until(&cover);
        self.value(&format!("location.hash = {cover}.hash; 0"));
        self.until("document.querySelector('.choices')");
    }

    /// Answers on the command line. A row shows a question a moment before it can be answered there.
    fn answers(&self, run: &str, answer: &str) {
        wait_until("the answer counts", PATIENCE, || {
            self.project.raymond(&["answer", run, answer]).code == 0
        });
    }

    fn write_comment(&mut self, text: &str) {
        self.value("document.querySelector('.comment textarea').focus()");
        self.write(text);
    }

    fn result_of(&self, run: &str) -> Value {
        self.wait_for_end(run);
        let status = self.project.raymond(&["status", run, "--json"]).stdout;
        serde_json::from_str::<Value>(&status).unwrap()["result"].take()
    }
}

#[test]
fn question_is_answered_by_click_with_a_comment_and_a_file() {
    let Some(mut desk) = Desk::or_skip(asking()) else { return };
    desk.asks("a");
    desk.until("document.title === '(1) raymond'");
    assert_eq!(desk.text("[data-run=a] .what"), "main asks: Ship **it**?");
    desk.press("a");
    desk.until("document.querySelector('.choices')");
    assert_eq!(desk.text(".question strong"), "it");

    // What it brings along: text, a patch and a picture are shown, anything else is only saved.
    for name in ["plan.md", "change.diff", "pixel.gif"] {
        desk.click(".file", name);
    }
    desk.until_says(".attachments .block", "first the plan");
    desk.until("document.querySelector('.attachments img')?.naturalWidth === 1");
    desk.until("document.querySelector('.patch .added')");
    let marked = "['.added', '.removed', '.meta'].map((kind) => [...document.querySelectorAll(`.patch ${kind}`)].map((line) => line.textContent))";
    let lines = json!([["+++ new"], ["--- old"], ["--- a/x", "+++ b/x", "@@ -1,2 +1,2 @@"]]);
    assert_eq!(desk.value(marked), lines);
    desk.until("[...document.querySelectorAll('.file')].some((file) => file.textContent === 'data.bin 3 B, save')");
    desk.click(".led summary", "What led to it");
    desk.until_says(".led .transcript", "Ship **it**?");

    desk.write_comment("after lunch");
    desk.choose_file(".sending input", "photo.txt");
    desk.until_says(".sending .chip", "photo.txt");
    desk.click(".choices button", "1");
    desk.until_says(".recorded", "agent goes on at LAST.sh");
    desk.until_says(".given", "after lunch");
    assert_eq!(desk.result_of("a"), json!("ship|after lunch|a photo"));
    desk.go("#/");
    desk.until("document.querySelector('.ended [data-run=a]') && document.title === 'raymond'");
    desk.is_sound();
}

#[test]
fn question_is_answered_by_key_in_its_row_and_on_its_page() {
    let Some(mut desk) = Desk::or_skip(asking()) else { return };
    desk.asks("a");
    desk.asks("b");
    desk.until("document.title === '(2) raymond'");
    // Without a chosen row a digit is no answer.
    desk.press("1");
    desk.press("j");
    desk.until("document.querySelector('.row.cursor')");
    let chosen = desk.value("document.querySelector('.row.cursor').dataset.run");
    desk.press("2");
    desk.until("document.querySelectorAll('.asking').length === 1");
    assert_eq!(desk.result_of(chosen.as_str().unwrap()), json!("hold||"));

    let other = if chosen == "a" { "b" } else { "a" };
    desk.go_to_ask(other);
    // While somebody writes, a digit is a digit.
    desk.press("c");
    desk.until("document.activeElement?.tagName === 'TEXTAREA'");
    desk.press("2");
    desk.until("document.querySelector('.comment textarea').value === '2'");
    desk.press("Escape");
    desk.until("document.activeElement?.tagName !== 'TEXTAREA'");
    desk.press("1");
    desk.until_says(".recorded", "agent goes on at LAST.sh");
    assert_eq!(desk.result_of(other), json!("ship|2|"));
    desk.is_sound();
}

#[test]
fn question_that_a_row_cannot_show_whole_is_answered_only_on_its_page() {
    let project = asking();
    let lines: Vec<_> = (1..=200).map(|line| format!("line {line}")).collect();
    let lines = lines.join("\n");
    let ask = format!("<ask next=\"LAST\" choices=\"ship|hold\">{lines}\nand rm -rf /</ask>");
    project.write("flow/START.sh", &format!("cat <<'Q'\n{ask}\nQ\n"));
    let Some(mut desk) = Desk::or_skip(project) else { return };
    desk.asks("a");
    assert_eq!(desk.text("[data-run=a].asking .button"), "answer");
    let labels = "[...document.querySelectorAll('[data-run=a] button')].some((it) => it.textContent === 'ship')";
    assert_eq!(desk.value(labels), json!(false));
    desk.press("j");
    desk.until("document.querySelector('.row.cursor')");
    desk.press("1");
    desk.until("document.querySelector('.choices')");
    let shown = desk.text(".question");
    assert!((1..=200).all(|line| shown.contains(&format!("line {line}"))), "{shown}");
    assert!(shown.contains("and rm -rf /"), "{shown}");
    assert!(desk.project.raymond(&["asks"]).stdout.contains("main.1"), "nothing was answered");
    desk.is_sound();
}

#[test]
fn row_with_choices_shows_every_word_of_its_question() {
    let project = asking();
    let question =
        "Run the tests with cargo | tee log | -- and then delete the production database?";
    let ask = format!("<ask next=\"LAST\" choices=\"ship|hold\">{question}</ask>");
    project.write("flow/START.sh", &format!("cat <<'Q'\n{ask}\nQ\n"));
    let Some(mut desk) = Desk::or_skip(project) else { return };
    desk.asks("a");
    desk.until("document.querySelector('[data-run=a] .acts button')");
    assert_eq!(desk.text("[data-run=a] .what"), format!("main asks: {question}"));
    desk.value("location.hash = document.querySelector('[data-run=a] .cover').hash.replace('/ask/', '/run/').replace('/main.1', ''); 0");
    desk.until_says(".asks", question);
    desk.is_sound();
}

#[test]
fn question_whose_rendering_leaves_something_out_is_also_shown_as_written() {
    let project = asking();
    let written = "Deploy to *test*?\n\n[x]: /and-delete-the-database\n\n| a |\n|---|\n| 1 | rm -rf / |\n\n\
                   ~~~ and-reboot\nls\n~~~\n\nOr \u{202e}txet\u{202c} \u{200b}it?";
    let shown = written.replace('\u{202e}', "\\u{202e}").replace('\u{202c}', "\\u{202c}");
    let shown = shown.replace('\u{200b}', "\\u{200b}");
    let ask = format!("<ask next=\"LAST\" choices=\"ship|hold\">{written}</ask>");
    project.write("flow/START.sh", &format!("cat <<'Q'\n{ask}\nQ\n"));
    let Some(mut desk) = Desk::or_skip(project) else { return };
    desk.asks("a");
    assert_eq!(desk.text("[data-run=a] .what").matches('\u{202e}').count(), 0);
    desk.go_to_ask("a");
    assert_eq!(desk.text(".question .as-written"), shown);
    assert_eq!(desk.text(".question em"), "test");
    let is_whole = "(([box]) => box.scrollHeight <= box.clientHeight)(document.querySelectorAll('.as-written'))";
    assert_eq!(desk.value(is_whole), json!(true));

    let plain = "<ask next=\"LAST\" choices=\"ship|hold\">Deploy?\n\nNow?</ask>";
    desk.project.write("flow/START.sh", &format!("cat <<'Q'\n{plain}\nQ\n"));
    desk.go("#/");
    desk.asks("b");
    desk.go_to_ask("b");
    assert_eq!(desk.count(".question p"), 2);
    assert_eq!(desk.count(".question .as-written"), 0);
    desk.is_sound();
}

#[test]
fn command_that_a_permission_names_is_shown_as_it_is() {
    let project = Project::new([("START.md", "Work, then <result>done</result>.")]);
    let command = "rm *.o\n    _all_ [x](y) \\ <br>";
    let reply = json!({ "asks": [{ "tool": "shell", "text": command }], "cost_usd": 0.01 });
    project.write("reply.json", &format!("{reply}\n"));
    project.write("agent.sh", "cat > /dev/null; cat reply.json");
    let agent = format!("bash {}", project.file("agent.sh").display());
    project.write(".raymond/config.toml", &format!("agent = \"program\"\n{}", agent_table(&agent)));
    let Some(mut desk) = Desk::or_skip(project) else { return };
    desk.asks("a");
    desk.go_to_ask("a");
    assert_eq!(desk.count(".question > *"), 1);
    let shown = desk.text(".question .as-written");
    assert!(shown.contains(&format!("\n\n{command}\n\n")), "{shown}");
    desk.is_sound();
}

#[test]
fn answer_that_comes_too_late_says_who_was_first_and_keeps_what_was_written() {
    let Some(mut desk) = Desk::or_skip(asking()) else { return };
    desk.asks("a");
    desk.go_to_ask("a");
    desk.write_comment("my reasons");
    // The answer is held on its way, and another one is given meanwhile.
    desk.call("Fetch.enable", &json!({ "patterns": [{ "urlPattern": "*/answer" }] }));
    desk.click(".choices button", "1");
    let held = desk.event("Fetch.requestPaused");
    desk.answers("a", "hold");
    desk.call("Fetch.continueRequest", &json!({ "requestId": held["requestId"] }));
    desk.call("Fetch.disable", &json!({}));
    desk.until_says(".banner.problem", "Not recorded");
    desk.until_says(".banner.problem", "was already answered");
    desk.until_says(".given", "on the command line");
    assert_eq!(desk.value("document.querySelector('.given textarea').value"), json!("my reasons"));
    assert_eq!(desk.result_of("a"), json!("hold||"));

    // The same for somebody who has not sent anything yet.
    desk.go("#/");
    desk.asks("b");
    desk.go_to_ask("b");
    desk.write_comment("half a thou");
    desk.answers("b", "ship");
    desk.until_says(".given", "What you wrote, which was not sent");
    assert_eq!(desk.value("document.querySelector('.given textarea').value"), json!("half a thou"));

    // In a list the row goes away, and what happened is said.
    desk.go("#/");
    desk.asks("c");
    desk.call("Fetch.enable", &json!({ "patterns": [{ "urlPattern": "*/c/main.1/answer" }] }));
    desk.browser.forget("Fetch.requestPaused");
    desk.click("[data-run=c] button", "ship");
    let held = desk.event("Fetch.requestPaused");
    desk.answers("c", "hold");
    desk.until("!document.querySelector('.asking')");
    desk.call("Fetch.continueRequest", &json!({ "requestId": held["requestId"] }));
    desk.until_says(".notice.problem", "was already answered");
    desk.is_sound();
}

#[test]
fn answer_without_a_server_keeps_its_card_and_can_be_sent_again() {
    let Some(mut desk) = Desk::or_skip(asking()) else { return };
    desk.asks("a");
    desk.go_to_ask("a");
    desk.write_comment("my reasons");
    desk.kill_server();
    desk.click(".choices button", "1");
    desk.until_says(".banner.problem", "the server does not answer");
    let written = "document.querySelector('.comment textarea').value";
    assert_eq!(desk.value(written), json!("my reasons"));
    desk.restart_server();
    desk.until_says(".bottom", "connected");
    assert_eq!(desk.value(written), json!("my reasons"));
    desk.click(".choices button", "1");
    desk.until_says(".recorded", "agent goes on at LAST.sh");
    assert_eq!(desk.count(".banner.problem"), 0);
    assert_eq!(desk.result_of("a"), json!("ship|my reasons|"));
    desk.is_sound();
}

#[test]
fn answer_in_one_window_disappears_in_the_other() {
    let Some(mut desk) = Desk::or_skip(asking()) else { return };
    desk.asks("a");
    desk.asks("b");
    let mut other = desk.browser.window();
    std::mem::swap(&mut desk.tab, &mut other);
    desk.open();
    desk.until("document.querySelectorAll('.asking').length === 2");
    desk.click("[data-run=a] button", "ship");
    desk.until("document.querySelectorAll('.asking').length === 1");
    std::mem::swap(&mut desk.tab, &mut other);
    desk.until("document.querySelectorAll('.asking').length === 1");
    desk.until("document.title === '(1) raymond'");
    // And the other way round.
    desk.click("[data-run=b] button", "ship");
    desk.until("!document.querySelector('.asking') && document.title === 'raymond'");
    std::mem::swap(&mut desk.tab, &mut other);
    desk.until("!document.querySelector('.asking') && document.title === 'raymond'");
    desk.is_sound();
}

#[test]
fn hidden_tab_notifies_of_a_question_and_counts_it_in_its_title() {
    let Some(mut desk) = Desk::or_skip(asking()) else { return };
    let origin = desk.value("location.origin");
    let granted = json!({ "permissions": ["notifications"], "origin": origin });
    desk.browser.call(None, "Browser.grantPermissions", &granted);
    desk.until("Notification.permission === 'granted'");
    // The real one, seen while it is made.
    desk.value(
        "window.notices = []; window.Notification = class extends Notification { \
         constructor(title, more) { super(title, more); notices.push([title, more.body]); window.last = this; } }; 0",
    );
    let other = desk.browser.tab();
    desk.until("document.hidden");
    desk.project.raymond(&["flow", "--id", "a", "--detach"]);
    desk.until("window.notices.length === 1");
    assert_eq!(desk.value("window.notices"), json!([["flow asks", "Ship it?"]]));
    desk.until("document.title === '(1) raymond'");
    // A click on it leads to the question.
    desk.browser.call(None, "Target.closeTarget", &json!({ "targetId": other.target }));
    desk.call("Page.bringToFront", &json!({}));
    desk.value("window.last.onclick(); 0");
    desk.until("document.querySelector('.ask-page .choices')");
    desk.press("2");
    desk.until_says(".recorded", "agent goes on at LAST.sh");
    desk.until("document.title === 'question of flow · raymond'");
    assert_eq!(desk.value("window.notices.length"), json!(1));
    desk.is_sound();
}
