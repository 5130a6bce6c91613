//! Settings: two files, the environment, and where each value comes from.
//!
//! The user's `config.toml` applies to all projects. The one in the state directory overrides it, the
//! environment overrides both, and options override everything. All values are checked by one table
//! ([`SETTINGS`]), so that a wrong one is reported in the same way wherever it comes from.

mod agents;
mod overrides;
mod reference;
mod setting;
#[cfg(test)]
mod tests;

use std::{
    collections::BTreeMap,
    env,
    ffi::OsString,
    fmt, io,
    path::{Path, PathBuf},
};

use raymond_engine::{store::user::UserDir, trust, trust::regular};
use toml::de::{DeTable, DeValue};

use crate::failure::Failure;

pub(crate) use agents::{AgentSettings, agents};
pub(crate) use overrides::Overrides;
use reference::settings_of_variables;
pub(crate) use reference::{unknown_variables, variables, write_template};
pub(crate) use setting::{Given, SETTINGS, Scope, Setting};

/// The name of the file.
const FILE_NAME: &str = "config.toml";
/// Every setting a thousand times.
const FILE_BYTES_MAX: u64 = 1024 * 1024;

/// The file at `path` as the user has trusted it.
fn trusted(path: &Path) -> Option<String> {
    String::from_utf8(UserDir::here()?.trusted(path, FILE_BYTES_MAX)?).ok()
}

/// Where a value comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    File { path: PathBuf, line: usize },
    Environment(String),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File { path, line } => write!(f, "{} line {line}", path.display()),
            Self::Environment(name) => f.write_str(name),
        }
    }
}

/// The file that is read.
#[derive(Clone, Copy, Debug)]
struct Source<'a> {
    path: &'a Path,
    text: &'a str,
}

impl Source<'_> {
    /// Where a byte of it is.
    fn at(&self, offset: usize) -> Origin {
        let before = self.text.bytes().take(offset);
        let line = before.filter(|byte| *byte == b'\n').count() + 1;
        Origin::File { path: self.path.to_owned(), line }
    }
}

/// The settings of a project.
#[derive(Clone, Debug)]
pub(crate) struct Config {
    /// What is set.
    pub(crate) said: Overrides,
    /// The same, with the defaults of what is not.
    pub(crate) all: Overrides,
    /// The tables `[agents.NAME]`.
    pub(crate) agents: BTreeMap<String, AgentSettings>,
    /// What is set, as it was written, by name.
    shown: BTreeMap<String, (String, Origin)>,
    /// Settings of the project that give power and that the user has not trusted, so they do not count: name, value, origin.
    pub(crate) withheld: Vec<(String, String, Origin)>,
    /// The settings that give power in the version of the project's file that the user has trusted before, if there is one.
    pub(crate) trusted_before: Option<BTreeMap<String, String>>,
    /// Whether settings that give power are withheld at the moment, because those of the project are read.
    withholds: bool,
    /// The project's file as it was read.
    project_file: Option<(PathBuf, String)>,
}

impl Default for Config {
    fn default() -> Self {
        let mut all = Overrides::default();
        for setting in settings_of_variables() {
            let _ = (setting.set)(&mut all, &Given::One(setting.default.to_owned()));
        }
        Self {
            said: Overrides::default(),
            all,
            agents: BTreeMap::new(),
            shown: BTreeMap::new(),
            withheld: Vec::new(),
            trusted_before: None,
            withholds: false,
            project_file: None,
        }
    }
}

impl Config {
    /// The settings of the project with this state directory.
    pub(crate) fn load(state_dir: &Path) -> Result<Self, Failure> {
        let mut config = Self::default();
        let user = user_folder(|name| env::var_os(name));
        // Skip a directory of another user: HOME does not change when a program changes its user.
        let user = user.filter(|folder| !is_closed(folder));
        if let Some(folder) = user {
            config.add_layer(&folder.join(FILE_NAME), false)?;
        }
        config.add_layer(&state_dir.join(FILE_NAME), true)?;
        let hint = "fix or unset that variable, then run the same command again";
        let added = config.add_environment(|name| env::var(name).ok());
        added.map_err(|failure| failure.with_hint(hint))?;
        Ok(config)
    }

