//! Workflows that can be started, and the graph of a run.

use serde_json::json;

use super::*;

#[test]
fn workflow_in_a_yaml_file_is_listed_with_its_form_and_findings_at_its_own_lines() {
    let desk = Desk::new([]);
    let yaml = "states:\n  START:\n    model: haiku\n    prompt: |\n      {{input}} {{branch}}\n      <goto>GONE</goto>\n";
    desk.write("one.yaml", yaml);
    desk.write("settings.yaml", "a: b\n");
    let workflows = desk.get("/api/workflows").ok();
    assert_eq!(names(&workflows["workflows"], "name"), ["one"]);
    let listed = &workflows["workflows"][0];
    assert_eq!(listed["states"], 1, "{listed}");
    assert!(listed["errors"].as_u64() > Some(0), "{listed}");
    let workflow = desk.workflow("one");
    assert_eq!(workflow["form"]["takes_input"], true);
    assert_eq!(workflow["form"]["variables"], json!(["branch"]));
    let findings = workflow["findings"].as_array().unwrap();
    let missing = findings.iter().find(|it| it["rule"] == "missing-target").unwrap();
    let place = json!([missing["file"], missing["line"], missing["column"]]);
    assert_eq!(place, json!(["one.yaml", 6, 13]));
}

impl Desk {
    /// The workflow with this name.
    fn workflow(&self, name: &str) -> Value {
        let workflows = self.get("/api/workflows").ok();
        let all = workflows["workflows"].as_array().unwrap();
        let found = all.iter().find(|workflow| workflow["name"] == name).unwrap();
        self.get(&format!("/api/workflows/{}", found["workflow"].as_str().unwrap())).ok()
    }
}

#[test]
fn form_offers_the_budget_of_the_project_but_no_more_than_the_cap() {
    for (cap, offered) in [(Some(50.0), 10.0), (Some(2.5), 2.5), (None, 10.0)] {
        let desk =
            Desk::with(SHORT, |options| options.budget_max = cap.and_then(Usd::from_dollars));
        let form = &desk.workflow("flow")["form"];
        assert_eq!(form["budget_usd"], offered);
        assert_eq!(form["budget_max_usd"], json!(cap));
        assert_eq!(form["takes_input"], false);
    }
}

#[test]
fn variables_of_a_form_are_those_that_neither_raymond_nor_a_fork_gives() {
    let start = "---\nallowed_transitions:\n  - { tag: fork, target: WORK, next: LAST, attributes: [part] }\n---\n\
                 {{input}} {{branch}} {{agent_id}}";
    let desk = Desk::new([
        ("START.md", start),
        ("WORK.md", "{{part}} <result>x</result>"),
        ("LAST.md", "{{result}} {{colour}} <result>x</result>"),
    ]);
    let form = &desk.workflow("flow")["form"];
    let variables = names_of(&form["variables"]);
    for name in ["branch", "colour"] {
        assert!(variables.contains(&name.to_owned()), "{variables:?}");
    }
    for name in ["input", "agent_id", "result"] {
        assert!(!variables.contains(&name.to_owned()), "{variables:?}");
    }
}

fn names_of(list: &Value) -> Vec<String> {
    list.as_array().unwrap().iter().map(|name| name.as_str().unwrap().to_owned()).collect()
}

#[test]
fn workflows_are_those_below_the_given_directories_and_not_in_hidden_or_deep_ones() {
    let workflow = |desk: &Desk, place: &str| {
        fs::create_dir_all(desk.file(place)).unwrap();
        desk.write(&format!("{place}/START.sh"), "echo '<result>x</result>'");
    };
    let desk = Desk::new([]);
    for place in [
        "a",
        "deep/er/b",
        "deep/er/still/c",
        "deep/er/still/too/d",
        ".hidden/e",
        "node_modules/f",
        "a/inner",
    ] {
        workflow(&desk, place);
    }
    let listed = |desk: &Desk| {
        let mut names = names(&desk.get("/api/workflows").ok()["workflows"], "name");
        names.sort();
        names
    };
    // A workflow's own folders are a part of it.
    assert_eq!(listed(&desk), ["a", "b"]);
    let root = desk.file("deep/er");
    let project = desk.file("").to_str().unwrap().to_owned();
    let desk = Desk::on(desk.folder, |options| options.roots = vec![root]);
    assert_eq!(listed(&desk), ["b", "c", "d"]);
    assert!(desk.workflow("b")["path"].as_str().unwrap().starts_with(&project));
    assert_eq!(desk.get("/api/workflows/a-00000000").status, 404);
}

#[cfg(unix)]
#[test]
fn workflows_behind_links_are_not_listed() {
    let desk = Desk::new([]);
    fs::create_dir_all(desk.file("../elsewhere/w")).unwrap();
    desk.write("../elsewhere/w/START.sh", "echo '<result>x</result>'");
    std::os::unix::fs::symlink(desk.file("../elsewhere"), desk.file("link")).unwrap();
    assert_eq!(desk.get("/api/workflows").ok()["workflows"], json!([]));
}

#[test]
fn graph_of_a_workflow_is_that_of_its_runs_and_counts_what_they_did() {
    let desk = super::reading::talking();
    let graph = desk.get(&format!("{}/graph", desk.path("talk"))).ok();
    let nodes = names(&graph["nodes"], "name");
    assert!(nodes.contains(&"START.md".to_owned()), "{nodes:?}");
    for link in graph["links"].as_array().unwrap() {
        assert!(link["path"].as_str().unwrap().starts_with('M'), "{link}");
    }
    assert_eq!(graph["visits"]["LAST.md"]["steps"], 2);
    assert!(!graph["taken"].as_array().unwrap().is_empty());
    let workflow = desk.workflow("flow");
    assert_eq!(workflow["graph"]["fingerprint"], graph["fingerprint"]);
    assert_eq!(workflow["graph"]["visits"], json!({}));
    assert_eq!(workflow["form"]["takes_input"], true);
    assert_eq!(workflow["runs"][0]["run"], "talk");
    assert_eq!(workflow["runs"][0]["workflow_key"], workflow["workflow"]);
    let by_state = workflow["cost_by_state"].as_array().unwrap();
    let last = by_state.iter().find(|it| it["name"] == "LAST.md").unwrap();
    assert_eq!(*last, json!({ "name": "LAST.md", "cost_usd": 0.625, "steps": 2, "runs": 1 }));
}

#[test]
fn run_whose_workflow_was_removed_has_no_graph_and_says_why() {
    let desk = Desk::new(SHORT);
    desk.run("r");
    fs::remove_dir_all(desk.file("flow")).unwrap();
    let gone = desk.get(&format!("{}/graph", desk.path("r"))).ok();
    assert!(gone["problem"].is_string(), "{gone}");
    assert_eq!((&gone["nodes"], &gone["fingerprint"]), (&json!([]), &json!(null)));
    assert_eq!(desk.get(&desk.path("r")).ok()["status"], "completed", "the rest is shown");
}
