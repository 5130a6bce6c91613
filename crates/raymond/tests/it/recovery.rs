//! After any process is killed, no finished step runs again, and no process is left behind.

use std::{
    fs,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use crate::env::{Project, Ran, WithAgent as _, kill, reaper_of, wait_until};

/// A deterministic random generator, so that a failure can be reproduced.
pub(crate) struct Chance(pub(crate) u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }
}

const STEP: &str = "echo \"$RAYMOND_AGENT_ID START\" >> log; sleep 0.005; ";

/// The end of a script that was handed the results of so many workers, each `w`; builtins only.
pub(crate) fn joined(workers: usize) -> String {
    let all = r#"*'"result":"w"'"#.repeat(workers);
    format!(
        "case \"$RAYMOND_RESULT\" in {all}*'\"result\"'*) echo '<result>too many</result>';; \
         {all}*) echo '<result>all done</result>';; *) echo '<result>lost</result>';; esac"
    )
}

/// A chain of `length` scripts with two workers, which a longer one joins; every script logs that it ran.
pub(crate) fn chain(length: usize) -> Project {
    let project = Project::new([]);
    for number in 1..=length {
        let next = number + 1;
        let body = if number == length && length > 5 {
            joined(2)
        } else if number == length {
            "echo '<result>all done</result>'".to_owned()
        } else if number + 1 == length && length > 5 {
            format!("echo '<join>S{next}</join>'")
        } else if number == 2 || number == 4 {
            format!("echo '<fork next=\"S{next}\">W1</fork>'")
        } else {
            format!("echo '<goto>S{next}</goto>'")
        };
        let name = if number == 1 { "START".to_owned() } else { format!("S{number}") };
        let step = STEP.replace("START", &name);
        project.write(&format!("flow/{name}.sh"), &format!("{step}{body}"));
    }
    for number in 1..=6 {
        let body = match number {
            6 => "echo '<result>w</result>'".to_owned(),
            _ => format!("echo '<goto>W{}</goto>'", number + 1),
        };
        let step = STEP.replace("START", &format!("W{number}"));
        project.write(&format!("flow/W{number}.sh"), &format!("{step}{body}"));
    }
    project
}

fn wait_for(child: Child) -> Ran {
    Ran::of(&child.wait_with_output().unwrap())
}

/// Kills the orchestrator at random moments until `kills` are used up, then lets it finish. `settings` are
/// those of the project.
pub(crate) fn storm(seed: u64, kills: u32, settings: &str) -> u32 {
    let mut chance = Chance(seed);
    let mut done = 0;
    while done < kills {
        let project = chain(20);
        project.write(".raymond/config.toml", settings);
        let mut arguments = vec!["start", "flow", "--id", "r"];
        loop {
            let mut child = project.spawn(&arguments);
            let moment = Instant::now() + Duration::from_micros(chance.below(40_000));
            let ended = loop {
                match child.try_wait().unwrap() {
                    Some(status) => break Some(status),
                    None if Instant::now() >= moment => break None,
                    None => std::thread::yield_now(),
                }
            };
            if ended.is_none() && done < kills {
                kill(child.id(), libc::SIGKILL);
                let _ = child.wait();
                done += 1;
            } else {
                wait_for(child).completed("all done");
                break;
            }
            // A run whose orchestrator was killed before it wrote anything never began.
            let began = project.read(".raymond/workflows/r.journal").contains('\n');
            arguments = if began { vec!["run", "r"] } else { vec!["start", "flow", "--id", "r"] };
        }
        let counts = project.counts();
        let twice: Vec<_> = counts.iter().filter(|(_, count)| **count != 1).collect();
        assert!(twice.is_empty(), "ran more than once with seed {seed}: {twice:?}");
        assert_eq!(counts.len(), 20 + 2 * 6);
        // Only orchestrators were killed, so every step that was started has its outcome.
        let journal = project.read(".raymond/workflows/r.journal");
        assert!(!journal.contains("its outcome was lost"), "with seed {seed}:\n{journal}");
        project.wait_until_quiet();
    }
    done
}

#[test]
fn killed_at_random_moments_no_step_runs_twice_and_no_process_is_left() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let kills = number("RAYMOND_STORM").and_then(|kills| u32::try_from(kills).ok()).unwrap_or(300);
    let seed = number("RAYMOND_STORM_SEED").unwrap_or(20_261_115);
    assert_eq!(storm(seed, kills, ""), kills);
}

