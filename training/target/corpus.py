"""What the target is trained on: word problems, chats and (if given) GSM8K's train split, as one stream of tokens.

No torch here: worker processes import this module.
"""

import json
import multiprocessing as mp
import random
from pathlib import Path

import numpy as np

import wordproblems as wp

from .tokenizer import SPECIAL, chat_text, load_encoder, train_vocab

VOCAB_DOCUMENTS = 60000
_SHARE_WITH_GSM8K = 1.0  # of the document kinds below
_SHARE_WITHOUT = 0.93


def read_gsm8k(folder: Path | None, split: str) -> list[dict]:
    """Question/answer records of GSM8K's train or test split; none without a folder.

    The data set: https://github.com/openai/grade-school-math (MIT), train.jsonl and test.jsonl.
    """
    if folder is None:
        return []
    file = folder / f"{split}.jsonl"
    if not file.is_file():
        raise FileNotFoundError(f"--gsm8k {folder}: there is no {file.name} in it")
    records = [json.loads(line) for line in file.read_text().splitlines()]
    for number, r in enumerate(records, 1):
        if not {"question", "answer"} <= set(r):
            raise ValueError(f"{file}, line {number}: want the fields question and answer, got {sorted(r)}")
    return records


def problem_text(p: dict) -> str:
    """A problem with its worked answer, as few-shot prompts show it."""
    return f"Question: {p['question']}\nAnswer: {p['answer']}\n\n"


def problem_chat(p: dict) -> list[dict]:
    """A problem as a chat of two turns."""
    return [{"role": "user", "content": p["question"]}, {"role": "assistant", "content": p["answer"]}]


def document(rng: random.Random, real: list[dict]) -> str:
    """One training document: 40% series of problems, 30% a problem as a chat, 23% chat skills, 7% real GSM8K problems.

    Without real problems the other kinds share their part.
    """
    r = rng.random() * (_SHARE_WITH_GSM8K if real else _SHARE_WITHOUT)
    if r < 0.40:
        return "".join(problem_text(wp.generate(rng)) for _ in range(rng.choice([1, 1, 2, 3, 4, 6]))) + "[EOS]"
    if r < 0.70:
        return chat_text(problem_chat(wp.generate(rng))) + "[EOS]"
    if r < 0.93:
        c = wp.generate_chat(rng)
        return chat_text(c["messages"], c.get("tools")) + "[EOS]"
    return "".join(problem_text(rng.choice(real)) for _ in range(rng.choice([1, 2, 4]))) + "[EOS]"


def train_vocab_on_corpus(out: Path, gsm8k: Path | None, documents: int = VOCAB_DOCUMENTS, seed: int = 1) -> None:
    """Trains the vocabulary on documents without their special tokens and writes it as a tiktoken.model file."""
    real = read_gsm8k(gsm8k, "train")
    rng = random.Random(seed)

    def texts():
        for _ in range(documents):
            t = document(rng, real)
            for s in SPECIAL:
                t = t.replace(s, " ")
            yield t

    train_vocab(texts(), out)


def build_tokens(seed: int, at_least: int, vocab: Path, gsm8k: Path | None) -> np.ndarray:
    """Documents one after the other as token ids, uint16, at_least tokens of them."""
    real = read_gsm8k(gsm8k, "train")
    enc = load_encoder(vocab)
    rng = random.Random(seed)
    out, n = [], 0
    while n < at_least:
        texts = [document(rng, real) for _ in range(200)]
        for ids in enc.encode_batch(texts, num_threads=1, allowed_special="all"):
            out.append(np.array(ids, dtype=np.uint16))
            n += len(ids)
    return np.concatenate(out)


def build_tokens_in_parallel(tokens: int, processes: int, vocab: Path, gsm8k: Path | None) -> np.ndarray:
    """Like build_tokens, from several processes; process i has the seed 1000 + i."""
    work = [(1000 + i, tokens // processes, vocab, gsm8k) for i in range(processes)]
    if processes == 1:
        return build_tokens(*work[0])
    with mp.get_context("spawn").Pool(processes) as pool:
        return np.concatenate(pool.starmap(build_tokens, work))
