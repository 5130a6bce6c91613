//! Packs a directory into an archive, reproducibly.

use std::{
    collections::BTreeMap,
    fs,
    io::{self, Cursor, Write as _},
    path::{Path, PathBuf},
};

use raymond_flow::{
    one_file::{self, WriteError},
    scope::workflow_folders,
};
use thiserror::Error;
use zip::{CompressionMethod, DateTime, ZipWriter, result::ZipError, write::SimpleFileOptions};

use super::{
    ArchiveError,
    archive::{
        self, ARCHIVE_BYTES_MAX, FILE_BYTES_MAX, FILES_MAX, TESTS, TOTAL_BYTES_MAX, is_passed_over,
    },
    source::{is_packed, is_yaml, list_folder},
};
use crate::trust::regular;

/// Why a directory cannot be packed.
#[derive(Debug, Error)]
pub enum PackError {
    /// A file or the directory cannot be read.
    #[error("cannot read {}", path.display())]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// There is nothing to pack.
    #[error("{} has no files of a workflow", path.display())]
    Empty {
        /// The directory.
        path: PathBuf,
    },
    /// More files than an archive may have.
    #[error("{} has more than {FILES_MAX} files", path.display())]
    TooMany {
        /// The directory.
        path: PathBuf,
    },
    /// More bytes than an archive may have.
    #[error("{} makes the archive larger than the limit of {limit} bytes", path.display())]
    TooLarge {
        /// The file that exceeds the limit.
        path: PathBuf,
        /// The limit in bytes.
        limit: u64,
    },
    /// A file that YAML cannot carry.
    #[error("{} cannot be packed into one file", path.display())]
    Yaml {
        /// The directory.
        path: PathBuf,
        /// The file and the reason.
        source: WriteError,
    },
    /// A name that neither an archive nor YAML can carry.
    #[error("the name of {} is not valid UTF-8", path.display())]
    Name {
        /// The file or directory.
        path: PathBuf,
    },
    /// A folder that a packed workflow cannot have.
    #[error("{} is neither a subworkflow nor the tests of one, so it cannot be packed", path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
    },
    /// YAML has no modes.
    #[error("{} is executable, which YAML cannot carry", path.display())]
    Executable {
        /// The file.
        path: PathBuf,
    },
    /// What is packed would not be unpacked as the same workflow.
    #[error("{} is not a workflow", path.display())]
    Layout {
        /// The archive.
        path: PathBuf,
        /// The rule that it breaks.
        source: ArchiveError,
    },
    /// The archive could not be written.
    #[error("cannot write the archive")]
    Zip(#[from] ZipError),
}

/// Packs the workflow in `folder`, its subworkflows and their `tests` into a zip archive. Hidden files and the
/// files of file managers are left out.
///
/// The result is reproducible byte for byte: files are sorted by name, have the same time and mode,
/// and are stored uncompressed, because compressed bytes change with the version of the compressor.
pub fn pack(folder: &Path) -> Result<Vec<u8>, PackError> {
    zipped(packed_files(folder)?)
}

/// The workflow at `scope` as a zip archive: a directory is packed, a YAML file becomes what its directory would be
/// packed into, and an archive stays as it is.
pub fn bundle(scope: &Path) -> Result<Vec<u8>, PackError> {
    if !is_packed(scope) {
        return pack(scope);
    }
    if is_yaml(scope) {
        let wrong = |source| PackError::Layout { path: scope.to_owned(), source };
        return zipped(archive::read_all(scope).map_err(wrong)?);
    }
    let io = |source| PackError::Io { path: scope.to_owned(), source };
    regular::read_linked(scope, ARCHIVE_BYTES_MAX).map_err(io)
}

fn zipped(files: BTreeMap<String, Vec<u8>>) -> Result<Vec<u8>, PackError> {
    let options = SimpleFileOptions::default()
        .compression_method(CompressionMethod::Stored)
        .last_modified_time(DateTime::default())
        .unix_permissions(0o644);
    let mut archive = ZipWriter::new(Cursor::new(Vec::new()));
    for (name, bytes) in files {
        archive.start_file(name, options)?;
        archive.write_all(&bytes).map_err(ZipError::from)?;
    }
    Ok(archive.finish()?.into_inner())
}

