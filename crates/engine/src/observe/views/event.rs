//! Events as JSON, for `--json` and for the server. `docs/events.md` describes them; they follow neither the
//! journal nor the types of the machine, so that either can change without breaking a reader.

use raymond_flow::{
    id::{AskId, StateName},
    machine::{
        Action, CountsAs, Halt, Instead, Limit, Limits, Overrider, Record, Response, Run, Settings,
        StandIn, Started, Step, Via,
    },
    payload::{Payload, Piece},
    policy::{Join, Question, Transition},
};
use serde_json::{Value, json};

use crate::{
    agent::Activity,
    run::events::{Before, Event, Seen, StepEnd},
    sys::clock,
};

/// The JSON object of an event.
pub fn of_seen(seen: &Seen) -> Value {
    let mut value = of_event(&seen.event);
    value["at"] = json!(seen.at_ms);
    value
}

/// The last line: the run when the program exits.
pub fn closed(run: &Run) -> Value {
    let value = json!({
        "event": "closed", "at": clock::now_ms(), "run": run.id, "status": run.status.to_string(),
        "total_cost_usd": run.total_cost_usd,
    });
    merged(value, of_result(run.result.as_ref()))
}

fn of_event(event: &Event) -> Value {
    match event {
        Event::Opened { id, is_new, .. } => {
            json!({ "event": "opened", "run": id, "is_new": is_new })
        }
        Event::StepStarted { id, step, folder, is_found, .. } => json!({
            "event": "step_started", "agent": id.agent, "number": id.number, "state": step.state,
            "folder": folder, "is_found": is_found,
        }),
        Event::Activity { id, activity } => {
            let mut value = json!({ "event": "activity", "agent": id.agent, "number": id.number });
            match activity {
                Activity::Says(words) => value["says"] = json!(words),
                Activity::Uses { tool, what } => {
                    value["tool"] = json!(tool);
                    value["on"] = json!(what);
                }
                Activity::Waits(why) => value["waits"] = json!(why),
            }
            value
        }
        Event::StepEnded { id, step, end, duration_ms, .. } => json!({
            "event": "step_ended", "agent": id.agent, "number": id.number, "state": step.state,
            "end": match end {
                StepEnd::Code(_) => "exited",
                StepEnd::NoCode => "ended",
                StepEnd::Answered => "answered",
                StepEnd::NotStarted => "not_started",
                StepEnd::Lost => "lost",
            },
            "exit_code": end.code(), "duration_ms": duration_ms,
        }),
        Event::Asked { question, is_new } => {
            let mut value = json!({ "event": "ask_published", "is_new": is_new });
            value["ask"] = json!(question);
            value
        }
        Event::WaitsForPeople => json!({ "event": "waits_for_people" }),
        Event::Recorded { record, before, .. } => of_record(record, before.as_deref()),
        Event::JournalTrimmed(trimmed) => json!({
            "event": "journal_trimmed", "offset": trimmed.offset, "bytes": trimmed.bytes,
            "kept": trimmed.kept,
        }),
        Event::UnknownVariables { agent, state, names } => json!({
            "event": "unknown_variables", "agent": agent, "state": state, "names": names,
        }),
        Event::StateFileWarning(warning) => {
            json!({ "event": "warning", "text": warning.to_string() })
        }
        Event::Trouble(text) => json!({ "event": "warning", "text": text }),
    }
}

/// The JSON object of a record. `before` is the agent that it is about, before the record.
fn of_record(record: &Record, before: Option<&Before>) -> Value {
    let Some(agent) = record.agent() else { return of_run(record) };
    let mut event = of_agent(record, before.map(|before| &before.state));
    event["agent"] = json!(agent);
    event
}

