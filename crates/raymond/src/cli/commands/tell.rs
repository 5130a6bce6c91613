//! `raymond tell`: a message to an agent at work.

use std::process::ExitCode;

use raymond_engine::{load, store::lock::RunLock};
use raymond_flow::{
    id::{AgentId, RunId},
    machine::{Agent, Message, Phase, Run},
};

use super::{
    answer::{read_text, user},
    ask::project,
    place::state_dir,
    runs,
};
use crate::{
    cli::args::Tell,
    failure::Failure,
    out,
    report::{Lines, Next, words::Level},
};

/// The longest message. What is longer belongs in a file that the message names.
const TEXT_BYTES_MAX: usize = 32 * 1024;

/// `raymond tell RUN [AGENT] TEXT`
pub(in crate::cli) fn tell(arguments: &Tell) -> Result<ExitCode, Failure> {
    let Tell { run, words, json, place } = arguments;
    let state_dir = state_dir(place)?;
    let id = runs::by_id(&state_dir, run, place)?;
    let next = runs::next(&id, place);
    let (agent, text) = match &words[..] {
        [agent, text] => (Some(agent), text),
        [text] => (None, text),
        _ => return Err(Failure::usage("there is no message".to_owned())),
    };
    let text = if text == "-" { read_text()? } else { text.clone() };
    check(&text)?;
    let before = load(&state_dir, &id)?.run;
    let agent = which(&before, agent, &next)?;
    let message = Message { id: uuid::Uuid::new_v4().to_string(), text, by: user() };
    let mut observer = Lines::new(out::people(), Level::Trouble, None);
    project(place)?.engine(None)?.tell(&id, &agent, &message, &mut observer)?;
    let after = load(&state_dir, &id)?;
    if !after.view.told.contains(&message.id) {
        return Err(ended(&id, &agent, &next));
    }
    let is_alive = RunLock::holder(&state_dir.run(&id).lock).is_some();
    let phase = after.run.agents.get(&agent).map(|agent| &agent.phase);
    out::note(&if !is_alive {
        format!("{agent} reads it when the run goes on: {}", next.command("resume"))
    } else if matches!(phase, Some(Phase::Running { .. })) {
        format!("{agent} reads it at its next tool call, or with its next prompt.")
    } else {
        format!("{agent} reads it with its next prompt.")
    });
    runs::changed(&state_dir, &id, *json)
}

fn check(text: &str) -> Result<(), Failure> {
    if text.trim().is_empty() {
        return Err(Failure::usage("the message is empty".to_owned()));
    }
    if text.len() > TEXT_BYTES_MAX {
        let message = format!(
            "the message has {} bytes, and at most {TEXT_BYTES_MAX} can be told",
            text.len()
        );
        let hint = "put it into a file, and tell the agent to read that".to_owned();
        return Err(Failure::usage(message).with_hint(hint));
    }
    Ok(())
}

/// The agent that is meant: the named one, or the only one.
fn which(run: &Run, named: Option<&String>, next: &Next) -> Result<AgentId, Failure> {
    if !run.status.can_resume() {
        let message = format!("run {} is {}: it has no agents to tell", run.id, run.status);
        let hint = format!("show its result: {}", next.command("status"));
        return Err(Failure::refused(message).with_hint(hint));
    }
    let live: Vec<&Agent> =
        run.agents_by_birth().into_iter().filter(|agent| !agent.phase.is_passed()).collect();
    let all = live.iter().map(|agent| agent.id.as_str()).collect::<Vec<_>>().join(", ");
    let Some(name) = named else {
        let [only] = live[..] else {
            let message = format!("run {} has {} agents", run.id, live.len());
            return Err(Failure::usage(message).with_hint(format!("say which: {all}")));
        };
        return Ok(only.id.clone());
    };
    let found = live.iter().find(|agent| agent.id.as_str() == name);
    found.map(|agent| agent.id.clone()).ok_or_else(|| {
        let message = format!("run {} has no agent `{name}` at work", run.id);
        Failure::not_found(message).with_hint(format!("its agents: {all}"))
    })
}

fn ended(run: &RunId, agent: &AgentId, next: &Next) -> Failure {
    let message = format!("agent `{agent}` of run {run} ended before it could be told");
    Failure::refused(message).with_hint(format!("show its status: {}", next.command("status")))
}
