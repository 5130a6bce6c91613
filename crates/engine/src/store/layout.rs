//! The paths of the files of runs.

use std::{
    io::{self, Write as _},
    path::{Path, PathBuf},
};

use raymond_flow::id::{RunId, SessionId, StepId};

use crate::{
    exec::step::StepFolder,
    sys,
    trust::{self, TrustError, private},
};

/// The name of a project's state directory.
const NAME: &str = ".raymond";
/// The directory in it with the worktrees of all runs.
const WORKTREES: &str = "worktrees";
/// The `.gitignore` of the state directory: journals, prompts and outputs must not be committed.
const GITIGNORE: &str =
    "# Written by raymond. Only the settings belong into version control.\n*\n!config.toml\n";

/// The state directory: `.raymond`, or the argument of `--data-dir`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateDir {
    root: PathBuf,
}

impl StateDir {
    /// The state directory at `root`.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// The state directory of the project that contains `start`: in the nearest parent with `.raymond` or
    /// `.git`, else in `start` itself.
    pub fn of_project(start: &Path) -> Self {
        let is_root = |folder: &&Path| [NAME, ".git"].iter().any(|name| folder.join(name).exists());
        let project = start.ancestors().find(is_root).unwrap_or(start);
        Self::new(project.join(NAME))
    }

