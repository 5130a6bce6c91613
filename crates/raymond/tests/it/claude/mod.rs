//! Prompts on the real Claude Code; only the model is fake.
//!
//! | file | what it proves |
//! |---|---|
//! | `env` | nothing: the project, the model and the Claude of one test |
//! | `commands` | prompts that look like commands of Claude Code, and turns without a model request |
//! | `sessions` | what each tag makes the model remember, and which model is asked |
//! | `policy` | reminders, implicit transitions, evaluators |
//! | `failures` | every kind of failure of Claude, and what the user sees |
//! | `limits` | budget and usage limit |
//! | `options` | keys of frontmatter that become options of Claude |
//! | `questions` | what Claude asks with its own tool, and the permissions that it needs, are put to a person |
//! | `rewind` | runs that are made from the past of another one |
//! | `told` | messages to a running turn |
//! | `tools` | files, permissions, many workers, long prompts |
//! | `cost` | what `raymond cost` says of real turns |
//! | `crashes` | costs and prompts after a process is killed |
//! | `debug` | what `--debug` keeps of a turn |
//! | `unasked` | output of Claude without a prompt is not an answer, and is paid once |
//! | `unpaid` | what a turn has spent that ends without a result is counted once |
//! | `warm` | kept processes change only the time that a turn takes |
//!
//! All of them are skipped, with a reason, where Claude Code is not installed.

mod commands;
mod cost;
mod crashes;
mod debug;
mod env;
mod failures;
mod limits;
mod options;
mod policy;
mod questions;
mod rewind;
mod sessions;
mod told;
mod tools;
mod unasked;
mod unpaid;
mod warm;
