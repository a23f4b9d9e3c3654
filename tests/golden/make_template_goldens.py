#!/usr/bin/env python3
"""Writes tests/golden/text/templates.json: chat templates rendered by jinja2, set up as transformers sets it up.

Templates of other projects are not kept here: the test reads them from the llama.cpp sources that the build fetches, and
only what jinja2 made of them is kept. Content given as a list of parts is joined by spaces before a template that reads
strings only, as SGLang does.

    python3 -m pip install -r tests/golden/requirements.txt
    python3 tests/golden/make_template_goldens.py build/_pypi/LLAMA_CPP-*/*/vendor/llama.cpp/models/templates
"""
import copy
import datetime
import json
import pathlib
import sys

import jinja2.ext
import jinja2.sandbox

ROOT = pathlib.Path(__file__).resolve().parents[2]
OUT = ROOT / "tests" / "golden" / "text" / "templates.json"
NOW = 1_790_000_000  # strftime_now, in UTC
POCKET = "models/pocket-k2/target/chat_template.jinja"
FETCHED = ["moonshotai-Kimi-K2.jinja", "Kimi-K2-Instruct.jinja", "Kimi-K2-Thinking.jinja", "Qwen-Qwen3-0.6B.jinja",
           "Qwen-Qwen2.5-7B-Instruct.jinja", "Qwen3-Coder.jinja", "Qwen3.5-4B.jinja", "HuggingFaceTB-SmolLM3-3B.jinja",
           "deepseek-ai-DeepSeek-V3.1.jinja"]
CHATML = ("{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}{{ '<|im_start|>system\nYou are a "
          "helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n' }}{% endif %}{{'<|im_start|>' + message['role']"
          " + '\n' + message['content'] + '<|im_end|>' + '\n'}}{% endfor %}{% if add_generation_prompt %}{{ "
          "'<|im_start|>assistant\n' }}{% endif %}")
# What the templates above hardly use: white-space control, tojson's arguments, loops, macros, tests, filters, slices.
FEATURES = """{%- macro row(name, value='none', depth=0) -%}
{{ '  ' * depth }}{{ name | upper }}={{ value }};
{%- endmacro -%}
{# a comment #}
{% set ns = namespace(count=0, last='') %}
{% for m in messages if m.role != 'system' %}
    {%- if loop.index0 > 6 %}{% break %}{% endif %}
    {% set ns.count = ns.count + 1 %}
    {% set ns.last = m['role'] %}
{{ row(m.role, depth=loop.index) }} {{ loop.first }} {{ loop.last }} {{ loop.length - loop.revindex0 }}
{% else %}
none
{%- endfor %}
{{ ns.count ~ '/' ~ messages | length }} {{ ns.last | default('nobody') }}
{{ tools | tojson if tools else 'no tools' }}
{{ {'a': [1, 2.5, true, none], 'b': 'é"<&>\\n'} | tojson }} {{ [1, {'k': 'v'}] | tojson(indent=2) }}
{{ messages[-1]['role'] }} {{ messages[0].role[:3] }} {{ messages[::-1] | map(attribute='role') | join(',') }}
{{ 'Hello World'.split(' ')[1].lower().startswith('w') }} {{ '  x '.strip() ~ '|' ~ ' y '.rstrip() ~ '|' }}
{{ (messages | selectattr('role', 'equalto', 'user') | list | length) }} {{ 7 / 2 if false else 7 % 4 }} {{ -3 + 10 }}
{% if bos_token is defined and undefined_name is not defined and 'user' in messages | map(attribute='role') | list %}ok{% endif %}
{% for k, v in {'x': 1, 'y': 'two'}.items() %}{{ k }}:{{ v }}{{ ',' if not loop.last }}{% endfor %}
{{ 'it''s' }} {{ "a" "b" }} {{ 'x' if nothing is none else 'y' }} {{ strftime_now('%Y-%m-%d') }}
{% if add_generation_prompt %}{{ bos_token }}>{% endif %}"""

TOOLS = [{"type": "function", "function": {"name": "get_weather", "description": "Weather of a city, 天気 & <more>",
          "parameters": {"type": "object", "properties": {"city": {"type": "string", "description": "The city"},
                                                          "days": {"type": "integer", "default": 1},
                                                          "unit": {"type": "string", "enum": ["C", "F"]}}, "required": ["city"]}}},
         {"type": "function", "function": {"name": "add", "description": "Adds.", "parameters": {
             "type": "object", "properties": {"a": {"type": "number"}, "b": {"type": "number"}}, "required": ["a", "b"]}}}]
CALL = {"role": "assistant", "content": "", "tool_calls": [
    {"id": "functions.get_weather:0", "type": "function",
     "function": {"name": "get_weather", "arguments": {"city": "Zürich", "days": 2}}},
    {"id": "functions.add:1", "type": "function", "function": {"name": "add", "arguments": {"a": 1, "b": 2.5}}}]}
