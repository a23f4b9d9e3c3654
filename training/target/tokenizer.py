"""The Kimi-style byte-level BPE vocabulary of the pocket model: training, loading, and the chat form as text."""

import base64
import json
from pathlib import Path
from typing import Iterable

BASE_VOCAB = 3840
_OFFSETS = {
    "[BOS]": 0,
    "[EOS]": 1,
    "<|im_end|>": 2,
    "<|im_user|>": 3,
    "<|im_assistant|>": 4,
    "<|start_header_id|>": 6,
    "<|end_header_id|>": 7,
    "[EOT]": 9,
    "<|im_system|>": 10,
    "<|tool_calls_section_begin|>": 11,
    "<|tool_calls_section_end|>": 12,
    "<|tool_call_begin|>": 13,
    "<|tool_call_argument_begin|>": 14,
    "<|tool_call_end|>": 15,
    "<|im_middle|>": 17,
    "[UNK]": 254,
    "[PAD]": 255,
}
SPECIAL = {name: BASE_VOCAB + offset for name, offset in _OFFSETS.items()}  # the offsets are Kimi-K2's
STOP_IDS = {SPECIAL["[EOS]"], SPECIAL["<|im_end|>"]}
ASSISTANT = "<|im_assistant|>assistant<|im_middle|>"  # what a prompt ends with when the assistant is to speak

_LOWER = r"[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]"
_UPPER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]"
PATTERN = "|".join(  # how Kimi-K2 cuts text before merging
    [
        r"[\p{Han}]+",
        r"[^\r\n\p{L}\p{N}]?" + _UPPER + "*" + _LOWER + r"+(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
        r"[^\r\n\p{L}\p{N}]?" + _UPPER + "+" + _LOWER + r"*(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
        r"\p{N}{1,3}",
        r" ?[^\s\p{L}\p{N}]+[\r\n]*",
        r"\s*[\r\n]+",
        r"\s+(?!\S)",
        r"\s+",
    ]
)


def bytes_to_unicode() -> dict[int, str]:
    """GPT-2's table of a printable character for every byte."""
    keep = [*range(33, 127), *range(161, 173), *range(174, 256)]
    table = {b: chr(b) for b in keep}
    for n, b in enumerate(b for b in range(256) if b not in table):
        table[b] = chr(256 + n)
    return table


def train_vocab(texts: Iterable[str], out: Path) -> None:
    """Trains BASE_VOCAB byte-level BPE tokens and writes them in tiktoken's form.

    Digits never merge, so each digit is one token and numbers are read digit by digit.
    """
    from tokenizers import Regex, Tokenizer, models, pre_tokenizers, trainers

    tok = Tokenizer(models.BPE())
    single_digits = PATTERN.replace(r"\p{N}{1,3}", r"\p{N}")
    tok.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(single_digits), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    tok.train_from_iterator(
        texts, trainers.BpeTrainer(vocab_size=BASE_VOCAB, initial_alphabet=alphabet, show_progress=False)
    )
    to_byte = {c: b for b, c in bytes_to_unicode().items()}
    vocab = sorted(tok.get_vocab().items(), key=lambda kv: kv[1])
    if len(vocab) != BASE_VOCAB:
        raise ValueError(f"the texts give {len(vocab)} tokens, {BASE_VOCAB} are needed: train on more text")
    with open(out, "wb") as f:
        for token, rank in vocab:
            f.write(base64.b64encode(bytes(to_byte[c] for c in token)) + b" %d\n" % rank)


def load_encoder(file: Path):
    """The tiktoken.Encoding of a tiktoken.model file with the special tokens."""
    import tiktoken

    ranks = {}
    for number, line in enumerate(file.read_bytes().splitlines(), 1):
        try:
            token, rank = line.split()
            ranks[base64.b64decode(token)] = int(rank)
        except ValueError as e:
            raise ValueError(f"{file}, line {number}: want a base64 token and its rank, got {line[:60]!r}") from e
    if len(ranks) != BASE_VOCAB:
        raise ValueError(f"{file} holds {len(ranks)} tokens; the pocket model has {BASE_VOCAB} and special ones above")
    return tiktoken.Encoding("pocket", pat_str=PATTERN, mergeable_ranks=ranks, special_tokens=SPECIAL)


def chat_text(messages: list[dict], tools: list[dict] | None = None) -> str:
    """The Kimi-K2 chat form of a whole conversation, special tokens spelled out; chat_template.jinja does the same."""
    s = ""
    if tools:
        s += "<|im_system|>tool_declare<|im_middle|>" + _compact(tools) + "<|im_end|>"
    for m in messages:
        role = m["role"]
        s += f"<|im_{role if role in ('user', 'assistant') else 'system'}|>{m.get('name') or role}<|im_middle|>"
        if role == "tool":
            s += f"## Return of {m['tool_call_id']}\n{m['content']}"
        else:
            s += m.get("content") or ""
        if m.get("tool_calls"):
            s += "<|tool_calls_section_begin|>"
            for k, call in enumerate(m["tool_calls"]):
                fn = call["function"]
                args = fn["arguments"] if isinstance(fn["arguments"], str) else _compact(fn["arguments"])
                s += f"<|tool_call_begin|>functions.{fn['name']}:{k}<|tool_call_argument_begin|>{args}<|tool_call_end|>"
            s += "<|tool_calls_section_end|>"
        s += "<|im_end|>"
    return s


def _compact(value) -> str:
    return json.dumps(value, separators=(",", ":"))


def prompt_text(messages: list[dict], tools: list[dict] | None = None) -> str:
    """The chat form up to the point where the assistant is to speak; its last turns are left out."""
    while messages and messages[-1]["role"] == "assistant":
        messages = messages[:-1]
    return chat_text(messages, tools) + ASSISTANT


def plain_text(enc, ids: Iterable[int]) -> str:
    """Text of ids without the special ones."""
    return enc.decode([t for t in ids if t < BASE_VOCAB])
