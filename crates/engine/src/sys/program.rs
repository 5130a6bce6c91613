//! Starting a program without copying the memory of the process that starts it.
//!
//! For single-threaded processes only.

#![expect(unsafe_code, reason = "system calls; every block says why it is sound")]

use std::{ffi::CString, fs::File, io, os::fd::AsRawFd, path::Path};

use super::unix::{Pid, c_string, check};

/// A program to start, with everything prepared that the new process must not allocate itself.
pub(crate) struct Program {
    arguments: Vec<*const libc::c_char>,
    variables: Vec<*const libc::c_char>,
    cwd: CString,
    files: [File; 3],
    starter: Pid,
    /// The errno of the new process, which shares our memory until it executes the program.
    error: libc::c_int,
    /// The texts that the pointers point to.
    _texts: [Vec<CString>; 2],
}

impl Program {
    /// `arguments` begins with the absolute path of the program.
    pub(crate) fn new(
        arguments: Vec<CString>,
        variables: Vec<CString>,
        cwd: &Path,
        files: [File; 3],
    ) -> io::Result<Self> {
        if arguments.is_empty() {
            return Err(io::Error::from_raw_os_error(libc::ENOENT));
        }
        let pointers = |texts: &[CString]| {
            let ends = [std::ptr::null()];
            texts.iter().map(|text| text.as_ptr()).chain(ends).collect()
        };
        Ok(Self {
            arguments: pointers(&arguments),
            variables: pointers(&variables),
            cwd: c_string(cwd.as_os_str())?,
            files,
            starter: Pid::try_from(std::process::id()).map_err(io::Error::other)?,
            error: 0,
            _texts: [arguments, variables],
        })
    }

    /// Starts the program in a new session. The kernel kills it when this process ends.
    ///
    /// The new process shares our memory, and the kernel suspends us until it has executed the
    /// program: copying our page tables only to discard them would cost more than all the rest.
    pub(crate) fn start(mut self) -> io::Result<Pid> {
        const STACK_BYTES: usize = 64 * 1024;
        let mut stack = Vec::<u8>::with_capacity(STACK_BYTES);
        let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
        // SAFETY: the stack grows down from an aligned end. It and `self` live until the new process
        // has stopped using them. `become_program` allocates nothing and takes no locks.
        let pid = unsafe {
            let top = stack.as_mut_ptr().add(STACK_BYTES);
            let top = top.sub(top as usize % 16);
            let argument: *mut Self = &raw mut self;
            check(libc::clone(become_program, top.cast(), flags, argument.cast()))?
        };
        match self.error {
            0 => Ok(pid),
            code => {
                // SAFETY: no status is wanted. The process has ended, so this does not block.
                unsafe { libc::waitpid(pid, std::ptr::null_mut(), 0) };
                Err(io::Error::from_raw_os_error(code))
            }
        }
    }
}

/// The new process until it executes the program: only system calls, no memory of its own.
extern "C" fn become_program(argument: *mut libc::c_void) -> libc::c_int {
    // SAFETY: `start` passes a `Program`, and is suspended meanwhile.
    let program = unsafe { &mut *argument.cast::<Program>() };
    // SAFETY: all pointers were made by `Program::new` from texts that live as long as it does.
    unsafe {
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL, 0, 0, 0);
        if libc::getppid() != program.starter || libc::setsid() == -1 {
            libc::_exit(127);
        }
        let mut is_ready = libc::chdir(program.cwd.as_ptr()) == 0;
        for (number, file) in (0..).zip(&program.files) {
            is_ready &= libc::dup2(file.as_raw_fd(), number) != -1;
        }
        // Rust ignores SIGPIPE, and a program inherits ignored signals.
        libc::signal(libc::SIGPIPE, libc::SIG_DFL);
        let mut mask = std::mem::zeroed();
        libc::sigemptyset(&raw mut mask);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const mask, std::ptr::null_mut());
        if is_ready {
            let name = *program.arguments.as_ptr();
            libc::execve(name, program.arguments.as_ptr(), program.variables.as_ptr());
        }
        program.error = *libc::__errno_location();
        libc::_exit(127)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "in tests a panic is the message")]
mod tests {
    use std::fs;

    use super::*;

    fn program<const N: usize>(folder: &Path, arguments: [&str; N]) -> Program {
        let arguments = arguments.map(|text| CString::new(text).unwrap()).to_vec();
        let null = || File::options().read(true).write(true).open("/dev/null").unwrap();
        Program::new(arguments, Vec::new(), folder, [null(), null(), null()]).unwrap()
    }

    /// The exit code of a child, once it has ended.
    fn exit_code(child: Pid) -> i32 {
        let mut status = 0;
        // SAFETY: `status` outlives the call.
        check(unsafe { libc::waitpid(child, &raw mut status, 0) }).unwrap();
        libc::WEXITSTATUS(status)
    }

    #[test]
    fn program_runs_in_its_directory_with_no_signal_blocked_and_sigpipe_not_ignored() {
        let folder = tempfile::tempdir().unwrap();
        let arguments = ["/bin/sh", "-c", "exec grep Sig /proc/self/status > signals"];
        let child = program(folder.path(), arguments).start().unwrap();
        assert_eq!(exit_code(child), 0);
        let signals = fs::read_to_string(folder.path().join("signals")).unwrap();
        let set = |name: &str| {
            let line = signals.lines().find_map(|line| line.strip_prefix(name));
            u64::from_str_radix(line.unwrap().trim_start_matches([':', '\t']), 16).unwrap()
        };
        assert_eq!(set("SigBlk"), 0, "{signals}");
        assert_eq!(set("SigIgn") & 1 << (libc::SIGPIPE - 1), 0, "{signals}");
    }

    #[test]
    fn program_or_directory_that_is_missing_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let missing = program(folder.path(), ["/no/such/program"]).start().unwrap_err();
        assert_eq!(missing.kind(), io::ErrorKind::NotFound);
        let nowhere = program(&folder.path().join("missing"), ["/bin/sh"]).start().unwrap_err();
        assert_eq!(nowhere.kind(), io::ErrorKind::NotFound);
    }
}
