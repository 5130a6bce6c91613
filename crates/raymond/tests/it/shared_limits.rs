//! A usage limit that one run reaches holds for all runs of the user, in every project.

use std::{
    process::{Child, Command, Stdio},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use serde_json::json;

use crate::env::{Project, Ran, WithAgent as _, wait_until};
#[cfg(feature = "serve")]
use crate::serve::Server;

const PATIENCE: Duration = Duration::from_mins(1);

/// A coding agent whose account is at its limit until the file `lifted` is there.
const AGENT: &str = "cat >/dev/null; cd \"$(dirname \"$0\")\"; echo \"$RAYMOND_STATE\" >>calls\n\
    if [ -e lifted ]; then echo '{\"result\":\"<result>done</result>\",\"cost_usd\":0.1}'\n\
    else echo \"{\\\"error\\\":\\\"no\\\",\\\"class\\\":\\\"usage_limit\\\",\\\"resets_at\\\":$(cat resets)}\"; fi";

/// A user with two projects and one account.
struct User {
    home: Project,
    other: Project,
}

impl User {
    fn new() -> Self {
        let flow = [("START.md", "do it\n<result>done</result>")];
        let user = Self { home: Project::new(flow), other: Project::new(flow) };
        user.home.write("agent.sh", AGENT);
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
        user.home.write("resets", &(now + 3600).to_string());
        user
    }

    fn command(&self, project: &Project, arguments: &[&str]) -> Command {
        let mut command = project.command(arguments);
        let agent = format!("bash {}", self.home.file("agent.sh").display());
        command.env("XDG_STATE_HOME", self.home.file(".state")).agent(agent);
        command
    }

    fn raymond(&self, project: &Project, arguments: &[&str]) -> Ran {
        Ran::of(&self.command(project, arguments).output().unwrap())
    }

    fn spawn(&self, project: &Project, arguments: &[&str]) -> Child {
        let mut command = self.command(project, arguments);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }

    /// How many turns were started.
    fn calls(&self) -> usize {
        self.home.lines("calls").len()
    }
}

fn waits(project: &Project, run: &str) {
    let path = format!(".raymond/workflows/{run}.journal");
    wait_until("it waits", PATIENCE, || project.read(&path).contains("\"usage_limited\""));
}

#[track_caller]
fn completes(child: Child) {
    Ran::of(&child.wait_with_output().unwrap()).completed("done");
}

#[test]
fn limit_of_one_run_is_waited_for_by_all_and_all_go_on() {
    let user = User::new();
    let first = user.spawn(&user.home, &["flow", "--id", "first"]);
    waits(&user.home, "first");
    let second = user.spawn(&user.other, &["flow", "--id", "second"]);
    waits(&user.other, "second");
    assert_eq!(user.calls(), 1, "only the first turn was refused");

    let shown = user.raymond(&user.other, &["status", "second"]);
    assert!(shown.stdout.contains("usage limit: all agents wait until "), "{}", shown.stdout);
    let shown = user.raymond(&user.other, &["status", "second", "--json"]);
    let shown: serde_json::Value = serde_json::from_str(&shown.stdout).unwrap();
    let resets_at: u64 = user.home.read("resets").parse().unwrap();
    assert_eq!(shown["usage_limit"], json!({ "resets_at": resets_at }));

    let third = user.raymond(&user.other, &["flow", "--id", "third", "--no-wait"]);
    third.failed(4, "usage limit is reached until").failed(4, "raymond resume third");
    assert_eq!(user.calls(), 1, "it was paused before it paid for a turn");

    // The user knows that the limit is lifted, and resumes the run that was paused.
    user.home.write("lifted", "");
    user.raymond(&user.other, &["resume", "third"]).completed("done");
    completes(first);
    completes(second);
    user.raymond(&user.home, &["flow", "--no-wait"]).completed("done");
    assert_eq!(user.calls(), 5);
}

#[test]
fn limit_of_another_account_holds_nothing_up() {
    let user = User::new();
    user.raymond(&user.home, &["flow", "--no-wait"]).failed(4, "usage limit is reached");
    user.home.write("lifted", "");
    let mut command = user.command(&user.other, &["flow", "--no-wait"]);
    let agent = format!("bash {} --account=2", user.home.file("agent.sh").display());
    Ran::of(&command.agent(agent).output().unwrap()).completed("done");
}

#[cfg(unix)]
#[test]
fn file_that_is_damaged_or_that_others_can_write_is_ignored() {
    use std::{fs, os::unix::fs::PermissionsExt as _};
    let user = User::new();
    let run = |id| user.raymond(&user.other, &["flow", "--id", id, "--no-wait"]);
    run("limited").failed(4, "usage limit is reached");
    user.home.write("lifted", "");
    run("paused").failed(4, "usage limit is reached");
    let folder = user.home.file(".state/raymond/usage-limits");
    let path = fs::read_dir(&folder).unwrap().next().unwrap().unwrap().path();
    let text = fs::read_to_string(&path).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    fs::write(&path, text.split_at(text.len() / 2).0).unwrap();
    run("damaged").completed("done");
    fs::write(&path, &text).unwrap();
    run("whole").failed(4, "usage limit is reached");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).unwrap();
    run("foreign").completed("done");
}

#[cfg(feature = "serve")]
#[test]
fn server_shows_until_when_runs_wait() {
    let user = User::new();
    user.raymond(&user.home, &["flow", "--id", "first", "--no-wait"]).failed(4, "usage limit");
    user.raymond(&user.home, &["flow", "--id", "second", "--detach"]);
    waits(&user.home, "second");
    let server = Server::start(&user.home, &[]);
    let run = server.get(&server.run("second")).ok();
    assert_eq!(run["group"], "waiting");
    let resets_at: u64 = user.home.read("resets").parse().unwrap();
    assert_eq!(run["usage_limit"], json!({ "resets_at": resets_at }));
    let row = server.get("/api/runs?group=waiting").ok()["runs"][0].clone();
    assert_eq!((&row["run"], &row["usage_limit"]), (&json!("second"), &run["usage_limit"]));
    user.raymond(&user.home, &["stop", "second"]);
}
