//! A model on the loopback interface that says which words it was asked about: just enough of Anthropic's Messages API and of
//! `OpenAI`'s Responses and Chat Completions APIs for a coding agent to have a short talk with.

use std::{
    io::{self, BufReader, Read as _, Write as _},
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use serde_json::{Value, json};

/// The longest request. A first prompt of a coding agent has some hundred kilobytes.
const REQUEST_BYTES_MAX: u64 = 32 * 1024 * 1024;
/// How long a connection may say nothing.
const PATIENCE: Duration = Duration::from_secs(30);
/// The tokens of every call, in and out. The same for each, so that turns can be compared.
const TOKENS: [u32; 2] = [1000, 50];

/// The model. It is there until this is dropped.
pub(super) struct Model {
    address: SocketAddr,
    shared: Arc<Shared>,
    listener: Option<JoinHandle<()>>,
}

struct Shared {
    /// The words that it looks for in a request.
    words: [&'static str; 2],
    /// How often it was asked.
    calls: AtomicU32,
    is_over: AtomicBool,
}

impl Model {
    /// A model that answers with those of `words` that a request has.
    pub(super) fn start(words: [&'static str; 2]) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let address = listener.local_addr()?;
        let (calls, is_over) = (AtomicU32::new(0), AtomicBool::new(false));
        let shared = Arc::new(Shared { words, calls, is_over });
        let own = Arc::clone(&shared);
        let listener = thread::Builder::new().spawn(move || listen(&listener, &own))?;
        Ok(Self { address, shared, listener: Some(listener) })
    }

    pub(super) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// How often it has been asked so far.
    pub(super) fn calls(&self) -> u32 {
        self.shared.calls.load(Ordering::SeqCst)
    }
}

impl Drop for Model {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::SeqCst);
        // The listener looks at that only when a connection comes. If none can be made, it is left alone.
        if TcpStream::connect(self.address).is_ok()
            && let Some(listener) = self.listener.take()
        {
            let _ = listener.join();
        }
    }
}

fn listen(listener: &TcpListener, shared: &Arc<Shared>) {
    for stream in listener.incoming() {
        if shared.is_over.load(Ordering::SeqCst) {
            return;
        }
        let own = Arc::clone(shared);
        // A connection that fails is the coding agent's to repeat.
        let serve = move || stream.and_then(|stream| own.serve(&stream));
        let _ = thread::Builder::new().spawn(serve);
    }
}

impl Shared {
    /// Answers one request and closes the connection.
    fn serve(&self, mut stream: &TcpStream) -> io::Result<()> {
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let (path, body) = read_request(&mut BufReader::new(stream.take(REQUEST_BYTES_MAX)))?;
        let (status, kind, body) = self.answer(&path, &body);
        let length = body.len();
        let head = format!(
            "HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n"
        );
        stream.write_all(&[head.as_bytes(), body.as_bytes()].concat())
    }

    fn answer(&self, path: &str, body: &[u8]) -> (&'static str, &'static str, String) {
        let json = |status, body: Value| (status, "application/json", body.to_string());
        let Some(api) = Api::of_path(path) else {
            // What Claude Code asks besides, it can do without.
            return json("404 Not Found", json!({ "error": { "message": "unknown path" } }));
        };
        let body: Value = serde_json::from_slice(body).unwrap_or_default();
        let number = self.calls.fetch_add(1, Ordering::SeqCst);
        let said = body.to_string();
        let known = self.words.into_iter().filter(|word| said.contains(word));
        let text = known.collect::<Vec<_>>().join(" ");
        let message = Message { number, model: body["model"].as_str().unwrap_or("m"), text };
        let is_stream = body["stream"] == true;
        match api {
            Api::Messages if is_stream => ("200 OK", STREAM, events(&message.messages_events())),
            Api::Messages => json("200 OK", message.message()),
            Api::Responses if is_stream => ("200 OK", STREAM, events(&message.responses_events())),
            Api::Responses => json("200 OK", message.response("completed")),
            Api::Chat if is_stream => {
                let done = "data: [DONE]\n\n";
                ("200 OK", STREAM, events(&message.chat_chunks()) + done)
            }
            Api::Chat => json("200 OK", message.completion()),
        }
    }
}

const STREAM: &str = "text/event-stream; charset=utf-8";

/// Which API a request uses.
#[derive(Clone, Copy)]
enum Api {
    Messages,
    Responses,
    Chat,
}

impl Api {
    fn of_path(path: &str) -> Option<Self> {
        let path = path.split('?').next().unwrap_or_default();
        [
            ("/messages", Self::Messages),
            ("/responses", Self::Responses),
            ("/chat/completions", Self::Chat),
        ]
        .into_iter()
        .find_map(|(end, api)| path.ends_with(end).then_some(api))
    }
}

/// Reads the path and the body of a request.
fn read_request(from: &mut impl io::BufRead) -> io::Result<(String, Vec<u8>)> {
    let first = read_line(from)?;
    let path = first.split(' ').nth(1).unwrap_or_default().to_owned();
    let (mut length, mut is_chunked) = (0, false);
    loop {
        let line = read_line(from)?.to_ascii_lowercase();
        match line.split_once(':').map(|(name, value)| (name, value.trim())) {
            None => break,
            Some(("content-length", value)) => length = value.parse().unwrap_or_default(),
            Some(("transfer-encoding", value)) => is_chunked = value == "chunked",
            Some(_) => {}
        }
    }
    let mut body = Vec::new();
    while is_chunked {
        let size = u64::from_str_radix(read_line(from)?.trim(), 16).unwrap_or_default();
        from.take(size).read_to_end(&mut body)?;
        read_line(from)?;
        is_chunked = size > 0;
    }
    from.take(length).read_to_end(&mut body)?;
    Ok((path, body))
}

/// A line without its end; empty at the end of the request.
fn read_line(from: &mut impl io::BufRead) -> io::Result<String> {
    let mut line = String::new();
    from.read_line(&mut line)?;
    Ok(line.trim_end().to_owned())
}

/// Events as a stream has them, each under its own name.
fn events(events: &[Value]) -> String {
    let one = |event: &Value| match event["type"].as_str() {
        Some(name) => format!("event: {name}\ndata: {event}\n\n"),
        None => format!("data: {event}\n\n"),
    };
    events.iter().map(one).collect()
}

/// What the model says.
struct Message<'a> {
    number: u32,
    model: &'a str,
    text: String,
}

