"""run-gpu's time limits, with cases that fail, hang, hang through SIGTERM, end without a word, and do not fit."""
import os
import signal
import subprocess
import sys
import tempfile
import time
import types
import unittest
import unittest.mock

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
sys.path.insert(0, os.path.join(sys.path[0], "..", "lib"))
sys.dont_write_bytecode = True
import cases_probe  # noqa: E402
import decide  # noqa: E402
import kit  # noqa: E402
import timed  # noqa: E402

GRACE = timed.GRACE


def bad():
    raise ValueError("no")


def skip():
    raise timed.Skipped("none here")


def tell(path, words):
    """Into a file that is there when it is whole."""
    with open(path + ".new", "w") as file:
        file.write(words)
    os.rename(path + ".new", path)


def hang(path):
    print("last words", flush=True)
    program = subprocess.Popen(["sleep", "1000"])
    tell(path, str(program.pid))
    program.wait()


def stubborn(path):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    tell(path, "deaf")
    time.sleep(1000)


class Late:
    """timed's clock does not run before a case that shall hang has come so far: on a busy machine it might be ended before."""

    def __init__(self, path):
        self.path, self.ended = path, timed.ended

    def __call__(self, pid, seconds):
        while not os.path.exists(self.path):
            time.sleep(0.02)
        return self.ended(pid, seconds)


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
            found = report.cases([("good", lambda: print("hello")), ("figures", lambda: "7 of 9"), ("skip", skip), ("bad", bad), ("silent", lambda: os._exit(0))], timed.Budget(None, 300))
            self.assertEqual(found, ["ok", "ok", "skipped", "failed", "failed"])
            deaf = os.path.join(folder, "deaf")
            for name, case, sign, timed.GRACE in (("hang", lambda: hang(child), child, 300), ("stubborn", lambda: stubborn(deaf), deaf, 1)):
                with unittest.mock.patch.object(timed, "ended", Late(sign)):
                    self.assertEqual(report.cases([(name, case)], timed.Budget(None, 1)), ["failed"])
            with open(path) as file:
                text = file.read()
            with open(child) as file:
                pid = file.read()
            for words in ("hello", "figures: ok: 7 of 9 (", "skip: skipped: none here", "bad: FAILED: no", "ValueError", "last words", "hang: HUNG: ended after 1 s (",
                          "stubborn: HUNG: ended after 1 s, by SIGKILL", f"process {pid}: sleep 1000", f"  thread {pid} (sleep) S: ", "silent: FAILED: the case ended without a verdict"):
                self.assertIn(words, text)
            while running(pid):  # the program of a case that hung: it has got its signal
                time.sleep(0.02)

    def test_program_that_hangs(self):
        """Its words and its threads' places are kept, and the case goes no further."""
        real = subprocess.Popen.communicate

        def late(process, *words, timeout=None):
            while timeout and process.args[0] == "sh" and (timed.read(process.pid, "comm"), timed.read(process.pid, "stat").split()[2:3]) != ("sleep\n", ["S"]):
                time.sleep(0.02)
            return real(process, *words, timeout=timeout)

        def calls():
            with unittest.mock.patch.object(subprocess.Popen, "communicate", late):
                timed.call(["sh", "-c", "echo first words; exec sleep 1000"], 1)

        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "log")
            report = timed.Report(path)
            found = report.cases([("calls", calls), ("next", lambda: None)], timed.Budget(None, 300))
            self.assertEqual(found, ["failed", "ok"])
            with open(path) as file:
                text = file.read()
            for words in ("calls: HUNG: sh did not end in 1 s", "first words", ": sleep 1000", "(sleep) S: "):
                self.assertIn(words, text)

    def test_five_lines(self):
        """What hangs goes before what failed earlier; the probe's cases have no figures."""
        rows = [("probe: ends of threads", "failed", 1, "no"), ("injection: what is found", "ok", 1, "by sanitizer/13"), ("injection: vector_add", "failed", 1, "records"),
                ("injection: what to do without", "ok", 1, "as it is: records; MEMTRACE_GPU_WITHOUT=exits: right"), ("injection: two streams", "failed", 30, "mt-run did not end in 25 s"),
                ("injection: time and bytes", "ok", 1, "untraced 1 ms"), ("injection: the bus", "skipped", 0, "too old"), ("graphs", "ok", 1, ""), ("late", "not run", 0, "")]
        with tempfile.TemporaryDirectory() as folder:
            found = list(decide.lines(rows, types.SimpleNamespace(build=folder, work=folder, injects=True)))
        self.assertRegex(found[0], "^1. .*the probe: none has been seen to fit.*; memtrace run: by sanitizer/13$")
        self.assertEqual(found[1:], ["2. launches are traced: failed (records); as it is: records; MEMTRACE_GPU_WITHOUT=exits: right",
                                     "3. figures are right: 4 of 6 cases, not: injection: vector_add, injection: two streams",
                                     "4. hangs or fails first: injection: two streams: mt-run did not end in 25 s", "5. how slow: untraced 1 ms"])

    def test_budget(self):
        with tempfile.TemporaryDirectory() as folder:
            report, budget = timed.Report(os.path.join(folder, "log")), timed.Budget(3000, 4000)

            def cases():
                yield "long", lambda: None
                budget.end = time.monotonic() + GRACE  # the time that ending another one would take
                yield "late", bad

            self.assertLessEqual(budget.share(), 3000 - GRACE)
            self.assertEqual(report.cases(cases(), budget), ["ok", "not run"])


