//! A decision about one agent, while it is being made: the records and effects of a step that starts, ends or fails.

use crate::{
    id::{AgentId, SessionId, StateName, StepId},
    money::Usd,
    policy::{Source, Transition},
};

use super::{
    Action, Again, Agent, Conclusion, CountsAs, Decision, Effect, FailureClass, Halt, Instead,
    Launch, Left, Limit, OnUsageLimit, Overrider, Phase, Record, Replaced, Run, Step, TurnFailure,
    Via, Work,
    decide::{decide_limited, decide_stopped},
    follow::{discarded_returns, limit_reached, states_entered},
    join::can_be_joined,
    naming::worker_names,
    retry::{Remedy, delay_ms, remedy, transient_delay_ms, with_jitter},
    share::Share,
    worktree,
};

/// A decision about one agent, under construction.
pub(super) struct Draft<'a> {
    pub(super) run: &'a Run,
    pub(super) agent: &'a Agent,
    /// The cost of the step that just ended; the run's total does not include it yet.
    pub(super) spent_usd: Usd,
    pub(super) decision: Decision,
}

impl<'a> Draft<'a> {
    pub(super) fn new(run: &'a Run, agent: &'a Agent) -> Self {
        Self { run, agent, spent_usd: Usd::ZERO, decision: Decision::default() }
    }

    pub(super) fn record(&mut self, record: Record) {
        self.decision.records.push(record);
    }

    /// A script failed. That stops the run, unless the agent is a worker that can be joined: then its
    /// parent decides what the failure means.
    fn script_failed(&mut self) {
        if !can_be_joined(self.run, self.agent) {
            self.halt(Halt::ScriptFailed { agent: self.agent.id.clone() });
        }
    }

    /// Asks for the next step of `agent`, unless the run is halted.
    pub(super) fn prepare(&mut self, agent: AgentId) {
        if self.run.is_open() {
            self.decision.effects.push(Effect::Prepare { agent });
        }
    }

    /// Halts the run: no new step starts. The first reason stands.
    fn halt(&mut self, why: Halt) {
        if self.run.halt.is_none() {
            self.record(Record::Halted { why });
        }
    }

    pub(super) fn start(&mut self, mut step: Box<Step>, launch: Launch) {
        let agent = self.agent.id.clone();
        if let Action::Turn(turn) = &mut step.action {
            let spent_usd = self.run.total_cost_usd;
            if let Some(budget_usd) = self.run.limits.budget_usd
                && spent_usd >= budget_usd
            {
                self.halt(Halt::Limit(Limit::Budget { spent_usd, budget_usd }));
                return;
            }
            // A step that was found started, though the journal had lost it, keeps the limit that it was given.
            let share = turn.budget_usd.map_or_else(|| self.run.share(), Share::Limited);
            if share == Share::NoneFree || !self.run.has_place_for(self.agent) {
                self.record(Record::Queued { agent });
                return;
            }
            let own = turn.settings.budget_usd.map(|own| own.less(self.agent.tries.spent_usd));
            if own == Some(Usd::ZERO) {
                // Its earlier starts have spent it, and failed for another reason.
                let error = self.own_budget_spent(turn.settings.budget_usd, &step.state);
                self.give_up(error, Some(FailureClass::Budget), self.agent.tries.left.clone());
                return;
            }
            turn.budget_usd = match share {
                Share::Limited(usd) => Some(own.map_or(usd, |own| own.min(usd))),
                Share::Unlimited | Share::NoneFree => own,
            };
        }
        self.record(Record::Intended { agent: agent.clone(), step: step.clone() });
        self.decision.effects.push(Effect::Launch {
            id: StepId { agent, number: step.number },
            step,
            cwd: self.agent.cwd.clone(),
            launch,
        });
    }

