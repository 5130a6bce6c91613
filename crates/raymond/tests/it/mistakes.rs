//! Mistakes of users: each error says what is wrong, where, and what to type next. The commands that an error
//! names are run, too, where that is possible.

use std::fs;

use crate::env::{Project, Ran, WithAgent as _};

/// A workflow of two scripts.
fn simple() -> Project {
    Project::new([
        ("START.sh", "echo '<goto>END</goto>'"),
        ("END.sh", "echo '<result>the end</result>'"),
    ])
}

/// A workflow of one script.
fn script(text: &str) -> Project {
    Project::new([("START.sh", text)])
}

/// Expects an error that contains all of `parts`.
#[track_caller]
fn refused(project: &Project, arguments: &[&str], parts: &[&str]) -> Ran {
    let ran = project.raymond(arguments);
    assert_ne!(ran.code, 0, "{ran:?}");
    for part in parts {
        assert!(ran.stderr.contains(part), "{part:?} in {}", ran.stderr);
    }
    ran
}

#[test]
fn wrong_options_are_explained_with_the_usage_and_the_help_of_their_command() {
    let project = simple();
    for (arguments, parts) in [
        (
            &["flow", "--bugdet", "3"][..],
            &["'--bugdet'", "hint: a similar argument exists: '--budget'"][..],
        ),
        (
            &["flow", "--budget"],
            &["a value is required for '--budget <USD>'", "hint: raymond --help"],
        ),
        (
            &["status", "--budget", "3"],
            &["'--budget'", "usage: raymond status", "raymond status --help"],
        ),
        (
            &["stop"],
            &["<ID>", "usage: raymond stop", "raymond stop --help", "list the runs: raymond list"],
        ),
        (
            &["prune", "--status", "done"],
            &["'done'", "completed, cancelled", "raymond prune --help"],
        ),
        (&["flow", "--model=-x"], &["'--model <MODEL>': begins with a dash"]),
        (&["flow", "--effort=-x"], &["'--effort <EFFORT>': begins with a dash"]),
        (&["new", "x", "--template", "revue"], &["'revue'", "a similar value exists: 'review'"]),
    ] {
        let ran = refused(&project, arguments, parts);
        assert_eq!(ran.code, 2, "{ran:?}");
        // Neither makes sense here: `status` takes no such value, and `--help` alone is no command.
        assert!(!ran.stderr.contains("'-- --") && !ran.stderr.contains("try '--help'"), "{ran:?}");
    }
}

#[test]
fn word_like_a_workflow_and_a_command_suggests_both() {
    let project = simple();
    fs::rename(project.file("flow"), project.file("hello")).unwrap();
    refused(&project, &["helo"], &["did you mean `raymond hello` or `raymond help`?"]);
}

#[test]
fn workflow_without_a_usable_entry_names_the_files_that_are_there() {
    let project = Project::new([("FIRST.sh", "echo '<result>x</result>'")]);
    refused(
        &project,
        &["flow"],
        &["no entry state", "hint: name the first state: raymond flow/FIRST.sh\n"],
    );
    project.raymond(&["flow/FIRST.sh"]).completed("x");
    project.raymond(&["pack", "flow"]);
    let ran = refused(&project, &["flow.zip"], &["no entry state", "raymond pack DIR"]);
    assert!(!ran.stderr.contains("flow.zip/"), "no state in an archive can be named: {ran:?}");

    let both = Project::new([("START.sh", "echo '<result>x</result>'"), ("START.md", "hi")]);
    let parts = ["START.md, START.sh all match", "remove all but one", "raymond flow/START.sh"];
    refused(&both, &["flow"], &parts);
    both.raymond(&["flow/START.sh"]).completed("x");

    let empty = Project::new([]);
    let ran =
        refused(&empty, &["flow"], &["no entry state", "hint: begin a workflow: raymond new NAME"]);
    assert!(!ran.stderr.contains("name the first state"), "{ran:?}");
}

