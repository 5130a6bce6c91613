//! Changes: which command a request becomes, and what becomes of its output. A script stands for the program: what the
//! commands do is tested where they are.

#![cfg(unix)]

use std::os::unix::fs::PermissionsExt as _;

use serde_json::json;

use super::*;

/// A server whose program notes its words and standard input, prints `printed` on standard output and `said` on standard
/// error, and exits with `code`.
fn desk(printed: &str, said: &str, code: u8) -> Desk {
    desk_with(printed, said, code, |_| {})
}

fn desk_with(printed: &str, said: &str, code: u8, change: impl FnOnce(&mut ServerOptions)) -> Desk {
    let desk = Desk::with(SHORT, change);
    let program = desk.folder.path().join("raymond");
    let folder = desk.folder.path().to_str().unwrap().to_owned();
    desk.write("../printed", printed);
    desk.write("../said", said);
    let script = format!(
        "#!/bin/bash\ncd {folder}; pwd_was=$OLDPWD\nprintf '%s\\n' \"$@\" > words; cat > given; echo \"$pwd_was\" > place\n\
         cat printed; cat said >&2; exit {code}\n"
    );
    fs::write(&program, script).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o700)).unwrap();
    desk
}

impl Desk {
    /// The words of the command that was carried out, but for the place that each names.
    fn words(&self) -> Vec<String> {
        let words = fs::read_to_string(self.folder.path().join("words")).unwrap();
        let mut words: Vec<_> = words.lines().map(str::to_owned).collect();
        let at = words.iter().position(|word| word == "--data-dir").unwrap();
        let place: Vec<_> = words.drain(at..at + 2).collect();
        assert_eq!(place[1], self.file(".raymond").to_str().unwrap());
        words
    }

    /// The path at which runs of the only workflow are started.
    fn starts(&self) -> String {
        let workflows = self.get("/api/workflows").ok();
        format!("/api/workflows/{}/runs", workflows["workflows"][0]["workflow"].as_str().unwrap())
    }

    /// What the command was given on standard input.
    fn given(&self) -> String {
        fs::read_to_string(self.folder.path().join("given")).unwrap()
    }
}

const DONE: &str = r#"{"run":"r","status":"paused","running_steps":0}"#;

#[test]
fn each_change_is_a_command_whose_output_is_the_answer() {
    let desk = desk(DONE, "Run r has stopped.\n", 0);
    desk.run("r");
    let path = desk.path("r");
    let limits =
        json!({ "budget_usd": 2.5, "max_iterations": 7, "max_parallel": 3, "max_retries": 0 });
    let options = ["--budget=2.5", "--max-iterations=7", "--max-parallel=3", "--retries=0"];
    let said = json!({ "agent": "main", "text": "--two\nlines\n" });
    let cases: [(&str, Value, Vec<&str>); 7] = [
        ("stop", json!({}), vec!["stop", "--json", "--", "r"]),
        ("stop", json!({ "now": true }), vec!["stop", "--json", "--now", "--", "r"]),
        ("cancel", json!({}), vec!["cancel", "--json", "--yes", "--", "r"]),
        ("limits", limits.clone(), [&["limit", "--json"], &options[..], &["--", "r"]].concat()),
        ("resume", json!({}), vec!["resume", "--json", "--detach", "--", "r"]),
        (
            "resume",
            limits,
            [&["resume", "--json"], &options[..], &["--detach", "--", "r"]].concat(),
        ),
        ("tell", said, vec!["tell", "--json", "--", "r", "main", "-"]),
    ];
    for (verb, body, words) in cases {
        let answer = desk.post(&format!("{path}/{verb}"), &body);
        assert_eq!(answer.status, 200, "{verb}: {answer:?}");
        assert_eq!(answer.json(), serde_json::from_str::<Value>(DONE).unwrap(), "{verb}");
        assert_eq!(desk.words(), words, "{verb}");
    }
    // The command drops one line end.
    assert_eq!(desk.given(), "--two\nlines\n\n");
    let place = fs::read_to_string(desk.folder.path().join("place")).unwrap();
    assert_eq!(place.trim_end(), desk.file("").to_str().unwrap().trim_end_matches('/'));
}