class Command(unittest.TestCase):
    """run-gpu's words for command lines that cannot be meant."""

    def run_gpu(self, *words, code=2):
        done = subprocess.run([sys.executable, os.path.join(os.path.dirname(os.path.realpath(__file__)), "run-gpu"), *words], capture_output=True, text=True)
        self.assertEqual((done.returncode, "Traceback" in done.stderr), (code, False), done.stdout + done.stderr)
        return done.stdout + done.stderr

    def test_words(self):
        self.assertIn("no case has 'grahps' in its name; near: ", self.run_gpu("--build", "/nowhere", "graphs", "grahps"))
        self.assertRegex(self.run_gpu("--kit", "/nowhere", "grahps"), "near: .*graphs")
        self.assertIn("vector_add -O0", self.run_gpu("--build", "/nowhere", "vectro_add"))
        names = self.run_gpu("--list", code=0).splitlines()
        self.assertTrue({"probe: programs start", "graphs", "vector_add -O2"} <= set(names), names)
        self.assertEqual(self.run_gpu("--list", "Vector_add -O", code=0).splitlines(), ["vector_add -O0", "vector_add -O2"])

    def test_folders(self):
        with tempfile.TemporaryDirectory() as folder:
            for words, say in ((("--build", "/nowhere"), "no build folder"), (("--kit", folder), f"{folder} is no kit"), (("--prepare", folder), "needs --build"),
                               (("--kit", folder, "--prepare", folder), "needs --build"), ((), "--build or --kit")):
                self.assertIn(say, self.run_gpu(*words))

    def test_built(self):
        """What ./setup build leaves out is built, and what cannot be is named, with the reason."""
        with tempfile.TemporaryDirectory() as folder, unittest.mock.patch.dict(os.environ, PATH=folder):
            self.assertIn("there is no ninja", kit.built(folder, ("one", "two")))
            ninja = os.path.join(folder, "ninja")
            for body, says in (('echo "$@" >"$2/told"', ""), ("echo unknown target; exit 1", "unknown target")):
                tell(ninja, "#!/bin/sh\n" + body + "\n")
                os.chmod(ninja, 0o755)
                self.assertIn(says, kit.built(folder, ("one", "two")))
            with open(os.path.join(folder, "told")) as file:
                self.assertEqual(file.read(), f"-C {folder} one two\n")

    def test_no_probe(self):
        """A kit without the probe says why it has none, and on the CPU device the probe's cases are skipped."""
        with tempfile.TemporaryDirectory() as folder:
            world = types.SimpleNamespace(build=folder, work=folder, injects=False, seconds=9)
            self.assertRaisesRegex(timed.Skipped, "on a GPU alone", cases_probe.injected, world)
            world.injects = True
            os.makedirs(os.path.join(folder, "probe"))
            tell(os.path.join(folder, kit.NO_PROBE), "there is no ninja")
            self.assertRaisesRegex(timed.Skipped, "has no probe: there is no ninja", cases_probe.injected, world)


if __name__ == "__main__":
    unittest.main()
