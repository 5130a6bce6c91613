//! From the outcome of a step to its meaning.

use thiserror::Error;

use crate::{
    id::{SessionId, StepId},
    machine::{
        Action, Again, Agent, Answer, Conclusion, Evaluation, FailureClass, Input, Left, Overrider,
        Reminder, Replaced, Run, SessionPlan, Spent, Turn, TurnFailure, Visit, Work,
    },
    money::Usd,
    policy::{
        Accepted, Evaluator, JudgeContext, Opinion, Policy, Problem, Source, Transition, Verdict,
        judge, judge_script, judge_transition, next_opinion,
    },
    prompt::{evaluator_reminder, reminder},
    source::{OUTPUT_BYTES_MAX, Schema},
    tag::{self, Tag, TagError, TagKind},
    text::Spanned,
    world::World,
};

use super::own_question::{self, OwnQuestion};

/// More than any turn costs.
const COST_MAX: Usd = Usd::from_billionths(100_000 * 1_000_000_000);

/// What the engine saw of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// A script ended or was killed.
    Script {
        /// How it ended.
        exit: Exit,
        /// The one tag on its standard output.
        tag: Result<Spanned<Tag>, TagError>,
    },
    /// A coding agent answered.
    Reply {
        /// Its final message.
        text: String,
    },
    /// A coding agent asks with a tool of its own, and its turn waits for the answer.
    Asks {
        /// What it asks.
        questions: Vec<OwnQuestion>,
    },
    /// A coding agent did not answer.
    Failed(TurnFailure),
    /// The outcome is lost.
    Lost,
    /// It was never started.
    NotStarted,
    /// Raymond killed it, together with the run.
    Interrupted,
    /// It failed while the disk was full, which says nothing about it.
    NoRoom,
}

/// How a script ended.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum Exit {
    /// By itself, with this exit code.
    #[error("exited with code {0}")]
    Code(i32),
    /// Killed by this signal.
    #[error("was killed by signal {0}")]
    Signal(i32),
    /// It printed nothing for too long.
    #[error("printed nothing for {seconds} seconds and was killed")]
    TimedOut {
        /// The timeout.
        seconds: u64,
    },
    /// It could not be started.
    #[error("could not be started")]
    NotRun,
}

/// Decides what the outcome of a step means, by the rules under which the step was started. For a step that
/// is no longer running, the machine ignores the conclusion.
pub fn conclude(
    run: &Run,
    step: &StepId,
    outcome: Outcome,
    mut spent: Spent,
    world: &dyn World,
) -> Input {
    spent.output = spent.output.filter(|output| output.len() <= OUTPUT_BYTES_MAX);
    let outcome = match run.running_step(step).map(|(_, running)| &running.action) {
        Some(Action::Turn(turn)) => believed(outcome, &mut spent, turn),
        Some(Action::Script { .. }) | None => outcome,
    };
    let conclusion = match run.running_step(step) {
        None => again(Again::NotStarted),
        Some((agent, running)) => match &running.action {
            Action::Script { .. } => script(agent, outcome, world),
            Action::Turn(turn) => turn_outcome(agent, turn, outcome, &spent, world),
        },
    };
    Input::Ended { step: step.clone(), spent, conclusion: asked_now(conclusion, world) }
}

/// The outcome of a turn whose cost can be true. Otherwise the turn has failed, and all that it could have spent counts
/// as spent: a wrong cost must not let a run spend more than its budget.
fn believed(outcome: Outcome, spent: &mut Spent, turn: &Turn) -> Outcome {
    let too_much = || {
        let is_absurd = spent.cost_usd > COST_MAX;
        is_absurd.then(|| format!("it reports a cost of {}", spent.cost_usd))
    };
    let Some(doubt) = spent.doubt.clone().or_else(too_much) else { return outcome };
    spent.cost_usd = turn.budget_usd.unwrap_or_default();
    spent.doubt = Some(doubt.clone());
    let counted = spent.cost_usd;
    let message =
        format!("what the turn cost cannot be true: {doubt}; {counted} is counted for it");
    match outcome {
        Outcome::Reply { .. } | Outcome::Asks { .. } => {
            Outcome::Failed(TurnFailure { class: FailureClass::Misconfigured, message })
        }
        Outcome::Failed(TurnFailure { class, message: failure }) => {
            Outcome::Failed(TurnFailure { class, message: format!("{failure}; {message}") })
        }
        other @ (Outcome::Script { .. }
        | Outcome::Lost
        | Outcome::NotStarted
        | Outcome::Interrupted
        | Outcome::NoRoom) => other,
    }
}

