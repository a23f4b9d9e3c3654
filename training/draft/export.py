"""Writes a draft as a Hugging Face folder (DFlashDraftModel, bfloat16), and reads it back."""

from pathlib import Path

import torch

from common.checkpoint import read_json, read_tensors, write_json, write_tensors
from common.device import DEVICE

from .config import DraftConfig
from .model import Draft


def draft_config_json(c: DraftConfig) -> dict:
    """config.json of a draft."""
    return {
        "architectures": ["DFlashDraftModel"],
        "model_type": "qwen3",
        "torch_dtype": "bfloat16",
        "block_size": c.block_size,
        "dflash_config": {"target_layer_ids": c.target_layer_ids, "mask_token_id": c.mask_token_id},
        "num_target_layers": c.num_target_layers,
        "hidden_size": c.hidden_size,
        "num_hidden_layers": c.num_hidden_layers,
        "intermediate_size": c.intermediate_size,
        "num_attention_heads": c.num_attention_heads,
        "num_key_value_heads": c.num_key_value_heads,
        "head_dim": c.head_dim,
        "rms_norm_eps": c.rms_norm_eps,
        "rope_theta": c.rope_theta,
        "vocab_size": c.vocab_size,
        "max_position_embeddings": c.max_position_embeddings,
        "hidden_act": "silu",
        "attention_bias": False,
        "tie_word_embeddings": False,
        "layer_types": ["full_attention"] * c.num_hidden_layers,
    }


def export_draft(draft: Draft, folder: Path) -> None:
    """Writes weights and config; the module's own names are those of the files."""
    folder.mkdir(parents=True, exist_ok=True)
    tensors = {k: v.detach().to(torch.bfloat16).contiguous().cpu() for k, v in draft.state_dict().items()}
    write_tensors(tensors, folder)
    write_json(draft_config_json(draft.c), folder / "config.json")


def read_draft_config(folder: Path) -> DraftConfig:
    """The shape from config.json. ValueError when it is no DFlash draft, KeyError naming a field that it lacks."""
    raw = read_json(folder / "config.json")
    if raw.get("architectures") != ["DFlashDraftModel"]:
        raise ValueError(f"{folder}/config.json: want architectures [DFlashDraftModel], got {raw.get('architectures')}")
    own = {k: raw["dflash_config"][k] for k in ("target_layer_ids", "mask_token_id")}
    return DraftConfig(**own, **{k: raw[k] for k in DraftConfig.__dataclass_fields__ if k not in own})


@torch.no_grad()
def load_draft(folder: Path) -> Draft:
    """The draft of an exported folder, in eval mode. Wrong or missing tensors are errors that name them."""
    draft = Draft(read_draft_config(folder))
    tensors = read_tensors(folder)
    draft.load_state_dict({k: v.float() for k, v in tensors.items()})
    broken = [k for k, v in tensors.items() if not torch.isfinite(v).all()]
    if broken:
        raise ValueError(f"{folder}: values that are not finite in {broken[:5]}")
    return draft.to(DEVICE).eval()


@torch.no_grad()
def check_draft_export(trained: Draft, folder: Path) -> Draft:
    """Loads what was exported and compares every tensor with the trained draft's, rounded; returns the loaded draft."""
    loaded = load_draft(folder)
    if loaded.c != trained.c:
        raise ValueError(f"{folder}/config.json gives {loaded.c}, trained was {trained.c}")
    files = read_tensors(folder)
    for name, p in trained.state_dict().items():
        if files[name].dtype != torch.bfloat16 or not torch.equal(files[name], p.to(torch.bfloat16).cpu()):
            raise ValueError(f"{folder}: {name} came back as {files[name].dtype}, not as it was trained")
    return loaded
