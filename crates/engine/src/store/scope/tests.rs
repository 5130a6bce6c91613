//! Paths that can be started as a workflow, and archives that must be rejected.

use std::{
    collections::BTreeMap,
    error::Error,
    fs,
    io::{self, Cursor, Write},
    path::PathBuf,
};

use raymond_flow::{
    coding_agent::{Capabilities, CodingAgents},
    id::StateName,
    scope::{EntryError, ResolveError},
    source::{Platform, StateKindError},
    world::World,
};
use tempfile::TempDir;
use zip::{CompressionMethod, ZipWriter, result::ZipError, write::SimpleFileOptions};

use super::{ArchiveError, DiskWorld, ScopeError, ScopeSource, archive};

const MIB: usize = 1024 * 1024;

/// A private directory for one test.
struct Place {
    _folder: TempDir,
    root: PathBuf,
}

impl Place {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(folder.path()).unwrap();
        Self { _folder: folder, root }
    }

    /// Writes a file, and creates its parent directories.
    fn write(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.root.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, bytes).unwrap();
        path
    }

    fn open(&self, name: &str) -> Result<ScopeSource, ScopeError> {
        ScopeSource::open(&self.root.join(name))
    }
}

type Writer = ZipWriter<Cursor<Vec<u8>>>;

fn stored() -> SimpleFileOptions {
    SimpleFileOptions::default().compression_method(CompressionMethod::Stored)
}

fn deflated() -> SimpleFileOptions {
    SimpleFileOptions::default().compression_method(CompressionMethod::Deflated)
}

fn zip(fill: impl FnOnce(&mut Writer)) -> Vec<u8> {
    let mut writer = ZipWriter::new(Cursor::new(Vec::new()));
    fill(&mut writer);
    writer.finish().unwrap().into_inner()
}

fn add(writer: &mut Writer, name: &str, bytes: &[u8]) {
    writer.start_file(name, stored()).unwrap();
    writer.write_all(bytes).unwrap();
}

/// An archive with files of these names; each holds its own name. A name that ends in `/` is a
/// directory.
fn zip_of(names: &[&str]) -> Vec<u8> {
    zip(|writer| {
        for name in names {
            match name.strip_suffix('/') {
                Some(folder) => writer.add_directory(folder, stored()).unwrap(),
                None => add(writer, name, name.as_bytes()),
            }
        }
    })
}

/// Replaces every occurrence of `old` by `new`, which has the same length.
fn patch(mut bytes: Vec<u8>, old: &[u8], new: &[u8]) -> Vec<u8> {
    assert_eq!(old.len(), new.len());
    let places: Vec<_> =
        (0..=bytes.len() - old.len()).filter(|at| bytes[*at..].starts_with(old)).collect();
    assert!(!places.is_empty(), "nothing to patch");
    for at in places {
        bytes[at..at + new.len()].copy_from_slice(new);
    }
    bytes
}

/// Where the headers of the entries begin, and how far into them a field lies: in the local header
/// and in the central directory.
fn headers(bytes: &[u8], local: usize, central: usize) -> Vec<usize> {
    let starts = |magic: &[u8]| {
        (0..bytes.len()).filter(|at| bytes[*at..].starts_with(magic)).collect::<Vec<_>>()
    };
    let local = starts(b"PK\x03\x04").into_iter().map(|at| at + local);
    let central = starts(b"PK\x01\x02").into_iter().map(|at| at + central);
    local.chain(central).collect()
}

/// The files of an archive as the scope has them.
fn read(bytes: &[u8]) -> Result<BTreeMap<String, Vec<u8>>, ArchiveError> {
    let place = Place::new();
    archive::read(&place.write("flow.zip", bytes))
}

#[track_caller]
fn expect_files(bytes: &[u8], expected: &[(&str, &str)]) {
    let files = read(bytes).unwrap();
    let files: Vec<_> =
        files.iter().map(|(name, text)| (&**name, std::str::from_utf8(text).unwrap())).collect();
    assert_eq!(files, expected);
}

