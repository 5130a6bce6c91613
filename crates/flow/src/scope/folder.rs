//! One folder of a scope: where the names that its states write are looked up.
//!
//! A state names the states of its own folder, and enters the subworkflows in it: `review/` is the entry
//! state of the folder `review`, `review/PLAN` another state of that folder.

use crate::{
    id::StateName,
    world::{World, WorldError},
};

use super::{Listing, ResolveError, entry, resolve};

/// How deep subworkflows may lie in each other. A workflow written by hand has two or three levels; every
/// level costs a directory to list when a workflow is read as a whole.
pub const FOLDER_DEPTH_MAX: usize = 8;

/// The longest path of a folder below the scope, which leaves room for the name of a state.
const FOLDER_BYTES_MAX: usize = 1024;

/// A folder of a scope at one moment.
pub struct Folder<'a> {
    world: &'a dyn World,
    path: &'a str,
    listing: Listing,
}

impl std::fmt::Debug for Folder<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Folder").field("path", &self.path).finish_non_exhaustive()
    }
}

/// What an error adds about a path where a subworkflow can be entered.
pub(crate) const OR_IN_FOLDER: &str = ", or `FOLDER/STATE` in a subworkflow";

/// Splits a target with a slash into the folder, with its slash, and the name of a state in it, which is
/// empty for the entry state. `None` if it is any other path: one that leads up, to the root, to a hidden
/// folder or through several.
pub fn split_target(target: &str) -> Option<(&str, &str)> {
    let at = target.find('/')? + 1;
    let (folder, name) = target.split_at(at);
    let is_plain = !target.starts_with(['/', '.']) && !target.contains('\\') && !name.contains('/');
    is_plain.then_some((folder, name))
}

impl<'a> Folder<'a> {
    /// Lists the folder at `path`, which is empty or ends with a slash.
    pub fn open(world: &'a dyn World, path: &'a str) -> Result<Self, WorldError> {
        Ok(Self { world, path, listing: world.listing(path)? })
    }

    /// Finds the state of this folder that `name` refers to.
    pub fn state(&self, name: &str) -> Result<StateName, ResolveError> {
        let found = resolve(&self.listing, name, self.world.platform())?;
        Ok(in_folder(self.path, &found))
    }

    /// Finds the state that the target of a `call`, `function` or `fork` refers to: one of this folder, or
    /// of a subworkflow in it.
    pub fn target(&self, target: &str) -> Result<StateName, ResolveError> {
        match split_target(target) {
            None => self.state(target),
            Some((folder, name)) => self.subworkflow(folder, name),
        }
    }

    fn subworkflow(&self, folder: &str, name: &str) -> Result<StateName, ResolveError> {
        if !self.listing.folders().any(|known| known == folder) {
            let suggestion = self.listing.suggest_folder(folder).map(str::to_owned);
            return Err(ResolveError::NoFolder { folder: folder.to_owned(), suggestion });
        }
        let path = format!("{}{folder}", self.path);
        if path.matches('/').count() > FOLDER_DEPTH_MAX || path.len() > FOLDER_BYTES_MAX {
            return Err(ResolveError::TooDeep { folder: path });
        }
        let listing = self.world.listing(&path).map_err(ResolveError::Unlisted)?;
        let platform = self.world.platform();
        let first = entry(&listing, platform);
        let found = match first {
            Ok(first) if name.is_empty() => Ok(first),
            Err(error) if name.is_empty() || !listing.has_start() => {
                return Err(ResolveError::NoStart { folder: path, error: Box::new(error) });
            }
            _ => resolve(&listing, name, platform),
        };
        match found {
            Ok(found) => Ok(in_folder(&path, &found)),
            Err(error) => Err(ResolveError::InFolder { folder: path, error: Box::new(error) }),
        }
    }
}

fn in_folder(path: &str, name: &StateName) -> StateName {
    if path.is_empty() { name.clone() } else { StateName::new(format!("{path}{name}")) }
}

/// The folders of a workflow with their files, the scope itself first: each other one has an entry state and
/// lies in one of them. `list` lists a folder.
pub fn workflow_folders<E>(
    mut list: impl FnMut(&str) -> Result<Listing, E>,
) -> Result<Vec<(String, Listing)>, E> {
    let mut found = vec![(String::new(), list("")?)];
    let mut at = 0;
    while let Some((path, listing)) = found.get(at) {
        let mut inner = Vec::new();
        if path.matches('/').count() < FOLDER_DEPTH_MAX {
            for folder in listing.folders() {
                let path = format!("{path}{folder}");
                let listing = list(&path)?;
                if listing.has_start() {
                    inner.push((path, listing));
                }
            }
        }
        found.extend(inner);
        at += 1;
    }
    Ok(found)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "in tests a panic is the message")]
