//! Reports a run in lines: combines related records, and folds loops.
//!
//! A line has columns at its left end, so that they are aligned without any padding at the right:
//!
//! ```text
//! ✓   4.2s  main        PLAN → ESTIMATE  call, returns to ASSIGN  $0.01
//! ```

use std::collections::{BTreeMap, VecDeque};

use raymond_engine::{run::events::Before, store::layout::RunFiles};
use raymond_flow::{
    id::{AgentId, StepId},
    machine::{Agent, Record, Run, Spent},
    money::Usd,
};

use super::{
    complaint, items, time,
    words::{self, Hop, Level, Mark, News},
};
use crate::line::{Line, Style};

/// The widest column for the names of agents; longer ones exceed it.
const NAMES_MAX: usize = 24;
/// The longest loop that is folded, in transitions.
const LOOP_MAX: usize = 4;
/// How often a transition is shown before it is folded: the rounds of a review are all shown, those of a poll
/// are not.
const ROUNDS_TOLD: usize = 2;

/// Reports records, one after another.
#[derive(Debug)]
pub(crate) struct Narrator {
    level: Level,
    folds: bool,
    /// The files of the run, for the output of a failed step.
    files: Option<RunFiles>,
    /// The width of the column of names.
    names: usize,
    /// The step that has just ended; the next record says what follows from it.
    ended: Option<LastEnded>,
    loops: BTreeMap<AgentId, Hops>,
    /// What workers are about.
    items: BTreeMap<AgentId, String>,
}

#[derive(Debug)]
struct LastEnded {
    step: StepId,
    spent: Spent,
}

/// The latest transitions of an agent.
#[derive(Debug, Default)]
struct Hops {
    lately: VecDeque<Hop>,
    folded: Option<Folded>,
}

/// The rounds of a loop that were not shown.
#[derive(Debug, Default)]
struct Folded {
    ways: u64,
    period: usize,
    took_ms: u64,
    cost_usd: Usd,
}

impl Hops {
    fn push(&mut self, way: &Hop) {
        if self.lately.len() == LOOP_MAX * ROUNDS_TOLD {
            self.lately.pop_front();
        }
        self.lately.push_back(way.clone());
    }
}

impl Folded {
    fn rounds(&self) -> u64 {
        self.ways.div_ceil(self.period.max(1) as u64)
    }
}

impl Narrator {
    pub(crate) fn new(level: Level, files: Option<RunFiles>) -> Self {
        let folds = level < Level::Detail;
        let (loops, items) = (BTreeMap::new(), BTreeMap::new());
        Self { level, folds, files, names: 0, ended: None, loops, items }
    }

    /// Adds the agents that are already there.
    pub(crate) fn open(&mut self, run: &Run) {
        for Agent { id, fork_attributes, .. } in run.agents.values() {
            // Its input may be that of a later state.
            self.know(id, items::words(fork_attributes));
        }
    }

    fn know(&mut self, agent: &AgentId, item: String) {
        if !item.is_empty() {
            self.items.insert(agent.clone(), item);
        }
    }

    /// The lines for a record; `before` is its agent before it, `running` how many steps were running then.
    pub(crate) fn tell(
        &mut self,
        record: &Record,
        before: Option<&Before>,
        running: usize,
    ) -> Vec<Line> {
        let ended = self.ended.take();
        self.ended = record.ended().map(|(step, spent)| LastEnded { step, spent: spent.clone() });
        let mut lines = Vec::new();
        for news in words::of_record(record, before, running as u64) {
            // Lines of the workers will follow: widen the column now.
            for (worker, item) in &news.workers {
                self.make_room(worker);
                self.know(worker, item.clone());
            }
            let ended =
                ended.as_ref().filter(|ended| Some(&ended.step.agent) == news.agent.as_ref());
            self.add(&mut lines, &news, ended);
            let has_failed = news.mark == Mark::Failed;
            if let (true, Some(ended), Some(files)) = (has_failed, ended, &self.files) {
                lines.extend(complaint::of_step(files, &ended.step));
            }
        }
        if record.finished().is_some() {
            lines.splice(0..0, self.rest());
        }
        lines
    }

    /// The lines for the loops that have not ended.
    pub(crate) fn rest(&mut self) -> Vec<Line> {
        let agents: Vec<_> = self.loops.keys().cloned().collect();
        agents.iter().filter_map(|agent| self.unfold(agent)).collect()
    }