/// Expects that an archive is rejected with these words, also when it is started as a workflow.
#[track_caller]
fn expect_refused(bytes: &[u8], message: &str) -> ArchiveError {
    let place = Place::new();
    let path = place.write("flow.zip", bytes);
    let error = place.open("flow.zip").unwrap_err();
    assert_eq!(error.to_string(), format!("{} is not a workflow", path.display()));
    assert_eq!(error.source().unwrap().to_string(), message);
    let private = place.root.join("private");
    let extracted =
        DiskWorld::open(&path, &private, CodingAgents::only(Capabilities::FULL)).unwrap_err();
    assert_eq!(extracted.source().unwrap().to_string(), message);
    assert!(!private.exists(), "nothing of it is unpacked");
    let ScopeError::Archive { path: refused, source } = error else {
        panic!("{error:?}");
    };
    assert_eq!(refused, path);
    source
}

#[track_caller]
fn expect_unsafe(bytes: &[u8], bad: &str) {
    let error = expect_refused(bytes, &format!("`{bad}` is not a safe file name"));
    assert!(matches!(&error, ArchiveError::UnsafeName { name } if name == bad), "{error:?}");
}

#[track_caller]
fn expect_nested(bytes: &[u8], bad: &str) {
    let message = format!(
        "`{bad}` is in a subdirectory without an entry state: put all state files at the top level, or all in one \
         directory; a subworkflow has an entry state of its own"
    );
    let error = expect_refused(bytes, &message);
    assert!(matches!(&error, ArchiveError::Nested { name } if name == bad), "{error:?}");
}

#[test]
fn flat_archive_is_a_scope() {
    expect_files(
        &zip_of(&["START.md", "NEXT.sh", "notes.txt"]),
        &[("NEXT.sh", "NEXT.sh"), ("START.md", "START.md"), ("notes.txt", "notes.txt")],
    );
}

#[test]
fn one_top_level_directory_is_the_scope() {
    let expected = [("NEXT.sh", "tidy/NEXT.sh"), ("START.md", "tidy/START.md")];
    expect_files(&zip_of(&["tidy/START.md", "tidy/NEXT.sh"]), &expected);
    expect_files(&zip_of(&["tidy/", "tidy/START.md", "tidy/NEXT.sh"]), &expected);
    expect_files(&zip_of(&["tidy/NEXT.sh", "tidy/START.md", "tidy/"]), &expected);
}

#[test]
fn compressed_files_are_read_whole() {
    let text = "do this, ".repeat(10_000);
    let bytes = zip(|writer| {
        writer.start_file("START.md", deflated()).unwrap();
        writer.write_all(text.as_bytes()).unwrap();
    });
    assert!(bytes.len() < text.len() / 10);
    expect_files(&bytes, &[("START.md", &text)]);
}

#[test]
fn names_that_are_not_ascii_are_kept() {
    expect_files(&zip_of(&["ÜBUNG.md"]), &[("ÜBUNG.md", "ÜBUNG.md")]);
}

#[test]
fn files_that_file_managers_add_are_passed_over() {
    let expected = [("NEXT.sh", "tidy/NEXT.sh"), ("START.md", "tidy/START.md")];
    // As Finder compresses a directory, and the files that Explorer leaves in one.
    let names = [
        "tidy/",
        "tidy/.DS_Store",
        "__MACOSX/",
        "__MACOSX/tidy/",
        "__MACOSX/tidy/._.DS_Store",
        "tidy/START.md",
        "__MACOSX/tidy/._START.md",
        "tidy/NEXT.sh",
        "tidy/._NEXT.sh",
        "tidy/Thumbs.db",
        "tidy/desktop.ini",
        "Desktop.ini",
        ".DS_Store",
        "__MACOSX/._tidy",
    ];
    expect_files(&zip_of(&names), &expected);
    // Without a top-level directory.
    let flat = ["START.md", ".DS_Store", "__MACOSX/._START.md", "._START.md", "thumbs.db"];
    expect_files(&zip_of(&flat), &[("START.md", "START.md")]);
    // They do not count towards the limit: each state has one beside it.
    let names: Vec<_> = (0..1_000).map(|n| [format!("{n}.md"), format!("._{n}.md")]).collect();
    let names: Vec<_> = names.iter().flatten().map(String::as_str).collect();
    assert_eq!(read(&zip_of(&names)).unwrap().len(), 1_000);
    // Names that only look like theirs are rejected like any other.
    expect_nested(&zip_of(&["START.md", "__MACOSX2/x.md"]), "__MACOSX2/x.md");
    expect_unsafe(&zip_of(&["START.md", "../.DS_Store"]), "../.DS_Store");
}

