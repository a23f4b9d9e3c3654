"""Skills: membership, categories, number patterns."""

from ..fillers import NOUNS
from ..registry import skill
from .helpers import capitalised, draw_nouns


@skill
def yes_no_membership(c):
    xs = [x.s for x in draw_nouns(c, c.i(4, 7))]
    w = xs.pop()
    if c.i(0, 1):
        w = c.p(xs)
    return c.p([f"Is {w} in this list: {', '.join(xs)}?", f"Does the list {', '.join(xs)} contain {w}?"]), (
        f"Yes, {w} is in the list." if w in xs else f"No, {w} is not in the list."
    )


@skill
def category(c):
    names = {
        "fruit": "a fruit",
        "clothing": "a piece of clothing",
        "flower": "a flower",
        "toy": "a toy",
        "tool": "a tool",
        "pet": "an animal",
        "bird": "a bird",
        "farm": "an animal",
    }
    k = c.p(list(names))
    x = c.p(NOUNS[k])
    return c.p([f"What kind of thing is {x.a}?", f"What is {x.a}?"]), f"{capitalised(x.a)} is {names[k]}."


@skill
def next_in_sequence(c):
    a, d = c.i(1, 40), c.i(1, 12)
    s = ", ".join(str(a + d * j) for j in range(4))
    return (
        c.p([f"What comes next: {s}?", f"What is the next number: {s}, ...?", f"Continue the pattern {s}."]),
        f"The next number is {a + 4 * d}.",
    )


@skill
def count_from_to(c):
    a, k, st = c.i(1, 30), c.i(4, 9), c.p([1, 1, 2, 5, 10])
    xs = [a + st * j for j in range(k)]
    s = f" by {st}s" if st > 1 else ""
    return c.p([f"Count from {a} to {xs[-1]}{s}.", f"List the numbers from {a} to {xs[-1]}{s}."]), ", ".join(
        map(str, xs)
    )
