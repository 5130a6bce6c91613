#![allow(clippy::unwrap_used, reason = "in tests a panic is the message")]

use std::{
    io::BufRead as _,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use super::{super::processes::is_stopped, *};

/// A child of this test that has printed a line, so that it is where the test wants it.
fn child(script: &str, variables: &[(&str, &str)]) -> (Child, Pid) {
    let mut command = Command::new("bash");
    command.args(["-c", script]).envs(variables.iter().copied()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut line = String::new();
    io::BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let pid = child.id().try_into().unwrap();
    (child, pid)
}

/// The signal that ended a child.
fn signal(child: &mut Child) -> Option<i32> {
    std::os::unix::process::ExitStatusExt::signal(&child.wait().unwrap())
}

#[cfg(target_os = "linux")]
#[test]
fn stopped_process_is_seen_and_ended_politely() {
    let (mut child, pid) = child("trap 'exit 7' TERM; echo; kill -STOP $$; sleep 1000 & wait", &[]);
    let deadline = Instant::now() + Duration::from_mins(1);
    while !is_stopped(pid) {
        assert!(Instant::now() < deadline);
        std::thread::yield_now();
    }
    end_process(pid, true);
    assert_eq!(child.wait().unwrap().code(), Some(7));
    assert!(!is_stopped(pid), "one that is gone is not stopped");
}

#[test]
fn process_that_ignores_a_request_is_killed() {
    let (mut child, pid) = child("trap '' TERM; echo; while :; do sleep 0.01; done", &[]);
    end_process(pid, true);
    assert_eq!(child.try_wait().unwrap(), None);
    end_process(pid, false);
    assert_eq!(signal(&mut child), Some(libc::SIGKILL));
    // That it is gone is no error.
    kill(pid, libc::SIGTERM);
}

#[cfg(target_os = "linux")]
#[test]
fn processes_are_found_by_the_whole_value_of_a_variable() {
    let value = uuid::Uuid::new_v4().to_string();
    let script = "echo; exec sleep 1000";
    let (mut own, pid) = child(script, &[("RAYMOND_TEST_MARK", &value)]);
    let (mut other, _) = child(script, &[("RAYMOND_TEST_MARK", "other"), ("OTHER", &value)]);
    let found = processes_with("RAYMOND_TEST_MARK", |found| found == value);
    assert_eq!(found, [pid]);
    assert!(
        processes_with("RAYMOND_TEST", |_| true).is_empty(),
        "not by the beginning of its name"
    );
    assert_eq!(parent(pid), std::process::id().try_into().ok());
    for child in [&mut own, &mut other] {
        child.kill().unwrap();
        child.wait().unwrap();
    }
    assert!(processes_with("RAYMOND_TEST_MARK", |found| found == value).is_empty());
}

#[test]
fn this_process_and_its_ancestors_are_never_found() {
    let found = processes_with("PATH", |_| true);
    let own: Pid = std::process::id().try_into().unwrap();
    assert!(!found.contains(&own));
    assert!(!parent(own).is_some_and(|parent| found.contains(&parent)));
}

#[test]
fn file_keeps_its_identity_under_another_name_and_knows_whether_it_has_one() {
    let folder = tempfile::tempdir().unwrap();
    let [first, second] = ["first", "second"].map(|name| folder.path().join(name));
    fs::write(&first, "").unwrap();
    let file = File::open(&first).unwrap();
    let before = identity(&file.metadata().unwrap());
    fs::rename(&first, &second).unwrap();
    assert_eq!(identity(&fs::metadata(&second).unwrap()), before);
    assert!(has_name(&file.metadata().unwrap()));
    fs::write(&first, "").unwrap();
    assert_ne!(identity(&fs::metadata(&first).unwrap()), before);
    fs::remove_file(&second).unwrap();
    assert!(!has_name(&file.metadata().unwrap()));
}

#[test]
fn lock_is_exclusive_or_shared_and_gone_with_its_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("lock");
    fs::write(&path, "").unwrap();
    let open = || File::options().read(true).write(true).open(&path).unwrap();
    let (first, second, third) = (open(), open(), open());
    try_lock_shared(&first).unwrap();
    try_lock_shared(&second).unwrap();
    assert!(matches!(try_lock(&third), Err(TryLockError::WouldBlock)));
    drop((first, second));
    lock(&third).unwrap();
    assert!(matches!(try_lock_shared(&open()), Err(TryLockError::WouldBlock)));
    drop(third);
    try_lock(&open()).unwrap();
}

#[test]
fn bytes_are_written_at_their_place_and_the_rest_stays() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    fs::write(&path, "0123456789").unwrap();
    let file = File::options().write(true).open(&path).unwrap();
    write_all_at(&file, b"abc", 4).unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), "0123abc789");
}

#[test]
fn text_with_a_zero_is_not_for_the_kernel() {
    assert_eq!(c_string(OsStr::new("a b")).unwrap().as_bytes(), b"a b");
    assert_eq!(c_string(OsStr::new("a\0b")).unwrap_err().kind(), io::ErrorKind::InvalidInput);
}

#[test]
fn free_space_of_what_is_not_there_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    assert!(free_bytes(folder.path()).unwrap() > 0);
    assert!(free_bytes(&folder.path().join("gone")).is_err());
    assert!(sync_folder(&folder.path().join("gone")).is_err());
    sync_folder(folder.path()).unwrap();
}

#[test]
fn others_are_the_group_unless_it_is_the_owners_own_and_everybody() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    fs::write(&path, "").unwrap();
    let of = |mode: u32| {
        fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
        writable_by_others(&fs::metadata(&path).unwrap())
    };
    assert_eq!([0o600, 0o644, 0o700, 0o555].map(of), [None; 4]);
    assert_eq!([0o602, 0o666, 0o777].map(of), [0o602, 0o666, 0o777].map(Some));
}

#[test]
fn tree_is_ended_with_everybody_in_it() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new("bash");
    let script = "sleep 1000 & echo $! > inner.tmp; mv inner.tmp inner; wait";
    command.args(["-c", script]).current_dir(folder.path());
    let (mut child, tree) = super::super::Tree::spawn(&mut command).unwrap();
    let inner = folder.path().join("inner");
    let deadline = Instant::now() + Duration::from_mins(1);
    while !inner.exists() {
        assert!(Instant::now() < deadline);
        std::thread::yield_now();
    }
    tree.end(true);
    let status = child.wait().unwrap();
    assert_eq!(super::super::signal_of(status), libc::SIGTERM);
    let inner = fs::read_to_string(inner).unwrap();
    // A process that was killed and not collected yet has no command line any more.
    while fs::read(format!("/proc/{}/cmdline", inner.trim())).is_ok_and(|line| !line.is_empty()) {
        assert!(Instant::now() < deadline);
        std::thread::yield_now();
    }
}
