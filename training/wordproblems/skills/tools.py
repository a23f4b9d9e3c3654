"""Skills: tool calls, tool results, and tools that are not needed."""

import operator
import zlib
from typing import Callable, NamedTuple

from ..context import Ctx
from ..fillers import CITIES, DAYS, GOODS, NOUNS, PEOPLE
from ..registry import skill
from .arithmetic import add_numbers
from .calendar_units import day_math, unit_fact
from .helpers import compact_json
from .lists import reverse_list
from .talk import greeting, who_are_you


class Tool(NamedTuple):
    """A tool the assistant may call."""

    schema: dict  # as an OpenAI request declares it
    draw: Callable[[Ctx], dict]  # draws the arguments
    phrasings: list[str]  # what a user says, with the arguments as fields


def _tool(name: str, desc: str, **params: type) -> dict:
    types = {int: "integer", str: "string"}
    return {
        "type": "function",
        "function": {
            "name": name,
            "description": desc,
            "parameters": {
                "type": "object",
                "properties": {k: {"type": types[v]} for k, v in params.items()},
                "required": list(params),
            },
        },
    }


def _draw_conversion(c: Ctx) -> dict:
    value = c.i(2, 90)
    source, target = c.p([("miles", "kilometers"), ("pounds", "kilograms"), ("feet", "meters"), ("gallons", "liters")])
    return {"value": value, "source": source, "target": target}


_MESSAGES = ["I am late.", "Happy birthday!", "See you soon.", "Call me back.", "Dinner is ready.", "Good luck!"]

TOOLS: dict[str, Tool] = {
    "get_weather": Tool(
        _tool("get_weather", "Get the weather in a city", city=str),
        lambda c: {"city": c.p(CITIES)},
        [
            "What is the weather in {city}?",
            "How is the weather in {city}?",
            "Tell me the weather in {city}.",
            "Is it raining in {city}?",
            "Weather in {city}?",
        ],
    ),
    "get_time": Tool(
        _tool("get_time", "Get the local time in a city", city=str),
        lambda c: {"city": c.p(CITIES)},
        ["What time is it in {city}?", "Tell me the time in {city}.", "What is the local time in {city}?"],
    ),
    "calculator": Tool(
        _tool("calculator", "Compute an arithmetic expression", expression=str),
        lambda c: {"expression": f"{c.i(100, 999)}{c.p('+-*')}{c.i(11, 99)}"},
        ["Use the calculator for {expression}.", "Compute {expression}.", "What is {expression}? Use a tool."],
    ),
    "add_to_cart": Tool(
        _tool("add_to_cart", "Add items to the shopping cart", item=str, count=int),
        lambda c: {"item": c.p(NOUNS[c.p(GOODS)]).pl, "count": c.i(2, 20)},
        ["Add {count} {item} to my cart.", "Put {count} {item} into the cart.", "I want to order {count} {item}."],
    ),
    "set_timer": Tool(
        _tool("set_timer", "Start a timer", minutes=int),
        lambda c: {"minutes": c.i(2, 90)},
        ["Set a timer for {minutes} minutes.", "Start a {minutes} minute timer.", "Remind me in {minutes} minutes."],
    ),
    "send_message": Tool(
        _tool("send_message", "Send a message to a contact", to=str, text=str),
        lambda c: {"to": str(c.p(PEOPLE)), "text": c.p(_MESSAGES)},
        ["Send a message to {to}: {text}", "Write to {to}: {text}", 'Text {to} "{text}"'],
    ),
    "get_price": Tool(
        _tool("get_price", "Look up the price of a product", product=str),
        lambda c: {"product": c.p(NOUNS[c.p(GOODS)]).s},
        [
            "How much does one {product} cost?",
            "What is the price of one {product}?",
            "Look up the price for: {product}",
        ],
    ),
    "convert_units": Tool(
        _tool("convert_units", "Convert a value between units", value=int, source=str, target=str),
        _draw_conversion,
        ["Convert {value} {source} to {target}.", "How many {target} are {value} {source}?"],
    ),
    "book_table": Tool(
        _tool("book_table", "Book a restaurant table", day=str, people=int),
        lambda c: {"day": c.p(DAYS), "people": c.i(2, 10)},
        [
            "Book a table for {people} people on {day}.",
            "Reserve a table on {day} for {people} people.",
            "We need a table for {people} on {day}.",
        ],
    ),
}


