"""The independent oracle: Hugging Face transformers' DeepSeek-V3 as the target, z-lab's dflash package as the draft.

Nothing here shares code with Strobe: the tokenizer is tiktoken, the chat template is rendered by Jinja2, the maths is
PyTorch's. make_model_goldens.py and bench/peers/bench_reference.py use it. Versions: requirements.txt.

Three choices that a comparison depends on:
  * NVFP4 weights become code * block scale * weight_scale_2 in float32. With dtype float32 they stay so; with bfloat16
    they are rounded once, at the end.
  * transformers gives q_a_layernorm and kv_a_layernorm a fixed eps of 1e-6. The checkpoint was trained with, and serving
    systems use, the config's rms_norm_eps, so both norms are set to that.
  * "fp8kv" rounds what a cache stores (the normed latent and the roped key) to e4m3 with scale 1, saturating at +-448.
    Every row, its own included, attends to the rounded values; queries and probabilities are not rounded.
"""
import base64
import json
import re
from pathlib import Path

import torch
import transformers
from safetensors.torch import load_file
from transformers import DeepseekV3Config, DeepseekV3ForCausalLM, DynamicCache

transformers.logging.set_verbosity_error()  # it warns that YaRN's factor is not max_position / original: so it is meant
transformers.logging.disable_progress_bar()

E2M1_MAGNITUDES = torch.tensor([0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0])

LOWER = r"[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]"
UPPER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]"
CONTRACTION = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
KIMI_SPLIT = "|".join([
    r"[\p{Han}]+",
    r"[^\r\n\p{L}\p{N}]?" + UPPER + "*" + LOWER + "+" + CONTRACTION,
    r"[^\r\n\p{L}\p{N}]?" + UPPER + "+" + LOWER + "*" + CONTRACTION,
    r"\p{N}{1,3}",
    r" ?[^\s\p{L}\p{N}]+[\r\n]*",
    r"\s*[\r\n]+",
    r"\s+(?!\S)",
    r"\s+",
])


# ---------------------------------------------------------------------------------------------------------- text
class Text:
    """Token ids of raw text and of chats, for one checkpoint folder."""

    def __init__(self, folder: Path):
        import jinja2
        import tiktoken
        lines = (line.split() for line in (folder / "tiktoken.model").read_bytes().splitlines())
        added = json.loads((folder / "tokenizer_config.json").read_text())["added_tokens_decoder"]
        self.encoding = tiktoken.Encoding(
            folder.name, pat_str=KIMI_SPLIT, mergeable_ranks={base64.b64decode(token): int(rank) for token, rank in lines},
            special_tokens={entry["content"]: int(token_id) for token_id, entry in added.items()})
        self.template = jinja2.Environment(trim_blocks=True, lstrip_blocks=True).from_string(
            (folder / "chat_template.jinja").read_text())
        stops = json.loads((folder / "generation_config.json").read_text())["eos_token_id"]
        self.stop_ids = stops if isinstance(stops, list) else [stops]

    def encode(self, text: str) -> list[int]:
        return self.encoding.encode(text, allowed_special="all")

    def chat(self, user: str) -> list[int]:
        return self.encode(self.template.render(messages=[{"role": "user", "content": user}], add_generation_prompt=True))

    def decode(self, ids: list[int]) -> str:
        """Text of ids, without the stop tokens."""
        return self.encoding.decode([i for i in ids if i not in self.stop_ids])


# ------------------------------------------------------------------------------------------------------- weights
def dequantise_nvfp4(codes: torch.Tensor, block_scale: torch.Tensor, tensor_scale: torch.Tensor) -> torch.Tensor:
    """codes [rows, cols / 2] u8 (low nibble first), block_scale [rows, cols / 16] e4m3, tensor_scale [] -> [rows, cols] f32."""
    nibbles = torch.stack([codes & 15, codes >> 4], -1).flatten(-2)
    values = E2M1_MAGNITUDES[(nibbles & 7).long()] * (1 - 2 * (nibbles >> 3).float())
    blocks = values.view(*block_scale.shape, 16) * block_scale.float()[..., None]  # exact: at most 6 significant bits
    return blocks.reshape(nibbles.shape) * tensor_scale.float()


