//! Any program as a coding agent, by a protocol of a few lines.
//!
//! The program reads the prompt on standard input. It learns the rest from its environment:
//! `RAYMOND_SESSION` (the session's id), `RAYMOND_SESSION_MODE` (`fresh`, `resume` or `branch`),
//! `RAYMOND_SESSION_FROM` (what a branch starts from), `RAYMOND_TURN_MODEL`, `RAYMOND_TURN_EFFORT`,
//! `RAYMOND_STATE` (the state file) and `RAYMOND_RECOVERS` (`1` after a start that failed). The last
//! line that it prints is a JSON object:
//!
//! ```json
//! {"result": "… <goto>NEXT</goto>", "cost_usd": 0.01}
//! {"error": "overloaded", "class": "transient", "cost_usd": 0.002}
//! ```

use std::{
    io::{self, Seek, SeekFrom},
    path::Path,
};

use raymond_flow::{
    machine::{Failure, FailureClass, SessionPlan, Spent, Tokens},
    money::Usd,
    turn::Outcome,
};
use serde::Deserialize;

use super::{
    Capabilities, CodingAgent, Entry, TranscriptReader, TurnCommand, TurnEnd, TurnOutput,
    TurnRequest,
};

/// The longest last line: an answer of a model, and then some.
const LAST_LINE_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// A program that speaks the protocol above.
#[derive(Clone, Debug)]
pub struct ProgramAgent {
    program: Vec<String>,
}

impl ProgramAgent {
    /// The program and its arguments.
    pub fn new(program: Vec<String>) -> Self {
        Self { program }
    }
}

#[derive(Deserialize)]
struct LastLine {
    result: Option<String>,
    error: Option<String>,
    class: Option<String>,
    #[serde(default)]
    cost_usd: Usd,
    model: Option<String>,
    #[serde(default)]
    input_tokens: u64,
    #[serde(default)]
    output_tokens: u64,
    resets_at: Option<u64>,
}

/// The output of a program as a transcript: every line but the last one, which is the answer.
pub(super) struct PlainReader;

impl TranscriptReader for PlainReader {
    fn line(&mut self, line: &[u8]) -> Vec<Entry> {
        let text = String::from_utf8_lossy(line);
        let text = text.trim_end();
        let last: Option<LastLine> = serde_json::from_str(text).ok();
        if text.is_empty() || last.is_some_and(|l| l.result.is_some() || l.error.is_some()) {
            return Vec::new();
        }
        vec![Entry::Text { text: text.to_owned() }]
    }
}

impl CodingAgent for ProgramAgent {
    fn name(&self) -> &'static str {
        "program"
    }

    fn install_advice(&self) -> &'static str {
        "check RAYMOND_AGENT_PROGRAM"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities { can_branch: true, reports_cost: true }
    }

    fn program(&self) -> Vec<String> {
        self.program.clone()
    }

    fn command(&self, request: &TurnRequest<'_>) -> Result<TurnCommand, Failure> {
        let turn = request.turn;
        let (mode, from) = match &turn.session {
            SessionPlan::Fresh { .. } => ("fresh", None),
            SessionPlan::Resume { .. } => ("resume", None),
            SessionPlan::Branch { from, .. } => ("branch", Some(from.as_str())),
        };
        let settings = &turn.settings;
        let variables = [
            ("RAYMOND_SESSION", Some(turn.session.id().as_str())),
            ("RAYMOND_SESSION_MODE", Some(mode)),
            ("RAYMOND_SESSION_FROM", from),
            ("RAYMOND_TURN_MODEL", settings.model.as_deref()),
            ("RAYMOND_TURN_EFFORT", settings.effort.as_deref()),
            ("RAYMOND_STATE", Some(request.step.state.as_str())),
            ("RAYMOND_RECOVERS", turn.recovers.then_some("1")),
        ];
        let set = variables.into_iter().filter_map(|(n, v)| Some((n.to_owned(), v?.to_owned())));
        let unset = variables.into_iter().filter(|(_, value)| value.is_none());
        let stdin = if turn.recovers { request.continuation } else { request.prompt };
        Ok(TurnCommand {
            program: self.program.clone(),
            environment: set.collect(),
            without: unset.map(|(name, _)| name.to_owned()).collect(),
            stdin: stdin.to_owned(),
            reuse: None,
        })
    }

    fn outcome(&self, output: &TurnOutput<'_>) -> io::Result<TurnEnd> {
        let line = last_line(output.stdout, output.stdout_bytes)?;
        let Ok(line) = serde_json::from_str::<LastLine>(&line) else {
            let message = match output.exit_code {
                Some(code) => format!("the program exited with code {code} and without an answer"),
                None => "the program was killed".to_owned(),
            };
            let class = FailureClass::Other;
            let outcome = Outcome::Failed(Failure { class, message });
            return Ok(TurnEnd { outcome, spent: Spent::default(), total: None });
        };
        let spent = Spent {
            cost_usd: line.cost_usd,
            tokens: Tokens {
                input: line.input_tokens,
                output: line.output_tokens,
                ..Tokens::default()
            },
            model: line.model,
            ..Spent::default()
        };
        let outcome = match line.result {
            Some(text) => Outcome::Reply { text },
            None => Outcome::Failed(Failure {
                class: class(line.class.as_deref(), line.resets_at),
                message: line.error.unwrap_or_else(|| "the program gave no answer".to_owned()),
            }),
        };
        Ok(TurnEnd { outcome, spent, total: None })
    }
}

fn class(name: Option<&str>, resets_at: Option<u64>) -> FailureClass {
    match name {
        Some("transient") => FailureClass::Transient,
        Some("usage_limit") => FailureClass::UsageLimit { resets_at },
        Some("budget") => FailureClass::Budget,
        Some("authentication") => FailureClass::Authentication,
        Some("unknown_model") => FailureClass::UnknownModel,
        Some("session_missing") => FailureClass::SessionMissing,
        Some("refused") => FailureClass::Refused,
        _ => FailureClass::Other,
    }
}

/// The last line that is not empty, however much was printed before it.
fn last_line(path: &Path, bytes: u64) -> io::Result<String> {
    let mut file = crate::regular::open(path)?;
    let length = file.metadata()?.len().min(bytes);
    let start = length.saturating_sub(LAST_LINE_BYTES_MAX);
    file.seek(SeekFrom::Start(start))?;
    let mut bytes = Vec::new();
    io::Read::read_to_end(&mut io::Read::take(file, length - start), &mut bytes)?;
    let text = String::from_utf8_lossy(&bytes);
    Ok(text.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default().to_owned())
}
