//! `stand-in-claude`: takes turns as Claude Code does and prints what Claude Code prints, each time in another way: keys in
//! another order, keys and lines that nobody knows, events at other places. What a turn says and costs stays the same.
//!
//! It reads prompts as lines of JSON from standard input. In the directory that it is started in, the file `turns` counts
//! the turns, which also begin the random numbers, and `starts` has a line for each process. The turn with the number in
//! the file `last` answers with `<result>done</result>`, the others with `<goto>START</goto>`.

#![forbid(unsafe_code)]

use std::{
    fs::{self, File},
    io::{self, BufRead as _, Write as _},
    process::ExitCode,
};

use serde_json::{Value, json};

/// Keys of some kinds of lines that others may have, too, with nothing in them.
const EMPTY: [&str; 8] = [
    "usage",
    "errors",
    "permission_denials",
    "message",
    "subtype",
    "modelUsage",
    "model",
    "attempt",
];
/// What a turn costs, in dollars.
const TURN_USD: f64 = 0.001;

fn main() -> ExitCode {
    match take_turns() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(io::stderr(), "stand-in-claude: {error}");
            ExitCode::FAILURE
        }
    }
}

fn take_turns() -> io::Result<()> {
    let mut starts = File::options().create(true).append(true).open("starts")?;
    writeln!(starts, "{}", std::process::id())?;
    let last: u64 = fs::read_to_string("last")?.trim().parse().map_err(io::Error::other)?;
    for prompt in io::stdin().lock().lines() {
        let prompt: Value = serde_json::from_str(&prompt?)?;
        let turn = 1 + fs::read_to_string("turns").map_or(0, |text| text.parse().unwrap_or(0));
        fs::write("turns", turn.to_string())?;
        let text = if turn == last { "<result>done</result>" } else { "<goto>START</goto>" };
        let mut random = Random(turn.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        let lines = stream(&prompt, text, turn, &mut random);
        io::stdout().lock().write_all(lines.as_bytes())?;
    }
    Ok(())
}

/// Numbers that look random and are the same each time (xorshift).
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 33).unwrap_or(0) % bound.max(1)
    }
}

/// The output of one turn.
fn stream(prompt: &Value, text: &str, turn: u64, random: &mut Random) -> String {
    let id = &prompt["uuid"];
    // These have an order. A tool and a text may say what they like.
    let mut lines = vec![
        json!({ "type": "user", "uuid": id, "isReplay": true, "message": prompt["message"],
            "parent_tool_use_id": null }),
        json!({ "type": "assistant", "parent_tool_use_id": null, "message": { "id": "m1",
            "model": "claude-x", "role": "assistant", "content": [{ "type": "tool_use", "id": "t",
            "name": "Bash", "input": { "command": "echo '{\"type\":\"result\"}'", "type": "result" } }] } }),
        json!({ "type": "user", "parent_tool_use_id": null, "message": { "role": "user", "content": [
            { "type": "tool_result", "tool_use_id": "t", "content": "{\"type\":\"result\"}" }] } }),
        json!({ "type": "assistant", "parent_tool_use_id": null, "message": { "id": "m2",
            "model": "claude-x", "role": "assistant", "content": [{ "type": "text", "text": text }] } }),
    ];
    // These come anywhere before the end.
    let lifecycle =
        |state: &str| json!({ "type": "command_lifecycle", "command_uuid": id, "state": state });
    for line in [
        json!({ "type": "system", "subtype": "init", "model": "claude-x", "claude_code_version": "3.0.0" }),
        json!({ "type": "rate_limit_event", "rate_limit_info": { "status": "allowed" } }),
        lifecycle("queued"),
        lifecycle("started"),
    ] {
        lines.insert(random.below(lines.len() + 1), line);
    }
    for _ in 0..random.below(4) {
        lines.insert(random.below(lines.len() + 1), unknown(random));
    }
    lines.push(result(text, turn));
    // Newer versions say that the prompt is over; there may always be more.
    if random.below(3) > 0 {
        lines.push(lifecycle("completed"));
    }
    for _ in 0..random.below(3) {
        lines.push(unknown(random));
    }
    let mut printed = String::new();
    for line in lines {
        write_shuffled(&line, true, random, &mut printed);
        printed.push('\n');
    }
    printed
}

/// The last words of a turn. The sums are those of the session, as since 2.1.309.
fn result(text: &str, turn: u64) -> Value {
    let usage = |turns: u64| {
        #[expect(clippy::cast_precision_loss, reason = "some hundred turns")]
        let cost = turns as f64 * TURN_USD;
        json!({ "claude-x": { "inputTokens": 100 * turns, "outputTokens": 10 * turns, "costUSD": cost } })
    };
    json!({
        "type": "result", "subtype": "success", "is_error": false, "result": text,
        "stop_reason": "end_turn", "terminal_reason": "completed",
        "usage": { "input_tokens": 100, "output_tokens": 10 },
        "total_cost_usd": usage(turn)["claude-x"]["costUSD"],
        "modelUsage": usage(turn), "model_usage_since_last_result": usage(1),
        "permission_denials": [],
    })
}

/// A line that nobody knows.
fn unknown(random: &mut Random) -> Value {
    match random.below(5) {
        0 => json!({ "type": "brand_new", "result": "<goto>NOWHERE</goto>", "is_error": true }),
        1 => json!({ "type": "system", "subtype": "news", "message": { "type": "result" } }),
        2 => json!({ "kind": "result", "uuid": "7" }),
        3 => json!(["result", { "type": "result" }]),
        _ => json!("result"),
    }
}

/// Writes JSON with the keys of each object in a random order; an event gets keys that nobody knows.
fn write_shuffled(value: &Value, is_event: bool, random: &mut Random, into: &mut String) {
    match value {
        Value::Object(fields) => {
            let mut fields: Vec<_> =
                fields.iter().map(|(name, value)| (name.clone(), value.clone())).collect();
            if is_event {
                for number in 0..random.below(3) {
                    fields
                        .push((format!("new_{number}"), json!({ "type": "result", "x": [null] })));
                }
                for name in EMPTY {
                    if random.below(4) == 0 && fields.iter().all(|(known, _)| known != name) {
                        fields.push((name.to_owned(), Value::Null));
                    }
                }
            }
            into.push('{');
            while !fields.is_empty() {
                let (name, value) = fields.swap_remove(random.below(fields.len()));
                into.push_str(&json!(name).to_string());
                into.push(':');
                write_shuffled(&value, false, random, into);
                into.push_str(if fields.is_empty() { "" } else { "," });
            }
            into.push('}');
        }
        Value::Array(values) => {
            into.push('[');
            for (index, value) in values.iter().enumerate() {
                into.push_str(if index == 0 { "" } else { "," });
                write_shuffled(value, false, random, into);
            }
            into.push(']');
        }
        other => into.push_str(&other.to_string()),
    }
}
