//! What the user can do about a failure of a coding agent.

use raymond_flow::machine::FailureClass;

/// What to do if a coding agent's program cannot be started.
pub(crate) const NOT_INSTALLED: &str = "install it (Claude Code: npm install -g @anthropic-ai/claude-code), or \
    name its program in the settings: `raymond config` shows them";

/// What to do about a failure of this class with the message `error`, if anything helps.
pub(crate) fn of_failure(class: Option<FailureClass>, error: &str) -> Option<&'static str> {
    // Two errors that Claude Code reports only in its message.
    if error.contains("root/sudo privileges") {
        return Some("run as another user, or set IS_SANDBOX=1 inside a sandbox");
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
        FailureClass::NotInstalled => Some(NOT_INSTALLED),
        FailureClass::PromptTooLong => {
            Some("shorten the prompt, or enter the state by <reset> or <function>")
        }
        FailureClass::SessionMissing => {
            Some("when the run is resumed, the state starts in a fresh session")
        }
        FailureClass::Transient { .. }
        | FailureClass::UsageLimit { .. }
        | FailureClass::Budget
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
