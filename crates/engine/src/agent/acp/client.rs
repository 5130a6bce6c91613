//! One turn through the Agent Client Protocol.

use std::{env, io, path::PathBuf};

use serde_json::{Value, json};

use super::{
    ALLOWED, CONTINUATION, MODE, QUESTIONS,
    cost::{Cost, Opening},
    gemini,
    peer::{CallError, Handler as _, NO_METHOD, Peer, RpcError},
    report::{Report, failure, introduction},
};

/// The version of the protocol.
const VERSION: u64 = 1;
/// The codes of the protocol for a missing login, and for something that does not exist.
const LOGIN_NEEDED: i64 = -32000;
const NOT_FOUND: i64 = -32002;
/// The class of the failure of a coding agent that prints only what is no message.
const NOT_UNDERSTOOD: &str = "not_understood";

/// A turn to carry out.
#[derive(Clone, Debug, Default)]
pub struct AcpTurn {
    /// The command of the coding agent.
    pub command: Vec<String>,
    /// The prompt.
    pub prompt: String,
    cwd: PathBuf,
    session: Session,
    model: Option<String>,
    effort: Option<String>,
    mode: Option<String>,
    allowed: Option<Vec<String>>,
    questions: bool,
    continuation: Option<String>,
}

#[derive(Clone, Debug, Default)]
enum Session {
    #[default]
    New,
    Resume(String),
    Fork(String),
}

/// Why a turn failed before it had an answer: its last line.
struct Failed(Value);

impl Failed {
    fn new(words: &str, class: &str) -> Self {
        Self(json!({ "error": words, "class": class }))
    }
}

/// Something that failed, and how that is told.
fn failed(what: &str) -> impl Fn(CallError) -> Failed {
    move |error| match error {
        CallError::Refused(RpcError { code: LOGIN_NEEDED, message, .. }) => {
            Failed::new(&message, "authentication")
        }
        CallError::Refused(error) => {
            let words = error.words();
            let mut line = failure(&words);
            line["error"] = format!("{what}: {words}").into();
            Failed(line)
        }
        CallError::Strange => {
            Failed::new(&format!("{what}: it prints something else"), NOT_UNDERSTOOD)
        }
        CallError::Gone => Failed::new(&format!("{what}: the coding agent exited"), "other"),
        CallError::Io(error) => Failed::new(&format!("{what}: {error}"), "other"),
    }
}

impl AcpTurn {
    /// The turn that the environment describes, as the protocol for programs does.
    pub fn of_environment(command: Vec<String>, prompt: String) -> io::Result<Self> {
        let text = |name: &str| env::var(name).ok().filter(|text| !text.is_empty());
        let session = match text("RAYMOND_SESSION_MODE").as_deref() {
            Some("resume") => Session::Resume(text("RAYMOND_SESSION").unwrap_or_default()),
            Some("branch") => Session::Fork(text("RAYMOND_SESSION_FROM").unwrap_or_default()),
            _ => Session::New,
        };
        // Without the variable nothing is allowed.
        let allowed = text(ALLOWED).unwrap_or_default();
        Ok(Self {
            command,
            prompt,
            cwd: env::current_dir()?,
            session,
            model: text("RAYMOND_TURN_MODEL"),
            effort: text("RAYMOND_TURN_EFFORT"),
            mode: text(MODE),
            allowed: (allowed != "*").then(|| allowed.split(',').map(str::to_owned).collect()),
            questions: text(QUESTIONS).is_some(),
            continuation: text(CONTINUATION),
        })
    }

    /// Carries the turn out, and prints its events and its answer to `out`.
    pub fn run(&self, out: &mut dyn io::Write) -> io::Result<()> {
        let opening = match self.session {
            Session::New => Opening::New,
            Session::Resume(_) => Opening::Resume,
            Session::Fork(_) => Opening::Branch,
        };
        let cost = Cost::new(opening);
        let mut report = Report::new(out, self.allowed.clone(), self.questions, cost);
        let mut peer = match Peer::start(&self.command) {
            Ok(peer) => peer,
            Err(error) => {
                let class = match error.kind() {
                    io::ErrorKind::NotFound => "not_installed",
                    _ => "misconfigured",
                };
                let words = not_started(&self.command, &error);
                return report.line(&json!({ "error": words, "class": class }));
            }
        };
        let ended = self.carry_out(&mut peer, &mut report);
        if let Err(Failed(line)) = ended {
            report.fail(line)?;
        }
        peer.leave();
        Ok(())
    }

