"""Templates: units and places, and what fits no other theme."""

from ..fillers import CITIES, COLORS, NTH, TIMES, TOWNS
from ..registry import template


@template
def feet_inches(c):
    p = c.person()
    f, i, k, _ = c.i(2, 9), c.i(2, 11), c.i(2, 9), c.i(2, 11)
    w = c.p(["board", "ribbon", "shelf", "rope", "banner"])
    c.say(f"[S] has one {w} that is {f} feet and {i} inches long and one that is {k} feet long.")
    c.ask(f"How many inches long are they {c.tot}?", "What is their total length in inches?")
    a = c.mul(f, 12)
    b = c.add(a, i)
    d = c.mul(k, 12)
    t = c.add(b, d)
    c.step(f"{f} feet are {a} inches.")
    c.step(f"The first {w} is {b} inches long.")
    c.step(f"The second {w} is {d} inches long.")
    c.step(f"Together they are {t} inches long.")
    return 12 * (f + k) + i


@template
def weeks_days(c):
    p = c.person()
    w, d, k = c.i(2, 9), c.i(2, 6), c.i(2, 12)
    act = c.p(
        [
            "drinks {} glasses of water",
            "does {} push-ups",
            "learns {} new words",
            "writes {} lines",
            "solves {} puzzles",
            "draws {} pictures",
        ]
    )
    unit = act.split("{} ")[1]
    c.say(
        (f"[S] {act.format(k)} every day.", f"Every day, [S] {act.format(k)}."),
        f"[S] does this for {w} weeks and {d} days.",
    )
    c.ask(f"How many {unit} is that {c.tot}?", f"What is the total number of {unit}?")
    a = c.mul(w, 7)
    b = c.add(a, d)
    t = c.mul(b, k)
    c.step(f"{w} weeks are {a} days.")
    c.step(f"{c.tot.capitalize()}, that is {b} days.")
    c.step(f"The total is {t} {unit}.")
    return (7 * w + d) * k


@template
def years_months(c):
    p, x = c.person(), c.noun("gadget", "sport")
    y, m, k, pr = c.i(1, 3), c.i(2, 11), c.i(5, 40), c.i(20, 300)
    c.say(
        (
            f"[S] saves ${k} every month for {y} year{'s' if y > 1 else ''} and {m} months.",
            f"For {y} year{'s' if y > 1 else ''} and {m} months, [S] puts ${k} into a jar each month.",
        ),
        f"Then [S] buys {x.a} for ${pr}.",
    )
    c.ask("How much money is left?", "How many dollars does [S] have left?")
    a = c.mul(y, 12)
    b = c.add(a, m)
    d = c.mul(b, k)
    t = c.sub(d, pr)
    c.step(f"{y} year{'s are' if y > 1 else ' is'} {a} months.")
    c.step(f"[S] saves for {b} months.")
    c.step(f"[S] saves {d:$}.")
    c.step(f"[S] has {t:$} left.")
    return (12 * y + m) * k - pr


@template
def hours_minutes(c):
    p = c.person()
    h, m, k = c.i(1, 4), c.m(5, 55, 5), c.p([2, 3, 4, 5, 6, 8, 10, 12, 15])
    x = c.noun("craft")
    c.say(
        (
            f"[S] works for {h} hour{'s' if h > 1 else ''} and {m} minutes.",
            f"[S] has {h} hour{'s' if h > 1 else ''} and {m} minutes to work.",
        ),
        (
            f"In {k} minutes, [S] can finish one {x.s}."
            if not x.s.startswith("bar")
            else f"In {k} minutes, [S] can make one {x.s}."
        ),
    )
    c.ask(f"How many {x} can [S] finish in this time?", f"How many {x} does [S] get done?")
    a = c.mul(h, 60)
    b = c.add(a, m)
    t = c.div(b, k)
    c.step(f"{h} hour{'s are' if h > 1 else ' is'} {a} minutes.")
    c.step(f"[S] has {b} minutes.")
    c.step(f"[S] can finish {t} {x}.")
    return (60 * h + m) // k


