"""Templates: cooking and eating."""

from ..registry import template


@template
def recipe_scale(c):
    p = c.person()
    k, q, m = c.p([2, 3, 4, 5, 6]), c.i(2, 9), c.i(2, 6)
    h = c.i(2, 30)
    unit, ing = c.p(
        [
            ("cups", "flour"),
            ("cups", "rice"),
            ("spoons", "sugar"),
            ("spoons", "butter"),
            ("cups", "milk"),
            ("grams", "yeast"),
            ("cups", "oats"),
            ("spoons", "honey"),
        ]
    )
    dish = c.p(["soup", "pancake batter", "bread", "pudding", "stew", "cake", "salad", "porridge"])
    c.say(
        (
            f"A recipe for {dish} for {k} people needs {q} {unit} of {ing}.",
            f"For {k} people, a {dish} recipe needs {q} {unit} of {ing}.",
        ),
        f"[S] cooks for {k * m} people and has {h} {unit} of {ing}.",
    )
    c.ask(f"How many more {unit} of {ing} does [S] need?", f"How many {unit} of {ing} are missing?")
    a = c.div(k * m, k)
    b = c.mul(a, q)
    t = c.sub(b, h)
    c.step(f"[S] has to make the recipe {a} times.")
    c.step(f"This needs {b} {unit} of {ing}.")
    c.step(f"[S] needs {t} more {unit}.")
    return m * q - h


@template
def batches(c):
    p, x = c.person(), c.noun("bakery")
    n, k, e, g = c.i(2, 9), c.m(6, 24, 2), c.i(2, 20), c.i(2, 10)
    c.need(x.s not in ("sandwich", "burrito"))
    c.say(
        (f"[S] bakes {n} batches of {x} with {k} in each batch.", f"[S] makes {n} batches of {k} {x} each."),
        f"[S] eats {e} of them with [P] family." if e < 12 else f"[S] takes {e} of them to school.",
        f"The others are shared equally among {g} neighbors.",
    )
    c.ask(f"How many {x} does each neighbor get?", f"How many {x} are there for each neighbor?")
    a = c.mul(n, k)
    b = c.sub(a, e)
    t = c.div(b, g)
    c.step(f"[S] makes {a} {x}.")
    c.step(f"There are {b} {x} left.")
    c.step(f"Each neighbor gets {t} {x}.")
    return (n * k - e) // g


@template
def pizza_slices(c):
    p = c.person()
    n, k, f, e = c.i(2, 8), c.p([6, 8, 10, 12]), c.i(3, 12), c.i(2, 4)
    d = c.p(["pizzas", "pies", "cakes", "flatbreads"])
    c.say(
        (
            f"[S] orders {n} {d}, and each is cut into {k} slices.",
            f"There are {n} {d} at [P] party, each with {k} slices.",
        ),
        f"{f} people eat {e} slices each.",
    )
    c.ask("How many slices are left?", "How many slices remain?")
    a, b = c.mul(n, k), c.mul(f, e)
    t = c.sub(a, b)
    c.step(f"There are {a} slices.")
    c.step(f"The people eat {b} slices.")
    c.step(f"{t} slices are left.")
    return n * k - f * e


@template
def pizzas_needed(c):
    p = c.person()
    k, n, e = c.p([4, 6, 8, 10, 12]), c.i(4, 30), c.i(2, 5)
    pr = c.i(6, 20)
    c.say(
        (
            f"[S] invites {n} people, and each of them will eat {e} slices of pizza.",
            f"At a party that {p} plans, {n} people will eat {e} slices of pizza each.",
        ),
        f"A pizza has {k} slices and costs ${pr}.",
    )
    c.ask("How much do the pizzas cost?", "How many dollars does [S] need for the pizzas?")
    a = c.mul(n, e)
    b = c.div(a, k)
    t = c.mul(b, pr)
    c.step(f"They eat {a} slices.")
    c.step(f"[S] needs {b} pizzas.")
    c.step(f"They cost {t:$}.")
    return n * e // k * pr


