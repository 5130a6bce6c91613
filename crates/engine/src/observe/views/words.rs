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
    use raymond_flow::{id::AgentId, money::Usd};

    use super::*;

    #[test]
    fn every_reason_to_halt_is_a_sentence() {
        let usd = |dollars| Usd::from_dollars(dollars).unwrap_or_default();
        let budget = Limit::Budget { spent_usd: usd(3.0), budget_usd: usd(2.5) };
        let states = |max_iterations| Halt::Limit(Limit::Iterations { max_iterations });
        for (why, words) in [
            (Halt::ScriptFailed { agent: AgentId::main() }, "a script of main failed"),
            (Halt::Limit(budget), "the budget is used up: $3.00 of $2.50 are spent"),
            (states(1), "1 state was entered"),
            (states(7), "7 states were entered"),
            (Halt::Interrupted, "interrupted"),
            (Halt::UsageLimit { resets_at: None }, "the provider's usage limit is reached"),
            (Halt::Asks, "only questions to people are left"),
            (Halt::Cancelled, "cancelled"),
        ] {
            assert_eq!(of_halt(&why), words);
        }
        let full = of_halt(&Halt::DiskLow { free_bytes: 42 });
        assert!(full.contains("42 bytes are free"), "{full}");
        let limited = of_halt(&Halt::UsageLimit { resets_at: Some(5) });
        assert!(limited.contains("reached until 19"), "{limited}");
    }

    #[test]
    fn time_has_its_date_unless_that_is_today() {
        // Today's noon, so that no clock that is near midnight changes the day.
        let noon = Timestamp::now().to_zoned(TimeZone::system()).date().at(12, 30, 5, 0);
        let noon = noon.to_zoned(TimeZone::system()).map(|noon| noon.timestamp().as_second());
        let noon = noon.ok().and_then(|noon| u64::try_from(noon).ok()).unwrap_or_default();
        assert_eq!(clock_time(noon), "12:30:05");
        let long_ago = clock_time(noon - 40 * 86_400);
        assert_eq!(long_ago.len(), "2026-01-01 12:30:05".len(), "{long_ago}");
        assert!(clock_time(u64::MAX).starts_with("1970"), "a time that is none");
    }

    #[test]
    fn activity_names_the_tool_and_quotes_what_is_said() {
        let uses = |what: &str| {
            of_activity(&Activity::Uses { tool: "Read".to_owned(), what: what.to_owned() })
        };
        assert_eq!([uses(""), uses("a.rs")], ["Read", "Read: a.rs"]);
        assert_eq!(of_activity(&Activity::Says("Hm".to_owned())), "“Hm”");
        assert_eq!(of_activity(&Activity::Waits("retries in 2 s".to_owned())), "retries in 2 s");
    }
}
