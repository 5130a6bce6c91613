//! The commands: what the program says, and what it asks of Temporal.

use std::{
    cell::Cell,
    collections::BTreeSet,
    env,
    ffi::OsString,
    path::{Path, PathBuf},
    process::ExitCode,
    sync::Arc,
};

use futures::{StreamExt as _, TryStreamExt as _};
use raymond_engine::{
    exec::{host::Plan, programs},
    run::{door::LimitChange, mirror::Origin},
    store::layout::StateDir,
    worktree::moving::Delivered,
};
use raymond_flow::{
    coding_agent::CodingAgents,
    id::{AskId, RunId},
    machine::{Halt, Input, Response, Run, Started, Status},
    money::Usd,
};
use temporalio_client::{
    Client, WorkflowFetchHistoryOptions, WorkflowGetResultOptions, WorkflowHandle, WorkflowHistory,
    WorkflowIdReusePolicy, WorkflowListOptions, WorkflowQueryOptions, WorkflowSignalOptions,
    WorkflowStartOptions,
    errors::{WorkflowInteractionError, WorkflowStartError},
};

use crate::{
    activities::places,
    bundles::Bundles,
    checkouts,
    cipher::Cipher,
    cli::{Arguments, Command, KEY_FILE, LimitOptions, Place, Project, Server, heartbeat_ms},
    connection::{connect, converter},
    failure::{Failure, failed, store_failed},
    labels,
    messages::{Begin, Repository, RunInput, RunOutput, Signal, StoredCheckout, Terms},
    mirror::Source,
    replay::Replayer,
    store::Store,
    worker,
    workflow::RunWorkflow,
};

/// Says something to the person who runs this program.
pub(crate) type Talk = fn(&str);

/// Variables for this program only.
pub(crate) const VARIABLES: [&str; 3] = ["RAYMOND_PROGRAM", "RAYMOND_STORE", KEY_FILE];

/// The most runs in a list.
const LISTED_MAX: usize = 100;
/// The most runs that are checked at once.
const CHECKED_MAX: usize = 10_000;

/// The exit code after Ctrl-C.
const INTERRUPTED: u8 = 130;

/// Opens the store that the command line names, with its keys.
pub(crate) fn open_store(server: &Server) -> Result<Store, Failure> {
    let cipher = server.key_file.as_deref().map_or(Ok(Cipher::default()), Cipher::read);
    let cipher = cipher.map_err(|error| {
        let hint = error.hint().map(str::to_owned);
        Failure::new(error.to_string()).with_hint(hint)
    })?;
    Store::open(&server.store, cipher).map_err(store_failed("open the store"))
}

/// Carries out the command line. `print` is for data, `talk` for people.
pub async fn run(arguments: Arguments, print: Talk, talk: Talk) -> Result<ExitCode, Failure> {
    match arguments.command {
        Command::Worker { server, data_dir, capacity, labels, name, keep_days } => {
            worker::work(&server, &data_dir, capacity, (name, labels), keep_days, talk).await?;
            Ok(ExitCode::SUCCESS)
        }
        Command::Start { server, heartbeat, steps_per_history, place, detach, words } => {
            let user = User::connect(&server).await?;
            let planned = user.plan(&words).await?;
            if !detach {
                planned.check_place()?;
            }
            let heartbeat_ms = heartbeat_ms(heartbeat);
            let id = user.start(&planned, heartbeat_ms, steps_per_history, place).await?;
            for missed in labels::missed(&user.client, &user.queue, &planned.bundle).await {
                talk(&missed);
            }
            talk(&format!("run {id} is started"));
            if detach {
                print(&id);
                return Ok(ExitCode::SUCCESS);
            }
            user.watch(&server, &id, &planned.state_dir, (print, talk)).await
        }
        Command::Mirror { server, project, id } => {
            let user = User::connect(&server).await?;
            let mirrored = user.mirror(&server, &id, &state_dir(&project)?, talk).await?;
            let Some(status) = mirrored else { return Ok(ExitCode::from(INTERRUPTED)) };
            talk(&format!("run {id} is {status}"));
            Ok(ExitCode::SUCCESS)
        }
        Command::List { server } => User::connect(&server).await?.list(print).await,
        Command::Show { server, id } => {
            let run = User::connect(&server).await?.show(&id).await?;
            print(&serde_json::to_string(&run).map_err(failed("show the run"))?);
            Ok(ExitCode::SUCCESS)
        }
        Command::History { server, id } => {
            let history = User::connect(&server).await?.history(&id).to_json().await;
            let history = history.map_err(failed(&format!("get the history of run {id}")))?;
            print(&String::from_utf8_lossy(&history));
            Ok(ExitCode::SUCCESS)
        }
        Command::Fetch { server, id, directory } => {
            User::connect(&server).await?.fetch(&id, &directory, print).await
        }
        Command::Check { server, ids } => User::connect(&server).await?.check(ids, print).await,
        Command::Wait { server, id } => User::connect(&server).await?.wait(&id, print, talk).await,
        Command::Stop { server, id, now } => {
            User::connect(&server).await?.tell(&id, Input::Halt(Halt::Interrupted), now).await
        }
        Command::Cancel { server, id } => {
            User::connect(&server).await?.tell(&id, Input::Halt(Halt::Cancelled), true).await
        }
        Command::Answer { server, id, ask, result, comment } => {
            User::connect(&server).await?.answer(&id, &ask, (result, comment)).await
        }
        Command::Limit { server, id, limits } => {
            User::connect(&server).await?.limit(&id, &limits, talk).await
        }
        Command::Resume { server, id, budget, detach, project } => {
            let (user, state_dir) = (User::connect(&server).await?, state_dir(&project)?);
            user.resume(&id, budget).await?;
            if detach {
                return Ok(ExitCode::SUCCESS);
            }
            user.watch(&server, &id, &state_dir, (print, talk)).await
        }
    }
}

