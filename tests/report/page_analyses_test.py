#!/usr/bin/env python3
"""memtrace report's pages in a browser: --from, the further analyses, lanes, the timeline, damaged traces."""
import json
import os
import re
import subprocess

from page_case import BIN, Case, SOURCE, grouped, main, run
from traces import LOAD, STORE, companion, record, trace


class FromJson(Case):
    """A page of a comm.json shows what that of the trace shows, as far as the file goes."""
    @classmethod
    def make(cls):
        golden = os.path.join(SOURCE, "tests/golden/succeed/worked-example.trace")
        cls.write("comm.json", run(BIN + "/mt-extract", golden))
        cls.write("part.json", run(BIN + "/mt-extract", "-s", "KDV", golden))
        run(BIN + "/mt-report", "--from", cls.path("comm.json"), "-o", cls.path("r.html"))
        run(BIN + "/mt-report", "--from", cls.path("part.json"), "-o", cls.path("p.html"))

    def test_figures(self):
        self.page.open(self.path("r.html"))
        for key, value in {"launches": "2", "ctas": "4", "load": "28 B", "store": "16 B", "commLoad": "16 B", "fromHost": "8 B", "unordered": "4 B"}.items():
            self.assertEqual(self.figure(key), value, key)
        self.assertEqual(self.map_sum("ctas"), [24, 6])
        self.assertEqual([r[:7] for r in self.table("Kernels")[1:]], [["fill", "1", "2", "8", "8", "0", "8"], ["sum", "1", "2", "20", "8", "16", "4"]])
        self.assertIn("Made from a comm.json", self.page.text("#limits"))
        self.assertIn("no strides", self.page.text("#strides"))

    def test_parts(self):
        self.page.open(self.path("p.html"))
        self.assertEqual(self.figure("load"), "28 B")
        self.assertEqual(self.page.run("document.querySelectorAll('[data-figure=commLoad]').length"), 0, "not known is not 0")
        self.assertIn("no section “transfers”", self.page.text("#transfers"))


