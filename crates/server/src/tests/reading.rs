//! What the server shows of runs.

use raymond_engine::store::lock::RunLock;
use serde_json::json;

use super::*;

/// A run `talk` with turns: one says something and uses the budget, one is reminded, a worker is forked.
pub(super) fn talking() -> Desk {
    let start = "---\nallowed_transitions:\n  - { tag: fork, target: WORK, next: LAST, attributes: [part] }\n---\nSplit {{input}}.";
    let desk = Desk::new([
        ("START.md", start),
        ("WORK.sh", "echo '<result>worked</result>'"),
        ("LAST.md", "---\nallowed_transitions:\n  - { tag: result }\n---\nSay **it**."),
    ]);
    desk.write(
        "agent.sh",
        "cat > /dev/null; case $RAYMOND_STATE in \
         START.md) echo 'I *split* it <script>alert(1)</script>.'; \
           echo '{\"result\":\"Split. <fork next=\\\"LAST\\\" part=\\\"index\\\">WORK</fork>\",\"cost_usd\":0.25,\"model\":\"m1\"}';; \
         *) if [ -e once ]; then echo '{\"result\":\"<result>said</result>\",\"cost_usd\":0.5,\"model\":\"m2\"}'; \
            else touch once; echo '{\"result\":\"no tag\",\"cost_usd\":0.125,\"model\":\"m2\"}'; fi;; esac",
    );
    let end = desk.begin("talk", |started| started.input = Some("the shop".to_owned()));
    assert_eq!(end.join().unwrap().run.result, Some("said".into()));
    desk
}

#[test]
fn server_names_its_projects_and_what_it_allows() {
    let desk = Desk::with(SHORT, |options| options.is_read_only = true);
    let server = desk.get("/api/server").ok();
    assert_eq!((&server["version"], &server["is_read_only"]), (&json!("1"), &json!(true)));
    assert_eq!(server["budget_max_usd"], 50.0);
    assert!(server["now"].as_u64() >= server["started_at"].as_u64());
    let project = json!({
        "project": desk.project(), "name": "shop", "path": desk.file("").join("x").parent().unwrap(), "problem": null,
    });
    assert_eq!(server["projects"], json!([project]));
}

#[cfg(unix)]
#[test]
fn project_that_other_users_can_write_to_is_not_shown() {
    use std::os::unix::fs::PermissionsExt as _;
    let desk = Desk::new(SHORT);
    let open = fs::Permissions::from_mode(0o777);
    fs::set_permissions(desk.file(".raymond"), open).unwrap();
    assert_eq!(desk.get("/api/server").ok()["projects"], json!([]));
}

#[test]
fn run_is_shown_with_agents_steps_costs_and_lanes() {
    let desk = talking();
    let path = desk.path("talk");
    let run = desk.get(&path).ok();
    assert_eq!((&run["status"], &run["group"]), (&json!("completed"), &json!("ended")));
    assert_eq!((&run["input"], &run["result"]), (&json!("the shop"), &json!("said")));
    assert_eq!(run["next"], "raymond next talk completed");
    assert_eq!((&run["can"], &run["project"]), (&json!([]), &json!(desk.project())));
    let worker = run["agents"].as_array().unwrap().iter().find(|it| it["agent"] != "main").unwrap();
    assert_eq!(worker["attributes"], json!({ "part": "index" }));
    assert_eq!((&worker["parent"], &worker["is_ended"]), (&json!("main"), &json!(true)));
    assert_eq!(worker["result"], "worked");
    let steps = desk.get(&format!("{path}/steps?order=oldest")).ok();
    assert_eq!(steps["count"], 4);
    let of_main = desk.get(&format!("{path}/steps?agent=main&order=oldest")).ok();
    assert_eq!(names(&of_main["steps"], "end"), ["followed", "reminded", "followed"]);
    assert_eq!(of_main["steps"][1]["text"], "no transition tag was found");
    assert_eq!(of_main["steps"][0]["worker"], worker["agent"]);
    let cost = desk.get(&format!("{path}/cost")).ok();
    assert_eq!(cost["total"]["cost_usd"], 0.875);
    assert_eq!(names(&cost["by_model"], "name"), ["m1", "m2"]);
}

