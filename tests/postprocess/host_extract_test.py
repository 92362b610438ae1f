#!/usr/bin/env python3
"""memtrace extract with a host trace: a case computed by hand, memory that is handed out again, inputs that do not fit.

usage: host_extract_test.py BIN_FOLDER GEN_HOST
"""
import json
import os
import subprocess
import sys
import tempfile
import unittest

import host_traces
import traces
from traces import ATOMIC, LOAD, STORE

BIN, GEN_HOST = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
C0, C1 = (0, 0, 0), (1, 0, 0)


def host(seq, thread, line, op, address, size):
    return {"seq": seq, "thread": thread, "place": "/src/app.cu:%d" % line, "op": op, "addr": address, "size": size}


def flat(table, depth):
    if depth == 0:
        return {(): table}
    return {(k, *rest): leaf for k, v in table.items() for rest, leaf in flat(v, depth - 1).items()}


class Case(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="mt-host-extract-")
        self.addCleanup(self.folder.cleanup)

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def kernels(self, launches, events=(), meta=True, name="t", header=None):
        """launches: (seq, kernel, records)."""
        with open(self.path(name), "wb") as f:
            f.write(traces.trace([(k, r) for _, k, r in launches]))
        n = sum(len(r) for _, _, r in launches)
        lines = [{"ev": "launch", "seq": s, "kernel": k, "records": len(r)} for s, k, r in launches] + list(events)
        if meta:
            with open(self.path(name) + ".meta", "w") as f:
                f.write(traces.companion(sorted(lines, key=lambda e: e["seq"]), header,
                                         {"records_written": n, "records_counted": n}))
        return self.path(name)

    def host(self, accesses, events=(), name="h.mtc", **more):
        host_traces.write(GEN_HOST, self.path(name), host_traces.script(accesses, events, **more))
        return self.path(name)

    def extract(self, *args, code=0):
        r = subprocess.run([BIN + "/mt-extract", *args], capture_output=True)
        self.assertEqual(r.returncode, code, r.stderr)
        self.words = r.stderr.decode()
        return json.loads(r.stdout) if r.stdout else None