@template
def train_stops(c):
    p = c.person()
    n, a, b, d, e = c.i(20, 150), c.i(3, 30), c.i(3, 30), c.i(3, 30), c.i(3, 30)
    v = c.p(["bus", "train", "tram", "ferry", "subway train"])
    x, y = c.sample(TOWNS, 2)
    f = c.p(["at the first stop", f"in {x}"])
    g = "at the second stop" if "first" in f else f"in {y}"
    c.say(
        (f"A {v} starts with {n} passengers.", f"[S] drives a {v} that has {n} passengers at the start."),
        f"{f.capitalize() if 'in ' != f[:3] else 'I' + f[1:]}, {a} people get off and {b} get on.",
        f"{g.capitalize() if 'in ' != g[:3] else 'I' + g[1:]}, {d} people get off and {e} get on.",
    )
    c.ask(f"How many passengers are on the {v} now?", f"How many passengers does the {v} have then?")
    s = c.sub(n, a)
    t = c.add(s, b)
    u = c.sub(t, d)
    w = c.add(u, e)
    c.step(f"After {a} people get off, there are {s} passengers.")
    c.step(f"After {b} get on, there are {t} passengers.")
    c.step(f"Then {d} get off, and there are {u} passengers.")
    c.step(f"Now there are {w} passengers.")
    return n - a + b - d + e


@template
def parking_lot(c):
    p = c.person()
    n, k, m = c.m(20, 300, 10), c.p([2, 4, 5, 10]), c.i(2, 40)
    c.say(
        (f"[S] counts {n} cars in a parking lot.", f"There are {n} cars in the parking lot where {p} works."),
        f"{NTH[k].capitalize()} of them are {c.p(COLORS)}, and {m} of them are {'silver'}.",
    )
    c.ask("How many cars have a different color?", "How many cars have another color?")
    a = c.div(n, k)
    b = c.add(a, m)
    t = c.sub(n, b)
    c.step(f"{NTH[k].capitalize()} of the cars is {a} cars.")
    c.step(f"With the silver ones, there are {b} cars.")
    c.step(f"{t} cars have a different color.")
    return n - n // k - m


@template
def building_people(c):
    p = c.person()
    f, a, k, e = c.i(3, 12), c.i(2, 8), c.i(2, 4), c.i(2, 12)
    b = c.p(
        [
            ("apartment building", "apartments"),
            ("hotel", "rooms"),
            ("dormitory", "rooms"),
            ("office building", "offices"),
        ]
    )
    c.say(
        (
            f"[S] lives in {'an' if b[0][0] in 'ao' else 'a'} {b[0]} with {f} floors and {a} {b[1]} on each floor."
            if b[0] != "office building"
            else f"[S] works in an office building with {f} floors and {a} offices on each floor."
        ),
        f"{e} of the {b[1]} are empty, and {k} people "
        f"{'work' if 'office' in b[0] else 'stay' if b[0] == 'hotel' else 'live'} in each of the others.",
    )
    c.ask(
        f"How many people {'work' if 'office' in b[0] else 'stay' if b[0] == 'hotel' else 'live'} in the {b[0]}?",
        f"How many people is that {c.tot}?",
    )
    s = c.mul(f, a)
    t = c.sub(s, e)
    u = c.mul(t, k)
    c.step(f"There are {s} {b[1]}.")
    c.step(f"{t} of them are in use.")
    c.step(f"There are {u} people.")
    return (f * a - e) * k


@template
def tower_height(c):
    p = c.person()
    n, h, m, g = c.i(3, 20), c.i(2, 9), c.i(3, 20), c.i(2, 9)
    c.need(g != h)
    w = c.p(["blocks", "bricks", "boxes", "books", "crates"])
    c.say(
        f"[S] builds a tower from {n} red {w} and {m} blue {w}.",
        f"A red one is {h} centimeters high and a blue one is {g} centimeters high.",
    )
    c.ask("How high is the tower, in centimeters?", "How many centimeters high is the tower?")
    a, b = c.mul(n, h), c.mul(m, g)
    t = c.add(a, b)
    c.step(f"The red {w} are {a} centimeters high together.")
    c.step(f"The blue {w} are {b} centimeters high together.")
    c.step(f"The tower is {t} centimeters high.")
    return n * h + m * g


