//! The output of running turns, for observers. Nothing depends on it.

use std::{
    fs::File,
    io::{Read, Seek, SeekFrom},
    time::Duration,
};

use crate::{
    agent::{Activity, CodingAgent},
    regular,
    step::StepFolder,
};

/// How often the outputs are read.
pub(crate) const GLANCE_INTERVAL: Duration = Duration::from_millis(200);
/// The most that is read of one output at a time: more than a user can follow.
const GLANCE_BYTES: u64 = 256 * 1024;
/// The longest line that is parsed.
const LINE_BYTES_MAX: usize = 1024 * 1024;

/// The end of the output of a running turn.
#[derive(Debug)]
pub(crate) struct Tail {
    file: File,
    partial: Vec<u8>,
}

/// What the turn in `folder` has done since the last look at `tail`, which is opened if necessary.
pub(crate) fn glance(
    tail: &mut Option<Tail>,
    folder: &StepFolder,
    agent: &dyn CodingAgent,
) -> Vec<Activity> {
    if tail.is_none() {
        *tail = open(folder).map(|file| Tail { file, partial: Vec::new() });
    }
    let lines = tail.as_mut().map(Tail::lines).unwrap_or_default();
    lines.iter().filter_map(|line| agent.activity(line)).collect()
}

impl Tail {
    /// Whether the whole output so far was read.
    pub(crate) fn is_at_end(&mut self) -> bool {
        let length = self.file.metadata().map_or(0, |metadata| metadata.len());
        self.file.stream_position().map_or(true, |position| position >= length)
    }

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

/// The output of a step; for a kept process, its part of the output of the first step.
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
