//! A fake model on 127.0.0.1, the only fake of the project. It speaks Anthropic's Messages API and `OpenAI`'s Responses
//! and Chat Completions APIs; the path of a request says which.
//!
//! ```text
//! bytes ─► http ─► Request ─► rules ─► Reply ─► dialect ─► http ─► bytes
//! ```
//!
//! | file | what it owns |
//! |---|---|
//! | `server` | [`ModelApi`]: the port, the connections, the recorded requests, the shutdown |
//! | `connection` | one client: reads requests, sends replies |
//! | `http` | the part of HTTP/1.1 that clients of this API use |
//! | `request` | [`Request`]: one recorded request |
//! | `rules` | which reply a request gets |
//! | `reply` | [`Reply`]: what the model answers, and how it is delivered |
//! | `dialect` | [`Dialect`]: the model APIs, by path |
//! | `message`, `responses`, `chat` | a reply as JSON and as a stream of events, in each API |
//! | `gate` | [`Gate`]: holds replies until the test opens it |

mod chat;
mod connection;
mod dialect;
mod gate;
mod http;
mod message;
mod reply;
mod request;
mod responses;
mod rules;
mod server;

pub use dialect::Dialect;
pub use gate::Gate;
pub use reply::{Block, Reply, Usage};
pub use request::Request;
pub use server::ModelApi;

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks even if another thread panicked while it held the lock: a failed test must not hide the
/// messages of others, and the guarded data is consistent between any two statements.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
