//! A child that can be given more than one thing to do: its ears, its marks, its locks.

use std::{
    fs::{self, File},
    io::{self, PipeWriter, Read, Seek, SeekFrom, Write},
    os::fd::{AsRawFd, OwnedFd, RawFd},
    path::Path,
    time::Duration,
};

use super::launch::{Conversations, Launch};
use crate::sys::{self, Signals};

/// How often a conversation is asked for that somebody else has.
const LOCK_INTERVAL: Duration = Duration::from_millis(5);

/// The way to talk with a child that stays.
pub(super) struct Conversation {
    stdin: PipeWriter,
    stdout: File,
    written: File,
    signals: OwnedFd,
    mark: Mark,
}

impl Conversation {
    /// With a child whose output goes to `stdout`. `stdin` is our end of what it reads.
    pub(super) fn new(
        done_mark: &str,
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
            mark: Mark::new(done_mark),
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

    /// Looks at what was printed since the last look; whether it was a mark that the step is done.
    pub(super) fn is_done(&mut self) -> bool {
        let mut chunk = [0; 8 * 1024];
        while matches!(self.written.read(&mut chunk), Ok(length) if length > 0) {}
        while let Ok(length) = self.stdout.read(&mut chunk) {
            if length == 0 {
                break;
            }
            if self.mark.is_in(&chunk[..length]) {
                // What follows it belongs to nobody.
                let _ = self.stdout.seek(SeekFrom::End(0));
                return true;
            }
        }
        false
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

/// Finds a line that begins with certain bytes, however the text is cut into pieces.
struct Mark {
    bytes: Vec<u8>,
    /// How many of them the current line has begun with; `None` if it begins otherwise.
    matched: Option<usize>,
}

impl Mark {
    fn new(text: &str) -> Self {
        Self { bytes: text.as_bytes().to_vec(), matched: Some(0) }
    }

    /// Whether a line with the mark ends in `piece`.
    fn is_in(&mut self, piece: &[u8]) -> bool {
        let mut found = false;
        for line in piece.split_inclusive(|byte| *byte == b'\n') {
            if let Some(matched) = self.matched {
                let rest = &self.bytes[matched..];
                let length = rest.len().min(line.len());
                let is_same = rest[..length] == line[..length];
                self.matched = is_same.then_some(matched + length);
            }
            if line.ends_with(b"\n") {
                found |= self.matched == Some(self.bytes.len());
                self.matched = Some(0);
            }
        }
        found
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
                fs::create_dir_all(folder)?;
            }
            let file = File::options().create(true).append(true).open(path)?;
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

    const TEXT: &[u8] =
        b"{\"type\":\"assistant\"}\n x{\"type\":\"result\"\n{\"type\":\"result\",1}\n";

    #[test]
    fn mark_counts_at_the_beginning_of_a_whole_line_only() {
        let ends: Vec<_> = (0..=TEXT.len())
            .filter(|end| Mark::new("{\"type\":\"result\"").is_in(&TEXT[..*end]))
            .collect();
        assert_eq!(ends, [TEXT.len()]);
    }

    #[test]
    fn mark_is_found_however_the_text_is_cut() {
        for at in 0..=TEXT.len() {
            let mut mark = Mark::new("{\"type\":\"result\"");
            let (front, back) = TEXT.split_at(at);
            let is_first = at == TEXT.len();
            assert_eq!((mark.is_in(front), mark.is_in(back)), (is_first, !is_first), "cut at {at}");
        }
    }
}