@template
def weight_total(c):
    p = c.person()
    x, y = c.nouns(2, "household", "tool", "sport", "read")
    n, a, m, b, lim = c.i(2, 8), c.i(2, 9), c.i(2, 8), c.i(2, 9), c.m(40, 200, 10)
    c.say(
        (
            f"[S] loads {n} boxes of {x} and {m} boxes of {y} onto a cart.",
            f"[S] puts {n} boxes of {x} and {m} boxes of {y} on a cart.",
        ),
        f"A box of {x} weighs {a} kilograms and a box of {y} weighs {b} kilograms.",
        f"The cart can carry {lim} kilograms.",
    )
    c.ask("How many more kilograms can the cart carry?", "How many kilograms can still be added?")
    s, t = c.mul(n, a), c.mul(m, b)
    u = c.add(s, t)
    v = c.sub(lim, u)
    c.step(f"The boxes of {x} weigh {s} kilograms.")
    c.step(f"The boxes of {y} weigh {t} kilograms.")
    c.step(f"Together they weigh {u} kilograms.")
    c.step(f"The cart can carry {v} more kilograms.")
    return lim - n * a - m * b


@template
def trees_planted(c):
    p = c.person()
    g, k, t_, d = c.i(2, 9), c.i(3, 12), c.i(2, 6), c.i(2, 20)
    w = c.p(["trees", "bushes", "bulbs", "seeds", "flowers"])
    c.say(
        (
            f"[S] leads {g} groups of {k} students who plant {w} in a park.",
            f"In a park, [S] helps {g} groups of {k} students to plant {w}.",
        ),
        f"Each student plants {t_} {w}.",
        f"[S] plants {d} more {w} alone.",
    )
    c.ask(f"How many {w} are planted {c.tot}?", f"How many new {w} does the park get?")
    a = c.mul(g, k)
    b = c.mul(a, t_)
    t = c.add(b, d)
    c.step(f"There are {a} students.")
    c.step(f"They plant {b} {w}.")
    c.step(f"{c.tot.capitalize()}, {t} {w} are planted.")
    return g * k * t_ + d


@template
def cans_collected(c):
    a, b = c.persons(2)
    n, k, d, _ = c.i(5, 40), c.i(2, 4), c.i(3, 9), c.i(2, 9)
    w = c.p(["cans", "bottles", "newspapers", "jars", "batteries"])
    c.say(f"{a} collects {n} {w} a day for recycling, and {b} collects {TIMES[k]} as many.")
    c.ask(f"How many {w} do they collect together in {d} days?", f"How many {w} do the two have after {d} days?")
    s = c.mul(n, k)
    t = c.add(n, s)
    u = c.mul(t, d)
    c.step(f"{b} collects {s} {w} a day.")
    c.step(f"Together they collect {t} {w} a day.")
    c.step(f"In {d} days, they collect {u} {w}.")
    return n * (k + 1) * d


@template
def messages(c):
    a, b = c.persons(2)
    n, k, m = c.i(10, 80), c.p([2, 3, 4, 5]), c.i(2, 30)
    w = c.p(["letters", "messages", "emails", "postcards"])
    c.say(f"{a} wrote {n} {w} last month.", f"{b} wrote {NTH[k]} as many {w} plus {m} more.")
    c.ask(f"How many {w} did they write {c.tot}?", f"How many {w} did {a} and {b} write together?")
    s = c.div(n, k)
    t = c.add(s, m)
    u = c.add(n, t)
    c.step(f"{NTH[k].capitalize()} of {n} is {s}.")
    c.step(f"{b} wrote {t} {w}.")
    c.step(f"Together they wrote {u} {w}.")
    return n + n // k + m


