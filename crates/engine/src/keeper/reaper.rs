//! One step's guardian: starts the child, waits, writes down how it ended, leaves nobody behind.

use std::{
    ffi::CString,
    fs::File,
    io,
    os::unix::{ffi::OsStrExt, net::UnixDatagram},
    time::{Duration, Instant},
};

use super::{
    post::{Call, Post},
    processes,
    protocol::Launch,
    spare::{self, SpareFolder},
};
use crate::{
    inbox::INBOX_SOCKET,
    step::{Claim, ExitRecord, HowEnded},
    sys::{self, Ended, Pid, Program, Waited},
};

/// What a child gets between the polite and the impolite signal.
const GRACE: Duration = Duration::from_secs(5);
/// What a daemon gets that outlived its step.
const SWEEP_GRACE: Duration = Duration::from_secs(2);
/// How often somebody is looked for who is born while the others are killed.
const KILL_INTERVAL: Duration = Duration::from_millis(20);

/// Runs a step to its end and returns the reaper's exit code, should it leave.
pub(super) fn run(
    Call { launch, stream }: &mut Call,
    spare: Option<SpareFolder>,
    post: &mut Post<'_>,
    inherited: &[CString],
) -> i32 {
    // A signal that came late was for the step before.
    while post.signals.wait(Duration::ZERO).is_some() {}
    let (claim, outputs) = match spare::claim(launch, spare) {
        Ok(claimed) => claimed,
        // Somebody claimed the step before: it is theirs.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return 0,
        Err(_) => return 1,
    };
    // Everything that can be done before the word is done before it.
    let program = program(launch, inherited, &outputs);
    if !post.may_go(stream) {
        return end_without_child(launch, &claim, HowEnded::Forbidden);
    }
    let started = Instant::now();
    match program.and_then(Program::start) {
        Ok(child) => Reaper { launch, claim, post, child, outputs, started, ending: None }.guard(),
        Err(error) => {
            let name = launch.program.first().map_or("", String::as_str);
            let mut why = format!("{name} in {}: {error}", launch.cwd.display());
            why.truncate(why.floor_char_boundary(1000));
            end_without_child(launch, &claim, HowEnded::NotRun(why))
        }
    }
}

/// Writes down that there was nothing to guard; returns the reaper's exit code.
fn end_without_child(launch: &Launch, claim: &Claim, how: HowEnded) -> i32 {
    let record = ExitRecord { how, duration_ms: 0, stdout_bytes: 0 };
    let written = claim.end(&record, launch.is_durable);
    notify(&launch.name());
    i32::from(written.is_err())
}

fn program(launch: &Launch, inherited: &[CString], outputs: &[File; 2]) -> io::Result<Program> {
    let stdin = match &launch.stdin {
        Some(path) => File::open(path)?,
        None => File::open("/dev/null")?,
    };
    let arguments = launch.program.iter().map(|part| c_string(part)).collect::<io::Result<_>>()?;
    let variables = environment(launch, inherited)?;
    let [stdout, stderr] = outputs;
    let files = [stdin, stdout.try_clone()?, stderr.try_clone()?];
    Program::new(arguments, variables, &launch.cwd, files)
}

struct Reaper<'a, 'p> {
    launch: &'a Launch,
    claim: Claim,
    post: &'a mut Post<'p>,
    child: Pid,
    outputs: [File; 2],
    started: Instant,
    /// Why the child is being ended, and when that turns impolite.
    ending: Option<(HowEnded, Instant)>,
}

impl Reaper<'_, '_> {
    /// Waits for the child, whatever it takes, and returns the reaper's own exit code.
    fn guard(mut self) -> i32 {
        let how = self.wait();
        let duration_ms = u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX);
        if self.launch.is_durable {
            for output in &self.outputs {
                let _ = output.sync_all();
            }
        }
        let [stdout_bytes, _] = self.printed();
        let record = ExitRecord { how, duration_ms, stdout_bytes };
        let written = self.claim.end(&record, self.launch.is_durable);
        // Telling comes after writing, and before sweeping: the next step need not wait for the
        // daemons of this one.
        notify(&self.launch.name());
        self.sweep();
        i32::from(written.is_err())
    }

    fn wait(&mut self) -> HowEnded {
        let idle_limit = Duration::from_secs(self.launch.idle_seconds);
        let interval = match self.launch.idle_seconds {
            0 => Duration::from_hours(1),
            seconds => Duration::from_millis((seconds * 50).clamp(50, 10_000)),
        };
        let mut printed = self.printed();
        let mut changed = Instant::now();
        loop {
            let patience = match &self.ending {
                None => interval.min(self.post.patience()),
                Some((_, deadline)) if *deadline <= Instant::now() => KILL_INTERVAL,
                Some((_, deadline)) => *deadline - Instant::now(),
            };
            let signal = self.post.signals.wait(patience);
            // Whoever has ended by itself was not ended by us.
            if let Some(ended) = self.collect() {
                return self.verdict(ended);
            }
            self.post.tell_busy();
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
                self.end_child(HowEnded::TimedOut(self.launch.idle_seconds));
            }
        }
    }

    /// How the child ended counts as what we did to it, if we did; but a coding agent that used its
    /// grace to finish has an answer that is paid for.
    fn verdict(&mut self, ended: Ended) -> HowEnded {
        match (self.ending.take(), ended) {
            (Some(_), Ended::Code(0)) if self.launch.is_durable => HowEnded::Code(0),
            (Some((why, _)), _) => why,
            (None, Ended::Code(code)) => HowEnded::Code(code),
            (None, Ended::Signal(signal)) => HowEnded::Signal(signal),
        }
    }

    fn end_child(&mut self, why: HowEnded) {
        if self.ending.is_none() {
            processes::signal_descendants(libc::SIGTERM);
            self.ending = Some((why, Instant::now() + GRACE));
        }
    }

    /// Collects everybody who ended; tells how the child did, if it was among them.
    fn collect(&self) -> Option<Ended> {
        let mut found = None;
        while let Ok(Waited::Child(pid, ended)) = sys::wait_any() {
            if pid == self.child {
                found = Some(ended);
            }
        }
        found
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

/// Leaves word that there is something to see in a step's folder. Nobody may be listening; whoever
/// takes over looks for himself.
pub(super) fn notify(name: &str) {
    if let Ok(socket) = UnixDatagram::unbound() {
        let _ = socket.set_write_timeout(Some(Duration::from_secs(5)));
        let _ = socket.send_to(name.as_bytes(), INBOX_SOCKET);
    }
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
