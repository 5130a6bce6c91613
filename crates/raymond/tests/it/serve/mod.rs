//! `raymond serve` on the real program: raw HTTP over a socket, runs on disk.

mod acting;
mod asks;
#[cfg(target_os = "linux")]
mod bench;
mod reading;
mod security;
mod streams;

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpStream,
    process::{Child, Command, Stdio},
    time::Duration,
};

use serde_json::Value;

use crate::{env::Project, printed};

/// Long enough for a loaded machine: nothing waits for it in vain.
const PATIENCE: Duration = Duration::from_mins(1);

/// A running server.
pub(crate) struct Server {
    child: Child,
    pub(crate) address: String,
    pub(crate) token: String,
}

/// An answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    #[track_caller]
    pub(crate) fn ok(self) -> Value {
        assert!((200..300).contains(&self.status), "{self:?}");
        self.json()
    }
}

impl Server {
    pub(crate) fn start(project: &Project, arguments: &[&str]) -> Self {
        let arguments = [&["serve", "--port", "0"], arguments].concat();
        Self::of(project, project.command(&arguments))
    }

    /// The server that this command starts.
    pub(crate) fn of(project: &Project, mut command: Command) -> Self {
        command.stdout(Stdio::piped()).stderr(Stdio::inherit());
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim().trim_start_matches("http://").trim_end_matches('/').to_owned();
        assert!(!address.contains("k="), "a token in what may be a log: {line}");
        let token = project.read(".state/raymond/serve.token");
        Self { child, address, token }
    }

    /// A server that a test has started in another way.
    pub(crate) fn attached(child: Child, address: String, token: String) -> Self {
        Self { child, address, token }
    }

    /// Sends a signal, waits for the end, and returns the exit code.
    #[cfg(unix)]
    pub(crate) fn end(&mut self, signal: i32) -> Option<i32> {
        crate::env::kill(self.pid(), signal);
        let mut ended = None;
        crate::env::wait_until("the server ends", PATIENCE, || {
            ended = self.child.try_wait().unwrap();
            ended.is_some()
        });
        ended.and_then(|status| status.code())
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends these bytes and reads the answer to its end. The server closes the connection.
    pub(crate) fn raw(&self, request: &[u8]) -> Answer {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        // A request that is refused at once is perhaps not read to its end.
        let _ = stream.write_all(request);
        let mut bytes = Vec::new();
        let _ = stream.read_to_end(&mut bytes);
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
        let status = head.split(' ').nth(1).and_then(|word| word.parse().ok()).unwrap_or(0);
        printed::check(body);
        Answer { status, head: head.to_lowercase(), body: body.to_owned() }
    }

    /// A request with these headers, and nothing else but what HTTP needs.
    pub(crate) fn send(&self, line: &str, headers: &[&str], body: &str) -> Answer {
        let mut request = format!("{line} HTTP/1.1\r\nConnection: close\r\n");
        for header in headers {
            request.push_str(header);
            request.push_str("\r\n");
        }
        if !body.is_empty() {
            let length = format!("Content-Length: {}\r\n", body.len());
            request.push_str(&length);
        }
        request.push_str("\r\n");
        request.push_str(body);
        self.raw(request.as_bytes())
    }

    /// The headers that every good request has.
    pub(crate) fn good(&self) -> [String; 2] {
        [format!("Host: {}", self.address), format!("Authorization: Bearer {}", self.token)]
    }

    pub(crate) fn get(&self, path: &str) -> Answer {
        let [host, token] = self.good();
        self.send(&format!("GET {path}"), &[&host, &token], "")
    }

    pub(crate) fn post(&self, path: &str, body: &Value) -> Answer {
        let [host, token] = self.good();
        let headers = [&*host, &token, "Content-Type: application/json"];
        self.send(&format!("POST {path}"), &headers, &body.to_string())
    }

    /// The key of the only project.
    pub(crate) fn project(&self) -> String {
        let server = self.get("/api/server").ok();
        assert_eq!(server["projects"].as_array().map(Vec::len), Some(1), "{server}");
        server["projects"][0]["project"].as_str().unwrap().to_owned()
    }

    /// The path of a run of the only project.
    pub(crate) fn run(&self, id: &str) -> String {
        format!("/api/runs/{}/{id}", self.project())
    }

    /// Opens an event stream.
    pub(crate) fn stream(&self, path: &str, more: &[&str]) -> Events {
        let [host, token] = self.good();
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let more: String = more.iter().flat_map(|header| [*header, "\r\n"]).collect();
        write!(stream, "GET {path} HTTP/1.1\r\n{host}\r\n{token}\r\n{more}\r\n").unwrap();
        let mut reader = BufReader::new(stream);
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            assert!(reader.read_line(&mut head).unwrap() > 0, "{head}");
        }
        assert!(head.starts_with("HTTP/1.1 200"), "{head}");
        Events { reader, text: String::new() }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// An event stream, read as it comes.
pub(crate) struct Events {
    reader: BufReader<TcpStream>,
    text: String,
}

/// An event.
#[derive(Debug)]
pub(crate) struct Event {
    pub(crate) name: String,
    pub(crate) id: Option<String>,
    pub(crate) data: Value,
}

impl Events {
    /// The next event; beats are passed over.
    pub(crate) fn next(&mut self) -> Event {
        loop {
            if let Some((event, rest)) = self.text.split_once("\n\n") {
                let field = |name: &str| {
                    let lines = event.lines().filter_map(|line| line.strip_prefix(name));
                    lines.map(|text| text.trim_start().to_owned()).next()
                };
                let (name, data) = (field("event:"), field("data:"));
                let id = field("id:");
                self.text = rest.to_owned();
                if let (Some(name), Some(data)) = (name, data) {
                    return Event { name, id, data: serde_json::from_str(&data).unwrap() };
                }
                continue;
            }
            let chunk = self.chunk();
            self.text.push_str(&chunk);
        }
    }

    /// The next event for which this holds.
    pub(crate) fn until(&mut self, mut is_it: impl FnMut(&Event) -> bool) -> Event {
        loop {
            let event = self.next();
            if is_it(&event) {
                return event;
            }
        }
    }

    /// A chunk of the body.
    fn chunk(&mut self) -> String {
        let mut size = String::new();
        assert!(self.reader.read_line(&mut size).unwrap() > 0, "the stream ended");
        let size = usize::from_str_radix(size.trim(), 16).unwrap();
        let mut bytes = vec![0; size + 2];
        self.reader.read_exact(&mut bytes).unwrap();
        assert!(size > 0, "the stream ended");
        String::from_utf8(bytes[..size].to_vec()).unwrap()
    }
}

/// A project with a run `first` that is completed.
pub(crate) fn project() -> Project {
    let project = Project::new([
        ("START.sh", "echo '<goto>LAST</goto>'"),
        ("LAST.sh", "echo '<result>it works</result>'"),
    ]);
    project.raymond(&["flow", "--id", "first"]).completed("it works");
    project
}
