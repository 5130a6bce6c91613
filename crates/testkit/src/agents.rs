//! The real coding agents besides Claude Code for tests: where each is, and an environment in which it does not touch
//! the files of the user who runs the tests.

use std::{
    env, fs, io,
    path::{Path, PathBuf},
};

use serde_json::json;

use crate::{
    ModelApi,
    claude::USUAL_PATH,
    table::{self, Selection},
};

/// The model that all of them are asked to use. It has no price in their own tables, so only prices of a test count.
pub const MODEL: &str = "gpt-5.2";

/// A coding agent that `scripts/install-agents` puts below the target directory, by its name in `agents.txt`.
#[derive(Clone, Copy, Debug)]
pub struct AgentProgram(&'static str);

/// Codex: the native program, which needs no node.
pub const CODEX: AgentProgram = AgentProgram("codex");
/// Node: pi needs a newer one than most systems have.
const NODE: AgentProgram = AgentProgram("node");
/// pi: a script for node. [`pi_program`] makes it a program.
const PI: AgentProgram = AgentProgram("pi");
/// goose: a native program that speaks ACP.
pub const GOOSE: AgentProgram = AgentProgram("goose");
/// Claude Code behind ACP: a script for node.
const CLAUDE_ACP: AgentProgram = AgentProgram("claude-agent-acp");

impl AgentProgram {
    /// Its program in the version that `RAYMOND_TEST_AGENTS` selects, or prints to standard error why the calling test
    /// is skipped.
    ///
    /// # Panics
    ///
    /// If it is missing although `RAYMOND_TEST_AGENTS_REQUIRED` is 1.
    pub fn or_skip(&self) -> Option<PathBuf> {
        self.of(Selection::from_environment())
    }

    #[expect(clippy::print_stderr, reason = "a test that skips must say so")]
    fn of(self, selection: Selection) -> Option<PathBuf> {
        table::row(self.0).find(selection).inspect_err(|why| eprintln!("skipped: {why}")).ok()
    }
}

/// What every coding agent needs, for use after `env_clear`.
fn common(home: &Path) -> Vec<(String, String)> {
    let path = env::var("PATH").unwrap_or_else(|_| USUAL_PATH.into());
    let pairs = [
        ("HOME", home.display().to_string()),
        ("PATH", path),
        ("SHELL", "/bin/bash".into()),
        ("LANG", "C.UTF-8".into()),
        ("TZ", "UTC".into()),
        ("TERM", "dumb".into()),
    ];
    pairs.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// The environment for Codex: a private home whose settings name the loopback model, and no telemetry.
pub fn codex_environment(home: &Path, api: &ModelApi) -> io::Result<Vec<(String, String)>> {
    let folder = home.join(".codex");
    fs::create_dir_all(&folder)?;
    // Without both switches every turn waits five seconds for the network at its end.
    let settings = format!(
        "model_provider = 'loopback'\nmodel = '{MODEL}'\nanalytics.enabled = false\nfeatures.plugins = false\n\
         [model_providers.loopback]\nname = 'loopback'\nbase_url = '{}/v1'\nenv_key = 'LOOPBACK_KEY'\n\
         wire_api = 'responses'\n",
        api.base_url()
    );
    fs::write(folder.join("config.toml"), settings)?;
    let mut environment = common(home);
    environment.push(("CODEX_HOME".to_owned(), folder.display().to_string()));
    environment.push(("LOOPBACK_KEY".to_owned(), "dummy".to_owned()));
    Ok(environment)
}

/// pi as a program.
pub fn pi_program() -> Option<PathBuf> {
    node_program(PI)
}

/// The agent that puts Claude Code behind ACP, as a program.
pub fn claude_acp_program() -> Option<PathBuf> {
    node_program(CLAUDE_ACP)
}

/// A script beside the script of `agent` that runs it with a node that is new enough.
fn node_program(agent: AgentProgram) -> Option<PathBuf> {
    let selection = Selection::from_environment();
    let (node, script) = (NODE.of(selection)?, agent.of(selection)?);
    let program = script.with_file_name(agent.0);
    let text = format!("#!/bin/sh\nexec '{}' '{}' \"$@\"\n", node.display(), script.display());
    write_program(&program, &text).ok()?;
    program.canonicalize().ok()
}

/// Writes a script that can be started. Tests run at the same time, so it appears complete and is never changed.
fn write_program(path: &Path, text: &str) -> io::Result<()> {
    if fs::read_to_string(path).is_ok_and(|known| known == text) {
        return Ok(());
    }
    let draft = path.with_extension(std::process::id().to_string());
    fs::write(&draft, text)?;
    #[cfg(unix)]
    fs::set_permissions(&draft, std::os::unix::fs::PermissionsExt::from_mode(0o755))?;
    fs::rename(&draft, path)
}

/// The environment for pi: a private home whose only provider is the loopback model, and no telemetry.
pub fn pi_environment(home: &Path, api: &ModelApi) -> io::Result<Vec<(String, String)>> {
    let folder = home.join(".pi/agent");
    fs::create_dir_all(&folder)?;
    let cost = json!({ "input": 1, "output": 10, "cacheRead": 0.1, "cacheWrite": 0 });
    let provider = json!({
        "baseUrl": format!("{}/v1", api.base_url()),
        "api": "openai-completions",
        "apiKey": "dummy",
        "models": [{ "id": MODEL, "cost": cost }],
    });
    let settings = json!({ "providers": { "loopback": provider } });
    fs::write(folder.join("models.json"), settings.to_string())?;
    let mut environment = common(home);
    environment.push(("PI_OFFLINE".to_owned(), "1".to_owned()));
    environment.push(("PI_TELEMETRY".to_owned(), "0".to_owned()));
    Ok(environment)
}

/// The environment for goose: a private home, the loopback model, and no telemetry.
pub fn goose_environment(home: &Path, api: &ModelApi) -> Vec<(String, String)> {
    let own = [
        ("GOOSE_PROVIDER", "openai".to_owned()),
        ("GOOSE_MODEL", MODEL.to_owned()),
        ("GOOSE_DISABLE_KEYRING", "1".to_owned()),
        ("GOOSE_TELEMETRY_ENABLED", "false".to_owned()),
        ("OPENAI_HOST", api.base_url()),
        ("OPENAI_API_KEY", "dummy".to_owned()),
    ];
    let own = own.into_iter().map(|(name, value)| (name.to_owned(), value));
    common(home).into_iter().chain(own).collect()
}

/// The environment for Claude Code behind ACP: that of Claude Code, whose program it starts.
pub fn claude_acp_environment(home: &Path, api: &ModelApi) -> Vec<(String, String)> {
    let mut environment = crate::Claude::environment(home, api);
    let claude = crate::Claude::find().map(|claude| claude.program().display().to_string());
    environment.push(("CLAUDE_CODE_EXECUTABLE".to_owned(), claude.unwrap_or_default()));
    // Otherwise it retries for minutes.
    environment.push(("CLAUDE_CODE_MAX_RETRIES".to_owned(), "1".to_owned()));
    // Otherwise it asks the model for suggestions after some turns.
    let suggests = "CLAUDE_CODE_ENABLE_PROMPT_SUGGESTION";
    environment.push((suggests.to_owned(), "false".to_owned()));
    environment
}

/// opencode: a native program that speaks ACP.
pub const OPENCODE: AgentProgram = AgentProgram("opencode");

/// Codex behind ACP: a script for node, which brings its own Codex.
const CODEX_ACP: AgentProgram = AgentProgram("codex-acp");

/// The agent that puts Codex behind ACP, as a program.
pub fn codex_acp_program() -> Option<PathBuf> {
    node_program(CODEX_ACP)
}

/// The environment for opencode: a private home whose only provider is the loopback model, and nothing to download.
pub fn opencode_environment(home: &Path, api: &ModelApi) -> io::Result<Vec<(String, String)>> {
    let folder = home.join(".config/opencode");
    fs::create_dir_all(&folder)?;
    let model = json!({
        "cost": { "input": 1, "output": 10, "cache_read": 0.1 },
        "limit": { "context": 200_000, "output": 8_000 },
    });
    let provider = json!({
        "npm": "@ai-sdk/openai-compatible",
        "options": { "baseURL": format!("{}/v1", api.base_url()), "apiKey": "dummy" },
        "models": { MODEL: model },
    });
    let name = format!("loopback/{MODEL}");
    let settings =
        json!({ "provider": { "loopback": provider }, "model": name, "small_model": name });
    fs::write(folder.join("opencode.json"), settings.to_string())?;
    let mut environment = common(home);
    for switch in ["AUTOUPDATE", "MODELS_FETCH", "LSP_DOWNLOAD"] {
        environment.push((format!("OPENCODE_DISABLE_{switch}"), "1".to_owned()));
    }
    Ok(environment)
}
