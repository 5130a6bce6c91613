//! Changes: each is carried out by a command of `raymond`, as if the user had typed it. So the server needs no way of
//! its own to change a run, and what the command line refuses is refused here in the same words.
//!
//! The network may do less than the command line: no path, program, permission or environment comes from a request.

use std::{
    collections::BTreeMap,
    io::Write as _,
    process::{Command, Output, Stdio},
    sync::{Arc, mpsc},
    thread,
    time::{Duration, Instant},
};

use axum::{
    Json,
    extract::{Path, State},
    http::StatusCode,
};
use raymond_flow::{
    id::{AskId, RunId},
    machine::Run,
    money::Usd,
};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{
    app::App,
    error::{ApiError, ApiResult},
    projects::Project,
    request::Body,
    shelf::lock,
};

/// How many variables a run can be given.
const VARIABLES_MAX: usize = 100;
/// The longest variable with its name: it becomes an argument of a command, and those are limited by the system.
const VARIABLE_BYTES_MAX: usize = 64 * 1024;
/// How long a command may take. `raymond cancel` waits up to a minute for the steps of the run.
const COMMAND_PATIENCE: Duration = Duration::from_secs(75);
/// How long the orchestrator of a run may take to take an answer, until the client is told that it is durable.
const TAKE_PATIENCE: Duration = Duration::from_secs(5);
const TAKE_INTERVAL: Duration = Duration::from_millis(20);

/// The body of a request to start a run.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct StartRequest {
    input: Option<String>,
    variables: BTreeMap<String, String>,
    budget_usd: Option<f64>,
    id: Option<String>,
}

/// `POST /api/workflows/{workflow}/runs`
pub(crate) async fn start(
    State(app): State<Arc<App>>,
    Path(workflow): Path<String>,
    Body(start): Body<StartRequest>,
) -> ApiResult<(StatusCode, Json<Value>)> {
    app.read(move |app| {
        let workflow = app.workflow(&workflow)?;
        let budget = app.budget(&workflow.project, start.budget_usd)?;
        if start.variables.len() > VARIABLES_MAX {
            let message = format!("`variables`: at most {VARIABLES_MAX}");
            return Err(ApiError::bad_request(message));
        }
        let is_long =
            |(name, value): &(&String, &String)| name.len() + value.len() > VARIABLE_BYTES_MAX;
        if let Some((name, _)) = start.variables.iter().find(is_long) {
            let message = format!("`variables`: `{name}` has more than {VARIABLE_BYTES_MAX} bytes");
            return Err(ApiError::bad_request(message).with_hint("give a long text as the input"));
        }
        let mut words = vec!["start".to_owned(), "--detach".to_owned()];
        if let Some(id) = &start.id {
            let wrong = |error| ApiError::bad_request(format!("`id`: {error}"));
            RunId::for_new_run(id).map_err(wrong)?;
            words.push(format!("--id={id}"));
        }
        for (name, value) in &start.variables {
            words.push(format!("--var={name}={value}"));
        }
        if let Some(budget) = budget {
            words.push(format!("--budget={}", budget.dollars()));
        }
        if start.input.is_some() {
            words.push("--input=-".to_owned());
        }
        let path = workflow.path.to_str();
        let path = path.ok_or_else(|| ApiError::refused("the path of the workflow is not text"))?;
        words.extend(["--".to_owned(), path.to_owned()]);
        let said = app.command(&workflow.project, &words, start.input.as_deref())?;
        let run = said.trim();
        let answer = json!({ "project": workflow.project.key, "run": run });
        Ok((StatusCode::CREATED, Json(answer)))
    })
    .await
}

/// The body of a request to resume a run.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Resume {
    budget_usd: Option<f64>,
    max_iterations: Option<u64>,
}

