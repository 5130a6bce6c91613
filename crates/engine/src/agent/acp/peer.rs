//! The coding agent's process, and JSON-RPC with it: one object per line.

use std::{
    io::{self, BufRead as _, BufReader, Read as _, Write as _},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender},
    thread,
    time::{Duration, Instant},
};

use serde::Deserialize;
use serde_json::{Value, json};

use crate::agent::{
    lines::{lenient, object},
    marks::STRANGE,
};

/// The longest line that is read: more than any message of a model.
const LINE_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// How long the coding agent may take to exit by itself after the turn, so that it can save its session.
const LEAVING: Duration = Duration::from_secs(2);
/// How often to check whether it has.
const INTERVAL: Duration = Duration::from_millis(2);
/// How many messages are read ahead.
const AHEAD: usize = 16;
/// JSON-RPC: there is no such method.
pub(super) const NO_METHOD: i64 = -32601;

/// The coding agent.
pub(super) struct Peer {
    child: Child,
    to: Option<ChildStdin>,
    /// What it prints, line by line: a message, or `None` for a line that is none.
    from: Receiver<io::Result<Option<Message>>>,
    /// When it printed its first line, as long as no line was a message.
    strange_since: Option<Instant>,
    is_understood: bool,
    /// How long it may print lines of which none is a message.
    patience: Duration,
    /// The id of the last request.
    last_id: u64,
}

/// What the coding agent sends.
#[derive(Debug, Deserialize)]
pub(super) struct Message {
    pub(super) id: Option<Value>,
    #[serde(default, deserialize_with = "lenient")]
    pub(super) method: Option<String>,
    #[serde(default)]
    pub(super) params: Value,
    result: Option<Value>,
    #[serde(default, deserialize_with = "lenient")]
    error: Option<RpcError>,
}

/// Why a request failed.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct RpcError {
    #[serde(deserialize_with = "lenient")]
    pub(super) code: i64,
    #[serde(deserialize_with = "lenient")]
    pub(super) message: String,
    data: Value,
}

impl Message {
    /// Whether it is one of the protocol. Any object has some of the keys, or none.
    fn says_something(&self) -> bool {
        self.method.is_some() || self.id.is_some()
    }
}

impl RpcError {
    /// All that it says, without the words that JSON-RPC has for every failure.
    pub(super) fn words(&self) -> String {
        let message = self.message.trim_start_matches("Internal error").trim_start_matches(": ");
        let data = [&self.data["details"], &self.data["message"], &self.data];
        let details = data.iter().find_map(|it| it.as_str());
        let parts = [message, details.unwrap_or_default()];
        let said: Vec<_> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        if said.is_empty() { self.message.clone() } else { said.join(": ") }
    }
}

/// Why there is no answer to a request.
#[derive(Debug)]
pub(super) enum CallError {
    /// The coding agent says so.
    Refused(RpcError),
    /// It exited, or closed its output.
    Gone,
    /// It prints something else.
    Strange,
    /// It cannot be reached.
    Io(io::Error),
}

impl From<io::Error> for CallError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::Gone,
            _ => Self::Io(error),
        }
    }
}

/// Handles what the coding agent sends while a request is under way.
pub(super) trait Handler {
    /// A notification.
    fn notified(&mut self, method: &str, params: &Value) -> io::Result<()>;

    /// A request, and its result; `None` if there is no such method.
    fn asked(&mut self, method: &str, params: &Value) -> io::Result<Option<Value>>;

    /// Whether the turn is to end now, because a person has to be asked first.
    fn ends_turn(&self) -> bool;
}

impl Peer {
    /// Starts the coding agent. Its standard error is that of the turn.
    pub(super) fn start(command: &[String]) -> io::Result<Self> {
        let (program, arguments) = command.split_first().ok_or(io::ErrorKind::InvalidInput)?;
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn()?;
        let to = child.stdin.take();
        let output = child.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?;
        let (sender, from) = mpsc::sync_channel(AHEAD);
        // It ends with the output, or when nobody wants its messages any more.
        thread::Builder::new().spawn(move || read(output, &sender))?;
        let (strange_since, is_understood) = (None, false);
        Ok(Self { child, to, from, strange_since, is_understood, patience: STRANGE, last_id: 0 })
    }

