//! Coding agents that stand in for one whose provider is not available.

use std::collections::BTreeMap;

use raymond_flow::{
    coding_agent::{Capabilities, CodingAgents},
    machine::{
        Failover, FailureClass, Halt, Input, OnUsageLimit, Record, SessionPlan, Spent, StandIn,
        Started, Status, TurnFailure, UsageWindow,
    },
    turn::Outcome,
    world::MemoryWorld,
};

use crate::sim::{Sim, known_limit, started};

const FILES: [(&str, &str); 3] = [("START.md", "one"), ("A.md", "two"), ("B.md", "three")];

/// A run whose coding agents stand in for each other in the order `claude`, `codex`, `pi`.
fn sim(change: impl FnOnce(&mut Started)) -> Sim {
    let mut world = MemoryWorld::new(FILES);
    let linear = Capabilities { can_branch: false, ..Capabilities::FULL };
    let named = [("claude", Capabilities::FULL), ("codex", linear), ("pi", Capabilities::FULL)];
    let named = named.map(|(name, can)| (name.to_owned(), can));
    world.coding_agents = CodingAgents::new(Capabilities::FULL, BTreeMap::from(named));
    let mut started = started("START.md");
    started.settings.agent = Some("claude".to_owned());
    started.settings.model = Some("opus".to_owned());
    let order = ["claude", "codex", "pi"].map(str::to_owned).to_vec();
    started.settings.failover = Failover { order, handoff: false };
    change(&mut started);
    Sim::with(started, world)
}

fn fails(sim: &mut Sim, class: FailureClass) {
    let failure = TurnFailure { class, message: "no more".to_owned() };
    sim.end("main", Outcome::Failed(failure), 0.0);
}

const LIMIT: FailureClass = FailureClass::UsageLimit { resets_at: Some(9) };

fn agent_of(sim: &Sim) -> &str {
    sim.child("main").turn().settings.agent.as_deref().unwrap()
}

#[test]
fn turn_that_begins_a_session_goes_to_the_next_coding_agent() {
    for class in [LIMIT, FailureClass::Billing] {
        let mut sim = sim(|_| {});
        assert_eq!(agent_of(&sim), "claude");
        fails(&mut sim, class);
        let turn = sim.child("main").turn();
        assert_eq!(agent_of(&sim), "codex");
        assert_eq!(turn.settings.model, None, "the model is one of claude");
        assert_eq!(turn.stand_in, Some(StandIn { of: "claude".to_owned(), handoff_from: None }));
        assert!(matches!(turn.session, SessionPlan::Fresh { .. }));
        assert!(!turn.recovers, "the session of claude is not that of codex");
        assert!(sim.run.stopped.contains_key("claude"));
        assert_eq!(sim.run.usage_limit, None, "nobody waits");
        sim.crash();
        assert_eq!(agent_of(&sim), "codex");
    }
}

#[test]
fn session_of_a_stand_in_stays_with_it_after_the_limit() {
    let mut sim = sim(|_| {});
    fails(&mut sim, LIMIT);
    sim.reply("main", "<goto>A</goto>");
    assert_eq!(agent_of(&sim), "codex");
    sim.input(Input::UsageLimitLifted);
    assert!(sim.run.stopped.is_empty());
    sim.reply("main", "<goto>B</goto>");
    assert_eq!(agent_of(&sim), "codex");
    sim.reply("main", "<reset>A</reset>");
    assert_eq!(agent_of(&sim), "claude", "a fresh session begins with the preferred one");
}

#[test]
fn turn_in_a_session_waits_for_its_coding_agent() {
    let mut sim = sim(|_| {});
    sim.reply("main", "<goto>A</goto>");
    fails(&mut sim, LIMIT);
    assert!(sim.children.is_empty(), "it waits");
    assert!(sim.waits_for_usage_limit);
    sim.crash();
    assert!(sim.children.is_empty(), "it still waits");
    sim.input(Input::UsageLimitLifted);
    assert_eq!(agent_of(&sim), "claude");
    sim.reply("main", "<result>x</result>");
    assert_eq!(sim.run.status, Status::Completed);
}

#[test]
fn handoff_begins_a_session_of_the_next_one_with_a_summary() {
    let mut sim = sim(|started| started.settings.failover.handoff = true);
    sim.reply("main", "<goto>A</goto>");
    let SessionPlan::Resume { id } = sim.child("main").session().clone() else { panic!() };
    fails(&mut sim, LIMIT);
    let turn = sim.child("main").turn();
    let stand_in = StandIn { of: "claude".to_owned(), handoff_from: Some(id) };
    assert_eq!(turn.stand_in, Some(stand_in));
    assert!(matches!(turn.session, SessionPlan::Fresh { .. }));
    assert_eq!(agent_of(&sim), "codex");
}

#[test]
fn when_none_is_left_all_wait_as_without_failover() {
    let mut sim = sim(|_| {});
    fails(&mut sim, LIMIT);
    fails(&mut sim, LIMIT);
    assert_eq!(agent_of(&sim), "pi");
    fails(&mut sim, LIMIT);
    assert!(sim.children.is_empty());
    assert!(sim.run.usage_limit.is_some());
    sim.input(Input::UsageLimitLifted);
    assert_eq!(agent_of(&sim), "claude", "all are tried again");
}

