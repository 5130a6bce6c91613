//! Sessions of coding agents on their way from worker to worker: their files go to the store after a turn, and to where
//! the coding agent looks for them before the next one.
//!
//! A file is stored in chunks, each under its hash. Transcripts only grow, so a turn stores the chunks that are new. What a
//! worker has already, it does not fetch.

use std::{
    fs, io,
    path::{Component, Path, PathBuf},
};

use raymond_engine::{
    exec::host::SessionPlace,
    trust::{private, regular},
};
use serde::{Deserialize, Serialize};

use crate::store::{Store, StoreError, hash};

/// The size of a chunk.
const CHUNK_BYTES: usize = 256 * 1024;
/// The largest file of a session: a transcript of some 30,000 turns.
const FILE_BYTES_MAX: u64 = 256 * 1024 * 1024;
/// The most files of a session, and the most directories in each other.
const FILES_MAX: usize = 2000;
const DEPTH_MAX: usize = 8;

/// Why a session cannot travel.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SessionError {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A file of it cannot be read or written.
    #[error("a file of a session, {}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It has too many files, or a file that is too large.
    #[error(
        "the session at {} has more than {FILES_MAX} files, or one of more than {FILE_BYTES_MAX} bytes",
        path.display()
    )]
    TooLarge {
        /// Where.
        path: PathBuf,
    },
    /// The list of its files is not one.
    #[error("the files of a session in the store cannot be read: {0}")]
    Json(#[from] serde_json::Error),
    /// A stored file has no place on this machine.
    #[error(
        "the session has a file `{name}`, for which this worker has no place: are the versions of the workers the same?"
    )]
    NoPlace {
        /// Its name.
        name: String,
    },
}

/// A stored session.
#[derive(Debug, Serialize, Deserialize)]
struct Stored {
    files: Vec<StoredFile>,
}

/// A stored file.
#[derive(Debug, Serialize, Deserialize)]
struct StoredFile {
    /// The name of the part of the session, and the path in it if that is a directory.
    name: String,
    bytes: u64,
    /// The hashes of its chunks.
    chunks: Vec<String>,
}

/// Stores the files of a session. Returns the hash of their list; `None` if there are none.
pub(crate) async fn put(
    store: &Store,
    place: &SessionPlace,
) -> Result<Option<String>, SessionError> {
    let mut files = Vec::new();
    for part in &place.parts {
        find(&part.path, &part.name, DEPTH_MAX, &mut files)?;
    }
    if files.is_empty() {
        return Ok(None);
    }
    let mut stored = Stored { files: Vec::new() };
    for (name, path) in files {
        let bytes = read(&path)?;
        let mut chunks = Vec::new();
        for chunk in bytes.chunks(CHUNK_BYTES) {
            chunks.push(store.put(chunk.to_vec()).await?);
        }
        stored.files.push(StoredFile { name, bytes: bytes.len() as u64, chunks });
    }
    Ok(Some(store.put(serde_json::to_vec(&stored)?).await?))
}

/// Puts the files whose list has this hash to where the coding agent looks for them. A file that begins with what is stored
/// stays: its end is from a turn that was cut off on this very worker, and whoever repeats that turn looks at it.
pub(crate) async fn put_back(
    store: &Store,
    place: &SessionPlace,
    hash: &str,
) -> Result<(), SessionError> {
    let stored: Stored = serde_json::from_slice(&store.get(hash).await?)?;
    for file in &stored.files {
        let path = path_of(place, &file.name)?;
        let local = if path.exists() { read(&path)? } else { Vec::new() };
        if path.exists() && begins_with(&local, file) {
            continue;
        }
        let bytes = fetch(store, &local, file).await?;
        write(&path, &bytes).map_err(|source| SessionError::Io { path, source })?;
    }
    Ok(())
}

/// Whether these bytes begin with a stored file.
fn begins_with(local: &[u8], file: &StoredFile) -> bool {
    let bytes = usize::try_from(file.bytes).unwrap_or(usize::MAX);
    local
        .get(..bytes)
        .is_some_and(|local| local.chunks(CHUNK_BYTES).map(hash).eq(file.chunks.iter().cloned()))
}

