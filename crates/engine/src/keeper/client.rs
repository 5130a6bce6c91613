//! The orchestrator's side: finds or starts the keeper, and hands steps to its reapers.

use std::{
    collections::HashMap,
    ffi::OsString,
    fs::{self, File},
    io::{self, BufRead, BufReader, Write},
    net::Shutdown,
    os::{
        fd::AsRawFd,
        unix::{ffi::OsStrExt, net::UnixStream},
    },
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::Arc,
    time::{Duration, Instant},
};

use serde::Serialize;

use super::{
    launch::{SHORTAGE_INTERVAL, StepLaunch, is_shortage},
    protocol::{ANSWER, KEEPER_SOCKET, Request, STEPS_SOCKET},
};
use crate::{
    run::inbox::socket_path,
    sys::{self, Pid},
    trust::private,
};

/// The most connections to reapers of scripts that are kept open. They save consecutive scripts a new
/// connection; with many agents at once, each gets a reaper of its own.
const LINKS_MAX: usize = 4;

/// The longest launch that is sent on a kept link: less than the buffer of a socket, because only one reaper
/// can read it, and may be slow.
const KEPT_LINK_BYTES_MAX: usize = 64 * 1024;

/// How long a reaper may take to accept a connection, and to continue reading when the socket is full.
const REAPER_PATIENCE: Duration = Duration::from_secs(15);

/// How often a write is retried if the kernel has no memory for it.
const SHORTAGES_MAX: u32 = 10;

/// How long a keeper may take to answer; one that is stopped is not waited for.
const ANSWER_PATIENCE: Duration = Duration::from_secs(15);
/// How often to look whether it is stopped.
const ANSWER_INTERVAL: Duration = Duration::from_secs(1);

/// How long a keeper may take to start, including the time until its predecessor has left.
const START_PATIENCE: Duration = Duration::from_secs(30);

/// A connection to the keeper of a run.
#[derive(Debug)]
pub(crate) struct Keeper {
    stream: Arc<UnixStream>,
    /// The socket on which reapers accept steps.
    steps: PathBuf,
    /// Links to reapers that run a script, by the name of its step.
    busy: HashMap<String, ReaperLink>,
    /// Links to idle reapers that have ended a script.
    idle: Vec<ReaperLink>,
    /// Keeps the addresses of the sockets valid.
    _folder: File,
}

/// The connection to the reaper of a step. Closing it also releases a child that is kept for further turns.
#[derive(Debug)]
pub(crate) struct ReaperLink {
    stream: UnixStream,
    keeper: Arc<UnixStream>,
}

impl ReaperLink {
    /// Hands over a step, which the reaper starts at once.
    pub(crate) fn send(&self, launch: &StepLaunch) -> io::Result<()> {
        self.write(&line(launch)?)
    }

