//! Errors for the user: what failed, where, and what to do next. For programs the same as JSON.

use std::{env, error::Error, fs, io, path::Path, process::ExitCode};

use raymond_engine::{
    EngineError, Loaded, load,
    run::mirror::Origin,
    store::{
        journal::JournalError,
        layout::StateDir,
        lock::LockError,
        scope::{ArchiveError, PackError, ScopeError, ScopeSource, is_packed, is_yaml},
    },
    trust::{TRUST_VARIABLE, TrustError},
};
use raymond_flow::{
    id::{RunId, RunIdError, StateName},
    machine::Status,
    scope::{ENTRY_STEMS, EntryError},
    source::{Platform, StateKind},
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::{
    cli::mistyped,
    line::{Line, Style},
    out, quote,
    report::{Next, near},
};

/// An error for the user, and what programs decide by. `docs/operations.md` describes its JSON.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Failure {
    kind: FailureKind,
    message: String,
    /// What to do next, each on one line.
    hints: Vec<String>,
    exit_code: u8,
}

/// Who can do something about a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum FailureKind {
    /// The command line, or what was given with it, is wrong.
    Usage,
    /// There is no such run, question, agent or file.
    NotFound,
    /// The run, the project or its settings do not allow it as they are now.
    Refused,
    /// It was attempted and failed, or files cannot be read.
    Failed,
}

/// The run failed, or could not be started.
const FAILED: u8 = 1;
/// The command line is wrong.
const USAGE: u8 = 2;
/// The option of the half of `--detach` in the background.
pub(crate) const DETACHED: &str = "--detached";
/// The most states that a hint names.
const NAMED_MAX: usize = 3;

impl Failure {
    fn new(kind: FailureKind, message: String, exit_code: u8) -> Self {
        Self { kind, message, hints: Vec::new(), exit_code }
    }

    /// An operation of the file system failed.
    pub(crate) fn io(what: &str, error: &io::Error) -> Self {
        let failure = Self::of_work(format!("cannot {what}: {error}"));
        failure.with_hint(io_hint(error.kind()))
    }

    /// An error with everything that led to it.
    pub(crate) fn of_error(error: &dyn Error) -> Self {
        Self::of_work(chain(error))
    }

    /// The command did not do all that it should.
    pub(crate) fn of_work(message: String) -> Self {
        Self::new(FailureKind::Failed, message, FAILED)
    }

    /// The command line is wrong.
    pub(crate) fn usage(message: String) -> Self {
        Self::new(FailureKind::Usage, message, USAGE)
    }

    /// The command line names what is not there.
    pub(crate) fn not_found(message: String) -> Self {
        Self::new(FailureKind::NotFound, message, USAGE)
    }

    /// The command line is right, but what it is about does not allow it now.
    pub(crate) fn refused(message: String) -> Self {
        Self::new(FailureKind::Refused, message, USAGE)
    }

    /// The same with what to do next, one hint on each line.
    pub(crate) fn with_hint(self, hint: impl AsRef<str>) -> Self {
        Self { hints: hint.as_ref().lines().map(|line| line.trim().to_owned()).collect(), ..self }
    }

    /// The same as a failure of another kind.
    pub(crate) fn with_kind(self, kind: FailureKind) -> Self {
        Self { kind, ..self }
    }

    /// The failure that another process of this program has printed as JSON on the last line of `text`.
    pub(crate) fn of_process(text: &str) -> Option<Self> {
        let mut printed: Value = serde_json::from_str(text.lines().last()?).ok()?;
        serde_json::from_value(printed["error"].take()).ok()
    }