#[test]
fn failure_of_a_command_is_passed_on_with_its_hints() {
    for (kind, status, code) in [
        ("usage", 400, "bad_request"),
        ("not_found", 404, "not_found"),
        ("refused", 409, "refused"),
        ("failed", 500, "failed"),
        ("of a later version", 500, "failed"),
    ] {
        let failure = json!({ "error": {
            "kind": kind, "message": "it is \"so\"\nand so", "hints": ["do this", "or that"], "exit_code": 2,
        } });
        let desk = desk("", &format!("warning: a line for people\n{failure}\n"), 2);
        desk.run("r");
        let answer = desk.post(&format!("{}/stop", desk.path("r")), &json!({}));
        let expected = json!({ "error": {
            "code": code, "message": "it is \"so\"\nand so", "hints": ["do this", "or that"],
        } });
        assert_eq!((answer.status, answer.json()), (status, expected), "{kind}");
    }
}

#[test]
fn command_that_ends_without_words_for_programs_has_failed() {
    let crashed = desk("", "thread 'main' panicked\n", 101);
    crashed.run("r");
    let answer = crashed.post(&format!("{}/cancel", crashed.path("r")), &json!({}));
    assert_eq!(answer.status, 500, "{answer:?}");
    assert_eq!(answer.json()["error"]["code"], "failed");
    assert!(answer.body.contains("thread 'main' panicked"), "{answer:?}");
    let odd = desk("Stopped.\n", "", 0);
    odd.run("r");
    let answer = odd.post(&format!("{}/stop", odd.path("r")), &json!({}));
    assert_eq!(answer.status, 500, "{answer:?}");
    let gone = Desk::new(SHORT);
    gone.run("r");
    let answer = gone.post(&format!("{}/stop", gone.path("r")), &json!({}));
    assert_eq!(answer.status, 500, "{answer:?}");
    assert!(answer.body.contains("cannot run `raymond stop`"), "{answer:?}");
}

#[test]
fn command_that_hangs_holds_up_no_reader() {
    let desk = desk(DONE, "", 0);
    desk.run("r");
    let program = desk.folder.path().join("raymond");
    fs::write(&program, "#!/bin/bash\ncd $(dirname $0); touch hangs.$$; until [ -e go ]; do sleep 0.01; done; cat printed\n").unwrap();
    let [host, token] = desk.good();
    let json = "Content-Type: application/json";
    let stop = || {
        let line = format!("POST {}/stop", desk.path("r"));
        let request = request(&line, &[&*host, &token, json], Body::from("{}"));
        desk.runtime.spawn(desk.router.clone().oneshot(request))
    };
    // More of them than the server has threads for reading.
    let stops: Vec<_> = (0..12).map(|_| stop()).collect();
    let hanging = || {
        let all = fs::read_dir(desk.folder.path()).unwrap().flatten();
        all.filter(|file| file.file_name().to_string_lossy().starts_with("hangs.")).count()
    };
    until("all commands hang", || {
        desk.get(&desk.path("r")).ok();
        hanging() == 12
    });
    desk.write("../go", "");
    for stop in stops {
        assert_eq!(desk.runtime.block_on(stop).unwrap().unwrap().status(), 200);
    }
}

