"""The DFlash draft: a small non-causal decoder that guesses a whole block from the target's hidden states.

Keys and values of the context come from the target's features, through one projection that all layers share; only the
tokens of the block run through the layers. It has neither embedding nor head: the target's are used for both. Weights
are named as in the public checkpoints.
"""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F

from common.layers import MLP, RMSNorm, rope_half

from .config import DraftConfig

Rope = tuple[torch.Tensor, torch.Tensor]


class DraftAttention(nn.Module):
    """Grouped-query attention of the block's tokens over context and block, q and k normed per head, then roped."""

    def __init__(self, c: DraftConfig):
        super().__init__()
        self.c = c
        h, d = c.hidden_size, c.head_dim
        self.q_proj = nn.Linear(h, c.num_attention_heads * d, bias=False)
        self.k_proj = nn.Linear(h, c.num_key_value_heads * d, bias=False)
        self.v_proj = nn.Linear(h, c.num_key_value_heads * d, bias=False)
        self.o_proj = nn.Linear(c.num_attention_heads * d, h, bias=False)
        self.q_norm = RMSNorm(d, c.rms_norm_eps)
        self.k_norm = RMSNorm(d, c.rms_norm_eps)

    def _heads(self, t: torch.Tensor, heads: int) -> torch.Tensor:
        return t.view(t.shape[0], t.shape[1], heads, self.c.head_dim).transpose(1, 2)

    def forward(self, n: torch.Tensor, ctx: torch.Tensor, rope_q: Rope, rope_k: Rope, mask: torch.Tensor):
        """n [B, Q, h]: the block's normed tokens; ctx [B, S, h]: projected features, not normed by the layer."""
        c = self.c
        kv_in = torch.cat([ctx, n], 1)
        q = rope_half(self.q_norm(self._heads(self.q_proj(n), c.num_attention_heads)), *rope_q)
        k = rope_half(self.k_norm(self._heads(self.k_proj(kv_in), c.num_key_value_heads)), *rope_k)
        v = self._heads(self.v_proj(kv_in), c.num_key_value_heads)
        group = c.num_attention_heads // c.num_key_value_heads
        k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
        o = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.o_proj(o.transpose(1, 2).flatten(2))


class DraftLayer(nn.Module):
    """Pre-norm attention and feed-forward."""

    def __init__(self, c: DraftConfig):
        super().__init__()
        self.input_layernorm = RMSNorm(c.hidden_size, c.rms_norm_eps)
        self.self_attn = DraftAttention(c)
        self.post_attention_layernorm = RMSNorm(c.hidden_size, c.rms_norm_eps)
        self.mlp = MLP(c.hidden_size, c.intermediate_size)

    def forward(self, x: torch.Tensor, ctx: torch.Tensor, rope_q: Rope, rope_k: Rope, mask: torch.Tensor):
        x = x + self.self_attn(self.input_layernorm(x), ctx, rope_q, rope_k, mask)
        return x + self.mlp(self.post_attention_layernorm(x))


class Draft(nn.Module):
    """Features of the context and embeddings of the block -> final hidden states of the block."""

    def __init__(self, c: DraftConfig):
        super().__init__()
        self.c = c
        self.fc = nn.Linear(len(c.target_layer_ids) * c.hidden_size, c.hidden_size, bias=False)
        self.hidden_norm = RMSNorm(c.hidden_size, c.rms_norm_eps)
        self.layers = nn.ModuleList([DraftLayer(c) for _ in range(c.num_hidden_layers)])
        self.norm = RMSNorm(c.hidden_size, c.rms_norm_eps)
        inv_freq = 1.0 / c.rope_theta ** (torch.arange(0, c.head_dim, 2).float() / c.head_dim)
        self.register_buffer("inv_freq", inv_freq, persistent=False)
        for name, p in self.named_parameters():
            if p.dim() >= 2:
                nn.init.normal_(p, std=p.shape[-1] ** -0.5)
                if name.endswith(("o_proj.weight", "down_proj.weight")):
                    p.data.mul_(1 / math.sqrt(2 * c.num_hidden_layers))

    def _rope(self, pos: torch.Tensor) -> Rope:
        angle = pos.float()[..., None] * self.inv_freq
        return angle.cos()[:, None], angle.sin()[:, None]

    def forward(
        self,
        features: torch.Tensor,
        noise: torch.Tensor,
        ctx_pos: torch.Tensor,
        block_pos: torch.Tensor,
        mask: torch.Tensor,
    ) -> torch.Tensor:
        """features [B, S, layers * h] at positions ctx_pos [B, S]; noise [B, Q, h]: embeddings of the blocks' tokens at
        block_pos [B, Q]; mask [B, 1, Q, S + Q] bool, True where a query may look. Returns [B, Q, h].
        """
        ctx = self.hidden_norm(self.fc(features))
        rope_q, rope_k = self._rope(block_pos), self._rope(torch.cat([ctx_pos, block_pos], 1))
        x = noise
        for layer in self.layers:
            x = layer(x, ctx, rope_q, rope_k, mask)
        return self.norm(x)
