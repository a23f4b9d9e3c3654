"""Skills: units, days, months, clock times."""

from ..fillers import DAYS, MONTHS
from ..registry import skill
from .helpers import capitalised

UNITS = [
    ("minutes", "an hour", 60),
    ("seconds", "a minute", 60),
    ("hours", "a day", 24),
    ("days", "a week", 7),
    ("months", "a year", 12),
    ("inches", "a foot", 12),
    ("feet", "a yard", 3),
    ("centimeters", "a meter", 100),
    ("meters", "a kilometer", 1000),
    ("grams", "a kilogram", 1000),
    ("millimeters", "a centimeter", 10),
    ("milliliters", "a liter", 1000),
    ("cents", "a dollar", 100),
    ("cups", "a pint", 2),
    ("quarts", "a gallon", 4),
    ("ounces", "a pound", 16),
    ("years", "a century", 100),
    ("years", "a decade", 10),
    ("days", "a leap year", 366),
]


@skill
def unit_fact(c):
    a, b, k = c.p(UNITS)
    return (
        c.p([f"How many {a} are in {b}?", f"How many {a} does {b} have?", f"{capitalised(b)} has how many {a}?"]),
        f"There are {k} {a} in {b}.",
    )


@skill
def unit_convert(c):
    a, b, k = c.p(UNITS[:16])
    n = c.i(2, 12)
    b = {"a foot": "feet", "a century": "centuries"}.get(b, b.split(" ", 1)[1] + "s")
    return (
        c.p([f"How many {a} are {n} {b}?", f"Convert {n} {b} to {a}.", f"What are {n} {b} in {a}?"]),
        f"{n} {b} = {n}*{k} = {n * k} {a}",
    )


@skill
def day_math(c):
    d, k = c.i(0, 6), c.i(1, 14)
    back = c.i(0, 2) == 0
    r = DAYS[(d - k if back else d + k) % 7]
    days = f"{k} day" + "s" * (k > 1)
    if k == 1:
        return (
            c.p(
                [
                    f"What day comes {'before' if back else 'after'} {DAYS[d]}?",
                    f"Which day is {'before' if back else 'after'} {DAYS[d]}?",
                ]
            ),
            f"{r} comes {'before' if back else 'after'} {DAYS[d]}.",
        )
    return (
        c.p(
            [
                f"Today is {DAYS[d]}. What day {'was it ' + days + ' ago' if back else 'is it in ' + days}?",
                f"What day is {days} {'before' if back else 'after'} {DAYS[d]}?",
                f"If today is {DAYS[d]}, what day {'was it ' + days + ' ago' if back else 'will it be in ' + days}?",
            ]
        ),
        f"{days} {'before' if back else 'after'} {DAYS[d]} is {r}.",
    )


@skill
def month_math(c):
    m, k = c.i(0, 11), c.i(1, 6)
    if c.i(0, 1):
        return (
            c.p([f"What number is the month {MONTHS[m]}?", f"Which month of the year is {MONTHS[m]}, as a number?"]),
            f"{MONTHS[m]} is month {m + 1}.",
        )
    return (
        c.p(
            [
                f"Which month is {k} month{'s' * (k > 1)} after {MONTHS[m]}?",
                f"It is {MONTHS[m]}. What month is it in {k} month{'s' * (k > 1)}?",
            ]
        ),
        f"{k} month{'s' * (k > 1)} after {MONTHS[m]} is {MONTHS[(m + k) % 12]}.",
    )


@skill
def clock_math(c):
    h, m, k = c.i(1, 11), c.m(0, 55, 5), c.m(5, 55, 5)
    t = h * 60 + m + k
    return (
        c.p([f"It is {h}:{m:02d}. What time is it in {k} minutes?", f"What time is {k} minutes after {h}:{m:02d}?"]),
        f"{k} minutes after {h}:{m:02d} it is {t // 60}:{t % 60:02d}.",
    )
