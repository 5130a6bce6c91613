//! Runs whose store is a real S3 server, which is killed, started again, and has damaged objects.

use std::{
    fs,
    io::{Read as _, Write as _},
    net::{TcpListener, TcpStream},
    path::PathBuf,
    process::Command,
};

use serde_json::Value;
use tempfile::TempDir;

use crate::{
    env::{Cluster, Running, target, text, wait_until},
    faults::signal,
    upgrade::is_held_up,
};

/// The server's version: the same as in `scripts/install-programs`.
const SEAWEEDFS: &str = "seaweedfs-4.48";
const IDENTITIES: &str = r#"{"identities": [{"name": "raymond", "actions": ["Admin", "Read", "Write", "List"],
    "credentials": [{"accessKey": "raymond", "secretKey": "secret"}]}]}"#;
/// Where the objects of the store are for `SeaweedFS`'s own interface, which needs no signature.
const OBJECTS: &str = "/buckets/bucket/runs/";

/// An S3 server with a bucket.
struct S3 {
    program: PathBuf,
    server: Option<Running>,
    folder: TempDir,
    /// Master, volume, filer and S3, each with a second one for gRPC.
    ports: [u16; 8],
}

impl S3 {
    /// `None` if it is not installed.
    fn start() -> Option<Self> {
        let program = target().join(SEAWEEDFS);
        if !program.exists() {
            let is_required = std::env::var_os("RAYMOND_TEST_S3_REQUIRED").is_some();
            assert!(!is_required, "{} is missing", program.display());
            eprintln!("skipped: run scripts/install-programs seaweedfs");
            return None;
        }
        // All are open at once, so that they are different.
        let listeners = [(); 8].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
        let ports = listeners.map(|listener| listener.local_addr().unwrap().port());
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("identities.json"), IDENTITIES).unwrap();
        let mut server = Self { program, server: None, folder, ports };
        server.start_server();
        Some(server)
    }

    fn start_server(&mut self) {
        let folder = self.folder.path();
        let mut command = Command::new(&self.program);
        command.args(["server", "-ip=127.0.0.1", "-ip.bind=127.0.0.1", "-filer", "-s3"]);
        command.args(["-volume.max=8", "-s3.port.iceberg=0", "-s3.port.lance=0"]);
        command.arg(format!("-dir={}", folder.display()));
        command.arg(format!("-s3.config={}", folder.join("identities.json").display()));
        let names = ["master", "volume", "filer", "s3"];
        for (name, ports) in names.iter().zip(self.ports.chunks(2)) {
            command.arg(format!("-{name}.port={}", ports[0]));
            command.arg(format!("-{name}.port.grpc={}", ports[1]));
        }
        self.server = Some(Running::start(command.current_dir(folder)));
        let [.., port, _] = self.ports;
        wait_until("the S3 server answers", || {
            http(port, "GET", "/status", b"").is_some_and(|answer| answer.is_ok)
        });
        wait_until("the S3 server takes objects", || {
            self.filer("PUT", "/buckets/bucket/ready", b"1").is_some_and(|answer| answer.is_ok)
        });
    }

    fn kill(&mut self) {
        self.server = None;
    }

    fn filer(&self, method: &str, path: &str, body: &[u8]) -> Option<Answer> {
        http(self.ports[4], method, path, body)
    }

    /// The path and the bytes of the only object over 64 KB.
    fn large(&self) -> (String, Vec<u8>) {
        let listed = self.filer("GET", &format!("{OBJECTS}?limit=1000"), b"").unwrap();
        let listed: Value = serde_json::from_slice(&listed.body).unwrap();
        let entries = listed["Entries"].as_array().unwrap().iter();
        let large = entries.filter(|entry| entry["FileSize"].as_u64().unwrap() > 64 * 1024);
        let paths: Vec<_> = large.map(|entry| entry["FullPath"].as_str().unwrap()).collect();
        let [path] = &paths[..] else { panic!("{paths:?}") };
        ((*path).to_owned(), self.filer("GET", path, b"").unwrap().body)
    }

    fn use_in(&self, cluster: &mut Cluster) {
        let [.., port, _] = self.ports;
        "s3://bucket/runs".clone_into(&mut cluster.store);
        cluster.variables = vec![
            ("AWS_ACCESS_KEY_ID", "raymond".to_owned()),
            ("AWS_SECRET_ACCESS_KEY", "secret".to_owned()),
            ("AWS_ENDPOINT_URL", format!("http://127.0.0.1:{port}")),
            ("AWS_ALLOW_HTTP", "true".to_owned()),
        ];
    }
}

struct Answer {
    is_ok: bool,
    body: Vec<u8>,
}

