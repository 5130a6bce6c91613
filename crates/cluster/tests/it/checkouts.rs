//! Checkouts that move with their agents: two workers with directories of their own, and no directory that both see.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use crate::env::{Cluster, Running, git, processes, text, wait_until};

/// A cluster whose run `r` was started in a repository that no worker can see.
struct Stage {
    cluster: Cluster,
    /// Where the repository of the user is now.
    repository: PathBuf,
}

impl Stage {
    /// Starts run `r` and moves the repository away.
    fn new(files: &[(&str, &str)], more: &[&str]) -> Option<Self> {
        let cluster = Cluster::start()?;
        cluster.flow("flow", files);
        fs::create_dir(cluster.project("sub")).unwrap();
        fs::write(cluster.project("sub/a.txt"), "one\n").unwrap();
        cluster.repository();
        let start = ["start", "--place", "git", "--detach"];
        let started = cluster.ran(&[&start, more, &["flow", "--id", "r"]].concat());
        assert!(started.status.success(), "{}", text(&started));
        let repository = cluster.file("moved");
        fs::rename(cluster.file("project"), &repository).unwrap();
        fs::create_dir(cluster.file("project")).unwrap();
        Some(Self { cluster, repository })
    }

    fn git(&self, arguments: &[&str]) -> String {
        git(&self.repository, arguments)
    }

    /// The run completes with this result, and nothing was done where it was started.
    fn completes_with(&self, result: &str) {
        let ran = self.cluster.ran(&["wait", "r"]);
        assert_eq!(String::from_utf8_lossy(&ran.stdout).trim(), result, "{}", text(&ran));
        assert_eq!(fs::read_dir(self.cluster.file("project")).unwrap().count(), 0);
    }
}

#[test]
fn work_moves_with_its_agent_reaches_its_parent_and_is_delivered() {
    let files = [
        ("START.sh", "echo one >made; echo '<fork next=\"ASK\" worktree=\"parser\">WORK</fork>'"),
        (
            "WORK.sh",
            "[ -e made ] && echo two >made2 && git add made2 && git commit -qm own && echo three >left \
             && echo '<result>ok</result>'",
        ),
        ("ASK.sh", "echo '<ask choices=\"yes=NEXT\">Shall I?</ask>'"),
        ("NEXT.sh", "[ -e made ] && [ ! -e left ] && echo '<join>MERGE</join>'"),
        (
            "MERGE.sh",
            "git merge -q raymond/r/main_work1-parser >&2 \
             && echo '<function cd=\"sub\" return=\"END\">SUB</function>'",
        ),
        ("SUB.sh", "[ -e a.txt ] && basename \"$PWD\" >where && echo '<result>sub</result>'"),
        ("END.sh", "echo \"<result>$(cat made made2 left sub/where | tr '\\n' ' ')</result>\""),
    ];
    // What follows the agents also goes from one history to the next.
    let Some(stage) = Stage::new(&files, &["--steps-per-history", "2"]) else { return };
    let cluster = &stage.cluster;
    let mut one = cluster.worker("one");
    wait_until("the worker has ended, and its parent asks", || {
        let run = cluster.show("r");
        let agents = run["agents"].as_array().unwrap();
        agents.len() == 1 && agents[0]["phase"]["asking"].is_object()
    });
    one.kill();
    fs::rename(cluster.file("one"), cluster.file("away")).unwrap();
    let _two = cluster.worker("two");
    let answered = cluster.ran(&["answer", "r", "main.1", "yes"]);
    assert!(answered.status.success(), "{}", text(&answered));
    stage.completes_with("one two three sub");

    let fetch = ["fetch", "r", "--directory", stage.repository.to_str().unwrap()];
    let fetched = cluster.ran(&fetch);
    assert_eq!(
        String::from_utf8_lossy(&fetched.stdout),
        "raymond/r/main  fetched\nraymond/r/main_work1-parser  fetched\n",
        "{}",
        text(&fetched)
    );
    assert_eq!(stage.git(&["show", "raymond/r/main:sub/where"]), "sub");
    let of_worker = stage.git(&["log", "--format=%s", "main..raymond/r/main_work1-parser"]);
    let left = "what it left uncommitted";
    assert_eq!(of_worker, format!("main_work1: {left}\nown\nmain: {left}"));
    assert!(text(&cluster.ran(&fetch)).contains("raymond/r/main  is up to date"));
    let elsewhere = cluster.ran(&["fetch", "r"]);
    assert!(
        text(&elsewhere).contains("hint: use a clone of the repository"),
        "{}",
        text(&elsewhere)
    );
}

