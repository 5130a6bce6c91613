//! Samples of journals, state files and inputs, byte for byte as they are on disk: the guard of the durable formats.
//!
//! A sample says what is written, and is read back. `RAYMOND_WRITE_FIXTURES=1 cargo nextest run -p raymond-flow` writes all of
//! them anew; once a format is released, that is allowed for new samples alone (see CONTRIBUTING.md).

#![expect(clippy::disallowed_methods, reason = "the samples are files")]

use std::{
    env, fs,
    path::{Path, PathBuf},
};

use raymond_flow::{
    history::{InputMessage, Records},
    machine::{Input, Record, Run},
    snapshot::Snapshot,
};

/// The number of journal bytes in every sample of a state file.
const OFFSET: u64 = 4096;

/// Each record as its own line, without the brackets of a decision.
fn lines(records: &[Record]) -> String {
    let on_disk = |record| serde_json::to_string(&Records::from(std::slice::from_ref(record)));
    let lines = records.iter().map(|record| on_disk(record).unwrap());
    lines.map(|line| line.trim_matches(['[', ']']).to_owned() + "\n").collect()
}

fn record(line: &str) -> Record {
    let records: Records = serde_json::from_str(&format!("[{line}]")).unwrap();
    Vec::from(records).remove(0)
}

fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/v1").join(name)
}

/// The sample, after it was compared with what is written now.
#[track_caller]
fn sample(name: &str, written: &str) -> String {
    let path = path(name);
    if env::var_os("RAYMOND_WRITE_FIXTURES").is_some() {
        fs::write(&path, written).unwrap();
    }
    let sample = fs::read_to_string(&path).unwrap();
    assert_eq!(written, sample, "{name} is written in another way");
    sample
}

/// Checks that `records` are written as in the sample `name`, and are what is read from it.
#[track_caller]
pub(crate) fn check_journal(name: &str, records: &[Record]) {
    let sample = sample(&format!("{name}.jsonl"), &lines(records));
    assert_eq!(sample.lines().map(record).collect::<Vec<_>>(), records);
}

/// The same for the state file of a run.
#[track_caller]
pub(crate) fn check_state(name: &str, run: &Run) {
    let written = Snapshot::to_json(run, OFFSET).unwrap();
    let read = Snapshot::from_json(&sample(&format!("state-{name}.json"), &written)).unwrap();
    assert_eq!(read, Snapshot { run: run.clone(), journal_offset: OFFSET });
}

/// The records of the sample `name`, which are written as they were read.
#[track_caller]
pub(crate) fn read_journal(name: &str) -> Vec<Record> {
    let sample = fs::read_to_string(path(&format!("{name}.jsonl"))).unwrap();
    let records: Vec<_> = sample.lines().map(record).collect();
    assert_eq!(lines(&records), sample, "{name} is written in another way");
    records
}

/// The inputs of the sample `name`, which are written as they were read.
#[track_caller]
pub(crate) fn read_inputs(name: &str) -> Vec<Input> {
    let sample = fs::read_to_string(path(&format!("{name}.jsonl"))).unwrap();
    let read = |line: &str| Input::from(serde_json::from_str::<InputMessage>(line).unwrap());
    let inputs: Vec<_> = sample.lines().map(read).collect();
    let line =
        |input: &Input| serde_json::to_string(&InputMessage::from(input.clone())).unwrap() + "\n";
    assert_eq!(
        inputs.iter().map(line).collect::<String>(),
        sample,
        "{name} is written in another way"
    );
    inputs
}
