//! How it is found out whether a coding agent can be used, without paying for a turn.

/// A question to a coding agent's program.
#[derive(Clone, Debug)]
pub struct Checkup {
    /// What it is about, in a word.
    pub what: &'static str,
    /// The program and its arguments.
    pub command: Vec<String>,
    /// What the answer means.
    pub judge: fn(&CheckupAnswer) -> Diagnosis,
}

/// What the program answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckupAnswer {
    /// Its exit code; `None` if a signal killed it.
    pub exit_code: Option<i32>,
    /// What it printed.
    pub stdout: String,
    /// What it complained about.
    pub stderr: String,
}

/// What was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Diagnosis {
    /// All is well.
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
