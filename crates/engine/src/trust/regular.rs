//! Reads files that Raymond did not write: only regular files, and only up to a limit.
//!
//! Opening a FIFO can block forever, a device may never end, and a link may lead anywhere. So every file
//! that comes from a workflow, a user or a step is opened here. A link is followed only where the name is the user's own:
//! the files of runs lie where a cloned repository or a model could have put one.

use std::{
    fs::{self, File, FileType},
    io::{self, Read as _},
    path::{Path, PathBuf},
};

use crate::sys;

/// Opens the regular file at `path` for reading; refuses a link. Never blocks, not even on a FIFO.
pub fn open(path: &Path) -> io::Result<File> {
    let refused = |error| match fs::symlink_metadata(path) {
        Ok(metadata) if !metadata.is_file() => irregular(path, metadata.file_type()),
        _ => error,
    };
    if cfg!(not(unix)) && path.is_symlink() {
        return Err(refused(io::ErrorKind::InvalidInput.into()));
    }
    open_with(path, NO_LINK).map_err(refused)
}

/// Opens the regular file that the user has named or installed, perhaps as a link.
pub fn open_linked(path: &Path) -> io::Result<File> {
    open_with(path, 0)
}

#[cfg(unix)]
const NO_LINK: i32 = libc::O_NOFOLLOW;
#[cfg(not(unix))]
const NO_LINK: i32 = 0;

#[cfg_attr(not(unix), expect(unused_variables, reason = "there are no such flags"))]
fn open_with(path: &Path, flags: i32) -> io::Result<File> {
    let mut options = File::options();
    options.read(true);
    // With these flags a FIFO opens at once, and a terminal does not become our controlling terminal.
    // They have no effect on regular files.
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::custom_flags(
        &mut options,
        flags | libc::O_NONBLOCK | libc::O_NOCTTY,
    );
    // Opening a socket fails, with an error that does not say why.
    let file = options.open(path).map_err(|error| match fs::metadata(path) {
        Ok(metadata) if !metadata.is_file() => irregular(path, metadata.file_type()),
        _ => error,
    })?;
    let kind = file.metadata()?.file_type();
    if kind.is_file() { Ok(file) } else { Err(irregular(path, kind)) }
}

/// The bytes of the regular file at `path`. Fails with `FileTooLarge` if there are more than `bytes_max`.
pub fn read(path: &Path, bytes_max: u64) -> io::Result<Vec<u8>> {
    bytes_of(&open(path)?, path, bytes_max)
}

/// The same for a file that the user has named or installed, perhaps as a link.
pub fn read_linked(path: &Path, bytes_max: u64) -> io::Result<Vec<u8>> {
    bytes_of(&open_linked(path)?, path, bytes_max)
}

/// The bytes of the open `file`, named `path`, with the same limit.
fn bytes_of(file: &File, path: &Path, bytes_max: u64) -> io::Result<Vec<u8>> {
    let too_large = || {
        let what = format!("exceeds the limit of {bytes_max} bytes");
        wrong(io::ErrorKind::FileTooLarge, path, &what)
    };
    let size = file.metadata()?.len();
    if size > bytes_max {
        return Err(too_large());
    }
    // The file may grow while it is read.
    let mut bytes = Vec::with_capacity(usize::try_from(size).unwrap_or_default());
    file.take(bytes_max + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > bytes_max { Err(too_large()) } else { Ok(bytes) }
}

/// Like [`read`], as UTF-8 text.
pub fn read_text(path: &Path, bytes_max: u64) -> io::Result<String> {
    text_of(&open(path)?, path, bytes_max)
}

/// The text of a file that [`open`] has returned, for callers that must check the open file first.
pub fn text_of(file: &File, path: &Path, bytes_max: u64) -> io::Result<String> {
    String::from_utf8(bytes_of(file, path, bytes_max)?)
        .map_err(|_| wrong(io::ErrorKind::InvalidData, path, "is not valid UTF-8"))
}

/// The bytes of the file `name` in `folder`. A symbolic link must lead to a file within `folder`.
pub fn read_in(folder: &Path, name: &str, bytes_max: u64) -> io::Result<Vec<u8>> {
    let path = folder.join(name);
    if fs::symlink_metadata(&path)?.is_symlink() {
        return read(&within(folder, &path)?, bytes_max);
    }
    read(&path, bytes_max)
}

/// Opens the regular file at the relative `path` below `folder`. Links may lead anywhere within `folder`.
pub fn open_below(folder: &Path, path: &Path) -> io::Result<File> {
    let path = folder.join(path);
    let file = open(&within(folder, &path)?)?;
    // Checked on the open file, because a directory in between may have become a link meanwhile.
    let real = fs::metadata(within(folder, &path)?)?;
    if sys::identity(&file.metadata()?) != sys::identity(&real) {
        return Err(wrong(io::ErrorKind::InvalidInput, &path, "changed while it was opened"));
    }
    Ok(file)
}

/// The real location of `path`. Fails if links lead out of `folder`.
pub fn within(folder: &Path, path: &Path) -> io::Result<PathBuf> {
    let (root, real) = (fs::canonicalize(folder)?, fs::canonicalize(path)?);
    if real.starts_with(&root) {
        return Ok(real);
    }
    let what = format!("is a link that leads out of {}, to {}", folder.display(), real.display());
    Err(wrong(io::ErrorKind::InvalidInput, path, &what))
}

fn irregular(path: &Path, kind: FileType) -> io::Error {
    let what = format!("is {}, not a regular file", describe(kind));
    wrong(io::ErrorKind::InvalidInput, path, &what)
}

/// An error that names the file but not its directory, which the caller's error names.
fn wrong(kind: io::ErrorKind, path: &Path, what: &str) -> io::Error {
    let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy();
    io::Error::new(kind, format!("`{name}` {what}"))
}

#[cfg(unix)]
fn describe(kind: FileType) -> &'static str {
    use std::os::unix::fs::FileTypeExt as _;
    match kind {
        kind if kind.is_fifo() => "a FIFO",
        kind if kind.is_socket() => "a socket",
        kind if kind.is_block_device() || kind.is_char_device() => "a device",
        kind if kind.is_dir() => "a directory",
        kind if kind.is_symlink() => "a link",
        _ => "something else",
    }
}

