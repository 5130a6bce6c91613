//! What was asked and answered in a turn, as a list of entries that is the same for every coding agent.

use raymond_flow::money::Usd;
use serde::Serialize;

/// One entry of a transcript.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "entry", rename_all = "snake_case")]
pub enum Entry {
    /// The prompt.
    Prompt {
        /// The complete text.
        text: String,
    },
    /// A message before the answer.
    Text {
        /// The complete text.
        text: String,
    },
    /// A tool call. An entry with the same id replaces an earlier one.
    Tool {
        /// The id of the tool call.
        id: String,
        /// The name of the tool.
        name: String,
        /// What it was used on, in one line.
        summary: String,
        /// The outcome of the call.
        #[serde(flatten)]
        outcome: ToolOutcome,
    },
    /// A message of the coding agent's program itself, such as a retry.
    Note {
        /// The message.
        text: String,
    },
    /// The output of a script.
    Output {
        /// Standard output or standard error.
        stream: Stream,
        /// The end of it, if it is long.
        text: String,
        /// The number of bytes before it.
        left_out: u64,
    },
    /// The answer.
    Answer {
        /// The complete text.
        text: String,
        /// The tag in it, if there is exactly one.
        tag: Option<String>,
    },
    /// Why there is no answer.
    Failure {
        /// The reason.
        message: String,
    },
    /// What the turn cost.
    Cost {
        /// In US dollars.
        usd: Usd,
        /// How long it took, in milliseconds.
        duration_ms: u64,
        /// The model, as the coding agent reports it.
        model: Option<String>,
    },
}

/// The outcome of a tool call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum ToolOutcome {
    /// It is running, or its outcome is unknown.
    Open,
    /// It worked.
    Done,
    /// It failed.
    Failed {
        /// The reason, in one line.
        message: String,
    },
    /// It was not allowed.
    Denied {
        /// The reason, in one line.
        message: String,
    },
}

/// The stream to which a script printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Stream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// Reads the output of one turn, line by line.
pub trait TranscriptReader {
    /// The entries that a line adds. The answer is not among them: it is the turn's outcome.
    fn line(&mut self, line: &[u8]) -> Vec<Entry>;
}
