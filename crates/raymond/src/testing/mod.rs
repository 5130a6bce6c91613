//! Tests of workflows without tokens: scripted replies, real engine, expectations.
//!
//! | file | what it owns |
//! |---|---|
//! | `case` | a case as its author wrote it, read from YAML with places for what is wrong |
//! | `limits` | how long a case may take, and where it looped |
//! | `rehearse` | running a case on the real engine, in a folder of its own |
//! | `setup` | the commands that make the working directory of a case |
//! | `verdict` | what was expected against what happened |
//! | `record` | a finished run made into a case |
//! | `junit` | results for CI |

mod answers;
mod case;
mod junit;
mod limits;
mod record;
mod rehearse;
mod setup;
mod verdict;

pub(crate) use case::{BYTES_MAX, Case};
pub(crate) use junit::junit;
pub(crate) use record::recorded;
pub(crate) use rehearse::{Rehearsal, Stage, rehearse};
pub(crate) use verdict::{Update, differences};
