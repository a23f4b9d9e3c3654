"""The `openai` Python package against a running `strobe serve` with the model that comes along.

  python tests/compat/openai_client.py [--binary build/release/strobe] [--out build/compat]

Streams, stops, several texts, log probabilities, usage, errors, aborts. Needs tests/compat/requirements.txt.
"""
import argparse
import asyncio
import json
import math
import sys
from pathlib import Path

import openai
from strobe_server import API_KEY, ROOT, Report, StrobeServer

MODEL = "pocket-k2"
PROBLEM = json.loads((ROOT / "tests/data/wordproblems.jsonl").open().readline())
MESSAGES = [{"role": "user", "content": PROBLEM["question"]}]
PLAIN = {"speculative": "off"}


def chat(client, **more):
    return client.chat.completions.create(model=MODEL, messages=MESSAGES, **{"temperature": 0, "max_tokens": 120, **more})


def complete(client, **more):
    return client.completions.create(model=MODEL, **{"prompt": "The", "temperature": 0, "max_tokens": 40, **more})


def extra(answer) -> dict:
    """Fields of an answer that the package does not know."""
    return answer.model_extra or {}


def refusal(call, kind):
    """The error that a call must raise, or None when it does not."""
    try:
        call()
    except kind as error:
        return error
    except openai.APIError as error:
        print(f"     {type(error).__name__} where {kind.__name__} was wanted: {error}")
    return None


def check_models(client, report: Report):
    report.equal([model.id for model in client.models.list()], [MODEL], "models.list names the model")
    report.equal(client.models.retrieve(MODEL).id, MODEL, "models.retrieve finds it")
    report.check(refusal(lambda: client.models.retrieve("other"), openai.NotFoundError) is not None, "another model is a NotFoundError")
    error = refusal(lambda: client.completions.create(model="other", prompt="x"), openai.NotFoundError)
    report.check(error is not None and error.code == "model_not_found", "and so is a completion by it")


def check_chat(client, report: Report) -> str:
    whole = chat(client)
    text = whole.choices[0].message.content
    report.equal(text.split("#### ")[-1], PROBLEM["answer"].split("#### ")[-1], "chat: the answer is right")
    report.equal(whole.choices[0].finish_reason, "stop", "chat: it ends by itself")
    report.equal(whole.choices[0].message.role, "assistant", "chat: as the assistant")
    usage = whole.usage
    report.equal(usage.total_tokens, usage.prompt_tokens + usage.completion_tokens, "chat: usage adds up")
    report.check(extra(usage)["spec_verify_ct"] > 0 and extra(usage)["accept_length"] > 1, "chat: DFlash was at work")
    histogram = extra(usage)["accept_histogram"]
    report.equal(sum(histogram), extra(usage)["spec_verify_ct"], "chat: the histogram has every verify step")
    report.equal(sum(n * a for a, n in enumerate(histogram)), extra(usage)["accepted_tokens"], "chat: and every accepted token")
    plain = chat(client, extra_body=PLAIN)
    report.equal(plain.choices[0].message.content, text, "chat: plain decoding gives the same text")
    report.equal((extra(plain.usage)["spec_verify_ct"], plain.usage.completion_tokens), (0, usage.completion_tokens),
                 "chat: without verify steps, with the same usage")
    events = list(chat(client, stream=True, stream_options={"include_usage": True}))
    report.equal("".join(e.choices[0].delta.content or "" for e in events if e.choices), text, "chat: the stream has the same text")
    report.equal([e.choices[0].finish_reason for e in events if e.choices and e.choices[0].finish_reason], ["stop"],
                 "chat: and one finish reason")
    report.check(events[-1].choices == [] and events[-1].usage == usage, "chat: its last event has the same usage and no choice")
    report.check(all(e.usage is None for e in events[:-1]), "chat: the others have none")
    report.equal(len({e.id for e in events}), 1, "chat: one id")
    return text


