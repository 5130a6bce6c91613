//! Budget and iterations: what stops, what is recorded, and how the run is resumed.

use raymond_flow::{
    id::StateName,
    machine::{
        FailureClass, Halt, Input, Instead, Launch, Limit, Limits, Overrider, Phase, Record, Spent,
        Status, TurnFailure,
    },
    money::Usd,
    payload::Payload,
    policy::Transition,
    turn::Outcome,
    world::MemoryWorld,
};

use crate::sim::{Sim, started, usd};

fn sim(limits: Limits) -> Sim {
    let mut begin = started("START.md");
    begin.limits = limits;
    let files = [("START.md", ""), ("A.md", ""), ("W.md", ""), ("S.sh", "")];
    Sim::with(begin, MemoryWorld::new(files))
}

fn budget(dollars: f64) -> Limits {
    Limits { budget_usd: Some(usd(dollars)), ..Limits::default() }
}

fn iterations(max: u64) -> Limits {
    Limits { max_iterations: Some(max), ..Limits::default() }
}

fn overrides(sim: &Sim) -> Vec<&Record> {
    sim.journal.iter().filter(|record| matches!(record, Record::Overridden { .. })).collect()
}

#[test]
fn budget_is_ten_dollars_by_default() {
    assert_eq!(Limits::default().budget_usd, Some(usd(10.0)));
    assert_eq!(Limits::default().max_iterations, None);
    assert_eq!(Limits::default().max_parallel, 16);
}

#[test]
fn budget_overrides_the_transition_once_it_is_exceeded() {
    let mut sim = sim(budget(1.0));
    sim.reply_costing("main", "<goto>A</goto>", 0.6);
    sim.reply_costing("main", "<goto>START</goto>", 0.5);
    assert_eq!(sim.run.status, Status::Stopped);
    assert_eq!(sim.run.total_cost_usd, usd(1.1));
    let limit = Limit::Budget { spent_usd: usd(1.1), budget_usd: usd(1.0) };
    let [Record::Overridden { asked, by, instead, .. }] = overrides(&sim)[..] else {
        panic!("one override");
    };
    assert_eq!(asked, &Transition::Goto { target: StateName::new("START.md"), input: None });
    assert_eq!((by, instead), (&Overrider::Limit(limit), &Instead::Stop));
    assert_eq!(sim.run.halt, Some(Halt::Limit(limit)));
}

#[test]
fn budget_that_is_exactly_used_up_lets_scripts_go_on_but_no_turn_start() {
    let mut sim = sim(budget(1.0));
    sim.reply_costing("main", "<goto>S</goto>", 1.0);
    assert_eq!(sim.state("main"), "S.sh");
    sim.prints("main", "<goto>A</goto>");
    assert_eq!(sim.run.status, Status::Stopped);
    assert_eq!(sim.main().current_state.as_str(), "A.md");
    assert_eq!(overrides(&sim), Vec::<&Record>::new(), "nothing was overridden");
}

#[test]
fn cost_that_cannot_be_true_fails_the_turn_and_counts_as_all_that_it_could_spend() {
    for (dollars, doubt) in [(200_000.0, None), (0.0, Some("it reports a cost of -3 dollars"))] {
        let mut sim = sim(budget(8.0));
        let share = sim.child("main").turn().budget_usd.unwrap();
        let spent =
            Spent { cost_usd: usd(dollars), doubt: doubt.map(str::to_owned), ..Spent::default() };
        sim.end_spending("main", Outcome::Reply { text: "<goto>A</goto>".to_owned() }, spent);
        assert_eq!(sim.run.total_cost_usd, share);
        assert!(sim.error("main").contains("cannot be true: it reports"), "{}", sim.error("main"));
    }
    // A turn that has failed anyway keeps its reason.
    let mut sim = sim(budget(8.0));
    let doubt = Some("it reports a cost of -3 dollars".to_owned());
    let (class, message) = (FailureClass::Misconfigured, "boom".to_owned());
    let failed = Outcome::Failed(TurnFailure { class, message });
    sim.end_spending("main", failed, Spent { doubt, ..Spent::default() });
    let said = sim.error("main");
    assert!(said.contains("boom; what the turn cost cannot be true: it reports"), "{said}");
}

