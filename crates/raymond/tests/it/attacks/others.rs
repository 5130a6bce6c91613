//! The same attacks with other names, through other commands, and with what an earlier run has sealed.

use std::{fs, path::Path, process::Command};

use super::{cloned, cloned_as, command, raymond, resigned};
use crate::{
    env::{Project, Ran},
    worktrees::{git_in, repository},
};

#[test]
fn run_of_a_clone_is_foreign_whatever_it_is_called() {
    for id in ["x", "release-2_1", "0", "main"] {
        let project = cloned_as(id);
        for arguments in [
            &["resume", id][..],
            &["run", id],
            &["cancel", id, "--yes"],
            &["land", id],
            &["show", id, "--diff"],
            &["tell", id, "hello"],
            &["attach", id],
            &["cost", id],
        ] {
            let ran = raymond(&project, arguments);
            assert_ne!(ran.code, 0, "{arguments:?}: {ran:?}");
            assert!(ran.stderr.contains("raymond trust"), "{arguments:?}: {ran:?}");
        }
        let answered = raymond(&project, &["answer", id, "main.1", "yes"]);
        assert_ne!(answered.code, 0, "{answered:?}");
        for arguments in
            [&["recover"][..], &["doctor", "--quick"], &["asks"], &["asks", id], &["list"]]
        {
            raymond(&project, arguments);
        }
        assert!(!project.file("obeyed").exists(), "{id}");
    }
}

/// Settings that start a program, or let one be started, if they count.
fn settings(program: &Path) -> [String; 4] {
    let program = program.display();
    [
        format!("[notify]\ncommand = ['sh', '{program}']\non = ['ask', 'failed', 'completed']\n"),
        format!("[agents.claude]\nprogram = '{program}'\n"),
        format!("agent = 'own'\n[agents.own]\nprogram = '{program}'\n"),
        format!("[agents.claude]\nmcp = {{ x = {{ command = '{program}' }} }}\nquestions = true\n"),
    ]
}

#[test]
fn settings_that_a_model_has_written_start_nothing_through_any_command() {
    let project = repository([
        ("START.sh", "echo \"<fork next='WAIT' worktree='true'>WORK</fork>\""),
        ("WAIT.sh", "echo '<join>ASK</join>'"),
        ("ASK.sh", "echo \"<ask choices='yes=END|no=END'>Now?</ask>\""),
        ("WORK.sh", "echo x > new; echo '<result>done</result>'"),
        ("END.sh", "echo '<result>x</result>'"),
    ]);
    project.write("evil.sh", "#!/bin/sh\ntouch obeyed\ncat > /dev/null\n");
    let program = project.file("evil.sh");
    let executable: fs::Permissions = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(&program, executable).unwrap();
    for (number, settings) in settings(&program).iter().enumerate() {
        let run = format!("r{number}");
        let _ = fs::remove_file(project.file(".raymond/config.toml"));
        raymond(&project, &["flow", "--id", &run, "--no-wait"]).failed(4, "");
        project.write(".raymond/config.toml", settings);
        for arguments in [
            &["resume", &run][..],
            &["recover"],
            &["doctor"],
            &["show", &run, "--diff"],
            &["land", &run],
            &["answer", &run, "yes"],
            &["log", &run, "--follow"],
            &["prune", "--yes", "--older-than", "0s", "--discard-work"],
        ] {
            let ran = raymond(&project, arguments);
            assert!(!project.file("obeyed").exists(), "{settings} {arguments:?}: {ran:?}");
        }
        #[cfg(feature = "serve")]
        {
            let arguments = ["serve", "--port", "0", "--project", ".", "--recover"];
            let server = crate::serve::Server::of(&project, command(&project, &arguments));
            server.get("/api/runs").ok();
            assert!(!project.file("obeyed").exists(), "{settings}");
        }
    }
}

