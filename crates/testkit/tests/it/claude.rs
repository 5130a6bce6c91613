//! The real Claude Code on the loopback model. Skipped, with a reason, where it is not installed.

use std::{
    fs::{self, File},
    path::PathBuf,
    process::{Child, Command},
    time::Duration,
};

use raymond_testkit::{Block, Claude, Gate, ModelApi, Reply, Request, table};
use serde_json::{Value, json};
use tempfile::TempDir;

/// Longer than Claude Code needs to start on a busy machine.
const PATIENCE: Duration = Duration::from_mins(1);
/// A model with the same price in every supported version.
const MODEL: &str = "claude-sonnet-4-6";
/// What 1000 tokens in and 50 out of it cost.
const COST_OF_A_CALL: f64 = 0.003_75;

/// A home, a project directory and a model for one test.
struct Desk {
    claude: Claude,
    api: ModelApi,
    folder: TempDir,
}

/// The output of one start of Claude Code.
struct Turn {
    code: Option<i32>,
    events: Vec<Value>,
}

impl Desk {
    fn or_skip() -> Option<Self> {
        let claude = Claude::or_skip()?;
        let folder = tempfile::tempdir().unwrap();
        for name in ["home", "project"] {
            fs::create_dir(folder.path().join(name)).unwrap();
        }
        Some(Self { claude, api: ModelApi::start().unwrap(), folder })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Starts a turn. Prompt and output are files, because Claude Code cuts its output short when it
    /// writes into a pipe.
    fn start(&self, prompt: &str, arguments: &[&str]) -> Child {
        fs::write(self.path("prompt"), prompt).unwrap();
        Command::new(self.claude.program())
            .args(["-p", "--output-format", "stream-json", "--verbose", "--model", MODEL])
            .args(["--permission-mode", "bypassPermissions"])
            .args(arguments)
            .env_clear()
            .envs(Claude::environment(&self.path("home"), &self.api))
            .current_dir(self.path("project"))
            .stdin(File::open(self.path("prompt")).unwrap())
            .stdout(File::create(self.path("output")).unwrap())
            .spawn()
            .unwrap()
    }

    fn finish(&self, mut child: Child) -> Turn {
        let code = child.wait().unwrap().code();
        let output = fs::read_to_string(self.path("output")).unwrap();
        let events = output.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        Turn { code, events }
    }

    fn run(&self, prompt: &str, arguments: &[&str]) -> Turn {
        self.finish(self.start(prompt, arguments))
    }
}

impl Turn {
    fn result(&self) -> &Value {
        let mut results = self.events.iter().filter(|event| event["type"] == "result");
        results.next_back().unwrap()
    }

    fn session(&self) -> &str {
        self.result()["session_id"].as_str().unwrap()
    }

