//! How long a case may take, how many states it may enter, and where it looped if it did not end.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc::{self, RecvTimeoutError, Sender},
    },
    thread,
    time::Duration,
};

use raymond_engine::run::interrupts::Interrupts;

/// The time limit of a case that sets none: enough for a slow build, but not a night in CI.
pub(crate) const TIMEOUT: Duration = Duration::from_mins(1);
/// The most states that a case enters if it sets no limit: no case of a real workflow needs more.
pub(crate) const STATES_MAX: u64 = 10_000;
/// The longest loop that is recognized.
const LOOP_STATES_MAX: usize = 20;
/// The most states that are shown of a path without a loop.
const SHOWN_MAX: usize = 8;
/// How often the run is asked to stop: it may not be listening yet.
const STOP_INTERVAL: Duration = Duration::from_secs(1);

/// Stops a run that exceeds its time limit.
pub(crate) struct Watchdog {
    is_over: Arc<AtomicBool>,
    /// Dropping it tells the thread that the run has ended.
    _done: Sender<()>,
}

impl Watchdog {
    /// Stops the run through `interrupts` unless it ends within `timeout`; zero is no limit.
    pub(crate) fn new(interrupts: Option<&Interrupts>, timeout: Duration) -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let (done, ended) = mpsc::channel();
        if let Some(interrupts) = interrupts.cloned().filter(|_| !timeout.is_zero()) {
            let is_over = Arc::clone(&is_over);
            thread::spawn(move || {
                let mut patience = timeout;
                while ended.recv_timeout(patience) == Err(RecvTimeoutError::Timeout) {
                    is_over.store(true, Ordering::Relaxed);
                    interrupts.stop();
                    patience = STOP_INTERVAL;
                }
            });
        }
        Self { is_over, _done: done }
    }

    /// Whether the time limit was exceeded.
    pub(crate) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }
}

/// The last states of each agent, for the user who wonders why a case does not end.
pub(crate) fn whereabouts(paths: &BTreeMap<String, Vec<String>>) -> String {
    let agents = paths.iter().map(|(agent, path)| {
        let (words, states) = match looped(path) {
            Some((states, times)) => (format!("looped {times} times: "), states),
            None => (String::new(), &path[path.len().saturating_sub(SHOWN_MAX)..]),
        };
        format!("\n      {agent} {words}{}", states.join(" -> "))
    });
    agents.collect()
}

/// The shortest loop at the end of a path, from its first state back to it, and the number of its rounds.
fn looped(path: &[String]) -> Option<(&[String], usize)> {
    (1..=LOOP_STATES_MAX).find_map(|length| {
        let (_, last) = path.split_at_checked(path.len().checked_sub(length)?)?;
        let times = path.rchunks_exact(length).take_while(|chunk| *chunk == last).count();
        let start = path.len().checked_sub(length + 1)?;
        (times > 1).then(|| path.get(start..).map(|states| (states, times))).flatten()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(path: &str) -> String {
        let path = path.split(' ').map(str::to_owned).collect();
        whereabouts(&BTreeMap::from([("main".to_owned(), path)]))
    }

    #[test]
    fn whereabouts_name_the_shortest_loop_and_its_rounds() {
        assert_eq!(told("A B C B C B C"), "\n      main looped 3 times: C -> B -> C");
        assert_eq!(told("A B B B"), "\n      main looped 3 times: B -> B");
    }

    #[test]
    fn whereabouts_are_the_last_states_if_there_is_no_loop() {
        assert_eq!(told("A"), "\n      main A");
        let path = "A B C D E F G H I J";
        assert_eq!(told(path), "\n      main C -> D -> E -> F -> G -> H -> I -> J");
    }
}
