//! Which names a fork's attribute may have.
//!
//! Attributes become environment variables of scripts, and their text comes from a model. A
//! variable that changes which program runs, what it loads or how a shell starts would let a
//! model's words become somebody else's code, so those names are refused, as is everything that
//! Raymond itself sets.

use thiserror::Error;

use crate::source::Platform;

/// Exact names that change how programs are found, loaded or started.
const RESERVED: [&str; 49] = [
    "BASHOPTS",
    "CDPATH",
    "CLASSPATH",
    "COMSPEC",
    "DISPLAY",
    "EDITOR",
    "ENV",
    "FCEDIT",
    "FPATH",
    "GCONV_PATH",
    "GLOBIGNORE",
    "HISTFILE",
    "HOME",
    "HOSTALIASES",
    "IFS",
    "JAVA_TOOL_OPTIONS",
    "JDK_JAVA_OPTIONS",
    "LANG",
    "LESSCLOSE",
    "LESSOPEN",
    "LOCPATH",
    "LOGNAME",
    "MANPAGER",
    "NLSPATH",
    "OLDPWD",
    "OPENSSL_CONF",
    "PAGER",
    "PATH",
    "PATHEXT",
    "POSIXLY_CORRECT",
    "PROMPT_COMMAND",
    "PWD",
    "RESOLV_HOST_CONF",
    "SHELL",
    "SHELLOPTS",
    "SHLVL",
    "SYSTEMROOT",
    "TEMP",
    "TERMCAP",
    "TERMINFO",
    "TMP",
    "TMPDIR",
    "TZDIR",
    "USER",
    "USERPROFILE",
    "VISUAL",
    "WINDIR",
    "ZDOTDIR",
    "_JAVA_OPTIONS",
];

/// Families of such names.
const RESERVED_PREFIXES: [&str; 21] = [
    "ANTHROPIC_",
    "BASH_",
    "CARGO_",
    "CLAUDE",
    "DYLD_",
    "GIT_",
    "GLIBC_",
    "IS_SANDBOX",
    "LC_",
    "LD_",
    "MALLOC_",
    "NODE_",
    "NPM_",
    "PERL",
    "PIP_",
    "PS",
    "PYTHON",
    "RAYMOND_",
    "RUBY",
    "RUST",
    "SSH_",
];

/// Families told by their end.
const RESERVED_SUFFIXES: [&str; 2] = ["_PROXY", "_proxy"];

/// Why a name may not become a variable.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum UnsafeName {
    /// Not a name that shells know.
    #[error("`{name}` cannot be a variable: letters, digits and `_`, not starting with a digit")]
    NotAnIdentifier {
        /// The attribute.
        name: String,
    },
    /// A name with a meaning.
    #[error("`{name}` changes how programs run and cannot be set from a tag")]
    Reserved {
        /// The attribute.
        name: String,
    },
    /// A name that is taken.
    #[error("`{name}` is already a variable of the environment")]
    Taken {
        /// The attribute.
        name: String,
    },
}

impl UnsafeName {
    /// The attribute.
    pub fn name(&self) -> &str {
        match self {
            Self::NotAnIdentifier { name } | Self::Reserved { name } | Self::Taken { name } => name,
        }
    }
}

/// Whether a fork's attribute called `name` may become a variable. `is_taken` tells whether the
/// environment has it already.
pub fn check_variable_name(
    name: &str,
    platform: Platform,
    is_taken: impl FnOnce(&str) -> bool,
) -> Result<(), UnsafeName> {
    let name_owned = || name.to_owned();
    let mut bytes = name.bytes();
    let is_identifier = bytes.next().is_some_and(|b| b.is_ascii_alphabetic() || b == b'_')
        && bytes.all(|b| b.is_ascii_alphanumeric() || b == b'_');
    if !is_identifier {
        return Err(UnsafeName::NotAnIdentifier { name: name_owned() });
    }
    // Windows does not tell `Path` from `PATH`; Unix does, and there `path` is harmless.
    let compared = match platform {
        Platform::Unix => name_owned(),
        Platform::Windows => name.to_ascii_uppercase(),
    };
    let is_reserved = RESERVED.contains(&compared.as_str())
        || compared == "_"
        || RESERVED_PREFIXES.iter().any(|prefix| compared.starts_with(prefix))
        || RESERVED_SUFFIXES.iter().any(|suffix| compared.ends_with(suffix));
    if is_reserved {
        return Err(UnsafeName::Reserved { name: name_owned() });
    }
    if is_taken(name) {
        return Err(UnsafeName::Taken { name: name_owned() });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(name: &str, platform: Platform) -> Result<(), UnsafeName> {
        check_variable_name(name, platform, |name| name == "taken")
    }

    #[test]
    fn fork_attribute_may_have_an_ordinary_name() {
        for name in ["item", "FILE", "_x", "issue_195", "path", "model"] {
            assert_eq!(check(name, Platform::Unix), Ok(()), "{name}");
        }
    }

    #[test]
    fn fork_attribute_never_sets_how_programs_load_or_shells_start() {
        let dangerous = [
            "PATH",
            "LD_PRELOAD",
            "DYLD_INSERT_LIBRARIES",
            "BASH_ENV",
            "ENV",
            "IFS",
            "PS4",
            "SHELLOPTS",
            "RAYMOND_RESULT",
            "PYTHONPATH",
            "NODE_OPTIONS",
            "GIT_SSH_COMMAND",
            "HOME",
            "https_proxy",
            "ANTHROPIC_BASE_URL",
            "CLAUDE_CONFIG_DIR",
            "_",
        ];
        for name in dangerous {
            let expected = Err(UnsafeName::Reserved { name: name.to_owned() });
            assert_eq!(check(name, Platform::Unix), expected, "{name}");
            assert_eq!(check(name, Platform::Windows), expected, "{name}");
        }
    }

    #[test]
    fn fork_attribute_names_ignore_case_on_windows_only() {
        assert_eq!(check("Path", Platform::Unix), Ok(()));
        let expected = Err(UnsafeName::Reserved { name: "Path".to_owned() });
        assert_eq!(check("Path", Platform::Windows), expected);
    }

    #[test]
    fn fork_attribute_never_replaces_a_variable_that_exists() {
        let expected = Err(UnsafeName::Taken { name: "taken".to_owned() });
        assert_eq!(check("taken", Platform::Unix), expected);
    }

    #[test]
    fn fork_attribute_must_be_an_identifier() {
        for name in ["", "1st", "data-x", "a.b", "a b", "a=b", "é"] {
            let expected = Err(UnsafeName::NotAnIdentifier { name: name.to_owned() });
            assert_eq!(check(name, Platform::Unix), expected);
        }
    }
}
