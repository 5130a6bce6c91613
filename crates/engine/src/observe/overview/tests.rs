#![allow(clippy::unwrap_used, reason = "in tests a panic is the message")]

use std::fs;

use raymond_flow::{
    id::{AgentId, StateName},
    machine::{
        Halt, Instead, Overrider, Record, Response, SavedWork, Settings, Spent, Status, Tokens,
        Work, Worktree,
    },
    money::Usd,
    policy::{Join, OnFailed, Source, Transition, WorktreePlan},
    view::ENDED_MAX,
};

use super::*;
use crate::exec::steps::memory::Fate;
use crate::testing::{
    RESULT, Stage, Written, asked, ended, failed, followed, fork, goto, id, intended, question,
    result, retried, says,
};

/// What the read model keeps of a text, and of the uses of tools that were not allowed; how it adds up costs.
const TEXT_CHARS_MAX: usize = 400;
const DENIED_MAX: usize = 20;
const QUARTER_MS: u64 = 15 * 60 * 1000;

fn main() -> AgentId {
    AgentId::main()
}

fn usd(dollars: f64) -> Usd {
    Usd::from_dollars(dollars).unwrap()
}

fn step_id(agent: &str, number: u32) -> StepId {
    StepId { agent: AgentId::new(agent), number }
}

#[test]
fn step_has_its_times_its_cost_and_what_followed() {
    let mut written = Written::new();
    written.add(2000, [intended("main", 1, "START.sh")]);
    let running = written.overview().steps[0].clone();
    assert_eq!((running.started_at, running.ended_at, running.end), (2000, None, None));
    assert_eq!(running.cost_usd, None);
    let spent = Spent {
        cost_usd: usd(0.25),
        tokens: Tokens { input: 3, output: 4, ..Tokens::default() },
        model: Some("opus".to_owned()),
        duration_ms: 70,
        ..Spent::default()
    };
    let ended = Record::Ended { agent: main(), number: 1, spent };
    written.add(3000, [ended, followed("main", goto("NEXT.md"), &[])]);
    written.add(4000, [intended("main", 2, "NEXT.md")]);
    let overview = written.overview();
    let [first, second] = &*overview.steps else { panic!("{:?}", overview.steps) };
    assert_eq!((first.started_at, first.ended_at, first.duration_ms), (2000, Some(3000), Some(70)));
    assert_eq!((first.cost_usd, first.tokens.unwrap().output), (Some(usd(0.25)), 4));
    assert_eq!((first.model.as_deref(), first.is_turn()), (Some("opus"), false));
    assert_eq!((first.end, first.tag), (Some("followed"), Some("goto")));
    assert_eq!(first.to.as_ref().unwrap().as_str(), "NEXT.md");
    assert_eq!((second.id().to_string(), second.is_turn()), ("main/2".to_owned(), true));
    assert_eq!(overview.step(&step_id("main", 2)).unwrap().index, 1);
    assert_eq!(overview.step(&step_id("main", 3)), None);
    let running: Vec<_> = overview.running().map(|(id, _)| id).collect();
    assert_eq!(running, [step_id("main", 2)]);
}

#[test]
fn duration_that_was_not_measured_is_unknown() {
    let mut written = Written::new();
    written.add(2000, [intended("main", 1, "START.sh")]);
    let ended = Record::Ended { agent: main(), number: 1, spent: Spent::default() };
    written.add(3000, [ended]);
    assert_eq!(written.overview().steps[0].duration_ms, None);
}

#[test]
fn what_came_of_a_step_is_a_word_and_the_reason() {
    let remind =
        Record::Reminded { agent: main(), problem: "no tag".to_owned(), work: Work::Enter };
    let asked = asked("main", question("Which?"));
    let overridden = Record::Overridden {
        agent: main(),
        asked: goto("NEXT.sh"),
        source: Source::Tag,
        session: None,
        by: Overrider::Visits { max_visits: 2 },
        instead: Instead::Stop,
    };
    let cases = [
        (remind, "reminded", Some("no tag")),
        (retried("main", "overloaded", 5), "retried", Some("overloaded")),
        (failed("main", "exit code 1"), "failed", Some("exit code 1")),
        (asked, "asked", Some("Which?")),
        (overridden, "overridden", None),
    ];
    for (record, word, text) in cases {
        let mut written = Written::new();
        written.add(2000, [intended("main", 1, "START.sh")]);
        written.add(3000, [ended("main", 1, 0.0), record]);
        let overview = written.overview();
        let step = &overview.steps[0];
        assert_eq!((step.end, step.text.as_deref()), (Some(word), text));
    }
}

