"""Templates: travel, clock times, temperatures and other things that change with time."""

from ..fillers import CITIES, DAYS, TOWNS
from ..registry import template


@template
def travel_two_legs(c):
    p = c.person()
    a, h, b, g = c.i(10, 90), c.i(2, 6), c.i(10, 90), c.i(2, 6)
    v = c.p(["drives", "travels", "rides"])
    x, y = c.sample(TOWNS, 2)
    c.say(
        (
            f"On the way from {x} to {y}, [S] {v} at {a} miles an hour for {h} hours "
            f"and at {b} miles an hour for {g} hours.",
            f"[S] {v} for {h} hours at {a} miles an hour and then for {g} hours at {b} miles an hour.",
        )
    )
    c.ask(f"How many miles does [S] go {c.tot}?", f"How far does [S] go {c.tot}, in miles?")
    s, t = c.mul(a, h), c.mul(b, g)
    u = c.add(s, t)
    c.step(f"In the first part, [S] goes {s} miles.")
    c.step(f"In the second part, [S] goes {t} miles.")
    c.step(f"{c.tot.capitalize()}, [S] goes {u} miles.")
    return a * h + b * g


@template
def travel_remaining(c):
    p = c.person()
    s, h, k = c.m(20, 80, 5), c.i(2, 5), c.i(2, 5)
    n = s * (h + k)
    x, y = c.sample(TOWNS, 2)
    c.say(
        (
            f"[S] drives from {x} to {y}, which is {n} miles.",
            f"The distance from {x} to {y} is {n} miles, and {p} is driving there.",
        ),
        f"[S] has driven for {h} hours at {s} miles an hour.",
    )
    if c.i(0, 1):
        c.ask("How many miles are left?")
        a = c.mul(s, h)
        c.step(f"So far, [S] has driven {a} miles.")
        c.step(f"There are {c.sub(n, a)} miles left.")
        return s * k
    c.ask("At this speed, how many more hours will it take?", "How many more hours does [S] need at the same speed?")
    a = c.mul(s, h)
    b = c.sub(n, a)
    c.step(f"So far, [S] has driven {a} miles.")
    c.step(f"There are {b} miles left.")
    c.step(f"[S] needs {c.div(b, s)} more hours.")
    return k


@template
def commute_week(c):
    p = c.person()
    d, n, e = c.i(2, 25), c.i(3, 6), c.i(4, 60)
    v = c.p([("bikes", "bikes"), ("walks", "walks"), ("drives", "drives"), ("runs", "runs")])[0]
    t = c.p(["school", "work", "the gym", "the library"])
    c.say(
        (
            f"[S] {v} {d} miles to {t} and the same way back, {n} days a week.",
            f"On {n} days a week, [S] {v} {d} miles to {t} and {d} miles back.",
        ),
        f"On the weekend, [S] {v} another {e} miles.",
    )
    c.ask(f"How many miles is that {c.tot} in a week?", "What is the total number of miles in a week?")
    a = c.mul(d, 2)
    b = c.mul(a, n)
    s = c.add(b, e)
    c.step(f"Each day, [S] goes {a} miles.")
    c.step(f"In {n} days, that is {b} miles.")
    c.step(f"With the weekend, it is {s} miles.")
    return 2 * d * n + e


@template
def two_travelers(c):
    a, b = c.persons(2)
    r, s, h = c.i(3, 60), c.i(3, 60), c.i(2, 8)
    c.need(r != s)
    if c.i(0, 1):
        c.say(
            (
                f"{a} and {b} start at the same place and go in opposite directions.",
                f"{a} and {b} leave a town in opposite directions at the same time.",
            ),
            f"{a} goes {r} miles an hour and {b} goes {s} miles an hour.",
        )
        c.ask(f"How many miles apart are they after {h} hours?", f"How far apart are they after {h} hours, in miles?")
        u, v = c.mul(r, h), c.mul(s, h)
        t = c.add(u, v)
        res = (r + s) * h
        c.step(f"{a} goes {u} miles.")
        c.step(f"{b} goes {v} miles.")
    else:
        c.need(r > s + 1)
        c.say(
            f"{a} and {b} start at the same place and go in the same direction.",
            f"{a} goes {r} miles an hour and {b} goes {s} miles an hour.",
        )
        c.ask(f"How many miles ahead is {a} after {h} hours?")
        u = c.sub(r, s)
        t = c.mul(u, h)
        res = (r - s) * h
        c.step(f"{a} goes {u} miles an hour faster than {b}.")
    c.step(f"After {h} hours they are {t} miles apart.")
    return res


