//! One recorded request, with accessors for tests.

use serde_json::Value;

use super::Dialect;

/// How the text begins that a coding agent adds to a session on its own.
const ADDED: [&str; 3] = ["<system-reminder>", "<environment_context>", "<turn-context>"];

/// One request for a message.
#[derive(Clone, Debug)]
pub struct Request {
    /// The body as JSON.
    pub body: Value,
    /// How the client speaks.
    pub dialect: Dialect,
    pub(super) headers: Vec<(String, String)>,
}

impl Request {
    /// The requested model.
    pub fn model(&self) -> &str {
        self.body["model"].as_str().unwrap_or_default()
    }

    /// The effort, if it was sent.
    pub fn effort(&self) -> Option<&str> {
        match self.dialect {
            Dialect::Messages => &self.body["output_config"]["effort"],
            Dialect::Responses => &self.body["reasoning"]["effort"],
            Dialect::Chat => &self.body["reasoning_effort"],
        }
        .as_str()
    }

    /// The limit of output tokens.
    pub fn max_tokens(&self) -> Option<u64> {
        self.body["max_tokens"].as_u64()
    }

    /// Whether the client wants a stream of events.
    pub fn is_streaming(&self) -> bool {
        self.body["stream"].as_bool().unwrap_or_default()
    }

    /// Whether the model may use tools at all. A request without them is not a turn: some coding agents ask for a title.
    pub fn has_tools(&self) -> bool {
        !elements(&self.body["tools"]).is_empty()
    }

    /// Whether the model may use this tool.
    pub fn has_tool(&self, name: &str) -> bool {
        let mut tools = elements(&self.body["tools"]).iter();
        tools.any(|tool| tool["name"] == name || tool["function"]["name"] == name)
    }

    /// The value of a header; the name must be lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// The messages so far: role and text of every text block, without the text that the coding agent added
    /// on its own.
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
        since.iter().flat_map(tool_results).collect()
    }

    /// The newest user message with text: its index, and the last of its texts.
    fn last_prompt(&self) -> Option<(usize, &str)> {
        let messages = self.messages().iter().enumerate().rev();
        let mut users = messages.filter(|(_, message)| message["role"] == "user");
        users.find_map(|(index, message)| Some((index, spoken(message).pop()?)))
    }

    fn messages(&self) -> &[Value] {
        elements(&self.body[self.dialect.history()])
    }
}

/// The text blocks of a message that the coding agent did not add on its own.
fn spoken(message: &Value) -> Vec<&str> {
    let content = &message["content"];
    let is_text = |block: &&Value| {
        block["type"].as_str().is_some_and(|kind| kind == "text" || kind.ends_with("put_text"))
    };
    let blocks = elements(content).iter().filter(is_text);
    let texts = blocks.filter_map(|block| block["text"].as_str()).chain(content.as_str());
    let is_added = |text: &&str| ADDED.iter().any(|mark| text.trim_start().starts_with(mark));
    texts.filter(|text| !text.trim().is_empty() && !is_added(text)).collect()
}

/// The results of tools in one message.
fn tool_results(message: &Value) -> Vec<String> {
    // In the Responses API a result is an item of its own, in Chat Completions a message of the role `tool`.
    if message["type"] == "function_call_output" {
        return vec![result_text(&message["output"])];
    }
    if message["role"] == "tool" {
        return vec![result_text(&message["content"])];
    }
    let blocks = elements(&message["content"]).iter();
    let results = blocks.filter(|block| block["type"] == "tool_result");
    results.map(|result| result_text(&result["content"])).collect()
}

/// The text of a tool result, which is a string or a list of blocks.
fn result_text(content: &Value) -> String {
    let texts = elements(content).iter().filter_map(|block| block["text"].as_str());
    texts.chain(content.as_str()).collect::<Vec<_>>().join("\n")
}

fn elements(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}
