//! What the server shows of runs.

use std::fs;

use serde_json::{Value, json};

use super::{Server, project};
use crate::env::Project;

/// A run with turns: one says something and uses the budget, one is reminded, a worker is forked.
fn talking() -> Project {
    let start = "---\nallowed_transitions:\n  - { tag: fork, target: WORK, next: LAST, attributes: [part] }\n---\nSplit {{input}}.";
    let project = Project::new([
        ("START.md", start),
        ("WORK.sh", "echo '<result>worked</result>'"),
        ("LAST.md", "---\nallowed_transitions:\n  - { tag: result }\n---\nSay **it**."),
    ]);
    project.write(
        "agent.sh",
        "cat > /dev/null; case $RAYMOND_STATE in \
         START.md) echo 'I *split* it <script>alert(1)</script>.'; \
           echo '{\"result\":\"Split. <fork next=\\\"LAST\\\" part=\\\"index\\\">WORK</fork>\",\"cost_usd\":0.25,\"model\":\"m1\"}';; \
         *) if [ -e once ]; then echo '{\"result\":\"<result>said</result>\",\"cost_usd\":0.5,\"model\":\"m2\"}'; \
            else touch once; echo '{\"result\":\"no tag\",\"cost_usd\":0.125,\"model\":\"m2\"}'; fi;; esac",
    );
    let mut command = project.command(&["flow", "--id", "talk", "--input", "the shop"]);
    command.env("RAYMOND_AGENT_PROGRAM", "bash agent.sh");
    crate::env::Ran::of(&command.output().unwrap()).completed("said");
    project.write(".raymond/config.toml", "agent_program = \"bash agent.sh\"\n");
    project
}

fn names(list: &Value, field: &str) -> Vec<String> {
    let list = list.as_array().unwrap();
    list.iter().map(|item| item[field].as_str().unwrap_or("-").to_owned()).collect()
}

#[test]
fn run_is_shown_as_status_prints_it_with_agents_steps_costs_and_lanes() {
    let project = talking();
    let server = Server::start(&project, &[]);
    let path = server.run("talk");
    let run = server.get(&path).ok();
    let status: Value =
        serde_json::from_str(&project.raymond(&["status", "talk", "--json"]).stdout).unwrap();
    for (field, value) in status.as_object().unwrap() {
        if field != "agents" && field != "next" {
            assert_eq!(run[field], *value, "{field}");
        }
    }
    assert_eq!(run["input"], "the shop");
    assert_eq!(run["group"], "ended");
    assert_eq!(run["can"], json!([]));
    let worker = run["agents"].as_array().unwrap().iter().find(|it| it["agent"] != "main").unwrap();
    assert_eq!(worker["attributes"], json!({ "part": "index" }));
    assert_eq!(worker["parent"], "main");
    assert_eq!(worker["is_ended"], true);
    assert_eq!(worker["result"], "worked");
    let steps = server.get(&format!("{path}/steps?order=oldest")).ok();
    assert_eq!(steps["count"], 4);
    let of_main = server.get(&format!("{path}/steps?agent=main&order=oldest")).ok();
    assert_eq!(names(&of_main["steps"], "end"), ["followed", "reminded", "followed"]);
    assert_eq!(of_main["steps"][1]["text"], "no transition tag was found");
    assert_eq!(of_main["steps"][0]["worker"], worker["agent"]);
    let cost = server.get(&format!("{path}/cost")).ok();
    assert_eq!(cost["total"]["cost_usd"], 0.875);
    assert_eq!(names(&cost["by_model"], "name"), ["m1", "m2"]);
    let lanes = server.get(&format!("{path}/timeline")).ok();
    assert_eq!(lanes["lanes"].as_array().map(Vec::len), Some(2));
    assert_eq!(names(&lanes["lanes"][0]["bars"], "state"), ["START.md", "LAST.md", "LAST.md"]);
    let merged = server.get(&format!("{path}/timeline?bars=1")).ok();
    let count = |lanes: &Value| lanes["lanes"][0]["bars"].as_array().map(Vec::len);
    assert!(count(&merged) <= count(&lanes), "{merged}");
}

#[test]
fn pages_of_steps_and_of_the_log_have_everything_once() {
    let project = talking();
    let server = Server::start(&project, &[]);
    let path = server.run("talk");
    let (mut seen, mut before) = (Vec::new(), String::new());
    loop {
        let page = server.get(&format!("{path}/steps?limit=1{before}")).ok();
        seen.extend(names(&page["steps"], "step"));
        match page["next"].as_u64() {
            Some(next) => before = format!("&before={next}"),
            None => break,
        }
    }
    seen.sort();
    assert_eq!(seen, ["main.1", "main.2", "main.3", "main_work1.1"]);
    let log = project.raymond(&["log", "talk", "--json"]).stdout;
    let log: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let (mut events, mut from) = (Vec::new(), 0);
    loop {
        let page = server.get(&format!("{path}/log?from={from}&limit=2")).ok();
        let next = page["next"].as_u64().unwrap();
        events.extend(page["events"].as_array().unwrap().iter().cloned());
        if next == from || page["events"].as_array().unwrap().is_empty() {
            break;
        }
        from = next;
    }
    for event in &mut events {
        event.as_object_mut().unwrap().remove("offset");
    }
    assert_eq!(events, log);
    let last = server.get(&format!("{path}/log?last=1")).ok();
    assert_eq!(names(&last["events"], "event"), ["finished"]);
    assert_eq!(server.get(&format!("{path}/log?from=7")).status, 400);
}

