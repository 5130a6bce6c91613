//! Questions on the real file system, with steps in memory.

#![allow(clippy::unwrap_used, reason = "in tests a panic is the message")]

use std::{collections::BTreeMap, fs, path::Path, sync::Barrier, thread};

use raymond_flow::{
    id::{AgentId, AskId},
    machine::{Halt, OnAsk, Record, SETTING, Status, TIMEOUT},
};

use super::{
    AnswerError, PublishedQuestion, Reply, ShownFile, answer, attachment, check_attachments,
    open_questions, question,
};
use crate::{
    RunEnd,
    exec::steps::memory::Fate,
    run::events::Event,
    store::layout::StateDir,
    testing::{RESULT, Stage, id},
};

const PLAN: &str = "<ask choices=\"approve=NEXT|stop=END\" attach=\"plan.md\">Right?</ask>";

fn first() -> AskId {
    AskId { agent: AgentId::main(), number: 1 }
}

fn reply(result: &str, by: &str) -> Reply {
    Reply {
        result: result.to_owned(),
        by: by.to_owned(),
        how: "command".to_owned(),
        ..Reply::default()
    }
}

/// A workflow whose first script prints `tag`, and whose others end the run.
fn stage(tag: &str) -> Stage {
    let ends = |name| (name, vec![Fate::prints(RESULT)]);
    let stage = Stage::new(
        &["START.sh", "NEXT.sh", "END.sh"],
        [("START.sh", vec![Fate::prints(tag)]), ends("NEXT.sh"), ends("END.sh")],
    );
    fs::write(stage.folder.path().join("plan.md"), "plan").unwrap();
    stage
}

/// The same, paused at its question.
fn paused(tag: &str) -> Stage {
    let mut stage = stage(tag);
    stage.started.settings.on_ask = OnAsk::Pause;
    let RunEnd { run, .. } = stage.start();
    assert_eq!((run.status, run.halt), (Status::Paused, Some(Halt::Asks)));
    stage
}

/// Waits until the run has asked.
fn asked(state_dir: &StateDir) -> PublishedQuestion {
    loop {
        if let Some(question) = open_questions(state_dir, &id()).unwrap().pop() {
            return question;
        }
        thread::yield_now();
    }
}

fn folder(stage: &Stage) -> std::path::PathBuf {
    stage.files().asks.join("main.1")
}

fn answers(stage: &Stage) -> Vec<(String, String)> {
    let records = stage.seen.records().into_iter();
    let answered = records.filter_map(|record| match record {
        Record::Answered { response, .. } => Some((response.result, response.how)),
        _ => None,
    });
    answered.collect()
}

/// The variables that the last step of the run was given.
fn last_environment(stage: &Stage) -> BTreeMap<String, String> {
    let environments = stage.seen.all(|event| match event {
        Event::StepStarted { environment, .. } => Some(environment.clone()),
        _ => None,
    });
    environments.into_iter().next_back().unwrap().into_iter().collect()
}

#[test]
fn state_after_an_answer_without_files_has_an_empty_directory_for_them() {
    let stage = stage(PLAN);
    let state_dir = stage.state_dir();
    thread::scope(|scope| {
        scope.spawn(|| {
            asked(&state_dir);
            answer(&state_dir, &id(), &first(), &reply("approve", "anna")).unwrap();
        });
        stage.start()
    });
    let files = &last_environment(&stage)["RAYMOND_FILES"];
    assert!(Path::new(files).is_absolute(), "{files}");
    assert_eq!(fs::read_dir(files).unwrap().count(), 0);
}

#[test]
fn answer_of_another_thread_wakes_the_run_and_leads_on() {
    let stage = stage(PLAN);
    let state_dir = stage.state_dir();
    let upload = stage.folder.path().join("photo.png");
    fs::write(&upload, "png").unwrap();
    let end = thread::scope(|scope| {
        scope.spawn(|| {
            let shown = asked(&state_dir);
            assert_eq!(shown.text, "Right?");
            let mut reply = reply("approve", "anna");
            reply.comment = "but gently".to_owned();
            reply.files = vec![upload];
            answer(&state_dir, &id(), &first(), &reply).unwrap();
        });
        stage.start()
    });
    assert_eq!(end.run.status, Status::Completed);
    let next = last_environment(&stage);
    assert_eq!(next["RAYMOND_RESULT"], "approve");
    assert_eq!(next["RAYMOND_COMMENT"], "but gently");
    let files = &next["RAYMOND_FILES"];
    assert_eq!(fs::read(Path::new(&files).join("photo.png")).unwrap(), b"png");
    let waits = stage.seen.all(|event| matches!(event, Event::WaitsForPeople).then_some(()));
    assert_eq!(waits.len(), 1);
}

