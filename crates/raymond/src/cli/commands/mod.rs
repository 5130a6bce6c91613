//! The commands, a file for each kind.

mod inspect;
mod keep;
mod lint;
mod place;
mod run;
mod setup;

pub(super) use inspect::{list, status};
pub(super) use keep::keep;
pub(super) use lint::lint;
pub(super) use run::{recover, resume, start};
