//! Effects made real: files read, steps prepared, started, found again and ended.

use std::{
    collections::{HashMap, HashSet},
    ffi::OsString,
    io,
    path::{Path, PathBuf},
    time::Duration,
};

use raymond_flow::{
    id::{AgentId, SessionId, StepId},
    machine::{
        Action, Failure, FailureClass, Input, Launch, Prepared, Run, SessionPlan, Spent, Step, Turn,
    },
    money::Usd,
    turn::{Preparation, prepare},
};

use crate::{
    agent::{Agents, CodingAgent, ReadyAnswer, TurnCommand, TurnRequest},
    clock,
    error::{EngineError, at_work},
    events::{Event, Observer},
    inbox::{Message, Outbox},
    keeper::{self, Keeper, LaunchKind, Link, ReuseMarks, SHORTAGE_INTERVAL},
    layout::RunFiles,
    private, programs,
    retention::Retention,
    scope::DiskWorld,
    step::{StepFolder, StepState, survivors},
    sys,
    tails::Tails,
    timers::{Timer, Timers},
    usage_limit,
    warm::{self, Warm},
};

/// What a value may have in an environment; the kernel takes little more.
const VARIABLE_BYTES_MAX: usize = 100 * 1024;
/// Variables that mean something for one step only. A run inside a run must not hand on its own.
const PER_STEP_VARIABLES: [&str; 4] =
    ["RAYMOND_RESULT", "RAYMOND_RESULT_FILE", "RAYMOND_INPUT", "RAYMOND_INPUT_FILE"];

/// How much sooner answers are given in a hurry.
const HURRY: u32 = 100;

/// A keeper that goes takes unread requests with it, which is nobody's fault; but one that always
/// goes is.
pub(crate) const KEEPERS_LOST_MAX: u32 = 10;

/// Where folders of steps go that belong to another run.
const ASIDE: &str = "aside";

/// Where a step's folder holds the values that do not fit into an environment.
const VALUES: &str = "values";

/// How many steps of an agent are looked at for the last turn of a session. It is mostly the one before;
/// a subtask in between may have taken more.
const SESSION_STEPS_MAX: usize = 1000;

/// After how many looks in a row a stopped process is woken, and killed. See `CHECK_INTERVAL`.
const STOPPED_WAKE: u32 = 2;
const STOPPED_KILL: u32 = 4;

/// How often a keeper is looked for.
const CONNECT_TRIES: u32 = 5;

/// A launch as the machine asks for it.
type LaunchEffect<'e> = (&'e StepId, &'e Step, String, Launch, Option<Usd>);

/// What became of a launch.
pub(crate) enum Launched {
    /// It is on its way; the name of its folder.
    Started(String),
    /// Somebody started it before; the name of its folder.
    Found(String),
    /// There is nothing to start.
    Failed(Failure),
    /// There is nothing to start, because the answer is there.
    Answered(Box<ReadyAnswer>),
}

/// Why a step is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Occasion {
    /// It was asked for just now: it may not have been claimed yet.
    Launched,
    /// An orchestrator that is gone asked for it. It must not start any more.
    Reopened,
    /// Its reaper is done with it.
    Told,
    /// The keeper is gone, perhaps before it had read the request.
    KeeperGone,
}

