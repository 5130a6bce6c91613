//! The keeper process itself.

use std::{
    collections::HashMap,
    ffi::CString,
    fs::{self, File},
    io::{self, Read, Write},
    os::{
        fd::AsRawFd,
        unix::net::{UnixListener, UnixStream},
    },
    path::Path,
    time::Duration,
};

use super::{
    processes,
    protocol::{KEEPER_LOCK, KEEPER_SOCKET, Request},
    reaper,
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
    if lock.try_lock().is_err() {
        return say_ready();
    }
    sys::new_session()?;
    sys::become_subreaper()?;
    let signals = Signals::block(&[libc::SIGCHLD, libc::SIGINT, libc::SIGHUP]);
    let _ = fs::remove_file(KEEPER_SOCKET);
    let listener = UnixListener::bind(KEEPER_SOCKET)?;
    say_ready()?;
    let mut server = Server {
        signals,
        listener,
        orchestrator: None,
        inherited: Vec::new(),
        reapers: HashMap::new(),
        is_leaving: false,
    };
    let outcome = server.run();
    let _ = fs::remove_file(KEEPER_SOCKET);
    outcome
}

/// Tells the orchestrator that it can connect. The pipe is closed with it, so that no child keeps
/// it open.
fn say_ready() -> io::Result<()> {
    let mut stdout = io::stdout();
    stdout.write_all(b"ready\n")?;
    stdout.flush()
}

struct Server {
    signals: Signals,
    listener: UnixListener,
    orchestrator: Option<Connection>,
    inherited: Vec<CString>,
    /// Which step each reaper guards.
    reapers: HashMap<Pid, String>,
    is_leaving: bool,
}

struct Connection {
    stream: UnixStream,
    /// The beginning of a request that has not all arrived.
    partial: Vec<u8>,
}

impl Server {
    fn run(&mut self) -> io::Result<()> {
        let signal_fd = self.signals.descriptor()?;
        loop {
            let is_needed = self.orchestrator.is_some() || !self.reapers.is_empty();
            if self.is_leaving && self.reapers.is_empty() {
                return Ok(());
            }
            let mut fds = vec![signal_fd.as_raw_fd(), self.listener.as_raw_fd()];
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
        if let Ok((stream, _)) = self.listener.accept() {
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
            }
            Request::Launch(launch) => match sys::fork()? {
                Forked::Child => reaper::run(&launch, &self.inherited),
                Forked::Parent(pid) => {
                    self.reapers.insert(pid, launch.name());
                }
            },
            Request::Shutdown => {
                self.is_leaving = true;
                for pid in self.reapers.keys() {
                    sys::kill(*pid, libc::SIGTERM);
                }
            }
        }
        Ok(())
    }

    /// Collects children that ended. A reaper that did not end by itself could not sweep: its
    /// descendants are ours now, and all that is ours and no reaper is ended.
    fn collect(&mut self) {
        let mut has_orphans = false;
        while let Ok(Waited::Child(pid, ended)) = sys::wait_any() {
            match self.reapers.remove(&pid) {
                Some(_) if ended == sys::Ended::Code(0) => {}
                Some(name) => {
                    reaper::notify(&name);
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
