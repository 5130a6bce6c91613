//! The inbox as a socket, so that reapers, which are other processes, can send to it.

use std::{
    cell::OnceCell,
    fs::{self, File},
    io,
    os::{fd::AsRawFd, unix::net::UnixDatagram},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use super::Message;
use crate::private;

/// The socket's name in the run's directory.
const INBOX_SOCKET: &str = "orchestrator.sock";

/// The longest message: the name of a step's directory.
const MESSAGE_BYTES_MAX: usize = 255;

/// How long sending waits for a loop that does not read.
const TELL_PATIENCE: Duration = Duration::from_secs(5);

/// Not the name of a step: those begin with a letter.
const KEEPER_GONE: &str = "!keeper-gone ";
pub(crate) const REAPER_GONE: &str = "!reaper-gone";
const PROCESS_GONE: &str = "!process-gone ";
const INTERRUPT: &str = "!interrupt";
const DOOR: &str = "!door";

/// The receiving end. Only the run loop has it.
#[derive(Debug)]
pub(crate) struct Inbox {
    socket: UnixDatagram,
    outbox: Outbox,
}

/// The sending end for this process.
#[derive(Clone, Debug)]
pub(crate) struct Outbox {
    address: PathBuf,
    /// Keeps the address valid.
    _folder: Arc<File>,
}

impl Inbox {
    /// Listens in the run's directory, instead of an earlier orchestrator.
    pub(crate) fn open(folder: &Path) -> io::Result<Self> {
        match fs::remove_file(folder.join(INBOX_SOCKET)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let outbox = Outbox::to(folder)?;
        let socket = UnixDatagram::bind(&outbox.address)?;
        // A datagram does not name its sender, but for each one the kernel checks whether the sender may
        // write to this file and enter the directory. So messages of other users cannot arrive.
        private::tighten(&outbox.address)?;
        Ok(Self { socket, outbox })
    }

    pub(crate) fn outbox(&self) -> Outbox {
        self.outbox.clone()
    }

    /// Waits for the next message, for at most `patience`.
    pub(crate) fn next(&self, patience: Option<Duration>) -> Option<Message> {
        // A timeout of zero would mean for ever, and the shortest one takes a tick of the kernel.
        if patience == Some(Duration::ZERO) {
            return self.next_waiting();
        }
        self.socket.set_read_timeout(patience).ok()?;
        self.receive()
    }

    /// The next message, if it is there already.
    pub(crate) fn next_waiting(&self) -> Option<Message> {
        self.socket.set_nonblocking(true).ok()?;
        let message = self.receive();
        self.socket.set_nonblocking(false).ok()?;
        message
    }

    fn receive(&self) -> Option<Message> {
        let mut bytes = [0; MESSAGE_BYTES_MAX + 1];
        let length = self.socket.recv(&mut bytes).ok()?;
        let text = String::from_utf8_lossy(&bytes[..length]);
        let number = |prefix: &str| text.strip_prefix(prefix)?.parse().ok();
        Some(match (number(KEEPER_GONE), number(PROCESS_GONE)) {
            (Some(connection), _) => Message::KeeperGone(connection),
            (_, Some(process)) => Message::ProcessGone(process),
            _ if text == REAPER_GONE => Message::ReaperGone,
            _ if text == INTERRUPT => Message::Interrupt,
            _ if text == DOOR => Message::Door,
            _ => Message::Step(text.into_owned()),
        })
    }
}

impl Outbox {
    /// To the orchestrator of the run in `folder`.
    pub(crate) fn to(folder: &Path) -> io::Result<Self> {
        let directory = Arc::new(File::open(folder)?);
        let address = socket_path(&directory, INBOX_SOCKET);
        Ok(Self { address, _folder: directory })
    }

    /// Sends a message to the loop; if there is no loop any more, it is dropped.
    pub(crate) fn send(&self, message: &Message) {
        let text = match message {
            Message::Step(name) => name.clone(),
            Message::KeeperGone(connection) => format!("{KEEPER_GONE}{connection}"),
            Message::ProcessGone(process) => format!("{PROCESS_GONE}{process}"),
            Message::ReaperGone => REAPER_GONE.to_owned(),
            Message::Interrupt => INTERRUPT.to_owned(),
            Message::Door => DOOR.to_owned(),
        };
        if let Ok(socket) = UnixDatagram::unbound() {
            // A loop that is stopped does not read.
            let _ = socket.set_write_timeout(Some(TELL_PATIENCE));
            let _ = socket.send_to(text.as_bytes(), &self.address);
        }
    }
}

/// The sending end of keeper and reapers, whose working directory is the run's directory. The orchestrator may
/// be replaced by another one while they live.
#[derive(Debug, Default)]
pub(crate) struct Notifier {
    /// Created for the first message.
    socket: OnceCell<UnixDatagram>,
}

impl Notifier {
    /// Sends a message. If there is no orchestrator, it is lost: the next one checks all steps.
    pub(crate) fn tell(&self, words: &str) {
        if self.socket.get().is_none()
            && let Ok(socket) = UnixDatagram::unbound()
        {
            let _ = socket.set_write_timeout(Some(TELL_PATIENCE));
            let _ = self.socket.set(socket);
        }
        if let Some(socket) = self.socket.get() {
            let _ = socket.send_to(words.as_bytes(), INBOX_SOCKET);
        }
    }
}

/// A short path to a socket in the directory that is open as `directory`: the address of a socket is limited to
/// about a hundred bytes, and paths of projects are longer.
pub(crate) fn socket_path(directory: &File, name: &str) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", directory.as_raw_fd())).join(name)
}
