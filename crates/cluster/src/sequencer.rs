//! The one sequencer of a run: the run and what it waits for. Pure, like the machine that it drives: everything that
//! enters is in the history, so a replay decides the same.

use std::collections::{BTreeMap, VecDeque};

use raymond_flow::{
    id::{AgentId, AskId, SessionId, StepId},
    machine::{
        Action, ApplyError, Decision, Due, Effect, Input, MadeWorktree, Record, Run, SavedWork,
        Session, SessionPlan, Spent, Started, Status, Work, Worktree, apply, decide, pending,
        settle, start,
    },
    policy::WorktreePlan,
    source::StateFile,
    turn::{Outcome, conclude, prepare},
    world::World as _,
};
use sha2::{Digest as _, Sha256};

use crate::{
    log::Log,
    messages::{CheckoutOrder, Repository, StoredAgents, StoredCheckout, StoredSession, Terms},
    world::BundleWorld,
};

/// Something that must be done outside of the sequencer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// Carry out a step, or report the end of one that was started under an earlier history.
    Step { id: StepId, is_started: bool },
    /// Prepare the next step of an agent on a worker.
    Prepare { agent: AgentId, fresh: SessionId },
    /// Wake an agent after this time.
    Wake { agent: AgentId, delay_ms: u64 },
    /// Look at a question after this time: its deadline.
    Deadline { id: AskId, delay_ms: u64 },
    /// Make the worktree of an agent, or save the one that it has.
    Worktree { agent: AgentId },
    /// Lift the usage limit at this time.
    UsageLimit { resets_at: Option<u64> },
}

/// The run and what it waits for.
#[derive(Debug)]
pub(crate) struct Sequencer {
    run: Run,
    world: BundleWorld,
    effects: VecDeque<Effect>,
    wanted: Vec<Wanted>,
    log: Log,
    /// Sessions and checkouts that move with the agents between workers.
    stored: StoredAgents,
    /// The repository, if the agents have checkouts that move with them.
    repository: Option<Repository>,
}

impl Sequencer {
    /// A new run.
    pub(crate) fn begin(started: Started, world: BundleWorld) -> Self {
        let run = Run::new(&started);
        let Decision { records, effects } = start(started);
        let mut log = Log::default();
        log.push(world.now_ms(), &records);
        Self::new(run, world, effects.into(), log)
    }

    fn new(run: Run, world: BundleWorld, effects: VecDeque<Effect>, log: Log) -> Self {
        Self {
            run,
            world,
            effects,
            wanted: Vec::new(),
            log,
            stored: StoredAgents::default(),
            repository: None,
        }
    }

    /// The same on these terms, with what follows its agents.
    pub(crate) fn carrying(mut self, stored: StoredAgents, terms: &Terms) -> Self {
        (self.stored, self.repository) = (stored, terms.repository.clone());
        self.take_in();
        self
    }

    /// A run that goes on: `inputs` come first, then whatever it waits for is asked for again.
    pub(crate) fn reopen(
        run: Run,
        world: BundleWorld,
        log: Log,
        input: Option<Input>,
    ) -> Result<Self, ApplyError> {
        let mut own = Self::new(run, world, VecDeque::new(), log);
        if let Some(input) = input {
            own.decide(input)?;
        }
        own.commit(Decision::default())?;
        // The effects of those decisions are among the pending ones.
        own.effects = pending(&own.run).into();
        Ok(own)
    }

    pub(crate) fn run(&self) -> &Run {
        &self.run
    }

    /// What it has decided.
    pub(crate) fn log(&self) -> &Log {
        &self.log
    }

    pub(crate) fn log_mut(&mut self) -> &mut Log {
        &mut self.log
    }

    /// The excerpt of the run for a step of `agent`.
    pub(crate) fn excerpt(&self, agent: &AgentId) -> Run {
        self.run.excerpt(agent)
    }

    /// The session of a running turn; `None` for a script.
    pub(crate) fn plan(&self, id: &StepId) -> Option<&SessionPlan> {
        match &self.run.running_step(id)?.1.action {
            Action::Turn(turn) => Some(&turn.session),
            Action::Script { .. } => None,
        }
    }

    /// The labels that a worker must have for a running step.
    pub(crate) fn labels(&self, id: &StepId) -> Vec<String> {
        let labels = || {
            let name = self.run.running_step(id)?.1.state.as_str();
            let file = StateFile::read(name, &self.world.read(name).ok()?, self.world.platform());
            Some(file.ok()?.runs_on)
        };
        labels().unwrap_or_default()
    }

