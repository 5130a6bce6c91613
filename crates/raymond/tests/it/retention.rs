//! Which files of finished steps a run keeps, and which runs `raymond prune` removes.

use std::{fs, time::Duration};

use crate::{
    env::{Project, Ran, WithAgent as _, kill, wait_until},
    recovery::storm,
};

/// The names of the step directories of run `r`.
fn steps(project: &Project) -> Vec<String> {
    let entries = fs::read_dir(project.file(".raymond/workflows/r/steps")).unwrap();
    let mut names: Vec<_> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// Counts to `count`, each time by a script. After each number there is a turn if `has_turns`.
fn counting(count: u32, has_turns: bool) -> Project {
    let next = if has_turns { "TURN" } else { "START" };
    let script = format!(
        "echo x >> log; if [ $(wc -l < log) -lt {count} ]; then echo '<goto>{next}</goto>'; \
         else echo '<result>counted</result>'; fi"
    );
    let project = Project::new([("START.sh", &*script), ("TURN.md", "on")]);
    project.write("agent.sh", "cat > /dev/null; echo '{\"result\":\"<goto>START</goto>\"}'");
    project
}

#[test]
fn only_the_latest_script_steps_keep_their_files_and_all_turns_do() {
    let project = counting(12, true);
    let mut command = project.command(&["start", "flow", "--id", "r", "--no-lint"]);
    command.agent("bash agent.sh").env("RAYMOND_KEEP_SCRIPT_STEPS", "3");
    Ran::of(&command.output().unwrap()).completed("counted");
    let numbers: Vec<u32> = steps(&project)
        .iter()
        .map(|name| name.rsplit_once('.').unwrap().1.parse().unwrap())
        .collect();
    let is_turn = |number: &&u32| number.is_multiple_of(2);
    assert_eq!(numbers.iter().filter(is_turn).count(), 11, "{numbers:?}");
    let mut scripts: Vec<_> = numbers.iter().filter(|number| !is_turn(number)).collect();
    scripts.sort();
    assert_eq!(scripts, [&19, &21, &23]);
    assert_eq!(project.lines("log").len(), 12);
}

#[test]
fn old_steps_of_a_killed_orchestrator_are_removed_on_resume() {
    let project = counting(10, false);
    project.write(
        "flow/START.sh",
        "echo x >> log; n=$(wc -l < log); if [ $n -eq 8 ]; then touch began; \
         while [ ! -e go ]; do sleep 0.01; done; fi; \
         if [ $n -lt 10 ]; then echo '<goto>START</goto>'; else echo '<result>counted</result>'; fi",
    );
    // The first orchestrator keeps all.
    let mut command = project.command(&["start", "flow", "--id", "r"]);
    let mut child = command.env("RAYMOND_KEEP_SCRIPT_STEPS", "0").spawn().unwrap();
    wait_until("step 8 began", Duration::from_mins(1), || project.file("began").exists());
    kill(child.id(), libc::SIGKILL);
    let _ = child.wait();
    assert_eq!(steps(&project).len(), 8);
    project.write("go", "");
    let mut command = project.command(&["run", "r"]);
    let ran = command.env("RAYMOND_KEEP_SCRIPT_STEPS", "2").output().unwrap();
    Ran::of(&ran).completed("counted");
    assert_eq!(steps(&project), ["main.10", "main.9"]);
    // The step that was in flight was not removed: its outcome was taken, and nothing ran twice.
    assert_eq!(project.lines("log").len(), 10);
}

#[test]
fn killed_at_random_moments_no_step_runs_twice_although_only_one_keeps_its_files() {
    assert_eq!(storm(20_261_117, 150, "keep_script_steps = 1\n"), 150);
}

#[test]
fn user_settings_apply_to_all_projects_and_project_settings_override_them() {
    let project = Project::new([("START.sh", "echo '<result>x</result>'")]);
    fs::create_dir_all(project.file(".config/raymond")).unwrap();
    project.write(".config/raymond/config.toml", "budget = 3\nmodel = 'haiku'\n");
    project.write(".raymond/config.toml", "budget = 4\n");
    let shown = project.raymond(&["config"]).stdout;
    let line = |name: &str| shown.lines().find(|line| line.starts_with(name)).unwrap().to_owned();
    assert!(line("budget").contains(" 4 ") && line("budget").contains(".raymond/config.toml"));
    assert!(
        line("model").contains("haiku") && line("model").contains(".config/raymond"),
        "{shown}"
    );
    project.write(".config/raymond/config.toml", "\nbugdet = 3\n");
    project.raymond(&["config"]).failed(2, ".config/raymond/config.toml line 2: unknown setting");
}

/// Makes everything of run `id` look as if it had been left alone for `days`.
fn age(project: &Project, id: &str, days: u64) {
    let time = std::time::SystemTime::now() - Duration::from_hours(24 * days);
    for entry in fs::read_dir(project.file(".raymond/workflows")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        if name.split('.').next() == Some(id) {
            fs::File::open(&path).unwrap().set_modified(time).unwrap();
        }
    }
}

fn runs(project: &Project) -> Vec<String> {
    let entries = fs::read_dir(project.file(".raymond/workflows")).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut ids: Vec<_> = names.map(|name| name.split('.').next().unwrap().to_owned()).collect();
    ids.sort();
    ids.dedup();
    ids
}

/// A project with a completed run `done`, one that failed, `bad`, and `new`, which is completed, too.
fn with_runs() -> Project {
    let project =
        Project::new([("START.sh", "[ -n \"$FAIL\" ] && exit 3; echo '<result>x</result>'")]);
    project.raymond(&["flow", "--id", "done"]).completed("x");
    let mut command = project.command(&["flow", "--id", "bad"]);
    assert_eq!(command.env("FAIL", "1").output().unwrap().status.code(), Some(1));
    project.raymond(&["flow", "--id", "new"]).completed("x");
    age(&project, "done", 9);
    age(&project, "bad", 20);
    project
}

#[test]
fn prune_removes_old_runs_that_cannot_be_resumed() {
    let project = with_runs();
    let listed = project.raymond(&["prune", "--dry-run"]);
    assert!(listed.stdout.starts_with("done  completed") && listed.stdout.lines().count() == 1);
    assert_eq!(runs(&project), ["bad", "done", "new"], "{listed:?}");
    // Without an answer nothing is removed either, whatever is selected.
    for more in [&[][..], &["--json"], &["--worktrees"], &["--discard-work"]] {
        let asked = project.raymond(&[&["prune"], more].concat());
        assert_eq!((asked.code, runs(&project).len()), (0, 3), "{more:?}: {asked:?}");
    }
    let pruned = project.raymond(&["prune", "--yes"]);
    assert_eq!((pruned.code, runs(&project)), (0, vec!["bad".to_owned(), "new".to_owned()]));
    assert!(pruned.stderr.starts_with("1 run removed, "), "{pruned:?}");
    assert_eq!(
        project.raymond(&["prune", "--yes", "--status", "failed", "--older-than", "2w"]).code,
        0
    );
    assert_eq!(runs(&project), ["new"]);
    assert!(project.raymond(&["prune", "--yes"]).stderr.contains("No run is old enough"));
}

#[test]
fn prune_removes_the_oldest_until_the_rest_is_small_enough() {
    let project = with_runs();
    let json = project.raymond(&["prune", "--max-size", "0", "--dry-run", "--json"]).stdout;
    let listed: serde_json::Value = serde_json::from_str(&json).unwrap();
    let ids: Vec<_> = listed.as_array().unwrap().iter().map(|run| run["id"].as_str()).collect();
    assert_eq!(ids, [Some("done"), Some("new")], "the failed run can be resumed");
    assert_eq!(project.raymond(&["prune", "--yes", "--max-size", "1T"]).stdout, "");
    // All but one byte of what is there: the oldest is enough.
    let all: u64 = {
        let all = ["--status", "failed", "--status", "completed"];
        let json = project
            .raymond(&[&["prune", "--max-size", "0", "--dry-run", "--json"], &all[..]].concat());
        let listed: serde_json::Value = serde_json::from_str(&json.stdout).unwrap();
        listed.as_array().unwrap().iter().map(|run| run["bytes"].as_u64().unwrap()).sum()
    };
    assert_eq!(project.raymond(&["prune", "--yes", "--max-size", &(all - 1).to_string()]).code, 0);
    assert_eq!(runs(&project), ["bad", "new"]);
}

#[test]
fn prune_keeps_a_running_run() {
    let wait = "touch began; while [ ! -e go ]; do sleep 0.01; done; echo '<result>x</result>'";
    let project = Project::new([("START.sh", wait)]);
    let child = project.spawn(&["flow", "--id", "r"]);
    wait_until("it began", Duration::from_mins(1), || project.file("began").exists());
    let pruned = project.raymond(&["prune", "--yes", "--older-than", "0d"]);
    assert_eq!((pruned.code, pruned.stdout.as_str()), (0, ""));
    project.write("go", "");
    Ran::of(&child.wait_with_output().unwrap()).completed("x");
}

#[test]
fn doctor_says_what_is_missing_and_what_to_do() {
    let project = Project::new([]);
    let mut command = project.command(&["doctor"]);
    command.env("RAYMOND_CLAUDE", "/nowhere/claude");
    let ran = Ran::of(&command.output().unwrap());
    assert_eq!(ran.code, 1, "{ran:?}");
    let missing = "problem  claude    `/nowhere/claude` is not installed\n";
    assert!(ran.stdout.contains(missing), "{}", ran.stdout);
    assert!(ran.stdout.contains("-> install it (Claude Code: npm install"), "{}", ran.stdout);
    assert!(ran.stdout.contains("ok       shell     /"), "{}", ran.stdout);
    // With another coding agent, Claude Code need not be there.
    let mut command = project.command(&["doctor", "--json"]);
    command.env("RAYMOND_CLAUDE", "/nowhere/claude").agent("bash x");
    let ran = Ran::of(&command.output().unwrap());
    let findings: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    let of = |what: &str| {
        findings.as_array().unwrap().iter().find(|found| found["what"] == what).unwrap()["verdict"]
            .clone()
    };
    assert_eq!((ran.code, of("program"), of("claude")), (0, "ok".into(), "ok".into()));
}

#[test]
fn doctor_finds_wrong_settings_and_runs_that_died() {
    let project = Project::new([("START.sh", "touch began; sleep 1000")]);
    let mut child = project.spawn(&["flow", "--id", "r"]);
    wait_until("it began", Duration::from_mins(1), || project.file("began").exists());
    kill(child.id(), libc::SIGKILL);
    let _ = child.wait();
    project.write(".raymond/config.toml", "bugdet = 1\n");
    let ran = project.raymond(&["doctor"]);
    assert_eq!(ran.code, 1);
    assert!(ran.stdout.contains("unknown setting `bugdet`"), "{}", ran.stdout);
    assert!(ran.stdout.contains("the program of run r died\n"), "{}", ran.stdout);
    assert!(ran.stdout.contains("-> resume them: raymond recover"), "{}", ran.stdout);
    assert_eq!(project.raymond(&["cancel", "r", "--yes"]).code, 0);
}
