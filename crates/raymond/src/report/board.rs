//! What every agent is doing at the moment: the rows of the live view, and of `raymond status`.

use std::{collections::BTreeMap, time::Duration};

use raymond_engine::{agent::Activity, run::events::Seen};
use raymond_flow::{
    id::AgentId,
    machine::{Action, Agent, Phase, Run, Status, UsageLimit},
    money::Usd,
    view::RunView,
};

use super::{
    items::{self, short},
    time,
    watched::Watched,
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
    pub(crate) watched: Option<Watched>,
    /// What the coding agents of running turns did last.
    activities: BTreeMap<AgentId, Activity>,
    /// How many rounds of a loop were not shown, of agents that are in one.
    rounds: BTreeMap<AgentId, u64>,
}

impl Board {
    /// Takes in the next event.
    pub(crate) fn see(&mut self, seen: &Seen) {
        Watched::see(&mut self.watched, seen);
    }

    /// Adds the latest activity of a coding agent.
    pub(crate) fn activity(&mut self, agent: &AgentId, activity: &Activity) {
        self.activities.insert(agent.clone(), activity.clone());
    }

    /// A step of `agent` begins, after so many rounds of a loop that were not shown.
    pub(crate) fn begin(&mut self, agent: &AgentId, rounds: u64) {
        self.activities.remove(agent);
        if rounds > 0 {
            self.rounds.insert(agent.clone(), rounds);
        } else {
            self.rounds.remove(agent);
        }
    }

    /// The rows for a terminal of this size. `frame` turns the spinner.
    pub(crate) fn paint(
        &self,
        (height, columns): (usize, usize),
        now_ms: u64,
        frame: usize,
    ) -> Vec<Line> {
        let Some(Watched { run, view }) = &self.watched else { return Vec::new() };
        let room = height.saturating_sub(ROWS_ELSE).clamp(1, ROWS_MAX);
        let mut agents = run.agents_by_birth();
        agents.retain(|agent| is_active(agent));
        let all = agents.len();
        let hidden = if all > room { all - (room - 1) } else { 0 };
        agents.truncate(if hidden > 0 { room - 1 } else { room });
        let items: Vec<_> = agents.iter().map(|agent| items::of(view, &agent.id)).collect();
        let widest = |texts: &mut dyn Iterator<Item = &str>| {
            texts.map(console::measure_text_width).max().unwrap_or(0).min(NAME_MAX)
        };
        let names = widest(&mut agents.iter().map(|agent| agent.id.as_str()));
        let states = widest(&mut agents.iter().map(|agent| agent.current_state.stem()));
        let widest_item = widest(&mut items.iter().map(String::as_str));
        let has_room = columns >= COLUMNS_WITH_ITEMS;
        let width = if has_room { widest_item } else { widest_item.min(ITEM_NARROW) };
        let has_costs = columns >= COLUMNS_WITH_COSTS && run.total_cost_usd > Usd::ZERO;
        let columns = Columns { names, states, items: width, has_costs };
        let spinner = SPINNER.get(frame % SPINNER.len()).copied().unwrap_or_default();
        // An empty row separates the news.
        let mut lines = vec![Line::new()];
        for (agent, item) in agents.iter().zip(&items) {
            let mark = mark(run, agent, spinner);
            let line = columns.line(mark, agent, item, since(view, agent, now_ms));
            let mut line = line.plain("  ").then(self.doing(run, view, agent, now_ms));
            if let Some(rounds) = self.rounds.get(&agent.id) {
                line = line.dim(format!("  round {rounds}"));
            }
            lines.push(line);
        }
        if hidden > 0 {
            lines.push(Line::new().dim(format!("  … and {}", count(hidden as u64, "more agent"))));
        }
        lines.push(total(run, view, all, now_ms));
        lines
    }

    fn doing(&self, run: &Run, view: &RunView, agent: &Agent, now_ms: u64) -> Line {
        doing(run, view, agent, self.activities.get(&agent.id), now_ms)
    }
}

/// Whether an agent has a row: one that has failed has none.
fn is_active(agent: &Agent) -> bool {
    !matches!(agent.phase, Phase::Failed { .. })
}

/// Since when an agent does what it does, as an age in milliseconds.
pub(super) fn since(view: &RunView, agent: &Agent, now_ms: u64) -> u64 {
    now_ms.saturating_sub(view.agents.get(&agent.id).map_or(now_ms, |facts| facts.since_ms))
}

fn mark(run: &Run, agent: &Agent, spinner: &str) -> Line {
    let (style, mark) = match agent.phase {
        _ if run.usage_limit.is_some() => (Style::Warning, "■"),
        Phase::Asking { .. } => (Style::Warning, "?"),
        Phase::Queued { .. }
        | Phase::Parked { .. }
        | Phase::Joining { .. }
        | Phase::Held { .. }
        | Phase::Waiting { .. } => (Style::Warning, "◦"),
        _ => (Style::Good, spinner),
    };
    Line::new().add(style, mark)
}

