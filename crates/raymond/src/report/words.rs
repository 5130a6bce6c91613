//! Describes the events of a run in words.

use std::collections::BTreeMap;

pub(crate) use raymond_engine::observe::views::{of_activity, of_halt, wait};
use raymond_engine::run::events::Before;
use raymond_flow::{
    id::{AgentId, StateName},
    machine::{
        Action, Halt, Instead, Limits, Message, Record, Response, SessionPlan, StandIn, Status,
        Step, Via,
    },
    policy::{Forked, Join, Question, Transition},
};

use super::{items, time};
use crate::{
    advice::with_advice,
    line::{Line, Style, excerpt},
};

/// How much the user wants to see.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Level {
    /// Only failures and warnings.
    Trouble,
    /// Also the transitions.
    News,
    /// Also what agents do in between.
    Detail,
}

/// The symbol at the beginning of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mark {
    Done,
    Forked,
    Again,
    Odd,
    Failed,
    Halted,
    Asks,
    Detail,
}

impl Mark {
    pub(crate) fn line(self) -> Line {
        let (style, symbol) = match self {
            Self::Done => (Style::Good, "✓"),
            Self::Forked => (Style::Name, "+"),
            Self::Again => (Style::Warning, "↻"),
            Self::Odd => (Style::Warning, "!"),
            Self::Failed => (Style::Bad, "✗"),
            Self::Halted => (Style::Warning, "■"),
            Self::Asks => (Style::Warning, "?"),
            Self::Detail => (Style::Dim, "·"),
        };
        Line::new().add(style, symbol)
    }
}

/// An event that is worth a line.
#[derive(Debug)]
pub(crate) struct News {
    pub(crate) level: Level,
    pub(crate) mark: Mark,
    /// The agent that it is about; `None` for the whole run.
    pub(crate) agent: Option<AgentId>,
    pub(crate) text: Line,
    /// The transition, if it can be part of a loop.
    pub(crate) way: Option<Hop>,
    /// The agents that it started, and what they are about.
    pub(crate) workers: Vec<(AgentId, String)>,
}

/// A transition between two states. A loop repeats it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Hop {
    pub(crate) from: String,
    pub(crate) to: String,
    kind: &'static str,
}

impl News {
    fn of(level: Level, mark: Mark, agent: &AgentId, text: Line) -> Self {
        Self { level, mark, agent: Some(agent.clone()), text, way: None, workers: Vec::new() }
    }

    fn of_run(level: Level, mark: Mark, text: Line) -> Self {
        Self { level, mark, agent: None, text, way: None, workers: Vec::new() }
    }
}

/// Another coding agent begins a session than the one that was asked for.
fn stand_in(agent: &AgentId, step: &Step) -> Option<News> {
    let Action::Turn(turn) = &step.action else { return None };
    let StandIn { of, handoff_from } = turn.stand_in.as_ref()?;
    if !matches!(turn.session, SessionPlan::Fresh { .. }) {
        return None;
    }
    let own = turn.settings.agent.as_deref().unwrap_or_default();
    let with = if handoff_from.is_some() { ", with a record of the session so far" } else { "" };
    let text = state(&step.state).plain(format!(" by `{own}` instead of `{of}`{with}"));
    Some(News::of(Level::News, Mark::Odd, agent, text))
}

/// The news of a record, if it is worth a line. `before` is its agent before it, `running` how many steps were running
/// then.
pub(crate) fn of_record(record: &Record, before: Option<&Before>, running: u64) -> Vec<News> {
    match record.agent() {
        Some(agent) => of_agent(agent, record, before),
        None => of_run(record, running).into_iter().collect(),
    }
}

