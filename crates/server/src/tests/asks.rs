//! Questions to people: what is shown of them, their attachments, and files for the answer.

use raymond_engine::asks::{self, Reply};
use raymond_flow::id::AskId;
use serde_json::json;

use super::*;

const LAST: (&str, &str) = ("LAST.sh", "printf '<result>%s</result>' \"$RAYMOND_RESULT\"");
const CHOICE: &str = "<ask next=\"LAST\" choices=\"ship|hold\">Ship **it**?</ask>";

/// A run `a` that asks this, until it is cancelled.
struct Asking {
    desk: Desk,
    thread: JoinHandle<RunEnd>,
}

impl Asking {
    fn new(tag: &str) -> Self {
        Self::with(tag, |_| {})
    }

    fn with(tag: &str, change: impl FnOnce(&mut ServerOptions)) -> Self {
        let start = format!("echo '{tag}'");
        let desk = Desk::with([("START.sh", &*start), LAST], change);
        desk.write("page.html", "<html><script>alert(1)</script></html>");
        desk.write("drawing.svg", "<svg xmlns='http://www.w3.org/2000/svg' onload='alert(1)'/>");
        desk.write("picture.html", b"\x89PNG\r\n\x1a\n<script>alert(1)</script>");
        desk.write("data", b"%PDF-1.7\0<script>");
        desk.write("long", vec![b'x'; 70_000]);
        let thread = desk.begin_until("a", |run| run["asks"][0].is_object());
        Self { desk, thread }
    }

    /// The path of the question. Its files are there once this was read.
    fn path(&self) -> String {
        format!("/api/asks/{}/a/main.1", self.desk.project())
    }

    fn list(&self) -> Value {
        self.desk.get("/api/asks").ok()["asks"].clone()
    }

    /// Answers as another program would. The run goes on when it looks for answers.
    fn answer(&self, result: &str) {
        let reply = Reply {
            result: result.to_owned(),
            comment: "after lunch".to_owned(),
            files: Vec::new(),
            by: "ann".to_owned(),
            how: "command".to_owned(),
        };
        let state_dir = state_dir(&self.desk.file(""));
        asks::answer(
            &state_dir,
            &RunId::new("a").unwrap(),
            &AskId::parse("main.1").unwrap(),
            &reply,
        )
        .unwrap();
    }

    fn end(self) {
        cancel(&self.desk, "a");
        self.thread.join().unwrap();
    }
}

#[test]
fn question_is_listed_and_named_alike_in_every_view() {
    let asking = Asking::new(CHOICE);
    let desk = &asking.desk;
    let ask = desk.get(&asking.path()).ok();
    let run = desk.get(&desk.path("a")).ok();
    assert_eq!(run["group"], "needs_you");
    for row in [&run, &desk.get("/api/runs").ok()["runs"][0]] {
        let named = ["project", "run", "ask", "name"].map(|name| &row["asks"][0][name]);
        assert_eq!(named, [&json!(desk.project()), &json!("a"), &json!("main.1"), &json!("flow")]);
    }
    assert_eq!(ask["choices"][1], json!({ "label": "hold", "to": "LAST.sh" }));
    assert_eq!(ask["markdown"][0]["children"][1]["tag"], "strong");
    assert_eq!((&ask["answer"], &ask["step"]), (&json!(null), &json!("main.1")));
    let mut listed = asking.list()[0].clone();
    assert_eq!(listed["step"], json!(null), "only one question tells it");
    listed["step"] = json!("main.1");
    assert_eq!(listed, ask);
    assert_eq!(desk.get("/api/runs?text=ship").ok()["runs"][0]["run"], "a", "found by its text");
    asking.end();
}

#[test]
fn answered_question_says_who_answered_what() {
    let asking = Asking::new(CHOICE);
    asking.desk.get(&asking.path()).ok();
    asking.answer("hold");
    let answer = asking.desk.get(&asking.path()).ok()["answer"].clone();
    let fields = ["label", "text", "by", "how"].map(|name| &answer[name]);
    assert_eq!(fields, ["hold", "after lunch", "ann", "command"]);
    assert_eq!(asking.list(), json!([]));
    let late = asking.desk.upload(&format!("{}/files/late.txt", asking.path()), "x");
    assert_eq!(late.status, 409, "{late:?}");
    assert!(late.body.contains("was already answered by ann"), "{late:?}");
    asking.end();
}

