#!/usr/bin/env python3
"""Command lines: options, inputs of all kinds, interruption, exit codes. usage: cli_test.py BIN_FOLDER"""
import array
import fcntl
import itertools
import json
import os
import resource
import select
import signal
import subprocess
import sys
import termios
import time
import unittest

import traces
from tool_case import BIN, ToolCase, program, until_idle
from traces import ATOMIC, LOAD, STORE, companion, record, trace

TOOLS = ("mt-extract", "mt-graph", "mt-dump", "mt-compare")
C0, C1 = (0, 0, 0), (1, 0, 0)
WRITE = [record(0, STORE, 4, 0x10, C0), record(0, STORE, 4, 0x14, C0)]
BARE = "is read without companion: nothing says whether it is whole"
READ = [record(1, LOAD, 8, 0x10, C1)]


def launch(seq, kernel, records, **more):
    return dict({"ev": "launch", "seq": seq, "kernel": kernel, "traced": True, "records": records}, **more)


class Case(ToolCase):
    def extract(self, *args, code=0, **more):
        r = self.run_tool("mt-extract", *args, **more)
        self.assertEqual(r.returncode, code, r.stderr)
        return json.loads(r.stdout)


class Usage(Case):
    def test_help_and_version(self):
        for tool in TOOLS:
            for option in ("--help", "-h"):
                r = self.run_tool(tool, option)
                self.assertEqual((r.returncode, r.stderr), (0, b""))
                self.assertIn(b"Usage: memtrace " + tool[3:].encode(), r.stdout)
                self.assertTrue(all(len(x) <= 120 for x in r.stdout.decode().splitlines()))
            r = self.run_tool(tool, "--version")
            self.assertRegex(r.stdout.decode(), r"^%s \(memtrace\) \d+\.\d+\.\d+\n$" % tool)

    def test_help_names_every_option(self):
        for tool in TOOLS:
            text = self.run_tool(tool, "--help").stdout.decode()
            listed = self.run_tool(tool, "--completion-options").stdout.decode().split()
            names = [x[2:].rstrip("=") for x in listed if x.startswith("--")]
            self.assertIn("version", names)
            for name in names:
                if (tool, name) != ("mt-dump", "kernel"):  # an older spelling, accepted too
                    self.assertIn("--" + name, text)

    def test_wrong_usage(self):
        path = self.file("t", trace([]))
        for tool, *args in (
            ("mt-extract",), ("mt-graph",), ("mt-dump",),
            ("mt-extract", "--no-such-option", path), ("mt-extract", "--sections", "KCV,bad", path),
            ("mt-extract", "--sections", "", path), ("mt-extract", "--kernels", "(", path),
            ("mt-extract", "--launches", "x", path), ("mt-extract", "--launches", "3..1", path),
            ("mt-extract", "--launches", "-1", path), ("mt-extract", "--launches", "", path), ("mt-extract", "--launches", "1:2", path),
            ("mt-extract", "--same-cta=maybe", path), ("mt-extract", path, path),
            ("mt-extract", "--companion", path, "--companion", path, path),
            ("mt-extract", "--companion", path + "nowhere", path), ("mt-extract", "--companion", path, path), ("mt-extract", "-o", "/nowhere/x", path), *(("mt-convert", "--to", to, "--companion", __file__, path) for to in ("mtc", "ramulator", "gem5")),
            ("mt-graph", "--format", "png", path), ("mt-graph", "--node", "colour", path),
            ("mt-graph", "--min-count", "-3", path), ("mt-graph", "--top", "few", path), ("mt-dump", "--head", "many", path),
        ):
            with self.subTest(" ".join([tool, *args])):
                r = self.run_tool(tool, *args)
                self.assertEqual(r.returncode, 2)
                self.assertEqual(r.stdout, b"")
                self.assertIn(tool.encode() + b": ", r.stderr)


def given(tool, path):
    """memtrace compare needs two."""
    return [path, path] if tool == "mt-compare" else [path]


