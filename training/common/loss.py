"""Cross entropy over a vocabulary."""

import torch
import torch.nn.functional as F


def chunked_cross_entropy(
    hidden: torch.Tensor,
    head: torch.Tensor,
    labels: torch.Tensor,
    weights: torch.Tensor | None = None,
    chunk: int = 16384,
) -> torch.Tensor:
    """The sum of (weighted) cross entropies of head @ hidden, without holding the logits of more than a chunk of rows.

    hidden [N, h], head [vocab, h], labels [N], weights [N].
    """
    total = hidden.new_zeros((), dtype=torch.float32)
    for i in range(0, hidden.shape[0], chunk):
        logits = F.linear(hidden[i : i + chunk], head.to(hidden.dtype)).float()
        each = F.cross_entropy(logits, labels[i : i + chunk], reduction="none")
        total = total + (each.sum() if weights is None else (each * weights[i : i + chunk]).sum())
    return total
