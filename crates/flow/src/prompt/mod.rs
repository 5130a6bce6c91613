//! The text that an agent is given.
//!
//! [`render`] fills in `{{variables}}`; [`reminder`], [`evaluator_reminder`], [`answered`], [`message`] and
//! [`continuation`] are what Raymond writes itself.

mod render;
mod voice;

pub use render::{Rendered, Variables, placeholders, render};
pub use voice::{
    answered, before_messages, continuation, evaluator_reminder, message, message_text, more_money,
    reminder, with_messages,
};
