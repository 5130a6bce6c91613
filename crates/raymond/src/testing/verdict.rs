//! Compares the expected outcome with what happened.

use std::{
    fmt::Write as _,
    fs, io,
    path::{Path, PathBuf},
};

use raymond_engine::trust::regular;
use raymond_flow::machine::Status;

use super::{BYTES_MAX, Case, Rehearsal, case::Expect};
use crate::out::clipped;

/// How much of a prompt is shown if it lacks an expected text.
const PROMPT_CHARS_MAX: usize = 10_000;

/// Whether snapshots are compared or written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Update {
    Compare,
    Write,
}

/// All differences from the expected outcome, one text each.
pub(crate) fn differences(
    case: &Case,
    seen: &Rehearsal,
    update: Update,
) -> io::Result<Vec<String>> {
    let expect = &case.expect;
    let mut differences: Vec<_> = lacking(seen).collect();
    if let Some(overrun) = &seen.overrun {
        // The other expectations cannot be met then.
        differences.push(overrun.clone());
        return Ok(differences);
    }
    differences.extend(status(expect, seen));
    differences.extend(result(expect, seen));
    differences.extend(paths(expect, seen));
    differences.extend(forked(expect, seen));
    differences.extend(reminders(expect, seen));
    differences.extend(cost(expect, seen));
    prompts(case, seen, &mut differences);
    if expect.has_snapshot {
        snapshot(case, seen, update, &mut differences)?;
    }
    if seen.run.status == Status::Completed {
        differences.extend(unused(seen));
    }
    Ok(differences)
}

/// The replies and answers that the run needed and the case does not have: a mistake in the case, whatever it expects.
fn lacking(seen: &Rehearsal) -> impl Iterator<Item = String> {
    let missing =
        seen.missing.iter().map(|missing| format!("replies: {missing}; add it under `replies`"));
    let unanswered = seen.unanswered.iter().map(|what| format!("answers: {what}"));
    // A reply that was not accepted is the usual reason why another one is needed.
    let rejected = seen.reminders.iter().filter(|_| !seen.missing.is_empty());
    let rejected = rejected.map(|problem| format!("replies: rejected: {problem}"));
    missing.chain(unanswered).chain(rejected)
}

fn status(expect: &Expect, seen: &Rehearsal) -> Option<String> {
    let status = seen.run.status.to_string();
    let expected = expect.status.as_deref().unwrap_or("completed");
    let why = seen.errors.join("\n      ");
    (status != expected).then(|| format!("status: expected {expected}, got {status}\n      {why}"))
}

fn result(expect: &Expect, seen: &Rehearsal) -> Option<String> {
    let expected = expect.result.as_ref()?;
    let got = seen.run.result.as_ref().map_or("(none)".to_owned(), ToString::to_string);
    (got.trim() != expected.trim()).then(|| format!("result:{}", diff(expected, &got)))
}

fn paths(expect: &Expect, seen: &Rehearsal) -> impl Iterator<Item = String> {
    expect.paths.iter().filter_map(|(agent, expected)| {
        let got = seen.paths.get(agent).cloned().unwrap_or_default();
        if same_states(expected, &got) {
            return None;
        }
        // Written alike, so that only what differs is shown.
        let full =
            |state: &String| got.iter().find(|got| is_state(state, got)).unwrap_or(state).clone();
        let expected: Vec<_> = expected.iter().map(full).collect();
        Some(format!("path of {agent}:{}", diff(&expected.join("\n"), &got.join("\n"))))
    })
}

fn forked(expect: &Expect, seen: &Rehearsal) -> Option<String> {
    let expected = expect.forked.as_ref().filter(|expected| **expected != seen.forked)?;
    let text = diff(&expected.join("\n"), &seen.forked.join("\n"));
    Some(format!("forked agents:{text}"))
}

fn reminders(expect: &Expect, seen: &Rehearsal) -> Option<String> {
    let count = seen.reminders.len();
    let expected = expect.reminders.filter(|expected| *expected != count as u64)?;
    let got = seen.reminders.iter().map(|problem| format!("\n      {problem}"));
    Some(format!("reminders: expected {expected}, got {count}{}", got.collect::<String>()))
}

fn cost(expect: &Expect, seen: &Rehearsal) -> Option<String> {
    let got = seen.run.total_cost_usd;
    let expected = expect.cost.filter(|expected| *expected != got)?;
    // All digits: amounts that differ may be shown alike.
    Some(format!("cost: expected ${}, got ${}", expected.dollars(), got.dollars()))
}

/// The replies and answers of the case that the run did not need.
fn unused(seen: &Rehearsal) -> impl Iterator<Item = String> {
    let replies = seen.left_over.iter().map(|(state, count)| {
        let is_entered = seen.paths.values().flatten().any(|got| is_state(state, got));
        let why = if is_entered { "" } else { ": no agent entered that state, check its name" };
        format!("replies: {count} of {state} were never used{why}")
    });
    let answers = seen.answers_left.iter();
    replies.chain(
        answers.map(|(state, count)| format!("answers: {count} of {state} were never asked for")),
    )
}

