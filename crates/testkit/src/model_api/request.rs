//! One recorded request, with accessors for tests.

use serde_json::Value;

/// How Claude Code marks the text that it adds to a session on its own.
const REMINDER: &str = "<system-reminder>";

/// One `POST /v1/messages`.
#[derive(Clone, Debug)]
pub struct Request {
    /// The body as JSON.
    pub body: Value,
    pub(super) headers: Vec<(String, String)>,
}

impl Request {
    /// The requested model.
    pub fn model(&self) -> &str {
        self.body["model"].as_str().unwrap_or_default()
    }

    /// `output_config.effort`, if it was sent.
    pub fn effort(&self) -> Option<&str> {
        self.body["output_config"]["effort"].as_str()
    }

    /// The limit of output tokens.
    pub fn max_tokens(&self) -> Option<u64> {
        self.body["max_tokens"].as_u64()
    }

    /// Whether the client wants a stream of events.
    pub fn is_streaming(&self) -> bool {
        self.body["stream"].as_bool().unwrap_or_default()
    }

    /// Whether the model may use this tool.
    pub fn has_tool(&self, name: &str) -> bool {
        elements(&self.body["tools"]).iter().any(|tool| tool["name"] == name)
    }

    /// The value of a header; the name must be lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// The messages so far: role and text of every text block, without the text that Claude Code added on
    /// its own.
    pub fn texts(&self) -> Vec<(String, String)> {
        let mut all = Vec::new();
        for message in self.messages() {
            let role = message["role"].as_str().unwrap_or_default();
            if role == "user" || role == "assistant" {
                let texts = spoken(message).into_iter();
                all.extend(texts.map(|text| (role.to_owned(), text.to_owned())));
            }
        }
        all
    }

    /// The newest text of the user. After a tool this is still the prompt that led to it, because results
    /// of tools and reminders do not count as text. Only the newest block counts, because Claude
    /// Code keeps a prompt that failed and sends it in one message with the prompt that follows it.
    pub fn last_user_text(&self) -> &str {
        self.last_prompt().map(|(_, text)| text).unwrap_or_default()
    }

    /// The results of tools since the [last user text](Self::last_user_text), in order.
    pub fn tool_results(&self) -> Vec<String> {
        let from = self.last_prompt().map_or(0, |(index, _)| index + 1);
        let since = self.messages().get(from..).unwrap_or_default();
        let blocks = since.iter().flat_map(|message| elements(&message["content"]));
        blocks.filter(|block| block["type"] == "tool_result").map(result_text).collect()
    }

    /// The newest user message with text: its index, and the last of its texts.
    fn last_prompt(&self) -> Option<(usize, &str)> {
        let messages = self.messages().iter().enumerate().rev();
        let mut users = messages.filter(|(_, message)| message["role"] == "user");
        users.find_map(|(index, message)| Some((index, spoken(message).pop()?)))
    }

    fn messages(&self) -> &[Value] {
        elements(&self.body["messages"])
    }
}

/// The text blocks of a message that Claude Code did not add on its own.
fn spoken(message: &Value) -> Vec<&str> {
    let content = &message["content"];
    let blocks = elements(content).iter().filter(|block| block["type"] == "text");
    let texts = blocks.filter_map(|block| block["text"].as_str()).chain(content.as_str());
    texts
        .filter(|text| !text.trim().is_empty() && !text.trim_start().starts_with(REMINDER))
        .collect()
}

/// The text of a tool result, which is a string or a list of blocks.
fn result_text(result: &Value) -> String {
    let content = &result["content"];
    let texts = elements(content).iter().filter_map(|block| block["text"].as_str());
    texts.chain(content.as_str()).collect::<Vec<_>>().join("\n")
}

fn elements(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}
