"""Templates: reading, machines, workers, tanks: so much per day or hour."""

from ..fillers import DAYS, TIMES
from ..registry import template


@template
def reading_days_left(c):
    p = c.person()
    k, d, more = c.i(8, 40), c.i(3, 9), c.i(2, 12)
    n = k * (d + more)
    c.say(
        (f"[S] is reading a book with {n} pages.", f"[P] new book has {n} pages."),
        (
            f"[S] reads {k} pages a day and has been reading for {d} days.",
            f"For {d} days, [S] has read {k} pages each day.",
        ),
    )
    c.ask(
        "How many more days does [S] need to finish the book?",
        "At this speed, how many days are left until [S] finishes the book?",
    )
    a = c.mul(k, d)
    b = c.sub(n, a)
    t = c.div(b, k)
    c.step(f"So far, [S] has read {a} pages.")
    c.step(f"There are {b} pages left.")
    c.step(f"[S] needs {t} more days.")
    return n // k - d


@template
def reading_morning_evening(c):
    p = c.person()
    a, b, d, n = c.i(4, 25), c.i(5, 30), c.i(3, 10), c.i(150, 600)
    c.say(
        (
            f"Every day, [S] reads {a} pages in the morning and {b} pages in the evening.",
            f"[S] reads {a} pages before breakfast and {b} pages before bed each day.",
        ),
        f"The book has {n} pages.",
    )
    c.ask(f"How many pages are left after {d} days?", f"How many pages will [S] still have to read after {d} days?")
    s = c.add(a, b)
    t = c.mul(s, d)
    u = c.sub(n, t)
    c.step(f"[S] reads {s} pages a day.")
    c.step(f"In {d} days, [S] reads {t} pages.")
    c.step(f"There are {u} pages left.")
    return n - (a + b) * d


@template
def reading_three_days(c):
    p = c.person()
    a, k, m, n = c.i(10, 50), c.i(2, 3), c.i(3, 20), c.i(100, 400)
    d = c.i(0, 4)
    c.say(
        f"[S] reads {a} pages of a book on {DAYS[d]}.",
        f"On {DAYS[d + 1]}, [S] reads {TIMES[k]} as many pages.",
        f"On {DAYS[d + 2]}, [S] reads {m} pages more than on {DAYS[d + 1]}.",
        f"The book has {n} pages.",
    )
    c.ask("How many pages are left?", "How many pages does [S] still have to read?")
    s = c.mul(a, k)
    t = c.add(s, m)
    u = c.add(a, s, t)
    v = c.sub(n, u)
    c.step(f"On {DAYS[d + 1]}, [S] reads {s} pages.")
    c.step(f"On {DAYS[d + 2]}, [S] reads {t} pages.")
    c.step(f"In three days, [S] reads {u} pages.")
    c.step(f"{v} pages are left.")
    return n - a - 2 * a * k - m


@template
def machine_shifts(c):
    x = c.noun("household", "toy", "tool", "sport")
    p = c.person()
    r, h, g, bad = c.i(5, 40), c.i(2, 6), c.i(2, 6), c.i(2, 20)
    c.say(
        (
            f"[S] runs a machine that makes {r} {x} an hour.",
            f"A machine in the factory where {p} works makes {r} {x} an hour.",
        ),
        f"It runs for {h} hours in the morning and {g} hours in the afternoon.",
        f"In the evening, {bad} of the {x} are found to be broken.",
    )
    c.ask(f"How many good {x} are there?", f"How many {x} are not broken?")
    s = c.add(h, g)
    t = c.mul(s, r)
    u = c.sub(t, bad)
    c.step(f"The machine runs for {s} hours.")
    c.step(f"It makes {t} {x}.")
    c.step(f"{u} of them are good.", f"So {u} {x} are good.")
    return (h + g) * r - bad


@template
def two_machines(c):
    x = c.noun("household", "toy", "tool", "bakery")
    a, b, h = c.i(5, 40), c.i(5, 40), c.i(2, 12)
    c.say(
        (
            f"One machine makes {a} {x} an hour and another machine makes {b} {x} an hour.",
            f"In a factory, an old machine makes {a} {x} per hour and a new machine makes {b} {x} per hour.",
        ),
        "Both machines work at the same time.",
    )
    s = c.add(a, b)
    c.step(f"Together the machines make {s} {x} an hour.", f"In one hour, both machines make {s} {x}.")
    if c.i(0, 1):
        c.ask(f"How many {x} do they make in {h} hours?", f"How many {x} are made in {h} hours?")
        t = c.mul(s, h)
        c.step(f"In {h} hours they make {t} {x}.")
        return (a + b) * h
    n = (a + b) * h
    c.ask(f"How many hours do they need to make {n} {x}?")
    c.step(f"They need {c.div(n, s)} hours.")
    return h