/// The local program, which runs beside this one.
pub(crate) fn local_program() -> Result<PathBuf, Failure> {
    let beside = env::current_exe().ok().map(|own| own.with_file_name("raymond"));
    let beside = beside.and_then(|path| programs::find(path.to_str()?));
    let named = env::var_os("RAYMOND_PROGRAM").map(PathBuf::from);
    named.or(beside).or_else(|| programs::find("raymond")).ok_or_else(|| Failure {
        message: "`raymond` is not installed".to_owned(),
        hint: Some("put it beside raymond-cluster or on the search path".to_owned()),
    })
}

/// The state directory of the project.
fn state_dir(project: &Project) -> Result<StateDir, Failure> {
    let state_dir = match &project.data_dir {
        Some(folder) => {
            StateDir::new(std::path::absolute(folder).map_err(failed("find --data-dir"))?)
        }
        None => StateDir::of_project(&env::current_dir().map_err(failed("find the project"))?),
    };
    state_dir.check().map_err(failed("use the directory of runs"))?;
    Ok(state_dir)
}

/// What `start` is about to start.
struct Planned {
    started: Started,
    coding_agents: CodingAgents,
    /// The archive with the workflow's files.
    bundle: Vec<u8>,
    /// The state directory of the project.
    state_dir: StateDir,
}

impl Planned {
    /// Refuses a run whose id another one has here.
    fn check_place(&self) -> Result<(), Failure> {
        let id = &self.started.workflow_id;
        if !self.state_dir.run(id).journal.exists() {
            return Ok(());
        }
        let place = self.state_dir.root().display();
        let failure = Failure::new(format!("there is a run {id} already in {place}"));
        Err(failure.with_hint("choose another id: --id NAME, after the workflow".to_owned()))
    }
}

/// A user of the cluster.
struct User {
    client: Client,
    store: Store,
    queue: String,
}

/// A run on the server.
pub(crate) type Handle = WorkflowHandle<Client, RunWorkflow>;

/// Tells a run what a user wants of it.
pub(crate) async fn tell(
    handle: &Handle,
    input: Input,
    ends_steps: bool,
) -> Result<(), WorkflowInteractionError> {
    let workers = if ends_steps {
        let names: BTreeSet<_> =
            places(handle).await?.into_iter().map(|place| place.worker).collect();
        names.into_iter().collect()
    } else {
        Vec::new()
    };
    let signal = Signal { input, ends_steps, workers };
    handle.signal(RunWorkflow::tell, signal, WorkflowSignalOptions::default()).await
}

impl User {
    async fn connect(server: &Server) -> Result<Self, Failure> {
        let store = open_store(server)?;
        let client = connect(server, &store, &format!("raymond-{}", std::process::id())).await?;
        Ok(Self { client, store, queue: server.queue.clone() })
    }

    /// Refuses what would be sent without the key of the cluster: others could read it, or, with another key, the run
    /// could not, and would be held up for ever. A store that is down stops nobody from cancelling a run.
    async fn check_store(&self) -> Result<(), Failure> {
        match self.store.check().await {
            Err(error) if !error.is_transient() => Err(store_failed("use the store")(error)),
            Ok(()) | Err(_) => Ok(()),
        }
    }