#[test]
fn transcript_tells_what_was_asked_and_said_and_markup_stays_text() {
    let project = talking();
    let server = Server::start(&project, &[]);
    let path = format!("{}/steps/main.1", server.run("talk"));
    let transcript = server.get(&format!("{path}/transcript")).ok();
    let entries = &transcript["entries"];
    assert_eq!(names(entries, "entry"), ["prompt", "text", "answer", "cost"], "{transcript}");
    assert_eq!(entries[0]["text"], "Split the shop.");
    assert!(entries[1]["markdown"].to_string().contains("<script>alert(1)</script>"), "{entries}");
    let tag = &entries[2]["markdown"][1];
    assert_eq!(tag["tag"], "transition", "{entries}");
    assert_eq!(transcript["is_over"], true);
    let page = server.get(&format!("{path}/transcript?from=1&limit=1")).ok();
    assert_eq!(names(&page["entries"], "entry"), ["text"]);
    assert_eq!((&page["next"], &page["is_over"]), (&json!(2), &json!(false)));
    let step = server.get(&path).ok();
    assert_eq!(step["following"], "main.2");
    assert_eq!(step["allowed"], json!(["<fork next=\"LAST\" part=\"…\">WORK</fork>"]));
    assert!(names(&step["files"], "name").contains(&"stdout".to_owned()), "{step}");
    let part = server.get(&format!("{path}/files/stdout?offset=2&length=7"));
    assert_eq!(part.body, "*split*");
    assert!(part.head.contains("raymond-next: 9"), "{part:?}");
    assert!(part.head.contains("text/plain"), "{part:?}");
    let end = server.get(&format!("{path}/files/stdout?offset=-2&length=9"));
    assert_eq!(end.body, "}\n");
}

#[test]
fn graph_has_centres_and_paths_that_stay_and_counts_that_grow() {
    let project = talking();
    let server = Server::start(&project, &[]);
    let graph = server.get(&format!("{}/graph", server.run("talk"))).ok();
    let nodes = names(&graph["nodes"], "name");
    assert!(nodes.contains(&"START.md".to_owned()), "{nodes:?}");
    for link in graph["links"].as_array().unwrap() {
        assert!(link["path"].as_str().unwrap().starts_with('M'), "{link}");
    }
    assert_eq!(graph["visits"]["LAST.md"]["steps"], 2);
    assert!(!graph["taken"].as_array().unwrap().is_empty());
    let workflows = server.get("/api/workflows").ok();
    assert_eq!(names(&workflows["workflows"], "name"), ["flow"]);
    let key = workflows["workflows"][0]["workflow"].as_str().unwrap();
    let workflow = server.get(&format!("/api/workflows/{key}")).ok();
    assert_eq!(workflow["graph"]["fingerprint"], graph["fingerprint"]);
    assert_eq!(workflow["form"]["takes_input"], true);
    assert_eq!(workflow["form"]["budget_usd"], 10.0);
    assert_eq!(workflow["runs"][0]["run"], "talk");
    let last = workflow["cost_by_state"].as_array().unwrap();
    assert!(last.iter().any(|it| it["name"] == "LAST.md" && it["cost_usd"] == 0.625), "{last:?}");
    fs::remove_dir_all(project.file("flow")).unwrap();
    let gone = server.get(&format!("{}/graph", server.run("talk"))).ok();
    assert!(gone["problem"].is_string(), "{gone}");
}

#[test]
fn workflow_in_a_yaml_file_is_listed_with_its_form_and_findings_at_its_own_lines() {
    let project = Project::new([]);
    let yaml = "states:\n  START:\n    model: haiku\n    prompt: |\n      {{input}} {{branch}}\n      <goto>GONE</goto>\n";
    project.write("one.yaml", yaml);
    project.write("settings.yaml", "a: b\n");
    let server = Server::start(&project, &["--project", "."]);
    let workflows = server.get("/api/workflows").ok();
    assert_eq!(names(&workflows["workflows"], "name"), ["one"]);
    let key = workflows["workflows"][0]["workflow"].as_str().unwrap();
    let workflow = server.get(&format!("/api/workflows/{key}")).ok();
    assert_eq!(workflow["form"]["takes_input"], true);
    assert_eq!(workflow["form"]["variables"], json!(["branch"]));
    let findings = workflow["findings"].as_array().unwrap();
    let missing = findings.iter().find(|it| it["rule"] == "missing-target").unwrap();
    let place = json!([missing["file"], missing["line"], missing["column"]]);
    assert_eq!(place, json!(["one.yaml", 6, 13]));
}