@template
def stairs(c):
    p = c.person()
    f, s, t, d = c.i(2, 9), c.i(10, 22), c.i(2, 5), c.i(2, 7)
    c.say(
        (
            f"[S] lives on a floor that is {f} flights of stairs up, with {s} steps in each flight.",
            f"To reach [P] flat, [S] climbs {f} flights of stairs with {s} steps each.",
        ),
        f"[S] climbs the stairs {t} times a day.",
    )
    c.ask(f"How many steps does [S] climb in {d} days?", f"How many steps up is that in {d} days?")
    a = c.mul(f, s)
    b = c.mul(a, t)
    u = c.mul(b, d)
    c.step(f"The stairs have {a} steps.")
    c.step(f"In a day, [S] climbs {b} steps.")
    c.step(f"In {d} days, [S] climbs {u} steps.")
    return f * s * t * d


@template
def fuel(c):
    p = c.person()
    m, g, h, pr = c.i(10, 50), c.i(3, 15), c.i(2, 12), c.i(2, 6)
    v = c.p(["car", "truck", "van", "motorbike"])
    c.say(
        (f"[P] {v} goes {m} miles on one gallon of gas.", f"[S] has a {v} that goes {m} miles on a gallon of gas."),
        f"[S] has to drive {m * g} miles and has {h} gallons in the tank.",
        f"Gas costs ${pr} a gallon.",
    )
    c.ask("How much does [S] have to pay for the missing gas?", "How many dollars must [S] spend on more gas?")
    a = c.div(m * g, m)
    b = c.sub(a, h)
    t = c.mul(b, pr)
    c.step(f"[S] needs {a} gallons.")
    c.step(f"[S] has to buy {b} gallons.")
    c.step(f"This costs {t:$}.")
    return (g - h) * pr


@template
def reward_points(c):
    p = c.person()
    k, n, m, g = c.i(2, 10), c.i(5, 40), c.i(5, 60), c.i(3, 12)
    tot = k * n + m
    c.say(
        (
            f"[S] gets {k} points for every book read at the library club.",
            f"A reading club gives {p} {k} points for each book.",
        ),
        f"[S] has read {n} books and got {m} extra points for helping.",
        f"Each prize costs {g} points.",
    )
    c.need(tot % g == 0)
    c.ask("How many prizes can [S] get?", "For how many prizes does [S] have enough points?")
    a = c.mul(k, n)
    b = c.add(a, m)
    t = c.div(b, g)
    c.step(f"The books give {a} points.")
    c.step(f"[S] has {b} points.")
    c.step(f"[S] can get {t} prizes.")
    return tot // g


@template
def trip_budget(c):
    p = c.person()
    n, h, f, b = c.i(2, 7), c.i(20, 90), c.i(10, 50), c.m(300, 1500, 50)
    city = c.p(CITIES)
    c.say(
        (f"[S] spends {n} days in {city} and has ${b}.", f"With ${b}, {p} goes to {city} for {n} days."),
        f"Each day, [S] pays ${h} for a room and ${f} for food.",
    )
    c.ask("How much money is left after the trip?", "How many dollars does [S] have left after the trip?")
    a = c.add(h, f)
    d = c.mul(a, n)
    t = c.sub(b, d)
    c.step(f"Each day costs {a:$}.")
    c.step(f"The trip costs {d:$}.")
    c.step(f"[S] has {t:$} left.")
    return b - n * (h + f)


@template
def party_tables(c):
    p = c.person()
    t, k, e, r = c.i(4, 20), c.i(4, 10), c.i(3, 60), c.i(2, 6)
    c.say(
        (
            f"[S] sets up {t} tables with {k} chairs at each table for a wedding.",
            f"For a wedding, [S] sets up {t} tables, and each one has {k} chairs.",
        ),
        f"There are {t * k + e} guests.",
        f"An extra table has room for {r} people.",
    )
    c.ask("How many extra tables does [S] need?", "How many extra tables are needed for all of the guests?")
    a = c.mul(t, k)
    b = c.sub(t * k + e, a)
    d = c.div(b, r)
    c.step(f"There are {a} chairs.")
    c.step(f"{b} guests do not have a chair.")
    c.step(f"[S] needs {d} extra tables.")
    return e // r
