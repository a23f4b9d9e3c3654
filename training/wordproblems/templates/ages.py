"""Templates: ages."""

from ..fillers import TIMES
from ..registry import template


@template
def age_future_times(c):
    a, b = c.persons(2)
    n, k, f = c.i(3, 20), c.i(2, 5), c.i(2, 20)
    c.say_any(f"{a} is {TIMES[k]} as old as {b}.", f"{b} is {n} years old.")
    c.ask(f"How old will {a} be in {f} years?", f"What will {a.s} age be in {f} years?")
    s = c.mul(n, k)
    t = c.add(s, f)
    c.need(t.v < 95)
    c.step(f"{a} is {s} years old now.")
    c.step(f"In {f} years, {a} will be {t} years old.")
    return n * k + f


@template
def age_past(c):
    a, b = c.persons(2)
    n, d, f = c.i(12, 50), c.i(2, 30), c.i(2, 12)
    c.say_any(f"{a} is {d} years older than {b}.", f"{b} is {n} years old now.")
    c.ask(f"How old was {a} {f} years ago?", f"What was {a.s} age {f} years ago?")
    s = c.add(n, d)
    t = c.sub(s, f)
    c.step(f"{a} is {s} years old now.")
    c.step(f"{f} years ago, {a} was {t} years old.")
    return n + d - f


@template
def age_sum_future(c):
    a, b = c.persons(2)
    n, m, f = c.i(3, 60), c.i(3, 60), c.i(2, 15)
    c.say(f"{a} is {n} years old and {b} is {m} years old.")
    c.ask(f"What will be the sum of their ages in {f} years?", f"In {f} years, how old will they be together?")
    s, t = c.add(n, f), c.add(m, f)
    u = c.add(s, t)
    c.step(f"In {f} years, {a} will be {s}.")
    c.step(f"In {f} years, {b} will be {t}.")
    c.step(f"Together they will be {u} years old.")
    return n + m + 2 * f


@template
def age_three_siblings(c):
    a, b, d = c.persons(3)
    n, k, m = c.i(3, 15), c.i(2, 8), c.i(2, 8)
    c.say(f"{a} is {n} years old.", f"{b} is {k} years older than {a}.", f"{d} is {m} years older than {b}.")
    s = c.add(n, k)
    t = c.add(s, m)
    u = c.add(n, s, t)
    c.step(f"{b} is {s} years old.")
    c.step(f"{d} is {t} years old.")
    if c.i(0, 1):
        c.ask("What is the sum of their ages?", "How old are the three of them together?")
        c.step(f"Together they are {u} years old.")
        return 3 * n + 2 * k + m
    c.need(u.v % 3 == 0)
    c.ask("What is their average age?", "What is the average age of the three?")
    c.step(f"Together they are {u} years old.")
    c.step(f"The average age is {c.div(u, 3)} years.")
    return (3 * n + 2 * k + m) // 3


@template
def age_parent_at_birth(c):
    p = c.person()
    n, b, f = c.i(5, 18), c.i(20, 40), c.i(2, 15)
    r = c.p(["mother", "father", "aunt", "uncle"])
    c.say(f"[S] is {n} years old.", f"[P] {r} was {b} years old when [S] was born.")
    c.ask(f"How old will [P] {r} be in {f} years?", f"In {f} years, how old will [P] {r} be?")
    s = c.add(n, b)
    t = c.add(s, f)
    c.step(f"The {r} is {s} years old now.")
    c.step(f"In {f} years, the {r} will be {t} years old.")
    return n + b + f


@template
def age_when(c):
    a, b = c.persons(2)
    n, m, g = c.i(4, 20), c.i(6, 50), c.i(10, 60)
    c.need(m > n and g > m)
    c.say(f"{a} is {n} years old and {b} is {m} years old.")
    c.ask(f"How old will {a} be when {b} is {g}?", f"When {b} is {g}, how old will {a} be?")
    s = c.sub(g, m)
    t = c.add(n, s)
    c.step(f"{b} will be {g} in {s} years.")
    c.step(f"Then {a} will be {t} years old.")
    return n + g - m
