//! The process tree of a step on Windows: a job object, which every descendant of the child is in.

#![expect(unsafe_code, reason = "system calls; every block says why it is sound")]

use std::{
    io, mem,
    os::windows::{
        io::{AsRawHandle, FromRawHandle, OwnedHandle},
        process::CommandExt,
    },
    process::{Child, Command},
    ptr,
};

use windows_sys::Win32::{
    Foundation::{HANDLE, INVALID_HANDLE_VALUE},
    System::{
        Diagnostics::ToolHelp::{
            CreateToolhelp32Snapshot, TH32CS_SNAPTHREAD, THREADENTRY32, Thread32First, Thread32Next,
        },
        JobObjects::{
            AssignProcessToJobObject, CreateJobObjectW, JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE,
            JOBOBJECT_EXTENDED_LIMIT_INFORMATION, JobObjectExtendedLimitInformation,
            SetInformationJobObject, TerminateJobObject,
        },
        Threading::{
            CREATE_NEW_PROCESS_GROUP, CREATE_SUSPENDED, OpenThread, ResumeThread,
            THREAD_SUSPEND_RESUME,
        },
    },
};

use super::windows::check;

/// The exit code of a process that was killed with its job.
const ENDED: u32 = 1;

/// A child and all its descendants. Dropping it kills them, and so does the end of this process, however it
/// ends: the system closes the handle, which is the only one.
#[derive(Debug)]
pub struct Tree {
    job: OwnedHandle,
}

impl Tree {
    /// Starts a child that can be killed together with all its descendants.
    ///
    /// It is suspended until it is in its job: otherwise it would have time to start a process outside. A
    /// process group of its own protects it from the console's Ctrl-C, which is for the orchestrator.
    pub fn spawn(command: &mut Command) -> io::Result<(Child, Self)> {
        let tree = Self { job: job()? };
        command.creation_flags(CREATE_SUSPENDED | CREATE_NEW_PROCESS_GROUP);
        let mut child = command.spawn()?;
        if let Err(error) = tree.take(&child) {
            // Suspended and perhaps in no job: no other process would ever kill it.
            let _ = child.kill();
            return Err(error);
        }
        Ok((child, tree))
    }

    /// Puts a suspended child into the job and lets it run.
    fn take(&self, child: &Child) -> io::Result<()> {
        // SAFETY: both handles are open.
        check(unsafe { AssignProcessToJobObject(self.handle(), child.as_raw_handle()) })?;
        resume(child.id())
    }

    /// Kills all processes of the tree. There is no polite way for a console program: a batch file answers
    /// Ctrl-Break with a question to the user.
    pub fn end(&self, _is_polite: bool) {
        // SAFETY: the handle is open. The call fails only for an empty job.
        unsafe {
            TerminateJobObject(self.handle(), ENDED);
        }
    }

    fn handle(&self) -> HANDLE {
        self.job.as_raw_handle()
    }
}

/// A job whose processes die with its last handle, which no child inherits.
fn job() -> io::Result<OwnedHandle> {
    // SAFETY: there are neither attributes nor a name.
    let job = owned(unsafe { CreateJobObjectW(ptr::null(), ptr::null()) })?;
    let mut limits = JOBOBJECT_EXTENDED_LIMIT_INFORMATION::default();
    limits.BasicLimitInformation.LimitFlags = JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE;
    // SAFETY: `limits` is of the type that is announced, and outlives the call.
    check(unsafe {
        SetInformationJobObject(
            job.as_raw_handle(),
            JobObjectExtendedLimitInformation,
            (&raw const limits).cast(),
            size_of_u32::<JOBOBJECT_EXTENDED_LIMIT_INFORMATION>(),
        )
    })?;
    Ok(job)
}

/// Resumes the threads of a process that was started suspended. The standard library does not return the
/// thread of a child, so it is searched among all threads.
fn resume(process: u32) -> io::Result<()> {
    // SAFETY: no memory is involved.
    let snapshot = owned(unsafe { CreateToolhelp32Snapshot(TH32CS_SNAPTHREAD, 0) })?;
    let mut entry =
        THREADENTRY32 { dwSize: size_of_u32::<THREADENTRY32>(), ..THREADENTRY32::default() };
    let mut is_resumed = false;
    // SAFETY: the snapshot is open and `entry` says how large it is, here and below.
    let mut is_there = unsafe { Thread32First(snapshot.as_raw_handle(), &raw mut entry) };
    while is_there != 0 {
        if entry.th32OwnerProcessID == process {
            // SAFETY: no memory is involved.
            let thread =
                owned(unsafe { OpenThread(THREAD_SUSPEND_RESUME, 0, entry.th32ThreadID) })?;
            // SAFETY: the handle is open.
            if unsafe { ResumeThread(thread.as_raw_handle()) } == u32::MAX {
                return Err(io::Error::last_os_error());
            }
            is_resumed = true;
        }
        // SAFETY: as above.
        is_there = unsafe { Thread32Next(snapshot.as_raw_handle(), &raw mut entry) };
    }
    if is_resumed { Ok(()) } else { Err(io::Error::other("the thread of the child was not found")) }
}

/// Takes ownership of a handle that a call returned, unless the call failed.
fn owned(handle: HANDLE) -> io::Result<OwnedHandle> {
    if handle.is_null() || handle == INVALID_HANDLE_VALUE {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the handle is open, and nothing else owns it.
    Ok(unsafe { OwnedHandle::from_raw_handle(handle) })
}

/// The size of a structure, in the type that the system calls expect.
fn size_of_u32<T>() -> u32 {
    u32::try_from(mem::size_of::<T>()).expect("structures of the system are small")
}
