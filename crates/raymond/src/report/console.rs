//! Plain lines on standard error: one for everything that a person would want to know of.

use std::io::Write as _;

use raymond_engine::events::{Event, Observer};
use raymond_flow::machine::{Halt, Instead, Limit, Record, Status};

/// Tells a person what happens.
#[derive(Debug)]
pub(crate) struct Console {
    is_quiet: bool,
}

impl Console {
    pub(crate) fn new(is_quiet: bool) -> Self {
        Self { is_quiet }
    }

    fn say(&self, text: &str) {
        if !self.is_quiet {
            Self::complain(text);
        }
    }

    /// Said even if nobody wants to hear much. A closed terminal is no reason to stop.
    fn complain(text: &str) {
        let _ = writeln!(std::io::stderr(), "{text}");
    }

    fn record(&self, record: &Record) {
        match record {
            Record::Followed { agent, transition, discarded_returns, .. } => {
                self.say(&format!(
                    "[{agent}] {}",
                    raymond_flow::text::excerpt(&transition.to_string())
                ));
                if *discarded_returns > 0 {
                    self.say(&format!(
                        "[{agent}] warning: reset discards {discarded_returns} pending returns"
                    ));
                }
            }
            Record::Overridden { agent, asked, instead, .. } => {
                let instead = match instead {
                    Instead::Follow(transition) => transition.to_string(),
                    Instead::Stop => "the run stops".to_owned(),
                };
                self.say(&format!("[{agent}] asked for {asked}, instead: {instead}"));
            }
            Record::Ended { agent, spent, .. } => {
                for denied in &spent.denied {
                    Self::complain(&format!(
                        "[{agent}] was not allowed: {denied}; see `permissions` in docs/operations.md"
                    ));
                }
            }
            Record::Reminded { agent, problem, .. } => {
                self.say(&format!("[{agent}] reminded: {problem}"));
            }
            // Perhaps not now: a limit may forbid it, or the run is being ended.
            Record::Retried { agent, why, delay_ms: 0, .. } => {
                self.say(&format!("[{agent}] has to start again: {why}"));
            }
            Record::Retried { agent, why, delay_ms, .. } => {
                self.say(&format!("[{agent}] starts again in {} s: {why}", delay_ms / 1000));
            }
            Record::Failed { agent, error, .. } => {
                Self::complain(&format!("[{agent}] failed: {error}"));
            }
            Record::Halted { why } => self.say(&format!("nothing new starts: {}", halt(why))),
            Record::Finished { status } => self.say(&format!("the run is {}", word(*status))),
            _ => {}
        }
    }
}

impl Observer for Console {
    fn see(&mut self, event: &Event<'_>) {
        match event {
            Event::Opened { id, is_new: true, .. } => self.say(&format!("run {id}")),
            Event::Opened { id, .. } => self.say(&format!("run {id} goes on")),
            Event::Recorded { record, .. } => self.record(record),
            Event::JournalTrimmed(trimmed) => Self::complain(&format!(
                "warning: the journal ended in the middle of a line; {} bytes from byte {} were cut off",
                trimmed.bytes, trimmed.offset
            )),
            Event::UnknownVariables { state, names, .. } => {
                self.say(&format!("warning: {state}: nothing is known of {}", names.join(", ")));
            }
            Event::StateFileWarning(warning) => self.say(&format!("warning: {warning}")),
            Event::Trouble(what) => Self::complain(&format!("warning: {what}")),
            Event::StepStarted { .. } | Event::StepEnded { .. } => {}
        }
    }
}

fn halt(why: &Halt) -> String {
    match why {
        Halt::ScriptFailed { agent } => format!("a script of {agent} failed"),
        Halt::Limit(Limit::Budget { spent_usd, budget_usd }) => {
            format!("{spent_usd} of {budget_usd} are spent; `raymond run ID --budget` raises that")
        }
        Halt::Limit(Limit::Iterations { max_iterations }) => {
            format!("{max_iterations} states were entered; `--max-iterations` raises that")
        }
        Halt::Interrupted => "interrupted; waiting for what runs, again to end it".to_owned(),
        Halt::UsageLimit { .. } => "the provider's usage limit is reached".to_owned(),
        Halt::DiskLow { free_bytes } => {
            format!(
                "only {free_bytes} bytes are free on the disk; make room, then `raymond run ID`"
            )
        }
        Halt::Cancelled => "cancelled".to_owned(),
    }
}

fn word(status: Status) -> &'static str {
    match status {
        Status::Running => "running",
        Status::Completed => "completed",
        Status::Failed => "failed; `raymond run ID` takes up what failed",
        Status::Stopped => "stopped by a limit; `raymond run ID` goes on",
        Status::Paused => "paused; `raymond run ID` goes on",
        Status::Cancelled => "cancelled",
    }
}