#[test]
fn run_is_started_with_what_the_request_names_and_nothing_else() {
    let desk = desk(r#"{"run":"flow-1","status":"running","running_steps":1}"#, "", 0);
    let path = desk.starts();
    let input = "two\nlines, <b>\"quotes\"</b> and --options";
    let body = json!({ "input": input, "variables": { "a": "--x=y", "b": "" }, "budget_usd": 2.5, "id": "mine" });
    let answer = desk.post(&path, &body);
    assert_eq!(answer.status, 201, "{answer:?}");
    let expected = json!({
        "run": "flow-1", "status": "running", "running_steps": 1, "project": desk.project(),
    });
    assert_eq!(answer.json(), expected);
    assert_eq!(desk.given(), input);
    let workflow = desk.file("flow");
    let workflow = workflow.to_str().unwrap();
    let options =
        ["--detach", "--id=mine", "--var=a=--x=y", "--var=b=", "--input=-", "--budget=2.5"];
    assert_eq!(desk.words(), [&["start", "--json"], &options[..], &["--", workflow]].concat());
    desk.post(&path, &json!({})).ok();
    assert_eq!(desk.words(), ["start", "--json", "--detach", "--", workflow]);
    assert_eq!(desk.given(), "", "no input is not an empty one");
}

#[test]
fn budget_of_a_run_is_at_most_the_cap_of_the_server() {
    let capped = |dollars| {
        desk_with(DONE, "", 0, move |options| options.budget_max = Usd::from_dollars(dollars))
    };
    let low = capped(5.0);
    low.run("r");
    let (start, run) = (low.starts(), low.path("r"));
    for path in [start.clone(), format!("{run}/resume"), format!("{run}/limits")] {
        for dollars in [5.01, 0.0, -1.0] {
            let refused = low.post(&path, &json!({ "budget_usd": dollars }));
            assert_eq!(refused.status, 400, "{path} {dollars}: {refused:?}");
        }
        low.post(&path, &json!({ "budget_usd": 5 })).ok();
        assert!(low.words().contains(&"--budget=5".to_owned()), "{path}: {:?}", low.words());
    }
    // The project's usual budget, 10 dollars, is above this cap, and below the other.
    low.post(&start, &json!({})).ok();
    assert!(low.words().contains(&"--budget=5".to_owned()), "{:?}", low.words());
    let high = capped(50.0);
    high.post(&high.starts(), &json!({})).ok();
    assert!(!high.words().iter().any(|word| word.starts_with("--budget")), "{:?}", high.words());
}

#[test]
fn starting_through_the_network_can_do_less_than_the_command_line() {
    let desk = desk(DONE, "", 0);
    let path = desk.starts();
    for (field, value) in [
        ("dangerously_skip_permissions", json!(true)),
        ("agent", json!("program")),
        ("environment", json!({ "PATH": "/tmp" })),
        ("cwd", json!("/")),
        ("workflow", json!("/etc")),
        ("debug", json!(true)),
        ("id", json!("../../x")),
        ("id", json!("--debug")),
    ] {
        let answer = desk.post(&path, &json!({ field: value }));
        assert_eq!(answer.status, 400, "{field}: {answer:?}");
    }
    let many: serde_json::Map<_, _> = (0..101).map(|n| (format!("v{n}"), json!(""))).collect();
    let long = json!({ "v": "x".repeat(64 * 1024) });
    for (variables, why) in [(Value::Object(many), "at most 100"), (long, "`v` has more than")] {
        let answer = desk.post(&path, &json!({ "variables": variables }));
        assert_eq!(answer.status, 400, "{answer:?}");
        assert!(answer.body.contains(why), "{answer:?}");
    }
    assert!(!desk.folder.path().join("words").exists(), "no command was carried out");
}

#[test]
fn limits_that_name_nothing_are_refused() {
    let desk = desk(DONE, "", 0);
    desk.run("r");
    let nothing = desk.post(&format!("{}/limits", desk.path("r")), &json!({}));
    assert_eq!(nothing.status, 400, "{nothing:?}");
    assert!(nothing.body.contains("expected `budget_usd`"), "{nothing:?}");
}

#[test]
fn change_names_a_run_by_its_whole_id_and_not_by_a_prefix() {
    let desk = desk(DONE, "", 0);
    desk.run("release-1");
    for verb in ["stop", "cancel", "resume", "limits", "tell"] {
        let refused = desk.post(&format!("{}/{verb}", desk.path("release")), &json!({}));
        assert_eq!(refused.status, 404, "{verb}: {refused:?}");
    }
    assert!(!desk.folder.path().join("words").exists(), "no command was carried out");
}

#[test]
fn answer_is_a_command_that_is_given_label_text_and_files() {
    let printed = r#"{"run":"a","ask":"main.1","at":7,"to":"LAST.sh","resumed":false}"#;
    let desk = desk(printed, "", 0);
    let asking = desk.file("flow/START.sh");
    fs::write(asking, "echo '<ask next=\"LAST\" choices=\"--ship|hold\">Ship?</ask>'").unwrap();
    let thread = desk.begin_until("a", |run| run["asks"][0].is_object());
    let path = format!("/api/asks/{}/a/main.1", desk.project());
    let uploads = desk.folder.path().join("user/uploads");
    let file = desk.upload(&format!("{path}/files/photo.txt"), "a photo").ok()["file"].clone();
    let body = json!({ "label": "--ship", "text": "after\nlunch", "files": [file] });
    let answer = desk.post(&format!("{path}/answer"), &body).ok();
    assert_eq!(answer, serde_json::from_str::<Value>(printed).unwrap());
    let photo = uploads.join(file.as_str().unwrap()).join("photo.txt");
    let options = ["--how=page", "--text=-", "--file", photo.to_str().unwrap()];
    let operands = ["--", "a", "main.1", "--ship"];
    assert_eq!(desk.words(), [&["answer", "--json"], &options[..], &operands].concat());
    assert_eq!(desk.given(), "after\nlunch\n");
    assert_eq!(fs::read_dir(&uploads).unwrap().count(), 0, "it was handed over");
    // The text is given also if it is empty, so that a label alone is no answer where there are no choices.
    desk.post(&format!("{path}/answer"), &json!({ "label": "hold" })).ok();
    assert_eq!(desk.words()[2..], ["--how=page", "--text=-", "--", "a", "main.1", "hold"]);
    assert_eq!(desk.given(), "\n");
    cancel(&desk, "a");
    thread.join().unwrap();
}

#[test]
fn uploads_of_an_answer_that_is_refused_stay() {
    let failure = r#"{"error":{"kind":"usage","message":"`x` is not one of the choices","hints":[],"exit_code":1}}"#;
    let desk = desk("", failure, 1);
    let asking = desk.file("flow/START.sh");
    fs::write(asking, "echo '<ask next=\"LAST\" choices=\"ship|hold\">Ship?</ask>'").unwrap();
    let thread = desk.begin_until("a", |run| run["asks"][0].is_object());
    let path = format!("/api/asks/{}/a/main.1", desk.project());
    let file = desk.upload(&format!("{path}/files/photo.txt"), "a photo").ok()["file"].clone();
    let refused = desk.post(&format!("{path}/answer"), &json!({ "label": "x", "files": [file] }));
    assert_eq!(refused.status, 400, "{refused:?}");
    let kept = desk.folder.path().join("user/uploads").join(file.as_str().unwrap());
    assert!(kept.join("photo.txt").exists());
    cancel(&desk, "a");
    thread.join().unwrap();
}

#[test]
fn answer_to_what_was_not_asked_is_no_label_of_another_question() {
    let desk = desk(DONE, "", 0);
    let asking = desk.file("flow/START.sh");
    fs::write(asking, "echo '<ask next=\"LAST\" choices=\"ship|main.9\">Ship?</ask>'").unwrap();
    let thread = desk.begin_until("a", |run| run["asks"][0].is_object());
    for ask in ["ship", "main.9", "..%2fmain.1", "main", "main.1.1"] {
        let path = format!("/api/asks/{}/a/{ask}/answer", desk.project());
        let refused = desk.post(&path, &json!({}));
        assert_eq!(refused.status, 404, "{ask}: {refused:?}");
    }
    assert!(!desk.folder.path().join("words").exists(), "no command was carried out");
    cancel(&desk, "a");
    thread.join().unwrap();
}
