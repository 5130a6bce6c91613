//! Sessions of the real Claude Code on workers with homes of their own: a turn knows what was said on another machine.

use std::fs;

use raymond_testkit::{Claude, ModelApi, Reply};

use crate::env::{Cluster, Running, text, wait_until};

/// A cluster whose workers have Claude Code, each with a home of its own, and a model on the loopback.
struct Desk {
    cluster: Cluster,
    api: ModelApi,
    claude: Claude,
}

impl Desk {
    fn or_skip() -> Option<Self> {
        let claude = Claude::or_skip()?;
        Some(Self { cluster: Cluster::start()?, api: ModelApi::start().unwrap(), claude })
    }

    fn worker(&self, name: &str) -> Running {
        let home = self.cluster.file(&format!("home-{name}"));
        fs::create_dir_all(&home).unwrap();
        let mut variables = Claude::environment(&home, &self.api);
        let program = self.claude.program().to_str().unwrap().to_owned();
        variables.push(("RAYMOND_CLAUDE".to_owned(), program));
        self.cluster.worker_with(name, &variables)
    }

    /// The messages of each request, the newest last.
    fn heard(&self) -> Vec<Vec<String>> {
        let texts = |(_, text): (String, String)| text.trim_end().to_owned();
        let requests = self.api.requests();
        requests.iter().map(|request| request.texts().into_iter().map(texts).collect()).collect()
    }
}

/// A call between two turns of its caller: the session goes on, and one branches off it, after another worker has taken
/// over. The question lets the test change workers while no step runs.
#[test]
fn session_goes_on_and_is_branched_on_a_worker_with_another_home() {
    let Some(desk) = Desk::or_skip() else { return };
    let cluster = &desk.cluster;
    cluster.flow(
        "flow",
        &[
            ("START.md", "---\nagent: claude\n---\nremember heliotrope"),
            ("ASK.sh", "echo '<ask choices=\"yes=SUB\">Shall I?</ask>'"),
            ("SUB.md", "---\nagent: claude\n---\naside"),
            ("END.md", "---\nagent: claude\n---\nback with {{result}}"),
        ],
    );
    let call = "<call return=\"END\">ASK</call>";
    desk.api.on("remember heliotrope", [Reply::text(call)]);
    desk.api.on("aside", [Reply::text("<result>aside done</result>")]);
    desk.api.on("back with", [Reply::text("<result>done</result>")]);
    let mut one = desk.worker("one");
    let words = ["start", "--detach", "flow", "--id", "r", "--model", "sonnet"];
    let started = cluster.ran(&words);
    assert!(started.status.success(), "{}", text(&started));
    wait_until("it asks", || cluster.show("r")["agents"][0]["phase"]["asking"].is_object());
    one.kill();
    let _two = desk.worker("two");
    let answered = cluster.ran(&["answer", "r", "main.1", "yes"]);
    assert!(answered.status.success(), "{}", text(&answered));
    let ran = cluster.ran(&["wait", "r"]);
    assert_eq!(String::from_utf8_lossy(&ran.stdout), "done\n", "{}", text(&ran));
    let first = ["remember heliotrope", call];
    let branch = [&first[..], &["aside"]].concat();
    let caller = [&first[..], &["back with aside done"]].concat();
    assert_eq!(desk.heard(), [&first[..1], &branch, &caller]);
    assert!(cluster.file("home-two/.claude/projects").exists(), "two used the home of another");
}
