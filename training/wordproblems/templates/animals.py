"""Templates: animals and farms."""

from ..fillers import MONTHS, NTH
from ..registry import template


@template
def legs_total(c):
    p = c.person()
    x, y = c.noun("farm"), c.noun("bird")
    n, m = c.i(2, 40), c.i(2, 50)
    c.say(
        (f"[S] has {n} {x} and {m} {y} on [P] farm.", f"On a farm, {p} counts {n} {x} and {m} {y}."),
        f"{x.a[0].upper() + x.a[1:]} has 4 legs and {y.a} has 2 legs.",
    )
    c.ask(f"How many legs do the animals have {c.tot}?", f"How many legs are there {c.tot}?")
    a, b = c.mul(n, 4), c.mul(m, 2)
    t = c.add(a, b)
    c.step(f"The {x} have {a} legs.")
    c.step(f"The {y} have {b} legs.")
    c.step(f"There are {t} legs {c.tot}.")
    return 4 * n + 2 * m


@template
def legs_reverse(c):
    c.person()
    x, y = c.noun("farm"), c.noun("bird")
    n, m = c.i(2, 25), c.i(2, 25)
    c.say(
        (
            f"[S] counts {4 * n + 2 * m} legs in a barn with {x} and {y}.",
            f"In a barn with {x} and {y}, [S] sees {4 * n + 2 * m} legs.",
        ),
        f"There are {n} {x} with 4 legs each, and the {y} have 2 legs each.",
    )
    c.ask(f"How many {y} are in the barn?", f"How many {y} are there?")
    a = c.mul(n, 4)
    b = c.sub(4 * n + 2 * m, a)
    t = c.div(b, 2)
    c.step(f"The {x} have {a} legs.")
    c.step(f"The {y} have {b} legs.")
    c.step(f"So there are {t} {y}.")
    return m


@template
def eggs_week(c):
    p, y = c.person(), c.noun("bird")
    n, e, u, d = c.i(4, 30), c.i(1, 2), c.i(2, 9), c.i(2, 7)
    c.need(y.s not in ("turkey",))
    c.say(
        (
            f"[S] has {n} {y}, and each lays {e} {'eggs' if e > 1 else 'egg'} a day.",
            f"Each of [P] {n} {y} lays {e} {'eggs' if e > 1 else 'egg'} a day.",
        ),
        f"[S] uses {u} eggs each day and sells the rest for ${d} each.",
    )
    c.ask("How much money does [S] get for the eggs each day?", "How many dollars a day does [S] make?")
    a = c.mul(n, e)
    b = c.sub(a, u)
    t = c.mul(b, d)
    c.step(f"The {y} lay {a} eggs a day.")
    c.step(f"[S] sells {b} eggs.")
    c.step(f"[S] gets {t:$} a day.")
    return (n * e - u) * d


@template
def eggs_cartons(c):
    p = c.person()
    n, d, k = c.i(6, 40), c.i(3, 7), c.p([6, 10, 12])
    pr = c.i(2, 6)
    c.say(
        (f"[P] hens lay {n} eggs a day.", f"[S] collects {n} eggs from [P] hens every day."),
        f"[S] puts the eggs of {d} days into cartons of {k} and sells each carton for ${pr}.",
    )
    c.ask("How much money does [S] get?", "How many dollars do the cartons bring in?")
    a = c.mul(n, d)
    b = c.div(a, k)
    t = c.mul(b, pr)
    c.step(f"In {d} days there are {a} eggs.")
    c.step(f"They fill {b} cartons.")
    c.step(f"[S] gets {t:$}.")
    return n * d // k * pr


@template
def feed_days(c):
    p, x = c.person(), c.noun("farm", "pet")
    n, k, d = c.i(2, 15), c.i(2, 8), c.i(3, 20)
    tot = n * k * d
    c.say(
        (
            f"[S] has {n} {x}, and each one eats {k} cups of food a day.",
            f"Each of [P] {n} {x} eats {k} cups of food every day.",
        ),
        f"[S] has {tot} cups of food.",
    )
    c.ask("For how many days is this enough?", "How many days will the food last?")
    a = c.mul(n, k)
    t = c.div(tot, a)
    c.step(f"The {x} eat {a} cups a day.")
    c.step(f"The food lasts {t} days.")
    return d


