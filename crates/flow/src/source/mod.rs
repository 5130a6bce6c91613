//! Parses the bytes of a file into a state: a prompt with its declared policy, or a script.
//!
//! Start at [`StateFile::read`]. Problems are returned as [`Diagnostic`]s with a place in the
//! file, several at once where possible, and warnings together with errors.

mod diagnostic;
mod frontmatter;
mod kind;
mod labels;
mod options;
mod schema;
mod state_file;
mod timeout;
pub mod yaml;

pub use crate::platform::Platform;
pub use diagnostic::{Diagnostic, Matter, Severity};
pub use frontmatter::{Frontmatter, KEYS, VisitLimit};
pub use kind::{StateKind, StateKindError};
pub use labels::{LABELS_MAX, is_label};
pub use options::{OPTION_KEYS, TurnOptions};
pub use schema::{OUTPUT_BYTES_MAX, Schema, SchemaSource};
pub use state_file::{Prompt, StateFile, StateFileError, StateSource};
pub use timeout::{Timeout, TimeoutError};

pub(crate) use diagnostic::{FINDINGS_MAX, and_more, did_you_mean};
pub(crate) use kind::PROMPT_EXTENSION;
pub(crate) use schema::fields;
pub(crate) use state_file::fingerprint;
