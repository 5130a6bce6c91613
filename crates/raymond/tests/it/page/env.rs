//! The project, the server and the browser of one test.

use std::{
    io::{BufRead as _, BufReader},
    process::{Child, Command, Stdio},
    time::Duration,
};

use serde_json::{Value, json};

use crate::{
    chromium::{Chromium, Tab, program},
    env::{Project, kill, wait_until},
};

/// Longer than anything takes on a busy machine.
pub(super) const PATIENCE: Duration = Duration::from_mins(1);

/// A script that goes on to `next` when there is a file `gate`.
pub(super) fn gated(gate: &str, tag: &str) -> String {
    format!("for _ in {{1..6000}}; do [ -e {gate} ] && break; sleep 0.01; done; echo '{tag}'")
}

/// A page in a browser, its server, and the project whose runs it shows.
pub(super) struct Desk {
    pub(super) project: Project,
    pub(super) browser: Chromium,
    pub(super) tab: Tab,
    server: Child,
    port: u16,
    link: String,
}

impl Drop for Desk {
    fn drop(&mut self) {
        self.kill_server();
    }
}

impl Desk {
    /// The page of a server for this project, opened by its link; `None` without a browser.
    pub(super) fn or_skip(project: Project) -> Option<Self> {
        Self::with(project, |project| {
            let (server, port) = serve(project, 0);
            let link = project.raymond(&["open", "--print"]).stdout.trim().to_owned();
            (server, port, link)
        })
    }

    /// The page of a server that `start` starts: its process, its port and its link.
    pub(super) fn with(
        project: Project,
        start: impl FnOnce(&Project) -> (Child, u16, String),
    ) -> Option<Self> {
        let program = program()?;
        // First, because it may take longer on a busy machine than what the server shows.
        let mut browser = Chromium::start(&program, &project.file("profile"));
        let tab = browser.tab();
        let (server, port, link) = start(&project);
        assert!(link.contains("/#k="), "{link}");
        let mut desk = Self { project, browser, tab, server, port, link };
        desk.size(1280, 900);
        desk.open();
        Some(desk)
    }

    /// Opens the link and marks the page, so that a reload would be noticed.
    pub(super) fn open(&mut self) {
        let link = self.link.clone();
        self.call("Page.navigate", &json!({ "url": link }));
        self.until("document.querySelector('.bottom .link')?.textContent === 'connected'");
        assert_eq!(self.value("location.hash"), json!("#/"), "the token left the address");
        self.value("window.isSame = true");
    }

    pub(super) fn call(&mut self, method: &str, params: &Value) -> Value {
        self.browser.call(Some(&self.tab), method, params)
    }

    /// The value of an expression on the page. A promise is awaited.
    pub(super) fn value(&mut self, script: &str) -> Value {
        let params = json!({ "expression": script, "returnByValue": true, "awaitPromise": true });
        let mut result = self.call("Runtime.evaluate", &params);
        assert_eq!(result["exceptionDetails"], Value::Null, "{script}");
        result["result"]["value"].take()
    }

    /// Waits until the page is so.
    pub(super) fn until(&mut self, condition: &str) {
        self.until_within(PATIENCE, condition);
    }

    pub(super) fn until_within(&mut self, patience: Duration, condition: &str) {
        let script = format!(
            "new Promise((then) => {{ const end = Date.now() + {}; const look = () => {{ \
             let isSo = false; try {{ isSo = Boolean({condition}); }} catch (error) {{ then(String(error)); }} \
             if (isSo || Date.now() > end) then(isSo); else setTimeout(look, 10); }}; look(); }})",
            patience.as_millis()
        );
        let params = json!({ "expression": script, "returnByValue": true, "awaitPromise": true });
        let mut answer = self.browser.try_call(Some(&self.tab), "Runtime.evaluate", &params);
        // A page that is loaded again forgets what it was asked.
        while answer.as_ref().is_err_and(|error| error.contains("navigated")) {
            answer = self.browser.try_call(Some(&self.tab), "Runtime.evaluate", &params);
        }
        let is_so = answer.unwrap()["result"]["value"].take();
        if is_so != json!(true) {
            let text = self.text("body");
            panic!("never so on the page ({is_so}): {condition}\n{text}");
        }
    }

