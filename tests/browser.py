"""A headless Chromium, driven over loopback by the WebDriver protocol and the standard library."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import tempfile
import urllib.request

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
DRIVER = shutil.which("chromedriver")
WHY_NOT = "no Chromium with chromedriver here: apt-get install chromium chromium-driver"

_FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
_ELEMENT = "element-6066-11e4-a52e-4f735466cecf"


class Browser:
    """One window; a context manager that leaves nothing behind."""

    def __enter__(self):
        self.folder = tempfile.mkdtemp()
        self.process = subprocess.Popen(
            [DRIVER, "--port=0"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        try:
            self.base = f"http://127.0.0.1:{self._port()}/session"
            self.opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
            options = {
                "binary": CHROMIUM,
                "args": [*_FLAGS, f"--user-data-dir={self.folder}"],
            }
            wanted = {
                "goog:chromeOptions": options,
                "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"},
            }
            answer = self._send("", {"capabilities": {"alwaysMatch": wanted}})
            self.base += "/" + answer["sessionId"]
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, *_):
        try:
            self._send("", method="DELETE")
        finally:
            self._end()

    def _end(self):
        self.process.terminate()
        self.process.wait(30)
        self.process.stdout.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _port(self):
        for line in self.process.stdout:
            found = re.search(r"started successfully on port (\d+)", line)
            if found:
                return found.group(1)
        raise RuntimeError("chromedriver did not start")

    def _send(self, path, content=None, method="POST"):
        data = None if method != "POST" else json.dumps(content or {}).encode()
        request = urllib.request.Request(self.base + path, data, method=method)
        with self.opener.open(request, timeout=120) as answer:
            return json.load(answer)["value"]

    def protocol(self, command, **parameters):
        """A command of Chromium's own protocol."""
        return self._send("/goog/cdp/execute", {"cmd": command, "params": parameters})

    def open(self, path, *, width=1000, dark=False):
        """Show a file on a screen of this width; forgets what was logged before."""
        self.protocol(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=900,
            deviceScaleFactor=1,
            mobile=width < 500,
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.protocol("Emulation.setEmulatedMedia", features=[scheme])
        self.requested(), self.console()
        self._send("/url", {"url": path.as_uri()})

    def run(self, script, *arguments):
        """The value that JavaScript returns."""
        return self._send("/execute/sync", {"script": script, "args": list(arguments)})

    def press(self, selector, keys):
        """Press keys while an element has the focus."""
        found = self._send("/element", {"using": "css selector", "value": selector})
        self._send(f"/element/{found[_ELEMENT]}/value", {"text": keys})

    def console(self):
        """Messages since the last time, errors of scripts and of loading among them."""
        return [entry["message"] for entry in self._send("/se/log", {"type": "browser"})]

    def requested(self):
        """Addresses asked for since the last time."""
        entries = self._send("/se/log", {"type": "performance"})
        events = [json.loads(entry["message"])["message"] for entry in entries]
        return [
            event["params"]["request"]["url"]
            for event in events
            if event["method"] == "Network.requestWillBeSent"
        ]
