//! Figures of the server, for `docs/benchmarks.md`: memory, processor time, latency. Ignored, because they say something only
//! of a release build: `scripts/bench serve` runs them on one, and each prints what it has measured.

#![expect(clippy::print_stdout, reason = "the figures are what it is for")]

use std::{
    env, fs,
    io::{BufRead as _, BufReader},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use super::Server;
use crate::env::{Project, wait_until};

/// Long enough for 20,000 steps on a loaded machine.
const PATIENCE: Duration = Duration::from_mins(8);

/// The same command with the program that is measured.
fn measured(project: &Project, arguments: &[&str]) -> Command {
    let usual = project.command(arguments);
    let Some(program) = env::var_os("RAYMOND_BENCH_PROGRAM") else { return usual };
    let mut command = Command::new(program);
    command.args(usual.get_args()).current_dir(project.path()).stdin(Stdio::null());
    for (name, value) in usual.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command
}

fn spawn(project: &Project, arguments: &[&str]) -> Child {
    let mut command = measured(project, arguments);
    command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

fn serve(project: &Project) -> Server {
    let mut command = measured(project, &["serve", "--port", "0"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let address = line.trim().trim_start_matches("http://").trim_end_matches('/').to_owned();
    Server::attached(child, address, project.read(".state/raymond/serve.token"))
}

/// A line of `/proc/PID/status` in MB.
fn megabytes(server: &Server, name: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", server.pid())).unwrap();
    let line = status.lines().find(|line| line.starts_with(name)).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() / 1024
}

/// The processor time that a process has used, in milliseconds: its 14th and 15th field, in hundredths of a second.
fn processor_ms(pid: u32) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields = stat.rsplit_once(')').unwrap().1.split_whitespace().skip(11).take(2);
    fields.map(|field| field.parse::<u64>().unwrap() * 10).sum()
}

fn now_ms() -> u64 {
    u64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis()).unwrap()
}

/// A script that enters itself so many times, and waits for `pause` seconds in between.
fn chain(steps: u32, pause: &str) -> Project {
    let script = format!(
        "n=0; [ -e n ] && read -r n <n; echo $((n + 1)) >n; {pause}\n\
         if [ $n -lt {steps} ]; then echo '<goto>START</goto>'; else echo '<result>x</result>'; fi"
    );
    Project::new([("START.sh", &*script)])
}

#[test]
#[ignore = "a measurement"]
fn memory_with_a_run_of_20_000_steps() {
    let project = chain(20_000, "");
    assert!(spawn(&project, &["flow", "--id", "r", "--quiet"]).wait().unwrap().success());
    let server = serve(&project);
    let empty = megabytes(&server, "VmRSS");
    let run = server.run("r");
    let began = Instant::now();
    let view = server.get(&run).ok();
    let first = began.elapsed();
    assert_eq!(view["status"], "completed");
    for part in ["graph", "cost", "timeline?bars=10000", "steps?limit=1000", "log?last=1000"] {
        let began = Instant::now();
        let length = server.get(&format!("{run}/{part}")).body.len();
        println!("  {part}: {} ms, {length} bytes", began.elapsed().as_millis());
    }
    let (now, most) = (megabytes(&server, "VmRSS"), megabytes(&server, "VmHWM"));
    println!(
        "run of 20,000 steps: first view {} ms; memory {empty} MB, then {now} MB, at most {most} MB (bar: 100)",
        first.as_millis()
    );
}

#[test]
#[ignore = "a measurement"]
fn hundred_browsers_on_one_run() {
    const BROWSERS: usize = 100;
    let project = chain(100, "until [ -e go ]; do sleep 0.05; done");
    let mut run = spawn(&project, &["flow", "--id", "r", "--quiet"]);
    wait_until("it runs", PATIENCE, || project.file("n").exists());
    let server = serve(&project);
    let path = format!("{}/events", server.run("r"));
    let before = megabytes(&server, "VmRSS");
    let steps: Vec<usize> = thread::scope(|scope| {
        let readers: Vec<_> = (0..BROWSERS)
            .map(|_| {
                let mut events = server.stream(&path, &[]);
                events.until(|event| event.name == "run");
                scope.spawn(move || {
                    // Each step that began or ended; the last of an id wins.
                    let mut ended = std::collections::BTreeSet::new();
                    events.until(|event| {
                        assert_ne!(event.name, "steps", "none is left out");
                        if event.name == "step" && !event.data["ended_at"].is_null() {
                            ended.insert(event.data["number"].as_u64());
                        }
                        event.name == "run" && event.data["status"] == "completed"
                    });
                    ended.len()
                })
            })
            .collect();
        project.write("go", "");
        readers.into_iter().map(|reader| reader.join().unwrap()).collect()
    });
    assert!(run.wait().unwrap().success());
    assert_eq!(steps, [101; BROWSERS], "every reader saw every step");
    let most = megabytes(&server, "VmHWM");
    println!(
        "{BROWSERS} browsers on one run of 101 steps: every step seen by all; memory {before} MB before, at most {most} MB (bar: 200)"
    );
}

#[test]
#[ignore = "a measurement"]
fn idle_with_1_600_live_agents() {
    let project = Project::new([
        (
            "START.sh",
            "for i in $(seq 1600); do echo \"<fork next=\\\"END\\\" item=\\\"$i\\\">W</fork>\"; done",
        ),
        ("END.sh", "echo '<result>x</result>'"),
        ("W.sh", "echo x >>started; until [ -e go ]; do sleep 2; done; echo '<result>w</result>'"),
    ]);
    let run = spawn(&project, &["flow", "--id", "r", "--quiet"]);
    idle("scripts that sleep", &project, run);
}

#[test]
#[ignore = "a measurement"]
fn idle_with_1_600_live_turns() {
    let project = Project::new([
        (
            "START.sh",
            "for i in $(seq 1600); do echo \"<fork next=\\\"END\\\" item=\\\"$i\\\">W</fork>\"; done",
        ),
        ("END.sh", "echo '<result>x</result>'"),
        ("W.md", "do it"),
    ]);
    // It prints what it does as Claude Code does, and then nothing for long, like a model that thinks.
    project.write(
        "claude",
        "#!/usr/bin/env bash\n\
         echo '{\"type\":\"assistant\",\"message\":{\"content\":[{\"type\":\"tool_use\",\"name\":\"Bash\",\"input\":{\"command\":\"make\"}}]}}'\n\
         echo x >>started; until [ -e go ]; do sleep 2; done; exit 1\n",
    );
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(project.file("claude"), mode).unwrap();
    let mut command = measured(
        &project,
        &[
            "flow",
            "--id",
            "r",
            "--quiet",
            "--max-parallel",
            "1600",
            // With any budget at most 50 turns run: each reserves at least a fiftieth.
            "--budget",
            "0",
            "--warm",
            "0",
        ],
    );
    command.env("RAYMOND_CLAUDE", project.file("claude"));
    command.stdout(Stdio::null()).stderr(Stdio::null());
    idle("turns", &project, command.spawn().unwrap());
}

/// What a page of a run costs the server while nothing happens in the run.
fn idle(what: &str, project: &Project, mut run: Child) {
    const AGENTS: u64 = 1600;
    wait_until("all run", PATIENCE, || project.lines("started").len() as u64 == AGENTS);
    let server = serve(project);
    let mut of_run = server.stream(&format!("{}/events", server.run("r")), &[]);
    let mut of_rows = server.stream("/api/events", &[]);
    of_run.until(|event| event.name == "run");
    of_rows.until(|event| event.name == "summary");
    thread::sleep(Duration::from_secs(3));
    let (before, began) = (processor_ms(server.pid()), Instant::now());
    thread::sleep(Duration::from_secs(15));
    let used = processor_ms(server.pid()) - before;
    let used = Duration::from_millis(used).as_secs_f64();
    let share = 100.0 * used / began.elapsed().as_secs_f64();
    let most = megabytes(&server, "VmHWM");
    println!(
        "{AGENTS} live agents ({what}), one page, nothing happens: {share:.1} % of a core (bar: 10), memory at most {most} MB"
    );
    let shown = server.get(&server.run("r")).ok();
    let agents = shown["agents"].as_array().unwrap().iter();
    let busy = agents.filter(|agent| agent["activity"] == "Bash: make").count() as u64;
    assert!(busy == 0 || busy == AGENTS, "what {busy} turns do is known");
    drop((of_run, of_rows, server));
    // Not killed: its steps would go on without it, and disturb the next measurement.
    let began = Instant::now();
    assert!(spawn(project, &["cancel", "r", "--yes"]).wait().unwrap().success());
    run.wait().unwrap();
    println!(
        "cancelling {AGENTS} live agents ({what}): {:.1} s (bar: 120)",
        began.elapsed().as_secs_f64()
    );
}

#[test]
#[ignore = "a measurement"]
fn latency_from_the_journal_to_the_stream() {
    let project = chain(80, "sleep 0.3");
    let mut run = spawn(&project, &["flow", "--id", "r", "--quiet"]);
    wait_until("it runs", PATIENCE, || project.file("n").exists());
    let server = serve(&project);
    let mut events = server.stream(&format!("{}/events", server.run("r")), &[]);
    events.until(|event| event.name == "run");
    let mut delays = Vec::new();
    events.until(|event| {
        if event.name == "step" && !event.data["ended_at"].is_null() {
            delays.push(now_ms().saturating_sub(event.data["ended_at"].as_u64().unwrap()));
        }
        event.name == "run" && event.data["status"] == "completed"
    });
    run.wait().unwrap();
    delays.sort_unstable();
    let at = |percent: usize| delays[(delays.len() - 1) * percent / 100];
    println!(
        "record to stream, {} records: median {} ms, 99 % {} ms, most {} ms (bar: 150)",
        delays.len(),
        at(50),
        at(99),
        at(100)
    );
}

#[test]
#[ignore = "a measurement"]
fn output_of_50_megabytes_by_ranges() {
    let script = "head -c 50000000 /dev/zero | tr '\\0' 'x'; echo '<result>x</result>'";
    let project = Project::new([("START.sh", script)]);
    assert!(spawn(&project, &["flow", "--id", "r", "--quiet"]).wait().unwrap().success());
    let server = serve(&project);
    let path = format!("{}/steps/main.1/files/stdout", server.run("r"));
    let timed = |query: &str| {
        let began = Instant::now();
        let answer = server.get(&format!("{path}?{query}"));
        assert_eq!(answer.status, 200, "{answer:?}");
        (began.elapsed(), answer.body.len())
    };
    let (first, _) = timed("offset=0");
    let (last, _) = timed("offset=-65536");
    let began = Instant::now();
    let all: usize =
        (0..48).map(|part| timed(&format!("offset={}&length=1048576", part << 20)).1).sum();
    let most = megabytes(&server, "VmHWM");
    println!(
        "output of 50 MB: first 64 KiB {:.1} ms, last {:.1} ms, all {all} bytes by MiB {} ms; memory at most {most} MB",
        first.as_secs_f64() * 1000.0,
        last.as_secs_f64() * 1000.0,
        began.elapsed().as_millis()
    );
}
