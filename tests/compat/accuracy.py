"""Right answers, accept length, and DFlash text == plain text on problem sets that lie beside the repository.

  python tests/compat/accuracy.py --data ../shared/data [--binary build/release/strobe]

Needs wordproblems/test.jsonl (the first 100 rows are used) and gsm8k/test.jsonl (the first 50) under --data. The targets
come from the reference implementation on the same checkpoint: 99 of 100 right and an accept length of 7.54 on the word
problems. Then the 50 GSM8K questions in 12 settings: draft tokens 2, 4, 8, fp8 and bf16 cache, draft windows 16 and 4096.
GSM8K is far beyond the embedded model (1 of 50 right): it serves as text that the draft guesses badly (1.4).
Standard library only.
"""
import argparse
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench/peers"))
import strobe_cli  # noqa: E402

LEAST_RIGHT = 97
LEAST_ACCEPT_LENGTH = 7.4


def accept_length(results: list[dict]) -> float:
    """Tokens per verify step, without the first token, which prefill gives, and those of steps that had no draft."""
    steps = sum(r["spec_verify_ct"] for r in results)
    return sum(r["completion_tokens"] - 1 - r["held_back_steps"] for r in results) / steps if steps else 0.0


def report(good: bool, text: str) -> bool:
    print(f"{'ok  ' if good else 'FAIL'} {text}", flush=True)
    return good


def check_equal(name: str, rows: list[dict], plain: list[dict], dflash: list[dict]) -> bool:
    apart = [i for i, (a, b) in enumerate(zip(plain, dflash))
             if (a["text"], a["output_ids"], a["finish_reason"]) != (b["text"], b["output_ids"], b["finish_reason"])]
    good = report(not apart, f"{name}: DFlash and plain give equal text, ids and finish reason for {len(rows) - len(apart)} of {len(rows)}")
    for i in apart[:3]:
        a, b = plain[i], dflash[i]
        first = next((k for k, (x, y) in enumerate(zip(a["output_ids"], b["output_ids"])) if x != y),
                     min(len(a["output_ids"]), len(b["output_ids"])))
        print(f"     row {i}: first difference at token {first}\n     plain  {a['text']!r}\n     DFlash {b['text']!r}")
    return good


def check_set(args, name: str, file: Path, count: int, strict: bool) -> bool:
    rows = strobe_cli.read_rows(file, count)
    good = report(len(rows) == count, f"{name}: {len(rows)} rows, wanted {count}")
    both = {}
    for kind, dflash in (("plain", False), ("DFlash", True)):
        print(f"     {name}, {kind}: {len(rows)} prompts ...", flush=True)
        flags = [*args.strobe_args, *(["--speculative-min-accept-length", "0"] if dflash else [])]  # drafts in all steps
        both[kind] = strobe_cli.generate(args.binary, args.models, rows, args.max_new_tokens, dflash, flags)
        right = sum(strobe_cli.is_right(r["text"], row["answer"]) for r, row in zip(both[kind], rows))
        text = f"{name}, {kind}: {right} of {len(rows)} right"
        if strict:
            good &= report(right >= LEAST_RIGHT, f"{text}, at least {LEAST_RIGHT} wanted")
        else:
            print(f"     {text}")
    length = accept_length(both["DFlash"])
    if strict:
        good &= report(length >= LEAST_ACCEPT_LENGTH, f"{name}: accept length {length:.2f}, at least {LEAST_ACCEPT_LENGTH} wanted")
    else:
        good &= report(length >= 1, f"{name}: accept length {length:.2f}")
    return check_equal(name, rows, both["plain"], both["DFlash"]) and good


def check_settings(args, file: Path, count: int) -> bool:
    """GSM8K text: DFlash == plain for every block size, cache type and draft window."""
    rows = strobe_cli.read_rows(file, count)
    good = True
    for kv in ("fp8_e4m3", "bf16"):
        flags = [*args.strobe_args, "--kv-cache-dtype", kv]
        plain = strobe_cli.generate(args.binary, args.models, rows, args.max_new_tokens, False, flags)
        for tokens in (2, 4, 8):
            for window in (16, 4096):
                dflash = strobe_cli.generate(args.binary, args.models, rows, args.max_new_tokens, True, [
                    *flags, "--speculative-num-draft-tokens", str(tokens), "--speculative-draft-window-size", str(window)])
                name = f"GSM8K, {kv} cache, {tokens} draft tokens, window {window} (accept length {accept_length(dflash):.2f})"
                good &= check_equal(name, rows, plain, dflash)
    return good


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--binary", type=Path, default=ROOT / "build/release/strobe")
    parser.add_argument("--models", type=Path, default=ROOT / "models/pocket-k2")
    parser.add_argument("--max-new-tokens", type=int, default=224)
    parser.add_argument("--strobe-args", type=str.split, default=[], help="more flags for strobe, in one string")
    args = parser.parse_args()
    try:
        good = check_set(args, "word problems", args.data / "wordproblems/test.jsonl", 100, strict=True)
        good &= check_set(args, "GSM8K", args.data / "gsm8k/test.jsonl", 50, strict=False)
        good &= check_settings(args, args.data / "gsm8k/test.jsonl", 50)
    except strobe_cli.StrobeFailed as error:
        good = report(False, f"strobe failed: {error}")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
