//! Runs one step: starts the child, waits for it, records how it ended, and kills what it leaves behind.

use std::{
    ffi::CString,
    fs::File,
    io::{self, Read as _, Seek as _, SeekFrom},
    os::{fd::OwnedFd, unix::ffi::OsStrExt},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use super::{
    launch::{LaunchKind, StepLaunch},
    patience::{ChildAction, GRACE, KILL_INTERVAL, Patience},
    post::{LaunchReceiver, Tools},
    session::{ChildInput, FollowedChild, SessionLocks, Words},
};
use crate::{
    exec::step::{Claim, ExitRecord, HowEnded, place_output, run_of},
    sys::{self, ChildExit, Pid, Program, Waited},
};

/// How long processes that outlived their step may take to end after SIGTERM.
const SWEEP_GRACE: Duration = Duration::from_secs(2);

/// Runs a step to its end, and further turns that come on the same connection if its child can take
/// them. Returns the reaper's exit code: if that is not 0, the reaper must leave.
pub(super) fn run(launch: StepLaunch, connection: &mut LaunchReceiver, tools: &Tools<'_>) -> i32 {
    // A late signal was meant for the previous step.
    while tools.signals.wait(Duration::ZERO).is_some() {}
    let (claim, outputs) = match launch.claim() {
        Ok(claimed) => claimed,
        Err(error) => {
            connection.close();
            // A step that was claimed before belongs to another reaper.
            return i32::from(error.kind() != io::ErrorKind::AlreadyExists);
        }
    };
    match start(&launch, tools, &outputs) {
        Ok(StartedChild { child, locks, followed }) => {
            let first = launch.folder.clone();
            let task = Task { launch, claim, started: Instant::now(), from: [0, 0] };
            Reaper { task, connection, tools, child, first, outputs, locks, followed }.guard()
        }
        Err(how) => end_without_child(&launch, &claim, how, tools),
    }
}

/// A child that was started.
struct StartedChild {
    child: Pid,
    /// The locks on the sessions of a turn.
    locks: Option<SessionLocks>,
    /// What the child of a turn says of its progress, if it says that.
    followed: Option<FollowedChild>,
}

/// Starts the child of a step, or returns why it cannot be started.
fn start(
    launch: &StepLaunch,
    tools: &Tools<'_>,
    outputs: &[File; 2],
) -> Result<StartedChild, HowEnded> {
    let not_run = |error: io::Error| launch.not_run(&error);
    let LaunchKind::Turn { stdin, sessions, marks, is_kept } = &launch.kind else {
        let stdin = File::open("/dev/null").map_err(not_run)?;
        let child = program(launch, tools, stdin, outputs).and_then(Program::start);
        return Ok(StartedChild { child: child.map_err(not_run)?, locks: None, followed: None });
    };
    let locks = SessionLocks::take(sessions, &tools.signals).map_err(not_run)?;
    let locks = locks.ok_or(HowEnded::Interrupted)?;
    // Not the file itself: some programs accept a prompt only from a pipe.
    let (theirs, ours) = io::pipe().map_err(not_run)?;
    let theirs = File::from(OwnedFd::from(theirs));
    let program = program(launch, tools, theirs, outputs).map_err(not_run)?;
    // Before the child exists: it would wait for ever for a prompt that cannot be written.
    let input = ChildInput::new(ours).map_err(not_run)?;
    input.write(Words::Of(stdin.clone())).map_err(not_run)?;
    let more = is_kept.then_some(input);
    let child = program.start().map_err(not_run)?;
    let stdout = launch.folder.join("stdout");
    let mut followed = (!marks.is_none())
        .then(|| FollowedChild::new(marks, more, &stdout, &tools.signals).ok())
        .flatten();
    if let Some(followed) = &mut followed {
        followed.listen(launch);
    }
    Ok(StartedChild { child, locks: Some(locks), followed })
}

fn program(
    launch: &StepLaunch,
    tools: &Tools<'_>,
    stdin: File,
    outputs: &[File; 2],
) -> io::Result<Program> {
    let arguments = launch.program.iter().map(|part| c_string(part)).collect::<io::Result<_>>()?;
    let variables = environment(launch, tools.inherited)?;
    let [stdout, stderr] = outputs;
    let files = [stdin, stdout.try_clone()?, stderr.try_clone()?];
    Program::new(arguments, variables, &launch.cwd, files)
}

/// Records the end of a step that has no child; returns the reaper's exit code.
fn end_without_child(launch: &StepLaunch, claim: &Claim, how: HowEnded, tools: &Tools<'_>) -> i32 {
    let record = ExitRecord { how, duration_ms: 0, stdout_bytes: 0 };
    let written = claim.end(&record, launch.is_durable());
    tools.notifier.tell(&launch.name());
    i32::from(written.is_err())
}

/// The step that a child works on.
struct Task {
    launch: StepLaunch,
    claim: Claim,
    started: Instant,
    /// Where its part of the child's stdout and stderr begins.
    from: [u64; 2],
}

/// Why a reaper stopped waiting.
enum Over {
    /// The child, and with it the step, ended in this way.
    Child(HowEnded),
    /// The child has finished its step. It is kept for another one unless it is to end.
    Task { is_kept: bool },
}

struct Reaper<'a> {
    task: Task,
    connection: &'a mut LaunchReceiver,
    tools: &'a Tools<'a>,
    child: Pid,
    /// The directory of the child's first step, to which it prints.
    first: PathBuf,
    outputs: [File; 2],
    locks: Option<SessionLocks>,
    followed: Option<FollowedChild>,
}

