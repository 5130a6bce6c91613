//! The commands, a file for each kind.

mod inspect;
mod keep;
mod place;
mod prepare;
mod run;
mod shell;

pub(super) use inspect::{list, log, status};
pub(super) use keep::keep;
pub(super) use run::{cancel, recover, resume, start};
pub(super) use shell::{completions, config, init, man};