/// The hands of a run loop.
pub(crate) struct Performer<'a> {
    /// What tells the run from any other of the same id.
    pub(crate) identity: String,
    pub(crate) files: RunFiles,
    pub(crate) world: DiskWorld,
    pub(crate) agents: &'a Agents,
    /// What turns print meanwhile.
    pub(crate) tails: Tails,
    /// Processes that are kept for further turns.
    pub(crate) warm: Warm,
    pub(crate) keeper_program: Vec<OsString>,
    pub(crate) keeper: Option<Keeper>,
    /// Which connection to a keeper this is; a message about an earlier one is out of date.
    pub(crate) connection: u32,
    pub(crate) outbox: Outbox,
    pub(crate) timers: Timers,
    /// Whether waits are over at once.
    pub(crate) is_hurried: bool,
    pub(crate) disk_reserve_bytes: u64,
    /// Variables that every script gets besides those that it inherits.
    pub(crate) environment: Vec<(String, String)>,
    /// Which script steps keep their files.
    pub(crate) retention: Retention,
    /// How much later than promised a usage limit is taken for lifted.
    pub(crate) reset_margin: Duration,
    /// What processes have spent by themselves after their last turns. The next turn that ends pays it.
    pub(crate) unpaid: Spent,
    /// How often all agents have waited for a usage limit since a turn was answered.
    pub(crate) limit_waits: u32,
    /// What the path of a script is put behind.
    pub(crate) shell: Vec<String>,
    /// How many keepers and reapers have gone under our eyes.
    pub(crate) keepers_lost: u32,
    /// What was done about processes that do not do what they are for, to be told.
    pub(crate) remarks: Vec<String>,
    /// Keepers and reapers that are stopped, and how often in a row they were found so.
    pub(crate) stopped: HashMap<sys::Pid, u32>,
    /// Unknown variables are worth one warning per state.
    pub(crate) warned: HashSet<String>,
}

