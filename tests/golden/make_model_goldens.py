"""Makes tests/golden/model/: what an independent implementation computes for models/pocket-k2 (README.md describes it).

  python tests/golden/make_model_goldens.py [--models models/pocket-k2] [--out tests/golden/model] [--only cases|traces]

Takes about two minutes on two CPU cores. Packages: requirements.txt.
"""
import argparse
import importlib.metadata
import json
import sys
import time
from pathlib import Path

import torch
from safetensors.torch import save_file
from transformers import DynamicCache

sys.path.insert(0, str(Path(__file__).resolve().parent))
import oracle  # noqa: E402

HERE = Path(__file__).resolve().parent
MAX_NEW_TOKENS = 224
BLOCK_SIZES = (8, 4)


def spread(tokens: int, every: int) -> list[int]:
    """Every `every`-th position and the last."""
    return sorted(set(range(0, tokens, every)) | {tokens - 1})


def to_pairs(rope_key: torch.Tensor) -> torch.Tensor:
    """transformers leaves a rotated key as [all first halves | all second halves]; back to (x0, x1) pairs side by side."""
    first, second = rope_key.chunk(2, -1)
    return torch.stack([first, second], -1).flatten(-2)


def int32(values) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.int32)


def write(path: Path, tensors: dict, about: str) -> None:
    save_file({name: tensor.detach().contiguous() for name, tensor in tensors.items()}, path, metadata={"about": about})
    path.chmod(0o644)


def largest(a: torch.Tensor, b: torch.Tensor) -> float:
    return float((a - b).abs().max())


class RouterMargins:
    """Smallest distance, over all rows and layers, between the last chosen and the first refused expert's biased score."""

    def __init__(self, net):
        self.smallest = float("inf")
        for layer in net.model.layers:
            if hasattr(layer.mlp, "gate"):
                layer.mlp.gate.register_forward_hook(self._see)

    def _see(self, gate, args, out) -> None:
        scores = torch.sort(out[0].float().sigmoid() + gate.e_score_correction_bias, descending=True).values
        self.smallest = min(self.smallest, float((scores[:, gate.top_k - 1] - scores[:, gate.top_k]).min()))

    def take(self) -> float:
        value, self.smallest = self.smallest, float("inf")
        return value


def token_by_token(capture, ids: list[int], fp8: bool):
    """The same prompt one token at a time: (layers [L, tokens, hidden], logits [tokens, vocab])."""
    cache, layers, logits = oracle.new_cache(capture.net, fp8), [], []
    for token in ids:
        logits.append(capture([token], cache)[0])
        layers.append(torch.stack([layer[0] for layer in capture.layers]))
    return torch.stack(layers, 1), torch.stack(logits)


