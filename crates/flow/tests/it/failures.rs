//! Failures of children: scripts, coding agents, lost outcomes, usage limits, halts.

use raymond_flow::{
    coding_agent::{Capabilities, CodingAgents},
    machine::{FailureClass, Halt, Input, OnUsageLimit, Phase, SessionPlan, Status, TurnFailure},
    turn::{Exit, Outcome},
    world::MemoryWorld,
};

use crate::sim::{Sim, agent, known_limit, session, started};

fn sim() -> Sim {
    Sim::new([("START.md", "start"), ("A.md", "a"), ("W.md", "w"), ("S.sh", "s")])
}

fn fails(sim: &mut Sim, name: &str, class: FailureClass) {
    let failure = TurnFailure { class, message: "it broke".to_owned() };
    sim.end(name, Outcome::Failed(failure), 0.0);
}

#[test]
fn turn_that_asked_the_model_too_often_is_not_retried_and_goes_on_when_the_run_is_resumed() {
    let mut sim = Sim::new([("START.md", "---\nmax_turns: 2\n---\nDo it.")]);
    assert_eq!(sim.child("main").turn().settings.options.max_turns, Some(2));
    let message = "Reached maximum number of turns (2)".to_owned();
    let failure = TurnFailure { class: FailureClass::MaxTurns, message };
    sim.end("main", Outcome::Failed(failure), 0.1);
    assert_eq!(sim.error("main"), "Reached maximum number of turns (2)");
    sim.resume();
    assert!(sim.child("main").turn().recovers);
}

#[test]
fn state_whose_coding_agent_lacks_an_option_is_refused_before_it_is_paid_for() {
    for (key, value) in [("max_turns", "2"), ("mcp", "[x]"), ("budget", "1"), ("system", "x")] {
        let state = format!("---\n{key}: {value}\n---\n");
        let mut world = MemoryWorld::new([("START.md", &*state)]);
        let plain = Capabilities { has_options: false, can_limit: false, ..Capabilities::FULL };
        world.coding_agents = CodingAgents::only(plain);
        let sim = Sim::with(started("START.md"), world);
        assert_eq!(
            sim.error("main"),
            format!("`the coding agent` cannot do what `{key}` of the state asks for")
        );
    }
}

#[test]
fn script_with_exit_code_zero_and_a_tag_is_followed() {
    let mut sim = sim();
    sim.reply("main", "<goto>S</goto>");
    sim.prints("main", "lots of\noutput <goto>A</goto> and more");
    assert_eq!(sim.state("main"), "A.md");
}

#[test]
fn script_failures_are_fatal_without_reminder_or_retry() {
    let cases = [
        ("no tag", Exit::Code(0), "script `S.sh`: no transition tag was found"),
        ("<goto>A</goto>", Exit::Code(3), "script `S.sh` exited with code 3"),
        ("<goto>A</goto>", Exit::Signal(9), "script `S.sh` was killed by signal 9"),
        (
            "",
            Exit::TimedOut { seconds: 600 },
            "script `S.sh` printed nothing for 600 seconds and was killed",
        ),
        (
            "<goto>A</goto><goto>A</goto>",
            Exit::Code(0),
            "script `S.sh`: 2 transition tags were found where exactly one is allowed: \
             `<goto>A</goto>`, `<goto>A</goto>`",
        ),
    ];
    for (text, exit, error) in cases {
        let mut sim = sim();
        sim.reply("main", "<goto>S</goto>");
        sim.exits("main", text, exit);
        assert_eq!(sim.error("main"), error);
        assert_eq!(sim.run.status, Status::Failed);
    }
}

#[test]
fn script_failure_starts_nothing_new_but_running_turns_finish() {
    let mut sim = sim();
    sim.reply("main", "<fork next=\"S\">W</fork>");
    sim.exits("main", "", Exit::Code(1));
    assert_eq!(sim.run.halt, Some(Halt::ScriptFailed { agent: agent("main") }));
    assert_eq!(sim.run.status, Status::Running);
    sim.reply("main_w1", "<goto>A</goto>");
    assert_eq!(sim.run.status, Status::Failed);
    assert_eq!(sim.agent("main_w1").current_state.as_str(), "A.md", "its answer is not lost");
    assert!(sim.children.is_empty());
}

