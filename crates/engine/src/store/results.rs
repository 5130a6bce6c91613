//! The long results of a run: files in its directory, named by their hashes. Journal, run and state file have references to
//! them.
//!
//! A result gets its name when its file is durable and complete, and its record is written after that. So a file that is
//! missing or has another hash was changed later, and its text is not used.

use std::{
    fs,
    io::{self, BufWriter, Write},
    path::{Path, PathBuf},
};

use raymond_flow::{
    machine::{Record, Run},
    payload::{Kept, Payload, Piece},
};
use sha2::{Digest as _, Sha256};

use crate::{
    run::events::{Event, Seen},
    store::layout::RunFiles,
    sys,
    trust::{private, regular, seal::hex},
};

/// Longer results are kept in files. Below this, a record costs no more disk operations than any other, and a thousand
/// workers that wait to be joined take 16 MB; above, the two more operations are few beside writing the text.
const INLINE_BYTES_MAX: usize = 16 * 1024;
/// The longest text that is put together in memory, for a prompt or for a reader of events: more than any coding agent takes.
const TEXT_BYTES_MAX: usize = 64 * 1024 * 1024;
/// The longest file: the payload of one tag.
const FILE_BYTES_MAX: u64 = raymond_flow::tag::PAYLOAD_BYTES_MAX;
/// The file that is being written. A run has one writer.
const DRAFT: &str = "draft";

/// The directory with the long results of one run.
#[derive(Clone, Debug)]
pub struct Results {
    folder: PathBuf,
}

impl Results {
    /// Those of the run with these files.
    pub fn of(files: &RunFiles) -> Self {
        Self::new(files.results.clone())
    }

    pub(crate) fn new(folder: PathBuf) -> Self {
        Self { folder }
    }

    /// Moves the long results in `records` to files, which are durable when this returns.
    pub(crate) fn keep(&self, records: &mut [Record]) -> io::Result<()> {
        for payload in records.iter_mut().filter_map(Record::payload_mut) {
            if let Some(text) = payload.as_text().filter(|text| text.len() > INLINE_BYTES_MAX) {
                *payload = self.write(text)?.into();
            }
        }
        Ok(())
    }

    fn write(&self, text: &str) -> io::Result<Kept> {
        let kept = Kept {
            sha256: hash(text),
            bytes: text.len() as u64,
            beginning: text.chars().take(Kept::BEGINNING_CHARS).collect(),
            is_json: false,
        };
        if !self.folder.is_dir() {
            private::create_dir_all(&self.folder)?;
            self.folder.parent().map_or(Ok(()), sys::sync_folder)?;
        }
        let draft = self.folder.join(DRAFT);
        let mut file = private::options().create(true).truncate(true).write(true).open(&draft)?;
        let written = file.write_all(text.as_bytes()).and_then(|()| file.sync_all());
        drop(file);
        let named = written.and_then(|()| fs::rename(&draft, self.folder.join(&kept.sha256)));
        // On a full disk, half of a result takes the room of the journal.
        named.inspect_err(|_| drop(fs::remove_file(&draft)))?;
        sys::sync_folder(&self.folder)?;
        Ok(kept)
    }

    /// Keeps the long results in `records` for another run, too.
    pub(crate) fn share(&self, records: &[Record], other: &Self) -> io::Result<()> {
        for payload in records.iter().filter_map(Record::payload) {
            for piece in payload.pieces() {
                if let Piece::Kept(kept) = piece {
                    other.write(&self.read(kept)?)?;
                }
            }
        }
        Ok(())
    }

    /// The whole text of a payload.
    pub fn text(&self, payload: &Payload) -> io::Result<String> {
        let too_long = || {
            let message = format!("it is longer than {TEXT_BYTES_MAX} bytes");
            io::Error::new(io::ErrorKind::FileTooLarge, message)
        };
        let mut text = Vec::new();
        for piece in payload.pieces() {
            if let Piece::Kept(kept) = piece
                && kept.bytes.saturating_add(text.len() as u64) > TEXT_BYTES_MAX as u64
            {
                return Err(too_long());
            }
            self.write_piece(piece, &mut text)?;
            if text.len() > TEXT_BYTES_MAX {
                return Err(too_long());
            }
        }
        String::from_utf8(text).map_err(io::Error::other)
    }

    /// The event with the whole text of its result, if it has only a reference to one that can be read.
    pub fn restored(&self, seen: &Seen) -> Option<Seen> {
        let Event::Recorded { record, .. } = &seen.event else { return None };
        let payload = record.payload().filter(|payload| payload.as_text().is_none())?;
        let text = self.text(payload).ok()?;
        let mut whole = seen.clone();
        if let Event::Recorded { record, .. } = &mut whole.event {
            *record.payload_mut()? = text.into();
        }
        Some(whole)
    }

    /// Puts the whole text of its result into `run`, if it can be read.
    pub(crate) fn restore(&self, run: &mut Run) {
        if let Some(result) = run.result.as_mut().filter(|result| result.as_text().is_none())
            && let Ok(text) = self.text(result)
        {
            *result = text.into();
        }
    }

    /// Writes the whole text of a payload to a file. One piece of it is in memory at a time.
    pub(crate) fn write_to(&self, payload: &Payload, path: &Path) -> io::Result<()> {
        let file = private::options().create(true).truncate(true).write(true).open(path)?;
        let mut out = BufWriter::new(file);
        payload.pieces().iter().try_for_each(|piece| self.write_piece(piece, &mut out))?;
        out.flush()
    }