#[test]
fn workflow_with_lint_errors_is_not_started_before_somebody_insists() {
    let project = script("if false; then echo '<goto>GONE</goto>'; fi; echo '<result>x</result>'");
    for arguments in [&["flow"][..], &["start", "flow"], &["run", "flow"], &["flow", "--detach"]] {
        let parts = [
            "error[missing-target]",
            "--> flow/START.sh:1:28",
            "error: flow has an error, so it was not started\n",
            "hint: fix it, and check again: raymond lint flow\n      or start it as it is: --no-lint\n",
        ];
        let ran = refused(&project, arguments, &parts);
        assert_eq!((ran.code, ran.stdout.as_str()), (2, ""), "{arguments:?}");
    }
    let refused_kind = r#""kind":"refused""#;
    let parts = ["error[missing-target]", "flow has an error, so it was not started", refused_kind];
    refused(&project, &["start", "flow", "--json"], &parts);
    assert_eq!(project.raymond(&["list", "--json"]).stdout, "[]\n");
    project.raymond(&["flow", "--no-lint", "--id", "r"]).completed("x");
    let insisting = ["flow", "--no-lint", "--detach", "--id", "s"];
    assert_eq!(project.raymond(&insisting).stdout, "s\n");
    let parts = ["`r` is a run: --no-lint is for new ones"];
    refused(&project, &["run", "r", "--no-lint"], &parts);
    // The same workflow in a test, and in runs that were started already.
    fs::create_dir(project.file("flow/tests")).unwrap();
    project.write("flow/tests/a.yaml", "expect: { result: x }\n");
    assert_eq!(project.raymond(&["test", "flow"]).code, 0);
    assert_eq!(project.raymond(&["rewind", "r", "main.1", "--as", "t"]).code, 0);
    project.raymond(&["resume", "t"]).completed("x");
}

#[test]
fn coding_agent_that_is_not_known_is_an_error_before_the_start() {
    let project = Project::new([
        ("START.sh", "echo '<goto>ASK</goto>'"),
        ("ASK.md", "---\nagent: nobody\nallowed_transitions: [{ tag: result }]\n---\nDo it."),
    ]);
    refused(&project, &["flow"], &["error[unable-agent]", "`nobody`", "not started"]);
}

#[test]
fn warnings_of_lint_do_not_keep_a_workflow_from_being_started() {
    let project = script("echo '<result>x</result>'");
    project.write("flow/LONELY.sh", "echo '<result>y</result>'");
    let found = project.raymond(&["lint", "flow"]);
    assert!(found.stdout.contains("warning[unreachable-state]"), "{found:?}");
    let ran = project.raymond(&["flow"]).completed("x");
    assert!(!ran.stderr.contains("unreachable"), "{ran:?}");
}

#[test]
fn id_in_use_suggests_what_the_status_of_its_run_allows() {
    let project = simple();
    project.raymond(&["flow", "--id", "one"]).completed("the end");
    let ran = refused(
        &project,
        &["flow", "--id", "one"],
        &["there is a run `one`", "raymond status one"],
    );
    assert!(!ran.stderr.contains("resume"), "a completed run has nothing to resume: {ran:?}");
    project.write("flow/END.sh", "exit 1");
    project.raymond(&["flow", "--id", "two"]);
    refused(&project, &["flow", "--id", "two"], &["there is a run `two`", "raymond resume two"]);
}

#[test]
fn cancelled_run_names_the_command_that_starts_its_workflow_again() {
    let project = script("exit 1");
    project.write("flow/OTHER.sh", "exit 1");
    project.raymond(&["flow", "--id", "one"]);
    project.raymond(&["flow/OTHER.sh", "--id", "two"]);
    for (id, command) in [("one", "raymond start flow\n"), ("two", "raymond start flow/OTHER.sh\n")]
    {
        project.raymond(&["cancel", id, "--yes"]);
        refused(&project, &["resume", id], &["is cancelled", command]);
    }
}

