//! The summary of a run at its end.

use std::{cell::RefCell, collections::BTreeMap, rc::Rc, time::Duration};

use raymond_engine::run::events::{Observer, Seen};
use raymond_flow::{
    machine::{Phase, Run, Status},
    money::Usd,
    view::RunView,
};

use super::{
    asks::open_lines,
    items,
    next::Next,
    time,
    watched::Watched,
    words::{Level, Mark, count, natural},
};
use crate::line::{Line, Style, excerpt};

/// The most agents, failures and denials that are listed. `raymond status` lists all of them.
const LISTED_MAX: usize = 12;

/// The lines for this level. `shows_result` says that the result is not printed where the user sees it.
pub(crate) fn summary_lines(
    run: &Run,
    view: &RunView,
    next: &Next,
    level: Level,
    shows_result: bool,
) -> Vec<Line> {
    if level < Level::News && run.status == Status::Completed {
        return Vec::new();
    }
    let mut lines = vec![head(run, view)];
    if level >= Level::News {
        lines.insert(0, Line::new());
        if let (Some(result), true) = (&run.result, shows_result) {
            lines.push(Line::new().dim("  result  ").plain(excerpt(&result.to_string())));
        }
        costs(&mut lines, view);
        if run.agents_born > 1 {
            failures(&mut lines, run);
        }
        refusals(&mut lines, view);
    }
    open_questions(&mut lines, run, next);
    if let Some(command) = next.answer_shown(run) {
        lines.push(advice("See its answer:", &command));
    }
    if let Some((what, commands)) = next.advice(run, "died") {
        lines.extend(advices(&what, &commands));
    }
    if level >= Level::News && run.status == Status::Completed && !shows_result {
        // The result comes next.
        lines.push(Line::new());
    }
    lines
}

fn head(run: &Run, view: &RunView) -> Line {
    let (mark, style) = match run.status {
        Status::Completed => (Mark::Done, Style::Good),
        Status::Failed | Status::Cancelled => (Mark::Failed, Style::Bad),
        Status::Running | Status::Stopped | Status::Paused => (Mark::Halted, Style::Warning),
    };
    let took = view.last_at.unwrap_or_default().saturating_sub(view.opened_at);
    let when = if run.status == Status::Completed { "in" } else { "after" };
    let line = mark.line().plain(" run ").add(Style::Bold, run.id.as_str()).plain(" ");
    let line = line.add(style, run.status.to_string());
    let mut line = line.plain(format!(" {when} {}", time::elapsed(took)));
    line = line.dim(format!(" · {}", count(view.accounts.total.steps, "step")));
    if run.agents_born > 1 {
        line = line.dim(format!(" · {}", count(run.agents_born, "agent")));
    }
    if run.total_cost_usd > Usd::ZERO {
        let budget = run.limits.budget_usd.map(|budget| format!(" of {budget}"));
        line = line.dim(format!(" · {}{}", run.total_cost_usd, budget.unwrap_or_default()));
    }
    line
}

/// The cost of each agent, if there were several.
fn costs(lines: &mut Vec<Line>, view: &RunView) {
    let mut agents: Vec<_> = view.accounts.by_agent.iter().collect();
    if agents.len() < 2 || view.accounts.total.cost_usd == Usd::ZERO {
        return;
    }
    agents.sort_by(|(a, _), (b, _)| natural(a.as_str(), b.as_str()));
    let hidden = agents.len().saturating_sub(LISTED_MAX);
    agents.truncate(LISTED_MAX);
    let width = |text: &str| console::measure_text_width(text);
    let names = agents.iter().map(|(agent, _)| width(agent.as_str())).max().unwrap_or_default();
    let items: Vec<_> = agents.iter().map(|(agent, _)| items::of(view, agent)).collect();
    let widest = items.iter().map(|item| width(item)).max();
    let widest = widest.filter(|&width| width > 0).map_or(0, |width| width + 2);
    for ((agent, account), item) in agents.into_iter().zip(items) {
        let took = time::duration(Duration::from_millis(account.duration_ms));
        let (cost, steps) = (account.cost_usd.to_string(), count(account.steps, "step"));
        let line = Line::of("  ").add(Style::Name, agent.as_str()).pad(4 + names);
        let line = line.dim(item).pad(4 + names + widest);
        lines.push(line.plain(format!("{cost:>8}")).dim(format!("  {steps:>9}  {took:>6}")));
    }
    more(lines, hidden, "more agent");
}

