//! Git repositories that a worker has made inside of its worktree. A commit does not contain them: at most it names
//! one of their commits, so their only copy is the directory itself.

use std::{fs, path::Path};

use super::git::{Git, GitError};

/// How many files and directories are looked at in what git ignores. More are in caches and installed packages, which can be made
/// again; a repository of the worker is nearer to the top.
const LOOKED_AT_MAX: usize = 200_000;

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

/// Those in these files and directories of `worktree`, level by level.
pub(super) fn inside(worktree: &Path, hidden: &[String]) -> Vec<String> {
    let mut level: Vec<_> =
        hidden.iter().map(|name| name.trim_end_matches('/').to_owned()).collect();
    let (mut found, mut looked_at) = (Vec::new(), 0);
    while !level.is_empty() {
        let mut below = Vec::new();
        for name in level {
            let folder = worktree.join(&name);
            // Never through a link, which leads to what stays.
            if !folder.symlink_metadata().is_ok_and(|it| it.is_dir()) {
                continue;
            }
            if folder.join(".git").symlink_metadata().is_ok() {
                found.push(name);
                continue;
            }
            for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
                looked_at += 1;
                if looked_at > LOOKED_AT_MAX {
                    return found;
                }
                if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                    below.push(format!("{name}/{}", entry.file_name().to_string_lossy()));
                }
            }
        }
        level = below;
    }
    found
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