#[test]
fn list_is_filtered_and_paged_and_all_projects_are_in_it() {
    let project = project();
    for id in ["second", "third"] {
        project.raymond(&["flow", "--id", id]).completed("it works");
    }
    fs::create_dir_all(project.file("other/.raymond")).unwrap();
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let own = fs::Permissions::from_mode(0o700);
        fs::set_permissions(project.file("other/.raymond"), own).unwrap();
    }
    let mut elsewhere = project.command(&["../flow", "--id", "fourth"]);
    assert!(elsewhere.current_dir(project.file("other")).output().unwrap().status.success());
    let server = Server::start(&project, &[]);
    let all = server.get("/api/runs").ok();
    assert_eq!(names(&all["runs"], "run"), ["fourth", "third", "second", "first"]);
    assert_eq!(all["summary"]["ended"], 4);
    let key = all["runs"][1]["project"].as_str().unwrap();
    let of_one = server.get(&format!("/api/runs?project={key}&limit=2")).ok();
    assert_eq!(names(&of_one["runs"], "run"), ["third", "second"]);
    let next = of_one["next"].as_str().unwrap();
    let rest = server.get(&format!("/api/runs?project={key}&limit=2&before={next}")).ok();
    assert_eq!(names(&rest["runs"], "run"), ["first"]);
    assert_eq!(rest["next"], Value::Null);
    assert_eq!(server.get("/api/runs?status=failed").ok()["runs"], json!([]));
    let found = server.get("/api/runs?text=SECOND").ok();
    assert_eq!(names(&found["runs"], "run"), ["second"]);
    drop(server);
    let only = Server::start(&project, &["--project", "other"]);
    assert_eq!(names(&only.get("/api/runs").ok()["runs"], "run"), ["fourth"]);
}

#[test]
fn damaged_run_shows_what_can_be_read_and_says_what_cannot() {
    let project = project();
    let journal = project.file(".raymond/workflows/first.journal");
    let text = fs::read_to_string(&journal).unwrap();
    let mut lines: Vec<_> = text.lines().collect();
    let damaged = lines[2].replace("main", "niam");
    lines[2] = &damaged;
    fs::write(&journal, lines.join("\n") + "\n").unwrap();
    let server = Server::start(&project, &[]);
    let run = server.get(&server.run("first")).ok();
    assert!(run["problem"].as_str().unwrap().contains("is damaged at byte"), "{run}");
    assert_eq!(run["entry"], "START.sh");
    // What was read last is not how it stands: nothing is offered that the command would refuse.
    assert_eq!((&run["group"], &run["can"]), (&json!("needs_you"), &json!([])));
    let row = server.get("/api/runs").ok()["runs"][0].clone();
    assert!(row["why"].as_str().unwrap().contains("is damaged at byte"), "{row}");
    fs::write(&journal, "nothing\n").unwrap();
    let row = server.get("/api/runs").ok()["runs"][0].clone();
    assert_eq!((&row["status"], &row["group"]), (&json!("unreadable"), &json!("needs_you")));
    assert_eq!(server.get(&server.run("gone")).status, 404);
}

#[cfg(unix)]
#[test]
fn changes_of_a_worker_in_its_worktree_are_shown_also_when_it_is_gone() {
    let project = crate::worktrees::repository([
        ("START.sh", "echo '<fork next=\"WAIT\" worktree=\"true\">WORK</fork>'"),
        ("WORK.sh", "echo two > a.txt; echo '<result>done</result>'"),
        ("WAIT.sh", "echo '<join>END</join>'"),
        ("END.sh", "echo '<result>joined</result>'"),
    ]);
    project.raymond(&["flow", "--id", "r"]).completed("joined");
    let server = Server::start(&project, &[]);
    let run = server.run("r");
    let step = server.get(&format!("{run}/steps/main_work1.1")).ok();
    assert_eq!(step["worktree"]["branch"], "raymond/r/main_work1");
    let diff = || server.get(&format!("{run}/agents/main_work1/diff")).ok();
    let text = diff()["text"].as_str().unwrap().to_owned();
    assert!(text.ends_with("-one\n+two\n"), "{text}");
    fs::remove_dir_all(step["worktree"]["path"].as_str().unwrap()).unwrap();
    assert_eq!(diff(), json!({ "text": text, "is_cut": false }));
    for without in ["main", "nobody", "..%2fmain_work1"] {
        assert_eq!(server.get(&format!("{run}/agents/{without}/diff")).status, 404, "{without}");
    }
}
