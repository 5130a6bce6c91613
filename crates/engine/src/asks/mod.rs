//! Questions to people, as files that any process of the same user can read and answer.
//!
//! ```text
//! workflows/ID/asks/AGENT.NUMBER/     only its owner can enter it
//!     question                        what is asked, one JSON object
//!     attachments/1_plan.md           the files that are shown, as they were when it was asked
//!     answer                          the answer, one JSON object
//!     files/…/photo.png               the files that were handed over with the answer
//! ```
//!
//! A question gets its name when it and its attachments are complete and durable. An answer is written aside,
//! made durable and then given its name, which can succeed only once: if several people, the deadline and a
//! cancel compete, exactly one of them answers, and a kill at any moment does not change that. The caller gets
//! the confirmation after that. The orchestrator is told through its door, and finds the answer by itself when
//! it opens the run, so a question can be answered while no orchestrator runs the run.
//!
//! * [`open_questions`], [`question`], [`wait_for_files`], [`answer`]: for programs that show and answer questions.
//! * `desk`: the orchestrator's side: publishing, deadlines, finding answers.
//! * `folder`: the directory of one question; `attached`: copying files into it.

mod attached;
mod desk;
mod folder;
#[cfg(test)]
mod tests;

use std::{
    fs::File,
    io,
    path::PathBuf,
    thread,
    time::{Duration, Instant},
};

use raymond_flow::{
    id::{AskId, RunId},
    machine::TIMEOUT,
};
use thiserror::Error;

use crate::{
    run::door,
    store::{layout::StateDir, lock::RunLock},
    sys::clock,
    trust::TrustError,
};

pub(crate) use attached::check as check_attachment;
pub use desk::Answerer;
pub(crate) use desk::{Desk, Publication};
use folder::{AskFolder, GiveOutcome};
pub use folder::{GivenAnswer, OfferedAnswer, PublishedQuestion, ShownFile};

/// The name in `how` of the answer that closes a question because its run was cancelled.
pub const CANCELLED: &str = "cancelled";
/// The name in `how` of a file that is in the place of an answer and cannot be read as one.
pub const UNREADABLE: &str = "unreadable";
/// The name in `how` of the answer that a person gives through `raymond serve`.
pub const PAGE: &str = "page";

/// The longest answer or comment: a person writes it, and a prompt takes it up.
pub const TEXT_BYTES_MAX: usize = 1024 * 1024;

/// How long the files of a question may take, and how often they are looked for.
const PUBLISH_PATIENCE: Duration = Duration::from_secs(5);
const PUBLISH_INTERVAL: Duration = Duration::from_millis(20);

/// An answer that a person or the orchestrator offers; [`GivenAnswer`] is the one that counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reply {
    /// The label of a choice, or the text where there are no choices.
    pub result: String,
    /// What is said beside a choice; empty if nothing is.
    pub comment: String,
    /// Files to hand over.
    pub files: Vec<PathBuf>,
    /// Who answers.
    pub by: String,
    /// How: one word such as `command`.
    pub how: String,
}

/// Who was first; a cancel answers nothing.
fn told(first: &GivenAnswer) -> String {
    let GivenAnswer { result, by, how, .. } = first;
    if how == CANCELLED {
        return "was closed: its run was cancelled".to_owned();
    }
    let result = if result.is_empty() { String::new() } else { format!(": {result}") };
    format!("was already answered by {by} ({how}){result}")
}

