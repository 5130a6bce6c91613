//! `raymond doctor`: checks whether everything that runs need is installed, and what to do if not.

use std::{
    env,
    io::{self, Read as _, Seek as _},
    process::{Command, ExitCode, Stdio},
    time::{Duration, Instant},
};

use raymond_engine::{
    agent::{
        Checkup, CheckupAnswer, CodingAgent, Diagnosis, NATIVES,
        handshake::{Difference, handshake},
    },
    exec::programs,
    load,
    store::lock::RunLock,
};
use raymond_flow::machine::{FailureClass, Status};
use serde_json::json;

use super::{place::state_dir, prepare::LoadedProject, prune::size};
use crate::{
    advice,
    cli::{args::Place, upkeep::Doctor},
    config,
    failure::Failure,
    out,
};

/// How long a program may take to answer: Claude Code takes some seconds on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);
/// How often to check whether it has answered.
const INTERVAL: Duration = Duration::from_millis(5);
/// How much of an answer is read.
const ANSWER_BYTES_MAX: u64 = 64 * 1024;
/// Less free space than this causes a warning: a few long transcripts.
const DISK_BYTES_MIN: u64 = 1 << 30;

/// The result of one check.
struct CheckResult {
    what: String,
    verdict: Diagnosis,
}

fn good(found: impl Into<String>) -> Diagnosis {
    Diagnosis::Good(found.into())
}

fn doubtful(found: impl Into<String>, advice: impl Into<String>) -> Diagnosis {
    Diagnosis::Doubtful { found: found.into(), advice: advice.into() }
}

fn bad(found: impl Into<String>, advice: impl Into<String>) -> Diagnosis {
    Diagnosis::Bad { found: found.into(), advice: advice.into() }
}

/// `raymond doctor`
pub(in crate::cli) fn doctor(arguments: &Doctor) -> Result<ExitCode, Failure> {
    let mut findings = vec![platform(), shell(), git()];
    let place = &arguments.place;
    findings.push(settings(place));
    let project = LoadedProject::of(place).or_else(|_| LoadedProject::without_settings(place));
    match project {
        Ok(project) => {
            let used = project.config.all.agent.as_deref();
            let mut tried = Vec::new();
            for agent in project.agents.iter() {
                let is_used = used == Some(agent.name());
                let is_configured = project.config.agents.contains_key(agent.name());
                let is_native = NATIVES.iter().any(|native| native.name == agent.name());
                let is_wanted = is_used || is_configured || !is_native;
                // Several tables may use the same program.
                let is_tried = arguments.quick || tried.contains(&agent.program());
                tried.push(agent.program());
                findings.extend(checked(agent, is_used, is_wanted, is_tried));
            }
            findings.push(disk(&project));
            findings.extend(runs(&project));
        }
        Err(failure) => {
            let verdict = bad(failure.to_string(), "use a directory of your own");
            findings.push(CheckResult { what: "state directory".to_owned(), verdict });
        }
    }
    out::text(&if arguments.json { as_json(&findings) } else { as_text(&findings) })?;
    let has_problem = findings.iter().any(|found| matches!(found.verdict, Diagnosis::Bad { .. }));
    Ok(ExitCode::from(u8::from(has_problem)))
}

fn platform() -> CheckResult {
    let found = env!("RAYMOND_BUILD").to_owned();
    let verdict = if cfg!(target_os = "linux") {
        good(found)
    } else {
        doubtful(found, "see what differs here: raymond help operations")
    };
    CheckResult { what: "raymond".to_owned(), verdict }
}

fn shell() -> CheckResult {
    let verdict = match (cfg!(windows), programs::find("bash")) {
        (true, _) => good("cmd.exe, for .bat states"),
        (false, Some(path)) => good(path.display().to_string()),
        (false, None) => bad("bash is not installed", "install bash: script states need it"),
    };
    CheckResult { what: "shell".to_owned(), verdict }
}

fn git() -> CheckResult {
    let verdict = match programs::find("git") {
        Some(path) => good(path.display().to_string()),
        None => doubtful("not installed", "install git if your workflows commit or use worktrees"),
    };
    CheckResult { what: "git".to_owned(), verdict }
}

fn settings(place: &Place) -> CheckResult {
    let verdict = match state_dir(place).and_then(|dir| config::Config::load(dir.root())) {
        Ok(_) => good("can be read; see them: raymond config"),
        Err(failure) => bad(failure.to_string(), "fix that file or variable"),
    };
    CheckResult { what: "settings".to_owned(), verdict }
}

/// The checks of a coding agent. `is_used` says whether states that name none use it, `is_wanted` whether it
/// should be installed, `is_tried` whether it need take no turn.
fn checked(
    agent: &dyn CodingAgent,
    is_used: bool,
    is_wanted: bool,
    is_tried: bool,
) -> Vec<CheckResult> {
    let program = agent.program();
    let Some(name) = program.first() else {
        return Vec::new();
    };
    let finding = |what: &str, verdict| {
        // A coding agent that is not the default need not be installed.
        let verdict = match verdict {
            Diagnosis::Bad { found, advice } if !is_used => Diagnosis::Doubtful { found, advice },
            verdict => verdict,
        };
        CheckResult { what: format!("{}{what}", agent.name()), verdict }
    };
    let install_advice = advice::of_failure(Some(FailureClass::NotInstalled), agent.name());
    let install_advice = install_advice.unwrap_or_default();
    let Some(path) = programs::find(name) else {
        if !is_wanted {
            let found =
                format!("not installed; only states with `agent: {}` need it", agent.name());
            return vec![finding("", good(found))];
        }
        let verdict = bad(format!("`{name}` is not installed"), install_advice);
        return vec![finding("", verdict)];
    };
    let mut findings = vec![finding("", good(path.display().to_string()))];
    for checkup in agent.checkups() {
        let verdict = asked(&checkup)
            .unwrap_or_else(|error| bad(format!("cannot be asked: {error}"), install_advice));
        findings.push(finding(&format!(" {}", checkup.what), verdict));
    }
    if !is_tried && let Some(verdict) = tried(agent) {
        findings.push(finding(" turn", verdict));
    }
    findings
}

