#!/usr/bin/env python3
"""Large traces: an interruption leaves what there is, logs say how far it is, launches that nobody asked for are not read.

usage: waiting_test.py BIN_FOLDER GEN_TRACE TIMER
"""
import json
import os
import re
import signal
import struct
import subprocess
import sys
import tempfile
import time
import unittest

from tool_case import ToolCase, program
from traces import EOT, LOAD, STORE, companion, record, trace

GEN_TRACE = os.path.abspath(sys.argv[2])
PATIENT = dict(os.environ, LD_PRELOAD=os.path.abspath(sys.argv[3]), MT_TIMER_FACTOR="100")  # results come however busy the machine is
LAUNCHES = 6  # of 4 million accesses each
DEVICE = 4  # docs/trace-format.md
STOPPED = r"interrupted after (\d+) of (\d+) bytes, (\d+) of (\d+) launches"


def started(p):
    """It has opened its inputs: signals are caught and a first part of the trace is read."""
    while p.poll() is None:
        with open("/proc/%d/status" % p.pid, encoding="ascii") as f:
            caught = next(int(line.split()[1], 16) for line in f if line.startswith("SigCgt"))
        if caught & 1 << signal.SIGINT - 1:
            return
        time.sleep(0.01)


def setUpModule():
    """All read one trace."""
    folder = tempfile.TemporaryDirectory()
    unittest.addModuleCleanup(folder.cleanup)
    Case.path = os.path.join(folder.name, "t.mtc")
    with subprocess.Popen([GEN_TRACE, "stencil", str(LAUNCHES * 4096 * 256 * 4)], stdout=subprocess.PIPE) as make:
        subprocess.run([program("mt-convert"), "-f", "mtc", "--no-companion", "-o", Case.path, "-"], stdin=make.stdout, check=True, stderr=subprocess.DEVNULL)
    assert make.returncode == 0


class Case(ToolCase):
    path = ""