#[test]
fn script_costs_nothing() {
    let mut sim = sim();
    sim.reply_costing("main", "<goto>S</goto>", 0.25);
    sim.prints("main", "<goto>A</goto>");
    assert_eq!(sim.run.total_cost_usd, crate::sim::usd(0.25));
}

#[test]
fn transient_failure_waits_and_continues_in_its_session() {
    for class in [
        FailureClass::Transient { retry_after_ms: None },
        FailureClass::Killed,
        FailureClass::TimedOut,
    ] {
        let mut sim = sim();
        fails(&mut sim, "main", class);
        assert!((2_000..=2_500).contains(&sim.waits[&agent("main")]));
        sim.wake("main");
        let child = sim.child("main");
        assert_eq!(child.session(), &SessionPlan::Fresh { id: session("s1") });
        assert!(child.turn().recovers);
        assert_eq!(child.step.attempt, 2);
    }
}

const TRANSIENT: FailureClass = FailureClass::Transient { retry_after_ms: None };

#[test]
fn transient_failures_wait_longer_each_time_for_ten_minutes_in_total() {
    let mut sim = sim();
    let mut delays: Vec<u64> = Vec::new();
    while sim.run.status == Status::Running {
        fails(&mut sim, "main", TRANSIENT);
        if let Some(delay) = sim.waits.get(&agent("main")) {
            delays.push(*delay);
            sim.wake("main");
        }
    }
    let mut waited = 0;
    for delay in &delays {
        let least = (waited + 2_000).min(60_000);
        assert!((least..=least * 5 / 4).contains(delay), "{delays:?}");
        waited += delay;
    }
    assert!(waited >= 600_000, "{delays:?}");
    let error = format!("it broke (after retries for {} seconds)", waited / 1000);
    assert_eq!(sim.error("main"), error);
    assert_eq!(sim.run.status, Status::Failed);
    assert_eq!(sim.main().tries.retries, 0);
    sim.resume();
    fails(&mut sim, "main", TRANSIENT);
    assert!(sim.waits[&agent("main")] <= 2_500, "the time begins anew");
}

#[test]
fn failures_of_an_unknown_kind_end_after_three_retries() {
    let mut sim = sim();
    for _ in 0..3 {
        fails(&mut sim, "main", FailureClass::Other);
        sim.wake("main");
    }
    fails(&mut sim, "main", FailureClass::Other);
    assert_eq!(sim.error("main"), "it broke (after 3 retries)");
}

#[test]
fn provider_that_asks_for_a_longer_wait_gets_it() {
    let mut sim = sim();
    fails(&mut sim, "main", FailureClass::Transient { retry_after_ms: Some(20_000) });
    assert!((20_000..=25_000).contains(&sim.waits[&agent("main")]));
}

#[test]
fn run_that_must_not_retry_fails_at_the_first_transient_failure() {
    let mut sim = sim();
    let limits = raymond_flow::machine::Limits { retry_for_ms: 0, ..sim.run.limits.clone() };
    sim.resume_with(limits);
    fails(&mut sim, "main", TRANSIENT);
    assert_eq!(sim.error("main"), "it broke (not retried)");
}

#[test]
fn retry_counter_is_reset_in_every_state() {
    let mut sim = sim();
    fails(&mut sim, "main", FailureClass::Transient { retry_after_ms: None });
    sim.wake("main");
    sim.reply("main", "<goto>A</goto>");
    assert_eq!(sim.main().tries.retries, 0);
    assert!(!sim.child("main").turn().recovers);
}

#[test]
fn failures_that_would_only_fail_again_fail_the_agent_at_once() {
    let classes = [
        FailureClass::Authentication,
        FailureClass::Billing,
        FailureClass::UnknownModel,
        FailureClass::SessionMissing,
        FailureClass::NotInstalled,
        FailureClass::PromptTooLong,
        FailureClass::Refused,
    ];
    for class in classes {
        let mut sim = sim();
        fails(&mut sim, "main", class);
        assert_eq!(sim.error("main"), "it broke", "{class:?}");
    }
}

#[test]
fn prompt_that_was_fixed_after_a_failure_is_sent_again() {
    for class in [FailureClass::Authentication, FailureClass::PromptTooLong, FailureClass::Refused]
    {
        let mut sim = sim();
        fails(&mut sim, "main", class);
        sim.world.files.insert("START.md".to_owned(), b"fixed".to_vec());
        sim.resume();
        let child = sim.child("main");
        assert_eq!(child.prompt(), "fixed");
        assert!(!child.turn().recovers, "the session does not know this prompt");
        assert_eq!(child.session(), &SessionPlan::Fresh { id: session("s2") });
    }
}