/// Gives a question that is about to be asked its deadline.
pub(super) fn asked_now(mut conclusion: Conclusion, world: &dyn World) -> Conclusion {
    if let Conclusion::Follow { transition: Transition::Ask(question), .. } = &mut conclusion {
        question.ask_at(world.now_ms());
    }
    conclusion
}

fn again(why: Again) -> Conclusion {
    Conclusion::Again { why, left: None }
}

/// What is needed to judge the answers of `agent`.
pub(super) fn judge_context<'a>(world: &'a dyn World, agent: &'a Agent) -> JudgeContext<'a> {
    JudgeContext { world, cwd: &agent.cwd, folder: agent.current_state.folder() }
}

/// A script cannot be reminded, so every mistake of a script stops the run.
fn script(agent: &Agent, outcome: Outcome, world: &dyn World) -> Conclusion {
    let state = &agent.current_state;
    let fatal = |error: String| Conclusion::Fail { error, work: Work::Enter, is_fatal: true };
    match outcome {
        Outcome::Script { exit: Exit::Code(0), tag } => {
            match judge_script(tag, &judge_context(world, agent)) {
                Ok(transition) => Conclusion::Follow {
                    transition,
                    source: Source::Tag,
                    session: None,
                    replaced: None,
                },
                Err(problem) => fatal(format!("script `{state}`: {problem}")),
            }
        }
        Outcome::Script { exit, .. } => fatal(format!("script `{state}` {exit}")),
        Outcome::Lost => again(Again::Lost),
        Outcome::NotStarted => again(Again::NotStarted),
        Outcome::Interrupted => again(Again::Interrupted),
        Outcome::NoRoom => again(Again::NoRoom),
        // It may succeed when the machine has room for one more process.
        Outcome::Failed(failure) if matches!(failure.class, FailureClass::Transient { .. }) => {
            again(Again::Failed(failure))
        }
        Outcome::Failed(failure) => fatal(format!("script `{state}`: {failure}")),
        Outcome::Reply { .. } | Outcome::Asks { .. } => {
            fatal(format!("script `{state}` gave an agent's answer"))
        }
    }
}

fn turn_outcome(
    agent: &Agent,
    turn: &Turn,
    outcome: Outcome,
    spent: &Spent,
    world: &dyn World,
) -> Conclusion {
    let reported = spent.session.as_ref();
    // A coding agent that is no longer configured has no capabilities, but its earlier answers still count.
    let capabilities = world.coding_agents().get(turn.settings.agent.as_deref());
    let names_sessions = capabilities.is_ok_and(|can| can.names_sessions);
    let left = left(turn, spent, names_sessions);
    let again = |why| Conclusion::Again { why, left };
    match outcome {
        Outcome::Reply { text } => match session(turn, reported, names_sessions) {
            Err(failure) => Conclusion::Again { why: Again::Failed(failure), left: None },
            Ok(session) => match agent.phase.work() {
                Some(Work::Evaluate(evaluation)) => {
                    evaluator_reply(agent, &session, evaluation, &text, world)
                }
                Some(Work::Enter | Work::Rejudge(_) | Work::Remind(_) | Work::Follow { .. })
                | None => {
                    let output = spent.output.as_ref().or(agent.said.as_ref());
                    reply(agent, turn, session, Said { text: &text, output }, world)
                }
            },
        },
        Outcome::Asks { questions } => match session(turn, reported, names_sessions) {
            Err(failure) => Conclusion::Again { why: Again::Failed(failure), left: None },
            Ok(session) => match agent.phase.work() {
                // A verdict needs no person: the evaluator is reminded of what it may answer.
                Some(Work::Evaluate(evaluation)) => {
                    evaluator_reply(agent, &session, evaluation, "", world)
                }
                _ => asks(agent, turn, session, &questions),
            },
        },
        Outcome::Failed(failure) => again(Again::Failed(failure)),
        Outcome::Lost => again(Again::Lost),
        Outcome::Interrupted => again(Again::Interrupted),
        Outcome::NoRoom => again(Again::NoRoom),
        Outcome::NotStarted => Conclusion::Again { why: Again::NotStarted, left: None },
        Outcome::Script { .. } => Conclusion::Fail {
            error: "a coding agent ended like a script".to_owned(),
            work: Work::Enter,
            is_fatal: false,
        },
    }
}

