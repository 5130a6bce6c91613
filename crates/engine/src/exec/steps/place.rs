//! The directory of a run's steps and the marks of their processes, for runners that read the state of a step
//! from its directory.

use std::{io, path::PathBuf};

use crate::{
    exec::step::{StepFolder, StepState, survivors},
    store::layout::RunFiles,
    sys::Pid,
};

/// Receives step directories that belong to another run.
const ASIDE: &str = "aside";

/// The run that the steps belong to.
#[derive(Clone, Debug)]
pub(crate) struct RunPlace {
    identity: String,
    /// The run's directory.
    pub(crate) folder: PathBuf,
}

impl RunPlace {
    pub(crate) fn new(identity: &str, files: &RunFiles) -> Self {
        Self { identity: identity.to_owned(), folder: files.folder.clone() }
    }

    /// The state of a step, read from its directory. A directory that another run left there is moved away,
    /// after its processes are killed, its reaper with `kill`. Reports that in `remarks`.
    pub(crate) fn standing(
        &self,
        step: &StepFolder,
        kill: impl Fn(Pid) -> io::Result<()>,
        remarks: &mut Vec<String>,
    ) -> io::Result<StepState> {
        let (run, reaper) = match step.state()? {
            StepState::Foreign { run, reaper } => (run, reaper),
            state => return Ok(state),
        };
        reaper.map_or(Ok(()), kill)?;
        survivors::end(&Self::marks(&run, step))?;
        let place = step.set_aside(&self.folder.join(ASIDE))?;
        let (name, place) = (step.name(), place.display());
        remarks.push(format!(
            "the directory of step {name} belongs to another run and was moved to {place}"
        ));
        step.state()
    }

    /// Kills the processes that a lost step has left. Returns their number.
    pub(crate) fn sweep(&self, step: &StepFolder) -> io::Result<usize> {
        Ok(survivors::end(&Self::marks(&self.identity, step))?.len())
    }

    /// Kills the processes that steps of an earlier orchestrator have left: keeper and reapers were killed before they could do
    /// it. Returns their number.
    pub(crate) fn end_left(&self) -> io::Result<usize> {
        let run = survivors::mark(&self.identity, "");
        Ok(survivors::end_left(run.trim_end_matches('/'), &self.folder)?.len())
    }

    /// The environment variable that marks every process of a step.
    pub(crate) fn mark_variable(&self, step: &StepFolder) -> (String, String) {
        let outer = std::env::var_os(survivors::MARK);
        let mark = survivors::mark(&self.identity, &step.name());
        (survivors::MARK.to_owned(), survivors::marks(outer, &mark))
    }

    /// The marks of all processes of a step of run `identity`. The process of a later turn has the mark of its
    /// first step.
    fn marks(identity: &str, step: &StepFolder) -> Vec<String> {
        let names = [Some(step.name()), step.first_step()].into_iter().flatten();
        names.map(|name| survivors::mark(identity, &name)).collect()
    }
}