impl Performer<'_> {
    /// What is free on the disk, if that is too little to start anything.
    pub(crate) fn low_disk(&self) -> Option<u64> {
        let free = sys::free_bytes(&self.files.folder).ok()?;
        (free < self.disk_reserve_bytes).then_some(free)
    }

    /// Prepares the next step of `agent`.
    pub(crate) fn prepare(
        &mut self,
        run: &Run,
        agent: &AgentId,
        observer: &mut dyn Observer,
    ) -> Result<Input, EngineError> {
        let fresh = SessionId::new(uuid::Uuid::new_v4().to_string());
        let Preparation { mut input, unknown_variables, warnings } =
            prepare(run, agent, &self.world, fresh);
        for warning in warnings {
            if self.warned.insert(warning.to_string()) {
                observer.see(&Event::StateFileWarning(warning).now());
            }
        }
        if let Input::Prepared { prepared: Ok(Prepared::Start { step, .. }), .. } = &mut input {
            if !unknown_variables.is_empty() && self.warned.insert(step.state.to_string()) {
                let (agent, state) = (agent.clone(), step.state.clone());
                let names = unknown_variables;
                observer.see(&Event::UnknownVariables { agent, state, names }.now());
            }
            self.take_over(agent, step, observer)?;
        }
        Ok(input)
    }

    /// A step that was started under this very id, although nobody remembers: the journal lost its
    /// tail. What was really started counts, above all its session.
    fn take_over(
        &self,
        agent: &AgentId,
        step: &mut Box<Step>,
        observer: &mut dyn Observer,
    ) -> Result<(), EngineError> {
        let id = StepId { agent: agent.clone(), number: step.number };
        let state = self.state(&id, observer)?;
        if state != StepState::Unclaimed
            && let Some(intent) =
                self.folder(&id).intent().map_err(|error| at_work("look at a step", error))?
        {
            **step = intent;
        }
        Ok(())
    }

    /// How a step stands. A folder of the same name that another run left is moved out of the way
    /// first: what is in it says nothing about this run.
    pub(crate) fn state(
        &self,
        id: &StepId,
        observer: &mut dyn Observer,
    ) -> Result<StepState, EngineError> {
        let folder = self.folder(id);
        let look = |error| at_work("look at a step", error);
        let (run, reaper) = match folder.state().map_err(look)? {
            StepState::Foreign { run, reaper } => (run, reaper),
            state => return Ok(state),
        };
        let make_way = || {
            if let Some(reaper) = reaper {
                keeper::kill(&self.files.folder, reaper)?;
            }
            survivors::end(&self.marks(&run, &folder))?;
            folder.set_aside(&self.files.folder.join(ASIDE))
        };
        let place = make_way().map_err(|error| at_work("make way for a step", error))?;
        let (name, place) = (folder.name(), place.display());
        let text = format!("the folder of step {name} is another run's, and was moved to {place}");
        observer.see(&Event::Trouble(text).now());
        folder.state().map_err(look)
    }

    pub(crate) fn folder(&self, id: &StepId) -> StepFolder {
        StepFolder::new(&self.files.steps, id).of_run(&self.identity)
    }

    /// Starts a step, unless it was started before. What asks for it must be durable.
    pub(crate) fn launch(
        &mut self,
        (id, step, cwd, launch, budget_left_usd): LaunchEffect<'_>,
        observer: &mut dyn Observer,
    ) -> Result<Launched, EngineError> {
        let folder = self.folder(id);
        if self.state(id, observer)? != StepState::Unclaimed {
            return Ok(Launched::Found(self.reattach(id, step, observer)));
        }
        let cwd = PathBuf::from(cwd);
        match (&step.action, launch) {
            (Action::Turn(turn), Launch::Turn { prompt, continuation }) => {
                let (cwd, prompt, continuation) = (&*cwd, &*prompt, &*continuation);
                let agent = &id.agent;
                let request = TurnRequest {
                    agent,
                    step,
                    turn,
                    cwd,
                    prompt,
                    continuation,
                    budget_left_usd,
                    // Looked up below, if a program has to be asked: it can mean a thousand files.
                    follows_a_model: false,
                };
                self.launch_turn(id, &folder, &request, observer)
            }
            (Action::Script { timeout }, Launch::Script { environment }) => {
                let launch = keeper::Launch {
                    run: self.identity.clone(),
                    folder: folder.path().to_owned(),
                    program: self.script_program(step),
                    environment: self.script_environment(&folder, environment)?,
                    without: PER_STEP_VARIABLES.map(str::to_owned).to_vec(),
                    cwd,
                    idle_seconds: u64::from(*timeout),
                    kind: LaunchKind::Script,
                };
                tell_start(observer, (id, step), &folder, false, &launch.environment);
                let link = self.send(&launch)?;
                let name = folder.name();
                if let Some(keeper) = &mut self.keeper {
                    keeper.keep(name.clone(), link);
                }
                Ok(Launched::Started(name))
            }
            _ => unreachable!("the machine gives a turn a prompt and a script an environment"),
        }
    }

    /// Whether the last turn in the session of `turn` was asked of a certain model. The intents of the
    /// agent's earlier steps tell.
    fn follows_a_model(&self, id: &StepId, turn: &Turn) -> bool {
        let [own, source] = match &turn.session {
            SessionPlan::Fresh { id } => [Some(id).filter(|_| turn.recovers), None],
            SessionPlan::Resume { id } => [Some(id), None],
            // One that is started again may or may not have its own session by now.
            SessionPlan::Branch { from, id } => [Some(id).filter(|_| turn.recovers), Some(from)],
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
            models.next().flatten()
        };
        [own, source].into_iter().flatten().any(|session| last_model(session).is_some())
    }

    /// Starts a turn, in a process that was kept if there is one for it.
    fn launch_turn(
        &mut self,
        id: &StepId,
        folder: &StepFolder,
        request: &TurnRequest<'_>,
        observer: &mut dyn Observer,
    ) -> Result<Launched, EngineError> {
        let agent = self.agents.for_turn(request.turn);
        if let Ok(agent) = agent
            && let Some(answer) = agent.answer(request)
        {
            tell_start(observer, (id, request.step), folder, false, &[]);
            return Ok(Launched::Answered(Box::new(answer)));
        }
        let follows_a_model = self.follows_a_model(id, request.turn);
        let request = &TurnRequest { follows_a_model, ..*request };
        if request.turn.recovers {
            // What the session knows decides what is said, and a process may just be leaving it.
            warm::wait_until_left(&self.files.folder, &request.turn.session);
        }
        let command = agent.and_then(|agent| found(agent.command(request)?, agent));
        let command = match command {
            Ok(command) => command,
            Err(failure) => return Ok(Launched::Failed(failure)),
        };
        let TurnCommand { program, mut environment, mut without, stdin, reuse } = command;
        environment.push(self.mark_variable(folder));
        without.extend(PER_STEP_VARIABLES.map(str::to_owned));
        let reuse = reuse.filter(|_| self.warm.is_on());
        let launch = keeper::Launch {
            run: self.identity.clone(),
            folder: folder.path().to_owned(),
            program,
            environment,
            without,
            cwd: request.cwd.to_owned(),
            idle_seconds: u64::from(request.turn.settings.timeout),
            kind: LaunchKind::Turn {
                stdin: folder.prompt(),
                sessions: warm::lock_files(&self.files.folder, &request.turn.session),
                reuse: reuse.as_ref().map(|reuse| ReuseMarks {
                    done: reuse.done_mark.clone(),
                    turn: reuse.turn_mark.clone(),
                }),
            },
        };
        tell_start(observer, (id, request.step), folder, false, &launch.environment);
        let create = |before: Option<&str>| {
            let created = folder.create_turn(request.step, &stdin, before);
            created.map_err(|error| at_work("prepare a step", error))
        };
        let name = folder.name();
        if let Some(kept) = reuse.as_ref().and_then(|reuse| self.warm.find(request, reuse)) {
            create(kept.total.as_deref())?;
            if self.warm.hand_over(&kept, id, &launch).is_ok() {
                return Ok(Launched::Started(name));
            }
        }
        // Whoever leads the session must be gone first: it may know more than is written down.
        self.warm.drop_sessions(&request.turn.session);
        create(None)?;
        let link = self.send(&launch)?;
        if let Some(reuse) = reuse {
            let kept = self.warm.keep(link, id, request, reuse);
            kept.map_err(|error| at_work("reach the keeper", error))?;
        }
        Ok(Launched::Started(name))
    }

    fn script_program(&self, step: &Step) -> Vec<String> {
        let script = self.world.folder().join(step.state.as_str());
        let mut program = self.shell.clone();
        program.push(script.to_string_lossy().into_owned());
        program
    }

    /// The variables of a script: what the language says, and where things are.
    fn script_environment(
        &self,
        folder: &StepFolder,
        variables: std::collections::BTreeMap<String, String>,
    ) -> Result<Vec<(String, String)>, EngineError> {
        // What the language gives a step stands over these.
        let outer = self.environment.iter().filter(|(name, _)| !variables.contains_key(name));
        let mut environment: Vec<_> = outer.cloned().collect();
        for (name, value) in variables {
            // No variable can hold a NUL byte.
            if value.len() <= VARIABLE_BYTES_MAX && !value.contains('\0') {
                environment.push((name, value));
                continue;
            }
            // It does not fit into an environment: the script finds it in a file. In a folder of its own,
            // because an agent may have chosen the name: `stdout` or `exit` would pass for the step's.
            let values = folder.path().join(VALUES);
            let path = values.join(&name);
            let create = folder.create().and_then(|()| private::create_dir_all(&values));
            let written = create.and_then(|()| private::write(&path, value));
            written.map_err(|error| at_work("prepare a step", error))?;
            environment.push((format!("{name}_FILE"), path.to_string_lossy().into_owned()));
        }
        let path = |path: &Path| path.to_string_lossy().into_owned();
        environment.push(self.mark_variable(folder));
        environment.push(("RAYMOND_STATE_DIR".to_owned(), path(self.world.folder())));
        environment.push(("RAYMOND_STATE_FILE".to_owned(), path(&self.files.state)));
        Ok(environment)
    }

    /// The marks by which all processes of a step of run `identity` can be found: the process of a later
    /// turn has the mark of its first one.
    pub(crate) fn marks(&self, identity: &str, folder: &StepFolder) -> Vec<String> {
        let names = [Some(folder.name()), folder.first_step()].into_iter().flatten();
        names.map(|name| self.mark(identity, &name)).collect()
    }

    fn mark(&self, identity: &str, step: &str) -> String {
        if identity.is_empty() {
            // A run of an earlier version, which has only its place to tell it from others.
            let place = self.files.folder.as_os_str().as_encoded_bytes();
            return survivors::mark(&format!("{:08x}", crc32fast::hash(place)), step);
        }
        survivors::mark(identity, step)
    }

    /// The same as a variable for a process of the step.
    fn mark_variable(&self, folder: &StepFolder) -> (String, String) {
        let outer = std::env::var_os(survivors::MARK);
        (
            survivors::MARK.to_owned(),
            survivors::marks(outer, &self.mark(&self.identity, &folder.name())),
        )
    }

    /// Hands a step to a reaper, and starts a keeper if there is none.
    fn send(&mut self, launch: &keeper::Launch) -> Result<Link, EngineError> {
        // A keeper that is just leaving may still take the call; the next one will not be leaving.
        let mut tries = 0;
        loop {
            tries += 1;
            match self.connected().and_then(|keeper| keeper.launch(launch)) {
                Ok(link) => return Ok(link),
                // It has just gone; what nobody took has not been started.
                Err(error) if tries <= CONNECT_TRIES => {
                    match error.kind() {
                        io::ErrorKind::TimedOut => self.remarks.push(error.to_string()),
                        // No process or thread can be started just now.
                        io::ErrorKind::WouldBlock => std::thread::sleep(SHORTAGE_INTERVAL * tries),
                        _ => {}
                    }
                    self.keeper = None;
                }
                Err(error) => return Err(at_work("reach the keeper", error)),
            }
        }
    }

    fn connected(&mut self) -> io::Result<&mut Keeper> {
        let keeper = self.keeper.take().map_or_else(|| self.connect(), Ok)?;
        Ok(self.keeper.insert(keeper))
    }

    fn connect(&mut self) -> io::Result<Keeper> {
        let keeper = Keeper::connect(&self.files.folder, &self.keeper_program, &self.outbox)?;
        self.connection += 1;
        let (wait, outbox) = (keeper.wait_until_gone()?, self.outbox.clone());
        let connection = self.connection;
        std::thread::Builder::new().spawn(move || {
            wait();
            outbox.send(&Message::KeeperGone(connection));
        })?;
        Ok(keeper)
    }

    /// Notes a step that somebody started before. Returns the name of its folder.
    pub(crate) fn reattach(&self, id: &StepId, step: &Step, observer: &mut dyn Observer) -> String {
        let folder = self.folder(id);
        tell_start(observer, (id, step), &folder, true, &[]);
        folder.name()
    }

    /// Shows what a turn under way has done lately.
    pub(crate) fn glance(&mut self, run: &Run, id: &StepId, observer: &mut dyn Observer) {
        let Some((_, Step { action: Action::Turn(turn), .. })) = run.running_step(id) else {
            return;
        };
        let folder = self.folder(id);
        if let Ok(agent) = self.agents.for_turn(turn) {
            for activity in self.tails.glance(id, &folder, agent) {
                observer.see(&Event::Activity { id: id.clone(), activity }.now());
            }
        }
    }

    /// Gives an answer when its time has come. In a hurry it keeps its place among others.
    pub(crate) fn answer_later(&mut self, id: StepId, answer: Box<ReadyAnswer>) {
        let after = if self.is_hurried { answer.after / HURRY } else { answer.after };
        self.timers.set(after, Timer::Answer(id, answer));
    }

    /// Whether nobody has taken a step yet.
    pub(crate) fn is_unclaimed(&self, id: &StepId) -> bool {
        matches!(self.folder(id).state(), Ok(StepState::Unclaimed))
    }

    /// Asks whoever looks after a step to end it, with everybody whom it started.
    pub(crate) fn end(&self, id: &StepId) {
        let folder = self.folder(id);
        if let Ok(StepState::Running(reaper)) = folder.state() {
            keeper::end(self.keeper.as_ref(), &folder.name(), reaper);
        }
    }

    /// Takes note that a connection is over.
    pub(crate) fn keeper_is_gone(&mut self, connection: u32) {
        if connection == self.connection {
            self.keeper = None;
        }
        self.keepers_lost += 1;
    }

    /// Takes note that a reaper was killed.
    pub(crate) fn reaper_is_gone(&mut self) {
        self.keepers_lost += 1;
    }

    /// Takes note that a process that was kept is gone. Returns the name of the folder of the step
    /// that it was to have had.
    pub(crate) fn line_is_gone(&mut self, line: u32) -> Option<String> {
        let (step, leaving) = self.warm.gone(line);
        if let Some(spent) = leaving.and_then(|leaving| self.spent_unasked(&leaving)) {
            self.unpaid.cost_usd += spent.cost_usd;
            self.unpaid.tokens += spent.tokens;
        }
        step.map(|id| self.folder(&id).name())
    }

    /// Takes note that a step has ended.
    pub(crate) fn step_is_over(&mut self, name: &str, occasion: Occasion) {
        if let Some(keeper) = &mut self.keeper {
            keeper.step_is_over(name, occasion == Occasion::Told);
        }
    }

    /// Takes note that a keeper did what it is for.
    pub(crate) fn keeper_works(&mut self) {
        self.keepers_lost = 0;
    }

    /// Sends the keeper away, and returns it if it has yet to go.
    pub(crate) fn dismiss_keeper(&mut self) -> Option<Keeper> {
        self.warm.drop_idle();
        keeper::stopped(&self.files.folder).into_iter().for_each(sys::wake);
        let mut keeper = self.keeper.take()?;
        keeper.shut_down().is_ok().then_some(keeper)
    }

    /// Looks for keepers and reapers that are stopped: what they look after has no timeout and
    /// cannot be ended. They are woken, and killed if that does not help. Found so only once, they
    /// may have been stopped together with us, and be woken next.
    pub(crate) fn wake_stopped(&mut self) {
        let found = keeper::stopped(&self.files.folder);
        self.stopped.retain(|pid, _| found.contains(pid));
        for pid in found {
            let times = self.stopped.entry(pid).or_default();
            *times += 1;
            if *times == STOPPED_WAKE {
                sys::wake(pid);
                let text = format!("process {pid} of the run's keeper was stopped; it was woken");
                self.remarks.push(text);
            } else if *times >= STOPPED_KILL && keeper::kill(&self.files.folder, pid).is_ok() {
                let text = format!("process {pid} of the run's keeper stays stopped; killed");
                self.remarks.push(text);
            }
        }
    }

    /// Kills the reaper of a step that was asked to end it and has not.
    pub(crate) fn kill_reaper(&mut self, id: &StepId) {
        if let Ok(StepState::Running(Some(reaper))) = self.folder(id).state()
            && keeper::IS_APART
            && keeper::kill(&self.files.folder, reaper).is_ok()
        {
            let text = format!("step {id} could not be ended; its reaper {reaper} was killed");
            self.remarks.push(text);
        }
    }

    pub(crate) fn wait(&mut self, agent: AgentId, delay_ms: u64) {
        // Agents that failed together should not come back together.
        let jitter_percent = 75 + u64::from(uuid::Uuid::new_v4().as_bytes()[0]) * 50 / 255;
        let delay_ms = if self.is_hurried { 0 } else { delay_ms * jitter_percent / 100 };
        let delay = Duration::from_millis(delay_ms);
        self.timers.set(delay, Timer::Wake(agent));
    }

    pub(crate) fn wait_for_usage_limit(&mut self, resets_at: Option<u64>) {
        // It may be hours.
        self.warm.drop_idle();
        let wait =
            usage_limit::wait(resets_at, clock::now_ms(), self.reset_margin, self.limit_waits);
        self.limit_waits += 1;
        let delay = if self.is_hurried { Duration::ZERO } else { wait };
        self.timers.set(delay, Timer::UsageLimit);
    }
}

/// The command with its program looked up: the reaper takes it as it is.
fn found(mut command: TurnCommand, agent: &dyn CodingAgent) -> Result<TurnCommand, Failure> {
    let missing = |name: &str| Failure {
        class: FailureClass::NotInstalled,
        message: format!("`{name}` is not installed; {}", agent.install_advice()),
    };
    let name = command.program.first_mut().ok_or_else(|| missing(agent.name()))?;
    let path = programs::find(name).ok_or_else(|| missing(name))?;
    *name = path.to_string_lossy().into_owned();
    Ok(command)
}

fn tell_start(
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
