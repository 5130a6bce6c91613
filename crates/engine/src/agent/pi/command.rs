//! The command of one turn.

use raymond_flow::machine::{FailureClass, SessionPlan, TurnFailure, TurnSettings};

use super::{PiAgent, session};
use crate::agent::{TurnCommand, TurnRequest};

/// Tools that only read.
const READING: [&str; 4] = ["read", "grep", "find", "ls"];
/// Tools that edit files.
const EDITING: [&str; 2] = ["edit", "write"];
/// The permissions that a state may ask for, and whether they include edits. None allows more than the first.
const MODES: [(&str, bool); 3] = [("acceptEdits", true), ("default", false), ("plan", false)];
/// The permissions that allow everything.
const EVERYTHING: &str = "bypassPermissions";

pub(super) fn command(
    agent: &PiAgent,
    request: &TurnRequest<'_>,
) -> Result<TurnCommand, TurnFailure> {
    let turn = request.turn;
    // Templates would replace a prompt that begins with their name. Project files are trusted as by other agents.
    let mut program = vec![agent.program.clone()];
    program.extend(["--mode", "json", "--no-prompt-templates", "--approve"].map(str::to_owned));
    // After a failed start, the session may exist and contain the prompt.
    let file = session::find(&agent.sessions, turn.session.id());
    match (&turn.session, &file) {
        (SessionPlan::Branch { from, .. }, None) => {
            program.extend(["--fork".to_owned(), from.to_string()]);
        }
        // pi would begin a new one.
        (SessionPlan::Resume { id }, None) => {
            let message = format!("there is no session `{id}` in {}", agent.sessions.display());
            return Err(TurnFailure { class: FailureClass::SessionMissing, message });
        }
        (
            SessionPlan::Fresh { .. } | SessionPlan::Branch { .. } | SessionPlan::Resume { .. },
            _,
        ) => {}
    }
    program.extend(["--session-id".to_owned(), turn.session.id().to_string()]);
    let settings = &turn.settings;
    if let Some(model) = settings.model.as_ref().or(agent.config.model.as_ref()) {
        program.extend(["--model".to_owned(), model.clone()]);
    }
    if let Some(effort) = &settings.effort {
        program.extend(["--thinking".to_owned(), effort.clone()]);
    }
    if let Some(tools) = tools(settings, &agent.config.tools)? {
        program.extend(["--tools".to_owned(), tools.join(",")]);
    }
    program.extend(agent.config.arguments.iter().cloned());
    let is_left = |file| session::is_left_at(file, request.prompt);
    let continues = turn.recovers && file.as_deref().is_some_and(is_left);
    let stdin = if continues { request.continuation } else { request.prompt };
    Ok(TurnCommand { program, stdin: stdin.to_owned(), ..TurnCommand::default() })
}

/// The only tools that a turn has; `None` is all. A workflow can only narrow what its user allows.
fn tools(settings: &TurnSettings, allowed: &[String]) -> Result<Option<Vec<String>>, TurnFailure> {
    let refused = |message| Err(TurnFailure { class: FailureClass::Misconfigured, message });
    let mode = settings.permissions.as_deref();
    let may_skip = settings.skip_permissions;
    if mode == Some(EVERYTHING) && !may_skip {
        return refused(format!(
            "the state asks for the permissions `{EVERYTHING}`, which only a run with `--dangerously-skip-permissions` has"
        ));
    }
    if let Some(tools) = &settings.tools {
        let is_known = |tool: &str| READING.contains(&tool) || EDITING.contains(&tool);
        let is_allowed = |tool: &&String| may_skip || is_known(tool) || allowed.contains(*tool);
        if let Some(tool) = tools.iter().find(|tool| !is_allowed(tool)) {
            return refused(format!(
                "the state asks for the tool `{tool}`, which the settings do not allow: add it to `tools` under \
                 `[agents.pi]` in config.toml, or run with `--dangerously-skip-permissions`"
            ));
        }
        return Ok(Some(tools.clone()));
    }
    if may_skip && (mode.is_none() || mode == Some(EVERYTHING)) {
        return Ok(None);
    }
    let asked = mode.unwrap_or("acceptEdits");
    let Some((_, edits)) = MODES.iter().find(|(name, _)| *name == asked) else {
        let known: Vec<_> = MODES.iter().map(|(name, _)| *name).chain([EVERYTHING]).collect();
        return refused(format!("unknown permissions `{asked}`; known: {}", known.join(", ")));
    };
    let mut tools: Vec<_> = READING.map(str::to_owned).to_vec();
    if *edits {
        tools.extend(EDITING.map(str::to_owned));
        tools.extend(allowed.iter().cloned());
    }
    Ok(Some(tools))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "in tests a panic is the message")]
