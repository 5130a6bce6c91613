//! Where the files of runs lie.

use std::path::{Path, PathBuf};

use raymond_flow::id::{RunId, StepId};

use crate::{
    step::StepFolder,
    trust::{self, TrustError},
};

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
        let is_root =
            |folder: &&Path| [".raymond", ".git"].iter().any(|name| folder.join(name).exists());
        let project = start.ancestors().find(is_root).unwrap_or(start);
        Self::new(project.join(".raymond"))
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
    pub fn run_ids(&self) -> std::io::Result<Vec<RunId>> {
        let entries = match std::fs::read_dir(self.workflows()) {
            Ok(entries) => entries,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
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

impl RunFiles {
    /// The folder of one step: its `stdout`, its `stderr` and more.
    pub fn step(&self, id: &StepId) -> PathBuf {
        StepFolder::new(&self.steps, id).path().to_owned()
    }
}
