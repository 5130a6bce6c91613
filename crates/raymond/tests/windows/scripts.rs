//! Batch files as script states.

use crate::{
    env::{Project, Ran},
    processes::{holding, wait_until_held, wait_until_released},
};

/// A batch file that prints this tag.
pub(crate) fn printing(tag: &str) -> String {
    let mut quoted = String::new();
    for c in tag.chars() {
        if "<>&|".contains(c) {
            quoted.push('^');
        }
        quoted.push(c);
    }
    format!("@echo off\r\necho {quoted}\r\n")
}

/// A project whose states print these tags and write themselves down in `log`.
pub(crate) fn printing_all(states: &[(&str, &str)]) -> Project {
    let project = Project::new([]);
    for (name, tag) in states {
        let script = format!("{}>> log echo {name} %item%\r\n", printing(tag));
        project.write(&format!("flow/{name}.bat"), &script);
    }
    project
}

#[test]
fn workflow_with_calls_and_forks_runs_every_step_once() {
    let project = printing_all(&[
        ("START", "<call return=\"BACK\">CHILD</call>"),
        ("CHILD", "<function return=\"INNER\">HELPER</function>"),
        ("HELPER", "<result>helped</result>"),
        ("INNER", "<result>%RAYMOND_RESULT% twice</result>"),
        ("BACK", "<fork next=\"MORE\" item=\"%RAYMOND_RESULT%\">WORKER</fork>"),
        ("MORE", "<fork next=\"LAST\" item=\"x\">WORKER</fork>"),
        ("WORKER", "<result>w</result>"),
        ("LAST", "<result>all done</result>"),
    ]);
    project.raymond(&["flow"]).completed("all done");
    let mut lines: Vec<_> =
        project.lines("log").iter().map(|line| line.trim().to_owned()).collect();
    lines.sort();
    let expected = [
        "BACK",
        "CHILD",
        "HELPER",
        "INNER",
        "LAST",
        "MORE",
        "START",
        "WORKER helped twice",
        "WORKER x",
    ];
    assert_eq!(lines, expected);
}

#[test]
fn script_sees_the_variables_that_tell_it_about_the_run() {
    let names = ["AGENT_ID", "INPUT", "STATE_DIR", "STATE_FILE", "WORKFLOW_ID"]
        .map(|n| format!("RAYMOND_{n}"));
    let lines = names.each_ref().map(|name| format!(">> variables echo %{name}%\r\n"));
    let script = format!("{}{}", lines.concat(), printing("<result>x</result>"));
    let project = Project::new([("START.bat", &*script)]);
    project.raymond(&["start", "flow", "--id", "my-run", "--input", "the task"]).completed("x");
    let root = project.path().display();
    let expected = [
        "main".to_owned(),
        "the task".to_owned(),
        format!("{root}\\flow"),
        format!("{root}\\.raymond\\workflows\\my-run.json"),
        "my-run".to_owned(),
    ];
    assert_eq!(project.lines("variables"), expected);
    assert!(project.file(".raymond/workflows/my-run.json").exists());
}

#[test]
fn failed_script_is_retried_after_a_fix_and_nothing_else_is_repeated() {
    let project = printing_all(&[("START", "<goto>BAD</goto>")]);
    project.write("flow/BAD.bat", "@echo off\r\n>> log echo BAD\r\necho why 1>&2\r\nexit /b 3\r\n");
    project.raymond(&["flow", "--id", "r"]).failed(1, "script `BAD.bat` exited with code 3");
    assert_eq!(project.read(".raymond/workflows/r/steps/main.2/stderr").trim_end(), "why");
    project.write("flow/BAD.bat", &printing("<result>ok</result>"));
    project.raymond(&["run", "r"]).completed("ok");
    let lines: Vec<_> = project.lines("log").iter().map(|line| line.trim().to_owned()).collect();
    assert_eq!(lines, ["START", "BAD"]);
}

#[test]
fn silent_script_is_killed_with_its_descendants() {
    let script = format!(
        "@echo off\r\nstart /b cmd /c \"{}\"\r\n{}\r\n",
        holding("grandchild"),
        holding("child")
    );
    // A busy machine may not start them in time.
    for seconds in [2, 8, 32] {
        let project = Project::new([("START.bat", &*script)]);
        let ran = project.raymond(&["flow", "--timeout", &seconds.to_string()]);
        ran.failed(1, &format!("printed nothing for {seconds} seconds and was killed"));
        if project.file("child").exists() && project.file("grandchild").exists() {
            wait_until_released(&project, "child");
            wait_until_released(&project, "grandchild");
            return;
        }
    }
    panic!("they were never started");
}

#[test]
fn background_process_of_a_script_is_killed_with_its_step() {
    let script = format!(
        "@echo off\r\nstart /b cmd /c \"{}\"\r\n:again\r\nif not exist go goto again\r\n\
         echo ^<result^>x^</result^>\r\n",
        holding("left")
    );
    let project = Project::new([("START.bat", &*script)]);
    let child = project.spawn(&["flow"]);
    wait_until_held(&project, "left");
    project.write("go", "");
    Ran::of(&child.wait_with_output().unwrap()).completed("x");
    wait_until_released(&project, "left");
}

#[test]
fn files_with_windows_line_ends_are_accepted() {
    let project = Project::new([
        (
            "START.md",
            "---\r\nallowed_transitions:\r\n  - { tag: goto, target: LAST }\r\n---\r\nDo {{input}}.\r\n",
        ),
        ("LAST.bat", &*printing("<result>last</result>")),
    ]);
    std::fs::create_dir(project.file("flow/tests")).unwrap();
    let case = "input: it\r\nreplies:\r\n  START: |\r\n    Done.\r\n    <goto>LAST</goto>\r\n\
                expect:\r\n  result: last\r\n  prompts: { START: Do it. }\r\n";
    project.write("flow/tests/main.yaml", case);
    let ran = project.raymond(&["test", "flow"]);
    assert_eq!(ran.code, 0, "{}{}", ran.stdout, ran.stderr);
    project.write(".raymond/config.toml", "timeout = 77\r\n");
    let ran = project.raymond(&["lint", "flow"]);
    assert_eq!(ran.code, 0, "{}{}", ran.stdout, ran.stderr);
}

#[test]
fn program_that_is_a_batch_file_can_be_the_coding_agent() {
    let prompt = "---\nallowed_transitions:\n  - { tag: result }\n---\nSay something.";
    let project = Project::new([("START.md", prompt)]);
    let agent = "@echo off\r\nset /p prompt=\r\n> asked echo %prompt%\r\n\
                 echo {\"result\": \"<result>%RAYMOND_STATE%</result>\", \"cost_usd\": 0.5}\r\n";
    project.write("agent.bat", agent);
    let mut command = project.command(&["flow", "--id", "r"]);
    let table = "agent = 'own'\n[agents.own]\nprogram = '.\\agent.bat'\n";
    project.write(".raymond/config.toml", table);
    Ran::of(&command.output().unwrap()).completed("START.md");
    assert!(project.read("asked").starts_with("Say something"));
}