#[test]
fn attachments_are_text_bitmaps_or_downloads_and_nothing_that_a_browser_executes() {
    let files = "page.html drawing.svg picture.html data long";
    let asking = Asking::new(&format!(
        "<ask next=\"LAST\" attach=\"{}\">Right?</ask>",
        files.replace(' ', "|")
    ));
    let (desk, path) = (&asking.desk, asking.path());
    let ask = desk.get(&path).ok();
    let expected = [
        ("text", "text/plain; charset=utf-8", "inline"),
        ("text", "text/plain; charset=utf-8", "inline"),
        ("image", "image/png", "inline"),
        ("download", "application/octet-stream", "attachment"),
        ("text", "text/plain; charset=utf-8", "inline"),
    ];
    let attachments = ask["attachments"].as_array().unwrap();
    assert_eq!(attachments.len(), expected.len(), "{ask}");
    for (file, (shown_as, kind, place)) in attachments.iter().zip(expected) {
        assert_eq!(file["shown_as"], shown_as, "{file}");
        assert_eq!(file["sha256"].as_str().map(str::len), Some(64), "{file}");
        let answer = desk.get(&format!("{path}/files/{}", file["name"].as_str().unwrap()));
        assert_eq!(answer.status, 200, "{answer:?}");
        for (header, value) in [
            ("content-type", kind),
            ("content-disposition", place),
            ("x-content-type-options", "nosniff"),
            ("content-security-policy", "default-src 'none'; frame-ancestors 'none'; sandbox"),
            ("cache-control", "no-store"),
        ] {
            assert_eq!(answer.header(header), value, "{file}");
        }
    }
    asking.end();
}

#[test]
fn attachment_that_was_changed_or_removed_since_is_an_error() {
    let asking = Asking::new("<ask next=\"LAST\" attach=\"page.html\">Right?</ask>");
    let (desk, path) = (&asking.desk, asking.path());
    let name = desk.get(&path).ok()["attachments"][0]["name"].as_str().unwrap().to_owned();
    let copy = format!(".raymond/workflows/a/asks/main.1/attachments/{name}");
    desk.write(&copy, "<html>something else</html>");
    let changed = desk.get(&format!("{path}/files/{name}"));
    assert_eq!(changed.status, 500, "{changed:?}");
    assert!(changed.body.contains("has changed since the question was asked"), "{changed:?}");
    fs::remove_file(desk.file(&copy)).unwrap();
    assert_eq!(desk.get(&path).ok()["attachments"][0]["shown_as"], "download");
    assert_eq!(desk.get(&format!("{path}/files/{name}")).status, 500);
    for wrong in ["question", "..%2fquestion", "..%2f..%2f..%2fa.journal", "%2fetc%2fpasswd"] {
        assert_eq!(desk.get(&format!("{path}/files/{wrong}")).status, 404, "{wrong}");
    }
    asking.end();
}

#[test]
fn upload_is_raw_and_has_a_plain_name() {
    let asking = Asking::new(CHOICE);
    let (desk, path) = (&asking.desk, format!("{}/files", asking.path()));
    assert_eq!(desk.post(&format!("{path}/x.txt"), &json!({})).status, 415);
    for name in
        ["..%2fx", ".hidden", "x%00y", "x%0Ay", "%2e%2e", "a%5cb", "C%3ax", &"x".repeat(201)]
    {
        let refused = desk.upload(&format!("{path}/{name}"), "x");
        assert_eq!(refused.status, 400, "{name}: {refused:?}");
    }
    let other = path.replace("main.1", "main.9");
    assert_eq!(desk.upload(&format!("{other}/x"), "x").status, 404);
    let kept = desk.upload(&format!("{path}/plan%20b.txt"), "a plan").ok();
    assert_eq!(kept["bytes"], 6);
    let folder = desk.folder.path().join("user/uploads").join(kept["file"].as_str().unwrap());
    assert_eq!(fs::read_to_string(folder.join("plan b.txt")).unwrap(), "a plan");
    asking.end();
}