#[test]
fn attachment_is_read_from_the_directory_of_its_question_and_only_unchanged() {
    let stage = paused(PLAN);
    let (shown, _) = question(&stage.state_dir(), &id(), &first()).unwrap().unwrap();
    let file = shown.attachments[0].clone();
    let read = |file: &ShownFile| attachment(&stage.state_dir(), &id(), &first(), file);
    assert_eq!(read(&file).unwrap(), b"plan");
    fs::write(&file.copy, "PLAN").unwrap();
    let changed = read(&file).unwrap_err().to_string();
    assert!(changed.contains("has changed since the question was asked"), "{changed}");
    // The same bytes elsewhere are not that file.
    let outside = stage.folder.path().join("plan.md");
    assert_eq!(fs::read(&outside).unwrap(), b"plan");
    let named = ShownFile { copy: outside.to_str().unwrap().to_owned(), ..file.clone() };
    assert!(read(&named).is_err());
    #[cfg(unix)]
    {
        fs::remove_file(&file.copy).unwrap();
        std::os::unix::fs::symlink(&outside, &file.copy).unwrap();
        assert!(read(&file).is_err());
    }
}

#[test]
fn question_whose_attachment_has_changed_is_not_answered() {
    let stage = paused(PLAN);
    let (mut shown, _) = question(&stage.state_dir(), &id(), &first()).unwrap().unwrap();
    let copy = shown.attachments[0].copy.clone();
    check_attachments(&stage.state_dir(), &id(), &mut shown);
    assert_eq!(shown.attachments[0].error, None);
    // As many bytes as before.
    fs::write(&copy, "PLAN").unwrap();
    check_attachments(&stage.state_dir(), &id(), &mut shown);
    let marked = shown.attachments[0].error.as_deref();
    assert_eq!(marked, Some("it has changed since the question was asked"));
    let give = || answer(&stage.state_dir(), &id(), &first(), &reply("approve", "anna"));
    assert!(matches!(give().unwrap_err(), AnswerError::Attachment { .. }));
    fs::remove_file(&copy).unwrap();
    assert!(matches!(give().unwrap_err(), AnswerError::Attachment { .. }));
    fs::write(&copy, "plan").unwrap();
    give().unwrap();
}

#[test]
fn question_that_was_moved_aside_is_not_open() {
    let stage = paused(PLAN);
    let open = || open_questions(&stage.state_dir(), &id()).unwrap().len();
    assert_eq!(open(), 1);
    fs::rename(folder(&stage), stage.files().asks.join("main.1-5f")).unwrap();
    assert_eq!(open(), 0);
}

#[test]
fn attachments_are_copied_and_their_hashes_are_on_record() {
    let stage = paused(PLAN);
    // Changed after it was asked: what was shown counts.
    fs::write(stage.folder.path().join("plan.md"), "another").unwrap();
    let (shown, _) = question(&stage.state_dir(), &id(), &first()).unwrap().unwrap();
    let [file] = shown.attachments.as_slice() else { panic!("{shown:?}") };
    assert_eq!(fs::read(&file.copy).unwrap(), b"plan");
    // What `printf plan | sha256sum` says.
    let sha256 = "64879f7d6b960a01909762d911a32d4582c20010c5641ee90278b644a9e3b525";
    assert_eq!(file.sha256, sha256);
    answer(&stage.state_dir(), &id(), &first(), &reply("stop", "anna")).unwrap();
    stage.resume();
    let recorded = stage.seen.records().into_iter().find_map(|record| match record {
        Record::Answered { response, .. } => Some(response),
        _ => None,
    });
    let attachments = recorded.unwrap().attachments;
    assert_eq!((attachments[0].bytes, &attachments[0].sha256), (4, &file.sha256));
}

