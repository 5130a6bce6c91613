//! What a turn cost, from what the coding agent reports during it.
//!
//! By the protocol a report has what the session has cost so far, so a turn costs the difference to the end of the turn
//! before it, which the engine knows. Here is what it does not know:
//!
//! * What a branch begins with. opencode goes on from the cost of its origin and reports once. goose and claude-agent-acp
//!   begin at zero and report several times, first before they ask the model.
//! * What Claude Code counts: before [`BY_SESSION`] only what its process has cost, since then what its session has. It
//!   saves that when it exits, so it forgets what it cost if it is killed; newer ones also say what the turn alone cost.
//!   claude-agent-acp passes its messages on if it is asked to.

use serde_json::{Value, json};

/// The first version of Claude Code whose total includes earlier processes of the session.
const BY_SESSION: [u64; 3] = [2, 1, 277];
/// The notification in which claude-agent-acp passes on a message of Claude Code.
pub(super) const CLAUDE_MESSAGE: &str = "_claude/sdkMessage";

/// How the session of a turn is opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Opening {
    #[default]
    New,
    Resume,
    Branch,
}

/// The cost of one turn, in dollars.
#[derive(Debug, Default)]
pub(super) struct Cost {
    opening: Opening,
    reports: u32,
    /// Of the first report, and of the last one that had a cost.
    first: f64,
    total: Option<f64>,
    /// What the turn alone cost, if Claude Code says so.
    own: Option<f64>,
    /// Whether the total is that of Claude Code's process.
    by_process: bool,
}

impl Cost {
    pub(super) fn new(opening: Opening) -> Self {
        Self { opening, ..Self::default() }
    }

    /// What asks claude-agent-acp for messages of Claude Code. Others ignore it.
    pub(super) fn wish() -> Value {
        let wanted = json!([{ "type": "result" }, { "type": "system", "subtype": "init" }]);
        json!({ "claudeCode": { "emitRawSDKMessages": wanted } })
    }

    /// Takes the cost of a report of usage; it may have none.
    pub(super) fn report(&mut self, cost: &Value) {
        let amount = cost["amount"].as_f64().filter(|_| cost["currency"] == "USD");
        if self.reports == 0 {
            self.first = amount.unwrap_or_default();
        }
        self.reports = self.reports.saturating_add(1);
        self.total = amount.or(self.total);
    }

    /// Takes a message of Claude Code.
    pub(super) fn claude(&mut self, message: &Value) {
        if let Some(version) = message["claude_code_version"].as_str() {
            let numbers: Vec<u64> =
                version.split('.').map_while(|part| part.parse().ok()).collect();
            self.by_process = numbers[..] < BY_SESSION[..];
        }
        if let Some(models) = message["model_usage_since_last_result"].as_object() {
            let costs = models.values().filter_map(|usage| usage["costUSD"].as_f64());
            *self.own.get_or_insert(0.0) += costs.sum::<f64>();
        }
    }

    /// Adds to the last line of a turn what it cost, as far as that is known here, and what the next report of the
    /// session will include.
    pub(super) fn add_to(&self, line: &mut Value) {
        let Some(total) = self.total else { return };
        let known = match self.opening {
            _ if self.by_process => Some(total),
            Opening::New => Some(total),
            // One that is lower than the first has begun anew, or cannot be true.
            Opening::Branch if self.reports > 1 && total < self.first => Some(total),
            Opening::Branch if self.reports > 1 => Some(total - self.first),
            Opening::Branch | Opening::Resume => self.own,
        };
        if let Some(cost) = known {
            line["cost_usd"] = cost.into();
        }
        line["carried_usd"] = if self.by_process { 0.0 } else { total }.into();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the last line has of a turn with these reports: its cost, and what is carried to the next one.
    fn line(opening: Opening, reports: &[Option<f64>], claude: &[Value]) -> (Value, Value) {
        let mut cost = Cost::new(opening);
        for message in claude {
            cost.claude(message);
        }
        for amount in reports {
            cost.report(
                &amount.map_or(Value::Null, |it| json!({ "amount": it, "currency": "USD" })),
            );
        }
        let mut line = json!({});
        cost.add_to(&mut line);
        (line["cost_usd"].clone(), line["carried_usd"].clone())
    }

    fn known(cost: f64, carried: f64) -> (Value, Value) {
        (cost.into(), carried.into())
    }

    #[test]
    fn new_session_costs_what_is_reported() {
        assert_eq!(line(Opening::New, &[Some(0.5)], &[]), known(0.5, 0.5));
        assert_eq!(line(Opening::New, &[None, Some(0.25), Some(0.5)], &[]), known(0.5, 0.5));
        assert_eq!(line(Opening::New, &[None], &[]), (Value::Null, Value::Null));
        let yen = json!({ "amount": 1, "currency": "JPY" });
        let mut cost = Cost::new(Opening::New);
        cost.report(&yen);
        assert_eq!(cost.total, None);
    }

    #[test]
    fn resumed_session_costs_what_the_engine_knows_to_be_new() {
        assert_eq!(line(Opening::Resume, &[Some(0.75)], &[]), (Value::Null, 0.75.into()));
        let goose = [Some(0.5), Some(0.75), Some(0.75)];
        assert_eq!(line(Opening::Resume, &goose, &[]), (Value::Null, 0.75.into()));
    }

    #[test]
    fn branch_begins_with_its_first_report_or_with_its_origin() {
        assert_eq!(line(Opening::Branch, &[Some(0.75)], &[]), (Value::Null, 0.75.into()));
        assert_eq!(line(Opening::Branch, &[None, Some(0.25)], &[]), known(0.25, 0.25));
        assert_eq!(line(Opening::Branch, &[Some(0.5), Some(0.75)], &[]), known(0.25, 0.75));
        let impossible = line(Opening::Branch, &[Some(0.5), Some(-1.0)], &[]);
        assert_eq!(impossible, known(-1.0, -1.0), "it is not taken for nothing");
    }

    #[test]
    fn claude_counts_by_process_or_by_session_depending_on_its_version() {
        let init = |version: &str| json!({ "type": "system", "claude_code_version": version });
        let reports = [None, Some(0.5)];
        let resumed = |claude: &[Value]| line(Opening::Resume, &reports, claude);
        assert_eq!(resumed(&[init("2.1.197")]), known(0.5, 0.0));
        assert_eq!(resumed(&[init("2.1.276")]), known(0.5, 0.0));
        assert_eq!(resumed(&[init("2.1.277")]), (Value::Null, 0.5.into()));
        assert_eq!(resumed(&[init("3.0.0-beta")]), (Value::Null, 0.5.into()));
        let since = json!({ "a": { "costUSD": 0.125 }, "b": { "costUSD": 0.125 }, "c": {} });
        let result = json!({ "type": "result", "model_usage_since_last_result": since });
        assert_eq!(resumed(&[init("2.1.326"), result]), known(0.25, 0.5));
    }
}