#[test]
fn timeline_has_a_lane_for_each_agent_and_merges_bars_above_their_limit() {
    let desk = talking();
    let path = desk.path("talk");
    let lanes = desk.get(&format!("{path}/timeline")).ok();
    assert_eq!(lanes["lanes"].as_array().map(Vec::len), Some(2));
    assert_eq!(names(&lanes["lanes"][0]["bars"], "state"), ["START.md", "LAST.md", "LAST.md"]);
    let merged = desk.get(&format!("{path}/timeline?bars=1")).ok();
    let bars = merged["lanes"][0]["bars"].as_array().unwrap();
    // They begin in one stretch of time, or on both sides of where one ends.
    assert!(bars.len() <= 2, "{merged}");
    assert_eq!(bars.iter().map(|bar| bar["steps"].as_u64().unwrap()).sum::<u64>(), 3);
    assert_eq!(bars[0]["step"], "main.1");
    let nothing = desk.get(&format!("{path}/timeline?from=0&to=1")).ok();
    assert_eq!((&nothing["from"], &nothing["to"]), (&json!(0), &json!(1)));
}

#[test]
fn pages_of_steps_have_every_step_once_in_both_orders() {
    let desk = talking();
    let path = desk.path("talk");
    for order in ["", "&order=oldest"] {
        let (mut seen, mut before) = (Vec::new(), String::new());
        loop {
            let page = desk.get(&format!("{path}/steps?limit=1{order}{before}")).ok();
            seen.extend(names(&page["steps"], "step"));
            match page["next"].as_u64() {
                Some(next) => before = format!("&before={next}"),
                None => break,
            }
        }
        let of_main: Vec<_> = seen.iter().filter(|step| step.starts_with("main.")).collect();
        let expected = ["main.1", "main.2", "main.3"];
        if order.is_empty() {
            assert!(of_main.iter().rev().eq(&expected), "{seen:?}");
        } else {
            assert!(of_main.iter().eq(&expected), "{seen:?}");
        }
        assert_eq!(seen.len(), 4, "{seen:?}");
    }
    let of_state = desk.get(&format!("{path}/steps?state=WORK.sh")).ok();
    assert_eq!(names(&of_state["steps"], "step"), ["main_work1.1"]);
}

#[test]
fn pages_of_the_log_have_every_event_once() {
    let desk = talking();
    let path = desk.path("talk");
    let all = desk.get(&format!("{path}/log")).ok()["events"].clone();
    let (mut events, mut from) = (Vec::new(), 0);
    loop {
        let page = desk.get(&format!("{path}/log?from={from}&limit=2")).ok();
        let next = page["next"].as_u64().unwrap();
        events.extend(page["events"].as_array().unwrap().iter().cloned());
        if next == from || page["events"].as_array().unwrap().is_empty() {
            break;
        }
        from = next;
    }
    assert_eq!(Value::from(events), all);
    assert_eq!(all[0]["event"], "started", "{all}");
    let last = desk.get(&format!("{path}/log?last=1")).ok();
    assert_eq!(names(&last["events"], "event"), ["finished"]);
    let within = desk.get(&format!("{path}/log?from=7"));
    assert_eq!(within.status, 400, "{within:?}");
    assert!(within.body.contains("no decision of the journal begins at byte 7"), "{within:?}");
}

#[test]
fn transcript_tells_what_was_asked_and_said_and_markup_stays_text() {
    let desk = talking();
    let path = format!("{}/steps/main.1", desk.path("talk"));
    let transcript = desk.get(&format!("{path}/transcript")).ok();
    let entries = &transcript["entries"];
    assert_eq!(names(entries, "entry"), ["prompt", "text", "answer", "cost"], "{transcript}");
    assert_eq!(entries[0]["text"], "Split the shop.");
    assert!(entries[1]["markdown"].to_string().contains("<script>alert(1)</script>"), "{entries}");
    assert_eq!(entries[2]["markdown"][1]["tag"], "transition", "{entries}");
    assert_eq!(transcript["is_over"], true);
    let page = desk.get(&format!("{path}/transcript?from=1&limit=1")).ok();
    assert_eq!(names(&page["entries"], "entry"), ["text"]);
    assert_eq!((&page["next"], &page["is_over"]), (&json!(2), &json!(false)));
}