    /// Adds the settings of the file at `path`, if it exists. They override earlier ones.
    fn add_layer(&mut self, path: &Path, is_project: bool) -> Result<(), Failure> {
        let read = |error| Failure::io(&format!("read {}", path.display()), &error);
        let open = if is_project { regular::open } else { regular::open_linked };
        match open(path) {
            Ok(file) => {
                trust::check_file(path, &file)?;
                let text = regular::text_of(&file, path, FILE_BYTES_MAX).map_err(read)?;
                let hint = "fix or remove that line, then run the same command again";
                if is_project && !trust::is_trusted(path) {
                    let before = trusted(path);
                    self.withholds = before.as_ref() != Some(&text);
                    self.trusted_before = before.map(|before| self.power_in(path, &before));
                }
                let added = self.add_file(path, &text);
                self.withholds = false;
                self.project_file = is_project.then(|| (path.to_owned(), text));
                added.map_err(|failure| failure.with_hint(hint))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(read(error)),
        }
    }

    /// The settings that give power in a version of the project's file.
    fn power_in(&self, path: &Path, text: &str) -> BTreeMap<String, String> {
        let mut other = Self { withholds: true, withheld: Vec::new(), ..self.clone() };
        let _ = other.add_file(path, text);
        other.withheld.into_iter().map(|(name, value, _)| (name, value)).collect()
    }

    /// Remembers that the user trusts the project's file as it is.
    pub(crate) fn trust_project(&self) -> Result<(), Failure> {
        let Some((path, text)) = &self.project_file else { return Ok(()) };
        let user = UserDir::here().ok_or(io::ErrorKind::NotFound.into());
        let trusted = user.and_then(|user| user.trust(path, text.as_bytes()));
        trusted.map_err(|error| Failure::io("remember that in your state directory", &error))
    }

    fn add_file(&mut self, path: &Path, text: &str) -> Result<(), Failure> {
        let source = Source { path, text };
        let table = DeTable::parse(text).map_err(|error| {
            let origin = source.at(error.span().map_or(0, |span| span.start));
            Failure::usage(format!("{origin}: {}", error.message()))
        })?;
        self.add_table("", table.get_ref(), source)
    }

    fn add_table(
        &mut self,
        prefix: &str,
        table: &DeTable<'_>,
        source: Source<'_>,
    ) -> Result<(), Failure> {
        for (key, value) in table {
            let name = format!("{prefix}{}", key.get_ref());
            match value.get_ref() {
                DeValue::Table(agents) if name == "agents" => self.add_agents(agents, source)?,
                DeValue::Table(inner) => self.add_table(&format!("{name}."), inner, source)?,
                value => self.set(&name, &given(value), source.at(key.span().start))?,
            }
        }
        Ok(())
    }

    fn add_agents(&mut self, agents: &DeTable<'_>, source: Source<'_>) -> Result<(), Failure> {
        for (key, value) in agents {
            let (name, table) = (key.get_ref(), AgentSettings::read(key, value, source)?);
            let shown = table.shown.iter().cloned();
            let named = |(key, value, origin)| (format!("agents.{name}.{key}"), value, origin);
            if self.withholds && table.gives_power() {
                self.withheld.extend(shown.map(|(key, value, origin)| {
                    let value = if key == "mcp" { table.servers() } else { value };
                    named((key, value, origin))
                }));
                continue;
            }
            let shown = shown.map(named).map(|(name, value, origin)| (name, (value, origin)));
            let shown: Vec<_> = shown.collect();
            match self.agents.get_mut(&**name) {
                // What the user has said of its program, its tools and its sandbox holds with another model, too.
                Some(own) if !table.gives_power() => own.change_model(table),
                _ => {
                    self.shown.retain(|known, _| !known.starts_with(&format!("agents.{name}.")));
                    self.agents.insert(name.to_string(), table);
                }
            }
            self.shown.extend(shown);
        }
        Ok(())
    }

    fn add_environment(&mut self, get: impl Fn(&str) -> Option<String>) -> Result<(), Failure> {
        for setting in settings_of_variables() {
            let variable = setting.variable();
            if let Some(text) = get(&variable).filter(|text| !text.is_empty()) {
                self.set(setting.name, &Given::One(text), Origin::Environment(variable))?;
            }
        }
        Ok(())
    }

    fn set(&mut self, name: &str, given: &Given, origin: Origin) -> Result<(), Failure> {
        let Some(setting) = Setting::named(name) else {
            let similar = |known: &&Setting| strsim::damerau_levenshtein(known.name, name) <= 2;
            let suggestion = SETTINGS.iter().find(similar);
            let suggestion = suggestion.map(|key| format!(" (did you mean `{}`?)", key.name));
            let suggestion = suggestion.unwrap_or_default();
            return Err(Failure::usage(format!("{origin}: unknown setting `{name}`{suggestion}")));
        };
        let shown = match given {
            Given::One(text) => text.clone(),
            Given::Many(items) => format!("{items:?}"),
            Given::Other => String::new(),
        };
        (setting.set)(&mut Overrides::default(), given).map_err(|why| {
            let has_value = matches!(given, Given::One(_)) && !setting.is_list();
            let value = has_value.then(|| format!(": `{shown}`"));
            let value = value.unwrap_or_default();
            Failure::usage(format!("{origin}: `{name}`{value} {why}"))
        })?;
        let own = self.shown.get(name).map_or(setting.default, |(text, _)| text);
        if self.withholds && (setting.gives_power)(own, &shown) {
            self.withheld.push((name.to_owned(), shown, origin));
            return Ok(());
        }
        for overrides in [&mut self.said, &mut self.all] {
            let _ = (setting.set)(overrides, given);
        }
        self.shown.insert(name.to_owned(), (shown, origin));
        Ok(())
    }
}

/// The directory of the user's own settings, which hold in all projects.
fn user_folder(get: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    // A relative path would mean another file in every directory.
    let absolute = |name: &str| get(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let base = if cfg!(windows) {
        absolute("APPDATA")
    } else {
        absolute("XDG_CONFIG_HOME").or_else(|| absolute("HOME").map(|home| home.join(".config")))
    };
    base.map(|base| base.join("raymond"))
}

/// Whether this user has no access to `folder`.
fn is_closed(folder: &Path) -> bool {
    let looked = folder.join(FILE_NAME).symlink_metadata();
    looked.is_err_and(|error| error.kind() == io::ErrorKind::PermissionDenied)
}

/// A value of a file.
fn given(value: &DeValue<'_>) -> Given {
    match value {
        DeValue::String(text) => Given::One(text.to_string()),
        DeValue::Integer(number) => Given::One(number.to_string()),
        DeValue::Float(number) => Given::One(number.to_string()),
        DeValue::Boolean(switch) => Given::One(switch.to_string()),
        DeValue::Array(items) => {
            let texts = items.iter().map(|item| item.get_ref().as_str().map(str::to_owned));
            texts.collect::<Option<_>>().map_or(Given::Other, Given::Many)
        }
        DeValue::Datetime(_) | DeValue::Table(_) => Given::Other,
    }
}