CHAT = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "What is 1+1?"}]
CASES = [
    {"name": "chat", "messages": CHAT},
    {"name": "no_system", "messages": [{"role": "user", "content": "Hi"}]},
    {"name": "no_generation_prompt", "messages": CHAT, "add_generation_prompt": False},
    {"name": "turns", "messages": CHAT + [{"role": "assistant", "content": "2"}, {"role": "user", "content": "And 2+2?"},
                                          {"role": "assistant", "content": "4"}, {"role": "user", "content": "Thanks!"}]},
    {"name": "tools", "messages": CHAT, "tools": TOOLS},
    {"name": "tool_result", "tools": TOOLS, "messages": [
        {"role": "user", "content": "Weather in Zürich?"}, CALL,
        {"role": "tool", "tool_call_id": "functions.get_weather:0", "name": "get_weather", "content": "{\"t\": [18, 21]}"},
        {"role": "tool", "tool_call_id": "functions.add:1", "name": "add", "content": "3.5"}]},
    {"name": "tool_answer", "tools": TOOLS, "messages": [
        {"role": "system", "content": "Use tools."}, {"role": "user", "content": "Weather in Zürich?"}, CALL,
        {"role": "tool", "tool_call_id": "functions.get_weather:0", "name": "get_weather", "content": "sunny"},
        {"role": "assistant", "content": "Sunny."}, {"role": "user", "content": "And now?"}]},
    {"name": "parts", "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": [
        {"type": "text", "text": "First part,"}, {"type": "text", "text": "second part."}]}]},
    {"name": "unicode", "messages": [{"role": "system", "content": "Ты — помощник. 你是助手。"},
                                     {"role": "user", "content": "नमस्ते 👩‍👩‍👧‍👦 \u0000\u0001 \"quoted\" <|im_end|> {{ 1 }} {% x %}\n\n\ttab\\ 'q'"}]},
    {"name": "named_user", "messages": [{"role": "system", "name": "rules", "content": "Be kind."},
                                        {"role": "user", "name": "ann", "content": "Hello"}]},
    {"name": "empty", "messages": [{"role": "user", "content": ""}]},
    {"name": "no_messages", "messages": []},
    {"name": "thinking_off", "messages": CHAT, "variables": {"enable_thinking": False, "thinking": False}},
    {"name": "reasoning", "messages": CHAT + [
        {"role": "assistant", "reasoning_content": "One and one.", "content": "2"}, {"role": "user", "content": "Sure?"}]},
    {"name": "think_in_text", "messages": CHAT + [
        {"role": "assistant", "content": "<think>\nOne and one.\n</think>\n\n2"}, {"role": "user", "content": "Sure?"}]},
    {"name": "one_variable_more", "messages": CHAT, "variables": {"documents_note": "x", "custom": [1, {"a": None}]}},
]
SPECIAL = {"bos_token": "[BOS]", "eos_token": "[EOS]", "pad_token": "[PAD]", "unk_token": "[UNK]"}


class TemplateRaised(Exception):
    pass


def environment(sandbox):
    def raise_exception(message):
        raise TemplateRaised(message)

    def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    def strftime_now(fmt):
        return datetime.datetime.fromtimestamp(NOW, datetime.timezone.utc).strftime(fmt)

    env = sandbox(trim_blocks=True, lstrip_blocks=True, extensions=[jinja2.ext.loopcontrols])
    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = strftime_now
    return env


def render(source, case):
    """The text, or {"raises": message} or {"fails": True}. Kimi's templates append to lists, which the immutable sandbox of
    transformers refuses; Moonshot's own server does not use it."""
    values = dict(SPECIAL, **case.get("variables", {}))
    values |= {"messages": copy.deepcopy(case["messages"]), "tools": case.get("tools"), "documents": None,
               "add_generation_prompt": case.get("add_generation_prompt", True)}
    for sandbox in (jinja2.sandbox.ImmutableSandboxedEnvironment, jinja2.sandbox.SandboxedEnvironment):
        try:
            return {"text": environment(sandbox).from_string(source).render(**values)}
        except jinja2.sandbox.SecurityError:
            continue
        except TemplateRaised as e:
            return {"raises": str(e)}
        except Exception as e:  # whatever a template may do wrong
            return {"fails": type(e).__name__}
    raise AssertionError


def flattened(case):
    case = copy.deepcopy(case)
    for message in case["messages"]:
        if isinstance(message["content"], list):
            message["content"] = " ".join(p["text"] for p in message["content"])
    return case


def reads_parts(source):
    text = render(source, {"messages": [{"role": "user", "content": "a b"}]})
    parts = render(source, {"messages": [{"role": "user", "content": [{"type": "text", "text": "a b"}]}]})
    return "text" in parts and (parts == text or "text" not in text)


def main():
    fetched = pathlib.Path(sys.argv[1])
    sources = {POCKET: (ROOT / POCKET).read_text()}
    sources |= {name: (fetched / name).read_text() for name in FETCHED}
    inline = {"chatml": CHATML, "features": FEATURES}
    templates = []
    for name, source in (sources | inline).items():
        parts = reads_parts(source)
        templates.append({"name": name, **({"source": source} if name in inline else {}), "reads_parts": parts,
                          "rendered": {c["name"]: render(source, c if parts else flattened(c)) for c in CASES}})
    lines = [json.dumps(t, separators=(",", ":")) for t in CASES]
    out = '{"now":%d,"special":%s,"cases":[\n%s\n],"templates":[\n%s\n]}\n' % (
        NOW, json.dumps(SPECIAL), ",\n".join(lines), ",\n".join(json.dumps(t, separators=(",", ":")) for t in templates))
    OUT.write_text(out)
    json.loads(out)
    for t in templates:
        outcomes = [next(iter(r)) for r in t["rendered"].values()]
        print(f"{t['name']}: parts {t['reads_parts']}, {outcomes.count('text')} texts, {outcomes.count('raises')} raise, "
              f"{outcomes.count('fails')} fail {[r for r in t['rendered'].values() if 'fails' in r][:2]}")
    print(f"{OUT.stat().st_size} bytes")


if __name__ == "__main__":
    main()
