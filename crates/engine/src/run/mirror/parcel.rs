//! Files on their way to another machine as one sequence of bytes: those of a step that has ended, with the files that its
//! question shows, and those that come with an answer. A line of JSON says how the step ended and how long the files are;
//! the files follow.

use std::{
    fs,
    io::{self, Read as _, Seek as _, SeekFrom},
    path::{Component, Path, PathBuf},
};

use raymond_flow::id::StepId;
use serde::{Deserialize, Serialize};

use crate::{
    exec::step::{Claim, ExitRecord, StepFolder, StepState},
    store::layout::RunFiles,
    trust::{private, regular},
};

/// The files of a step that are shown.
const NAMES: [&str; 3] = ["prompt", "stdout", "stderr"];
/// The most that is packed of one of them: its end, because that has the answer.
const FILE_BYTES_MAX: u64 = if cfg!(test) { 1000 } else { 8 * 1024 * 1024 };
/// The most bytes of the files that a question shows, or that come with an answer: less than an object may have.
pub const SHOWN_BYTES_MAX: u64 = 128 * 1024 * 1024;
/// The directory, in that of a step, with the files that its question shows.
const SHOWN: &str = "shown";
/// Where a directory of another run is moved.
const ASIDE: &str = "aside";

/// The first line.
#[derive(Debug, Serialize, Deserialize)]
struct Header {
    /// How the step ended; `None` if it is not about a step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    exit: Option<ExitRecord>,
    /// Names and lengths, in the order of the bytes.
    files: Vec<(String, usize)>,
}

/// Names and contents of files that are packed.
type Files<B> = Vec<(String, B)>;

/// Packs the files of step `id` of the run with these files, and those below `cwd` that its question shows; `None` if it has
/// not ended here. Of a prompt or an output that is too long, the beginning is left out, and its first line says so.
pub fn pack_step(
    files: &RunFiles,
    id: &StepId,
    (cwd, shown): (&Path, &[String]),
) -> io::Result<Option<Vec<u8>>> {
    let folder = StepFolder::new(&files.steps, id);
    let StepState::Ended(mut exit) = folder.state()? else { return Ok(None) };
    let mut packed: Files<Vec<u8>> = Vec::new();
    for name in NAMES {
        let is_stdout = name == "stdout";
        let limit = if is_stdout { exit.stdout_bytes } else { u64::MAX };
        let Some(bytes) = end_of(&folder.path().join(name), limit)? else { continue };
        if is_stdout {
            exit.stdout_bytes = bytes.len() as u64;
        }
        packed.push((name.to_owned(), bytes));
    }
    let mut left = SHOWN_BYTES_MAX;
    for path in shown {
        // One that is gone or too large is missing with the question, which says so.
        let read = regular::open_below(cwd, Path::new(path)).and_then(|file| whole(file, left));
        if let Ok(bytes) = read {
            left -= bytes.len() as u64;
            packed.push((format!("{SHOWN}/{path}"), bytes));
        }
    }
    write(Some(exit), packed).map(Some)
}

/// Writes the files of step `id`, as [`pack_step`] made them, into the directory of the step. Nothing happens if they are
/// there.
pub fn unpack_step(files: &RunFiles, identity: &str, id: &StepId, bytes: &[u8]) -> io::Result<()> {
    let (exit, packed) = read(bytes)?;
    let exit = exit.ok_or_else(damaged)?;
    let folder = StepFolder::new(&files.steps, id).of_run(identity);
    match folder.state()? {
        StepState::Unclaimed => {}
        StepState::Foreign { .. } => drop(folder.set_aside(&files.folder.join(ASIDE))?),
        _ => return Ok(()),
    }
    folder.create()?;
    for (name, bytes) in packed {
        put(folder.path(), &name, bytes)?;
    }
    // Last, because it says that the others are complete.
    match Claim::take_ended(&folder.path().join("exit"), &folder.claim_text(), &exit, false) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
}

/// The directory with the files that the question of step `id` shows, if they were packed.
pub(super) fn shown(files: &RunFiles, id: &StepId) -> Option<String> {
    let folder = files.step(id).join(SHOWN);
    folder.is_dir().then(|| folder.to_string_lossy().into_owned())
}

/// Packs the files in `folder`.
pub fn pack_folder(folder: &Path) -> io::Result<Vec<u8>> {
    let mut packed: Files<Vec<u8>> = Vec::new();
    let mut left = SHOWN_BYTES_MAX;
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str()).ok_or_else(damaged)?;
        let bytes = whole(regular::open(&path)?, left)?;
        left -= bytes.len() as u64;
        packed.push((name.to_owned(), bytes));
    }
    packed.sort();
    write(None, packed)
}

