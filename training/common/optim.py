"""Muon for the hidden matrices, AdamW for everything else.

Muon (Keller Jordan, 2024): momentum whose update is replaced by its nearest orthogonal matrix, found with a few
Newton-Schulz iterations. It trains small models in about half of AdamW's steps.
"""

import torch
import torch.nn as nn


@torch.compile(disable=not torch.cuda.is_available())
def newton_schulz(g: torch.Tensor, steps: int = 5) -> torch.Tensor:
    """Nearly orthogonal matrix with the row and column spaces of g [..., m, n]; quintic iteration in bfloat16."""
    x = g.bfloat16()
    tall = x.shape[-2] > x.shape[-1]
    if tall:
        x = x.mT
    x = x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    for _ in range(steps):
        a = x @ x.mT
        b = -4.7750 * a + 2.0315 * a @ a
        x = 3.4445 * x + b @ x
    return x.mT if tall else x


class Muon(torch.optim.Optimizer):
    """Momentum orthogonalised by Newton-Schulz; works on matrices and on stacks of matrices [..., m, n]."""

    def __init__(self, params, lr: float, momentum: float = 0.95, wd: float = 0.01):
        super().__init__(list(params), dict(lr=lr, momentum=momentum, wd=wd))

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                if "m" not in state:
                    state["m"] = torch.zeros_like(p)
                m = state["m"].lerp_(p.grad, 1 - group["momentum"])
                u = newton_schulz(p.grad.lerp(m, group["momentum"]))
                p.mul_(1 - group["lr"] * group["wd"])
                p.add_(u.to(p.dtype), alpha=-group["lr"] * max(1.0, p.shape[-2] / p.shape[-1]) ** 0.5)


class Optimizers:
    """The pair of optimisers of one model, moved together by one learning-rate factor."""

    def __init__(self, model: nn.Module, muon_lr: float = 0.02, adam_lr: float = 3e-3):
        muon, adam = [], []
        for name, p in model.named_parameters():
            if p.requires_grad:
                plain = p.dim() < 2 or any(s in name for s in ("embed", "lm_head", "gate.weight"))
                (adam if plain else muon).append(p)
        fused = any(p.is_cuda for p in adam)
        self._all = [
            Muon(muon, lr=muon_lr),
            torch.optim.AdamW(adam, lr=adam_lr, betas=(0.9, 0.95), weight_decay=0.0, fused=fused),
        ]
        self._base = [muon_lr, adam_lr]

    def step(self, factor: float) -> None:
        """One update at `factor` times the base rates; clears the gradients."""
        for opt, base in zip(self._all, self._base):
            opt.param_groups[0]["lr"] = base * factor
            opt.step()
            opt.zero_grad(set_to_none=True)
