"""generate() and generate_chat(): one random problem or chat example."""

import random

from . import skills, templates  # noqa: F401  importing them fills the lists below
from .context import Ctx, Retry
from .held_out import HELD_OUT
from .registry import SKILLS, TEMPLATES, Skill, Template


def generate(rng: random.Random, split: str | None = "train", fn: Template | None = None) -> dict:
    """One problem: question, answer, final (the number) and template (its name).

    split is "train", "test" or None (no restriction); fn fixes the template.
    """
    fn = fn or TEMPLATES[int(rng.random() * len(TEMPLATES))]
    while True:
        c = Ctx(rng)
        try:
            final = fn(c)
        except Retry:
            continue
        q = c.question_text()
        shown = [p for p in c.people if p in q]
        if HELD_OUT.accepts(split, shown, c.objs, fn.__name__, q):
            return dict(question=q, answer=c.answer_text(final), final=final, template=fn.__name__)


def generate_chat(rng: random.Random, fn: Skill | None = None) -> dict:
    """One chat example: messages, kind (the skill's name) and, for tool kinds, tools. fn fixes the skill."""
    fn = fn or SKILLS[int(rng.random() * len(SKILLS))]
    r = fn(Ctx(rng))
    if isinstance(r, list):
        r = dict(messages=[{"role": role, "content": text} for role, text in r])
    elif isinstance(r, tuple):
        r = dict(messages=[{"role": "user", "content": r[0]}, {"role": "assistant", "content": r[1]}])
    return dict(r, kind=fn.__name__)
