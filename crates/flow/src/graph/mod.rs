//! A workflow as its files tell it: the states, and the ways from one to another.
//!
//! Nothing runs here. What a prompt allows is in its frontmatter; what a script or a prompt without
//! a policy may do is told by the tags in its text. Where the text leaves it open (a variable in
//! the place of a name), the state [is open](State::is_open) and may lead anywhere, so that nobody
//! draws a conclusion from what could not be read.
//!
//! [`Graph::of`] is the way in. [`Graph::edges`] is the picture, [`Graph::reachable`] walks it.

mod build;
mod edge;
mod ends;
mod reach;
mod script;
mod slip;
mod state;
mod way;

pub use edge::{Edge, EdgeKind};
pub use ends::ResultEnd;
pub use slip::{Slip, SlipKind};
pub use state::{Content, State};
pub use way::{Meaning, Named, Origin, Way};

use std::collections::BTreeMap;

use crate::{
    id::StateName,
    scope::{EntryError, Listing},
    source::Platform,
};

/// The states of a workflow and the ways between them.
#[derive(Clone, Debug)]
pub struct Graph {
    /// Whose rules apply.
    pub platform: Platform,
    /// The names of all files in the scope.
    pub listing: Listing,
    /// The first state.
    pub entry: Result<StateName, EntryError>,
    /// Whether somebody named the first state, and it was not looked up.
    pub is_entry_given: bool,
    /// The states that can run on this platform, by name.
    pub states: BTreeMap<StateName, State>,
}
