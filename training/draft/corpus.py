"""Where a draft's documents come from: prompts of the word problem generator, or a jsonl file of your own."""

import json
import random
from pathlib import Path

import wordproblems as wp
from common.progress import Budget, log
from target.corpus import problem_text

from .documents import Document
from .target_source import TargetSource

_CORPUS_SEED = 4242


def _wordproblem_prompts(target: TargetSource, rng: random.Random, n: int) -> tuple[list[list[int]], ...]:
    """n prompts of each kind: problems as chats, problems to complete (a third with an example), chat skills."""
    chats, completions, skills = [], [], []
    for _ in range(n):
        p = wp.generate(rng)
        chats.append(target.encode_chat([{"role": "user", "content": p["question"]}]))
        shots = "".join(problem_text(wp.generate(rng)) for _ in range(rng.choice([0, 0, 1])))
        completions.append(target.encode(f"{shots}Question: {wp.generate(rng)['question']}\nAnswer:"))
    for _ in range(n):
        c = wp.generate_chat(rng)
        skills.append(target.encode_chat(c["messages"], c.get("tools")))
    return chats, completions, skills


def _answer_all(target: TargetSource, prompts: list[list[int]], new: int, temperature: float, batch: int):
    """Documents of prompts with the target's answers. Sorted by length, so that a batch has little padding."""
    prompts = sorted(prompts, key=len)
    for i in range(0, len(prompts), batch):
        part = prompts[i : i + batch]
        yield from zip(part, target.answer(part, new, temperature))


def wordproblem_documents(target: TargetSource, budget: Budget, prompts: int, new: int, batch: int) -> list[Document]:
    """Rounds of `prompts` prompts of each kind until the budget is used up; answers mostly greedy, some sampled.

    The draft must guess what the target says, right or wrong, so the answers are always the target's own.
    """
    rng = random.Random(_CORPUS_SEED)
    documents: list[Document] = []
    while budget.fraction() < 1:
        chats, completions, skills = _wordproblem_prompts(target, rng, prompts)
        for part, temperature in ((chats, 0), (completions, 0), (skills, 0.7), (chats, 0.8)):
            documents += _answer_all(target, part, new, temperature, batch)
        budget.step += 1
    rng.shuffle(documents)
    _report(documents)
    return documents


def _report(documents: list[Document]) -> None:
    log("draft corpus: docs", len(documents), "response tokens", sum(len(r) for _, r in documents) / 1e6, "M")


def _line_to_document(target: TargetSource, record: dict) -> Document:
    """(prompt ids, response ids); an empty response is to be answered by the target."""
    fields = set(record)
    if "messages" in fields:
        return target.encode_chat(record["messages"], record.get("tools")), []
    if {"prompt", "response"} <= fields:
        prompt = target.encode(record["prompt"])
        both = target.encode(record["prompt"] + record["response"])
        if both[: len(prompt)] != prompt:
            raise ValueError(
                "prompt and response merge into one token where they meet; end the prompt with a line break"
            )
        return prompt, both[len(prompt) :]
    if "prompt" in fields:
        return target.encode(record["prompt"]), []
    if "text" in fields:
        ids = target.encode(record["text"])
        return ids[:1], ids[1:]
    raise ValueError(f'want "messages", "prompt", "prompt" with "response", or "text"; got {sorted(fields)}')


def file_documents(
    target: TargetSource, file: Path, new: int, temperature: float, batch: int, limit: int | None = None
) -> list[Document]:
    """Documents of a jsonl file, one object a line: {"messages": [...], "tools": [...]}, {"prompt": "..."},
    {"prompt": "...", "response": "..."} or {"text": "..."}.

    The target answers where there is no response; a closing assistant message is left out and answered anew. Given
    responses and texts are used as they are, which is right only if they are the target's own words.
    """
    ready: list[Document] = []
    prompts: list[list[int]] = []
    with open(file) as lines:
        for number, line in enumerate(lines, 1):
            if limit is not None and number > limit:
                break
            try:
                prompt, response = _line_to_document(target, json.loads(line))
            except (ValueError, KeyError, TypeError) as e:  # JSON errors are ValueErrors
                raise ValueError(f"{file}, line {number}: {e}") from e
            if not prompt:
                raise ValueError(f"{file}, line {number}: the prompt is empty")
            if response:
                ready.append((prompt, response))
            else:
                prompts.append(prompt)
    if not ready and not prompts:
        raise ValueError(f"{file} is empty")
    done = 0
    for document in _answer_all(target, prompts, new, temperature, batch):
        ready.append(document)
        done += 1
        if done % (10 * batch) == 0:
            log(f"answered {done} of {len(prompts)} prompts")
    random.Random(_CORPUS_SEED).shuffle(ready)
    _report(ready)
    return ready
