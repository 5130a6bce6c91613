//! Where one step lives on disk.

use std::{
    fs,
    io::{self, Seek as _, SeekFrom, Write as _},
    path::{Path, PathBuf},
};

use raymond_flow::{history::Intent, id::StepId, machine::Step};

use super::{Claim, ExitRecord, HowEnded, exit_record};
use crate::{private, regular, sys};

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
    /// The identity of the run that the step must belong to, if that matters.
    run: Option<String>,
}

/// How a step stands, by its folder alone.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum StepState {
    /// Nobody ever started it.
    Unclaimed,
    /// It runs, looked after by this reaper.
    Running(Option<sys::Pid>),
    /// Another run has used the folder, one of the same id that was deleted.
    Foreign {
        /// The identity of that run.
        run: String,
        /// Its reaper, if it still runs.
        reaper: Option<sys::Pid>,
    },
    /// It ended.
    Ended(ExitRecord),
    /// It ended, but its output is gone, cut short or replaced, and so its outcome cannot be told.
    Damaged,
    /// It was started, and nobody knows how it ended.
    Lost,
}

impl StepFolder {
    /// The folder of step `id` below `steps`. The name depends on nothing else, so it is found
    /// again even if every record of the step is lost.
    pub(crate) fn new(steps: &Path, id: &StepId) -> Self {
        Self { path: steps.join(name(id)), run: None }
    }

    /// The same folder, which counts as foreign if another run than `identity` has used it.
    pub(crate) fn of_run(self, identity: &str) -> Self {
        Self { run: Some(identity.to_owned()), ..self }
    }

    /// The name of the folder, by which reapers call the step.
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

    pub(crate) fn prompt(&self) -> PathBuf {
        self.path.join("prompt")
    }