#[test]
fn outcome_of_a_step_that_ended_without_an_orchestrator_is_used() {
    let project = Project::new([
        (
            "START.sh",
            "echo x >> log; touch began; while [ ! -e go ]; do sleep 0.01; done; echo '<goto>NEXT</goto>'; touch ended",
        ),
        ("NEXT.sh", "echo '<result>harvested</result>'"),
    ]);
    let mut child = project.spawn(&["start", "flow", "--id", "r"]);
    wait_until("the step began", Duration::from_mins(1), || project.file("began").exists());
    kill(child.id(), libc::SIGKILL);
    let _ = child.wait();
    project.write("go", "");
    wait_until("the step ended", Duration::from_mins(1), || project.file("ended").exists());
    // The keeper exits after a short delay: nothing of the run is left but its files.
    project.wait_until_quiet();
    project.raymond(&["run", "r"]).completed("harvested");
    assert_eq!(project.lines("log"), ["x"]);
}

/// A run whose only step has ended although its orchestrator was killed; its output was then spoiled
/// by `spoil`, which is given the path.
fn with_spoiled_output(spoil: impl Fn(&std::path::Path)) -> Project {
    let project = Project::new([(
        "START.sh",
        "echo x >> log; touch began; while [ ! -e go ]; do sleep 0.01; done; echo '<result>again</result>'",
    )]);
    let mut child = project.spawn(&["start", "flow", "--id", "r"]);
    wait_until("the step began", Duration::from_mins(1), || project.file("began").exists());
    kill(child.id(), libc::SIGKILL);
    let _ = child.wait();
    project.write("go", "");
    project.wait_until_quiet();
    let stdout = project.file(".raymond/workflows/r/steps/main.1/stdout");
    fs::remove_file(&stdout).unwrap();
    spoil(&stdout);
    project
}

fn make_fifo(path: &std::path::Path) {
    assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
}

#[test]
fn step_whose_output_is_gone_or_replaced_counts_as_lost() {
    let spoils: [fn(&std::path::Path); 4] = [
        |_| {},
        |path| fs::create_dir(path).unwrap(),
        make_fifo,
        |path| std::os::unix::fs::symlink("/dev/zero", path).unwrap(),
    ];
    let check = |spoil| {
        let ran = with_spoiled_output(spoil).raymond(&["run", "r"]).completed("again");
        assert!(ran.stderr.contains("its outcome was lost"), "{}", ran.stderr);
        let project = with_spoiled_output(spoil);
        assert_eq!(project.raymond(&["cancel", "r", "--yes"]).code, 0);
        assert_eq!(project.lines("log"), ["x"]);
        project.wait_until_quiet();
    };
    std::thread::scope(|scope| {
        for spoil in spoils {
            scope.spawn(move || check(spoil));
        }
    });
}

#[test]
fn run_whose_workflow_is_gone_can_be_cancelled() {
    let project = with_spoiled_output(|path| fs::write(path, "<result>again</result>\n").unwrap());
    fs::remove_dir_all(project.file("flow")).unwrap();
    assert_eq!(project.raymond(&["cancel", "r", "--yes"]).code, 0);
    assert!(project.raymond(&["list"]).stdout.contains("cancelled"));
}

/// What a process prints that outlives its step, once there is a file `late`.
fn prints_later(words: &str) -> String {
    format!(
        "(trap '' TERM; while [ ! -e late ]; do sleep 0.01; done; echo '{words}'; touch printed) & "
    )
}

/// Kills the orchestrator, lets its step end, and then what the step left behind print something.
fn end_and_print_later(project: &Project, child: &mut Child) {
    wait_until("the step began", Duration::from_mins(1), || project.file("began").exists());
    kill(child.id(), libc::SIGKILL);
    let _ = child.wait();
    project.write("go", "");
    let exit = || project.read(".raymond/workflows/r/steps/main.1/exit");
    wait_until("the step ended", Duration::from_mins(1), || exit().contains("code"));
    project.write("late", "");
    project.wait_until_quiet();
    assert!(project.file("printed").exists());
}

#[test]
fn output_of_a_process_that_outlives_its_step_does_not_change_the_outcome() {
    let left_behind = prints_later("<goto>WRONG</goto>");
    let project = Project::new([(
        "START.sh",
        &*format!(
            "{left_behind} touch began; while [ ! -e go ]; do sleep 0.01; done; echo '<result>right</result>'"
        ),
    )]);
    let mut child = project.spawn(&["start", "flow", "--id", "r", "--no-lint"]);
    end_and_print_later(&project, &mut child);
    project.raymond(&["run", "r"]).completed("right");
}

#[test]
fn output_of_a_process_that_outlives_its_turn_is_not_the_answer() {
    let project = Project::new([("START.md", "x")]);
    let left_behind = prints_later("{\"result\": \"<result>wrong</result>\"}");
    project.write("agent.sh", &format!("{left_behind} touch began; while [ ! -e go ]; do sleep 0.01; done; echo '{{\"result\": \"<result>right</result>\"}}'"));
    let command = |arguments: &[&str]| {
        let mut command = project.command(arguments);
        command.agent("bash agent.sh");
        command
    };
    let mut child = command(&["start", "flow", "--id", "r", "--no-lint"]).spawn().unwrap();
    end_and_print_later(&project, &mut child);
    Ran::of(&command(&["run", "r"]).output().unwrap()).completed("right");
}

