//! Asks the user on the terminal of the run, when only an answer can advance the run.
//!
//! A thread of its own asks one question after the other, so that the run loop continues. Another one reads standard
//! input, because a read cannot be cancelled: when a question is answered elsewhere meanwhile, the line that is typed
//! next is not an answer to it. The thread answers as any other process does, through the question's directory.
//! Ctrl-C interrupts the run and leaves the question open; the end of standard input is never an answer.

use std::{
    io::{self, BufRead as _, Read as _},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        mpsc::{self, Receiver, RecvTimeoutError},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use raymond_engine::{
    asks::{self, AnswerError, PublishedQuestion, Reply},
    run::events::{Event, Observer, Seen},
    store::layout::StateDir,
};
use raymond_flow::id::RunId;

use crate::{
    cli::commands::user,
    line::Line,
    out,
    report::{Next, asked_lines, question_lines, warning},
};

/// The longest line that is read. More belongs into a file: `raymond answer --text -`.
const LINE_BYTES_MAX: u64 = 64 * 1024;
/// How often the asking thread looks whether its question is still open.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);

/// Watches for questions and asks them.
pub(crate) struct Asker {
    shared: Arc<SharedAsking>,
    /// Whether the user is at a terminal. If not, questions are only shown, with the commands that answer them.
    can_ask: bool,
    thread: Option<JoinHandle<()>>,
}

/// What the observer and the asking thread share.
struct SharedAsking {
    state_dir: StateDir,
    next: Next,
    state: Mutex<Asking>,
}

#[derive(Default)]
struct Asking {
    open: Vec<PublishedQuestion>,
    /// Whether a thread asks.
    has_thread: bool,
    /// Whether the asking thread must end.
    is_over: bool,
    /// Lines from standard input, once the user was asked.
    lines: Option<Receiver<String>>,
    /// Whether standard input has ended.
    is_closed: bool,
}

impl Asker {
    pub(crate) fn new(state_dir: StateDir, next: Next) -> Self {
        let shared = Arc::new(SharedAsking { state_dir, next, state: Mutex::default() });
        Self { shared, can_ask: out::can_ask(), thread: None }
    }

    /// Begins to ask, if the user is at a terminal. A running thread also asks new questions.
    fn begin(&mut self) {
        {
            let mut state = self.shared.lock();
            if state.has_thread {
                return;
            }
            state.has_thread = self.can_ask && !state.is_closed;
            state.is_over = false;
            if !state.has_thread {
                drop(state);
                return self.shared.show_all();
            }
        }
        self.end();
        self.shared.lock().is_over = false;
        let shared = Arc::clone(&self.shared);
        out::prompt(true);
        if let Ok(thread) = thread::Builder::new().spawn(move || shared.ask_all()) {
            self.thread = Some(thread);
        } else {
            self.shared.lock().has_thread = false;
            out::prompt(false);
            self.shared.show_all();
        }
    }

    fn end(&mut self) {
        self.shared.lock().is_over = true;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Observer for Asker {
    fn see(&mut self, Seen { event, .. }: &Seen) {
        match event {
            Event::Asked { question, .. } => self.shared.lock().open.push((**question).clone()),
            Event::Recorded { record, .. } => {
                if let Some((id, _)) = record.answered() {
                    let id = id.to_string();
                    self.shared.lock().open.retain(|question| question.id != id);
                } else if record.halts() {
                    // Nothing more is asked, and the terminal belongs to the summary.
                    self.end();
                }
            }
            Event::WaitsForPeople => self.begin(),
            _ => {}
        }
    }
}

impl Drop for Asker {
    fn drop(&mut self) {
        self.end();
    }
}

impl SharedAsking {
    fn lock(&self) -> MutexGuard<'_, Asking> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The question, with a mark at each file that is no longer as it was asked.
    fn checked(&self, question: &PublishedQuestion) -> PublishedQuestion {
        let mut checked = question.clone();
        asks::check_attachments(&self.state_dir, self.run(), &mut checked);
        checked
    }

    fn run(&self) -> &RunId {
        &self.next.id
    }

    /// Shows every open question with the command that answers it.
    fn show_all(&self) {
        let mut people = out::people();
        for question in &self.lock().open {
            for line in question_lines(&self.checked(question), &self.next) {
                people.line(&line);
            }
        }
    }

    /// Asks one question after the other, including those that arrive meanwhile.
    fn ask_all(&self) {
        loop {
            let question = {
                let mut state = self.lock();
                let is_over = state.is_over || state.is_closed;
                let question = state.open.first().filter(|_| !is_over).cloned();
                // Under the same lock: a question that arrives later starts another thread.
                state.has_thread = question.is_some();
                question
            };
            let Some(question) = question else { break };
            self.ask(&question);
        }
        out::prompt(false);
    }

    fn ask(&self, question: &PublishedQuestion) {
        let mut people = out::people();
        people.line(&Line::new());
        for line in asked_lines(&self.checked(question)) {
            people.line(&line);
        }
        // What was typed before the question was shown is no answer to it.
        if let Some(lines) = &self.lock().lines {
            lines.try_iter().for_each(drop);
        }
        loop {
            out::invite(&match question.choices.len() {
                0 => "Answer: ".to_owned(),
                1 => "Answer [1, and a comment if you like]: ".to_owned(),
                most => format!("Answer [1-{most}, and a comment if you like]: "),
            });
            let Some(line) = self.line(question) else { return };
            let Some((result, comment)) = read(question, &line) else {
                let text = format!("type a number from 1 to {}", question.choices.len());
                people.line(&warning(&text));
                continue;
            };
            let how = "terminal".to_owned();
            let reply = Reply { result, comment, by: user(), how, ..Reply::default() };
            match self.give(question, &reply) {
                Ok(()) => return,
                Err(error @ AnswerError::Answered { .. }) => {
                    people.line(&warning(&error.to_string()));
                    return;
                }
                Err(error) => people.line(&warning(&error.to_string())),
            }
        }
    }

    fn give(&self, question: &PublishedQuestion, reply: &Reply) -> Result<(), AnswerError> {
        if let Some(id) = question.ask_id() {
            asks::answer(&self.state_dir, self.run(), &id, reply)?;
        }
        self.lock().open.retain(|open| open.id != question.id);
        Ok(())
    }

    /// The next line that is typed. `None` if the question is answered elsewhere, asking has ended, or
    /// standard input has ended.
    fn line(&self, question: &PublishedQuestion) -> Option<String> {
        let lines = self.lock().lines.take().unwrap_or_else(read_lines);
        let line = loop {
            match lines.recv_timeout(LOOK_INTERVAL) {
                Ok(line) => break Some(line),
                Err(RecvTimeoutError::Timeout) => {
                    let state = self.lock();
                    let is_open = state.open.iter().any(|open| open.id == question.id);
                    if state.is_over || !is_open {
                        break None;
                    }
                }
                Err(RecvTimeoutError::Disconnected) => {
                    self.lock().is_closed = true;
                    break None;
                }
            }
        };
        out::end_invitation();
        if line.is_none() {
            // The cursor is behind the invitation.
            out::note("");
        }
        let is_closed = {
            let mut state = self.lock();
            state.lines = Some(lines);
            state.is_closed
        };
        if is_closed {
            out::note("Standard input has ended. The question stays open.");
            self.show_all();
        }
        line
    }
}

/// The result and the comment in a line; `None` if it begins with neither a key nor a label.
fn read(question: &PublishedQuestion, line: &str) -> Option<(String, String)> {
    let line = line.trim();
    if question.choices.is_empty() {
        return Some((line.to_owned(), String::new())).filter(|(text, _)| !text.is_empty());
    }
    let labels = || question.choices.iter().map(|choice| choice.label.as_str());
    if let Some(label) = labels().find(|label| *label == line) {
        return Some((label.to_owned(), String::new()));
    }
    let (key, comment) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let by_key = key.parse::<usize>().ok().and_then(|key| labels().nth(key.checked_sub(1)?));
    let label = by_key.or_else(|| labels().find(|label| *label == key))?;
    Some((label.to_owned(), comment.trim().to_owned()))
}

/// The lines of standard input. The thread that reads them ends with standard input or with the program.
fn read_lines() -> Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    let reads = thread::Builder::new().spawn(move || {
        loop {
            let mut line = Vec::new();
            let read = io::stdin().lock().take(LINE_BYTES_MAX).read_until(b'\n', &mut line);
            let text = String::from_utf8_lossy(&line).into_owned();
            if !matches!(read, Ok(1..)) || sender.send(text).is_err() {
                return;
            }
        }
    });
    // Without a thread the receiver is closed, as at the end of standard input.
    drop(reads);
    receiver
}

#[cfg(test)]
mod tests {
    use super::*;

    fn question(labels: &[&str]) -> PublishedQuestion {
        let choices = labels.iter().map(|label| format!("{{\"label\":{label:?},\"to\":\"A\"}}"));
        let choices = choices.collect::<Vec<_>>().join(",");
        let json = format!(
            "{{\"id\":\"main.1\",\"run\":\"r\",\"attachments\":[],\"state\":\"A.md\",\"text\":\"?\",\"choices\":[{choices}],\"asked_at_ms\":1}}"
        );
        serde_json::from_str(&json).unwrap()
    }

    #[test]
    fn choice_is_made_by_its_key_or_its_label_and_a_comment_may_follow() {
        let both = question(&["approve", "send back"]);
        let read = |line: &str| read(&both, line).map(|(result, comment)| result + ":" + &comment);
        assert_eq!(read("1\n").as_deref(), Some("approve:"));
        assert_eq!(read(" 2  too long \n").as_deref(), Some("send back:too long"));
        assert_eq!(read("send back").as_deref(), Some("send back:"));
        assert_eq!(read("approve but gently").as_deref(), Some("approve:but gently"));
        for nonsense in ["", "0", "3", "yes", "-1"] {
            assert_eq!(read(nonsense), None, "{nonsense}");
        }
    }

    #[test]
    fn text_is_the_answer_where_there_are_no_choices() {
        let free = question(&[]);
        assert_eq!(read(&free, " the old one\n"), Some(("the old one".to_owned(), String::new())));
        assert_eq!(read(&free, " \n"), None);
    }
}
