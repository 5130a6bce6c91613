//! The part of HTTP/1.1 that clients of this API use: requests with a length or in chunks, and
//! responses.

use std::io::{self, BufRead, ErrorKind, Read, Write};

/// The longest line of a request head. No client of this API comes near it.
const MAX_LINE_BYTES: u64 = 64 * 1024;
/// The most lines of a request head.
const MAX_HEADERS: usize = 200;
/// The longest body. The real API rejects more than 32 MB.
const MAX_BODY_BYTES: usize = 64 * 1024 * 1024;

/// The end of a chunked body.
const LAST_CHUNK: &[u8] = b"0\r\n\r\n";

/// The head of a request.
#[derive(Debug)]
pub(super) struct Head {
    pub(super) method: String,
    /// The path without the query.
    pub(super) path: String,
    /// The headers; names are lower case.
    pub(super) headers: Vec<(String, String)>,
}

impl Head {
    /// Reads the next head; `None` if the client has closed the connection.
    pub(super) fn read(from: &mut impl BufRead) -> io::Result<Option<Self>> {
        let first = read_line(from)?;
        if first.is_empty() {
            return Ok(None);
        }
        let mut words = first.split(' ');
        let (Some(method), Some(target)) = (words.next(), words.next()) else {
            return Err(broken("the first line is no request"));
        };
        let path = target.split('?').next().unwrap_or_default();
        let mut head = Self { method: method.into(), path: path.into(), headers: Vec::new() };
        loop {
            let line = read_line(from)?;
            if line.is_empty() {
                return Ok(Some(head));
            }
            let (name, value) = line.split_once(':').ok_or_else(|| broken("no header"))?;
            head.headers.push((name.to_ascii_lowercase(), value.trim().into()));
            if head.headers.len() > MAX_HEADERS {
                return Err(broken("too many headers"));
            }
        }
    }

    /// Whether a header has this value.
    pub(super) fn says(&self, name: &str, value: &str) -> bool {
        self.header(name).is_some_and(|known| known.eq_ignore_ascii_case(value))
    }

    /// Reads the body that belongs to this head.
    pub(super) fn read_body(&self, from: &mut impl BufRead) -> io::Result<Vec<u8>> {
        if self.says("transfer-encoding", "chunked") {
            return read_chunks(from);
        }
        let length = self.header("content-length").unwrap_or("0");
        let length = length.parse().map_err(|_| broken("no length"))?;
        read_exactly(from, length)
    }

    fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

/// A response, ready to be sent.
#[derive(Debug)]
pub(super) struct Response {
    pub(super) code: u16,
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: Body,
}

/// The body of a response.
#[derive(Debug)]
pub(super) enum Body {
    /// Sent at once, with its length.
    Whole(Vec<u8>),
    /// Sent in chunks.
    Chunks(Vec<Vec<u8>>),
}

impl Response {
    pub(super) fn json(code: u16, value: &serde_json::Value) -> Self {
        let headers = vec![("content-type".into(), "application/json".into())];
        Self { code, headers, body: Body::Whole(value.to_string().into_bytes()) }
    }

    /// Sends all of it.
    pub(super) fn send(&self, to: &mut impl Write) -> io::Result<()> {
        let mut bytes = self.head();
        match &self.body {
            Body::Whole(body) => bytes.extend(body),
            Body::Chunks(chunks) => {
                put_chunks(&mut bytes, chunks);
                bytes.extend(LAST_CHUNK);
            }
        }
        to.write_all(&bytes)
    }

    /// Sends only a part: half of a whole body, or the first `chunks` chunks.
    pub(super) fn send_beginning(&self, to: &mut impl Write, chunks: usize) -> io::Result<()> {
        let mut bytes = self.head();
        match &self.body {
            Body::Whole(body) => bytes.extend(body.iter().take(body.len() / 2)),
            Body::Chunks(all) => put_chunks(&mut bytes, all.iter().take(chunks)),
        }
        to.write_all(&bytes)
    }

    /// Sends the head alone, which is the answer to HEAD.
    pub(super) fn send_head(&self, to: &mut impl Write) -> io::Result<()> {
        to.write_all(&self.head())
    }

    fn head(&self) -> Vec<u8> {
        // The reason phrase may be omitted, and no client reads it.
        let mut lines = vec![format!("HTTP/1.1 {} ", self.code)];
        lines.extend(self.headers.iter().map(|(name, value)| format!("{name}: {value}")));
        lines.push(match &self.body {
            Body::Whole(body) => format!("content-length: {}", body.len()),
            Body::Chunks(_) => "transfer-encoding: chunked".to_owned(),
        });
        (lines.join("\r\n") + "\r\n\r\n").into_bytes()
    }
}

fn put_chunks<'a>(bytes: &mut Vec<u8>, chunks: impl IntoIterator<Item = &'a Vec<u8>>) {
    for chunk in chunks {
        bytes.extend(format!("{:x}\r\n", chunk.len()).into_bytes());
        bytes.extend(chunk);
        bytes.extend(b"\r\n");
    }
}

fn read_chunks(from: &mut impl BufRead) -> io::Result<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let line = read_line(from)?;
        let size = line.split(';').next().unwrap_or_default().trim();
        let size = usize::from_str_radix(size, 16).map_err(|_| broken("no size of a chunk"))?;
        if size == 0 {
            while !read_line(from)?.is_empty() {} // trailers
            return Ok(body);
        }
        if body.len() + size.min(MAX_BODY_BYTES) > MAX_BODY_BYTES {
            return Err(broken("a body beyond the limit"));
        }
        body.extend(read_exactly(from, size)?);
        read_line(from)?;
    }
}

fn read_exactly(from: &mut impl BufRead, length: usize) -> io::Result<Vec<u8>> {
    if length > MAX_BODY_BYTES {
        return Err(broken("a body beyond the limit"));
    }
    let mut body = vec![0; length];
    from.read_exact(&mut body)?;
    Ok(body)
}

/// Reads a line without its line ending. Empty at the end of the connection.
fn read_line(from: &mut impl BufRead) -> io::Result<String> {
    let mut line = String::new();
    from.take(MAX_LINE_BYTES).read_line(&mut line)?;
    line.truncate(line.trim_end_matches(['\r', '\n']).len());
    Ok(line)
}

fn broken(what: &str) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, what)
}
