//! Turns a step into a command with its environment, and hands it to the runner.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
    sync::LazyLock,
};

use raymond_flow::{
    id::{SessionId, StepId},
    machine::{Action, FailureClass, Halt, Launch, SessionPlan, StandIn, Step, Turn, TurnFailure},
    payload::Payload,
    world::World as _,
};

use super::Performer;
use crate::{
    agent::{CodingAgent, ReadyAnswer, TurnCommand, TurnRequest, warm},
    exec::{programs, step::StepFolder, steps::ProcessNumber},
    keeper::{self, LaunchKind},
    observe::answers::turn_end,
    run::{
        error::{EngineError, at_work},
        events::{Event, Observer},
        rewind::SessionPast,
    },
    store::results::{Results, is_damage},
    trust::private,
};

/// The longest value of an environment variable; the kernel accepts little more.
const VARIABLE_BYTES_MAX: usize = 100 * 1024;
/// Variables that have a meaning for one step only. A run inside a run must not pass on those of its own step.
const PER_STEP_VARIABLES: [&str; 9] = [
    "RAYMOND_FOLDER",
    "RAYMOND_RESULT",
    "RAYMOND_RESULT_FILE",
    "RAYMOND_INPUT",
    "RAYMOND_INPUT_FILE",
    "RAYMOND_COMMENT",
    "RAYMOND_COMMENT_FILE",
    "RAYMOND_FILES",
    "RAYMOND_FILES_FILE",
];

/// What the names of a run's own variables begin with. They are not those of a run inside it.
const VARIABLE_PREFIX: &str = "RAYMOND_VAR_";

/// The directory within a step's directory for values that do not fit into an environment.
const VALUES: &str = "values";

/// The most earlier steps of an agent that are searched for the last turn of a session. It is usually the
/// previous one, but a subtask may have taken more in between.
const SESSION_STEPS_MAX: usize = 1000;

/// The fields of the machine's launch effect.
type LaunchEffect<'e> = (&'e StepId, &'e Step, String, Launch);

/// The result of a launch.
pub(crate) enum Launched {
    /// It is in flight.
    Started,
    /// It was started before. It is in flight, and may have ended.
    Found,
    /// It cannot be started.
    Failed(TurnFailure),
    /// It need not be started, because its answer is known.
    Answered(Box<ReadyAnswer>),
    /// It was not started, because the disk is full.
    NoRoom(Halt),
}

