#![allow(clippy::unwrap_used, reason = "in tests a panic is the message")]

use std::{
    fs,
    io::{Read as _, Write as _},
    os::unix::net::UnixListener,
};

use super::*;

#[test]
fn connecting_to_a_socket_with_a_full_backlog_fails_in_time() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    let listener = UnixListener::bind(&path).unwrap();
    // SAFETY: no memory is involved.
    check(unsafe { libc::listen(listener.as_raw_fd(), 0) }).unwrap();
    let mut waiting = Vec::new();
    let error = loop {
        match connect(&path, Duration::from_millis(10)) {
            Ok(stream) => waiting.push(stream),
            Err(error) => break error,
        }
        assert!(waiting.len() < 10, "the backlog has no limit");
    };
    assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
    listener.accept().unwrap();
    connect(&path, Duration::from_mins(1)).unwrap();
}

#[test]
fn path_that_no_socket_can_have_is_refused() {
    for path in [String::new(), "x".repeat(108), "x".repeat(5000)] {
        let error = connect(Path::new(&path), Duration::from_secs(1)).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "{} bytes", path.len());
    }
    let gone = connect(Path::new("/no/such/socket"), Duration::from_secs(1)).unwrap_err();
    assert_eq!(gone.kind(), io::ErrorKind::NotFound);
}

#[test]
fn peer_of_a_connection_is_the_process_that_listens_and_its_user() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    let _listener = UnixListener::bind(&path).unwrap();
    let stream = connect(&path, Duration::from_secs(1)).unwrap();
    assert_eq!(peer(&stream).unwrap(), Pid::try_from(std::process::id()).unwrap());
    assert!(is_own_peer(&stream));
}

#[test]
fn first_descriptor_that_is_readable_or_closed_is_told() {
    let (first, mut first_end) = UnixStream::pair().unwrap();
    let (second, second_end) = UnixStream::pair().unwrap();
    let fds = [first.as_raw_fd(), second.as_raw_fd()];
    let now = || poll(&fds, Some(Duration::ZERO)).unwrap();
    assert_eq!(now(), None);
    drop(second_end);
    assert_eq!(now(), Some(1));
    first_end.write_all(b"x").unwrap();
    assert_eq!(now(), Some(0), "the first of several");
    assert_eq!(poll(&[], Some(Duration::from_nanos(1))).unwrap(), None);
}

#[test]
fn room_in_a_socket_is_waited_for_unless_the_keeper_goes() {
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    let (keeper, keeper_end) = UnixStream::pair().unwrap();
    ours.set_nonblocking(true).unwrap();
    let wait = |patience| wait_for_room(ours.as_raw_fd(), keeper.as_raw_fd(), patience);
    assert!(wait(Duration::ZERO).unwrap());
    while (&ours).write(&[0; 8 * 1024]).is_ok() {}
    let full = wait(Duration::from_millis(1)).unwrap_err();
    assert_eq!(full.kind(), io::ErrorKind::TimedOut);
    let mut bytes = vec![0; 1024 * 1024];
    assert!(theirs.read(&mut bytes).unwrap() > 0);
    assert!(wait(Duration::from_mins(1)).unwrap());
    while (&ours).write(&[0; 8 * 1024]).is_ok() {}
    drop(keeper_end);
    assert!(!wait(Duration::from_mins(1)).unwrap());
}

#[test]
fn file_that_is_written_to_wakes_its_watcher() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    fs::write(&path, "").unwrap();
    let mut watch = Watch::new(&path).unwrap();
    let is_woken = |watch: &Watch| poll(&[watch.fd()], Some(Duration::ZERO)).unwrap().is_some();
    assert!(!is_woken(&watch));
    File::options().append(true).open(&path).unwrap().write_all(b"x").unwrap();
    assert!(is_woken(&watch));
    assert!(!watch.clear(), "no file was given its name");
    assert!(!is_woken(&watch));
    assert!(Watch::new(&folder.path().join("gone")).is_err());
}

#[test]
fn file_that_is_given_its_name_wakes_the_watcher_of_its_directory_until_another_is_watched() {
    let root = tempfile::tempdir().unwrap();
    let [first, second] = ["first", "second"].map(|name| root.path().join(name));
    for folder in [&first, &second] {
        fs::create_dir(folder).unwrap();
        fs::write(folder.join("stdout"), "").unwrap();
    }
    let mut watch = Watch::new(&first.join("stdout")).unwrap();
    let name = |folder: &Path| {
        fs::write(root.path().join("draft"), "").unwrap();
        fs::rename(root.path().join("draft"), folder.join("a-rather-long-name")).unwrap();
    };
    watch.watch_names(&first).unwrap();
    name(&first);
    fs::write(first.join("stdout"), "more").unwrap();
    assert!(watch.clear());
    assert!(!watch.clear());
    watch.watch_names(&second).unwrap();
    name(&first);
    assert!(!watch.clear());
    name(&second);
    assert!(watch.clear());
}

#[test]
fn name_that_is_taken_is_not_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let [from, to] = ["from", "to"].map(|name| folder.path().join(name));
    fs::write(&from, "new").unwrap();
    fs::write(&to, "old").unwrap();
    assert_eq!(rename_new(&from, &to).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
    assert_eq!(fs::read_to_string(&to).unwrap(), "old");
    fs::remove_file(&to).unwrap();
    rename_new(&from, &to).unwrap();
    assert_eq!(fs::read_to_string(&to).unwrap(), "new");
    assert!(!from.exists());
}

#[test]
fn reserved_room_is_on_the_disk() {
    let folder = tempfile::tempdir().unwrap();
    let file = File::create(folder.path().join("file")).unwrap();
    reserve(&file, 4096).unwrap();
    let metadata = file.metadata().unwrap();
    assert_eq!(metadata.len(), 4096);
    assert!(std::os::unix::fs::MetadataExt::blocks(&metadata) >= 8);
    let readable = File::open(folder.path().join("file")).unwrap();
    assert!(reserve(&readable, 8192).is_err(), "it is not open for writing");
}
