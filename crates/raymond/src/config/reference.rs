//! The settings as text: what `raymond config` shows, the file that `raymond init` writes, and the variables of the environment.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    fmt::Write as _,
    io,
    path::{Path, PathBuf},
};

use raymond_engine::{store::layout::StateDir, trust::private};

use super::{Config, FILE_NAME, SETTINGS, Setting};
use crate::{failure::Failure, out::one_line};

impl Config {
    /// All settings, one per line, with their origins.
    pub(crate) fn describe(&self) -> String {
        let line = |name: &str, value: &str, origin: &str| {
            let shown = if value.is_empty() { "-" } else { &one_line(value) };
            format!("{:<30} {shown:<24} {}\n", one_line(name), one_line(origin))
        };
        let defaults = SETTINGS.iter().map(|it| (it.name, line(it.name, it.default, "default")));
        let mut lines: BTreeMap<&str, String> = defaults.collect();
        if self.agents.is_empty() {
            lines.insert("agents.", line("agents.NAME", "", "see: raymond help agents"));
        }
        let said = self.shown.iter();
        lines.extend(said.map(|(name, (value, origin))| {
            (name.as_str(), line(name, value, &origin.to_string()))
        }));
        let withheld = self.withheld.iter().map(|(name, value, origin)| {
            line(name, value, &format!("{origin}, not trusted: raymond trust"))
        });
        lines.into_values().chain(withheld).collect()
    }
}

/// The settings that environment variables can have.
pub(super) fn settings_of_variables() -> impl Iterator<Item = &'static Setting> {
    SETTINGS.iter().filter(|setting| !setting.is_list())
}

/// The environment variables of all settings, and what they mean.
pub(crate) fn variables() -> Vec<(String, String)> {
    settings_of_variables().map(|setting| (setting.variable(), setting.help.to_owned())).collect()
}

/// Variables that are not settings: those that Raymond sets for steps, whose scripts may call it; the list of
/// trusted directories; and those for tests of Raymond itself.
const OTHER_VARIABLES: [&str; 25] = [
    "RAYMOND_AGENT_ID",
    "RAYMOND_COMMENT",
    "RAYMOND_COMMENT_FILE",
    "RAYMOND_FILES",
    "RAYMOND_FILES_FILE",
    "RAYMOND_FOLDER",
    "RAYMOND_INPUT",
    "RAYMOND_INPUT_FILE",
    "RAYMOND_RECOVERS",
    "RAYMOND_RESULT",
    "RAYMOND_RESULT_FILE",
    "RAYMOND_SESSION",
    "RAYMOND_SESSION_FROM",
    "RAYMOND_SESSION_MODE",
    "RAYMOND_STATE",
    "RAYMOND_STATE_DIR",
    "RAYMOND_STATE_FILE",
    "RAYMOND_STEP",
    "RAYMOND_TRUST",
    "RAYMOND_TURN_BUDGET",
    "RAYMOND_TURN_GRANTED",
    "RAYMOND_TURN_EFFORT",
    "RAYMOND_TURN_MODEL",
    "RAYMOND_VISIT",
    "RAYMOND_WORKFLOW_ID",
];
/// Prefixes of such variables: those of `--var`, and those for tests of Raymond itself.
const OTHER_PREFIXES: [&str; 5] =
    ["RAYMOND_ACP_", "RAYMOND_VAR_", "RAYMOND_TEST_", "RAYMOND_STORM", "RAYMOND_FAULTS"];

/// A warning for each variable whose name looks like a setting of Raymond but is none.
pub(crate) fn unknown_variables(names: impl Iterator<Item = OsString>) -> Vec<String> {
    let settings: Vec<_> = settings_of_variables().map(Setting::variable).collect();
    let known = || settings.iter().map(String::as_str).chain(OTHER_VARIABLES);
    let names = names.filter_map(|name| name.into_string().ok());
    let mut names: Vec<_> = names.filter(|name| name.starts_with("RAYMOND_")).collect();
    names.retain(|name| {
        !known().any(|known| known == name)
            && !OTHER_PREFIXES.iter().any(|start| name.starts_with(start))
    });
    names.sort();
    let text = |name: String| {
        let similar = known().min_by_key(|known| strsim::damerau_levenshtein(known, &name));
        let similar = similar.filter(|known| strsim::damerau_levenshtein(known, &name) <= 2);
        let meant = similar.map(|known| format!(" (did you mean {known}?)")).unwrap_or_default();
        format!("{name} is set, but there is no such setting{meant}")
    };
    names.into_iter().map(text).collect()
}

/// Writes a file with every setting as a comment, and returns its path. An existing file is not changed.
pub(crate) fn write_template(state_dir: &Path) -> Result<PathBuf, Failure> {
    let path = state_dir.join(FILE_NAME);
    let mut text = String::from(
        "# Settings of Raymond for this project. Environment variables (RAYMOND_BUDGET=5) override them, and\n\
         # options (--budget 5) override both. They override your own settings for all projects.\n\
         # `raymond config` shows the values in effect and where they come from.\n",
    );
    let mut tables: BTreeMap<&str, Vec<(&str, &Setting)>> = BTreeMap::new();
    for key in SETTINGS {
        let (table, name) = key.name.rsplit_once('.').unwrap_or(("", key.name));
        tables.entry(table).or_default().push((name, key));
    }
    for (table, keys) in tables {
        if !table.is_empty() {
            let _ = writeln!(text, "\n[{table}]");
        }
        for (name, key) in keys {
            let _ = writeln!(text, "\n# {}\n# {name} = {}", key.help, literal(key));
        }
    }
    text.push_str(AGENTS_EXAMPLE);
    let create = || -> io::Result<()> {
        StateDir::new(state_dir).create()?;
        let mut file = private::options().create_new(true).write(true).open(&path)?;
        io::Write::write_all(&mut file, text.as_bytes())
    };
    match create() {
        Ok(()) => Ok(path),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            let hint = "edit that file; show the settings in effect: raymond config";
            let message = format!("{} already exists", path.display());
            Err(Failure::usage(message).with_hint(hint))
        }
        Err(error) => Err(Failure::io(&format!("write {}", path.display()), &error)),
    }
}

/// An example of another coding agent: see `raymond help operations`.
const AGENTS_EXAMPLE: &str = r#"
# Other coding agents, for states with `agent: NAME`: see `raymond help agents`. `[agents.claude]` is Claude Code.
# Codex does not report what a turn costs, so a budget needs prices: dollars for a million tokens.
#[agents.codex]
#model = "gpt-5.2"
#prices = { input = 1.25, cached_input = 0.125, output = 10 }
"#;

/// A setting's default in TOML syntax.
fn literal(setting: &Setting) -> String {
    let default = setting.default;
    let is_bare = default.parse::<f64>().is_ok() || default.parse::<bool>().is_ok();
    if is_bare || setting.is_list() { default.to_owned() } else { format!("{default:?}") }
}
