//! The messages that Raymond itself writes to an agent.

use std::fmt::Write as _;

use crate::{
    machine::Message,
    policy::{LEFT_OPEN, Policy, Problem},
};

/// Asks an agent again after an answer that broke the protocol, and lists what is allowed.
/// `has_output` says whether the state has a structured output.
pub fn reminder(problem: &Problem, policy: &Policy, has_output: bool) -> String {
    let mut text = format!("Your last message did not end this step: {problem}.\n\n");
    if has_output {
        text.push_str("Give the structured output again, with the tool that you have for it. ");
    }
    text.push_str("Reply with exactly one of these transition tags:\n\n");
    list_allowed(&mut text, policy);
    text.push_str(CLOSING);
    text
}

/// Asks an evaluator again after an answer that is not a verdict.
pub fn evaluator_reminder(problem: &Problem, policy: &Policy) -> String {
    let mut text = format!(
        "Your last message was not a judgement: {problem}.\n\n\
         Reply with exactly one of these tags:\n\n\
         - <result>accept</result> (follow the transition as it is)\n"
    );
    if policy.can_remind() {
        list_allowed(&mut text, policy);
    } else {
        text.push_str("- any one transition tag that should be followed instead\n");
    }
    text.push_str(CLOSING);
    text
}

/// Continues an interrupted turn in the same session.
pub fn continuation(policy: &Policy) -> String {
    let text = "Your last turn was interrupted before it ended. Go on from where you stopped: \
                look at what is already done, do not do it again, and finish the task.";
    with_end(text, policy)
}

/// Continues a turn that has spent its share of the budget, in the same session.
pub fn more_money(policy: &Policy) -> String {
    let text = "Your last turn was stopped because it had spent the money set aside for it. There is more now. \
                Go on from where you stopped; do not repeat what is already done. If you had already finished, \
                repeat only your final message.";
    with_end(text, policy)
}

/// Hands over a person's answer to what a coding agent asked with a tool of its own, in the same session.
pub fn answered(result: &str, comment: &str, files: Option<&str>, policy: &Policy) -> String {
    let mut text = format!("Here is the user's answer to what you asked:\n\n{result}\n");
    // Writing to a String cannot fail.
    if !comment.is_empty() {
        let _ = write!(text, "\n{comment}\n");
    }
    if let Some(files) = files {
        let _ = write!(text, "\nFiles that came with it, if any, are in {files}\n");
    }
    text.push_str("\nGo on with your task.");
    with_end(&text, policy)
}

/// How a message of a person begins.
const MESSAGE: &str = "A message for you from the user, sent while you were at work:";

/// How it ends.
const MESSAGE_END: &str =
    "Take it into account and go on with your task. How you must end it has not changed.";

/// A message of a person to a running turn.
pub fn message(text: &str) -> String {
    format!("{MESSAGE}\n\n{text}\n\n{MESSAGE_END}")
}

/// What a person said in a [`message`].
pub fn message_text(message: &str) -> Option<&str> {
    let text = message.strip_prefix(MESSAGE)?.strip_suffix(MESSAGE_END)?;
    text.strip_prefix("\n\n")?.strip_suffix("\n\n")
}

/// A prompt, followed by messages of people.
pub fn with_messages<'a>(
    mut prompt: String,
    messages: impl IntoIterator<Item = &'a Message>,
) -> String {
    for sent in messages {
        prompt.push_str("\n\n");
        prompt.push_str(&message(&sent.text));
    }
    prompt
}

/// What comes before the messages of people in a prompt: nothing if it consists of one.
pub fn before_messages(prompt: &str) -> &str {
    match prompt.split_once(MESSAGE) {
        Some((before, _)) => before.strip_suffix("\n\n").unwrap_or(before),
        None => prompt,
    }
}

/// `text`, and how the answer must end.
fn with_end(text: &str, policy: &Policy) -> String {
    let mut text = text.to_owned();
    if policy.can_remind() {
        text.push_str("\n\nEnd with exactly one of these transition tags:\n\n");
        list_allowed(&mut text, policy);
    } else {
        text.push_str(" End with the transition tag that the task asks for.");
    }
    text
}

const CLOSING: &str = "\nWrite the tag itself, complete and only once, in your reply.";

fn list_allowed(text: &mut String, policy: &Policy) {
    for entry in &policy.allowed {
        let example = entry.example();
        let note =
            if example.contains(LEFT_OPEN) { " (your own text in place of …)" } else { "" };
        // Writing to a String cannot fail.
        let _ = writeln!(text, "- {example}{note}");
    }
}
