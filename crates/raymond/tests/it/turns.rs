//! Prompts on the real program, carried out by a small program that speaks the protocol of coding agents.

use std::{
    collections::BTreeMap,
    fs,
    io::Write as _,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use crate::env::{Project, Ran, WithAgent as _, kill, reaper_of, wait_until};

/// A minimal coding agent. It logs every call in `calls.log` and in a new directory under `calls`, and
/// answers with the next line of `replies/STATE`. An answer that begins with `@gate` is held back until
/// there is a file `gate`.
const AGENT: &str = r#"
cd "$(dirname "$0")" || exit 1
number=1
until mkdir "calls/$RAYMOND_STATE.$number" 2>/dev/null; do number=$((number + 1)); done
folder=calls/$RAYMOND_STATE.$number
cat > "$folder/prompt"
touch "$folder/here"
ls calls/*/here | wc -l >> parallel.log
echo "$RAYMOND_STATE $RAYMOND_SESSION_MODE $RAYMOND_SESSION from=${RAYMOND_SESSION_FROM--}" \
  "model=${RAYMOND_TURN_MODEL--} recovers=${RAYMOND_RECOVERS--}" >> calls.log
# From here on everything is written down: whoever waits for this file may end us.
touch "$folder/noted"
echo 'working on it'
reply=$(sed -n "${number}p" "replies/$RAYMOND_STATE")
case $reply in
  @*)
    gate=${reply%% *}
    gate=${gate#@}
    for _ in {1..6000}; do [ -e "$gate" ] && break; sleep 0.01; done
    reply=${reply#* }
    ;;
esac
rm "$folder/here"
# Trying again would only wait for nothing: the class fails at once.
echo "${reply:-{\"error\": \"no reply is left\", \"class\": \"authentication\"\}}"
"#;

const PATIENCE: Duration = Duration::from_mins(1);

/// A workflow whose prompts are answered by [`AGENT`].
struct Turns {
    project: Project,
}

impl Turns {
    fn new<'a>(files: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let project = Project::new(files);
        project.write("agent.sh", AGENT);
        for folder in ["calls", "replies"] {
            fs::create_dir(project.file(folder)).unwrap();
        }
        Self { project }
    }

    /// Sets the answers in `state`, call by call.
    fn replies(self, state: &str, replies: impl IntoIterator<Item = String>) -> Self {
        let lines: String = replies.into_iter().map(|reply| reply + "\n").collect();
        self.project.write(&format!("replies/{state}"), &lines);
        self
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.project.command(arguments);
        let agent = format!("/usr/bin/env bash {}", self.project.file("agent.sh").display());
        command.agent(agent);
        command
    }

    fn raymond(&self, arguments: &[&str]) -> Ran {
        Ran::of(&self.command(arguments).output().unwrap())
    }

    fn spawn(&self, arguments: &[&str]) -> Child {
        let mut command = self.command(arguments);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }

    /// Every call in order: its state and how its session began. Sessions are called `S1`, `S2`, …
    /// in the order in which they are first seen.
    fn calls(&self) -> Vec<String> {
        self.log().into_iter().map(|(call, _)| call).collect()
    }

    /// Like [`calls`](Self::calls), with the model.
    fn calls_with_models(&self) -> Vec<(String, String)> {
        self.log()
    }

    fn log(&self) -> Vec<(String, String)> {
        let mut names = BTreeMap::new();
        let mut name = |session: &str| -> String {
            let next = format!("S{}", names.len() + 1);
            names.entry(session.to_owned()).or_insert(next).clone()
        };
        let parse = |line: String| {
            let [state, mode, session, from, model, recovers] =
                line.split(' ').collect::<Vec<_>>().try_into().unwrap();
            let mut call = vec![state.to_owned(), mode.to_owned(), name(session)];
            match from.strip_prefix("from=").unwrap() {
                "-" => {}
                from => call.extend(["from".to_owned(), name(from)]),
            }
            call.extend((recovers != "recovers=-").then(|| recovers.to_owned()));
            (call.join(" "), model.strip_prefix("model=").unwrap().to_owned())
        };
        self.project.lines("calls.log").into_iter().map(parse).collect()
    }

    /// What the agent read at its call number `number` in `state`.
    fn prompt(&self, state: &str, number: usize) -> String {
        self.project.read(&format!("calls/{state}.{number}/prompt"))
    }

    fn wait_for_call(&self, state: &str, number: usize) {
        let noted = self.project.file(&format!("calls/{state}.{number}/noted"));
        wait_until("the agent was called", PATIENCE, || noted.exists());
    }

    /// The state file of run `r`.
    fn state(&self) -> Value {
        serde_json::from_str(&self.project.read(".raymond/workflows/r.json")).unwrap()
    }

    #[track_caller]
    fn expect_cost(&self, dollars: f64) {
        assert_eq!(self.state()["total_cost_usd"], json!(dollars));
    }

    /// The reaper of a step.
    fn reaper(&self, step: &str) -> u32 {
        reaper_of(&self.project, step)
    }
}

/// An answer that costs a quarter of a dollar.
fn says(text: &str) -> String {
    json!({ "result": text, "cost_usd": 0.25 }).to_string()
}

/// An answer that is held back until there is a file `gate`.
fn says_after(gate: &str, text: &str) -> String {
    format!("@{gate} {}", says(text))
}

fn fails(class: &str, message: &str) -> String {
    json!({ "error": message, "class": class, "cost_usd": 0.125 }).to_string()
}

const DONE: &str = "<result>done</result>";
const START: &[&str] = &["start", "flow", "--id", "r", "--no-lint"];
const RUN: &[&str] = &["run", "r"];

fn with<'a>(arguments: &[&'a str], more: &[&'a str]) -> Vec<&'a str> {
    [arguments, more].concat()
}

#[test]
fn goto_continues_in_the_same_session_even_through_a_script() {
    let turns = Turns::new([
        ("START.md", "do {{input}}"),
        ("SECOND.md", "then this"),
        ("SCRIPT.sh", "echo '<goto>THIRD</goto>'"),
        ("THIRD.md", "at last"),
    ])
    .replies("START.md", [says("well <goto>SECOND</goto> then")])
    .replies("SECOND.md", [says("<goto>SCRIPT.sh</goto>")])
    .replies("THIRD.md", [says(DONE)]);
    turns.raymond(&with(START, &["--input", "the task"])).completed("done");
    assert_eq!(turns.calls(), ["START.md fresh S1", "SECOND.md resume S1", "THIRD.md resume S1"]);
    assert_eq!(turns.prompt("START.md", 1), "do the task");
    assert_eq!(turns.prompt("SECOND.md", 1), "then this");
    turns.expect_cost(0.75);
    turns.project.wait_until_quiet();
}

#[test]
fn reset_continues_in_a_fresh_session() {
    let turns = Turns::new([("START.md", "one"), ("SECOND.md", "two"), ("THIRD.md", "three")])
        .replies("START.md", [says("<goto>SECOND</goto>")])
        .replies("SECOND.md", [says("<reset>THIRD</reset>")])
        .replies("THIRD.md", [says(DONE)]);
    turns.raymond(START).completed("done");
    assert_eq!(turns.calls(), ["START.md fresh S1", "SECOND.md resume S1", "THIRD.md fresh S2"]);
}

#[test]
fn call_branches_from_the_callers_session_and_its_result_returns_there() {
    let turns = Turns::new([
        ("START.md", "one"),
        ("CHILD.md", "two"),
        ("DEEPER.md", "three"),
        ("BACK.md", "it says: {{result}}"),
        ("LAST.md", "four"),
    ])
    .replies("START.md", [says("<call return='BACK'>CHILD</call>")])
    .replies("CHILD.md", [says("<goto>DEEPER</goto>")])
    .replies("DEEPER.md", [says("<result> forty\ntwo </result>")])
    .replies("BACK.md", [says("<goto>LAST</goto>")])
    .replies("LAST.md", [says(DONE)]);
    turns.raymond(START).completed("done");
    let expected = [
        "START.md fresh S1",
        "CHILD.md branch S2 from S1",
        "DEEPER.md resume S2",
        "BACK.md resume S1",
        "LAST.md resume S1",
    ];
    assert_eq!(turns.calls(), expected);
    assert_eq!(turns.prompt("BACK.md", 1), "it says:  forty\ntwo ");
}

#[test]
fn call_before_the_first_turn_starts_fresh() {
    let turns = Turns::new([
        ("START.sh", "echo '<call return=\"BACK\">CHILD</call>'"),
        ("CHILD.md", "one"),
        ("BACK.md", "two"),
    ])
    .replies("CHILD.md", [says("<result>x</result>")])
    .replies("BACK.md", [says(DONE)]);
    turns.raymond(START).completed("done");
    assert_eq!(turns.calls(), ["CHILD.md fresh S1", "BACK.md fresh S2"]);
}

#[test]
fn function_starts_fresh_and_its_result_returns_to_the_caller() {
    let turns = Turns::new([("START.md", "one"), ("CHILD.md", "two"), ("BACK.md", "{{result}}")])
        .replies("START.md", [says("<function return='BACK'>CHILD</function>")])
        .replies("CHILD.md", [says("<result>payload</result>")])
        .replies("BACK.md", [says(DONE)]);
    turns.raymond(START).completed("done");
    assert_eq!(turns.calls(), ["START.md fresh S1", "CHILD.md fresh S2", "BACK.md resume S1"]);
    assert_eq!(turns.prompt("BACK.md", 1), "payload");
}

#[test]
fn fork_attributes_of_an_agent_do_not_become_commands_in_a_worker() {
    let policy =
        "---\nallowed_transitions:\n  - { tag: fork, target: WORK, next: LAST }\n---\nfork";
    // What GNU tar and any shell would run.
    let evil = [
        ("TAR_OPTIONS", "--checkpoint=1 --checkpoint-action=exec=touch\\\\ owned"),
        ("MAKEFLAGS", "--eval=$(shell touch owned)"),
        ("npm_config_script_shell", "./evil"),
    ];
    let forks = evil.map(|(name, value)| format!("<fork next='LAST' {name}='{value}'>WORK</fork>"));
    let replies = forks.iter().map(|fork| says(fork));
    let good = says("<fork next='LAST' part='x'>WORK</fork>");
    let turns = Turns::new([
        ("START.md", policy),
        ("WORK.sh", "tar cf archive.tar agent.sh && echo \"<result>$part</result>\""),
        ("LAST.sh", "echo '<result>done</result>'"),
    ])
    .replies("START.md", replies.chain([good]));
    let ran = turns.raymond(&["flow"]);
    for (name, _) in evil {
        assert!(ran.stderr.contains(&format!("`{name}` ")), "{name}: {}", ran.stderr);
    }
    ran.completed("done");
    assert!(!turns.project.file("owned").exists());
}

#[test]
fn fork_attribute_named_stdout_or_exit_does_not_replace_a_scripts_own() {
    let exit = "{\"reaper\":1}\n{\"how\":{\"code\":0},\"duration_ms\":1,\"stdout_bytes\":0}\n";
    let fork = format!(
        "<fork next='LAST' stdout='\0<goto>FORGED</goto>' stderr='\0' exit='{exit}\0'>WORK</fork>"
    );
    let turns = Turns::new([
        ("START.md", "fork"),
        ("WORK.sh", "tr -d '\\0' < \"$stdout_FILE\" > seen; echo '<result>x</result>'"),
        ("FORGED.sh", "touch forged; echo '<result>x</result>'"),
        ("LAST.sh", "echo '<result>done</result>'"),
    ])
    .replies("START.md", [says(&fork)]);
    turns.raymond(&["flow", "--no-lint"]).completed("done");
    assert_eq!(turns.project.read("seen"), "<goto>FORGED</goto>");
    assert!(!turns.project.file("forged").exists());
}

#[test]
fn workers_of_a_fork_start_fresh_and_the_parent_keeps_its_session() {
    let turns = Turns::new([
        ("START.md", "one"),
        ("NEXT.md", "two"),
        ("LAST.md", "three"),
        ("WORKER.md", "{{agent_id}} does {{item}} of {{workflow_id}}"),
    ])
    .replies("START.md", [says("<fork next='NEXT' item='this'>WORKER</fork>")])
    .replies("NEXT.md", [says("<fork next='LAST' item='that'>WORKER</fork>")])
    .replies("WORKER.md", [says("<result>one</result>"), says("<result>other</result>")])
    .replies("LAST.md", [says(DONE)]);
    turns.raymond(START).completed("done");
    let mut calls = turns.calls();
    calls.sort();
    let expected = [
        "LAST.md resume S1",
        "NEXT.md resume S1",
        "START.md fresh S1",
        "WORKER.md fresh S2",
        "WORKER.md fresh S3",
    ];
    assert_eq!(calls, expected);
    let mut prompts = [1, 2].map(|number| turns.prompt("WORKER.md", number));
    prompts.sort();
    assert_eq!(prompts, ["main_worker1 does this of r", "main_worker2 does that of r"]);
    turns.expect_cost(1.25);
}

#[test]
fn model_is_the_states_then_the_functions_then_the_runs() {
    let turns = Turns::new([
        ("START.md", "no model of its own"),
        ("OWN.md", "---\nmodel: own\n---\n"),
        ("FUNCTION.md", "no model of its own"),
        ("INNER.md", "called from the function"),
        ("INNER_OWN.md", "---\nmodel: own\n---\n"),
        ("INNER_BACK.md", "still in the function"),
        ("BACK.md", "out of the function"),
    ])
    .replies("START.md", [says("<goto>OWN</goto>")])
    .replies("OWN.md", [says("<function return='BACK' model='asked'>FUNCTION</function>")])
    .replies("FUNCTION.md", [says("<call return='INNER_BACK'>INNER</call>")])
    .replies("INNER.md", [says("<goto>INNER_OWN</goto>")])
    .replies("INNER_OWN.md", [says("<result>x</result>")])
    .replies("INNER_BACK.md", [says("<result>x</result>")])
    .replies("BACK.md", [says(DONE)]);
    turns.raymond(&with(START, &["--model", "given"])).completed("done");
    let models: Vec<_> = turns.calls_with_models().into_iter().map(|(_, model)| model).collect();
    assert_eq!(models, ["given", "own", "asked", "asked", "own", "asked", "given"]);
}

#[test]
fn without_any_model_none_is_passed_on() {
    let turns = Turns::new([("START.md", "x")]).replies("START.md", [says(DONE)]);
    turns.raymond(START).completed("done");
    assert_eq!(turns.calls_with_models(), [("START.md fresh S1".to_owned(), "-".to_owned())]);
}

#[test]
fn variables_of_an_outer_run_do_not_reach_the_agent() {
    let turns = Turns::new([("START.md", "x")]).replies("START.md", [says(DONE)]);
    let mut command = turns.command(START);
    command.env("RAYMOND_TURN_MODEL", "outer").env("RAYMOND_RECOVERS", "1");
    Ran::of(&command.output().unwrap()).completed("done");
    assert_eq!(turns.calls_with_models(), [("START.md fresh S1".to_owned(), "-".to_owned())]);
}

#[test]
fn variables_of_an_outer_run_do_not_reach_a_script() {
    let script = "echo \"<result>${RAYMOND_RESULT-unset} ${RAYMOND_INPUT-unset}</result>\"";
    let project = Project::new([("START.sh", script)]);
    let mut command = project.command(START);
    command.env("RAYMOND_RESULT", "outer").env("RAYMOND_INPUT", "outer");
    Ran::of(&command.output().unwrap()).completed("unset unset");
}

const TWO_WAYS: &str = "---\nmodel: own\nallowed_transitions:\n  - { tag: goto, target: NEXT.md }\n  - { tag: result }\n---\nThe task.";

fn reminder(problem: &str) -> String {
    format!(
        "Your last message did not end this step: {problem}.\n\n\
         Reply with exactly one of these transition tags:\n\n\
         - <goto>NEXT.md</goto>\n\
         - <result>…</result> (your own text in place of …)\n\n\
         Write the tag itself, complete and only once, in your reply."
    )
}

#[test]
fn wrong_answer_is_reminded_of_up_to_three_times_in_the_same_session() {
    let turns = Turns::new([("START.md", TWO_WAYS), ("NEXT.md", "next")])
        .replies(
            "START.md",
            [
                says("no tag"),
                says("<goto>A</goto><goto>B</goto>"),
                says("<reset>NEXT</reset>"),
                says("<goto>NEXT</goto>"),
            ],
        )
        .replies("NEXT.md", [says(DONE)]);
    turns.raymond(START).completed("done");
    let expected = [
        "START.md fresh S1",
        "START.md resume S1",
        "START.md resume S1",
        "START.md resume S1",
        "NEXT.md resume S1",
    ];
    assert_eq!(turns.calls(), expected);
    let models: Vec<_> = turns.calls_with_models().into_iter().map(|(_, model)| model).collect();
    assert_eq!(models, ["own", "own", "own", "own", "-"]);
    assert_eq!(turns.prompt("START.md", 1), "The task.");
    assert_eq!(turns.prompt("START.md", 2), reminder("no transition tag was found"));
    for number in [3, 4] {
        let prompt = turns.prompt("START.md", number);
        assert!(prompt.starts_with("Your last message did not end this step: "), "{prompt}");
    }
    turns.expect_cost(1.25);
}

#[test]
fn fourth_wrong_answer_fails_the_run_and_a_fixed_policy_accepts_it_without_another_turn() {
    let wrong = || says("<reset>NEXT</reset>");
    let turns = Turns::new([("START.md", TWO_WAYS), ("NEXT.md", "next")])
        .replies("START.md", [wrong(), wrong(), wrong(), wrong()])
        .replies("NEXT.md", [says(DONE)]);
    turns.raymond(START).failed(1, "(after 3 reminders)").failed(1, "raymond resume r");
    let four =
        ["START.md fresh S1", "START.md resume S1", "START.md resume S1", "START.md resume S1"];
    assert_eq!(turns.calls(), four);
    turns.expect_cost(1.0);
    turns.project.write("flow/START.md", "mended: everything is allowed");
    turns.raymond(RUN).completed("done");
    assert_eq!(turns.calls()[4..], ["NEXT.md fresh S2"]);
    turns.expect_cost(1.25);
}

#[test]
fn wrong_answer_without_a_list_fails_at_once() {
    let turns = Turns::new([("START.md", "x")]).replies("START.md", [says("no tag")]);
    turns.raymond(START).failed(1, "failed: no transition tag was found");
    assert_eq!(turns.calls(), ["START.md fresh S1"]);
}

#[test]
fn answer_without_a_tag_means_the_only_transition() {
    let only = "---\nallowed_transitions:\n  - { tag: call, target: CHILD, return: BACK }\n---\n";
    let turns = Turns::new([("START.md", only), ("CHILD.md", "x"), ("BACK.md", "{{result}}")])
        .replies("START.md", [says("I am done.")])
        .replies("CHILD.md", [says("<result>y</result>")])
        .replies("BACK.md", [says(DONE)]);
    turns.raymond(START).completed("done");
    let expected = ["START.md fresh S1", "CHILD.md branch S2 from S1", "BACK.md resume S1"];
    assert_eq!(turns.calls(), expected);
}

#[test]
fn exceeded_budget_stops_the_run_and_a_higher_one_resumes_it_without_repeating_the_turn() {
    let turns = Turns::new([("START.md", "one"), ("NEXT.md", "two")])
        .replies("START.md", [says("<goto>NEXT</goto>")])
        .replies("NEXT.md", [says(DONE)]);
    let ran = turns.raymond(&with(START, &["--budget", "0.2"]));
    ran.failed(3, "$0.25 of $0.20 are spent").failed(3, "raymond resume r --budget ");
    assert_eq!(turns.state()["status"], "stopped");
    turns.raymond(RUN).failed(3, "$0.25 of $0.20 are spent");
    assert_eq!(turns.calls(), ["START.md fresh S1"], "nothing new was started");
    turns.raymond(&with(RUN, &["--budget", "1"])).completed("done");
    assert_eq!(turns.calls(), ["START.md fresh S1", "NEXT.md resume S1"]);
    turns.expect_cost(0.5);
}

#[test]
fn answer_without_a_cost_is_warned_of_once_if_there_is_a_budget() {
    let turns = Turns::new([("START.md", "one"), ("NEXT.md", "two")])
        .replies("START.md", [r#"{"result":"<goto>NEXT</goto>"}"#.to_owned()])
        .replies("NEXT.md", [r#"{"result":"<result>done</result>","cost_usd":null}"#.to_owned()]);
    let warning = "coding agent `program` reports no cost, so the budget does not limit";
    for (budget, times) in [("5", 1), ("0", 0)] {
        let ran = turns.raymond(&["flow", "--no-lint", "--budget", budget]);
        let ran = ran.completed("done");
        assert_eq!(ran.stderr.matches(warning).count(), times, "{ran:?}");
        fs::remove_dir_all(turns.project.file("calls")).unwrap();
        fs::create_dir(turns.project.file("calls")).unwrap();
    }
}

#[test]
fn exactly_spent_budget_allows_a_script_but_no_turn() {
    let turns = Turns::new([
        ("START.md", "one"),
        ("SCRIPT.sh", "echo x >> scripts; echo '<goto>NEXT</goto>'"),
        ("NEXT.md", "two"),
    ])
    .replies("START.md", [says("<goto>SCRIPT</goto>")])
    .replies("NEXT.md", [says(DONE)]);
    turns.raymond(&with(START, &["--budget", "0.25"])).failed(3, "$0.25 of $0.25 are spent");
    assert_eq!(turns.calls(), ["START.md fresh S1"]);
    turns.raymond(&with(RUN, &["--budget", "0"])).completed("done");
    assert_eq!(turns.calls(), ["START.md fresh S1", "NEXT.md resume S1"]);
    assert_eq!(turns.project.lines("scripts"), ["x"]);
}

#[test]
fn result_that_ends_the_run_is_followed_whatever_it_cost() {
    let turns = Turns::new([("START.md", "one")]).replies("START.md", [says(DONE)]);
    turns.raymond(&with(START, &["--budget", "0.01", "--max-iterations", "1"])).completed("done");
    turns.expect_cost(0.25);
}

#[test]
fn agent_that_used_up_the_budget_stops_the_run_and_continues_in_its_session() {
    let turns = Turns::new([("START.md", "one")])
        .replies("START.md", [fails("budget", "the limit is reached"), says(DONE)]);
    turns.raymond(START).failed(3, "are spent");
    turns.raymond(&with(RUN, &["--budget", "20"])).completed("done");
    assert_eq!(turns.calls(), ["START.md fresh S1", "START.md fresh S1 recovers=1"]);
    turns.expect_cost(0.375);
}

#[test]
fn iteration_limit_stops_the_run_and_a_higher_one_resumes_it() {
    let turns = Turns::new([("START.md", "one"), ("NEXT.md", "two"), ("LAST.md", "three")])
        .replies("START.md", [says("<goto>NEXT</goto>")])
        .replies("NEXT.md", [says("<goto>LAST</goto>")])
        .replies("LAST.md", [says(DONE)]);
    let ran = turns.raymond(&with(START, &["--max-iterations", "2"]));
    ran.failed(3, "2 states were entered");
    assert_eq!(turns.calls(), ["START.md fresh S1", "NEXT.md resume S1"]);
    assert_eq!(turns.state()["iteration_count"], 2);
    turns.raymond(&with(RUN, &["--max-iterations", "3"])).completed("done");
    let expected = ["START.md fresh S1", "NEXT.md resume S1", "LAST.md resume S1"];
    assert_eq!(turns.calls(), expected);
}

#[test]
fn transient_failure_is_retried_in_the_same_session_and_paid_for() {
    let turns = Turns::new([("START.md", "the prompt")])
        .replies("START.md", [fails("transient", "overloaded"), says(DONE)]);
    let ran = turns.raymond(START).completed("done");
    assert!(ran.stderr.contains("s (try 2): overloaded"), "{}", ran.stderr);
    assert_eq!(turns.calls(), ["START.md fresh S1", "START.md fresh S1 recovers=1"]);
    let prompt = turns.prompt("START.md", 2);
    assert!(prompt.starts_with("Your last turn was interrupted before it ended."), "{prompt}");
    turns.expect_cost(0.375);
}

#[test]
fn transient_failure_fails_at_once_without_retries() {
    let turns =
        Turns::new([("START.md", "x")]).replies("START.md", [fails("transient", "overloaded")]);
    let ran = turns.raymond(&with(START, &["--retries", "0"]));
    ran.failed(1, "failed: overloaded (not retried)");
    assert_eq!(turns.calls(), ["START.md fresh S1"]);
}

#[test]
fn login_failure_fails_at_once_and_the_turn_continues_after_a_fix() {
    let turns = Turns::new([("START.md", "one"), ("NEXT.md", "two")])
        .replies("START.md", [says("<goto>NEXT</goto>")])
        .replies("NEXT.md", [fails("authentication", "not logged in"), says(DONE)]);
    turns.raymond(START).failed(1, "failed: not logged in");
    assert_eq!(turns.calls(), ["START.md fresh S1", "NEXT.md resume S1"]);
    turns.expect_cost(0.375);
    turns.raymond(RUN).completed("done");
    let expected = ["START.md fresh S1", "NEXT.md resume S1", "NEXT.md resume S1 recovers=1"];
    assert_eq!(turns.calls(), expected);
    turns.expect_cost(0.625);
}

#[test]
fn prompt_that_was_fixed_after_a_failure_is_sent_again() {
    let turns = Turns::new([("START.md", "one")])
        .replies("START.md", [fails("authentication", "not logged in"), says(DONE)]);
    turns.raymond(START).failed(1, "not logged in");
    turns.project.write("flow/START.md", "mended");
    turns.raymond(RUN).completed("done");
    assert_eq!(turns.calls(), ["START.md fresh S1", "START.md fresh S2"]);
    assert_eq!(turns.prompt("START.md", 2), "mended");
}

#[test]
fn missing_session_fails_the_agent_which_continues_in_a_fresh_one() {
    let turns = Turns::new([("START.md", "one"), ("NEXT.md", "two")])
        .replies("START.md", [says("<goto>NEXT</goto>")])
        .replies("NEXT.md", [fails("session_missing", "no such session"), says(DONE)]);
    turns.raymond(START).failed(1, "failed: no such session");
    turns.raymond(RUN).completed("done");
    assert_eq!(turns.calls(), ["START.md fresh S1", "NEXT.md resume S1", "NEXT.md fresh S2"]);
    assert_eq!(turns.prompt("NEXT.md", 2), "two");
}

#[test]
fn usage_limit_pauses_a_run_that_does_not_wait_and_it_can_be_resumed() {
    let turns = Turns::new([("START.md", "one")])
        .replies("START.md", [fails("usage_limit", "try again at 5"), says(DONE)]);
    turns.raymond(&with(START, &["--no-wait"])).failed(4, "usage limit").failed(4, "paused");
    assert_eq!(turns.calls(), ["START.md fresh S1"]);
    assert_eq!(turns.state()["status"], "paused");
    turns.project.wait_until_quiet();
    turns.raymond(RUN).completed("done");
    assert_eq!(turns.calls(), ["START.md fresh S1", "START.md fresh S1 recovers=1"]);
    turns.expect_cost(0.375);
}

#[test]
fn run_that_waits_for_a_usage_limit_can_be_interrupted() {
    let turns = Turns::new([("START.md", "one")])
        .replies("START.md", [fails("usage_limit", "try again at 5"), says(DONE)]);
    let child = turns.spawn(START);
    let journal = || turns.project.read(".raymond/workflows/r.journal");
    wait_until("all agents wait", PATIENCE, || journal().contains("\"usage_limited\""));
    kill(child.id(), libc::SIGINT);
    Ran::of(&child.wait_with_output().unwrap()).failed(130, "paused");
    assert_eq!(turns.calls(), ["START.md fresh S1"]);
}

#[test]
fn reply_that_came_without_an_orchestrator_is_used_and_its_cost_counted() {
    let turns = Turns::new([("START.md", "one"), ("NEXT.md", "two")])
        .replies("START.md", [says_after("go", "<goto>NEXT</goto>")])
        .replies("NEXT.md", [says(DONE)]);
    let mut child = turns.spawn(START);
    turns.wait_for_call("START.md", 1);
    kill(child.id(), libc::SIGKILL);
    let _ = child.wait();
    turns.project.write("go", "");
    // The coding agent exits, then its reaper, then the keeper.
    turns.project.wait_until_quiet();
    turns.raymond(RUN).completed("done");
    assert_eq!(turns.calls(), ["START.md fresh S1", "NEXT.md resume S1"]);
    turns.expect_cost(0.5);
}

#[test]
fn reply_of_an_ended_turn_is_used_without_starting_a_program() {
    let turns = Turns::new([("START.md", "one")]).replies("START.md", [says_after("go", DONE)]);
    let mut child = turns.spawn(START);
    turns.wait_for_call("START.md", 1);
    kill(child.id(), libc::SIGKILL);
    let _ = child.wait();
    turns.project.write("go", "");
    turns.project.wait_until_quiet();
    let began = Instant::now();
    turns.raymond(RUN).completed("done");
    // Only printed: `scripts/bench harvest` has the limit.
    let line = format!("harvest: {} ms\n", began.elapsed().as_millis());
    let _ = std::io::stderr().write_all(line.as_bytes());
    assert_eq!(turns.calls(), ["START.md fresh S1"]);
    turns.expect_cost(0.25);
}

#[test]
fn turn_that_still_runs_is_waited_for_by_the_next_orchestrator() {
    let turns = Turns::new([("START.md", "one"), ("NEXT.md", "two")])
        .replies("START.md", [says_after("go", "<goto>NEXT</goto>")])
        .replies("NEXT.md", [says(DONE)]);
    let mut child = turns.spawn(START);
    turns.wait_for_call("START.md", 1);
    kill(child.id(), libc::SIGKILL);
    let _ = child.wait();
    let second = turns.spawn(RUN);
    let journal = || turns.project.read(".raymond/workflows/r.journal");
    wait_until("the run was taken over", PATIENCE, || journal().contains("\"resumed\""));
    turns.project.write("go", "");
    Ran::of(&second.wait_with_output().unwrap()).completed("done");
    assert_eq!(turns.calls(), ["START.md fresh S1", "NEXT.md resume S1"]);
    turns.expect_cost(0.5);
    turns.project.wait_until_quiet();
}

#[test]
fn reply_is_used_even_if_journal_and_state_file_lost_everything_after_the_start() {
    let turns = Turns::new([("START.md", "one"), ("NEXT.md", "two")])
        .replies("START.md", [says("<goto>NEXT</goto>")])
        .replies("NEXT.md", [says(DONE)]);
    turns.raymond(START).completed("done");
    let calls = turns.project.read("calls.log");
    let journal = turns.project.read(".raymond/workflows/r.journal");
    let first = journal.split_inclusive('\n').next().unwrap();
    turns.project.write(".raymond/workflows/r.journal", first);
    fs::remove_file(turns.project.file(".raymond/workflows/r.json")).unwrap();
    turns.raymond(RUN).completed("done");
    assert_eq!(turns.project.read("calls.log"), calls, "nobody was called again");
    turns.expect_cost(0.5);
    // The sessions are those that were really used.
    let session = calls.split(' ').nth(2).unwrap();
    let journal = turns.project.read(".raymond/workflows/r.journal");
    assert!(journal.contains(session), "{session} is not in {journal}");
}

#[test]
fn turn_whose_outcome_is_lost_is_started_again_in_the_same_session() {
    let turns = Turns::new([("START.md", "the prompt"), ("NEXT.md", "two")])
        .replies("START.md", [says_after("never", "x"), says("<goto>NEXT</goto>")])
        .replies("NEXT.md", [says(DONE)]);
    let child = turns.spawn(START);
    turns.wait_for_call("START.md", 1);
    kill(turns.reaper("main.1"), libc::SIGKILL);
    let ran = Ran::of(&child.wait_with_output().unwrap()).completed("done");
    assert!(ran.stderr.contains("its outcome was lost"), "{}", ran.stderr);
    let expected = ["START.md fresh S1", "START.md fresh S1 recovers=1", "NEXT.md resume S1"];
    assert_eq!(turns.calls(), expected);
    assert_eq!(turns.prompt("START.md", 1), "the prompt");
    let prompt = turns.prompt("START.md", 2);
    assert!(prompt.starts_with("Your last turn was interrupted before it ended."), "{prompt}");
    turns.project.wait_until_quiet();
}

#[test]
fn turn_that_is_lost_with_everything_is_started_again_in_the_same_session() {
    let turns = Turns::new([("START.md", "the prompt")])
        .replies("START.md", [says_after("never", "x"), says(DONE)]);
    let mut child = turns.spawn(START);
    turns.wait_for_call("START.md", 1);
    // No process is left to clean up: the orchestrator is killed first, the keeper next.
    kill(child.id(), libc::SIGKILL);
    let _ = child.wait();
    kill(turns.reaper("main.1"), libc::SIGKILL);
    turns.project.wait_until_quiet();
    turns.raymond(RUN).completed("done");
    assert_eq!(turns.calls(), ["START.md fresh S1", "START.md fresh S1 recovers=1"]);
    turns.expect_cost(0.25);
}

/// Starts run `r`, and kills the reaper of its first turn between the agent's last words and the
/// exit record.
fn start_and_lose_the_reaper(turns: &Turns) -> Child {
    let child = turns.spawn(START);
    turns.wait_for_call("START.md", 1);
    let reaper = turns.reaper("main.1");
    kill(reaper, libc::SIGSTOP);
    turns.project.write("go", "");
    let stdout = || turns.project.read(".raymond/workflows/r/steps/main.1/stdout");
    wait_until("the agent has answered", PATIENCE, || stdout().contains("cost_usd"));
    kill(reaper, libc::SIGKILL);
    child
}

#[test]
fn complete_answer_of_a_turn_whose_reaper_was_killed_is_followed_and_paid_once() {
    let turns = Turns::new([("START.md", "one"), ("NEXT.md", "two")])
        .replies("START.md", [says_after("go", "<goto>NEXT</goto>"), says("twice")])
        .replies("NEXT.md", [says(DONE)]);
    let child = start_and_lose_the_reaper(&turns);
    Ran::of(&child.wait_with_output().unwrap()).completed("done");
    assert_eq!(turns.calls(), ["START.md fresh S1", "NEXT.md resume S1"]);
    turns.expect_cost(0.5);
    turns.project.wait_until_quiet();
}

#[test]
fn cost_of_a_turn_that_is_lost_is_counted_as_far_as_its_output_tells() {
    let failure = format!("@go {}", fails("transient", "overloaded"));
    let turns = Turns::new([("START.md", "one")]).replies("START.md", [failure, says(DONE)]);
    let child = start_and_lose_the_reaper(&turns);
    let ran = Ran::of(&child.wait_with_output().unwrap()).completed("done");
    assert!(ran.stderr.contains("its outcome was lost"), "{}", ran.stderr);
    turns.expect_cost(0.375);
    turns.project.wait_until_quiet();
}

#[test]
fn turn_whose_output_was_cut_short_is_lost_but_its_cost_is_counted() {
    let turns = Turns::new([("START.md", "one")])
        .replies("START.md", [says_after("go", "<result>cut</result>"), says(DONE)]);
    let mut child = turns.spawn(START);
    turns.wait_for_call("START.md", 1);
    kill(child.id(), libc::SIGKILL);
    let _ = child.wait();
    turns.project.write("go", "");
    turns.project.wait_until_quiet();
    let stdout = turns.project.file(".raymond/workflows/r/steps/main.1/stdout");
    let file = fs::File::options().write(true).open(stdout).unwrap();
    file.set_len(file.metadata().unwrap().len() - 1).unwrap();
    turns.raymond(RUN).completed("done");
    turns.expect_cost(0.5);
}

#[test]
fn turn_that_is_lost_three_times_fails() {
    let never = || says_after("never", "x");
    let turns = Turns::new([("START.md", "x")]).replies("START.md", [never(), never(), never()]);
    let child = turns.spawn(START);
    for number in 1..=3 {
        turns.wait_for_call("START.md", number);
        kill(turns.reaper(&format!("main.{number}")), libc::SIGKILL);
    }
    let ran = Ran::of(&child.wait_with_output().unwrap());
    ran.failed(1, "failed: its outcome was lost 3 times");
    let again = "START.md fresh S1 recovers=1";
    assert_eq!(turns.calls(), ["START.md fresh S1", again, again]);
    turns.project.wait_until_quiet();
}

#[test]
fn second_interrupt_ends_a_turn_and_its_session_goes_on() {
    let turns =
        Turns::new([("START.md", "x")]).replies("START.md", [says_after("never", "x"), says(DONE)]);
    let child = turns.spawn(START);
    turns.wait_for_call("START.md", 1);
    kill(child.id(), libc::SIGINT);
    kill(child.id(), libc::SIGTERM);
    Ran::of(&child.wait_with_output().unwrap()).failed(130, "paused");
    turns.project.wait_until_quiet();
    turns.raymond(RUN).completed("done");
    assert_eq!(turns.calls(), ["START.md fresh S1", "START.md fresh S1 recovers=1"]);
}

#[test]
fn missing_coding_agent_is_named_and_the_run_resumes_once_it_is_installed() {
    let turns = Turns::new([("START.md", "x")]).replies("START.md", [says(DONE)]);
    let mut command = turns.project.command(START);
    command.agent("/nowhere/agent --flag");
    let ran = Ran::of(&command.output().unwrap());
    let ran = ran.failed(1, "/nowhere/agent").failed(1, "is not installed");
    assert!(!ran.stderr.contains("starts again"), "{}", ran.stderr);
    turns.raymond(RUN).completed("done");
    turns.project.wait_until_quiet();
}

#[test]
fn agent_is_found_on_the_search_path() {
    let turns = Turns::new([("START.md", "x")]).replies("START.md", [says(DONE)]);
    let mut command = turns.project.command(START);
    let agent = format!("bash {}", turns.project.file("agent.sh").display());
    command.agent(agent);
    Ran::of(&command.output().unwrap()).completed("done");
}

#[test]
fn run_without_a_configured_coding_agent_fails() {
    let turns = Turns::new([("START.md", "x")]).replies("START.md", [says(DONE)]);
    let ran = turns.project.raymond(START).failed(1, "failed: ");
    assert!(!ran.stderr.contains("panicked"), "{}", ran.stderr);
    turns.project.wait_until_quiet();
    turns.raymond(&["run", "r", "--agent", "program"]).completed("done");
}

#[test]
fn claude_that_is_not_installed_comes_with_advice() {
    let project = Project::new([("START.md", "x")]);
    let mut command = project.command(START);
    command.env("RAYMOND_CLAUDE", "no-such-claude");
    Ran::of(&command.output().unwrap())
        .failed(1, "failed: `no-such-claude` is not installed; install it (Claude Code: npm");
}

#[test]
fn unknown_coding_agent_is_reported_with_the_known_ones() {
    let project = Project::new([("START.md", "---\nagent: gpt\n---\nx")]);
    project.raymond(START).failed(1, "there is no coding agent `gpt`; known: claude");
}

#[test]
fn max_parallel_limits_turns_but_not_scripts() {
    let fork = |next: &str| format!("echo '<fork next=\"{next}\">WORKER</fork>'");
    // Main goes on while both places are taken, and only then lets the workers end.
    let last = "for i in $(seq 1000); do \
                if [ $(ls calls/*/noted | wc -l) -ge 2 ]; then \
                echo x >> scripts; echo '<goto>OPEN</goto>'; exit; fi; sleep 0.01; done; exit 1";
    let turns = Turns::new([
        ("START.sh", &*fork("F2")),
        ("F2.sh", &fork("F3")),
        ("F3.sh", &fork("F4")),
        ("F4.sh", &fork("F5")),
        ("F5.sh", &fork("LAST")),
        ("LAST.sh", last),
        ("OPEN.sh", "echo x >> scripts; touch go; echo '<result>main</result>'"),
        ("WORKER.md", "x"),
    ])
    .replies("WORKER.md", [(); 5].map(|()| says_after("go", "<result>w</result>")));
    turns.raymond(&with(START, &["--max-parallel", "2"])).completed("main");
    assert_eq!(turns.calls().len(), 5);
    assert_eq!(turns.project.lines("scripts"), ["x", "x"]);
    let counts = turns.project.lines("parallel.log");
    let most = counts.iter().map(|line| line.trim().parse::<u32>().unwrap()).max();
    assert_eq!(most, Some(2), "{counts:?}");
    turns.expect_cost(1.25);
}

