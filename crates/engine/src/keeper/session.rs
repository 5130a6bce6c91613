//! A child that is given one turn after another of its session: its input, its marks, its locks.

use std::{
    fs::{self, File},
    io::{self, PipeWriter, Read, Write},
    os::fd::{AsRawFd, OwnedFd, RawFd},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use memchr::memmem;

use super::launch::{ReuseMarks, SessionFiles};
use crate::{
    private,
    sys::{self, Signals},
};

/// How often to try again to lock a session that another process uses.
const LOCK_INTERVAL: Duration = Duration::from_millis(5);

/// How long a child may print nothing after it has finished something other than its step: after that, it has
/// not begun the step and will not. A child that has queued the step begins it at once.
const UNANSWERED: Duration = Duration::from_secs(5);

/// A child that can be given further turns.
pub(super) struct ReusableChild {
    stdin: PipeWriter,
    stdout: File,
    written: File,
    signals: OwnedFd,
    marks: Marks,
    /// Since when the child has printed nothing after it finished something other than its step.
    ended_other: Option<Instant>,
}

impl ReusableChild {
    /// For a child that prints to `stdout` and reads from `stdin`.
    pub(super) fn new(
        marks: &ReuseMarks,
        stdin: PipeWriter,
        stdout: &Path,
        signals: &Signals,
    ) -> io::Result<Self> {
        Ok(Self {
            stdin,
            // Watched before it is opened, so that no output is missed.
            written: sys::watch(stdout)?,
            stdout: File::open(stdout)?,
            signals: signals.descriptor()?,
            marks: Marks::new(marks),
            ended_other: None,
        })
    }

    /// Becomes readable when a signal is pending, or when the child has printed something.
    pub(super) fn descriptors(&self) -> [RawFd; 2] {
        [self.signals.as_raw_fd(), self.written.as_raw_fd()]
    }

    /// Gives the child the turn with this mark, whose prompt is the file `stdin`.
    pub(super) fn give(&mut self, turn_mark: &str, stdin: &Path) -> io::Result<()> {
        // Output so far belongs to no step. To be read before the child can print more.
        self.look();
        self.ended_other = None;
        self.marks.begin(turn_mark);
        write_prompt(stdin.to_owned(), self.stdin.try_clone()?)
    }

    /// Reads the output since the last call; returns whether the child has finished its step.
    pub(super) fn is_done(&mut self) -> bool {
        self.look() || self.ended_other.is_some_and(|since| since.elapsed() >= UNANSWERED)
    }

    /// When to check again although nothing is printed.
    pub(super) fn look_again(&self) -> Option<Instant> {
        self.ended_other.map(|since| since + UNANSWERED)
    }

    fn look(&mut self) -> bool {
        let mut chunk = [0; 8 * 1024];
        while matches!(self.written.read(&mut chunk), Ok(length) if length > 0) {}
        let mut is_done = false;
        while let Ok(length) = self.stdout.read(&mut chunk) {
            if length == 0 {
                break;
            }
            let seen = self.marks.look(&chunk[..length]);
            is_done |= seen == Some(Done::Step);
            self.ended_other = (seen == Some(Done::Other)).then(Instant::now);
        }
        is_done
    }
}

/// Writes the file `prompt` to a child. In a thread, because the reaper must not block if the child does not
/// read. If the child ends meanwhile, the rest is dropped.
pub(super) fn write_prompt(prompt: PathBuf, mut pipe: PipeWriter) -> io::Result<()> {
    let spawned = std::thread::Builder::new().spawn(move || {
        let text = fs::read(prompt).unwrap_or_default();
        let _ = pipe.write_all(&text);
    });
    spawned.map(drop)
}

/// What a child has finished.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Done {
    /// The step that it was given.
    Step,
    /// The previous step, or something that it began by itself.
    Other,
}

/// Finds the lines that say that a child has begun its step and that it has finished, however the text is cut
/// into pieces.
struct Marks {
    done: Vec<u8>,
    /// How many bytes of `done` the current line has begun with; `None` if it begins otherwise.
    matched: Option<usize>,
    turn: Vec<u8>,
    /// Whether the child has begun the step.
    is_begun: bool,
    /// The end of the current line, in which `turn` may begin.
    tail: Vec<u8>,
}

impl Marks {
    fn new(marks: &ReuseMarks) -> Self {
        let done = marks.done.as_bytes().to_vec();
        let (matched, turn, tail) = (Some(0), Vec::new(), Vec::new());
        let mut new = Self { done, matched, turn, is_begun: true, tail };
        new.begin(&marks.turn);
        new
    }

    /// Starts to look for the marks of another step.
    fn begin(&mut self, turn: &str) {
        self.turn = turn.as_bytes().to_vec();
        self.is_begun = turn.is_empty();
    }

