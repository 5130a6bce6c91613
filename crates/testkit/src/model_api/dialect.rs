//! The model APIs that coding agents speak, and where each has what a test asks for.

use serde_json::{Value, json};

use super::{chat, http::Response, message::Message, responses};

/// How a client speaks to the model. The path of a request says which it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// Anthropic's Messages API: Claude Code.
    Messages,
    /// `OpenAI`'s Responses API: Codex.
    Responses,
    /// `OpenAI`'s Chat Completions API: pi, goose and most others.
    Chat,
}

impl Dialect {
    /// The dialect of requests to this path.
    pub(super) fn of_path(path: &str) -> Option<Self> {
        match path {
            "/v1/messages" => Some(Self::Messages),
            "/v1/responses" => Some(Self::Responses),
            "/v1/chat/completions" => Some(Self::Chat),
            _ => None,
        }
    }

    /// The field with the messages so far.
    pub(super) fn history(self) -> &'static str {
        match self {
            Self::Messages | Self::Chat => "messages",
            Self::Responses => "input",
        }
    }

    /// The message as one JSON document.
    pub(super) fn document(self, message: &Message<'_>) -> Value {
        match self {
            Self::Messages => message.document(),
            Self::Responses => responses::document(message),
            Self::Chat => chat::document(message),
        }
    }

    /// The message as the parts of an event stream.
    pub(super) fn stream(self, message: &Message<'_>) -> Vec<Vec<u8>> {
        match self {
            Self::Messages => message.events().iter().map(named_event).collect(),
            Self::Responses => responses::events(message).iter().map(named_event).collect(),
            Self::Chat => {
                let chunks = chat::chunks(message);
                let lines = chunks.iter().map(|chunk| format!("data: {chunk}\n\n").into_bytes());
                lines.chain([b"data: [DONE]\n\n".to_vec()]).collect()
            }
        }
    }

    /// An error in the format of the API. `fields` are added to it.
    pub(super) fn error(
        self,
        code: u16,
        (kind, message): (&str, &str),
        fields: &[(String, Value)],
        request_id: &str,
    ) -> Response {
        let mut error = match self {
            Self::Messages => json!({ "type": kind, "message": message }),
            Self::Responses | Self::Chat => {
                json!({ "type": kind, "code": kind, "message": message, "param": null })
            }
        };
        for (name, value) in fields {
            error[name] = value.clone();
        }
        let body = match self {
            Self::Messages => {
                json!({ "type": "error", "error": error, "request_id": request_id })
            }
            Self::Responses | Self::Chat => json!({ "error": error }),
        };
        Response::json(code, &body)
    }
}

fn named_event(event: &Value) -> Vec<u8> {
    let name = event["type"].as_str().unwrap_or_default();
    format!("event: {name}\ndata: {event}\n\n").into_bytes()
}
