"""Templates: money earned, saved and shared: profit, wages, fares, bills."""

from ..context import cents
from ..fillers import GOODS, TIMES
from ..registry import template


@template
def stand_profit(c):
    p, x = c.person(), c.noun("bakery", "craft", "flower")
    a, n, cost = c.i(2, 9), c.i(8, 60), c.i(5, 80)
    c.say(
        (f"[S] sells {x} for ${a} each at a fair.", f"At a street stand, [S] sells {x} for ${a} each."),
        (
            (f"[S] spent ${cost} on materials.", f"The materials cost [O] ${cost}.")
            if x.kind == "craft"
            else (f"[S] spent ${cost} on supplies.", f"The supplies cost [O] ${cost}.")
        ),
        f"[S] sells {n} {x}.",
    )
    c.ask("How much profit does [S] make?", "What is [P] profit in dollars?")
    s = c.mul(n, a)
    t = c.sub(s, cost)
    c.step(f"[S] takes in {s:$}.", f"The {x} bring in {s:$}.")
    c.step(f"[P] profit is {t:$}.", f"After paying the costs, [S] keeps {t:$}.")
    return n * a - cost


@template
def resale_profit(c):
    p, x = c.person(), c.noun("clothing", "toy", "read", "household", "tool")
    a, n = c.price(x), c.i(3, 25)
    b = a + c.i(2, 12)
    c.say(
        (
            f"[S] buys {n} {x} for ${a} each and sells all of them for ${b} each.",
            f"[S] sells {n} {x} for ${b} each after buying them for ${a} each.",
        )
    )
    c.ask("How much money does [S] make?", "What is [P] profit?")
    d = c.sub(b, a)
    t = c.mul(n, d)
    c.step(f"[S] earns {d:$} on each {x.s}.")
    c.step(f"[P] profit is {t:$}.", f"{c.tot.capitalize()}, [S] makes {t:$}.")
    return n * (b - a)


@template
def resale_some_kept(c):
    p, x = c.person(), c.noun("clothing", "toy", "read", "household")
    a, n, kept = c.price(x), c.i(6, 30), c.i(2, 5)
    b = a + c.i(2, 20)
    c.say(f"[S] bought {n} {x} at ${a} each.", f"[S] kept {kept} of them and sold the others for ${b} each.")
    c.ask("How much more money did [S] get than [S] spent?", "How many dollars did [S] gain?")
    s = c.mul(n, a)
    m = c.sub(n, kept)
    t = c.mul(m, b)
    u = c.sub(t, s)
    c.step(f"[S] spent {s:$}.")
    c.step(f"[S] sold {m} {x}.")
    c.step(f"[S] got {t:$} for them.")
    c.step(f"The gain is {u:$}.")
    return (n - kept) * b - n * a


@template
def allowance_saving(c):
    p = c.person()
    a, s, w = c.i(8, 40), c.i(2, 25), c.i(3, 20)
    r = c.p(["parents", "grandmother", "uncle", "aunt"])
    g = "give" if r == "parents" else "gives"
    c.say(
        (
            (f"[P] {r} {g} [O] ${a} every week.", f"[S] gets ${a} a week from [P] {r}.")
            if r != "parents"
            else (f"[S] gets ${a} a week from [P] {r}.", f"[S] gets an allowance of ${a} each week.")
        ),
        (f"[S] spends ${s} a week and saves the rest.", f"Each week, [S] spends ${s} of it and saves what is left."),
    )
    c.ask(f"How much does [S] save in {w} weeks?", f"How many dollars will [S] have saved after {w} weeks?")
    d = c.sub(a, s)
    t = c.mul(d, w)
    c.step(f"[S] saves {d:$} a week.")
    c.step(f"In {w} weeks, [S] saves {t:$}.")
    return (a - s) * w


