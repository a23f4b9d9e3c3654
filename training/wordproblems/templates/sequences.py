"""Templates: averages and sequences."""

from ..fillers import TIMES
from ..registry import template


@template
def average_three(c):
    p = c.person()
    a, b, d = c.i(5, 100), c.i(5, 100), c.i(5, 100)
    act = c.p(
        [
            "scored {} points in the first game, {} in the second and {} in the third",
            "read {} pages on the first day, {} on the second and {} on the third",
            "got {} points on the first test, {} on the second and {} on the third",
            "walked {} minutes on the first day, {} on the second and {} on the third",
        ]
    )
    unit = "pages" if "pages" in act else "minutes" if "minutes" in act else "points"
    c.say(f"[S] {act.format(a, b, d)}.")
    c.ask(
        f"What is the average number of {unit}?",
        f"How many {unit} is that on average?",
        f"Find the average number of {unit}.",
    )
    s = c.add(a, b, d)
    t = c.div(s, 3)
    c.step(f"The sum is {s} {unit}.", f"{c.tot.capitalize()}, that is {s} {unit}.")
    c.step(f"The average is {t} {unit}.")
    return (a + b + d) // 3


@template
def needed_score(c):
    p = c.person()
    n, avg = c.i(3, 5), c.i(10, 90)
    got = [c.i(max(2, avg - 10), avg + 10) for _ in range(n - 1)]
    what = c.p(["test", "game", "quiz", "round"])
    pl = "quizzes" if what == "quiz" else what + "s"
    c.say(
        (
            f"[S] wants an average of {avg} points over {n} {pl}.",
            f"[P] goal is an average of {avg} points in {n} {pl}.",
        ),
        "[S] got " + ", ".join(map(str, got[:-1])) + f" and {got[-1]} points in the first {n - 1}.",
    )
    c.ask(f"How many points does [S] need in the last {what}?", f"What must [S] score in the last {what}?")
    a = c.mul(n, avg)
    b = c.add(*got)
    t = c.sub(a, b)
    c.step(f"[S] needs {a} points {c.tot}.")
    c.step(f"So far, [S] has {b} points.")
    c.step(f"[S] needs {t} points in the last {what}.")
    return n * avg - sum(got)


@template
def average_to_total(c):
    p, x = c.person(), c.noun("craft", "bakery", "collectible")
    d, avg, k = c.i(3, 7), c.i(4, 40), c.i(2, 30)
    c.say(
        (f"[S] sold {avg} {x} a day on average for {d} days.", f"For {d} days, [S] sold {avg} {x} a day on average."),
        f"On the first {d - 1} days, [S] sold {avg * d - k} {x} {c.tot}.",
    )
    c.ask(f"How many {x} did [S] sell on the last day?")
    a = c.mul(d, avg)
    t = c.sub(a, avg * d - k)
    c.step(f"Over the {d} days, [S] sold {a} {x}.")
    c.step(f"On the last day, [S] sold {t} {x}.")
    return k


@template
def increasing_days(c):
    p, x = c.person(), c.noun("craft", "collectible", "fruit")
    a, k, n = c.i(3, 30), c.i(2, 10), c.i(3, 4)
    v = "makes" if x.kind == "craft" else "picks" if x.kind == "fruit" else "collects"
    c.say(
        (f"[S] {v} {a} {x} on the first day.", f"On the first day, [S] {v} {a} {x}."),
        f"Each day after that, [S] {v} {k} more {x} than on the day before.",
    )
    c.ask(f"How many {x} is that {c.tot} after {n} days?", f"How many {x} does [S] have after {n} days?")
    vals = [a]
    for d in range(1, n):
        s = c.add(vals[-1], k)
        c.step(f"On day {d + 1}, [S] {v} {s} {x}.")
        vals.append(s.v)
    c.step(f"In {n} days, that is {c.add(*vals)} {x}.")
    return n * a + k * n * (n - 1) // 2


@template
def doubling_days(c):
    p = c.person()
    a, n, k = c.i(2, 20), c.i(3, 4), c.i(2, 3)
    what = c.p(
        [
            ("saves ${} on the first day", "saves", "$"),
            ("runs {} minutes on the first day", "runs", " minutes"),
            ("writes {} pages on the first day", "writes", " pages"),
            ("plants {} trees in the first week", "plants", " trees"),
        ]
    )
    day = "week" if "week" in what[0] else "day"
    c.say(
        f"[S] {what[0].format(a)}.",
        (
            f"Every {day} after that, [S] {what[1]} {TIMES[k]} as much as the {day} before."
            if what[2] == "$"
            else f"Every {day} after that, [S] {what[1]} {TIMES[k]} as many{what[2]} as the {day} before."
        ),
    )
    f = (lambda s: format(s, "$")) if what[2] == "$" else (lambda s: str(s) + what[2])
    v = a
    vals = [a]
    for d in range(1, n):
        s = c.mul(v, k)
        c.step(f"In {day} {d + 1}, it is {f(s)}." if day == "week" else f"On day {d + 1}, it is {f(s)}.")
        v = s.v
        vals.append(v)
    unit = "dollars" if what[2] == "$" else what[2].strip()
    if c.i(0, 1):
        c.ask(f"How many {unit} is it {'in' if day == 'week' else 'on'} {day} {n}?")
        return a * k ** (n - 1)
    c.ask(f"How many {unit} is that {c.tot} after {n} {day}s?")
    c.step(f"{c.tot.capitalize()}, it is {f(c.add(*vals))}.")
    return a * (k**n - 1) // (k - 1)


@template
def pattern_next(c):
    p = c.person()
    a, d, n = c.i(2, 50), c.i(2, 15), c.i(3, 5)
    seq = [a + d * j for j in range(n)]
    c.say(
        (
            f"[S] writes the numbers {', '.join(map(str, seq))} on a board.",
            f"[S] makes a number pattern: {', '.join(map(str, seq))}.",
        ),
        "Each number is bigger than the one before by the same amount.",
    )
    c.ask("What are the next two numbers added together?", "What is the sum of the next two numbers?")
    s = c.sub(seq[1], seq[0])
    t = c.add(seq[-1], s)
    u = c.add(t, s)
    v = c.add(t, u)
    c.step(f"Each number is {s} more than the one before.")
    c.step(f"The next number is {t}.")
    c.step(f"The one after that is {u}.")
    c.step(f"Their sum is {v}.")
    return 2 * seq[-1] + 3 * d


@template
def number_puzzle(c):
    p = c.person()
    n, k, m = c.i(3, 60), c.i(2, 6), c.i(2, 40)
    if c.i(0, 1):
        c.say(
            (
                f"[S] thinks of a number, multiplies it by {k} and adds {m}.",
                f"[S] takes a number, multiplies it by {k} and then adds {m}.",
            ),
            f"The result is {n * k + m}.",
        )
        c.ask("What is the number?", "What number did [S] start with?")
        s = c.sub(n * k + m, m)
        c.step(f"Before adding {m}, it was {s}.")
        c.step(f"The number is {c.div(s, k)}.")
        return n
    c.say(f"[S] thinks of the number {n}.", f"[S] multiplies it by {k}, adds {m} and takes half of the result.")
    c.ask("What number does [S] get?", "What is the result?")
    s = c.mul(n, k)
    t = c.add(s, m)
    c.step(f"After multiplying, it is {s}.")
    c.step(f"After adding, it is {t}.")
    c.step(f"Half of this is {c.div(t, 2)}.")
    return (n * k + m) // 2
