"""Templates: problems whose answers take five steps."""

from ..fillers import NTH
from ..registry import template


@template
def bakery_week_profit(c):
    p, x = c.person(), c.noun("bakery", "craft", "flower")
    n, k, a, cost, d = c.i(8, 40), c.i(2, 7), c.i(3, 9), c.i(1, 4), c.i(3, 7)
    c.need(k < n and cost < a)
    c.say(
        (f"[S] has a stall with {n} {x} every morning.", f"Every morning, [S] puts {n} {x} on a stall."),
        f"Each day, {k} of them are not sold.",
        f"One {x.s} sells for ${a}, and each of the {n} {x} costs [O] ${cost}.",
    )
    c.ask(f"How much profit does [S] make in {d} days?", f"What is [P] profit after {d} days?")
    s = c.sub(n, k)
    t = c.mul(s, a)
    u = c.mul(n, cost)
    v = c.sub(t, u)
    w = c.mul(v, d)
    c.step(f"Each day, [S] sells {s} {x}.")
    c.step(f"[S] takes in {t:$} a day.")
    c.step(f"The {x} cost [O] {u:$} a day.")
    c.step(f"The profit is {v:$} a day.")
    c.step(f"In {d} days, the profit is {w:$}.")
    return ((n - k) * a - n * cost) * d


@template
def party_budget(c):
    p = c.person()
    x, y = c.nouns(2, "bakery", "fruit", "sweet")
    g, a, b, pa, pb, h = c.i(3, 12), c.i(2, 4), c.i(2, 5), c.i(2, 4), c.i(2, 4), c.m(50, 400, 10)
    c.say(
        (f"[S] has ${h} for a party with {g} guests.", f"For a party with {g} guests, [S] has ${h}."),
        f"Each guest gets {a} {x} and {b} {y}.",
        f"One {x.s} costs ${pa} and one {y.s} costs ${pb}.",
    )
    c.ask("How much money is left?", "How many dollars does [S] have left?")
    s = c.mul(a, pa)
    t = c.mul(b, pb)
    u = c.add(s, t)
    v = c.mul(u, g)
    w = c.sub(h, v)
    c.step(f"For one guest, the {x} cost {s:$}.")
    c.step(f"For one guest, the {y} cost {t:$}.")
    c.step(f"Each guest costs {u:$}.")
    c.step(f"All of the guests cost {v:$}.")
    c.step(f"[S] has {w:$} left.")
    return h - g * (a * pa + b * pb)


@template
def two_collectors_equal(c):
    a, b = c.persons(2)
    x, n, m, d, k = c.noun("collectible", "sweet"), c.i(3, 20), c.i(3, 20), c.i(2, 7), c.i(2, 9)
    l = c.i(2, 30)
    c.say(
        f"{a} finds {n} {x} a day and {b} finds {m} {x} a day.",
        f"They do this for {d} days.",
        (
            f"Then they lose {l} of the {x} and share the rest equally in a group of {k}.",
            f"Then {l} of the {x} get lost, and they share the others equally in a group of {k}.",
        ),
    )
    c.ask(f"How many {x} does each one in the group get?", f"How many {x} does everyone in the group get?")
    s, t = c.mul(n, d), c.mul(m, d)
    u = c.add(s, t)
    v = c.sub(u, l)
    w = c.div(v, k)
    c.step(f"{a} finds {s} {x}.")
    c.step(f"{b} finds {t} {x}.")
    c.step(f"Together they find {u} {x}.")
    c.step(f"After the loss, they have {v} {x}.")
    c.step(f"Each one gets {w} {x}.")
    return ((n + m) * d - l) // k


@template
def job_two_rates_saving(c):
    p = c.person()
    r, h, q, g, s_ = c.i(8, 20), c.i(3, 15), c.i(8, 20), c.i(2, 12), c.p([2, 4, 5])
    u, v = c.sample(["in a cafe", "in a garden", "at a library", "in a shop", "at a farm", "at a pool"], 2)
    c.say(
        (
            f"[S] works {h} hours {u} for ${r} an hour and {g} hours {v} for ${q} an hour.",
            f"For {h} hours, [S] works {u} for ${r} an hour, and for {g} hours {v} for ${q} an hour.",
        ),
        f"[S] gives {NTH[s_]} of the money to [P] family.",
    )
    c.ask("How much money does [S] keep?", "How many dollars are left for [O]?")
    a, b = c.mul(h, r), c.mul(g, q)
    t = c.add(a, b)
    f = c.div(t, s_)
    w = c.sub(t, f)
    c.step(f"The first job pays {a:$}.")
    c.step(f"The second job pays {b:$}.")
    c.step(f"{c.tot.capitalize()}, [S] earns {t:$}.")
    c.step(f"[S] gives away {f:$}.")
    c.step(f"[S] keeps {w:$}.")
    return (h * r + g * q) - (h * r + g * q) // s_
