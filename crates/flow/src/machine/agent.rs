//! One agent: where it is, what it remembers, and where it returns to.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{
    formats::is_default,
    id::{AgentId, SessionId, StateName},
    money::Usd,
    payload::Payload,
    policy::{Join, Policy, Question, Source, Transition, WorktreePlan},
};

use super::{FailureClass, Leave, Limit, Message, Response, SessionPlan, Step, TurnSettings};

/// A logical thread of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Agent {
    /// Its name, never given twice.
    pub id: AgentId,
    /// The agent that forked it; `None` for `main`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent: Option<AgentId>,
    /// Birth order within the run, from 0. Lists for users are in this order.
    pub born: u64,
    /// The state it is in.
    pub current_state: StateName,
    /// The session with which it entered that state.
    #[serde(rename = "session_id")]
    pub session: Session,
    /// The coding agent of that session, or of the state's first turn if the session was fresh. `None` if
    /// there was no turn, or in a run whose coding agents have no names.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_agent: Option<String>,
    /// Where results go; the last frame is the nearest caller.
    pub stack: Vec<Frame>,
    /// Where its children run; absolute.
    pub cwd: String,
    /// The worktree that must be made before its first step; `None` if it has none, or has it already.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worktree_plan: Option<Box<WorktreePlan>>,
    /// The variables it was forked with.
    pub fork_attributes: BTreeMap<String, String>,
    /// What a callee or joined workers handed back to the current state.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<Payload>,
    /// The answer of a person that leads to the current state, or that waits to be followed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub response: Option<Box<Response>>,
    /// What the current state was given: by the tag that led to it, or by the run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input: Option<String>,
    /// The structured output of the state before, whose fields are variables of the current one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<String>,
    /// The structured output of the current state so far.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub said: Option<String>,
    /// How often it has entered each state in its current frame.
    pub visits: BTreeMap<StateName, u32>,
    /// Whether a state that was visited too often led to the current one.
    #[serde(default, skip_serializing_if = "is_default")]
    pub diverted: bool,
    /// How many steps it has started.
    pub steps: u32,
    /// How many questions it has asked.
    #[serde(default, skip_serializing_if = "is_default")]
    pub asks: u32,
    /// The messages that people have sent to it, the oldest first.
    #[serde(default, skip_serializing_if = "is_default")]
    pub messages: Vec<Message>,
    /// The ids of those that have reached it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub heard: Vec<String>,
    /// What it has spent.
    pub cost_usd: Usd,
    /// Counters of failed attempts at the current work.
    pub tries: Tries,
    /// What it is doing or waiting for.
    pub phase: Phase,
}

/// The session that an agent's next prompt belongs to. Scripts do not change it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Session {
    /// None yet: the next prompt starts a new one.
    Fresh,
    /// The next prompt is the next turn of this session.
    Open(SessionId),
    /// The next prompt starts a new session that branches off this one.
    Branch {
        /// The session to branch off.
        #[serde(rename = "branch_of")]
        from: SessionId,
    },
}

/// Where a result returns to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Frame {
    /// The caller's session.
    pub session: Session,
    /// The coding agent of that session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_agent: Option<String>,
    /// The state at which the caller continues.
    pub state: StateName,
    /// The directory of the caller, if the callee works in another one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// The model that `<function model="…">` asked for, for as long as the function runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The variables of the call or function, for as long as it runs.
    #[serde(default, skip_serializing_if = "is_default")]
    pub arguments: BTreeMap<String, String>,
    /// How often the caller has entered each state in its own frame.
    #[serde(default, skip_serializing_if = "is_default")]
    pub visits: BTreeMap<StateName, u32>,
    /// Workers born before this are the caller's, not the callee's.
    #[serde(default, skip_serializing_if = "is_default")]
    pub workers_since: u64,
}

/// Counters of failed attempts at the current work. They are reset when the agent enters a state.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tries {
    /// Starts of the work that did not succeed.
    pub starts: u32,
    /// Reminders given.
    pub reminders: u32,
    /// Retries after failures of an unknown kind, timeouts and kills.
    pub retries: u32,
    /// How long it has waited after transient failures.
    #[serde(default, skip_serializing_if = "is_default")]
    pub waited_ms: u64,
    /// Outcomes that were lost.
    pub losses: u32,
    /// What a failed start may have left: the next start continues there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub left: Option<Left>,
    /// What the starts of the turn have spent.
    #[serde(default, skip_serializing_if = "is_default")]
    pub spent_usd: Usd,
}

/// What a failed start of a turn may have left: a session that already contains the prompt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Left {
    /// The session.
    pub plan: SessionPlan,
    /// A fingerprint of the prompt. If the prompt was fixed since, the session is given the new one.
    pub prompt_digest: String,
    /// Whether the turn was stopped because it had spent its share of the budget.
    #[serde(default, skip_serializing_if = "is_default")]
    pub spent_share: bool,
    /// The messages that the session contains, by their ids.
    #[serde(default, skip_serializing_if = "is_default")]
    pub given: Vec<String>,
}

