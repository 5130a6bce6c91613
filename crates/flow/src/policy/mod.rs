//! What a state allows, and what follows from an answer: accept it, remind, or fail.
//!
//! * [`AllowedTransition`] and [`Policy`]: what the frontmatter declares.
//! * [`Transition`]: a tag whose states have been found.
//! * [`Question`]: what a person is asked, and where each answer leads.
//! * [`judge`]: tag, policy and scope in, [`Verdict`] out.
//! * [`Evaluator`]: second opinions on a transition that is already valid.

mod allowed;
mod ask;
mod evaluator;
mod join;
mod judge;
mod pattern;
mod problem;
mod question;
mod transition;
mod variable_name;
mod worktree;

pub(crate) use allowed::LEFT_OPEN;
pub use allowed::{AllowedTransition, Policy};
pub(crate) use ask::check_default;
pub use ask::{ATTACHMENTS_MAX, AskProblem};
pub use evaluator::{Evaluator, Opinion, next_opinion};
pub(crate) use join::number;
pub use join::{Join, OnFailed};
pub use judge::{Accepted, JudgeContext, Source, Verdict, judge, judge_script, judge_transition};
pub(crate) use pattern::{PATTERNS_SIZE_MAX, pattern_size};
pub use problem::Problem;
pub use question::{ALLOW, Choice, Question};
pub use transition::{Forked, Transition};
pub use variable_name::{Chooser, UnsafeName, check_variable_name};
pub use worktree::WorktreePlan;
pub(crate) use worktree::{is_worktree, worktree_name};