#[test]
fn exceeded_budget_does_not_discard_a_final_result() {
    let mut sim = sim(budget(1.0));
    sim.reply_costing("main", "<result>worth it</result>", 5.0);
    assert_eq!(sim.run.status, Status::Completed);
    assert_eq!(sim.run.result.as_ref().and_then(Payload::as_text), Some("worth it"));
}

#[test]
fn budget_counts_all_agents_and_lets_turns_in_flight_finish() {
    let mut sim = sim(budget(1.0));
    sim.reply("main", "<fork next=\"A\">W</fork>");
    sim.reply_costing("main_w1", "<goto>A</goto>", 2.0);
    assert_eq!(sim.run.status, Status::Running, "main is still at work");
    sim.reply_costing("main", "<goto>START</goto>", 0.25);
    assert_eq!(sim.run.status, Status::Stopped);
    assert_eq!(sim.run.total_cost_usd, usd(2.25));
    assert_eq!(overrides(&sim).len(), 2);
}

#[test]
fn budget_of_none_is_no_limit() {
    let mut sim = sim(Limits { budget_usd: None, ..Limits::default() });
    sim.reply_costing("main", "<goto>A</goto>", 5000.0);
    assert_eq!(sim.child("main").turn().budget_usd, None);
}

#[test]
fn turn_is_told_what_is_left_of_the_budget() {
    let mut sim = sim(budget(1.0));
    assert_eq!(sim.child("main").turn().budget_usd, Some(usd(1.0)));
    sim.reply_costing("main", "<goto>A</goto>", 0.75);
    assert_eq!(sim.child("main").turn().budget_usd, Some(usd(0.25)));
}

/// A run whose `main` has forked two workers, all three in a turn.
fn three_turns(limits: Limits) -> Sim {
    let mut sim = sim(limits);
    sim.reply("main", "<fork next=\"A\">W</fork>");
    sim.reply("main", "<fork next=\"A\">W</fork>");
    sim
}

fn share(sim: &Sim, name: &str) -> Usd {
    sim.child(name).turn().budget_usd.unwrap()
}

fn out_of_money(sim: &mut Sim, name: &str, dollars: f64) {
    let failure =
        TurnFailure { class: FailureClass::Budget, message: "Reached maximum budget".to_owned() };
    sim.end(name, Outcome::Failed(failure), dollars);
}

#[test]
fn turns_at_the_same_time_share_what_is_left() {
    let mut sim = three_turns(budget(3.0));
    // `main` was alone, then with one worker, then with two; each time it gave its share back.
    assert_eq!(share(&sim, "main_w1"), usd(1.5));
    assert_eq!(share(&sim, "main_w2"), usd(0.75));
    assert_eq!(share(&sim, "main"), usd(0.75));
    sim.reply_costing("main_w1", "<result>x</result>", 0.5);
    sim.reply_costing("main_w2", "<result>x</result>", 0.5);
    sim.reply_costing("main", "<goto>A</goto>", 0.5);
    assert_eq!(share(&sim, "main"), usd(1.5), "alone again, it gets all that is left");
}

