//! The journal: the truth about a run, append-only, one checksummed JSON object a line.
//!
//! A line is one decision: its records stand or fall together. Appending and making durable are
//! two acts, because several decisions may share one `fdatasync`; whoever touches the world calls
//! [`Journal::sync`] first.

mod error;
mod file;
mod line;
mod read;
#[cfg(test)]
mod tests;

pub use error::JournalError;
pub use file::{Journal, Opened, Trimmed};
pub use line::Entry;
pub use read::Position;
