//! Commands that run workflows.

use std::{
    collections::BTreeMap,
    env, fs,
    io::{self, Read as _, Write as _},
    process::{Command, ExitCode, Stdio},
    time::Duration,
};

use raymond_engine::{
    EngineError, RunEnd, background, clock,
    events::Observer,
    interrupts::Interrupts,
    layout::StateDir,
    load,
    lock::{Owner, RunLock},
    private,
    scope::ScopeSource,
};
use raymond_flow::{
    id::RunId,
    machine::{Limits, Settings, Started, Status},
};

use super::{
    lint,
    place::current_folder,
    prepare::{Surroundings, change, configure},
};
use crate::{
    cli::args::{Options, Place, Start},
    failure::Failure,
    out,
    report::{Lines, closed, words::Level},
};

/// What can be given to a workflow on standard input: as much as a state can hand to another.
const INPUT_BYTES_MAX: u64 = 8 * 1024 * 1024;

/// The exit code of a run that did not come to a good end.
const FAILED: u8 = 1;

/// How often a run in the background is looked for until it has begun.
const DETACH_INTERVAL: Duration = Duration::from_millis(5);

/// `raymond start WORKFLOW`
pub(in crate::cli) fn start(arguments: Start) -> Result<ExitCode, Failure> {
    let Start { workflow, id, input, variables, detach, options } = arguments;
    let workflow = workflow.ok_or_else(|| {
        let message = "a workflow is needed: a state file, a folder or a zip archive";
        Failure::usage(message.to_owned())
    })?;
    let scope = ScopeSource::open(&workflow)?;
    let id = match id {
        Some(id) => RunId::for_new_run(&id)?,
        None => fresh_id(&scope.name)?,
    };
    let mut surroundings = Surroundings::of(&options.place)?;
    let (mut settings, mut limits) = (Settings::default(), Limits::default());
    configure(&surroundings.config, &mut settings, &mut limits);
    change(&options, &mut settings, &mut limits)?;
    settings
        .agent
        .get_or_insert_with(|| surroundings.agents.default_name().unwrap_or_default().to_owned());
    let is_piped = input.as_deref() == Some("-");
    let input = match input {
        Some(_) if is_piped => Some(read_input()?),
        input => input,
    };
    if detach {
        let piped = input.as_deref().filter(|_| is_piped);
        return detached(&surroundings.state_dir, &id, piped);
    }
    surroundings.interrupts = Some(Interrupts::install());
    let started = Started {
        workflow_id: id.clone(),
        identity: String::new(),
        scope_dir: scope.path.to_string_lossy().into_owned(),
        entry: scope.entry,
        cwd: current_folder()?,
        started_at_ms: clock::now_ms(),
        input,
        metadata: variables.into_iter().collect::<BTreeMap<_, _>>(),
        settings,
        limits,
    };
    let mut observers = surroundings.observers(&options, &id)?;
    let end = surroundings.engine(options.warm)?.start(started, &mut observers);
    finish(end, observers, &options)
}

/// What is given on standard input.
fn read_input() -> Result<String, Failure> {
    let mut bytes = Vec::new();
    let read = io::stdin().take(INPUT_BYTES_MAX + 1).read_to_end(&mut bytes);
    read.map_err(|error| Failure::io("read standard input", &error))?;
    if bytes.len() as u64 > INPUT_BYTES_MAX {
        let why = format!("standard input has more than {INPUT_BYTES_MAX} bytes");
        return Err(Failure::usage(why));
    }
    String::from_utf8(bytes)
        .map_err(|_| Failure::usage("standard input is not valid UTF-8".to_owned()))
}

/// Starts the same command again in the background, and tells the run's id. `input` is what was read
/// from standard input, for it to be read again.
fn detached(state_dir: &StateDir, id: &RunId, input: Option<&str>) -> Result<ExitCode, Failure> {
    let io = |what: &'static str| move |error: io::Error| Failure::io(what, &error);
    if state_dir.run(id).journal.exists() {
        return Err(EngineError::Exists { id: id.clone() }.into());
    }
    let workflows = state_dir.workflows();
    private::create_dir_all(&workflows).map_err(io("create the state folder"))?;
    let log = workflows.join(format!("{id}.log"));
    let log = private::options().create(true).append(true).open(log).map_err(io("write a log"))?;
    let program = env::current_exe().map_err(io("find this program"))?;
    let mut words: Vec<_> = env::args_os().skip(1).filter(|word| word != "--detach").collect();
    if !words.iter().any(|word| word.to_string_lossy().starts_with("--id")) {
        words.extend(["--id".into(), id.as_str().into()]);
    }
    let mut command = Command::new(program);
    command.args(words).stdout(log.try_clone().map_err(io("write a log"))?).stderr(log);
    background::set_apart(&mut command);
    command.stdin(if input.is_some() { Stdio::piped() } else { Stdio::null() });
    let mut child = command.spawn().map_err(io("start in the background"))?;
    if let (Some(input), Some(mut stdin)) = (input, child.stdin.take()) {
        let _ = stdin.write_all(input.as_bytes());
    }
    // Until it owns the run or has ended: a mistake is told here.
    let files = state_dir.run(id);
    loop {
        let is_owner = |owner: Owner| owner.pid == child.id();
        if files.journal.exists() && RunLock::holder(&files.lock).is_some_and(is_owner) {
            break;
        }
        if let Some(status) = child.try_wait().map_err(io("start in the background"))? {
            if status.success() {
                break;
            }
            let log = workflows.join(format!("{id}.log"));
            let why = fs::read_to_string(log).unwrap_or_default();
            return Err(Failure::usage(format!("it ended at once: {}", why.trim())));
        }
        std::thread::sleep(DETACH_INTERVAL);
    }
    out::data(&format!("{id}\n"))?;
    Ok(ExitCode::SUCCESS)
}