#[test]
fn run_of_another_project_is_found_there() {
    let project = simple();
    project.raymond(&["flow", "--id", "one"]).completed("the end");
    fs::create_dir_all(project.file("other/.raymond")).unwrap();
    let mut command = project.command(&["status", "one"]);
    let ran = Ran::of(&command.current_dir(project.file("other")).output().unwrap());
    let other = format!("{}/other/.raymond", project.path().display());
    let there = format!("--data-dir {}/.raymond", project.path().display());
    let ran = ran.failed(2, &format!("there is no run `one` in {other}")).failed(2, &there);
    assert!(ran.stderr.contains("it is a run of another project"), "{ran:?}");
}

#[test]
fn limits_of_an_ended_run_cannot_be_changed() {
    let project = simple();
    project.raymond(&["flow", "--id", "one"]).completed("the end");
    refused(&project, &["limit", "one", "--budget", "5"], &["is completed", "raymond status one"]);
}

#[test]
fn transcript_of_scripts_says_how_to_see_their_output() {
    let project = simple();
    project.raymond(&["flow", "--id", "one"]).completed("the end");
    let ran = project.raymond(&["show", "one"]);
    let note = "run one has no turns to show, and no script failed; show the output of one: raymond show one main.1\n";
    assert_eq!((ran.code, ran.stderr.as_str()), (0, note));
    let ran = project.raymond(&["show", "one", "main.1"]);
    assert!(ran.stdout.contains("<goto>END</goto>"), "{ran:?}");
}

#[test]
fn missing_tag_names_the_tag_to_write() {
    let ran = script("echo done").raymond(&["flow", "--no-lint"]);
    ran.failed(1, "no transition tag was found").failed(1, "echo '<result>done</result>'");
    let project = Project::new([("START.md", "Do it.")]);
    project
        .write("agent.sh", "cat > /dev/null; echo '{\"result\": \"I did it.\", \"cost_usd\": 0}'");
    let mut command = project.command(&["flow", "--id", "r", "--no-lint"]);
    let ran = Ran::of(&command.agent("bash agent.sh").output().unwrap());
    let ran =
        ran.failed(1, "`allowed_transitions`").failed(1, "See its answer: raymond show r main\n");
    assert!(!ran.stderr.contains("echo '<result>"), "{ran:?}");
    let mut command = project.command(&["show", "r", "main"]);
    let shown = command.agent("bash agent.sh").output().unwrap();
    assert!(Ran::of(&shown).stdout.contains("I did it."));
}

#[test]
fn script_that_prints_nothing_for_too_long_names_the_option_for_more_time() {
    let project = script("sleep 60");
    let ran = project.raymond(&["flow", "--timeout", "1", "--retries", "0"]);
    ran.failed(1, "printed nothing for 1 second").failed(1, "--timeout");
}

#[test]
fn question_without_people_names_the_option_that_waits_for_them() {
    let project = script("echo '<ask next=\"END\">Shall I?</ask>'");
    project.write("flow/END.sh", "echo \"<result>$RAYMOND_RESULT</result>\"");
    for what in ["fail", "default"] {
        let ran = project.raymond(&["flow", "--ask", what, "--id", what]);
        ran.failed(1, "nobody is there to answer").failed(1, "--ask wait");
        // As advised.
        assert_eq!(project.raymond(&["resume", what, "--ask", "wait", "--no-wait"]).code, 4);
    }
}

#[test]
fn missing_program_of_another_coding_agent_is_not_called_claude_code() {
    let project = Project::new([("START.md", "Do it.")]);
    let mut command = project.command(&["flow", "--budget", "0", "--no-lint"]);
    let ran = Ran::of(&command.agent("./nowhere").output().unwrap());
    let ran = ran.failed(1, "`./nowhere` is not installed").failed(1, "`program`");
    assert!(!ran.stderr.contains("npm"), "{ran:?}");
}