/// What an agent is doing or waiting for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Its next step can be prepared.
    Ready {
        /// What the step is for.
        work: Work,
    },
    /// Its turn waits because `max_parallel` turns are running.
    Queued {
        /// What the turn is for.
        work: Work,
        /// The position in the queue: the lowest ticket is next.
        ticket: u64,
    },
    /// It left the queue and prepares its turn.
    Called {
        /// What the turn is for.
        work: Work,
    },
    /// A step is running.
    Running {
        /// What the step is for.
        work: Work,
        /// The step.
        step: Box<Step>,
    },
    /// It waits before a retry.
    Waiting {
        /// The work to retry.
        work: Work,
        /// The whole wait, in milliseconds.
        delay_ms: u64,
    },
    /// It waits for workers.
    Joining {
        /// For which, and what follows.
        join: Join,
    },
    /// A worker that waits for a place among its siblings.
    Parked {
        /// What it does when it has one.
        work: Work,
    },
    /// A worker that waits until its worktree is made.
    Moving {
        /// What it does then.
        work: Work,
    },
    /// A worker that waits until what it leaves in its worktree is committed.
    Leaving {
        /// What it does then.
        leave: Leave,
    },
    /// It waits for a person's answer.
    Asking {
        /// Which one of its questions, from 1.
        number: u32,
        /// The question.
        question: Box<Question>,
    },
    /// It asked for a transition, but a limit holds it.
    Held {
        /// The transition that it asked for, to be followed when the limit is raised.
        asked: Transition,
        /// Whether the agent wrote a tag or the policy implied it.
        source: Source,
        /// The limit.
        limit: Limit,
    },
    /// It failed. When the run is resumed, the work is retried.
    Failed {
        /// The reason, for the user.
        error: String,
        /// The kind of failure, if a coding agent failed.
        #[serde(skip_serializing_if = "Option::is_none")]
        class: Option<FailureClass>,
        /// The work to retry.
        work: Work,
        /// Whether a join has handed the failure over: it is data then, and nothing is taken up again.
        #[serde(default, skip_serializing_if = "is_default")]
        passed: bool,
    },
}

/// What a step is for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Work {
    /// Carry out the current state.
    Enter,
    /// Judge a rejected answer again: it is paid for, and the workflow may have been
    /// fixed since. If it is still rejected, enter the state.
    Rejudge(Box<Answer>),
    /// Tell the agent what was wrong with its answer.
    Remind(Box<Reminder>),
    /// Ask an evaluator about a transition.
    Evaluate(Box<Evaluation>),
    /// Follow a transition that a limit held before.
    Follow {
        /// The transition to follow.
        transition: Box<Transition>,
        /// Whether the agent wrote a tag or the policy implied it.
        source: Source,
    },
}

/// The answer of a coding agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    /// Its final message.
    pub text: String,
    /// The session of the answer.
    pub session: SessionId,
}

/// The turns about one state: everything that a further turn needs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Visit {
    /// The session.
    pub session: SessionId,
    /// The coding agent, model and effort of its turns.
    pub settings: TurnSettings,
    /// What the answer is judged by.
    #[serde(default, skip_serializing_if = "is_default")]
    pub policy: Policy,
}

/// A reminder to give.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reminder {
    /// The turns that it belongs to.
    pub visit: Visit,
    /// The text of the reminder.
    pub text: String,
}

/// A transition that an evaluator is asked about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Evaluation {
    /// The turns whose answer asked for the transition.
    pub visit: Visit,
    /// The text of that answer.
    pub output: String,
    /// The transition that it asked for.
    pub transition: Transition,
    /// Whether the agent wrote a tag or the policy implied it.
    pub source: Source,
    /// The index of the evaluator in the policy.
    pub index: usize,
    /// The evaluator's own session, and the reminder to give there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reminder: Option<(SessionId, String)>,
}

impl Work {
    /// The session in which this work is done, if that is not the agent's own.
    pub fn session(&self) -> Option<&SessionId> {
        match self {
            Self::Enter | Self::Follow { .. } => None,
            Self::Rejudge(answer) => Some(&answer.session),
            Self::Remind(reminder) => Some(&reminder.visit.session),
            Self::Evaluate(evaluation) => Some(&evaluation.visit.session),
        }
    }

    /// Whether it is done in `session`, which need not be the agent's own.
    fn is_in(&self, session: &SessionId) -> bool {
        let evaluator = match self {
            Self::Evaluate(evaluation) => evaluation.reminder.as_ref().map(|(own, _)| own),
            Self::Enter | Self::Rejudge(_) | Self::Remind(_) | Self::Follow { .. } => None,
        };
        self.session() == Some(session) || evaluator == Some(session)
    }
}

