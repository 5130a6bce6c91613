//! The project, the model and the Claude of one test.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

use raymond_testkit::{Claude, ModelApi, Reply, Request};
use serde_json::{Value, json};

use crate::env::{Project, Ran, kill, wait_until};

/// Longer than Claude needs to start on a busy machine.
pub(super) const PATIENCE: Duration = Duration::from_mins(1);
/// A model with the same price in every supported version of Claude Code; what `sonnet` means changes.
pub(super) const MODEL: &str = "claude-sonnet-4-6";
/// The cost of one of its calls, in dollars, with the default usage.
pub(super) const CALL_USD: f64 = 0.003_75;
/// The answer that ends a run.
pub(super) const DONE: &str = "<result>done</result>";
/// A script that waits for a file `go` and then goes to `NEXT`. It creates the file `waits`, so that
/// a test knows when the turn before it has ended.
pub(super) const WAIT: &str = "touch waits; for _ in {1..6000}; do [ -e go ] && break; sleep 0.01; \
                               done; echo '<goto>NEXT</goto>'";

/// A workflow whose prompts are carried out by Claude.
pub(super) struct Desk {
    pub(super) project: Project,
    pub(super) api: ModelApi,
    claude: Claude,
}

impl Desk {
    /// A desk whose workflow has these state files; `None` without Claude.
    pub(super) fn or_skip<'a>(files: impl IntoIterator<Item = (&'a str, &'a str)>) -> Option<Self> {
        let claude = Claude::or_skip()?;
        let project = Project::new(files);
        fs::create_dir(project.file("home")).unwrap();
        Some(Self { project, api: ModelApi::start().unwrap(), claude })
    }

    /// The model answers every prompt that contains `needle` with this text.
    pub(super) fn says(&self, needle: &str, text: &str) -> &Self {
        self.replies(needle, [Reply::text(text)])
    }

    /// The model answers prompts that contain `needle` with these replies, call by call.
    pub(super) fn replies(&self, needle: &str, replies: impl IntoIterator<Item = Reply>) -> &Self {
        self.api.on(needle, replies);
        self
    }

    /// The program of Claude.
    pub(super) fn program(&self) -> &Path {
        self.claude.program()
    }

    /// `raymond` in an environment without anything of the user who runs the tests.
    pub(super) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.project.command(arguments);
        command.env_clear().envs(Claude::environment(&self.project.file("home"), &self.api));
        command.env("RAYMOND_CLAUDE", self.claude.program()).envs(self.project.key());
        command
    }

    /// What starts run `r` on [`MODEL`].
    pub(super) fn start_command(&self, more: &[&str]) -> Command {
        self.command(&[START, &["--model", MODEL], more].concat())
    }

    /// Starts run `r` on [`MODEL`], and waits for its end.
    pub(super) fn start(&self, more: &[&str]) -> Ran {
        Ran::of(&self.start_command(more).output().unwrap())
    }

    /// Starts run `r` on no model in particular, and waits for its end.
    pub(super) fn start_without_model(&self, more: &[&str]) -> Ran {
        Ran::of(&self.command(&[START, more].concat()).output().unwrap())
    }

    /// Continues run `r`, and waits for its end.
    pub(super) fn run(&self, more: &[&str]) -> Ran {
        Ran::of(&self.command(&[RUN, more].concat()).output().unwrap())
    }

    /// Starts run `r` on [`MODEL`], and does not wait.
    pub(super) fn spawn_start(&self, more: &[&str]) -> Child {
        spawn(self.start_command(more))
    }

    /// Continues run `r`, and does not wait.
    pub(super) fn spawn_run(&self) -> Child {
        spawn(self.command(RUN))
    }

    /// Starts run `r`, and kills its orchestrator after this many requests to the model.
    pub(super) fn start_and_kill(&self, requests: usize) {
        let mut child = self.spawn_start(&[]);
        self.api.wait_for_requests(requests, PATIENCE);
        kill(child.id(), libc::SIGKILL);
        child.wait().unwrap();
    }

    /// The messages of each request, the newest last.
    pub(super) fn heard(&self) -> Vec<Vec<String>> {
        self.api.requests().iter().map(texts).collect()
    }

    /// The prompt of each request.
    pub(super) fn asked(&self) -> Vec<String> {
        let requests = self.api.requests();
        requests.iter().map(|request| request.last_user_text().trim_end().to_owned()).collect()
    }

    /// The family of the model of each request: `sonnet` of `claude-sonnet-5-5`. The newest of a family changes.
    pub(super) fn models(&self) -> Vec<String> {
        let family = |model: &str| model.split('-').nth(1).unwrap_or(model).to_owned();
        self.api.requests().iter().map(|request| family(request.model())).collect()
    }

    /// The session of request number `index`.
    pub(super) fn session(&self, index: usize) -> String {
        let requests = self.api.requests();
        requests[index].header("x-claude-code-session-id").unwrap().to_owned()
    }

    /// The transcript of request number `index`.
    pub(super) fn transcript(&self, index: usize) -> PathBuf {
        let name = format!("{}.jsonl", self.session(index));
        let projects = fs::read_dir(self.project.file("home/.claude/projects"));
        let mut paths = projects.into_iter().flatten().flatten().map(|it| it.path().join(&name));
        paths.find(|path| path.exists()).unwrap_or_default()
    }

    /// Waits until `text` is in the transcript of request number `index`: Claude writes it a little
    /// later than it says it.
    pub(super) fn wait_for_transcript(&self, index: usize, text: &str) {
        let quoted = serde_json::to_string(text).unwrap();
        wait_until("it is in the transcript", PATIENCE, || {
            fs::read_to_string(self.transcript(index)).is_ok_and(|known| known.contains(&quoted))
        });
    }

    /// Waits for a file in the project.
    pub(super) fn wait_for_file(&self, name: &str) {
        wait_until(name, PATIENCE, || self.project.file(name).exists());
    }

    /// The processes of Claude.
    pub(super) fn claudes(&self) -> Vec<u32> {
        claudes(&self.project.processes(), self.claude.program())
    }

    /// The one process of Claude.
    #[track_caller]
    pub(super) fn claude(&self) -> u32 {
        let all = self.claudes();
        let [one] = all[..] else { panic!("one Claude, not {all:?}") };
        one
    }

    /// The state file of the run.
    pub(super) fn state(&self) -> Value {
        serde_json::from_str(&self.project.read(".raymond/workflows/r.json")).unwrap()
    }

    /// The run has cost so many calls of the usual usage on [`MODEL`].
    #[track_caller]
    pub(super) fn expect_calls_paid(&self, calls: f64) {
        let paid = self.state()["total_cost_usd"].as_f64().unwrap() / CALL_USD;
        assert!((paid - calls).abs() < 1e-6, "{paid} calls were paid for, not {calls}");
    }

    /// The records of this kind in the journal of run `r`.
    pub(super) fn records(&self, kind: &str) -> Vec<Value> {
        self.records_of("r", kind)
    }

    /// The records of this kind in the journal of a run.
    pub(super) fn records_of(&self, run: &str, kind: &str) -> Vec<Value> {
        let journal = self.project.read(&format!(".raymond/workflows/{run}.journal"));
        let lines = journal.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let records = lines.flat_map(|mut line| match line["records"].take() {
            Value::Array(records) => records,
            _ => Vec::new(),
        });
        records.filter_map(|mut record| Some(record.get_mut(kind)?.take())).collect()
    }

    /// What every step of the run cost: agent, number, money, tokens and model.
    pub(super) fn spent(&self) -> Vec<Value> {
        self.records("ended")
            .into_iter()
            .map(|mut ended| {
                // What differs from run to run.
                ended["spent"]["duration_ms"] = json!(0);
                ended["spent"]["session"] = json!(null);
                ended
            })
            .collect()
    }

    /// What each step of run `r` cost, in calls.
    pub(super) fn calls_by_step(&self) -> Vec<f64> {
        self.calls_by_step_of("r")
    }

    /// What each step of a run cost, in calls.
    pub(super) fn calls_by_step_of(&self, run: &str) -> Vec<f64> {
        let cost = |ended: &Value| ended["spent"]["cost_usd"].as_f64().unwrap_or_default();
        let calls = |ended: &Value| (cost(ended) / CALL_USD * 100.0).round() / 100.0;
        self.records_of(run, "ended").iter().map(calls).collect()
    }

    /// Whether a step ran in a process that was kept from an earlier step.
    pub(super) fn was_warm(&self, step: &str) -> bool {
        assert!(self.step(step, "exit").exists(), "{step} was never started");
        self.step(step, "output-is-at").exists()
    }

    /// How many results Claude has printed into the directory of a step.
    pub(super) fn results(&self, step: &str) -> usize {
        let printed = fs::read_to_string(self.step(step, "stdout")).unwrap_or_default();
        let events = printed.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        events.filter(|event| event["type"] == "result").count()
    }

    /// A file of a step.
    pub(super) fn step(&self, step: &str, name: &str) -> PathBuf {
        self.project.file(&format!(".raymond/workflows/r/steps/{step}/{name}"))
    }

    /// The reaper of a step.
    pub(super) fn reaper(&self, step: &str) -> u32 {
        let exit = fs::read_to_string(self.step(step, "exit")).unwrap();
        let line: Value = serde_json::from_str(exit.lines().next().unwrap()).unwrap();
        line["reaper"].as_u64().unwrap().try_into().unwrap()
    }
}

const START: &[&str] = &["start", "flow", "--id", "r", "--no-lint"];
const RUN: &[&str] = &["run", "r"];

/// Starts a program, and does not wait.
pub(super) fn spawn(mut command: Command) -> Child {
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Waits for a program that was started.
pub(super) fn finish(child: Child) -> Ran {
    Ran::of(&child.wait_with_output().unwrap())
}

/// The texts of a request, the newest last, without their roles.
pub(super) fn texts(request: &Request) -> Vec<String> {
    request.texts().into_iter().map(|(_, text)| text.trim_end().to_owned()).collect()
}

/// Which of these processes are Claude.
fn claudes(processes: &[String], program: &Path) -> Vec<u32> {
    let program = program.to_string_lossy();
    let of_line = |line: &String| {
        let (pid, command) = line.split_once(' ')?;
        command.starts_with(&*program).then(|| pid.parse().ok())?
    };
    processes.iter().filter_map(of_line).collect()
}
