"""The split into train and test problems, made from what a problem is about."""

import zlib
from typing import Sequence


class HeldOut:
    """The deterministic split: about one (name, object) pair in ten is for the test only.

    A problem without names (or without objects) uses its template's name in that place; one with neither is split by
    its text. Train problems hold no held-out pair; each test problem holds at least one, so no test question can occur
    in training.
    """

    rate = 10

    def pair(self, name: str, obj: str) -> bool:
        """Whether this pair is held out."""
        return zlib.crc32(f"{name}|{obj}".encode()) % self.rate == 0

    def pairs(self, people: Sequence[str], nouns: Sequence[str], template: str, text: str) -> list[tuple[str, str]]:
        """The pairs of a problem."""
        if not people and not nouns:
            return [("text", text)]
        return [(p, n) for p in (people or [template]) for n in (nouns or [template])]

    def accepts(self, split: str | None, people: Sequence[str], nouns: Sequence[str], template: str, text: str) -> bool:
        """Whether a problem belongs to the split "train" or "test"; None accepts all."""
        if split is None:
            return True
        held = any(self.pair(p, n) for p, n in self.pairs(people, nouns, template, text))
        return held == (split == "test")


HELD_OUT = HeldOut()
