"""Writing and reading of safetensors folders, and of the JSON beside them."""

import json
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

SHARD_BYTES = 15 * 2**20  # small enough for any place where files are limited to 16 MiB


def nbytes(t: torch.Tensor) -> int:
    """Bytes of a tensor's data."""
    return t.numel() * t.element_size()


def write_tensors(tensors: dict[str, torch.Tensor], folder: Path) -> None:
    """Writes model.safetensors, or shards with an index when the tensors take more than SHARD_BYTES."""
    for stale in [*folder.glob("model*.safetensors"), *folder.glob("model.safetensors.index.json")]:
        stale.unlink()
    shards: list[dict[str, torch.Tensor]] = [{}]
    size = 0
    for name, t in tensors.items():
        if shards[-1] and size + nbytes(t) > SHARD_BYTES:
            shards.append({})
            size = 0
        shards[-1][name] = t
        size += nbytes(t)
    if len(shards) == 1:
        save_file(shards[0], folder / "model.safetensors", {"format": "pt"})
        return
    weight_map = {}
    for i, shard in enumerate(shards):
        file = f"model-{i + 1:05d}-of-{len(shards):05d}.safetensors"
        save_file(shard, folder / file, {"format": "pt"})
        weight_map.update({name: file for name in shard})
    index = {"metadata": {"total_size": sum(map(nbytes, tensors.values()))}, "weight_map": weight_map}
    write_json(index, folder / "model.safetensors.index.json", indent=1)


def read_tensors(folder: Path) -> dict[str, torch.Tensor]:
    """All tensors of a folder. FileNotFoundError when it holds none."""
    files = sorted(folder.glob("*.safetensors"))
    if not files:
        raise FileNotFoundError(f"{folder} holds no *.safetensors file")
    tensors = {}
    for f in files:
        tensors.update(load_file(f))
    return tensors


def write_json(value, file: Path, indent: int = 2) -> None:
    """Plain JSON, no newline at the end."""
    file.write_text(json.dumps(value, indent=indent))


def read_json(file: Path):
    """JSON of a file; the error names the file."""
    try:
        return json.loads(file.read_text())
    except json.JSONDecodeError as e:
        raise ValueError(f"{file} is not JSON: {e}") from e