    /// An error of a command about run `id`. If the run has begun, it can be resumed.
    pub(crate) fn of_run(error: EngineError, state_dir: &StateDir, next: &Next) -> Self {
        let is_of_machine = matches!(
            error,
            EngineError::Journal(JournalError::Io { .. })
                | EngineError::AtWork { .. }
                | EngineError::Io { .. }
        );
        let hint = if matches!(error, EngineError::Exists { .. }) {
            let status = load(state_dir, &next.id).map(|loaded| loaded.run.status);
            let is_over = matches!(status, Ok(Status::Completed | Status::Cancelled));
            let (what, verb) = if is_over { ("show", "status") } else { ("resume", "resume") };
            format!("choose another --id, or {what} that run: {}", next.command(verb))
        } else if let (EngineError::Cancelled { .. }, Ok(loaded)) =
            (&error, load(state_dir, &next.id))
        {
            let again = start_command(&loaded);
            format!("a cancelled run cannot be resumed; start its workflow again: {again}")
        } else if let EngineError::Lock { source: LockError::Owned { .. }, .. } = error {
            format!("watch it: {}\nstop it: {}", next.command("attach"), next.command("stop"))
        } else if matches!(error, EngineError::LockLost { .. }) {
            let resume = next.command("resume");
            format!("no finished step is lost; leave the lock file alone, and resume: {resume}")
        } else if is_of_machine && state_dir.run(&next.id).journal.exists() {
            let resume = next.command("resume");
            format!("no finished step is lost; fix the cause, then resume: {resume}")
        } else if is_of_machine {
            "no run was started; fix the cause, then run the same command again\n\
             or keep the files of runs elsewhere: --data-dir DIR"
                .to_owned()
        } else {
            return error.into();
        };
        Self::from(error).with_hint(hint)
    }

    /// Prints the error on standard error, and returns the exit code.
    pub(crate) fn show(&self) -> ExitCode {
        if is_for_programs() {
            out::note(&out::escaped(&json!({ "error": self }).to_string()));
        } else {
            self.tell();
        }
        ExitCode::from(self.exit_code)
    }

    fn tell(&self) {
        let mut people = out::people();
        people.line(&Line::new().add(Style::Bad, "error:").plain(format!(" {}", self.message)));
        if let Some((first, more)) = self.hints.split_first() {
            people.line(&Line::new());
            people.line(&Line::new().add(Style::Name, "hint:").plain(format!(" {first}")));
            for hint in more {
                people.line(&Line::of(format!("      {hint}")));
            }
        }
    }
}

/// Whether a program reads the failure: it asked for JSON, or is the half of `--detach` that waits for this one. What was typed
/// decides, because the failure may be that the command line cannot be parsed.
fn is_for_programs() -> bool {
    let mut words = env::args_os().skip(1).take_while(|word| word != "--");
    words.any(|word| word == "--json" || word == DETACHED)
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

/// An error and all its causes, on one line.
fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(source) = next {
        let reason = source.to_string();
        // Some messages already contain their reason.
        if !text.contains(&reason) {
            text.push_str(": ");
            text.push_str(&reason);
        }
        next = source.source();
    }
    text
}

/// What to do if the operating system refuses an operation.
fn io_hint(kind: io::ErrorKind) -> &'static str {
    match kind {
        io::ErrorKind::PermissionDenied => {
            "change the permissions or use another directory, then run the same command again"
        }
        io::ErrorKind::StorageFull => {
            "free disk space, then run the same command again; old runs are removed by: raymond prune"
        }
        _ => "fix the cause, then run the same command again",
    }
}

/// The command that starts the workflow of a run again.
fn start_command(loaded: &Loaded) -> String {
    let folder = Path::new(&loaded.run.scope_dir);
    let entry = loaded.view.started.as_ref().map(|started| started.entry.as_str());
    // The entry is typed only if it is not the one that is found without it.
    let is_usual = ScopeSource::open(folder).is_ok_and(|it| Some(it.entry.as_str()) == entry);
    let path = match entry.filter(|_| !is_usual) {
        Some(entry) => folder.join(entry),
        None => folder.to_owned(),
    };
    format!("raymond start {}", quote::path(&near(&path)))
}

/// What to do about an archive, a YAML file or a directory to be packed that is not a workflow.
fn archive_hint(path: &Path, error: &ArchiveError) -> String {
    let hint = match error {
        ArchiveError::Yaml(_) => "correct that line, then run the same command again",
        ArchiveError::Io(_) if is_yaml(path) => {
            "save it as a text file in UTF-8, then run the same command again"
        }
        ArchiveError::NotPortable { .. } => "rename it, and what names it",
        ArchiveError::Duplicate { .. } => "rename one of them, and what names it",
        ArchiveError::Nested { .. } if is_yaml(path) => {
            "give the file another name: only subworkflows and `tests` are folders"
        }
        ArchiveError::TooMany | ArchiveError::TooLarge { .. } if is_yaml(path) => {
            "keep large files elsewhere, and read them in the scripts that need them"
        }
        _ => "pack a directory of state files: raymond pack DIR",
    };
    hint.to_owned()
}

