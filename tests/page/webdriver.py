"""A headless Chromium, driven by chromedriver over plain HTTP (the W3C WebDriver protocol and Chromium's own commands)."""
import base64
import http.client
import json
import os
import re
import subprocess
import tempfile
import time

ELEMENT = "element-6066-11e4-a52e-4f735466cecf"
PATIENCE_S = 60  # for what must come; nothing is expected to be quick

KEYS = {"Tab": "\ue004", "Enter": "\ue007", "Shift": "\ue008", "Escape": "\ue00c", "Space": " ", "Left": "\ue012", "Up": "\ue013",
        "Right": "\ue014", "Down": "\ue015"}


class WebDriverError(Exception):
    pass


class Browser:
    def __init__(self, width=1280, height=900):
        self.profile = tempfile.TemporaryDirectory(prefix="strobe-page-")
        self.log_file = open(os.path.join(self.profile.name, "chromedriver.log"), "w+", encoding="utf-8")
        self.driver = subprocess.Popen(["chromedriver", "--port=0"], stdout=self.log_file, stderr=subprocess.STDOUT)
        self.connection = None
        self.session = None
        try:
            self.connection = http.client.HTTPConnection("127.0.0.1", self._port(), timeout=PATIENCE_S)
            arguments = ["--headless=new", "--no-first-run", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars",
                         f"--window-size={width},{height}", f"--user-data-dir={self.profile.name}/profile",
                         "--disable-background-networking", "--disable-component-update", "--disable-sync"]
            if os.geteuid() == 0:
                arguments.append("--no-sandbox")
            answer = self._call("POST", "/session", {"capabilities": {"alwaysMatch": {
                "browserName": "chrome",
                "goog:chromeOptions": {"args": arguments},
                "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"}}}})
            self.session = f"/session/{answer['sessionId']}"
        except BaseException:
            self.close()
            raise

    def _port(self):
        """Of chromedriver, which says it when it is ready."""
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            self.log_file.seek(0)
            text = self.log_file.read()
            found = re.search(r"started successfully on port (\d+)", text)
            if found:
                return int(found.group(1))
            if self.driver.poll() is not None:
                raise WebDriverError(f"chromedriver ended with {self.driver.returncode}:\n{text}")
            time.sleep(0.05)
        raise WebDriverError("chromedriver did not start")

    def _call(self, method, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        self.connection.request(method, path, data, {"Content-Type": "application/json"})
        response = self.connection.getresponse()
        value = json.loads(response.read())["value"]
        if response.status != 200:
            raise WebDriverError(f"{value['error']}: {value['message']}")
        return value

    def call(self, method, path, body=None):
        return self._call(method, self.session + path, body)

    def close(self):
        if self.session:
            try:
                self._call("DELETE", self.session)
            except (WebDriverError, OSError, http.client.HTTPException):
                pass  # the process goes all the same
            self.connection.close()
        self.driver.terminate()
        self.driver.wait()
        self.log_file.close()
        self.profile.cleanup()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    # The page
    def open(self, url):
        self.call("POST", "/url", {"url": url})

    def run(self, script, *arguments):
        """The value of a JavaScript function's body."""
        return self.call("POST", "/execute/sync", {"script": script, "args": list(arguments)})

    def cdp(self, command, **parameters):
        return self.call("POST", "/goog/cdp/execute", {"cmd": command, "params": parameters})

    def element(self, selector):
        return self.call("POST", "/element", {"using": "css selector", "value": selector})[ELEMENT]

    def click(self, selector):
        self.call("POST", f"/element/{self.element(selector)}/click", {})

    def type(self, selector, text):
        self.call("POST", f"/element/{self.element(selector)}/value", {"text": text})

    def press(self, *names):
        """Keys to whatever has the focus, one after another; "Shift+Tab" holds Shift."""
        actions = []
        for name in names:
            keys = [KEYS.get(part, part) for part in name.split("+")]
            actions += [{"type": "keyDown", "value": key} for key in keys]
            actions += [{"type": "keyUp", "value": key} for key in reversed(keys)]
        self.call("POST", "/actions", {"actions": [{"type": "key", "id": "keyboard", "actions": actions}]})

    def hover(self, selector):
        origin = {ELEMENT: self.element(selector)}
        move = {"type": "pointerMove", "duration": 0, "x": 0, "y": 0, "origin": origin}
        self.call("POST", "/actions", {"actions": [{"type": "pointer", "id": "mouse", "actions": [move]}]})

    def text(self, selector):
        """As it stands in the document, shown or not."""
        return self.run("return document.querySelector(arguments[0])?.textContent ?? null", selector)

    def count(self, selector):
        return self.run("return document.querySelectorAll(arguments[0]).length", selector)

    def visible(self, selector):
        return self.run("const e = document.querySelector(arguments[0]); return Boolean(e && e.checkVisibility())", selector)

    def wait(self, what, condition):
        """Until condition() is true (its value comes back); a failure names `what`."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            value = condition()
            if value:
                return value
            if time.monotonic() > deadline:
                raise AssertionError(f"this did not happen in {PATIENCE_S} s: {what}")
            time.sleep(0.1)

    def size(self, width, height):
        """Of the page, as a device has it."""
        self.cdp("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 700)

    def media(self, **features):
        """media(prefers_color_scheme="dark")"""
        listed = [{"name": name.replace("_", "-"), "value": value} for name, value in features.items()]
        self.cdp("Emulation.setEmulatedMedia", features=listed)

    def screenshot(self, path):
        with open(path, "wb") as file:
            file.write(base64.b64decode(self.call("GET", "/screenshot")))

    # What the browser noticed
    def console(self):
        """Messages since the last call: [(level, text)]."""
        return [(entry["level"], entry["message"]) for entry in self.call("POST", "/se/log", {"type": "browser"})]

    def requested(self):
        """URLs that were fetched since the last call."""
        urls = []
        for entry in self.call("POST", "/se/log", {"type": "performance"}):
            message = json.loads(entry["message"])["message"]
            if message["method"] == "Network.requestWillBeSent":
                urls.append(message["params"]["request"]["url"])
        return urls
