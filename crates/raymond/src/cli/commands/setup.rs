//! What was typed, made into an engine that can run.

use std::{env, ffi::OsString, path::PathBuf};

use raymond_engine::{
    Engine,
    agent::{Agents, ClaudeAgent, ClaudeConfig, CodingAgent, ProgramAgent},
    debug::DebugFiles,
    events::Observer,
    interrupts::Interrupts,
    layout::StateDir,
};
use raymond_flow::{
    id::RunId,
    machine::{Limits, OnUsageLimit, Settings},
    money::Usd,
};

use crate::{cli::args::Options, failure::Failure, report::Console};

/// Too little for the outcomes of the steps in flight: what must be free before one starts.
const DISK_RESERVE_BYTES: u64 = 32 * 1024 * 1024;

/// How many processes of coding agents are kept: each takes some 150 MB.
const WARM_LIMIT: usize = 4;

pub(super) fn engine(
    state_dir: StateDir,
    agents: &Agents,
    warm: Option<usize>,
    interrupts: Interrupts,
) -> Result<Engine<'_>, Failure> {
    let program = env::current_exe().map_err(|error| Failure::io("find this program", &error))?;
    let reserve = env::var("RAYMOND_DISK_RESERVE").ok().and_then(|text| text.parse().ok());
    Ok(Engine {
        state_dir,
        keeper_program: vec![program.into(), OsString::from("__keeper")],
        agents,
        warm_limit: warm.unwrap_or(WARM_LIMIT),
        disk_reserve_bytes: reserve.unwrap_or(DISK_RESERVE_BYTES),
        interrupts: Some(interrupts),
    })
}

/// Claude Code, and whatever `RAYMOND_AGENT_PROGRAM` names. If that names something, it is meant.
pub(super) fn agents() -> Agents {
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

pub(super) fn observers(
    options: &Options,
    state_dir: &StateDir,
    id: &RunId,
) -> Vec<Box<dyn Observer>> {
    let mut observers: Vec<Box<dyn Observer>> = vec![Box::new(Console::new(options.quiet))];
    if options.debug {
        observers.push(Box::new(DebugFiles::new(&state_dir.debug(), id)));
    }
    observers
}

/// Puts what was typed over what a run had.
pub(super) fn change(
    options: &Options,
    settings: &mut Settings,
    limits: &mut Limits,
) -> Result<(), Failure> {
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
