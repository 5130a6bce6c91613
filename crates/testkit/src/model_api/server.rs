//! The server: its port, its connections, the recorded requests, and its shutdown.

use std::{
    collections::HashMap,
    io,
    net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream},
    sync::{Arc, Condvar, Mutex, PoisonError, atomic::AtomicU64},
    thread::{self, JoinHandle},
    time::Duration,
};

use super::{Gate, Reply, Request, connection::Connection, lock, rules::Rules};

/// The model API on its own port. Dropping it closes every connection.
#[derive(Debug)]
pub struct ModelApi {
    address: SocketAddr,
    shared: Arc<Shared>,
    listening: Option<JoinHandle<()>>,
}

impl ModelApi {
    /// Starts it on any free port of 127.0.0.1.
    pub fn start() -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared::default());
        let server = Arc::clone(&shared);
        let listening = thread::Builder::new()
            .name("model-api".into())
            .spawn(move || listen(&listener, &server))?;
        Ok(Self { address, shared, listening: Some(listening) })
    }

    /// Its URL, for `ANTHROPIC_BASE_URL`.
    pub fn base_url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Adds a rule: requests whose [last user text](Request::last_user_text) contains `needle` get
    /// these replies in order; the last one is repeated. The rule that was added last is tried
    /// first. A request without a rule gets a 400 that shows its text.
    pub fn on(&self, needle: impl Into<String>, replies: impl IntoIterator<Item = Reply>) {
        self.shared.rules.add_needle(needle.into(), replies.into_iter().collect());
    }

    /// Adds a rule as a function; if it returns `None`, the rules before it are tried.
    pub fn answer_with(&self, rule: impl Fn(&Request) -> Option<Reply> + Send + Sync + 'static) {
        self.shared.rules.add(rule);
    }

    /// All requests so far, in order.
    pub fn requests(&self) -> Vec<Request> {
        lock(&self.shared.requests).clone()
    }

    /// Waits until there are `count` requests, and returns them.
    ///
    /// # Panics
    ///
    /// If that does not happen in time. The message shows the requests so far.
    pub fn wait_for_requests(&self, count: usize, patience: Duration) -> Vec<Request> {
        let requests = lock(&self.shared.requests);
        let waited = self
            .shared
            .asked
            .wait_timeout_while(requests, patience, |requests| requests.len() < count);
        // A copy, so that the panic below happens without the lock.
        let seen = waited.unwrap_or_else(PoisonError::into_inner).0.clone();
        assert!(
            seen.len() >= count,
            "waited {patience:?} for {count} requests, saw {}: {:#?}",
            seen.len(),
            seen.iter().map(Request::last_user_text).collect::<Vec<_>>()
        );
        seen
    }
}

impl Drop for ModelApi {
    fn drop(&mut self) {
        self.shared.ended.open();
        // `accept` cannot be interrupted, but a connection wakes it.
        let called = TcpStream::connect(self.address);
        if let (Ok(_), Some(listening)) = (called, self.listening.take()) {
            // After this no connection is added. A panic in that thread was already reported there.
            let _ = listening.join();
        }
        for open in lock(&self.shared.open).values() {
            let _ = open.stream.shutdown(Shutdown::Both); // it may be closed already
            if let Some(gate) = &open.waits_at {
                gate.wake();
            }
        }
    }
}

/// The state that all threads of one API share.
#[derive(Debug, Default)]
pub(super) struct Shared {
    pub(super) rules: Rules,
    /// Opened when the API is dropped.
    pub(super) ended: Gate,
    /// The number of ids given to answers.
    pub(super) answers: AtomicU64,
    requests: Mutex<Vec<Request>>,
    asked: Condvar,
    open: Mutex<HashMap<u64, Open>>,
}

impl Shared {
    pub(super) fn record(&self, request: &Request) {
        lock(&self.requests).push(request.clone());
        self.asked.notify_all();
    }
}

/// What shutdown needs of a connection.
#[derive(Debug)]
struct Open {
    stream: TcpStream,
    waits_at: Option<Gate>,
}

/// An entry in the list of open connections, removed when dropped, also when a test's rule panics:
/// as long as the list holds a copy of the stream, the client does not see it close.
pub(super) struct Live {
    id: u64,
    shared: Arc<Shared>,
}

impl Live {
    fn new(id: u64, stream: &TcpStream, shared: &Arc<Shared>) -> io::Result<Self> {
        let open = Open { stream: stream.try_clone()?, waits_at: None };
        lock(&shared.open).insert(id, open);
        Ok(Self { id, shared: Arc::clone(shared) })
    }

    /// Waits until the gate is open or the API is dropped.
    pub(super) fn wait_at(&self, gate: &Gate) {
        // Register first, then check: shutdown opens its own gate before it wakes the others.
        self.set_gate(Some(gate.clone()));
        gate.wait_unless(&self.shared.ended);
        self.set_gate(None);
    }

    fn set_gate(&self, gate: Option<Gate>) {
        if let Some(open) = lock(&self.shared.open).get_mut(&self.id) {
            open.waits_at = gate;
        }
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        lock(&self.shared.open).remove(&self.id);
    }
}

/// Accepts connections until the API is dropped, each in its own thread.
fn listen(listener: &TcpListener, shared: &Arc<Shared>) {
    for (id, stream) in (0..).zip(listener.incoming()) {
        if shared.ended.is_open() {
            return;
        }
        // The client is already gone, or no thread can be started: drop this connection only.
        let _ = stream.and_then(|stream| serve(id, stream, shared));
    }
}

fn serve(id: u64, stream: TcpStream, shared: &Arc<Shared>) -> io::Result<()> {
    let live = Live::new(id, &stream, shared)?;
    let connection = Connection::new(stream, Arc::clone(shared), live)?;
    thread::Builder::new().name(format!("model-api-{id}")).spawn(|| connection.serve())?;
    Ok(())
}
