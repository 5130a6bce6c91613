//! The handlers without a socket and without processes of Raymond: requests go straight to the router, and the runs are
//! carried out by the engine in this process.

#![allow(clippy::unwrap_used, reason = "in tests a panic is the message")]

mod asks;
mod changes;
mod hostile;
mod reading;
mod streams;
mod workflows;

use std::{
    collections::BTreeMap,
    fs,
    future::poll_fn,
    path::{Path, PathBuf},
    pin::Pin,
    sync::Arc,
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use axum::{
    Router,
    body::{Body, BodyDataStream},
    http::{HeaderMap, Request, header},
};
use futures_core::Stream as _;
use raymond_engine::{
    Engine, RunEnd, Runner,
    agent::{Agents, CostPromise, ProgramAgent, ProgramConfig},
    run::events::{Observer, Seen},
    store::{
        layout::StateDir,
        scope::ScopeSource,
        user::{self, UserDir},
    },
    sys::clock,
    trust::seal,
};
use raymond_flow::{
    coding_agent::Capabilities,
    id::RunId,
    machine::{Limits, Run, Settings, Started},
    money::Usd,
};
use serde_json::Value;
use tokio::runtime::Runtime;
use tower::ServiceExt as _;

use crate::{
    Host, ServerOptions,
    app::{App, router},
    guard::Hosts,
    token::{self, ServerToken},
};

/// Longer than anything takes on a busy machine.
const PATIENCE: Duration = Duration::from_mins(1);
/// Where the server would listen.
const ADDRESS: &str = "127.0.0.1:7420";
/// The budget of a new run in a project.
const BUDGET: f64 = 10.0;

/// A script that ends when the file `go` is there, and the file that says that it runs.
const WAITS: &str =
    "touch waits; until [ -e go ]; do sleep 0.01; done; echo '<result>done</result>'";

/// A project with a workflow `flow`, and the server for it.
struct Desk {
    folder: tempfile::TempDir,
    router: Router,
    token: String,
    runtime: Runtime,
}

/// The answer to a request.
#[derive(Debug)]
struct Answer {
    status: u16,
    headers: HeaderMap,
    body: String,
}

impl Answer {
    #[track_caller]
    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    #[track_caller]
    fn ok(self) -> Value {
        assert!((200..300).contains(&self.status), "{self:?}");
        self.json()
    }

    /// The value of a header; empty if it is not there.
    fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }
}

/// What the program around the server would know.
struct Words;

impl Host for Words {
    fn agents(&self, state_dir: &StateDir) -> Agents {
        agents(state_dir.root().parent().unwrap())
    }

    fn budget(&self, _: &StateDir) -> Option<Usd> {
        Usd::from_dollars(BUDGET)
    }

    fn next(&self, _: &StateDir, run: &Run, status: &str) -> Option<String> {
        Some(format!("raymond next {} {status}", run.id))
    }
}

/// The coding agent of a project: its script `agent.sh`.
fn agents(project: &Path) -> Agents {
    let script = project.join("agent.sh").to_str().unwrap().to_owned();
    Agents::new(vec![Box::new(ProgramAgent::new(ProgramConfig {
        name: "program".to_owned(),
        program: vec!["bash".to_owned(), script],
        model: None,
        capabilities: Capabilities::FULL,
        prices: None,
        promises_cost: CostPromise::None,
    }))])
}

struct Nobody;

impl Observer for Nobody {
    fn see(&mut self, _: &Seen) {}
}

