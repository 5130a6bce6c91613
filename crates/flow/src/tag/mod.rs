//! From an agent's words to one typed transition tag.
//!
//! Text goes through three stages:
//!
//! 1. `token` finds opening and closing tags in the bytes, by the names in the catalogue (`kind`);
//! 2. `scan` pairs them into elements, in one pass, chunk by chunk, in bounded memory;
//! 3. `parse` demands that there is exactly one and that it says all it must. `payload` tells where a
//!    result ends that mentions its own tag.
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
