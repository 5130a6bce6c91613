//! Support for tests, never published: the model API on the loopback, and the real coding agents in
//! private homes.
//!
//! Only the model is fake. The coding agents are the real programs in known versions, so that a test shows
//! how Raymond behaves for users:
//!
//! ```no_run
//! use std::{process::Command, time::Duration};
//!
//! use raymond_testkit::{Claude, ModelApi, Reply};
//! use serde_json::json;
//!
//! let Some(claude) = Claude::or_skip() else { return };
//! let api = ModelApi::start().unwrap();
//! api.on("make a file", [
//!     Reply::tool("Bash", json!({ "command": "touch made" })),
//!     Reply::text("It is made."),
//! ]);
//! let status = Command::new(claude.program())
//!     .env_clear()
//!     .envs(Claude::environment("/tmp/home".as_ref(), &api))
//!     .args(["-p", "make a file", "--permission-mode", "bypassPermissions"])
//!     .status();
//! assert!(status.unwrap().success());
//! assert_eq!(api.wait_for_requests(2, Duration::from_secs(5))[1].tool_results().len(), 1);
//! ```
//!
//! | module | what it owns |
//! |---|---|
//! | [`model_api`] | the fake model: Anthropic's Messages API, `OpenAI`'s Responses and Chat Completions APIs |
//! | [`table`] | the coding agents and their versions: which of them the tests run, and where it is |
//! | [`claude`] | Claude Code, and its environment |
//! | [`agents`] | the same for other coding agents |
//!
//! The program `loopback-model` serves the same API from a file of rules, for benchmarks in bash.

#![forbid(unsafe_code)]

pub mod agents;
pub mod claude;
pub mod model_api;
pub mod table;

pub use agents::AgentProgram;
pub use claude::Claude;
pub use model_api::{Block, Dialect, Gate, ModelApi, Reply, Request, Usage};
