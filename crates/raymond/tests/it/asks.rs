//! Questions to people: asked by real runs, listed and answered by other processes.

use std::{
    collections::BTreeSet,
    fs,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpListener,
    process::{Command, Stdio},
    sync::mpsc,
    time::Duration,
};

use crate::{
    env::{Project, Ran, kill, wait_until},
    printed,
};

const PATIENCE: Duration = Duration::from_mins(1);

const START: &str = "echo start >> log; echo plan > plan.md; echo '<ask choices=\"approve=SHIP|revise=START|stop it=END\" attach=\"plan.md\">Is this plan right?</ask>'";
const SHIP: &str = "shopt -s nullglob; echo ship >> log; echo \"<result>$RAYMOND_RESULT, $RAYMOND_COMMENT, $(cat /dev/null \"$RAYMOND_FILES\"/*)</result>\"";

fn project() -> Project {
    Project::new([
        ("START.sh", START),
        ("SHIP.sh", SHIP),
        ("END.sh", "echo '<result>stopped</result>'"),
    ])
}

/// A run that is paused at its question.
fn paused() -> Project {
    let project = project();
    let ran = project.raymond(&["start", "flow", "--id", "r", "--no-wait"]);
    assert_eq!(ran.code, 4, "{ran:?}");
    assert!(
        ran.stderr.contains("raymond answer r main.1 'stop it'"),
        "the command to type is told: {ran:?}"
    );
    project
}

fn status(project: &Project) -> String {
    let json = project.raymond(&["status", "r", "--json"]).stdout;
    serde_json::from_str::<serde_json::Value>(&json).unwrap()["status"].as_str().unwrap().to_owned()
}

fn asks(project: &Project) -> Vec<serde_json::Value> {
    serde_json::from_str(&project.raymond(&["asks", "--json"]).stdout).unwrap()
}

#[test]
fn question_that_is_open_is_listed_with_everything_that_is_needed_to_answer_it() {
    let project = paused();
    let [ask] = &asks(&project)[..] else { panic!() };
    assert_eq!(
        (&ask["run"], &ask["id"], &ask["state"]),
        (&"r".into(), &"main.1".into(), &"START.sh".into())
    );
    assert_eq!(ask["choices"][2], serde_json::json!({ "label": "stop it", "to": "END.sh" }));
    assert_eq!(ask["attachments"][0]["bytes"], 5);
    let copy = ask["attachments"][0]["copy"].as_str().unwrap();
    assert_eq!(std::fs::read_to_string(copy).unwrap(), "plan\n");
    let shown = project.raymond(&["asks", "r"]).stdout;
    for part in [
        "main.1  START asks:",
        "Is this plan right?",
        "1  approve",
        "plan.md",
        "raymond answer r main.1",
    ] {
        assert!(shown.contains(part), "{part} in {shown}");
    }
    assert!(project.raymond(&["status", "r"]).stdout.contains("asks main.1: Is this plan right?"));
}

#[test]
fn question_about_a_file_that_has_changed_since_is_shown_as_such_and_not_answered() {
    let project = paused();
    let copy = asks(&project)[0]["attachments"][0]["copy"].as_str().unwrap().to_owned();
    std::fs::write(&copy, "PLAN\n").unwrap();
    let changed = "it has changed since the question was asked";
    assert_eq!(asks(&project)[0]["attachments"][0]["error"], changed);
    let shown = project.raymond(&["asks"]).stdout;
    assert!(shown.contains(&format!("plan.md  cannot be shown: {changed}")), "{shown}");
    let refused = project.raymond(&["answer", "r", "main.1", "approve"]).failed(1, changed);
    assert!(
        refused.stderr.contains("in a new run, with its files as they are now: raymond fork-run r")
    );
    assert_eq!(status(&project), "paused");
    let fork = project.raymond(&["fork-run", "r", "--as", "again"]).failed(0, "");
    assert_eq!(fork.code, 0);
    project.raymond(&["resume", "again", "--no-wait"]);
    project.raymond(&["answer", "again", "main.1", "stop it"]).failed(0, "");
}

#[test]
fn answer_to_a_run_that_nobody_runs_continues_it_in_the_background() {
    let project = paused();
    project.write("photo.txt", "a photo");
    let answered =
        project.raymond(&["answer", "r", "approve", "--text", "but gently", "--file", "photo.txt"]);
    assert_eq!(answered.code, 0, "{answered:?}");
    assert!(answered.stderr.contains("Question main.1 is answered: approve"), "{answered:?}");
    wait_until("the run is completed", PATIENCE, || status(&project) == "completed");
    project.wait_until_quiet();
    project.raymond(&["resume", "r"]).completed("approve, but gently, a photo");
    assert_eq!(project.lines("log"), ["start", "ship"]);
    assert!(asks(&project).is_empty());
}

