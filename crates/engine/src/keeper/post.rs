//! The connection on which a reaper gets its steps.

use std::{
    ffi::CString,
    io::{self, BufRead as _, BufReader, Read as _},
    net::Shutdown,
    os::{
        fd::{AsRawFd, RawFd},
        unix::net::{UnixListener, UnixStream},
    },
};

use super::{launch::StepLaunch, processes::Census, reaper};
use crate::{
    run::inbox::Notifier,
    sys::{self, Signals},
};

/// More than the arguments and variables that a system lets a program have.
const LAUNCH_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// The life of a reaper: wait for a connection, and run the steps that come on it, one after another. The
/// reaper leaves when the connection ends, or before it has one when the keeper closes its end of `keeper`.
/// Returns the reaper's exit code.
pub(super) fn serve(
    steps: &UnixListener,
    keeper: UnixStream,
    inherited: &[CString],
    census: &Census,
) -> i32 {
    let signals = Signals::block(&[libc::SIGCHLD, libc::SIGTERM, libc::SIGINT, libc::SIGHUP]);
    if sys::become_subreaper().is_err() {
        return 1;
    }
    let Some(mut connection) = accept(steps, &keeper) else {
        return 0;
    };
    // The keeper forks the next reaper.
    drop(keeper);
    let tools = Tools { signals, notifier: Notifier::default(), inherited, census };
    while let Some(launch) = connection.next_launch() {
        let is_turn = launch.is_durable();
        let code = reaper::run(launch, &mut connection, &tools);
        // The orchestrator waits for the end of the connection when the child of a turn has to leave.
        if code != 0 || is_turn {
            return code;
        }
    }
    0
}

/// What a reaper needs for each of its steps.
pub(super) struct Tools<'a> {
    pub(super) signals: Signals,
    pub(super) notifier: Notifier,
    /// The variables that children inherit.
    pub(super) inherited: &'a [CString],
    /// Finds the processes to end.
    pub(super) census: &'a Census,
}

/// Waits for an orchestrator to connect; `None` if the keeper does not need this reaper any more.
fn accept(steps: &UnixListener, keeper: &UnixStream) -> Option<LaunchReceiver> {
    loop {
        // The keeper first: a connection after it has let go is not for this reaper, which would give
        // the children an outdated environment.
        match sys::poll(&[keeper.as_raw_fd(), steps.as_raw_fd()], None) {
            Ok(Some(1)) => {}
            Ok(None) => continue,
            Ok(Some(_)) | Err(_) => return None,
        }
        match steps.accept() {
            Ok((stream, _)) if sys::is_own_peer(&stream) => {
                return Some(LaunchReceiver { stream: BufReader::new(stream), is_open: true });
            }
            // Another user may not start anything as this one.
            Ok(_) => {}
            // Another reaper was quicker.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(_) => return None,
        }
    }
}

/// A connection on which an orchestrator hands over one step after another.
pub(super) struct LaunchReceiver {
    stream: BufReader<UnixStream>,
    is_open: bool,
}

impl LaunchReceiver {
    /// Waits for the next step; `None` if there will be none. An orchestrator that dies in the middle
    /// of a line has asked for nothing.
    pub(super) fn next_launch(&mut self) -> Option<StepLaunch> {
        if !self.is_open {
            return None;
        }
        let mut line = Vec::new();
        (&mut self.stream).take(LAUNCH_BYTES_MAX).read_until(b'\n', &mut line).ok()?;
        serde_json::from_slice(&line).ok()
    }

    /// Waits until there is something to read. `false` if a signal that `signals` is readable for comes
    /// first.
    pub(super) fn wait(&self, signals: RawFd) -> bool {
        let fds = [signals, self.stream.get_ref().as_raw_fd()];
        !self.stream.buffer().is_empty() || !matches!(sys::poll(&fds, None), Ok(Some(0)))
    }

    /// Takes no more steps. To be called before the end of a step is reported: then the orchestrator
    /// cannot send the next one in between.
    pub(super) fn close(&mut self) {
        self.is_open = false;
        let _ = self.stream.get_ref().shutdown(Shutdown::Both);
    }
}
