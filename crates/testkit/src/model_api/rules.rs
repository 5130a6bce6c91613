//! Which reply a request gets.

use std::{
    fmt,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use super::{Reply, Request, lock};

/// The reply to a request; `None` if the rule does not apply.
type Rule = dyn Fn(&Request) -> Option<Reply> + Send + Sync;

/// The part of an unexpected text that an error shows: enough to recognise a prompt.
const SHOWN_CHARS: usize = 200;

/// The rules; the one that was added last is tried first.
#[derive(Default)]
pub(super) struct Rules {
    rules: Mutex<Vec<Arc<Rule>>>,
}

impl Rules {
    /// Adds a rule as a function.
    pub(super) fn add(&self, rule: impl Fn(&Request) -> Option<Reply> + Send + Sync + 'static) {
        lock(&self.rules).push(Arc::new(rule));
    }

    /// Adds a rule for a text: the replies in order, and the last one repeatedly.
    pub(super) fn add_needle(&self, needle: String, replies: Vec<Reply>) {
        let used = AtomicUsize::new(0);
        self.add(move |request| {
            if !request.last_user_text().contains(&needle) {
                return None;
            }
            let next = used.fetch_add(1, Ordering::Relaxed);
            replies.get(next).or(replies.last()).cloned()
        });
    }

    /// The reply to a request. Rules run without the lock, because a test's function may be slow, add
    /// rules, or panic.
    pub(super) fn reply_to(&self, request: &Request) -> Reply {
        let rules = lock(&self.rules).clone();
        rules.iter().rev().find_map(|rule| rule(request)).unwrap_or_else(|| no_rule(request))
    }
}

/// A 400, because Claude Code does not retry it: the test fails at once and shows why.
fn no_rule(request: &Request) -> Reply {
    let text: String = request.last_user_text().chars().take(SHOWN_CHARS).collect();
    let message = format!("the loopback model has no rule for: {text}");
    Reply::status(400, "invalid_request_error", message)
}

impl fmt::Debug for Rules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rules").field("count", &lock(&self.rules).len()).finish()
    }
}
