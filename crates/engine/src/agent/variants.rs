//! Other ways in which a coding agent may print the same output: for tests of its readers.
//!
//! No coding agent promises an order of keys, or that there will be no further keys, types and lines.

use serde_json::{Map, Value};

/// How many variants a test tries.
const CASES: u64 = 500;
/// Keys whose values are kept whole, because transcripts show them.
const WHOLE: [&str; 3] = ["args", "arguments", "rawInput"];
/// Keys that are added: unknown ones, and known ones of other kinds of lines, with nothing in them.
const ADDED: [&str; 8] = ["zz", "", "Type", "error", "usage", "item", "result", "message"];
/// Lines that mean nothing to any reader.
const LINES: [&str; 11] = [
    "",
    "not JSON",
    "{\"type\":",
    "[1,2]",
    r#"["result"]"#,
    r#"["agent_settled","x"]"#,
    r#"["turn.completed",{}]"#,
    "null",
    r#"{"type":"not.known","item":3,"message":["x"],"usage":"none","error":"no"}"#,
    r#"{"kind":"turn.completed"}"#,
    r#"{"type":null}"#,
];

/// Numbers that look random and are always the same.
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % limit as u64).unwrap_or_default()
    }

    /// The value as text, with its keys in another order and with others between them.
    fn text(&mut self, value: &Value) -> String {
        match value {
            Value::Object(fields) => self.object(fields),
            Value::Array(items) => {
                let items: Vec<_> = items.iter().map(|item| self.text(item)).collect();
                format!("[{}]", items.join(","))
            }
            other => other.to_string(),
        }
    }

    fn object(&mut self, fields: &Map<String, Value>) -> String {
        let mut parts: Vec<_> = fields
            .iter()
            .map(|(name, value)| {
                let is_whole = WHOLE.contains(&name.as_str());
                let value = if is_whole { value.to_string() } else { self.text(value) };
                format!("{}:{value}", Value::from(name.as_str()))
            })
            .collect();
        for _ in 0..self.below(3) {
            let name = ADDED[self.below(ADDED.len())];
            if !fields.contains_key(name) && !parts.iter().any(|it| it.starts_with(&key(name))) {
                parts.push(format!("{}null", key(name)));
            }
        }
        for place in (1..parts.len()).rev() {
            parts.swap(place, self.below(place + 1));
        }
        format!("{{{}}}", parts.join(","))
    }
}

fn key(name: &str) -> String {
    format!("{}:", Value::from(name))
}

/// Calls `check` with variants of these lines, each of which means the same.
pub(super) fn each_variant(lines: &[&str], mut check: impl FnMut(&[&str])) {
    let values: Vec<Value> =
        lines.iter().map(|line| serde_json::from_str(line).unwrap_or_default()).collect();
    for case in 1..=CASES {
        let mut dice = Dice(case.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        let mut variant = Vec::new();
        for value in &values {
            for _ in 0..dice.below(3) {
                variant.push(LINES[dice.below(LINES.len())].to_owned());
            }
            variant.push(dice.text(value));
        }
        // The last line means nothing either.
        variant.push(LINES[dice.below(LINES.len())].to_owned());
        check(&variant.iter().map(String::as_str).collect::<Vec<_>>());
    }
}