#[test]
fn first_reason_counts_and_belongs_to_the_latest_step() {
    let mut written = Written::new();
    written.add(2000, [intended("main", 1, "START.sh")]);
    written.add(3000, [ended("main", 1, 0.0), retried("main", "overloaded", 5)]);
    written.add(4000, [Record::Woke { agent: main() }, failed("main", "given up")]);
    let overview = written.overview();
    assert_eq!(overview.steps[0].end, Some("retried"));
    written.add(
        5000,
        [Record::Resumed {
            settings: Settings::default(),
            limits: raymond_flow::machine::Limits::default(),
        }],
    );
    written.add(6000, [intended("main", 2, "START.sh")]);
    written.add(7000, [ended("main", 2, 0.0), failed("main", "again")]);
    let overview = written.overview();
    let words: Vec<_> = overview.steps.iter().map(|step| step.end.unwrap()).collect();
    assert_eq!(words, ["retried", "failed"]);
}

#[test]
fn lost_step_ends_when_that_is_found_and_is_started_again() {
    let fates = vec![Fate::Lost(String::new()), says(RESULT)];
    let stage = Stage::new(&["START.md"], [("START.md", fates)]);
    stage.start();
    let mut overview = Overview::new(id(), stage.files());
    overview.refresh();
    let words = overview.steps.iter().map(|step| step.end.unwrap());
    assert_eq!(words.collect::<Vec<_>>(), ["retried", "followed"]);
    assert!(overview.steps.iter().all(|step| step.ended_at.is_some()));
    assert_eq!(overview.steps[1].attempt, 2);
}

#[test]
fn wait_before_a_retry_is_known_until_it_is_over() {
    let mut written = Written::new();
    written.add(2000, [intended("main", 1, "START.sh")]);
    written.add(3000, [ended("main", 1, 0.0), retried("main", "overloaded", 500)]);
    let waits = |written: &Written| written.overview().agents[&main()].waits.clone();
    assert_eq!(waits(&written), Some((3500, "overloaded".to_owned())));
    written.add(3600, [Record::Woke { agent: main() }]);
    assert_eq!(waits(&written), None);
}

#[test]
fn text_of_an_end_is_short_and_on_one_line() {
    let mut written = Written::new();
    written.add(2000, [intended("main", 1, "START.sh")]);
    let long = format!("first\nsecond{}", "x".repeat(10_000));
    written.add(3000, [ended("main", 1, 0.0), failed("main", &long)]);
    let text = written.overview().steps[0].text.clone().unwrap();
    assert!(text.starts_with("first secondx") && text.ends_with("x…"), "{text}");
    assert_eq!(text.chars().count(), TEXT_CHARS_MAX + 1);
}

#[test]
fn every_worker_of_a_fork_has_its_parent_its_variables_and_the_way_that_it_came() {
    let mut written = Written::new();
    written.add(2000, [intended("main", 1, "START.sh")]);
    let workers = ["main_work1", "main_work2", "main_work3"];
    let forked = followed("main", fork(&["a", "b", "c"]), &workers);
    written.add(3000, [ended("main", 1, 0.0), forked]);
    let overview = written.overview();
    for (born, (worker, name)) in (1..).zip(workers.into_iter().zip(["a", "b", "c"])) {
        let facts = &overview.agents[&AgentId::new(worker)];
        assert_eq!((facts.born, facts.parent.as_ref()), (born, Some(&main())));
        assert_eq!(overview.attributes[&AgentId::new(worker)]["name"], name);
        let came = facts.came.as_ref().unwrap_or_else(|| panic!("{worker}"));
        assert_eq!((came.from.as_str(), came.to.as_str()), ("START.sh", "WORK.sh"));
        assert_eq!((came.kind, facts.since_ms), ("fork", 3000));
    }
    let came = overview.agents[&main()].came.as_ref().unwrap();
    assert_eq!((came.kind, came.to.as_str()), ("next", "NEXT.sh"));
    assert_eq!(overview.steps[0].worker.as_ref().unwrap().as_str(), "main_work1");
}

