"""Templates: school, sports and groups."""

from ..fillers import DAYS, NTH, TIMES
from ..registry import template


@template
def class_boys_girls(c):
    p = c.person()
    n, g, k, _ = c.i(18, 40), c.i(5, 25), c.p([2, 3, 4]), c.i(2, 5)
    what = c.p(["wear glasses", "play an instrument", "walk to school", "have a pet", "ride a bike to school"])
    c.say(
        (
            f"There are {n} students in [P] class, and {g} of them are girls.",
            f"[P] class has {n} students. There are {g} girls, and the others are boys.",
        ),
        f"{NTH[k].capitalize()} of the boys {what}.",
    )
    c.ask(f"How many boys {what}?", f"How many boys in the class {what}?")
    s = c.sub(n, g)
    t = c.div(s, k)
    c.step(f"There are {s} boys.")
    c.step(f"{t} boys {what}.")
    return (n - g) // k


@template
def buses(c):
    p = c.person()
    cl, st, te, k = c.i(2, 8), c.i(15, 30), c.i(2, 12), c.p([20, 25, 30, 40, 50])
    pr = c.m(50, 300, 10)
    c.say(
        (
            f"[S] plans a school trip for {cl} classes with {st} students each and {te} teachers.",
            f"On a school trip that {p} plans, there are {te} teachers and {cl} classes of {st} students.",
        ),
        f"A bus has {k} seats, and all of the buses are full.",
    )
    a = c.mul(cl, st)
    b = c.add(a, te)
    t = c.div(b, k)
    c.step(f"There are {a} students.")
    c.step(f"There are {b} people.")
    c.step(f"They need {t} buses.")
    if c.i(0, 1):
        c.ask("How many buses are there?", "How many buses do they use?")
        return (cl * st + te) // k
    c.say(f"A bus costs ${pr} for the day.")
    c.ask("How much do the buses cost?")
    c.step(f"The buses cost {c.mul(t, pr):$}.")
    return (cl * st + te) // k * pr


@template
def points_baskets(c):
    p = c.person()
    a, b, f = c.i(2, 12), c.i(2, 8), c.i(2, 10)
    c.say(
        (
            f"In a basketball game, [S] made {a} shots worth 2 points, {b} shots worth 3 points "
            f"and {f} free throws worth 1 point each.",
            f"[S] made {a} two-point shots, {b} three-point shots and {f} free throws, which are worth one point each.",
        )
    )
    c.ask("How many points did [S] score?", f"How many points is that {c.tot}?")
    s, t = c.mul(a, 2), c.mul(b, 3)
    u = c.add(s, t, f)
    c.step(f"The two-point shots give {s} points.")
    c.step(f"The three-point shots give {t} points.")
    c.step(f"With the free throws, [S] scored {u} points.")
    return 2 * a + 3 * b + f


@template
def season_points(c):
    p = c.person()
    w, d, l = c.i(3, 20), c.i(2, 10), c.i(2, 10)
    t_ = c.p(["soccer", "hockey", "handball", "chess", "volleyball"])
    g = w + d + l
    c.say(
        (f"[P] {t_} team played {g} games this season.", f"This season, [P] {t_} team played {g} games."),
        f"They won {w} games, lost {l} games and tied the others.",
        "A win gives 3 points, a tie gives 1 point and a loss gives no points.",
    )
    c.ask("How many points did the team get?", f"How many points does the team have {c.tot}?")
    a = c.add(w, l)
    b = c.sub(g, a)
    s = c.mul(w, 3)
    t = c.add(s, b)
    c.step(f"They won or lost {a} games.")
    c.step(f"They tied {b} games.")
    c.step(f"The wins give {s} points.")
    c.step(f"With the ties, they have {t} points.")
    return 3 * w + d


@template
def quarters_score(c):
    p = c.person()
    a, k, _, o = c.i(5, 30), c.i(2, 3), c.i(2, 12), c.i(20, 150)
    c.say(
        f"[P] team scored {a} points in the first half and {TIMES[k]} as many in the second half.",
        f"The other team scored {o} points.",
    )
    c.ask("By how many points did [P] team win?", "How many points more than the other team did they score?")
    s = c.mul(a, k)
    t = c.add(a, s)
    u = c.sub(t, o)
    c.step(f"In the second half, they scored {s} points.")
    c.step(f"{c.tot.capitalize()}, they scored {t} points.")
    c.step(f"They won by {u} points.")
    return a * (k + 1) - o


