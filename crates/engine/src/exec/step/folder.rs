//! The directory of one step.

use std::{
    fs,
    io::{self, Seek as _, SeekFrom},
    path::{Path, PathBuf},
};

use raymond_flow::{id::StepId, machine::Step};
use serde::{Deserialize, Serialize};

use super::{Claim, ExitRecord, HowEnded, exit_record};
use crate::{
    sys,
    trust::{private, regular, seal},
};

/// The file that says where the child prints to, if the child was kept from an earlier turn.
const OUTPUT_IS_AT: &str = "output-is-at";
/// The file with what the orchestrator wanted when it started a turn.
const INTENT: &str = "intent";
/// What the seals of claims, of intents and of places of output are for.
const CLAIM_SEAL: &str = "step";
const INTENT_SEAL: &str = "intent";
const OUTPUT_SEAL: &str = "output";
/// The largest file that Raymond itself writes here: an intent with a payload whose every byte is
/// escaped.
const OWN_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// The intent of a turn as it is stored in the directory of its step.
#[derive(Serialize, Deserialize)]
struct Intent<S> {
    /// The identity of the run whose step it is.
    run: String,
    step: S,
    /// What the kept process, or the session, had cost before this turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    before: Option<String>,
}

/// Where the output of a turn is in a child that was kept from an earlier one.
#[derive(Serialize, Deserialize)]
struct OutputPlace {
    /// The identity of the run whose step it is.
    run: String,
    /// Where it begins.
    offset: u64,
    /// The name of the child's first step, whose output it is a part of.
    first: String,
}

/// Writes where the output of the turn in `folder`, a step of `run`, is: from `offset` in that of the step `first`.
#[cfg(any(test, not(portable)))]
pub(crate) fn place_output(folder: &Path, run: &str, offset: u64, first: &str) -> io::Result<()> {
    let path = folder.join(OUTPUT_IS_AT);
    let place = OutputPlace { run: run.to_owned(), offset, first: first.to_owned() };
    private::write(&path, seal::to_json(OUTPUT_SEAL, &path, &place)?)
}

/// The directory of one step.
#[derive(Clone, Debug)]
pub(crate) struct StepFolder {
    path: PathBuf,
    /// The identity of the run that the step must belong to; `None` accepts any.
    run: Option<String>,
}

/// The state of a step, as its directory alone shows it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum StepState {
    /// It was never started.
    Unclaimed,
    /// It is running under this reaper.
    Running(Option<sys::Pid>),
    /// The directory belongs to another run, a deleted one with the same id, or was not made by Raymond.
    Foreign {
        /// The identity of that run, if it has one.
        run: String,
        /// Its reaper, if it is still running.
        reaper: Option<sys::Pid>,
    },
    /// It ended.
    Ended(ExitRecord),
    /// It ended, but its output is missing, truncated or replaced, so its outcome is unknown.
    Damaged,
    /// It was started, but its reaper died before it wrote how the step ended.
    Lost,
}

/// The identity of the run that a claim names.
pub(crate) fn run_of(claim: &str) -> &str {
    claim.split_once(' ').map_or(claim, |(run, _)| run)
}

impl StepFolder {
    /// The directory of step `id` below `steps`. The name depends on nothing else, so the directory is
    /// found again even if every record of the step is lost.
    pub(crate) fn new(steps: &Path, id: &StepId) -> Self {
        Self { path: steps.join(step_name(id)), run: None }
    }

    /// The same directory, which counts as foreign if a run other than `identity` has used it.
    pub(crate) fn of_run(self, identity: &str) -> Self {
        Self { run: Some(identity.to_owned()), ..self }
    }

    /// The identity of its run.
    pub(super) fn run(&self) -> &str {
        self.run.as_deref().unwrap_or_default()
    }

    /// What the claim of the step says: the identity of the run, and a seal. A coding agent that may write here cannot have made it
    /// before the step was started.
    pub(crate) fn claim_text(&self) -> String {
        let run = self.run();
        let seal = seal::seal(CLAIM_SEAL, &[run.as_bytes(), self.name().as_bytes()]);
        format!("{run} {seal}")
    }

