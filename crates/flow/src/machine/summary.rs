//! How a run stands in three values, which every line of a journal carries: a list of runs reads no more than its last line.

use serde::{Deserialize, Serialize};

use crate::money::Usd;

use super::{Record, Status};

/// How a run stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Summary {
    /// Its status.
    pub status: Status,
    /// What it has cost.
    pub cost_usd: Usd,
    /// Whether it runs, but begins nothing new.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub halts: bool,
}

impl Summary {
    /// A run that has just begun.
    pub const BEGUN: Self = Self { status: Status::Running, cost_usd: Usd::ZERO, halts: false };

    /// How the run stands after these records, too.
    #[must_use]
    pub fn after<'a>(mut self, records: impl IntoIterator<Item = &'a Record>) -> Self {
        for record in records {
            self.add(record);
        }
        self
    }

    /// Adds the next record, as [`apply`](super::apply) does to the run.
    fn add(&mut self, record: &Record) {
        if let Record::Ended { spent, .. } = record {
            self.cost_usd += spent.cost_usd;
        } else if let Record::Halted { .. } = record {
            self.halts = true;
        } else if let Record::Finished { status } = record {
            self.status = *status;
        } else if let Record::Resumed { .. } = record {
            (self.status, self.halts) = (Status::Running, false);
        } else if let Record::Rewound { .. } = record
            && self.status == Status::Running
        {
            (self.status, self.halts) = (Status::Paused, true);
        }
    }
}
