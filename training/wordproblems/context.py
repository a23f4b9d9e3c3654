"""The context `Ctx` a template writes into: random draws, exact annotated arithmetic, rendering of sentences."""

import random
import re
from typing import Sequence

from .fillers import BOXES, CITIES, COLORS, DAYS, FLAVOR, GOODS, HOLD, NOUNS, PEOPLE, SHOPS, WORDS, Noun, Person

MAX_VALUE = 9999  # the largest number that occurs in an answer


class Retry(Exception):
    """The numbers drawn do not work out; draw the template again."""


def cents(v: int) -> str:
    """An amount in cents as dollars with two decimals: 1250 -> "12.50"."""
    return f"{v // 100}.{v % 100:02d}"


class Calc:
    """An exact computation: prints annotated, `.v` is its value (cents when money=True).

    f"{calc}" gives `48/2 = <<48/2=24>>24`; f"{calc:$}" puts a dollar sign before the annotation.
    """

    __slots__ = ("expr", "v", "money")

    def __init__(self, expr: str, v: int, money: bool = False):
        self.expr, self.v, self.money = expr, v, money

    def __format__(self, spec: str) -> str:
        val = cents(self.v) if self.money else str(self.v)
        return f"{self.expr} = {spec}<<{self.expr}={val}>>{val}"

    def __str__(self) -> str:
        return format(self, "")


def value(x: Calc | int) -> int:
    """The number behind an operand of c.add, c.mul and so on."""
    return x.v if isinstance(x, Calc) else x


_TOKEN = re.compile(r"\[([SOP])\]")
# a number from 2 to 12 that may be spelled out: before a word, and not part of a price, a time or a unit
_SMALLNUM = re.compile(
    r"(?<![\d$.:/,-])\b([2-9]|1[0-2])(?= [a-z])(?! (?:two-|three-|percent|a\.m|p\.m|cm|kg|km|GB|MB))"
)
# a last fact that may become "If <fact>, how many ...?"
_IFABLE = re.compile(
    r"(?!\S+ \S+,|\S+ \S+ \S+,)(?:\[S\] |\[P\] |Each |Every |There |The |A |An |One |All |"
    r"[A-Z][a-z]+ (?:has|had|buys|bought|gives|gave|is|sold|pays) )"
)
# ... and that keeps its first letter because it is a name
_KEEP = re.compile(r"\[|[A-Z][a-z]+ (?:has|had|buys|bought|gives|gave|is|sold|pays) ")


