//! The directory of one question.

use std::{
    fs::{self, File},
    io,
    path::{Path, PathBuf},
};

use raymond_flow::{
    id::{AskId, StateName, StepId},
    machine::{Attachment, Response},
    policy::Question,
};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use super::{
    AnswerError, Reply, UNREADABLE,
    attached::{self, copy_name},
};
use crate::{
    exec::step::step_name,
    sys,
    sys::clock,
    trust::{private, regular, seal},
};

const QUESTION: &str = "question";
const ANSWER: &str = "answer";
const ATTACHMENTS: &str = "attachments";
const FILES: &str = "files";
/// What the seals of questions and answers are for.
const QUESTION_SEAL: &str = "question";
const ANSWER_SEAL: &str = "answer";

/// The largest question or answer as JSON: a text whose every byte is escaped.
const BYTES_MAX: u64 = 16 * 1024 * 1024;

/// A question as its directory holds it. Fields may be added with defaults, nothing else changes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PublishedQuestion {
    /// The agent and the number, as in `main.1`.
    pub id: String,
    /// What tells the run from any other of the same id.
    pub run: String,
    /// The state that asks.
    pub state: StateName,
    /// The question.
    pub text: String,
    /// Whether a coding agent asks for a permission.
    #[serde(default)]
    pub is_permission: bool,
    /// The answers that can be chosen; with none, the answer is a free text.
    pub choices: Vec<OfferedAnswer>,
    /// Where a free text leads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<StateName>,
    /// The files that are shown.
    pub attachments: Vec<ShownFile>,
    /// The answer when the time is up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<String>,
    /// When it was asked, in milliseconds since 1970.
    pub asked_at_ms: u64,
    /// When the time is up, in milliseconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline_ms: Option<u64>,
}

/// An answer that can be chosen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OfferedAnswer {
    /// What is chosen.
    pub label: String,
    /// The state to which it leads.
    pub to: StateName,
}

/// A file that is shown with a question.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShownFile {
    /// Its path below the directory of the agent that asks.
    pub path: String,
    /// The absolute path of the copy that was made when the question was asked.
    pub copy: String,
    /// How large it was.
    pub bytes: u64,
    /// The SHA-256 of its bytes; empty if it could not be copied.
    pub sha256: String,
    /// Why it could not be copied, if so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

impl ShownFile {
    /// The name of its copy, which is also its name among the attachments of the question.
    pub fn name(&self) -> String {
        let name = Path::new(&self.copy).file_name();
        name.map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
    }
}

/// An answer as the directory of its question holds it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GivenAnswer {
    /// The label of a choice, or the text.
    pub result: String,
    /// What was said beside a choice.
    pub comment: String,
    /// The absolute path of the directory with the files that were handed over, empty if there are none. `None`
    /// if no person gave the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub files: Option<String>,
    /// Who answered.
    pub by: String,
    /// How.
    pub how: String,
    /// When, in milliseconds since 1970.
    pub at_ms: u64,
}

/// The result of giving an answer.
#[derive(Debug)]
pub(super) enum GiveOutcome {
    /// This answer counts.
    Given(GivenAnswer),
    /// This earlier answer counts instead.
    Taken(GivenAnswer),
}

/// The directory of one question.
#[derive(Clone, Debug)]
pub(super) struct AskFolder {
    path: PathBuf,
}

impl AskFolder {
    /// The directory of question `id` below `asks`.
    pub(super) fn new(asks: &Path, id: &AskId) -> Self {
        // Named like the directory of a step, which has the same parts.
        let AskId { agent, number } = id.clone();
        Self { path: asks.join(step_name(&StepId { agent, number })) }
    }

