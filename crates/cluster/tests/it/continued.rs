//! A run whose history is cut again and again while steps, questions and forks are under way.

use std::{collections::BTreeSet, fs};

use crate::env::{Cluster, text, wait_until};

/// Says which step it is, and goes round until it was there sixty times.
const LOOP: &str = r#"
echo "${RAYMOND_STEP##*/}" >>log
if [ "$(grep -c ^main.[0-9] log)" -lt 60 ]; then echo '<goto>LOOP</goto>'; else echo '<join>END</join>'; fi
"#;

/// A step that outlasts many histories.
const LONG: &str = r#"
echo "long ${RAYMOND_STEP##*/}" >>long
while [ ! -e go ]; do sleep 0.05; done
echo '<result>long</result>'
"#;

#[test]
fn cut_histories_repeat_no_step_and_lose_no_answer() {
    let Some(cluster) = Cluster::start() else { return };
    cluster.flow(
        "flow",
        &[
            ("START.sh", "echo '<fork next=\"SECOND\">LONG</fork>'"),
            ("SECOND.sh", "echo '<fork next=\"LOOP\">ASK</fork>'"),
            ("LOOP.sh", LOOP),
            ("LONG.sh", LONG),
            ("ASK.sh", "echo '<ask choices=\"yes=YES|no=NO\">Shall I?</ask>'"),
            ("YES.sh", "echo '<result>yes</result>'"),
            ("NO.sh", "echo '<result>no</result>'"),
            ("END.sh", "echo \"<result>$(grep -o 'yes\\|long' <<<\"$RAYMOND_RESULT\" | sort -u | tr '\\n' ' ')</result>\""),
        ],
    );
    let _workers = ["one", "two"].map(|name| cluster.worker(name));
    let words =
        ["start", "--heartbeat", "20", "--steps-per-history", "5", "--detach", "flow", "--id", "r"];
    let started = cluster.ran(&words);
    assert!(started.status.success(), "{}", text(&started));
    let rounds = || fs::read_to_string(cluster.project("log")).unwrap_or_default();
    wait_until("it has gone round", || rounds().lines().count() >= 20);
    assert!(
        cluster.ran(&["answer", "r", "main_ask1", "yes"]).status.code() == Some(1),
        "no such question"
    );
    let asks = cluster.show("r");
    let asker = asks["agents"]
        .as_array()
        .unwrap()
        .iter()
        .find(|agent| agent["phase"]["asking"].is_object());
    let asker = format!("{}.1", asker.unwrap()["id"].as_str().unwrap());
    let answered = cluster.ran(&["answer", "r", &asker, "yes"]);
    assert!(answered.status.success(), "{}", text(&answered));
    wait_until("it has gone round for the last time", || rounds().lines().count() >= 60);
    fs::write(cluster.project("go"), "").unwrap();
    let ran = cluster.ran(&["wait", "r"]);
    assert_eq!(String::from_utf8_lossy(&ran.stdout).trim(), "long yes", "{}", text(&ran));
    let rounds = rounds();
    let different: BTreeSet<_> = rounds.lines().collect();
    assert_eq!((rounds.lines().count(), different.len()), (60, 60), "a step was repeated");
    let listed = cluster.ran(&["list"]);
    let cuts = String::from_utf8_lossy(&listed.stdout).matches("ContinuedAsNew").count();
    assert!(cuts >= 10, "the history was cut {cuts} times: {}", text(&listed));
    let long = fs::read_to_string(cluster.project("long")).unwrap();
    assert_eq!(long.lines().count(), 1, "{long}");
}
