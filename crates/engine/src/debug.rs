//! Debug mode: a folder that tells everything that happened in a run.
//!
//! ```text
//! .raymond/debug/<id>_<YYYYMMDD_HHMMSS>/
//!     transitions.log
//!     <agent>_<state>_<number>.json          raw output of a coding agent
//!     <agent>_<state>_<number>.stdout.txt    of a script
//!     <agent>_<state>_<number>.stderr.txt
//! ```
//!
//! It watches and never changes anything: a write that fails leaves a gap, and the run goes on.
//! Of the environment only the variables that Raymond itself sets are written, because the rest
//! holds people's secrets.

use std::{
    collections::HashMap,
    fs::File,
    io::{self, Write},
    path::{Path, PathBuf},
};

use jiff::{Timestamp, tz::TimeZone};
use raymond_flow::{
    id::{RunId, SessionId, StepId},
    machine::{Action, Agent, Instead, Record, Run, Session, Step},
    money::Usd,
    policy::Transition,
    text::excerpt,
};

use crate::{
    clock,
    events::{Event, Observer},
    private, regular,
};

/// Writes the debug folder of one run.
#[derive(Debug)]
pub struct DebugFiles {
    folder: PathBuf,
    log: Option<File>,
    /// What is known of a step until its transition is logged.
    ended: HashMap<StepId, Ended>,
    costs: HashMap<StepId, Usd>,
    environments: HashMap<StepId, Vec<(String, String)>>,
}

#[derive(Debug)]
struct Ended {
    exit_code: Option<i32>,
    duration_ms: u64,
    is_script: bool,
}

