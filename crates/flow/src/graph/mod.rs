//! The states of a workflow and the transitions between them, as far as its files declare them.
//!
//! Nothing runs here. The transitions of a prompt with a policy are in its frontmatter; those of a
//! script or of a prompt without a policy are taken from the tags in its text. If a tag has a variable
//! instead of a name, the state [is open](State::is_open) and may lead anywhere, so that no lint rule
//! draws conclusions from it.
//!
//! Start at [`Graph::of`]. [`Graph::edges`] lists the edges, [`Graph::reachable`] follows them.

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
pub(crate) use way::is_open;
pub use way::{Meaning, Named, OfferedChoice, Way, WayOrigin};

use std::collections::BTreeMap;

use crate::{
    id::StateName,
    scope::{EntryError, Listing},
    source::Platform,
};

/// The states of a workflow and the transitions between them.
#[derive(Clone, Debug)]
pub struct Graph {
    /// The platform whose rules apply.
    pub platform: Platform,
    /// The names of all files in the scope.
    pub listing: Listing,
    /// The entry state.
    pub entry: Result<StateName, EntryError>,
    /// Whether the user named the entry state, so that it was not searched.
    pub is_entry_given: bool,
    /// The states that can run on this platform, by name.
    pub states: BTreeMap<StateName, State>,
}
