//! What must hold before a run starts, so that nothing is paid for in vain.

use raymond_flow::{
    coding_agent::CodingAgents,
    graph::Graph,
    machine::{Limits, Settings},
};

use crate::failure::Failure;

/// Refuses a run whose default coding agent is not there, or whose budget could not be kept.
pub(super) fn check_agents(
    graph: Option<&Graph>,
    agents: &CodingAgents,
    settings: &Settings,
    limits: &Limits,
) -> Result<(), Failure> {
    let default = settings.agent.as_deref();
    agents.get(default).map_err(|error| {
        Failure::usage(error.to_string()).with_hint(
            "choose one with `--agent`, or add it to the settings as [agents.NAME]".to_owned(),
        )
    })?;
    let Some(graph) = graph.filter(|_| limits.budget_usd.is_some()) else { return Ok(()) };
    for name in graph.live() {
        let prompt = graph.state(&name).and_then(|state| state.prompt());
        let Some(frontmatter) = prompt.map(|prompt| &prompt.frontmatter) else { continue };
        let agent = frontmatter.agent.as_ref().map(|agent| agent.value.as_str()).or(default);
        // An unknown name is told when its state is entered: perhaps that never happens.
        if agents.get(agent).is_ok_and(|can| !can.reports_cost) {
            let agent = agent.unwrap_or_default();
            let why = format!(
                "{name} is carried out by `{agent}`, which does not report what its turns cost: the budget could \
                 not be kept"
            );
            let hint = format!(
                "set prices in the settings: [agents.{agent}] prices = {{ input = …, output = … }}, or run without \
                 a budget: --budget 0"
            );
            return Err(Failure::usage(why).with_hint(hint));
        }
    }
    Ok(())
}