/// Makes the directory `to` of what [`pack_folder`] made. Nothing happens if it is there.
pub fn unpack_folder(bytes: &[u8], to: &Path) -> io::Result<()> {
    let parent = to.parent().ok_or_else(damaged)?;
    private::create_dir_all(parent)?;
    // It gets its name when it is complete.
    let part = tempfile::tempdir_in(parent)?;
    for (name, bytes) in read(bytes)?.1 {
        put(part.path(), &name, bytes)?;
    }
    match fs::rename(part.path(), to) {
        Err(_) if to.is_dir() => Ok(()),
        renamed => renamed,
    }
}

fn write(exit: Option<ExitRecord>, packed: Files<Vec<u8>>) -> io::Result<Vec<u8>> {
    let files = packed.iter().map(|(name, bytes)| (name.clone(), bytes.len())).collect();
    let mut all = serde_json::to_vec(&Header { exit, files })?;
    all.push(b'\n');
    all.extend(packed.into_iter().flat_map(|(_, bytes)| bytes));
    Ok(all)
}

fn read(bytes: &[u8]) -> io::Result<(Option<ExitRecord>, Files<&[u8]>)> {
    let end = bytes.iter().position(|byte| *byte == b'\n').ok_or_else(damaged)?;
    let (line, mut rest) = bytes.split_at(end + 1);
    let Header { exit, files } = serde_json::from_slice(line)?;
    let mut packed = Vec::new();
    for (name, length) in files {
        let (bytes, others) = rest.split_at_checked(length).ok_or_else(damaged)?;
        rest = others;
        packed.push((name, bytes));
    }
    Ok((exit, packed))
}

/// Writes a file below `folder`, wherever it was packed from.
fn put(folder: &Path, name: &str, bytes: &[u8]) -> io::Result<()> {
    let name = PathBuf::from(name);
    if !name.components().all(|part| matches!(part, Component::Normal(_))) {
        return Err(damaged());
    }
    let path = folder.join(name);
    private::create_dir_all(path.parent().unwrap_or(folder))?;
    private::write(&path, bytes)
}

fn damaged() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "the packed files are damaged")
}