/// A step that commits and leaves half of its work, and ends when there is a file `go`.
const HALF: &str = r#"
echo start "$RAYMOND_STATE_FILE" $(ls) >>LOG
echo half >half; git add half; git commit -qm half; echo more >more
while [ ! -e GO ]; do sleep 0.05; done
echo "<result>$(git log --format=%s | tr '\n' ' ')</result>"
"#;

#[test]
fn step_of_a_machine_that_is_gone_starts_from_the_last_stored_commit_elsewhere() {
    let outside = tempfile::tempdir().unwrap();
    let (log, go) = (outside.path().join("log"), outside.path().join("go"));
    let half = HALF.replace("GO", go.to_str().unwrap()).replace("LOG", log.to_str().unwrap());
    let first = "echo 1 >first; git add first; git commit -qm first; echo '<goto>HALF</goto>'";
    let files = [("START.sh", first), ("HALF.sh", &half)];
    let Some(stage) = Stage::new(&files, &["--heartbeat", "6"]) else { return };
    let names = ["one", "two"];
    let mut workers: Vec<Running> = names.iter().map(|name| stage.cluster.worker(name)).collect();
    let starts = || -> Vec<String> {
        let log = fs::read_to_string(&log).unwrap_or_default();
        log.lines().map(str::to_owned).collect()
    };
    wait_until("the step runs", || starts().len() == 1);
    let owner = names.iter().position(|name| starts()[0].contains(&format!("/{name}/"))).unwrap();
    workers[owner].kill();
    kill_all(&stage.cluster.file(names[owner]));
    wait_until("another worker has started it", || starts().len() == 2);
    assert!(!starts()[1].contains(&format!("/{}/", names[owner])), "{:?}", starts());
    assert!(starts().iter().all(|line| line.ends_with(" first flow sub")), "{:?}", starts());
    fs::write(&go, "").unwrap();
    stage.completes_with("half first c");
}

/// Kills everything of a machine.
fn kill_all(data_dir: &Path) {
    for pid in processes(&format!("{}/", data_dir.display())) {
        // Killing a keeper also ends others of them.
        let _ = Command::new("kill").arg("-9").arg(pid.to_string()).output();
    }
}

#[test]
fn place_git_needs_a_clean_repository_with_a_commit() {
    let Some(cluster) = Cluster::start() else { return };
    cluster.flow("flow", &[("START.sh", "echo '<result>x</result>'")]);
    let start = || cluster.ran(&["start", "--place", "git", "--detach", "flow", "--id", "r"]);
    let refused = start();
    assert_eq!(refused.status.code(), Some(1), "{}", text(&refused));
    assert!(text(&refused).contains("or start the run without --place git"), "{}", text(&refused));
    cluster.repository();
    fs::write(cluster.project("flow/START.sh"), "echo '<result>changed</result>'").unwrap();
    assert!(text(&start()).contains("changes that are not committed"), "{}", text(&start()));
}

