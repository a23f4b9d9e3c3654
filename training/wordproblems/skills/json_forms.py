"""Skills: writing and reading small JSON."""

from ..fillers import CITIES, PEOPLE
from ..registry import skill
from .helpers import compact_json, draw_nouns


@skill
def json_person(c):
    p, n, city = c.p(PEOPLE), c.i(5, 80), c.p(CITIES)
    k = c.i(0, 3)
    if k == 0:
        return c.p(
            [
                f"Give a JSON object with name, age and city for {p}, {n}, from {city}.",
                f"Write JSON with the keys name, age and city: {p}, {n}, {city}",
            ]
        ), compact_json({"name": p, "age": n, "city": city})
    if k == 1:
        return c.p(
            [
                f"Write {p} and {city} as JSON with the keys name and city.",
                f"Give a JSON object with name and city for {p} from {city}.",
            ]
        ), compact_json({"name": p, "city": city})
    return c.p(
        [
            f"Give a JSON object with name and age for {p}, {n}",
            f"Write a JSON object for {p}, who is {n} years old, with the keys name and age.",
            f"Make JSON with name and age: {p}, {n}",
        ]
    ), compact_json({"name": p, "age": n})


@skill
def json_item(c):
    x, n, pr = draw_nouns(c, 1)[0], c.i(1, 50), c.i(1, 90)
    return c.p(
        [
            f"Give a JSON object with item, count and price for {n} {x.pl if n > 1 else x.s} at ${pr}.",
            f"Write JSON with the keys item, count and price: {x.s}, {n}, {pr}",
            f"Turn this into JSON with item, count and price: {x.s}, {n}, {pr}",
        ]
    ), compact_json({"item": x.s, "count": n, "price": pr})


@skill
def json_array(c):
    xs = [x.s for x in draw_nouns(c, c.i(2, 5))] if c.i(0, 1) else c.sample(range(1, 100), c.i(2, 6))
    return c.p(
        [
            f"Write this list as a JSON array: {', '.join(map(str, xs))}",
            f"Turn {', '.join(map(str, xs))} into a JSON array.",
            f"JSON array of: {', '.join(map(str, xs))}",
        ]
    ), compact_json(xs)


@skill
def json_read(c):
    p, n, city = c.p(PEOPLE), c.i(5, 80), c.p(CITIES)
    o = {"name": str(p), "age": n, "city": city}
    k = c.p(list(o))
    return (
        c.p([f"What is the {k} in this JSON? {compact_json(o)}", f'Read the value of "{k}" from {compact_json(o)}']),
        f"The {k} is {o[k]}.",
    )


@skill
def extract_json(c):
    p, n, x = c.p(PEOPLE), c.i(2, 30), draw_nouns(c, 1)[0]
    v = c.p(["bought", "sold", "found", "made"])
    return c.p(
        [
            f"Extract name, action, count and item as JSON: {p} {v} {n} {x}.",
            f"Turn this sentence into JSON with name, action, count and item: {p} {v} {n} {x}.",
        ]
    ), compact_json({"name": p, "action": v, "count": n, "item": x.pl})
