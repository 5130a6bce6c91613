//! The system calls that the standard library does not have, each behind a safe function.
//!
//! The only file of this crate with `unsafe`. Everything here is for the keeper and its reapers,
//! which are single-threaded, except where a function says otherwise.

#![expect(unsafe_code, reason = "system calls; every block says why it is sound")]

use std::{
    ffi::{CString, OsStr},
    fs::File,
    io,
    os::{
        fd::{AsRawFd, FromRawFd, OwnedFd, RawFd},
        unix::ffi::OsStrExt,
    },
    path::Path,
    time::Duration,
};

/// A process id.
pub(crate) type Pid = libc::pid_t;

fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result == -1 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// Which side of a fork this is.
pub(crate) enum Forked {
    /// The new process.
    Child,
    /// The old one.
    Parent(Pid),
}

/// Splits the process in two. For single-threaded processes only: the child keeps running Rust.
pub(crate) fn fork() -> io::Result<Forked> {
    // SAFETY: the keeper has one thread, so no lock can be held by a thread that the child lacks.
    match check(unsafe { libc::fork() })? {
        0 => Ok(Forked::Child),
        pid => Ok(Forked::Parent(pid)),
    }
}

/// Ends the process at once, without running destructors that belong to the parent.
pub(crate) fn exit_now(code: i32) -> ! {
    // SAFETY: `_exit` has no preconditions.
    unsafe { libc::_exit(code) }
}

/// Makes this process the adoptive parent of all its orphaned descendants.
#[cfg(target_os = "linux")]
pub(crate) fn become_subreaper() -> io::Result<()> {
    // SAFETY: a plain flag of this process.
    check(unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) }).map(drop)
}

/// Elsewhere orphans go to the first process; they can only be found while their parents live.
#[cfg(not(target_os = "linux"))]
pub(crate) fn become_subreaper() -> io::Result<()> {
    Ok(())
}

/// Lets the kernel kill this process when its parent dies.
#[cfg(target_os = "linux")]
pub(crate) fn die_with_parent(parent: Pid) {
    // SAFETY: a plain attribute of this process, and a plain question.
    unsafe {
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL, 0, 0, 0);
        if libc::getppid() != parent {
            // The parent died before the attribute was set.
            libc::_exit(127);
        }
    }
}

/// Elsewhere there is no such attribute.
#[cfg(not(target_os = "linux"))]
pub(crate) fn die_with_parent(_parent: Pid) {}

/// Starts a session of its own, away from the terminal and its signals.
pub(crate) fn new_session() -> io::Result<()> {
    // SAFETY: no memory is involved.
    check(unsafe { libc::setsid() }).map(drop)
}

/// Sends `signal`; a process that is gone is no error.
pub(crate) fn kill(pid: Pid, signal: i32) {
    // SAFETY: no memory is involved. The result only tells whether there was somebody to hear it.
    unsafe {
        libc::kill(pid, signal);
    }
}

/// How a child ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// With this code.
    Code(i32),
    /// By this signal.
    Signal(i32),
}

/// What waiting for any child found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Waited {
    /// This one ended.
    Child(Pid, Ended),
    /// All still run.
    None,
    /// There are none.
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
        pid if libc::WIFSIGNALED(status) => {
            Ok(Waited::Child(pid, Ended::Signal(libc::WTERMSIG(status))))
        }
        pid => Ok(Waited::Child(pid, Ended::Code(libc::WEXITSTATUS(status)))),
    }
}

/// A set of signals that are kept waiting until somebody asks for them.
#[derive(Clone, Copy)]
pub(crate) struct Signals {
    set: libc::sigset_t,
}

