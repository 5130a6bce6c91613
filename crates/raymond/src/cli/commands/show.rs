//! `raymond show`: the transcript of a run.

use std::{collections::BTreeMap, process::ExitCode, time::Duration};

use raymond_engine::{
    EngineError,
    agent::{Entry, ToolOutcome},
    load,
    observe::transcript::{Transcript, cost},
    store::{
        journal::{Journal, JournalPosition},
        layout::RunFiles,
        lock::RunLock,
    },
    worktree::diff,
};
use raymond_flow::{
    id::{AgentId, StepId},
    machine::{Action, Run, Spent, Step},
};
use serde_json::json;

use super::{prepare::LoadedProject, runs};
use crate::{
    cli::{
        args::{Place, WhichRun},
        upkeep::Show,
    },
    failure::Failure,
    out::{self, OutputState},
    quote,
    report::{
        Next,
        transcript::{self, Length},
        words::natural,
    },
};

/// The most of a diff that is shown: more than a person reads.
const DIFF_BYTES_MAX: usize = 4 * 1024 * 1024;
/// How often `--follow` reads again. There is no portable way to wait for changes of a file.
const INTERVAL: Duration = Duration::from_millis(200);

/// A step of the run.
struct Shown {
    id: StepId,
    step: Step,
    at_ms: u64,
    spent: Option<Spent>,
    transcript: Transcript,
    /// Whether all of it was printed.
    is_done: bool,
}

/// The state of `raymond show`: what to show, and what was printed.
struct ShowView<'a> {
    files: RunFiles,
    project: &'a LoadedProject,
    arguments: &'a Show,
    position: JournalPosition,
    /// Steps that are not printed completely, in the order in which they began.
    steps: BTreeMap<u64, Shown>,
    count: u64,
    /// The first step that is a script.
    script: Option<StepId>,
    /// The step whose heading was printed last.
    last: Option<StepId>,
    /// Whether a step has files.
    has_files: bool,
}

/// `raymond show RUN [STEP]`
pub(in crate::cli) fn show(arguments: &Show) -> Result<ExitCode, Failure> {
    let project = LoadedProject::of(&arguments.place)?;
    let run = WhichRun { id: arguments.run.clone() };
    let id = runs::find(&project.state_dir, &run, &arguments.place)?;
    if arguments.diff {
        let run = load(&project.state_dir, &id)?.run;
        return show_diff(&run, arguments.step.as_deref(), &arguments.place);
    }
    let files = project.state_dir.run(&id);
    let mut view = ShowView {
        files,
        project: &project,
        arguments,
        position: JournalPosition::START,
        steps: BTreeMap::new(),
        count: 0,
        script: None,
        last: None,
        has_files: false,
    };
    let mut shown = 0;
    loop {
        // Asked before reading: then the last records are read.
        let is_alive = RunLock::holder(&view.files.lock).is_some();
        view.read()?;
        let (reader, count) = view.print()?;
        shown += count;
        if reader == OutputState::Closed || !arguments.follow || !is_alive {
            break;
        }
        std::thread::sleep(INTERVAL);
    }
    if let (Some(step), 0) = (&arguments.step, view.count) {
        let message = format!("run `{id}` has no step or agent `{step}`");
        let next = runs::next(&id, &arguments.place);
        let hint = format!("list its steps: {} --all", next.command("log"));
        return Err(Failure::usage(message).with_hint(hint));
    }
    if shown == 0 {
        let next = runs::next(&id, &arguments.place);
        out::note(&view.nothing(&next));
    }
    Ok(ExitCode::SUCCESS)
}

/// Shows what the workers with worktrees have changed, or one of them.
fn show_diff(run: &Run, agent: Option<&str>, place: &Place) -> Result<ExitCode, Failure> {
    let is_meant = |id: &&AgentId| agent.is_none_or(|agent| agent == id.as_str());
    let mut meant: Vec<_> = run.worktrees.keys().filter(is_meant).collect();
    meant.sort_by(|one, other| natural(one.as_str(), other.as_str()));
    if meant.is_empty() {
        let who = agent.map_or("no worker".to_owned(), |agent| format!("no worker `{agent}`"));
        let message = format!("run `{}` has {who} with a worktree", run.id);
        return Err(Failure::usage(message).with_hint(format!(
            "list its workers: {}",
            runs::next(&run.id, place).command("status")
        )));
    }
    let mut failure = None;
    for id in meant {
        let Some(own) = run.worktrees.get(id) else { continue };
        let shown = match diff(own, DIFF_BYTES_MAX) {
            Ok(shown) => shown,
            Err(error) => {
                out::note(&format!("{id}  {}: {error}", own.branch));
                failure.get_or_insert(Failure::of_error(&error));
                continue;
            }
        };
        let cut = if shown.is_cut {
            format!("… only the beginning; all of it: git diff {} {}\n", own.base, own.branch)
        } else {
            String::new()
        };
        let heading = format!("{id}  {}\n", own.branch);
        if out::text(&format!("{heading}{}{cut}\n", shown.text))? == OutputState::Closed {
            break;
        }
    }
    failure.map_or(Ok(ExitCode::SUCCESS), Err)
}

