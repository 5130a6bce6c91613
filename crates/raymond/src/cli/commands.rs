//! The commands, one function each.

use std::{
    collections::BTreeMap,
    env,
    ffi::OsString,
    io::{self, Write as _},
    path::{Path, PathBuf},
    process::ExitCode,
    time::Duration,
};

use raymond_engine::{
    Engine, RunEnd,
    agent::{Agents, ClaudeAgent, ClaudeConfig, CodingAgent, ProgramAgent},
    clock,
    debug::DebugFiles,
    events::Observer,
    interrupts::Interrupts,
    layout::StateDir,
    load,
    lock::RunLock,
    scope::ScopeSource,
};
use raymond_flow::{
    id::RunId,
    machine::{Limits, OnUsageLimit, Phase, Settings, Started, Status},
    money::Usd,
};

use super::args::{Options, Place, Start};
use crate::{failure::Failure, report::Console};

/// Too little for the outcomes of the steps in flight: what must be free before one starts.
const DISK_RESERVE_BYTES: u64 = 32 * 1024 * 1024;

/// How long to wait after a usage limit should be lifted.
const RESET_MARGIN: Duration = Duration::from_secs(30);

/// How many processes of coding agents are kept: each takes some 150 MB.
const WARM_LIMIT: usize = 4;

/// `raymond start WORKFLOW`
pub(crate) fn start(arguments: Start) -> Result<ExitCode, Failure> {
    let interrupts = Interrupts::install();
    let Start { workflow, id, input, variables, options } = arguments;
    let workflow = workflow.ok_or_else(|| {
        let message = "a workflow is needed: a state file, a folder or a zip archive";
        Failure::usage(message.to_owned())
    })?;
    let scope = ScopeSource::open(&workflow)?;
    let id = match id {
        Some(id) => RunId::new(&id)?,
        None => fresh_id(&scope.name)?,
    };
    let (mut settings, mut limits) = (Settings::default(), Limits::default());
    change(&options, &mut settings, &mut limits)?;
    let started = Started {
        workflow_id: id.clone(),
        scope_dir: scope.path.to_string_lossy().into_owned(),
        entry: scope.entry,
        cwd: current_folder()?,
        started_at_ms: clock::now_ms(),
        input,
        metadata: variables.into_iter().collect::<BTreeMap<_, _>>(),
        settings,
        limits,
    };
    let state_dir = state_dir(&options.place)?;
    let agents = agents();
    let mut observers = observers(&options, &state_dir, &id);
    let engine = engine(state_dir, &agents, options.warm, interrupts)?;
    finish(&engine.start(started, &mut observers)?)
}

/// `raymond run ID`
pub(crate) fn resume(id: &str, options: &Options) -> Result<ExitCode, Failure> {
    let interrupts = Interrupts::install();
    let id = RunId::new(id)?;
    // A wrong value is found before anything happens.
    change(options, &mut Settings::default(), &mut Limits::default())?;
    let state_dir = state_dir(&options.place)?;
    let agents = agents();
    let mut observers = observers(options, &state_dir, &id);
    let engine = engine(state_dir, &agents, options.warm, interrupts)?;
    let change = |settings: &mut Settings, limits: &mut Limits| {
        let _ = change(options, settings, limits);
    };
    finish(&engine.resume(&id, change, &mut observers)?)
}

/// `raymond recover`
pub(crate) fn recover(options: &Options) -> Result<ExitCode, Failure> {
    let state_dir = state_dir(&options.place)?;
    let mut worst = ExitCode::SUCCESS;
    let mut ids = Vec::new();
    for id in state_dir.run_ids().map_err(|error| Failure::io("list the runs", &error))? {
        let is_dead = load(&state_dir, &id)
            .is_ok_and(|loaded| loaded.run.status == Status::Running)
            && RunLock::holder(&state_dir.run(&id).lock).is_none();
        ids.extend(is_dead.then_some(id));
    }
    let interrupts = Interrupts::install();
    let agents = agents();
    for id in ids {
        let mut observers = observers(options, &state_dir, &id);
        let engine = engine(state_dir.clone(), &agents, options.warm, interrupts.clone())?;
        // One that cannot be taken up does not keep the others from it.
        match engine.resume(&id, |_, _| {}, &mut observers) {
            Ok(end) if end.run.status == Status::Completed => {}
            Ok(end) => {
                worst = exit_code(&end);
                if end.is_interrupted {
                    break;
                }
            }
            Err(error) => worst = Failure::from(error).show(),
        }
    }
    Ok(worst)
}