    /// Every directory below `asks`.
    pub(super) fn all(asks: &Path) -> io::Result<Vec<Self>> {
        match fs::read_dir(asks) {
            Ok(entries) => entries.map(|entry| Ok(Self { path: entry?.path() })).collect(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Opens the copy of an attachment.
    pub(super) fn attachment(&self, file: &ShownFile) -> io::Result<File> {
        regular::open_below(&self.path.join(ATTACHMENTS), Path::new(&file.name()))
    }

    /// The question, if it is published.
    /// One that Raymond did not write is none: what a person reads must be what was asked.
    pub(super) fn question(&self) -> io::Result<Option<PublishedQuestion>> {
        match read(QUESTION_SEAL, &self.path.join(QUESTION)) {
            Err(error) if is_malformed(&error) => Ok(None),
            read => read,
        }
    }

    /// What the seal of an answer is for: this very question, as it was asked at this moment.
    fn answer_seal(&self) -> io::Result<String> {
        let question = self.question()?;
        let asked = question.map(|asked| format!("{} {}", asked.run, asked.asked_at_ms));
        Ok(format!("{ANSWER_SEAL} {}", asked.unwrap_or_default()))
    }

    /// The answer, if there is one. A file that is none, which only another program can have written, is
    /// [`UNREADABLE`]: it keeps its place until the orchestrator, or who answers, moves it aside.
    pub(super) fn answer(&self) -> io::Result<Option<GivenAnswer>> {
        match read(&self.answer_seal()?, &self.path.join(ANSWER)) {
            Err(error) if is_malformed(&error) => Ok(Some(GivenAnswer {
                result: String::new(),
                comment: String::new(),
                files: None,
                by: "another program".to_owned(),
                how: UNREADABLE.to_owned(),
                at_ms: 0,
            })),
            read => read,
        }
    }

    /// The question as it was published, if the one that lies there is that. It may be an earlier one of this name, which a
    /// coding agent has kept together with its answer.
    pub(super) fn published(
        &self,
        name: (&str, &AskId, &StateName),
        question: &Question,
    ) -> io::Result<Option<PublishedQuestion>> {
        let wanted = unpublished(name, question, 0);
        Ok(self.question()?.filter(|found| is_same(found, &wanted)))
    }

    /// Publishes a question durably, unless it is published already. Returns it, and whether it is new. A question
    /// that another run of the same id, or a lost tail of the journal, left under this id is moved aside.
    pub(super) fn publish(
        &self,
        (run, id, state): (&str, &AskId, &StateName),
        question: &Question,
        cwd: &Path,
    ) -> io::Result<(PublishedQuestion, bool)> {
        let asked_at_ms = clock::now_ms();
        let wanted = unpublished((run, id, state), question, asked_at_ms);
        // A question that cannot be read was never completely published.
        if let Ok(Some(before)) = self.question() {
            if is_same(&before, &wanted) {
                return Ok((before, false));
            }
            let aside = format!("{}-{}", self.path.display(), uuid::Uuid::new_v4().simple());
            fs::rename(&self.path, aside)?;
        }
        private::create_dir_all(&self.path)?;
        let attachments = self.copy_attachments(&question.attach, cwd)?;
        let published = PublishedQuestion { attachments, ..wanted };
        let draft = self.path.join("question.draft");
        let path = self.path.join(QUESTION);
        private::write_durably(&draft, &seal::to_json(QUESTION_SEAL, &path, &published)?)?;
        fs::rename(&draft, path)?;
        self.sync()?;
        Ok((published, true))
    }

    fn copy_attachments(&self, paths: &[String], cwd: &Path) -> io::Result<Vec<ShownFile>> {
        if paths.is_empty() {
            return Ok(Vec::new());
        }
        let folder = self.path.join(ATTACHMENTS);
        private::create_dir_all(&folder)?;
        let mut shown = Vec::new();
        for (number, path) in (1..).zip(paths) {
            let to = folder.join(copy_name(number, path));
            let file = regular::open_below(cwd, Path::new(path));
            let copied = file.and_then(|file| attached::copy(file, &to));
            let (copy, path) = (to.to_string_lossy().into_owned(), path.clone());
            shown.push(match copied {
                Ok(attached::Copied { bytes, sha256 }) => {
                    ShownFile { path, copy, bytes, sha256, error: None }
                }
                // The run pauses, and the question is published when there is room.
                Err(error) if is_full(&error) => return Err(error),
                // The file existed when the tag was judged, and is gone now. The question is asked without it.
                Err(error) => {
                    let error = Some(error.to_string());
                    ShownFile { path, copy: String::new(), bytes: 0, sha256: String::new(), error }
                }
            });
        }
        sys::sync_folder(&folder)?;
        Ok(shown)
    }

    /// Gives an answer that was checked, unless the question has one. When this returns, the answer that counts is
    /// durable.
    pub(super) fn give(&self, reply: &Reply) -> Result<GiveOutcome, AnswerError> {
        let name = uuid::Uuid::new_v4().simple().to_string();
        let io = |source| AnswerError::Io { path: self.path.clone(), source };
        let files = self.path.join(FILES).join(&name);
        let draft = self.path.join(format!("{ANSWER}.{name}"));
        let discard = || {
            let _ = fs::remove_file(&draft);
            let _ = fs::remove_dir_all(&files);
        };
        // Also without files: the directory is named to scripts, and an empty name would make `"$RAYMOND_FILES"/*`
        // the files of the whole machine.
        let uploaded = attached::upload(&reply.files, &files);
        uploaded.map_err(|(path, source)| {
            discard();
            AnswerError::File { path, source }
        })?;
        let given = GivenAnswer {
            result: reply.result.clone(),
            comment: reply.comment.clone(),
            files: Some(files.to_string_lossy().into_owned()),
            by: reply.by.clone(),
            how: reply.how.clone(),
            at_ms: clock::now_ms(),
        };
        let purpose = self.answer_seal().map_err(io)?;
        let named = seal::to_json(&purpose, &self.path.join(ANSWER), &given)
            .and_then(|json| private::write_durably(&draft, &json))
            .and_then(|()| private::name_new(&draft, &self.path.join(ANSWER)));
        if named.is_err() {
            discard();
        }
        // Also if another answer was first: the caller must not learn of it before it is durable.
        let is_taken = match named {
            Ok(()) => false,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => true,
            Err(error) => return Err(io(error)),
        };
        self.sync().map_err(io)?;
        if !is_taken {
            return Ok(GiveOutcome::Given(given));
        }
        let first = self.answer().map_err(io)?;
        first.map(GiveOutcome::Taken).ok_or_else(|| io(io::ErrorKind::NotFound.into()))
    }

    /// Moves aside an answer that does not fit the question, so that a person can answer it. Of several processes that see
    /// it one does so: the others must not move the answer that came after it.
    pub(super) fn reject(&self, is_wrong: impl Fn(&GivenAnswer) -> bool) -> io::Result<()> {
        let question = regular::open(&self.path.join(QUESTION))?;
        sys::lock(&question)?;
        if !self.answer()?.as_ref().is_some_and(is_wrong) {
            return Ok(());
        }
        let aside = format!("{ANSWER}.rejected-{}", uuid::Uuid::new_v4().simple());
        fs::rename(self.path.join(ANSWER), self.path.join(aside))?;
        self.sync()
    }

    /// Makes the names in the directory, and its own, durable.
    fn sync(&self) -> io::Result<()> {
        sys::sync_folder(&self.path)?;
        for folder in self.path.ancestors().skip(1).take(2) {
            sys::sync_folder(folder)?;
        }
        Ok(())
    }
}

impl PublishedQuestion {
    /// The id of the question.
    pub fn ask_id(&self) -> Option<AskId> {
        AskId::parse(&self.id)
    }

    /// `answer` as the machine records it.
    pub(super) fn response(&self, answer: GivenAnswer) -> Response {
        let GivenAnswer { result, comment, files, by, how, at_ms } = answer;
        let attachments = self.attachments.iter().map(|shown| {
            let ShownFile { path, bytes, sha256, .. } = shown.clone();
            Attachment { path, bytes, sha256 }
        });
        Response { result, comment, files, by, how, at_ms, attachments: attachments.collect() }
    }
}

/// The question without its attachments.
fn unpublished(
    (run, id, state): (&str, &AskId, &StateName),
    question: &Question,
    asked_at_ms: u64,
) -> PublishedQuestion {
    let offered = question
        .choices
        .iter()
        .map(|choice| OfferedAnswer { label: choice.label.clone(), to: choice.target.clone() });
    PublishedQuestion {
        id: id.to_string(),
        run: run.to_owned(),
        state: state.clone(),
        text: question.text.clone(),
        is_permission: question.grants.is_some(),
        choices: offered.collect(),
        next: question.next.clone(),
        attachments: Vec::new(),
        default: question.default.clone(),
        asked_at_ms,
        deadline_ms: question.deadline_ms,
    }
}

/// Whether they are the same question. After a lost tail of the journal, the same question has another deadline.
fn is_same(before: &PublishedQuestion, wanted: &PublishedQuestion) -> bool {
    let plain = |question: &PublishedQuestion| PublishedQuestion {
        attachments: Vec::new(),
        asked_at_ms: 0,
        deadline_ms: None,
        ..question.clone()
    };
    plain(before) == plain(wanted)
}

/// Whether a file was read and is not what it should be: no JSON object, no regular file, too large.
fn is_malformed(error: &io::Error) -> bool {
    use io::ErrorKind::{FileTooLarge, InvalidData, InvalidInput, UnexpectedEof};
    matches!(error.kind(), FileTooLarge | InvalidData | InvalidInput | UnexpectedEof)
}

pub(super) fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

fn read<T: DeserializeOwned>(purpose: &str, path: &Path) -> io::Result<Option<T>> {
    match regular::read(path, BYTES_MAX) {
        Ok(bytes) => Ok(Some(seal::from_json(purpose, path, &bytes)?)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}