def _weather(c: Ctx, args: dict) -> tuple[dict, str]:
    degrees, sky = c.i(2, 35), c.p(["sunny", "cloudy", "rainy", "windy"])
    return {"temperature": degrees, "sky": sky}, f"In {args['city']} it is {degrees} degrees and {sky}."


def _time(c: Ctx, args: dict) -> tuple[dict, str]:
    t = f"{c.i(1, 23)}:{c.i(0, 59):02d}"
    return {"time": t}, f"It is {t} in {args['city']}."


def _calculate(_: Ctx, args: dict) -> tuple[dict, str]:
    expression = args["expression"]
    op = next(ch for ch in expression if ch in "+-*")
    a, b = map(int, expression.split(op))
    v = {"+": operator.add, "-": operator.sub, "*": operator.mul}[op](a, b)
    return {"result": v}, f"{expression} = {v}"


def _price(c: Ctx, args: dict) -> tuple[dict, str]:
    v = c.i(2, 90)
    return {"price": v}, f"The {args['product']} costs ${v}."


def _done(reply: str) -> Callable[[Ctx, dict], tuple[dict, str]]:
    return lambda c, args: ({"ok": True}, reply.format(**args))


# tool -> (what it returns, what the assistant then says); the order is part of the output
RESULTS = {
    "get_weather": _weather,
    "get_time": _time,
    "calculator": _calculate,
    "get_price": _price,
    "set_timer": _done("The timer is set for {minutes} minutes."),
    "book_table": _done("The table for {people} people on {day} is booked."),
    "add_to_cart": _done("I added {count} {item} to your cart."),
    "send_message": _done("I sent your message to {to}."),
}


def _call(c: Ctx, name: str) -> tuple[list[dict], list[dict], dict]:
    """A user's wish and the call for it: (messages, declared tools with up to two others, arguments)."""
    args = TOOLS[name].draw(c)
    names = {name} | set(c.sample(list(TOOLS), c.i(0, 2)))
    tools = [TOOLS[n].schema for n in names]
    tools.sort(key=lambda t: zlib.crc32((t["function"]["name"] + name).encode()))
    call = {
        "role": "assistant",
        "content": "",
        "tool_calls": [
            {"id": f"{name}:0", "type": "function", "function": {"name": name, "arguments": compact_json(args)}}
        ],
    }
    return [{"role": "user", "content": c.p(TOOLS[name].phrasings).format(**args)}, call], tools, args


@skill
def tool_call(c):
    m, tools, _ = _call(c, c.p(list(TOOLS)))
    return dict(messages=m, tools=tools)


@skill
def tool_call_weather(c):
    m, tools, _ = _call(c, "get_weather")
    return dict(messages=m, tools=tools)


@skill
def tool_result(c):
    name = c.p(list(RESULTS))
    m, tools, args = _call(c, name)
    res, reply = RESULTS[name](c, args)
    m += [
        {"role": "tool", "tool_call_id": f"{name}:0", "content": compact_json(res)},
        {"role": "assistant", "content": reply},
    ]
    return dict(messages=m, tools=tools)


@skill
def tool_not_needed(c):
    q, a = c.p([add_numbers, greeting, unit_fact, day_math, reverse_list, who_are_you])(c)
    names = [n for n in TOOLS if n not in ("calculator", "convert_units")]
    return dict(
        messages=[{"role": "user", "content": q}, {"role": "assistant", "content": a}],
        tools=[TOOLS[n].schema for n in c.sample(names, c.i(1, 2))],
    )
