#![allow(clippy::unwrap_used, reason = "in tests a panic is the message")]

use super::*;
use crate::worktree::tests::{merge_in_conflict, run_git as git};

const BRANCH: &str = "raymond/r/main";

/// A project with one commit, packed, and two machines with the checkout of `main`.
struct Machines {
    root: tempfile::TempDir,
    start: String,
}

impl Machines {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        let project = root.path().join("project");
        fs::create_dir_all(project.join("sub")).unwrap();
        git(&project, &["init", "--quiet", "--initial-branch=main"]);
        for (name, text) in [("sub/a", "one\n"), (".gitignore", "built\n")] {
            fs::write(project.join(name), text).unwrap();
        }
        git(&project, &["add", "--all"]);
        git(&project, &["commit", "--quiet", "-m", "c"]);
        let packed = pack(project.join("sub").to_str().unwrap(), &root.path().join("base"));
        let packed = packed.unwrap();
        assert_eq!(packed.inside, "sub");
        let own = Self { root, start: packed.commit };
        for machine in ["one", "two"] {
            let checkouts = own.at(machine);
            assert!(!checkouts.has_base());
            checkouts.make_base(&own.file("base")).unwrap();
            assert!(checkouts.has_base());
            checkouts.make(&AgentId::main()).unwrap();
        }
        own
    }

    fn file(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    fn at(&self, machine: &str) -> Checkouts {
        Checkouts::new(self.file(machine), RunId::new("r").unwrap())
    }

    fn check_out(&self, machine: &str, commit: &str) {
        self.at(machine).check_out(&AgentId::main(), BRANCH, commit).unwrap();
    }

    /// Saves what a step has left there, all of it.
    fn save(&self, machine: &str) -> String {
        let (commit, problem) = self.at(machine).save(&AgentId::main(), BRANCH).unwrap();
        assert_eq!(problem, None);
        commit
    }

    /// Takes what is new since `since` from one machine to the repository at `to`.
    fn carry(&self, from: &str, since: &str, to: &Path) -> bool {
        let file = self.file("bundle");
        let is_new = self.at(from).bundle(&AgentId::main(), (BRANCH, since), &file).unwrap();
        if is_new {
            unbundle(to, &file).unwrap();
        }
        is_new
    }

    fn main(&self, machine: &str) -> PathBuf {
        self.at(machine).path(&AgentId::main())
    }
}

#[test]
fn checkout_goes_on_elsewhere_with_everything_that_was_left() {
    let machines = Machines::new();
    machines.check_out("one", &machines.start);
    let one = machines.main("one");
    assert_eq!(fs::read_to_string(one.join("sub/a")).unwrap(), "one\n");
    fs::write(one.join("sub/a"), "two\n").unwrap();
    git(&one, &["commit", "--quiet", "-am", "own"]);
    fs::write(one.join("left"), "over").unwrap();
    fs::write(one.join("built"), "ignored").unwrap();
    // What a killed git of the agent left.
    fs::write(one.join(".git/index.lock"), "").unwrap();
    let head = machines.save("one");
    assert_eq!(machines.save("one"), head, "nothing is left");
    let two = machines.main("two");
    assert!(!has_commit(&two, &head));
    assert!(machines.carry("one", &machines.start, &two));
    assert!(has_commit(&two, &head));
    machines.check_out("two", &head);
    assert_eq!(fs::read_to_string(two.join("sub/a")).unwrap(), "two\n");
    assert_eq!(fs::read_to_string(two.join("left")).unwrap(), "over");
    assert!(!two.join("built").exists());
    assert_eq!(git(&two, &["symbolic-ref", "--short", "HEAD"]), BRANCH);
    assert_eq!(branches(&two).unwrap(), [(BRANCH.to_owned(), head.clone())].into());
    assert!(!machines.carry("two", &head, &one), "nothing is new");
}

#[test]
fn what_a_step_left_half_done_is_gone_before_the_next_one() {
    let machines = Machines::new();
    machines.check_out("one", &machines.start);
    let one = machines.main("one");
    git(&one, &["checkout", "--quiet", "-b", "other"]);
    fs::write(one.join("sub/a"), "theirs\n").unwrap();
    git(&one, &["commit", "--quiet", "-am", "theirs"]);
    git(&one, &["checkout", "--quiet", BRANCH]);
    fs::write(one.join("sub/a"), "ours\n").unwrap();
    git(&one, &["commit", "--quiet", "-am", "ours"]);
    merge_in_conflict(&one, "other");
    fs::create_dir(one.join("new")).unwrap();
    git(&one.join("new"), &["init", "--quiet"]);
    fs::write(one.join("built"), "ignored").unwrap();
    machines.check_out("one", &machines.start);
    assert_eq!(git(&one, &["status", "--porcelain"]), "");
    assert_eq!(git(&one, &["rev-parse", "HEAD"]), machines.start);
    assert_eq!(fs::read_to_string(one.join("sub/a")).unwrap(), "one\n");
    assert!(!one.join("new").exists() && !one.join(".git/MERGE_HEAD").exists());
    assert!(one.join("built").exists(), "ignored files may save work");
}

