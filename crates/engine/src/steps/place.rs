//! Where the steps of a run lie and how their processes are marked, for runners whose steps are told from
//! their folders.

use std::{io, path::PathBuf};

use crate::{
    layout::RunFiles,
    step::{StepFolder, StepState, survivors},
    sys::Pid,
};

/// Where folders of steps go that belong to another run.
const ASIDE: &str = "aside";

/// The run whose steps these are.
#[derive(Clone, Debug)]
pub(crate) struct RunPlace {
    identity: String,
    /// The run's folder.
    pub(crate) folder: PathBuf,
}

impl RunPlace {
    pub(crate) fn new(identity: &str, files: &RunFiles) -> Self {
        Self { identity: identity.to_owned(), folder: files.folder.clone() }
    }

    /// How a step stands, told from its folder. What another run left there says nothing about this one:
    /// it is ended, with `kill` for its reaper, and moved away. Tells that in `remarks`.
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
        survivors::end(&self.marks(&run, step))?;
        let place = step.set_aside(&self.folder.join(ASIDE))?;
        let (name, place) = (step.name(), place.display());
        remarks
            .push(format!("the folder of step {name} is another run's, and was moved to {place}"));
        step.state()
    }

    /// Ends what a lost step has left. Returns how many processes that were.
    pub(crate) fn sweep(&self, step: &StepFolder) -> io::Result<usize> {
        Ok(survivors::end(&self.marks(&self.identity, step))?.len())
    }

    /// The variable that marks every process of a step.
    pub(crate) fn mark_variable(&self, step: &StepFolder) -> (String, String) {
        let outer = std::env::var_os(survivors::MARK);
        let mark = self.mark(&self.identity, &step.name());
        (survivors::MARK.to_owned(), survivors::marks(outer, &mark))
    }

    /// The marks by which all processes of a step of run `identity` can be found: the process of a later
    /// turn has the mark of its first one.
    fn marks(&self, identity: &str, step: &StepFolder) -> Vec<String> {
        let names = [Some(step.name()), step.first_step()].into_iter().flatten();
        names.map(|name| self.mark(identity, &name)).collect()
    }

    fn mark(&self, identity: &str, step: &str) -> String {
        if identity.is_empty() {
            // A run of an earlier version, which has only its place to tell it from others.
            let place = self.folder.as_os_str().as_encoded_bytes();
            return survivors::mark(&format!("{:08x}", crc32fast::hash(place)), step);
        }
        survivors::mark(identity, step)
    }
}