/// `POST /api/runs/{project}/{run}/resume`
pub(crate) async fn resume(
    State(app): State<Arc<App>>,
    Path((project, run)): Path<(String, String)>,
    Body(resume): Body<Resume>,
) -> ApiResult<Json<Value>> {
    app.read(move |app| {
        let (project, id) = app.named(&project, &run)?;
        let mut words = vec!["resume".to_owned(), "--detach".to_owned()];
        if let Some(dollars) = resume.budget_usd {
            words.push(format!("--budget={}", app.capped(dollars)?.dollars()));
        }
        words.extend(resume.max_iterations.map(|most| format!("--max-iterations={most}")));
        words.push(id.to_string());
        app.command(&project, &words, None)?;
        app.after(&project, &id)
    })
    .await
}

/// The body of a request to stop a run.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Stop {
    now: bool,
}

/// `POST /api/runs/{project}/{run}/stop`
pub(crate) async fn stop(
    State(app): State<Arc<App>>,
    Path((project, run)): Path<(String, String)>,
    Body(stop): Body<Stop>,
) -> ApiResult<Json<Value>> {
    app.read(move |app| {
        let (project, id) = app.named(&project, &run)?;
        let mut words = vec!["stop".to_owned()];
        words.extend(stop.now.then(|| "--now".to_owned()));
        words.push(id.to_string());
        app.command(&project, &words, None)?;
        app.after(&project, &id)
    })
    .await
}

/// The body of a request that has no parameters.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Nothing {}

/// `POST /api/runs/{project}/{run}/cancel`
pub(crate) async fn cancel(
    State(app): State<Arc<App>>,
    Path((project, run)): Path<(String, String)>,
    Body(Nothing {}): Body<Nothing>,
) -> ApiResult<Json<Value>> {
    app.read(move |app| {
        let (project, id) = app.named(&project, &run)?;
        let words = ["cancel".to_owned(), "--yes".to_owned(), id.to_string()];
        app.command(&project, &words, None)?;
        app.after(&project, &id)
    })
    .await
}

/// The body of a request to change limits; absent ones stay.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct LimitsRequest {
    budget_usd: Option<f64>,
    max_iterations: Option<u64>,
    max_parallel: Option<u32>,
    max_retries: Option<u32>,
}

/// `POST /api/runs/{project}/{run}/limits`
pub(crate) async fn limits(
    State(app): State<Arc<App>>,
    Path((project, run)): Path<(String, String)>,
    Body(limits): Body<LimitsRequest>,
) -> ApiResult<Json<Value>> {
    app.read(move |app| {
        let (project, id) = app.named(&project, &run)?;
        let mut words = vec!["limit".to_owned()];
        if let Some(dollars) = limits.budget_usd {
            words.push(format!("--budget={}", app.capped(dollars)?.dollars()));
        }
        words.extend(limits.max_iterations.map(|most| format!("--max-iterations={most}")));
        words.extend(limits.max_parallel.map(|most| format!("--max-parallel={most}")));
        words.extend(limits.max_retries.map(|most| format!("--retries={most}")));
        if words.len() == 1 {
            let message =
                "expected `budget_usd`, `max_iterations`, `max_parallel` or `max_retries`";
            return Err(ApiError::bad_request(message));
        }
        words.push(id.to_string());
        app.command(&project, &words, None)?;
        app.after(&project, &id)
    })
    .await
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
    State(app): State<Arc<App>>,
    Path((project, run)): Path<(String, String)>,
    Body(TellRequest { agent, text }): Body<TellRequest>,
) -> ApiResult<Json<Value>> {
    app.read(move |app| {
        let (project, id) = app.named(&project, &run)?;
        let words = ["tell", "--", id.as_str(), &agent, "-"].map(str::to_owned);
        app.command(&project, &words, Some(&text))?;
        app.after(&project, &id)
    })
    .await
}

impl App {
    /// A run that is there.
    fn named(&self, project: &str, run: &str) -> ApiResult<(Project, RunId)> {
        let project = self.project(project)?;
        let (id, _) = project.run(run)?;
        Ok((project, id))
    }

    /// The view of a run after a change.
    fn after(&self, project: &Project, id: &RunId) -> ApiResult<Json<Value>> {
        let run = self.open(project, id.as_str())?;
        let run = lock(&run);
        let status = run.overview.run().map(|it| raymond_engine::views::status_word(it, &run.live));
        let running = run.overview.running().count();
        Ok(Json(json!({ "run": id, "status": status, "running_steps": running })))
    }