/// All bytes of a file, if they are not too many.
fn whole(file: fs::File, max: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(max + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > max {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    Ok(bytes)
}

/// The first `limit` bytes of a file, or the end of them if they are too many; `None` if there is no such file.
fn end_of(path: &Path, limit: u64) -> io::Result<Option<Vec<u8>>> {
    let mut file = match regular::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let length = file.metadata()?.len().min(limit);
    let left_out = length.saturating_sub(FILE_BYTES_MAX);
    file.seek(SeekFrom::Start(left_out))?;
    let mut bytes = Vec::new();
    file.take(length - left_out).read_to_end(&mut bytes)?;
    if left_out == 0 {
        return Ok(Some(bytes));
    }
    // From the next line on: half a line is nothing that can be read.
    let start = bytes.iter().position(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    let left_out = left_out + start as u64;
    let mut marked = format!("[raymond: the first {left_out} bytes are not here]\n").into_bytes();
    marked.extend_from_slice(&bytes[start..]);
    Ok(Some(marked))
}

#[cfg(test)]
mod tests {
    use raymond_flow::id::{AgentId, RunId};

    use super::*;
    use crate::{exec::step::HowEnded, store::layout::StateDir};

    /// No question.
    fn nothing() -> (&'static Path, &'static [String]) {
        (Path::new("/"), &[])
    }

    struct Place {
        _root: tempfile::TempDir,
        files: RunFiles,
    }

    impl Place {
        fn new() -> Self {
            let root = tempfile::tempdir().unwrap();
            let files = StateDir::new(root.path()).run(&RunId::new("r").unwrap());
            fs::create_dir_all(&files.steps).unwrap();
            Self { _root: root, files }
        }

        fn read(&self, name: &str) -> String {
            fs::read_to_string(self.files.step(&id()).join(name)).unwrap()
        }

        fn state(&self) -> StepState {
            StepFolder::new(&self.files.steps, &id()).of_run("own").state().unwrap()
        }
    }

    fn id() -> StepId {
        StepId { agent: AgentId::main(), number: 1 }
    }

    /// A step that has printed this and ended.
    fn ended(stdout: &str) -> (Place, ExitRecord) {
        let place = Place::new();
        let folder = StepFolder::new(&place.files.steps, &id());
        folder.create().unwrap();
        fs::write(folder.prompt(), "do it").unwrap();
        fs::write(folder.stdout(), stdout).unwrap();
        fs::write(folder.stderr(), "").unwrap();
        let stdout_bytes = stdout.len() as u64;
        let exit = ExitRecord { how: HowEnded::Code(3), duration_ms: 7, stdout_bytes };
        Claim::take_ended(&folder.path().join("exit"), "own", &exit, false).unwrap();
        (place, exit)
    }

    #[test]
    fn packed_step_is_unpacked_as_it_was() {
        let (there, exit) = ended("line\n");
        // What a surviving process printed after the end is not the step's.
        fs::write(there.files.step(&id()).join("stdout"), "line\nmore").unwrap();
        let packed = pack_step(&there.files, &id(), nothing()).unwrap().unwrap();
        let here = Place::new();
        for _ in 0..2 {
            unpack_step(&here.files, "own", &id(), &packed).unwrap();
        }
        assert_eq!(here.state(), StepState::Ended(exit));
        assert_eq!((here.read("prompt"), here.read("stdout")), ("do it".into(), "line\n".into()));
    }

    #[test]
    fn long_output_is_packed_from_a_line_on_and_says_what_is_left_out() {
        let line = format!("{}\n", "x".repeat(99));
        let (there, _) = ended(&line.repeat(15));
        let packed = pack_step(&there.files, &id(), nothing()).unwrap().unwrap();
        let here = Place::new();
        unpack_step(&here.files, "own", &id(), &packed).unwrap();
        let stdout = here.read("stdout");
        let expected = format!("[raymond: the first 600 bytes are not here]\n{}", line.repeat(9));
        assert_eq!(stdout, expected);
        let StepState::Ended(exit) = here.state() else { panic!() };
        assert_eq!(exit.stdout_bytes, stdout.len() as u64);
    }

    #[test]
    fn step_that_has_not_ended_is_not_packed_and_damage_is_an_error() {
        let place = Place::new();
        assert_eq!(pack_step(&place.files, &id(), nothing()).unwrap(), None);
        let (there, _) = ended("line\n");
        let packed = pack_step(&there.files, &id(), nothing()).unwrap().unwrap();
        for damaged in [&packed[..0], &packed[..20], &packed[..packed.len() - 1]] {
            assert!(unpack_step(&place.files, "own", &id(), damaged).is_err());
            assert_eq!(place.state(), StepState::Unclaimed);
        }
    }

    #[test]
    fn step_of_another_run_is_moved_aside() {
        let (there, _) = ended("line\n");
        let packed = pack_step(&there.files, &id(), nothing()).unwrap().unwrap();
        unpack_step(&there.files, "other", &id(), &packed).unwrap();
        assert_eq!(fs::read_dir(there.files.folder.join(ASIDE)).unwrap().count(), 1);
        assert!(matches!(there.state(), StepState::Foreign { run, .. } if run == "other"));
    }

    #[test]
    fn files_that_a_question_shows_come_with_its_step_and_missing_ones_do_not() {
        let (there, _) = ended("line\n");
        let cwd = tempfile::tempdir().unwrap();
        fs::create_dir(cwd.path().join("docs")).unwrap();
        fs::write(cwd.path().join("docs/plan.md"), "a plan").unwrap();
        let paths = ["docs/plan.md", "gone", "../outside"].map(str::to_owned);
        let packed = pack_step(&there.files, &id(), (cwd.path(), &paths)).unwrap().unwrap();
        let here = Place::new();
        assert_eq!(shown(&here.files, &id()), None);
        unpack_step(&here.files, "own", &id(), &packed).unwrap();
        let folder = PathBuf::from(shown(&here.files, &id()).unwrap());
        assert_eq!(fs::read_to_string(folder.join("docs/plan.md")).unwrap(), "a plan");
        assert_eq!(fs::read_dir(folder).unwrap().count(), 1);
    }

    #[test]
    fn folder_is_unpacked_as_it_was_packed_however_often() {
        let from = tempfile::tempdir().unwrap();
        let to = tempfile::tempdir().unwrap();
        let to = to.path().join("deep/answer");
        for names in [&[][..], &["a", "b b"]] {
            for name in names {
                fs::write(from.path().join(name), name).unwrap();
            }
            let to = to.join(names.len().to_string());
            for _ in 0..2 {
                unpack_folder(&pack_folder(from.path()).unwrap(), &to).unwrap();
            }
            assert_eq!(fs::read_dir(&to).unwrap().count(), names.len());
        }
        assert_eq!(fs::read_dir(&to).unwrap().count(), 2, "nothing else is left");
    }

    #[test]
    fn nothing_is_written_outside_of_the_directory() {
        let to = tempfile::tempdir().unwrap();
        for name in ["../out", "/tmp/out", "a/../../out"] {
            let files = vec![(name.to_owned(), vec![1])];
            let packed = write(None, files).unwrap();
            assert!(unpack_folder(&packed, &to.path().join("x")).is_err(), "{name}");
        }
        assert_eq!(fs::read_dir(to.path()).unwrap().count(), 0);
    }
}
