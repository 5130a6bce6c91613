//! The real Claude Code for tests: where it is, and an environment in which it does not touch the
//! files of the user who runs the tests.

use std::{
    env,
    path::{Path, PathBuf},
};

use crate::{
    ModelApi,
    table::{self, Selection},
};

/// The search path if the test process has no `PATH`.
pub(crate) const USUAL_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// An installed Claude Code.
#[derive(Clone, Debug)]
pub struct Claude {
    program: PathBuf,
}

impl Claude {
    /// Finds Claude Code: `RAYMOND_TEST_CLAUDE`, or the one that `scripts/install-agents` put below the
    /// target directory, in the version that `RAYMOND_TEST_AGENTS` selects. The error says why it is missing.
    ///
    /// # Panics
    ///
    /// If it is missing although `RAYMOND_TEST_AGENTS_REQUIRED` is 1.
    pub fn find() -> Result<Self, String> {
        let program = match env::var_os("RAYMOND_TEST_CLAUDE") {
            Some(program) => named(program.into()),
            None => table::row("claude").find(Selection::from_environment()),
        };
        Ok(Self { program: program? })
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
