//! Nothing that touches the world, and no confirmation, comes before the records that ask for it are durable.
//!
//! A journal that another process has changed cannot be made durable. These tests change it at the moment at which
//! a record is committed: whatever happens after that came before the `fdatasync`.

use std::{
    fs::{self, File},
    io::Write as _,
    path::PathBuf,
    sync::mpsc,
};

use raymond_flow::machine::Record;

use crate::{
    EngineError,
    exec::steps::memory::{Fate, Memory},
    run::{
        door::{Letter, LimitChange, Request},
        events::{Event, Observer, Seen},
        inbox::Message,
        mirror::identity_of,
    },
    testing::{RESULT, Stage, says},
};

/// Changes the journal when it sees a record for which `is_meant` holds.
struct Intruder {
    journal: PathBuf,
    is_meant: fn(&Record) -> bool,
}

impl Observer for Intruder {
    fn see(&mut self, seen: &Seen) {
        if let Event::Recorded { record, .. } = &seen.event
            && (self.is_meant)(record)
        {
            let mut journal = File::options().append(true).open(&self.journal).unwrap();
            journal.write_all(b"x").unwrap();
        }
    }
}

/// Runs `stage` until the journal is changed at such a record, which must stop the run.
#[track_caller]
fn stop_at(stage: &Stage, is_meant: fn(&Record) -> bool) {
    let mut intruder = Intruder { journal: stage.files().journal, is_meant };
    let stopped = stage.engine().start(stage.started.clone(), &mut intruder);
    assert!(matches!(stopped, Err(EngineError::Journal(_))), "{stopped:?}");
}

#[test]
fn step_is_not_launched_before_its_intent_is_durable() {
    for (file, fate) in [("START.sh", Fate::prints(RESULT)), ("START.md", says(RESULT))] {
        let stage = Stage::new(&[file], [(file, vec![fate])]);
        stop_at(&stage, |record| matches!(record, Record::Intended { .. }));
        assert_eq!(stage.launches(), 0, "{file}");
    }
}

#[test]
fn second_step_is_not_launched_before_the_end_of_the_first_is_durable() {
    let stage = Stage::new(
        &["START.sh", "NEXT.sh"],
        [
            ("START.sh", vec![Fate::prints("<goto>NEXT</goto>")]),
            ("NEXT.sh", vec![Fate::prints(RESULT)]),
        ],
    );
    stop_at(&stage, |record| matches!(record, Record::Ended { .. }));
    assert_eq!(stage.launches(), 1);
}

#[test]
fn question_is_not_published_before_it_is_durable() {
    let ask = Fate::prints("<ask next=\"NEXT\">Which?</ask>");
    let stage = Stage::new(&["START.sh", "NEXT.sh"], [("START.sh", vec![ask])]);
    stop_at(&stage, |record| matches!(record, Record::Asked { .. }));
    let published = fs::read_dir(stage.files().asks).map(Iterator::count).unwrap_or_default();
    assert_eq!(published, 0);
}

#[test]
fn request_at_the_door_is_not_confirmed_before_it_is_durable() {
    let mut stage = Stage::new(&["START.sh"], []);
    let files = stage.files();
    let (post, posted) = mpsc::channel();
    stage.memory = Memory::new(move |_| {
        let change = LimitChange { max_iterations: Some(9), ..LimitChange::default() };
        let run = identity_of(&files).unwrap();
        let letter = Letter::post(&files.folder, &run, &Request::Limit(change));
        post.send(letter.unwrap()).unwrap();
        Fate::Runs.after([Message::Door])
    });
    stop_at(&stage, |record| matches!(record, Record::LimitsChanged { .. }));
    assert!(posted.recv().unwrap().answer().is_none());
}