/// What to do about a workflow without a usable entry state. A state in an archive cannot be started by its name.
fn entry_hint(path: &Path, error: &EntryError) -> String {
    if is_yaml(path) && !path.is_dir() {
        return "add a state `START` under `states`, or rename one".to_owned();
    }
    if is_packed(path) {
        return "pack a directory that has START.md or START.sh: raymond pack DIR".to_owned();
    }
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let mut states: Vec<_> =
        names.filter(|name| StateKind::of(name, Platform::HERE).is_ok()).collect();
    states.sort();
    let starts = |name: &String| ENTRY_STEMS.contains(&StateName::new(name).stem());
    let (what, states): (_, Vec<_>) = match error {
        EntryError::None { .. } => ("name the first state:", states),
        EntryError::Both { .. } | EntryError::Unusable(_) => (
            "remove all but one of them, or name one:",
            states.into_iter().filter(starts).collect(),
        ),
    };
    let commands: Vec<_> = states
        .iter()
        .take(NAMED_MAX)
        .map(|state| format!("raymond {}", quote::path(&near(&path.join(state)))))
        .collect();
    if commands.is_empty() {
        return "begin a workflow: raymond new NAME".to_owned();
    }
    format!("{what} {}\nor begin another workflow: raymond new NAME", commands.join("\n  or: "))
}

/// What to do about a run that a cluster carries out.
fn cluster_hint(id: &RunId, origin: &Origin) -> String {
    let options = origin.options.iter();
    let options =
        options.map(|(name, value)| format!(" {} {}", quote::word(name), quote::word(value)));
    let options: String = options.collect();
    format!(
        "see and change it here again: raymond cluster mirror {id}{options}\n\
         if it rests, resume it: raymond cluster resume {id}{options}"
    )
}

/// The option that leads to the state directory of a journal, unless that is the one of the current directory. Who reads what a
/// program was told may be elsewhere.
fn place_of(journal: &Path) -> String {
    let there = journal.ancestors().nth(2).unwrap_or(journal);
    let is_here = env::current_dir().is_ok_and(|here| StateDir::of_project(&here).root() == there);
    if is_here && !is_for_programs() {
        String::new()
    } else {
        format!(" --data-dir {}", quote::path(there))
    }
}

/// What to do about a journal that is rejected.
fn journal_hint(error: &JournalError) -> Option<String> {
    match error {
        JournalError::Io { .. } => None,
        JournalError::Damaged { offset: 0, .. } | JournalError::OutOfOrder { offset: 0, .. } => {
            Some(
                "restore the file from a backup: there is no valid line before the damage"
                    .to_owned(),
            )
        }
        JournalError::Damaged { path, offset } | JournalError::OutOfOrder { path, offset } => {
            let path = quote::path(path);
            Some(format!(
                "restore the file from a backup, or continue with the lines before the damage:\n      \
                 cp {path} {path}.damaged && truncate -s {offset} {path}"
            ))
        }
        JournalError::Crlf { path, .. } => Some(format!(
            "convert it back, and keep it out of version control:\n      sed -i 's/\\r$//' {}",
            quote::path(path)
        )),
        JournalError::Foreign { path, .. } => Some(format!(
            "it came with the project, or from another machine; look at what it is, and take it over: raymond trust{}",
            place_of(path)
        )),
        JournalError::Newer { .. } => {
            Some("use the version of raymond that wrote it, or a newer one".to_owned())
        }
    }
}

impl From<TrustError> for Failure {
    fn from(error: TrustError) -> Self {
        let path = quote::path(error.path());
        let trust = if env::join_paths([error.path()]).is_ok() {
            format!("if you trust it: export {TRUST_VARIABLE}={path}")
        } else {
            format!(
                "{TRUST_VARIABLE} cannot name it, because its path has the character between two paths in it: move the \
                 project to a path without that"
            )
        };
        let hint = match &error {
            TrustError::Io { .. } => None,
            TrustError::Link { .. } => Some(format!("remove the link\n      {trust}")),
            TrustError::Writable { .. } => Some(format!(
                "if no other user has changed its contents: chmod go-w {path}\n      {trust}"
            )),
            TrustError::Foreign { owner, .. } => {
                let is_sudo = env::var("SUDO_UID").is_ok_and(|user| user == owner.to_string());
                let own = if is_sudo {
                    "run the same command without sudo"
                } else {
                    "use a state directory of your own: mkdir .raymond in your project, or --data-dir DIR"
                };
                Some(format!("{own}\n      {trust}"))
            }
        };
        Self::refused(chain(&error)).with_hint(hint.unwrap_or_default())
    }
}

