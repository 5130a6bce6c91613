//! Checks the state of steps: those in flight, and those of an earlier orchestrator.

use std::io;

use raymond_flow::{
    id::StepId,
    machine::{Halt, Input, Run, Spent, Step},
    turn::Outcome,
};

use super::{Performer, launching::tell_start};
use crate::{
    exec::{step::StepState, steps::Flight},
    run::{
        error::{EngineError, at_work},
        events::Observer,
    },
    sys::Pid,
};

/// A lost keeper takes unread requests with it, and their steps are launched again. If keepers or reapers are
/// lost more often than this without the end of any step, something else is wrong.
const HELPERS_LOST_MAX: u32 = 10;

/// What to do with a step that was requested but not claimed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unclaimed {
    /// Wait for it: it was launched a moment ago.
    Wait,
    /// Forbid it, and start it again under another id: the request may be lost or late.
    Forbid,
    /// Forbid it, and count it as lost: starting it again would not help.
    Lost,
}

/// The state of a step.
pub(crate) enum Look {
    /// It has ended and is no longer in flight.
    Over {
        /// The halt that follows from it, if any.
        halt: Option<Halt>,
        /// What its outcome means.
        input: Box<Input>,
    },
    /// It is running under this reaper.
    Runs(Option<Pid>),
    /// It is not claimed yet.
    Waits,
    /// It has ended, but the disk is too full to record that. It stays in flight.
    NoRoom(Halt),
}

impl Performer<'_> {
    /// Adds a step that an earlier orchestrator started.
    pub(crate) fn reattach(&mut self, id: &StepId, step: &Step, observer: &mut dyn Observer) {
        tell_start(observer, (id, step), &self.folder(id), true, &[]);
        self.flights.add(id.clone(), self.means.steps.connection(), None);
    }

    /// Checks a step in flight. `None` if the run does not wait for it.
    pub(crate) fn look(
        &mut self,
        run: &Run,
        id: &StepId,
        unclaimed: Unclaimed,
        observer: &mut dyn Observer,
    ) -> Result<Option<Look>, EngineError> {
        let Some((_, step)) = run.running_step(id) else {
            return Ok(None);
        };
        match self.try_look(run, (id, step), unclaimed, observer) {
            Err(EngineError::AtWork { what, source }) => {
                let Some(halt) = self.no_room(&source) else { return Err(at_work(what, source)) };
                if let Some(flight) = self.flights.get_mut(id) {
                    flight.is_stuck = true;
                }
                Ok(Some(Look::NoRoom(halt)))
            }
            look => look.map(Some),
        }
    }

    fn try_look(
        &mut self,
        run: &Run,
        (id, step): (&StepId, &Step),
        unclaimed: Unclaimed,
        observer: &mut dyn Observer,
    ) -> Result<Look, EngineError> {
        let standing = self.standing(id, unclaimed);
        let standing = standing.map_err(|error| at_work("look at a step", error))?;
        let (outcome, spent) = match &standing {
            StepState::Running(reaper) | StepState::Foreign { reaper, .. } => {
                return Ok(Look::Runs(*reaper));
            }
            StepState::Unclaimed => match unclaimed {
                Unclaimed::Wait => return Ok(Look::Waits),
                Unclaimed::Forbid => (Outcome::NotStarted, Spent::default()),
                Unclaimed::Lost => (Outcome::Lost, Spent::default()),
            },
            StepState::Lost | StepState::Damaged | StepState::Ended(_) => {
                match self.read_outcome((id, step), &standing, observer) {
                    // A cancelled run needs no outcome, and nothing may prevent it from ending.
                    read if run.halt == Some(Halt::Cancelled) => {
                        (Outcome::Interrupted, read.map(|(_, spent)| spent).unwrap_or_default())
                    }
                    read => read.map_err(|error| at_work("read an outcome", error))?,
                }
            }
        };
        let (halt, input) =
            self.conclude(run, (id, step), &standing, (outcome, spent), observer)?;
        self.land(id);
        Ok(Look::Over { halt, input: Box::new(input) })
    }

    /// The state of a step. One that is not claimed is forbidden, unless the loop waits for it.
    fn standing(&mut self, id: &StepId, unclaimed: Unclaimed) -> io::Result<StepState> {
        let folder = self.folder(id);
        let standing = self.means.steps.standing(&folder)?;
        let is_forbidden = standing == StepState::Unclaimed
            && unclaimed != Unclaimed::Wait
            && !self.means.steps.forbid(&folder)?;
        // If it was claimed between the two calls, its state must be read again.
        if is_forbidden { self.means.steps.standing(&folder) } else { Ok(standing) }
    }

    /// Removes a step from those in flight. A process whose turn failed is not given another turn.
    fn land(&mut self, id: &StepId) {
        let Some(flight) = self.flights.remove(id) else { return };
        let folder = self.folder(id);
        self.means.steps.is_over(&folder, flight.is_told);
        if flight.is_told {
            self.helpers_lost = 0;
        }
        if let Some(process) = flight.process {
            self.warm.drop_busy(process);
            self.let_released_go();
        }
    }

    /// Records that the runner reported the step whose directory has this name. Returns its id if it is in
    /// flight.
    pub(crate) fn told(&mut self, name: &str) -> Option<StepId> {
        let id = self.flights.by_name(name)?;
        self.flights.get_mut(&id)?.is_told = true;
        Some(id)
    }

    /// Whether a step in flight should have been claimed by now.
    pub(crate) fn is_overdue(&mut self, id: &StepId) -> bool {
        self.flights.get_mut(id).is_some_and(|flight| Flight::is_overdue(flight))
    }

    /// Records that a keeper or reaper was lost, and perhaps requests with it. Returns what to do with
    /// steps that are not claimed.
    pub(crate) fn helper_is_lost(&mut self) -> Unclaimed {
        self.helpers_lost += 1;
        if self.helpers_lost <= HELPERS_LOST_MAX { Unclaimed::Forbid } else { Unclaimed::Lost }
    }

    /// Ends a step that is running under `reaper`.
    pub(crate) fn end(&mut self, id: &StepId, reaper: Option<Pid>, by_force: bool) {
        let folder = self.folder(id);
        self.means.steps.end(&folder, reaper, by_force);
    }
}
