"""Skills: sums, products, percentages, comparisons."""

from ..registry import skill


@skill
def add_numbers(c):
    a, b = c.i(2, 999 if c.i(0, 1) else 99), c.i(2, 99)
    return c.p(
        [
            f"What is {a} + {b}?",
            f"{a} + {b} = ?",
            f"Add {a} and {b}.",
            f"What is {a} plus {b}?",
            f"Calculate {a} + {b}.",
            f"What is the sum of {a} and {b}?",
        ]
    ), c.p([f"{a} + {b} = {a + b}"])


@skill
def subtract_numbers(c):
    b = c.i(2, 99)
    a = b + c.i(1, 500 if c.i(0, 1) else 90)
    return (
        c.p(
            [
                f"What is {a} - {b}?",
                f"{a} - {b} = ?",
                f"Subtract {b} from {a}.",
                f"What is {a} minus {b}?",
                f"Take {b} away from {a}.",
            ]
        ),
        f"{a} - {b} = {a - b}",
    )


@skill
def multiply_numbers(c):
    a, b = c.i(2, 40), c.i(2, 12)
    return (
        c.p(
            [
                f"What is {a} * {b}?",
                f"What is {a} times {b}?",
                f"Multiply {a} by {b}.",
                f"{a} x {b} = ?",
                f"What is the product of {a} and {b}?",
            ]
        ),
        f"{a} * {b} = {a * b}",
    )


@skill
def divide_numbers(c):
    b, q = c.i(2, 12), c.i(2, 50)
    r = c.i(0, b - 1) if c.i(0, 2) == 0 else 0
    n = b * q + r
    if r:
        return (
            c.p([f"Divide {n} by {b} with remainder.", f"What is {n} divided by {b}, with the remainder?"]),
            f"{n} / {b} = {q} remainder {r}",
        )
    return (
        c.p([f"What is {n} / {b}?", f"What is {n} divided by {b}?", f"Divide {n} by {b}.", f"{n} / {b} = ?"]),
        f"{n} / {b} = {q}",
    )


@skill
def percent_of(c):
    k, n = c.p([5, 10, 20, 25, 50, 75]), c.m(20, 800, 20)
    return (
        c.p([f"What is {k}% of {n}?", f"How much is {k} percent of {n}?", f"Calculate {k}% of {n}."]),
        f"{k}% of {n} is {k * n // 100}.",
    )


@skill
def compare_numbers(c):
    a, b = c.sample(range(1, 2000), 2)
    big = c.i(0, 1)
    w = "larger" if big else "smaller"
    return (
        c.p([f"Which number is {w}, {a} or {b}?", f"Is {a} or {b} the {w} number?"]),
        f"{max(a, b) if big else min(a, b)} is {w}.",
    )


@skill
def even_or_odd(c):
    n = c.i(1, 999)
    return c.p([f"Is {n} even or odd?", f"Is the number {n} odd or even?"]), f"{n} is {'odd' if n % 2 else 'even'}."