    /// The sessions that an agent may go on with.
    pub(crate) fn sessions(&self, agent: &AgentId) -> Vec<SessionId> {
        let Some(agent) = self.run.agents.get(agent) else { return Vec::new() };
        let frames = agent.stack.iter().map(|frame| &frame.session);
        let own = frames.chain([&agent.session]).filter_map(|session| match session {
            Session::Open(id) | Session::Branch { from: id } => Some(id),
            Session::Fresh => None,
        });
        own.chain(agent.phase.work().and_then(Work::session)).cloned().collect()
    }

    /// Remembers what a step has left, before its end is decided about. Of a session that could not be stored, an earlier
    /// version must not be taken for it.
    pub(crate) fn keep(
        &mut self,
        id: &StepId,
        session: Option<StoredSession>,
        checkout: Option<StoredCheckout>,
    ) {
        if let Some(session) = session {
            self.stored.keep_session(&id.agent, session);
        } else if let Some(plan) = self.plan(id).cloned() {
            self.stored.forget_session(&id.agent, plan.id());
        }
        if let Some(checkout) = checkout {
            self.stored.keep_checkout(&id.agent, checkout);
        }
    }

    /// The sessions that a step needs.
    pub(crate) fn stored_sessions(&self, id: &StepId) -> BTreeMap<SessionId, String> {
        self.stored.sessions_for(&self.run, id)
    }

    /// The checkout that a step of an agent needs.
    pub(crate) fn checkout(&self, agent: &AgentId) -> Option<CheckoutOrder> {
        self.stored.checkout_for(agent, self.repository.as_ref()?)
    }

    /// The work of all agents.
    pub(crate) fn work(&self) -> Vec<StoredCheckout> {
        let repository = self.repository.as_ref();
        repository.map_or_else(Vec::new, |repository| self.stored.work(repository))
    }

    /// What moves with the agents from here on.
    pub(crate) fn stored(&self) -> StoredAgents {
        let mut stored = self.stored.clone();
        stored.tidy(&self.run);
        stored
    }

    /// Gives new agents their checkouts.
    fn take_in(&mut self) {
        if let Some(repository) = &self.repository {
            self.stored.take_in(&self.run, repository);
        }
    }

    /// Decides about `input` and prepares what follows, at this time of the history. Returns what must be done.
    pub(crate) fn input(&mut self, input: Input, now_ms: u64) -> Result<Vec<Wanted>, ApplyError> {
        self.world.set_now_ms(now_ms);
        self.decide(input)?;
        self.work_off(now_ms)
    }

    /// The input from a step that no worker has: `outcome` is why.
    pub(crate) fn gone(&self, id: &StepId, outcome: Outcome) -> Input {
        conclude(&self.run, id, outcome, Spent::default(), &self.world)
    }

    /// Performs the effects so far. Returns what must be done outside.
    pub(crate) fn work_off(&mut self, now_ms: u64) -> Result<Vec<Wanted>, ApplyError> {
        self.world.set_now_ms(now_ms);
        while let Some(effect) = self.effects.pop_front() {
            self.perform(effect, now_ms)?;
        }
        self.decide(Input::Idle)?;
        Ok(std::mem::take(&mut self.wanted))
    }

    fn perform(&mut self, effect: Effect, now_ms: u64) -> Result<(), ApplyError> {
        match effect {
            Effect::Prepare { agent } => return self.prepare(agent),
            Effect::Launch { id, .. } => self.wanted.push(Wanted::Step { id, is_started: false }),
            Effect::Reattach { id, .. } => self.wanted.push(Wanted::Step { id, is_started: true }),
            Effect::Wait { agent, delay_ms } => self.wanted.push(Wanted::Wake { agent, delay_ms }),
            Effect::WaitForUsageLimit { resets_at } => {
                self.wanted.push(Wanted::UsageLimit { resets_at });
            }
            // Steps on other machines take no messages: the next turn has it in its prompt.
            Effect::Tell { .. } => {}
            Effect::Ask { id, .. } => return self.look_at_question(&id, now_ms),
            Effect::MakeWorktree { agent, plan } => return self.make_worktree(agent, *plan),
            Effect::SaveWorktree { agent, .. } => return self.save_worktree(agent),
        }
        Ok(())
    }

    /// The excerpt of the run for work on the worktree of `agent`.
    pub(crate) fn worktree(&self, agent: &AgentId) -> Run {
        let mut run = self.run.excerpt(agent);
        let made = self.run.worktrees.get(agent).cloned();
        run.worktrees.extend(made.map(|made| (agent.clone(), made)));
        run
    }