    /// The identity of another run that has claimed the step; empty if no run has.
    fn claimed_elsewhere(
        &self,
        claim: Option<&str>,
        exit: &exit_record::ExitFile,
    ) -> Option<String> {
        self.run.as_ref()?;
        let Some(claim) = claim else {
            // What a power loss leaves of the claim of a script. That of a turn is durable.
            let is_lost = *exit == exit_record::ExitFile::Lost && Self::is_script(&self.path);
            return (!is_lost).then(String::new);
        };
        (claim != self.claim_text()).then(|| run_of(claim).to_owned())
    }

    /// The name of the directory, which also names the step in messages of its reaper.
    pub(crate) fn name(&self) -> String {
        self.path.file_name().unwrap_or_default().to_string_lossy().into_owned()
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

    /// Whether the step directory at `path` is that of a script: a turn's gets its prompt first of all.
    pub(crate) fn is_script(path: &Path) -> bool {
        !path.join("prompt").exists()
    }

    /// Whether the step in the directory at `path` has run and ended.
    pub(crate) fn has_run(path: &Path) -> bool {
        let read = exit_record::read(&path.join("exit"));
        matches!(read, Ok(Some((_, exit_record::ExitFile::Ended(record)))) if record.how.has_output())
    }

    pub(crate) fn prompt(&self) -> PathBuf {
        self.path.join("prompt")
    }

    /// Creates the directory of a script step, unless it exists.
    pub(crate) fn create(&self) -> io::Result<()> {
        match private::create_dir(&self.path) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
            _ => Ok(()),
        }
    }

