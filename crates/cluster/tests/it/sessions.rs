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
        self.cluster.worker_at_home(name, &variables)
    }

    /// The messages of each request that began with these words, the newest last.
    fn heard(&self, first: &str) -> Vec<Vec<String>> {
        let texts = |(_, text): (String, String)| text.trim_end().to_owned();
        let requests = self.api.requests().into_iter();
        let all = requests.map(|request| request.texts().into_iter().map(texts).collect());
        all.filter(|texts: &Vec<String>| texts[0] == first).collect()
    }
}

/// A call between two turns of its caller: the session goes on, and one branches off it, after another worker has taken
/// over, whose home is another and, with a checkout for each agent, its directory, too. The question lets the test change
/// workers while no step runs.
#[test]
fn session_goes_on_and_is_branched_on_a_worker_with_another_home() {
    let Some(desk) = Desk::or_skip() else { return };
    let cluster = &desk.cluster;
    cluster.flow(
        "flow",
        &[
            ("START.md", "---\nagent: claude\n---\nremember {{input}}"),
            ("ASK.sh", "echo '<ask choices=\"yes=SUB\">Shall I?</ask>'"),
            ("SUB.md", "---\nagent: claude\n---\naside"),
            ("END.md", "---\nagent: claude\n---\nback with {{result}}"),
        ],
    );
    cluster.repository();
    let call = "<call return=\"END\">ASK</call>";
    let replies = [
        ("remember ", call),
        ("aside", "<result>aside done</result>"),
        ("back with", "<result>done</result>"),
    ];
    for (prompt, reply) in replies {
        desk.api.on(prompt, [Reply::text(reply)]);
    }
    let places = ["shared", "git"];
    let mut one = desk.worker("one");
    for place in places {
        let start = [
            "start",
            "--place",
            place,
            "--steps-per-history",
            "1",
            "--detach",
            "flow",
            "--id",
            place,
        ];
        let started = cluster.ran(&[&start[..], &["--model", "sonnet", "--input", place]].concat());
        assert!(started.status.success(), "{}", text(&started));
        wait_until("it asks", || cluster.show(place)["agents"][0]["phase"]["asking"].is_object());
    }
    one.kill();
    let _two = desk.worker("two");
    for place in places {
        let answered = cluster.ran(&["answer", place, "main.1", "yes"]);
        assert!(answered.status.success(), "{}", text(&answered));
        let ran = cluster.ran(&["wait", place]);
        assert_eq!(String::from_utf8_lossy(&ran.stdout), "done\n", "{}", text(&ran));
        let remember = format!("remember {place}");
        let first = [&*remember, call];
        let branch = [&first[..], &["aside"]].concat();
        let caller = [&first[..], &["back with aside done"]].concat();
        assert_eq!(desk.heard(&remember), [&first[..1], &branch, &caller]);
    }
    assert!(cluster.file("home-two/.claude/projects").exists(), "two used the home of another");
}
