//! How steps stand: those in flight, and those of an earlier orchestrator found again.

use std::io;

use raymond_flow::{
    id::StepId,
    machine::{Halt, Input, Run, Spent, Step},
    turn::Outcome,
};

use super::{Performer, launching::tell_start};
use crate::{
    error::{EngineError, at_work},
    events::Observer,
    step::StepState,
    steps::Flight,
    sys::Pid,
};

/// A keeper that is lost takes unread requests with it, and they are launched again. If keepers or
/// reapers are lost more often than this without any step coming to an end, something else is wrong.
const HELPERS_LOST_MAX: u32 = 10;

/// What to do with a step that was asked for and not claimed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unclaimed {
    /// Wait for it: it was launched a moment ago.
    Wait,
    /// Forbid it, and start it again under another id: the request may be lost, or come too late.
    Forbid,
    /// Forbid it, and count it as lost: starting it again and again would not help.
    Lost,
}

/// How a step stands.
pub(crate) enum Look {
    /// It is over, and is in flight no more.
    Over {
        /// Why nothing new may start because of it.
        halt: Option<Halt>,
        /// What its outcome means.
        input: Box<Input>,
    },
    /// It runs, under this reaper.
    Runs(Option<Pid>),
    /// It is not claimed yet.
    Waits,
    /// It is over, but the disk is too full to say so. It stays in flight.
    NoRoom(Halt),
}

impl Performer<'_> {
    /// Notes a step that an earlier orchestrator started.
    pub(crate) fn reattach(&mut self, id: &StepId, step: &Step, observer: &mut dyn Observer) {
        tell_start(observer, (id, step), &self.folder(id), true, &[]);
        self.flights.add(id.clone(), self.means.steps.connection(), None);
    }

    /// Looks at a step in flight. `None` if the run does not wait for it.
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
                    // A cancelled run needs no outcome, and nothing may keep it from ending.
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

    /// How a step stands. One that is not claimed is forbidden, unless it is waited for.
    fn standing(&mut self, id: &StepId, unclaimed: Unclaimed) -> io::Result<StepState> {
        let folder = self.folder(id);
        let standing = self.means.steps.standing(&folder)?;
        let is_forbidden = standing == StepState::Unclaimed
            && unclaimed != Unclaimed::Wait
            && !self.means.steps.forbid(&folder)?;
        // If it was claimed between the two calls, it has to be looked at again.
        if is_forbidden { self.means.steps.standing(&folder) } else { Ok(standing) }
    }

    /// A step is in flight no more. A process that did not end its turn well is not given another.
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

    /// Takes note that the runner told of the step whose folder has this name. Returns its id if it is in
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

    /// Takes note that a keeper or reaper was lost, and perhaps requests with it. Returns what to do with
    /// steps that are not claimed.
    pub(crate) fn helper_is_lost(&mut self) -> Unclaimed {
        self.helpers_lost += 1;
        if self.helpers_lost <= HELPERS_LOST_MAX { Unclaimed::Forbid } else { Unclaimed::Lost }
    }

    /// Ends a step that runs under `reaper`.
    pub(crate) fn end(&mut self, id: &StepId, reaper: Option<Pid>, by_force: bool) {
        let folder = self.folder(id);
        self.means.steps.end(&folder, reaper, by_force);
    }
}
