#![allow(clippy::unwrap_used, reason = "in tests a panic is the message")]

use raymond_flow::{
    id::{AgentId, StateName},
    machine::Action,
    source::Timeout,
};

use super::*;

fn step(steps: &Path) -> StepFolder {
    StepFolder::new(steps, &StepId { agent: AgentId::main(), number: 1 }).of_run("ours")
}

#[test]
fn claim_that_a_power_loss_left_as_zeros_is_a_lost_step_and_not_another_runs() {
    let steps = tempfile::tempdir().unwrap();
    let folder = step(steps.path());
    folder.create().unwrap();
    fs::write(folder.path().join("exit"), [0; 4096]).unwrap();
    assert_eq!(folder.state().unwrap(), StepState::Lost);
}

#[test]
fn claim_that_raymond_did_not_make_makes_the_step_foreign() {
    let end = "{\"how\":{\"code\":0},\"duration_ms\":1,\"stdout_bytes\":0}\n";
    let of_ours = step(Path::new("/elsewhere")).claim_text();
    let of_another = StepFolder { path: "/elsewhere/main.2".into(), ..step(Path::new("/")) };
    for (claim, run) in [
        ("garbage".to_owned(), ""),
        ("{\"reaper\":1}".to_owned(), ""),
        ("{\"reaper\":1,\"run\":\"ours\"}".to_owned(), "ours"),
        (format!("{{\"reaper\":1,\"run\":\"{}\"}}", of_another.claim_text()), "ours"),
    ] {
        let steps = tempfile::tempdir().unwrap();
        let folder = step(steps.path());
        folder.create().unwrap();
        fs::write(folder.path().join("exit"), format!("{claim}\n{end}")).unwrap();
        let foreign = StepState::Foreign { run: run.to_owned(), reaper: None };
        assert_eq!(folder.state().unwrap(), foreign, "{claim}");
        fs::write(folder.path().join("stdout"), "").unwrap();
        fs::write(folder.path().join("stderr"), "").unwrap();
        let own = format!("{{\"reaper\":1,\"run\":\"{of_ours}\"}}\n{end}");
        fs::write(folder.path().join("exit"), own).unwrap();
        assert!(matches!(folder.state().unwrap(), StepState::Ended(_)));
    }
    // The claim of a turn is durable: no power loss leaves zeros of it.
    let steps = tempfile::tempdir().unwrap();
    let folder = step(steps.path());
    folder.create().unwrap();
    fs::write(folder.prompt(), "").unwrap();
    fs::write(folder.path().join("exit"), [0; 4096]).unwrap();
    assert!(matches!(folder.state().unwrap(), StepState::Foreign { .. }));
}

#[test]
fn claim_of_another_run_makes_the_step_foreign() {
    let steps = tempfile::tempdir().unwrap();
    let folder = step(steps.path());
    folder.create().unwrap();
    drop(Claim::take(&folder.path().join("exit"), "theirs", false).unwrap());
    let foreign = StepState::Foreign { run: "theirs".to_owned(), reaper: None };
    assert_eq!(folder.state().unwrap(), foreign);
}

#[test]
fn intent_of_another_run_is_not_taken_for_one_of_ours() {
    let steps = tempfile::tempdir().unwrap();
    let step_of_ours = Step {
        number: 1,
        state: StateName::new("START.md"),
        digest: None,
        attempt: 1,
        action: Action::Script { timeout: Timeout::DEFAULT },
    };
    let ours = step(steps.path());
    ours.create_turn(&step_of_ours, "prompt", None).unwrap();
    assert_eq!(ours.intent().unwrap(), Some(step_of_ours));
    let theirs = ours.clone().of_run("theirs");
    assert_eq!(theirs.intent().unwrap(), None);
}

#[cfg(unix)]
#[test]
fn output_of_a_lost_turn_replaces_whatever_is_under_its_name() {
    let steps = tempfile::tempdir().unwrap();
    let folder = step(steps.path());
    folder.create().unwrap();
    let first = steps.path().join("main.0");
    fs::create_dir(&first).unwrap();
    fs::write(first.join("stdout"), "before|mine").unwrap();
    place_output(folder.path(), "ours", 7, "main.0").unwrap();
    fs::write(folder.stderr(), "").unwrap();
    let elsewhere = steps.path().join("elsewhere");
    fs::write(&elsewhere, "precious").unwrap();
    std::os::unix::fs::symlink(&elsewhere, folder.stdout()).unwrap();
    assert_eq!(folder.gather_stdout().unwrap(), 4);
    assert_eq!(fs::read_to_string(folder.stdout()).unwrap(), "mine");
    assert_eq!(fs::read_to_string(elsewhere).unwrap(), "precious");
}

/// A step that ended like this and printed `stdout`, of which the record says that it has `length` bytes.
fn ended(steps: &Path, how: HowEnded, stdout: &str, length: u64) -> StepFolder {
    let folder = step(steps);
    folder.create().unwrap();
    fs::write(folder.stdout(), stdout).unwrap();
    fs::write(folder.stderr(), "").unwrap();
    let claim = Claim::take(&folder.path().join("exit"), &folder.claim_text(), false).unwrap();
    claim.end(&ExitRecord { how, duration_ms: 1, stdout_bytes: length }, false).unwrap();
    folder
}

