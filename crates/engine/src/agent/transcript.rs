//! What was asked and answered in a turn, as a list of entries that is the same for every coding agent.

use raymond_flow::money::Usd;
use serde::Serialize;

/// One entry of a transcript.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "entry", rename_all = "snake_case")]
pub enum Entry {
    /// What the coding agent was asked.
    Prompt {
        /// All of it.
        text: String,
    },
    /// What it said on its way to the answer.
    Text {
        /// All of it.
        text: String,
    },
    /// A tool that it used. An entry with the same id replaces an earlier one.
    Tool {
        /// Which use of a tool this is.
        id: String,
        /// The tool.
        name: String,
        /// What it was used on, in one line.
        summary: String,
        /// What came of it.
        #[serde(flatten)]
        outcome: ToolOutcome,
    },
    /// Something that the coding agent's program tells, such as a retry.
    Note {
        /// In its words.
        text: String,
    },
    /// What a script printed.
    Output {
        /// Where to.
        stream: Stream,
        /// The end of it, if it is long.
        text: String,
        /// How many bytes come before that.
        left_out: u64,
    },
    /// The final message.
    Answer {
        /// All of it.
        text: String,
        /// The tag in it, if there is exactly one.
        tag: Option<String>,
    },
    /// Why there is no answer.
    Failure {
        /// In words.
        message: String,
    },
    /// What the turn cost.
    Cost {
        /// In US dollars.
        usd: Usd,
        /// How long it took, in milliseconds.
        duration_ms: u64,
        /// Which model it was.
        model: Option<String>,
    },
}

/// What came of using a tool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum ToolOutcome {
    /// It is at work, or what came of it is not known.
    Open,
    /// It worked.
    Done,
    /// It failed.
    Failed {
        /// Why, in one line.
        message: String,
    },
    /// It was not allowed.
    Denied {
        /// Why, in one line.
        message: String,
    },
}

/// Where a script printed to.
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
    /// What a line adds. The final message is not among it: that is the turn's outcome.
    fn line(&mut self, line: &[u8]) -> Vec<Entry>;
}