    /// Waits until the text of an element contains this.
    pub(super) fn until_says(&mut self, selector: &str, text: &str) {
        let (selector, text) = (json!(selector), json!(text));
        self.until(&format!("document.querySelector({selector})?.textContent.includes({text})"));
    }

    pub(super) fn text(&mut self, selector: &str) -> String {
        let text =
            self.value(&format!("document.querySelector({})?.innerText ?? ''", json!(selector)));
        text.as_str().unwrap().to_owned()
    }

    pub(super) fn count(&mut self, selector: &str) -> u64 {
        let count = self.value(&format!("document.querySelectorAll({}).length", json!(selector)));
        count.as_u64().unwrap()
    }

    pub(super) fn go(&mut self, address: &str) {
        self.value(&format!("location.hash = {}; 0", json!(address)));
    }

    /// The page of a run.
    pub(super) fn go_to_run(&mut self, run: &str) {
        self.go("#/");
        let cover = format!("document.querySelector('[data-run={run}] .cover')");
        self.until(&cover);
        self.value(&format!("location.hash = {cover}.hash; 0"));
        self.until("document.querySelector('.run .status')");
    }

    /// Clicks with the mouse on the first element that matches and has this text.
    pub(super) fn click(&mut self, selector: &str, text: &str) {
        let find = format!(
            "[...document.querySelectorAll({})].find((one) => !one.disabled && one.innerText.trim().startsWith({}))",
            json!(selector),
            json!(text)
        );
        // Where it stays for a moment and nothing covers it: a page that has just got news may still move it.
        self.value("window.place = null");
        self.until(&format!(
            "(() => {{ const one = {find}; one?.scrollIntoView({{ block: 'center' }}); \
             const box = one?.getBoundingClientRect(); const before = String(window.place); \
             window.place = box && [box.x + box.width / 2, box.y + box.height / 2]; \
             return place && String(place) === before && one.contains(document.elementFromPoint(...place)); }})()"
        ));
        let place = self.value("window.place");
        for kind in ["mousePressed", "mouseReleased"] {
            let click = json!({ "type": kind, "x": place[0], "y": place[1], "button": "left", "clickCount": 1 });
            self.call("Input.dispatchMouseEvent", &click);
        }
    }

    /// Moves the mouse, presses its button, moves it further and lets go.
    pub(super) fn drag(&mut self, [x, y]: [f64; 2], by: [f64; 2]) {
        let [to_x, to_y] = [x + by[0], y + by[1]];
        let moves = [
            ("mouseMoved", x, y, "none"),
            ("mousePressed", x, y, "left"),
            ("mouseMoved", f64::midpoint(x, to_x), f64::midpoint(y, to_y), "left"),
            ("mouseMoved", to_x, to_y, "left"),
            ("mouseReleased", to_x, to_y, "left"),
        ];
        for (kind, x, y, button) in moves {
            let held = u8::from(button == "left" && kind != "mouseReleased");
            let event = json!({ "type": kind, "x": x, "y": y, "button": button, "buttons": held, "clickCount": 1 });
            self.call("Input.dispatchMouseEvent", &event);
        }
    }

    /// Turns the wheel while keys are held: 2 is Ctrl, 8 is Shift.
    pub(super) fn wheel(&mut self, [x, y]: [f64; 2], [across, down]: [f64; 2], keys: u8) {
        let event = json!({ "type": "mouseWheel", "x": x, "y": y, "deltaX": across, "deltaY": down, "modifiers": keys });
        self.call("Input.dispatchMouseEvent", &event);
    }

    /// The middle of an element in the window.
    pub(super) fn middle(&mut self, selector: &str) -> [f64; 2] {
        let place = self.value(&format!(
            "{{ const one = document.querySelector({}); one.scrollIntoView({{ block: 'center' }}); \
             const box = one.getBoundingClientRect(); [box.x + box.width / 2, box.y + box.height / 2] }}",
            json!(selector)
        ));
        [0, 1].map(|index| place[index].as_f64().unwrap())
    }