    /// What the child had finished when it printed `piece`: its step, if that is included; otherwise the
    /// last thing that it finished, unless more output followed.
    fn look(&mut self, piece: &[u8]) -> Option<Done> {
        let mut seen = None;
        for line in piece.split_inclusive(|byte| *byte == b'\n') {
            self.look_for_turn(line);
            if let Some(matched) = self.matched {
                let rest = &self.done[matched..];
                let length = rest.len().min(line.len());
                let is_same = rest[..length] == line[..length];
                self.matched = is_same.then_some(matched + length);
            }
            let mut ended = None;
            if line.ends_with(b"\n") {
                if self.matched == Some(self.done.len()) {
                    ended = Some(if self.is_begun { Done::Step } else { Done::Other });
                    self.is_begun = self.turn.is_empty();
                }
                self.matched = Some(0);
                self.tail.clear();
            }
            if seen != Some(Done::Step) {
                seen = ended;
            }
        }
        seen
    }

    fn look_for_turn(&mut self, line: &[u8]) {
        if self.is_begun {
            return;
        }
        self.tail.extend_from_slice(line);
        self.is_begun = memmem::find(&self.tail, &self.turn).is_some();
        let kept = self.tail.len().min(self.turn.len().saturating_sub(1));
        self.tail.drain(..self.tail.len() - kept);
    }
}

/// Locks on the sessions of a child: if two processes used a session at once, the additions of one of them
/// would be lost.
pub(super) struct SessionLocks {
    _own: File,
    source: Option<File>,
}

impl SessionLocks {
    /// Waits until no other process uses the sessions. `None` if a signal asks the reaper to give up.
    pub(super) fn take(files: &SessionFiles, signals: &Signals) -> io::Result<Option<Self>> {
        let Some(own) = lock(&files.own, signals)? else {
            return Ok(None);
        };
        let source = match &files.source {
            None => None,
            Some(path) => match lock(path, signals)? {
                None => return Ok(None),
                locked => locked,
            },
        };
        Ok(Some(Self { _own: own, source }))
    }

    /// The child has read the session that its own branches off.
    pub(super) fn release_source(&mut self) {
        self.source = None;
    }
}

fn lock(path: &Path, signals: &Signals) -> io::Result<Option<File>> {
    if let Some(folder) = path.parent() {
        private::create_dir_all(folder)?;
    }
    let file = private::options().create(true).append(true).open(path)?;
    while file.try_lock().is_err() {
        if signals.wait(LOCK_INTERVAL).is_some_and(|signal| signal != libc::SIGCHLD) {
            return Ok(None);
        }
    }
    Ok(Some(file))
}

#[cfg(test)]
mod tests {
    use super::*;

    const DONE: &str = "{\"type\":\"result\"";
    const TURN: &str = "\"uuid\":\"7\"";
    const TEXT: &[u8] =
        b"{\"type\":\"assistant\"}\n x{\"type\":\"result\"\n{\"type\":\"result\",1}\n";
    /// A result that was not asked for, the step, and its result.
    const PAIRED: &[u8] =
        b"{\"type\":\"result\",0}\n{\"type\":\"user\",\"uuid\":\"7\",1}\n{\"type\":\"result\",2}\n";

    fn marks(turn: &str) -> Marks {
        Marks::new(&ReuseMarks { done: DONE.to_owned(), turn: turn.to_owned() })
    }

    #[test]
    fn mark_counts_at_the_beginning_of_a_whole_line_only() {
        let ends: Vec<_> =
            (0..=TEXT.len()).filter(|end| marks("").look(&TEXT[..*end]).is_some()).collect();
        assert_eq!(ends, [TEXT.len()]);
    }

    #[test]
    fn mark_is_found_however_the_text_is_cut() {
        for at in 0..=TEXT.len() {
            let mut marks = marks("");
            let (front, back) = TEXT.split_at(at);
            let seen = [marks.look(front), marks.look(back)].map(|seen| seen == Some(Done::Step));
            let is_first = at == TEXT.len();
            assert_eq!(seen, [is_first, !is_first], "cut at {at}");
        }
    }

    #[test]
    fn step_is_done_only_after_the_child_has_begun_it_however_the_text_is_cut() {
        for at in 0..PAIRED.len() {
            let mut marks = marks(TURN);
            let (front, back) = PAIRED.split_at(at);
            assert_ne!(marks.look(front), Some(Done::Step), "cut at {at}");
            assert_eq!(marks.look(back), Some(Done::Step), "cut at {at}");
        }
    }

    #[test]
    fn result_after_the_end_of_a_step_is_not_the_end_of_the_next_one() {
        let mut marks = marks(TURN);
        let [first, rest] = [&PAIRED[..20], &PAIRED[20..]];
        assert_eq!(marks.look(first), Some(Done::Other));
        // In one piece with the end of the step, and after it.
        assert_eq!(marks.look(&[rest, first].concat()), Some(Done::Step));
        assert_eq!(marks.look(first), Some(Done::Other));
        marks.begin("\"uuid\":\"8\"");
        assert_eq!(marks.look(PAIRED), Some(Done::Other));
        assert_eq!(marks.look(b"{\"type\":\"user\",\"uuid\":\"8\"}\n"), None);
        assert_eq!(marks.look(first), Some(Done::Step));
    }

    #[test]
    fn end_of_something_else_counts_as_long_as_nothing_follows() {
        let mut marks = marks(TURN);
        assert_eq!(marks.look(b"{\"type\":\"result\",0}\n{\"type\":\"sys"), None);
    }
}