    /// Creates the directory, with a `.gitignore`. An existing directory with another name may be the
    /// user's, with files that git should track, so nothing is written to it.
    pub fn create(&self) -> io::Result<()> {
        let is_ours = self.root.file_name().is_some_and(|name| name == NAME) || !self.root.exists();
        // A link that is there was declared trusted.
        if !self.root.is_dir() {
            private::create_dir_all(&self.root)?;
        }
        if is_ours {
            let mut options = private::options();
            match options.create_new(true).write(true).open(self.root.join(".gitignore")) {
                Ok(mut file) => file.write_all(GITIGNORE.as_bytes())?,
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// The path of the state directory.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Checks that no other user owns the directory, or that with the runs, or can write to it, and that neither is a link.
    pub fn check(&self) -> Result<(), TrustError> {
        trust::check_folder(&self.root)?;
        trust::check_folder(&self.workflows())
    }

    /// The free space on the disk that the directory is on, or will be on, in bytes.
    pub fn free_bytes(&self) -> io::Result<u64> {
        let there = self.root.ancestors().find(|folder| folder.exists());
        sys::free_bytes(there.unwrap_or(&self.root))
    }

    /// The directory with the files of all runs.
    pub fn workflows(&self) -> PathBuf {
        self.root.join("workflows")
    }

    /// The directory that `--debug` writes to.
    pub fn debug(&self) -> PathBuf {
        self.root.join("debug")
    }

    /// The paths of the files of run `id`.
    pub fn run(&self, id: &RunId) -> RunFiles {
        let workflows = self.workflows();
        let file = |extension: &str| workflows.join(format!("{id}.{extension}"));
        let folder = workflows.join(id.as_str());
        RunFiles {
            journal: file("journal"),
            state: file("json"),
            lock: file("lock"),
            steps: folder.join("steps"),
            scope: folder.join("scope"),
            results: folder.join("results"),
            asks: folder.join("asks"),
            worktrees: self.root.join(WORKTREES).join(id.as_str()),
            folder,
        }
    }

    /// Checks the same for the directories of one run.
    pub fn check_run(&self, files: &RunFiles) -> Result<(), TrustError> {
        self.check()?;
        let RunFiles { folder, steps, scope, results, asks, worktrees, .. } = files;
        let all_worktrees = self.root.join(WORKTREES);
        let folders = [folder, steps, scope, results, asks, &all_worktrees, worktrees];
        folders.into_iter().try_for_each(|folder| trust::check_folder(folder))?;
        // Also those of single steps and questions, and the door.
        [folder, steps, asks].into_iter().try_for_each(|folder| trust::refuse_links_in(folder))
    }

    /// The ids of all runs that have a journal, sorted.
    pub fn run_ids(&self) -> io::Result<Vec<RunId>> {
        let entries = match std::fs::read_dir(self.workflows()) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let mut ids = Vec::new();
        for entry in entries {
            let name = entry?.file_name();
            let id = name.to_str().and_then(|name| name.strip_suffix(".journal"));
            ids.extend(id.and_then(|id| RunId::new(id).ok()));
        }
        ids.sort();
        Ok(ids)
    }
}

/// The paths of the files of one run.
#[derive(Clone, Debug)]
pub struct RunFiles {
    /// The journal, which is the source of truth.
    pub journal: PathBuf,
    /// The state file: a snapshot of the run for users and scripts.
    pub state: PathBuf,
    /// Locked while an orchestrator owns the run.
    pub lock: PathBuf,
    /// The directory for everything else of the run.
    pub folder: PathBuf,
    /// One directory per step.
    pub steps: PathBuf,
    /// The extracted files of an archive.
    pub scope: PathBuf,
    /// Long results, by their hashes.
    pub results: PathBuf,
    /// One directory per question to a person.
    pub asks: PathBuf,
    /// The git worktrees of workers.
    pub worktrees: PathBuf,
}

impl RunFiles {
    /// The state directory that they are in.
    pub(crate) fn state_dir(&self) -> &Path {
        self.folder.ancestors().nth(2).unwrap_or(&self.folder)
    }

    /// The file with what this run must know of a session of the run that it was made from.
    pub(crate) fn session_past(&self, session: &SessionId) -> PathBuf {
        self.folder.join("sessions").join(format!("{session}.past"))
    }

    /// The directory of one step: its `stdout`, its `stderr` and more.
    pub fn step(&self, id: &StepId) -> PathBuf {
        StepFolder::new(&self.steps, id).path().to_owned()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "in tests a panic is the message")]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn state_directory_is_that_of_the_nearest_project() {
        let root = tempfile::tempdir().unwrap();
        let inner = root.path().join("a/b/c");
        fs::create_dir_all(&inner).unwrap();
        let of = |start: &Path| StateDir::of_project(start).root().to_owned();
        // Parents of the temporary directory may be projects; only what is below counts here.
        fs::create_dir(root.path().join(".git")).unwrap();
        assert_eq!(of(&inner), root.path().join(".raymond"));
        fs::create_dir(root.path().join("a/.raymond")).unwrap();
        assert_eq!(of(&inner), root.path().join("a/.raymond"));
        assert_eq!(of(root.path()), root.path().join(".raymond"));
        // In a worktree or a submodule it is a file.
        fs::write(root.path().join("a/b/.git"), "gitdir: elsewhere").unwrap();
        assert_eq!(of(&inner), root.path().join("a/b/.raymond"));
    }

    #[test]
    fn git_sees_only_the_settings_and_nothing_of_the_user_is_changed() {
        let root = tempfile::tempdir().unwrap();
        let state_dir = StateDir::new(root.path().join("deep/.raymond"));
        state_dir.create().unwrap();
        let path = state_dir.root().join(".gitignore");
        assert_eq!(fs::read_to_string(&path).unwrap(), GITIGNORE);
        fs::write(&path, "mine").unwrap();
        state_dir.create().unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "mine");
        // One that was there and has another name.
        let theirs = root.path().join("theirs");
        fs::create_dir(&theirs).unwrap();
        StateDir::new(&theirs).create().unwrap();
        assert!(!theirs.join(".gitignore").exists());
        let new = root.path().join("new");
        StateDir::new(&new).create().unwrap();
        assert!(new.join(".gitignore").exists());
    }

    #[test]
    fn runs_are_those_that_have_a_journal() {
        let root = tempfile::tempdir().unwrap();
        let state_dir = StateDir::new(root.path());
        assert_eq!(state_dir.run_ids().unwrap(), [], "there is no directory");
        fs::create_dir_all(state_dir.workflows().join("c")).unwrap();
        for name in ["b.journal", "a.journal", "d.lock", "e.journal.trimmed-1-2", "bad id.journal"]
        {
            fs::write(state_dir.workflows().join(name), "").unwrap();
        }
        let ids = state_dir.run_ids().unwrap();
        assert_eq!(ids, ["a", "b"].map(|id| RunId::new(id).unwrap()));
    }

    #[test]
    fn free_space_is_known_before_the_directory_is_there() {
        let root = tempfile::tempdir().unwrap();
        let state_dir = StateDir::new(root.path().join("not/yet/.raymond"));
        assert!(state_dir.free_bytes().unwrap() > 0);
    }

    #[cfg(unix)]
    #[test]
    fn run_is_refused_if_others_can_write_to_any_of_its_directories() {
        use std::os::unix::fs::PermissionsExt as _;
        let root = tempfile::tempdir().unwrap();
        let state_dir = StateDir::new(root.path().join(".raymond"));
        let files = state_dir.run(&RunId::new("r").unwrap());
        state_dir.check_run(&files).unwrap();
        for folder in [&files.steps, &files.scope] {
            private::create_dir_all(folder).unwrap();
        }
        state_dir.check_run(&files).unwrap();
        let all =
            [state_dir.root(), &state_dir.workflows(), &files.folder, &files.steps, &files.scope];
        for folder in all {
            fs::set_permissions(folder, fs::Permissions::from_mode(0o707)).unwrap();
            let refused = state_dir.check_run(&files).unwrap_err();
            assert_eq!(refused.path(), folder);
            fs::set_permissions(folder, fs::Permissions::from_mode(0o700)).unwrap();
        }
        state_dir.check_run(&files).unwrap();
    }
}
