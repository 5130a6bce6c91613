//! What a worker leaves beside its branch.

use super::*;

#[test]
fn commits_that_a_worker_left_before_it_returned_to_its_branch_are_named_and_kept() {
    let repository = Repository::new();
    for (name, leave) in [
        ("main_w1", &["checkout", "--quiet", "--detach"][..]),
        ("main_w2", &["checkout", "--quiet", "-b", "feature"]),
    ] {
        let (worktree, cwd) = repository.make(name).unwrap();
        let cwd = Path::new(&cwd);
        run_git(cwd, leave);
        run_git(cwd, &["commit", "--quiet", "--allow-empty", "-m", "first"]);
        run_git(cwd, &["commit", "--quiet", "--amend", "--allow-empty", "-m", "beside"]);
        let beside = run_git(cwd, &["rev-parse", "HEAD"]);
        run_git(cwd, &["checkout", "--quiet", "-"]);
        let saved = save_of(name, &worktree);
        let short = beside.get(..12).unwrap();
        let problem =
            format!("it has left commit {short}, which {} does not contain", worktree.branch);
        assert_eq!(saved.problem, Some(problem));
        assert_eq!(state(&worktree).unwrap().astray_commits, 1);
        let removed = remove(&worktree, &around(&worktree), false, true).unwrap();
        let has_branch = name == "main_w2";
        assert_eq!(removed == GONE, has_branch, "a branch that stays has it: {removed:?}");
        run_git(cwd, &["merge", "--quiet", &beside]);
        assert_eq!(save_of(name, &worktree).problem, None);
    }
}

#[test]
fn commits_that_a_worker_replaced_or_only_looked_at_are_not_missed() {
    let repository = Repository::new();
    repository.git(&["checkout", "--quiet", "-b", "theirs"]);
    repository.commit("sub/theirs", "x");
    repository.git(&["checkout", "--quiet", "main"]);
    let (worktree, cwd) = repository.make("main_w1").unwrap();
    let cwd = Path::new(&cwd);
    let commit = |name: &str| run_git(cwd, &["commit", "--quiet", "--allow-empty", "-m", name]);
    run_git(cwd, &["checkout", "--quiet", "--detach", "theirs"]);
    run_git(cwd, &["checkout", "--quiet", "-"]);
    commit("one");
    run_git(cwd, &["checkout", "--quiet", "-b", "feature"]);
    commit("two");
    run_git(cwd, &["checkout", "--quiet", &worktree.branch]);
    run_git(cwd, &["commit", "--quiet", "--amend", "--allow-empty", "-m", "other"]);
    run_git(cwd, &["checkout", "--quiet", "feature"]);
    run_git(cwd, &["reset", "--quiet", "--hard", &worktree.branch]);
    commit("three");
    run_git(cwd, &["checkout", "--quiet", &worktree.branch]);
    run_git(cwd, &["merge", "--quiet", "feature"]);
    assert_eq!(save_of("main_w1", &worktree).problem, None);
    assert_eq!(state(&worktree).unwrap().astray_commits, 0);
}

#[test]
fn commits_are_found_although_git_is_told_to_keep_no_log() {
    let repository = Repository::new();
    repository.git(&["config", "core.logAllRefUpdates", "false"]);
    let (worktree, cwd) = repository.make("main_w1").unwrap();
    let cwd = Path::new(&cwd);
    run_git(cwd, &["checkout", "--quiet", "--detach"]);
    run_git(cwd, &["commit", "--quiet", "--allow-empty", "-m", "beside"]);
    run_git(cwd, &["checkout", "--quiet", "-"]);
    let problem = save_of("main_w1", &worktree).problem.unwrap();
    assert!(problem.starts_with("it has left commit "), "{problem}");
}

#[test]
fn stash_of_a_worker_is_named_and_its_worktree_is_kept() {
    let repository = Repository::new();
    let (other, its_cwd) = repository.make("main_w10").unwrap();
    let (worktree, cwd) = repository.make("main_w1").unwrap();
    for (cwd, text) in [(&its_cwd, "ten\n"), (&cwd, "two\n")] {
        fs::write(Path::new(cwd).join("a.txt"), text).unwrap();
    }
    run_git(Path::new(&its_cwd), &["commit", "--quiet", "-am", "own"]);
    run_git(Path::new(&cwd), &["stash", "push", "--quiet", "--message", "later"]);
    assert_eq!(save_of("main_w10", &other).problem, None);
    let problem = "it has left a stash (git stash list), which is on no branch";
    assert_eq!(save_of("main_w1", &worktree).problem.as_deref(), Some(problem));
    let kept = remove(&worktree, &around(&worktree), false, false).unwrap();
    let uncommitted = Vec::new();
    assert_eq!(kept, Removal::Kept { uncommitted, unmerged_commits: 0, stashes: 1 });
    run_git(Path::new(&cwd), &["stash", "pop", "--quiet"]);
    assert_eq!(save_of("main_w1", &worktree).problem, None);
    assert_eq!(repository.git(&["show", "raymond/r/main_w1:sub/a.txt"]), "two");
}

#[test]
fn repository_below_a_directory_that_git_ignores_keeps_the_worktree() {
    let repository = Repository::new();
    repository.commit(".gitignore", "vendor\nown\nlinks\n");
    let (worktree, cwd) = repository.make("main_w1").unwrap();
    let cwd = Path::new(&cwd);
    let kept = || remove(&worktree, &around(&worktree), false, false).unwrap();
    let (deep, own, links) = (cwd.join("vendor/deep/x"), cwd.join("own"), cwd.join("links"));
    for nested in [&deep, &own] {
        fs::create_dir_all(nested).unwrap();
        run_git(nested, &["init", "--quiet"]);
    }
    fs::create_dir(&links).unwrap();
    #[cfg(unix)]
    std::os::unix::fs::symlink(repository.path(), links.join("home")).unwrap();
    let named = |names: &[&str]| Removal::Kept {
        uncommitted: names.iter().map(|name| (*name).to_owned()).collect(),
        unmerged_commits: 0,
        stashes: 0,
    };
    assert_eq!(kept(), named(&["sub/own", "sub/vendor/deep/x"]));
    fs::remove_dir_all(&own).unwrap();
    assert_eq!(kept(), named(&["sub/vendor/deep/x"]));
    fs::remove_dir_all(deep).unwrap();
    assert!(matches!(kept(), Removal::Removed { .. }));
}
