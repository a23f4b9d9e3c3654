"""Trains a DFlash draft for a frozen target."""

from dataclasses import dataclass

import torch

from common.device import DEVICE, amp
from common.loss import chunked_cross_entropy
from common.optim import Optimizers
from common.progress import Budget, log, warm_then_decay

from .blocks import anchor_weights, cut_blocks
from .config import DraftConfig
from .documents import Rows
from .model import Draft
from .target_source import TargetSource

DECAY = 4.0  # places whose weight falls by a factor of e


@dataclass
class DraftOptions:
    """Batch shape and rates of draft training."""

    batch: int = 16
    anchors: int = 128
    muon_lr: float = 0.02
    adam_lr: float = 3e-3
    compile: bool = True
    report_every: int = 200


def train_draft(c: DraftConfig, target: TargetSource, rows: Rows, budget: Budget, o: DraftOptions) -> Draft:
    """Each step: `batch` rows, the target's features of them, `anchors` blocks in each row, and the cross entropy of
    every block's guesses against the true tokens, through the target's own head. The i-th guess (from 0) weighs
    exp(-i / DECAY), as a wrong guess makes all behind it worthless.
    """
    if c.hidden_size != target.hidden_size:
        raise ValueError(f"the draft's hidden_size {c.hidden_size} must be the target's, {target.hidden_size}")
    draft = Draft(c).to(DEVICE)
    optimizers = Optimizers(draft, o.muon_lr, o.adam_lr)
    forward = torch.compile(draft) if o.compile else draft
    ids, labels = rows.ids.to(DEVICE).long(), rows.labels.to(DEVICE).long()
    positions = torch.arange(ids.shape[1], device=DEVICE).expand(o.batch, -1)
    anchors = min(o.anchors, ids.shape[1])
    weight_of_place = torch.exp(-torch.arange(c.block_size - 1, device=DEVICE).float() / DECAY)
    loss = torch.zeros(())
    while budget.fraction() < 1:
        rate = warm_then_decay(budget, warm_steps=100, decay_from=0.4, lowest=0.01)
        chosen = torch.randint(0, len(ids), (o.batch,), device=DEVICE)
        x, marks = ids[chosen], labels[chosen]
        blocks = cut_blocks(x, marks, torch.multinomial(anchor_weights(marks), anchors), c)
        features, noise = target.features(x, c.target_layer_ids), target.embed(blocks.noise)
        with amp():
            hidden = forward(features, noise, positions, blocks.pos, blocks.mask)
            guesses = hidden.view(o.batch, anchors, c.block_size, -1)[:, :, 1:]
            weights = blocks.valid[:, :, 1:].float() * weight_of_place
            total = chunked_cross_entropy(
                guesses.flatten(0, 2), target.head, blocks.tokens[:, :, 1:].reshape(-1), weights.reshape(-1)
            )
            loss = total / weights.sum().clamp(min=1)
        loss.backward()
        optimizers.step(rate)
        budget.step += 1
        if budget.step % o.report_every == 0 or budget.step == 20:
            log(f"draft step {budget.step} loss {loss.item():.4f} lr {rate:.3f}")
    log(f"draft done, steps {budget.step}, loss {loss.item():.4f}")
    if not torch.isfinite(loss):
        raise FloatingPointError(f"the draft's loss ended as {loss.item()}")
    return draft.eval()
