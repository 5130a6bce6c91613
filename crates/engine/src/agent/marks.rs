//! How far a coding agent is with its turn, as the lines say that it prints: which lines mean what, and a reader that
//! follows them.
//!
//! A line is recognised by fields of its JSON object, in whatever order they come. Lines that nobody knows are expected:
//! coding agents change every week.

use std::{
    fs::File,
    io::{self, Read as _},
    path::Path,
    time::{Duration, Instant},
};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::exec::step::HowEnded;

/// How long a child may print nothing after it has finished something other than its step: after that, it has
/// not begun the step and will not. A child that has queued the step begins it at once.
#[cfg(not(portable))]
const UNANSWERED: Duration = Duration::from_secs(5);
/// How long a child that is to leave after its step may stay silently after it has finished: time for its last hooks.
const LINGERS: Duration = Duration::from_secs(15);
/// How long a child may print lines of which none is understood. Every coding agent says within seconds what it does.
pub(crate) const STRANGE: Duration = Duration::from_mins(1);
/// A longer line means nothing: no coding agent puts as much into a line that has a meaning here.
const LINE_BYTES_MAX: usize = 64 * 1024 * 1024;

/// What a line says about the turn that a child was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mark {
    /// The child has begun this very turn.
    Begun,
    /// The child is at work.
    Busy,
    /// The child has finished a turn: this one if it has begun it, otherwise something that no step asked for.
    Done,
    /// The child has finished this very turn, whether or not it said that it began it.
    Closed,
}

/// The lines of a turn that have a meaning.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TurnMarks {
    /// Each with the fields by which a line is recognised. The first that fits counts.
    lines: Vec<(Mark, Vec<(String, String)>)>,
}

impl TurnMarks {
    /// No line has a meaning: the turn is over when the child ends.
    pub fn none() -> Self {
        Self::default()
    }

    /// The same, and a line whose object has `fields` with these texts means `mark`.
    #[must_use]
    pub fn with(mut self, mark: Mark, fields: &[(&str, &str)]) -> Self {
        let owned = |(name, text): &(&str, &str)| ((*name).to_owned(), (*text).to_owned());
        self.lines.push((mark, fields.iter().map(owned).collect()));
        self
    }

    /// Whether no line has a meaning.
    pub(crate) fn is_none(&self) -> bool {
        self.lines.is_empty()
    }

    /// What a line means.
    fn of(&self, line: &Value) -> Option<Mark> {
        self.lines.iter().find(|(_, fields)| has(line, fields)).map(|(mark, _)| *mark)
    }

    /// A turn that has taken a message is over when that is done: the end of its own prompt may be told later.
    fn forget_closing(&mut self) {
        self.lines.retain(|(mark, _)| *mark != Mark::Closed);
    }

    /// Whether a line with [`Mark::Begun`] is expected.
    fn tells_beginnings(&self) -> bool {
        self.lines.iter().any(|(mark, _)| *mark == Mark::Begun)
    }
}

/// Whether the object of a line has these fields.
fn has(line: &Value, fields: &[(String, String)]) -> bool {
    fields.iter().all(|(name, text)| line[name].as_str() == Some(text))
}

/// How far a child is with its turn.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a question of its own")]
pub(crate) struct Progress {
    marks: TurnMarks,
    stdout: File,
    /// The line that is not complete yet. What is too long of it is dropped.
    line: Vec<u8>,
    /// Whether the child has begun the turn.
    is_begun: bool,
    /// Whether it has finished the turn.
    is_finished: bool,
    /// Whether it has finished something, and has not said since that it is at work.
    is_resting: bool,
    /// Whether it has printed a line that means something.
    is_understood: bool,
    /// The fields of lines that say that it has taken a message which it was given during the turn.
    awaited: Vec<Vec<(String, String)>>,
    /// When it printed its first and its last line of this turn.
    printed: Option<(Instant, Instant)>,
}

impl Progress {
    /// Of a child that prints to the file `stdout` and is given the turn with these marks.
    pub(crate) fn new(marks: TurnMarks, stdout: &Path) -> io::Result<Self> {
        Ok(Self::of(marks, File::open(stdout)?))
    }

