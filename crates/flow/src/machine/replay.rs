//! A run rebuilt from its records.

use thiserror::Error;

use super::{ApplyError, Record, Run, apply};

/// Why records do not make a run.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum ReplayError {
    /// No records at all.
    #[error("the journal is empty")]
    Empty,
    /// The first record is not the beginning.
    #[error("the journal does not begin with the start of a run")]
    NoStart,
    /// A record does not follow from those before.
    #[error("record {number} does not fit the run")]
    Unfit {
        /// Which one, from 1.
        number: u64,
        /// Why.
        source: ApplyError,
    },
}

/// Folds `records` into the run that they describe.
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
