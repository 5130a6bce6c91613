//! Runs of the cluster in the eyes of the local program: it knows nothing of clusters, so everything here is its commands
//! and its server.

use std::{
    fs,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpStream,
    process::{Output, Stdio},
};

use serde_json::Value;

use crate::{
    differential::{AGENT, essence},
    env::{Cluster, Running, text, wait_until},
};

/// Asks, with a subtask in a folder and a worker; then goes on when there is a file `go`.
const FLOW: &[(&str, &str)] = &[
    ("START.md", "say: <call return=\"BACK\">review/</call>"),
    ("review/START.sh", "echo looked at >&2; echo '<result>reviewed</result>'"),
    ("BACK.sh", "echo '<fork next=\"ASK\" item=\"a\">WORK</fork>'"),
    ("WORK.sh", "echo \"<result>worker $item</result>\""),
    (
        "ASK.sh",
        "echo shown >plan; echo '<ask choices=\"yes=YES|no=NO\" attach=\"plan\">Shall I?</ask>'",
    ),
    (
        "YES.sh",
        "cd \"$RAYMOND_FILES\"; { echo \"$RAYMOND_COMMENT\"; cat *; [[ $PWD == */workflows/r/answers/* ]] && echo sent; } >$OLDPWD/said; echo '<goto>WAIT</goto>'",
    ),
    ("NO.sh", "echo '<result>no</result>'"),
    ("WAIT.sh", "while [ ! -e go ]; do sleep 0.05; done; echo '<join>END</join>'"),
    ("END.sh", "echo \"<result>with $(grep -o 'worker a' <<<\"$RAYMOND_RESULT\")</result>\""),
];

/// Goes round twenty times, asks, and ends.
const YAML: &str = r#"
states:
  START:
    sh: |
      echo x >>rounds
      if [ "$(wc -l <rounds)" -lt 20 ]; then echo '<goto>START</goto>'; else echo '<call return="END">sub/</call>'; fi
  sub/:
    START:
      sh: echo '<ask next="SAID">What?</ask>'
    SAID:
      sh: echo "<result>$RAYMOND_RESULT</result>"
  END:
    sh: echo "<result>it was $RAYMOND_RESULT</result>"
"#;

/// A cluster with two workers, and what the local program says about its runs.
struct Stage {
    cluster: Cluster,
    _workers: [Running; 2],
}

impl Stage {
    fn new() -> Option<Self> {
        let cluster = Cluster::start()?;
        fs::write(cluster.file("agent.sh"), AGENT).unwrap();
        fs::create_dir(cluster.project(".raymond")).unwrap();
        let workers = ["one", "two"].map(|name| cluster.worker(name));
        Some(Self { cluster, _workers: workers })
    }

    /// A command of the cluster in the background. What it says goes to the log of the test.
    fn spawn(&self, words: &[&str]) -> Running {
        let mut command = self.cluster.cluster(words);
        Running::of(command.stdout(Stdio::null()).spawn().unwrap())
    }

    fn local(&self, words: &[&str]) -> Output {
        self.cluster.local(words).output().unwrap()
    }

