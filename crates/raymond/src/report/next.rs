//! Suggests the next command, complete and with real ids.

use raymond_flow::{
    id::RunId,
    machine::{Halt, Limit, Phase, Run, Status, Work},
    money::Usd,
};

use crate::quote;

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

    /// The commands that answer the first open question of a run that only people can bring on.
    fn answers_to(&self, run: &Run) -> Option<Vec<String>> {
        let (id, _, question) = run.questions().next().filter(|_| run.waits_for_people())?;
        let labels = question.choices.iter().map(|choice| choice.label.as_str());
        Some(self.answers(&id.to_string(), labels))
    }

    /// The commands that answer a question: one for each of `labels`, or one that reads a text if there are none. What is
    /// pasted must be what is meant, so nothing in them stands for something else.
    pub(crate) fn answers<'l>(
        &self,
        ask: &str,
        labels: impl IntoIterator<Item = &'l str>,
    ) -> Vec<String> {
        let (id, ask, place) = (&self.id, quote::word(ask), &self.place);
        let command = |label: &str| match quote::word(label) {
            word if label.starts_with('-') => format!("raymond answer {id} {ask}{place} -- {word}"),
            word => format!("raymond answer {id} {ask} {word}{place}"),
        };
        let commands: Vec<_> = labels.into_iter().map(command).collect();
        let with_text = || vec![format!("raymond answer {id} {ask} --text -{place}")];
        if commands.is_empty() { with_text() } else { commands }
    }

    /// The command that shows what a coding agent answered, if an agent failed because of its answer.
    pub(crate) fn answer_shown(&self, run: &Run) -> Option<String> {
        let agent = run
            .agents_by_birth()
            .into_iter()
            .find(|agent| matches!(agent.phase, Phase::Failed { work: Work::Rejudge(_), .. }))?;
        Some(format!("raymond show {} {}{}", self.id, quote::word(agent.id.as_str()), self.place))
    }

    /// The one command to type next. If a question has several answers, that is the one that shows them.
    pub(crate) fn one(&self, run: &Run, status: &str) -> Option<String> {
        let (_, mut commands) = self.advice(run, status)?;
        if commands.len() == 1 { commands.pop() } else { Some(self.command("asks")) }
    }

    /// What the user can do about the run, and the command for it, or several to choose from. `status` is its status in
    /// one word.
    pub(crate) fn advice(&self, run: &Run, status: &str) -> Option<(String, Vec<String>)> {
        let resume = self.command("resume");
        let (what, command) = match (run.status, &run.halt) {
            (Status::Running, _) if status == "died" => {
                ("Its program died. Resume it; no finished step runs again:", resume)
            }
            (Status::Paused | Status::Running, None | Some(Halt::Asks | Halt::Interrupted))
                if let Some(commands) = self.answers_to(run) =>
            {
                return Some(("Answer it:".to_owned(), commands));
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
                let at = raymond_engine::observe::views::clock_time(*at);
                return Some((format!("Resume it after {at}:"), vec![resume]));
            }
            (Status::Paused, _) => ("Resume it:", resume),
            (Status::Completed | Status::Cancelled, _) => return None,
        };
        Some((what.to_owned(), vec![command]))
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