def target_goldens(capture, margins, name: str, ids: list[int], fp8: bool, out: Path) -> dict:
    kind = "fp8kv" if fp8 else "f32"
    hidden_at = list(range(len(ids))) if not fp8 and len(ids) <= 64 else spread(len(ids), 16 if len(ids) > 64 else 8)
    few = sorted({0, len(ids) // 2, len(ids) - 1} | ({63, 64, 127, 128} if len(ids) > 128 else set()))
    margins.take()
    cache = oracle.new_cache(capture.net, fp8)
    logits = capture(ids, cache)
    layers, norm = torch.stack(capture.layers), capture.norm
    margin = margins.take()
    slow_layers, slow_logits = token_by_token(capture, ids, fp8)
    write(out / f"{name}.{kind}.safetensors", {
        "input_ids": int32(ids),
        "hidden_positions": int32(hidden_at),
        "hidden": layers[:, hidden_at],
        "final_norm": norm[hidden_at],
        "logits_positions": int32(few),
        "logits": logits[few],
        "cache_latent": torch.stack([layer.keys[0, 0, few] for layer in cache.layers]),
        "cache_rope_key": to_pairs(torch.stack([layer.values[0, 0, few] for layer in cache.layers])),
    }, f"{name}, float32 maths, {'e4m3 cache' if fp8 else 'float32 cache'}")
    return {
        "router_margin": margin,
        "logit_gap": oracle.top2_gap(logits[few]),
        "argmax": logits[few].argmax(-1).tolist(),
        "reordering_hidden": [largest(a, b) for a, b in zip(layers, slow_layers)],
        "reordering_logits": largest(logits, slow_logits),
        "largest_hidden": [float(layer.abs().max()) for layer in layers],
        "largest_logit": float(logits.abs().max()),
    }


def draft_goldens(capture, draft, name: str, ids: list[int], out: Path) -> dict:
    logits = capture(ids, oracle.new_cache(capture.net, fp8=False))
    features, bonus = capture.features(draft.target_layer_ids), int(logits[-1].argmax())
    few = sorted({0, len(ids) // 2, len(ids) - 1} | ({63, 64, 127, 128} if len(ids) > 128 else set()))
    tensors = {"input_ids": int32(ids), "bonus": int32([bonus]), "features": features, "kv_positions": int32(few)}
    about = {"bonus": bonus, "blocks": {}}
    for block_size in BLOCK_SIZES:
        cache = DynamicCache(config=draft.config)
        hidden, draft_logits = oracle.draft_block(capture.net, draft, features, bonus, block_size, len(ids), cache)
        tensors[f"block{block_size}_hidden"] = hidden
        tensors[f"block{block_size}_tokens"] = int32(draft_logits.argmax(-1).tolist())
        tensors[f"block{block_size}_gaps"] = torch.tensor(oracle.top2_gap(draft_logits))
        about["blocks"][block_size] = {"tokens": draft_logits.argmax(-1).tolist(), "gaps": oracle.top2_gap(draft_logits)}
        if block_size == BLOCK_SIZES[0]:  # the context's K and V do not depend on the block
            tensors["context"] = draft.hidden_norm(draft.fc(features))[few]
            tensors["context_k"] = torch.stack([layer.keys[0][:, few].transpose(0, 1) for layer in cache.layers])
            tensors["context_v"] = torch.stack([layer.values[0][:, few].transpose(0, 1) for layer in cache.layers])
            tensors["block8_first_logits"] = draft_logits[0]
    write(out / f"{name}.draft.safetensors", tensors, f"{name}, draft, float32 maths and cache")
    return about


def package_generate(capture, draft, prompt: list[int], text, fp8: bool):
    """The dflash package's own loop, made to use our cache for the target: (ids, emitted tokens per step)."""
    import dflash.model as package
    made = []

    def make_cache(config):
        made.append(oracle.new_cache(capture.net, fp8) if config is capture.net.config else DynamicCache(config=config))
        return made[-1]
    package._make_cache = make_cache
    package._cuda_time = time.perf_counter  # the package would call torch.cuda
    result = package.dflash_generate(draft, capture.net, torch.tensor([prompt]), MAX_NEW_TOKENS, text.stop_ids, 0.0,
                                     return_stats=True)
    assert len(made) == 2 and isinstance(made[0], oracle.Fp8Cache) == fp8
    return result.output_ids[0, len(prompt):].tolist(), result.acceptance_lengths


def first_difference(a: list[int], b: list[int]):
    return next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), None if len(a) == len(b) else min(len(a), len(b)))


def trace(capture, draft, text, row: dict) -> dict:
    prompt = text.chat(row["text"])
    ids, gaps, steps = oracle.generate_dflash(capture, draft, prompt, MAX_NEW_TOKENS, text.stop_ids, True, draft.block_size)
    plain_ids, _ = oracle.generate_plain(capture, prompt, MAX_NEW_TOKENS, text.stop_ids, True)
    package_ids, package_lengths = package_generate(capture, draft, prompt, text, True)
    lengths = [step["emitted"] for step in steps]
    last = None if len(ids) < MAX_NEW_TOKENS else -3  # the package shortens its last blocks at the length limit
    return {
        "name": row["name"], "prompt": row["text"], "prompt_ids": prompt, "output_ids": ids, "output_text": text.decode(ids),
        "finish_reason": "stop" if ids[-1] in text.stop_ids else "length",
        "accept_lengths": lengths, "mean_accept_length": round((len(ids) - 1) / max(len(steps), 1), 4), "gaps": gaps,
        "steps": [{"drafts": s["drafts"], "draft_gaps": s["draft_gaps"], "accepted": s["accepted"]} for s in steps],
        "plain_first_difference": first_difference(ids, plain_ids),
        "package_first_difference": first_difference(ids, package_ids),
        "package_same_lengths": lengths[:last] == package_lengths[:len(lengths[:last])],
    }


def save_traces(traces: list[dict], path: Path) -> None:
    """One line for each trace: readable diffs without a line for each number."""
    lines = ",\n".join(json.dumps(t, separators=(",", ":")) for t in traces)
    path.write_text("[\n" + lines + "\n]\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--models", type=Path, default=HERE.parents[1] / "models/pocket-k2")
    parser.add_argument("--out", type=Path, default=HERE / "model")
    parser.add_argument("--only", choices=("cases", "traces"))
    parser.add_argument("--traces", type=int, default=None, metavar="N", help="only the first N traces")
    args = parser.parse_args()
    torch.set_grad_enabled(False)
    args.out.mkdir(parents=True, exist_ok=True)
    prompts = json.loads((HERE / "prompts.json").read_text())
    text = oracle.Text(args.models / "target")
    capture = oracle.Capture(oracle.load_target(args.models / "target", torch.float32))
    margins = RouterMargins(capture.net)
    draft = oracle.load_draft(args.models / "draft", torch.float32)
    if args.only != "traces":
        cases = []
        for case in prompts["cases"]:
            ids = text.chat(case["text"]) if case["chat"] else text.encode(case["text"])
            print(f"case {case['name']}: {len(ids)} tokens", flush=True)
            cases.append({"name": case["name"], "text": case["text"], "chat": case["chat"], "input_ids": ids,
                          "f32": target_goldens(capture, margins, case["name"], ids, False, args.out),
                          "fp8kv": target_goldens(capture, margins, case["name"], ids, True, args.out),
                          "draft": draft_goldens(capture, draft, case["name"], ids, args.out)})
        versions = {p: importlib.metadata.version(p) for p in ("torch", "transformers", "dflash", "safetensors", "tiktoken")}
        (args.out / "cases.json").write_text(json.dumps({"versions": versions, "cases": cases}, indent=1) + "\n")
    if args.only != "cases":
        traces = []
        for row in prompts["traces"][:args.traces]:
            traces.append(trace(capture, draft, text, row))
            t = traces[-1]
            print(f"trace {t['name']}: {len(t['output_ids'])} tokens, accept length {t['mean_accept_length']}, first "
                  f"difference to plain {t['plain_first_difference']}, to the package {t['package_first_difference']} "
                  f"(lengths {'same' if t['package_same_lengths'] else 'DIFFER'})", flush=True)
        save_traces(traces, args.out / "traces.json")


if __name__ == "__main__":
    main()
