//! System calls that only the keeper and its reapers need, which run on Linux.
//!
//! They are single-threaded; functions for any thread say so.

#![expect(unsafe_code, reason = "system calls; every block says why it is sound")]

use std::{
    ffi::CStr,
    fs::File,
    io::{self, Read as _},
    os::{
        fd::{AsRawFd, FromRawFd, OwnedFd, RawFd},
        unix::{ffi::OsStrExt as _, net::UnixStream},
    },
    path::Path,
    time::Duration,
};

use super::unix::{Pid, Signals, c_string, check};

/// Which side of a fork this is.
pub(crate) enum ForkSide {
    /// The new process.
    Child,
    /// The old one.
    Parent(Pid),
}

/// Forks the process. For single-threaded processes only: the child continues to run Rust code.
pub(crate) fn fork() -> io::Result<ForkSide> {
    // SAFETY: the keeper has one thread, so no lock can be held by a thread that the child lacks.
    match check(unsafe { libc::fork() })? {
        0 => Ok(ForkSide::Child),
        pid => Ok(ForkSide::Parent(pid)),
    }
}

/// Exits at once, without running destructors that belong to the parent.
pub(crate) fn exit_now(code: i32) -> ! {
    // SAFETY: `_exit` has no preconditions.
    unsafe { libc::_exit(code) }
}

/// Makes this process the new parent of all its orphaned descendants.
pub(crate) fn become_subreaper() -> io::Result<()> {
    // SAFETY: a plain flag of this process.
    check(unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) }).map(drop)
}

/// Starts a new session, detached from the terminal and its signals.
pub(crate) fn new_session() -> io::Result<()> {
    // SAFETY: no memory is involved.
    check(unsafe { libc::setsid() }).map(drop)
}

/// How a child ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChildExit {
    /// It exited with this code.
    Code(i32),
    /// It was killed by this signal.
    Signal(i32),
}

/// The result of waiting for any child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Waited {
    /// This child ended in this way.
    Child(Pid, ChildExit),
    /// No child has ended.
    None,
    /// There are no children.
    NoChildren,
}

/// Collects one child that ended, without waiting.
pub(crate) fn wait_any() -> io::Result<Waited> {
    let mut status = 0;
    // SAFETY: `status` outlives the call.
    let pid = unsafe { libc::waitpid(-1, &raw mut status, libc::WNOHANG) };
    match pid {
        0 => Ok(Waited::None),
        -1 => {
            let error = io::Error::last_os_error();
            match error.raw_os_error() {
                Some(libc::ECHILD) => Ok(Waited::NoChildren),
                Some(libc::EINTR) => Ok(Waited::None),
                _ => Err(error),
            }
        }
        // Only a child that asked to be traced by its parent is reported when it stops. It has not ended.
        _ if libc::WIFSTOPPED(status) => Ok(Waited::None),
        pid if libc::WIFSIGNALED(status) => {
            Ok(Waited::Child(pid, ChildExit::Signal(libc::WTERMSIG(status))))
        }
        pid => Ok(Waited::Child(pid, ChildExit::Code(libc::WEXITSTATUS(status)))),
    }
}

impl Signals {
    /// The next of these signals, or `None` after `timeout`.
    pub(crate) fn wait(&self, timeout: Duration) -> Option<i32> {
        let time = libc::timespec {
            tv_sec: timeout.as_secs().try_into().unwrap_or(i64::MAX),
            tv_nsec: libc::c_long::from(timeout.subsec_nanos().cast_signed()),
        };
        // SAFETY: both arguments outlive the call; no information about the signal is wanted.
        let signal = unsafe {
            libc::sigtimedwait(&raw const self.set, std::ptr::null_mut(), &raw const time)
        };
        (signal > 0).then_some(signal)
    }

    /// A descriptor that is readable while one of these signals is pending.
    pub(crate) fn descriptor(&self) -> io::Result<OwnedFd> {
        let flags = libc::SFD_CLOEXEC | libc::SFD_NONBLOCK;
        // SAFETY: the set outlives the call, and nothing else owns the new descriptor.
        unsafe {
            let fd = check(libc::signalfd(-1, &raw const self.set, flags))?;
            Ok(OwnedFd::from_raw_fd(fd))
        }
    }
}

