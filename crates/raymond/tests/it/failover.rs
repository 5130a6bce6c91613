//! Coding agents that stand in for each other, through the program.

use crate::env::Project;

/// A coding agent that logs its name and its prompt, and fails while a file `stopped-NAME` is there.
const AGENT: &str = r#"
prompt=$(cat)
echo "$0 $RAYMOND_SESSION_MODE model=${RAYMOND_TURN_MODEL--}" >> calls.log
printf '%s\n' "$prompt" >> "prompts-$0"
[ -z "$RAYMOND_RECOVERS" ] && printf '%s' "$prompt" > "last-$0"
if [ -e "stopped-$0" ]; then echo "{\"error\": \"limit reached\", \"class\": \"usage_limit\", \"resets_at\": $(($(date +%s) + 3600))}"; exit; fi
[ -z "$RAYMOND_RECOVERS" ] || prompt=$(cat "last-$0")
echo "{\"result\": \"$(tail -n 1 <<< "$prompt" | sed 's/"/\\"/g')\"}"
"#;

fn project<'a>(failover: &str, files: impl IntoIterator<Item = (&'a str, &'a str)>) -> Project {
    let project = Project::new(files);
    project.write("agent.sh", AGENT);
    let table = |name: &str| {
        format!(
            "[agents.{name}]\nprogram = 'bash'\narguments = ['-c', '. ./agent.sh', '{name}']\nmodel = 'of-{name}'\n"
        )
    };
    let settings =
        format!("agent = 'first'\n[failover]\n{failover}\n{}{}", table("first"), table("second"));
    project.write(".raymond/config.toml", &settings);
    project
}

const ORDER: &str = "order = ['first', 'second']";

#[test]
fn fresh_session_goes_to_the_next_coding_agent_and_stays_there() {
    let files = [("START.md", "one\n<goto>NEXT</goto>"), ("NEXT.md", "two\n<result>x</result>")];
    let project = project(ORDER, files);
    project.write("stopped-first", "");
    let ran = project.raymond(&["flow", "--id", "r", "--model", "big"]).completed("x");
    assert!(ran.stderr.contains("`first` is not available: limit reached"), "{}", ran.stderr);
    let expected =
        ["first fresh model=big", "second fresh model=of-second", "second resume model=of-second"];
    assert_eq!(project.lines("calls.log"), expected);
    let log = project.raymond(&["log", "r", "--json"]).stdout;
    assert!(log.contains("\"event\":\"agent_stopped\""), "{log}");
    let log = project.raymond(&["log", "r"]).stdout;
    assert!(log.contains("`second` instead of `first`"), "{log}");
    let status = project.raymond(&["status", "r", "--json"]).stdout;
    assert!(status.contains("\"coding_agent\": \"first\""), "{status}");
    let status = project.raymond(&["status", "r"]).stdout;
    assert!(status.contains("`first` is not available"), "{status}");
}

#[test]
fn limit_that_another_run_has_reached_is_not_tried() {
    let project = project(ORDER, [("START.md", "<result>x</result>")]);
    project.write("stopped-first", "");
    project.raymond(&["flow"]).completed("x");
    project.raymond(&["flow"]).completed("x");
    let calls = project.lines("calls.log");
    let agents: Vec<_> = calls.iter().filter_map(|call| call.split(' ').next()).collect();
    assert_eq!(agents, ["first", "second", "second"]);
}

#[test]
fn turn_in_a_session_is_handed_over_with_a_marked_record() {
    let files = [
        ("START.md", "remember the number seven\n<goto>STOP</goto>"),
        ("STOP.sh", "touch stopped-first; echo '<goto>NEXT</goto>'"),
        ("NEXT.md", "two\n<result>x</result>"),
    ];
    let project = project(&format!("{ORDER}\nhandoff = true"), files);
    project.raymond(&["flow", "--id", "r"]).completed("x");
    let expected = [
        "first fresh model=of-first",
        "first resume model=of-first",
        "second fresh model=of-second",
    ];
    assert_eq!(project.lines("calls.log"), expected);
    let told = project.read("prompts-second");
    assert!(told.starts_with("[Raymond: you take over from the coding agent `first`"), "{told}");
    assert!(told.contains("remember the number seven"), "{told}");
    assert!(told.trim_end().ends_with("two\n<result>x</result>"), "{told}");
}

#[test]
fn turn_in_a_session_waits_and_a_run_that_does_not_wait_is_paused() {
    let files = [
        ("START.md", "one\n<goto>STOP</goto>"),
        ("STOP.sh", "[ -e went ] || touch stopped-first; touch went; echo '<goto>NEXT</goto>'"),
        ("NEXT.md", "two\n<result>x</result>"),
    ];
    let project = project(ORDER, files);
    project.raymond(&["flow", "--id", "r", "--no-wait"]).failed(4, "usage limit");
    std::fs::remove_file(project.file("stopped-first")).unwrap();
    project.raymond(&["run", "r"]).completed("x");
    let calls = project.lines("calls.log");
    assert!(calls.iter().all(|call| call.starts_with("first ")), "{calls:?}");
}

#[test]
fn settings_of_failover_are_checked() {
    for (failover, expected) in [
        ("order = ['first', 'oracle']", "there is no coding agent `oracle`"),
        ("order = 'first'", "`failover.order` must be a list of strings"),
        ("order = []\nhandoff = 1", "`failover.handoff`: `1` is neither true nor false"),
        ("other = 1", "unknown setting `failover.other`"),
        ("order = ['first', 'codex']", "`failover.order` names `codex`, which does not report"),
    ] {
        let project = project(failover, [("START.md", "<result>x</result>")]);
        project.raymond(&["flow"]).failed(2, expected);
    }
}
