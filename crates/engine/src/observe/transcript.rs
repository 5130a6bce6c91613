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
    exec::step::{HowEnded, StepFolder, StepState},
    observe::answers,
    store::layout::RunFiles,
    trust::regular,
};

/// The longest line that is read. What a tool printed is one line, and is shown in part only.
const LINE_BYTES_MAX: usize = 16 * 1024 * 1024;
/// What is read at once.
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
    /// How many bytes of that line are too many.
    left_out: usize,
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
            left_out: 0,
            last: None,
            is_over: false,
        }
    }

    /// Whether the step has no files: it has not begun, or its files were removed.
    pub fn is_empty(&self) -> bool {
        !self.folder.path().exists()
    }

    /// Whether everything of the step was told.
    pub fn is_over(&self) -> bool {
        self.is_over
    }

    /// What is new since the last time. After the step's end, its answer is the last entry.
    pub fn more(&mut self, agents: &Agents) -> io::Result<Vec<Entry>> {
        let mut entries = Vec::new();
        loop {
            let (some, is_all) = self.some(agents)?;
            entries.extend(some);
            if is_all {
                return Ok(entries);
            }
        }
    }

    /// A part of what is new, and whether that is all of it: for a reader with little memory.
    pub fn some(&mut self, agents: &Agents) -> io::Result<(Vec<Entry>, bool)> {
        if self.is_over || self.is_empty() {
            return Ok((Vec::new(), true));
        }
        // Before reading, so that the output up to the end is read afterwards.
        let state = self.folder.state()?;
        let Some(turn) = self.turn.clone() else {
            return Ok((self.script(&state)?, true));
        };
        let mut entries = Vec::new();
        let Ok(agent) = agents.for_turn(&turn) else {
            return Ok((entries, true));
        };
        if state == StepState::Unclaimed {
            // Its prompt may be half written. It is complete before the step can be claimed.
            return Ok((entries, true));
        }
        if self.reader.is_none() {
            let stdin = self.folder.prompt();
            match regular::read(&stdin, PROMPT_BYTES_MAX) {
                Ok(text) => {
                    let text = agent.prompt_text(&String::from_utf8_lossy(&text));
                    entries.push(Entry::Prompt { text });
                }
                // The step was forbidden before it had one.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
            self.reader = Some(agent.transcript(&stdin, self.folder.is_first()));
        }
        let (new, is_all) = self.output(&state)?;
        entries.extend(new);
        if !is_all {
            return Ok((entries, false));
        }
        if !matches!(state, StepState::Running(_) | StepState::Unclaimed) {
            self.is_over = true;
            let outcome = match state {
                StepState::Ended(_) => answers::outcome(&self.files, &self.id, &turn, agents)?,
                _ => None,
            };
            entries.extend(self.answer(outcome));
        }
        Ok((entries, true))
    }

    /// The entries in the next chunk of what the turn has printed, and whether that was the last one.
    fn output(&mut self, state: &StepState) -> io::Result<(Vec<Entry>, bool)> {
        let mut entries = Vec::new();
        let Some((mut file, end)) = self.open(state)? else {
            return Ok((entries, true));
        };
        let mut chunk = Vec::new();
        let left = end.map_or(CHUNK_BYTES, |end| end.saturating_sub(self.read).min(CHUNK_BYTES));
        let length = (&mut file).take(left).read_to_end(&mut chunk)?;
        self.read += length as u64;
        for piece in chunk.split_inclusive(|byte| *byte == b'\n') {
            if self.partial.len() + piece.len() <= LINE_BYTES_MAX {
                self.partial.extend_from_slice(piece);
            } else {
                self.left_out += piece.len();
            }
            if piece.ends_with(b"\n") {
                for entry in self.line() {
                    // Held back: the last text of a turn is its answer.
                    entries.extend(self.last.take());
                    match entry {
                        text @ Entry::Text { .. } => self.last = Some(text),
                        other => entries.push(other),
                    }
                }
            }
        }
        Ok((entries, (length as u64) < CHUNK_BYTES))
    }

    /// The entries of the line that is complete now.
    fn line(&mut self) -> Vec<Entry> {
        let line = std::mem::take(&mut self.partial);
        let left_out = std::mem::take(&mut self.left_out);
        if left_out > 0 {
            let bytes = line.len() + left_out;
            return vec![Entry::Note { text: format!("a line of {bytes} bytes is not shown") }];
        }
        let reader = self.reader.as_mut();
        reader.map(|reader| reader.line(&line)).unwrap_or_default()
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

/// A file of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepFile {
    /// What a turn was given.
    Prompt,
    /// What the step printed.
    Stdout,
    /// What it complained about.
    Stderr,
}

impl StepFile {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Prompt, Self::Stdout, Self::Stderr];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Prompt => "prompt",
            Self::Stdout => "stdout",
            Self::Stderr => "stderr",
        }
    }

    /// The open file of step `id`, where its content begins, and how many bytes that is; `None` if it is not there. Of a
    /// process that had several turns, it is the part of this one.
    pub fn open(self, files: &RunFiles, id: &StepId) -> io::Result<Option<(File, u64, u64)>> {
        let folder = StepFolder::new(&files.steps, id);
        let (start, path, end) = match self {
            Self::Prompt => (0, folder.prompt(), None),
            Self::Stderr => (0, folder.stderr(), None),
            Self::Stdout => match (folder.state()?, folder.output_is_at()) {
                (StepState::Ended(record), _) => (0, folder.stdout(), Some(record.stdout_bytes)),
                (_, Some((offset, path))) => (offset, path, None),
                _ => (0, folder.stdout(), None),
            },
        };
        let file = match regular::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let length = file.metadata()?.len();
        let size = end.map_or(length, |end| end.min(length)).saturating_sub(start);
        Ok(Some((file, start, size)))
    }
}

/// What a turn cost, for the end of its transcript.
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
        HowEnded::NotUnderstood => Some("printed nothing that is understood; killed".to_owned()),
        HowEnded::Interrupted => Some("interrupted".to_owned()),
        HowEnded::NotRun(why) | HowEnded::NotRunNow(why) => Some(format!("not started: {why}")),
        HowEnded::Forbidden => Some("never started".to_owned()),
    }
}

#[cfg(test)]
mod tests;
