//! One step's guardian: starts the child, waits, writes down how it ended, leaves nobody behind.

use std::{
    ffi::CString,
    fs::File,
    io::{self, PipeWriter, Read as _, Seek as _, SeekFrom},
    os::{
        fd::{AsRawFd, OwnedFd},
        unix::ffi::OsStrExt,
    },
    path::Path,
    time::{Duration, Instant},
};

use super::{
    conversation::{self, Conversation, Locks},
    launch::Launch,
    post::{self, Call, Post},
    processes,
};
use crate::{
    inbox::Notifier,
    private,
    step::{Claim, ExitRecord, HowEnded, OUTPUT_IS_AT},
    sys::{self, Ended, Pid, Program, Waited},
};

/// What a child gets between the polite and the impolite signal.
const GRACE: Duration = Duration::from_secs(5);
/// What a daemon gets that outlived its step.
const SWEEP_GRACE: Duration = Duration::from_secs(2);
/// What a child gets before its reaper does anything else: for so long they may share a processor.
const SETTLE: Duration = Duration::from_micros(250);
/// How often somebody is looked for who is born while the others are killed.
const KILL_INTERVAL: Duration = Duration::from_millis(20);

/// Runs a step to its end, and further ones that come on the same call if its child can be kept.
/// Returns the reaper's exit code, should it leave.
pub(super) fn run(call: &mut Call, post: &mut Post<'_>, inherited: &[CString]) -> i32 {
    // A signal that came late was for the step before.
    while post.signals.wait(Duration::ZERO).is_some() {}
    let (claim, outputs) = match post.claim(&call.launch) {
        Ok(claimed) => claimed,
        Err(error) => {
            // The word that would let it start must not be taken for a step.
            call.hang_up();
            // If somebody claimed the step before, it is theirs.
            return i32::from(error.kind() != io::ErrorKind::AlreadyExists);
        }
    };
    match start(call, post, inherited, &outputs) {
        Ok((child, locks, conversation)) => {
            let launch = call.launch.clone();
            let task = Task { launch, claim, started: Instant::now(), from: [0, 0] };
            Reaper { task, call, post, child, outputs, locks, conversation, ending: None }.guard()
        }
        Err(how) => {
            call.hang_up();
            end_without_child(&call.launch, &claim, how, &post.notifier)
        }
    }
}

/// Starts the child of a step once it may, or says why there is none.
fn start(
    call: &mut Call,
    post: &mut Post<'_>,
    inherited: &[CString],
    outputs: &[File; 2],
) -> Result<(Pid, Locks, Option<Conversation>), HowEnded> {
    let launch = &call.launch;
    let not_run = |error: io::Error| launch.not_run(&error);
    // Everything that can be done before the word is done before it.
    let locks = Locks::take(&launch.conversations, &post.signals).map_err(not_run)?;
    let locks = locks.ok_or(HowEnded::Interrupted)?;
    let (stdin, pipe) = stdin(launch).map_err(not_run)?;
    let program = program(launch, inherited, stdin, outputs).map_err(not_run)?;
    // A coding agent may have rights of its own, which it would lose; a shell is just a shell.
    let is_held = post.can_hold && !launch.is_durable;
    let program = if is_held { program.load() } else { program.wait() };
    if !post.may_go(&mut call.stream) {
        return Err(HowEnded::Forbidden);
    }
    // Without a pipe for more, the child is not kept.
    let more = pipe.as_ref().and_then(|pipe| pipe.try_clone().ok());
    // Before there is a child that would wait for it in vain.
    if let Some(pipe) = pipe {
        conversation::say(launch, pipe).map_err(not_run)?;
    }
    let child = program.go().map_err(not_run)?;
    let conversation = match (&launch.done_mark, more) {
        (Some(mark), Some(pipe)) => {
            let stdout = launch.folder.join("stdout");
            Conversation::new([mark, &launch.turn_mark], pipe, &stdout, &post.signals).ok()
        }
        _ => None,
    };
    Ok((child, locks, conversation))
}

/// What the child reads, and our end of it if there is something to say. Not the file itself: some
/// programs take their orders from a pipe only.
fn stdin(launch: &Launch) -> io::Result<(File, Option<PipeWriter>)> {
    if launch.stdin.is_none() {
        return Ok((File::open("/dev/null")?, None));
    }
    let (theirs, ours) = io::pipe()?;
    Ok((File::from(OwnedFd::from(theirs)), Some(ours)))
}

fn program(
    launch: &Launch,
    inherited: &[CString],
    stdin: File,
    outputs: &[File; 2],
) -> io::Result<Program> {
    let arguments = launch.program.iter().map(|part| c_string(part)).collect::<io::Result<_>>()?;
    let variables = environment(launch, inherited)?;
    let [stdout, stderr] = outputs;
    let files = [stdin, stdout.try_clone()?, stderr.try_clone()?];
    Program::new(arguments, variables, &launch.cwd, files)
}

