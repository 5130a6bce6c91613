//! From an agent's work to the step that does it.

use std::collections::BTreeMap;

use thiserror::Error;

use crate::{
    coding_agent::UnknownAgent,
    id::{AgentId, SessionId, StateName},
    machine::{
        Action, Agent, Answer, Conclusion, Evaluation, Input, Launch, Message, Overrider, Prepared,
        Reminder, Replaced, Run, Session, SessionPlan, Settings, Step, Turn, TurnSettings, Visit,
        Work,
    },
    payload::Payload,
    policy::{Evaluator, Policy, Source, Transition, UnsafeName, Verdict},
    prompt::{continuation, more_money, render, with_messages},
    scope::{Folder, ResolveError},
    source::{
        Diagnostic, Frontmatter, Prompt, Schema, SchemaSource, StateFile, StateFileError,
        StateSource, Timeout, VisitLimit, fingerprint,
    },
    text::{excerpt, looks_like_an_option},
    world::{World, WorldError},
};

use super::{
    conclude::{Said, accepted, asked_now, judge_answer},
    failover::{Choice, choose},
    variables::{INPUT, names},
};

/// The prepared step, and what the user should know about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Preparation {
    /// The input for the machine.
    pub input: Input,
    /// Names in the prompt that are not variables.
    pub unknown_variables: Vec<String>,
    /// Warnings about the state file.
    pub warnings: Vec<Diagnostic>,
}

/// Prepares the next step of `agent`. `fresh` is the id of a session that does not exist yet.
pub fn prepare(run: &Run, agent: &AgentId, world: &dyn World, fresh: SessionId) -> Preparation {
    let mut notes = PrepareNotes::default();
    let prepared = match run.agents.get(agent) {
        None => Err(PrepareError::Gone),
        Some(agent) => Preparer { run, agent, world, fresh, notes: &mut notes }.work(),
    };
    let prepared = match prepared {
        Ok(Prepared::Settled(conclusion)) => Ok(Prepared::Settled(asked_now(conclusion, world))),
        prepared => prepared.map_err(|error| error.to_string()),
    };
    Preparation {
        input: Input::Prepared { agent: agent.clone(), prepared },
        unknown_variables: notes.unknown_variables,
        warnings: notes.warnings,
    }
}

/// Why a step cannot be prepared.
#[derive(Debug, Error)]
enum PrepareError {
    #[error("the agent has ended")]
    Gone,
    #[error(transparent)]
    World(#[from] WorldError),
    #[error(transparent)]
    Resolve(#[from] ResolveError),
    #[error(transparent)]
    StateFile(#[from] StateFileError),
    #[error("evaluator `{evaluator}`: {error}")]
    Evaluator { evaluator: String, error: Box<PrepareError> },
    #[error("evaluator `{0}` is not a prompt")]
    EvaluatorIsScript(StateName),
    #[error(
        "the {what} `{value}` begins with a dash: it would become an option of the coding agent"
    )]
    Option { what: &'static str, value: String },
    #[error("`then` of `max_visits`: {0}")]
    Then(String),
    #[error(
        "`{state}` was entered more than {max_visits} times, and the `then` of another state with `max_visits` led \
         to it: let one of the two lead elsewhere"
    )]
    DivertedTwice { state: StateName, max_visits: u32 },
    #[error("evaluator number {0} is not in the policy")]
    NoSuchEvaluator(usize),
    #[error("`schema` of the state is in `{file}`: {why}")]
    Schema { file: String, why: String },
    #[error("`{0}` uses {{{{input}}}}, but the run was started without an input")]
    NoInput(StateName),
    #[error(transparent)]
    UnknownAgent(#[from] UnknownAgent),
    #[error("a variable that the step would be given: {0}")]
    Variable(#[from] UnsafeName),
    #[error("`{agent}` cannot do what `{key}` of the state asks for")]
    Unable { agent: String, key: &'static str },
    #[error("`{agent}` cannot branch a session, which <call> needs; <function> starts a fresh one")]
    CannotBranch { agent: String },
    #[error(
        "`{agent}` does not report what its turns cost, so the budget cannot be kept; configure its prices, \
         or run without a budget (`--budget 0`)"
    )]
    UnknownCost { agent: String },
    #[error(
        "the session belongs to the coding agent `{owner}`, and `{agent}` cannot resume it; enter this state by \
         <reset>, <function> or <fork>"
    )]
    ForeignSession { owner: String, agent: String },
}

