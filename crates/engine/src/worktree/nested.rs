//! Git repositories that a worker has made inside of its worktree. A commit does not contain them: at most it names
//! one of their commits, so their only copy is the directory itself.

use std::path::Path;

use super::git::{Git, GitError};

/// Those that git does not know.
pub(super) fn untracked(git: Git<'_>) -> Result<Vec<String>, GitError> {
    let top = git.text(&["rev-parse", "--show-toplevel"])?;
    let others =
        Git::at(Path::new(&top)).bytes(&["ls-files", "--others", "--exclude-standard", "-z"])?;
    // Of all directories, only those of other repositories are listed as such.
    Ok(names(&others).filter_map(|name| name.strip_suffix('/').map(str::to_owned)).collect())
}

/// Those in `worktree` that the last commit refers to, or of whose directory it has files.
pub(super) fn committed(worktree: &Path) -> Result<Vec<String>, GitError> {
    let folders = ["ls-tree", "-r", "-d", "-z", "--name-only", "--full-tree", "HEAD"];
    let folders = Git::at(worktree).bytes(&folders)?;
    // A reference without its repository is one of the commit from which the worktree was made.
    Ok(names(&folders).filter(|name| worktree.join(name).join(".git").exists()).collect())
}

/// Why a commit does not contain these.
pub(super) fn problem(nested: &[String]) -> Option<String> {
    let first = nested.first()?;
    let more =
        if nested.len() > 1 { format!(" and {} more", nested.len() - 1) } else { String::new() };
    Some(format!(
        "`{first}`{more} in it is a git repository of its own, which a commit does not contain"
    ))
}

/// The entries of a list that git prints with `-z`.
pub(super) fn names(bytes: &[u8]) -> impl Iterator<Item = String> {
    let parts = bytes.split(|byte| *byte == 0).filter(|part| !part.is_empty());
    parts.map(|part| String::from_utf8_lossy(part).into_owned())
}