    /// What a command of the local program prints.
    #[track_caller]
    fn says(&self, words: &[&str]) -> String {
        let output = self.local(words);
        assert!(output.status.success(), "{words:?}: {}", text(&output));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    fn status(&self, run: &str) -> Value {
        serde_json::from_str(&self.says(&["status", run, "--json"])).unwrap()
    }

    fn wait_for_question(&self, run: &str) {
        wait_until("the question is shown", || {
            let asks = self.local(&["asks", run, "--json"]);
            asks.status.success() && String::from_utf8_lossy(&asks.stdout).contains("\"text\"")
        });
    }

    /// The lines of a mirror's journal.
    fn journal(&self, folder: &str, run: &str) -> Vec<Value> {
        let path = self.cluster.project(&format!("{folder}/workflows/{run}.journal"));
        let text = fs::read_to_string(path).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// The mirror of a run that rests or is over is the run of the cluster.
    #[track_caller]
    fn is_the_same_in_the_mirror(&self, run: &str) {
        let path = self.cluster.project(&format!(".raymond/workflows/{run}.json"));
        let here: Value = serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
        assert_eq!(essence(here), essence(self.cluster.show(run)));
    }
}

/// The records of a journal without what differs between two mirrors: the path of the workflow's copy.
fn records(lines: Vec<Value>) -> Vec<(Value, Value)> {
    let plain = |mut line: Value| {
        if let Some(started) = line["records"][0].get_mut("started") {
            started["scope_dir"] = Value::Null;
        }
        (line["at"].take(), line["records"].take())
    };
    lines.into_iter().map(plain).collect()
}

/// Asks the server of the local program.
fn get(address: &str, token: &str, path: &str) -> Value {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(
        stream,
        "GET {path} HTTP/1.1\r\nConnection: close\r\nHost: {address}\r\nAuthorization: Bearer {token}\r\n\r\n"
    )
    .unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let body = text.split_once("\r\n\r\n").map_or("", |(_, body)| body);
    serde_json::from_str(body).unwrap_or_else(|error| panic!("{path}: {error}: {text}"))
}

/// The run `r` as pages show it, while it asks.
fn is_on_the_pages(stage: &Stage) {
    let mut command = stage.cluster.local(&["serve", "--port", "0"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let _server = Running::of(child);
    let address = line.trim().trim_start_matches("http://").trim_end_matches('/').to_owned();
    let token = fs::read_to_string(stage.cluster.file(".state/raymond/serve.token")).unwrap();
    let get = |path: &str| get(&address, token.trim(), path);
    let rows = get("/api/runs");
    let row = &rows["runs"][0];
    assert_eq!(
        (row["run"].as_str(), row["status"].as_str()),
        (Some("r"), Some("running")),
        "{rows}"
    );
    assert_eq!(row["name"], "flow", "{rows}");
    let run = format!("/api/runs/{}/r", row["project"].as_str().unwrap());
    let graph = get(&format!("{run}/graph"));
    let names: Vec<_> = graph["nodes"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|node| node["name"].as_str())
        .collect();
    assert!(names.iter().any(|name| name.contains("review/START")), "{graph}");
    let transcript = get(&format!("{run}/steps/main.2/transcript")).to_string();
    assert!(transcript.contains("looked at"), "{transcript}");
    let asks = get("/api/asks").to_string();
    assert!(asks.contains("Shall I?") && asks.contains("1_plan"), "{asks}");
}

#[test]
fn local_program_shows_and_changes_a_run_of_the_cluster() {
    let Some(stage) = Stage::new() else { return };
    for (name, text) in FLOW {
        let path = stage.cluster.project("flow").join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let mut mirror = stage.spawn(&["start", "flow", "--id", "r"]);
    stage.wait_for_question("r");
    assert_eq!(stage.status("r")["status"], "running");
    let log = stage.says(&["log", "r", "--all"]);
    assert!(log.contains("review/START") && log.contains("WORK"), "{log}");
    let shown = stage.says(&["show", "r", "main.1"]);
    assert!(shown.contains("say: <call") && shown.contains("review/</call>"), "{shown}");
    assert!(stage.says(&["show", "r", "main.2"]).contains("looked at"));
    let steps = fs::read_dir(stage.cluster.project(".raymond/workflows/r/steps")).unwrap();
    let shown: Vec<_> = steps.map(|step| step.unwrap().path().join("shown/plan")).collect();
    assert_eq!(shown.iter().filter(|path| path.exists()).count(), 1, "{shown:?}");
    // The workflow as it was started, whatever became of its files.
    fs::remove_dir_all(stage.cluster.project("flow")).unwrap();
    let diagram = stage.says(&["diagram", "--run", "r"]);
    assert!(diagram.contains("review#47;START") && diagram.contains("1×"), "{diagram}");
    is_on_the_pages(&stage);

    // Without its mirror, nothing here continues the run, and nothing that was said is lost.
    mirror.kill();
    fs::write(stage.cluster.file("photo"), "a photo\n").unwrap();
    let photo = stage.cluster.file("photo");
    let answer = ["answer", "r", "yes", "--text", "gladly", "--file", photo.to_str().unwrap()];
    let answered = stage.local(&answer);
    assert!(
        text(&answered).contains(
            "hint: see and change it here again: raymond cluster mirror r --temporal 127.0.0.1:"
        ),
        "{}",
        text(&answered)
    );
    for words in [["resume", "r"], ["stop", "r"]] {
        let refused = stage.local(&words);
        assert_eq!(refused.status.code(), Some(1), "{}", text(&refused));
        assert!(text(&refused).contains("is carried out by a cluster"), "{}", text(&refused));
    }
    let mirror = stage.spawn(&["mirror", "r"]);
    let said = || fs::read_to_string(stage.cluster.project("said")).unwrap_or_default();
    wait_until("the answer has led on", || said() == "gladly\na photo\nsent\n");
    assert_eq!(stage.says(&["asks", "r"]), "");

    // What is confirmed is seen.
    stage.says(&["limit", "r", "--budget", "7"]);
    let status = stage.status("r");
    assert_eq!(status["budget_usd"].as_f64(), Some(7.0), "{status}");
    stage.says(&["stop", "r", "--now"]);
    wait_until("the run rests", || stage.status("r")["status"] == "paused");
    drop(mirror);
    stage.is_the_same_in_the_mirror("r");
    let refused = stage.local(&["resume", "r"]);
    assert!(text(&refused).contains("raymond cluster resume r"), "{}", text(&refused));
    fs::write(stage.cluster.project("go"), "").unwrap();
    let resumed = stage.cluster.ran(&["resume", "r"]);
    assert_eq!(String::from_utf8_lossy(&resumed.stdout), "with worker a\n", "{}", text(&resumed));
    assert_eq!(stage.status("r")["status"], "completed");
    stage.is_the_same_in_the_mirror("r");

    fs::remove_file(stage.cluster.project("go")).unwrap();
    cancelled_from_here(&stage);
    begun_after_the_end(&stage);
}

/// A run that is cancelled by the local program.
fn cancelled_from_here(stage: &Stage) {
    stage.cluster.flow("long", &[("START.sh", FLOW[7].1)]);
    let _mirror = stage.spawn(&["start", "--heartbeat", "6", "long", "--id", "c"]);
    wait_until("the run is mirrored", || stage.local(&["status", "c"]).status.success());
    let cancelled = stage.local(&["cancel", "c", "--yes"]);
    assert!(cancelled.status.success(), "{}", text(&cancelled));
    assert_eq!(stage.status("c")["status"], "cancelled");
    let ran = stage.cluster.ran(&["wait", "c"]);
    assert!(text(&ran).contains("run c is cancelled"), "{}", text(&ran));
}

/// A mirror without workers, of a run that was resumed and is over, has the same records as those that were there all
/// the time.
fn begun_after_the_end(stage: &Stage) {
    let mirrored = stage.cluster.ran(&["mirror", "--data-dir", "later", "r"]);
    assert!(mirrored.status.success(), "{}", text(&mirrored));
    let (live, later) = (stage.journal(".raymond", "r"), stage.journal("later", "r"));
    assert_eq!(records(later), records(live));
    assert!(stage.says(&["show", "r", "main.1", "--data-dir", "later"]).contains("say: <call"));
}

#[test]
fn mirror_that_is_killed_again_and_again_has_every_record_of_cut_histories_once() {
    let Some(stage) = Stage::new() else { return };
    fs::write(stage.cluster.project("flow.yaml"), YAML).unwrap();
    let words = ["start", "--steps-per-history", "4", "--detach", "flow.yaml", "--id", "r"];
    let started = stage.cluster.ran(&words);
    assert!(started.status.success(), "{}", text(&started));
    let lines = || {
        let path = stage.cluster.project(".raymond/workflows/r.journal");
        fs::read_to_string(path).unwrap_or_default().lines().count()
    };
    for _ in 0..4 {
        let before = lines();
        let mut mirror = stage.spawn(&["mirror", "r"]);
        wait_until("the mirror goes on", || lines() > before || is_asked(&stage));
        mirror.kill();
    }
    let mirror = stage.spawn(&["mirror", "r"]);
    stage.wait_for_question("r");
    let second = stage.cluster.ran(&["mirror", "r"]);
    assert!(text(&second).contains("already running (process "), "{}", text(&second));
    stage.says(&["answer", "r", "--text", "well"]);
    let ran = stage.cluster.ran(&["wait", "r"]);
    assert_eq!(String::from_utf8_lossy(&ran.stdout), "it was well\n", "{}", text(&ran));
    wait_until("the mirror has all", || stage.status("r")["status"] == "completed");
    drop(mirror);
    stage.is_the_same_in_the_mirror("r");
    assert!(stage.says(&["diagram", "--run", "r"]).contains("sub#47;START"));
    // One that never was killed, and one machine that never was a cluster.
    begun_after_the_end_is_the_same(&stage);
    let there = without_cuts(kinds(&stage.journal(".raymond", "r")));
    assert_eq!(there, kinds(&local_journal(&stage)));
}

fn is_asked(stage: &Stage) -> bool {
    let shown = stage.cluster.show("r");
    shown["agents"][0]["phase"]["asking"].is_object()
}

fn begun_after_the_end_is_the_same(stage: &Stage) {
    let mirrored = stage.cluster.ran(&["mirror", "--data-dir", "later", "r"]);
    assert!(mirrored.status.success(), "{}", text(&mirrored));
    let (live, later) = (stage.journal(".raymond", "r"), stage.journal("later", "r"));
    assert_eq!(records(later), records(live));
}

/// The journal of the same workflow on one machine.
fn local_journal(stage: &Stage) -> Vec<Value> {
    fs::remove_file(stage.cluster.project("rounds")).unwrap();
    let mut command = stage.cluster.local(&["start", "flow.yaml", "--id", "here", "--detach"]);
    assert!(command.output().unwrap().status.success());
    stage.wait_for_question("here");
    stage.says(&["answer", "here", "--text", "well"]);
    wait_until("it has ended", || stage.status("here")["status"] == "completed");
    stage.journal(".raymond", "here")
}

/// Without the steps that no worker had begun when a history was cut.
fn without_cuts(lines: Vec<Vec<String>>) -> Vec<Vec<String>> {
    let mut kept: Vec<Vec<String>> = Vec::new();
    for line in lines {
        if line == ["ended", "retried"] {
            assert_eq!(kept.pop().unwrap(), ["intended"]);
        } else {
            kept.push(line);
        }
    }
    kept
}

/// The kinds of the records of each decision.
pub(crate) fn kinds(lines: &[Value]) -> Vec<Vec<String>> {
    let kind = |record: &Value| match record {
        Value::Object(fields) => fields.keys().cloned().collect::<Vec<_>>().join(" "),
        other => other.to_string(),
    };
    lines
        .iter()
        .map(|line| line["records"].as_array().unwrap().iter().map(kind).collect())
        .collect()
}
