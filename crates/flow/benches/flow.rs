//! What the language costs: parsing, and one transition of a run with many agents.
//!
//! `cargo bench -p raymond-flow`. Times are noisy; the ratios within one run are what counts, and
//! `docs/benchmarks.md` holds what was measured.

use std::collections::BTreeMap;

use divan::{Bencher, black_box, counter::BytesCount};
use raymond_flow::{
    formats::Snapshot,
    id::{AgentId, RunId, SessionId, StateName, StepId},
    machine::{
        Effect, Input, Limits, Record, Run, Settings, Spent, Started, apply, decide, replay, settle,
    },
    prompt::{Variables, render},
    source::{Platform, StateFile},
    tag::{Scanner, parse},
    turn::{Outcome, conclude, prepare},
    world::MemoryWorld,
};

fn main() {
    divan::main();
}

const MEGABYTE: usize = 1024 * 1024;

/// Ten megabytes of text that is hard on a scanner.
const HOSTILE: [&str; 8] = [
    "<goto>",
    "<",
    "</goto>",
    "<fork a=\"",
    "<fork a='<fork b=\"",
    "<result><goto>X</goto>",
    "<call return=\"X\" ",
    "prose without any tag at all, in one line ",
];

#[divan::bench(args = HOSTILE, sample_count = 5)]
fn parse_10_mb_of(bencher: Bencher<'_, '_>, piece: &str) {
    let text = piece.repeat(10 * MEGABYTE / piece.len());
    bencher.counter(BytesCount::of_str(&text)).bench(|| parse(black_box(&text)).is_ok());
}

#[divan::bench(sample_count = 5)]
fn scan_10_mb_in_chunks_of_64_kb(bencher: Bencher<'_, '_>) {
    let text = "a line of output\n".repeat(10 * MEGABYTE / 17);
    bencher.counter(BytesCount::of_str(&text)).bench(|| {
        let mut scanner = Scanner::new();
        for chunk in text.as_bytes().chunks(64 * 1024) {
            scanner.push(black_box(chunk));
        }
        scanner.finish()
    });
}

#[divan::bench]
fn parse_an_ordinary_answer(bencher: Bencher<'_, '_>) {
    let text = format!("{}\n<goto>REVIEW.md</goto>\n", "I changed a few lines. ".repeat(50));
    bencher.bench(|| parse(black_box(&text)));
}

const PROMPT: &str = "---\nmodel: sonnet\nallowed_transitions:\n  - { tag: goto, target: REVIEW.md }\n  - tag: call\n    target: RESEARCH.md\n    return: NEXT.md\n  - { tag: result }\n---\nWork on {{item}} of {{workflow_id}}.\n";

#[divan::bench]
fn read_a_state_file() -> bool {
    StateFile::read("X.md", black_box(PROMPT.as_bytes()), Platform::Unix).is_ok()
}

#[divan::bench]
fn render_a_prompt(bencher: Bencher<'_, '_>) {
    let mut variables = Variables::new();
    variables.set("item", "a value");
    let template = "Work on {{item}} and {{item}}.\n".repeat(20);
    bencher.bench(|| render(black_box(&template), &variables));
}

/// A run with `count` agents, each with a turn under way, made by its own transitions.
fn run_with(count: usize) -> (Run, Vec<Record>, MemoryWorld) {
    let world = MemoryWorld::new([("START.md", "s"), ("WORKER.md", "w")]);
    let limits = Limits { budget_usd: None, max_parallel: u32::MAX, ..Limits::default() };
    let started = Started {
        workflow_id: RunId::new("bench-1").expect("a valid id"),
        identity: String::new(),
        state_dir: String::new(),
        scope_dir: "/flows/bench".to_owned(),
        entry: StateName::new("START.md"),
        cwd: "/project".to_owned(),
        started_at_ms: 0,
        input: None,
        metadata: BTreeMap::new(),
        settings: Settings::default(),
        limits,
    };
    let mut run = Run::new(&started);
    let mut journal = vec![Record::Started(Box::new(started))];
    let mut prepares = vec![AgentId::main()];
    for _ in 1..count {
        turn(&mut run, &mut journal, &world, &mut prepares);
        let text = "<fork next=\"START\" item=\"x\">WORKER</fork>";
        answer(&mut run, &mut journal, &world, &mut prepares, &AgentId::main(), text);
    }
    turn(&mut run, &mut journal, &world, &mut prepares);
    (run, journal, world)
}

fn commit(run: &mut Run, journal: &mut Vec<Record>, prepares: &mut Vec<AgentId>, input: Input) {
    let mut decision = decide(run, input);
    while !decision.is_empty() {
        for record in &decision.records {
            apply(run, record).expect("a decision fits its run");
        }
        journal.append(&mut decision.records);
        for effect in decision.effects {
            if let Effect::Prepare { agent } = effect {
                prepares.push(agent);
            }
        }
        decision = settle(run);
    }
}

/// Prepares and starts whatever can be.
fn turn(
    run: &mut Run,
    journal: &mut Vec<Record>,
    world: &MemoryWorld,
    prepares: &mut Vec<AgentId>,
) {
    while let Some(agent) = prepares.pop() {
        let input = prepare(run, &agent, world, SessionId::new("session")).input;
        commit(run, journal, prepares, input);
    }
}

fn answer(
    run: &mut Run,
    journal: &mut Vec<Record>,
    world: &MemoryWorld,
    prepares: &mut Vec<AgentId>,
    agent: &AgentId,
    text: &str,
) {
    let number = run.agents[agent].steps;
    let step = StepId { agent: agent.clone(), number };
    let outcome = Outcome::Reply { text: text.to_owned() };
    let input = conclude(run, &step, outcome, Spent::default(), world);
    commit(run, journal, prepares, input);
}