impl From<EngineError> for Failure {
    fn from(error: EngineError) -> Self {
        let error = match error {
            EngineError::Trust(error) => return error.into(),
            error => error,
        };
        let hint = match &error {
            EngineError::NoSuchRun { .. } => Some("list the runs: raymond list".to_owned()),
            EngineError::Cancelled { .. } => {
                Some("a cancelled run cannot be resumed; start its workflow again".to_owned())
            }
            EngineError::NoAgent { .. } => Some(
                "configure it as before (see raymond config), or choose another with --agent"
                    .to_owned(),
            ),
            EngineError::Copied { id, original, state_dir, journal } => Some(format!(
                "go on with that one: raymond resume {original} --data-dir {}\n\
                 or make another run of this copy: raymond fork-run {id}{}",
                quote::path(state_dir),
                place_of(journal)
            )),
            EngineError::Mirrored { id, origin } => Some(cluster_hint(id, origin)),
            EngineError::NoShell => Some("install bash, or put it on your PATH".to_owned()),
            EngineError::Journal(error) => journal_hint(error),
            EngineError::Replay { journal, .. } => Some(format!(
                "restore the journal from a backup, or remove the runs that cannot be read:\n      \
                 raymond prune --status unreadable --older-than 0s{}",
                place_of(journal)
            )),
            _ => None,
        };
        let (kind, exit_code) = match error {
            EngineError::NoSuchRun { .. } => (FailureKind::NotFound, USAGE),
            EngineError::Exists { .. } | EngineError::NoAgent { .. } | EngineError::Scope(_) => {
                (FailureKind::Refused, USAGE)
            }
            EngineError::Cancelled { .. }
            | EngineError::Mirrored { .. }
            | EngineError::Lock { source: LockError::Owned { .. }, .. } => {
                (FailureKind::Refused, FAILED)
            }
            _ => (FailureKind::Failed, FAILED),
        };
        Self::new(kind, chain(&error), exit_code).with_hint(hint.unwrap_or_default())
    }
}

impl From<ScopeError> for Failure {
    fn from(error: ScopeError) -> Self {
        let hint = match &error {
            ScopeError::Io { path, source } if source.kind() == io::ErrorKind::NotFound => {
                return mistyped::no_such_path(path);
            }
            ScopeError::Io { source, .. } => Some(io_hint(source.kind()).to_owned()),
            ScopeError::Entry { path, source } => Some(entry_hint(path, source)),
            ScopeError::Archive { path, source } => Some(archive_hint(path, source)),
            ScopeError::Kind(_) => {
                Some("name a state file, a directory, a zip archive or a YAML file".to_owned())
            }
            _ => None,
        };
        Self::refused(chain(&error)).with_hint(hint.unwrap_or_default())
    }
}

impl From<PackError> for Failure {
    fn from(error: PackError) -> Self {
        let hint = match &error {
            PackError::Folder { .. } => Some(
                "put its files beside the states, or move it out of the workflow; hidden folders are left out".to_owned(),
            ),
            PackError::Name { .. } => {
                Some("rename it, or move it out of the workflow, then pack again".to_owned())
            }
            PackError::Yaml { path, .. } => {
                Some(format!("pack a zip archive instead: raymond pack {}", quote::path(path)))
            }
            PackError::Executable { path } => Some(format!(
                "a script that calls it by its shell needs no mode: chmod -x {}\nor pack a zip archive instead: raymond pack DIR",
                quote::path(path)
            )),
            PackError::TooMany { .. } | PackError::TooLarge { .. } => Some(
                "move what is not a part of the workflow out of it, then pack again".to_owned(),
            ),
            PackError::Empty { .. } => Some("name the directory with the state files".to_owned()),
            PackError::Io { source, .. } => Some(io_hint(source.kind()).to_owned()),
            PackError::Layout { path, source } => Some(archive_hint(path, source)),
            PackError::Zip(_) => None,
        };
        Self::usage(chain(&error)).with_hint(hint.unwrap_or_default())
    }
}

impl From<RunIdError> for Failure {
    fn from(error: RunIdError) -> Self {
        Self::usage(chain(&error))
    }
}
