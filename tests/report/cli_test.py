#!/usr/bin/env python3
"""memtrace report's command line and the data in its pages, without a browser. usage: cli_test.py BIN_FOLDER SOURCE_FOLDER"""
import base64
import json
import os
import random
import re
import shutil
import subprocess
import sys
import unittest

sys.dont_write_bytecode = True
BIN, SOURCE = map(os.path.abspath, sys.argv[1:3])
sys.path.insert(0, os.path.join(SOURCE, "tests/postprocess"))
from tool_case import ToolCase
from traces import ATOMIC, LOAD, STORE, companion, record, trace

GOLDEN = os.path.join(SOURCE, "tests/golden/succeed")


def numbers(text):
    """LEB128 in base64, as docs/man/memtrace-report.md has it."""
    out, value, shift = [], 0, 0
    for byte in base64.b64decode(text):
        value |= (byte & 127) << shift
        shift += 7
        if not byte & 128:
            out.append(value)
            value = shift = 0
    return out


def rows(list_):
    """A list of the page's data: {column: value} for each row."""
    return [dict(zip(list_["columns"], r)) for r in list_["rows"]]


def packed(list_):
    """The rows of a pack, each as a tuple of its columns."""
    at, out, width, keys = iter(numbers(list_["data"])), [], len(list_["columns"]), list_["keys"]
    for first in at:
        group, step = [first, *(next(at) for _ in range(keys - 1))], 0
        for _ in range(next(at)):
            step += next(at)
            out.append((*group, step, *(next(at) for _ in range(width - keys - 1))))
    assert len(out) == list_["count"]
    return out


def data_of(html):
    (text,) = re.findall(r'<script id="data" type="application/json">(.*?)</script>', html, re.S)
    return json.loads(text)


class Case(ToolCase):
    def run_(self, tool, *args, code=0):
        done = subprocess.run([os.path.join(BIN, tool), *args], capture_output=True, text=True, timeout=120)
        self.assertEqual(done.returncode, code, done.stderr)
        return done

    def data(self, *args, code=0):
        return data_of(self.run_("mt-report", *args, code=code).stdout)