#[test]
fn of_fifty_answers_at_once_one_counts_and_the_others_are_told_whose() {
    let stage = paused(PLAN);
    let state_dir = stage.state_dir();
    let start = Barrier::new(50);
    let outcomes: Vec<_> = thread::scope(|scope| {
        let threads: Vec<_> = (0..50)
            .map(|number| {
                let (start, state_dir) = (&start, &state_dir);
                scope.spawn(move || {
                    let label = if number % 2 == 0 { "approve" } else { "stop" };
                    let reply = reply(label, &format!("user{number}"));
                    start.wait();
                    answer(state_dir, &id(), &first(), &reply)
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let winners: Vec<_> = outcomes.iter().filter_map(|outcome| outcome.as_ref().ok()).collect();
    let [winner] = winners.as_slice() else { panic!("{winners:?}") };
    for outcome in &outcomes {
        if let Err(error) = outcome {
            let AnswerError::Answered { first, .. } = error else { panic!("{error}") };
            assert_eq!((&first.by, &first.result), (&winner.by, &winner.result));
        }
    }
    stage.resume();
    assert_eq!(answers(&stage), [(winner.result.clone(), "command".to_owned())]);
    let mut names: Vec<_> =
        fs::read_dir(folder(&stage)).unwrap().map(|e| e.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["answer", "attachments", "files", "question"], "no draft is left");
    assert_eq!(fs::read_dir(folder(&stage).join("files")).unwrap().count(), 1);
}

#[test]
fn answer_must_be_one_of_the_choices_or_a_text() {
    let stage = paused(PLAN);
    let said =
        |reply: &Reply| answer(&stage.state_dir(), &id(), &first(), reply).unwrap_err().to_string();
    assert_eq!(said(&reply("maybe", "a")), "`maybe` is not one of the choices: approve, stop");
    let unknown = AskId { number: 7, ..first() };
    let error = answer(&stage.state_dir(), &id(), &unknown, &reply("stop", "a")).unwrap_err();
    assert_eq!(error.to_string(), "run `r` has asked no question main.7");
    let missing = Reply { files: vec!["/nowhere/at/all".into()], ..reply("stop", "a") };
    assert!(said(&missing).starts_with("cannot hand over /nowhere/at/all"));
    let long = Reply { comment: "x".repeat(super::TEXT_BYTES_MAX + 1), ..reply("stop", "a") };
    assert!(said(&long).contains("more than the 1048576"));
    assert_eq!(open_questions(&stage.state_dir(), &id()).unwrap().len(), 1, "none of them counts");
    let free = paused("<ask next=\"NEXT\">Which one?</ask>");
    let said =
        |reply: &Reply| answer(&free.state_dir(), &id(), &first(), reply).unwrap_err().to_string();
    assert_eq!(said(&reply(" ", "a")), "the answer is empty");
    assert!(said(&Reply { comment: "x".to_owned(), ..reply("a", "a") }).contains("no comment"));
}

#[test]
fn deadline_that_passes_while_nothing_runs_takes_effect_when_the_run_is_opened() {
    let tag = "<ask choices=\"go=NEXT|stop=END\" timeout=\"1\" default=\"stop\">Go?</ask>";
    let mut stage = stage(tag);
    // The clock is not waited for: the deadline of what was recorded is in the past when it is opened.
    stage.started.settings.on_ask = OnAsk::Pause;
    stage.start();
    let shown = question(&stage.state_dir(), &id(), &first()).unwrap().unwrap().0;
    while crate::sys::clock::now_ms() <= shown.deadline_ms.unwrap() {
        thread::sleep(std::time::Duration::from_millis(20));
    }
    let late = || answer(&stage.state_dir(), &id(), &first(), &reply("go", "anna")).unwrap_err();
    let told = "question main.1 was already answered by raymond (timeout): stop";
    assert_eq!(late().to_string(), told, "before the run is opened");
    assert_eq!(stage.resume().run.status, Status::Completed);
    assert_eq!(answers(&stage), [("stop".to_owned(), TIMEOUT.to_owned())]);
    assert_eq!(late().to_string(), told);
}

#[test]
fn deadline_that_passes_while_the_run_waits_takes_effect_by_itself() {
    let tag = "<ask choices=\"go=NEXT|stop=END\" timeout=\"1\" default=\"go\">Go?</ask>";
    let stage = stage(tag);
    assert_eq!(stage.start().run.status, Status::Completed);
    assert_eq!(answers(&stage), [("go".to_owned(), TIMEOUT.to_owned())]);
}

#[test]
fn setting_answers_by_default_at_once_and_never_overrules_a_person() {
    let tag = "<ask choices=\"go=NEXT|stop=END\" timeout=\"9h\" default=\"stop\">Go?</ask>";
    let mut by_setting = stage(tag);
    by_setting.started.settings.on_ask = OnAsk::Default;
    assert_eq!(by_setting.start().run.status, Status::Completed);
    assert_eq!(answers(&by_setting), [("stop".to_owned(), SETTING.to_owned())]);
    let answered = paused(tag);
    answer(&answered.state_dir(), &id(), &first(), &reply("go", "anna")).unwrap();
    let change = |settings: &mut raymond_flow::machine::Settings, _: &mut _| {
        settings.on_ask = OnAsk::Default;
    };
    answered.engine().resume(&id(), change, &mut answered.seen.clone()).unwrap();
    assert_eq!(answers(&answered), [("go".to_owned(), "command".to_owned())]);
}

#[test]
fn cancelled_run_closes_its_questions() {
    let stage = paused(PLAN);
    stage.engine().cancel(&id(), &mut stage.seen.clone()).unwrap();
    assert!(open_questions(&stage.state_dir(), &id()).unwrap().is_empty());
    let late = answer(&stage.state_dir(), &id(), &first(), &reply("stop", "anna")).unwrap_err();
    assert!(late.to_string().contains("was closed: its run was cancelled"), "{late}");
}

#[test]
fn answer_that_is_none_is_moved_aside_and_the_question_stays_open() {
    let stage = paused(PLAN);
    let given = r#"{"result":"perhaps","by":"hand","how":"editor","at_ms":1}"#;
    fs::write(folder(&stage).join("answer"), given).unwrap();
    assert_eq!(stage.resume().run.status, Status::Paused);
    assert!(!folder(&stage).join("answer").exists());
    answer(&stage.state_dir(), &id(), &first(), &reply("stop", "anna")).unwrap();
    assert_eq!(stage.resume().run.status, Status::Completed);
}

#[test]
fn answer_that_cannot_be_read_is_moved_aside_and_the_question_stays_open() {
    for wrong in ["", "yes", "[1]", "{\"result\":"] {
        for (tag, is_resumed) in [(PLAN, true), ("<ask next=\"NEXT\">Which one?</ask>", false)] {
            let stage = paused(tag);
            fs::write(folder(&stage).join("answer"), wrong).unwrap();
            assert_eq!(open_questions(&stage.state_dir(), &id()).unwrap().len(), 1, "{wrong:?}");
            if is_resumed {
                assert_eq!(stage.resume().run.status, Status::Paused, "{wrong:?}");
            }
            answer(&stage.state_dir(), &id(), &first(), &reply("stop", "anna")).unwrap();
            assert_eq!(stage.resume().run.status, Status::Completed, "{wrong:?}");
        }
    }
}

#[test]
fn question_that_another_run_left_under_the_same_id_is_moved_aside_with_its_answer() {
    let mut stage = stage(PLAN);
    fs::create_dir_all(folder(&stage)).unwrap();
    let old = r#"{"id":"main.1","run":"another","state":"START.sh","text":"Old?","asked_at_ms":1}"#;
    fs::write(folder(&stage).join("question"), old).unwrap();
    let given = r#"{"result":"approve","by":"anna","how":"command","at_ms":1}"#;
    fs::write(folder(&stage).join("answer"), given).unwrap();
    stage.started.settings.on_ask = OnAsk::Pause;
    stage.start();
    assert!(answers(&stage).is_empty(), "the old answer does not count");
    assert_eq!(question(&stage.state_dir(), &id(), &first()).unwrap().unwrap().0.text, "Right?");
}

#[cfg(unix)]
#[test]
fn file_that_a_link_leads_to_outside_of_the_directory_is_not_shown() {
    let stage = stage("<ask next=\"NEXT\" attach=\"out.md\">Right?</ask>");
    let secret = tempfile::NamedTempFile::new().unwrap();
    std::os::unix::fs::symlink(secret.path(), stage.folder.path().join("out.md")).unwrap();
    let end = stage.start();
    assert_eq!(end.run.status, Status::Failed);
    let failed = stage.seen.records().into_iter().find_map(|record| match record {
        Record::Failed { error, .. } => Some(error),
        _ => None,
    });
    assert!(failed.as_ref().unwrap().contains("is a link that leads out of"), "{failed:?}");
}

#[test]
fn file_that_is_too_large_is_not_shown() {
    let stage = stage("<ask next=\"NEXT\" attach=\"big\">Right?</ask>");
    let file = fs::File::create(stage.folder.path().join("big")).unwrap();
    file.set_len(super::attached::FILE_BYTES_MAX + 1).unwrap();
    assert_eq!(stage.start().run.status, Status::Failed);
}
