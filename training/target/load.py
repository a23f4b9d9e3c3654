"""Reads an exported target back, and compares it with the model it came from."""

import copy
from dataclasses import fields
from pathlib import Path

import torch

from common.checkpoint import read_json, read_tensors
from common.device import DEVICE, amp
from common.progress import log

from . import nvfp4
from .config import TargetConfig
from .export import ATTENTION, EXPERT_STACKS, MLP_PARTS, target_tensors
from .model import MoE, Target


def read_config(folder: Path) -> TargetConfig:
    """The shape from config.json. ValueError when it is another architecture or lacks a field."""
    raw = read_json(folder / "config.json")
    if raw.get("model_type") != "kimi_k2" or raw.get("quantization_config", {}).get("quant_algo") != "NVFP4":
        raise ValueError(
            f"{folder}/config.json: want model_type kimi_k2 with NVFP4 weights, got {raw.get('model_type')}"
        )
    rope = raw["rope_scaling"]
    yarn = {
        "yarn_factor": rope["factor"],
        "yarn_original": rope["original_max_position_embeddings"],
        "yarn_beta_fast": rope["beta_fast"],
        "yarn_beta_slow": rope["beta_slow"],
    }
    names = [f.name for f in fields(TargetConfig)]
    missing = [n for n in names if n not in yarn and n not in raw]
    if missing:
        raise ValueError(f"{folder}/config.json lacks {', '.join(missing)}")
    return TargetConfig(**{n: yarn[n] if n in yarn else raw[n] for n in names})


def _take(tensors: dict[str, torch.Tensor], name: str, like: torch.Tensor) -> torch.Tensor:
    """A weight as float32, dequantised if need be. Takes what it used out of `tensors`."""
    if name not in tensors:
        raise ValueError(f"the checkpoint lacks {name}")
    t = tensors.pop(name)
    if t.dtype == torch.uint8:
        scales = [tensors.pop(name + s, None) for s in ("_scale", "_scale_2")]
        tensors.pop(name.removesuffix("weight") + "input_scale", None)
        if any(s is None for s in scales):
            raise ValueError(f"the checkpoint lacks a scale of {name}")
        t = nvfp4.dequantise(t, *scales)
    if t.shape != like.shape:
        raise ValueError(f"{name} has shape {tuple(t.shape)}, config.json says {tuple(like.shape)}")
    t = t.float()
    if not torch.isfinite(t).all():
        raise ValueError(f"{name} holds values that are not finite")
    return t


@torch.no_grad()
def load_target(folder: Path) -> Target:
    """The model with its experts dequantised, in eval mode. Run it with quant_cache=True and quant_weights=False.

    Missing, left-over, misshapen and non-finite tensors are ValueErrors that name them.
    """
    net = Target(read_config(folder))
    tensors = read_tensors(folder)

    def fill(p: torch.Tensor, name: str) -> None:
        p.copy_(_take(tensors, name, p))

    fill(net.embed_tokens.weight, "model.embed_tokens.weight")
    fill(net.norm.weight, "model.norm.weight")
    fill(net.lm_head.weight, "lm_head.weight")
    for i, layer in enumerate(net.layers):
        p = f"model.layers.{i}"
        for n in ("input_layernorm", "post_attention_layernorm"):
            fill(getattr(layer, n).weight, f"{p}.{n}.weight")
        for n in ATTENTION:
            fill(getattr(layer.self_attn, n).weight, f"{p}.self_attn.{n}.weight")
        dense = layer.mlp.shared_experts if isinstance(layer.mlp, MoE) else layer.mlp
        for n in MLP_PARTS:
            fill(getattr(dense, n).weight, f"{p}.mlp.{'shared_experts.' if dense is not layer.mlp else ''}{n}.weight")
        if isinstance(layer.mlp, MoE):
            fill(layer.mlp.gate.weight, f"{p}.mlp.gate.weight")
            fill(layer.mlp.e_score_correction_bias, f"{p}.mlp.gate.e_score_correction_bias")
            for e in range(net.c.n_routed_experts):
                for n, stack in EXPERT_STACKS:
                    fill(getattr(layer.mlp, stack)[e], f"{p}.mlp.experts.{e}.{n}.weight")
    if tensors:
        raise ValueError(f"the checkpoint holds tensors that the model has no place for: {sorted(tensors)[:5]}")
    return net.to(DEVICE).eval()


def _bytes(t: torch.Tensor) -> torch.Tensor:
    return t.reshape(-1).view(torch.uint8)


@torch.no_grad()
def check_export(trained: Target, folder: Path, ids: torch.Tensor) -> Target:
    """Loads what was exported and compares it with the trained model on ids [B, S]; returns the loaded model.

    - Every tensor in the files has the name, dtype and shape that target_tensors() gives, and is finite.
    - Logits: the trained model, rounded to bfloat16 where the files are and run with NVFP4 rounding, gives the loaded
      model's logits up to the order of float additions.
    Also logs how far the unrounded trained model is away, which is the cost of the rounding.
    """
    want, have = target_tensors(trained), read_tensors(folder)
    if set(want) != set(have):
        raise ValueError(f"{folder}: tensor names differ: {sorted(set(want) ^ set(have))[:5]}")
    for name, t in want.items():
        h = have[name]
        if h.dtype != t.dtype or h.shape != t.shape or not torch.equal(_bytes(h), _bytes(t)):
            raise ValueError(f"{folder}: {name} came back as {h.dtype} {tuple(h.shape)}, not as it was written")
    loaded = load_target(folder)
    rounded = copy.deepcopy(trained)
    for name, p in rounded.named_parameters():
        if not name.endswith(("w_gate", "w_up", "w_down")):
            p.copy_(p.to(torch.bfloat16))
    with amp():
        a = loaded.logits(loaded(ids, quant_cache=True))
        b = rounded.logits(rounded(ids, quant_weights=True, quant_cache=True))
        c = trained.logits(trained(ids, quant_weights=True, quant_cache=True))
    far = (a - b).abs().max().item() / b.abs().max().item()
    limit = 1e-4 if DEVICE == "cpu" else 2e-2  # bfloat16 products on a GPU
    agree = (a.argmax(-1) == c.argmax(-1)).float().mean().item()
    log(f"exported target: largest logit difference {far:.1e} of the largest logit;",
        f"same top token as before rounding to bfloat16 in {agree:.1%} of {ids.numel()} places")  # fmt: skip
    if not far <= limit:
        raise ValueError(f"{folder}: logits differ from the trained model's by {far:.1e}, more than {limit:.0e}")
    return loaded
