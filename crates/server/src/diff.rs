//! What an edit changes, line by line.

use std::time::Duration;

use raymond_engine::agent::Edit;
use serde_json::{Value, json};
use similar::{ChangeTag, TextDiff};

/// How many unchanged lines are around a change.
const CONTEXT: usize = 3;
/// The most lines of a diff.
const LINES_MAX: usize = 2_000;
/// How long computing a diff may take; after that it becomes coarser.
const PATIENCE: Duration = Duration::from_millis(200);

/// The diff of an edit. The numbers of lines count from the beginning of each changed part: where that is in its file is
/// not known.
pub(crate) fn of(edit: &Edit) -> Value {
    let mut hunks = Vec::new();
    let (mut lines_left, mut cut) = (LINES_MAX, 0);
    for change in &edit.changes {
        let diff = TextDiff::configure().timeout(PATIENCE).diff_lines(&change.old, &change.new);
        for group in diff.grouped_ops(CONTEXT) {
            let start = group.first().map(|op| (op.old_range().start, op.new_range().start));
            let (old, new) = start.unwrap_or_default();
            let mut lines = Vec::new();
            for change in group.iter().flat_map(|op| diff.iter_changes(op)) {
                if lines_left == 0 {
                    cut += 1;
                    continue;
                }
                lines_left -= 1;
                let sign = match change.tag() {
                    ChangeTag::Equal => " ",
                    ChangeTag::Delete => "-",
                    ChangeTag::Insert => "+",
                };
                lines.push(json!([sign, change.value().trim_end_matches(['\n', '\r'])]));
            }
            if !lines.is_empty() {
                hunks.push(json!({ "old_start": old + 1, "new_start": new + 1, "lines": lines }));
            }
        }
    }
    json!({ "path": edit.path, "hunks": hunks, "cut": edit.cut, "lines_cut": cut })
}

#[cfg(test)]
mod tests {
    use raymond_engine::agent::Change;

    use super::*;

    fn edit(old: &str, new: &str) -> Edit {
        let changes = vec![Change { old: old.to_owned(), new: new.to_owned() }];
        Edit { path: "a.rs".to_owned(), changes, cut: 0 }
    }

    #[test]
    fn changed_lines_are_told_with_their_neighbours() {
        let diff = of(&edit("a\nb\nc\n", "a\nB\nc\n"));
        assert_eq!(
            diff["hunks"],
            json!([{ "old_start": 1, "new_start": 1, "lines": [[" ", "a"], ["-", "b"], ["+", "B"], [" ", "c"]] }])
        );
    }

    #[test]
    fn long_diff_is_cut_and_says_so() {
        let diff = of(&edit("", &"x\n".repeat(LINES_MAX + 7)));
        assert_eq!(diff["hunks"][0]["lines"].as_array().map(Vec::len), Some(LINES_MAX));
        assert_eq!(diff["lines_cut"], 7);
    }
}
