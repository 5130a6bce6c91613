//! Script states on the real program.

use std::fs;

use crate::env::Project;

#[test]
fn script_chain_ends_with_the_result_of_main_on_standard_output() {
    let project = Project::new([
        ("START.sh", "echo some words; echo '<goto>NEXT</goto>'; echo more"),
        ("NEXT.sh", "echo \"<result>done by $RAYMOND_AGENT_ID</result>\""),
    ]);
    project.raymond(&["flow"]).completed("done by main");
    project.wait_until_quiet();
}

#[test]
fn script_runs_in_the_directory_of_the_agent_not_of_the_scope() {
    let project = Project::new([("START.sh", "pwd > where; echo '<result>x</result>'")]);
    project.raymond(&["flow/START.sh"]).completed("x");
    assert_eq!(
        fs::canonicalize(project.read("where").trim()).unwrap(),
        fs::canonicalize(project.path()).unwrap()
    );
}

#[test]
fn script_sees_the_variables_that_tell_it_about_the_run() {
    let script = "env | grep '^RAYMOND_' | grep -Ev '^RAYMOND_(TRUST|TEST_RUNNER)=' | sort > variables; test -f \"$RAYMOND_STATE_FILE\" && echo '<result>x</result>'";
    let project = Project::new([("START.sh", script)]);
    project.raymond(&["start", "flow", "--id", "my-run", "--input", "the task"]).completed("x");
    let root = fs::canonicalize(project.path()).unwrap();
    let root = root.display();
    let expected = format!(
        "RAYMOND_AGENT_ID=main\nRAYMOND_FOLDER={root}/.raymond/workflows/my-run/agents/main\n\
         RAYMOND_INPUT=the task\nRAYMOND_STATE_DIR={root}/flow\n\
         RAYMOND_STATE_FILE={root}/.raymond/workflows/my-run.json\nRAYMOND_STEP=main.1\n\
         RAYMOND_VISIT=1\nRAYMOND_WORKFLOW_ID=my-run\n"
    );
    // The mark contains the identity of the run, which is random.
    let journal = project.read(".raymond/workflows/my-run.journal");
    let identity = journal.split("\"identity\":\"").nth(1).unwrap().split('"').next().unwrap();
    assert_eq!(identity.len(), 32);
    assert_eq!(project.read("variables").replace(&format!("{identity}/"), ""), expected);
}

#[test]
fn script_sees_the_result_of_a_callee() {
    let project = Project::new([
        ("START.sh", "echo '<call return=\"BACK\">CHILD</call>'"),
        ("CHILD.sh", "echo '<result> two words\nand a line </result>'"),
        ("BACK.sh", "printf '%s' \"$RAYMOND_RESULT\" > got; echo '<result>x</result>'"),
    ]);
    project.raymond(&["flow"]).completed("x");
    assert_eq!(project.read("got"), " two words\nand a line ");
}

#[test]
fn script_finds_a_result_too_large_for_an_environment_in_a_file() {
    let project = Project::new([
        ("START.sh", "echo '<call return=\"BACK\">CHILD</call>'"),
        (
            "CHILD.sh",
            "printf '<result>'; head -c 1000000 /dev/zero | tr '\\0' x; printf '</result>'",
        ),
        (
            "BACK.sh",
            "echo \"<result>$(wc -c < $RAYMOND_RESULT_FILE) ${RAYMOND_RESULT:-unset}</result>\"",
        ),
    ]);
    project.raymond(&["flow"]).completed("1000000 unset");
}

#[test]
fn script_finds_a_result_with_a_nul_byte_in_a_file() {
    let project = Project::new([
        ("START.sh", "echo '<call return=\"BACK\">CHILD</call>'"),
        ("CHILD.sh", "printf '<result>a\\0b</result>'"),
        (
            "BACK.sh",
            "echo \"<result>$(tr '\\0' - < $RAYMOND_RESULT_FILE) ${RAYMOND_RESULT-unset}</result>\"",
        ),
    ]);
    project.raymond(&["flow"]).completed("a-b unset");
}

#[test]
fn forked_script_sees_its_attributes_and_every_agent_is_waited_for() {
    let project = Project::new([
        ("START.sh", "echo '<fork next=\"SECOND\" item=\"one\" other=\"x y\">WORKER</fork>'"),
        ("SECOND.sh", "echo '<fork next=\"LAST\" item=\"two\">WORKER</fork>'"),
        ("WORKER.sh", "echo \"$RAYMOND_AGENT_ID $item $other\" >> log; echo '<result>w</result>'"),
        ("LAST.sh", "echo '<result>parent</result>'"),
    ]);
    project.raymond(&["flow"]).completed("parent");
    let mut lines = project.lines("log");
    lines.sort();
    assert_eq!(lines, ["main_worker1 one x y", "main_worker2 two "]);
}

