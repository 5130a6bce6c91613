//! Reading files that others have written: regular files only, and no more of them than a limit.
//!
//! A FIFO blocks whoever opens it, deaf to every signal; a device may never end; a link may lead
//! anywhere. Whatever comes from a workflow, a user or a step is therefore opened here.

use std::{
    fs::{self, File, FileType},
    io::{self, Read as _},
    path::{Path, PathBuf},
};

/// Opens the regular file at `path` for reading, without waiting for anybody.
pub fn open(path: &Path) -> io::Result<File> {
    let mut options = File::options();
    options.read(true);
    // A FIFO opens at once then, and a terminal does not become ours. Regular files do not care.
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::custom_flags(
        &mut options,
        libc::O_NONBLOCK | libc::O_NOCTTY,
    );
    // A socket cannot be opened at all, and that error says less.
    let file = options.open(path).map_err(|error| match fs::metadata(path) {
        Ok(metadata) if !metadata.is_file() => irregular(path, metadata.file_type()),
        _ => error,
    })?;
    let kind = file.metadata()?.file_type();
    if kind.is_file() { Ok(file) } else { Err(irregular(path, kind)) }
}

/// The bytes of the regular file at `path`, if there are at most `bytes_max`.
pub fn read(path: &Path, bytes_max: u64) -> io::Result<Vec<u8>> {
    bytes_of(&open(path)?, path, bytes_max)
}

/// The bytes of the open `file`, which is called `path`, if there are at most `bytes_max`.
fn bytes_of(file: &File, path: &Path, bytes_max: u64) -> io::Result<Vec<u8>> {
    let too_large = || {
        let what = format!("is larger than the {bytes_max} bytes that are allowed");
        wrong(io::ErrorKind::FileTooLarge, path, &what)
    };
    let size = file.metadata()?.len();
    if size > bytes_max {
        return Err(too_large());
    }
    // It may grow while it is read.
    let mut bytes = Vec::with_capacity(usize::try_from(size).unwrap_or_default());
    file.take(bytes_max + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > bytes_max { Err(too_large()) } else { Ok(bytes) }
}

/// The same as text.
pub fn read_text(path: &Path, bytes_max: u64) -> io::Result<String> {
    text_of(&open(path)?, path, bytes_max)
}

/// The text of a file that [`open`] has opened, for those who must look at it first.
pub fn text_of(file: &File, path: &Path, bytes_max: u64) -> io::Result<String> {
    String::from_utf8(bytes_of(file, path, bytes_max)?)
        .map_err(|_| wrong(io::ErrorKind::InvalidData, path, "is not valid UTF-8"))
}

/// The bytes of the file `name` in `folder`. If it is a link, it must lead to a place in `folder`.
pub fn read_in(folder: &Path, name: &str, bytes_max: u64) -> io::Result<Vec<u8>> {
    let path = folder.join(name);
    if fs::symlink_metadata(&path)?.is_symlink() {
        return read(&within(folder, &path)?, bytes_max);
    }
    read(&path, bytes_max)
}

/// Where `path` really lies, if that is in `folder`: no link on the way leads out of it.
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

/// An error that names the file; whoever tells it knows the folder.
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
        kind if kind.is_dir() => "a folder",
        _ => "something else",
    }
}

#[cfg(not(unix))]
fn describe(kind: FileType) -> &'static str {
    if kind.is_dir() { "a folder" } else { "something else" }
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
        expect(read(folder.path(), 10), "is a folder, not a regular file");
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
        expect(read(&path, 4), "`file` is larger than the 4 bytes that are allowed");
        // Files of the kernel do not tell their size.
        expect(read(Path::new("/proc/self/status"), 10), "larger than the 10 bytes");
    }

    #[test]
    fn link_is_followed_within_its_folder_only() {
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
        // A folder that is itself reached by a link is that folder.
        symlink(&flow, folder.path().join("way")).unwrap();
        assert_eq!(read_in(&folder.path().join("way"), "inside", 10).unwrap(), b"a");
    }
}