@template
def two_workers(c):
    a, b = c.persons(2)
    x = c.noun("craft")
    n, m, h = c.i(2, 12), c.i(2, 12), c.i(3, 12)
    c.need(n > m)
    c.say_any(f"{a} can make {n} {x} a day.", f"{b} can make {m} {x} a day.")
    if c.i(0, 1):
        c.ask(f"How many more {x} does {a} make than {b} in {h} days?")
        d = c.sub(n, m, lo=1)
        c.need(d.v > 1)
        t = c.mul(d, h)
        c.step(f"Each day, {a} makes {d} more {x} than {b}.")
        c.step(f"In {h} days, {a} makes {t} more.")
        return (n - m) * h
    c.ask(f"How many {x} do they make together in {h} days?")
    d = c.add(n, m)
    t = c.mul(d, h)
    c.step(f"Together they make {d} {x} a day.")
    c.step(f"In {h} days they make {t} {x}.")
    return (n + m) * h


@template
def workers_days(c):
    k, d, j = c.i(2, 10), c.i(2, 12), c.i(2, 10)
    p = c.person()
    w = c.p(
        [
            ("workers", "build a wall"),
            ("painters", "paint a house"),
            ("gardeners", "clean up a park"),
            ("students", "decorate a hall"),
            ("builders", "repair a bridge"),
        ]
    )
    c.need(j != k)
    c.say(f"[S] knows that {k} {w[0]} need {d} days to {w[1]}.", "All of them work at the same speed.")
    c.ask(f"How many days would {j} {w[0]} need?", f"How many days does it take {j} {w[0]} to do the same job?")
    a = c.mul(k, d)
    t = c.div(a, j)
    c.step(f"The job takes {a} days of work for one person.")
    c.step(f"{j} {w[0]} need {t} days.")
    return k * d // j


@template
def typing(c):
    p = c.person()
    w, m, s = c.i(20, 80), c.i(5, 30), c.i(50, 900)
    n = w * m + s
    c.say(
        (f"[S] has to type a text of {n} words.", f"[P] essay has {n} words, and [S] has to type all of them."),
        f"[S] has already typed {s} words.",
        f"[S] types {w} words a minute.",
    )
    c.ask("How many more minutes does [S] need?", "In how many minutes will [S] be done?")
    a = c.sub(n, s)
    t = c.div(a, w)
    c.step(f"There are {a} words left.")
    c.step(f"[S] needs {t} more minutes.")
    return m


@template
def tank_fill_leak(c):
    p = c.person()
    f, l, h, s = c.i(6, 40), c.i(2, 20), c.i(2, 12), c.i(5, 90)
    c.need(f > l + 1)
    c.say(
        (
            f"[S] fills a tank that already holds {s} liters of water.",
            f"There are {s} liters of water in the tank that {p} is filling.",
        ),
        f"Every minute, {f} liters flow in and {l} liters leak out.",
    )
    c.ask(
        f"How many liters of water are in the tank after {h} minutes?",
        f"How much water, in liters, is there after {h} minutes?",
    )
    a = c.sub(f, l)
    b = c.mul(a, h)
    t = c.add(s, b)
    c.step(f"Each minute the tank gains {a} liters.")
    c.step(f"In {h} minutes it gains {b} liters.")
    c.step(f"Then there are {t} liters in the tank.")
    return s + (f - l) * h


@template
def pool_drain(c):
    p = c.person()
    r, h, u = c.i(10, 90), c.i(3, 20), c.i(20, 200)
    n = r * h + u
    c.say(f"[S] has a pool with {n} liters of water.", f"A pump takes out {r} liters a minute.")
    c.ask(
        f"After how many minutes are {u} liters left?", f"How many minutes does it take until only {u} liters are left?"
    )
    a = c.sub(n, u)
    t = c.div(a, r)
    c.step(f"The pump has to take out {a} liters.")
    c.step(f"This takes {t} minutes.")
    return h