    fn of(marks: TurnMarks, stdout: File) -> Self {
        let is_begun = !marks.tells_beginnings();
        let (is_finished, is_resting, is_understood) = (false, false, false);
        let line = Vec::new();
        Self {
            marks,
            stdout,
            line,
            is_begun,
            is_finished,
            is_resting,
            is_understood,
            awaited: Vec::new(),
            printed: None,
        }
    }

    /// The child is given another turn: what it has printed so far belongs to no step.
    #[cfg(not(portable))]
    pub(crate) fn begin(&mut self, marks: TurnMarks) -> io::Result<()> {
        self.look(Instant::now());
        let stdout = self.stdout.try_clone()?;
        *self = Self { line: std::mem::take(&mut self.line), ..Self::of(marks, stdout) };
        Ok(())
    }

    /// Reads what the child has printed since the last call.
    pub(crate) fn look(&mut self, now: Instant) {
        let mut chunk = [0; 8 * 1024];
        while let Ok(length @ 1..) = self.stdout.read(&mut chunk) {
            self.see(&chunk[..length], now);
        }
    }

    fn see(&mut self, piece: &[u8], now: Instant) {
        for part in piece.split_inclusive(|byte| *byte == b'\n') {
            let room = LINE_BYTES_MAX - self.line.len();
            self.line.extend_from_slice(&part[..part.len().min(room)]);
            if part.ends_with(b"\n") {
                let line = std::mem::take(&mut self.line);
                self.printed = Some((self.printed.map_or(now, |(first, _)| first), now));
                let line = serde_json::from_slice(&line).unwrap_or_default();
                self.see_message(&line);
                self.see_mark(self.marks.of(&line));
            }
        }
    }

    fn see_mark(&mut self, mark: Option<Mark>) {
        self.is_understood |= mark.is_some();
        match mark {
            Some(Mark::Begun) => (self.is_begun, self.is_resting) = (true, false),
            Some(Mark::Busy) => self.is_resting = false,
            Some(Mark::Done) => {
                self.is_finished |= self.is_begun;
                self.is_resting = true;
            }
            Some(Mark::Closed) => (self.is_finished, self.is_resting) = (true, true),
            None => {}
        }
    }

    /// Whether the child has finished its turn.
    pub(crate) fn is_finished(&self) -> bool {
        self.is_finished
    }

    /// The child is given a message during its turn, and says with a line with the fields `taken` that it has taken it.
    #[cfg(not(portable))]
    pub(crate) fn expect(&mut self, taken: Vec<(String, String)>) {
        self.awaited.push(taken);
    }

    /// If it takes a message, its turn goes on, even if it had finished before.
    fn see_message(&mut self, line: &Value) {
        let count = self.awaited.len();
        self.awaited.retain(|taken| !has(line, taken));
        if self.awaited.len() < count {
            self.is_finished = false;
            self.marks.forget_closing();
        }
    }

    /// Whether a child that is kept has finished its turn with all messages, or will not begin it.
    #[cfg(not(portable))]
    pub(crate) fn is_done(&self, now: Instant) -> bool {
        self.is_finished && self.awaited.is_empty() || self.rests_for(UNANSWERED, now)
    }

    /// Why the child has to be ended, if it has to: it prints only what nobody understands, or it has finished its turn
    /// and does not leave although it is not kept.
    pub(crate) fn must_end(&self, is_kept: bool, now: Instant) -> Option<HowEnded> {
        let first = self.printed.map(|(first, _)| first).filter(|_| !self.is_understood);
        if first.is_some_and(|first| now.saturating_duration_since(first) >= STRANGE) {
            return Some(HowEnded::NotUnderstood);
        }
        (!is_kept && self.rests_for(LINGERS, now)).then_some(HowEnded::Code(0))
    }

    fn rests_for(&self, time: Duration, now: Instant) -> bool {
        let last = self.printed.map(|(_, last)| last).filter(|_| self.is_resting);
        last.is_some_and(|last| now.saturating_duration_since(last) >= time)
    }

