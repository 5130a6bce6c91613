#![allow(clippy::unwrap_used, reason = "in tests a panic is the message")]

use super::*;

#[test]
fn claim_is_taken_although_a_killed_process_with_our_pid_left_its_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("exit");
    fs::write(path.with_extension(std::process::id().to_string()), "").unwrap();
    let claim = Claim::take(&path, "a", false).unwrap();
    let (run, read_back) = read(&path).unwrap().unwrap();
    assert_eq!(run.as_deref(), Some("a"));
    assert!(matches!(read_back, ExitFile::Running { reaper: Some(_) }));
    let again = Claim::take(&path, "a", false).unwrap_err();
    assert_eq!(again.kind(), io::ErrorKind::AlreadyExists);
    drop(claim);
    assert_eq!(read(&path).unwrap(), Some((Some("a".to_owned()), ExitFile::Lost)));
}

/// The `exit` file with these contents, read.
fn read_bytes(bytes: &[u8]) -> Option<(Option<String>, ExitFile)> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("exit");
    fs::write(&path, bytes).unwrap();
    read(&path).unwrap()
}

const CLAIM: &str = "{\"reaper\":7,\"run\":\"a\"}\n";
const ENDED: &str = "{\"how\":{\"code\":0},\"duration_ms\":5,\"stdout_bytes\":3}\n";

#[test]
fn exit_file_is_understood_as_far_as_it_was_written() {
    let ended =
        || ExitFile::Ended(ExitRecord { how: HowEnded::Code(0), duration_ms: 5, stdout_bytes: 3 });
    let own = || Some("a".to_owned());
    let zeros = "\0".repeat(100);
    for (text, expected) in [
        (format!("{CLAIM}{ENDED}"), (own(), ended())),
        (format!("{CLAIM}{ENDED}{zeros}"), (own(), ended())),
        (format!("{CLAIM}{zeros}"), (own(), ExitFile::Lost)),
        (CLAIM.to_owned(), (own(), ExitFile::Lost)),
        // A line without its newline was not written to its end.
        (format!("{CLAIM}{}", ENDED.trim_end()), (own(), ExitFile::Lost)),
        (CLAIM.trim_end().to_owned(), (None, ExitFile::Lost)),
        (String::new(), (None, ExitFile::Lost)),
        (zeros.clone(), (None, ExitFile::Lost)),
        (format!("{CLAIM}{{\"how\":\"dancing\"}}\n"), (own(), ExitFile::Lost)),
        (format!("\n{ENDED}"), (None, ended())),
    ] {
        assert_eq!(read_bytes(text.as_bytes()), Some(expected), "{text:?}");
    }
}

#[test]
fn exit_file_that_is_cut_at_any_byte_never_says_more_than_it_did() {
    let whole = format!("{CLAIM}{ENDED}");
    for end in 0..whole.len() {
        let read = read_bytes(&whole.as_bytes()[..end]);
        assert!(matches!(read, Some((_, ExitFile::Lost))), "{end}: {read:?}");
    }
}

#[test]
fn how_a_step_ended_is_read_back_whatever_it_was() {
    let folder = tempfile::tempdir().unwrap();
    for (number, how) in [
        HowEnded::Code(-1),
        HowEnded::Signal(15),
        HowEnded::TimedOut(600),
        HowEnded::Interrupted,
        HowEnded::NotRun("bash: \"gone\"\n".to_owned()),
        HowEnded::NotRunNow("ünïcode".to_owned()),
        HowEnded::Forbidden,
    ]
    .into_iter()
    .enumerate()
    {
        let path = folder.path().join(format!("exit-{number}"));
        let claim = Claim::take(&path, "a", number % 2 == 0).unwrap();
        let record = ExitRecord { how, duration_ms: u64::MAX, stdout_bytes: u64::MAX };
        claim.end(&record, number % 2 == 0).unwrap();
        // Also while its reaper still holds the lock.
        assert_eq!(read(&path).unwrap(), Some((Some("a".to_owned()), ExitFile::Ended(record))));
    }
}

#[test]
fn record_that_would_not_fit_into_its_reserved_room_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("exit");
    let claim = Claim::take(&path, "a", false).unwrap();
    let how = HowEnded::NotRun("x".repeat(EXIT_RECORD_BYTES as usize));
    let record = ExitRecord { how, duration_ms: 0, stdout_bytes: 0 };
    assert_eq!(claim.end(&record, false).unwrap_err().kind(), io::ErrorKind::FileTooLarge);
    assert_eq!(fs::metadata(&path).unwrap().len(), u64::from(EXIT_RECORD_BYTES));
    let long = Claim::take(&folder.path().join("other"), &"r".repeat(3000), false).unwrap_err();
    assert_eq!(long.kind(), io::ErrorKind::FileTooLarge);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing is left of it");
}

#[test]
fn room_for_the_outcome_is_reserved_before_the_child_starts() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("exit");
    let _claim = Claim::take(&path, "a", false).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().len(), u64::from(EXIT_RECORD_BYTES));
}

#[test]
fn step_that_many_want_is_claimed_by_one() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("exit");
    // Other processes would have other files: here each thread creates its own, as `take` does.
    let claims: Vec<_> = std::thread::scope(|scope| {
        let claim = |number: usize| {
            let (own, path) = (folder.path().join(format!("exit.{number}")), &path);
            move || {
                let claim = Claim::create(&own, "a").unwrap();
                sys::rename_new(&own, path).is_ok().then_some(claim)
            }
        };
        let threads: Vec<_> = (0..8).map(|number| scope.spawn(claim(number))).collect();
        threads.into_iter().filter_map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(claims.len(), 1);
    assert!(matches!(read(&path).unwrap(), Some((_, ExitFile::Running { .. }))));
}

#[test]
fn claim_without_a_folder_fails_and_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let missing = folder.path().join("gone/exit");
    assert_eq!(Claim::take(&missing, "a", false).unwrap_err().kind(), io::ErrorKind::NotFound);
    assert_eq!(read(&missing).unwrap(), None);
}

#[test]
fn what_is_no_file_in_the_place_of_a_claim_is_a_lost_step() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("exit");
    fs::create_dir(&path).unwrap();
    assert_eq!(read(&path).unwrap(), Some((None, ExitFile::Lost)));
}

#[test]
fn only_a_child_that_ran_has_output() {
    let ran =
        [HowEnded::Code(1), HowEnded::Signal(9), HowEnded::TimedOut(1), HowEnded::Interrupted];
    assert!(ran.iter().all(HowEnded::has_output));
    let not =
        [HowEnded::NotRun(String::new()), HowEnded::NotRunNow(String::new()), HowEnded::Forbidden];
    assert!(!not.iter().any(HowEnded::has_output));
}
