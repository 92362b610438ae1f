#!/usr/bin/env python3
"""Traces, companions and comm.json files that somebody made to do harm. usage: hostile_test.py BIN_FOLDER TIMER"""
import array
import fcntl
import json
import os
import random
import re
import resource
import shutil
import signal
import sqlite3
import stat
import subprocess
import sys
import tempfile
import termios
import threading
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "container"))
sys.dont_write_bytecode = True
import mtc  # noqa: E402
from tool_case import program  # noqa: E402
from traces import LOAD, STORE, companion, record, trace  # noqa: E402

BIN = os.path.abspath(sys.argv[1])
MEMORY = 4 << 30  # bytes of address space, most of it the empty tables of memtrace extract
END = {"records_written": 2, "records_counted": 2}
LAUNCH = {"ev": "launch", "seq": 5, "kernel": "k", "traced": True, "records": 2}
TIMER = os.path.abspath(sys.argv[2]) if len(sys.argv) > 2 else None
with open(os.path.join(BIN, "mt-dump"), "rb") as f:
    SANITIZED = re.search(b"__[at]san_init", f.read()) is not None


def until_caught(p):
    """The program has come so far that signals end it in its own way."""
    while p.poll() is None:
        with open(f"/proc/{p.pid}/status", encoding="ascii") as f:
            if next(int(line.split()[1], 16) for line in f if line.startswith("SigCgt")) >> signal.SIGINT - 1 & 1:
                return
        time.sleep(0.01)


def left_in(f):
    """Bytes in the pipe."""
    left = array.array("i", [0])
    fcntl.ioctl(f.fileno(), termios.FIONREAD, left)
    return left[0]


class Case(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="mt-hostile-")
        self.addCleanup(shutil.rmtree, self.dir)

    def path(self, name):
        return os.path.join(self.dir, name)

    def file(self, name, data):
        with open(self.path(name), "wb") as f:
            f.write(data if isinstance(data, bytes) else data.encode())
        return self.path(name)

    def tool(self, tool, *args, code=0, **more):
        def limit():
            if not SANITIZED:
                resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))

        done = subprocess.run([program(tool), *args], capture_output=True, timeout=30, preexec_fn=limit, check=False, **more)
        self.assertEqual(done.returncode, code, done.stderr)
        return done

    def extract(self, *args, code=0):
        return json.loads(self.tool("mt-extract", *args, code=code).stdout)

    def pair(self, records, events, end=None, name="t"):
        """A trace of one launch of k, and its companion."""
        launch = dict(LAUNCH, records=len(records))
        end = {"records_written": len(records), "records_counted": len(records)} if end is None else end
        self.file(name + ".meta", companion([*events, launch], None, end))
        return self.file(name, trace([("k", records)]))