def read_target_weights(folder: Path) -> dict[str, torch.Tensor]:
    stored = {}
    for shard in sorted(folder.glob("*.safetensors")):
        stored.update(load_file(shard))
    weights, experts = {}, {}
    for name, value in stored.items():
        if name.endswith(("_scale", "_scale_2")):
            continue
        if value.dtype == torch.uint8:
            value = dequantise_nvfp4(value, stored[name + "_scale"], stored[name + "_scale_2"])
        found = re.fullmatch(r"(.*\.mlp\.experts)\.(\d+)\.(gate|up|down)_proj\.weight", name)
        if found:
            experts.setdefault(found[1], {}).setdefault(found[3], {})[int(found[2])] = value
        else:
            weights[name] = value
    for prefix, parts in experts.items():  # transformers keeps all experts of a layer in one tensor
        gate, up, down = (torch.stack([part for _, part in sorted(parts[k].items())]) for k in ("gate", "up", "down"))
        weights[prefix + ".gate_up_proj"] = torch.cat([gate, up], 1)
        weights[prefix + ".down_proj"] = down
    return weights


def load_target(folder: Path, dtype: torch.dtype, attention: str = "eager") -> DeepseekV3ForCausalLM:
    raw = json.loads((folder / "config.json").read_text())
    rope = raw.pop("rope_scaling")
    rope = {"rope_type": rope.pop("type"), "rope_theta": raw["rope_theta"], **rope}
    for unused in ("architectures", "model_type", "quantization_config"):
        raw.pop(unused)
    config = DeepseekV3Config(**raw, rope_scaling=rope, rope_interleave=True)
    config._attn_implementation = attention
    net = DeepseekV3ForCausalLM(config)
    missing, unexpected = net.load_state_dict(read_target_weights(folder), strict=False)
    missing = [name for name in missing if "rotary" not in name]  # computed, not stored
    if missing or unexpected:
        raise SystemExit(f"{folder}: missing tensors {missing[:5]}, unknown tensors {list(unexpected)[:5]}")
    for layer in net.model.layers:
        layer.self_attn.q_a_layernorm.variance_epsilon = config.rms_norm_eps
        layer.self_attn.kv_a_layernorm.variance_epsilon = config.rms_norm_eps
    return net.to(dtype).eval()


def load_draft(folder: Path, dtype: torch.dtype):
    from dflash.model import DFlashDraftModel
    return DFlashDraftModel.from_pretrained(folder, dtype=dtype, local_files_only=True).eval()


# --------------------------------------------------------------------------------------------------------- cache
def round_e4m3(x: torch.Tensor) -> torch.Tensor:
    return x.float().clamp(-448, 448).to(torch.float8_e4m3fn).to(x.dtype)


class Fp8Cache(DynamicCache):
    """A latent cache whose contents are e4m3 values (scale 1), held in the compute dtype."""

    def update(self, latent, rope_key, layer_idx, *args, **kwargs):
        return super().update(round_e4m3(latent), round_e4m3(rope_key), layer_idx, *args, **kwargs)


def new_cache(net, fp8: bool) -> DynamicCache:
    return (Fp8Cache if fp8 else DynamicCache)(config=net.config)


def crop_cache(cache: DynamicCache, tokens: int) -> None:
    """Keeps the first `tokens` tokens."""
    cache.crop(tokens - cache.get_seq_length())


# ------------------------------------------------------------------------------------------------------ forwards
class Capture:
    """Runs the target and returns logits with what hooks saw: each layer's output and the final norm's."""

    def __init__(self, net):
        self.net = net
        self.layers = [None] * len(net.model.layers)
        self.norm = None
        for index, layer in enumerate(net.model.layers):
            layer.register_forward_hook(lambda module, args, out, index=index: self._keep(index, out))
        net.model.norm.register_forward_hook(lambda module, args, out: setattr(self, "norm", out[0]))

    def _keep(self, index: int, out) -> None:
        self.layers[index] = (out if torch.is_tensor(out) else out[0])[0]

    def __call__(self, ids: list[int], cache: DynamicCache) -> torch.Tensor:
        """Appends ids to the cache; returns logits [tokens, vocab]. self.layers[i] is then [tokens, hidden]."""
        return self.net(torch.tensor([ids]), cache=cache, use_cache=True).logits[0]

    def features(self, layer_ids: list[int]) -> torch.Tensor:
        """What the draft reads: the outputs of the named layers side by side, [tokens, len(layer_ids) * hidden]."""
        return torch.cat([self.layers[i] for i in layer_ids], -1)