#[test]
fn turn_that_has_spent_its_share_is_continued_in_its_session_with_more() {
    let mut sim = three_turns(budget(3.0));
    let session = sim.child("main_w2").session().clone();
    sim.reply("main", "<result>x</result>");
    sim.reply("main_w1", "<result>x</result>");
    out_of_money(&mut sim, "main_w2", 0.76);
    assert_eq!(sim.run.status, Status::Running);
    let child = sim.child("main_w2");
    assert_eq!(*child.session(), session);
    assert!(child.turn().spent_share && child.turn().recovers);
    assert_eq!(share(&sim, "main_w2"), usd(2.24));
    let Launch::Turn { continuation, .. } = &child.launch else { panic!() };
    assert!(continuation.starts_with("Your last turn was stopped because it had spent"));
    assert_eq!(sim.agent("main_w2").tries.reminders, 0);
    sim.reply_costing("main_w2", "<result>x</result>", 1.0);
    assert_eq!(sim.run.status, Status::Completed);
}

#[test]
fn turn_that_has_spent_all_that_is_left_stops_the_run() {
    let mut sim = sim(budget(1.0));
    out_of_money(&mut sim, "main", 1.01);
    assert_eq!(sim.run.status, Status::Stopped);
}

#[test]
fn turn_that_claims_to_have_no_money_but_has_spent_little_of_its_share_stops_the_run() {
    for dollars in [0.0, 0.4] {
        let mut sim = sim(budget(1.0));
        out_of_money(&mut sim, "main", dollars);
        assert_eq!(sim.run.status, Status::Stopped);
    }
}

#[test]
fn turn_waits_if_those_in_flight_have_nearly_all_that_is_left() {
    let mut sim = three_turns(budget(3.0));
    // What is free is less than a fiftieth of the budget.
    sim.reply_costing("main_w2", "<goto>A</goto>", 0.74);
    assert!(matches!(sim.agent("main_w2").phase, Phase::Queued { .. }));
    sim.reply_costing("main", "<result>x</result>", 0.1);
    assert_eq!(sim.state("main_w2"), "A.md", "what another turn leaves is given to it");
    assert_eq!(share(&sim, "main_w2"), usd(0.66));
}

#[test]
fn raised_budget_starts_a_turn_that_waits_for_money() {
    let mut sim = three_turns(budget(3.0));
    sim.reply_costing("main_w2", "<goto>A</goto>", 0.74);
    assert!(matches!(sim.agent("main_w2").phase, Phase::Queued { .. }));
    sim.input(Input::ChangeLimits { limits: budget(4.0) });
    assert_eq!(share(&sim, "main_w2"), usd(1.01));
}

#[test]
fn turn_that_is_alone_gets_what_is_left_however_little() {
    let mut sim = sim(budget(1.0));
    sim.reply_costing("main", "<goto>A</goto>", 0.999_999_999);
    assert_eq!(share(&sim, "main"), Usd::SMALLEST);
}

/// A run whose only state lets a turn spend 50 cents.
fn cautious(limits: Limits) -> Sim {
    let mut begin = started("START.md");
    begin.limits = limits;
    let files = [("START.md", "---\nbudget: 0.5\n---\n"), ("A.md", "")];
    Sim::with(begin, MemoryWorld::new(files))
}

fn spends_its_limit() -> Outcome {
    let message = "Reached maximum budget".to_owned();
    Outcome::Failed(TurnFailure { class: FailureClass::Budget, message })
}

#[test]
fn budget_of_a_state_only_narrows_the_share_of_its_turn() {
    for (limits, expected) in [(budget(3.0), 0.5), (budget(0.2), 0.2)] {
        assert_eq!(share(&cautious(limits), "main"), usd(expected));
    }
    let free = Limits { budget_usd: None, ..Limits::default() };
    assert_eq!(share(&cautious(free), "main"), usd(0.5));
}

#[test]
fn turn_that_exceeds_the_budget_of_its_state_fails_the_agent_and_not_the_run() {
    for limits in [budget(3.0), Limits { budget_usd: None, ..Limits::default() }] {
        let mut sim = cautious(limits);
        sim.end("main", spends_its_limit(), 0.6);
        assert_eq!(
            sim.error("main"),
            "the turn has spent $0.60, and the `budget` of `START.md` is $0.50"
        );
        assert_eq!((sim.run.status, &sim.run.halt), (Status::Failed, &None));
        // What was done is not lost: the session continues with the amount of another turn.
        sim.resume();
        let child = sim.child("main");
        assert_eq!((child.turn().budget_usd, child.turn().spent_share), (Some(usd(0.5)), true));
    }
}

