//! The formats on disk, as types that are independent of the machine's.
//!
//! `v1` is the format of the journal's records, and of what the state file and the intent of a step
//! share with them; `message` is that of inputs between machines. Both are frozen: the machine may change its
//! types, and then the conversion changes, not what lies on users' disks.

mod convert;
mod message;
pub(crate) mod v1;

use serde::{Deserialize, Serialize};

use crate::machine;
pub(crate) use convert::Convert;
pub use message::{CodingAgentsMessage, InputMessage};

/// The newest version of the format, and the one that this program writes.
pub const VERSION: u32 = 1;

/// The records of one decision as a line of the journal holds them.
#[derive(Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Records(Vec<v1::Record>);

impl From<&[machine::Record]> for Records {
    fn from(records: &[machine::Record]) -> Self {
        Self(records.to_vec().convert())
    }
}

impl From<Records> for Vec<machine::Record> {
    fn from(records: Records) -> Self {
        records.0.convert()
    }
}

/// The intent of a step as it is stored in the step's directory.
#[derive(Debug, Serialize, Deserialize)]
pub struct Intent {
    /// The identity of the run whose step it is; empty if the run has none, or did not write it yet.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    run: String,
    #[serde(flatten)]
    step: v1::Step,
}

impl Intent {
    /// The intent of a step of the run with this identity.
    pub fn new(run: &str, step: &machine::Step) -> Self {
        Self { run: run.to_owned(), step: step.clone().convert() }
    }

    /// The step, unless it is that of another run than `run`.
    pub fn step_of(self, run: &str) -> Option<machine::Step> {
        (self.run.is_empty() || self.run == run).then(|| self.step.convert())
    }
}