    /// Chooses a file in an element that takes one.
    pub(super) fn choose_file(&mut self, selector: &str, file: &str) {
        let script = format!("document.querySelector({})", json!(selector));
        let found = self.call("Runtime.evaluate", &json!({ "expression": script }));
        let path = self.project.file(file);
        let chosen = json!({ "files": [path], "objectId": found["result"]["objectId"] });
        self.call("DOM.setFileInputFiles", &chosen);
    }

    /// Waits for an event of the browser, and returns the first.
    pub(super) fn event(&mut self, name: &str) -> Value {
        let deadline = std::time::Instant::now() + PATIENCE;
        loop {
            if let Some(event) = self.browser.events(name).first() {
                return event.clone();
            }
            assert!(std::time::Instant::now() < deadline, "the browser never said {name}");
            // Events come with the answer to the next command.
            self.value("new Promise((then) => setTimeout(then, 10))");
        }
    }

    /// Presses a key.
    pub(super) fn press(&mut self, key: &str) {
        let (text, code) = match key {
            "Enter" => ("\r", 13),
            "Escape" => ("", 27),
            key => (key, 0),
        };
        for kind in ["keyDown", "keyUp"] {
            let text = if kind == "keyDown" { text } else { "" };
            let event =
                json!({ "type": kind, "key": key, "text": text, "windowsVirtualKeyCode": code });
            self.call("Input.dispatchKeyEvent", &event);
        }
    }

    /// Writes into the element that has the focus.
    pub(super) fn write(&mut self, text: &str) {
        self.call("Input.insertText", &json!({ "text": text }));
    }

    pub(super) fn size(&mut self, width: u32, height: u32) {
        let size =
            json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false });
        self.call("Emulation.setDeviceMetricsOverride", &size);
    }

    /// What the system of the reader prefers, as `("prefers-color-scheme", "dark")`.
    pub(super) fn prefer(&mut self, what: &str, value: &str) {
        let features = json!([{ "name": what, "value": value }]);
        self.call("Emulation.setEmulatedMedia", &json!({ "features": features }));
    }

    pub(super) fn kill_server(&mut self) {
        kill(self.server.id(), libc::SIGKILL);
        self.server.wait().unwrap();
    }

    /// Starts the server again where it was.
    pub(super) fn restart_server(&mut self) {
        (self.server, _) = serve(&self.project, self.port);
    }

    /// Waits for the end of a run in the background.
    pub(super) fn wait_for_end(&self, run: &str) {
        wait_until("the run has ended", PATIENCE, || {
            let status = self.project.raymond(&["status", run, "--json"]).stdout;
            let status: Value = serde_json::from_str(&status).unwrap_or_default();
            status["status"] == "completed"
        });
    }

    /// The page was never loaded again, and nothing on it broke or was refused by its policy.
    pub(super) fn is_sound(&mut self) {
        assert_eq!(self.value("window.isSame"), json!(true), "the page was loaded again");
        let broken = self.browser.events("Runtime.exceptionThrown");
        assert!(broken.is_empty(), "{broken:?}");
        let refused = self.browser.events("Log.entryAdded");
        let refused = refused.iter().map(|event| &event["entry"]);
        let refused: Vec<_> = refused.filter(|entry| entry["source"] == "security").collect();
        assert!(refused.is_empty(), "{refused:?}");
    }
}

/// Starts a server and waits until it listens. Port 0 is any.
fn serve(project: &Project, port: u16) -> (Child, u16) {
    let mut command: Command = project.command(&["serve", "--port", &port.to_string()]);
    command.env("HOME", project.path()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut server = command.spawn().unwrap();
    let mut line = String::new();
    BufReader::new(server.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let port = line.trim().trim_end_matches('/').rsplit(':').next().unwrap().parse();
    (server, port.unwrap_or_else(|_| panic!("the server said: {line}")))
}
