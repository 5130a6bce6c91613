//! How long a worker may work on a step: until the server, which has not heard of it, gives the step to another worker.
//!
//! The worker sends the heartbeats itself, because their answers matter: each one that the server accepts moves the
//! deadline.

use std::time::{Duration, Instant, SystemTime};

use temporalio_client::{AsyncActivityHandle, Client, RpcOptions, errors::AsyncActivityError};

/// The server does not count on this worker any more.
#[derive(Debug, thiserror::Error)]
#[error("the step is not this worker's any more")]
pub(super) struct Gone;

/// How long the server counts on this worker for a step.
#[derive(Debug)]
pub(super) struct Lease {
    /// After how long without a heartbeat the server gives the step to another worker.
    pub(super) timeout: Duration,
    /// The server has heard of this worker then, or later. `None` if that is not known.
    pub(super) since: Option<Instant>,
}

impl Lease {
    /// The lease of a worker that was given a step at `started` by the clock of the server. A step that was on its way for
    /// long, because this worker was frozen or without network, may be another's by now; clocks that differ count as that.
    pub(super) fn begin(timeout: Duration, started: Option<SystemTime>) -> Self {
        let margin = timeout / 12;
        let is_recent = |at: &SystemTime| {
            let age = SystemTime::now().duration_since(*at);
            age.unwrap_or_else(|ahead| ahead.duration()) < margin
        };
        let since = started.filter(is_recent).and_then(|_| Instant::now().checked_sub(margin));
        Self { timeout, since }
    }

    /// How long a step may run on: less than the server waits, and the rest is for killing the child.
    pub(super) fn patience(&self) -> Duration {
        self.since
            .map_or(Duration::ZERO, |since| (self.timeout * 2 / 3).saturating_sub(since.elapsed()))
    }

    /// Sends a heartbeat. Returns whether the step is cancelled; `None` if the server cannot be reached. What counts is when
    /// the heartbeat was sent: its answer may be late.
    pub(super) async fn renew(
        &mut self,
        handle: &AsyncActivityHandle<Client>,
    ) -> Result<Option<bool>, Gone> {
        let sent = Instant::now();
        match handle.heartbeat::<()>(None, RpcOptions::default()).await {
            Ok(answer) => {
                self.since = Some(sent);
                Ok(Some(answer.cancel_requested))
            }
            Err(AsyncActivityError::NotFound(_)) => Err(Gone),
            Err(_) => Ok(None),
        }
    }

    /// Waits for something before a step is started, with heartbeats meanwhile. Gives up when the step is cancelled.
    pub(super) async fn keep<T>(
        &mut self,
        handle: &AsyncActivityHandle<Client>,
        wanted: impl Future<Output = T>,
    ) -> Result<T, Gone> {
        self.beating(handle, |_, is_cancelled| !is_cancelled, wanted).await
    }

    /// Does `work`, with heartbeats until it is done. `beat` is called after each one that the server has accepted, with the new
    /// patience and whether the step is to be cancelled, and says whether to go on. A server that cannot be reached
    /// may come back before the timeout.
    pub(super) async fn beating<T>(
        &mut self,
        handle: &AsyncActivityHandle<Client>,
        beat: impl Fn(Duration, bool) -> bool,
        work: impl Future<Output = T>,
    ) -> Result<T, Gone> {
        let mut work = std::pin::pin!(work);
        loop {
            if let Ok(done) = tokio::time::timeout(self.timeout / 3, &mut work).await {
                return Ok(done);
            }
            if let Some(is_cancelled) = self.renew(handle).await?
                && !beat(self.patience(), is_cancelled)
            {
                return Err(Gone);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMEOUT: Duration = Duration::from_mins(1);

    #[test]
    fn step_that_was_long_on_its_way_is_not_started_before_a_heartbeat() {
        let now = SystemTime::now();
        let late = Some(now - TIMEOUT / 2);
        let clock_is_slow = Some(now + TIMEOUT / 2);
        for started in [None, late, clock_is_slow] {
            assert_eq!(Lease::begin(TIMEOUT, started).patience(), Duration::ZERO, "{started:?}");
        }
    }

    #[test]
    fn step_that_has_just_been_given_may_run_for_less_than_the_server_waits() {
        let patience = Lease::begin(TIMEOUT, Some(SystemTime::now())).patience();
        assert!(patience > TIMEOUT / 3, "longer than until the first heartbeat: {patience:?}");
        assert!(patience < TIMEOUT * 2 / 3, "{patience:?}");
    }
}
