//! From a template to the words that an agent is given.
//!
//! [`render`] fills in `{{variables}}`; [`reminder`], [`evaluator_reminder`] and [`continuation`]
//! are the few sentences that Raymond says in its own voice.

mod render;
mod voice;

pub use render::{Rendered, Variables, placeholders, render};
pub use voice::{continuation, evaluator_reminder, reminder};
