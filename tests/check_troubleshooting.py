#!/usr/bin/env python3
"""Every message that docs/TROUBLESHOOTING.md quotes ("> ..." with "…" for names and numbers) is one that the program has.

    check_troubleshooting.py [PAGE [SOURCE_FOLDER]]
"""
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LITERAL = re.compile(r'"((?:\\.|[^"\\\n])*)"')


def literals(folder):
    """The texts of all string literals; those that stand behind one another are one."""
    for path in sorted(folder.rglob("*")):
        if path.suffix not in (".cc", ".h", ".js"):
            continue
        source = re.sub(r'(?<!\\)"\s*\n\s*"', "", path.read_text(encoding="utf-8"))
        for match in LITERAL.finditer(source):
            yield match[1].replace('\\"', '"').replace("\\n", "\n").replace("{{", "{").replace("}}", "}")


def quoted(page):
    return re.findall(r"^> (.+)$", page, re.MULTILINE)


def pattern(message):
    return re.compile(".*".join(re.escape(part) for part in message.split("…")), re.DOTALL)


def main(arguments):
    page = Path(arguments[0]) if arguments else ROOT / "docs/TROUBLESHOOTING.md"
    messages = quoted(page.read_text(encoding="utf-8"))
    if not messages:
        print(f"{page}: quotes no message")
        return 1
    known = list(literals(Path(arguments[1]) if len(arguments) > 1 else ROOT / "src"))
    missing = [message for message in messages if not any(pattern(message).search(text) for text in known)]
    for message in missing:
        print(f"{page}: nothing in the source says: {message}")
    print(f"{len(messages)} messages, {len(missing)} unknown")
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
