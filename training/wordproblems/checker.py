"""check(): whether a problem's worked answer is right, by itself and against its question."""

import re
from fractions import Fraction

from .fillers import NTH, TIMES, WORDS

_ANNOTATION = re.compile(r"([\d.+\-*/]+) = (\$?)<<([^=<>]+)=([^<>]+)>>([\d.]+)")
_NUMBER = re.compile(r"\d+(?:\.\d+)?")
# numbers a step may use without the question stating them: small counts, days, hours, minutes, percent, metres
_COMMON = {"1", "2", "3", "4", "5", "7", "10", "12", "60", "100", "1000"}

# Templates that now and then write a problem which check() refuses. average_to_total may state that a negative number
# of things was sold (about one problem in 7,000 of all). They stay as they are, so that a seed's output stays what
# models/pocket-k2 was trained on.
KNOWN_FLAWS = {"average_to_total"}


def evaluate(expr: str) -> Fraction:
    """The exact value of a chain of + - * / (times and divide first). ValueError for anything else."""
    tokens = re.findall(r"\d+(?:\.\d+)?|[+\-*/]", expr)
    if "".join(tokens) != expr or len(tokens) % 2 == 0:
        raise ValueError(f"not an expression: {expr}")
    total, term = Fraction(0), None
    for k in range(0, len(tokens), 2):
        op = tokens[k - 1] if k else "+"
        if tokens[k] in "+-*/" or op not in "+-*/":
            raise ValueError(f"not an expression: {expr}")
        n = Fraction(tokens[k])
        if op in "+-":
            total += term or 0
            term = n if op == "+" else -n
        elif op == "*":
            term *= n
        elif n == 0:
            raise ValueError(f"division by zero: {expr}")
        else:
            term /= n
    return total + term


def known_numbers(question: str) -> set[str]:
    """The numbers that a question states, in digits or in words, and the common ones."""
    words = re.findall(r"[a-z]+", question.lower())
    seen = set(_NUMBER.findall(question)) | _COMMON
    seen |= {str(WORDS.index(w)) for w in words if w in WORDS}
    seen |= {k for k, t in (("25", "quarters"), ("366", "leap")) if t in words}
    seen |= {str(k) for k, t in TIMES.items() if t in question}
    seen |= {str(k) for k, t in NTH.items() if t in question.lower()}
    return seen


def check(problem: dict) -> bool:
    """Raises ValueError unless every <<expression=value>> is right, its operands come from the question or from an
    earlier step, every value is positive, below 10000 and exact, and the last value is the final answer. Returns True.
    """
    seen = known_numbers(problem["question"])
    lines = problem["answer"].split("\n")
    last = None
    for line in lines[:-1]:
        annotations = _ANNOTATION.findall(line)
        if line.count("<<") != len(annotations):
            raise ValueError(f"malformed annotation: {line}")
        seen |= set(_NUMBER.findall(_ANNOTATION.sub("", line)))  # "11 full boxes hold ...": deduced
        for shown, _, expr, val, after in annotations:
            if (
                shown != expr
                or val != after.rstrip(".")
                or not _NUMBER.fullmatch(val)
                or Fraction(val) != evaluate(expr)
            ):
                raise ValueError(f"wrong annotation: {line}")
            want = Fraction(val)
            if want <= 0 or want >= 10000 or ("." not in val and want.denominator != 1):
                raise ValueError(f"value out of range: {line}")
            for operand in _NUMBER.findall(expr):
                if operand not in seen and operand.rstrip("0").rstrip(".") not in seen:
                    raise ValueError(f"operand {operand} comes from nowhere: {line}")
            seen.add(val)
            last = val
    final = str(problem["final"])
    if (
        lines[-1] != f"#### {final}"
        or last is None
        or not _NUMBER.fullmatch(final)
        or Fraction(last) != Fraction(final)
    ):
        raise ValueError(f"final {final} does not match: {problem['answer']}")
    if re.search(r"[\[\]{}]|  |\.\.", problem["question"] + lines[0]):
        raise ValueError(f"odd text: {problem['question']}")
    return True