/// A request without a signature; `None` if nobody answers.
fn http(port: u16, method: &str, path: &str, body: &[u8]) -> Option<Answer> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    let length = body.len();
    let head = format!(
        "{method} {path} HTTP/1.0\r\nAccept: application/json\r\nContent-Length: {length}\r\n\r\n"
    );
    stream.write_all(&[head.as_bytes(), body].concat()).ok()?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).ok()?;
    let end = answer.windows(4).position(|four| four == b"\r\n\r\n")?;
    let is_ok = answer.split(|byte| *byte == b' ').nth(1)?.starts_with(b"2");
    Some(Answer { is_ok, body: answer.split_off(end + 4) })
}

/// A step whose result is too large for a history, and which ends when there is a file `go`.
const LARGE: &str = r#"
echo start >>log
while [ ! -e go ]; do sleep 0.05; done
echo "<result>$(head -c 200000 /dev/zero | tr '\0' x)</result>"
"#;

#[test]
fn run_on_an_s3_store_waits_while_the_store_is_down_and_repeats_nothing() {
    let (Some(mut s3), Some(mut cluster)) = (S3::start(), Cluster::start()) else { return };
    s3.use_in(&mut cluster);
    cluster.flow(
        "flow",
        &[
            ("START.sh", "echo '<call return=\"BACK\">LARGE</call>'"),
            ("LARGE.sh", LARGE),
            ("BACK.sh", "echo \"<result>$(wc -c <\"$RAYMOND_RESULT_FILE\")</result>\""),
        ],
    );
    cluster.flow("other", &[("START.sh", "echo '<result>other</result>'")]);
    let workers = ["one", "two"].map(|name| cluster.worker(name));
    let started = cluster.ran(&["start", "--heartbeat", "6", "--detach", "flow", "--id", "r"]);
    assert!(started.status.success(), "{}", text(&started));
    let starts = || fs::read_to_string(cluster.project("log")).unwrap_or_default();
    wait_until("the step runs", || !starts().is_empty());

    // The end of a step cannot be stored.
    s3.kill();
    fs::write(cluster.project("go"), "").unwrap();
    wait_until("the worker says so", || cluster.logs().contains("not delivered yet"));
    // What must not happen takes time: the heartbeat timeout.
    std::thread::sleep(std::time::Duration::from_secs(7));
    let refused = cluster.ran(&["start", "other"]);
    assert!(text(&refused).contains("is the store up?"), "{}", text(&refused));
    s3.start_server();
    let ran = cluster.ran(&["wait", "r"]);
    assert_eq!(String::from_utf8_lossy(&ran.stdout), "200000\n", "{}", text(&ran));
    assert_eq!(starts(), "start\n");

    // No worker has the bundle yet.
    for worker in &workers {
        signal("-STOP", worker.pid());
    }
    assert!(cluster.ran(&["start", "--detach", "other", "--id", "o"]).status.success());
    s3.kill();
    for worker in &workers {
        signal("-CONT", worker.pid());
    }
    wait_until("no worker can fetch the bundle", || is_held_up(&cluster, "o"));
    s3.start_server();
    let ran = cluster.ran(&["wait", "o"]);
    assert_eq!(String::from_utf8_lossy(&ran.stdout), "other\n", "{}", text(&ran));
}

#[test]
fn damaged_object_holds_a_run_up_until_it_is_repaired_and_wrong_credentials_say_what_to_check() {
    let (Some(s3), Some(mut cluster)) = (S3::start(), Cluster::start()) else { return };
    s3.use_in(&mut cluster);
    cluster.flow("flow", &[("START.sh", "echo \"<result>${#RAYMOND_INPUT}</result>\"")]);
    let input = "x".repeat(70_000);
    let words = ["start", "--detach", "flow", "--id", "r", "--input", &input];
    let started = cluster.ran(&words);
    assert!(started.status.success(), "{}", text(&started));
    let (path, bytes) = s3.large();
    let damaged = vec![b'?'; bytes.len()];
    assert!(s3.filer("PUT", &path, &damaged).unwrap().is_ok);
    let _worker = cluster.worker("one");
    wait_until("the worker notices it", || is_held_up(&cluster, "r"));
    let history = text(&cluster.ran(&["history", "r"]));
    assert!(history.contains("of the store is damaged"), "{history}");
    assert!(s3.filer("PUT", &path, &bytes).unwrap().is_ok);
    let ran = cluster.ran(&["wait", "r"]);
    assert_eq!(String::from_utf8_lossy(&ran.stdout), "70000\n", "{}", text(&ran));

    cluster.variables.push(("AWS_SECRET_ACCESS_KEY", "wrong".to_owned()));
    let data_dir = cluster.file("two").display().to_string();
    for words in [&["worker", "--data-dir", &data_dir][..], &["start", "flow"]] {
        let refused = cluster.ran(words);
        assert_eq!(refused.status.code(), Some(1), "{}", text(&refused));
        assert!(text(&refused).contains("check AWS_ACCESS_KEY_ID"), "{}", text(&refused));
    }
}
