"""The layers that target and draft have in common."""

import torch
import torch.nn as nn
import torch.nn.functional as F

from .device import COMPUTE


class RMSNorm(nn.Module):
    """x / rms(x) * weight over the last dimension, computed in float32, returned in the compute dtype."""

    def __init__(self, dim: int, eps: float):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))
        self.eps = eps

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.rms_norm(x.float(), (x.shape[-1],), self.weight.float(), self.eps).to(COMPUTE)


class MLP(nn.Module):
    """down(silu(gate(x)) * up(x)), the gated feed-forward of Llama, Qwen3 and DeepSeek-V3."""

    def __init__(self, hidden: int, intermediate: int):
        super().__init__()
        self.gate_proj = nn.Linear(hidden, intermediate, bias=False)
        self.up_proj = nn.Linear(hidden, intermediate, bias=False)
        self.down_proj = nn.Linear(intermediate, hidden, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


def _rotate(a: torch.Tensor, b: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)


def rope_interleaved(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """x [..., S, d] with pairs (2i, 2i+1); the result is in half-split order, as in DeepSeek-V3's reference."""
    return _rotate(x[..., 0::2].float(), x[..., 1::2].float(), cos, sin).to(x.dtype)


def rope_half(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """x [..., S, d] with pairs (i, i + d/2), the convention of Llama and Qwen3."""
    d = x.shape[-1] // 2
    return _rotate(x[..., :d].float(), x[..., d:].float(), cos, sin).to(x.dtype)
