"""Templates: shapes and lengths."""

from ..registry import template


@template
def fence_cost(c):
    p = c.person()
    a, b, k, _ = c.i(3, 40), c.i(3, 40), c.i(2, 12), c.i(2, 5)
    c.need(a != b)
    what = c.p(["garden", "yard", "field", "playground", "meadow"])
    c.say(
        (
            f"[S] puts a fence around a rectangular {what} that is {a} meters long and {b} meters wide.",
            f"[P] {what} is a rectangle with sides of {a} meters and {b} meters, "
            "and [S] wants to put a fence around it.",
        ),
        f"One meter of fence costs ${k}.",
    )
    c.ask("How much does the fence cost?", "How many dollars does the whole fence cost?")
    s = c.add(a, b)
    t = c.mul(s, 2)
    u = c.mul(t, k)
    c.step(f"Two sides together are {s} meters long.", f"The length and the width add up to {s} meters.")
    c.step(f"The fence is {t} meters long.")
    c.step(f"It costs {u:$}.")
    return 2 * (a + b) * k


@template
def fence_cost_gate(c):
    p = c.person()
    a, g, k = c.i(5, 40), c.i(2, 5), c.i(2, 9)
    what = c.p(["garden", "yard", "field", "pasture"])
    c.say(
        f"[S] builds a fence around a square {what} with sides of {a} meters.",
        f"A gap of {g} meters stays open for a gate.",
        f"The fence costs ${k} a meter.",
    )
    c.ask("How much does [S] pay for the fence?", "How many dollars does the fence cost?")
    s = c.mul(4, a)
    t = c.sub(s, g)
    u = c.mul(t, k)
    c.step(f"All four sides are {s} meters long.")
    c.step(f"Without the gap, the fence is {t} meters long.")
    c.step(f"It costs {u:$}.")
    return (4 * a - g) * k


@template
def tiles_area(c):
    p = c.person()
    a, b, h = c.i(3, 25), c.i(3, 25), c.i(5, 80)
    room = c.p(["kitchen", "bathroom", "hall", "terrace", "balcony", "porch"])
    c.say(
        (f"[S] covers the floor of a {room} with square tiles.", f"[S] puts square tiles on the floor of a {room}."),
        f"The floor takes {a} rows of {b} tiles.",
        f"[S] already has {h} tiles.",
    )
    c.ask("How many more tiles does [S] need?", "How many tiles are missing?")
    s = c.mul(a, b)
    t = c.sub(s, h)
    c.step(f"The floor needs {s} tiles.")
    c.step(f"[S] needs {t} more tiles.")
    return a * b - h


@template
def carpet_cost(c):
    p = c.person()
    a, b, k = c.i(2, 12), c.i(2, 12), c.i(3, 30)
    h = c.p(["bedroom", "living room", "nursery", "classroom"])
    c.say(
        (
            f"[S] buys a carpet for a {h} that is {a} meters long and {b} meters wide.",
            f"A {h} that is {a} meters long and {b} meters wide gets a new carpet, and {p} pays for it.",
        ),
        f"The carpet costs ${k} per square meter.",
        f"Laying it costs ${a * 5} more.",
    )
    c.ask(f"How much does [S] pay {c.tot}?", "How many dollars does the new carpet cost with the work?")
    s = c.mul(a, b)
    t = c.mul(s, k)
    u = c.add(t, a * 5)
    c.step(f"The area is {s} square meters.")
    c.step(f"The carpet costs {t:$}.")
    c.step(f"With the work, [S] pays {u:$}.")
    return a * b * k + 5 * a


@template
def area_difference(c):
    a, b = c.persons(2)
    w, x, y, z = c.i(3, 30), c.i(3, 30), c.i(3, 30), c.i(3, 30)
    what = c.p(["garden", "room", "field", "yard"])
    c.say(f"{a.s} {what} is {w} feet long and {x} feet wide.", f"{b.s} {what} is {y} feet long and {z} feet wide.")
    s, t = c.mul(w, x), c.mul(y, z)
    c.step(f"The first {what} has an area of {s} square feet.")
    c.step(f"The second {what} has an area of {t} square feet.")
    if c.i(0, 1):
        c.ask(f"How many square feet larger is the first {what} than the second?")
        u = c.sub(s, t)
        c.step(f"The difference is {u} square feet.")
        return w * x - y * z
    c.ask(f"How many square feet do both have {c.tot}?")
    u = c.add(s, t)
    c.step(f"Together they have {u} square feet.")
    return w * x + y * z


@template
def square_side_area(c):
    p = c.person()
    s = c.i(2, 30)
    what = c.p(["field", "garden", "carpet", "park", "tablecloth", "patio"])
    c.say(
        (
            f"[S] has a square {what} with a perimeter of {4 * s} feet.",
            f"[S] measures all four sides of a square {what} and gets a perimeter of {4 * s} feet.",
        )
    )
    c.ask(f"What is the area of the {what} in square feet?", f"How many square feet is the area of the {what}?")
    a = c.div(4 * s, 4)
    t = c.mul(a, a)
    c.step(f"Each side is {a} feet long.")
    c.step(f"The area is {t} square feet.")
    return s * s