#[test]
fn step_that_still_runs_is_waited_for_not_started_again() {
    let project = Project::new([(
        "START.sh",
        "echo x >> log; touch began; while [ ! -e go ]; do sleep 0.01; done; echo '<result>once</result>'",
    )]);
    let mut child = project.spawn(&["start", "flow", "--id", "r"]);
    wait_until("the step began", Duration::from_mins(1), || project.file("began").exists());
    kill(child.id(), libc::SIGKILL);
    let _ = child.wait();
    let second = project.spawn(&["run", "r"]);
    project.write("go", "");
    wait_for(second).completed("once");
    assert_eq!(project.lines("log"), ["x"]);
    project.wait_until_quiet();
}

/// The keeper of a project's only run.
fn keeper(project: &Project) -> Option<u32> {
    let found = project.processes().into_iter().find(|line| line.contains("__keeper"))?;
    // Reapers are forks of the keeper and look like it; the keeper is the first.
    found.split(' ').next()?.parse().ok()
}

#[test]
fn killed_keeper_loses_no_step_and_is_replaced() {
    let project = Project::new([
        (
            "START.sh",
            "echo a >> log; touch began; while [ ! -e go ]; do sleep 0.01; done; echo '<goto>NEXT</goto>'",
        ),
        ("NEXT.sh", "echo b >> log; echo '<result>fine</result>'"),
    ]);
    let child = project.spawn(&["start", "flow", "--id", "r"]);
    wait_until("the step began", Duration::from_mins(1), || project.file("began").exists());
    kill(keeper(&project).unwrap(), libc::SIGKILL);
    project.write("go", "");
    wait_for(child).completed("fine");
    assert_eq!(project.lines("log"), ["a", "b"]);
    project.wait_until_quiet();
}

/// The reapers and the spare one of a project's only run: forks of the keeper that look like it.
fn reapers(project: &Project) -> Vec<u32> {
    let keepers = project.processes().into_iter().filter(|line| line.contains("__keeper"));
    keepers.skip(1).filter_map(|line| line.split(' ').next()?.parse().ok()).collect()
}

/// Kills keeper and reapers at once, so that none of them can clean up after the others.
fn kill_keeper_and_reapers(project: &Project) {
    let pids = project.pids("__keeper");
    for signal in [libc::SIGSTOP, libc::SIGKILL] {
        for pid in &pids {
            kill(*pid, signal);
        }
    }
}

/// Its first start leaves processes in sessions of their own, one of them deaf and one without its
/// parent, and waits. Its second one tells whether any of them is still there.
const LEAVES_SURVIVORS: &str = r#"
    if [ -e began ]; then
        for pid in $(cat pids); do grep -qs . /proc/$pid/cmdline && beside="$beside $pid"; done
        echo "<result>${beside:-alone}</result>"
        exit
    fi
    setsid bash -c 'echo $$ >> pids; trap "" TERM; touch deaf; while :; do sleep 0.05; done' &
    (setsid bash -c 'echo $$ >> pids; touch orphan; exec sleep 1000' &)
    while [ ! -e deaf ] || [ ! -e orphan ]; do sleep 0.01; done
    touch began
    sleep 1000
"#;

/// Leaves a process in a session of its own. When it is told to end, it stops the reaper that told it: the sweep goes no further.
const OUTLIVES_THE_SWEEP: &str = r#"
    reaper=$PPID setsid bash -c 'trap "kill -STOP $reaper; touch swept" TERM; echo $$ > pid; while :; do sleep 0.05; done' &
    while [ ! -s pid ]; do sleep 0.01; done
    echo '<goto>NEXT</goto>'
"#;

#[test]
fn process_of_a_finished_step_dies_with_the_next_orchestrator_if_all_who_sweep_were_killed() {
    for ends in [true, false] {
        let next = "[ ! -e hold ] || sleep 1000; echo '<result>fine</result>'";
        let project = Project::new([("START.sh", OUTLIVES_THE_SWEEP), ("NEXT.sh", next)]);
        if !ends {
            project.write("hold", "");
        }
        let mut child = project.spawn(&["start", "flow", "--id", "r"]);
        let begun = || project.file("swept").exists();
        wait_until("the sweep began", Duration::from_mins(1), begun);
        if ends {
            let journal = || project.read(".raymond/workflows/r.journal");
            let is_over = || journal().contains("\"completed\"");
            wait_until("the run is over", Duration::from_mins(1), is_over);
        }
        kill(child.id(), libc::SIGKILL);
        let _ = child.wait();
        kill_keeper_and_reapers(&project);
        let pid = project.read("pid").trim().to_owned();
        let is_there = || !fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default().is_empty();
        assert!(is_there(), "nobody was left to end it");
        let _ = fs::remove_file(project.file("hold"));
        let ran = project.raymond(&["resume", "r"]).completed("fine");
        assert!(!is_there(), "{}", ran.stderr);
        assert!(ran.stderr.contains("had outlived"), "{}", ran.stderr);
        project.wait_until_quiet();
    }
}