#[test]
fn answer_that_comes_before_the_files_of_its_question_waits_for_them() {
    for words in [&["main.1", "approve"][..], &["approve"]] {
        let project = project();
        let run = project.spawn(&["start", "flow", "--id", "r"]);
        wait_until("it asks", PATIENCE, || !asks(&project).is_empty());
        // As in the moment after the record of the question.
        let (folder, aside) =
            (project.file(".raymond/workflows/r/asks/main.1"), project.file("aside"));
        fs::rename(&folder, &aside).unwrap();
        let mut answer = project.spawn(&[&["answer", "r"], words].concat());
        // Two commands that began later have looked, so this one has, too.
        for _ in 0..2 {
            assert!(asks(&project).is_empty());
        }
        assert!(answer.try_wait().unwrap().is_none(), "the answer waits");
        fs::rename(&aside, &folder).unwrap();
        let answer = Ran::of(&answer.wait_with_output().unwrap());
        assert!(answer.stderr.contains("Question main.1 is answered: approve"), "{answer:?}");
        Ran::of(&run.wait_with_output().unwrap()).completed("approve, ,");
    }
}

#[test]
fn answer_wakes_the_program_that_waits_and_is_part_of_its_events() {
    let project = project();
    let child = project.spawn(&["start", "flow", "--id", "r", "--json"]);
    wait_until("it asks", PATIENCE, || !asks(&project).is_empty());
    let answered = project.raymond(&["answer", "r", "main.1", "approve"]);
    assert_eq!(answered.code, 0, "{answered:?}");
    assert!(!answered.stderr.contains("background"), "{answered:?}");
    let ran = Ran::of(&child.wait_with_output().unwrap());
    assert_eq!(ran.code, 0, "{ran:?}");
    let events: Vec<serde_json::Value> =
        ran.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of = |name: &str| events.iter().find(|event| event["event"] == name).unwrap();
    assert_eq!(of("asked")["question"], "Is this plan right?");
    assert_eq!(of("ask_published")["ask"]["id"], "main.1");
    assert_eq!(of("waits_for_people")["event"], "waits_for_people");
    assert_eq!(
        (&of("answered")["result"], &of("answered")["how"]),
        (&"approve".into(), &"command".into())
    );
    let followed = events.iter().find(|event| event["via"] == "answer").unwrap();
    assert_eq!(followed["to"], "SHIP.sh");
}

#[test]
fn wrong_and_late_answers_are_refused_with_the_command_to_type() {
    let project = paused();
    project.raymond(&["answer", "r"]).failed(2, "question main.1 has choices: name one of them");
    let wrong = project.raymond(&["answer", "r", "maybe"]);
    assert!(
        wrong.stderr.contains("`maybe` is not one of the choices: approve, revise, stop it"),
        "{wrong:?}"
    );
    assert!(wrong.stderr.contains("answer it: raymond answer r main.1 approve"), "{wrong:?}");
    project
        .raymond(&["answer", "r", "main.9", "approve"])
        .failed(2, "has asked no question `main.9`");
    project
        .raymond(&["answer", "r", "approve", "--file", "gone"])
        .failed(1, "cannot hand over gone");
    project.raymond(&["answer", "r", "stop it"]);
    let late = project.raymond(&["answer", "r", "main.1", "approve"]);
    late.failed(1, "question main.1 was already answered by");
    project.wait_until_quiet();
    let late = project.raymond(&["answer", "r", "approve"]);
    late.failed(1, "question main.1 was already answered by");
}

#[test]
fn answer_to_a_run_whose_journal_is_damaged_is_refused_and_changes_nothing() {
    let project = paused();
    let journal = project.file(".raymond/workflows/r.journal");
    let mut bytes = fs::read(&journal).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&journal, &bytes).unwrap();
    let files = |project: &Project| {
        let root = project.file(".raymond");
        let listed = Command::new("find").arg(root).args(["-type", "f"]).output().unwrap();
        String::from_utf8(listed.stdout)
            .unwrap()
            .lines()
            .map(str::to_owned)
            .collect::<BTreeSet<_>>()
    };
    let before = files(&project);
    let refused = project.raymond(&["answer", "r", "approve"]).failed(1, "is damaged at byte ");
    assert!(!refused.stderr.contains("is answered"), "{refused:?}");
    assert_eq!(files(&project), before);
    assert_eq!(fs::read(&journal).unwrap(), bytes);
}