#[test]
fn worktree_of_another_repository_is_not_removed_landed_or_shown_for_a_run_that_was_taken_over() {
    let victim = repository([("START.sh", "exit 0")]);
    let checkout = victim.file("checkout");
    let place = checkout.to_str().unwrap();
    git_in(victim.path(), &["worktree", "add", "--quiet", "-b", "precious", place]);
    fs::write(checkout.join("new"), "precious").unwrap();
    let theirs = repository([
        ("START.sh", "echo \"<fork next='WAIT' worktree='true'>WORK</fork>\""),
        ("WAIT.sh", "echo '<join>END</join>'"),
        ("WORK.sh", "echo '<result>done</result>'"),
        ("END.sh", "echo '<result>x</result>'"),
    ]);
    theirs.raymond(&["flow", "--id", "r"]).completed("x");
    let project = repository([("START.sh", "exit 0")]);
    let own = theirs.path().canonicalize().unwrap();
    let worktree = own.join(".raymond/worktrees/r/main_work1");
    let journal = theirs.read(".raymond/workflows/r.journal");
    assert!(journal.contains(worktree.to_str().unwrap()), "{journal}");
    let victims = victim.path().canonicalize().unwrap();
    let journal = journal
        .replace(worktree.to_str().unwrap(), place)
        .replace("raymond/r/main_work1", "precious")
        .replace(own.to_str().unwrap(), victims.to_str().unwrap());
    fs::create_dir_all(project.file(".raymond/workflows")).unwrap();
    project.write(".raymond/workflows/r.journal", &resigned(&journal));
    assert_eq!(raymond(&project, &["trust", "--yes"]).code, 0);
    for arguments in [
        &["show", "r", "--diff"][..],
        &["land", "r"],
        &["prune", "--worktrees", "--yes", "--discard-work"],
        &["prune", "--yes", "--older-than", "0s", "--discard-work"],
    ] {
        let ran = raymond(&project, arguments);
        assert!(!ran.stdout.contains("precious\n"), "{arguments:?}: {ran:?}");
        assert!(checkout.join("new").exists(), "{arguments:?}: {ran:?}");
        let branches = git_in(victim.path(), &["branch", "--list", "precious"]);
        assert!(branches.contains("precious"), "{arguments:?}: {ran:?}");
    }
}

#[test]
fn outcome_that_an_earlier_run_of_the_same_name_has_sealed_is_not_that_of_a_later_one() {
    let project = Project::new([
        (
            "START.sh",
            "cp -r kept/. .raymond/workflows/r/steps 2>/dev/null; echo '<goto>CHECK</goto>'",
        ),
        ("CHECK.sh", "cat verdict"),
        ("DEPLOY.sh", "touch deployed; echo '<result>deployed</result>'"),
    ]);
    project.write("verdict", "<goto>DEPLOY</goto>");
    raymond(&project, &["flow", "--id", "r"]).completed("deployed");
    fs::remove_file(project.file("deployed")).unwrap();
    let steps = project.file(".raymond/workflows/r/steps");
    let mut copy = Command::new("cp");
    copy.arg("-r").arg(&steps).arg(project.file("kept"));
    assert!(copy.status().unwrap().success());
    fs::remove_dir_all(project.file("kept/main.1")).unwrap();
    let pruned = raymond(&project, &["prune", "--yes", "--older-than", "0s"]);
    assert_eq!(pruned.code, 0, "{pruned:?}");
    project.write("verdict", "<result>refused</result>");
    raymond(&project, &["flow", "--id", "r"]).completed("refused");
    assert!(!project.file("deployed").exists());
}

#[test]
fn foreign_run_is_not_resumed_from_another_directory() {
    let project = cloned();
    let elsewhere = tempfile::tempdir().unwrap();
    let data_dir = project.file(".raymond");
    let data_dir = data_dir.to_str().unwrap();
    for arguments in [
        &["resume", "planted", "--data-dir", data_dir][..],
        &["land", "planted", "--data-dir", data_dir],
    ] {
        let mut there = command(&project, arguments);
        let ran = Ran::of(&there.current_dir(elsewhere.path()).output().unwrap());
        assert!(ran.code != 0 && ran.stderr.contains("raymond trust --data-dir "), "{ran:?}");
    }
    assert!(!project.file("obeyed").exists());
}
