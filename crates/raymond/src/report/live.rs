//! Live progress on a terminal: a line per agent, a total below, news scrolling above.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc},
    thread::JoinHandle,
    time::{Duration, Instant},
};

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use raymond_engine::{
    clock,
    events::{Event, Observer, Seen},
};
use raymond_flow::{
    id::AgentId,
    machine::{Accounts, Record, Run, Status, UsageLimit},
    money::Usd,
    policy::Transition,
};

use super::{
    lines, time,
    words::{self, Level},
};
use crate::out;

/// How often the lines are drawn anew.
const FRAME: Duration = Duration::from_millis(250);
/// How many agents are shown, if the terminal does not say that it has less room.
const ROWS_MAX: usize = 20;
/// What else is on the screen.
const ROWS_ELSE: usize = 4;

/// Draws what happens.
pub(crate) struct Live {
    screen: Arc<Mutex<Screen>>,
    level: Level,
    stop: mpsc::Sender<()>,
    painter: Option<JoinHandle<()>>,
}

struct Screen {
    bars: MultiProgress,
    slots: Vec<ProgressBar>,
    total: ProgressBar,
    rows: BTreeMap<AgentId, Row>,
    accounts: Accounts,
    budget_usd: Option<Usd>,
    /// What had been spent when the run was opened.
    before_usd: Usd,
    started: Instant,
    /// What all agents wait for, if the usage limit was reached.
    limit: Option<UsageLimit>,
    halted: Option<String>,
}

/// One agent.
struct Row {
    state: String,
    since: Instant,
    last: String,
}

impl Live {
    pub(crate) fn new(level: Level) -> Self {
        let bars = MultiProgress::new();
        let total = bars.add(bar());
        let screen = Arc::new(Mutex::new(Screen {
            bars,
            slots: Vec::new(),
            total,
            rows: BTreeMap::new(),
            accounts: Accounts::default(),
            budget_usd: None,
            before_usd: Usd::ZERO,
            started: Instant::now(),
            limit: None,
            halted: None,
        }));
        let (stop, stopped) = mpsc::channel();
        let shared = Arc::clone(&screen);
        // Without a thread nothing is painted; lines are still printed.
        let painter = std::thread::Builder::new().spawn(move || {
            while let Err(mpsc::RecvTimeoutError::Timeout) = stopped.recv_timeout(FRAME) {
                lock(&shared).paint();
            }
        });
        Self { screen, level, stop, painter: painter.ok() }
    }
}

fn bar() -> ProgressBar {
    let style = ProgressStyle::with_template("{wide_msg}");
    ProgressBar::new_spinner()
        .with_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()))
}

fn lock(screen: &Mutex<Screen>) -> MutexGuard<'_, Screen> {
    screen.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Observer for Live {
    fn see(&mut self, seen: &Seen) {
        let event = &seen.event;
        let mut screen = lock(&self.screen);
        for (level, line) in lines::of_event(event) {
            if level <= self.level {
                out::above(&screen.bars, &line);
            }
        }
        match event {
            Event::Opened { run, .. } => screen.open(run),
            Event::Recorded { record, .. } => screen.record(record),
            Event::Activity { id, activity } => {
                if let Some(row) = screen.rows.get_mut(&id.agent) {
                    row.last = words::of_activity(activity);
                }
            }
            _ => {}
        }
    }

    fn wants_activity(&self) -> bool {
        true
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        let _ = self.stop.send(());
        if let Some(painter) = self.painter.take() {
            let _ = painter.join();
        }
        let screen = lock(&self.screen);
        let _ = screen.bars.clear();
        out::title("");
    }
}

impl Screen {
    fn open(&mut self, run: &Run) {
        self.budget_usd = run.limits.budget_usd;
        self.before_usd = run.total_cost_usd;
        self.limit = run.usage_limit;
        for agent in run.agents_by_birth() {
            self.enter(&agent.id, agent.current_state.as_str());
        }
    }

