//! Where one step lives on disk.

use std::{
    fs::{self, File},
    io::{self, Write},
    path::{Path, PathBuf},
};

use raymond_flow::{history::Intent, id::StepId, machine::Step};

use super::{Claim, ExitRecord, HowEnded, exit_record};
use crate::{regular, sys};

/// Tells where a child prints to that had a step before: an offset and a file.
pub(crate) const OUTPUT_IS_AT: &str = "output-is-at";
/// What the child of a turn had spent before it.
const BEFORE: &str = "before";
/// The largest file that Raymond itself writes here: an intent with a payload, every byte escaped.
const OWN_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// The folder of one step.
#[derive(Clone, Debug)]
pub(crate) struct StepFolder {
    path: PathBuf,
}

/// How a step stands, by its folder alone.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum StepState {
    /// Nobody ever started it.
    Unclaimed,
    /// It runs, looked after by this reaper.
    Running(Option<sys::Pid>),
    /// It ended.
    Ended(ExitRecord),
    /// It was started, and nobody knows how it ended.
    Lost,
}

impl StepFolder {
    /// The folder of step `id` below `steps`. The name depends on nothing else, so it is found
    /// again even if every record of the step is lost.
    pub(crate) fn new(steps: &Path, id: &StepId) -> Self {
        Self { path: steps.join(name(id)) }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn stdout(&self) -> PathBuf {
        self.path.join("stdout")
    }

    pub(crate) fn stderr(&self) -> PathBuf {
        self.path.join("stderr")
    }

    pub(crate) fn prompt(&self) -> PathBuf {
        self.path.join("prompt")
    }

    /// Makes the folder of a script.
    pub(crate) fn create(&self) -> io::Result<()> {
        match fs::create_dir(&self.path) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
            _ => Ok(()),
        }
    }

    /// Makes the folder of a turn: its prompt and intent are durable before anybody claims it.
    pub(crate) fn create_turn(
        &self,
        step: &Step,
        prompt: &str,
        before: Option<&str>,
    ) -> io::Result<()> {
        self.create()?;
        write_durably(&self.prompt(), prompt.as_bytes())?;
        let path = self.path.join(BEFORE);
        match before {
            Some(before) => write_durably(&path, before.as_bytes())?,
            // One of a start that came to nothing.
            None if path.exists() => fs::remove_file(path)?,
            None => {}
        }
        write_durably(&self.path.join("intent"), &serde_json::to_vec(&Intent::from(step))?)?;
        sys::sync_folder(&self.path)?;
        if let Some(steps) = self.path.parent() {
            sys::sync_folder(steps)?;
        }
        Ok(())
    }

    /// What the child had spent before this turn; `None` if the turn was its first.
    pub(crate) fn before(&self) -> io::Result<Option<String>> {
        match regular::read_text(&self.path.join(BEFORE), OWN_BYTES_MAX) {
            Ok(text) => Ok(Some(text)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Where the child prints to meanwhile, if it had a step before: from where, and which file.
    pub(crate) fn output_is_at(&self) -> Option<(u64, PathBuf)> {
        let text = regular::read_text(&self.path.join(OUTPUT_IS_AT), OWN_BYTES_MAX).ok()?;
        let (offset, path) = text.split_once(' ')?;
        Some((offset.parse().ok()?, PathBuf::from(path)))
    }

    /// The intent under which the step was really started, if it is a turn.
    pub(crate) fn intent(&self) -> io::Result<Option<Step>> {
        match regular::read(&self.path.join("intent"), OWN_BYTES_MAX) {
            Ok(bytes) => Ok(serde_json::from_slice::<Intent>(&bytes).ok().map(Step::from)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Makes sure that a step which nobody has started never will be: a request for it may still
    /// be on its way. Tells whether that was in time.
    pub(crate) fn forbid(&self) -> io::Result<bool> {
        self.create()?;
        match Claim::take(&self.path.join("exit"), true) {
            Ok(claim) => {
                let record =
                    ExitRecord { how: HowEnded::Forbidden, duration_ms: 0, stdout_bytes: 0 };
                claim.end(&record, true)?;
                Ok(true)
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// How the step stands.
    pub(crate) fn state(&self) -> io::Result<StepState> {
        Ok(match exit_record::read(&self.path.join("exit"))? {
            None => StepState::Unclaimed,
            Some(exit_record::Read::Running { reaper }) => StepState::Running(reaper),
            Some(exit_record::Read::Ended(record)) => {
                let printed = fs::metadata(self.stdout()).map_or(0, |metadata| metadata.len());
                if printed < record.stdout_bytes {
                    StepState::Lost
                } else {
                    StepState::Ended(record)
                }
            }
            Some(exit_record::Read::Lost) => StepState::Lost,
        })
    }
}

fn write_durably(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = File::create(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

/// `agent.number`, with the end of a very long agent's name replaced by checksums.
fn name(id: &StepId) -> String {
    /// What is left of the 255 bytes of a file name after the rest.
    const AGENT_BYTES_MAX: usize = 200;
    let StepId { agent, number } = id;
    match agent.as_str().split_at_checked(AGENT_BYTES_MAX) {
        Some((front, back)) if !back.is_empty() => {
            let whole = crc32fast::hash(agent.as_str().as_bytes());
            let back = crc32fast::hash(back.as_bytes());
            format!("{front}-{whole:08x}{back:08x}.{number}")
        }
        _ => format!("{agent}.{number}"),
    }
}
