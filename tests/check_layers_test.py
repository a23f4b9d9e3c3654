#!/usr/bin/env python3
"""check_layers.py must see what it is for: upward includes, rings, upward links, includes without a link, unknown rooms."""
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

CHECK = Path(__file__).resolve().parent / "check_layers.py"


class CheckLayers(unittest.TestCase):
    def run_on(self, files):
        with tempfile.TemporaryDirectory() as folder:
            for name, text in files.items():
                path = Path(folder) / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
            done = subprocess.run([sys.executable, CHECK, "--src", folder], capture_output=True, text=True, check=False)
            return done.returncode, done.stdout

    def test_downward_is_fine(self):
        code, _ = self.run_on({"base/a.h": "", "model/b.h": '#include "base/a.h"\n#include <vector>\n'})
        self.assertEqual(code, 0)

    def test_upward_include(self):
        code, text = self.run_on({"base/a.h": '#include "model/b.h"\n', "model/b.h": ""})
        self.assertEqual(code, 1)
        self.assertIn("base/a.h (floor 0) includes model/b.h (floor 5)", text)

    def test_same_floor_include(self):
        code, _ = self.run_on({"ops/a.h": '#include "load/b.h"\n', "load/b.h": ""})
        self.assertEqual(code, 1)

    def test_ring(self):
        code, text = self.run_on({"base/a.h": '#include "base/b.h"\n', "base/b.h": '#include "base/a.h"\n'})
        self.assertEqual(code, 1)
        self.assertIn("circular", text)

    def test_upward_link(self):
        code, text = self.run_on({"base/CMakeLists.txt": "strobe_room(base SOURCES a.cc ROOMS serve LIBRARIES x)"})
        self.assertEqual(code, 1)
        self.assertIn("room base links serve", text)

    def test_include_without_link(self):
        files = {"base/a.h": "", "model/b.h": '#include "base/a.h"\n',
                 "model/CMakeLists.txt": "strobe_room(model SOURCES b.cc ROOMS tensor LIBRARIES base)"}
        code, text = self.run_on(files)
        self.assertEqual(code, 1)
        self.assertIn("model/b.h includes base/a.h, but model/CMakeLists.txt does not name base in ROOMS", text)
        files["model/CMakeLists.txt"] = "strobe_room(model SOURCES b.cc ROOMS tensor base)"
        self.assertEqual(self.run_on(files)[0], 0)

    def test_unknown_room(self):
        code, _ = self.run_on({"attic/a.h": ""})
        self.assertEqual(code, 1)


if __name__ == "__main__":
    unittest.main()
