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
        settings: "program = 'PROGRAM'\nmodel = 'claude-sonnet-4-6'",
        call_usd: 0.003_75,
        environment: Claude::environment,
        shell: |command| Reply::tool("Bash", json!({ "command": command })),
        shell_name: "Bash",
        usage_limit: claude_limit,
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
        environment: |home, api| {
            let mut environment = agents::claude_acp_environment(home, api);
            // The price of this model is the same in all versions of Claude Code.
            let (name, model) = ("ANTHROPIC_DEFAULT_SONNET_MODEL", "claude-sonnet-4-6");
            environment.push((name.to_owned(), model.to_owned()));
            environment
        },
        shell: |command| Reply::tool("Bash", json!({ "command": command })),
        shell_name: "Bash",
        usage_limit: claude_limit,
        // And the Claude Code that it starts.
        process: "claude",
    })
}

pub(super) fn opencode() -> Option<Backend> {
    Some(Backend {
        name: "opencode",
        program: agents::OPENCODE.or_skip()?,
        settings: "acp = ['PROGRAM', 'acp']\nmodel = 'loopback/gpt-5.2'\nreports_cost = true",
        call_usd: OPENAI_CALL_USD,
        environment: |home, api| agents::opencode_environment(home, api).unwrap(),
        shell: |command| Reply::tool("bash", json!({ "command": command, "description": "x" })),
        shell_name: "execute",
        usage_limit: || Reply::status(429, "rate_limit_exceeded", "Rate limit reached."),
        process: "opencode",
    })
}

pub(super) fn codex_acp() -> Option<Backend> {
    Some(Backend {
        name: "codex-acp",
        program: agents::codex_acp_program()?,
        settings: "acp = ['PROGRAM']\nprices = { input = 1, cached_input = 0.1, output = 10 }",
        call_usd: OPENAI_CALL_USD,
        environment: |home, api| agents::codex_environment(home, api).unwrap(),
        shell: |command| Reply::tool("exec_command", json!({ "cmd": command })),
        shell_name: "exec_command",
        usage_limit: || {
            let reply =
                Reply::status(429, "usage_limit_reached", "The usage limit has been reached");
            reply.error_field("plan_type", "plus").error_field("resets_at", 1_794_899_999)
        },
        // And the Codex that it starts.
        process: "codex",
    })
}
