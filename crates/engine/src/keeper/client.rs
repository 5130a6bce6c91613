//! The orchestrator's end: finds or starts the keeper.

use std::{
    ffi::OsString,
    fs::{self, File},
    io::{self, BufRead, BufReader, Write},
    net::Shutdown,
    os::unix::{ffi::OsStrExt, net::UnixStream},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use serde::Serialize;

use super::protocol::{GO, KEEPER_SOCKET, Launch, Request, STEPS_SOCKET};
use crate::inbox::socket_path;

/// A connection to the keeper of a run.
#[derive(Debug)]
pub(crate) struct Keeper {
    stream: UnixStream,
    /// Where spare reapers listen.
    steps: PathBuf,
    /// Keeps the address valid.
    _folder: File,
}

/// A step that is ready and waits for a word. Dropping it before, or dying, means that it never
/// starts; later it means that a child which was kept may go.
#[derive(Debug)]
pub(crate) struct Gate {
    stream: UnixStream,
}

impl Gate {
    /// Lets the step start. If its reaper is gone, its keeper tells.
    pub(crate) fn open(&mut self) {
        let _ = self.stream.write_all(GO);
    }

    /// Hands over another step to a child that was kept, and lets it start.
    pub(crate) fn hand_over(&mut self, launch: &Launch) -> io::Result<()> {
        let mut words = line(launch)?;
        words.extend_from_slice(GO);
        self.stream.write_all(&words)
    }

    /// Says that nothing more will be handed over.
    pub(crate) fn hang_up(&self) {
        let _ = self.stream.shutdown(Shutdown::Write);
    }

    /// Something that ends when the reaper at the other end lets go.
    pub(crate) fn ear(&self) -> io::Result<UnixStream> {
        self.stream.try_clone()
    }
}

impl Keeper {
    /// Connects to the keeper of the run in `folder`, and starts one if there is none. `program` is
    /// what to run as the keeper: this program and its hidden subcommand.
    pub(crate) fn connect(folder: &Path, program: &[OsString]) -> io::Result<Self> {
        let directory = File::open(folder)?;
        let address = socket_path(&directory, folder, KEEPER_SOCKET);
        let stream = if let Ok(stream) = UnixStream::connect(&address) {
            stream
        } else {
            start(folder, program)?;
            UnixStream::connect(&address)?
        };
        let steps = socket_path(&directory, folder, STEPS_SOCKET);
        let mut keeper = Self { stream, steps, _folder: directory };
        let environment = std::env::vars_os()
            .map(|(name, value)| [name.as_bytes(), b"=", value.as_bytes()].concat())
            .collect();
        keeper.send(&Request::Hello { environment })?;
        let mut answer = [0; 3];
        io::Read::read_exact(&mut keeper.stream, &mut answer)?;
        Ok(keeper)
    }

    /// Hands a step to a reaper. It gets ready at once, and starts when the gate is opened.
    pub(crate) fn launch(&self, launch: &Launch) -> io::Result<Gate> {
        let mut stream = UnixStream::connect(&self.steps)?;
        stream.write_all(&line(launch)?)?;
        Ok(Gate { stream })
    }

    /// Asks the keeper to end everything and go.
    pub(crate) fn shut_down(&mut self) -> io::Result<()> {
        self.send(&Request::Shutdown)
    }

    /// Blocks until the keeper is gone.
    pub(crate) fn wait_until_gone(&self) -> io::Result<impl FnOnce() + Send + use<>> {
        let mut stream = self.stream.try_clone()?;
        Ok(move || {
            let mut nothing = [0];
            while matches!(io::Read::read(&mut stream, &mut nothing), Ok(length) if length > 0) {}
        })
    }

    fn send(&mut self, request: &Request) -> io::Result<()> {
        self.stream.write_all(&line(request)?)
    }
}

fn line<T: Serialize>(value: &T) -> io::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(value)?;
    line.push(b'\n');
    Ok(line)
}

fn start(folder: &Path, program: &[OsString]) -> io::Result<()> {
    let (name, arguments) = program.split_first().ok_or(io::ErrorKind::InvalidInput)?;
    let log = File::options().create(true).append(true).open(folder.join("keeper.log"))?;
    let mut child = Command::new(name)
        .args(arguments)
        .arg(folder)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(log)
        .spawn()?;
    let stdout = child.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?;
    let mut line = String::new();
    BufReader::new(stdout).read_line(&mut line)?;
    if line != "ready\n" {
        let why = fs::read_to_string(folder.join("keeper.log")).unwrap_or_default();
        let message = format!("the keeper did not start: {}", why.trim_end());
        return Err(io::Error::other(message));
    }
    // Nobody waits for it here: it outlives us, or it is collected when we end.
    std::thread::spawn(move || child.wait());
    Ok(())
}
