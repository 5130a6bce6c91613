//! The interpreter: a run, what can happen to it, and what follows.
//!
//! Four verbs, always in this order. [`decide`] thinks: given the run and what happened, which
//! records become true and which effects are wanted. The engine then makes the records durable,
//! [`apply`]s them, and performs the effects, whose outcomes come back as further [`Input`]s.
//! After each decision, [`settle`] says what follows from the new state itself: that a place for
//! a turn is free, or that the run is over. [`replay`] is the same [`apply`] over a journal, so a
//! resumed run cannot differ from a live one; [`pending`] tells which effects it still waits for.

mod accounts;
mod agent;
mod apply;
mod counts;
mod crew;
mod decide;
mod effect;
mod follow;
mod input;
mod join;
mod naming;
mod pending;
mod record;
mod replay;
mod retry;
mod run;
mod settings;
mod settle;
mod step;

pub use accounts::{Account, Accounts};
pub use agent::{
    Agent, Answer, Evaluation, Frame, Left, Phase, Reminder, Session, Tries, Visit, Work,
};
pub use apply::{ApplyError, apply};
pub(crate) use counts::Counts;
pub use crew::{Crew, Standing, Worker};
pub use decide::{Decision, decide, start};
pub use effect::{Effect, Launch};
pub use input::{Again, Conclusion, Failure, FailureClass, Input, Prepared, Replaced};
pub use join::Taken;
pub use pending::pending;
pub use record::{CountsAs, Halt, Instead, Limit, Overrider, Record, Started, Via};
pub use replay::{ReplayError, replay};
pub use run::{Run, Status, UsageLimit};
pub use settings::{Limits, OnUsageLimit, Settings};
pub use settle::settle;
pub use step::{Action, SessionPlan, Spent, Step, Tokens, Turn, TurnSettings};
