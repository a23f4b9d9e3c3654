"""Skills: spelling, plurals, number words, one-line Python functions, copying."""

from ..fillers import CITIES, COLORS, DAYS, FEMALE, MALE, PEOPLE, WORDS
from ..registry import skill
from .helpers import draw_nouns, vary_tone


@skill
def spell_word(c):
    w = c.p([x.s for x in draw_nouns(c, 1)] + [c.p(FEMALE + MALE), c.p(CITIES)])
    w = w.replace(" ", "").replace("-", "")
    return c.p([f"How do you spell {w}?", f"Spell the word {w}.", f"Spell {w} letter by letter."]), "-".join(w)


@skill
def count_letters(c):
    w = draw_nouns(c, 1)[0].s
    if " " in w or "-" in w:
        w = "apple"
    if c.i(0, 1):
        return (
            c.p([f"How many letters are in the word {w}?", f"How many letters does {w} have?"]),
            f"{'-'.join(w)}: {w} has {len(w)} letters.",
        )
    return (
        c.p([f"What is the first letter of {w}?", f"Which letter does {w} start with?"]),
        f"The first letter of {w} is {w[0]}.",
    )


@skill
def plural(c):
    x = draw_nouns(c, 1)[0]
    return (
        c.p([f"What is the plural of {x.s}?", f"One {x.s}, two ...?", f"Write the plural of {x.s}."]),
        f"The plural of {x.s} is {x.pl}.",
    )


@skill
def upper_lower(c):
    w = c.p([draw_nouns(c, 1)[0].s, c.p(CITIES).lower()])
    if c.i(0, 1):
        return c.p([f"Write {w} in capital letters.", f"Change {w} to upper case."]), w.upper()
    return c.p([f"Write {w.upper()} in small letters.", f"Change {w.upper()} to lower case."]), w


@skill
def number_words(c):
    tens = "x x twenty thirty forty fifty sixty seventy eighty ninety".split()
    n = c.i(1, 99)
    teens = WORDS + "thirteen fourteen fifteen sixteen seventeen eighteen nineteen".split()
    w = teens[n] if n < 20 else tens[n // 10] + ("-" + WORDS[n % 10] if n % 10 else "")
    return (
        (c.p([f"Write {n} in words.", f"How do you write {n} as a word?"]), w)
        if c.i(0, 1)
        else (c.p([f"Write {w} as a number.", f"Which number is {w}?"]), str(n))
    )


FUNCS = [
    ("adds two numbers", "add(a, b)", "a + b"),
    ("multiplies two numbers", "multiply(a, b)", "a * b"),
    ("subtracts b from a", "subtract(a, b)", "a - b"),
    ("returns the square of a number", "square(n)", "n * n"),
    ("doubles a number", "double(n)", "n * 2"),
    ("returns half of a number", "half(n)", "n / 2"),
    ("checks if a number is even", "is_even(n)", "n % 2 == 0"),
    ("checks if a number is odd", "is_odd(n)", "n % 2 == 1"),
    ("returns the larger of two numbers", "larger(a, b)", "max(a, b)"),
    ("returns the smaller of two numbers", "smaller(a, b)", "min(a, b)"),
    ("returns the sum of a list", "total(xs)", "sum(xs)"),
    ("returns the length of a string", "length(s)", "len(s)"),
    ("reverses a string", "reverse(s)", "s[::-1]"),
    ("reverses a list", "reverse(xs)", "xs[::-1]"),
    ("sorts a list", "sort_list(xs)", "sorted(xs)"),
    ("returns the average of a list", "average(xs)", "sum(xs) / len(xs)"),
    ("returns the first item of a list", "first(xs)", "xs[0]"),
    ("returns the last item of a list", "last(xs)", "xs[-1]"),
    ("makes a string upper case", "upper(s)", "s.upper()"),
    ("counts the words in a string", "count_words(s)", "len(s.split())"),
    ("returns the area of a rectangle", "area(a, b)", "a * b"),
    ("returns the perimeter of a rectangle", "perimeter(a, b)", "2 * (a + b)"),
    ("greets a person by name", "greet(name)", '"Hello, " + name'),
    ("checks if a list is empty", "is_empty(xs)", "len(xs) == 0"),
    ("squares each number in a list", "squares(xs)", "[x * x for x in xs]"),
    ("keeps the even numbers of a list", "evens(xs)", "[x for x in xs if x % 2 == 0]"),
    ("converts hours to minutes", "to_minutes(h)", "h * 60"),
    ("converts meters to centimeters", "to_cm(m)", "m * 100"),
]


@skill
def python_function(c):
    d, sig, body = c.p(FUNCS)
    if c.i(0, 2) == 0:
        k = c.i(2, 99)
        d, sig, body = c.p(
            [
                (f"adds {k} to a number", f"add_{k}(n)", f"n + {k}"),
                (f"multiplies a number by {k}", f"times_{k}(n)", f"n * {k}"),
                (f"checks if a number is bigger than {k}", f"bigger_than_{k}(n)", f"n > {k}"),
                (f"subtracts {k} from a number", f"minus_{k}(n)", f"n - {k}"),
            ]
        )
    return (
        c.p(
            [
                vary_tone(c, f"Write a Python function that {d}"),
                f"Write a short Python function that {d}.",
                f"Python function that {d}",
                f"I need a Python function that {d}.",
            ]
        ),
        f"```python\ndef {sig}:\n    return {body}\n```",
    )


@skill
def copy_text(c):
    p, x, n = c.p(PEOPLE), draw_nouns(c, 1)[0], c.i(2, 40)
    s = c.p(
        [
            f"{p} has {n} {x}.",
            f"The {x.s} is in {c.p(CITIES)}.",
            f"{x.Pl} are {c.p(COLORS)}",
            f"{c.p(COLORS)} {x.s} {n}",
            f"{p} and {c.p(PEOPLE)} went to {c.p(CITIES)} on {c.p(DAYS)}.",
            f"code {c.i(1000, 9999)}-{c.i(100, 999)}",
        ]
    )
    return c.p([f"Repeat this: {s}", f"Copy this text exactly: {s}", f'Say "{s}"', f"Repeat after me: {s}"]), s


@skill
def repeat_word(c):
    w, n = draw_nouns(c, 1)[0].s, c.i(2, 6)
    return c.p([f"Say {w} {n} times.", f"Write the word {w} {n} times.", f"Repeat {w} {n} times."]), ", ".join([w] * n)