/// The bytes of a stored file. Chunks that `local` has at the same place are not fetched.
async fn fetch(store: &Store, local: &[u8], file: &StoredFile) -> Result<Vec<u8>, SessionError> {
    let mut here = local.chunks(CHUNK_BYTES);
    let mut bytes = Vec::new();
    for wanted in &file.chunks {
        match here.next().filter(|chunk| hash(chunk) == *wanted) {
            Some(chunk) => bytes.extend_from_slice(chunk),
            None => bytes.extend(store.get(wanted).await?),
        }
    }
    Ok(bytes)
}

/// Finds the files at `path`, which has this name. Links are not followed.
fn find(
    path: &Path,
    name: &str,
    depth: usize,
    found: &mut Vec<(String, PathBuf)>,
) -> Result<(), SessionError> {
    let io = |source| SessionError::Io { path: path.to_owned(), source };
    let (kind, bytes) = match path.symlink_metadata() {
        Ok(metadata) => (metadata.file_type(), metadata.len()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(io(error)),
    };
    if kind.is_file() {
        found.push((name.to_owned(), path.to_owned()));
    } else if kind.is_dir() && depth > 0 {
        let entries: Result<Vec<_>, _> = fs::read_dir(path).map_err(io)?.collect();
        let mut names: Vec<_> = entries.map_err(io)?.iter().map(fs::DirEntry::file_name).collect();
        // The same order on every machine, so that the same files have the same list.
        names.sort_unstable();
        for own in names.iter().filter_map(|own| own.to_str()) {
            find(&path.join(own), &format!("{name}/{own}"), depth - 1, found)?;
        }
    }
    let is_too_large = found.len() > FILES_MAX || (kind.is_file() && bytes > FILE_BYTES_MAX);
    if is_too_large { Err(SessionError::TooLarge { path: path.to_owned() }) } else { Ok(()) }
}

/// Where the stored file with this name belongs on this machine.
fn path_of(place: &SessionPlace, name: &str) -> Result<PathBuf, SessionError> {
    let no_place = || SessionError::NoPlace { name: name.to_owned() };
    let (part, inside) = name.split_once('/').unwrap_or((name, ""));
    let part = place.parts.iter().find(|own| own.name == part).ok_or_else(no_place)?;
    let mut path = part.path.clone();
    for component in Path::new(inside).components() {
        let Component::Normal(own) = component else { return Err(no_place()) };
        path.push(own);
    }
    Ok(path)
}

fn read(path: &Path) -> Result<Vec<u8>, SessionError> {
    regular::read(path, FILE_BYTES_MAX)
        .map_err(|source| SessionError::Io { path: path.to_owned(), source })
}

/// Replaces a file as a whole.
fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let folder = path.parent().ok_or(io::ErrorKind::NotFound)?;
    private::create_dir_all(folder)?;
    let part = tempfile::NamedTempFile::new_in(folder)?;
    fs::write(part.path(), bytes)?;
    part.persist(path).map(drop).map_err(|error| error.error)
}

#[cfg(test)]
mod tests {
    use raymond_engine::agent::SessionPart;
    use raymond_flow::id::SessionId;

    use super::*;
    use crate::cipher::Cipher;

    /// A store, and the places of one session in two homes.
    struct Homes {
        folder: tempfile::TempDir,
        store: Store,
    }

    impl Homes {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let store = Store::open(
                &format!("file://{}/store", folder.path().display()),
                Cipher::default(),
            )
            .unwrap();
            Self { folder, store }
        }

        fn place(&self, home: &str) -> SessionPlace {
            let home = self.folder.path().join(home);
            let part = |(name, path): (&str, &str)| SessionPart {
                name: name.to_owned(),
                path: home.join(path),
            };
            let parts = [("transcript.jsonl", "p/s.jsonl"), ("session", "p/s")].map(part).to_vec();
            SessionPlace { session: SessionId::new("s"), parts }
        }