def draft_block(net, draft, features: torch.Tensor, bonus: int, block_size: int, start: int, cache: DynamicCache):
    """One draft forward over [bonus, mask, mask ...] at positions start ...; features are the tokens before start that the
    draft's cache does not hold yet. Returns (hidden [block, hidden] after the final norm, logits [block - 1, vocab])."""
    block = torch.tensor([[bonus] + [draft.mask_token_id] * (block_size - 1)])
    positions = torch.arange(start - len(features), start + block_size)[None]
    hidden = draft(target_hidden=features[None], noise_embedding=net.model.embed_tokens(block), position_ids=positions,
                   past_key_values=cache, use_cache=True)[0]
    crop_cache(cache, start)
    return hidden, draft.compute_logits(hidden[1:], net.lm_head)


def top2_gap(logits: torch.Tensor) -> list[float]:
    """Best minus second-best logit of each row."""
    best = logits.float().topk(2, -1).values
    return [round(float(row[0] - row[1]), 5) for row in best]


def generate_plain(capture: Capture, prompt: list[int], max_new: int, stop_ids: list[int], fp8: bool):
    """Greedy, one token a step. Returns (ids, gap of each id)."""
    cache, ids, gaps, step = new_cache(capture.net, fp8), [], [], prompt
    while len(ids) < max_new and not (ids and ids[-1] in stop_ids):
        logits = capture(step, cache)[-1:]
        ids.append(int(logits.argmax()))
        gaps += top2_gap(logits)
        step = ids[-1:]
    return ids, gaps


def generate_dflash(capture: Capture, draft, prompt: list[int], max_new: int, stop_ids: list[int], fp8: bool,
                    block_size: int):
    """Greedy DFlash. Every step drafts and verifies a whole block, also when fewer tokens are wanted (the dflash package
    shortens the last block; SGLang and Strobe do not). Returns (ids, gap of each id, steps); a step is a dict:
    `drafts` and `draft_gaps` [block - 1], `accepted` drafts (before any cut), `emitted` tokens (after the first stop id or
    max_new cut them)."""
    target_cache, draft_cache = new_cache(capture.net, fp8), DynamicCache(config=draft.config)
    logits = capture(prompt, target_cache)[-1:]
    ids, gaps, steps = [int(logits.argmax())], top2_gap(logits), []
    features = capture.features(draft.target_layer_ids)
    while len(ids) < max_new and ids[-1] not in stop_ids:
        start = len(prompt) + len(ids) - 1  # tokens whose KV is committed; the last id (the bonus) has none yet
        _, draft_logits = draft_block(capture.net, draft, features, ids[-1], block_size, start, draft_cache)
        drafts = draft_logits.argmax(-1).tolist()
        logits = capture(ids[-1:] + drafts, target_cache)
        best, row_gaps = logits.argmax(-1).tolist(), top2_gap(logits)
        accepted = next((i for i, token in enumerate(drafts) if token != best[i]), len(drafts))
        new = best[:accepted + 1]  # the accepted drafts equal the target's own choices; the next bonus follows them
        stop = next((i + 1 for i, token in enumerate(new) if token in stop_ids), len(new))
        new = new[:min(stop, max_new - len(ids))]
        ids, gaps = ids + new, gaps + row_gaps[:len(new)]
        steps.append({"drafts": drafts, "draft_gaps": top2_gap(draft_logits), "accepted": accepted, "emitted": len(new)})
        features = capture.features(draft.target_layer_ids)[:accepted + 1]
        crop_cache(target_cache, start + accepted + 1)
    return ids, gaps, steps