#[test]
fn nested_directory_is_refused() {
    expect_nested(&zip_of(&["a/b/NEXT.md"]), "a/b/NEXT.md");
    expect_nested(&zip_of(&["START.md", "a/START.md", "b/c/START.md"]), "b/c/START.md");
    expect_nested(&zip_of(&["a/START.md", "a/b/NEXT.md"]), "a/b/NEXT.md");
    expect_nested(&zip_of(&["a/", "a/b/", "a/START.md", "a/b/NEXT.md"]), "a/b/NEXT.md");
}

#[test]
fn file_beside_a_directory_is_refused() {
    expect_nested(&zip_of(&["START.md", "a/NEXT.md"]), "a/NEXT.md");
    expect_nested(&zip_of(&["a/NEXT.md", "z.md"]), "a/NEXT.md");
}

#[test]
fn two_directories_are_refused() {
    expect_nested(&zip_of(&["a/START.md", "b/NEXT.md"]), "b/NEXT.md");
    // One name is the beginning of the other.
    expect_nested(&zip_of(&["a/START.md", "ab/NEXT.md"]), "ab/NEXT.md");
}

#[test]
fn directories_with_an_entry_state_are_subworkflows() {
    let names = ["START.md", "review/START.md", "review/deep/1_START.sh", "review/tests/a.yaml"];
    let files = read(&zip_of(&names)).unwrap();
    assert_eq!(files.into_keys().collect::<Vec<_>>(), names[..3], "without the tests");
    let below = names.map(|name| format!("flow/{name}"));
    let below: Vec<_> = below.iter().map(String::as_str).collect();
    let files = read(&zip_of(&below)).unwrap();
    assert_eq!(files.into_keys().collect::<Vec<_>>(), names[..3]);
    let message = "`Review/` and `review/` differ only in case";
    expect_refused(&zip_of(&["START.md", "Review/START.md", "review/1_START.md"]), message);
    expect_refused(
        &zip_of(&["START.md", "review/START.md", "Review"]),
        "`Review` and `review/` differ only in case",
    );
}

#[test]
fn world_lists_and_reads_subworkflows_but_follows_no_link_to_a_directory() {
    let place = Place::new();
    for name in ["flow/START.md", "flow/review/START.md", "other/START.md"] {
        place.write(name, name);
    }
    let (flow, private) = (place.root.join("flow"), place.root.join("private"));
    let world = DiskWorld::open(&flow, &private, CodingAgents::only(Capabilities::FULL)).unwrap();
    assert_eq!(world.listing("").unwrap().folders().collect::<Vec<_>>(), ["review/"]);
    assert_eq!(world.listing("review/").unwrap().names().collect::<Vec<_>>(), ["START.md"]);
    assert_eq!(world.read("review/START.md").unwrap(), b"flow/review/START.md");
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink(place.root.join("other"), flow.join("out")).unwrap();
        assert_eq!(world.listing("").unwrap().folders().collect::<Vec<_>>(), ["review/"]);
        let error = world.read("out/START.md").unwrap_err().to_string();
        assert!(error.contains("out is not a directory of the workflow"), "{error}");
        assert!(world.listing("out/").is_err());
        assert!(matches!(super::pack(&flow), Err(super::PackError::Folder { .. })));
        // The folder of a state may become a link while a run is in it.
        fs::remove_dir_all(flow.join("review")).unwrap();
        std::os::unix::fs::symlink(place.root.join("other"), flow.join("review")).unwrap();
        assert!(world.read("review/START.md").is_err());
    }
    assert!(world.read("../other/START.md").is_err(), "never up");
}

#[test]
fn name_that_leads_out_of_the_archive_is_refused() {
    for bad in ["../x.md", "../../etc/passwd", "a/../../x.md", "a/..", "..", "flow/."] {
        expect_unsafe(&zip_of(&[bad]), bad);
    }
}