@template
def average_speed(c):
    p = c.person()
    a, b, h, g = c.i(10, 200), c.i(10, 200), c.i(1, 4), c.i(1, 4)
    c.need(h + g > 2)
    w = lambda n: f"{n} hour" + "s" * (n > 1)
    c.say(
        (
            f"[S] drove {a} miles in {w(h)} and then {b} miles in {w(g)}.",
            f"In {w(h)}, [S] traveled {a} miles. The next {b} miles took {w(g)}.",
        )
    )
    c.ask("What was [P] average speed in miles per hour?", "How many miles per hour did [S] go on average?")
    s, t = c.add(a, b), c.add(h, g)
    v = c.div(s, t)
    c.step(f"[S] went {s} miles.")
    c.step(f"It took {t} hours.")
    c.step(f"The average speed was {v} miles per hour.")
    return (a + b) // (h + g)


@template
def tasks_minutes(c):
    p = c.person()
    acts = c.sample(
        [
            "doing homework",
            "cooking dinner",
            "cleaning the kitchen",
            "practicing the piano",
            "walking the dog",
            "ironing shirts",
            "watering plants",
            "drawing",
        ],
        3,
    )
    a, b, d = c.m(10, 60, 5), c.m(10, 60, 5), c.m(10, 60, 5)
    h = c.i(2, 4)
    c.say(
        (f"[S] has {h} hours of free time.", f"[S] comes home {h} hours before bedtime."),
        f"[S] spends {a} minutes {acts[0]}, {b} minutes {acts[1]} and {d} minutes {acts[2]}.",
    )
    c.ask("How many minutes are left?", "How many minutes does [S] have left?")
    s = c.mul(h, 60)
    t = c.add(a, b, d)
    u = c.sub(s, t)
    c.step(f"[S] has {s} minutes.")
    c.step(f"[S] uses {t} minutes.")
    c.step(f"[S] has {u} minutes left.")
    return h * 60 - a - b - d


@template
def minutes_per_week(c):
    p = c.person()
    act = c.p(
        [
            "practices the violin",
            "plays chess",
            "exercises",
            "studies French",
            "does yoga",
            "swims",
            "paints",
            "reads the news",
        ]
    )
    m, e, d = c.m(10, 60, 5), c.m(15, 120, 5), c.i(3, 6)
    c.say(
        (
            f"[S] {act} for {m} minutes a day on {d} days a week.",
            f"On {d} days of the week, [S] {act} for {m} minutes.",
        ),
        f"On Sunday, [S] {act} for {e} minutes.",
    )
    w = c.i(2, 4)
    c.ask(f"How many minutes does [S] spend on this in {w} weeks?", f"How many minutes is that in {w} weeks?")
    a = c.mul(m, d)
    b = c.add(a, e)
    t = c.mul(b, w)
    c.step(f"On the {d} days, it is {a} minutes.")
    c.step(f"With Sunday, it is {b} minutes a week.")
    c.step(f"In {w} weeks, it is {t} minutes.")
    return (m * d + e) * w


@template
def episodes_hours(c):
    p = c.person()
    m, k, s = c.m(20, 60, 5), c.i(4, 24), c.i(2, 4)
    c.say(
        (
            f"[S] watches a series with {s} seasons of {k} episodes each.",
            f"A series that {p} likes has {s} seasons, and each season has {k} episodes.",
        ),
        f"Each episode takes {m} minutes.",
    )
    c.ask("How many hours does it take to watch all of it?", "How many hours long is the whole series?")
    a = c.mul(s, k)
    b = c.mul(a, m)
    t = c.div(b, 60)
    c.step(f"There are {a} episodes.")
    c.step(f"They take {b} minutes.")
    c.step(f"That is {t} hours.")
    return s * k * m // 60


@template
def steps_walking(c):
    p = c.person()
    r, m, h = c.i(50, 120), c.i(5, 40), c.i(100, 3000)
    goal = c.m(2000, 9000, 500)
    c.say(
        (f"[S] wants to take {goal} steps today.", f"[P] goal is to take {goal} steps a day."),
        f"So far, [S] has taken {h} steps.",
        f"Then [S] walks for {m} minutes and takes {r} steps a minute.",
    )
    c.ask("How many steps are missing?", "How many more steps does [S] need to reach the goal?")
    a = c.mul(r, m)
    b = c.add(h, a)
    t = c.sub(goal, b)
    c.step(f"On the walk, [S] takes {a} steps.")
    c.step(f"Now [S] has taken {b} steps.")
    c.step(f"[S] needs {t} more steps.")
    return goal - h - r * m


