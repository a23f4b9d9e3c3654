"""Many clients, most of them bad: 2,000 streams at once, then minutes of aborts, disconnects, slow readers and broken requests.

  python tests/compat/load.py [--binary build/release/strobe] [--streams 2000] [--minutes 10] [--out build/compat]

Every answer that is read to its end must be the one that the server gives when nobody else is there (greedy texts don't
depend on company); at the end nothing runs, no page is held, and the memory has not grown. A server that was built with a
sanitizer must have found nothing (its memory is not watched: sanitizers keep what was freed). Standard library only.
"""
import argparse
import asyncio
import json
import random
import resource
import sys
import time
from pathlib import Path

from strobe_server import ROOT, Report, StrobeServer

PROBLEMS = [json.loads(line)["question"] for line in (ROOT / "tests/data/wordproblems.jsonl").open()][:40]
MAX_TOKENS = 48
WORKERS = 96
CUT = object()  # the server closed a stream before its end


class Client:
    def __init__(self, url: str):
        self.host, port = url.removeprefix("http://").split(":")
        self.port = int(port)

    async def send(self, path: str, body: bytes, length: int | None = None):
        reader, writer = await asyncio.open_connection(self.host, self.port, limit=1 << 20)
        head = (f"POST {path} HTTP/1.1\r\nHost: {self.host}\r\nContent-Type: application/json\r\nConnection: close\r\n"
                f"Content-Length: {len(body) if length is None else length}\r\n\r\n")
        writer.write(head.encode() + body)
        await writer.drain()
        return reader, writer

    async def stream(self, problem: int, rid: str | None = None, max_tokens: int = MAX_TOKENS):
        body = {"model": "pocket-k2", "messages": [{"role": "user", "content": PROBLEMS[problem]}], "temperature": 0,
                "max_tokens": max_tokens, "stream": True}
        if rid:
            body["rid"] = rid
        return await self.send("/v1/chat/completions", json.dumps(body).encode())


async def read_status(reader) -> int:
    line = await asyncio.wait_for(reader.readline(), 300)
    while await asyncio.wait_for(reader.readline(), 300) not in (b"\r\n", b""):
        pass
    return int(line.split()[1]) if line else 0


async def read_events(reader, pause: float = 0, most: int | None = None):
    """The text of a stream; CUT when it does not end with [DONE]. `most`: leave after so many events."""
    text, count = "", 0
    while True:
        line = await asyncio.wait_for(reader.readline(), 300)
        if not line:
            return CUT
        if not line.startswith(b"data: "):
            continue
        if line.strip() == b"data: [DONE]":
            return text
        for choice in json.loads(line[6:]).get("choices", []):
            text += choice["delta"].get("content") or ""
        count += 1
        if most is not None and count >= most:
            return None
        if pause:
            await asyncio.sleep(pause)


async def whole(client: Client, problem: int) -> str:
    reader, writer = await client.stream(problem)
    status = await read_status(reader)
    text = await read_events(reader) if status == 200 else f"status {status}"
    writer.close()
    return text


async def many_streams(client: Client, count: int, expected: list, report: Report):
    open_at_once = 0
    most_open = 0

    async def one(number: int):
        nonlocal open_at_once, most_open
        reader, writer = await client.stream(number % len(PROBLEMS))
        open_at_once += 1
        most_open = max(most_open, open_at_once)
        status = await read_status(reader)
        text = await read_events(reader) if status == 200 else f"status {status}"
        open_at_once -= 1
        writer.close()
        return text == expected[number % len(PROBLEMS)]

    begin = time.monotonic()
    right = sum(await asyncio.gather(*(one(i) for i in range(count))))
    print(f"     {count} streams in {time.monotonic() - begin:.1f} s, at most {most_open} open at once")
    report.equal(right, count, f"{count} streams at once: each has the text of a quiet server")
    report.check(most_open >= count * 9 // 10, f"most of them were open together ({most_open})")


class Churn:
    """One minute-long crowd. Counts what happened by kind."""

    def __init__(self, client: Client, expected: list, seed: int):
        self.client, self.expected = client, expected
        self.random = random.Random(seed)
        self.counts: dict[str, int] = {}
        self.wrong: list[str] = []

    async def read_whole(self):
        problem = self.random.randrange(len(PROBLEMS))
        text = await whole(self.client, problem)
        if text != self.expected[problem]:
            self.wrong.append(f"problem {problem}: {text!r}")

    async def read_slowly(self):
        problem = self.random.randrange(len(PROBLEMS))
        reader, writer = await self.client.stream(problem)
        if await read_status(reader) == 200:
            text = await read_events(reader, pause=0.2)
            if text != self.expected[problem]:
                self.wrong.append(f"slow reader, problem {problem}: {text!r}")
        writer.close()

    async def leave_in_the_middle(self):
        reader, writer = await self.client.stream(self.random.randrange(len(PROBLEMS)), max_tokens=400)
        if await read_status(reader) == 200:
            await read_events(reader, most=self.random.randrange(1, 8))
        writer.transport.abort()

    async def leave_at_once(self):
        _, writer = await self.client.stream(self.random.randrange(len(PROBLEMS)), max_tokens=400)
        writer.transport.abort()

    async def abort_by_id(self):
        rid = f"load-{self.random.getrandbits(64):x}"
        reader, writer = await self.client.stream(self.random.randrange(len(PROBLEMS)), rid=rid, max_tokens=400)
        await asyncio.sleep(self.random.random() * 0.2)
        _, other = await self.client.send("/abort_request", json.dumps({"rid": rid}).encode())
        await read_status(reader)
        await asyncio.wait_for(reader.read(), 300)
        writer.close()
        other.close()

    async def half_a_request(self):
        _, writer = await self.client.send("/v1/chat/completions", b'{"model": "pocket-k2", ', length=500)
        await asyncio.sleep(self.random.random() * 0.5)
        writer.transport.abort()

    async def broken_request(self):
        body = self.random.choice([b"{", b"[]", b'{"messages": 5}', b'{"model": "pocket-k2", "messages": [], "temperature": -1}',
                                   b"\xff\xfe", b'{"prompt": "x", "max_tokens": 1e99}'])
        reader, writer = await self.client.send("/v1/chat/completions", body)
        status = await read_status(reader)
        if status != 400:
            self.wrong.append(f"{body!r}: status {status}")
        writer.close()

    async def worker(self, until: float):
        kinds = [self.read_whole] * 4 + [self.read_slowly, self.leave_in_the_middle, self.leave_in_the_middle,
                                         self.leave_at_once, self.abort_by_id, self.half_a_request, self.broken_request]
        while time.monotonic() < until:
            kind = self.random.choice(kinds)
            try:
                await kind()
                self.counts[kind.__name__] = self.counts.get(kind.__name__, 0) + 1
            except ConnectionError:  # a peer that is reset is part of the game; one that is refused is not
                self.counts["connection reset"] = self.counts.get("connection reset", 0) + 1
            except asyncio.TimeoutError:
                self.wrong.append(f"{kind.__name__}: no word for 300 s")

    async def run(self, seconds: float):
        until = time.monotonic() + seconds
        await asyncio.gather(*(self.worker(until) for _ in range(WORKERS)))


def resident_mib(pid: int) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) / 1024
    return 0