class Inputs(Case):
    def test_standard_input(self):
        data = trace([("w", WRITE), ("r", READ)])
        got = self.extract("-", input=data)
        self.assertEqual(got["inputs"], ["-"])
        self.assertEqual(got["KCV"]["r"]["1"]["Load"], 8)
        path = self.file("t", data)
        with open(path, "rb") as f:  # a seekable standard input is read from where it stands
            self.assertEqual(self.extract("-", "-s", "all", stdin=f)["addresses"].keys(), {"0x10", "0x14"})

    def test_addresses_from_a_pipe_are_spooled(self):
        got = self.extract("-s", "addresses", "-", input=trace([("w", WRITE), ("r", READ)]))
        self.assertEqual([len(v) for v in got["addresses"].values()], [2, 2])
        self.assertEqual(os.listdir(self.dir), [])
        r = self.run_tool("mt-extract", "-s", "addresses", "-", input=trace([]),
                          env=dict(os.environ, TMPDIR="/nowhere"))
        self.assertEqual(r.returncode, 1)
        self.assertIn(b"TMPDIR", r.stderr)

    def fifo(self, name):
        path = os.path.join(self.dir, name)
        os.mkfifo(path)
        return path

    def test_fifo_is_read_as_it_comes(self):
        path = self.fifo("f")
        p = subprocess.Popen([BIN + "/mt-dump", path], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        until_idle(p)  # the reader waits for its writer
        self.assertIsNone(p.poll())
        with open(path, "wb") as f:
            for piece in (trace([("w", WRITE)])[:20], trace([("w", WRITE)])[20:], b"r\n" + READ[0] + traces.EOT):
                f.write(piece)
                f.flush()
                time.sleep(0.05)
        out, err = p.communicate(timeout=60)
        self.assertEqual((p.returncode, err), (0, f"mt-dump: {path}: {BARE}\n".encode()))
        self.assertEqual(out.decode().splitlines()[-1], "load 8 0x10 cta 1,0,0 sm 1")
        self.assertEqual(len(out.splitlines()), 5)

    def test_fifo_with_companion_equals_file(self):
        """Host copies are known although the companion is complete only when the trace is."""
        data = trace([("r", READ)])
        events = [{"ev": "memset", "seq": 0, "dst": "0x10", "value": 0, "bytes": 8, "stream": 0}, launch(1, "r", 1)]
        text = companion(events, {"pid": os.getpid()}, {"records_written": 1, "records_counted": 1})
        plain = self.file("plain", data)
        self.file("plain.meta", text)
        path = self.fifo("f")
        head, tail = text.splitlines(True)[:1], text.splitlines(True)[1:]
        self.file("f.meta", "".join(head))
        p = subprocess.Popen([BIN + "/mt-extract", path], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        with open(path, "wb") as f:
            f.write(data)
        until_idle(p)  # the trace has ended, its companion not yet: the program lives, so it is waited for
        with open(path + ".meta", "a") as f:
            f.write("".join(tail))
        out, err = p.communicate(timeout=60)
        self.assertEqual((p.returncode, err), (0, b""))
        got, expected = json.loads(out), self.extract(plain)
        del got["inputs"], expected["inputs"]
        self.assertEqual(json.dumps(got), json.dumps(expected))
        self.assertIn("<host>", got["transfers"])

    def test_several_fifos_do_not_block_each_other(self):
        a, b = self.fifo("a"), self.fifo("b")
        p = subprocess.Popen([BIN + "/mt-extract", a, b], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        fa, fb = open(a, "wb"), open(b, "wb")
        big = [record(0, LOAD, 4, 0x1000 + 4 * i, C0) for i in range(20000)]
        fb.write(trace([("b", big)]))  # more than a pipe holds, while a stays open and empty
        fb.close()
        fa.write(trace([("a", WRITE)]))
        fa.close()
        out, err = p.communicate(timeout=60)
        self.assertEqual(p.returncode, 0, err)
        got = json.loads(out)
        self.assertEqual(list(got["KDV"]["a"]), ["0"])
        self.assertEqual(got["KDV"]["b"]["1"]["Load"], 80000)

    def test_filter_that_leaves_nothing(self):
        """An empty result differs from a misspelt kernel: on stderr, with the number of launches there are."""
        t = self.file("t", trace([("fill", WRITE), ("fill", WRITE)]))
        for tool in ("mt-extract", "mt-graph", "mt-dump"):
            for args, words in ((("-k", "filll"), b"--kernels filll"), (("-t", "7.."), b"--launches 7..")):
                r = self.run_tool(tool, *args, t)
                self.assertEqual(r.returncode, 0)
                self.assertIn(b"no launch matches " + words + b": the trace has 2", r.stderr)
            for args in (("-k", "fill"), ("-t", "1"), ()):
                self.assertNotIn(b"no launch matches", self.run_tool(tool, *args, t).stderr)
        empty = self.file("e", trace([]))
        self.assertNotIn(b"no launch matches", self.run_tool("mt-extract", "-k", "x", empty).stderr)

    def test_no_trace(self):
        """Who names a trace that nobody wrote hears who writes one, when, and where."""
        for tool in TOOLS[:3]:
            r = self.run_tool(tool, self.dir + "/MemTrace-pipe-9")
            self.assertEqual(r.returncode, 2)
            self.assertIn(b"MemTrace-pipe-9: cannot open: No such file", r.stderr)
            self.assertIn(b"from its first kernel launch on, into MEMTRACE_DIR", r.stderr)

    def test_companions_among_the_inputs(self):
        """MemTrace-pipe-* names companions, too: of their traces, they are not inputs; alone, one is a mistake."""
        paths = [self.file(n, trace([("k", WRITE)])) for n in ("p-0", "p-1")]
        metas = [self.file(n + ".meta", companion([launch(i + 1, "k", 2, stream=i)], {"stream": i}, {"records_written": 2, "records_counted": 2}))
                 for i, n in enumerate(("p-0", "p-1"))]
        for tool in TOOLS:
            expected = self.run_tool(tool, *paths)
            self.assertEqual(expected.returncode, 0, expected.stderr)
            for args in ([paths[0], metas[0], paths[1], metas[1]], [metas[1], paths[0], metas[0], paths[1]]):
                got = self.run_tool(tool, *args)
                self.assertEqual((got.returncode, got.stdout), (0, expected.stdout))
            self.assertEqual(self.run_tool(tool, metas[0], paths[1]).returncode, 2)

    def test_other_process(self):
        a, b = self.file("a", trace([])), self.file("b", trace([]))
        for starts, newer in (((5, 9), b), ((9, 5), a)):  # whichever is first on the command line
            self.file("a.meta", companion([], {"pid": 10, "start_ns": starts[0]}, {}))
            self.file("b.meta", companion([], {"pid": 11, "start_ns": starts[1]}, {}))
            for tool in TOOLS[:3]:
                r = self.run_tool(tool, a, b)
                self.assertEqual(r.returncode, 2)
                self.assertIn(b"is of another run than", r.stderr)
                self.assertIn(b"the newer one's are " + newer.encode(), r.stderr)
        self.assertEqual(self.run_tool("mt-extract", "--no-companion", a, b).returncode, 0)

    def test_long_trace(self):
        """Batches and buffers end in the middle of launches; records count exactly."""
        n = 100000
        loads = b"".join(record(0, LOAD, 4, 0x10000 + 4 * i, C0) for i in range(n))
        stores = b"".join(record(0, STORE, 4, 0x10000 + 4 * i, C1) for i in range(n))
        path = self.file("t", trace([("s", [stores]), ("k" * 5000, []), ("l", [loads])]))
        got = self.extract(path)
        self.assertEqual(got["records"], 2 * n)
        self.assertEqual(got["KCV"]["l"]["2"], {"Load": 4 * n, "Store": 0})
        self.assertEqual(got["transfers"]["s"]["1,0,0"]["0"]["l"]["0,0,0"]["2"], {"Size": 4 * n, "cnt": n})
        text = self.run_tool("mt-dump", "--head", "2", path).stdout.decode().splitlines()
        self.assertEqual(len(text), 9)
        self.assertEqual(text[3], "# 99998 more records")


class Companions(Case):
    def incomplete(self, meta, says, data=None):
        path = self.file("t", data or trace([("w", WRITE)]))
        self.file("t.meta", meta)
        r = self.run_tool("mt-extract", path)
        self.assertEqual(r.returncode, 3)
        got = json.loads(r.stdout)
        self.assertIs(got["complete"], False)
        self.assertIn(says, " ".join(got["notes"]))
        self.assertIn(says, r.stderr.decode())
        return got

    def test_complete(self):
        path = self.file("t", trace([("w", WRITE)]))
        events = [launch(0, "w", 2, untraced=5), launch(1, "gone", 0, traced=False, untraced=1)]
        self.file("t.meta", companion(events, {}, {"records_written": 2, "records_counted": 2}))
        got = self.extract(path)
        self.assertEqual((got["complete"], got["notes"], got["untraced"], got["untraced_launches"]), (True, [], 6, 1))

    def test_untraced_launch_of_all_companions_counts_once(self):
        a, b = self.file("a", trace([("w", WRITE)])), self.file("b", trace([("r", READ)]))
        gone = launch(9, "gone", 0, traced=False, untraced=4, stream=-1)
        self.file("a.meta", companion([launch(0, "w", 2), gone], {}, {"records_written": 2, "records_counted": 2}))
        self.file("b.meta", companion([launch(1, "r", 1), gone], {}, {"records_written": 1, "records_counted": 1}))
        got = self.extract(b, a)
        self.assertEqual((got["untraced"], got["untraced_launches"]), (4, 1))
        self.assertEqual(list(got["KCV"]["r"]), ["1"])

    def untraced_run(self, name, untraced, n=2):
        """A run of w, which loads n words, and of "other"; `untraced` of w have no record."""
        records = [record(0, LOAD, 4, 0x10 + 4 * i, C0) for i in range(n)]
        path = self.file(name, trace([("w", records), ("other", READ)]))
        self.file(name + ".meta", companion([launch(0, "w", n, untraced=untraced), launch(1, "other", 1, untraced=7)], {},
                                            {"records_written": n + 1, "records_counted": n + 1}))
        return path

    def test_compare_says_what_has_no_record(self):
        """What moved to where nothing is recorded is no improvement; one of 300 accesses decides nothing."""
        all_seen, hidden, one = self.untraced_run("a", 0, 300), self.untraced_run("b", 150, 150), self.untraced_run("c", 1, 299)
        for a, b, verdict, says in ((all_seen, hidden, "none", ["Of B, 150 accesses in w have no record"]), (hidden, all_seen, "none", ["Of A, 150 accesses in w have"]),
                                    (hidden, hidden, "same", ["Of A, 150 accesses in w have", "Of B, 150 accesses in w have"]),
                                    (all_seen, all_seen, "same", []), (all_seen, one, "same", ["Of B, 1 access in w has no record and is in no figure"])):
            said = self.run_tool("mt-compare", "--volumes", "-k", "w", a, b).stdout.decode()
            got = json.loads(self.run_tool("mt-compare", "--volumes", "--format=json", "-k", "w", a, b).stdout)
            self.assertEqual(got["verdict"], verdict, got["sentence"])
            self.assertEqual(verdict == "none", "not as many accesses of each have no record" in got["sentence"], got["sentence"])
            self.assertEqual(got["sentence"].count("no record and"), len(says), got["sentence"])
            for words in says:
                self.assertIn(words, got["sentence"])
            self.assertIn(got["sentence"], said)
            self.assertEqual([got[s]["untraced"] for s in "ab"], [{all_seen: 0, hidden: 150, one: 1}[x] for x in (a, b)])

    def test_no_end(self):
        self.incomplete(companion([launch(0, "w", 2)]), "no end")

    def test_end_says_so(self):
        self.incomplete(companion([launch(0, "w", 2)], {}, {"records_written": 2, "complete": False}), "incomplete")

    def test_last_end_counts(self):
        path = self.file("t", trace([("w", WRITE)]))
        early = companion([], {}, {"records_written": 0})
        self.file("t.meta", early + companion([launch(0, "w", 2)], {}, {"records_written": 2}))
        self.assertTrue(self.extract(path)["complete"])

    def test_lost(self):
        lost = {"ev": "lost", "count": 7, "why": "disk full"}
        self.incomplete(companion([launch(0, "w", 2), lost], {}, {"records_written": 2}), "7 records were lost: disk full")

    def test_counts_differ(self):
        self.incomplete(companion([launch(0, "w", 3)], {}, {"records_written": 2}), "its companion says 3")
        self.incomplete(companion([launch(0, "w", 2)], {}, {"records_written": 4}), "its companion says 4")
        end = {"records_written": 2, "records_counted": 6}
        self.incomplete(companion([launch(0, "w", 2)], {}, end), "counted 6 records, 2 were written")
        self.incomplete(companion([], {}, {"records_written": 2}), "has 1 launches, its companion says 0")

    def test_other_kernel(self):
        self.incomplete(companion([launch(0, "x", 2)], {}, {"records_written": 2}), "do not belong together")

    def test_broken_line(self):
        meta = companion([launch(0, "w", 2)], {}, {"records_written": 2})
        lines = meta.splitlines(True)
        got = self.incomplete("".join(lines[:1] + ['{"ev": "alloc", \n'] + lines[1:]), 
                              "t.meta: byte %d" % (len(lines[0]) + len('{"ev": "alloc", ')))
        self.assertEqual(got["records"], 2)
        self.incomplete(meta + '{"ev":"mems', "t.meta: byte ")  # killed while writing
        self.incomplete(meta + '{"ev":"memcpy","seq":4}\n', "lacks a key")

    def test_unknown_events_and_keys(self):
        path = self.file("t", trace([("w", WRITE)]))
        events = [launch(0, "w", 2, new_key=[1, {"a": 2}]), {"ev": "new-event", "x": 1}]
        self.file("t.meta", companion(events, {}, {"records_written": 2}))
        self.assertTrue(self.extract(path)["complete"])

    def test_dump(self):
        path = self.file("t", trace([("w", WRITE)]))
        events = [
            {"ev": "site", "id": 3, "file": "k.cu", "line": 7, "column": 5, "function": "w", "op": "store", "size": 4,
             "var": "out"},
            {"ev": "site", "id": 4, "file": "m.ptx", "line": 8, "column": 0, "function": "w", "op": "load", "size": 4, "var": ""},
            {"ev": "alloc", "seq": 0, "id": 1, "base": "0x10", "bytes": 8, "kind": "cudaMalloc", "file": "m.cu", "line": 3},
            launch(1, "w", 2, grid=[2, 3, 4], block=[32, 1, 1], file="m.cu", line=9),
            {"ev": "free", "seq": 2, "id": 1, "base": "0x10"},
        ]
        self.file("t.meta", companion(events, {"program": "app", "device": "cpu"}, {"records_written": 2}))
        text = self.run_tool("mt-dump", "--companion", path).stdout.decode()
        for line in ("site 3 store 4 bytes of out in w at k.cu:7:5", "site 4 load 4 bytes in w at m.ptx:8", "alloc 1 0x10 8 bytes cudaMalloc seq 0 freed 2 at m.cu:3",
                     "# grid 2,3,4 block 32,1,1 launched at m.cu:9", "end complete: 2 records written, 2 counted"):
            self.assertIn(line + "\n", text)


class Filters(Case):
    def setUp(self):
        super().setUp()
        self.path = self.file("t", trace([("write", WRITE), ("read", READ), ("write", WRITE), ("reread", READ)]))

    def test_filters_report_but_read_all(self):
        got = self.extract("--kernels", "^read$", self.path)
        self.assertEqual(list(got["KCV"]), ["read"])
        self.assertEqual(got["KCV"]["read"], {"1": {"Load": 8, "Store": 0}})
        self.assertEqual(list(got["transfers"]), ["write"])  # the writer is not selected, its data is
        self.assertEqual(got["launches"], 4)
        for text, steps in (("3", ["3"]), ("2..", ["2", "3"]), ("..0", ["0"]), ("1..2", ["1", "2"]), ("7..", [])):
            got = self.extract("-t", text, self.path)
            self.assertEqual(sorted(s for k in got["KDV"].values() for s in k), steps)

    def test_sections(self):
        got = self.extract("-s", "transfers,kcv", self.path)
        self.assertEqual([k for k in got if k in ("KCV", "KDV", "CCV", "transfers", "addresses")], ["KCV", "transfers"])
        self.assertIn("addresses", self.extract(self.path))
        self.assertIn("addresses", self.extract("-s", "all", self.path))
        self.assertNotIn("addresses", self.extract("-s", "quick", self.path))

    def test_dump_stat(self):
        data = trace([("w", WRITE + [record(3, ATOMIC, 4, 0x20, C1)]), ("w", []), ("n", [])])
        rows = [x.split() for x in self.run_tool("mt-dump", "--stat", self.file("s", data)).stdout.decode().splitlines()]
        self.assertEqual(rows[1], ["2", "2", "3", "0", "2", "1", "0", "4", "12", "0x10", "0x23", "w"])
        self.assertEqual(rows[2], ["1", "0", "0", "0", "0", "0", "0", "0", "0", "-", "-", "n"])


class Output(Case):
    def setUp(self):
        super().setUp()
        self.path = self.file("t", trace([("w", WRITE), ("r", READ)]))

    def test_graph_of_nothing(self):
        """What strides are, where no access says which trace it is."""
        for words, raw in (((), True), (("-k", "nosuch"), False)):
            said = self.run_tool("mt-graph", *words, self.path).stdout
            self.assertEqual(b"a raw trace has no threads" in said, raw, said)

    def test_file(self):
        out = os.path.join(self.dir, "out.json")
        for tool in ("mt-extract", "mt-graph"):
            self.file("out.json", b"old and long" * 1000)
            r = self.run_tool(tool, "-o", out, self.path)
            self.assertEqual((r.returncode, r.stdout), (0, b""))
            with open(out, "rb") as f:
                self.assertEqual(f.read(), self.run_tool(tool, self.path).stdout)

    def test_failure_leaves_the_file_alone(self):
        old, new = self.file("old", b"precious"), os.path.join(self.dir, "new")
        for tool in ("mt-extract", "mt-graph"):
            self.assertEqual(self.run_tool(tool, "-o", old, "/nowhere").returncode, 2)
            self.assertEqual(self.run_tool(tool, "-o", new, "/nowhere").returncode, 2)
            self.assertEqual(self.run_tool(tool, "-o", self.path, self.path).returncode, 2)
        self.assertFalse(os.path.exists(new))
        with open(old, "rb") as f, open(self.path, "rb") as g:
            self.assertEqual(f.read(), b"precious")
            self.assertEqual(g.read(), trace([("w", WRITE), ("r", READ)]))

    def test_full_disk(self):
        words = itertools.product(sorted(os.listdir(BIN)), ("--help", "--version", "--completion-options"))
        for tool, *args in [*((t, *given(t, self.path)) for t in TOOLS), *words]:
            with open("/dev/full", "wb") as full:
                r = subprocess.run([os.path.join(BIN, tool), *args], stdout=full, stderr=subprocess.PIPE)
            self.assertEqual((r.returncode, b"No space left" in r.stderr), (1, True), (tool, args, r.stderr))

    def test_full_folder(self):
        """A disk without room for one table: a folder that was made for them goes, too; one that was there stays."""
        def full():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))

        for form in ("parquet", "csv"):
            for there in (False, True):
                folder = os.path.join(self.dir, f"{form}-{there}")
                if there:
                    os.mkdir(folder)
                r = subprocess.run([BIN + "/mt-extract", "-f", form, "-o", folder + "/", self.path], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, preexec_fn=full)
                self.assertEqual((r.returncode, b"cannot write" in r.stderr, os.path.exists(folder)), (1, True, there), r.stderr)
                self.assertEqual(os.listdir(folder) if there else [], [])

    def test_two_runs_are_equal(self):
        for tool in TOOLS:
            paths = given(tool, self.path)
            self.assertEqual(self.run_tool(tool, *paths).stdout, self.run_tool(tool, *paths).stdout)


class Progress(Case):
    def feed(self, stderr, enough):
        """Runs memtrace extract on a pipe that gets a launch every 5 ms until it is enough; its standard error is `stderr`."""
        p = subprocess.Popen([BIN + "/mt-extract", "-s", "quick", "-"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr)
        p.stdin.write(b"\x18")
        while not enough():
            p.stdin.write(trace([("w", WRITE)])[1:])
            p.stdin.flush()
            time.sleep(0.005)
        p.stdin.close()
        self.assertEqual(json.loads(p.stdout.read())["notes"], ["-: " + BARE])
        p.stdout.close()
        self.assertEqual(p.wait(timeout=60), 0)

    def test_on_a_terminal_after_two_seconds(self):
        main, terminal = os.openpty()
        shown = b""

        def read():
            nonlocal shown
            while select.select([main], [], [], 0)[0]:
                shown += os.read(main, 65536)
            return b"million records" in shown

        self.feed(terminal, read)
        os.close(terminal)
        try:
            read()
        except OSError:  # EIO: the other end is closed and all is read
            pass
        shown = shown.decode()
        os.close(main)
        self.assertIn("\r\x1b[Kmt-extract: -: " + BARE, shown)  # and wiped at the end

    def test_not_in_a_file(self):
        with open(os.path.join(self.dir, "err"), "wb+") as f:
            end = time.monotonic() + 2.5
            self.feed(f, lambda: time.monotonic() > end)
            f.seek(0)
            self.assertEqual(f.read(), f"mt-extract: -: {BARE}\n".encode())


def until_signals_are_caught(p):
    """The program under test has started so far that SIGINT and SIGTERM end it in its own way."""
    both = 1 << signal.SIGINT - 1 | 1 << signal.SIGTERM - 1
    while p.poll() is None:
        with open("/proc/%d/status" % p.pid, encoding="ascii") as f:
            caught = next(int(line.split()[1], 16) for line in f if line.startswith("SigCgt"))
        if caught & both == both:
            break
        time.sleep(0.01)


def left_in(f):
    """Bytes in the pipe `f`."""
    left = array.array("i", [0])
    fcntl.ioctl(f.fileno(), termios.FIONREAD, left)
    return left[0]


def until_read(f):
    """All that is in the pipe `f` has been taken."""
    time.sleep(0.01)
    while left_in(f):
        time.sleep(0.01)


class Interruption(Case):
    def interrupted(self, tool, *args):
        path = os.path.join(self.dir, "f")
        if not os.path.exists(path):
            os.mkfifo(path)
        p = subprocess.Popen([program(tool), *args, path], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        with open(path, "wb") as f:
            f.write(trace([("w", WRITE)]) + b"r\n" + READ[0])
            f.flush()
            until_signals_are_caught(p)
            until_read(f)
            until_idle(p)  # it waits for more
            p.send_signal(signal.SIGINT)
            out, err = p.communicate(timeout=60)
        self.assertEqual(p.returncode, 3, err)
        self.assertEqual(len(err.splitlines()), 1 + ("all" in args), err)
        return out

    def test_live(self):
        got = json.loads(self.interrupted("mt-extract", "-s", "quick", "--no-companion"))
        self.assertIs(got["complete"], False)
        self.assertEqual((got["launches"], got["records"]), (2, 3))
        self.assertEqual(got["KCV"]["r"]["1"]["Load"], 8)
        self.assertIn("stopped while reading", got["notes"][0])

    def test_spooled(self):
        """What was spooled is analysed; the spool ends inside a kernel, which is said too."""
        path = os.path.join(self.dir, "f")
        os.mkfifo(path)
        p = subprocess.Popen([BIN + "/mt-extract", path], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        with open(path, "wb") as f:
            f.write(trace([("w", WRITE)]) + b"r\n" + READ[0])
            f.flush()
            until_signals_are_caught(p)
            until_read(f)
            until_idle(p)  # it waits for more
            p.send_signal(signal.SIGTERM)
            out, err = p.communicate(timeout=60)
        got = json.loads(out)
        self.assertEqual((p.returncode, got["complete"], got["records"]), (3, False, 3), err)

    def test_full_pipe(self):
        """Who reads memtrace dump's output is slow: no line is lost in the middle, and what is said is that reading was interrupted."""
        path = self.file("t", trace([("k", WRITE + READ)] * 4000))
        p = subprocess.Popen([BIN + "/mt-dump", path], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        until_signals_are_caught(p)
        before = -1
        while before != (before := left_in(p.stdout)) or not before:
            time.sleep(0.1)  # until nothing more fits
        p.send_signal(signal.SIGINT)
        until_idle(p)
        out, err = p.communicate(timeout=60)
        self.assertEqual((p.returncode, err.count(b"stopped while reading"), len(err.splitlines())), (3, 1, 1), err)
        whole = self.run_tool("mt-dump", path).stdout
        self.assertTrue(whole.startswith(out) and before <= len(out) <= len(whole), (before, len(out), len(whole)))

    def test_two_runs(self):
        """A stop in the first one is said once, and nothing is compared."""
        path = os.path.join(self.dir, "f")
        os.mkfifo(path)
        other = self.file("t", trace([("w", WRITE)]))
        p = subprocess.Popen([BIN + "/mt-compare", "--volumes", path, other], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        until_signals_are_caught(p)
        until_idle(p)
        p.send_signal(signal.SIGINT)
        out, err = p.communicate(timeout=60)
        self.assertEqual((p.returncode, out, err.count(b"stopped while reading"), err.count(b"nothing is compared")), (3, b"", 1, 1), err)

    def test_waiting_for_a_writer(self):
        path = os.path.join(self.dir, "f")
        os.mkfifo(path)
        for tool in TOOLS:
            p = subprocess.Popen([program(tool), *given(tool, path)], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            until_signals_are_caught(p)
            until_idle(p)
            p.send_signal(signal.SIGINT)
            out, err = p.communicate(timeout=60)
            self.assertEqual(p.returncode, 3, err)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