#[test]
fn name_that_goes_up_inside_the_archive_is_refused() {
    expect_nested(&zip_of(&["a/../START.md"]), "a/../START.md");
}

#[test]
fn name_with_a_backslash_a_colon_or_a_zero_is_refused() {
    for bad in ["a\\..\\b.md", "..\\x.md", "a\\b.md", "C:\\x.md", "C:x.md", "x.md:stream", "x\0.md"]
    {
        expect_unsafe(&zip_of(&["START.md", bad]), bad);
    }
}

#[test]
fn directory_that_leads_out_of_the_archive_is_refused() {
    let bytes = patch(zip_of(&["START.md", "aa/"]), b"aa/", b"../");
    expect_unsafe(&bytes, "../");
}

#[test]
fn absolute_name_is_refused() {
    expect_unsafe(&zip_of(&["/START.md"]), "/START.md");
    expect_unsafe(&zip_of(&["/etc/passwd"]), "/etc/passwd");
}

#[test]
fn absolute_name_beside_others_is_refused() {
    let error = read(&zip_of(&["START.md", "/abs.md"])).unwrap_err();
    assert!(
        matches!(&error, ArchiveError::UnsafeName { name } | ArchiveError::Nested { name } if name == "/abs.md"),
        "{error:?}"
    );
}

#[test]
fn symbolic_link_is_refused() {
    for target in ["/etc/passwd", "START.md"] {
        let bytes = zip(|writer| {
            add(writer, "START.md", b"x");
            writer.add_symlink("LINK.md", target, stored()).unwrap();
        });
        let error = expect_refused(&bytes, "`LINK.md` is a symbolic link");
        assert!(matches!(&error, ArchiveError::Symlink { name } if name == "LINK.md"), "{error:?}");
    }
}

#[test]
fn encrypted_file_is_refused() {
    // The flag is the lowest bit of the general purpose flags.
    let mut bytes = zip_of(&["START.md"]);
    for at in headers(&bytes, 6, 8) {
        bytes[at] |= 1;
    }
    let error = expect_refused(&bytes, "`START.md` is encrypted");
    assert!(matches!(&error, ArchiveError::Encrypted { name } if name == "START.md"), "{error:?}");
}

#[test]
fn two_files_of_one_name_are_refused() {
    let bytes = zip(|writer| {
        add(writer, "START.md", b"one");
        add(writer, "STARX.md", b"other");
    });
    let bytes = patch(bytes, b"STARX.md", b"START.md");
    let message = "it has two files with the same name";
    let error = expect_refused(&bytes, message);
    assert!(matches!(error, ArchiveError::DuplicateNames), "{error:?}");
}

#[test]
fn names_that_differ_only_in_case_are_refused() {
    let cases = [
        (["NEXT.md", "next.md"], ["NEXT.md", "next.md"]),
        (["a/Next.md", "a/NEXT.md"], ["NEXT.md", "Next.md"]),
        (["ÜBER.md", "über.md"], ["ÜBER.md", "über.md"]),
    ];
    for (names, [one, other]) in cases {
        let message = format!("`{one}` and `{other}` differ only in case");
        let error = expect_refused(&zip_of(&names), &message);
        assert!(
            matches!(&error, ArchiveError::Duplicate { first, second } if first == one && second == other),
            "{error:?}"
        );
    }
}

#[test]
fn more_than_a_thousand_files_are_refused() {
    let names: Vec<_> = (0..1_001).map(|number| format!("{number}.md")).collect();
    let names: Vec<_> = names.iter().map(String::as_str).collect();
    assert_eq!(read(&zip_of(&names[1..])).unwrap().len(), 1_000);
    let error = expect_refused(&zip_of(&names), "it has more than 1000 files");
    assert!(matches!(error, ArchiveError::TooMany), "{error:?}");
}

/// An archive of these files, each of so many zeros.
fn zip_of_sizes(sizes: &[(&str, usize)], options: SimpleFileOptions) -> Vec<u8> {
    zip(|writer| {
        for (name, size) in sizes {
            writer.start_file(*name, options).unwrap();
            writer.write_all(&vec![0; *size]).unwrap();
        }
    })
}

