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

use crate::trust::regular;

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

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "in tests a panic is the message")]
mod tests {
    use std::fs;

    use raymond_flow::tag::TagKind;

    use super::*;

    /// The payload of the one tag in the first `bytes` bytes of `output`.
    fn scan(output: &[u8], bytes: u64) -> Result<String, TagError> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("stdout");
        fs::write(&path, output).unwrap();
        scan_output(&path, bytes).unwrap().map(|tag| {
            assert_eq!(tag.value.kind, TagKind::Result);
            tag.value.content.value
        })
    }

    fn scan_all(output: &[u8]) -> Result<String, TagError> {
        scan(output, output.len() as u64)
    }

    #[test]
    fn tag_is_found_wherever_the_pieces_in_which_it_is_read_end() {
        let tag = b"<result>found</result>";
        let chunk = usize::try_from(CHUNK_BYTES).unwrap();
        for before in chunk - tag.len() - 1..=chunk + 1 {
            let output = [&vec![b'.'; before][..], tag, b"\n"].concat();
            assert_eq!(scan_all(&output), Ok("found".to_owned()), "after {before} bytes");
        }
    }

    #[test]
    fn what_is_printed_after_the_end_of_the_step_does_not_count() {
        let output = b"<result>own</result>\n<goto>OTHER</goto>\n";
        assert!(scan_all(output).is_err(), "two tags");
        assert_eq!(scan(output, 21), Ok("own".to_owned()));
        // In the middle of a tag.
        assert!(scan(output, 15).is_err());
        assert!(scan(output, 0).is_err());
    }

    #[test]
    fn bytes_that_are_no_text_are_replaced_in_what_is_used() {
        let output = b"\xff\xfe\0<result>a\xffb</result>\xff";
        assert_eq!(scan_all(output), Ok("a\u{fffd}b".to_owned()));
    }

    #[test]
    fn payload_is_read_whole_and_the_rest_is_not_kept() {
        let payload = "x".repeat(1024 * 1024);
        let output = format!("{}<result>{payload}</result>", "noise\n".repeat(300_000));
        assert!(scan_all(output.as_bytes()) == Ok(payload));
    }

    #[test]
    fn output_that_is_no_regular_file_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let error = scan_output(folder.path(), 10).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
        let gone = scan_output(&folder.path().join("gone"), 10).unwrap_err();
        assert_eq!(gone.kind(), io::ErrorKind::NotFound);
    }
}
