//! The entries of `transitions.log`.
//!
//! Every step that cost something has an entry with its cost, even if it failed, so that the costs
//! add up to the total.

use raymond_flow::{
    id::{AgentId, SessionId},
    machine::{Halt, Instead, Overrider, Record, Run, Session},
    money::Usd,
    policy::Transition,
    text::{beginning, excerpt},
};

use super::{LastStep, log_time};
use crate::{
    observe::views::{of_halt, wait},
    run::events::Before,
};

/// The limit for text from answers and errors: enough for an error with its causes.
const VALUE_CHARS_MAX: usize = 2_000;

/// Builds an entry: a headline, then `name: value` lines.
struct LogEntry {
    text: String,
}

impl LogEntry {
    fn new(who: &str, what: &str) -> Self {
        Self { text: format!("{} [{who}] {what}\n", log_time()) }
    }

    fn line(&mut self, name: &str, value: &str) {
        self.text.extend(["  ", name, ": ", &beginning(value, VALUE_CHARS_MAX), "\n"]);
    }

    fn finish(mut self) -> String {
        self.text.push('\n');
        self.text
    }
}

/// The entry for the outcome of an agent's step. `last` returns what is known about that step.
pub(super) fn of_agent(
    record: &Record,
    before: &Before,
    total_cost_usd: Usd,
    last: impl FnOnce(&AgentId) -> LastStep,
) -> Option<String> {
    let mut answered = None;
    match record {
        Record::Followed { session, .. }
        | Record::Overridden { session, .. }
        | Record::Asked { session, .. } => {
            answered = session.as_ref();
        }
        Record::Reminded { .. }
        | Record::Answered { .. }
        | Record::Evaluating { .. }
        | Record::Retried { .. }
        | Record::Failed { .. } => {}
        _ => return None,
    }
    let state = &before.state;
    let arrow = match record {
        Record::Followed { transition, .. } => destination(before, transition),
        Record::Overridden { asked, .. } => destination(before, asked),
        Record::Asked { number, .. } => format!("(ask {}.{number})", before.agent),
        Record::Answered { number, .. } => format!("(answer to {}.{number})", before.agent),
        Record::Reminded { .. } => format!("{state} (reminder)"),
        Record::Evaluating { .. } => "(evaluator)".to_owned(),
        Record::Retried { .. } => format!("{state} (retry)"),
        _ => "(failed)".to_owned(),
    };
    let mut entry = LogEntry::new(before.agent.as_str(), &format!("{state} -> {arrow}"));
    if let Some(session) = shown_session(before, answered) {
        entry.line("session_id", &session);
    }
    add_step(&mut entry, &last(&before.agent));
    entry.line("total_cost", &total_cost_usd.to_string());
    entry.line("stack_depth", &before.stack_depth.to_string());
    add_reason(&mut entry, record);
    Some(entry.finish())
}

fn add_step(entry: &mut LogEntry, last: &LastStep) {
    if let Some(ended) = &last.ended {
        entry.line("step", &ended.name);
        if ended.is_script {
            let code = ended.exit_code.map_or("none".to_owned(), |code| code.to_string());
            entry.line("exit_code", &code);
        }
        let (seconds, rest) = (ended.duration_ms / 1000, ended.duration_ms % 1000);
        entry.line("duration", &format!("{seconds}.{rest:03} s"));
    }
    for (name, value) in &last.environment {
        entry.line("env", &format!("{name}={}", excerpt(value)));
    }
    if let Some(cost) = last.cost_usd {
        entry.line("cost", &cost.to_string());
    }
}

