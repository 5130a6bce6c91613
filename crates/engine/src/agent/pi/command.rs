//! The command of one turn.

use raymond_flow::machine::{FailureClass, SessionPlan, TurnFailure};

use super::{PiAgent, session};
use crate::agent::{
    TurnCommand, TurnRequest,
    allowance::Tools,
    marks::{Mark, TurnMarks},
};

/// The tools of pi.
const TOOLS: Tools =
    Tools { reading: &["read", "grep", "find", "ls"], editing: &["edit", "write"] };

pub(super) fn command(
    agent: &PiAgent,
    request: &TurnRequest<'_>,
) -> Result<TurnCommand, TurnFailure> {
    let turn = request.turn;
    // Templates would replace a prompt that begins with their name.
    let mut program = vec![agent.program.clone()];
    program.extend(["--mode", "json", "--no-prompt-templates"].map(str::to_owned));
    // Extensions and MCP servers of the project run as programs, whatever tools a turn may use. Otherwise pi knows what
    // its user has decided about the project, and runs none without a decision.
    if turn.settings.skip_permissions && turn.settings.permissions.is_none() {
        program.push("--approve".to_owned());
    }
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
    if let Some(tools) = TOOLS.allowed(settings, &agent.config.name, &agent.config.tools)? {
        program.extend(["--tools".to_owned(), tools.join(",")]);
    }
    program.extend(agent.config.arguments.iter().cloned());
    let is_left = |file| session::is_left_at(file, request.prompt);
    let continues = turn.recovers && file.as_deref().is_some_and(is_left);
    let stdin = if continues { request.continuation } else { request.prompt };
    Ok(TurnCommand { program, stdin: stdin.to_owned(), marks: marks(), ..TurnCommand::default() })
}

/// The lines by which pi tells how far it is. It may try again by itself before it settles.
fn marks() -> TurnMarks {
    const BUSY: [&str; 6] = [
        "session",
        "agent_start",
        "turn_start",
        "message_start",
        "tool_execution_start",
        "auto_retry_start",
    ];
    let done = TurnMarks::none().with(Mark::Done, &[("type", "agent_settled")]);
    BUSY.iter().fold(done, |marks, kind| marks.with(Mark::Busy, &[("type", kind)]))
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
        agent::AgentConfig,
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
            earlier: &[],
            folder: None,
            state_dir: "/work/.raymond".as_ref(),
            scope: "/nowhere".as_ref(),
            follows_a_model: false,
        };
        command(agent, &request)
    }

    #[test]
    fn session_has_the_id_that_was_chosen_for_it() {
        let sessions = tempfile::tempdir().unwrap();
        let mut agent = PiAgent::new(AgentConfig::default());
        agent.sessions = sessions.path().to_owned();
        let line = |turn: &Turn| of(&agent, turn).map(|command| command.program.join(" "));
        let id = || SessionId::new("own");
        let fresh = line(&turn(SessionPlan::Fresh { id: id() })).unwrap();
        assert!(fresh.contains("--no-prompt-templates --session-id own --tools"), "{fresh}");
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
            assert!(resumed.contains("--no-prompt-templates --session-id own"), "{resumed}");
        }
    }

    #[test]
    fn programs_of_the_project_run_only_where_a_turn_may_do_everything() {
        let agent = PiAgent::new(AgentConfig::default());
        let approves = |skips: bool, permissions: Option<&str>| {
            let mut turn = turn(SessionPlan::Fresh { id: SessionId::new("own") });
            turn.settings.skip_permissions = skips;
            turn.settings.permissions = permissions.map(str::to_owned);
            of(&agent, &turn).unwrap().program.contains(&"--approve".to_owned())
        };
        assert!(approves(true, None));
        assert!(!approves(true, Some("plan")));
        assert!(!approves(false, None));
        assert!(!approves(false, Some("plan")));
    }
}