#[track_caller]
fn expect_too_large(bytes: &[u8], bad: &str, allowed: u64) {
    let message = format!("`{bad}` exceeds the limit of {allowed} bytes");
    let error = expect_refused(bytes, &message);
    assert!(
        matches!(&error, ArchiveError::TooLarge { name, limit } if name == bad && *limit == allowed),
        "{error:?}"
    );
}

#[test]
fn file_of_more_than_four_mebibytes_is_refused() {
    let files = read(&zip_of_sizes(&[("START.md", 4 * MIB)], stored())).unwrap();
    assert_eq!(files["START.md"].len(), 4 * MIB);
    let bytes = zip_of_sizes(&[("A.md", 1), ("B.md", 4 * MIB + 1)], stored());
    expect_too_large(&bytes, "B.md", 4_194_304);
}

/// Eight files that together are all that is allowed, and one of `last` bytes.
fn zip_of_all_that_is_allowed_and(last: usize) -> Vec<u8> {
    let names = ["1.md", "2.md", "3.md", "4.md", "5.md", "6.md", "7.md", "8.md"];
    let mut sizes = names.map(|name| (name, 4 * MIB)).to_vec();
    sizes.push(("9.md", last));
    zip_of_sizes(&sizes, stored())
}

#[test]
fn thirty_two_mebibytes_in_all_are_allowed_and_not_a_byte_more() {
    let files = read(&zip_of_all_that_is_allowed_and(0)).unwrap();
    assert_eq!(files.values().map(Vec::len).sum::<usize>(), 32 * MIB);
    let error = read(&zip_of_all_that_is_allowed_and(1)).unwrap_err();
    assert!(matches!(&error, ArchiveError::TooLarge { name, .. } if name == "9.md"), "{error:?}");
}

#[test]
fn total_that_is_too_large_is_reported_with_the_limit_of_the_total() {
    expect_too_large(&zip_of_all_that_is_allowed_and(1), "9.md", 33_554_432);
}

#[test]
fn bomb_is_read_up_to_the_limit_and_no_further() {
    let bytes = zip_of_sizes(&[("START.md", 32 * MIB)], deflated().compression_level(Some(1)));
    assert!(bytes.len() < MIB, "{} bytes", bytes.len());
    expect_too_large(&bytes, "START.md", 4_194_304);
    // Nothing after the limit was read, or the wrong checksum would be the error.
    let mut wrong = bytes;
    for at in headers(&wrong, 14, 16) {
        wrong[at] ^= 0xff;
    }
    expect_too_large(&wrong, "START.md", 4_194_304);
}

#[test]
fn size_that_an_archive_claims_is_not_trusted() {
    // The length before compression, as 32 bits in the last field before that of the name.
    let mut small = zip_of_sizes(&[("START.md", 8 * MIB)], deflated());
    for at in headers(&small, 22, 24) {
        small[at..at + 4].copy_from_slice(&10_u32.to_le_bytes());
    }
    let error = expect_refused(&small, "it cannot be read");
    assert!(matches!(error, ArchiveError::Io(_)), "{error:?}");
    // No buffer of four gigabytes is allocated.
    let mut huge = zip_of_sizes(&[("START.md", 10)], deflated());
    for at in headers(&huge, 22, 24) {
        huge[at..at + 4].copy_from_slice(&0xffff_fff0_u32.to_le_bytes());
    }
    assert_eq!(read(&huge).unwrap()["START.md"], [0; 10]);
}

#[test]
fn content_that_does_not_fit_its_checksum_is_refused() {
    let mut bytes = zip_of(&["START.md"]);
    for at in headers(&bytes, 14, 16) {
        bytes[at] ^= 0xff;
    }
    let error = expect_refused(&bytes, "it cannot be read");
    assert!(matches!(error, ArchiveError::Io(_)), "{error:?}");
}

#[test]
fn what_is_not_an_archive_is_refused() {
    for bytes in [&b""[..], b"hello", b"PK\x03\x04", &[0; 4096]] {
        let error = expect_refused(bytes, "it cannot be read as a zip archive");
        assert!(matches!(error, ArchiveError::Zip(ZipError::InvalidArchive(_))), "{error:?}");
    }
}

