//! Programs of different versions: runs that go on under a worker that decides differently, and the recorder of the
//! histories that each version must be able to replay.

use std::{fs, path::Path};

use crate::{
    differential::{AGENT, CASES},
    env::{Cluster, git, text, wait_until},
};

const START: &str = "echo start >>log; echo '<goto>ASK</goto>'";
const ASK: &str = "echo '<ask choices=\"yes=YES|no=NO\">Shall I?</ask>'";
const YES: &str = "echo '<result>yes</result>'";

/// Whether the history of a run says that a worker could not replay it.
pub(crate) fn is_held_up(cluster: &Cluster, id: &str) -> bool {
    let history = cluster.ran(&["history", id]);
    assert!(history.status.success(), "{}", text(&history));
    String::from_utf8_lossy(&history.stdout).to_lowercase().contains("workflowtaskfailed")
}

fn is_asking(cluster: &Cluster) -> bool {
    let shown = cluster.ran(&["show", "r"]);
    shown.status.success() && String::from_utf8_lossy(&shown.stdout).contains("\"asking\"")
}

#[test]
fn worker_that_decides_differently_holds_a_run_up_and_loses_nothing_of_it() {
    let Some(cluster) = Cluster::start() else { return };
    // A bundle in which START leads to another state stands for a program that decides differently.
    cluster.flow("other", &[("START.sh", "echo '<result>other</result>'")]);
    cluster.flow("flow", &[("START.sh", START), ("ASK.sh", ASK), ("YES.sh", YES), ("NO.sh", YES)]);
    let mut one = cluster.worker("one");
    let bundles = || -> Vec<_> {
        let entries = fs::read_dir(cluster.file("one/bundles")).unwrap();
        entries.map(|entry| entry.unwrap().path()).collect()
    };
    let other = cluster.ran(&["start", "other"]);
    assert!(other.status.success(), "{}", text(&other));
    let [other] = &*bundles() else { panic!("{:?}", bundles()) };
    let started = cluster.ran(&["start", "--detach", "flow", "--id", "r"]);
    assert!(started.status.success(), "{}", text(&started));
    wait_until("it asks", || is_asking(&cluster));
    let own = bundles().into_iter().find(|path| path != other).unwrap();
    one.kill();

    fs::create_dir_all(cluster.file("two/bundles")).unwrap();
    fs::copy(other, cluster.file("two/bundles").join(own.file_name().unwrap())).unwrap();
    let mut two = cluster.worker("two");
    assert!(!is_held_up(&cluster, "r"));
    assert!(cluster.ran(&["stop", "r"]).status.success());
    wait_until("the worker fails to replay it", || is_held_up(&cluster, "r"));
    two.kill();

    // The program that decides as the history says goes on where the run was.
    let checked = cluster.ran(&["check"]);
    assert_eq!(String::from_utf8_lossy(&checked.stdout), "r  fits\n", "{}", text(&checked));
    let mut one = cluster.worker("one");
    assert_eq!(cluster.ran(&["wait", "r"]).status.code(), Some(4), "it is paused");
    one.kill();

    // A run that rests changes over to the workers of another queue.
    let _three = cluster.worker_with(cluster.port, "three", &["--queue", "new"]);
    let resumed = cluster.ran(&["resume", "--queue", "new", "r", "--detach"]);
    assert!(resumed.status.success(), "{}", text(&resumed));
    wait_until("it asks again", || is_asking(&cluster));
    let answered = cluster.ran(&["answer", "r", "main.1", "yes"]);
    assert!(answered.status.success(), "{}", text(&answered));
    let ran = cluster.ran(&["wait", "r"]);
    assert_eq!(String::from_utf8_lossy(&ran.stdout), "yes\n", "{}", text(&ran));
    assert_eq!(fs::read_to_string(cluster.project("log")).unwrap(), "start\n");
}

/// The cases of the differential test that are recorded, and after how many steps their histories are continued: the last
/// history of a continued run begins in its middle. After a dot is what later programs have added.
const RECORDED: [(&str, &str); 15] = [
    ("goto", "1000"),
    ("reset", "1000"),
    ("call", "1000"),
    ("function", "2"),
    ("fork-join", "1000"),
    ("directory", "1000"),
    ("reminder", "1000"),
    ("evaluator-match", "1000"),
    ("visits", "2"),
    ("retry", "1000"),
    ("default-answer", "1000"),
    ("budget", "1000"),
    ("homes", "1000"),
    ("homes.continued", "3"),
    ("fork-join.checkouts", "2"),
];
/// The recording of a run whose agents have checkouts.
const CHECKOUTS: &str = "fork-join.checkouts";

/// Records the history of each case that has no recording yet. The recordings are never edited.
#[test]
#[ignore = "writes tests/fixtures/histories"]
fn record_histories() {
    let Some(cluster) = Cluster::start() else { return };
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/histories");
    fs::create_dir_all(&folder).unwrap();
    fs::write(cluster.file("agent.sh"), AGENT).unwrap();
    let _workers = ["one", "two"].map(|name| cluster.worker(name));
    for (recorded, steps) in RECORDED {
        let path = folder.join(format!("{recorded}.json"));
        let name = recorded.split('.').next().unwrap();
        let case = CASES.iter().find(|case| case.name == name).unwrap();
        if path.exists() {
            continue;
        }
        cluster.flow(name, case.files);
        let directory = cluster.project(&format!("at-{recorded}"));
        fs::create_dir_all(&directory).unwrap();
        let place = if recorded == CHECKOUTS { "git" } else { "shared" };
        if place == "git" {
            git(&directory, &["init", "--quiet"]);
            git(&directory, &["commit", "--quiet", "--allow-empty", "-m", "c"]);
        }
        let (flow, id) = (format!("../{name}"), recorded.replace('.', "-"));
        let options = ["--place", place, "--steps-per-history", steps];
        let mut start =
            cluster.cluster(&[&["start"], &options[..], &[&flow, "--id", &id]].concat());
        start
            .args(["--ask", "default"])
            .args(case.options)
            .current_dir(directory)
            .output()
            .unwrap();
        let history = cluster.ran(&["history", &id]);
        assert!(history.status.success(), "{}", text(&history));
        fs::write(path, history.stdout).unwrap();
    }
    for worker in ["one/bundles", "two/bundles"] {
        for entry in fs::read_dir(cluster.file(worker)).unwrap() {
            let entry = entry.unwrap();
            fs::copy(entry.path(), folder.join(entry.file_name())).unwrap();
        }
    }
}
