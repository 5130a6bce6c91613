//! A cache of runs that were read lately, so that reading one again reads only what is new. All of it can be rebuilt
//! from disk.
//!
//! It has a row for every run, and for the runs that were requested last everything that is shown of them, some 400
//! bytes per step. So the memory grows little with the number of old runs.

use std::{
    collections::{BTreeMap, HashMap},
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant, SystemTime},
};

use jiff::Zoned;
use raymond_engine::{
    agent::{Activity, Agents},
    observe::{
        overview::Overview,
        views::{self, Group, LiveFacts},
        watch::Watch,
    },
    store::{layout::RunFiles, lock::RunLock},
};
use raymond_flow::{
    id::{RunId, StepId},
    machine::Action,
    money::Usd,
};
use serde_json::{Value, json};

use crate::{app::App, error::ApiResult, projects::Project};

/// For how many runs everything is kept.
const OPEN_MAX: usize = 8;
/// The shortest time between two looks at what the turns of a run print.
const GLANCE_INTERVAL: Duration = Duration::from_millis(500);

/// How precisely it is told when a turn printed last: each change is an event.
const HEARD_STEP_MS: u64 = 10_000;

/// Which run: the key of its project, and its id.
pub(crate) type RunKey = (String, RunId);

/// The runs that were read lately.
#[derive(Default)]
pub(crate) struct Shelf {
    /// The latest is last.
    open: Mutex<Vec<(RunKey, Arc<Mutex<OpenRun>>)>>,
    rows: Mutex<HashMap<RunKey, RunRow>>,
}

/// A run for which everything is kept.
pub(crate) struct OpenRun {
    pub(crate) overview: Overview,
    pub(crate) live: LiveFacts,
    watch: Watch,
    /// What the turns that run did last.
    heard: BTreeMap<StepId, Activity>,
    /// When that was looked at.
    glanced: Option<Instant>,
}

/// A run in a list.
#[derive(Clone, Debug)]
pub(crate) struct RunRow {
    pub(crate) value: Arc<Value>,
    pub(crate) group: Group,
    pub(crate) started_at: u64,
    /// Where its workflow is.
    pub(crate) workflow: PathBuf,
    /// What each of its states cost, and how many steps that were.
    pub(crate) by_state: Arc<Vec<(String, Usd, u64)>>,
    /// What it cost since that time, and from when on that is.
    cost: (u64, Usd),
    stamp: Stamp,
}

/// Differs if a row may have changed. It does not notice the output of turns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    journal: Option<(u64, SystemTime)>,
    is_alive: bool,
}

impl Stamp {
    fn of(files: &RunFiles) -> Self {
        let journal = std::fs::metadata(&files.journal);
        let journal = journal.and_then(|data| Ok((data.len(), data.modified()?)));
        // After the journal: the orchestrator has the lock before it makes the journal.
        let is_alive = RunLock::holder(&files.lock).is_some();
        Self { journal: journal.ok(), is_alive }
    }

    /// Whether the orchestrator is about to write the first line of the journal.
    fn is_beginning(self) -> bool {
        self.is_alive && self.journal.is_some_and(|(length, _)| length == 0)
    }
}

impl OpenRun {
    fn new(id: RunId, files: RunFiles) -> Self {
        let watch = Watch::new(files.clone());
        let overview = Overview::new(id, files);
        Self { overview, live: LiveFacts::default(), watch, heard: BTreeMap::new(), glanced: None }
    }

    /// Reads what is new.
    pub(crate) fn refresh(&mut self, agents: &Agents) {
        // Before the journal is read: then whatever the orchestrator wrote last is read.
        self.live = LiveFacts::of(&self.overview);
        self.overview.refresh();
        let Self { overview, live, watch, heard, glanced } = self;
        let running: BTreeMap<_, _> = match &live.owner {
            Some(_) => overview.running().collect(),
            None => BTreeMap::new(),
        };
        let is_running = |id: &StepId| running.contains_key(id);
        watch.retain(is_running);
        heard.retain(|id, _| is_running(id));
        // Many readers of one run share what one of them has found.
        let is_due = glanced.is_none_or(|at| at.elapsed() >= GLANCE_INTERVAL);
        if is_due {
            *glanced = Some(Instant::now());
        }
        for (id, step) in running.iter().filter(|_| is_due) {
            if let Action::Turn(turn) = &step.action
                && let Some(activity) = watch.latest(id, turn, agents)
            {
                heard.insert(id.clone(), activity);
            }
        }
        let activities = heard.iter().map(|(id, activity)| (id.agent.clone(), activity.clone()));
        live.activities = activities.collect();
        let heard_at = running.keys().filter_map(|id| {
            let at = watch.heard_at(id)?;
            Some((id.agent.clone(), at / HEARD_STEP_MS * HEARD_STEP_MS))
        });
        live.heard_at = heard_at.collect();
    }

    /// The whole view of the run but for its agents.
    pub(crate) fn view(&self, app: &App, project: &Project) -> Value {
        let mut value = views::run(&self.overview, &self.live);
        app.complete(&mut value, project);
        // A row has their number under this name, a whole run has them.
        if let Some(fields) = value.as_object_mut() {
            fields.remove("agents");
        }
        if let Some(run) = self.overview.run() {
            let status = views::status_word(run, &self.live);
            value["next"] = json!(app.host.next(&project.state_dir, run, &status));
        }
        value
    }
}