class CommandLine(Case):
    def test_help_and_usage(self):
        self.assertIn("Usage: memtrace report", self.run_("mt-report", "--help").stdout)
        self.assertIn("mt-report (memtrace)", self.run_("mt-report", "--version").stdout)
        for args in ([], ["--nonsense"], ["--from", "x.json", "trace"], ["--from", "x.json", "-k", "k"], ["--from", "x.json", "-t", "1"],
                     ["--from", "x.json", "--strict"], ["--from", "x.json", "--no-host"], ["--from", "x.json", "--quick"], ["--from", "x.json", "--sample=2"], ["--same-cta=far", "x"], [self.dir + "/none"],
                     ["--from", self.dir + "/none.json"], ["-k", "("], ["-o", "/nowhere/r.html", GOLDEN + "/stride.trace"]):
            done = self.run_("mt-report", *args, code=2)
            self.assertEqual(done.stdout, "")
            self.assertIn("mt-report: ", done.stderr)

    def test_output(self):
        out = os.path.join(self.dir, "r.html")
        done = self.run_("mt-report", GOLDEN + "/worked-example.trace", "-o", out)
        self.assertEqual(done.stderr, "", "what a raw trace cannot tell stands in the page")
        with open(out, encoding="utf-8") as f:
            first = f.read()
        self.assertTrue(first.startswith("<!DOCTYPE html>"))
        self.assertTrue(first.rstrip().endswith("</html>"))
        self.assertNotIn("<!--@", first, "all parts are in their places")
        self.assertEqual(first, self.run_("mt-report", GOLDEN + "/worked-example.trace").stdout, "no time of day, no chance")
        self.run_("mt-report", "/nowhere", "-o", out, code=2)
        with open(out, encoding="utf-8") as f:
            self.assertEqual(f.read(), first, "a report that fails leaves the old one")
        copy = shutil.copy(GOLDEN + "/worked-example.trace", self.dir)
        self.run_("mt-report", copy, "-o", copy, code=2)
        folder = self.dir + "/inputs"
        os.mkdir(folder)
        for name in ("MemTrace-pipe-0", "MemTrace-pipe-0.meta"):
            shutil.copy(GOLDEN + "/worked-example.trace" + os.path.splitext(name)[1], os.path.join(folder, name))
        trace = folder + "/MemTrace-pipe-0"
        for tool, *words in (("mt-graph", "--svg", trace), ("mt-graph", "--svg", trace + ".meta"), ("mt-report", "-o", trace + ".meta"),
                             ("mt-extract", "-o", trace + ".meta"), ("mt-compare", "-o", trace, folder)):
            for what in trace, folder:
                done = self.run_(tool, *words, what, code=2)
                self.assertIn("is one of the inputs", done.stderr, (tool, words))
        comm = self.file("o.json", self.run_("mt-extract", trace).stdout)
        self.assertIn("is one of the inputs", self.run_("mt-report", "--from", comm, "-o", comm, code=2).stderr)

    @unittest.skipUnless(shutil.which("node"), "there is no node here")
    def test_script(self):
        """The page's scripts are programs, also where there is no browser to say so."""
        html = self.run_("mt-report", GOLDEN + "/worked-example.trace").stdout
        scripts = re.findall(r"<script>(.*?)</script>", html, re.S)
        self.assertEqual(len(scripts), 2)
        for i, script in enumerate(scripts):
            path = self.file("s%d.js" % i, script)
            done = subprocess.run(["node", "--check", path], capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, done.stderr)

    def test_terminal(self):
        """A page of half a million characters is not what anybody wants to see there."""
        main, end = os.openpty()
        self.addCleanup(os.close, main)
        done = subprocess.run([os.path.join(BIN, "mt-report"), GOLDEN + "/worked-example.trace"], stdout=end, stderr=subprocess.PIPE, text=True, timeout=60)
        os.close(end)
        self.assertEqual(done.returncode, 2)
        self.assertIn("not written to a terminal: give -o FILE", done.stderr)

    def test_full_disk(self):
        if os.path.exists("/dev/full"):
            done = self.run_("mt-report", GOLDEN + "/worked-example.trace", "-o", "/dev/full", code=1)
            self.assertIn("No space left", done.stderr)

    def test_companions_among_the_inputs(self):
        """MemTrace-pipe-* names both; a companion without its trace is a mistake."""
        for name in ("worked-example.trace", "worked-example.trace.meta"):
            shutil.copy(os.path.join(GOLDEN, name), self.dir)
        path = os.path.join(self.dir, "worked-example.trace")
        self.assertEqual(self.data(path, path + ".meta")["inputs"], [path])
        self.run_("mt-report", path + ".meta", code=2)

    def test_device_beside_a_host_trace(self):
        """Whichever is first on the command line, the device is that of the kernels' companion."""
        host = os.path.join(SOURCE, "tests/golden/container/succeed/mat.mtc")
        self.file("t.meta", companion([{"ev": "launch", "seq": 1, "kernel": "k", "traced": True, "records": 0}], {"pid": 0, "device": "cpu", "device_name": "A Device", "sms": 7},
                                      {"records_written": 0, "records_counted": 0}))
        path = self.file("t", trace([("k", [])]))
        for inputs in ((path, host), (host, path)):
            d = self.data("--quick", *inputs)
            self.assertEqual((d["inputs"], d["device"], d["device_name"], d["device_sms"]), ([*inputs], "cpu", "A Device", 7))

    def test_incomplete(self):
        path = self.file("t", trace([("k", [record(0, STORE, 4, 0x10, (0, 0, 0))])])[:-10])
        d = self.data(path, code=3)
        self.assertFalse(d["complete"])
        self.assertIn("byte", " ".join(d["notes"]))
        comm = self.file("comm.json", self.run_("mt-extract", path, code=3).stdout)
        self.assertFalse(self.data("--from", comm, code=3)["complete"])

    def test_bad_json(self):
        for text, code in (("", 3), ("{", 3), ("[]", 2), ("{}", 2), ('{"format": "memtrace-graph"}', 2),
                           ('{"format": "memtrace-comm", "KDV": {"k": {"x": {"Load": 1, "Store": 1}}}}', 3),
                           ('{"format": "memtrace-comm", "KDV": {"k": {"0": {"Load": "1", "Store": 1}}}}', 3),
                           ('{"format": "memtrace-comm", "CDV": {"k": {"0": {"1,2": {"Load": 1, "Store": 1}}}}}', 3),
                           ('{"format": "memtrace-comm", "transfers": {"k": {"0,0,0": {"0": {"k": {"0,0,99999": {"1": {"Size": 1, "cnt": 1}}}}}}}}', 3)):
            done = self.run_("mt-report", "--from", self.file("c.json", text), code=code)
            self.assertEqual(done.stdout, "", text)
            self.assertIn("c.json", done.stderr, text)

    def test_sources(self):
        """Lines around those that are spoken of, as they are now; none of files that are gone, or with --no-source."""
        text = "".join(f"line {i}\n" for i in range(1, 101))
        source = self.file("a.cu", text)
        events = [{"ev": "site", "id": 0, "file": source, "line": 20, "op": "load", "size": 4},
                  {"ev": "site", "id": 1, "file": self.dir + "/gone.cu", "line": 5, "op": "load", "size": 4},
                  {"ev": "site", "id": 3, "file": source, "line": 31, "op": "load", "size": 4},
                  {"ev": "site", "id": 4, "file": source, "line": 43, "op": "load", "size": 4},
                  {"ev": "site", "id": 2, "file": source, "line": 99, "op": "store", "size": 4},
                  {"ev": "launch", "seq": 1, "kernel": "k", "traced": True, "records": 0}]
        self.file("t.meta", companion(events, None, {"records_written": 0, "records_counted": 0}))
        path = self.file("t", trace([("k", [])]))
        sources = self.data("--source-root", self.dir, path)["sources"]
        self.assertEqual(list(sources), [source])
        self.assertEqual(sources[source]["lines"], [[i, f"line {i}"] for i in [*range(16, 36), *range(39, 48), *range(95, 101)]])
        self.assertEqual(self.data("--source-root", self.dir, path, "--no-source")["sources"], {})
        os.unlink(source)
        os.mkfifo(source)
        self.assertEqual(self.data("--source-root", self.dir, path)["sources"], {}, "a FIFO is not waited for")