fn of_agent(agent: &AgentId, record: &Record, before: Option<&Before>) -> Vec<News> {
    use Level::{Detail, News as Told};
    let detail = |text: String| vec![News::of(Detail, Mark::Detail, agent, Line::new().dim(text))];
    let told = |mark, text: String| vec![News::of(Told, mark, agent, here(before).plain(text))];
    match record {
        Record::Intended { step, .. } => {
            let text = state(&step.state).dim(format!(" (step {})", step.number));
            let intended = News::of(Detail, Mark::Detail, agent, text);
            std::iter::once(intended).chain(stand_in(agent, step)).collect()
        }
        Record::Queued { .. } => detail(QUEUED.to_owned()),
        Record::Ended { spent, .. } => {
            let by = before.and_then(|before| before.coding_agent.as_deref());
            let denied = spent.denied.iter().map(|what| denied(agent, by, what));
            let estimate = spent.is_estimate.then(|| {
                let text = format!("{} of its cost is an estimate", spent.cost_usd);
                let why = "; it ended before it could report what it spent";
                News::of(Told, Mark::Odd, agent, here(before).plain(text).dim(why))
            });
            denied.chain(estimate).collect()
        }
        Record::Followed { transition, via, workers, discarded_returns, .. } => {
            let followed = followed(before, agent, transition, *via, workers);
            left_behind(followed, agent, transition, before, *discarded_returns)
        }
        Record::Joined { workers, .. } => {
            told(Mark::Done, format!("joined {}", count(workers.len() as u64, "worker")))
        }
        Record::Placed { .. } => detail("has a place among the workers".to_owned()),
        Record::WorktreeMade { worktree, .. } => {
            detail(format!("works on branch {}", worktree.branch))
        }
        Record::WorktreeSaved { saved, .. } => {
            let warning = saved.problem.as_ref().map(|problem| {
                let text = format!(
                    "warning: not all of its work is saved, it stays in its worktree: {problem}"
                );
                News::of(Level::Trouble, Mark::Odd, agent, Line::of(text))
            });
            warning.into_iter().collect()
        }
        Record::Overridden { asked, instead, .. } => vec![overridden(agent, asked, instead)],
        Record::Asked { number, question, .. } => {
            vec![asked(here(before), agent, *number, question)]
        }
        Record::Answered { number, response, .. } => vec![answered(agent, *number, response)],
        Record::Told { message, .. } => vec![told_by(agent, message)],
        Record::Heard { messages, .. } => {
            detail(format!("has read {}", count(messages.len() as u64, "message")))
        }
        Record::Reminded { problem, .. } => told(Mark::Odd, format!("reminded: {problem}")),
        Record::Evaluating { evaluation, .. } => {
            let asked = excerpt(&evaluation.transition.to_string());
            detail(format!("an evaluator judges {asked}"))
        }
        Record::Retried { why, delay_ms, .. } => {
            let starts = before.map_or(0, |before| before.starts);
            told(Mark::Again, format!("{}: {why}", again(*delay_ms, starts + 1)))
        }
        Record::Failed { error, class, .. } => {
            let text = here(before).plain(format!("failed: {}", with_advice(error, *class)));
            vec![News::of(Level::Trouble, Mark::Failed, agent, text)]
        }
        _ => Vec::new(),
    }
}

const QUEUED: &str =
    "waits: the maximum number of turns is running, or they have reserved the rest of the budget";

/// A transition, and warnings about what it leaves behind.
fn left_behind(
    followed: News,
    agent: &AgentId,
    transition: &Transition,
    before: Option<&Before>,
    discarded_returns: usize,
) -> Vec<News> {
    let mut news = vec![followed];
    if discarded_returns > 0 {
        let returns = count(discarded_returns as u64, "pending return");
        let text = Line::of(format!("warning: reset discards {returns}"));
        news.push(News::of(Level::Trouble, Mark::Odd, agent, text));
    }
    let is_end = matches!(transition, Transition::Result { .. });
    if let Some(before) = before.filter(|before| is_end && before.stack_depth == 0) {
        news.extend(before.unheard.iter().map(|message| unheard(agent, message)));
    }
    news
}

