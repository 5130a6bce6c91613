//! `raymond cluster worker`: polls Temporal for workflow tasks and steps, until it is asked to stop.

use std::{path::Path, sync::Arc, time::Duration};

use futures::future::try_join_all;
use raymond_flow::source::LABELS_MAX;
use temporalio_sdk::{
    Runtime, Worker, WorkerOptions,
    runtime::{
        PollerBehavior, RuntimeOptions,
        worker_tuner::{FixedSizeSlotSupplier, TunerHolder},
    },
};

use crate::{
    activities::StepActivities,
    bundles::Bundles,
    capacity::Capacity,
    cli::Server,
    commands::{Talk, local_program, open_store},
    connection::connect,
    failure::{Failure, failed, store_failed},
    hosts::Hosts,
    messages::Home,
    queues,
    workflow::RunWorkflow,
};

const DAY: Duration = Duration::from_hours(24);
/// How long a workflow task may wait for the worker that has the run in memory: after that, any worker takes it.
const STICKY: Duration = Duration::from_secs(2);

/// How many requests for tasks of a queue are open. While a worker is frozen or cut off, each takes a task that then waits
/// for its timeout; but with one, a worker got only 78 instead of 115 empty steps a second.
const POLLS: usize = 2;
/// How many steps that a worker has already can be looked for at once, or offered to it.
const OWN_STEPS: usize = 2000;
/// How many jobs that are not steps a worker does at once.
const JOBS: usize = 100;
/// How many workflow tasks a worker takes at once: each is a few milliseconds.
const WORKFLOW_TASKS: usize = 100;

/// Runs a worker.
pub(crate) async fn work(
    server: &Server,
    data_dir: &Path,
    capacity: u32,
    (name, labels): (Option<String>, Vec<String>),
    keep_days: u32,
    talk: Talk,
) -> Result<(), Failure> {
    if labels.len() > LABELS_MAX {
        let most = format!("a worker has at most {LABELS_MAX} labels");
        return Err(failed("use --labels")(most));
    }
    std::fs::create_dir_all(data_dir).map_err(failed("create the directory of this worker"))?;
    let data_dir = std::path::absolute(data_dir).map_err(failed("find --data-dir"))?;
    let name = name.map_or_else(|| kept_name(&data_dir), Ok)?;
    let store = open_store(server)?;
    // A worker without a store would take steps that it cannot carry out.
    store.check().await.map_err(store_failed("use the store"))?;
    let client = connect(server, &store, &name).await?;
    let bundles = Arc::new(Bundles::new(store.clone(), data_dir.join("bundles")));
    let hosts = Hosts::new(local_program()?, data_dir.clone(), Arc::clone(&bundles), talk);
    let hosts = Arc::new(hosts);
    let places = Capacity::new(usize::try_from(capacity).unwrap_or(usize::MAX));
    let home = Home { worker: name.clone(), labels };
    let labelled = queues::of_labels(&server.queue, &home.labels);
    let steps =
        StepActivities::new(Arc::clone(&hosts), home, &data_dir, store, places.clone(), talk);
    steps.adopt(&client);
    let options = |queue: &str, tasks: usize, steps: StepActivities| {
        WorkerOptions::new(queue)
            .client_identity_override(&name)
            .sticky_queue_schedule_to_start_timeout(STICKY)
            .tuner(tuner(tasks))
            .activity_task_poller_behavior(PollerBehavior::SimpleMaximum(POLLS))
            .register_activities(steps)
    };
    let for_steps = |queue: &str| {
        let slots = places.slots();
        options(queue, slots.count(), steps.with_slots(slots))
    };
    let runtime = Runtime::from_current_tokio(RuntimeOptions::default());
    let runtime = runtime.map_err(failed("start the runtime of Temporal"))?;
    let start = |options: WorkerOptions| {
        let worker = Worker::new(&runtime, client.clone(), options);
        worker.map_err(failed("start the worker"))
    };
    let common = for_steps(&server.queue)
        .register_workflow_with_factory(move || RunWorkflow::new(Arc::clone(&bundles)))
        .map_err(failed("register the workflow"))?;
    // For steps that this worker has: a continued history looks for them here. And for turns of sessions that it has.
    let own = options(&queues::own(&server.queue, &name), OWN_STEPS, steps.clone());
    let jobs = options(&queues::jobs(&server.queue), JOBS, steps.clone());
    let mut workers = vec![start(common.build())?, start(own.build())?, start(jobs.build())?];
    for queue in &labelled {
        workers.push(start(for_steps(queue).build())?);
    }
    talk(&format!("worker {name} takes up to {capacity} steps at once from {}", server.queue));
    for queue in labelled {
        talk(&format!("worker {name} also takes steps from {queue}"));
    }
    tokio::select! {
        ran = try_join_all(workers.iter_mut().map(Worker::run)) => {
            ran.map(drop).map_err(failed("run the worker"))
        }
        () = hosts.sweep() => Ok(()),
        () = steps.tidy(DAY * keep_days) => Ok(()),
        // Its steps go on until their deadlines, for the next worker in this directory.
        stopped = stopped() => stopped.map_err(failed("wait for signals")),
    }
}

/// Waits until a signal asks this process to stop.
async fn stopped() -> std::io::Result<()> {
    let mut terminate = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())?;
    tokio::select! {
        interrupted = tokio::signal::ctrl_c() => interrupted,
        _ = terminate.recv() => Ok(()),
    }
}

/// How many tasks of each kind a worker takes at once.
fn tuner(steps: usize) -> TunerHolder {
    let slots = FixedSizeSlotSupplier::new;
    TunerHolder::builder()
        .workflow_task_slot_supplier(slots(WORKFLOW_TASKS))
        .activity_task_slot_supplier(slots(steps))
        .local_activity_task_slot_supplier(slots(1))
        .nexus_task_slot_supplier(slots(1))
        .build()
}

/// The name of the worker in this directory: chosen once, so that its steps are found after a restart.
fn kept_name(data_dir: &Path) -> Result<String, Failure> {
    let path = data_dir.join("name");
    if let Ok(name) = std::fs::read_to_string(&path) {
        return Ok(name.trim().to_owned());
    }
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let mut random = uuid::Uuid::new_v4().simple().to_string();
    random.truncate(8);
    let name = format!("{}-{random}", host.trim());
    std::fs::write(path, &name).map_err(failed("write the name of this worker"))?;
    Ok(name)
}