/// Writes down that there was nothing to guard; returns the reaper's exit code.
fn end_without_child(launch: &Launch, claim: &Claim, how: HowEnded, notifier: &Notifier) -> i32 {
    let record = ExitRecord { how, duration_ms: 0, stdout_bytes: 0 };
    let written = claim.end(&record, launch.is_durable);
    notifier.tell(&launch.name());
    i32::from(written.is_err())
}

/// The step that a child works on.
struct Task {
    launch: Launch,
    claim: Claim,
    started: Instant,
    /// Where its part of the child's output and complaints begins.
    from: [u64; 2],
}

/// Why a reaper has stopped waiting.
enum Over {
    /// The child has ended so.
    Child(HowEnded),
    /// The child is done with its step, and waits for another.
    Task,
}

struct Reaper<'a, 'p> {
    task: Task,
    call: &'a mut Call,
    post: &'a mut Post<'p>,
    child: Pid,
    /// Where the child's output goes: to the folder of its first step.
    outputs: [File; 2],
    locks: Locks,
    /// How to give it more to do, if it can be given more.
    conversation: Option<Conversation>,
    /// Why the child is being ended, and when that turns impolite.
    ending: Option<(HowEnded, Instant)>,
}

impl Reaper<'_, '_> {
    /// Waits for the child, whatever it takes, and returns the reaper's own exit code.
    fn guard(mut self) -> i32 {
        loop {
            let over = self.wait();
            let (how, is_kept) = match over {
                Over::Child(how) => (how, false),
                Over::Task => (HowEnded::Code(0), self.ending.is_none()),
            };
            let written = self.end_task(how);
            if !is_kept && !matches!(sys::wait_any(), Ok(Waited::NoChildren)) {
                // There is somebody to be swept, for whom no other step should wait.
                self.call.hang_up();
            }
            // Telling comes after writing, and before sweeping: the next step need not wait for the
            // daemons of this one.
            self.post.notifier.tell(&self.task.launch.name());
            // Whoever waits for the word is better off with this processor than we are.
            std::thread::yield_now();
            self.locks.release_source();
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

    /// Writes down how the step ended, with all that it printed in its own folder.
    fn end_task(&self, how: HowEnded) -> io::Result<()> {
        let Task { launch, claim, started, from } = &self.task;
        let duration_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
        let to = self.printed();
        if *from != [0, 0] {
            let first = &self.call.launch.folder;
            for (name, range) in ["stdout", "stderr"].iter().zip(from.iter().zip(to)) {
                let (start, end) = range;
                copy_part(&first.join(name), *start, end, &launch.folder.join(name))?;
            }
        } else if launch.is_durable {
            for output in &self.outputs {
                let _ = output.sync_all();
            }
        }
        let stdout_bytes = to[0].saturating_sub(from[0]);
        claim.end(&ExitRecord { how, duration_ms, stdout_bytes }, launch.is_durable)
    }

    /// Waits for another step for the child; `false` if there will be none.
    fn take_next(&mut self) -> bool {
        self.post.tell_busy();
        let Some(conversation) = &self.conversation else {
            return false;
        };
        let [signals, _] = conversation.descriptors();
        loop {
            let is_there = !self.call.stream.buffer().is_empty();
            let fds = [signals, self.call.stream.get_ref().as_raw_fd()];
            if !is_there && matches!(sys::poll(&fds, None), Ok(Some(0))) {
                match self.post.signals.wait(Duration::ZERO) {
                    // Somebody of the child's, or the child itself.
                    Some(libc::SIGCHLD) if collect(self.child).is_none() => continue,
                    None => continue,
                    Some(_) => return false,
                }
            }
            let Some(launch) = post::read_launch(&mut self.call.stream) else {
                return false;
            };
            let Ok((claim, _)) = launch.claim() else {
                return false;
            };
            if !self.post.may_go(&mut self.call.stream) {
                let how = HowEnded::Forbidden;
                end_without_child(&launch, &claim, how, &self.post.notifier);
                return false;
            }
            let from = self.printed();
            let first = self.call.launch.folder.join("stdout");
            let _ = private::write(
                &launch.folder.join(OUTPUT_IS_AT),
                format!("{} {}", from[0], first.display()),
            );
            let mut said = Ok(());
            if let Some(conversation) = &mut self.conversation {
                conversation.begin(&launch.turn_mark);
                said = conversation.more().and_then(|pipe| conversation::say(&launch, pipe));
            }
            if let Err(error) = said {
                let how = launch.not_run(&error);
                end_without_child(&launch, &claim, how, &self.post.notifier);
                return false;
            }
            self.task = Task { launch, claim, started: Instant::now(), from };
            return true;
        }
    }

    /// Lets a child go that was kept: there is nothing more to read for it.
    fn dismiss(&mut self) {
        if self.conversation.take().is_none() {
            return;
        }
        let mut deadline = Instant::now() + GRACE;
        let mut signal = libc::SIGTERM;
        loop {
            match sys::wait_any() {
                Ok(Waited::Child(pid, _)) if pid == self.child => return,
                Ok(Waited::Child(..)) => continue,
                Ok(Waited::NoChildren) | Err(_) => return,
                Ok(Waited::None) => {}
            }
            if deadline <= Instant::now() {
                processes::signal_descendants(signal);
                (signal, deadline) = (libc::SIGKILL, Instant::now() + KILL_INTERVAL);
            }
            self.post.signals.wait(deadline.saturating_duration_since(Instant::now()));
        }
    }

    /// Waits for a signal, or for output of a child that can be kept.
    fn rest(&mut self, patience: Duration) -> Option<i32> {
        match &self.conversation {
            None => self.post.signals.wait(patience),
            Some(conversation) => {
                let patience = patience.min(conversation.patience());
                let _ = sys::poll(&conversation.descriptors(), Some(patience));
                self.post.signals.wait(Duration::ZERO)
            }
        }
    }

    fn wait(&mut self) -> Over {
        let idle_seconds = self.task.launch.idle_seconds;
        let idle_limit = Duration::from_secs(idle_seconds);
        let interval = self.task.launch.look_interval();
        let mut printed = self.printed();
        let mut changed = Instant::now();
        let mut is_settling = !self.task.launch.is_durable;
        loop {
            if self.conversation.as_mut().is_some_and(Conversation::is_done) {
                return Over::Task;
            }
            let patience = match &self.ending {
                None if is_settling => SETTLE,
                None => interval.min(self.post.patience()),
                Some((_, deadline)) if *deadline <= Instant::now() => KILL_INTERVAL,
                Some((_, deadline)) => *deadline - Instant::now(),
            };
            let signal = self.rest(patience);
            // Whoever has ended by itself was not ended by us.
            if let Some(ended) = collect(self.child) {
                return Over::Child(self.verdict(ended));
            }
            if std::mem::take(&mut is_settling) {
                self.post.prepare_early();
            } else {
                self.post.tell_busy();
            }
            if !matches!(signal, None | Some(libc::SIGCHLD)) {
                self.end_child(HowEnded::Interrupted);
            }
            if let Some((_, deadline)) = &self.ending {
                if *deadline <= Instant::now() {
                    processes::signal_descendants(libc::SIGKILL);
                }
                continue;
            }
            let now_printed = self.printed();
            if now_printed != printed {
                printed = now_printed;
                changed = Instant::now();
            } else if !idle_limit.is_zero() && changed.elapsed() >= idle_limit {
                self.end_child(HowEnded::TimedOut(idle_seconds));
            }
        }
    }

    /// How the child ended counts as what we did to it, if we did; but a coding agent that used its
    /// grace to finish has an answer that is paid for.
    fn verdict(&mut self, ended: Ended) -> HowEnded {
        match (self.ending.take(), ended) {
            (Some(_), Ended::Code(0)) if self.task.launch.is_durable => HowEnded::Code(0),
            (Some((why, _)), _) => why,
            (None, Ended::Code(code)) => HowEnded::Code(code),
            (None, Ended::Signal(signal)) => HowEnded::Signal(signal),
        }
    }

    fn end_child(&mut self, why: HowEnded) {
        if self.ending.is_none() {
            // It may take its time.
            self.post.tell_busy();
            processes::signal_descendants(libc::SIGTERM);
            self.ending = Some((why, Instant::now() + GRACE));
        }
    }

    /// Ends whoever outlived the child: first politely, then until nobody is left.
    fn sweep(&mut self) {
        let deadline = Instant::now() + SWEEP_GRACE;
        let mut was_polite = false;
        loop {
            match sys::wait_any() {
                Ok(Waited::Child(..)) => continue,
                Ok(Waited::NoChildren) | Err(_) => return,
                Ok(Waited::None) => self.post.tell_busy(),
            }
            if !was_polite {
                processes::signal_descendants(libc::SIGTERM);
                was_polite = true;
            } else if deadline <= Instant::now() {
                processes::signal_descendants(libc::SIGKILL);
            }
            self.post.signals.wait(KILL_INTERVAL);
        }
    }

    fn printed(&self) -> [u64; 2] {
        self.outputs.each_ref().map(|file| file.metadata().map_or(0, |metadata| metadata.len()))
    }
}

/// Collects everybody who ended; tells how `child` did, if it was among them.
fn collect(child: Pid) -> Option<Ended> {
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

fn environment(launch: &Launch, inherited: &[CString]) -> io::Result<Vec<CString>> {
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
