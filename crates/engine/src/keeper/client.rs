//! The orchestrator's end: finds or starts the keeper.

use std::{
    collections::{HashMap, VecDeque},
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
    launch::Launch,
    protocol::{GO, KEEPER_SOCKET, Request, STEPS_SOCKET},
};
use crate::{
    inbox::socket_path,
    private,
    sys::{self, Pid},
};

/// How many lines are kept open after a script was let go. They spare those who follow each other
/// a new call; of many agents at once, each calls for a reaper of its own.
const LINES_MAX: usize = 4;

/// What is said on a line at most: much less than a socket holds.
const LINE_BYTES_MAX: usize = 64 * 1024;

/// How long somebody may not listen in the middle of a sentence.
const LISTEN_PATIENCE: Duration = Duration::from_secs(15);

/// How often, and how far apart, something is said again that the kernel had no memory for.
const SHORTAGES_MAX: u32 = 50;
const SHORTAGE_INTERVAL: Duration = Duration::from_millis(10);

/// How long a keeper may take to answer; one that is stopped is not waited for.
const ANSWER_PATIENCE: Duration = Duration::from_secs(15);
/// How often it is looked at meanwhile.
const ANSWER_INTERVAL: Duration = Duration::from_secs(1);

/// How long a keeper may take to start, with what it waits for another one to go.
const START_PATIENCE: Duration = Duration::from_secs(30);

/// A connection to the keeper of a run.
#[derive(Debug)]
pub(crate) struct Keeper {
    stream: Arc<UnixStream>,
    /// Where spare reapers listen.
    steps: PathBuf,
    /// The lines to reapers that have a script of ours, by the name of its step.
    engaged: HashMap<String, Gate>,
    /// The lines to those that are done with it and wait for another, the longest-waiting first.
    idle: VecDeque<Gate>,
    /// Keeps the address valid.
    _folder: File,
}

/// A step that is ready and waits for a word. Dropping it before, or dying, means that it never
/// starts; later it means that a child which was kept may go.
#[derive(Debug)]
pub(crate) struct Gate {
    stream: UnixStream,
    keeper: Arc<UnixStream>,
}

impl Gate {
    /// Lets the step start. If its reaper is gone, its keeper tells; if it cannot be told, it hears
    /// that the step must not start, and says so.
    pub(crate) fn open(&self) {
        if self.say(GO).is_err() {
            let _ = self.stream.shutdown(Shutdown::Both);
        }
    }