/// One whole transition of one agent: judge, decide, apply, prepare, decide, apply.
#[divan::bench(args = [1, 100, 10_000], sample_size = 100)]
fn one_transition_among_agents(bencher: Bencher<'_, '_>, count: usize) {
    let (mut run, _, world) = run_with(count);
    let mut journal = Vec::new();
    let mut prepares = Vec::new();
    // An agent in the middle, so that no end of the map is favoured.
    let agent = run.agents.keys().nth(count / 2).expect("there are agents").clone();
    bencher.bench_local(|| {
        answer(&mut run, &mut journal, &world, &mut prepares, &agent, "<goto>START</goto>");
        turn(&mut run, &mut journal, &world, &mut prepares);
        journal.clear();
    });
}

/// The two decisions of a transition alone, with their records applied.
#[divan::bench(args = [1, 100, 10_000], sample_size = 100)]
fn decide_and_apply_among_agents(bencher: Bencher<'_, '_>, count: usize) {
    let (run, _, world) = run_with(count);
    let agent = run.agents.keys().nth(count / 2).expect("there are agents").clone();
    let mut run = run;
    bencher.bench_local(|| {
        let step = StepId { agent: agent.clone(), number: run.agents[&agent].steps };
        let transition = raymond_flow::policy::Transition::Goto {
            target: StateName::new("START.md"),
            input: None,
        };
        let conclusion = raymond_flow::machine::Conclusion::Follow {
            transition,
            source: raymond_flow::policy::Source::Tag,
            session: Some(SessionId::new("session")),
            replaced: None,
        };
        let input = Input::Ended { step, spent: Spent::default(), conclusion };
        for record in decide(&run, input).records {
            apply(&mut run, &record).expect("a decision fits its run");
        }
        let input = prepare(&run, &agent, &world, SessionId::new("session")).input;
        for record in decide(&run, input).records {
            apply(&mut run, &record).expect("a decision fits its run");
        }
    });
}

/// All workers of `main` end, and it joins them: every decision of that, with its records applied.
#[divan::bench(args = [1, 1_000, 10_000], sample_count = 5)]
fn join_workers(bencher: Bencher<'_, '_>, count: usize) {
    let (mut run, _, world) = run_with(count + 1);
    let (mut journal, mut prepares) = (Vec::new(), Vec::new());
    let main = AgentId::main();
    answer(&mut run, &mut journal, &world, &mut prepares, &main, "<join>START</join>");
    let workers: Vec<_> = run.agents.keys().filter(|id| **id != main).cloned().collect();
    bencher.with_inputs(|| run.clone()).bench_local_values(|mut run| {
        for worker in &workers {
            answer(&mut run, &mut journal, &world, &mut prepares, worker, "<result>r</result>");
        }
        assert!(run.agents[&main].result.is_some(), "all were joined");
        journal.clear();
        prepares.clear();
        run
    });
}

/// One worker of many ends while its parent joins: the decision among so many.
#[divan::bench(args = [1, 100, 10_000], sample_count = 20)]
fn one_worker_ends_while_its_parent_joins(bencher: Bencher<'_, '_>, count: usize) {
    let (mut run, _, world) = run_with(count + 1);
    let (mut journal, mut prepares) = (Vec::new(), Vec::new());
    let main = AgentId::main();
    answer(&mut run, &mut journal, &world, &mut prepares, &main, "<join>START</join>");
    let worker = run.agents.keys().nth(count / 2 + 1).expect("there are workers").clone();
    bencher.with_inputs(|| run.clone()).bench_local_refs(|run| {
        answer(run, &mut journal, &world, &mut prepares, &worker, "<result>r</result>");
        journal.clear();
        prepares.clear();
    });
}

/// One worker more fails while its parent waits for the first that does not: the decision among so many.
#[divan::bench(args = [1, 100, 10_000], sample_count = 20)]
fn one_worker_fails_while_its_parent_joins_one(bencher: Bencher<'_, '_>, count: usize) {
    // One more stays at work.
    let (mut run, _, world) = run_with(count + 2);
    let (mut journal, mut prepares) = (Vec::new(), Vec::new());
    let main = AgentId::main();
    answer(&mut run, &mut journal, &world, &mut prepares, &main, "<join count=\"1\">START</join>");
    let mut workers: Vec<_> =
        run.agents.keys().filter(|id| **id != main).take(count).cloned().collect();
    let last = workers.pop().expect("there are workers");
    for worker in &workers {
        answer(&mut run, &mut journal, &world, &mut prepares, worker, "no tag");
    }
    bencher.with_inputs(|| run.clone()).bench_local_refs(|run| {
        answer(run, &mut journal, &world, &mut prepares, &last, "no tag");
        journal.clear();
        prepares.clear();
    });
}

#[divan::bench(args = [1, 100, 10_000], sample_count = 10)]
fn replay_a_journal_of_agents(bencher: Bencher<'_, '_>, count: usize) {
    let (_, journal, _) = run_with(count);
    bencher.with_inputs(|| journal.clone()).bench_values(|journal| replay(journal).is_ok());
}

#[divan::bench(args = [1, 100, 10_000], sample_count = 10)]
fn write_the_state_file_of_agents(bencher: Bencher<'_, '_>, count: usize) {
    let (run, _, _) = run_with(count);
    bencher.bench(|| Snapshot::new(black_box(&run), 0).to_json().is_ok());
}
