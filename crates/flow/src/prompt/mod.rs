//! The text that an agent is given.
//!
//! [`render`] fills in `{{variables}}`; [`reminder`], [`evaluator_reminder`], [`answered`] and [`continuation`]
//! are the messages that Raymond writes itself.

mod render;
mod voice;

pub use render::{Rendered, Variables, placeholders, render};
pub use voice::{answered, continuation, evaluator_reminder, more_money, reminder};
