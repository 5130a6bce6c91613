//! What a run has decided, for mirrors: the decisions of this history in memory, those before it as segments in the
//! store. Nothing of the run depends on it.

use raymond_flow::{id::StepId, machine::Record};

use crate::messages::{Entry, Segment, StepFiles};

/// The decisions of a run.
#[derive(Debug, Default)]
pub(crate) struct Log {
    segments: Vec<Segment>,
    /// Those that are in no segment.
    entries: Vec<Logged>,
    /// The files of the step whose end is about to be decided about.
    files: Option<StepFiles>,
}

#[derive(Debug)]
struct Logged {
    at_ms: u64,
    records: Vec<Record>,
    files: Option<StepFiles>,
}

impl Log {
    /// The log of a run that has decided this before.
    pub(crate) fn after(segments: Vec<Segment>) -> Self {
        Self { segments, ..Self::default() }
    }

    pub(crate) fn segments(&self) -> &[Segment] {
        &self.segments
    }

    /// How many decisions are in segments.
    fn stored(&self) -> u64 {
        self.segments.iter().map(|segment| segment.entries).sum()
    }

    /// Adds a decision. The first after [`attach`](Self::attach) carries the files.
    pub(crate) fn push(&mut self, at_ms: u64, records: &[Record]) {
        if !records.is_empty() {
            let files = self.files.take();
            self.entries.push(Logged { at_ms, records: records.to_vec(), files });
        }
    }

    /// The next decision is about the end of this step, whose files the store has. `None` if it has none, and then none
    /// of an earlier step are left for it.
    pub(crate) fn attach(&mut self, step: &StepId, hash: Option<String>) {
        self.files = hash.map(|hash| StepFiles { step: step.clone(), hash });
    }

    /// How many decisions there are.
    pub(crate) fn decisions(&self) -> u64 {
        self.stored() + self.entries.len() as u64
    }

    /// The decisions from number `from` on that are in no segment: at most so many, and few enough for so many bytes, but
    /// one in any case.
    pub(crate) fn page(&self, from: u64, max: usize, bytes_max: usize) -> Vec<Entry> {
        let skipped = from.saturating_sub(self.stored());
        let skipped = usize::try_from(skipped).unwrap_or(usize::MAX);
        let mut bytes = 0;
        let mut page = Vec::new();
        for logged in self.entries.iter().skip(skipped).take(max) {
            let Logged { at_ms, records, files } = logged;
            let (records, files) = (records.clone(), files.clone());
            let entry = Entry { at_ms: *at_ms, records, files };
            bytes += serde_json::to_vec(&entry).map_or(0, |json| json.len());
            if bytes > bytes_max && !page.is_empty() {
                break;
            }
            page.push(entry);
        }
        page
    }

    /// The first decisions that were in no segment are in this one now.
    pub(crate) fn keep(&mut self, segment: Segment) {
        let count = usize::try_from(segment.entries).unwrap_or(usize::MAX);
        self.entries.drain(..count.min(self.entries.len()));
        self.segments.push(segment);
    }
}

#[cfg(test)]
mod tests {
    use raymond_flow::{
        id::AgentId,
        machine::{Halt, Status},
    };

    use super::*;

    /// A log of these times.
    fn log(times: impl IntoIterator<Item = u64>) -> Log {
        let mut log = Log::default();
        for at_ms in times {
            log.push(at_ms, &[Record::Halted { why: Halt::Interrupted }]);
        }
        log
    }

    fn times(page: &[Entry]) -> Vec<u64> {
        page.iter().map(|entry| entry.at_ms).collect()
    }

    fn segment(entries: u64) -> Segment {
        Segment { hash: "h".to_owned(), entries }
    }

    #[test]
    fn page_is_limited_by_number_and_bytes_but_never_empty_before_the_end() {
        let log = log(0..10);
        assert_eq!(times(&log.page(0, 3, usize::MAX)), [0, 1, 2]);
        assert_eq!(times(&log.page(8, 3, usize::MAX)), [8, 9]);
        assert_eq!(times(&log.page(10, 3, usize::MAX)), Vec::<u64>::new());
        assert_eq!(times(&log.page(5, 3, 1)), [5]);
    }

    #[test]
    fn numbers_go_on_after_segments_that_are_no_longer_in_memory() {
        let mut log = log(0..5);
        log.keep(segment(3));
        assert_eq!(times(&log.page(0, 9, usize::MAX)), [3, 4]);
        assert_eq!(times(&log.page(4, 9, usize::MAX)), [4]);
        log.keep(segment(2));
        log.push(9, &[Record::Finished { status: Status::Completed }]);
        assert_eq!(times(&log.page(0, 9, usize::MAX)), [9]);
        assert_eq!((log.segments().len(), log.decisions()), (2, 6));
        let log = Log::after(log.segments().to_vec());
        assert_eq!(times(&log.page(0, 9, usize::MAX)), Vec::<u64>::new());
    }

    #[test]
    fn files_go_with_the_decision_about_their_step_only() {
        let step = StepId { agent: AgentId::main(), number: 1 };
        let mut log = log([]);
        log.attach(&step, Some("f".to_owned()));
        log.push(1, &[]);
        for at_ms in [1, 2] {
            log.push(at_ms, &[Record::Halted { why: Halt::Interrupted }]);
        }
        log.attach(&step, Some("late".to_owned()));
        log.attach(&step, None);
        log.push(3, &[Record::Halted { why: Halt::Interrupted }]);
        let page = log.page(0, 9, usize::MAX);
        let hashes: Vec<_> =
            page.iter().map(|entry| entry.files.as_ref().map(|files| &*files.hash)).collect();
        assert_eq!(hashes, [Some("f"), None, None]);
    }
}