    pub(super) fn conclude(&mut self, conclusion: Conclusion) {
        let agent = self.agent.id.clone();
        match conclusion {
            Conclusion::Follow { transition, source, session, replaced } => {
                self.follow(transition, source, session, replaced);
            }
            Conclusion::Evaluate(evaluation) => {
                self.record(Record::Evaluating { agent: agent.clone(), evaluation });
                self.prepare(agent);
            }
            Conclusion::Remind { problem, work, otherwise } => {
                let given = self.agent.tries.reminders;
                if given >= self.run.limits.max_reminders {
                    let error = format!("{problem} (after {given} reminders)");
                    self.fail(error, None, otherwise, None);
                } else {
                    self.record(Record::Reminded { agent: agent.clone(), problem, work });
                    self.prepare(agent);
                }
            }
            Conclusion::Fail { error, work, is_fatal } => {
                self.fail(error, None, work, None);
                if is_fatal {
                    self.script_failed();
                }
            }
            Conclusion::Again { why, left } => self.again(why, left),
        }
    }

    pub(super) fn follow(
        &mut self,
        transition: Transition,
        source: Source,
        session: Option<SessionId>,
        replaced: Option<Replaced>,
    ) {
        let agent = self.agent.id.clone();
        let via = match &replaced {
            None => source.into(),
            Some(Replaced { by: Overrider::Visits { .. }, .. }) => Via::Visits,
            Some(_) => Via::Evaluator,
        };
        if let Some(Replaced { asked, by }) = replaced {
            let (session, instead) = (session.clone(), Instead::Follow(transition.clone()));
            let agent = agent.clone();
            self.record(Record::Overridden { agent, asked, source, session, by, instead });
        }
        if let Transition::Ask(question) = &transition {
            return self.ask(question, source, via, session);
        }
        if let Some(limit) = limit_reached(self.run, self.agent, &transition, self.spent_usd) {
            let (by, instead) = (Overrider::Limit(limit), Instead::Stop);
            let asked = transition;
            self.record(Record::Overridden { agent, asked, source, session, by, instead });
            self.halt(Halt::Limit(limit));
            return;
        }
        let forked = transition.workers();
        let workers = worker_names(self.run, &agent, forked.iter().map(|worker| &worker.target));
        let is_join = matches!(transition, Transition::Join(_));
        if states_entered(self.agent, &transition) == 0 {
            self.leave();
        } else if !is_join {
            self.prepare(agent.clone());
        }
        for (worker, name) in forked.iter().zip(&workers) {
            // One with a limit is given a place by `settle`.
            match &worker.worktree {
                _ if worker.limit.is_some() => {}
                None => self.prepare(name.clone()),
                Some(plan) if self.run.is_open() => {
                    let (agent, plan) = (name.clone(), plan.clone());
                    self.decision.effects.push(Effect::MakeWorktree { agent, plan });
                }
                Some(_) => {}
            }
        }
        let discarded_returns = discarded_returns(self.agent, &transition);
        self.record(Record::Followed {
            agent,
            transition,
            via,
            session,
            workers,
            discarded_returns,
        });
    }

    fn again(&mut self, why: Again, left: Option<Left>) {
        let tries = &self.agent.tries;
        let limits = &self.run.limits;
        match why {
            Again::NotStarted => {
                // The step never started, so what an earlier start left is still there.
                let left = tries.left.clone();
                self.retry("it was never started".to_owned(), CountsAs::Nothing, 0, left);
            }
            Again::Interrupted => {
                self.retry("it was interrupted".to_owned(), CountsAs::Nothing, 0, left);
            }
            Again::NoRoom => {
                let why = "the disk was full, so its outcome could not be recorded";
                self.retry(why.to_owned(), CountsAs::Nothing, 0, left);
            }
            Again::Lost if tries.losses + 1 >= limits.max_attempts => {
                let starts = tries.losses + 1;
                self.give_up(format!("its outcome was lost {starts} times"), None, left);
            }
            Again::Lost => {
                let why = "its outcome was lost: how it ended is not on record";
                self.retry(why.to_owned(), CountsAs::Loss, 0, left);
            }
            Again::Failed(failure) => self.failed(&failure, left),
        }
    }

