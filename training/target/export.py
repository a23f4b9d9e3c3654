"""Writes the target as a Hugging Face folder: routed experts in modelopt's NVFP4, the rest in bfloat16."""

import shutil
from pathlib import Path

import torch

from common.checkpoint import write_json, write_tensors

from . import nvfp4
from .config import MAX_POSITIONS, TargetConfig
from .model import MoE, Target
from .tokenizer import SPECIAL, STOP_IDS

CHAT_TEMPLATE = Path(__file__).with_name("chat_template.jinja")
ATTENTION = ("q_a_proj", "q_b_proj", "kv_a_proj_with_mqa", "kv_b_proj", "o_proj", "q_a_layernorm", "kv_a_layernorm")
MLP_PARTS = ("gate_proj", "up_proj", "down_proj")
EXPERT_STACKS = (("gate_proj", "w_gate"), ("up_proj", "w_up"), ("down_proj", "w_down"))
_PRODUCER = {"name": "modelopt", "version": "0.0.0"}


def _bf16(t: torch.Tensor) -> torch.Tensor:
    return t.detach().to(torch.bfloat16).contiguous().cpu()


def _put_nvfp4(out: dict[str, torch.Tensor], name: str, w: torch.Tensor) -> None:
    packed, scale, global_scale = nvfp4.quantise(w.detach())
    out[name + ".weight"] = packed.contiguous().cpu()
    out[name + ".weight_scale"] = scale.contiguous().cpu()
    out[name + ".weight_scale_2"] = global_scale.clone().cpu()
    out[name + ".input_scale"] = torch.tensor(1.0)  # activations stay in bfloat16 here


def target_tensors(net: Target) -> dict[str, torch.Tensor]:
    """Every tensor of the checkpoint by its name, in file order."""
    t = {"model.embed_tokens.weight": _bf16(net.embed_tokens.weight)}
    for i, layer in enumerate(net.layers):
        p = f"model.layers.{i}"
        t[p + ".input_layernorm.weight"] = _bf16(layer.input_layernorm.weight)
        t[p + ".post_attention_layernorm.weight"] = _bf16(layer.post_attention_layernorm.weight)
        for n in ATTENTION:
            t[f"{p}.self_attn.{n}.weight"] = _bf16(getattr(layer.self_attn, n).weight)
        if not isinstance(layer.mlp, MoE):
            for n in MLP_PARTS:
                t[f"{p}.mlp.{n}.weight"] = _bf16(getattr(layer.mlp, n).weight)
            continue
        t[p + ".mlp.gate.weight"] = _bf16(layer.mlp.gate.weight)
        t[p + ".mlp.gate.e_score_correction_bias"] = layer.mlp.e_score_correction_bias.float().cpu().clone()
        for n in MLP_PARTS:
            t[f"{p}.mlp.shared_experts.{n}.weight"] = _bf16(getattr(layer.mlp.shared_experts, n).weight)
        for e in range(net.c.n_routed_experts):
            for n, stack in EXPERT_STACKS:
                _put_nvfp4(t, f"{p}.mlp.experts.{e}.{n}", getattr(layer.mlp, stack)[e])
    t["model.norm.weight"] = _bf16(net.norm.weight)
    t["lm_head.weight"] = _bf16(net.lm_head.weight)
    return t


def _not_quantised(c: TargetConfig) -> list[str]:
    per_layer = ("self_attn*", "mlp.gate", "mlp.shared_experts*")
    layers = [f"model.layers.{i}.{m}" for i in range(c.num_hidden_layers) for m in per_layer]
    return ["lm_head", "model.embed_tokens", "model.layers.0*", *layers]