#[test]
fn archive_that_is_cut_anywhere_is_refused() {
    let whole = zip_of(&["START.md", "NEXT.sh"]);
    for length in 0..whole.len() {
        let error = read(&whole[..length]).unwrap_err();
        assert!(matches!(error, ArchiveError::Zip(_)), "cut at byte {length}: {error:?}");
    }
}

#[test]
fn archive_that_is_damaged_anywhere_gives_its_files_or_an_error() {
    let whole = zip_of(&["START.md", "NEXT.sh"]);
    let expected = read(&whole).unwrap();
    for at in 0..whole.len() {
        for mask in [0x01, 0x80, 0xff] {
            let mut bytes = whole.clone();
            bytes[at] ^= mask;
            // Names, dates and attributes have no checksum; contents do.
            if let Ok(files) = read(&bytes) {
                let known = |content: &Vec<u8>| expected.values().any(|known| known == content);
                assert!(files.values().all(known), "byte {at} ^ {mask:#x}: {files:?}");
            }
        }
    }
}

#[test]
fn empty_archive_has_no_entry_state() {
    let place = Place::new();
    let path = place.write("flow.zip", zip_of(&[]));
    assert_eq!(read(&fs::read(&path).unwrap()).unwrap(), BTreeMap::new());
    let none = EntryError::None { extension: ".sh", suggestion: None };
    expect_entry_error(&place, "flow.zip", &none);
    place.write("flow.zip", zip_of(&["only/"]));
    expect_entry_error(&place, "flow.zip", &none);
}

#[track_caller]
fn expect_entry_error(place: &Place, name: &str, expected: &EntryError) {
    let error = place.open(name).unwrap_err();
    let path = place.root.join(name);
    assert_eq!(error.to_string(), format!("{} cannot be started", path.display()));
    assert_eq!(error.source().unwrap().to_string(), expected.to_string());
    let ScopeError::Entry { path: found, source } = error else {
        panic!("{error:?}");
    };
    assert_eq!((found, &source), (path, expected));
}

/// A directory, a flat archive, and an archive with one top-level directory, all with the same files.
fn three_forms(names: &[&str]) -> Place {
    let place = Place::new();
    fs::create_dir(place.root.join("flow")).unwrap();
    for name in names {
        place.write(&format!("flow/{name}"), name);
    }
    place.write("flat.zip", zip_of(names));
    let inside: Vec<_> = names.iter().map(|name| format!("inside/{name}")).collect();
    let inside: Vec<_> = inside.iter().map(String::as_str).collect();
    place.write("deep.zip", zip_of(&inside));
    place
}

const FORMS: [(&str, &str); 3] = [("flow", "flow"), ("flat.zip", "flat"), ("deep.zip", "deep")];

#[test]
fn either_entry_name_starts_a_directory_or_an_archive() {
    for first in ["1_START.md", "1_START.sh", "START.md", "START.sh"] {
        let place = three_forms(&[first, "NEXT.md", "2_START.md", "START.bat"]);
        for (form, name) in FORMS {
            let expected = ScopeSource {
                path: place.root.join(form),
                entry: StateName::new(first),
                name: name.to_owned(),
            };
            assert_eq!(place.open(form).unwrap(), expected, "{first}");
        }
    }
}

#[test]
fn both_entry_names_are_refused() {
    let place = three_forms(&["1_START.md", "START.sh"]);
    let both = EntryError::Both {
        first: StateName::new("1_START.md"),
        second: StateName::new("START.sh"),
    };
    assert_eq!(both.to_string(), "two entry states, 1_START.md and START.sh: keep only one");
    for (form, _) in FORMS {
        expect_entry_error(&place, form, &both);
    }
}

#[test]
fn neither_entry_name_is_refused() {
    let place = three_forms(&["NEXT.md", "START.txt"]);
    for (form, _) in FORMS {
        let error = place.open(form).unwrap_err();
        let ScopeError::Entry { source, .. } = &error else {
            panic!("{error:?}");
        };
        assert!(matches!(source, EntryError::None { extension: ".sh", .. }), "{source:?}");
        assert_eq!(
            source.to_string(),
            "no entry state: expected 1_START or START, with the extension .md or .sh"
        );
    }
}

