//! What happens to a run, in a line for a person.

use raymond_engine::agent::Activity;
use raymond_flow::{
    machine::{Halt, Instead, Limit, Limits, Record, Status},
    text::excerpt,
};

/// How much a person wants to hear.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Level {
    /// What goes wrong.
    Trouble,
    /// What the agents decide.
    News,
    /// What they do meanwhile.
    Detail,
}

/// A line for a record, if it is worth one, and who wants to hear it.
pub(crate) fn of_record(record: &Record) -> Vec<(Level, String)> {
    use Level::{Detail, News, Trouble};
    match record {
        Record::Intended { agent, step } => {
            vec![(Detail, format!("[{agent}] {} (step {})", step.state, step.number))]
        }
        Record::Queued { agent } => {
            vec![(Detail, format!("[{agent}] waits: enough turns run already"))]
        }
        Record::Ended { agent, spent, .. } => {
            let denied = spent.denied.iter().map(|denied| {
                let advice =
                    "allow it in Claude's settings, or see docs/operations.md, Permissions";
                (Trouble, format!("[{agent}] was not allowed: {denied}; {advice}"))
            });
            denied.collect()
        }
        Record::Followed { agent, transition, discarded_returns, .. } => {
            let mut lines = vec![(News, format!("[{agent}] {}", excerpt(&transition.to_string())))];
            if *discarded_returns > 0 {
                let text = format!(
                    "[{agent}] warning: reset discards {discarded_returns} pending returns"
                );
                lines.push((Trouble, text));
            }
            lines
        }
        Record::Overridden { agent, asked, instead, .. } => {
            let instead = match instead {
                Instead::Follow(transition) => transition.to_string(),
                Instead::Stop => "the run stops".to_owned(),
            };
            vec![(News, format!("[{agent}] asked for {asked}, instead: {instead}"))]
        }
        Record::Reminded { agent, problem, .. } => {
            vec![(News, format!("[{agent}] reminded: {problem}"))]
        }
        Record::Evaluating { agent, evaluation } => {
            vec![(Detail, format!("[{agent}] an evaluator judges {}", evaluation.transition))]
        }
        // Perhaps not now: a limit may forbid it, or the run is being ended.
        Record::Retried { agent, why, delay_ms: 0, .. } => {
            vec![(News, format!("[{agent}] has to start again: {why}"))]
        }
        Record::Retried { agent, why, delay_ms, .. } => {
            vec![(News, format!("[{agent}] starts again in {} s: {why}", delay_ms / 1000))]
        }
        Record::Failed { agent, error, .. } => {
            vec![(Trouble, format!("[{agent}] failed: {error}"))]
        }
        Record::Halted { why } => {
            let level = match why {
                Halt::Limit(_) | Halt::UsageLimit { .. } | Halt::DiskLow { .. } => Trouble,
                Halt::ScriptFailed { .. } | Halt::Interrupted | Halt::Cancelled => News,
            };
            vec![(level, format!("nothing new starts: {}", of_halt(why)))]
        }
        Record::UsageLimited { resets_at } => {
            let until = resets_at.map_or_else(
                || "some minutes, then try again".to_owned(),
                |at| format!("until {}", super::time::clock_time(at)),
            );
            let text = format!("the provider's usage limit is reached: all agents wait {until}");
            vec![(Trouble, text)]
        }
        Record::UsageLimitLifted => vec![(News, "the usage limit is over".to_owned())],
        Record::Finished { status } => vec![(News, format!("the run is {}", of_end(*status)))],
        Record::LimitsChanged { limits } => vec![(News, of_limits(limits))],
        Record::Started(_)
        | Record::Called { .. }
        | Record::Woke { .. }
        | Record::Resumed { .. } => Vec::new(),
    }
}

/// The limits that a user can change.
fn of_limits(limits: &Limits) -> String {
    let budget = limits.budget_usd.map_or("none".to_owned(), |budget| budget.to_string());
    let states = limits.max_iterations.map_or("none".to_owned(), |most| most.to_string());
    format!(
        "limits changed: budget {budget}, iterations {states}, parallel {}, retries {}",
        limits.max_parallel, limits.max_retries
    )
}

/// Why nothing new starts, and what to do about it.
pub(crate) fn of_halt(why: &Halt) -> String {
    match why {
        Halt::ScriptFailed { agent } => format!("a script of {agent} failed"),
        Halt::Limit(Limit::Budget { spent_usd, budget_usd }) => {
            format!("{spent_usd} of {budget_usd} are spent; `raymond run ID --budget` raises that")
        }
        Halt::Limit(Limit::Iterations { max_iterations }) => {
            format!("{max_iterations} states were entered; `--max-iterations` raises that")
        }
        Halt::Interrupted => "interrupted; waiting for what runs, again to end it".to_owned(),
        Halt::UsageLimit { resets_at } => {
            let until = resets_at.map(super::time::clock_time);
            let until = until.map(|until| format!(" until {until}")).unwrap_or_default();
            format!("the provider's usage limit is reached{until}")
        }
        Halt::DiskLow { free_bytes } => {
            format!(
                "only {free_bytes} bytes are free on the disk; make room, then `raymond run ID`"
            )
        }
        Halt::Cancelled => "cancelled".to_owned(),
    }
}

/// How a run ended, and how to go on.
pub(crate) fn of_end(status: Status) -> &'static str {
    match status {
        Status::Running => "running",
        Status::Completed => "completed",
        Status::Failed => "failed; `raymond run ID` takes up what failed",
        Status::Stopped => "stopped by a limit; `raymond run ID` goes on",
        Status::Paused => "paused; `raymond run ID` goes on",
        Status::Cancelled => "cancelled",
    }
}

/// What a coding agent does.
pub(crate) fn of_activity(activity: &Activity) -> String {
    match activity {
        Activity::Says(words) => format!("“{words}”"),
        Activity::Uses { tool, what } if what.is_empty() => tool.clone(),
        Activity::Uses { tool, what } => format!("{tool}: {what}"),
        Activity::Waits(why) => why.clone(),
    }
}

/// So many tokens, short: `1.2k`, `3.4M`.
pub(crate) fn of_tokens(count: u64) -> String {
    #[expect(clippy::cast_precision_loss, reason = "three digits are shown")]
    let number = count as f64;
    match count {
        0..1_000 => count.to_string(),
        1_000..1_000_000 => format!("{:.1}k", number / 1e3),
        _ => format!("{:.1}M", number / 1e6),
    }
}
