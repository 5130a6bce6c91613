//! `[agents.NAME]` in the settings: the coding agents and how each is used.
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

use std::{collections::BTreeMap, env, path::PathBuf};

use raymond_engine::agent::{
    AcpAgent, AcpConfig, CodingAgent, NATIVES, Native, NativeConfig, Prices, ProgramAgent,
    ProgramConfig,
};
use raymond_flow::{coding_agent::Capabilities, money::Usd, text::looks_like_an_option};
use toml::de::{DeTable, DeValue};

use crate::{
    config::{Origin, texts},
    failure::Failure,
};

/// The agent that is Claude Code.
pub(crate) const CLAUDE: &str = "claude";
/// The kind of agents that use the protocol for programs.
const PROGRAM: &str = "program";

/// The keys of a program.
const PROGRAM_KEYS: [&str; 10] = [
    "program",
    "arguments",
    "model",
    "names_sessions",
    "can_branch",
    "reports_cost",
    "can_continue",
    "can_limit",
    "prices",
    "kind",
];
/// The keys of a coding agent that Raymond knows. The last one only if its tools can be allowed one by one.
const NATIVE_KEYS: [&str; 6] = ["program", "arguments", "model", "prices", "kind", "tools"];
/// The keys of a coding agent that speaks ACP.
const ACP_KEYS: [&str; 8] =
    ["acp", "model", "mode", "tools", "prices", "reports_cost", "can_branch", "questions"];
const CLAUDE_KEYS: [&str; 10] = [
    "program",
    "arguments",
    "model",
    "tools",
    "questions",
    "fallback_model",
    "max_turns",
    "system",
    "mcp",
    "add_dirs",
];
const PRICES: [&str; 3] = ["input", "cached_input", "output"];

/// What a table describes.
#[derive(Clone, Copy, Debug, Default)]
enum Kind {
    Claude,
    Native(Native),
    Acp,
    #[default]
    Program,
}

impl Kind {
    /// The kind of the table `name`: what its key `kind` says, else what its name says.
    fn read(name: &str, table: &DeTable<'_>) -> Result<Self, String> {
        if name != CLAUDE && table.iter().any(|(key, _)| key.get_ref() == "acp") {
            return Ok(Self::Acp);
        }
        let said = table.iter().find(|(key, _)| key.get_ref() == "kind");
        let said = said.map(|(_, value)| value.get_ref().as_str().unwrap_or_default());
        let native = |name: &str| NATIVES.into_iter().find(|native| native.name == name);
        match (said, native(said.unwrap_or(name))) {
            (_, Some(native)) => Ok(Self::Native(native)),
            (None, None) if name == CLAUDE => Ok(Self::Claude),
            (None | Some(PROGRAM), None) => Ok(Self::Program),
            (Some(_), None) => {
                let known: Vec<_> = NATIVES.iter().map(|native| native.name).collect();
                Err(format!("must be one of: {}, {PROGRAM}", known.join(", ")))
            }
        }
    }

    fn keys(self) -> &'static [&'static str] {
        match self {
            Self::Claude => &CLAUDE_KEYS,
            Self::Native(native) if native.has_tools => &NATIVE_KEYS,
            Self::Native(_) => NATIVE_KEYS.split_last().map_or(&[], |(_, others)| others),
            Self::Acp => &ACP_KEYS,
            Self::Program => &PROGRAM_KEYS,
        }
    }
}