impl Signals {
    /// Holds back `signals` in this thread and in all threads that it starts later.
    pub(crate) fn block(signals: &[i32]) -> Self {
        // SAFETY: `set` is initialised by `sigemptyset` before anything reads it.
        unsafe {
            let mut set = std::mem::zeroed();
            libc::sigemptyset(&raw mut set);
            for signal in signals {
                libc::sigaddset(&raw mut set, *signal);
            }
            libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut());
            Self { set }
        }
    }

    /// Lets all signals through again and forgets handlers: for a child that will be another
    /// program.
    pub(crate) fn unblock_all() {
        // SAFETY: as in `block`; only this thread's mask changes.
        unsafe {
            let mut set = std::mem::zeroed();
            libc::sigemptyset(&raw mut set);
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const set, std::ptr::null_mut());
            // Rust ignores SIGPIPE, and what is ignored stays ignored in the next program.
            libc::signal(libc::SIGPIPE, libc::SIG_DFL);
        }
    }

    /// The next of these signals, or `None` after `timeout`.
    #[cfg(target_os = "linux")]
    pub(crate) fn wait(&self, timeout: Duration) -> Option<i32> {
        let time = libc::timespec {
            tv_sec: libc::time_t::try_from(timeout.as_secs()).unwrap_or(libc::time_t::MAX),
            tv_nsec: libc::c_long::from(timeout.subsec_nanos().cast_signed()),
        };
        // SAFETY: both arguments outlive the call; no information about the signal is wanted.
        let signal = unsafe {
            libc::sigtimedwait(&raw const self.set, std::ptr::null_mut(), &raw const time)
        };
        (signal > 0).then_some(signal)
    }

    /// Waits for the next of these signals. May be used by a thread of a larger program.
    pub(crate) fn wait_forever(&self) -> i32 {
        let mut signal = 0;
        // SAFETY: both arguments outlive the call.
        unsafe {
            libc::sigwait(&raw const self.set, &raw mut signal);
        }
        signal
    }

    /// A descriptor that is readable while one of these signals is pending.
    #[cfg(target_os = "linux")]
    pub(crate) fn descriptor(&self) -> io::Result<OwnedFd> {
        let flags = libc::SFD_CLOEXEC | libc::SFD_NONBLOCK;
        // SAFETY: the set outlives the call, and the new descriptor is owned by nobody else.
        unsafe {
            let fd = check(libc::signalfd(-1, &raw const self.set, flags))?;
            Ok(OwnedFd::from_raw_fd(fd))
        }
    }
}

/// Waits until one of `fds` is readable or closed; tells which. `None` after `timeout`.
pub(crate) fn poll(fds: &[RawFd], timeout: Option<Duration>) -> io::Result<Option<usize>> {
    let mut entries: Vec<_> =
        fds.iter().map(|fd| libc::pollfd { fd: *fd, events: libc::POLLIN, revents: 0 }).collect();
    let milliseconds = timeout.map_or(-1, |timeout| {
        libc::c_int::try_from(timeout.as_millis().max(1)).unwrap_or(libc::c_int::MAX)
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

/// Reserves room for `bytes` on the disk, so that writing them later cannot fail for lack of it.
#[cfg(target_os = "linux")]
pub(crate) fn reserve(file: &File, bytes: u32) -> io::Result<()> {
    // SAFETY: the descriptor is open for as long as `file` is.
    let result = unsafe { libc::posix_fallocate(file.as_raw_fd(), 0, libc::off_t::from(bytes)) };
    match result {
        0 => Ok(()),
        code => Err(io::Error::from_raw_os_error(code)),
    }
}

/// Elsewhere the room is taken by writing.
#[cfg(not(target_os = "linux"))]
pub(crate) fn reserve(file: &File, bytes: u32) -> io::Result<()> {
    use std::os::unix::fs::FileExt;
    file.write_all_at(&vec![0; bytes as usize], 0)
}

/// What is free on the disk of `path` for this user, in bytes.
pub(crate) fn free_bytes(path: &Path) -> io::Result<u64> {
    let path = c_string(path.as_os_str())?;
    // SAFETY: `path` is a C string and `info` is filled in before it is read.
    unsafe {
        let mut info: libc::statvfs = std::mem::zeroed();
        check(libc::statvfs(path.as_ptr(), &raw mut info))?;
        #[allow(clippy::useless_conversion, reason = "the fields' types differ by platform")]
        Ok(u64::from(info.f_bavail).saturating_mul(u64::from(info.f_frsize)))
    }
}

/// What becomes of a forked child: directory, descriptors, program. Returns only on failure.
pub(crate) fn become_program(
    program: &[CString],
    environment: &[CString],
    cwd: &Path,
    [stdin, stdout, stderr]: [&File; 3],
) -> io::Error {
    let run = || -> io::Result<()> {
        std::env::set_current_dir(cwd)?;
        for (number, file) in [stdin, stdout, stderr].into_iter().enumerate() {
            let number = RawFd::try_from(number).unwrap_or_default();
            // SAFETY: both descriptors are open; the copies stay open across exec, the originals
            // do not.
            check(unsafe { libc::dup2(file.as_raw_fd(), number) })?;
        }
        Signals::unblock_all();
        let pointers = |strings: &[CString]| {
            let mut pointers: Vec<_> = strings.iter().map(|string| string.as_ptr()).collect();
            pointers.push(std::ptr::null());
            pointers
        };
        let (arguments, variables) = (pointers(program), pointers(environment));
        let Some(name) = program.first() else {
            return Err(io::Error::from_raw_os_error(libc::ENOENT));
        };
        // SAFETY: both arrays end in a null pointer and outlive the call.
        check(unsafe { libc::execve(name.as_ptr(), arguments.as_ptr(), variables.as_ptr()) })?;
        Ok(())
    };
    run().err().unwrap_or_else(io::Error::last_os_error)
}

/// A text for the kernel.
pub(crate) fn c_string(text: &OsStr) -> io::Result<CString> {
    CString::new(text.as_bytes()).map_err(|_| io::Error::from_raw_os_error(libc::EINVAL))
}
