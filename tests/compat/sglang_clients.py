"""SGLang's own client programs, as they come from PyPI, against `strobe serve` with the model that comes along.

  python tests/compat/sglang_clients.py [--binary build/release/strobe] [--data ../shared/data] [--out build/compat]

bench_serving (three dialects), bench_one_batch_server, run_eval gsm8k (when the data is there), and sglang-router in front of two
servers, one of which is killed under load. Needs tests/compat/requirements-sglang*.txt.
"""
import argparse
import json
import os
import re
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from strobe_server import ROOT, Report, StrobeServer

TARGET = ROOT / "models/pocket-k2/target"
CLIENT_SECONDS = 900
ROUTER_REQUESTS = 120
ROUTER_THREADS = 12


def client(args, name: str, module: str, *more: str) -> tuple[int, str]:
    """Runs a client program; its exit code and what it printed, which also goes into a log."""
    log = args.out / f"sglang-{name}.log"
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "SGLANG_IS_IN_CI": "false"}
    with log.open("w") as file:
        code = subprocess.run([sys.executable, "-m", module, *more], stdout=file, stderr=subprocess.STDOUT, env=environment, cwd=args.out,
                              timeout=CLIENT_SECONDS, check=False).returncode
    if code != 0:
        print(f"     exit code {code}; {log}:\n{log.read_text()[-3000:]}")
    return code, log.read_text()


def check_bench_serving(args, server: StrobeServer, report: Report):
    for backend, more in (("sglang", ["--return-logprob", "--top-logprobs-num", "2"]), ("sglang-oai", []), ("sglang-oai-chat", [])):
        result = args.out / f"bench-{backend}.jsonl"
        result.unlink(missing_ok=True)
        code, _ = client(args, f"bench-{backend}", "sglang.bench_serving", "--backend", backend, "--base-url", server.url,
                         "--model", "pocket-k2", "--tokenizer", str(TARGET), "--dataset-name", "random-ids", "--num-prompts", "16",
                         "--random-input-len", "40", "--random-output-len", "24", "--random-range-ratio", "0.5", "--seed", "1",
                         "--max-concurrency", "8", "--flush-cache", "--output-file", str(result), "--disable-tqdm", *more)
        report.equal(code, 0, f"bench_serving --backend {backend} ends well")
        if not result.exists():
            report.check(False, f"bench_serving --backend {backend} wrote a result")
            continue
        numbers = json.loads(result.read_text().splitlines()[-1])
        report.equal(numbers["completed"], 16, f"bench_serving --backend {backend}: all requests were served")
        report.check(numbers["accept_length"] is not None and numbers["accept_length"] >= 1,
                     f"bench_serving --backend {backend}: accept length {numbers['accept_length']}")
        report.check(numbers["mean_ttft_ms"] > 0 and numbers["total_output_tokens"] > 0,
                     f"bench_serving --backend {backend}: it has times")


def check_one_batch_server(args, server: StrobeServer, report: Report):
    result = args.out / "one-batch.jsonl"
    result.unlink(missing_ok=True)
    code, _ = client(args, "one-batch", "sglang.bench_one_batch_server", "--model", "None", "--base-url", server.url,
                     "--batch-size", "1", "4", "--input-len", "64", "--output-len", "24", "--dataset-name", "random-ids", "--local-tokenizer-path", str(TARGET),
                     "--skip-warmup", "--show-report", "--result-filename", str(result))
    report.equal(code, 0, "bench_one_batch_server ends well")
    lines = [json.loads(line) for line in result.read_text().splitlines()] if result.exists() else []
    report.equal([line["batch_size"] for line in lines], [1, 4], "bench_one_batch_server: a result for each batch size")
    report.check(all(line["last_ttft"] > 0 for line in lines), "bench_one_batch_server: it saw the first tokens")
    report.check(bool(lines) and all(line["acc_length"] >= 1 for line in lines), "bench_one_batch_server: it read the accept length")