@template
def weeks_to_goal(c):
    p, x = c.person(), c.noun("gadget", "sport", "clothing", "toy")
    k, w, h = c.i(3, 20), c.i(2, 15), c.i(5, 60)
    cost = k * w + h
    c.say(
        (f"[S] wants to buy {x.a} that costs ${cost}.", f"[S] is saving for {x.a} that costs ${cost}."),
        f"[S] already has ${h}.",
        (f"[S] saves ${k} every week.", f"Each week, [S] puts aside ${k}."),
    )
    c.ask(
        f"In how many weeks can [S] buy the {x.s}?",
        "How many weeks will it take until [S] has enough money?",
        f"How many weeks does [S] need to save for the {x.s}?",
    )
    d = c.sub(cost, h)
    t = c.div(d, k)
    c.step(f"[S] still needs {d:$}.")
    c.step(f"That takes {t} weeks.", f"[S] needs {t} weeks.")
    return (cost - h) // k


@template
def wage_days(c):
    p = c.person()
    r, h, d = c.i(8, 30), c.i(3, 9), c.i(2, 6)
    job = c.p(
        [
            "in a bakery",
            "as a gardener",
            "in a cafe",
            "as a tutor",
            "at a library",
            "as a painter",
            "in a garage",
            "as a cleaner",
        ]
    )
    c.say(
        (f"[S] works {job} and earns ${r} an hour.", f"Working {job}, {p} earns ${r} per hour."),
        (f"[S] works {h} hours a day, {d} days a week.", f"Every week, [S] works {d} days for {h} hours a day."),
    )
    a = c.mul(h, d)
    t = c.mul(a, r)
    c.step(f"[S] works {a} hours a week.")
    c.step(f"[S] earns {t:$} a week.")
    if c.i(0, 1):
        c.ask("How much does [S] earn in a week?", "How many dollars does [S] make per week?")
        return r * h * d
    w = c.i(2, 4)
    c.ask(f"How much does [S] earn in {w} weeks?")
    u = c.mul(t, w)
    c.step(f"In {w} weeks, [S] earns {u:$}.")
    return r * h * d * w


@template
def overtime(c):
    p = c.person()
    r, e, h, o = c.i(8, 25), c.i(2, 10), c.i(20, 40), c.i(2, 12)
    c.say(
        (
            f"[S] earns ${r} an hour for the first {h} hours of work in a week.",
            f"For the first {h} hours in a week, [S] is paid ${r} an hour.",
        ),
        f"For every extra hour, [S] gets ${e} more than usual.",
        f"This week [S] worked {o} extra hours.",
    )
    c.ask("How much did [S] earn this week?", f"How many dollars did [S] earn {c.tot} this week?")
    a = c.mul(h, r)
    b = c.add(r, e)
    d = c.mul(o, b)
    t = c.add(a, d)
    c.step(f"For the first {h} hours, [S] gets {a:$}.")
    c.step(f"An extra hour pays {b:$}.")
    c.step(f"The extra hours pay {d:$}.")
    c.step(f"[S] earned {t:$}.")
    return h * r + o * (r + e)


@template
def wage_minus_costs(c):
    p = c.person()
    r, h, a, b = c.i(10, 30), c.i(10, 40), c.i(20, 150), c.i(10, 90)
    u, v = c.sample(["rent", "food", "clothes", "a bus pass", "books", "a phone bill", "a dentist visit", "gifts"], 2)
    c.say(
        f"[S] earned ${r} an hour and worked {h} hours.",
        (f"[S] then spent ${a} on {u} and ${b} on {v}.", f"From this money, [S] paid ${a} for {u} and ${b} for {v}."),
    )
    c.ask("How much money was left?", "How many dollars did [S] have left?")
    s = c.mul(r, h)
    t = c.add(a, b)
    w = c.sub(s, t)
    c.step(f"[S] earned {s:$}.")
    c.step(f"[S] spent {t:$}.")
    c.step(f"[S] had {w:$} left.")
    return r * h - a - b


