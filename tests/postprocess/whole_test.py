#!/usr/bin/env python3
"""What has no end or stands for more than it is; and what may be called whole. usage: whole_test.py BIN_FOLDER"""
import json
import os
import resource
import shutil
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "container"))
sys.dont_write_bytecode = True
import mtc  # noqa: E402
from hostile_test import BIN, LAUNCH, SANITIZED, Case, program  # noqa: E402
from traces import LOAD, STORE, companion, record, trace  # noqa: E402


class Endless(Case):
    """What has no end, or is longer than it looks."""

    def setUp(self):
        super().setUp()
        self.trace = self.pair([record(0, LOAD, 4, 0x10, (0, 0, 0))], [])

    def test_companion(self):
        os.remove(self.trace + ".meta")
        os.symlink("/dev/zero", self.trace + ".meta")
        self.assertIn(b"t.meta: cannot open the companion: it is a device", self.tool("mt-extract", self.trace, code=2).stderr)
        os.remove(self.trace + ".meta")
        with open(self.trace + ".meta", "wb") as f:
            f.truncate(3 << 30)
        for tool in ("mt-extract", "mt-dump", "mt-report", "mt-graph"):
            self.assertIn(b"t.meta: byte 0: a line of more than 16 MiB", self.tool(tool, self.trace, code=3).stderr)
        self.tool("mt-extract", "--no-companion", self.trace)
        text = companion([{"ev": "other", "text": "x" * (15 << 20)}, dict(LAUNCH, records=1)], None, {"records_written": 1, "records_counted": 1})
        self.file("t.meta", text)
        self.assertTrue(self.extract(self.trace)["complete"], "a long line is one")

    def test_no_trace_at_all(self):
        """They said what it was, and went on reading it for ever."""
        for tool in ("mt-extract", "mt-report", "mt-graph", "mt-dump"):
            self.assertIn(b"not a raw memory trace", self.tool(tool, "/dev/zero", code=3).stderr)

    def container(self, lines, codec):
        line = b'{"ev":"alloc","seq":1,"id":1,"base":"0x1000","bytes":16,"kind":"malloc"}\n'
        text = line * (lines // len(line))
        out = mtc.head(features=mtc.HAS_HOST) + mtc.chunk(mtc.META, companion([], None, {}).encode(), 2)
        for _ in range(2):
            out += mtc.chunk(mtc.META, text, lines // len(line), codec=codec)
        return self.file("bomb.mtc", out + mtc.tail(out))

    def test_lines_out_of_nothing(self):
        bomb = self.container(1 << 26, 1)
        self.assertLess(os.path.getsize(bomb), 40000)
        for words in (["mt-dump"], ["mt-graph"], ["mt-convert", "--to", "mtc", "-o", self.path("again.mtc")]):
            err = self.tool(*words, bomb, code=3).stderr.decode()
            self.assertRegex(err, "bomb.mtc: byte [0-9]+: .* more than 256 times as many")
            self.assertEqual(err.count("256 times"), 2, err)
        self.tool("mt-dump", self.container(1 << 21, 1))
        self.tool("mt-dump", self.container(1 << 23, 0))

    def test_out_of_memory(self):
        """A line beyond the memory was told as a companion without end."""
        if SANITIZED:
            self.skipTest("the sanitizer's own memory is in the way")
        self.file("t.meta", companion([{"ev": "alloc", "seq": i, "id": i, "base": "0x10", "bytes": 16} for i in range(400000)]))

        def little():
            resource.setrlimit(resource.RLIMIT_AS, (90 << 20, 90 << 20))

        done = subprocess.run([os.path.join(BIN, "mt-dump"), self.trace], capture_output=True, preexec_fn=little, check=False)
        self.assertEqual((done.returncode, done.stderr.count(b"\n")), (1, 1), done.stderr)
        self.assertIn(b"no memory for the companion", done.stderr)

    def test_what_we_write_ourselves(self):
        """A companion of equal lines, which zstd makes a thousand times smaller, comes back."""
        lines = [{"ev": "other", "text": "the same again"}] * 200000
        self.file("t.meta", companion([*lines, dict(LAUNCH, records=1)], None, {"records_written": 1, "records_counted": 1}))
        self.tool("mt-convert", "-o", self.path("c.mtc"), self.trace)
        self.assertTrue(self.extract(self.path("c.mtc"))["complete"])
        self.tool("mt-convert", "-o", self.path("back"), self.path("c.mtc"))
        with open(self.path("back.meta"), encoding="utf-8") as f:
            self.assertEqual(sum("the same again" in line for line in f), len(lines))

    def test_one_behind_the_other(self):
        """`cat a.mtc a.mtc`: the second one was left out without a word."""
        self.tool("mt-convert", "-o", self.path("a.mtc"), self.trace)
        with open(self.path("a.mtc"), "rb") as f:
            data = f.read()
        o = self.extract(self.file("two.mtc", data + data), code=3)
        self.assertFalse(o["complete"])
        self.assertIn(f"byte {len(data)}: the container ends here, the {len(data)} bytes after it", " ".join(o["notes"]))
        self.assertEqual(o["records"], 1)


class Belongs(Case):
    """A raw trace says nothing of its run: its companion must know it again."""

    def run_of(self, name, base, counts=(1, 128, 129, 130, 257, 600, 0), at=None, swap=None):
        """A trace at `base` and its companion; `at`: (launch, record) that another run has elsewhere."""
        launches, lines = [], []
        for k, n in enumerate(counts):
            rows = [record(0, STORE, 4, base + 4096 * k + 4 * i + (1 << 40 if (k, i) == at else 0), (0, 0, 0)) for i in range(n)]
            launches.append((f"k{k}", rows))
            picked = b"".join(r for i, r in enumerate(rows) if i <= 128 or i & (i - 1) == 0)
            lines.append(dict(LAUNCH, seq=5 + k, kernel=f"k{k}", records=n, **({"sample": hex(mtc.xxh3(picked))} if n else {})))
        self.file(name + ".meta", companion(lines, swap, {"records_written": sum(counts), "records_counted": sum(counts)}))
        return self.file(name, trace(launches))

    def refused(self, path, launch, byte, *more):
        said = f"{path}: launch {launch} (byte {byte}) has other records than those that "
        for tool, args, complete in (("mt-extract", ["-s", "quick"], 1), ("mt-extract", ["--threads", "3"], 1), ("mt-graph", ["-f", "json"], 1),
                                     ("mt-report", ["-o", self.path("page.html")], 0), ("mt-dump", [], 0)):
            done = self.tool(tool, *args, *more, path, code=3)
            self.assertIn(said, done.stderr.decode())
            self.assertIn(b"(--no-companion)", done.stderr)
            if complete:
                self.assertIs(json.loads(done.stdout)["complete"], False)

    def test_another_runs_companion(self):
        mine, its = self.run_of("a", 0x10000), self.run_of("b", 0x20000)
        for path in (mine, its):
            self.assertIs(self.extract(path)["complete"], True)
        self.refused(mine, 0, 4, f"--companion={its}.meta")
        os.rename(mine + ".meta", self.path("c"))
        os.rename(its + ".meta", mine + ".meta")
        os.rename(self.path("c"), its + ".meta")
        for path in (mine, its):  # as of two streams that were swapped
            self.refused(path, 0, 4)
            self.assertIsNone(self.extract("--no-companion", path)["complete"])
        os.mkfifo(self.path("fifo"))
        shutil.copy(mine + ".meta", self.path("fifo.meta"))
        with subprocess.Popen(["cp", mine, self.path("fifo")]):
            self.assertIs(self.extract(self.path("fifo"), code=3)["complete"], False)

    def test_one_record(self):
        """Of each launch those with the numbers 0 to 128, 256, 512 … count, the last one of them, too."""
        for at in ((0, 0), (1, 127), (2, 128), (4, 256), (5, 512)):
            self.run_of("a", 0x10000)
            os.rename(self.path("a.meta"), self.path("own"))
            path = self.run_of("a", 0x10000, at=at)
            self.assertIs(self.extract(path)["complete"], True)
            os.rename(self.path("own"), self.path("a.meta"))
            byte = sum(3 + 24 * (n + 1) for n in (1, 128, 129, 130, 257, 600)[:at[0]]) + 4
            self.refused(path, at[0], byte)

    def test_older_companions_say_nothing_of_it(self):
        path = self.run_of("a", 0x10000)
        with open(path + ".meta", encoding="utf-8") as f:
            lines = [json.loads(line) for line in f]
        self.file("a.meta", "".join(json.dumps({k: v for k, v in line.items() if k != "sample"}) + "\n" for line in lines))
        self.run_of("b", 0x20000)
        shutil.copy(self.path("b"), path)
        self.assertIs(self.extract(path)["complete"], True)

    def test_converted(self):
        path = self.run_of("a", 0x10000)
        self.tool("mt-convert", "-o", self.path("a.mtc"), path)
        self.tool("mt-convert", "-o", self.path("again"), self.path("a.mtc"))
        self.assertIs(self.extract(self.path("again"))["complete"], True)
        self.run_of("b", 0x20000)
        err = self.tool("mt-convert", "-o", self.path("b.mtc"), "--companion", self.path("b.meta"), path, code=3).stderr.decode()
        self.assertIn("a: launch 0 (byte 4) has other records", err)
        o = self.extract(self.path("b.mtc"), code=3)
        self.assertIs(o["complete"], False)
        self.assertIn("its companion has launches with other records", " ".join(o["notes"]))

    def test_converted_with_other_launches(self):
        self.run_of("long", 0x10000, (1, 5, 7))
        self.run_of("short", 0x10000, (1, 5))
        for trace_, lines, word in ("short", "long", "fewer"), ("long", "short", "more"):
            err = self.tool("mt-convert", "-o", self.path("a.mtc"), "--companion", self.path(lines + ".meta"), self.path(trace_), code=3).stderr.decode()
            self.assertIn(f"{trace_}: has {word} launches than its companion", err)
            self.assertIs(self.extract(self.path("a.mtc"), code=3)["complete"], False)

    def test_a_container_without_lines(self):
        """Killed at once: the file beside it counts, if it is of that process."""
        for pid, code in ((42, 0), (43, 3)):  # mtc.head says 42, begun at 1000
            out = mtc.head(features=mtc.HAS_DEVICE)
            self.file("a.mtc", out)
            self.file("a.mtc.meta", companion([], {"pid": pid}, {"records_written": 0, "records_counted": 0}))
            self.assertIs(self.extract(self.path("a.mtc"), code=code)["complete"], code == 0)


class Folder(Case):
    """A folder, and the files in it one by one: the same is said of them."""

    def stream(self, number, pid=1, start=5, more=(), **head):
        """One launch of a program with two streams; each has one record."""
        lines = [{"ev": "stream", "stream": i, "trace": f"MemTrace-pipe-{i}"} for i in range(2)] + list(more)
        lines.append(dict(LAUNCH, seq=5 + number, stream=number, records=1))
        header, end = {"pid": pid, "start_ns": start, "stream": number, **head}, {"records_written": 1, "records_counted": 1}
        self.file(f"MemTrace-pipe-{number}.meta", companion(lines, header, end))
        return self.file(f"MemTrace-pipe-{number}", trace([("k", [record(0, LOAD, 4, 0x10, (0, 0, 0))])]))

    def test_newest(self):
        """The run that began last, whichever file was written last: one was copied there, or the machine has started anew between."""
        for starts, walls, pid, newest in (((9, 5), None, 3919, 0), ((5, 9), None, 3910, 1), ((9, 5), (100, 200), 3910, 1), ((9, 5), (200, 100), 3919, 0)):
            heads = [{"wall_ms": wall} for wall in walls] if walls else [{}, {}]
            paths = [self.stream(0, 3919, starts[0], **heads[0]), self.stream(1, 3910, starts[1], **heads[1])]
            for first in (0, 1):
                for k, path in enumerate(paths):
                    os.utime(path, (1000 + (k == first), 1000 + (k == first)))
                self.assertIn(f"those of process {pid}, the newest, are taken (1 file of others".encode(), self.tool("mt-extract", self.dir, code=3).stderr)
                self.assertIn(f"the newer one's are {paths[newest]} and those".encode(), self.tool("mt-extract", paths[first], paths[1 - first], code=2).stderr)

    def test_companion_gone(self):
        one, two = self.stream(0), self.stream(1)
        self.assertEqual(self.extract(self.dir)["records"], 2)
        self.assertIn(b"which is not among the inputs; name it, too, or the folder", self.tool("mt-extract", one, code=3).stderr)
        os.remove(two + ".meta")
        for inputs in ([self.dir], [one], [one, two]):
            err = self.tool("mt-extract", *inputs, code=3).stderr.decode()
            self.assertIn("the launches of 1 other stream are in MemTrace-pipe-1, whose companion MemTrace-pipe-1.meta is missing", err)
            self.assertNotIn("name it, too", err)

    def test_shared_companion_gone(self):
        """The one that has the events of the process."""
        one, two = self.stream(0), self.stream(1, more=[{"ev": "shared", "file": "MemTrace-pipe-0.meta"}])
        self.assertIn(b"the events of its process are in MemTrace-pipe-0.meta, whose trace is not among", self.tool("mt-extract", two, code=3).stderr)
        os.remove(one + ".meta")
        self.assertIn(b"the events of its process are in MemTrace-pipe-0.meta, which is not there", self.tool("mt-extract", self.dir, code=3).stderr)

    def test_lines_inside(self):
        """A compact trace alone is whole; what was made of a trace that is there does not count again."""
        self.stream(0), self.stream(1)
        for to in ("a.mtc", "z.mtc"):
            self.tool("mt-convert", "-o", self.path(to), self.path("MemTrace-pipe-0"))
        done = self.tool("mt-extract", self.dir)
        self.assertEqual((json.loads(done.stdout)["records"], done.stderr.count(b"MemTrace-pipe-0 has the same stream of the same run")), (2, 2))
        os.remove(self.path("MemTrace-pipe-0.meta"))
        os.remove(self.path("z.mtc"))
        got = self.extract(self.dir)
        self.assertEqual((got["records"], got["launches"], got["complete"], len(got["inputs"])), (2, 2, True, 2))
        for name in ("MemTrace-pipe-1", "MemTrace-pipe-1.meta"):
            os.remove(self.path(name))
        self.assertEqual(self.extract(self.dir, code=3)["records"], 1)
        os.remove(self.path("a.mtc"))
        self.assertIn(b"has no trace with a companion", self.tool("mt-extract", self.dir, code=2).stderr)


class Whole(Case):
    """Nothing is called whole that nobody knows to be."""

    def test_without_companion(self):
        launches = [("k", [record(0, STORE, 4, 0x10, (0, 0, 0))])] * 3
        self.file("cut", trace(launches)[:-len(trace(launches[:1])) + 1])
        for args in ([], ["--threads", "3"], ["-s", "quick", "--no-host"]):
            o = self.extract(*args, self.path("cut"))
            self.assertEqual((o["complete"], o["launches"] if "launches" in o else 2), (None, 2))
            self.assertIn("cut: is read without companion: nothing says whether it is whole", " ".join(o["notes"]))
        self.tool("mt-convert", "-o", self.path("cut.mtc"), self.path("cut"))
        self.tool("mt-convert", "--to", "mtc", "-o", self.path("twice.mtc"), self.path("cut.mtc"))
        for path in ("cut", "cut.mtc", "twice.mtc"):
            self.not_known(self.path(path))

    def not_known(self, path):
        """The same answer everywhere, and no exit code."""
        with open(self.path("comm.json"), "wb") as f:
            f.write(self.tool("mt-extract", path).stdout)
        with open(self.path("comm.json"), "rb") as f:
            self.assertIsNone(json.load(f)["complete"])
        self.assertIn(b"; it is not known whether that is all\n", self.tool("mt-extract", "--format=text", path).stdout)
        self.assertIsNone(json.loads(self.tool("mt-graph", "-f", "json", path).stdout)["complete"])
        shutil.copy(path, self.path("again"))
        compared = json.loads(self.tool("mt-compare", "-f", "json", path, self.path("again")).stdout)
        self.assertEqual([i["complete"] for i in compared["inputs"]], [None, None])
        for inputs in ([path], ["--from", self.path("comm.json")]):
            self.tool("mt-report", "-o", self.path("page.html"), *inputs)
            with open(self.path("page.html"), encoding="utf-8") as f:
                self.assertIn('"complete": null', f.read())

    def test_convert_of_damage(self):
        """A copy without what was damaged is not whole, and says why."""
        store = record(0, STORE, 4, 0x10, (0, 0, 0))
        out = self.convert(self.pair([store], []), 0)
        with open(out, "rb") as f:
            data = bytearray(f.read())
        for chunk in list(mtc.chunks(bytes(data)))[:-1]:
            bad = bytearray(data)
            bad[chunk.offset + 64] ^= 1
            self.file("bad.mtc", bytes(bad))
            for to in ("mtc", "raw"):
                self.tool("mt-convert", "--to", to, "-o", self.path("copy"), self.path("bad.mtc"), code=3)
                o = self.extract(self.path("copy"), code=3)
                self.assertEqual((o["complete"], "could not read all of " + self.path("bad.mtc") in " ".join(o["notes"])), (False, True), (chunk, to, o["notes"]))

    def convert(self, path, code, *words):
        err = self.tool("mt-convert", "-o", self.path("out.mtc"), path, code=code).stderr.decode()
        self.assertEqual(err.count("\n"), 1 if words else 0, err)
        for w in words:
            self.assertIn(w, err)
        return self.path("out.mtc")

    def test_convert_of_a_part(self):
        one, end = [record(0, LOAD, 4, 0x10, (0, 0, 0))], None
        self.convert(self.pair(one, [], end), 0)
        streams = [{"ev": "stream", "stream": i, "trace": f"MemTrace-pipe-{i}"} for i in range(3)]
        self.convert(self.pair(one, streams[:1]), 0)
        out = self.convert(self.pair(one, streams), 0, "is a part of the run: the launches of 2 other streams are in MemTrace-pipe-1")
        self.assertEqual(self.extract(out, code=3)["records"], 1, "the copy says so itself")
        refused = {"ev": "stream", "stream": 9, "trace": "x", "why": "no room"}
        self.convert(self.pair(one, [refused]), 3, "stream 9 of the process has no trace: no room")

    def test_convert_of_a_container_with_a_companion_beside_it(self):
        out = self.convert(self.pair([record(0, LOAD, 4, 0x10, (0, 0, 0))], []), 0)
        os.rename(out, self.path("a.mtc"))
        shutil.copy(self.path("t.meta"), self.path("a.mtc.meta"))
        self.convert(self.path("a.mtc"), 0)
        self.file("a.mtc.meta", companion([{"ev": "lost", "count": 7, "why": "a full disk"}], None, {"complete": False}))
        self.convert(self.path("a.mtc"), 3, "a.mtc.meta: says otherwise", "a full disk")
        self.tool("mt-convert", "--to", "raw", "-o", self.path("raw"), self.path("a.mtc"), code=3)

    def test_what_the_container_could_not_take(self):
        """A limit ended it: the file beside it knows why."""
        meta = companion([], None, None).encode()
        self.file("a.mtc", mtc.head(features=mtc.HAS_DEVICE) + mtc.chunk(mtc.META, meta, 1))
        self.file("a.mtc.meta", companion([{"ev": "lost", "count": 0, "why": "the limit is reached"}], None,
                                          {"records_written": 0, "records_counted": 0, "complete": False}))
        notes = " ".join(self.extract(self.path("a.mtc"), code=3)["notes"])
        self.assertIn("a.mtc: its last lines are missing, ", notes)
        self.assertIn("says that the trace is incomplete: the limit is reached", notes)
        self.assertNotIn("killed", notes)
        self.assertIn(b"the limit is reached", self.tool("mt-convert", "--to", "raw", "-o", self.path("r"), self.path("a.mtc"), code=3).stderr)

    def test_a_full_device_is_not_the_traces_fault(self):
        records, n = [record(0, LOAD, 4, 16 * i, (0, 0, 0)) for i in range(3000)], 40
        path = self.file("t", trace([("k", records)] * n))
        self.file("t.meta", companion([dict(LAUNCH, seq=i, records=3000) for i in range(n)], None, {"records_written": 3000 * n, "records_counted": 3000 * n}))
        with open("/dev/full", "wb") as full:
            done = subprocess.run([os.path.join(BIN, "mt-dump"), path], stdout=full, stderr=subprocess.PIPE, check=False)
        self.assertEqual((done.returncode, done.stderr), (1, b"mt-dump: standard output: cannot write: No space left on device\n"))

    def test_what_a_full_disk_cuts_is_removed(self):
        path = self.pair([record(0, LOAD, 4, 16 * i, (0, 0, 0)) for i in range(3000)], [])
        limit = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
        for tool, *options in (["mt-extract"], ["mt-extract", "--format=text"], ["mt-report"], ["mt-report", path, "--"], ["mt-graph"],
                               ["mt-convert", "--to=mtc"]):
            for before in (None, b"old " * 1000):
                out = self.path("out")
                if before:
                    self.file("out", before)
                done = subprocess.run([program(tool), *options, path, "-o", out], stderr=subprocess.PIPE, check=False,
                                      preexec_fn=limit, restore_signals=False)
                self.assertEqual((done.returncode, os.path.exists(out)), (1, False), (tool, options, before, done.stderr))
                self.assertIn(b"out: cannot write: File too large", done.stderr)

    def test_another_users_link(self):
        if os.geteuid() != 0:
            self.skipTest("only root makes links of others")
        path = self.pair([record(0, LOAD, 4, 0x10, (0, 0, 0))], [])
        victim = self.file("victim", "precious")
        for tool in ("mt-extract", "mt-report", "mt-convert", "mt-graph"):
            for owner, code in ((12345, 2), (0, 0)):
                os.symlink("victim", self.path("link"))
                os.lchown(self.path("link"), owner, owner)
                err = self.tool(tool, "-o", self.path("link"), path, code=code).stderr
                self.assertEqual(b"a symbolic link of another user" in err, code == 2, err)
                with open(victim, "rb") as f:
                    self.assertEqual(f.read() == b"precious", code == 2)
                self.file("victim", "precious")
                os.remove(self.path("link"))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
