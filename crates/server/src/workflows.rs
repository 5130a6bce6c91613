//! Workflows that can be started: those below the directories that the server was given, by keys.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use axum::{Json, extract};
use raymond_engine::store::{
    scope::{ScopeSource, is_packed},
    user,
};
use raymond_flow::{
    graph::{Graph, State},
    lint::{self, Finding, Known},
    money::Usd,
    prompt::placeholders,
    source::Severity,
};
use serde_json::{Value, json};

use crate::{
    app::App,
    error::{ApiError, ApiResult},
    graph,
    projects::Project,
};

/// How deep below a root workflows are searched for, and how many entries are read.
const DEPTH_MAX: usize = 3;
const FOLDERS_MAX: usize = 5_000;
const WORKFLOWS_MAX: usize = 500;
/// How many runs of a workflow are listed.
const RUNS_MAX: usize = 50;
/// Directories that contain no workflows, but many other directories.
const PASSED_OVER: [&str; 4] = ["node_modules", "target", "__pycache__", "venv"];
/// Variables that Raymond itself gives to prompts.
const OWN_VARIABLES: [&str; 10] = [
    "input",
    "result",
    "output",
    "transition",
    "workflow_id",
    "agent_id",
    "folder",
    "comment",
    "files",
    "result_file",
];

/// A workflow, and the project that its runs belong to.
#[derive(Clone, Debug)]
pub(crate) struct Workflow {
    pub(crate) key: String,
    pub(crate) path: PathBuf,
    pub(crate) project: Project,
}

impl App {
    /// The key of the workflow at `path`, if it is below a root.
    pub(crate) fn workflow_key(&self, path: &Path) -> Option<String> {
        let is_below = |(root, _): &(PathBuf, Project)| path.starts_with(root);
        self.workflow_roots().iter().any(is_below).then(|| user::key(path))
    }

    /// All workflows that are found.
    pub(crate) fn workflows(&self) -> Vec<Workflow> {
        let mut found: BTreeMap<PathBuf, Project> = BTreeMap::new();
        for (root, project) in self.workflow_roots() {
            let mut folders_left = FOLDERS_MAX;
            look(&root, DEPTH_MAX, &mut folders_left, &mut |path| {
                found.entry(path).or_insert_with(|| project.clone());
            });
        }
        let all = found.into_iter().take(WORKFLOWS_MAX);
        all.map(|(path, project)| Workflow { key: user::key(&path), path, project }).collect()
    }

    /// The workflow with this key.
    pub(crate) fn workflow(&self, key: &str) -> ApiResult<Workflow> {
        let found = self.workflows().into_iter().find(|workflow| workflow.key == key);
        found.ok_or_else(|| ApiError::not_found(format!("there is no workflow `{key}`")))
    }
}

/// Calls `found` for every workflow in `folder` and below it. Links are not followed.
fn look(folder: &Path, depth: usize, folders_left: &mut usize, found: &mut dyn FnMut(PathBuf)) {
    if *folders_left == 0 {
        return;
    }
    *folders_left -= 1;
    if ScopeSource::open(folder).is_ok() {
        found(folder.to_owned());
        return;
    }
    let mut entries: Vec<_> = fs::read_dir(folder).into_iter().flatten().flatten().collect();
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let (path, name) = (entry.path(), entry.file_name());
        let name = name.to_string_lossy();
        let Ok(kind) = entry.file_type() else { continue };
        if name.starts_with('.') || PASSED_OVER.contains(&&*name) {
            continue;
        }
        if kind.is_dir() && depth > 0 {
            look(&path, depth - 1, folders_left, found);
        } else if kind.is_file() && is_packed(&path) && ScopeSource::open(&path).is_ok() {
            found(path);
        }
    }
}

impl Workflow {
    fn json(&self) -> Value {
        let name = self.path.file_stem().map(|name| name.to_string_lossy().into_owned());
        json!({
            "workflow": self.key, "name": name, "path": self.path, "project": self.project.key,
            "problem": null,
        })
    }
}

