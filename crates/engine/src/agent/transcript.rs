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
    /// A message of a person during the turn.
    Message {
        /// The complete text.
        text: String,
    },
    /// A message before the answer.
    Text {
        /// The complete text.
        text: String,
    },
    /// What it thought, if its program tells.
    Thinking {
        /// All of it.
        text: String,
    },
    /// A tool that it used. An entry with the same id replaces an earlier one.
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
        /// What it was given, and what it gave back.
        #[serde(flatten)]
        detail: Box<ToolDetail>,
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

/// How much is kept of what a tool was given and gave back. The raw output of the step has all of it.
pub const DETAIL_BYTES_MAX: usize = 16 * 1024;
/// How much is kept of each side of a change.
pub const CHANGE_BYTES_MAX: usize = 64 * 1024;
/// How many changes of one edit are kept.
pub const CHANGES_MAX: usize = 100;

/// What a tool was given, and what it gave back.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ToolDetail {
    /// The beginning of what it was given.
    pub input: Option<String>,
    /// How many bytes follow.
    pub input_cut: usize,
    /// The beginning of what it gave back.
    pub output: Option<String>,
    /// How many bytes follow.
    pub output_cut: usize,
    /// What it changes in a file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub edit: Option<Edit>,
}

/// What a tool changes in a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Edit {
    /// The file, as the coding agent names it.
    pub path: String,
    /// Its changes, in order.
    pub changes: Vec<Change>,
    /// How many bytes of them were left out.
    pub cut: usize,
}

/// A part of a file, before and after.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Change {
    /// Before; empty if the whole file is written.
    pub old: String,
    /// After.
    pub new: String,
}

/// At most `bytes_max` bytes of `text`, and how many follow.
pub fn cut(text: &str, bytes_max: usize) -> (&str, usize) {
    let kept = text.floor_char_boundary(bytes_max.min(text.len()));
    let (kept, rest) = text.split_at(kept);
    (kept, rest.len())
}

/// What came of using a tool.
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
pub trait TranscriptReader: Send {
    /// What a line adds. The final message is not among it: that is the turn's outcome.
    fn line(&mut self, line: &[u8]) -> Vec<Entry>;
}