#[derive(Default)]
struct PrepareNotes {
    unknown_variables: Vec<String>,
    warnings: Vec<Diagnostic>,
}

pub(super) struct Preparer<'a> {
    pub(super) run: &'a Run,
    pub(super) agent: &'a Agent,
    pub(super) world: &'a dyn World,
    fresh: SessionId,
    notes: &'a mut PrepareNotes,
}

impl Preparer<'_> {
    fn work(self) -> Result<Prepared, PrepareError> {
        match self.agent.phase.work() {
            None => Err(PrepareError::Gone),
            Some(Work::Enter) => self.enter(),
            Some(Work::Rejudge(answer)) => self.rejudge(answer),
            Some(Work::Remind(reminder)) if self.is_stopped(&reminder.visit.settings) => {
                Ok(Prepared::Blocked)
            }
            Some(Work::Remind(reminder)) => Ok(self.remind(reminder)),
            Some(Work::Evaluate(evaluation)) => self.evaluate(evaluation),
            Some(Work::Follow { transition, source }) => {
                Ok(Prepared::Settled(Conclusion::Follow {
                    transition: (**transition).clone(),
                    source: *source,
                    session: None,
                    replaced: None,
                }))
            }
        }
    }

    fn enter(self) -> Result<Prepared, PrepareError> {
        let file = self.file(self.agent.current_state.file_name())?;
        self.enter_file(file)
    }

    fn enter_file(self, file: StateFile) -> Result<Prepared, PrepareError> {
        Ok(match file.source {
            StateSource::Script => {
                let timeout = self.run.settings.timeout.unwrap_or(Timeout::DEFAULT);
                let launch = Launch::Script { environment: self.environment()? };
                self.start(file.name, Some(file.digest), Action::Script { timeout }, launch)
            }
            StateSource::Prompt(prompt) => {
                let Prompt { frontmatter, body, warnings, .. } = *prompt;
                self.notes.warnings = warnings;
                if let Some(diverted) = self.visited_too_often(&frontmatter)? {
                    return Ok(diverted);
                }
                let mut variables = self.variables(&body)?;
                if frontmatter.is_input_optional && variables.get(INPUT).is_none() {
                    variables.set(INPUT, "");
                }
                let rendered = render(&body, &variables);
                self.check_input(&file.name, &rendered.unknown)?;
                self.notes.unknown_variables = rendered.unknown;
                let policy = frontmatter.policy();
                self.check_evaluators(&policy)?;
                let settings = self.own_settings(&frontmatter)?;
                let Some(choice) = self.choose(settings) else { return Ok(Prepared::Blocked) };
                self.check_agent(&choice.settings, &choice.plan)?;
                if matches!(choice.plan, SessionPlan::Resume { .. } | SessionPlan::Branch { .. }) {
                    self.check_owner(&choice.settings)?;
                }
                let text = (rendered.text, self.files(&body));
                self.turn((file.name, Some(file.digest)), choice, policy, text)
            }
        })
    }

    /// What is followed instead of carrying out the state, if the agent has entered it too often.
    fn visited_too_often(
        &self,
        frontmatter: &Frontmatter,
    ) -> Result<Option<Prepared>, PrepareError> {
        let Some(limit) = &frontmatter.visit_limit else { return Ok(None) };
        let VisitLimit { max_visits, then } = &limit.value;
        if self.agent.visit() <= *max_visits {
            return Ok(None);
        }
        let state = self.agent.current_state.clone();
        if self.agent.diverted {
            return Err(PrepareError::DivertedTwice { state, max_visits: *max_visits });
        }
        let context = super::conclude::judge_context(self.world, self.agent);
        let transition = crate::policy::judge_transition(then, &context);
        let transition = transition.map_err(|problem| PrepareError::Then(problem.to_string()))?;
        let by = Overrider::Visits { max_visits: *max_visits };
        // The tag that led here is in the record before; what it asked for was to enter this state.
        let asked = Transition::Goto { target: state, input: None };
        Ok(Some(Prepared::Settled(Conclusion::Follow {
            transition,
            source: Source::Tag,
            session: None,
            replaced: Some(Replaced { asked, by }),
        })))
    }

    /// If an evaluator cannot be asked, the agent fails before the turn that the evaluator should judge is paid
    /// for, not after.
    fn check_evaluators(&self, policy: &Policy) -> Result<(), PrepareError> {
        for evaluator in &policy.evaluators {
            if let Evaluator::Prompt { prompt: name, model } = evaluator {
                let in_evaluator = |error| PrepareError::Evaluator {
                    evaluator: name.clone(),
                    error: Box::new(error),
                };
                let (_, _, prompt) = self.evaluator(name)?;
                let settings = settings(&prompt.frontmatter, model.as_deref(), &self.run.settings);
                let plan = SessionPlan::Fresh { id: self.fresh.clone() };
                settings
                    .and_then(|settings| self.check_agent(&settings, &plan))
                    .map_err(in_evaluator)?;
            }
        }
        Ok(())
    }

    /// A first state without the input that it uses is refused before it is paid for.
    fn check_input(&self, state: &StateName, unknown: &[String]) -> Result<(), PrepareError> {
        let is_first = self.run.iteration_count == 1;
        if is_first && unknown.iter().any(|name| name == INPUT) {
            return Err(PrepareError::NoInput(state.clone()));
        }
        Ok(())
    }

    /// A turn that its coding agent cannot take, or whose cost would not be known, is refused before it is
    /// paid for.
    fn check_agent(&self, settings: &TurnSettings, plan: &SessionPlan) -> Result<(), PrepareError> {
        let can = self.world.coding_agents().get(settings.agent.as_deref())?;
        let agent = || settings.agent.clone().unwrap_or_else(|| "the coding agent".to_owned());
        if matches!(plan, SessionPlan::Branch { .. }) && !can.can_branch {
            return Err(PrepareError::CannotBranch { agent: agent() });
        }
        if let Some(key) = settings.demands().find(|key| !can.can_do(key)) {
            return Err(PrepareError::Unable { agent: agent(), key });
        }
        if self.run.limits.budget_usd.is_some() && !can.reports_cost {
            return Err(PrepareError::UnknownCost { agent: agent() });
        }
        Ok(())
    }

    /// Who takes the turn for the state's own prompt; `None` if it has to wait.
    fn choose(&self, settings: TurnSettings) -> Option<Choice> {
        let can_take =
            |settings: &TurnSettings, plan: &SessionPlan| self.check_agent(settings, plan).is_ok();
        let owner = self.agent.session_agent.as_deref();
        choose(self.run, owner, (settings, self.plan()), &self.fresh, can_take)
    }

    /// Whether the coding agent of a further turn in a session is not available.
    fn is_stopped(&self, settings: &TurnSettings) -> bool {
        settings.agent.as_ref().is_some_and(|name| self.run.stopped.contains_key(name))
    }

    /// A session can be resumed and branched only by the coding agent that made it.
    fn check_owner(&self, settings: &TurnSettings) -> Result<(), PrepareError> {
        match (&self.agent.session, self.foreign_owner(settings)) {
            (Session::Open(_) | Session::Branch { .. }, Some((owner, agent))) => {
                let (owner, agent) = (owner.to_owned(), agent.to_owned());
                Err(PrepareError::ForeignSession { owner, agent })
            }
            (Session::Fresh, _) | (_, None) => Ok(()),
        }
    }

    /// The coding agent of the agent's session and the one of `settings`, if they are not the same.
    fn foreign_owner<'b>(&'b self, settings: &'b TurnSettings) -> Option<(&'b str, &'b str)> {
        let owner = self.agent.session_agent.as_deref()?;
        settings.agent.as_deref().filter(|agent| *agent != owner).map(|agent| (owner, agent))
    }

    /// A rejected answer is paid for: if it is valid now that the workflow was fixed, use it.
    fn rejudge(self, answer: &Answer) -> Result<Prepared, PrepareError> {
        let file = self.file(self.agent.current_state.file_name())?;
        if let StateSource::Prompt(prompt) = &file.source {
            let frontmatter = &prompt.frontmatter;
            let visit = Visit {
                session: answer.session.clone(),
                settings: self.own_settings(frontmatter)?,
                policy: frontmatter.policy(),
            };
            let context = super::conclude::judge_context(self.world, self.agent);
            let said = Said { text: &answer.text, output: self.agent.said.as_ref() };
            let schema = visit.settings.options.schema.as_ref();
            if let Verdict::Accept(found) = judge_answer(said, schema, &visit.policy, &context) {
                let conclusion = accepted(visit, said, found, 0, &context);
                return Ok(Prepared::Settled(conclusion));
            }
        }
        self.enter_file(file)
    }

    fn remind(self, reminder: &Reminder) -> Prepared {
        let Visit { session, settings, policy } = reminder.visit.clone();
        let plan = SessionPlan::Resume { id: session };
        let state = (self.agent.current_state.clone(), None);
        let choice = Choice { settings, plan, stand_in: None };
        self.turn(state, choice, policy, (reminder.text.clone(), BTreeMap::new()))
    }

    fn evaluate(self, evaluation: &Evaluation) -> Result<Prepared, PrepareError> {
        let Evaluation { visit, index, .. } = evaluation;
        let Some(Evaluator::Prompt { prompt, model }) = visit.policy.evaluators.get(*index) else {
            return Err(PrepareError::NoSuchEvaluator(*index));
        };
        let (name, digest, prompt) = self.evaluator(prompt)?;
        let Prompt { frontmatter, body, warnings, .. } = *prompt;
        self.notes.warnings = warnings;
        let (plan, text) = if let Some((session, reminder)) = &evaluation.reminder {
            let text = (reminder.clone(), BTreeMap::new());
            (SessionPlan::Resume { id: session.clone() }, text)
        } else {
            let mut variables = self.variables(&body)?;
            let said = Said { text: &evaluation.output, output: self.agent.said.as_ref() };
            variables.set("output", said.whole());
            if names(&body, "transition") {
                let transition = self.whole(evaluation.transition.clone())?;
                variables.set("transition", transition.to_string());
            }
            let rendered = render(&body, &variables);
            self.notes.unknown_variables = rendered.unknown;
            let text = (rendered.text, self.files(&body));
            (SessionPlan::Fresh { id: self.fresh.clone() }, text)
        };
        let settings = settings(&frontmatter, model.as_deref(), &self.run.settings)?;
        if self.is_stopped(&settings) {
            return Ok(Prepared::Blocked);
        }
        let choice = Choice { settings, plan, stand_in: None };
        Ok(self.turn((name, Some(digest)), choice, visit.policy.clone(), text))
    }

    /// The prompt of an evaluator, with its file's name and digest.
    fn evaluator(&self, name: &str) -> Result<(StateName, String, Box<Prompt>), PrepareError> {
        let evaluator = || name.to_owned();
        let file = self.file(name).map_err(|error| PrepareError::Evaluator {
            evaluator: evaluator(),
            error: Box::new(error),
        })?;
        match file.source {
            StateSource::Prompt(prompt) => Ok((file.name, file.digest, prompt)),
            StateSource::Script => Err(PrepareError::EvaluatorIsScript(file.name)),
        }
    }

    /// The settings of the state's own turns, with its schema.
    fn own_settings(&self, frontmatter: &Frontmatter) -> Result<TurnSettings, PrepareError> {
        let mut settings = settings(frontmatter, self.agent.function_model(), &self.run.settings)?;
        settings.options.schema = match frontmatter.schema.as_ref().map(|schema| &schema.value) {
            None => None,
            Some(SchemaSource::Inline(schema)) => Some(schema.to_json()),
            Some(SchemaSource::File(file)) => {
                let path = format!("{}{file}", self.agent.current_state.folder());
                let schema = Schema::read(&self.world.read(&path)?);
                let wrong = |why| PrepareError::Schema { file: file.clone(), why };
                Some(schema.map_err(wrong)?.to_json())
            }
        };
        Ok(settings)
    }

    /// A file in the folder of the agent's state.
    fn file(&self, name: &str) -> Result<StateFile, PrepareError> {
        let folder = Folder::open(self.world, self.agent.current_state.folder())?;
        let name = folder.state(name)?;
        let bytes = self.world.read(name.as_str())?;
        let mut read = StateFile::read(name.as_str(), &bytes, self.world.platform());
        let found = match &mut read {
            Err(StateFileError::Frontmatter { diagnostics }) => diagnostics.as_mut_slice(),
            Ok(StateFile { source: StateSource::Prompt(prompt), .. }) => &mut prompt.warnings,
            Ok(_) | Err(_) => &mut [],
        };
        for found in found {
            self.world.locate(found);
        }
        Ok(read?)
    }

    /// The session for the state's own prompt.
    fn plan(&self) -> SessionPlan {
        let id = self.fresh.clone();
        match &self.agent.session {
            Session::Fresh => SessionPlan::Fresh { id },
            Session::Open(session) => SessionPlan::Resume { id: session.clone() },
            Session::Branch { from } => {
                let cwd = self.agent.directory_of(from).filter(|cwd| *cwd != self.agent.cwd);
                SessionPlan::Branch { from: from.clone(), id, cwd: cwd.map(str::to_owned) }
            }
        }
    }

    fn turn(
        self,
        (state, digest): (StateName, Option<String>),
        choice: Choice,
        policy: Policy,
        (prompt, files): (String, BTreeMap<String, Payload>),
    ) -> Prepared {
        let Choice { settings, plan: session, stand_in } = choice;
        let prompt_digest = fingerprint(prompt.as_bytes());
        let can_continue = self
            .world
            .coding_agents()
            .get(settings.agent.as_deref())
            .is_ok_and(|can| can.can_continue);
        // An evaluator's turns have sessions of their own.
        let is_own = !matches!(self.agent.phase.work(), Some(Work::Evaluate(_)));
        let is_foreign = is_own && self.foreign_owner(&settings).is_some();
        let left = self.agent.tries.left.as_ref();
        // Only the session that contains this very prompt can continue it.
        let left =
            left.filter(|left| left.prompt_digest == prompt_digest && can_continue && !is_foreign);
        let recovers = left.is_some();
        let session = left.map_or(session, |left| left.plan.clone());
        let spent_share = left.is_some_and(|left| left.spent_share);
        let continuation = if spent_share { more_money(&policy) } else { continuation(&policy) };
        let messages: Vec<_> = self.agent.unheard().filter(|_| is_own).collect();
        let is_new =
            |message: &&&Message| left.is_none_or(|left| !left.given.contains(&message.id));
        let prompt = with_messages(prompt, messages.iter().copied());
        let continuation = with_messages(continuation, messages.iter().filter(is_new).copied());
        let earlier = messages.iter().filter(|message| !is_new(message)).map(|it| (*it).clone());
        let earlier = earlier.collect();
        let given = messages.iter().map(|message| message.id.clone()).collect();
        let budget_usd = None;
        let turn = Turn {
            session,
            settings,
            policy,
            prompt_digest,
            recovers,
            spent_share,
            stand_in,
            given,
            budget_usd,
        };
        let launch = Launch::Turn { prompt, continuation, earlier, files };
        self.start(state, digest, Action::Turn(turn), launch)
    }

    fn start(
        self,
        state: StateName,
        digest: Option<String>,
        action: Action,
        launch: Launch,
    ) -> Prepared {
        let number = self.agent.steps + 1;
        let attempt = self.agent.tries.starts + 1;
        Prepared::Start { step: Box::new(Step { number, state, digest, attempt, action }), launch }
    }

    /// The transition with its whole payload.
    fn whole(&self, mut transition: Transition) -> Result<Transition, WorldError> {
        if let Transition::Result { payload } = &mut transition {
            *payload = self.world.text(payload)?.into();
        }
        Ok(transition)
    }
}