class Numbers(Case):
    def test_a_real_of_316_characters(self):
        """It was written from a buffer of 64."""
        text = '{"format": "memtrace-comm", "complete": true, "HCV": {"k": {"0": {"Load": 1e308, "Store": -1e308}}}}'
        page = self.tool("mt-report", "--from", self.file("c.json", text)).stdout
        self.assertIn(f'"Load": {1e308:.6f}, "Store": {-1e308:.6f}'.encode(), page)

    def loads_of_filled(self, event, address):
        """memtrace extract of two CTAs that read what a fill or copy wrote at `address`."""
        path = self.pair([record(0, LOAD, 4, address, (i, 0, 0)) for i in (0, 1)], [event])
        for threads in ("1", "3"):
            o = self.extract("--threads", threads, "-s", "all,more", path)
            yield o["transfers"].get("<host>", {})
        self.tool("mt-report", "-o", self.path("page.html"), path)

    def test_fill_of_128_tib(self):
        event = {"ev": "memset", "seq": 1, "dst": "0x0", "value": 0, "bytes": 1 << 47, "stream": 0}
        for t in self.loads_of_filled(event, 0x123456789AB0):
            self.assertEqual(t, {"0,0,0": {"0": {"k": {c: {"0": {"Size": 4, "cnt": 1}} for c in ("0,0,0", "1,0,0")}}}})

    def test_rows_by_the_billion(self):
        event = {"ev": "memcpy", "seq": 1, "kind": "h2d", "dst": "0x10", "src": "0x0", "bytes": 1 << 40, "width": 2, "height": 1 << 39,
                 "dpitch": 64, "spitch": 2, "stream": 0}
        row = 0x10 + 64 * 123456789
        expected = {"0,0,0": {"0": {"k": {c: {"0": {"Size": 2, "cnt": 1}} for c in ("0,0,0", "1,0,0")}}}}
        for t in self.loads_of_filled(event, row):
            self.assertEqual(t, expected, "two of the four bytes are of a row")
        for t in self.loads_of_filled(event, row + 2):
            self.assertEqual(t, {}, "between rows")

    def test_copy_of_what_was_filled(self):
        """Two fills, a copy over 16 TiB, one in rows: the writers come along."""
        events = [{"ev": "memset", "seq": 1, "dst": hex(1 << 45), "value": 0, "bytes": 1 << 44, "stream": 0},
                  {"ev": "memcpy", "seq": 2, "kind": "d2d", "dst": hex(1 << 46), "src": hex(1 << 45), "bytes": 1 << 44, "stream": 0},
                  {"ev": "memcpy", "seq": 3, "kind": "d2d", "dst": "0x1000", "src": hex(1 << 46), "bytes": 1 << 30, "width": 1, "height": 1 << 30,
                   "dpitch": 16, "spitch": 8, "stream": 0}]
        path = self.pair([record(0, LOAD, 32, 0x1000 + 16 * 777, (0, 0, 0)), record(0, LOAD, 4, (1 << 46) + (1 << 43), (1, 0, 0))], events)
        for threads in ("1", "3"):
            t = self.extract("--threads", threads, "-s", "transfers", path)["transfers"]["<host>"]["0,0,0"]["0"]["k"]
            self.assertEqual(t, {"0,0,0": {"0": {"Size": 2, "cnt": 1}}, "1,0,0": {"0": {"Size": 4, "cnt": 1}}})

    def test_impossible_events_are_damage(self):
        for event in ({"ev": "memset", "seq": 1, "dst": hex((1 << 64) - 8), "bytes": 64},
                      {"ev": "memset", "seq": 1, "dst": "0x0", "bytes": -1},
                      {"ev": "memcpy", "seq": 1, "kind": "h2d", "dst": "0x0", "src": "0x0", "width": 8, "height": 4, "dpitch": 4, "spitch": 8},
                      {"ev": "memcpy", "seq": 1, "kind": "d2d", "dst": "0x0", "src": "0x0", "width": 1, "height": 1 << 40, "dpitch": 1 << 30,
                       "spitch": 1 << 30}):
            path = self.pair([record(0, LOAD, 4, 0x10, (0, 0, 0))], [event])
            o = self.extract(path, code=3)
            self.assertFalse(o["complete"])
            self.assertIn("impossible value", " ".join(o["notes"]))

    def test_records_of_a_quarter_gib(self):
        """Forty of them are 10 GiB; each is read by the CTA before it, all but a page."""
        big, n = (1 << 28) - 1, 40
        records = [record(0, STORE, big, i << 28, (i, 0, 0)) for i in range(n)]
        records += [record(0, LOAD, big - 4096, i + 1 << 28, (i, 0, 0)) for i in range(n - 1)]
        path = self.file("t", trace([("k", records)]))
        for threads in ("1", "3"):
            for sections in ("KCV,transfers", "addresses"):
                o = self.extract("--threads", threads, "-s", sections, path)
                if sections != "addresses":
                    self.assertEqual(o["KCV"]["k"]["0"], {"Load": (n - 1) * (big - 4096), "Store": (n - 1) * (big - 4096)})
                    self.assertEqual(len(o["transfers"]["k"]), n - 1)
        o = self.extract("-s", "more", path)
        self.assertIn(f"{2 * n - 1} accesses of more than 256 KiB", " ".join(o["notes"]))

    def test_interrupt_at_once(self):
        """In the middle of a trace of long records, which take hours: one limit is set, of less than three seconds, and not moved."""
        rng = random.Random(1)
        with open(self.path("t"), "wb") as f:
            f.write(b"\x18k\n")
            for _ in range(100):
                f.write(b"".join(record(0, rng.choice([LOAD, STORE]), (1 << 28) - 1, rng.getrandbits(40), (rng.randrange(8), 0, 0)) for _ in range(1000)))
        said = {} if SANITIZED else {"LD_PRELOAD": TIMER, "MT_TIMER_SAY": "1"}
        for args in ([], ["-s", "KCV", "--threads", "1"], ["-o", self.path("out")]):
            p = subprocess.Popen([os.path.join(BIN, "mt-extract"), *args, self.path("t")], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=dict(os.environ, **said))
            until_caught(p)
            p.send_signal(signal.SIGINT)
            _, err = p.communicate(timeout=300)
            self.assertIn(p.returncode, (-signal.SIGINT, 3), err)
            self.assertRegex(err, b"interrupted, and no results|stopped while reading")
            self.assertFalse(os.path.exists(self.path("out")) and p.returncode < 0)
            if said:
                limits = [int(ms) for ms in re.findall(rb"timer: (\d+) ms", err)]
                self.assertTrue(len(limits) == 1 and limits[0] < 3000, limits)

    def test_second_interrupt(self):
        """While a result that nobody reads is written: the program ends by the signal, and what it was making is gone."""
        trace_path = self.file("t", trace([("k", [record(0, STORE, 4, 4096 * i, (i, 0, 0)) for i in range(4000)])]))
        os.mkfifo(self.path("out"))
        os.mkdir(self.path("tmp"))
        for args in (["-f", "sqlite"], ["-f", "json"], ["-f", "csv", "--table", "cta_volumes"]):
            p = subprocess.Popen([os.path.join(BIN, "mt-extract"), "-s", "all,more", *args, "-o", self.path("out"), trace_path],
                                 stderr=subprocess.PIPE, env=dict(os.environ, TMPDIR=self.path("tmp")))
            with open(self.path("out"), "rb") as out:
                fcntl.fcntl(out.fileno(), fcntl.F_SETPIPE_SZ, 4096)
                while left_in(out) < 4096:  # it waits for its reader
                    self.assertIsNone(p.poll(), args)
                    time.sleep(0.01)
                p.send_signal(signal.SIGTERM)
                p.send_signal(signal.SIGTERM)
                _, err = p.communicate(timeout=300)
            self.assertEqual((p.returncode, os.listdir(self.path("tmp"))), (-signal.SIGTERM, []), (args, err))
            self.assertIn(b"no results", err)

    def test_sixty_thousand_kernels(self):
        """No list of them is searched for each: ten times as many take about ten times as long, not a hundred."""
        took = []
        for n in (6000, 60000):
            path = self.file("t", trace([(f"kernel_{i}", []) for i in range(n)]))
            begin = os.times()
            self.tool("mt-report", "--quick", "-o", self.path("r.html"), path)
            took.append(os.times().children_user - begin.children_user)
        self.assertLess(took[1], 40 * max(took[0], 0.02), took)


