"""SGLang's own measuring clients and Strobe's, against one Strobe server: both must report the same.

  python tests/compat/measure.py --sglang DIR [--binary build/release/strobe] [--examples 60]

DIR holds the package `sglang` (pip install --no-deps --target DIR sglang==0.5.23). What runs of it are its clients as they
are: `run_eval` (GSM8K) and `run_one_case` of the batch benchmark. Its server side (torch, CUDA libraries) is not installed:
modules of it that the clients import without using them are empty stand-ins. The prompts are the word problems of tests/data.
The score and the accept length of each batch size are compared exactly; times are shown.
"""
import argparse
import importlib.abc
import importlib.machinery
import json
import os
import re
import subprocess
import sys
import tempfile
import types
import urllib.request
from pathlib import Path
from unittest.mock import MagicMock

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / "tests/data/wordproblems.jsonl"
BATCH_SIZES = (1, 4, 8)
OUTPUT_LEN = 64
# Imported by the clients, used by none of the functions called here. sglang.srt.environ is real.
STAND_INS = ("transformers", "tabulate", "torch", "IPython", "sglang.srt.entrypoints", "sglang.srt.server_args", "sglang.srt.utils",
             "sglang.srt.arg_groups", "sglang.srt.disaggregation", "sglang.test.nightly_bench_utils", "sglang.test.test_utils",
             "sglang.benchmark.datasets", "sglang.benchmark.endpoint", "sglang.profiler")


class StandIn(types.ModuleType):
    __path__: list = []

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (), {}) if name[0].isupper() else MagicMock(name=name)


class StandInFinder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, name, path=None, target=None):
        if any(name == one or name.startswith(one + ".") for one in STAND_INS):
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec):
        return StandIn(spec.name)

    def exec_module(self, module):
        pass


def import_clients(folder: Path):
    package = types.ModuleType("sglang")  # its own __init__ loads the whole engine
    package.__path__ = [str(folder / "sglang")]
    sys.modules["sglang"] = package
    sys.meta_path.insert(0, StandInFinder())
    from sglang.benchmark import one_batch_server
    from sglang.test import run_eval
    return run_eval, one_batch_server


class Server:
    def __init__(self, binary: Path):
        self.process = subprocess.Popen([binary, "serve", "--port", "0", "--log-level", "warning", "--max-running-requests", "16"],
                                        stdout=subprocess.PIPE, text=True)
        for line in self.process.stdout:
            if found := re.search(r" on (http://\S+)", line):
                self.url = found.group(1)
                return
        raise SystemExit("strobe serve ended before it was ready")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()


class ServersTokenizer:
    """The server's own tokenizer, as a client's."""
    name_or_path = ""

    def __init__(self, url: str):
        self.url = url

    def encode(self, text: str) -> list[int]:
        request = urllib.request.Request(self.url + "/tokenize", json.dumps({"prompt": text}).encode(), {"Content-Type": "application/json"})
        with urllib.request.urlopen(request) as answer:
            return json.load(answer)["tokens"]


def strobe(binary: Path, out: Path, *words: object) -> dict:
    command = [str(binary), *map(str, words), "--output-dir", str(out), "--quiet"]
    ended = subprocess.run(command, text=True, capture_output=True)
    if ended.returncode != 0:
        raise SystemExit(f"{' '.join(command)}: exit code {ended.returncode}\n{ended.stdout}{ended.stderr}")
    return json.loads(next(out.glob("*.json")).read_text())


def sglang_eval(module, url: str, examples: int) -> float:
    args = argparse.Namespace(eval_name="gsm8k", base_url=url, model=None, num_examples=examples, num_threads=16, num_shots=5,
                              api="completion", gsm8k_data_path=str(DATA), repeat=1)
    result, _, _ = module.run_eval_once(args, url + "/v1", eval_of(args))
    return result.score


def eval_of(args):
    from sglang.test.simple_eval_mixed_prefix_gsm8k import GSM8KEval
    return GSM8KEval(num_examples=args.num_examples, num_threads=args.num_threads, num_shots=args.num_shots, data_path=args.gsm8k_data_path)


def sglang_case(module, url: str, batch: int, prompt_file: Path):
    return module.run_one_case(url=url, batch_size=batch, input_len=0, output_len=OUTPUT_LEN, temperature=0.0, ignore_eos=True,
                               return_logprob=False, stream_interval=1, input_len_step_percentage=0.0, run_name="", result_filename="",
                               tokenizer=ServersTokenizer(url), fixed_prompt_file=str(prompt_file))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sglang", type=Path, required=True)
    parser.add_argument("--binary", type=Path, default=ROOT / "build/release/strobe")
    parser.add_argument("--examples", type=int, default=60)
    args = parser.parse_args()
    os.environ.setdefault("OPENAI_API_KEY", "EMPTY")
    run_eval, one_batch_server = import_clients(args.sglang)
    question = json.loads(DATA.read_text().splitlines()[0])["question"]
    prompt = f"Question: {question}\nAnswer:"
    rows = []
    with Server(args.binary) as server, tempfile.TemporaryDirectory() as folder:
        out = Path(folder)
        (out / "prompt.txt").write_text(prompt)
        (out / "prompt.jsonl").write_text(json.dumps({"prompt": prompt}))
        theirs = sglang_eval(run_eval, server.url, args.examples)
        ours = strobe(args.binary, out / "eval", "eval", "gsm8k", "--data-path", DATA, "--num-examples", args.examples, "--parallel", 16,
                      "--base-url", server.url)
        rows.append((f"GSM8K protocol, {args.examples} word problems: score", theirs, ours["score"]))
        for batch in BATCH_SIZES:
            case = sglang_case(one_batch_server, server.url, batch, out / "prompt.txt")
            ours = strobe(args.binary, out / f"bench{batch}", "bench", "serve", "--batch-size", batch, "--input-len", 0, "--output-len",
                          OUTPUT_LEN, "--dataset", "jsonl", "--data-path", out / "prompt.jsonl", "--base-url", server.url)["results"][0]
            rows.append((f"batch {batch}, {OUTPUT_LEN} tokens: accept length", case.acc_length, ours["acc_length"]))
            print(f"batch {batch}: latency {case.latency:.3f} and {ours['latency']:.3f} s, TTFT {case.last_ttft:.4f} and {ours['last_ttft']:.4f} s")
    print("\n| what | SGLang's client | Strobe's | |\n|---|---|---|---|")
    for what, theirs, ours in rows:
        print(f"| {what} | {theirs:.6f} | {ours:.6f} | {'equal' if abs(theirs - ours) < 1e-9 else 'DIFFERENT'} |")
    return 0 if all(abs(theirs - ours) < 1e-9 for _, theirs, ours in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
