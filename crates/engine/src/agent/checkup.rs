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
