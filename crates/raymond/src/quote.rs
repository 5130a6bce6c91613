//! Words of commands that people paste into a shell.

use std::path::Path;

/// `text` as one word: as it is if it is plain, else quoted.
pub(crate) fn word(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:@%+,=".contains(c);
    if !text.is_empty() && text.chars().all(is_plain) {
        return text.to_owned();
    }
    if !text.chars().any(char::is_control) {
        return format!("'{}'", text.replace('\'', r"'\''"));
    }
    // A line end in quotes would be a line end on the terminal, too.
    let escaped: String = text
        .chars()
        .map(|c| match c {
            '\\' | '\'' => format!("\\{c}"),
            c if c.is_ascii_control() => format!("\\x{:02x}", u32::from(c)),
            c if c.is_control() => format!("\\u{:04x}", u32::from(c)),
            c => c.to_string(),
        })
        .collect();
    format!("$'{escaped}'")
}

/// A path as one word, which no command takes for an option.
pub(crate) fn path(path: &Path) -> String {
    let text = path.to_string_lossy();
    if text.starts_with('-') { word(&format!("./{text}")) } else { word(&text) }
}

#[cfg(all(test, unix))]
#[allow(clippy::unwrap_used, reason = "in tests a panic is the message")]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn bash_reads_every_word_as_it_was() {
        let texts = [
            "plain-1_2.x/y",
            "",
            "a b",
            "yes|change|no",
            "it's",
            "$(touch x) `y` $HOME \\ \"z\"",
            "two\nlines\tand 'quotes' \\ \u{7}",
            "~",
            "#x",
            "ünï > <",
            "*",
            "{a,b}",
            "!!",
        ];
        for text in texts {
            let script = format!("printf '%s' {}", word(text));
            let output = Command::new("bash").args(["-c", &script]).output().unwrap();
            assert_eq!(String::from_utf8(output.stdout).unwrap(), text, "{script}");
            assert!(!word(text).contains('\n'));
        }
    }

    #[test]
    fn path_is_no_option() {
        assert_eq!(path(Path::new("-rf")), "./-rf");
        assert_eq!(path(Path::new("a b/-c")), "'a b/-c'");
    }
}
