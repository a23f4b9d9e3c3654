"""Templates: buying: prices, discounts, change."""

from ..fillers import SMALL
from ..registry import template


@template
def buy_two_kinds(c):
    p = c.person()
    x, y = c.nouns(2)
    a, b, n, m = c.price(x), c.price(y), c.i(2, 9), c.i(2, 9)
    c.say(
        (f"[S] goes to the {c.shop} and buys {n} {x} and {m} {y}.", f"At the {c.shop}, [S] buys {n} {x} and {m} {y}."),
        (f"Each {x.s} costs ${a} and each {y.s} costs ${b}.", f"The {x} cost ${a} each, and the {y} cost ${b} each."),
    )
    c.ask("How much does [S] spend?", f"How many dollars does [S] pay {c.tot}?", "What is the total cost?")
    s, t = c.mul(n, a), c.mul(m, b)
    u = c.add(s, t)
    c.step(f"The {x} cost {s:$}.")
    c.step(f"The {y} cost {t:$}.")
    c.step(f"{c.tot.capitalize()}, [S] pays {u:$}.", f"The total is {u:$}.")
    return n * a + m * b


@template
def buy_two_kinds_change(c):
    p = c.person()
    x, y = c.nouns(2)
    a, b, n, m = c.price(x), c.price(y), c.i(2, 6), c.i(2, 6)
    bill = c.p([20, 50, 100, 100, 200])
    c.say(
        (
            f"[S] buys {n} {x} for ${a} each and {m} {y} for ${b} each.",
            f"At the {c.shop}, {p} takes {n} {x} that cost ${a} each and {m} {y} that cost ${b} each.",
        ),
        (f"[S] pays with a ${bill} bill.", f"[S] hands ${bill} to the cashier."),
    )
    c.ask("How much change does [S] get?", "How many dollars does [S] get back?", "What is [P] change?")
    s, t = c.mul(n, a), c.mul(m, b)
    u = c.add(s, t)
    v = c.sub(bill, u)
    c.step(f"The {x} cost {s:$}.")
    c.step(f"The {y} cost {t:$}.")
    c.step(f"Together they cost {u:$}.")
    c.step(f"[S] gets {v:$} back.", f"The change is {v:$}.")
    return bill - n * a - m * b


@template
def buy_three_singles(c):
    p = c.person()
    x, y, z = c.nouns(3, "clothing", "household", "tool", "sport", "toy")
    a, b, d = c.price(x), c.price(y), c.price(z)
    h = c.m(30, 200, 10)
    c.say(
        f"[S] has ${h}.",
        (
            f"[S] buys {x.a} for ${a}, {y.a} for ${b} and {z.a} for ${d}.",
            f"[S] spends ${a} on {x.a}, ${b} on {y.a} and ${d} on {z.a}.",
        ),
    )
    c.ask("How much money does [S] have left?", "How many dollars are left?", "How much money is left?")
    s = c.add(a, b, d)
    t = c.sub(h, s)
    c.step(f"[S] spends {s:$}.")
    c.step(f"[S] has {t:$} left.")
    return h - a - b - d


@template
def percent_discount(c):
    p, x = c.person(), c.noun("clothing", "sport", "gadget", "household", "tool")
    pr, d = c.m(10, 200, 10), c.p([10, 20, 25, 30, 40, 50])
    c.say(
        (f"[S] wants to buy {x.a} that normally costs ${pr}.", f"The regular price of {x.a} is ${pr}."),
        (
            f"Today there is a {d}% discount.",
            f"The {c.shop} takes {d}% off the price.",
            f"The price is {d}% lower in a sale.",
        ),
    )
    c.ask(f"How much does the {x.s} cost now?", f"How much does [S] pay for the {x.s}?")
    s = c.pct(pr, d)
    t = c.sub(pr, s)
    c.step(f"The discount is {s:$}.")
    c.step(f"The {x.s} costs {t:$}.", f"[S] pays {t:$}.")
    return pr - pr * d // 100


@template
def percent_discount_many(c):
    p, x = c.person(), c.noun("clothing", "sport", "read", "toy", "household")
    pr, d, n = c.price(x), c.p([10, 20, 25, 50]), c.i(2, 10)
    c.say(
        f"[S] buys {n} {x} at ${pr} each.",
        (f"[S] gets {d}% off the total.", f"Because of a sale, [S] gets a discount of {d}% on everything."),
    )
    c.ask("How much does [S] pay?", f"What does [S] pay {c.tot}?")
    a = c.mul(n, pr)
    s = c.pct(a, d)
    t = c.sub(a, s)
    c.step(f"Without the discount, the {x} cost {a:$}.")
    c.step(f"The discount is {s:$}.")
    c.step(f"[S] pays {t:$}.")
    return n * pr * (100 - d) // 100


