//! Starting a program, and holding it before its first instruction.
//!
//! For single-threaded processes only.

#![expect(unsafe_code, reason = "system calls; every block says why it is sound")]

use std::{ffi::CString, fs::File, io, os::fd::AsRawFd, path::Path};

use super::unix::{Pid, c_string, check, kill};

/// A program to be started, with everything that the new process must not allocate any more.
pub(crate) struct Program {
    arguments: Vec<*const libc::c_char>,
    variables: Vec<*const libc::c_char>,
    cwd: CString,
    files: [File; 3],
    starter: Pid,
    /// Whether it is to stand still as soon as it is the program.
    is_held: bool,
    /// What went wrong in the new process; it shares our memory until it is another program.
    error: libc::c_int,
    /// What the pointers point to.
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
            is_held: false,
            error: 0,
            _texts: [arguments, variables],
        })
    }

    /// Does nothing before it may run.
    pub(crate) fn wait(self) -> Loading {
        Loading { program: self, child: None }
    }

    /// Begins all that can be done before it may run: where the system allows it, there will be a
    /// process that is the program already and stands still before its first instruction. Not for
    /// programs that have rights of their own (setuid), because those who are held get none.
    pub(crate) fn load(mut self) -> Loading {
        self.is_held = true;
        let child = self.start().ok();
        self.is_held = false;
        Loading { program: self, child }
    }

    /// Starts it in a session of its own; it dies with this process.
    ///
    /// The new process borrows our memory and we stand still until it has become the program:
    /// copying our page tables only to throw them away would cost more than all the rest.
    fn start(&mut self) -> io::Result<Pid> {
        const STACK_BYTES: usize = 64 * 1024;
        let mut stack = Vec::<u8>::with_capacity(STACK_BYTES);
        let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
        // SAFETY: the stack grows down from an aligned end and outlives the borrowed time, as does
        // `self`. `become_program` allocates nothing and takes no locks.
        let pid = unsafe {
            let top = stack.as_mut_ptr().add(STACK_BYTES);
            let top = top.sub(top as usize % 16);
            let argument: *mut Self = self;
            check(libc::clone(become_program, top.cast(), flags, argument.cast()))?
        };
        match std::mem::take(&mut self.error) {
            0 => Ok(pid),
            code => {
                // It is gone already; nobody else waits for it.
                collect(pid);
                Err(io::Error::from_raw_os_error(code))
            }
        }
    }
}

/// A program that has only to be let go. Dropped before, it has never run.
pub(crate) struct Loading {
    program: Program,
    /// The process that stands still as soon as it is the program. There is none where processes
    /// cannot be held, or when something went wrong; then starting it tells what.
    child: Option<Pid>,
}

impl Loading {
    /// Lets it run.
    pub(crate) fn go(mut self) -> io::Result<Pid> {
        let Some(pid) = self.child.take().filter(|pid| stands(*pid)) else {
            return self.program.start();
        };
        // Fails if somebody has killed it just now, and then it has ended like any other.
        // SAFETY: no memory is involved.
        unsafe { libc::ptrace(libc::PTRACE_DETACH, pid, 0, 0) };
        Ok(pid)
    }
}

impl Drop for Loading {
    fn drop(&mut self) {
        if let Some(pid) = self.child.take() {
            kill(pid, libc::SIGKILL);
            collect(pid);
        }
    }
}

/// Waits until `child` is the program and stands still. `false` if it has ended instead, and is
/// collected.
fn stands(child: Pid) -> bool {
    loop {
        let mut status = 0;
        // SAFETY: `status` outlives the call, and nothing else waits for this child.
        match check(unsafe { libc::waitpid(child, &raw mut status, 0) }) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return false,
            Ok(_) if !libc::WIFSTOPPED(status) => return false,
            Ok(_) if libc::WSTOPSIG(status) == libc::SIGTRAP => return true,
            // Somebody sent it a signal before it was the program: it gets it.
            Ok(_) => {
                // SAFETY: no memory is involved.
                unsafe { libc::ptrace(libc::PTRACE_CONT, child, 0, libc::WSTOPSIG(status)) };
            }
        }
    }
}

