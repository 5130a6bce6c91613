//! Worktrees of workers, with the real program and real git.

use std::{
    path::Path,
    process::Command,
    time::{Duration, Instant},
};

use serde_json::Value;

use crate::{
    env::{Project, Ran, kill},
    faults::{say, with_a_disk},
    recovery::Chance,
};

/// Runs git in a directory of the project and returns what it prints.
#[track_caller]
pub(crate) fn git_in(directory: &Path, arguments: &[&str]) -> String {
    let mut command = Command::new("git");
    command.args(["-c", "user.name=t", "-c", "user.email=t@localhost"]).args(arguments);
    let output = command.current_dir(directory).output().unwrap();
    assert!(output.status.success(), "git {arguments:?}: {output:?}");
    String::from_utf8_lossy(&output.stdout).trim_end().to_owned()
}

/// A project whose files are committed.
pub(crate) fn repository<'a>(files: impl IntoIterator<Item = (&'a str, &'a str)>) -> Project {
    let project = Project::new(files);
    project.write(".gitignore", ".raymond\n.config\n.state\nlog\n");
    project.write("a.txt", "one\n");
    git_in(project.path(), &["init", "--quiet", "--initial-branch=main"]);
    for (key, value) in [("user.name", "t"), ("user.email", "t@localhost")] {
        git_in(project.path(), &["config", key, value]);
    }
    git_in(project.path(), &["add", "--all"]);
    git_in(project.path(), &["commit", "--quiet", "-m", "first"]);
    project
}

/// Two workers that change the same file, and one that fails. Their parent hands on what the join gave it.
const FORKS: [(&str, &str); 4] = [
    (
        "START.sh",
        "for n in 1 2 3; do echo \"<fork next='WAIT' worktree='true' n='$n'>WORK</fork>\"; done",
    ),
    (
        "WORK.sh",
        "echo $n > a.txt; echo $n > new$n; [ $n != 3 ] || exit 1; echo \"<result>$PWD</result>\"",
    ),
    ("WAIT.sh", "echo '<join failed=\"pass\">END</join>'"),
    ("END.sh", "echo \"<result>$RAYMOND_RESULT</result>\""),
];

