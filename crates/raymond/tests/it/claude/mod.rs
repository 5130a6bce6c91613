//! Prompts on the real Claude Code; only the model behind it is made up.
//!
//! | file | what it proves |
//! |---|---|
//! | `env` | nothing: the project, the model and the Claude of one test |
//! | `commands` | prompts that look like commands of Claude's, and turns that ask no model |
//! | `sessions` | what each tag makes the model remember, and which model is asked |
//! | `policy` | reminders, the only way out, evaluators |
//! | `failures` | every kind of failure that Claude knows, and what people are told |
//! | `limits` | budget and usage limit |
//! | `tools` | files, permissions, many workers, long prompts |
//! | `crashes` | what is paid when something is killed |
//! | `debug` | what `--debug` keeps of a turn |
//! | `unasked` | what Claude says without being asked is no answer, and is paid once |
//! | `warm` | processes that are kept change nothing but the time |
//!
//! All of them are skipped, with a reason, where Claude Code is not installed.

mod commands;
mod crashes;
mod debug;
mod env;
mod failures;
mod limits;
mod policy;
mod sessions;
mod tools;
mod unasked;
mod warm;