/// `raymond list`
pub(crate) fn list(place: &Place) -> Result<ExitCode, Failure> {
    let state_dir = state_dir(place)?;
    let mut out = io::stdout().lock();
    for id in state_dir.run_ids().map_err(|error| Failure::io("list the runs", &error))? {
        let line = match load(&state_dir, &id) {
            Ok(loaded) => {
                let run = loaded.run;
                let status = status_word(&state_dir, &id, run.status);
                format!("{id}  {status}  {}  {} agents", run.total_cost_usd, run.agents.len())
            }
            Err(error) => format!("{id}  unreadable: {error}"),
        };
        writeln!(out, "{line}").map_err(|error| Failure::io("print", &error))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// `raymond status ID`
pub(crate) fn status(id: &str, place: &Place) -> Result<ExitCode, Failure> {
    let state_dir = state_dir(place)?;
    let id = RunId::new(id)?;
    let run = load(&state_dir, &id)?.run;
    let mut text = format!(
        "run {id}: {}\nworkflow {}\nspent {}, {} states entered\n",
        status_word(&state_dir, &id, run.status),
        run.scope_dir,
        run.total_cost_usd,
        run.iteration_count,
    );
    for agent in run.agents_by_birth() {
        let about = match &agent.phase {
            Phase::Running { step, .. } => format!("step {} runs", step.number),
            Phase::Ready { .. } | Phase::Called { .. } => "about to start".to_owned(),
            Phase::Queued { .. } => "waits for a place".to_owned(),
            Phase::Waiting { .. } => "waits to try again".to_owned(),
            Phase::Held { asked, .. } => format!("held by a limit before {asked}"),
            Phase::Failed { error, .. } => format!("failed: {error}"),
        };
        let depth = agent.stack.len();
        let (id, state) = (agent.id.as_str(), agent.current_state.as_str());
        text.extend([id, "  ", state, "  depth ", &depth.to_string(), "  ", &about, "\n"]);
    }
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes()).map_err(|error| Failure::io("print", &error))?;
    Ok(ExitCode::SUCCESS)
}

/// `raymond __keeper FOLDER`
pub(crate) fn keep(folder: &Path) -> Result<ExitCode, Failure> {
    raymond_engine::keeper::serve(folder).map_err(|error| Failure::io("keep the run", &error))?;
    Ok(ExitCode::SUCCESS)
}

fn status_word(state_dir: &StateDir, id: &RunId, status: Status) -> &'static str {
    match status {
        Status::Running if RunLock::holder(&state_dir.run(id).lock).is_none() => "died",
        Status::Running => "running",
        Status::Completed => "completed",
        Status::Failed => "failed",
        Status::Stopped => "stopped",
        Status::Paused => "paused",
        Status::Cancelled => "cancelled",
    }
}

/// Standard output carries data only: what `main` handed back.
fn finish(end: &RunEnd) -> Result<ExitCode, Failure> {
    if let (Status::Completed, Some(result)) = (end.run.status, &end.run.result) {
        let mut out = io::stdout().lock();
        writeln!(out, "{result}").map_err(|error| Failure::io("print the result", &error))?;
    }
    Ok(exit_code(end))
}

fn exit_code(end: &RunEnd) -> ExitCode {
    match end.run.status {
        Status::Completed => ExitCode::SUCCESS,
        Status::Stopped => ExitCode::from(3),
        Status::Paused if end.is_interrupted => ExitCode::from(130),
        Status::Paused => ExitCode::from(4),
        Status::Failed | Status::Cancelled | Status::Running => ExitCode::from(1),
    }
}

fn engine(
    state_dir: StateDir,
    agents: &Agents,
    warm: Option<usize>,
    interrupts: Interrupts,
) -> Result<Engine<'_>, Failure> {
    let program = env::current_exe().map_err(|error| Failure::io("find this program", &error))?;
    let number = |name: &str| env::var(name).ok().and_then(|text| text.parse().ok());
    let reset_margin = number("RAYMOND_RESET_MARGIN").map_or(RESET_MARGIN, Duration::from_secs);
    Ok(Engine {
        state_dir,
        keeper_program: vec![program.into(), OsString::from("__keeper")],
        agents,
        warm_limit: warm.unwrap_or(WARM_LIMIT),
        disk_reserve_bytes: number("RAYMOND_DISK_RESERVE").unwrap_or(DISK_RESERVE_BYTES),
        reset_margin,
        interrupts: Some(interrupts),
    })
}

