#!/usr/bin/env python3
"""Tests of training/wordproblems: its problems are valid and consistent, and its checker refuses damaged ones.

Standard library only: python3 tests/training/generator_test.py
"""

import hashlib
import json
import os
import random
import re
import subprocess
import sys
import unittest
from fractions import Fraction
from pathlib import Path

TRAINING = Path(__file__).resolve().parents[2] / "training"
sys.path.insert(0, str(TRAINING))

import wordproblems as wp  # noqa: E402
from wordproblems.checker import KNOWN_FLAWS, evaluate  # noqa: E402
from wordproblems.fillers import NOUNS, PEOPLE  # noqa: E402

RIGHT = {
    "question": "Ana has 14 pens and buys three boxes of 8 pens. How many pens does she have?",
    "answer": "The boxes hold 3*8 = <<3*8=24>>24 pens.\nAna has 14+24 = <<14+24=38>>38 pens.\n#### 38",
    "final": 38,
}


def refused(problem: dict) -> bool:
    """Whether check() refuses a problem; any other exception is an error of the checker."""
    try:
        wp.check(problem)
    except ValueError:
        return True
    return False


def run_cli(*args: str, hash_seed: str = "0") -> bytes:
    env = dict(os.environ, PYTHONHASHSEED=hash_seed, PYTHONDONTWRITEBYTECODE="1")
    command = [sys.executable, "-m", "wordproblems", *args]
    return subprocess.run(command, cwd=TRAINING, env=env, check=True, capture_output=True).stdout


class Problems(unittest.TestCase):
    def test_every_template_writes_valid_problems(self):
        self.assertEqual(len(wp.TEMPLATES), len({t.__name__ for t in wp.TEMPLATES}))
        self.assertLessEqual(KNOWN_FLAWS, {t.__name__ for t in wp.TEMPLATES})
        rng = random.Random(11)
        for fn in wp.TEMPLATES:
            for split in ("train", "test", None):
                p = wp.generate(rng, split, fn)
                with self.subTest(template=fn.__name__, problem=p):
                    self.assertTrue(wp.check(p))
                    self.assertEqual(p["template"], fn.__name__)
                    self.assertRegex(p["question"], r"^[A-Z0-9$].*[?.]$")
                    self.assertEqual(p["answer"].split("\n")[-1], f"#### {p['final']}")
                    self.assertNotIn("\n", p["question"])

    def test_hundreds_of_random_problems_pass(self):
        rng = random.Random(12)
        for _ in range(600):
            p = wp.generate(rng)
            self.assertFalse(refused(p), p)

    def test_pronouns_agree_with_the_name(self):
        """In a problem about one person, no pronoun of the other gender occurs."""
        rng = random.Random(13)
        women = {str(p) for p in PEOPLE if p.female}
        men = {str(p) for p in PEOPLE if not p.female}
        self.assertFalse(women & men)
        seen = 0
        for _ in range(400):
            text = wp.generate(rng)["question"]
            words = set(re.findall(r"[A-Za-z]+", text))
            who = {w for w in words if w in women | men}
            if len(who) == 1:
                wrong = {"he", "him", "his", "He", "His"} if who <= women else {"she", "her", "She", "Her"}
                self.assertFalse(words & wrong, text)
                seen += 1
        self.assertGreater(seen, 100)

    def test_splits_do_not_meet(self):
        rng = random.Random(14)
        train = {wp.generate(rng, "train")["question"] for _ in range(3000)}
        test = {wp.generate(rng, "test")["question"] for _ in range(600)}
        self.assertFalse(train & test)
        pairs = [(str(p), n.pl) for p in PEOPLE for kind in NOUNS.values() for n in kind]
        held = sum(wp.HELD_OUT.pair(*x) for x in pairs) / len(pairs)
        self.assertTrue(0.08 < held < 0.12, held)


