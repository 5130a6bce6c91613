//! Makes an engine from settings and options.

use std::{env, ffi::OsString, path::PathBuf, time::Duration};

use raymond_engine::{
    Engine, Runner,
    agent::{
        Agents, ClaudeAgent, ClaudeConfig, CodingAgent, NATIVES, NativeConfig, ProgramAgent,
        account,
    },
    observe::debug::DebugFiles,
    run::{events::Observer, interrupts::Interrupts},
    store::{layout::StateDir, user::UserDir},
    trust::private,
};
use raymond_flow::{
    id::RunId,
    machine::{Limits, OnAsk, OnUsageLimit, Settings},
    money::Usd,
    source::Timeout,
};

use super::{place::state_dir, trust::admit};
use crate::{
    agent_settings::CLAUDE,
    asker::Asker,
    cli::args::{Options, Place},
    config::{Config, user_folder},
    failure::{Failure, FailureKind},
    notify::NotifyObserver,
    out,
    report::{JsonLines, Lines, on_terminal, words::Level},
};

/// The variables that choose the account that Claude Code uses.
const CLAUDE_CREDENTIALS: [&str; 4] =
    ["ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_BASE_URL", "CLAUDE_CODE_OAUTH_TOKEN"];

/// The name in frontmatter of the program of the setting `agent_program`.
const PROGRAM: &str = "program";

/// The settings of a project. A mistake in them is none of the command line.
fn settings(state_dir: &StateDir) -> Result<Config, Failure> {
    Config::load(state_dir.root()).map_err(|failure| failure.with_kind(FailureKind::Refused))
}

/// Everything of the project that a run needs.
pub(super) struct LoadedProject {
    pub(super) state_dir: StateDir,
    pub(super) config: Config,
    pub(super) agents: Agents,
    pub(super) interrupts: Option<Interrupts>,
}

impl LoadedProject {
    /// Reads the settings of the project.
    pub(super) fn of(place: &Place) -> Result<Self, Failure> {
        let state_dir = state_dir(place)?;
        let config = settings(&state_dir)?;
        let agents = agents(&config);
        Ok(Self { state_dir, config, agents, interrupts: None })
    }

    /// The same for a command that starts something: settings that give power must be trusted.
    pub(super) fn admitted(place: &Place) -> Result<Self, Failure> {
        let state_dir = state_dir(place)?;
        let mut config = settings(&state_dir)?;
        admit(&mut config, &state_dir, place)?;
        let agents = agents(&config);
        Ok(Self { state_dir, config, agents, interrupts: None })
    }

    /// The project with default settings, for commands that must work although its settings are wrong.
    pub(super) fn without_settings(place: &Place) -> Result<Self, Failure> {
        let config = Config::default();
        let agents = agents(&config);
        Ok(Self { state_dir: state_dir(place)?, config, agents, interrupts: None })
    }