class ByHand(Case):
    def setUp(self):
        """Line 10 writes 16 bytes to pageable memory, line 11 overwrites the last 4; they are copied to the device (3),
        line 10 writes again, too late; kernel `twice` (4) reads 8 bytes per CTA and writes 8 each; the result is copied
        back (5), and line 20 reads 6 bytes of it, line 21 all in another thread. Line 30 writes 4 bytes of managed
        memory at 0x900, which the second launch (7) reads, changes in part and line 31 reads back."""
        super().setUp()
        h, d, out, back, m = 0x100, 0x400, 0x500, 0x200, 0x900
        self.trace = self.kernels(
            [(4, "twice", [traces.record(0, LOAD, 8, d, C0), traces.record(0, STORE, 8, out, C0),
                           traces.record(1, LOAD, 8, d + 8, C1), traces.record(1, STORE, 8, out + 8, C1)]),
             (7, "twice", [traces.record(0, LOAD, 4, m, C0), traces.record(0, ATOMIC, 2, m, C0)])],
            [{"ev": "memcpy", "seq": 3, "kind": "h2d", "dst": d, "src": h, "bytes": 16, "stream": 0},
             {"ev": "memcpy", "seq": 5, "kind": "d2h", "dst": back, "src": out, "bytes": 16, "stream": 0}])
        self.accesses = [
            host(2, 0, 10, "store", h, 16), host(2, 0, 11, "store", h + 12, 4), host(3, 0, 10, "store", h, 16),
            host(5, 0, 20, "load", back + 4, 6), host(6, 0, 30, "store", m, 4),
            host(7, 0, 31, "load", m, 4), host(5, 1, 21, "load", back, 16)]
        self.container = self.host(self.accesses)

    def test_transfers_and_volumes(self):
        got = self.extract(self.trace, self.container)
        a = "/src/app.cu:"
        self.assertEqual(flat(got["transfers"], 6), {
            ("<host>", a + "10", "0", "twice", "0,0,0", "0"): {"Size": 8, "cnt": 1},
            ("<host>", a + "10", "0", "twice", "1,0,0", "0"): {"Size": 4, "cnt": 1},
            ("<host>", a + "11", "0", "twice", "1,0,0", "0"): {"Size": 4, "cnt": 1},
            ("<host>", a + "30", "1", "twice", "0,0,0", "1"): {"Size": 6, "cnt": 2},
            ("twice", "0,0,0", "0", "<host>", a + "20", "1"): {"Size": 4, "cnt": 1},
            ("twice", "0,0,0", "0", "<host>", a + "21", "1"): {"Size": 8, "cnt": 1},
            ("twice", "0,0,0", "1", "<host>", a + "31", "2"): {"Size": 2, "cnt": 1},
            ("twice", "1,0,0", "0", "<host>", a + "20", "1"): {"Size": 2, "cnt": 1},
            ("twice", "1,0,0", "0", "<host>", a + "21", "1"): {"Size": 8, "cnt": 1}})
        self.assertEqual(flat(got["HCV"], 2), {
            (a + "10", "0"): {"Load": 0, "Store": 12}, (a + "11", "0"): {"Load": 0, "Store": 4},
            (a + "20", "1"): {"Load": 6, "Store": 0}, (a + "21", "1"): {"Load": 16, "Store": 0},
            (a + "30", "1"): {"Load": 0, "Store": 4}, (a + "31", "2"): {"Load": 2, "Store": 0}})
        self.assertEqual(flat(got["HDV"], 2), {
            (a + "10", "0"): {"Load": 0, "Store": 32}, (a + "11", "0"): {"Load": 0, "Store": 4},
            (a + "20", "1"): {"Load": 6, "Store": 0}, (a + "21", "1"): {"Load": 16, "Store": 0},
            (a + "30", "1"): {"Load": 0, "Store": 4}, (a + "31", "2"): {"Load": 4, "Store": 0}})
        self.assertEqual(flat(got["KCV"], 2), {("twice", s): {"Load": 0, "Store": 0} for s in "01"})
        self.assertEqual((got["host_accesses"], got["records"], got["complete"], got["notes"]), (7, 6, True, []))
        self.assertEqual(got["addresses"], {})

    def test_text(self):
        """The same for people: by line, most bytes first."""
        text, summary = (subprocess.run([BIN + "/mt-extract", "-f", *f, self.trace, self.container], check=True, capture_output=True, text=True).stdout
                         for f in (("text", "-s", "HDV,HCV"), ("summary",)))
        for said in text, summary:
            self.assertEqual(said.splitlines()[0], "2 launches, 6 accesses, 7 of host code")
        table = text.split("Bytes of host code by source line")[1].split("\n\n")[0].splitlines()[2:]
        rows = {tuple(row.split()) for row in table}
        self.assertEqual(table[0].split()[0], "/src/app.cu:10")
        self.assertEqual(rows, {("/src/app.cu:%d" % line, *map(str, sums)) for line, *sums in (
            (10, 0, 32, 0, 12), (11, 0, 4, 0, 4), (20, 6, 0, 6, 0), (21, 16, 0, 16, 0), (30, 0, 4, 0, 4), (31, 4, 0, 2, 0))})

    def test_without_host(self):
        blind = self.extract(self.trace)
        self.assertNotIn("HCV", blind)
        self.assertEqual(list(blind["transfers"]["<host>"]), ["0,0,0"])
        got = self.extract("--no-host", self.trace, self.container)
        self.assertEqual(got["transfers"], {})
        self.assertNotIn("HCV", got)

    def test_filters(self):
        got = self.extract("--kernels", "twice", self.trace, self.container)
        self.assertEqual(list(got["transfers"]), ["<host>"])
        self.assertEqual((got["HCV"], got["HDV"]), ({}, {}))
        got = self.extract("--kernels", "host", self.trace, self.container)
        self.assertEqual((got["KDV"], list(got["transfers"])), ({}, ["twice"]))
        got = self.extract("-t", "2..", self.trace, self.container)
        self.assertEqual(list(flat(got["transfers"], 6)), [("twice", "0,0,0", "1", "<host>", "/src/app.cu:31", "2")])

    def test_without_companion(self):
        got = self.extract("--no-companion", self.trace, self.container)
        self.assertIn("h.mtc: is left out: without companions", self.words)
        self.assertNotIn("HCV", got)

    def test_engine_with_numbers_of_its_own(self):
        other = self.host(self.accesses, name="q.mtc", header={"engine": "pin"})
        got = self.extract(self.trace, other)
        self.assertIn("the engine pin does not see the numbers of CUDA calls", self.words)
        self.assertEqual(flat(got["transfers"], 6), flat(self.extract(self.trace)["transfers"], 6))
        got = self.extract(self.trace, self.host(self.accesses, name="l.mtc", header={"engine": "llvm"}))
        self.assertEqual(len(flat(got["transfers"], 6)), 9)
        self.assertIn("HDV", self.extract(other))  # alone it needs no order

    def test_alone(self):
        """Without kernels the program is a launch, its threads are CTAs; HDV is what it was."""
        got = self.extract(self.container)
        self.assertEqual((got["launches"], got["transfers"]), (1, {}))
        self.assertEqual(got["CDV"], {"program": {"0": {"0,0,0": {"Load": 10, "Store": 40}, "1,0,0": {"Load": 16, "Store": 0}}}})
        self.assertEqual(sum(v["Store"] for v in flat(got["HDV"], 2).values()), 40)

    def test_other_process(self):
        other = self.host(self.accesses, name="o.mtc", header={"pid": 2})
        self.extract(self.trace, other, code=2)
        self.assertIn("of another run", self.words)

    def test_incomplete(self):
        for end, words in ((False, "has no end"), ({"complete": False}, "incomplete")):
            got = self.extract(self.trace, self.host(self.accesses, name="i.mtc", end=end), code=3)
            self.assertIn(words, self.words)
            self.assertFalse(got["complete"])
            self.assertEqual(len(flat(got["transfers"], 6)), 9)

    def test_cut(self):
        with open(self.container, "rb") as f:
            data = f.read()
        for n in range(1, len(data), 37):
            with open(self.path("c.mtc"), "wb") as f:
                f.write(data[:n])
            r = subprocess.run([BIN + "/mt-extract", self.trace, self.path("c.mtc")], capture_output=True)
            self.assertIn(r.returncode, (0, 2, 3), (n, r.stderr))
            if r.returncode == 0:  # only the index is cut off
                self.assertGreater(n, len(data) - 400)
                self.assertEqual(len(flat(json.loads(r.stdout)["transfers"], 6)), 9)
            else:
                self.assertTrue(r.stderr)

    def test_other_tools_say_what_it_is(self):
        r = subprocess.run([BIN + "/mt-graph", self.trace, self.container], capture_output=True)
        self.assertEqual(r.returncode, 2)
        self.assertIn(b"is a compact trace of host accesses", r.stderr)