#[test]
fn agent_that_joins_stays_in_its_state_and_leaves_it_when_the_join_is_complete() {
    let join = Join {
        target: StateName::new("ALL.sh"),
        count: None,
        failed: OnFailed::default(),
        input: None,
    };
    let mut written = Written::new();
    written.add(2000, [followed("main", fork(&["a"]), &["main_work1"])]);
    written.step(("main", 1), "NEXT.sh", (3000, 4000), Transition::Join(join));
    let came = |written: &Written| written.overview().agents[&main()].came.clone().unwrap();
    assert_eq!(came(&written).kind, "next", "the join is not complete");
    written.step(("main_work1", 1), "WORK.sh", (5000, 6000), result("ok"));
    let taken = raymond_flow::machine::Taken { agent: AgentId::new("main_work1"), born: 1 };
    written.add(7000, [Record::Joined { agent: main(), workers: vec![taken] }]);
    let came = came(&written);
    assert_eq!((came.kind, came.from.as_str(), came.to.as_str()), ("join", "NEXT.sh", "ALL.sh"));
}

#[test]
fn agent_that_has_ended_is_remembered_with_its_result_and_its_cost() {
    let mut written = Written::new();
    written.add(2000, [followed("main", fork(&["a"]), &["main_work1"])]);
    written.add(3000, [intended("main_work1", 1, "WORK.sh")]);
    let end = followed("main_work1", result("all\ngood"), &[]);
    written.add(4000, [ended("main_work1", 1, 0.5), end]);
    let overview = written.overview();
    let worker = AgentId::new("main_work1");
    assert!(!overview.run().unwrap().agents.contains_key(&worker));
    let left = overview.agents[&worker].ended.clone().unwrap();
    assert_eq!((left.at_ms, left.state.as_str(), left.steps), (4000, "WORK.sh", 1));
    assert_eq!((left.cost_usd, left.result.as_str()), (usd(0.5), "all good"));
    assert_eq!(overview.agents[&main()].ended, None);
}

#[test]
fn worker_with_a_worktree_has_ended_when_its_work_is_saved() {
    let (name, repository, commit) = ("main_work1", "/repository".to_owned(), "c0".to_owned());
    let mut forks = fork(&["a"]);
    if let Transition::Fork { workers, .. } = &mut forks {
        let (repository, commit) = (repository.clone(), commit.clone());
        let (name, inside) = (None, String::new());
        workers[0].worktree = Some(Box::new(WorktreePlan { name, repository, inside, commit }));
    }
    let mut written = Written::new();
    written.add(2000, [followed("main", forks, &[name])]);
    let (agent, cwd) = (AgentId::new(name), "/worktree".to_owned());
    let (path, branch) = (cwd.clone(), "b".to_owned());
    let worktree =
        Box::new(Worktree { path, branch, repository, base: commit, head: None, problem: None });
    let made = Record::WorktreeMade { agent: agent.clone(), worktree, cwd };
    written.add(3000, [made, intended(name, 1, "WORK.sh")]);
    written.add(4000, [ended(name, 1, 0.5), followed(name, result("good"), &[])]);
    let overview = written.overview();
    assert_eq!(overview.agents[&agent].ended, None, "its work is being saved");
    let ways = overview.trace.ways.keys().filter(|way| way.is_worker).map(|way| way.to.clone());
    assert_eq!(ways.collect::<Vec<_>>(), [None], "a result that ends its agent enters no state");
    assert_eq!(overview.steps[0].to, None);
    let saved = SavedWork { head: None, problem: None };
    written.add(5000, [Record::WorktreeSaved { agent: agent.clone(), saved }]);
    let left = written.overview().agents[&agent].ended.clone().unwrap();
    assert_eq!((left.at_ms, left.state.as_str(), left.steps), (5000, "WORK.sh", 1));
    assert_eq!((left.cost_usd, left.result.as_str()), (usd(0.5), "good"));
}

#[test]
fn only_the_latest_ended_agents_are_remembered_however_many_there_were() {
    let names: Vec<_> = (1..=2 * ENDED_MAX + 1).map(|n| format!("main_work{n}")).collect();
    let names: Vec<_> = names.iter().map(String::as_str).collect();
    let mut written = Written::new();
    written.add(2000, [followed("main", fork(&names), &names)]);
    written.add(3000, names.iter().map(|name| followed(name, result("ok"), &[])));
    let overview = written.overview();
    assert_eq!(overview.run().unwrap().agents_born, 2 * ENDED_MAX as u64 + 2);
    assert_eq!(overview.agents.len(), ENDED_MAX + 2, "main, and those since the last clearing");
    assert!(!overview.agents.contains_key(&AgentId::new(names[0])));
    assert!(overview.agents.contains_key(&AgentId::new(names[2 * ENDED_MAX])));
}