    /// When to look again, after `now`, although nothing is printed.
    #[cfg(not(portable))]
    pub(crate) fn look_again(&self, is_kept: bool, now: Instant) -> Option<Instant> {
        let (first, last) = self.printed?;
        let patience = if is_kept { UNANSWERED } else { LINGERS };
        let strange = (!self.is_understood).then_some(first + STRANGE);
        let times = [self.is_resting.then_some(last + patience), strange];
        times.into_iter().flatten().filter(|time| *time > now).min()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "in tests a panic is the message")]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);
    const WORK: &str = r#"{"a":[1,{"type":"result"}],"type":"assistant"}"#;
    const BEGUN: &str = r#"{"isReplay":true,"uuid":"7","type":"user"}"#;
    const RESULT: &str = r#"{"is_error":false,"result":"\"type\":\"x\"","type":"result"}"#;
    const CLOSED: &str = r#"{"type":"lifecycle","of":"7"}"#;
    const OTHERS: &str = r#"{"type":"lifecycle","of":"6"}"#;

    fn marks() -> TurnMarks {
        TurnMarks::none()
            .with(Mark::Begun, &[("type", "user"), ("uuid", "7")])
            .with(Mark::Done, &[("type", "result")])
            .with(Mark::Closed, &[("type", "lifecycle"), ("of", "7")])
            .with(Mark::Busy, &[("type", "assistant")])
    }

    fn progress(marks: TurnMarks) -> Progress {
        Progress::of(marks, tempfile::tempfile().unwrap())
    }

    /// The progress after these lines, cut into two pieces at byte `at`.
    fn after(lines: &[&str], at: usize, now: Instant) -> Progress {
        let text = [&lines.join("\n"), "\n"].concat().into_bytes();
        let (front, back) = text.split_at(at.min(text.len()));
        let mut progress = progress(marks());
        progress.see(front, now);
        progress.see(back, now);
        progress
    }

    #[test]
    fn turn_is_finished_by_a_result_after_its_beginning_however_the_text_is_cut() {
        let now = Instant::now();
        let lines = [RESULT, "not json", WORK, "7", BEGUN, WORK, RESULT, "{\"type\":\"new\"}"];
        for at in 0..lines.concat().len() + lines.len() {
            assert!(after(&lines, at, now).is_finished, "cut at {at}");
            assert!(!after(&lines[..6], at, now).is_finished, "cut at {at}");
        }
    }

    #[test]
    fn line_counts_only_when_it_is_complete() {
        let now = Instant::now();
        let mut progress = after(&[BEGUN], 0, now);
        progress.see(RESULT.as_bytes(), now);
        assert!(!progress.is_finished);
        progress.see(b"\n", now);
        assert!(progress.is_finished);
    }

    #[test]
    fn closing_line_of_the_turn_ends_it_without_a_beginning_and_that_of_another_does_not() {
        let now = Instant::now();
        assert!(after(&[RESULT, CLOSED], 0, now).is_finished);
        assert!(!after(&[RESULT, OTHERS], 0, now).is_finished);
    }

    #[cfg(not(portable))]
    #[test]
    fn end_of_something_else_counts_after_a_silence_unless_work_follows() {
        let now = Instant::now();
        let silent = |lines: &[&str]| {
            let progress = after(lines, 0, now);
            assert!(!progress.is_done(now + 4 * SECOND), "{lines:?}");
            progress.is_done(now + 5 * SECOND)
        };
        assert!(silent(&[RESULT]));
        assert!(silent(&[RESULT, "{\"type\":\"new\"}"]), "a line that nobody knows is no work");
        assert!(!silent(&[RESULT, WORK]));
        assert!(!silent(&[WORK]));
        let mut progress = after(&[RESULT], 0, now);
        progress.see(b"{\"type\":\"new\"}\n", now + 4 * SECOND);
        assert!(!progress.is_done(now + 8 * SECOND), "the silence begins again");
        assert_eq!(progress.look_again(true, now), Some(now + 9 * SECOND));
        assert_eq!(progress.look_again(true, now + 9 * SECOND), None);
    }

    #[test]
    fn child_that_stays_after_its_turn_is_left_over_after_a_silence() {
        let now = Instant::now();
        let left_over = |lines: &[&str]| after(lines, 0, now).must_end(false, now + LINGERS);
        assert_eq!(left_over(&[BEGUN, WORK, RESULT]), Some(HowEnded::Code(0)));
        assert_eq!(left_over(&[BEGUN, WORK, RESULT, WORK]), None, "it goes on by itself");
        assert_eq!(left_over(&[BEGUN, WORK]), None);
        let progress = after(&[BEGUN, RESULT], 0, now);
        assert_eq!(progress.must_end(false, now + SECOND), None);
        assert_eq!(progress.must_end(true, now + LINGERS), None, "it is kept");
    }

    #[test]
    fn child_is_strange_if_it_prints_for_a_minute_and_nothing_is_understood() {
        let now = Instant::now();
        let strange = |lines: &[&str], after_s: u32| {
            let ended = after(lines, 0, now).must_end(true, now + after_s * SECOND);
            ended == Some(HowEnded::NotUnderstood)
        };
        assert!(strange(&["hello", "{\"kind\":\"result\"}"], 60));
        assert!(!strange(&["hello"], 59));
        assert!(!strange(&["hello", WORK], 600));
        let silent = progress(marks()).must_end(true, now + 600 * SECOND);
        assert_eq!(silent, None, "silence is not strange");
    }

    #[cfg(not(portable))]
    #[test]
    fn turn_with_a_message_is_over_only_when_the_message_is_done() {
        const TAKEN: &str = r#"{"type":"user","uuid":"9","isReplay":true}"#;
        let now = Instant::now();
        let told = |before: &[&str], then: &[&str]| {
            let mut progress = after(before, 0, now);
            progress.expect(vec![("uuid".to_owned(), "9".to_owned())]);
            progress.see([&then.join("\n"), "\n"].concat().as_bytes(), now);
            progress.is_done(now)
        };
        assert!(told(&[BEGUN, WORK], &[TAKEN, WORK, RESULT]), "taken during a tool");
        assert!(!told(&[BEGUN, WORK], &[RESULT, CLOSED]), "it is still in the queue");
        assert!(!told(&[BEGUN, WORK], &[RESULT, TAKEN, CLOSED, WORK]), "the turn goes on");
        assert!(told(&[BEGUN, WORK], &[RESULT, TAKEN, WORK, RESULT]));
        let mut dropped = after(&[BEGUN], 0, now);
        dropped.expect(vec![("uuid".to_owned(), "9".to_owned())]);
        dropped.see([RESULT, "\n"].concat().as_bytes(), now);
        assert!(!dropped.is_done(now + 4 * SECOND));
        assert!(dropped.is_done(now + 5 * SECOND), "it is not waited for without an end");
    }

    #[cfg(not(portable))]
    #[test]
    fn lines_of_the_turn_before_do_not_count_for_the_next() {
        let now = Instant::now();
        let mut progress = after(&[BEGUN, RESULT], 0, now);
        let next = TurnMarks::none()
            .with(Mark::Begun, &[("uuid", "8")])
            .with(Mark::Done, &[("type", "result")]);
        progress.begin(next).unwrap();
        assert!(!progress.is_done(now + 600 * SECOND));
        progress.see(format!("{CLOSED}\n{RESULT}\n{{\"uuid\":\"8\"}}\n").as_bytes(), now);
        assert!(!progress.is_done(now));
        progress.see(format!("{RESULT}\n").as_bytes(), now);
        assert!(progress.is_done(now));
    }

    #[test]
    fn line_without_an_end_takes_bounded_memory() {
        let mut progress = progress(marks());
        progress.line = vec![b'x'; LINE_BYTES_MAX];
        progress.see(b"more and more", Instant::now());
        assert_eq!(progress.line.len(), LINE_BYTES_MAX);
    }
}
