//! State directories and settings that belong to another user, or that others can write to, are refused.

use std::{
    fs,
    os::unix::fs::{PermissionsExt as _, chown, symlink},
    path::Path,
    process::Command,
};

use crate::env::{NOBODY, Project, Ran};

const FOREIGN: &str = "belongs to another user (uid 65534";

fn project() -> Project {
    let project = Project::new([("START.sh", "echo '<result>done</result>'")]);
    set_mode(project.path(), 0o755);
    project
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// Gives a file to another user; `false` if the user who runs the tests may not.
fn give_away(path: &Path) -> bool {
    chown(path, Some(NOBODY), Some(NOBODY)).is_ok()
}

/// Runs `raymond` as another user, if that can be done.
fn as_nobody(project: &Project, arguments: &[&str]) -> Ran {
    let inner = project.command(arguments);
    let mut command = Command::new("setpriv");
    command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups"]);
    command.arg(inner.get_program()).args(inner.get_args()).current_dir(project.path());
    let home = project.file("nobody");
    let _ = fs::create_dir(&home);
    give_away(&home);
    command.env("HOME", &home).env_remove("XDG_STATE_HOME");
    Ran::of(&command.output().unwrap())
}

#[test]
fn state_directory_of_another_user_is_refused_with_a_hint() {
    let project = project();
    project.raymond(&["start", "flow", "--id", "r"]).completed("done");
    project.write(
        ".raymond/config.toml",
        "agent = 'own'\n[agents.own]\nprogram = 'touch'\narguments = ['obeyed']\n",
    );
    if !give_away(&project.file(".raymond")) {
        return;
    }
    fs::create_dir_all(project.file("a/b")).unwrap();
    let root = project.file(".raymond");
    let root = root.to_str().unwrap();
    for command in [
        &["start", "flow"][..],
        &["run", "r"],
        &["recover"],
        &["cancel", "r"],
        &["list"],
        &["status", "r"],
        &["log", "r"],
        &["config"],
        &["start", "flow", "--detach"],
        &["list", "--data-dir", root],
    ] {
        let ran = project.raymond(command).failed(2, FOREIGN);
        assert!(ran.stderr.contains(&format!("export RAYMOND_TRUST={root}")), "{}", ran.stderr);
        // The state directory is found from a subdirectory as well.
        let mut below = project.command(command);
        let below = below.current_dir(project.file("a/b")).output().unwrap();
        if command[0] != "start" {
            Ran::of(&below).failed(2, FOREIGN);
        }
    }
    assert!(!project.file("obeyed").exists());
    let mut trusting = project.command(&["run", "r"]);
    trusting.env("RAYMOND_TRUST", format!("/nowhere:{root}"));
    Ran::of(&trusting.output().unwrap()).completed("done");
    // That does not include another directory, and a relative path is ignored.
    for other in ["/nowhere", "/.raymond", ".raymond", ""] {
        let mut command = project.command(&["run", "r"]);
        Ran::of(&command.env("RAYMOND_TRUST", other).output().unwrap()).failed(2, FOREIGN);
    }
}

#[test]
fn state_directory_of_root_is_refused_for_other_users() {
    let project = project();
    if !give_away(&project.file("flow")) {
        return;
    }
    as_nobody(&project, &["list"]).failed(2, "belongs to another user (uid 0; your uid is 65534)");
    assert!(give_away(&project.file(".raymond")));
    as_nobody(&project, &["start", "flow", "--id", "r"]).completed("done");
}

#[test]
fn hint_suggests_to_run_without_sudo() {
    let project = project();
    if !give_away(&project.file(".raymond")) {
        return;
    }
    let mut command = project.command(&["list"]);
    let ran = Ran::of(&command.env("SUDO_UID", "65534").output().unwrap());
    let ran = ran.failed(2, FOREIGN);
    assert!(ran.stderr.contains("without sudo"), "{}", ran.stderr);
}

#[test]
fn settings_of_another_user_are_refused() {
    let project = project();
    project.write(".raymond/config.toml", "budget = 3\n");
    project.raymond(&["config"]);
    if !give_away(&project.file(".raymond/config.toml")) {
        return;
    }
    let untrusting = |arguments: &[&str]| {
        let mut command = project.command(arguments);
        Ran::of(&command.env_remove("RAYMOND_TRUST").output().unwrap())
    };
    for command in [&["config"][..], &["start", "flow"]] {
        let ran = untrusting(command).failed(2, FOREIGN);
        assert!(ran.stderr.contains("config.toml belongs"), "{}", ran.stderr);
    }
    // Nor by way of a link.
    fs::rename(project.file(".raymond/config.toml"), project.file("elsewhere.toml")).unwrap();
    symlink(project.file("elsewhere.toml"), project.file(".raymond/config.toml")).unwrap();
    untrusting(&["config"]).failed(1, "`config.toml` is a link");
}

#[test]
fn state_directory_writable_by_others_is_refused_with_a_chmod_hint() {
    let project = project();
    project.write(".raymond/config.toml", "budget = 3\n");
    project.raymond(&["start", "flow", "--id", "r"]).completed("done");
    for (name, command) in [
        (".raymond", &["list"][..]),
        (".raymond/config.toml", &["config"]),
        (".raymond/workflows", &["run", "r"]),
        (".raymond/workflows/r", &["run", "r"]),
    ] {
        let path = project.file(name);
        let before = fs::metadata(&path).unwrap().permissions();
        set_mode(&path, 0o777);
        let mut untrusting = project.command(command);
        let ran = Ran::of(&untrusting.env_remove("RAYMOND_TRUST").output().unwrap());
        let ran = ran.failed(2, "can be written to by other users (mode 0777)");
        let hint = format!("chmod go-w {}", path.display());
        assert!(ran.stderr.contains(&hint), "{}", ran.stderr);
        let status = Command::new("bash").args(["-c", &hint]).status().unwrap();
        assert!(status.success());
        assert_eq!(project.raymond(command).code, 0, "{name}");
        fs::set_permissions(path, before).unwrap();
    }
}

#[test]
fn private_group_may_write_and_any_other_group_may_not() {
    let project = project();
    let root = project.file(".raymond");
    // The gid equals the uid, as on systems with a default umask of 002.
    set_mode(&root, 0o775);
    let own_group = fs::metadata(&root).map(|metadata| {
        use std::os::unix::fs::MetadataExt as _;
        metadata.gid() == metadata.uid()
    });
    if own_group.unwrap() {
        assert_eq!(project.raymond(&["list"]).code, 0);
    }
    if chown(&root, None, Some(NOBODY)).is_ok() {
        project.raymond(&["list"]).failed(2, "can be written to by other users (mode 0775)");
    }
}

#[test]
fn link_to_a_state_directory_is_used_only_if_its_user_trusts_it() {
    let project = project();
    fs::rename(project.file(".raymond"), project.file("elsewhere")).unwrap();
    symlink(project.file("elsewhere"), project.file(".raymond")).unwrap();
    for command in [&["start", "flow", "--id", "r"][..], &["list"]] {
        let ran = project.raymond(command).failed(2, ".raymond is a link to ");
        assert!(ran.stderr.contains("export RAYMOND_TRUST="), "{}", ran.stderr);
    }
    assert!(!project.file("elsewhere/workflows").exists());
    let mut trusting = project.command(&["start", "flow", "--id", "r"]);
    trusting.env("RAYMOND_TRUST", project.file(".raymond"));
    Ran::of(&trusting.output().unwrap()).completed("done");
    assert!(project.file("elsewhere/workflows/r.journal").exists());
}

#[test]
fn path_that_the_variable_cannot_name_is_not_suggested_for_it() {
    let project = project();
    let place = project.file("a:b/.raymond");
    fs::create_dir_all(&place).unwrap();
    set_mode(&place, 0o777);
    let ran = project.raymond(&["list", "--data-dir", place.to_str().unwrap()]);
    let ran = ran.failed(2, "RAYMOND_TRUST cannot name it");
    assert!(!ran.stderr.contains("export") && ran.stderr.contains("move the"), "{}", ran.stderr);
}

#[test]
fn run_of_which_a_line_is_missing_is_named_and_left_as_it_is_while_others_are_taken_over() {
    const JOURNAL: &str =
        concat!(env!("CARGO_MANIFEST_DIR"), "/../engine/tests/fixtures/v1/chained.journal");
    let project = project();
    fs::create_dir_all(project.file(".raymond/workflows")).unwrap();
    // Another user's Raymond wrote it.
    let whole = fs::read_to_string(JOURNAL).unwrap();
    let mut lines: Vec<_> = whole.split_inclusive('\n').collect();
    lines.remove(1);
    let broken = lines.concat();
    project.write(".raymond/workflows/broken.journal", &broken);
    project.write(".raymond/workflows/sample.journal", &whole);
    let why = "line 2 of it does not follow the one before";
    let trusted = project.raymond(&["trust", "--yes"]).failed(2, &format!("run broken: {why}"));
    assert!(trusted.stdout.contains(&format!("run      broken  damaged: {why}")), "{trusted:?}");
    assert_eq!(project.read(".raymond/workflows/broken.journal"), broken);
    project.raymond(&["run", "broken"]).failed(1, "was not written by your Raymond");
    project.raymond(&["run", "sample"]).completed("done");
}
