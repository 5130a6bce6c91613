//! One step's guardian: starts the child, waits, writes down how it ended, leaves nobody behind.

use std::{
    ffi::CString,
    fs::{self, File, OpenOptions},
    io::{self, Write},
    os::unix::{ffi::OsStrExt, fs::OpenOptionsExt, net::UnixDatagram},
    time::{Duration, Instant},
};

use super::{
    processes,
    protocol::{Launch, ORCHESTRATOR_SOCKET},
};
use crate::{
    step::{Claim, ExitRecord, HowEnded},
    sys::{self, Ended, Forked, Pid, Signals, Waited},
};

/// What a child gets between the polite and the impolite signal.
const GRACE: Duration = Duration::from_secs(5);
/// What a daemon gets that outlived its step.
const SWEEP_GRACE: Duration = Duration::from_secs(2);
/// How often somebody is looked for who is born while the others are killed.
const KILL_INTERVAL: Duration = Duration::from_millis(20);

/// Runs a step to its end. Never returns to the keeper's code.
pub(super) fn run(launch: &Launch, inherited: &[CString]) -> ! {
    let code = match Reaper::start(launch, inherited) {
        Ok(Some(reaper)) => reaper.guard(),
        // Somebody claimed the step before: it is theirs.
        Ok(None) => 0,
        Err(_) => 1,
    };
    sys::exit_now(code)
}

struct Reaper<'a> {
    launch: &'a Launch,
    claim: Claim,
    signals: Signals,
    child: Pid,
    outputs: [File; 2],
    started: Instant,
    /// Why the child is being ended, and when that turns impolite.
    ending: Option<(HowEnded, Instant)>,
}

impl<'a> Reaper<'a> {
    fn start(launch: &'a Launch, inherited: &[CString]) -> io::Result<Option<Self>> {
        sys::become_subreaper()?;
        let signals = Signals::block(&[libc::SIGCHLD, libc::SIGTERM, libc::SIGINT, libc::SIGHUP]);
        let own = Pid::try_from(std::process::id()).map_err(io::Error::other)?;
        let exit_path = launch.folder.join("exit");
        let claim = match Claim::take(&exit_path, own, launch.is_durable) {
            Ok(claim) => claim,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(None),
            Err(error) => {
                // No room for the outcome: give the claim back, nothing was started.
                let _ = fs::remove_file(&exit_path);
                return Err(error);
            }
        };
        let started = Instant::now();
        let spawned = Self::spawn(launch, inherited, own);
        let (child, outputs) = match spawned {
            Ok(spawned) => spawned,
            Err(error) => {
                let how = HowEnded::NotRun(error.to_string());
                claim.end(&ExitRecord { how, duration_ms: 0 }, launch.is_durable)?;
                notify(&launch.name());
                return Ok(None);
            }
        };
        Ok(Some(Self { launch, claim, signals, child, outputs, started, ending: None }))
    }

    fn spawn(launch: &Launch, inherited: &[CString], own: Pid) -> io::Result<(Pid, [File; 2])> {
        let stdin = match &launch.stdin {
            Some(path) => File::open(path)?,
            None => File::open("/dev/null")?,
        };
        let output = |name: &str| {
            let mut options = OpenOptions::new();
            options.append(true).create(true).mode(0o600).open(launch.folder.join(name))
        };
        let outputs = [output("stdout")?, output("stderr")?];
        let program =
            launch.program.iter().map(|part| c_string(part)).collect::<Result<Vec<_>, _>>()?;
        let environment = environment(launch, inherited)?;
        match sys::fork()? {
            Forked::Parent(child) => Ok((child, outputs)),
            Forked::Child => {
                sys::die_with_parent(own);
                let error = match sys::new_session() {
                    Ok(()) => {
                        let files = [&stdin, &outputs[0], &outputs[1]];
                        sys::become_program(&program, &environment, &launch.cwd, files)
                    }
                    Err(error) => error,
                };
                // Only here does anybody know why: the reaper looks for this file.
                if let Ok(mut file) = File::create(launch.folder.join("exec_error")) {
                    let name = launch.program.first().map_or("", String::as_str);
                    let _ = write!(file, "{name} in {}: {error}", launch.cwd.display());
                }
                sys::exit_now(127)
            }
        }
    }

    /// Waits for the child, whatever it takes, and returns the reaper's own exit code.
    fn guard(mut self) -> i32 {
        let how = self.wait();
        let duration_ms = u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX);
        if self.launch.is_durable {
            for output in &self.outputs {
                let _ = output.sync_all();
            }
        }
        let record = ExitRecord { how, duration_ms };
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
                None => interval,
                Some((_, deadline)) if *deadline <= Instant::now() => KILL_INTERVAL,
                Some((_, deadline)) => *deadline - Instant::now(),
            };
            match self.signals.wait(patience) {
                None | Some(libc::SIGCHLD) => {}
                Some(_) => self.end_child(HowEnded::Interrupted),
            }
            if let Some(ended) = self.collect() {
                return self.verdict(ended);
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

    /// How the child ended counts as what we did to it, if we did.
    fn verdict(&mut self, ended: Ended) -> HowEnded {
        if let Some((why, _)) = self.ending.take() {
            return why;
        }
        match ended {
            Ended::Code(127)
                if let Ok(error) = fs::read_to_string(self.launch.folder.join("exec_error")) =>
            {
                HowEnded::NotRun(error)
            }
            Ended::Code(code) => HowEnded::Code(code),
            Ended::Signal(signal) => HowEnded::Signal(signal),
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
    fn sweep(&self) {
        let deadline = Instant::now() + SWEEP_GRACE;
        let mut was_polite = false;
        loop {
            match sys::wait_any() {
                Ok(Waited::Child(..)) => continue,
                Ok(Waited::NoChildren) | Err(_) => return,
                Ok(Waited::None) => {}
            }
            if !was_polite {
                processes::signal_descendants(libc::SIGTERM);
                was_polite = true;
            } else if deadline <= Instant::now() {
                processes::signal_descendants(libc::SIGKILL);
            }
            self.signals.wait(KILL_INTERVAL);
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
        let _ = socket.send_to(name.as_bytes(), ORCHESTRATOR_SOCKET);
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