#[test]
fn prompt_that_was_not_changed_continues_in_the_session_that_has_it() {
    let mut sim = sim();
    fails(&mut sim, "main", FailureClass::Authentication);
    sim.resume();
    assert!(sim.child("main").turn().recovers);
    assert_eq!(sim.child("main").session(), &SessionPlan::Fresh { id: session("s1") });
}

#[test]
fn missing_session_is_replaced_by_a_fresh_one_on_resume() {
    let mut sim = sim();
    sim.reply("main", "<goto>A</goto>");
    fails(&mut sim, "main", FailureClass::SessionMissing);
    assert_eq!(sim.error("main"), "it broke");
    sim.resume();
    assert_eq!(sim.state("main"), "A.md");
    assert_eq!(sim.child("main").session(), &SessionPlan::Fresh { id: session("s3") });
}

#[test]
fn turn_that_reaches_what_is_left_of_the_budget_stops_the_run() {
    let mut sim = sim();
    let failure = TurnFailure { class: FailureClass::Budget, message: "budget".to_owned() };
    sim.end("main", Outcome::Failed(failure), 10.5);
    assert_eq!(sim.run.status, Status::Stopped);
    let limits = raymond_flow::machine::Limits { budget_usd: None, ..sim.run.limits.clone() };
    sim.resume_with(limits);
    assert!(sim.child("main").turn().recovers, "what was done is not done again");
}

#[test]
fn lost_turn_is_started_three_times_at_most() {
    let mut sim = sim();
    sim.end("main", Outcome::Lost, 0.0);
    assert!(sim.child("main").turn().recovers);
    sim.end("main", Outcome::Lost, 0.0);
    assert_eq!(sim.child("main").step.attempt, 3);
    sim.end("main", Outcome::Lost, 0.0);
    assert_eq!(sim.error("main"), "its outcome was lost 3 times");
}

#[test]
fn lost_script_is_started_again_and_in_the_end_stops_the_run() {
    let mut sim = sim();
    sim.reply("main", "<fork next=\"S\">W</fork>");
    sim.end("main", Outcome::Lost, 0.0);
    sim.end("main", Outcome::Lost, 0.0);
    assert_eq!(sim.state("main"), "S.sh");
    sim.end("main", Outcome::Lost, 0.0);
    assert_eq!(sim.run.halt, Some(Halt::ScriptFailed { agent: agent("main") }));
}

#[test]
fn step_that_never_started_uses_up_no_attempt() {
    let mut sim = sim();
    for _ in 0..10 {
        sim.end("main", Outcome::NotStarted, 0.0);
    }
    assert!(!sim.child("main").turn().recovers);
    assert_eq!(sim.run.status, Status::Running);
}

#[test]
fn usage_limit_makes_all_agents_wait_and_then_continue() {
    let mut sim = sim();
    sim.reply("main", "<fork next=\"A\">W</fork>");
    fails(&mut sim, "main", FailureClass::UsageLimit { resets_at: Some(1_794_770_000) });
    assert!(sim.waits_for_usage_limit);
    assert_eq!(sim.run.status, Status::Running);
    sim.reply("main_w1", "<goto>A</goto>");
    assert!(sim.children.is_empty(), "nothing starts");
    sim.input(Input::UsageLimitLifted);
    assert_eq!((sim.state("main"), sim.state("main_w1")), ("A.md", "A.md"));
    assert_eq!(sim.main().tries.retries, 0, "it was not the turn's fault");
}

#[test]
fn known_usage_limit_is_waited_for_without_a_turn() {
    let mut sim = sim();
    sim.reply("main", "<fork next=\"A\">W</fork>");
    let steps = sim.main().steps;
    sim.input(known_limit(None, Some(1_794_770_000)));
    assert!(sim.waits_for_usage_limit);
    sim.input(known_limit(None, None));
    assert_eq!(sim.run.usage_limit.and_then(|limit| limit.resets_at), Some(1_794_770_000));
    sim.reply("main", "<goto>A</goto>");
    sim.reply("main_w1", "<goto>A</goto>");
    assert!(sim.children.is_empty(), "nothing starts");
    assert_eq!(sim.main().steps, steps);
    sim.input(Input::UsageLimitLifted);
    assert_eq!((sim.state("main"), sim.state("main_w1")), ("A.md", "A.md"));
    assert!(!sim.child("main").turn().recovers, "nothing was refused");
}

