//! The status of a run, as text and as JSON.

use std::{collections::BTreeMap, time::Duration};

use raymond_engine::{
    Loaded,
    agent::Activity,
    observe::{
        overview::Overview,
        views::{self, LiveFacts},
    },
    store::{journal::JournalEntry, layout::RunFiles},
};
use raymond_flow::{
    id::{AgentId, StepId},
    machine::{Account, Accounts, Agent, Phase, Record, Run, Session, Status, UsageWindow},
};

use serde_json::{Value, json};

use super::{
    board::{Board, Doing},
    complaint,
    items::Items,
    next::Next,
    summary::{advices, asked_whole},
    time,
    words::{Mark, count, natural, of_halt, of_tokens, state, wait},
};
use crate::{
    advice::with_advice,
    line::{Line, Style, excerpt},
};

/// The most worktrees that are listed: a page for people.
const WORKTREES_MAX: usize = 50;

/// The data of a status report.
#[derive(Debug)]
pub(crate) struct StatusReport<'a> {
    pub(crate) loaded: &'a Loaded,
    /// Its status in one word, which may be `died`.
    pub(crate) status: &'a str,
    pub(crate) files: &'a RunFiles,
    /// The latest activity of each running turn.
    pub(crate) activities: BTreeMap<AgentId, Activity>,
    pub(crate) now_ms: u64,
    pub(crate) next: &'a Next,
}