impl Performer<'_> {
    /// Starts a step, unless it was started before. The records that ask for it must be durable.
    pub(crate) fn launch(
        &mut self,
        effect: LaunchEffect<'_>,
        observer: &mut dyn Observer,
    ) -> Result<Launched, EngineError> {
        let (id, step, ..) = effect;
        if self.started_before.remove(id) {
            self.reattach(id, step, observer);
            return Ok(Launched::Found);
        }
        match self.start(effect, observer) {
            Err(EngineError::AtWork { what, source }) => match self.no_room(&source) {
                Some(halt) => Ok(Launched::NoRoom(halt)),
                None => Err(at_work(what, source)),
            },
            launched => launched,
        }
    }

    fn start(
        &mut self,
        (id, step, cwd, launch): LaunchEffect<'_>,
        observer: &mut dyn Observer,
    ) -> Result<Launched, EngineError> {
        let folder = self.folder(id);
        let cwd = PathBuf::from(cwd);
        self.make_folder(id)?;
        match (&step.action, launch) {
            (Action::Turn(turn), Launch::Turn { prompt, continuation, earlier, files }) => {
                if let Err(failure) = self.write_values(&files)? {
                    return Ok(Launched::Failed(failure));
                }
                let prompt = match &turn.stand_in {
                    Some(StandIn { of, handoff_from: Some(session) }) => {
                        self.handed_over(id, session, of, &prompt)
                    }
                    _ => prompt,
                };
                let (cwd, prompt, continuation) = (&*cwd, &*prompt, &*continuation);
                let agent = &id.agent;
                let private = self.means.world.agent_folder(agent.as_str());
                let names_it = prompt.contains(&private);
                let state_dir = self.means.files.state_dir().to_owned();
                let scope = self.means.world.scope().to_owned();
                let request = TurnRequest {
                    agent,
                    step,
                    turn,
                    cwd,
                    prompt,
                    continuation,
                    earlier: &earlier,
                    folder: names_it.then_some(Path::new(&private)),
                    state_dir: &state_dir,
                    scope: &scope,
                    // Set below, only if a program is started: it can mean reading a thousand files.
                    follows_a_model: false,
                };
                self.launch_turn(id, &folder, &request, observer)
            }
            (Action::Script { timeout }, Launch::Script { environment }) => {
                let environment = self.script_environment(&folder, step, environment, observer)?;
                let environment = match environment {
                    Ok(environment) => environment,
                    Err(failure) => return Ok(Launched::Failed(failure)),
                };
                let launch = keeper::StepLaunch {
                    claim: folder.claim_text(),
                    folder: folder.path().to_owned(),
                    program: self.script_program(step),
                    environment,
                    without: not_inherited(),
                    cwd,
                    idle_seconds: u64::from(*timeout),
                    kind: LaunchKind::Script,
                };
                tell_start(observer, (id, step), &folder, false, &launch.environment);
                self.hand_to_runner(id, &launch)?;
                Ok(Launched::Started)
            }
            _ => unreachable!("the machine gives a turn a prompt and a script an environment"),
        }
    }

    /// Makes the private directory of an agent, whose path its steps are given.
    fn make_folder(&self, id: &StepId) -> Result<(), EngineError> {
        let path = self.means.world.agent_folder(id.agent.as_str());
        let made = private::create_dir_all(Path::new(&path));
        made.map_err(|error| at_work("make the directory of an agent", error))
    }

    /// Whether the last turn in the session of `turn` named a model. The intents of the agent's earlier
    /// steps say so, or a file if that was in the run that this one was made from.
    fn follows_a_model(&self, id: &StepId, turn: &Turn) -> bool {
        let [own, source] = match &turn.session {
            SessionPlan::Fresh { id } => [Some(id).filter(|_| turn.recovers), None],
            SessionPlan::Resume { id } => [Some(id), None],
            // A retried turn may or may not have created its own session.
            SessionPlan::Branch { from, id, .. } => {
                [Some(id).filter(|_| turn.recovers), Some(from)]
            }
        };
        let last_model = |session: &SessionId| {
            let earlier = (1..id.number).rev().take(SESSION_STEPS_MAX);
            let mut models = earlier.filter_map(|number| {
                let id = StepId { agent: id.agent.clone(), number };
                match self.folder(&id).intent().ok()??.action {
                    Action::Turn(turn) if turn.session.id() == session => Some(turn.settings.model),
                    _ => None,
                }
            });
            match models.next() {
                Some(model) => model,
                None => SessionPast::of(&self.means.files, session).model,
            }
        };
        [own, source].into_iter().flatten().any(|session| last_model(session).is_some())
    }

    /// What the session of `turn` had cost before it, if the coding agent counts by session: from the last turn of that
    /// session, or of the one that it branches off, whose end reported it. What a killed turn spent is so counted with
    /// the next one. Of a session of another run, which this run was made from, that is in a file.
    fn session_total(&self, id: &StepId, turn: &Turn, agent: &dyn CodingAgent) -> Option<String> {
        let session = match &turn.session {
            SessionPlan::Fresh { .. } => return None,
            SessionPlan::Resume { id } => id,
            SessionPlan::Branch { from, .. } => from,
        };
        if !agent.counts_by_session() {
            return None;
        }
        let mut wanted = session.clone();
        for number in (1..id.number).rev().take(SESSION_STEPS_MAX) {
            let folder = self.folder(&StepId { agent: id.agent.clone(), number });
            let Ok(Some(Step { action: Action::Turn(earlier), .. })) = folder.intent() else {
                continue;
            };
            let is_own =
                self.means.agents.for_turn(&earlier).is_ok_and(|own| own.name() == agent.name());
            let end = is_own.then(|| turn_end(&folder, u64::MAX, None, agent).ok()).flatten();
            let Some(end) = end.filter(|end| end.spent.session.as_ref() == Some(&wanted)) else {
                continue;
            };
            if end.total.is_some() {
                return end.total;
            }
            // It branched off and was killed: the total is that of the session before it.
            if let SessionPlan::Branch { from, .. } = earlier.session {
                wanted = from;
            }
        }
        SessionPast::of(&self.means.files, &wanted).total
    }

    /// Starts a turn, in a kept process if there is one for it.
    fn launch_turn(
        &mut self,
        id: &StepId,
        folder: &StepFolder,
        request: &TurnRequest<'_>,
        observer: &mut dyn Observer,
    ) -> Result<Launched, EngineError> {
        let agent = self.means.agents.for_turn(request.turn);
        if let Ok(agent) = agent
            && let Some(answer) = agent.answer(request)
        {
            tell_start(observer, (id, request.step), folder, false, &[]);
            return Ok(Launched::Answered(Box::new(answer)));
        }
        let follows_a_model = self.follows_a_model(id, request.turn);
        let request = &TurnRequest { follows_a_model, ..*request };
        if request.turn.recovers {
            // The message depends on what the session contains, and a process may just be leaving the session.
            warm::wait_until_left(&self.means.files.folder, &request.turn.session);
        }
        let command = agent.and_then(|agent| Ok((agent, found(agent.command(request)?, agent)?)));
        let (agent, command) = match command {
            Ok(found) => found,
            Err(failure) => return Ok(Launched::Failed(failure)),
        };
        let TurnCommand { program, mut environment, mut without, stdin, marks, reuse, before } =
            command;
        environment.push(self.place.mark_variable(folder));
        without.extend(not_inherited());
        let reuse = reuse.filter(|_| self.warm.is_on());
        let launch = keeper::StepLaunch {
            claim: folder.claim_text(),
            folder: folder.path().to_owned(),
            program,
            environment,
            without,
            cwd: request.cwd.to_owned(),
            idle_seconds: u64::from(request.turn.settings.timeout),
            kind: LaunchKind::Turn {
                stdin: folder.prompt(),
                sessions: warm::lock_files(&self.means.files.folder, &request.turn.session),
                marks,
                is_kept: reuse.is_some(),
            },
        };
        tell_start(observer, (id, request.step), folder, false, &launch.environment);
        let create = |before: Option<&str>| {
            let created = folder.create_turn(request.step, &stdin, before);
            created.map_err(|error| at_work("prepare a step", error))
        };
        if let Some(kept) = reuse.as_ref().and_then(|reuse| self.warm.find(request, reuse)) {
            create(kept.total.as_deref())?;
            if self.means.steps.give(kept.number, &launch).is_ok() {
                self.warm.take(kept.number);
                let connection = self.means.steps.connection();
                self.flights.add(id.clone(), connection, Some(kept.number));
                return Ok(Launched::Started);
            }
        }
        // The process that uses the session must be gone first: it may know more than it has written down.
        self.warm.drop_sessions(&request.turn.session);
        self.let_released_go();
        create(before.or_else(|| self.session_total(id, request.turn, agent)).as_deref())?;
        let process = self.hand_to_runner(id, &launch)?;
        if let (Some(number), Some(reuse)) = (process, reuse) {
            self.warm.keep(number, id, request, reuse);
        }
        Ok(Launched::Started)
    }

    fn hand_to_runner(
        &mut self,
        id: &StepId,
        launch: &keeper::StepLaunch,
    ) -> Result<Option<ProcessNumber>, EngineError> {
        let process = self.means.steps.launch(launch);
        let process = process.map_err(|error| at_work("reach the keeper", error))?;
        self.flights.add(id.clone(), self.means.steps.connection(), process);
        Ok(process)
    }

    fn script_program(&self, step: &Step) -> Vec<String> {
        let script = self.means.world.folder().join(step.state.as_str());
        let mut program = self.means.shell.clone();
        program.push(script.to_string_lossy().into_owned());
        program
    }

    /// Whether a script names a variable, and never the file that has its value if the variable cannot.
    fn reads_only_variable(&self, step: &Step, name: &str, file: &str) -> bool {
        let script = self.means.world.folder().join(step.state.as_str());
        let text = fs::read(script).unwrap_or_default();
        let has = |name: &str| memchr::memmem::find(&text, name.as_bytes()).is_some();
        has(name) && !has(file)
    }

    /// The variables of a script: those of the language, and the paths.
    fn script_environment(
        &self,
        folder: &StepFolder,
        step: &Step,
        variables: BTreeMap<String, Payload>,
        observer: &mut dyn Observer,
    ) -> Result<Result<Vec<(String, String)>, TurnFailure>, EngineError> {
        // The variables of the language override these.
        let outer = &self.means.environment;
        let outer = outer.iter().filter(|(name, _)| !variables.contains_key(name));
        let mut environment: Vec<_> = outer.cloned().collect();
        for (name, value) in variables {
            match self.short_text(&value)? {
                Ok(Some(text)) => {
                    environment.push((name, text));
                    continue;
                }
                Ok(None) => {}
                Err(failure) => return Ok(Err(failure)),
            }
            // The value does not fit into an environment: the script finds it in a file. In a separate
            // directory, because an agent may have chosen the name: `stdout` or `exit` would be taken for
            // the step's own files.
            let values = folder.path().join(VALUES);
            let path = values.join(&name);
            let create = folder.create().and_then(|()| private::create_dir_all(&values));
            create.map_err(|error| at_work("prepare a step", error))?;
            if let Err(failure) = self.write_value(&value, &path)? {
                return Ok(Err(failure));
            }
            let file = format!("{name}_FILE");
            if self.reads_only_variable(step, &name, &file) {
                let (state, bytes) = (&step.state, fs::metadata(&path).map_or(0, |it| it.len()));
                let why = if bytes > VARIABLE_BYTES_MAX as u64 {
                    format!("its {bytes} bytes do not fit into a variable")
                } else {
                    "no variable can hold the NUL byte in it".to_owned()
                };
                let text =
                    format!("{state}: ${name} is not set, because {why}: read the file ${file}");
                observer.see(&Event::Trouble(text).now());
            }
            environment.push((file, path.to_string_lossy().into_owned()));
        }
        let path = |path: &Path| path.to_string_lossy().into_owned();
        environment.push(self.place.mark_variable(folder));
        let states = self.means.world.folder_of(step.state.folder());
        environment.push(("RAYMOND_STATE_DIR".to_owned(), path(&states)));
        environment.push(("RAYMOND_STATE_FILE".to_owned(), path(&self.means.files.state)));
        Ok(Ok(environment))
    }

    /// Writes the files that a prompt names. The name of each is a fingerprint of its content, so a file that exists
    /// is replaced by the same content.
    fn write_values(
        &self,
        files: &BTreeMap<String, Payload>,
    ) -> Result<Result<(), TurnFailure>, EngineError> {
        for (path, value) in files {
            let path = Path::new(path);
            let folder = path.parent().map_or(Ok(()), private::create_dir_all);
            folder.map_err(|error| at_work("prepare a step", error))?;
            if let Err(failure) = self.write_value(value, path)? {
                return Ok(Err(failure));
            }
        }
        Ok(Ok(()))
    }

    /// The text of a value, if a variable can hold it: none can hold a NUL byte.
    fn short_text(
        &self,
        value: &Payload,
    ) -> Result<Result<Option<String>, TurnFailure>, EngineError> {
        if value.bytes_min() > VARIABLE_BYTES_MAX as u64 {
            return Ok(Ok(None));
        }
        let text = step_value(Results::of(&self.means.files).text(value))?;
        let fits = |text: &String| text.len() <= VARIABLE_BYTES_MAX && !text.contains('\0');
        Ok(text.map(|text| Some(text).filter(fits)))
    }

    /// Writes a value to a file for a step.
    fn write_value(
        &self,
        value: &Payload,
        path: &Path,
    ) -> Result<Result<(), TurnFailure>, EngineError> {
        step_value(Results::of(&self.means.files).write_to(value, path))
    }
}

