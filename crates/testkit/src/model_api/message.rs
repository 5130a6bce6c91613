//! A reply in the format of Anthropic's Messages API: as a JSON document, and as a stream of events.

use serde_json::{Value, json};

use super::{Block, Reply, Usage};

/// The most text in one event. The real API sends a few words at a time; this is larger so
/// that a megabyte is sent quickly, and small enough that long answers come in pieces.
const PIECE_CHARS: usize = 2048;

/// A reply with its id.
#[derive(Debug)]
pub(super) struct Message<'a> {
    /// Distinguishes this message and its tool uses from all others.
    pub(super) number: u64,
    pub(super) model: &'a str,
    pub(super) blocks: &'a [Block],
    pub(super) reply: &'a Reply,
}

impl Message<'_> {
    /// The message as one JSON document.
    pub(super) fn document(&self) -> Value {
        let content = self.blocks.iter().enumerate().map(|(index, block)| match block {
            Block::Text(text) => json!({ "type": "text", "text": text }),
            Block::Tool { name, input } => {
                json!({ "type": "tool_use", "id": self.tool_id(index), "name": name, "input": input })
            }
        });
        let mut document = self.envelope();
        document["content"] = content.collect();
        document["stop_reason"] = self.stop_reason().into();
        document["usage"] = tokens(&self.reply.usage, self.reply.usage.output);
        document
    }

    /// The message as events. A message that is cut short ends after the third: the first piece of the
    /// first block.
    pub(super) fn events(&self) -> Vec<Value> {
        let mut events = vec![json!({ "type": "message_start", "message": self.envelope() })];
        for (index, block) in self.blocks.iter().enumerate() {
            self.block_events(index, block, &mut events);
        }
        events.push(json!({
            "type": "message_delta",
            "delta": { "stop_reason": self.stop_reason(), "stop_sequence": null },
            "usage": tokens(&self.reply.usage, self.reply.usage.output),
        }));
        events.push(json!({ "type": "message_stop" }));
        events
    }

    fn block_events(&self, index: usize, block: &Block, events: &mut Vec<Value>) {
        let (start, kind, field, whole) = match block {
            Block::Text(text) => {
                (json!({ "type": "text", "text": "" }), "text_delta", "text", text.clone())
            }
            Block::Tool { name, input } => {
                let id = self.tool_id(index);
                let start = json!({ "type": "tool_use", "id": id, "name": name, "input": {} });
                (start, "input_json_delta", "partial_json", input.to_string())
            }
        };
        let start =
            json!({ "type": "content_block_start", "index": index, "content_block": start });
        events.push(start);
        for piece in Self::pieces(&whole) {
            let delta = json!({ "type": kind, field: piece });
            events.push(json!({ "type": "content_block_delta", "index": index, "delta": delta }));
        }
        events.push(json!({ "type": "content_block_stop", "index": index }));
    }

    /// The message before its first block. Like the real API, it already counts one output token.
    fn envelope(&self) -> Value {
        json!({
            "id": format!("msg_{}", self.number),
            "type": "message",
            "role": "assistant",
            "model": self.model,
            "content": [],
            "stop_reason": null,
            "stop_sequence": null,
            "usage": tokens(&self.reply.usage, 1),
        })
    }

    /// The id of the tool use in block number `index`.
    pub(super) fn tool_id(&self, index: usize) -> String {
        format!("toolu_{}_{index}", self.number)
    }

    /// The text in the pieces in which it is sent.
    pub(super) fn pieces(text: &str) -> Vec<String> {
        let mut pieces = Vec::new();
        let mut rest = text.chars().peekable();
        while rest.peek().is_some() {
            pieces.push(rest.by_ref().take(PIECE_CHARS).collect());
        }
        pieces
    }

    fn stop_reason(&self) -> &str {
        let uses_tool = self.blocks.iter().any(|block| matches!(block, Block::Tool { .. }));
        let usual = if uses_tool { "tool_use" } else { "end_turn" };
        self.reply.stop_reason.as_deref().unwrap_or(usual)
    }
}

fn tokens(usage: &Usage, output: u64) -> Value {
    json!({
        "input_tokens": usage.input,
        "cache_creation_input_tokens": usage.cache_write,
        "cache_read_input_tokens": usage.cache_read,
        "output_tokens": output,
    })
}