class Checker(unittest.TestCase):
    def test_accepts_a_right_problem(self):
        self.assertTrue(wp.check(RIGHT))

    def test_refuses_damage(self):
        cases = {
            "wrong value": ("<<3*8=24>>24", "<<3*8=25>>25", "wrong annotation"),
            "value shown differs": ("<<3*8=24>>24", "<<3*8=24>>42", "wrong annotation"),
            "expression shown differs": ("3*8 = <<3*8=24>>24", "8*3 = <<3*8=24>>24", "wrong annotation"),
            "operand from nowhere": ("14+24 = <<14+24=38>>38", "15+23 = <<15+23=38>>38", "comes from nowhere"),
            "final differs": ("#### 38", "#### 37", "does not match"),
            "no final": ("\n#### 38", "", "does not match"),
            "annotation cut": ("<<14+24=38>>38", "<<14+24=38", "malformed"),
            "division by zero": ("3*8 = <<3*8=24>>24", "24/0 = <<24/0=24>>24", "division by zero"),
            "not arithmetic": ("3*8 = <<3*8=24>>", "3*8 = <<__import__('os')=24>>", "wrong annotation"),
            "power": ("3*8 = <<3*8=24>>24", "3**8 = <<3**8=6561>>6561", "not an expression"),
            "double sign": ("3*8 = <<3*8=24>>24", "12--12 = <<12--12=24>>24", "not an expression"),
            "negative value": ("14+24 = <<14+24=38>>38", "14-24 = <<14-24=-10>>-10", "malformed"),
            "value not a number": ("<<3*8=24>>24", "<<3*8=1.2.3>>1.2.3", "wrong annotation"),
            "placeholder left": ("The boxes", "[S] boxes", "odd text"),
        }
        for name, (old, new, message) in cases.items():
            with self.subTest(name):
                self.assertIn(old, RIGHT["answer"])
                with self.assertRaisesRegex(ValueError, message):
                    wp.check(dict(RIGHT, answer=RIGHT["answer"].replace(old, new)))
        self.assertTrue(refused(dict(RIGHT, final=37)))
        self.assertTrue(refused(dict(RIGHT, question=RIGHT["question"].replace("14", "13"))))
        self.assertTrue(refused(dict(RIGHT, question=RIGHT["question"].replace("Ana", "{name}"))))
        self.assertTrue(refused(dict(RIGHT, answer="#### 38")))
        self.assertTrue(refused(dict(RIGHT, answer="")))

    def test_refuses_every_changed_result(self):
        """Each annotated value of many problems, raised by one in both places, is noticed."""
        rng = random.Random(15)
        damaged = 0
        for _ in range(400):
            p = wp.generate(rng)
            for m in re.finditer(r"=(\d+)>>(\d+)", p["answer"]):
                v = str(int(m[1]) + 1)
                answer = p["answer"][: m.start()] + f"={v}>>{v}" + p["answer"][m.end() :]
                self.assertTrue(refused(dict(p, answer=answer)), answer)
                damaged += 1
            self.assertTrue(refused(dict(p, final=int(float(p["final"])) + 1)))
        self.assertGreater(damaged, 800)

    def test_evaluate_agrees_with_python(self):
        rng = random.Random(16)
        for _ in range(2000):
            expr = str(rng.randint(1, 99))
            for _ in range(rng.randint(0, 4)):
                expr += rng.choice("+-*/") + rng.choice([str(rng.randint(1, 99)), f"{rng.randint(1, 99)}.25"])
            want = eval(re.sub(r"\d+(?:\.\d+)?", r"Fraction('\g<0>')", expr), {"Fraction": Fraction})
            self.assertEqual(evaluate(expr), want, expr)
        for bad in ("", "+", "1+", "*2", "1++2", "2**3", "(1+2)", "1 + 2", "1.", "x", "1,000"):
            with self.assertRaises(ValueError, msg=bad):
                evaluate(bad)


