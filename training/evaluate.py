#!/usr/bin/env python3
"""Measures a target and its draft without training anything.

    python evaluate.py --target ../models/pocket-k2/target --draft ../models/pocket-k2/draft --problems 32
    python evaluate.py --target FOLDER --draft FOLDER --data prompts.jsonl

Word problems come from the test split. Of a pocket target the accuracy is measured too.
"""

import argparse
import random
import sys
from pathlib import Path

import wordproblems as wp
from common.progress import log
from draft.corpus import file_documents
from draft.documents import Document, pack
from draft.evaluate import evaluate_draft
from draft.export import load_draft
from draft.target_source import PocketTarget, TargetSource
from target.corpus import read_gsm8k
from target.evaluate import evaluate_target
from train_draft import load_source


def problem_documents(target: TargetSource, count: int, new: int, batch: int) -> list[Document]:
    """Unseen word problems as chats, with the target's greedy answers."""
    rng = random.Random("test:1")
    prompts = [
        target.encode_chat([{"role": "user", "content": wp.generate(rng, "test")["question"]}]) for _ in range(count)
    ]
    documents: list[Document] = []
    for i in range(0, count, batch):
        documents += zip(prompts[i : i + batch], target.answer(prompts[i : i + batch], new, 0))
    return documents


def main() -> int:
    """Runs the command line; returns the exit status."""
    ap = argparse.ArgumentParser(description="Measures accept length, and of a pocket target accuracy.")
    ap.add_argument("--target", type=Path, required=True, help="folder of the target")
    ap.add_argument("--draft", type=Path, required=True, help="folder of its draft")
    what = ap.add_mutually_exclusive_group(required=True)
    what.add_argument("--problems", type=int, help="number of unseen word problems")
    what.add_argument("--data", type=Path, help="jsonl file in the form that train_draft.py takes")
    ap.add_argument("--gsm8k", type=Path, help="folder with GSM8K's test.jsonl; its accuracy is measured too")
    ap.add_argument("--limit", type=int, help="read only this many lines of --data")
    ap.add_argument("--new", type=int, default=224, help="longest answer in tokens (default 224)")
    ap.add_argument("--seq", type=int, default=2048, help="longest prompt with answer in tokens (default 2048)")
    ap.add_argument("--generation-batch", type=int, default=32, help="prompts answered at once (default 32)")
    a = ap.parse_args()
    try:
        target, draft = load_source(a.target, compile=False), load_draft(a.draft)
        if a.problems is not None and a.problems < 1:
            raise ValueError(f"--problems takes 1 or more, got {a.problems}")
        if (draft.c.hidden_size, draft.c.num_target_layers) != (target.hidden_size, target.num_layers):
            raise ValueError(f"--draft {a.draft} was trained for another target than {a.target}")
        if isinstance(target, PocketTarget) and a.problems:
            evaluate_target(target.net, target.enc, a.problems, read_gsm8k(a.gsm8k, "test"), a.new)
        if a.data:
            documents = file_documents(target, a.data, a.new, 0.0, a.generation_batch, a.limit)
        else:
            documents = problem_documents(target, a.problems, a.new, a.generation_batch)
            log("problems answered:", len(documents))
        evaluate_draft(draft, target, pack(documents, a.seq, one_per_row=True))
    except (ValueError, FileNotFoundError) as e:
        print(f"evaluate.py: {e}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