#[test]
fn fork_and_reset_change_the_working_directory() {
    let project = Project::new([
        ("START.sh", "mkdir -p tree; echo '<fork next=\"HERE\" cd=\"tree\">WORKER</fork>'"),
        ("WORKER.sh", "touch made-by-worker; echo '<result>w</result>'"),
        ("HERE.sh", "touch made-by-main; echo '<reset cd=\"tree\">THERE</reset>'"),
        ("THERE.sh", "touch made-after-reset; echo '<result>x</result>'"),
    ]);
    project.raymond(&["flow"]).completed("x");
    for file in ["tree/made-by-worker", "made-by-main", "tree/made-after-reset"] {
        assert!(project.file(file).exists(), "{file}");
    }
}

#[test]
fn every_agent_has_a_folder_of_its_own_which_is_kept_until_the_run_is_removed() {
    let project = Project::new([
        (
            "START.sh",
            "echo one > \"$RAYMOND_FOLDER/note\"; echo '<call return=\"BACK\">SUB</call>'",
        ),
        ("SUB.sh", "echo two >> \"$RAYMOND_FOLDER/note\"; echo '<result>x</result>'"),
        ("BACK.sh", "echo '<fork next=\"LAST\">WORKER</fork>'"),
        (
            "WORKER.sh",
            "ls -A \"$RAYMOND_FOLDER\" > seen; touch \"$RAYMOND_FOLDER/w\"; echo '<result>w</result>'",
        ),
        ("LAST.sh", "echo '<join>END</join>'"),
        ("END.sh", "echo \"<result>$(tr '\\n' ' ' < \"$RAYMOND_FOLDER/note\")</result>\""),
    ]);
    project.raymond(&["flow", "--id", "r"]).completed("one two");
    assert_eq!(project.read("seen"), "", "the worker's own one was empty");
    assert!(project.file(".raymond/workflows/r/agents/main_worker1/w").exists());
    let pruned = project.raymond(&["prune", "--older-than", "0s", "--yes"]);
    assert_eq!(pruned.code, 0, "{pruned:?}");
    assert!(!project.file(".raymond/workflows/r").exists());
}

#[test]
fn failed_script_ends_the_run_with_a_hint_to_resume() {
    let cases = [
        ("exit 3", "script `START.sh` exited with code 3"),
        ("echo no tag", "script `START.sh`: no transition tag was found"),
        ("kill -9 $$", "script `START.sh` was killed by signal 9"),
        ("echo '<goto>A</goto><goto>B</goto>'", "2 transition tags were found"),
        (
            "echo '<goto>NOWHERE</goto>'",
            "state `NOWHERE` not found: there is neither NOWHERE.md nor NOWHERE.sh",
        ),
        (
            "echo '<goto>STRAT</goto>'",
            "state `STRAT` not found: there is neither STRAT.md nor STRAT.sh (did you mean `START.sh`?)",
        ),
    ];
    for (script, message) in cases {
        let project = Project::new([("START.sh", script)]);
        project
            .raymond(&["flow", "--no-lint"])
            .failed(1, message)
            .failed(1, "raymond resume flow-");
        project.wait_until_quiet();
    }
}

#[test]
fn failed_script_is_retried_after_a_fix_and_nothing_else_is_repeated() {
    let project = Project::new([
        ("START.sh", "echo start >> log; echo '<goto>BAD</goto>'"),
        ("BAD.sh", "echo bad >> log; exit 1"),
    ]);
    project.raymond(&["flow", "--id", "r"]).failed(1, "exited with code 1");
    project.write("flow/BAD.sh", "echo mended >> log; echo '<result>ok</result>'");
    project.raymond(&["run", "r"]).completed("ok");
    assert_eq!(project.lines("log"), ["start", "bad", "mended"]);
}

#[test]
fn standard_error_is_kept_apart() {
    let project =
        Project::new([("START.sh", "echo '<goto>NOWHERE</goto>' >&2; echo '<result>x</result>'")]);
    project.raymond(&["flow", "--id", "r"]).completed("x");
    let kept = project.read(".raymond/workflows/r/steps/main.1/stderr");
    assert_eq!(kept, "<goto>NOWHERE</goto>\n");
}

#[test]
fn silent_script_is_killed_with_its_descendants() {
    let project =
        Project::new([("START.sh", "trap '' TERM; (trap '' TERM; sleep 1000) & sleep 1000")]);
    let ran = project.raymond(&["flow", "--timeout", "1"]);
    ran.failed(1, "printed nothing for 1 seconds and was killed");
    project.wait_until_quiet();
}