#[test]
fn old_steps_are_forgotten_and_the_later_ones_keep_their_place_in_the_run() {
    let count = TEST_STEPS + 3;
    let mut written = Written::new();
    for number in 1..=u32::try_from(count).unwrap() {
        let state = if number == 1 { "START.sh" } else { "NEXT.sh" };
        let at = u64::from(number) * 10;
        written.step(("main", number), state, (at, at + 5), goto("NEXT.sh"));
    }
    let overview = written.overview();
    assert_eq!(overview.forgotten, TEST_STEPS / 2);
    assert_eq!(overview.forgotten + overview.steps.len(), count);
    let first = &overview.steps[0];
    assert_eq!(first.number as usize, overview.forgotten + 1);
    assert!(overview.steps.iter().all(|step| step.end.is_some()), "each end found its step");
    assert_eq!(overview.accounts.total.steps, count as u64, "the totals forget nothing");
}

#[test]
fn costs_are_summed_from_a_quarter_of_an_hour_on() {
    let mut written = Written::new();
    for (number, quarter) in [(1, 4), (2, 5), (3, 5), (4, 7)] {
        let at = quarter * QUARTER_MS + 60_000;
        let state = if number == 1 { "START.sh" } else { "NEXT.sh" };
        written.add(at, [intended("main", number, state)]);
        let next = followed("main", goto("NEXT.sh"), &[]);
        written.add(at + 1, [ended("main", number, f64::from(number)), next]);
    }
    let overview = written.overview();
    let since = |quarter: u64| overview.cost_since(quarter * QUARTER_MS);
    assert_eq!([0, 4, 5, 6, 7, 8].map(since), [10.0, 10.0, 9.0, 4.0, 4.0, 0.0].map(usd));
    let later = overview.cost_since(4 * QUARTER_MS + 1);
    assert_eq!(later, usd(9.0), "a quarter that has begun before does not count");
}

#[test]
fn denied_tools_are_all_counted_and_some_are_listed() {
    let denied: Vec<_> = (0..50).map(|number| format!("Bash {number}")).collect();
    let spent = Spent { denied, ..Spent::default() };
    let mut written = Written::new();
    written.add(2000, [intended("main", 1, "START.sh")]);
    let next = followed("main", goto("NEXT.sh"), &[]);
    written.add(3000, [Record::Ended { agent: main(), number: 1, spent }, next]);
    let overview = written.overview();
    assert_eq!((overview.denied, overview.agents[&main()].denied), (50, 50));
    let listed = &overview.steps[0].denied;
    assert_eq!((listed.len(), listed[0].as_str()), (DENIED_MAX, "Bash 0"));
}

#[test]
fn run_rests_while_a_usage_limit_lasts_and_after_its_end() {
    let mut written = Written::new();
    let rests = |written: &Written| written.overview().rests_since;
    assert_eq!(rests(&written), None);
    written.add(5000, [Record::UsageLimited { resets_at: Some(9) }]);
    assert_eq!(rests(&written), Some(5000));
    written.add(6000, [Record::UsageLimitLifted]);
    let overview = written.overview();
    assert_eq!((overview.rests_since, overview.agents[&main()].since_ms), (None, 6000));
    written.add(7000, [Record::Halted { why: Halt::Interrupted }]);
    written.add(8000, [Record::Finished { status: Status::Paused }]);
    assert_eq!((rests(&written), written.overview().last_at), (Some(8000), Some(8000)));
}

#[test]
fn intent_of_a_step_is_read_back_from_the_journal() {
    let mut written = Written::new();
    written.step(("main", 1), "START.sh", (2000, 3000), goto("NEXT.sh"));
    written.add(4000, [intended("main", 2, "NEXT.sh")]);
    let overview = written.overview();
    for (number, state) in [(1, "START.sh"), (2, "NEXT.sh")] {
        let facts = overview.step(&step_id("main", number)).unwrap();
        let step = overview.intent(facts).unwrap().unwrap();
        assert_eq!((step.number, step.state.as_str()), (number, state));
    }
    let mut elsewhere = overview.steps[0].clone();
    elsewhere.line = 0;
    assert_eq!(overview.intent(&elsewhere).unwrap(), None);
    fs::remove_file(written.files().journal).unwrap();
    assert!(overview.intent(&overview.steps[0]).is_err());
}

