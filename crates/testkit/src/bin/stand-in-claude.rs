//! `stand-in-claude`: takes turns as Claude Code does and prints what Claude Code prints, each time in another way: keys in
//! another order, keys and lines that nobody knows, events at other places. What a turn says and costs stays the same.
//!
//! It reads prompts as lines of JSON from standard input. In the directory that it is started in, the file `turns` counts
//! the turns, which also begin the random numbers, and `starts` has a line for each process. The turn with the number in
//! the file `last` answers with `<result>done</result>`, the others with `<goto>START</goto>`. The file `kind` names a turn that ends
//! otherwise, and with the file `plain` nothing is printed in another way.

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
        let kind = fs::read_to_string("kind").unwrap_or_default();
        let (work, result) = ending(&kind, text, turn);
        let lines = if fs::exists("plain")? {
            let begun = [repeated(&prompt), init()];
            let lines = begun.iter().chain(&work).chain([&result]);
            lines.map(Value::to_string).collect::<Vec<_>>().join("\n") + "\n"
        } else {
            let mut random = Random(turn.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
            stream(&prompt, work, &result, &mut random)
        };
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

/// What Claude prints first.
fn init() -> Value {
    json!({ "type": "system", "subtype": "init", "model": "claude-x", "claude_code_version": "3.0.0" })
}

/// Claude repeats a prompt when it begins it.
fn repeated(prompt: &Value) -> Value {
    json!({ "type": "user", "uuid": prompt["uuid"], "isReplay": true, "message": prompt["message"],
        "parent_tool_use_id": null })
}

/// The output of one turn. The lines of its work have an order.
fn stream(prompt: &Value, work: Vec<Value>, result: &Value, random: &mut Random) -> String {
    let mut lines = vec![repeated(prompt)];
    lines.extend(work);
    // These come anywhere before the end.
    let lifecycle = |state: &str| json!({ "type": "command_lifecycle", "command_uuid": prompt["uuid"], "state": state });
    for line in [init(), lifecycle("queued"), lifecycle("started")] {
        lines.insert(random.below(lines.len() + 1), line);
    }
    for _ in 0..random.below(4) {
        lines.insert(random.below(lines.len() + 1), unknown(random));
    }
    lines.push(result.clone());
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

/// What a turn of this kind prints after its prompt, and its result.
fn ending(kind: &str, text: &str, turn: u64) -> (Vec<Value>, Value) {
    match kind {
        "overload" => failed("server_error", 529, "API Error: 529 Overloaded.", turn),
        "usage limit" => {
            let (mut work, result) =
                failed("rate_limit", 429, "You've hit your session limit · resets soon", turn);
            let info = json!({ "status": "rejected", "resetsAt": 4_102_444_800_u64 });
            work.insert(0, json!({ "type": "rate_limit_event", "rate_limit_info": info }));
            (work, result)
        }
        "refusal" => {
            let (work, mut result) =
                failed("invalid_request", 0, "API Error: unable to respond", turn);
            result["stop_reason"] = json!("refusal");
            result["api_error_status"] = Value::Null;
            (work, result)
        }
        "blocked prompt" => {
            let mut result = result("UserPromptSubmit operation blocked by hook: no", turn);
            result["usage"] = json!({ "input_tokens": 0, "output_tokens": 0 });
            (Vec::new(), result)
        }
        "structured output" => {
            let output = json!({ "risk": "low" });
            let call = json!({ "type": "tool_use", "id": "s", "name": "StructuredOutput", "input": output });
            let mut result = result(&output.to_string(), turn);
            result["structured_output"] = output;
            (vec![said("m1", &call)], result)
        }
        _ => {
            let uses = json!({ "type": "tool_use", "id": "t", "name": "Bash",
                "input": { "command": "echo '{\"type\":\"result\"}'", "type": "result" } });
            let found = json!({ "type": "user", "parent_tool_use_id": null, "message": { "role": "user", "content": [
                { "type": "tool_result", "tool_use_id": "t", "content": "{\"type\":\"result\"}" }] } });
            let allowed =
                json!({ "type": "rate_limit_event", "rate_limit_info": { "status": "allowed" } });
            let words = json!({ "type": "text", "text": text });
            (vec![allowed, said("m1", &uses), found, said("m2", &words)], result(text, turn))
        }
    }
}

/// A message of the model.
fn said(id: &str, block: &Value) -> Value {
    json!({ "type": "assistant", "parent_tool_use_id": null, "message": { "id": id,
        "model": "claude-x", "role": "assistant", "content": [block] } })
}

/// A turn that the provider did not answer.
fn failed(kind: &str, status: u64, words: &str, turn: u64) -> (Vec<Value>, Value) {
    let mut told = said("m1", &json!({ "type": "text", "text": words }));
    told["error"] = json!(kind);
    told["message"]["model"] = json!("<synthetic>");
    let mut result = result(words, turn);
    result["is_error"] = json!(true);
    result["api_error_status"] = json!(status);
    result["terminal_reason"] = json!("api_error");
    (vec![told], result)
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
