//! The keeper process itself.

use std::{
    collections::{HashMap, VecDeque},
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
    client,
    launch::SPARE_FOLDERS,
    post::{self, BUSY},
    processes,
    protocol::{KEEPER_LOCK, KEEPER_SOCKET, Request, STEPS_SOCKET},
};
use crate::{
    inbox::{Notifier, REAPER_GONE},
    private,
    sys::{self, Forked, Pid, Signals, Waited},
};

/// How long a keeper without an orchestrator and without steps waits for somebody to come back.
const LINGER: Duration = Duration::from_secs(2);
/// How many reapers come back for another step. Two are enough to take turns in a chain of steps;
/// of many agents at once each gets one of its own.
const STANDING_MAX: usize = 2;
/// How long reapers may take to go: grace and sweep of their last steps.
const LEAVE_PATIENCE: Duration = Duration::from_secs(10);
/// The longest process id, and then some.
const HOLDER_BYTES_MAX: u64 = 32;
/// How soon a reaper is tried again that could not be forked.
const FORK_INTERVAL: Duration = Duration::from_millis(100);

/// Is the keeper of the run in `folder`, until nobody needs one. Says `ready` on standard output
/// once it listens; ends at once if the run has a keeper already.
pub fn serve(folder: &Path) -> io::Result<()> {
    // Relative names from here on: the path of a socket has hardly a hundred bytes.
    std::env::set_current_dir(folder)?;
    // Not emptied: it names the keeper that holds it.
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
    // What a killed keeper had prepared stays until the run is over: a reaper of its own may just
    // be renaming it.
    private::create_dir_all(Path::new(SPARE_FOLDERS))?;
    let steps = UnixListener::bind(STEPS_SOCKET)?;
    // Several may be woken by one call, and only one gets it.
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
        can_hold: sys::can_hold(),
        reapers: HashMap::new(),
        standing: VecDeque::new(),
        leaving_since: None,
    };
    let outcome = server.run();
    // One that is stopped sees only when it is woken that it is not needed any more.
    for reaper in server.reapers.keys() {
        sys::wake(*reaper);
    }
    let _ = fs::remove_file(KEEPER_SOCKET);
    let _ = fs::remove_file(STEPS_SOCKET);
    outcome
}

