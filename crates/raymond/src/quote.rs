//! Words of commands that people paste into a shell.

use std::path::Path;

use crate::out::is_hidden;

/// `text` as one word: as it is if it is plain, else quoted.
pub(crate) fn word(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:@%+,=".contains(c);
    if !text.is_empty() && text.chars().all(is_plain) {
        return text.to_owned();
    }
    let is_escaped = |c: char| c.is_control() || is_hidden(c);
    if !text.chars().any(is_escaped) {
        return format!("'{}'", text.replace('\'', r"'\''"));
    }
    // A line end in quotes would be a line end on the terminal, too. A character that the terminal gets escaped would be
    // pasted as that escape: another word. Bytes mean the same in every locale, which `\u200b` does not.
    let escaped: String = text
        .chars()
        .map(|c| match c {
            '\\' | '\'' => format!("\\{c}"),
            c if is_escaped(c) => {
                let mut buffer = [0; 4];
                let bytes = c.encode_utf8(&mut buffer).bytes();
                bytes.map(|byte| format!("\\x{byte:02x}")).collect::<Vec<_>>().concat()
            }
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
    use crate::out::visible;

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
            "no\u{200b}",
            r"no\u{200b}",
            "a\u{ad}b \u{e0041}\u{202e}c\u{85}'f",
        ];
        for text in texts {
            let script = format!("printf '%s' {}", word(text));
            for locale in ["C", "C.UTF-8"] {
                let mut bash = Command::new("bash");
                let output = bash.args(["-c", &script]).env("LC_ALL", locale).output().unwrap();
                assert_eq!(String::from_utf8(output.stdout).unwrap(), text, "{script}");
            }
            assert!(!word(text).contains('\n'));
            assert_eq!(visible(&word(text)), word(text), "what is printed is what is pasted");
        }
    }

    #[test]
    fn path_is_no_option() {
        assert_eq!(path(Path::new("-rf")), "./-rf");
        assert_eq!(path(Path::new("a b/-c")), "'a b/-c'");
    }
}