    fn handle(&self, id: &str) -> Handle {
        self.client.get_workflow_handle::<RunWorkflow>(id)
    }

    /// Plans a run with the local program.
    async fn plan(&self, words: &[OsString]) -> Result<Planned, Failure> {
        let folder = tempfile::tempdir().map_err(failed("create a directory"))?;
        let bundle = folder.path().join("bundle.zip");
        let mut command = tokio::process::Command::new(local_program()?);
        command.arg("__plan").arg("--bundle").arg(&bundle).args(words);
        for variable in VARIABLES {
            command.env_remove(variable);
        }
        let planned = command.stderr(std::process::Stdio::inherit()).output().await;
        let planned = planned.map_err(failed("run the local program"))?;
        if !planned.status.success() {
            return Err(Failure::new("nothing was started"));
        }
        let Plan { started, coding_agents, state_dir } =
            serde_json::from_slice(&planned.stdout).map_err(failed("read the plan"))?;
        let bundle = std::fs::read(&bundle).map_err(failed("read the bundle"))?;
        let identity = uuid::Uuid::new_v4().simple().to_string();
        let started = Started { identity, ..started };
        Ok(Planned { started, coding_agents, bundle, state_dir: StateDir::new(state_dir) })
    }

    /// Stores the repository that contains `directory`.
    async fn pack(&self, directory: &str) -> Result<Repository, Failure> {
        let packed = checkouts::pack(&self.store, directory).await;
        let failure = |message| Failure::new(format!("cannot start: {message}"));
        packed.map_err(failure)
    }

    /// Starts a run.
    async fn start(
        &self,
        planned: &Planned,
        heartbeat_ms: u64,
        steps_per_history: u32,
        place: Place,
    ) -> Result<String, Failure> {
        self.check_store().await?;
        let bytes = planned.bundle.clone();
        let bundle = self.store.put(bytes).await.map_err(store_failed("store the bundle"))?;
        let id = planned.started.workflow_id.to_string();
        let begin = Begin::New(planned.started.clone());
        let repository = match place {
            Place::Shared => None,
            Place::Git => Some(self.pack(&planned.started.cwd).await?),
        };
        let terms = Terms {
            bundle,
            coding_agents: planned.coding_agents.clone(),
            heartbeat_ms,
            steps_per_history,
            repository,
        };
        self.begin(&id, RunInput { begin, terms }, WorkflowIdReusePolicy::RejectDuplicate).await?;
        Ok(id)
    }

    /// Mirrors a run until it ends or rests, and prints its result. Whatever happens to the mirror, the run goes on.
    async fn watch(
        &self,
        server: &Server,
        id: &str,
        state_dir: &StateDir,
        (print, talk): (Talk, Talk),
    ) -> Result<ExitCode, Failure> {
        match self.mirror(server, id, state_dir, talk).await {
            Ok(Some(_)) => {}
            Ok(None) => return Ok(ExitCode::from(INTERRUPTED)),
            Err(failure) => talk(&failure.to_string()),
        }
        self.wait(id, print, talk).await
    }

    /// Mirrors a run until it ends or rests; `None` if Ctrl-C came first.
    async fn mirror(
        &self,
        server: &Server,
        id: &str,
        state_dir: &StateDir,
        talk: Talk,
    ) -> Result<Option<Status>, Failure> {
        let mut options = server.options();
        let usual = env::current_dir().map(|here| StateDir::of_project(&here));
        if usual.is_ok_and(|usual| usual != *state_dir) {
            options.push(("--data-dir".to_owned(), state_dir.root().display().to_string()));
        }
        let (handle, store) = (self.handle(id), self.store.clone());
        let id = RunId::new(id).map_err(failed("read the id of the run"))?;
        let (origin, is_silent) = (Origin { options }, Cell::new(false));
        let source = Source { id, handle, store, origin, talk, is_silent };
        tokio::select! {
            mirrored = source.mirror(state_dir) => mirrored.map(Some),
            interrupted = tokio::signal::ctrl_c() => {
                interrupted.map_err(failed("wait for signals"))?;
                let id = &source.id;
                talk(&format!("run {id} goes on; mirror it again: raymond cluster mirror {id}"));
                Ok(None)
            }
        }
    }

