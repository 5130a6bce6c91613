//! Connections: how many are open at a time, and how long a client may take to say what it wants.
//!
//! Every user of the machine can connect, before any token is checked. A client that never completes its request
//! must not keep a connection, nor use up the files that the server may have open.

use std::{convert::Infallible, io, sync::Arc, time::Duration};

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::Semaphore,
};

/// The largest head of a request. Browsers send less than 2 KiB here.
const HEAD_BYTES_MAX: usize = 64 * 1024;
/// How long to wait if no connection can be accepted, mostly because too many files are open.
const ACCEPT_PAUSE: Duration = Duration::from_secs(1);

/// The limits of connections.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ConnectionLimits {
    /// How many are open at a time, on all addresses together. Further clients wait.
    pub(crate) open_max: usize,
    /// How long the head of a request may take, also of the next one on a connection that is kept.
    pub(crate) head_patience: Duration,
}

impl Default for ConnectionLimits {
    /// More connections than event streams, and fewer than the 1,024 files that a process may usually have open.
    fn default() -> Self {
        Self { open_max: 768, head_patience: Duration::from_secs(20) }
    }
}

/// Accepts connections and serves them for as long as the program runs.
pub(crate) async fn accept(
    listener: TcpListener,
    router: Router,
    places: Arc<Semaphore>,
    head_patience: Duration,
) -> io::Result<Infallible> {
    loop {
        let place = Arc::clone(&places).acquire_owned().await.map_err(io::Error::other)?;
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(ACCEPT_PAUSE).await;
            continue;
        };
        let router = router.clone();
        tokio::spawn(async move {
            serve(stream, router, head_patience).await;
            drop(place);
        });
    }
}

/// Serves one connection. What goes wrong with it is the client's business.
async fn serve(stream: TcpStream, router: Router, head_patience: Duration) {
    // Events are small, and each is awaited.
    let _ = stream.set_nodelay(true);
    let mut connection = http1::Builder::new();
    connection.timer(TokioTimer::new()).header_read_timeout(head_patience);
    connection.max_buf_size(HEAD_BYTES_MAX);
    let _ =
        connection.serve_connection(TokioIo::new(stream), TowerToHyperService::new(router)).await;
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "in tests a panic is the message")]
mod tests {
    use std::{
        io::{Read as _, Write as _},
        net::{SocketAddr, TcpListener as StdListener, TcpStream as StdStream},
        thread,
    };

    use axum::routing::get;

    use super::*;

    /// Longer than anything takes on a busy machine.
    const PATIENCE: Duration = Duration::from_secs(30);

    /// A server with these limits, for as long as the test runs.
    fn served(limits: ConnectionLimits) -> SocketAddr {
        let listener = StdListener::bind(("127.0.0.1", 0)).unwrap();
        let address = listener.local_addr().unwrap();
        listener.set_nonblocking(true).unwrap();
        thread::spawn(move || {
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build();
            runtime.unwrap().block_on(async {
                let listener = TcpListener::from_std(listener).unwrap();
                let router = Router::new().route("/", get(async || "yes"));
                let places = Arc::new(Semaphore::new(limits.open_max));
                accept(listener, router, places, limits.head_patience).await
            })
        });
        address
    }

    fn connect(address: SocketAddr) -> StdStream {
        let stream = StdStream::connect(address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    #[test]
    fn connection_that_never_completes_its_head_is_closed() {
        let head_patience = Duration::from_millis(50);
        let address = served(ConnectionLimits { head_patience, ..ConnectionLimits::default() });
        for beginning in ["", "GET / HTTP/1.1\r\nHost: a\r\nX-More: "] {
            let mut stream = connect(address);
            stream.write_all(beginning.as_bytes()).unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).unwrap();
            assert!(!answer.contains("yes"), "{answer}");
        }
    }

    #[test]
    fn connections_above_the_limit_wait_for_a_place() {
        let address = served(ConnectionLimits { open_max: 2, ..ConnectionLimits::default() });
        let (first, _second) = (connect(address), connect(address));
        let mut third = connect(address);
        third.write_all(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").unwrap();
        third.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
        assert!(third.read(&mut [0; 1]).is_err(), "it was answered");
        drop(first);
        third.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut answer = String::new();
        third.read_to_string(&mut answer).unwrap();
        assert!(answer.ends_with("yes"), "{answer}");
    }
}
