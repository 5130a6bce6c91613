//! A reply in the format of `OpenAI`'s Chat Completions API.

use serde_json::{Value, json};

use super::{Block, Usage, message::Message, reply::TOO_LONG};

/// The completion as one JSON document.
pub(super) fn document(message: &Message<'_>) -> Value {
    let text = message.blocks.iter().find_map(|block| match block {
        Block::Text(text) => Some(text.as_str()),
        Block::Tool { .. } => None,
    });
    let mut answer = json!({ "role": "assistant", "content": text });
    let calls: Vec<_> = calls(message).collect();
    if !calls.is_empty() {
        answer["tool_calls"] = calls.into();
    }
    let choice = json!({ "index": 0, "message": answer, "finish_reason": finish_reason(message) });
    completion(message, "chat.completion", &json!([choice]), Some(&message.reply.usage))
}

/// The completion as the chunks of a stream.
pub(super) fn chunks(message: &Message<'_>) -> Vec<Value> {
    let chunk = |delta: Value, finish: Option<&str>| {
        let choice = json!({ "index": 0, "delta": delta, "finish_reason": finish });
        completion(message, "chat.completion.chunk", &json!([choice]), None)
    };
    let mut chunks = vec![chunk(json!({ "role": "assistant", "content": "" }), None)];
    for block in message.blocks {
        if let Block::Text(text) = block {
            let pieces = Message::pieces(text).into_iter();
            chunks.extend(pieces.map(|piece| chunk(json!({ "content": piece }), None)));
        }
    }
    chunks.extend(calls(message).map(|call| chunk(json!({ "tool_calls": [call] }), None)));
    chunks.push(chunk(json!({}), Some(finish_reason(message))));
    let usage = Some(&message.reply.usage);
    chunks.push(completion(message, "chat.completion.chunk", &json!([]), usage));
    chunks
}

fn completion(
    message: &Message<'_>,
    object: &str,
    choices: &Value,
    usage: Option<&Usage>,
) -> Value {
    json!({
        "id": format!("chatcmpl-{}", message.number),
        "object": object,
        "created": 0,
        "model": message.model,
        "choices": choices,
        "usage": usage.map(tokens),
    })
}

fn calls<'a>(message: &'a Message<'_>) -> impl Iterator<Item = Value> + 'a {
    let tools = message.blocks.iter().enumerate().filter_map(|(index, block)| match block {
        Block::Tool { name, input } => Some((index, name, input)),
        Block::Text(_) => None,
    });
    tools.enumerate().map(|(place, (index, name, input))| {
        let function = json!({ "name": name, "arguments": input.to_string() });
        json!({ "index": place, "id": message.tool_id(index), "type": "function", "function": function })
    })
}

fn finish_reason<'a>(message: &'a Message<'_>) -> &'a str {
    let usual = if calls(message).next().is_some() { "tool_calls" } else { "stop" };
    match message.reply.stop_reason.as_deref() {
        Some(TOO_LONG) => "length",
        reason => reason.unwrap_or(usual),
    }
}

/// Input includes what was read from the cache.
fn tokens(usage: &Usage) -> Value {
    let input = usage.input + usage.cache_read;
    json!({
        "prompt_tokens": input,
        "completion_tokens": usage.output,
        "total_tokens": input + usage.output,
        "prompt_tokens_details": { "cached_tokens": usage.cache_read },
    })
}
