//! A browser without a screen, spoken to in its own protocol (CDP): commands and answers in JSON over two pipes.
//!
//! That needs no driver, no other process and no dependency; a test uses five commands of it.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};

use serde_json::{Value, json};

/// The first browser that is installed. Without one, prints that the test is skipped.
pub(crate) fn program() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
    let names = ["chromium", "chromium-browser", "google-chrome"];
    let found = names.iter().flat_map(|name| folders.iter().map(move |folder| folder.join(name)));
    let found = found.into_iter().find(|program| program.is_file());
    if found.is_none() {
        let _ = std::io::Write::write_all(
            &mut std::io::stderr(),
            b"skipped: no browser is installed (Debian: apt-get install chromium)\n",
        );
    }
    found
}

/// A running browser.
pub(crate) struct Chromium {
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
    last_id: u64,
    /// What the browser told without being asked.
    events: Vec<Value>,
}

impl Drop for Chromium {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Chromium {
    /// Starts it with an empty profile in `folder`.
    pub(crate) fn start(program: &Path, folder: &Path) -> Self {
        // The browser reads from descriptor 3 and writes to 4.
        let mut child = Command::new("bash")
            .args(["-c", "exec \"$0\" \"$@\" 3<&0 4>&1 1>&2"])
            .arg(program)
            .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"])
            .args(["--no-first-run", "--disable-background-networking", "--disable-sync"])
            .args(["--disable-component-update", "--remote-debugging-pipe"])
            .arg(format!("--user-data-dir={}", folder.display()))
            .arg("about:blank")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let to = child.stdin.take().unwrap();
        let from = BufReader::new(child.stdout.take().unwrap());
        Self { child, to, from, last_id: 0, events: Vec::new() }
    }

    /// Opens a new tab in front of the others.
    pub(crate) fn tab(&mut self) -> Tab {
        self.target(&json!({ "url": "about:blank" }))
    }

    /// Opens a new tab in a window of its own, so that the others stay shown.
    pub(crate) fn window(&mut self) -> Tab {
        self.target(&json!({ "url": "about:blank", "newWindow": true }))
    }

    fn target(&mut self, params: &Value) -> Tab {
        let created = self.call(None, "Target.createTarget", params);
        let target = created["targetId"].as_str().unwrap().to_owned();
        let attach = json!({ "targetId": target, "flatten": true });
        let attached = self.call(None, "Target.attachToTarget", &attach);
        let tab = Tab { target, session: attached["sessionId"].as_str().unwrap().to_owned() };
        for domain in ["Page", "Runtime", "Network", "Log"] {
            self.call(Some(&tab), &format!("{domain}.enable"), &json!({}));
        }
        tab
    }

    /// Carries out a command and returns its result.
    pub(crate) fn call(&mut self, tab: Option<&Tab>, method: &str, params: &Value) -> Value {
        self.try_call(tab, method, params)
            .unwrap_or_else(|error| panic!("{method} {params}: {error}"))
    }

    /// Carries out a command and returns its result, or why there is none.
    pub(crate) fn try_call(
        &mut self,
        tab: Option<&Tab>,
        method: &str,
        params: &Value,
    ) -> Result<Value, String> {
        self.last_id += 1;
        let mut message = json!({ "id": self.last_id, "method": method, "params": params });
        if let Some(tab) = tab {
            message["sessionId"] = json!(tab.session);
        }
        self.to.write_all(message.to_string().as_bytes()).unwrap();
        self.to.write_all(b"\0").unwrap();
        self.to.flush().unwrap();
        loop {
            let mut answer = Vec::new();
            let length = self.from.read_until(0, &mut answer).unwrap();
            assert!(length > 0, "the browser has ended");
            answer.pop();
            let mut answer: Value = serde_json::from_slice(&answer).unwrap();
            if answer["id"] == json!(self.last_id) {
                if let Some(error) = answer["error"]["message"].as_str() {
                    return Err(error.to_owned());
                }
                return Ok(answer["result"].take());
            }
            self.events.push(answer);
        }
    }

    /// Forgets the events with this name, so that the next one is the first.
    pub(crate) fn forget(&mut self, name: &str) {
        self.events.retain(|event| event["method"] != name);
    }

    /// The parameters of all events with this name, so far.
    pub(crate) fn events(&self, name: &str) -> Vec<Value> {
        let found = self.events.iter().filter(|event| event["method"] == name);
        found.map(|event| event["params"].clone()).collect()
    }
}

/// A tab of the browser.
pub(crate) struct Tab {
    pub(crate) target: String,
    session: String,
}