#[test]
fn free_text_is_read_from_the_words_or_from_standard_input() {
    let project = Project::new([
        ("START.sh", "echo '<ask next=\"NEXT\">Which one?</ask>'"),
        ("NEXT.sh", "echo \"<result>$RAYMOND_RESULT</result>\""),
    ]);
    project.raymond(&["start", "flow", "--id", "r", "--no-wait"]).failed(4, "main.1");
    let mut command = project.command(&["answer", "r", "--text", "-"]);
    let mut child = command.stdin(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    child.stdin.take().unwrap().write_all("two\nlines\n".as_bytes()).unwrap();
    assert!(child.wait().unwrap().success());
    wait_until("the run is completed", PATIENCE, || status(&project) == "completed");
    project.raymond(&["resume", "r"]).completed("two\nlines");
}

/// Fifty processes answer the question of the run at once. Checks that one of them is confirmed and that all
/// others are told whose answer counts; returns the result that the run must have.
fn fifty_answer(project: &Project) -> &'static str {
    let labels = ["approve", "stop it"];
    let children: Vec<_> = (0..50)
        .map(|number| {
            let mut command = project.command(&["answer", "r", "main.1", labels[number % 2]]);
            command.env("USER", format!("user{number}"));
            command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
        })
        .collect();
    let ran: Vec<_> =
        children.into_iter().map(|child| Ran::of(&child.wait_with_output().unwrap())).collect();
    let (won, lost): (Vec<_>, Vec<_>) = (0..50).partition(|number| ran[*number].code == 0);
    let [winner] = won[..] else { panic!("{won:?}") };
    for number in lost {
        let said = format!("already answered by user{winner} (command): {}", labels[winner % 2]);
        assert!(ran[number].stderr.contains(&said), "{:?}", ran[number]);
    }
    ["approve, ,", "stopped"][winner % 2]
}

/// Checks that the answer was recorded and followed once.
fn is_followed_once(project: &Project) {
    let journal = project.read(".raymond/workflows/r.journal");
    for part in ["{\"answered\":{", "\"via\":\"answer\""] {
        assert_eq!(journal.matches(part).count(), 1, "{part}");
    }
    project.wait_until_quiet();
}

#[test]
fn fifty_processes_answer_a_run_that_nobody_runs_and_one_of_them_counts() {
    let project = paused();
    let result = fifty_answer(&project);
    wait_until("the run is completed", PATIENCE, || status(&project) == "completed");
    project.wait_until_quiet();
    project.raymond(&["resume", "r"]).completed(result);
    is_followed_once(&project);
}

#[test]
fn fifty_processes_answer_a_live_run_and_one_of_them_counts() {
    let project = project();
    let child = project.spawn(&["start", "flow", "--id", "r"]);
    wait_until("it asks", PATIENCE, || !asks(&project).is_empty());
    let result = fifty_answer(&project);
    Ran::of(&child.wait_with_output().unwrap()).completed(result);
    is_followed_once(&project);
}

#[test]
fn settings_answer_by_default_or_fail() {
    let tag =
        "echo '<ask next=\"NEXT\" choices=\"yes|no\" timeout=\"9h\" default=\"no\">Go?</ask>'";
    let next = ("NEXT.sh", "echo \"<result>$RAYMOND_RESULT</result>\"");
    let project = Project::new([("START.sh", tag), next]);
    project.raymond(&["start", "flow", "--ask", "default"]).completed("no");
    let failed = project.raymond(&["start", "flow", "--id", "f", "--ask", "fail"]);
    failed.failed(1, "nobody is there to answer (`ask = fail`)");
    project.write(".raymond/config.toml", "ask = \"default\"\n");
    project.raymond(&["start", "flow"]).completed("no");
    project.raymond(&["resume", "f", "--ask", "default"]).completed("no");
    project.write(".raymond/config.toml", "ask = \"perhaps\"\n");
    project.raymond(&["start", "flow"]).failed(2, "`perhaps` is neither wait, default nor fail");
}

#[test]
fn end_of_standard_input_is_no_answer_and_the_program_waits() {
    let project = project();
    let child = project.spawn(&["start", "flow", "--id", "r"]);
    wait_until("it asks", PATIENCE, || !asks(&project).is_empty());
    kill(child.id(), libc::SIGINT);
    let ran = Ran::of(&child.wait_with_output().unwrap());
    assert_eq!(ran.code, 130, "{ran:?}");
    assert!(ran.stderr.contains("Answer it: raymond answer r main.1"), "{ran:?}");
    assert_eq!(asks(&project).len(), 1, "the question stays open");
}