/// A record about an agent, without its name. `state` is the state that the agent was in.
fn of_agent(record: &Record, state: Option<&StateName>) -> Value {
    match record {
        Record::Intended { step, .. } => of_intended(step),
        Record::Queued { .. } => json!({ "event": "queued" }),
        Record::Called { .. } => json!({ "event": "dequeued" }),
        Record::Ended { number, spent, .. } => json!({
            "event": "step_paid", "number": number, "cost_usd": spent.cost_usd,
            "estimated": spent.is_estimate, "tokens": spent.tokens, "model": spent.model, "version": spent.version,
            "duration_ms": spent.duration_ms, "denied": spent.denied,
        }),
        Record::Joined { workers, .. } => {
            let workers: Vec<_> = workers.iter().map(|worker| &worker.agent).collect();
            json!({ "event": "joined", "workers": workers })
        }
        Record::Placed { .. } => json!({ "event": "placed" }),
        Record::WorktreeMade { worktree, cwd, .. } => json!({
            "event": "worktree_made", "path": worktree.path, "branch": worktree.branch,
            "base": worktree.base, "cwd": cwd,
        }),
        Record::WorktreeSaved { saved, .. } => {
            json!({ "event": "worktree_saved", "head": saved.head, "problem": saved.problem })
        }
        Record::Followed { transition, via, workers, discarded_returns, .. } => {
            let mut event = merged(
                of_transition(transition),
                json!({
                    "event": "transition", "from": state, "via": of_via(*via), "worker": workers.first(),
                    "discarded_returns": discarded_returns,
                }),
            );
            if let [_, more @ ..] = &workers[..]
                && !more.is_empty()
            {
                event["more_workers"] = json!(more);
            }
            event
        }
        Record::Overridden { asked, by, instead, .. } => json!({
            "event": "overridden", "asked": of_transition(asked), "by": of_overrider(by),
            "instead": match instead {
                Instead::Follow(transition) => of_transition(transition),
                Instead::Stop => json!("stop"),
            },
        }),
        Record::Asked { agent, number, question, .. } => {
            let ask = format!("{agent}.{number}");
            let event = json!({ "event": "asked", "number": number, "ask": ask, "state": state });
            merged(event, of_question(question))
        }
        Record::Answered { agent, number, response } => {
            of_answered(&AskId { agent: agent.clone(), number: *number }, response)
        }
        Record::Told { message, .. } => json!({
            "event": "told", "message": message.id, "text": message.text, "by": message.by,
        }),
        Record::Heard { messages, .. } => json!({ "event": "heard", "messages": messages }),
        Record::Reminded { problem, .. } => json!({ "event": "reminded", "problem": problem }),
        Record::Evaluating { evaluation, .. } => {
            json!({ "event": "evaluating", "transition": of_transition(&evaluation.transition) })
        }
        Record::Retried { why, counts_as, delay_ms, .. } => json!({
            "event": "retried", "why": why, "delay_ms": delay_ms,
            "counts_as": of_counter(*counts_as),
        }),
        Record::Woke { .. } => json!({ "event": "woke" }),
        Record::Failed { error, .. } => json!({ "event": "failed", "error": error }),
        _ => Value::Null,
    }
}

/// A record about the whole run.
fn of_run(record: &Record) -> Value {
    match record {
        Record::Started(started) => of_started(started),
        Record::Halted { why } => merged(json!({ "event": "halted" }), of_halt(why)),
        Record::UsageLimited { resets_at } => {
            json!({ "event": "usage_limited", "resets_at": resets_at })
        }
        Record::AgentStopped { coding_agent, why, resets_at } => json!({
            "event": "agent_stopped", "coding_agent": coding_agent, "why": why,
            "resets_at": resets_at,
        }),
        Record::UsageLimitLifted => json!({ "event": "usage_limit_lifted" }),
        Record::Finished { status } => {
            json!({ "event": "finished", "status": status.to_string() })
        }
        Record::Rewound { from, step, .. } => {
            json!({ "event": "rewound", "from": from, "step": step })
        }
        Record::LimitsChanged { limits } => {
            json!({ "event": "limits_changed", "limits": of_limits(limits) })
        }
        Record::Resumed { settings, limits } => json!({
            "event": "resumed", "settings": of_settings(settings), "limits": of_limits(limits),
        }),
        _ => Value::Null,
    }
}

fn of_answered(ask: &AskId, response: &Response) -> Value {
    let attachments = response
        .attachments
        .iter()
        .map(|shown| json!({ "path": shown.path, "bytes": shown.bytes, "sha256": shown.sha256 }));
    json!({
        "event": "answered", "number": ask.number, "ask": ask.to_string(),
        "result": response.result, "comment": response.comment, "files": response.files,
        "by": response.by, "how": response.how, "answered_at": response.at_ms,
        "attachments": attachments.collect::<Vec<_>>(),
    })
}

fn of_via(via: Via) -> &'static str {
    match via {
        Via::Tag => "tag",
        Via::Implicit => "implicit",
        Via::Evaluator => "evaluator",
        Via::Visits => "max_visits",
        Via::Answer => "answer",
    }
}

fn of_counter(counts_as: CountsAs) -> &'static str {
    match counts_as {
        CountsAs::Retry => "retry",
        CountsAs::Loss => "loss",
        CountsAs::Nothing => "nothing",
    }
}

/// An object with the fields of both.
fn merged(mut event: Value, more: Value) -> Value {
    if let (Value::Object(event), Value::Object(more)) = (&mut event, more) {
        event.extend(more);
    }
    event
}

fn of_started(started: &Started) -> Value {
    json!({
        "event": "started", "run": started.workflow_id, "workflow": started.scope_dir,
        "entry": started.entry, "cwd": started.cwd, "input": started.input,
        "metadata": started.metadata, "settings": of_settings(&started.settings),
        "limits": of_limits(&started.limits),
    })
}

fn of_intended(step: &Step) -> Value {
    let mut event = json!({
        "event": "step_intended", "number": step.number, "state": step.state,
        "attempt": step.attempt,
    });
    if let Action::Turn(turn) = &step.action {
        event["coding_agent"] = json!(turn.settings.agent);
        if let Some(StandIn { of, handoff_from }) = &turn.stand_in {
            event["stands_in_for"] = json!(of);
            event["is_handoff"] = json!(handoff_from.is_some());
        }
    }
    event
}

