//! The summary of a session that its coding agent cannot continue, for the one that takes over: made of what was
//! recorded, not by a model.

use raymond_flow::{
    id::{SessionId, StepId},
    machine::{Action, Step},
    text::beginning,
    turn::Outcome,
};

use super::Performer;
use crate::{observe::answers::turn_end, trust::regular};

/// How much of each prompt and answer is told: the beginning of it.
const TEXT_CHARS_MAX: usize = 4_000;
/// How many turns are told: the latest ones. More would fill the context of the coding agent that takes over.
const TURNS_MAX: usize = 12;
/// The most earlier steps of an agent that are searched for them.
const STEPS_MAX: usize = 1000;
/// The most that is read of a prompt.
const PROMPT_BYTES_MAX: u64 = 1024 * 1024;

impl Performer<'_> {
    /// `prompt`, after a summary of the turns of agent `id.agent` in `session`, which belongs to the coding agent `of`.
    pub(super) fn handed_over(
        &self,
        id: &StepId,
        session: &SessionId,
        of: &str,
        prompt: &str,
    ) -> String {
        let mut turns = Vec::new();
        for number in (1..id.number).rev().take(STEPS_MAX) {
            if turns.len() == TURNS_MAX {
                break;
            }
            turns.extend(self.told_turn(&StepId { agent: id.agent.clone(), number }, session));
        }
        turns.reverse();
        format!(
            "[Raymond: you take over from the coding agent `{of}`, which is not available now. You do not have its \
             session. This is a record of its last turns, not a message of the user; files are as it left them.]\n\n\
             {}\n\n[End of the record. Your task:]\n\n{prompt}",
            turns.join("\n\n")
        )
    }

    /// The prompt and the answer of a turn, if it was one of `session` and has an answer.
    fn told_turn(&self, id: &StepId, session: &SessionId) -> Option<String> {
        let folder = self.folder(id);
        let Step { state, action: Action::Turn(turn), .. } = folder.intent().ok()?? else {
            return None;
        };
        let agent = self.means.agents.for_turn(&turn).ok()?;
        let end = turn_end(&folder, u64::MAX, None, agent).ok()?;
        let own = end.spent.session.as_ref().unwrap_or_else(|| turn.session.id());
        let Outcome::Reply { text } = end.outcome else { return None };
        if own != session {
            return None;
        }
        let stdin = regular::read(&folder.prompt(), PROMPT_BYTES_MAX).ok()?;
        let prompt = agent.prompt_text(&String::from_utf8_lossy(&stdin));
        let cut = |text: &str| beginning(text.trim(), TEXT_CHARS_MAX);
        Some(format!("## {state}\n\nPrompt:\n{}\n\nAnswer:\n{}", cut(&prompt), cut(&text)))
    }
}