@template
def quiz_points(c):
    p = c.person()
    n, w, a, b = c.i(10, 40), c.i(2, 12), c.i(3, 6), c.i(1, 2)
    c.say(
        (f"A quiz has {n} questions.", f"[S] takes part in a quiz with {n} questions."),
        f"A right answer gives {a} points, and a wrong answer takes away {b} point{'s' if b > 1 else ''}.",
        f"[S] answers all of the questions and gets {w} of them wrong.",
    )
    c.ask("How many points does [S] get?", "What is [P] score?")
    r = c.sub(n, w)
    s = c.mul(r, a)
    l = c.mul(w, b)
    t = c.sub(s, l)
    c.step(f"[S] gets {r} questions right.")
    c.step(f"They give {s} points.")
    c.step(f"The wrong answers take away {l} points.")
    c.step(f"[S] gets {t} points.")
    return (n - w) * a - w * b


@template
def teams(c):
    p = c.person()
    a, b, k = c.i(10, 80), c.i(10, 80), c.i(3, 11)
    w = c.p(["players", "children", "students", "dancers", "campers", "scouts"])
    g = c.p(["teams", "groups", "squads"])
    c.say(
        (
            f"[S] has {a} {w} in the morning, and {b} more come in the afternoon.",
            f"At a camp, {p} looks after {a} {w} from one school and {b} {w} from another.",
        ),
        f"[S] divides all of them into {g} of {k}.",
    )
    c.ask(f"How many {g} are there?", f"How many {g} does [S] get?")
    s = c.add(a, b)
    t = c.div(s, k)
    c.step(f"There are {s} {w} {c.tot}.")
    c.step(f"There are {t} {g}.")
    return (a + b) // k


@template
def votes(c):
    a, b = c.persons(2)
    n, d, s = c.i(20, 150), c.i(3, 40), c.i(2, 12)
    c.say(
        f"{a} and {b} ran for class president.",
        f"{a} got {n} votes, which was {d} more than {b} got.",
        f"{s} votes were not valid.",
    )
    c.ask("How many votes were cast?", f"How many votes were there {c.tot}?")
    m = c.sub(n, d)
    t = c.add(n, m, s)
    c.step(f"{b} got {m} votes.")
    c.step(f"There were {t} votes {c.tot}.")
    return 2 * n - d + s


@template
def percent_of_group(c):
    p = c.person()
    n, k, m = c.m(20, 400, 10), c.p([10, 20, 25, 30, 40, 60, 75, 80]), c.p([2, 3, 4])
    w, u, v = c.p(
        [
            ("students", "take the bus", "sit in the front"),
            ("workers", "have a car", "share it with a friend"),
            ("guests", "order fish", "ask for extra lemon"),
            ("runners", "finish the race", "get a medal"),
            ("visitors", "buy a guide book", "also buy a poster"),
            ("members", "go swimming", "come every day"),
            ("players", "wear gloves", "wear a helmet"),
            ("children", "like apples", "like pears as well"),
        ]
    )
    c.say(
        (f"[S] counts {n} {w}.", f"[S] asks {n} {w}."),
        f"{k}% of them {u}.",
        f"{NTH[m].capitalize()} of those who {u} {v}.".replace("those who", f"the {w} who"),
    )
    c.ask(f"How many {w} {u} and {v}?")
    a = c.pct(n, k)
    t = c.div(a, m)
    c.step(f"{a} {w} {u}.")
    c.step(f"{t} of them {v}.", f"So {t} {w} {u} and {v}.")
    return n * k // 100 // m


@template
def percent_rest(c):
    p, x = c.person(), c.noun("fruit", "collectible", "flower", "read")
    n, k = c.m(20, 300, 10), c.p([10, 20, 25, 30, 40, 50, 60])
    m = c.i(2, 30)
    c.say(
        (f"[S] has {n} {x} to sell.", f"A {c.shop} gets {n} {x}, and {p} sells them."),
        f"On the first day, [S] sells {k}% of them.",
        f"On the second day, [S] sells {m} {x}.",
    )
    c.ask(f"How many {x} are left?", f"How many {x} are not sold yet?")
    a = c.pct(n, k)
    b = c.sub(n, a)
    t = c.sub(b, m)
    c.step(f"On the first day, [S] sells {a} {x}.")
    c.step(f"Then {b} {x} are left.")
    c.step(f"After the second day, {t} {x} are left.")
    return n - n * k // 100 - m


@template
def library_flow(c):
    p, x = c.person(), c.noun("read")
    n, a, b, d = c.i(50, 300), c.i(5, 60), c.i(5, 60), c.i(5, 60)
    i = c.i(0, 4)
    c.say(
        (f"A library has {n} {x}.", f"[S] works in a library that has {n} {x}."),
        f"On {DAYS[i]}, {a} of them are borrowed.",
        f"On {DAYS[i + 1]}, {b} {x} are brought back and {d} are borrowed.",
    )
    c.need(b < a)
    c.ask(f"How many {x} are in the library now?", f"How many {x} are there now?")
    s = c.sub(n, a)
    t = c.add(s, b)
    u = c.sub(t, d)
    c.step(f"After {DAYS[i]}, there are {s} {x}.")
    c.step(f"When some come back, there are {t} {x}.")
    c.step(f"Now there are {u} {x}.")
    return n - a + b - d