#[test]
fn every_worker_has_a_worktree_and_its_work_is_on_a_branch_when_it_is_joined() {
    let project = repository(FORKS);
    let ran = project.raymond(&["flow", "--id", "r"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let joined: Value = serde_json::from_str(ran.stdout.trim()).unwrap();
    for (index, worker) in joined.as_array().unwrap().iter().enumerate() {
        let n = index + 1;
        assert_eq!(worker["branch"], format!("raymond/r/main_work{n}"));
        let path = worker["worktree"].as_str().unwrap();
        assert!(path.ends_with(&format!(".raymond/worktrees/r/main_work{n}")), "{path}");
        let branch = worker["branch"].as_str().unwrap();
        let changed = git_in(project.path(), &["diff", "--name-only", "main", branch]);
        assert_eq!(changed, format!("a.txt\nnew{n}"), "also that of the failed one");
        assert_eq!(worker["result"].is_null(), n == 3, "{worker}");
    }
    assert_eq!(project.read("a.txt"), "one\n");
    assert_eq!(git_in(project.path(), &["status", "--porcelain"]), "");
    let status = project.raymond(&["status", "r"]);
    assert!(status.stdout.contains("main_work2  raymond/r/main_work2"), "{}", status.stdout);
}

#[test]
fn fork_with_a_worktree_is_refused_before_anything_starts_where_there_is_no_clean_checkout() {
    let project = Project::new(FORKS);
    let ran = project.raymond(&["flow", "--id", "r"]);
    ran.failed(1, "is not in a git repository: make one (git init) and commit the files");
    let project = repository(FORKS);
    project.write("a.txt", "mine\n");
    let ran = project.raymond(&["flow", "--id", "r"]);
    ran.failed(1, "changes that are not committed, which the worker would not see: commit it");
    git_in(project.path(), &["checkout", "--quiet", "a.txt"]);
    let ran = project.raymond(&["resume", "r"]);
    assert_eq!(ran.code, 0, "{ran:?}");
}

#[test]
fn what_a_run_left_unlanded_is_shown_landed_by_hand_and_only_then_pruned() {
    let project = repository(FORKS);
    assert_eq!(project.raymond(&["flow", "--id", "r"]).code, 0);
    let shown = project.raymond(&["show", "r", "main_work1", "--diff"]).stdout;
    assert!(shown.starts_with("main_work1  raymond/r/main_work1\n"), "{shown}");
    assert!(shown.contains("-one\n+1\n") && !shown.contains("+2"), "{shown}");
    project.raymond(&["show", "r", "main", "--diff"]).failed(2, "no worker `main` with a worktree");
    // Nothing of it is landed, so everything stays.
    let pruned = project.raymond(&["prune", "--yes", "--older-than", "0s"]);
    assert_eq!(pruned.code, 0, "{pruned:?}");
    let why = "worktree of main_work1 in run r stays: it has 1 commit that is on no other branch";
    assert!(pruned.stderr.contains(why), "{}", pruned.stderr);
    assert!(project.file(".raymond/workflows/r.journal").exists());
    project.write("a.txt", "mine\n");
    project.raymond(&["land", "r"]).failed(1, "has changes that are not committed");
    git_in(project.path(), &["checkout", "--quiet", "a.txt"]);
    let dry = project.raymond(&["land", "r", "--dry-run"]);
    assert!(dry.stdout.contains("main_work1  can be landed: 1 commit"), "{dry:?}");
    assert_eq!(project.read("a.txt"), "one\n");
    // Both have changed the same line; the failed worker is landed only by its name.
    let landed = project.raymond(&["land", "r"]);
    assert_eq!(
        landed.stdout,
        "main_work1  landed: 1 commit\nmain_work2  not landed, conflicts in a.txt\n"
    );
    assert!(landed.stderr.contains("main_work3 failed; land it anyway by its name"), "{landed:?}");
    landed.failed(1, "merge by hand: git merge raymond/r/main_work2");
    assert_eq!(project.read("a.txt"), "1\n");
    assert_eq!(git_in(project.path(), &["status", "--porcelain"]), "");
    project.raymond(&["land", "r", "nobody"]).failed(2, "has no worker `nobody` with a worktree");
    let pruned = project.raymond(&["prune", "--yes", "--worktrees"]);
    assert!(pruned.stderr.contains("1 worktree removed"), "{pruned:?}");
    assert_eq!(git_in(project.path(), &["worktree", "list"]).lines().count(), 3);
    assert!(project.file(".raymond/workflows/r.journal").exists());
    let pruned = project.raymond(&["prune", "--yes", "--older-than", "0s", "--discard-work"]);
    assert_eq!(pruned.code, 0, "{pruned:?}");
    assert_eq!(git_in(project.path(), &["worktree", "list"]).lines().count(), 1);
    assert_eq!(git_in(project.path(), &["branch", "--list", "raymond/*"]), "");
    assert!(!project.file(".raymond/workflows/r.journal").exists());
    assert!(!project.file(".raymond/worktrees/r").exists());
}

#[test]
fn work_that_no_commit_contains_is_told_at_every_place_and_stays() {
    let project = repository([
        ("START.sh", "echo \"<fork next='WAIT' worktree='true'>WORK</fork>\""),
        (
            "WORK.sh",
            "git init -q inner; echo x > inner/x; echo y > y; touch log; echo '<result>w</result>'",
        ),
        ("WAIT.sh", "echo '<join>END</join>'"),
        ("END.sh", "echo \"<result>$RAYMOND_RESULT</result>\""),
    ]);
    let ran = project.raymond(&["flow", "--id", "r"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let why = "`inner` in it is a git repository of its own, which a commit does not contain";
    let joined: Value = serde_json::from_str(ran.stdout.trim()).unwrap();
    assert_eq!(joined[0]["not_saved"], why);
    let status = project.raymond(&["status", "r"]).stdout;
    assert!(status.contains("not saved: `inner`"), "{status}");
    let landed = project.raymond(&["land", "r"]);
    let told = format!("main_work1  landed: 1 commit\nmain_work1  not saved: {why}\n");
    assert_eq!(landed.stdout, told);
    landed.failed(1, "look at what is left in its worktree: cd ");
    let pruned = project.raymond(&["prune", "--yes", "--worktrees"]);
    assert!(pruned.stderr.contains("main_work1 in run r stays: it has `inner/`"), "{pruned:?}");
    let inner = project.file(".raymond/worktrees/r/main_work1/inner");
    assert!(inner.join("x").exists());
    std::fs::remove_dir_all(inner).unwrap();
    let pruned = project.raymond(&["prune", "--yes", "--worktrees"]);
    let told =
        "main_work1 in run r went files that git ignores or passes over: log\n1 worktree removed";
    assert!(pruned.stderr.contains(told), "{pruned:?}");
}

#[test]
fn run_that_is_kept_for_the_work_of_one_worker_keeps_the_worktrees_of_all() {
    let project = repository([
        (
            "START.sh",
            "for kind in plain nested; do echo \"<fork next='WAIT' worktree='true' kind='$kind'>WORK</fork>\"; done",
        ),
        (
            "WORK.sh",
            "[ $kind = plain ] || git init -q inner; echo x > $kind; echo '<result>w</result>'",
        ),
        ("WAIT.sh", "echo '<join>END</join>'"),
        ("END.sh", "echo '<result>done</result>'"),
    ]);
    project.raymond(&["flow", "--id", "r"]).completed("done");
    assert!(project.raymond(&["land", "r"]).stdout.contains("main_work1  landed"));
    let worktrees = ["main_work1", "main_work2"]
        .map(|name| project.file(&format!(".raymond/worktrees/r/{name}")));
    for when in [&["--dry-run"][..], &["--yes"]] {
        let pruned = project.raymond(&[&["prune", "--older-than", "0s"], when].concat());
        assert!(pruned.stderr.contains("main_work2 in run r stays"), "{pruned:?}");
        assert!(worktrees.iter().all(|worktree| worktree.exists()), "{pruned:?}");
    }
    // A branch that is gone hides no other.
    git_in(project.path(), &["worktree", "remove", "--force", worktrees[0].to_str().unwrap()]);
    git_in(project.path(), &["branch", "-D", "raymond/r/main_work1"]);
    let shown = project.raymond(&["show", "r", "--diff"]);
    assert_eq!(shown.code, 1, "{shown:?}");
    assert!(shown.stderr.contains("main_work1  raymond/r/main_work1: "), "{shown:?}");
    assert!(shown.stdout.contains("main_work2  raymond/r/main_work2"), "{shown:?}");
}

#[test]
fn work_beside_the_branch_of_its_worker_is_told_when_that_is_landed() {
    for (leave, place) in [("--detach main", "no branch"), ("-b side main", "branch side")] {
        let work = format!(
            "commit() {{ touch $1; git add $1; git commit -qm $1 >&2; }}
             commit own; git checkout -q {leave}; commit beside; echo '<result>w</result>'"
        );
        let project = repository([
            ("START.sh", "echo \"<fork next='WAIT' worktree='true'>WORK</fork>\""),
            ("WORK.sh", &*work),
            ("WAIT.sh", "echo '<join>END</join>'"),
            ("END.sh", "echo \"<result>$RAYMOND_RESULT</result>\""),
        ]);
        assert_eq!(project.raymond(&["flow", "--id", "r"]).code, 0);
        let problem =
            format!("not saved: it is on {place}, which does not contain raymond/r/main_work1");
        let landed = project.raymond(&["land", "r"]);
        let told = format!("main_work1  landed: 1 commit\nmain_work1  {problem}\n");
        assert_eq!(landed.stdout, told);
        landed.failed(1, "look at what is left in its worktree: cd ");
        let worktree = project.file(".raymond/worktrees/r/main_work1");
        let beside = git_in(&worktree, &["rev-parse", "HEAD"]);
        git_in(project.path(), &["merge", "--quiet", &beside]);
        let landed = project.raymond(&["land", "r"]);
        assert_eq!((landed.code, landed.stdout.contains("not saved")), (0, false), "{landed:?}");
        // Git cannot say whether all is landed.
        std::fs::remove_file(worktree.join(".git")).unwrap();
        let landed = project.raymond(&["land", "r"]);
        assert!(landed.stdout.contains(&problem), "{landed:?}");
        let pruned = project.raymond(&["prune", "--yes", "--worktrees"]);
        assert!(pruned.stderr.contains("stays: `.git` in the worktree"), "{pruned:?}");
    }
}

/// A project whose only worker, in a worktree, carries out this script.
fn with_worker(work: &str) -> Project {
    repository([
        ("START.sh", "echo \"<fork next='WAIT' worktree='true'>WORK</fork>\""),
        ("WORK.sh", &*format!("{work}; echo '<result>w</result>'")),
        ("WAIT.sh", "echo '<join>END</join>'"),
        ("END.sh", "echo \"<result>$RAYMOND_RESULT</result>\""),
    ])
}

#[test]
fn what_a_worker_left_before_it_returned_to_its_branch_is_told_and_stays() {
    for (work, why, kept) in [
        (
            "git checkout -q --detach; git commit -q --allow-empty -m c; git checkout -q -",
            "it has left commit ",
            "it has 1 commit that is on no other branch",
        ),
        (
            "echo two > a.txt; git stash -q",
            "it has left a stash (git stash list), which is on no branch",
            "it has a stash that is on no branch",
        ),
    ] {
        let project = with_worker(work);
        let ran = project.raymond(&["flow", "--id", "r"]);
        assert_eq!(ran.code, 0, "{ran:?}");
        let joined: Value = serde_json::from_str(ran.stdout.trim()).unwrap();
        assert!(joined[0]["not_saved"].as_str().unwrap().starts_with(why), "{joined}");
        let landed = project.raymond(&["land", "r"]);
        let landed = landed.failed(1, "look at what is left in its worktree: cd ");
        assert!(landed.stdout.contains(&format!("main_work1  not saved: {why}")), "{landed:?}");
        let pruned = project.raymond(&["prune", "--yes", "--worktrees"]);
        assert!(pruned.stderr.contains(kept), "{pruned:?}");
    }
}

#[test]
fn worktree_that_its_worker_removed_is_told_as_not_saved() {
    let project = with_worker("echo two > a.txt; rm -rf \"$PWD\"");
    assert_eq!(project.raymond(&["flow", "--id", "r"]).code, 0);
    let landed = project.raymond(&["land", "r"]);
    let landed = landed.failed(1, "look at what its branch has: git log raymond/r/main_work1");
    assert!(landed.stdout.contains("main_work1  not saved: the worktree "), "{landed:?}");
    assert!(landed.stdout.contains(" is gone\n"), "{landed:?}");
    let pruned = project.raymond(&["prune", "--yes", "--worktrees"]);
    assert!(pruned.stderr.contains("1 worktree removed"), "{pruned:?}");
    let landed = project.raymond(&["land", "r"]);
    assert_eq!((landed.code, landed.stdout.contains("not saved")), (0, false), "{landed:?}");
}

#[test]
fn worker_of_a_rewound_run_begins_in_a_new_worktree_where_it_left_the_old_one() {
    let project = repository([
        ("START.sh", "echo \"<fork next='WAIT' worktree='true'>WORK</fork>\""),
        ("WAIT.sh", "echo '<join>END</join>'"),
        (
            "WORK.sh",
            "echo more >> a.txt; [ -e \"$XDG_CONFIG_HOME.fixed\" ] || exit 1; echo \"<result>$(cat a.txt)</result>\"",
        ),
        ("END.sh", "echo \"<result>$RAYMOND_RESULT</result>\""),
    ]);
    assert_eq!(project.raymond(&["flow", "--id", "old"]).code, 1);
    let old = project.file(".raymond/worktrees/old/main_work1/a.txt");
    let before = std::fs::read_to_string(&old).unwrap();
    let made = project.raymond(&["fork-run", "old", "--as", "new"]);
    assert_eq!(made.code, 0, "{made:?}");
    project.write(".config.fixed", "");
    let ran = project.raymond(&["resume", "new"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let joined: Value = serde_json::from_str(ran.stdout.trim()).unwrap();
    assert_eq!(joined[0]["branch"], "raymond/new/main_work1");
    assert_eq!(joined[0]["result"], "one\nmore\nmore", "its first work came back");
    assert_eq!(std::fs::read_to_string(&old).unwrap(), before);
}

/// The example, with scripts instead of its prompts. Of ten workers, two pairs conflict, one of which nobody can resolve, one worker
/// fails, and one breaks the tests.
#[test]
fn example_lands_what_passes_the_gate_and_undoes_or_leaves_the_rest() {
    let project = repository([]);
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/worktrees");
    for name in ["SPREAD.sh", "NEXT.sh", "LAND.sh", "GATE.sh"] {
        let text = std::fs::read_to_string(Path::new(example).join(name)).unwrap();
        project.write(&format!("flow/{name}"), &text);
    }
    project.write("flow/START.sh", "seq 10 > tasks.txt; echo '<goto>SPREAD</goto>'");
    project.write(
        "flow/WORK.sh",
        "case $task in
           1|2) echo $task > both;;
           3|4) echo $task > hopeless;;
           5) exit 1;;
           6) touch broken;;
           *) echo $task > own$task; git add . && git commit -qm \"task $task\" >&2;;
         esac
         echo \"<result>$task</result>\"",
    );
    project.write(
        "flow/RESOLVE.sh",
        "[ \"$conflicts\" != 'both ' ] || printf '1\\n2\\n' > both; echo '<result>tried</result>'",
    );
    git_in(project.path(), &["add", "--all"]);
    git_in(project.path(), &["commit", "--quiet", "-m", "flow"]);
    let ran = project.raymond(&["flow", "--id", "r", "--var", "check=test ! -e broken"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let mut report: Vec<_> = ran.stdout.trim().lines().map(str::to_owned).collect();
    report.sort();
    let count = |start: &str| report.iter().filter(|line| line.starts_with(start)).count();
    let counts = ["landed: ", "conflicts: ", "undone, the tests fail: ", "main_work5 failed: "];
    assert_eq!(counts.map(count), [7, 1, 1, 1], "{report:#?}");
    assert_eq!(report.len(), 10, "{report:#?}");
    assert!(report.contains(&"undone, the tests fail: raymond/r/main_work6".to_owned()));
    assert_eq!(project.read("both"), "1\n2\n", "the conflict was resolved");
    assert!(["3\n", "4\n"].contains(&&*project.read("hopeless")), "the first of them");
    for number in 7..=10 {
        assert_eq!(project.read(&format!("own{number}")), format!("{number}\n"));
    }
    assert!(!project.file("broken").exists());
    assert_eq!(git_in(project.path(), &["status", "--porcelain"]), "");
    // What was not landed is still there, and only that: the failed worker had done nothing.
    let pruned = project.raymond(&["prune", "--yes", "--worktrees"]);
    assert!(pruned.stderr.contains("8 worktrees removed"), "{pruned:?}");
    assert_eq!(git_in(project.path(), &["branch", "--list", "raymond/*"]).lines().count(), 2);
}

/// Six workers with worktrees, three at a time. Every worker logs that it ran, and leaves a commit and a file.
const STORMY: [(&str, &str); 4] = [
    (
        "START.sh",
        "for n in 1 2 3 4 5 6; do echo \"<fork next='WAIT' worktree='true' limit='3' n='$n'>WORK</fork>\"; done",
    ),
    (
        "WORK.sh",
        "echo \"$RAYMOND_AGENT_ID\" >> \"$(dirname \"$RAYMOND_STATE_DIR\")/log\"
         touch done$n; git add . && git commit -qm done >&2; echo $n > left$n; echo '<result>w</result>'",
    ),
    ("WAIT.sh", "echo '<join>END</join>'"),
    ("END.sh", "echo '<result>all done</result>'"),
];

/// Kills the orchestrator at random moments, and sometimes the git processes that it has started, until `kills` are used up.
fn storm(seed: u64, kills: u32) {
    let mut chance = Chance(seed);
    let (mut done, mut runs) = (0, 0);
    while done < kills {
        let project = repository(STORMY);
        let mut arguments = vec!["start", "flow", "--id", "r"];
        loop {
            let mut child = project.spawn(&arguments);
            let moment = Instant::now() + Duration::from_micros(chance.below(400_000));
            let ended = loop {
                match child.try_wait().unwrap() {
                    Some(status) => break Some(status),
                    None if Instant::now() >= moment => break None,
                    None => std::thread::yield_now(),
                }
            };
            if ended.is_some() || done >= kills {
                Ran::of(&child.wait_with_output().unwrap()).completed("all done");
                break;
            }
            kill(child.id(), libc::SIGKILL);
            let _ = child.wait();
            if chance.below(3) == 0 {
                // Not those of the workers: git in a script that is killed fails the script.
                let gits =
                    project.processes().into_iter().filter(|line| line.contains(" worktree add "));
                gits.filter_map(|line| line.split(' ').next()?.parse().ok())
                    .for_each(|pid| kill(pid, libc::SIGKILL));
            }
            done += 1;
            let began = project.read(".raymond/workflows/r.journal").contains('\n');
            arguments = if began { vec!["run", "r"] } else { vec!["start", "flow", "--id", "r"] };
        }
        runs += 1;
        check_after_storm(&project, seed);
    }
    say(&format!("storm: {done} kills in {runs} runs with worktrees, seed {seed}"));
}

/// Every worker has run once, in the one worktree that was made for it, and all its work is on its branch.
fn check_after_storm(project: &Project, seed: u64) {
    let counts = project.counts();
    assert!(
        counts.len() == 6 && counts.values().all(|count| *count == 1),
        "seed {seed}: {counts:?}"
    );
    let journal = project.read(".raymond/workflows/r.journal");
    let git = |arguments: &[&str]| git_in(project.path(), arguments);
    let branches = git(&["branch", "--list", "--format=%(refname:short)", "raymond/*"]);
    assert_eq!(branches.lines().count(), 6, "seed {seed}: {branches}");
    let listed = git(&["worktree", "list", "--porcelain"]);
    let own: Vec<_> =
        listed.lines().filter(|line| line.contains(".raymond/worktrees/r/")).collect();
    assert_eq!(own.len(), 6, "seed {seed}: {listed}");
    let on_disk = std::fs::read_dir(project.file(".raymond/worktrees/r")).unwrap().flatten();
    let on_disk = on_disk.filter(|entry| entry.path().is_dir()).count();
    assert_eq!(on_disk, 6, "seed {seed}");
    for n in 1..=6 {
        let made = format!("{{\"worktree_made\":{{\"agent\":\"main_work{n}\"");
        assert_eq!(journal.matches(&made).count(), 1, "seed {seed}: {journal}");
        let branch = format!("raymond/r/main_work{n}");
        let files = git(&["diff", "--name-only", "main", &branch]);
        assert_eq!(files, format!("done{n}\nleft{n}"), "seed {seed}");
        assert_eq!(git(&["rev-list", "--count", &format!("main..{branch}")]), "2", "seed {seed}");
    }
    assert!(!journal.contains("\"problem\""), "seed {seed}: {journal}");
    assert_eq!(git(&["status", "--porcelain"]), "", "seed {seed}");
    project.wait_until_quiet();
}

#[test]
fn killed_at_random_moments_no_worktree_is_lost_made_twice_or_unknown() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let kills = number("RAYMOND_STORM").and_then(|kills| u32::try_from(kills).ok()).unwrap_or(30);
    storm(number("RAYMOND_STORM_SEED").unwrap_or(20_261_117), kills);
}

#[test]
fn branch_that_was_landed_and_pruned_is_not_missed_and_a_lost_one_can_be_brought_back() {
    let project = repository(FORKS);
    assert_eq!(project.raymond(&["flow", "--id", "r"]).code, 0);
    git_in(project.path(), &["merge", "--quiet", "raymond/r/main_work1"]);
    assert_eq!(project.raymond(&["prune", "--yes", "--worktrees"]).code, 0);
    let landed = project.raymond(&["land", "r", "main_work1"]);
    assert_eq!(landed.stdout, "main_work1  has nothing that is not landed\n", "{landed:?}");
    let head = git_in(project.path(), &["rev-parse", "raymond/r/main_work2"]);
    let worktree = ".raymond/worktrees/r/main_work2";
    git_in(project.path(), &["worktree", "remove", "--force", worktree]);
    git_in(project.path(), &["branch", "--quiet", "-D", "raymond/r/main_work2"]);
    let landed = project.raymond(&["land", "r", "main_work2"]);
    landed.failed(1, &format!("git branch raymond/r/main_work2 {head}"));
}

#[test]
fn land_does_not_touch_a_merge_of_the_user() {
    let project = repository(FORKS);
    assert_eq!(project.raymond(&["flow", "--id", "r"]).code, 0);
    git_in(project.path(), &["checkout", "--quiet", "-b", "side"]);
    git_in(project.path(), &["commit", "--quiet", "--allow-empty", "-m", "side"]);
    git_in(project.path(), &["checkout", "--quiet", "main"]);
    // Nothing has changed yet, so the checkout is clean.
    git_in(project.path(), &["merge", "--quiet", "--no-ff", "--no-commit", "side"]);
    project.raymond(&["land", "r"]).failed(1, "git merge --abort");
    assert!(project.file(".git/MERGE_HEAD").exists(), "it is still under way");
}

#[test]
fn work_is_landed_in_a_repository_that_was_moved_and_nowhere_else() {
    let project = repository(FORKS);
    let other = repository([]);
    // One user has both.
    let mut flow = project.command(&["flow", "--id", "r"]);
    assert!(flow.envs(other.user()).status().unwrap().success());
    let state_dir = project.file(".raymond");
    let place = ["--data-dir", state_dir.to_str().unwrap()];
    let elsewhere = other.raymond(&["land", "r", "main_work1", place[0], place[1]]);
    elsewhere.failed(1, "land it in a checkout of its repository: cd ");
    for name in [".git", ".raymond", "a.txt", "flow", ".gitignore"] {
        let moved = other.file("moved");
        std::fs::create_dir_all(&moved).unwrap();
        std::fs::rename(project.file(name), moved.join(name)).unwrap();
    }
    std::fs::remove_dir_all(project.path()).unwrap();
    let mut command = other.command(&["land", "r", "main_work1"]);
    let landed = Ran::of(&command.current_dir(other.file("moved")).output().unwrap());
    assert_eq!((landed.code, &*landed.stdout), (0, "main_work1  landed: 1 commit\n"), "{landed:?}");
}

/// Two workers whose work is large.
const LARGE: [(&str, &str); 4] = [
    (
        "START.sh",
        "for n in 1 2; do echo \"<fork next='WAIT' worktree='true' n='$n'>WORK</fork>\"; done",
    ),
    (
        "WORK.sh",
        "[ -s work$n ] || head -c 100000 /dev/urandom > work$n; echo \"<result>w</result>\"",
    ),
    ("WAIT.sh", "echo '<join>END</join>'"),
    ("END.sh", "echo \"<result>all done</result>\""),
];

/// With so much room left, in KiB: nothing fits, then the branch, a part of the first checkout, of the second one, their work.
const ROOMS: &str =
    "0 4 8 12 16 24 32 64 120 300 640 700 760 800 1000 1300 1440 1500 1560 1620 1700 1800 2000";

/// The disk has the repository and the worktrees. Journal and steps are elsewhere: git alone has no space.
const FILL: &str = r#"
    set -e
    export HOME=$PWD GIT_CONFIG_NOSYSTEM=1 RAYMOND_TRUST="$PWD"
    mkdir -m 700 state
    for room in $ROOMS; do
        rm -rf disk/* state/*
        mkdir -m 700 disk/worktrees
        ln -s ../disk/worktrees state/worktrees
        git init -q -b main disk/p
        cp -r flow disk/p
        cd disk/p
        for n in 1 2 3 4 5 6 7 8 9 10; do head -c 60000 /dev/urandom > f$n; done
        git add -A
        git -c user.name=t -c user.email=t@localhost commit -qm first
        head -c $((($(stat -f -c '%a * %S' .) - room * 1024))) /dev/zero > ../filler 2>/dev/null || true
        code=0
        "$1" start flow --id r --data-dir ../../state > ../../out 2> ../../err || code=$?
        rm ../filler
        case $code in
            0) echo "room $room: enough";;
            4) grep -q '■ run r paused' ../../err && grep -q 'had not enough space' ../../err || { echo "room $room: no reason"; cat ../../err; exit 1; }
               "$1" resume r --data-dir ../../state > ../../out 2> ../../err || { echo "room $room: not resumed"; cat ../../err; exit 1; };;
            *) echo "room $room: code $code"; cat ../../err; exit 1;;
        esac
        test "$(cat ../../out)" = "all done" || { echo "room $room: no result"; cat ../../err; exit 1; }
        for n in 1 2; do
            test "$(git diff --name-only main raymond/r/main_work$n)" = work$n || { echo "room $room: no work of $n"; exit 1; }
        done
        cd ../..
    done
"#;

#[test]
fn disk_that_is_full_while_git_works_pauses_the_run_and_loses_nothing() {
    let project = Project::new(LARGE);
    let script = FILL.replace("$ROOMS", ROOMS);
    let Some(ran) = with_a_disk(&project, "6m", "0", &script) else { return };
    assert_eq!(ran.code, 0, "{ran:?}");
    let enough = ran.stdout.matches("enough").count();
    let all = ROOMS.split(' ').count();
    assert!(enough > 0 && enough < all / 2, "{}", ran.stdout);
}
