//! A table `[agents.NAME]` of the settings, and the kinds of coding agents that such a table can describe.
//!
//! ```toml
//! [agents.codex]                     # known by its name
//! model = "gpt-5.2"
//! prices = { input = 1.25, cached_input = 0.125, output = 10 }
//!
//! [agents.quick]                     # the same program, used in another way
//! kind = "codex"
//! model = "gpt-5.2-mini"
//!
//! [agents.goose]                     # speaks ACP
//! acp = ["goose", "acp"]
//!
//! [agents.own]                       # any program
//! program = "my-adapter"
//! names_sessions = true
//! ```

use std::{
    collections::BTreeMap,
    env,
    num::NonZeroU32,
    path::{Path, PathBuf},
};

use raymond_flow::{
    money::Usd,
    text::{excerpt, looks_like_an_option},
};
use serde::{Deserialize, Deserializer, de::Error as _};
use serde_json::{Map, Value};

use super::{CodingAgent, Prices, account, acp, claude, codex, pi, program};
use crate::{exec::programs, trust::regular};

/// How far above a program its package is looked for: a native one is some directories below.
const FOLDERS_MAX: usize = 8;
/// The longest `package.json` that is read: those of coding agents have some kilobytes.
const PACKAGE_BYTES_MAX: u64 = 1024 * 1024;

/// What a `package.json` says of its package.
#[derive(Deserialize)]
struct Package {
    name: String,
    version: String,
}

/// A kind of coding agents.
#[derive(Clone, Copy, Debug)]
pub struct AgentKind {
    /// Its name as the key `kind`; of those that are known by their names also the name in frontmatter, and that of the program.
    pub name: &'static str,
    /// The keys that its table can have.
    pub keys: &'static [&'static str],
    /// The coding agent with these settings.
    pub make: fn(AgentConfig) -> Box<dyn CodingAgent>,
}

/// Those that can be used without settings; a table `[agents.NAME]` changes how. The first is for states that name none.
pub const NATIVES: [AgentKind; 3] = [claude::KIND, codex::KIND, pi::KIND];

impl AgentKind {
    /// The kind of the table `name` with this key `kind`, if it has one; the error says what that must be.
    pub fn of_table(name: &str, kind: Option<&str>, has_acp: bool) -> Result<Self, String> {
        if has_acp {
            return Ok(acp::KIND);
        }
        let known = NATIVES.into_iter().find(|known| known.name == kind.unwrap_or(name));
        known
            .or((kind.is_none_or(|kind| kind == program::KIND.name)).then_some(program::KIND))
            .ok_or_else(|| {
                let known = NATIVES.map(|known| known.name).join(", ");
                format!("must be one of: {known}, {}", program::KIND.name)
            })
    }
}

/// How a coding agent is used. Which keys have a meaning depends on its [kind](AgentKind::keys).
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AgentConfig {
    /// Its name in frontmatter.
    #[serde(skip)]
    pub name: String,
    /// The client of the protocol and its first arguments, for a coding agent that speaks ACP.
    #[serde(skip)]
    pub client: Vec<String>,
    /// Directories of the user that no turn may edit: the key and the settings of Raymond.
    #[serde(skip)]
    pub closed_dirs: Vec<PathBuf>,
    /// Its kind, if its name does not say it.
    pub kind: Option<String>,
    /// The program, if it is not the usual one.
    #[serde(deserialize_with = "word")]
    pub program: Option<String>,
    /// Further arguments for every turn.
    pub arguments: Vec<String>,
    /// The command of a coding agent that speaks ACP.
    #[serde(deserialize_with = "command")]
    pub acp: Vec<String>,
    /// The mode of its own that it is set to.
    #[serde(deserialize_with = "word")]
    pub mode: Option<String>,
    /// The model of turns that name none.
    #[serde(deserialize_with = "model")]
    pub model: Option<String>,
    /// The models to use while the one of a turn is not available, for states that name none.
    #[serde(deserialize_with = "models")]
    pub fallback_model: Vec<String>,
    /// How often a turn may ask the model, for states that do not say it.
    pub max_turns: Option<NonZeroU32>,
    /// What is added to the system prompt in states that do not say it.
    #[serde(deserialize_with = "word")]
    pub system: Option<String>,
    /// The tools that a state may ask for, besides those that read and edit files.
    pub tools: Vec<String>,
    /// Whether what it asks with its own tools is put to a person.
    pub questions: bool,
    /// The MCP servers that a state may name, each as Claude reads it.
    pub mcp: BTreeMap<String, Map<String, Value>>,
    /// The directories that a state may add, and all below them.
    #[serde(deserialize_with = "absolute")]
    pub add_dirs: Vec<PathBuf>,
    /// Whether it chooses the ids of its sessions.
    pub names_sessions: Option<bool>,
    /// Whether it can branch a session.
    pub can_branch: Option<bool>,
    /// Whether an interrupted turn can be continued.
    pub can_continue: Option<bool>,
    /// Whether it ends a turn that has spent what it may.
    pub can_limit: Option<bool>,
    /// Whether it reports what a turn cost.
    pub reports_cost: Option<bool>,
    /// The prices of its tokens, for turns whose cost it does not report.
    pub prices: Option<Prices>,
}