/// Claude Code, and whatever `RAYMOND_AGENT_PROGRAM` names. If that names something, it is meant.
fn agents() -> Agents {
    let text = |name: &str| env::var(name).ok().filter(|text| !text.is_empty());
    let home = text("HOME").map(PathBuf::from).unwrap_or_default();
    let config_dir = text("CLAUDE_CONFIG_DIR").map(PathBuf::from);
    let claude = ClaudeAgent::new(ClaudeConfig {
        program: text("RAYMOND_CLAUDE").unwrap_or_else(|| "claude".to_owned()),
        arguments: Vec::new(),
        config_dir: config_dir.unwrap_or_else(|| home.join(".claude")),
        environment_model: text("ANTHROPIC_MODEL"),
    });
    let mut agents: Vec<Box<dyn CodingAgent>> = vec![Box::new(claude)];
    if let Some(program) = text("RAYMOND_AGENT_PROGRAM") {
        let words = program.split_whitespace().map(str::to_owned).collect();
        agents.insert(0, Box::new(ProgramAgent::new(words)));
    }
    Agents::new(agents)
}

fn observers(options: &Options, state_dir: &StateDir, id: &RunId) -> Vec<Box<dyn Observer>> {
    let mut observers: Vec<Box<dyn Observer>> = vec![Box::new(Console::new(options.quiet))];
    if options.debug {
        observers.push(Box::new(DebugFiles::new(&state_dir.debug(), id)));
    }
    observers
}

fn state_dir(place: &Place) -> Result<StateDir, Failure> {
    match &place.state_dir {
        Some(folder) => {
            let folder = std::path::absolute(folder);
            Ok(StateDir::new(folder.map_err(|error| Failure::io("find the state folder", &error))?))
        }
        None => Ok(StateDir::of_project(Path::new(&current_folder()?))),
    }
}

fn current_folder() -> Result<String, Failure> {
    let folder =
        env::current_dir().map_err(|error| Failure::io("find the current folder", &error))?;
    folder.into_os_string().into_string().map_err(|folder| {
        Failure::usage(format!("the current folder {} is not valid text", folder.to_string_lossy()))
    })
}

fn fresh_id(name: &str) -> Result<RunId, Failure> {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    let mut prefix: String =
        name.chars().map(|c| if is_allowed(c) { c } else { '-' }).take(200).collect();
    if prefix.is_empty() {
        prefix.push_str("run");
    }
    let suffix = uuid::Uuid::new_v4().simple().to_string();
    Ok(RunId::new(&format!("{prefix}-{}", suffix.get(..8).unwrap_or_default()))?)
}

/// Puts what was typed over what a run had.
fn change(options: &Options, settings: &mut Settings, limits: &mut Limits) -> Result<(), Failure> {
    if let Some(model) = &options.model {
        settings.model = Some(model.clone());
    }
    if let Some(effort) = &options.effort {
        settings.effort = Some(effort.clone());
    }
    if let Some(timeout) = options.timeout {
        settings.timeout = Some(timeout);
    }
    if let Some(agent) = &options.agent {
        settings.agent = Some(agent.clone());
    }
    if options.dangerously_skip_permissions {
        settings.skip_permissions = true;
    }
    if options.no_wait {
        settings.on_usage_limit = OnUsageLimit::Pause;
    }
    if let Some(dollars) = options.budget {
        let budget = Usd::from_dollars(dollars).ok_or_else(|| {
            Failure::usage(format!("`--budget {dollars}` is no amount of dollars"))
        })?;
        limits.budget_usd = (budget > Usd::ZERO).then_some(budget);
    }
    if let Some(max) = options.max_iterations {
        limits.max_iterations = (max > 0).then_some(max);
    }
    if let Some(max) = options.max_parallel {
        limits.max_parallel = max;
    }
    if let Some(retries) = options.retries {
        limits.max_retries = retries;
    }
    Ok(())
}
