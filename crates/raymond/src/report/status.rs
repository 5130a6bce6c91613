//! How a run stands, as a person would rather read it than its JSON.

use std::{fmt, time::Duration};

use raymond_engine::{Loaded, journal::Entry};
use raymond_flow::machine::{Account, Accounts, Agent, Halt, Phase, Record, Run, Session, Status};

use super::{
    time,
    words::{of_halt, of_tokens},
};
use crate::{
    advice::with_advice,
    out::{hanging, one_line},
};

/// The run at length. `status` is its status in a word.
pub(crate) fn describe(Loaded { run, entries }: &Loaded, status: &str) -> String {
    let mut page = Page::default();
    head(&mut page, run, entries, status);
    agents(&mut page, run);
    let records = entries.iter().flat_map(|entry| &entry.records);
    let accounts = Accounts::of(records.clone());
    money(&mut page, &accounts);
    denials(&mut page, records);
    if let Some(advice) = advice(run, status) {
        page.line(format_args!(""));
        page.line(format_args!("{advice}"));
    }
    page.text
}

/// Lines, each of which begins one entry: what an agent said cannot begin another.
#[derive(Default)]
struct Page {
    text: String,
}

impl Page {
    fn line(&mut self, line: fmt::Arguments<'_>) {
        self.text.extend([&hanging(&line.to_string()), "\n"]);
    }
}

fn head(page: &mut Page, run: &Run, entries: &[Entry], status: &str) {
    page.line(format_args!("run       {}", run.id));
    page.line(format_args!("status    {status}"));
    page.line(format_args!("workflow  {}", run.scope_dir));
    page.line(format_args!("started   {}", time::stamp(run.started_at_ms)));
    if let Some(last) = entries.last() {
        let took = Duration::from_millis(last.at_ms.saturating_sub(run.started_at_ms));
        page.line(format_args!(
            "last news {} (after {})",
            time::stamp(last.at_ms),
            time::duration(took)
        ));
    }
    let budget = run.limits.budget_usd.map_or("no limit".to_owned(), |budget| budget.to_string());
    page.line(format_args!("spent     {} of {budget}", run.total_cost_usd));
    let most = run.limits.max_iterations.map_or("no limit".to_owned(), |most| most.to_string());
    page.line(format_args!("states    {} entered of {most}", run.iteration_count));
    if let Some(result) = &run.result {
        page.line(format_args!("result    {}", raymond_flow::text::excerpt(result)));
    }
    if let Some(why) = run.halt.as_ref().filter(|_| run.status != Status::Completed) {
        page.line(format_args!("halted    {}", of_halt(why)));
    }
}

fn agents(page: &mut Page, run: &Run) {
    if run.agents.is_empty() {
        return;
    }
    page.line(format_args!(""));
    page.line(format_args!("agents"));
    for agent in run.agents_by_birth() {
        page.line(format_args!("  {}  {}  {}", agent.id, agent.current_state, about(agent)));
        if let Session::Open(session) = &agent.session {
            page.line(format_args!("      session {session} in {}", agent.cwd));
        }
        for frame in agent.stack.iter().rev() {
            page.line(format_args!("      returns to {}", frame.state));
        }
    }
}

fn about(agent: &Agent) -> String {
    match &agent.phase {
        Phase::Running { step, .. } => format!("step {} runs", step.number),
        Phase::Ready { .. } | Phase::Called { .. } => "about to start".to_owned(),
        Phase::Queued { .. } => "waits for a place".to_owned(),
        Phase::Waiting { .. } => "waits to try again".to_owned(),
        Phase::Held { asked, .. } => format!("held by a limit before {asked}"),
        Phase::Failed { error, class, .. } => format!("failed: {}", with_advice(error, *class)),
    }
}

fn money(page: &mut Page, accounts: &Accounts) {
    if accounts.total.steps == 0 {
        return;
    }
    page.line(format_args!(""));
    page.line(format_args!("where it went"));
    let mut row = |name: &str, account: &Account| {
        let tokens = account.tokens;
        let took = time::duration(Duration::from_millis(account.duration_ms));
        let tokens = format!(
            "{} in, {} out, {} cached",
            of_tokens(tokens.input + tokens.cache_write),
            of_tokens(tokens.output),
            of_tokens(tokens.cache_read)
        );
        let (cost, steps) = (account.cost_usd.to_string(), account.steps);
        let name = one_line(name);
        page.line(format_args!("  {name:<28} {cost:>10}  {steps:>5} steps  {took:>7}  {tokens}"));
    };
    accounts.by_state.iter().for_each(|(state, account)| row(state.as_str(), account));
    accounts.by_model.iter().for_each(|(model, account)| row(model, account));
    if accounts.by_agent.len() > 1 {
        accounts.by_agent.iter().for_each(|(agent, account)| row(agent.as_str(), account));
    }
    row("all", &accounts.total);
}

fn denials<'a>(page: &mut Page, records: impl Iterator<Item = &'a Record>) {
    let mut is_first = true;
    for record in records {
        let Record::Ended { agent, spent, .. } = record else { continue };
        for denied in &spent.denied {
            if std::mem::take(&mut is_first) {
                page.line(format_args!(""));
                page.line(format_args!("not allowed"));
            }
            page.line(format_args!("  {agent}  {denied}"));
        }
    }
}

/// What to do next.
fn advice(run: &Run, status: &str) -> Option<String> {
    let id = &run.id;
    match run.status {
        Status::Running if status == "died" => {
            Some(format!("its program died: `raymond run {id}` goes on, and repeats nothing"))
        }
        Status::Failed => Some(format!("mend what failed, then `raymond run {id}` takes it up")),
        Status::Stopped => match run.halt {
            Some(Halt::Limit(raymond_flow::machine::Limit::Budget { .. })) => {
                Some(format!("`raymond run {id} --budget USD` goes on with more"))
            }
            _ => Some(format!("`raymond run {id} --max-iterations N` goes on with more")),
        },
        Status::Paused => Some(format!("`raymond run {id}` goes on")),
        Status::Running | Status::Completed | Status::Cancelled => None,
    }
}