    /// Makes the folder of a script.
    pub(crate) fn create(&self) -> io::Result<()> {
        match private::create_dir(&self.path) {
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
        let intent = Intent::new(self.run.as_deref().unwrap_or_default(), step);
        write_durably(&self.path.join("intent"), &serde_json::to_vec(&intent)?)?;
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

    /// The first step of the child, if it had a step before this one.
    pub(crate) fn first_step(&self) -> Option<String> {
        let (_, stdout) = self.output_is_at()?;
        Some(stdout.parent()?.file_name()?.to_str()?.to_owned())
    }

    /// Where the child prints to meanwhile, if it had a step before: from where, and which file.
    pub(crate) fn output_is_at(&self) -> Option<(u64, PathBuf)> {
        let text = regular::read_text(&self.path.join(OUTPUT_IS_AT), OWN_BYTES_MAX).ok()?;
        let (offset, path) = text.split_once(' ')?;
        // Only the name of the step counts: the state folder may have been moved since.
        let step = Path::new(path).parent()?.file_name()?;
        Some((offset.parse().ok()?, self.path.parent()?.join(step).join("stdout")))
    }

    /// Completes the `stdout` of a turn whose reaper was killed: what the child of a later turn
    /// prints lies in the folder of its first one until the reaper copies it. Returns its length.
    ///
    /// Only for a step that is lost: nothing of it may still be printing. `NotFound` if there is no
    /// regular file.
    pub(crate) fn gather_stdout(&self) -> io::Result<u64> {
        if let Some((offset, first)) = self.output_is_at()
            && regular_length(&first)?.is_some()
        {
            let mut source = regular::open(&first)?;
            source.seek(SeekFrom::Start(offset))?;
            // Anything may be in its place: a FIFO would block, a link would lead elsewhere.
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

    /// The intent under which the step was really started, if it is a turn of this run.
    pub(crate) fn intent(&self) -> io::Result<Option<Step>> {
        match regular::read(&self.path.join("intent"), OWN_BYTES_MAX) {
            Ok(bytes) => {
                let intent = serde_json::from_slice::<Intent>(&bytes).ok();
                Ok(intent
                    .and_then(|intent| intent.step_of(self.run.as_deref().unwrap_or_default())))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Moves the folder into `aside`, so that the step can start. Returns where it is now.
    pub(crate) fn set_aside(&self, aside: &Path) -> io::Result<PathBuf> {
        private::create_dir_all(aside)?;
        let place = aside.join(format!("{}-{}", self.name(), uuid::Uuid::new_v4().simple()));
        fs::rename(&self.path, &place)?;
        Ok(place)
    }

    /// Makes sure that a step which nobody has started never will be: a request for it may still
    /// be on its way. Tells whether that was in time.
    pub(crate) fn forbid(&self) -> io::Result<bool> {
        self.create()?;
        let run = self.run.as_deref().unwrap_or_default();
        match Claim::take(&self.path.join("exit"), run, true) {
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

    /// Whether everything is there that the step had printed when it ended.
    fn has_output(&self, stdout_bytes: u64) -> io::Result<bool> {
        let stdout = regular_length(&self.stdout())?;
        let has_stdout = stdout.is_some_and(|length| length >= stdout_bytes);
        Ok(has_stdout && regular_length(&self.stderr())?.is_some())
    }

    /// How the step stands.
    pub(crate) fn state(&self) -> io::Result<StepState> {
        let Some((run, read)) = exit_record::read(&self.path.join("exit"))? else {
            return Ok(StepState::Unclaimed);
        };
        // One that cannot be told is not another run's.
        let foreign = run.filter(|run| self.run.as_ref().is_some_and(|own| own != run));
        Ok(match (read, foreign) {
            (exit_record::Read::Running { reaper }, None) => StepState::Running(reaper),
            (exit_record::Read::Running { reaper }, Some(run)) => {
                StepState::Foreign { run, reaper }
            }
            (_, Some(run)) => StepState::Foreign { run, reaper: None },
            (exit_record::Read::Ended(record), None) => {
                if record.how.has_output() && !self.has_output(record.stdout_bytes)? {
                    StepState::Damaged
                } else {
                    StepState::Ended(record)
                }
            }
            (exit_record::Read::Lost, None) => StepState::Lost,
        })
    }
}

/// The length of the regular file at `path`; `None` if there is none. Anything else in its place
/// could block its reader, or never end.
fn regular_length(path: &Path) -> io::Result<Option<u64>> {
    match fs::symlink_metadata(path) {
        Ok(metadata) => Ok(metadata.is_file().then_some(metadata.len())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

fn write_durably(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = private::options().create(true).truncate(true).write(true).open(path)?;
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

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "in tests a panic is the message")]
mod tests {
    use raymond_flow::{
        id::{AgentId, StateName},
        machine::Action,
        source::Timeout,
    };

    use super::*;

    fn step(steps: &Path) -> StepFolder {
        StepFolder::new(steps, &StepId { agent: AgentId::main(), number: 1 }).of_run("ours")
    }

    #[test]
    fn claim_that_a_loss_of_power_left_as_zeros_is_a_lost_step_and_not_another_runs() {
        let steps = tempfile::tempdir().unwrap();
        let folder = step(steps.path());
        folder.create().unwrap();
        fs::write(folder.path().join("exit"), [0; 4096]).unwrap();
        assert_eq!(folder.state().unwrap(), StepState::Lost);
    }

    #[test]
    fn claim_of_another_run_is_told_apart() {
        let steps = tempfile::tempdir().unwrap();
        let folder = step(steps.path());
        folder.create().unwrap();
        drop(Claim::take(&folder.path().join("exit"), "theirs", false).unwrap());
        let foreign = StepState::Foreign { run: "theirs".to_owned(), reaper: None };
        assert_eq!(folder.state().unwrap(), foreign);
    }

    #[test]
    fn intent_of_another_run_is_not_taken_for_one_of_ours() {
        let steps = tempfile::tempdir().unwrap();
        let step_of_ours = Step {
            number: 1,
            state: StateName::new("START.md"),
            digest: None,
            attempt: 1,
            action: Action::Script { timeout: Timeout::DEFAULT },
        };
        let ours = step(steps.path());
        ours.create_turn(&step_of_ours, "prompt", None).unwrap();
        assert_eq!(ours.intent().unwrap(), Some(step_of_ours));
        let theirs = ours.clone().of_run("theirs");
        assert_eq!(theirs.intent().unwrap(), None);
    }

    #[cfg(unix)]
    #[test]
    fn output_of_a_lost_turn_is_gathered_whatever_is_in_its_place() {
        let steps = tempfile::tempdir().unwrap();
        let folder = step(steps.path());
        folder.create().unwrap();
        let first = steps.path().join("main.0");
        fs::create_dir(&first).unwrap();
        fs::write(first.join("stdout"), "before|mine").unwrap();
        let text = format!("7 {}", first.join("stdout").display());
        fs::write(folder.path().join(OUTPUT_IS_AT), text).unwrap();
        fs::write(folder.stderr(), "").unwrap();
        let elsewhere = steps.path().join("elsewhere");
        fs::write(&elsewhere, "precious").unwrap();
        std::os::unix::fs::symlink(&elsewhere, folder.stdout()).unwrap();
        assert_eq!(folder.gather_stdout().unwrap(), 4);
        assert_eq!(fs::read_to_string(folder.stdout()).unwrap(), "mine");
        assert_eq!(fs::read_to_string(elsewhere).unwrap(), "precious");
    }
}