impl DebugFiles {
    /// The debug folder of run `id` below `root`, named after this moment.
    pub fn new(root: &Path, id: &RunId) -> Self {
        let folder = root.join(format!("{id}_{}", time("%Y%m%d_%H%M%S")));
        let created = private::create_dir_all(&folder).and_then(|()| {
            private::tighten(root)?;
            private::options().create(true).append(true).open(folder.join("transitions.log"))
        });
        Self {
            folder,
            log: created.ok(),
            ended: HashMap::new(),
            costs: HashMap::new(),
            environments: HashMap::new(),
        }
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    fn keep_output(&self, id: &StepId, step: &Step, folder: &Path) -> io::Result<()> {
        let name = format!("{}_{}_{:03}", id.agent, step.state.stem(), id.number);
        let keep = |from: &str, ending: &str| {
            let mut to = File::create(self.folder.join(format!("{name}.{ending}")))?;
            io::copy(&mut regular::open(&folder.join(from))?, &mut to).map(drop)
        };
        match step.action {
            Action::Turn(_) => keep("stdout", "json"),
            Action::Script { .. } => {
                keep("stdout", "stdout.txt")?;
                keep("stderr", "stderr.txt")
            }
        }
    }

    fn log(&mut self, text: &str) {
        if let Some(log) = &mut self.log {
            // A full disk must not stop the run for the sake of a log.
            let _ = log.write_all(text.as_bytes());
        }
    }

    fn record(&mut self, record: &Record, run: &Run) {
        let (agent, asked, session, instead) = match record {
            Record::Ended { agent, number, spent } => {
                let step = StepId { agent: agent.clone(), number: *number };
                self.costs.insert(step, spent.cost_usd);
                return;
            }
            Record::Followed { agent, transition, session, .. } => {
                (agent, transition, session, None)
            }
            Record::Overridden { agent, asked, session, instead, .. } => {
                (agent, asked, session, Some(instead))
            }
            _ => return,
        };
        let Some(agent) = run.agents.get(agent) else {
            return;
        };
        let (id, state) = (&agent.id, &agent.current_state);
        let arrow = destination(agent, asked);
        let mut text = format!("{} [{id}] {state} -> {arrow}\n", time("%Y-%m-%d %H:%M:%S"));
        let mut line = |name: &str, value: String| text.extend(["  ", name, ": ", &value, "\n"]);
        if let Some(session) = shown_session(agent, session.as_ref()) {
            line("session_id", session);
        }
        let step = StepId { agent: id.clone(), number: agent.steps };
        if let Some(ended) = self.ended.remove(&step) {
            if ended.is_script {
                let code = ended.exit_code.map_or("none".to_owned(), |code| code.to_string());
                line("exit_code", code);
            }
            line("duration", format!("{} s", Seconds(ended.duration_ms)));
        }
        for (name, value) in self.environments.remove(&step).unwrap_or_default() {
            line("env", format!("{name}={}", excerpt(&value)));
        }
        if let Some(cost) = self.costs.remove(&step) {
            line("cost", cost.to_string());
        }
        line("total_cost", run.total_cost_usd.to_string());
        line("stack_depth", agent.stack.len().to_string());
        if let Transition::Result { payload } = asked {
            line("result", format!("\"{}\"", excerpt(payload)));
        }
        match instead {
            Some(Instead::Stop) => line("override", "the run stops".to_owned()),
            Some(Instead::Follow(transition)) => line("override", transition.to_string()),
            None => {}
        }
        text.push('\n');
        self.log(&text);
    }
}

/// Where a transition leads, as the log shows it.
fn destination(agent: &Agent, transition: &Transition) -> String {
    let kind = transition.kind();
    match transition {
        Transition::Goto { target }
        | Transition::Reset { target, .. }
        | Transition::Call { target, .. }
        | Transition::Function { target, .. } => format!("{target} ({kind})"),
        Transition::Fork { target, next, .. } => format!("{next} (fork, worker at {target})"),
        Transition::Result { .. } => match agent.stack.last() {
            Some(frame) => format!("{} (result)", frame.state),
            None => "(result, terminated)".to_owned(),
        },
    }
}

/// The session of the answer, or the one that a script leaves alone.
fn shown_session(agent: &Agent, session: Option<&SessionId>) -> Option<String> {
    match (session, &agent.session) {
        (Some(session), Session::Open(before)) if session == before => {
            Some(format!("{session} (resumed)"))
        }
        (Some(session), _) | (None, Session::Open(session) | Session::Branch(session)) => {
            Some(session.to_string())
        }
        (None, Session::Fresh) => None,
    }
}

/// Milliseconds shown as seconds.
struct Seconds(u64);

impl std::fmt::Display for Seconds {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{:03}", self.0 / 1000, self.0 % 1000)
    }
}

impl Observer for DebugFiles {
    fn see(&mut self, event: &Event<'_>) {
        match event {
            Event::StepStarted { id, environment, .. } => {
                // What an earlier step of this agent came to was no transition.
                self.ended.retain(|step, _| step.agent != id.agent);
                self.costs.retain(|step, _| step.agent != id.agent);
                self.environments.retain(|step, _| step.agent != id.agent);
                if !environment.is_empty() {
                    self.environments.insert((*id).clone(), environment.to_vec());
                }
            }
            Event::StepEnded { id, step, folder, exit_code, duration_ms } => {
                let _ = self.keep_output(id, step, folder);
                let is_script = matches!(step.action, Action::Script { .. });
                let (exit_code, duration_ms) = (*exit_code, *duration_ms);
                self.ended.insert((*id).clone(), Ended { exit_code, duration_ms, is_script });
            }
            Event::Recorded { record, run, .. } => self.record(record, run),
            Event::Opened { .. }
            | Event::Activity { .. }
            | Event::JournalTrimmed(_)
            | Event::UnknownVariables { .. }
            | Event::StateFileWarning(_)
            | Event::Trouble(_) => {}
        }
    }
}

fn time(format: &str) -> String {
    let milliseconds = i64::try_from(clock::now_ms()).unwrap_or_default();
    let now = Timestamp::from_millisecond(milliseconds).unwrap_or_default();
    now.to_zoned(TimeZone::system()).strftime(format).to_string()
}
