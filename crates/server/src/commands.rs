//! Every change: each is carried out by a command of `raymond` with `--json`, as if the user had typed it. So the server needs no
//! way of its own to change a run, and what the command line refuses is refused here with the same message and hints.
//!
//! The network may do less than the command line: no path, program, permission or environment comes from a request.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    io::{self, Write as _},
    process::{Command, Output, Stdio},
    sync::Arc,
    thread,
    time::Duration,
};

use axum::{
    Json,
    extract::{Path, State},
    http::StatusCode,
};
use raymond_engine::asks;
use raymond_flow::{id::RunId, money::Usd};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::{sync::oneshot, time::timeout};

use crate::{
    app::App,
    asks::FoundAsk,
    error::{ApiError, ApiResult},
    projects::Project,
    request::{Body, NamedRun},
    uploads::Uploads,
};

/// How many variables a run can be given.
const VARIABLES_MAX: usize = 100;
/// The longest variable with its name: it becomes an argument of a command, and those are limited by the system.
const VARIABLE_BYTES_MAX: usize = 64 * 1024;
/// How long a command may take. `raymond cancel` waits up to a minute for the steps of the run.
const COMMAND_PATIENCE: Duration = Duration::from_secs(75);

/// The body of a request to start a run.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct StartRequest {
    input: Option<String>,
    variables: BTreeMap<String, String>,
    budget_usd: Option<f64>,
    id: Option<String>,
}

impl StartRequest {
    /// The options of the command, but for the budget.
    fn options(&self) -> ApiResult<Vec<OsString>> {
        if self.variables.len() > VARIABLES_MAX {
            let message = format!("`variables`: at most {VARIABLES_MAX}");
            return Err(ApiError::bad_request(message));
        }
        let is_long =
            |(name, value): &(&String, &String)| name.len() + value.len() > VARIABLE_BYTES_MAX;
        if let Some((name, _)) = self.variables.iter().find(is_long) {
            let message = format!("`variables`: `{name}` has more than {VARIABLE_BYTES_MAX} bytes");
            return Err(ApiError::bad_request(message).with_hint("give a long text as the input"));
        }
        let mut options = vec!["--detach".into()];
        if let Some(id) = &self.id {
            let wrong = |error| ApiError::bad_request(format!("`id`: {error}"));
            RunId::for_new_run(id).map_err(wrong)?;
            options.push(format!("--id={id}").into());
        }
        let variables = self.variables.iter();
        options.extend(variables.map(|(name, value)| format!("--var={name}={value}").into()));
        options.extend(self.input.is_some().then(|| "--input=-".into()));
        Ok(options)
    }
}

/// `POST /api/workflows/{workflow}/runs`
pub(crate) async fn start(
    State(app): State<Arc<App>>,
    Path(workflow): Path<String>,
    Body(start): Body<StartRequest>,
) -> ApiResult<(StatusCode, Json<Value>)> {
    let mut options = start.options()?;
    let found = app.read(move |app| {
        let workflow = app.workflow(&workflow)?;
        let budget = if let Some(dollars) = start.budget_usd {
            Some(app.capped(dollars)?)
        } else {
            // That of the project may not exceed the cap either.
            let usual = app.host.budget(&workflow.project.state_dir);
            app.budget_max.filter(|most| usual.is_none_or(|usual| usual > *most))
        };
        Ok((workflow, budget))
    });
    let (workflow, budget) = found.await?;
    options.extend(budget.map(|budget| format!("--budget={}", budget.dollars()).into()));
    let project = &workflow.project;
    let mut run =
        command(&app, project, "start", options, vec![workflow.path.into()], start.input).await?;
    run["project"] = json!(project.key);
    Ok((StatusCode::CREATED, Json(run)))
}

/// The body of a request to change limits, also of a run that is resumed; absent ones stay.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct LimitsRequest {
    budget_usd: Option<f64>,
    max_iterations: Option<u64>,
    max_parallel: Option<u32>,
    max_retries: Option<u32>,
}

impl LimitsRequest {
    fn options(&self, app: &App) -> ApiResult<Vec<OsString>> {
        let budget = self.budget_usd.map(|dollars| app.capped(dollars)).transpose()?;
        let options = [
            budget.map(|budget| format!("--budget={}", budget.dollars())),
            self.max_iterations.map(|most| format!("--max-iterations={most}")),
            self.max_parallel.map(|most| format!("--max-parallel={most}")),
            self.max_retries.map(|most| format!("--retries={most}")),
        ];
        Ok(options.into_iter().flatten().map(OsString::from).collect())
    }
}

/// `POST /api/runs/{project}/{run}/resume`
pub(crate) async fn resume(
    run: NamedRun,
    Body(limits): Body<LimitsRequest>,
) -> ApiResult<Json<Value>> {
    let mut options = limits.options(&run.app)?;
    options.push("--detach".into());
    run.change("resume", options, &[], None).await
}

/// `POST /api/runs/{project}/{run}/limits`
pub(crate) async fn limits(
    run: NamedRun,
    Body(limits): Body<LimitsRequest>,
) -> ApiResult<Json<Value>> {
    let options = limits.options(&run.app)?;
    if options.is_empty() {
        let message = "expected `budget_usd`, `max_iterations`, `max_parallel` or `max_retries`";
        return Err(ApiError::bad_request(message));
    }
    run.change("limit", options, &[], None).await
}

