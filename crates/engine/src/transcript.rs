//! The transcript of a step, read from its directory: for users, while the step runs and afterwards.
//!
//! The entries come from the coding agent ([`TranscriptReader`]); this module knows where the bytes are. A
//! process that is kept for several turns prints into the directory of its first one, from an offset on.
//! When a later turn ends, its part is copied into its own directory.

use std::{
    fs::File,
    io::{self, Read as _, Seek as _, SeekFrom},
};

use raymond_flow::{
    id::StepId,
    machine::{Action, Spent, Step, Turn},
    tag,
    text::excerpt,
    turn::Outcome,
};

use crate::{
    agent::{Agents, Entry, Stream, TranscriptReader},
    answers,
    layout::RunFiles,
    regular,
    step::{HowEnded, StepFolder, StepState},
};

/// The longest line that is read: no answer is that long.
const LINE_BYTES_MAX: usize = 64 * 1024 * 1024;
/// How much is read at once.
const CHUNK_BYTES: u64 = 1024 * 1024;
/// The longest prompt that is read.
const PROMPT_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// How much is read of a script's output.
const OUTPUT_BYTES_MAX: u64 = 64 * 1024;

/// The transcript of one step, as far as it was read.
pub struct Transcript {
    files: RunFiles,
    id: StepId,
    folder: StepFolder,
    turn: Option<Turn>,
    /// Created when the prompt file exists.
    reader: Option<Box<dyn TranscriptReader>>,
    /// The number of bytes read of the step's own output.
    read: u64,
    /// The beginning of a line that is not complete yet.
    partial: Vec<u8>,
    /// The last text, which may be the answer.
    last: Option<Entry>,
    is_over: bool,
}

impl std::fmt::Debug for Transcript {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Transcript").field("id", &self.id).finish_non_exhaustive()
    }
}

impl Transcript {
    /// The transcript of step `id` of the run with these files.
    pub fn new(files: &RunFiles, id: &StepId, step: &Step) -> Self {
        let turn = match &step.action {
            Action::Turn(turn) => Some(turn.clone()),
            Action::Script { .. } => None,
        };
        Self {
            files: files.clone(),
            folder: StepFolder::new(&files.steps, id),
            id: id.clone(),
            turn,
            reader: None,
            read: 0,
            partial: Vec::new(),
            last: None,
            is_over: false,
        }
    }

    /// Whether the step has no files: it has not begun, or its files were removed.
    pub fn is_empty(&self) -> bool {
        !self.folder.path().exists()
    }

    /// The entries since the last call. After the step's end, its answer is the last entry.
    pub fn more(&mut self, agents: &Agents) -> io::Result<Vec<Entry>> {
        if self.is_over || self.is_empty() {
            return Ok(Vec::new());
        }
        // Before reading, so that the output up to the end is read afterwards.
        let state = self.folder.state()?;
        let Some(turn) = self.turn.clone() else {
            return self.script(&state);
        };
        let mut entries = Vec::new();
        let Ok(agent) = agents.for_turn(&turn) else {
            return Ok(entries);
        };
        if self.reader.is_none() {
            let stdin = self.folder.prompt();
            let text = regular::read(&stdin, PROMPT_BYTES_MAX)?;
            let text = agent.prompt_text(&String::from_utf8_lossy(&text));
            entries.push(Entry::Prompt { text });
            self.reader = Some(agent.transcript(&stdin, self.folder.before()?.is_none()));
        }
        entries.extend(self.output(&state)?);
        if !matches!(state, StepState::Running(_) | StepState::Unclaimed) {
            self.is_over = true;
            let outcome = match state {
                StepState::Ended(_) => answers::outcome(&self.files, &self.id, &turn, agents)?,
                _ => None,
            };
            entries.extend(self.answer(outcome));
        }
        Ok(entries)
    }

