//! What was meant by a word that is neither a command nor a workflow.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
};

use clap::CommandFactory as _;

use super::args::Arguments;
use crate::failure::Failure;

/// The error for the first word of a command line, if that is neither a command, an option nor a file.
pub(super) fn command(word: Option<OsString>) -> Option<Failure> {
    let word = word?;
    let text = word.to_string_lossy();
    let is_known = Arguments::command().find_subcommand(text.as_ref()).is_some();
    if text.starts_with('-') || is_known || Path::new(&word).exists() {
        return None;
    }
    Some(no_such_workflow(Path::new(&word)))
}

/// The error for a workflow that does not exist. Typed as a single word, it may have been meant as a
/// command.
pub(crate) fn no_such_workflow(path: &Path) -> Failure {
    let shown = path.display();
    let is_word = path.components().count() == 1 && path.extension().is_none();
    let command = path.to_str().filter(|_| is_word).and_then(similar_command);
    let message = if is_word {
        format!("`{shown}` is neither a command nor a file or folder here")
    } else {
        format!("there is no file or folder `{shown}`")
    };
    let hint = match (command, similar_file(path)) {
        (Some(name), _) => format!("did you mean `raymond {name}`?"),
        (None, Some(file)) => format!("did you mean `{}`?", file.display()),
        (None, None) if is_word => {
            format!("list the commands: raymond --help\nbegin a workflow: raymond new {shown}")
        }
        (None, None) => "a workflow is a state file, a folder or a zip archive".to_owned(),
    };
    Failure::usage(message).with_hint(hint)
}

/// The command that is spelled most like `word`.
fn similar_command(word: &str) -> Option<String> {
    let command = Arguments::command();
    let names = command.get_subcommands().filter(|command| !command.is_hide_set());
    let names = names.map(|command| command.get_name().to_owned());
    nearest(word, names.chain(["help".to_owned()]))
}

/// The file beside it that is spelled most like it.
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

/// What of `names` is spelled most like `word`, if anything is.
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
