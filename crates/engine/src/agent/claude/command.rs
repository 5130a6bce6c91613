//! The command of one turn.

use std::{borrow::Cow, io::Read, path::Path};

use raymond_flow::{
    id::SessionId,
    machine::{SessionPlan, TurnFailure},
    prompt::{self, with_messages},
};
use serde_json::json;
use uuid::Uuid;

use super::{
    ClaudeConfig, options, output, permissions, questions, settings,
    transcript::{self, SessionFile},
};
use crate::{
    agent::{
        TurnCommand, TurnRequest,
        marks::{Mark, TurnMarks},
    },
    exec::step::LiveMessage,
    trust::regular,
};

/// Tools that wait for a user who is not there (but see [`questions`]), or that make Claude continue by itself after the turn, when no
/// step reads its output and accounts for its cost.
const TOOLS_WITHOUT_USE: [&str; 9] = [
    questions::TOOL,
    "EnterPlanMode",
    "ExitPlanMode",
    "ScheduleWakeup",
    "CronCreate",
    "CronDelete",
    "CronList",
    // These run in the background whatever the environment says, and each of their events asks the model again.
    "Monitor",
    "Workflow",
];

/// Variables for Claude. Its own retries are short, so that the run's retry policy applies; a background task
/// would end after the answer and cost another one.
const ENVIRONMENT: [(&str, &str); 3] = [
    ("CLAUDE_CODE_MAX_RETRIES", "2"),
    ("CLAUDE_CODE_DISABLE_BACKGROUND_TASKS", "1"),
    ("DISABLE_AUTOUPDATER", "1"),
];

/// Variables that make Claude believe that it runs inside another Claude.
const NESTING: [&str; 6] = [
    "CLAUDECODE",
    "CLAUDE_CODE_ENTRYPOINT",
    "CLAUDE_CODE_SESSION_ID",
    "CLAUDE_CODE_CHILD_SESSION",
    "CLAUDE_CODE_SSE_PORT",
    "CLAUDE_CODE_EXECPATH",
];

pub(super) fn command(
    config: &ClaudeConfig,
    request: &TurnRequest<'_>,
) -> Result<TurnCommand, TurnFailure> {
    let turn = request.turn;
    // After a failed start, the session may exist and contain the prompt.
    let left = turn.recovers.then(|| SessionFile::find(&config.config_dir, turn.session.id()));
    let left = left.flatten();
    let prompt = words(request.prompt);
    let words = match &left {
        // A turn that has spent its share may even have answered: Claude checks the limit after each reply.
        Some(transcript) if turn.spent_share || transcript.is_left_at(&prompt) => {
            let lost = transcript.lacks(request.earlier, !turn.spent_share);
            with_messages(request.continuation.to_owned(), lost).into()
        }
        _ => prompt,
    };
    let mut program = vec![config.program.clone(), "-p".to_owned(), "--verbose".to_owned()];
    // Claude reports when it begins a prompt: output before that belongs to no turn.
    let streams = [
        "--input-format",
        "stream-json",
        "--output-format",
        "stream-json",
        "--replay-user-messages",
    ];
    program.extend(streams.map(str::to_owned));
    program.extend(session(config, &turn.session, left.is_some()));
    // For what the process itself spends, in all versions, whatever its sums begin with. Older ones take zero for no limit,
    // newer ones refuse it, but a run without money starts no turn.
    if let Some(budget) = turn.budget_usd {
        program.extend(["--max-budget-usd".to_owned(), budget.dollars().to_string()]);
    }
    program.extend(permissions::arguments(config, &turn.settings)?);
    let options = options::chosen(config, request)?;
    program.extend(options.arguments);
    program.extend(arguments(config, request));
    let pairs = ENVIRONMENT.map(|(name, value)| (name.to_owned(), value.to_owned())).into_iter();
    let id = Uuid::new_v4();
    let opened = left.or_else(|| opened(config, &turn.session));
    Ok(TurnCommand {
        program,
        environment: pairs.chain(options.environment).collect(),
        without: NESTING.map(str::to_owned).to_vec(),
        stdin: message(&words, id),
        // A process that is kept has an open standard input, and would wait there for answers to permission requests.
        reuse: (!config.questions).then(|| likeness(config, request)),
        marks: marks(&id.to_string()),
        before: opened.map(|file| file.path().to_string_lossy().into_owned()),
    })
}

/// The transcript that a turn goes on from.
fn opened(config: &ClaudeConfig, plan: &SessionPlan) -> Option<SessionFile> {
    let session = match plan {
        SessionPlan::Fresh { .. } => return None,
        SessionPlan::Resume { id } => id,
        SessionPlan::Branch { from, .. } => &output::without_bookmark(from),
    };
    SessionFile::find(&config.config_dir, session)
}

/// The lines by which Claude tells how far it is with the prompt `id`. It repeats a prompt when it begins it; since
/// 2.1.206 it also says when it is over with it, even if a hook has blocked it. A turn begins with `init`.
fn marks(id: &str) -> TurnMarks {
    let over = |state| [("type", "command_lifecycle"), ("command_uuid", id), ("state", state)];
    TurnMarks::none()
        .with(Mark::Begun, &[("type", "user"), ("uuid", id)])
        .with(Mark::Done, &[("type", "result")])
        .with(Mark::Closed, &over("completed"))
        .with(Mark::Closed, &over("cancelled"))
        .with(Mark::Busy, &[("type", "system"), ("subtype", "init")])
        .with(Mark::Busy, &[("type", "assistant")])
        .with(Mark::Busy, &[("type", "user")])
}

