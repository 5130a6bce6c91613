//! What Gemini CLI does when it loads a session, against the protocol.
//!
//! * It begins a file for the session, named by the minute and the beginning of the id, before it reads the one that is
//!   there. In the minute in which the session was begun that is the same file, and the session is lost.
//! * It answers before it has told the history, which would so be taken for a part of the next answer.

use std::{env, path::PathBuf, thread, time::Duration};

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{
    peer::{CallError, Peer},
    report::Report,
};
use crate::agent::lines::find_file;

/// How often to look whether the minute is over.
const INTERVAL: Duration = Duration::from_millis(100);
/// How much of the id is in the name of the file.
const ID_CHARS: usize = 8;

/// Whether the agent that has introduced itself like this is Gemini CLI.
pub(super) fn is(agent: &Value) -> bool {
    agent["agentInfo"]["name"] == "gemini-cli"
}

/// Waits until the minute is over in which the session was begun: a minute at most.
pub(super) fn wait_for_the_next_minute(session: &str) {
    let home = env::var_os("GEMINI_CLI_HOME").or_else(|| env::var_os("HOME"));
    let folder = PathBuf::from(home.unwrap_or_default()).join(".gemini/tmp");
    while find_file(&folder, &file_name(session, Timestamp::now()), 2).is_some() {
        thread::sleep(INTERVAL);
    }
}

/// The name of the file of a session that is begun or loaded at `time`.
fn file_name(session: &str, time: Timestamp) -> String {
    let beginning: String = session.chars().take(ID_CHARS).collect();
    format!("/session-{}-{beginning}.jsonl", time.strftime("%Y-%m-%dT%H-%M"))
}

/// Takes the history that follows the answer to `session/load`: asks for the mode that is set until an answer comes with
/// nothing of the history before it. Gemini CLI tells some of it whenever it could read a request.
pub(super) fn take_history(
    peer: &mut Peer,
    session: &str,
    opened: &Value,
    report: &mut Report<'_>,
) -> Result<(), CallError> {
    let mode = json!({ "sessionId": session, "modeId": opened["modes"]["currentModeId"] });
    loop {
        let before = report.recalled();
        peer.call("session/set_mode", &mode, report)?;
        if report.recalled() == before {
            return Ok(());
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "in tests a panic is the message")]
mod tests {
    use super::*;

    #[test]
    fn file_of_a_session_has_the_minute_and_the_beginning_of_its_id() {
        let time = "2026-11-18T01:03:59Z".parse().unwrap();
        let name = file_name("c9454070-68b5-4c85-8fe2-9351408390d6", time);
        assert_eq!(name, "/session-2026-11-18T01-03-c9454070.jsonl");
    }
}