#[test]
fn no_process_of_a_lost_step_runs_beside_its_next_attempt() {
    let project = Project::new([("START.sh", LEAVES_SURVIVORS)]);
    let mut child = project.spawn(&["start", "flow", "--id", "r"]);
    wait_until("the step began", Duration::from_mins(1), || project.file("began").exists());
    kill(child.id(), libc::SIGKILL);
    let _ = child.wait();
    kill_keeper_and_reapers(&project);
    let ran = project.raymond(&["run", "r"]).completed("alone");
    assert!(ran.stderr.contains("that had outlived their steps"), "{}", ran.stderr);
    project.wait_until_quiet();
}

#[test]
fn no_process_of_a_lost_turn_runs_beside_its_next_attempt() {
    let project = Project::new([("START.md", "x")]);
    let says = LEAVES_SURVIVORS.replace(
        "\"<result>${beside:-alone}</result>\"",
        "\"{\\\"result\\\": \\\"<result>${beside:-alone}</result>\\\"}\"",
    );
    project.write("agent.sh", &says);
    let mut command = project.command(&["start", "flow", "--id", "r", "--no-lint"]);
    command.agent("bash agent.sh").stderr(Stdio::piped());
    let child = command.stdout(Stdio::piped()).spawn().unwrap();
    wait_until("the turn began", Duration::from_mins(1), || project.file("began").exists());
    kill_keeper_and_reapers(&project);
    wait_for(child).completed("alone");
    project.wait_until_quiet();
}

#[test]
fn cancel_kills_processes_of_a_lost_step() {
    let project = Project::new([("START.sh", LEAVES_SURVIVORS)]);
    let mut child = project.spawn(&["start", "flow", "--id", "r"]);
    wait_until("the step began", Duration::from_mins(1), || project.file("began").exists());
    kill(child.id(), libc::SIGKILL);
    let _ = child.wait();
    kill_keeper_and_reapers(&project);
    assert_eq!(project.raymond(&["cancel", "r", "--yes"]).code, 0);
    project.wait_until_quiet();
}

/// Deletes a run, but not its step directories.
fn delete_journal(project: &Project) {
    for file in ["r.journal", "r.json", "r.lock"] {
        let _ = fs::remove_file(project.file(&format!(".raymond/workflows/{file}")));
    }
}

#[test]
fn steps_of_a_deleted_run_do_not_count_for_a_new_run() {
    let project = Project::new([
        ("START.sh", "echo '<goto>NEXT</goto>'"),
        ("NEXT.sh", "echo '<result>old</result>'"),
    ]);
    project.raymond(&["start", "flow", "--id", "r"]).completed("old");
    delete_journal(&project);
    project.write("flow/NEXT.sh", "echo '<result>new</result>'");
    let ran = project.raymond(&["start", "flow", "--id", "r"]).completed("new");
    assert!(
        ran.stderr.contains("main.2 belongs to another run and was moved to"),
        "{}",
        ran.stderr
    );
    let aside = fs::read_dir(project.file(".raymond/workflows/r/aside")).unwrap();
    assert_eq!(aside.count(), 2, "they are kept");
}

#[test]
fn running_step_of_a_deleted_run_is_killed_when_its_directory_is_needed() {
    let project = Project::new([("START.sh", "touch began; setsid sleep 1000")]);
    let mut child = project.spawn(&["start", "flow", "--id", "r"]);
    wait_until("the step began", Duration::from_mins(1), || project.file("began").exists());
    kill(child.id(), libc::SIGKILL);
    let _ = child.wait();
    delete_journal(&project);
    project.write("flow/START.sh", "echo '<result>new</result>'");
    wait_for(project.spawn(&["start", "flow", "--id", "r"])).completed("new");
    project.wait_until_quiet();
}

#[test]
fn answers_of_a_deleted_run_do_not_count_for_a_new_run() {
    let project = Project::new([("START.md", "x")]);
    for answer in ["old", "new"] {
        let says = format!("echo '{{\"result\": \"<result>{answer}</result>\"}}'");
        project.write("agent.sh", &says);
        let mut command = project.command(&["start", "flow", "--id", "r", "--no-lint"]);
        command.agent("bash agent.sh");
        Ran::of(&command.output().unwrap()).completed(answer);
        delete_journal(&project);
    }
}

