//! What a state asks for besides model, effort and permissions, as options of Claude.
//!
//! A workflow starts no program and reads no directory that its user has not allowed: it names MCP servers of the
//! user's settings and does not define any, and a directory outside of the working directory must be one of the settings.

use std::path::{Path, PathBuf};

use raymond_flow::machine::{FailureClass, TurnFailure};
use serde_json::{Map, Value, json};

use super::{ClaudeConfig, permissions};
use crate::{agent::TurnRequest, exec::programs};

/// Makes Claude render the system prompt of this start. Otherwise it sends the first one of the session again, whatever
/// later starts add to it.
pub(super) const FORGET_SYSTEM: [&str; 2] = ["--system-prompt-snapshot", "off"];

/// Parts of a server's definition that may be secret.
const SECRET: [&str; 2] = ["env", "headers"];

/// The options of a turn.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Chosen {
    pub(super) arguments: Vec<String>,
    /// Values that must not be seen in the list of processes.
    pub(super) environment: Vec<(String, String)>,
}

/// The options that the state of a turn asks for; an error if it may not have them.
pub(super) fn chosen(
    config: &ClaudeConfig,
    request: &TurnRequest<'_>,
) -> Result<Chosen, TurnFailure> {
    let asked = &request.turn.settings.options;
    let mut chosen = Chosen::default();
    let mut add = |option: &str, value: String| {
        chosen.arguments.extend([option.to_owned(), value]);
    };
    let fallback = if asked.fallback_model.is_empty() {
        &config.fallback_model
    } else {
        &asked.fallback_model
    };
    if !fallback.is_empty() {
        add("--fallback-model", fallback.join(","));
    }
    if let Some(most) = asked.max_turns.or(config.max_turns) {
        add("--max-turns", most.to_string());
    }
    if let Some(text) = asked.system.as_ref().or(config.system.as_ref()) {
        add("--append-system-prompt", text.clone());
    }
    if let Some(schema) = &asked.schema {
        add("--json-schema", schema.clone());
    }
    for directory in &asked.add_dirs {
        let directory = directory_to_add(config, request, directory)?;
        add("--add-dir", directory.to_string_lossy().into_owned());
    }
    if let Some(names) = &asked.mcp {
        let (servers, environment) = servers(config, names)?;
        add("--mcp-config", servers.to_string());
        chosen.arguments.push("--strict-mcp-config".to_owned());
        chosen.environment = environment;
    } else if request.turn.settings.permissions.as_deref() == Some(permissions::PLAN) {
        // A server is a program, and starting it may change anything.
        chosen.arguments.push("--strict-mcp-config".to_owned());
    }
    Ok(chosen)
}

/// The real path of a directory that a state asks for.
fn directory_to_add(
    config: &ClaudeConfig,
    request: &TurnRequest<'_>,
    asked: &str,
) -> Result<PathBuf, TurnFailure> {
    let real = |path: &Path| path.canonicalize().ok().filter(|path| path.is_dir());
    let Some(directory) = real(&request.cwd.join(asked)) else {
        return refused(format!("`add_dirs` of the state: there is no directory `{asked}`"));
    };
    let mut allowed =
        std::iter::once(request.cwd).chain(config.add_dirs.iter().map(PathBuf::as_path));
    let is_allowed = request.turn.settings.skip_permissions
        || allowed.any(|allowed| real(allowed).is_some_and(|real| directory.starts_with(real)));
    if !is_allowed {
        return refused(format!(
            "`add_dirs` of the state asks for `{}`, which is outside of the working directory: add it to `add_dirs` \
             under `[agents.claude]` in config.toml, or run with `--dangerously-skip-permissions`",
            directory.display()
        ));
    }
    Ok(directory)
}

/// The definitions of the servers with these names, and the environment that they refer to.
fn servers(
    config: &ClaudeConfig,
    names: &[String],
) -> Result<(Value, Vec<(String, String)>), TurnFailure> {
    let mut environment = Vec::new();
    let mut servers = Map::new();
    for name in names {
        let Some(server) = config.mcp.get(name) else {
            return refused(format!(
                "`mcp` of the state asks for the server `{name}`, which the settings do not have: define it as \
                 [agents.claude.mcp.{name}] in config.toml"
            ));
        };
        let mut server = server.clone();
        for part in SECRET {
            let values = server.get_mut(part).and_then(Value::as_object_mut);
            for value in values.into_iter().flat_map(Map::values_mut) {
                hide(value, &mut environment);
            }
        }
        servers.insert(name.clone(), server);
    }
    Ok((json!({ "mcpServers": servers }), environment))
}

/// Moves a text into the environment: Claude expands `${NAME}`. A text that names a variable itself is left alone.
fn hide(value: &mut Value, environment: &mut Vec<(String, String)>) {
    if let Value::String(text) = value
        && !text.contains("${")
    {
        let name = format!("MCP_VALUE_{}", environment.len() + 1);
        environment.push((name.clone(), std::mem::take(text)));
        *text = format!("${{{name}}}");
    }
}

/// Whether Claude has the option [`FORGET_SYSTEM`], which older versions refuse. It is asked once, by the first turn
/// that needs it.
pub(super) fn keeps_system(program: &str) -> bool {
    programs::says(program, "--help").is_some_and(|help| help.contains(FORGET_SYSTEM[0]))
}

fn refused<T>(message: String) -> Result<T, TurnFailure> {
    Err(TurnFailure { class: FailureClass::Misconfigured, message })
}

#[cfg(test)]
mod tests;