#[test]
fn step_names_its_neighbours_its_files_and_what_its_policy_allows() {
    let desk = talking();
    let path = format!("{}/steps/main", desk.path("talk"));
    let first = desk.get(&format!("{path}.1")).ok();
    assert_eq!((&first["previous"], &first["following"]), (&json!(null), &json!("main.2")));
    assert_eq!(first["allowed"], json!(["<fork next=\"LAST\" part=\"…\">WORK</fork>"]));
    assert!(names(&first["files"], "name").contains(&"stdout".to_owned()), "{first}");
    let events = names(&first["events"], "event");
    assert!(events.contains(&"transition".to_owned()), "{events:?}");
    let last = desk.get(&format!("{path}.3")).ok();
    assert_eq!((&last["previous"], &last["following"]), (&json!("main.2"), &json!(null)));
    // A reminder is a turn of the same session.
    assert_eq!(last["session"], desk.get(&format!("{path}.2")).ok()["session"]);
    let script = desk.get(&format!("{}/steps/main_work1.1", desk.path("talk"))).ok();
    assert_eq!((&script["session"], &script["allowed"]), (&json!(null), &json!([])));
    for none in [".4", "", ".x", ".99999999999"] {
        assert_eq!(desk.get(&format!("{path}{none}")).status, 404, "{none}");
    }
}

#[test]
fn part_of_a_file_says_where_it_begins_and_where_to_go_on() {
    let desk = talking();
    let path = format!("{}/steps/main.1/files", desk.path("talk"));
    let part = desk.get(&format!("{path}/stdout?offset=2&length=7"));
    assert_eq!(part.body, "*split*");
    assert_eq!(part.header("content-type"), "text/plain; charset=utf-8");
    assert_eq!((part.header("raymond-offset"), part.header("raymond-next")), ("2", "9"));
    let size: u64 = part.header("raymond-size").parse().unwrap();
    let end = desk.get(&format!("{path}/stdout?offset=-2&length=9"));
    assert_eq!((&*end.body, end.header("raymond-next")), ("}\n", &*size.to_string()));
    let beyond = desk.get(&format!("{path}/stdout?offset=99999"));
    assert_eq!((beyond.status, &*beyond.body), (200, ""));
    let before = desk.get(&format!("{path}/stdout?offset=-99999&length=1"));
    assert_eq!(before.header("raymond-offset"), "0");
    assert_eq!(desk.get(&format!("{path}/prompt")).body, "Split the shop.");
    assert_eq!(desk.get(&format!("{path}/nothing")).status, 404);
}

#[test]
fn part_of_a_file_replaces_bytes_that_are_no_text() {
    let desk = Desk::new([("START.sh", "printf 'a\\377b' >&2; echo '<result>x</result>'")]);
    desk.run("r");
    let part = desk.get(&format!("{}/steps/main.1/files/stderr", desk.path("r")));
    assert_eq!(part.body, "a\u{fffd}b");
    assert_eq!(part.header("raymond-next"), "3", "bytes of the file, not of the answer");
}

#[test]
fn run_is_listed_once_its_first_record_is_written() {
    let desk = Desk::new(SHORT);
    let files = state_dir(&desk.file("")).run(&RunId::new("new").unwrap());
    desk.run("old");
    let owner = RunLock::take(&files.lock).unwrap();
    fs::write(&files.journal, "").unwrap();
    assert_eq!(names(&desk.get("/api/runs").ok()["runs"], "run"), ["old"]);
    // Its program died there.
    drop(owner);
    assert_eq!(names(&desk.get("/api/runs?group=needs_you").ok()["runs"], "run"), ["new"]);
}

