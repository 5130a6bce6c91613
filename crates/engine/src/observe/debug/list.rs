//! Writes the output of a coding agent as an indented JSON list.

use std::{
    fs::File,
    io::{self, BufRead as _, BufReader, BufWriter, Read as _, Write},
};

use raymond_flow::id::{StateName, StepId};
use serde_json::{Value, json};

/// A longer line is split into pieces. No event of a coding agent is that long.
const LINE_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// The step that printed the output: the first object of the list.
pub(super) struct About<'a> {
    pub(super) id: &'a StepId,
    pub(super) state: &'a StateName,
    pub(super) timestamp: &'a str,
}

/// Writes the lines of `from` as a list. A line that is not JSON becomes a string.
pub(super) fn write(about: &About<'_>, from: File, to: &mut File) -> io::Result<()> {
    let About { id, state, timestamp } = about;
    let about = json!({
        "type": "raymond_step", "agent_id": id.agent, "current_state": state,
        "step_number": id.number, "timestamp": timestamp,
    });
    let mut to = BufWriter::new(to);
    write!(to, "[\n  {}", indented(&about)?)?;
    let mut from = BufReader::new(from);
    let mut line = Vec::new();
    while (&mut from).take(LINE_BYTES_MAX).read_until(b'\n', &mut line)? > 0 {
        let event = serde_json::from_slice(&line).unwrap_or_else(|_| {
            Value::String(String::from_utf8_lossy(&line).trim_end().to_owned())
        });
        if event.as_str() != Some("") {
            write!(to, ",\n  {}", indented(&event)?)?;
        }
        line.clear();
    }
    writeln!(to, "\n]")?;
    to.flush()
}

/// Indents the lines of a value. JSON escapes newlines in strings, so every newline here is layout.
fn indented(value: &Value) -> io::Result<String> {
    Ok(serde_json::to_string_pretty(value)?.replace('\n', "\n  "))
}
