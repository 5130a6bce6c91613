//! Coding agents that name their own sessions, on the real program: a small program that keeps its
//! sessions as files, really branches them, and starts a new one without a word if one is missing.

use crate::env::{Project, Ran};

/// Keeps what was said in `sessions/ID`, and answers with the last line of the prompt. `calls.log` tells for
/// each turn the state, the mode and everything that its session remembers.
const AGENT: &str = r#"
cd "$(dirname "$0")" || exit 1
prompt=$(cat)
mkdir -p sessions
fresh() { number=1; until mkdir "sessions/thread-$number" 2>/dev/null; do number=$((number + 1)); done; id=thread-$number; }
case $RAYMOND_SESSION_MODE in
  fresh) fresh ;;
  resume) if [ -d "sessions/$RAYMOND_SESSION" ]; then id=$RAYMOND_SESSION; else fresh; fi ;;
  branch) fresh; cp "sessions/$RAYMOND_SESSION_FROM/said" "sessions/$id/said" ;;
esac
echo "{\"session\": \"$id\"}"
head -n 1 <<< "$prompt" >> "sessions/$id/said"
echo "$RAYMOND_STATE $RAYMOND_SESSION_MODE asked=${RAYMOND_SESSION--} in=$id model=${RAYMOND_TURN_MODEL--}:" $(cat "sessions/$id/said") >> calls.log
answer=$(tail -n 1 <<< "$prompt")
if [ -e "dies-$RAYMOND_STATE" ]; then rm "dies-$RAYMOND_STATE"; kill -9 $$; fi
echo "{\"result\": \"${answer//\"/\\\"}\", \"session\": \"$id\", \"input_tokens\": 1000000, \"cached_input_tokens\": 2000000, \"output_tokens\": 100000}"
"#;

fn project<'a>(settings: &str, files: impl IntoIterator<Item = (&'a str, &'a str)>) -> Project {
    let project = Project::new(files);
    project.write("agent.sh", AGENT);
    let agent = project.file("agent.sh");
    let text = format!(
        "agent = 'adapter'\nbudget = 0\n[agents.adapter]\nprogram = 'bash'\narguments = ['{}']\n\
         names_sessions = true\nreports_cost = false\n{settings}\n",
        agent.display()
    );
    project.write(".raymond/config.toml", &text);
    project
}

fn run(project: &Project) -> Ran {
    project.raymond(&["flow", "--id", "r"])
}

#[test]
fn sessions_that_the_coding_agent_names_are_resumed_branched_and_returned_to() {
    let files = [
        ("START.md", "one\n<goto>ASK</goto>"),
        ("ASK.md", "two\n<call return='LAST'>SIDE</call>"),
        ("SIDE.md", "aside\n<goto>DEEP</goto>"),
        ("DEEP.md", "deeper\n<result>found</result>"),
        ("LAST.md", "three\n<result>done</result>"),
    ];
    let project = project("model = 'gpt'", files);
    run(&project).completed("done");
    let expected = [
        "START.md fresh asked=- in=thread-1 model=gpt: one",
        "ASK.md resume asked=thread-1 in=thread-1 model=gpt: one two",
        "SIDE.md branch asked=- in=thread-2 model=gpt: one two aside",
        "DEEP.md resume asked=thread-2 in=thread-2 model=gpt: one two aside deeper",
        "LAST.md resume asked=thread-1 in=thread-1 model=gpt: one two three",
    ];
    assert_eq!(project.lines("calls.log"), expected);
}

#[test]
fn turn_that_was_killed_is_continued_in_the_session_that_was_reported_before() {
    let project = project("", [("START.md", "one\n<result>done</result>")]);
    project.write("dies-START.md", "");
    // The continuation does not say what to answer, so the answer to it has no tag.
    run(&project).failed(1, "no transition tag");
    let calls = project.lines("calls.log");
    assert_eq!(calls.len(), 2, "{calls:?}");
    assert!(calls[1].starts_with("START.md resume asked=thread-1 in=thread-1"), "{calls:?}");
}

#[test]
fn session_that_was_lost_is_noticed_although_the_coding_agent_says_nothing() {
    let files = [
        ("START.md", "one\n<goto>LOSE</goto>"),
        ("LOSE.sh", "rm -r sessions/thread-1; touch sessions/thread-1; echo '<goto>LAST</goto>'"),
        ("LAST.md", "two\n<result>done</result>"),
    ];
    let project = project("", files);
    run(&project).failed(1, "session `thread-1` was not resumed");
    project.raymond(&["run", "r"]).completed("done");
    assert!(project.lines("calls.log")[2].starts_with("LAST.md fresh asked=-"));
}

#[test]
fn cost_is_worked_out_from_prices_and_a_budget_without_them_is_refused() {
    let files = [("START.md", "one\n<result>done</result>")];
    let unpriced = project("", files);
    let ran = unpriced.raymond(&["flow", "--id", "r", "--budget", "5"]);
    ran.failed(
        2,
        "START.md is carried out by `adapter`, which does not report what its turns cost",
    )
    .failed(2, "--budget 0");
    assert!(!unpriced.file(".raymond/workflows/r.journal").exists());
    let priced = project("prices = { input = 1, cached_input = 0.5, output = 10 }", files);
    priced.raymond(&["flow", "--id", "r", "--budget", "5"]).completed("done");
    let status = priced.raymond(&["status", "r"]).stdout;
    assert!(status.contains("$3.00"), "{status}");
}

