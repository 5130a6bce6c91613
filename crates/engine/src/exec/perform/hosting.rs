//! Starting a step that an orchestrator on another machine has decided about.

use raymond_flow::{
    id::{AgentId, SessionId, StepId},
    machine::{
        Action, Again, Conclusion, FailureClass, Input, Launch, Prepared, Run, SessionPlan, Step,
        TurnFailure,
    },
    turn::prepare,
};

use super::{Launched, Performer};
use crate::{
    exec::{
        host::{Mapping, SessionPlace},
        step::StepState,
    },
    run::{
        error::{EngineError, at_work},
        events::Observer,
    },
};

impl Performer<'_> {
    /// Starts step `id`, which `run` intends, unless it was started before. What the child is given is prepared here,
    /// from the files of this machine.
    pub(crate) fn host(
        &mut self,
        run: &Run,
        id: &StepId,
        observer: &mut dyn Observer,
    ) -> Result<Launched, EngineError> {
        let Some((agent, step)) = run.running_step(id) else {
            return Ok(Launched::Failed(misfit(format!("the run does not intend step {id}"))));
        };
        let folder = self.folder(id);
        let standing = self.means.steps.standing(&folder);
        if standing.map_err(|error| at_work("look at a step", error))? != StepState::Unclaimed {
            self.reattach(id, step, observer);
            return Ok(Launched::Found);
        }
        let session = match &step.action {
            Action::Turn(turn) => turn.session.id().clone(),
            Action::Script { .. } => SessionId::new(""),
        };
        let launch = match prepare(run, &id.agent, &self.means.world, session).input {
            Input::Prepared { prepared: Ok(Prepared::Start { launch, .. }), .. } => launch,
            Input::Prepared { prepared: Err(why), .. } => return Ok(Launched::Failed(misfit(why))),
            other => return Ok(Launched::Failed(misfit(format!("step {id} became {other:?}")))),
        };
        match (&step.action, &launch) {
            (Action::Turn(_), Launch::Turn { .. })
            | (Action::Script { .. }, Launch::Script { .. }) => {
                let (cwd, step) = (self.means.world.real(&agent.cwd), self.here(step));
                self.launch((id, &step, cwd, launch), observer)
            }
            _ => Ok(Launched::Failed(misfit(format!(
                "`{}` is of another kind on this machine",
                step.state
            )))),
        }
    }

    /// The step with the directories of this machine.
    fn here(&self, step: &Step) -> Step {
        let mut step = step.clone();
        if let Action::Turn(turn) = &mut step.action
            && let SessionPlan::Branch { cwd: Some(cwd), .. } = &mut turn.session
        {
            *cwd = self.means.world.real(cwd);
        }
        step
    }

    /// From now on the directory of the run is elsewhere on this machine, if that is said.
    pub(crate) fn set_mapping(&self, mapping: Option<Mapping>) {
        self.means.world.set_mapping(mapping);
    }

    /// The sessions that step `id` needs or makes, and where they are on this machine: none of a coding agent whose
    /// sessions cannot move.
    pub(crate) fn sessions(&self, run: &Run, id: &StepId) -> Vec<SessionPlace> {
        let Some((agent, Step { action: Action::Turn(turn), .. })) = run.running_step(id) else {
            return Vec::new();
        };
        let Ok(coding_agent) = self.means.agents.for_turn(turn) else { return Vec::new() };
        let place = |session: &SessionId, cwd: &str| {
            let parts = coding_agent.session_parts(session, &self.means.world.real(cwd))?;
            Some(SessionPlace { session: session.clone(), parts })
        };
        let source = match &turn.session {
            SessionPlan::Fresh { .. } | SessionPlan::Resume { .. } => None,
            SessionPlan::Branch { from, cwd, .. } => {
                place(from, cwd.as_deref().unwrap_or(&agent.cwd))
            }
        };
        place(turn.session.id(), &agent.cwd).into_iter().chain(source).collect()
    }

    /// Adds what to do to the failure of a turn that did not find its session, if that cannot move between machines.
    pub(crate) fn explain(&self, run: &Run, id: &StepId, input: &mut Input) {
        let Input::Ended {
            conclusion: Conclusion::Again { why: Again::Failed(failure), .. }, ..
        } = input
        else {
            return;
        };
        if failure.class == FailureClass::SessionMissing && self.sessions(run, id).is_empty() {
            failure.message.push_str(
                "; sessions of this coding agent do not move between machines: keep them in a directory that all workers share",
            );
        }
    }

    /// Prepares the next step of `agent`: for an orchestrator that cannot see the directories of this machine.
    pub(crate) fn prepare_hosted(&self, run: &Run, agent: &AgentId, fresh: SessionId) -> Input {
        prepare(run, agent, &self.means.world, fresh).input
    }
}

/// The failure of a step that this machine cannot start as the orchestrator meant it.
fn misfit(message: String) -> TurnFailure {
    TurnFailure { class: FailureClass::Misconfigured, message }
}