impl Reaper<'_> {
    /// Waits for the child, however long that takes, and returns the reaper's own exit code.
    fn guard(mut self) -> i32 {
        loop {
            let (how, is_kept) = match self.wait() {
                Over::Child(how) => (how, false),
                Over::Task { is_kept } => (HowEnded::Code(0), is_kept),
            };
            let written = self.end_task(how);
            if !is_kept && !matches!(sys::wait_any(), Ok(Waited::NoChildren)) {
                // The next step must not wait until the descendants of this one are gone.
                self.connection.close();
            }
            // After the record is written, so that the orchestrator finds it; before the sweep, so that the
            // next step does not wait for it.
            self.tools.notifier.tell(&self.task.launch.name());
            if let Some(locks) = &mut self.locks {
                locks.release_source();
            }
            if written.is_err() {
                return 1;
            }
            if !is_kept || !self.take_next() {
                break;
            }
        }
        self.dismiss();
        self.sweep();
        0
    }

    /// Records how the step ended, and copies its output into its own directory.
    fn end_task(&self, how: HowEnded) -> io::Result<()> {
        let Task { launch, claim, started, from } = &self.task;
        let duration_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
        let to = self.printed();
        if launch.folder != self.first {
            for (name, range) in ["stdout", "stderr"].iter().zip(from.iter().zip(to)) {
                let (start, end) = range;
                copy_part(&self.first.join(name), *start, end, &launch.folder.join(name))?;
            }
        } else if launch.is_durable() {
            for output in &self.outputs {
                let _ = output.sync_all();
            }
        }
        let stdout_bytes = to[0].saturating_sub(from[0]);
        claim.end(&ExitRecord { how, duration_ms, stdout_bytes }, launch.is_durable())
    }

    /// Waits for another turn for the child, and gives it to the child. `false` if there will be none.
    fn take_next(&mut self) -> bool {
        let Some(followed) = &mut self.followed else {
            return false;
        };
        let [signals, _] = followed.descriptors();
        while !self.connection.wait(signals) {
            match self.tools.signals.wait(Duration::ZERO) {
                None => {}
                // A descendant of the child has ended, not the child itself.
                Some(libc::SIGCHLD) if collect(self.child).is_none() => {}
                Some(_) => return false,
            }
        }
        let Some(launch) = self.connection.next_launch() else {
            return false;
        };
        let LaunchKind::Turn { stdin, marks, is_kept: true, .. } = &launch.kind else {
            return false;
        };
        let Ok((claim, _)) = launch.claim() else {
            return false;
        };
        let from = printed(&self.outputs);
        let first = self.first.file_name().unwrap_or_default().to_string_lossy();
        let _ = place_output(&launch.folder, run_of(&launch.claim), from[0], &first);
        if let Err(error) = followed.give(marks, stdin) {
            end_without_child(&launch, &claim, launch.not_run(&error), self.tools);
            return false;
        }
        followed.listen(&launch);
        self.task = Task { launch, claim, started: Instant::now(), from };
        true
    }

    /// Waits until the child has ended or has finished its step. Ends a child that prints nothing for too
    /// long, or if a signal asks for it.
    fn wait(&mut self) -> Over {
        let mut patience = Patience::of_step(self.task.launch.idle_seconds, Instant::now());
        loop {
            if self.has_finished(&mut patience) {
                return Over::Task { is_kept: !patience.is_ending() };
            }
            if patience.is_limited() {
                patience.see_output(self.printed(), Instant::now());
            }
            let mut signal = None;
            match patience.next(Instant::now()) {
                ChildAction::Wait(until) => signal = self.rest(until),
                ChildAction::AskToEnd => self.tools.census.signal_descendants(libc::SIGTERM),
                ChildAction::Kill => self.tools.census.signal_descendants(libc::SIGKILL),
            }
            if let Some(ended) = collect(self.child) {
                let how = match ended {
                    ChildExit::Code(code) => HowEnded::Code(code),
                    ChildExit::Signal(signal) => HowEnded::Signal(signal),
                };
                return Over::Child(patience.verdict(how, self.task.launch.is_durable()));
            }
            if !matches!(signal, None | Some(libc::SIGCHLD)) {
                patience.end(HowEnded::Interrupted);
            }
        }
    }

    /// Looks at the child: whether it has finished its step and is kept for another.
    fn has_finished(&mut self, patience: &mut Patience) -> bool {
        let Some(followed) = &mut self.followed else {
            return false;
        };
        let (now, is_kept) = (Instant::now(), followed.is_kept());
        let progress = followed.look(&self.task.launch);
        if let Some(why) = progress.must_end(is_kept, now) {
            patience.end(why);
        }
        is_kept && progress.is_done(now)
    }

    /// Waits for a signal, or for output of a child that is followed.
    fn rest(&self, until: Instant) -> Option<i32> {
        let left = |until: Instant| until.saturating_duration_since(Instant::now());
        let Some(followed) = &self.followed else {
            return self.tools.signals.wait(left(until));
        };
        let until = followed.look_again().map_or(until, |look_again| look_again.min(until));
        let _ = sys::poll(&followed.descriptors(), Some(left(until)));
        self.tools.signals.wait(Duration::ZERO)
    }

    /// Releases a kept child: it ends by itself when its input is closed.
    fn dismiss(&mut self) {
        if !self.followed.take().is_some_and(|followed| followed.is_kept()) {
            return;
        }
        let mut patience = Patience::new(Some(GRACE), KILL_INTERVAL, Instant::now());
        let is_gone = |waited: &Waited| match waited {
            Waited::Child(pid, _) => *pid == self.child,
            Waited::NoChildren => true,
            Waited::None => false,
        };
        self.end_descendants(&mut patience, is_gone);
    }

    /// Ends all processes that outlived the child.
    fn sweep(&self) {
        let mut patience = Patience::new(Some(Duration::ZERO), SWEEP_GRACE, Instant::now());
        self.end_descendants(&mut patience, |waited| *waited == Waited::NoChildren);
    }

    /// Ends descendants according to `patience`, until `is_over` holds for the result of a wait.
    fn end_descendants(&self, patience: &mut Patience, is_over: impl Fn(&Waited) -> bool) {
        loop {
            match sys::wait_any() {
                Ok(waited) if is_over(&waited) => return,
                Ok(Waited::Child(..)) => continue,
                Ok(Waited::NoChildren) | Err(_) => return,
                Ok(Waited::None) => {}
            }
            match patience.next(Instant::now()) {
                // Not for long: processes that are not children of the reaper yet end without a signal to it.
                ChildAction::Wait(until) => {
                    let left = until.saturating_duration_since(Instant::now());
                    self.tools.signals.wait(left.min(KILL_INTERVAL));
                }
                ChildAction::AskToEnd => self.tools.census.signal_descendants(libc::SIGTERM),
                ChildAction::Kill => self.tools.census.signal_descendants(libc::SIGKILL),
            }
        }
    }

    fn printed(&self) -> [u64; 2] {
        printed(&self.outputs)
    }
}