/// The session in which a turn was answered. Some programs silently start a new session if they do not find
/// the one to resume, so the id that they report is compared.
fn session(
    turn: &Turn,
    reported: Option<&SessionId>,
    names_sessions: bool,
) -> Result<SessionId, TurnFailure> {
    let failed = |class, message| Err(TurnFailure { class, message });
    match (&turn.session, reported) {
        (SessionPlan::Resume { id }, Some(other)) if other != id => failed(
            FailureClass::SessionMissing,
            format!(
                "session `{id}` was not resumed: the coding agent answered in session `{other}`"
            ),
        ),
        (SessionPlan::Branch { from, .. }, Some(same)) if same == from => failed(
            FailureClass::Misconfigured,
            format!("session `{from}` was not branched: the coding agent went on in it"),
        ),
        (SessionPlan::Fresh { .. } | SessionPlan::Branch { .. }, None) if names_sessions => failed(
            FailureClass::Misconfigured,
            "the coding agent names its own sessions, but did not report the id of this one"
                .to_owned(),
        ),
        (plan, reported) => Ok(reported.unwrap_or_else(|| plan.id()).clone()),
    }
}

/// What a failed start may have left: the session that the coding agent reported, else the planned one if
/// Raymond chose its id.
fn left(turn: &Turn, spent: &Spent, names_sessions: bool) -> Option<Left> {
    let reported = spent.session.as_ref();
    let plan = match (&turn.session, reported) {
        (SessionPlan::Fresh { id } | SessionPlan::Branch { id, .. }, Some(named))
            if named != id =>
        {
            SessionPlan::Resume { id: named.clone() }
        }
        (SessionPlan::Fresh { .. } | SessionPlan::Branch { .. }, None) if names_sessions => {
            return None;
        }
        (plan, _) => plan.clone(),
    };
    // A turn that was given more and then failed for another reason still has its prompt in the session.
    let spent_share = turn.spent_share;
    let given = turn.given.iter().chain(&spent.heard).cloned().collect();
    Some(Left { plan, prompt_digest: turn.prompt_digest.clone(), spent_share, given })
}

/// An answer: its text, and its structured output as JSON, if it has one.
#[derive(Clone, Copy)]
pub(super) struct Said<'a> {
    pub(super) text: &'a str,
    pub(super) output: Option<&'a String>,
}

impl Said<'_> {
    /// All of it, for evaluators.
    pub(super) fn whole(self) -> String {
        match self.output {
            None => self.text.to_owned(),
            Some(output) => format!("{}\n\n{output}", self.text).trim_start().to_owned(),
        }
    }
}

/// Judges an answer in a state whose output has `schema`. The output comes first: without it no transition can be followed.
pub(super) fn judge_answer(
    said: Said<'_>,
    schema: Option<&String>,
    policy: &Policy,
    context: &JudgeContext<'_>,
) -> Verdict {
    let tag = tag::parse(said.text);
    let Some(schema) = schema else { return judge(tag, policy, context) };
    match (check_output(said.output, schema), &policy.allowed[..]) {
        (Err(problem), _) if policy.can_remind() => Verdict::Remind(Problem::Output(problem)),
        (Err(problem), _) => Verdict::Fail(Problem::Output(problem)),
        // The payload comes from the agent all the same.
        (Ok(output), [only]) if tag == Err(TagError::None) && only.tag == TagKind::Result => {
            let transition = Transition::Result { payload: output.clone().into() };
            Verdict::Accept(Accepted { transition, source: Source::Implicit })
        }
        (Ok(_), _) => judge(tag, policy, context),
    }
}

fn check_output<'a>(output: Option<&'a String>, schema: &str) -> Result<&'a String, String> {
    let output = output.ok_or("is missing")?;
    let schema = Schema::read(schema.as_bytes())
        .map_err(|error| format!("cannot be checked by its schema: {error}"))?;
    let value = serde_json::from_str(output).map_err(|error| format!("is no JSON: {error}"))?;
    schema.check(&value).map_err(|problem| format!("does not fit: {problem}"))?;
    Ok(output)
}

fn reply(
    agent: &Agent,
    turn: &Turn,
    session: SessionId,
    said: Said<'_>,
    world: &dyn World,
) -> Conclusion {
    let context = judge_context(world, agent);
    let schema = turn.settings.options.schema.as_ref();
    let verdict = judge_answer(said, schema, &turn.policy, &context);
    let text = said.text.to_owned();
    let rejudge =
        |text: String, session: SessionId| Work::Rejudge(Box::new(Answer { text, session }));
    let visit = || Visit {
        session: session.clone(),
        settings: turn.settings.clone(),
        policy: turn.policy.clone(),
    };
    match verdict {
        Verdict::Accept(found) => accepted(visit(), said, found, 0, &context),
        Verdict::Remind(problem) => Conclusion::Remind {
            problem: problem.to_string(),
            work: Work::Remind(Box::new(Reminder {
                visit: visit(),
                text: reminder(&problem, &turn.policy, schema.is_some()),
            })),
            otherwise: rejudge(text, session),
        },
        Verdict::Fail(problem) => Conclusion::Fail {
            error: problem.to_string(),
            work: rejudge(text, session),
            is_fatal: false,
        },
    }
}