const JUDGED: &str = "---\nallowed_transitions:\n  - { tag: goto, target: NEXT.md }\n  - { tag: goto, target: FIX.md }\nevaluators:\n  - prompt: JUDGE.md\n    model: haiku\n---\nThe task.";
const JUDGE: &str = "{{agent_id}} wants {{transition}} because: {{output}}";

fn judged(judgements: impl IntoIterator<Item = String>) -> Turns {
    Turns::new([("START.md", JUDGED), ("JUDGE.md", JUDGE), ("NEXT.md", "next"), ("FIX.md", "fix")])
        .replies("START.md", [says("fine, <goto>NEXT</goto>")])
        .replies("NEXT.md", [says("<result>next</result>")])
        .replies("FIX.md", [says("<result>fixed</result>")])
        .replies("JUDGE.md", judgements)
}

#[test]
fn evaluator_that_accepts_is_asked_in_a_fresh_session_and_the_state_keeps_its_own() {
    let turns = judged([says("yes: <result> accept </result>")]);
    turns.raymond(START).completed("next");
    let expected =
        [("START.md fresh S1", "-"), ("JUDGE.md fresh S2", "haiku"), ("NEXT.md resume S1", "-")];
    assert_eq!(
        turns.calls_with_models(),
        expected.map(|(call, model)| (call.to_owned(), model.to_owned()))
    );
    let prompt = "main wants <goto>NEXT.md</goto> because: fine, <goto>NEXT</goto>";
    assert_eq!(turns.prompt("JUDGE.md", 1), prompt);
    assert_eq!(turns.state()["iteration_count"], 2);
    turns.expect_cost(0.75);
}