    /// Asks the coding agent who it is and what it can do, without a session: one line, or why there is none.
    pub fn greet(command: &[String]) -> Result<String, String> {
        let mut peer = Peer::start(command).map_err(|error| not_started(command, &error))?;
        let mut sink = io::sink();
        let mut report = Report::new(&mut sink, None, false, Cost::default());
        let answer = peer.call("initialize", &hello(), &mut report);
        peer.leave();
        let answer = answer.map_err(|error| {
            let Failed(line) = failed("it does not speak ACP")(error);
            line["error"].as_str().unwrap_or_default().to_owned()
        })?;
        let version = answer["protocolVersion"].as_u64().unwrap_or_default();
        if version != VERSION {
            return Err(format!("it speaks version {version} of ACP; Raymond speaks {VERSION}"));
        }
        let can = &answer["agentCapabilities"];
        let resumes = can["loadSession"] == true || !can["sessionCapabilities"]["resume"].is_null();
        let sessions = if resumes { "resumes sessions" } else { "cannot resume sessions" };
        Ok(format!("{}, {sessions}", introduction(&answer)))
    }

    fn carry_out(&self, peer: &mut Peer, report: &mut Report<'_>) -> Result<(), Failed> {
        let agent = peer.call("initialize", &hello(), report);
        // Whatever the reason is, the same command fails in the same way again.
        let agent = agent.map_err(|error| {
            let Failed(mut line) = failed("it does not speak ACP")(error);
            if line["class"] != NOT_UNDERSTOOD {
                line["class"] = "misconfigured".into();
            }
            Failed(line)
        })?;
        report.met(&agent);
        let (session, opened) = self.open(peer, &agent, report)?;
        let written = report.line(&json!({ "session": session }));
        written.map_err(|error| Failed::new(&error.to_string(), "other"))?;
        self.set_up(peer, &session, &opened, report)?;
        let has_prompt = report.is_left_at(&self.prompt);
        let text = self.continuation.as_ref().filter(|_| has_prompt).unwrap_or(&self.prompt);
        report.asked();
        let prompt = json!([{ "type": "text", "text": text }]);
        let prompt = json!({ "sessionId": session, "prompt": prompt });
        let told = |error| {
            let Failed(mut line) = failed("the turn failed")(error);
            line["session"] = session.clone().into();
            Failed(line)
        };
        let end = match peer.call("session/prompt", &prompt, report) {
            // Some report it as an error that they were stopped.
            Err(_) if report.ends_turn() => Value::Null,
            end => end.map_err(told)?,
        };
        let stop = end["stopReason"].as_str().unwrap_or_default();
        let printed = report.end(&session, stop, &end["usage"]);
        printed.map_err(|error| Failed::new(&error.to_string(), "other"))
    }

    /// Opens the session: its id, and what the coding agent says about it.
    fn open(
        &self,
        peer: &mut Peer,
        agent: &Value,
        report: &mut Report<'_>,
    ) -> Result<(String, Value), Failed> {
        let can = &agent["agentCapabilities"];
        let cwd = self.cwd.display().to_string();
        let given = |id: Option<&str>| {
            let mut given = json!({ "cwd": cwd, "mcpServers": [], "_meta": Cost::wish() });
            if let Some(id) = id {
                given["sessionId"] = id.into();
            }
            given
        };
        let (what, method, id) = match &self.session {
            Session::New => ("begin a session", "session/new", None),
            Session::Resume(id) => {
                // Loading tells the history, which says whether the prompt is already there.
                let can_resume = !can["sessionCapabilities"]["resume"].is_null();
                let can_load = can["loadSession"] == true;
                let method = match (can_load, can_resume) {
                    (true, _) if self.continuation.is_some() => "session/load",
                    (_, true) => "session/resume",
                    (true, false) => "session/load",
                    (false, false) => {
                        return Err(Failed::new("cannot resume a session", "misconfigured"));
                    }
                };
                ("resume the session", method, Some(id.as_str()))
            }
            Session::Fork(id) => ("branch the session", "session/fork", Some(id.as_str())),
        };
        let loads = id.filter(|_| method == "session/load" && gemini::is(agent));
        if let Some(id) = loads {
            gemini::wait_for_the_next_minute(id);
        }
        let opened = peer.call(method, &given(id), report).map_err(|error| match error {
            CallError::Refused(error) if error.code == NO_METHOD => {
                let words = format!("cannot {what}: set `can_branch = false` in its settings");
                Failed::new(&words, "misconfigured")
            }
            CallError::Refused(error) if error.code == NOT_FOUND || is_missing(&error.words()) => {
                Failed::new(&format!("cannot {what}: {}", error.words()), "session_missing")
            }
            error => failed(&format!("cannot {what}"))(error),
        })?;
        if let Some(id) = loads {
            let taken = gemini::take_history(peer, id, &opened, report);
            taken.map_err(failed("cannot resume the session"))?;
        }
        let own = opened["sessionId"].as_str();
        let resumed = id.filter(|_| matches!(self.session, Session::Resume(_)));
        match own.or(resumed) {
            Some(id) => Ok((id.to_owned(), opened.clone())),
            None => Err(Failed::new("the coding agent reports no session", "misconfigured")),
        }
    }

