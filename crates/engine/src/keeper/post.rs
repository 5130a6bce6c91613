//! A reaper's post: where it waits for steps, and what its keeper hears from it.

use std::{
    ffi::CString,
    fs::File,
    io::{self, BufRead as _, BufReader, Write as _},
    net::Shutdown,
    os::{
        fd::AsRawFd,
        unix::net::{UnixListener, UnixStream},
    },
    time::Duration,
};

use super::{
    launch::Launch,
    protocol::GO,
    reaper,
    spare::{self, SpareFolder},
};
use crate::{
    inbox::Notifier,
    step::Claim,
    sys::{self, Signals},
};

/// What a reaper tells its keeper when it has a step.
pub(super) const BUSY: [u8; 1] = *b"b";
/// And when it waits for another.
const IDLE: [u8; 1] = *b"i";

/// A step that is over so soon is none that the keeper need hear of: waking it up would cost more
/// than it is good for, as long as nobody else wants to start.
const BRIEF: Duration = Duration::from_millis(3);

/// The life of a reaper: wait for a step, see it through, and wait again. It leaves when it has no
/// step and the keeper has dropped or lost its end of `keeper`. Returns its exit code.
pub(super) fn stand_by(
    steps: &UnixListener,
    keeper: UnixStream,
    inherited: &[CString],
    can_hold: bool,
) -> i32 {
    let signals = Signals::block(&[libc::SIGCHLD, libc::SIGTERM, libc::SIGINT, libc::SIGHUP]);
    sys::ignore_stopped_children();
    if sys::become_subreaper().is_err() {
        return 1;
    }
    let notifier = Notifier::default();
    let mut post =
        Post { signals, notifier, can_hold, steps, keeper, has_told: false, spare: None };
    let mut last = None;
    loop {
        post.prepare();
        let Some(mut call) = post.continued(last.take()).or_else(|| post.next_call()) else {
            if let Some(spare) = post.spare {
                spare.remove();
            }
            return 0;
        };
        let code = reaper::run(&mut call, &mut post, inherited);
        if code != 0 {
            return code;
        }
        // A call for a turn is over with the child.
        last = (!call.launch.is_durable).then_some(call);
    }
}

/// Somebody hands over a step, and perhaps more of them later.
pub(super) struct Call {
    /// The first one.
    pub(super) launch: Launch,
    pub(super) stream: BufReader<UnixStream>,
}

impl Call {
    /// Lets the caller know that no more can be handed over.
    pub(super) fn hang_up(&self) {
        let _ = self.stream.get_ref().shutdown(Shutdown::Both);
    }
}

/// The next step on a call; `None` if there is none.
pub(super) fn read_launch(stream: &mut BufReader<UnixStream>) -> Option<Launch> {
    let mut line = Vec::new();
    stream.read_until(b'\n', &mut line).ok()?;
    serde_json::from_slice(&line).ok()
}

/// Where a reaper stands.
pub(super) struct Post<'a> {
    pub(super) signals: Signals,
    pub(super) notifier: Notifier,
    /// Whether a program can be held before its first instruction.
    pub(super) can_hold: bool,
    steps: &'a UnixListener,
    keeper: UnixStream,
    /// Whether the keeper knows that there is a step.
    has_told: bool,
    /// Where the next step will live. Without one, the step's own folder is made when it is known.
    spare: Option<SpareFolder>,
}

impl Post<'_> {
    /// Makes sure that there is a folder for the next step.
    fn prepare(&mut self) {
        if self.spare.is_none() {
            self.spare = SpareFolder::prepare().ok();
        }
    }

    /// Prepares for the next step while there is nothing else to do, if it is likely to come here:
    /// after the end of a step, the next one is started by others, who need the processor.
    pub(super) fn prepare_early(&mut self) {
        if !self.has_told {
            self.prepare();
        }
    }

    /// Claims a step, and makes its folder unless it is there.
    pub(super) fn claim(&mut self, launch: &Launch) -> io::Result<(Claim, [File; 2])> {
        spare::claim(launch, self.spare.take())
    }

    /// Waits for another step on the last call; `None` when that is over.
    fn continued(&mut self, call: Option<Call>) -> Option<Call> {
        let Call { mut stream, .. } = call?;
        if stream.buffer().is_empty() && !self.has_told {
            let fds = [stream.get_ref().as_raw_fd(), self.steps.as_raw_fd()];
            if !matches!(sys::poll(&fds, None), Ok(Some(0))) {
                // Somebody else calls, whom this reaper cannot answer.
                self.tell_busy();
            }
        }
        let launch = read_launch(&mut stream)?;
        Some(Call { launch, stream })
    }

    /// Waits for a step; `None` when there will be none.
    fn next_call(&mut self) -> Option<Call> {
        self.tell_idle();
        loop {
            // The keeper first: a call that comes after it let go is not for this reaper.
            match sys::poll(&[self.keeper.as_raw_fd(), self.steps.as_raw_fd()], None) {
                Ok(Some(1)) => {}
                Ok(None) => continue,
                Ok(Some(_)) | Err(_) => return None,
            }
            let call = match self.steps.accept() {
                Ok((call, _)) if sys::is_own_peer(&call) => call,
                // Another user may not start anything as this one.
                Ok(_) => continue,
                // Another one was quicker.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
                Err(_) => return None,
            };
            let mut stream = BufReader::new(call);
            // Whoever dies in the middle of a sentence has asked for nothing.
            if let Some(launch) = read_launch(&mut stream) {
                return Some(Call { launch, stream });
            }
        }
    }

    /// Waits for the word that lets a step start. `false` if it cannot come any more.
    pub(super) fn may_go(&mut self, stream: &mut BufReader<UnixStream>) -> bool {
        let others = sys::poll(&[self.steps.as_raw_fd()], Some(Duration::ZERO));
        let has_word = !stream.buffer().is_empty();
        // The word may wait for others to be handed over, so they must not wait for it.
        if matches!(others, Ok(Some(_)))
            || !has_word
                && matches!(sys::poll(&[stream.get_ref().as_raw_fd()], Some(BRIEF)), Ok(None))
        {
            self.tell_busy();
        }
        let mut word = Vec::new();
        stream.read_until(b'\n', &mut word).is_ok() && word == GO
    }

    /// How long to wait before the keeper should hear of the step.
    pub(super) fn patience(&self) -> Duration {
        if self.has_told { Duration::MAX } else { BRIEF }
    }

    /// Lets the keeper know that somebody else should stand by, unless it does.
    pub(super) fn tell_busy(&mut self) {
        if !self.has_told {
            self.has_told = true;
            let _ = self.keeper.write_all(&BUSY);
        }
    }

    fn tell_idle(&mut self) {
        if self.has_told {
            self.has_told = false;
            let _ = self.keeper.write_all(&IDLE);
        }
    }
}