    async fn begin(
        &self,
        id: &str,
        input: RunInput,
        reuse: WorkflowIdReusePolicy,
    ) -> Result<(), Failure> {
        let options = WorkflowStartOptions::new(&self.queue, id).id_reuse_policy(reuse).build();
        let begun = self.client.start_workflow(RunWorkflow::run, input, options).await;
        begun.map(drop).map_err(|error| {
            let is_taken = matches!(error, WorkflowStartError::AlreadyStarted { .. });
            let failure = failed(&format!("start run {id}"))(error);
            if is_taken {
                failure.with_hint("choose another id: --id NAME, after the workflow".to_owned())
            } else {
                failure
            }
        })
    }

    /// Waits until a run ends or rests, and prints its result. The exit code is that of `raymond start`.
    async fn wait(&self, id: &str, print: Talk, talk: Talk) -> Result<ExitCode, Failure> {
        let RunOutput { run, .. } = self.output(id).await?;
        if let Some(result) = &run.result {
            print(&result.to_string());
        }
        let (status, cost) = (run.status, run.total_cost_usd);
        talk(&format!("run {id} is {status}; cost {cost}"));
        Ok(match status {
            Status::Completed => ExitCode::SUCCESS,
            Status::Running | Status::Failed | Status::Cancelled => ExitCode::FAILURE,
            Status::Stopped => ExitCode::from(3),
            Status::Paused => ExitCode::from(4),
        })
    }

    async fn output(&self, id: &str) -> Result<RunOutput, Failure> {
        let output = self.handle(id).get_result(WorkflowGetResultOptions::default()).await;
        output.map_err(failed(&format!("get the end of run {id}")))
    }

    async fn show(&self, id: &str) -> Result<Run, Failure> {
        self.check_store().await?;
        let handle = self.handle(id);
        let shown = handle.query(RunWorkflow::show, (), WorkflowQueryOptions::default());
        let run = shown.await.map_err(failed(&format!("show run {id}")))?;
        run.ok_or_else(|| Failure {
            message: format!("run {id} has not begun"),
            hint: Some("is there a worker? Start one: raymond cluster worker".to_owned()),
        })
    }

    /// Brings the branches of a run to the repository at `directory`.
    async fn fetch(&self, id: &str, directory: &Path, print: Talk) -> Result<ExitCode, Failure> {
        let handle = self.handle(id);
        let work = handle.query(RunWorkflow::work, (), WorkflowQueryOptions::default()).await;
        let work = work.map_err(failed(&format!("ask for the work of run {id}")))?;
        let work = work.unwrap_or_default();
        if work.is_empty() {
            return Err(Failure {
                message: format!("no agent of run {id} has committed anything yet"),
                hint: Some("only runs that were started with --place git have branches".to_owned()),
            });
        }
        let delivered = checkouts::deliver(&self.store, &work, directory).await;
        let delivered = delivered.map_err(|error| {
            failed(&format!("fetch into {}", directory.display()))(error)
                .with_hint("use a clone of the repository in which the run was started".to_owned())
        })?;
        let mut code = ExitCode::SUCCESS;
        for (branch, how) in delivered {
            let how = match how {
                Delivered::New => "fetched",
                Delivered::Same => "is up to date",
                Delivered::Different => {
                    code = ExitCode::FAILURE;
                    "is there with other commits, or checked out, and was not changed: rename it (git branch -m)"
                }
            };
            print(&format!("{branch}  {how}"));
        }
        for StoredCheckout { branch, problem, .. } in work {
            if let Some(problem) = problem {
                code = ExitCode::FAILURE;
                print(&format!("{branch}  not saved: {problem}"));
            }
        }
        Ok(code)
    }

    async fn list(&self, print: Talk) -> Result<ExitCode, Failure> {
        for (id, status) in self.found("WorkflowType = 'raymond_run'", LISTED_MAX).await? {
            print(&format!("{id}  {status}"));
        }
        Ok(ExitCode::SUCCESS)
    }

    /// The ids and states of the runs that `query` finds, at most `max`.
    async fn found(&self, query: &str, max: usize) -> Result<Vec<(String, String)>, Failure> {
        let runs = self.client.list_workflows(query, WorkflowListOptions::default());
        let named = runs.map_ok(|run| (run.id().to_owned(), format!("{:?}", run.status())));
        named.take(max).try_collect().await.map_err(failed("list the runs"))
    }

    fn history(&self, id: &str) -> WorkflowHistory {
        self.handle(id).fetch_history(WorkflowFetchHistoryOptions::default())
    }

