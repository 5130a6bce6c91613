//! The coding agents that Raymond knows by name, besides Claude Code.

use std::{
    env,
    path::{Path, PathBuf},
};

use raymond_flow::{money::Usd, text::excerpt};
use serde::Deserialize;

use super::{CodingAgent, Prices, account, codex, pi};
use crate::{exec::programs, trust::regular};

/// How far above a program its package is looked for: a native one is some directories below.
const FOLDERS_MAX: usize = 8;
/// The longest `package.json` that is read: those of coding agents have some kilobytes.
const PACKAGE_BYTES_MAX: u64 = 1024 * 1024;

/// What a `package.json` says of its package.
#[derive(Deserialize)]
struct Package {
    name: String,
    version: String,
}

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

    /// The same with this model, for a check that uses no account of the user's: only the user's own arguments are left out, which
    /// may name one.
    pub(super) fn apart(&self, model: &str) -> Self {
        let dollar = Usd::from_billionths(1_000_000_000);
        let ten = Usd::from_billionths(10_000_000_000);
        Self {
            arguments: Vec::new(),
            model: Some(model.to_owned()),
            prices: Some(Prices { input: dollar, cached_input: dollar, output: ten }),
            ..self.clone()
        }
    }

    /// The version of the npm package to which `program` belongs, for a coding agent that does not say its own in a turn. Read from
    /// files: to start it once more would double the time of a short turn. `None` if npm did not install it.
    pub(super) fn version(kind: &str, program: &str, package: &str) -> Option<String> {
        let program = programs::find(program)?.canonicalize().ok()?;
        let mut folders = program.ancestors().skip(1).take(FOLDERS_MAX);
        let found = folders.find_map(|folder| {
            let text =
                regular::read_linked(&folder.join("package.json"), PACKAGE_BYTES_MAX).ok()?;
            let found: Package = serde_json::from_slice(&text).ok()?;
            (found.name == package).then_some(found.version)
        })?;
        // A package for one platform may have that behind the number.
        let number = found.split('-').next().unwrap_or_default();
        Some(format!("{kind} {}", excerpt(number)))
    }

    /// The directory that the environment variable names, else this one in the user's home.
    pub(super) fn directory(variable: &str, in_home: &str) -> PathBuf {
        let set = |name: &str| env::var_os(name).filter(|text| !text.is_empty()).map(PathBuf::from);
        set(variable).unwrap_or_else(|| set("HOME").unwrap_or_default().join(in_home))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "in tests a panic is the message")]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn version_is_that_of_the_package_around_the_program() {
        let folder = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, text).unwrap();
            path.to_str().unwrap().to_owned()
        };
        write("pi/package.json", r#"{"name":"@p/pi","version":"1.5.0","more":[]}"#);
        // What is bundled has a file of the same name.
        write("pi/dist/package.json", r#"{"type":"module"}"#);
        write("x/package.json", r#"{"name":"@o/codex","version":"0.169.0-linux-x64"}"#);
        let pi = write("pi/dist/bundle/cli.js", "");
        let codex = write("x/vendor/x86/bin/codex", "");
        let of = |program: &str, package| NativeConfig::version("a", program, package);
        assert_eq!(of(&pi, "@p/pi").as_deref(), Some("a 1.5.0"));
        assert_eq!(of(&codex, "@o/codex").as_deref(), Some("a 0.169.0"));
        assert_eq!(of(&codex, "@p/pi"), None);
        assert_eq!(of("/nowhere/pi", "@p/pi"), None);
    }
}
