#!/usr/bin/env python3
"""Writes src/text/unicode_ranges.inc: the character classes that pre-tokenizer patterns ask for.

The reference for token ids is the `tiktoken` package, so its own regex engine is asked which characters are \\p{Lu},
\\p{Han}, \\s and so on. tiktoken 0.14.0 carries Unicode 16.0; Python's unicodedata and the `regex` package carry other
versions and would split newer letters elsewhere.

    python3 -m pip install tiktoken==0.14.0
    python3 scripts/make_unicode_table.py
"""
import pathlib

import tiktoken

UNICODE_VERSION = "16.0"
CLASSES = ["Lu", "Ll", "Lt", "Lm", "Lo", "M", "N"]  # numbered from 1 as CharClass in src/text/unicode.h
SPACE = len(CLASSES) + 1
HAN = 0x80
OUT = pathlib.Path(__file__).resolve().parent.parent / "src" / "text" / "unicode_ranges.inc"

BYTES = {bytes([i]): i for i in range(256)}
EVERY_CHARACTER = "".join(chr(c) for c in range(0x110000) if not 0xD800 <= c <= 0xDFFF)


def members(pattern):
    """The characters that one-character `pattern` matches: text that no piece matches gets no ids."""
    encoding = tiktoken.Encoding(name="probe", pat_str=pattern, mergeable_ranks=BYTES, special_tokens={})
    ids = encoding.encode_ordinary(EVERY_CHARACTER)
    return [ord(c) for c in bytes(ids).decode()]


def main():
    table = bytearray(0x110000)
    for number, name in enumerate(CLASSES, start=1):
        for c in members(r"\p{%s}" % name):
            assert table[c] == 0, (hex(c), name)
            table[c] = number
    for c in members(r"\s"):
        assert table[c] == 0, hex(c)
        table[c] = SPACE
    for c in members(r"\p{Han}"):
        table[c] |= HAN
    starts = [c for c in range(0x110000) if c == 0 or table[c] != table[c - 1]]
    words = [f"0x{c << 8 | table[c]:x}," for c in starts]
    lines = [f"// Unicode {UNICODE_VERSION}, by scripts/make_unicode_table.py: first code point << 8 | class, up to the next entry."]
    line = ""
    for word in words:
        if len(line) + len(word) > 119:
            lines.append(line)
            line = ""
        line += word
    OUT.write_text("\n".join(lines + [line]) + "\n")
    print(f"{OUT}: {len(words)} ranges")


if __name__ == "__main__":
    main()
