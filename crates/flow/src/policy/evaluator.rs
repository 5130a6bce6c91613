//! Second opinions on a transition that is valid: a pattern on the answer, or another prompt.

use super::{AllowedTransition, pattern::compile};

/// One entry of `evaluators`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Evaluator {
    /// If the final message matches, follow another transition.
    Match {
        /// A regular expression.
        pattern: String,
        /// What to follow instead; complete.
        then: AllowedTransition,
    },
    /// Ask a fresh session, which sees `{{output}}` and `{{transition}}`.
    Prompt {
        /// The state file that asks.
        prompt: String,
        /// The model for it where the file names none.
        model: Option<String>,
    },
}

/// The next evaluator that has something to say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opinion<'a> {
    /// A pattern matched: follow this instead.
    Replace {
        /// The pattern.
        pattern: &'a str,
        /// What to follow.
        then: &'a AllowedTransition,
    },
    /// A prompt must be asked.
    Ask {
        /// Which evaluator.
        index: usize,
    },
}

/// Goes through `evaluators` from number `from` on until one has an opinion about `output`.
/// `None`: all are content.
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