#[test]
fn retries_of_a_turn_share_the_budget_of_its_state() {
    let mut sim = cautious(budget(3.0));
    let crash = TurnFailure { class: FailureClass::Killed, message: "killed".to_owned() };
    sim.end("main", Outcome::Failed(crash.clone()), 0.3);
    sim.wake("main");
    assert_eq!(share(&sim, "main"), usd(0.2));
    sim.end("main", Outcome::Failed(crash), 0.25);
    sim.wake("main");
    assert!(sim.error("main").contains("has spent $0.55"), "{}", sim.error("main"));
    // The next state has a budget of its own, or none.
    let mut sim = cautious(budget(3.0));
    sim.reply_costing("main", "<goto>A</goto>", 0.4);
    assert_eq!(share(&sim, "main"), usd(2.6));
}

#[test]
fn share_below_the_budget_of_a_state_is_raised_up_to_it() {
    let mut begin = started("START.sh");
    begin.limits = budget(0.6);
    let files = [("START.sh", ""), ("A.sh", ""), ("W.md", "---\nbudget: 0.5\n---\n")];
    let mut sim = Sim::with(begin, MemoryWorld::new(files));
    sim.prints("main", "<fork next=\"A\">W</fork>");
    // Two agents share 60 cents.
    assert_eq!(share(&sim, "main_w1"), usd(0.3));
    sim.end("main_w1", spends_its_limit(), 0.3);
    assert_eq!(share(&sim, "main_w1"), usd(0.15), "half of the rest, which is less than its own");
    sim.prints("main", "<result>x</result>");
    sim.end("main_w1", spends_its_limit(), 0.15);
    assert_eq!(share(&sim, "main_w1"), usd(0.05), "what is left of its own budget");
    sim.end("main_w1", spends_its_limit(), 0.05);
    assert!(sim.error("main_w1").contains("`budget` of `W.md`"), "{}", sim.error("main_w1"));
    assert_eq!(sim.run.halt, None);
}

#[test]
fn spent_budget_of_the_run_stops_it_also_if_the_state_has_its_own() {
    let mut sim = cautious(budget(0.5));
    sim.end("main", spends_its_limit(), 0.5);
    assert_eq!(sim.run.status, Status::Stopped);
}

#[test]
fn raised_budget_follows_the_transition_that_was_held() {
    let mut sim = sim(budget(1.0));
    sim.reply_costing("main", "<goto>A</goto>", 2.0);
    assert!(matches!(sim.main().phase, Phase::Held { .. }));
    let paid = sim.main().steps;
    sim.resume_with(budget(10.0));
    assert_eq!(sim.state("main"), "A.md");
    assert_eq!(sim.main().steps, paid + 1, "the turn that asked is not repeated");
}

#[test]
fn resuming_without_raising_the_budget_stops_again_at_once() {
    let mut sim = sim(budget(1.0));
    sim.reply_costing("main", "<goto>A</goto>", 2.0);
    sim.resume();
    assert_eq!(sim.run.status, Status::Stopped);
    assert!(sim.children.is_empty());
}

#[test]
fn iterations_count_the_states_that_all_agents_enter() {
    let mut sim = sim(iterations(100));
    assert_eq!(sim.run.iteration_count, 1);
    sim.reply("main", "<goto>A</goto>");
    assert_eq!(sim.run.iteration_count, 2);
    sim.reply("main", "<fork next=\"A\">W</fork>");
    assert_eq!(sim.run.iteration_count, 4);
    sim.reply("main_w1", "<result>ends</result>");
    assert_eq!(sim.run.iteration_count, 4);
    sim.reply("main", "<call return=\"A\">W</call>");
    sim.reply("main", "<result>returns</result>");
    assert_eq!(sim.run.iteration_count, 6);
}