/// One table `[agents.NAME]`.
#[derive(Clone, Debug, Default)]
pub(crate) struct AgentSettings {
    kind: Kind,
    pub(crate) program: Option<String>,
    pub(crate) arguments: Option<Vec<String>>,
    pub(crate) model: Option<String>,
    /// The command of a coding agent that speaks ACP, and the mode that it is set to.
    acp: Option<Vec<String>>,
    mode: Option<String>,
    /// The tools that states may use besides those that read and edit files.
    pub(crate) tools: Option<Vec<String>>,
    /// The models to use while the one of a turn is not available.
    pub(crate) fallback_model: Vec<String>,
    /// How often a turn may ask the model.
    pub(crate) max_turns: Option<u32>,
    /// What is added to the system prompt.
    pub(crate) system: Option<String>,
    /// The MCP servers that a state may name.
    pub(crate) mcp: BTreeMap<String, serde_json::Value>,
    /// The directories that a state may add.
    pub(crate) add_dirs: Vec<PathBuf>,
    capabilities: BTreeMap<&'static str, bool>,
    prices: Option<Prices>,
    /// The values that were set, for `raymond config`: key, value, origin.
    pub(crate) shown: Vec<(&'static str, String, Origin)>,
}

impl AgentSettings {
    /// Reads the table of the coding agent `name`.
    pub(crate) fn read(
        name: &str,
        table: &DeTable<'_>,
        at: &dyn Fn(usize) -> Origin,
    ) -> Result<Self, Failure> {
        let origin = || at(table.keys().next().map_or(0, |key| key.span().start));
        let kind = Kind::read(name, table)
            .map_err(|why| Failure::usage(format!("{}: `agents.{name}.kind` {why}", origin())))?;
        let keys = kind.keys();
        let mut settings = Self { kind, ..Self::default() };
        for (key, value) in table {
            let origin = at(key.span().start);
            let wrong = |why: &str| {
                Failure::usage(format!("{origin}: `agents.{name}.{}` {why}", key.get_ref()))
            };
            let Some(key) = keys.iter().find(|known| **known == key.get_ref().as_ref()) else {
                return Err(wrong(&format!("is unknown; known: {}", keys.join(", "))));
            };
            let value = value.get_ref();
            match *key {
                "program" => {
                    settings.program = Some(text(value).ok_or_else(|| wrong("must be a string"))?);
                }
                "model" => {
                    let model = text(value).filter(|model| !looks_like_an_option(model));
                    let must = "must be a string that does not begin with a dash";
                    settings.model = Some(model.ok_or_else(|| wrong(must))?);
                }
                "mode" => {
                    settings.mode = Some(text(value).ok_or_else(|| wrong("must be a string"))?);
                }
                "acp" => {
                    let command = texts(value).filter(|command| !command.is_empty());
                    let must = "must be a list: the program and its arguments";
                    settings.acp = Some(command.ok_or_else(|| wrong(must))?);
                }
                "arguments" => {
                    settings.arguments =
                        Some(texts(value).ok_or_else(|| wrong("must be a list of strings"))?);
                }
                "tools" => {
                    settings.tools = Some(texts(value).ok_or_else(|| wrong("is a list of texts"))?);
                }
                "fallback_model" | "max_turns" | "system" | "mcp" | "add_dirs" => {
                    settings.read_option(key, value).map_err(wrong)?;
                }
                // Read above.
                "kind" => {}
                "prices" => settings.prices = Some(prices(value).map_err(|why| wrong(&why))?),
                can => {
                    let DeValue::Boolean(can_do) = value else {
                        return Err(wrong("must be true or false"));
                    };
                    settings.capabilities.insert(can, *can_do);
                }
            }
            // Of servers only the names are shown: their values may be secret.
            let servers = || settings.mcp.keys().cloned().collect::<Vec<_>>().join(", ");
            let said = if *key == "mcp" { servers() } else { shown(value) };
            settings.shown.push((key, said, origin));
        }
        if settings.program.is_none() && matches!(kind, Kind::Program) {
            let why = format!("{}: `agents.{name}` needs a `program`", origin());
            return Err(Failure::usage(why));
        }
        Ok(settings)
    }

    /// Whether nothing but a model is set, which gives no power.
    pub(crate) fn is_only_a_model(&self) -> bool {
        self.shown.iter().all(|(key, ..)| *key == "model")
    }

    /// Takes the model of `other`, if it has one, and keeps the rest.
    pub(crate) fn change_model(&mut self, other: Self) {
        if other.model.is_some() {
            self.model = other.model;
            self.shown.retain(|(key, ..)| *key != "model");
            self.shown.extend(other.shown);
        }
    }