def check_completion(client, report: Report):
    whole = complete(client)
    text = whole.choices[0].text
    report.equal(whole.usage.completion_tokens, 40, "completion: as long as asked")
    report.equal(whole.choices[0].finish_reason, "length", "completion: the reason is the length")
    # The draft knows little of this text: without `always` it may be held back before two of its tokens come together.
    events = list(complete(client, stream=True, extra_body={"return_token_ids": True, "speculative": "always"}))
    report.equal("".join(e.choices[0].text for e in events), text, "completion: the stream has the same text")
    counts = [len(extra(e.choices[0])["token_ids"]) for e in events]
    report.equal((counts[0], sum(counts)), (1, 40), "completion: the first token comes alone, all come once")
    report.check(max(counts) > 1, "completion: accepted runs come together")
    report.equal(complete(client, echo=True).choices[0].text, "The" + text, "completion: echo")
    both = complete(client, prompt=["The", "A"], max_tokens=5)
    report.equal([c.index for c in both.choices], [0, 1], "completion: two prompts, two texts")
    report.equal(both.choices[0].text, complete(client, max_tokens=5).choices[0].text, "completion: each as if alone")
    ids = client.completions.create(model=MODEL, prompt=[5, 6, 7], max_tokens=3)
    report.equal(ids.usage.prompt_tokens, 3, "completion: token ids as the prompt")
    exact = complete(client, max_tokens=77, extra_body={"ignore_eos": True})
    report.equal((exact.usage.completion_tokens, exact.choices[0].finish_reason), (77, "length"),
                 "completion: ignore_eos gives exactly max_tokens")


def check_stops(client, report: Report, text: str):
    words = text.split()
    for stop in (words[1], [words[4], words[2]]):
        strings = [stop] if isinstance(stop, str) else stop
        cut = min(text.find(s) for s in strings)
        whole = chat(client, stop=stop)
        report.equal(whole.choices[0].message.content, text[:cut], f"stop {stop!r}: the text ends before it")
        report.equal(whole.choices[0].finish_reason, "stop", f"stop {stop!r}: and says so")
        report.check(extra(whole.choices[0])["matched_stop"] in strings, f"stop {stop!r}: and by which")
        streamed = list(chat(client, stop=stop, stream=True, stream_options={"include_usage": True}))
        report.equal("".join(e.choices[0].delta.content or "" for e in streamed if e.choices), text[:cut],
                     f"stop {stop!r}: not a letter more is streamed")
        report.equal(streamed[-1].usage, whole.usage, f"stop {stop!r}: the same usage")
    ids = extra(complete(client, extra_body={"return_token_ids": True}).choices[0])["token_ids"]
    place = next(i for i in range(3, len(ids)) if ids[i] not in ids[:i])
    cut = complete(client, extra_body={"stop_token_ids": [ids[place]], "return_token_ids": True})
    report.equal(extra(cut.choices[0])["token_ids"], ids[:place + 1], "stop_token_ids: the text ends at the first")
    report.equal(cut.usage.completion_tokens, place + 1, "stop_token_ids: which counts")


def check_several(client, report: Report):
    answer = chat(client, n=4, temperature=1, seed=11)
    texts = [c.message.content for c in answer.choices]
    report.equal([c.index for c in answer.choices], [0, 1, 2, 3], "n: four texts")
    report.check(len(set(texts)) > 1, "n: not all the same at temperature 1")
    report.equal(chat(client, temperature=1, seed=13).choices[0].message.content, texts[2], "n: text i is that of seed + i, alone")
    events = list(chat(client, n=4, temperature=1, seed=11, stream=True))
    streamed = ["".join(e.choices[0].delta.content or "" for e in events if e.choices[0].index == i) for i in range(4)]
    report.equal(streamed, texts, "n: streamed, each text as it was")
    ends = sorted(e.choices[0].index for e in events if e.choices[0].finish_reason)
    report.equal(ends, [0, 1, 2, 3], "n: each ends once")
    # 40 tokens of a text that leaves everything open: twice the same is out of the question.
    first, second = (complete(client, temperature=2, extra_body={"ignore_eos": True}).choices[0].text for _ in range(2))
    report.check(first != second, "without a seed two texts differ")


