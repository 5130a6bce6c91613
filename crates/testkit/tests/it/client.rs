//! A client that uses plain sockets, so that the API is not tested with its own code.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
};

use serde_json::{Value, json};

/// A connection.
pub(crate) struct Client {
    stream: BufReader<TcpStream>,
}

/// An answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) code: u16,
    pub(crate) head: String,
    pub(crate) body: String,
    /// Whether the body is complete.
    pub(crate) complete: bool,
}

impl Client {
    pub(crate) fn new(base_url: &str) -> Self {
        let address = base_url.strip_prefix("http://").unwrap();
        Self { stream: BufReader::new(TcpStream::connect(address).unwrap()) }
    }

    /// Sends a request and reads the answer.
    pub(crate) fn ask(&mut self, body: &Value) -> Answer {
        self.send(body);
        self.answer().expect("an answer")
    }

    /// Sends a request with its length.
    pub(crate) fn send(&mut self, body: &Value) {
        let body = body.to_string();
        let length = body.len();
        self.send_raw(&format!(
            "POST /v1/messages?beta=true HTTP/1.1\r\nContent-Length: {length}\r\n\r\n{body}"
        ));
    }

    pub(crate) fn send_raw(&mut self, bytes: &str) {
        self.stream.get_mut().write_all(bytes.as_bytes()).unwrap();
    }

    /// Reads an answer; `None` if the connection is closed instead.
    pub(crate) fn answer(&mut self) -> Option<Answer> {
        let head = self.head()?;
        let code = head.split(' ').nth(1).unwrap().parse().unwrap();
        let (body, complete) = match length(&head) {
            Some(length) => self.exactly(length),
            None => self.chunks(),
        };
        Some(Answer { code, head, body, complete })
    }

    /// Reads only the head, in lower case: the whole answer to HEAD.
    pub(crate) fn head(&mut self) -> Option<String> {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if self.stream.read_line(&mut head).unwrap() == 0 {
                return None;
            }
        }
        Some(head.to_lowercase())
    }

    fn chunks(&mut self) -> (String, bool) {
        let mut body = String::new();
        loop {
            let mut size = String::new();
            self.stream.read_line(&mut size).unwrap();
            let Ok(size) = usize::from_str_radix(size.trim(), 16) else { return (body, false) };
            let (chunk, complete) = self.exactly(size + 2);
            body += chunk.strip_suffix("\r\n").unwrap();
            if size == 0 || !complete {
                return (body, complete);
            }
        }
    }

    fn exactly(&mut self, length: usize) -> (String, bool) {
        let mut bytes = Vec::new();
        let read = self.stream.by_ref().take(length as u64).read_to_end(&mut bytes).unwrap();
        (String::from_utf8(bytes).unwrap(), read == length)
    }
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap()
    }

    /// The events of a stream.
    pub(crate) fn events(&self) -> Vec<Value> {
        let data = self.body.lines().filter_map(|line| line.strip_prefix("data: "));
        data.map(|data| serde_json::from_str(data).unwrap()).collect()
    }
}

fn length(head: &str) -> Option<usize> {
    let mut lines = head.lines();
    lines.find_map(|line| line.strip_prefix("content-length: "))?.parse().ok()
}

/// A request that wants one document.
pub(crate) fn prompt(text: &str) -> Value {
    json!({
        "model": "m",
        "max_tokens": 100,
        "messages": [{ "role": "user", "content": [{ "type": "text", "text": text }] }],
    })
}

/// A request that wants a stream.
pub(crate) fn streaming(text: &str) -> Value {
    let mut body = prompt(text);
    body["stream"] = true.into();
    body
}
