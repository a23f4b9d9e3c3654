"""Frequencies, amplitudes and softmax scales of rotary embeddings, as transformers computes them.

python make_rope_goldens.py > rope.json      (needs torch and transformers; made with transformers 5.24.0)
"""
import json
import sys

import torch
from transformers import DeepseekV3Config, LlamaConfig, Qwen3Config
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS
from transformers.models.deepseek_v3.modeling_deepseek_v3 import DeepseekV3Attention
from transformers.models.qwen3.modeling_qwen3 import Qwen3RotaryEmbedding

KIMI = {"type": "yarn", "factor": 64.0, "original_max_position_embeddings": 4096, "beta_fast": 32.0, "beta_slow": 1.0,
        "mscale": 1.0, "mscale_all_dim": 1.0}
V3 = {**KIMI, "factor": 40.0, "beta_fast": 32, "beta_slow": 1}
POCKET = {**KIMI, "factor": 32.0, "beta_fast": 1.0, "beta_slow": 1.0}
QWEN_YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}
LLAMA31 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
           "original_max_position_embeddings": 8192}

# name, family, rotary dims, theta, rope_scaling (None: the default), positions
CASES = [
    ("kimi_k2.6 target", "deepseek", 64, 50000.0, KIMI, 262144),
    ("kimi_k2_instruct target", "deepseek", 64, 50000.0, {**KIMI, "factor": 32.0, "beta_fast": 1.0}, 131072),
    ("deepseek_v3 target", "deepseek", 64, 10000.0, V3, 163840),
    ("pocket target", "deepseek", 64, 50000.0, POCKET, 8192),
    ("kimi_k2.6 draft", "gqa", 128, 50000.0, KIMI, 262144),
    ("kimi_k2.6 draft without mscale", "gqa", 128, 50000.0,
     {k: v for k, v in KIMI.items() if not k.startswith("mscale")}, 262144),
    ("unequal mscale", "gqa", 128, 50000.0, {**KIMI, "mscale": 0.707, "mscale_all_dim": 1.2}, 262144),
    ("attention_factor", "gqa", 128, 50000.0, {**KIMI, "attention_factor": 1.25}, 262144),
    ("no truncation", "gqa", 64, 150000.0, {**QWEN_YARN, "factor": 32.0, "original_max_position_embeddings": 4096,
                                            "truncate": False}, 131072),
    ("qwen3 yarn", "gqa", 128, 1000000.0, QWEN_YARN, 131072),
    ("qwen3 plain", "gqa", 128, 1000000.0, None, 40960),
    ("pocket draft", "gqa", 64, 50000.0, None, 8192),
    ("llama 3.1", "llama", 128, 500000.0, LLAMA31, 131072),
]


def config_of(family, dims, theta, scaling, positions):
    rope = {"rope_theta": theta, "rope_type": "default"} if scaling is None else {
        "rope_theta": theta, "rope_type": scaling.get("rope_type", scaling.get("type")),
        **{k: v for k, v in scaling.items() if k not in ("type", "rope_type")}}
    common = dict(hidden_size=512, num_attention_heads=4, max_position_embeddings=positions, rope_parameters=rope)
    if family == "deepseek":
        return DeepseekV3Config(qk_nope_head_dim=2 * dims, qk_rope_head_dim=dims, v_head_dim=2 * dims, q_lora_rank=128,
                                kv_lora_rank=64, head_dim=dims, **common)
    return (LlamaConfig if family == "llama" else Qwen3Config)(head_dim=dims, **common)


def main():
    out = []
    for name, family, dims, theta, scaling, positions in CASES:
        config = config_of(family, dims, theta, scaling, positions)
        if scaling is None:
            inv_freq, amplitude = Qwen3RotaryEmbedding.compute_default_rope_parameters(config)
        else:
            kind = config.rope_parameters["rope_type"]
            inv_freq, amplitude = ROPE_INIT_FUNCTIONS[kind](config, torch.device("cpu"))
        case = {"name": name, "family": family, "dims": dims, "rope_theta": theta, "rope_scaling": scaling,
                "inv_freq": [float(f) for f in inv_freq], "amplitude": float(amplitude)}
        if family == "deepseek":
            config._attn_implementation = "eager"
            case["softmax_scale"] = float(DeepseekV3Attention(config, 0).scaling)
        out.append(case)
    json.dump(out, sys.stdout, indent=1)
    sys.stdout.write("\n")


if __name__ == "__main__":
    main()
