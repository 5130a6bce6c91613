//! One client connection: reads requests and sends replies, with the faults that a reply asks for.

use std::{
    io::{self, BufReader, Read, Write},
    net::TcpStream,
    sync::{Arc, atomic::Ordering},
};

use serde_json::{Value, json};

use super::{
    Block, Dialect, Reply, Request,
    http::{Body, Head, Response},
    message::Message,
    reply::Kind,
    server::{Live, Shared},
};

/// The events of a message that is cut short: its start, the start of its text, one piece of text.
const EVENTS_BEFORE_CUT: usize = 3;

/// A connection and the state of its API.
pub(super) struct Connection {
    from: BufReader<TcpStream>,
    to: TcpStream,
    shared: Arc<Shared>,
    /// Keeps the connection registered, so that shutdown can close it.
    live: Live,
}

/// Whether another request may follow.
enum Next {
    Stay,
    Close,
}

impl Connection {
    pub(super) fn new(stream: TcpStream, shared: Arc<Shared>, live: Live) -> io::Result<Self> {
        // Otherwise the end of a short answer is delayed until the client's delayed acknowledgement.
        stream.set_nodelay(true)?;
        Ok(Self { from: BufReader::new(stream.try_clone()?), to: stream, shared, live })
    }

    /// Serves until either side closes. An error ends only this connection: tests often kill clients.
    pub(super) fn serve(mut self) {
        while let Ok(Next::Stay) = self.serve_one() {}
    }

    fn serve_one(&mut self) -> io::Result<Next> {
        let Some(head) = Head::read(&mut self.from)? else { return Ok(Next::Close) };
        if head.says("expect", "100-continue") {
            self.to.write_all(b"HTTP/1.1 100 Continue\r\n\r\n")?;
        }
        let body = head.read_body(&mut self.from)?;
        let next = self.answer(&head, &body)?;
        Ok(if head.says("connection", "close") { Next::Close } else { next })
    }

    fn answer(&mut self, head: &Head, body: &[u8]) -> io::Result<Next> {
        if head.method == "POST"
            && let Some(dialect) = Dialect::of_path(&head.path)
        {
            return match serde_json::from_slice::<Value>(body) {
                Ok(body) => self.answer_message(head, dialect, body),
                Err(error) => {
                    let message = format!("the body is not JSON: {error}");
                    let error = ("invalid_request_error", &*message);
                    self.error(dialect, 400, error, &[]).send(&mut self.to)?;
                    Ok(Next::Stay)
                }
            };
        }
        let response = match (head.method.as_str(), head.path.as_str()) {
            ("POST", "/v1/messages/count_tokens") => {
                Response::json(200, &json!({ "input_tokens": 10 }))
            }
            // Claude Code sends this to warm up its connection.
            ("HEAD", "/") => Response::json(200, &json!({})),
            _ => {
                let error = ("not_found_error", "the loopback model knows no such path");
                self.error(Dialect::Messages, 404, error, &[])
            }
        };
        if head.method == "HEAD" {
            response.send_head(&mut self.to)?;
        } else {
            response.send(&mut self.to)?;
        }
        Ok(Next::Stay)
    }

    fn answer_message(&mut self, head: &Head, dialect: Dialect, body: Value) -> io::Result<Next> {
        let request = Request { body, dialect, headers: head.headers.clone() };
        // Choose the reply before the request is recorded: a rule that a test adds after it has waited
        // for this request must not apply to it.
        let reply = self.shared.rules.reply_to(&request);
        self.shared.record(&request);
        if !reply.after.is_zero() {
            self.shared.ended.wait_at_most(reply.after);
        }
        if let Some(gate) = &reply.gate {
            self.live.wait_at(gate);
        }
        if self.shared.ended.is_open() {
            return Ok(Next::Close); // what woke it was the end, not its time
        }
        match &reply.kind {
            Kind::Hang => {
                // Reading returns when the client closes the connection or the API is dropped.
                io::copy(&mut self.from.by_ref(), &mut io::sink())?;
                Ok(Next::Close)
            }
            Kind::Dropped => Ok(Next::Close),
            Kind::Cut(blocks) => {
                let response = self.message(&request, &reply, blocks);
                response.send_beginning(&mut self.to, EVENTS_BEFORE_CUT)?;
                Ok(Next::Close)
            }
            Kind::Message(blocks) => {
                self.message(&request, &reply, blocks).send(&mut self.to)?;
                Ok(Next::Stay)
            }
            Kind::Status { code, kind, message } => {
                let mut response = self.error(dialect, *code, (kind, message), &reply.error_fields);
                response.headers.extend(reply.headers.iter().cloned());
                response.send(&mut self.to)?;
                Ok(Next::Stay)
            }
        }
    }

    fn message(&self, request: &Request, reply: &Reply, blocks: &[Block]) -> Response {
        let number = self.number();
        let message = Message { number, model: request.model(), blocks, reply };
        let mut response = if request.is_streaming() {
            Response {
                code: 200,
                headers: vec![("content-type".into(), "text/event-stream; charset=utf-8".into())],
                body: Body::Chunks(request.dialect.stream(&message)),
            }
        } else {
            Response::json(200, &request.dialect.document(&message))
        };
        response.headers.push(("request-id".into(), format!("req_{number}")));
        response.headers.extend(reply.headers.iter().cloned());
        response
    }

    fn error(
        &self,
        dialect: Dialect,
        code: u16,
        error: (&str, &str),
        fields: &[(String, Value)],
    ) -> Response {
        let id = format!("req_{}", self.number());
        let mut response = dialect.error(code, error, fields, &id);
        response.headers.push(("request-id".into(), id));
        response
    }

    /// A number that is unique among the answers of this API.
    fn number(&self) -> u64 {
        self.shared.answers.fetch_add(1, Ordering::Relaxed) + 1
    }
}