/// Whether the coding agent behaves as Raymond expects; `None` if that cannot be tried.
fn tried(agent: &dyn CodingAgent) -> Option<Diagnosis> {
    let differences = match handshake(agent, PATIENCE).transpose()? {
        Ok(differences) if differences.is_empty() => {
            return Some(good("works: two turns of one session are understood"));
        }
        Ok(differences) => differences,
        Err(error) => {
            let advice = "check the directory for temporary files";
            return Some(doubtful(format!("cannot be tried: {error}"), advice));
        }
    };
    let words: Vec<_> = differences.iter().map(ToString::to_string).collect();
    let found = format!("differs: {}", words.join("; "));
    let mut advice = match agent.versions() {
        Some(versions) => {
            format!("use a version that Raymond is tested with: {}", versions.install())
        }
        None => "try it with a small workflow before you rely on it".to_owned(),
    };
    if differences.contains(&Difference::EndNotSeen) {
        advice.push_str("; until then keep no process: --warm 0");
    }
    let is_fatal = differences.iter().any(Difference::is_fatal);
    Some(if is_fatal { bad(found, advice) } else { doubtful(found, advice) })
}

/// Runs the command of a check, and interprets its output.
fn asked(checkup: &Checkup) -> io::Result<Diagnosis> {
    let (program, arguments) = checkup.command.split_first().ok_or(io::ErrorKind::InvalidInput)?;
    let program = programs::find(program).ok_or(io::ErrorKind::NotFound)?;
    // Files instead of pipes, which would block the program when they are full.
    let (mut stdout, mut stderr) = (tempfile::tempfile()?, tempfile::tempfile()?);
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null());
    command.stdout(stdout.try_clone()?).stderr(stderr.try_clone()?);
    let mut child = command.spawn()?;
    let started = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if started.elapsed() >= PATIENCE {
            let _ = child.kill();
            child.wait()?;
            return Err(io::Error::new(io::ErrorKind::TimedOut, "it does not answer"));
        }
        std::thread::sleep(INTERVAL);
    };
    let text = |file: &mut std::fs::File| -> io::Result<String> {
        let mut bytes = Vec::new();
        file.rewind()?;
        file.take(ANSWER_BYTES_MAX).read_to_end(&mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    };
    let (stdout, stderr) = (text(&mut stdout)?, text(&mut stderr)?);
    Ok((checkup.judge)(&CheckupAnswer { exit_code: status.code(), stdout, stderr }))
}

fn disk(project: &LoadedProject) -> CheckResult {
    let reserve = project.config.all.disk_reserve.unwrap_or_default();
    let place = project.state_dir.root().display();
    let advice = "remove old runs: raymond prune";
    let verdict = match project.state_dir.free_bytes() {
        Ok(free) if free < reserve => {
            let found = format!("{} free for {place}, and runs need {}", size(free), size(reserve));
            bad(found, advice)
        }
        Ok(free) if free < DISK_BYTES_MIN => {
            doubtful(format!("{} free for {place}", size(free)), advice)
        }
        Ok(free) => good(format!("{} free for {place}", size(free))),
        Err(error) => doubtful(format!("{place}: {error}"), "check the disk"),
    };
    CheckResult { what: "disk".to_owned(), verdict }
}

/// Runs whose orchestrator died. `None` if there are none.
fn runs(project: &LoadedProject) -> Option<CheckResult> {
    let state_dir = &project.state_dir;
    let is_dead = |id: &raymond_flow::id::RunId| {
        RunLock::holder(&state_dir.run(id).lock).is_none()
            && load(state_dir, id).is_ok_and(|loaded| loaded.run.status == Status::Running)
    };
    let dead: Vec<_> = state_dir.run_ids().ok()?.into_iter().filter(is_dead).collect();
    let first = dead.first()?;
    let found = match dead.len() {
        1 => format!("the program of run {first} died"),
        count => format!("the programs of {count} runs died, the first is {first}"),
    };
    let verdict = doubtful(found, "resume them: raymond recover");
    Some(CheckResult { what: "runs".to_owned(), verdict })
}

fn as_text(findings: &[CheckResult]) -> String {
    let width = findings.iter().map(|finding| finding.what.len()).max().unwrap_or(0);
    let line = |finding: &CheckResult| {
        let (mark, found, advice) = parts(&finding.verdict);
        let what = &finding.what;
        let line = format!("{mark:<7}  {what:<width$}  {}\n", out::one_line(found));
        match advice {
            Some(advice) => {
                let indent = " ".repeat(width + 11);
                format!("{line}{indent}-> {}\n", out::one_line(advice))
            }
            None => line,
        }
    };
    findings.iter().map(line).collect()
}

fn as_json(findings: &[CheckResult]) -> String {
    let list: Vec<_> = findings
        .iter()
        .map(|finding| {
            let (mark, found, advice) = parts(&finding.verdict);
            json!({ "what": finding.what, "verdict": mark, "found": found, "advice": advice })
        })
        .collect();
    format!("{}\n", out::escaped(&json!(list).to_string()))
}

fn parts(verdict: &Diagnosis) -> (&'static str, &str, Option<&str>) {
    match verdict {
        Diagnosis::Good(found) => ("ok", found, None),
        Diagnosis::Doubtful { found, advice } => ("warning", found, Some(advice)),
        Diagnosis::Bad { found, advice } => ("problem", found, Some(advice)),
    }
}
