#!/usr/bin/env python3
"""Writes tests/golden/text/*: what the reference packages make of texts, for tests/text.

Ids are those of the `tiktoken` package driven as Moonshot's TikTokenTokenizer drives it (the two cuts, all 256 control
tokens allowed, no BOS). Pieces come from tiktoken too: with a vocabulary that holds every substring of a text, each
piece becomes one token. Repaired UTF-8 is Python's. Nothing here comes from this project's own code.

    python3 -m pip install -r tests/golden/requirements.txt
    python3 tests/golden/make_text_goldens.py
"""
import base64
import itertools
import json
import pathlib

import numpy
import tiktoken
import tiktoken.load

import text_corpus
from text_corpus import FOLDER, Random, corpus, ids_digest, text_digest

ROOT = pathlib.Path(__file__).resolve().parents[2]
POCKET = ROOT / "models" / "pocket-k2" / "target"
KIMI_PATTERN = "|".join([
    r"[\p{Han}]+",
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+"
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*"
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"\p{N}{1,3}",
    r" ?[^\s\p{L}\p{N}]+[\r\n]*",
    r"\s*[\r\n]+",
    r"\s+(?!\S)",
    r"\s+",
])
PATTERNS = {
    "kimi": KIMI_PATTERN,
    "gpt2": r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
    "qwen2": r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
             r"|\s+(?!\S)|\s+",
    "llama3": r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
              r"|\s*[\r\n]+|\s+(?!\S)|\s+",
    "qwen35": r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*"
              r"|\s*[\r\n]+|\s+(?!\S)|\s+",
}
# One character of each kind that some pattern tells apart, for all short strings over them.
ALPHABET = "aBsL\u01c5\u02b0あ\u0301中々〇⺀\U00016ff01٣²!'\u017f \n\r\t\u00a0😀"
MULTILINGUAL_BYTES = 1_000_000


class Kimi:
    """What TikTokenTokenizer.encode does around tiktoken."""

    def __init__(self, ranks, names):
        base = len(ranks)
        self.base = base
        self.special = {names.get(i, f"<|reserved_token_{i}|>"): i for i in range(base, base + 256)}
        self.model = tiktoken.Encoding(name="kimi", pat_str=KIMI_PATTERN, mergeable_ranks=ranks, special_tokens=self.special)

    @staticmethod
    def cuts(text):
        start, run, was_space = 0, 0, text[0].isspace() if text else False
        for i, c in enumerate(text):
            if c.isspace() != was_space:
                run, was_space = 1, c.isspace()
                continue
            run += 1
            if run > 25_000:
                yield text[start:i]
                start, run = i, 1
        yield text[start:]

    def encode(self, text, recognise):
        ids = []
        for i in range(0, len(text), 400_000):
            for part in self.cuts(text[i:i + 400_000]):
                if recognise:
                    ids += self.model.encode(part, allowed_special="all")
                else:
                    ids += self.model.encode(part, disallowed_special=())
        return ids


def train_crossing(text, merges):
    """A byte-pair vocabulary learned without cutting the text first, so that its tokens run over words, digits, scripts
    and broken characters: any piece cut elsewhere than the reference cuts it gives other ids."""
    tokens = [bytes([i]) for i in range(256)]
    ids = numpy.frombuffer(text.encode(), dtype=numpy.uint8).astype(numpy.int64)
    seen = set(tokens)
    while len(tokens) < 256 + merges:
        pairs, counts = numpy.unique(ids[:-1] * 65536 + ids[1:], return_counts=True)
        order = numpy.argsort(-counts, kind="stable")
        for best in order:
            left, right = divmod(int(pairs[best]), 65536)
            if tokens[left] + tokens[right] not in seen:
                break
        joined = tokens[left] + tokens[right]
        seen.add(joined)
        tokens.append(joined)
        hits = numpy.flatnonzero((ids[:-1] == left) & (ids[1:] == right))
        if left == right:  # of three in a row only the first two join
            keep, last = [], -2
            for h in hits:
                if h != last + 1:
                    keep.append(h)
                    last = h
            hits = numpy.array(keep)
        ids[hits] = len(tokens) - 1
        ids = numpy.delete(ids, hits + 1)
    return {token: rank for rank, token in enumerate(tokens)}


