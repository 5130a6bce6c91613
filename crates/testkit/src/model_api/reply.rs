//! What the model answers in a test, and how the answer is delivered.

use std::time::Duration;

use serde_json::Value;

use super::Gate;

/// One answer of the model, or the way in which it fails.
#[derive(Clone, Debug)]
pub struct Reply {
    pub(super) kind: Kind,
    pub(super) after: Duration,
    pub(super) gate: Option<Gate>,
    pub(super) headers: Vec<(String, String)>,
    pub(super) error_fields: Vec<(String, Value)>,
    pub(super) usage: Usage,
    pub(super) stop_reason: Option<String>,
}

/// How the request is answered.
#[derive(Clone, Debug)]
pub(super) enum Kind {
    /// A complete message.
    Message(Vec<Block>),
    /// The start of a message; then the connection is closed.
    Cut(Vec<Block>),
    /// An error in the format of the API.
    Status { code: u16, kind: String, message: String },
    /// No answer, ever.
    Hang,
    /// The connection is closed without an answer.
    Dropped,
}

/// A content block of a message.
#[derive(Clone, Debug)]
pub enum Block {
    /// Words.
    Text(String),
    /// A tool that the model wants to be used.
    Tool {
        /// The name of the tool, such as `Bash`.
        name: String,
        /// Its arguments.
        input: Value,
    },
}

impl Block {
    /// Words.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text(text.into())
    }

    /// A tool that the model wants to be used.
    pub fn tool(name: impl Into<String>, input: Value) -> Self {
        Self::Tool { name: name.into(), input }
    }
}

/// The reason to stop of an answer that is as long as it may be.
pub(super) const TOO_LONG: &str = "max_tokens";

/// The token counts of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Usage {
    /// Input tokens at full price.
    pub input: u64,
    /// Output tokens.
    pub output: u64,
    /// Input tokens read from the cache.
    pub cache_read: u64,
    /// Input tokens written to the cache.
    pub cache_write: u64,
}

impl Default for Usage {
    /// 1000 in and 50 out, which is $0.00375 with the sonnet model that Claude Code 2.1.197 uses.
    fn default() -> Self {
        Self { input: 1000, output: 50, cache_read: 0, cache_write: 0 }
    }
}

impl Reply {
    /// The model answers with this text and ends its turn.
    pub fn text(text: impl Into<String>) -> Self {
        Self::blocks([Block::text(text)])
    }

    /// The model asks for this tool.
    pub fn tool(name: impl Into<String>, input: Value) -> Self {
        Self::blocks([Block::tool(name, input)])
    }

    /// Several blocks in one message.
    pub fn blocks(blocks: impl IntoIterator<Item = Block>) -> Self {
        Self::new(Kind::Message(blocks.into_iter().collect()))
    }

    /// The model has written as much as it may, and its answer has no end.
    pub fn too_long() -> Self {
        Self::text("A beginning").stop_reason(TOO_LONG)
    }

    /// An error, such as `529, "overloaded_error", "Overloaded"`.
    pub fn status(code: u16, kind: impl Into<String>, message: impl Into<String>) -> Self {
        Self::new(Kind::Status { code, kind: kind.into(), message: message.into() })
    }

    /// No answer until the client disconnects or the API is dropped.
    pub fn hang() -> Self {
        Self::new(Kind::Hang)
    }

    /// The connection is closed before the headers.
    pub fn dropped() -> Self {
        Self::new(Kind::Dropped)
    }

    /// The connection is closed in the middle of a message.
    pub fn cut() -> Self {
        Self::new(Kind::Cut(vec![Block::text("This is only the beginning of what")]))
    }

    /// Waits this long before the headers.
    #[must_use]
    pub fn after(self, delay: Duration) -> Self {
        Self { after: delay, ..self }
    }

    /// Waits for the gate before the headers.
    #[must_use]
    pub fn held_by(self, gate: &Gate) -> Self {
        Self { gate: Some(gate.clone()), ..self }
    }

    /// Sets the token counts that the answer reports.
    #[must_use]
    pub fn usage(self, usage: Usage) -> Self {
        Self { usage, ..self }
    }

    /// Sets the stop reason. The default is `tool_use` if a tool is asked for, else `end_turn`.
    #[must_use]
    pub fn stop_reason(self, reason: impl Into<String>) -> Self {
        Self { stop_reason: Some(reason.into()), ..self }
    }

    /// Adds a header, such as `retry-after`.
    #[must_use]
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// Adds a field to an error, such as `resets_at`.
    #[must_use]
    pub fn error_field(mut self, name: impl Into<String>, value: impl Into<Value>) -> Self {
        self.error_fields.push((name.into(), value.into()));
        self
    }

    fn new(kind: Kind) -> Self {
        Self {
            kind,
            after: Duration::ZERO,
            gate: None,
            headers: Vec::new(),
            error_fields: Vec::new(),
            usage: Usage::default(),
            stop_reason: None,
        }
    }
}