#[test]
fn upload_has_a_largest_size_whether_it_says_its_length_or_not() {
    let asking = Asking::new(CHOICE);
    let path = format!("{}/files/big.bin", asking.path());
    let [host, token] = asking.desk.good();
    let raw = "Content-Type: application/octet-stream";
    let length = |bytes: usize| format!("Content-Length: {bytes}");
    let declared = |bytes: usize| {
        let headers = [&*host, &token, raw, &length(bytes)];
        asking.desk.send(&format!("POST {path}"), &headers, "x").status
    };
    assert_eq!(declared(25 * 1024 * 1024 + 1), 413);
    let silent = |bytes: usize| asking.desk.upload(&path, vec![b'x'; bytes]);
    assert_eq!(silent(25 * 1024 * 1024 + 1).status, 413);
    assert_eq!(silent(3 << 20).ok()["bytes"], 3 << 20);
    asking.end();
}

#[test]
fn only_so_many_uploads_wait_at_a_time() {
    let asking = Asking::new(CHOICE);
    let path = format!("{}/files", asking.path());
    for number in 0..40 {
        asking.desk.upload(&format!("{path}/{number}"), "x").ok();
    }
    let refused = asking.desk.upload(&format!("{path}/one-more"), "x");
    assert_eq!(refused.status, 409, "{refused:?}");
    assert_eq!(refused.json()["error"]["hints"], json!(["give an answer with them"]));
    asking.end();
}

#[test]
fn answer_names_only_uploads_that_there_are() {
    let asking = Asking::new("<ask next=\"LAST\">What?</ask>");
    let path = format!("{}/answer", asking.path());
    for wrong in [
        json!({ "text": 7 }),
        json!({ "text": "x", "how": "command" }),
        json!({ "text": "x", "by": "ann" }),
        json!({ "text": "x", "files": ["../../etc"] }),
        json!({ "text": "x", "files": ["0".repeat(64)] }),
        json!({ "text": "x", "files": vec!["0"; 21] }),
    ] {
        let refused = asking.desk.post(&path, &wrong);
        assert_eq!(refused.status, 400, "{wrong}: {refused:?}");
    }
    assert_eq!(asking.desk.post(&path, &json!({ "text": "x".repeat(2_000_000) })).status, 413);
    assert_eq!(asking.desk.get(&asking.path()).ok()["answer"], json!(null));
    asking.end();
}

#[test]
fn server_that_only_shows_takes_neither_answers_nor_uploads() {
    let asking = Asking::with(CHOICE, |options| options.is_read_only = true);
    let (desk, path) = (&asking.desk, asking.path());
    desk.get(&path).ok();
    assert_eq!(desk.post(&format!("{path}/answer"), &json!({ "label": "ship" })).status, 403);
    assert_eq!(desk.upload(&format!("{path}/files/x"), "x").status, 403);
    assert!(!desk.folder.path().join("user/uploads").exists());
    asking.end();
}

#[test]
fn question_of_a_cancelled_run_is_closed() {
    let asking = Asking::new(CHOICE);
    cancel(&asking.desk, "a");
    asking.thread.join().unwrap();
    let desk = &asking.desk;
    let run = desk.get(&desk.path("a")).ok();
    assert_eq!((&run["status"], &run["group"]), (&json!("cancelled"), &json!("ended")));
    assert_eq!((&run["asks"], &desk.get("/api/asks").ok()["asks"]), (&json!([]), &json!([])));
}

#[test]
fn question_of_a_damaged_run_hides_no_other_question_and_is_not_offered() {
    let asking = Asking::new(CHOICE);
    let desk = &asking.desk;
    let other = desk.begin_until("b", |run| run["asks"][0].is_object());
    // Its files come a moment after the record.
    until("both ask", || asking.list().as_array().unwrap().len() == 2);
    cancel(desk, "b");
    other.join().unwrap();
    let text = fs::read_to_string(desk.journal("b")).unwrap();
    let asked: Vec<_> = text.lines().take_while(|line| !line.contains("cancel")).collect();
    fs::write(desk.journal("b"), asked.join("\n") + "\nnothing\n{}\n").unwrap();
    assert!(desk.get(&desk.path("b")).ok()["problem"].is_string());
    assert_eq!(names(&asking.list(), "run"), ["a"]);
    assert_eq!(desk.get(&desk.path("b")).ok()["asks"], json!([]));
    asking.end();
}