/// The coding agent and its settings for a prompt: those of the state first, then those of the tag or
/// evaluator that asked for it, then those of the run.
fn settings(
    frontmatter: &Frontmatter,
    asked_model: Option<&str>,
    defaults: &Settings,
) -> Result<TurnSettings, PrepareError> {
    let own = |value: &Option<crate::text::Spanned<String>>| {
        value.as_ref().map(|value| value.value.clone())
    };
    let settings = TurnSettings {
        agent: own(&frontmatter.agent).or_else(|| defaults.agent.clone()),
        model: own(&frontmatter.model)
            .or_else(|| asked_model.map(str::to_owned))
            .or_else(|| defaults.model.clone()),
        effort: own(&frontmatter.effort).or_else(|| defaults.effort.clone()),
        timeout: frontmatter
            .timeout
            .as_ref()
            .map(|timeout| timeout.value)
            .or(defaults.timeout)
            .unwrap_or(Timeout::DEFAULT),
        skip_permissions: defaults.skip_permissions,
        granted: Vec::new(),
        tools: frontmatter.tools.as_ref().map(|tools| tools.value.clone()),
        permissions: own(&frontmatter.permissions),
        budget_usd: frontmatter.budget.as_ref().map(|budget| budget.value),
        options: frontmatter.options.clone(),
    };
    let TurnSettings { agent, model, effort, permissions, .. } = &settings;
    let arguments =
        [("agent", agent), ("model", model), ("effort", effort), ("permissions", permissions)];
    for (what, value) in arguments {
        if let Some(value) = value.as_ref().filter(|value| looks_like_an_option(value)) {
            return Err(PrepareError::Option { what, value: excerpt(value) });
        }
    }
    Ok(settings)
}