class Ctx:
    """One problem being written. The order of draws is part of the output: the same seed gives the same texts."""

    def __init__(self, rng: random.Random):
        self.r = rng
        self.people: list[Person] = []  # the first one is the main person: [S], [O], [P]
        self.objs: list[str] = []  # plurals of the nouns drawn
        self.facts: list[str] = []
        self.steps: list[str] = []
        self.question = ""
        self._rand = rng.random

    # --- draws
    def i(self, a: int, b: int) -> int:
        """An integer in [a, b]."""
        return a + int(self._rand() * (b - a + 1))

    def m(self, a: int, b: int, k: int) -> int:
        """A multiple of k in [a, b]."""
        return k * self.i(-(-a // k), b // k)

    def p(self, seq: Sequence):
        """One element (pick)."""
        return seq[int(self._rand() * len(seq))]

    def alt(self, x: str | Sequence[str]) -> str:
        """A sentence itself, or one of alternative wordings."""
        return x if isinstance(x, str) else self.p(x)

    def sample(self, seq: Sequence, n: int) -> list:
        """n different elements."""
        return self.r.sample(seq, n)

    def person(self) -> Person:
        """A person not yet in the problem; the first one drawn is the main person."""
        while True:
            p = self.p(PEOPLE)
            if p not in self.people:
                self.people.append(p)
                return p

    def persons(self, n: int) -> list[Person]:
        """n different people."""
        return [self.person() for _ in range(n)]

    def noun(self, *kinds: str) -> Noun:
        """A thing not yet in the problem, of one of the kinds (default: things people hold)."""
        while True:
            x = self.p(NOUNS[self.p(kinds or HOLD)])
            if x.pl not in self.objs:
                self.objs.append(x.pl)
                return x

    def nouns(self, n: int, *kinds: str) -> list[Noun]:
        """n different nouns of one kind (default: goods on sale)."""
        k = self.p(kinds or GOODS)
        xs = self.sample(NOUNS[k], n)
        self.objs += [x.pl for x in xs]
        return xs

    def price(self, x: Noun) -> int:
        """A price in dollars that is usual for the thing."""
        return self.i(max(2, x.lo), max(4, x.hi))

    @property
    def tot(self) -> str:
        """A wording of "in total"."""
        return self.p(("in all", "in total", "altogether"))

    @property
    def box(self) -> Noun:
        """A kind of container."""
        return self.p(BOXES)

    @property
    def shop(self) -> str:
        """A kind of shop."""
        return self.p(SHOPS)

    # --- arithmetic: exact, and refused (Retry) where a reader would stumble
    def _calc(self, op: str, xs: Sequence, v: int, lo: int) -> Calc:
        if v < lo or v > MAX_VALUE:
            raise Retry
        return Calc(op.join([str(value(x)) for x in xs]), v)

    def add(self, *xs, lo: int = 2) -> Calc:
        """The sum; refused below lo."""
        return self._calc("+", xs, sum(value(x) for x in xs), lo)

    def sub(self, a, *xs, lo: int = 2) -> Calc:
        """a minus all of xs; refused below lo."""
        return self._calc("-", (a,) + xs, value(a) - sum(value(x) for x in xs), lo)

    def mul(self, *xs, lo: int = 2) -> Calc:
        """The product; refused below lo."""
        v = 1
        for x in xs:
            v *= value(x)
        return self._calc("*", xs, v, lo)

    def div(self, a, b, lo: int = 2) -> Calc:
        """The quotient; refused with a remainder or below lo."""
        q, r = divmod(value(a), value(b))
        if r:
            raise Retry
        return self._calc("/", (a, b), q, lo)

    def pct(self, a, n: int) -> Calc:
        """n percent of a, as a*n/100; refused when fractional."""
        q, r = divmod(value(a) * n, 100)
        if r:
            raise Retry
        return self._calc("", (f"{value(a)}*{n}/100",), q, 2)

    def madd(self, *xs) -> Calc:
        """The sum of amounts in cents."""
        return self._money("+", [value(x) for x in xs], sum(value(x) for x in xs))

    def msub(self, a, b) -> Calc:
        """The difference of two amounts in cents; refused at or below zero."""
        return self._money("-", [value(a), value(b)], value(a) - value(b))

    def mmul(self, n: int, a) -> Calc:
        """n times an amount in cents."""
        return Calc(f"{n}*{cents(value(a))}", n * value(a), True)

    def _money(self, op: str, xs: Sequence[int], v: int) -> Calc:
        if v <= 0:
            raise Retry
        return Calc(op.join(map(cents, xs)), v, True)

    def need(self, cond: bool) -> None:
        """A condition the drawn numbers must meet, or the template is drawn again."""
        if not cond:
            raise Retry

    # --- text
    def say(self, *facts: str | Sequence[str]) -> None:
        """States facts in this order; a tuple stands for alternative wordings."""
        for f in facts:
            self.facts.append(self.alt(f))

    def say_any(self, *facts: str | Sequence[str]) -> None:
        """Facts whose order does not matter."""
        fs = [self.alt(f) for f in facts]
        self.r.shuffle(fs)
        self.facts += fs

    def ask(self, *alts: str) -> None:
        """The question, as alternative wordings."""
        self.question = self.p(alts)

    def step(self, *alts: str) -> None:
        """One line of the answer, as alternative wordings."""
        self.steps.append(self.p(alts))

    def render(self, sentences: Sequence[str], name_rate: float) -> list[str]:
        """Puts the main person into [S], [O] and [P]: the name first, later the name at name_rate, else the pronoun.

        With several people in the problem a pronoun could mean any of them, so each sentence starts from the name.
        """
        p = self.people[0] if self.people else None
        many = len(self.people) > 1
        named = False
        out = []
        for s in sentences:
            if "[" in s:
                use_name = many or not named or self._rand() < name_rate
                parts = _TOKEN.split(s)
                for k in range(1, len(parts), 2):
                    t = parts[k]
                    if use_name:
                        w = p + "'s" if t == "P" else str(p)
                        use_name, named = False, True
                    else:
                        w = p.he if t == "S" else p.him if t == "O" else p.his
                    if k == 1 and not parts[0]:
                        w = w[0].upper() + w[1:]
                    parts[k] = w
                s = "".join(parts)
            out.append(s)
        return out

    def question_text(self) -> str:
        """The whole question: facts, now and then a sentence of no use, the last fact now and then as a condition."""
        facts = list(self.facts)
        q = self.question
        if self.people and self._rand() < 0.07:
            facts.insert(0, self.p(FLAVOR).format(city=self.p(CITIES), color=self.p(COLORS[1:7]), day=self.p(DAYS)))
        last = facts[-1]
        may_be_condition = len(facts) > 1 and q.startswith(("How ", "What ")) and _IFABLE.match(last)
        if may_be_condition and ". " not in last and "?" not in last and self._rand() < 0.22:
            if not _KEEP.match(last):
                last = last[0].lower() + last[1:]
            facts.pop()
            q = f"If {last[:-1]}, {q[0].lower()}{q[1:]}"
        text = " ".join(self.render(facts + [q], 0.3))
        if self._rand() < 0.3:
            text = _SMALLNUM.sub(self._word, text)
        return text

    def _word(self, m: re.Match) -> str:
        if self._rand() < 0.4:
            return m.group(0)
        w = WORDS[int(m.group(1))]
        return w.capitalize() if m.start() == 0 or m.string[m.start() - 2] in ".?" else w

    def answer_text(self, final: int) -> str:
        """The worked answer in GSM8K form, ending in `#### final`."""
        return "\n".join(self.render(self.steps, 0.15) + [f"#### {final}"])