impl Desk {
    /// A project whose workflow has these states.
    fn new<'a>(states: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        Self::with(states, |_| {})
    }

    /// The same with other options of the server.
    fn with<'a>(
        states: impl IntoIterator<Item = (&'a str, &'a str)>,
        change: impl FnOnce(&mut ServerOptions),
    ) -> Self {
        seal::use_passing_key();
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("shop/flow")).unwrap();
        for (name, text) in states {
            fs::write(folder.path().join("shop/flow").join(name), text).unwrap();
        }
        state_dir(&folder.path().join("shop")).create().unwrap();
        Self::on(folder, change)
    }

    /// A server for what another one has shown.
    fn on(folder: tempfile::TempDir, change: impl FnOnce(&mut ServerOptions)) -> Self {
        let user_dir = UserDir::new(folder.path().join("user"));
        user_dir.create().unwrap();
        user_dir.remember(&state_dir(&folder.path().join("shop"))).unwrap();
        let token = ServerToken::load(&user_dir.file(token::FILE)).unwrap();
        let text = token.text().to_owned();
        let mut options = ServerOptions {
            user_dir,
            project: None,
            roots: Vec::new(),
            address: None,
            port: None,
            hosts: Vec::new(),
            is_read_only: false,
            budget_max: Usd::from_dollars(50.0),
            program: folder.path().join("raymond"),
            version: "1".to_owned(),
            host: Arc::new(Words),
        };
        change(&mut options);
        let hosts = Hosts::new("127.0.0.1".parse().unwrap(), 7420, &options.hosts);
        let router = router(Arc::new(App::new(options, token, hosts)));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        Self { folder, router, token: text, runtime }
    }

    /// A file of the project.
    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join("shop").join(name)
    }

    fn write(&self, name: &str, text: impl AsRef<[u8]>) {
        fs::write(self.file(name), text).unwrap();
    }

    fn journal(&self, run: &str) -> PathBuf {
        self.file(&format!(".raymond/workflows/{run}.journal"))
    }

    /// Carries out the workflow to its end.
    fn run(&self, id: &str) -> Run {
        self.begin(id, |_| {}).join().unwrap().run
    }

    /// Carries out the workflow on a thread.
    fn begin(&self, id: &str, change: impl FnOnce(&mut Started)) -> JoinHandle<RunEnd> {
        let project = self.folder.path().join("shop");
        begin(&project, &project.join("flow"), id, change)
    }

    /// Carries out the workflow on a thread until this request shows what is waited for.
    fn begin_until(&self, id: &str, is_so: impl Fn(&Value) -> bool) -> JoinHandle<RunEnd> {
        let thread = self.begin(id, |_| {});
        until("the run gets there", || {
            let run = self.get(&self.path(id));
            run.status == 200 && is_so(&run.json())
        });
        thread
    }

    /// A request with these headers, straight to the handlers.
    fn send(&self, line: &str, headers: &[&str], body: impl Into<Body>) -> Answer {
        self.runtime.block_on(async {
            let response = self.router.clone().oneshot(request(line, headers, body.into()));
            let (head, body) = response.await.unwrap().into_parts();
            let bytes = axum::body::to_bytes(body, usize::MAX).await.unwrap();
            Answer {
                status: head.status.as_u16(),
                headers: head.headers,
                body: String::from_utf8_lossy(&bytes).into_owned(),
            }
        })
    }

    /// The headers that every good request has.
    fn good(&self) -> [String; 2] {
        [format!("Host: {ADDRESS}"), format!("Authorization: Bearer {}", self.token)]
    }

    fn get(&self, path: &str) -> Answer {
        let [host, token] = self.good();
        self.send(&format!("GET {path}"), &[&host, &token], "")
    }

    fn post(&self, path: &str, body: &Value) -> Answer {
        let [host, token] = self.good();
        let headers = [&*host, &token, "Content-Type: application/json"];
        self.send(&format!("POST {path}"), &headers, body.to_string())
    }

    fn upload(&self, path: &str, body: impl Into<Body>) -> Answer {
        let [host, token] = self.good();
        let headers = [&*host, &token, "Content-Type: application/octet-stream"];
        self.send(&format!("POST {path}"), &headers, body)
    }

    /// The key of the project.
    fn project(&self) -> String {
        user::key(state_dir(&self.folder.path().join("shop")).root())
    }

    /// The path of a run of the project.
    fn path(&self, run: &str) -> String {
        format!("/api/runs/{}/{run}", self.project())
    }

    /// Opens an event stream.
    #[track_caller]
    fn stream(&self, path: &str, more: &[&str]) -> Events<'_> {
        let [host, token] = self.good();
        let headers = [&[&*host, &token], more].concat();
        let request = request(&format!("GET {path}"), &headers, Body::empty());
        let response = self.runtime.block_on(self.router.clone().oneshot(request)).unwrap();
        assert_eq!(response.status(), 200);
        assert_eq!(response.headers()[header::CONTENT_TYPE], "text/event-stream");
        let body = response.into_body().into_data_stream();
        Events { desk: self, body, text: String::new() }
    }
}

fn state_dir(project: &Path) -> StateDir {
    StateDir::new(project.join(".raymond"))
}