impl App {
    /// The run with everything that is shown of it, up to date.
    pub(crate) fn open(&self, project: &Project, id: &RunId) -> ApiResult<Arc<Mutex<OpenRun>>> {
        let id = project.run(id.as_str())?;
        let files = project.state_dir.run(&id);
        let run = self.shelf.get((project.key.clone(), id), files);
        lock(&run).refresh(&self.host.agents(&project.state_dir));
        Ok(run)
    }

    /// The rows of all runs of the shown projects, newest first.
    pub(crate) fn rows(&self) -> Vec<(RunKey, RunRow)> {
        let mut rows = Vec::new();
        let mut known = HashMap::new();
        for project in self.projects() {
            // `/api/server` reports a directory that cannot be read.
            let ids = project.state_dir.run_ids().unwrap_or_default();
            let mut agents = None;
            for id in ids {
                let key = (project.key.clone(), id);
                let Some(row) = self.row(&project, &key, &mut agents) else { continue };
                known.insert(key.clone(), row.clone());
                rows.push((key, row));
            }
        }
        *lock(&self.shelf.rows) = known;
        rows.sort_by(|(one, a), (other, b)| (b.started_at, other).cmp(&(a.started_at, one)));
        rows
    }

    /// The row of a run; `None` if nothing of it is written yet.
    fn row(&self, project: &Project, key: &RunKey, agents: &mut Option<Agents>) -> Option<RunRow> {
        let files = project.state_dir.run(&key.1);
        let stamp = Stamp::of(&files);
        if stamp.is_beginning() {
            return None;
        }
        let known = lock(&self.shelf.rows).get(key).cloned();
        // What the turns of a live run do is not in its journal.
        if let Some(row) = known.filter(|row| row.stamp == stamp && !stamp.is_alive) {
            return Some(row);
        }
        let agents = agents.get_or_insert_with(|| self.host.agents(&project.state_dir));
        let run = match self.shelf.find(key) {
            Some(run) => run,
            // Live runs change soon, so they are kept. Others are read once, for their row.
            None if stamp.is_alive => self.shelf.get(key.clone(), files),
            None => Arc::new(Mutex::new(OpenRun::new(key.1.clone(), files))),
        };
        let mut run = lock(&run);
        run.refresh(agents);
        let today = midnight();
        let by_state = run.overview.accounts.by_state.iter();
        let by_state = by_state.map(|(name, it)| (name.to_string(), it.cost_usd, it.steps));
        let mut value = views::row(&run.overview, &run.live);
        self.complete(&mut value, project);
        Some(RunRow {
            value: Arc::new(value),
            group: views::group(&run.overview, &run.live),
            started_at: run.overview.run().map_or(0, |run| run.started_at_ms),
            workflow: run
                .overview
                .run()
                .map(|run| run.scope_dir.clone().into())
                .unwrap_or_default(),
            by_state: Arc::new(by_state.collect()),
            cost: (today, run.overview.cost_since(today)),
            stamp,
        })
    }

    /// Adds what only the server knows of a run: its project, and the workflow that it belongs to.
    pub(crate) fn complete(&self, value: &mut Value, project: &Project) {
        value["project"] = json!(project.key);
        // A question in a row is named like one of `/api/asks`.
        let (run, name) = (value["run"].clone(), value["name"].clone());
        for ask in value["asks"].as_array_mut().into_iter().flatten() {
            ask["project"] = json!(project.key);
            ask["run"] = run.clone();
            ask["name"] = name.clone();
        }
        let path = value["workflow"].as_str().map(PathBuf::from);
        value["workflow_key"] = json!(path.and_then(|path| self.workflow_key(&path)));
    }
}

/// How many runs are in each group, and what all cost today.
pub(crate) fn summary(rows: &[(RunKey, RunRow)]) -> Value {
    let today = midnight();
    let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
    for group in [Group::NeedsYou, Group::Running, Group::Waiting, Group::Ended] {
        counts.insert(group.name(), 0);
    }
    for (_, row) in rows {
        *counts.entry(row.group.name()).or_default() += 1;
    }
    // A row of an earlier day has not changed since, so it cost nothing today.
    let today = rows.iter().map(|(_, row)| row.cost).filter(|(since, _)| *since == today);
    let mut value = json!(counts);
    value["cost_today_usd"] = json!(today.map(|(_, cost)| cost).sum::<Usd>());
    value
}

/// When this day began at this place, in milliseconds since 1970.
fn midnight() -> u64 {
    let began = Zoned::now().start_of_day().map(|day| day.timestamp().as_millisecond());
    began.ok().and_then(|ms| u64::try_from(ms).ok()).unwrap_or(0)
}

impl Shelf {
    fn find(&self, key: &RunKey) -> Option<Arc<Mutex<OpenRun>>> {
        let open = lock(&self.open);
        open.iter().find(|(known, _)| known == key).map(|(_, run)| Arc::clone(run))
    }

    /// The run, perhaps before anything of it was read. The least recently requested runs are dropped.
    fn get(&self, key: RunKey, files: RunFiles) -> Arc<Mutex<OpenRun>> {
        let mut open = lock(&self.open);
        let known = open.iter().position(|(known, _)| *known == key);
        let run = match known {
            Some(index) => open.remove(index).1,
            None => Arc::new(Mutex::new(OpenRun::new(key.1.clone(), files))),
        };
        open.push((key, Arc::clone(&run)));
        if open.len() > OPEN_MAX {
            open.remove(0);
        }
        run
    }
}

/// Locks. A value that a panic left behind is still usable: it is read again from disk.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
