//! Questions to people through the server.

use std::fs;

use serde_json::json;

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
            "[ -z \"$RAYMOND_FILES\" ] || files=$(cat \"$RAYMOND_FILES\"/*); echo \"<result>$RAYMOND_RESULT: $RAYMOND_COMMENT $files</result>\"",
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
