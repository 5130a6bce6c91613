//! Suggestions for a word that is neither a command nor a workflow.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
};

use clap::{CommandFactory as _, error::ErrorKind};

use super::args::Arguments;
use crate::failure::Failure;
use crate::quote;

/// The error for a command line that clap does not accept, if its first word is neither a command nor an
/// option: then it was meant to be a workflow.
pub(super) fn command(
    error: &clap::Error,
    first: Option<OsString>,
    second: Option<OsString>,
) -> Option<Failure> {
    let (first, second) = (first?, second.unwrap_or_default());
    let (word, path) = (first.to_string_lossy(), Path::new(&first));
    let is_known = Arguments::command().find_subcommand(word.as_ref()).is_some();
    if word.starts_with('-') || is_known {
        return None;
    }
    if !path.exists() {
        return Some(no_such_workflow(path));
    }
    let more = second.to_string_lossy();
    let is_more = error.kind() == ErrorKind::ArgumentConflict && !more.starts_with('-');
    is_more.then(|| {
        let message = format!("`{word}` is a workflow: only options may follow it, not `{more}`");
        Failure::usage(message)
            .with_hint(format!("give it text: raymond {} --input TEXT", quote::path(path)))
    })
}

/// The error for a command line that clap does not accept. `text` is what clap says about it.
pub(super) fn options(text: &str, typed: &[String]) -> Failure {
    let mut parts = text.split("\n\n");
    let message = parts.next().unwrap_or_default().trim_start_matches("error: ").to_owned();
    let lines: Vec<&str> = parts.flat_map(str::lines).map(str::trim).collect();
    let tips = lines.iter().filter_map(|line| line.strip_prefix("tip: "));
    // `-- --option` as a value is never what the user meant.
    let mut hints: Vec<_> =
        tips.filter(|tip| !tip.contains("use '-- ")).map(|tip| (*tip).to_owned()).collect();
    if message.contains("<ID>") || message.contains("<RUN>") {
        hints.push("list the runs: raymond list".to_owned());
    }
    let usage = lines.iter().find_map(|line| line.strip_prefix("Usage: "));
    hints.extend(usage.map(|usage| format!("usage: {usage}")));
    let known = Arguments::command();
    let command = typed.iter().find(|word| known.find_subcommand(word.as_str()).is_some());
    let command = command.map(|name| format!(" {name}")).unwrap_or_default();
    hints.push(format!("raymond{command} --help"));
    Failure::usage(message).with_hint(hints.join("\n"))
}

/// The error for a workflow that does not exist. Typed as a single word, it may have been meant as a
/// command.
pub(crate) fn no_such_workflow(path: &Path) -> Failure {
    let is_word = path.components().count() == 1 && path.extension().is_none();
    let Some(word) = path.to_str().filter(|_| is_word) else { return no_such_path(path) };
    let hint = match (similar_command(word), similar_file(path)) {
        (Some(name), Some(file)) => {
            format!("did you mean `raymond {}` or `raymond {name}`?", quote::path(&file))
        }
        (Some(name), None) => format!("did you mean `raymond {name}`?"),
        (None, Some(file)) => format!("did you mean `{}`?", file.display()),
        (None, None) => {
            let name = quote::path(path);
            format!("list the commands: raymond --help\nbegin a workflow: raymond new {name}")
        }
    };
    let message = format!("`{word}` is neither a command nor a file or directory here");
    Failure::not_found(message).with_hint(hint)
}

/// The error for a file or directory that does not exist.
pub(crate) fn no_such_path(path: &Path) -> Failure {
    let hint = similar_file(path).map_or_else(
        || "a workflow is a state file, a directory, a zip archive or a YAML file".to_owned(),
        |file| format!("did you mean `{}`?", file.display()),
    );
    Failure::not_found(format!("there is no file or directory `{}`", path.display()))
        .with_hint(hint)
}

/// The command with the most similar name.
fn similar_command(word: &str) -> Option<String> {
    let command = Arguments::command();
    let names = command.get_subcommands().filter(|command| !command.is_hide_set());
    let names = names.map(|command| command.get_name().to_owned());
    nearest(word, names.chain(["help".to_owned()]))
}

/// The file in the same directory with the most similar name.
fn similar_file(path: &Path) -> Option<PathBuf> {
    let folder = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let name = path.file_name()?.to_str()?;
    let entries = std::fs::read_dir(folder).ok()?.flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    nearest(name, names).map(|name| path.with_file_name(name))
}

/// The most similar of `names`, if any is similar enough.
pub(crate) fn nearest(word: &str, names: impl Iterator<Item = String>) -> Option<String> {
    // One slip for each three letters: `lst` is `list`, but `hello` is not `help`.
    let slips = (word.chars().count() / 3).clamp(1, 3);
    let names = names.map(|name| (strsim::damerau_levenshtein(&name, word), name));
    names.filter(|(distance, _)| *distance <= slips).min().map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_are_found_and_other_words_are_not() {
        let of = |word| similar_command(word).unwrap_or_default();
        assert_eq!([of("lst"), of("statuss"), of("cancle")], ["list", "status", "cancel"]);
        assert_eq!([of("hello"), of("myflow")], ["", ""]);
    }
}