def write_model(path, ranks):
    lines = [f"{base64.b64encode(token).decode()} {rank}" for token, rank in sorted(ranks.items(), key=lambda x: x[1])]
    path.write_text("\n".join(lines) + "\n")


def lines_of(value):
    """JSON with one line for each item of the lists of objects."""
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return "[\n" + ",\n".join(map(lines_of, value)) + "\n]"
    if isinstance(value, dict) and any(isinstance(v, list) for v in value.values()):
        return "{" + ",".join(json.dumps(k) + ":" + lines_of(v) for k, v in value.items()) + "}"
    return json.dumps(value, separators=(",", ":"))


def dump(name, value):
    path = FOLDER / name
    path.write_text(lines_of(value) + "\n")
    print(f"{path.name}: {path.stat().st_size} bytes")


def pieces(pattern, text):
    """How many characters each piece has."""
    ranks = {bytes([i]): i for i in range(256)}
    for begin, end in itertools.combinations(range(len(text) + 1), 2):
        ranks.setdefault(text[begin:end].encode(), len(ranks))
    encoding = tiktoken.Encoding(name="p", pat_str=pattern, mergeable_ranks=ranks, special_tokens={})
    lengths = [len(encoding.decode_single_token_bytes(i).decode()) for i in encoding.encode_ordinary(text)]
    assert sum(lengths) == len(text), text
    return lengths


def split_texts():
    r = Random(20)
    texts = list(text_corpus.LINES)
    for _ in range(260):
        texts.append("".join(r.pick(ALPHABET) for _ in range(1 + r.below(24))))
    for _ in range(140):
        texts.append("".join(text_corpus.block_character(r) for _ in range(1 + r.below(24))))
    for _ in range(60):
        texts.append("".join(text_corpus.any_character(r) for _ in range(1 + r.below(24))))
    return [t[:64] for t in texts]


def short_strings():
    for length in range(1, 5):
        for letters in itertools.product(ALPHABET, repeat=length):
            yield "".join(letters)


def split_goldens():
    texts = split_texts()
    cases = [{"text": t, **{name: pieces(p, t) for name, p in PATTERNS.items()}} for t in texts]
    ranks = {bytes([i]): i for i in range(256)}
    for s in short_strings():
        ranks.setdefault(s.encode(), len(ranks))
    digests = {}
    for name, pattern in PATTERNS.items():
        encoding = tiktoken.Encoding(name="p", pat_str=pattern, mergeable_ranks=ranks, special_tokens={})
        by_first = {}
        for s in short_strings():
            lengths = [len(encoding.decode_single_token_bytes(i).decode()) for i in encoding.encode_ordinary(s)]
            assert sum(lengths) == len(s)
            state = by_first.get(s[0], 0xCBF29CE484222325)
            by_first[s[0]] = text_corpus.fnv1a(bytes(lengths) + b"\0", state)
        digests[name] = [f"{by_first[c]:016x}" for c in ALPHABET]
    dump("split.json", {"alphabet": ALPHABET, "short_strings": digests, "cases": cases})


