#!/usr/bin/env python3
"""Trains the pocket target and its DFlash draft, exports both as Hugging Face folders, and measures them.

    python train.py --out DIR                      one H200: about 12 minutes
    python train.py --smoke --out DIR              the whole pipeline, tiny, on a CPU: under two minutes

README.md explains what happens.
"""

import argparse
import sys
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch

from common.device import DEVICE
from common.progress import Budget, log, log_to
from draft.config import DraftConfig
from draft.corpus import wordproblem_documents
from draft.documents import pack
from draft.evaluate import AcceptLength, evaluate_draft
from draft.export import check_draft_export, export_draft
from draft.target_source import PocketTarget
from draft.train import DraftOptions, train_draft
from target.config import TargetConfig
from target.corpus import VOCAB_DOCUMENTS, build_tokens_in_parallel, read_gsm8k, train_vocab_on_corpus
from target.evaluate import evaluate_target
from target.export import export_target
from target.load import check_export
from target.tokenizer import load_encoder
from target.train import TargetOptions, train_target


@dataclass
class Plan:
    """One whole run."""

    out: Path
    target_budget: Budget
    corpus_budget: Budget
    draft_budget: Budget
    vocab: Path | None = None
    gsm8k: Path | None = None
    vocab_documents: int = VOCAB_DOCUMENTS
    tokens: int = 110_000_000
    processes: int = 16
    target: TargetConfig = field(default_factory=TargetConfig)
    target_options: TargetOptions = field(default_factory=TargetOptions)
    draft: DraftConfig = field(default_factory=DraftConfig)
    draft_options: DraftOptions = field(default_factory=DraftOptions)
    prompts: int = 512
    generation_batch: int = 2048
    new: int = 224
    held_out: int = 32
    problems: int = 512
    seed: int = 0


@dataclass
class Result:
    """What a run measured."""

    accuracy: dict[str, float]
    accept: AcceptLength
    loaded: PocketTarget  # as read back from the exported folder


def run(plan: Plan) -> Result:
    """The whole pipeline. Writes plan.out/{target,draft,training.log}; the draft is trained for the exported target."""
    target_folder, draft_folder = plan.out / "target", plan.out / "draft"
    target_folder.mkdir(parents=True, exist_ok=True)
    log_to(plan.out / "training.log")
    log("device", torch.cuda.get_device_name() if DEVICE == "cuda" else f"CPU, {torch.get_num_threads()} threads")
    real = read_gsm8k(plan.gsm8k, "test")
    torch.manual_seed(plan.seed)
    vocab = plan.vocab
    if vocab is None:
        vocab = target_folder / "tiktoken.model"
        train_vocab_on_corpus(vocab, plan.gsm8k, plan.vocab_documents)
        log("vocabulary trained")
    enc = load_encoder(vocab)
    tokens = build_tokens_in_parallel(plan.tokens, plan.processes, vocab, plan.gsm8k)
    log("tokens", len(tokens) / 1e6, "M")
    tokens = torch.from_numpy(tokens.astype(np.int32))

    plan.target_budget.restart()
    trained = train_target(plan.target, tokens, plan.target_budget, plan.target_options)
    export_target(trained, vocab, target_folder)
    sample = tokens[: 4 * 128].view(4, 128).long().to(DEVICE)
    loaded = check_export(trained, target_folder, sample)
    log("target exported to", target_folder)
    del trained, tokens
    accuracy = evaluate_target(loaded, enc, plan.problems, real, plan.new)

    source = PocketTarget(loaded, enc, str(target_folder), compile=plan.draft_options.compile)
    plan.corpus_budget.restart()
    documents = wordproblem_documents(source, plan.corpus_budget, plan.prompts, plan.new, plan.generation_batch)
    rows = pack(documents, plan.target_options.seq, one_per_row=False)
    train_rows, held_out = rows.split(plan.held_out)
    plan.draft_budget.restart()
    draft = train_draft(plan.draft, source, train_rows, plan.draft_budget, plan.draft_options)
    export_draft(draft, draft_folder)
    draft = check_draft_export(draft, draft_folder)
    log("draft exported to", draft_folder)
    accept = evaluate_draft(draft, source, held_out)
    log("ALL DONE")
    return Result(accuracy, accept, source)