def check_run_eval(args, server: StrobeServer, report: Report):
    data = args.data / "gsm8k/test.jsonl"
    if not data.exists():
        print(f"     run_eval is left out: {data} is not there")
        return
    code, text = client(args, "run-eval", "sglang.test.run_eval", "--base-url", server.url, "--model", "pocket-k2", "--eval-name", "gsm8k",
                        "--api", "completion", "--num-examples", "12", "--num-threads", "6", "--max-tokens", "64", "--temperature", "0",
                        "--gsm8k-data-path", str(data.resolve()))
    report.equal(code, 0, "run_eval gsm8k ends well")
    report.check(re.search(r"[Ss]core: *\d", text) is not None, "run_eval gsm8k: it has a score")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Router:
    def __init__(self, args, workers: list[str]):
        self.url = f"http://127.0.0.1:{free_port()}"
        self.command = [sys.executable, "-m", "sglang_router.launch_router", "--host", "127.0.0.1", "--port", self.url.rsplit(":", 1)[1],
                        "--worker-urls", *workers, "--policy", "round_robin", "--health-check-interval-secs", "2",
                        "--prometheus-port", str(free_port())]
        self.log = args.out / "sglang-router.log"

    def __enter__(self):
        self.file = self.log.open("w")
        self.process = subprocess.Popen(self.command, stdout=self.file, stderr=subprocess.STDOUT)
        deadline = time.monotonic() + 180
        while time.monotonic() < deadline and self.process.poll() is None:
            try:
                if self.ask(0).get("text") is not None:
                    return self
            except (OSError, ValueError):
                time.sleep(0.5)
        self.__exit__()
        raise RuntimeError(f"the router did not answer; {self.log}:\n{self.log.read_text()[-3000:]}")

    def __exit__(self, *_):
        self.process.terminate()
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.file.close()

    def ask(self, number: int) -> dict:
        body = {"text": f"{number} pens and", "sampling_params": {"temperature": 0, "max_new_tokens": 32, "ignore_eos": True}}
        request = urllib.request.Request(self.url + "/generate", data=json.dumps(body).encode(),
                                         headers={"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=120) as answer:
            return json.load(answer)


def check_router(args, report: Report):
    servers = [StrobeServer(args.binary, args.out / f"router-server-{i}.log", ["--max-running-requests", "8"], key=None) for i in (0, 1)]
    with servers[0] as stays, servers[1] as dies, Router(args, [stays.url, dies.url]) as router:
        lost, lock, done = [], threading.Lock(), threading.Semaphore(0)

        def one(number: int):
            try:
                good = router.ask(number)["meta_info"]["completion_tokens"] == 32
            except (urllib.error.URLError, OSError, ValueError, KeyError):
                good = False
            with lock:
                if not good:
                    lost.append(number)
            done.release()

        with ThreadPoolExecutor(ROUTER_THREADS) as pool:
            for number in range(ROUTER_REQUESTS):
                pool.submit(one, number)
            for _ in range(ROUTER_REQUESTS // 4):
                done.acquire()
            busy = dies.load()["num_total_reqs"]
            dies.process.kill()
            print(f"     killed one of two servers with {busy} requests on it")
        served = stays.request("GET", "/metrics")
        report.check("sglang:num_requests_total" in served, "router: the server that stayed has its metrics")
        report.check(len(lost) <= ROUTER_THREADS,
                     f"router: {len(lost)} of {ROUTER_REQUESTS} requests were lost, no more than were in flight")
        report.check(all(router.ask(1000 + i)["meta_info"]["completion_tokens"] == 32 for i in range(8)),
                     "router: afterwards all are served")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", type=Path, default=ROOT / "build/release/strobe")
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared/data")
    parser.add_argument("--out", type=Path, default=ROOT / "build/compat")
    args = parser.parse_args()
    args.out, args.binary, args.data = args.out.resolve(), args.binary.resolve(), args.data.resolve()
    args.out.mkdir(parents=True, exist_ok=True)
    report = Report()
    with StrobeServer(args.binary, args.out / "sglang-server.log", ["--max-running-requests", "16"], key=None) as server:
        check_bench_serving(args, server, report)
        check_one_batch_server(args, server, report)
        check_run_eval(args, server, report)
        load = server.wait_until_idle()
        report.equal((load["num_total_reqs"], load["num_used_tokens"]), (0, 0), "nothing runs any more and no page is held")
    check_router(args, report)
    return report.exit_code()


if __name__ == "__main__":
    sys.exit(main())