/// Waits for the end of a child that will end.
fn collect(child: Pid) {
    // SAFETY: no status is wanted.
    while unsafe { libc::waitpid(child, std::ptr::null_mut(), 0) } == -1
        && io::Error::last_os_error().kind() == io::ErrorKind::Interrupted
    {}
}

/// The new process, until it is another program: only system calls, no memory of its own.
extern "C" fn become_program(argument: *mut libc::c_void) -> libc::c_int {
    // SAFETY: `start` passes a `Program` that nobody else touches meanwhile.
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
        if program.is_held {
            is_ready &= libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0) != -1;
        }
        if is_ready {
            let mut none = std::mem::zeroed();
            libc::sigemptyset(&raw mut none);
            libc::sigprocmask(libc::SIG_SETMASK, &raw const none, std::ptr::null_mut());
            // Rust ignores SIGPIPE, and what is ignored stays ignored in the next program.
            libc::signal(libc::SIGPIPE, libc::SIG_DFL);
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
    use std::{
        fs,
        time::{Duration, Instant},
    };

    use super::*;

    fn touch(folder: &Path) -> Program {
        program(folder, ["/bin/sh", "-c", "echo x > ran"])
    }

    fn program<const N: usize>(folder: &Path, arguments: [&str; N]) -> Program {
        let arguments = arguments.map(|text| CString::new(text).unwrap()).to_vec();
        let null = || File::options().read(true).write(true).open("/dev/null").unwrap();
        Program::new(arguments, Vec::new(), folder, [null(), null(), null()]).unwrap()
    }

    /// The status of that very child: other tests may have children, too.
    fn status_of(pid: Pid) -> i32 {
        let mut status = 0;
        // SAFETY: `status` outlives the call.
        check(unsafe { libc::waitpid(pid, &raw mut status, 0) }).unwrap();
        status
    }

    fn wait_until_standing(pid: Pid) {
        let deadline = Instant::now() + Duration::from_mins(1);
        let path = format!("/proc/{pid}/status");
        while !fs::read_to_string(&path).unwrap().contains("State:\tt (tracing stop)") {
            assert!(Instant::now() < deadline, "it runs");
            std::thread::yield_now();
        }
    }

    #[test]
    fn program_that_is_loaded_runs_when_it_is_let_go_and_not_before() {
        let folder = tempfile::tempdir().unwrap();
        let loading = touch(folder.path()).load();
        let pid = loading.child.unwrap();
        wait_until_standing(pid);
        assert_eq!(loading.go().unwrap(), pid);
        assert_eq!(status_of(pid), 0);
        assert!(folder.path().join("ran").exists());
    }

    #[test]
    fn program_that_is_never_let_go_has_never_run() {
        let folder = tempfile::tempdir().unwrap();
        let loading = touch(folder.path()).load();
        let process = format!("/proc/{}", loading.child.unwrap());
        assert!(Path::new(&process).exists());
        drop(loading);
        assert!(!Path::new(&process).exists());
        assert!(!folder.path().join("ran").exists());
    }

    #[test]
    fn program_that_is_killed_while_it_is_held_is_started_anew() {
        let folder = tempfile::tempdir().unwrap();
        let loading = touch(folder.path()).load();
        let killed = loading.child.unwrap();
        kill(killed, libc::SIGKILL);
        let pid = loading.go().unwrap();
        assert_ne!(pid, killed);
        assert_eq!(status_of(pid), 0);
        assert!(folder.path().join("ran").exists());
    }

    #[test]
    fn program_that_cannot_be_loaded_tells_why_when_it_is_let_go() {
        let folder = tempfile::tempdir().unwrap();
        let loading = program(folder.path(), ["/no/such/program"]).load();
        assert_eq!(loading.go().unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