#[test]
fn merge_with_conflicts_another_branch_and_a_shorter_history_are_saved_as_they_are() {
    let machines = Machines::new();
    machines.check_out("one", &machines.start);
    let one = machines.main("one");
    git(&one, &["checkout", "--quiet", "-b", "other"]);
    fs::write(one.join("sub/a"), "theirs\n").unwrap();
    git(&one, &["commit", "--quiet", "-am", "theirs"]);
    git(&one, &["checkout", "--quiet", "--detach", &machines.start]);
    fs::write(one.join("sub/a"), "ours\n").unwrap();
    git(&one, &["commit", "--quiet", "-am", "ours"]);
    merge_in_conflict(&one, "other");
    let merged = machines.save("one");
    let two = machines.main("two");
    machines.carry("one", &machines.start, &two);
    machines.check_out("two", &merged);
    assert!(fs::read_to_string(two.join("sub/a")).unwrap().contains("<<<<<<<"));
    assert_eq!(git(&two, &["log", "-1", "--format=%P"]).split(' ').count(), 2, "it is a merge");
    git(&two, &["reset", "--quiet", "--hard", &machines.start]);
    assert_eq!(machines.save("two"), machines.start);
    assert!(!machines.carry("two", &merged, &one), "nothing is new");
    machines.check_out("one", &machines.start);
}

#[test]
fn branches_are_delivered_and_nothing_of_the_user_is_overwritten() {
    let machines = Machines::new();
    machines.check_out("one", &machines.start);
    fs::write(machines.main("one").join("first"), "").unwrap();
    let first = machines.save("one");
    let project = machines.file("project");
    machines.carry("one", &machines.start, &project);
    let deliver = |commit: &str| deliver(&project, BRANCH, commit).unwrap();
    assert_eq!(deliver(&first), Delivered::New);
    assert_eq!(deliver(&first), Delivered::Same);
    fs::write(machines.main("one").join("second"), "").unwrap();
    let second = machines.save("one");
    machines.carry("one", &first, &project);
    assert_eq!(deliver(&second), Delivered::New);
    assert_eq!(git(&project, &["rev-parse", BRANCH]), second);
    assert_eq!(deliver(&machines.start), Delivered::Different, "that would lose commits");
    git(&project, &["checkout", "--quiet", BRANCH]);
    fs::write(machines.main("one").join("third"), "").unwrap();
    let third = machines.save("one");
    machines.carry("one", &second, &project);
    assert_eq!(deliver(&third), Delivered::Different, "it is checked out");
}

#[test]
fn repository_that_cannot_travel_is_refused_with_what_to_do() {
    let machines = Machines::new();
    let refused = |folder: &Path| {
        let refused = pack(folder.to_str().unwrap(), &machines.file("x")).unwrap_err();
        assert!(!machines.file("x").exists());
        refused
    };
    let none = tempfile::tempdir().unwrap();
    assert!(refused(none.path()).ends_with("or start the run without --place git"));
    let project = machines.file("project");
    fs::write(project.join("sub/a"), "changed").unwrap();
    assert!(refused(&project).contains("changes that are not committed"), "{}", refused(&project));
    git(&project, &["commit", "--quiet", "-am", "c"]);
    let from = format!("file://{}", project.display());
    git(machines.root.path(), &["clone", "--quiet", "--depth", "1", &from, "shallow"]);
    assert!(refused(&machines.file("shallow")).contains("git fetch --unshallow"));
}

#[test]
fn untracked_files_are_saved_although_git_is_told_not_to_show_them() {
    let machines = Machines::new();
    machines.check_out("one", &machines.start);
    let one = machines.main("one");
    git(&one, &["config", "status.showUntrackedFiles", "no"]);
    fs::write(one.join("left"), "over").unwrap();
    let head = machines.save("one");
    assert_eq!(git(&one, &["show", &format!("{head}:left")]), "over");
}

#[test]
fn repository_inside_of_a_checkout_is_named_and_stays_where_it_is() {
    let machines = Machines::new();
    machines.check_out("one", &machines.start);
    let one = machines.main("one");
    let inner = one.join("new/o[w]n !");
    fs::create_dir_all(&inner).unwrap();
    git(&inner, &["init", "--quiet"]);
    git(&inner, &["commit", "--quiet", "--allow-empty", "-m", "c"]);
    fs::write(one.join("left"), "over").unwrap();
    let (head, problem) = machines.at("one").save(&AgentId::main(), BRANCH).unwrap();
    let problem = problem.unwrap();
    assert!(problem.starts_with("`new/o[w]n !` in it is a git repository of its own"), "{problem}");
    let files = git(&one, &["ls-tree", "-r", "--name-only", &head]);
    assert_eq!(files, ".gitignore\nleft\nsub/a", "no reference to it");
    // A step that was lost has made another one.
    fs::create_dir(one.join("new/lost")).unwrap();
    git(&one.join("new/lost"), &["init", "--quiet"]);
    machines.check_out("one", &head);
    assert!(inner.join(".git").exists() && !one.join("new/lost").exists());
}

#[test]
fn commits_and_stashes_beside_the_branch_of_a_checkout_are_named() {
    let machines = Machines::new();
    machines.check_out("one", &machines.start);
    let one = machines.main("one");
    git(&one, &["checkout", "--quiet", "--detach"]);
    git(&one, &["commit", "--quiet", "--allow-empty", "-m", "beside"]);
    git(&one, &["checkout", "--quiet", "-"]);
    fs::write(one.join("sub/a"), "two\n").unwrap();
    git(&one, &["stash", "--quiet"]);
    let (head, problem) = machines.at("one").save(&AgentId::main(), BRANCH).unwrap();
    assert_eq!(head, machines.start);
    let problem = problem.unwrap();
    assert!(problem.starts_with("it has left commit "), "{problem}");
    assert!(
        problem.ends_with("; it has left a stash (git stash list), which is on no branch"),
        "{problem}"
    );
}
