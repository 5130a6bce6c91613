//! What a session of pi on disk already contains: `sessions/DIRECTORY/TIME_ID.jsonl` in its home.

use std::path::{Path, PathBuf};

use raymond_flow::{id::SessionId, prompt::before_messages};
use serde::Deserialize;

use super::output::{PiMessage, StopReason};
use crate::agent::lines::{each_line, find_file, object};

#[derive(Default, Deserialize)]
#[serde(default)]
struct Line {
    message: PiMessage,
}

/// The file of a session. pi writes it with the first reply of the model, so a turn that was killed before has none.
pub(super) fn find(sessions: &Path, id: &SessionId) -> Option<PathBuf> {
    find_file(sessions, &format!("_{id}.jsonl"), 1)
}

/// Whether the last prompt in the session is `prompt`, and has no complete answer. Then a turn was cut off in it.
pub(super) fn is_left_at(file: &Path, prompt: &str) -> bool {
    let (mut is_left, prompt) = (false, before_messages(prompt).trim());
    let read = each_line(file, u64::MAX, |line| {
        let message = object::<Line>(line).unwrap_or_default().message;
        match message.role.as_str() {
            "user" => is_left = before_messages(&message.text()).trim() == prompt,
            "assistant" if message.stop_reason == StopReason::Stop => is_left = false,
            _ => {}
        }
    });
    read.is_ok() && is_left
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "in tests a panic is the message")]
mod tests {
    use std::fs;

    use super::*;

    const USER: &str = r#"{"type":"message","message":{"role":"user","content":[{"type":"text","text":"Do it"}]}}"#;
    const TOOL: &str =
        r#"{"type":"message","message":{"role":"assistant","content":[],"stopReason":"toolUse"}}"#;
    const ERROR: &str =
        r#"{"type":"message","message":{"role":"assistant","content":[],"stopReason":"error"}}"#;
    const DONE: &str =
        r#"{"type":"message","message":{"role":"assistant","content":[],"stopReason":"stop"}}"#;

    #[test]
    fn session_is_left_at_the_prompt_that_has_no_answer() {
        let sessions = tempfile::tempdir().unwrap();
        let folder = sessions.path().join("--tmp--");
        fs::create_dir(&folder).unwrap();
        let path = folder.join("2026-11-17T07-24-03-111Z_own.jsonl");
        let left = |lines: &[&str]| {
            fs::write(&path, lines.join("\n")).unwrap();
            is_left_at(&find(sessions.path(), &SessionId::new("own")).unwrap(), "Do it\n")
        };
        assert!(left(&[USER]));
        assert!(left(&[USER, TOOL]));
        assert!(left(&[USER, ERROR]));
        assert!(!left(&[USER, DONE]));
        assert!(!left(&[]));
        assert_eq!(find(sessions.path(), &SessionId::new("other")), None);
    }
}
