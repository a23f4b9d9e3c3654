"""Measures the accept length of a draft on responses that it was not trained on."""

from typing import NamedTuple

import torch
import torch.nn.functional as F

from common.device import DEVICE, amp
from common.progress import log

from .blocks import FIRST_ANCHOR, cut_blocks
from .documents import Rows
from .model import Draft
from .target_source import TargetSource

_ANCHORS_AT_ONCE = 128


class AcceptLength(NamedTuple):
    """Tokens gained per step of the target, the steps counted, and the share of right guesses by place in the block."""

    mean: float
    steps: int
    per_position: list[float]


@torch.no_grad()
def evaluate_draft(draft: Draft, target: TargetSource, rows: Rows) -> AcceptLength:
    """Replays greedy DFlash decoding on the rows' responses.

    The response tokens are taken for what the target says, which is exact for greedy answers: a step accepts the
    guesses up to the first that differs, and one more token comes from the target itself. A perfect draft reaches
    block_size, but for the ends of responses.
    """
    c = draft.c
    right = torch.zeros(c.block_size - 1, device=DEVICE)
    counted = torch.zeros(c.block_size - 1, device=DEVICE)
    tokens = steps = 0
    for ids, labels in zip(rows.ids.to(DEVICE).long(), rows.labels.to(DEVICE).long()):
        marks = labels.tolist()
        S = len(marks)
        features = target.features(ids[None], c.target_layer_ids)
        positions = torch.arange(S, device=DEVICE)[None]
        anchors = torch.tensor([i for i in range(FIRST_ANCHOR, S - 1) if marks[i + 1] > 0], device=DEVICE)
        accepted: dict[int, int] = {}  # anchor -> right guesses in a row
        for part in anchors[None].split(_ANCHORS_AT_ONCE, 1):
            if not part.numel():
                continue
            b = cut_blocks(ids[None], labels[None], part, c)
            with amp():
                hidden = draft(features, target.embed(b.noise), positions, b.pos, b.mask)
                guess = F.linear(hidden, target.head.to(hidden.dtype)).argmax(-1).view(-1, c.block_size)[:, 1:]
            valid = b.valid[0, :, 1:]
            good = (guess == b.tokens[0, :, 1:]) & valid
            right += good.sum(0)
            counted += valid.sum(0)
            accepted.update(zip(part[0].tolist(), good.int().cumprod(-1).sum(-1).tolist()))
        for gained in replay(marks, accepted):
            tokens += gained
            steps += 1
    result = AcceptLength(tokens / max(1, steps), steps, (right / counted.clamp(min=1)).tolist())
    log(f"accept length {result.mean:.3f} over {steps} steps; per position", [round(v, 3) for v in result.per_position])
    return result


def replay(marks: list[int], accepted: dict[int, int]) -> list[int]:
    """Tokens gained in each step of decoding every response of one row.

    marks: the row's labels. accepted: right guesses in a row when a block starts at a position. Prefill gives the first
    token of a response; each step then starts at the last known one.
    """
    gains = []
    start = FIRST_ANCHOR + 1
    while start < len(marks):
        end = start + 1
        while end < len(marks) and marks[end] == marks[start]:
            end += 1
        if marks[start] > 0 and marks[start - 1] != marks[start]:
            p = start
            while p < end - 1:
                gained = min(accepted.get(p, 0), end - 1 - p) + 1
                gains.append(gained)
                p += gained
        start = end
    return gains