/// The news of a record that is about the whole run.
fn of_run(record: &Record, running: u64) -> Option<News> {
    use Level::{News as Told, Trouble};
    let of = |level, mark, text: String| Some(News::of_run(level, mark, Line::of(text)));
    match record {
        // No other step is running: the line about the failure is enough.
        Record::Halted { why: Halt::ScriptFailed { .. } } if running == 0 => None,
        Record::Halted { why } => Some(halted(why, running)),
        Record::Rewound { from, step, .. } => {
            let moment = step
                .as_ref()
                .map_or("was then".to_owned(), |step| format!("was before step {step}"));
            let text = format!("continues run {from} as it {moment}, in branches of its sessions");
            of(Told, Mark::Odd, text)
        }
        Record::LimitsChanged { limits } => {
            of(Told, Mark::Odd, format!("limits changed: {}", of_limits(limits)))
        }
        Record::UsageLimited { resets_at } => {
            let text = "the provider's usage limit is reached: all agents wait";
            of(Trouble, Mark::Halted, format!("{text} {}", wait(*resets_at)))
        }
        Record::AgentStopped { coding_agent, why, resets_at } => {
            let text = format!(
                "the coding agent `{coding_agent}` is not available: {why}; others begin new sessions for it {}",
                wait(*resets_at)
            );
            of(Trouble, Mark::Halted, text)
        }
        Record::UsageLimitLifted => of(Told, Mark::Done, "the usage limit is over".to_owned()),
        Record::Finished { status } => Some(finished(*status)),
        _ => None,
    }
}

fn finished(status: Status) -> News {
    let mark = match status {
        Status::Completed => Mark::Done,
        Status::Failed | Status::Cancelled => Mark::Failed,
        Status::Running | Status::Stopped | Status::Paused => Mark::Halted,
    };
    News::of_run(Level::News, mark, Line::of(format!("run {status}")))
}

/// A question that the user does not see is never answered, so it is shown even with `--quiet`.
fn asked(here: Line, agent: &AgentId, number: u32, question: &Question) -> News {
    let text = here.plain(format!("asks {agent}.{number}: "));
    let text = text.add(Style::Bold, excerpt(&question.text)).with_margin("    ");
    News::of(Level::Trouble, Mark::Asks, agent, text)
}

fn answered(agent: &AgentId, number: u32, response: &Response) -> News {
    let mut text = Line::of(format!("{agent}.{number} answered by {}", response.by));
    text = text.dim(format!(" ({})", response.how)).plain(": ");
    text = text.add(Style::Bold, excerpt(&response.result));
    if !response.comment.is_empty() {
        text = text.dim(format!("  {}", excerpt(&response.comment)));
    }
    News::of(Level::News, Mark::Done, agent, text)
}

fn told_by(agent: &AgentId, message: &Message) -> News {
    let text = Line::of(format!("told by {}: ", message.by));
    let text = text.add(Style::Bold, excerpt(&message.text));
    News::of(Level::News, Mark::Odd, agent, text)
}

/// An agent ended before a turn of it could be given a message.
fn unheard(agent: &AgentId, message: &str) -> News {
    let text = format!("warning: it ended before it could read: {}", excerpt(message));
    News::of(Level::Trouble, Mark::Odd, agent, Line::of(text))
}

fn denied(agent: &AgentId, coding_agent: Option<&str>, what: &str) -> News {
    let place = match coding_agent {
        None | Some("claude") => "in .claude/settings.json, permissions.allow".to_owned(),
        Some(name) => format!("in config.toml: `tools` of `[agents.{name}]`"),
    };
    let text = Line::of(format!("was not allowed: {what}")).dim(format!("; allow it {place}"));
    News::of(Level::Trouble, Mark::Odd, agent, text)
}

fn overridden(agent: &AgentId, asked: &Transition, instead: &Instead) -> News {
    let instead = match instead {
        Instead::Follow(transition) => excerpt(&transition.to_string()),
        Instead::Stop => "the run stops".to_owned(),
    };
    let asked = excerpt(&asked.to_string());
    let text = Line::of(format!("asked for {asked}, instead: {instead}"));
    News::of(Level::News, Mark::Odd, agent, text)
}

/// The name of a state without its extension.
pub(crate) fn state(name: &StateName) -> Line {
    Line::new().add(Style::Bold, name.stem())
}

/// The state that the agent is in, at the beginning of a line.
fn here(before: Option<&Before>) -> Line {
    before.map_or_else(Line::new, |before| state(&before.state).plain("  "))
}