/// The step fails if a result in a value that it needs is damaged.
fn step_value<T>(value: io::Result<T>) -> Result<Result<T, TurnFailure>, EngineError> {
    match value {
        Ok(value) => Ok(Ok(value)),
        Err(error) if is_damage(&error) => {
            let (class, message) = (FailureClass::Misconfigured, error.to_string());
            Ok(Err(TurnFailure { class, message }))
        }
        Err(error) => Err(at_work("prepare a step", error)),
    }
}

/// The variables of the orchestrator's environment that no step inherits.
fn not_inherited() -> Vec<String> {
    static OUTER: LazyLock<Vec<String>> = LazyLock::new(|| {
        let names = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
        names.filter(|name| name.starts_with(VARIABLE_PREFIX)).collect()
    });
    PER_STEP_VARIABLES.map(str::to_owned).into_iter().chain(OUTER.iter().cloned()).collect()
}

/// The command with the absolute path of its program: the reaper does not search for it.
fn found(mut command: TurnCommand, agent: &dyn CodingAgent) -> Result<TurnCommand, TurnFailure> {
    let missing = |name: &str| TurnFailure {
        class: FailureClass::NotInstalled,
        message: format!("`{name}` is not installed"),
    };
    let name = command.program.first_mut().ok_or_else(|| missing(agent.name()))?;
    let path = programs::find(name).ok_or_else(|| missing(name))?;
    *name = path.to_string_lossy().into_owned();
    Ok(command)
}

pub(super) fn tell_start(
    observer: &mut dyn Observer,
    (id, step): (&StepId, &Step),
    folder: &StepFolder,
    is_found: bool,
    environment: &[(String, String)],
) {
    let (id, step) = (id.clone(), Box::new(step.clone()));
    let (folder, environment) = (folder.path().to_owned(), environment.to_vec());
    observer.see(&Event::StepStarted { id, step, folder, is_found, environment }.now());
}
