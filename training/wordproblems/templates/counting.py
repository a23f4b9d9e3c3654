"""Templates: counting, sharing and comparing sets of things."""

from ..fillers import COLORS, DAYS, GOODS, MONTHS, NTH, RELATIVES, SMALL, TIMES
from ..registry import template


@template
def sales_next_month_fraction(c):
    p, x, k = c.person(), c.noun(*GOODS), c.i(2, 5)
    n = c.m(4, 200, k)
    a, b = c.sample(MONTHS, 2)
    c.say((f"[S] sold {n} {x} in {a}.", f"In {a}, [S] sold {n} {x}."))
    c.say((f"In {b}, [S] sold only {NTH[k]} as many.", f"[S] sold {NTH[k]} as many {x} in {b}."))
    c.ask(
        f"How many {x} did [S] sell {c.tot} in the two months?",
        f"How many {x} did [S] sell {c.tot} in {a} and {b}?",
        f"What is the total number of {x} [S] sold in {a} and {b}?",
    )
    h = c.div(n, k)
    t = c.add(n, h)
    c.step(f"[S] sold {h} {x} in {b}.", f"In {b}, [S] sold {h} {x}.")
    c.step(f"[S] sold {t} {x} {c.tot}.", f"In the two months [S] sold {t} {x}.")
    return n + n // k


@template
def sales_times_next_day(c):
    p, x, k = c.person(), c.noun(*GOODS), c.i(2, 5)
    n, m = c.i(4, 60), c.i(3, 40)
    d = c.i(0, 4)
    c.say(
        (f"[S] sold {n} {x} on {DAYS[d]}.", f"On {DAYS[d]}, [S] sold {n} {x}."),
        f"On {DAYS[d + 1]}, [S] sold {TIMES[k]} as many {x} as on {DAYS[d]}.",
        (f"On {DAYS[d + 2]}, [S] sold {m} {x}.", f"[S] sold another {m} {x} on {DAYS[d + 2]}."),
    )
    c.ask(f"How many {x} did [S] sell over the three days?", f"How many {x} did [S] sell {c.tot}?")
    a = c.mul(n, k)
    t = c.add(n, a, m)
    c.step(f"On {DAYS[d + 1]}, [S] sold {a} {x}.")
    c.step(f"Over the three days [S] sold {t} {x}.")
    return n * (k + 1) + m


@template
def start_buy_give(c):
    p, x = c.person(), c.noun()
    a, b, g = c.i(5, 90), c.i(5, 60), c.i(3, 70)
    r = c.p(RELATIVES)
    c.say(
        (f"[S] had {a} {x}.", f"[S] started with {a} {x}.", f"At first, [S] had {a} {x}."),
        (
            f"[S] bought {b} more and then gave {g} {x} to [P] {r}.",
            (
                f"Then [S] got {b} more {x} and gave {g} of them to [P] {r}."
                if g < b
                else f"Then [S] got {b} more {x} and gave {g} {x} to [P] {r}."
            ),
        ),
    )
    c.ask(
        f"How many {x} did [S] have left?", f"How many {x} did [S] have then?", f"How many {x} did [S] have in the end?"
    )
    s = c.add(a, b)
    t = c.sub(s, g)
    c.step(f"After getting more, [S] had {s} {x}.", f"[S] had {s} {x} before giving any away.")
    c.step(f"After giving {g} to [P] {r}, [S] had {t} {x} left.", f"[S] had {t} {x} left.")
    return a + b - g


@template
def containers_then_use(c):
    p, x, b = c.person(), c.noun(*SMALL), c.box
    n, k, u = c.i(2, 12), c.i(4, 30), c.i(3, 60)
    c.say(
        (f"[S] has {n} {b} of {x}.", f"[S] buys {n} {b} of {x}."),
        (f"Each {b.s} holds {k} {x}.", f"There are {k} {x} in each {b.s}.", f"Every {b.s} contains {k} {x}."),
        (f"[S] gives away {u} of the {x}.", f"[S] hands out {u} {x} to [P] friends."),
    )
    c.ask(f"How many {x} are left?", f"How many {x} does [S] still have?", f"How many {x} remain?")
    t = c.mul(n, k)
    left = c.sub(t, u)
    c.step(f"The {b} hold {t} {x} {c.tot}.", f"There are {t} {x} in the {n} {b}.")
    c.step(f"After giving some away, [S] has {left} {x} left.", f"There are {left} {x} left.")
    return n * k - u


