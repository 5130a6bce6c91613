//! The next step of an agent, from the workflow's files as they are now.

use raymond_flow::{
    id::{AgentId, SessionId, StepId},
    machine::{Action, Input, Prepared, Run, Step},
    turn::{Preparation, prepare},
};

use super::Performer;
use crate::{
    exec::step::StepState,
    run::{
        error::{EngineError, at_work},
        events::{Event, Observer},
        usage_limit::SharedLimit,
    },
};

impl Performer<'_> {
    /// Prepares the next step of `agent`.
    pub(crate) fn prepare(
        &mut self,
        run: &Run,
        agent: &AgentId,
        observer: &mut dyn Observer,
    ) -> Result<Input, EngineError> {
        let fresh = SessionId::new(uuid::Uuid::new_v4().to_string());
        let Preparation { mut input, unknown_variables, warnings } =
            prepare(run, agent, &self.means.world, fresh);
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
            self.take_over(agent, step)?;
            if let Action::Turn(turn) = &step.action
                && let Some(SharedLimit { resets_at, .. }) = self.limit_before(agent, step)
            {
                let coding_agent = turn.settings.agent.clone();
                return Ok(Input::UsageLimited { coding_agent, resets_at });
            }
        }
        Ok(input)
    }

    /// The usage limit that keeps a step from being started. One that was started before is only looked at.
    fn limit_before(&mut self, agent: &AgentId, step: &Step) -> Option<SharedLimit> {
        let id = StepId { agent: agent.clone(), number: step.number };
        match &step.action {
            Action::Turn(turn) if !self.started_before.contains(&id) => self.known_limit(turn),
            Action::Turn(_) | Action::Script { .. } => None,
        }
    }

    /// Takes over a step that was started under this very id although the journal, which lost its tail,
    /// does not contain it. The intent in the step's directory counts, above all its session.
    fn take_over(&mut self, agent: &AgentId, step: &mut Box<Step>) -> Result<(), EngineError> {
        let id = StepId { agent: agent.clone(), number: step.number };
        let folder = self.folder(&id);
        let look = |error| at_work("look at a step", error);
        if self.means.steps.standing(&folder).map_err(look)? == StepState::Unclaimed {
            return Ok(());
        }
        if let Some(intent) = folder.intent().map_err(look)? {
            **step = intent;
        }
        self.started_before.insert(id);
        Ok(())
    }
}