impl ShowView<'_> {
    /// What to say if there was nothing to show.
    fn nothing(&self, next: &Next) -> String {
        match &self.script {
            Some(step) if self.arguments.step.is_none() => format!(
                "run {} has no turns to show, and no script failed; show the output of one: raymond show {} {}{}",
                next.id,
                next.id,
                quote::word(&format!("{}.{}", step.agent, step.number)),
                next.place
            ),
            _ => {
                let why = self.why_nothing();
                format!(
                    "there is nothing to show: {why}; list the steps: {} --all",
                    next.command("log")
                )
            }
        }
    }

    /// Why the steps that were meant have nothing to show.
    fn why_nothing(&self) -> &'static str {
        let is_unended = self.steps.values().any(|shown| shown.spent.is_none());
        let is_alive = RunLock::holder(&self.files.lock).is_some();
        match (is_unended, self.has_files) {
            (true, _) if is_alive => "nothing was printed yet",
            (true, false) => "the run ended before the process was started",
            (_, true) => "nothing was printed",
            (false, false) => "no process was started, or its files were removed",
        }
    }

    /// Reads new records of the journal.
    fn read(&mut self) -> Result<(), Failure> {
        let (entries, end) =
            Journal::read_from(&self.files.journal, self.position).map_err(EngineError::from)?;
        self.position = end;
        for entry in entries {
            for record in entry.records {
                if let Some((agent, step)) = record.intent() {
                    self.begin(agent, step, entry.at_ms);
                } else if let Some((id, spent)) = record.ended()
                    && let Some(shown) = self.steps.values_mut().find(|shown| shown.id == id)
                {
                    shown.spent = Some(spent.clone());
                }
            }
        }
        Ok(())
    }

    fn begin(&mut self, agent: &AgentId, step: &Step, at_ms: u64) {
        let id = StepId { agent: agent.clone(), number: step.number };
        if !self.is_meant(&id) {
            return;
        }
        self.count += 1;
        if matches!(step.action, Action::Script { .. }) {
            self.script.get_or_insert_with(|| id.clone());
        }
        let transcript = Transcript::new(&self.files, &id, step);
        let shown =
            Shown { id, step: step.clone(), at_ms, spent: None, transcript, is_done: false };
        self.steps.insert(self.count, shown);
    }

    /// Whether the user selected a step.
    fn is_meant(&self, id: &StepId) -> bool {
        let Some(typed) = self.arguments.step.as_deref() else {
            return true;
        };
        let is_number = |text: &str| text.parse() == Ok(id.number);
        match typed.rsplit_once(['.', '/']) {
            Some((agent, number)) => agent == id.agent.as_str() && is_number(number),
            None => typed == id.agent.as_str() || (id.agent == AgentId::main() && is_number(typed)),
        }
    }

    /// Prints new entries, and drops steps that are printed completely. Returns the number of entries.
    fn print(&mut self) -> Result<(OutputState, usize), Failure> {
        let length = if self.arguments.step.is_some() { Length::Full } else { Length::Short };
        let mut printed = 0;
        for shown in self.steps.values_mut() {
            let entries = shown.more(self.project, length)?;
            self.has_files |= !shown.transcript.is_empty();
            printed += entries.len();
            if entries.is_empty() {
                continue;
            }
            let mut text = String::new();
            for entry in &entries {
                if self.arguments.json {
                    text.push_str(&as_json(shown, entry)?);
                    continue;
                }
                if self.last.as_ref() != Some(&shown.id) {
                    let gap = if self.last.is_some() { "\n" } else { "" };
                    let state = shown.step.state.as_str();
                    text.push_str(gap);
                    text.push_str(&transcript::heading(&shown.id, state, shown.at_ms));
                    self.last = Some(shown.id.clone());
                }
                text.push_str(&transcript::entry(entry, length));
            }
            if out::text(&text)? == OutputState::Closed {
                return Ok((OutputState::Closed, printed));
            }
        }
        self.steps.retain(|_, shown| !shown.is_done);
        Ok((OutputState::Open, printed))
    }
}

impl Shown {
    /// The new entries of the step. A tool call that has ended is returned once.
    fn more(&mut self, project: &LoadedProject, length: Length) -> Result<Vec<Entry>, Failure> {
        // Before reading, so that the output up to the end is read afterwards.
        let is_over = self.spent.is_some();
        let read = self.transcript.more(&project.agents);
        let read = read.map_err(|error| Failure::io(&format!("read step {}", self.id), &error))?;
        let mut entries: Vec<Entry> = Vec::new();
        for entry in read {
            if let Some(earlier) = entries.iter_mut().find(|earlier| is_same_tool(earlier, &entry))
            {
                *earlier = entry;
            } else if !matches!(entry, Entry::Tool { outcome: ToolOutcome::Done, .. }) {
                entries.push(entry);
            }
        }
        let is_script = matches!(self.step.action, Action::Script { .. });
        if is_script && length == Length::Short {
            // The output of a script is shown only on request; here only its failure.
            entries.retain(|entry| !matches!(entry, Entry::Output { .. }));
        }
        if let (true, false, Some(spent)) = (is_over, self.is_done, &self.spent) {
            self.is_done = true;
            if let Action::Turn(turn) = &self.step.action
                && !self.transcript.is_empty()
            {
                let other = project.agents.other_model(turn, spent);
                entries.extend(other.map(|text| Entry::Note { text }));
                entries.push(cost(spent));
            }
        }
        Ok(entries)
    }
}

fn is_same_tool(one: &Entry, other: &Entry) -> bool {
    match (one, other) {
        (Entry::Tool { id: one, .. }, Entry::Tool { id: other, .. }) => one == other,
        _ => false,
    }
}

fn as_json(shown: &Shown, entry: &Entry) -> Result<String, Failure> {
    let unwritable = |error: serde_json::Error| Failure::io("print", &error.into());
    let mut value = serde_json::to_value(entry).map_err(unwritable)?;
    value["step"] = json!(shown.id.to_string());
    value["state"] = json!(shown.step.state.as_str());
    Ok(format!("{}\n", out::escaped(&value.to_string())))
}
