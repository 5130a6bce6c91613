//! Which names a fork's attribute may have.
//!
//! Attributes become environment variables of scripts. If a coding agent chose any name, its words would reach
//! every program that reads such a variable: `MAKEFLAGS`, `TAR_OPTIONS` and a hundred others execute their
//! value. A list of dangerous names is never complete, so the rule is the other way round: an agent may choose
//! names in lower case that no known program reads, and the workflow's author may declare any other. The names
//! in a script are the author's own choice.

use thiserror::Error;

use crate::platform::Platform;

/// Who chose the name of an attribute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Chooser {
    /// The author of the workflow: a script prints the tag, or the state's policy names the attribute.
    Author,
    /// A coding agent.
    Agent,
}

/// Not even an author may set these through a tag: the loader and the shell of every script read them before
/// its first line.
const RESERVED: [&str; 32] = [
    "_",
    "BASHOPTS",
    "CDPATH",
    "COMSPEC",
    "ENV",
    "EUID",
    "FPATH",
    "GCONV_PATH",
    "GLOBIGNORE",
    "HOME",
    "IFS",
    "LOCPATH",
    "NLSPATH",
    "OLDPWD",
    "PATH",
    "PATHEXT",
    "POSIXLY_CORRECT",
    "PPID",
    "PROMPT_COMMAND",
    "PS0",
    "PS1",
    "PS2",
    "PS3",
    "PS4",
    "PWD",
    "SHELL",
    "SHELLOPTS",
    "SHLVL",
    "SYSTEMROOT",
    "UID",
    "WINDIR",
    "ZDOTDIR",
];

/// Prefixes of such names, and of the variables that Raymond itself sets.
const RESERVED_PREFIXES: [&str; 5] = ["BASH_", "DYLD_", "GLIBC_", "LD_", "RAYMOND_"];

/// Names in lower case that programs read, although most use capitals: shells, `configure`, `make`, TeX.
const OF_TOOLS: [&str; 7] =
    ["auto_resume", "cdpath", "exec_prefix", "fpath", "histchars", "module_path", "prefix"];

/// Prefixes of such names: package managers, `configure`, fish, Spring, TeX (which also reads
/// `shell_escape_pdflatex`).
const OF_TOOLS_PREFIXES: [&str; 12] = [
    "ac_",
    "enable_",
    "fish_",
    "npm_",
    "openin_any",
    "openout_any",
    "pnpm_",
    "rvm_",
    "shell_escape",
    "spring_",
    "with_",
    "yarn_",
];

/// A part of the names of `configure` results (`gl_cv_…`).
const OF_TOOLS_INFIX: &str = "_cv_";
/// Suffixes of such names: proxies, and the systems that `configure` is given.
const OF_TOOLS_SUFFIXES: [&str; 2] = ["_alias", "_proxy"];

/// Why a name may not become a variable.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum UnsafeName {
    /// Not a valid name of a shell variable.
    #[error("`{name}` cannot be a variable: letters, digits and `_`, not starting with a digit")]
    NotAnIdentifier {
        /// The attribute.
        name: String,
    },
    /// A name that may never be set through a tag.
    #[error("`{name}` changes how programs run and cannot be set from a tag")]
    Reserved {
        /// The attribute.
        name: String,
    },
    /// An agent chose a name in the style of program variables.
    #[error(
        "`{name}` is not allowed: {}, or one that the state declares under `attributes`",
        match platform {
            Platform::Unix => "choose a name in lower case (`a` to `z`, digits, `_`)",
            Platform::Windows => "on Windows names have no case, so leave it out",
        }
    )]
    Undeclared {
        /// The attribute.
        name: String,
        /// The platform whose rules apply.
        platform: Platform,
    },
    /// An agent chose a name that programs read.
    #[error(
        "`{name}` is read by other programs: choose another name, or one that the state declares \
         under `attributes`"
    )]
    OfATool {
        /// The attribute.
        name: String,
    },
    /// An agent chose a name that the environment already has.
    #[error(
        "`{name}` is already a variable of the environment: choose another name, or one that the \
         state declares under `attributes`"
    )]
    Taken {
        /// The attribute.
        name: String,
    },
}

impl UnsafeName {
    /// The attribute.
    pub fn name(&self) -> &str {
        match self {
            Self::NotAnIdentifier { name }
            | Self::Reserved { name }
            | Self::Undeclared { name, .. }
            | Self::OfATool { name }
            | Self::Taken { name } => name,
        }
    }
}