/// Waits until one of `fds` is readable or closed; returns its index. `None` after `timeout`.
pub(crate) fn poll(fds: &[RawFd], timeout: Option<Duration>) -> io::Result<Option<usize>> {
    let mut entries: Vec<_> =
        fds.iter().map(|fd| libc::pollfd { fd: *fd, events: libc::POLLIN, revents: 0 }).collect();
    let milliseconds = timeout.map_or(-1, |timeout| {
        // Rounded up: a loop with a little time left must not spin.
        let milliseconds = timeout.as_nanos().div_ceil(1_000_000);
        libc::c_int::try_from(milliseconds).unwrap_or(libc::c_int::MAX)
    });
    let count = entries.len() as libc::nfds_t;
    // SAFETY: `entries` holds `count` entries and outlives the call.
    let ready = unsafe { libc::poll(entries.as_mut_ptr(), count, milliseconds) };
    if ready == -1 {
        let error = io::Error::last_os_error();
        return if error.raw_os_error() == Some(libc::EINTR) { Ok(None) } else { Err(error) };
    }
    Ok(entries.iter().position(|entry| entry.revents != 0))
}

/// Connects to the socket at `path`. If its backlog is full, it waits for at most `patience`, and then
/// fails with `WouldBlock`. For any thread.
pub(crate) fn connect(path: &Path, patience: Duration) -> io::Result<UnixStream> {
    let bytes = path.as_os_str().as_bytes();
    // SAFETY: the address is valid when zeroed, and stays terminated by a zero; all arguments outlive
    // their calls, which are told how long they are. Nothing else owns the new descriptor.
    unsafe {
        let mut address: libc::sockaddr_un = std::mem::zeroed();
        if bytes.is_empty() || bytes.len() >= address.sun_path.len() {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        address.sun_family =
            libc::sa_family_t::try_from(libc::AF_UNIX).map_err(io::Error::other)?;
        for (to, from) in address.sun_path.iter_mut().zip(bytes) {
            // Signed on some processors, unsigned on others.
            *to = libc::c_char::from_ne_bytes([*from]);
        }
        let kind = libc::SOCK_STREAM | libc::SOCK_CLOEXEC;
        let stream = UnixStream::from_raw_fd(check(libc::socket(libc::AF_UNIX, kind, 0))?);
        // The write timeout also limits connecting.
        stream.set_write_timeout(Some(patience))?;
        let length = libc::socklen_t::try_from(size_of_val(&address)).map_err(io::Error::other)?;
        check(libc::connect(stream.as_raw_fd(), (&raw const address).cast(), length))?;
        stream.set_write_timeout(None)?;
        Ok(stream)
    }
}

/// The process at the other end of a socket: of one that was connected to a listener, the process
/// that listens. For any thread.
pub(crate) fn peer(socket: &UnixStream) -> io::Result<Pid> {
    credentials(socket).map(|peer| peer.pid)
}

/// Whether the process at the other end of a connection belongs to the same user as this one.
pub(crate) fn is_own_peer(socket: &UnixStream) -> bool {
    credentials(socket).is_ok_and(|peer| peer.uid == super::user())
}

/// The credentials of the other end of a connection, as the kernel recorded them when it was made.
fn credentials(socket: &UnixStream) -> io::Result<libc::ucred> {
    // SAFETY: the structure is filled in by the call, which is told how long it is.
    unsafe {
        let mut peer: libc::ucred = std::mem::zeroed();
        let mut length = libc::socklen_t::try_from(size_of_val(&peer)).map_err(io::Error::other)?;
        let (fd, option) = (socket.as_raw_fd(), libc::SO_PEERCRED);
        let to = (&raw mut peer).cast();
        check(libc::getsockopt(fd, libc::SOL_SOCKET, option, to, &raw mut length))?;
        Ok(peer)
    }
}

/// Tells when a file is written to, and when files in a directory are given their names. One instance of the system's
/// for both: a user may have few of them.
pub(crate) struct Watch {
    events: File,
    /// The watched directory, as the system numbers it.
    names: Option<i32>,
}

impl Watch {
    /// Watches the file at `path`.
    pub(crate) fn new(path: &Path) -> io::Result<Self> {
        // SAFETY: nothing else owns the new descriptor.
        let events = unsafe {
            let fd = check(libc::inotify_init1(libc::IN_CLOEXEC | libc::IN_NONBLOCK))?;
            File::from_raw_fd(fd)
        };
        let watch = Self { events, names: None };
        watch.add(path, libc::IN_MODIFY)?;
        Ok(watch)
    }

    fn add(&self, path: &Path, events: u32) -> io::Result<i32> {
        let path = c_string(path.as_os_str())?;
        // SAFETY: `path` is a C string and outlives the call.
        check(unsafe { libc::inotify_add_watch(self.fd(), path.as_ptr(), events) })
    }

    /// Watches the directory at `path` for files that are given their names, instead of the one before.
    pub(crate) fn watch_names(&mut self, path: &Path) -> io::Result<()> {
        if let Some(before) = self.names.take() {
            // SAFETY: no memory is involved.
            check(unsafe { libc::inotify_rm_watch(self.fd(), before) })?;
        }
        self.names = Some(self.add(path, libc::IN_MOVED_TO)?);
        Ok(())
    }

    /// Forgets what has happened so far. Returns whether a file was given its name.
    pub(crate) fn clear(&mut self) -> bool {
        let mut chunk = [0; 8 * 1024];
        let mut is_named = false;
        while let Ok(length @ 1..) = self.events.read(&mut chunk) {
            let mut rest = &chunk[..length];
            // Watch, mask, cookie, and the length of the name that follows; four bytes each.
            while let Some((head, more)) = rest.split_first_chunk::<16>() {
                let number = |at: usize| {
                    u32::from_ne_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]])
                };
                is_named |= number(4) & libc::IN_MOVED_TO != 0;
                rest = more.get(number(12) as usize..).unwrap_or_default();
            }
        }
        is_named
    }

    /// A descriptor that is readable when something has happened.
    pub(crate) fn fd(&self) -> RawFd {
        self.events.as_raw_fd()
    }
}

