//! The output of running turns, for observers. Nothing depends on it.

use std::{
    fs,
    io::{self, Read as _, Seek as _, SeekFrom},
    path::PathBuf,
    time::{Duration, UNIX_EPOCH},
};

use crate::{
    agent::{Activity, CodingAgent},
    exec::step::StepFolder,
    trust::regular,
};

/// How often the outputs are read.
pub(crate) const GLANCE_INTERVAL: Duration = Duration::from_millis(200);
/// The most that is read of one output at a time: more than a user can follow.
const GLANCE_BYTES: u64 = 256 * 1024;
/// The longest line that is parsed.
const LINE_BYTES_MAX: usize = 1024 * 1024;

/// The end of the output of a running turn. The file is opened only while it is read: an observer may watch more
/// turns than a process may have files open.
#[derive(Debug)]
pub(crate) struct Tail {
    path: PathBuf,
    /// Up to where it was read.
    position: u64,
    partial: Vec<u8>,
    /// Whether the beginning of the current line was dropped because the line is too long.
    is_cut: bool,
}

/// What the turn in `folder` has done since the last look at `tail`, which is opened if necessary.
pub(crate) fn glance(
    tail: &mut Option<Tail>,
    folder: &StepFolder,
    agent: &dyn CodingAgent,
) -> Vec<Activity> {
    if tail.is_none() {
        *tail = Tail::of(folder);
    }
    let lines = tail.as_mut().map(Tail::lines).unwrap_or_default();
    lines.iter().filter_map(|line| agent.activity(line)).collect()
}

impl Tail {
    /// The output of a step; for a kept process, its part of the output of the first step. `None` before there is one.
    fn of(folder: &StepFolder) -> Option<Self> {
        let (position, path) = folder.output_is_at().unwrap_or_else(|| (0, folder.stdout()));
        let is_there = fs::symlink_metadata(&path).is_ok();
        is_there.then(|| Self { path, position, partial: Vec::new(), is_cut: false })
    }

    /// Whether the whole output so far was read.
    pub(crate) fn is_at_end(&self) -> bool {
        fs::metadata(&self.path).map_or(0, |metadata| metadata.len()) <= self.position
    }

    /// When the output grew last, in milliseconds since 1970.
    pub(crate) fn grew_at_ms(&self) -> Option<u64> {
        let at = fs::metadata(&self.path).and_then(|metadata| metadata.modified()).ok()?;
        u64::try_from(at.duration_since(UNIX_EPOCH).ok()?.as_millis()).ok()
    }

    /// Reads what is new, up to a limit.
    fn read(&mut self) -> io::Result<()> {
        if self.is_at_end() {
            return Ok(());
        }
        let mut file = regular::open(&self.path)?;
        file.seek(SeekFrom::Start(self.position))?;
        let count = file.take(GLANCE_BYTES).read_to_end(&mut self.partial)?;
        self.position += count as u64;
        Ok(())
    }

    fn lines(&mut self) -> Vec<Vec<u8>> {
        // What cannot be read now is read with the next look.
        let _ = self.read();
        let Some(end) = self.partial.iter().rposition(|byte| *byte == b'\n') else {
            if self.partial.len() > LINE_BYTES_MAX {
                self.partial.clear();
                self.is_cut = true;
            }
            return Vec::new();
        };
        let rest = self.partial.split_off(end + 1);
        let whole = std::mem::replace(&mut self.partial, rest);
        let lines = whole.split(|byte| *byte == b'\n').map(<[u8]>::to_vec);
        // What is left of a line that is too long is not a line of its own.
        lines.skip(usize::from(std::mem::take(&mut self.is_cut))).collect()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "in tests a panic is the message")]
mod tests {
    use std::{fs::File, io::Write as _};

    use super::*;
    use crate::{
        exec::step::place_output,
        testing::{Talkative, step_id},
    };

    /// A turn that prints.
    struct Printing {
        _root: tempfile::TempDir,
        folder: StepFolder,
        stdout: File,
        tail: Option<Tail>,
    }

    fn printing() -> Printing {
        let root = tempfile::tempdir().unwrap();
        let folder = StepFolder::new(root.path(), &step_id(1));
        folder.create().unwrap();
        let stdout = File::create(folder.stdout()).unwrap();
        Printing { _root: root, folder, stdout, tail: None }
    }

    impl Printing {
        fn print(&mut self, text: impl AsRef<[u8]>) {
            self.stdout.write_all(text.as_ref()).unwrap();
        }

        fn glance(&mut self) -> Vec<String> {
            let said = glance(&mut self.tail, &self.folder, &Talkative);
            said.into_iter().map(crate::testing::words).collect()
        }
    }

    #[test]
    fn each_whole_line_is_seen_once_however_it_is_printed() {
        let mut turn = printing();
        assert_eq!(turn.glance(), [""; 0]);
        for (text, expected) in [
            ("a\nb\nha", vec!["a", "b"]),
            ("lf", vec![]),
            ("\n", vec!["half"]),
            ("", vec![]),
            ("c\n", vec!["c"]),
        ] {
            turn.print(text);
            assert_eq!(turn.glance(), expected, "{text:?}");
        }
        assert!(turn.tail.as_mut().unwrap().is_at_end());
    }

    #[test]
    fn turn_that_has_printed_nothing_yet_is_looked_for_again() {
        let mut turn = printing();
        fs::remove_file(turn.folder.stdout()).unwrap();
        assert_eq!(turn.glance(), [""; 0]);
        fs::write(turn.folder.stdout(), "late\n").unwrap();
        assert_eq!(turn.glance(), ["late"]);
    }

    #[test]
    fn more_than_is_read_at_a_glance_comes_with_the_next_one() {
        let mut turn = printing();
        let line = "x".repeat(1023) + "\n";
        let per_glance = usize::try_from(GLANCE_BYTES).unwrap() / line.len();
        turn.print(line.repeat(per_glance + 5));
        assert_eq!(turn.glance().len(), per_glance);
        assert!(!turn.tail.as_mut().unwrap().is_at_end());
        assert_eq!(turn.glance().len(), 5);
        assert!(turn.tail.as_mut().unwrap().is_at_end());
    }

    #[test]
    fn line_that_is_too_long_is_not_kept_and_not_taken_for_others() {
        let mut turn = printing();
        turn.print("before\n");
        for _ in 0..3 {
            turn.print(vec![b'x'; LINE_BYTES_MAX]);
        }
        turn.print("\"end\nafter\n");
        let mut seen = Vec::new();
        for _ in 0..30 {
            seen.extend(turn.glance());
            let kept = turn.tail.as_ref().map_or(0, |tail| tail.partial.len());
            assert!(kept <= LINE_BYTES_MAX + usize::try_from(GLANCE_BYTES).unwrap());
        }
        assert_eq!(seen, ["before", "after"]);
    }

    #[test]
    fn output_of_a_kept_process_begins_where_its_turn_does() {
        let mut turn = printing();
        turn.print("first turn\nsecond turn\n");
        let second = StepFolder::new(turn.folder.path().parent().unwrap(), &step_id(2));
        second.create().unwrap();
        place_output(second.path(), "", 11, &turn.folder.name()).unwrap();
        turn.folder = second;
        assert_eq!(turn.glance(), ["second turn"]);
    }
}
