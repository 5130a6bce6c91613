//! Questions to people through the server.

use std::{fs, thread};

use serde_json::{Value, json};

use super::{PATIENCE, Server};
use crate::env::{Project, wait_until};

fn asking() -> Project {
    let project = Project::new([
        (
            "START.sh",
            "echo '<ask next=\"LAST\" choices=\"ship|hold\" attach=\"plan.md\">Ship **it**?</ask>'",
        ),
        (
            "LAST.sh",
            "echo \"<result>$RAYMOND_RESULT: $RAYMOND_COMMENT $([ -z \"$RAYMOND_FILES\" ] || cat \"$RAYMOND_FILES\"/*)</result>\"",
        ),
    ]);
    project.write("plan.md", "<script>a plan</script>");
    project
}

#[test]
fn question_is_shown_with_its_attachment_and_answered_once_with_a_file() {
    let project = asking();
    project.raymond(&["flow", "--id", "a", "--detach"]);
    let server = Server::start(&project, &[]);
    let list = || server.get("/api/asks").ok()["asks"].clone();
    wait_until("it asks", PATIENCE, || list()[0].is_object());
    let run = server.get(&server.run("a")).ok();
    assert_eq!(run["group"], "needs_you");
    assert_eq!(run["asks"][0]["question"], "Ship **it**?");
    // A row's question is named like any other, so that it can be answered from there.
    for row in [&run, &server.get("/api/runs").ok()["runs"][0]] {
        let named = ["project", "run", "ask"].map(|name| &row["asks"][0][name]);
        assert_eq!(named, [&json!(server.project()), &json!("a"), &json!("main.1")]);
    }
    let ask = list()[0].clone();
    assert_eq!(ask["choices"][1], json!({ "label": "hold", "leads_to": "LAST.sh" }));
    assert_eq!(ask["markdown"][0]["children"][1]["tag"], "strong");
    let path = format!("/api/asks/{}/a/main.1", server.project());
    assert_eq!(server.get(&path).ok()["answer"], json!(null));
    assert_eq!(server.get(&path).ok()["step"], "main.1");
    let file = ask["attachments"][0]["name"].as_str().unwrap();
    assert_eq!(ask["attachments"][0]["shown_as"], "text");
    let shown = server.get(&format!("{path}/files/{file}"));
    assert_eq!(shown.body, "<script>a plan</script>");
    assert!(shown.head.contains("text/plain") && shown.head.contains("sandbox"), "{shown:?}");
    for wrong in
        ["question", "..%2fquestion", "..%2f..%2f..%2fa.journal", "..%2f..%2f..%2fconfig.toml"]
    {
        let answer = server.get(&format!("{path}/files/{wrong}"));
        assert_eq!(answer.status, 404, "{wrong}: {answer:?}");
    }
    let upload = upload(&server, &format!("{path}/files/photo.txt"), "a photo");
    assert_eq!(upload.status, 200, "{upload:?}");
    let id = upload.json()["file"].clone();
    for wrong in [
        json!({ "label": "never" }),
        json!({}),
        json!({ "label": "ship", "files": ["../../etc"] }),
        json!({ "label": "ship", "by": "someone else" }),
    ] {
        let answer = server.post(&format!("{path}/answer"), &wrong);
        assert_eq!(answer.status, 400, "{wrong}: {answer:?}");
    }
    let body = json!({ "label": "ship", "text": "after lunch", "files": [id] });
    let answer = server.post(&format!("{path}/answer"), &body).ok();
    assert_eq!(answer["leads_to"], "LAST.sh");
    let again = server.post(&format!("{path}/answer"), &json!({ "label": "hold" }));
    assert_eq!(again.status, 409, "{again:?}");
    assert!(again.body.contains("was already answered by"), "{again:?}");
    let status = || server.get(&server.run("a")).ok();
    wait_until("it ends", PATIENCE, || status()["status"] == "completed");
    assert_eq!(status()["result"], "ship: after lunch a photo");
    assert_eq!(server.get(&path).ok()["answer"]["label"], "ship");
    assert_eq!(server.get(&path).ok()["step"], "main.1", "not a step after the answer");
    assert_eq!(list(), json!([]));
    let left = fs::read_dir(project.file(".state/raymond/uploads")).unwrap().count();
    assert_eq!(left, 0, "uploads are removed when they are answered");
}

fn upload(server: &Server, path: &str, body: &str) -> super::Answer {
    let [host, token] = server.good();
    let headers = [&*host, &token, "Content-Type: application/octet-stream"];
    server.send(&format!("POST {path}"), &headers, body)
}