#[test]
fn list_is_filtered_and_paged_and_all_projects_are_in_it() {
    let desk = Desk::new(SHORT);
    for id in ["first", "second", "third"] {
        desk.run(id);
    }
    let other = desk.folder.path().join("other");
    state_dir(&other).create().unwrap();
    UserDir::new(desk.folder.path().join("user")).remember(&state_dir(&other)).unwrap();
    begin(&other, &desk.file("flow"), "fourth", |_| {}).join().unwrap();
    let all = desk.get("/api/runs").ok();
    assert_eq!(names(&all["runs"], "run"), ["fourth", "third", "second", "first"]);
    assert_eq!(all["summary"]["ended"], 4);
    let key = desk.project();
    let of_one = desk.get(&format!("/api/runs?project={key}&limit=2")).ok();
    assert_eq!(names(&of_one["runs"], "run"), ["third", "second"]);
    assert_eq!(of_one["summary"]["ended"], 4, "of all that are shown, not of this page");
    let next = of_one["next"].as_str().unwrap();
    let rest = desk.get(&format!("/api/runs?project={key}&limit=2&before={next}")).ok();
    assert_eq!(
        (names(&rest["runs"], "run"), &rest["next"]),
        (vec!["first".to_owned()], &json!(null))
    );
    assert_eq!(desk.get("/api/runs?status=failed").ok()["runs"], json!([]));
    assert_eq!(desk.get("/api/runs?group=running").ok()["runs"], json!([]));
    let found = desk.get("/api/runs?text=SECOND").ok();
    assert_eq!(names(&found["runs"], "run"), ["second"]);
    let of_flow = desk.get("/api/runs?workflow=flow&group=ended&status=completed").ok();
    assert_eq!(names(&of_flow["runs"], "run").len(), 4);
    let only = Desk::on(desk.folder, |options| options.project = Some(state_dir(&other)));
    assert_eq!(names(&only.get("/api/runs").ok()["runs"], "run"), ["fourth"]);
    assert_eq!(only.get(&format!("/api/runs/{key}/first")).status, 404);
}

#[test]
fn live_run_is_running_with_what_can_be_done_and_then_ends() {
    let desk = Desk::new([("START.sh", WAITS)]);
    let thread = desk.begin_until("r", |run| run["now"]["phase"] == "running");
    let row = desk.get("/api/runs?group=running").ok()["runs"][0].clone();
    assert_eq!((&row["status"], &row["now"]["state"]), (&json!("running"), &json!("START.sh")));
    let run = desk.get(&desk.path("r")).ok();
    assert_eq!(run["can"], json!(["stop", "cancel", "limits", "tell"]));
    assert_eq!(run["orchestrator"]["pid"], std::process::id());
    let steps = desk.get(&format!("{}/steps", desk.path("r"))).ok();
    assert_eq!((&steps["steps"][0]["end"], &steps["next"]), (&json!(null), &json!(null)));
    desk.write("go", "");
    thread.join().unwrap();
    let row = desk.get("/api/runs").ok()["runs"][0].clone();
    assert_eq!((&row["status"], &row["now"]), (&json!("completed"), &json!(null)));
}

#[test]
fn run_that_failed_needs_people_and_says_why() {
    let desk = Desk::new([("START.sh", "echo no such table >&2; exit 3")]);
    desk.run("r");
    let run = desk.get(&desk.path("r")).ok();
    assert_eq!((&run["status"], &run["group"]), (&json!("failed"), &json!("needs_you")));
    assert!(run["can"].as_array().unwrap().contains(&json!("resume")), "{run}");
    assert!(run["agents"][0]["error"].as_str().unwrap().contains('3'), "{run}");
    let transcript = desk.get(&format!("{}/steps/main.1/transcript", desk.path("r"))).ok();
    let entries = names(&transcript["entries"], "entry");
    assert!(entries.contains(&"output".to_owned()), "{transcript}");
    assert_eq!(transcript["is_over"], true);
    let needs = desk.get("/api/runs?group=needs_you").ok();
    assert_eq!(
        (names(&needs["runs"], "run"), &needs["summary"]["needs_you"]),
        (vec!["r".to_owned()], &json!(1))
    );
}

