//! The checkout from which a worktree is made, and why it cannot be.

use std::path::Path;

use raymond_flow::{text::excerpt, world::Checkout};

use super::git::{Git, GitError};

/// The checkout that contains `directory`. An error says what to do about it. Asked when a fork is judged, while no step of the
/// parent runs: later, the parent may be in the middle of a merge.
pub(crate) fn checkout(directory: &str) -> Result<Checkout, String> {
    checkout_or(directory, "leave `worktree` out")
}

/// The same; `without` is what the user can do instead if there is no repository.
pub(super) fn checkout_or(directory: &str, without: &str) -> Result<Checkout, String> {
    if directory.contains('\n') {
        return Err(format!(
            "the path {directory:?} has a line break, which git writes between its answers: rename it, or {without}"
        ));
    }
    let git = Git::at(Path::new(directory));
    let kind = git.text(&["rev-parse", "--is-bare-repository", "--is-inside-work-tree"]);
    match kind.as_deref() {
        Ok("false\ntrue") => {}
        Ok("true\nfalse") => {
            return Err(format!(
                "{directory} is in a bare repository: start the run in a checkout of it"
            ));
        }
        Ok(_) => {
            return Err(format!(
                "{directory} is inside a .git directory: start the run in the checkout"
            ));
        }
        Err(GitError::NotInstalled) => {
            return Err(format!("git is not installed: install it, or {without}"));
        }
        Err(GitError::Refused { said, .. }) if said.contains("not a git repository") => {
            return Err(format!(
                "{directory} is not in a git repository: make one (git init) and commit the files, or {without}"
            ));
        }
        Err(error) => return Err(error.to_string()),
    }
    let commit = git.text(&["rev-parse", "--verify", "--quiet", "HEAD^{commit}"]);
    let commit = commit.map_err(|error| no_commit(git, directory, &error))?;
    let places = git.text(&["rev-parse", "--show-toplevel", "--show-prefix"]);
    let places = places.map_err(|error| error.to_string())?;
    let (repository, inside) = places.split_once('\n').unwrap_or((&places, ""));
    let (repository, inside) = (repository.to_owned(), inside.trim_end_matches('/').to_owned());
    check_submodules(Git::at(Path::new(&repository)), &repository)?;
    check_clean(Git::at(Path::new(&repository)), &repository)?;
    Ok(Checkout { repository, inside, commit })
}

/// Why HEAD is no commit.
fn no_commit(git: Git<'_>, directory: &str, error: &GitError) -> String {
    if !matches!(error, GitError::Refused { .. }) {
        return error.to_string();
    }
    match git.text(&["rev-parse", "--verify", "--quiet", "HEAD"]) {
        Ok(commit) => format!(
            "the commit {commit}, which is checked out in {directory}, is missing in the repository: see what is damaged (git fsck)"
        ),
        Err(_) => format!(
            "the repository of {directory} has no commit yet: commit the files first (git add --all && git commit)"
        ),
    }
}

/// Git itself advises against worktrees of repositories with submodules: they are empty, and keep it from being removed.
fn check_submodules(git: Git<'_>, repository: &str) -> Result<(), String> {
    match git.bytes(&["cat-file", "-e", "HEAD:.gitmodules"]) {
        Ok(_) => Err(format!(
            "the repository {repository} has submodules, which git leaves empty in a worktree: fork with a `cd` to a clone of your own instead"
        )),
        Err(GitError::Refused { .. }) => Ok(()),
        Err(error) => Err(error.to_string()),
    }
}

/// What is not committed would be missing in the worktree, and in the way when its branch is landed. Untracked files
/// are in nobody's way.
fn check_clean(git: Git<'_>, repository: &str) -> Result<(), String> {
    let changed = changed_files(git).map_err(|error| error.to_string())?;
    let Some(first) = changed.first() else { return Ok(()) };
    let (what, them) = match changed.len() - 1 {
        0 => (format!("`{}` in {repository} has", excerpt(first)), "it"),
        more => (format!("`{}` and {more} more in {repository} have", excerpt(first)), "them"),
    };
    Err(format!(
        "{what} changes that are not committed, which the worker would not see: commit {them}, or put {them} aside (git stash)"
    ))
}

/// The tracked files with changes that are not committed.
pub(super) fn changed_files(git: Git<'_>) -> Result<Vec<String>, GitError> {
    let status =
        git.bytes(&["status", "--porcelain=v1", "--untracked-files=no", "--no-renames", "-z"])?;
    Ok(paths(&status))
}

/// The paths in the output of `git status -z`, each after two letters and a space.
pub(super) fn paths(status: &[u8]) -> Vec<String> {
    let entries = status.split(|byte| *byte == 0).filter_map(|entry| entry.get(3..));
    entries.map(|path| String::from_utf8_lossy(path).into_owned()).collect()
}
