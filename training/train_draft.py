#!/usr/bin/env python3
"""Trains a DFlash draft for a target of your own, from prompts that the target answers itself.

    python train_draft.py --target FOLDER --data prompts.jsonl --out DRAFT_FOLDER --minutes 60

FOLDER is a causal language model that transformers can load, or a pocket target that train.py exported. README.md says
what a target must provide and how the draft's shape is chosen.
"""

import argparse
import sys
from pathlib import Path

import torch

from common.checkpoint import read_json
from common.device import DEVICE
from common.progress import Budget, log, log_to
from draft.config import DraftConfig, default_layer_ids
from draft.corpus import file_documents, wordproblem_documents
from draft.documents import Rows, pack
from draft.evaluate import AcceptLength, evaluate_draft
from draft.export import check_draft_export, draft_config_json, export_draft
from draft.target_source import PocketTarget, TargetSource
from draft.train import DraftOptions, train_draft


def load_source(folder: Path, compile: bool) -> TargetSource:
    """The target in a folder: a pocket target by its config.json, otherwise whatever transformers can load."""
    if not (folder / "config.json").is_file():
        raise FileNotFoundError(f"--target {folder}: there is no config.json in it")
    if read_json(folder / "config.json").get("model_type") == "kimi_k2" and (folder / "tiktoken.model").is_file():
        return PocketTarget.load(folder, compile)
    from draft.hf_target import HfTarget

    return HfTarget.load(folder)