def add_budget(group, name: str, minutes: float, what: str, unit: str = "steps") -> None:
    """Adds --NAME-minutes and --NAME-STEPS, of which one may be given."""
    pair = group.add_mutually_exclusive_group()
    pair.add_argument(f"--{name}-minutes", type=float, help=f"time for {what} (default {minutes})")
    pair.add_argument(f"--{name}-{unit}", type=int, help=f"{unit} of {what} instead of a time")
    group.set_defaults(**{f"{name}_default": minutes})


def budget_of(a: argparse.Namespace, name: str, unit: str = "steps") -> Budget:
    """The budget that add_budget()'s flags ask for."""
    minutes, steps = getattr(a, f"{name}_minutes"), getattr(a, f"{name}_{unit}")
    return Budget(minutes=getattr(a, f"{name}_default") if minutes is None and steps is None else minutes, steps=steps)


def parser() -> argparse.ArgumentParser:
    """The command line."""
    ap = argparse.ArgumentParser(
        description="Trains the pocket target and its DFlash draft. The defaults made models/pocket-k2 on one H200.",
    )
    ap.add_argument("--out", type=Path, required=True, help="folder to write target/, draft/ and training.log into")
    ap.add_argument("--smoke", action="store_true", help="tiny dimensions and few steps, the whole pipeline on a CPU")
    ap.add_argument("--seed", type=int, default=0, help="of weights and batches (default 0)")
    data = ap.add_argument_group("data")
    data.add_argument(
        "--gsm8k", type=Path, help="folder with GSM8K's train.jsonl and test.jsonl; without it none is used"
    )
    data.add_argument("--vocab", type=Path, help="a tiktoken.model to use instead of training a vocabulary")
    data.add_argument("--tokens", type=int, default=110_000_000, help="training tokens to generate (default 110M)")
    data.add_argument("--processes", type=int, default=16, help="that generate them; part of the seed (default 16)")
    t = ap.add_argument_group("target")
    add_budget(t, "target", 7, "target training; the last fifth is quantisation-aware")
    t.add_argument("--seq", type=int, default=2048, help="tokens in a row, also of the draft's (default 2048)")
    t.add_argument("--batch", type=int, default=32, help="rows in a step (default 32)")
    d = ap.add_argument_group("draft")
    add_budget(d, "corpus", 1, "the target answering prompts", unit="rounds")
    d.add_argument("--prompts", type=int, default=512, help="of each of three kinds in a round (default 512)")
    d.add_argument("--generation-batch", type=int, default=2048, help="prompts answered at once (default 2048)")
    d.add_argument("--new", type=int, default=224, help="longest answer in tokens (default 224)")
    add_budget(d, "draft", 2.6, "draft training")
    d.add_argument("--draft-batch", type=int, default=16, help="rows in a step (default 16)")
    d.add_argument("--anchors", type=int, default=128, help="blocks in a row (default 128)")
    d.add_argument("--held-out", type=int, default=32, help="rows for measuring the accept length (default 32)")
    ap.add_argument("--problems", type=int, default=512, help="unseen problems for measuring accuracy (default 512)")
    ap.add_argument("--no-compile", action="store_true", help="do without torch.compile: slower, but starts at once")
    return ap


def plan_of(a: argparse.Namespace) -> Plan:
    """The run that the flags ask for."""
    compile = not a.no_compile and DEVICE == "cuda"
    return Plan(
        out=a.out,
        target_budget=budget_of(a, "target"),
        corpus_budget=budget_of(a, "corpus", unit="rounds"),
        draft_budget=budget_of(a, "draft"),
        vocab=a.vocab,
        gsm8k=a.gsm8k,
        tokens=a.tokens,
        processes=a.processes,
        target_options=TargetOptions(a.seq, a.batch, compile),
        draft_options=DraftOptions(a.draft_batch, a.anchors, compile=compile),
        prompts=a.prompts,
        generation_batch=a.generation_batch,
        new=a.new,
        held_out=a.held_out,
        problems=a.problems,
        seed=a.seed,
    )


def main() -> int:
    """Runs the command line; returns the exit status."""
    ap = parser()
    a = ap.parse_args()
    for name in ("tokens", "processes", "seq", "batch", "prompts", "generation_batch", "new", "draft_batch", "anchors"):
        if getattr(a, name) < 1:
            ap.error(f"--{name.replace('_', '-')} takes 1 or more, got {getattr(a, name)}")
    try:
        if a.smoke:
            from smoke import smoke

            smoke(a.out)
        else:
            run(plan_of(a))
    except (ValueError, FileNotFoundError) as e:
        print(f"train.py: {e}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
