"""Synthetic grade-school word problems (GSM8K form) and short chat skills. Standard library only.

    generate(rng, split="train") -> dict(question, answer, final, template)
    generate_chat(rng)           -> dict(messages, kind[, tools])
    check(problem)               -> raises ValueError when a problem is wrong
    HELD_OUT                     -> which (name, object) pairs belong to the test split

From training/:

    python -m wordproblems --count 1000 --seed 7 --split train > train.jsonl
    python -m wordproblems --count 1000 --seed 7 --chat > chat.jsonl
    python -m wordproblems --selftest 20000

Layout: fillers (names, nouns), context (`Ctx`: draws, exact arithmetic, rendering), templates/ (the word problems by
theme, small functions under @template), skills/ (chat, under @skill), held_out (the split), checker, generator, cli.

How a template works: it draws numbers and fillers from the context `c`, states facts with c.say(...), asks with
c.ask(...), and explains with c.step(...). A tuple stands for alternative wordings. Inside a sentence [S] [O] [P] are
the main person (the first one drawn) as subject, object and possessive: the name at the first mention, then mostly
the pronoun. c.add/sub/mul/div return a `Calc`, which prints as `48/2 = <<48/2=24>>24` and refuses (Retry: the
template is drawn again) results that are fractional, below 2 or above 9999; so most templates can draw numbers freely
and plurals are always right. The function returns the answer computed independently of the Calc chain. A draw that a
template does not use is named `_` and stays: removing it would change the output of every seed.
"""

from .checker import check
from .generator import generate, generate_chat
from .held_out import HELD_OUT
from .registry import SKILLS, TEMPLATES

__all__ = ["HELD_OUT", "SKILLS", "TEMPLATES", "check", "generate", "generate_chat"]
