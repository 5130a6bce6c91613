//! How a run stands, as a person would rather read it than its JSON.

use std::{fmt::Write as _, time::Duration};

use raymond_engine::{Loaded, journal::Entry};
use raymond_flow::machine::{Account, Accounts, Agent, Halt, Phase, Record, Run, Session, Status};

use super::{
    time,
    words::{of_halt, of_tokens},
};

/// The run at length. `status` is its status in a word.
pub(crate) fn describe(Loaded { run, entries }: &Loaded, status: &str) -> String {
    let mut text = String::new();
    let _ = head(&mut text, run, entries, status);
    let _ = agents(&mut text, run);
    let records = entries.iter().flat_map(|entry| &entry.records);
    let accounts = Accounts::of(records.clone());
    let _ = money(&mut text, &accounts);
    let _ = denials(&mut text, records);
    if let Some(advice) = advice(run, status) {
        let _ = writeln!(text, "\n{advice}");
    }
    text
}

fn head(text: &mut String, run: &Run, entries: &[Entry], status: &str) -> std::fmt::Result {
    writeln!(text, "run       {}", run.id)?;
    writeln!(text, "status    {status}")?;
    writeln!(text, "workflow  {}", run.scope_dir)?;
    writeln!(text, "started   {}", time::stamp(run.started_at_ms))?;
    if let Some(last) = entries.last() {
        let took = Duration::from_millis(last.at_ms.saturating_sub(run.started_at_ms));
        writeln!(text, "last news {} (after {})", time::stamp(last.at_ms), time::duration(took))?;
    }
    let budget = run.limits.budget_usd.map_or("no limit".to_owned(), |budget| budget.to_string());
    writeln!(text, "spent     {} of {budget}", run.total_cost_usd)?;
    let most = run.limits.max_iterations.map_or("no limit".to_owned(), |most| most.to_string());
    writeln!(text, "states    {} entered of {most}", run.iteration_count)?;
    if let Some(result) = &run.result {
        writeln!(text, "result    {}", raymond_flow::text::excerpt(result))?;
    }
    match &run.halt {
        Some(why) if run.status != Status::Completed => {
            writeln!(text, "halted    {}", of_halt(why))
        }
        _ => Ok(()),
    }
}

fn agents(text: &mut String, run: &Run) -> std::fmt::Result {
    if run.agents.is_empty() {
        return Ok(());
    }
    writeln!(text, "\nagents")?;
    for agent in run.agents_by_birth() {
        writeln!(text, "  {}  {}  {}", agent.id, agent.current_state, about(agent))?;
        if let Session::Open(session) = &agent.session {
            writeln!(text, "      session {session} in {}", agent.cwd)?;
        }
        for frame in agent.stack.iter().rev() {
            writeln!(text, "      returns to {}", frame.state)?;
        }
    }
    Ok(())
}

fn about(agent: &Agent) -> String {
    match &agent.phase {
        Phase::Running { step, .. } => format!("step {} runs", step.number),
        Phase::Ready { .. } | Phase::Called { .. } => "about to start".to_owned(),
        Phase::Queued { .. } => "waits for a place".to_owned(),
        Phase::Waiting { .. } => "waits to try again".to_owned(),
        Phase::Held { asked, .. } => format!("held by a limit before {asked}"),
        Phase::Failed { error, .. } => format!("failed: {error}"),
    }
}

fn money(text: &mut String, accounts: &Accounts) -> std::fmt::Result {
    if accounts.total.steps == 0 {
        return Ok(());
    }
    writeln!(text, "\nwhere it went")?;
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
        writeln!(text, "  {name:<28} {cost:>10}  {steps:>5} steps  {took:>7}  {tokens}")
    };
    accounts.by_state.iter().try_for_each(|(state, account)| row(state.as_str(), account))?;
    accounts.by_model.iter().try_for_each(|(model, account)| row(model, account))?;
    if accounts.by_agent.len() > 1 {
        accounts.by_agent.iter().try_for_each(|(agent, account)| row(agent.as_str(), account))?;
    }
    row("all", &accounts.total)
}

fn denials<'a>(text: &mut String, records: impl Iterator<Item = &'a Record>) -> std::fmt::Result {
    let mut is_first = true;
    for record in records {
        let Record::Ended { agent, spent, .. } = record else { continue };
        for denied in &spent.denied {
            if std::mem::take(&mut is_first) {
                writeln!(text, "\nnot allowed")?;
            }
            writeln!(text, "  {agent}  {denied}")?;
        }
    }
    Ok(())
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
