"""A `strobe serve` for the clients of this folder. Standard library only."""
import json
import re
import signal
import subprocess
import threading
import time
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
READY_SECONDS = 300
API_KEY = "compat-key"


class StrobeServer:
    """Starts the server on a free port and ends it. `log`: where its words go; `key`: what clients must send, or None."""

    def __init__(self, binary: Path, log: Path, extra: list[str] = (), key: str | None = API_KEY,
                 models: Path = ROOT / "models/pocket-k2"):
        self.command = [str(binary), "serve", "--model-path", str(models / "target"), "--served-model-name", "pocket-k2",
                        "--speculative-algorithm", "DFLASH", "--speculative-draft-model-path", str(models / "draft"),
                        "--port", "0", *(["--api-key", key] if key else []), *extra]
        self.log = log
        self.url = ""

    def __enter__(self):
        self.log.parent.mkdir(parents=True, exist_ok=True)
        self.file = self.log.open("w")
        self.process = subprocess.Popen(self.command, stdout=self.file, stderr=subprocess.STDOUT)
        try:
            self.url = self._wait_for_address()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGTERM)
        try:
            self.exit_code = self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.exit_code = self.process.wait()
        self.file.close()

    def _wait_for_address(self) -> str:
        deadline = time.monotonic() + READY_SECONDS
        while time.monotonic() < deadline:
            found = re.search(r"serves \S+ on (http://[\d.]+:\d+)", self.log.read_text())
            if found:
                return found.group(1)
            if self.process.poll() is not None:
                break
            time.sleep(0.05)
        raise RuntimeError(f"strobe serve did not become ready; its log is {self.log}:\n{self.log.read_text()[-2000:]}")

    def request(self, method: str, path: str, body: dict | None = None) -> dict | list | str:
        request = urllib.request.Request(self.url + path, method=method, data=None if body is None else json.dumps(body).encode(),
                                         headers={"Authorization": f"Bearer {API_KEY}", "Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=120) as answer:
            text = answer.read().decode()
        return json.loads(text) if text.startswith(("{", "[")) else text

    def load(self) -> dict:
        return self.request("GET", "/v1/loads")["loads"][0]

    def wait_until_idle(self, seconds: float = 120) -> dict:
        """Until no request runs or waits and, after a flush of the cache, no page is held; the load then, or the last one."""
        deadline = time.monotonic() + seconds
        while True:
            load = self.load()
            if load["num_total_reqs"] == 0:
                self.request("POST", "/flush_cache")
                load = self.load()
                if load["num_used_tokens"] == 0:
                    return load
            if time.monotonic() > deadline:
                return load
            time.sleep(0.05)


class Report:
    """What was checked. Safe from several threads."""

    def __init__(self):
        self.failed = 0
        self.checked = 0
        self.lock = threading.Lock()

    def check(self, good: bool, text: str) -> bool:
        with self.lock:
            self.checked += 1
            self.failed += 0 if good else 1
            print(f"{'ok  ' if good else 'FAIL'} {text}", flush=True)
        return good

    def equal(self, got, wanted, text: str) -> bool:
        return self.check(got == wanted, text if got == wanted else f"{text}: {got!r} instead of {wanted!r}")

    def exit_code(self) -> int:
        print(f"{self.checked - self.failed} of {self.checked} checks passed")
        return 0 if self.failed == 0 and self.checked > 0 else 1
