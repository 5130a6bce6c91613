//! Runs in the background: a process of its own carries on the run, and outlives the command that started it.

use std::{
    env,
    ffi::OsString,
    fs,
    io::{self, Write as _},
    process::{Command, ExitCode, Stdio},
    thread,
    time::Duration,
};

use raymond_engine::{
    exec::processes,
    store::{
        layout::StateDir,
        lock::{Owner, RunLock},
    },
    trust::private,
};
use raymond_flow::id::RunId;

use super::runs;
use crate::{
    cli::args::Options,
    failure::{DETACHED, Failure},
    out,
    report::advice,
};

/// How often to check whether a run in the background has begun.
const LOOK_INTERVAL: Duration = Duration::from_millis(5);

/// What goes on in the background.
#[derive(Clone, Copy)]
pub(super) enum Detached<'a> {
    /// A new run. `input` is what was read from standard input or asked for: the command reads it from its standard
    /// input.
    New { input: Option<&'a str> },
    /// A run that is resumed. `is_named` says that its id was typed.
    Resumed { is_named: bool },
}

/// Starts the same command again in the background, and prints the run's id, or for programs what the run is.
pub(super) fn detached(
    state_dir: &StateDir,
    id: &RunId,
    what: Detached<'_>,
    options: &Options,
) -> Result<ExitCode, Failure> {
    let mut words: Vec<OsString> = env::args_os().skip(1).collect();
    // What follows `--` is no option.
    let end = words.iter().position(|word| word == "--").unwrap_or(words.len());
    let operands = words.split_off(end);
    words.retain(|word| word != "--detach" && word != "--json");
    let has = |option: &str| words.iter().any(|word| word.to_string_lossy().starts_with(option));
    let (more, input): (Vec<OsString>, _) = match what {
        Detached::New { input } => {
            let id = (!has("--id")).then(|| ["--id".into(), id.as_str().into()]);
            let piped = input.filter(|_| !has("--input")).map(|_| ["--input".into(), "-".into()]);
            (id.into_iter().chain(piped).flatten().collect(), input)
        }
        Detached::Resumed { is_named: false } => (vec![id.as_str().into()], None),
        Detached::Resumed { is_named: true } => (Vec::new(), None),
    };
    words.extend(more);
    words.push(DETACHED.into());
    words.extend(operands);
    begin(state_dir, id, words, input)?;
    if options.json {
        return runs::changed(state_dir, id, true);
    }
    out::data(&format!("{id}\n"))?;
    if out::shows_data() {
        let next = runs::next(id, &options.place);
        out::people().line(&advice("Watch it:", &next.command("attach")));
    }
    Ok(ExitCode::SUCCESS)
}

/// Resumes a run in the background.
pub(super) fn resume(state_dir: &StateDir, id: &RunId) -> Result<(), Failure> {
    let words = ["resume", id.as_str(), DETACHED, "--data-dir"].map(OsString::from);
    let place = state_dir.root().as_os_str().to_owned();
    begin(state_dir, id, words.into_iter().chain([place]).collect(), None)
}

/// Starts this program with `words`, and waits until it has begun or resumed the run, or has refused to.
fn begin(
    state_dir: &StateDir,
    id: &RunId,
    words: Vec<OsString>,
    input: Option<&str>,
) -> Result<(), Failure> {
    let io = |what: &'static str| move |error: io::Error| Failure::io(what, &error);
    state_dir.create().map_err(io("create the state directory"))?;
    let workflows = state_dir.workflows();
    private::create_dir_all(&workflows).map_err(io("create the state directory"))?;
    let log_path = workflows.join(format!("{id}.log"));
    let log = private::options().create(true).append(true).open(&log_path);
    let log = log.map_err(io("write a log"))?;
    // What an earlier process wrote there.
    let before = log.metadata().map_or(0, |log| log.len());
    let files = state_dir.run(id);
    let journal_bytes = || fs::metadata(&files.journal).map_or(0, |journal| journal.len());
    let begun = journal_bytes();
    let mut command = Command::new(env::current_exe().map_err(io("find this program"))?);
    command.args(words).stdout(log.try_clone().map_err(io("write a log"))?).stderr(log);
    processes::set_apart(&mut command);
    command.stdin(if input.is_some() { Stdio::piped() } else { Stdio::null() });
    let mut child = command.spawn().map_err(io("start in the background"))?;
    if let (Some(input), Some(mut stdin)) = (input, child.stdin.take()) {
        let _ = stdin.write_all(input.as_bytes());
    }
    loop {
        let is_owner = |owner: Owner| owner.pid == child.id();
        // It may own the run and still refuse it. What it begins or resumes is in the journal.
        if journal_bytes() > begun && RunLock::holder(&files.lock).is_some_and(is_owner) {
            return Ok(());
        }
        if let Some(status) = child.try_wait().map_err(io("start in the background"))? {
            let log = fs::read(&log_path).unwrap_or_default();
            let printed = log.get(usize::try_from(before).unwrap_or(0)..).unwrap_or_default();
            let printed = String::from_utf8_lossy(printed);
            if status.success() {
                return Ok(());
            }
            if let Some(failure) = Failure::of_process(&printed) {
                return Err(failure);
            }
            // The run may have begun and ended meanwhile, in whatever way.
            if journal_bytes() > begun {
                return Ok(());
            }
            let message = format!("the run in the background ended at once: {}", printed.trim());
            return Err(Failure::of_work(message));
        }
        thread::sleep(LOOK_INTERVAL);
    }
}
