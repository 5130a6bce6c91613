//! A reply in the format of `OpenAI`'s Responses API.

use serde_json::{Value, json};

use super::{Block, Usage, message::Message, reply::TOO_LONG};

/// The response as one JSON document.
pub(super) fn document(message: &Message<'_>) -> Value {
    let items: Vec<_> = items(message);
    let mut document = response(message, status(message), &items);
    if status(message) == INCOMPLETE {
        document["incomplete_details"] = json!({ "reason": "max_output_tokens" });
    }
    document
}

/// The status of an answer that is too long.
const INCOMPLETE: &str = "incomplete";

fn status(message: &Message<'_>) -> &'static str {
    let is_too_long = message.reply.stop_reason.as_deref() == Some(TOO_LONG);
    if is_too_long { INCOMPLETE } else { "completed" }
}

/// The response as events.
pub(super) fn events(message: &Message<'_>) -> Vec<Value> {
    let begun = response(message, "in_progress", &[]);
    let mut events = vec![json!({ "type": "response.created", "response": begun })];
    for (index, item) in items(message).into_iter().enumerate() {
        let added =
            json!({ "type": "response.output_item.added", "output_index": index, "item": item });
        let text = item["content"][0]["text"].as_str().unwrap_or_default().to_owned();
        let id = item["id"].clone();
        let done =
            json!({ "type": "response.output_item.done", "output_index": index, "item": item });
        events.push(added);
        events.extend(Message::pieces(&text).into_iter().map(|piece| {
            json!({ "type": "response.output_text.delta", "item_id": id, "output_index": index,
                    "content_index": 0, "delta": piece })
        }));
        events.push(done);
    }
    let end = format!("response.{}", status(message));
    events.push(json!({ "type": end, "response": document(message) }));
    for (number, event) in events.iter_mut().enumerate() {
        event["sequence_number"] = number.into();
    }
    events
}

fn response(message: &Message<'_>, status: &str, items: &[Value]) -> Value {
    json!({
        "id": format!("resp_{}", message.number),
        "object": "response",
        "created_at": 0,
        "model": message.model,
        "status": status,
        "output": items,
        "usage": usage(&message.reply.usage),
    })
}

fn items(message: &Message<'_>) -> Vec<Value> {
    let item = |(index, block): (usize, &Block)| match block {
        Block::Text(text) => json!({
            "type": "message",
            "id": format!("msg_{}_{index}", message.number),
            "role": "assistant",
            "status": "completed",
            "content": [{ "type": "output_text", "text": text, "annotations": [] }],
        }),
        Block::Tool { name, input } => json!({
            "type": "function_call",
            "id": format!("fc_{}_{index}", message.number),
            "call_id": message.tool_id(index),
            "name": name,
            "arguments": input.to_string(),
            "status": "completed",
        }),
    };
    message.blocks.iter().enumerate().map(item).collect()
}

/// Input includes what was read from the cache.
fn usage(usage: &Usage) -> Value {
    let input = usage.input + usage.cache_read;
    json!({
        "input_tokens": input,
        "input_tokens_details": { "cached_tokens": usage.cache_read },
        "output_tokens": usage.output,
        "output_tokens_details": { "reasoning_tokens": 0 },
        "total_tokens": input + usage.output,
    })
}