    /// The engine. `warm` is the option, if it was given.
    pub(super) fn engine(&self, warm: Option<usize>) -> Result<Engine<'_>, Failure> {
        let program = env::current_exe();
        let program = program.map_err(|error| Failure::io("find this program", &error))?;
        let number = |name: &str| -> u64 {
            self.config.text(name).and_then(|text| text.parse().ok()).unwrap_or_default()
        };
        let warm = warm.unwrap_or_else(|| usize::try_from(number("warm")).unwrap_or(usize::MAX));
        Ok(Engine {
            state_dir: self.state_dir.clone(),
            runner: Runner::here(vec![program.into(), OsString::from("__keeper")]),
            agents: &self.agents,
            warm_limit: warm,
            is_hurried: false,
            reset_margin: Duration::from_secs(number("reset_margin")),
            disk_reserve_bytes: number("disk_reserve"),
            kept_script_steps: usize::try_from(number("keep_script_steps")).unwrap_or(usize::MAX),
            user_dir: UserDir::here(),
            environment: Vec::new(),
            answerer: None,
            interrupts: self.interrupts.clone(),
        })
    }

    /// The observers of a run.
    pub(super) fn observers(
        &self,
        options: &Options,
        id: &RunId,
    ) -> Result<Vec<Box<dyn Observer>>, Failure> {
        let level = level(options);
        let files = Some(self.state_dir.run(id));
        let is_live = !options.json && !options.quiet;
        let mut observers: Vec<Box<dyn Observer>> = Vec::new();
        if options.json {
            observers.push(Box::new(JsonLines::new(files.as_ref())));
        }
        observers.push(if is_live {
            on_terminal(level, files.clone())
        } else {
            Box::new(Lines::new(out::people(), level, files.clone()))
        });
        // After the observer that draws on the terminal, which makes room for it.
        if !options.json {
            let next = super::runs::next(id, &options.place);
            observers.push(Box::new(Asker::new(self.state_dir.clone(), next)));
        }
        if !self.config.notify.is_empty() {
            let next = super::runs::next(id, &options.place);
            observers.push(Box::new(NotifyObserver::new(self.config.notify.clone(), next)));
        }
        if let Some(path) = &options.log_file {
            let file = private::options().create(true).append(true).open(path);
            let file = file.map_err(|error| {
                Failure::io(&format!("write to {}", path.display()), &error)
                    .with_hint("name a file that can be written: --log-file FILE")
            })?;
            let file = out::LineSink::of_file(file);
            observers.push(Box::new(Lines::with_times(file, Level::Detail, files)));
        }
        if options.debug {
            observers.push(Box::new(DebugFiles::new(&self.state_dir.debug(), id)));
        }
        Ok(observers)
    }
}

/// How much the user wants to see.
pub(super) fn level(options: &Options) -> Level {
    match (options.quiet, options.verbose) {
        (true, _) => Level::Trouble,
        (_, true) => Level::Detail,
        _ => Level::News,
    }
}

/// Claude Code, the other coding agents that Raymond knows, and every configured one. `agent_program`, if it is set, is
/// the default.
pub(super) fn agents(config: &Config) -> Agents {
    let text = |name: &str| env::var(name).ok().filter(|text| !text.is_empty());
    let home = text("HOME").map(PathBuf::from).unwrap_or_default();
    let config_dir = text("CLAUDE_CONFIG_DIR").map(PathBuf::from);
    let own = config.agents.get(CLAUDE).cloned().unwrap_or_default();
    let questions = own.questions();
    // `[claude]` is an older name of `[agents.claude]`; the environment overrides both.
    let program = config.said_by_environment("claude.program").map(str::to_owned);
    let program = program.or(own.program);
    let program = program.or_else(|| config.text("claude.program").map(str::to_owned));
    let config_dir = config_dir.unwrap_or_else(|| home.join(".claude"));
    // A login is kept in its directory; a key or another address takes precedence.
    let credentials = CLAUDE_CREDENTIALS.map(|name| text(name).unwrap_or_default());
    let home_text = config_dir.to_string_lossy();
    let parts = std::iter::once(&*home_text).chain(credentials.iter().map(String::as_str));
    let claude = ClaudeAgent::new(ClaudeConfig {
        name: CLAUDE.to_owned(),
        program: program.unwrap_or_else(|| "claude".to_owned()),
        arguments: own.arguments.unwrap_or_else(|| config.claude_arguments.clone()),
        account: Some(account(CLAUDE, parts)),
        config_dir: config_dir.clone(),
        closed_dirs: closed_dirs(),
        questions,
        tools: own.tools.unwrap_or_default(),
        fallback_model: own.fallback_model,
        max_turns: own.max_turns,
        system: own.system,
        mcp: own.mcp,
        add_dirs: own.add_dirs,
        model: own.model,
        environment_model: text("ANTHROPIC_MODEL"),
    });
    let mut agents: Vec<Box<dyn CodingAgent>> = vec![Box::new(claude)];
    for native in NATIVES.iter().filter(|native| !config.agents.contains_key(native.name)) {
        let name = native.name.to_owned();
        agents.push((native.make)(NativeConfig { name, ..NativeConfig::default() }));
    }
    for (name, settings) in config.agents.iter().filter(|(name, _)| *name != CLAUDE) {
        agents.push(settings.agent(name));
    }
    if let Some(program) = config.text("agent_program") {
        let mut settings = config.agents.get(PROGRAM).cloned().unwrap_or_default();
        let mut words = program.split_whitespace().map(str::to_owned);
        settings.program = words.next();
        settings.arguments = Some(words.collect());
        agents.retain(|agent| agent.name() != PROGRAM);
        agents.insert(0, Box::new(ProgramAgent::new(settings.program_config(PROGRAM))));
    }
    Agents::new(agents)
}