    /// Waits until the run has taken the answer to a question. If no orchestrator runs it, resumes it in the background.
    /// Returns whether it was resumed. If that fails, the answer is durable all the same.
    pub(crate) fn go_on(&self, project: &Project, id: &RunId, ask: &AskId) -> bool {
        let deadline = Instant::now() + TAKE_PATIENCE;
        while Instant::now() < deadline {
            let Ok(run) = self.open(project, id.as_str()) else { return false };
            let (is_waiting, is_owned) = {
                let run = lock(&run);
                let waits = |run: &Run| run.status.can_resume() && run.question(ask).is_some();
                (run.overview.run().is_some_and(waits), run.live.owner.is_some())
            };
            if !is_waiting {
                return false;
            }
            if !is_owned {
                let words = ["resume".to_owned(), "--detach".to_owned(), id.to_string()];
                return self.command(project, &words, None).is_ok();
            }
            // Its orchestrator was told of the answer. It may also be about to leave without having looked.
            thread::sleep(TAKE_INTERVAL);
        }
        false
    }

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

    /// The budget of a new run: what was asked for; else that of the project, which may not exceed the cap either.
    fn budget(&self, project: &Project, asked: Option<f64>) -> ApiResult<Option<Usd>> {
        if let Some(dollars) = asked {
            return self.capped(dollars).map(Some);
        }
        let usual = self.host.budget(&project.state_dir);
        Ok(self.budget_max.filter(|most| usual.is_none_or(|usual| usual > *most)))
    }

    /// Carries out a command of this program in a project, and returns what it printed.
    fn command(
        &self,
        project: &Project,
        words: &[String],
        input: Option<&str>,
    ) -> ApiResult<String> {
        let failed = |error: std::io::Error| {
            ApiError::unreadable(format!("cannot run `raymond {}`: {error}", words[0]))
        };
        let mut command = Command::new(&self.program);
        // Options come first: whatever follows `--` is a path.
        command.arg(&words[0]).arg("--data-dir").arg(project.state_dir.root()).args(&words[1..]);
        command.current_dir(project.folder()).env("NO_COLOR", "1");
        command.stdin(if input.is_some() { Stdio::piped() } else { Stdio::null() });
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(failed)?;
        let (input, (sender, ended)) = (input.map(str::to_owned), mpsc::channel());
        // A thread that the request does not wait for: a command that hangs must not hold up the readers.
        thread::spawn(move || {
            if let (Some(input), Some(mut stdin)) = (input, child.stdin.take()) {
                // A command that refuses at once does not read it.
                let _ = stdin.write_all(input.as_bytes());
            }
            let _ = sender.send(child.wait_with_output());
        });
        let Ok(output) = ended.recv_timeout(COMMAND_PATIENCE) else {
            let message = format!("`raymond {}` has not answered yet; it goes on", words[0]);
            return Err(ApiError::busy(message).with_hint("look at the run again in a minute"));
        };
        let Output { status, stdout, stderr } = output.map_err(failed)?;
        if status.success() {
            return Ok(String::from_utf8_lossy(&stdout).into_owned());
        }
        Err(refusal(&String::from_utf8_lossy(&stderr)))
    }
}

/// What a command says when it refuses: `error: …`, and `hint: …` after it.
fn refusal(said: &str) -> ApiError {
    let (message, hint) = said.split_once("\nhint:").unwrap_or((said, ""));
    let message = message.trim().rsplit_once("error: ").map_or(message, |(_, message)| message);
    let error = ApiError::refused(message.trim());
    let hint: Vec<_> = hint.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    if hint.is_empty() { error } else { error.with_hint(hint.join("\n")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusal_is_told_in_the_words_of_the_command() {
        let said = "error: run a is not running\n\nhint: see how it stands: raymond status a\n";
        let expected = ApiError::refused("run a is not running")
            .with_hint("see how it stands: raymond status a");
        assert_eq!(refusal(said), expected);
        assert_eq!(refusal("odd"), ApiError::refused("odd"));
    }
}