pub(super) fn of_settings(settings: &Settings) -> Value {
    let Settings { model, effort, timeout, agent, skip_permissions, failover, .. } = settings;
    json!({
        "model": model, "effort": effort, "timeout_seconds": timeout, "agent": agent,
        "skip_permissions": skip_permissions,
        "failover": { "order": failover.order, "handoff": failover.handoff },
    })
}

pub(super) fn of_limits(limits: &Limits) -> Value {
    json!({
        "budget_usd": limits.budget_usd, "max_iterations": limits.max_iterations,
        "max_parallel": limits.max_parallel,
    })
}

fn of_transition(transition: &Transition) -> Value {
    let mut value = match transition {
        Transition::Goto { target, input } => json!({ "to": target, "input": input }),
        Transition::Reset { target, cd, input } => {
            json!({ "to": target, "cd": cd, "input": input })
        }
        Transition::Call { target, return_to, cd, input, arguments } => json!({
            "to": target, "return": return_to, "cd": cd, "input": input, "arguments": arguments,
        }),
        Transition::Function { target, return_to, cd, model, input, arguments } => json!({
            "to": target, "return": return_to, "cd": cd, "model": model, "input": input,
            "arguments": arguments,
        }),
        Transition::Fork { next, workers } => {
            let mut workers = workers.iter().map(|worker| {
                json!({
                    "to": worker.target, "cd": worker.cd, "attributes": worker.attributes,
                    "limit": worker.limit, "worktree": worker.worktree.as_ref().map(|plan| plan.word()),
                    "input": worker.input,
                })
            });
            let first = workers.next().unwrap_or_default();
            merged(json!({ "next": next, "more": workers.collect::<Vec<_>>() }), first)
        }
        Transition::Join(Join { target, count, failed, input }) => json!({
            "to": target, "count": count, "failed": failed.word(), "input": input,
        }),
        Transition::Ask(question) => of_question(question),
        Transition::Result { payload } => of_result(Some(payload)),
    };
    // Of these, only what was given is told.
    if let Value::Object(fields) = &mut value {
        let is_rare = |name: &str| {
            matches!(name, "input" | "arguments" | "limit" | "worktree" | "more" | "count")
        };
        fields.retain(|name, value| !is_rare(name) || !is_empty(value));
    }
    value["tag"] = json!(transition.kind().name());
    value
}

/// A result. Of one that could not be read, or that a page need not have whole, the beginning and the length.
fn of_result(result: Option<&Payload>) -> Value {
    let mut value = json!({ "result": result.map(ToString::to_string) });
    if let Some(bytes) = result.and_then(kept_bytes) {
        value["result_bytes"] = json!(bytes);
    }
    value
}

/// The length of a result of which only the beginning is here.
pub(super) fn kept_bytes(result: &Payload) -> Option<u64> {
    if let [Piece::Kept(kept)] = result.pieces() { Some(kept.bytes) } else { None }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

fn of_question(question: &Question) -> Value {
    let choices = question.choices.iter();
    let choices = choices.map(|choice| json!({ "label": choice.label, "to": choice.target }));
    json!({
        "question": question.text, "choices": choices.collect::<Vec<_>>(), "to": question.next,
        "attach": question.attach, "default": question.default, "deadline": question.deadline_ms,
    })
}

fn of_overrider(by: &Overrider) -> Value {
    match by {
        Overrider::Limit(limit) => of_limit(limit),
        Overrider::Match { pattern } => json!({ "match": pattern }),
        Overrider::Prompt { prompt } => json!({ "prompt": prompt }),
        Overrider::Visits { max_visits } => json!({ "max_visits": max_visits }),
    }
}

pub(super) fn of_halt(why: &Halt) -> Value {
    match why {
        Halt::ScriptFailed { agent } => json!({ "why": "script_failed", "agent": agent }),
        Halt::Limit(limit) => of_limit(limit),
        Halt::Interrupted => json!({ "why": "interrupted" }),
        Halt::UsageLimit { resets_at } => json!({ "why": "usage_limit", "resets_at": resets_at }),
        Halt::DiskLow { free_bytes } => json!({ "why": "disk_low", "free_bytes": free_bytes }),
        Halt::Asks => json!({ "why": "asks" }),
        Halt::Cancelled => json!({ "why": "cancelled" }),
    }
}

fn of_limit(limit: &Limit) -> Value {
    match limit {
        Limit::Budget { spent_usd, budget_usd } => {
            json!({ "why": "budget", "spent_usd": spent_usd, "budget_usd": budget_usd })
        }
        Limit::Iterations { max_iterations } => {
            json!({ "why": "iterations", "max_iterations": max_iterations })
        }
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_event_is_documented() {
        let (source, document) =
            (include_str!("event.rs"), include_str!("../../../../../docs/events.md"));
        let names = source.split("\"event\": \"").skip(1).filter_map(|rest| rest.split('"').next());
        let names: Vec<_> = names.collect();
        assert!(names.len() > 20, "{names:?}");
        for name in names {
            assert!(document.contains(&format!("`{name}`")), "{name}");
        }
    }
}