class Memory(Case):
    def reads(self, events, address=0x100):
        """Who wrote what the host reads of 8 bytes, after a kernel (2) wrote 8 bytes at 0x100."""
        trace = self.kernels([(2, "k", [traces.record(0, STORE, 8, 0x100, C0)])])
        got = self.extract(trace, self.host([host(9, 0, 1, "load", address, 8)], events))
        return sum(v["Size"] for v in flat(got["transfers"], 6).values())

    def alloc(self, seq, ident, base, size, kind="malloc"):
        return {"ev": "alloc", "seq": seq, "id": ident, "base": hex(base), "bytes": size, "kind": kind}

    def free(self, seq, ident, base):
        return {"ev": "free", "seq": seq, "id": ident, "base": hex(base)}

    def test_new_memory_has_no_writer(self):
        self.assertEqual(self.reads([]), 8)
        self.assertEqual(self.reads([self.alloc(1, 0, 0x100, 64)]), 8)
        self.assertEqual(self.reads([self.alloc(1, 0, 0x100, 64), self.free(4, 0, 0x100)]), 8)
        self.assertEqual(self.reads([self.alloc(1, 0, 0x100, 64), self.free(4, 0, 0x100), self.alloc(5, 1, 0x104, 64)]), 4)

    def test_realloc_carries_along(self):
        first = self.alloc(1, 0, 0x100, 8)
        for kind, moved in (("realloc", 8), ("malloc", 0)):
            events = [first, self.free(4, 0, 0x100), self.alloc(5, 1, 0x300, 64, kind)]
            self.assertEqual(self.reads(events, 0x300), moved)
        shrunk = [first, self.free(4, 0, 0x100), self.alloc(5, 1, 0x300, 6, "realloc")]
        self.assertEqual(self.reads(shrunk, 0x300), 6)
        in_place = [first, self.free(4, 0, 0x100), self.alloc(5, 1, 0x100, 64, "realloc")]
        self.assertEqual(self.reads(in_place), 8)

    def test_program_break_keeps(self):
        self.assertEqual(self.reads([self.alloc(5, 0, 0x0, 4096, "brk")]), 8)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
