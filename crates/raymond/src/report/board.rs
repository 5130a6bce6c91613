//! What every agent is doing at the moment: the rows of the live view, and of `raymond status`.

use std::collections::BTreeMap;

use raymond_engine::agent::Activity;
use raymond_flow::{
    id::AgentId,
    machine::{Accounts, Action, Agent, Phase, Record, Run, Status, UsageLimit},
    money::Usd,
    policy::Transition,
};

use super::{
    crews::{Crews, Progress},
    items::{Items, short},
    time,
    words::{self, count},
};
use crate::line::{Line, Style, excerpt};

/// The most agents that are shown.
const ROWS_MAX: usize = 20;
/// The other rows on the screen: the total, an empty row, and some news.
const ROWS_ELSE: usize = 5;
/// The widest columns of names and states.
const NAME_MAX: usize = 24;
/// A terminal narrower than this has no room for costs.
const COLUMNS_WITH_COSTS: usize = 60;
/// A narrower terminal shows items shorter.
const COLUMNS_WITH_ITEMS: usize = 100;
const ITEM_NARROW: usize = 16;
/// The frames of the spinner.
const SPINNER: [&str; 10] = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"];

/// The agents of a run and what they are doing.
#[derive(Debug, Default)]
pub(crate) struct Board {
    rows: BTreeMap<AgentId, Row>,
    born: u64,
    accounts: Accounts,
    budget_usd: Option<Usd>,
    /// The cost of the run when it was opened.
    before_usd: Usd,
    /// When the run was opened, in milliseconds since 1970.
    opened_ms: u64,
    /// The usage limit that all agents wait for, if it was reached.
    limit: Option<UsageLimit>,
    halted: Option<String>,
    failed: u64,
    crews: Crews,
    items: Items,
}

/// The row of one agent.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    born: u64,
    pub(crate) state: String,
    /// Since when it is doing this, in milliseconds since 1970.
    pub(crate) since_ms: u64,
    pub(crate) doing: Doing,
    /// The number of starts of its work.
    starts: u32,
    /// The number of rounds of a loop that were not shown.
    rounds: u64,
}

/// What an agent is doing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Doing {
    Starting,
    Script,
    /// A turn, and what the coding agent did last.
    Turn(Option<Activity>),
    Queued,
    /// A worker that waits for a place among its siblings.
    Parked,
    /// It waits for workers.
    Joins(Progress),
    /// It waits for a person's answer to this question.
    Asks(String),
    /// It waits for a retry at this time, in milliseconds since 1970.
    Waits {
        until_ms: u64,
        attempt: u32,
        why: String,
    },
}

impl Board {
    /// Starts with the run as it was opened, at `now_ms`.
    pub(crate) fn open(&mut self, run: &Run, now_ms: u64) {
        self.budget_usd = run.limits.budget_usd;
        self.before_usd = run.total_cost_usd;
        self.opened_ms = now_ms;
        self.limit = run.usage_limit;
        let is_active = |agent: &&&Agent| !matches!(agent.phase, Phase::Failed { .. });
        for agent in run.agents_by_birth().iter().filter(is_active) {
            let doing = match &agent.phase {
                Phase::Asking { question, .. } => Doing::Asks(question.text.clone()),
                _ => Doing::Starting,
            };
            self.enter(&agent.id, agent.current_state.stem(), now_ms, doing);
            self.started(&agent.id, agent.tries.starts);
        }
        self.crews = Crews::open(run);
        self.items.open(run);
        for agent in run.agents.values() {
            if let Some(progress) = self.crews.progress(&agent.id) {
                self.change(&agent.id, now_ms, Doing::Joins(progress));
            }
            if let Phase::Parked { .. } = agent.phase {
                self.change(&agent.id, now_ms, Doing::Parked);
            }
        }
    }

    /// Starts with a run whose records were all added.
    pub(crate) fn begin(&mut self, run: &Run) {
        self.budget_usd = run.limits.budget_usd;
        self.opened_ms = run.started_at_ms;
        self.limit = run.usage_limit;
    }

    /// What a worker is about.
    pub(crate) fn item(&self, agent: &AgentId) -> &str {
        self.items.of(agent)
    }

    /// The row of an agent.
    pub(crate) fn row(&self, agent: &AgentId) -> Option<&Row> {
        self.rows.get(agent)
    }