class Interruption(Case):
    def interrupted(self, tool, *args):
        """What it wrote after a signal in the middle: (standard output, standard error)."""
        p = subprocess.Popen([program(tool), *args, self.path], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=PATIENT)
        started(p)
        time.sleep(0.1)
        p.send_signal(signal.SIGINT)
        out, err = p.communicate(timeout=100)
        self.assertEqual(p.returncode, 3, (tool, args, err))
        return out.decode(), err.decode()

    def how_far(self, text):
        done, size, launch, launches = map(int, re.search(STOPPED, text).groups())
        self.assertEqual((size, launches), (os.path.getsize(self.path), LAUNCHES))
        self.assertTrue(0 <= done < size and launch < launches, text)
        return launch

    def test_page(self):
        out, _ = self.interrupted("mt-report")
        self.how_far(out)
        self.assertTrue(out.rstrip().endswith("</html>"), out[-200:])

    def test_json(self):
        out, _ = self.interrupted("mt-extract", "-s", "all,more")
        got = json.loads(out)
        self.assertIs(got["complete"], False)
        launch = self.how_far(got["notes"][0])
        self.assertEqual(got["records"] // (4096 * 256 * 4), launch)
        self.assertIn("lines", got)

    def test_text_and_summary(self):
        for form in ("text", "summary"):
            out, _ = self.interrupted("mt-extract", "-f", form, *(["-s", "KCV,more"] if form == "text" else []))
            self.assertIn("INCOMPLETE", out)
            self.how_far(out)

    def test_tables(self):
        folder = os.path.join(self.dir, "tables")
        _, err = self.interrupted("mt-extract", "-f", "csv", "-s", "all,more", "-o", folder + "/")
        self.how_far(err)
        with open(folder + "/meta.csv", encoding="utf-8") as f:
            self.assertRegex(f.read(), r"complete.*0|,0,")
        self.assertTrue(os.path.exists(folder + "/lines.csv"))

    def test_again_ends_it(self):
        """The second signal does not wait for results."""
        p = subprocess.Popen([program("mt-report"), "-o", os.path.join(self.dir, "r.html"), self.path], stderr=subprocess.DEVNULL)
        started(p)
        p.send_signal(signal.SIGSTOP)
        p.send_signal(signal.SIGINT)
        p.send_signal(signal.SIGCONT)
        time.sleep(0.01)
        p.send_signal(signal.SIGINT)
        self.assertIn(p.wait(timeout=300), (-signal.SIGINT, 3))


class Log(Case):
    def test_a_line_every_ten_seconds(self):
        both = []
        for quiet in (False, True):
            page = os.path.join(self.dir, f"r{quiet}.html")
            both.append(subprocess.Popen([program("mt-report"), *["-q"] * quiet, "-o", page, self.path], stderr=subprocess.PIPE))
            started(both[-1])
            time.sleep(0.1)  # its clock has begun, too
            both[-1].send_signal(signal.SIGSTOP)
        time.sleep(10.2)
        for quiet, p in enumerate(both):
            p.send_signal(signal.SIGCONT)
            _, err = p.communicate(timeout=100)
            self.assertEqual(p.returncode, 0, err)
            lines = re.findall(rb"^mt-report: \d+ % read, [\d,]+ accesses, about \d+ s left$", err, re.M)
            self.assertEqual(bool(lines), not quiet, err)


class Passed(ToolCase):
    """Launches out of A..B in a container that is damaged there: who does not read them does not see it."""

    def setUp(self):
        super().setUp()
        self.raw = os.path.join(self.dir, "t")
        with open(self.raw, "wb") as f:
            f.write(b"\x18")
            for launch in range(8):
                rows = [record(0, STORE if launch % 2 == 0 else LOAD, 4, 4 * i + 4096 * launch // 2, (i // 32, 0, 0)) for i in range(512)]
                f.write(b"k%d\n" % (launch % 3) + b"".join(rows) + EOT)
        self.path = self.raw + ".mtc"
        self.run_tool("mt-convert", "-f", "mtc", "--no-companion", "-o", self.path, self.raw)

    def extract(self, path, *args):
        r = self.run_tool("mt-extract", "--no-companion", *args, path)
        return r.returncode, r.stdout.replace(path.encode(), b"TRACE"), r.stderr

    def damaged(self, keep):
        """A copy in which a byte of each launch that is not in `keep` is another one."""
        with open(self.path, "rb") as f:
            data = bytearray(f.read())
        at, launch = 64, 0
        while at + 64 <= len(data) - 32:
            kind, stored = struct.unpack_from("<H", data, at + 4)[0], struct.unpack_from("<Q", data, at + 8)[0]
            if kind == DEVICE:
                data[at + 64 + stored // 2] ^= 0x55 * (launch not in keep)
                launch += 1
            at += 64 + (stored + 7) // 8 * 8
        self.assertEqual(launch, 8)  # a chunk each
        return self.file("damaged.mtc", bytes(data))

    def test_what_is_not_asked_for_is_not_read(self):
        for sections, asked, keep in (("lines,coalescing,sharing,conflicts,traffic", "3..5", {3, 4, 5}), ("KDV,SDV,lines", "7", {7}),
                                      ("transfers", "3..5", {0, 1, 2, 3, 4, 5}), ("reuse", "2..2", set(range(8))), ("traffic", "..1", {0, 1}),
                                      ("KDV", "6..", {6, 7}), ("KCV", "3", set(range(8))), ("placement", "3", set(range(8)))):
            for more in ([], ["-k", "k[01]"], ["--threads", "1"]):
                args = ["-s", sections, "-t", asked, *more]
                whole, good = self.extract(self.raw, *args), self.extract(self.path, *args)
                self.assertEqual((good[0], json.loads(good[1])), (0, json.loads(whole[1])), args)
                self.assertEqual(self.extract(self.damaged(keep), *args)[:2], (0, good[1].replace(b"t.mtc", b"damaged.mtc")), args)
                self.assertEqual(self.extract(self.damaged(keep - {max(keep)}), *args)[0], 3, args)

    def test_text(self):
        args = ["-f", "text", "-s", "lines,transfers", "-t", "1..2"]
        good = self.extract(self.path, *args)
        self.assertEqual(good[0], 0)
        self.assertEqual(self.extract(self.damaged({0, 1, 2}), *args)[:2], good[:2])


class Lacking(ToolCase):
    """What is never read is said of a whole trace only."""

    def summary(self, name, launches, records):
        place = {"file": "/src/a.cu", "line": 7}
        events = [dict({"ev": "alloc", "seq": 1, "id": 1, "base": hex(4096), "bytes": 256, "kind": "cudaMalloc"}, **place)]
        events += [{"ev": "launch", "seq": 2 + i, "kernel": kernel, "traced": True, "records": len(rows)} for i, (kernel, rows) in enumerate(launches)]
        self.file(name + ".meta", companion(events, end={"records_counted": 128, "records_written": 128}))
        return self.run_tool("mt-extract", "-f", "summary", self.file(name, records)).stdout.decode()

    def test_never_read(self):
        rows = [[record(0, kind, 4, 4096 + 4 * i, (0, 0, 0)) for i in range(64)] for kind in (STORE, LOAD)]
        for second, said in ((STORE, True), (LOAD, False)):
            launches = [("first", rows[0]), ("second", rows[second == LOAD])]
            data = trace(launches)
            self.assertEqual("never read" in self.summary("whole", launches, data), said)
            self.assertNotIn("never read", self.summary("cut", launches, data[:-40]))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