    /// An agent whose checkout moves with it has its worktree already.
    fn make_worktree(&mut self, agent: AgentId, plan: WorktreePlan) -> Result<(), ApplyError> {
        let Some(Repository { root, .. }) = &self.repository else {
            self.wanted.push(Wanted::Worktree { agent });
            return Ok(());
        };
        let name = plan.name_for(agent.as_str());
        let branch = format!("raymond/{}/{name}", self.run.id);
        self.stored.rename_branch(&agent, &branch);
        let cwd =
            if plan.inside.is_empty() { root.clone() } else { format!("{root}/{}", plan.inside) };
        // Where it would be on one machine. Nothing is there: never a directory of the user, which `raymond prune`
        // could remove.
        let path = format!("{root}/.raymond/worktrees/{}/{name}", self.run.id);
        let WorktreePlan { repository, commit: base, .. } = plan;
        let worktree = Worktree { path, branch, repository, base, head: None, problem: None };
        let made = MadeWorktree { worktree: Box::new(worktree), cwd };
        self.decide(Input::WorktreeMade { agent, made: Ok(made) })
    }

    /// What an agent whose checkout moves with it leaves is committed already, as far as it could be.
    fn save_worktree(&mut self, agent: AgentId) -> Result<(), ApplyError> {
        if self.repository.is_none() {
            self.wanted.push(Wanted::Worktree { agent });
            return Ok(());
        }
        let own = self.stored.checkout(&agent);
        let head = own.map(|own| own.commit.clone());
        let saved = SavedWork { head, problem: own.and_then(|own| own.problem.clone()) };
        self.decide(Input::WorktreeSaved { agent, saved })
    }

    /// Prepares the next step of an agent from the bundle, or wants a worker to do it.
    fn prepare(&mut self, agent: AgentId) -> Result<(), ApplyError> {
        let Some(steps) = self.run.agents.get(&agent).map(|own| own.steps) else { return Ok(()) };
        let fresh = session(&self.run.identity, &agent, steps + 1);
        let _ = self.world.take_out_of_sight();
        let preparation = prepare(&self.run, &agent, &self.world, fresh.clone());
        if self.world.take_out_of_sight() {
            self.wanted.push(Wanted::Prepare { agent, fresh });
            return Ok(());
        }
        self.decide(preparation.input)
    }

    /// Answers a question with its default if that is due by now, and otherwise wants to look at it when it is.
    pub(crate) fn look_at_question(&mut self, id: &AskId, now_ms: u64) -> Result<(), ApplyError> {
        let response = match self.run.default_answer(id, now_ms) {
            Due::Now(response) => response,
            Due::Later(delay_ms) => {
                self.wanted.push(Wanted::Deadline { id: id.clone(), delay_ms });
                return Ok(());
            }
            Due::Never => return Ok(()),
        };
        self.decide(Input::Answered { id: id.clone(), response })
    }

    fn decide(&mut self, input: Input) -> Result<(), ApplyError> {
        let decision = decide(&self.run, input);
        self.commit(decision)
    }

    fn commit(&mut self, decision: Decision) -> Result<(), ApplyError> {
        let mut decision = if decision.is_empty() { settle(&self.run) } else { decision };
        while !decision.is_empty() {
            self.log.push(self.world.now_ms(), &decision.records);
            for record in &decision.records {
                self.apply(record)?;
            }
            // Before anything else happens: a worker starts from what its parent has now.
            self.take_in();
            self.effects.extend(decision.effects);
            decision = settle(&self.run);
        }
        Ok(())
    }

    fn apply(&mut self, record: &Record) -> Result<(), ApplyError> {
        apply(&mut self.run, record)
    }

    /// Whether nothing can change the run any more, except a resume.
    pub(crate) fn is_over(&self) -> bool {
        self.run.status != Status::Running
    }
}

/// The id of the session that a step may begin: a function of the step, so that a replay gives the same, and a UUID,
/// because coding agents want one.
fn session(identity: &str, agent: &AgentId, number: u32) -> SessionId {
    let mut bytes = [0; 16];
    let hash = Sha256::digest(format!("{identity}/{agent}/{number}"));
    bytes.copy_from_slice(&hash[..16]);
    SessionId::new(uuid::Builder::from_random_bytes(bytes).into_uuid().to_string())
}

#[cfg(test)]
mod tests;
