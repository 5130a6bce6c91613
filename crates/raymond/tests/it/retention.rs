//! Which files of finished steps a run keeps, and which runs `raymond prune` removes.

use std::{fs, time::Duration};

use crate::{
    env::{Project, Ran, kill, wait_until},
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
    let mut command = project.command(&["start", "flow", "--id", "r"]);
    command.env("RAYMOND_AGENT_PROGRAM", "bash agent.sh").env("RAYMOND_KEEP_SCRIPT_STEPS", "3");
    Ran::of(&command.output().unwrap()).completed("counted");
    let numbers: Vec<u32> = steps(&project)
        .iter()
        .map(|name| name.rsplit_once('.').unwrap().1.parse().unwrap())
        .collect();
    let is_turn = |number: &&u32| **number % 2 == 0;
    assert_eq!(numbers.iter().filter(is_turn).count(), 11, "{numbers:?}");
    let mut scripts: Vec<_> = numbers.iter().filter(|number| !is_turn(number)).collect();
    scripts.sort();
    assert_eq!(scripts, [&19, &21, &23]);
    assert_eq!(project.lines("log").len(), 12);
}

#[test]
fn steps_that_a_killed_orchestrator_left_are_removed_when_the_run_is_resumed() {
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
fn killed_at_random_moments_nothing_runs_twice_although_one_step_keeps_its_files() {
    assert_eq!(storm(20_261_117, 150, "keep_script_steps = 1\n"), 150);
}

#[test]
fn settings_of_the_user_hold_in_all_projects_and_below_those_of_the_project() {
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
