//! The keeper process: forks reapers, replaces those in use, kills what a killed reaper leaves.

use std::{
    collections::HashSet,
    ffi::CString,
    fs::{self, File},
    io::{self, Read, Seek as _, Write},
    os::{
        fd::{AsRawFd, OwnedFd},
        unix::net::{UnixListener, UnixStream},
    },
    path::Path,
    time::{Duration, Instant},
};

use super::{
    client, post,
    processes::{self, Census},
    protocol::{ANSWER, KEEPER_LOCK, KEEPER_SOCKET, Request, STEPS_SOCKET},
};
use crate::{
    run::inbox::{Notifier, REAPER_GONE},
    sys::{self, ForkSide, Pid, Signals, Waited},
    trust::private,
};

/// How long a keeper without an orchestrator and without steps waits for another orchestrator.
const LINGER: Duration = Duration::from_secs(2);
/// How long reapers may take to leave: the grace period and the sweep of their last steps.
const LEAVE_PATIENCE: Duration = Duration::from_secs(10);
/// More than a request with the largest environment that the kernel allows, with every byte as a JSON number.
const REQUEST_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Longer than any process id.
const HOLDER_BYTES_MAX: u64 = 32;
/// When to try again to fork a reaper.
const FORK_INTERVAL: Duration = Duration::from_millis(100);

/// Runs the keeper of the run in `folder` for as long as there is an orchestrator or a step. Prints `ready`
/// once it listens; returns at once if the run already has a keeper.
pub fn serve(folder: &Path) -> io::Result<()> {
    // Relative names from here on: the path of a socket is limited to about a hundred bytes.
    std::env::set_current_dir(folder)?;
    // Not truncated: it names the keeper that holds the lock.
    let mut options = private::options();
    let mut lock = options.create(true).truncate(false).read(true).write(true).open(KEEPER_LOCK)?;
    if !become_the_one(&mut lock)? {
        return say_ready();
    }
    sys::new_session()?;
    sys::become_subreaper()?;
    let signals = Signals::block(&[libc::SIGCHLD, libc::SIGINT, libc::SIGHUP]);
    let _ = fs::remove_file(KEEPER_SOCKET);
    let _ = fs::remove_file(STEPS_SOCKET);
    let steps = UnixListener::bind(STEPS_SOCKET)?;
    // A connection can wake several reapers if an earlier one is just leaving; only one accepts it.
    steps.set_nonblocking(true)?;
    let listener = UnixListener::bind(KEEPER_SOCKET)?;
    for socket in [STEPS_SOCKET, KEEPER_SOCKET] {
        private::tighten(Path::new(socket))?;
    }
    say_ready()?;
    let mut server = Server {
        lock: Some(lock),
        signal_fd: Some(signals.descriptor()?),
        listener: Some(listener),
        steps,
        orchestrator: None,
        inherited: Vec::new(),
        census: Census::memory(),
        reapers: HashSet::new(),
        waiting: None,
        leaving_since: None,
    };
    let outcome = server.run();
    // A stopped reaper sees that it is no longer needed when it is continued.
    for reaper in &server.reapers {
        sys::wake(*reaper);
    }
    let _ = fs::remove_file(KEEPER_SOCKET);
    let _ = fs::remove_file(STEPS_SOCKET);
    outcome
}

/// Whether this process is the run's keeper. If not, another one answers. A keeper that holds the lock but does
/// not answer is starting or leaving: wait for it, and kill it if it does neither.
fn become_the_one(lock: &mut File) -> io::Result<bool> {
    const PATIENCE: Duration = Duration::from_secs(10);
    const INTERVAL: Duration = Duration::from_millis(2);
    let deadline = Instant::now() + PATIENCE;
    while lock.try_lock().is_err() {
        if sys::connect(Path::new(KEEPER_SOCKET), PATIENCE).is_ok() {
            return Ok(false);
        }
        if Instant::now() >= deadline {
            let mut holder = String::new();
            lock.rewind()?;
            (&*lock).take(HOLDER_BYTES_MAX).read_to_string(&mut holder)?;
            let holder = holder.trim().parse().map_err(|_| {
                io::Error::other("another keeper holds the lock but does not answer")
            })?;
            client::kill(Path::new("."), holder)?;
        }
        std::thread::sleep(INTERVAL);
    }
    lock.set_len(0)?;
    lock.rewind()?;
    writeln!(lock, "{}", std::process::id())?;
    Ok(true)
}