    /// Creates the directory of a turn. Its prompt and intent are durable before a reaper can claim it.
    pub(crate) fn create_turn(
        &self,
        step: &Step,
        prompt: &str,
        before: Option<&str>,
    ) -> io::Result<()> {
        self.create()?;
        private::write_durably(&self.prompt(), prompt.as_bytes())?;
        // Left by an earlier attempt to start this step, which never got to claim it, or put there by a model.
        match fs::remove_file(self.path.join(OUTPUT_IS_AT)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let (run, before) = (self.run().to_owned(), before.map(str::to_owned));
        let intent = Intent { run, step, before };
        let path = self.path.join(INTENT);
        private::write_durably(&path, &seal::to_json(INTENT_SEAL, &path, &intent)?)?;
        sys::sync_folder(&self.path)?;
        if let Some(steps) = self.path.parent() {
            sys::sync_folder(steps)?;
        }
        Ok(())
    }

    /// Whether this is the first turn of its child process.
    pub(crate) fn is_first(&self) -> bool {
        self.output_is_at().is_none()
    }

    /// What the child process or the session had spent before this turn, if that is known.
    pub(crate) fn before(&self) -> io::Result<Option<String>> {
        Ok(self.read_intent()?.and_then(|intent| intent.before))
    }

    /// The name of the child's first step, if the child was kept from an earlier turn.
    pub(crate) fn first_step(&self) -> Option<String> {
        Some(self.output_place()?.first)
    }

    /// Where a child that was kept from an earlier turn prints to while it runs: an offset and a file.
    pub(crate) fn output_is_at(&self) -> Option<(u64, PathBuf)> {
        let OutputPlace { offset, first, .. } = self.output_place()?;
        // The state directory may have been moved since.
        Some((offset, self.path.parent()?.join(first).join("stdout")))
    }

    fn output_place(&self) -> Option<OutputPlace> {
        let path = self.path.join(OUTPUT_IS_AT);
        let bytes = regular::read(&path, OWN_BYTES_MAX).ok()?;
        let place: OutputPlace = seal::from_json(OUTPUT_SEAL, &path, &bytes).ok()?;
        self.run.as_ref().is_none_or(|run| *run == place.run).then_some(place)
    }

    /// Completes the `stdout` of a turn whose reaper was killed, and returns its length. A child that is
    /// kept for several turns prints into the directory of its first one; its reaper copies the output
    /// of later turns when they end.
    ///
    /// Only for a lost step: its child must no longer be printing. Fails with `NotFound` if an output
    /// file is missing or not a regular file.
    pub(crate) fn gather_stdout(&self) -> io::Result<u64> {
        if let Some((offset, first)) = self.output_is_at()
            && regular_length(&first)?.is_some()
        {
            let mut source = regular::open(&first)?;
            source.seek(SeekFrom::Start(offset))?;
            // Never open what is there: a FIFO would block, and a link would lead elsewhere.
            match fs::remove_file(self.stdout()) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
            let to = private::options().create_new(true).write(true).open(self.stdout());
            io::copy(&mut source, &mut to?)?;
        }
        if regular_length(&self.stderr())?.is_none() {
            return Err(io::ErrorKind::NotFound.into());
        }
        regular_length(&self.stdout())?.ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// The intent with which the step was started, if it is a turn of this run. One that a model has put there is none: it
    /// would be carried out instead of the step.
    pub(crate) fn intent(&self) -> io::Result<Option<Step>> {
        Ok(self.read_intent()?.map(|intent| intent.step))
    }

    fn read_intent(&self) -> io::Result<Option<Intent<Step>>> {
        let path = self.path.join(INTENT);
        match regular::read(&path, OWN_BYTES_MAX) {
            Ok(bytes) => {
                let intent = seal::from_json::<Intent<Step>>(INTENT_SEAL, &path, &bytes).ok();
                let is_own =
                    |intent: &Intent<Step>| self.run.as_ref().is_none_or(|run| *run == intent.run);
                Ok(intent.filter(is_own))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Moves the directory into `aside`, so that the step can start. Returns its new path.
    pub(crate) fn set_aside(&self, aside: &Path) -> io::Result<PathBuf> {
        private::create_dir_all(aside)?;
        let place = aside.join(format!("{}-{}", self.name(), uuid::Uuid::new_v4().simple()));
        fs::rename(&self.path, &place)?;
        Ok(place)
    }

    /// Claims a step that was not started, so that it never will be: a request to start it may still
    /// be on its way to the keeper. Returns whether the claim was in time.
    pub(crate) fn forbid(&self) -> io::Result<bool> {
        self.create()?;
        let record = ExitRecord { how: HowEnded::Forbidden, duration_ms: 0, stdout_bytes: 0 };
        match Claim::take_ended(&self.path.join("exit"), &self.claim_text(), &record, true) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Whether the output files have everything that the step had printed when it ended.
    fn has_output(&self, stdout_bytes: u64) -> io::Result<bool> {
        let stdout = regular_length(&self.stdout())?;
        let has_stdout = stdout.is_some_and(|length| length >= stdout_bytes);
        Ok(has_stdout && regular_length(&self.stderr())?.is_some())
    }

    /// Reads the state of the step.
    pub(crate) fn state(&self) -> io::Result<StepState> {
        let Some((claim, read)) = exit_record::read(&self.path.join("exit"))? else {
            return Ok(StepState::Unclaimed);
        };
        let foreign = self.claimed_elsewhere(claim.as_deref(), &read);
        Ok(match (read, foreign) {
            (exit_record::ExitFile::Running { reaper }, None) => StepState::Running(reaper),
            (exit_record::ExitFile::Running { reaper }, Some(run)) => {
                StepState::Foreign { run, reaper }
            }
            (_, Some(run)) => StepState::Foreign { run, reaper: None },
            (exit_record::ExitFile::Ended(record), None) => {
                if record.how.has_output() && !self.has_output(record.stdout_bytes)? {
                    StepState::Damaged
                } else {
                    StepState::Ended(record)
                }
            }
            (exit_record::ExitFile::Lost, None) => StepState::Lost,
        })
    }
}

/// The length of the regular file at `path`; `None` if there is none. A file of another kind could
/// block its reader or never end.
fn regular_length(path: &Path) -> io::Result<Option<u64>> {
    match fs::symlink_metadata(path) {
        Ok(metadata) => Ok(metadata.is_file().then_some(metadata.len())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// The name of a step's directory: `agent.number`. The end of a very long agent name is replaced by
/// checksums.
pub(crate) fn step_name(id: &StepId) -> String {
    /// What the checksums and the number leave of the 255 bytes of a file name.
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

#[cfg(test)]
mod tests;
