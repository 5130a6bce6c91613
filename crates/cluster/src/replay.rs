//! Whether this program decides as a history says. A worker replays the history of a run before it goes on with it, and
//! one that decides differently cannot; this finds out before an upgrade.

use std::sync::Arc;

use temporalio_client::WorkflowHistory;
use temporalio_common::data_converters::DataConverter;
use temporalio_sdk::workflow_replayer::{
    WorkflowReplayError, WorkflowReplayer, WorkflowReplayerOptions,
};

use crate::{
    bundles::Bundles,
    failure::{Failure, failed},
    workflow::RunWorkflow,
};

/// Replays histories with the decisions of this program.
pub(crate) struct Replayer(WorkflowReplayer);

impl Replayer {
    /// `converter` reads the payloads that are in the store.
    pub(crate) fn new(bundles: Arc<Bundles>, converter: DataConverter) -> Result<Self, Failure> {
        let options = WorkflowReplayerOptions::new()
            .register_workflow_with_factory(move || RunWorkflow::new(Arc::clone(&bundles)))
            .map_err(failed("register the workflow"))?
            .data_converter(converter)
            .build();
        WorkflowReplayer::new(options).map(Self).map_err(failed("replay histories"))
    }

    /// `Ok(None)` if this program decides as the history says, else the difference.
    pub(crate) async fn difference(
        &self,
        history: WorkflowHistory,
    ) -> Result<Option<String>, WorkflowReplayError> {
        match self.0.replay_workflow(history).await {
            Ok(()) => Ok(None),
            Err(WorkflowReplayError::Replay(failure)) => Ok(Some(failure.to_string())),
            Err(error) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        fs,
        path::{Path, PathBuf},
    };

    use super::*;
    use crate::{cipher::Cipher, connection::converter, store::Store};

    /// Histories that programs have recorded, never edited: `tests/it/upgrade.rs` writes new ones.
    fn fixtures() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/histories")
    }

    /// The names and bytes of the files with this ending.
    fn files(ending: &str) -> Vec<(String, Vec<u8>)> {
        let paths = fs::read_dir(fixtures()).unwrap().map(|entry| entry.unwrap().path());
        let meant = paths.filter(|path| path.extension().is_some_and(|own| own == ending));
        let name = |path: &Path| path.file_stem().unwrap().to_str().unwrap().to_owned();
        meant.map(|path| (name(&path), fs::read(&path).unwrap())).collect()
    }

    /// A replayer that has these archives.
    fn replayer(folder: &Path, bundles: &[(String, Vec<u8>)]) -> Replayer {
        for (hash, bytes) in bundles {
            fs::write(folder.join(format!("{hash}.zip")), bytes).unwrap();
        }
        let store =
            Store::open(&format!("file://{}/store", folder.display()), Cipher::default()).unwrap();
        let bundles = Bundles::new(store.clone(), folder.to_owned());
        Replayer::new(Arc::new(bundles), converter(&store)).unwrap()
    }

    #[tokio::test]
    async fn this_program_decides_as_the_recorded_histories_say() {
        let folder = tempfile::tempdir().unwrap();
        let replayer = replayer(folder.path(), &files("zip"));
        let histories = files("json");
        assert!(histories.len() > 5, "the histories are missing");
        for (name, bytes) in histories {
            let history = WorkflowHistory::from_json(&bytes).unwrap();
            let difference = replayer.difference(history).await.unwrap();
            assert_eq!(difference, None, "{name}");
        }
    }

    #[tokio::test]
    async fn other_decision_than_the_recorded_one_is_a_difference() {
        let folder = tempfile::tempdir().unwrap();
        let replayer = replayer(folder.path(), &files("zip"));
        let (_, goto) = files("json").into_iter().find(|(name, _)| name == "goto").unwrap();
        // A program that gave the second step another number has recorded this.
        let goto = String::from_utf8(goto).unwrap().replace("\"main/2\"", "\"main/7\"");
        let history = WorkflowHistory::from_json(goto.as_bytes()).unwrap();
        let difference = replayer.difference(history).await.unwrap().unwrap();
        assert!(difference.contains("nondeterministic"), "{difference}");
    }
}
