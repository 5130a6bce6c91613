//! `[failover]` in the settings: which coding agents stand in for each other.
//!
//! ```toml
//! [failover]
//! order = ["claude", "codex"]
//! handoff = false
//! ```

use raymond_engine::agent::{Agents, CodingAgent};
use raymond_flow::machine::{Failover, Settings};
use toml::de::{DeTable, DeValue};

use crate::{
    config::{Origin, texts},
    failure::Failure,
};

/// The table `[failover]`.
#[derive(Clone, Debug, Default)]
pub(crate) struct FailoverSettings {
    failover: Failover,
    /// The values that were set, for `raymond config`: key, value, origin.
    pub(crate) shown: Vec<(&'static str, String, Origin)>,
}

impl FailoverSettings {
    /// Reads the table.
    pub(crate) fn add(
        &mut self,
        table: &DeTable<'_>,
        at: &dyn Fn(usize) -> Origin,
    ) -> Result<(), Failure> {
        for (key, value) in table {
            let origin = at(key.span().start);
            let wrong = |why: &str| {
                Err(Failure::usage(format!("{origin}: `failover.{}` {why}", key.get_ref())))
            };
            let (name, shown) = match (key.get_ref().as_ref(), value.get_ref()) {
                ("order", list @ DeValue::Array(_)) => {
                    let Some(names) = texts(list) else {
                        return wrong("must be a list of strings");
                    };
                    let shown = format!("{names:?}");
                    self.failover.order = names;
                    ("order", shown)
                }
                ("handoff", DeValue::Boolean(handoff)) => {
                    self.failover.handoff = *handoff;
                    ("handoff", handoff.to_string())
                }
                ("order", _) => return wrong("must be a list of strings"),
                ("handoff", _) => return wrong("must be true or false"),
                _ => return wrong("is unknown; known: order, handoff"),
            };
            self.shown.retain(|(known, ..)| *known != name);
            self.shown.push((name, shown, origin));
        }
        Ok(())
    }

    /// Applies them to the settings of a new run. Every coding agent must be there.
    pub(crate) fn configure(
        &self,
        settings: &mut Settings,
        agents: &Agents,
    ) -> Result<(), Failure> {
        if let Some(name) = self.failover.order.iter().find(|name| !agents.has(name)) {
            let known: Vec<_> = agents.iter().map(CodingAgent::name).collect();
            let known = known.join(", ");
            let why =
                format!("`failover.order`: there is no coding agent `{name}`; known: {known}");
            let hint = "choose among them, or add it to the settings as [agents.NAME]".to_owned();
            return Err(Failure::usage(why).with_hint(hint));
        }
        settings.failover = self.failover.clone();
        Ok(())
    }
}
