//! How much of a provider's usage limits is used, as coding agents report it with their turns.
//!
//! Providers count usage in windows, such as five hours and a week. A run can be told to leave a part of them to its user:
//! from there on it behaves as if the limit was reached.

use serde::{Deserialize, Serialize};

use super::{Action, Run, Step};

/// The use of one window of a provider.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UsageWindow {
    /// Its name, as the provider calls it: `five_hour`, `seven_day`.
    pub name: String,
    /// How much of it is used, in percent.
    pub used_percent: u32,
    /// When it begins again, in seconds since 1970; `None` if the provider did not say.
    pub resets_at: Option<u64>,
}

impl UsageWindow {
    /// Its name for people: `5-hour`, `weekly`.
    pub fn label(&self) -> String {
        match self.name.as_str() {
            "five_hour" => "5-hour".to_owned(),
            "seven_day" => "weekly".to_owned(),
            other => match other.strip_prefix("seven_day_") {
                Some(model) => format!("weekly {model}"),
                None => other.replace('_', " "),
            },
        }
    }
}

/// The window because of which the coding agent of `step` may take no turn now, with the agent's name: of several the one that
/// begins again last.
pub(super) fn used_up<'r>(run: &'r Run, step: &'r Step) -> Option<(&'r str, &'r UsageWindow)> {
    let Action::Turn(turn) = &step.action else { return None };
    let most = run.settings.usage_max?;
    let name = turn.settings.agent.as_deref().unwrap_or_default();
    let windows = run.windows.get(name)?.iter().filter(|window| window.used_percent >= most);
    windows.max_by_key(|window| window.resets_at).map(|window| (name, window))
}
