//! The projects that are shown, by keys: no path ever comes from the network.

use std::path::{Path, PathBuf};

use raymond_engine::store::{layout::StateDir, user};
use raymond_flow::id::{AgentId, RunId, StepId};
use serde_json::{Value, json};

use crate::{
    app::App,
    error::{ApiError, ApiResult},
};

/// A project: a state directory with runs.
#[derive(Clone, Debug)]
pub(crate) struct Project {
    pub(crate) key: String,
    pub(crate) state_dir: StateDir,
}

impl Project {
    pub(crate) fn new(state_dir: StateDir) -> Self {
        Self { key: user::key(state_dir.root()), state_dir }
    }

    /// The directory that its agents work in: that around the state directory.
    pub(crate) fn folder(&self) -> PathBuf {
        let root = self.state_dir.root();
        let around =
            root.parent().filter(|_| root.file_name().is_some_and(|name| name == ".raymond"));
        around.unwrap_or(root).to_owned()
    }

    pub(crate) fn json(&self) -> Value {
        let folder = self.folder();
        let name = folder.file_name().map(|name| name.to_string_lossy().into_owned());
        let problem = self.state_dir.check().err().map(|error| error.to_string());
        json!({ "project": self.key, "name": name, "path": folder, "problem": problem })
    }

    /// The run with this id.
    pub(crate) fn run(&self, id: &str) -> ApiResult<RunId> {
        let known = RunId::new(id).ok().filter(|id| self.state_dir.run(id).journal.exists());
        let none = || format!("there is no run `{id}` in project `{}`", self.key);
        known.ok_or_else(|| ApiError::not_found(none()))
    }
}

impl App {
    /// The projects that are shown.
    pub(crate) fn projects(&self) -> Vec<Project> {
        let all = match &self.project {
            Some(only) => vec![only.clone()],
            None => self.user_dir.state_dirs(),
        };
        all.into_iter().map(Project::new).collect()
    }

    /// The project with this key.
    pub(crate) fn project(&self, key: &str) -> ApiResult<Project> {
        let found = self.projects().into_iter().find(|project| project.key == key);
        found.ok_or_else(|| ApiError::not_found(format!("there is no project `{key}`")))
    }

    /// The directories whose workflows can be started, each with the project that their runs belong to.
    pub(crate) fn workflow_roots(&self) -> Vec<(PathBuf, Project)> {
        if self.roots.is_empty() {
            let projects = self.projects().into_iter();
            return projects.map(|project| (project.folder(), project)).collect();
        }
        let projects = self.projects();
        let of = |root: &Path| {
            let state_dir = StateDir::of_project(root);
            let known = projects.iter().find(|project| project.state_dir == state_dir);
            known.cloned().unwrap_or_else(|| Project::new(state_dir))
        };
        self.roots.iter().map(|root| (root.clone(), of(root))).collect()
    }
}

/// A step by its name, `main.3`.
pub(crate) fn step_id(name: &str) -> ApiResult<StepId> {
    let wrong = || ApiError::not_found(format!("`{name}` is no step: expected AGENT.NUMBER"));
    let (agent, number) = name.rsplit_once('.').ok_or_else(wrong)?;
    let number = number.parse().map_err(|_| wrong())?;
    if agent.is_empty() || agent.contains(['/', '\\', '\0']) {
        return Err(wrong());
    }
    Ok(StepId { agent: AgentId::new(agent), number })
}
