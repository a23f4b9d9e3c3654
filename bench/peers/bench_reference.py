"""Strobe beside its peers: the Python reference (transformers' DeepSeek-V3, z-lab's dflash package), and llama.cpp.

  build/compat-venv/bin/python bench/peers/bench_reference.py [--jsonl tests/data/wordproblems.jsonl] [--count 20] [--device cuda]
      [--llama-cpp bf16,q8_0,q4_0] [--quietest-cores]

Reference and Strobe, plain and with DFlash, greedy, e4m3 target cache; with --llama-cpp also llama.cpp's plain decoding of
the same target in these formats (llama_cpp_peer.py says how to install it, and why not its DFlash). They take turns, a few problems at a time in
rotating order, so that a noisy or hot machine meets all alike; all are held to the same cores. On a busy machine PyTorch's
threads wait for each other and its times grow tenfold and more: the share of the CPU that others took during the run is
measured, written down, and above 5% the table warns that its ratios are void. Writes a JSON file with every
figure, a Markdown table and a chart. Packages: tests/golden/requirements.txt. (scripts/compat makes the environment.)

Times of a request: first token = from the prompt's ids (reference) or text (strobe) to the first token; decode ms/token =
the rest of the time over the rest of the tokens. Loading and one warm-up request are left out for both.
"""
import argparse
import datetime
import hashlib
import importlib.metadata
import json
import os
import platform
import re
import statistics
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests/golden"), str(ROOT / "bench/peers")]
import chart  # noqa: E402
import llama_cpp_peer  # noqa: E402
import strobe_cli  # noqa: E402

RUNS = ("reference plain", "reference DFlash", "strobe plain", "strobe DFlash")
MOST_OTHERS = 0.05  # share of the machine's CPU time that others may take in a run worth keeping
PACKAGES = ("torch", "transformers", "dflash", "tiktoken")


# ------------------------------------------------------------------------------------------------- the reference
class FirstToken:
    """A streamer for transformers' generate(): notes when the first token came (the prompt is put first)."""

    def __init__(self):
        self.puts = 0
        self.at = None

    def put(self, ids) -> None:
        self.puts += 1
        if self.puts == 2:
            self.at = time.perf_counter()

    def end(self) -> None:
        pass


class Reference:
    """transformers and dflash in bfloat16, as their authors run them: generate() and dflash_generate()."""

    def __init__(self, models: Path, max_new: int, attention: str, device: str):
        import dflash.model as package
        import oracle
        import torch
        from transformers import DynamicCache
        torch.set_grad_enabled(False)
        self.torch, self.oracle, self.package, self.max_new = torch, oracle, package, max_new
        self.text = oracle.Text(models / "target")
        self.device = device
        self.net = oracle.load_target(models / "target", torch.bfloat16, attention).to(device)
        self.draft = oracle.load_draft(models / "draft", torch.bfloat16).to(device)
        if device == "cpu":
            package._cuda_time = time.perf_counter  # the package would call torch.cuda
        package._make_cache = lambda config: (oracle.new_cache(self.net, fp8=True) if config is self.net.config
                                              else DynamicCache(config=config))

    def run(self, question: str, dflash: bool) -> dict:
        prompt = self.text.chat(question)
        ids = self.torch.tensor([prompt], device=self.device)
        if dflash:
            done = self.package.dflash_generate(self.draft, self.net, ids, self.max_new, self.text.stop_ids, 0.0,
                                                return_stats=True)
            out, first_s, steps = done.output_ids[0, len(prompt):].tolist(), done.time_to_first_token, done.acceptance_lengths
            rest_s = done.time_per_output_token * len(out)
        else:
            streamer, start = FirstToken(), time.perf_counter()
            out = self.net.generate(ids, attention_mask=self.torch.ones_like(ids), max_new_tokens=self.max_new, do_sample=False,
                                    eos_token_id=self.text.stop_ids, pad_token_id=0, streamer=streamer,
                                    past_key_values=self.oracle.new_cache(self.net, fp8=True))[0, len(prompt):].tolist()
            first_s, rest_s, steps = streamer.at - start, time.perf_counter() - streamer.at, []
        return {"text": self.text.decode(out), "tokens": len(out), "first_token_ms": first_s * 1e3,
                "decode_ms_per_token": rest_s * 1e3 / max(len(out) - 1, 1), "verify_steps": len(steps)}