@template
def containers_plus_loose(c):
    p, x, b = c.person(), c.noun(*SMALL), c.box
    n, k, u = c.i(2, 12), c.i(3, 30), c.i(2, 40)
    c.say_any(
        (f"[S] has {n} {b} with {k} {x} in each.", f"[S] owns {n} {b}, and each {b.s} holds {k} {x}."),
        (f"[S] also has {u} loose {x} on [P] desk.", f"On a shelf, [S] keeps another {u} {x}."),
    )
    c.ask(f"How many {x} does [S] have {c.tot}?", f"What is the total number of {x} that [S] has?")
    t = c.mul(n, k)
    s = c.add(t, u)
    c.step(f"The {b} hold {t} {x}.", f"In the {b} there are {t} {x}.")
    c.step(f"{c.tot.capitalize()}, [S] has {s} {x}.", f"With the others, [S] has {s} {x}.")
    return n * k + u


@template
def two_kinds_of_containers(c):
    p, x, b = c.person(), c.noun(*SMALL), c.box
    n, k, m, j = c.i(2, 9), c.i(4, 20), c.i(2, 9), c.i(21, 50)
    c.say(
        (f"[S] packs {x} into small and large {b}.", f"[S] is packing {x} for a {c.shop}."),
        (
            f"A small {b.s} holds {k} {x} and a large {b.s} holds {j}.",
            f"Each small {b.s} takes {k} {x}, while each large {b.s} takes {j} {x}.",
        ),
        (f"[S] fills {n} small {b} and {m} large {b}.", f"[S] has filled {m} large {b} and {n} small {b}."),
    )
    c.ask(f"How many {x} does [S] pack {c.tot}?", f"How many {x} are packed {c.tot}?")
    a, d = c.mul(n, k), c.mul(m, j)
    t = c.add(a, d)
    c.step(f"The small {b} hold {a} {x}.")
    c.step(f"The large {b} hold {d} {x}.")
    c.step(f"{c.tot.capitalize()}, [S] packs {t} {x}.")
    return n * k + m * j


@template
def give_each_friend(c):
    p, x = c.person(), c.noun()
    n, f, k = c.i(20, 200), c.i(3, 12), c.i(2, 12)
    c.say(
        (f"[S] has {n} {x}.", f"[S] collected {n} {x}."),
        (f"[S] gives {k} {x} to each of [P] {f} friends.", f"Each of [P] {f} friends gets {k} {x} from [O]."),
    )
    c.ask(f"How many {x} does [S] have left?", f"How many {x} does [S] keep?")
    g = c.mul(f, k)
    t = c.sub(n, g)
    c.step(f"[S] gives away {g} {x}.", f"The friends get {g} {x} {c.tot}.")
    c.step(f"[S] has {t} {x} left.", f"That leaves [O] with {t} {x}.")
    return n - f * k


@template
def pool_and_share(c):
    a, b = c.persons(2)
    x, k = c.noun(), c.i(2, 9)
    n, m = c.i(5, 80), c.i(5, 80)
    c.say(
        (f"{a} has {n} {x} and {b} has {m} {x}.", f"{a} found {n} {x}, while {b} found {m}."),
        (
            f"They put all of the {x} together and share them equally among {k} children.",
            f"They pool the {x} and divide them equally between {k} friends.",
        ),
    )
    c.ask(f"How many {x} does each one get?", f"How many {x} will each of the {k} get?")
    s = c.add(n, m)
    t = c.div(s, k)
    c.step(f"Together {a} and {b} have {s} {x}.", f"There are {s} {x} {c.tot}.")
    c.step(f"Each one gets {t} {x}.")
    return (n + m) // k


@template
def share_what_is_left(c):
    p, x, k = c.person(), c.noun(*SMALL), c.i(2, 8)
    n, u = c.i(12, 150), c.i(3, 40)
    c.say(
        (f"[S] picked up {n} {x} at the {c.shop}.", f"[S] brought {n} {x} to a party."),
        (
            f"[S] kept {u} of them and shared the rest equally among {k} friends.",
            f"After setting {u} aside, [S] divided the rest equally among {k} friends.",
        ),
    )
    c.ask(f"How many {x} did each friend get?", f"How many {x} did every friend receive?")
    s = c.sub(n, u)
    t = c.div(s, k)
    c.step(f"[S] shared {s} {x}.", f"There were {s} {x} to share.")
    c.step(f"Each friend got {t} {x}.")
    return (n - u) // k


