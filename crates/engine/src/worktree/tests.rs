#![allow(clippy::unwrap_used, reason = "in tests a panic is the message")]

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    sync::atomic::AtomicBool,
};

use raymond_flow::{
    id::{AgentId, RunId},
    machine::Worktree,
    policy::WorktreePlan,
};

use super::{claim::Claim, save::save, *};
use crate::store::layout::StateDir;

mod left;
#[cfg(unix)]
mod links;

/// A repository with one commit, and the worktrees of a run `r`.
struct Repository {
    root: tempfile::TempDir,
}

/// A git command that commits as somebody, also where git knows no user.
fn git_command(directory: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new("git");
    command.args(["-c", "user.name=t", "-c", "user.email=t@localhost"]).args(arguments);
    command.current_dir(directory);
    command
}

pub(super) fn run_git(directory: &Path, arguments: &[&str]) -> String {
    let output = git_command(directory, arguments).output().unwrap();
    assert!(output.status.success(), "git {arguments:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
}

/// Begins a merge that stops at a conflict.
pub(super) fn merge_in_conflict(directory: &Path, branch: &str) {
    let output = git_command(directory, &["merge", branch]).output().unwrap();
    assert!(String::from_utf8_lossy(&output.stdout).contains("CONFLICT"), "{output:?}");
}

impl Repository {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        let repository = Self { root };
        fs::create_dir_all(repository.path().join("sub")).unwrap();
        run_git(&repository.path(), &["init", "--quiet", "--initial-branch=main"]);
        repository.commit("sub/a.txt", "one\n");
        repository
    }

    fn path(&self) -> PathBuf {
        self.root.path().canonicalize().unwrap().join("project")
    }

    fn git(&self, arguments: &[&str]) -> String {
        run_git(&self.path(), arguments)
    }

    /// Claims a worktree that is not made yet.
    fn claim(&self, name: &str) {
        let path = self.folder().join(format!("{name}.claim"));
        Claim::open(&path, "i").unwrap().take(&path).unwrap();
    }

    fn commit(&self, name: &str, text: &str) {
        fs::write(self.path().join(name), text).unwrap();
        self.git(&["add", "--all"]);
        self.git(&["commit", "--quiet", "-m", "c"]);
    }

    fn folder(&self) -> PathBuf {
        self.root.path().canonicalize().unwrap().join("state/worktrees/r")
    }

    fn worktrees(&self, identity: &str) -> RunWorktrees {
        let state_dir = StateDir::new(self.root.path().canonicalize().unwrap().join("state"));
        let id = RunId::new("r").unwrap();
        RunWorktrees::new(&state_dir.run(&id), &id, identity)
    }

    fn plan(&self) -> WorktreePlan {
        let raymond_flow::world::Checkout { repository, inside, commit } =
            checkout(&self.path().join("sub").to_string_lossy()).unwrap();
        WorktreePlan { name: None, repository, inside, commit }
    }

    fn make(&self, agent: &str) -> Result<(Worktree, String), String> {
        let never = AtomicBool::new(false);
        self.worktrees("i").make(&AgentId::new(agent), &self.plan(), &never)
    }

    fn refusal(&self) -> String {
        checkout(&self.path().to_string_lossy()).unwrap_err()
    }
}

fn save_of(agent: &str, worktree: &Worktree) -> raymond_flow::machine::SavedWork {
    let never = AtomicBool::new(false);
    save(&RunId::new("r").unwrap(), &AgentId::new(agent), worktree, &never).unwrap()
}

/// Removed, with nothing in it that git does not look at.
const GONE: Removal = Removal::Removed { hidden: Vec::new() };

#[test]
fn worktree_is_made_once_and_found_again() {
    let repository = Repository::new();
    let (worktree, cwd) = repository.make("main_w1").unwrap();
    assert_eq!(worktree.branch, "raymond/r/main_w1");
    assert_eq!(PathBuf::from(&cwd), repository.folder().join("main_w1/sub"));
    assert_eq!(fs::read_to_string(Path::new(&cwd).join("a.txt")).unwrap(), "one\n");
    fs::write(Path::new(&cwd).join("work"), "").unwrap();
    assert_eq!(repository.make("main_w1").unwrap(), (worktree, cwd.clone()));
    assert!(Path::new(&cwd).join("work").exists(), "it is the same one");
    assert_eq!(repository.git(&["worktree", "list"]).lines().count(), 2);
    assert_eq!(repository.git(&["status", "--porcelain"]), "", "the checkout is as it was");
}