/// A text that is not blank.
fn word<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    let text = String::deserialize(deserializer)?;
    if text.trim().is_empty() { Err(D::Error::custom("must not be empty")) } else { Ok(Some(text)) }
}

/// A text that no program takes for an option.
fn model<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    match word(deserializer)? {
        Some(model) if looks_like_an_option(&model) => {
            Err(D::Error::custom("must not begin with a dash"))
        }
        model => Ok(model),
    }
}

fn command<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    let words = Vec::<String>::deserialize(deserializer)?;
    if words.is_empty() {
        return Err(D::Error::custom("must be a list: the program and its arguments"));
    }
    Ok(words)
}

fn models<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    let models = match Value::deserialize(deserializer)? {
        Value::String(model) => Ok(vec![model]),
        value => serde_json::from_value::<Vec<String>>(value),
    };
    let is_model = |model: &String| {
        !(model.trim().is_empty() || looks_like_an_option(model) || model.contains(','))
    };
    let models = models.ok().filter(|models| models.iter().all(is_model));
    let must = "must be the name of a model, or a list of names";
    models.ok_or_else(|| D::Error::custom(must))
}

fn absolute<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<PathBuf>, D::Error> {
    let dirs = Vec::<PathBuf>::deserialize(deserializer)?;
    if !dirs.iter().all(|dir| dir.is_absolute()) {
        return Err(D::Error::custom("must be a list of absolute directories"));
    }
    Ok(dirs)
}

impl AgentConfig {
    /// The name of the account that it uses: the login in `home`, unless one of these environment variables names a key or
    /// another address; arguments may choose another provider, too.
    pub(super) fn account(&self, kind: &str, home: &Path, keys: &[&str], provider: &str) -> String {
        let home = home.to_string_lossy();
        let set: Vec<_> = keys.iter().map(|key| env::var(key).unwrap_or_default()).collect();
        let own = [&*home, provider].into_iter().chain(set.iter().map(String::as_str));
        account(kind, own.chain(self.arguments.iter().map(String::as_str)))
    }

    /// The same with this model, for a check that uses no account of the user's: only the user's own arguments are left out, which
    /// may name one.
    pub(super) fn apart(&self, model: &str) -> Self {
        let dollar = Usd::from_billionths(1_000_000_000);
        let ten = Usd::from_billionths(10_000_000_000);
        Self {
            arguments: Vec::new(),
            model: Some(model.to_owned()),
            prices: Some(Prices { input: dollar, cached_input: dollar, output: ten }),
            ..self.clone()
        }
    }

    /// The version of the npm package to which `program` belongs, for a coding agent that does not say its own in a turn. Read from
    /// files: to start it once more would double the time of a short turn. `None` if npm did not install it.
    pub(super) fn version(kind: &str, program: &str, package: &str) -> Option<String> {
        let program = programs::find(program)?.canonicalize().ok()?;
        let mut folders = program.ancestors().skip(1).take(FOLDERS_MAX);
        let found = folders.find_map(|folder| {
            let text =
                regular::read_linked(&folder.join("package.json"), PACKAGE_BYTES_MAX).ok()?;
            let found: Package = serde_json::from_slice(&text).ok()?;
            (found.name == package).then_some(found.version)
        })?;
        // A package for one platform may have that behind the number.
        let number = found.split('-').next().unwrap_or_default();
        Some(format!("{kind} {}", excerpt(number)))
    }

    /// The directory that the environment variable names, else this one in the user's home.
    pub(super) fn directory(variable: &str, in_home: &str) -> PathBuf {
        let set = |name: &str| env::var_os(name).filter(|text| !text.is_empty()).map(PathBuf::from);
        set(variable).unwrap_or_else(|| set("HOME").unwrap_or_default().join(in_home))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "in tests a panic is the message")]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn version_is_that_of_the_package_around_the_program() {
        let folder = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, text).unwrap();
            path.to_str().unwrap().to_owned()
        };
        write("pi/package.json", r#"{"name":"@p/pi","version":"1.5.0","more":[]}"#);
        // What is bundled has a file of the same name.
        write("pi/dist/package.json", r#"{"type":"module"}"#);
        write("x/package.json", r#"{"name":"@o/codex","version":"0.169.0-linux-x64"}"#);
        let pi = write("pi/dist/bundle/cli.js", "");
        let codex = write("x/vendor/x86/bin/codex", "");
        let of = |program: &str, package| AgentConfig::version("a", program, package);
        assert_eq!(of(&pi, "@p/pi").as_deref(), Some("a 1.5.0"));
        assert_eq!(of(&codex, "@o/codex").as_deref(), Some("a 0.169.0"));
        assert_eq!(of(&codex, "@p/pi"), None);
        assert_eq!(of("/nowhere/pi", "@p/pi"), None);
    }
}
