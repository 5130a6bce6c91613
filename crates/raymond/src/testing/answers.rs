//! The answers that a case gives to the questions of its workflow, instead of people.

use std::{
    cell::RefCell,
    collections::{BTreeMap, VecDeque},
    path::{Path, PathBuf},
};

use raymond_engine::asks::{PublishedQuestion, Reply};
use raymond_flow::machine::TIMEOUT;

/// The word for a question that is not answered in time.
pub(super) const TIMEOUT_WORD: &str = "timeout";

/// One answer of a case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ScriptedAnswer {
    /// A label, a text, or `timeout`.
    pub(super) answer: String,
    pub(super) comment: String,
    /// Files to hand over, relative to the working directory of the case.
    pub(super) files: Vec<String>,
}

/// Answers by the state that asks.
pub(crate) type AnswerScript = BTreeMap<String, Vec<ScriptedAnswer>>;

/// The answers that are left while a case runs.
#[derive(Debug)]
pub(super) struct Answers {
    cwd: PathBuf,
    left: RefCell<BTreeMap<String, VecDeque<ScriptedAnswer>>>,
    missing: RefCell<Vec<String>>,
}

impl Answers {
    /// The answers of `script`, whose files are below `cwd`.
    pub(super) fn new(script: &AnswerScript, cwd: &Path) -> Self {
        let left = script.iter().map(|(state, all)| (state.clone(), all.iter().cloned().collect()));
        let (cwd, missing) = (cwd.to_owned(), RefCell::default());
        Self { cwd, left: RefCell::new(left.collect()), missing }
    }

    /// Answers a question; `None` if the case has no answer to it.
    pub(super) fn answer(&self, question: &PublishedQuestion) -> Option<Reply> {
        let state = question.state.as_str();
        let scripted = {
            let mut left = self.left.borrow_mut();
            let key =
                [state, question.state.stem()].into_iter().find(|key| left.contains_key(*key));
            key.and_then(|key| left.get_mut(key)?.pop_front())
        };
        let Some(ScriptedAnswer { answer, comment, files }) = scripted else {
            self.lacks(format!("{state} asks {:?}, and there is no answer to it", question.text));
            return None;
        };
        if let Some(file) = files.iter().find(|file| !self.cwd.join(file).is_file()) {
            self.lacks(format!(
                "the answer to {state} hands over {file:?}, which is not a file in the working directory"
            ));
            return None;
        }
        let reply = |result: String, how: &str| Reply {
            result,
            comment,
            files: files.iter().map(|file| self.cwd.join(file)).collect(),
            by: "case".to_owned(),
            how: how.to_owned(),
        };
        let labels: Vec<_> = question.choices.iter().map(|choice| choice.label.as_str()).collect();
        if labels.is_empty() || labels.contains(&&*answer) {
            // A choice that is called `timeout` can be chosen; a text cannot.
            if !(labels.is_empty() && answer == TIMEOUT_WORD) {
                return Some(reply(answer, "case"));
            }
        } else if answer != TIMEOUT_WORD {
            let labels = labels.join(", ");
            self.lacks(format!("`{answer}` is not a choice of {state}: {labels}"));
            return None;
        }
        let default = question.default.clone();
        if default.is_none() {
            self.lacks(format!(
                "`timeout` of {state}: its question has no `timeout` and `default`"
            ));
        }
        default.map(|default| reply(default, TIMEOUT))
    }

    fn lacks(&self, what: String) {
        self.missing.borrow_mut().push(what);
    }

    /// What the questions lacked.
    pub(super) fn missing(&self) -> Vec<String> {
        self.missing.borrow().clone()
    }

    /// Answers that no question took, by state.
    pub(super) fn left_over(&self) -> Vec<(String, u64)> {
        let left = self.left.borrow();
        let left = left.iter().filter(|(_, answers)| !answers.is_empty());
        left.map(|(state, answers)| (state.clone(), answers.len() as u64)).collect()
    }
}
