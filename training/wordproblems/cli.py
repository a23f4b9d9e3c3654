"""The command line: writes problems or chats as jsonl, or generates many and reports on them."""

import argparse
import json
import random
import time

from .checker import KNOWN_FLAWS, check
from .generator import generate, generate_chat
from .registry import SKILLS, TEMPLATES
from .skills.helpers import compact_json


def selftest(n: int, seed: int) -> bool:
    """Generates n problems and n chats, checks and reports; whether nothing but known flaws was found."""
    rng = random.Random(f"train:{seed}")
    t0 = time.time()
    problems = [generate(rng) for _ in range(n)]
    seconds = time.time() - t0
    bad: dict[str, list] = {}
    for p in problems:
        try:
            check(p)
        except ValueError as e:
            bad.setdefault(p["template"], []).append((str(e), p["question"]))
    test_rng = random.Random(f"test:{seed}")
    tests = [generate(test_rng, "test") for _ in range(max(100, n // 20))]
    questions = {p["question"] for p in problems}
    overlap = len({p["question"] for p in tests} & questions)
    print(f"problems {n}, refused {sum(map(len, bad.values()))}, {n / seconds:.0f} per second")
    for k, v in bad.items():
        print("  known flaw" if k in KNOWN_FLAWS else "  WRONG", k, len(v), v[0])
    print("templates in use", len({p["template"] for p in problems}), "of", len(TEMPLATES))
    print("distinct questions", len(questions), "distinct first 40 characters", len({q[:40] for q in questions}))
    print("test questions", len(tests), "also in train", overlap)
    lengths = {k: [len(p[k]) for p in problems] for k in ("question", "answer")}
    print(*(f"characters of a {k}: mean {sum(v) / n:.0f}, longest {max(v)};" for k, v in lengths.items()))
    print("steps", {k: sum(p["answer"].count("\n") == k for p in problems) for k in range(1, 8)})
    t0 = time.time()
    chats = [generate_chat(rng) for _ in range(n)]
    print(
        f"chat kinds {len({x['kind'] for x in chats})} of {len(SKILLS)}, {n / (time.time() - t0):.0f} per second,",
        "distinct",
        len({compact_json(x) for x in chats}),
    )
    for p in problems[:3]:
        print(f"\n[{p['template']}] {p['question']}\n{p['answer']}")
    return not set(bad) - KNOWN_FLAWS and not overlap


def main() -> int:
    """Runs the command line; returns the exit status."""
    ap = argparse.ArgumentParser(
        prog="python -m wordproblems", description="Writes synthetic word problems or chats as jsonl."
    )
    ap.add_argument("--count", type=int, default=1000, help="how many (default 1000)")
    ap.add_argument("--seed", type=int, default=0, help="the same seed gives the same texts (default 0)")
    ap.add_argument("--split", choices=("train", "test"), default="train", help="no test problem occurs in train")
    ap.add_argument("--chat", action="store_true", help="chat skills instead of word problems")
    ap.add_argument("--selftest", type=int, metavar="N", help="generate N problems, check them and report")
    a = ap.parse_args()
    if a.count < 0 or (a.selftest is not None and a.selftest < 1):
        ap.error("--count takes 0 or more, --selftest 1 or more")
    if a.selftest:
        return 0 if selftest(a.selftest, a.seed) else 1
    rng = random.Random(f"{a.split}:{a.seed}")
    for _ in range(a.count):
        if a.chat:
            print(compact_json(generate_chat(rng)))
        else:
            p = generate(rng, a.split)
            print(json.dumps({"question": p["question"], "answer": p["answer"]}))
    return 0