/// Whether a fork's attribute called `name` may become a variable. `is_taken` tells whether the
/// environment has it already.
pub fn check_variable_name(
    name: &str,
    chooser: Chooser,
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
    if RESERVED.contains(&compared.as_str())
        || RESERVED_PREFIXES.iter().any(|prefix| compared.starts_with(prefix))
    {
        return Err(UnsafeName::Reserved { name: name_owned() });
    }
    if chooser == Chooser::Author {
        return Ok(());
    }
    if platform == Platform::Windows || name.contains(|c: char| c.is_ascii_uppercase()) {
        return Err(UnsafeName::Undeclared { name: name_owned(), platform });
    }
    if OF_TOOLS.contains(&name)
        || OF_TOOLS_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
        || name.contains(OF_TOOLS_INFIX)
        || OF_TOOLS_SUFFIXES.iter().any(|suffix| name.ends_with(suffix))
    {
        return Err(UnsafeName::OfATool { name: name_owned() });
    }
    if is_taken(name) {
        return Err(UnsafeName::Taken { name: name_owned() });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn agent(name: &str, platform: Platform) -> Result<(), UnsafeName> {
        check_variable_name(name, Chooser::Agent, platform, |name| name == "taken")
    }

    fn author(name: &str, platform: Platform) -> Result<(), UnsafeName> {
        check_variable_name(name, Chooser::Author, platform, |name| name == "taken")
    }

    #[test]
    fn agent_may_choose_a_name_in_lower_case() {
        for name in ["item", "_x", "issue_195", "path", "model", "ldap", "proxy"] {
            assert_eq!(agent(name, Platform::Unix), Ok(()), "{name}");
        }
    }

    #[test]
    fn agent_may_choose_no_name_that_a_program_reads() {
        // Each of them makes some program run what it holds, or whom it talks to.
        let names = [
            "MAKEFLAGS",
            "TAR_OPTIONS",
            "LUA_INIT",
            "GOFLAGS",
            "RSYNC_RSH",
            "XDG_CONFIG_HOME",
            "PYTHONPATH",
            "NODE_OPTIONS",
            "GIT_SSH_COMMAND",
            "PERL5OPT",
            "RUBYOPT",
            "CC",
            "EDITOR",
            "LESSOPEN",
            "JAVA_TOOL_OPTIONS",
            "ANTHROPIC_BASE_URL",
            "CLAUDE_CONFIG_DIR",
            "Item",
            "pART",
            "npm_config_script_shell",
            "https_proxy",
            "no_proxy",
            "ac_cv_path_mkdir",
            "gl_cv_x",
            "shell_escape",
            "prefix",
            "fish_user_paths",
        ];
        for name in names {
            assert!(agent(name, Platform::Unix).is_err(), "{name}");
            assert_eq!(author(name, Platform::Unix), Ok(()), "the author's own: {name}");
        }
    }

    #[test]
    fn agent_may_choose_no_name_where_names_have_no_case() {
        for name in ["item", "makeflags", "ITEM"] {
            let platform = Platform::Windows;
            let expected = Err(UnsafeName::Undeclared { name: name.to_owned(), platform });
            assert_eq!(agent(name, platform), expected, "{name}");
            assert_eq!(author(name, platform), Ok(()), "{name}");
        }
    }

    #[test]
    fn no_tag_sets_how_programs_load_or_shells_start() {
        let dangerous = [
            "PATH",
            "LD_PRELOAD",
            "DYLD_INSERT_LIBRARIES",
            "BASH_ENV",
            "BASH_FUNC_ls",
            "ENV",
            "IFS",
            "PS4",
            "SHELLOPTS",
            "RAYMOND_RESULT",
            "HOME",
            "_",
        ];
        for name in dangerous {
            let expected = Err(UnsafeName::Reserved { name: name.to_owned() });
            for platform in [Platform::Unix, Platform::Windows] {
                assert_eq!(author(name, platform), expected, "{name}");
                assert_eq!(agent(name, platform), expected, "{name}");
            }
        }
        assert_eq!(author("Path", Platform::Unix), Ok(()));
        let expected = Err(UnsafeName::Reserved { name: "Path".to_owned() });
        assert_eq!(author("Path", Platform::Windows), expected);
    }

    #[test]
    fn agent_never_replaces_a_variable_that_exists() {
        let expected = Err(UnsafeName::Taken { name: "taken".to_owned() });
        assert_eq!(agent("taken", Platform::Unix), expected);
        assert_eq!(author("taken", Platform::Unix), Ok(()));
    }

    #[test]
    fn fork_attribute_must_be_an_identifier() {
        for name in ["", "1st", "data-x", "a.b", "a b", "a=b", "é"] {
            let expected = Err(UnsafeName::NotAnIdentifier { name: name.to_owned() });
            assert_eq!(agent(name, Platform::Unix), expected);
            assert_eq!(author(name, Platform::Unix), expected);
        }
    }
}
