//! The project, the model and the coding agent of one test.

use std::{
    fs,
    path::Path,
    process::{Child, Command, Stdio},
    time::Duration,
};

use raymond_testkit::{ModelApi, Reply, Request, Usage};
use serde_json::Value;

use super::backend::Backend;
use crate::env::{Project, Ran, wait_until};

/// Longer than any of them needs to start on a busy machine.
pub(super) const PATIENCE: Duration = Duration::from_mins(2);

/// The tokens of a call that costs nothing.
const FREE: Usage = Usage { input: 0, output: 0, cache_read: 0, cache_write: 0 };

/// A workflow whose prompts are carried out by one coding agent.
pub(super) struct Desk {
    pub(super) backend: Backend,
    pub(super) project: Project,
    pub(super) api: ModelApi,
    environment: Vec<(String, String)>,
}

impl Desk {
    /// A desk whose workflow has these state files.
    pub(super) fn new<'a>(
        backend: Backend,
        files: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Self {
        let project = Project::new(files);
        fs::create_dir(project.file("home")).unwrap();
        let api = ModelApi::start().unwrap();
        let environment = (backend.environment)(&project.file("home"), &api);
        let Backend { name, program, settings, .. } = &backend;
        let settings = settings.replace("PROGRAM", &program.display().to_string());
        let settings = format!("agent = '{name}'\n[agents.{name}]\n{settings}\n");
        project.write(".raymond/config.toml", &settings);
        Self { backend, project, api, environment }
    }

    /// The model answers prompts that contain `needle` with these replies, call by call.
    pub(super) fn on(&self, needle: &str, replies: impl IntoIterator<Item = Reply>) -> &Self {
        self.api.on(needle, replies);
        // Tried first: a request for the title of a session has no tools. It costs nothing here, because whether its
        // cost is that of this turn, of the next one or of none depends on which answer arrives first.
        let title = || Reply::text("A title").usage(FREE);
        self.api.answer_with(move |request| (!request.has_tools()).then(title));
        self
    }

    /// The model answers prompts that contain `needle` with this text.
    pub(super) fn says(&self, needle: &str, text: &str) -> &Self {
        self.on(needle, [Reply::text(text)])
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.project.command(arguments);
        command.env_clear().envs(self.environment.iter().cloned()).envs(self.project.key());
        command
    }

    /// Runs `raymond` to its end.
    pub(super) fn raymond(&self, arguments: &[&str]) -> Ran {
        Ran::of(&self.command(arguments).output().unwrap())
    }

    /// Starts run `r`, and waits for its end.
    pub(super) fn start(&self, more: &[&str]) -> Ran {
        self.raymond(&[&["start", "flow", "--id", "r", "--no-lint"], more].concat())
    }

    /// Starts run `r`, and does not wait.
    pub(super) fn spawn(&self) -> Child {
        let mut command = self.command(&["start", "flow", "--id", "r", "--no-lint"]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }

    /// Continues run `r`, and waits for its end.
    pub(super) fn resume(&self) -> Ran {
        self.raymond(&["run", "r"])
    }

    /// The texts of each request to the model, the newest last, without their roles.
    pub(super) fn heard(&self) -> Vec<Vec<String>> {
        let texts = |request: &Request| {
            request.texts().into_iter().map(|(_, text)| text.trim_end().to_owned()).collect()
        };
        self.requests().iter().map(texts).collect()
    }

    /// The requests of turns, without those for titles.
    pub(super) fn requests(&self) -> Vec<Request> {
        let mut requests = self.api.requests();
        requests.retain(Request::has_tools);
        requests
    }

    /// Waits until the model was asked so often.
    pub(super) fn wait_for_requests(&self, count: usize) {
        wait_until("the model is asked", PATIENCE, || self.requests().len() >= count);
    }

    /// Waits until the coding agent has kept this text in its home: some write a session a little later than they
    /// answer, and what they never wrote nobody can continue.
    pub(super) fn wait_for_session(&self, text: &str) {
        let home = self.project.file("home");
        wait_until("the session is kept", PATIENCE, || is_below(&home, text.as_bytes()));
    }

    /// What the run has cost, in calls of the model.
    pub(super) fn all_calls_paid(&self) -> f64 {
        let state: Value =
            serde_json::from_str(&self.project.read(".raymond/workflows/r.json")).unwrap();
        self.calls(&state["total_cost_usd"]).unwrap()
    }

    /// What each turn of run `r` has cost, in calls of the model, in the order in which they ended.
    pub(super) fn calls_paid(&self) -> Vec<f64> {
        self.calls_paid_by("r")
    }

    /// What each step of a run has cost, in calls of the model, in the order in which they ended.
    pub(super) fn calls_paid_by(&self, run: &str) -> Vec<f64> {
        let journal = self.project.read(&format!(".raymond/workflows/{run}.journal"));
        let lines = journal.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let records =
            lines.flat_map(|line| line["records"].as_array().cloned().unwrap_or_default());
        records.filter_map(|record| self.calls(&record["ended"]["spent"]["cost_usd"])).collect()
    }

    fn calls(&self, usd: &Value) -> Option<f64> {
        let calls = usd.as_f64()? / self.backend.call_usd;
        Some((calls * 1000.0).round() / 1000.0)
    }

    /// The ids of the coding agent's processes.
    pub(super) fn agent_pids(&self) -> Vec<u32> {
        let mut pids = self.project.pids(self.backend.process);
        // The command line of an orchestrator may contain the name, too.
        let own = self.project.pids("raymond");
        pids.retain(|pid| !own.contains(pid));
        pids
    }
}

/// Whether a file below the directory has these bytes.
fn is_below(directory: &Path, bytes: &[u8]) -> bool {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).any(|path| {
        if path.is_dir() && !path.is_symlink() {
            return is_below(&path, bytes);
        }
        fs::read(&path).is_ok_and(|found| found.windows(bytes.len()).any(|part| part == bytes))
    })
}