#[test]
fn ambiguous_entry_state_is_refused() {
    let place = three_forms(&["START.md", "START.sh"]);
    let ambiguous = EntryError::Unusable(ResolveError::Ambiguous {
        name: "START".to_owned(),
        candidates: vec!["START.md".to_owned(), "START.sh".to_owned()],
    });
    for (form, _) in FORMS {
        expect_entry_error(&place, form, &ambiguous);
    }
}

#[test]
fn entry_state_of_the_other_platform_is_refused() {
    let place = three_forms(&["START.bat", "NEXT.md"]);
    let wrong = ResolveError::WrongPlatform {
        name: "START".to_owned(),
        platform: Platform::Unix,
        candidates: vec!["START.bat".to_owned()],
    };
    assert_eq!(wrong.to_string(), "state `START` cannot run on Unix: START.bat is for Windows");
    let wrong = EntryError::Unusable(wrong);
    assert_eq!(wrong.to_string(), "the entry state cannot be used");
    for (form, _) in FORMS {
        expect_entry_error(&place, form, &wrong);
    }
}

#[test]
fn files_in_subdirectories_do_not_belong_to_the_scope() {
    let place = Place::new();
    place.write("flow/sub/START.md", "x");
    fs::create_dir(place.root.join("flow/1_START.md")).unwrap();
    let error = place.open("flow").unwrap_err();
    assert!(
        matches!(&error, ScopeError::Entry { source: EntryError::None { .. }, .. }),
        "{error:?}"
    );
    place.write("flow/START.sh", "x");
    assert_eq!(place.open("flow").unwrap().entry, StateName::new("START.sh"));
}

#[test]
fn state_file_starts_in_the_scope_of_its_directory() {
    let place = Place::new();
    for state in ["START.md", "OTHER.sh", "v1.2.md"] {
        place.write(&format!("tidy/{state}"), "x");
        let expected = ScopeSource {
            path: place.root.join("tidy"),
            entry: StateName::new(state),
            name: "tidy".to_owned(),
        };
        assert_eq!(place.open(&format!("tidy/{state}")).unwrap(), expected);
        assert_eq!(place.open(&format!("tidy/../tidy/./{state}")).unwrap(), expected);
    }
}

#[test]
fn directory_with_a_dot_in_its_name_keeps_its_whole_name() {
    let place = Place::new();
    place.write("v1.2/START.md", "x");
    assert_eq!(place.open("v1.2/START.md").unwrap().name, "v1.2");
    assert_eq!(place.open("v1.2").unwrap().name, "v1.2");
}

#[test]
fn path_that_does_not_exist_is_reported() {
    let place = Place::new();
    for name in ["nowhere", "nowhere.zip", "no/START.md"] {
        let path = place.root.join(name);
        let error = place.open(name).unwrap_err();
        assert_eq!(error.to_string(), format!("cannot open {}", path.display()));
        assert!(
            matches!(&error, ScopeError::Io { path: p, source } if *p == path && source.kind() == io::ErrorKind::NotFound),
            "{error:?}"
        );
    }
}

#[cfg(unix)]
#[test]
fn path_that_is_not_utf8_is_reported() {
    use std::os::unix::ffi::OsStrExt as _;
    let place = Place::new();
    let folder = place.root.join(std::ffi::OsStr::from_bytes(b"fl\xffow"));
    fs::create_dir(&folder).unwrap();
    fs::write(folder.join("START.md"), "x").unwrap();
    for path in [folder.clone(), folder.join("START.md")] {
        let error = ScopeSource::open(&path).unwrap_err();
        assert_eq!(error.to_string(), format!("the path {} is not valid UTF-8", path.display()));
        assert!(matches!(&error, ScopeError::NotText { path: p } if *p == path), "{error:?}");
    }
}

#[test]
fn file_that_is_no_state_is_refused() {
    let place = Place::new();
    for name in ["NOTES.txt", "START", "START.MD", ".md", "flow.zip.bak"] {
        place.write(name, "x");
        let error = place.open(name).unwrap_err();
        let message = format!("`{name}` is not a state: states end in .md, .sh or .bat");
        assert_eq!(error.to_string(), message);
        assert!(
            matches!(&error, ScopeError::Kind(StateKindError::Unsupported { name: n }) if n == name),
            "{error:?}"
        );
    }
}

