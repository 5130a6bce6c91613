//! The status of a run, as text and as JSON.

use std::{collections::BTreeMap, time::Duration};

use raymond_engine::{
    agent::Activity,
    observe::{
        overview::Overview,
        views::{self, LiveFacts},
    },
};
use raymond_flow::{
    id::AgentId,
    machine::{Agent, Phase, Run, Session, Status, UsageWindow},
    money::Usd,
    view::{Account, RunView},
};
use serde_json::{Value, json};

use super::{
    asks::open_lines,
    board::{doing, since},
    complaint, items,
    next::Next,
    summary::advices,
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
    pub(crate) run: &'a Run,
    pub(crate) overview: &'a Overview,
    /// Its status in one word, which may be `died`.
    pub(crate) status: &'a str,
    /// The latest activity of each running turn.
    pub(crate) activities: BTreeMap<AgentId, Activity>,
    pub(crate) now_ms: u64,
    pub(crate) next: &'a Next,
}

impl StatusReport<'_> {
    /// The complete text.
    pub(crate) fn lines(&self) -> Vec<Line> {
        let Self { run, overview, .. } = self;
        let mut page = Vec::new();
        self.head(&mut page);
        self.agents(&mut page);
        worktrees(&mut page, run);
        costs(&mut page, overview);
        denials(&mut page, overview);
        if let Some((what, commands)) = self.next.advice(run, self.status) {
            page.push(Line::new());
            page.extend(advices(&what, &commands));
        }
        page
    }

    /// The same as JSON; `docs/operations.md` describes it.
    pub(crate) fn json(&self) -> Value {
        let mut live = LiveFacts::of(self.overview);
        live.activities.clone_from(&self.activities);
        let mut value = views::status(self.overview, self.run, &live);
        value["next"] = json!(self.next.one(self.run, self.status));
        value
    }

    fn head(&self, page: &mut Vec<Line>) {
        let run = self.run;
        let mut entry = |name: &str, value: Line| {
            page.push(Line::new().dim(format!("{name:<9} ")).then(value));
        };
        let ago = |at_ms: u64| format!("  {} ago", time::age(self.now_ms.saturating_sub(at_ms)));
        entry("run", Line::new().add(Style::Bold, run.id.as_str()));
        entry("status", status_line(self.status, run.halt.is_some()));
        entry("workflow", Line::of(&run.scope_dir));
        let versions: Vec<_> = self.overview.accounts.by_version.keys().cloned().collect();
        if !versions.is_empty() {
            entry("version", Line::of(versions.join(", ")));
        }
        let started = run.started_at_ms;
        entry("started", Line::of(time::stamp(started)).dim(ago(started)));
        if let Some(last) = self.overview.last_at {
            entry("last news", Line::of(time::stamp(last)).dim(ago(last)));
        }
        let budget = run.limits.budget_usd.map_or("no limit".to_owned(), |most| most.to_string());
        let estimated = self.overview.accounts.total.estimated_usd;
        let estimate = (estimated > Usd::ZERO).then(|| format!(", {estimated} of it estimated"));
        let of = format!(" of {budget}{}", estimate.unwrap_or_default());
        entry("spent", Line::of(run.total_cost_usd.to_string()).dim(of));
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

    fn agents(&self, page: &mut Vec<Line>) {
        let agents = self.run.agents_by_birth();
        if agents.is_empty() {
            return;
        }
        page.extend([Line::new(), Line::new().add(Style::Bold, "Agents")]);
        let widest = |texts: Vec<&str>| texts.into_iter().map(console::measure_text_width).max();
        let names = widest(agents.iter().map(|agent| agent.id.as_str()).collect()).unwrap_or(0);
        let states = widest(agents.iter().map(|agent| agent.current_state.stem()).collect());
        let states = states.unwrap_or(0);
        let items: Vec<_> =
            agents.iter().map(|agent| items::of(self.overview, &agent.id)).collect();
        let width = widest(items.iter().map(String::as_str).collect());
        let width = width.filter(|width| *width > 0).map_or(0, |width| width + 2);
        for (agent, item) in agents.into_iter().zip(items) {
            let line = Line::of("  ").add(Style::Name, agent.id.as_str()).pad(2 + names);
            let line = line.plain("  ").then(state(&agent.current_state)).pad(4 + names + states);
            let line = line.plain("  ").plain(item).pad(6 + names + states + width);
            page.push(line.then(self.about(agent)));
            if let Phase::Asking { question, .. } = &agent.phase {
                page.extend(open_lines(question, excerpt(&question.text) != question.text));
            }
            for frame in agent.stack.iter().rev() {
                page.push(Line::new().dim(format!("      returns to {}", frame.state.stem())));
            }
            if let Session::Open(session) = &agent.session {
                page.push(Line::new().dim(format!("      session {session} in {}", agent.cwd)));
            }
            let is_failed = matches!(agent.phase, Phase::Failed { .. });
            if let Some(step) = self.overview.failed_step(&agent.id).filter(|_| is_failed) {
                page.extend(complaint::of_step(self.overview.files(), &step.id()));
            }
        }
    }

    fn about(&self, agent: &Agent) -> Line {
        let age = || {
            let since = time::elapsed(since(self.overview, agent, self.now_ms));
            Line::new().dim(format!("{since:>6}  "))
        };
        let activity = self.activities.get(&agent.id);
        let doing = || doing(self.run, self.overview, agent, activity, self.now_ms);
        match &agent.phase {
            Phase::Running { .. } if self.status == "died" => Line::of("ran when its program died"),
            Phase::Running { step, .. } => {
                age().then(doing()).dim(format!("  (step {})", step.number))
            }
            Phase::Queued { .. } => age().then(doing()),
            Phase::Ready { .. } | Phase::Called { .. } => Line::new().dim("about to start"),
            Phase::Parked { .. } => Line::new().dim("waits for a place among the workers"),
            Phase::Asking { number, question } => {
                let line = age().plain(format!("asks {}.{number}: ", agent.id));
                line.add(Style::Bold, excerpt(&question.text)).with_margin("    ")
            }
            Phase::Failed { error, passed: true, .. } => {
                Line::of(format!("failed: {error}")).dim("; a join has handed this over")
            }
            Phase::Failed { error, class, .. } => Line::new()
                .add(Style::Bad, "failed")
                .plain(format!(": {}", with_advice(error, *class))),
            Phase::Waiting { .. }
            | Phase::Joining { .. }
            | Phase::Moving { .. }
            | Phase::Leaving { .. }
            | Phase::Held { .. } => doing(),
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

fn costs(page: &mut Vec<Line>, view: &RunView) {
    let accounts = &view.accounts;
    if accounts.total.steps == 0 {
        return;
    }
    let by_agent = accounts.by_agent.iter().map(|(agent, account)| {
        let item = items::of(view, agent);
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

fn denials(page: &mut Vec<Line>, view: &RunView) {
    if !view.denials.is_empty() {
        page.extend([Line::new(), Line::new().add(Style::Bold, "Not allowed")]);
    }
    page.extend(view.denials.iter().map(|(agent, denied)| {
        Line::of("  ").add(Style::Name, agent.as_str()).plain(format!("  {denied}"))
    }));
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