def run_strobe(args, rows: list[dict], dflash: bool) -> list[dict]:
    """A process for these rows, and one before them to warm up."""
    results = strobe_cli.generate(args.binary, args.models, rows[:1] + rows, args.max_new_tokens, dflash,
                                  ["--device", args.device, *args.strobe_args])
    return [{"text": r["text"], "tokens": r["completion_tokens"], "first_token_ms": r["ttft_ms"],
             "decode_ms_per_token": 1e3 / r["decode_tokens_per_second"] if r["decode_tokens_per_second"] else 0.0,
             "verify_steps": r["spec_verify_ct"] + r["held_back_steps"] if dflash else 0} for r in results[1:]]


# ------------------------------------------------------------------------------------------------------- summary
def summarise(records: list[dict], rows: list[dict]) -> dict:
    long = [r for r in records if r["tokens"] > 1]  # a single token has no decode time
    tokens, steps = sum(r["tokens"] for r in records), sum(r["verify_steps"] for r in records)
    total_ms = sum(r["first_token_ms"] + r["decode_ms_per_token"] * (r["tokens"] - 1) for r in records)
    return {
        "problems": len(records),
        "tokens": tokens,
        "decode_ms_per_token_median": statistics.median(r["decode_ms_per_token"] for r in long) if long else None,
        "decode_ms_per_token_min": min((r["decode_ms_per_token"] for r in long), default=None),
        "first_token_ms_median": statistics.median(r["first_token_ms"] for r in records),
        "whole_ms_per_token": total_ms / tokens,
        "accept_length": tokens / steps if steps else None,
        "right": sum(strobe_cli.is_right(r["text"], row["answer"]) for r, row in zip(records, rows)),
    }


def same_texts(a: list[dict], b: list[dict]) -> int:
    return sum(x["text"] == y["text"] for x, y in zip(a, b))


def gpu() -> str | None:
    try:
        return subprocess.run(["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"], capture_output=True, text=True,
                              check=True).stdout.splitlines()[0]
    except (OSError, subprocess.CalledProcessError, IndexError):
        return None


def machine(device: str) -> dict:
    info = Path("/proc/cpuinfo").read_text()
    find = lambda key: (re.search(rf"^{key}\s*: (.*)$", info, re.M) or ["", "unknown"])[1]  # noqa: E731
    flags = find("flags").split()
    return {"gpu": gpu() if device == "cuda" else None, "cpu": find("model name"), "family_model": f"{find('cpu family')}/{find('model')}", "cores": os.cpu_count(),
            "extensions": [f for f in ("avx2", "avx512f", "avx512_bf16", "avx512_vnni", "amx_bf16") if f in flags],
            "system": platform.platform()}


def quietest_cores(count: int) -> list[int]:
    """The cores on which a fixed piece of work takes least time now: neighbours of a virtual machine do not show in /proc/stat, but
    a core that shares its arithmetic units with one is up to twice as slow here, and more where vectors are wide."""
    allowed, data, times = sorted(os.sched_getaffinity(0)), b"x" * 65536, {}
    for core in allowed:
        os.sched_setaffinity(0, [core])
        start = time.perf_counter()
        for _ in range(400):
            hashlib.sha256(data).digest()
        times[core] = time.perf_counter() - start
    return sorted(sorted(allowed, key=times.get)[:count])


