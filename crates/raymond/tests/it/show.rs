//! `raymond show`: what was asked and answered, on the real program.

use std::{
    io::{BufRead as _, BufReader},
    process::Stdio,
    time::Duration,
};

use crate::env::{Project, Ran, WithAgent as _, wait_until};

/// Two turns of a program that says something before it answers, and a script that fails once.
fn project() -> Project {
    let project = Project::new([
        ("START.md", "Paint it\ngreen."),
        (
            "CHECK.sh",
            "echo looking; if [ ! -e once ]; then touch once; echo 'not dry' >&2; exit 3; fi; echo '<goto>LAST</goto>'",
        ),
        ("LAST.md", "Say it."),
    ]);
    project.write(
        "agent.sh",
        "cat > /dev/null; case $RAYMOND_STATE in \
         START.md) echo 'I look for paint.'; \
           echo '{\"result\":\"Painted. <goto>CHECK</goto>\",\"cost_usd\":0.25}';; \
         *) touch asked; if [ -n \"$SLOW\" ]; then echo 'Let me think.'; \
           for _ in {1..3000}; do [ -e go ] && break; sleep 0.01; done; fi; \
           echo '{\"result\":\"<result>green</result>\",\"cost_usd\":0.5}';; esac",
    );
    project
}

fn raymond(project: &Project, arguments: &[&str]) -> Ran {
    let mut command = project.command(arguments);
    command.agent("bash agent.sh");
    Ran::of(&command.output().unwrap())
}

/// The output without the times.
fn shown(project: &Project, arguments: &[&str]) -> String {
    let ran = raymond(project, arguments);
    assert_eq!(ran.code, 0, "{ran:?}");
    let lines = ran.stdout.lines().map(|line| {
        let words: Vec<_> = line.split("  ").collect();
        if line.starts_with("== ") { words[..2].join("  ") } else { line.to_owned() }
    });
    lines.filter(|line| !line.starts_with("-- ")).collect::<Vec<_>>().join("\n")
}

#[test]
fn show_prints_prompts_and_answers_of_every_turn_and_failed_scripts() {
    let project = project();
    assert_eq!(raymond(&project, &["flow", "--id", "painting", "--no-lint"]).code, 1);
    raymond(&project, &["run", "painting"]).completed("green");
    let expected = "== main/1  START.md\n> Paint it\n> green.\n  I look for paint.\n  \
                    Painted. <goto>CHECK</goto>\n=> <goto>CHECK</goto>\n\n\
                    == main/2  CHECK.sh\n! exit code 3\n\n\
                    == main/4  LAST.md\n> Say it.\n  <result>green</result>\n=> <result>green</result>";
    assert_eq!(shown(&project, &["show", "painting"]), expected);
    // The latest run, and the beginning of an id.
    assert_eq!(shown(&project, &["show"]), expected);
    assert_eq!(shown(&project, &["show", "paint"]), expected);
    let cost = raymond(&project, &["show", "painting", "main.4"]).stdout;
    assert!(cost.ends_with("s, $0.50\n"), "{cost}");
}

#[test]
fn show_of_a_script_prints_its_output() {
    let project = project();
    assert_eq!(raymond(&project, &["flow", "--id", "r", "--no-lint"]).code, 1);
    let expected = "== main/2  CHECK.sh\nstdout:\n  looking\nstderr:\n  not dry\n! exit code 3";
    for step in ["main.2", "main/2", "2"] {
        assert_eq!(shown(&project, &["show", "r", step]), expected);
    }
    raymond(&project, &["show", "r", "9"]).failed(2, "run `r` has no step or agent `9`");
    raymond(&project, &["show", "x"]).failed(2, "there is no run `x`");
}

#[test]
fn show_prints_entries_that_programs_can_read() {
    let project = project();
    assert_eq!(raymond(&project, &["flow", "--id", "r", "--no-lint"]).code, 1);
    let ran = raymond(&project, &["show", "r", "1", "--json"]);
    let entries: Vec<serde_json::Value> =
        ran.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let kinds: Vec<_> = entries.iter().map(|entry| entry["entry"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["prompt", "text", "answer", "cost"]);
    assert_eq!(entries[2]["tag"], "<goto>CHECK</goto>");
    assert_eq!((&entries[3]["usd"], &entries[3]["step"]), (&0.25.into(), &"main/1".into()));
}

#[test]
fn show_follows_a_run_until_it_ends() {
    let project = project();
    project.write("once", "");
    let mut command = project.command(&["flow", "--id", "r", "--no-lint"]);
    command.agent("bash agent.sh").env("SLOW", "1");
    let run = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    wait_until("the last turn began", Duration::from_mins(1), || project.file("asked").exists());
    let mut command = project.command(&["show", "r", "--follow"]);
    command.agent("bash agent.sh").stdout(Stdio::piped());
    let mut show = command.spawn().unwrap();
    let mut lines = BufReader::new(show.stdout.take().unwrap()).lines().map(Result::unwrap);
    // The turn is under way, and what it was asked is shown.
    assert!(lines.by_ref().any(|line| line == "> Say it."), "the prompt of the running turn");
    project.write("go", "");
    let rest: Vec<_> = lines.collect();
    assert!(rest.iter().any(|line| line == "=> <result>green</result>"), "{rest:?}");
    assert!(show.wait().unwrap().success());
    Ran::of(&run.wait_with_output().unwrap()).completed("green");
}

#[test]
fn turn_that_never_started_is_told_as_such() {
    let project = Project::new([("START.md", "Do it.")]);
    let mut command = project.command(&["flow", "--id", "r", "--budget", "0", "--no-lint"]);
    let ran = Ran::of(&command.agent("./nowhere").output().unwrap());
    let _ = ran.failed(1, "`./nowhere` is not installed");
    let ran = raymond(&project, &["show", "r"]);
    let why = "there is nothing to show: no process was started, or its files were removed; \
               list the steps: raymond log r --all\n";
    assert_eq!((ran.code, ran.stderr.as_str()), (0, why));
}
