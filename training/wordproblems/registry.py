"""The lists of templates and chat skills, filled by decorators in the order in which the modules are imported.

The order is part of the output: a generator picks by index. templates/__init__.py and skills/__init__.py fix it.
"""

from typing import Callable

from .context import Ctx

Template = Callable[[Ctx], int]
Skill = Callable[[Ctx], tuple | list | dict]

TEMPLATES: list[Template] = []
SKILLS: list[Skill] = []


def template(fn: Template) -> Template:
    """Registers a word problem: draws, states, asks, explains, and returns the answer.

    The answer is computed from the drawn numbers alone, not from the Calc chain, so that checker.check() compares two
    independent computations.
    """
    TEMPLATES.append(fn)
    return fn


def skill(fn: Skill) -> Skill:
    """Registers a chat skill: returns (user text, assistant text), a list of (role, text), or a dict with messages."""
    SKILLS.append(fn)
    return fn
