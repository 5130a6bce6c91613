//! Settings: two files, the environment, and where each value comes from.
//!
//! The user's `config.toml` applies to all projects. The one in the state directory overrides it, the
//! environment overrides both, and options override everything. All values are checked by one table of keys,
//! so that a wrong one is reported in the same way wherever it comes from.

use std::{
    collections::BTreeMap,
    env,
    ffi::OsString,
    fmt::{self, Write as _},
    io,
    path::{Path, PathBuf},
};

use raymond_engine::{
    store::{layout::StateDir, user::UserDir},
    trust,
    trust::{private, regular},
};
use raymond_flow::{money::Usd, source::Timeout, text::looks_like_an_option};
use toml::de::{DeTable, DeValue};

use crate::{
    agent_settings::AgentSettings, failover::FailoverSettings, failure::Failure,
    notify::NotifySettings, out::one_line,
};

/// The name of the file.
const FILE_NAME: &str = "config.toml";
/// Every setting a thousand times.
const FILE_BYTES_MAX: u64 = 1024 * 1024;

/// A setting.
struct Key {
    name: &'static str,
    /// The value if it is not set.
    default: &'static str,
    help: &'static str,
    /// The check of a value: what is wrong with it.
    wrong: fn(&str) -> Option<&'static str>,
}

/// The values of tables that are not set.
const UNSET: [(&str, &str); 4] = [
    ("failover.handoff", "false"),
    ("failover.order", "[]"),
    ("notify.command", "[]"),
    ("notify.on", "[\"ask\"]"),
];

/// All settings, sorted by name.
static KEYS: [Key; 21] = [
    Key {
        name: "agent",
        default: "claude",
        help: "the coding agent for states that name none",
        wrong: never,
    },
    Key {
        name: "agent_program",
        default: "",
        help: "a program that carries out prompts instead of Claude Code: short for [agents.program]",
        wrong: never,
    },
    Key {
        name: "ask",
        default: "wait",
        help: "what to do when a person is asked: wait, default (answer by default) or fail",
        wrong: on_ask,
    },
    Key {
        name: "budget",
        default: "10",
        help: "what all agents of a run may spend, in US dollars; 0 is no limit",
        wrong: dollars,
    },
    Key {
        name: "claude.arguments",
        default: "[]",
        help: "further arguments for every turn of Claude Code",
        wrong: never,
    },
    Key {
        name: "claude.program",
        default: "claude",
        help: "the program of Claude Code",
        wrong: never,
    },
    Key {
        name: "dangerously_skip_permissions",
        default: "false",
        help: "let coding agents use every tool without asking",
        wrong: switch,
    },
    Key {
        name: "disk_reserve",
        default: "33554432",
        help: "what must be free on the disk before a step starts, in bytes",
        wrong: large,
    },
    Key {
        name: "effort",
        default: "",
        help: "the effort for states that name none",
        wrong: option,
    },
    Key {
        name: "keep_script_steps",
        default: "500",
        help: "how many finished script steps of a run keep their files; 0 keeps all",
        wrong: large,
    },
    Key {
        name: "max_iterations",
        default: "0",
        help: "how many states all agents of a run may enter; 0 is no limit",
        wrong: large,
    },
    Key {
        name: "max_parallel",
        default: "16",
        help: "how many turns of coding agents may run at once",
        wrong: at_least_one,
    },
    Key { name: "model", default: "", help: "the model for states that name none", wrong: option },
    Key {
        name: "no_wait",
        default: "false",
        help: "pause the run and exit when a usage limit is reached, or when only questions to people are left",
        wrong: switch,
    },
    Key {
        name: "reset_margin",
        default: "30",
        help: "how many seconds after the announced time a usage limit counts as lifted",
        wrong: number,
    },
    Key {
        name: "retries",
        default: "3",
        help: "how often a turn is retried after a failure of an unknown kind; 0 retries nothing",
        wrong: number,
    },
    Key {
        name: "retry_for",
        default: "10m",
        help: "how long a turn is retried while the provider is overloaded or cannot be reached: seconds, or 10m, 2h; 0 is not at all",
        wrong: time,
    },
    Key {
        name: "serve.max_budget",
        default: "50",
        help: "the highest budget that a run can be given from the page, in US dollars; 0 is no limit",
        wrong: dollars,
    },
    Key {
        name: "timeout",
        default: "10m",
        help: "how long a step may print nothing: seconds, or 10m, 2h; 0 is no limit",
        wrong: time,
    },
    Key {
        name: "usage_max",
        default: "0",
        help: "from how many percent of a usage limit on it counts as reached (5-hour, weekly), to leave you the rest; 0 is never",
        wrong: percent,
    },
    Key {
        name: "warm",
        default: "4",
        help: "how many processes of coding agents are kept for further turns; 0 is none",
        wrong: number,
    },
];

