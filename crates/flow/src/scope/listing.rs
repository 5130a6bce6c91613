//! The names of the files in a scope.

use std::{collections::BTreeSet, sync::Arc};

use crate::source::did_you_mean;

/// The sorted file names of a scope at one moment. Cheap to clone, because every step needs it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listing {
    names: Arc<BTreeSet<String>>,
}

impl Listing {
    /// A scope with these files.
    pub fn new(names: impl IntoIterator<Item = String>) -> Self {
        Self { names: Arc::new(names.into_iter().collect()) }
    }

    /// Whether there is a file with exactly this name.
    pub fn contains(&self, name: &str) -> bool {
        self.names.contains(name)
    }

    /// All names in alphabetical order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(String::as_str)
    }

    /// The file that the author of `name` probably meant.
    pub fn suggest(&self, name: &str) -> Option<&str> {
        did_you_mean(name, self.names()).or_else(|| {
            // Compare a name without an extension with the stems of the files.
            let stem =
                |name: &str| name.rsplit_once('.').map_or(name.len(), |(stem, _)| stem.len());
            let stems = self.names().filter_map(|name| name.get(..stem(name)));
            let meant = did_you_mean(name, stems)?;
            self.names().find(|name| name.get(..stem(name)) == Some(meant))
        })
    }
}
