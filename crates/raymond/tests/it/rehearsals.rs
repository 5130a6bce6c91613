//! `raymond test`: workflows tried without a model.

use std::fs;

use crate::env::{Project, Ran, WithAgent as _};

const STATES: [(&str, &str); 3] = [
    (
        "START.md",
        "---\nallowed_transitions:\n  - { tag: goto, target: NEXT }\n  - { tag: result }\n---\n\
         Task: {{input}}, {{colour}}",
    ),
    ("NEXT.md", "go on"),
    ("SCRIPT.sh", "echo '<result>scripted</result>'"),
];

/// A project with these states and this case.
fn project(case: &str) -> Project {
    let project = Project::new(STATES);
    fs::create_dir(project.file("flow/tests")).unwrap();
    project.write("flow/tests/main.yaml", case);
    project
}

const GOOD: &str = "\
input: paint
vars: { colour: green }
replies:
  START: [\"no tag\", \"<goto>NEXT</goto>\"]
  NEXT:
    - { fail: transient, message: overloaded }
    - { text: '<goto>SCRIPT</goto>', cost: 0.5, delay: 20ms }
expect:
  result: scripted
  path: [START, NEXT.md, SCRIPT]
  forked: []
  reminders: 1
  cost: 0.5
  prompts: { START: 'Task: paint, green' }
";

#[test]
fn matching_case_passes() {
    let ran = project(GOOD).raymond(&["test", "flow"]);
    assert_eq!(ran.code, 0, "{}{}", ran.stdout, ran.stderr);
    assert!(ran.stdout.starts_with("ok     main"), "{}", ran.stdout);
    assert!(ran.stdout.ends_with("1 case, 0 failed\n"), "{}", ran.stdout);
}

#[test]
fn failing_case_reports_every_difference() {
    let wrong = GOOD
        .replace("result: scripted", "result: painted")
        .replace("[START, NEXT.md, SCRIPT]", "[START, SCRIPT]")
        .replace("reminders: 1", "reminders: 0")
        .replace("cost: 0.5\n", "cost: 2\n")
        .replace("'Task: paint, green'", "'Task: paint, red'");
    let ran = project(&wrong).raymond(&["test", "flow"]);
    assert_eq!(ran.code, 1);
    for part in [
        "FAILED main",
        "      - painted\n      + scripted",
        "path of main:",
        "      + NEXT.md",
        "reminders: expected 0, got 1",
        "cost: expected $2, got $0.5",
        "prompt 1 of START does not contain \"Task: paint, red\":\n      | Task: paint, green",
    ] {
        assert!(ran.stdout.contains(part), "{part:?} is not in:\n{}", ran.stdout);
    }
}

#[test]
fn missing_and_unused_replies_are_reported() {
    let short = GOOD.replace("[\"no tag\", \"<goto>NEXT</goto>\"]", "[\"no tag\"]");
    let ran = project(&short).raymond(&["test", "flow"]);
    for part in [
        "the script has only 1 reply for START.md",
        "rejected: [main] no transition tag was found",
        "    START.md\n      - NEXT.md\n      - SCRIPT\n",
    ] {
        assert!(ran.stdout.contains(part), "{part} is not in {}", ran.stdout);
    }
    let long = GOOD.replace("\"<goto>NEXT</goto>\"]", "\"<goto>NEXT</goto>\", \"more\"]");
    let ran = project(&long).raymond(&["test", "flow"]);
    assert!(ran.stdout.contains("replies: 1 of START were never used"), "{}", ran.stdout);
}

#[test]
fn wrong_case_names_file_and_line() {
    let project = project("input: x\nexpectt:\n  result: y\n");
    let ran = project.raymond(&["test", "flow"]);
    assert_eq!(ran.code, 1);
    let why = "flow/tests/main.yaml line 2: unknown key `expectt`; known: ";
    assert!(ran.stdout.contains(why), "{}", ran.stdout);
    project.write("flow/tests/main.yaml", "input: x\nexpect:\n  forked: 2\n");
    let ran = project.raymond(&["test", "flow"]);
    let why = "flow/tests/main.yaml line 3: `expect.forked`: expected a list: [one, two]";
    assert!(ran.stdout.contains(why), "{}", ran.stdout);
    let none = Project::new(STATES);
    none.raymond(&["test", "flow"]).failed(2, "there are no tests in flow/tests");
}

#[test]
fn snapshot_is_written_by_update_and_compared_afterwards() {
    let project = project(&format!("{GOOD}  snapshot: true\n"));
    let ran = project.raymond(&["test", "flow"]);
    assert!(ran.stdout.contains("snapshot: there is none yet; `--update` writes it"));
    assert_eq!(project.raymond(&["test", "flow", "--update"]).code, 0);
    assert!(project.read("flow/tests/main.snapshot").starts_with("=== main START.md\nTask: paint"));
    assert_eq!(project.raymond(&["test", "flow"]).code, 0);
    project.write("flow/NEXT.md", "go further");
    let ran = project.raymond(&["test", "flow"]);
    assert_eq!(ran.code, 1);
    assert!(ran.stdout.contains("      - go on\n      + go further"), "{}", ran.stdout);
}

#[test]
fn results_can_be_read_by_a_ci_server() {
    let project = project(GOOD);
    project.write("flow/tests/other.yaml", &GOOD.replace("result: scripted", "result: x"));
    assert_eq!(project.raymond(&["test", "flow", "--junit", "out.xml"]).code, 1);
    let xml = project.read("out.xml");
    assert!(xml.contains("tests=\"2\" failures=\"1\"") && xml.contains("name=\"other\""), "{xml}");
    assert_eq!(project.raymond(&["test", "flow", "main"]).code, 0);
}

#[test]
fn finished_run_becomes_a_case_that_passes() {
    let project = Project::new(STATES);
    let agent = "read -r prompt; case $RAYMOND_STATE in \
                 START.md) echo '{\"result\":\"<goto>NEXT</goto>\",\"cost_usd\":0.25}';; \
                 *) echo '{\"result\":\"<goto>SCRIPT</goto>\",\"cost_usd\":0.5}';; esac";
    project.write("agent.sh", agent);
    let mut command = project.command(&[
        "start",
        "flow",
        "--no-lint",
        "--id",
        "r",
        "--input",
        "say \"hi\"",
        "--var",
        "colour=blue",
    ]);
    command.agent("bash agent.sh");
    Ran::of(&command.output().unwrap()).completed("scripted");
    let mut command = project.command(&["test", "flow", "--record", "r"]);
    command.agent("bash agent.sh");
    assert_eq!(Ran::of(&command.output().unwrap()).stdout, "flow/tests/r.yaml\n");
    let case = project.read("flow/tests/r.yaml");
    assert!(
        case.contains("cost: 0.75") && case.contains("main: [START.md, NEXT.md, SCRIPT.sh]"),
        "{case}"
    );
    let ran = project.raymond(&["test", "flow"]);
    assert_eq!(ran.code, 0, "{}{case}", ran.stdout);
}

#[test]
fn expected_failure_does_not_hide_a_missing_reply() {
    let case = "input: x\nreplies: { STRAT: x }\nexpect: { status: failed }\n";
    let ran = project(case).raymond(&["test", "flow"]);
    assert_eq!(ran.code, 1);
    assert!(ran.stdout.contains("replies: the script has no reply for START.md"), "{}", ran.stdout);
}

#[test]
fn odd_values_in_a_case_are_refused() {
    for (case, why) in [
        ("expect: { result: a }\nexpect: { result: b }\n", "line 2: `expect` occurs twice"),
        ("expect: { cost: nan }\n", "`nan` is not an amount of dollars"),
        ("budget: -5\n", "`-5` is not an amount of dollars"),
        ("replies: { START: { text: x, delay: 99999999999999999s } }\n", "is not a delay"),
    ] {
        let ran = project(case).raymond(&["test", "flow"]);
        assert_eq!(ran.code, 1, "{case}");
        assert!(ran.stdout.contains(why), "{case}: {}", ran.stdout);
        assert!(!ran.stderr.contains("panicked"), "{}", ran.stderr);
    }
}

#[test]
fn case_that_cannot_run_does_not_prevent_the_others() {
    let project = project(GOOD);
    project.write("flow/tests/a.yaml", "setup: exit 3\n");
    let ran = project.raymond(&["test", "flow", "--junit", "out.xml"]);
    assert_eq!(ran.code, 1);
    assert!(
        ran.stdout.contains("FAILED a") && ran.stdout.contains("ok     main"),
        "{}",
        ran.stdout
    );
    assert!(project.read("out.xml").contains("tests=\"2\" failures=\"1\""));
}

#[test]
fn state_that_names_its_agent_is_rehearsed_like_any_other() {
    let project = project("replies: { START: <result>x</result> }\nexpect: { result: x }\n");
    project.write("flow/START.md", "---\nagent: claude\n---\nx");
    assert_eq!(project.raymond(&["test", "flow"]).code, 0);
}

#[test]
fn recorded_replies_are_in_the_order_of_their_prompts() {
    let project = Project::new([
        ("START.sh", "echo '<fork next=\"SECOND\" item=\"slow\">W</fork>'"),
        ("SECOND.sh", "echo '<fork next=\"END\" item=\"quick\">W</fork>'"),
        ("END.sh", "echo '<result>x</result>'"),
        ("W.md", "{{item}}"),
        ("SLOW.sh", "echo '<result>s</result>'"),
        ("QUICK.sh", "touch quick; echo '<result>q</result>'"),
    ]);
    project.write(
        "agent.sh",
        "read -r item || true; if [ \"$item\" = slow ]; then \
         for _ in {1..3000}; do [ -e quick ] && break; sleep 0.01; done; \
         echo '{\"result\":\"<goto>SLOW</goto>\"}'; else echo '{\"result\":\"<goto>QUICK</goto>\"}'; fi",
    );
    let run = |arguments: &[&str]| {
        let mut command = project.command(arguments);
        command.agent("bash agent.sh");
        Ran::of(&command.output().unwrap())
    };
    run(&["start", "flow", "--id", "r", "--no-lint"]).completed("x");
    assert_eq!(run(&["test", "flow", "--record", "r"]).code, 0);
    let ran = project.raymond(&["test", "flow"]);
    assert_eq!(ran.code, 0, "{}{}", ran.stdout, project.read("flow/tests/r.yaml"));
}

const ROUND: [(&str, &str); 2] = [
    ("START.md", "---\nallowed_transitions: [{ tag: goto, target: AGAIN }]\n---\nx"),
    ("AGAIN.md", "---\nallowed_transitions: [{ tag: goto, target: START }]\n---\nx"),
];

/// What the one case of a workflow comes to.
fn rehearsed(states: &[(&str, &str)], case: &str) -> Ran {
    let project = Project::new(states.iter().copied());
    fs::create_dir(project.file("flow/tests")).unwrap();
    project.write("flow/tests/main.yaml", case);
    project.raymond(&["test", "flow"])
}

#[test]
fn looping_case_is_stopped_and_shows_its_loop() {
    let forever =
        "replies:\n  START: { text: on, repeat: true }\n  AGAIN: { text: on, repeat: true }\n";
    let ran = rehearsed(&ROUND, forever);
    assert_eq!(ran.code, 1, "{ran:?}");
    let why = "the case did not end within 10000 states (`max_iterations`)\n      \
               main looped 5000 times: AGAIN.md -> START.md -> AGAIN.md";
    assert!(ran.stdout.contains(why), "{}", ran.stdout);
    // With a limit of its own it is the workflow that is stopped, and that can be expected.
    let limited = format!("{forever}max_iterations: 7\nexpect: {{ status: stopped }}\n");
    assert_eq!(rehearsed(&ROUND, &limited).code, 0);
}

#[test]
fn case_without_a_state_limit_is_stopped_by_its_timeout() {
    let forever = "replies:\n  START: { text: on, repeat: true }\n  AGAIN: { text: on, repeat: true }\n\
                   max_iterations: 0\ntimeout: 1s\n";
    let ran = rehearsed(&ROUND, forever);
    assert_eq!(ran.code, 1, "{ran:?}");
    let why = "the case did not end within 1s (`timeout`)\n      main looped ";
    assert!(ran.stdout.contains(why), "{}", ran.stdout);
}

#[test]
fn hanging_case_is_killed_by_its_timeout() {
    for case in ["timeout: 1s\n", "setup: |\n  sleep 1000\ntimeout: 1s\n"] {
        let project = Project::new([("START.sh", "sleep 1000; echo '<result>x</result>'")]);
        fs::create_dir(project.file("flow/tests")).unwrap();
        project.write("flow/tests/main.yaml", case);
        let ran = project.raymond(&["test", "flow"]);
        assert_eq!(ran.code, 1, "{ran:?}");
        assert!(ran.stdout.contains("did not end within 1s (`timeout`)"), "{}", ran.stdout);
        assert!(project.processes().is_empty(), "{:?}", project.processes());
    }
}

#[cfg(target_os = "linux")]
#[test]
fn whatever_a_setup_has_started_ends_with_its_case() {
    let project = Project::new([("START.sh", "[ -e began ] && echo '<result>done</result>'")]);
    let pid = project.file("pid");
    let setup = format!(
        "setup: |\n  setsid bash -c 'trap \"\" TERM; echo $$ > {0}; touch began; exec sleep 1000' &\n  \
         until [ -e began ]; do sleep 0.01; done\n",
        pid.display()
    );
    std::fs::create_dir(project.file("flow/tests")).unwrap();
    for (case, code) in [("", 0), ("  exit 3\n", 1)] {
        project.write("flow/tests/a.yaml", &format!("{setup}{case}expect:\n  result: done\n"));
        let ran = project.raymond(&["test", "flow"]);
        assert_eq!(ran.code, code, "{ran:?}");
        let left = std::fs::read(format!("/proc/{}/cmdline", project.read("pid").trim()));
        assert!(left.unwrap_or_default().is_empty(), "it is still there");
    }
}

#[test]
fn case_sets_the_environment_of_its_scripts_and_its_setup() {
    let script = "echo \"<result>$COLOUR $(cat made) $RAYMOND_AGENT_ID</result>\"";
    let case = "env: { COLOUR: green }\nsetup: echo \"by $COLOUR\" > made\n\
                expect: { result: green by green main }\n";
    let ran = rehearsed(&[("START.sh", script)], case);
    assert_eq!(ran.code, 0, "{}", ran.stdout);
    for (case, why) in [
        ("env: { RAYMOND_STEP: x }\n", "line 1: `RAYMOND_STEP` is set by Raymond itself"),
        ("env: { 'A=B': x }\n", "line 1: `A=B` cannot be an environment variable"),
    ] {
        let ran = rehearsed(&[("START.sh", script)], case);
        assert!(ran.stdout.contains(why), "{}", ran.stdout);
    }
}

#[test]
fn case_that_a_limit_stops_says_which_with_all_digits() {
    let states = [("START.md", "x"), ("NEXT.sh", "echo '<result>done</result>'")];
    let case = "budget: 0.015\nreplies: { START: { text: <goto>NEXT</goto>, cost: 0.02 } }\n";
    let ran = rehearsed(&states, case);
    let said = "got stopped\n      the budget is used up: $0.02 of $0.015 are spent";
    assert!(ran.stdout.contains(said), "{}", ran.stdout);
}

#[test]
fn reply_can_be_given_several_times() {
    let states = [
        ("START.md", "---\nallowed_transitions: [{ tag: goto, target: COUNT }]\n---\nx"),
        (
            "COUNT.sh",
            "echo x >> n; if [ $(wc -l < n) -lt 4 ]; then echo '<goto>START</goto>'; \
                      else echo '<result>done</result>'; fi",
        ),
    ];
    let case =
        |repeat: &str| format!("replies: {{ START: [one, {{ text: on, repeat: {repeat} }}] }}\n");
    assert_eq!(rehearsed(&states, &case("3")).code, 0);
    assert_eq!(rehearsed(&states, &case("true")).code, 0);
    let ran = rehearsed(&states, &case("2"));
    assert!(ran.stdout.contains("the script has only 3 replies for START.md"), "{}", ran.stdout);
    let ran = rehearsed(&states, &case("5"));
    assert!(ran.stdout.contains("replies: 2 of START were never used"), "{}", ran.stdout);
    let wrong = "replies: { START: [{ text: on, repeat: true }, last] }\n";
    let ran = rehearsed(&states, wrong);
    assert!(ran.stdout.contains("`repeat: true` must be the last one of its state"), "{ran:?}");
    assert!(
        rehearsed(&states, &case("0"))
            .stdout
            .contains("`0` is neither true nor a number from 1 up")
    );
}

#[test]
fn slowest_cases_are_named_at_the_end() {
    let project = project(GOOD);
    project.write("flow/tests/slow.yaml", &format!("{GOOD}setup: sleep 0.3\n"));
    let ran = project.raymond(&["test", "flow"]);
    let last = ran.stdout.lines().last().unwrap();
    assert!(last.starts_with("slowest: slow (") && last.contains("), main ("), "{last}");
}

#[test]
fn answer_of_a_case_hands_its_files_over() {
    let files = [
        ("START.sh", "echo '<ask choices=\"ship=SHIP\">Ship it?</ask>'"),
        (
            "SHIP.sh",
            "[ -n \"$RAYMOND_FILES\" ] && echo \"<result>$(cat \"$RAYMOND_FILES\"/*)</result>\"",
        ),
    ];
    let project = Project::new(files);
    fs::create_dir(project.file("flow/tests")).unwrap();
    let case = "setup: echo a photo > photo.txt\n\
                answers:\n  START: { answer: ship, files: [photo.txt] }\n\
                expect: { result: a photo }\n";
    project.write("flow/tests/main.yaml", case);
    let ran = project.raymond(&["test", "flow"]);
    assert_eq!(ran.code, 0, "{}{}", ran.stdout, ran.stderr);
    project.write("flow/tests/main.yaml", &case.replace("[photo.txt]", "[gone.txt]"));
    let ran = project.raymond(&["test", "flow"]);
    let told = "answers: the answer to START.sh hands over \"gone.txt\", which is not a file";
    assert!(ran.code == 1 && ran.stdout.contains(told), "{ran:?}");
}

#[test]
fn question_of_the_coding_agent_is_scripted_and_answered() {
    let project = Project::new([("START.md", "choose")]);
    fs::create_dir(project.file("flow/tests")).unwrap();
    let case = "replies:\n  START: [{ asks: Which?, options: [red, blue] }, <result>done</result>]\n\
                answers: { START: blue }\n\
                expect: { result: done, path: [START], prompts: { START: [choose, [blue]] } }\n";
    project.write("flow/tests/main.yaml", case);
    let ran = project.raymond(&["test", "flow"]);
    assert_eq!(ran.code, 0, "{}{}", ran.stdout, ran.stderr);
    project.write("flow/tests/main.yaml", &case.replace("asks: Which?, ", ""));
    let ran = project.raymond(&["test", "flow"]);
    assert!(ran.stdout.contains("`options` are those of `asks`, which is missing"), "{ran:?}");
}