#[test]
fn all_wait_only_until_the_first_is_available_again() {
    let mut sim = sim(|_| {});
    for at in [7, 5, 9] {
        fails(&mut sim, FailureClass::UsageLimit { resets_at: Some(at) });
    }
    assert_eq!(sim.run.usage_limit.unwrap().resets_at, Some(5));
}

#[test]
fn limit_that_another_run_has_reached_is_not_tried() {
    let mut sim = sim(|_| {});
    sim.holds_prepare = true;
    sim.reply("main", "<reset>A</reset>");
    sim.holds_prepare = false;
    sim.unprepared.clear();
    sim.input(known_limit(Some("claude"), Some(9)));
    assert_eq!(agent_of(&sim), "codex");
    assert!(sim.run.stopped.contains_key("claude"));
    sim.input(known_limit(Some("elsewhere"), None));
    assert!(sim.run.usage_limit.is_some(), "it is not in the order");
}

#[test]
fn outage_counts_when_retries_are_used_up_and_other_failures_never() {
    let mut sim = sim(|started| started.limits.retry_for_ms = 0);
    fails(&mut sim, FailureClass::Transient { retry_after_ms: None });
    assert_eq!(agent_of(&sim), "codex");
    let mut sim = self::sim(|_| {});
    fails(&mut sim, FailureClass::Authentication);
    assert_eq!(sim.run.status, Status::Failed);
}

#[test]
fn run_that_does_not_wait_is_paused_only_where_a_turn_would_wait() {
    let mut sim = sim(|started| started.settings.on_usage_limit = OnUsageLimit::Pause);
    fails(&mut sim, LIMIT);
    assert_eq!(agent_of(&sim), "codex");
    sim.reply("main", "<goto>A</goto>");
    fails(&mut sim, LIMIT);
    assert_eq!(sim.run.halt, Some(Halt::UsageLimit { resets_at: Some(9) }));
    assert_eq!(sim.run.status, Status::Paused);
}

#[test]
fn coding_agent_outside_of_the_order_is_not_stood_in_for() {
    let mut sim = sim(|started| started.settings.failover.order.remove(0).clear());
    fails(&mut sim, LIMIT);
    assert!(sim.run.usage_limit.is_some());
    assert!(sim.run.stopped.is_empty());
}

/// Ends the turn of `main` with a `goto` to `A`; its coding agent reports that so much of its limits is used.
fn uses(sim: &mut Sim, percent: &[(&str, u32, u64)]) {
    let window = |(name, used_percent, resets_at): &(&str, u32, u64)| UsageWindow {
        name: (*name).to_owned(),
        used_percent: *used_percent,
        resets_at: Some(*resets_at),
    };
    let windows = percent.iter().map(window).collect();
    let outcome = Outcome::Reply { text: "<reset>A</reset>".to_owned() };
    sim.end_spending("main", outcome, Spent { windows, ..Spent::default() });
}

#[test]
fn limit_that_is_used_as_far_as_it_may_be_counts_as_reached() {
    let mut sim = sim(|started| started.settings.usage_max = Some(90));
    uses(&mut sim, &[("five_hour", 89, 5), ("seven_day", 20, 9)]);
    assert_eq!(agent_of(&sim), "claude");
    uses(&mut sim, &[("five_hour", 95, 5), ("seven_day", 91, 9)]);
    assert_eq!(agent_of(&sim), "codex");
    assert_eq!(sim.run.stopped["claude"].resets_at, Some(9), "that of the one that lasts longest");
    let Some(Record::AgentStopped { why, .. }) =
        sim.journal.iter().find(|record| matches!(record, Record::AgentStopped { .. }))
    else {
        panic!("claude is stopped")
    };
    assert_eq!(why, "91 % of its weekly limit is used, and `usage_max` is 90 %");
    sim.input(Input::UsageLimitLifted);
    uses(&mut sim, &[]);
    assert_eq!(agent_of(&sim), "claude", "what was used before counts no more");
}

#[test]
fn all_agents_wait_or_the_run_pauses_where_no_other_coding_agent_can_stand_in() {
    let alone = |started: &mut Started| {
        started.settings.usage_max = Some(90);
        started.settings.failover = Failover::default();
    };
    let mut waits = sim(alone);
    uses(&mut waits, &[("five_hour", 90, 5)]);
    assert!(waits.children.is_empty());
    assert!(waits.waits_for_usage_limit);
    waits.waits_for_usage_limit = false;
    waits.input(Input::UsageLimitLifted);
    assert_eq!(agent_of(&waits), "claude");
    let mut pauses = sim(|started| {
        alone(started);
        started.settings.on_usage_limit = OnUsageLimit::Pause;
    });
    uses(&mut pauses, &[("five_hour", 90, 5)]);
    assert_eq!(pauses.run.status, Status::Paused);
    pauses.resume();
    assert_eq!(agent_of(&pauses), "claude", "the user wants it to go on");
    let mut without = sim(|started| started.settings.usage_max = None);
    uses(&mut without, &[("five_hour", 100, 5)]);
    assert_eq!(agent_of(&without), "claude");
}
