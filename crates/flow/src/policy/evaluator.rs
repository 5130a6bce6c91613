//! Second opinions on a transition that is valid: a pattern on the answer, or another prompt.

use serde::{Deserialize, Serialize};

use super::{AllowedTransition, pattern::compile};

/// One entry of `evaluators`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Evaluator {
    /// If the final message matches, follow another transition.
    Match {
        /// A regular expression.
        pattern: String,
        /// The transition to follow instead; complete.
        then: AllowedTransition,
    },
    /// Ask a fresh session, which sees `{{output}}` and `{{transition}}`.
    Prompt {
        /// The state file that asks.
        prompt: String,
        /// The model for it where the file names none.
        #[serde(skip_serializing_if = "Option::is_none")]
        model: Option<String>,
    },
}

/// The opinion of the next evaluator that has one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opinion<'a> {
    /// A pattern matched: follow this instead.
    Replace {
        /// The pattern.
        pattern: &'a str,
        /// The transition to follow instead.
        then: &'a AllowedTransition,
    },
    /// A prompt must be asked.
    Ask {
        /// The index of the evaluator.
        index: usize,
    },
}

/// Asks `evaluators`, from index `from` on, until one has an opinion about `output`. `None`: none objects.
///
/// Patterns were checked when the file was read, so an error means that the policy was journalled
/// by a program that understood them otherwise.
pub fn next_opinion<'a>(
    evaluators: &'a [Evaluator],
    from: usize,
    output: &str,
) -> Result<Option<Opinion<'a>>, regex::Error> {
    for (index, evaluator) in evaluators.iter().enumerate().skip(from) {
        match evaluator {
            Evaluator::Prompt { .. } => return Ok(Some(Opinion::Ask { index })),
            Evaluator::Match { pattern, then } => {
                if compile(pattern)?.is_match(output) {
                    return Ok(Some(Opinion::Replace { pattern, then }));
                }
            }
        }
    }
    Ok(None)
}
