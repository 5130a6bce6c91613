//! The same for Windows as `unix` has for the others. Compiled here, never run.

#![expect(unsafe_code, reason = "system calls; every block says why it is sound")]

use std::{
    fs::{self, File, Metadata},
    io::{self, Seek as _, SeekFrom, Write as _},
    os::windows::ffi::OsStrExt,
    path::Path,
    ptr,
    sync::{Mutex, PoisonError},
};

/// A process id.
pub(crate) type Pid = u32;

/// What to do when somebody asks this program to stop.
static TELL: Mutex<Option<Box<dyn Fn() + Send>>> = Mutex::new(None);

#[link(name = "kernel32")]
unsafe extern "system" {
    fn SetConsoleCtrlHandler(
        handler: Option<unsafe extern "system" fn(u32) -> i32>,
        add: i32,
    ) -> i32;
    fn GetDiskFreeSpaceExW(
        folder: *const u16,
        free_for_caller: *mut u64,
        total: *mut u64,
        free: *mut u64,
    ) -> i32;
}

/// Calls `tell` whenever somebody presses Ctrl-C or Ctrl-Break, which does not end this program any
/// more.
pub(crate) fn on_interrupt(tell: impl Fn() + Send + 'static) {
    *TELL.lock().unwrap_or_else(PoisonError::into_inner) = Some(Box::new(tell));
    // SAFETY: the handler is a plain function that lives as long as the program.
    unsafe {
        SetConsoleCtrlHandler(Some(interrupted), 1);
    }
}

/// Called by the system in a thread of its own.
unsafe extern "system" fn interrupted(_kind: u32) -> i32 {
    match &*TELL.lock().unwrap_or_else(PoisonError::into_inner) {
        Some(tell) => {
            tell();
            1
        }
        None => 0,
    }
}

/// Nobody else's environment can be read.
pub(crate) fn processes_with(_variable: &str, _is_meant: impl Fn(&str) -> bool) -> Vec<Pid> {
    Vec::new()
}

/// No signal stops a process here.
pub(crate) fn is_stopped(_pid: Pid) -> bool {
    false
}

/// Lets a stopped process go on.
pub(crate) fn wake(_pid: Pid) {}

/// Ends a process and its descendants.
pub(crate) fn end_process(pid: Pid, is_polite: bool) {
    super::end_group(pid, is_polite);
}

/// What is free on the disk of `path` for this user, in bytes.
pub(crate) fn free_bytes(path: &Path) -> io::Result<u64> {
    let path: Vec<u16> = path.as_os_str().encode_wide().chain([0]).collect();
    let mut free = 0;
    // SAFETY: `path` ends with a zero, `free` outlives the call, and nothing else is asked for.
    let result = unsafe {
        GetDiskFreeSpaceExW(path.as_ptr(), &raw mut free, ptr::null_mut(), ptr::null_mut())
    };
    if result == 0 { Err(io::Error::last_os_error()) } else { Ok(free) }
}

/// Writes `bytes` at `offset`.
pub(crate) fn write_all_at(mut file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
    file.seek(SeekFrom::Start(offset))?;
    file.write_all(bytes)
}

/// The standard library cannot tell files apart here: a file that is there counts as the same.
pub(crate) fn identity(_metadata: &Metadata) -> (u64, u64) {
    (0, 0)
}

/// Nor can it tell whether a file that is open was removed.
pub(crate) fn has_name(_metadata: &Metadata) -> bool {
    true
}

/// Users have no numbers here.
pub(crate) fn user() -> u32 {
    0
}

/// Whose a file is cannot be told by the standard library.
pub(crate) fn owner(_metadata: &Metadata) -> u32 {
    user()
}

/// Nor who can write to it.
pub(crate) fn writable_by_others(_metadata: &Metadata) -> Option<u32> {
    None
}

/// There are no modes here.
pub(crate) fn tighten(_path: &Path, _metadata: &Metadata) -> io::Result<()> {
    Ok(())
}

/// The names in a folder are made durable by the file system itself, in its own time: a folder
/// cannot be opened for that.
pub(crate) fn sync_folder(folder: &Path) -> io::Result<()> {
    fs::metadata(folder).map(drop)
}