/// The line for a transition: both states and the tag.
fn followed(
    before: Option<&Before>,
    id: &AgentId,
    transition: &Transition,
    via: Via,
    workers: &[AgentId],
) -> News {
    let from = before.map_or_else(String::new, |before| before.state.stem().to_owned());
    let caller = before.and_then(|before| before.return_to.as_ref());
    let (to, details) = match transition {
        Transition::Goto { target, input } => (Some(target), attribute("input", input.as_ref())),
        Transition::Reset { target, cd, input } => {
            let details = attribute("cd", cd.as_ref()).then(attribute("input", input.as_ref()));
            (Some(target), details)
        }
        Transition::Call { target, return_to, cd, input, arguments } => {
            let details = attribute("cd", cd.as_ref()).then(attribute("input", input.as_ref()));
            let details = details.then(attributes(arguments));
            (Some(target), details.then(returns(return_to)))
        }
        Transition::Function { target, return_to, cd, model, input, arguments } => {
            let details = attribute("cd", cd.as_ref()).then(attribute("input", input.as_ref()));
            let details = details.then(attributes(arguments)).then(returns(return_to));
            (Some(target), details.then(attribute("model", model.as_ref())))
        }
        Transition::Join(Join { target, .. }) => {
            (Some(target), Line::new().dim(", when its workers have ended"))
        }
        Transition::Fork { next, workers: forks } => {
            let first = forks.first();
            let details = forked(forks, workers);
            let mut details =
                details.then(attribute("cd", first.and_then(|first| first.cd.as_ref())));
            if next.stem() != from {
                details = details.dim(format!(", goes on at {}", next.stem()));
            }
            (first.map(|first| &first.target), details)
        }
        Transition::Ask(question) => (None, Line::of(format!(": {}", excerpt(&question.text)))),
        Transition::Result { payload } => {
            (caller, Line::of(format!(": {}", excerpt(&payload.to_string()))))
        }
    };
    let kind = transition.kind().name();
    let mut text = Line::new().add(Style::Bold, &from);
    if let Some(to) = to {
        text = text.dim(" → ").add(Style::Bold, to.stem());
    }
    text = text.plain(format!("  {kind}")).then(details);
    let text = match via {
        Via::Tag => text,
        Via::Implicit => text.dim(" (implicit)"),
        Via::Evaluator => text.dim(" (by an evaluator)"),
        Via::Visits => text.dim(" (visited too often)"),
        Via::Answer => text.dim(" (by an answer)"),
    };
    let is_fork = !workers.is_empty();
    let mark = match transition {
        _ if is_fork => Mark::Forked,
        // Done is it when the workers are joined, which is told then.
        Transition::Join(_) => Mark::Detail,
        _ => Mark::Done,
    };
    let way = to.filter(|_| !is_fork).map(|to| Hop { from, to: to.stem().to_owned(), kind });
    let items = transition.workers().iter().map(items::item);
    let workers = workers.iter().cloned().zip(items).collect();
    News { way, workers, ..News::of(Level::News, mark, id, text) }
}

fn returns(to: &StateName) -> Line {
    Line::new().dim(format!(", returns to {}", to.stem()))
}

/// The workers of a fork, and what it gives them.
fn forked(forks: &[Forked], workers: &[AgentId]) -> Line {
    match (workers, forks) {
        ([first, .., last], [first_fork, .., last_fork]) => {
            let name = |name: &AgentId, fork: &Forked| {
                let name = Line::new().add(Style::Name, name.as_str());
                let item = Some(items::item(fork)).filter(|item| !item.is_empty());
                item.map_or(name.clone(), |item| name.dim(format!(" ({item})")))
            };
            let all = Line::of(format!(" {} workers, ", workers.len()));
            all.then(name(first, first_fork)).plain(" to ").then(name(last, last_fork))
        }
        ([only], [fork]) => {
            let only = Line::of(" ").add(Style::Name, only.as_str());
            only.then(attributes(&fork.attributes)).then(attribute("input", fork.input.as_ref()))
        }
        _ => Line::new(),
    }
}

fn attributes(pairs: &BTreeMap<String, String>) -> Line {
    let pairs = pairs.iter().map(|(name, value)| attribute(name, Some(value)));
    pairs.fold(Line::new(), Line::then)
}