@template
def feed_week(c):
    p = c.person()
    x, y = c.noun("farm"), c.noun("bird", "pet")
    n, k, m, j = c.i(2, 12), c.i(4, 12), c.i(2, 20), c.i(2, 3)
    c.say(
        f"[S] feeds {n} {x} and {m} {y}.", f"Each {x.s} gets {k} scoops of food a day, and each {y.s} gets {j} scoops."
    )
    c.ask("How many scoops does [S] need for a week?", f"How many scoops is that {c.tot} in 7 days?")
    a, b = c.mul(n, k), c.mul(m, j)
    s = c.add(a, b)
    t = c.mul(s, 7)
    c.step(f"The {x} get {a} scoops a day.")
    c.step(f"The {y} get {b} scoops a day.")
    c.step(f"Together they get {s} scoops a day.")
    c.step(f"In a week, that is {t} scoops.")
    return (n * k + m * j) * 7


@template
def herd_change(c):
    p, x = c.person(), c.noun("farm", "bird")
    n, k, b = c.i(20, 150), c.p([2, 4, 5]), c.i(3, 40)
    c.say(
        (f"A farmer named {p} had {n} {x}.", f"[S] had {n} {x} on a farm."),
        f"[S] sold {NTH[k]} of them in {c.p(MONTHS[:6])}.",
        f"By {c.p(MONTHS[6:])}, {b} young ones were born.",
    )
    c.ask(f"How many {x} were on the farm then?", f"How many {x} did [S] have then, counting the young ones?")
    a = c.div(n, k)
    s = c.sub(n, a)
    t = c.add(s, b)
    c.step(f"[S] sold {a} {x}.")
    c.step(f"[S] had {s} {x} left.")
    c.step(f"Then there were {t} {x}.")
    return n - n // k + b


@template
def milk(c):
    p = c.person()
    x = c.p(["cow", "goat"])
    n, l, d, pr = c.i(3, 20), c.i(3, 20), c.i(2, 7), c.i(2, 4)
    c.objs.append(x + "s")
    c.say(
        (
            f"Each of [P] {n} {x}s gives {l} liters of milk a day.",
            f"[S] has {n} {x}s that give {l} liters of milk each a day.",
        ),
        f"[S] sells the milk for ${pr} a liter.",
    )
    c.ask(f"How much does [S] get for the milk of {d} days?", f"How many dollars does [S] make in {d} days?")
    a = c.mul(n, l)
    b = c.mul(a, d)
    t = c.mul(b, pr)
    c.step(f"The {x}s give {a} liters a day.")
    c.step(f"In {d} days they give {b} liters.")
    c.step(f"[S] gets {t:$}.")
    return n * l * d * pr


@template
def harvest(c):
    p, x = c.person(), c.noun("fruit")
    t, k, b, r = c.i(3, 20), c.i(10, 60), c.p([5, 10, 20]), c.i(5, 40)
    c.need(x.s not in ("pineapple", "melon", "coconut"))
    box = c.box
    c.say(
        (
            f"[S] has {t} {x.s} trees, and each tree gives {k} {x}.",
            f"There are {t} {x.s} trees in [P] garden, and each one gives {k} {x}.",
        ),
        f"[S] throws away {r} bad ones and packs the rest into {box} of {b}.",
    )
    c.ask(f"How many {box} does [S] fill?", f"How many {box} are filled?")
    s = c.mul(t, k)
    u = c.sub(s, r)
    v = c.div(u, b)
    c.step(f"The trees give {s} {x}.")
    c.step(f"{u} {x} are good.")
    c.step(f"[S] fills {v} {box}.")
    return (t * k - r) // b