#[test]
fn upload_must_be_raw_and_small_and_have_a_plain_name() {
    let project = asking();
    project.raymond(&["flow", "--id", "a", "--detach"]);
    let server = Server::start(&project, &[]);
    wait_until("it asks", PATIENCE, || server.get("/api/asks").ok()["asks"][0].is_object());
    let path = format!("/api/asks/{}/a/main.1/files", server.project());
    assert_eq!(server.post(&format!("{path}/x.txt"), &json!({})).status, 415);
    assert_eq!(upload(&server, &format!("{path}/..%2fx"), "x").status, 400);
    assert_eq!(upload(&server, &format!("{path}/.hidden"), "x").status, 400);
    let [host, token] = server.good();
    let request = format!(
        "POST {path}/x.bin HTTP/1.1\r\n{host}\r\n{token}\r\nConnection: close\r\n\
         Content-Type: application/octet-stream\r\nContent-Length: 99999999\r\n\r\n"
    );
    assert_eq!(server.raw(request.as_bytes()).status, 413);
    let other = path.replace("main.1", "main.9");
    assert_eq!(upload(&server, &format!("{other}/x"), "x").status, 404);
    project.raymond(&["cancel", "a", "--yes"]);
}

#[cfg(unix)]
#[test]
fn answer_to_a_run_that_no_program_runs_resumes_it() {
    let project = asking();
    let server = Server::start(&project, &[]);
    let mut child = project.spawn(&["flow", "--id", "a"]);
    wait_until("it asks", PATIENCE, || server.get("/api/asks").ok()["asks"][0].is_object());
    child.kill().unwrap();
    child.wait().unwrap();
    let path = format!("/api/asks/{}/a/main.1/answer", server.project());
    let answer = server.post(&path, &json!({ "label": "hold" })).ok();
    assert_eq!(answer["resumed"], true);
    let status = || server.get(&server.run("a")).ok();
    wait_until("it ends", PATIENCE, || status()["status"] == "completed");
}

/// A run `a` that asks this, and a server that shows it; and the path of its question.
fn asks(tag: &str, arguments: &[&str]) -> (Project, Server, String) {
    let start = format!("echo '{tag}'");
    let last = "printf '<result>%s</result>' \"$RAYMOND_RESULT\"";
    let project = Project::new([("START.sh", &*start), ("LAST.sh", last)]);
    project.write("page.html", "<html><script>alert(1)</script></html>");
    project.write("drawing.svg", "<svg xmlns='http://www.w3.org/2000/svg' onload='alert(1)'/>");
    fs::write(project.file("picture.html"), b"\x89PNG\r\n\x1a\n<script>alert(1)</script>").unwrap();
    fs::write(project.file("data"), b"%PDF-1.7\0<script>").unwrap();
    fs::write(project.file("long"), vec![b'x'; 70_000]).unwrap();
    project.raymond(&["flow", "--id", "a", "--detach"]);
    let server = Server::start(&project, arguments);
    wait_until("it asks", PATIENCE, || server.get("/api/asks").ok()["asks"][0].is_object());
    let path = format!("/api/asks/{}/a/main.1", server.project());
    (project, server, path)
}

const FREE: &str = "<ask next=\"LAST\">What?</ask>";
const CHOICE: &str = "<ask next=\"LAST\" choices=\"ship|hold\">Ship?</ask>";

#[test]
fn attachments_are_text_bitmaps_or_downloads_and_nothing_that_a_browser_executes() {
    let files = "page.html drawing.svg picture.html data long";
    let (project, server, path) = asks(
        &format!("<ask next=\"LAST\" attach=\"{}\">Right?</ask>", files.replace(' ', "|")),
        &[],
    );
    let ask = server.get(&path).ok();
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
        let answer = server.get(&format!("{path}/files/{}", file["name"].as_str().unwrap()));
        assert_eq!(answer.status, 200, "{answer:?}");
        for header in [
            &*format!("\r\ncontent-type: {kind}\r\n"),
            &format!("\r\ncontent-disposition: {place}"),
            "\r\nx-content-type-options: nosniff",
            "default-src 'none'; frame-ancestors 'none'; sandbox",
            "\r\ncache-control: no-store",
        ] {
            assert!(answer.head.contains(header), "{header}: {}", answer.head);
        }
    }
    let name = attachments[0]["name"].as_str().unwrap();
    let copy = format!(".raymond/workflows/a/asks/main.1/attachments/{name}");
    project.write(&copy, "<html>something else</html>");
    let changed = server.get(&format!("{path}/files/{name}"));
    assert_eq!(changed.status, 500, "{changed:?}");
    assert!(changed.body.contains("has changed since the question was asked"), "{changed:?}");
    fs::remove_file(project.file(&copy)).unwrap();
    assert_eq!(server.get(&path).ok()["attachments"][0]["shown_as"], "download");
    assert_eq!(server.get(&format!("{path}/files/{name}")).status, 500);
    project.raymond(&["cancel", "a", "--yes"]);
}