#[test]
fn evaluator_may_replace_the_transition_by_another_allowed_one() {
    let turns = judged([says("<goto>FIX</goto>")]);
    let ran = turns.raymond(START).completed("fixed");
    let told = "asked for <goto>NEXT.md</goto>, instead: <goto>FIX.md</goto>";
    assert!(ran.stderr.contains(told), "{}", ran.stderr);
    assert_eq!(turns.calls(), ["START.md fresh S1", "JUDGE.md fresh S2", "FIX.md resume S1"]);
}

#[test]
fn evaluator_is_reminded_in_its_own_session() {
    let turns =
        judged([says("hm"), says("<result>maybe</result>"), says("<result>accept</result>")]);
    turns.raymond(START).completed("next");
    let expected = [
        "START.md fresh S1",
        "JUDGE.md fresh S2",
        "JUDGE.md resume S2",
        "JUDGE.md resume S2",
        "NEXT.md resume S1",
    ];
    assert_eq!(turns.calls(), expected);
    let reminder = "Your last message was not a judgement: no transition tag was found.\n\n\
                    Reply with exactly one of these tags:\n\n\
                    - <result>accept</result> (follow the transition as it is)\n\
                    - <goto>NEXT.md</goto>\n\
                    - <goto>FIX.md</goto>\n\n\
                    Write the tag itself, complete and only once, in your reply.";
    assert_eq!(turns.prompt("JUDGE.md", 2), reminder);
}

