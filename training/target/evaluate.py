"""How many word problems the target solves, as a chat, with five examples before, and on real GSM8K."""

import random
import re

import wordproblems as wp
from common.progress import log

from .corpus import problem_text
from .generate import generate
from .model import Target
from .tokenizer import STOP_IDS, plain_text, prompt_text

_TEST_SEED = 99_000_001
_BATCH = 128


def final_answer(text: str) -> str | None:
    """What stands behind the first ####, without thousands separators; None when there is nothing."""
    m = re.search(r"#### (\S+)", text.split("Question:")[0])
    return m[1].replace(",", "") if m else None


def _share_right(net: Target, enc, prompts: list[str], answers: list[str], new: int) -> float:
    right = 0
    for i in range(0, len(prompts), _BATCH):
        ids = [enc.encode(p, allowed_special="all") for p in prompts[i : i + _BATCH]]
        outs = generate(net, ids, new, 0, STOP_IDS)
        right += sum(final_answer(plain_text(enc, o)) == a for o, a in zip(outs, answers[i:]))
    return right / len(prompts)


def evaluate_target(net: Target, enc, problems: int, real: list[dict], new: int) -> dict[str, float]:
    """Greedy accuracy on `problems` unseen problems (and on half as many of GSM8K's test split, if given), logged.

    An answer counts when the number behind #### is right; one that is cut off at `new` tokens does not.
    """
    rng = random.Random(_TEST_SEED)
    test = [wp.generate(rng, split="test") for _ in range(problems + 5)]
    shots = "".join(map(problem_text, test[:5]))
    test = test[5:]
    answers = [str(p["final"]).replace(",", "") for p in test]
    chats = [prompt_text([{"role": "user", "content": p["question"]}]) for p in test]
    completions = [f"{shots}Question: {p['question']}\nAnswer:" for p in test]
    result = {
        "chat 0-shot": _share_right(net, enc, chats, answers, new),
        "completion 5-shot": _share_right(net, enc, completions, answers, new),
    }
    real = real[: max(1, problems // 2)]
    if real:
        prompts = [f"Question: {p['question']}\nAnswer:" for p in real]
        result["real GSM8K"] = _share_right(net, enc, prompts, [final_answer(p["answer"]) for p in real], new)
    for name, share in result.items():
        log("accuracy", name, share)
    return result