/// Why an answer was not taken.
#[derive(Debug, Error)]
pub enum AnswerError {
    /// The question already has an answer.
    #[error("question {id} {}", told(first))]
    Answered {
        /// The question.
        id: AskId,
        /// The answer that counts.
        first: Box<GivenAnswer>,
    },
    /// There is no such question.
    #[error("run `{run}` has asked no question {id}")]
    NoSuchQuestion {
        /// The run.
        run: RunId,
        /// The question.
        id: AskId,
    },
    /// Not one of the choices.
    #[error("`{result}` is not one of the choices: {}", labels.join(", "))]
    NotAChoice {
        /// What was answered.
        result: String,
        /// What can be.
        labels: Vec<String>,
    },
    /// Nothing at all.
    #[error("the answer is empty")]
    Empty,
    /// A comment on a question whose answer is a text.
    #[error(
        "the question has no choices, so the text is the answer itself and there is no comment"
    )]
    NoComment,
    /// More than fits.
    #[error("the answer has {bytes} bytes, more than the {TEXT_BYTES_MAX} that are taken")]
    TooLong {
        /// How many.
        bytes: usize,
    },
    /// A file that cannot be handed over.
    #[error("cannot hand over {}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file that the question shows is no longer what was asked about.
    #[error("question {id} cannot be answered: its attachment `{path}` is not as it was asked")]
    Attachment {
        /// The question.
        id: AskId,
        /// The path of the file, as the question names it.
        path: String,
        /// Why.
        source: io::Error,
    },
    /// The state directory is not, or not only, the user's own.
    #[error(transparent)]
    Trust(#[from] TrustError),
    /// The file system failed.
    #[error("cannot write the answer to {}", path.display())]
    Io {
        /// Where.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// Waits for the files of questions that the run has recorded. The orchestrator completes them a moment after the record,
/// in which other processes already show the question. Returns also without them: if no orchestrator runs the run, or
/// when the files take too long.
pub fn wait_for_files(state_dir: &StateDir, run: &RunId, recorded: &[AskId]) {
    let files = state_dir.run(run);
    let deadline = Instant::now() + PUBLISH_PATIENCE;
    for id in recorded {
        let folder = AskFolder::new(&files.asks, id);
        while matches!(folder.question(), Ok(None))
            && RunLock::holder(&files.lock).is_some()
            && Instant::now() < deadline
        {
            thread::sleep(PUBLISH_INTERVAL);
        }
    }
}

/// The unanswered questions of a run, oldest first. Questions that cannot be read are left out.
pub fn open_questions(state_dir: &StateDir, run: &RunId) -> io::Result<Vec<PublishedQuestion>> {
    let mut open = Vec::new();
    let asks = state_dir.run(run).asks;
    for folder in AskFolder::all(&asks)? {
        if folder.answer()?.is_some_and(|answer| answer.how != UNREADABLE) {
            continue;
        }
        let question = folder.question().ok().flatten();
        // A question that was moved aside keeps its id, but not its directory.
        let is_there = |question: &PublishedQuestion| {
            question.ask_id().is_some_and(|id| AskFolder::new(&asks, &id).path() == folder.path())
        };
        open.extend(question.filter(is_there));
    }
    open.sort_by_key(|question| question.asked_at_ms);
    Ok(open)
}

/// The answer that was given last to a question of a run.
pub fn last_answer(state_dir: &StateDir, run: &RunId) -> io::Result<Option<(AskId, GivenAnswer)>> {
    let mut last = None;
    for folder in AskFolder::all(&state_dir.run(run).asks)? {
        let answer = folder.answer()?.filter(|answer| answer.how != UNREADABLE);
        let Some(answer) = answer else { continue };
        let Some(id) = folder.question().ok().flatten().and_then(|question| question.ask_id())
        else {
            continue;
        };
        if last.as_ref().is_none_or(|(_, known): &(_, GivenAnswer)| known.at_ms <= answer.at_ms) {
            last = Some((id, answer));
        }
    }
    Ok(last)
}

/// One question of a run, and its answer if it has one. `None` if there is no such question.
pub fn question(
    state_dir: &StateDir,
    run: &RunId,
    id: &AskId,
) -> io::Result<Option<(PublishedQuestion, Option<GivenAnswer>)>> {
    let folder = AskFolder::new(&state_dir.run(run).asks, id);
    let Some(question) = folder.question()? else { return Ok(None) };
    let answer = folder.answer()?.filter(|answer| answer.how != UNREADABLE);
    Ok(Some((question, answer)))
}

/// Opens the copy of an attachment, to look at it. Only files in the directory of the question are opened, whatever
/// its file says.
pub fn open_attachment(
    state_dir: &StateDir,
    run: &RunId,
    id: &AskId,
    file: &ShownFile,
) -> io::Result<File> {
    AskFolder::new(&state_dir.run(run).asks, id).attachment(file)
}

/// The bytes of an attachment, as they were when the question was asked: a copy that has changed since is an error.
pub fn attachment(
    state_dir: &StateDir,
    run: &RunId,
    id: &AskId,
    file: &ShownFile,
) -> io::Result<Vec<u8>> {
    attached::read_unchanged(open_attachment(state_dir, run, id, file)?, &file.sha256)
}

/// Marks the attachments whose copies are no longer what was asked about, so that nobody takes them for it.
pub fn check_attachments(state_dir: &StateDir, run: &RunId, question: &mut PublishedQuestion) {
    let Some(id) = question.ask_id() else { return };
    for file in question.attachments.iter_mut().filter(|file| file.error.is_none()) {
        file.error = attachment(state_dir, run, &id, file).err().map(|error| error.to_string());
    }
}

/// Answers a question, whether or not an orchestrator runs the run. When this returns, the answer is durable
/// and is the one that counts.
pub fn answer(
    state_dir: &StateDir,
    run: &RunId,
    id: &AskId,
    reply: &Reply,
) -> Result<GivenAnswer, AnswerError> {
    let files = state_dir.run(run);
    state_dir.check_run(&files)?;
    let folder = AskFolder::new(&files.asks, id);
    let io = |source| AnswerError::Io { path: folder.path().to_owned(), source };
    let no_such = || AnswerError::NoSuchQuestion { run: run.clone(), id: id.clone() };
    let question = folder.question().map_err(io)?.ok_or_else(no_such)?;
    let answered = |first| AnswerError::Answered { id: id.clone(), first: Box::new(first) };
    // Checked first: the error of an invalid reply must not be that it came too late.
    check(&question, reply)?;
    // What Raymond did not write is no answer.
    let is_none = |answer: &GivenAnswer| answer.how == UNREADABLE;
    if folder.answer().map_err(io)?.as_ref().is_some_and(is_none) {
        folder.reject(is_none).map_err(io)?;
    }
    if let Some(first) = folder.answer().map_err(io)? {
        return Err(answered(first));
    }
    // After the deadline the default is the answer, also if the run will be opened only later.
    if let (Some(deadline), Some(default)) = (question.deadline_ms, &question.default)
        && deadline <= clock::now_ms()
    {
        let (GiveOutcome::Taken(first) | GiveOutcome::Given(first)) =
            folder.give(&desk::automatic(default, TIMEOUT))?;
        return Err(answered(first));
    }
    for file in question.attachments.iter().filter(|file| file.error.is_none()) {
        let (id, path) = (id.clone(), file.path.clone());
        attachment(state_dir, run, &id, file).map_err(|source| AnswerError::Attachment {
            id: id.clone(),
            path,
            source,
        })?;
    }
    match folder.give(reply)? {
        GiveOutcome::Taken(first) => Err(answered(first)),
        GiveOutcome::Given(given) => {
            // If this process is killed first, the orchestrator finds the answer by itself.
            door::tell_answered(&files.folder, &question.run, id);
            Ok(given)
        }
    }
}

/// Checks that `reply` answers `question`.
fn check(question: &PublishedQuestion, reply: &Reply) -> Result<(), AnswerError> {
    let bytes = reply.result.len().max(reply.comment.len());
    if bytes > TEXT_BYTES_MAX {
        return Err(AnswerError::TooLong { bytes });
    }
    if question.choices.is_empty() {
        return match (reply.result.trim().is_empty(), reply.comment.is_empty()) {
            (true, _) => Err(AnswerError::Empty),
            (false, false) => Err(AnswerError::NoComment),
            (false, true) => Ok(()),
        };
    }
    let labels = || question.choices.iter().map(|choice| choice.label.clone()).collect();
    if question.choices.iter().any(|choice| choice.label == reply.result) {
        Ok(())
    } else {
        Err(AnswerError::NotAChoice { result: reply.result.clone(), labels: labels() })
    }
}
