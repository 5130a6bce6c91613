//! Where the tokens of a run went.

use raymond_flow::{
    id::StateName,
    machine::{Spent, Tokens},
    money::Usd,
    turn::{Outcome, conclude},
};

use crate::sim::Sim;

/// Ends the turn of `main` with this answer and these tokens.
fn reply(sim: &mut Sim, text: &str, dollars: f64, tokens: Tokens) {
    let id = sim.step("main");
    let cost_usd = Usd::from_dollars(dollars).unwrap();
    let spent = Spent { cost_usd, tokens, ..Spent::default() };
    let outcome = Outcome::Reply { text: text.to_owned() };
    let input = conclude(&sim.run, &id, outcome, spent, &sim.world);
    sim.children.remove(&id);
    sim.input(input);
}

fn tokens(input: u64, cache_write: u64, cache_read: u64, output: u64) -> Tokens {
    Tokens { input, output, cache_read, cache_write }
}

#[test]
fn goto_saves_as_reset_what_reading_its_session_again_cost() {
    let mut sim = Sim::new([("START.md", "s"), ("NEXT.md", "n"), ("LAST.md", "l")]);
    // 1000 tokens of context; units of cost: 1250 for writing them.
    reply(&mut sim, "<goto>NEXT</goto>", 1.25, tokens(0, 1000, 0, 0));
    // Another 1000: half of the session is carried. Of 1.35 dollars, 100 of 1350 units are for reading again.
    reply(&mut sim, "<goto>LAST</goto>", 1.35, tokens(0, 1000, 1000, 0));
    // 4000 at its end: a quarter was carried to NEXT, a half to LAST. 200 of 2700 units are for reading again.
    reply(&mut sim, "<result>x</result>", 2.7, tokens(0, 2000, 2000, 0));
    let spendings = sim.view().turns;
    let carried: Vec<_> = spendings
        .carried()
        .into_iter()
        .map(|(way, one)| (way.to.as_str(), one.times, one.tokens, one.saves_usd.to_string()))
        .collect();
    let expected = [
        // 0.2 × 2000/4000
        ("LAST.md", 1, 2000, "$0.10".to_owned()),
        // 0.1 × 1000/2000 + 0.2 × 1000/4000
        ("NEXT.md", 1, 1000, "$0.10".to_owned()),
    ];
    assert_eq!(carried.len(), 2);
    assert!(expected.iter().all(|row| carried.contains(row)), "{carried:?}");
    assert_eq!(spendings.total.read_again_usd, Usd::from_dollars(0.3).unwrap());
    assert_eq!(spendings.total.continued, 2);
    let last = &spendings.by_state[&StateName::new("LAST.md")];
    assert_eq!(Some(last.account.cost_usd), Usd::from_dollars(2.7));
}

#[test]
fn calls_are_frames_and_their_gotos_are_no_candidates() {
    let files = [("START.md", "s"), ("SUB.md", "s"), ("DEEP.md", "d"), ("BACK.md", "b")];
    let mut sim = Sim::new(files);
    reply(&mut sim, "<call return=\"BACK\">SUB</call>", 1.0, tokens(0, 1000, 0, 0));
    reply(&mut sim, "<goto>DEEP</goto>", 1.0, tokens(0, 1000, 1000, 0));
    reply(&mut sim, "<result>r</result>", 1.0, tokens(0, 1000, 2000, 0));
    reply(&mut sim, "<result>r</result>", 1.0, tokens(0, 1000, 1000, 0));
    let spendings = sim.view().turns;
    assert!(spendings.carried().is_empty(), "a reset would discard the return");
    let frames: Vec<_> = spendings
        .by_frame
        .iter()
        .map(|((agent, calls), spending)| (agent.as_str(), calls.len(), spending.account.steps))
        .collect();
    assert_eq!(frames, [("main", 0, 2), ("main", 1, 2)]);
}

#[test]
fn reset_carries_nothing_and_scripts_spend_nothing() {
    let mut sim = Sim::new([("START.md", "s"), ("TEST.sh", "t"), ("NEXT.md", "n")]);
    reply(&mut sim, "<reset>TEST</reset>", 1.0, tokens(1000, 0, 0, 100));
    sim.prints("main", "<goto>NEXT</goto>");
    reply(&mut sim, "<result>x</result>", 1.0, tokens(1000, 0, 500, 100));
    let spendings = sim.view().turns;
    assert!(spendings.carried().is_empty());
    assert_eq!(spendings.total.account.steps, 2);
    assert_eq!(spendings.by_state.len(), 2);
}
