//! The keeper process itself.

use std::{
    collections::HashMap,
    ffi::CString,
    fs::{self, File},
    io::{self, BufRead as _, BufReader, Read, Write},
    os::{
        fd::{AsRawFd, OwnedFd},
        unix::net::{UnixListener, UnixStream},
    },
    path::Path,
    time::{Duration, Instant},
};

use super::{
    processes,
    protocol::{KEEPER_LOCK, KEEPER_SOCKET, Launch, Request, SPARE_FOLDERS},
    reaper::{self, SpareReaper},
};
use crate::sys::{self, Forked, Pid, Signals, Waited};

/// How long a keeper without an orchestrator and without steps waits for somebody to come back.
const LINGER: Duration = Duration::from_secs(2);

/// Is the keeper of the run in `folder`, until nobody needs one. Says `ready` on standard output
/// once it listens; ends at once if the run has a keeper already.
pub fn serve(folder: &Path) -> io::Result<()> {
    // Relative names from here on: the path of a socket has hardly a hundred bytes.
    std::env::set_current_dir(folder)?;
    let lock = File::create(KEEPER_LOCK)?;
    if !become_the_one(&lock)? {
        return say_ready();
    }
    sys::new_session()?;
    sys::become_subreaper()?;
    let signals = Signals::block(&[libc::SIGCHLD, libc::SIGINT, libc::SIGHUP]);
    let _ = fs::remove_file(KEEPER_SOCKET);
    // What a killed keeper had prepared stays until the run is over: a reaper of its own may just
    // be renaming it.
    fs::create_dir_all(SPARE_FOLDERS)?;
    let listener = UnixListener::bind(KEEPER_SOCKET)?;
    say_ready()?;
    let mut server = Server {
        lock: Some(lock),
        signal_fd: Some(signals.descriptor()?),
        listener: Some(listener),
        orchestrator: None,
        inherited: Vec::new(),
        reapers: HashMap::new(),
        spare: None,
        is_leaving: false,
    };
    let outcome = server.run();
    let _ = fs::remove_file(KEEPER_SOCKET);
    outcome
}

/// Whether this process is the run's keeper. If there is another, it is one that answers: one that
/// is about to begin or to go is waited for.
fn become_the_one(lock: &File) -> io::Result<bool> {
    const PATIENCE: Duration = Duration::from_secs(10);
    const INTERVAL: Duration = Duration::from_millis(2);
    let deadline = Instant::now() + PATIENCE;
    while lock.try_lock().is_err() {
        if UnixStream::connect(KEEPER_SOCKET).is_ok() {
            return Ok(false);
        }
        if Instant::now() >= deadline {
            return Err(io::Error::other("another keeper neither answers nor goes"));
        }
        std::thread::sleep(INTERVAL);
    }
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
    orchestrator: Option<Connection>,
    inherited: Vec<CString>,
    /// Which step each reaper guards; nothing for the spare one.
    reapers: HashMap<Pid, Option<String>>,
    spare: Option<Spare>,
    is_leaving: bool,
}

/// A reaper that waits for a step. It ends when this end of the pipe is dropped.
struct Spare {
    pid: Pid,
    pipe: UnixStream,
}

/// The life of a reaper: get ready, wait for a step, see it through. Returns its exit code.
fn wait_for_step(pipe: UnixStream, inherited: &[CString]) -> i32 {
    let Ok(reaper) = SpareReaper::prepare() else {
        return 1;
    };
    let mut line = Vec::new();
    let read = BufReader::new(pipe).read_until(b'\n', &mut line);
    match (read, serde_json::from_slice::<Launch>(&line)) {
        (Ok(length), Ok(launch)) if length > 0 => reaper.run(&launch, inherited),
        _ => {
            reaper.dismiss();
            0
        }
    }
}

struct Connection {
    stream: UnixStream,
    /// The beginning of a request that has not all arrived.
    partial: Vec<u8>,
}