/// The file at `path` as the user has trusted it.
fn trusted(path: &Path) -> Option<String> {
    String::from_utf8(UserDir::here()?.trusted(path, FILE_BYTES_MAX)?).ok()
}

fn never(_: &str) -> Option<&'static str> {
    None
}

/// A value that a coding agent would take for an option.
pub(crate) fn option(text: &str) -> Option<&'static str> {
    looks_like_an_option(text).then_some("begins with a dash, as an option does")
}

fn dollars(text: &str) -> Option<&'static str> {
    let amount = text.parse().ok().and_then(Usd::from_dollars);
    amount.is_none().then_some("is not an amount of dollars")
}

fn number(text: &str) -> Option<&'static str> {
    text.parse::<u32>().is_err().then_some("is not a whole number")
}

fn percent(text: &str) -> Option<&'static str> {
    (!matches!(text.parse::<u32>(), Ok(0..=100))).then_some("is not a number from 0 to 100")
}

fn large(text: &str) -> Option<&'static str> {
    text.parse::<u64>().is_err().then_some("is not a whole number")
}

fn at_least_one(text: &str) -> Option<&'static str> {
    (!matches!(text.parse::<u32>(), Ok(1..))).then_some("is not a number from 1 up")
}

fn switch(text: &str) -> Option<&'static str> {
    text.parse::<bool>().is_err().then_some("is neither true nor false")
}

fn on_ask(text: &str) -> Option<&'static str> {
    let is_known = ["wait", "default", "fail"].contains(&text);
    (!is_known).then_some("is neither wait, default nor fail")
}

fn time(text: &str) -> Option<&'static str> {
    text.parse::<Timeout>().is_err().then_some("is not a duration: seconds, or 10m, 2h")
}

/// Where a value comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    Default,
    File { path: PathBuf, line: usize },
    Environment(String),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File { path, line } => write!(f, "{} line {line}", path.display()),
            Self::Environment(name) => f.write_str(name),
        }
    }
}

/// A value and where it comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
struct SettingValue {
    text: String,
    origin: Origin,
}

/// The settings of a project.
#[derive(Clone, Debug, Default)]
pub(crate) struct Config {
    values: BTreeMap<&'static str, SettingValue>,
    /// Additional arguments for Claude Code, the only setting that is a list.
    pub(crate) claude_arguments: Vec<String>,
    /// The table `[notify]`.
    pub(crate) notify: NotifySettings,
    /// The table `[failover]`.
    pub(crate) failover: FailoverSettings,
    /// The tables `[agents.NAME]`.
    pub(crate) agents: BTreeMap<String, AgentSettings>,
    /// Settings of the project that give power and that the user has not trusted, so they do not count: name, value, origin.
    pub(crate) withheld: Vec<(String, String, Origin)>,
    /// The settings that give power in the version of the project's file that the user has trusted before, if there is one.
    pub(crate) trusted_before: Option<BTreeMap<String, String>>,
    /// Whether settings that give power are withheld at the moment, because those of the project are read.
    withholds: bool,
    /// The project's file as it was read.
    project_file: Option<(PathBuf, String)>,
}