impl Phase {
    /// The work that the agent is doing, waits for, or would retry; `None` for an agent that a limit holds or that
    /// waits for an answer or joins.
    pub fn work(&self) -> Option<&Work> {
        match self {
            Self::Ready { work }
            | Self::Queued { work, .. }
            | Self::Called { work }
            | Self::Running { work, .. }
            | Self::Waiting { work, .. }
            | Self::Parked { work }
            | Self::Moving { work }
            | Self::Failed { work, .. } => Some(work),
            Self::Held { .. }
            | Self::Asking { .. }
            | Self::Joining { .. }
            | Self::Leaving { .. } => None,
        }
    }

    /// The step that is running.
    pub fn step(&self) -> Option<&Step> {
        match self {
            Self::Running { step, .. } => Some(step),
            Self::Ready { .. }
            | Self::Queued { .. }
            | Self::Called { .. }
            | Self::Waiting { .. }
            | Self::Joining { .. }
            | Self::Parked { .. }
            | Self::Moving { .. }
            | Self::Leaving { .. }
            | Self::Asking { .. }
            | Self::Held { .. }
            | Self::Failed { .. } => None,
        }
    }

    /// Whether it is a failure that a join has handed over.
    pub fn is_passed(&self) -> bool {
        matches!(self, Self::Failed { passed: true, .. })
    }
}

impl Agent {
    /// A new agent about to enter `state` in a session of its own.
    pub(super) fn new(id: AgentId, born: u64, state: StateName, cwd: String) -> Self {
        Self {
            id,
            parent: None,
            born,
            visits: BTreeMap::from([(state.clone(), 1)]),
            diverted: false,
            current_state: state,
            session: Session::Fresh,
            session_agent: None,
            stack: Vec::new(),
            cwd,
            worktree_plan: None,
            fork_attributes: BTreeMap::new(),
            result: None,
            response: None,
            input: None,
            output: None,
            said: None,
            steps: 0,
            asks: 0,
            messages: Vec::new(),
            heard: Vec::new(),
            cost_usd: Usd::ZERO,
            tries: Tries::default(),
            phase: Phase::Ready { work: Work::Enter },
        }
    }

    /// Enters `state`: the counters of failed attempts start again.
    pub(super) fn enter(&mut self, state: StateName) {
        let visits = self.visits.entry(state.clone()).or_default();
        *visits = visits.saturating_add(1);
        self.diverted = false;
        self.current_state = state;
        self.result = None;
        self.response = None;
        self.input = None;
        self.output = self.said.take();
        self.tries = Tries::default();
        self.phase = Phase::Ready { work: Work::Enter };
    }

    /// Moves on to `state`, which is given `input`.
    pub(super) fn enter_with(&mut self, state: StateName, input: Option<String>) {
        self.enter(state);
        self.input = input;
    }

    /// Which visit to the current state this is, within the current frame, from 1.
    pub fn visit(&self) -> u32 {
        self.visits.get(&self.current_state).copied().unwrap_or(1)
    }

    /// The birth of the first worker that a join in the current frame could take.
    pub fn workers_since(&self) -> u64 {
        self.stack.last().map_or(0, |frame| frame.workers_since)
    }

    /// The variables of the calls and functions that have not returned. The nearest one wins.
    pub(crate) fn arguments(&self) -> BTreeMap<String, String> {
        let frames = self.stack.iter().map(|frame| &frame.arguments);
        frames.flatten().map(|(name, value)| (name.clone(), value.clone())).collect()
    }

    /// Whether it may continue in `session`, or branch off it.
    pub fn remembers(&self, session: &SessionId) -> bool {
        let is_same = |of: &Session| matches!(of, Session::Open(id) | Session::Branch { from: id } if id == session);
        let is_left = |left: &Left| left.plan.id() == session;
        is_same(&self.session)
            || self.stack.iter().any(|frame| is_same(&frame.session))
            || self.phase.work().is_some_and(|work| work.is_in(session))
            || self.tries.left.as_ref().is_some_and(is_left)
            || self.phase.step().is_some_and(|step| step.is_in(session))
    }

    /// The directory of the caller whose session is `session`.
    pub(crate) fn directory_of(&self, session: &SessionId) -> Option<&str> {
        let mut cwd = &self.cwd;
        self.stack.iter().rev().find_map(|frame| {
            cwd = frame.cwd.as_ref().unwrap_or(cwd);
            matches!(&frame.session, Session::Open(open) if open == session).then_some(cwd.as_str())
        })
    }

    /// The model that the nearest pending function asked for; calls inside it are part of it.
    pub(crate) fn function_model(&self) -> Option<&str> {
        self.stack.iter().rev().find_map(|frame| frame.model.as_deref())
    }
}