/// Where the user's key and settings are.
fn closed_dirs() -> Vec<PathBuf> {
    let state = UserDir::here().map(|user| user.root().to_owned());
    state.into_iter().chain(user_folder(|name| env::var_os(name))).collect()
}

/// Applies the settings to the defaults of a new run.
pub(super) fn configure(config: &Config, settings: &mut Settings, limits: &mut Limits) {
    settings.model = config.said("model").or(settings.model.take());
    settings.effort = config.said("effort").or(settings.effort.take());
    settings.agent = config.said("agent").or(settings.agent.take());
    settings.timeout = config.said("timeout").or(settings.timeout);
    settings.skip_permissions |= config.said::<bool>("dangerously_skip_permissions") == Some(true);
    if let Some(what) = config.said::<String>("ask") {
        settings.on_ask = on_ask(&what);
    }
    if config.said("no_wait") == Some(true) {
        do_not_wait(settings);
    }
    settings.usage_max = config.said("usage_max").filter(|percent| *percent > 0);
    if let Some(budget) = config.said("budget").and_then(Usd::from_dollars) {
        limits.budget_usd = (budget > Usd::ZERO).then_some(budget);
    }
    if let Some(most) = config.said("max_iterations") {
        limits.max_iterations = (most > 0).then_some(most);
    }
    limits.max_parallel = config.said("max_parallel").unwrap_or(limits.max_parallel);
    let retries = config.said("retries");
    limits.max_retries = retries.unwrap_or(limits.max_retries);
    limits.retry_for_ms =
        retry_for_ms(retries, config.said("retry_for")).unwrap_or(limits.retry_for_ms);
}

/// What the value of the setting `ask` means.
fn on_ask(what: &str) -> OnAsk {
    match what {
        "default" => OnAsk::Default,
        "fail" => OnAsk::Fail,
        _ => OnAsk::Wait,
    }
}

fn do_not_wait(settings: &mut Settings) {
    settings.on_usage_limit = OnUsageLimit::Pause;
    if settings.on_ask == OnAsk::Wait {
        settings.on_ask = OnAsk::Pause;
    }
}

/// Applies the options to the settings and limits of a run.
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
    if let Some(percent) = options.usage_max {
        settings.usage_max = (percent > 0).then_some(percent);
    }
    if let Some(what) = &options.ask {
        settings.on_ask = on_ask(what);
    }
    if options.no_wait {
        do_not_wait(settings);
    }
    if let Some(dollars) = options.budget {
        let budget = Usd::from_dollars(dollars).ok_or_else(|| {
            Failure::usage(format!("`--budget {dollars}` is not an amount of dollars"))
        })?;
        limits.budget_usd = (budget > Usd::ZERO).then_some(budget);
    }
    if let Some(max) = options.max_iterations {
        limits.max_iterations = (max > 0).then_some(max);
    }
    if let Some(max) = options.max_parallel {
        limits.max_parallel = max;
    }
    limits.max_retries = options.retries.unwrap_or(limits.max_retries);
    limits.retry_for_ms =
        retry_for_ms(options.retries, options.retry_for).unwrap_or(limits.retry_for_ms);
    Ok(())
}

/// How long a turn is retried after transient failures, if that is given. No retries means none of either kind,
/// unless the time is given, too.
pub(super) fn retry_for_ms(retries: Option<u32>, retry_for: Option<Timeout>) -> Option<u64> {
    let given = retry_for.map(|time| u64::from(time).saturating_mul(1000));
    given.or((retries == Some(0)).then_some(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_retries_are_none_of_either_kind_unless_the_time_is_given() {
        let time = Some(Timeout::from_seconds(90));
        assert_eq!(retry_for_ms(None, None), None);
        assert_eq!(retry_for_ms(Some(3), None), None);
        assert_eq!(retry_for_ms(Some(0), None), Some(0));
        assert_eq!(retry_for_ms(Some(0), time), Some(90_000));
    }
}
