//! The journal: the append-only source of truth about a run, one checksummed JSON object per line.
//!
//! A line is one decision: a reader sees all of its records or none. Appending and making durable
//! are separate calls, because several decisions may share one `fdatasync`. The caller must call
//! [`Journal::sync`] before it performs any effect outside this process.

mod error;
mod file;
mod line;
mod read;
#[cfg(test)]
mod tests;

pub use error::{JournalError, UNREADABLE};
pub use file::{Journal, Opened, Trimmed};
pub use line::JournalEntry;
pub use read::{JournalEnds, JournalPosition};
