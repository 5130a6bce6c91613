//! Suggests the next command, complete and with real ids.

use raymond_flow::{
    id::RunId,
    machine::{Halt, Limit, Phase, Run, Status, Work},
    money::Usd,
};

/// Commands about one run.
#[derive(Clone, Debug)]
pub(crate) struct Next {
    pub(crate) id: RunId,
    /// Options that are needed to find the run.
    pub(crate) place: String,
}

impl Next {
    /// The command `raymond VERB` for the run.
    pub(crate) fn command(&self, verb: &str) -> String {
        format!("raymond {verb} {}{}", self.id, self.place)
    }

    /// The command that answers the first open question of a run that only people can bring on.
    fn answer(&self, run: &Run) -> Option<String> {
        let (id, _, question) = run.questions().next().filter(|_| run.waits_for_people())?;
        let labels = question.choices.iter().map(|choice| choice.label.as_str());
        Some(self.answer_command(&id.to_string(), labels))
    }

    /// The command that answers a question with one of `labels`, or with a text if there are none.
    pub(crate) fn answer_command<'l>(
        &self,
        ask: &str,
        labels: impl IntoIterator<Item = &'l str>,
    ) -> String {
        let labels: Vec<_> = labels.into_iter().map(shell_word).collect();
        let what = if labels.is_empty() { "--text …".to_owned() } else { labels.join("|") };
        format!("raymond answer {} {ask} {what}{}", self.id, self.place)
    }

    /// The command that shows what a coding agent answered, if an agent failed because of its answer.
    pub(crate) fn answer_shown(&self, run: &Run) -> Option<String> {
        let agent = run
            .agents_by_birth()
            .into_iter()
            .find(|agent| matches!(agent.phase, Phase::Failed { work: Work::Rejudge(_), .. }))?;
        Some(format!("raymond show {} {}{}", self.id, agent.id, self.place))
    }

    /// What the user can do about the run, and the command for it. `status` is its status in one word.
    pub(crate) fn advice(&self, run: &Run, status: &str) -> Option<(String, String)> {
        let resume = self.command("resume");
        let (what, command) = match (run.status, &run.halt) {
            (Status::Running, _) if status == "died" => {
                ("Its program died. Resume it; no finished step runs again:", resume)
            }
            (Status::Paused | Status::Running, None | Some(Halt::Asks | Halt::Interrupted))
                if let Some(command) = self.answer(run) =>
            {
                ("Answer it:", command)
            }
            (Status::Running, _) => ("Watch it:", self.command("attach")),
            (Status::Failed, _) => ("Fix the failure, then resume:", resume),
            (Status::Stopped, Some(Halt::Limit(Limit::Iterations { max_iterations }))) => {
                let more = max_iterations.saturating_mul(2);
                ("Raise the limit and resume:", format!("{resume} --max-iterations {more}"))
            }
            (Status::Stopped, _) => {
                let more = higher_budget(run.limits.budget_usd, run.total_cost_usd);
                ("Raise the budget and resume:", format!("{resume} --budget {more}"))
            }
            (Status::Paused, Some(Halt::DiskLow { .. })) => (
                "Free space on the disk that has the runs (raymond doctor names it), then resume:",
                resume,
            ),
            (Status::Paused, Some(Halt::UsageLimit { resets_at: Some(at) })) => {
                let at = raymond_engine::views::clock_time(*at);
                return Some((format!("Resume it after {at}:"), resume));
            }
            (Status::Paused, _) => ("Resume it:", resume),
            (Status::Completed | Status::Cancelled, _) => return None,
        };
        Some((what.to_owned(), command))
    }
}

/// A label as a word of a command.
fn shell_word(label: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '/');
    if label.chars().all(is_plain) {
        label.to_owned()
    } else {
        format!("'{}'", label.replace('\'', "'\\''"))
    }
}

/// A budget that lets the run continue: twice what was allowed or spent.
fn higher_budget(budget: Option<Usd>, spent: Usd) -> String {
    let most = budget.unwrap_or_default().max(spent);
    let doubled = (most + most).to_string();
    let doubled = doubled.trim_start_matches('$');
    doubled.strip_suffix(".00").unwrap_or(doubled).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn higher_budget_is_above_what_was_spent() {
        let of = |budget, spent| {
            higher_budget(Usd::from_dollars(budget), Usd::from_dollars(spent).unwrap())
        };
        assert_eq!([of(5.0, 5.01), of(0.2, 0.25), of(0.004, 0.003)], ["10.02", "0.50", "0.008"]);
        assert_eq!(of(10.0, 10.0), "20");
    }
}