class Chats(unittest.TestCase):
    def test_every_skill_writes_whole_conversations(self):
        self.assertEqual(len(wp.SKILLS), len({s.__name__ for s in wp.SKILLS}))
        rng = random.Random(17)
        for fn in wp.SKILLS:
            for _ in range(12):
                chat = wp.generate_chat(rng, fn)
                with self.subTest(skill=fn.__name__, chat=chat):
                    self.check_chat(chat, fn.__name__)

    def check_chat(self, chat: dict, kind: str):
        self.assertEqual(chat["kind"], kind)
        messages = chat["messages"]
        roles = " ".join(m["role"] for m in messages)
        self.assertIn(roles, ("user assistant", "user assistant user assistant", "user assistant tool assistant"))
        declared = {t["function"]["name"]: t["function"]["parameters"] for t in chat.get("tools", [])}
        self.assertEqual("tools" in chat, bool(declared))
        for m in messages:
            calls = m.get("tool_calls", [])
            self.assertTrue(m["content"] or calls)
            for call in calls:
                parameters = declared[call["function"]["name"]]
                args = json.loads(call["function"]["arguments"])
                self.assertEqual(list(args), parameters["required"])
                for k, v in args.items():
                    self.assertIsInstance(v, {"integer": int, "string": str}[parameters["properties"][k]["type"]])

    def test_sums_in_replies_are_right(self):
        rng = random.Random(18)
        skills = {s.__name__: s for s in wp.SKILLS}
        seen = 0
        for name in ("add_numbers", "subtract_numbers", "multiply_numbers", "sum_list", "tool_result"):
            for _ in range(100):
                reply = wp.generate_chat(rng, skills[name])["messages"][-1]["content"]
                m = re.fullmatch(r"([\d +*-]+) = (-?\d+)", reply)
                if m:
                    self.assertEqual(eval(m[1]), int(m[2]), reply)
                    seen += 1
                else:
                    self.assertEqual(name, "tool_result", reply)
        self.assertGreater(seen, 400)

    def test_json_replies_parse(self):
        rng = random.Random(19)
        for fn in wp.SKILLS:
            if fn.__name__ in ("json_person", "json_item", "json_array", "extract_json"):
                for _ in range(50):
                    json.loads(wp.generate_chat(rng, fn)["messages"][-1]["content"])


class Output(unittest.TestCase):
    def test_same_seed_same_output_whatever_the_hash_seed(self):
        for args in (("--seed", "3"), ("--seed", "3", "--chat"), ("--seed", "3", "--split", "test")):
            a = run_cli("--count", "400", *args, hash_seed="1")
            self.assertEqual(a, run_cli("--count", "400", *args, hash_seed="2"))
            self.assertEqual(len(a.splitlines()), 400)
            self.assertNotEqual(a, run_cli("--count", "400", *args, "--seed", "4"))

    def test_output_is_what_the_shipped_pair_was_trained_on(self):
        """models/pocket-k2 was trained on this stream; another hash means that retraining starts from other data.

        Written by the one-file generator of that training run.
        """
        pinned = {
            ("--split", "train"): "4836c2504c557c962b1a84fdf10ec1dbfc57641283517473f8b4f39def11c3de",
            ("--split", "test"): "bea05974e04db05c83d5257eb2a060fe4d07652feff72e71ab2a15e8b0941fd9",
            ("--chat",): "5cb4e6c6e5bb6d3564185b8a7f29bce76f1c901ad4595f8f92da7cc93120ce3a",
        }
        for args, want in pinned.items():
            out = run_cli("--count", "3000", "--seed", "2026", *args)
            self.assertEqual(hashlib.sha256(out).hexdigest(), want, args)

    def test_lines_are_gsm8k_records(self):
        for line in run_cli("--count", "50", "--seed", "5").splitlines():
            self.assertEqual(list(json.loads(line)), ["question", "answer"])
        self.assertEqual(run_cli("--count", "0"), b"")


if __name__ == "__main__":
    unittest.main(verbosity=1)