@template
def rectangle_missing_side(c):
    p = c.person()
    a, b = c.i(3, 30), c.i(3, 30)
    c.need(a > b)
    what = c.p(["field", "garden", "picture", "table", "pool", "flag"])
    c.say(
        (
            f"A rectangular {what} has a perimeter of {2 * (a + b)} feet.",
            (
                f"[S] walks around the edge of a rectangular {what}, which is {2 * (a + b)} feet."
                if what in ("field", "garden", "pool")
                else f"[S] measures {2 * (a + b)} feet around a rectangular {what}."
            ),
        ),
        f"The {what} is {a} feet long.",
    )
    s = c.div(2 * (a + b), 2)
    w = c.sub(s, a)
    c.step(f"The length and the width together are {s} feet.")
    c.step(f"The width is {w} feet.")
    if c.i(0, 1):
        c.ask(f"How wide is the {what}, in feet?", f"How many feet wide is the {what}?")
        return b
    c.ask(f"What is the area of the {what} in square feet?")
    c.step(f"The area is {c.mul(a, w)} square feet.")
    return a * b


@template
def box_volume(c):
    p = c.person()
    a, b, h, n = c.i(2, 9), c.i(2, 9), c.i(2, 9), c.i(5, 80)
    c.say(
        ("[S] stacks small cubes in a large box.", "A large box holds small cubes."),
        f"The bottom of the box has room for {a} rows of {b} cubes, and the box is {h} cubes high.",
        f"[S] has already put in {n} cubes.",
    )
    c.ask("How many more cubes fit into the box?", "For how many more cubes is there room?")
    s = c.mul(a, b)
    t = c.mul(s, h)
    u = c.sub(t, n)
    c.step(f"One layer has {s} cubes.")
    c.step(f"The box holds {t} cubes.")
    c.step(f"{u} more cubes fit in.")
    return a * b * h - n


@template
def laps_perimeter(c):
    p = c.person()
    a, b, k = c.i(10, 120), c.i(10, 120), c.i(2, 10)
    what = c.p(["park", "field", "school yard", "parking lot", "market square"])
    c.say(
        (
            f"[S] jogs around a rectangular {what} that is {a} meters long and {b} meters wide.",
            f"A rectangular {what} is {a} meters long and {b} meters wide, and {p} walks around it.",
        ),
        f"[S] goes around {k} times.",
    )
    c.ask(f"How many meters does [S] go {c.tot}?", f"How far is that {c.tot}, in meters?")
    s = c.add(a, b)
    t = c.mul(s, 2)
    u = c.mul(t, k)
    c.step(f"Half of the way around is {s} meters.")
    c.step(f"One time around is {t} meters.")
    c.step(f"{k} times around is {u} meters.")
    return 2 * (a + b) * k


@template
def ribbon_pieces(c):
    p = c.person()
    k, n, u = c.i(3, 30), c.i(4, 25), c.i(2, 40)
    what = c.p(["ribbon", "rope", "wire", "string", "wood", "cloth", "pipe"])
    tot = k * n + u
    c.say(
        (f"[S] has {tot} centimeters of {what}.", f"[S] buys {tot} centimeters of {what}."),
        f"[S] uses {u} centimeters and cuts the rest into pieces of {k} centimeters.",
    )
    c.ask("How many pieces does [S] get?", f"Into how many pieces does [S] cut the {what}?")
    s = c.sub(tot, u)
    t = c.div(s, k)
    c.step(f"There are {s} centimeters left to cut.")
    c.step(f"[S] gets {t} pieces.")
    return n


@template
def meters_to_cm_pieces(c):
    p = c.person()
    m, k = c.i(2, 12), c.p([5, 10, 20, 25, 50])
    b = c.i(2, 30)
    what = c.p(["rope", "ribbon", "yarn", "cable", "tape"])
    c.say(
        (f"[S] has {m} meters of {what}.", f"A roll has {m} meters of {what}, and it belongs to {p}."),
        f"[S] cuts it into pieces of {k} centimeters.",
        f"[S] gives {b} pieces to a friend.",
    )
    c.ask("How many pieces does [S] keep?", "How many pieces are left?")
    s = c.mul(m, 100)
    t = c.div(s, k)
    u = c.sub(t, b)
    c.step(f"The {what} is {s} centimeters long.")
    c.step(f"[S] gets {t} pieces.")
    c.step(f"[S] keeps {u} pieces.")
    return m * 100 // k - b


@template
def paint_cans(c):
    p = c.person()
    w, a, cov, pr = c.i(2, 6), c.i(6, 40), c.p([5, 8, 10, 12, 15, 20]), c.i(5, 30)
    c.say(
        (
            f"[S] paints {w} walls, and each wall has an area of {a} square meters.",
            f"[S] wants to paint {w} walls of {a} square meters each.",
        ),
        f"One can of paint is enough for {cov} square meters and costs ${pr}.",
    )
    c.ask("How much does [S] pay for the paint?", "How many dollars does the paint cost?")
    s = c.mul(w, a)
    t = c.div(s, cov)
    u = c.mul(t, pr)
    c.step(f"The walls have {s} square meters.")
    c.step(f"[S] needs {t} cans.")
    c.step(f"The paint costs {u:$}.")
    return w * a // cov * pr
