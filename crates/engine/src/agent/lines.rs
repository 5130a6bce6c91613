//! Reads the output of a turn and the sessions of coding agents line by line, in bounded memory.

use std::{
    fs,
    io::{self, BufRead as _, BufReader, Read as _},
    path::{Path, PathBuf},
};

use serde::{Deserialize as _, Deserializer, de::DeserializeOwned};

use crate::trust::regular;

/// A longer line is read in parts, none of which is valid JSON: no answer is that long.
const LINE_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// The most that is read of a coding agent's standard error.
pub(super) const COMPLAINT_BYTES_MAX: u64 = 4 * 1024;

/// Reads a field of a line. One that is null or of another type than usual is as good as missing: the rest of the line may
/// still say how the turn ended.
pub(super) fn lenient<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: DeserializeOwned + Default,
{
    let value = serde_json::Value::deserialize(deserializer)?;
    Ok(serde_json::from_value(value).unwrap_or_default())
}

/// The object that a line is. A list is none, although serde would fill the fields of one from it.
pub(super) fn object<T: DeserializeOwned>(line: &[u8]) -> Option<T> {
    let is_object = line.trim_ascii_start().starts_with(b"{");
    is_object.then(|| serde_json::from_slice(line).ok())?
}

/// Calls `see` with every line of the first `bytes` of the file at `path`.
pub(super) fn each_line(path: &Path, bytes: u64, mut see: impl FnMut(&[u8])) -> io::Result<()> {
    let mut file = BufReader::new(regular::open(path)?.take(bytes));
    let mut line = Vec::new();
    while (&mut file).take(LINE_BYTES_MAX).read_until(b'\n', &mut line)? > 0 {
        see(&line);
        line.clear();
    }
    Ok(())
}

/// The beginning of what a coding agent wrote to standard error.
pub(super) fn complaint(path: &Path) -> io::Result<String> {
    let mut text = Vec::new();
    regular::open(path)?.take(COMPLAINT_BYTES_MAX).read_to_end(&mut text)?;
    Ok(String::from_utf8_lossy(&text).trim().to_owned())
}

/// The file in a directory `depth` levels below `folder` whose name ends with `end`. The newest directories come first: they are named by date.
pub(super) fn find_file(folder: &Path, end: &str, depth: usize) -> Option<PathBuf> {
    let mut paths: Vec<_> =
        fs::read_dir(folder).ok()?.flatten().map(|entry| entry.path()).collect();
    if depth == 0 {
        return paths.into_iter().find(|path| path.to_string_lossy().ends_with(end));
    }
    paths.sort_unstable();
    paths.into_iter().rev().find_map(|path| find_file(&path, end, depth - 1))
}