#[test]
fn evaluator_without_a_verdict_fails_the_agent_and_only_the_evaluator_is_asked_again() {
    let hm = || says("hm");
    let turns = judged([hm(), hm(), hm(), hm(), says("<result>accept</result>")]);
    turns.raymond(START).failed(1, "evaluator `JUDGE.md`").failed(1, "(after 3 reminders)");
    assert_eq!(turns.calls().len(), 5);
    turns.raymond(RUN).completed("next");
    assert_eq!(turns.calls()[5..], ["JUDGE.md fresh S3", "NEXT.md resume S1"]);
    turns.expect_cost(1.75);
}

#[test]
fn evaluator_by_pattern_replaces_a_transition_without_a_turn() {
    let state =
        "---\nevaluators:\n  - match: '(?i)cannot'\n    then: { tag: goto, target: FIX.md }\n---\n";
    let turns = Turns::new([("START.md", state), ("FIX.md", "fix"), ("NEXT.md", "next")])
        .replies("START.md", [says("I Cannot. <goto>NEXT</goto>")])
        .replies("FIX.md", [says("<result>fixed</result>")]);
    turns.raymond(START).completed("fixed");
    assert_eq!(turns.calls(), ["START.md fresh S1", "FIX.md resume S1"]);
}

#[test]
fn evaluator_turn_that_is_lost_is_repeated_without_the_state() {
    let turns = judged([says_after("never", "x"), says("<result>accept</result>")]);
    let mut child = turns.spawn(START);
    turns.wait_for_call("JUDGE.md", 1);
    kill(child.id(), libc::SIGKILL);
    let _ = child.wait();
    kill(turns.reaper("main.2"), libc::SIGKILL);
    turns.project.wait_until_quiet();
    turns.raymond(RUN).completed("next");
    let expected = [
        "START.md fresh S1",
        "JUDGE.md fresh S2",
        "JUDGE.md fresh S2 recovers=1",
        "NEXT.md resume S1",
    ];
    assert_eq!(turns.calls(), expected);
}
