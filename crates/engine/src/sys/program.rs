//! Starting a program, and holding it before its first instruction.
//!
//! For single-threaded processes only.

#![expect(unsafe_code, reason = "system calls; every block says why it is sound")]

use std::{ffi::CString, fs::File, io, os::fd::AsRawFd, path::Path};

use super::{
    linux::{Forked, exit_now, fork},
    unix::{Pid, c_string, check, kill},
};

/// `PTRACE_SETSIGMASK`, for which the C libraries have different types.
const SET_SIGNAL_MASK: u16 = 0x420b;

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
        let Some(pid) = self.child.filter(|pid| stands(*pid)) else {
            self.child = None;
            return self.program.start();
        };
        // What the kernel takes for a set of no signals, and how long that is.
        let none = 0_u64;
        // SAFETY: `none` outlives the call.
        let is_open = unsafe {
            let size = std::mem::size_of_val(&none);
            libc::ptrace(SET_SIGNAL_MASK.into(), pid, size, &raw const none) != -1
        };
        if !is_open {
            // Killed just now; or it would be deaf.
            self.child.take().into_iter().for_each(end);
            return self.program.start();
        }
        // Fails if somebody has killed it just now, and then it has ended like any other.
        // SAFETY: no memory is involved.
        unsafe { libc::ptrace(libc::PTRACE_DETACH, pid, 0_usize, 0_usize) };
        self.child = None;
        Ok(pid)
    }
}

impl Drop for Loading {
    fn drop(&mut self) {
        if let Some(pid) = self.child.take() {
            end(pid);
        }
    }
}

/// Whether this system lets a process hold its child. Tried by a process that shares no memory with
/// us: where it is forbidden, trying may be punished by death.
pub(crate) fn can_hold() -> bool {
    match fork() {
        Ok(Forked::Child) => {
            // SAFETY: no memory is involved.
            let is_held = unsafe { libc::ptrace(libc::PTRACE_TRACEME, 0, 0_usize, 0_usize) } != -1;
            exit_now(i32::from(!is_held))
        }
        Ok(Forked::Parent(pid)) => collect(pid) == Some(0),
        Err(_) => false,
    }
}

/// Ends a child that is held.
fn end(child: Pid) {
    kill(child, libc::SIGKILL);
    collect(child);
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
                let signal = libc::c_long::from(libc::WSTOPSIG(status));
                // SAFETY: no memory is involved.
                unsafe { libc::ptrace(libc::PTRACE_CONT, child, 0_usize, signal) };
            }
        }
    }
}

/// Waits for the end of a child that will end; its status, if it has one.
fn collect(child: Pid) -> Option<libc::c_int> {
    loop {
        let mut status = 0;
        // SAFETY: `status` outlives the call.
        match check(unsafe { libc::waitpid(child, &raw mut status, 0) }) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return None,
            // It stood still before it was killed.
            Ok(_) if libc::WIFSTOPPED(status) => {}
            Ok(_) => return Some(status),
        }
    }
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
        // Rust ignores SIGPIPE, and what is ignored stays ignored in the next program.
        libc::signal(libc::SIGPIPE, libc::SIG_DFL);
        let mut mask = std::mem::zeroed();
        libc::sigemptyset(&raw mut mask);
        if program.is_held {
            // Any other signal would stop it too soon: before it is the program, whoever could
            // let it go on stands still itself. It gets its signals when it is let go.
            libc::sigfillset(&raw mut mask);
            libc::sigdelset(&raw mut mask, libc::SIGTRAP);
        }
        libc::sigprocmask(libc::SIG_SETMASK, &raw const mask, std::ptr::null_mut());
        if program.is_held {
            is_ready &= libc::ptrace(libc::PTRACE_TRACEME, 0, 0_usize, 0_usize) != -1;
        }
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
    use std::{
        fs,
        sync::atomic::{AtomicU32, Ordering},
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
        assert_eq!(collect(pid), Some(0));
        assert!(folder.path().join("ran").exists());
    }

    #[test]
    fn signal_that_comes_while_a_program_is_held_is_for_the_program() {
        let folder = tempfile::tempdir().unwrap();
        let loading = program(folder.path(), ["/bin/sh", "-c", "sleep 1000"]).load();
        let pid = loading.child.unwrap();
        for signal in [libc::SIGCONT, libc::SIGWINCH, libc::SIGTERM] {
            kill(pid, signal);
        }
        assert_eq!(loading.go().unwrap(), pid);
        assert_eq!(collect(pid), Some(libc::SIGTERM));
    }

    #[test]
    fn signals_that_come_before_it_is_the_program_hang_nobody() {
        const PATIENCE: Duration = Duration::from_mins(1);
        let folder = tempfile::tempdir().unwrap();
        let rounds = AtomicU32::new(0);
        std::thread::scope(|scope| {
            let loading = scope.spawn(|| {
                while rounds.fetch_add(1, Ordering::Relaxed) < 300 {
                    drop(touch(folder.path()).load());
                }
            });
            let (mut seen, mut since) = (0, Instant::now());
            while !loading.is_finished() {
                // Ignored by most, but whoever is traced stops for it.
                let children = children_of_this_process();
                for pid in &children {
                    kill(*pid, libc::SIGWINCH);
                }
                let now = rounds.load(Ordering::Relaxed);
                if now != seen {
                    (seen, since) = (now, Instant::now());
                } else if since.elapsed() > PATIENCE {
                    for pid in children {
                        kill(pid, libc::SIGKILL);
                    }
                    panic!("it hangs");
                }
            }
        });
    }

    fn children_of_this_process() -> Vec<Pid> {
        let threads = fs::read_dir("/proc/self/task").unwrap().flatten();
        let children =
            threads.filter_map(|entry| fs::read_to_string(entry.path().join("children")).ok());
        children
            .flat_map(|pids| {
                pids.split_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<_>>()
            })
            .collect()
    }

    #[test]
    fn program_hears_signals_as_if_it_had_not_been_held() {
        let folder = tempfile::tempdir().unwrap();
        let loading =
            program(folder.path(), ["/bin/sh", "-c", "exec grep Sig /proc/self/status > ran"])
                .load();
        collect(loading.go().unwrap());
        let signals = fs::read_to_string(folder.path().join("ran")).unwrap();
        assert!(signals.contains("SigBlk:\t0000000000000000"), "{signals}");
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
        assert_eq!(collect(pid), Some(0));
        assert!(folder.path().join("ran").exists());
    }

    #[test]
    fn program_that_cannot_be_loaded_tells_why_when_it_is_let_go() {
        let folder = tempfile::tempdir().unwrap();
        let loading = program(folder.path(), ["/no/such/program"]).load();
        assert_eq!(loading.go().unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