/// Tells the orchestrator that it can connect.
fn say_ready() -> io::Result<()> {
    let mut stdout = io::stdout();
    stdout.write_all(b"ready\n")?;
    stdout.flush()
}

struct Server {
    lock: Option<File>,
    signal_fd: Option<OwnedFd>,
    listener: Option<UnixListener>,
    steps: UnixListener,
    orchestrator: Option<OrchestratorConnection>,
    inherited: Vec<CString>,
    /// What its reapers share.
    census: Option<File>,
    reapers: HashSet<Pid>,
    /// The one of them that waits for a connection.
    waiting: Option<Waiting>,
    /// When the orchestrator sent `Shutdown`.
    leaving_since: Option<Instant>,
}

/// A reaper that waits for a connection. It closes its end of the pipe when it has one, and leaves when
/// the keeper closes this end.
struct Waiting {
    pid: Pid,
    pipe: UnixStream,
}

struct OrchestratorConnection {
    stream: UnixStream,
    /// The beginning of a request that has not all arrived.
    partial: Vec<u8>,
}

/// What wakes the keeper.
enum ServerEvent {
    ChildEnded,
    Connected,
    Request,
    ReaperTaken,
}

impl Server {
    fn run(&mut self) -> io::Result<()> {
        loop {
            let has_steps = self.reapers.len() > usize::from(self.waiting.is_some());
            let is_needed = self.orchestrator.is_some() || has_steps;
            if self.leaving_since.is_some() && self.reapers.is_empty() {
                return Ok(());
            }
            let is_leaving = self.leaving_since.is_some();
            let is_ready = self.orchestrator.is_none() || is_leaving || self.stand_by();
            let patience = match (is_needed, self.leaving_since) {
                (true, Some(since)) => Some(self.hurry(since)),
                (true, None) => (!is_ready).then_some(FORK_INTERVAL),
                (false, _) => Some(LINGER),
            };
            match self.next_event(patience)? {
                None if !is_needed => return Ok(()),
                None => {}
                Some(ServerEvent::ChildEnded) => self.collect(),
                Some(ServerEvent::Connected) => self.accept(),
                Some(ServerEvent::Request) => self.read()?,
                Some(ServerEvent::ReaperTaken) => self.waiting = None,
            }
        }
    }

    fn next_event(&self, patience: Option<Duration>) -> io::Result<Option<ServerEvent>> {
        let sources = [
            self.signal_fd.as_ref().map(|fd| (fd.as_raw_fd(), ServerEvent::ChildEnded)),
            self.listener.as_ref().map(|listener| (listener.as_raw_fd(), ServerEvent::Connected)),
            self.orchestrator
                .as_ref()
                .map(|connection| (connection.stream.as_raw_fd(), ServerEvent::Request)),
            self.waiting.as_ref().map(|reaper| (reaper.pipe.as_raw_fd(), ServerEvent::ReaperTaken)),
        ];
        let (fds, mut events): (Vec<_>, Vec<_>) = sources.into_iter().flatten().unzip();
        Ok(sys::poll(&fds, patience)?.map(|index| events.swap_remove(index)))
    }

    /// Kills reapers that have not left in time. Returns how long to wait for them.
    fn hurry(&self, leaving_since: Instant) -> Duration {
        let left = LEAVE_PATIENCE.saturating_sub(leaving_since.elapsed());
        if !left.is_zero() {
            return left;
        }
        for reaper in &self.reapers {
            sys::kill(*reaper, libc::SIGKILL);
        }
        LEAVE_PATIENCE
    }

    /// Makes sure that a reaper waits for the next connection; `false` if none can be forked. It is forked
    /// while earlier steps run, so that the next step does not wait for it.
    fn stand_by(&mut self) -> bool {
        if self.waiting.is_none() {
            self.waiting = self.fork_reaper().ok();
        }
        self.waiting.is_some()
    }

