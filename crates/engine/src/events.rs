//! What observers may see of a run: console, debug files, later a TUI and a server.
//!
//! One typed stream. It is for eyes only: nothing is ever rebuilt from it.

use std::path::PathBuf;

use raymond_flow::{
    id::{AgentId, RunId, StateName, StepId},
    machine::{Record, Run, Step},
    source::Diagnostic,
};

use crate::{agent::Activity, journal::Trimmed};

/// Something worth seeing.
#[derive(Debug)]
pub enum Event<'a> {
    /// The run is open: it begins, or somebody takes it up again. The first event, unless the journal
    /// had to be trimmed.
    Opened {
        /// Which run.
        id: &'a RunId,
        /// How it stands; of one that is taken up again, as it was left.
        run: &'a Run,
        /// Whether it begins.
        is_new: bool,
    },
    /// An unfinished end of the journal was moved to a file beside it.
    JournalTrimmed(&'a Trimmed),
    /// A step was started, or found running.
    StepStarted {
        /// Which.
        id: &'a StepId,
        /// Its intent.
        step: &'a Step,
        /// Where its output goes.
        folder: PathBuf,
        /// Whether an earlier orchestrator had started it.
        is_found: bool,
        /// The variables that Raymond set for it.
        environment: &'a [(String, String)],
    },
    /// A coding agent does something.
    Activity {
        /// In which step.
        id: &'a StepId,
        /// What.
        activity: &'a Activity,
    },
    /// A step ended.
    StepEnded {
        /// Which.
        id: &'a StepId,
        /// Its intent.
        step: &'a Step,
        /// Its folder, with its output.
        folder: PathBuf,
        /// Its exit code, if it had one.
        exit_code: Option<i32>,
        /// How long it ran.
        duration_ms: u64,
    },
    /// Something became true. `run` is the run before that; when it begins, as it begins.
    Recorded {
        /// What.
        record: &'a Record,
        /// When, in milliseconds since 1970.
        at_ms: u64,
        /// The run as it was.
        run: &'a Run,
    },
    /// Names in a prompt that no variable has.
    UnknownVariables {
        /// Whose prompt.
        agent: &'a AgentId,
        /// Which prompt.
        state: &'a StateName,
        /// The names.
        names: &'a [String],
    },
    /// Something is odd about a state file.
    StateFileWarning(&'a Diagnostic),
    /// Something of no consequence for the run went wrong.
    Trouble(&'a str),
}

/// Somebody who watches.
pub trait Observer {
    /// Sees `event`. Must not block, and cannot fail: watching never changes what is watched.
    fn see(&mut self, event: &Event<'_>);

    /// Whether it wants to see what coding agents do while they do it.
    fn wants_activity(&self) -> bool {
        false
    }

    /// What it could not do since it was asked the last time, for the others to tell.
    fn complaint(&mut self) -> Option<String> {
        None
    }
}

/// Several who watch. What one of them cannot do is shown to all as [`Event::Trouble`].
impl Observer for Vec<Box<dyn Observer>> {
    fn see(&mut self, event: &Event<'_>) {
        for observer in self.iter_mut() {
            observer.see(event);
        }
        let complaints: Vec<_> = self.iter_mut().filter_map(|who| who.complaint()).collect();
        for text in &complaints {
            for observer in self.iter_mut() {
                observer.see(&Event::Trouble(text));
            }
        }
    }

    fn wants_activity(&self) -> bool {
        self.iter().any(|observer| observer.wants_activity())
    }
}