#[test]
fn half_made_worktree_is_made_again() {
    // What a kill leaves: only the claim; the branch; a directory without its files, locked by git.
    for step in ["claim", "branch", "directory", "files"] {
        let repository = Repository::new();
        let commit = repository.plan().commit;
        fs::create_dir_all(repository.folder()).unwrap();
        repository.claim("main_w1");
        let path = repository.folder().join("main_w1");
        match step {
            "branch" => drop(repository.git(&["branch", "raymond/r/main_w1"])),
            "directory" => {
                let path = path.to_string_lossy();
                let add = ["worktree", "add", "--no-checkout", "--lock", "-b", "raymond/r/main_w1"];
                repository.git(&[&add[..], &[&path, &commit]].concat());
            }
            "files" => {
                fs::create_dir_all(&path).unwrap();
                fs::write(path.join("half"), "").unwrap();
            }
            _ => {}
        }
        let (_, cwd) = repository.make("main_w1").unwrap_or_else(|why| panic!("{step}: {why}"));
        assert!(Path::new(&cwd).join("a.txt").exists(), "{step}");
        assert!(!path.join("half").exists(), "{step}");
        assert_eq!(repository.git(&["worktree", "list"]).lines().count(), 2, "{step}");
    }
}

#[test]
fn what_is_not_of_this_run_is_never_touched() {
    let repository = Repository::new();
    let path = repository.folder().join("main_w1");
    fs::create_dir_all(&path).unwrap();
    let why = repository.make("main_w1").unwrap_err();
    assert!(why.ends_with("exists already: move it away"), "{why}");
    assert!(path.exists());
    let why = repository.make("main_w1").unwrap_err();
    assert!(why.ends_with("exists already: move it away"), "also the second time: {why}");
    fs::remove_dir(&path).unwrap();
    repository.git(&["branch", "raymond/r/main_w1"]);
    let why = repository.make("main_w1").unwrap_err();
    assert!(why.contains("the branch raymond/r/main_w1") && why.contains("git branch -m"), "{why}");
    repository.git(&["branch", "-D", "raymond/r/main_w1"]);
    repository.make("main_w1").unwrap();
    let never = AtomicBool::new(false);
    let other = repository.worktrees("another");
    let why = other.make(&AgentId::new("main_w1"), &repository.plan(), &never).unwrap_err();
    assert!(why.contains("belongs to an earlier run of the same id"), "{why}");
    assert!(path.join("sub/a.txt").exists());
}

#[test]
fn only_a_clean_checkout_with_a_commit_is_accepted() {
    let repository = Repository::new();
    fs::write(repository.path().join("untracked"), "").unwrap();
    repository.plan();
    fs::write(repository.path().join("sub/a.txt"), "two\n").unwrap();
    assert!(repository.refusal().contains("`sub/a.txt` in "), "{}", repository.refusal());
    repository.git(&["add", "--all"]);
    assert!(
        repository.refusal().contains("`sub/a.txt` and 1 more in "),
        "{}",
        repository.refusal()
    );
    assert!(repository.refusal().ends_with("commit them, or put them aside (git stash)"));
    repository.git(&["commit", "--quiet", "-m", "c"]);
    let git_dir = repository.path().join(".git");
    let inside = checkout(&git_dir.to_string_lossy()).unwrap_err();
    assert!(inside.contains("inside a .git directory"), "{inside}");
    repository.commit(".gitmodules", "");
    assert!(repository.refusal().contains("has submodules"), "{}", repository.refusal());
    let empty = tempfile::tempdir().unwrap();
    let asked = || checkout(&empty.path().to_string_lossy()).unwrap_err();
    assert!(asked().contains("is not in a git repository: make one (git init)"), "{}", asked());
    run_git(empty.path(), &["init", "--quiet"]);
    assert!(asked().contains("has no commit yet"), "{}", asked());
    let bare = tempfile::tempdir().unwrap();
    run_git(bare.path(), &["init", "--quiet", "--bare"]);
    let asked = checkout(&bare.path().to_string_lossy()).unwrap_err();
    assert!(asked.contains("is in a bare repository"), "{asked}");
}