def check_logprobs(client, report: Report):
    fast = chat(client, logprobs=True, top_logprobs=3)
    plain = chat(client, logprobs=True, top_logprobs=3, extra_body=PLAIN)
    content = fast.choices[0].logprobs.content
    report.equal(content, plain.choices[0].logprobs.content, "logprobs: DFlash and plain decoding say the same, to the last digit")
    report.equal(len(content), fast.usage.completion_tokens, "logprobs: one a token")
    text = fast.choices[0].message.content
    report.check(bytes(b for t in content for b in t.bytes).decode().startswith(text), "logprobs: the bytes are the text's")
    report.check(all(len(t.top_logprobs) == 3 and t.top_logprobs[0].logprob == t.logprob for t in content),
                 "logprobs: greedy tokens are the most likely ones")
    report.check(all(sum(math.exp(top.logprob) for top in t.top_logprobs) <= 1.0001 for t in content), "logprobs: probabilities")
    report.check(any(-5 < t.logprob < -0.001 for t in content), "logprobs: and not all of them 1")
    streamed = [t for e in chat(client, logprobs=True, top_logprobs=3, stream=True) if e.choices[0].logprobs
                for t in e.choices[0].logprobs.content]
    report.equal([(t.token, t.logprob) for t in streamed], [(t.token, t.logprob) for t in content], "logprobs: the stream has them all")
    warm = chat(client, logprobs=True, temperature=1.3, seed=3, frequency_penalty=1.0)
    report.equal(len(warm.choices[0].logprobs.content), warm.usage.completion_tokens, "logprobs: at temperature 1.3 too")
    old = complete(client, logprobs=2).choices[0].logprobs
    lengths = {len(old.tokens), len(old.token_logprobs), len(old.top_logprobs), len(old.text_offset)}
    report.equal(lengths, {40}, "completion logprobs: 40 of all")
    report.equal("".join(old.tokens), complete(client).choices[0].text, "completion logprobs: the tokens are the text")
    report.equal(old.text_offset, [len("".join(old.tokens[:i])) for i in range(40)], "completion logprobs: at their offsets")
    report.check(complete(client).choices[0].logprobs is None, "completion logprobs: none when nobody asks")


def check_fields(client, report: Report):
    greedy = complete(client)
    ids = extra(complete(client, extra_body={"return_token_ids": True}).choices[0])["token_ids"]
    banned = complete(client, logit_bias={str(ids[0]): -100}, extra_body={"return_token_ids": True})
    report.check(ids[0] not in extra(banned.choices[0])["token_ids"], "logit_bias -100 keeps a token out")
    report.equal(complete(client, logit_bias={str(ids[0]): -100}, extra_body={"return_token_ids": True, **PLAIN}).choices[0].text,
                 banned.choices[0].text, "logit_bias: DFlash and plain decoding agree")
    penal = {"frequency_penalty": 1.5, "presence_penalty": 0.5}
    fast = complete(client, **penal, extra_body={"repetition_penalty": 1.2})
    report.equal(fast.choices[0].text, complete(client, **penal, extra_body={"repetition_penalty": 1.2, **PLAIN}).choices[0].text,
                 "penalties: DFlash and plain decoding agree")
    report.check(fast.choices[0].text != greedy.choices[0].text, "penalties: and they matter")
    narrow = complete(client, temperature=5, extra_body={"top_k": 1})
    report.equal(narrow.choices[0].text, greedy.choices[0].text, "top_k 1 is greedy at any temperature")
    report.equal(complete(client, temperature=5, top_p=1e-6, seed=1).choices[0].text, greedy.choices[0].text, "and so is a tiny top_p")
    polite = complete(client, user="me", extra_body={"metadata": {"a": 1}})
    report.equal(polite.choices[0].text, greedy.choices[0].text, "user and metadata change nothing")
    least = chat(client, max_tokens=200, extra_body={"min_tokens": 150})
    report.check(least.usage.completion_tokens >= 150, "min_tokens holds")