const WAITS: &str = "echo \"$RAYMOND_AGENT_ID\" >> log; touch began-$RAYMOND_AGENT_ID; \
                     while [ ! -e go ]; do sleep 0.01; done; echo '<goto>NEXT</goto>'";

#[test]
fn killed_waiting_reaper_does_not_hang_the_run() {
    let project = Project::new([
        ("START.sh", WAITS),
        ("NEXT.sh", "echo next >> log; echo '<result>fine</result>'"),
    ]);
    let child = project.spawn(&["start", "flow", "--id", "r"]);
    wait_until("the step began", Duration::from_mins(1), || project.file("began-main").exists());
    // The step's own reaper says who it is; the other one is the spare.
    let own = reaper_of(&project, "main.1");
    wait_until("there is a spare reaper", Duration::from_mins(1), || reapers(&project).len() == 2);
    let spare = reapers(&project).into_iter().find(|pid| *pid != own);
    kill(spare.unwrap(), libc::SIGKILL);
    project.write("go", "");
    wait_for(child).completed("fine");
    assert_eq!(project.lines("log"), ["main", "next"]);
    project.wait_until_quiet();
}

#[test]
fn killed_keeper_is_replaced_while_another_step_is_running() {
    let project = Project::new([
        ("START.sh", "echo '<fork next=\"FIRST\">LONG</fork>'"),
        ("FIRST.sh", WAITS),
        ("NEXT.sh", "touch next; echo '<result>fine</result>'"),
        (
            "LONG.sh",
            "touch long; while [ ! -e next ]; do sleep 0.01; done; echo '<result>w</result>'",
        ),
    ]);
    let child = project.spawn(&["start", "flow", "--id", "r"]);
    wait_until("both began", Duration::from_mins(1), || {
        project.file("began-main").exists() && project.file("long").exists()
    });
    kill(keeper(&project).unwrap(), libc::SIGKILL);
    project.write("go", "");
    // The long step ends only when the next one has begun: it must not have to wait for it.
    wait_for(child).completed("fine");
    assert_eq!(project.lines("log"), ["main"]);
    project.wait_until_quiet();
}

#[test]
fn message_lost_while_the_orchestrator_is_stopped_is_made_up_for() {
    let project = Project::new([
        (
            "START.sh",
            "n=0; [ -e count ] && read -r n < count; echo $((n + 1)) > count; \
                      if [ $n = 20 ]; then echo '<goto>LAST</goto>'; else echo '<fork next=\"START\">W</fork>'; fi",
        ),
        (
            "W.sh",
            "touch began-$RAYMOND_AGENT_ID; while [ ! -e go ]; do sleep 0.02; done; echo '<result>w</result>'",
        ),
        (
            "LAST.sh",
            "touch began-last; while [ ! -e go ]; do sleep 0.02; done; echo '<result>all</result>'",
        ),
    ]);
    let child = project.spawn(&["start", "flow", "--id", "r"]);
    let began = || {
        fs::read_dir(project.path())
            .unwrap()
            .flatten()
            .filter(|entry| entry.file_name().to_string_lossy().starts_with("began-"))
    };
    wait_until("all began", Duration::from_mins(1), || began().count() == 21);
    kill(child.id(), libc::SIGSTOP);
    project.write("go", "");
    // More than a socket holds end now, and their reapers give up telling.
    // Two of them stand by, and four hold the line, because their caller does.
    wait_until("all but those that wait for more are gone", Duration::from_mins(1), || {
        reapers(&project).len() <= 6
    });
    kill(child.id(), libc::SIGCONT);
    wait_for(child).completed("all");
    project.wait_until_quiet();
}

#[test]
fn second_orchestrator_is_refused_with_the_pid_of_the_first() {
    let project = Project::new([(
        "START.sh",
        "touch began; while [ ! -e go ]; do sleep 0.01; done; echo '<result>x</result>'",
    )]);
    let first = project.spawn(&["start", "flow", "--id", "r"]);
    wait_until("the step began", Duration::from_mins(1), || project.file("began").exists());
    let owner = format!("is already running (process {})", first.id());
    project.raymond(&["run", "r"]).failed(1, &owner);
    project.write("go", "");
    wait_for(first).completed("x");
}