mod tests {
    use super::*;
    use crate::world::MemoryWorld;

    #[test]
    fn target_is_split_only_into_one_folder_and_a_name() {
        assert_eq!(split_target("review/"), Some(("review/", "")));
        assert_eq!(split_target("review/PLAN.md"), Some(("review/", "PLAN.md")));
        for path in
            ["PLAN", "/", "/etc/", "../", "..", "./A", ".git/A", "a/b/c", "a//", "a\\b/c", "a/b\\c"]
        {
            assert_eq!(split_target(path), None, "{path}");
        }
    }

    fn target(files: &[&str], folder: &str, target: &str) -> Result<String, String> {
        let world = MemoryWorld::new(files.iter().map(|name| (*name, "x")));
        let folder = Folder::open(&world, folder).unwrap();
        folder.target(target).map(|s| s.to_string()).map_err(|error| error.to_string())
    }

    #[test]
    fn target_names_the_entry_state_or_a_state_of_a_folder() {
        let files = ["START.md", "review/1_START.md", "review/PLAN.sh", "review/deep/START.md"];
        for (folder, name, found) in [
            ("", "review/", "review/1_START.md"),
            ("", "review/PLAN", "review/PLAN.sh"),
            ("", "START", "START.md"),
            ("review/", "PLAN", "review/PLAN.sh"),
            ("review/", "deep/", "review/deep/START.md"),
        ] {
            assert_eq!(target(&files, folder, name).unwrap(), found);
        }
        assert!(target(&files, "review/", "START").is_err(), "never a state of the caller");
    }

    #[test]
    fn target_in_a_folder_that_is_no_subworkflow_says_why() {
        let files = [
            "START.md",
            "docs/A.md",
            "both/START.md",
            "both/1_START.sh",
            "win/START.bat",
            "review/START.md",
        ];
        for (name, said) in [
            ("reviw/", "there is no subworkflow `reviw/` (did you mean `review/`?)"),
            (
                "docs/",
                "`docs/` is not a subworkflow: no entry state: expected 1_START or START, with the extension .md or .sh",
            ),
            (
                "docs/A",
                "`docs/` is not a subworkflow: no entry state: expected 1_START or START, with the extension .md or .sh",
            ),
            (
                "both/",
                "`both/` is not a subworkflow: two entry states, 1_START.sh and START.md: keep only one",
            ),
            (
                "win/",
                "`win/` is not a subworkflow: the entry state cannot be used: state `START` cannot run on Unix: START.bat is for Windows",
            ),
            (
                "review/GONE",
                "in `review/`: state `GONE` not found: there is neither GONE.md nor GONE.sh",
            ),
            ("tests/", "there is no subworkflow `tests/`"),
            (
                "review",
                "state `review` not found: there is neither review.md nor review.sh (did you mean `review/`?)",
            ),
        ] {
            assert_eq!(target(&files, "", name).unwrap_err(), said);
        }
        let world = MemoryWorld::new([("review/START.md", "")]);
        let said = Folder::open(&world, "").unwrap().state("review/").unwrap_err().to_string();
        assert_eq!(
            said,
            "`review/` leads into a subworkflow, which only <call>, <function> and <fork> can enter"
        );
    }

    #[test]
    fn file_and_folder_of_one_name_are_told_apart_by_the_slash() {
        let files = ["START.md", "review.md", "review/START.md"];
        assert_eq!(target(&files, "", "review").unwrap(), "review.md");
        assert_eq!(target(&files, "", "review/").unwrap(), "review/START.md");
    }

    #[test]
    fn folders_of_a_workflow_are_those_with_an_entry_state() {
        let files = [
            "START.md",
            "a/START.sh",
            "a/b/1_START.bat",
            "docs/c/START.md",
            "tests/START.md",
            ".x/START.md",
        ];
        let world = MemoryWorld::new(files.map(|name| (name, "")));
        let found = workflow_folders(|folder| world.listing(folder)).unwrap();
        let paths: Vec<_> = found.iter().map(|(path, _)| path.as_str()).collect();
        assert_eq!(paths, ["", "a/", "a/b/"]);
        let deep = format!("{}START.md", "d/".repeat(FOLDER_DEPTH_MAX + 1));
        let all: Vec<String> = (0..=FOLDER_DEPTH_MAX)
            .map(|n| format!("{}START.md", "d/".repeat(n)))
            .chain([deep])
            .collect();
        let world = MemoryWorld::new(all.iter().map(|name| (name.as_str(), "")));
        assert_eq!(
            workflow_folders(|folder| world.listing(folder)).unwrap().len(),
            FOLDER_DEPTH_MAX + 1
        );
    }
}
