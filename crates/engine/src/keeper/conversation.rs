//! A child that can be given more than one thing to do: its ears, its marks, its locks.

use std::{
    fs::{self, File},
    io::{self, PipeWriter, Read, Write},
    os::fd::{AsRawFd, OwnedFd, RawFd},
    path::Path,
    time::{Duration, Instant},
};

use memchr::memmem;

use super::launch::{Conversations, Launch};
use crate::{
    private,
    sys::{self, Signals},
};

/// How often a conversation is asked for that somebody else has.
const LOCK_INTERVAL: Duration = Duration::from_millis(5);

/// How long a child may stay silent that has ended something else than its step: then it has not
/// taken the step up, and will not. One that has queued it goes on with it at once.
const UNANSWERED: Duration = Duration::from_secs(5);

/// The way to talk with a child that stays.
pub(super) struct Conversation {
    stdin: PipeWriter,
    stdout: File,
    written: File,
    signals: OwnedFd,
    marks: Marks,
    /// Since when the child is silent after the end of something else than its step.
    ended_other: Option<Instant>,
}

impl Conversation {
    /// With a child whose output goes to `stdout`. `stdin` is our end of what it reads.
    pub(super) fn new(
        [done_mark, turn_mark]: [&str; 2],
        stdin: PipeWriter,
        stdout: &Path,
        signals: &Signals,
    ) -> io::Result<Self> {
        Ok(Self {
            stdin,
            // Watched first, so that nothing is written unseen.
            written: sys::watch(stdout)?,
            stdout: File::open(stdout)?,
            signals: signals.descriptor()?,
            marks: Marks::new(done_mark, turn_mark),
            ended_other: None,
        })
    }

    /// Our end of what the child reads, to say more.
    pub(super) fn more(&self) -> io::Result<PipeWriter> {
        self.stdin.try_clone()
    }

    /// What becomes readable when a signal or some output is there.
    pub(super) fn descriptors(&self) -> [RawFd; 2] {
        [self.signals.as_raw_fd(), self.written.as_raw_fd()]
    }

    /// From now on the child works on the step with this mark. To be called before it is told.
    pub(super) fn begin(&mut self, turn_mark: &str) {
        // What was printed so far belongs to no step.
        self.look();
        self.ended_other = None;
        self.marks.begin(turn_mark);
    }

    /// Looks at what was printed since the last look; whether the step is done.
    pub(super) fn is_done(&mut self) -> bool {
        self.look() || self.ended_other.is_some_and(|since| since.elapsed() >= UNANSWERED)
    }

    /// When to look again, although nothing is printed.
    pub(super) fn patience(&self) -> Duration {
        let left = |since: Instant| UNANSWERED.saturating_sub(since.elapsed());
        self.ended_other.map_or(Duration::MAX, left)
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

/// Says what is in the step's file. Beside the guard, which must not stand still because a child
/// does not listen; one that has ended is told nothing more.
pub(super) fn say(launch: &Launch, mut pipe: PipeWriter) -> io::Result<()> {
    let path = launch.stdin.clone();
    let spawned = std::thread::Builder::new().spawn(move || {
        let words = path.and_then(|path| fs::read(path).ok()).unwrap_or_default();
        let _ = pipe.write_all(&words);
    });
    spawned.map(drop)
}

/// What a child is done with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Done {
    /// The step that it was given.
    Step,
    /// Something that nobody asked for, or what it was given before.
    Other,
}

/// Finds the lines that say which step a child has taken up and that it is done, however the text is
/// cut into pieces.
struct Marks {
    done: Vec<u8>,
    /// How many bytes of `done` the current line has begun with; `None` if it begins otherwise.
    matched: Option<usize>,
    turn: Vec<u8>,
    /// Whether the child has taken up the step.
    is_begun: bool,
    /// The end of the current line, in which `turn` may begin.
    tail: Vec<u8>,
}

impl Marks {
    fn new(done: &str, turn: &str) -> Self {
        let done = done.as_bytes().to_vec();
        let mut marks =
            Self { done, matched: Some(0), turn: Vec::new(), is_begun: true, tail: Vec::new() };
        marks.begin(turn);
        marks
    }

    /// Waits for another step.
    fn begin(&mut self, turn: &str) {
        self.turn = turn.as_bytes().to_vec();
        self.is_begun = turn.is_empty();
    }

    /// What the child was done with when it printed `piece`: with its step, if that is among it, else
    /// with what came last and was not followed by anything.
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

/// Locks on conversations: two processes in one would lose what one of them says.
pub(super) struct Locks {
    _own: Option<File>,
    source: Option<File>,
}

impl Locks {
    /// Waits until the conversations are free. `None` if a signal asks to give up.
    pub(super) fn take(
        Conversations { own, source }: &Conversations,
        signals: &Signals,
    ) -> io::Result<Option<Self>> {
        let mut locks = [None, None];
        for (lock, path) in locks.iter_mut().zip([own, source]) {
            let Some(path) = path else { continue };
            if let Some(folder) = path.parent() {
                private::create_dir_all(folder)?;
            }
            let file = private::options().create(true).append(true).open(path)?;
            while file.try_lock().is_err() {
                if signals.wait(LOCK_INTERVAL).is_some_and(|signal| signal != libc::SIGCHLD) {
                    return Ok(None);
                }
            }
            *lock = Some(file);
        }
        let [own, source] = locks;
        Ok(Some(Self { _own: own, source }))
    }

    /// What the conversation began with has been read.
    pub(super) fn release_source(&mut self) {
        self.source = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DONE: &str = "{\"type\":\"result\"";
    const TURN: &str = "\"uuid\":\"7\"";
    const TEXT: &[u8] =
        b"{\"type\":\"assistant\"}\n x{\"type\":\"result\"\n{\"type\":\"result\",1}\n";
    /// A result that nobody asked for, the step, and its result.
    const PAIRED: &[u8] =
        b"{\"type\":\"result\",0}\n{\"type\":\"user\",\"uuid\":\"7\",1}\n{\"type\":\"result\",2}\n";

    #[test]
    fn mark_counts_at_the_beginning_of_a_whole_line_only() {
        let ends: Vec<_> = (0..=TEXT.len())
            .filter(|end| Marks::new(DONE, "").look(&TEXT[..*end]).is_some())
            .collect();
        assert_eq!(ends, [TEXT.len()]);
    }

    #[test]
    fn mark_is_found_however_the_text_is_cut() {
        for at in 0..=TEXT.len() {
            let mut marks = Marks::new(DONE, "");
            let (front, back) = TEXT.split_at(at);
            let seen = [marks.look(front), marks.look(back)].map(|seen| seen == Some(Done::Step));
            let is_first = at == TEXT.len();
            assert_eq!(seen, [is_first, !is_first], "cut at {at}");
        }
    }

    #[test]
    fn step_is_done_only_after_the_child_has_taken_it_up_however_the_text_is_cut() {
        for at in 0..PAIRED.len() {
            let mut marks = Marks::new(DONE, TURN);
            let (front, back) = PAIRED.split_at(at);
            assert_ne!(marks.look(front), Some(Done::Step), "cut at {at}");
            assert_eq!(marks.look(back), Some(Done::Step), "cut at {at}");
        }
    }

    #[test]
    fn result_after_the_end_of_a_step_is_not_the_end_of_the_next_one() {
        let mut marks = Marks::new(DONE, TURN);
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
        let mut marks = Marks::new(DONE, TURN);
        assert_eq!(marks.look(b"{\"type\":\"result\",0}\n{\"type\":\"sys"), None);
    }
}
