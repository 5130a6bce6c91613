//! What it costs to open a long run: `cargo bench -p raymond-engine`.

use std::{collections::BTreeMap, path::PathBuf};

use divan::Bencher;
use raymond_engine::store::journal::Journal;
use raymond_flow::{
    id::{AgentId, RunId, SessionId, StateName, StepId},
    machine::{
        Effect, Input, Limits, Record, Run, Settings, Spent, Started, apply, decide, replay,
    },
    turn::{Outcome, conclude, prepare},
    world::MemoryWorld,
};

fn main() {
    divan::main();
}

/// Writes the journal of a run of `steps` turns, as the engine would.
fn journal(folder: &std::path::Path, steps: u32) -> PathBuf {
    let world = MemoryWorld::new([("START.md", "Go on with the work.")]);
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
        limits: Limits { budget_usd: None, ..Limits::default() },
    };
    let path = folder.join("bench-1.journal");
    let mut journal = Journal::create(&path).expect("a new file");
    let mut run = Run::new(&started);
    journal.append(&[Record::Started(Box::new(started))]).expect("room on the disk");
    let mut commit = |run: &mut Run, input: Input| -> Vec<Effect> {
        let decision = decide(run, input);
        journal.append(&decision.records).expect("room on the disk");
        for record in &decision.records {
            apply(run, record).expect("a decision fits its run");
        }
        decision.effects
    };
    let agent = AgentId::main();
    for number in 1..=steps {
        let session = SessionId::new(format!("{number:08}-0000-4000-8000-000000000000"));
        let input = prepare(&run, &agent, &world, session).input;
        commit(&mut run, input);
        let step = StepId { agent: agent.clone(), number };
        let outcome = Outcome::Reply { text: "<goto>START</goto>".to_owned() };
        let input = conclude(&run, &step, outcome, Spent::default(), &world);
        commit(&mut run, input);
    }
    path
}

#[divan::bench(args = [600, 6_000, 60_000], sample_count = 5)]
fn read_and_replay_a_journal_of_steps(bencher: Bencher<'_, '_>, steps: u32) {
    let folder = tempfile::tempdir().expect("a folder for the journal");
    let path = journal(folder.path(), steps);
    bencher.bench_local(|| {
        let opened = Journal::open(&path).expect("readable").expect("from the start");
        let records = opened.entries.into_iter().flat_map(|entry| entry.records);
        replay(records.collect::<Vec<_>>()).expect("a run").iteration_count
    });
}
