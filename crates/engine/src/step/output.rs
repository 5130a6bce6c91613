//! A child's output read back from its file, in bounded memory whatever it printed.

use std::{
    fs::File,
    io::{self, Read, Seek, SeekFrom},
    path::Path,
};

use raymond_flow::{
    tag::{Scanner, Tag, TagError},
    text::{Span, Spanned},
};

/// What is read at once, at most.
const CHUNK_BYTES: u64 = 64 * 1024;

/// Finds the tag in the file at `path`, up to its end as it is now.
pub(crate) fn scan_output(path: &Path) -> io::Result<Result<Spanned<Tag>, TagError>> {
    let mut file = crate::regular::open(path)?;
    let mut scanner = Scanner::new();
    // Most say little, and a page that is not needed need not be cleared.
    let chunk_bytes = (file.metadata()?.len() + 1).min(CHUNK_BYTES);
    let mut chunk = vec![0; usize::try_from(chunk_bytes).map_err(io::Error::other)?];
    loop {
        match file.read(&mut chunk) {
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
