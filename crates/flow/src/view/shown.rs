//! What programs see of the read model as it is.

use crate::{
    id::{AgentId, StateName, StepId},
    machine::{Action, SessionPlan, Spent, Step, Tokens},
    money::Usd,
    shown,
};

use super::At;

/// How many denied uses of tools are remembered of one step.
const DENIED_MAX: usize = 20;

shown! {
    /// A step.
    struct StepFacts as "Step" {
        /// Its name, as `main.3`.
        step: String,
        /// Its agent.
        agent: AgentId,
        /// Its number within the agent.
        number: u32,
        /// Its place among all steps of the run.
        index: usize,
        /// Its state.
        state: StateName,
        /// `turn` or `script`.
        kind: &'static str,
        /// How often this work has been started, this time included.
        attempt: u32,
        /// When it was recorded.
        started_at: u64,
        /// When its end was recorded.
        ended_at: Option<u64>,
        /// How long its process ran.
        duration_ms: Option<u64>,
        /// What it cost.
        cost_usd: Option<Usd>,
        /// What it used.
        tokens: Option<Tokens>,
        /// On which model.
        model: Option<String>,
        /// By which version of which coding agent.
        version: Option<String>,
        /// What came of it, in a word.
        end: Option<&'static str>,
        /// The tag that was followed.
        tag: Option<&'static str>,
        /// The state that was entered.
        to: Option<StateName>,
        /// The first agent that a fork started.
        worker: Option<AgentId>,
        /// Why, or the beginning of a result.
        text: Option<String>,
        /// Uses of tools that were not allowed.
        denied: Vec<String>,
        /// The position in the journal up to which this is true.
        offset: u64,
        hidden:
        /// The session of a turn, until it has ended.
        plan: Option<SessionPlan>,
        /// The byte of the journal at which the decision with its intent begins.
        line: u64,
    }

    /// A transition that an agent followed.
    #[derive(Eq)]
    struct Came {
        /// The state that it left.
        from: StateName,
        /// The state that it entered.
        to: StateName,
        /// The kind of its link in the graph.
        kind: &'static str,
    }

    /// What some steps cost.
    #[derive(Default, Eq)]
    struct Account {
        /// In money.
        cost_usd: Usd,
        /// The cost of those of them whose cost is, at least in part, an estimate.
        estimated_usd: Usd,
        /// How many steps.
        steps: u64,
        /// The sum of their durations.
        duration_ms: u64,
        /// In tokens.
        tokens: Tokens,
    }
}

impl StepFacts {
    pub(super) fn new(agent: &AgentId, step: &Step, index: usize, at: At) -> Self {
        let plan = match &step.action {
            Action::Turn(turn) => Some(turn.session.clone()),
            Action::Script { .. } => None,
        };
        Self {
            step: format!("{agent}.{}", step.number),
            agent: agent.clone(),
            number: step.number,
            index,
            state: step.state.clone(),
            kind: if plan.is_some() { "turn" } else { "script" },
            attempt: step.attempt,
            started_at: at.ms,
            ended_at: None,
            duration_ms: None,
            cost_usd: None,
            tokens: None,
            model: None,
            version: None,
            end: None,
            tag: None,
            to: None,
            worker: None,
            text: None,
            denied: Vec::new(),
            offset: at.offset,
            plan,
            line: at.line,
        }
    }

    /// Its id.
    pub fn id(&self) -> StepId {
        StepId { agent: self.agent.clone(), number: self.number }
    }

    /// Whether it is a turn of a coding agent.
    pub fn is_turn(&self) -> bool {
        self.kind == "turn"
    }

    pub(super) fn finish(&mut self, spent: &Spent, at: At) {
        self.ended_at = Some(at.ms);
        // No process takes no time: 0 is what is recorded if it was not measured.
        self.duration_ms = Some(spent.duration_ms).filter(|ms| *ms > 0);
        self.cost_usd = Some(spent.cost_usd);
        self.tokens = Some(spent.tokens);
        self.model.clone_from(&spent.model);
        self.version.clone_from(&spent.version);
        self.denied = spent.denied.iter().take(DENIED_MAX).cloned().collect();
        self.offset = at.offset;
    }
}

impl Account {
    pub(super) fn add(&mut self, spent: &Spent) {
        self.cost_usd += spent.cost_usd;
        if spent.is_estimate {
            self.estimated_usd += spent.cost_usd;
        }
        self.tokens += spent.tokens;
        self.steps += 1;
        self.duration_ms = self.duration_ms.saturating_add(spent.duration_ms);
    }
}