#[test]
fn iteration_limit_overrides_the_transition_that_would_pass_it() {
    let mut sim = sim(iterations(3));
    sim.reply("main", "<goto>A</goto>");
    sim.reply("main", "<goto>A</goto>");
    sim.reply("main", "<goto>START</goto>");
    assert_eq!(sim.run.status, Status::Stopped);
    assert_eq!(sim.run.iteration_count, 3);
    let [Record::Overridden { by, instead: Instead::Stop, .. }] = overrides(&sim)[..] else {
        panic!("one override");
    };
    assert_eq!(by, &Overrider::Limit(Limit::Iterations { max_iterations: 3 }));
}

#[test]
fn iteration_limit_lets_an_agent_end() {
    let mut sim = sim(iterations(1));
    sim.reply("main", "<result>done</result>");
    assert_eq!(sim.run.status, Status::Completed);
}

#[test]
fn raised_iteration_limit_follows_the_transition_that_was_held() {
    let mut sim = sim(iterations(1));
    sim.reply("main", "<fork next=\"A\">W</fork>");
    assert_eq!(sim.run.status, Status::Stopped);
    sim.resume_with(iterations(3));
    assert_eq!((sim.state("main"), sim.state("main_w1")), ("A.md", "W.md"));
}

#[test]
fn limit_does_not_hide_that_an_agent_failed() {
    let mut sim = sim(budget(1.0));
    sim.reply("main", "<fork next=\"S\">W</fork>");
    sim.reply_costing("main_w1", "no tag", 1.0);
    sim.prints("main", "<goto>A</goto>");
    assert_eq!(sim.run.status, Status::Failed);
}

#[test]
fn raised_budget_of_a_running_run_lets_it_continue() {
    let mut sim = sim(budget(0.5));
    sim.input(Input::ChangeLimits { limits: budget(2.0) });
    sim.reply_costing("main", "<goto>A</goto>", 0.6);
    assert_eq!((sim.run.status, &sim.run.halt), (Status::Running, &None));
    sim.input(Input::ChangeLimits { limits: budget(0.7) });
    sim.reply_costing("main", "<goto>A</goto>", 0.6);
    assert_eq!(sim.run.status, Status::Stopped);
}

#[test]
fn higher_max_parallel_starts_queued_turns() {
    // Under a budget the only turn has reserved all of it.
    let limits = |max_parallel| Limits { max_parallel, budget_usd: None, ..Limits::default() };
    let mut sim = sim(limits(1));
    sim.reply("main", "<fork next=\"A\">W</fork>");
    let running =
        |sim: &Sim| sim.run.agents.values().filter(|agent| agent.phase.step().is_some()).count();
    assert_eq!(running(&sim), 1);
    sim.input(Input::ChangeLimits { limits: limits(2) });
    assert_eq!(running(&sim), 2);
}

#[test]
fn limits_of_a_run_that_ended_change_what_it_is_resumed_with() {
    let mut sim = sim(budget(0.5));
    sim.reply_costing("main", "<goto>A</goto>", 0.6);
    assert_eq!(sim.run.status, Status::Stopped);
    sim.input(Input::ChangeLimits { limits: budget(2.0) });
    assert_eq!((sim.run.status, sim.run.limits.budget_usd), (Status::Stopped, Some(usd(2.0))));
    let count = sim.journal.len();
    sim.input(Input::ChangeLimits { limits: budget(2.0) });
    assert_eq!(sim.journal.len(), count, "no change is no record");
}

#[test]
fn completed_run_has_no_limits_to_change() {
    let mut sim = sim(budget(5.0));
    sim.reply("main", "<result>x</result>");
    sim.input(Input::ChangeLimits { limits: budget(2.0) });
    assert_eq!(sim.run.limits.budget_usd, Some(usd(5.0)));
}
