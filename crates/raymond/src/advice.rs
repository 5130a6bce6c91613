//! What the user can do about a failure of a coding agent.

use raymond_flow::machine::FailureClass;

/// What to do if a coding agent's program cannot be started.
pub(crate) const NOT_INSTALLED: &str = "install it (Claude Code: npm install -g @anthropic-ai/claude-code), or \
    name its program: `program` under [agents.claude] in the settings, or RAYMOND_CLAUDE=/path/to/claude";

/// What to do about a failure of this class with the message `error`, if anything helps.
pub(crate) fn of_failure(class: Option<FailureClass>, error: &str) -> Option<&'static str> {
    // These are known only by their messages.
    if error.contains("root/sudo privileges") {
        return Some("run as another user, or set IS_SANDBOX=1 inside a sandbox");
    }
    if error.contains("no transition tag was found") {
        return Some(if error.starts_with("script ") {
            "print one, for instance: echo '<result>done</result>'"
        } else {
            "say in the prompt which tag to end with, and list it in `allowed_transitions`: then the \
             agent is reminded of it"
        });
    }
    if error.contains("printed nothing for") {
        return Some("let it print something, or give it more time: resume with --timeout 1h");
    }
    if error.starts_with("nobody is there to answer") {
        return Some(
            "give the question a `default`, or wait for an answer: resume with --ask wait",
        );
    }
    if error.starts_with("no model was asked") {
        return Some("look at the UserPromptSubmit hooks in Claude's settings");
    }
    match class? {
        FailureClass::Authentication => {
            Some("log in (Claude Code: run `claude`), or set the API key (ANTHROPIC_API_KEY)")
        }
        FailureClass::Billing => Some("add credit or raise the limit at the provider"),
        FailureClass::UnknownModel => {
            Some("check `model:` in the state, `--model` and the settings")
        }
        FailureClass::NotInstalled if error.contains("claude") => Some(NOT_INSTALLED),
        FailureClass::NotInstalled => Some(
            "install it, or correct `program` or `acp` of the coding agent: `raymond config` shows it",
        ),
        FailureClass::PromptTooLong => {
            Some("shorten the prompt, or enter the state by <reset> or <function>")
        }
        FailureClass::AnswerTooLong => {
            Some("ask for less at once, or for a file that is written in parts")
        }
        FailureClass::NotUnderstood => Some(
            "keep no process with `--warm 0`, or install a version that works, and resume; see what differs: raymond doctor",
        ),
        FailureClass::SessionMissing => {
            Some("when the run is resumed, the state starts in a fresh session")
        }
        FailureClass::Transient { .. } => {
            Some("check the network and whether the provider has an outage")
        }
        FailureClass::Budget => Some(
            "raise `budget` of the state; when the run is resumed, the turn goes on with that amount",
        ),
        FailureClass::MaxTurns => Some(
            "raise `max_turns` of the state or of `[agents.claude]`; when the run is resumed, the turn goes on",
        ),
        FailureClass::BadOutput => {
            Some("check `schema` of the state, and what its prompt asks for")
        }
        FailureClass::UsageLimit { .. }
        | FailureClass::Misconfigured
        | FailureClass::Refused
        | FailureClass::Killed
        | FailureClass::TimedOut
        | FailureClass::Other => None,
    }
}

/// The error with the advice.
pub(crate) fn with_advice(error: &str, class: Option<FailureClass>) -> String {
    of_failure(class, error).map_or_else(|| error.to_owned(), |advice| format!("{error}; {advice}"))
}
