"""The smoke run: both training paths from end to end, tiny, on a CPU (train.py --smoke)."""

import json
import math
import random
from pathlib import Path

import torch

import train
import train_draft
import wordproblems as wp
from common.checkpoint import read_tensors
from common.device import DEVICE
from common.loss import chunked_cross_entropy
from common.progress import Budget, log
from draft.config import DraftConfig
from draft.export import load_draft
from draft.target_source import PocketTarget
from draft.train import DraftOptions
from target.config import TINY
from target.corpus import build_tokens
from target.load import load_target
from target.train import TargetOptions

_SPECIAL = ["<|end|>", "<|user|>", "<|assistant|>", "<|unknown|>"]
_TEMPLATE = (
    "{% for m in messages %}<|{{ m['role'] }}|>{{ m['content'] }}<|end|>{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)


def _need(condition: bool, message: str) -> None:
    if not condition:
        raise ValueError(f"smoke run: {message}")


def smoke(out: Path) -> None:
    """Runs everything and checks what came out. ValueError says what is wrong.

    On one thread: with operations this small, two threads gain nothing and wait for each other on a busy machine.
    """
    torch.set_num_threads(1)
    _pocket_pair(out)
    _own_target(out / "own")
    log("SMOKE OK")


def _pocket_pair(out: Path) -> None:
    draft = DraftConfig(
        hidden_size=TINY.hidden_size,
        num_hidden_layers=2,
        intermediate_size=96,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=32,
        target_layer_ids=[0, 1],
        num_target_layers=TINY.num_hidden_layers,
    )
    result = train.run(
        train.Plan(
            out=out,
            target_budget=Budget(steps=120),
            corpus_budget=Budget(steps=1),
            draft_budget=Budget(steps=60),
            vocab_documents=6000,
            tokens=200_000,
            processes=1,
            target=TINY,
            target_options=TargetOptions(seq=256, batch=4, compile=False, report_every=40),
            draft=draft,
            draft_options=DraftOptions(batch=4, anchors=16, compile=False, report_every=20),
            prompts=16,
            generation_batch=32,
            new=48,
            held_out=4,
            problems=8,
        )
    )
    _check_pair(out, draft, result)


def _check_pair(out: Path, draft: DraftConfig, result: train.Result) -> None:
    """Reloads the exported pair and checks shapes, dtypes, finite values and that the target has learnt something."""
    tensors = read_tensors(out / "target")
    c = TINY
    routed = c.num_hidden_layers - c.first_k_dense_replace
    experts = {k: v for k, v in tensors.items() if ".experts." in k}
    _need(len(experts) == routed * c.n_routed_experts * 3 * 4, f"{len(experts)} expert tensors")
    half, blocks = c.hidden_size // 2, c.hidden_size // 16
    for suffix, dtype, shape in (
        ("weight", torch.uint8, (c.moe_intermediate_size, half)),
        ("weight_scale", torch.float8_e4m3fn, (c.moe_intermediate_size, blocks)),
        ("weight_scale_2", torch.float32, ()),
        ("input_scale", torch.float32, ()),
    ):
        t = tensors[f"model.layers.1.mlp.experts.0.up_proj.{suffix}"]
        _need(t.dtype == dtype and tuple(t.shape) == shape, f"up_proj.{suffix} is {t.dtype} {tuple(t.shape)}")
    for name, t in tensors.items():
        _need(bool(torch.isfinite(t.float()).all()), f"{name} is not finite")
        _need(
            name in experts or name.endswith("e_score_correction_bias") or t.dtype == torch.bfloat16,
            f"{name} {t.dtype}",
        )
    net = load_target(out / "target")
    enc_file = out / "target" / "tiktoken.model"
    ids = torch.from_numpy(build_tokens(77, 4096, enc_file, None)[: 16 * 257].astype("int64")).view(16, 257).to(DEVICE)
    with torch.no_grad():
        hidden = net(ids[:, :-1], quant_cache=True)
        loss = (
            chunked_cross_entropy(hidden.flatten(0, 1), net.lm_head.weight, ids[:, 1:].reshape(-1)).item()
            / ids[:, 1:].numel()
        )
    log(f"reloaded target: loss {loss:.3f} on unseen text, {math.log(c.vocab_size):.3f} would be no knowledge at all")
    _need(loss < math.log(c.vocab_size) - 1.5, f"the target learnt too little, loss {loss:.3f}")
    _need(load_draft(out / "draft").c == draft, "the draft's config did not come back")
    _need(1 <= result.accept.mean <= draft.block_size and result.accept.steps > 0, f"accept length {result.accept}")
    _need(isinstance(result.loaded, PocketTarget), "no loaded target")


def tiny_hf_target(folder: Path) -> None:
    """Writes a Qwen3 of four layers with random weights, and a tokenizer of single bytes."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM
    from transformers.utils import logging

    logging.disable_progress_bar()

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tok = Tokenizer(models.BPE({c: i for i, c in enumerate(alphabet)}, []))
    tok.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tok.decoder = decoders.ByteLevel()
    tok.add_special_tokens([AddedToken(s, special=True, normalized=False) for s in _SPECIAL])
    fast = PreTrainedTokenizerFast(tokenizer_object=tok, eos_token=_SPECIAL[0], pad_token=_SPECIAL[0])
    fast.chat_template = _TEMPLATE
    fast.save_pretrained(folder)
    torch.manual_seed(1)
    c = Qwen3Config(
        vocab_size=len(fast) + 4,  # ids behind the tokenizer's last are free for the mask
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=16,
        max_position_embeddings=1024,
        eos_token_id=fast.eos_token_id,
        pad_token_id=fast.pad_token_id,
        tie_word_embeddings=False,
    )
    Qwen3ForCausalLM(c).save_pretrained(folder)


def _own_target(out: Path) -> None:
    """train_draft.py on a transformers model, from a jsonl file with every form of line."""
    out.mkdir(parents=True, exist_ok=True)
    tiny_hf_target(out / "target")
    rng = random.Random(5)
    with open(out / "prompts.jsonl", "w") as f:
        for i in range(48):
            p = wp.generate(rng)
            forms = (
                {
                    "messages": [
                        {"role": "user", "content": p["question"]},
                        {"role": "assistant", "content": "anything"},
                    ]
                },
                {"prompt": p["question"] + "\n"},
                {"prompt": p["question"] + "\n", "response": p["answer"]},
                {"text": p["question"]},
            )
            f.write(json.dumps(forms[i % 4 if i < 16 else i % 2]) + "\n")
    flags = (
        "--layers 2 --target-layer-ids 0,2 --block-size 4 --head-dim 16 --new 32 --seq 512 --steps 40 --report-every 20"
    )
    folders = ["--target", str(out / "target"), "--data", str(out / "prompts.jsonl"), "--out", str(out / "draft")]
    _need(train_draft.main([*folders, *flags.split()]) == 0, "train_draft.py failed")
    again = "--layers 2 --target-layer-ids 0,2 --block-size 4 --head-dim 16 --steps 2"
    folders = ["--target", str(out / "target"), "--corpus", str(out / "draft/corpus.pt"), "--out", str(out / "again")]
    _need(train_draft.main([*folders, *again.split()]) == 0, "train_draft.py --corpus failed")
    c = load_draft(out / "draft").c
    _need((c.hidden_size, c.mask_token_id, c.num_target_layers) == (64, 260, 4), f"the draft's config is {c}")