#[test]
fn known_usage_limit_pauses_a_run_that_must_not_wait_and_changes_no_other_halt() {
    let mut begin = started("START.md");
    begin.settings.on_usage_limit = OnUsageLimit::Pause;
    let mut sim = Sim::with(begin.clone(), MemoryWorld::new([("START.md", "")]));
    sim.input(known_limit(None, Some(7)));
    assert_eq!(sim.run.halt, Some(Halt::UsageLimit { resets_at: Some(7) }));
    let mut sim = Sim::with(begin, MemoryWorld::new([("START.md", "")]));
    sim.input(Input::Halt(Halt::Interrupted));
    sim.input(known_limit(None, Some(7)));
    assert_eq!(sim.run.halt, Some(Halt::Interrupted));
}

#[test]
fn usage_limit_survives_a_crash() {
    let mut sim = sim();
    fails(&mut sim, "main", FailureClass::UsageLimit { resets_at: Some(1) });
    sim.crash();
    assert!(sim.waits_for_usage_limit);
    assert!(sim.children.is_empty());
}

#[test]
fn usage_limit_pauses_the_run_with_no_wait() {
    let mut begin = started("START.md");
    begin.settings.on_usage_limit = OnUsageLimit::Pause;
    let mut sim = Sim::with(begin, MemoryWorld::new([("START.md", "")]));
    fails(&mut sim, "main", FailureClass::UsageLimit { resets_at: None });
    assert_eq!(sim.run.status, Status::Paused);
    sim.resume();
    assert!(sim.child("main").turn().recovers);
}

#[test]
fn interrupt_lets_turns_in_flight_finish_and_pauses_the_run() {
    let mut sim = sim();
    sim.reply("main", "<fork next=\"A\">W</fork>");
    sim.input(Input::Halt(Halt::Interrupted));
    assert_eq!(sim.run.status, Status::Running);
    sim.reply("main", "<goto>START</goto>");
    sim.end("main_w1", Outcome::Interrupted, 0.0);
    assert_eq!(sim.run.status, Status::Paused);
    sim.resume();
    assert_eq!((sim.state("main"), sim.state("main_w1")), ("START.md", "W.md"));
    assert!(sim.child("main_w1").turn().recovers);
}

#[test]
fn interrupt_of_a_waiting_run_pauses_it_at_once() {
    let mut sim = sim();
    fails(&mut sim, "main", FailureClass::Transient { retry_after_ms: None });
    sim.input(Input::Halt(Halt::Interrupted));
    assert_eq!(sim.run.status, Status::Paused);
    sim.resume();
    assert!((2_000..=2_500).contains(&sim.waits[&agent("main")]));
}

#[test]
fn low_disk_pauses_the_run_before_the_next_step() {
    let mut sim = sim();
    sim.input(Input::Halt(Halt::DiskLow { free_bytes: 1000 }));
    sim.reply("main", "<goto>A</goto>");
    assert_eq!(sim.run.status, Status::Paused);
}

#[test]
fn cancelled_run_cannot_be_resumed() {
    let mut sim = sim();
    sim.input(Input::Halt(Halt::Interrupted));
    sim.input(Input::Halt(Halt::Cancelled));
    sim.end("main", Outcome::Interrupted, 0.0);
    assert_eq!(sim.run.status, Status::Cancelled);
    let length = sim.journal.len();
    sim.resume();
    assert_eq!(sim.journal.len(), length);
}

#[test]
fn missing_state_file_fails_the_agent_and_says_what_was_expected() {
    let mut sim = sim();
    sim.holds_prepare = true;
    sim.reply("main", "<goto>A</goto>");
    sim.world.files.remove("A.md");
    sim.prepare_all();
    assert_eq!(sim.error("main"), "state `A.md` not found (did you mean `W.md`?)");
}

#[test]
fn frontmatter_error_fails_the_agent_with_file_line_and_column() {
    let mut sim = sim();
    sim.world.files.insert("A.md".to_owned(), b"---\nmodel: [x]\n---\n".to_vec());
    sim.reply("main", "<goto>A</goto>");
    assert_eq!(sim.error("main"), "A.md:2:8: `model` should be the name of a model");
    assert!(matches!(sim.main().phase, Phase::Failed { .. }));
}
