//! The last output of a failed step, and the file that has all of it.

use std::{
    fs::File,
    io::{self, Read as _, Seek as _, SeekFrom},
    path::{Path, PathBuf},
};

use raymond_engine::{store::layout::RunFiles, trust::regular};
use raymond_flow::id::StepId;

use crate::line::Line;

/// The most lines that are shown: enough for a message and the command that it is about.
const LINES_MAX: usize = 10;
/// How much of the file is read: those lines, unless they are extremely long.
const BYTES_MAX: u64 = 8 * 1024;
/// How much of one line is shown.
const COLUMNS_MAX: usize = 200;

/// The last output of a step, and its file.
#[derive(Debug)]
pub(crate) struct Complaint {
    pub(crate) lines: Vec<String>,
    pub(crate) path: PathBuf,
}

impl Complaint {
    /// The standard error of `step`; for a script that wrote nothing there, its standard output. `None` if
    /// both are empty or missing.
    pub(crate) fn of(files: &RunFiles, step: &StepId) -> Option<Self> {
        let folder = files.step(step);
        // The standard output of a coding agent is for programs.
        let is_turn = folder.join("prompt").exists();
        let names = ["stderr", "stdout"].into_iter().filter(|name| !is_turn || *name == "stderr");
        names.into_iter().find_map(|name| {
            let path = folder.join(name);
            let lines = last_lines(&regular::open(&path).ok()?).ok()?;
            (!lines.is_empty()).then_some(Self { lines, path })
        })
    }
}

/// The lines that are shown below the failure of a step.
pub(crate) fn of_step(files: &RunFiles, step: &StepId) -> Vec<Line> {
    const MARGIN: &str = "          ";
    let Some(Complaint { lines, path }) = Complaint::of(files, step) else { return Vec::new() };
    let shown = lines
        .iter()
        .map(|line| Line::new().dim(format!("{MARGIN}│ ")).plain(line).cut(COLUMNS_MAX));
    let mut shown: Vec<_> = shown.collect();
    shown.push(Line::new().dim(format!("{MARGIN}└ all of it: {}", near(&path).display())));
    shown
}

/// The path relative to the working directory, if that is shorter.
pub(crate) fn near(path: &Path) -> PathBuf {
    let here = std::env::current_dir().ok();
    let relative = here.and_then(|here| path.strip_prefix(here).ok().map(Path::to_owned));
    relative.unwrap_or_else(|| path.to_owned())
}

fn last_lines(mut file: &File) -> io::Result<Vec<String>> {
    let length = file.metadata()?.len();
    let start = length.saturating_sub(BYTES_MAX);
    file.seek(SeekFrom::Start(start))?;
    let mut bytes = Vec::new();
    file.take(BYTES_MAX).read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes);
    let mut lines: Vec<_> = text.lines().map(str::trim_end).collect();
    // The first line may be incomplete.
    if start > 0 && lines.len() > 1 {
        lines.remove(0);
    }
    let is_blank = |line: &&str| line.is_empty();
    let blank = lines.iter().rev().take_while(|line| is_blank(line)).count();
    lines.truncate(lines.len() - blank);
    let skipped = lines.len().saturating_sub(LINES_MAX);
    Ok(lines.into_iter().skip(skipped).map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    fn of(text: &[u8]) -> Vec<String> {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(text).unwrap();
        last_lines(&file).unwrap()
    }

    #[test]
    fn last_lines_are_shown_and_no_more() {
        assert_eq!(of(b"one\ntwo\n\n\n"), ["one", "two"]);
        assert!(of(b"").is_empty());
        let many: Vec<_> = (0..5000).map(|number| format!("line {number}")).collect();
        let last = of(many.join("\n").as_bytes());
        assert_eq!((last.len(), last[9].as_str()), (LINES_MAX, "line 4999"));
        let long = of("x".repeat(1 << 20).as_bytes());
        assert_eq!((long.len(), long[0].len()), (1, 8192));
    }
}