def check_errors(client, report: Report):
    cases = [("temperature", {"temperature": 1000}), ("tools", {"tools": [{"type": "function", "function": {"name": "f"}}]}),
             ("response_format", {"response_format": {"type": "json_object"}}), ("top_p", {"top_p": 2}),
             ("max_tokens", {"max_tokens": 10**6}), ("stop", {"stop": [""]}), ("temprature", {"extra_body": {"temprature": 1}})]
    for param, more in cases:
        error = refusal(lambda more=more: chat(client, **more), openai.BadRequestError)
        named = error is not None and error.param == param and param in error.message
        report.check(named, f"a bad {param} is a BadRequestError that names it")
    error = refusal(lambda: chat(client, tools=[{"type": "function", "function": {"name": "f"}}]), openai.BadRequestError)
    report.check(error is not None and error.code == "unsupported_field" and "not served" in error.message,
                 "tools: the error says that they are not served")
    error = refusal(lambda: complete(client, prompt="pen " * 60000), openai.BadRequestError)
    report.check(error is not None and error.code == "context_length_exceeded", "a prompt beyond the context has its own code")
    wrong = client.with_options(api_key="wrong")
    report.check(refusal(lambda: wrong.models.list(), openai.AuthenticationError) is not None, "a wrong key is an AuthenticationError")
    report.check(bool(complete(client, max_tokens=1).choices), "the server is well after all these")


def check_aborts(client, server: StrobeServer, report: Report):
    endless = {"max_tokens": 1500, "extra_body": {"ignore_eos": True}}
    stream = complete(client, stream=True, **endless)
    iterator = iter(stream)
    for _ in range(3):
        next(iterator)
    report.check(server.load()["num_running_reqs"] >= 1, "a long stream is running")
    stream.close()
    load = server.wait_until_idle()
    report.equal((load["num_total_reqs"], load["num_used_tokens"]), (0, 0),
                 "closed in mid-stream: the request ends and its pages come back")
    stream = chat(client, stream=True, n=3, max_tokens=1500, extra_body={"ignore_eos": True, "rid": "to-abort"})
    iterator = iter(stream)
    for _ in range(8):
        next(iterator)
    report.equal(server.request("POST", "/abort_request", {"rid": "to-abort"})["aborted"], 1, "abort_request finds the request")
    reasons = [e.choices[0].finish_reason for e in iterator if e.choices[0].finish_reason]
    report.equal(reasons, ["abort"] * 3, "and ends all its texts")
    load = server.wait_until_idle()
    report.equal((load["num_total_reqs"], load["num_used_tokens"]), (0, 0), "its pages come back")


async def check_many(server: StrobeServer, report: Report):
    client = openai.AsyncOpenAI(base_url=server.url + "/v1", api_key=API_KEY, max_retries=0, timeout=300)

    async def streamed(i: int) -> str:
        events = await client.completions.create(model=MODEL, prompt=f"{i} pens and", temperature=0 if i % 2 else 1, seed=i, max_tokens=24,
                                                 stream=True, extra_body={"speculative": "off" if i % 3 == 0 else "auto"})
        return "".join([e.choices[0].text async for e in events])

    together = await asyncio.gather(*(streamed(i) for i in range(48)))
    alone = [await streamed(i) for i in range(0, 48, 5)]
    report.equal(together[::5], alone, "48 streams at once: each text as it is alone")
    await client.close()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", type=Path, default=ROOT / "build/release/strobe")
    parser.add_argument("--out", type=Path, default=ROOT / "build/compat")
    args = parser.parse_args()
    report = Report()
    print(f"openai {openai.__version__}")
    with StrobeServer(args.binary, args.out / "openai-server.log", ["--max-running-requests", "16"]) as server:
        client = openai.OpenAI(base_url=server.url + "/v1", api_key=API_KEY, max_retries=0, timeout=300)
        check_models(client, report)
        text = check_chat(client, report)
        check_completion(client, report)
        check_stops(client, report, text)
        check_several(client, report)
        check_logprobs(client, report)
        check_fields(client, report)
        check_errors(client, report)
        check_aborts(client, server, report)
        asyncio.run(check_many(server, report))
        load = server.wait_until_idle()
        report.equal((load["num_total_reqs"], load["num_used_tokens"]), (0, 0), "at the end nothing runs and no page is held")
    report.equal(server.exit_code, 0, "the server ends well")
    return report.exit_code()


if __name__ == "__main__":
    sys.exit(main())