impl Server {
    fn run(&mut self) -> io::Result<()> {
        loop {
            let has_steps = self.reapers.values().any(Option::is_some);
            let is_needed = self.orchestrator.is_some() || has_steps;
            if self.is_leaving && !has_steps {
                return Ok(());
            }
            let (Some(signal_fd), Some(listener)) = (&self.signal_fd, &self.listener) else {
                return Ok(());
            };
            let mut fds = vec![signal_fd.as_raw_fd(), listener.as_raw_fd()];
            fds.extend(self.orchestrator.as_ref().map(|connection| connection.stream.as_raw_fd()));
            let patience = if is_needed { None } else { Some(LINGER) };
            match sys::poll(&fds, patience)? {
                None if !is_needed => return Ok(()),
                None => {}
                Some(0) => {
                    // The number of signals says nothing about the number of children.
                    let mut information = [0; 128];
                    let _ = File::from(signal_fd.try_clone()?).read(&mut information);
                    self.collect();
                }
                Some(1) => self.accept(),
                Some(_) => self.read()?,
            }
        }
    }

    fn accept(&mut self) {
        // Whoever holds the run's lock connects; an older orchestrator is gone.
        let accepted = self.listener.as_ref().map(UnixListener::accept);
        if let Some(Ok((stream, _))) = accepted {
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
            self.request(serde_json::from_slice(line)?)?;
        }
        Ok(())
    }

    fn request(&mut self, request: Request) -> io::Result<()> {
        match request {
            Request::Hello { environment } => {
                let variables =
                    environment.into_iter().filter_map(|bytes| CString::new(bytes).ok());
                self.inherited = variables.collect();
                // A spare one would hand on the environment of somebody who is gone.
                self.spare = None;
                self.spare = self.fork_spare().ok();
            }
            Request::Launch(launch) => {
                self.launch(&launch)?;
                // Ready before the next step is: it is made while this one runs. If there can be
                // none now, the next step gets one of its own.
                self.spare = self.fork_spare().ok();
            }
            Request::Shutdown => {
                self.is_leaving = true;
                self.spare = None;
                for (pid, name) in &self.reapers {
                    if name.is_some() {
                        sys::kill(*pid, libc::SIGTERM);
                    }
                }
            }
        }
        Ok(())
    }

    fn launch(&mut self, launch: &Launch) -> io::Result<()> {
        let mut line = serde_json::to_vec(launch)?;
        line.push(b'\n');
        // A reaper without the whole line claims nothing, so another may be asked.
        if let Some(mut spare) = self.spare.take()
            && spare.pipe.write_all(&line).is_ok()
        {
            self.reapers.insert(spare.pid, Some(launch.name()));
            return Ok(());
        }
        let mut spare = self.fork_spare()?;
        self.reapers.insert(spare.pid, Some(launch.name()));
        spare.pipe.write_all(&line)
    }

    fn fork_spare(&mut self) -> io::Result<Spare> {
        let (pipe, theirs) = UnixStream::pair()?;
        match sys::fork()? {
            Forked::Parent(pid) => {
                self.reapers.insert(pid, None);
                Ok(Spare { pid, pipe })
            }
            Forked::Child => {
                drop(pipe);
                // Nothing of the keeper's may live on in a reaper: its lock would keep the next
                // keeper out, its sockets would seem to answer.
                self.lock = None;
                self.listener = None;
                self.orchestrator = None;
                self.signal_fd = None;
                self.spare = None;
                sys::exit_now(wait_for_step(theirs, &self.inherited))
            }
        }
    }

    /// Collects children that ended. A reaper that did not end by itself could not sweep: its
    /// descendants are ours now, and all that is ours and no reaper is ended.
    fn collect(&mut self) {
        let mut has_orphans = false;
        while let Ok(Waited::Child(pid, ended)) = sys::wait_any() {
            if self.spare.as_ref().is_some_and(|spare| spare.pid == pid) {
                self.spare = None;
            }
            match self.reapers.remove(&pid) {
                Some(_) if ended == sys::Ended::Code(0) => {}
                Some(name) => {
                    if let Some(name) = name {
                        reaper::notify(&name);
                    }
                    has_orphans = true;
                }
                None => has_orphans = true,
            }
        }
        if has_orphans {
            let own = Pid::try_from(std::process::id()).unwrap_or_default();
            for pid in processes::children(own) {
                if !self.reapers.contains_key(&pid) {
                    sys::kill(pid, libc::SIGKILL);
                }
            }
        }
    }
}
