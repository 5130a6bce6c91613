"""A browser without a screen for scripts/screenshots and scripts/bench-page."""

import base64
import json
import os
import shutil
import subprocess
import sys
import time

# A long wait means that something is broken.
PATIENCE_S = 60


class Browser:
    """Chromium without a screen, spoken to in its own protocol over two pipes."""

    def __init__(self, folder):
        program = next(filter(None, map(shutil.which, ["chromium", "chromium-browser", "google-chrome"])), None)
        if program is None:
            sys.exit("no browser is installed (Debian: apt-get install chromium)")
        options = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--hide-scrollbars",
                   "--disable-background-networking", "--disable-component-update", "--disable-sync",
                   "--remote-debugging-pipe", f"--user-data-dir={folder}", "about:blank"]
        # The browser reads from descriptor 3 and writes to 4.
        self.process = subprocess.Popen(["bash", "-c", 'exec "$0" "$@" 3<&0 4>&1 1>&2', program, *options],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        self.last, self.rest = 0, b""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = None
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self.call("Page.enable")

    session = None

    def close(self):
        self.process.kill()
        self.process.wait()

    def call(self, method, **params):
        self.last += 1
        message = {"id": self.last, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        self.process.stdin.write(json.dumps(message).encode() + b"\0")
        self.process.stdin.flush()
        while True:
            while b"\0" not in self.rest:
                more = os.read(self.process.stdout.fileno(), 1 << 20)
                if not more:
                    sys.exit("the browser has ended")
                self.rest += more
            line, self.rest = self.rest.split(b"\0", 1)
            answer = json.loads(line)
            if answer.get("id") == self.last:
                if "error" in answer:
                    sys.exit(f"{method}: {answer['error']['message']}")
                return answer["result"]

    def value(self, script):
        result = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            sys.exit(f"{script}: {result['exceptionDetails']}")
        return result["result"].get("value")

    def until(self, script):
        end = time.monotonic() + PATIENCE_S
        while not self.value(f"Boolean({script})"):
            if time.monotonic() > end:
                sys.exit(f"never true on the page: {script}\n{self.value('document.body.innerText')}")
            time.sleep(0.05)

    def size(self, width, height, scheme):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def picture(self, path):
        # Two frames later everything that was scheduled is drawn.
        self.value("new Promise((then) => requestAnimationFrame(() => requestAnimationFrame(then)))")
        over = self.value("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        if over > 0:
            print(f"{path.name}: {over} px wider than the window", file=sys.stderr)
        path.write_bytes(base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"]))
