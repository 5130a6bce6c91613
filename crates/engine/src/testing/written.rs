//! A run of which only the journal exists: a test writes its records, with times of its own.

use std::{collections::BTreeMap, fs};

use raymond_flow::{
    id::{AgentId, SessionId, StateName},
    machine::{Action, CountsAs, Record, SessionPlan, Spent, Started, Step, Via, Work},
    money::Usd,
    policy::{Choice, Question, Transition},
    source::Timeout,
};
use tempfile::TempDir;

use super::{id, started, turn};
use crate::{
    observe::overview::Overview,
    store::{
        journal::Journal,
        layout::{RunFiles, StateDir},
    },
};

/// The journal, which grows while others read it.
pub(crate) struct Written {
    pub(crate) folder: TempDir,
    journal: Journal,
}

impl Written {
    /// A run that began with `START.sh` at the time 1000.
    pub(crate) fn new() -> Self {
        Self::of(started("/flow"))
    }

    pub(crate) fn of(started: Started) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = files(&folder).journal;
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let mut journal = Journal::create(&path).unwrap();
        journal.append_at(1000, &[Record::Started(Box::new(started))]).unwrap();
        Self { folder, journal }
    }

    /// Adds one decision that was made at this time.
    pub(crate) fn add(&mut self, at_ms: u64, records: impl IntoIterator<Item = Record>) {
        let records: Vec<_> = records.into_iter().collect();
        self.journal.append_at(at_ms, &records).unwrap();
    }

    /// A step of `agent` from `from` to `to` that follows a transition.
    pub(crate) fn step(
        &mut self,
        (agent, number): (&str, u32),
        state: &str,
        (from, to): (u64, u64),
        transition: Transition,
    ) {
        self.add(from, [intended(agent, number, state)]);
        self.add(to, [ended(agent, number, 0.0), followed(agent, transition, &[])]);
    }

    pub(crate) fn files(&self) -> RunFiles {
        files(&self.folder)
    }

    /// Where the next decision begins.
    pub(crate) fn offset(&self) -> u64 {
        self.journal.offset()
    }

    /// Everything that is known of the run.
    pub(crate) fn overview(&self) -> Overview {
        let mut overview = Overview::new(id(), self.files());
        overview.refresh();
        overview
    }
}

fn files(folder: &TempDir) -> RunFiles {
    StateDir::new(folder.path()).run(&id())
}

/// A step begins: a turn if its state is a prompt.
pub(crate) fn intended(agent: &str, number: u32, state: &str) -> Record {
    let action = if state.to_ascii_lowercase().ends_with(".md") {
        Action::Turn(turn(SessionPlan::Fresh { id: SessionId::new("s1") }))
    } else {
        Action::Script { timeout: Timeout::DEFAULT }
    };
    let step = Step { number, state: StateName::new(state), digest: None, attempt: 1, action };
    Record::Intended { agent: AgentId::new(agent), step: Box::new(step) }
}

/// A step ends and costs this much.
pub(crate) fn ended(agent: &str, number: u32, dollars: f64) -> Record {
    let cost_usd = Usd::from_dollars(dollars).unwrap();
    let spent = Spent { cost_usd, duration_ms: 7, ..Spent::default() };
    Record::Ended { agent: AgentId::new(agent), number, spent }
}

/// An agent follows a transition, which starts these workers.
pub(crate) fn followed(agent: &str, transition: Transition, workers: &[&str]) -> Record {
    Record::Followed {
        agent: AgentId::new(agent),
        transition,
        via: Via::Tag,
        session: None,
        workers: workers.iter().map(|worker| AgentId::new(*worker)).collect(),
        discarded_returns: 0,
    }
}

/// An agent fails.
pub(crate) fn failed(agent: &str, error: &str) -> Record {
    Record::Failed {
        agent: AgentId::new(agent),
        error: error.to_owned(),
        class: None,
        work: Work::Enter,
        left: None,
        loses_session: false,
    }
}

/// An agent retries its work after a wait.
pub(crate) fn retried(agent: &str, why: &str, delay_ms: u64) -> Record {
    retried_with(agent, why, delay_ms, CountsAs::Retry)
}

pub(crate) fn retried_with(agent: &str, why: &str, delay_ms: u64, counts_as: CountsAs) -> Record {
    let (agent, why) = (AgentId::new(agent), why.to_owned());
    Record::Retried { agent, why, counts_as, delay_ms, left: None }
}

/// An agent asks its first question.
pub(crate) fn asked(agent: &str, question: Question) -> Record {
    let (agent, number, question) = (AgentId::new(agent), 1, Box::new(question));
    Record::Asked { agent, number, question, via: Via::Tag, session: None }
}

pub(crate) fn goto(state: &str) -> Transition {
    Transition::Goto { target: StateName::new(state), input: None }
}

pub(crate) fn result(text: &str) -> Transition {
    Transition::Result { payload: text.into() }
}

/// A fork of a worker at `WORK.sh` for each of these names, which the worker gets as the variable `name`.
pub(crate) fn fork(names: &[&str]) -> Transition {
    let workers = names.iter().map(|name| raymond_flow::policy::Forked {
        target: StateName::new("WORK.sh"),
        cd: None,
        attributes: BTreeMap::from([("name".to_owned(), (*name).to_owned())]),
        limit: None,
        worktree: None,
        input: None,
    });
    Transition::Fork { next: StateName::new("NEXT.sh"), workers: workers.collect() }
}

/// A question with two choices.
pub(crate) fn question(text: &str) -> Question {
    let choice = |label: &str, target: &str| Choice {
        label: label.to_owned(),
        target: StateName::new(target),
    };
    Question {
        text: text.to_owned(),
        next: None,
        choices: vec![choice("yes", "NEXT.sh"), choice("no", "STOP.sh")],
        attach: Vec::new(),
        timeout: None,
        default: None,
        deadline_ms: None,
        continues: None,
        grants: None,
    }
}