/// Packs the same files into one YAML file, reproducibly, too. What YAML cannot carry is refused: bytes that are
/// not text, and the mode of a program that lies beside the states. (A state is run by its shell, whatever its mode.)
pub fn pack_yaml(folder: &Path) -> Result<String, PackError> {
    let files = packed_files(folder)?;
    for name in files.keys() {
        let path = folder.join(name);
        if !super::files::is_state(name) && is_executable(&path) {
            return Err(PackError::Executable { path });
        }
    }
    one_file::write(&files).map_err(|source| PackError::Yaml { path: folder.to_owned(), source })
}

/// Writes the files of an archive or a one-file workflow, also its tests, into the new directory `folder`.
pub fn unpack(archive: &Path, folder: &Path) -> Result<(), PackError> {
    let wrong = |source| PackError::Layout { path: archive.to_owned(), source };
    let files = archive::read_all(archive).map_err(wrong)?;
    let io = |source| PackError::Io { path: folder.to_owned(), source };
    fs::create_dir(folder).map_err(io)?;
    for (name, bytes) in files {
        let path = folder.join(name);
        let parent = path.parent().unwrap_or(folder);
        let written = fs::create_dir_all(parent).and_then(|()| fs::write(&path, bytes));
        written.map_err(|source| PackError::Io { path, source })?;
    }
    Ok(())
}

#[cfg(unix)]
fn is_executable(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    fs::metadata(path).is_ok_and(|metadata| metadata.permissions().mode() & 0o111 != 0)
}

#[cfg(not(unix))]
fn is_executable(_: &Path) -> bool {
    false
}

/// The files that are packed, by name.
fn packed_files(folder: &Path) -> Result<BTreeMap<String, Vec<u8>>, PackError> {
    let io = |path: &Path| {
        let path = path.to_owned();
        move |source| PackError::Io { path, source }
    };
    let names = packed_names(folder)?;
    if names.len() > FILES_MAX {
        return Err(PackError::TooMany { path: folder.to_owned() });
    }
    let mut files = BTreeMap::new();
    let mut total = 0;
    for name in names {
        let path = folder.join(&name);
        let bytes = regular::read_in(folder, &name, FILE_BYTES_MAX).map_err(io(&path))?;
        total += bytes.len() as u64;
        if total > TOTAL_BYTES_MAX {
            return Err(PackError::TooLarge { path, limit: TOTAL_BYTES_MAX });
        }
        files.insert(name, bytes);
    }
    if files.is_empty() {
        return Err(PackError::Empty { path: folder.to_owned() });
    }
    // What is packed here must be read everywhere.
    let wrong = |source| PackError::Layout { path: folder.to_owned(), source };
    archive::check_layout(&files, "").map_err(wrong)?;
    Ok(files)
}

/// The files of the workflow in `folder` that are packed: those of each of its folders, and their tests.
fn packed_names(folder: &Path) -> Result<Vec<String>, PackError> {
    let list = |inner: &str| {
        let path = folder.join(inner);
        list_folder(&path).map_err(|source| PackError::Io { path, source })
    };
    let is_kept = |name: &&str| !name.starts_with('.') && !is_passed_over(name);
    let mut names = Vec::new();
    let workflows = workflow_folders(list)?;
    let is_workflow = |path: &str| workflows.iter().any(|(inner, _)| inner == path);
    for (inner, listing) in workflows.clone() {
        let tests = format!("{inner}{TESTS}");
        let mut folders = vec![(&inner, listing)];
        if folders[0].1.contains(TESTS) {
            folders.push((&tests, list(&tests)?));
        }
        for (path, listing) in folders {
            check_entries(&folder.join(path))?;
            // A workflow without some of its files is not the one that was meant to be packed.
            let inner = listing.folders().filter(is_kept).map(|name| format!("{path}{name}"));
            if let Some(plain) =
                inner.filter(|path| !is_workflow(path)).find(|path| has_files(&folder.join(path)))
            {
                return Err(PackError::Folder { path: folder.join(plain) });
            }
            names.extend(listing.names().filter(is_kept).map(|name| format!("{path}{name}")));
        }
    }
    Ok(names)
}

