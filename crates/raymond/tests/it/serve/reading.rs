//! What the server shows of runs.

use serde_json::Value;

use super::Server;
use crate::env::{Project, WithAgent as _, agent_table};

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
    command.agent("bash agent.sh");
    crate::env::Ran::of(&command.output().unwrap()).completed("said");
    project.write(".raymond/config.toml", &agent_table("bash agent.sh"));
    project
}

#[test]
fn page_and_command_line_tell_the_same_of_a_run() {
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
    let log = project.raymond(&["log", "talk", "--json"]).stdout;
    let log: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let mut page = server.get(&format!("{path}/log")).ok()["events"].take();
    for event in page.as_array_mut().unwrap() {
        event.as_object_mut().unwrap().remove("offset");
    }
    assert_eq!(page, Value::from(log));
}