    /// Replays the histories of these runs, or of all that are running, and says which this program can go on with.
    async fn check(&self, mut ids: Vec<String>, print: Talk) -> Result<ExitCode, Failure> {
        if ids.is_empty() {
            let running = "WorkflowType = 'raymond_run' AND ExecutionStatus = 'Running'";
            let running = self.found(running, CHECKED_MAX).await?;
            ids.extend(running.into_iter().map(|(id, _)| id));
        }
        let folder = tempfile::tempdir().map_err(failed("create a directory"))?;
        let bundles = Bundles::new(self.store.clone(), folder.path().to_owned());
        let replayer = Replayer::new(Arc::new(bundles), converter(&self.store))?;
        let mut code = ExitCode::SUCCESS;
        for id in ids {
            let difference = replayer.difference(self.history(&id)).await;
            match difference.map_err(failed(&format!("replay run {id}")))? {
                None => print(&format!("{id}  fits")),
                Some(difference) => {
                    print(&format!("{id}  does not fit: {difference}"));
                    code = ExitCode::FAILURE;
                }
            }
        }
        Ok(code)
    }

    async fn tell(&self, id: &str, input: Input, ends_steps: bool) -> Result<ExitCode, Failure> {
        self.check_store().await?;
        let told = tell(&self.handle(id), input, ends_steps).await;
        told.map_err(failed(&format!("tell run {id}")))?;
        Ok(ExitCode::SUCCESS)
    }

    async fn answer(
        &self,
        id: &str,
        ask: &str,
        (result, comment): (String, String),
    ) -> Result<ExitCode, Failure> {
        let run = self.show(id).await?;
        let found = AskId::parse(ask).and_then(|ask| Some((run.question(&ask)?.clone(), ask)));
        let Some((question, ask)) = found else {
            let open: Vec<_> = run.questions().map(|(id, ..)| id.to_string()).collect();
            return Err(Failure {
                message: format!("run {id} asks no question {ask}"),
                hint: Some(format!("open questions: {}", open.join(", "))),
            });
        };
        if question.target(&result).is_none() {
            let labels: Vec<_> = question.choices.iter().map(|choice| &*choice.label).collect();
            return Err(Failure {
                message: format!("`{result}` is not one of the choices"),
                hint: Some(format!("choices: {}", labels.join(", "))),
            });
        }
        let response = Response {
            result,
            comment,
            files: None,
            by: env::var("USER").unwrap_or_default(),
            how: "command".to_owned(),
            at_ms: raymond_engine::sys::clock::now_ms(),
            attachments: Vec::new(),
        };
        self.tell(id, Input::Answered { id: ask, response: Box::new(response) }, false).await
    }

    /// Changes the limits of a run that is running.
    async fn limit(
        &self,
        id: &str,
        options: &LimitOptions,
        talk: Talk,
    ) -> Result<ExitCode, Failure> {
        let run = self.show(id).await?;
        if run.status != Status::Running {
            return Err(Failure {
                message: format!("run {id} is {}: it has no limits to change", run.status),
                hint: run.status.can_resume().then(|| {
                    format!(
                        "resume it with another budget: raymond cluster resume {id} --budget USD"
                    )
                }),
            });
        }
        let change = LimitChange {
            budget_usd: options.budget.map(dollars).transpose()?,
            max_iterations: options.max_iterations,
            max_parallel: options.max_parallel,
            ..LimitChange::default()
        };
        let limits = change.apply(run.limits);
        let code = self.tell(id, Input::ChangeLimits { limits }, false).await?;
        talk(&format!("run {id} has the new limits"));
        Ok(code)
    }

    async fn resume(&self, id: &str, budget: Option<f64>) -> Result<(), Failure> {
        self.check_store().await?;
        let RunOutput { run, terms, segments, stored } = self.output(id).await?;
        if !run.status.can_resume() {
            let message = format!("run {id} is {} and cannot be resumed", run.status);
            return Err(Failure::new(message));
        }
        let budget_usd = budget.map(dollars).transpose()?;
        let change = LimitChange { budget_usd, ..LimitChange::default() };
        let (settings, limits) = (run.settings.clone(), change.apply(run.limits.clone()));
        let input = Input::Resume { settings, limits };
        let begin = Begin::Resumed { run, input, segments, stored };
        let input = RunInput { begin, terms };
        self.begin(id, input, WorkflowIdReusePolicy::AllowDuplicate).await
    }
}

/// The amount that `--budget` gives.
fn dollars(dollars: f64) -> Result<Usd, Failure> {
    Usd::from_dollars(dollars).ok_or_else(|| Failure {
        message: format!("`--budget {dollars}` is not an amount of dollars"),
        hint: None,
    })
}
