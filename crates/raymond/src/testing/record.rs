//! Turns a finished run into a test case.

use std::{
    collections::{BTreeMap, HashMap},
    fmt::Write as _,
};

use raymond_engine::{Loaded, store::journal::JournalEntry};
use raymond_flow::{
    id::StepId,
    machine::{Action, FailureClass, Response, Spent, TIMEOUT, Turn},
    turn::Outcome,
    view::Story,
};

use super::answers::TIMEOUT_WORD;

/// For each state the replies of its turns, in the order in which they were needed.
type Replies = BTreeMap<String, Vec<Option<String>>>;

fn replies(
    entries: &[JournalEntry],
    outcome: impl Fn(&StepId, &Turn) -> Option<Outcome>,
) -> Replies {
    let (mut replies, mut turns) = (Replies::default(), HashMap::new());
    for record in entries.iter().flat_map(|entry| &entry.records) {
        if let Some((agent, step)) = record.intent()
            && let Action::Turn(turn) = &step.action
        {
            let id = StepId { agent: agent.clone(), number: step.number };
            let places = replies.entry(step.state.to_string()).or_default();
            turns.insert(id, (step.state.to_string(), places.len(), turn));
            places.push(None);
        } else if let Some((id, spent)) = record.ended()
            && let Some((state, place, turn)) = turns.remove(&id)
            && let Some(outcome) = outcome(&id, turn)
            && let Some(places) = replies.get_mut(&state)
        {
            places[place] = reply(&outcome, spent);
        }
    }
    replies
}

/// The case that describes the run, as YAML. `outcome` returns the outcome of a turn.
pub(crate) fn recorded(
    Loaded { run, view }: &Loaded,
    entries: &[JournalEntry],
    outcome: impl Fn(&StepId, &Turn) -> Option<Outcome>,
) -> String {
    let mut story = Story::default();
    entries.iter().flat_map(|entry| &entry.records).for_each(|record| story.add(record));
    let Story { paths, reminders, answers, .. } = story;
    let replies = replies(entries, outcome);
    let input = view.started.as_ref().and_then(|started| started.input.as_ref());
    let mut text = format!("# Recorded from run {}.\n", run.id);
    if let Some(input) = input {
        let _ = writeln!(text, "input: {}", quoted(input));
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
        for response in answers {
            let _ = writeln!(text, "    - {}", answer(&response));
        }
    }
    let _ = writeln!(text, "expect:\n  status: {}", run.status);
    if let Some(result) = &run.result {
        let _ = writeln!(text, "  result: {}", quoted(&result.to_string()));
    }
    let _ = writeln!(
        text,
        "  reminders: {}\n  cost: {}",
        reminders.len(),
        run.total_cost_usd.dollars()
    );
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