#[test]
fn goto_into_a_state_of_another_coding_agent_says_how_to_enter_it() {
    let files = [
        ("START.md", "one\n<goto>OTHER</goto>"),
        ("OTHER.md", "---\nagent: second\n---\ntwo\n<result>done</result>"),
    ];
    let second = "[agents.second]\nprogram = 'bash'\narguments = ['agent.sh']\nnames_sessions = true\nreports_cost = false";
    let project = project(second, files);
    run(&project)
        .failed(1, "the session belongs to the coding agent `adapter`")
        .failed(1, "<reset>");
    assert_eq!(project.lines("calls.log").len(), 1);
    project.write("flow/START.md", "one\n<reset>OTHER</reset>");
    project.raymond(&["flow", "--id", "r2"]).completed("done");
}

#[test]
fn call_to_a_coding_agent_that_cannot_branch_is_refused_before_the_subtask() {
    let files = [
        ("START.md", "one\n<call return='START'>SIDE</call>"),
        ("SIDE.md", "two\n<result>x</result>"),
    ];
    let project = project("can_branch = false", files);
    run(&project).failed(1, "`adapter` cannot branch a session, which <call> needs");
    assert_eq!(project.lines("calls.log").len(), 1);
}

#[test]
fn settings_of_coding_agents_are_checked_and_shown() {
    let project = project("model = 'gpt'", [("START.md", "x")]);
    let config = project.raymond(&["config"]).stdout;
    assert!(config.contains("agents.adapter.model"), "{config}");
    let wrong = [
        ("[agents.x]\nmodel = 'a'", "`agents.x` needs a `program`"),
        (
            "[agents.x]\nprogram = 'a'\nbranch = true",
            "`agents.x.branch` is unknown; known: program",
        ),
        (
            "[agents.x]\nprogram = 'a'\ncan_branch = 1",
            "`agents.x.can_branch`: invalid type: integer `1`, expected a boolean",
        ),
        (
            "[agents.x]\nprogram = 'a'\nprices = { inputs = 1 }",
            "`agents.x.prices`: unknown field `inputs`, expected one of `input`",
        ),
        ("[agents.claude]\nreports_cost = false", "`agents.claude.reports_cost` is unknown"),
        ("[agents.x]\nkind = 'claud'", "`agents.x.kind` must be one of: claude, codex, "),
        ("[agents.codex]\nnames_sessions = true", "`agents.codex.names_sessions` is unknown"),
        ("[agents.-x]\nprogram = 'a'", "is not a valid name"),
        ("agents.x = 1", "`agents.x` must be a table"),
    ];
    for (text, expected) in wrong {
        project.write(".raymond/config.toml", text);
        project.raymond(&["config"]).failed(2, expected).failed(2, "config.toml line ");
    }
    // A second agent of a kind, and a program that has the name of a known one.
    let right = "[agents.quick]\nkind = 'codex'\nmodel = 'm'\n[agents.codex]\nkind = 'program'\nprogram = 'a'\n\
                 names_sessions = true";
    project.write(".raymond/config.toml", right);
    assert_eq!(project.raymond(&["config"]).code, 0);
    project.write(".raymond/config.toml", "agents.x = 1");
    let started = project.raymond(&["flow", "--agent", "oracle"]);
    started.failed(2, "config.toml");
    project.write(".raymond/config.toml", "");
    let started = project.raymond(&["flow", "--agent", "oracle"]);
    started.failed(2, "there is no coding agent `oracle`; known: claude");
}

/// A coding agent that ends its first turn because of its limit, having spent all of it, and answers the second one
/// with what it may spend then.
const SPENDER: &str = r#"
cat >> asked
if [ -e spent ]; then
  touch given
  echo "{\"result\": \"<result>$RAYMOND_TURN_BUDGET</result>\", \"cost_usd\": 0.25}"
else
  touch spent
  echo "{\"error\": \"enough\", \"class\": \"budget\", \"cost_usd\": $RAYMOND_TURN_BUDGET}"
fi
"#;

#[test]
fn program_is_told_what_a_turn_may_spend_and_is_given_more() {
    // `main` runs a script, so its worker gets half of the budget, and then half of the rest.
    let project = Project::new([
        ("START.sh", "echo '<fork next=\"LATER\">WORK</fork>'"),
        ("WORK.md", "work"),
        (
            "LATER.sh",
            "for _ in {1..6000}; do [ -e given ] && break; sleep 0.01; done; echo '<result>x</result>'",
        ),
    ]);
    project.write("agent.sh", SPENDER);
    let settings = "agent = 'ours'\n[agents.ours]\nprogram = 'bash'\narguments = ['agent.sh']\n";
    for (can_limit, is_warned) in [("", true), ("can_limit = true\n", false)] {
        for file in ["spent", "given"] {
            let _ = std::fs::remove_file(project.file(file));
        }
        project.write(".raymond/config.toml", &format!("{settings}{can_limit}"));
        let ran = project.raymond(&["flow", "--budget", "2", "--no-lint"]).completed("x");
        assert!(ran.stderr.contains("has spent its share of the budget"), "{}", ran.stderr);
        assert!(ran.stderr.contains("result: 0.5"), "{}", ran.stderr);
        let warning = "`ours` cannot limit what a turn costs";
        assert_eq!(ran.stderr.contains(warning), is_warned, "{}", ran.stderr);
    }
    let asked = project.read("asked");
    assert!(asked.contains("Your last turn was stopped because it had spent"), "{asked}");
}