@template
def laps_week(c):
    p = c.person()
    l, k, d, _ = c.m(50, 400, 50), c.i(2, 12), c.i(2, 6), c.i(1, 2)
    act = c.p(["swims", "runs", "walks", "cycles"])
    c.say(
        (f"[S] {act} {k} laps a day, {d} days a week.", f"On {d} days a week, [S] {act} {k} laps."),
        f"One lap is {l} meters long.",
    )
    a = c.mul(k, l)
    b = c.mul(a, d)
    c.step(f"Each day, [S] {act} {a} meters.")
    c.step(f"In a week, that is {b} meters.")
    if b.v % 1000 == 0 and b.v > 1000:
        c.ask("How many kilometers is that in a week?", f"How many kilometers a week is that {c.tot}?")
        c.step(f"This is {c.div(b, 1000)} kilometers.")
        return k * l * d // 1000
    c.ask("How many meters is that in a week?", f"How many meters a week is that {c.tot}?")
    return k * l * d


@template
def candle_burn(c):
    p = c.person()
    r, h, left, k = c.i(2, 5), c.i(2, 6), c.i(2, 20), c.i(2, 6)
    n = r * h + left
    c.say(
        (
            f"[S] lights {k} candles that are {n} centimeters tall.",
            f"{k} candles on [P] table are {n} centimeters tall.",
        ),
        f"Each candle gets {r} centimeters shorter every hour.",
    )
    c.ask(
        f"How tall is each candle after {h} hours, in centimeters?",
        f"After {h} hours, how many centimeters are left of each candle?",
    )
    a = c.mul(r, h)
    t = c.sub(n, a)
    c.step(f"In {h} hours, a candle gets {a} centimeters shorter.")
    c.step(f"Then it is {t} centimeters tall.")
    return left


@template
def temperature_change(c):
    p = c.person()
    s, u, d, e = c.i(5, 70), c.i(3, 25), c.i(2, 20), c.i(2, 6)
    city = c.p(CITIES)
    c.say(
        (
            f"In the morning, the temperature in {city} was {s} degrees.",
            f"[S] woke up in {city}, and it was {s} degrees outside.",
        ),
        f"By noon it had risen by {u} degrees.",
        f"In the evening it fell by {d} degrees, and at night by another {e} degrees.",
    )
    c.ask("What was the temperature at night?", "How many degrees was it at night?")
    a = c.add(s, u)
    b = c.sub(a, d)
    t = c.sub(b, e)
    c.step(f"At noon it was {a} degrees.")
    c.step(f"In the evening it was {b} degrees.")
    c.step(f"At night it was {t} degrees.")
    return s + u - d - e


@template
def temperature_per_hour(c):
    p = c.person()
    s, r, h = c.i(10, 60), c.i(2, 6), c.i(2, 8)
    goal = s + r * h
    what = c.p(["an oven", "a pot of water", "a greenhouse", "a room", "a bath"])
    the = "the " + what.split(" ", 1)[1]
    c.say(
        (f"[S] heats {what} that is {s} degrees warm.", f"[S] is warming up {what}, which is at {s} degrees now."),
        f"The temperature rises by {r} degrees every minute.",
    )
    c.ask(
        f"How many minutes does it take until {the} is at {goal} degrees?",
        f"After how many minutes is {the} {goal} degrees warm?",
    )
    a = c.sub(goal, s)
    t = c.div(a, r)
    c.step(f"The temperature has to rise by {a} degrees.")
    c.step(f"It takes {t} minutes.")
    return h


@template
def plant_growth(c):
    p, x = c.person(), c.noun("plant", "flower")
    s, r, w = c.i(3, 40), c.i(2, 8), c.i(2, 10)
    cut = c.i(2, 15)
    c.say(
        (f"[S] has {x.a} that is {s} centimeters tall.", f"[P] {x.s} is {s} centimeters tall."),
        f"It grows {r} centimeters every week.",
        f"After {w} weeks, [S] cuts off {cut} centimeters.",
    )
    c.ask("How tall is it then, in centimeters?", f"How many centimeters tall is the {x.s} then?")
    a = c.mul(r, w)
    b = c.add(s, a)
    t = c.sub(b, cut)
    c.step(f"In {w} weeks it grows {a} centimeters.")
    c.step(f"Then it is {b} centimeters tall.")
    c.step(f"After the cut it is {t} centimeters tall.")
    return s + r * w - cut


@template
def download(c):
    p = c.person()
    r, m, done = c.i(3, 40), c.i(3, 30), c.i(20, 200)
    n = r * m + done
    c.say(
        (f"[S] is downloading a file of {n} megabytes.", f"[S] wants to download a game that has {n} megabytes."),
        f"{done} megabytes are already there.",
        f"The speed is {r} megabytes a minute.",
    )
    c.ask("How many more minutes will it take?", "How many minutes does [S] have to wait?")
    a = c.sub(n, done)
    t = c.div(a, r)
    c.step(f"{a} megabytes are left.")
    c.step(f"It takes {t} more minutes.")
    return m


