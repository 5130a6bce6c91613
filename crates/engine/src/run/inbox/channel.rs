//! The inbox if all senders are threads of this process. Only requests at the run's door come from other
//! processes; the loop polls for them.

use std::{
    io,
    path::{Path, PathBuf},
    sync::mpsc::{self, Receiver, Sender},
    time::{Duration, Instant},
};

use super::Message;
use crate::run::door;

/// How often the door is polled.
const DOOR_INTERVAL: Duration = Duration::from_millis(250);

/// The receiving end. Only the run loop has it.
#[derive(Debug)]
pub(crate) struct Inbox {
    folder: PathBuf,
    receiver: Receiver<Message>,
    outbox: Outbox,
}

/// The sending end.
#[derive(Clone, Debug)]
pub(crate) struct Outbox {
    /// The channel to a loop of this process. A loop of another process polls its door.
    sender: Option<Sender<Message>>,
}

impl Inbox {
    /// Listens for the run in `folder`.
    #[allow(clippy::unnecessary_wraps, reason = "the other inbox can fail")]
    pub(crate) fn open(folder: &Path) -> io::Result<Self> {
        let (sender, receiver) = mpsc::channel();
        let outbox = Outbox { sender: Some(sender) };
        Ok(Self { folder: folder.to_owned(), receiver, outbox })
    }

    pub(crate) fn outbox(&self) -> Outbox {
        self.outbox.clone()
    }

    /// Waits for the next message, for at most `patience`.
    pub(crate) fn next(&self, patience: Option<Duration>) -> Option<Message> {
        let begun = Instant::now();
        loop {
            let left = patience.map_or(Duration::MAX, |all| all.saturating_sub(begun.elapsed()));
            let message = self.receiver.recv_timeout(left.min(DOOR_INTERVAL)).ok();
            let door = || door::has_requests(&self.folder).then_some(Message::Door);
            let message = message.or_else(door);
            if message.is_some() || left <= DOOR_INTERVAL {
                return message;
            }
        }
    }

    /// The next message, if it is there already.
    pub(crate) fn next_waiting(&self) -> Option<Message> {
        self.receiver.try_recv().ok()
    }
}

impl Outbox {
    /// For the orchestrator of the run in `folder`, which is another process.
    pub(crate) fn to(folder: &Path) -> io::Result<Self> {
        std::fs::metadata(folder)?;
        Ok(Self { sender: None })
    }

    /// Sends a message to the loop; if there is no loop any more, it is dropped.
    pub(crate) fn send(&self, message: &Message) {
        if let Some(sender) = &self.sender {
            let _ = sender.send(message.clone());
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "in tests a panic is the message")]
mod tests {
    use super::*;
    use crate::run::door::{Letter, Request};

    /// Longer than any wait in these tests.
    const LONG: Option<Duration> = Some(Duration::from_mins(1));

    #[test]
    fn messages_of_all_threads_arrive_in_order() {
        let folder = tempfile::tempdir().unwrap();
        let inbox = Inbox::open(folder.path()).unwrap();
        let outbox = inbox.outbox();
        std::thread::spawn(move || {
            outbox.send(&Message::Step("main.1".to_owned()));
            outbox.send(&Message::Interrupt);
        });
        assert_eq!(inbox.next(LONG), Some(Message::Step("main.1".to_owned())));
        assert_eq!(inbox.next(LONG), Some(Message::Interrupt));
        assert_eq!(inbox.next_waiting(), None);
        assert_eq!(inbox.next(Some(Duration::from_millis(1))), None, "the wait ends");
    }

    #[test]
    fn request_of_another_process_is_found_at_the_door_until_it_is_withdrawn() {
        let folder = tempfile::tempdir().unwrap();
        let inbox = Inbox::open(folder.path()).unwrap();
        // Another process has no channel; what it sends is dropped.
        Outbox::to(folder.path()).unwrap().send(&Message::Door);
        assert_eq!(inbox.next_waiting(), None);
        let letter =
            Letter::post(folder.path(), "i", &Request::Answered { ask: "main.1".to_owned() });
        assert_eq!(inbox.next(None), Some(Message::Door));
        assert_eq!(inbox.next(LONG), Some(Message::Door), "it is still there");
        drop(letter);
        assert_eq!(inbox.next(Some(DOOR_INTERVAL * 2)), None);
    }

    #[test]
    fn run_without_a_directory_cannot_be_reached() {
        let folder = tempfile::tempdir().unwrap();
        assert!(Outbox::to(&folder.path().join("gone")).is_err());
    }
}