    /// What follows from a failure of the coding agent.
    fn failed(&mut self, failure: &TurnFailure, left: Option<Left>) {
        let tries = &self.agent.tries;
        let limits = &self.run.limits;
        let class = Some(failure.class);
        if self.stands_in(failure, left.as_ref()) {
            return;
        }
        match remedy(failure.class) {
            Remedy::Retry if tries.retries >= limits.max_retries => {
                let retries = tries.retries;
                self.give_up(format!("{failure} (after {retries} retries)"), class, left);
            }
            Remedy::Retry => {
                let delay = delay_ms(tries.retries + 1);
                self.retry(failure.to_string(), CountsAs::Retry, delay, left);
            }
            Remedy::RetryFor { .. } if tries.waited_ms >= limits.retry_for_ms => {
                let error = match tries.waited_ms / 1000 {
                    0 => format!("{failure} (not retried)"),
                    seconds => format!("{failure} (after retries for {seconds} seconds)"),
                };
                self.give_up(error, class, left);
            }
            Remedy::RetryFor { at_least_ms } => {
                let delay = transient_delay_ms(tries.waited_ms, at_least_ms);
                self.retry(failure.to_string(), CountsAs::Nothing, delay, left);
            }
            Remedy::WaitForUsageLimit { resets_at } => {
                self.retry(failure.to_string(), CountsAs::Nothing, 0, left);
                self.usage_limit(resets_at);
            }
            Remedy::MoreMoney => self.out_of_money(failure, left),
            // The session has no answer to continue from: a fixed prompt must be given to it.
            Remedy::GiveUpPrompt => self.give_up(failure.to_string(), class, None),
            Remedy::GiveUpSession => self.lose_session(failure),
            Remedy::GiveUp => self.give_up(failure.to_string(), class, left),
        }
    }

    /// Lets others stand in for the coding agent of the turn, if its provider is not available; `false` if that is not so,
    /// or if there is no other one. The turn is prepared again, and begins with another one or waits.
    fn stands_in(&mut self, failure: &TurnFailure, left: Option<&Left>) -> bool {
        let is_late = self.agent.tries.waited_ms >= self.run.limits.retry_for_ms;
        let is_outage = is_late && matches!(failure.class, FailureClass::Transient { .. });
        let resets_at = if let FailureClass::UsageLimit { resets_at } = failure.class {
            resets_at
        } else if is_outage || failure.class == FailureClass::Billing {
            None
        } else {
            return false;
        };
        let Some(Action::Turn(turn)) = self.agent.phase.step().map(|step| &step.action) else {
            return false;
        };
        let name = turn.settings.agent.as_deref().unwrap_or_default();
        let Some(stopped) = decide_stopped(self.run, name, failure.to_string(), resets_at) else {
            return false;
        };
        self.decision.records.extend(stopped.records);
        self.decision.effects.extend(stopped.effects);
        self.retry(failure.to_string(), CountsAs::Nothing, 0, left.cloned());
        true
    }

    /// The agent waits until its coding agent is available again, without a place among the turns.
    pub(super) fn block(&mut self) {
        let resets_at = self.run.stopped.values().filter_map(|limit| limit.resets_at).min();
        if matches!(self.agent.phase, Phase::Called { .. }) {
            let (agent, left) = (self.agent.id.clone(), self.agent.tries.left.clone());
            let why = "its coding agent is not available".to_owned();
            let counts_as = CountsAs::Nothing;
            self.record(Record::Retried { agent, why, counts_as, delay_ms: 0, left });
        }
        if self.run.settings.on_usage_limit == OnUsageLimit::Pause {
            self.halt(Halt::UsageLimit { resets_at });
        }
    }