    fn accept(&mut self) {
        // Only the orchestrator that holds the run's lock connects; an earlier one is gone.
        let accepted = self.listener.as_ref().map(UnixListener::accept);
        if let Some(Ok((stream, _))) = accepted
            && sys::is_own_peer(&stream)
        {
            // The orchestrator that sent `Shutdown` is gone, but a busy reaper keeps this keeper alive.
            // Serve the next orchestrator.
            self.leaving_since = None;
            self.orchestrator = Some(OrchestratorConnection { stream, partial: Vec::new() });
        }
    }

    fn read(&mut self) -> io::Result<()> {
        let Some(connection) = &mut self.orchestrator else {
            return Ok(());
        };
        let mut chunk = vec![0; 64 * 1024];
        let length = connection.stream.read(&mut chunk).unwrap_or(0);
        if length == 0 || connection.partial.len() > REQUEST_BYTES_MAX {
            self.orchestrator = None;
            return Ok(());
        }
        connection.partial.extend_from_slice(&chunk[..length]);
        let Some(end) = connection.partial.iter().rposition(|byte| *byte == b'\n') else {
            return Ok(());
        };
        let rest = connection.partial.split_off(end + 1);
        let complete = std::mem::replace(&mut connection.partial, rest);
        for line in complete.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            self.request(serde_json::from_slice(line)?);
        }
        Ok(())
    }

    fn request(&mut self, request: Request) {
        match request {
            Request::Hello { environment } => {
                let variables =
                    environment.into_iter().filter_map(|bytes| CString::new(bytes).ok());
                self.inherited = variables.collect();
                // A waiting reaper would give its children the environment of an orchestrator that is
                // gone. It leaves, unless it has just got a connection.
                self.waiting = None;
                if let Some(connection) = &mut self.orchestrator {
                    let _ = connection.stream.write_all(ANSWER);
                }
            }
            Request::Shutdown => {
                self.leaving_since = Some(Instant::now());
                self.waiting = None;
                for reaper in &self.reapers {
                    // Also if the reaper is stopped: then it could neither end its step nor leave.
                    sys::end_process(*reaper, true);
                }
            }
        }
    }

    fn fork_reaper(&mut self) -> io::Result<Waiting> {
        let (pipe, theirs) = UnixStream::pair()?;
        match sys::fork()? {
            ForkSide::Parent(pid) => {
                self.reapers.insert(pid);
                Ok(Waiting { pid, pipe })
            }
            ForkSide::Child => {
                drop(pipe);
                // A reaper must keep nothing of the keeper open: with its lock no other keeper could
                // start, and its sockets would seem to answer.
                self.lock = None;
                self.listener = None;
                self.orchestrator = None;
                self.signal_fd = None;
                let census = Census::open(self.census.as_ref());
                sys::exit_now(post::serve(&self.steps, theirs, &self.inherited, &census))
            }
        }
    }

    /// Collects children that have ended. A killed reaper could not sweep: its descendants are the keeper's
    /// children now. All children of the keeper that are not reapers are killed.
    fn collect(&mut self) {
        // One signal can stand for several children.
        if let Some(Ok(signals)) = self.signal_fd.as_ref().map(OwnedFd::try_clone) {
            let _ = File::from(signals).read(&mut [0; 128]);
        }
        let (mut has_orphans, mut lost_reaper) = (false, false);
        while let Ok(Waited::Child(pid, ended)) = sys::wait_any() {
            self.waiting.take_if(|reaper| reaper.pid == pid);
            let is_reaper = self.reapers.remove(&pid);
            let is_clean = ended == sys::ChildExit::Code(0);
            lost_reaper |= is_reaper && !is_clean;
            has_orphans |= !is_reaper || !is_clean;
        }
        if has_orphans {
            let own = Pid::try_from(std::process::id()).unwrap_or_default();
            for pid in processes::children(own) {
                if !self.reapers.contains(&pid) {
                    sys::kill(pid, libc::SIGKILL);
                }
            }
        }
        if lost_reaper {
            // Only the step directories show which step it had, if any.
            Notifier::default().tell(REAPER_GONE);
        }
    }
}