/// A person is asked, and the answer continues the turn. The agent keeps the session with which it entered the state.
fn asks(agent: &Agent, turn: &Turn, session: SessionId, questions: &[OwnQuestion]) -> Conclusion {
    let (settings, policy) = (turn.settings.clone(), turn.policy.clone());
    let visit = Visit { session, settings, policy };
    let question = own_question::question(questions, &agent.current_state, visit);
    Conclusion::Follow {
        transition: Transition::Ask(Box::new(question)),
        source: Source::Tag,
        session: None,
        replaced: None,
    }
}

/// Passes an allowed transition to the evaluators, from index `from` on.
pub(super) fn accepted(
    visit: Visit,
    said: Said<'_>,
    found: Accepted,
    from: usize,
    context: &JudgeContext<'_>,
) -> Conclusion {
    let Accepted { transition, source } = found;
    let session = Some(visit.session.clone());
    let fail = |error: String| Conclusion::Fail {
        error,
        work: Work::Rejudge(Box::new(Answer {
            text: said.text.to_owned(),
            session: visit.session.clone(),
        })),
        is_fatal: false,
    };
    match next_opinion(&visit.policy.evaluators, from, &said.whole()) {
        Err(error) => fail(format!("an evaluator's pattern is not valid: {error}")),
        Ok(None) => Conclusion::Follow { transition, source, session, replaced: None },
        Ok(Some(Opinion::Replace { pattern, then })) => match judge_transition(then, context) {
            Err(problem) => fail(format!("evaluator `{pattern}`: {problem}")),
            Ok(replacement) => Conclusion::Follow {
                transition: replacement,
                source,
                session,
                replaced: Some(Replaced {
                    asked: transition,
                    by: Overrider::Match { pattern: pattern.to_owned() },
                }),
            },
        },
        Ok(Some(Opinion::Ask { index })) => Conclusion::Evaluate(Box::new(Evaluation {
            visit,
            output: said.text.to_owned(),
            transition,
            source,
            index,
            reminder: None,
        })),
    }
}

/// An evaluator answers `<result>accept</result>` or one transition that the state allows.
fn evaluator_reply(
    agent: &Agent,
    session: &SessionId,
    evaluation: &Evaluation,
    text: &str,
    world: &dyn World,
) -> Conclusion {
    let context = judge_context(world, agent);
    let Evaluation { visit, output, transition, source, index, .. } = evaluation;
    let verdict = match tag::parse(text) {
        // An evaluator has no implicit answer: an answer without a tag is not a verdict.
        Err(error) => Verdict::Remind(error.into()),
        Ok(tag) if is_accept(&tag.value) => {
            let found = Accepted { transition: transition.clone(), source: *source };
            let said = Said { text: output, output: agent.said.as_ref() };
            return accepted(visit.clone(), said, found, index + 1, &context);
        }
        Ok(tag) => judge(Ok(tag), &visit.policy, &context),
    };
    match verdict {
        Verdict::Accept(Accepted { transition: replacement, .. }) => Conclusion::Follow {
            transition: replacement,
            source: *source,
            session: Some(visit.session.clone()),
            replaced: Some(Replaced {
                asked: transition.clone(),
                by: Overrider::Prompt { prompt: evaluator_name(evaluation) },
            }),
        },
        Verdict::Remind(problem) | Verdict::Fail(problem) => {
            remind_evaluator(session, evaluation, &problem)
        }
    }
}

fn is_accept(tag: &Tag) -> bool {
    tag.kind == TagKind::Result && tag.content.value.trim() == "accept"
}

fn evaluator_name(evaluation: &Evaluation) -> String {
    match evaluation.visit.policy.evaluators.get(evaluation.index) {
        Some(Evaluator::Prompt { prompt, .. }) => prompt.clone(),
        Some(Evaluator::Match { pattern, .. }) => pattern.clone(),
        None => String::new(),
    }
}

fn remind_evaluator(session: &SessionId, evaluation: &Evaluation, problem: &Problem) -> Conclusion {
    let text = evaluator_reminder(problem, &evaluation.visit.policy);
    let reminded = Evaluation { reminder: Some((session.clone(), text)), ..evaluation.clone() };
    // If reminders do not help, the evaluator is asked again from the beginning; the transition stays the same.
    let anew = Evaluation { reminder: None, ..evaluation.clone() };
    Conclusion::Remind {
        problem: format!("evaluator `{}`: {problem}", evaluator_name(evaluation)),
        work: Work::Evaluate(Box::new(reminded)),
        otherwise: Work::Evaluate(Box::new(anew)),
    }
}
