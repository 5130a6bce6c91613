//! The world as the workflow sees it: the bundle and the time of the history. Whatever asks for directories or
//! variables, which only workers have, is noted, and the caller asks a worker instead.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
};

use raymond_flow::{
    coding_agent::CodingAgents,
    payload::Payload,
    scope::Listing,
    source::Platform,
    world::{Checkout, World, WorldError},
};

/// The files of a workflow, and what a run may use.
#[derive(Debug)]
pub(crate) struct BundleWorld {
    files: Arc<BTreeMap<String, Vec<u8>>>,
    coding_agents: CodingAgents,
    now_ms: AtomicU64,
    /// Whether something was asked that only a worker can answer.
    is_out_of_sight: AtomicBool,
}

impl BundleWorld {
    pub(crate) fn new(files: Arc<BTreeMap<String, Vec<u8>>>, coding_agents: CodingAgents) -> Self {
        let (now_ms, is_out_of_sight) = (AtomicU64::new(0), AtomicBool::new(false));
        Self { files, coding_agents, now_ms, is_out_of_sight }
    }

    /// Sets the time, which the history determines.
    pub(crate) fn set_now_ms(&self, now_ms: u64) {
        self.now_ms.store(now_ms, Relaxed);
    }

    /// Whether something was asked since the last call that only a worker can answer.
    pub(crate) fn take_out_of_sight(&self) -> bool {
        self.is_out_of_sight.swap(false, Relaxed)
    }
}

impl World for BundleWorld {
    /// Workers are Unix machines.
    fn platform(&self) -> Platform {
        Platform::Unix
    }

    fn listing(&self, folder: &str) -> Result<Listing, WorldError> {
        Ok(Listing::of_folder(self.files.keys(), folder))
    }

    fn read(&self, name: &str) -> Result<Vec<u8>, WorldError> {
        self.files.get(name).cloned().ok_or_else(|| WorldError {
            what: format!("cannot read `{name}`"),
            why: "the bundle has no such file".to_owned(),
        })
    }

    fn directory(&self, _path: &str) -> Option<String> {
        self.is_out_of_sight.store(true, Relaxed);
        None
    }

    fn has_variable(&self, _name: &str) -> bool {
        self.is_out_of_sight.store(true, Relaxed);
        false
    }

    /// The same on every machine, so that the fingerprint of a prompt is. The worker renders its own path.
    fn value_file(&self, fingerprint: &str) -> String {
        format!("values/{fingerprint}")
    }

    /// The same on every machine, for the same reason.
    fn agent_folder(&self, agent: &str) -> String {
        format!("agents/{agent}")
    }

    /// No result is kept elsewhere: they travel whole, and the store has the long ones.
    fn text(&self, payload: &Payload) -> Result<String, WorldError> {
        payload.as_text().map(str::to_owned).ok_or_else(|| WorldError {
            what: "cannot read a result".to_owned(),
            why: "it is kept on another machine".to_owned(),
        })
    }

    fn checkout(&self, _directory: &str) -> Result<Checkout, String> {
        self.is_out_of_sight.store(true, Relaxed);
        Err("only a worker can look".to_owned())
    }

    fn attachment(&self, _folder: &str, _path: &str) -> Result<(), String> {
        self.is_out_of_sight.store(true, Relaxed);
        Err("only a worker can look".to_owned())
    }

    fn now_ms(&self) -> u64 {
        self.now_ms.load(Relaxed)
    }

    fn coding_agents(&self) -> &CodingAgents {
        &self.coding_agents
    }
}