fn attribute(name: &str, value: Option<&String>) -> Line {
    value.map_or_else(Line::new, |value| Line::new().dim(format!(" {name}=")).plain(excerpt(value)))
}

fn halted(why: &Halt, running: u64) -> News {
    let text = match why {
        Halt::Interrupted if running > 0 => format!("Interrupted.{}", of_interrupt(running)),
        Halt::Interrupted => "Interrupted.".to_owned(),
        Halt::Cancelled => "Cancelled.".to_owned(),
        why => format!("no new step starts: {}", of_halt(why)),
    };
    let level = match why {
        Halt::Limit(_) | Halt::UsageLimit { .. } | Halt::DiskLow { .. } => Level::Trouble,
        Halt::ScriptFailed { .. } | Halt::Interrupted | Halt::Asks | Halt::Cancelled => Level::News,
    };
    News::of_run(level, Mark::Halted, Line::of(text))
}

/// What an interrupted run waits for, and how to stop waiting.
fn of_interrupt(running: u64) -> String {
    let (steps, them) = (count(running, "running step"), if running == 1 { "it" } else { "them" });
    format!(" Waiting for {steps}; press Ctrl-C again to stop {them} now.")
}

/// The limits that a user can change.
pub(crate) fn of_limits(limits: &Limits) -> String {
    let budget = limits.budget_usd.map_or("none".to_owned(), |budget| budget.to_string());
    let states = limits.max_iterations.map_or("none".to_owned(), |most| most.to_string());
    let retry_for = time::duration(std::time::Duration::from_millis(limits.retry_for_ms));
    format!(
        "budget {budget}, iterations {states}, parallel {}, retries {}, retry for {retry_for}",
        limits.max_parallel, limits.max_retries
    )
}

/// When something is retried, and the number of the attempt. Without a delay that may not happen: a limit may
/// prevent it, or the run may be ending.
pub(crate) fn again(delay_ms: u64, attempt: u32) -> String {
    match delay_ms {
        0 => "has to start again".to_owned(),
        _ => format!("starts again in {} s (try {attempt})", delay_ms.div_ceil(1000)),
    }
}

/// A number of tokens, short: `1.2k`, `3.4M`.
pub(crate) fn of_tokens(count: u64) -> String {
    #[expect(clippy::cast_precision_loss, reason = "three digits are shown")]
    let number = count as f64;
    match count {
        0..1_000 => count.to_string(),
        1_000..1_000_000 => format!("{:.1}k", number / 1e3),
        _ => format!("{:.1}M", number / 1e6),
    }
}

/// A number with its noun: `1 agent`, `2 agents`.
pub(crate) fn count(number: u64, word: &str) -> String {
    format!("{number} {word}{}", if number == 1 { "" } else { "s" })
}

/// Compares names in natural order: `w2` comes before `w10`.
pub(crate) fn natural(a: &str, b: &str) -> std::cmp::Ordering {
    /// A name split into sequences of digits, which count as numbers, and other text.
    fn parts(name: &str) -> Vec<(&str, u128)> {
        let mut parts = Vec::new();
        let mut rest = name;
        while let Some(first) = rest.chars().next() {
            let is_number = first.is_ascii_digit();
            let end = rest.find(|c: char| c.is_ascii_digit() != is_number);
            let (part, tail) = rest.split_at(end.unwrap_or(rest.len()));
            // A number that is too large counts as text.
            let number = part.parse().ok().filter(|_| is_number);
            parts.push(number.map_or((part, 0), |number| ("0", number)));
            rest = tail;
        }
        parts
    }
    parts(a).cmp(&parts(b)).then_with(|| a.cmp(b))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_in_the_order_of_their_numbers() {
        let mut names = ["w10", "w2", "main_w1", "w1", "main", "w1_x", "w01", "w"];
        names.sort_by(|a, b| natural(a, b));
        assert_eq!(names, ["main", "main_w1", "w", "w01", "w1", "w1_x", "w2", "w10"]);
    }

    #[test]
    fn one_is_singular() {
        assert_eq!(
            [count(1, "agent"), count(0, "step"), count(2, "step")],
            ["1 agent", "0 steps", "2 steps"]
        );
    }
}
