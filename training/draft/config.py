"""The shape of a DFlash draft. Field names as in the public config.json files."""

from dataclasses import dataclass, field


@dataclass
class DraftConfig:
    """The defaults are models/pocket-k2/draft.

    hidden_size must be the target's. target_layer_ids: features are the outputs of these layers of the target,
    concatenated in ascending order. block_size counts the last known token and the guesses behind it.
    """

    hidden_size: int = 256
    num_hidden_layers: int = 3
    intermediate_size: int = 768
    num_attention_heads: int = 8
    num_key_value_heads: int = 2
    head_dim: int = 64
    rms_norm_eps: float = 1e-6
    rope_theta: float = 50000.0
    block_size: int = 8
    target_layer_ids: list[int] = field(default_factory=lambda: [1, 2, 4])
    mask_token_id: int = 4094
    num_target_layers: int = 6
    vocab_size: int = 4096
    max_position_embeddings: int = 8192

    def __post_init__(self):
        ids = self.target_layer_ids
        if not ids or ids != sorted(set(ids)):
            raise ValueError(f"target_layer_ids must be ascending and different, got {ids}")
        if ids[0] < 0 or ids[-1] > self.num_target_layers - 2:
            raise ValueError(
                f"target_layer_ids must lie in 0..{self.num_target_layers - 2} for a target of "
                f"{self.num_target_layers} layers (the last layer's output is not captured), got {ids}"
            )
        if self.num_attention_heads % self.num_key_value_heads:
            raise ValueError(f"{self.num_attention_heads} heads cannot share {self.num_key_value_heads} kv heads")
        if self.head_dim % 2:
            raise ValueError(f"head_dim must be even for rotary positions, got {self.head_dim}")
        if self.block_size < 2:
            raise ValueError(f"block_size must be 2 or more (one known token and a guess), got {self.block_size}")
        if not 0 <= self.mask_token_id < self.vocab_size:
            raise ValueError(f"mask_token_id {self.mask_token_id} is not in the vocabulary of {self.vocab_size}")


def default_layer_ids(num_target_layers: int, count: int) -> list[int]:
    """DFlash's own choice: `count` layers evenly from 1 to num_target_layers - 3, or the middle one.

    ValueError when the target has too few layers to choose `count` different ones.
    """
    if count == 1:
        return [num_target_layers // 2]
    last = num_target_layers - 3
    ids = [round(1 + i * (last - 1) / (count - 1)) for i in range(count)]
    if ids != sorted(set(ids)):
        raise ValueError(f"a target of {num_target_layers} layers is too shallow for {count} feature layers; name them")
    return ids
