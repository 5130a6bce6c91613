//! Checks before a run starts, so that no turn is paid for in a run that must fail.

use std::{collections::BTreeSet, path::Path};

use raymond_flow::{
    coding_agent::CodingAgents,
    graph::Graph,
    lint::Known,
    machine::{Limits, Settings},
};

use super::lint::OpenedWorkflow;
use crate::{failure::Failure, out, quote, report::warning};

/// The input of a run that is started without one: none, unless the first state of `workflow` needs it. Then
/// a user at a terminal is asked for it; without an answer the run is refused.
pub(super) fn missing_input(
    workflow: &Path,
    graph: Option<&Graph>,
    variables: &[(String, String)],
) -> Result<Option<String>, Failure> {
    let has_variable = variables.iter().any(|(name, _)| name == "input");
    let Some(entry) = graph.and_then(Graph::needs_input).filter(|_| !has_variable) else {
        return Ok(None);
    };
    if out::can_ask() {
        let question = format!("{entry} uses {{{{input}}}}. The input, on one line: ");
        if let Some(answer) = out::ask(&question).filter(|answer| !answer.is_empty()) {
            return Ok(Some(answer));
        }
    }
    let message =
        format!("{entry} uses {{{{input}}}}, and no input was given: nothing was started");
    let hint = format!(
        "give it one: raymond {0} --input 'TEXT'\n\
         or from standard input: raymond {0} --input -\n\
         or let {entry} do without: `input: optional` in its frontmatter",
        quote::path(workflow)
    );
    Err(Failure::usage(message).with_hint(hint))
}

/// Rejects a workflow with lint errors.
pub(super) fn check_lint(
    workflow: &Path,
    opened: &OpenedWorkflow,
    known: &Known,
) -> Result<(), Failure> {
    let Some((number, text)) = opened.errors(known, |_| true) else { return Ok(()) };
    out::note(&text);
    let (errors, them) = if number == 1 { ("an error", "it") } else { ("errors", "them") };
    let message = format!("{} has {errors}, so it was not started", workflow.display());
    let hint = format!(
        "fix {them}, and check again: raymond lint {}\nor start it as it is: --no-lint",
        quote::path(workflow)
    );
    Err(Failure::refused(message).with_hint(hint))
}

/// Warns of coding agents that cannot limit what a turn costs, if the run has a budget.
pub(super) fn warn_of_unlimited(
    graph: Option<&Graph>,
    agents: &CodingAgents,
    settings: &Settings,
    limits: &Limits,
) {
    let Some(graph) = graph.filter(|_| limits.budget_usd.is_some()) else { return };
    let prompts = graph.live().into_iter().filter_map(|name| graph.state(&name)?.prompt());
    let names: BTreeSet<&str> = prompts
        .filter_map(|prompt| {
            let own = prompt.frontmatter.agent.as_ref().map(|agent| agent.value.as_str());
            own.or(settings.agent.as_deref())
        })
        .filter(|name| agents.get(Some(name)).is_ok_and(|can| !can.can_limit))
        .collect();
    for name in names {
        let text = format!(
            "`{name}` cannot limit what a turn costs: turns in flight may exceed the budget"
        );
        out::people().line(&warning(&text));
    }
}

/// Rejects a run whose default coding agent is not configured, or whose budget could not be enforced.
pub(super) fn check_agents(
    graph: Option<&Graph>,
    agents: &CodingAgents,
    settings: &Settings,
    limits: &Limits,
) -> Result<(), Failure> {
    let default = settings.agent.as_deref();
    agents.get(default).map_err(|error| {
        Failure::usage(error.to_string())
            .with_hint("choose one with `--agent`, or add it to the settings as [agents.NAME]")
    })?;
    let order = &settings.failover.order;
    if let Some(Err(error)) = order.iter().map(|agent| agents.get(Some(agent))).find(Result::is_err)
    {
        let hint = "choose among them, or add it to the settings as [agents.NAME]";
        return Err(Failure::usage(format!("`failover.order`: {error}")).with_hint(hint));
    }
    if limits.budget_usd.is_none() {
        return Ok(());
    }
    for agent in order {
        if agents.get(Some(agent)).is_ok_and(|can| !can.reports_cost) {
            return Err(unknown_cost("`failover.order` names", agent));
        }
    }
    let Some(graph) = graph else { return Ok(()) };
    for name in graph.live() {
        let prompt = graph.state(&name).and_then(|state| state.prompt());
        let Some(frontmatter) = prompt.map(|prompt| &prompt.frontmatter) else { continue };
        let agent = frontmatter.agent.as_ref().map(|agent| agent.value.as_str()).or(default);
        // An unknown name is reported when its state is entered, which may never happen.
        if agents.get(agent).is_ok_and(|can| !can.reports_cost) {
            let agent = agent.unwrap_or_default();
            return Err(unknown_cost(&format!("{name} is carried out by"), agent));
        }
    }
    Ok(())
}

/// A coding agent whose turns have no known cost is used in a run with a budget.
fn unknown_cost(who_uses: &str, agent: &str) -> Failure {
    let why = format!(
        "{who_uses} `{agent}`, which does not report what its turns cost: the budget could not be enforced"
    );
    let hint = format!(
        "set prices in the settings: [agents.{agent}] prices = {{ input = …, output = … }}, or run without a \
         budget: --budget 0"
    );
    Failure::usage(why).with_hint(hint)
}