impl Message<'_> {
    /// In Anthropic's Messages API.
    fn message(&self) -> Value {
        let [input, output] = TOKENS;
        json!({
            "id": format!("msg_{}", self.number), "type": "message", "role": "assistant", "model": self.model,
            "content": [{ "type": "text", "text": self.text }], "stop_reason": "end_turn", "stop_sequence": null,
            "usage": { "input_tokens": input, "output_tokens": output },
        })
    }

    fn messages_events(&self) -> Vec<Value> {
        let mut start = self.message();
        (start["content"], start["stop_reason"]) = (json!([]), Value::Null);
        let delta = json!({ "type": "text_delta", "text": self.text });
        let stopped = json!({ "stop_reason": "end_turn", "stop_sequence": null });
        vec![
            json!({ "type": "message_start", "message": start }),
            json!({ "type": "content_block_start", "index": 0, "content_block": { "type": "text", "text": "" } }),
            json!({ "type": "content_block_delta", "index": 0, "delta": delta }),
            json!({ "type": "content_block_stop", "index": 0 }),
            json!({ "type": "message_delta", "delta": stopped, "usage": { "output_tokens": TOKENS[1] } }),
            json!({ "type": "message_stop" }),
        ]
    }

    /// In `OpenAI`'s Responses API.
    fn response(&self, status: &str) -> Value {
        let [input, output] = TOKENS;
        json!({
            "id": format!("resp_{}", self.number), "object": "response", "created_at": 0, "model": self.model,
            "status": status, "output": [self.item()],
            "usage": {
                "input_tokens": input, "input_tokens_details": { "cached_tokens": 0 },
                "output_tokens": output, "output_tokens_details": { "reasoning_tokens": 0 },
                "total_tokens": input + output,
            },
        })
    }

    fn item(&self) -> Value {
        json!({
            "type": "message", "id": format!("msg_{}", self.number), "role": "assistant", "status": "completed",
            "content": [{ "type": "output_text", "text": self.text, "annotations": [] }],
        })
    }

    fn responses_events(&self) -> Vec<Value> {
        let mut begun = self.response("in_progress");
        begun["output"] = json!([]);
        vec![
            json!({ "type": "response.created", "sequence_number": 0, "response": begun }),
            json!({ "type": "response.output_item.added", "sequence_number": 1, "output_index": 0, "item": self.item() }),
            json!({ "type": "response.output_text.delta", "sequence_number": 2, "item_id": format!("msg_{}", self.number),
                    "output_index": 0, "content_index": 0, "delta": self.text }),
            json!({ "type": "response.output_item.done", "sequence_number": 3, "output_index": 0, "item": self.item() }),
            json!({ "type": "response.completed", "sequence_number": 4, "response": self.response("completed") }),
        ]
    }

    /// In `OpenAI`'s Chat Completions API.
    fn completion(&self) -> Value {
        let message = json!({ "role": "assistant", "content": self.text });
        let choice = json!({ "index": 0, "message": message, "finish_reason": "stop" });
        self.completion_of("chat.completion", &json!([choice]), true)
    }

    fn chat_chunks(&self) -> Vec<Value> {
        let chunk = |delta: Value, finish: Option<&str>| {
            let choice = json!({ "index": 0, "delta": delta, "finish_reason": finish });
            self.completion_of("chat.completion.chunk", &json!([choice]), false)
        };
        vec![
            chunk(json!({ "role": "assistant", "content": self.text }), None),
            chunk(json!({}), Some("stop")),
            self.completion_of("chat.completion.chunk", &json!([]), true),
        ]
    }

    fn completion_of(&self, object: &str, choices: &Value, has_usage: bool) -> Value {
        let [input, output] = TOKENS;
        let usage = json!({
            "prompt_tokens": input, "completion_tokens": output, "total_tokens": input + output,
        });
        json!({
            "id": format!("chatcmpl-{}", self.number), "object": object, "created": 0, "model": self.model,
            "choices": choices, "usage": if has_usage { usage } else { Value::Null },
        })
    }
}
