//! Makes an engine from settings and options.

use std::{env, ffi::OsString, time::Duration};

use raymond_engine::{
    Engine, Runner,
    agent::Agents,
    observe::debug::DebugFiles,
    run::{events::Observer, interrupts::Interrupts},
    store::{layout::StateDir, user::UserDir},
    trust::private,
};
use raymond_flow::id::RunId;

use super::{place::state_dir, trust::admit};
use crate::{
    asker::Asker,
    cli::args::{Options, Place},
    config::{Config, Overrides, agents},
    failure::{Failure, FailureKind},
    notify::NotifyObserver,
    out,
    report::{JsonLines, Lines, on_terminal, words::Level},
};

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
        let all = &self.config.all;
        Ok(Engine {
            state_dir: self.state_dir.clone(),
            runner: Runner::here(vec![program.into(), OsString::from("__keeper")]),
            agents: &self.agents,
            warm_limit: warm.or(all.warm).unwrap_or_default(),
            is_hurried: false,
            reset_margin: Duration::from_secs(all.reset_margin.unwrap_or_default()),
            disk_reserve_bytes: all.disk_reserve.unwrap_or_default(),
            kept_script_steps: all.keep_script_steps.unwrap_or_default(),
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
        let Overrides { notify_command, notify_on, .. } = &self.config.said;
        if let Some(command) = notify_command.as_ref().filter(|command| !command.is_empty()) {
            let next = super::runs::next(id, &options.place);
            let notify = NotifyObserver::new(command.clone(), notify_on.clone(), next);
            observers.push(Box::new(notify));
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
