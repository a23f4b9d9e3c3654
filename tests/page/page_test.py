#!/usr/bin/env python3
"""The page in a real headless Chromium, before a real server with the model that comes along.

    tests/page/page_test.py [--strobe build/release/strobe] [--page DIR] [--shots DIR] [unittest's arguments]

Needs Debian's chromium and chromium-driver (scripts/test page installs them). --page src/serve/page takes the page from its files
instead of from the program, for working on it without building. --shots (with Debian's pngquant) writes the pictures of
docs/images.
"""
import argparse
import contextlib
import json
import os
import re
import subprocess
import sys
import threading
import time
import unittest
import urllib.error
import urllib.request
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from proxy import Proxy  # noqa: E402
from webdriver import Browser  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
QUESTION = "Priya is 19 years old now. Erik is 9 years older than Priya. What was Erik's age 3 years ago?"
STORED = re.compile(r"serves (\S+) on http://[^:]+:(\d+)")
strobe_path = ROOT / "build/release/strobe"
page_folder = None
shots = None


class Strobe:
    """`strobe serve` with the model that comes along, on a free port."""

    def __init__(self, *flags):
        self.lines = []
        self.process = subprocess.Popen([strobe_path, "serve", "--port", "0", *flags], cwd=ROOT, text=True,
                                        stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        for line in self.process.stdout:
            self.lines.append(line)
            found = STORED.search(line)
            if found:
                self.port = int(found.group(2))
                break
        else:
            raise AssertionError(f"strobe serve ended with {self.process.wait()}:\n{''.join(self.lines)}")
        self.reader = threading.Thread(target=lambda: self.lines.extend(self.process.stdout), daemon=True)
        self.reader.start()

    def close(self):
        self.process.terminate()
        self.process.wait()
        self.reader.join()
        self.process.stdout.close()

    def post(self, path, body):
        """(status, JSON)"""
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", json.dumps(body).encode(),
                                         {"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request) as response:
                return response.status, json.load(response)
        except urllib.error.HTTPError as error:
            return error.code, json.load(error)

    def get(self, path):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}") as response:
            return json.load(response)


# What the page's script would say about its newest turn.
TOKENS = """
  const pane = [...document.querySelectorAll(arguments[0])].at(-1);
  return [...pane.querySelectorAll(".tok")].map(e => ({text: e.classList.contains("end") ? "" : e.textContent,
                                                      look: e.className.replace(/ (end|kin|now)/g, ""), mark: e.dataset.mark}));
"""
# Contrast and lightness as WCAG has them, of colours as the browser computed them.
COLOURS = """
  const linear = v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
  const canvas = new OffscreenCanvas(1, 1).getContext("2d", {willReadFrequently: true});
  const light = colour => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = colour;
    canvas.fillRect(0, 0, 1, 1);
    const [r, g, b] = [...canvas.getImageData(0, 0, 1, 1).data].map(v => linear(v / 255));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  return arguments[0].map(selector => {
    const element = document.querySelector(selector);
    const style = getComputedStyle(element);
    let back = element;
    while (getComputedStyle(back).backgroundColor === "rgba(0, 0, 0, 0)") back = back.parentElement;
    const [ink, ground] = [light(style.color), light(getComputedStyle(back).backgroundColor)];
    return {selector, ground, contrast: (Math.max(ink, ground) + 0.05) / (Math.min(ink, ground) + 0.05)};
  });
"""


def look_of(token):
    """The class a token must have, from what the server says of it."""
    if token["block_position"] > 0:
        return f"tok draft s{token['block_position']}"
    return "tok bonus" if token["drafted"] > 0 else "tok plain"


class PageTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cleanup = contextlib.ExitStack()
        cls.addClassCleanup(cls.cleanup.close)
        cls.strobe = Strobe()
        cls.cleanup.callback(cls.strobe.close)
        cls.proxy = Proxy(cls.strobe.port, page_folder)
        cls.cleanup.callback(cls.proxy.stop)
        cls.browser = cls.cleanup.enter_context(Browser())
        cls.url = f"http://127.0.0.1:{cls.proxy.port}/"

    def setUp(self):
        self.proxy.reset()
        self.failures_expected = False
        b = self.browser
        b.size(1280, 860)
        b.media(prefers_color_scheme="light", prefers_reduced_motion="no-preference")
        b.open("about:blank")
        b.cdp("Storage.clearDataForOrigin", origin=self.url, storageTypes="all")
        b.console(), b.requested()
        b.open(self.url)
        b.run("sessionStorage.clear()")  # of the tab, which stays
        self.wait_ready()

    def tearDown(self):
        messages = self.browser.console()
        if not self.failures_expected:
            self.assertEqual(messages, [], "the browser's console")
        for url in self.browser.requested():
            self.assertTrue(url.startswith(self.url) or url.startswith("data:"), f"the page fetched {url}")

    # Steps
    def wait_ready(self):
        self.browser.wait("the page knows the server", lambda: self.browser.text("#health") == "ready")

    def wait_answer(self, turns=1):
        b = self.browser
        b.wait("an answer", lambda: b.visible("#send") and b.count(".turn") == turns and b.count(".replay, .error") == turns)

    def start(self, question=QUESTION):
        self.browser.run("document.querySelector('#question').value = ''")
        self.browser.type("#question", question)
        self.browser.click("#send")

    def ask(self, question=QUESTION, turns=1):
        self.start(question)
        self.wait_answer(turns)

    def tokens(self, pane=".pane"):
        return self.browser.run(TOKENS, pane)

    def answer_text(self, pane=".pane"):
        return "".join(token["text"] for token in self.tokens(pane))

    def expected(self, **fields):
        """The same question's whole answer, straight from the server."""
        body = {"messages": [{"role": "user", "content": QUESTION}], "temperature": 0, "max_tokens": 512,
                "return_token_origins": True, **fields}
        status, answer = self.strobe.post("/v1/chat/completions", body)
        self.assertEqual(status, 200, answer)
        return answer

    def set_field(self, name, value):
        self.browser.run("document.querySelector(`[name=${arguments[0]}]`).value = arguments[1]", name, value)

    def shot(self, name):
        if not shots:
            return
        path = os.path.join(shots, f"{name}.png")
        self.browser.screenshot(path)
        subprocess.run(["pngquant", "--force", "--strip", "--output", path, "256", path], check=True)

    def make_traffic(self, seconds):
        """Waves of word problems and other texts."""
        end = time.monotonic() + seconds

        def client(number):
            turn = number
            while time.monotonic() < end:
                turn += 1
                question = QUESTION.replace("19", str(turn % 40 + 11)) if turn % 3 else "Write about the sea."
                self.strobe.post("/v1/chat/completions", {"messages": [{"role": "user", "content": question}], "max_tokens": 160})
                if turn % 5 == 0:
                    time.sleep(number * 0.7)

        clients = [threading.Thread(target=client, args=(number,)) for number in range(8)]
        for thread in clients:
            thread.start()
        for thread in clients:
            thread.join()

    # Tests
    def test_first_sight(self):
        b = self.browser
        self.assertEqual(b.run("return document.title"), "pocket-k2 · Strobe")
        self.assertEqual(b.count("#examples button"), 4)
        self.assertEqual(b.run("return document.querySelector('#dflash').ariaChecked"), "true")
        info = self.strobe.get("/server_info")
        memory = b.text("#memory .body")
        self.assertGreater(len(info["memory_plan"]), 2)
        for item in info["memory_plan"]:
            self.assertIn(item["what"], memory)
            self.assertIn(item["detail"], memory)
        for what, decision in info["decisions"].items():
            self.assertIn(decision["reason"], b.text("#decisions .body"), what)

    def test_tokens_are_coloured_by_how_they_came(self):
        b = self.browser
        self.proxy.hold(4)
        b.click("#examples button")
        b.wait("the first steps", lambda: len(self.tokens()) > 4)
        self.assertTrue(b.visible("#stop") and not b.visible("#send"), "it runs")
        early = self.answer_text()
        self.proxy.release()
        self.wait_answer()
        answer = self.expected()
        choice = answer["choices"][0]
        self.assertTrue(choice["message"]["content"].startswith(early) and early != choice["message"]["content"])
        self.assertEqual(self.answer_text(), choice["message"]["content"])
        origins = choice["token_origins"]["tokens"]
        shown = {piece["token"] for piece in choice["token_origins"]["pieces"]} | {len(origins) - 1}  # and the end's sign
        tokens = self.tokens()
        self.assertEqual([token["look"] for token in tokens], [look_of(origins[i]) for i in sorted(shown)])
        looks = {token["look"] for token in tokens}
        self.assertLessEqual({"tok plain", "tok bonus", "tok draft s1", "tok draft s7"}, looks)
        self.assertEqual({t["mark"] for t in tokens if "draft" in t["look"]}, set("1234567"))
        usage = answer["usage"]
        facts = b.text(".answer-facts").replace("\u00a0", " ")
        self.assertIn(f"{usage['completion_tokens']} tokens in {origins[-1]['step']} steps", facts)
        self.assertIn(f"accept length {usage['accept_length']:.2f}", facts)
        self.assertEqual(self.proxy.chats()[0]["speculative"], "auto")

    def test_a_token_tells_its_block(self):
        b = self.browser
        self.ask()
        self.assertFalse(b.visible("#detail"))
        b.hover(".tokens .tok.s3")
        self.assertTrue(b.visible("#detail"))
        origins = self.expected()["choices"][0]["token_origins"]["tokens"]
        step = next(token["step"] for token in origins if token["block_position"] == 3)
        block = [token for token in origins if token["step"] == step]
        self.assertIn(f"Step {step} · {len(block)} tokens in this step", b.text("#detail"))
        self.assertIn("accepted draft, position 3 of 7", b.text("#detail"))
        self.assertEqual(b.count("#detail .cell"), 8)
        self.assertEqual(b.count("#detail .cell:not(.missing)"), len(block))
        self.assertEqual(b.run("return document.querySelector('#detail .cell.current .cell-mark').textContent"), "3")
        self.assertEqual(b.count(".tok.kin"), len(block))
        mark = b.run("return getComputedStyle(document.querySelector('.tok.now'), '::before').content")
        self.assertEqual(mark, '"3"')
        b.hover("#question")
        self.assertFalse(b.visible("#detail"))
        b.click("#numbers")
        self.assertEqual(b.run("return getComputedStyle(document.querySelector('.tok.s5'), '::after').content"), '"5"')

    def test_a_draft_that_was_not_accepted_is_crossed_out(self):
        b = self.browser
        self.ask("Write about the sea.")
        origins = b.run("return [...document.querySelectorAll('.tokens .tok')].map(e => [e.token.step, e.token.position])")
        sizes = {step: sum(1 for other, _ in origins if other == step) for step, _ in origins}
        step = next(step for step, position in origins if step > 0 and position == 0 and 1 < sizes[step] < 8)
        b.run("""const tok = [...document.querySelectorAll('.tokens .tok')].find(e => e.token.step === arguments[0]);
                 tok.scrollIntoView({block: "center"}); tok.click();""", step)
        marks = b.run("return [...document.querySelectorAll('#detail .cell')].map(e => e.title)")
        accepted = sizes[step] - 1
        self.assertEqual(marks, ["accepted"] * accepted + ["not accepted"] * (7 - accepted) + ["bonus"])

    def test_keyboard_alone(self):
        b = self.browser
        b.press("Tab")
        self.assertEqual(b.run("return document.activeElement.className"), "skip")
        b.press("Enter")
        b.run("document.querySelector('#question').focus()")
        b.press(*"Julie has $5.", "Shift+Enter")
        self.assertEqual(b.run("return document.querySelector('#question').value"), "Julie has $5.\n")
        b.run("document.querySelector('#question').value = arguments[0]", QUESTION)
        b.press("Enter")
        self.wait_answer()
        for _ in range(40):
            b.press("Shift+Tab")
            if b.run("return document.activeElement.classList.contains('tokens')"):
                break
        b.wait("the first token's story", lambda: b.visible("#detail"))
        self.assertIn("Prefill", b.text("#detail"))
        b.press("Right")
        self.assertIn("Step 1", b.text("#detail"))
        second = self.expected()["choices"][0]["token_origins"]["tokens"][1]
        self.assertIn("position 1 of 7" if second["block_position"] == 1 else "bonus", b.text("#detail"))
        b.press("Down")
        self.assertIn("Step 2", b.text("#detail"))
        b.press("Up", "Left")
        self.assertIn("Prefill", b.text("#detail"))
        b.press("Escape")
        self.assertFalse(b.visible("#detail"))
        self.assertEqual(b.run("return document.querySelector('#detail').role"), "status", "it is read out")

    def test_everything_has_a_name(self):
        b = self.browser
        self.ask()
        b.click("#settings-open")
        tree = b.cdp("Accessibility.getFullAXTree")["nodes"]
        roles = {"button", "textbox", "checkbox", "switch", "link", "img", "figure", "dialog", "group"}
        nameless = [(node["role"]["value"], node.get("properties")) for node in tree
                    if not node.get("ignored") and node["role"]["value"] in roles
                    and node["role"]["value"] not in ("group", "figure") and not node["name"]["value"]]
        self.assertEqual(nameless, [])
        names = {node["name"]["value"] for node in tree if not node.get("ignored") and "name" in node}
        self.assertLessEqual({"Temperature", "Top p", "Max tokens", "Seed", "System prompt"}, names)
        b.press("Escape")

    def test_switch_off_writes_the_same_text_plainly(self):
        b = self.browser
        self.ask()
        fast = self.answer_text()
        b.run("document.querySelector('#dflash').focus()")
        b.press("Space")
        self.assertEqual(b.run("return document.querySelector('#dflash').ariaChecked"), "false")
        self.ask(turns=2)
        self.assertEqual(self.proxy.chats()[1]["speculative"], "off")
        self.assertEqual({token["look"] for token in self.tokens()}, {"tok plain"})
        self.assertEqual(self.answer_text(), fast)
        steps = [int(n) for n in re.findall(r"in\s(\d+)\ssteps", b.text("#log"))]
        self.assertGreater(steps[1], 3 * steps[0])

    def test_compare(self):
        b = self.browser
        b.type("#question", QUESTION)
        b.click("#compare")
        self.wait_answer()
        self.assertEqual([body["speculative"] for body in self.proxy.chats()], ["auto", "off"])
        self.assertEqual(*[{k: v for k, v in body.items() if k not in ("rid", "speculative")} for body in self.proxy.chats()])
        text = self.expected()["choices"][0]["message"]["content"]
        fast, plain = "[data-way=dflash]", "[data-way=plain]"
        self.assertEqual(self.answer_text(fast), text)
        self.assertEqual(self.answer_text(plain), text)
        self.assertIn("The texts are equal", b.text(".verdict"))
        self.assertRegex(b.text(".verdict"), r"DFlash was [\d.]+× (faster|slower) \(.+ against .+; \d+ steps against \d+\)")
        self.assertTrue(any("draft" in token["look"] for token in self.tokens(fast)))
        self.assertEqual({token["look"] for token in self.tokens(plain)}, {"tok plain"})
        # Slowed down the slower one falls behind (on a busy machine that may be either); at the end all is as before.
        replay = """const button = document.querySelector(".replay");
                    if (button.textContent.startsWith("Slowed down") !== arguments[0]) button.click();
                    const [fast, plain] = [...document.querySelectorAll(".tokens")].map(e => e.textContent.length);
                    return [fast, plain];"""
        b.wait("a difference", lambda: (lambda fast, plain: fast != plain)(*b.run(replay, True)))
        b.run(replay, False)
        self.assertEqual((self.answer_text(fast), self.answer_text(plain)), (text, text))
        self.assertEqual(b.text(".replay"), "Replay both slowly")

    def test_compare_of_sampled_texts(self):
        b = self.browser
        b.click("#settings-open")
        self.set_field("temperature", "1.5")
        b.press("Escape")
        b.type("#question", QUESTION)
        b.click("#compare")
        self.wait_answer()
        seeds = [body["seed"] for body in self.proxy.chats()]
        self.assertEqual(seeds[0], seeds[1])
        self.assertEqual([body["temperature"] for body in self.proxy.chats()], [1.5, 1.5])
        self.assertEqual(b.text(".verdict-texts"), "The texts are equal")
        self.assertEqual(self.answer_text("[data-way=dflash]"), self.answer_text("[data-way=plain]"))
        b.click("#settings-open")
        self.set_field("seed", "4")
        b.press("Escape")
        b.click("#fresh")
        b.click("#compare")
        self.wait_answer()
        self.assertEqual([body["seed"] for body in self.proxy.chats()[2:]], [4, 4])
        self.assertEqual(b.text(".verdict-texts"), "The texts are equal")

    def test_compare_says_when_texts_differ(self):
        b = self.browser
        self.proxy.change_plain = (b"old", b"OLD")
        b.type("#question", QUESTION)
        b.click("#compare")
        self.wait_answer()
        self.assertEqual(b.run("return document.querySelector('.verdict').dataset.equal"), "false")
        self.assertEqual(b.text(".verdict-texts"), "The texts differ.")

    def test_settings_reach_the_server_and_stay(self):
        b = self.browser
        b.click("#settings-open")
        wanted = {"temperature": "0.5", "top_p": "0.9", "max_tokens": "20", "seed": "7", "system": "Be brief.", "key": "k3y"}
        for name, value in wanted.items():
            self.set_field(name, value)
        self.set_field("stop", "zzz\nyyy")
        b.click("[name=remember]")
        b.click("#settings .main")
        self.ask()
        self.ask("And now?", turns=2)
        first, second = self.proxy.chats()
        self.assertEqual({k: first[k] for k in ("temperature", "top_p", "max_tokens", "seed", "stop")},
                         {"temperature": 0.5, "top_p": 0.9, "max_tokens": 20, "seed": 7, "stop": ["zzz", "yyy"]})
        self.assertEqual([m["role"] for m in first["messages"]], ["system", "user"])
        self.assertEqual([m["role"] for m in second["messages"]], ["system", "user", "assistant", "user"])
        b.click("#fresh")
        self.assertTrue(b.visible("#welcome"))
        b.open(self.url)
        self.wait_ready()
        kept = b.run("return Object.fromEntries([...document.querySelectorAll('#settings [name]')].map(e => [e.name, e.value]))")
        self.assertLessEqual(wanted.items(), kept.items())
        self.assertNotIn("k3y", b.run("return JSON.stringify(localStorage)"), "keys are not kept for good")
        b.click("#settings-open")
        b.click("#settings-reset")
        b.click("#settings .main")
        self.ask()
        self.assertNotIn("seed", self.proxy.chats()[-1])

    def test_stop_strings_are_never_shown(self):
        b = self.browser
        text = self.expected()["choices"][0]["message"]["content"]
        stop = text[20:34].split("\n")[0]
        b.click("#settings-open")
        self.set_field("stop", stop)
        b.press("Escape")
        self.ask()
        self.assertEqual(self.answer_text(), text[:text.index(stop)])

    def test_stop_button(self):
        b = self.browser
        self.proxy.hold(3)
        b.type("#question", QUESTION)
        b.click("#send")
        b.wait("it runs", lambda: len(self.tokens()) > 0)
        b.click("#stop")
        self.wait_answer()
        self.assertIn("stopped", b.text(".answer-facts"))
        self.assertIn(("/abort_request", {"rid": self.proxy.chats()[0]["rid"]}), self.proxy.asked)
        self.proxy.release()
        self.ask(turns=2)
        self.assertEqual(self.answer_text(), self.expected()["choices"][0]["message"]["content"])

    def test_what_the_server_refuses_is_shown(self):
        self.failures_expected = True
        b = self.browser
        b.click("#settings-open")
        self.set_field("max_tokens", "many")
        b.press("Escape")
        self.ask()
        status, answer = self.strobe.post("/v1/chat/completions", {"messages": [{"role": "user", "content": "x"}],
                                                                   "max_tokens": "many"})
        self.assertEqual(status, 400)
        self.assertEqual(b.text(".error-text"), answer["error"]["message"])
        self.assertEqual(b.text(".error-title"), "The server refused the request (400)")
        self.assertEqual(b.run("return document.querySelector('.error').role"), "alert")

    def test_a_busy_server_can_be_asked_again(self):
        self.failures_expected = True
        b = self.browser
        self.proxy.fail_next = (503, {"error": {"message": "the queue is full: 8 requests wait"}})
        self.ask()
        self.assertEqual(b.text(".error-title"), "The server cannot take it now (503)")
        self.assertEqual(b.text(".error-text"), "the queue is full: 8 requests wait")
        b.click(".error button")
        b.wait("an answer", lambda: b.count(".replay") == 1 and b.count(".error") == 0)
        self.assertEqual(self.answer_text(), self.expected()["choices"][0]["message"]["content"])

    def test_a_broken_answer_is_said_to_be_broken(self):
        self.failures_expected = True
        b = self.browser
        self.proxy.cut_after = 3
        self.proxy.hold(3)  # a browser may drop what it has not handed to the page when the connection breaks
        self.start()
        b.wait("tokens", self.tokens)
        came = self.answer_text()
        self.proxy.release()
        self.wait_answer()
        self.assertEqual(b.text(".error-title"), "The answer broke off")
        self.assertTrue(self.answer_text().startswith(came), "what came stays")

    def test_a_server_that_goes_and_comes_back(self):
        self.failures_expected = True
        b = self.browser
        self.proxy.stop()
        b.wait("the page sees it", lambda: b.text("#health") == "not reachable")
        self.ask()
        self.assertEqual(b.text(".error-title"), "The server cannot be reached")
        self.proxy.start()
        self.wait_ready()
        b.click(".error button")
        b.wait("an answer", lambda: b.count(".replay") == 1)

    def test_a_server_with_a_key(self):
        self.failures_expected = True
        b = self.browser
        guarded = Strobe("--api-key", "s3cret")
        self.addCleanup(guarded.close)
        behind, self.proxy.upstream_port = self.proxy.upstream_port, guarded.port
        self.addCleanup(setattr, self.proxy, "upstream_port", behind)
        b.open(self.url)
        b.wait("the page sees it", lambda: b.text("#health") == "API key needed")
        self.ask()
        self.assertEqual(b.text(".error-title"), "The server asks for an API key (401)")
        b.click(".error button:nth-of-type(2)")
        b.press(*"s3cret", "Enter")
        self.wait_ready()
        b.click(".error button")
        b.wait("an answer", lambda: b.count(".replay") == 1)

    def test_live_charts(self):
        b = self.browser
        self.ask()
        label = "return document.querySelector('.card').getAttribute('aria-label')"
        b.wait("an accept length", lambda: re.match(r"Accept length: [1-8]\.\d\d tokens a step", b.run(label)))
        self.assertGreater(b.run("return document.querySelector('.line.a').getTotalLength()"), 0)
        histogram = self.strobe.get("/v1/loads")["loads"][0]["speculative"]["accept_histogram_total"]
        shares = [sum(histogram[i:]) / sum(histogram) for i in range(1, 8)]
        bars = "return [...document.querySelectorAll('.bar')].map(e => parseFloat(e.style.height))"
        b.wait(f"bars of {shares}, which are asked for now and then",
               lambda: all(abs(bar - share * 100) < 0.01 for bar, share in zip(b.run(bars), shares, strict=True)))
        self.assertEqual(b.count(".card svg"), 4)

    def test_phone(self):
        b = self.browser
        b.size(360, 740)
        self.ask()
        inside = """return [...document.querySelectorAll('button, textarea, input, .tok, .turn')].filter(e => {
                      const box = e.getBoundingClientRect();
                      return e.checkVisibility() && (box.left < 0 || box.right > innerWidth);
                    }).map(e => e.outerHTML)"""
        self.assertEqual(b.run("return document.documentElement.scrollWidth"), 360)
        self.assertEqual(b.run(inside), [])
        small = b.run("""return [...document.querySelectorAll('button')].filter(e => e.checkVisibility() &&
                         e.getBoundingClientRect().height < 36).map(e => e.outerHTML)""")
        self.assertEqual(small, [], "fingers need room")
        rows = b.run("return new Set([...document.querySelectorAll('.tools button')].filter(e => e.checkVisibility()).map("
                     "e => e.getBoundingClientRect().top)).size")
        self.assertEqual(rows, 1, "the tools stand in one row")
        b.click(".tokens .tok.s2")
        card = b.run("const box = document.querySelector('#detail').getBoundingClientRect();"
                     "return [box.left >= 0, box.right <= 360, box.bottom <= 740]")
        self.assertEqual(card, [True, True, True])
        b.press("Escape")
        self.assertFalse(b.visible("#live"))
        b.click("#live-toggle")
        self.assertTrue(b.visible("#live"))
        self.assertEqual(b.run(inside), [])
        b.click("#live-close")
        self.assertFalse(b.visible("#live"))
        b.type("#question", QUESTION)
        b.click("#compare")
        self.wait_answer(turns=2)
        self.assertEqual(b.run("return document.documentElement.scrollWidth"), 360)

    def test_dark_and_light(self):
        b = self.browser
        self.ask()
        shades = [f".legend .s{i}" for i in range(1, 8)]
        texts = [*shades, ".legend .bonus", ".legend .plain", ".question", ".answer-facts", ".chart-title", "#send", "#settings-open"]
        grounds = {}
        for scheme in ("light", "dark"):
            b.media(prefers_color_scheme=scheme)
            for colour in b.run(COLOURS, texts):
                self.assertGreaterEqual(colour["contrast"], 4.5, f"{scheme}: {colour['selector']}")
            scale = [colour["ground"] for colour in b.run(COLOURS, shades)]
            self.assertEqual(scale, sorted(scale, reverse=True), f"{scheme}: the scale reads by lightness alone")
            self.assertGreater(scale[0] / scale[-1], 2)
            grounds[scheme] = b.run(COLOURS, ["body"])[0]["ground"]
        self.assertGreater(grounds["light"], 0.8)
        self.assertLess(grounds["dark"], 0.05)
        # The button overrules the system, and the choice stays.
        b.click("#theme")
        self.assertEqual(b.text("#theme"), "Light")
        self.assertEqual(b.run(COLOURS, ["body"])[0]["ground"], grounds["light"])
        b.open(self.url)
        self.wait_ready()
        self.assertEqual(b.run(COLOURS, ["body"])[0]["ground"], grounds["light"])
        b.click("#theme")
        b.media(prefers_color_scheme="light")
        self.assertEqual(b.run(COLOURS, ["body"])[0]["ground"], grounds["dark"])
        b.click("#theme")
        self.assertEqual(b.run(COLOURS, ["body"])[0]["ground"], grounds["light"])

    def test_reduced_motion(self):
        b = self.browser
        moving = "return getComputedStyle(document.querySelector('.knob')).transitionDuration"
        self.assertNotEqual(b.run(moving), "0s")
        b.media(prefers_reduced_motion="reduce")
        self.assertEqual(b.run(moving), "0s")

    def test_pictures(self):
        """What a visitor sees; with --shots also the pictures of docs/images, with half a minute of other requests in the charts."""
        b = self.browser
        if shots:
            self.make_traffic(seconds=35)
        b.click("#examples li:nth-child(4) button")
        self.wait_answer()
        b.run("document.querySelector('#question').value = arguments[0]", QUESTION)
        b.click("#compare")
        self.wait_answer(turns=2)
        b.wait("charts", lambda: "–" not in b.text(".card .value"))
        b.run("const t = [...document.querySelectorAll('[data-way=dflash] .tokens')].at(-1); t.scrollIntoView({block: 'center'})")
        b.hover(".comparison [data-way=dflash] .tok.s6")
        self.assertTrue(b.visible("#detail"))
        self.shot("page-light")
        b.media(prefers_color_scheme="dark")
        self.shot("page-dark")
        b.size(360, 740)
        b.run("document.querySelector('#log').scrollTop = 0")
        b.click(".tokens .tok.s4")
        self.shot("page-phone")


def main():
    global strobe_path, page_folder, shots
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--strobe", type=Path, default=strobe_path)
    parser.add_argument("--page", type=Path)
    parser.add_argument("--shots")
    options, rest = parser.parse_known_args()
    strobe_path, page_folder, shots = options.strobe.resolve(), options.page, options.shots
    unittest.main(argv=[sys.argv[0], *rest])


if __name__ == "__main__":
    main()
