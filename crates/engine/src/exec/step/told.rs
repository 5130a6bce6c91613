//! Messages for a running turn: files in the directory of its step.
//!
//! The orchestrator writes them, the reaper gives them to the child. Files instead of the reaper's connection: a step
//! that an earlier orchestrator started has none, and a file that is written again is the same message.

use std::{
    fs, io,
    path::{Path, PathBuf},
    time::SystemTime,
};

use serde::{Deserialize, Serialize};

use super::StepFolder;
use crate::trust::{private, regular, seal};

/// What the name of such a file begins with; the id of the message follows.
const PREFIX: &str = "told-";
/// What the seals of messages are for.
const SEAL: &str = "message";
/// The largest such file: a message whose every byte is escaped.
const BYTES_MAX: u64 = 1024 * 1024;

/// A message as a child takes it while it works.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LiveMessage {
    /// What is written to its standard input.
    pub line: String,
    /// The fields of the line with which it says that it has taken the message.
    pub taken: Vec<(String, String)>,
}

/// A message in the directory of a step.
#[derive(Serialize, Deserialize)]
struct Told<M> {
    /// The identity of the run whose step it is: the same step of a later run of the same name is another one.
    run: String,
    message: M,
}

impl StepFolder {
    /// Writes a message for the running turn.
    pub(crate) fn tell(&self, id: &str, message: &LiveMessage) -> io::Result<()> {
        // It gets its name when it is complete. The draft has another prefix.
        let draft = self.path().join(format!("draft-{id}"));
        let path = self.path().join(format!("{PREFIX}{id}"));
        let told = Told { run: self.run().to_owned(), message };
        private::write(&draft, seal::to_json(SEAL, &path, &told)?)?;
        fs::rename(draft, path)
    }

    /// The ids of the messages that were written for the turn.
    pub(crate) fn told(&self) -> Vec<String> {
        files(self.path()).into_iter().map(|(id, _)| id).collect()
    }
}

/// The messages in the directory of a step of `run` whose ids are not `known`, the oldest first.
#[cfg_attr(portable, expect(dead_code, reason = "no child takes messages there"))]
pub(crate) fn messages(step: &Path, run: &str, known: &[String]) -> Vec<(String, LiveMessage)> {
    let new = files(step).into_iter().filter(|(id, _)| !known.contains(id));
    let read = |path: &Path| {
        let told: Told<LiveMessage> =
            seal::from_json(SEAL, path, &regular::read(path, BYTES_MAX).ok()?).ok()?;
        (told.run == run).then_some(told.message)
    };
    new.filter_map(|(id, path)| Some((id, read(&path)?))).collect()
}

/// The ids and paths of the messages in the directory of a step, the oldest first.
fn files(step: &Path) -> Vec<(String, PathBuf)> {
    let mut found: Vec<(SystemTime, String, PathBuf)> = Vec::new();
    for entry in fs::read_dir(step).into_iter().flatten().flatten() {
        let name = entry.file_name().into_string().unwrap_or_default();
        if let Some(id) = name.strip_prefix(PREFIX)
            && let Ok(written) = entry.metadata().and_then(|metadata| metadata.modified())
        {
            found.push((written, id.to_owned(), entry.path()));
        }
    }
    found.sort();
    found.into_iter().map(|(_, id, path)| (id, path)).collect()
}

#[cfg(all(test, not(portable)))]
mod tests {
    use raymond_flow::id::{AgentId, StepId};

    use super::*;

    #[test]
    fn message_is_found_once_it_is_complete_and_is_the_same_when_it_is_written_again() {
        let root = tempfile::tempdir().unwrap();
        let id = StepId { agent: AgentId::main(), number: 1 };
        let folder = StepFolder::new(root.path(), &id).of_run("run");
        folder.create().unwrap();
        assert_eq!(folder.told(), Vec::<String>::new());
        let message = |text: &str| LiveMessage {
            line: text.to_owned(),
            taken: vec![("uuid".to_owned(), text.to_owned())],
        };
        folder.tell("a", &message("first")).unwrap();
        folder.tell("b", &message("second")).unwrap();
        folder.tell("a", &message("first")).unwrap();
        let unsealed = serde_json::to_vec(&message("of a model")).unwrap();
        fs::write(folder.path().join("told-c"), unsealed).unwrap();
        fs::write(folder.path().join("draft-d"), "{}").unwrap();
        let known = ["b".to_owned()];
        let found = messages(folder.path(), "run", &known);
        assert_eq!(found, [("a".to_owned(), message("first"))]);
        assert_eq!(messages(folder.path(), "later", &known), []);
        let mut told = folder.told();
        told.sort();
        assert_eq!(told, ["a", "b", "c"]);
    }
}
