//! From an agent's words to one typed transition tag.
//!
//! Text goes through three stages, each a file of its own:
//!
//! 1. [`token`](self) finds the opening and closing tags of the six names in the bytes;
//! 2. [`scan`](self) pairs them into elements, in one pass, chunk by chunk, in bounded memory;
//! 3. [`parse`](self) demands that there is exactly one and that it says all it must.
//!
//! Nothing here knows which states exist or what is allowed: that is [`crate::scope`] and
//! [`crate::policy`].

mod kind;
mod parse;
mod payload;
mod scan;
mod token;
mod typed;

pub use kind::{AttributeRole, TagContent, TagKind, TagSpec};
pub use parse::{MalformedWhy, PAYLOAD_BYTES_MAX, TARGET_BYTES_MAX, TagError, TargetPlace, parse};
pub use scan::{Element, Scan, Scanner, mentions};
pub use token::{Attribute, OPENING_BYTES_MAX};
pub use typed::{Tag, Target};