fn add_reason(entry: &mut LogEntry, record: &Record) {
    match record {
        Record::Followed { transition: Transition::Result { payload }, .. }
        | Record::Overridden { asked: Transition::Result { payload }, .. } => {
            entry.line("result", &format!("\"{}\"", excerpt(&payload.to_string())));
        }
        Record::Asked { question, .. } => entry.line("question", &question.text),
        Record::Answered { response, .. } => {
            entry.line("answer", &response.result);
            entry.line("by", &format!("{} ({})", response.by, response.how));
            if !response.comment.is_empty() {
                entry.line("comment", &response.comment);
            }
        }
        Record::Reminded { problem, .. } => entry.line("problem", problem),
        Record::Evaluating { evaluation, .. } => {
            entry.line("transition", &evaluation.transition.to_string());
        }
        Record::Retried { why, .. } => entry.line("why", why),
        Record::Failed { error, .. } => entry.line("error", error),
        _ => {}
    }
    if let Record::Overridden { by, instead, .. } = record {
        let by = match by {
            Overrider::Limit(limit) => of_halt(&Halt::Limit(*limit)),
            Overrider::Match { pattern } => format!("the answer matches `{pattern}`"),
            Overrider::Prompt { prompt } => format!("the evaluator {prompt} says so"),
            Overrider::Visits { max_visits } => {
                format!("the state was entered {max_visits} times before")
            }
        };
        let instead = match instead {
            Instead::Stop => "the run stops".to_owned(),
            Instead::Follow(transition) => transition.to_string(),
        };
        entry.line("override", &format!("{instead}: {by}"));
    }
}

/// The entry for a record that concerns the whole run.
pub(super) fn of_run(record: &Record, total_cost_usd: Usd) -> Option<String> {
    let mut entry;
    match record {
        Record::Halted { why } => {
            entry = LogEntry::new("run", "(halted)");
            entry.line("why", &of_halt(why));
        }
        Record::UsageLimited { resets_at } => {
            entry = LogEntry::new("run", "(usage limit)");
            entry.line("wait", &wait(*resets_at));
        }
        Record::AgentStopped { coding_agent, why, .. } => {
            entry = LogEntry::new("run", "(coding agent not available)");
            entry.line("coding_agent", coding_agent);
            entry.line("why", why);
        }
        Record::UsageLimitLifted => entry = LogEntry::new("run", "(usage limit lifted)"),
        Record::Finished { status } => {
            entry = LogEntry::new("run", "(finished)");
            entry.line("status", &status.to_string());
            entry.line("total_cost", &total_cost_usd.to_string());
        }
        _ => return None,
    }
    Some(entry.finish())
}

/// The first entry of a resumed run, with its total so far: earlier costs are not in this log.
pub(super) fn of_opened(run: &Run) -> String {
    let mut entry = LogEntry::new("run", "(resumed)");
    entry.line("total_cost", &run.total_cost_usd.to_string());
    entry.finish()
}

/// The target of a transition, as shown in the log.
fn destination(before: &Before, transition: &Transition) -> String {
    let kind = transition.kind();
    match transition {
        Transition::Goto { target, .. }
        | Transition::Reset { target, .. }
        | Transition::Call { target, .. }
        | Transition::Function { target, .. } => format!("{target} ({kind})"),
        Transition::Join(join) => format!("{} (join)", join.target),
        Transition::Fork { next, workers } => match &workers[..] {
            [] => format!("{next} (fork)"),
            [only] => format!("{next} (fork, worker at {})", only.target),
            [first, ..] => {
                format!("{next} (fork, {} workers, the first at {})", workers.len(), first.target)
            }
        },
        Transition::Ask(_) => "(ask)".to_owned(),
        Transition::Result { .. } => match &before.return_to {
            Some(state) => format!("{state} (result)"),
            None => "(result, terminated)".to_owned(),
        },
    }
}

/// The session of the answer, or the agent's unchanged session if the step was a script.
fn shown_session(before: &Before, session: Option<&SessionId>) -> Option<String> {
    match (session, &before.session) {
        (Some(session), Session::Open(own)) if session == own => {
            Some(format!("{session} (resumed)"))
        }
        (Some(session), _) | (None, Session::Open(session) | Session::Branch { from: session }) => {
            Some(session.to_string())
        }
        (None, Session::Fresh) => None,
    }
}
