//! The coding agents that Raymond knows by name, besides Claude Code.

use std::{
    env,
    path::{Path, PathBuf},
};

use super::{CodingAgent, Prices, account, codex, pi};

/// One of them.
#[derive(Clone, Copy, Debug)]
pub struct Native {
    /// Its name in frontmatter, and that of its program.
    pub name: &'static str,
    /// Whether its tools can be allowed one by one: the setting `tools`.
    pub has_tools: bool,
    /// The coding agent with these settings.
    pub make: fn(NativeConfig) -> Box<dyn CodingAgent>,
}

/// All of them. They can be used without settings; a table `[agents.NAME]` changes how.
pub const NATIVES: [Native; 2] = [codex::NATIVE, pi::NATIVE];

/// How a coding agent is used.
#[derive(Clone, Debug, Default)]
pub struct NativeConfig {
    /// Its name in frontmatter.
    pub name: String,
    /// The program, if it is not the usual one.
    pub program: Option<String>,
    /// Further arguments for every turn.
    pub arguments: Vec<String>,
    /// The model of turns that name none.
    pub model: Option<String>,
    /// The tools that a turn may use besides those that read and edit files, if they can be allowed one by one.
    pub tools: Vec<String>,
    /// The prices of its tokens, for turns whose cost it does not report.
    pub prices: Option<Prices>,
}

impl NativeConfig {
    /// The name of the account that it uses: the login in `home`, unless one of these environment variables names a key or
    /// another address; arguments may choose another provider, too.
    pub(super) fn account(&self, kind: &str, home: &Path, keys: &[&str], provider: &str) -> String {
        let home = home.to_string_lossy();
        let set: Vec<_> = keys.iter().map(|key| env::var(key).unwrap_or_default()).collect();
        let own = [&*home, provider].into_iter().chain(set.iter().map(String::as_str));
        account(kind, own.chain(self.arguments.iter().map(String::as_str)))
    }

    /// The directory that the environment variable names, else this one in the user's home.
    pub(super) fn directory(variable: &str, in_home: &str) -> PathBuf {
        let set = |name: &str| env::var_os(name).filter(|text| !text.is_empty()).map(PathBuf::from);
        set(variable).unwrap_or_else(|| set("HOME").unwrap_or_default().join(in_home))
    }
}