#[test]
fn script_that_prints_regularly_is_not_killed() {
    // A machine may be too busy to let it print in time. Without output that counts, no limit would be long enough: the
    // script takes longer than each.
    let survives = |seconds: u32| {
        let script = format!(
            "while [ $SECONDS -le {seconds} ]; do echo working; sleep 0.1; done; echo '<result>x</result>'"
        );
        let project = Project::new([("START.sh", &*script)]);
        let ran = project.raymond(&["flow", "--timeout", &seconds.to_string()]);
        ran.code == 0 && ran.stdout.contains('x')
    };
    assert!([2, 8, 32].into_iter().any(survives));
}

#[test]
fn daemon_that_forks_twice_is_swept_when_its_step_ends() {
    let daemon = "setsid bash -c '(trap \"\" TERM HUP; echo $BASHPID > daemon; exec sleep 1000) &' ; \
                  while [ ! -s daemon ]; do sleep 0.01; done; echo '<result>x</result>'";
    let project = Project::new([("START.sh", daemon)]);
    project.raymond(&["flow"]).completed("x");
    project.wait_until_quiet();
    let pid = project.read("daemon");
    assert!(!fs::exists(format!("/proc/{}", pid.trim())).unwrap(), "the daemon lives");
}

#[test]
fn fork_bomb_of_two_hundred_is_gone_after_its_step() {
    let bomb = "for i in $(seq 200); do (setsid sleep 1000 &) ; done; echo '<result>x</result>'";
    let project = Project::new([("START.sh", bomb)]);
    project.raymond(&["flow"]).completed("x");
    project.wait_until_quiet();
}

#[test]
fn output_that_is_not_text_is_searched_for_its_tag() {
    let project = Project::new([(
        "START.sh",
        "head -c 300000 /dev/urandom | tr -d '<' ; printf '\\0\\377<result>ok</result>\\0'",
    )]);
    project.raymond(&["flow"]).completed("ok");
}

#[test]
fn debug_mode_keeps_everything_under_the_documented_names() {
    let project = Project::new([
        ("START.sh", "echo out; echo err >&2; echo '<goto>LAST</goto>'"),
        ("LAST.sh", "echo '<result>fin</result>'"),
    ]);
    project.raymond(&["flow", "--id", "r", "--debug"]).completed("fin");
    let folder = fs::read_dir(project.file(".raymond/debug")).unwrap().next().unwrap().unwrap();
    let name = folder.file_name().into_string().unwrap();
    let stamp = name.strip_prefix("r_").unwrap();
    assert!(stamp.len() == 15 && stamp.as_bytes()[8] == b'_', "{name}");
    let read = |name: &str| fs::read_to_string(folder.path().join(name)).unwrap();
    assert_eq!(read("main_START_001.stdout.txt"), "out\n<goto>LAST</goto>\n");
    assert_eq!(read("main_START_001.stderr.txt"), "err\n");
    let log = read("transitions.log");
    assert!(log.contains("[main] START.sh -> LAST.sh (goto)\n"), "{log}");
    assert!(log.contains("[main] LAST.sh -> (result, terminated)\n"), "{log}");
    assert!(log.contains("  exit_code: 0\n") && log.contains("  duration: "), "{log}");
    assert!(log.contains("  env: RAYMOND_AGENT_ID=main\n") && !log.contains("PATH="), "{log}");
    assert!(log.contains("  cost: $0.00\n  total_cost: $0.00\n  stack_depth: 0\n"), "{log}");
    assert!(log.contains("  result: \"fin\"\n"), "{log}");
}

#[test]
fn debug_directory_that_cannot_be_created_does_not_fail_the_run() {
    let project = Project::new([("START.sh", "echo '<result>x</result>'")]);
    project.write(".raymond/debug", "a file in its place");
    project.raymond(&["flow", "--debug"]).completed("x");
}

/// The most memory that any child of this test has had, in KiB.
#[expect(unsafe_code, reason = "a system call")]
fn peak_memory_kib() -> i64 {
    // SAFETY: `usage` is filled in before it is read.
    unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_CHILDREN, &raw mut usage);
        usage.ru_maxrss
    }
}

#[test]
fn gigabyte_of_output_without_a_newline_takes_no_memory_and_its_tag_is_found() {
    let project = Project::new([(
        "START.sh",
        "head -c 1073741824 /dev/zero | tr '\\0' x; printf '\\0\\377<result>found</result>'",
    )]);
    project.raymond(&["flow"]).completed("found");
    let peak = peak_memory_kib();
    assert!(peak < 64 * 1024, "{peak} KiB");
}

#[test]
fn too_large_result_is_rejected_with_its_size() {
    let project = Project::new([(
        "START.sh",
        "printf '<result>'; head -c 9000000 /dev/zero | tr '\\0' x; printf '</result>'",
    )]);
    let message = "the payload of <result> has 9000000 bytes, more than the 8388608";
    project.raymond(&["flow"]).failed(1, message);
}
