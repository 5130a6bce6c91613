//! A cluster for one test: a namespace of a server, a store, a project directory that all workers see.
//!
//! All tests of a process share one server. Those that kill it, read its database or measure it have one of their own.

use std::{
    fs,
    net::{TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    sync::{
        LazyLock,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use serde_json::Value;
use tempfile::TempDir;

/// The server's version: the same as in `scripts/install-programs`.
const TEMPORAL: &str = "temporal-1.9.1";
/// The directory of the local program of the same profile.
const PROFILE: &str = if cfg!(debug_assertions) { "debug" } else { "release" };
/// How long anything may take on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_mins(2);

/// How many tests can have a namespace of the shared server: it makes them when it starts, which takes milliseconds.
/// One that is made later cannot be used at once.
const NAMESPACES: usize = 64;

/// The port of the shared server, and how many namespaces are taken.
static SHARED: LazyLock<(u16, AtomicUsize)> = LazyLock::new(|| {
    let port = free_port();
    let mut command = Command::new("sh");
    // Statics are not dropped. The server ends with this process, because then the shell's input does.
    command.args(["-c", "\"$@\" & read -r _; kill $!", "sh"]).arg(target().join(TEMPORAL));
    serve(&mut command, port);
    for number in 0..NAMESPACES {
        command.arg("--namespace").arg(namespace(number));
    }
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    std::mem::forget(command.spawn().unwrap());
    (port, AtomicUsize::new(0))
});

fn namespace(number: usize) -> String {
    format!("test-{number}")
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

fn serve(command: &mut Command, port: u16) {
    command.args(["server", "start-dev", "--headless", "--log-level", "error", "--port"]);
    command.arg(port.to_string());
}

/// A process that ends with the test.
pub(crate) struct Running(Child);

impl Running {
    pub(crate) fn of(child: Child) -> Self {
        Self(child)
    }

    /// Starts a server that says nothing.
    pub(crate) fn start(command: &mut Command) -> Self {
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Self(command.spawn().unwrap())
    }

    pub(crate) fn pid(&self) -> i32 {
        i32::try_from(self.0.id()).unwrap()
    }

    /// Kills it at once.
    pub(crate) fn kill(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A cluster without workers.
pub(crate) struct Cluster {
    /// Where the server listens.
    pub(crate) port: u16,
    namespace: String,
    /// If it is not the shared one, and runs.
    server: Option<Running>,
    pub(crate) folder: TempDir,
    raymond: PathBuf,
    temporal: PathBuf,
    /// The URL of the store.
    pub(crate) store: String,
    /// Whether the server keeps everything in memory.
    is_in_memory: bool,
    /// Variables of every command.
    pub(crate) variables: Vec<(&'static str, String)>,
}

/// Where programs are that tests run.
pub(crate) fn target() -> PathBuf {
    let target = std::env::var_os("RAYMOND_TARGET_DIR").map(PathBuf::from);
    target.unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target"))
}

impl Cluster {
    /// A namespace of the shared server; `None` if it or the local program is not installed.
    pub(crate) fn start() -> Option<Self> {
        Self::find(|| {
            let (port, taken) = &*SHARED;
            let number = taken.fetch_add(1, Ordering::Relaxed);
            assert!(number < NAMESPACES, "more tests than namespaces: raise NAMESPACES");
            (*port, namespace(number))
        })
        .inspect(Self::wait_for_namespace)
    }

    /// A server of its own, which can be killed. If it keeps everything in memory, it cannot be started again.
    pub(crate) fn with_server(is_in_memory: bool) -> Option<Self> {
        let mut cluster = Self::find(|| (free_port(), "default".to_owned()))?;
        cluster.is_in_memory = is_in_memory;
        cluster.start_server();
        Some(cluster)
    }

    fn find(server: impl FnOnce() -> (u16, String)) -> Option<Self> {
        let target = target();
        let (temporal, raymond) = (target.join(TEMPORAL), target.join(PROFILE).join("raymond"));
        if !temporal.exists() || !raymond.exists() {
            let is_required = std::env::var_os("RAYMOND_TEST_TEMPORAL_REQUIRED").is_some();
            assert!(!is_required, "{} or {} is missing", temporal.display(), raymond.display());
            eprintln!("skipped: run scripts/install-programs temporal and cargo build --workspace");
            return None;
        }
        let (port, namespace) = server();
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("project")).unwrap();
        let settings = folder.path().join(".config/raymond");
        fs::create_dir_all(&settings).unwrap();
        let agent = folder.path().join("agent.sh");
        let table = format!(
            "agent = 'program'\n[agents.program]\nprogram = 'bash'\narguments = ['{}']\n",
            agent.display()
        );
        fs::write(settings.join("config.toml"), table).unwrap();
        let store = format!("file://{}", folder.path().join("store").display());
        let (server, is_in_memory, variables) = (None, true, Vec::new());
        Some(Self {
            port,
            namespace,
            server,
            folder,
            raymond,
            temporal,
            store,
            is_in_memory,
            variables,
        })
    }

    /// Starts the server, again if it was killed: its database is a file.
    pub(crate) fn start_server(&mut self) {
        let mut command = Command::new(&self.temporal);
        serve(&mut command, self.port);
        if !self.is_in_memory {
            command.arg("--db-filename").arg(self.file("temporal.db"));
        }
        self.server = Some(Running::start(&mut command));
        self.wait_for_namespace();
    }

    fn wait_for_namespace(&self) {
        let port = self.port;
        wait_until("the server listens", || TcpStream::connect(("127.0.0.1", port)).is_ok());
        // It listens before its namespaces can be used.
        wait_until("the namespace is there", || {
            self.cluster(&["list"]).output().unwrap().status.success()
        });
    }

    pub(crate) fn kill_server(&mut self) {
        self.server = None;
    }

    pub(crate) fn server_pid(&self) -> i32 {
        self.server.as_ref().unwrap().pid()
    }

    /// What the server says about the history of a run.
    pub(crate) fn describe(&self, id: &str) -> Value {
        let mut command = Command::new(&self.temporal);
        command.args(["workflow", "describe", "-o", "json", "-w", id, "--address"]);
        let described = command.arg(format!("127.0.0.1:{}", self.port)).output().unwrap();
        assert!(described.status.success(), "{}", text(&described));
        let described: Value = serde_json::from_slice(&described.stdout).unwrap();
        described["workflowExecutionInfo"].clone()
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A file in the working directory of the agents.
    pub(crate) fn project(&self, name: &str) -> PathBuf {
        self.file("project").join(name)
    }

    /// Writes the files of a workflow.
    pub(crate) fn flow(&self, name: &str, files: &[(&str, &str)]) {
        fs::create_dir_all(self.project(name)).unwrap();
        for (file, text) in files {
            fs::write(self.project(name).join(file), text).unwrap();
        }
    }

    /// Makes the project a git repository, with everything in it committed.
    pub(crate) fn repository(&self) {
        for arguments in [
            &["init", "--quiet", "--initial-branch=main"][..],
            &["add", "--all"],
            &["commit", "--quiet", "-m", "c"],
        ] {
            git(&self.file("project"), arguments);
        }
    }

    /// The local program in the project.
    pub(crate) fn local(&self, words: &[&str]) -> Command {
        self.command(&self.raymond, words)
    }

    fn command(&self, program: &Path, words: &[&str]) -> Command {
        let mut command = Command::new(program);
        command.args(words).current_dir(self.file("project")).stdin(Stdio::null());
        for (name, _) in std::env::vars_os() {
            if name.as_encoded_bytes().starts_with(b"RAYMOND_") {
                command.env_remove(name);
            }
        }
        command.env("XDG_CONFIG_HOME", self.file(".config"));
        command.env("XDG_STATE_HOME", self.file(".state"));
        command.env("TEMPORAL_NAMESPACE", &self.namespace);
        command
    }

    /// `raymond cluster WORDS`, with the options for the server after the first word.
    pub(crate) fn cluster(&self, words: &[&str]) -> Command {
        self.cluster_at(self.port, words)
    }

    /// The same, with the server at this port.
    fn cluster_at(&self, port: u16, words: &[&str]) -> Command {
        self.cluster_at_address(&format!("127.0.0.1:{port}"), words)
    }

    /// The same, with the server at this address.
    pub(crate) fn cluster_at_address(&self, address: &str, words: &[&str]) -> Command {
        let program = Path::new(env!("CARGO_BIN_EXE_raymond-cluster"));
        let mut command = self.command(program, &words[..1]);
        command.arg("--temporal").arg(address);
        command.arg("--store").arg(&self.store);
        command.args(&words[1..]).env("RAYMOND_PROGRAM", &self.raymond);
        if words[0] == "start" {
            // Their prompts name no tag.
            command.arg("--no-lint");
        }
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        command
    }

    /// Starts a worker with a directory of its own.
    pub(crate) fn worker(&self, name: &str) -> Running {
        self.worker_with(self.port, name, &[])
    }

    /// Starts a worker that reaches the server at this port, with options of its own. Its steps have its name in the
    /// variable `WORKER`.
    pub(crate) fn worker_with(&self, port: u16, name: &str, options: &[&str]) -> Running {
        self.spawn_worker(port, name, options, &[])
    }

    /// Starts a worker with variables of its own.
    pub(crate) fn worker_at_home(&self, name: &str, variables: &[(String, String)]) -> Running {
        self.spawn_worker(self.port, name, &[], variables)
    }

    fn spawn_worker(
        &self,
        port: u16,
        name: &str,
        options: &[&str],
        variables: &[(String, String)],
    ) -> Running {
        let mut command = self.cluster_at(port, &["worker", "--name", name, "--data-dir"]);
        command.arg(self.file(name)).args(options).env("WORKER", name);
        command.envs(variables.iter().cloned()).stdout(Stdio::null());
        let log = self.file(&format!("{name}.log"));
        command.stderr(fs::File::options().create(true).append(true).open(log).unwrap());
        Running(command.spawn().unwrap())
    }

    /// Runs a command to its end.
    pub(crate) fn ran(&self, words: &[&str]) -> Output {
        self.cluster(words).output().unwrap()
    }

    /// The state of a run.
    pub(crate) fn show(&self, id: &str) -> Value {
        let shown = self.ran(&["show", id]);
        assert!(shown.status.success(), "{}", text(&shown));
        serde_json::from_slice(&shown.stdout).unwrap()
    }

    /// What the workers said.
    pub(crate) fn logs(&self) -> String {
        let paths = fs::read_dir(self.folder.path()).unwrap().map(|entry| entry.unwrap().path());
        let logs = paths.filter(|path| path.extension().is_some_and(|own| own == "log"));
        let read = |path: PathBuf| {
            format!("{}:\n{}", path.display(), fs::read_to_string(&path).unwrap_or_default())
        };
        logs.map(read).collect::<Vec<_>>().concat()
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if thread::panicking() {
            eprintln!("the workers said:\n{}", self.logs());
        }
        // Hosts and keepers end their steps when their deadlines have passed; the test does not wait for that.
        let marks = self.folder.path().to_str().unwrap().to_owned();
        for pid in processes(&marks) {
            let _ = Command::new("kill").arg("-9").arg(pid.to_string()).output();
        }
    }
}

/// The processes whose command line or environment contains this text: also what a step has started.
pub(crate) fn processes(text: &str) -> Vec<u32> {
    let own = std::process::id();
    let entries = fs::read_dir("/proc").unwrap().filter_map(|entry| {
        entry.ok()?.file_name().to_str()?.parse::<u32>().ok().filter(|pid| *pid != own)
    });
    let is_meant = |pid: &u32| {
        ["cmdline", "environ"].iter().any(|file| {
            let bytes = fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
            String::from_utf8_lossy(&bytes).contains(text)
        })
    };
    entries.filter(is_meant).collect()
}

/// What git prints in a directory.
pub(crate) fn git(directory: &Path, arguments: &[&str]) -> String {
    let mut command = Command::new("git");
    command.args(["-c", "user.name=t", "-c", "user.email=t@localhost"]).args(arguments);
    let output = command.current_dir(directory).output().unwrap();
    assert!(output.status.success(), "git {arguments:?}: {}", text(&output));
    String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
}

/// Everything that a command printed.
pub(crate) fn text(output: &Output) -> String {
    let of = String::from_utf8_lossy;
    format!("{}\n{}{}", output.status, of(&output.stdout), of(&output.stderr))
}

/// Waits until something is so.
pub(crate) fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < deadline, "waited too long until {what}");
        thread::sleep(Duration::from_millis(20));
    }
}