NAMES = {"escape": "k\x1b]0;owned\x07\x1b[2J", "c1": "k\u009b31mX", "cr": "real\rfake", "bidi": "a\u202ecba", "nonchar": "\ufffe", "rlm": "a\u200fcba", "bom": "a\ufeffb", "tab": "a\tb", "del": "a\x7f"}


class Terminals(Case):
    def test_names(self):
        tools = [["mt-extract"], ["mt-extract", "--format", "csv"], ["mt-extract", "--format", "text", "-s", "all,more"], ["mt-extract", "--format", "dot"],
                 ["mt-graph"], ["mt-graph", "-f", "json"], ["mt-graph", "-f", "graphml"], ["mt-dump"], ["mt-dump", "--stat"], ["mt-dump", "--runs"], ["mt-dump", "--companion"]]
        for label, name in NAMES.items():
            self.file("t.meta", companion([{"ev": "lost", "count": 1, "why": name}, {"ev": "site", "id": 4, "file": name, "line": 1, "var": name},
                                           dict(LAUNCH, kernel=name, records=1)], None, {"records_written": 1, "records_counted": 1}))
            path = self.file("t", trace([(name, [record(0, LOAD, 4, 0x10, (0, 0, 0))])]))
            for tool in tools:
                done = subprocess.run([os.path.join(BIN, tool[0]), *tool[1:], path], capture_output=True, check=False)
                self.assertIn(done.returncode, (0, 3), (label, tool, done.stderr))
                for text in (done.stdout, done.stderr):
                    seen = {c for c in text.decode() if ord(c) < 32 or 127 <= ord(c) < 160 or c in "\u202e\u200f\ufeff\ufffe"} - {"\n"}
                    self.assertEqual(seen, set(), (label, tool))
            self.assertIn(label == "escape" and "k\\x1b]0;owned\\x07\\x1b[2J" or "\\x", self.tool("mt-dump", path, code=3).stdout.decode())

    def test_paths_and_messages(self):
        path = self.file("t\x1b[2J\nmt-extract: all is well", trace([("k\x1b[31m", [record(0, LOAD, 4, 0x10, (0, 0, 0))])])[:-10])
        err = self.tool("mt-extract", path, code=3).stderr
        self.assertNotIn(b"\x1b", err)
        self.assertEqual(err.count(b"\n"), 1, err)

    def container(self, names):
        """A launch of each kernel, of three accesses."""
        columns = [bytes([0xBF, 8, 0]), b"\0\1", mtc.sleb(4) + b"\x04\0", mtc.sleb(4096), b""]
        runs = len(columns[0]).to_bytes(4, "little") + b"".join(len(c).to_bytes(4, "little") for c in columns[1:]) + bytes(4) + b"".join(columns)
        lines = [{"ev": "kernel", "id": i + 1, "name": n} for i, n in enumerate(names)]
        text = "".join(json.dumps(o) + "\n" for o in lines).encode()
        out = mtc.head(features=mtc.HAS_DEVICE) + mtc.chunk(mtc.META, text, len(lines))
        for i in range(len(names)):
            out += mtc.chunk(mtc.DEVICE, runs, 96, key=i + 1, first=5 + i, last=5 + i, flags=3)
        return out + mtc.tail(out)

    def test_a_line_feed_makes_no_record(self):
        """Of a name in a container; a NUL does not end it, so that it is not another one's."""
        path = self.file("t.mtc", self.container(["real\nlaunch 9 forged", "a", "a\0b", "a"]))
        self.tool("mt-convert", "--to", "raw", "--no-companion", "-o", self.path("t"), path)
        stat_ = self.tool("mt-dump", "--stat", self.path("t")).stdout.decode().splitlines()
        self.assertEqual(len(stat_), 1 + 3, stat_)
        self.assertTrue(any(line.endswith("real\\x0alaunch 9 forged") for line in stat_), stat_)
        kernels = self.extract("-s", "KDV", path)["KDV"]
        self.assertEqual(sorted(kernels), ["a", "a\\x00b", "real\\x0alaunch 9 forged"])
        self.assertEqual(sorted(kernels), sorted(self.extract("-s", "KDV", self.path("t"))["KDV"]))

    def test_merge(self):
        text = b"1\t0\ttr\n2\t0\tfc\t\x1b[2Jmain\n3\t0\tfr\t\xc3\xa9t\xc3\xa9\xc2\x9b\n4\t0\ttf\n"
        out = self.tool("mt-convert", "--order=time", input=text).stdout
        self.assertIn(b"fc\t\\x1b[2Jmain\n", out)
        self.assertIn(b"fr\t\xc3\xa9t\xc3\xa9\\xc2\\x9b\n", out)

    def test_csv_has_no_formulas(self):
        for name, cell in (("=cmd|'/C calc'!A0", "'=cmd|'/C calc'!A0"), ("@SUM(1,2)", '"\'@SUM(1,2)"'), ("-x", "'-x"), ("+x", "'+x"), ("a=b", "a=b")):
            path = self.file("t", trace([(name, [record(0, STORE, 4, 0x10, (0, 0, 0))])]))
            lines = self.tool("mt-extract", "-s", "KDV", "--format", "csv", path).stdout.decode().splitlines()
            self.assertEqual(lines[1], f"KDV,{cell},0,,0,4")


