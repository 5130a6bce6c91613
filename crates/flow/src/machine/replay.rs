//! A run rebuilt from its records.

use thiserror::Error;

use super::{ApplyError, Record, Run, apply};

/// Why records do not describe a run.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum ReplayError {
    /// No records at all.
    #[error("the journal is empty")]
    Empty,
    /// The first record does not start the run.
    #[error("the journal does not begin with the start of a run")]
    NoStart,
    /// A record does not fit those before it.
    #[error("record {number} does not fit the run")]
    Unfit {
        /// The number of the record, from 1.
        number: u64,
        /// The mismatch.
        source: ApplyError,
    },
}

/// Rebuilds the run that `records` describe.
pub fn replay(records: impl IntoIterator<Item = Record>) -> Result<Run, ReplayError> {
    let mut records = records.into_iter();
    let mut run = match records.next() {
        Some(Record::Started(started)) => Run::new(&started),
        Some(_) => return Err(ReplayError::NoStart),
        None => return Err(ReplayError::Empty),
    };
    for (number, record) in (2..).zip(records) {
        apply(&mut run, &record).map_err(|source| ReplayError::Unfit { number, source })?;
    }
    Ok(run)
}
