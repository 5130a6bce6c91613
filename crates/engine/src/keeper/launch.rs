//! A step as it is handed to a keeper, whichever that is.

use std::{
    fs::File,
    io,
    path::{Path, PathBuf},
    time::Duration,
};

use serde::{Deserialize, Serialize};

use crate::{
    private,
    step::{Claim, HowEnded},
};

/// Where folders are prepared for steps to come.
pub(crate) const SPARE_FOLDERS: &str = "spare";

/// A step to be started.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Launch {
    /// The identity of the run.
    #[serde(default)]
    pub(crate) run: String,
    /// The step's folder.
    pub(crate) folder: PathBuf,
    /// Whether the folder is there already, with something for the child in it. If it is not, a
    /// prepared one can take its place.
    pub(crate) has_folder: bool,
    /// The program, absolute, and its arguments.
    pub(crate) program: Vec<String>,
    /// Variables on top of what children inherit; an empty value does not unset anything.
    pub(crate) environment: Vec<(String, String)>,
    /// Variables that children must not inherit.
    #[serde(default)]
    pub(crate) without: Vec<String>,
    /// Where it runs.
    pub(crate) cwd: PathBuf,
    /// What it reads; `None` is nothing.
    pub(crate) stdin: Option<PathBuf>,
    /// What it prints, at the beginning of a line, when it is done and can be given more to read.
    /// It is then kept for another step that is handed over on the same call, until that call ends.
    #[serde(default)]
    pub(crate) done_mark: Option<String>,
    /// What stands in a line that it prints when it has taken up this very step: a done mark before
    /// that is not for this step. Empty if there is no such line.
    #[serde(default)]
    pub(crate) turn_mark: String,
    /// Files to be locked: nobody else may have the same conversation meanwhile.
    #[serde(default)]
    pub(crate) conversations: Conversations,
    /// How long it may print nothing; 0 is no limit.
    pub(crate) idle_seconds: u64,
    /// Whether output and exit record must survive a loss of power: somebody paid for them.
    pub(crate) is_durable: bool,
}

/// The conversations that a child has to itself.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Conversations {
    /// The one that it leads, for as long as it lives.
    pub(crate) own: Option<PathBuf>,
    /// The one that it begins with, for its first step.
    pub(crate) source: Option<PathBuf>,
}

impl Launch {
    /// How often to look whether the child has printed something: a twentieth of its limit.
    pub(crate) fn look_interval(&self) -> Duration {
        match self.idle_seconds {
            0 => Duration::from_hours(1),
            seconds => Duration::from_millis((seconds * 50).clamp(50, 10_000)),
        }
    }

    /// Claims the step, and makes its folder unless it is there. Fails if anybody ever did before.
    pub(crate) fn claim(&self) -> io::Result<(Claim, [File; 2])> {
        match private::create_dir(&self.folder) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        // Before the claim, which makes the folder durable.
        let outputs = outputs(&self.folder)?;
        let claim = Claim::take(&self.folder.join("exit"), &self.run, self.is_durable)?;
        Ok((claim, outputs))
    }

    /// What it means that the child could not be started.
    pub(crate) fn not_run(&self, error: &io::Error) -> HowEnded {
        let name = self.program.first().map_or("", String::as_str);
        let mut why = format!("{name} in {}: {error}", self.cwd.display());
        why.truncate(why.floor_char_boundary(1000));
        match error.raw_os_error() {
            Some(libc::EAGAIN | libc::ENOMEM | libc::EMFILE | libc::ENFILE | libc::ETXTBSY)
                if cfg!(unix) =>
            {
                HowEnded::NotRunNow(why)
            }
            _ => HowEnded::NotRun(why),
        }
    }

    /// The name of the step's folder, which is also what reapers call it.
    pub(crate) fn name(&self) -> String {
        self.folder.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }
}

/// Makes the files that a child prints to.
pub(crate) fn outputs(folder: &Path) -> io::Result<[File; 2]> {
    let mut options = private::options();
    options.append(true).create(true);
    let output = |name: &str| options.open(folder.join(name));
    Ok([output("stdout")?, output("stderr")?])
}