/// What must be equal in another turn of the same process.
fn likeness(config: &ClaudeConfig, request: &TurnRequest<'_>) -> Vec<String> {
    let settings = &request.turn.settings;
    let model = settings.model.as_ref().or(config.model.as_ref());
    let asked = [model, settings.effort.as_ref()].map(|text| text.cloned().unwrap_or_default());
    let permissions =
        format!("{} {:?} {:?}", settings.skip_permissions, settings.permissions, settings.tools);
    let folder = format!("{:?}", request.folder);
    let options = format!("{:?}", settings.options);
    asked.into_iter().chain([permissions, folder, options]).collect()
}

fn arguments(config: &ClaudeConfig, request: &TurnRequest<'_>) -> Vec<String> {
    let settings = &request.turn.settings;
    // One argument: the option takes as many as follow it.
    let unused: Vec<_> = TOOLS_WITHOUT_USE
        .into_iter()
        .filter(|tool| *tool != questions::TOOL || !config.questions)
        .collect();
    let mut arguments = vec!["--disallowedTools".to_owned(), unused.join(",")];
    let places = [request.state_dir, request.scope, request.cwd];
    let deny = permissions::denied(places, &config.closed_dirs);
    let mut own = json!({ "permissions": { "deny": deny } });
    if config.questions {
        arguments.extend(["--permission-prompt-tool", "stdio"].map(str::to_owned));
        own["hooks"] = questions::hooks(&settings.granted);
    }
    arguments.extend(["--settings".to_owned(), own.to_string()]);
    // Only if it is used: Claude tells the model of it, and what it tells is cached for all sessions of a directory.
    if let Some(folder) = request.folder {
        arguments.extend(["--add-dir".to_owned(), folder.to_string_lossy().into_owned()]);
    }
    let model = settings.model.clone().or_else(|| config.model.clone()).or_else(|| {
        // A session continues with the model of its last turn. That is the user's default, unless that turn
        // named a model; then the default must be named again.
        request.follows_a_model.then(|| settings::default_model(config, request.cwd))
    });
    if let Some(model) = model {
        arguments.extend(["--model".to_owned(), model]);
    }
    if let Some(effort) = &settings.effort {
        arguments.extend(["--effort".to_owned(), effort.clone()]);
    }
    arguments.extend(config.arguments.iter().cloned());
    arguments
}

fn session(config: &ClaudeConfig, plan: &SessionPlan, is_there: bool) -> Vec<String> {
    let resume = |id: &SessionId| vec!["--resume".to_owned(), id.as_str().to_owned()];
    let own_id = |id: &SessionId| ["--session-id".to_owned(), id.as_str().to_owned()];
    match plan {
        SessionPlan::Resume { id } => resume(id),
        SessionPlan::Fresh { id } | SessionPlan::Branch { id, .. } if is_there => resume(id),
        SessionPlan::Fresh { id } => own_id(id).to_vec(),
        SessionPlan::Branch { from, id, cwd } => {
            let (from, at) = match from.as_str().split_once(output::BOOKMARK) {
                Some((session, message)) => (&SessionId::new(session), Some(message)),
                None => (from, None),
            };
            let at = at.map(|message| ["--resume-session-at".to_owned(), message.to_owned()]);
            // Claude finds an id only among the sessions of the current directory, a file anywhere.
            let file = |cwd: &String| transcript::path(&config.config_dir, cwd, from);
            let from = cwd.as_ref().map_or_else(|| from.as_str().to_owned(), file);
            let branch = ["--resume".to_owned(), from, "--fork-session".to_owned()];
            branch.into_iter().chain(own_id(id)).chain(at.into_iter().flatten()).collect()
        }
    }
}

/// A prompt that Claude cannot take for one of its commands (`/clear`, `/review`, a skill), which it looks for
/// at the very beginning. The model reads one additional empty line.
fn words(prompt: &str) -> Cow<'_, str> {
    if prompt.starts_with('/') { format!("\n{prompt}").into() } else { prompt.into() }
}

/// The beginning of a prompt's line: its id.
const ID_MARK: &str = r#"{"uuid":""#;

/// A prompt as Claude reads it: one line. Claude repeats the id when it begins the prompt.
fn message(text: &str, id: Uuid) -> String {
    let content = json!([{ "type": "text", "text": text }]);
    let message = json!({ "role": "user", "content": content });
    format!("{ID_MARK}{id}\",\"type\":\"user\",\"message\":{message}}}\n")
}

/// The message `id` for a running turn. Claude gives it to the model with the result of the tool that runs, or as a turn
/// of its own if the model has just answered; in both cases it repeats the line when the model gets it.
pub(super) fn live_message(id: &str, text: &str) -> Option<LiveMessage> {
    let line = message(&prompt::message(text), Uuid::parse_str(id).ok()?);
    let taken = [("type", "user"), ("uuid", id)];
    let taken = taken.map(|(name, text)| (name.to_owned(), text.to_owned())).to_vec();
    Some(LiveMessage { line, taken })
}

/// The id of the prompt in the file at `path`; `None` if it has none, as in earlier versions.
pub(super) fn prompt_id(path: &Path) -> Option<String> {
    const BYTES_MAX: u64 = 64;
    let mut start = Vec::new();
    regular::open(path).ok()?.take(BYTES_MAX).read_to_end(&mut start).ok()?;
    let id = start.strip_prefix(ID_MARK.as_bytes())?.split(|byte| *byte == b'"').next()?;
    Some(String::from_utf8_lossy(id).into_owned())
}

#[cfg(test)]
mod tests;