#[test]
fn answer_that_comes_before_the_files_of_its_question_waits_for_them() {
    let (project, server, path) = asks(CHOICE, &[]);
    let folder = project.file(".raymond/workflows/a/asks/main.1");
    let aside = project.file("aside");
    fs::rename(&folder, &aside).unwrap();
    let answer = thread::scope(|scope| {
        let path = format!("{path}/answer");
        let (server, body) = (&server, json!({ "label": "ship" }));
        let answer = scope.spawn(move || server.post(&path, &body));
        // Each is answered by the same thread of the server, so it has begun with the answer, too.
        for _ in 0..20 {
            server.get("/api/runs").ok();
        }
        fs::rename(&aside, &folder).unwrap();
        answer.join().unwrap()
    });
    assert_eq!(answer.ok()["leads_to"], "LAST.sh");
    wait_until("it ends", PATIENCE, || server.get(&server.run("a")).ok()["status"] == "completed");
}

#[test]
fn of_many_answers_at_once_one_counts_and_the_others_are_told_whose() {
    let (project, server, path) = asks(CHOICE, &[]);
    let path = format!("{path}/answer");
    let answers: Vec<_> = thread::scope(|scope| {
        let threads: Vec<_> = (0..12)
            .map(|number| {
                let label = ["ship", "hold"][number % 2];
                let (server, path) = (&server, &path);
                scope.spawn(move || (label, server.post(path, &json!({ "label": label }))))
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let (won, lost): (Vec<_>, Vec<_>) =
        answers.iter().partition(|(_, answer)| answer.status == 200);
    assert_eq!(won.len(), 1, "{answers:?}");
    let label = won[0].0;
    for (_, answer) in lost {
        assert_eq!(answer.status, 409, "{answer:?}");
        assert!(answer.body.contains("was already answered by"), "{answer:?}");
        assert!(answer.body.contains(&format!("(page): {label}")), "{answer:?}");
    }
    let line = project.raymond(&["answer", "a", "main.1", label]);
    line.failed(1, "(page)");
    let status = || server.get(&server.run("a")).ok();
    wait_until("it ends", PATIENCE, || status()["status"] == "completed");
    assert_eq!(status()["result"], label);
}

#[test]
fn free_answer_is_a_text_and_nothing_else() {
    let (_project, server, path) = asks(FREE, &[]);
    let answer = |body: &Value| server.post(&format!("{path}/answer"), body);
    for wrong in [
        json!({}),
        json!({ "text": " \n" }),
        json!({ "label": "ship" }),
        json!({ "label": "ship", "text": "x" }),
        json!({ "text": 7 }),
        json!({ "text": "x", "how": "command" }),
        json!({ "text": "x", "files": ["0".repeat(64)] }),
        json!({ "text": "x", "files": vec!["0"; 21] }),
    ] {
        let refused = answer(&wrong);
        assert_eq!(refused.status, 400, "{wrong}: {refused:?}");
        assert!(!refused.body.contains("/.state"), "{refused:?}");
    }
    assert_eq!(answer(&json!({ "text": "x".repeat(2_000_000) })).status, 413);
    let text = "two\nlines, \u{202e}<b>markup</b> & 'quotes'";
    answer(&json!({ "text": text })).ok();
    let status = || server.get(&server.run("a")).ok();
    wait_until("it ends", PATIENCE, || status()["status"] == "completed");
    assert_eq!(status()["result"], text);
    let given = server.get(&path).ok()["answer"].clone();
    assert_eq!(
        (&given["label"], &given["text"], &given["how"]),
        (&json!(null), &json!(text), &json!("page"))
    );
}

#[test]
fn uploads_have_limits_and_wait_only_for_questions_that_are_open() {
    let (project, server, path) = asks(CHOICE, &[]);
    let [host, token] = server.good();
    let chunked = |chunks: usize| {
        let head = format!(
            "POST {path}/files/big.bin HTTP/1.1\r\n{host}\r\n{token}\r\nConnection: close\r\n\
             Content-Type: application/octet-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
        );
        let chunk = [b"100000\r\n".to_vec(), vec![b'x'; 1 << 20], b"\r\n".to_vec()].concat();
        server.raw(&[head.into_bytes(), chunk.repeat(chunks), b"0\r\n\r\n".to_vec()].concat())
    };
    assert_eq!(chunked(26).status, 413, "a body that does not say how long it is");
    let large = chunked(3);
    assert_eq!((large.status, &large.json()["bytes"]), (200, &json!(3 << 20)), "{large:?}");
    for (name, status) in
        [("x%00y", 400), ("x%0Ay", 400), ("%2e%2e", 400), ("a%5cb", 400), ("C%3ax", 400)]
    {
        let refused = upload(&server, &format!("{path}/files/{name}"), "x");
        assert_eq!(refused.status, status, "{name}: {refused:?}");
    }
    let one = upload(&server, &format!("{path}/files/same.txt"), "1").ok()["file"].clone();
    let two = upload(&server, &format!("{path}/files/same.txt"), "2").ok()["file"].clone();
    let answer = |body: &Value| server.post(&format!("{path}/answer"), body);
    let twice = answer(&json!({ "label": "ship", "files": [one, two] }));
    assert_eq!(twice.status, 400, "{twice:?}");
    assert!(twice.body.contains("cannot hand over `same.txt`: another file"), "{twice:?}");
    assert!(!twice.body.contains("/.state"), "{twice:?}");
    // Three wait. The limit is for all.
    for number in 3..40 {
        upload(&server, &format!("{path}/files/{number}"), "x").ok();
    }
    let refused = upload(&server, &format!("{path}/files/one-more"), "x");
    assert_eq!(refused.status, 409, "{refused:?}");
    answer(&json!({ "label": "ship", "files": [one] })).ok();
    let late = upload(&server, &format!("{path}/files/late.txt"), "x");
    assert_eq!(late.status, 409, "{late:?}");
    assert!(late.body.contains("was already answered"), "{late:?}");
    let kept = project.file(".raymond/workflows/a/asks/main.1/files");
    let folder = fs::read_dir(kept).unwrap().next().unwrap().unwrap().path();
    assert_eq!(fs::read_to_string(folder.join("same.txt")).unwrap(), "1");
}

#[test]
fn server_that_only_shows_takes_neither_answers_nor_uploads() {
    let (project, server, path) = asks(CHOICE, &["--read-only"]);
    server.get(&path).ok();
    assert_eq!(server.post(&format!("{path}/answer"), &json!({ "label": "ship" })).status, 403);
    assert_eq!(upload(&server, &format!("{path}/files/x"), "x").status, 403);
    assert!(!project.file(".state/raymond/uploads").exists());
    project.raymond(&["cancel", "a", "--yes"]);
}

#[test]
fn question_of_a_cancelled_run_is_closed() {
    let (project, server, path) = asks(CHOICE, &[]);
    project.raymond(&["cancel", "a", "--yes"]);
    let run = server.get(&server.run("a")).ok();
    assert_eq!((&run["status"], &run["group"]), (&json!("cancelled"), &json!("ended")));
    assert_eq!(run["asks"], json!([]));
    assert_eq!(server.get("/api/asks").ok()["asks"], json!([]));
    let late = server.post(&format!("{path}/answer"), &json!({ "label": "ship" }));
    assert_eq!(late.status, 409, "{late:?}");
}

#[test]
fn run_that_was_paused_for_people_is_resumed_by_the_answer() {
    let project = asking();
    project.raymond(&["flow", "--id", "a", "--no-wait"]).failed(4, "raymond answer a");
    let server = Server::start(&project, &[]);
    let path = format!("/api/asks/{}/a/main.1/answer", server.project());
    let answer = server.post(&path, &json!({ "label": "hold" })).ok();
    assert_eq!(answer["resumed"], true);
    let status = || server.get(&server.run("a")).ok();
    wait_until("it ends", PATIENCE, || status()["status"] == "completed");
}

#[test]
fn question_of_a_damaged_run_hides_no_other_question_and_is_not_offered() {
    let project = asking();
    for run in ["good", "damaged"] {
        project.raymond(&["flow", "--id", run, "--detach"]);
    }
    let server = Server::start(&project, &[]);
    let runs = || -> Vec<String> {
        let asks = server.get("/api/asks").ok()["asks"].clone();
        asks.as_array().unwrap().iter().map(|ask| ask["run"].to_string()).collect()
    };
    wait_until("both ask", PATIENCE, || runs().len() == 2);
    let journal = project.file(".raymond/workflows/damaged.journal");
    let text = fs::read_to_string(&journal).unwrap();
    fs::write(&journal, text + "nothing\n{}\n").unwrap();
    wait_until("the damage is noticed", PATIENCE, || {
        !server.get(&server.run("damaged")).ok()["error"].is_null()
    });
    assert_eq!(runs(), ["\"good\""]);
    assert_eq!(server.get(&server.run("damaged")).ok()["asks"], json!([]));
}