#[cfg(not(unix))]
fn describe(kind: FileType) -> &'static str {
    match kind {
        kind if kind.is_dir() => "a directory",
        kind if kind.is_symlink() => "a link",
        _ => "something else",
    }
}

#[cfg(all(test, unix))]
#[allow(clippy::unwrap_used, reason = "in tests a panic is the message")]
mod tests {
    use std::os::unix::{fs::symlink, net::UnixListener};

    use super::*;

    #[track_caller]
    fn expect(read: io::Result<Vec<u8>>, words: &str) {
        let error = read.unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    }

    #[test]
    fn only_regular_files_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let fifo = std::process::Command::new("mkfifo").arg(path("fifo")).status().unwrap();
        assert!(fifo.success());
        let _socket = UnixListener::bind(path("socket")).unwrap();
        expect(read(&path("fifo"), 10), "`fifo` is a FIFO, not a regular file");
        expect(read(&path("socket"), 10), "`socket` is a socket, not a regular file");
        expect(read(folder.path(), 10), "is a directory, not a regular file");
        expect(read(Path::new("/dev/zero"), 10), "`zero` is a device, not a regular file");
        let gone = read(&path("gone"), 10).unwrap_err();
        assert_eq!(gone.kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn file_is_read_up_to_its_limit() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        fs::write(&path, "12345").unwrap();
        assert_eq!(read(&path, 5).unwrap(), b"12345");
        expect(read(&path, 4), "`file` exceeds the limit of 4 bytes");
        // Files in `/proc` report the size 0.
        expect(read(Path::new("/proc/self/status"), 10), "exceeds the limit of 10 bytes");
    }

    #[test]
    fn link_is_followed_within_its_directory_only() {
        let folder = tempfile::tempdir().unwrap();
        let (flow, other) = (folder.path().join("flow"), folder.path().join("flow-2"));
        for folder in [&flow, &other] {
            fs::create_dir(folder).unwrap();
            fs::write(folder.join("A"), "a").unwrap();
        }
        symlink("A", flow.join("inside")).unwrap();
        symlink("../flow-2/A", flow.join("outside")).unwrap();
        symlink("outside", flow.join("twice")).unwrap();
        symlink("twice2", flow.join("twice2")).unwrap();
        assert_eq!(read_in(&flow, "inside", 10).unwrap(), b"a");
        expect(read_in(&flow, "outside", 10), "`outside` is a link that leads out of");
        expect(read_in(&flow, "twice", 10), "`twice` is a link that leads out of");
        assert!(read_in(&flow, "twice2", 10).is_err(), "a link to itself");
        // The directory itself may be reached through a link.
        symlink(&flow, folder.path().join("way")).unwrap();
        assert_eq!(read_in(&folder.path().join("way"), "inside", 10).unwrap(), b"a");
    }
}
