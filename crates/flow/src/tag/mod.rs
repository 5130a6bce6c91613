//! Extracts the one transition tag from an agent's answer.
//!
//! Text goes through three stages:
//!
//! 1. `token` finds opening and closing tags in the bytes, by the names in the catalogue (`kind`);
//! 2. `scan` pairs them into elements, in one pass, chunk by chunk, in bounded memory;
//! 3. `parse` requires exactly one element with everything that its tag needs. `payload` finds the end
//!    of a result or question that mentions its own tag; `choices` reads the answers that a question offers.
//!
//! Which states exist is checked in [`crate::scope`], and what is allowed in [`crate::policy`].

mod choices;
mod kind;
mod parse;
mod payload;
mod scan;
mod token;
mod typed;

pub use choices::{CHOICES_MAX, ChoicesError, LABEL_CHARS_MAX, WrittenChoice, choices};
pub use kind::{AttributeRole, TagContent, TagKind, TagSpec};
pub use parse::{
    MalformedWhy, PAYLOAD_BYTES_MAX, QUESTION_BYTES_MAX, TARGET_BYTES_MAX, TagError, TargetPlace,
    parse,
};
pub use scan::{Element, FORKS_MAX, Scan, Scanner, mentions};
pub use token::{Attribute, OPENING_BYTES_MAX};
pub use typed::{Tag, Target};
