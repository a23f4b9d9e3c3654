"""The shape of the pocket target. Field names as in the public config.json files."""

from dataclasses import dataclass

MAX_POSITIONS = 8192


@dataclass
class TargetConfig:
    """Kimi-K2 (DeepSeek-V3) architecture; the defaults are models/pocket-k2.

    kv_lora_rank and qk_rope_head_dim are those of the big model (512 + 64 values per cached token), so that kernels
    for the small one are kernels for the big one.
    """

    vocab_size: int = 4096
    hidden_size: int = 256
    num_hidden_layers: int = 6
    first_k_dense_replace: int = 1
    intermediate_size: int = 768
    moe_intermediate_size: int = 256
    n_routed_experts: int = 16
    num_experts_per_tok: int = 4
    n_shared_experts: int = 1
    routed_scaling_factor: float = 2.827
    num_attention_heads: int = 8
    q_lora_rank: int = 128
    kv_lora_rank: int = 512
    qk_nope_head_dim: int = 64
    qk_rope_head_dim: int = 64
    v_head_dim: int = 64
    rms_norm_eps: float = 1e-5
    rope_theta: float = 50000.0
    yarn_factor: float = 32.0
    yarn_original: int = 4096
    yarn_beta_fast: float = 1.0
    yarn_beta_slow: float = 1.0

    @property
    def qk_head_dim(self) -> int:
        """Width of one query or key head."""
        return self.qk_nope_head_dim + self.qk_rope_head_dim


TINY = TargetConfig(
    hidden_size=64,
    num_hidden_layers=3,
    intermediate_size=96,
    moe_intermediate_size=32,
    n_routed_experts=4,
    num_experts_per_tok=2,
    num_attention_heads=2,
    q_lora_rank=32,
    kv_lora_rank=64,
    qk_nope_head_dim=16,
    qk_rope_head_dim=16,
    v_head_dim=16,
)
"""For the smoke run: every part of the architecture, at a size that a CPU trains in seconds."""