    fn write_piece(&self, piece: &Piece, out: &mut dyn Write) -> io::Result<()> {
        match piece {
            Piece::Text(text) => out.write_all(text.as_bytes()),
            Piece::Kept(kept) => {
                let text = self.read(kept)?;
                if kept.is_json {
                    return Ok(serde_json::to_writer(out, &text)?);
                }
                out.write_all(text.as_bytes())
            }
        }
    }

    /// The text of a reference, if it is the one that was kept.
    fn read(&self, kept: &Kept) -> io::Result<String> {
        // The name comes from a journal that may be another user's.
        let is_hash = kept.sha256.len() == 64 && kept.sha256.bytes().all(|c| c.is_ascii_hexdigit());
        let path = self.folder.join(if is_hash { &kept.sha256 } else { "?" });
        let text = regular::read_text(&path, FILE_BYTES_MAX).map_err(|error| {
            let message = format!("the result in {} cannot be read: {error}", path.display());
            io::Error::new(error.kind(), message)
        })?;
        if text.len() as u64 != kept.bytes || hash(&text) != kept.sha256 {
            let message = format!(
                "the result in {} is damaged: it is not the text whose hash is its name",
                path.display()
            );
            return Err(io::Error::new(io::ErrorKind::InvalidData, message));
        }
        Ok(text)
    }
}

/// Whether an error says that a result is missing or damaged, not that something else went wrong.
pub(crate) fn is_damage(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::InvalidData)
}

fn hash(text: &str) -> String {
    hex(&Sha256::digest(text.as_bytes()))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "in tests a panic is the message")]
mod tests {
    use super::*;
    use crate::testing::{followed, result};

    fn long(letter: char) -> String {
        letter.to_string().repeat(INLINE_BYTES_MAX + 1)
    }

    /// The payload of a record that says `text`, as it is recorded.
    fn recorded(results: &Results, text: &str) -> Payload {
        let mut records = [followed("main", result(text), &[])];
        results.keep(&mut records).unwrap();
        records[0].payload_mut().unwrap().clone()
    }

    #[test]
    fn long_result_is_a_file_and_comes_back_whole() {
        let folder = tempfile::tempdir().unwrap();
        let results = Results::new(folder.path().join("results"));
        let short = "x".repeat(INLINE_BYTES_MAX);
        assert_eq!(recorded(&results, &short), short.as_str().into());
        assert!(!results.folder.exists(), "nothing was long");
        let text = long('ü');
        for _ in 0..2 {
            let payload = recorded(&results, &text);
            let json = serde_json::to_string(&payload).unwrap();
            assert!(json.len() < 2_000, "{json}");
            assert_eq!(results.text(&payload).unwrap(), text);
        }
        let names: Vec<_> = fs::read_dir(&results.folder).unwrap().collect();
        assert_eq!(names.len(), 1, "the same text is kept once, and no draft stays");
    }

    #[test]
    fn json_of_a_result_is_made_when_it_is_written() {
        let folder = tempfile::tempdir().unwrap();
        let results = Results::new(folder.path().join("results"));
        let text = format!("\u{1}\"{}", long('ü'));
        let Some(Piece::Kept(kept)) = recorded(&results, &text).pieces().first().cloned() else {
            panic!("it was not kept");
        };
        let pieces = serde_json::json!(["[", Kept { is_json: true, ..kept }, "]"]);
        let payload = serde_json::from_value(pieces).unwrap();
        let path = folder.path().join("value");
        results.write_to(&payload, &path).unwrap();
        let whole = fs::read_to_string(path).unwrap();
        assert_eq!(whole, serde_json::to_string(&[&text]).unwrap());
        assert_eq!(results.text(&payload).unwrap(), whole);
    }

    #[test]
    fn result_that_was_changed_or_removed_is_not_used() {
        let folder = tempfile::tempdir().unwrap();
        let results = Results::new(folder.path().join("results"));
        let payload = recorded(&results, &long('a'));
        let path = fs::read_dir(&results.folder).unwrap().next().unwrap().unwrap().path();
        for (content, problem) in [
            (long('b'), "is damaged"),
            (long('a') + "a", "is damaged"),
            (String::new(), "is damaged"),
        ] {
            fs::write(&path, content).unwrap();
            let error = results.text(&payload).unwrap_err();
            assert!(error.to_string().contains(problem) && is_damage(&error), "{error}");
            assert!(error.to_string().contains(&path.display().to_string()), "{error}");
        }
        fs::remove_file(&path).unwrap();
        let error = results.text(&payload).unwrap_err();
        assert!(error.to_string().contains("cannot be read") && is_damage(&error), "{error}");
    }

    #[test]
    fn reference_leads_nowhere_else() {
        let folder = tempfile::tempdir().unwrap();
        let results = Results::new(folder.path().join("results"));
        fs::create_dir(&results.folder).unwrap();
        fs::write(folder.path().join("secret"), "x").unwrap();
        let sha256 = "../secret".to_owned();
        let kept = Kept { sha256, bytes: 1, beginning: String::new(), is_json: false };
        let error = results.text(&kept.into()).unwrap_err();
        assert!(!error.to_string().contains("secret"), "{error}");
    }

    #[test]
    fn text_that_no_coding_agent_takes_is_not_put_together() {
        let folder = tempfile::tempdir().unwrap();
        let results = Results::new(folder.path().join("results"));
        let (sha256, bytes) = ("0".repeat(64), TEXT_BYTES_MAX as u64 + 1);
        let kept = Kept { sha256, bytes, beginning: String::new(), is_json: false };
        let error = results.text(&kept.into()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::FileTooLarge);
    }
}