/// `raymond run ID`
pub(in crate::cli) fn resume(id: &str, options: &Options) -> Result<ExitCode, Failure> {
    let id = RunId::new(id)?;
    // A wrong value is found before anything happens.
    change(options, &mut Settings::default(), &mut Limits::default())?;
    let mut surroundings = Surroundings::of(&options.place)?;
    surroundings.interrupts = Some(Interrupts::install());
    let mut observers = surroundings.observers(options, &id)?;
    let change = |settings: &mut Settings, limits: &mut Limits| {
        let _ = change(options, settings, limits);
    };
    let end = surroundings.engine(options.warm)?.resume(&id, change, &mut observers);
    finish(end, observers, options)
}

/// `raymond cancel ID`
pub(in crate::cli) fn cancel(id: &str, place: &Place) -> Result<ExitCode, Failure> {
    let id = RunId::new(id)?;
    // A mistake in the settings must not keep anybody from this.
    let surroundings =
        Surroundings::of(place).or_else(|_| Surroundings::without_settings(place))?;
    let mut observer = Lines::new(out::people(), Level::Trouble);
    let run = surroundings.engine(None)?.cancel(&id, &mut observer)?;
    match run.status {
        Status::Cancelled => Ok(ExitCode::SUCCESS),
        _ => Err(Failure::usage(format!("run `{id}` is over: there is nothing to cancel"))),
    }
}

/// `raymond recover`
pub(in crate::cli) fn recover(options: &Options) -> Result<ExitCode, Failure> {
    change(options, &mut Settings::default(), &mut Limits::default())?;
    let mut surroundings = Surroundings::of(&options.place)?;
    let state_dir = surroundings.state_dir.clone();
    let mut ids = Vec::new();
    for id in state_dir.run_ids().map_err(|error| Failure::io("list the runs", &error))? {
        let is_dead = load(&state_dir, &id)
            .is_ok_and(|loaded| loaded.run.status == Status::Running)
            && RunLock::holder(&state_dir.run(&id).lock).is_none();
        ids.extend(is_dead.then_some(id));
    }
    surroundings.interrupts = Some(Interrupts::install());
    let mut worst = 0;
    for id in ids {
        let mut observers = surroundings.observers(options, &id)?;
        let change = |settings: &mut Settings, limits: &mut Limits| {
            let _ = change(options, settings, limits);
        };
        let end = surroundings.engine(options.warm)?.resume(&id, change, &mut observers);
        drop(observers);
        // One that cannot be taken up does not keep the others from it. A failure counts most.
        let code = match end {
            Ok(end) if end.is_interrupted => return Ok(ExitCode::from(exit_code(&end))),
            Ok(end) => exit_code(&end),
            Err(error) => {
                Failure::from(error).show();
                FAILED
            }
        };
        worst = if code == FAILED || worst == 0 { code } else { worst };
    }
    Ok(ExitCode::from(worst))
}

/// Standard output carries data only: what `main` handed back.
fn finish(
    end: Result<RunEnd, EngineError>,
    observers: Vec<Box<dyn Observer>>,
    options: &Options,
) -> Result<ExitCode, Failure> {
    // Whoever draws on the terminal leaves it before anything else is written there.
    drop(observers);
    let end = end?;
    if end.run.status == Status::Failed
        && let Some(mistakes) = lint::mistakes(&end.run)
    {
        out::note(&format!("\n{}", mistakes.trim_end()));
    }
    match (&end.run.result, end.run.status) {
        _ if options.json => out::event(&closed(&end.run)),
        (Some(result), Status::Completed) => drop(out::data(&format!("{result}\n"))?),
        _ => {}
    }
    Ok(ExitCode::from(exit_code(&end)))
}

fn exit_code(end: &RunEnd) -> u8 {
    match end.run.status {
        Status::Completed => 0,
        Status::Stopped => 3,
        Status::Paused if end.is_interrupted => 130,
        Status::Paused => 4,
        Status::Failed | Status::Cancelled | Status::Running => FAILED,
    }
}

fn fresh_id(name: &str) -> Result<RunId, Failure> {
    let suffix = uuid::Uuid::new_v4().simple().to_string();
    Ok(RunId::derived(name, suffix.get(..8).unwrap_or_default())?)
}
