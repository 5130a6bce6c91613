//! The command of one turn.

use raymond_flow::machine::{FailureClass, SessionPlan, TurnFailure, TurnSettings};

use super::{CodexAgent, rollout};
use crate::agent::{
    TurnCommand, TurnRequest,
    marks::{Mark, TurnMarks},
};

/// The sandboxes of Codex, by the permissions that a state may ask for: Raymond's words and Codex's own. Codex asks
/// nobody when it runs headless; what the sandbox does not allow fails.
const SANDBOXES: [(&str, &str); 6] = [
    ("acceptEdits", WORKSPACE),
    (WORKSPACE, WORKSPACE),
    ("default", "read-only"),
    // The newer name of `default`.
    ("manual", "read-only"),
    ("plan", "read-only"),
    ("read-only", "read-only"),
];
/// The sandbox of turns whose state asks for none: commands may write below the directory, and have no network.
const WORKSPACE: &str = "workspace-write";
/// The permissions that allow everything.
const EVERYTHING: [&str; 2] = ["bypassPermissions", "danger-full-access"];

pub(super) fn command(
    agent: &CodexAgent,
    request: &TurnRequest<'_>,
) -> Result<TurnCommand, TurnFailure> {
    let settings = &request.turn.settings;
    let mut program = vec![agent.program.clone(), "exec".to_owned()];
    // The sandbox must be named before `resume` and `fork`, which do not take it.
    program.extend(sandbox(settings)?);
    program.extend(agent.config.arguments.iter().cloned());
    let session = match &request.turn.session {
        SessionPlan::Fresh { .. } => None,
        SessionPlan::Resume { id } => Some(("resume", id)),
        SessionPlan::Branch { from, .. } => Some(("fork", from)),
    };
    program.extend(session.iter().map(|(what, _)| (*what).to_owned()));
    program.extend(["--json", "--skip-git-repo-check"].map(str::to_owned));
    if let Some(model) = settings.model.as_ref().or(agent.config.model.as_ref()) {
        program.extend(["-m".to_owned(), model.clone()]);
    }
    if let Some(effort) = &settings.effort {
        program.extend(["-c".to_owned(), format!("model_reasoning_effort={effort:?}")]);
    }
    program.extend(session.iter().map(|(_, id)| id.to_string()));
    // The prompt comes from standard input.
    program.push("-".to_owned());
    let has_prompt =
        || rollout::ends_with_prompt(&agent.home, request.turn.session.id(), request.prompt);
    let continues = request.turn.recovers && has_prompt();
    let stdin = if continues { request.continuation } else { request.prompt };
    Ok(TurnCommand { program, stdin: stdin.to_owned(), marks: marks(), ..TurnCommand::default() })
}

/// The lines by which Codex tells how far it is.
fn marks() -> TurnMarks {
    const BUSY: [&str; 5] =
        ["thread.started", "turn.started", "item.started", "item.updated", "item.completed"];
    let done = TurnMarks::none()
        .with(Mark::Done, &[("type", "turn.completed")])
        .with(Mark::Done, &[("type", "turn.failed")]);
    BUSY.iter().fold(done, |marks, kind| marks.with(Mark::Busy, &[("type", kind)]))
}

/// The arguments for what a turn may do. A workflow can only narrow what its user allows.
fn sandbox(settings: &TurnSettings) -> Result<Vec<String>, TurnFailure> {
    let asked = settings.permissions.as_deref();
    let asks_everything = asked.is_some_and(|asked| EVERYTHING.contains(&asked));
    if settings.skip_permissions && (asked.is_none() || asks_everything) {
        return Ok(vec!["--dangerously-bypass-approvals-and-sandbox".to_owned()]);
    }
    let refused = |message| Err(TurnFailure { class: FailureClass::Misconfigured, message });
    let Some(asked) = asked else {
        return Ok(vec!["-s".to_owned(), WORKSPACE.to_owned()]);
    };
    if asks_everything {
        return refused(format!(
            "the state asks for the permissions `{asked}`, which only a run with `--dangerously-skip-permissions` has"
        ));
    }
    if let Some((_, sandbox)) = SANDBOXES.iter().find(|(name, _)| *name == asked) {
        return Ok(vec!["-s".to_owned(), (*sandbox).to_owned()]);
    }
    let known: Vec<_> = SANDBOXES.iter().map(|(name, _)| *name).chain(EVERYTHING).collect();
    refused(format!("unknown permissions `{asked}`; known: {}", known.join(", ")))
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

    fn of(turn: &Turn) -> Result<TurnCommand, TurnFailure> {
        let config = AgentConfig {
            name: "codex".to_owned(),
            model: Some("gpt-5.2".to_owned()),
            arguments: vec!["--own".to_owned()],
            ..AgentConfig::default()
        };
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
        command(&CodexAgent::new(config), &request)
    }

    fn line(turn: &Turn) -> String {
        of(turn).unwrap().program.join(" ")
    }

    #[test]
    fn session_is_fresh_resumed_or_forked() {
        let id = || SessionId::new("own");
        assert_eq!(
            line(&turn(SessionPlan::Fresh { id: id() })),
            "codex exec -s workspace-write --own --json --skip-git-repo-check -m gpt-5.2 -"
        );
        assert_eq!(
            line(&turn(SessionPlan::Resume { id: id() })),
            "codex exec -s workspace-write --own resume --json --skip-git-repo-check -m gpt-5.2 own -"
        );
        let branch = SessionPlan::Branch { from: SessionId::new("from"), id: id(), cwd: None };
        assert_eq!(
            line(&turn(branch)),
            "codex exec -s workspace-write --own fork --json --skip-git-repo-check -m gpt-5.2 from -"
        );
    }

    #[test]
    fn model_and_effort_of_the_turn_count() {
        let mut asking = turn(SessionPlan::Fresh { id: SessionId::new("s") });
        asking.settings.model = Some("o9".to_owned());
        asking.settings.effort = Some("high".to_owned());
        let line = line(&asking);
        assert!(line.contains("-m o9 -c model_reasoning_effort=\"high\""), "{line}");
    }

    #[test]
    fn sandbox_is_what_the_user_and_the_state_allow() {
        let given = |skips: bool, permissions: Option<&str>| {
            let mut asking = turn(SessionPlan::Fresh { id: SessionId::new("s") });
            asking.settings.skip_permissions = skips;
            asking.settings.permissions = permissions.map(str::to_owned);
            let arguments = sandbox(&asking.settings).map(|arguments| arguments.join(" "));
            arguments.map_err(|failure| failure.message)
        };
        let all = "--dangerously-bypass-approvals-and-sandbox";
        assert_eq!(given(false, None).unwrap(), "-s workspace-write");
        assert_eq!(given(true, None).unwrap(), all);
        assert_eq!(given(true, Some("bypassPermissions")).unwrap(), all);
        assert_eq!(given(true, Some("plan")).unwrap(), "-s read-only");
        assert_eq!(given(false, Some("read-only")).unwrap(), "-s read-only");
        assert!(given(false, Some("danger-full-access")).unwrap_err().contains("skip-permissions"));
        assert!(given(true, Some("dontAsk")).unwrap_err().contains("unknown permissions"));
    }

    #[test]
    fn prompt_is_given_again_if_the_session_does_not_have_it() {
        let mut again = turn(SessionPlan::Resume { id: SessionId::new("s") });
        again.recovers = true;
        assert_eq!(of(&again).unwrap().stdin, "prompt");
    }
}
