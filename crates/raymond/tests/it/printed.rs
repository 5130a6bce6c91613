//! The commands in what Raymond prints. Every test checks that those which it sees can be pasted: no word of them is
//! anything but a word to a shell.

use serde_json::Value;

/// The programs whose commands are advised.
const PROGRAMS: [&str; 6] = ["raymond ", "git ", "cd ", "chmod ", "export ", "mkdir "];
/// The fields of JSON with commands, or with text that has some.
const FIELDS: [&str; 4] = ["next", "command", "commands", "hint"];

/// The commands in a text, or in lines of JSON. Each begins its line, or follows a colon, and ends with its line; or it is
/// quoted with backticks.
pub(crate) fn commands(text: &str) -> Vec<String> {
    text.lines().flat_map(of_line).collect()
}

fn of_line(line: &str) -> Vec<String> {
    let json = line.starts_with(['{', '[']).then(|| serde_json::from_str::<Value>(line).ok());
    if let Some(json) = json.flatten() {
        let mut found = Vec::new();
        of_json(&json, false, &mut found);
        return found;
    }
    // A comment is none of a command's words.
    let line = line.split("  #").next().unwrap_or(line);
    let mut found = Vec::new();
    for program in PROGRAMS {
        for (at, _) in line.match_indices(program) {
            let (before, command) = line.split_at(at);
            let is_own = program == "raymond ";
            if before.ends_with('`') {
                found.extend(command.split_once('`').map(|(command, _)| command.to_owned()));
            } else if before.ends_with(": ") || (is_own && before.trim().is_empty()) {
                found.push(command.to_owned());
            }
        }
    }
    found
}

fn of_json(value: &Value, is_advice: bool, found: &mut Vec<String>) {
    match value {
        Value::String(text) if is_advice => found.extend(commands(text)),
        Value::Array(values) => values.iter().for_each(|value| of_json(value, is_advice, found)),
        Value::Object(fields) => {
            for (name, value) in fields {
                of_json(value, FIELDS.contains(&name.as_str()), found);
            }
        }
        _ => {}
    }
}

/// The words that a shell makes of a command; an error if anything in it is more than a word.
pub(crate) fn words(command: &str) -> Result<Vec<String>, String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut rest = command.trim_end().chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            ' ' => words.extend(word.take()),
            '\'' => {
                let word = word.get_or_insert_default();
                loop {
                    match rest.next().ok_or("a quotation without an end")? {
                        '\'' => break,
                        c => word.push(c),
                    }
                }
            }
            '"' => {
                let word = word.get_or_insert_default();
                loop {
                    match rest.next().ok_or("a quotation without an end")? {
                        '"' => break,
                        c @ ('$' | '`' | '\\' | '!') => return Err(format!("`{c}` in quotes")),
                        c => word.push(c),
                    }
                }
            }
            '$' if rest.next_if_eq(&'\'').is_some() => {
                let word = word.get_or_insert_default();
                let mut bytes = Vec::new();
                loop {
                    match rest.next().ok_or("a quotation without an end")? {
                        '\'' => break,
                        '\\' => bytes.push(escaped(&mut rest)?),
                        c => bytes.extend(c.encode_utf8(&mut [0; 4]).bytes()),
                    }
                }
                word.push_str(&String::from_utf8(bytes).map_err(|error| error.to_string())?);
            }
            '\\' => word.get_or_insert_default().push(rest.next().ok_or("nothing is escaped")?),
            c if c.is_alphanumeric() || "-_./:@%+,=[]…~^".contains(c) => {
                word.get_or_insert_default().push(c);
            }
            c => return Err(format!("`{c}` is no part of a word")),
        }
    }
    words.extend(word);
    Ok(words)
}

fn escaped(rest: &mut impl Iterator<Item = char>) -> Result<u8, String> {
    match rest.next() {
        Some('x') => {
            let digits: String = rest.take(2).collect();
            u8::from_str_radix(&digits, 16).map_err(|_| format!("`{digits}` is no byte"))
        }
        Some(c @ ('\\' | '\'')) => Ok(c as u8),
        c => Err(format!("`{c:?}` is escaped")),
    }
}

/// Whether this is a manual page, a document, a completion or a version: `<RUN>` stands for a word of the user's there.
fn is_manual(text: &str) -> bool {
    let has_usage = || text.lines().any(|line| line.to_lowercase().contains("usage: raymond"));
    text.starts_with(['#', '.', '_']) || text.starts_with("raymond ") || has_usage()
}

/// Fails if a command in `text` cannot be pasted.
#[track_caller]
pub(crate) fn check(text: &str) {
    if is_manual(text) {
        return;
    }
    for command in commands(text) {
        if let Err(why) = words(&command) {
            panic!("a shell would not take this as it is meant: {why}\n  {command}\nin:\n{text}");
        }
    }
}
