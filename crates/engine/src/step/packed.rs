//! The files of a step that has ended as one sequence of bytes, so that another machine can show them: a line of JSON
//! that says how the step ended and how long its files are, then the files.

use std::{
    io::{self, Read as _, Seek as _, SeekFrom},
    path::Path,
};

use raymond_flow::id::StepId;
use serde::{Deserialize, Serialize};

use super::{Claim, ExitRecord, StepFolder, StepState};
use crate::{layout::RunFiles, private, regular};

/// The files that are shown.
const NAMES: [&str; 3] = ["prompt", "stdout", "stderr"];
/// The most that is packed of one file: its end, because that has the answer.
const FILE_BYTES_MAX: u64 = if cfg!(test) { 1000 } else { 8 * 1024 * 1024 };
/// Where a directory of another run is moved.
const ASIDE: &str = "aside";

/// The first line.
#[derive(Debug, Serialize, Deserialize)]
struct Header {
    exit: ExitRecord,
    /// Names and lengths, in the order of the bytes.
    files: Vec<(String, usize)>,
}

/// Packs the files of step `id` of the run with these files; `None` if it has not ended here. Of a file that is too long,
/// the beginning is left out, and its first line says so.
pub fn pack(files: &RunFiles, id: &StepId) -> io::Result<Option<Vec<u8>>> {
    let folder = StepFolder::new(&files.steps, id);
    let StepState::Ended(mut exit) = folder.state()? else { return Ok(None) };
    let (mut packed, mut lengths) = (Vec::new(), Vec::new());
    for name in NAMES {
        let is_stdout = name == "stdout";
        let limit = if is_stdout { exit.stdout_bytes } else { u64::MAX };
        let Some(bytes) = end_of(&folder.path().join(name), limit)? else { continue };
        if is_stdout {
            exit.stdout_bytes = bytes.len() as u64;
        }
        lengths.push((name.to_owned(), bytes.len()));
        packed.extend(bytes);
    }
    let mut bytes = serde_json::to_vec(&Header { exit, files: lengths })?;
    bytes.push(b'\n');
    bytes.append(&mut packed);
    Ok(Some(bytes))
}

/// Writes the files of step `id`, as [`pack`] made them, into the directory of the step. Nothing happens if they are there.
pub fn unpack(files: &RunFiles, identity: &str, id: &StepId, bytes: &[u8]) -> io::Result<()> {
    let damaged = || io::Error::new(io::ErrorKind::InvalidData, "the packed step is damaged");
    let end = bytes.iter().position(|byte| *byte == b'\n').ok_or_else(damaged)?;
    let (line, mut rest) = bytes.split_at(end + 1);
    let header: Header = serde_json::from_slice(line)?;
    let folder = StepFolder::new(&files.steps, id).of_run(identity);
    match folder.state()? {
        StepState::Unclaimed => {}
        StepState::Foreign { .. } => drop(folder.set_aside(&files.folder.join(ASIDE))?),
        _ => return Ok(()),
    }
    folder.create()?;
    for (name, length) in &header.files {
        let (bytes, others) = rest.split_at_checked(*length).ok_or_else(damaged)?;
        rest = others;
        if NAMES.contains(&name.as_str()) {
            private::write(&folder.path().join(name), bytes)?;
        }
    }
    // Last, because it says that the others are complete.
    match Claim::take_ended(&folder.path().join("exit"), identity, &header.exit, false) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
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
    use std::fs;

    use raymond_flow::id::{AgentId, RunId};

    use super::*;
    use crate::{layout::StateDir, step::HowEnded};

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
        let packed = pack(&there.files, &id()).unwrap().unwrap();
        let here = Place::new();
        for _ in 0..2 {
            unpack(&here.files, "own", &id(), &packed).unwrap();
        }
        assert_eq!(here.state(), StepState::Ended(exit));
        assert_eq!((here.read("prompt"), here.read("stdout")), ("do it".into(), "line\n".into()));
    }

    #[test]
    fn long_output_is_packed_from_a_line_on_and_says_what_is_left_out() {
        let line = format!("{}\n", "x".repeat(99));
        let (there, _) = ended(&line.repeat(15));
        let packed = pack(&there.files, &id()).unwrap().unwrap();
        let here = Place::new();
        unpack(&here.files, "own", &id(), &packed).unwrap();
        let stdout = here.read("stdout");
        let expected = format!("[raymond: the first 600 bytes are not here]\n{}", line.repeat(9));
        assert_eq!(stdout, expected);
        let StepState::Ended(exit) = here.state() else { panic!() };
        assert_eq!(exit.stdout_bytes, stdout.len() as u64);
    }

    #[test]
    fn step_that_has_not_ended_is_not_packed_and_damage_is_an_error() {
        let place = Place::new();
        assert_eq!(pack(&place.files, &id()).unwrap(), None);
        let (there, _) = ended("line\n");
        let packed = pack(&there.files, &id()).unwrap().unwrap();
        for damaged in [&packed[..0], &packed[..20], &packed[..packed.len() - 1]] {
            assert!(unpack(&place.files, "own", &id(), damaged).is_err());
            assert_eq!(place.state(), StepState::Unclaimed);
        }
    }

    #[test]
    fn step_of_another_run_is_moved_aside() {
        let (there, _) = ended("line\n");
        let packed = pack(&there.files, &id()).unwrap().unwrap();
        unpack(&there.files, "other", &id(), &packed).unwrap();
        assert_eq!(fs::read_dir(there.files.folder.join(ASIDE)).unwrap().count(), 1);
        assert!(matches!(there.state(), StepState::Foreign { run, .. } if run == "other"));
    }
}