@template
def times_as_many_total(c):
    a, b = c.persons(2)
    x, k, n = c.noun(), c.i(2, 6), c.i(3, 120)
    c.say_any(
        (
            f"{a} has {TIMES[k]} as many {x} as {b}.",
            (
                f"The number of {x} that {a} has is {k} times the number that {b} has."
                if k > 2
                else f"{a} has twice the number of {x} that {b} has."
            ),
        ),
        (f"{b} has {n} {x}.", f"There are {n} {x} in {b.s} collection."),
    )
    c.ask(f"How many {x} do {a} and {b} have together?", f"How many {x} do they have {c.tot}?")
    t = c.mul(n, k)
    s = c.add(t, n)
    c.step(f"{a} has {t} {x}.")
    c.step(f"Together they have {s} {x}.")
    return n * (k + 1)


@template
def three_person_chain(c):
    a, b, d = c.persons(3)
    x, k, n, m = c.noun(), c.i(2, 4), c.i(5, 60), c.i(2, 20)
    more = c.i(0, 1)
    c.say(
        (f"{a} has {n} {x}.", f"{a} owns {n} {x}."),
        f"{b} has {TIMES[k]} as many {x} as {a}.",
        f"{d} has {m} {'more' if more else 'fewer'} {x} than {b}.",
    )
    t = c.mul(n, k)
    u = c.add(t, m) if more else c.sub(t, m)
    c.step(f"{b} has {t} {x}.")
    c.step(f"{d} has {u} {x}.")
    if c.i(0, 1):
        c.ask(f"How many {x} does {d} have?")
        return n * k + (m if more else -m)
    c.ask(f"How many {x} do the three of them have {c.tot}?", f"How many {x} do they have {c.tot}?")
    c.step(f"Together they have {c.add(n, t, u)} {x}.")
    return n + 2 * n * k + (m if more else -m)


@template
def more_than_total(c):
    a, b = c.persons(2)
    x, n, d = c.noun(), c.i(5, 150), c.i(3, 60)
    c.say_any(
        (f"{a} collected {n} {x}.", f"{a} found {n} {x}."),
        (f"{b} collected {d} more {x} than {a}.", f"{b} got {d} {x} more than {a} did."),
    )
    c.ask(f"How many {x} do {a} and {b} have {c.tot}?", f"How many {x} did they get {c.tot}?")
    s = c.add(n, d)
    t = c.add(n, s)
    c.step(f"{b} got {s} {x}.")
    c.step(f"Together they got {t} {x}.")
    return 2 * n + d


@template
def fewer_then_difference(c):
    a, b, d = c.persons(3)
    x, n, m, k = c.noun(), c.i(20, 150), c.i(3, 60), c.i(2, 4)
    c.say(f"{a} has {n} {x}.", f"{b} has {m} fewer {x} than {a}.", f"{d} has {TIMES[k]} as many {x} as {b}.")
    c.ask(
        f"How many more {x} does {d} have than {a}?",
        f"What is the difference between the number of {x} that {d} has and the number that {a} has?",
    )
    s = c.sub(n, m)
    t = c.mul(s, k)
    u = c.sub(t, n)
    c.step(f"{b} has {s} {x}.")
    c.step(f"{d} has {t} {x}.")
    c.step(f"The difference is {u} {x}.", f"{d} has {u} more {x} than {a}.")
    return (n - m) * k - n


@template
def lost_then_found(c):
    p, x = c.person(), c.noun("collectible", "stationery", "toy")
    n, l, f = c.i(20, 150), c.i(5, 60), c.i(2, 40)
    c.need(f < l)
    c.say(
        (f"[S] had {n} {x} in [P] collection.", f"There were {n} {x} in a drawer in [P] room."),
        (f"[S] lost {l} of them when moving to a new house.", f"[S] lost {l} of these {x}."),
        (f"Later [S] found {f} of the lost {x}.", f"A week later, {f} of the lost {x} turned up."),
    )
    c.ask(f"How many {x} does [S] have now?", f"How many {x} are there now?")
    s = c.sub(n, l)
    t = c.add(s, f)
    c.step(f"After losing {l}, [S] had {s} {x}.")
    c.step(f"Now [S] has {t} {x}.", f"After finding {f}, [S] has {t} {x}.")
    return n - l + f


