//! The tables `[agents.NAME]`, and the coding agents with these settings.

use std::{env, path::PathBuf};

use raymond_engine::{
    agent::{AgentConfig, AgentKind, Agents, NATIVES},
    store::user::UserDir,
};
use raymond_flow::text::looks_like_an_option;
use serde::Deserialize as _;
use toml::{
    Spanned,
    de::{DeString, DeValue, ValueDeserializer},
};

use super::{Config, Origin, Source, user_folder};
use crate::failure::Failure;

/// One table `[agents.NAME]`.
#[derive(Clone, Debug)]
pub(crate) struct AgentSettings {
    kind: AgentKind,
    config: AgentConfig,
    /// What it says: key, value, origin. Of servers only their names: their values may be secret.
    pub(super) shown: Vec<(String, String, Origin)>,
}

impl AgentSettings {
    /// Reads the table `value` of the coding agent `name`.
    pub(super) fn read(
        name: &Spanned<DeString<'_>>,
        value: &Spanned<DeValue<'_>>,
        source: Source<'_>,
    ) -> Result<Self, Failure> {
        let (start, name) = (name.span().start, name.get_ref());
        let wrong =
            |at, why: &str| Failure::usage(format!("{}: `agents.{name}{why}", source.at(at)));
        let Some(table) = value.get_ref().as_table() else {
            return Err(wrong(start, "` must be a table"));
        };
        if name.trim().is_empty() || looks_like_an_option(name) {
            let why = "` is not a valid name: it must not be empty or begin with a dash";
            return Err(wrong(start, why));
        }
        let kind = value.get_ref().get("kind").map(|kind| kind.get_ref().as_str().unwrap_or(""));
        let kind = AgentKind::of_table(name, kind, value.get_ref().get("acp").is_some());
        let kind = kind.map_err(|why| wrong(start, &format!(".kind` {why}")))?;
        if let Some(key) = table.keys().find(|key| !kind.keys.contains(&&**key.get_ref())) {
            let known = kind.keys.join(", ");
            let why = format!(".{}` is unknown; known: {known}", key.get_ref());
            return Err(wrong(key.span().start, &why));
        }
        let config = AgentConfig::deserialize(ValueDeserializer::from(value.clone()));
        let config = config.map_err(|error| {
            let at = error.span().map_or(start, |span| span.start);
            let keys = table.keys().filter(|key| key.span().start <= at);
            let key = keys.max_by_key(|key| key.span().start).map(Spanned::get_ref);
            let key = key.map_or("", |key| key);
            wrong(at, &format!(".{key}`: {}", error.message()))
        })?;
        if config.program.is_none() && kind.keys.contains(&"names_sessions") {
            return Err(wrong(start, "` needs a `program`"));
        }
        let shown = table.iter().map(|(key, value)| {
            let servers = config.mcp.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
            let said = if key.get_ref() == "mcp" { servers } else { shown(value.get_ref()) };
            (key.get_ref().to_string(), said, source.at(key.span().start))
        });
        Ok(Self { kind, shown: shown.collect(), config })
    }

    /// Whether it says more than which model to use.
    pub(super) fn gives_power(&self) -> bool {
        self.shown.iter().any(|(key, ..)| key != "model")
    }

    /// Takes the model of `other`, if it has one, and keeps the rest.
    pub(super) fn change_model(&mut self, other: Self) {
        self.config.model = other.config.model.or(self.config.model.take());
    }

    /// Its servers as they would be started: a user who is asked for trust sees that.
    pub(super) fn servers(&self) -> String {
        serde_json::to_string(&self.config.mcp).unwrap_or_default()
    }
}

/// The coding agents that Raymond knows, Claude Code first, and those of the settings.
pub(crate) fn agents(config: &Config) -> Agents {
    let mut tables = config.agents.clone();
    let natives = NATIVES.map(|kind| {
        let (config, shown) = (AgentConfig::default(), Vec::new());
        let table = tables.remove(kind.name).unwrap_or(AgentSettings { kind, config, shown });
        (kind.name.to_owned(), table)
    });
    let own = env::current_exe().map(|path| path.to_string_lossy().into_owned());
    let client = [own.unwrap_or_else(|_| "raymond".to_owned()), "__acp".to_owned()];
    let agents = natives.into_iter().chain(tables).map(|(name, table)| {
        let mut own =
            AgentConfig { client: client.to_vec(), closed_dirs: closed_dirs(), ..table.config };
        // The environment overrides the table.
        if name == "claude" {
            own.program = config.said.claude_program.clone().or(own.program);
        }
        (table.kind.make)(AgentConfig { name, ..own })
    });
    Agents::new(agents.collect())
}

/// Where the user's key and settings are.
fn closed_dirs() -> Vec<PathBuf> {
    let state = UserDir::here().map(|user| user.root().to_owned());
    state.into_iter().chain(user_folder(|name| env::var_os(name))).collect()
}

/// A value as `raymond config` shows it.
fn shown(value: &DeValue<'_>) -> String {
    match value {
        DeValue::String(text) => text.to_string(),
        DeValue::Integer(number) => number.to_string(),
        DeValue::Float(number) => number.to_string(),
        DeValue::Boolean(switch) => switch.to_string(),
        DeValue::Array(items) => {
            let items: Vec<_> = items.iter().map(|item| shown(item.get_ref())).collect();
            format!("{items:?}")
        }
        DeValue::Table(table) => {
            let pairs = table.iter();
            let pairs: Vec<_> = pairs
                .map(|(key, value)| format!("{} {}", key.get_ref(), shown(value.get_ref())))
                .collect();
            pairs.join(", ")
        }
        DeValue::Datetime(time) => time.to_string(),
    }
}