class OthersShare:
    """How much of the machine's CPU time other programs (and the hypervisor) took since this object was made."""

    def __init__(self):
        self.before = self._now()

    @staticmethod
    def _now() -> tuple[float, float, float]:
        ticks = [int(word) for word in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
        idle, hz, own = ticks[3] + ticks[4], os.sysconf("SC_CLK_TCK"), os.times()
        return sum(ticks) / hz, idle / hz, own.user + own.system + own.children_user + own.children_system

    def share(self) -> float:
        total, idle, own = (b - a for a, b in zip(self.before, self._now()))
        return max(total - idle - own, 0.0) / total if total else 0.0


def strobe_commit() -> str:
    try:
        return subprocess.run(["git", "-C", str(ROOT), "describe", "--always", "--dirty"], capture_output=True, text=True,
                              check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def number(value, digits: int) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def table(result: dict) -> str:
    m, lines = result["machine"], []
    lines += [f"# Strobe and its peers, {result['date']}", "",
              f"{m['gpu'] + ', ' if m['gpu'] else ''}{m['cpu']} ({', '.join(m['extensions'])}), {result['threads']} of {m['cores']} cores; "
              f"{result['rows_file']}, {result['count']} prompts, at most {result['max_new_tokens']} new tokens, greedy, e4m3 target cache.",
              f"Reference: {', '.join(f'{k} {v}' for k, v in result['versions'].items() if k not in ('strobe', 'python'))}, bfloat16, "
              f"{result['reference_attention']} attention. Strobe: {result['versions']['strobe']}.", f"`{result['command']}`", "",
              f"Accept length: output tokens / decode steps. Other programs took {result['others_cpu_share']:.1%} of the CPU.", ""]
    if result["others_cpu_share"] > MOST_OTHERS:
        lines += ["**The machine was busy with other work: these times and ratios say nothing.**", ""]
    lines += [
              "| run | decode ms/token, median | best | first token ms, median | all ms/token | accept length | right |",
              "|---|---|---|---|---|---|---|"]
    for name, s in result["runs"].items():
        right = f"{s['right']}/{s['problems']}" if result["has_answers"] else "-"
        lines.append(f"| {name} | {number(s['decode_ms_per_token_median'], 3)} | {number(s['decode_ms_per_token_min'], 3)} | "
                     f"{number(s['first_token_ms_median'], 1)} | {number(s['whole_ms_per_token'], 3)} | "
                     f"{number(s['accept_length'], 2)} | {right} |")
    lines += [""] + [f"- {name}: {value}" for name, value in result["comparisons"].items()]
    return "\n".join(lines) + "\n"


def comparisons(records: dict, runs: dict) -> dict:
    out = {}
    for slow, fast in (("reference plain", "reference DFlash"), ("strobe plain", "strobe DFlash"),
                       ("reference plain", "strobe plain"), ("reference DFlash", "strobe DFlash"),
                       *((name, ours) for name in runs if name.startswith("llama.cpp") for ours in ("strobe plain", "strobe DFlash"))):
        if slow in runs and fast in runs:
            a, b = runs[slow]["decode_ms_per_token_median"], runs[fast]["decode_ms_per_token_median"]
            if a and b:
                out[f"{slow} / {fast}, decode time"] = f"{a / b:.2f}"
            out[f"{slow} and {fast}, equal texts"] = f"{same_texts(records[slow], records[fast])}/{len(records[slow])}"
    return out


def parse_args():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jsonl", type=Path, default=ROOT / "tests/data/wordproblems.jsonl", help="rows with question (answer) or prompt")
    parser.add_argument("--count", type=int, default=20)
    parser.add_argument("--chunk", type=int, default=5, help="prompts before the next run takes its turn (default 5)")
    parser.add_argument("--max-new-tokens", type=int, default=224)
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"), help="of all four runs")
    parser.add_argument("--threads", type=int, default=2, help="cores for every run (default 2)")
    parser.add_argument("--quietest-cores", action="store_true", help="of the cores, those on which work is quickest when the runs begin; "
                        "default: the first")
    parser.add_argument("--models", type=Path, default=ROOT / "models/pocket-k2")
    parser.add_argument("--binary", type=Path, default=ROOT / "build/release/strobe")
    parser.add_argument("--strobe-args", type=str.split, default=[], help="more flags for strobe, in one string")
    parser.add_argument("--reference-attention", default="sdpa", choices=("sdpa", "eager"))
    parser.add_argument("--only", choices=("reference", "strobe"), help="only the runs of one of the two")
    parser.add_argument("--llama-cpp", type=lambda words: words.split(","), default=[], metavar="FORMATS",
                        help=f"also llama.cpp, plain, in these formats: {','.join(llama_cpp_peer.FORMATS)}")
    parser.add_argument("--gguf-folder", type=Path, default=ROOT / "build/gguf", help="where their files are kept")
    parser.add_argument("--out", type=Path, default=ROOT / "bench/results")
    args = parser.parse_args()
    if args.count < 1 or args.chunk < 1 or args.threads < 1:
        parser.error("--count, --chunk and --threads must be 1 or more")
    for kind in args.llama_cpp:
        if kind not in llama_cpp_peer.FORMATS:
            parser.error(f"--llama-cpp {kind}: accepted: {', '.join(llama_cpp_peer.FORMATS)}")
    if args.llama_cpp and (args.device != "cpu" or args.only):
        parser.error("--llama-cpp is for runs of all on the CPU: not with --device cuda or --only")
    if args.only != "reference" and not os.access(args.binary, os.X_OK):
        parser.error(f"{args.binary} is no program: build it, name it with --binary, or use --only reference")
    return args


def measure(args, rows: list[dict], names: list[str]) -> dict:
    """All records, by run. The runs take turns on each chunk, in rotating order."""
    reference = None
    if args.only != "strobe":
        import torch
        torch.set_num_threads(args.threads)
        reference = Reference(args.models, args.max_new_tokens, args.reference_attention, args.device)
        print("warm-up of the reference", flush=True)
        for dflash in (False, True):
            reference.run(rows[0]["question"], dflash)
    llamas = {}
    for kind in args.llama_cpp:
        args.gguf_folder.mkdir(parents=True, exist_ok=True)
        llamas[f"llama.cpp {kind}"] = llama_cpp_peer.LlamaCpp(args.models, kind, args.gguf_folder, args.max_new_tokens, args.threads)
    for name, llama in llamas.items():
        print(f"warm-up of {name}", flush=True)
        llama.run(rows[0]["question"])
    records = {name: [] for name in names}
    for begin in range(0, len(rows), args.chunk):
        chunk = rows[begin:begin + args.chunk]
        turn = (begin // args.chunk) % len(names)
        for name in names[turn:] + names[:turn]:
            dflash = name.endswith("DFlash")
            if name in llamas:
                new = [llamas[name].run(row["question"]) for row in chunk]
            else:
                new = ([reference.run(row["question"], dflash) for row in chunk] if name.startswith("reference")
                       else run_strobe(args, chunk, dflash))
            records[name] += new
            median = statistics.median(r["decode_ms_per_token"] for r in new)
            print(f"[{begin + len(chunk)}/{len(rows)}] {name}: {median:.2f} ms/token", flush=True)
    return records


def main() -> int:
    args = parse_args()
    cores = quietest_cores(args.threads) if args.quietest_cores else sorted(os.sched_getaffinity(0))[:args.threads]
    os.sched_setaffinity(0, cores)  # children inherit it
    rows = strobe_cli.read_rows(args.jsonl, args.count)
    if not rows:
        raise SystemExit(f"{args.jsonl}: no rows")
    names = [name for name in RUNS if args.only is None or name.startswith(args.only)]
    names += [f"llama.cpp {kind}" for kind in args.llama_cpp]
    others = OthersShare()
    try:
        records = measure(args, rows, names)
    except strobe_cli.StrobeFailed as error:
        print(f"strobe failed: {error}", file=sys.stderr)
        return 1
    others_share = others.share()
    runs = {name: summarise(records[name], rows) for name in names}
    versions = {"strobe": strobe_commit(), "python": platform.python_version()}
    if args.only != "strobe":
        versions |= {package: importlib.metadata.version(package) for package in PACKAGES}
    if args.llama_cpp:
        import llama_cpp
        versions["llama-cpp-python"] = f"{llama_cpp.__version__} ({llama_cpp_peer.features()})"
    result = {
        "date": datetime.date.today().isoformat(), "machine": machine(args.device), "others_cpu_share": round(others_share, 4), "threads": args.threads, "versions": versions,
        "command": " ".join(["bench/peers/bench_reference.py"] + [os.path.relpath(a, ROOT) if a.startswith("/") else a for a in sys.argv[1:]]),
        "rows_file": os.path.relpath(args.jsonl, ROOT), "count": len(rows), "max_new_tokens": args.max_new_tokens,
        "reference_attention": args.reference_attention, "has_answers": all(row["answer"] for row in rows),
        "runs": runs, "comparisons": comparisons(records, runs),
        "records": records,
    }
    args.out.mkdir(parents=True, exist_ok=True)
    stem = "-".join(["peers" if args.llama_cpp else "reference", args.jsonl.stem, result["date"], re.sub(r"\W+", "-", result["machine"]["gpu"] or result["machine"]["cpu"]).strip("-").lower()])
    (args.out / f"{stem}.json").write_text(json.dumps(result, indent=1) + "\n")
    (args.out / f"{stem}.md").write_text(table(result) + f"\n![decode ms/token]({stem}.svg)\n")
    times = {name: run["decode_ms_per_token_median"] for name, run in runs.items() if run["decode_ms_per_token_median"]}
    if times:
        title = f"{result['rows_file']}: decoding, ms a token (median)"
        (args.out / f"{stem}.svg").write_text(chart.bars(title, "ms", dict(sorted(times.items(), key=lambda kv: -kv[1]))))
    print("\n" + table(result))
    print(f"saved {os.path.relpath(args.out / stem, ROOT)}.json, .md and .svg")
    return 0


if __name__ == "__main__":
    sys.exit(main())