@template
def rows_minus(c):
    r, k, e = c.i(4, 30), c.i(5, 30), c.i(3, 80)
    place = c.p(["theater", "concert hall", "cinema", "lecture hall", "school hall", "circus tent"])
    p = c.person()
    c.say(
        (f"[S] counts the seats in a {place}.", f"[S] works in a {place}."),
        (f"There are {r} rows with {k} seats in each row.", f"The {place} has {r} rows of {k} seats."),
        (f"There are {e} empty seats tonight.", f"Tonight {e} of the seats are empty."),
    )
    c.ask(
        "How many seats are taken?", "How many people are sitting in the seats?", "How many seats are in use tonight?"
    )
    t = c.mul(r, k)
    s = c.sub(t, e)
    c.step(f"The {place} has {t} seats.", f"There are {t} seats {c.tot}.")
    c.step(f"{s} seats are taken.", f"So {s} seats are in use.")
    return r * k - e


@template
def garden_rows(c):
    p, x = c.person(), c.noun("flower", "plant", "veg")
    r, k, w, m = c.i(3, 15), c.i(4, 20), c.i(2, 30), c.i(2, 30)
    x_ = x.pl if x.kind != "veg" else x.s + " plants"
    c.say(
        (f"[S] planted {r} rows of {x_} with {k} in each row.", f"In [P] garden, [S] planted {r} rows of {k} {x_}."),
        (f"After a storm, {w} of them died.", f"{w} of the {x_} dried up."),
        (f"[S] then planted {m} new ones.", f"[S] planted {m} more."),
    )
    c.ask(f"How many {x_} are in the garden now?", f"How many {x_} does [S] have now?")
    t = c.mul(r, k)
    s = c.sub(t, w)
    u = c.add(s, m)
    c.step(f"At first, there were {t} {x_}.", f"[S] planted {t} {x_} at first.")
    c.step(f"Then {s} {x_} were left.")
    c.step(f"Now there are {u} {x_}.")
    return r * k - w + m


@template
def pack_leftover(c):
    p, x, b = c.person(), c.noun(*SMALL), c.box
    k, q, r = c.i(4, 12), c.i(3, 15), c.i(2, 11)
    c.need(r < k)
    n = k * q + r
    a = c.i(5, n - 5)
    c.say(
        (f"[S] has {a} {x} and gets {n - a} more.", f"[S] gets {a} {x} in the morning and {n - a} in the afternoon."),
        (
            f"[S] packs them into {b} of {k} and keeps what is left over.",
            (
                f"[S] fills {b} with exactly {k} {x} each and eats what is left over."
                if x.kind in ("fruit", "sweet", "bakery")
                else f"[S] fills {b} with exactly {k} {x} each and keeps the rest."
            ),
        ),
    )
    c.ask(f"How many {x} are left over?", f"How many {x} do not fit into a full {b.s}?")
    t = c.add(a, n - a)
    f = c.mul(q, k)
    u = c.sub(t, f)
    c.step(f"[S] has {t} {x} {c.tot}.")
    c.step(
        f"{q} full {b} hold {f} {x}, and there are not enough {x} for another full one.",
        f"[S] can fill {q} {b} with {f} {x}.",
    )
    c.step(f"{u} {x} are left over.", f"That leaves {u} {x}.")
    return n % k


@template
def containers_needed(c):
    p, x, b = c.person(), c.noun(*SMALL), c.box
    k, q, h = c.i(3, 12), c.i(4, 25), c.i(2, 12)
    n = k * q
    c.say(
        (f"[S] needs to pack {n} {x} for a {c.shop}.", f"[S] wants to pack {n} {x}."),
        (f"Each {b.s} holds {k} {x}.", f"{k} {x} fit into each {b.s}."),
        (f"[S] already has {h} {b}.", f"[S] has only {h} {b} at home."),
    )
    c.ask(f"How many more {b} does [S] need?", f"How many {b} does [S] still have to get?")
    t = c.div(n, k)
    s = c.sub(t, h)
    c.step(f"[S] needs {t} {b} for all of the {x}.", f"All of the {x} fill {t} {b}.")
    c.step(f"[S] needs {s} more {b}.")
    return n // k - h


