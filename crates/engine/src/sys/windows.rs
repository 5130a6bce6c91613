//! The functions of `unix` for Windows.

#![expect(unsafe_code, reason = "system calls; every block says why it is sound")]

use std::{
    fs::{self, File, Metadata, TryLockError},
    io::{self, Seek as _, SeekFrom, Write as _},
    os::windows::{ffi::OsStrExt, io::AsRawHandle, process::CommandExt},
    path::Path,
    process::{Command, ExitStatus},
    ptr,
    sync::{Mutex, PoisonError},
};

use windows_sys::Win32::{
    Foundation::{
        ERROR_IO_PENDING, ERROR_LOCK_VIOLATION, HANDLE_FLAG_INHERIT, SetHandleInformation,
    },
    Storage::FileSystem::{
        GetDiskFreeSpaceExW, LOCK_FILE_FLAGS, LOCKFILE_EXCLUSIVE_LOCK, LOCKFILE_FAIL_IMMEDIATELY,
        LockFileEx, MoveFileExW,
    },
    System::{
        Console::{
            FlushConsoleInputBuffer, GetStdHandle, STD_ERROR_HANDLE, STD_INPUT_HANDLE,
            STD_OUTPUT_HANDLE, SetConsoleCtrlHandler,
        },
        IO::{OVERLAPPED, OVERLAPPED_0, OVERLAPPED_0_0},
        Threading::{CREATE_NEW_PROCESS_GROUP, CREATE_NO_WINDOW},
    },
};

/// A process id.
pub(crate) type Pid = u32;

/// What to do when a user asks this program to stop.
static TELL: Mutex<Option<Box<dyn Fn() + Send>>> = Mutex::new(None);