    /// A line about an agent that does not come from a record.
    pub(crate) fn aside(&mut self, agent: &AgentId, text: Line) -> Line {
        self.columns(Mark::Detail, Some(agent), None, text)
    }

    /// The number of rounds of a loop of `agent` that were not shown.
    pub(crate) fn rounds(&self, agent: &AgentId) -> u64 {
        let folded = self.loops.get(agent).and_then(|ways| ways.folded.as_ref());
        folded.map_or(0, Folded::rounds)
    }

    fn add(&mut self, lines: &mut Vec<Line>, news: &News, ended: Option<&LastEnded>) {
        if news.level > self.level {
            return;
        }
        let spent = ended.map(|ended| &ended.spent);
        if let Some(agent) = &news.agent {
            if self.folds(agent, news, spent) {
                return;
            }
            lines.extend(self.unfold(agent));
        }
        let took = spent.filter(|_| news.mark != Mark::Detail).map(|spent| spent.duration_ms);
        let cost = spent.map_or(Usd::ZERO, |spent| spent.cost_usd);
        let mut line = self.columns(news.mark, news.agent.as_ref(), took, news.text.clone());
        if cost > Usd::ZERO {
            line = line.dim(format!("  {cost}"));
        }
        lines.push(line);
        match (&news.agent, &news.way) {
            (Some(agent), Some(way)) => self.loops.entry(agent.clone()).or_default().push(way),
            (Some(agent), None) => drop(self.loops.remove(agent)),
            (None, _) => {}
        }
    }

    /// Whether the news is one more round of a loop; if so, it is counted.
    fn folds(&mut self, agent: &AgentId, news: &News, spent: Option<&Spent>) -> bool {
        let Some(way) = news.way.as_ref().filter(|_| self.folds) else { return false };
        let ways = self.loops.entry(agent.clone()).or_default();
        let is_way = |back: usize| {
            ways.lately.len().checked_sub(back).and_then(|index| ways.lately.get(index))
                == Some(way)
        };
        let is_loop = |period: &usize| (1..=ROUNDS_TOLD).all(|round| is_way(round * period));
        let Some(period) = (1..=LOOP_MAX).find(is_loop) else { return false };
        ways.push(way);
        let folded = ways.folded.get_or_insert_default();
        folded.ways += 1;
        folded.period = period;
        if let Some(spent) = spent {
            folded.took_ms += spent.duration_ms;
            folded.cost_usd += spent.cost_usd;
        }
        true
    }

    /// The line for the rounds that were not shown.
    fn unfold(&mut self, agent: &AgentId) -> Option<Line> {
        let ways = self.loops.get_mut(agent)?;
        let folded = ways.folded.take()?;
        let newest = ways.lately.len().checked_sub(folded.period)?;
        let first = ways.lately.get(newest)?.from.clone();
        let mut text = Line::new().add(Style::Bold, first);
        for way in ways.lately.iter().skip(newest) {
            text = text.dim(" → ").add(Style::Bold, &way.to);
        }
        let text = text.plain(format!("  {}", words::count(folded.rounds(), "more round")));
        let line = self.columns(Mark::Again, Some(agent), Some(folded.took_ms), text);
        let cost = folded.cost_usd;
        Some(if cost > Usd::ZERO { line.dim(format!("  {cost}")) } else { line })
    }

    fn make_room(&mut self, agent: &AgentId) {
        let width = console::measure_text_width(agent.as_str());
        self.names = self.names.max(width.min(NAMES_MAX));
    }

    fn columns(
        &mut self,
        mark: Mark,
        agent: Option<&AgentId>,
        took_ms: Option<u64>,
        text: Line,
    ) -> Line {
        let Some(agent) = agent else { return mark.line().plain(" ").then(text) };
        self.make_room(agent);
        let name = Line::new().add(Style::Name, agent.as_str());
        let took = took_ms.map(time::elapsed).unwrap_or_default();
        let line = mark.line().dim(format!(" {took:>6}  ")).then(name);
        let column = "✓ 123456  ".chars().count() + self.names;
        let line = line.pad(column).plain("  ");
        match self.items.get(agent) {
            None => line.then(text),
            Some(item) => line.dim(format!("{item}  ")).then(text),
        }
    }
}
