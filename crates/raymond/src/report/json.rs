//! `--json`: one event a line, for programs. docs/operations.md describes it.

use std::io::Write;

use raymond_engine::{
    agent::Activity,
    clock,
    events::{Event, Observer},
};
use raymond_flow::machine::Run;
use serde_json::{Value, json};

/// Writes a line of JSON for what happens.
#[derive(Debug)]
pub(crate) struct JsonLines<W> {
    out: W,
}

impl<W: Write> JsonLines<W> {
    pub(crate) fn new(out: W) -> Self {
        Self { out }
    }
}

impl<W: Write> Observer for JsonLines<W> {
    fn see(&mut self, event: &Event<'_>) {
        let mut value = of_event(event);
        value["at"] = json!(clock::now_ms());
        let _ = writeln!(self.out, "{value}");
    }

    fn wants_activity(&self) -> bool {
        true
    }
}

/// The last line: how the run stands when the program leaves it.
pub(crate) fn closed(run: &Run) -> Value {
    json!({
        "event": "closed", "at": clock::now_ms(), "run": run.id, "status": run.status,
        "result": run.result, "total_cost_usd": run.total_cost_usd,
    })
}

fn of_event(event: &Event<'_>) -> Value {
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
        Event::StepEnded { id, step, exit_code, duration_ms, .. } => json!({
            "event": "step_ended", "agent": id.agent, "number": id.number, "state": step.state,
            "exit_code": exit_code, "duration_ms": duration_ms,
        }),
        Event::Recorded { record, .. } => json!({ "event": "record", "record": record }),
        Event::JournalTrimmed(trimmed) => json!({
            "event": "journal_trimmed", "offset": trimmed.offset, "bytes": trimmed.bytes,
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