    /// The turn has spent what it may. If that was its share of the budget and there is money left, it is continued with
    /// more; if it was the budget of its state, the agent fails; otherwise the run stops.
    fn out_of_money(&mut self, failure: &TurnFailure, left: Option<Left>) {
        let spent_usd = self.run.total_cost_usd + self.spent_usd;
        let is_run_out = self.run.limits.budget_usd.is_some_and(|budget| spent_usd >= budget);
        let step = self.agent.phase.step();
        let turn = step.and_then(|step| match &step.action {
            Action::Turn(turn) => Some(turn),
            Action::Script { .. } => None,
        });
        let limit = turn.and_then(|turn| turn.budget_usd);
        let own = turn.and_then(|turn| turn.settings.budget_usd);
        // A kept process may have half of the limit left. A turn that stops before that has a limit of its
        // own, and would stop again and again.
        let twice = self.spent_usd + self.spent_usd;
        let has_spent_it = limit.is_some_and(|limit| twice >= limit);
        let before = self.agent.tries.spent_usd;
        let is_own_spent = own.is_some_and(|own| before + self.spent_usd >= own);
        let is_own_limit = own.is_some_and(|own| limit == Some(own.less(before)));
        if let Some(step) = step
            && !is_run_out
            && (is_own_spent || is_own_limit && !has_spent_it)
        {
            let left = left.map(|left| Left { spent_share: true, ..left });
            let error = self.own_budget_spent(own, &step.state);
            self.give_up(error, Some(failure.class), left);
            return;
        }
        if !is_run_out && has_spent_it {
            let left = left.map(|left| Left { spent_share: true, ..left });
            let why = "it has spent its share of the budget and gets more".to_owned();
            self.retry(why, CountsAs::Nothing, 0, left);
            return;
        }
        self.retry(failure.to_string(), CountsAs::Nothing, 0, left);
        let budget_usd = self.run.limits.budget_usd.unwrap_or(spent_usd);
        self.halt(Halt::Limit(Limit::Budget { spent_usd, budget_usd }));
        self.decision.effects.clear();
    }

    /// What is said of a turn that has spent the budget of its state.
    fn own_budget_spent(&self, own: Option<Usd>, state: &StateName) -> String {
        let spent_usd = self.agent.tries.spent_usd + self.spent_usd;
        let own = own.unwrap_or_default();
        format!("the turn has spent {spent_usd}, and the `budget` of `{state}` is {own}")
    }

    fn retry(&mut self, why: String, counts_as: CountsAs, delay_ms: u64, left: Option<Left>) {
        let agent = self.agent.id.clone();
        let step = StepId { agent: agent.clone(), number: self.agent.steps };
        let delay_ms = with_jitter(delay_ms, &self.run.identity, &step);
        self.record(Record::Retried { agent: agent.clone(), why, counts_as, delay_ms, left });
        if delay_ms == 0 {
            self.prepare(agent);
        } else if self.run.halt.is_none() {
            self.decision.effects.push(Effect::Wait { agent, delay_ms });
        }
    }

    /// One agent has reached the provider's limit, so all other agents would.
    fn usage_limit(&mut self, resets_at: Option<u64>) {
        let Decision { records, effects } = decide_limited(self.run, resets_at);
        self.decision.records.extend(records);
        self.decision.effects = effects;
    }

    /// Fails the current work of the agent. The failure of a script halts the whole run.
    fn give_up(&mut self, error: String, class: Option<FailureClass>, left: Option<Left>) {
        let work = self.agent.phase.work().cloned().unwrap_or(Work::Enter);
        self.fail(error, class, work, left);
        if let Some(Step { action: Action::Script { .. }, .. }) = self.agent.phase.step() {
            self.script_failed();
        }
    }

    /// Fails because the session is gone. When the run is resumed, the agent starts in a fresh one.
    fn lose_session(&mut self, failure: &TurnFailure) {
        let work = match self.agent.phase.work() {
            Some(Work::Evaluate(evaluation)) => Work::Evaluate(evaluation.clone()),
            Some(Work::Enter | Work::Rejudge(_) | Work::Remind(_) | Work::Follow { .. }) | None => {
                Work::Enter
            }
        };
        let loses_session = work == Work::Enter;
        let (agent, error, class) =
            (self.agent.id.clone(), failure.to_string(), Some(failure.class));
        self.record(Record::Failed { agent, error, class, work, left: None, loses_session });
        self.leave();
    }

    /// Commits what the agent leaves, if it has a worktree: it ends or fails.
    fn leave(&mut self) {
        self.decision.effects.extend(worktree::save(self.run, &self.agent.id));
    }

    pub(super) fn fail(
        &mut self,
        error: String,
        class: Option<FailureClass>,
        work: Work,
        left: Option<Left>,
    ) {
        let agent = self.agent.id.clone();
        self.record(Record::Failed { agent, error, class, work, left, loses_session: false });
        self.leave();
    }
}