#[test]
fn of_fifty_orchestrators_exactly_one_wins() {
    let project = Project::new([(
        "START.sh",
        "echo x >> log; touch began; while [ ! -e go ]; do sleep 0.01; done; echo '<result>x</result>'",
    )]);
    let mut first = project.spawn(&["start", "flow", "--id", "r"]);
    wait_until("the step began", Duration::from_mins(1), || project.file("began").exists());
    kill(first.id(), libc::SIGKILL);
    let _ = first.wait();
    let crowd: Vec<_> = (0..50).map(|_| project.spawn(&["run", "r"])).collect();
    wait_until("the others gave up", Duration::from_mins(1), || {
        let is_owner = |line: &&String| line.contains(" run r");
        project.processes().iter().filter(is_owner).count() <= 1
    });
    project.write("go", "");
    let ran: Vec<_> = crowd.into_iter().map(wait_for).collect();
    assert_eq!(ran.iter().filter(|ran| ran.code == 0).count(), 1);
    for ran in ran.into_iter().filter(|ran| ran.code != 0) {
        ran.failed(1, "is already running (");
    }
    assert_eq!(project.lines("log"), ["x"]);
    project.wait_until_quiet();
}

#[test]
fn interrupt_waits_for_running_steps_and_the_run_can_be_resumed() {
    let project = Project::new([
        (
            "START.sh",
            "touch began; while [ ! -e go ]; do sleep 0.01; done; echo '<goto>NEXT</goto>'",
        ),
        ("NEXT.sh", "echo next >> log; echo '<result>x</result>'"),
    ]);
    let child = project.spawn(&["start", "flow", "--id", "r"]);
    wait_until("the step began", Duration::from_mins(1), || project.file("began").exists());
    kill(child.id(), libc::SIGINT);
    project.write("go", "");
    wait_for(child).failed(130, "paused");
    assert_eq!(project.lines("log"), Vec::<String>::new(), "nothing new was started");
    project.wait_until_quiet();
    project.raymond(&["run", "r"]).completed("x");
}

#[test]
fn second_interrupt_kills_running_steps_with_their_descendants() {
    let project = Project::new([(
        "START.sh",
        "echo x >> log; if [ -e began ]; then echo '<result>second</result>'; exit; fi; \
         trap '' INT; (setsid sleep 1000) & touch began; sleep 1000",
    )]);
    let child = project.spawn(&["start", "flow", "--id", "r"]);
    wait_until("the step began", Duration::from_mins(1), || project.file("began").exists());
    kill(child.id(), libc::SIGINT);
    kill(child.id(), libc::SIGTERM);
    // Signals of one kind may be merged, of two kinds not.
    wait_for(child).failed(130, "paused");
    project.wait_until_quiet();
    project.raymond(&["run", "r"]).completed("second");
    assert_eq!(project.lines("log"), ["x", "x"]);
}

#[test]
fn recover_resumes_every_run_whose_orchestrator_died() {
    let project = Project::new([(
        "START.sh",
        "touch began-$RAYMOND_WORKFLOW_ID; while [ ! -e go ]; do sleep 0.01; done; echo '<result>x</result>'",
    )]);
    for id in ["a", "b"] {
        let mut child = project.spawn(&["start", "flow", "--id", id]);
        let began = format!("began-{id}");
        wait_until("the step began", Duration::from_mins(1), || project.file(&began).exists());
        kill(child.id(), libc::SIGKILL);
        let _ = child.wait();
    }
    let listed = project.raymond(&["list"]);
    assert_eq!(listed.stdout.matches("✗ died").count(), 2, "{listed:?}");
    project.write("go", "");
    assert_eq!(project.raymond(&["recover"]).code, 0);
    let listed = project.raymond(&["list"]).stdout;
    assert_eq!(listed.matches("✓ completed").count(), 2, "{listed}");
    project.wait_until_quiet();
}

#[test]
fn run_with_a_journal_cut_at_any_byte_resumes_and_repeats_no_step() {
    let project = chain(5);
    project.raymond(&["start", "flow", "--id", "r"]).completed("all done");
    let journal = fs::read(project.file(".raymond/workflows/r.journal")).unwrap();
    let expected = project.counts();
    for length in (1..journal.len()).step_by(37) {
        fs::write(project.file(".raymond/workflows/r.journal"), &journal[..length]).unwrap();
        let _ = fs::remove_file(project.file(".raymond/workflows/r.json"));
        let ran = project.raymond(&["run", "r", "--quiet"]);
        if journal[..length].contains(&b'\n') {
            ran.completed("all done");
        } else {
            ran.failed(1, "the journal is empty");
        }
        assert_eq!(project.counts(), expected, "cut at byte {length}");
    }
}