/// Carries out a workflow of a project on a thread.
fn begin(
    project: &Path,
    workflow: &Path,
    id: &str,
    change: impl FnOnce(&mut Started),
) -> JoinHandle<RunEnd> {
    let scope = ScopeSource::open(workflow).unwrap();
    let mut started = Started {
        workflow_id: RunId::new(id).unwrap(),
        identity: String::new(),
        state_dir: String::new(),
        scope_dir: scope.path.to_str().unwrap().to_owned(),
        entry: scope.entry,
        cwd: project.to_str().unwrap().to_owned(),
        started_at_ms: clock::now_ms(),
        input: None,
        metadata: BTreeMap::new(),
        settings: Settings::default(),
        limits: Limits { budget_usd: Usd::from_dollars(BUDGET), ..Limits::default() },
    };
    change(&mut started);
    let project = project.to_owned();
    thread::spawn(move || {
        let agents = agents(&project);
        engine(&project, &agents).start(started, &mut Nobody).unwrap()
    })
}

fn engine<'a>(project: &Path, agents: &'a Agents) -> Engine<'a> {
    Engine {
        state_dir: state_dir(project),
        runner: Runner::threads(),
        agents,
        warm_limit: 0,
        is_hurried: true,
        disk_reserve_bytes: 0,
        reset_margin: Duration::ZERO,
        kept_script_steps: 0,
        user_dir: None,
        environment: Vec::new(),
        answerer: None,
        interrupts: None,
    }
}

fn request(line: &str, headers: &[&str], body: Body) -> Request<Body> {
    let (method, uri) = line.split_once(' ').unwrap();
    let mut request = Request::builder().method(method).uri(uri);
    for header in headers {
        let (name, value) = header.split_once(": ").unwrap();
        request = request.header(name, value);
    }
    request.body(body).unwrap()
}

/// An event stream, read as it comes.
struct Events<'d> {
    desk: &'d Desk,
    body: BodyDataStream,
    text: String,
}

/// An event.
#[derive(Debug)]
struct Event {
    name: String,
    id: Option<String>,
    data: Value,
}

impl Events<'_> {
    /// The next event; beats are passed over.
    #[track_caller]
    fn next(&mut self) -> Event {
        loop {
            if let Some((event, rest)) = self.text.split_once("\n\n") {
                let field = |name: &str| {
                    let mut lines = event.lines().filter_map(|line| line.strip_prefix(name));
                    lines.next().map(|text| text.trim_start().to_owned())
                };
                let (name, data, id) = (field("event:"), field("data:"), field("id:"));
                self.text = rest.to_owned();
                if let (Some(name), Some(data)) = (name, data) {
                    return Event { name, id, data: serde_json::from_str(&data).unwrap() };
                }
                continue;
            }
            let body = &mut self.body;
            let bytes = self.desk.runtime.block_on(async {
                let next = poll_fn(|context| Pin::new(&mut *body).poll_next(context));
                tokio::time::timeout(PATIENCE, next).await
            });
            let bytes = bytes.expect("no event comes").expect("the stream has ended").unwrap();
            self.text.push_str(std::str::from_utf8(&bytes).unwrap());
        }
    }

    /// The next event for which this holds.
    #[track_caller]
    fn until(&mut self, mut is_it: impl FnMut(&Event) -> bool) -> Event {
        loop {
            let event = self.next();
            if is_it(&event) {
                return event;
            }
        }
    }
}

/// A field of each item of a list.
fn names(list: &Value, field: &str) -> Vec<String> {
    let list = list.as_array().unwrap();
    list.iter().map(|item| item[field].as_str().unwrap_or("-").to_owned()).collect()
}

/// A workflow of two scripts.
const SHORT: [(&str, &str); 2] =
    [("START.sh", "echo '<goto>LAST</goto>'"), ("LAST.sh", "echo '<result>it works</result>'")];

/// Cancels a run that another thread carries out.
fn cancel(desk: &Desk, id: &str) {
    let project = desk.folder.path().join("shop");
    let agents = agents(&project);
    engine(&project, &agents).cancel(&RunId::new(id).unwrap(), &mut Nobody).unwrap();
}

/// Waits until something is so.
#[track_caller]
fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < deadline, "{what}: it is not so");
        thread::sleep(Duration::from_millis(5));
    }
}
