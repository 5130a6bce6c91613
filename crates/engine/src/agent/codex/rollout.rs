//! What a session of Codex on disk already contains: `sessions/YYYY/MM/DD/rollout-TIME-ID.jsonl` in its home.

use std::path::Path;

use raymond_flow::{id::SessionId, prompt::before_messages};
use serde::Deserialize;

use crate::agent::lines::{each_line, find_file, object};

/// How deep the files lie below `sessions`: year, month, day.
const DEPTH: usize = 3;

#[derive(Default, Deserialize)]
#[serde(default)]
struct Line {
    payload: Payload,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Payload {
    #[serde(rename = "type")]
    kind: String,
    role: String,
    content: Vec<Content>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Content {
    text: String,
}

/// Whether the last that was said in the session is `prompt`, without a complete answer. Then a turn was cut off in it.
pub(super) fn ends_with_prompt(home: &Path, id: &SessionId, prompt: &str) -> bool {
    let Some(path) = find_file(&home.join("sessions"), &format!("-{id}.jsonl"), DEPTH) else {
        return false;
    };
    let (mut is_last, prompt) = (false, before_messages(prompt).trim());
    let read = each_line(&path, u64::MAX, |line| {
        let payload = object::<Line>(line).unwrap_or_default().payload;
        match (payload.kind.as_str(), payload.role.as_str()) {
            ("message", "user") => {
                let mut texts = payload.content.iter();
                is_last = texts.any(|content| before_messages(&content.text).trim() == prompt);
            }
            ("task_complete", _) => is_last = false,
            _ => {}
        }
    });
    read.is_ok() && is_last
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "in tests a panic is the message")]
mod tests {
    use std::fs;

    use super::*;

    const USER: &str = r#"{"type":"response_item","payload":{"type":"message","role":"user","content":[{"type":"input_text","text":"Do it\n"}]}}"#;
    const DONE: &str = r#"{"type":"event_msg","payload":{"type":"task_complete"}}"#;
    const CONTEXT: &str = r#"{"type":"response_item","payload":{"type":"message","role":"user","content":[{"type":"input_text","text":"<environment_context>"}]}}"#;

    fn ends(lines: &[&str], prompt: &str) -> bool {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().join("sessions/2026/11/17");
        fs::create_dir_all(&folder).unwrap();
        fs::create_dir_all(home.path().join("sessions/2026/11/18")).unwrap();
        let path = folder.join("rollout-2026-11-17T06-45-04-abc.jsonl");
        fs::write(path, lines.join("\n")).unwrap();
        assert!(!ends_with_prompt(home.path(), &SessionId::new("other"), prompt));
        ends_with_prompt(home.path(), &SessionId::new("abc"), prompt)
    }

    #[test]
    fn session_is_left_at_the_prompt_that_has_no_answer() {
        assert!(ends(&[CONTEXT, USER], "Do it"));
        assert!(ends(&[CONTEXT, USER, DONE, USER], "Do it\n"));
        assert!(!ends(&[CONTEXT, USER, DONE], "Do it"), "answered");
        assert!(!ends(&[CONTEXT], "Do it"), "never given");
        assert!(!ends(&[USER], "Do something else"));
        assert!(!ends(&["garbage"], "Do it"));
    }
}
