//! What turns print while they run, for whoever watches. Nothing depends on it.

use std::{
    collections::HashMap,
    fs::File,
    io::{Read, Seek, SeekFrom},
    time::{Duration, Instant},
};

use raymond_flow::id::StepId;

use crate::{
    agent::{Activity, CodingAgent},
    regular,
    step::StepFolder,
};

/// How often the outputs are looked at.
pub(crate) const GLANCE_INTERVAL: Duration = Duration::from_millis(200);
/// What is read of one output at a glance. Who prints more than that is not read by anybody.
const GLANCE_BYTES: u64 = 256 * 1024;
/// The longest line that is looked at.
const LINE_BYTES_MAX: usize = 1024 * 1024;

/// The ends of the outputs of turns under way.
#[derive(Debug, Default)]
pub(crate) struct Tails {
    tails: HashMap<StepId, Tail>,
    glanced: Option<Instant>,
}

#[derive(Debug)]
struct Tail {
    file: File,
    partial: Vec<u8>,
}

impl Tails {
    /// Whether it is time for another glance.
    pub(crate) fn is_due(&mut self) -> bool {
        let is_due = self.glanced.is_none_or(|glanced| glanced.elapsed() >= GLANCE_INTERVAL);
        if is_due {
            self.glanced = Some(Instant::now());
        }
        is_due
    }

    /// What the turn of step `id` has done since the last glance.
    pub(crate) fn glance(
        &mut self,
        id: &StepId,
        folder: &StepFolder,
        agent: &dyn CodingAgent,
    ) -> Vec<Activity> {
        if !self.tails.contains_key(id) {
            let Some(file) = open(folder) else { return Vec::new() };
            self.tails.insert(id.clone(), Tail { file, partial: Vec::new() });
        }
        let tail = self.tails.get_mut(id);
        tail.map_or_else(Vec::new, |tail| {
            tail.lines().iter().filter_map(|line| agent.activity(line)).collect()
        })
    }

    /// Whether everything that the turn has printed so far was looked at.
    pub(crate) fn is_at_end(&mut self, id: &StepId) -> bool {
        self.tails.get_mut(id).is_none_or(|tail| {
            let length = tail.file.metadata().map_or(0, |metadata| metadata.len());
            tail.file.stream_position().map_or(true, |position| position >= length)
        })
    }

    /// The turn is over.
    pub(crate) fn forget(&mut self, id: &StepId) {
        self.tails.remove(id);
    }
}

impl Tail {
    fn lines(&mut self) -> Vec<Vec<u8>> {
        let _ = (&mut self.file).take(GLANCE_BYTES).read_to_end(&mut self.partial);
        let Some(end) = self.partial.iter().rposition(|byte| *byte == b'\n') else {
            if self.partial.len() > LINE_BYTES_MAX {
                self.partial.clear();
            }
            return Vec::new();
        };
        let rest = self.partial.split_off(end + 1);
        let whole = std::mem::replace(&mut self.partial, rest);
        whole.split(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect()
    }
}

/// The output of a step; of one whose process had a step before, its part of that one's.
fn open(folder: &StepFolder) -> Option<File> {
    match folder.output_is_at() {
        Some((offset, path)) => {
            let mut file = regular::open(&path).ok()?;
            file.seek(SeekFrom::Start(offset)).ok()?;
            Some(file)
        }
        None => regular::open(&folder.stdout()).ok(),
    }
}