    /// Adds a record.
    pub(crate) fn record(&mut self, record: &Record, at_ms: u64) {
        self.accounts.add(record);
        self.items.record(record);
        let joining = self.crews.record(record);
        match record {
            Record::Intended { agent, step } => {
                let doing = match step.action {
                    Action::Script { .. } => Doing::Script,
                    Action::Turn(_) => Doing::Turn(None),
                };
                self.enter(agent, step.state.stem(), at_ms, doing);
                self.started(agent, step.attempt);
            }
            Record::Queued { agent } => self.change(agent, at_ms, Doing::Queued),
            Record::Asked { agent, question, .. } => {
                self.change(agent, at_ms, Doing::Asks(question.text.clone()));
            }
            Record::Retried { agent, why, delay_ms, .. } => {
                let attempt = self.rows.get(agent).map_or(0, |row| row.starts) + 1;
                let until_ms = at_ms + delay_ms;
                let doing = Doing::Waits { until_ms, attempt, why: why.clone() };
                self.change(agent, at_ms, doing);
            }
            Record::Woke { agent }
            | Record::Called { agent }
            | Record::Placed { agent }
            | Record::WorktreeMade { agent, .. }
            | Record::Answered { agent, .. }
            | Record::Joined { agent, .. } => {
                self.change(agent, at_ms, Doing::Starting);
            }
            Record::Failed { agent, .. } => {
                self.failed += 1;
                self.rows.remove(agent);
            }
            Record::Followed { agent, transition, workers, .. } => {
                for (worker, forked) in workers.iter().zip(transition.workers()) {
                    let doing =
                        if forked.limit.is_some() { Doing::Parked } else { Doing::Starting };
                    self.enter(worker, "…", at_ms, doing);
                }
                // If the agent continues, its next step adds it again.
                if matches!(transition, Transition::Result { .. }) {
                    self.rows.remove(agent);
                }
            }
            Record::Halted { why } => self.halted = Some(words::of_halt(why)),
            Record::UsageLimited { resets_at } => {
                self.limit = Some(UsageLimit { resets_at: *resets_at });
            }
            Record::UsageLimitLifted => self.limit = None,
            Record::LimitsChanged { limits } => self.budget_usd = limits.budget_usd,
            Record::Resumed { limits, .. } => {
                (self.budget_usd, self.limit, self.halted) = (limits.budget_usd, None, None);
                self.failed = 0;
            }
            Record::Finished { status: Status::Completed } => self.rows.clear(),
            _ => {}
        }
        let progress = joining.and_then(|agent| Some((self.crews.progress(&agent)?, agent)));
        if let Some((progress, agent)) = progress {
            let since_ms = match self.rows.get(&agent) {
                Some(Row { doing: Doing::Joins(_), since_ms, .. }) => *since_ms,
                _ => at_ms,
            };
            self.change(&agent, since_ms, Doing::Joins(progress));
        }
    }

    /// Adds the latest activity of a coding agent.
    pub(crate) fn activity(&mut self, agent: &AgentId, activity: &Activity) {
        if let Some(row) = self.rows.get_mut(agent) {
            row.doing = Doing::Turn(Some(activity.clone()));
        }
    }

    /// Sets the number of rounds of a loop of `agent` that were not shown.
    pub(crate) fn rounds(&mut self, agent: &AgentId, rounds: u64) {
        if let Some(row) = self.rows.get_mut(agent) {
            row.rounds = rounds;
        }
    }

    fn enter(&mut self, agent: &AgentId, state: &str, since_ms: u64, doing: Doing) {
        let born = self.rows.get(agent).map_or_else(
            || {
                self.born += 1;
                self.born
            },
            |row| row.born,
        );
        let rounds = self.rows.get(agent).map_or(0, |row| row.rounds);
        let row = Row { born, state: state.to_owned(), since_ms, doing, starts: 0, rounds };
        self.rows.insert(agent.clone(), row);
    }

    /// So often the work of `agent` was started.
    fn started(&mut self, agent: &AgentId, starts: u32) {
        if let Some(row) = self.rows.get_mut(agent) {
            row.starts = starts;
        }
    }

    fn change(&mut self, agent: &AgentId, since_ms: u64, doing: Doing) {
        if let Some(row) = self.rows.get_mut(agent) {
            (row.since_ms, row.doing) = (since_ms, doing);
        }
    }

    /// The rows for a terminal of this size. `frame` turns the spinner.
    pub(crate) fn paint(
        &self,
        (height, columns): (usize, usize),
        now_ms: u64,
        frame: usize,
    ) -> Vec<Line> {
        let room = height.saturating_sub(ROWS_ELSE).clamp(1, ROWS_MAX);
        let mut rows: Vec<_> = self.rows.iter().collect();
        rows.sort_by_key(|(_, row)| row.born);
        let hidden = if rows.len() > room { rows.len() - (room - 1) } else { 0 };
        rows.truncate(if hidden > 0 { room - 1 } else { room });
        let widest = |texts: &mut dyn Iterator<Item = &str>| {
            texts.map(console::measure_text_width).max().unwrap_or(0).min(NAME_MAX)
        };
        let names = widest(&mut rows.iter().map(|(agent, _)| agent.as_str()));
        let states = widest(&mut rows.iter().map(|(_, row)| row.state.as_str()));
        let has_costs = columns >= COLUMNS_WITH_COSTS;
        let items = widest(&mut rows.iter().map(|(agent, _)| self.item(agent)));
        let items = if columns >= COLUMNS_WITH_ITEMS { items } else { items.min(ITEM_NARROW) };
        let columns = Columns { names, states, items, has_costs };
        let spinner = SPINNER.get(frame % SPINNER.len()).copied().unwrap_or_default();
        // An empty row separates the news.
        let mut lines = vec![Line::new()];
        let rows = rows.iter();
        lines.extend(rows.map(|(agent, row)| self.row_line(agent, row, &columns, now_ms, spinner)));
        if hidden > 0 {
            lines.push(Line::new().dim(format!("  … and {}", count(hidden as u64, "more agent"))));
        }
        lines.push(self.total(now_ms));
        lines
    }

