//! `[notify]`: a command of the user that is called when a run asks a question or ends.
//!
//! The command gets one JSON object on its standard input, and has ten seconds. The run never waits for it and never
//! fails because of it: a failure is a warning.

use std::{
    io::{Read as _, Seek as _, Write as _},
    process::{Command, Stdio},
    sync::mpsc::{self, Receiver, Sender},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use raymond_engine::{
    asks::PublishedQuestion,
    exec::processes::Tree,
    run::events::{Event, Observer, Seen},
};
use raymond_flow::{id::AgentId, machine::Status, money::Usd};
use serde_json::{Value, json};

use crate::{
    out,
    report::{Next, question_json, warning},
};

/// How long the command may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// How often Raymond checks whether the command has ended.
const LOOK_INTERVAL: Duration = Duration::from_millis(20);
/// How much of the command's standard error is shown.
const ERROR_BYTES_MAX: u64 = 1000;

/// When the command can be called.
pub(crate) const OCCASIONS: [&str; 5] = ["ask", "failed", "stopped", "paused", "completed"];

/// The observer that calls the command.
pub(crate) struct NotifyObserver {
    command: Vec<String>,
    /// When it is called; `None` means only for `ask`.
    on: Option<Vec<String>>,
    next: Next,
    calls: Vec<JoinHandle<()>>,
    problems: (Sender<String>, Receiver<String>),
    result: Option<String>,
}

impl NotifyObserver {
    pub(crate) fn new(command: Vec<String>, on: Option<Vec<String>>, next: Next) -> Self {
        let problems = mpsc::channel();
        Self { command, on, next, calls: Vec::new(), problems, result: None }
    }

    fn is_called_on(&self, occasion: &str) -> bool {
        match &self.on {
            Some(on) => on.iter().any(|word| word == occasion),
            None => occasion == "ask",
        }
    }

    fn asked(&mut self, question: &PublishedQuestion) {
        if self.is_called_on("ask") {
            let question = question_json(&self.next.id, question, &self.next);
            self.call(json!({ "event": "ask", "run": self.next.id, "ask": question }));
        }
    }

    fn finished(&mut self, status: Status, total_cost_usd: Usd) {
        let occasion = status.to_string();
        if self.is_called_on(&occasion) {
            self.call(json!({
                "event": occasion, "run": self.next.id, "status": occasion, "result": self.result,
                "total_cost_usd": total_cost_usd, "command": self.next.command("status"),
            }));
        }
    }

    /// Calls the command in a thread of its own.
    fn call(&mut self, message: Value) {
        let (command, problems) = (self.command.clone(), self.problems.0.clone());
        let call = move || {
            if let Err(why) = call(&command, &message) {
                let program = command.first().map_or("", String::as_str);
                let _ = problems.send(format!("the notify command `{program}` {why}; correct `command` under [notify] in the settings"));
            }
        };
        match thread::Builder::new().spawn(call) {
            Ok(call) => self.calls.push(call),
            Err(error) => {
                let _ = self.problems.0.send(format!("the notify command was not called: {error}"));
            }
        }
    }
}

impl Observer for NotifyObserver {
    fn see(&mut self, Seen { event, .. }: &Seen) {
        match event {
            Event::Asked { question, is_new: true } => self.asked(question),
            Event::Recorded { record, total_cost_usd, .. } => {
                if let Some((agent, payload)) = record.result()
                    && *agent == AgentId::main()
                {
                    self.result = Some(payload.to_string());
                }
                if let Some(status) = record.finished() {
                    self.finished(status, *total_cost_usd);
                }
            }
            _ => {}
        }
    }

    fn complaint(&mut self) -> Option<String> {
        self.problems.1.try_recv().ok()
    }
}

impl Drop for NotifyObserver {
    /// Waits for the last call, so that the notice about the end of the run arrives.
    fn drop(&mut self) {
        for call in self.calls.drain(..) {
            let _ = call.join();
        }
        while let Some(problem) = self.complaint() {
            out::people().line(&warning(&problem));
        }
    }
}

/// Runs the command with `message` on its standard input. The error says what went wrong.
fn call(words: &[String], message: &Value) -> Result<(), String> {
    let io = |error: std::io::Error| format!("could not be run: {error}");
    let Some((program, arguments)) = words.split_first() else { return Ok(()) };
    // Files and no pipes: a command that does not read, or that leaves a process behind, does not block Raymond.
    let mut input = tempfile::tempfile().map_err(io)?;
    input.write_all(format!("{message}\n").as_bytes()).map_err(io)?;
    input.rewind().map_err(io)?;
    let mut errors = tempfile::tempfile().map_err(io)?;
    let mut command = Command::new(program);
    command.args(arguments).stdin(input).stdout(Stdio::null());
    command.stderr(errors.try_clone().map_err(io)?);
    let (mut child, tree) = Tree::spawn(&mut command).map_err(io)?;
    let started = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().map_err(io)? {
            break status;
        }
        if started.elapsed() >= PATIENCE {
            tree.end(false);
            let _ = child.wait();
            return Err(format!(
                "did not end within {} seconds and was killed",
                PATIENCE.as_secs()
            ));
        }
        thread::sleep(LOOK_INTERVAL);
    };
    if status.success() {
        return Ok(());
    }
    let mut said = Vec::new();
    let read = errors.rewind().and_then(|()| errors.take(ERROR_BYTES_MAX).read_to_end(&mut said));
    let said = read.map(|_| String::from_utf8_lossy(&said).trim().to_owned()).unwrap_or_default();
    let code = status.code().map_or("a signal".to_owned(), |code| format!("code {code}"));
    Err(format!("ended with {code}: {said}").trim_end_matches([':', ' ']).to_owned())
}
