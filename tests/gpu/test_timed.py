"""run-gpu's time limits, with cases that fail, hang, hang through SIGTERM, end without a word, and do not fit."""
import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
sys.dont_write_bytecode = True
import timed  # noqa: E402

timed.GRACE = 1


def bad():
    raise ValueError("no")


def skip():
    raise timed.Skipped("none here")


def hang(path):
    print("last words", flush=True)
    program = subprocess.Popen(["sleep", "100"])
    with open(path, "w") as file:
        file.write(str(program.pid))
    program.wait()


def stubborn():
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    time.sleep(100)


def running(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


class Timed(unittest.TestCase):
    def test_verdicts(self):
        with tempfile.TemporaryDirectory() as folder:
            path, child = os.path.join(folder, "log"), os.path.join(folder, "child")
            report = timed.Report(path)
            begin = time.monotonic()
            found = report.cases([("good", lambda: print("hello")), ("figures", lambda: "7 of 9"), ("skip", skip), ("bad", bad), ("hang", lambda: hang(child)), ("stubborn", stubborn),
                                  ("silent", lambda: os._exit(0))], timed.Budget(None, 1))
            self.assertEqual(found, ["ok", "ok", "skipped", "failed", "failed", "failed", "failed"])
            self.assertLess(time.monotonic() - begin, 30)
            with open(path) as file:
                text = file.read()
            with open(child) as file:
                pid = file.read()
            for words in ("hello", "figures: ok: 7 of 9 (", "skip: skipped: none here", "bad: FAILED: no", "ValueError", "last words", "hang: HUNG: ended after 1 s (",
                          "stubborn: HUNG: ended after 1 s, by SIGKILL", "silent: FAILED: the case ended without a verdict"):
                self.assertIn(words, text)
            time.sleep(0.2)
            self.assertFalse(running(pid), "the program of a case that hung lives on")

    def test_budget(self):
        with tempfile.TemporaryDirectory() as folder:
            report = timed.Report(os.path.join(folder, "log"))
            found = report.cases([("long", lambda: time.sleep(2.5)), ("late", bad)], timed.Budget(4, 40))
            self.assertEqual(found, ["ok", "not run"])


if __name__ == "__main__":
    unittest.main()