#[test]
fn follow_prints_questions_as_they_are_asked() {
    let project = project();
    let mut command = project.command(&["asks", "--follow", "--json"]);
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    project.raymond(&["start", "flow", "--id", "r", "--no-wait"]);
    let line: serde_json::Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
    assert_eq!((&line["run"], &line["id"]), (&"r".into(), &"main.1".into()));
    kill(child.id(), libc::SIGKILL);
    child.wait().unwrap();
}

#[test]
fn cancelled_run_asks_nobody_any_more() {
    let project = paused();
    assert_eq!(project.raymond(&["cancel", "r", "--yes"]).code, 0);
    assert!(asks(&project).is_empty());
    for words in [&["main.1", "approve"][..], &["approve"]] {
        let late = project.raymond(&[&["answer", "r"], words].concat());
        let late = late.failed(1, "question main.1 was closed: its run was cancelled\n");
        assert!(!late.stderr.contains("resume"), "{late:?}");
    }
}

#[test]
fn answer_to_a_run_that_never_asked_is_refused() {
    let project = Project::new([("START.sh", "echo '<result>x</result>'")]);
    project.raymond(&["flow", "--id", "r"]).completed("x");
    project.raymond(&["answer", "r", "yes"]).failed(2, "run r asks nothing");
    let journal = project.read(".raymond/workflows/r.journal");
    project.write(".raymond/workflows/r.journal", &journal.replacen("START", "Start", 1));
    project.raymond(&["answer", "r", "yes"]).failed(1, "is damaged at byte 0");
}

fn notify(project: &Project, command: &str, on: &str) {
    let text = format!("[notify]\ncommand = [\"bash\", \"-c\", {command:?}]\non = {on}\n");
    project.write(".raymond/config.toml", &text);
}

#[test]
fn notify_command_gets_one_json_object_for_a_question_and_for_the_end() {
    let project = project();
    notify(&project, "cat >> told", "[\"ask\", \"paused\", \"completed\"]");
    project.raymond(&["start", "flow", "--id", "r", "--no-wait"]).failed(4, "main.1");
    let told: Vec<serde_json::Value> =
        project.lines("told").iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of = |name: &str| told.iter().find(|object| object["event"] == name).unwrap();
    assert_eq!(told.len(), 2, "{told:?}");
    assert_eq!(of("ask")["ask"]["text"], "Is this plan right?");
    let commands =
        ["approve", "revise", "'stop it'"].map(|it| format!("raymond answer r main.1 {it}"));
    assert_eq!(of("ask")["ask"]["commands"], serde_json::json!(commands));
    assert_eq!(of("paused")["run"], "r");
    project.raymond(&["answer", "r", "approve"]);
    wait_until("the end is told", PATIENCE, || project.lines("told").len() == 3);
    assert!(project.read("told").contains("\"event\":\"completed\""));
    assert!(printed::commands(&project.read("told")).len() > 3);
    printed::check(&project.read("told"));
    project.wait_until_quiet();
}

#[test]
fn notify_command_that_fails_or_is_not_there_is_a_warning() {
    let project = Project::new([("START.sh", "echo '<result>fine</result>'")]);
    notify(&project, "echo no network >&2; exit 7", "[\"completed\"]");
    let ran = project.raymond(&["start", "flow"]).completed("fine");
    assert!(
        ran.stderr.contains("the notify command `bash` ended with code 7: no network"),
        "{ran:?}"
    );
    project.write(
        ".raymond/config.toml",
        "[notify]\ncommand = [\"/no/such\"]\non = [\"completed\"]\n",
    );
    let ran = project.raymond(&["start", "flow"]).completed("fine");
    assert!(ran.stderr.contains("the notify command `/no/such` could not be run"), "{ran:?}");
    project.write(".raymond/config.toml", "[notify]\ncommand = [\"true\"]\non = [\"ever\"]\n");
    project.raymond(&["start", "flow"]).failed(2, "`notify.on` does not know `ever`");
}

#[test]
fn notify_command_that_does_not_end_is_killed_with_its_children() {
    let project = Project::new([("START.sh", "echo '<result>fine</result>'")]);
    notify(&project, "sleep 600 & sleep 600", "[\"completed\"]");
    let ran = project.raymond(&["start", "flow"]).completed("fine");
    assert!(ran.stderr.contains("did not end within 10 seconds and was killed"), "{ran:?}");
    project.wait_until_quiet();
}