/// A worker whose checkouts are on a disk of two megabytes, on which the files `fill` are removed as soon as there is a file
/// `free`; `None` if this user may not mount a disk.
fn worker_on_a_small_disk(cluster: &Cluster) -> Option<Running> {
    let unshared = |script: &str| {
        let mut command = Command::new("unshare");
        command.args(["--mount", "bash", "-c", script, "bash"]).arg(cluster.folder.path());
        command
    };
    let mount =
        r#"mkdir -p "$1/one/checkouts" && mount -t tmpfs -o size=2m tmpfs "$1/one/checkouts""#;
    if !unshared(mount).output().is_ok_and(|mounted| mounted.status.success()) {
        eprintln!("skipped: this user may not mount a disk");
        return None;
    }
    let free = r#"(until [ -e "$1/free" ]; do sleep 0.05; done; rm "$1"/one/checkouts/*/*/fill) &"#;
    let work = r#"exec 2>>"$1/one.log"; shift; exec "$@""#;
    let worker = cluster.cluster(&["worker", "--name", "one", "--data-dir", "../one"]);
    let mut command = unshared(&format!("{mount} || exit\n{free}\n{work}"));
    command.arg(worker.get_program()).args(worker.get_args());
    for (name, value) in worker.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command.current_dir(cluster.file("project"));
    Some(Running::of(command.spawn().unwrap()))
}

#[test]
fn step_whose_disk_is_full_is_kept_until_there_is_space_and_not_repeated() {
    let outside = tempfile::tempdir().unwrap();
    let log = outside.path().join("log");
    let work = "echo x >>LOG; echo made >made; cat /dev/zero >fill; echo '<result>done</result>'";
    let work = work.replace("LOG", log.to_str().unwrap());
    let files = [("START.sh", work.as_str()), ("../.gitignore", "fill\n")];
    let Some(stage) = Stage::new(&files, &[]) else { return };
    let cluster = &stage.cluster;
    let Some(_worker) = worker_on_a_small_disk(cluster) else { return };
    wait_until("the work cannot be committed", || {
        cluster.logs().contains("the work of step main/1 is not stored yet")
    });
    fs::write(cluster.file("free"), "").unwrap();
    stage.completes_with("done");
    let fetch = ["fetch", "r", "--directory", stage.repository.to_str().unwrap()];
    assert!(cluster.ran(&fetch).status.success());
    assert_eq!(stage.git(&["show", "raymond/r/main:made"]), "made");
    assert_eq!(fs::read_to_string(log).unwrap(), "x\n", "started once");
}

#[test]
fn worktrees_of_forks_are_made_and_saved_in_the_shared_directory() {
    let Some(cluster) = Cluster::start() else { return };
    let fork = "for i in 1 2 3; do echo '<fork next=\"JOIN\" worktree=\"true\">WORK</fork>'; done";
    let work = "echo \"$RAYMOND_AGENT_ID\" >\"$RAYMOND_AGENT_ID\"; echo '<result>ok</result>'";
    let merge = "for i in 1 2 3; do git merge -q raymond/r/main_work$i >&2 || exit 1; done; \
                 echo \"<result>$(cat main_work* | tr '\\n' ' ')</result>\"";
    cluster.flow(
        "flow",
        &[
            ("START.sh", fork),
            ("JOIN.sh", "echo '<join>END</join>'"),
            ("WORK.sh", work),
            ("END.sh", merge),
        ],
    );
    cluster.repository();
    for (key, value) in [("user.name", "t"), ("user.email", "t@localhost")] {
        git(&cluster.file("project"), &["config", key, value]);
    }
    let _workers = ["one", "two"].map(|name| cluster.worker(name));
    let ran = cluster.ran(&["start", "flow", "--id", "r"]);
    let result = String::from_utf8_lossy(&ran.stdout);
    assert_eq!(result.trim(), "main_work1 main_work2 main_work3", "{}", text(&ran));
    let project = cluster.file("project");
    assert_eq!(git(&project, &["worktree", "list"]).lines().count(), 4);
    assert_eq!(git(&project, &["status", "--porcelain"]), "", "worktrees are ignored");
    let worktrees = &cluster.show("r")["worktrees"];
    let worktree = worktrees["main_work1"]["path"].as_str().unwrap();
    assert!(worktree.ends_with("/project/.raymond/worktrees/r/main_work1"), "{worktrees}");
}