#[test]
fn refresh_reads_what_is_new_and_gives_the_same_as_reading_it_all() {
    let mut written = Written::new();
    let mut overview = written.overview();
    written.add(2000, [intended("main", 1, "START.sh")]);
    overview.refresh();
    written.add(3000, [ended("main", 1, 0.5), followed("main", goto("NEXT.sh"), &[])]);
    overview.refresh();
    let whole = written.overview();
    assert_eq!(overview.steps, whole.steps);
    assert_eq!(overview.agents, whole.agents);
    assert_eq!((overview.run(), overview.offset()), (whole.run(), written.offset()));
    assert_eq!(overview.problem, None);
}

#[test]
fn journal_that_was_replaced_is_read_anew_whether_it_is_shorter_or_longer() {
    let mut old = Written::new();
    old.step(("main", 1), "START.sh", (2000, 3000), goto("NEXT.sh"));
    let mut shorter = Written::new();
    shorter.add(2000, [intended("main", 1, "START.sh")]);
    let mut longer = Written::new();
    for number in 1..=9 {
        let state = if number == 1 { "START.sh" } else { "OTHER.sh" };
        longer.step(("main", number), state, (4000, 5000), goto("OTHER.sh"));
    }
    for (other, steps) in [(&shorter, 1), (&longer, 9)] {
        let mut overview = old.overview();
        let before = fs::read(old.files().journal).unwrap();
        fs::copy(other.files().journal, old.files().journal).unwrap();
        overview.refresh();
        assert_eq!((overview.steps.len(), &overview.problem), (steps, &None));
        fs::write(old.files().journal, before).unwrap();
    }
}

#[test]
fn damaged_journal_is_shown_up_to_the_damage_and_says_so_until_it_is_repaired() {
    let mut written = Written::new();
    written.step(("main", 1), "START.sh", (2000, 3000), goto("NEXT.sh"));
    let at = usize::try_from(written.offset()).unwrap();
    written.step(("main", 2), "NEXT.sh", (4000, 5000), goto("NEXT.sh"));
    written.step(("main", 3), "NEXT.sh", (6000, 7000), goto("NEXT.sh"));
    let whole = fs::read(written.files().journal).unwrap();
    let mut damaged = whole.clone();
    damaged[at + 20] ^= 1;
    fs::write(written.files().journal, &damaged).unwrap();
    let mut overview = written.overview();
    assert_eq!(overview.steps.len(), 1);
    let problem = overview.problem.clone().unwrap();
    assert!(problem.contains("r.journal"), "{problem}");
    overview.refresh();
    assert_eq!((overview.steps.len(), overview.problem.as_ref()), (1, Some(&problem)));
    fs::write(written.files().journal, &whole).unwrap();
    overview.refresh();
    assert_eq!((overview.steps.len(), &overview.problem), (3, &None));
}

#[test]
fn run_without_a_readable_journal_has_a_problem_and_no_run() {
    let written = Written::new();
    fs::remove_file(written.files().journal).unwrap();
    let overview = written.overview();
    assert!(overview.run().is_none() && overview.steps.is_empty());
    assert!(overview.problem.is_some());
    assert!(!overview.is_alive());
    assert_eq!(*overview.id(), id());
}

#[test]
fn answered_question_leads_on() {
    let mut written = Written::new();
    written.add(2000, [intended("main", 1, "START.sh")]);
    written.add(3000, [ended("main", 1, 0.0), asked("main", question("Which?"))]);
    let response = Response {
        result: "yes".to_owned(),
        comment: String::new(),
        files: None,
        by: "ann".to_owned(),
        how: "page".to_owned(),
        at_ms: 4000,
        attachments: Vec::new(),
    };
    let answered = Record::Answered { agent: main(), number: 1, response: Box::new(response) };
    written.add(4000, [answered, followed("main", goto("NEXT.sh"), &[])]);
    let overview = written.overview();
    let facts = &overview.agents[&main()];
    assert_eq!(facts.came.as_ref().unwrap().to.as_str(), "NEXT.sh");
    assert_eq!((facts.since_ms, facts.offset), (4000, written.offset()));
    assert_eq!(overview.steps[0].ended_at, Some(3000), "the wait for a person is not the step's");
}
