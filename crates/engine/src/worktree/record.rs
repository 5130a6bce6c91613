//! Checks a worktree before git is started in it. What its record says may have been taken over from elsewhere, and what
//! looks like an option, a revision or a directory of somebody else would be taken as such. What lies in it is the work of
//! a model: a `.git` that leads to another repository would lead git to settings that start programs.

use std::{
    ffi::OsStr,
    fs,
    path::{Component, Path},
};

use raymond_flow::machine::Worktree;

use super::git::GitError;
use crate::trust::{is_trusted, regular};

/// More than a path.
const LINK_BYTES_MAX: u64 = 64 * 1024;

/// The directories of a worktree's path that are looked at: its own, the run's, that of all, and the state directory.
const FOLDERS: usize = 4;

/// The worktree of a worker is at `…/worktrees/RUN/NAME`, has the branch `raymond/RUN/NAME`, and its commits are hashes.
pub(super) fn check(worktree: &Worktree) -> Result<(), GitError> {
    check_sound(worktree)?;
    let path = Path::new(&worktree.path);
    if is_led_home(path) { Ok(()) } else { Err(GitError::Redirected { path: path.to_owned() }) }
}

/// The same for those who start no git in it.
pub(super) fn check_sound(worktree: &Worktree) -> Result<(), GitError> {
    let Worktree { path, branch, repository, base, head, problem: _ } = worktree;
    let is_plain = |path: &str| {
        let path = Path::new(path);
        path.is_absolute() && !path.components().any(|part| part == Component::ParentDir)
    };
    let is_sound = is_plain(path)
        && is_plain(repository)
        && is_own(Path::new(path), branch)
        && [Some(base), head.as_ref()].into_iter().flatten().all(|hash| is_hash(hash));
    if is_sound {
        refuse_links(Path::new(path))
    } else {
        Err(GitError::NotOurs { path: path.into() })
    }
}

/// A worktree is made where no link is, so a link in its path has come later: what it leads to is no worktree of ours.
fn refuse_links(path: &Path) -> Result<(), GitError> {
    let leads = |path: &&Path| path.symlink_metadata().is_ok_and(|it| it.is_symlink());
    match path.ancestors().take(FOLDERS).find(|path| leads(path) && !is_trusted(path)) {
        None => Ok(()),
        Some(link) => {
            let to = fs::read_link(link).unwrap_or_default();
            Err(GitError::Link { path: link.to_owned(), to })
        }
    }
}

/// Whether `.git` in the worktree at `path` is as git has made it: the name of a directory outside, which leads back to it
/// and to the repository around. Also where there is no worktree any more.
pub(super) fn is_led_home(path: &Path) -> bool {
    let link = path.join(".git");
    if path.symlink_metadata().is_err() {
        return true;
    }
    let Ok(text) = regular::read_text(&link, LINK_BYTES_MAX) else { return false };
    let Some(home) = text.strip_prefix("gitdir: ") else { return false };
    // If a repository was moved, git says so: it finds no settings.
    let Ok(home) = fs::canonicalize(path.join(home.trim_end())) else { return true };
    let named = |name: &str| {
        let text = regular::read_text(&home.join(name), LINK_BYTES_MAX).ok()?;
        fs::canonicalize(home.join(text.trim_end())).ok()
    };
    let (real, repository) = (fs::canonicalize(path).ok(), home.ancestors().nth(2));
    real.is_some_and(|real| {
        !home.starts_with(&real) && named("gitdir").is_some_and(|back| back == real.join(".git"))
    }) && named("commondir").is_some_and(|common| Some(&*common) == repository)
}

/// Whether the directory of the worktree is directly in `folder`, the directory of the run's own worktrees.
pub(super) fn is_in(worktree: &Worktree, folder: &Path) -> bool {
    let around = Path::new(&worktree.path).parent();
    let real = |path: &Path| fs::canonicalize(path).ok();
    around.is_some_and(|around| {
        around == folder || real(around).is_some_and(|it| Some(it) == real(folder))
    })
}

fn is_own(path: &Path, branch: &str) -> bool {
    let mut parts = branch.split('/');
    let (Some("raymond"), Some(run), Some(name), None) =
        (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return false;
    };
    let is_name = |name: &str| !name.is_empty() && !name.starts_with(['-', '.']);
    let ends = ["worktrees", run, name].map(OsStr::new);
    let own: Vec<_> = path.iter().rev().take(3).collect();
    is_name(run) && is_name(name) && ends.iter().rev().eq(&own)
}

pub(super) fn is_hash(text: &str) -> bool {
    matches!(text.len(), 40 | 64) && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sound() -> Worktree {
        Worktree {
            path: "/p/.raymond/worktrees/r/main_fork1".to_owned(),
            branch: "raymond/r/main_fork1".to_owned(),
            repository: "/p".to_owned(),
            base: "0123456789abcdef0123456789abcdef01234567".to_owned(),
            head: None,
            problem: None,
        }
    }

    #[cfg(unix)]
    #[test]
    fn record_of_a_worktree_is_used_only_if_it_can_be_one_of_ours() {
        check(&sound()).unwrap();
        let planted: [fn(&mut Worktree); 12] = [
            |it| it.path = "/home/me/other".to_owned(),
            |it| it.path = "/p/.raymond/worktrees/r/../../../main_fork1".to_owned(),
            |it| it.path = "worktrees/r/main_fork1".to_owned(),
            |it| it.path = "/p/.raymond/worktrees/other/main_fork1".to_owned(),
            |it| it.branch = "main".to_owned(),
            |it| it.branch = "--upload-pack=evil".to_owned(),
            |it| it.branch = "raymond/r/main_fork1/more".to_owned(),
            |it| it.repository = "--git-dir=/x".to_owned(),
            |it| it.base = "--output=/home/me/.bashrc".to_owned(),
            |it| it.base = "HEAD".to_owned(),
            |it| it.head = Some("-h".to_owned()),
            |it| it.head = Some(String::new()),
        ];
        for (index, plant) in planted.iter().enumerate() {
            let mut worktree = sound();
            plant(&mut worktree);
            assert!(check(&worktree).is_err(), "{index}: {worktree:?}");
        }
    }
}