/// The number of bytes in each of these files.
fn printed(outputs: &[File; 2]) -> [u64; 2] {
    outputs.each_ref().map(|file| file.metadata().map_or(0, |metadata| metadata.len()))
}

/// Collects all children that have ended; returns how `child` ended, if it is among them.
fn collect(child: Pid) -> Option<ChildExit> {
    let mut found = None;
    while let Ok(Waited::Child(pid, ended)) = sys::wait_any() {
        if pid == child {
            found = Some(ended);
        }
    }
    found
}

/// Copies a part of a file to another, durably.
fn copy_part(from: &Path, start: u64, end: u64, to: &Path) -> io::Result<()> {
    let mut source = File::open(from)?;
    source.seek(SeekFrom::Start(start))?;
    let mut target = File::options().append(true).open(to)?;
    io::copy(&mut source.take(end.saturating_sub(start)), &mut target)?;
    target.sync_all()
}

fn environment(launch: &StepLaunch, inherited: &[CString]) -> io::Result<Vec<CString>> {
    let name_of = |variable: &CString| -> Vec<u8> {
        let bytes = variable.as_bytes();
        bytes.iter().position(|byte| *byte == b'=').map_or(bytes, |end| &bytes[..end]).to_vec()
    };
    let replaced = |name: &[u8]| {
        launch.environment.iter().any(|(own, _)| own.as_bytes() == name)
            || launch.without.iter().any(|gone| gone.as_bytes() == name)
    };
    let kept = inherited.iter().filter(|variable| !replaced(&name_of(variable))).cloned();
    let own = launch.environment.iter().map(|(name, value)| c_string(&format!("{name}={value}")));
    kept.map(Ok).chain(own).collect()
}

fn c_string(text: &str) -> io::Result<CString> {
    sys::c_string(std::ffi::OsStr::from_bytes(text.as_bytes()))
}
