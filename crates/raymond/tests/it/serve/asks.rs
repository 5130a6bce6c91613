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
    assert_eq!(ask["choices"][1], json!({ "label": "hold", "to": "LAST.sh" }));
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
    assert_eq!(answer["to"], "LAST.sh");
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
fn asks(tag: &str) -> (Project, Server, String) {
    let start = format!("echo '{tag}'");
    let last = "printf '<result>%s</result>' \"$RAYMOND_RESULT\"";
    let project = Project::new([("START.sh", &*start), ("LAST.sh", last)]);
    project.raymond(&["flow", "--id", "a", "--detach"]);
    let server = Server::start(&project, &[]);
    wait_until("it asks", PATIENCE, || server.get("/api/asks").ok()["asks"][0].is_object());
    let path = format!("/api/asks/{}/a/main.1", server.project());
    (project, server, path)
}

const FREE: &str = "<ask next=\"LAST\">What?</ask>";
const CHOICE: &str = "<ask next=\"LAST\" choices=\"ship|hold\">Ship?</ask>";

#[test]
fn answer_that_comes_before_the_files_of_its_question_waits_for_them() {
    let (project, server, path) = asks(CHOICE);
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
    assert_eq!(answer.ok()["to"], "LAST.sh");
    wait_until("it ends", PATIENCE, || server.get(&server.run("a")).ok()["status"] == "completed");
}

#[test]
fn of_many_answers_at_once_one_counts_and_the_others_are_told_whose() {
    let (project, server, path) = asks(CHOICE);
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
    let (_project, server, path) = asks(FREE);
    let answer = |body: &Value| server.post(&format!("{path}/answer"), body);
    let same = || upload(&server, &format!("{path}/files/same.txt"), "x").ok()["file"].clone();
    for wrong in [
        json!({}),
        json!({ "text": " \n" }),
        json!({ "label": "ship" }),
        json!({ "label": "ship", "text": "x" }),
        json!({ "text": "x", "files": [same(), same()] }),
    ] {
        let refused = answer(&wrong);
        assert_eq!(refused.status, 400, "{wrong}: {refused:?}");
    }
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