class Outputs(Case):
    def setUp(self):
        super().setUp()
        self.trace = self.file("t", trace([("k", [record(0, STORE, 4, 0x10, (0, 0, 0))])]))

    def check_database(self, data):
        self.assertTrue(data.startswith(b"SQLite format 3\0"))
        with open(self.path("copy.db"), "wb") as f:
            f.write(data)
        self.assertEqual(sqlite3.connect(self.path("copy.db")).execute("SELECT kernel FROM launches").fetchall(), [("k",)])

    def test_a_database_goes_through_a_fifo(self):
        """It was renamed over it: so /dev/null was lost."""
        os.mkfifo(self.path("fifo"))
        got = []

        def read():
            with open(self.path("fifo"), "rb") as f:
                got.append(f.read())

        reader = threading.Thread(target=read, daemon=True)
        reader.start()
        self.tool("mt-extract", "--format=sqlite", "-o", self.path("fifo"), self.trace)
        reader.join(10)
        self.assertTrue(stat.S_ISFIFO(os.lstat(self.path("fifo")).st_mode))
        self.check_database(got[0])

    def test_devices_stay(self):
        node = self.path("null")
        try:
            os.mknod(node, stat.S_IFCHR | 0o666, os.makedev(1, 3))
            open(node, "wb").close()
        except OSError:
            self.skipTest("no device nodes here")
        mtc_ = self.path("c.mtc")
        self.tool("mt-convert", "-o", mtc_, self.trace)
        for tool in (["mt-extract", "--format=sqlite"], ["mt-extract"], ["mt-report"], ["mt-graph"]):
            self.tool(*tool, "-o", node, self.trace)
        self.tool("mt-convert", "--to", "raw", "-o", node, mtc_)
        self.assertTrue(stat.S_ISCHR(os.lstat(node).st_mode))
        self.assertEqual(sorted(os.listdir(self.dir)), ["c.mtc", "null", "t"], "nothing is left beside it")

    def test_a_database_follows_a_link_and_keeps_the_mode(self):
        self.file("real.db", "old")
        os.chmod(self.path("real.db"), 0o640)
        os.symlink("real.db", self.path("link.db"))
        self.tool("mt-extract", "--format=sqlite", "-o", self.path("link.db"), self.trace)
        self.assertTrue(os.path.islink(self.path("link.db")))
        self.assertEqual(stat.S_IMODE(os.stat(self.path("real.db")).st_mode), 0o640)
        with open(self.path("real.db"), "rb") as f:
            self.check_database(f.read())
        self.assertEqual(sorted(os.listdir(self.dir)), ["copy.db", "link.db", "real.db", "t"])

    def test_a_companion_that_nobody_named(self):
        """It is made of the output's name: what somebody planted there stays as it is."""
        self.file("t.meta", companion([dict(LAUNCH, records=1)], None, {"records_written": 1, "records_counted": 1}))
        mtc_ = self.path("c.mtc")
        self.tool("mt-convert", "-o", mtc_, self.trace)
        victim = self.file("victim", "precious")
        os.symlink("victim", self.path("out.meta"))
        err = self.tool("mt-convert", "--to", "raw", "-o", self.path("out"), mtc_, code=1).stderr
        self.assertIn(b"is not a regular file", err)
        with open(victim, encoding="utf-8") as f:
            self.assertEqual(f.read(), "precious")
        self.tool("mt-convert", "--to", "raw", "--companion", self.path("out.meta"), "-o", self.path("out"), mtc_)
        with open(victim, encoding="utf-8") as f:
            self.assertIn('"launch"', f.read(), "who names it means it")


