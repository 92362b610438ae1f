"""Headless Chromium, controlled over its debugging pipe (Chrome DevTools Protocol) without Python
packages. Used by the tests of memtrace report's pages and by make_pictures.py."""
import base64
import fcntl
import json
import os
import select
import shutil
import signal
import tempfile
import time

PROGRAM = next((p for p in map(shutil.which, ("chromium", "chromium-browser", "google-chrome")) if p), None)


class Failure(Exception):
    pass


class Page:
    """One browser with one page. `problems` collects console errors, exceptions and requests that leave the machine."""

    def __init__(self, width=1300, height=900, dark=False, patience=60):
        self.patience, self.number, self.pending, self.session = patience, 0, b"", None
        self.problems, self.loaded = [], False
        self.profile = tempfile.mkdtemp(prefix="memtrace-chromium-")
        here_in, there_out = os.pipe()
        there_in, here_out = os.pipe()
        # Moves descriptors from 3 and 4, which the browser uses.
        there_in, there_out = (fcntl.fcntl(fd, fcntl.F_DUPFD, 20) for fd in (there_in, there_out))
        self.reader, self.writer = here_in, here_out
        quiet = os.open(os.devnull, os.O_RDWR)
        self.process = os.posix_spawn(PROGRAM, [
            PROGRAM, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
            "--disable-background-networking", "--disable-component-update", "--disable-extensions", "--hide-scrollbars",
            "--force-device-scale-factor=1", f"--user-data-dir={self.profile}", "--remote-debugging-pipe", "about:blank"],
            os.environ, setpgroup=0, file_actions=[
                (os.POSIX_SPAWN_DUP2, there_in, 3), (os.POSIX_SPAWN_DUP2, there_out, 4),
                *((os.POSIX_SPAWN_DUP2, quiet, fd) for fd in (0, 1, 2))])
        for fd in (there_in, there_out, quiet):
            os.close(fd)
        try:
            target = self.call("Target.createTarget", url="about:blank")["targetId"]
            self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
            for domain in ("Page", "Runtime", "Log", "Network"):
                self.call(domain + ".enable")
            self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"},
                                                              {"name": "prefers-reduced-motion", "value": "reduce"}])
            self.size(width, height)
        except BaseException:
            self.close()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        for fd in (self.reader, self.writer):
            os.close(fd)
        try:
            os.killpg(self.process, signal.SIGKILL)
            os.waitpid(self.process, 0)
        except (ProcessLookupError, ChildProcessError):
            pass
        shutil.rmtree(self.profile, ignore_errors=True)

    # ---- the protocol: JSON texts, each ended by a NUL ----

    def message(self, until):
        while b"\0" not in self.pending:
            ready, _, _ = select.select([self.reader], [], [], max(0.0, until - time.monotonic()))
            more = os.read(self.reader, 1 << 16) if ready else b""
            if not more:
                raise Failure("the browser " + ("ended" if ready else "does not answer"))
            self.pending += more
        text, _, self.pending = self.pending.partition(b"\0")
        return json.loads(text)

    def take(self, message):
        method, p = message.get("method"), message.get("params", {})
        if method == "Runtime.exceptionThrown":
            details = p["exceptionDetails"]
            self.problems.append(details.get("exception", {}).get("description", details["text"]))
        elif method == "Runtime.consoleAPICalled" and p["type"] in ("error", "warning", "assert"):
            self.problems.append(p["type"] + ": " + " ".join(str(a.get("value", a.get("description"))) for a in p["args"]))
        elif method == "Log.entryAdded" and p["entry"]["level"] in ("error", "warning"):
            self.problems.append(p["entry"]["text"])
        elif method == "Network.requestWillBeSent" and not p["request"]["url"].startswith(("file:", "data:", "about:")):
            self.problems.append("asks for " + p["request"]["url"])
        elif method == "Page.loadEventFired":
            self.loaded = True
        elif method == "Page.javascriptDialogOpening":
            self.problems.append("dialog: " + p["message"])

    def call(self, method, **params):
        self.number += 1
        text = {"id": self.number, "method": method, "params": params}
        if self.session:
            text["sessionId"] = self.session
        os.write(self.writer, json.dumps(text).encode() + b"\0")
        until = time.monotonic() + self.patience
        while True:
            answer = self.message(until)
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise Failure(f"{method}: {answer['error']['message']}")
                return answer["result"]
            self.take(answer)

    # ---- operations for tests ----

    def size(self, width, height):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def visit(self, url):
        self.loaded = False
        self.call("Page.navigate", url=url)
        until = time.monotonic() + self.patience
        while not self.loaded:
            self.take(self.message(until))

    def open(self, path, address=""):
        """Opens a file; `address` follows the file's name (#…)."""
        if address:
            self.visit("about:blank") # else the page might not be loaded again
        self.visit("file://" + os.path.abspath(path) + address)
        self.run("window.memtraceReport && memtraceReport.ready")  # a report draws its panels one after another
        self.settle()

    def run(self, script):
        """Returns the value of an expression, which may be a promise."""
        result = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            details = result["exceptionDetails"]
            raise Failure(f"{script}: {details.get('exception', {}).get('description', details['text'])}")
        return result["result"].get("value")

    def settle(self):
        """Waits for three frames, so that pending drawing is done."""
        self.run("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => requestAnimationFrame(done))))")

    def place(self, selector, x=0.5, y=0.5):
        """Scrolls to an element; returns a point in it, in window coordinates."""
        quoted = json.dumps(selector)
        self.run(f"document.querySelector({quoted}).scrollIntoView({{block: 'center', behavior: 'instant'}})")
        self.settle()
        return self.run(f"(() => {{ const b = document.querySelector({quoted}).getBoundingClientRect();"
                        f"return [b.left + b.width * {x}, b.top + b.height * {y}]; }})()")

    def mouse(self, kind, x, y, **more):
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)

    def move(self, selector, x=0.5, y=0.5):
        self.mouse("mouseMoved", *self.place(selector, x, y))
        self.settle()

    def click(self, selector, x=0.5, y=0.5):
        at = self.place(selector, x, y)
        for kind in ("mouseMoved", "mousePressed", "mouseReleased"):
            self.mouse(kind, *at, button="none" if kind == "mouseMoved" else "left", clickCount=1)
        self.settle()

    def wheel(self, selector, delta, x=0.5, y=0.5):
        at = self.place(selector, x, y)
        self.mouse("mouseWheel", *at, deltaX=0, deltaY=delta)
        self.settle()

    def key(self, name):
        code = {"ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40, "Enter": 13, "Escape": 27, "Tab": 9}.get(name, 0)
        text = {"text": name} if len(name) == 1 else {"text": "\r"} if name == "Enter" else {}
        self.call("Input.dispatchKeyEvent", type="keyDown", key=name, windowsVirtualKeyCode=code, **text)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=name, windowsVirtualKeyCode=code)
        self.settle()

    def text(self, selector):
        return self.run(f"document.querySelector({json.dumps(selector)}).innerText")

    def nodes(self):
        return self.run("document.querySelectorAll('*').length")

    def picture(self, path, selector=None):
        """Returns a PNG of an element, or of the window."""
        clip = {}
        if selector:
            self.place(selector)
            box = self.run(f"(() => {{ const b = document.querySelector({json.dumps(selector)}).getBoundingClientRect();"
                           "return [b.left + scrollX, b.top + scrollY, b.width, b.height]; })()")
            clip = {"clip": dict(zip(("x", "y", "width", "height"), box), scale=1), "captureBeyondViewport": True}
        with open(path, "wb") as f:
            f.write(base64.b64decode(self.call("Page.captureScreenshot", format="png", **clip)["data"]))
