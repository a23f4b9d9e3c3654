"""Cuts training blocks out of sequences: which tokens a block shows, which it must guess, and what it may look at."""

from typing import NamedTuple

import torch

from .config import DraftConfig

FIRST_ANCHOR = 8  # a block further left would have next to no context


class Blocks(NamedTuple):
    """K blocks of b tokens in each of B sequences of S tokens, flattened to Q = K * b."""

    noise: torch.Tensor  # [B, Q] ids the draft sees: the anchor token, then masks
    pos: torch.Tensor  # [B, Q] positions; the last ones may lie beyond the sequence
    tokens: torch.Tensor  # [B, K, b] the true ids
    valid: torch.Tensor  # [B, K, b] whether a place holds a token of the same response
    mask: torch.Tensor  # [B, 1, Q, S + Q] a block sees the features before its anchor, and itself


def anchor_weights(labels: torch.Tensor) -> torch.Tensor:
    """Where a block may start, as weights [B, S]: just before a response, or inside one.

    labels [B, S]: 0 for prompt and padding, the response's number elsewhere. A little weight everywhere lets a sequence
    with few places be sampled; blocks at the others have nothing valid in them.
    """
    w = torch.zeros_like(labels, dtype=torch.float)
    here, behind = labels[:, :-1], labels[:, 1:]
    w[:, :-1] = ((behind > 0) & ((here == behind) | (here == 0))).float()
    w[:, :FIRST_ANCHOR] = 0
    return w + 1e-9


def cut_blocks(ids: torch.Tensor, labels: torch.Tensor, anchors: torch.Tensor, c: DraftConfig) -> Blocks:
    """ids and labels [B, S] int64, anchors [B, K]: the position of each block's first, known, token.

    The anchor's own feature is hidden: when the draft runs, the target has not seen that token yet.
    """
    B, S = ids.shape
    K, b = anchors.shape[1], c.block_size
    pos = anchors[:, :, None] + torch.arange(b, device=ids.device)
    inside = pos < S
    clamped = pos.clamp(max=S - 1).view(B, -1)
    tokens = torch.gather(ids, 1, clamped).view(B, K, b)
    label = torch.gather(labels, 1, clamped).view(B, K, b)
    # an anchor that ends a prompt belongs to the response that begins behind it
    own = torch.where(label[:, :, :1] > 0, label[:, :, :1], label[:, :, 1:2])
    valid = inside & (label > 0) & (label == own)
    noise = torch.full_like(tokens, c.mask_token_id)
    noise[:, :, 0] = tokens[:, :, 0]
    before = torch.arange(S, device=ids.device)[None, None, :] < anchors[:, :, None]
    context = before[:, :, None].expand(B, K, b, S).reshape(B, K * b, S)
    number = torch.arange(K * b, device=ids.device) // b
    itself = (number[:, None] == number[None]).expand(B, K * b, K * b)
    return Blocks(noise.view(B, -1), pos.view(B, -1), tokens, valid, torch.cat([context, itself], -1)[:, None])
