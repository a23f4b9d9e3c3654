"""What several chat skills use."""

import json

from ..context import Ctx
from ..fillers import NOUNS, Noun


def capitalised(s: str) -> str:
    """With a capital first letter, the rest untouched."""
    return s[0].upper() + s[1:]


def compact_json(x) -> str:
    """JSON without blanks, as tool calls carry it."""
    return json.dumps(x, separators=(",", ":"), ensure_ascii=False)


def draw_nouns(c: Ctx, n: int) -> list[Noun]:
    """n different nouns of one kind; toys where the kind has fewer."""
    pool = NOUNS[c.p(list(NOUNS))]
    return c.sample(pool if len(pool) >= n else NOUNS["toy"], n)


def vary_tone(c: Ctx, s: str) -> str:
    """Varies the tone of an imperative that ends without a full stop."""
    r = c.i(0, 5)
    if r == 0:
        return f"Please {s[0].lower()}{s[1:]}."
    if r == 1:
        return f"Can you {s[0].lower()}{s[1:]}?"
    return s + ("." if r < 5 else "")
