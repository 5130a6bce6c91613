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
    formats::Snapshot,
    machine::{Record, Run},
};
use serde::{Serialize, de::DeserializeOwned};

/// The number of journal bytes in every sample of a state file.
const OFFSET: u64 = 4096;

/// Each as a line.
fn lines<T: Serialize>(values: &[T]) -> String {
    values.iter().map(|value| serde_json::to_string(value).unwrap() + "\n").collect()
}

fn values<T: DeserializeOwned>(lines: &str) -> Vec<T> {
    lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
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
    assert_eq!(values::<Record>(&sample), records);
}

/// The same for the state file of a run.
#[track_caller]
pub(crate) fn check_state(name: &str, run: &Run) {
    let written = Snapshot::new(run, OFFSET).to_json().unwrap();
    let sample = sample(&format!("state-{name}.json"), &written);
    assert_eq!(serde_json::from_str::<Run>(&sample).unwrap(), *run);
}

/// The records or inputs of the sample `name`, which are written as they were read.
#[track_caller]
pub(crate) fn read<T: Serialize + DeserializeOwned>(name: &str) -> Vec<T> {
    let sample = fs::read_to_string(path(&format!("{name}.jsonl"))).unwrap();
    let values = values(&sample);
    assert_eq!(lines(&values), sample, "{name} is written in another way");
    values
}
