//! System calls of Linux, macOS and similar systems.

#![expect(unsafe_code, reason = "system calls; every block says why it is sound")]

use std::{
    ffi::{CString, OsStr},
    fs::{self, File, Metadata, Permissions, TryLockError},
    io::{self, Read as _},
    os::unix::{
        ffi::OsStrExt,
        fs::{MetadataExt, PermissionsExt},
    },
    path::Path,
};

use super::processes::{file_of, parent, processes};

/// A process id.
pub(crate) type Pid = libc::pid_t;

pub(super) fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result == -1 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// Sends `signal`; it is not an error if the process is gone.
pub(crate) fn kill(pid: Pid, signal: i32) {
    // SAFETY: no memory is involved. An error only means that the process has ended.
    unsafe {
        libc::kill(pid, signal);
    }
}

/// Asks a process to end (continuing it if it is stopped), or kills it.
pub(crate) fn end_process(pid: Pid, is_polite: bool) {
    kill(pid, if is_polite { libc::SIGTERM } else { libc::SIGKILL });
    kill(pid, libc::SIGCONT);
}

/// The processes of this user whose environment had, when they executed their program, a `variable`
/// whose value satisfies `is_meant`. This process and its ancestors are not among them.
pub(crate) fn processes_with(variable: &str, is_meant: impl Fn(&str) -> bool) -> Vec<Pid> {
    /// More than the kernel allows.
    const ENVIRONMENT_BYTES_MAX: u64 = 16 * 1024 * 1024;
    let own = Pid::try_from(std::process::id()).ok();
    let ancestors: Vec<_> = std::iter::successors(own, |pid| parent(*pid)).collect();
    let prefix = format!("{variable}=").into_bytes();
    let has_it = |pid: Pid| -> Option<bool> {
        // The environment of another user's process cannot be opened, and that of an ended process is empty.
        let file = File::open(file_of(pid, "environ")).ok()?;
        let mut bytes = Vec::new();
        file.take(ENVIRONMENT_BYTES_MAX).read_to_end(&mut bytes).ok()?;
        let mut variables = bytes.split(|byte| *byte == 0);
        let value = variables.find_map(|variable| variable.strip_prefix(&*prefix))?;
        Some(is_meant(std::str::from_utf8(value).ok()?))
    };
    processes().filter(|pid| !ancestors.contains(pid) && has_it(*pid) == Some(true)).collect()
}

/// Whether an ancestor of a process was started with `path` as its last argument.
pub(crate) fn has_ancestor_for(pid: Pid, path: &Path) -> bool {
    let is_for = |pid: &Pid| {
        let bytes = std::fs::read(file_of(*pid, "cmdline")).unwrap_or_default();
        let bytes = bytes.strip_suffix(&[0]).unwrap_or(&bytes);
        bytes.rsplit(|byte| *byte == 0).next() == Some(path.as_os_str().as_encoded_bytes())
    };
    std::iter::successors(parent(pid), |pid| parent(*pid)).any(|pid| is_for(&pid))
}

/// Continues a stopped process.
pub(crate) fn wake(pid: Pid) {
    kill(pid, libc::SIGCONT);
}

/// A set of blocked signals that a thread waits for.
#[derive(Clone, Copy)]
pub(crate) struct Signals {
    pub(super) set: libc::sigset_t,
}

impl Signals {
    /// Blocks `signals` in this thread and in all threads that it starts later.
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

    /// Unblocks the signals.
    fn release(&self) {
        // SAFETY: the set outlives the call.
        unsafe {
            libc::pthread_sigmask(libc::SIG_UNBLOCK, &raw const self.set, std::ptr::null_mut());
        }
    }

    /// Waits for the next of these signals. May be used by a thread of a larger program.
    fn wait_forever(&self) -> i32 {
        let mut signal = 0;
        // SAFETY: both arguments outlive the call.
        unsafe {
            libc::sigwait(&raw const self.set, &raw mut signal);
        }
        signal
    }
}

