//! From the files to the YAML.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
};

use thiserror::Error;

use super::{FILES, OneFile, PROMPT, STATES, file_keys};

/// Why files cannot be written as YAML.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum WriteError {
    /// YAML is text.
    #[error("`{name}` is not UTF-8 text, which YAML cannot carry")]
    NotText {
        /// The file.
        name: String,
    },
    /// The written text would not be read as the same files.
    #[error("`{name}` cannot be carried by YAML without a change")]
    Changed {
        /// The first file that would be different.
        name: String,
    },
}

/// The states of one folder, and the folders in it.
#[derive(Default)]
struct Folder<'f> {
    /// By name without extension: the key and the text of each of its files.
    states: BTreeMap<&'f str, BTreeMap<&'static str, &'f str>>,
    folders: BTreeMap<&'f str, Folder<'f>>,
}

/// Writes `files`, whose names begin with the path of their folder. The same files always give the same text,
/// and [`OneFile::read`] gives the same files again.
pub fn write(files: &BTreeMap<String, Vec<u8>>) -> Result<String, WriteError> {
    let mut root = Folder::default();
    let mut others = BTreeMap::new();
    for (name, bytes) in files {
        let text =
            std::str::from_utf8(bytes).map_err(|_| WriteError::NotText { name: name.clone() })?;
        if !add_state(&mut root, name, text) {
            others.insert(name.as_str(), text);
        }
    }
    let mut yaml = format!("{STATES}:\n");
    write_folder(&mut yaml, &root, 1);
    if root.states.is_empty() && root.folders.is_empty() {
        yaml = format!("{STATES}: {{}}\n");
    }
    if !others.is_empty() {
        // Writing to a String cannot fail, here and below.
        let _ = writeln!(yaml, "{FILES}:");
        for (name, text) in others {
            let _ = writeln!(yaml, "  {}: {}", key(name), scalar(text, 2));
        }
    }
    let read = OneFile::read(&yaml).map(|read| read.files).unwrap_or_default();
    let changed = files.iter().find(|(name, bytes)| read.get(*name) != Some(bytes));
    match changed {
        Some((name, _)) => Err(WriteError::Changed { name: name.clone() }),
        None => Ok(yaml),
    }
}

/// Adds a file as a state; `false` if it is none, or if its name cannot be a key.
fn add_state<'f>(root: &mut Folder<'f>, name: &'f str, text: &'f str) -> bool {
    let keys = file_keys();
    let (folder, own) = name.rsplit_once('/').unwrap_or(("", name));
    let Some((stem, key)) =
        keys.iter().find_map(|(key, extension)| Some((own.strip_suffix(extension)?, *key)))
    else {
        return false;
    };
    let is_key = |name: &str| {
        !name.is_empty()
            && !name.starts_with('.')
            && !name.contains(['\\', ':'])
            && !name.chars().any(char::is_control)
    };
    let is_stem = is_key(stem) && !keys.iter().any(|(_, extension)| stem.ends_with(extension));
    let mut folders = folder.split('/').filter(|_| !folder.is_empty());
    if !is_stem || !folders.clone().all(|part| is_key(part) && part != "tests") {
        return false;
    }
    let inner = folders.try_fold(root, |place, part| Some(place.folders.entry(part).or_default()));
    let Some(inner) = inner else { return false };
    inner.states.entry(stem).or_default().insert(key, text);
    true
}

fn write_folder(yaml: &mut String, folder: &Folder<'_>, depth: usize) {
    let indent = "  ".repeat(depth);
    for (stem, files) in &folder.states {
        let _ = writeln!(yaml, "{indent}{}:", key(stem));
        yaml.push_str(&state(files, depth + 1));
    }
    for (name, inner) in &folder.folders {
        let _ = writeln!(yaml, "{indent}{}:", key(&format!("{name}/")));
        write_folder(yaml, inner, depth + 1);
    }
}

/// The keys of a state. The frontmatter of a prompt becomes keys where that changes nothing, not even a comment.
fn state(files: &BTreeMap<&'static str, &str>, depth: usize) -> String {
    let indent = "  ".repeat(depth);
    let mut yaml = String::new();
    let mut others: BTreeSet<_> = files.keys().copied().collect();
    if let Some(text) = files.get(PROMPT) {
        others.remove(PROMPT);
        yaml = apart(text, depth)
            .unwrap_or_else(|| format!("{indent}{PROMPT}: {}\n", scalar(text, depth + 1)));
    }
    for name in others {
        let _ = writeln!(yaml, "{indent}{name}: {}", scalar(files[name], depth + 1));
    }
    yaml
}

/// A prompt with its frontmatter as keys before it; `None` if it has none, or if it would not be read as the
/// same bytes.
fn apart(text: &str, depth: usize) -> Option<String> {
    let (inner, body) = text.strip_prefix("---\n")?.split_once("\n---\n")?;
    if !inner.chars().all(is_plain) {
        return None;
    }
    let written = |depth: usize| {
        let indent = "  ".repeat(depth);
        let mut yaml = String::new();
        for line in inner.split('\n') {
            let indent = if line.is_empty() { "" } else { &indent };
            let _ = writeln!(yaml, "{indent}{line}");
        }
        let _ = writeln!(yaml, "{indent}{PROMPT}: {}", scalar(body, depth + 1));
        yaml
    };
    let alone = format!("{STATES}:\n  S:\n{}", written(2));
    let read = OneFile::read(&alone).ok()?;
    let is_same = read.files.len() == 1 && read.files.get("S.md")? == text.as_bytes();
    is_same.then(|| written(depth))
}

/// Whether a character may stand in a text without an escape.
fn is_plain(c: char) -> bool {
    let is_break = matches!(c, '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}');
    matches!(c, '\n' | '\t') || (!c.is_control() && !is_break)
}

/// A key, with quotes where it could be read as something else.
fn key(name: &str) -> String {
    let is_word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '/');
    let begins = name.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_');
    let is_null = name.eq_ignore_ascii_case("null");
    if begins && !is_null && name.chars().all(is_word) { name.to_owned() } else { quoted(name) }
}

/// A text as the lines of a block, indented to `depth`, where it can be one; else in quotes.
fn scalar(text: &str, depth: usize) -> String {
    let has_words = text.chars().any(|c| !c.is_whitespace());
    if !has_words || !text.chars().all(is_plain) {
        return quoted(text);
    }
    let body = text.trim_end_matches('\n');
    let chomp = match text.len() - body.len() {
        0 => "-",
        1 => "",
        _ => "+",
    };
    // Without it, the indentation of the first line would be taken for that of the block.
    let step = if text.starts_with([' ', '\n', '\t']) { "2" } else { "" };
    let indent = "  ".repeat(depth);
    let mut block = format!("|{step}{chomp}");
    for line in body.split('\n') {
        block.push('\n');
        if !line.is_empty() {
            block.push_str(&indent);
            block.push_str(line);
        }
    }
    // The end of the last line is written by the caller.
    block.push_str(&"\n".repeat((text.len() - body.len()).saturating_sub(1)));
    block
}

fn quoted(text: &str) -> String {
    let mut quoted = "\"".to_owned();
    for c in text.chars() {
        match c {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            c if is_plain(c) => quoted.push(c),
            c => {
                let _ = write!(quoted, "\\U{:08x}", u32::from(c));
            }
        }
    }
    quoted.push('"');
    quoted
}