#[test]
fn mistakes_about_tests_say_which_file_and_what_to_write() {
    let project = simple();
    let parts = [
        "there are no tests in flow/tests\n",
        "hint: ",
        "raymond help authoring",
        "raymond test flow --record ID",
    ];
    refused(&project, &["test", "flow"], &parts);
    fs::create_dir(project.file("flow/tests")).unwrap();
    refused(
        &project,
        &["test", "flow"],
        &["no .yaml file in flow/tests", "raymond help authoring"],
    );
    project.write("flow/tests/a.yaml", "replies: { NOWHERE: hi }\n");
    let ran = project.raymond(&["test", "flow"]);
    let text = "replies: 1 of NOWHERE were never used: no agent entered that state, check its name";
    assert!(ran.stdout.contains(text) && ran.stdout.contains("flow/tests/a.yaml"), "{ran:?}");
    refused(
        &project,
        &["test", "flow", "b"],
        &["no case of flow/tests contains `b`", "its cases: a\n"],
    );
    project.write("flow/START.md", "Do it.");
    fs::remove_file(project.file("flow/START.sh")).unwrap();
    project.write("flow/tests/a.yaml", "expect: { result: x }\n");
    let ran = project.raymond(&["test", "flow"]);
    assert!(
        ran.stdout.contains("the script has no reply for START.md; add it under `replies`"),
        "{ran:?}"
    );
}

#[test]
fn diagram_of_a_workflow_with_mistakes_says_so() {
    let project = Project::new([("START.md", "---\nmodel: opus\n")]);
    let ran = project.raymond(&["diagram", "flow"]);
    assert_eq!(ran.code, 0);
    assert!(ran.stdout.starts_with("flowchart"), "{ran:?}");
    let warning = "warning: the workflow has 1 error, so the diagram may be incomplete; see it: raymond lint flow";
    assert!(ran.stderr.contains(warning), "{ran:?}");
    assert_eq!(simple().raymond(&["diagram", "flow"]).stderr, "");
}

#[test]
fn missing_target_names_the_files_that_could_be_created() {
    let project = script("echo '<goto>NEXT</goto>'");
    let ran = project.raymond(&["lint", "flow"]);
    assert!(ran.stdout.contains("= help: create NEXT.md or NEXT.sh"), "{ran:?}");
}

#[test]
fn new_leaves_nothing_behind_that_prevents_another_try() {
    let project = simple();
    // A limit on the size of files stands for a full disk. It must not kill: then nothing could be removed.
    let program = env!("CARGO_BIN_EXE_raymond");
    let limited = format!("trap '' XFSZ; ulimit -f 0; exec {program} new x 2>&1 | cat");
    let mut command = std::process::Command::new("bash");
    let ran =
        Ran::of(&command.args(["-c", &limited]).current_dir(project.path()).output().unwrap());
    assert!(ran.stdout.contains("cannot write x/START.md: "), "{ran:?}");
    assert!(!project.file("x").exists(), "{ran:?}");
    assert_eq!(project.raymond(&["new", "x"]).code, 0);
}

#[test]
fn new_says_how_to_check_try_and_run_the_workflow() {
    let project = simple();
    let waits = "It waits for the file ready.txt";
    for (template, run, more) in
        [("linear", "raymond x --input 'TEXT'\n", ""), ("polling", "raymond x\n", waits)]
    {
        let ran = project.raymond(&["new", "x", "--template", template]);
        for part in ["raymond lint x", "raymond test x", run, more] {
            assert!(ran.stderr.contains(part), "{part} in {ran:?}");
        }
        fs::remove_dir_all(project.file("x")).unwrap();
    }
}

#[test]
fn file_that_cannot_be_created_is_named_with_a_hint() {
    let project = simple();
    project.write("file", "");
    let ran = refused(&project, &["new", "file/x"], &["cannot create file/x: ", "hint: "]);
    assert!(!ran.stderr.contains("the directory:"), "{ran:?}");
    refused(&project, &["man", "file/x"], &["cannot write file/x/raymond.1: ", "hint: "]);
}