/// A file in memory, which is gone when nobody has it open. `name` is for people who look at `/proc`.
pub(crate) fn memory_file(name: &CStr) -> io::Result<File> {
    // SAFETY: `name` is a C string, and nothing else owns the new descriptor.
    unsafe {
        let fd = check(libc::memfd_create(name.as_ptr(), libc::MFD_CLOEXEC))?;
        Ok(File::from_raw_fd(fd))
    }
}

/// Waits until `fd` is writable, for at most `patience`. `false` if the keeper is gone first; it never
/// writes to its connection, so a readable connection means its end. For any thread.
pub(crate) fn wait_for_room(fd: RawFd, keeper: RawFd, patience: Duration) -> io::Result<bool> {
    let mut entries = [
        libc::pollfd { fd, events: libc::POLLOUT, revents: 0 },
        libc::pollfd { fd: keeper, events: libc::POLLIN, revents: 0 },
    ];
    let milliseconds = libc::c_int::try_from(patience.as_millis()).unwrap_or(libc::c_int::MAX);
    // SAFETY: the entries outlive the call.
    match unsafe { libc::poll(entries.as_mut_ptr(), 2, milliseconds) } {
        0 => Err(io::ErrorKind::TimedOut.into()),
        -1 => {
            let error = io::Error::last_os_error();
            if error.kind() == io::ErrorKind::Interrupted { Ok(true) } else { Err(error) }
        }
        _ => Ok(entries[1].revents == 0),
    }
}

/// Reserves disk space for `bytes`, so that writing them later cannot fail for lack of space.
pub(crate) fn reserve(file: &File, bytes: u32) -> io::Result<()> {
    // SAFETY: the descriptor is open for as long as `file` is.
    let result = unsafe { libc::posix_fallocate(file.as_raw_fd(), 0, libc::off_t::from(bytes)) };
    match result {
        0 => Ok(()),
        code => Err(io::Error::from_raw_os_error(code)),
    }
}

/// Renames a directory or file, unless the new name exists.
pub(crate) fn rename_new(from: &Path, to: &Path) -> io::Result<()> {
    let (from, to) = (c_string(from.as_os_str())?, c_string(to.as_os_str())?);
    let here = libc::AT_FDCWD;
    // SAFETY: both paths are C strings that outlive the call.
    let result = unsafe {
        libc::syscall(
            libc::SYS_renameat2,
            here,
            from.as_ptr(),
            here,
            to.as_ptr(),
            libc::RENAME_NOREPLACE,
        )
    };
    if result == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(test)]
mod tests;