    /// Reads what states may have of Claude Code besides its tools, and what they have if they do not say it.
    fn read_option(&mut self, key: &str, value: &DeValue<'_>) -> Result<(), &'static str> {
        match key {
            "fallback_model" => {
                let models = text(value).map(|model| vec![model]).or_else(|| texts(value));
                let is_model =
                    |model: &String| !looks_like_an_option(model) && !model.contains(',');
                let models = models.filter(|models| models.iter().all(is_model));
                let must = "must be the name of a model, or a list of names";
                self.fallback_model = models.ok_or(must)?;
            }
            "max_turns" => {
                let number = whole(value).filter(|number| *number > 0);
                self.max_turns = Some(number.ok_or("must be a whole number from 1")?);
            }
            "system" => self.system = Some(text(value).ok_or("must be a text")?),
            "mcp" => {
                let must = "must be a table of servers: NAME = { command = …, args = […] }";
                self.mcp = servers(value).ok_or(must)?;
            }
            _ => {
                let dirs: Option<Vec<PathBuf>> =
                    texts(value).map(|dirs| dirs.into_iter().map(PathBuf::from).collect());
                let dirs = dirs.filter(|dirs| dirs.iter().all(|dir| dir.is_absolute()));
                self.add_dirs = dirs.ok_or("must be a list of absolute directories")?;
            }
        }
        Ok(())
    }

    /// Whether what the coding agent asks with its own tool is put to a person.
    pub(crate) fn questions(&self) -> bool {
        self.capabilities.get("questions").copied().unwrap_or_default()
    }

    /// The coding agent with these settings.
    pub(crate) fn agent(&self, name: &str) -> Box<dyn CodingAgent> {
        let native = match self.kind {
            Kind::Native(native) => native,
            Kind::Acp => return Box::new(AcpAgent::new(self.acp_config(name))),
            Kind::Claude | Kind::Program => {
                return Box::new(ProgramAgent::new(self.program_config(name)));
            }
        };
        (native.make)(NativeConfig {
            name: name.to_owned(),
            program: self.program.clone(),
            arguments: self.arguments.clone().unwrap_or_default(),
            model: self.model.clone(),
            tools: self.tools.clone().unwrap_or_default(),
            prices: self.prices,
        })
    }

    /// The coding agent with these settings, behind the client that this program is.
    fn acp_config(&self, name: &str) -> AcpConfig {
        let own = env::current_exe().map(|path| path.to_string_lossy().into_owned());
        let mut program = self.program_config(name);
        program.program = self.acp.clone().unwrap_or_default();
        program.capabilities = Capabilities {
            names_sessions: true,
            // What a turn cost is reported by some.
            reports_cost: self.capabilities.get("reports_cost").copied().unwrap_or(false),
            limits_tools: true,
            has_permissions: true,
            ..program.capabilities
        };
        AcpConfig {
            program,
            client: vec![own.unwrap_or_else(|_| "raymond".to_owned()), "__acp".to_owned()],
            tools: self.tools.clone().unwrap_or_default(),
            mode: self.mode.clone(),
            questions: self.questions(),
        }
    }

    /// The program with these settings.
    pub(crate) fn program_config(&self, name: &str) -> ProgramConfig {
        let mut program: Vec<_> = self.program.iter().cloned().collect();
        program.extend(self.arguments.iter().flatten().cloned());
        let can = |name, default| self.capabilities.get(name).copied().unwrap_or(default);
        ProgramConfig {
            name: name.to_owned(),
            program,
            model: self.model.clone(),
            capabilities: Capabilities {
                names_sessions: can("names_sessions", false),
                can_branch: can("can_branch", true),
                reports_cost: can("reports_cost", true),
                can_continue: can("can_continue", true),
                limits_tools: false,
                has_permissions: false,
                can_limit: can("can_limit", false),
                has_options: false,
            },
            prices: self.prices,
            promises_cost: self.capabilities.get("reports_cost") == Some(&true),
        }
    }
}

fn text(value: &DeValue<'_>) -> Option<String> {
    value.as_str().filter(|text| !text.trim().is_empty()).map(str::to_owned)
}

fn whole(value: &DeValue<'_>) -> Option<u32> {
    let DeValue::Integer(number) = value else { return None };
    (number.radix() == 10).then(|| number.as_str().parse().ok())?
}

/// MCP servers by name, each as Claude reads it.
fn servers(value: &DeValue<'_>) -> Option<BTreeMap<String, serde_json::Value>> {
    let servers = value.as_table()?.iter().map(|(name, server)| {
        let server = json(server.get_ref())?;
        server.is_object().then(|| (name.get_ref().to_string(), server))
    });
    servers.collect()
}

/// A value as JSON; `None` if JSON has no such value.
fn json(value: &DeValue<'_>) -> Option<serde_json::Value> {
    Some(match value {
        DeValue::String(text) => text.to_string().into(),
        DeValue::Integer(number) => number.as_str().parse::<i64>().ok()?.into(),
        DeValue::Float(number) => number.as_str().parse::<f64>().ok()?.into(),
        DeValue::Boolean(switch) => (*switch).into(),
        DeValue::Array(items) => {
            items.iter().map(|item| json(item.get_ref())).collect::<Option<Vec<_>>>()?.into()
        }
        DeValue::Table(table) => {
            let pairs = table
                .iter()
                .map(|(key, value)| Some((key.get_ref().to_string(), json(value.get_ref())?)));
            serde_json::Value::Object(pairs.collect::<Option<_>>()?)
        }
        DeValue::Datetime(_) => return None,
    })
}

fn prices(value: &DeValue<'_>) -> Result<Prices, String> {
    let known = || format!("must be a table of dollars per million tokens: {}", PRICES.join(", "));
    let table = value.as_table().ok_or_else(known)?;
    let mut prices = Prices::default();
    for (key, value) in table {
        let number = match value.get_ref() {
            DeValue::Integer(number) if number.radix() == 10 => number.as_str().parse().ok(),
            DeValue::Float(number) => number.as_str().parse().ok(),
            _ => None,
        };
        let amount = number.and_then(Usd::from_dollars).ok_or_else(known)?;
        match key.get_ref().as_ref() {
            "input" => prices.input = amount,
            "cached_input" => prices.cached_input = amount,
            "output" => prices.output = amount,
            other => return Err(format!("has no `{other}`; it {}", known())),
        }
    }
    Ok(prices)
}

/// A value as `raymond config` shows it.
fn shown(value: &DeValue<'_>) -> String {
    match value {
        DeValue::String(text) => text.to_string(),
        DeValue::Integer(number) => number.as_str().to_owned(),
        DeValue::Float(number) => number.as_str().to_owned(),
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