def draft_config(a: argparse.Namespace, target: TargetSource) -> DraftConfig:
    """The draft's shape from the flags, and for what they leave out from the target."""
    head_dim = a.head_dim or (128 if target.hidden_size >= 1024 else 64)
    heads = a.heads or max(1, target.hidden_size // head_dim)
    kv_heads = a.kv_heads or next(k for k in range(max(1, heads // 4), 0, -1) if heads % k == 0)
    mask = target.unused_id if a.mask_token_id is None else a.mask_token_id
    if mask is None:
        raise ValueError("this target has no token that is surely unused: name one with --mask-token-id")
    return DraftConfig(
        hidden_size=target.hidden_size,
        num_hidden_layers=a.layers,
        intermediate_size=a.intermediate or 3 * target.hidden_size,
        num_attention_heads=heads,
        num_key_value_heads=kv_heads,
        head_dim=head_dim,
        rope_theta=target.rope_theta,
        block_size=a.block_size,
        target_layer_ids=a.target_layer_ids or default_layer_ids(target.num_layers, a.layers),
        mask_token_id=mask,
        num_target_layers=target.num_layers,
        vocab_size=target.vocab_size,
        max_position_embeddings=target.max_positions,
    )


def prepare_rows(a: argparse.Namespace, target: TargetSource) -> Rows:
    """The corpus: read back with --corpus, otherwise made and written beside the draft."""
    if a.corpus:
        rows = Rows.load(a.corpus)
        if int(rows.ids.max()) >= target.vocab_size:
            raise ValueError(
                f"--corpus {a.corpus} holds ids that {target.name} has not: it was made for another target"
            )
        return rows
    if a.data:
        documents = file_documents(target, a.data, a.new, a.temperature, a.generation_batch, a.limit)
    else:
        rounds = Budget(steps=a.wordproblems)
        documents = wordproblem_documents(target, rounds, 256, a.new, a.generation_batch)
    rows = pack(documents, a.seq, one_per_row=not a.pack)
    rows.save(a.out / "corpus.pt")
    log(f"corpus of {len(rows.ids)} rows written to {a.out / 'corpus.pt'}; --corpus takes it up again")
    return rows


def run(a: argparse.Namespace) -> AcceptLength:
    """Loads, answers, trains, exports, reads back, measures."""
    a.out.mkdir(parents=True, exist_ok=True)
    log_to(a.out / "training.log")
    torch.manual_seed(a.seed)
    compile = not a.no_compile and DEVICE == "cuda"
    target = load_source(a.target, compile)
    log(f"target {target.name}: {target.num_layers} layers of {target.hidden_size}, vocabulary {target.vocab_size}")
    c = draft_config(a, target)
    log("draft", draft_config_json(c))
    rows = prepare_rows(a, target)
    train_rows, held_out = rows.split(min(a.held_out, max(1, len(rows.ids) // 5)))
    options = DraftOptions(a.batch, a.anchors, a.muon_lr, a.adam_lr, compile, a.report_every)
    draft = train_draft(c, target, train_rows, Budget(minutes=a.minutes, steps=a.steps), options)
    export_draft(draft, a.out)
    draft = check_draft_export(draft, a.out)
    log("draft exported to", a.out)
    return evaluate_draft(draft, target, held_out)


def _layer_list(text: str) -> list[int]:
    try:
        return [int(x) for x in text.split(",")]
    except ValueError:
        raise argparse.ArgumentTypeError(f"want layer numbers with commas, as in 1,12,24; got {text!r}") from None


def parser() -> argparse.ArgumentParser:
    """The command line."""
    ap = argparse.ArgumentParser(description="Trains a DFlash draft for a target of your own.")
    ap.add_argument("--target", type=Path, required=True, help="folder of the target")
    ap.add_argument("--out", type=Path, required=True, help="folder to write the draft into")
    data = ap.add_argument_group("data (one of the first three)")
    one = data.add_mutually_exclusive_group(required=True)
    one.add_argument("--data", type=Path, help='jsonl with "messages", "prompt", "prompt" and "response", or "text"')
    one.add_argument("--wordproblems", type=int, metavar="ROUNDS", help="1024 generated word problem prompts a round")
    one.add_argument("--corpus", type=Path, help="a corpus.pt of an earlier run for the same target")
    data.add_argument("--limit", type=int, help="read only this many lines of --data")
    data.add_argument("--new", type=int, default=512, help="longest answer in tokens (default 512)")
    data.add_argument("--temperature", type=float, default=0.0, help="of the target's answers (default 0, greedy)")
    data.add_argument("--generation-batch", type=int, default=32, help="prompts answered at once (default 32)")
    data.add_argument("--seq", type=int, default=2048, help="tokens in a row; longer documents are cut (default 2048)")
    data.add_argument(
        "--pack", action="store_true", help="several documents in a row; only for targets trained that way"
    )
    shape = ap.add_argument_group("the draft's shape")
    shape.add_argument("--layers", type=int, default=5, help="layers of the draft (default 5)")
    shape.add_argument(
        "--target-layer-ids", type=_layer_list, help="feature layers, as 1,12,24 (default: evenly spread)"
    )
    shape.add_argument("--block-size", type=int, default=8, help="one known token and the guesses (default 8)")
    shape.add_argument(
        "--mask-token-id", type=int, help="an id no text uses (default: one behind the tokenizer's last)"
    )
    shape.add_argument("--heads", type=int, help="attention heads (default: hidden size / head dim)")
    shape.add_argument("--kv-heads", type=int, help="key/value heads (default: about a quarter of the heads)")
    shape.add_argument("--head-dim", type=int, help="width of a head (default 128, or 64 below a hidden size of 1024)")
    shape.add_argument("--intermediate", type=int, help="width of the feed-forward (default 3 x hidden size)")
    train = ap.add_argument_group("training")
    long = train.add_mutually_exclusive_group(required=True)
    long.add_argument("--minutes", type=float, help="time for training")
    long.add_argument("--steps", type=int, help="steps instead of a time")
    train.add_argument("--batch", type=int, default=8, help="rows in a step (default 8)")
    train.add_argument("--anchors", type=int, default=64, help="blocks in a row (default 64)")
    train.add_argument("--muon-lr", type=float, default=0.02, help="rate for matrices (default 0.02)")
    train.add_argument("--adam-lr", type=float, default=3e-3, help="rate for norms (default 0.003)")
    train.add_argument("--held-out", type=int, default=32, help="rows for measuring, at most a fifth (default 32)")
    train.add_argument("--report-every", type=int, default=200, help="steps between lines of progress (default 200)")
    train.add_argument("--seed", type=int, default=0, help="of weights and batches (default 0)")
    train.add_argument("--no-compile", action="store_true", help="do without torch.compile")
    return ap


def main(arguments: list[str] | None = None) -> int:
    """Runs the command line; returns the exit status."""
    ap = parser()
    a = ap.parse_args(arguments)
    for name in ("new", "generation_batch", "seq", "layers", "batch", "anchors", "held_out", "report_every"):
        if getattr(a, name) < 1:
            ap.error(f"--{name.replace('_', '-')} takes 1 or more, got {getattr(a, name)}")
    try:
        run(a)
    except (ValueError, FileNotFoundError) as e:
        print(f"train_draft.py: {e}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