    fn row_line(
        &self,
        agent: &AgentId,
        row: &Row,
        columns: &Columns,
        now_ms: u64,
        spinner: &str,
    ) -> Line {
        let mark = match row.doing {
            _ if self.limit.is_some() => Line::new().add(Style::Warning, "■"),
            Doing::Asks(_) => Line::new().add(Style::Warning, "?"),
            Doing::Queued | Doing::Parked | Doing::Joins(_) | Doing::Waits { .. } => {
                Line::new().add(Style::Warning, "◦")
            }
            _ => Line::new().add(Style::Good, spinner),
        };
        let since =
            time::duration(std::time::Duration::from_millis(now_ms.saturating_sub(row.since_ms)));
        let mut line = mark.plain(" ").add(Style::Name, agent.as_str()).pad(2 + columns.names);
        line =
            line.plain("  ").add(Style::Bold, &row.state).pad(4 + columns.names + columns.states);
        if columns.items > 0 {
            let item = Line::of(short(self.item(agent), columns.items)).cut(columns.items);
            let column = 6 + columns.names + columns.states + columns.items;
            line = line.plain("  ").then(item).pad(column);
        }
        line = line.dim(format!("  {since:>6}"));
        let account = self.accounts.by_agent.get(agent);
        let cost = account.map(|account| account.cost_usd).filter(|cost| *cost > Usd::ZERO);
        if columns.has_costs && self.accounts.total.cost_usd > Usd::ZERO {
            let cost = cost.map(|cost| cost.to_string()).unwrap_or_default();
            line = line.dim(format!("  {cost:>7}"));
        }
        line = line.plain("  ").then(row.doing.line(now_ms));
        if row.rounds > 0 {
            line = line.dim(format!("  round {}", row.rounds));
        }
        line
    }

    fn total(&self, now_ms: u64) -> Line {
        let account = &self.accounts.total;
        let spent = self.before_usd + account.cost_usd;
        let since = now_ms.saturating_sub(self.opened_ms);
        let since = time::duration(std::time::Duration::from_millis(since));
        let mut line = Line::new()
            .plain(count(self.rows.len() as u64, "agent"))
            .dim(format!(" · {} · {since}", count(account.steps, "step")));
        if spent > Usd::ZERO || account.tokens.output > 0 {
            let budget = self.budget_usd.map(|budget| format!(" of {budget}")).unwrap_or_default();
            let tokens = account.tokens.input + account.tokens.output;
            if tokens > 0 {
                line = line.dim(format!(" · {} tokens", words::of_tokens(tokens)));
            }
            line = line.dim(format!(" · {spent}{budget}"));
        }
        if self.failed > 0 {
            line = line.dim(" · ").add(Style::Bad, format!("{} failed", self.failed));
        }
        if let Some(UsageLimit { resets_at }) = self.limit {
            let left = resets_at.map_or_else(String::new, |at| {
                let left = at.saturating_mul(1000).saturating_sub(now_ms);
                let left = time::duration(std::time::Duration::from_millis(left));
                format!(", {left} left")
            });
            let text = format!("usage limit: all agents wait{left}");
            line = line.dim(" · ").add(Style::Warning, text);
        } else if let Some(why) = &self.halted {
            line = line.dim(" · ").add(Style::Warning, why);
        }
        line
    }
}

struct Columns {
    names: usize,
    states: usize,
    items: usize,
    has_costs: bool,
}

impl Doing {
    /// What it is doing, in a few words.
    pub(crate) fn line(&self, now_ms: u64) -> Line {
        match self {
            Self::Starting => Line::new().dim("starts"),
            Self::Script => Line::new().dim("runs its script"),
            Self::Parked => Line::new().dim("waits for a place"),
            Self::Joins(Progress { ended, all }) => {
                Line::new().dim("waits: ").plain(format!("{ended} of {all} workers"))
            }
            Self::Turn(None) => Line::new().dim("thinks"),
            Self::Turn(Some(Activity::Uses { tool, what })) => {
                let line = Line::of(tool);
                if what.is_empty() { line } else { line.dim(format!("  {what}")) }
            }
            Self::Turn(Some(activity)) => Line::of(words::of_activity(activity)),
            Self::Queued => Line::new().dim("waits for a free slot"),
            Self::Asks(question) => Line::of("asks: ").plain(excerpt(question)),
            Self::Waits { until_ms, attempt, why } => {
                let again = words::again(until_ms.saturating_sub(now_ms), *attempt);
                Line::new().add(Style::Warning, again).dim(format!(": {why}"))
            }
        }
    }
}