mod tests {
    use raymond_flow::{
        id::{AgentId, SessionId},
        machine::Turn,
    };

    use super::*;
    use crate::{
        agent::NativeConfig,
        testing::{turn, turn_step},
    };

    fn of(agent: &PiAgent, turn: &Turn) -> Result<TurnCommand, TurnFailure> {
        let request = TurnRequest {
            agent: &AgentId::main(),
            step: &turn_step(turn.clone()),
            turn,
            cwd: "/work".as_ref(),
            prompt: "prompt",
            continuation: "go on",
            folder: None,
            follows_a_model: false,
        };
        command(agent, &request)
    }

    #[test]
    fn session_has_the_id_that_was_chosen_for_it() {
        let sessions = tempfile::tempdir().unwrap();
        let mut agent = PiAgent::new(NativeConfig::default());
        agent.sessions = sessions.path().to_owned();
        let line = |turn: &Turn| of(&agent, turn).map(|command| command.program.join(" "));
        let id = || SessionId::new("own");
        let fresh = line(&turn(SessionPlan::Fresh { id: id() })).unwrap();
        assert!(fresh.contains("--approve --session-id own --tools"), "{fresh}");
        let branch = SessionPlan::Branch { from: SessionId::new("from"), id: id(), cwd: None };
        let forked = line(&turn(branch.clone())).unwrap();
        assert!(forked.contains("--fork from --session-id own"), "{forked}");
        let missing = line(&turn(SessionPlan::Resume { id: id() })).unwrap_err();
        assert_eq!(missing.class, FailureClass::SessionMissing);
        // Once the session is there, it is resumed, whatever the turn was to begin with.
        std::fs::create_dir(sessions.path().join("d")).unwrap();
        std::fs::write(sessions.path().join("d/2026_own.jsonl"), "").unwrap();
        for plan in [branch, SessionPlan::Resume { id: id() }] {
            let resumed = line(&turn(plan)).unwrap();
            assert!(resumed.contains("--approve --session-id own"), "{resumed}");
        }
    }

    #[test]
    fn tools_are_what_the_user_and_the_state_allow() {
        let given = |skips: bool, tools_asked: Option<&[&str]>, permissions: Option<&str>| {
            let mut settings = turn(SessionPlan::Fresh { id: SessionId::new("s") }).settings;
            settings.skip_permissions = skips;
            settings.tools =
                tools_asked.map(|tools| tools.iter().map(|tool| (*tool).to_owned()).collect());
            settings.permissions = permissions.map(str::to_owned);
            let tools = tools(&settings, &["mine".to_owned()]);
            tools.map(|tools| tools.map(|tools| tools.join(","))).map_err(|it| it.message)
        };
        let some = |text: &str| Ok(Some(text.to_owned()));
        assert_eq!(given(false, None, None), some("read,grep,find,ls,edit,write,mine"));
        assert_eq!(given(true, None, None), Ok(None));
        assert_eq!(given(true, None, Some("plan")), some("read,grep,find,ls"));
        assert_eq!(given(false, Some(&["read", "mine"]), None), some("read,mine"));
        assert!(given(false, Some(&["bash"]), None).unwrap_err().contains("`bash`"));
        assert_eq!(given(true, Some(&["bash"]), None), some("bash"));
        assert!(given(false, None, Some("bypassPermissions")).is_err());
        assert!(given(true, None, Some("dontAsk")).unwrap_err().contains("unknown permissions"));
    }
}
