//! A few facts in words, the same for people and programs.

use jiff::{Timestamp, tz::TimeZone};
use raymond_flow::machine::{Halt, Limit};

use crate::agent::Activity;

/// Why nothing new starts.
pub fn of_halt(why: &Halt) -> String {
    match why {
        Halt::ScriptFailed { agent } => format!("a script of {agent} failed"),
        Halt::Limit(Limit::Budget { spent_usd, budget_usd }) => {
            format!("the budget is used up: {spent_usd} of {budget_usd} are spent")
        }
        Halt::Limit(Limit::Iterations { max_iterations: 1 }) => "1 state was entered".to_owned(),
        Halt::Limit(Limit::Iterations { max_iterations }) => {
            format!("{max_iterations} states were entered")
        }
        Halt::Interrupted => "interrupted".to_owned(),
        Halt::UsageLimit { resets_at } => {
            let until = resets_at.map(|at| format!(" {}", wait(Some(at)))).unwrap_or_default();
            format!("the provider's usage limit is reached{until}")
        }
        Halt::DiskLow { free_bytes } => {
            format!("the disk is nearly full: {free_bytes} bytes are free; make room on it")
        }
        Halt::Asks => "only questions to people are left".to_owned(),
        Halt::Cancelled => "cancelled".to_owned(),
    }
}

/// How long all agents wait for a usage limit. `until` is in seconds since 1970.
pub fn wait(until: Option<u64>) -> String {
    until.map_or_else(
        || "some minutes, then try again".to_owned(),
        |at| format!("until {}", clock_time(at)),
    )
}

/// What a coding agent does.
pub fn of_activity(activity: &Activity) -> String {
    match activity {
        Activity::Says(words) => format!("“{words}”"),
        Activity::Uses { tool, what } if what.is_empty() => tool.clone(),
        Activity::Uses { tool, what } => format!("{tool}: {what}"),
        Activity::Waits(why) => why.clone(),
    }
}

/// A time of this place, from seconds since 1970: `14:05:09`, with the date if it is another day.
pub fn clock_time(seconds: u64) -> String {
    let of = |seconds: i64| {
        Timestamp::from_second(seconds).unwrap_or_default().to_zoned(TimeZone::system())
    };
    let time = of(i64::try_from(seconds).unwrap_or(i64::MAX));
    let now = of(Timestamp::now().as_second());
    let format = if time.date() == now.date() { "%H:%M:%S" } else { "%Y-%m-%d %H:%M:%S" };
    time.strftime(format).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_state_is_singular() {
        let one = Halt::Limit(Limit::Iterations { max_iterations: 1 });
        assert_eq!(of_halt(&one), "1 state was entered");
    }
}
