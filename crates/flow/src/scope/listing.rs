//! The names in one folder of a scope.

use std::{collections::BTreeSet, sync::Arc};

use crate::source::{Platform, StateKind, did_you_mean};

use super::ENTRY_STEMS;

/// The folder of a workflow's tests, which is never a subworkflow.
const TESTS: &str = "tests/";

/// The sorted names of one folder at one moment: its files and, with a slash at their end, the folders in
/// it. Cheap to clone, because every step needs it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listing {
    names: Arc<BTreeSet<String>>,
}

impl Listing {
    /// A folder with these files and folders.
    pub fn new(names: impl IntoIterator<Item = String>) -> Self {
        Self { names: Arc::new(names.into_iter().collect()) }
    }

    /// The names in `folder`, which is empty or ends with a slash, of a scope with these files.
    pub fn of_folder<'n>(files: impl IntoIterator<Item = &'n String>, folder: &str) -> Self {
        let inside = files.into_iter().filter_map(|name| name.strip_prefix(folder));
        // Of a file in an inner folder, only that folder.
        let own = inside.filter_map(|name| name.split_inclusive('/').next());
        Self::new(own.map(str::to_owned))
    }

    /// Whether there is a file with exactly this name.
    pub fn contains(&self, name: &str) -> bool {
        self.names.contains(name)
    }

    /// All files in alphabetical order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(String::as_str).filter(|name| !name.ends_with('/'))
    }

    /// The folders that may be subworkflows, with a slash at the end of each. Hidden folders and the tests
    /// never are.
    pub fn folders(&self) -> impl Iterator<Item = &str> {
        let is_one = |name: &&str| name.ends_with('/') && !name.starts_with('.') && *name != TESTS;
        self.names.iter().map(String::as_str).filter(is_one)
    }

    /// Whether this is the folder of a workflow: it has a state called `1_START` or `START`, for whichever
    /// platform.
    pub fn has_start(&self) -> bool {
        let is_state = |name: &str| {
            [Platform::Unix, Platform::Windows].iter().any(|on| StateKind::of(name, *on).is_ok())
        };
        self.names().any(|name| {
            let stem = name.rsplit_once('.').map_or(name, |(stem, _)| stem);
            ENTRY_STEMS.contains(&stem) && is_state(name)
        })
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

    /// The subworkflow that the author of `folder` probably meant.
    pub(super) fn suggest_folder(&self, folder: &str) -> Option<&str> {
        did_you_mean(folder, self.folders())
    }
}