@template
def amount_off_each(c):
    p, x = c.person(), c.noun("clothing", "sport", "read", "toy", "household", "tool")
    pr, n = c.price(x), c.i(2, 12)
    d = c.i(2, max(2, pr // 2))
    c.say(
        f"[S] needs {n} {x}, which normally cost ${pr} each.",
        (f"A sale takes ${d} off the price of each {x.s}.", f"Today each {x.s} is ${d} cheaper."),
    )
    c.ask(f"How much do the {n} {x} cost today?", f"How much will [S] pay for the {x}?")
    s = c.sub(pr, d)
    t = c.mul(n, s)
    c.step(f"Each {x.s} now costs {s:$}.")
    c.step(f"The {x} cost {t:$}.", f"[S] pays {t:$}.")
    return n * (pr - d)


@template
def coupon_total(c):
    p = c.person()
    x, y = c.nouns(2, "clothing", "household", "tool", "sport", "toy", "read")
    a, b, n, d = c.price(x), c.price(y), c.i(2, 6), c.i(3, 15)
    c.say(
        (
            f"[S] buys {n} {x} at ${a} each and one {y.s} for ${b}.",
            f"[S] picks one {y.s} for ${b} and {n} {x} for ${a} each.",
        ),
        (f"[S] has a coupon for ${d} off the total.", f"A coupon saves [O] ${d}."),
    )
    c.ask("How much does [S] pay in the end?", "How many dollars does [S] have to pay?")
    s = c.mul(n, a)
    t = c.add(s, b)
    u = c.sub(t, d)
    c.step(f"The {x} cost {s:$}.")
    c.step(f"With the {y.s}, the total is {t:$}.")
    c.step(f"After the coupon, [S] pays {u:$}.")
    return n * a + b - d


@template
def pack_saving(c):
    p, x = c.person(), c.noun(*SMALL)
    k, a, n = c.i(3, 10), c.i(2, 6), c.i(2, 6)
    pk = c.i(k * a // 2 + 1, k * a - 1)
    c.say_any(f"A single {x.s} costs ${a}.", f"A pack of {k} {x} costs ${pk}.")
    c.say(f"[S] buys {n} packs instead of single {x}.")
    c.ask("How much money does [S] save?", "How many dollars does [S] save?")
    s = c.mul(k, a)
    t = c.sub(s, pk)
    u = c.mul(t, n)
    c.step(f"{k} single {x} cost {s:$}.")
    c.step(f"One pack saves {t:$}.")
    c.step(f"{n} packs save {u:$}.")
    return (k * a - pk) * n


@template
def buy_some_get_one_free(c):
    p, x = c.person(), c.noun("clothing", "read", "toy", "bakery", "flower")
    k, g, a = c.i(2, 5), c.i(2, 6), c.price(x)
    n = (k + 1) * g
    c.say(
        (
            f"A {c.shop} has an offer: for every {k} {x} that you buy, you get one more for free.",
            f"For every {k} {x} that a customer pays for, a {c.shop} gives one more for free.",
        ),
        f"One {x.s} costs ${a}.",
        f"[S] takes home {n} {x}.",
    )
    c.ask("How much does [S] pay?", "How many dollars does [S] spend?")
    s = c.add(k, 1)
    t = c.div(n, s)
    u = c.sub(n, t)
    v = c.mul(u, a)
    c.step(f"The {x} come in groups of {s}.")
    c.step(f"There are {t} groups, so {t.v} {x} are free.")
    c.step(f"[S] pays for {u} {x}.")
    c.step(f"[S] pays {v:$}.")
    return k * g * a


@template
def dozen_price(c):
    p, x = c.person(), c.noun("bakery", "flower", "fruit")
    d, a, e = c.i(2, 9), c.i(3, 15), c.i(5, 60)
    c.say(
        (f"[S] orders {d} dozen {x} for a party.", f"For a wedding, [S] orders {d} dozen {x}."),
        f"They cost ${a} per dozen.",
        f"The guests take {e} {x}.",
    )
    t = c.mul(d, 12)
    if c.i(0, 1):
        c.ask(f"How many {x} are left?")
        u = c.sub(t, e)
        c.step(f"[S] orders {t} {x}.")
        c.step(f"{u} {x} are left.")
        return 12 * d - e
    f = c.i(4, 20)
    c.facts[-1] = f"Delivery costs another ${f}."
    c.ask("How much does [S] pay?")
    s = c.mul(d, a)
    u = c.add(s, f)
    c.step(f"The {x} cost {s:$}.")
    c.step(f"With delivery, [S] pays {u:$}.")
    return d * a + f
