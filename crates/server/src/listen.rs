//! The address on which the server listens, and serving until the process ends.

use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener},
    sync::Arc,
};

use raymond_engine::store::user;
use serde_json::json;
use thiserror::Error;
use tokio::sync::Semaphore;

use crate::{
    ServerOptions,
    app::{App, router},
    connections::{self, ConnectionLimits},
    guard::Hosts,
    token::ServerToken,
    uploads,
};

/// The default port, and how many ports after it are tried if it is in use.
const PORT: u16 = 7420;
const PORTS: u16 = 20;
/// How many files are read at the same time: more does not make a disk faster.
const READERS_MAX: usize = 8;

/// Why the server cannot start.
#[derive(Debug, Error)]
pub enum ServeError {
    /// The token of the user cannot be read or written.
    #[error("cannot keep the token in {path}")]
    Token {
        /// The file.
        path: String,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The address cannot be used.
    #[error("cannot listen on {address}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The operating system refused a call that every server needs.
    #[error("cannot serve")]
    Io(#[from] io::Error),
}

/// A server that listens but does not answer yet.
pub struct Bound {
    listeners: Vec<TcpListener>,
    app: Arc<App>,
    port: u16,
    address: IpAddr,
}

impl std::fmt::Debug for Bound {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Bound").field("port", &self.port).finish_non_exhaustive()
    }
}

impl Bound {
    /// Listens. When this returns, connections are accepted and wait.
    pub fn new(options: ServerOptions) -> Result<Self, ServeError> {
        let path = options.user_dir.file(crate::token::FILE);
        let token = options.user_dir.create().and_then(|()| ServerToken::load(&path));
        let token = token
            .map_err(|source| ServeError::Token { path: path.display().to_string(), source })?;
        let address = options.address.unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST));
        let (first, port) = listen(address, options.port)?;
        let mut listeners = vec![first];
        if options.address.is_none() {
            // Not every machine has it.
            listeners.extend(TcpListener::bind((Ipv6Addr::LOCALHOST, port)));
        }
        let hosts = Hosts::new(address, port, &options.hosts);
        let app = Arc::new(App::new(options, token, hosts));
        uploads::remove_old(&app.user_dir);
        let bound = Self { listeners, app, port, address };
        // For `raymond open`. Without it, the user has to type the address.
        let place = json!({ "url": bound.url(), "pid": std::process::id() });
        let _ = user::replace(&bound.app.user_dir.file(PLACE), place.to_string().as_bytes());
        Ok(bound)
    }

    /// Where the page is, without the token.
    pub fn url(&self) -> String {
        let address = if self.address.is_unspecified() {
            IpAddr::V4(Ipv4Addr::LOCALHOST)
        } else {
            self.address
        };
        format!("http://{}/", SocketAddr::new(address, self.port))
    }

    /// The same with the token in the fragment, which browsers never send.
    pub fn link(&self) -> String {
        link(&self.url(), self.app.token.text())
    }

    /// Answers requests until the program is ended.
    pub fn serve(self) -> Result<(), ServeError> {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        let runtime =
            builder.enable_io().enable_time().max_blocking_threads(READERS_MAX).build()?;
        runtime.block_on(async move {
            let limits = ConnectionLimits::default();
            let places = Arc::new(Semaphore::new(limits.open_max));
            let mut serving = tokio::task::JoinSet::new();
            for listener in self.listeners {
                listener.set_nonblocking(true)?;
                let listener = tokio::net::TcpListener::from_std(listener)?;
                let (router, places) = (router(Arc::clone(&self.app)), Arc::clone(&places));
                serving.spawn(connections::accept(listener, router, places, limits.head_patience));
            }
            while let Some(ended) = serving.join_next().await {
                ended.map_err(io::Error::other)??;
            }
            Ok(())
        })
    }
}

/// The file that says where the latest server listens.
pub(crate) const PLACE: &str = "serve.json";

/// The link to the page.
pub(crate) fn link(url: &str, token: &str) -> String {
    format!("{url}#k={token}")
}

fn listen(address: IpAddr, port: Option<u16>) -> Result<(TcpListener, u16), ServeError> {
    let ports = port.map_or(PORT..PORT + PORTS, |port| port..port.saturating_add(1));
    let last = ports.end - 1;
    for port in ports {
        match TcpListener::bind((address, port)) {
            Ok(listener) => {
                let port = listener.local_addr()?.port();
                return Ok((listener, port));
            }
            Err(error) if error.kind() == io::ErrorKind::AddrInUse && port < last => {}
            Err(source) => {
                return Err(ServeError::Listen { address: SocketAddr::new(address, port), source });
            }
        }
    }
    Err(io::Error::from(io::ErrorKind::AddrInUse).into())
}