    /// Writes `bytes`. If they exceed the socket's buffer, it waits for the reaper to read. That never
    /// happens if the keeper is gone (busy reapers keep the socket open, and may themselves wait for the
    /// orchestrator), or if the reaper is stopped, which the keeper takes for a waiting one.
    fn write(&self, mut bytes: &[u8]) -> io::Result<()> {
        let mut shortages = 0;
        while !bytes.is_empty() {
            match (&self.stream).write(bytes) {
                Ok(length) => bytes = &bytes[length..],
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    let keeper = self.keeper.as_raw_fd();
                    if !sys::wait_for_room(self.stream.as_raw_fd(), keeper, REAPER_PATIENCE)? {
                        return Err(io::ErrorKind::NotConnected.into());
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if is_shortage(&error) && shortages < SHORTAGES_MAX => {
                    shortages += 1;
                    std::thread::sleep(SHORTAGE_INTERVAL);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Tells the reaper that no more steps will come.
    pub(crate) fn close(&self) {
        let _ = self.stream.shutdown(Shutdown::Write);
    }

    /// A function that blocks until the reaper has closed its end.
    pub(crate) fn wait_until_gone(&self) -> io::Result<impl FnOnce() + Send + use<>> {
        let mut stream = self.stream.try_clone()?;
        Ok(move || {
            let is_open = |read: io::Result<usize>| match read {
                Ok(length) => length > 0,
                Err(error) => error.kind() == io::ErrorKind::WouldBlock,
            };
            // Reapers write nothing.
            while sys::poll(&[stream.as_raw_fd()], None).is_ok()
                && is_open(io::Read::read(&mut stream, &mut [0]))
            {}
        })
    }
}

impl Keeper {
    /// Connects to the keeper of the run in `folder`, and starts one if there is none. `program` is the
    /// command of a keeper: this program and its hidden subcommand. Reapers find the inbox by its name.
    pub(crate) fn connect(folder: &Path, program: &[OsString]) -> io::Result<Self> {
        let directory = File::open(folder)?;
        let address = socket_path(&directory, KEEPER_SOCKET);
        let stream = if let Ok(stream) = sys::connect(&address, ANSWER_PATIENCE) {
            stream
        } else {
            start(folder, program)?;
            sys::connect(&address, ANSWER_PATIENCE)?
        };
        check_peer(&stream)?;
        greet(&stream, folder)?;
        let steps = socket_path(&directory, STEPS_SOCKET);
        Ok(Self {
            stream: Arc::new(stream),
            steps,
            busy: HashMap::new(),
            idle: Vec::new(),
            _folder: directory,
        })
    }

    /// Kills a keeper of the run in `folder` that was asked to leave and did not. Its steps continue.
    pub(crate) fn kill(&self, folder: &Path) -> io::Result<()> {
        kill(folder, sys::peer(&self.stream)?)
    }

    /// Hands a step to a reaper, which starts it at once.
    pub(crate) fn launch(&mut self, launch: &StepLaunch) -> io::Result<ReaperLink> {
        let bytes = line(launch)?;
        while bytes.len() <= KEPT_LINK_BYTES_MAX
            && let Some(link) = self.idle.pop()
        {
            // Fails if the reaper is gone, or has closed the link because it has to clean up.
            if link.write(&bytes).is_ok() {
                return Ok(link);
            }
        }
        let stream = sys::connect(&self.steps, REAPER_PATIENCE)?;
        check_peer(&stream)?;
        stream.set_nonblocking(true)?;
        let link = ReaperLink { stream, keeper: Arc::clone(&self.stream) };
        link.write(&bytes)?;
        Ok(link)
    }

    /// Keeps the link to the reaper of a script.
    pub(crate) fn keep(&mut self, step: String, link: ReaperLink) {
        // The reapers of a keeper that is gone take no further steps: if one were killed, no keeper would
        // report it.
        let is_ours = Arc::ptr_eq(&link.keeper, &self.stream);
        if is_ours && self.busy.len() + self.idle.len() < LINKS_MAX {
            self.busy.insert(step, link);
        }
    }

    /// Records that a step has ended. If its reaper has reported that, the reaper can be given another step.
    pub(crate) fn step_is_over(&mut self, step: &str, is_reported: bool) {
        self.idle.extend(self.busy.remove(step).filter(|_| is_reported));
    }

    /// Asks the keeper to end all steps and leave.
    pub(crate) fn shut_down(&mut self) -> io::Result<()> {
        // Reapers wait for another step for as long as their links are open.
        self.busy.clear();
        self.idle.clear();
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
        (&*self.stream).write_all(&line(request)?)
    }
}

/// Sends the orchestrator's environment to the keeper and waits for the confirmation. A keeper that does not
/// answer, or that is of another version, is killed: its steps continue, and the next attempt starts another.
fn greet(stream: &UnixStream, folder: &Path) -> io::Result<()> {
    let environment = std::env::vars_os()
        .map(|(name, value)| [name.as_bytes(), b"=", value.as_bytes()].concat())
        .collect();
    let hello = line(&Request::Hello { environment })?;
    stream.set_write_timeout(Some(ANSWER_INTERVAL))?;
    stream.set_read_timeout(Some(ANSWER_INTERVAL))?;
    let keeper = sys::peer(stream)?;
    let replace = |why: &str| {
        kill(folder, keeper)?;
        let message = format!("the keeper (process {keeper}) {why} and was killed");
        Err(io::Error::new(io::ErrorKind::TimedOut, message))
    };
    let deadline = Instant::now() + ANSWER_PATIENCE;
    let mut written = 0;
    let mut answer = [0; ANSWER.len()];
    let mut read = 0;
    while read < answer.len() {
        let step = if written < hello.len() {
            (&mut &*stream).write(&hello[written..]).map(|length| written += length)
        } else {
            io::Read::read(&mut &*stream, &mut answer[read..]).and_then(|length| {
                read += length;
                if length == 0 { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(()) }
            })
        };
        match step.map_err(|error| (error.kind(), error)) {
            Ok(()) | Err((io::ErrorKind::Interrupted, _)) => {}
            Err((io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut, _)) => {
                if sys::is_stopped(keeper) || Instant::now() >= deadline {
                    return replace("did not answer");
                }
            }
            Err((_, error)) => return Err(error),
        }
    }
    if answer != *ANSWER {
        return replace("is of another version");
    }
    // From now on the keeper writes nothing to this connection.
    stream.set_read_timeout(None)
}

/// Refuses to send the environment to a process of another user: it contains keys.
fn check_peer(stream: &UnixStream) -> io::Result<()> {
    if sys::is_own_peer(stream) {
        return Ok(());
    }
    let message = "a process of another user listens on the keeper's socket";
    Err(io::Error::new(io::ErrorKind::PermissionDenied, message))
}

/// Kills a keeper or reaper of the run in `folder`, and waits until it is gone.
pub(crate) fn kill(folder: &Path, pid: Pid) -> io::Result<()> {
    const PATIENCE: Duration = Duration::from_secs(5);
    const INTERVAL: Duration = Duration::from_millis(5);
    let deadline = Instant::now() + PATIENCE;
    let folder = fs::canonicalize(folder)?;
    while is_ours(&folder, pid) {
        if Instant::now() >= deadline {
            return Err(io::Error::other(format!("process {pid} cannot be killed")));
        }
        sys::kill(pid, libc::SIGKILL);
        std::thread::sleep(INTERVAL);
    }
    Ok(())
}

/// The keepers and reapers of the run in `folder` that are stopped.
pub(crate) fn stopped(folder: &Path) -> Vec<Pid> {
    let Ok(folder) = fs::canonicalize(folder) else {
        return Vec::new();
    };
    sys::processes().filter(|pid| is_ours(&folder, *pid) && sys::is_stopped(*pid)).collect()
}

/// Whether a process is a keeper or reaper of the run in `folder`, and not another process that has
/// reused its id: its program and its working directory show that. A process that has ended has neither.
fn is_ours(folder: &Path, pid: Pid) -> bool {
    let link = |name: &str| fs::read_link(sys::file_of(pid, name)).ok();
    if link("cwd").as_deref() != Some(folder) {
        return false;
    }
    // By the name alone: the program may have been replaced, or a newer one may be installed elsewhere.
    let name = |path: PathBuf| {
        let name = path.file_name()?.to_string_lossy().into_owned();
        Some(name.trim_end_matches(" (deleted)").to_owned())
    };
    let own = fs::read_link("/proc/self/exe").ok().and_then(name);
    own.is_some() && link("exe").and_then(name) == own
}

fn line<T: Serialize>(value: &T) -> io::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(value)?;
    line.push(b'\n');
    Ok(line)
}

fn start(folder: &Path, program: &[OsString]) -> io::Result<()> {
    let (name, arguments) = program.split_first().ok_or(io::ErrorKind::InvalidInput)?;
    let log = private::options().create(true).append(true).open(folder.join("keeper.log"))?;
    let mut child = Command::new(name)
        .args(arguments)
        .arg(folder)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(log)
        .spawn()?;
    let stdout = child.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?;
    if sys::poll(&[stdout.as_raw_fd()], Some(START_PATIENCE))?.is_none() {
        let _ = child.kill();
        let _ = child.wait();
        return Err(io::Error::new(io::ErrorKind::TimedOut, "the keeper did not start in time"));
    }
    let mut line = String::new();
    BufReader::new(stdout).read_line(&mut line)?;
    if line != "ready\n" {
        let why = fs::read_to_string(folder.join("keeper.log")).unwrap_or_default();
        let message = format!("the keeper did not start: {}", why.trim_end());
        return Err(io::Error::other(message));
    }
    // The keeper outlives the orchestrator. If it ends before, this thread collects it.
    let _ = std::thread::Builder::new().spawn(move || child.wait());
    Ok(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "in tests a panic is the message")]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    /// Greets a keeper that gives this answer.
    fn greet_keeper(answer: &'static [u8]) -> io::Result<()> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let listener = UnixListener::bind(&path).unwrap();
        let keeper = std::thread::spawn(move || {
            let (stream, _) = listener.accept().unwrap();
            let mut hello = String::new();
            BufReader::new(&stream).read_line(&mut hello).unwrap();
            (&stream).write_all(answer).unwrap();
            hello
        });
        // The peer is this process, which does not work in `folder`: it is not killed.
        let greeted = greet(&UnixStream::connect(&path).unwrap(), folder.path());
        assert!(keeper.join().unwrap().starts_with("{\"hello\":{\"environment\":[["));
        greeted
    }

    #[test]
    fn keeper_of_the_same_version_is_accepted() {
        greet_keeper(ANSWER).unwrap();
    }

    #[test]
    fn keeper_of_another_version_is_replaced() {
        let error = greet_keeper(b"ok\n").unwrap_err();
        // For this kind the caller reports it and starts another keeper.
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert!(error.to_string().contains("is of another version and was killed"), "{error}");
    }

    #[test]
    fn keeper_that_closes_the_connection_is_an_error() {
        assert_eq!(greet_keeper(b"").unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }
}