fn has_files(folder: &Path) -> bool {
    fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_some())
}

/// Refuses what a listing leaves out: names that are not UTF-8, and links to folders. The packed workflow would have fewer
/// files than the directory, and nobody would know.
fn check_entries(folder: &Path) -> Result<(), PackError> {
    let io = |source| PackError::Io { path: folder.to_owned(), source };
    for entry in fs::read_dir(folder).map_err(io)? {
        let entry = entry.map_err(io)?;
        let (name, path) = (entry.file_name(), entry.path());
        if name.as_encoded_bytes().starts_with(b".") {
            continue;
        }
        if name.to_str().is_none() {
            return Err(PackError::Name { path });
        }
        if path.is_symlink() && path.is_dir() {
            return Err(PackError::Folder { path });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(files: &[(&str, &[u8])]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (name, bytes) in files {
            fs::write(folder.path().join(name), bytes).unwrap();
        }
        folder
    }

    #[test]
    fn pack_gives_the_same_bytes_whatever_the_order_the_times_and_the_modes() {
        let files: [(&str, &[u8]); 2] = [("A.md", b"a"), ("B.sh", b"b")];
        let one = folder(&files);
        let other = folder(&[files[1], files[0]]);
        let old = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000_000);
        let file = fs::File::options().append(true).open(other.path().join("B.sh")).unwrap();
        file.set_modified(old).unwrap();
        let mut mode = file.metadata().unwrap().permissions();
        mode.set_readonly(true);
        file.set_permissions(mode).unwrap();
        assert_eq!(pack(one.path()).unwrap(), pack(other.path()).unwrap());
    }

    #[test]
    fn pack_is_read_back_as_the_files_that_are_not_hidden() {
        let folder = folder(&[
            ("A.md", b"a"),
            ("data.bin", &[0, 255]),
            (".secret", b"x"),
            ("Thumbs.db", b"x"),
        ]);
        fs::create_dir(folder.path().join("sub")).unwrap();
        let path = folder.path().join("flow.zip");
        let bytes = pack(folder.path()).unwrap();
        fs::write(&path, bytes).unwrap();
        let files = super::super::archive::read(&path).unwrap();
        let names: Vec<_> = files.keys().map(String::as_str).collect();
        assert_eq!(names, ["A.md", "data.bin"]);
        assert_eq!(files["data.bin"], [0, 255]);
    }

    #[test]
    fn pack_keeps_the_tests_and_a_run_does_not_see_them() {
        let folder = folder(&[("A.md", b"a")]);
        fs::create_dir_all(folder.path().join("tests/deeper")).unwrap();
        for (name, text) in [("main.yaml", "x"), ("main.snapshot", "y"), (".swp", "z")] {
            fs::write(folder.path().join("tests").join(name), text).unwrap();
        }
        let path = folder.path().join("flow.zip");
        fs::write(&path, pack(folder.path()).unwrap()).unwrap();
        let names: Vec<_> = super::super::archive::read(&path).unwrap().into_keys().collect();
        assert_eq!(names, ["A.md"]);
        let out = tempfile::tempdir().unwrap();
        super::super::extract_with_tests(&path, out.path()).unwrap();
        let tests = out.path().join("tests");
        assert_eq!(fs::read_dir(&tests).unwrap().count(), 2);
        assert_eq!(fs::read_to_string(tests.join("main.yaml")).unwrap(), "x");
    }

    #[test]
    fn folder_that_a_packed_workflow_cannot_have_is_not_left_out_in_silence() {
        for plain in ["docs", "review/data", "tests/inputs"] {
            let folder = folder(&[("START.md", b"a")]);
            fs::create_dir_all(folder.path().join("review")).unwrap();
            fs::write(folder.path().join("review/START.md"), "x").unwrap();
            fs::create_dir_all(folder.path().join(plain)).unwrap();
            assert!(pack(folder.path()).is_ok(), "{plain} is empty");
            fs::write(folder.path().join(plain).join("a.txt"), "x").unwrap();
            for packed in [pack(folder.path()).map(drop), pack_yaml(folder.path()).map(drop)] {
                let PackError::Folder { path } = packed.unwrap_err() else { panic!() };
                assert_eq!(path, folder.path().join(plain).join(""));
            }
        }
    }

    #[cfg(unix)]
    #[test]
    fn link_to_a_folder_is_not_left_out_in_silence() {
        let folder = folder(&[("START.md", b"a")]);
        std::os::unix::fs::symlink(".", folder.path().join(".hidden")).unwrap();
        assert!(pack(folder.path()).is_ok());
        let (other, link) = (tempfile::tempdir().unwrap(), folder.path().join("review"));
        std::os::unix::fs::symlink(other.path(), &link).unwrap();
        let PackError::Folder { path } = pack(folder.path()).unwrap_err() else { panic!() };
        assert_eq!(path, link);
    }

    #[test]
    fn name_that_windows_cannot_hold_is_not_packed() {
        for name in
            ["con.md", "Aux", "COM1.tar.gz", "lpt².md", "CONOUT$", "a?.md", "end.", "two\nlines.md"]
        {
            let folder = folder(&[("START.md", b"a"), (name, b"x")]);
            let PackError::Layout { source, .. } = pack(folder.path()).unwrap_err() else {
                panic!()
            };
            assert!(matches!(source, ArchiveError::NotPortable { .. }), "{name}: {source}");
        }
        let folder = folder(&[("START.md", b"a"), ("console.md", b"x"), ("COM.md", b"x")]);
        assert!(pack(folder.path()).is_ok());
    }

    #[test]
    fn pack_keeps_subworkflows_with_their_tests_and_no_hidden_directory() {
        let folder = folder(&[("START.md", b"a")]);
        for name in
            ["review/START.md", "review/data.txt", "review/deep/1_START.sh", "review/tests/a.yaml"]
                .into_iter()
                .chain([".git/START.md", "review/.x/START.md"])
        {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, name).unwrap();
        }
        let path = folder.path().join("flow.zip");
        fs::write(&path, pack(folder.path()).unwrap()).unwrap();
        let names: Vec<_> = super::super::archive::read(&path).unwrap().into_keys().collect();
        let kept = ["START.md", "review/START.md", "review/data.txt", "review/deep/1_START.sh"];
        assert_eq!(names, kept);
        let out = tempfile::tempdir().unwrap();
        super::super::extract_with_tests(&path, out.path()).unwrap();
        assert_eq!(
            fs::read_to_string(out.path().join("review/tests/a.yaml")).unwrap(),
            "review/tests/a.yaml"
        );
        fs::remove_file(&path).unwrap();
        assert_eq!(pack(out.path()).unwrap(), pack(folder.path()).unwrap(), "no more and no less");
    }

    #[test]
    fn pack_refuses_what_start_would_refuse() {
        let size = usize::try_from(FILE_BYTES_MAX).unwrap() + 1;
        let folder = folder(&[("A.md", &vec![b'x'; size])]);
        let Err(PackError::Io { path, source }) = pack(folder.path()) else { panic!() };
        assert_eq!(path, folder.path().join("A.md"));
        assert_eq!(source.kind(), io::ErrorKind::FileTooLarge);
    }

    #[test]
    fn what_could_not_be_read_again_is_not_packed() {
        let folder = folder(&[("START.md", b"a")]);
        for name in ["review", "Review"] {
            fs::create_dir_all(folder.path().join(name)).unwrap();
            fs::write(folder.path().join(name).join("START.md"), "x").unwrap();
        }
        // On a file system without case they are one.
        if fs::read_dir(folder.path()).unwrap().count() == 3 {
            for packed in [pack(folder.path()).map(drop), pack_yaml(folder.path()).map(drop)] {
                let PackError::Layout { source, .. } = packed.unwrap_err() else { panic!() };
                assert!(source.to_string().ends_with("differ only in case"), "{source}");
            }
        }
        let empty = tempfile::tempdir().unwrap();
        fs::write(empty.path().join(".hidden"), "x").unwrap();
        assert!(matches!(pack(empty.path()), Err(PackError::Empty { .. })));
    }
}
