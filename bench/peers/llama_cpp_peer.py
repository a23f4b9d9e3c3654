"""The target in llama.cpp (llama-cpp-python 0.3.36), plain greedy decoding, driven by token ids: no vocabulary is converted.

Packages beside tests/golden/requirements.txt: `pip install gguf==0.19.0` and llama-cpp-python. A build for AMX has
been seen to crash on this model; built for AVX512 instead it runs:

  CMAKE_ARGS="-DGGML_NATIVE=OFF -DGGML_AVX512=ON -DGGML_AVX512_VBMI=ON -DGGML_AVX512_VNNI=ON -DGGML_AVX512_BF16=ON \\
  -DGGML_AVX2=ON -DGGML_FMA=ON -DGGML_F16C=ON -DGGML_BMI2=ON" pip install llama-cpp-python==0.3.36

What stands in the way of its own DFlash (the version's sources, 2026-11): the architecture `dflash` and the loop
(common/speculative.cpp) are there, and take the draft's features with llama_set_embeddings_layer_inp. That works for
targets whose graph keeps its layers' inputs (t_layer_inp: qwen3, qwen3moe, llama, openai-moe, deepseek4, ...);
src/models/deepseek2.cpp, which Kimi-K2 and this target are, keeps none. The loop is also not part of the library that the
Python package binds.
"""
import json
import re
import time
from pathlib import Path

FORMATS = ("bf16", "q8_0", "q4_0")
CONTEXT_TOKENS = 2048


