//! Makes a new run from the past of another one, which stays as it is.

use std::{collections::BTreeMap, fs, io};

use raymond_flow::{
    id::{AgentId, RunId, SessionId, StepId},
    machine::{Action, Record, bookmarks, replay},
};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::{
    agent::Agents,
    exec::step::{StepFolder, StepState},
    observe::answers::turn_end,
    run::{
        error::{EngineError, io_error},
        open::{create_folders, load, lock, make_way},
    },
    store::{
        journal::{Journal, JournalEntry},
        layout::{RunFiles, StateDir},
        results::Results,
    },
    sys,
    sys::clock,
    trust::{private, regular, seal},
};

/// More than any coding agent needs to say what a session has cost.
const PAST_BYTES_MAX: u64 = 1024 * 1024;
/// What the seals of such files are for: what a session has cost decides what is left of the budget.
const PAST_SEAL: &str = "session";

/// What a run that is made from another one must know of a session: it has no steps of it.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct SessionPast {
    /// The model that the last turn of the session named.
    pub(crate) model: Option<String>,
    /// What the session had cost, if its coding agent counts by session.
    pub(crate) total: Option<String>,
}

impl SessionPast {
    /// Of a session that the run of these files has from another one; nothing of others.
    pub(crate) fn of(files: &RunFiles, session: &SessionId) -> Self {
        let path = files.session_past(session);
        let bytes = regular::read(&path, PAST_BYTES_MAX);
        bytes.and_then(|bytes| seal::from_json(PAST_SEAL, &path, &bytes)).unwrap_or_default()
    }

    fn write(&self, files: &RunFiles, session: &SessionId) -> Result<(), EngineError> {
        let path = files.session_past(session);
        let made = private::create_dir_all(path.parent().unwrap_or(&files.folder));
        let sealed = made.and_then(|()| seal::to_json(PAST_SEAL, &path, self));
        let written = sealed.and_then(|json| private::write(&path, json));
        written.map_err(|source| io_error("write", &path, source))
    }
}

/// Why a run cannot be taken up from its past.
#[derive(Debug, Error)]
pub enum RewindError {
    /// The run has no such step.
    #[error("run `{run}` has no step {step}")]
    NoSuchStep {
        /// The run.
        run: RunId,
        /// The step, as in `main.3`.
        step: String,
    },
    /// All its agents have ended, or it was cancelled.
    #[error("run `{run}` is {status}: there is nothing to continue")]
    Over {
        /// The run.
        run: RunId,
        /// Its status.
        status: String,
    },
    /// A session that the coding agent cannot branch as it was.
    #[error(
        "the session of step {step} has gone on since, and its coding agent cannot branch it as it was then"
    )]
    WentOn {
        /// The last turn that the agents know, as in `main.3`.
        step: String,
    },
    /// A worker that is in the middle of work in its worktree.
    #[error(
        "worker {agent} is in the middle of work in its worktree, where only run `{run}` can continue it"
    )]
    InWorktree {
        /// The run.
        run: RunId,
        /// The worker.
        agent: AgentId,
    },
    /// Something that concerns every run.
    #[error(transparent)]
    Engine(#[from] EngineError),
}