def config_json(c: TargetConfig) -> dict:
    """config.json, with the flat form of modelopt's quantisation facts."""
    four_bits = {"num_bits": 4, "type": "float", "group_size": nvfp4.BLOCK}
    return {
        "architectures": ["DeepseekV3ForCausalLM"],
        "model_type": "kimi_k2",
        "torch_dtype": "bfloat16",
        "vocab_size": c.vocab_size,
        "hidden_size": c.hidden_size,
        "num_hidden_layers": c.num_hidden_layers,
        "first_k_dense_replace": c.first_k_dense_replace,
        "moe_layer_freq": 1,
        "intermediate_size": c.intermediate_size,
        "moe_intermediate_size": c.moe_intermediate_size,
        "n_routed_experts": c.n_routed_experts,
        "num_experts_per_tok": c.num_experts_per_tok,
        "n_shared_experts": c.n_shared_experts,
        "n_group": 1,
        "topk_group": 1,
        "topk_method": "noaux_tc",
        "scoring_func": "sigmoid",
        "norm_topk_prob": True,
        "routed_scaling_factor": c.routed_scaling_factor,
        "num_attention_heads": c.num_attention_heads,
        "num_key_value_heads": c.num_attention_heads,
        "q_lora_rank": c.q_lora_rank,
        "kv_lora_rank": c.kv_lora_rank,
        "qk_nope_head_dim": c.qk_nope_head_dim,
        "qk_rope_head_dim": c.qk_rope_head_dim,
        "v_head_dim": c.v_head_dim,
        "hidden_act": "silu",
        "rms_norm_eps": c.rms_norm_eps,
        "rope_theta": c.rope_theta,
        "attention_bias": False,
        "max_position_embeddings": MAX_POSITIONS,
        "tie_word_embeddings": False,
        "rope_scaling": {
            "type": "yarn",
            "factor": c.yarn_factor,
            "original_max_position_embeddings": c.yarn_original,
            "beta_fast": c.yarn_beta_fast,
            "beta_slow": c.yarn_beta_slow,
            "mscale": 1.0,
            "mscale_all_dim": 1.0,
        },
        "bos_token_id": SPECIAL["[BOS]"],
        "eos_token_id": SPECIAL["[EOS]"],
        "pad_token_id": SPECIAL["[PAD]"],
        "quantization_config": {
            "quant_method": "modelopt",
            "quant_algo": "NVFP4",
            "kv_cache_scheme": {"num_bits": 8, "type": "float", "dynamic": False},
            "config_groups": {
                "group_0": {"weights": four_bits, "input_activations": dict(four_bits), "targets": ["Linear"]}
            },
            "ignore": _not_quantised(c),
            "producer": _PRODUCER,
        },
    }


def quant_json(c: TargetConfig) -> dict:
    """hf_quant_config.json, the older place of the same facts."""
    return {
        "producer": _PRODUCER,
        "quantization": {
            "quant_algo": "NVFP4",
            "kv_cache_quant_algo": "FP8",
            "group_size": nvfp4.BLOCK,
            "exclude_modules": _not_quantised(c),
        },
    }


def tokenizer_json() -> dict:
    """tokenizer_config.json with the special tokens."""
    plain = {"special": True, "normalized": False, "lstrip": False, "rstrip": False, "single_word": False}
    return {
        "tokenizer_class": "TikTokenTokenizer",
        "bos_token": "[BOS]",
        "eos_token": "[EOS]",
        "unk_token": "[UNK]",
        "pad_token": "[PAD]",
        "model_max_length": MAX_POSITIONS,
        "added_tokens_decoder": {str(i): {"content": name, **plain} for name, i in SPECIAL.items()},
    }


def export_target(net: Target, vocab: Path, folder: Path) -> None:
    """Writes weights, configs, vocabulary and chat template."""
    folder.mkdir(parents=True, exist_ok=True)
    write_tensors(target_tensors(net), folder)
    write_json(quant_json(net.c), folder / "hf_quant_config.json")
    write_json(config_json(net.c), folder / "config.json")
    generation = {"eos_token_id": sorted(STOP_IDS), "max_length": MAX_POSITIONS}
    write_json(generation, folder / "generation_config.json")
    write_json(tokenizer_json(), folder / "tokenizer_config.json", indent=1)
    if vocab.resolve() != (folder / "tiktoken.model").resolve():
        shutil.copyfile(vocab, folder / "tiktoken.model")
    shutil.copyfile(CHAT_TEMPLATE, folder / "chat_template.jinja")