class Sources(Case):
    """memtrace report puts into its page what the user could have meant, and nothing else."""

    def setUp(self):
        super().setUp()
        self.source = self.file("secret.cu", "line 1\nline 2\n")
        os.mkdir(self.path("root"))
        self.inside = self.file("root/a.cu", "inside\n")
        os.symlink("../secret.cu", self.path("root/link.cu"))

    def lines(self, files, *args, events=()):
        sites = [{"ev": "site", "id": i, "file": f, "line": 1, "op": "load", "size": 4} for i, f in enumerate(files)]
        path = self.pair([], [*events, *sites])
        page = self.tool("mt-report", *args, path).stdout.decode()
        return json.loads(page.split('<script id="data" type="application/json">')[1].split("</script>")[0])["sources"]

    def test_root(self):
        files = [self.source, self.inside, self.path("root/link.cu"), self.path("root/../secret.cu"), "a.cu", "../secret.cu", "/etc/hostname", "/dev/stdin"]
        self.assertEqual(self.lines(files), {})
        self.assertEqual(sorted(self.lines(files, "--source-root", self.path("root"))), sorted([self.inside, "a.cu"]))
        self.assertEqual(sorted(self.lines(files, "--source-root", self.path("root"), "--source-root", self.dir)),
                         sorted([self.inside, "a.cu", self.source, self.path("root/link.cu"), self.path("root/../secret.cu"), "../secret.cu"]))
        self.assertEqual(self.lines(files, "--source-root", self.path("root"), "--no-source"), {})
        self.tool("mt-report", "--source-root", self.source, self.path("t"), code=2)

    def digest(self, data):
        import ctypes
        xxh = ctypes.CDLL("libxxhash.so.0").XXH3_128bits

        class Hash(ctypes.Structure):
            _fields_ = [("low", ctypes.c_uint64), ("high", ctypes.c_uint64)]

        xxh.restype, xxh.argtypes = Hash, [ctypes.c_char_p, ctypes.c_size_t]
        h = xxh(data, len(data))
        return f"{h.high:016x}{h.low:016x}"

    def test_hash(self):
        with open(self.source, "rb") as f:
            data = f.read()
        known = {"ev": "source", "file": self.source, "bytes": len(data), "xxh128": self.digest(data)}
        self.assertEqual(self.lines([self.source], events=[known])[self.source]["lines"], [[1, "line 1"], [2, "line 2"]])
        for wrong in (dict(known, xxh128=self.digest(b"x")), dict(known, xxh128=""), dict(known, bytes=1), dict(known, file=self.inside)):
            self.assertEqual(self.lines([self.source], events=[wrong]), {})
        self.file("secret.cu", "changed\n")
        self.assertEqual(self.lines([self.source], events=[known]), {}, "it is not what it was")


