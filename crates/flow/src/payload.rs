//! The payload of a `<result>`, and what is made of payloads: text, or references to texts that are kept elsewhere.
//!
//! A long payload is kept in a file of the run, and records, run and state file have only a [`Kept`]: a join of many workers
//! is then as small as their names. What a text is, is asked of the [`World`](crate::world::World) where it is needed.
//! On disk and between machines, a payload that is all text is a string, any other an array of strings and references.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::text::beginning;

/// A text in pieces, of which some are kept elsewhere.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Payload {
    pieces: Vec<Piece>,
}

/// A piece of a payload.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Piece {
    /// The text itself.
    Text(String),
    /// A reference to it.
    Kept(Kept),
}

/// A reference to a text that is kept elsewhere.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kept {
    /// The SHA-256 of the text, as hexadecimal digits. The text is found by it.
    pub sha256: String,
    /// The length of the text.
    pub bytes: u64,
    /// How the text begins, for those who only show it.
    pub beginning: String,
    /// Whether a JSON string of the text is meant, with its quotation marks.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_json: bool,
}

impl Kept {
    /// How many characters of the text a reference has: as many as are shown of a result anywhere but whole.
    pub const BEGINNING_CHARS: usize = 400;
}

impl Payload {
    /// Its pieces. Two texts never follow each other.
    pub fn pieces(&self) -> &[Piece] {
        &self.pieces
    }

    /// The text, unless a part of it is kept elsewhere.
    pub fn as_text(&self) -> Option<&str> {
        match &*self.pieces {
            [] => Some(""),
            [Piece::Text(text)] => Some(text),
            _ => None,
        }
    }

    /// How many bytes the text has at least: as JSON, what is kept elsewhere has more.
    pub fn bytes_min(&self) -> u64 {
        let bytes = self.pieces.iter().map(|piece| match piece {
            Piece::Text(text) => text.len() as u64,
            Piece::Kept(kept) => kept.bytes,
        });
        bytes.fold(0, u64::saturating_add)
    }

    /// Adds text at the end.
    pub fn push_text(&mut self, text: &str) {
        match self.pieces.last_mut() {
            Some(Piece::Text(last)) => last.push_str(text),
            _ if text.is_empty() => {}
            _ => self.pieces.push(Piece::Text(text.to_owned())),
        }
    }

    /// Adds `payload` as a JSON string; `None` if it is made of several pieces, which no payload of a tag is.
    pub(crate) fn push_json(&mut self, payload: &Self) -> Option<()> {
        match &*payload.pieces {
            [Piece::Kept(kept)] => {
                self.pieces.push(Piece::Kept(Kept { is_json: true, ..kept.clone() }));
            }
            _ => self.push_text(&serde_json::to_string(payload.as_text()?).ok()?),
        }
        Some(())
    }

    /// The first `chars_max` characters on one line, with an ellipsis if it was cut.
    pub fn beginning(&self, chars_max: usize) -> String {
        beginning(&self.to_string(), chars_max)
    }
}

impl From<String> for Payload {
    fn from(text: String) -> Self {
        let pieces = if text.is_empty() { Vec::new() } else { vec![Piece::Text(text)] };
        Self { pieces }
    }
}

impl From<&str> for Payload {
    fn from(text: &str) -> Self {
        text.to_owned().into()
    }
}

impl From<Kept> for Payload {
    fn from(kept: Kept) -> Self {
        Self { pieces: vec![Piece::Kept(kept)] }
    }
}

/// Of what is kept elsewhere, only the beginning.
impl fmt::Display for Payload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.pieces.iter().try_for_each(|piece| match piece {
            Piece::Text(text) => f.write_str(text),
            Piece::Kept(kept) => write!(f, "{}…", kept.beginning),
        })
    }
}

impl Serialize for Payload {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.as_text() {
            Some(text) => serializer.serialize_str(text),
            None => self.pieces.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Payload {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Wire {
            Text(String),
            Pieces(Vec<Piece>),
        }
        Ok(match Wire::deserialize(deserializer)? {
            Wire::Text(text) => text.into(),
            Wire::Pieces(pieces) => {
                let mut payload = Self::default();
                for piece in pieces {
                    match piece {
                        Piece::Text(text) => payload.push_text(&text),
                        kept @ Piece::Kept(_) => payload.pieces.push(kept),
                    }
                }
                payload
            }
        })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "in tests a panic is the message")]
mod tests {
    use super::*;

    fn kept() -> Kept {
        let (sha256, beginning) = ("ab".to_owned(), "Dear \"r".to_owned());
        Kept { sha256, bytes: 100_000, beginning, is_json: false }
    }

    fn round(payload: &Payload, json: &str) {
        assert_eq!(serde_json::to_string(payload).unwrap(), json);
        assert_eq!(serde_json::from_str::<Payload>(json).unwrap(), *payload);
    }

    #[test]
    fn text_is_a_string_on_disk_and_a_reference_an_object_in_an_array() {
        round(&"say \"hi\"".into(), r#""say \"hi\"""#);
        round(&Payload::default(), r#""""#);
        let reference = r#"{"sha256":"ab","bytes":100000,"beginning":"Dear \"r"}"#;
        round(&kept().into(), &format!("[{reference}]"));
        let mut both = Payload::from("[");
        both.push_json(&kept().into()).unwrap();
        both.push_json(&"a\n".into()).unwrap();
        let json = reference.replace('}', r#","is_json":true}"#);
        round(&both, &format!(r#"["[",{json},"\"a\\n\""]"#));
    }

    #[test]
    fn what_is_shown_of_a_kept_text_is_its_beginning() {
        let payload = Payload::from(kept());
        assert_eq!(payload.as_text(), None);
        assert_eq!(payload.bytes_min(), 100_000);
        assert_eq!(payload.to_string(), "Dear \"r…");
        assert_eq!(payload.beginning(4), "Dear…");
        assert_eq!(Payload::from("a\nb").beginning(9), "a b");
    }

    #[test]
    fn empty_text_is_the_same_however_it_was_made() {
        let mut empty = Payload::default();
        empty.push_text("");
        assert_eq!(empty, "".into());
        assert_eq!(empty.as_text(), Some(""));
    }
}