@template
def eggs_for_cakes(c):
    p = c.person()
    n, a, m, b, h = c.i(2, 9), c.i(2, 6), c.i(2, 9), c.i(2, 5), c.i(5, 60)
    d, e = c.sample(["cake", "omelet", "quiche", "pudding", "loaf"], 2)
    pl = lambda w: "loaves" if w == "loaf" else w + "s"
    art = lambda w: "an omelet" if w == "omelet" else "a " + w
    c.say(
        (
            f"One {d} takes {a} eggs and one {e} takes {b} eggs.",
            f"[S] needs {a} eggs for {art(d)} and {b} eggs for {art(e)}.",
        ),
        f"[S] makes {n} {pl(d)} and {m} {pl(e)} and has {h} eggs at first.",
    )
    c.ask("How many eggs are left?", "How many eggs does [S] have left?")
    s, t = c.mul(n, a), c.mul(m, b)
    u = c.add(s, t)
    v = c.sub(h, u)
    c.step(f"The {pl(d)} take {s} eggs.")
    c.step(f"The {pl(e)} take {t} eggs.")
    c.step(f"[S] uses {u} eggs.")
    c.step(f"{v} eggs are left.")
    return h - n * a - m * b


@template
def juice_cups(c):
    p = c.person()
    n, ml, l = c.i(2, 6), c.p([100, 125, 200, 250]), c.i(1, 2)
    g = c.i(2, 30)
    d = c.p(["juice", "lemonade", "tea", "milk", "water", "punch"])
    c.say(
        (
            f"[S] has {n} bottles with {l} liter{'s' if l > 1 else ''} of {d} in each.",
            f"There are {n} bottles of {d} in [P] kitchen, and each holds {l} liter{'s' if l > 1 else ''}.",
        ),
        f"[S] fills cups with {ml} milliliters each.",
        f"{g} cups are taken by guests.",
    )
    c.ask("How many full cups are left?", f"How many cups of {d} are left when everything has been poured?")
    a = c.mul(n, l) if l > 1 else None
    b = c.mul(a or n, 1000)
    t = c.div(b, ml)
    u = c.sub(t, g)
    if a:
        c.step(f"There are {a} liters of {d}.")
    c.step(f"That is {b} milliliters.")
    c.step(f"This fills {t} cups.")
    c.step(f"{u} cups are left.")
    return n * l * 1000 // ml - g


@template
def sandwiches(c):
    p = c.person()
    k, l, s, x = c.i(2, 5), c.i(12, 24), c.i(2, 3), c.i(2, 6)
    c.say(
        (
            f"[S] has {k} loaves of bread with {l} slices each.",
            f"[S] buys {k} loaves of bread, and each has {l} slices.",
        ),
        f"A sandwich takes {s} slices." if s == 2 else f"A big sandwich takes {s} slices.",
        f"[S] makes as many sandwiches as possible and shares them equally among {x} friends.",
    )
    c.ask("How many sandwiches does each friend get?", "How many sandwiches are there for each friend?")
    a = c.mul(k, l)
    b = c.div(a, s)
    t = c.div(b, x)
    c.step(f"There are {a} slices.")
    c.step(f"[S] makes {b} sandwiches.")
    c.step(f"Each friend gets {t} sandwiches.")
    return k * l // s // x


@template
def kg_to_grams(c):
    p = c.person()
    kg, g, n = c.i(2, 9), c.p([50, 100, 125, 200, 250, 500]), c.i(2, 12)
    w = c.p(["flour", "rice", "sugar", "nuts", "coffee", "tea", "pasta", "beans", "salt"])
    c.say(
        (
            f"[S] has {kg} kilograms of {w} and fills it into bags of {g} grams."
            if w not in ("nuts", "beans")
            else f"[S] has {kg} kilograms of {w} and fills them into bags of {g} grams."
        ),
        f"[S] sells {n} of the bags.",
    )
    c.ask("How many bags are left?", "How many bags does [S] still have?")
    a = c.mul(kg, 1000)
    b = c.div(a, g)
    t = c.sub(b, n)
    c.step(f"{kg} kilograms are {a} grams.")
    c.step(f"This fills {b} bags.")
    c.step(f"{t} bags are left.")
    return kg * 1000 // g - n
