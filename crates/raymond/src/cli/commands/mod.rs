//! The commands, a file for each kind.

mod diagram;
mod inspect;
mod keep;
mod lint;
mod new;
mod pack;
mod place;
mod run;
mod setup;

pub(super) use diagram::diagram;
pub(super) use inspect::{list, status};
pub(super) use keep::keep;
pub(super) use lint::lint;
pub(super) use new::new;
pub(super) use pack::pack;
pub(super) use run::{recover, resume, start};
