"""Runs `strobe generate --jsonl` on problems as chats and reads its JSON lines. Standard library only.

The contract: one JSON line on stdout for each row, in order, with text, output_ids, prompt_tokens, completion_tokens,
finish_reason, spec_verify_ct, held_back_steps, accept_length, ttft_ms, decode_tokens_per_second. Other stdout lines are passed over.
"""
import json
import re
import subprocess
import tempfile
from pathlib import Path

FIELDS = ("text", "output_ids", "prompt_tokens", "completion_tokens", "finish_reason", "ttft_ms", "decode_tokens_per_second")
DFLASH_FIELDS = ("spec_verify_ct", "held_back_steps", "accept_length")


def read_rows(path: Path, count: int | None = None, skip: int = 0) -> list[dict]:
    """Rows of a JSON-lines file as {"question", "answer" or None}; a row may say "prompt" for "question"."""
    rows = []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        row = json.loads(line)
        question = row.get("question", row.get("prompt"))
        if not question:
            raise SystemExit(f"{path}, line {number}: neither `question` nor `prompt`")
        rows.append({"question": question, "answer": row.get("answer")})
    return rows[skip:][:count]


def final_number(text: str) -> str | None:
    """What follows the first '####', as GSM8K marks a result."""
    found = re.search(r"#### (\S+)", text)
    return found[1].replace(",", "") if found else None


def is_right(text: str, answer: str | None) -> bool:
    return answer is not None and final_number(text) is not None and final_number(text) == final_number(answer)


class StrobeFailed(Exception):
    pass


def generate(binary: Path, models: Path, rows: list[dict], max_new: int, dflash: bool, extra: list[str] = (),
             timeout_s: float = 1800) -> list[dict]:
    """One process for all rows. Raises StrobeFailed with the program's own last words."""
    with tempfile.TemporaryDirectory() as folder:
        jsonl = Path(folder) / "rows.jsonl"
        chats = [{"messages": [{"role": "user", "content": row["question"]}]} for row in rows]
        jsonl.write_text("".join(json.dumps(chat) + "\n" for chat in chats))
        command = [str(binary), "generate", "--model-path", str(models / "target"), "--jsonl", str(jsonl), "--json",
                   "--max-new-tokens", str(max_new), *extra]
        if dflash:
            command += ["--speculative-algorithm", "DFLASH", "--speculative-draft-model-path", str(models / "draft")]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=timeout_s)
        except OSError as error:
            raise StrobeFailed(f"cannot run {binary}: {error}") from error
        except subprocess.TimeoutExpired as error:
            raise StrobeFailed(f"{' '.join(command)}: still running after {timeout_s} s") from error
    if done.returncode != 0:
        words = "\n".join((done.stderr or done.stdout).splitlines()[-8:])
        raise StrobeFailed(f"{' '.join(command)}: exit code {done.returncode}\n{words}")
    results = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    if len(results) != len(rows):
        raise StrobeFailed(f"{' '.join(command)}: {len(results)} JSON lines for {len(rows)} rows")
    for result in results:
        missing = [f for f in FIELDS + (DFLASH_FIELDS if dflash else ()) if f not in result]
        if missing:
            raise StrobeFailed(f"{' '.join(command)}: a JSON line lacks {', '.join(missing)}")
    return results