/// Whether this process is the run's keeper. If there is another, it is one that answers: one that
/// is about to begin or to go is waited for, and killed if it does neither.
fn become_the_one(lock: &mut File) -> io::Result<bool> {
    const PATIENCE: Duration = Duration::from_secs(10);
    const INTERVAL: Duration = Duration::from_millis(2);
    let deadline = Instant::now() + PATIENCE;
    while lock.try_lock().is_err() {
        if UnixStream::connect(KEEPER_SOCKET).is_ok() {
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
    orchestrator: Option<Connection>,
    inherited: Vec<CString>,
    can_hold: bool,
    /// Whether each reaper guards a step, or may do so.
    reapers: HashMap<Pid, bool>,
    /// Those that come back for another step, the longest-serving first.
    standing: VecDeque<Standing>,
    /// When the orchestrator asked to go.
    leaving_since: Option<Instant>,
}

/// A reaper that waits for a step or will do so again. It tells when that changes, and leaves when
/// it has no step and this end of the pipe is dropped.
struct Standing {
    pid: Pid,
    pipe: UnixStream,
}

struct Connection {
    stream: UnixStream,
    /// The beginning of a request that has not all arrived.
    partial: Vec<u8>,
}

/// Who wants something of the keeper.
enum Caller {
    Child,
    Newcomer,
    Orchestrator,
    Reaper(usize),
}

impl Server {
    fn run(&mut self) -> io::Result<()> {
        loop {
            let has_steps = self.reapers.values().any(|is_busy| *is_busy);
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
            match self.next_caller(patience)? {
                None if !is_needed => return Ok(()),
                None => {}
                Some(Caller::Child) => self.collect(),
                Some(Caller::Newcomer) => self.accept(),
                Some(Caller::Orchestrator) => self.read()?,
                Some(Caller::Reaper(index)) => self.hear_reaper(index),
            }
        }
    }

    fn next_caller(&self, patience: Option<Duration>) -> io::Result<Option<Caller>> {
        let own = [
            self.signal_fd.as_ref().map(|fd| (fd.as_raw_fd(), Caller::Child)),
            self.listener.as_ref().map(|listener| (listener.as_raw_fd(), Caller::Newcomer)),
            self.orchestrator
                .as_ref()
                .map(|connection| (connection.stream.as_raw_fd(), Caller::Orchestrator)),
        ];
        let reapers = self.standing.iter().enumerate();
        let reapers =
            reapers.map(|(index, reaper)| (reaper.pipe.as_raw_fd(), Caller::Reaper(index)));
        let (fds, mut callers): (Vec<_>, Vec<_>) = own.into_iter().flatten().chain(reapers).unzip();
        Ok(sys::poll(&fds, patience)?.map(|index| callers.swap_remove(index)))
    }

    /// Kills reapers that have not gone in time. Returns how long to wait for them.
    fn hurry(&self, leaving_since: Instant) -> Duration {
        let left = LEAVE_PATIENCE.saturating_sub(leaving_since.elapsed());
        if !left.is_zero() {
            return left;
        }
        for reaper in self.reapers.keys() {
            sys::kill(*reaper, libc::SIGKILL);
        }
        LEAVE_PATIENCE
    }

    /// Makes sure that somebody waits for the next step; tells whether anybody does. That is
    /// made while the step before runs, so that it is ready before the next one is.
    fn stand_by(&mut self) -> bool {
        let is_idle = |reaper: &Standing| self.reapers.get(&reaper.pid) == Some(&false);
        if self.standing.iter().any(is_idle) {
            return true;
        }
        let Ok(reaper) = self.fork_reaper() else {
            return false;
        };
        self.standing.push_back(reaper);
        if self.standing.len() > STANDING_MAX {
            self.standing.pop_front();
        }
        true
    }

    /// A standing reaper has taken a step, or is done with it, or is gone.
    fn hear_reaper(&mut self, index: usize) {
        let reaper = &mut self.standing[index];
        let mut word = [0];
        match reaper.pipe.read(&mut word) {
            Ok(1) => {
                self.reapers.insert(reaper.pid, word == BUSY);
            }
            _ => drop(self.standing.remove(index)),
        }
    }

    fn accept(&mut self) {
        // Whoever holds the run's lock connects; an older orchestrator is gone.
        let accepted = self.listener.as_ref().map(UnixListener::accept);
        if let Some(Ok((stream, _))) = accepted
            && sys::is_own_peer(&stream)
        {
            // Whoever sent us away is gone, and somebody that it left behind has kept us.
            self.leaving_since = None;
            self.orchestrator = Some(Connection { stream, partial: Vec::new() });
        }
    }

    fn read(&mut self) -> io::Result<()> {
        let Some(connection) = &mut self.orchestrator else {
            return Ok(());
        };
        let mut chunk = vec![0; 64 * 1024];
        let length = connection.stream.read(&mut chunk).unwrap_or(0);
        if length == 0 {
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
                // One that stands by would hand on the environment of somebody who is gone. It
                // leaves, unless it has just taken a step, and then it cannot tell any more.
                for reaper in self.standing.drain(..) {
                    self.reapers.insert(reaper.pid, true);
                }
                if let Some(connection) = &mut self.orchestrator {
                    let _ = connection.stream.write_all(b"ok\n");
                }
            }
            Request::Shutdown => {
                self.leaving_since = Some(Instant::now());
                self.standing.clear();
                for (pid, is_busy) in &self.reapers {
                    if *is_busy {
                        sys::kill(*pid, libc::SIGTERM);
                    }
                    // One that is stopped can neither end its step nor go.
                    sys::wake(*pid);
                }
            }
        }
    }

    fn fork_reaper(&mut self) -> io::Result<Standing> {
        let (pipe, theirs) = UnixStream::pair()?;
        match sys::fork()? {
            Forked::Parent(pid) => {
                self.reapers.insert(pid, false);
                Ok(Standing { pid, pipe })
            }
            Forked::Child => {
                drop(pipe);
                // Nothing of the keeper's may live on in a reaper: its lock would keep the next
                // keeper out, its sockets would seem to answer.
                self.lock = None;
                self.listener = None;
                self.orchestrator = None;
                self.signal_fd = None;
                self.standing.clear();
                sys::exit_now(post::stand_by(&self.steps, theirs, &self.inherited, self.can_hold))
            }
        }
    }

    /// Collects children that ended. A reaper that did not end by itself could not sweep: its
    /// descendants are ours now, and all that is ours and no reaper is ended.
    fn collect(&mut self) {
        // The number of signals says nothing about the number of children.
        if let Some(Ok(signals)) = self.signal_fd.as_ref().map(OwnedFd::try_clone) {
            let _ = File::from(signals).read(&mut [0; 128]);
        }
        let (mut has_orphans, mut lost_reaper) = (false, false);
        while let Ok(Waited::Child(pid, ended)) = sys::wait_any() {
            self.standing.retain(|reaper| reaper.pid != pid);
            let is_reaper = self.reapers.remove(&pid).is_some();
            let is_clean = ended == sys::Ended::Code(0);
            lost_reaper |= is_reaper && !is_clean;
            has_orphans |= !is_reaper || !is_clean;
        }
        if has_orphans {
            let own = Pid::try_from(std::process::id()).unwrap_or_default();
            for pid in processes::children(own) {
                if !self.reapers.contains_key(&pid) {
                    sys::kill(pid, libc::SIGKILL);
                }
            }
        }
        if lost_reaper {
            // Which step it had, if any, only the steps' folders tell.
            Notifier::default().tell(REAPER_GONE);
        }
    }
}
