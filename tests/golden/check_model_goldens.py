"""Compares two sets of model goldens, say the committed one and one made on this machine with these package versions.

  python tests/golden/check_model_goldens.py NEW_DIR [--committed tests/golden/model]

A row (last axis) of a tensor may differ by a LIMIT times the row's largest committed value; token ids may differ only after a
position where the committed best-minus-second logit is smaller than GAP. Prints one line for each file; exit code 1 if any fails.
"""
import argparse
import json
import sys
from pathlib import Path

import torch
from safetensors.torch import load_file

# float32 maths in another order: measured 3e-6. With the e4m3 cache a value beside a rounding border may land on its other
# side, one step (up to 1/8 of the value) away, and what follows moves too: measured 9e-3 after six layers.
LIMIT = {"f32": 5e-5, "draft": 5e-5, "fp8kv": 0.04}
LIMIT_E4M3_CACHE = 0.13
GAP = 0.5


def row_difference(new: torch.Tensor, old: torch.Tensor) -> float:
    """Largest difference, each row (last axis) measured by its own largest value."""
    if old.dim() < 2:
        new, old = new[None], old[None]
    scale = old.abs().amax(-1).clamp_min(1e-30)
    return float(((new - old).abs().amax(-1) / scale).max())


def check_tensors(new_file: Path, old_file: Path) -> tuple[bool, str]:
    new, old = load_file(new_file), load_file(old_file)
    if new.keys() != old.keys():
        return False, f"other tensors: {sorted(new.keys() ^ old.keys())}"
    kind = old_file.name.split(".")[1]
    worst, worst_name = 0.0, ""
    for name, want in old.items():
        if new[name].shape != want.shape or new[name].dtype != want.dtype:
            return False, f"{name}: {list(new[name].shape)} {new[name].dtype}, committed {list(want.shape)} {want.dtype}"
        if want.dtype == torch.int32:
            gaps = old.get(name.replace("_tokens", "_gaps")) if name.endswith("_tokens") else None
            changed = new[name] != want
            if changed.any() and (gaps is None or float(gaps[changed].max()) > GAP):
                return False, f"{name}: {new[name].tolist()}, committed {want.tolist()}"
        elif not name.endswith("_gaps"):
            limit = LIMIT_E4M3_CACHE if kind == "fp8kv" and name.startswith("cache_") else LIMIT[kind]
            difference = row_difference(new[name], want)
            if not difference <= limit:  # a NaN as well
                return False, f"{name} differs by {difference:.1e} of a row's largest value, limit {limit:.0e}"
            if difference >= worst:
                worst, worst_name = difference, name
    return True, f"largest difference {worst:.1e} of a row's largest value ({worst_name})"


def check_traces(new_file: Path, old_file: Path) -> tuple[bool, str]:
    new = {trace["name"]: trace for trace in json.loads(new_file.read_text())}
    same, near_ties, wrong = 0, [], []
    for want in json.loads(old_file.read_text()):
        if want["name"] not in new:
            wrong.append(f"{want['name']} is missing")
            continue
        got = new[want["name"]]
        if got["prompt_ids"] != want["prompt_ids"]:
            wrong.append(f"{want['name']}: other prompt ids")
            continue
        pairs = zip(got["output_ids"], want["output_ids"], want["gaps"])
        apart = next(((i, gap) for i, (a, b, gap) in enumerate(pairs) if a != b), None)
        if apart is None and len(got["output_ids"]) == len(want["output_ids"]):
            same += 1
        elif apart and apart[1] < GAP:
            near_ties.append(f"{want['name']} at token {apart[0]} (gap {apart[1]:.3f})")
        else:
            wrong.append(f"{want['name']}: differs at {apart}, committed length {len(want['output_ids'])}")
    text = f"{same} the same"
    text += f", {len(near_ties)} part at a near-tie: {', '.join(near_ties)}" if near_ties else ""
    return not wrong, text + (f"; WRONG: {'; '.join(wrong)}" if wrong else "")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("new", type=Path)
    parser.add_argument("--committed", type=Path, default=Path(__file__).resolve().parent / "model")
    args = parser.parse_args()
    old_files = sorted(args.committed.glob("*.safetensors")) + [args.committed / "traces.json"]
    if len(old_files) < 2:
        print(f"{args.committed}: no goldens there")
        return 1
    failed = 0
    for old_file in old_files:
        new_file = args.new / old_file.name
        check = check_traces if old_file.suffix == ".json" else check_tensors
        good, text = check(new_file, old_file) if new_file.exists() else (False, "was not made")
        failed += not good
        print(f"{'ok  ' if good else 'FAIL'} {old_file.name}: {text}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