    /// Sets mode, model and effort, as far as the turn asks for them.
    fn set_up(
        &self,
        peer: &mut Peer,
        session: &str,
        opened: &Value,
        report: &mut Report<'_>,
    ) -> Result<(), Failed> {
        if let Some(mode) = &self.mode {
            let mode = json!({ "sessionId": session, "modeId": mode });
            let set = peer.call("session/set_mode", &mode, report);
            set.map_err(failed("cannot set the mode"))?;
        }
        if let Some(model) = &self.model {
            let (method, wish) = model_wish(session, opened, model);
            let set = peer.call(method, &wish, report);
            set.map_err(|error| {
                let Failed(mut line) = failed(&format!("cannot use the model `{model}`"))(error);
                line["class"] = "unknown_model".into();
                Failed(line)
            })?;
        }
        let options = opened["configOptions"].as_array().map(Vec::as_slice).unwrap_or_default();
        let effort = options.iter().find(|option| option["category"] == "thought_level");
        if let (Some(value), Some(option)) = (&self.effort, effort) {
            let option = json!({ "sessionId": session, "configId": option["id"], "value": value });
            let set = peer.call("session/set_config_option", &option, report);
            set.map_err(failed(&format!("cannot use the effort `{value}`")))?;
        }
        Ok(())
    }
}

/// The request that sets the model: by an option of the session, or as the protocol had it before there were options.
fn model_wish(session: &str, opened: &Value, model: &str) -> (&'static str, Value) {
    let options = opened["configOptions"].as_array().map(Vec::as_slice).unwrap_or_default();
    let option = options.iter().find(|it| it["category"] == "model" || it["id"] == "model");
    if option.is_none() && opened["models"].is_object() {
        return ("session/set_model", json!({ "sessionId": session, "modelId": model }));
    }
    let id = option.and_then(|option| option["id"].as_str()).unwrap_or("model");
    let wish = json!({ "sessionId": session, "configId": id, "value": model });
    ("session/set_config_option", wish)
}

/// Why a coding agent cannot be started.
fn not_started(command: &[String], error: &io::Error) -> String {
    let program = command.first().map(String::as_str).unwrap_or_default();
    match error.kind() {
        io::ErrorKind::NotFound => format!("`{program}` is not installed"),
        _ => format!("`{program}` cannot be started: {error}"),
    }
}

/// What the client says about itself: it offers neither files nor terminals, coding agents have their own.
fn hello() -> Value {
    let files = json!({ "readTextFile": false, "writeTextFile": false });
    json!({
        "protocolVersion": VERSION,
        "clientCapabilities": { "fs": files, "terminal": false },
        "clientInfo": { "name": "raymond", "version": env!("CARGO_PKG_VERSION") },
    })
}

/// Whether an error says that there is no such session.
fn is_missing(words: &str) -> bool {
    let words = words.to_lowercase();
    words.contains("not found") || words.contains("no conversation found")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn model_is_set_in_the_way_that_the_session_offers() {
        let wish = |opened: Value| {
            let (method, wish) = model_wish("s", &opened, "m");
            let name = wish["configId"].as_str().or(wish["modelId"].as_str());
            (method, name.unwrap_or_default().to_owned())
        };
        let by_option = |id: &str| ("session/set_config_option", id.to_owned());
        let option = json!([{ "id": "llm", "category": "model" }]);
        let models = json!({ "availableModels": [] });
        assert_eq!(wish(json!({ "configOptions": option })), by_option("llm"));
        assert_eq!(wish(json!({ "configOptions": option, "models": models })), by_option("llm"));
        assert_eq!(wish(json!({ "models": models })), ("session/set_model", "m".to_owned()));
        assert_eq!(wish(json!({})), by_option("model"), "it says that it has none");
    }
}