impl StatusReport<'_> {
    /// The complete text.
    pub(crate) fn lines(&self) -> Vec<Line> {
        let Loaded { run, entries } = self.loaded;
        let mut page = Vec::new();
        self.head(&mut page, run, entries);
        self.agents(&mut page, run, entries);
        Self::worktrees(&mut page, run);
        let records = entries.iter().flat_map(|entry| &entry.records);
        let mut items = Items::default();
        records.clone().for_each(|record| items.record(record));
        costs(&mut page, &Accounts::of(records.clone()), &items);
        denials(&mut page, records);
        if let Some((what, commands)) = self.next.advice(run, self.status) {
            page.push(Line::new());
            page.extend(advices(&what, &commands));
        }
        page
    }

    /// The same as JSON; `docs/operations.md` describes it.
    pub(crate) fn json(&self) -> Value {
        let run = &self.loaded.run;
        let mut overview = Overview::new(run.id.clone(), self.files.clone());
        let mut live = LiveFacts::of(&overview);
        live.activities.clone_from(&self.activities);
        overview.refresh();
        let mut value = views::status(&overview, overview.run().unwrap_or(run), &live);
        value["next"] = json!(self.next.one(run, self.status));
        value
    }

    fn head(&self, page: &mut Vec<Line>, run: &Run, entries: &[JournalEntry]) {
        let mut entry = |name: &str, value: Line| {
            page.push(Line::new().dim(format!("{name:<9} ")).then(value));
        };
        let ago = |at_ms: u64| format!("  {} ago", time::age(self.now_ms.saturating_sub(at_ms)));
        entry("run", Line::new().add(Style::Bold, run.id.as_str()));
        entry("status", status_line(self.status, run.halt.is_some()));
        entry("workflow", Line::of(&run.scope_dir));
        let started = run.started_at_ms;
        entry("started", Line::of(time::stamp(started)).dim(ago(started)));
        if let Some(last) = entries.last() {
            entry("last news", Line::of(time::stamp(last.at_ms)).dim(ago(last.at_ms)));
        }
        let budget = run.limits.budget_usd.map_or("no limit".to_owned(), |most| most.to_string());
        entry("spent", Line::of(run.total_cost_usd.to_string()).dim(format!(" of {budget}")));
        let most = run.limits.max_iterations.map(|most| format!(" of {most}")).unwrap_or_default();
        entry("states", Line::of(run.iteration_count.to_string()).dim(format!("{most} entered")));
        if let Some(result) = &run.result {
            entry("result", Line::of(excerpt(&result.to_string())));
        }
        for (name, windows) in &run.windows {
            entry("usage", Line::of(usage_words(name, windows)));
        }
        for (name, limit) in &run.stopped {
            let text = format!("`{name}` is not available: others begin sessions for it ");
            entry("failover", Line::of(text + &wait(limit.resets_at)));
        }
        if let Some(why) = run.halt.as_ref().filter(|_| run.status != Status::Completed) {
            entry("halted", Line::of(of_halt(why)));
        }
        if let Some(limit) = run.usage_limit.filter(|_| self.status == "running") {
            let wait = format!("usage limit: all agents wait {}", views::wait(limit.resets_at));
            entry("waiting", Line::new().add(Style::Warning, wait));
        }
    }

    fn agents(&self, page: &mut Vec<Line>, run: &Run, entries: &[JournalEntry]) {
        if run.agents.is_empty() {
            return;
        }
        let board = board(entries);
        let mut failed = FailedSteps::default();
        entries.iter().flat_map(|entry| &entry.records).for_each(|record| failed.record(record));
        page.extend([Line::new(), Line::new().add(Style::Bold, "Agents")]);
        let agents = run.agents_by_birth();
        let widest = |texts: Vec<&str>| texts.into_iter().map(console::measure_text_width).max();
        let names = widest(agents.iter().map(|agent| agent.id.as_str()).collect()).unwrap_or(0);
        let states = widest(agents.iter().map(|agent| agent.current_state.stem()).collect());
        let states = states.unwrap_or(0);
        let items = widest(agents.iter().map(|agent| board.item(&agent.id)).collect());
        let items = items.filter(|width| *width > 0).map_or(0, |width| width + 2);
        for agent in agents {
            let line = Line::of("  ").add(Style::Name, agent.id.as_str()).pad(2 + names);
            let line = line.plain("  ").then(state(&agent.current_state)).pad(4 + names + states);
            let line =
                line.plain("  ").plain(board.item(&agent.id)).pad(6 + names + states + items);
            page.push(line.then(self.about(agent, &board)));
            if let Phase::Asking { question, .. } = &agent.phase
                && excerpt(&question.text) != question.text
            {
                page.extend(asked_whole(&question.text));
            }
            for frame in agent.stack.iter().rev() {
                page.push(Line::new().dim(format!("      returns to {}", frame.state.stem())));
            }
            if let Session::Open(session) = &agent.session {
                page.push(Line::new().dim(format!("      session {session} in {}", agent.cwd)));
            }
            let is_failed = matches!(agent.phase, Phase::Failed { .. });
            if let Some(number) = failed.0.get(&agent.id).filter(|_| is_failed) {
                let step = StepId { agent: agent.id.clone(), number: *number };
                page.extend(complaint::of_step(self.files, &step));
            }
        }
    }

    /// The worktrees of workers, also of those that have ended.
    fn worktrees(page: &mut Vec<Line>, run: &Run) {
        if run.worktrees.is_empty() {
            return;
        }
        page.extend([Line::new(), Line::new().add(Style::Bold, "Worktrees")]);
        for (agent, worktree) in run.worktrees.iter().take(WORKTREES_MAX) {
            let line = Line::of("  ").add(Style::Name, agent.as_str());
            page.push(line.plain(format!("  {}", worktree.branch)));
            page.push(Line::new().dim(format!("      {}", worktree.path)));
            if let Some(problem) = &worktree.problem {
                let text = format!("      not saved: {problem}");
                page.push(Line::new().add(Style::Warning, text));
            }
        }
        let more = run.worktrees.len().saturating_sub(WORKTREES_MAX);
        if more > 0 {
            page.push(Line::new().dim(format!("  and {more} more; all of them with --json")));
        }
    }

    fn about(&self, agent: &Agent, board: &Board) -> Line {
        let row = board.row(&agent.id);
        let since = row.map_or_else(Line::new, |row| {
            let since = time::elapsed(self.now_ms.saturating_sub(row.since_ms));
            Line::new().dim(format!("{since:>6}  "))
        });
        match &agent.phase {
            Phase::Running { .. } if self.status == "died" => Line::of("ran when its program died"),
            Phase::Running { step, .. } => {
                let activity = self.activities.get(&agent.id).cloned();
                let doing = match (row.map(|row| &row.doing), activity) {
                    (Some(Doing::Turn(_)), activity) => Doing::Turn(activity),
                    (Some(doing), _) => doing.clone(),
                    (None, _) => Doing::Starting,
                };
                since.then(doing.line(self.now_ms)).dim(format!("  (step {})", step.number))
            }
            Phase::Ready { .. } | Phase::Called { .. } => Line::new().dim("about to start"),
            Phase::Queued { .. } => since.dim("waits for a free slot"),
            Phase::Waiting { .. } => match row {
                Some(row) => row.doing.line(self.now_ms),
                None => Line::new().dim("waits to retry"),
            },
            Phase::Joining { .. } => {
                let (ended, all) = self.loaded.run.joined_so_far(&agent.id).unwrap_or_default();
                Line::new().dim("waits: ").plain(format!("{ended} of {all} workers"))
            }
            Phase::Parked { .. } => Line::new().dim("waits for a place among the workers"),
            Phase::Moving { .. } => Line::new().dim("its worktree is being made"),
            Phase::Leaving { .. } => Line::new().dim("what it leaves is being committed"),
            Phase::Failed { error, passed: true, .. } => {
                Line::of(format!("failed: {error}")).dim("; a join has handed this over")
            }
            Phase::Asking { number, question } => {
                let line = since.plain(format!("asks {}.{number}: ", agent.id));
                line.add(Style::Bold, excerpt(&question.text))
            }
            Phase::Held { asked, .. } => {
                Line::of(format!("held by a limit before {}", excerpt(&asked.to_string())))
            }
            Phase::Failed { error, class, .. } => Line::new()
                .add(Style::Bad, "failed")
                .plain(format!(": {}", with_advice(error, *class))),
        }
    }
}

