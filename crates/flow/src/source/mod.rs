//! From the bytes of a file to a typed state: prompt or script, with its declared policy.
//!
//! [`StateFile::read`] is the way in. Whatever is wrong comes back as [`Diagnostic`]s with a
//! place in the file: several at once where possible, warnings beside errors.

mod diagnostic;
mod frontmatter;
mod kind;
mod state_file;
mod timeout;
pub mod yaml;

pub use crate::platform::Platform;
pub use diagnostic::{Diagnostic, Matter, Severity};
pub use frontmatter::{Frontmatter, KEYS};
pub use kind::{StateKind, StateKindError};
pub use state_file::{Prompt, StateFile, StateFileError, StateSource};
pub use timeout::{Timeout, TimeoutError};

pub(crate) use diagnostic::{FINDINGS_MAX, and_more, did_you_mean};
pub(crate) use kind::PROMPT_EXTENSION;
pub(crate) use state_file::fingerprint;