/// Whether a call succeeded: zero means failure.
pub(super) fn check(result: i32) -> io::Result<()> {
    if result == 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// A path as UTF-16 for system calls.
fn wide(path: &Path) -> Vec<u16> {
    path.as_os_str().encode_wide().chain([0]).collect()
}

/// Calls `tell` whenever a user presses Ctrl-C or Ctrl-Break, which no longer ends this program.
pub(crate) fn on_interrupt(tell: impl Fn() + Send + 'static) {
    *TELL.lock().unwrap_or_else(PoisonError::into_inner) = Some(Box::new(tell));
    // SAFETY: the handler is a plain function that lives as long as the program.
    unsafe {
        SetConsoleCtrlHandler(Some(interrupted), 1);
    }
}

/// Called by the system in a separate thread.
unsafe extern "system" fn interrupted(_kind: u32) -> i32 {
    match &*TELL.lock().unwrap_or_else(PoisonError::into_inner) {
        Some(tell) => {
            tell();
            1
        }
        None => 0,
    }
}

/// Gives a program a process group and a hidden console of its own, which no user can close. It would inherit
/// every inheritable handle, so ours are made not inheritable.
pub(crate) fn set_apart(command: &mut Command) {
    command.creation_flags(CREATE_NO_WINDOW | CREATE_NEW_PROCESS_GROUP);
    for which in [STD_INPUT_HANDLE, STD_OUTPUT_HANDLE, STD_ERROR_HANDLE] {
        // SAFETY: no memory is involved. A handle that is not there cannot be inherited either.
        unsafe {
            SetHandleInformation(GetStdHandle(which), HANDLE_FLAG_INHERIT, 0);
        }
    }
}

/// The environment of another process cannot be read.
pub(crate) fn processes_with(_variable: &str, _is_meant: impl Fn(&str) -> bool) -> Vec<Pid> {
    Vec::new()
}

/// No process of a step outlives its job.
pub(crate) fn has_ancestor_for(_pid: Pid, _path: &Path) -> bool {
    false
}

/// No signal stops a process here.
pub(crate) fn is_stopped(_pid: Pid) -> bool {
    false
}

/// Continues a stopped process: there are none here.
pub(crate) fn wake(_pid: Pid) {}

/// Processes are killed only with their job.
pub(crate) fn end_process(_pid: Pid, _is_polite: bool) {}

/// There are no signals here, and every child has an exit code.
pub(crate) fn signal_of(_status: ExitStatus) -> i32 {
    0
}

/// Discards what was typed at the console of standard input and not read yet.
pub fn discard_input() {
    // SAFETY: takes the handle of standard input, which stays open; fails if that is no console.
    unsafe { FlushConsoleInputBuffer(io::stdin().as_raw_handle()) };
}

/// The free space on the disk of `path` for this user, in bytes.
pub(crate) fn free_bytes(path: &Path) -> io::Result<u64> {
    let path = wide(path);
    let mut free = 0;
    // SAFETY: `path` ends with a zero, `free` outlives the call, and nothing else is asked for.
    check(unsafe {
        GetDiskFreeSpaceExW(path.as_ptr(), &raw mut free, ptr::null_mut(), ptr::null_mut())
    })?;
    Ok(free)
}

/// Renames a file unless the new name exists.
pub(crate) fn rename_new(from: &Path, to: &Path) -> io::Result<()> {
    let (from, to) = (wide(from), wide(to));
    // SAFETY: both end with a zero. Without a flag, nothing is replaced.
    check(unsafe { MoveFileExW(from.as_ptr(), to.as_ptr(), 0) })
}

/// Locks a file, and waits for the lock. It is held until the file is closed.
pub(crate) fn lock(file: &File) -> io::Result<()> {
    lock_mark(file, LOCKFILE_EXCLUSIVE_LOCK)
}

/// Locks a file, unless another process has locked it.
pub(crate) fn try_lock(file: &File) -> Result<(), TryLockError> {
    try_lock_mark(file, LOCKFILE_EXCLUSIVE_LOCK)
}

/// The same with a shared lock.
pub(crate) fn try_lock_shared(file: &File) -> Result<(), TryLockError> {
    try_lock_mark(file, 0)
}

fn try_lock_mark(file: &File, flags: LOCK_FILE_FLAGS) -> Result<(), TryLockError> {
    lock_mark(file, flags | LOCKFILE_FAIL_IMMEDIATELY).map_err(|error| {
        let code = error.raw_os_error().map(i32::cast_unsigned);
        match code {
            Some(ERROR_LOCK_VIOLATION | ERROR_IO_PENDING) => TryLockError::WouldBlock,
            _ => TryLockError::Error(error),
        }
    })
}

/// Locks the last byte that a file could have. On Windows, other processes cannot read a locked range, so
/// the standard library's locks, which cover the whole file, would hide the pid of the owner.
fn lock_mark(file: &File, flags: LOCK_FILE_FLAGS) -> io::Result<()> {
    let offset = OVERLAPPED_0_0 { Offset: u32::MAX - 1, OffsetHigh: i32::MAX.cast_unsigned() };
    let mut place =
        OVERLAPPED { Anonymous: OVERLAPPED_0 { Anonymous: offset }, ..OVERLAPPED::default() };
    // SAFETY: the file is open for synchronous work, so `place` is not used after the call.
    check(unsafe { LockFileEx(file.as_raw_handle(), flags, 0, 1, 0, &raw mut place) })
}

/// Writes `bytes` at `offset`.
pub(crate) fn write_all_at(mut file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
    file.seek(SeekFrom::Start(offset))?;
    file.write_all(bytes)
}

/// The standard library cannot identify files here: any file that exists counts as the same.
pub(crate) fn identity(_metadata: &Metadata) -> (u64, u64) {
    (0, 0)
}

/// The standard library cannot tell whether an open file was removed.
pub(crate) fn has_name(_metadata: &Metadata) -> bool {
    true
}

/// Users have no numbers here.
pub(crate) fn user() -> u32 {
    0
}

/// The standard library cannot tell the owner of a file here.
pub(crate) fn owner(_metadata: &Metadata) -> u32 {
    user()
}

/// The standard library cannot tell here which users can write to a file.
pub(crate) fn writable_by_others(_metadata: &Metadata) -> Option<u32> {
    None
}

/// There are no modes here.
pub(crate) fn is_of_user_alone(_metadata: &Metadata) -> bool {
    true
}

/// There are no modes here.
pub(crate) fn tighten(_path: &Path, _metadata: &Metadata) -> io::Result<()> {
    Ok(())
}

/// The file system makes the names in a directory durable by itself: a directory cannot be opened for that.
pub(crate) fn sync_folder(folder: &Path) -> io::Result<()> {
    fs::metadata(folder).map(drop)
}

/// There is no call for a whole file system that a user may make.
pub(crate) fn sync_disk(path: &Path) -> io::Result<()> {
    fs::metadata(path).map(drop)
}
