//! A step as the orchestrator hands it to a reaper or a guardian thread.

use std::{fs::File, io, path::PathBuf};

use serde::{Deserialize, Serialize};

use crate::{
    agent::marks::TurnMarks,
    exec::step::{Claim, HowEnded},
    trust::private,
};

/// The wait before a retry of something that failed for lack of memory, processes or descriptors.
#[cfg(not(portable))]
pub(crate) const SHORTAGE_INTERVAL: std::time::Duration = std::time::Duration::from_millis(50);

/// A step to start. The records that ask for it are durable: the reaper that reads it starts it at once.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct StepLaunch {
    /// What the claim of the step says.
    pub(crate) claim: String,
    /// The step's directory. It is created if it does not exist.
    pub(crate) folder: PathBuf,
    /// The absolute path of the program, and its arguments.
    pub(crate) program: Vec<String>,
    /// Variables on top of those that children inherit; an empty value does not unset anything.
    pub(crate) environment: Vec<(String, String)>,
    /// Variables that children must not inherit.
    pub(crate) without: Vec<String>,
    /// The child's working directory.
    pub(crate) cwd: PathBuf,
    /// How long the child may print nothing; 0 is no limit.
    pub(crate) idle_seconds: u64,
    pub(crate) kind: LaunchKind,
}

/// What differs between scripts and turns.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum LaunchKind {
    /// A script has no input and costs only time: after a power loss it is run again.
    Script,
    /// A turn of a coding agent costs money: its output and exit record survive a power loss.
    Turn {
        /// The file that the child reads on its standard input.
        stdin: PathBuf,
        /// The lock files of the sessions that the child uses.
        sessions: SessionFiles,
        /// The lines by which the child tells how far it is.
        marks: TurnMarks,
        /// Whether the child is kept for another turn on the same connection, until that is closed.
        is_kept: bool,
    },
}

/// The lock files of sessions. No two processes may use a session at once.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct SessionFiles {
    /// Of the child's own session; locked for as long as the child lives.
    pub(crate) own: PathBuf,
    /// Of the session that the child's own branches off; locked during its first step.
    pub(crate) source: Option<PathBuf>,
}

impl StepLaunch {
    /// Whether output and exit record must survive a power loss.
    pub(crate) fn is_durable(&self) -> bool {
        matches!(self.kind, LaunchKind::Turn { .. })
    }

    /// Claims the step, and creates its directory if there is none. Fails if it was claimed before.
    pub(crate) fn claim(&self) -> io::Result<(Claim, [File; 2])> {
        match private::create_dir(&self.folder) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => private::refuse_link(&self.folder)?,
        }
        // Before the claim, which makes the directory durable.
        let mut options = private::options();
        options.append(true).create(true);
        let output = |name: &str| options.open(self.folder.join(name));
        let outputs = [output("stdout")?, output("stderr")?];
        let claim = Claim::take(&self.folder.join("exit"), &self.claim, self.is_durable())?;
        // What was there before the claim, a model has put there. Some systems cannot truncate what is open for appending.
        for name in ["stdout", "stderr"] {
            private::options().write(true).truncate(true).open(self.folder.join(name))?;
        }
        Ok((claim, outputs))
    }

    /// How a step ended whose child could not be started.
    pub(crate) fn not_run(&self, error: &io::Error) -> HowEnded {
        let name = self.program.first().map_or("", String::as_str);
        let mut why = format!("{name} in {}: {error}", self.cwd.display());
        why.truncate(why.floor_char_boundary(1000));
        // A program file that is still being written cannot be executed yet.
        let is_busy = cfg!(unix) && error.raw_os_error() == Some(libc::ETXTBSY);
        if is_busy || is_shortage(error) { HowEnded::NotRunNow(why) } else { HowEnded::NotRun(why) }
    }

    /// The name of the step's directory, which identifies the step in messages.
    pub(crate) fn name(&self) -> String {
        self.folder.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }
}

/// Whether the system temporarily lacks memory, processes or descriptors.
pub(super) fn is_shortage(error: &io::Error) -> bool {
    const CODES: [i32; 5] = [libc::EAGAIN, libc::ENOBUFS, libc::ENOMEM, libc::EMFILE, libc::ENFILE];
    cfg!(unix) && error.raw_os_error().is_some_and(|code| CODES.contains(&code))
}

#[cfg(all(test, unix))]
#[allow(clippy::unwrap_used, reason = "in tests a panic is the message")]
mod tests {
    use std::fs;

    use super::*;

    fn launch(folder: PathBuf) -> StepLaunch {
        StepLaunch {
            claim: "a".to_owned(),
            folder,
            program: vec!["/bin/sh".to_owned()],
            environment: Vec::new(),
            without: Vec::new(),
            cwd: "/work".into(),
            idle_seconds: 0,
            kind: LaunchKind::Script,
        }
    }

    #[test]
    fn shortage_and_a_program_that_is_being_written_are_transient() {
        let launch = launch("/steps/main.1".into());
        for (code, is_transient) in [
            (libc::EAGAIN, true),
            (libc::ENOMEM, true),
            (libc::EMFILE, true),
            (libc::ENFILE, true),
            (libc::ENOBUFS, true),
            (libc::ETXTBSY, true),
            (libc::ENOENT, false),
            (libc::EACCES, false),
            (libc::E2BIG, false),
        ] {
            let how = launch.not_run(&io::Error::from_raw_os_error(code));
            assert_eq!(matches!(how, HowEnded::NotRunNow(_)), is_transient, "{how:?}");
            assert_eq!(matches!(how, HowEnded::NotRun(_)), !is_transient, "{how:?}");
        }
    }

    #[test]
    fn reason_fits_into_the_exit_record_and_is_not_cut_in_the_middle_of_a_letter() {
        let mut launch = launch("/steps/main.1".into());
        for length in 995..1005 {
            launch.program = vec!["x".repeat(length) + "üüü"];
            let HowEnded::NotRun(why) = launch.not_run(&io::ErrorKind::NotFound.into()) else {
                panic!("it is not transient")
            };
            assert!(why.len() <= 1000 && why.len() >= 997, "{}", why.len());
        }
        launch.program.clear();
        let how = launch.not_run(&io::ErrorKind::NotFound.into());
        assert!(matches!(how, HowEnded::NotRun(why) if why.starts_with(" in /work: ")));
    }

    #[test]
    fn claim_makes_the_directory_and_the_output_files_and_keeps_what_was_printed() {
        let root = tempfile::tempdir().unwrap();
        let launch = launch(root.path().join("main.1"));
        let claimed = launch.claim().unwrap();
        fs::write(launch.folder.join("stdout"), "printed").unwrap();
        let again = launch.claim().unwrap_err();
        assert_eq!(again.kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(fs::read_to_string(launch.folder.join("stdout")).unwrap(), "printed");
        assert!(launch.folder.join("stderr").exists());
        drop(claimed);
        let planted = self::launch(root.path().join("main.2"));
        fs::create_dir(&planted.folder).unwrap();
        fs::write(planted.folder.join("stdout"), "of a model").unwrap();
        drop(planted.claim().unwrap());
        assert_eq!(fs::read_to_string(planted.folder.join("stdout")).unwrap(), "");
        let nowhere = self::launch(root.path().join("gone/main.1")).claim().unwrap_err();
        assert_eq!(nowhere.kind(), io::ErrorKind::NotFound);
    }
}
