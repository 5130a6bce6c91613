//! The inbox where all senders are threads of this process; only `raymond cancel` is another process,
//! and leaves a file.

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::mpsc::{self, Receiver, Sender},
    time::{Duration, Instant},
};

use super::Message;
use crate::private;

/// The file that asks to give the run up.
const CANCEL: &str = "cancel";
/// How often it is looked for.
const CANCEL_INTERVAL: Duration = Duration::from_millis(250);

/// The receiving end. Only the owner of the run has it.
#[derive(Debug)]
pub(crate) struct Inbox {
    receiver: Receiver<Message>,
    outbox: Outbox,
}

/// The sending end.
#[derive(Clone, Debug)]
pub(crate) struct Outbox {
    /// To a loop of this process.
    sender: Option<Sender<Message>>,
    /// To one of another.
    cancel: PathBuf,
}

impl Inbox {
    /// Listens in the run's folder, instead of an orchestrator that listened there before.
    pub(crate) fn open(folder: &Path) -> io::Result<Self> {
        let cancel = folder.join(CANCEL);
        match fs::remove_file(&cancel) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let (sender, receiver) = mpsc::channel();
        Ok(Self { receiver, outbox: Outbox { sender: Some(sender), cancel } })
    }

    pub(crate) fn outbox(&self) -> Outbox {
        self.outbox.clone()
    }

    /// Waits for the next message, for at most `patience`.
    pub(crate) fn next(&self, patience: Option<Duration>) -> Option<Message> {
        let begun = Instant::now();
        loop {
            let left = patience.map_or(Duration::MAX, |all| all.saturating_sub(begun.elapsed()));
            let message = self.receiver.recv_timeout(left.min(CANCEL_INTERVAL)).ok();
            let message = message.or_else(|| self.cancelled());
            if message.is_some() || left <= CANCEL_INTERVAL {
                return message;
            }
        }
    }

    /// The next message, if it is there already.
    pub(crate) fn next_waiting(&self) -> Option<Message> {
        self.receiver.try_recv().ok()
    }

    fn cancelled(&self) -> Option<Message> {
        fs::remove_file(&self.outbox.cancel).ok().map(|()| Message::Cancel)
    }
}

impl Outbox {
    /// To the orchestrator of the run in `folder`.
    pub(crate) fn to(folder: &Path) -> io::Result<Self> {
        fs::metadata(folder)?;
        Ok(Self { sender: None, cancel: folder.join(CANCEL) })
    }

    /// Sends a message to the loop; if there is no loop any more, it is dropped.
    pub(crate) fn send(&self, message: &Message) {
        match &self.sender {
            Some(sender) => drop(sender.send(message.clone())),
            None => drop(private::write(&self.cancel, "")),
        }
    }
}