@template
def fraction_of_set_rest(c):
    p, x, k = c.person(), c.noun("collectible", "clothing", "toy", "flower", "household"), c.p([2, 3, 4, 5])
    n, m = c.m(8, 150, k), c.i(2, 30)
    a, b, d = c.sample(COLORS, 3)
    c.say(
        (f"[S] has {n} {x}.", f"There are {n} {x} in a box that belongs to {p}."),
        (
            f"{NTH[k].capitalize()} of them are {a}, {m} are {b}, and the rest are {d}.",
            f"Of these, {NTH[k]} are {a} and {m} are {b}. All the others are {d}.",
        ),
    )
    c.ask(f"How many {x} are {d}?", f"How many {d} {x} are there?")
    f = c.div(n, k)
    s = c.add(f, m)
    t = c.sub(n, s)
    c.step(f"{f} {x} are {a}.", f"The number of {a} {x} is {f}.")
    c.step(f"The {a} and {b} ones together are {s} {x}.")
    c.step(f"So {t} {x} are {d}.")
    return n - n // k - m


@template
def fraction_twice(c):
    p, x, k, j = c.person(), c.noun(*SMALL), c.p([2, 3, 4, 5]), c.p([2, 3, 4])
    n = c.m(12, 240, k)
    c.say(
        (f"[S] had {n} {x}.", f"[S] started the week with {n} {x}."),
        (f"[S] gave {NTH[k]} of them to [P] {c.p(RELATIVES)}.", f"On {c.p(DAYS)}, [S] sold {NTH[k]} of the {x}."),
        (f"Then [S] gave {NTH[j]} of the rest to a friend.", f"Later [S] used {NTH[j]} of what was left."),
    )
    c.ask(f"How many {x} did [S] have in the end?", f"How many {x} were left?")
    f = c.div(n, k)
    s = c.sub(n, f)
    g = c.div(s, j)
    t = c.sub(s, g)
    c.step(f"First, {f} {x} were gone.", f"The first part was {f} {x}.")
    c.step(f"Then {s} {x} were left.", f"That left {s} {x}.")
    c.step(f"The second part was {g} {x}.")
    c.step(f"In the end, [S] had {t} {x}.")
    return (n - n // k) - (n - n // k) // j


@template
def fraction_then_buy(c):
    p, x, k = c.person(), c.noun(), c.p([2, 3, 4, 5])
    n, m = c.m(8, 160, k), c.i(4, 60)
    c.say(
        f"[S] has {n} {x}.",
        (
            f"[S] gives {NTH[k]} of the {x} to [P] {c.p(RELATIVES)} and then buys {m} more.",
            f"After giving {NTH[k]} of them to a friend, [S] gets {m} new {x}.",
        ),
    )
    c.ask(f"How many {x} does [S] have now?", f"How many {x} does [S] end up with?")
    f = c.div(n, k)
    s = c.sub(n, f)
    t = c.add(s, m)
    c.step(f"[S] gives away {f} {x}.")
    c.step(f"That leaves {s} {x}.", f"[S] has {s} {x} left.")
    c.step(f"Then [S] has {t} {x}.", f"With the new ones, [S] has {t} {x}.")
    return n - n // k + m


@template
def reverse_fraction(c):
    p, x, k, g = c.person(), c.noun(), c.p([3, 4, 5, 6]), c.i(3, 40)
    c.say(
        (f"[S] gave {NTH[k]} of [P] {x} to a friend.", f"[S] sold {NTH[k]} of [P] {x}."),
        (f"That was {g} {x}.", f"These were {g} {x}."),
    )
    c.ask(f"How many {x} did [S] have left?", f"How many {x} does [S] still have?")
    t = c.mul(g, k)
    s = c.sub(t, g)
    c.step(f"[S] had {t} {x} at first.", f"At the start there were {t} {x}.")
    c.step(f"[S] had {s} {x} left.", f"So {s} {x} were left.")
    return g * (k - 1)


@template
def reverse_half_and_more(c):
    p, x = c.person(), c.noun(*SMALL)
    left, m = c.i(3, 50), c.i(2, 30)
    c.say(
        (f"[S] gave half of [P] {x} to [P] {c.p(RELATIVES)}.", f"In the morning, [S] sold half of [P] {x}."),
        (f"Then [S] gave away {m} more.", f"After that, [S] used {m} more."),
        (f"Now [S] has {left} {x} left.", f"In the end, [S] had {left} {x}."),
    )
    c.ask(f"How many {x} did [S] have at the start?", f"How many {x} did [S] have at first?")
    s = c.add(left, m)
    t = c.mul(s, 2)
    c.step(f"Before the second change, [S] had {s} {x}.")
    c.step(f"That is half of the {x}, so at first [S] had {t} {x}.")
    return 2 * (left + m)


@template
def three_colors(c):
    p, x, k = c.person(), c.noun("collectible", "toy", "clothing", "flower"), c.i(2, 4)
    n, m = c.i(4, 50), c.i(2, 20)
    a, b, d = c.sample(COLORS, 3)
    more = c.i(0, 1)
    c.say(
        (f"[S] has {n} {a} {x}.", f"There are {n} {a} {x} in a bag that {p} found."),
        f"There are {TIMES[k]} as many {b} {x} as {a} ones.",
        f"There are {m} {'more' if more else 'fewer'} {d} {x} than {b} ones.",
    )
    c.ask(f"How many {x} are there {c.tot}?", f"How many {a}, {b} and {d} {x} are there {c.tot}?")
    t = c.mul(n, k)
    u = c.add(t, m) if more else c.sub(t, m)
    s = c.add(n, t, u)
    c.step(f"There are {t} {b} {x}.")
    c.step(f"There are {u} {d} {x}.")
    c.step(f"{c.tot.capitalize()}, there are {s} {x}.")
    return n + 2 * n * k + (m if more else -m)


@template
def compare_after_trade(c):
    a, b = c.persons(2)
    x = c.noun()
    n, m, g = c.i(20, 100), c.i(5, 90), c.i(2, 20)
    c.say(f"{a} has {n} {x} and {b} has {m} {x}.", (f"{a} gives {g} {x} to {b}.", f"{b} gets {g} {x} from {a}."))
    c.ask(f"How many more {x} does {a} have than {b} now?", f"Now how many more {x} does {a} have than {b}?")
    s, t = c.sub(n, g), c.add(m, g)
    u = c.sub(s, t)
    c.step(f"{a} now has {s} {x}.")
    c.step(f"{b} now has {t} {x}.")
    c.step(f"{a} has {u} more {x}.")
    return n - m - 2 * g


@template
def equalize(c):
    a, b = c.persons(2)
    x = c.noun()
    n, m = c.i(10, 120), c.i(4, 100)
    c.say(f"{a} has {n} {x}, and {b} has {m} {x}.", f"They want to have the same number of {x}.")
    c.ask(f"How many {x} should {a} give to {b}?", f"How many {x} must {a} give {b}?")
    d = c.sub(n, m)
    t = c.div(d, 2)
    c.step(f"{a} has {d} more {x} than {b}.")
    c.step(f"{a} should give half of the difference, which is {t} {x}.")
    return (n - m) // 2


@template
def make_per_day_weeks(c):
    p, x = c.person(), c.noun("craft")
    n, d, w, s = c.i(2, 9), c.i(3, 6), c.i(2, 6), c.i(5, 60)
    c.say(
        (
            f"[S] makes {n} {x} a day and works {d} days a week.",
            f"[S] works {d} days a week and makes {n} {x} every day.",
        ),
        (f"After {w} weeks, [S] has sold {s} of them.", f"[S] sells {s} of the {x} made in {w} weeks."),
    )
    c.ask(f"How many {x} are not sold?", f"How many of the {x} are left?")
    a = c.mul(n, d)
    b = c.mul(a, w)
    t = c.sub(b, s)
    c.step(f"[S] makes {a} {x} a week.")
    c.step(f"In {w} weeks, [S] makes {b} {x}.")
    c.step(f"That leaves {t} {x}.", f"{t} {x} are left.")
    return n * d * w - s


@template
def album_pages(c):
    p, x = c.person(), c.noun("collectible")
    k, pg, al, h = c.i(4, 12), c.i(5, 20), c.i(2, 5), c.i(10, 150)
    c.say(
        (f"[S] keeps [P] {x} in {al} albums.", f"[S] has {al} albums for [P] {x}."),
        (
            f"Each album has {pg} pages, and each page holds {k} {x}.",
            f"Every album has {pg} pages with room for {k} {x} on each page.",
        ),
        f"So far, [S] has {h} {x}.",
    )
    c.ask(f"How many more {x} can [S] put into the albums?", f"For how many more {x} is there room?")
    a = c.mul(pg, k)
    b = c.mul(a, al)
    t = c.sub(b, h)
    c.step(f"One album holds {a} {x}.")
    c.step(f"The {al} albums hold {b} {x}.")
    c.step(f"There is room for {t} more {x}.")
    return k * pg * al - h


@template
def shelves_and_rooms(c):
    p, x = c.person(), c.noun("read")
    s, k, n, b = c.i(3, 8), c.i(8, 25), c.i(2, 5), c.i(10, 80)
    c.say(
        (f"[S] looks after {n} bookcases in a library.", f"A library where {p} works has {n} bookcases."),
        f"Each bookcase has {s} shelves, and there are {k} {x} on each shelf.",
        f"Today {b} of the {x} are borrowed.",
    )
    c.ask(f"How many {x} are still on the shelves?", f"How many {x} are left in the library?")
    a = c.mul(s, k)
    t = c.mul(a, n)
    u = c.sub(t, b)
    c.step(f"One bookcase holds {a} {x}.")
    c.step(f"All of the bookcases hold {t} {x}.")
    c.step(f"{u} {x} are still there.", f"So {u} {x} are left.")
    return s * k * n - b


@template
def sum_of_three_missing(c):
    a, b, d = c.persons(3)
    x = c.noun()
    n, m, t = c.i(5, 60), c.i(5, 60), c.i(30, 250)
    c.say(f"{a}, {b} and {d} have {t} {x} {c.tot}.", f"{a} has {n} {x} and {b} has {m}.")
    c.ask(f"How many {x} does {d} have?", f"How many of the {x} belong to {d}?")
    s = c.add(n, m)
    u = c.sub(t, s)
    c.step(f"{a} and {b} have {s} {x}.")
    c.step(f"{d} has {u} {x}.")
    return t - n - m


@template
def twice_total_given(c):
    a, b = c.persons(2)
    x, k, n = c.noun(), c.i(2, 5), c.i(4, 60)
    tot = n * (k + 1)
    c.say(
        (f"{a} and {b} have {tot} {x} {c.tot}.", f"Together {a} and {b} own {tot} {x}."),
        f"{a} has {TIMES[k]} as many {x} as {b}.",
    )
    parts = c.add(k, 1)
    s = c.div(tot, parts)
    t = c.mul(s, k)
    c.step(f"If {b} has 1 part, then {a} has {k} parts, and there are {parts} parts.")
    c.step(f"One part is {s} {x}, so {b} has {s.v}.")
    if c.i(0, 1):
        c.ask(f"How many {x} does {b} have?")
        return tot // (k + 1)
    c.ask(f"How many {x} does {a} have?")
    c.step(f"{a} has {t} {x}.")
    return tot // (k + 1) * k


@template
def guests_each_get(c):
    p, x = c.person(), c.noun("sweet", "toy", "stationery", "bakery")
    g, k, e, h = c.i(4, 20), c.i(2, 6), c.i(2, 15), c.i(5, 50)
    c.say(
        (f"[S] is planning a party for {g} guests.", f"[S] has invited {g} guests to a party."),
        (
            f"[S] wants {k} {x} for each guest and {e} extra ones.",
            f"Each guest will get {k} {x}, and [S] wants {e} more to be safe.",
        ),
        f"[S] already has {h} {x}.",
    )
    c.ask(f"How many {x} does [S] still need?", f"How many more {x} must [S] get?")
    a = c.mul(g, k)
    b = c.add(a, e)
    t = c.sub(b, h)
    c.step(f"The guests get {a} {x}.")
    c.step(f"With the extra ones, [S] needs {b} {x}.")
    c.step(f"[S] still needs {t} {x}.")
    return g * k + e - h
