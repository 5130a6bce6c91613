//! The commands, one file for each kind.

mod acp;
mod admit;
mod answer;
mod ask;
mod attach;
mod background;
mod cancel;
mod cluster;
mod cost;
mod demo;
mod diagram;
mod doctor;
mod inspect;
mod keep;
mod land;
mod lint;
mod manual;
mod new;
mod pack;
mod place;
mod prepare;
mod prune;
mod rewind;
mod run;
mod runs;
#[cfg(feature = "serve")]
mod serve;
mod shell;
mod show;
mod tell;
mod test;
mod trust;
mod workflows;

pub(super) use acp::{acp, greet};
pub(crate) use answer::user;
pub(super) use answer::{answer, asks};
pub(super) use ask::{limit, stop};
pub(super) use attach::attach;
pub(super) use cancel::cancel;
pub(super) use cluster::{cluster, host, plan};
pub(super) use cost::cost;
pub(super) use demo::demo;
#[cfg(feature = "serve")]
pub(super) use demo::demo_on_the_web;
pub(super) use diagram::diagram;
pub(super) use doctor::doctor;
pub(super) use inspect::{list, log, status};
pub(super) use keep::keep;
pub(super) use land::land;
pub(super) use lint::lint;
pub(super) use manual::{help, man};
pub(super) use new::new;
pub(super) use pack::pack;
pub(super) use prune::prune;
pub(super) use rewind::{fork_run, rewind};
pub(super) use run::{recover, resume, run, start};
#[cfg(feature = "serve")]
pub(super) use serve::{open, serve};
pub(super) use shell::{completions, config, init};
pub(super) use show::show;
pub(super) use tell::tell;
pub(super) use test::test;
pub(super) use trust::trust;
