"""A headless Chromium, driven through chromedriver over plain HTTP."""

import contextlib
import json
import os
import shutil
import subprocess
import time
import urllib.error
import urllib.request

import pytest

CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
DRIVER = shutil.which("chromedriver")
FLAGS = """
--headless --no-sandbox --disable-gpu --disable-software-rasterizer --disable-quic --no-first-run
--disable-sync --disable-background-networking --disable-component-update --disable-dev-shm-usage
--renderer-process-limit=1 --js-flags=--single-threaded
""".split()
RESTART = """
if (state.tour !== null) leave();
if (playing) pause();
restore("");
type(...(data.models[0].examples[0] ?? "").split("\\t"));
scrollTo(0, 0);
const drawn = done => requestAnimationFrame(() => requestAnimationFrame(done));
return new Promise(drawn);
"""

SOME = """
window.allSamples ??= window.sample;
window.sample = (...given) => window.allSamples(...given).slice(0, {strings});
"""


class Browser:
    shown = None
    """the page of models that is open, and may have been used since it was loaded"""

    def __init__(self, port, profile):
        self._base = f"http://127.0.0.1:{port}"
        options = {"binary": CHROMIUM, "args": [*FLAGS, f"--user-data-dir={profile}"]}
        wanted = {
            "browserName": "chrome",
            "goog:chromeOptions": options,
            "timeouts": {"script": 600_000},
        }
        wanted["goog:loggingPrefs"] = {"browser": "ALL"}
        self._session = self._ask("POST", "/session", {"capabilities": {"alwaysMatch": wanted}})[
            "sessionId"
        ]
        # without a screen no window has the focus, and a newer Chromium then tells of none
        self.devtools("Emulation.setFocusEmulationEnabled", enabled=True)

    def _ask(self, method, path, body=None):
        request = urllib.request.Request(
            self._base + path,
            data=None if body is None else json.dumps(body).encode(),
            method=method,
            headers={"Content-Type": "application/json"},
        )
        try:
            with urllib.request.urlopen(request, timeout=660) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as error:
            raise AssertionError(error.read().decode()) from None

    def open(self, path, fragment=""):
        self.shown = None
        self._ask("POST", f"/session/{self._session}/url", {"url": path.as_uri() + fragment})

    def show(self, path, fragment="", strings=4):
        """Load a page of models; where it is loaded, undo what was done to it, which is quicker. Of
        the random strings that its tour tries there are so few.
        """
        if fragment:
            self.open(path, f"?{fragment}#{fragment}")
        elif self.shown == path:
            self.run(RESTART)
        else:
            self.open(path)
            self.shown = path
        self.run(SOME.replace("{strings}", str(strings)))

    def run(self, script):
        """Run the body of a JavaScript function and return its value."""
        return self._ask(
            "POST", f"/session/{self._session}/execute/sync", {"script": script, "args": []}
        )

    def enter_frame(self, number):
        """Let `run` see a frame of the page, until another page is opened."""
        self._ask("POST", f"/session/{self._session}/frame", {"id": number})

    def devtools(self, command, **parameters):
        body = {"cmd": command, "params": parameters}
        return self._ask("POST", f"/session/{self._session}/goog/cdp/execute", body)

    def resize(self, width, height):
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": True}
        self.devtools("Emulation.setDeviceMetricsOverride", **size)

    def spoken(self):
        """Role and name of what the browser tells a screen reader of."""
        nodes = self.devtools("Accessibility.getFullAXTree")["nodes"]
        return [
            (one["role"]["value"], one.get("name", {}).get("value", ""))
            for one in nodes
            if not one["ignored"]
        ]

    def console(self):
        """The errors logged since the last call, by the page or by its requests."""
        return [
            line["message"]
            for line in self._ask("POST", f"/session/{self._session}/se/log", {"type": "browser"})
        ]

    def close(self):
        self._ask("DELETE", f"/session/{self._session}")


@contextlib.contextmanager
def opened_browser(folder):
    """Without a Chromium, skip the test, or fail if SEQ2ATTN_REQUIRE_BROWSER is set, as in CI."""
    if CHROMIUM is None or DRIVER is None:
        give_up = pytest.fail if os.environ.get("SEQ2ATTN_REQUIRE_BROWSER") else pytest.skip
        give_up("needs a browser: apt-get install chromium chromium-driver")
    with (folder / "driver.log").open("w+") as log:
        process = subprocess.Popen([DRIVER, "--port=0"], stdout=log, stderr=subprocess.STDOUT)
        try:
            port = _port(folder / "driver.log", process)
            browser = Browser(port, folder / "profile")
            try:
                yield browser
            finally:
                browser.close()
        finally:
            process.terminate()
            process.wait(timeout=10)


def _port(log, process):
    """The port that the driver chose, from its output."""
    for _ in range(200):
        words = log.read_text().split()
        if "port" in words and "successfully" in words:
            return int(words[-1].rstrip("."))
        assert process.poll() is None, log.read_text()
        time.sleep(0.05)
    raise AssertionError(log.read_text())
