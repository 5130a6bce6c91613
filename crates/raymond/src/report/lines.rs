//! Plain lines: one for everything that a person wants to know of.

use std::io::Write;

use raymond_engine::events::{Event, Observer, Seen};

use super::{
    time,
    words::{self, Level},
};
use crate::out;

/// Writes a line for what happens.
#[derive(Debug)]
pub(crate) struct Lines<W> {
    out: out::Lines<W>,
    level: Level,
    /// Whether each line begins with the time: for a file that is read later.
    has_times: bool,
}

impl<W: Write> Lines<W> {
    pub(crate) fn new(out: out::Lines<W>, level: Level) -> Self {
        Self { out, level, has_times: false }
    }

    pub(crate) fn with_times(out: out::Lines<W>, level: Level) -> Self {
        Self { out, level, has_times: true }
    }

    fn say(&mut self, level: Level, text: &str) {
        if level > self.level {
            return;
        }
        let time = if self.has_times {
            format!("{} ", time::stamp(raymond_engine::clock::now_ms()))
        } else {
            String::new()
        };
        self.out.line(&format!("{time}{text}"));
    }
}

impl<W: Write> Observer for Lines<W> {
    fn see(&mut self, seen: &Seen) {
        for (level, line) in of_event(&seen.event) {
            self.say(level, &line);
        }
    }

    fn wants_activity(&self) -> bool {
        self.level >= Level::Detail
    }
}

/// The lines for an event.
pub(super) fn of_event(event: &Event) -> Vec<(Level, String)> {
    use Level::{Detail, News, Trouble};
    match event {
        Event::Opened { id, is_new: true, .. } => vec![(News, format!("run {id}"))],
        Event::Opened { id, .. } => vec![(News, format!("run {id} goes on"))],
        Event::Recorded { record, .. } => words::of_record(record),
        Event::JournalTrimmed(trimmed) => vec![(
            Trouble,
            format!(
                "warning: the journal ended in the middle of a line; {} bytes from byte {} on were moved to {}",
                trimmed.bytes,
                trimmed.offset,
                trimmed.kept.display()
            ),
        )],
        Event::UnknownVariables { state, names, .. } => {
            vec![(News, format!("warning: {state}: nothing is known of {}", names.join(", ")))]
        }
        Event::StateFileWarning(warning) => vec![(News, format!("warning: {warning}"))],
        Event::Trouble(what) => vec![(Trouble, format!("warning: {what}"))],
        Event::Activity { id, activity } => {
            vec![(Detail, format!("[{}] {}", id.agent, words::of_activity(activity)))]
        }
        Event::StepStarted { .. } | Event::StepEnded { .. } => Vec::new(),
    }
}