    /// Says something to whoever takes the call. If that is more than a socket holds, it waits for
    /// a reaper to listen, which none will do once the keeper is gone: those that have steps keep
    /// the socket open, and may themselves wait for us. Nor does one that stands still, whom the
    /// keeper takes for ready.
    fn say(&self, mut words: &[u8]) -> io::Result<()> {
        let mut shortages = 0;
        while !words.is_empty() {
            match (&self.stream).write(words) {
                Ok(length) => words = &words[length..],
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    let keeper = self.keeper.as_raw_fd();
                    if !sys::wait_for_room(self.stream.as_raw_fd(), keeper, LISTEN_PATIENCE)? {
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

    /// Hands over another step to a child that was kept, and lets it start.
    pub(crate) fn hand_over(&self, launch: &Launch) -> io::Result<()> {
        let mut words = line(launch)?;
        words.extend_from_slice(GO);
        self.say(&words)
    }

    /// Says that nothing more will be handed over.
    pub(crate) fn hang_up(&self) {
        let _ = self.stream.shutdown(Shutdown::Write);
    }

    /// Blocks until the reaper at the other end lets go.
    pub(crate) fn wait_until_gone(&self) -> io::Result<impl FnOnce() + Send + use<>> {
        let mut stream = self.stream.try_clone()?;
        Ok(move || {
            let is_open = |read: io::Result<usize>| match read {
                Ok(length) => length > 0,
                Err(error) => error.kind() == io::ErrorKind::WouldBlock,
            };
            // Nothing is ever said on this side.
            while sys::poll(&[stream.as_raw_fd()], None).is_ok()
                && is_open(io::Read::read(&mut stream, &mut [0]))
            {}
        })
    }
}

impl Keeper {
    /// Connects to the keeper of the run in `folder`, and starts one if there is none. `program` is
    /// what to run as the keeper: this program and its hidden subcommand. Reapers find the inbox
    /// by its name.
    pub(crate) fn connect(folder: &Path, program: &[OsString]) -> io::Result<Self> {
        let directory = File::open(folder)?;
        let address = socket_path(&directory, KEEPER_SOCKET);
        let stream = if let Ok(stream) = UnixStream::connect(&address) {
            stream
        } else {
            start(folder, program)?;
            UnixStream::connect(&address)?
        };
        check_peer(&stream)?;
        greet(&stream, folder)?;
        let steps = socket_path(&directory, STEPS_SOCKET);
        Ok(Self {
            stream: Arc::new(stream),
            steps,
            engaged: HashMap::new(),
            idle: VecDeque::new(),
            _folder: directory,
        })
    }

    /// Kills a keeper of the run in `folder` that was asked to go and has not gone. Steps do not
    /// need it.
    pub(crate) fn kill(&self, folder: &Path) -> io::Result<()> {
        kill(folder, sys::peer(&self.stream)?)
    }

    /// Hands a step to a reaper. It gets ready at once, and starts when the gate is opened.
    pub(crate) fn launch(&mut self, launch: &Launch) -> io::Result<Gate> {
        let words = line(launch)?;
        // Nobody else can take what is said on a line, so it must not need a reaper to listen.
        // The one that has just told of an end is still busy with it, and with the processor.
        while words.len() <= LINE_BYTES_MAX
            && self.idle.len() > 1
            && let Some(gate) = self.idle.pop_front()
        {
            // A reaper that is gone, or has to clean up, has hung up.
            if gate.say(&words).is_ok() {
                return Ok(gate);
            }
        }
        let stream = UnixStream::connect(&self.steps)?;
        check_peer(&stream)?;
        stream.set_nonblocking(true)?;
        let gate = Gate { stream, keeper: Arc::clone(&self.stream) };
        gate.say(&words)?;
        Ok(gate)
    }

    /// Keeps the line to the reaper of a script that was let go.
    pub(crate) fn keep(&mut self, step: String, gate: Gate) {
        // One of a keeper that is gone has nobody who would tell of its end.
        let is_ours = Arc::ptr_eq(&gate.keeper, &self.stream);
        if is_ours && self.engaged.len() + self.idle.len() < LINES_MAX {
            self.engaged.insert(step, gate);
        }
    }

    /// Takes note that a step is over. If its reaper has told so, it can have another.
    pub(crate) fn step_is_over(&mut self, step: &str, is_told: bool) {
        self.idle.extend(self.engaged.remove(step).filter(|_| is_told));
    }

    /// Asks the keeper to end everything and go.
    pub(crate) fn shut_down(&mut self) -> io::Result<()> {
        // Reapers wait for another step for as long as their lines are open.
        self.engaged.clear();
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

/// Whether the kernel is short of memory for a message, which may pass.
fn is_shortage(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENOBUFS | libc::ENOMEM))
}

/// Gives the keeper our environment and waits until it has it. One that does not answer is killed:
/// steps go on without it, and the next attempt starts another.
fn greet(stream: &UnixStream, folder: &Path) -> io::Result<()> {
    let environment = std::env::vars_os()
        .map(|(name, value)| [name.as_bytes(), b"=", value.as_bytes()].concat())
        .collect();
    let words = line(&Request::Hello { environment })?;
    stream.set_write_timeout(Some(ANSWER_INTERVAL))?;
    stream.set_read_timeout(Some(ANSWER_INTERVAL))?;
    let keeper = sys::peer(stream)?;
    let deadline = Instant::now() + ANSWER_PATIENCE;
    let is_late = |error: &io::Error| {
        let is_timeout =
            matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut);
        is_timeout && (sys::is_stopped(keeper) || Instant::now() >= deadline)
    };
    let mut said = 0;
    let mut answer = [0; 3];
    let mut heard = 0;
    while heard < answer.len() {
        let step = if said < words.len() {
            (&mut &*stream).write(&words[said..]).map(|length| said += length)
        } else {
            io::Read::read(&mut &*stream, &mut answer[heard..]).and_then(|length| {
                heard += length;
                if length == 0 { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(()) }
            })
        };
        match step {
            Err(error) if is_late(&error) => {
                kill(folder, keeper)?;
                return Err(io::Error::new(
                    io::ErrorKind::TimedOut,
                    format!("the keeper (process {keeper}) did not answer and was killed"),
                ));
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            step => step?,
        }
    }
    // From now on it says nothing while it lives.
    stream.set_read_timeout(None)
}

/// Makes sure that no other user gets to see what children are given: the environment has keys in it.
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
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(|pid| is_ours(&folder, *pid) && sys::is_stopped(*pid)).collect()
}

/// Whether a process is a keeper or reaper of the run in `folder`, told by its program and by where
/// it works: it is no other process that has got its number. One that has ended works nowhere.
fn is_ours(folder: &Path, pid: Pid) -> bool {
    let link = |name: &str| fs::read_link(format!("/proc/{pid}/{name}")).ok();
    if link("cwd").as_deref() != Some(folder) {
        return false;
    }
    // By the name alone: the program may have been replaced, or a newer one may live elsewhere.
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
    let is_heard = sys::poll(&[stdout.as_raw_fd()], Some(START_PATIENCE))?.is_some();
    if !is_heard {
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
    // Nobody waits for it here: it outlives us, or it is collected when we end.
    let _ = std::thread::Builder::new().spawn(move || child.wait());
    Ok(())
}
