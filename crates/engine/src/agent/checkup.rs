//! Checks whether a coding agent can be used, without paying for a turn.

/// One check of a coding agent's program.
#[derive(Clone, Debug)]
pub struct Checkup {
    /// What is checked, in one word.
    pub what: &'static str,
    /// The program and its arguments.
    pub command: Vec<String>,
    /// Interprets the answer.
    pub judge: fn(&CheckupAnswer) -> Diagnosis,
}

/// The answer of the program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckupAnswer {
    /// Its exit code; `None` if a signal killed it.
    pub exit_code: Option<i32>,
    /// Its standard output.
    pub stdout: String,
    /// Its standard error.
    pub stderr: String,
}

/// The result of a check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Diagnosis {
    /// It works.
    Good(String),
    /// It may or may not work.
    Doubtful {
        /// What was found.
        found: String,
        /// What to do about it.
        advice: String,
    },
    /// It cannot work.
    Bad {
        /// What was found.
        found: String,
        /// What to do about it.
        advice: String,
    },
}

/// The versions of a coding agent that Raymond is tested with. No coding agent promises a stable output, so others may differ.
/// They are those of `crates/testkit/agents.txt`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Versions {
    /// The npm package.
    pub package: &'static str,
    /// The oldest version that Raymond supports.
    pub oldest: [u64; 3],
    /// The newest version that it is tested with.
    pub tested: [u64; 3],
}

impl Versions {
    /// The command that installs the newest version that Raymond is tested with.
    pub fn install(&self) -> String {
        format!("npm install -g {}@{}", self.package, dotted(self.tested))
    }

    /// Whether the version in these words is newer than the newest tested one.
    pub(crate) fn are_exceeded_by(&self, words: &str) -> bool {
        find(words).is_some_and(|(_, numbers)| numbers > self.tested)
    }

    /// Judges the version that a program prints: `2.1.197 (Claude Code)`, `codex-cli 0.166.0`.
    pub(super) fn judge(&self, answer: &CheckupAnswer) -> Diagnosis {
        match (answer.exit_code, find(&answer.stdout)) {
            (Some(0), Some((word, numbers))) if numbers > self.tested => {
                Diagnosis::Good(format!("tested up to {}; this is {word}", dotted(self.tested)))
            }
            (Some(0), Some((word, numbers))) if numbers >= self.oldest => {
                Diagnosis::Good(word.to_owned())
            }
            (Some(0), Some((word, _))) => Diagnosis::Doubtful {
                found: format!(
                    "{word}, older than {}, the oldest that Raymond supports",
                    dotted(self.oldest)
                ),
                advice: format!("update it: {}", self.install()),
            },
            _ => Diagnosis::Bad {
                found: format!("does not tell its version: {}", first_words(answer)),
                advice: format!("install it again: {}", self.install()),
            },
        }
    }
}

/// The first word that is a version, and its numbers.
fn find(words: &str) -> Option<(&str, [u64; 3])> {
    words.split_whitespace().find_map(|word| {
        let parts = word.trim_start_matches('v').split('.');
        let numbers: Option<Vec<u64>> = parts.map(|part| part.parse().ok()).collect();
        Some((word, numbers?.try_into().ok()?))
    })
}

fn dotted(version: [u64; 3]) -> String {
    version.map(|number| number.to_string()).join(".")
}

/// The first line of an answer that is no warning.
pub(super) fn first_words(answer: &CheckupAnswer) -> &str {
    let lines = answer.stdout.lines().chain(answer.stderr.lines()).map(str::trim);
    let mut lines = lines.filter(|line| !line.is_empty() && !line.starts_with("WARNING:"));
    lines.next().unwrap_or("it says nothing")
}