/// The last row: all agents together.
fn total(run: &Run, view: &RunView, agents: usize, now_ms: u64) -> Line {
    let account = &view.accounts.total;
    let since = time::duration(Duration::from_millis(now_ms.saturating_sub(view.opened_at)));
    let mut line = Line::new()
        .plain(count(agents as u64, "agent"))
        .dim(format!(" · {} · {since}", count(account.steps, "step")));
    let spent = run.total_cost_usd;
    if spent > Usd::ZERO || account.tokens.output > 0 {
        let budget = run.limits.budget_usd.map(|budget| format!(" of {budget}"));
        let tokens = account.tokens.input + account.tokens.output;
        if tokens > 0 {
            line = line.dim(format!(" · {} tokens", words::of_tokens(tokens)));
        }
        line = line.dim(format!(" · {spent}{}", budget.unwrap_or_default()));
    }
    let failed = run.agents.values().filter(|agent| !is_active(agent)).count();
    if failed > 0 {
        line = line.dim(" · ").add(Style::Bad, format!("{failed} failed"));
    }
    if let Some(UsageLimit { resets_at }) = run.usage_limit {
        let left = resets_at.map_or_else(String::new, |at| {
            let left = at.saturating_mul(1000).saturating_sub(now_ms);
            format!(", {} left", time::duration(Duration::from_millis(left)))
        });
        let text = format!("usage limit: all agents wait{left}");
        line = line.dim(" · ").add(Style::Warning, text);
    } else if let Some(why) = run.halt.as_ref().filter(|_| run.status != Status::Completed) {
        line = line.dim(" · ").add(Style::Warning, words::of_halt(why));
    }
    line
}

struct Columns {
    names: usize,
    states: usize,
    items: usize,
    has_costs: bool,
}

impl Columns {
    /// The columns of a row up to what the agent is doing.
    fn line(&self, mark: Line, agent: &Agent, item: &str, since_ms: u64) -> Line {
        let since = time::duration(Duration::from_millis(since_ms));
        let mut line = mark.plain(" ").add(Style::Name, agent.id.as_str()).pad(2 + self.names);
        let state = agent.current_state.stem();
        line = line.plain("  ").add(Style::Bold, state).pad(4 + self.names + self.states);
        if self.items > 0 {
            let item = Line::of(short(item, self.items)).cut(self.items);
            let column = 6 + self.names + self.states + self.items;
            line = line.plain("  ").then(item).pad(column);
        }
        line = line.dim(format!("  {since:>6}"));
        if self.has_costs {
            let cost = Some(agent.cost_usd).filter(|cost| *cost > Usd::ZERO);
            let cost = cost.map(|cost| cost.to_string()).unwrap_or_default();
            line = line.dim(format!("  {cost:>7}"));
        }
        line
    }
}

/// What an agent is doing, in a few words. `activity` is what its coding agent did last.
pub(super) fn doing(
    run: &Run,
    view: &RunView,
    agent: &Agent,
    activity: Option<&Activity>,
    now_ms: u64,
) -> Line {
    match &agent.phase {
        Phase::Running { step, .. } => match (&step.action, activity) {
            (Action::Script { .. }, _) => Line::new().dim("runs its script"),
            (Action::Turn(_), None) => Line::new().dim("thinks"),
            (Action::Turn(_), Some(Activity::Uses { tool, what })) => {
                let line = Line::of(tool);
                if what.is_empty() { line } else { line.dim(format!("  {what}")) }
            }
            (Action::Turn(_), Some(activity)) => Line::of(words::of_activity(activity)),
        },
        Phase::Ready { .. } | Phase::Called { .. } => Line::new().dim("starts"),
        Phase::Queued { .. } => Line::new().dim("waits for a free slot"),
        Phase::Parked { .. } => Line::new().dim("waits for a place"),
        Phase::Moving { .. } => Line::new().dim("its worktree is being made"),
        Phase::Leaving { .. } => Line::new().dim("what it leaves is being committed"),
        Phase::Joining { .. } => {
            let (ended, all) = run.joined_so_far(&agent.id).unwrap_or_default();
            Line::new().dim("waits: ").plain(format!("{ended} of {all} workers"))
        }
        Phase::Asking { question, .. } => Line::of("asks: ").plain(excerpt(&question.text)),
        Phase::Waiting { .. } => {
            let waits = view.agents.get(&agent.id).and_then(|facts| facts.waits.as_ref());
            let Some((until_ms, why)) = waits else { return Line::new().dim("waits to retry") };
            let again = words::again(until_ms.saturating_sub(now_ms), agent.tries.starts + 1);
            Line::new().add(Style::Warning, again).dim(format!(": {why}"))
        }
        Phase::Held { asked, .. } => {
            Line::of(format!("held by a limit before {}", excerpt(&asked.to_string())))
        }
        Phase::Failed { error, .. } => {
            Line::new().add(Style::Bad, "failed").plain(format!(": {error}"))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use raymond_flow::{
        id::{RunId, StateName},
        machine::{Limits, Settings, Started},
    };

    use super::*;

    #[test]
    fn row_of_an_agent_names_its_item_shorter_on_a_narrow_terminal() {
        let started = Started {
            workflow_id: RunId::new("r").unwrap(),
            identity: String::new(),
            scope_dir: "/flow".to_owned(),
            entry: StateName::new("START.md"),
            cwd: "/".to_owned(),
            state_dir: String::new(),
            started_at_ms: 1,
            input: None,
            metadata: BTreeMap::new(),
            settings: Settings::default(),
            limits: Limits::default(),
        };
        let mut view = RunView::default();
        let item = [("item".to_owned(), "src/report/items.rs".to_owned())];
        view.attributes.insert(AgentId::main(), item.into());
        let run = Run::new(&started);
        let board = Board { watched: Some(Watched { run, view }), ..Board::default() };
        let row = |columns| {
            let rows = board.paint((30, columns), 1, 0).into_iter().map(|line| line.render(false));
            rows.filter(|row| row.contains(" main ")).collect::<String>()
        };
        assert!(row(120).contains("  START  src/report/items.rs  "), "{}", row(120));
        assert!(row(80).contains("  START  …report/items.rs  "), "{}", row(80));
    }
}