#[test]
fn step_is_told_from_its_directory_in_every_stage_of_its_life() {
    let steps = tempfile::tempdir().unwrap();
    let folder = step(steps.path());
    assert_eq!(folder.state().unwrap(), StepState::Unclaimed, "no directory");
    folder.create().unwrap();
    folder.create().unwrap();
    assert_eq!(folder.state().unwrap(), StepState::Unclaimed, "no claim");
    let claim = Claim::take(&folder.path().join("exit"), &folder.claim_text(), false).unwrap();
    let own = sys::Pid::try_from(std::process::id()).unwrap();
    assert_eq!(folder.state().unwrap(), StepState::Running(Some(own)));
    drop(claim);
    assert_eq!(folder.state().unwrap(), StepState::Lost);
    assert!(!StepFolder::has_run(folder.path()));
}

#[test]
fn outcome_counts_only_with_the_output_that_it_had() {
    for (how, stdout, length, is_whole) in [
        (HowEnded::Code(0), "text", 4, true),
        // A process that the step left behind has gone on printing.
        (HowEnded::Code(0), "text and more", 4, true),
        (HowEnded::Code(0), "tex", 4, false),
        (HowEnded::Interrupted, "", 1, false),
        // Without a child there is nothing to be missed.
        (HowEnded::Forbidden, "", 9, true),
    ] {
        let steps = tempfile::tempdir().unwrap();
        let folder = ended(steps.path(), how.clone(), stdout, length);
        let is_ended = matches!(folder.state().unwrap(), StepState::Ended(_));
        assert_eq!(is_ended, is_whole, "{how:?} {stdout}");
        assert_eq!(folder.state().unwrap() == StepState::Damaged, !is_whole, "{how:?} {stdout}");
    }
}

#[test]
fn output_file_that_is_missing_or_of_another_kind_damages_the_step() {
    for name in ["stdout", "stderr"] {
        let steps = tempfile::tempdir().unwrap();
        let folder = ended(steps.path(), HowEnded::Code(0), "", 0);
        let path = folder.path().join(name);
        fs::remove_file(&path).unwrap();
        assert_eq!(folder.state().unwrap(), StepState::Damaged, "{name}");
        fs::create_dir(&path).unwrap();
        assert_eq!(folder.state().unwrap(), StepState::Damaged, "{name}");
        #[cfg(unix)]
        {
            fs::remove_dir(&path).unwrap();
            std::os::unix::fs::symlink("/etc/passwd", &path).unwrap();
            assert_eq!(folder.state().unwrap(), StepState::Damaged, "{name}");
        }
    }
}

#[test]
fn step_that_is_being_forbidden_is_never_seen_as_claimed_without_an_end() {
    let steps = tempfile::tempdir().unwrap();
    let is_over = std::sync::atomic::AtomicBool::new(false);
    let of = |number| StepFolder::new(steps.path(), &StepId { agent: AgentId::main(), number });
    let folders: Vec<_> = (1..=50).map(|number| of(number).of_run("ours")).collect();
    std::thread::scope(|scope| {
        // What the next orchestrator would find if this one were killed at that moment.
        let look = scope.spawn(|| {
            let is_seen_right = |folder: &StepFolder| {
                matches!(folder.state().unwrap(), StepState::Unclaimed | StepState::Ended(_))
            };
            while !is_over.load(std::sync::atomic::Ordering::Acquire) {
                assert!(folders.iter().all(is_seen_right));
            }
        });
        for folder in &folders {
            assert!(folder.forbid().unwrap());
        }
        is_over.store(true, std::sync::atomic::Ordering::Release);
        look.join().unwrap();
    });
}

#[test]
fn step_is_forbidden_once_and_only_if_nobody_has_claimed_it() {
    let steps = tempfile::tempdir().unwrap();
    let folder = step(steps.path());
    assert!(folder.forbid().unwrap(), "also without a directory");
    assert!(!folder.forbid().unwrap());
    let StepState::Ended(record) = folder.state().unwrap() else { panic!("{folder:?}") };
    assert_eq!(record.how, HowEnded::Forbidden);
    let late = Claim::take(&folder.path().join("exit"), &folder.claim_text(), false).unwrap_err();
    assert_eq!(late.kind(), io::ErrorKind::AlreadyExists);
    let other = StepFolder::new(steps.path(), &StepId { agent: AgentId::main(), number: 2 });
    other.create().unwrap();
    let _claim = Claim::take(&other.path().join("exit"), &folder.claim_text(), false).unwrap();
    assert!(!other.forbid().unwrap());
    assert!(matches!(other.state().unwrap(), StepState::Running(_)));
}