#[test]
fn what_a_worker_leaves_is_committed_without_identity_and_against_hooks() {
    let repository = Repository::new();
    let hook = repository.path().join(".git/hooks/pre-commit");
    let others = repository.path().join(".git/hooks/prepare-commit-msg");
    for hook in [hook, others] {
        fs::write(&hook, "#!/bin/sh\nexit 1\n").unwrap();
        #[cfg(unix)]
        fs::set_permissions(&hook, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    }
    // That of the user who runs the tests must not count.
    for key in ["user.name", "user.email"] {
        repository.git(&["config", key, ""]);
    }
    let (worktree, cwd) = repository.make("main_w1").unwrap();
    fs::write(Path::new(&cwd).join("new"), "x").unwrap();
    fs::remove_file(Path::new(&cwd).join("a.txt")).unwrap();
    // What a killed git of the worker left.
    let lock = run_git(Path::new(&cwd), &["rev-parse", "--git-path", "index.lock"]);
    fs::write(Path::new(&cwd).join(lock), "").unwrap();
    let saved = save_of("main_w1", &worktree);
    assert_eq!(saved.problem, None);
    assert_eq!(saved.head, Some(repository.git(&["rev-parse", "raymond/r/main_w1"])));
    assert_eq!(repository.git(&["ls-tree", "-r", "--name-only", "raymond/r/main_w1"]), "sub/new");
    assert_eq!(save_of("main_w1", &worktree), saved, "nothing is left");
    assert_eq!(
        repository.git(&["log", "-1", "--format=%an %s", "raymond/r/main_w1"]),
        "raymond main_w1: what it left uncommitted"
    );
}

#[test]
fn what_cannot_be_committed_stays_and_is_told() {
    let repository = Repository::new();
    let (worktree, cwd) = repository.make("main_w1").unwrap();
    let cwd = Path::new(&cwd);
    run_git(cwd, &["commit", "--quiet", "--allow-empty", "-m", "own"]);
    run_git(cwd, &["checkout", "--quiet", "--detach", "main"]);
    fs::write(cwd.join("new"), "x").unwrap();
    let saved = save_of("main_w1", &worktree);
    let problem = "it is on no branch, which does not contain raymond/r/main_w1";
    assert_eq!(saved.problem.as_deref(), Some(problem));
    assert!(cwd.join("new").exists());
    run_git(cwd, &["checkout", "--quiet", "raymond/r/main_w1"]);
    fs::write(cwd.join("a.txt"), "theirs\n").unwrap();
    run_git(cwd, &["commit", "--quiet", "-am", "c"]);
    repository.commit("sub/a.txt", "ours\n");
    merge_in_conflict(cwd, "main");
    let saved = save_of("main_w1", &worktree);
    assert_eq!(saved.problem.as_deref(), Some("a merge in it has conflicts that are not resolved"));
    fs::remove_dir_all(&worktree.path).unwrap();
    let saved = save_of("main_w1", &worktree);
    assert!(saved.problem.unwrap().ends_with("is gone"));
    assert!(saved.head.is_some(), "the branch is still there");
}

#[test]
fn work_on_another_branch_or_on_none_comes_to_the_branch_of_the_worker() {
    let repository = Repository::new();
    for (name, leave) in [
        ("main_w1", &["checkout", "--quiet", "-b", "feature"][..]),
        ("main_w2", &["checkout", "--quiet", "--detach"]),
    ] {
        let (worktree, cwd) = repository.make(name).unwrap();
        let cwd = Path::new(&cwd);
        run_git(cwd, leave);
        fs::write(cwd.join("committed"), "x").unwrap();
        run_git(cwd, &["add", "."]);
        run_git(cwd, &["commit", "--quiet", "-m", "own"]);
        fs::write(cwd.join("left"), "x").unwrap();
        let saved = save_of(name, &worktree);
        assert_eq!(saved.problem, None);
        let files = repository.git(&["ls-tree", "-r", "--name-only", &worktree.branch]);
        assert_eq!(files, "sub/a.txt\nsub/committed\nsub/left");
        assert_eq!(saved.head, Some(repository.git(&["rev-parse", &worktree.branch])));
    }
}

#[test]
fn untracked_files_are_saved_although_git_is_told_not_to_show_them() {
    let repository = Repository::new();
    repository.git(&["config", "status.showUntrackedFiles", "no"]);
    let (worktree, cwd) = repository.make("main_w1").unwrap();
    fs::write(Path::new(&cwd).join("new"), "x").unwrap();
    assert_eq!(save_of("main_w1", &worktree).problem, None);
    assert_eq!(repository.git(&["show", "raymond/r/main_w1:sub/new"]), "x");
}

#[test]
fn repository_inside_of_a_worktree_is_named_and_its_worktree_is_kept() {
    let repository = Repository::new();
    let (worktree, cwd) = repository.make("main_w1").unwrap();
    let nested = Path::new(&cwd).join("own");
    fs::create_dir(&nested).unwrap();
    run_git(&nested, &["init", "--quiet"]);
    fs::write(nested.join("work"), "x").unwrap();
    fs::write(Path::new(&cwd).join("new"), "x").unwrap();
    // Before and after its first commit, and when the worker has added it.
    for commit in 0..3 {
        let problem = save_of("main_w1", &worktree).problem.unwrap();
        let said = "`sub/own` in it is a git repository of its own";
        assert!(problem.starts_with(said), "{commit}: {problem}");
        assert_eq!(repository.git(&["show", "raymond/r/main_w1:sub/new"]), "x");
        repository.git(&["merge", "--quiet", "raymond/r/main_w1"]);
        let kept = remove(&worktree, &around(&worktree), false, false).unwrap();
        assert!(matches!(kept, Removal::Kept { .. }), "{commit}: {kept:?}");
        if commit == 0 {
            run_git(&nested, &["add", "."]);
            run_git(&nested, &["commit", "--quiet", "-m", "c"]);
        } else {
            run_git(Path::new(&cwd), &["add", "."]);
            run_git(Path::new(&cwd), &["commit", "--quiet", "--allow-empty", "-m", "c"]);
        }
    }
    assert!(nested.join("work").exists());
}

#[test]
fn repository_around_tracked_files_is_named_and_a_reference_that_was_there_before_is_not() {
    let repository = Repository::new();
    let other = repository.path().join("other");
    fs::create_dir(&other).unwrap();
    run_git(&other, &["init", "--quiet"]);
    run_git(&other, &["commit", "--quiet", "--allow-empty", "-m", "c"]);
    repository.git(&["add", "other"]);
    repository.git(&["commit", "--quiet", "-m", "refers to it"]);
    let (worktree, cwd) = repository.make("main_w1").unwrap();
    fs::write(Path::new(&cwd).join("new"), "x").unwrap();
    assert_eq!(save_of("main_w1", &worktree).problem, None);
    repository.git(&["merge", "--quiet", "raymond/r/main_w1"]);
    run_git(Path::new(&cwd), &["init", "--quiet"]);
    let problem = save_of("main_w1", &worktree).problem.unwrap();
    assert!(problem.starts_with("`sub` in it is a git repository of its own"), "{problem}");
    let kept = remove(&worktree, &around(&worktree), false, false).unwrap();
    let uncommitted = vec!["sub".to_owned()];
    assert_eq!(kept, Removal::Kept { uncommitted, unmerged_commits: 0, stashes: 0 });
}

/// A hook `post-checkout` that ends with code 7.
#[cfg(unix)]
fn failing_hook(repository: &Repository) -> PathBuf {
    let hook = repository.path().join(".git/hooks/post-checkout");
    fs::write(&hook, "#!/bin/sh\nexit 7\n").unwrap();
    fs::set_permissions(&hook, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    hook
}

#[cfg(unix)]
#[test]
fn worker_returns_to_its_branch_although_a_hook_fails() {
    let repository = Repository::new();
    let (worktree, cwd) = repository.make("main_w1").unwrap();
    run_git(Path::new(&cwd), &["checkout", "--quiet", "-b", "feature"]);
    failing_hook(&repository);
    fs::write(Path::new(&cwd).join("new"), "x").unwrap();
    assert_eq!(save_of("main_w1", &worktree).problem, None);
    assert_eq!(repository.git(&["show", "raymond/r/main_w1:sub/new"]), "x");
}

#[cfg(unix)]
#[test]
fn git_is_not_led_to_the_settings_of_a_step() {
    let settings = "[core]\n\trepositoryformatversion = 0\n\tfsmonitor = \"touch obeyed; false\"\n\tworktree = ..\n";
    let plant = |folder: &Path| {
        fs::create_dir_all(folder.join("objects")).unwrap();
        fs::create_dir_all(folder.join("refs")).unwrap();
        fs::write(folder.join("HEAD"), "ref: refs/heads/x\n").unwrap();
        fs::write(folder.join("config"), settings).unwrap();
    };
    for way in ["nothing", "a file", "a directory", "a link", "an entry of its own"] {
        let repository = Repository::new();
        let (worktree, _) = repository.make("main_w1").unwrap();
        let path = Path::new(&worktree.path);
        let link = path.join(".git");
        fs::remove_file(&link).unwrap();
        let planted = path.join("planted/worktrees/x");
        match way {
            "nothing" => fs::write(path.join("new"), "x").unwrap(),
            "a directory" => plant(&link),
            "a file" => {
                plant(&path.join("planted"));
                fs::write(&link, "gitdir: planted\n").unwrap();
            }
            "a link" => {
                plant(&path.join("planted"));
                std::os::unix::fs::symlink("planted", &link).unwrap();
            }
            _ => {
                plant(&planted);
                plant(&path.join("planted"));
                fs::write(planted.join("commondir"), "../..").unwrap();
                fs::write(planted.join("gitdir"), format!("{}\n", link.display())).unwrap();
                fs::write(&link, format!("gitdir: {}\n", planted.display())).unwrap();
            }
        }
        let is_redirected = |error: GitError| matches!(error, GitError::Redirected { .. });
        assert!(is_redirected(state(&worktree).unwrap_err()), "{way}");
        assert!(is_redirected(diff(&worktree, 1000).unwrap_err()), "{way}");
        let removed = remove(&worktree, &repository.folder(), true, false);
        assert!(is_redirected(removed.unwrap_err()), "{way}");
        let saved = save_of("main_w1", &worktree);
        assert_eq!(saved.head, Some(worktree.base.clone()), "{way}");
        let problem = saved.problem.unwrap();
        assert!(problem.contains("does not lead to its repository"), "{way}: {problem}");
        let landing = Landing::at(&repository.path()).unwrap();
        assert_eq!(landing.land(&worktree, "x", false).unwrap(), Landed::Already, "{way}");
        assert!(!path.join("obeyed").exists(), "{way}");
    }
}

#[test]
fn commit_during_which_git_was_killed_is_tried_again() {
    let repository = Repository::new();
    let (worktree, cwd) = repository.make("main_w1").unwrap();
    let lock = repository.path().join(".git/refs/heads/raymond/r/main_w1.lock");
    fs::write(lock, "").unwrap();
    let once = repository.root.path().join("once").display().to_string();
    let kill = format!("if [ ! -e {once} ]; then touch {once}; kill -9 $PPID; fi; cat");
    repository.git(&["config", "filter.kill.clean", &kill]);
    fs::write(Path::new(&cwd).join(".gitattributes"), "new filter=kill\n").unwrap();
    fs::write(Path::new(&cwd).join("new"), "x").unwrap();
    let saved = save_of("main_w1", &worktree);
    assert!(Path::new(&once).exists(), "git was killed");
    assert_eq!(saved.problem, None);
    assert_eq!(repository.git(&["show", "raymond/r/main_w1:sub/new"]), "x");
    // Every time.
    repository.git(&["config", "filter.kill.clean", "kill -9 $PPID; cat"]);
    fs::write(Path::new(&cwd).join("new"), "y").unwrap();
    let problem = save_of("main_w1", &worktree).problem.unwrap();
    assert!(problem.contains("a signal killed it"), "{problem}");
}

#[test]
fn worktree_with_work_that_is_nowhere_else_is_not_removed() {
    let repository = Repository::new();
    let (worktree, cwd) = repository.make("main_w1").unwrap();
    fs::write(Path::new(&cwd).join("new"), "x").unwrap();
    let kept = remove(&worktree, &around(&worktree), false, false).unwrap();
    let uncommitted = vec!["sub/new".to_owned()];
    assert_eq!(kept, Removal::Kept { uncommitted, unmerged_commits: 0, stashes: 0 });
    save_of("main_w1", &worktree);
    // Another worker's branch may be removed next, so it is no safe place.
    repository.git(&["branch", "raymond/r/other", "raymond/r/main_w1"]);
    let kept = remove(&worktree, &around(&worktree), false, false).unwrap();
    assert_eq!(kept, Removal::Kept { uncommitted: Vec::new(), unmerged_commits: 1, stashes: 0 });
    assert!(Path::new(&cwd).join("new").exists());
    repository.git(&["merge", "--quiet", "raymond/r/main_w1"]);
    assert_eq!(remove(&worktree, &around(&worktree), false, true).unwrap(), GONE);
    assert!(Path::new(&cwd).exists(), "it was only asked");
    assert_eq!(remove(&worktree, &around(&worktree), false, false).unwrap(), GONE);
    assert_eq!(repository.git(&["worktree", "list"]).lines().count(), 1);
    assert_eq!(repository.git(&["branch", "--list", "raymond/r/main_w1"]), "");
    assert!(!repository.folder().join("main_w1.claim").exists());
    assert_eq!(remove(&worktree, &around(&worktree), false, false).unwrap(), Removal::WasGone);
}

#[test]
fn lock_that_a_killed_git_left_does_not_keep_a_worktree() {
    let repository = Repository::new();
    let lock = repository.path().join(".git/refs/heads/raymond/r/main_w1.lock");
    fs::create_dir_all(lock.parent().unwrap()).unwrap();
    // One from the making of the worktree, and one from later.
    fs::create_dir_all(repository.folder()).unwrap();
    repository.claim("main_w1");
    fs::write(&lock, "").unwrap();
    let (worktree, _) = repository.make("main_w1").unwrap();
    fs::write(&lock, "").unwrap();
    assert_eq!(remove(&worktree, &around(&worktree), false, false).unwrap(), GONE);
    assert_eq!(repository.git(&["branch", "--list", "raymond/r/main_w1"]), "");
}

#[cfg(unix)]
#[test]
fn path_with_a_line_break_is_refused_and_named_whole() {
    let repository = Repository::new();
    let moved = repository.root.path().join("two\nlines");
    fs::rename(repository.path(), &moved).unwrap();
    let refusal = checkout(&moved.to_string_lossy()).unwrap_err();
    assert!(refusal.contains("two\\nlines\" has a line break"), "{refusal}");
    assert!(refusal.ends_with("rename it, or leave `worktree` out"), "{refusal}");
}

#[test]
fn what_git_does_not_look_at_is_named_when_it_goes() {
    let repository = Repository::new();
    repository.git(&["config", "core.excludesFile", "/dev/null"]);
    let (worktree, cwd) = repository.make("main_w1").unwrap();
    let path = Path::new(&worktree.path);
    let git = |arguments: &[&str]| git::Git::at(path).text(arguments).unwrap();
    let exclude = git(&["rev-parse", "--path-format=absolute", "--git-path", "info/exclude"]);
    fs::create_dir_all(Path::new(&exclude).parent().unwrap()).unwrap();
    fs::write(exclude, "cache\n").unwrap();
    fs::create_dir(Path::new(&cwd).join("cache")).unwrap();
    fs::write(Path::new(&cwd).join("cache/one"), "x").unwrap();
    let tracked = git(&["ls-files"]).lines().next().unwrap().to_owned();
    git(&["update-index", "--skip-worktree", &tracked]);
    fs::write(path.join(&tracked), "only here").unwrap();
    let hidden = vec!["sub/cache/".to_owned(), tracked];
    let removed = remove(&worktree, &around(&worktree), false, true).unwrap();
    assert_eq!(removed, Removal::Removed { hidden });
}

#[test]
fn work_is_discarded_only_if_that_is_said_and_a_removed_directory_is_forgotten_by_git() {
    let repository = Repository::new();
    let (worktree, cwd) = repository.make("main_w1").unwrap();
    fs::write(Path::new(&cwd).join("new"), "x").unwrap();
    assert_eq!(remove(&worktree, &around(&worktree), true, false).unwrap(), GONE);
    assert!(!Path::new(&cwd).exists());
    let (worktree, _) = repository.make("main_w2").unwrap();
    fs::remove_dir_all(&worktree.path).unwrap();
    assert_eq!(remove(&worktree, &around(&worktree), false, false).unwrap(), GONE);
    assert_eq!(repository.git(&["worktree", "list"]).lines().count(), 1);
}

#[test]
fn diff_has_what_is_committed_and_what_is_not_and_a_limit() {
    let repository = Repository::new();
    let (worktree, cwd) = repository.make("main_w1").unwrap();
    fs::write(Path::new(&cwd).join("a.txt"), "one\ntwo\n").unwrap();
    let shown = diff(&worktree, 10_000).unwrap();
    assert!(shown.text.ends_with("\n one\n+two\n") && !shown.is_cut, "{shown:?}");
    save_of("main_w1", &worktree);
    assert_eq!(diff(&worktree, 10_000).unwrap(), shown);
    fs::remove_dir_all(&worktree.path).unwrap();
    assert_eq!(diff(&worktree, 10_000).unwrap(), shown, "from the branch");
    let cut = diff(&worktree, 60).unwrap();
    assert!(cut.is_cut && cut.text.ends_with('\n') && cut.text.len() <= 60, "{cut:?}");
}

#[test]
fn branches_are_landed_one_by_one_and_a_conflict_changes_nothing() {
    let repository = Repository::new();
    repository.git(&["config", "user.name", "t"]);
    repository.git(&["config", "user.email", "t@localhost"]);
    let mut made = Vec::new();
    for (agent, name) in [("main_w1", "a.txt"), ("main_w2", "a.txt"), ("main_w3", "c.txt")] {
        let (worktree, cwd) = repository.make(agent).unwrap();
        fs::write(Path::new(&cwd).join(name), format!("{agent}\n")).unwrap();
        save_of(agent, &worktree);
        made.push(worktree);
    }
    let landing = Landing::at(&repository.path()).unwrap();
    assert_eq!(landing.branch(), "main");
    let land = |worktree: &Worktree, is_dry| landing.land(worktree, "Land it", is_dry).unwrap();
    assert_eq!(land(&made[0], true), Landed::Merged { commits: 1 });
    assert_eq!(land(&made[0], false), Landed::Merged { commits: 1 });
    assert_eq!(land(&made[0], false), Landed::Already);
    let files = vec!["sub/a.txt".to_owned()];
    assert!(matches!(land(&made[1], true), Landed::Conflicts { .. }));
    assert_eq!(land(&made[1], false), Landed::Conflicts { files });
    assert_eq!(repository.git(&["status", "--porcelain"]), "");
    assert_eq!(land(&made[2], false), Landed::Merged { commits: 1 });
    assert_eq!(repository.git(&["log", "-1", "--format=%s"]), "Land it");
    fs::write(repository.path().join("sub/a.txt"), "mine\n").unwrap();
    assert!(matches!(Landing::at(&repository.path()), Err(LandError::Dirty { .. })));
    repository.git(&["stash", "--quiet"]);
    repository.git(&["checkout", "--quiet", "--detach"]);
    assert!(matches!(Landing::at(&repository.path()), Err(LandError::Detached { .. })));
    let nowhere = tempfile::tempdir().unwrap();
    assert!(matches!(Landing::at(nowhere.path()), Err(LandError::NoCheckout { .. })));
    let other = Repository::new();
    let elsewhere = Landing::at(&other.path()).unwrap().land(&made[0], "x", false).unwrap();
    assert_eq!(elsewhere, Landed::Elsewhere);
}

#[test]
fn entry_that_git_cannot_read_does_not_keep_a_worktree_from_being_made_again() {
    let repository = Repository::new();
    let (worktree, _) = repository.make("main_w1").unwrap();
    // What a git process leaves that is killed between two writes.
    fs::write(repository.path().join(".git/worktrees/main_w1/commondir"), "").unwrap();
    repository.claim("main_w1");
    let mut list = Command::new("git");
    let list = list.args(["worktree", "list"]).current_dir(repository.path()).output().unwrap();
    assert!(!list.status.success(), "git itself is stuck: {list:?}");
    assert_eq!(repository.make("main_w1").unwrap().0, worktree);
    assert_eq!(repository.git(&["worktree", "list"]).lines().count(), 2);
}

#[test]
fn worktrees_that_many_runs_make_and_remove_at_the_same_moment_are_all_made() {
    let repository = Repository::new();
    let commit = repository.plan().commit;
    std::thread::scope(|scope| {
        for run in 0..12 {
            let (repository, commit) = (&repository, &commit);
            scope.spawn(move || {
                let id = RunId::new(&format!("r{run}")).unwrap();
                let state = repository.root.path().canonicalize().unwrap().join("state");
                let worktrees = RunWorktrees::new(&StateDir::new(state).run(&id), &id, "i");
                for number in 0..6 {
                    let plan = WorktreePlan { commit: commit.clone(), ..repository.plan() };
                    let agent = AgentId::new(format!("main_w{number}"));
                    let made = worktrees.make(&agent, &plan, &AtomicBool::new(false));
                    let (worktree, cwd) = made.unwrap();
                    fs::write(Path::new(&cwd).join("new"), "x").unwrap();
                    let saved = save(&id, &agent, &worktree, &AtomicBool::new(false)).unwrap();
                    assert_eq!(saved.problem, None);
                    if number % 2 == 0 {
                        assert_eq!(
                            remove(&worktree, &around(&worktree), true, false).unwrap(),
                            GONE
                        );
                    }
                }
            });
        }
    });
    assert_eq!(repository.git(&["worktree", "list"]).lines().count(), 1 + 12 * 3);
    assert_eq!(repository.git(&["branch", "--list", "raymond/*"]).lines().count(), 12 * 3);
}

/// The git process that a killed orchestrator left is held up in a hook while it commits.
#[cfg(unix)]
#[test]
fn save_waits_for_the_git_of_a_killed_orchestrator() {
    let repository = Repository::new();
    let (worktree, cwd) = repository.make("main_w1").unwrap();
    fs::write(Path::new(&cwd).join("new"), "x").unwrap();
    let signs = repository.root.path().canonicalize().unwrap();
    let hook = repository.path().join(".git/hooks/pre-commit");
    let (begun, go) = (signs.join("begun"), signs.join("go"));
    let text = format!(
        "#!/bin/sh\ntouch '{}'\nuntil [ -e '{}' ]; do sleep 0.01; done\n",
        begun.display(),
        go.display()
    );
    fs::write(&hook, text).unwrap();
    fs::set_permissions(&hook, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    run_git(Path::new(&cwd), &["add", "--all"]);
    let claim = Claim::open(&repository.folder().join("main_w1.claim"), "i").unwrap();
    let mut earlier = {
        // Dropped here: it has the lock, too.
        let mut command = Command::new("git");
        command.args(["-c", "user.name=t", "-c", "user.email=t@localhost"]);
        command.args(["commit", "--quiet", "-m", "earlier"]).current_dir(&cwd);
        command.stdin(claim.file.try_clone().unwrap()).spawn().unwrap()
    };
    drop(claim);
    while !begun.exists() {
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    let (done, saved) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        scope.spawn(|| done.send(save_of("main_w1", &worktree)));
        let early = saved.recv_timeout(std::time::Duration::from_millis(300));
        fs::write(&go, "").unwrap();
        assert!(earlier.wait().unwrap().success());
        assert!(early.is_err(), "it did not wait: {early:?}");
    });
    assert_eq!(saved.recv().unwrap().problem, None);
    let log = repository.git(&["log", "--format=%s", "main..raymond/r/main_w1"]);
    assert_eq!(log, "earlier");
}

#[test]
fn branch_whose_name_is_a_part_of_the_workers_is_in_the_way() {
    for name in ["raymond", "raymond/r"] {
        let repository = Repository::new();
        repository.git(&["branch", name]);
        let refused = repository.make("main_w1").unwrap_err();
        assert!(refused.contains(&format!("git branch -m {name} NAME")), "{refused}");
        repository.git(&["branch", "-m", name, "other"]);
        repository.make("main_w1").unwrap();
    }
}

#[cfg(unix)]
#[test]
fn failed_hook_is_named_and_the_worktree_is_made_again() {
    let repository = Repository::new();
    let hook = failing_hook(&repository);
    let failed = repository.make("main_w1").unwrap_err();
    assert!(failed.starts_with("the hook post-checkout of the repository ended with code 7"));
    fs::remove_file(&hook).unwrap();
    repository.make("main_w1").unwrap();
}

#[test]
fn missing_commit_is_told_from_none() {
    let repository = Repository::new();
    let commit = repository.git(&["rev-parse", "HEAD"]);
    let (folder, name) = commit.split_at(2);
    let object = format!(".git/objects/{folder}/{name}");
    fs::remove_file(repository.path().join(object)).unwrap();
    assert!(
        repository.refusal().contains("is missing in the repository"),
        "{}",
        repository.refusal()
    );
}

fn around(worktree: &Worktree) -> PathBuf {
    Path::new(&worktree.path).parent().unwrap().to_owned()
}