    /// Sends a request and waits for its result.
    pub(super) fn call(
        &mut self,
        method: &str,
        params: &Value,
        handler: &mut dyn Handler,
    ) -> Result<Value, CallError> {
        self.last_id += 1;
        let id = self.last_id;
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }))?;
        loop {
            let Some(message) = self.receive()? else { return Err(CallError::Gone) };
            match (&message.method, &message.id) {
                (Some(method), Some(id)) => {
                    let error = json!({ "code": NO_METHOD, "message": "unknown method" });
                    let answer = handler.asked(method, &message.params)?.map_or_else(
                        || json!({ "jsonrpc": "2.0", "id": id, "error": error }),
                        |result| json!({ "jsonrpc": "2.0", "id": id, "result": result }),
                    );
                    self.send(&answer)?;
                    if handler.ends_turn() {
                        let session = json!({ "sessionId": message.params["sessionId"] });
                        let cancel = json!({ "jsonrpc": "2.0", "method": "session/cancel", "params": session });
                        self.send(&cancel)?;
                    }
                }
                (Some(method), None) => handler.notified(method, &message.params)?,
                (None, Some(answered)) if answered.as_u64() == Some(id) => {
                    return match message.error {
                        Some(error) => Err(CallError::Refused(error)),
                        None => Ok(message.result.unwrap_or_default()),
                    };
                }
                (None, _) => {}
            }
        }
    }

    fn send(&mut self, message: &Value) -> io::Result<()> {
        let to = self.to.as_mut().ok_or(io::ErrorKind::BrokenPipe)?;
        to.write_all(format!("{message}\n").as_bytes())?;
        to.flush()
    }

    /// The next message; `None` at the end. Lines that are no messages are passed over, but not for long if there are no others.
    fn receive(&mut self) -> Result<Option<Message>, CallError> {
        loop {
            let left = self.strange_since.filter(|_| !self.is_understood);
            let left = left.map(|since| self.patience.saturating_sub(since.elapsed()));
            let line = match left {
                Some(left) => self.from.recv_timeout(left),
                None => self.from.recv().map_err(|_| RecvTimeoutError::Disconnected),
            };
            match line {
                Ok(Ok(Some(message))) => {
                    self.is_understood = true;
                    return Ok(Some(message));
                }
                Ok(Ok(None)) => {
                    self.strange_since.get_or_insert_with(Instant::now);
                }
                Ok(Err(error)) => return Err(error.into()),
                Err(RecvTimeoutError::Timeout) => return Err(CallError::Strange),
                Err(RecvTimeoutError::Disconnected) => return Ok(None),
            }
        }
    }

    /// Tells the coding agent that there is nothing more, and waits until it has left. If it stays, the reaper ends it.
    pub(super) fn leave(mut self) {
        drop(self.to.take());
        let since = Instant::now();
        while since.elapsed() < LEAVING && matches!(self.child.try_wait(), Ok(None)) {
            std::thread::sleep(INTERVAL);
        }
    }
}

/// Reads what the coding agent prints, until its end.
fn read(output: ChildStdout, sender: &SyncSender<io::Result<Option<Message>>>) {
    let mut output = BufReader::new(output);
    loop {
        let mut line = Vec::new();
        let read = match (&mut output).take(LINE_BYTES_MAX).read_until(b'\n', &mut line) {
            Ok(0) => return,
            Ok(_) => Ok(object(&line).filter(Message::says_something)),
            Err(error) => Err(error),
        };
        let is_over = read.is_err();
        if sender.send(read).is_err() || is_over {
            return;
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "in tests a panic is the message")]
mod tests {
    use super::*;

    /// Does nothing with what it is sent.
    struct Deaf;

    impl Handler for Deaf {
        fn notified(&mut self, _method: &str, _params: &Value) -> io::Result<()> {
            Ok(())
        }

        fn asked(&mut self, _method: &str, _params: &Value) -> io::Result<Option<Value>> {
            Ok(None)
        }

        fn ends_turn(&self) -> bool {
            false
        }
    }

    /// The result of a request to a coding agent that is this script, which is given no patience for strange lines.
    fn ask(script: &str) -> Result<Value, CallError> {
        let command = ["bash", "-c", script].map(str::to_owned);
        let mut peer = Peer::start(&command).unwrap();
        peer.patience = Duration::ZERO;
        let result = peer.call("initialize", &json!({}), &mut Deaf);
        peer.child.kill().unwrap();
        peer.child.wait().unwrap();
        result
    }

    #[test]
    fn coding_agent_that_prints_something_else_is_not_waited_for() {
        let strange = "echo Hello; echo '{\"type\":\"hello\"}'; exec sleep 600";
        assert!(matches!(ask(strange), Err(CallError::Strange)));
        assert!(matches!(ask("echo Hello"), Err(CallError::Strange | CallError::Gone)));
        assert!(matches!(ask("exit 0"), Err(CallError::Gone)));
        let notified = r#"{"method":"news","params":{}}"#;
        let answered = r#"{"id":1,"result":7}"#;
        let known =
            format!("echo '{notified}'; echo Hello; sleep 0.1; echo '{answered}'; exec sleep 600");
        assert_eq!(ask(&known).unwrap(), 7, "it has said something before");
    }

    #[test]
    fn message_is_read_in_any_order_and_with_keys_of_any_type() {
        for text in [
            r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"no"}}"#,
            r#"{"error":{"x":[],"message":"no","code":-32601},"method":null,"id":1,"more":{}}"#,
        ] {
            let message: Message = serde_json::from_str(text).unwrap();
            let error = message.error.unwrap();
            assert_eq!((error.code, error.message.as_str()), (NO_METHOD, "no"));
            assert!(message.method.is_none());
        }
        let odd = r#"{"id":1,"error":{"code":"E_FAILED","message":null}}"#;
        let odd: Message = serde_json::from_str(odd).unwrap();
        assert_eq!(odd.error.unwrap().code, 0, "it is an answer still");
    }

    #[test]
    fn words_of_an_error_are_those_that_say_something() {
        let words = |message: &str, data: Value| {
            RpcError { code: 1, message: message.to_owned(), data }.words()
        };
        assert_eq!(
            words("Internal error: You've hit your limit", Value::Null),
            "You've hit your limit"
        );
        assert_eq!(words("Internal error", json!({ "details": "overloaded" })), "overloaded");
        assert_eq!(words("Internal error", json!({ "message": "limit reached" })), "limit reached");
        assert_eq!(words("Invalid params", json!("no model")), "Invalid params: no model");
        assert_eq!(words("Internal error", Value::Null), "Internal error");
    }
}