/// The body of a request to stop a run.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Stop {
    now: bool,
}

/// `POST /api/runs/{project}/{run}/stop`
pub(crate) async fn stop(run: NamedRun, Body(stop): Body<Stop>) -> ApiResult<Json<Value>> {
    let now = stop.now.then(|| "--now".into());
    run.change("stop", now.into_iter().collect(), &[], None).await
}

/// The body of a request that has no parameters.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Nothing {}

/// `POST /api/runs/{project}/{run}/cancel`
pub(crate) async fn cancel(
    run: NamedRun,
    Body(Nothing {}): Body<Nothing>,
) -> ApiResult<Json<Value>> {
    run.change("cancel", vec!["--yes".into()], &[], None).await
}

/// The body of a request to tell an agent something.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TellRequest {
    agent: String,
    text: String,
}

/// `POST /api/runs/{project}/{run}/tell`
pub(crate) async fn tell(
    run: NamedRun,
    Body(TellRequest { agent, text }): Body<TellRequest>,
) -> ApiResult<Json<Value>> {
    run.change("tell", Vec::new(), &[&agent, "-"], Some(line(text))).await
}

/// The body of a request to answer a question.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct AnswerRequest {
    label: Option<String>,
    text: String,
    files: Vec<String>,
}

/// `POST /api/asks/{project}/{run}/{ask}/answer`
pub(crate) async fn answer(
    run: NamedRun,
    Body(AnswerRequest { label, text, files }): Body<AnswerRequest>,
) -> ApiResult<Json<Value>> {
    // The command would take the name of no question for a label.
    let uploads =
        FoundAsk::read(run.clone(), move |run, _| Uploads::named(&run.app.user_dir, &files));
    let uploads = uploads.await?;
    let mut options: Vec<OsString> = vec![format!("--how={}", asks::PAGE).into()];
    // Also an empty one: a label together with a text is no answer where there are no choices.
    options.push("--text=-".into());
    options.extend(uploads.files.iter().flat_map(|file| ["--file".into(), file.into()]));
    let operands: Vec<&str> = [&*run.names.ask].into_iter().chain(label.as_deref()).collect();
    let given = run.change("answer", options, &operands, Some(line(text))).await?;
    // They were handed over.
    let removed = run.app.read(move |_| {
        uploads.remove();
        Ok(())
    });
    removed.await?;
    Ok(given)
}

/// A text on standard input: a command drops one line end.
fn line(text: String) -> String {
    text + "\n"
}

impl App {
    /// Checks an amount from a request: above 0, since 0 would mean no limit, and at most the server's cap.
    fn capped(&self, dollars: f64) -> ApiResult<Usd> {
        let amount = Usd::from_dollars(dollars).filter(|amount| *amount > Usd::ZERO);
        let amount = amount.ok_or_else(|| {
            ApiError::bad_request("`budget_usd`: expected an amount of dollars above 0")
        })?;
        match self.budget_max {
            Some(most) if amount > most => {
                let message = format!("`budget_usd`: this server allows at most {most}");
                let hint =
                    "raymond serve --max-budget USD, or change the budget with raymond limit";
                Err(ApiError::bad_request(message).with_hint(hint))
            }
            _ => Ok(amount),
        }
    }
}

impl NamedRun {
    /// Carries out a command about the run, which comes before the other `operands`.
    async fn change(
        &self,
        verb: &str,
        options: Vec<OsString>,
        operands: &[&str],
        input: Option<String>,
    ) -> ApiResult<Json<Value>> {
        let operands = [&[self.id.as_str()], operands].concat();
        let operands = operands.into_iter().map(OsString::from).collect();
        command(&self.app, &self.project, verb, options, operands, input).await.map(Json)
    }
}

/// Carries out a command of this program in a project, and returns what it printed.
async fn command(
    app: &App,
    project: &Project,
    verb: &str,
    options: Vec<OsString>,
    operands: Vec<OsString>,
    input: Option<String>,
) -> ApiResult<Value> {
    let mut command = Command::new(&app.program);
    command.args([verb, "--json", "--data-dir"]).arg(project.state_dir.root()).args(options);
    // What a client has named is no option.
    command.arg("--").args(operands).current_dir(project.folder());
    let (sender, ended) = oneshot::channel();
    // A thread of its own: a command that hangs must not hold up those that read files.
    thread::spawn(move || sender.send(output(command, input)));
    let Ok(Ok(output)) = timeout(COMMAND_PATIENCE, ended).await else {
        let message = format!("`raymond {verb}` has not answered yet; it goes on");
        return Err(ApiError::busy(message).with_hint("look at the run again in a minute"));
    };
    let failed = |error| ApiError::failed(format!("cannot run `raymond {verb}`: {error}"));
    let Output { status, stdout, stderr } = output.map_err(failed)?;
    if !status.success() {
        return Err(ApiError::of_command(&String::from_utf8_lossy(&stderr)));
    }
    serde_json::from_slice(&stdout).map_err(|error| failed(error.into()))
}

/// Runs a command to its end.
fn output(mut command: Command, input: Option<String>) -> io::Result<Output> {
    command.stdin(if input.is_some() { Stdio::piped() } else { Stdio::null() });
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    if let (Some(input), Some(mut stdin)) = (input, child.stdin.take()) {
        // A command that refuses at once does not read it.
        let _ = stdin.write_all(input.as_bytes());
    }
    child.wait_with_output()
}
