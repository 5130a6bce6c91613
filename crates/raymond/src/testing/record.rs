//! Turns a finished run into a test case.

use std::{
    collections::{BTreeMap, HashMap},
    fmt::Write as _,
};

use raymond_engine::{Loaded, store::journal::JournalEntry};
use raymond_flow::{
    id::StepId,
    machine::{Action, FailureClass, Record, Response, Spent, TIMEOUT, Turn},
    turn::Outcome,
};

use super::answers::TIMEOUT_WORD;

/// The parts of a run that a case describes.
#[derive(Default)]
struct Story {
    input: Option<String>,
    /// For each state its replies, in the order in which they were needed.
    replies: BTreeMap<String, Vec<Option<String>>>,
    paths: BTreeMap<String, Vec<String>>,
    reminders: u64,
    /// For each state the answers to its questions, as YAML.
    answers: BTreeMap<String, Vec<String>>,
}

fn story(entries: &[JournalEntry], outcome: impl Fn(&StepId, &Turn) -> Option<Outcome>) -> Story {
    let mut story = Story::default();
    let (mut turns, mut asking) = (HashMap::new(), HashMap::new());
    for record in entries.iter().flat_map(|entry| &entry.records) {
        match record {
            Record::Started(started) => story.input.clone_from(&started.input),
            Record::Intended { agent, step } => {
                if step.digest.is_some() && step.attempt == 1 {
                    let path = story.paths.entry(agent.to_string()).or_default();
                    path.push(step.state.to_string());
                }
                if let Action::Turn(turn) = &step.action {
                    let id = StepId { agent: agent.clone(), number: step.number };
                    let places = story.replies.entry(step.state.to_string()).or_default();
                    turns.insert(id, (step.state.to_string(), places.len(), turn.clone()));
                    places.push(None);
                }
            }
            Record::Ended { agent, number, spent } => {
                let id = StepId { agent: agent.clone(), number: *number };
                if let Some((state, place, turn)) = turns.remove(&id)
                    && let Some(outcome) = outcome(&id, &turn)
                    && let Some(places) = story.replies.get_mut(&state)
                {
                    places[place] = reply(&outcome, spent);
                }
            }
            Record::Asked { agent, .. } => {
                let state = story.paths.get(agent.as_str()).and_then(|path| path.last());
                asking.insert(agent.clone(), state.cloned().unwrap_or_default());
            }
            Record::Answered { agent, response, .. } => {
                if let Some(state) = asking.remove(agent) {
                    story.answers.entry(state).or_default().push(answer(response));
                }
            }
            Record::Reminded { .. } => story.reminders += 1,
            _ => {}
        }
    }
    story
}

/// The case that describes the run, as YAML. `outcome` returns the outcome of a turn.
pub(crate) fn recorded(
    Loaded { run, entries }: &Loaded,
    outcome: impl Fn(&StepId, &Turn) -> Option<Outcome>,
) -> String {
    let Story { input, replies, paths, reminders, answers } = story(entries, outcome);
    let mut text = format!("# Recorded from run {}.\n", run.id);
    if let Some(input) = input {
        let _ = writeln!(text, "input: {}", quoted(&input));
    }
    let budget = run.limits.budget_usd.map_or(0.0, raymond_flow::money::Usd::dollars);
    let _ = writeln!(text, "budget: {budget}");
    if let Some(most) = run.limits.max_iterations {
        let _ = writeln!(text, "max_iterations: {most}");
    }
    if !run.metadata.is_empty() {
        text.push_str("vars:\n");
        for (name, value) in &run.metadata {
            let _ = writeln!(text, "  {name}: {}", quoted(value));
        }
    }
    if !replies.is_empty() {
        text.push_str("replies:\n");
    }
    for (state, replies) in replies {
        let _ = writeln!(text, "  {state}:");
        for reply in replies.iter().flatten() {
            let _ = writeln!(text, "    - {reply}");
        }
    }
    if !answers.is_empty() {
        text.push_str("answers:\n");
    }
    for (state, answers) in answers {
        let _ = writeln!(text, "  {state}:");
        for answer in answers {
            let _ = writeln!(text, "    - {answer}");
        }
    }
    let _ = writeln!(text, "expect:\n  status: {}", run.status);
    if let Some(result) = &run.result {
        let _ = writeln!(text, "  result: {}", quoted(&result.to_string()));
    }
    let _ = writeln!(text, "  reminders: {reminders}\n  cost: {}", run.total_cost_usd.dollars());
    text.push_str("  path:\n");
    for (agent, path) in paths {
        let _ = writeln!(text, "    {agent}: [{}]", path.join(", "));
    }
    text
}

/// An equivalent reply; `None` for a turn that was lost or killed, and therefore retried.
fn reply(outcome: &Outcome, spent: &Spent) -> Option<String> {
    let cost = spent.cost_usd.dollars();
    match outcome {
        Outcome::Reply { text } => {
            let output =
                spent.output.as_deref().map(|output| format!(", output: {}", quoted(output)));
            let output = output.unwrap_or_default();
            Some(format!("{{ text: {}{output}, cost: {cost} }}", quoted(text)))
        }
        Outcome::Failed(failure) => {
            let class = match failure.class {
                FailureClass::UsageLimit { .. } => "usage_limit",
                FailureClass::Budget => "budget",
                FailureClass::Authentication | FailureClass::Billing => "authentication",
                FailureClass::UnknownModel => "unknown_model",
                FailureClass::SessionMissing => "session_missing",
                FailureClass::PromptTooLong => "prompt_too_long",
                FailureClass::Refused => "refused",
                FailureClass::MaxTurns => "max_turns",
                FailureClass::BadOutput => "bad_output",
                FailureClass::Transient { .. }
                | FailureClass::NotInstalled
                | FailureClass::Misconfigured
                | FailureClass::NotUnderstood
                | FailureClass::AnswerTooLong
                | FailureClass::Killed
                | FailureClass::TimedOut
                | FailureClass::Other => "transient",
            };
            let message = quoted(&failure.message);
            Some(format!("{{ fail: {class}, message: {message}, cost: {cost} }}"))
        }
        Outcome::Asks { questions } => {
            let texts: Vec<_> = questions.iter().map(|question| question.text.as_str()).collect();
            let options = match &questions[..] {
                [only] if !only.takes_several => &only.options[..],
                _ => &[],
            };
            let labels: Vec<_> = options.iter().map(|option| quoted(&option.label)).collect();
            let (asks, options) = (quoted(&texts.join(" ")), labels.join(", "));
            Some(format!("{{ asks: {asks}, options: [{options}], cost: {cost} }}"))
        }
        Outcome::Script { .. }
        | Outcome::Lost
        | Outcome::NotStarted
        | Outcome::Interrupted
        | Outcome::NoRoom => None,
    }
}

/// An answer as a case gives it.
fn answer(response: &Response) -> String {
    if response.how == TIMEOUT {
        return TIMEOUT_WORD.to_owned();
    }
    let answer = quoted(&response.result);
    if response.comment.is_empty() {
        return answer;
    }
    format!("{{ answer: {answer}, comment: {} }}", quoted(&response.comment))
}

/// A text on one line: a JSON string is also a YAML string.
fn quoted(text: &str) -> String {
    serde_json::to_string(text).unwrap_or_default()
}
