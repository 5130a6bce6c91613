//! The commands, a file for each kind.

mod admit;
mod attach;
mod cancel;
mod demo;
mod diagram;
mod follow;
mod inspect;
mod keep;
mod lint;
mod new;
mod pack;
mod place;
mod prepare;
mod run;
mod runs;
mod shell;
mod test;

pub(super) use attach::attach;
pub(super) use cancel::cancel;
pub(super) use demo::demo;
pub(super) use diagram::diagram;
pub(super) use inspect::{list, log, status};
pub(super) use keep::keep;
pub(super) use lint::lint;
pub(super) use new::new;
pub(super) use pack::pack;
pub(super) use run::{recover, resume, run, start};
pub(super) use shell::{completions, config, init, man};
pub(super) use test::test;
