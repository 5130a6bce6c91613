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
use crate::trust::private;

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
const GIT: &str = "!git";

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
            _ if text == GIT => Message::Git,
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
            Message::Git => GIT.to_owned(),
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

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "in tests a panic is the message")]
mod tests {
    use std::{os::unix::fs::PermissionsExt as _, time::Instant};

    use super::*;

    /// Longer than any wait in these tests.
    const LONG: Option<Duration> = Some(Duration::from_mins(1));

    #[test]
    fn every_message_arrives_as_it_was_sent_and_in_order() {
        let folder = tempfile::tempdir().unwrap();
        let inbox = Inbox::open(folder.path()).unwrap();
        let messages = [
            Message::Step("main_work1.12".to_owned()),
            Message::Step("x".repeat(MESSAGE_BYTES_MAX)),
            Message::KeeperGone(u32::MAX),
            Message::ReaperGone,
            Message::ProcessGone(7),
            Message::Interrupt,
            Message::Door,
            Message::Git,
        ];
        for message in &messages {
            inbox.outbox().send(message);
        }
        for message in messages {
            assert_eq!(inbox.next(LONG), Some(message));
        }
        assert_eq!(inbox.next_waiting(), None);
    }

    #[test]
    fn text_that_is_no_message_is_taken_for_an_unknown_step_and_never_for_an_order() {
        let folder = tempfile::tempdir().unwrap();
        let inbox = Inbox::open(folder.path()).unwrap();
        let socket = UnixDatagram::unbound().unwrap();
        for text in [
            &b"!keeper-gone x"[..],
            b"!process-gone -1",
            b"!interrupted",
            b"!door ",
            b"",
            b"\xff\xfe",
        ] {
            socket.send_to(text, folder.path().join(INBOX_SOCKET)).unwrap();
            let expected = String::from_utf8_lossy(text).into_owned();
            assert_eq!(inbox.next(LONG), Some(Message::Step(expected)));
        }
        // The socket truncates a name that is too long, so it matches no step in flight.
        socket.send_to(&[b'x'; 5000], folder.path().join(INBOX_SOCKET)).unwrap();
        let Some(Message::Step(name)) = inbox.next(LONG) else { panic!("nothing came") };
        assert_eq!(name.len(), MESSAGE_BYTES_MAX + 1);
    }

    #[test]
    fn wait_ends_when_its_time_is_over() {
        let folder = tempfile::tempdir().unwrap();
        let inbox = Inbox::open(folder.path()).unwrap();
        let begun = Instant::now();
        assert_eq!(inbox.next(Some(Duration::from_millis(20))), None);
        assert!(begun.elapsed() >= Duration::from_millis(15));
        assert_eq!(inbox.next(Some(Duration::ZERO)), None);
        assert_eq!(inbox.next(Some(Duration::from_nanos(1))), None, "not for ever");
        // It waits again after it has only looked.
        assert_eq!(inbox.next_waiting(), None);
        inbox.outbox().send(&Message::Door);
        assert_eq!(inbox.next(None), Some(Message::Door));
    }

    #[test]
    fn next_orchestrator_gets_the_messages_and_a_path_may_be_long() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("x".repeat(200));
        fs::create_dir(&folder).unwrap();
        let first = Inbox::open(&folder).unwrap();
        let outbox = first.outbox();
        let second = Inbox::open(&folder).unwrap();
        outbox.send(&Message::Door);
        assert_eq!(second.next(LONG), Some(Message::Door));
        assert_eq!(first.next_waiting(), None);
        // One that is gone needs no message.
        drop(second);
        outbox.send(&Message::Door);
    }

    #[test]
    fn only_the_owner_can_send() {
        let folder = tempfile::tempdir().unwrap();
        let _inbox = Inbox::open(folder.path()).unwrap();
        let metadata = fs::metadata(folder.path().join(INBOX_SOCKET)).unwrap();
        assert_eq!(metadata.permissions().mode() & 0o077, 0);
    }

    #[test]
    fn what_cannot_be_replaced_by_a_socket_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        assert!(Inbox::open(&folder.path().join("gone")).is_err());
        fs::create_dir(folder.path().join(INBOX_SOCKET)).unwrap();
        assert!(Inbox::open(folder.path()).is_err());
    }
}