@template
def tip_percent(c):
    p = c.person()
    b, k = c.m(20, 200, 10), c.p([10, 20, 30])
    n = c.i(2, 5)
    c.say(
        (
            f"[S] and {n - 1} friends have dinner." if n > 2 else "[S] and a friend have dinner.",
            f"A group of {n} people, including {p}, eats at a restaurant.",
        ),
        (f"The meal costs ${b}, and they add a tip of {k}%.", f"The bill is ${b}, and they leave a {k}% tip."),
        "They share the total cost equally.",
    )
    c.ask("How much does each person pay?", "How many dollars does each one pay?")
    t = c.pct(b, k)
    s = c.add(b, t)
    e = c.div(s, n)
    c.step(f"The tip is {t:$}.")
    c.step(f"The total is {s:$}.")
    c.step(f"There are {n} people, so each one pays {e:$}.", f"Each of the {n} people pays {e:$}.")
    return (b + b * k // 100) // n


@template
def split_bill(c):
    p = c.person()
    x, y = c.nouns(2, "bakery", "fruit", "sweet")
    n, a, m, b, k = c.i(2, 8), c.i(2, 12), c.i(2, 8), c.i(2, 12), c.i(2, 6)
    c.say(
        f"[S] and [P] friends buy {n} {x} at ${a} each and {m} {y} at ${b} each.",
        (f"The {k} of them split the cost equally.", f"They share the cost equally among {k} people."),
    )
    c.ask("How much does each of them pay?", "How many dollars does each person pay?")
    s, t = c.mul(n, a), c.mul(m, b)
    u = c.add(s, t)
    v = c.div(u, k)
    c.step(f"The {x} cost {s:$}.")
    c.step(f"The {y} cost {t:$}.")
    c.step(f"Together they cost {u:$}.")
    c.step(f"Each one pays {v:$}.")
    return (n * a + m * b) // k


@template
def tickets_adult_child(c):
    p = c.person()
    a, b, n, m = c.i(8, 30), c.i(3, 12), c.i(2, 6), c.i(2, 9)
    c.need(a > b)
    v = c.p(["zoo", "museum", "circus", "water park", "cinema", "aquarium", "castle", "theater"])
    c.say(
        (
            f"A ticket for the {v} costs ${a} for an adult and ${b} for a child.",
            f"The {v} charges ${a} for an adult ticket and ${b} for a child ticket.",
        ),
        f"[S] buys tickets for {n} adults and {m} children.",
    )
    s, t = c.mul(n, a), c.mul(m, b)
    u = c.add(s, t)
    c.step(f"The adult tickets cost {s:$}.")
    c.step(f"The child tickets cost {t:$}.")
    c.step(f"{c.tot.capitalize()}, [S] pays {u:$}.", f"All of the tickets cost {u:$}.")
    c.ask(
        "How much does [S] pay for the tickets?",
        "What is the total price of the tickets?",
        "How many dollars does [S] spend?",
    )
    return n * a + m * b


@template
def ticket_revenue_unsold(c):
    p = c.person()
    r, k, e, a = c.i(4, 15), c.i(5, 15), c.i(3, 40), c.i(3, 15)
    c.say(
        (
            f"[S] sells tickets for a play in a hall with {r} rows of {k} seats.",
            f"[S] runs a small theater that has {r} rows with {k} seats in each row.",
        ),
        f"Each ticket costs ${a}.",
        (f"For tonight, {e} seats were not sold.", f"All but {e} of the tickets are sold."),
    )
    c.ask("How much money do the tickets bring in?", "How many dollars do the sold tickets bring in?")
    s = c.mul(r, k)
    t = c.sub(s, e)
    u = c.mul(t, a)
    c.step(f"There are {s} seats.")
    c.step(f"{t} tickets are sold.", f"[S] sells {t} tickets.")
    c.step(f"They bring in {u:$}.")
    return (r * k - e) * a


@template
def bus_fare(c):
    p = c.person()
    f, d, w, ps = c.i(2, 6), c.i(3, 6), c.i(2, 5), c.i(20, 90)
    c.say(
        (
            f"[S] takes the bus to work and back {d} days a week.",
            f"On {d} days a week, [S] rides the bus to school and back home.",
        ),
        f"Each ride costs ${f}.",
        f"A pass for {w} weeks costs ${ps}.",
    )
    c.ask("How much does [S] save by buying the pass?", f"How many dollars cheaper is the pass for {w} weeks?")
    a = c.mul(d, 2)
    b = c.mul(a, f)
    t = c.mul(b, w)
    u = c.sub(t, ps)
    c.step(f"[S] takes {a} rides a week.")
    c.step(f"The rides cost {b:$} a week.")
    c.step(f"For {w} weeks, that is {t:$}.")
    c.step(f"The pass saves {u:$}.")
    return 2 * d * f * w - ps


@template
def subscription(c):
    p = c.person()
    a, _, y = c.i(5, 40), c.i(10, 60), c.i(3, 12)
    s = c.p(["gym", "music", "newspaper", "film", "swimming pool", "language course"])
    b = c.i(2, a - 1)
    k = c.i(2, y - 1)
    c.say(
        (f"[S] joins a {s} plan that costs ${a} a month.", f"A {s} plan costs ${a} a month, and {p} joins it."),
        f"For the first {k} months, the price is only ${b} a month.",
    )
    c.ask(f"How much does [S] pay in {y} months?", f"What does [S] pay for {y} months {c.tot}?")
    u = c.mul(k, b)
    m = c.sub(y, k, lo=1)
    v = c.mul(m, a)
    t = c.add(u, v)
    c.need(m.v > 1)
    c.step(f"The first {k} months cost {u:$}.")
    c.step(f"There are {m} other months.")
    c.step(f"They cost {v:$}.")
    c.step(f"{c.tot.capitalize()}, [S] pays {t:$}.")
    return k * b + (y - k) * a


@template
def base_plus_rate(c):
    p = c.person()
    base, r, n = c.i(3, 40), c.i(2, 9), c.i(3, 30)
    what, unit = c.p(
        [
            ("A taxi ride", "mile"),
            ("Renting a boat", "hour"),
            ("Renting a car", "day"),
            ("A phone plan", "gigabyte"),
            ("A repair", "hour"),
            ("Renting a hall", "hour"),
            ("Moving a piano", "floor"),
        ]
    )
    h = c.m(20, 200, 10)
    c.say(f"{what} costs ${base} plus ${r} for each {unit}.", f"[S] pays for {n} {unit}s.")
    s = c.mul(n, r)
    t = c.add(s, base)
    c.step(f"The {unit}s cost {s:$}.")
    c.step(f"With the fixed price, [S] pays {t:$}.")
    if c.i(0, 1):
        c.ask("How much does [S] pay?", f"How many dollars does [S] pay {c.tot}?")
        return base + n * r
    c.facts.insert(0, f"[S] has ${h}.")
    c.ask("How much money does [S] have left after paying?", "How many dollars are left after paying?")
    u = c.sub(h, t)
    c.step(f"[S] has {u:$} left.")
    return h - base - n * r


@template
def base_plus_rate_reverse(c):
    p = c.person()
    base, r, n = c.i(3, 30), c.i(2, 9), c.i(3, 25)
    what, unit = c.p([("A taxi", "mile"), ("A boat rental", "hour"), ("A plumber", "hour"), ("A van rental", "day")])
    c.say(
        f"{what} costs ${base} plus ${r} for each {unit}.",
        (f"[S] paid ${base + n * r} {c.tot}.", f"[P] bill was ${base + n * r}."),
    )
    c.ask(f"How many {unit}s did [S] pay for?", f"For how many {unit}s did [S] pay?")
    s = c.sub(base + n * r, base)
    t = c.div(s, r)
    c.step(f"Without the fixed price, [S] paid {s:$}.")
    c.step(f"That is {t} {unit}s.", f"So [S] paid for {t} {unit}s.")
    return n


@template
def rent_share(c):
    p = c.person()
    k, rent, el = c.i(2, 5), c.m(300, 1500, 10), c.m(20, 120, 10)
    c.say(
        (f"[S] shares a flat with {k - 1} roommates." if k > 2 else "[S] shares a flat with one roommate."),
        (
            f"The rent is ${rent} and the other bills are ${el} a month.",
            f"Each month they pay ${rent} for rent and ${el} for other bills.",
        ),
        "They split everything equally.",
    )
    c.ask("How much does [S] pay each month?", "What is [P] share each month?")
    s = c.add(rent, el)
    t = c.div(s, k)
    c.step(f"Together they pay {s:$}.")
    c.step(f"There are {k} people, so [S] pays {t:$}.")
    return (rent + el) // k


@template
def coins_value(c):
    p = c.person()
    (u, a), (w, b) = c.sample([("quarters", 25), ("dimes", 10), ("nickels", 5)], 2)
    n, m = c.i(2, 12), c.i(2, 15)
    c.say((f"[S] has {n} {u} and {m} {w}.", f"In [P] pocket, [S] has {n} {u} and {m} {w}."))
    s, t = c.mul(n, a), c.mul(m, b)
    v = c.add(s, t)
    c.ask("How many cents does [S] have?", f"How many cents are the coins worth {c.tot}?")
    c.step(f"The {u} are worth {s} cents.")
    c.step(f"The {w} are worth {t} cents.")
    c.step(f"{c.tot.capitalize()}, that is {v} cents.")
    return n * a + m * b


@template
def bills_value(c):
    p, x = c.person(), c.noun("gadget", "sport", "clothing")
    a, b = c.sample([5, 10, 20], 2)
    n, m, cost = c.i(2, 9), c.i(2, 9), c.i(10, 150)
    c.say(f"[S] has {n} ${a} bills and {m} ${b} bills.", f"[S] buys {x.a} for ${cost}.")
    c.ask("How much money does [S] have left?", "How many dollars does [S] have now?")
    s, t = c.mul(n, a), c.mul(m, b)
    u = c.add(s, t)
    v = c.sub(u, cost)
    c.step(f"The ${a} bills are worth {s:$}.")
    c.step(f"The ${b} bills are worth {t:$}.")
    c.step(f"[S] had {u:$}.")
    c.step(f"[S] has {v:$} left.")
    return n * a + m * b - cost


@template
def cents_two_items(c):
    p = c.person()
    x, y = c.nouns(2, "fruit", "bakery", "stationery", "sweet", "veg")
    a, b, n = c.m(25, 500, 5), c.m(25, 500, 5), c.i(2, 6)
    c.say(
        (
            f"{x.a[0].upper() + x.a[1:]} costs ${cents(a)} and {y.a} costs ${cents(b)}.",
            f"At the {c.shop}, {x.a} costs ${cents(a)} and {y.a} costs ${cents(b)}.",
        ),
        f"[S] buys {n} {x} and one {y.s}.",
    )
    c.ask(f"How much does [S] pay {c.tot}?", "What is the total price?")
    s = c.mmul(n, a)
    t = c.madd(s, b)
    c.need((n * a + b) % 100)
    c.step(f"The {x} cost {s:$}.")
    c.step(f"With the {y.s}, [S] pays {t:$}.")
    return cents(n * a + b)


@template
def cents_change(c):
    p = c.person()
    x, y = c.nouns(2, "fruit", "bakery", "stationery", "sweet", "veg")
    a, b, bill = c.m(25, 900, 5), c.m(25, 900, 5), c.p([5, 10, 20])
    c.say(
        f"[S] buys {x.a} for ${cents(a)} and {y.a} for ${cents(b)}.",
        (f"[S] pays with a ${bill} bill.", f"[S] gives the cashier ${bill}."),
    )
    c.ask("How much change does [S] get?", "How much money does [S] get back?")
    s = c.madd(a, b)
    t = c.msub(bill * 100, s)
    c.need((bill * 100 - a - b) % 100)
    c.step(f"Together they cost {s:$}.")
    c.step(f"[S] gets {t:$} back.", f"The change is {t:$}.")
    return cents(bill * 100 - a - b)


@template
def parking(c):
    p = c.person()
    f, r, h = c.i(3, 15), c.i(2, 6), c.i(4, 12)
    c.say(
        (
            f"A parking garage charges ${f} for the first hour and ${r} for each hour after that.",
            f"Parking costs ${f} for the first hour and ${r} for every extra hour.",
        ),
        f"[S] parks there for {h} hours.",
    )
    c.ask("How much does [S] pay?", "What does the parking cost?")
    a = c.sub(h, 1)
    b = c.mul(a, r)
    t = c.add(b, f)
    c.step(f"After the first hour there are {a} more hours.")
    c.step(f"They cost {b:$}.")
    c.step(f"[S] pays {t:$}.")
    return f + (h - 1) * r


@template
def installments(c):
    p, x = c.person(), c.noun("gadget")
    d, m, n = c.i(20, 150), c.i(10, 60), c.i(3, 12)
    cash = d + m * n - c.i(5, 60)
    c.need(cash > d)
    c.say(
        (
            f"[S] buys {x.a} by paying ${d} at once and ${m} a month for {n} months.",
            f"[S] pays ${d} for {x.a} today and then ${m} a month for {n} months.",
        ),
        f"Paying the full price at once would cost ${cash}.",
    )
    c.ask("How much more does [S] pay this way?", "How many dollars more does [S] pay than the full price?")
    a = c.mul(m, n)
    b = c.add(d, a)
    t = c.sub(b, cash)
    c.step(f"The monthly payments are {a:$}.")
    c.step(f"{c.tot.capitalize()}, [S] pays {b:$}.")
    c.step(f"That is {t:$} more.")
    return d + m * n - cash


@template
def price_increase(c):
    p, x = c.person(), c.noun("household", "sport", "gadget", "clothing")
    pr, k, n = c.m(10, 100, 10), c.p([10, 20, 30, 50]), c.i(2, 6)
    c.say(
        (f"Last year {x.a} cost ${pr}.", f"The price of {x.a} was ${pr} last year."),
        f"This year the price is {k}% higher.",
        f"[S] buys {n} {x} this year.",
    )
    c.ask("How much does [S] pay?", f"How many dollars does [S] pay {c.tot}?")
    a = c.pct(pr, k)
    b = c.add(pr, a)
    t = c.mul(b, n)
    c.step(f"The price went up by {a:$}.")
    c.step(f"One {x.s} now costs {b:$}.")
    c.step(f"{n} {x} cost {t:$}.")
    return n * (pr + pr * k // 100)


@template
def cost_times_other(c):
    p = c.person()
    x, y = c.nouns(2, "clothing", "household", "sport", "tool", "toy")
    a, k, n = c.price(x), c.i(2, 4), c.i(2, 6)
    c.say_any(
        f"{x.a[0].upper() + x.a[1:]} costs ${a}.", f"{y.a[0].upper() + y.a[1:]} costs {TIMES[k]} as much as {x.a}."
    )
    c.say(f"[S] buys {n} {x} and one {y.s}.")
    c.ask("How much does [S] spend?", f"How many dollars does [S] need {c.tot}?")
    s, t = c.mul(a, k), c.mul(n, a)
    u = c.add(s, t)
    c.step(f"The {y.s} costs {s:$}.")
    c.step(f"The {x} cost {t:$}.")
    c.step(f"[S] spends {u:$}.")
    return a * k + n * a


@template
def how_many_can_buy(c):
    p, x = c.person(), c.noun(*GOODS)
    a, n, s = c.price(x), c.i(3, 15), c.i(2, 40)
    y = c.noun("read", "clothing", "household")
    h = a * n + s
    c.say(f"[S] has ${h}.", f"[S] spends ${s} on {y.a} and uses the rest to buy {x} for ${a} each.")
    c.ask(f"How many {x} can [S] buy?", f"How many {x} does [S] buy?")
    t = c.sub(h, s)
    u = c.div(t, a)
    c.step(f"After buying the {y.s}, [S] has {t:$}.")
    c.step(f"[S] can buy {u} {x}.")
    return (h - s) // a


@template
def two_earners(c):
    a, b = c.persons(2)
    r, s, h, g = c.i(8, 25), c.i(8, 25), c.i(3, 20), c.i(3, 20)
    c.say(
        f"{a} earns ${r} an hour and {b} earns ${s} an hour.",
        f"Last week {a} worked {h} hours and {b} worked {g} hours.",
    )
    c.ask("How much did they earn together?", f"How many dollars did the two earn {c.tot}?")
    u, v = c.mul(r, h), c.mul(s, g)
    t = c.add(u, v)
    c.step(f"{a} earned {u:$}.")
    c.step(f"{b} earned {v:$}.")
    c.step(f"Together they earned {t:$}.")
    return r * h + s * g


@template
def chores_pay(c):
    p = c.person()
    (u, a), (w, b) = c.sample(
        [
            ("washing a car", c.i(4, 12)),
            ("mowing a lawn", c.i(8, 20)),
            ("walking a dog", c.i(3, 9)),
            ("cleaning a window", c.i(2, 5)),
            ("watering a garden", c.i(2, 8)),
            ("raking a yard", c.i(5, 15)),
        ],
        2,
    )
    n, m, s = c.i(2, 8), c.i(2, 8), c.i(5, 40)
    c.say(
        f"[S] gets ${a} for {u} and ${b} for {w}.",
        f"This month [S] did the first job {n} times and the second job {m} times.",
        f"[S] spent ${s} of the money.",
    )
    c.ask("How much money did [S] have left?", "How many dollars were left?")
    x, y = c.mul(n, a), c.mul(m, b)
    t = c.add(x, y)
    v = c.sub(t, s)
    c.step(f"The first job paid {x:$}.")
    c.step(f"The second job paid {y:$}.")
    c.step(f"[S] earned {t:$}.")
    c.step(f"[S] had {v:$} left.")
    return n * a + m * b - s


@template
def gift_pool(c):
    p, x = c.person(), c.noun("gadget", "sport")
    k, a, h = c.i(3, 9), c.i(4, 20), c.i(5, 40)
    cost = c.i(40, 200)
    c.say(
        (
            f"[S] and [P] friends want to buy {x.a} for ${cost}.",
            f"[S] and [P] friends are saving for {x.a} that costs ${cost}.",
        ),
        f"[S] gives ${h} and each of the {k} friends gives ${a}.",
    )
    c.ask("How much money is still missing?", "How many dollars do they still need?")
    s = c.mul(k, a)
    t = c.add(s, h)
    u = c.sub(cost, t)
    c.step(f"The friends give {s:$}.")
    c.step(f"Together they have {t:$}.")
    c.step(f"They still need {u:$}.")
    return cost - k * a - h


@template
def fundraiser(c):
    p, x = c.person(), c.noun("bakery", "craft", "flower")
    goal, a, n, d = c.m(100, 600, 10), c.i(2, 9), c.i(10, 60), c.i(10, 90)
    c.say(
        (f"[S] wants to raise ${goal} for [P] school.", f"[P] goal is to raise ${goal} for an animal shelter."),
        f"[S] sells {n} {x} for ${a} each.",
        f"[S] also gets ${d} from a neighbor.",
    )
    c.ask("How much more money does [S] need to reach the goal?", "How many dollars are still missing?")
    s = c.mul(n, a)
    t = c.add(s, d)
    u = c.sub(goal, t)
    c.step(f"The {x} bring in {s:$}.")
    c.step(f"So far [S] has {t:$}.")
    c.step(f"[S] still needs {u:$}.")
    return goal - n * a - d