/// Calls `tell` for each signal that asks this process to stop; the signal no longer stops it. Must be
/// called before any thread is started, because threads inherit the mask of blocked signals.
pub(crate) fn on_interrupt(tell: impl Fn() + Send + 'static) {
    let signals = Signals::block(&[libc::SIGINT, libc::SIGTERM, libc::SIGHUP]);
    let spawned = std::thread::Builder::new().spawn(move || {
        loop {
            signals.wait_forever();
            tell();
        }
    });
    if spawned.is_err() {
        // No thread waits for the signals: let them terminate the process again.
        signals.release();
    }
}

/// Discards what was typed at the terminal of standard input and not read yet.
pub fn discard_input() {
    // SAFETY: takes a file descriptor and a number; fails if that is no terminal.
    unsafe { libc::tcflush(libc::STDIN_FILENO, libc::TCIFLUSH) };
}

/// The free space on the disk of `path` for this user, in bytes.
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

/// Writes `bytes` at `offset`.
pub(crate) fn write_all_at(file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
    std::os::unix::fs::FileExt::write_all_at(file, bytes, offset)
}

/// Locks a file, and waits for the lock. It is held until the file is closed.
pub(crate) fn lock(file: &File) -> io::Result<()> {
    file.lock()
}

/// Locks a file, unless another process has locked it.
pub(crate) fn try_lock(file: &File) -> Result<(), TryLockError> {
    file.try_lock()
}

/// The same with a shared lock.
pub(crate) fn try_lock_shared(file: &File) -> Result<(), TryLockError> {
    file.try_lock_shared()
}

/// Device and inode, which identify a file regardless of its name.
pub(crate) fn identity(metadata: &Metadata) -> (u64, u64) {
    (metadata.dev(), metadata.ino())
}

/// Whether an open file still has a name.
pub(crate) fn has_name(metadata: &Metadata) -> bool {
    metadata.nlink() > 0
}

/// The effective uid of this process.
pub(crate) fn user() -> u32 {
    // SAFETY: no memory is involved, and it cannot fail.
    unsafe { libc::geteuid() }
}

/// The uid of the owner of a file or directory.
pub(crate) fn owner(metadata: &Metadata) -> u32 {
    metadata.uid()
}

/// The mode of a file or directory if users other than its owner can write to it. A group whose gid
/// equals the owner's uid does not count: by convention it has no other member, and systems with such
/// groups often have the umask 002, too.
pub(crate) fn writable_by_others(metadata: &Metadata) -> Option<u32> {
    let mode = metadata.mode() & 0o7777;
    let by_group = mode & 0o020 != 0 && metadata.gid() != metadata.uid();
    (by_group || mode & 0o002 != 0).then_some(mode)
}

/// Whether the file belongs to the user of this process, and no other user can do anything with it.
pub(crate) fn is_of_user_alone(metadata: &Metadata) -> bool {
    let of_others = metadata.mode() & 0o077;
    metadata.uid() == user() && of_others == 0
}

/// Removes all permissions of other users from a file or directory of ours.
pub(crate) fn tighten(path: &Path, metadata: &Metadata) -> io::Result<()> {
    let mode = metadata.mode() & 0o7777;
    // Only a directory needs the execute bit.
    let surplus = mode & if metadata.is_dir() { 0o077 } else { 0o177 };
    if surplus == 0 || metadata.uid() != user() {
        return Ok(());
    }
    match fs::set_permissions(path, Permissions::from_mode(mode & !surplus)) {
        // Some file systems have no modes.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(()),
        changed => changed,
    }
}

/// Makes the names in a directory durable.
pub(crate) fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

/// Makes everything durable that was written to the file system of `path`: git does not wait for that when it checks files out.
#[cfg(target_os = "linux")]
pub(crate) fn sync_disk(path: &Path) -> io::Result<()> {
    let file = File::open(path)?;
    // SAFETY: no memory is involved, and the descriptor is open.
    check(unsafe { libc::syncfs(std::os::fd::AsRawFd::as_raw_fd(&file)) }).map(drop)
}

/// Makes the directory durable. This system cannot do it for a whole file system.
#[cfg(not(target_os = "linux"))]
pub(crate) fn sync_disk(path: &Path) -> io::Result<()> {
    sync_folder(path)
}

/// A text as a C string for system calls.
pub(crate) fn c_string(text: &OsStr) -> io::Result<CString> {
    CString::new(text.as_bytes()).map_err(|_| io::Error::from_raw_os_error(libc::EINVAL))
}

#[cfg(test)]
mod tests;
