//! Budget and iterations: what stops, what is recorded, and how the run is resumed.

use raymond_flow::{
    id::StateName,
    machine::{Halt, Input, Instead, Limit, Limits, Overrider, Phase, Record, Status},
    policy::Transition,
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
    assert_eq!(asked, &Transition::Goto { target: StateName::new("START.md") });
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
fn exceeded_budget_does_not_discard_a_final_result() {
    let mut sim = sim(budget(1.0));
    sim.reply_costing("main", "<result>worth it</result>", 5.0);
    assert_eq!(sim.run.status, Status::Completed);
    assert_eq!(sim.run.result.as_deref(), Some("worth it"));
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
    assert_eq!(sim.child("main").budget_left_usd, None);
}

#[test]
fn turn_is_told_what_is_left_of_the_budget() {
    let mut sim = sim(budget(1.0));
    assert_eq!(sim.child("main").budget_left_usd, Some(usd(1.0)));
    sim.reply_costing("main", "<goto>A</goto>", 0.75);
    assert_eq!(sim.child("main").budget_left_usd, Some(usd(0.25)));
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
    let mut sim = sim(Limits { max_parallel: 1, ..Limits::default() });
    sim.reply("main", "<fork next=\"A\">W</fork>");
    let running =
        |sim: &Sim| sim.run.agents.values().filter(|agent| agent.phase.step().is_some()).count();
    assert_eq!(running(&sim), 1);
    sim.input(Input::ChangeLimits { limits: Limits { max_parallel: 2, ..Limits::default() } });
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
