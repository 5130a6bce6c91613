//! How each coding agent is set up, and what it calls things.

use std::path::{Path, PathBuf};

use raymond_testkit::{Claude, ModelApi, Reply, agents};
use serde_json::json;

/// A coding agent on its real program.
pub(super) struct Backend {
    /// Its name in frontmatter.
    pub(super) name: &'static str,
    /// Its program.
    pub(super) program: PathBuf,
    /// Its settings below `[agents.NAME]`; `PROGRAM` stands for the program.
    pub(super) settings: &'static str,
    /// What one call of the model costs, in dollars.
    pub(super) call_usd: f64,
    /// The environment in which it uses the loopback model.
    pub(super) environment: fn(&Path, &ModelApi) -> Vec<(String, String)>,
    /// The model asks to run a command.
    pub(super) shell: fn(&str) -> Reply,
    /// The name of the tool for that in transcripts.
    pub(super) shell_name: &'static str,
    /// The usage limit of the provider is reached.
    pub(super) usage_limit: fn() -> Reply,
    /// Whether it also asks the model for titles, and counts what they cost.
    pub(super) pays_for_titles: bool,
    /// What its process can be found by.
    pub(super) process: &'static str,
}

const OPENAI_PRICES: &str = "program = 'PROGRAM'\nmodel = 'gpt-5.2'\nprices = { input = 1, cached_input = 0.1, output = 10 }";
/// A thousand tokens in and fifty out at these prices.
const OPENAI_CALL_USD: f64 = 0.001_5;

pub(super) fn claude() -> Option<Backend> {
    Some(Backend {
        name: "claude",
        program: Claude::or_skip()?.program().to_owned(),
        settings: "program = 'PROGRAM'\nmodel = 'sonnet'",
        call_usd: 0.003_75,
        environment: Claude::environment,
        shell: |command| Reply::tool("Bash", json!({ "command": command })),
        shell_name: "Bash",
        usage_limit: claude_limit,
        pays_for_titles: false,
        process: "claude",
    })
}

/// The usage limit of a subscription.
fn claude_limit() -> Reply {
    let reply = Reply::status(429, "rate_limit_error", "You've hit your limit");
    reply
        .header("anthropic-ratelimit-unified-status", "rejected")
        .header("anthropic-ratelimit-unified-reset", "1794899999")
        .header("retry-after", "0")
}

pub(super) fn codex() -> Option<Backend> {
    Some(Backend {
        name: "codex",
        program: agents::CODEX.or_skip()?,
        settings: OPENAI_PRICES,
        call_usd: OPENAI_CALL_USD,
        environment: |home, api| agents::codex_environment(home, api).unwrap(),
        shell: |command| Reply::tool("exec_command", json!({ "cmd": command })),
        shell_name: "shell",
        usage_limit: || {
            let reply =
                Reply::status(429, "usage_limit_reached", "The usage limit has been reached");
            reply.error_field("plan_type", "plus").error_field("resets_at", 1_794_899_999)
        },
        pays_for_titles: false,
        process: "codex",
    })
}

pub(super) fn pi() -> Option<Backend> {
    Some(Backend {
        name: "pi",
        program: agents::pi_program()?,
        settings: "program = 'PROGRAM'\nmodel = 'loopback/gpt-5.2'",
        call_usd: OPENAI_CALL_USD,
        environment: |home, api| agents::pi_environment(home, api).unwrap(),
        shell: |command| Reply::tool("bash", json!({ "command": command })),
        shell_name: "bash",
        usage_limit: || Reply::status(429, "rate_limit_exceeded", "Rate limit reached."),
        pays_for_titles: false,
        process: "pi-coding-agent",
    })
}

pub(super) fn goose() -> Option<Backend> {
    Some(Backend {
        name: "goose",
        program: agents::GOOSE.or_skip()?,
        settings: "acp = ['PROGRAM', 'acp']\nmode = 'approve'\nreports_cost = true",
        call_usd: 0.002_45,
        environment: agents::goose_environment,
        shell: |command| Reply::tool("shell", json!({ "command": command })),
        shell_name: "shell",
        usage_limit: || Reply::status(429, "rate_limit_exceeded", "Rate limit reached."),
        pays_for_titles: false,
        process: "goose",
    })
}

pub(super) fn claude_acp() -> Option<Backend> {
    Claude::or_skip()?;
    Some(Backend {
        name: "claude-acp",
        program: agents::claude_acp_program()?,
        settings: "acp = ['PROGRAM']\nmodel = 'sonnet'\nreports_cost = true",
        call_usd: 0.003_75,
        environment: agents::claude_acp_environment,
        shell: |command| Reply::tool("Bash", json!({ "command": command })),
        shell_name: "Bash",
        usage_limit: claude_limit,
        pays_for_titles: true,
        // And the Claude Code that it starts.
        process: "claude",
    })
}
