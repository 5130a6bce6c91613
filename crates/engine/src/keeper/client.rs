//! The orchestrator's end: finds or starts the keeper.

use std::{
    ffi::OsString,
    fs::{self, File},
    io::{self, BufRead, BufReader, Write},
    os::unix::{ffi::OsStrExt, net::UnixStream},
    path::Path,
    process::{Command, Stdio},
};

use super::protocol::{KEEPER_SOCKET, Launch, Request};
use crate::inbox::socket_path;

/// A connection to the keeper of a run.
#[derive(Debug)]
pub(crate) struct Keeper {
    stream: UnixStream,
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
        let mut keeper = Self { stream };
        let environment = std::env::vars_os()
            .map(|(name, value)| [name.as_bytes(), b"=", value.as_bytes()].concat())
            .collect();
        keeper.send(&Request::Hello { environment })?;
        Ok(keeper)
    }

    /// Asks for a step to be started.
    pub(crate) fn launch(&mut self, launch: &Launch) -> io::Result<()> {
        self.send(&Request::Launch(Box::new(launch.clone())))
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
        let mut line = serde_json::to_vec(request)?;
        line.push(b'\n');
        self.stream.write_all(&line)
    }
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
