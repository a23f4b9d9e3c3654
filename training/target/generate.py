"""Batched generation with a key/value cache, plain decoding."""

import torch

from common.device import COMPUTE, amp

from .model import Target


@torch.no_grad()
def generate(
    net: Target,
    prompts: list[list[int]],
    new: int,
    temperature: float,
    stop_ids: set[int],
    quant_weights: bool = False,
) -> list[list[int]]:
    """Up to `new` ids for each prompt, cut after the first stop id; temperature 0 takes the likeliest token.

    The cache is rounded as an fp8 cache is. quant_weights is for a model whose experts are not NVFP4 values yet.
    Prompts are padded on the left, so that all rows write the same cache slot in a step.
    """
    if not prompts:
        return []
    if new < 1:
        raise ValueError(f"the number of new tokens must be 1 or more, got {new}")
    if min(map(len, prompts)) == 0:
        raise ValueError("an empty prompt: there is no position to predict from")
    c = net.c
    dev = net.inv_freq.device
    B, P = len(prompts), max(map(len, prompts))
    T = P + new
    ids = torch.zeros(B, T, dtype=torch.long, device=dev)
    pad = torch.tensor([P - len(p) for p in prompts], device=dev)
    for i, p in enumerate(prompts):
        ids[i, P - len(p) : P] = torch.tensor(p, device=dev)
    shape = (B, c.num_attention_heads, T, c.qk_head_dim)
    kv = [[torch.zeros(shape, device=dev, dtype=COMPUTE) for _ in range(2)] for _ in net.layers]
    column = torch.arange(T, device=dev)
    valid = column[None] >= pad[:, None]
    slots = torch.arange(P, device=dev)
    causal = column[None, None, None, :] <= slots[None, None, :, None]
    itself = column[None, None, None, :] == slots[None, None, :, None]  # padding rows need one key, or they give NaN
    mask = (valid[:, None, None, :] & causal) | itself
    pos = (slots[None] - pad[:, None]).clamp(min=0)
    done = torch.zeros(B, dtype=torch.bool, device=dev)
    stops = torch.tensor(sorted(stop_ids), device=dev)
    x = ids[:, :P]
    for t in range(new):
        with amp():
            caches = [(k, v, slots, mask) for k, v in kv]
            logits = net.logits(net(x, quant_weights, quant_cache=True, pos=pos, caches=caches)[:, -1])
        if temperature == 0:
            chosen = logits.argmax(-1)
        else:
            chosen = torch.multinomial((logits / temperature).softmax(-1), 1)[:, 0]
        ids[:, P + t] = chosen
        done |= torch.isin(chosen, stops)
        if t % 16 == 15 and bool(done.all()):
            break
        slots = torch.tensor([P + t], device=dev)
        mask = (valid & (column[None] <= P + t))[:, None, None, :]
        pos = (P + t - pad)[:, None]
        x = chosen[:, None]
    return [cut_after_stop(row, stop_ids) for row in ids[:, P : P + t + 1].tolist()]


def cut_after_stop(row: list[int], stop_ids: set[int]) -> list[int]:
    """The ids up to and with the first stop id."""
    for j, tok in enumerate(row):
        if tok in stop_ids:
            return row[: j + 1]
    return row
