//! The Temporal workflow of a run. It owns no rule: it carries what the sequencer wants to activities and timers, and
//! their outcomes and the users' signals back to it.
//!
//! Determinism: the set of flights is polled only through the SDK's `join_all`, everything that the sequencer gets is in
//! the history, and the time is that of the history. A panic fails the workflow task, which Temporal tries again until a
//! worker can do it: the run waits, and nothing of it is lost.

mod course;

use std::{collections::VecDeque, sync::Arc};

use raymond_flow::machine::Run;
use temporalio_macros::{workflow, workflow_methods};
use temporalio_sdk::{
    ContinueAsNewOptions, SyncWorkflowContext, WorkflowContext, WorkflowContextView, WorkflowResult,
};

use self::course::{Course, CourseEnd};
use crate::{
    bundles::Bundles,
    messages::{Begin, Page, RunInput, RunOutput, Signal, StoredCheckout},
    sequencer::Sequencer,
};

/// The most decisions, and their bytes, in an answer to a mirror.
const PAGE_ENTRIES: usize = 500;
const PAGE_BYTES: usize = 256 * 1024;

/// A run as a Temporal workflow.
#[workflow]
#[derive(Default)]
pub struct RunWorkflow {
    /// `None` where it is only referred to, not run.
    bundles: Option<Arc<Bundles>>,
    inbox: VecDeque<Signal>,
    sequencer: Option<Sequencer>,
    /// The archive with the workflow's files.
    bundle: String,
}

impl RunWorkflow {
    pub(crate) fn new(bundles: Arc<Bundles>) -> Self {
        Self { bundles: Some(bundles), ..Self::default() }
    }
}

#[workflow_methods]
impl RunWorkflow {
    /// Runs until the run is over or rests.
    #[run(name = "raymond_run")]
    pub async fn run(
        context: &mut WorkflowContext<Self>,
        input: RunInput,
    ) -> WorkflowResult<RunOutput> {
        let RunInput { begin, terms } = input;
        let mut course = Course::new(context, terms);
        course.begin(begin);
        if let CourseEnd::Cut { found } = course.turn_until_over().await {
            let (run, segments) = (course.run(), course.segments());
            let (limit_waits, stored) = (course.limit_waits, course.stored());
            let homes = course.homes();
            let begin = Begin::Continued { run, found, limit_waits, segments, homes, stored };
            let input = RunInput { begin, terms: course.terms };
            context.continue_as_new(input, ContinueAsNewOptions::default())?;
            unreachable!("the line above always leaves");
        }
        let (run, segments) = (course.run(), course.segments());
        let stored = course.stored();
        Ok(RunOutput { run, terms: course.terms, segments, stored })
    }

    /// Something that a user wants.
    #[signal]
    pub fn tell(&mut self, _context: &mut SyncWorkflowContext<Self>, signal: Signal) {
        self.inbox.push_back(signal);
    }

    /// The work of the agents, if checkouts move with them.
    #[query]
    pub fn work(&self, _context: &WorkflowContextView) -> Option<Vec<StoredCheckout>> {
        self.sequencer.as_ref().map(Sequencer::work)
    }

    /// The run as it is now.
    #[query]
    pub fn show(&self, _context: &WorkflowContextView) -> Option<Run> {
        self.sequencer.as_ref().map(|all| all.run().clone())
    }

    /// What the run has decided, from the decision with this number on, as much as a page has; `None` if it has not begun.
    #[query]
    pub fn records(&self, _context: &WorkflowContextView, from: u64) -> Option<Page> {
        let log = self.sequencer.as_ref()?.log();
        let entries = log.page(from, PAGE_ENTRIES, PAGE_BYTES);
        let (bundle, segments) = (self.bundle.clone(), log.segments().to_vec());
        Some(Page { bundle, segments, entries, decisions: log.decisions() })
    }
}
