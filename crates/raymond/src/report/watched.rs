//! A run as its observer knows it, kept up to date from events: the run, and what is shown of it.

use raymond_engine::run::events::{Event, Seen};
use raymond_flow::{
    machine::{Run, apply},
    view::{At, RunView},
};

/// A run that is observed.
#[derive(Debug)]
pub(crate) struct Watched {
    pub(crate) run: Run,
    pub(crate) view: RunView,
}

impl Watched {
    /// Takes in the next event. There is nothing to watch before the run was opened.
    pub(crate) fn see(watched: &mut Option<Self>, Seen { at_ms, event }: &Seen) {
        match event {
            Event::Opened { run, is_new, .. } => {
                let view = if *is_new { RunView::default() } else { RunView::of(run, *at_ms) };
                *watched = Some(Self { run: (**run).clone(), view });
            }
            Event::Recorded { record, .. } => {
                let Some(Self { run, view }) = watched else { return };
                // A run is made from its first record. One that does not fit ends the run with an error.
                if record.started().is_some() || apply(run, record).is_ok() {
                    view.add(record, run, At { ms: *at_ms, ..At::default() });
                }
            }
            _ => {}
        }
    }
}