# ---------------------------------------------------------------------------------------------------- the file
def write_gguf(folder: Path, kind: str, out: Path) -> None:
    """The target's checkpoint as architecture deepseek2, matrices in `kind`, norms and the router in f32."""
    import gguf
    import oracle
    config = json.loads((folder / "config.json").read_text())
    weights = oracle.read_target_weights(folder)
    writer = gguf.GGUFWriter(str(out), "deepseek2")
    _add_config(writer, gguf, config)
    number_type = {"bf16": gguf.GGMLQuantizationType.BF16, "q8_0": gguf.GGMLQuantizationType.Q8_0,
                   "q4_0": gguf.GGMLQuantizationType.Q4_0}[kind]
    for name, tensor, is_matrix in _tensors(config, weights):
        values = tensor.float().contiguous().numpy()
        if is_matrix:
            writer.add_tensor(name, gguf.quants.quantize(values, number_type), raw_dtype=number_type)
        else:
            writer.add_tensor(name, values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _add_config(writer, gguf, c: dict) -> None:
    rope = c["rope_scaling"]
    writer.add_block_count(c["num_hidden_layers"])
    writer.add_context_length(c["max_position_embeddings"])
    writer.add_embedding_length(c["hidden_size"])
    writer.add_feed_forward_length(c["intermediate_size"])
    writer.add_layer_norm_rms_eps(c["rms_norm_eps"])
    writer.add_vocab_size(c["vocab_size"])
    writer.add_tokenizer_model("none")
    # Attention: one latent head stored, as the absorbed form wants it.
    writer.add_head_count(c["num_attention_heads"])
    writer.add_head_count_kv(1)
    writer.add_q_lora_rank(c["q_lora_rank"])
    writer.add_kv_lora_rank(c["kv_lora_rank"])
    writer.add_key_length(c["kv_lora_rank"] + c["qk_rope_head_dim"])
    writer.add_value_length(c["kv_lora_rank"])
    writer.add_key_length_mla(c["qk_nope_head_dim"] + c["qk_rope_head_dim"])
    writer.add_value_length_mla(c["v_head_dim"])
    writer.add_rope_dimension_count(c["qk_rope_head_dim"])
    writer.add_rope_freq_base(c["rope_theta"])
    writer.add_rope_scaling_type(gguf.RopeScalingType.YARN)
    writer.add_rope_scaling_factor(rope["factor"])
    writer.add_rope_scaling_orig_ctx_len(rope["original_max_position_embeddings"])
    writer.add_rope_scaling_yarn_log_mul(0.1 * rope["mscale_all_dim"])
    writer.add_rope_scaling_yarn_beta_fast(rope["beta_fast"])
    writer.add_rope_scaling_yarn_beta_slow(rope["beta_slow"])
    # Experts.
    writer.add_leading_dense_block_count(c["first_k_dense_replace"])
    writer.add_expert_count(c["n_routed_experts"])
    writer.add_expert_used_count(c["num_experts_per_tok"])
    writer.add_expert_shared_count(c["n_shared_experts"])
    writer.add_expert_feed_forward_length(c["moe_intermediate_size"])
    writer.add_expert_weights_scale(c["routed_scaling_factor"])
    writer.add_expert_weights_norm(c["norm_topk_prob"])
    writer.add_expert_gating_func(gguf.ExpertGatingFuncType.SIGMOID)


def _tensors(c: dict, w: dict):
    """(name in the file, tensor, whether it is a matrix to quantise)"""
    heads, nope, latent = c["num_attention_heads"], c["qk_nope_head_dim"], c["kv_lora_rank"]
    yield "token_embd.weight", w["model.embed_tokens.weight"], True
    yield "output.weight", w["lm_head.weight"], True
    yield "output_norm.weight", w["model.norm.weight"], False
    for i in range(c["num_hidden_layers"]):
        layer, block = f"model.layers.{i}.", f"blk.{i}."
        attention, mlp = layer + "self_attn.", layer + "mlp."
        yield block + "attn_norm.weight", w[layer + "input_layernorm.weight"], False
        yield block + "ffn_norm.weight", w[layer + "post_attention_layernorm.weight"], False
        yield block + "attn_q_a.weight", w[attention + "q_a_proj.weight"], True
        yield block + "attn_q_a_norm.weight", w[attention + "q_a_layernorm.weight"], False
        yield block + "attn_q_b.weight", w[attention + "q_b_proj.weight"], True
        yield block + "attn_kv_a_mqa.weight", w[attention + "kv_a_proj_with_mqa.weight"], True
        yield block + "attn_kv_a_norm.weight", w[attention + "kv_a_layernorm.weight"], False
        yield block + "attn_output.weight", w[attention + "o_proj.weight"], True
        kv_b = w[attention + "kv_b_proj.weight"].view(heads, -1, latent)  # of each head: keys, then values
        yield block + "attn_k_b.weight", kv_b[:, :nope].transpose(1, 2), True
        yield block + "attn_v_b.weight", kv_b[:, nope:], True
        if i < c["first_k_dense_replace"]:
            for part in ("gate", "up", "down"):
                yield f"{block}ffn_{part}.weight", w[f"{mlp}{part}_proj.weight"], True
            continue
        yield block + "ffn_gate_inp.weight", w[mlp + "gate.weight"], False
        yield block + "exp_probs_b.bias", w[mlp + "gate.e_score_correction_bias"], False
        gate, up = w[mlp + "experts.gate_up_proj"].chunk(2, 1)
        for part, experts in (("gate", gate), ("up", up), ("down", w[mlp + "experts.down_proj"])):
            yield f"{block}ffn_{part}_exps.weight", experts, True
            yield f"{block}ffn_{part}_shexp.weight", w[f"{mlp}shared_experts.{part}_proj.weight"], True


# --------------------------------------------------------------------------------------------------- decoding
class LlamaCpp:
    """One quantisation of the target. Records are those of bench_reference.py."""

    def __init__(self, models: Path, kind: str, folder: Path, max_new: int, threads: int):
        import llama_cpp
        import numpy
        import oracle
        self.binding, self.numpy, self.max_new = llama_cpp, numpy, max_new
        self.text = oracle.Text(models / "target")
        path = folder / f"pocket-k2-{kind}.gguf"
        if not path.exists():
            write_gguf(models / "target", kind, path)
        self.model = llama_cpp.Llama(str(path), n_ctx=CONTEXT_TOKENS, n_threads=threads, n_threads_batch=threads, verbose=False)
        self.vocab = self.model.n_vocab()

    def _best(self) -> int:
        logits = self.binding.llama_get_logits(self.model.ctx)
        return int(self.numpy.argmax(self.numpy.ctypeslib.as_array(logits, shape=(self.vocab,))))

    def run(self, question: str) -> dict:
        prompt = self.text.chat(question)
        self.model.reset()
        start = time.perf_counter()
        self.model.eval(prompt)
        out = [self._best()]
        first_s = time.perf_counter() - start
        start = time.perf_counter()
        while out[-1] not in self.text.stop_ids and len(out) < self.max_new:
            self.model.eval(out[-1:])
            out.append(self._best())
        rest_s = time.perf_counter() - start
        return {"text": self.text.decode(out), "tokens": len(out), "first_token_ms": first_s * 1e3,
                "decode_ms_per_token": rest_s * 1e3 / max(len(out) - 1, 1), "verify_steps": 0}


def features() -> str:
    """What the library was built for."""
    import llama_cpp
    info = llama_cpp.llama_print_system_info().decode()
    return " ".join(re.findall(r"(\w+) = 1", info))
