//! A workflow in one YAML file: the same files as in a directory, without the directory.
//!
//! ```yaml
//! states:
//!   START:
//!     model: opus
//!     prompt: |
//!       Do this: {{input}}
//!   TEST:
//!     sh: |
//!       make test && echo "<result>done</result>"
//!   review/:
//!     START: { prompt: "Review it." }
//! files:
//!   notes.txt: "anything else that lies beside the states"
//! ```
//!
//! [`OneFile::read`] gives the files and where each of their lines stands in the YAML, [`write()`] the YAML of
//! files. Writing and reading give the same bytes again.

mod read;
mod write;

pub use read::{OneFile, OneFileError};
pub use write::{WriteError, write};

use crate::source::{PROMPT_EXTENSION, Platform};

/// The key for the prompt of a state; its other keys are the frontmatter.
const PROMPT: &str = "prompt";
/// The keys of the document.
const STATES: &str = "states";
const FILES: &str = "files";

/// Folders in folders, then a state, its keys, and frontmatter as deep as it may be.
const DEPTH_MAX: usize = 32;

/// The keys of a state that are files of their own, with their extensions.
fn file_keys() -> [(&'static str, &'static str); 3] {
    let script = |platform: Platform| platform.script_extension();
    let key = |extension: &'static str| extension.trim_start_matches('.');
    let (unix, windows) = (script(Platform::Unix), script(Platform::Windows));
    [(PROMPT, PROMPT_EXTENSION), (key(unix), unix), (key(windows), windows)]
}
