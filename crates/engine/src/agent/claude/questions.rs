//! Claude's own questions: its tool `AskUserQuestion`, handed over to a person by way of the orchestrator.
//!
//! Claude offers the tool only to a program that answers its permission requests (`--permission-prompt-tool stdio`).
//! Two hooks of the turn keep it from waiting: the first gives the call an answer that says that the user is asked, the
//! second ends the turn after the call. So the session is complete on disk, also if Claude used other tools in the same
//! reply, and the person's answer is an ordinary next message of it. Claude's own way to defer a call loses the
//! answer in that case: when the session is resumed, the model is told that the result is missing.
//!
//! Nothing answers permission requests, and standard input ends after the prompt, so Claude denies what it would ask
//! for, as it does without the option. [`permits`] asks a person about that.

use raymond_flow::turn::{OwnOption, OwnQuestion};
use serde::Deserialize;
use serde_json::{Value, json};

use super::permits;

/// The tool.
pub(super) const TOOL: &str = "AskUserQuestion";
/// Why Claude says that the turn ended.
pub(super) const STOPPED: &str = "hook_stopped";

/// The input of the tool.
#[derive(Deserialize)]
struct ToolInput {
    questions: Vec<ToolQuestion>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ToolQuestion {
    question: String,
    #[serde(default)]
    options: Vec<ToolOption>,
    #[serde(default)]
    multi_select: bool,
}

#[derive(Deserialize)]
struct ToolOption {
    label: String,
    #[serde(default)]
    description: String,
}

/// The hooks that let Claude ask, and use what a person has granted.
pub(super) fn hooks(granted: &[String]) -> Value {
    let question = "Your questions";
    let option = |label: &str| json!({ "label": label, "description": label });
    // The input must be valid, and the tool's result shows the answer under the text of the question.
    let input = json!({
        "questions": [{
            "question": question,
            "header": "Questions",
            "multiSelect": false,
            "options": [option("yes"), option("no")],
        }],
        "answers": { (question): "are put to the user now; the next message has the answer" },
    });
    let allow = json!({ "hookSpecificOutput": {
        "hookEventName": "PreToolUse",
        "permissionDecision": "allow",
        "updatedInput": input,
    } });
    let stop = json!({ "continue": false, "stopReason": "the user is asked" });
    let mut before = permits::allow(granted);
    before.push(hook(&allow));
    json!({
        "PreToolUse": before,
        "PostToolUse": [hook(&stop)],
        "PostToolBatch": [permits::stop()],
    })
}

/// A hook that prints `output`. None of the texts above has a single quote.
fn hook(output: &Value) -> Value {
    let command = format!("cat >/dev/null; echo '{output}'");
    json!({ "matcher": TOOL, "hooks": [{ "type": "command", "command": command }] })
}

/// What the blocks of a message ask with the tool.
pub(super) fn asked(content: &Value) -> Vec<OwnQuestion> {
    let blocks = content.as_array().into_iter().flatten();
    let calls = blocks.filter(|block| block["type"] == "tool_use" && block["name"] == TOOL);
    let inputs = calls.filter_map(|call| ToolInput::deserialize(&call["input"]).ok());
    inputs.flat_map(|input| input.questions).map(own_question).collect()
}

fn own_question(asked: ToolQuestion) -> OwnQuestion {
    let ToolQuestion { question: text, options, multi_select: takes_several } = asked;
    let options = options
        .into_iter()
        .map(|ToolOption { label, description }| OwnOption { label, description });
    OwnQuestion { text, options: options.collect(), takes_several, grants: None }
}
