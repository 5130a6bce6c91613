//! A workflow that needs an input is not started without one.

use std::fs::File;

use crate::env::{Project, Ran, WithAgent as _};

/// A coding agent that answers with the prompt that it got.
const ECHO: &str = "prompt=$(cat); echo \"{\\\"result\\\": \\\"<result>$prompt</result>\\\"}\"";

fn project(prompt: &str) -> Project {
    let project = Project::new([("START.md", prompt)]);
    project.write("agent.sh", ECHO);
    project
}

fn run(project: &Project, arguments: &[&str]) -> Ran {
    let mut command = project.command(arguments);
    Ran::of(&command.agent("bash agent.sh").output().unwrap())
}

#[test]
fn workflow_that_needs_an_input_is_refused_without_one_and_creates_no_files() {
    let project = project("Do: {{ input }}.");
    for more in [&[][..], &["--detach"]] {
        run(&project, &[&["flow", "--id", "r"], more].concat())
            .failed(2, "START.md uses {{input}}, and no input was given: nothing was started")
            .failed(2, "raymond flow --input 'TEXT'")
            .failed(2, "`input: optional` in its frontmatter");
        assert!(!project.file(".raymond/workflows").exists());
    }
}

#[test]
fn input_may_be_given_as_an_option_or_a_variable_and_may_be_empty() {
    let project = project("Do: {{ input }}.");
    run(&project, &["flow", "--input", "x"]).completed("Do: x.");
    run(&project, &["flow", "--input", ""]).completed("Do: .");
    run(&project, &["flow", "--var", "input=x"]).completed("Do: x.");
}

#[test]
fn input_that_is_optional_is_empty_if_it_is_not_given() {
    let project = project("---\ninput: optional\n---\nDo: {{input}}.");
    run(&project, &["flow"]).completed("Do: .");
    run(&project, &["flow", "--input", "x"]).completed("Do: x.");
}

#[test]
fn input_is_not_needed_by_scripts() {
    let script = Project::new([("START.sh", "echo \"<result>${RAYMOND_INPUT-none}</result>\"")]);
    script.raymond(&["flow"]).completed("none");
}

#[test]
fn case_of_a_test_without_the_input_fails_and_says_why() {
    let project = project("Do: {{input}}");
    std::fs::create_dir(project.file("flow/tests")).unwrap();
    project.write("flow/tests/one.yaml", "replies:\n  START: ['<result>x</result>']\n");
    let ran = project.raymond(&["test", "flow"]);
    let said = format!("{}{}", ran.stdout, ran.stderr);
    assert_eq!(ran.code, 1, "{said}");
    assert!(said.contains("uses {{input}}, but the run was started without an input"), "{said}");
}

#[test]
fn script_that_reads_only_the_variable_of_a_long_input_is_warned_of() {
    let script = "printf '<result>%s</result>' \"${#RAYMOND_INPUT}\"";
    let project = Project::new([("START.sh", script)]);
    project.write("long", &"x".repeat(200 * 1024));
    let start = || {
        let long = File::open(project.file("long")).unwrap();
        let mut command = project.command(&["flow", "--input", "-"]);
        Ran::of(&command.stdin(long).output().unwrap()).completed("0")
    };
    let ran = start();
    let warning = "START.sh: $RAYMOND_INPUT is not set, because its 204800 bytes do not fit into a variable: \
                   read the file $RAYMOND_INPUT_FILE";
    assert!(ran.stderr.contains(warning), "{}", ran.stderr);
    let lint = project.raymond(&["lint", "flow", "--level", "note"]);
    assert!(lint.stdout.contains("value-in-file"), "{lint:?}");
    let both = format!("{script} # \"$RAYMOND_INPUT_FILE\"");
    project.write("flow/START.sh", &both);
    let ran = start();
    assert!(!ran.stderr.contains("warning"), "{}", ran.stderr);
}

#[test]
fn script_that_reads_only_the_variable_of_an_input_with_a_nul_byte_is_warned_of_that() {
    let project = Project::new([("START.sh", "echo \"<result>${#RAYMOND_INPUT}</result>\"")]);
    project.write("short", "a\0b");
    let mut command = project.command(&["flow", "--input", "-"]);
    let short = File::open(project.file("short")).unwrap();
    let ran = Ran::of(&command.stdin(short).output().unwrap()).completed("0");
    let warning = "START.sh: $RAYMOND_INPUT is not set, because no variable can hold the NUL byte in it: \
                   read the file $RAYMOND_INPUT_FILE";
    assert!(ran.stderr.contains(warning), "{}", ran.stderr);
}
