//! The real Claude Code for tests: where it is, and an environment in which it does not touch the
//! files of the user who runs the tests.

use std::{
    env, fs,
    path::{Path, PathBuf},
};

use crate::ModelApi;

/// The version that the tests are written for; the same as in `scripts/install-claude`.
pub const VERSION: &str = "2.1.197";

/// The search path if the test process has no `PATH`.
pub(crate) const USUAL_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// An installed Claude Code.
#[derive(Clone, Debug)]
pub struct Claude {
    program: PathBuf,
}

impl Claude {
    /// Finds Claude Code: `RAYMOND_TEST_CLAUDE`, or the one that `scripts/install-claude` put below the
    /// target directory. The error says why it is missing and how to get it.
    ///
    /// # Panics
    ///
    /// If it is missing although `RAYMOND_TEST_CLAUDE_REQUIRED` is 1: where Claude Code is expected,
    /// silently skipped tests would be worse than none.
    pub fn find() -> Result<Self, String> {
        let found = match env::var_os("RAYMOND_TEST_CLAUDE") {
            Some(program) => named(program.into()),
            None => installed(&target_folder().join(format!("claude-{VERSION}"))),
        };
        let required = env::var_os("RAYMOND_TEST_CLAUDE_REQUIRED").is_some_and(|it| it == "1");
        match found {
            Ok(program) => Ok(Self { program }),
            Err(why) => {
                assert!(!required, "RAYMOND_TEST_CLAUDE_REQUIRED is set, but {why}");
                Err(why)
            }
        }
    }

    /// Finds Claude Code, or prints to standard error why the calling test is skipped.
    ///
    /// # Panics
    ///
    /// As [`Claude::find`] does.
    #[expect(clippy::print_stderr, reason = "a test that skips must say so")]
    pub fn or_skip() -> Option<Self> {
        Self::find().inspect_err(|why| eprintln!("skipped: {why}")).ok()
    }

    /// The native program.
    pub fn program(&self) -> &Path {
        &self.program
    }

    /// The environment for Claude Code, for use after `env_clear`: a private home, the loopback model,
    /// and no telemetry. `IS_SANDBOX` lets root use `--permission-mode bypassPermissions`.
    pub fn environment(home: &Path, api: &ModelApi) -> Vec<(String, String)> {
        let path = env::var("PATH").unwrap_or_else(|_| USUAL_PATH.into());
        let pairs = [
            ("HOME", home.display().to_string()),
            // Otherwise every session leaves a directory in /tmp.
            ("CLAUDE_CODE_TMPDIR", home.display().to_string()),
            ("PATH", path),
            ("SHELL", "/bin/bash".into()),
            ("LANG", "C.UTF-8".into()),
            ("TZ", "UTC".into()),
            ("TERM", "dumb".into()),
            ("ANTHROPIC_API_KEY", "dummy".into()),
            ("ANTHROPIC_BASE_URL", api.base_url()),
            ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1".into()),
            ("DISABLE_TELEMETRY", "1".into()),
            ("DISABLE_AUTOUPDATER", "1".into()),
            ("IS_SANDBOX", "1".into()),
        ];
        pairs.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
    }
}

fn named(program: PathBuf) -> Result<PathBuf, String> {
    if program.is_file() {
        return Ok(program);
    }
    Err(format!("RAYMOND_TEST_CLAUDE names {}, which is no file", program.display()))
}

/// The native program of an installed package. npm chose the package for this machine; its name
/// has the platform in it, as in `claude-code-linux-x64`.
fn installed(folder: &Path) -> Result<PathBuf, String> {
    let packages = fs::read_dir(folder.join("node_modules/@anthropic-ai")).into_iter().flatten();
    let mut programs = packages.flatten().filter_map(|package| {
        let native = package.file_name().to_string_lossy().starts_with("claude-code-");
        let program = package.path().join("claude");
        (native && program.is_file()).then_some(program)
    });
    programs.next().ok_or_else(|| {
        let folder = folder.display();
        format!("Claude Code {VERSION} is not in {folder}; `scripts/install-claude` puts it there")
    })
}

/// The target directory as `scripts/install-claude` sees it: relative to the workspace. Tests of `crates/cluster`, which is
/// another workspace, have another one, and name this one in `RAYMOND_TARGET_DIR`.
pub(crate) fn target_folder() -> PathBuf {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let named = ["RAYMOND_TARGET_DIR", "CARGO_TARGET_DIR"].into_iter().find_map(env::var_os);
    workspace.join(named.unwrap_or_else(|| "target".into()))
}