#[test]
fn journal_garbled_in_the_middle_is_refused_with_the_offset() {
    let project = chain(5);
    project.raymond(&["start", "flow", "--id", "r"]).completed("all done");
    let journal = fs::read(project.file(".raymond/workflows/r.journal")).unwrap();
    let expected = project.counts();
    // The ends of the lines among them: a garbled one joins two lines.
    let ends = (0..journal.len()).filter(|at| journal[*at] == b'\n');
    for offset in (0..journal.len()).step_by(41).chain(ends) {
        let mut garbled = journal.clone();
        garbled[offset] ^= 0x15;
        fs::write(project.file(".raymond/workflows/r.journal"), &garbled).unwrap();
        let ran = project.raymond(&["run", "r", "--quiet"]);
        let line_start =
            journal[..offset].iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        if offset == journal.len() - 1 {
            // Like a line that was never finished: what it said is found out again.
            ran.completed("all done");
        } else {
            // Also where the state file, which is still there, would cover it.
            ran.failed(1, &format!("is damaged at byte {line_start}"));
            assert_eq!(fs::read(project.file(".raymond/workflows/r.journal")).unwrap(), garbled);
        }
        assert_eq!(project.counts(), expected, "garbled at byte {offset}");
    }
}

#[test]
fn journal_converted_to_crlf_is_refused_with_a_command_that_converts_it_back() {
    let project = Project::new([
        ("START.sh", "echo x >> log; echo '<goto>NEXT</goto>'"),
        ("NEXT.sh", "test -e fixed && echo '<result>right</result>'"),
    ]);
    project.raymond(&["start", "flow", "--id", "r"]).failed(1, "exited with code 1");
    let journal = project.read(".raymond/workflows/r.journal");
    let converted = journal.replace('\n', "\r\n");
    project.write(".raymond/workflows/r.journal", &converted);
    let ran = project.raymond(&["run", "r"]).failed(1, "has CRLF line endings");
    assert_eq!(project.read(".raymond/workflows/r.journal"), converted, "nothing is cut off");
    // Not even a new run with the same id replaces it.
    project.raymond(&["start", "flow", "--id", "r"]).failed(2, "there is a run `r` already");
    let command = ran.stderr.lines().find(|line| line.trim().starts_with("sed ")).unwrap();
    let status = Command::new("bash").args(["-c", command]).status().unwrap();
    assert!(status.success());
    assert_eq!(project.read(".raymond/workflows/r.journal"), journal);
    project.write("fixed", "");
    project.raymond(&["run", "r"]).completed("right");
    assert_eq!(project.lines("log"), ["x"]);
}

#[test]
fn unfinished_tail_of_a_journal_is_kept_and_reported() {
    let project = chain(3);
    project.raymond(&["start", "flow", "--id", "r"]).completed("all done");
    let journal = project.read(".raymond/workflows/r.journal");
    let (front, _) = journal.split_at(journal.len() - 7);
    project.write(".raymond/workflows/r.journal", front);
    let (_, cut) = front.rsplit_once('\n').unwrap();
    let ran = project.raymond(&["run", "r", "--json"]);
    let event = ran.stdout.lines().find(|line| line.contains("journal_trimmed")).unwrap();
    let event: serde_json::Value = serde_json::from_str(event).unwrap();
    assert_eq!(event["bytes"], cut.len());
    assert_eq!(fs::read_to_string(event["kept"].as_str().unwrap()).unwrap(), cut);
    assert!(ran.stderr.contains(event["kept"].as_str().unwrap()), "{}", ran.stderr);
}

/// A first step that waits for the file `go`, and a second one. Both log that they ran.
fn waiting() -> Project {
    Project::new([
        (
            "START.sh",
            "echo START >> log; touch began; while [ ! -e go ]; do sleep 0.01; done; echo '<goto>NEXT</goto>'",
        ),
        ("NEXT.sh", "echo NEXT >> log; echo '<result>right</result>'"),
    ])
}

#[test]
fn run_whose_lock_file_is_removed_stops_and_can_be_resumed() {
    let project = waiting();
    let first = project.spawn(&["start", "flow", "--id", "r"]);
    wait_until("the step began", Duration::from_mins(1), || project.file("began").exists());
    fs::remove_file(project.file(".raymond/workflows/r.lock")).unwrap();
    project.write("go", "");
    let first = Ran::of(&first.wait_with_output().unwrap());
    let first = first.failed(1, "r.lock was removed or replaced");
    assert!(first.stderr.contains("raymond resume r"), "{}", first.stderr);
    assert_eq!(project.lines("log"), ["START"]);
    project.raymond(&["run", "r"]).completed("right");
    assert_eq!(project.lines("log"), ["START", "NEXT"]);
    project.wait_until_quiet();
}

#[test]
fn run_with_two_owners_continues_with_the_second_and_repeats_no_step() {
    let project = waiting();
    let first = project.spawn(&["start", "flow", "--id", "r"]);
    wait_until("the step began", Duration::from_mins(1), || project.file("began").exists());
    fs::remove_file(project.file(".raymond/workflows/r.lock")).unwrap();
    let second = project.spawn(&["run", "r"]);
    let journal = || project.read(".raymond/workflows/r.journal");
    wait_until("the second owns it", Duration::from_mins(1), || journal().contains("resumed"));
    project.write("go", "");
    Ran::of(&first.wait_with_output().unwrap()).failed(1, "r.lock was removed or replaced");
    Ran::of(&second.wait_with_output().unwrap()).completed("right");
    assert_eq!(project.lines("log"), ["START", "NEXT"]);
    let status = project.raymond(&["status", "r"]);
    assert_eq!(status.code, 0, "{}", status.stderr);
    project.wait_until_quiet();
}

