//! Nothing of a run's texts is readable in Temporal's database or in the store, if there is a key.

use std::fs;

use crate::env::{Cluster, text, wait_until};

const SECRET: &str = "the-word-that-nobody-may-read";

/// Whether the files of Temporal's database contain the secret, and whether the store does.
fn leaks(cluster: &Cluster) -> (bool, bool) {
    let has = |path: std::path::PathBuf| {
        let bytes = fs::read(path).unwrap_or_default();
        bytes.windows(SECRET.len()).any(|part| part == SECRET.as_bytes())
    };
    let database = ["temporal.db", "temporal.db-wal"].map(|name| cluster.file(name));
    let store = fs::read_dir(cluster.file("store")).unwrap().map(|entry| entry.unwrap().path());
    (database.into_iter().any(has), store.into_iter().any(has))
}

#[test]
fn with_a_key_histories_and_store_are_unreadable_and_those_without_it_are_told() {
    let Some(mut cluster) = Cluster::with_server(false) else { return };
    // A result for the history, one for the store, and a state in the middle for those who look.
    cluster.flow(
        "flow",
        &[
            ("START.sh", "echo \"<call return=\\\"BACK\\\">SMALL</call>\""),
            ("SMALL.sh", "echo \"<result>$RAYMOND_VAR_word</result>\""),
            ("BACK.sh", "echo '<call return=\"END\">LARGE</call>'"),
            ("LARGE.sh", "echo \"<result>$(yes \"$RAYMOND_VAR_word\" | head -n 4000)</result>\""),
            ("END.sh", "echo '<ask next=\"LATER\">Shall I?</ask>'"),
            ("LATER.sh", "echo \"<result>$RAYMOND_VAR_word</result>\""),
        ],
    );
    let word = format!("word={SECRET}");
    let is_asking = |cluster: &Cluster| {
        String::from_utf8_lossy(&cluster.ran(&["show", "r"]).stdout).contains("\"asking\"")
    };
    let (old, new) = ("1".repeat(64), "2".repeat(64));
    let key = |cluster: &mut Cluster, name: &str, keys: String| {
        fs::write(cluster.file(name), keys).unwrap();
        cluster.variables =
            vec![("RAYMOND_CLUSTER_KEY_FILE", cluster.file(name).display().to_string())];
    };
    key(&mut cluster, "old", old.clone());
    let mut worker = cluster.worker("one");
    let started = cluster.ran(&["start", "--detach", "flow", "--id", "r", "--var", &word]);
    assert!(started.status.success(), "{}", text(&started));
    wait_until("it asks", || is_asking(&cluster));
    assert_eq!(leaks(&cluster), (false, false));
    let checked = cluster.ran(&["check", "r"]);
    assert_eq!(String::from_utf8_lossy(&checked.stdout), "r  fits\n", "{}", text(&checked));

    // Without the key, and with another one.
    let data_dir = cluster.file("two").display().to_string();
    let without = [
        &["show", "r"][..],
        &["stop", "r"],
        &["start", "flow"],
        &["worker", "--data-dir", &data_dir],
    ];
    for keys in [None, Some(new.clone())] {
        cluster.variables.clear();
        if let Some(keys) = keys {
            key(&mut cluster, "other", keys);
        }
        for words in without {
            let refused = cluster.ran(words);
            assert_eq!(refused.status.code(), Some(1), "{words:?}: {}", text(&refused));
            let hint = "name the key file of the cluster: --key-file";
            assert!(text(&refused).contains(hint), "{words:?}: {}", text(&refused));
        }
    }
    assert_eq!(leaks(&cluster), (false, false));

    // The key is replaced: the old one still opens what it has sealed.
    worker.kill();
    key(&mut cluster, "new", format!("{new}\n{old}\n"));
    let _worker = cluster.worker("one");
    let answered = cluster.ran(&["answer", "r", "main.1", "yes"]);
    assert!(answered.status.success(), "{}", text(&answered));
    let ran = cluster.ran(&["wait", "r"]);
    assert_eq!(String::from_utf8_lossy(&ran.stdout).trim(), SECRET, "{}", text(&ran));
    assert_eq!(leaks(&cluster), (false, false));
}

#[test]
fn without_a_key_the_same_run_is_readable() {
    let Some(cluster) = Cluster::with_server(false) else { return };
    cluster
        .flow("flow", &[("START.sh", "echo \"<result>$(yes \"$word\" | head -n 4000)</result>\"")]);
    let _worker = cluster.worker("one");
    let word = format!("word={SECRET}");
    let ran = cluster.ran(&["start", "flow", "--id", "r", "--var", &word]);
    assert!(ran.status.success(), "{}", text(&ran));
    assert_eq!(leaks(&cluster), (true, true), "else the other test proves nothing");
}
