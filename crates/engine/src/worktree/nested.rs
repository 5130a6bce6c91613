//! Git repositories that a worker has made inside of its worktree. A commit does not contain them: at most it names
//! one of their commits, so their only copy is the directory itself.

use std::path::Path;

use super::git::{Git, GitError};

/// The mode of a reference to a commit of another repository.
const LINK_MODE: &str = "160000 ";

/// Those that git does not know.
pub(super) fn untracked(git: Git<'_>) -> Result<Vec<String>, GitError> {
    let top = git.text(&["rev-parse", "--show-toplevel"])?;
    let others =
        Git::at(Path::new(&top)).bytes(&["ls-files", "--others", "--exclude-standard", "-z"])?;
    // Of all directories, only those of other repositories are listed as such.
    Ok(names(&others).filter_map(|name| name.strip_suffix('/').map(str::to_owned)).collect())
}

/// Those of which the last commit has a reference.
pub(super) fn committed(git: Git<'_>) -> Result<Vec<String>, GitError> {
    let tree = git.bytes(&["ls-tree", "-r", "-z", "--full-tree", "HEAD"])?;
    let link = |entry: String| {
        let (_, name) = entry.strip_prefix(LINK_MODE)?.split_once('\t')?;
        Some(name.to_owned())
    };
    Ok(names(&tree).filter_map(link).collect())
}

/// The entries of a list that git prints with `-z`.
pub(super) fn names(bytes: &[u8]) -> impl Iterator<Item = String> {
    let parts = bytes.split(|byte| *byte == 0).filter(|part| !part.is_empty());
    parts.map(|part| String::from_utf8_lossy(part).into_owned())
}
