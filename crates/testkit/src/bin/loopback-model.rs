//! `loopback-model FILE`: the model API of the tests as a program, for benchmarks in bash.
//!
//! Its first line is `http://127.0.0.1:PORT`; it serves until its standard input ends. In bash:
//!
//! ```bash
//! coproc MODEL { loopback-model rules.json; }
//! read -r ANTHROPIC_BASE_URL <&"${MODEL[0]}"
//! …                          # the benchmark
//! exec {MODEL[1]}>&-         # the end
//! ```
//!
//! FILE is JSON:
//!
//! ```json
//! { "rules": [
//!   { "when": "say hello", "replies": [ { "text": "hello", "after_ms": 20 } ] },
//!   { "when": "make a file", "replies": [
//!       { "tool": "Bash", "input": { "command": "touch made" },
//!         "usage": { "input": 2000, "output": 100, "cache_read": 0, "cache_write": 0 } },
//!       { "status": 529, "kind": "overloaded_error", "message": "Overloaded",
//!         "headers": { "retry-after": "1" } },
//!       { "text": "made", "stop_reason": "end_turn" } ] } ] }
//! ```
//!
//! A rule applies to requests whose last user text contains `when`; an empty `when` applies to all. If
//! several rules apply, the last one in the file wins. Its replies are given in order, over all clients,
//! and the last one is repeated. A reply is a `text`, a `tool` with its `input`, a `status` with `kind`
//! and `message`, or `"hang": true`. All other fields of a reply are optional.

#![forbid(unsafe_code)]

use std::{
    collections::BTreeMap,
    env, fs,
    io::{self, Write},
    process::ExitCode,
    time::Duration,
};

use raymond_testkit::{ModelApi, Reply, Usage};
use serde::Deserialize;
use serde_json::Value;

fn main() -> ExitCode {
    match serve() {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            let _ = writeln!(io::stderr(), "loopback-model: {why}");
            ExitCode::FAILURE
        }
    }
}

fn serve() -> Result<(), String> {
    let file = env::args_os().nth(1).ok_or("the file of rules is missing")?;
    let text = fs::read_to_string(&file).map_err(|error| format!("{}: {error}", file.display()))?;
    let file: RuleFile =
        serde_json::from_str(&text).map_err(|error| format!("{}: {error}", file.display()))?;
    let api = ModelApi::start().map_err(|error| error.to_string())?;
    for rule in file.rules {
        let replies: Result<Vec<_>, _> = rule.replies.into_iter().map(ReplySpec::reply).collect();
        api.on(&rule.when, replies.map_err(|why| format!("rule {:?}: {why}", rule.when))?);
    }
    writeln!(io::stdout(), "{}", api.base_url()).map_err(|error| error.to_string())?;
    io::copy(&mut io::stdin(), &mut io::sink()).map_err(|error| error.to_string())?;
    Ok(())
}

/// The file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RuleFile {
    rules: Vec<RuleSpec>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RuleSpec {
    when: String,
    replies: Vec<ReplySpec>,
}

/// One flat struct and not an enum: serde's errors stay understandable.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ReplySpec {
    text: Option<String>,
    tool: Option<String>,
    input: Option<Value>,
    status: Option<u16>,
    kind: Option<String>,
    message: Option<String>,
    #[serde(default)]
    hang: bool,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    #[serde(default)]
    after_ms: u64,
    usage: Option<UsageSpec>,
    stop_reason: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct UsageSpec {
    input: u64,
    output: u64,
    #[serde(default)]
    cache_read: u64,
    #[serde(default)]
    cache_write: u64,
}

impl ReplySpec {
    fn reply(self) -> Result<Reply, String> {
        let mut reply = match (self.text, self.tool, self.status, self.hang) {
            (Some(text), None, None, false) => Reply::text(text),
            (None, Some(name), None, false) => Reply::tool(name, self.input.unwrap_or_default()),
            (None, None, Some(code), false) => {
                let kind = self.kind.unwrap_or_else(|| "api_error".into());
                Reply::status(code, kind, self.message.unwrap_or_default())
            }
            (None, None, None, true) => Reply::hang(),
            _ => return Err("a reply is exactly one of text, tool, status, hang".into()),
        };
        for (name, value) in self.headers {
            reply = reply.header(name, value);
        }
        if let Some(UsageSpec { input, output, cache_read, cache_write }) = self.usage {
            reply = reply.usage(Usage { input, output, cache_read, cache_write });
        }
        if let Some(reason) = self.stop_reason {
            reply = reply.stop_reason(reason);
        }
        Ok(reply.after(Duration::from_millis(self.after_ms)))
    }
}