fn refusals(lines: &mut Vec<Line>, view: &RunView) {
    let mut denied: BTreeMap<_, u64> = BTreeMap::new();
    for denial in &view.denials {
        *denied.entry(denial).or_default() += 1;
    }
    for ((agent, what), times) in denied.iter().take(LISTED_MAX) {
        let line = Line::of("  ").then(Mark::Odd.line()).plain(" ");
        let line = line.add(Style::Name, agent.as_str());
        let line = line.plain(format!("  was not allowed: {}", excerpt(what)));
        lines.push(if *times > 1 { line.dim(format!(" ({times} times)")) } else { line });
    }
    more(lines, denied.len().saturating_sub(LISTED_MAX), "more refusal");
}

/// The questions that are open, with the commands that answer them, if there are several.
fn open_questions(lines: &mut Vec<Line>, run: &Run, next: &Next) {
    let open: Vec<_> = run.questions().collect();
    for (id, agent, question) in open.iter().take(LISTED_MAX) {
        let line =
            Line::of("  ").then(Mark::Asks.line()).plain(" ").add(Style::Name, id.to_string());
        let line = line.plain("  ").then(super::words::state(&agent.current_state));
        lines.push(line);
        lines.extend(open_lines(question, true));
        if open.len() > 1 {
            let labels = question.choices.iter().map(|choice| choice.label.as_str());
            let commands = next.answers(&id.to_string(), labels).into_iter();
            lines.extend(commands.map(|command| Line::of("    ").add(Style::Name, command)));
        }
    }
    more(lines, open.len().saturating_sub(LISTED_MAX), "more open question");
}

/// The agents that failed.
fn failures(lines: &mut Vec<Line>, run: &Run) {
    let mut failed: Vec<_> = run
        .agents_by_birth()
        .into_iter()
        .filter_map(|agent| match &agent.phase {
            Phase::Failed { error, .. } => Some((agent, error)),
            _ => None,
        })
        .collect();
    let hidden = failed.len().saturating_sub(LISTED_MAX);
    failed.truncate(LISTED_MAX);
    for (agent, error) in failed {
        let line = Line::of("  ").then(Mark::Failed.line()).plain(" ");
        let line = line.add(Style::Name, agent.id.as_str()).plain("  ");
        lines.push(
            line.then(super::words::state(&agent.current_state))
                .plain(format!("  {}", excerpt(error))),
        );
    }
    more(lines, hidden, "more failed agent");
}

fn more(lines: &mut Vec<Line>, hidden: usize, what: &str) {
    if hidden > 0 {
        lines.push(Line::new().dim(format!("  … and {}", count(hidden as u64, what))));
    }
}

/// What the user can do, and the commands to choose from.
pub(crate) fn advices(what: &str, commands: &[String]) -> Vec<Line> {
    let or = format!("{:>width$}", "or:", width = what.chars().count());
    let label = |index: usize| if index == 0 { what } else { &or };
    commands.iter().enumerate().map(|(index, command)| advice(label(index), command)).collect()
}

/// What the user can do, and the command for it.
pub(crate) fn advice(what: &str, command: &str) -> Line {
    Line::of(format!("  {what} ")).add(Style::Name, command)
}

/// Knows a run whose journal is not read, from its events.
#[derive(Clone, Debug, Default)]
pub(crate) struct Gatherer(pub(crate) Rc<RefCell<Option<Watched>>>);

impl Observer for Gatherer {
    fn see(&mut self, seen: &Seen) {
        Watched::see(&mut self.0.borrow_mut(), seen);
    }
}