class Cut(Case):
    """A program that is killed early leaves a container of its head alone."""

    def setUp(self):
        super().setUp()
        self.cut = self.file("t.mtc", mtc.head(features=mtc.HAS_DEVICE))

    def test_head_alone(self):
        self.assertEqual(os.path.getsize(self.cut), 64)
        o = self.extract(self.cut, code=3)
        self.assertFalse(o["complete"])
        self.assertIn("neither an index nor lines", " ".join(o["notes"]))
        for tool in (["mt-report", "-o", self.path("r.html")], ["mt-graph"], ["mt-convert", "--to", "raw", "-o", self.path("raw")], ["mt-dump"]):
            self.tool(*tool, self.cut, code=3)
        with open(self.cut, "rb") as f:
            self.tool("mt-extract", "-", code=3, stdin=f)
        self.tool("mt-convert", "--to", "mtc", "-o", self.path("copy.mtc"), self.cut, code=3)
        self.assertFalse(self.extract(self.path("copy.mtc"), code=3)["complete"], "packed anew it is as cut as before")
        whole = mtc.head(features=mtc.HAS_DEVICE)
        self.file("t.mtc", whole + mtc.tail(whole))
        self.assertIsNone(self.extract(self.cut)["complete"], "an empty container that was closed: of which trace?")

    def test_the_file_beside_it(self):
        self.file("t.mtc.meta", companion([], {"pid": 42}))
        self.assertIn("killed", " ".join(self.extract(self.cut, code=3)["notes"]))
        closed = {"records_written": 0, "records_counted": 0}
        text = companion([], None, closed)
        whole = mtc.head(features=mtc.HAS_DEVICE) + mtc.chunk(mtc.META, text.encode(), 2)
        self.file("t.mtc", whole + mtc.tail(whole))
        self.assertTrue(self.extract("--no-companion", self.cut)["complete"])
        self.file("t.mtc.meta", text)
        self.assertTrue(self.extract(self.cut)["complete"])
        self.file("t.mtc.meta", companion([{"ev": "lost", "count": 7, "why": "a full disk"}], None, dict(closed, complete=False)))
        self.assertIn("7 records were lost: a full disk", " ".join(self.extract(self.cut, code=3)["notes"]))
        self.file("t.mtc.meta", companion([], {"pid": 99}, dict(closed, complete=False)))
        self.assertTrue(self.extract(self.cut)["complete"], "that is of another run")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