#[test]
fn journal_with_a_line_dropped_or_doubled_is_refused() {
    let project = chain(3);
    project.raymond(&["start", "flow", "--id", "r"]).completed("all done");
    let journal = project.read(".raymond/workflows/r.journal");
    let lines: Vec<_> = journal.split_inclusive('\n').collect();
    let expected = project.counts();
    for changed in [[&lines[..2], &lines[3..]].concat(), [&lines[..3], &lines[2..]].concat()] {
        project.write(".raymond/workflows/r.journal", &changed.concat());
        for command in ["status", "log", "run"] {
            project.raymond(&[command, "r"]).failed(1, "is out of order at byte");
        }
        // The command in the hint resumes the run and repeats no step.
        let ran = project.raymond(&["run", "r"]);
        let command = ran.stderr.lines().find(|line| line.trim().starts_with("cp ")).unwrap();
        assert!(Command::new("bash").args(["-c", command]).status().unwrap().success());
        project.raymond(&["run", "r"]).completed("all done");
        assert_eq!(project.counts(), expected);
    }
}

#[test]
fn edited_state_file_does_not_change_the_run() {
    let project = Project::new([
        ("START.sh", "echo x >> log; echo '<goto>NEXT</goto>'"),
        ("NEXT.sh", "test -e fixed && echo '<result>right</result>'"),
        ("OTHER.sh", "echo '<result>wrong</result>'"),
    ]);
    project.raymond(&["start", "flow", "--id", "r"]).failed(1, "exited with code 1");
    let state = project.read(".raymond/workflows/r.json");
    let edited = state.replace("\"current_state\": \"NEXT.sh\"", "\"current_state\": \"OTHER.sh\"");
    assert_ne!(edited, state);
    project.write(".raymond/workflows/r.json", &edited);
    project.write("fixed", "");
    project.raymond(&["run", "r"]).completed("right");
    assert_eq!(project.lines("log"), ["x"]);
}

#[test]
fn script_is_not_run_again_because_its_workflow_could_not_be_listed() {
    let project = Project::new([
        ("START.sh", "echo x >> log; mv flow away; echo '<goto>NEXT</goto>'"),
        ("NEXT.sh", "echo '<result>once</result>'"),
    ]);
    project.raymond(&["start", "flow", "--id", "r"]).failed(1, "cannot list the files");
    fs::rename(project.file("away"), project.file("flow")).unwrap();
    project.raymond(&["run", "r"]).completed("once");
    assert_eq!(project.lines("log"), ["x"]);
    project.wait_until_quiet();
}

#[test]
fn completed_run_prints_its_result_again() {
    let project = Project::new([("START.sh", "echo x >> log; echo '<result>told</result>'")]);
    project.raymond(&["start", "flow", "--id", "r"]).completed("told");
    project.raymond(&["run", "r"]).completed("told");
    assert_eq!(project.lines("log"), ["x"]);
}

#[test]
fn id_of_a_run_cannot_be_reused() {
    let project = Project::new([("START.sh", "echo '<result>x</result>'")]);
    project.raymond(&["start", "flow", "--id", "r"]).completed("x");
    project.raymond(&["start", "flow", "--id", "r"]).failed(2, "there is a run `r` already");
    project.raymond(&["run", "other"]).failed(2, "there is no run `other`");
}

#[test]
fn state_file_newer_than_its_journal_is_ignored() {
    let project = Project::new([
        ("START.sh", "echo x >> log; echo '<goto>NEXT</goto>'"),
        ("NEXT.sh", "test -e mended && echo '<result>right</result>'"),
    ]);
    project.raymond(&["start", "flow", "--id", "r"]).failed(1, "exited with code 1");
    let journal = fs::read(project.file(".raymond/workflows/r.journal")).unwrap();
    // The machine lost the end of the journal, but not the newer state file.
    let first_line = journal.iter().position(|byte| *byte == b'\n').unwrap() + 1;
    fs::write(project.file(".raymond/workflows/r.journal"), &journal[..first_line]).unwrap();
    project.write("mended", "");
    project.write("flow/NEXT.sh", "echo '<result>right</result>'");
    let ran = project.raymond(&["run", "r"]);
    assert_eq!(project.lines("log"), ["x"], "{}", ran.stderr);
    project.raymond(&["run", "r"]).completed("right");
}
