"""A headless Chromium, driven over its DevTools protocol through a pipe."""
import base64
import itertools
import json
import os
import select
import shutil
import subprocess
import tempfile
import time


def find_chromium():
    for name in ("chromium", "chromium-browser", "google-chrome"):
        path = shutil.which(name)
        if path:
            return path
    return None


class Browser:
    """One browser with one page. Everything the page complains about or asks the network
    for is in `complaints` and `requests`."""

    def __init__(self, path, timeout=60):
        self.timeout = timeout
        self.profile = tempfile.mkdtemp(prefix="weir-page-")
        to_child, self.write_fd = os.pipe()
        self.read_fd, from_child = os.pipe()

        def pipes():
            # The protocol wants 3 and 4; copies first, since the pipes may have those numbers.
            a, b = os.dup(to_child), os.dup(from_child)
            os.dup2(a, 3)
            os.dup2(b, 4)

        self.process = subprocess.Popen(
            [path, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
             "--remote-debugging-pipe", "--no-first-run", "--disable-background-networking",
             "--disable-component-update", "--disable-sync", "--hide-scrollbars",
             "--user-data-dir=" + self.profile, "about:blank"],
            preexec_fn=pipes, close_fds=False,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(to_child)
        os.close(from_child)
        self.buffer = b""
        self.ids = itertools.count(1)
        self.session = None
        self.complaints, self.requests = [], []

    def close(self):
        self.process.kill()
        self.process.wait()
        os.close(self.write_fd)
        os.close(self.read_fd)
        shutil.rmtree(self.profile, ignore_errors=True)

    def message(self, deadline):
        while b"\0" not in self.buffer:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self.read_fd], [], [], left)[0]:
                raise TimeoutError("the browser did not answer")
            piece = os.read(self.read_fd, 1 << 20)
            if not piece:
                raise RuntimeError("the browser is gone")
            self.buffer += piece
        text, self.buffer = self.buffer.split(b"\0", 1)
        return json.loads(text)

    def note(self, event):
        params = event.get("params", {})
        if event["method"] == "Runtime.exceptionThrown":
            self.complaints.append(str(params["exceptionDetails"].get("exception", params)))
        elif event["method"] == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning"):
            self.complaints.append(str(params["args"]))
        elif event["method"] == "Log.entryAdded" and params["entry"]["level"] == "error":
            self.complaints.append(params["entry"]["text"])
        elif event["method"] == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])

    def call(self, method, **params):
        number = next(self.ids)
        request = {"id": number, "method": method, "params": params}
        if self.session and not method.startswith(("Target.", "Browser.")):
            request["sessionId"] = self.session
        os.write(self.write_fd, json.dumps(request).encode() + b"\0")
        deadline = time.monotonic() + self.timeout
        while True:
            answer = self.message(deadline)
            if answer.get("id") == number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]
            if "method" in answer:
                self.note(answer)

    def open(self, path, width=1280, height=800, dark=False):
        """Opens a file and waits until the page is there."""
        if not self.session:
            target = self.call("Target.createTarget", url="about:blank")["targetId"]
            self.session = self.call("Target.attachToTarget", targetId=target,
                                     flatten=True)["sessionId"]
            for domain in ("Page", "Runtime", "Log", "Network"):
                self.call(domain + ".enable")
            self.call("Performance.enable", timeDomain="threadTicks")
        self.complaints, self.requests = [], []
        self.resize(width, height)
        self.call("Emulation.setEmulatedMedia", features=[
            {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])
        self.call("Page.navigate", url=path if path.startswith("http:") else "file://" + os.path.abspath(path))
        self.wait_for("window.weir !== undefined && document.readyState === 'complete'")
        self.settle()

    def resize(self, width, height):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height,
                  deviceScaleFactor=1, mobile=False)

    def eval(self, expression):
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True,
                           awaitPromise=True)
        if "exceptionDetails" in result:
            raise RuntimeError(f"{expression}: {result['exceptionDetails']}")
        return result["result"].get("value")

    def wait_for(self, expression):
        deadline = time.monotonic() + self.timeout
        while not self.eval(expression):
            if time.monotonic() > deadline:
                raise TimeoutError(expression)
            time.sleep(0.02)

    def settle(self):
        """Until what changed has been drawn."""
        self.eval("new Promise(f => requestAnimationFrame(() => requestAnimationFrame(f)))")

    def mouse(self, kind, x, y, **more):
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)

    def wheel(self, x, y, dy, shift=False):
        self.mouse("mouseWheel", x, y, deltaX=0, deltaY=dy, modifiers=8 if shift else 0)
        self.settle()

    def drag(self, x1, y1, x2, y2):
        self.mouse("mousePressed", x1, y1, button="left", clickCount=1)
        for i in range(1, 5):
            self.mouse("mouseMoved", x1 + (x2 - x1) * i / 4, y1 + (y2 - y1) * i / 4, button="left",
                       buttons=1)
        self.mouse("mouseReleased", x2, y2, button="left", clickCount=1)
        self.settle()

    def click(self, x, y):
        self.mouse("mousePressed", x, y, button="left", clickCount=1)
        self.mouse("mouseReleased", x, y, button="left", clickCount=1)
        self.settle()

    def key(self, key):
        text = key if len(key) == 1 else "\r" if key == "Enter" else ""
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key, text=text)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key)
        self.settle()

    def cpu_ms(self):
        """What the page's thread has computed so far: not what other programs took meanwhile."""
        metrics = self.call("Performance.getMetrics")["metrics"]
        return 1000 * next(m["value"] for m in metrics if m["name"] == "TaskDuration")

    def screenshot(self, path):
        self.settle()
        data = self.call("Page.captureScreenshot", format="png")["data"]
        with open(path, "wb") as f:
            f.write(base64.b64decode(data))

    def pdf(self):
        return base64.b64decode(self.call("Page.printToPDF", landscape=True,
                                          printBackground=True)["data"])