    /// The entries in the output since the last call.
    fn output(&mut self, state: &StepState) -> io::Result<Vec<Entry>> {
        let mut entries = Vec::new();
        let Some((mut file, end)) = self.open(state)? else {
            return Ok(entries);
        };
        let mut chunk = Vec::new();
        loop {
            chunk.clear();
            let left =
                end.map_or(CHUNK_BYTES, |end| end.saturating_sub(self.read).min(CHUNK_BYTES));
            let length = (&mut file).take(left).read_to_end(&mut chunk)?;
            if length == 0 {
                return Ok(entries);
            }
            self.read += length as u64;
            for piece in chunk.split_inclusive(|byte| *byte == b'\n') {
                if self.partial.len() + piece.len() <= LINE_BYTES_MAX {
                    self.partial.extend_from_slice(piece);
                }
                if piece.ends_with(b"\n") {
                    let line = std::mem::take(&mut self.partial);
                    let reader = self.reader.as_mut();
                    let new = reader.map(|reader| reader.line(&line)).unwrap_or_default();
                    for entry in new {
                        // Held back: the last text of a turn is its answer.
                        entries.extend(self.last.take());
                        match entry {
                            text @ Entry::Text { .. } => self.last = Some(text),
                            other => entries.push(other),
                        }
                    }
                }
            }
        }
    }

    /// The output of the step from where it was read to, and the end of the step's own part, if that is known.
    fn open(&self, state: &StepState) -> io::Result<Option<(File, Option<u64>)>> {
        let (start, path, end) = match (state, self.folder.output_is_at()) {
            (StepState::Ended(record), _) => (0, self.folder.stdout(), Some(record.stdout_bytes)),
            (_, Some((offset, path))) => (offset, path, None),
            _ => (0, self.folder.stdout(), None),
        };
        let mut file = match regular::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        file.seek(SeekFrom::Start(start + self.read))?;
        Ok(Some((file, end)))
    }

    /// How the turn ended. Its last text is an entry only if it is not the answer.
    fn answer(&mut self, outcome: Option<Outcome>) -> Vec<Entry> {
        let last = self.last.take();
        let end = match outcome {
            Some(Outcome::Reply { text }) => {
                let tag = tag::parse(&text).ok();
                let tag = tag.and_then(|tag| tag.span.slice(&text).map(excerpt));
                Some(Entry::Answer { text, tag })
            }
            Some(Outcome::Failed(failure)) => Some(Entry::Failure { message: failure.message }),
            _ => Some(Entry::Failure { message: "the step left no answer".to_owned() }),
        };
        let is_said_again = |last: &Entry| match (last, &end) {
            (Entry::Text { text: last }, Some(Entry::Answer { text, .. })) => {
                last.trim() == text.trim()
            }
            _ => false,
        };
        last.filter(|last| !is_said_again(last)).into_iter().chain(end).collect()
    }

    /// The output of a script that has ended.
    fn script(&mut self, state: &StepState) -> io::Result<Vec<Entry>> {
        let StepState::Ended(record) = state else {
            self.is_over = !matches!(state, StepState::Running(_) | StepState::Unclaimed);
            return Ok(Vec::new());
        };
        self.is_over = true;
        let mut entries = Vec::new();
        for (stream, path) in
            [(Stream::Stdout, self.folder.stdout()), (Stream::Stderr, self.folder.stderr())]
        {
            entries.extend(printed(stream, &path)?);
        }
        entries.extend(trouble(&record.how).map(|message| Entry::Failure { message }));
        Ok(entries)
    }
}

/// The cost of a turn, for the end of its transcript.
pub fn cost(spent: &Spent) -> Entry {
    let Spent { cost_usd, duration_ms, model, .. } = spent.clone();
    Entry::Cost { usd: cost_usd, duration_ms, model }
}

/// The end of a script's output; `None` if it is empty.
fn printed(stream: Stream, path: &std::path::Path) -> io::Result<Option<Entry>> {
    let mut file = match regular::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let left_out = file.metadata()?.len().saturating_sub(OUTPUT_BYTES_MAX);
    file.seek(SeekFrom::Start(left_out))?;
    let mut bytes = Vec::new();
    file.take(OUTPUT_BYTES_MAX).read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes).into_owned();
    Ok((!text.is_empty()).then_some(Entry::Output { stream, text, left_out }))
}

/// What went wrong, from the way a script ended.
fn trouble(how: &HowEnded) -> Option<String> {
    match how {
        HowEnded::Code(0) => None,
        HowEnded::Code(code) => Some(format!("exit code {code}")),
        HowEnded::Signal(signal) => Some(format!("killed by signal {signal}")),
        HowEnded::TimedOut(seconds) => Some(format!("printed nothing for {seconds} s; killed")),
        HowEnded::Interrupted => Some("interrupted".to_owned()),
        HowEnded::NotRun(why) | HowEnded::NotRunNow(why) => Some(format!("not started: {why}")),
        HowEnded::Forbidden => Some("never started".to_owned()),
    }
}