#[test]
fn script_of_the_other_platform_is_refused() {
    let place = Place::new();
    place.write("START.bat", "x");
    let error = place.open("START.bat").unwrap_err();
    assert_eq!(error.to_string(), "`START.bat` runs on Windows only");
    let expected =
        StateKindError::WrongPlatform { name: "START.bat".to_owned(), needs: Platform::Windows };
    assert!(matches!(&error, ScopeError::Kind(kind) if *kind == expected), "{error:?}");
}

#[test]
fn archive_is_recognised_by_its_extension_in_any_case_and_a_directory_is_not() {
    let place = Place::new();
    place.write("FLOW.ZIP", zip_of(&["START.md"]));
    assert_eq!(place.open("FLOW.ZIP").unwrap().name, "FLOW");
    place.write("folder.zip/START.sh", "x");
    let opened = place.open("folder.zip").unwrap();
    assert_eq!(
        (opened.path, opened.entry),
        (place.root.join("folder.zip"), StateName::new("START.sh"))
    );
}

#[test]
fn extracted_archive_replaces_what_was_there() {
    let place = Place::new();
    let private = place.root.join("run/scope");
    place.write("run/scope/OLD.md", "old");
    place.write("run/scope/sub/OLD.md", "old");
    let path = place.write("flow.zip", zip_of(&["f/START.md", "f/NEXT.sh"]));
    let world = DiskWorld::open(&path, &private, CodingAgents::only(Capabilities::FULL)).unwrap();
    assert_eq!(world.folder(), private);
    assert_eq!(world.listing("").unwrap().names().collect::<Vec<_>>(), ["NEXT.sh", "START.md"]);
    assert_eq!(world.read("START.md").unwrap(), b"f/START.md");
    assert!(!private.join("sub").exists());
}

#[cfg(unix)]
#[test]
fn directory_behind_a_link_is_reported_by_its_real_path() {
    use std::os::unix::{ffi::OsStrExt as _, fs::symlink};
    let place = Place::new();
    place.write("flow/START.md", "text");
    fs::create_dir_all(place.root.join("project")).unwrap();
    fs::create_dir_all(place.root.join("far/trees/a")).unwrap();
    symlink(place.root.join("far/trees"), place.root.join("project/link")).unwrap();
    symlink(".", place.root.join("project/self")).unwrap();
    let world = DiskWorld::open(
        &place.root.join("flow"),
        &place.root.join("private"),
        CodingAgents::only(Capabilities::FULL),
    )
    .unwrap();
    let real = |path: &str| world.directory(place.root.join(path).to_str().unwrap());
    let expected = |path: &str| place.root.join(path).to_str().map(str::to_owned);
    assert_eq!(real("project/./link//a/"), expected("far/trees/a"));
    assert_eq!(real("project/link/.."), expected("far"), "`link/..` is not the folder of the link");
    assert_eq!(real("project/self/self"), expected("project"));
    assert_eq!(real("project/gone/.."), None);

    let odd = place.root.join(std::ffi::OsStr::from_bytes(b"odd\xff"));
    fs::create_dir(&odd).unwrap();
    symlink(&odd, place.root.join("project/odd")).unwrap();
    assert_eq!(real("project/odd"), expected("project/odd"), "a real path that is not UTF-8");
}

#[test]
fn directory_is_used_in_place() {
    let place = Place::new();
    place.write("flow/START.md", "text");
    let (flow, private) = (place.root.join("flow"), place.root.join("private"));
    let world = DiskWorld::open(&flow, &private, CodingAgents::only(Capabilities::FULL)).unwrap();
    assert_eq!(world.folder(), flow);
    assert_eq!(world.read("START.md").unwrap(), b"text");
    assert!(!private.exists());
    assert_eq!(world.directory(flow.to_str().unwrap()).as_deref(), flow.to_str());
    assert_eq!(world.directory(flow.join("START.md").to_str().unwrap()), None);
    let error = world.read("NEXT.md").unwrap_err();
    assert_eq!(error.what, format!("cannot read {}", flow.join("NEXT.md").display()));
    fs::remove_dir_all(&flow).unwrap();
    assert_eq!(world.listing("").unwrap_err().what, format!("cannot list {}", flow.display()));
}
