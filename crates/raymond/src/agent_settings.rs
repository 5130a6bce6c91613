//! `[agents.NAME]` in the settings: the coding agents and how each is used.
//!
//! ```toml
//! [agents.codex]
//! program = "codex-adapter"
//! arguments = ["--sandbox"]
//! model = "gpt-5.2"
//! names_sessions = true
//! reports_cost = false
//! prices = { input = 1.25, cached_input = 0.125, output = 10 }
//! ```

use std::collections::BTreeMap;

use raymond_engine::agent::{Prices, ProgramConfig};
use raymond_flow::{coding_agent::Capabilities, money::Usd};
use toml::de::{DeTable, DeValue};

use crate::{config::Origin, failure::Failure};

/// The agent that is Claude Code; all others use the protocol for programs.
pub(crate) const CLAUDE: &str = "claude";

/// The keys of a program, and whether Claude Code also has them.
const KEYS: [&str; 9] = [
    "program",
    "arguments",
    "model",
    "names_sessions",
    "can_branch",
    "reports_cost",
    "can_continue",
    "can_limit",
    "prices",
];
const CLAUDE_KEYS: [&str; 4] = ["program", "arguments", "model", "tools"];
const PRICES: [&str; 3] = ["input", "cached_input", "output"];

/// One table `[agents.NAME]`.
#[derive(Clone, Debug, Default)]
pub(crate) struct AgentSettings {
    pub(crate) program: Option<String>,
    pub(crate) arguments: Option<Vec<String>>,
    pub(crate) model: Option<String>,
    /// The tools that states may ask Claude Code to use without asking.
    pub(crate) tools: Option<Vec<String>>,
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
        let keys = if name == CLAUDE { &CLAUDE_KEYS[..] } else { &KEYS[..] };
        let mut settings = Self::default();
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
                    settings.model = Some(text(value).ok_or_else(|| wrong("must be a string"))?);
                }
                "arguments" => {
                    settings.arguments =
                        Some(texts(value).ok_or_else(|| wrong("must be a list of strings"))?);
                }
                "tools" => {
                    settings.tools = Some(texts(value).ok_or_else(|| wrong("is a list of texts"))?);
                }
                "prices" => settings.prices = Some(prices(value).map_err(|why| wrong(&why))?),
                can => {
                    let DeValue::Boolean(can_do) = value else {
                        return Err(wrong("must be true or false"));
                    };
                    settings.capabilities.insert(can, *can_do);
                }
            }
            settings.shown.push((key, shown(value), origin));
        }
        if settings.program.is_none() && name != CLAUDE {
            let origin = at(table.keys().next().map_or(0, |key| key.span().start));
            let why = format!("{origin}: `agents.{name}` needs a `program`");
            return Err(Failure::usage(why));
        }
        Ok(settings)
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
                can_limit: can("can_limit", false),
            },
            prices: self.prices,
        }
    }
}

fn text(value: &DeValue<'_>) -> Option<String> {
    value.as_str().filter(|text| !text.trim().is_empty()).map(str::to_owned)
}

fn texts(value: &DeValue<'_>) -> Option<Vec<String>> {
    let items = value.as_array()?.iter();
    items.map(|item| item.get_ref().as_str().map(str::to_owned)).collect()
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
