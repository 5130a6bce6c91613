//! The interpreter: a run, what can happen to it, and what follows.
//!
//! Four verbs, always in this order. [`decide`] computes, from the run and an input, the records that become
//! true and the effects to perform. The engine then makes the records durable, [`apply`]s them, and performs
//! the effects, whose outcomes come back as further [`Input`]s.
//! After each decision, [`settle`] derives what follows from the new state itself: that a queued turn may
//! start, or that the run is over. [`replay`] is the same [`apply`] over a journal, so a resumed run cannot
//! differ from a live one; [`pending`] derives the effects that it still waits for.

mod agent;
mod apply;
mod ask;
mod counts;
mod crew;
mod decide;
mod draft;
mod effect;
mod follow;
mod input;
mod join;
mod message;
mod naming;
mod pending;
mod record;
mod replay;
mod retry;
mod rewind;
mod run;
mod settings;
mod settle;
mod share;
mod step;
mod summary;
mod window;
mod worktree;

pub use agent::{
    Agent, Answer, Evaluation, Frame, Left, Phase, Reminder, Session, Tries, Visit, Work,
};
pub use apply::{ApplyError, apply};
pub use ask::{Attachment, Due, RAYMOND, Response, SETTING, TIMEOUT};
pub use crew::{Crew, Standing, Worker};
pub use decide::{Decision, decide, start};
pub use effect::{Effect, Launch};
pub use input::{Again, Conclusion, FailureClass, Input, Prepared, Replaced, TurnFailure};
pub use join::Taken;
pub use message::Message;
pub use pending::pending;
pub use record::{CountsAs, Halt, Instead, Limit, Overrider, Record, Started, Via};
pub use replay::{ReplayError, replay};
pub use rewind::bookmarks;
pub use run::{Run, Status, UsageLimit};
pub use settings::{Failover, Limits, OnAsk, OnUsageLimit, Settings};
pub use settle::settle;
pub use step::{Action, SessionPlan, Spent, StandIn, Step, Tokens, Turn, TurnSettings};
pub use summary::Summary;
pub use window::UsageWindow;
pub use worktree::{Leave, MadeWorktree, SavedWork, Worktree};
