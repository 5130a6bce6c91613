//! Plain lines: one for each event that the user should see.

use std::io::Write;

use raymond_engine::{
    run::events::{Event, Observer, Seen},
    store::layout::RunFiles,
};
use raymond_flow::machine::Run;

use super::{
    narrator::Narrator,
    time,
    words::{self, Level},
};
use crate::{
    line::{Line, Style},
    out,
};

/// Writes a line for each event.
#[derive(Debug)]
pub(crate) struct Lines<W> {
    out: out::LineSink<W>,
    level: Level,
    narrator: Narrator,
    /// Whether each line begins with the time: for a file that is read later.
    has_times: bool,
}

impl<W: Write> Lines<W> {
    pub(crate) fn new(out: out::LineSink<W>, level: Level, files: Option<RunFiles>) -> Self {
        Self { out, level, narrator: Narrator::new(level, files), has_times: false }
    }

    pub(crate) fn with_times(out: out::LineSink<W>, level: Level, files: Option<RunFiles>) -> Self {
        Self { has_times: true, ..Self::new(out, level, files) }
    }

    /// Reports that an observer has joined a run that was already running.
    pub(crate) fn catch_up(&mut self, run: &Run) {
        self.narrator.open(run);
        self.out.line(&watched(run));
    }
}

impl<W: Write> Observer for Lines<W> {
    fn see(&mut self, seen: &Seen) {
        for line in of_event(&seen.event, &mut self.narrator, self.level) {
            if self.has_times {
                let time = time::stamp(seen.at_ms);
                self.out.line(&Line::of(format!("{time} ")).then(line));
            } else {
                self.out.line(&line);
            }
        }
    }

    fn wants_activity(&self) -> bool {
        self.level >= Level::Detail
    }
}

/// The lines for an event.
pub(super) fn of_event(event: &Event, narrator: &mut Narrator, level: Level) -> Vec<Line> {
    use Level::{Detail, News, Trouble};
    let (least, line) = match event {
        Event::Opened { id, run, is_new } => {
            narrator.open(run);
            let more = if *is_new { "" } else { " goes on" };
            (News, Line::of("run ").add(Style::Bold, id.as_str()).plain(more))
        }
        // The summary contains that, and more.
        Event::Recorded { record, .. } if record.finished().is_some() && level < Detail => {
            return narrator.rest();
        }
        Event::Recorded { record, before, running, .. } => {
            return narrator.tell(record, before.as_deref(), *running);
        }
        Event::JournalTrimmed(trimmed) => {
            let text = format!(
                "the journal ended in the middle of a line; {} bytes from byte {} on were moved to {}",
                trimmed.bytes,
                trimmed.offset,
                trimmed.kept.display()
            );
            (Trouble, warning(&text))
        }
        Event::UnknownVariables { state, names, .. } => {
            let names: Vec<_> = names.iter().map(|name| format!("`{name}`")).collect();
            let plural = if names.len() == 1 { "" } else { "s" };
            (News, warning(&format!("{state}: unknown variable{plural} {}", names.join(", "))))
        }
        Event::StateFileWarning(diagnostic) => (News, warning(&diagnostic.to_string())),
        Event::Trouble(what) => (Trouble, warning(what)),
        Event::Activity { id, activity } => {
            let text = Line::new().dim(words::of_activity(activity));
            (Detail, narrator.aside(&id.agent, text))
        }
        Event::StepStarted { .. }
        | Event::StepEnded { .. }
        | Event::Asked { .. }
        | Event::WaitsForPeople => return Vec::new(),
    };
    if least <= level { vec![line] } else { Vec::new() }
}

/// The first line for an observer that joins a running run.
pub(super) fn watched(run: &Run) -> Line {
    Line::of("run ").add(Style::Bold, run.id.as_str()).dim(", watched from here on")
}

/// A warning about something without consequences.
pub(crate) fn warning(text: &str) -> Line {
    Line::new().add(Style::Warning, "warning:").plain(format!(" {text}"))
}