class Figures(Case):
    """Random traces: what the page holds is what memtrace extract says, number by number."""

    def comm_view(self, comm):
        """comm.json as flat dictionaries."""
        volumes = {}
        for section, field in (("KDV", 0), ("KCV", 2)):
            for kernel, steps in comm[section].items():
                for step, v in steps.items():
                    at = volumes.setdefault((kernel, int(step)), [0, 0, 0, 0])
                    at[field], at[field + 1] = v["Load"], v["Store"]
        parts = {}
        for section, field in (("CDV", 0), ("CCV", 2), ("SDV", 0), ("SCV", 2)):
            for steps in comm[section].values():
                for step, keys in steps.items():
                    for key, v in keys.items():
                        at = parts.setdefault((section[0], int(step), key), [0, 0, 0, 0])
                        at[field], at[field + 1] = v["Load"], v["Store"]
        cells, rows = {}, {}
        for source, ctas in comm["transfers"].items():
            for cta, steps in ctas.items():
                for step, targets in steps.items():
                    for target, to in targets.items():
                        for to_cta, at in to.items():
                            for to_step, leaf in at.items():
                                key = (int(to_step), source, "host" if source == "<host>" else cta, to_cta)
                                cells[key] = [a + b for a, b in zip(cells.get(key, [0, 0]), (leaf["Size"], leaf["cnt"]))]
                                key = (source, int(step), target, int(to_step))
                                more = (leaf["Size"], leaf["cnt"], leaf["Size"] if leaf.get("unordered") else 0)
                                rows[key] = [a + b for a, b in zip(rows.get(key, [0, 0, 0]), more)]
        return volumes, parts, cells, rows

    def page_view(self, d):
        names = d["kernels"]
        volumes = {(names[r["kernel"]], r["superstep"]): [r[k] for k in ("load", "store", "comm_load", "comm_store")]
                   for r in rows(d["launches"]) if r["superstep"] is not None}
        axis = [f"{x},{y},{z}" for z, y, x in packed(d["axis"])]
        parts = {}
        for letter, key in (("C", "ctas"), ("S", "sms")):
            self.assertEqual((d[key]["bin"], d[key]["step_bin"]), (1, 1))
            for step, place, *volume in packed(d[key]):
                parts[letter, step, axis[place] if letter == "C" else str(place)] = volume[:4]
        cells, width = {}, d["cells"]["width"]
        for step, kernel, place, *sums in packed(d["cells"]):
            cells[step, names[kernel], *([["host", *axis][i] for i in divmod(place, width)])] = sums
        transfers = {(names[r["source"]], r["source_step"], names[r["target"]], r["target_step"]): [r["size"], r["count"], r["unordered"]]
                     for r in rows(d["transfers"])}
        return volumes, parts, cells, transfers

    def random_trace(self, rng):
        launches, events = [], []
        for step in range(rng.randrange(1, 6)):
            if rng.random() < 0.3:
                events.append({"ev": "memcpy", "seq": 2 * step, "kind": "h2d", "dst": hex(0x1000 + rng.randrange(64)), "src": "0x9", "bytes": rng.randrange(1, 64)})
            records = [record(rng.randrange(3), rng.choice((LOAD, STORE, ATOMIC)), rng.choice((1, 2, 4, 8)), 0x1000 + rng.randrange(96),
                              (rng.randrange(3), rng.randrange(3) * rng.randrange(2), rng.randrange(2))) for _ in range(rng.randrange(60))]
            name = rng.choice(("a", "b<int>", "c"))
            launches.append((name, records))
            events.append({"ev": "launch", "seq": 2 * step + 1, "stream": 0, "kernel": name, "traced": True, "records": len(records)})
        written = sum(len(r) for _, r in launches)
        self.file("t.meta", companion(events, None, {"records_written": written, "records_counted": written}))
        return self.file("t", trace(launches))

    def test_equal(self):
        options = ([], ["--strict"], ["--same-cta=local"], ["--no-host"], ["-k", "^[ab]"], ["-t", "1.."])
        for seed in range(60):
            rng = random.Random(seed)
            path, chosen = self.random_trace(rng), options[seed % len(options)]
            comm = json.loads(self.run_("mt-extract", "-s", "quick", *chosen, path).stdout)
            page = self.data(*chosen, path)
            expected = self.comm_view(comm)
            self.assertEqual(self.page_view(page), expected, seed)
            self.assertEqual(page["totals"]["records"], comm["records"])
            senders = {(k, int(s)): [v["same_launch"], v["same_cta"]] for k, steps in comm["senders"].items() for s, v in steps.items()}
            self.assertEqual({(page["kernels"][r["kernel"]], r["superstep"]): [r["same_launch"], r["same_cta"]] for r in rows(page["launches"]) if r["superstep"] is not None}, senders, seed)
            shown = sum(r["records"] for r in rows(page["launches"]) if r["superstep"] is not None) # as the companion has it
            self.assertEqual(page["totals"]["reported"], shown, seed)
            again = self.data("--from", self.file("comm.json", json.dumps(comm)))
            self.assertEqual(self.page_view(again), expected, seed)
            # What a comm.json says of records is of the run.
            self.assertEqual(again["totals"], dict(page["totals"], reported=None if chosen[:1] in (["-k"], ["-t"]) else shown))

    def test_threads(self):
        """The same bytes with any number of threads, also with what CTAs of one launch do to each other."""
        for seed in (3, 5, 8):
            path = self.random_trace(random.Random(seed))
            pages = {self.run_("mt-report", "--threads", n, path).stdout for n in ("1", "2", "3", "7")}
            self.assertEqual(len(pages), 1, seed)
        for wrong in ("0", "x", "-1", "1025"):
            self.assertIn("--threads is a number", self.run_("mt-report", "--threads=" + wrong, path, code=2).stderr)

    def test_filter_that_leaves_nothing(self):
        path = self.file("t", trace([("k", [record(0, STORE, 4, 0x10, (0, 0, 0))])]))
        done = self.run_("mt-report", "-k", "other", path)
        self.assertIn("no launch matches --kernels other", done.stderr)
        self.assertEqual(rows(data_of(done.stdout)["launches"]), [])

    def test_compact(self):
        """A compact trace made of the raw one says the same, also with copies after the last launch."""
        for seed in range(200, 220):
            path = self.random_trace(random.Random(seed))
            with open(path + ".meta", encoding="utf-8") as f:
                lines = f.read().splitlines()
            lines.insert(-1, json.dumps({"ev": "memcpy", "seq": 1000, "kind": "d2h", "dst": "0x9", "src": "0x1000", "bytes": 8, "stream": 0}))
            self.file("t.meta", "".join(line + "\n" for line in lines))
            self.run_("mt-convert", "-o", self.dir + "/t.mtc", path)
            raw, compact = self.data(path), self.data(self.dir + "/t.mtc")
            self.assertTrue(raw["complete"] and compact["complete"], (raw["notes"], compact["notes"]))
            self.assertEqual(self.page_view(compact), self.page_view(raw), seed)
            for name in ("totals", "copies", "graph", "reuse", "sharing", "conflicts", "traffic", "placement", "lines"):
                self.assertEqual(compact[name], raw[name], (seed, name))

    def test_further_analyses(self):
        """They are in the page as memtrace extract writes them, but for the placement of each launch and CTA."""
        for seed in range(100, 112):
            path = self.random_trace(random.Random(seed))
            comm = json.loads(self.run_("mt-extract", "-s", "more", "--line-size=32", "--devices=3", path).stdout)
            page = self.data("--line-size=32", "--devices=3", path)
            again = self.data("--from", self.file("comm.json", json.dumps(comm)))
            del comm["placement"]["assignment"], comm["placement"]["kernels"]
            for name in ("lines", "coalescing", "reuse", "sharing", "conflicts", "traffic", "placement"):
                self.assertEqual(page[name], comm[name], (seed, name))
                self.assertEqual(again[name], comm[name], (seed, name))
            self.assertNotIn("reuse", self.data("--quick", path))

    def test_buffers(self):
        """Two buffers that swap roles over four launches, one that lives for two of them; by hand, and as memtrace extract has it."""
        a, b, c = 0x10000, 0x20000, 0x30000
        events = [{"ev": "alloc", "seq": i, "id": i, "base": hex(base), "bytes": n, "kind": "cudaMalloc", "name": name}
                  for i, (base, n, name) in enumerate(((a, 1024, "ping"), (b, 1024, "pong")))]
        launches = []
        for step in range(4):
            read, write = (a, b) if step % 2 == 0 else (b, a)
            records = [record(0, LOAD, 4, read + 4 * i, (0, 0, 0)) for i in range(32)] + [record(0, STORE, 4, write + 512, (0, 0, 0))]
            if step in (1, 2):
                records.append(record(0, ATOMIC, 8, c, (0, 0, 0)))
            launches.append(("k%d" % step, records))
            if step == 1:
                events.append({"ev": "alloc", "seq": 10 * step + 5, "id": 7, "base": hex(c), "bytes": 8, "kind": "cudaMalloc", "name": "once"})
            events.append({"ev": "launch", "seq": 10 * step + 6, "kernel": "k%d" % step, "traced": True, "records": len(records)})
        events.append({"ev": "free", "seq": 30, "id": 7})
        t = self.file("t", trace(launches))
        self.file("t.meta", companion(events, None, {"records_written": 134, "records_counted": 134}))
        page, comm = self.data(t), json.loads(self.run_("mt-extract", "-s", "more", t).stdout)
        for section in ("traffic", "reuse", "coalescing"):
            self.assertEqual(page[section], comm[section])
        rows = page["traffic"]["allocations"]
        read, written = [128, 0, 32, 0, 0, 0], [0, 4, 0, 1, 0, 0]
        self.assertEqual(rows["#0 ping"]["launches"], [[0, *read], [1, *written], [2, *read], [3, *written]])
        self.assertEqual(rows["#1 pong"]["launches"], [[0, *written], [1, *read], [2, *written], [3, *read]])
        self.assertEqual(rows["#7 once"], {"id": 7, "bytes": 8, "piece": 4, "launches": [[1, 8, 8, 0, 0, 1, 0], [2, 8, 8, 0, 0, 1, 0]], "heat": [[1, 0, 8, 8], [2, 0, 8, 8]]})
        # 1,024 bytes are 64 pieces of 16: 32 loads of 4 bytes fill eight pieces, the store is in piece 32.
        self.assertEqual(rows["#0 ping"]["piece"], 16)
        self.assertEqual(rows["#0 ping"]["heat"], [[s, p, 16, 0] for s in (0,) for p in range(8)] + [[1, 32, 0, 4]] + [[2, p, 16, 0] for p in range(8)] + [[3, 32, 0, 4]])
        # Lines of 128 bytes: each of the two has two, the third one; a launch touches two or three of these five.
        self.assertEqual(page["reuse"]["footprint"], 5)
        self.assertEqual(max(v["device"]["largest"] for steps in page["reuse"]["kernels"].values() for v in steps.values()), 3)
        text = self.run_("mt-extract", "--format", "text", "-s", "traffic", t).stdout
        self.assertEqual([line.split() for line in text.splitlines() if "#" in line],
                         [["#0", "ping", "1024", "2", "2", "256", "8", "0", "3"], ["#1", "pong", "1024", "2", "2", "256", "8", "0", "3"], ["#7", "once", "8", "2", "2", "16", "16", "1", "2"]])

    def test_many_launches_stay_small(self):
        """4,000 launches that each touch all of 40 allocations: the grids are made coarser, and sums stay exact."""
        events = [{"ev": "alloc", "seq": i, "id": i, "base": hex(0x100000 * (i + 1)), "bytes": 64, "kind": "cudaMalloc"} for i in range(40)]
        records = [record(0, STORE, 4, 0x100000 * (i + 1) + 16 * k, (0, 0, 0)) for i in range(40) for k in range(4)]
        events += [{"ev": "launch", "seq": 100 + i, "kernel": "k", "traced": True, "records": len(records)} for i in range(4000)]
        t = self.file("t", trace([("k", records)] * 4000))
        self.file("t.meta", companion(events, None, {"records_written": 4000 * len(records), "records_counted": 4000 * len(records)}))
        section = json.loads(self.run_("mt-extract", "-s", "traffic", t).stdout)["traffic"]
        self.assertEqual(section["launch_step"], 1)
        cells = [c for a in section["allocations"].values() for c in a["heat"]]
        self.assertLessEqual(len(cells), 1 << 16)
        self.assertGreater(len(cells), 1 << 14, "no coarser than it must be")
        self.assertEqual(sum(c[3] for c in cells), 4 * 4000 * len(records))
        self.assertEqual(sum(r[2] for a in section["allocations"].values() for r in a["launches"]), 4 * 4000 * len(records))

    def test_very_many_launches(self):
        """Neighbouring launches of a kernel become one row, with their sums: by launch there is as much as a browser takes, and in sum what
        memtrace extract has."""
        n, names, base = 60000, ("a", "b", "c"), 0x10000
        kinds = [[record(0, STORE, 4, base + 256 * k, (0, 0, 0)), record(0, LOAD, 4, base + 4, (0, 0, 0)), record(1, LOAD, 8, base + 256 * k, (1, 0, 0))] for k in range(3)]
        order = [(i * i + i // 7) % 3 for i in range(n)]
        events = [{"ev": "launch", "seq": 10 + i, "kernel": names[k], "traced": True, "records": 3, "stream": 0, "begin_ns": 100 * i, "end_ns": 100 * i + 7,
                   "grid": [2, 1, 1], "block": [1, 1, 1], "file": "/x/a.cu", "line": 5} for i, k in enumerate(order)]
        t = self.file("t", trace([(names[k], kinds[k]) for k in order]))
        self.file("t.meta", companion(events, None, {"records_written": 3 * n, "records_counted": 3 * n}))
        page, comm = self.data(t), json.loads(self.run_("mt-extract", "-s", "more", t).stdout)
        found, count = rows(page["launches"]), {name: order.count(k) for k, name in enumerate(names)}
        self.assertLessEqual(len(found), 1 << 15)
        self.assertGreater(len(found), 1 << 13, "no coarser than it must be")
        self.assertEqual([r["superstep"] for r in found], sorted({r["superstep"] for r in found}))
        for k, name in enumerate(names):
            of = [r for r in found if page["kernels"][r["kernel"]] == name]
            self.assertEqual([sum(r[key] for r in of) for key in ("count", "load", "store", "records", "busy", "ctas")], [count[name] * m for m in (1, 12, 4, 3, 7, 2)])
            self.assertTrue(all(order[r["superstep"]] == k for r in of))
            for section, parts in (("reuse", lambda v: [v["uses"], v["CTA"]["lines"], v["device"]["cold"], v["CTA"]["histogram"].get("0", 0)]),
                                   ("sharing", lambda v: [x[key] for a in v["allocations"].values() for x in a.values() for key in ("lines", "accesses")])):
                whole, short = comm[section]["kernels"][name].values(), page[section]["kernels"][name]
                self.assertEqual([sum(x) for x in zip(*map(parts, short.values()))], [sum(x) for x in zip(*map(parts, whole))], (section, name))
                self.assertEqual({int(step) for step in short}, {r["superstep"] for r in of}, (section, name))
        self.assertNotIn("kernels", page["placement"])

    def test_deep_json(self):
        """A file that nobody's memtrace extract wrote nests as deep as it likes."""
        deep = '{"format": "memtrace-comm", "complete": true, "reuse": ' + "[" * 500 + "]" * 500 + "}"
        self.assertIn("reuse", self.data("--from", self.file("c.json", deep)))

    def test_bins_of_supersteps(self):
        """A small matrix, many supersteps: two of them are put together, CTAs are not. 256 CTAs, each loads what all wrote the
        launch before, 17 times."""
        n, launches, buffers = 256, [], (0x10000, 0x20000)
        loads = [[record(0, LOAD, 4, base + 4 * k, (c, 0, 0)) for c in range(n) for k in range(n)] for base in buffers]
        stores = [[record(0, STORE, 4, base + 4 * c, (c, 0, 0)) for c in range(n)] for base in buffers]
        for step in range(18):
            launches.append(("k", (loads[step % 2] if step else []) + stores[1 - step % 2]))
        d = self.data("--quick", self.file("t", trace(launches)))
        self.assertEqual((d["cells"]["bin"], d["cells"]["step_bin"], d["cells"]["count"]), (1, 2, 9 * n * n))
        at, groups = iter(numbers(d["cells"]["data"])), []
        for step in at:
            kernel, count = next(at), next(at)
            cells = [(next(at), next(at), next(at)) for _ in range(count)]
            groups.append((step, d["kernels"][kernel], count, {c[1:] for c in cells}))
            self.assertEqual(sum(c[0] for c in cells), n * d["cells"]["width"] + n, "the last cell is the last CTA's of the last one")
        self.assertEqual(groups, [(0, "k", n * n, {(4, 1)})] + [(g, "k", n * n, {(8, 2)}) for g in range(1, 9)])
        self.assertEqual(d["transfers"]["rows"], [[d["kernels"].index("k"), s - 1, d["kernels"].index("k"), s, 4 * n * n, n * n, 0] for s in range(1, 18)])

    def test_bins(self):
        """More cells than a page takes: neighbours are put together, the sums stay."""
        n, launches = 1 << 10, []
        everything = [(0x1000 + 4 * c, (c, 0, 0)) for c in range(n)]
        launches.append(("w", [record(0, STORE, 4, a, c) for a, c in everything]))
        launches.append(("r", [record(0, LOAD, 4, a, (k, 0, 0)) for k in range(n) for a, _ in everything]))
        d = self.data("--quick", self.file("t", trace(launches)))
        self.assertEqual((d["cells"]["bin"], d["cells"]["step_bin"], d["cells"]["count"]), (2, 1, (n // 2) ** 2))
        at = iter(numbers(d["cells"]["data"]))
        self.assertEqual([next(at) for _ in range(3)], [1, 1, (n // 2) ** 2])
        values = list(at)
        self.assertEqual(set(values[1::3]), {16}, "bytes of 2 x 2 CTAs")
        self.assertEqual(set(values[2::3]), {4})
        self.assertEqual(values[0], d["cells"]["width"] + 1, "the first one is behind the host's row and column")


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