impl Config {
    /// The settings of the project with this state directory.
    pub(crate) fn load(state_dir: &Path) -> Result<Self, Failure> {
        let mut config = Self::default();
        for key in &KEYS {
            let value = SettingValue { text: key.default.to_owned(), origin: Origin::Default };
            config.values.insert(key.name, value);
        }
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
        let values = self.values.clone();
        let mut other = Self { values, withholds: true, ..Self::default() };
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

    /// Whether a setting of a project could start a program, spend more than the user would, or answer for the user.
    fn gives_power(&self, name: &str, text: &str) -> bool {
        match name {
            "agent_program" | "claude.program" | "dangerously_skip_permissions" => true,
            "ask" => text != "wait",
            // Coding agents differ in what they do without asking.
            "agent" => Some(text) != self.text(name),
            "budget" | "max_iterations" | "max_parallel" | "serve.max_budget" | "usage_max" => {
                let limit = |text: &str| text.parse().ok().filter(|most: &f64| *most > 0.0);
                let own = self.text(name).and_then(limit).unwrap_or(f64::INFINITY);
                limit(text).unwrap_or(f64::INFINITY) > own
            }
            _ => false,
        }
    }

    fn add_file(&mut self, path: &Path, text: &str) -> Result<(), Failure> {
        let at = |offset: usize| Origin::File { path: path.to_owned(), line: line(text, offset) };
        let table = DeTable::parse(text).map_err(|error| {
            let origin = at(error.span().map_or(0, |span| span.start));
            Failure::usage(format!("{origin}: {}", error.message()))
        })?;
        self.add_table("", table.get_ref(), &at)
    }

    fn add_table(
        &mut self,
        prefix: &str,
        table: &DeTable<'_>,
        at: &dyn Fn(usize) -> Origin,
    ) -> Result<(), Failure> {
        for (key, value) in table {
            let name = format!("{prefix}{}", key.get_ref());
            let origin = at(key.span().start);
            let text = match value.get_ref() {
                DeValue::Table(agents) if name == "agents" => {
                    self.add_agents(agents, at)?;
                    continue;
                }
                DeValue::Table(table) if name == "notify" => {
                    let mut unused = NotifySettings::default();
                    let used = if self.withholds { &mut unused } else { &mut self.notify };
                    used.add(table, at)?;
                    self.withhold(&name, unused.shown);
                    continue;
                }
                DeValue::Table(table) if name == "failover" => {
                    let mut unused = FailoverSettings::default();
                    let used = if self.withholds { &mut unused } else { &mut self.failover };
                    used.add(table, at)?;
                    self.withhold(&name, unused.shown);
                    continue;
                }
                DeValue::Table(inner) => {
                    self.add_table(&format!("{name}."), inner, at)?;
                    continue;
                }
                DeValue::Array(items) if name == "claude.arguments" => {
                    let words = items.iter().map(|item| item.get_ref().as_str().map(str::to_owned));
                    let words: Option<Vec<_>> = words.collect();
                    let words = words.ok_or_else(|| {
                        Failure::usage(format!("{origin}: `{name}` must be a list of strings"))
                    })?;
                    if self.withholds {
                        self.withheld.push((name, format!("{words:?}"), origin));
                        continue;
                    }
                    self.claude_arguments = words;
                    format!("{:?}", self.claude_arguments)
                }
                _ if name == "claude.arguments" => {
                    let why = format!("{origin}: `{name}` must be a list of strings");
                    return Err(Failure::usage(why));
                }
                DeValue::String(text) => text.to_string(),
                DeValue::Integer(number) if number.radix() == 10 => number.as_str().to_owned(),
                DeValue::Integer(_) => {
                    let why = format!("{origin}: `{name}` takes a decimal number");
                    return Err(Failure::usage(why));
                }
                DeValue::Float(number) => number.as_str().to_owned(),
                DeValue::Boolean(switch) => switch.to_string(),
                DeValue::Array(_) | DeValue::Datetime(_) => {
                    return Err(Failure::usage(format!("{origin}: `{name}` takes one value")));
                }
            };
            self.set(&name, text, origin)?;
        }
        Ok(())
    }

    /// Keeps the values of a table of the project, which do not count.
    fn withhold(&mut self, table: &str, shown: Vec<(&'static str, String, Origin)>) {
        let named = |(key, value, origin)| (format!("{table}.{key}"), value, origin);
        self.withheld.extend(shown.into_iter().map(named));
    }

    fn add_agents(
        &mut self,
        agents: &DeTable<'_>,
        at: &dyn Fn(usize) -> Origin,
    ) -> Result<(), Failure> {
        for (key, value) in agents {
            let name = key.get_ref();
            let origin = at(key.span().start);
            let DeValue::Table(table) = value.get_ref() else {
                return Err(Failure::usage(format!("{origin}: `agents.{name}` must be a table")));
            };
            if name.trim().is_empty() || looks_like_an_option(name) {
                let why = "is not a valid name: it must not be empty or begin with a dash";
                return Err(Failure::usage(format!("{origin}: `agents.{name}` {why}")));
            }
            let read = AgentSettings::read(name, table, at)?;
            if self.withholds && !read.is_only_a_model() {
                // A user who is asked for trust sees what would be started. That nothing of it is secret, the project decides.
                let servers = serde_json::to_string(&read.mcp).unwrap_or_default();
                let mut shown = read.shown;
                for (_, value, _) in shown.iter_mut().filter(|(key, ..)| *key == "mcp") {
                    value.clone_from(&servers);
                }
                self.withhold(&format!("agents.{name}"), shown);
                continue;
            }
            match self.agents.get_mut(&**name) {
                // What the user has said of its program, its tools and its sandbox holds with another model, too.
                Some(own) if read.is_only_a_model() => own.change_model(read),
                _ => drop(self.agents.insert(name.to_string(), read)),
            }
        }
        Ok(())
    }

    fn add_environment(&mut self, get: impl Fn(&str) -> Option<String>) -> Result<(), Failure> {
        for key in &KEYS {
            let variable = variable(key.name);
            if key.name != "claude.arguments"
                && let Some(text) = get(&variable).filter(|text| !text.is_empty())
            {
                self.set(key.name, text, Origin::Environment(variable))?;
            }
        }
        Ok(())
    }

    fn set(&mut self, name: &str, text: String, origin: Origin) -> Result<(), Failure> {
        let Some(key) = KEYS.iter().find(|key| key.name == name) else {
            let similar = |key: &&Key| strsim::damerau_levenshtein(key.name, name) <= 2;
            let suggestion = KEYS.iter().find(similar);
            let suggestion = suggestion.map(|key| format!(" (did you mean `{}`?)", key.name));
            let suggestion = suggestion.unwrap_or_default();
            return Err(Failure::usage(format!("{origin}: unknown setting `{name}`{suggestion}")));
        };
        if let Some(why) = (key.wrong)(&text) {
            return Err(Failure::usage(format!("{origin}: `{name}`: `{text}` {why}")));
        }
        if self.withholds && self.gives_power(key.name, &text) {
            self.withheld.push((key.name.to_owned(), text, origin));
            return Ok(());
        }
        self.values.insert(key.name, SettingValue { text, origin });
        Ok(())
    }

    /// The value of a setting; `None` if it is empty. Every value was checked when it was read.
    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.values.get(name).map(|value| value.text.as_str()).filter(|text| !text.is_empty())
    }

    /// The value of a setting, if an environment variable sets it.
    pub(crate) fn said_by_environment(&self, name: &str) -> Option<&str> {
        let value = self.values.get(name)?;
        matches!(value.origin, Origin::Environment(_)).then_some(value.text.as_str())
    }

    /// The parsed value; `None` also if it is not set.
    pub(crate) fn said<T: std::str::FromStr>(&self, name: &str) -> Option<T> {
        let value = self.values.get(name).filter(|value| value.origin != Origin::Default)?;
        // An empty value counts as not set.
        Some(&value.text).filter(|text| !text.is_empty())?.parse().ok()
    }

    /// All settings, one per line, with their origins.
    pub(crate) fn describe(&self) -> String {
        let mut text = String::new();
        for (name, value) in &self.values {
            let shown = if value.text.is_empty() { "-" } else { &one_line(&value.text) };
            let origin = one_line(&value.origin.to_string());
            let _ = writeln!(text, "{name:<30} {shown:<24} {origin}");
        }
        for (name, value, origin) in &self.withheld {
            let (value, origin) = (one_line(value), one_line(&origin.to_string()));
            let _ = writeln!(text, "{name:<30} {value:<24} {origin}, not trusted: raymond trust");
        }
        for (key, value, origin) in &self.failover.shown {
            let (value, origin) = (one_line(value), one_line(&origin.to_string()));
            let _ = writeln!(text, "{:<30} {value:<24} {origin}", format!("failover.{key}"));
        }
        for (key, value, origin) in &self.notify.shown {
            let (value, origin) = (one_line(value), one_line(&origin.to_string()));
            let _ = writeln!(text, "{:<30} {value:<24} {origin}", format!("notify.{key}"));
        }
        let shown = self.failover.shown.iter().map(|(key, ..)| format!("failover.{key}"));
        let shown = shown.chain(self.notify.shown.iter().map(|(key, ..)| format!("notify.{key}")));
        let shown: Vec<_> = shown.collect();
        for (name, value) in UNSET.iter().filter(|(name, _)| !shown.iter().any(|it| it == name)) {
            let _ = writeln!(text, "{name:<30} {value:<24} {}", Origin::Default);
        }
        if self.agents.is_empty() {
            let _ = writeln!(text, "{:<30} {:<24} see: raymond help agents", "agents.NAME", "-");
        }
        for (agent, settings) in &self.agents {
            for (key, value, origin) in &settings.shown {
                let name = one_line(&format!("agents.{agent}.{key}"));
                let (value, origin) = (one_line(value), one_line(&origin.to_string()));
                let _ = writeln!(text, "{name:<30} {value:<24} {origin}");
            }
        }
        text
    }
}

/// The directory of the user's own settings, which hold in all projects.
pub(crate) fn user_folder(get: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
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

/// The environment variables of all settings, and what they mean.
pub(crate) fn variables() -> Vec<(String, String)> {
    let is_variable = |key: &&Key| key.name != "claude.arguments";
    let keys = KEYS.iter().filter(is_variable);
    keys.map(|key| (variable(key.name), key.help.to_owned())).collect()
}

/// The environment variable of a setting.
fn variable(name: &str) -> String {
    match name {
        "claude.program" => "RAYMOND_CLAUDE".to_owned(),
        name => format!("RAYMOND_{}", name.replace('.', "_").to_uppercase()),
    }
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
    let settings: Vec<_> = KEYS.iter().map(|key| variable(key.name)).collect();
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

/// The line of a byte, from 1.
fn line(text: &str, offset: usize) -> usize {
    text.bytes().take(offset).filter(|byte| *byte == b'\n').count() + 1
}

/// What a new file of settings says about notifications.
const NOTIFY_EXAMPLE: &str = "
# A command that gets one JSON object on its standard input when a person is asked and when a run ends;
# `raymond help operations` has some for desktops, chats and mail.
#[notify]
#command = [\"notify-send\", \"Raymond needs you\"]
#on = [\"ask\", \"failed\", \"stopped\", \"paused\", \"completed\"]
";

/// Writes a file with every setting as a comment, and returns its path. An existing file is not changed.
pub(crate) fn write_template(state_dir: &Path) -> Result<PathBuf, Failure> {
    let path = state_dir.join(FILE_NAME);
    let mut text = String::from(
        "# Settings of Raymond for this project. Environment variables (RAYMOND_BUDGET=5) override them, and\n\
         # options (--budget 5) override both. They override your own settings for all projects.\n\
         # `raymond config` shows the values in effect and where they come from.\n",
    );
    let mut tables: BTreeMap<&str, Vec<(&str, &Key)>> = BTreeMap::new();
    for key in &KEYS {
        let (table, name) = key.name.split_once('.').unwrap_or(("", key.name));
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
    text.push_str(NOTIFY_EXAMPLE);
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

/// A key's default in TOML syntax.
fn literal(key: &Key) -> String {
    let is_bare = key.default.parse::<f64>().is_ok()
        || key.default.parse::<bool>().is_ok()
        || key.default.starts_with('[');
    if is_bare { key.default.to_owned() } else { format!("{:?}", key.default) }
}

/// The items of a list of strings; `None` for anything else.
pub(crate) fn texts(value: &DeValue<'_>) -> Option<Vec<String>> {
    let items = value.as_array()?.iter();
    items.map(|item| item.get_ref().as_str().map(str::to_owned)).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn of(text: &str) -> Result<Config, String> {
        let mut config = Config::default();
        let added = config.add_file(Path::new("c.toml"), text);
        added.map(|()| config).map_err(|failure| failure.to_string())
    }

    #[test]
    fn values_of_all_types_are_read() {
        let text = "budget = 2.5\nwarm = 0\nno_wait = true\ntimeout = '5m'\n\
                    [claude]\nprogram = 'c'\narguments = ['--add-dir', 'x']\n";
        let config = of(text).unwrap();
        assert_eq!(config.said::<f64>("budget"), Some(2.5));
        assert_eq!(config.said::<usize>("warm"), Some(0));
        assert_eq!(config.said::<bool>("no_wait"), Some(true));
        assert_eq!(config.text("claude.program"), Some("c"));
        assert_eq!(config.claude_arguments, ["--add-dir", "x"]);
    }

    #[test]
    fn tables_that_are_not_set_are_described_with_their_defaults() {
        let described = |text: &str| {
            let text = of(text).unwrap().describe();
            let lines: Vec<_> =
                text.lines().map(|line| line.split_whitespace().collect()).collect();
            lines.into_iter().map(|words: Vec<&str>| words.join(" ")).collect::<Vec<_>>()
        };
        let unset = [
            "failover.handoff false default",
            "failover.order [] default",
            "notify.command [] default",
            "notify.on [\"ask\"] default",
            "agents.NAME - see: raymond help agents",
        ];
        assert_eq!(described(""), unset);
        let set = described("[notify]\ncommand = ['tell']\n[agents.pi]\nmodel = 'x'\n");
        assert!(set.contains(&"notify.command [\"tell\"] c.toml line 2".to_owned()), "{set:?}");
        assert!(set.contains(&unset[3].to_owned()) && !set.contains(&unset[2].to_owned()));
        assert!(!set.contains(&unset[4].to_owned()), "{set:?}");
    }

    #[test]
    fn wrong_values_name_file_and_line() {
        let cases = [
            ("warm = 1\nbudget = 'x'", "c.toml line 2: `budget`: `x` is not an amount of dollars"),
            ("\n\nbugdet = 1", "c.toml line 3: unknown setting `bugdet` (did you mean `budget`?)"),
            ("max_parallel = 0", "c.toml line 1: `max_parallel`: `0` is not a number from 1 up"),
            ("model = ['a']", "c.toml line 1: `model` takes one value"),
            (
                "[claude]\narguments = [1]",
                "c.toml line 2: `claude.arguments` must be a list of strings",
            ),
            (
                "[claude]\narguments = 'x'",
                "c.toml line 2: `claude.arguments` must be a list of strings",
            ),
            ("model = '-x'", "c.toml line 1: `model`: `-x` begins with a dash, as an option does"),
            ("warm = 0x10", "c.toml line 1: `warm` takes a decimal number"),
        ];
        for (text, expected) in cases {
            assert_eq!(of(text).unwrap_err(), expected);
        }
        assert!(of("a = = 1").unwrap_err().starts_with("c.toml line 1: "));
    }

    #[test]
    fn options_of_claude_are_read_and_the_values_of_servers_are_not_shown() {
        let text = "[agents.claude]\nfallback_model = 'haiku'\nmax_turns = 9\nsystem = 'Be kind.'\nadd_dirs = ['/data']\n\
                    [agents.claude.mcp.one]\ncommand = 'serve'\nargs = ['a', 1]\nenv = { KEY = 'hidden' }\n";
        let config = of(text).unwrap();
        let claude = &config.agents["claude"];
        assert_eq!(
            (&claude.fallback_model[..], claude.max_turns),
            (&["haiku".to_owned()][..], Some(9))
        );
        assert_eq!(claude.system.as_deref(), Some("Be kind."));
        assert_eq!(claude.add_dirs, [Path::new("/data")]);
        let server = claude.mcp["one"].to_string();
        assert_eq!(server, r#"{"args":["a",1],"command":"serve","env":{"KEY":"hidden"}}"#);
        assert!(!config.describe().contains("hidden"), "{}", config.describe());
        for (key, why) in [
            ("fallback_model = '-x'", "must be the name of a model, or a list of names"),
            ("max_turns = 0", "must be a whole number from 1"),
            ("system = ' '", "must be a text"),
            ("add_dirs = ['data']", "must be a list of absolute directories"),
            ("mcp = ['one']", "must be a table of servers"),
        ] {
            let error = of(&format!("[agents.claude]\n{key}")).unwrap_err();
            assert!(error.contains(why) && error.starts_with("c.toml line 2"), "{error}");
        }
    }

    #[test]
    fn environment_overrides_the_file_and_names_its_variable() {
        let mut config = of("budget = 1\nmodel = 'a'").unwrap();
        let get = |name: &str| (name == "RAYMOND_BUDGET").then(|| "7".to_owned());
        config.add_environment(get).unwrap();
        assert_eq!(config.said::<f64>("budget"), Some(7.0));
        let text = config.describe();
        assert!(text.contains("RAYMOND_BUDGET") && text.contains("c.toml line 2"), "{text}");
        let wrong = |name: &str| (name == "RAYMOND_WARM").then(|| "many".to_owned());
        let error = config.add_environment(wrong).unwrap_err().to_string();
        assert_eq!(error, "RAYMOND_WARM: `warm`: `many` is not a whole number");
    }

    #[cfg(unix)]
    #[test]
    fn user_settings_are_in_the_system_directory_and_never_at_a_relative_path() {
        let at = |variables: &[(&str, &str)]| {
            let get = |name: &str| {
                variables.iter().find(|(own, _)| *own == name).map(|(_, value)| value.into())
            };
            user_folder(get).map(|path| path.to_string_lossy().into_owned())
        };
        assert_eq!(at(&[("HOME", "/h")]).as_deref(), Some("/h/.config/raymond"));
        let both = [("HOME", "/h"), ("XDG_CONFIG_HOME", "/x")];
        assert_eq!(at(&both).as_deref(), Some("/x/raymond"));
        let relative = [("HOME", "/h"), ("XDG_CONFIG_HOME", "x")];
        assert_eq!(at(&relative).as_deref(), Some("/h/.config/raymond"));
        assert_eq!(at(&[]), None);
    }

    #[test]
    fn later_file_overrides_an_earlier_one() {
        let mut config = of("budget = 1\nmodel = 'a'").unwrap();
        config.add_file(Path::new("project.toml"), "budget = 2").unwrap();
        assert_eq!(config.said::<f64>("budget"), Some(2.0));
        assert_eq!(config.text("model"), Some("a"));
        let text = config.describe();
        assert!(text.contains("c.toml line 2") && text.contains("project.toml line 1"), "{text}");
    }

    #[test]
    fn template_has_every_setting_and_is_valid_when_nothing_is_a_comment() {
        let folder = tempfile::tempdir().unwrap();
        let path = write_template(folder.path()).unwrap();
        let text = fs::read_to_string(&path).unwrap();
        let uncommented: Vec<_> = text
            .lines()
            .filter_map(|line| line.strip_prefix("# "))
            .filter(|l| l.contains(" = "))
            .collect();
        assert_eq!(uncommented.len(), KEYS.len());
        of(&text).unwrap();
        // Without the marks of comments it says the same.
        let whole = text.lines().map(|line| match line.strip_prefix("# ") {
            Some(setting) if setting.contains(" = ") => format!("{setting}\n"),
            _ => format!("{line}\n"),
        });
        let config = of(&whole.collect::<String>()).unwrap();
        for key in &KEYS {
            assert_eq!(config.text(key.name).unwrap_or_default(), key.default, "{}", key.name);
        }
        assert!(write_template(folder.path()).unwrap_err().to_string().contains("already exists"));
    }
}
