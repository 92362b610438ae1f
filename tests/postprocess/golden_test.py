#!/usr/bin/env python3
"""The tools on the golden traces. usage: golden_test.py BIN_FOLDER GOLDEN_FOLDER"""
import glob
import json
import os
import subprocess
import sys
import tempfile
import unittest

BIN, GOLDEN = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])


def run(tool, *args, cwd, env=None):
    return subprocess.run([os.path.join(BIN, tool), *args], cwd=cwd, capture_output=True, stdin=subprocess.DEVNULL,
                          env=env)


BARE = "is read without companion: nothing says whether it is whole"


class Succeed(unittest.TestCase):
    folder = os.path.join(GOLDEN, "succeed")

    def compare(self, r, file, code=0):
        self.assertEqual(r.returncode, code, r.stderr)
        with open(os.path.join(self.folder, file)) as f:
            expected = json.load(f)
        got = json.loads(r.stdout)
        # json.dumps keeps the order of members: it is part of the format
        self.assertEqual(json.dumps({k: got[k] for k in got if k in expected}, indent=1),
                         json.dumps(expected, indent=1))

    def test_all_traces_have_an_expectation(self):
        for path in glob.glob(os.path.join(self.folder, "*.trace")):
            name = os.path.basename(path)[: -len(".trace")].split("-a")[0].split("-b")[0]
            self.assertTrue(glob.glob(os.path.join(self.folder, name + "*.json")), path)

    def test_extract(self):
        for name in ("worked-example", "stencil", "split", "empty", "no-access"):
            with self.subTest(name):
                r = run("mt-extract", "--sections=all", name + ".trace", cwd=self.folder)
                self.compare(r, name + ".json")
                bare = not os.path.exists(os.path.join(self.folder, name + ".trace.meta"))
                self.assertEqual(r.stderr, f"mt-extract: {name}.trace: {BARE}\n".encode() if bare else b"")

    def test_options(self):
        for name, option in (("worked-example", "local"), ("worked-example", "strict"), ("stencil", "local")):
            with self.subTest(name + " " + option):
                flag = "--same-cta=local" if option == "local" else "--strict"
                self.compare(run("mt-extract", flag, name + ".trace", cwd=self.folder), "%s.%s.json" % (name, option))

    def test_streams_in_launch_order(self):
        self.compare(run("mt-extract", "streams-b.trace", "streams-a.trace", cwd=self.folder), "streams.json")

    def test_streams_without_companion_warn_once(self):
        r = run("mt-extract", "--no-companion", "streams-b.trace", "streams-a.trace", cwd=self.folder)
        self.assertEqual(r.returncode, 0)
        self.assertEqual(len(r.stderr.splitlines()), 1 + 2)
        self.assertEqual(r.stderr.count(BARE.encode()), 2)
        self.assertIn(b"order of the inputs", r.stderr)
        got = json.loads(r.stdout)
        self.assertEqual(list(got["KDV"]["b"]), ["0"])
        self.assertEqual(list(got["KDV"]["a"]), ["1", "2"])
        self.assertEqual(len(got["notes"]), 1 + 2)

    def test_graph(self):
        for name in ("worked-example", "stride"):
            with self.subTest(name):
                self.compare(run("mt-graph", "-f", "json", name + ".trace", cwd=self.folder), name + ".graph.json")

    def test_committed_bytes_are_those_of_the_generator(self):
        with tempfile.TemporaryDirectory() as t:
            subprocess.run([sys.executable, os.path.join(GOLDEN, "make_golden.py"), t], check=True)
            for path in glob.glob(t + "/*/*"):
                with open(path, "rb") as f, open(os.path.join(GOLDEN, os.path.relpath(path, t)), "rb") as g:
                    self.assertEqual(f.read(), g.read(), path)


class Fail(unittest.TestCase):
    folder = os.path.join(GOLDEN, "fail")

    def test_damaged(self):
        with open(os.path.join(self.folder, "expected.json")) as f:
            expected = json.load(f)
        files = {os.path.basename(p)[: -len(".trace")] for p in glob.glob(self.folder + "/*.trace")}
        self.assertEqual(files, set(expected))
        for name, e in expected.items():
            file = name + ".trace"
            for tool in ("mt-extract", "mt-dump", "mt-graph"):
                with self.subTest(name + " " + tool):
                    args = ["--no-companion", file]
                    if tool == "mt-graph":
                        args += ["-f", "json"]
                    r = run(tool, *args, cwd=self.folder)
                    self.assertEqual(r.returncode, e["code"])
                    lines = [x for x in r.stderr.decode().splitlines() if "buffer 0" not in x]
                    self.assertEqual(len(lines), 1, lines)
                    if e["code"] == 2:  # refused: it does not even begin like a trace
                        self.assertIn("%s: %s: %s" % (tool, file, e["says"]), lines[0])
                        self.assertEqual(r.stdout, b"")
                        continue
                    self.assertTrue(lines[0].startswith("%s: %s: byte %d: " % (tool, file, e["offset"])), lines[0])
                    self.assertIn(e["says"], lines[0])
                    if tool == "mt-dump":
                        out = r.stdout.decode().splitlines()
                        self.assertEqual(sum(x.startswith("launch ") for x in out), e["launches"])
                        self.assertEqual(sum(x.split()[0] in ("load", "store") for x in out), e["records"])
                        continue
                    got = json.loads(r.stdout)
                    self.assertIs(got["complete"], False)
                    self.assertEqual((got["launches"], got["records"]), (e["launches"], e["records"]))
                    self.assertIn("%s: byte %d: " % (file, e["offset"]), "".join(got["notes"]))

    def test_damaged_input_does_not_hide_the_others(self):
        whole = os.path.join("..", "succeed", "split.trace")
        r = run("mt-extract", "--no-companion", "in-record.trace", whole, cwd=self.folder)
        self.assertEqual(r.returncode, 3)
        got = json.loads(r.stdout)
        self.assertEqual((got["launches"], got["records"], got["complete"]), (4, 11, False))

    def refused(self, path, code, says):
        for tool in ("mt-extract", "mt-dump", "mt-graph"):
            with self.subTest(tool + " " + path):
                r = run(tool, path, cwd=self.folder)
                self.assertEqual(r.returncode, code, r.stderr)
                self.assertEqual(len(r.stderr.splitlines()), 1, r.stderr)
                self.assertIn(path.encode(), r.stderr)
                self.assertIn(says, r.stderr)
                if code == 2:
                    self.assertEqual(r.stdout, b"")

    def test_directory(self):
        self.refused(".", 2, b"directory")

    def test_missing(self):
        self.refused("no-such-file", 2, b"No such file")

    def test_unreadable(self):
        with tempfile.NamedTemporaryFile() as f:
            os.chmod(f.name, 0)
            if os.access(f.name, os.R_OK):  # root reads everything
                self.skipTest("this user can read every file")
            self.refused(f.name, 2, b"Permission denied")

    def test_read_error(self):
        """The kernel refuses reading address 0 of a process: an error in the middle of reading."""
        r = run("mt-extract", "/proc/self/mem", cwd=self.folder)
        self.assertEqual(r.returncode, 1, r.stderr)
        self.assertIn(b"/proc/self/mem: read error at byte 0", r.stderr)
        self.assertIs(json.loads(r.stdout)["complete"], False)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
