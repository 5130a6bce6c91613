//! A stand-in for the Anthropic Messages API on 127.0.0.1, the only stand-in of the project.
//!
//! ```text
//! bytes ─► http ─► Request ─► rules ─► Reply ─► message ─► http ─► bytes
//! ```
//!
//! | file | what it owns |
//! |---|---|
//! | `server` | [`ModelApi`]: the port, the connections, what was asked, the end |
//! | `connection` | one client: requests in, replies out, however the reply wants it |
//! | `http` | HTTP/1.1 as far as a client of this API speaks it |
//! | `request` | [`Request`]: what the model was asked |
//! | `rules` | which reply a request gets |
//! | `reply` | [`Reply`]: what a test wants the model to say, and how it arrives |
//! | `message` | a reply in the API's JSON and as its stream of events |
//! | `gate` | [`Gate`]: replies that wait for a word of the test |

mod connection;
mod gate;
mod http;
mod message;
mod reply;
mod request;
mod rules;
mod server;

pub use gate::Gate;
pub use reply::{Block, Reply, Usage};
pub use request::Request;
pub use server::ModelApi;

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks, whoever panicked before: a failed test must not take the others' words away, and what is
/// guarded here is complete between any two statements.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