/// Notes one HTTP request after the other, each as one text, and answers it.
fn note_requests(listener: &TcpListener, notes: &mpsc::Sender<String>) {
    for stream in listener.incoming() {
        let mut reader = BufReader::new(stream.unwrap());
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if reader.read_line(&mut head).unwrap() == 0 {
                break;
            }
        }
        let length = head.lines().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse().unwrap())
        });
        let mut body = vec![0; length.unwrap_or(0)];
        reader.read_exact(&mut body).unwrap();
        let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
        reader.get_mut().write_all(answer).unwrap();
        if notes.send(format!("{head}{}", String::from_utf8_lossy(&body))).is_err() {
            return;
        }
    }
}

/// The recipes of the manual as they are written there. `curl` is the real one, led to the loopback instead of to
/// the service; the programs for a desktop and for mail write down what they are given.
#[test]
fn recipes_of_the_manual_send_the_question() {
    let has = |name: &str| Command::new(name).arg("--version").output().is_ok();
    if !has("jq") || !has("curl") {
        crate::faults::say("skipped: jq or curl is not installed");
        return;
    }
    let manual = include_str!("../../../../docs/operations.md");
    let recipes: Vec<&str> = manual
        .split("```toml\n")
        .skip(1)
        .filter_map(|rest| rest.split("```").next())
        .filter(|block| block.contains("[notify]"))
        .collect();
    // What reaches the service, or the program: how it is addressed, and the question.
    let expected = [
        ("notify-send", "Raymond needs you Is this plan right?"),
        ("ntfy.sh", "POST /my-topic HTTP/1.1"),
        ("SLACK_WEBHOOK", "POST /hook HTTP/1.1"),
        ("telegram", "POST /botsecret/sendMessage HTTP/1.1"),
        ("mail -s", "-s Raymond needs you me@example.org"),
    ];
    assert_eq!(recipes.len(), expected.len(), "{recipes:?}");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let service = format!("http://{}", listener.local_addr().unwrap());
    let (sender, requests) = mpsc::channel();
    std::thread::spawn(move || note_requests(&listener, &sender));
    for (recipe, (name, address)) in recipes.into_iter().zip(expected) {
        assert!(recipe.contains(name), "{name}: {recipe}");
        let project = project();
        project.write(".raymond/config.toml", recipe);
        std::fs::create_dir(project.file("bin")).unwrap();
        let note = "#!/bin/bash\n{ echo \"$@\"; [ -t 0 ] || cat; } >> sent\n";
        // The first directory of the search path is this script's own.
        let lead = format!(
            "#!/bin/bash\nPATH=${{PATH#*:}}\nfor word do shift; \
             case $word in https://*) rest=${{word#https://*/}}; word={service}/$rest;; esac; \
             set -- \"$@\" \"$word\"; done\nexec curl \"$@\"\n"
        );
        for (program, text) in [("notify-send", note), ("mail", note), ("curl", &lead)] {
            let path = project.file("bin").join(program);
            std::fs::write(&path, text).unwrap();
            assert!(Command::new("chmod").arg("+x").arg(&path).status().unwrap().success());
        }
        let path = format!("{}:{}", project.file("bin").display(), std::env::var("PATH").unwrap());
        let mut command = project.command(&["start", "flow", "--id", "r", "--no-wait"]);
        command.env("PATH", path).env("SLACK_WEBHOOK", format!("{service}/hook"));
        command.env("TELEGRAM_TOKEN", "secret").env("TELEGRAM_CHAT", "7");
        let ran = Ran::of(&command.output().unwrap());
        assert!(!ran.stderr.contains("notify command"), "{recipe}: {ran:?}");
        let sent = if recipe.contains("curl") {
            requests.recv_timeout(PATIENCE).unwrap()
        } else {
            project.read("sent")
        };
        assert!(sent.contains(address), "{recipe}: {sent}");
        let question = ["Is this plan right?", "Is+this+plan+right%3F"];
        assert!(question.iter().any(|text| sent.contains(text)), "{recipe}: {sent}");
        if name == "telegram" {
            assert!(sent.contains("chat_id=7&text=r%3A+Is"), "{sent}");
        }
        if name == "SLACK_WEBHOOK" {
            let body: serde_json::Value =
                serde_json::from_str(sent.split("\r\n\r\n").nth(1).unwrap()).unwrap();
            let text = body["text"].as_str().unwrap();
            assert_eq!(text.lines().next(), Some("r: Is this plan right?"));
            assert!(text.contains("raymond answer r main.1"), "{text}");
        }
    }
}
