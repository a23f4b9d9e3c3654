"""The pocket-size Kimi-K2 architecture (DeepSeek-V3: multi-head latent attention, sigmoid-routed experts).

Weights are named as in the public checkpoints, except that the experts of a layer are stacked in one tensor per
projection; export.py splits them.
"""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F

from common.layers import MLP, RMSNorm, rope_interleaved

from .config import TargetConfig
from .nvfp4 import fake_e4m3, fake_quantise

# (keys [B, heads, T, d], values [B, heads, T, d], the T-slots of these S tokens, mask [B, 1, S, T]); see generate.py
Cache = tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]


def yarn_inv_freq(c: TargetConfig) -> torch.Tensor:
    """YaRN frequencies as DeepSeek-V3 computes them, [qk_rope_head_dim / 2]."""
    dim = c.qk_rope_head_dim
    freq = 1.0 / c.rope_theta ** (torch.arange(0, dim, 2, dtype=torch.float64) / dim)

    def correction_dim(rotations: float) -> float:
        return dim * math.log(c.yarn_original / (rotations * 2 * math.pi)) / (2 * math.log(c.rope_theta))

    low = max(math.floor(correction_dim(c.yarn_beta_fast)), 0)
    high = min(math.ceil(correction_dim(c.yarn_beta_slow)), dim - 1)
    span = high - low or 0.001
    keep = 1 - ((torch.arange(dim // 2, dtype=torch.float64) - low) / span).clamp(0, 1)
    return (freq / c.yarn_factor * (1 - keep) + freq * keep).float()


class MLA(nn.Module):
    """Multi-head latent attention: a token's keys and values come from one latent [kv_lora_rank] and one roped key."""

    def __init__(self, c: TargetConfig):
        super().__init__()
        self.c = c
        h, heads = c.hidden_size, c.num_attention_heads
        self.q_a_proj = nn.Linear(h, c.q_lora_rank, bias=False)
        self.q_a_layernorm = RMSNorm(c.q_lora_rank, c.rms_norm_eps)
        self.q_b_proj = nn.Linear(c.q_lora_rank, heads * c.qk_head_dim, bias=False)
        self.kv_a_proj_with_mqa = nn.Linear(h, c.kv_lora_rank + c.qk_rope_head_dim, bias=False)
        self.kv_a_layernorm = RMSNorm(c.kv_lora_rank, c.rms_norm_eps)
        self.kv_b_proj = nn.Linear(c.kv_lora_rank, heads * (c.qk_nope_head_dim + c.v_head_dim), bias=False)
        self.o_proj = nn.Linear(heads * c.v_head_dim, h, bias=False)
        mscale = 0.1 * math.log(c.yarn_factor) + 1.0
        self.scale = c.qk_head_dim**-0.5 * mscale * mscale

    def forward(
        self,
        x: torch.Tensor,
        cos: torch.Tensor,
        sin: torch.Tensor,
        quant_cache: bool,
        cache: Cache | None = None,
    ) -> torch.Tensor:
        """x [B, S, h]. quant_cache rounds what an fp8 cache would hold: the normed latent and the roped key."""
        c = self.c
        B, S, _ = x.shape
        heads = c.num_attention_heads
        q = self.q_b_proj(self.q_a_layernorm(self.q_a_proj(x))).view(B, S, heads, -1).transpose(1, 2)
        q_nope, q_rope = q.split([c.qk_nope_head_dim, c.qk_rope_head_dim], -1)
        latent, k_rope = self.kv_a_proj_with_mqa(x).split([c.kv_lora_rank, c.qk_rope_head_dim], -1)
        latent = self.kv_a_layernorm(latent)
        q_rope = rope_interleaved(q_rope, cos, sin)
        k_rope = rope_interleaved(k_rope[:, None], cos, sin)
        if quant_cache:
            latent, k_rope = fake_e4m3(latent), fake_e4m3(k_rope)
        kv = self.kv_b_proj(latent).view(B, S, heads, -1).transpose(1, 2)
        k_nope, v = kv.split([c.qk_nope_head_dim, c.v_head_dim], -1)
        k = torch.cat([k_nope, k_rope.expand(B, heads, S, c.qk_rope_head_dim)], -1)
        q = torch.cat([q_nope, q_rope], -1)
        v = F.pad(v, (0, c.qk_head_dim - c.v_head_dim))  # the fused attention wants one head width
        mask = None
        if cache is not None:
            k_cache, v_cache, slots, mask = cache
            k_cache.index_copy_(2, slots, k.to(k_cache.dtype))
            v_cache.index_copy_(2, slots, v.to(v_cache.dtype))
            k, v = k_cache, v_cache
        o = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=cache is None, scale=self.scale)
        return self.o_proj(o[..., : c.v_head_dim].transpose(1, 2).reshape(B, S, -1))


def grouped_mm(x: torch.Tensor, w: torch.Tensor, ends: torch.Tensor) -> torch.Tensor:
    """Rows [ends[e-1], ends[e]) of x [N, in] times w[e] [in, out], for every expert e."""
    if x.is_cuda:
        return torch._grouped_mm(x, w, offs=ends)
    outs, start = [], 0
    for e, end in enumerate(ends.tolist()):
        outs.append(x[start:end] @ w[e])
        start = end
    return torch.cat(outs)


class MoE(nn.Module):
    """Routed experts (top-k by sigmoid score plus a balancing bias) and a shared expert that always runs."""

    def __init__(self, c: TargetConfig):
        super().__init__()
        self.c = c
        experts, h, i = c.n_routed_experts, c.hidden_size, c.moe_intermediate_size
        self.gate = nn.Linear(h, experts, bias=False)
        self.register_buffer("e_score_correction_bias", torch.zeros(experts))
        self.register_buffer("load", torch.zeros(experts))  # tokens per expert since the last update of the bias
        self.w_gate = nn.Parameter(torch.empty(experts, i, h))
        self.w_up = nn.Parameter(torch.empty(experts, i, h))
        self.w_down = nn.Parameter(torch.empty(experts, h, i))
        self.shared_experts = MLP(h, i * c.n_shared_experts)

    def forward(self, x: torch.Tensor, quant_weights: bool) -> torch.Tensor:
        """x [..., h]. quant_weights rounds the routed experts to NVFP4; the shared expert is never quantised."""
        c = self.c
        shape = x.shape
        x = x.reshape(-1, shape[-1])
        scores = F.linear(x.float(), self.gate.weight.float()).sigmoid()
        # the bias decides who is chosen, not how much the chosen count
        idx = (scores.detach() + self.e_score_correction_bias).topk(c.num_experts_per_tok, -1).indices
        weight = scores.gather(1, idx)
        weight = weight / (weight.sum(-1, keepdim=True) + 1e-20) * c.routed_scaling_factor
        flat = idx.reshape(-1)
        order = flat.argsort(stable=True)
        counts = F.one_hot(flat, c.n_routed_experts).sum(0)
        if self.training:
            self.load.add_(counts.float())
        ends = counts.cumsum(0).to(torch.int32)
        rows = x[order // c.num_experts_per_tok]
        experts = (self.w_gate, self.w_up, self.w_down)
        if quant_weights:
            experts = tuple(map(fake_quantise, experts))
        gate, up, down = (w.to(x.dtype).transpose(1, 2) for w in experts)
        y = grouped_mm(F.silu(grouped_mm(rows, gate, ends)) * grouped_mm(rows, up, ends), down, ends)
        y = y * weight.reshape(-1)[order, None].to(y.dtype)
        inverse = torch.empty_like(order).scatter_(0, order, torch.arange(order.numel(), device=order.device))
        y = y[inverse].view(-1, c.num_experts_per_tok, shape[-1]).sum(1)
        return (y + self.shared_experts(x)).view(shape)


class TargetLayer(nn.Module):
    """Pre-norm attention and feed-forward: dense in the first layers, routed in the others."""

    def __init__(self, c: TargetConfig, index: int):
        super().__init__()
        self.input_layernorm = RMSNorm(c.hidden_size, c.rms_norm_eps)
        self.self_attn = MLA(c)
        self.post_attention_layernorm = RMSNorm(c.hidden_size, c.rms_norm_eps)
        self.mlp = MLP(c.hidden_size, c.intermediate_size) if index < c.first_k_dense_replace else MoE(c)

    def forward(self, x, cos, sin, quant_weights: bool, quant_cache: bool, cache: Cache | None) -> torch.Tensor:
        x = x + self.self_attn(self.input_layernorm(x), cos, sin, quant_cache, cache)
        n = self.post_attention_layernorm(x)
        return x + (self.mlp(n, quant_weights) if isinstance(self.mlp, MoE) else self.mlp(n))


class Target(nn.Module):
    """Token ids to final hidden states; lm_head is applied by whoever needs logits."""

    def __init__(self, c: TargetConfig):
        super().__init__()
        self.c = c
        self.embed_tokens = nn.Embedding(c.vocab_size, c.hidden_size)
        self.layers = nn.ModuleList([TargetLayer(c, i) for i in range(c.num_hidden_layers)])
        self.norm = RMSNorm(c.hidden_size, c.rms_norm_eps)
        self.lm_head = nn.Linear(c.hidden_size, c.vocab_size, bias=False)
        self.register_buffer("inv_freq", yarn_inv_freq(c), persistent=False)
        for name, p in self.named_parameters():
            if p.dim() >= 2:
                nn.init.normal_(p, std=0.02 if "embed" in name or "lm_head" in name else p.shape[-1] ** -0.5)
                if name.endswith(("o_proj.weight", "down_proj.weight", "w_down")):
                    p.data.mul_(1 / math.sqrt(2 * c.num_hidden_layers))

    def moe_layers(self) -> list[MoE]:
        """The routed feed-forwards, in layer order."""
        return [layer.mlp for layer in self.layers if isinstance(layer.mlp, MoE)]

    def forward(
        self,
        ids: torch.Tensor,
        quant_weights: bool = False,
        quant_cache: bool = False,
        pos: torch.Tensor | None = None,
        caches: list[Cache] | None = None,
        taps: tuple[int, ...] | None = None,
    ):
        """ids [B, S] -> final normed hidden [B, S, h].

        pos: positions [S] or [B, S], by default 0..S-1. taps: ids of layers whose outputs (before any norm) are
        returned too, concatenated in ascending order: (hidden, features [B, S, len(taps) * h]).
        """
        x = self.embed_tokens(ids)
        pos = torch.arange(ids.shape[1], device=ids.device) if pos is None else pos
        angle = pos.float()[..., None] * self.inv_freq
        cos, sin = angle.cos(), angle.sin()
        if cos.dim() == 3:
            cos, sin = cos[:, None], sin[:, None]
        features = []
        for i, layer in enumerate(self.layers):
            x = layer(x, cos, sin, quant_weights, quant_cache, None if caches is None else caches[i])
            if taps is not None and i in taps:
                features.append(x)
        hidden = self.norm(x)
        return (hidden, torch.cat(features, -1)) if taps is not None else hidden

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        """float32 logits of final hidden states."""
        return F.linear(hidden.float(), self.lm_head.weight.float())