/// States may be written with or without their extension.
fn same_states(expected: &[String], got: &[String]) -> bool {
    expected.len() == got.len() && expected.iter().zip(got).all(|(e, g)| is_state(e, g))
}

fn is_state(expected: &str, got: &str) -> bool {
    expected == got || got.rsplit_once('.').is_some_and(|(stem, _)| stem == expected)
}

fn prompts(case: &Case, seen: &Rehearsal, differences: &mut Vec<String>) {
    for (state, expected) in &case.expect.prompts {
        let mut given = seen.prompts.iter().filter(|given| is_state(state, given.state.as_str()));
        for (number, needles) in (1..).zip(expected) {
            let Some(given) = given.next() else {
                differences.push(format!("prompts of {state}: there is no number {number}"));
                break;
            };
            let missing = needles.iter().filter(|needle| !given.prompt.contains(needle.as_str()));
            differences.extend(missing.map(|needle| {
                let prompt = clipped(given.prompt.trim_end(), PROMPT_CHARS_MAX);
                let prompt = prompt.replace('\n', "\n      | ");
                format!("prompt {number} of {state} does not contain {needle:?}:\n      | {prompt}")
            }));
        }
    }
}

/// The file of a case's snapshot.
fn snapshot_path(case: &Case) -> PathBuf {
    case.path.with_extension("snapshot")
}

fn snapshot(
    case: &Case,
    seen: &Rehearsal,
    update: Update,
    differences: &mut Vec<String>,
) -> io::Result<()> {
    let mut text = String::new();
    for given in &seen.prompts {
        let _ = writeln!(text, "=== {} {}\n{}", given.agent, given.state, given.prompt.trim_end());
    }
    let mut path = snapshot_path(case);
    // The directory of the workflow, which contains that of its tests.
    let folder = path.ancestors().nth(2).unwrap_or(Path::new("."));
    if fs::symlink_metadata(&path).is_ok_and(|metadata| metadata.is_symlink()) {
        path = regular::within(folder, &path)?;
    }
    if update == Update::Write {
        return fs::write(path, text);
    }
    match regular::read_text(&path, BYTES_MAX) {
        Ok(expected) if expected == text => {}
        Ok(expected) => differences.push(format!("snapshot:{}", diff(&expected, &text))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            differences.push("snapshot: there is none yet; `--update` writes it".to_owned());
        }
        Err(error) => return Err(error),
    }
    Ok(())
}

/// The most lines of a difference that are shown, and the length of each: a result can have megabytes.
const DIFF_LINES_MAX: usize = 200;
const DIFF_CHARS_MAX: usize = 500;

/// Two texts line by line: most of their common beginning and end is left out.
fn diff(expected: &str, got: &str) -> String {
    let (old, new): (Vec<_>, Vec<_>) = (expected.lines().collect(), got.lines().collect());
    let front = old.iter().zip(&new).take_while(|(a, b)| a == b).count();
    let most = old.len().min(new.len()) - front;
    let both = old.iter().rev().zip(new.iter().rev()).take(most);
    let back = both.take_while(|(a, b)| a == b).count();
    let marked = |mark: char, lines: &[&str]| -> String {
        let mut text = String::new();
        for line in lines.iter().take(DIFF_LINES_MAX) {
            let _ = write!(text, "\n      {mark} {}", clipped(line, DIFF_CHARS_MAX));
        }
        if let Some(left @ 1..) = lines.len().checked_sub(DIFF_LINES_MAX) {
            let _ = write!(text, "\n      {mark} … {left} more lines");
        }
        text
    };
    let start = front.saturating_sub(2);
    let after = &old[old.len() - back..];
    [
        marked(' ', &old[start..front]),
        marked('-', &old[front..old.len() - back]),
        marked('+', &new[front..new.len() - back]),
        marked(' ', &after[..after.len().min(2)]),
    ]
    .concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn diff_shows_what_differs_with_a_little_around_it() {
        let text = diff("a\nb\nc\nd\ne\nf\ng", "a\nb\nc\nX\nY\ne\nf\ng");
        let lines = [
            "        b",
            "        c",
            "      - d",
            "      + X",
            "      + Y",
            "        e",
            "        f",
        ];
        assert_eq!(text, format!("\n{}", lines.join("\n")));
    }

    #[test]
    fn diff_of_long_texts_is_clipped() {
        let text = diff(&"x\n".repeat(1_000_000), &"y".repeat(60_000_000));
        assert!(text.contains("\n      - … 999800 more lines\n"), "{text}");
        assert!(text.contains(&format!("\n      + {}…", "y".repeat(500))), "{text}");
        assert!(text.len() < 10_000, "{}", text.len());
    }

    #[test]
    fn diff_of_equal_texts_and_of_nothing_is_harmless() {
        assert_eq!(diff("", ""), "");
        assert_eq!(diff("", "a"), "\n      + a");
        assert_eq!(diff("a\na", "a"), "\n        a\n      - a");
    }
}