/// Makes the run `new` from run `id` as it was before `step`, or as it is now. It is paused.
pub fn rewind(
    state_dir: &StateDir,
    id: &RunId,
    step: Option<&StepId>,
    new: &RunId,
    agents: &Agents,
) -> Result<(), RewindError> {
    load(state_dir, id)?;
    let journal = state_dir.run(id).journal;
    let entries = Journal::read(&journal).map_err(EngineError::from)?;
    let cut = match step {
        None => entries.len(),
        Some(step) => {
            let found = entries.iter().position(|entry| action_of(entry, step).is_some());
            found.ok_or_else(|| RewindError::NoSuchStep { run: id.clone(), step: name(step) })?
        }
    };
    let past = entries.get(..cut).unwrap_or_default();
    let run = replay(past.iter().flat_map(|entry| entry.records.iter().cloned()))
        .map_err(|source| EngineError::Replay { id: id.clone(), journal, source })?;
    if run.agents.is_empty() || !run.status.can_resume() {
        return Err(RewindError::Over { run: id.clone(), status: run.status.to_string() });
    }
    if let Some(agent) = run.bound_to_worktree() {
        return Err(RewindError::InWorktree { run: id.clone(), agent: agent.clone() });
    }
    let files = state_dir.run(id);
    let mut sessions = BTreeMap::new();
    let mut pasts = BTreeMap::new();
    let marks = bookmarks(past.iter().flat_map(|entry| &entry.records));
    for session in run.sessions() {
        let Some(mark) = marks.get(session) else { continue };
        let turn = match past.iter().find_map(|entry| action_of(entry, mark)) {
            Some(Action::Turn(turn)) => Some(turn),
            Some(Action::Script { .. }) | None => None,
        };
        let agent = turn.and_then(|turn| agents.for_turn(turn).ok());
        let folder = StepFolder::new(&files.steps, mark);
        let bytes = match folder.state() {
            Ok(StepState::Ended(record)) => Some(record.stdout_bytes),
            Ok(StepState::Lost) => folder.gather_stdout().ok(),
            _ => None,
        };
        let total = agent.filter(|agent| agent.counts_by_session()).and_then(|agent| {
            let end = turn_end(&folder, u64::MAX, None, agent).ok();
            // The run may itself be made from another one, whose step that was.
            end.and_then(|end| end.total).or_else(|| SessionPast::of(&files, session).total)
        });
        let then = agent.zip(bytes);
        let then = then.and_then(|(agent, bytes)| agent.bookmark(session, &folder.stdout(), bytes));
        let model = turn.and_then(|turn| turn.settings.model.clone());
        let named = then.as_ref().unwrap_or(session).clone();
        pasts.insert(named, SessionPast { model, total });
        match then {
            Some(then) => drop(sessions.insert(session.clone(), then)),
            None if went_on(&entries, session, mark) => {
                return Err(RewindError::WentOn { step: name(mark) });
            }
            None => {}
        }
    }
    let from = id.clone();
    let step = step.map(name);
    let results = Results::of(&state_dir.run(id));
    write(state_dir, (past, &results), new, Record::Rewound { from, step, sessions }, &pasts)?;
    Ok(())
}

/// A step as users name it.
fn name(StepId { agent, number }: &StepId) -> String {
    format!("{agent}.{number}")
}

/// What `step` starts, if its intent is in this decision.
fn action_of<'a>(entry: &'a JournalEntry, step: &StepId) -> Option<&'a Action> {
    let mut intents = entry.records.iter().filter_map(Record::intent);
    let found = intents.find(|(agent, own)| **agent == step.agent && own.number == step.number);
    found.map(|(_, own)| &own.action)
}

/// Whether a turn was started in `session` after `mark`.
fn went_on(entries: &[JournalEntry], session: &SessionId, mark: &StepId) -> bool {
    let after = entries.iter().skip_while(|entry| action_of(entry, mark).is_none()).skip(1);
    let mut intents = after.flat_map(|entry| &entry.records).filter_map(Record::intent);
    intents
        .any(|(_, step)| matches!(&step.action, Action::Turn(turn) if turn.session.id() == session))
}

/// Writes the journal of the new run: the past under another name, and that it is another run now. The journal gets its name when
/// it is whole: half of a past would be a run that continues the sessions of the old one. Before that, `pasts` says what
/// it must know of its sessions.
fn write(
    state_dir: &StateDir,
    (past, results): (&[JournalEntry], &Results),
    new: &RunId,
    rewound: Record,
    pasts: &BTreeMap<SessionId, SessionPast>,
) -> Result<(), EngineError> {
    let files = state_dir.run(new);
    state_dir.check_run(&files)?;
    create_folders(&files)?;
    let _lock = lock(new, &files)?;
    make_way(new, &files)?;
    pasts.iter().try_for_each(|(session, past)| past.write(&files, session))?;
    let draft = files.journal.with_added_extension("draft");
    let at = |source| io_error("write", &files.journal, source);
    // What a killed command has left.
    match fs::remove_file(&draft) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(at(error)),
        _ => {}
    }
    let mut journal = Journal::create(&draft)?;
    let identity = uuid::Uuid::new_v4().simple().to_string();
    let renamed = |record: &Record| {
        let mut record = record.clone();
        if let Some(started) = record.started_mut() {
            (started.workflow_id, started.identity) = (new.clone(), identity.clone());
            started.state_dir = state_dir.root().to_string_lossy().into_owned();
        }
        record
    };
    let written = past.iter().try_for_each(|entry| {
        let records: Vec<_> = entry.records.iter().map(renamed).collect();
        results.share(&records, &Results::of(&files))?;
        journal.append_at(entry.at_ms, &records)
    });
    let written = written.and_then(|()| journal.append_at(clock::now_ms(), &[rewound]));
    let written = written.and_then(|()| journal.sync());
    let written = written.and_then(|()| private::name_new(&draft, &files.journal));
    if written.is_err() {
        let _ = fs::remove_file(&draft);
    }
    let folder = files.journal.parent().unwrap_or(&files.folder);
    written.and_then(|()| sys::sync_folder(folder)).map_err(at)
}