/// `GET /api/workflows`
pub(crate) async fn list(extract::State(app): extract::State<Arc<App>>) -> ApiResult<Json<Value>> {
    app.read(|app| {
        let rows = app.rows();
        let workflows = app.workflows().into_iter().map(|workflow| {
            let mut value = workflow.json();
            let runs = rows.iter().filter(|(_, row)| row.workflow == workflow.path).count();
            value["runs"] = json!(runs);
            match graph::read(&workflow.path) {
                Ok((_, graph)) => {
                    let found = lint::lint(&graph, &Known::default());
                    value["states"] = json!(graph.states.len());
                    value["errors"] = json!(count(&found, Severity::Error));
                    value["warnings"] = json!(count(&found, Severity::Warning));
                }
                Err(problem) => value["problem"] = json!(problem),
            }
            value
        });
        Ok(Json(json!({ "workflows": workflows.collect::<Vec<_>>() })))
    })
    .await
}

fn count(found: &[Finding], severity: Severity) -> usize {
    found.iter().filter(|finding| finding.severity == severity).count()
}

/// `GET /api/workflows/{workflow}`
pub(crate) async fn one(
    extract::State(app): extract::State<Arc<App>>,
    extract::Path(key): extract::Path<String>,
) -> ApiResult<Json<Value>> {
    app.read(move |app| {
        let workflow = app.workflow(&key)?;
        let mut value = workflow.json();
        let rows = app.rows();
        let of_it = rows.iter().filter(|(_, row)| row.workflow == workflow.path);
        let of_it: Vec<_> = of_it.take(RUNS_MAX).map(|(_, row)| row).collect();
        value["runs"] = json!(of_it.iter().map(|row| &*row.value).collect::<Vec<_>>());
        let mut by_state: BTreeMap<&str, (Usd, u64, u64)> = BTreeMap::new();
        for (name, cost, steps) in of_it.iter().flat_map(|row| row.by_state.iter()) {
            let sum = by_state.entry(name).or_default();
            *sum = (sum.0 + *cost, sum.1 + steps, sum.2 + 1);
        }
        let by_state: Vec<_> = by_state
            .iter()
            .map(|(name, (cost, steps, runs))| {
                json!({ "name": name, "cost_usd": cost, "steps": steps, "runs": runs })
            })
            .collect();
        value["cost_by_state"] = json!(by_state);
        match graph::read(&workflow.path) {
            Ok((files, graph)) => {
                let coding_agents = Some(app.host.agents(&workflow.project.state_dir).known());
                let variables = variables(&graph);
                let known = Known { variables: variables.clone(), coding_agents };
                value["graph"] = graph::of_graph(&graph, None);
                let mut found = lint::lint(&graph, &known);
                files.place(&mut found);
                value["findings"] = json!(found);
                value["form"] = form(app, &workflow.project, &graph, &variables);
            }
            Err(problem) => value["problem"] = json!(problem),
        }
        Ok(Json(value))
    })
    .await
}

/// The form for starting a run: its input, its variables and its budget.
fn form(app: &App, project: &Project, graph: &Graph, variables: &BTreeSet<String>) -> Value {
    let entry = graph.entry.as_ref().ok().and_then(|entry| graph.state(entry));
    let takes_input = entry.is_some_and(|state| match state.prompt() {
        Some(prompt) => placeholders(&prompt.body).iter().any(|name| name.value == "input"),
        None => state.text.contains("RAYMOND_INPUT"),
    });
    let budget = app.host.budget(&project.state_dir);
    let budget = match (budget, app.budget_max) {
        (Some(budget), Some(most)) => Some(budget.min(most)),
        (budget, most) => budget.or(most),
    };
    json!({
        "takes_input": takes_input, "variables": variables, "budget_usd": budget,
        "budget_max_usd": app.budget_max,
    })
}

/// The variables of a run that prompts use: those that neither Raymond nor a fork gives.
fn variables(graph: &Graph) -> BTreeSet<String> {
    let forked: BTreeSet<_> = graph
        .states
        .values()
        .flat_map(State::said)
        .flat_map(|way| way.attributes.iter().map(|(name, _)| name.value.clone()))
        .collect();
    let prompts = graph.states.values().filter_map(|state| state.prompt());
    let used = prompts.flat_map(|prompt| placeholders(&prompt.body)).map(|name| name.value);
    used.filter(|name| !OWN_VARIABLES.contains(&name.as_str()) && !forked.contains(name)).collect()
}