def id_texts(kimi):
    """Texts for both vocabularies; kimi.base is where control tokens begin."""
    b = kimi.base
    r = Random(7)
    texts = ["", " ", "a", "\n", "Hello, world!", "<think>", "</think>", "[BOS]", "[EOS][PAD][UNK]", "<|im_end|>", "<|im_end|",
             "<|im_end|>>", "<<|im_end|>", "a<|im_end|>b", " <|im_end|> ", "<|im_end|><|im_end|>", "中文<|im_user|>user",
             f"<|reserved_token_{b + 5}|>", f"<|reserved_token_{b + 200}|>", f"<|reserved_token_{b}|>",
             f"<|reserved_token_{b + 256}|>", f"<|reserved_token_{b + 5}|>123", "<|reserved_token_|>",
             "<|im_system|>system<|im_middle|>Be brief.<|im_end|><|im_user|>user<|im_middle|>1+1?<|im_end|>"
             "<|im_assistant|>assistant<|im_middle|>",
             "I'm we'RE you'Ve he'LL she'D it'S don'T x'\u017fy", "'s 't", "12345678901", "١٢٣٤٥٦٧", "1²③Ⅷ〇4",
             "   leading", "trailing   ", "a  b   c    d", "a\n\n\nb", "a \n b", "\r\n\r\n", "\t\tx", "a\u00a0b", "a\u3000b",
             "a\u0085b", "a\u001cb\u001d\u001e\u001f", "\u2028\u2029", "中文English混合123テスト", "々〇々", "漢字かなカナ",
             "e\u0301\u0301", "\u0301a", "A\u0301B", "ǅabc ǅABC", "ʰABC abcʰ", "ÀÉÎ àéî", "ᏣᎳᎩ", "İı", "ſſ", "ß",
             "👩‍👩‍👧‍👦🇩🇪", "\ufeffBOM", "\u0000\u0001\u007f", "\ufffe\uffff\U0010ffff", "\u200b\u200d\u2060",
             "if (x) {\n\t\treturn 'it''s';\n}\n\n\n", "a" * 200, "ab" * 100, " " * 200, "\n" * 50, "中" * 100, "!" * 130,
             "<|reserved_token_" * 20]
    for i in range(60):
        texts.append(text_corpus.corpus(1000 + i, 1 + r.below(200), b))
    return texts


def long_texts(kimi):
    """Texts near and over the cuts, each a list of [text, how often]."""
    mark = "<|im_end|>"
    near = [[["a", 25_000 + d]] for d in (-1, 0, 1)] + [[["中", 25_001]], [["é", 60_000]], [[" ", 25_001], ["x", 1]],
            [["\n", 50_001]], [["x", 1], [" ", 24_999], ["y", 1]], [["\x1c", 25_001]], [["\u00a0", 25_001]],
            [["!", 25_001]], [["1", 25_001]], [["A", 24_990], ["b", 20]], [["Ab", 20_000]], [["a\u0301", 13_000]],
            [["a", 24_995], [mark, 1], ["b", 5]], [["a", 24_990], [mark, 1], ["b", 5]], [["a", 25_000], [mark, 1]],
            [[mark, 2_501]], [["x ", 200_000]], [["x ", 199_999], ["y", 1], ["123456", 1]], [["x ", 199_998], [mark, 1], ["z", 3]],
            [["word ", 80_000], ["more ", 2_000]], [["中文 ", 133_334]], [["😀 ", 200_001]], [["\r\n", 30_000]],
            [["a", 2_000_000]], [["ab", 13_000]], [["the ", 30_000]]]
    out = []
    for parts in near:
        text = "".join(t * n for t, n in parts)
        ids = kimi.encode(text, True)
        out.append({"parts": parts, "count": len(ids), "digest": ids_digest(ids)})
    return out