    fn enter(&mut self, agent: &AgentId, state: &str) {
        let row = Row { state: state.to_owned(), since: Instant::now(), last: String::new() };
        self.rows.insert(agent.clone(), row);
        if *agent == AgentId::main() {
            out::title(&format!("raymond: {state}"));
        }
    }

    fn record(&mut self, record: &Record) {
        self.accounts.add(record);
        match record {
            Record::Intended { agent, step } => self.enter(agent, step.state.as_str()),
            Record::Queued { agent } => self.note(agent, "waits for a place"),
            Record::Retried { agent, .. } => self.note(agent, "waits to try again"),
            Record::Failed { agent, .. } => drop(self.rows.remove(agent)),
            Record::Followed { agent, transition, worker, .. } => {
                if let Some(worker) = worker {
                    self.enter(worker, "…");
                }
                // If it goes on, its next step brings it back.
                if matches!(transition, Transition::Result { .. }) {
                    self.rows.remove(agent);
                }
            }
            Record::Halted { why } => self.halted = Some(words::of_halt(why)),
            Record::UsageLimited { resets_at } => {
                self.limit = Some(UsageLimit { resets_at: *resets_at });
            }
            Record::UsageLimitLifted => self.limit = None,
            Record::Resumed { limits, .. } => {
                (self.budget_usd, self.limit, self.halted) = (limits.budget_usd, None, None);
            }
            Record::LimitsChanged { limits } => self.budget_usd = limits.budget_usd,
            Record::Finished { status: Status::Completed } => self.rows.clear(),
            _ => {}
        }
    }

    fn note(&mut self, agent: &AgentId, what: &str) {
        if let Some(row) = self.rows.get_mut(agent) {
            what.clone_into(&mut row.last);
        }
    }

    fn paint(&mut self) {
        let (rows, _) = console::Term::stderr().size();
        let room = usize::from(rows).saturating_sub(ROWS_ELSE).clamp(1, ROWS_MAX);
        let mut lines: Vec<String> = self.rows.iter().map(|row| self.row(row)).collect();
        if lines.len() > room {
            let hidden = lines.len() - room + 1;
            lines.truncate(room - 1);
            lines.push(format!("  … and {hidden} more agents"));
        }
        while self.slots.len() < lines.len() {
            let slot = self.bars.insert_before(&self.total, bar());
            self.slots.push(slot);
        }
        while self.slots.len() > lines.len() {
            if let Some(slot) = self.slots.pop() {
                slot.finish_and_clear();
                self.bars.remove(&slot);
            }
        }
        for (slot, line) in self.slots.iter().zip(lines) {
            out::row(slot, &line);
        }
        out::row(&self.total, &self.total_line());
    }

    fn row(&self, (agent, row): (&AgentId, &Row)) -> String {
        let account = self.accounts.by_agent.get(agent);
        let cost = account.map(|account| {
            let tokens = account.tokens.input + account.tokens.output;
            format!("  {} tokens  {}", words::of_tokens(tokens), account.cost_usd)
        });
        let (state, since) = (&row.state, time::duration(row.since.elapsed()));
        format!("  {agent}  {state}  {since}{}  {}", cost.unwrap_or_default(), row.last)
    }

    fn total_line(&self) -> String {
        let spent = self.before_usd + self.accounts.total.cost_usd;
        let budget = self.budget_usd.map(|budget| format!(" of {budget}")).unwrap_or_default();
        let since = time::duration(self.started.elapsed());
        let steps = self.accounts.total.steps;
        let mut line =
            format!("{} agents  {steps} steps  {since}  {spent}{budget}", self.rows.len());
        if let Some(UsageLimit { resets_at }) = self.limit {
            let left = resets_at.map_or_else(String::new, |at| {
                let left = at.saturating_mul(1000).saturating_sub(clock::now_ms());
                format!(", {} left", time::duration(Duration::from_millis(left)))
            });
            let _ = write!(line, "  usage limit: all agents wait{left}");
        } else if let Some(why) = &self.halted {
            let _ = write!(line, "  {why}");
        }
        line
    }
}