#[test]
fn turn_that_is_prepared_again_says_what_its_process_has_spent_now() {
    let steps = tempfile::tempdir().unwrap();
    let folder = step(steps.path());
    let turn = crate::testing::script_step();
    folder.create_turn(&turn, "first", Some("0.5")).unwrap();
    assert_eq!(folder.before().unwrap().as_deref(), Some("0.5"));
    assert!(!StepFolder::is_script(folder.path()));
    folder.create_turn(&turn, "second, longer", None).unwrap();
    assert_eq!(folder.before().unwrap(), None, "another process takes it");
    assert_eq!(fs::read_to_string(folder.prompt()).unwrap(), "second, longer");
    folder.create_turn(&turn, "third", None).unwrap();
    assert_eq!(fs::read_to_string(folder.prompt()).unwrap(), "third");
}

#[test]
fn intent_that_is_missing_is_none_and_one_that_cannot_be_read_is_none() {
    let steps = tempfile::tempdir().unwrap();
    let folder = step(steps.path());
    assert_eq!(folder.intent().unwrap(), None);
    folder.create().unwrap();
    for text in ["", "{", "[]", "{\"v\":1}"] {
        fs::write(folder.path().join("intent"), text).unwrap();
        assert_eq!(folder.intent().unwrap(), None, "{text}");
    }
    fs::remove_file(folder.path().join("intent")).unwrap();
    fs::create_dir(folder.path().join("intent")).unwrap();
    assert!(folder.intent().is_err(), "the file exists, but cannot be read");
}

#[test]
fn output_of_a_kept_process_is_found_only_where_raymond_says_it_is() {
    let steps = tempfile::tempdir().unwrap();
    let folder = step(steps.path());
    folder.create().unwrap();
    assert!(folder.is_first());
    place_output(folder.path(), "ours", 12, "main_a.b.7").unwrap();
    let stdout = steps.path().join("main_a.b.7").join("stdout");
    assert_eq!(folder.output_is_at(), Some((12, stdout)));
    assert_eq!(folder.first_step().as_deref(), Some("main_a.b.7"));
    place_output(folder.path(), "earlier", 12, "main_a.b.7").unwrap();
    assert_eq!(folder.output_is_at(), None, "of an earlier run of the same name");
    let unsealed = r#"{"run":"ours","offset":0,"first":"main.9"}"#;
    for text in [unsealed, "12 /elsewhere/main.7/stdout", ""] {
        fs::write(folder.path().join(OUTPUT_IS_AT), text).unwrap();
        assert_eq!(folder.output_is_at(), None, "{text}");
        assert_eq!(folder.first_step(), None, "{text}");
    }
}

#[test]
fn output_of_a_lost_turn_is_its_own_part_of_what_its_process_printed() {
    let steps = tempfile::tempdir().unwrap();
    let folder = step(steps.path());
    folder.create().unwrap();
    let missing = folder.gather_stdout().unwrap_err();
    assert_eq!(missing.kind(), io::ErrorKind::NotFound, "it printed nothing");
    fs::write(folder.stderr(), "").unwrap();
    fs::write(folder.stdout(), "own").unwrap();
    assert_eq!(folder.gather_stdout().unwrap(), 3);
    let first = steps.path().join("main.0");
    fs::create_dir(&first).unwrap();
    fs::write(first.join("stdout"), "before|mine").unwrap();
    // Beyond its end: it printed nothing, and what its own file has is not its output.
    for (offset, expected) in [(7, "mine"), (11, ""), (99, "")] {
        place_output(folder.path(), "ours", offset, "main.0").unwrap();
        assert_eq!(folder.gather_stdout().unwrap(), expected.len() as u64, "{offset}");
        assert_eq!(fs::read_to_string(folder.stdout()).unwrap(), expected, "{offset}");
    }
    fs::remove_file(folder.stderr()).unwrap();
    assert_eq!(folder.gather_stdout().unwrap_err().kind(), io::ErrorKind::NotFound);
}

#[test]
fn directory_that_is_set_aside_is_kept_under_another_name() {
    let steps = tempfile::tempdir().unwrap();
    let aside = steps.path().join("aside");
    let folder = step(steps.path());
    let mut places = Vec::new();
    for _ in 0..2 {
        folder.create().unwrap();
        fs::write(folder.stdout(), "kept").unwrap();
        places.push(folder.set_aside(&aside).unwrap());
        assert_eq!(folder.state().unwrap(), StepState::Unclaimed, "it can start");
    }
    assert_ne!(places[0], places[1]);
    for place in places {
        assert!(place.starts_with(&aside));
        assert_eq!(fs::read_to_string(place.join("stdout")).unwrap(), "kept");
    }
}

#[test]
fn name_of_a_step_fits_a_file_system_and_is_its_own() {
    let of = |agent: &str, number| step_name(&StepId { agent: AgentId::new(agent), number });
    assert_eq!(of("main", 1), "main.1");
    assert_eq!(of("main_a.b", u32::MAX), "main_a.b.4294967295");
    let long = "main_".to_owned() + &"x".repeat(295);
    let names =
        [of(&long, 1), of(&(long.clone() + "y"), 1), of(&long, 2), of(long.split_at(200).0, 1)];
    for (at, name) in names.iter().enumerate() {
        assert!(name.len() <= 255, "{name}");
        assert!(!names[..at].contains(name), "{name}");
    }
}