fn board(entries: &[JournalEntry]) -> Board {
    let mut board = Board::default();
    for entry in entries {
        entry.records.iter().for_each(|record| board.record(record, entry.at_ms));
    }
    board
}

/// The status with its symbol. A run that halts is still running, but begins nothing new.
pub(crate) fn status_line(status: &str, halts: bool) -> Line {
    let status = if status == "running" && halts { "stopping" } else { status };
    let (mark, style) = match status {
        "completed" => (Mark::Done.line(), Style::Good),
        "failed" | "cancelled" | "died" => (Mark::Failed.line(), Style::Bad),
        "running" => (Line::new().add(Style::Name, "●"), Style::Name),
        _ => (Mark::Halted.line(), Style::Warning),
    };
    mark.plain(" ").add(style, status)
}

/// The steps in which agents have failed.
#[derive(Debug, Default)]
struct FailedSteps(BTreeMap<AgentId, u32>);

impl FailedSteps {
    /// Adds the next record. A failure follows directly after the end of its step.
    fn record(&mut self, record: &Record) {
        match record {
            Record::Ended { agent, number, .. } => drop(self.0.insert(agent.clone(), *number)),
            Record::Intended { agent, .. } | Record::Followed { agent, .. } => {
                self.0.remove(agent);
            }
            _ => {}
        }
    }
}

fn costs(page: &mut Vec<Line>, accounts: &Accounts, items: &Items) {
    if accounts.total.steps == 0 {
        return;
    }
    let by_agent = accounts.by_agent.iter().map(|(agent, account)| {
        let item = items.of(agent);
        let gap = if item.is_empty() { "" } else { "  " };
        (format!("{agent}{gap}{item}"), account)
    });
    let states = accounts.by_state.iter().map(|(name, a)| (name.stem().to_owned(), a));
    let tables = [
        ("Cost by state", named(states)),
        ("Cost by model", named(accounts.by_model.iter().map(|(name, a)| (name.clone(), a)))),
        (
            "Cost by version of the coding agent",
            named(accounts.by_version.iter().map(|(name, a)| (name.clone(), a))),
        ),
        ("Cost by agent", named(by_agent)),
    ];
    let rows = tables.iter().flat_map(|(_, rows)| rows);
    let names = rows.map(|(name, _)| console::measure_text_width(name)).max().unwrap_or(0);
    for (title, rows) in tables.iter().filter(|(_, rows)| !rows.is_empty()) {
        page.extend([Line::new(), Line::new().add(Style::Bold, title)]);
        page.extend(rows.iter().map(|(name, account)| cost_row(name, account, names)));
    }
    page.push(cost_row("all", &accounts.total, names));
}

/// Accounts with their names, in natural order.
fn named<'a>(rows: impl Iterator<Item = (String, &'a Account)>) -> Vec<(String, &'a Account)> {
    let mut rows: Vec<_> = rows.collect();
    rows.sort_by(|(a, _), (b, _)| natural(a, b));
    rows
}

fn cost_row(name: &str, account: &Account, names: usize) -> Line {
    let took = time::duration(Duration::from_millis(account.duration_ms));
    let (cost, steps) = (account.cost_usd.to_string(), count(account.steps, "step"));
    let line = Line::of("  ").plain(name).pad(2 + names);
    let line = line.plain(format!("  {cost:>8}")).dim(format!("  {steps:>9}  {took:>6}"));
    let tokens = account.tokens;
    if tokens.input + tokens.output + tokens.cache_write + tokens.cache_read == 0 {
        return line;
    }
    line.dim(format!(
        "  {} in, {} out, {} cached",
        of_tokens(tokens.input + tokens.cache_write),
        of_tokens(tokens.output),
        of_tokens(tokens.cache_read)
    ))
}

fn denials<'a>(page: &mut Vec<Line>, records: impl Iterator<Item = &'a Record>) {
    let mut is_first = true;
    for record in records {
        let Record::Ended { agent, spent, .. } = record else { continue };
        for denied in &spent.denied {
            if std::mem::take(&mut is_first) {
                page.extend([Line::new(), Line::new().add(Style::Bold, "Not allowed")]);
            }
            page.push(Line::of("  ").add(Style::Name, agent.as_str()).plain(format!("  {denied}")));
        }
    }
}

/// How much of its provider's limits a coding agent has used.
fn usage_words(coding_agent: &str, windows: &[UsageWindow]) -> String {
    let of = |window: &UsageWindow| {
        let again = window.resets_at.map(|_| format!(" ({})", wait(window.resets_at)));
        format!("{} {} %{}", window.label(), window.used_percent, again.unwrap_or_default())
    };
    let all: Vec<_> = windows.iter().map(of).collect();
    format!("{coding_agent}: {}", all.join(", "))
}