@template
def battery(c):
    p = c.person()
    r, h, e = c.i(3, 15), c.i(2, 8), c.i(2, 20)
    g = c.p(["phone", "laptop", "tablet", "camera", "electric bike"])
    c.say(
        (
            f"[P] {g} is charged to 100 percent.",
            f"[S] leaves home with {'an' if g[0] == 'e' else 'a'} {g} that is charged to 100 percent.",
        ),
        f"It loses {r} percent every hour.",
        (
            f"In the evening, a long call uses another {e} percent."
            if g == "phone"
            else f"In the evening, a long update uses another {e} percent."
        ),
    )
    c.ask(
        f"What percentage is left after {h} hours and the evening?",
        f"If the {g} was on for {h} hours, what percentage is left in the end?",
    )
    a = c.mul(r, h)
    b = c.add(a, e)
    t = c.sub(100, b)
    c.step(f"In {h} hours it loses {a} percent.")
    c.step(f"Together with the evening it loses {b} percent.")
    c.step(f"There is {t} percent left.")
    return 100 - r * h - e


@template
def parcels(c):
    p = c.person()
    n, a, r = c.i(60, 250), c.i(10, 50), c.i(5, 20)
    h = c.i(2, 5)
    c.say(
        (f"[S] has to deliver {n} parcels today.", f"There are {n} parcels in the van that {p} drives."),
        f"[S] delivers {a} parcels before noon.",
        f"After noon, [S] delivers {r} parcels an hour for {h} hours.",
    )
    c.ask("How many parcels are left?", "How many parcels still have to be delivered?")
    b = c.mul(r, h)
    s = c.add(a, b)
    t = c.sub(n, s)
    c.step(f"After noon, [S] delivers {b} parcels.")
    c.step(f"{c.tot.capitalize()}, [S] delivers {s} parcels.")
    c.step(f"{t} parcels are left.")
    return n - a - r * h


@template
def ride_queue(c):
    p = c.person()
    q, k, m = c.i(20, 120), c.i(4, 20), c.i(3, 8)
    c.need(q % k == 0)
    r = c.p(["roller coaster", "Ferris wheel", "boat ride", "merry-go-round", "cable car"])
    c.say(
        (
            f"[S] waits in line for a {r}, and there are {q} people ahead of [O].",
            f"There are {q} people ahead of {p} in the line for a {r}.",
        ),
        f"It takes {k} people at a time, and each turn lasts {m} minutes.",
    )
    c.ask("How many minutes does [S] have to wait?", "How long will [S] wait, in minutes?")
    a = c.div(q, k)
    t = c.mul(a, m)
    c.step(f"There are {a} turns before [P] turn.")
    c.step(f"[S] waits {t} minutes.")
    return q // k * m


@template
def sleep_week(c):
    p = c.person()
    a, b = c.i(5, 8), c.i(7, 11)
    w = c.i(2, 6)
    c.say(
        (
            f"[S] sleeps {a} hours a night on 5 nights of the week and {b} hours on the other 2 nights.",
            f"On 5 nights a week, [S] sleeps {a} hours, and on the other 2 nights [S] sleeps {b} hours.",
        )
    )
    c.ask(f"How many hours does [S] sleep in {w} weeks?", f"How many hours of sleep does [S] get in {w} weeks?")
    s, t = c.mul(5, a), c.mul(2, b)
    u = c.add(s, t)
    v = c.mul(u, w)
    c.step(f"On the 5 nights, [S] sleeps {s} hours.")
    c.step(f"On the other nights, [S] sleeps {t} hours.")
    c.step(f"In a week, that is {u} hours.")
    c.step(f"In {w} weeks, it is {v} hours.")
    return (5 * a + 2 * b) * w


@template
def lessons_end(c):
    p = c.person()
    n, m, b = c.i(3, 6), c.m(30, 60, 5), c.m(5, 20, 5)
    c.say(
        (
            f"[S] has {n} lessons of {m} minutes each.",
            f"On {c.p(DAYS)}, [S] has {n} lessons, and each takes {m} minutes.",
        ),
        f"Between two lessons there is always a break of {b} minutes.",
    )
    c.ask(
        "How many minutes pass from the start of the first lesson to the end of the last one?",
        "How many minutes does it take from the first lesson to the end of the last lesson?",
    )
    a = c.mul(n, m)
    k = c.sub(n, 1)
    d = c.mul(k, b)
    t = c.add(a, d)
    c.step(f"The lessons take {a} minutes.")
    c.step(f"There are {k} breaks.")
    c.step(f"The breaks take {d} minutes.")
    c.step(f"Together that is {t} minutes.")
    return n * m + (n - 1) * b
