"""The test corpus: endless multilingual text from a seed. tests/text/corpus.cc makes the same text; change both.

Pieces of sentences.txt in some thirty languages, random characters of all Unicode and of busy blocks, digits of several
scripts, white space of all kinds, contractions, control tokens whole and broken, switched case, runs of one character.
"""
import pathlib

FOLDER = pathlib.Path(__file__).resolve().parent / "text"
LINES = (FOLDER / "sentences.txt").read_text(encoding="utf-8").splitlines()
SEPARATORS = ["", " ", " ", "\n", "\n\n", "  ", "\t", "\r\n"]
SPACES = [0x20, 0x20, 0x0A, 0x0D, 0x09, 0xA0, 0x3000, 0x2028, 0x85, 0x1C]
DIGITS = [0x30, 0x30, 0x660, 0x966, 0xFF10]
CONTRACTIONS = ["'s", "'T", "'RE", "'ve", "'LL", "'d", "'\u017f", "'x", "\u2019s", "'"]
CONTROLS = ["<|im_end|>", "[EOS]", "<|im_user|>", "<|im_end|", "<|", "[", "<|im_middle|>user<|im_end|>"]
BLOCKS = [(0x20, 0x7E), (0xA0, 0x24F), (0x2B0, 0x36F), (0x370, 0x52F), (0x5D0, 0x6FF), (0x900, 0xDFF), (0xE00, 0xE7F),
          (0x1100, 0x11FF), (0x2000, 0x214F), (0x2E80, 0x2FDF), (0x3000, 0x30FF), (0x4E00, 0x9FFF), (0xAC00, 0xD7A3),
          (0x16FE0, 0x16FFF), (0x1F300, 0x1FAFF), (0x20000, 0x20FFF)]
MASK = (1 << 64) - 1


class Random:
    """SplitMix64."""

    def __init__(self, seed):
        self.state = seed

    def next(self):
        self.state = (self.state + 0x9E3779B97F4A7C15) & MASK
        z = self.state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
        return z ^ (z >> 31)

    def below(self, bound):
        return self.next() % bound

    def pick(self, items):
        return items[self.below(len(items))]


def piece_of_line(r):
    line = r.pick(LINES)
    begin = r.below(len(line))
    return line[begin:begin + 1 + r.below(20)]


def any_character(r):
    c = r.below(0x110000 - 0x800)
    return chr(c if c < 0xD800 else c + 0x800)


def block_character(r):
    first, last = r.pick(BLOCKS)
    return chr(first + r.below(last - first + 1))


def switch_case(c, r):
    if r.below(2) == 0 or not ("a" <= c <= "z" or "A" <= c <= "Z"):
        return c
    return chr(ord(c) ^ 0x20)


def part(r, first_control):
    kind = r.below(16)
    if kind < 7:
        line = r.pick(LINES)
        return line + r.pick(SEPARATORS)
    if kind == 7:
        first = piece_of_line(r)
        return first + piece_of_line(r)
    if kind == 8:
        zero = r.pick(DIGITS)
        return "".join(chr(zero + r.below(10)) for _ in range(1 + r.below(12)))
    if kind == 9:
        return "".join(chr(r.pick(SPACES)) for _ in range(1 + r.below(8)))
    if kind == 10:
        return "".join(any_character(r) for _ in range(1 + r.below(16)))
    if kind == 11:
        return "".join(block_character(r) for _ in range(1 + r.below(16)))
    if kind == 12:
        word = piece_of_line(r)
        return word + r.pick(CONTRACTIONS)
    if kind == 13:
        if r.below(2) == 0:
            return r.pick(CONTROLS)
        return f"<|reserved_token_{first_control - 8 + r.below(300)}|>"
    if kind == 14:
        return "".join(switch_case(c, r) for c in piece_of_line(r))
    c = piece_of_line(r)[0]
    return c * (1 + r.below(40))


def corpus(seed, target_bytes, first_control):
    r = Random(seed)
    parts = []
    size = 0
    while size < target_bytes:
        parts.append(part(r, first_control))
        size += len(parts[-1].encode())
    return "".join(parts)


def fnv1a(data, state=0xCBF29CE484222325):
    for byte in data:
        state = ((state ^ byte) * 0x100000001B3) & MASK
    return state


def ids_digest(ids):
    return f"{fnv1a(b''.join(i.to_bytes(4, 'little') for i in ids)):016x}"


def text_digest(text):
    return f"{fnv1a(text.encode()):016x}"