#[test]
fn damaged_run_shows_what_can_be_read_and_says_what_cannot() {
    let desk = Desk::new(SHORT);
    desk.run("first");
    let journal = desk.journal("first");
    let text = fs::read_to_string(&journal).unwrap();
    let mut lines: Vec<_> = text.lines().collect();
    let damaged = lines[2].replace("main", "niam");
    lines[2] = &damaged;
    fs::write(&journal, lines.join("\n") + "\n").unwrap();
    let run = desk.get(&desk.path("first")).ok();
    assert!(run["problem"].as_str().unwrap().contains("is damaged at byte"), "{run}");
    assert_eq!(run["entry"], "START.sh");
    // What was read last is not how it stands: nothing is offered that the command would refuse.
    assert_eq!((&run["group"], &run["can"]), (&json!("needs_you"), &json!([])));
    let row = desk.get("/api/runs").ok()["runs"][0].clone();
    assert!(row["why"].as_str().unwrap().contains("is damaged at byte"), "{row}");
    fs::write(&journal, "nothing\n").unwrap();
    let row = desk.get("/api/runs").ok()["runs"][0].clone();
    assert_eq!((&row["status"], &row["group"]), (&json!("unreadable"), &json!("needs_you")));
    assert_eq!(desk.get(&desk.path("gone")).status, 404);
}

#[test]
fn row_of_a_run_that_is_over_follows_its_journal() {
    let desk = Desk::new(SHORT);
    desk.run("r");
    assert_eq!(desk.get("/api/runs").ok()["runs"][0]["status"], "completed");
    fs::remove_file(desk.journal("r")).unwrap();
    assert_eq!(desk.get("/api/runs").ok()["runs"], json!([]));
    desk.run("r");
    assert_eq!(desk.get("/api/runs").ok()["runs"][0]["status"], "completed");
}

#[test]
fn more_runs_than_are_kept_open_are_all_shown() {
    let desk = Desk::new(SHORT);
    let runs: Vec<_> = (0..10).map(|number| format!("r{number}")).collect();
    for id in &runs {
        drop(desk.run(id));
    }
    for id in runs.iter().chain(&runs) {
        assert_eq!(desk.get(&desk.path(id)).ok()["result"], "it works", "{id}");
    }
}

#[cfg(unix)]
#[test]
fn changes_of_a_worker_in_its_worktree_are_shown_also_when_it_is_gone() {
    let desk = Desk::new([
        ("START.sh", "echo '<fork next=\"WAIT\" worktree=\"true\">WORK</fork>'"),
        ("WORK.sh", "echo two > a.txt; echo '<result>done</result>'"),
        ("WAIT.sh", "echo '<join>END</join>'"),
        ("END.sh", "echo '<result>joined</result>'"),
    ]);
    desk.write(".gitignore", ".raymond\n");
    desk.write("a.txt", "one\n");
    for words in [
        "init --quiet",
        "config user.name t",
        "config user.email t@localhost",
        "add .",
        "commit --quiet -m one",
    ] {
        let mut git = std::process::Command::new("git");
        let done = git.args(words.split(' ')).current_dir(desk.file("")).status().unwrap();
        assert!(done.success(), "git {words}");
    }
    assert_eq!(desk.run("r").result, Some("joined".into()));
    let run = desk.path("r");
    let step = desk.get(&format!("{run}/steps/main_work1.1")).ok();
    assert_eq!(step["worktree"]["branch"], "raymond/r/main_work1");
    let diff = || desk.get(&format!("{run}/agents/main_work1/diff")).ok();
    let text = diff()["text"].as_str().unwrap().to_owned();
    assert!(text.ends_with("-one\n+two\n"), "{text}");
    fs::remove_dir_all(step["worktree"]["path"].as_str().unwrap()).unwrap();
    assert_eq!(diff(), json!({ "text": text, "is_cut": false }));
    for without in ["main", "nobody", "..%2fmain_work1"] {
        assert_eq!(desk.get(&format!("{run}/agents/{without}/diff")).status, 404, "{without}");
    }
}