class Analyses(Case):
    """Reuse of a trace whose distances are counted by hand; coalescing and lines of a comm.json written by hand."""
    @classmethod
    def make(cls):
        at = lambda line: record(0, LOAD, 4, 0x10000 + 128 * line, (0, 0, 0))
        cls.write("t", trace([("k", [at(line) for line in (0, 1, 0, 1, 2, 0)])])) # distances: new new 1 1 new 2
        cls.write("same", trace([("k", [at(0)] * 100)]))
        run(BIN + "/mt-report", cls.path("same"), "-o", cls.path("s.html"))
        run(BIN + "/mt-report", cls.path("t"), "-o", cls.path("r.html"))
        volume = lambda load, store: {"Load": load, "Store": store, "loads": load // 4, "stores": store // 4, "atomics": 0, "unknown": 0}
        request = lambda n, sectors, distinct, strides: {"requests": n, "accesses": 32 * n, "bytes": 128 * n, "distinct": distinct, "sectors": sectors, "lines": n,
                                                         "efficiency": 1.0, "single": 0, "irregular": 0, "strides": strides}
        cls.write("comm.json", json.dumps({
            "format": "memtrace-comm", "version": 1, "inputs": ["x"], "complete": True, "notes": [], "KDV": {"k": {"0": {"Load": 384, "Store": 128}}},
            "lines": {"lines": {"/src/<a>.cu:7": {"k": volume(256, 0)}, "/src/<a>.cu:9": {"k": volume(128, 128)}, "?": {"k": volume(0, 0)}},
                      "variables": {"in": {"k": volume(384, 0)}}, "allocations": None},
            "coalescing": {"unmasked": 0, "kernels": {"k": {"/src/<a>.cu:7": {"load": request(2, 64, 256, {"128": 2})}, "/src/<a>.cu:9": {"store": request(1, 4, 128, {"4": 1})}}}},
            "conflicts": {"k": {"0": [{"a": {"type": "store", "line": "/src/<a>.cu:9"}, "b": {"type": "load", "line": None}, "bytes": 12, "address": "0x10", "allocation": None,
                                       "ctas": [[0, 0, 0], [3, 0, 0]]}]}}}))
        run(BIN + "/mt-report", "--from", cls.path("comm.json"), "-o", cls.path("j.html"))

    def test_reuse(self):
        self.page.open(self.path("r.html"))
        for level in ("CTA", "SM", "device"):
            curve = self.page.run(f"memtraceReport.missCurve(memtraceReport.chosenLaunches(memtraceReport.data.reuse.kernels), '{level}')")
            # In a cache of one line all six miss; with two lines both distances of 1 hit; with four all but the three first uses.
            self.assertEqual([(p[0], p[2]) for p in curve["points"]], [(1, 6), (2, 4), (4, 3)])
        self.assertEqual(self.page.run("document.querySelectorAll('.curve circle').length"), 9)
        self.assertIn("one CTA touches at most 3 lines (384 B)", self.page.text("#plots"))
        self.assertIn("a raw trace does not", self.page.text("#plots"))

    def test_scale_of_reuse(self):
        """One use of 100 misses: the picture goes up to 1 %, not to 100 %."""
        ticks = "[...document.querySelectorAll('.curve text')].map((t) => t.textContent).filter((t) => t.endsWith('%')).map(parseFloat)"
        self.page.open(self.path("s.html"))
        self.assertEqual(max(self.page.run(ticks)), 1)
        self.page.open(self.path("r.html"))
        self.assertEqual(max(self.page.run(ticks)), 100)

    def test_glance(self):
        self.page.open(self.path("j.html"))
        glance = self.glance()
        self.assertEqual(glance["coalescing"], "Warps use 17.6 % of the 2.13 KiB that they fetch or store. Worst: the load at <a>.cu:7, 32.0 sectors per request, 12.5 % used. see")
        self.assertEqual(glance["conflicts"], "1 possible race between CTAs of one launch, unless the program orders them; the largest in k: <a>.cu:9 store against load on 12 B. see")
        self.assertEqual(glance["line"], "Line <a>.cu:7 moves most of 2 lines: 256 B, 50.0 % of all bytes. see")
        self.assertNotIn("comm", glance, "what the comm.json does not tell is not said")

    def test_from_bar_to_line(self):
        self.page.open(self.path("j.html"))
        self.page.click("#hot tr:nth-child(2) button")
        self.assertEqual(self.page.run("[...document.querySelectorAll('#lines .chosen')].map((r) => r.dataset.line)"), ["9"])

    def test_coalescing(self):
        self.page.open(self.path("j.html"))
        # 68 sectors of 32 bytes are 2,176 bytes, of which 384 are used.
        self.assertEqual(self.page.text("#coalescing-sum"), "3 requests, 68 sectors (2.13 KiB), 17.6\u00a0% of it used")
        rows = self.page.run("[...document.querySelectorAll('[aria-label=\"Sectors moved by line\"] tr')].map((r) => [r.children[0].innerText, r.children[2].innerText])")
        self.assertEqual(rows, [["<a>.cu:7 load", "32.0 sectors per request, 12.5\u00a0% used"], ["<a>.cu:9 store", "4.0 sectors per request, 100\u00a0% used"]])

    def test_narrow(self):
        """In a narrow page the words beside the source make room for the source; the bytes stay."""
        with open(self.path("j.html"), encoding="utf-8") as f:
            before, text, after = re.split(r'(?<=<script id="data" type="application/json">)(.*?)(?=</script>)', f.read(), maxsplit=1, flags=re.S)
        data = json.loads(text)
        data["sites"]["rows"] = [[i, "/src/<a>.cu", line, 1, op, 4, "k", name] for i, (line, op, name) in enumerate(((7, "load", "in"), (9, "load", "in"), (9, "store", "out")))]
        self.write("n.html", before + json.dumps(data).replace("<", "\\u003c") + after)
        seen = "[...document.querySelectorAll('#lines .code tr[data-line]')].map((r) => [r.querySelector('.ops').innerText.trim(), r.querySelector('.words').innerText.trim(), r.querySelector('.words').title])"
        self.page.open(self.path("n.html"))
        wide = self.page.run(seen)
        self.assertEqual([n[:2] for n in wide], [["256 B", "load 4 B in"], ["256 B", "load 4 B in, store 4 B out"]])
        self.assertEqual(wide[1][2].split("\n"), ["load 4 B in", "store 4 B out"])
        try:
            self.page.size(700, 900)
            self.page.settle()
            self.assertEqual([n[0] for n in self.page.run(seen)], ["256 B", "256 B"])
            self.assertEqual(self.page.run("[...document.querySelectorAll('#lines .code .words')].filter((e) => e.offsetParent).length"), 0)
        finally:
            self.page.size(1300, 900)

    def test_lines(self):
        self.page.open(self.path("j.html"))
        rows = self.page.run("[...document.querySelectorAll('#hot tr')].map((r) => [r.children[0].innerText, r.children[2].innerText])")
        self.assertEqual(rows[:2], [["<a>.cu:7", "256 B"], ["<a>.cu:9", "256 B"]])
        self.assertEqual(self.page.run("[...document.querySelectorAll('#lines .code tr[data-line]')].map((r) => [r.dataset.line, r.dataset.bytes])"), [["7", "256"], ["9", "256"]])
        self.assertIn("source not found", self.page.text("#lines .code"))

    def test_conflicts(self):
        self.page.open(self.path("j.html"))
        row = self.page.run("[...document.querySelectorAll('#plots .scroll tbody td')].map((c) => c.innerText)")
        self.assertEqual(row, ["k", "0", "<a>.cu:9 store", "load", "12", "0x10", "–", "0,0,0 and 3,0,0"])


class Lanes(Case):
    """The golden trace with lanes, which was written by hand: its coalescing is comm.json's, its graph of lanes memtrace graph's."""
    @classmethod
    def make(cls):
        trace_path = os.path.join(SOURCE, "tests/golden/container/succeed/device.mtc")
        code = cls.code = subprocess.run([BIN + "/mt-extract", "-s", "KDV", trace_path], capture_output=True).returncode
        cls.comm = json.loads(run(BIN + "/mt-extract", "-s", "more", trace_path, code=code))
        cls.graph = json.loads(run(BIN + "/mt-graph", "--lanes", "-f", "json", trace_path, code=code))
        run(BIN + "/mt-report", trace_path, "-o", cls.path("r.html"), code=code)

    def test_coalescing(self):
        self.page.open(self.path("r.html"))
        cells = [c for lines in self.comm["coalescing"]["kernels"].values() for types in lines.values() for c in types.values()]
        total = lambda key: sum(c[key] for c in cells)
        self.assertGreater(total("requests"), 0)
        words = self.page.text("#coalescing-sum")
        self.assertTrue(words.startswith(f"{grouped(total('requests'))} request"), words)
        self.assertIn(f"{grouped(total('sectors'))} sector", words)

    def test_lane_graph(self):
        self.page.open(self.path("r.html"))
        shown = "[...document.querySelectorAll('#graph .node')].map((n) => n.getAttribute('aria-label'))"
        threads = self.page.run(shown)
        share = lambda: self.page.text("#strides output").replace("\u00a0", " ").rpartition(", ")[2]
        records = int(run(BIN + "/mt-dump", "--format=csv", os.path.join(SOURCE, "tests/golden/container/succeed/device.mtc"), code=self.code).count("\n")) - 1
        of_threads = sum(int(re.search(r"([\d,]+) times?", t)[1].replace(",", "")) for t in threads)
        self.assertLess(of_threads, records)
        self.assertEqual(share(), f"{100 * of_threads / records:.1f} % of all accesses")
        self.page.click("#strides [data-value=lane_graph]")
        lanes = self.page.run(shown)
        self.assertNotEqual(lanes, threads)
        words = {"read": "load", "write": "store", "atomic": "atomic", "unknown": "unknown"}
        sign = lambda n: f"+{grouped(n)}" if n > 0 else f"\u2212{grouped(-n)}" if n else "0"
        expected = sorted(f"{sign(n['stride'])} B, {words[n['type']]}, {grouped(n['count'])} time" for n in self.graph["nodes"])
        got = sorted(f"{l.split(', ')[0]}, {l.split(', ')[1]}, " + next(p for p in l.split(", ") if " time" in p).removesuffix("s") for l in lanes)
        self.assertEqual(got, expected)
        self.assertEqual(share(), f"{100 * sum(n['count'] for n in self.graph['nodes']) / records:.1f} % of all accesses")


class Collectives(Case):
    """Two ranks of an all-reduce of 256 floats, by lines of a companion made by hand: what the page says of the ways that bytes go."""
    @classmethod
    def make(cls):
        events = [e for rank in (0, 1) for e in (
            {"ev": "communicator", "seq": rank, "comm": "0x7", "rank": rank, "ranks": 2, "device": rank},
            {"ev": "launch", "seq": 2 + rank, "stream": 0, "device": rank, "kernel": "ncclAllReduce", "library": "nccl", "collective": "allreduce", "comm": "0x7", "rank": rank,
             "ranks": 2, "count": 255, "size": 4, "traced": True, "records": 2})]
        touched = [record(0, LOAD, 1020, 0x1000, (0, 0, 0)), record(0, STORE, 1020, 0x2000, (0, 0, 0))]
        cls.write("t", trace([("ncclAllReduce", touched), ("ncclAllReduce", touched)]))
        cls.write("t.meta", companion(events, None, {"records_written": 4, "records_counted": 4}))
        run(BIN + "/mt-report", "--topology=nvlink", cls.path("t"), "-o", cls.path("direct.html"))
        run(BIN + "/mt-report", "--topology=nvlink", "--collectives=ring", cls.path("t"), "-o", cls.path("ring.html"))

    def test_flows(self):
        # Parts of 128 and 127 floats: a rank takes 2 * 1020 - 1020 bytes in a ring of two.
        for name in "direct", "ring":
            self.page.open(self.path(name + ".html"))
            rows = self.page.run("memtraceReport.data.devices.filter((r) => r.by === 'collective').map((r) => [r.from, r.to, r.bytes, r.superstep])")
            self.assertEqual(rows, [["1", "0", 1020, 0], ["0", "1", 1020, 1]])
            words = self.page.text("#glance").replace("\u00a0", " ")
            self.assertIn("Traffic between devices: 1.99 KiB (1.99 KiB by collectives)", words)
            self.assertIn("collectives", self.page.text("#devices"))


class Machines(Case):
    """An all-reduce of 300 floats by four ranks on two machines, by lines of companions made by hand: in a ring, 1,800 bytes from each to the next."""
    @classmethod
    def make(cls):
        touched = [record(0, LOAD, 1200, 0x1000, (0, 0, 0)), record(0, STORE, 1200, 0x2000, (0, 0, 0))]
        for rank in range(4):
            name = f"MemTrace-rank{rank}-pipe-0"
            cls.write(name, trace([("ncclAllReduce", touched)]))
            cls.write(name + ".meta", companion([
                {"ev": "communicator", "seq": 1, "comm": "0x7", "rank": rank, "ranks": 4},
                {"ev": "launch", "seq": 2, "stream": 0, "kernel": "ncclAllReduce", "library": "nccl", "collective": "allreduce", "comm": "0x7", "rank": rank, "ranks": 4,
                 "count": 300, "size": 4, "begin_ns": 100, "end_ns": 200, "traced": True, "records": 2}],
                {"pid": 10 + rank, "job": "j", "rank": rank, "ranks": 4, "host": "left" if rank < 2 else "right"}, {"records_written": 2, "records_counted": 2}))
        run(BIN + "/mt-report", "--collectives=ring", os.path.dirname(cls.path("r.html")), "-o", cls.path("r.html"))

    def test_map(self):
        self.page.open(self.path("r.html"))
        text = lambda selector: self.page.run(f"[...document.querySelectorAll('{selector}')].map((e) => e.innerText.replace(/\\u00a0/g, ' '))")
        self.assertEqual(text("#flows tbody th"), ["0 left", "1 left", "2 right", "3 right"])
        self.assertEqual(text("#flows tbody td")[1::5], ["1.76 KiB"] * 3)
        self.assertEqual(text("#machine-flows tbody th"), ["left", "right"])
        self.assertEqual([text("#machine-flows tbody td")[i] for i in (1, 2)], ["1.76 KiB"] * 2)
        links = self.page.text("#links").replace("\u00a0", " ")
        for name in "network from left", "network to right", "network from right", "network to left":
            self.assertIn(name, links)
        self.assertIn("Traffic between devices: 7.03 KiB, of it 3.52 KiB between machines (7.03 KiB by collectives), most from 0 to 1;", self.page.text("#glance").replace("\u00a0", " "))


class Timeline(Case):
    """Ranges, copies with times and launches that were not traced."""
    @classmethod
    def make(cls):
        events = [{"ev": "memcpy", "seq": 0, "kind": "h2d", "dst": "0x1000", "src": "0x9", "bytes": 64, "stream": 0, "begin_ns": 900},
                  {"ev": "launch", "seq": 2, "stream": 0, "kernel": "alpha", "begin_ns": 2000, "end_ns": 6000, "traced": True, "records": 1},
                  {"ev": "launch", "seq": 3, "stream": -1, "kernel": "beta", "begin_ns": 3000, "end_ns": 9000, "traced": False, "records": 0},
                  {"ev": "launch", "seq": 5, "stream": 0, "kernel": "gamma", "begin_ns": 9500, "end_ns": 10900, "traced": True, "records": 0, "status": 700},
                  {"ev": "range", "seq": 6, "begin": 1, "name": "outer", "domain": "", "kind": "push", "thread": 77, "begin_ns": 1500, "end_ns": 10900},
                  {"ev": "range", "seq": 4, "begin": 1, "name": "inner", "domain": "app", "kind": "push", "thread": 77, "begin_ns": 1800, "end_ns": 7000, "open": True}]
        cls.write("t", trace([("alpha", [record(0, STORE, 4, 0x1000, (0, 0, 0))]), ("gamma", [])]))
        cls.write("t.meta", companion(events, None, {"records_written": 1, "records_counted": 1}))
        run(BIN + "/mt-report", cls.path("t"), "-o", cls.path("r.html"))

    def test_tooltips(self):
        """Lanes: copies, two of ranges, no stream, a stream, each 34 pixels; times 0 to 10,000 ns from pixel 92 to 8 from the end."""
        self.page.open(self.path("r.html"))
        width, height = self.page.run("(() => { const c = document.querySelector('#timeline canvas'); return [c.clientWidth, c.clientHeight]; })()")
        self.assertEqual(height, 8 + 5 * 34 + 26)
        for lane, time, words in ((0, 0, ["Host copies", "host → device: 64 B"]), (1, 9000, ["outer", "took 9.40 µs", "started at 600 ns", "thread 77"]),
                                  (2, 3000, ["inner", "range of app", "took 5.20 µs", "still open"]), (4, 3000, ["alpha", "launch 0", "took 4.00 µs", "started at 1.10 µs"]),
                                  (3, 5000, ["beta", "not traced"]), (4, 9000, ["gamma", "launch 1", "failed with error 700"])):
            self.page.move("#timeline canvas", (92 + (width - 100) * time / 10000) / width, (8 + 34 * lane + 13) / height)
            tip = self.page.text("#tip").replace("\u00a0", " ")
            for word in words:
                self.assertIn(word, tip)
        self.page.click("#timeline canvas", (92 + (width - 100) * 0.9) / width, (8 + 34 * 4 + 13) / height)
        self.assertEqual(self.page.run("memtraceReport.state.superstep"), 1)
        heads, *rows = self.table("Launches")
        failed = heads.index("failed")
        self.assertEqual([r[failed] for r in rows], ["", "failed with error 700", ""])
        self.assertEqual([r[heads.index("stream")] for r in rows], ["0", "0", "-1"])


class Damaged(Case):
    """What was whole of a damaged trace is shown, and that it is damaged."""
    @classmethod
    def make(cls):
        records = [record(0, STORE, 4, 0x1000, (0, 0, 0)), record(0, LOAD, 4, 0x1000, (1, 0, 0))]
        cls.write("t", trace([("k", records), ("k", records)])[:-30])
        run(BIN + "/mt-report", cls.path("t"), "-o", cls.path("r.html"), code=3)

    def test_words(self):
        self.page.open(self.path("r.html"))
        self.assertEqual(self.page.text("#complete"), "incomplete")
        self.assertIn("byte", self.page.text("#missing"))
        self.assertEqual(self.figure("records"), "3")
        self.assertIn("companion", self.page.text("#limits"))


if __name__ == "__main__":
    main()
