//! The hosts on this machine: one process `raymond __host` for each run that has steps here. It has the keeper and the
//! step directories, so steps outlive the worker.

use std::{
    collections::{BTreeSet, HashMap},
    path::PathBuf,
    process::Stdio,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use raymond_engine::{
    exec::host::{Hosted, Mapping, Order, Report, SessionPlace},
    store::{layout::StateDir, prune},
};
use raymond_flow::{
    id::{AgentId, RunId, StepId},
    machine::{Input, Run},
};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader},
    process::{Child, ChildStdin, ChildStdout, Command},
    sync::{Mutex as AsyncMutex, mpsc, oneshot},
};

use crate::{
    bundles::{BundleError, Bundles},
    commands::{Talk, VARIABLES},
    messages::{EndOrder, PrepareOrder, StepOrder},
};

/// How long a host without steps is kept for the next one.
const IDLE: Duration = Duration::from_secs(30);
/// How long a host may take until it takes orders: its predecessor may be leaving.
const OPEN_PATIENCE: Duration = Duration::from_secs(30);

/// Why a host cannot be had.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HostError {
    /// No bundle.
    #[error(transparent)]
    Bundle(#[from] BundleError),
    /// The program cannot be started.
    #[error("cannot start {}: {source}", program.display())]
    Start {
        /// The program.
        program: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// It ended before it took orders, or during one.
    #[error("the host of run {run} has ended")]
    Ended {
        /// The run.
        run: String,
    },
}

impl HostError {
    /// Whether it passes by itself: the store is down.
    pub(crate) fn is_transient(&self) -> bool {
        matches!(self, Self::Bundle(BundleError::Store(error)) if error.is_transient())
    }
}

/// The hosts on this machine.
#[derive(Debug)]
pub(crate) struct Hosts {
    /// The local program.
    program: PathBuf,
    /// The state directory of this worker.
    data_dir: PathBuf,
    bundles: Arc<Bundles>,
    /// By the identity of the run.
    open: AsyncMutex<HashMap<String, Arc<Host>>>,
    talk: Talk,
}

/// The host of one run.
#[derive(Debug)]
struct Host {
    run: String,
    orders: mpsc::UnboundedSender<Order>,
    waiting: Arc<Mutex<Waiting>>,
    used: Mutex<Instant>,
}

/// Who waits for a report of a host.
#[derive(Debug, Default)]
struct Waiting {
    is_closed: bool,
    steps: HashMap<StepId, oneshot::Sender<Attended>>,
    prepares: HashMap<AgentId, Vec<oneshot::Sender<Input>>>,
    locates: HashMap<StepId, oneshot::Sender<Vec<SessionPlace>>>,
}

/// What came of a step; `None` if another task waits for it now: the history of the run was continued.
type Attended = Option<Vec<Input>>;

/// A step that a host has.
#[derive(Debug)]
pub(crate) struct HostedStep {
    host: Arc<Host>,
    id: StepId,
}

/// The end of such a step.
#[derive(Debug)]
pub(crate) struct HostedEnd {
    host: Arc<Host>,
    end: oneshot::Receiver<Attended>,
}

impl Hosts {
    pub(crate) fn new(
        program: PathBuf,
        data_dir: PathBuf,
        bundles: Arc<Bundles>,
        talk: Talk,
    ) -> Self {
        Self { program, data_dir, bundles, open: AsyncMutex::default(), talk }
    }

    /// Makes sure that there is a host for a step.
    pub(crate) async fn ready(&self, order: &StepOrder) -> Result<(), HostError> {
        self.host(&order.run, &order.bundle).await.map(drop)
    }

    /// Orders a step. One that was started before is found.
    pub(crate) async fn step(
        &self,
        order: &StepOrder,
        patience: Duration,
        mapping: Option<Mapping>,
    ) -> Result<(HostedStep, HostedEnd), HostError> {
        let host = self.host(&order.run, &order.bundle).await?;
        let (sender, end) = oneshot::channel();
        let id = order.id.clone();
        host.waiting(|waiting| {
            if let Some(earlier) = waiting.steps.insert(id.clone(), sender) {
                let _ = earlier.send(None);
            }
        })?;
        let run = Box::new(order.run.clone());
        let hosted = Hosted { id: id.clone(), run, patience, mapping };
        let start = if order.is_started { Order::Find } else { Order::Start };
        host.order(start(hosted));
        Ok((HostedStep { host: Arc::clone(&host), id }, HostedEnd { host, end }))
    }

    /// Prepares the next step of an agent.
    pub(crate) async fn prepare(
        &self,
        order: PrepareOrder,
        mapping: Option<Mapping>,
    ) -> Result<Input, HostError> {
        let host = self.host(&order.run, &order.bundle).await?;
        let PrepareOrder { run, agent, fresh, .. } = order;
        let run = Box::new(run);
        let (sender, prepared) = oneshot::channel();
        host.waiting(|waiting| {
            waiting.prepares.entry(agent.clone()).or_default().push(sender);
        })?;
        host.order(Order::Prepare { run, agent, fresh, mapping });
        prepared.await.map_err(|_| host.ended())
    }

    /// Where the sessions of a step are on this machine: its own first, then the one that it branches off.
    pub(crate) async fn locate(
        &self,
        order: &StepOrder,
        mapping: Option<Mapping>,
    ) -> Result<Vec<SessionPlace>, HostError> {
        let host = self.host(&order.run, &order.bundle).await?;
        let (sender, located) = oneshot::channel();
        let id = order.id.clone();
        host.waiting(|waiting| drop(waiting.locates.insert(id.clone(), sender)))?;
        host.order(Order::Locate { id, run: Box::new(order.run.clone()), mapping });
        located.await.map_err(|_| host.ended())
    }

    /// Ends those of these steps of a run that are on this machine.
    pub(crate) async fn end(&self, EndOrder { identity, steps }: EndOrder) {
        let Some(host) = self.open.lock().await.get(&identity).cloned() else { return };
        let here = |id: &StepId| lock(&host.waiting).steps.contains_key(id);
        steps.into_iter().filter(here).for_each(|id| host.order(Order::End(id)));
    }

    /// Lets hosts go that have had no step for a while. Never returns.
    pub(crate) async fn sweep(&self) {
        let is_idle = |host: &Arc<Host>| Arc::strong_count(host) == 1 && host.is_idle();
        loop {
            tokio::time::sleep(IDLE / 3).await;
            self.open.lock().await.retain(|_, host| !is_idle(host));
        }
    }

    /// Removes the step directories of runs that have had no host here for `age`. A run in `kept` stays: the end of a step
    /// of it is not delivered yet. If such a run comes back, its directories are made again.
    pub(crate) async fn tidy(&self, age: Duration, kept: &BTreeSet<RunId>) {
        // While this is held, no host is opened in a directory that is about to be removed.
        let _open = self.open.lock().await;
        let state_dir = StateDir::new(&self.data_dir);
        let runs = prune::stored_runs(&state_dir).unwrap_or_default();
        for run in runs.iter().filter(|run| run.age() >= age && !kept.contains(&run.id)) {
            // A host that is still there has the lock, and then nothing is removed.
            if let Err(error) = run.remove(&state_dir) {
                (self.talk)(&format!("{}: its steps cannot be removed: {error}", run.id));
            }
        }
    }

    /// The host of a run; started if there is none.
    async fn host(&self, run: &Run, bundle: &str) -> Result<Arc<Host>, HostError> {
        let archive = self.bundles.archive(bundle).await?;
        let mut open = self.open.lock().await;
        open.retain(|_, host| !host.is_closed());
        if let Some(host) = open.get(&run.identity) {
            *lock(&host.used) = Instant::now();
            return Ok(Arc::clone(host));
        }
        let mut command = Command::new(&self.program);
        command.arg("__host").arg(run.id.as_str()).arg(&run.identity).arg(archive);
        command.arg("--data-dir").arg(&self.data_dir).stdin(Stdio::piped()).stdout(Stdio::piped());
        for variable in VARIABLES {
            command.env_remove(variable);
        }
        // Ctrl-C is for the worker: its hosts leave by themselves, and end the steps that nobody takes over.
        command.process_group(0);
        let start = |source| HostError::Start { program: self.program.clone(), source };
        let child = command.spawn().map_err(start)?;
        let host = Arc::new(Host::open(run.id.to_string(), child, self.talk).await?);
        open.insert(run.identity.clone(), Arc::clone(&host));
        Ok(host)
    }
}

impl Host {
    async fn open(run: String, mut child: Child, talk: Talk) -> Result<Self, HostError> {
        let ended = || HostError::Ended { run: run.clone() };
        let (stdin, stdout) = child.stdin.take().zip(child.stdout.take()).ok_or_else(ended)?;
        let mut reports = BufReader::new(stdout);
        let mut line = String::new();
        let first = tokio::time::timeout(OPEN_PATIENCE, reports.read_line(&mut line)).await;
        let is_open =
            matches!(first, Ok(Ok(_))) && matches!(serde_json::from_str(&line), Ok(Report::Open));
        if !is_open {
            return Err(ended());
        }
        let waiting = Arc::new(Mutex::new(Waiting::default()));
        let (orders, to_host) = mpsc::unbounded_channel();
        tokio::spawn(write(stdin, to_host));
        tokio::spawn(read(reports, Arc::clone(&waiting), (run.clone(), talk), child));
        Ok(Self { run, orders, waiting, used: Mutex::new(Instant::now()) })
    }

    fn order(&self, order: Order) {
        // If the host is gone, whoever waits for its report learns it.
        let _ = self.orders.send(order);
    }

    fn waiting(&self, add: impl FnOnce(&mut Waiting)) -> Result<(), HostError> {
        let mut waiting = lock(&self.waiting);
        if waiting.is_closed {
            return Err(self.ended());
        }
        add(&mut waiting);
        Ok(())
    }

    fn is_closed(&self) -> bool {
        lock(&self.waiting).is_closed
    }

    fn is_idle(&self) -> bool {
        lock(&self.used).elapsed() >= IDLE
    }

    fn ended(&self) -> HostError {
        HostError::Ended { run: self.run.clone() }
    }
}

impl HostedEnd {
    /// What came of the step; `None` if another task waits for it now.
    pub(crate) async fn wait(self) -> Result<Option<Vec<Input>>, HostError> {
        let end = self.end.await.map_err(|_| self.host.ended());
        *lock(&self.host.used) = Instant::now();
        end
    }
}

impl HostedStep {
    /// Moves its deadline: it may run so long from now on.
    pub(crate) fn extend(&self, patience: Duration) {
        self.host.order(Order::Extend { id: self.id.clone(), patience });
    }

    /// Asks the host to end it.
    pub(crate) fn cancel(&self) {
        self.host.order(Order::End(self.id.clone()));
    }
}

/// Writes orders until there are none, which tells the host to leave.
async fn write(mut stdin: ChildStdin, mut orders: mpsc::UnboundedReceiver<Order>) {
    while let Some(order) = orders.recv().await {
        let Ok(mut json) = serde_json::to_vec(&order) else { continue };
        json.push(b'\n');
        if stdin.write_all(&json).await.is_err() {
            return;
        }
    }
}

/// Passes reports on until the host ends.
async fn read(
    mut reports: BufReader<ChildStdout>,
    waiting: Arc<Mutex<Waiting>>,
    (run, talk): (String, Talk),
    mut child: Child,
) {
    let mut line = String::new();
    loop {
        line.clear();
        if !matches!(reports.read_line(&mut line).await, Ok(1..)) {
            break;
        }
        match serde_json::from_str(&line) {
            Ok(Report::Ended { id, inputs }) => {
                if let Some(step) = lock(&waiting).steps.remove(&id) {
                    let _ = step.send(Some(inputs));
                }
            }
            Ok(Report::Prepared(input)) => {
                let Input::Prepared { agent, .. } = &*input else { continue };
                let next = lock(&waiting).prepares.get_mut(agent).and_then(Vec::pop);
                if let Some(prepare) = next {
                    let _ = prepare.send(*input);
                }
            }
            Ok(Report::Located { id, sessions }) => {
                if let Some(locate) = lock(&waiting).locates.remove(&id) {
                    let _ = locate.send(sessions);
                }
            }
            Ok(Report::Trouble(text)) => talk(&format!("{run}: {text}")),
            Ok(Report::Open) => {}
            Err(error) => talk(&format!("{run}: a report cannot be read: {error}")),
        }
    }
    // Whoever waits is told by the end of the channel.
    *lock(&waiting) = Waiting { is_closed: true, ..Waiting::default() };
    let _ = child.wait().await;
}

pub(crate) fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::{
        fs::{self, File},
        path::Path,
        time::SystemTime,
    };

    use raymond_engine::store::lock::RunLock;

    use super::*;
    use crate::store::Store;

    const DAY: Duration = Duration::from_hours(24);

    /// A directory of a run as a host leaves it, so old.
    fn leave(workflows: &Path, id: &str, age: Duration) {
        fs::create_dir_all(workflows.join(id).join("main")).unwrap();
        drop(RunLock::take(&workflows.join(format!("{id}.lock"))).unwrap());
        grow_old(workflows, id, age);
    }

    fn grow_old(workflows: &Path, id: &str, age: Duration) {
        for path in [workflows.join(id), workflows.join(format!("{id}.lock"))] {
            File::open(path).unwrap().set_modified(SystemTime::now() - age).unwrap();
        }
    }

    #[tokio::test]
    async fn directories_of_runs_without_a_host_are_removed_when_they_are_old_and_all_is_delivered()
    {
        let folder = tempfile::tempdir().unwrap();
        let data_dir = folder.path().to_owned();
        let workflows = StateDir::new(&data_dir).workflows();
        let store = Store::open(
            &format!("file://{}/store", data_dir.display()),
            crate::cipher::Cipher::default(),
        )
        .unwrap();
        let bundles = Arc::new(Bundles::new(store, data_dir.join("bundles")));
        let hosts = Hosts::new(PathBuf::from("none"), data_dir, bundles, |_| {});
        for (id, days) in [("old", 8), ("young", 6), ("undelivered", 8), ("hosted", 8)] {
            leave(&workflows, id, days * DAY);
        }
        let _host = RunLock::take(&workflows.join("hosted.lock")).unwrap();
        grow_old(&workflows, "hosted", 8 * DAY);
        let kept = BTreeSet::from([RunId::new("undelivered").unwrap()]);
        hosts.tidy(7 * DAY, &kept).await;
        let mut left: Vec<_> = fs::read_dir(&workflows).unwrap().collect();
        left.retain(|entry| entry.as_ref().unwrap().path().is_dir());
        let mut left: Vec<_> = left.into_iter().map(|entry| entry.unwrap().file_name()).collect();
        left.sort();
        assert_eq!(left, ["hosted", "undelivered", "young"]);
    }
}
