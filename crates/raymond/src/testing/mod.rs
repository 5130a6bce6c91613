//! Tests of workflows without tokens: scripted replies, real engine, expectations.
//!
//! | file | what it owns |
//! |---|---|
//! | `case` | a case as its author wrote it, parsed from YAML with the places of mistakes |
//! | `limits` | how long a case may take, and where it looped |
//! | `rehearse` | running a case on the real engine, in a temporary directory |
//! | `setup` | the commands that make the working directory of a case |
//! | `verdict` | comparing the expected outcome with what happened |
//! | `record` | turning a finished run into a case |
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
