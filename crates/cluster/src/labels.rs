//! Whether there are workers for the states of a workflow that need labels.

use std::collections::BTreeMap;

use raymond_engine::store::scope::WorkflowFiles;
use raymond_flow::source::{Platform, StateFile};
use temporalio_client::{
    Client, NamespacedClient as _, grpc::WorkflowService as _, tonic::Request,
};
use temporalio_common::protos::temporal::api::{
    enums::v1::TaskQueueType, taskqueue::v1::TaskQueue,
    workflowservice::v1::DescribeTaskQueueRequest,
};

use crate::queues;

/// What to say about states that no worker can carry out now. Nothing fails: a worker may come later.
pub(crate) async fn missed(client: &Client, queue: &str, bundle: &[u8]) -> Vec<String> {
    let mut missed = Vec::new();
    for (labels, states) in states(bundle).unwrap_or_default() {
        if has_no_worker(client, queues::labelled(queue, &labels)).await {
            let (labels, states) = (labels.join(","), states.join(", "));
            missed.push(format!(
                "no worker has the labels {labels}: {states} will wait for one\n  hint: raymond cluster worker --labels {labels}"
            ));
        }
    }
    missed
}

/// The states that need labels, by their labels.
fn states(bundle: &[u8]) -> Option<BTreeMap<Vec<String>, Vec<String>>> {
    let folder = tempfile::tempdir().ok()?;
    let path = folder.path().join("bundle.zip");
    std::fs::write(&path, bundle).ok()?;
    let mut states = BTreeMap::<_, Vec<_>>::new();
    for (name, bytes) in WorkflowFiles::read(&path).ok()?.files {
        let file = StateFile::read(&name, &bytes, Platform::Unix);
        if let Some(file) = file.ok().filter(|file| !file.runs_on.is_empty()) {
            states.entry(file.runs_on).or_default().push(name);
        }
    }
    Some(states)
}

/// Whether no worker polls a task queue, as far as the server knows.
async fn has_no_worker(client: &Client, queue: String) -> bool {
    let request = DescribeTaskQueueRequest {
        namespace: client.namespace(),
        task_queue: Some(TaskQueue { name: queue, ..TaskQueue::default() }),
        task_queue_type: TaskQueueType::Activity.into(),
        ..DescribeTaskQueueRequest::default()
    };
    let described = client.clone().describe_task_queue(Request::new(request)).await;
    described.is_ok_and(|described| described.get_ref().pollers.is_empty())
}
