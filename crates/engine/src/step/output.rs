//! Scans a child's output file for its tag, in bounded memory.

use std::{
    fs::File,
    io::{self, Read, Seek, SeekFrom},
    path::Path,
};

use raymond_flow::{
    tag::{Scanner, Tag, TagError},
    text::{Span, Spanned},
};

use crate::regular;

/// The most that is read at once.
const CHUNK_BYTES: u64 = 64 * 1024;

/// Finds the tag in the first `bytes` bytes of the file at `path`. Anything after them was printed
/// after the step had ended, by a process that it left behind, and is ignored.
pub(crate) fn scan_output(path: &Path, bytes: u64) -> io::Result<Result<Spanned<Tag>, TagError>> {
    let file = regular::open(path)?;
    let mut scanner = Scanner::new();
    // Most outputs are short. A small buffer saves zeroing memory that is never used.
    let chunk_bytes = bytes.saturating_add(1).min(CHUNK_BYTES);
    let mut chunk = vec![0; usize::try_from(chunk_bytes).map_err(io::Error::other)?];
    let mut output = (&file).take(bytes);
    loop {
        match output.read(&mut chunk) {
            Ok(0) => break,
            Ok(length) => scanner.push(&chunk[..length]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    scanner.finish().tag(|span| read_span(&file, span))
}

fn read_span(mut file: &File, span: Span) -> io::Result<String> {
    let length = usize::try_from(span.len()).map_err(io::Error::other)?;
    let mut bytes = vec![0; length];
    file.seek(SeekFrom::Start(span.start))?;
    file.read_exact(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
