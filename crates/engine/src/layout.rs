//! Where the files of runs lie.

use std::{
    io::{self, Write as _},
    path::{Path, PathBuf},
};

use raymond_flow::id::RunId;

use crate::{
    private,
    trust::{self, TrustError},
};

/// The name of the state folder of a project.
const NAME: &str = ".raymond";
/// What is in the state folder for git: journals, prompts and outputs are for nobody else.
const GITIGNORE: &str =
    "# Written by raymond. Only the settings belong into version control.\n*\n!config.toml\n";

/// The folder of all state: `.raymond`, or what `--state-dir` names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateDir {
    root: PathBuf,
}

impl StateDir {
    /// The state folder at `root`.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// The state folder of the project that `start` lies in: the nearest parent with `.raymond` or
    /// `.git`, else `start` itself.
    pub fn of_project(start: &Path) -> Self {
        let is_root = |folder: &&Path| [NAME, ".git"].iter().any(|name| folder.join(name).exists());
        let project = start.ancestors().find(is_root).unwrap_or(start);
        Self::new(project.join(NAME))
    }

    /// Makes the folder, with a `.gitignore` of its own. A folder that was there and has another name may
    /// be the user's, with files in it that git should see, so nothing is written to it.
    pub fn create(&self) -> io::Result<()> {
        let is_ours = self.root.file_name().is_some_and(|name| name == NAME) || !self.root.exists();
        private::create_dir_all(&self.root)?;
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

    /// The folder itself.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Makes sure that nobody else has made the folder, or can write to it.
    pub fn check(&self) -> Result<(), TrustError> {
        trust::check_folder(&self.root)
    }

    /// Where runs lie.
    pub fn workflows(&self) -> PathBuf {
        self.root.join("workflows")
    }

    /// Where `--debug` writes.
    pub fn debug(&self) -> PathBuf {
        self.root.join("debug")
    }

    /// The files of one run.
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
            folder,
        }
    }

    /// Makes sure of the same for the folders of one run.
    pub(crate) fn check_run(&self, files: &RunFiles) -> Result<(), TrustError> {
        self.check()?;
        let folders = [&self.workflows(), &files.folder, &files.steps, &files.scope];
        folders.into_iter().try_for_each(|folder| trust::check_folder(folder))
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

/// The files of one run.
#[derive(Clone, Debug)]
pub struct RunFiles {
    /// The truth.
    pub journal: PathBuf,
    /// Its snapshot for people and scripts.
    pub state: PathBuf,
    /// Held while an orchestrator owns the run.
    pub lock: PathBuf,
    /// What steps need to survive a crash.
    pub folder: PathBuf,
    /// One folder per step.
    pub steps: PathBuf,
    /// The private copy of an archive's files.
    pub scope: PathBuf,
}