def sanitizer_of(binary: Path) -> str:
    """The sanitizer that the program was built with, or nothing."""
    code = binary.read_bytes()
    return next((name for name, symbol in (("address", b"__asan_init"), ("thread", b"__tsan_init")) if symbol in code), "")


def idle_check(server: StrobeServer, report: Report, when: str):
    load = server.wait_until_idle()
    report.equal((load["num_total_reqs"], load["num_used_tokens"]), (0, 0), f"{when}: nothing runs, no page is held")
    report.equal(server.process.poll(), None, f"{when}: the server lives")


async def run(args, server: StrobeServer, report: Report):
    client = Client(server.url)
    expected = [await whole(client, problem) for problem in range(len(PROBLEMS))]
    report.check(all(isinstance(text, str) and text for text in expected), f"{len(PROBLEMS)} answers of a quiet server")
    await many_streams(client, args.streams, expected, report)
    idle_check(server, report, "after the streams")
    begin = resident_mib(server.process.pid)
    churn = Churn(client, expected, args.seed)
    minutes = args.minutes
    grown = []
    while minutes > 0:
        await churn.run(min(minutes, 1) * 60)
        minutes -= 1
        grown.append(resident_mib(server.process.pid) - begin)
        print(f"     {args.minutes - max(minutes, 0):.1f} of {args.minutes} minutes; resident memory {grown[-1]:+.1f} MiB; {churn.counts}", flush=True)
    report.equal(churn.wrong[:5], [], f"{sum(churn.counts.values())} visits of a crowd: every answer that was read is right")
    report.check(len(churn.counts) >= 6, "with visits of every kind")
    idle_check(server, report, "after the crowd")
    # Caches of the allocator fill up in the first minutes; a leak goes on.
    late = grown[-1] - grown[len(grown) // 2]
    if not sanitizer_of(args.binary):
        report.check(late < 32, f"memory grew by {late:.1f} MiB in the second half")
    report.equal([await whole(client, problem) for problem in range(len(PROBLEMS))], expected, "the quiet server answers as before")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", type=Path, default=ROOT / "build/release/strobe")
    parser.add_argument("--streams", type=int, default=2000)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, default=ROOT / "build/compat")
    args = parser.parse_args()
    files = 2 * args.streams + 1000
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < files:
        print(f"the limit of open files is {hard}; {files} are needed (ulimit -n)", file=sys.stderr)
        return 2
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, files), hard))
    report = Report()
    flags = ["--max-queued-requests", str(args.streams), "--max-total-tokens", "16384", "--log-level", "warning"]
    log = args.out / "load-server.log"
    with StrobeServer(args.binary, log, flags, key=None) as server:
        asyncio.run(run(args, server, report))
    report.equal(server.exit_code, 0, "the server ends in order")
    if sanitizer := sanitizer_of(args.binary):
        findings = [line for line in log.read_text(errors="replace").splitlines() if "Sanitizer" in line or "runtime error" in line]
        report.equal(findings[:5], [], f"the {sanitizer} sanitizer found nothing")
    return report.exit_code()


if __name__ == "__main__":
    sys.exit(main())