def id_goldens(label, kimi):
    cases = []
    for text in id_texts(kimi):
        special, plain = kimi.encode(text, True), kimi.encode(text, False)
        cases.append({"text": text, "ids": special} | ({"plain": plain} if plain != special else {}))
    text = corpus(1, MULTILINGUAL_BYTES, kimi.base)
    ids = kimi.encode(text, True)
    plain = kimi.encode(text, False)
    r = Random(3)
    any_unicode = "".join(text_corpus.any_character(r) for _ in range(200_000))
    any_ids = kimi.encode(any_unicode, True)
    decoded = []
    for _ in range(80):
        some = [r.below(kimi.base + 256) for _ in range(1 + r.below(12))]
        decoded.append({"ids": some, "text": kimi.model.decode(some, errors="replace")})
    dump(f"{label}.json", {
        "cases": cases,
        "long": long_texts(kimi),
        "corpus": {"seed": 1, "bytes": MULTILINGUAL_BYTES, "text_digest": text_digest(text), "count": len(ids),
                   "digest": ids_digest(ids), "plain_count": len(plain), "plain_digest": ids_digest(plain),
                   "every_20000": [ids_digest(ids[i:i + 20_000]) for i in range(0, len(ids), 20_000)]},
        "any_unicode": {"seed": 3, "characters": 200_000, "text_digest": text_digest(any_unicode), "count": len(any_ids),
                        "digest": ids_digest(any_ids)},
        "decoded": decoded,
    })


def utf8_goldens():
    r = Random(9)
    edges = [b"", b"\x80", b"\xc0\xaf", b"\xc1", b"\xc2", b"\xc2\x41", b"\xe0\x80\x80", b"\xe0\xa0", b"\xe0\xa0\x41", b"\xed\xa0\x80",
             b"\xed\x9f\xbf", b"\xee\x80\x80", b"\xef\xbf\xbf", b"\xf0\x80\x80\x80", b"\xf0\x90", b"\xf0\x90\x80", b"\xf0\x90\x80\x41",
             b"\xf4\x8f\xbf\xbf", b"\xf4\x90\x80\x80", b"\xf5\x80\x80\x80", b"\xff\xfe", b"\xe4\xbd\xa0\xe5\xa5", b"a\xe4b\xe4\xbdc",
             b"\xf0\x9f\x98\x80\xf0\x9f\x98", b"\xed\xa0\xbd\xed\xb8\x80"]
    pool = bytes([0x41, 0x7F, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC0, 0xC2, 0xDF, 0xE0, 0xE1, 0xED, 0xEF, 0xF0, 0xF3, 0xF4, 0xF5, 0xFF])
    for _ in range(300):
        edges.append(bytes(r.pick(pool) for _ in range(1 + r.below(10))))
    dump("utf8.json", [{"hex": e.hex(), "text": e.decode("utf-8", "replace")} for e in edges])


def main():
    ranks = train_crossing(corpus(99, 120_000, 1500 + 256), 1500)
    write_model(FOLDER / "crossing.tiktoken", ranks)
    names = ["[BOS]", "[EOS]", "<|im_end|>", "<|im_user|>", "<|im_assistant|>", None, "<|im_system|>", "<|im_middle|>", "<think>",
             "</think>"]
    marked = {"[BOS]", "[EOS]", "<|im_end|>", "<|im_user|>", "<|im_assistant|>", "<|im_system|>", "<|im_middle|>"}
    decoder = {len(ranks) + i: n for i, n in enumerate(names) if n}
    decoder |= {len(ranks) + 254: "[UNK]", len(ranks) + 255: "[PAD]"}
    config = {"tokenizer_class": "TikTokenTokenizer", "bos_token": "[BOS]", "eos_token": "[EOS]", "unk_token": "[UNK]",
              "pad_token": "[PAD]",
              "added_tokens_decoder": {str(i): {"content": n, "special": n in marked} for i, n in decoder.items()}}
    dump("crossing_config.json", config)
    id_goldens("crossing_ids", Kimi(ranks, decoder))

    pocket = tiktoken.load.load_tiktoken_bpe(str(POCKET / "tiktoken.model"))
    pocket_config = json.loads((POCKET / "tokenizer_config.json").read_text())
    id_goldens("pocket_ids", Kimi(pocket, {int(i): t["content"] for i, t in pocket_config["added_tokens_decoder"].items()}))
    split_goldens()
    utf8_goldens()


if __name__ == "__main__":
    main()
