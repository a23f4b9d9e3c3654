"""Skills: counting, sorting, reversing and searching lists."""

from ..fillers import FEMALE, MALE
from ..registry import skill
from .helpers import draw_nouns


@skill
def count_items(c):
    xs = [x.s for x in draw_nouns(c, c.i(2, 8))]
    return c.p(
        [
            f"How many items are in this list: {', '.join(xs)}?",
            f"Count the items: {', '.join(xs)}",
            (
                f"How many words are in the list [{', '.join(xs)}]?"
                if all(" " not in x for x in xs)
                else f"Count this list: {', '.join(xs)}"
            ),
        ]
    ), c.p([f"There are {len(xs)} items in the list.", f"The list has {len(xs)} items."])


@skill
def sort_numbers(c):
    xs = c.sample(range(1, 100), c.i(3, 7))
    down = c.i(0, 2) == 0
    s = ", ".join(map(str, xs))
    q = c.p(
        [
            f"Sort these numbers from {'largest to smallest' if down else 'smallest to largest'}: {s}",
            f"Put {s} in {'descending' if down else 'ascending'} order.",
            f"Sort {s} in {'descending' if down else 'ascending'} order.",
        ]
    )
    return q, ", ".join(map(str, sorted(xs, reverse=down)))


@skill
def sort_words(c):
    xs = [x.s for x in draw_nouns(c, c.i(3, 5))] if c.i(0, 1) else c.sample(FEMALE + MALE, c.i(3, 5))
    return c.p(
        [
            f"Sort these words in alphabetical order: {', '.join(xs)}",
            f"Put these in ABC order: {', '.join(xs)}",
            f"Sort alphabetically: {', '.join(xs)}",
        ]
    ), ", ".join(sorted(xs, key=str.lower))


@skill
def reverse_list(c):
    xs = [x.s for x in draw_nouns(c, c.i(3, 5))] if c.i(0, 1) else [str(x) for x in c.sample(range(1, 100), c.i(3, 7))]
    return c.p(
        [
            f"Reverse this list: {', '.join(xs)}",
            f"Write this list backwards: {', '.join(xs)}",
            f"Give the list {', '.join(xs)} in reverse order.",
        ]
    ), ", ".join(xs[::-1])


@skill
def first_or_last(c):
    xs = [x.s for x in draw_nouns(c, c.i(3, 6))]
    k, w = c.p([(0, "first"), (-1, "last"), (1, "second"), (2, "third")])
    return (
        c.p([f"What is the {w} item in this list: {', '.join(xs)}?", f"Give the {w} item of: {', '.join(xs)}"]),
        f"The {w} item is {xs[k]}.",
    )


@skill
def biggest_in_list(c):
    xs = c.sample(range(1, 500), c.i(3, 6))
    f, w = c.p([(max, "largest"), (min, "smallest")])
    s = ", ".join(map(str, xs))
    return (
        c.p([f"What is the {w} number in this list: {s}?", f"Find the {w} number: {s}"]),
        f"The {w} number is {f(xs)}.",
    )


@skill
def sum_list(c):
    xs = [c.i(1, 30) for _ in range(c.i(3, 4))]
    s = " + ".join(map(str, xs))
    return (
        c.p([f"What is {s}?", f"Add these numbers: {', '.join(map(str, xs))}", f"Sum up {', '.join(map(str, xs))}."]),
        f"{s} = {sum(xs)}",
    )