        fn file(&self, name: &str) -> PathBuf {
            self.folder.path().join(name)
        }

        fn write(&self, name: &str, text: &[u8]) {
            fs::create_dir_all(self.file(name).parent().unwrap()).unwrap();
            fs::write(self.file(name), text).unwrap();
        }

        fn objects(&self) -> usize {
            fs::read_dir(self.file("store")).unwrap().count()
        }
    }

    #[tokio::test]
    async fn session_moves_with_all_its_files_and_a_longer_one_stores_only_what_is_new() {
        let homes = Homes::new();
        assert_eq!(put(&homes.store, &homes.place("one")).await.unwrap(), None);
        let mut long: Vec<u8> =
            (0..60_000_u32).flat_map(|at| format!("{at} of a turn\n").into_bytes()).collect();
        assert!(long.len() > CHUNK_BYTES * 3);
        homes.write("one/p/s.jsonl", &long);
        homes.write("one/p/s/subagents/a.jsonl", b"sub");
        let first = put(&homes.store, &homes.place("one")).await.unwrap().unwrap();
        put_back(&homes.store, &homes.place("two"), &first).await.unwrap();
        assert_eq!(fs::read(homes.file("two/p/s.jsonl")).unwrap(), long);
        assert_eq!(fs::read(homes.file("two/p/s/subagents/a.jsonl")).unwrap(), b"sub");
        let before = homes.objects();
        long.extend(b"more");
        homes.write("two/p/s.jsonl", &long);
        let second = put(&homes.store, &homes.place("two")).await.unwrap().unwrap();
        assert_eq!(homes.objects(), before + 2, "one chunk and the list");
        put_back(&homes.store, &homes.place("one"), &second).await.unwrap();
        assert_eq!(fs::read(homes.file("one/p/s.jsonl")).unwrap(), long);
    }

    #[tokio::test]
    async fn what_a_turn_that_was_cut_off_left_here_stays_and_another_version_does_not() {
        let homes = Homes::new();
        homes.write("one/p/s.jsonl", b"turn 1\n");
        let first = put(&homes.store, &homes.place("one")).await.unwrap().unwrap();
        homes.write("one/p/s.jsonl", b"turn 1\nhalf of turn 2");
        put_back(&homes.store, &homes.place("one"), &first).await.unwrap();
        assert_eq!(fs::read(homes.file("one/p/s.jsonl")).unwrap(), b"turn 1\nhalf of turn 2");
        homes.write("two/p/s.jsonl", b"turn 1\nturn 2, elsewhere\n");
        let second = put(&homes.store, &homes.place("two")).await.unwrap().unwrap();
        put_back(&homes.store, &homes.place("one"), &second).await.unwrap();
        assert_eq!(fs::read(homes.file("one/p/s.jsonl")).unwrap(), b"turn 1\nturn 2, elsewhere\n");
    }

    #[tokio::test]
    async fn session_with_a_file_that_is_too_large_does_not_travel() {
        let homes = Homes::new();
        homes.write("one/p/s.jsonl", b"");
        let file = fs::File::options().write(true).open(homes.file("one/p/s.jsonl")).unwrap();
        file.set_len(FILE_BYTES_MAX + 1).unwrap();
        let put = put(&homes.store, &homes.place("one")).await;
        assert!(matches!(put, Err(SessionError::TooLarge { .. })), "{put:?}");
    }

    #[tokio::test]
    async fn stored_file_that_would_lie_outside_of_the_session_is_refused() {
        let homes = Homes::new();
        for name in ["session/../../x", "other", "session//etc/x/.."] {
            let file = StoredFile { name: name.to_owned(), bytes: 0, chunks: Vec::new() };
            let list = serde_json::to_vec(&Stored { files: vec![file] }).unwrap();
            let list = homes.store.put(list).await.unwrap();
            let refused = put_back(&homes.store, &homes.place("one"), &list).await;
            assert!(matches!(refused, Err(SessionError::NoPlace { .. })), "{name}: {refused:?}");
        }
    }
}