    /// The cost, in calls of the usual usage.
    fn calls_paid(&self) -> f64 {
        (self.result()["total_cost_usd"].as_f64().unwrap() / COST_OF_A_CALL * 1000.0).round()
            / 1000.0
    }
}

#[test]
fn a_text_turn_ends_with_the_words_of_the_model() {
    let Some(desk) = Desk::or_skip() else { return };
    desk.api.on("say hello", [Reply::text("Hello from the loopback.")]);

    let turn = desk.run("Please say hello.", &[]);
    assert_eq!(turn.code, Some(0));
    if std::env::var_os("RAYMOND_TEST_CLAUDE").is_none() {
        let wanted = table::row("claude").version(table::Selection::from_environment());
        assert_eq!(turn.events[0]["claude_code_version"], wanted);
    }
    assert_eq!(turn.result()["result"], "Hello from the loopback.");
    assert!((turn.calls_paid() - 1.0).abs() < 1e-9);

    let requests = desk.api.requests();
    let [request] = &requests[..] else { panic!("one request, not {}", requests.len()) };
    assert_eq!((request.model(), request.effort()), (MODEL, Some("high")));
    assert!(request.max_tokens() >= Some(32_000), "{:?}", request.max_tokens());
    assert!(request.is_streaming() && request.has_tool("Bash"));
    assert_eq!(request.texts(), [("user".to_owned(), "Please say hello.".to_owned())]);
    assert_eq!(request.header("x-claude-code-session-id"), Some(turn.session()));
}

#[test]
fn a_tool_turn_really_writes_files() {
    let Some(desk) = Desk::or_skip() else { return };
    let written = desk.path("project/written");
    let write = json!({ "file_path": written, "content": "by Write" });
    desk.api.on(
        "two files",
        [
            Reply::blocks([Block::text("First one."), Block::tool("Write", write)]),
            Reply::tool("Bash", json!({ "command": "printf 'by Bash' > bashed; cat bashed" })),
            Reply::text("Both are there."),
        ],
    );

    let turn = desk.run("Make two files.", &[]);
    assert_eq!(turn.code, Some(0));
    assert_eq!(turn.result()["result"], "Both are there.");
    assert!((turn.calls_paid() - 3.0).abs() < 1e-9);
    assert_eq!(fs::read_to_string(written).unwrap(), "by Write");
    assert_eq!(fs::read_to_string(desk.path("project/bashed")).unwrap(), "by Bash");

    let requests = desk.api.requests();
    assert_eq!(requests.len(), 3);
    assert_eq!(requests[2].last_user_text(), "Make two files.");
    // Newer versions add reminders of their own.
    assert_eq!(requests[2].tool_results()[1].lines().next(), Some("by Bash"));
}

#[test]
fn an_error_status_is_the_result_of_the_turn() {
    let Some(desk) = Desk::or_skip() else { return };
    desk.api.on("bad", [Reply::status(400, "invalid_request_error", "bad thing")]);

    let turn = desk.run("Something bad.", &[]);
    assert_eq!(turn.code, Some(1));
    assert_eq!(turn.result()["is_error"], true);
    assert_eq!(turn.result()["api_error_status"], 400);
    assert_eq!(turn.result()["result"], "API Error: 400 bad thing");
    // Newer versions try again.
    assert!(!desk.api.requests().is_empty());
}

#[test]
fn broken_connection_is_retried() {
    let Some(desk) = Desk::or_skip() else { return };
    desk.api.on(
        "try",
        [
            Reply::status(529, "overloaded_error", "Overloaded"),
            Reply::dropped(),
            Reply::cut(),
            Reply::text("At last."),
        ],
    );

    let turn = desk.run("Please try.", &[]);
    assert_eq!(turn.code, Some(0));
    assert_eq!(turn.result()["result"], "At last.");
    // Newer versions count what had come of the stream that broke off.
    assert!((1.0..2.0).contains(&turn.calls_paid()), "{}", turn.calls_paid());
    let streams: Vec<_> = desk.api.requests().iter().map(Request::is_streaming).collect();
    // After a stream that broke off, older versions ask for a document.
    assert!(matches!(streams[..], [true, true, true, _]), "{streams:?}");
}

#[test]
fn a_prompt_after_a_failed_one_gets_its_own_rule() {
    let Some(desk) = Desk::or_skip() else { return };
    desk.api.on("one", [Reply::text("Good.")]);
    desk.api.on("three", [Reply::text("Good again.")]);
    desk.api.on("two", [Reply::status(400, "invalid_request_error", "bad thing")]);

    let turn = desk.run("one", &[]);
    assert_eq!(desk.run("two", &["--resume", turn.session()]).code, Some(1));
    let last = desk.run("three", &["--resume", turn.session()]);
    assert_eq!(last.result()["result"], "Good again.");
    // Two prompts in one message: here the newest user message has more text than the newest prompt.
    let texts = desk.api.requests().pop().unwrap().texts();
    let texts: Vec<_> = texts.iter().map(|(role, text)| (role.as_str(), text.trim_end())).collect();
    assert_eq!(
        texts,
        [("user", "one"), ("assistant", "Good."), ("user", "two"), ("user", "three")]
    );
}

#[test]
fn a_held_reply_keeps_claude_waiting() {
    let Some(desk) = Desk::or_skip() else { return };
    let gate = Gate::new();
    desk.api.on("wait", [Reply::text("Thank you.").held_by(&gate)]);

    let mut child = desk.start("Please wait.", &[]);
    desk.api.wait_for_requests(1, PATIENCE);
    assert!(child.try_wait().unwrap().is_none());
    gate.open();
    assert_eq!(desk.finish(child).result()["result"], "Thank you.");
}
