//! Labels: which machines of a cluster may carry out a state. On one machine they have no effect.

use super::{Frontmatter, diagnostic::Findings};

/// The most labels of a state, and of a worker: a worker waits for work under every combination of its labels.
pub const LABELS_MAX: usize = 4;
const LABEL_CHARS_MAX: usize = 64;

/// How a line of a script begins that names labels.
const IN_SCRIPT: &str = "# ";
const KEY: &str = "runs_on:";

/// Whether a word can be a label: letters, digits, `-`, `_` and `.`, which mean nothing in the name of a queue.
pub fn is_label(word: &str) -> bool {
    let is_part = |char: char| char.is_ascii_alphanumeric() || "-_.".contains(char);
    (1..=LABEL_CHARS_MAX).contains(&word.len()) && word.chars().all(is_part)
}

/// The labels in the comment at the beginning of a script: the first line `# runs_on: [LABEL, …]`, with the value that
/// frontmatter has.
pub(super) fn of_script(text: &str, findings: &mut Findings<'_>) -> Vec<String> {
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        let is_comment = line.starts_with('#') || line.trim().is_empty();
        if !is_comment {
            break;
        }
        if let Some(yaml) = line.strip_prefix(IN_SCRIPT).filter(|rest| rest.starts_with(KEY)) {
            let offset = (at + IN_SCRIPT.len()) as u64;
            return Frontmatter::read(yaml, offset, findings).labels();
        }
        at += line.len();
    }
    Vec::new()
}
