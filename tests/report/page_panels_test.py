#!/usr/bin/env python3
"""memtrace report's pages in a browser: buffers by launch, the source view, search, links, files of pictures and tables, keys, narrow screens, and
a program of 500 instances of a template and 2,000 launches."""
import base64
import csv
import io
import json
import os
import re
import xml.etree.ElementTree as ET

from page_case import BIN, Case, EVIL, grouped, main, run
from traces import ATOMIC, LOAD, STORE, companion, record, trace

SVG = "{http://www.w3.org/2000/svg}"


class Panels(Case):
    def csv(self, label):
        return list(csv.reader(io.StringIO(self.page.run(f"memtraceReport.figures[{json.dumps(label)}].csv()"))))

    def svg(self, label):
        return ET.fromstring(self.page.run(f"memtraceReport.figures[{json.dumps(label)}].svg()"))

    def hash(self):
        return self.page.run("new Promise((done) => setTimeout(() => done(decodeURIComponent(location.hash)), 300))") # it follows a little later


class Devices(Panels):
    """Kernels on 0 load 128 bytes of 1's memory, those on 1 load 64 of 0's; launch 2 stores 32 to 1, too; a copy takes 256 from 1 to 0."""
    @classmethod
    def make(cls):
        a, b, launches = 0x10000, 0x20000, []
        events = [{"ev": "alloc", "seq": d, "id": d, "base": hex(base), "bytes": 4096, "kind": "cudaMalloc", "name": EVIL, "device": d} for d, base in enumerate((a, b))]
        events.append({"ev": "memcpy", "seq": 3, "kind": "d2d", "dst": hex(a), "src": hex(b), "bytes": 256, "src_device": 1, "dst_device": 0, "stream": 0})
        for step in range(4):
            records = [record(0, LOAD, 4, (a if step % 2 else b) + 4 * i, (0, 0, 0)) for i in range(16 if step % 2 else 32)]
            records += [record(0, STORE, 4, b + 4 * i, (0, 0, 0)) for i in range(8 if step == 2 else 0)]
            launches.append(("k%d" % (step % 2), records))
            events.append({"ev": "launch", "seq": 10 + step, "kernel": "k%d" % (step % 2), "device": step % 2, "traced": True, "records": len(records)})
        cls.write("t", trace(launches))
        cls.write("t.meta", companion(events, None, {"records_written": 104, "records_counted": 104}))
        run(BIN + "/mt-report", "--topology=pcie", cls.path("t"), "-o", cls.path("r.html"))

    def setUp(self):
        super().setUp()
        self.page.open(self.path("r.html"))

    def titles(self):
        cells = self.page.run("[...document.querySelectorAll('#devices .flows td')].map((t) => t.title.replaceAll('\\u00a0', ' '))")
        return [c for c in cells if "→" in c and not c.endswith("nothing")]

    def test_matrix(self):
        self.assertEqual(self.titles(), ["0 → 1: 128 B by loads, 32 B by stores", "1 → 0: 256 B by loads, 256 B by copies"])
        self.page.click("#devices canvas", 0.99, 0.2)  # the last launch
        self.assertEqual(self.titles(), ["0 → 1: 64 B by loads"])

    def test_by_launch(self):
        rows = self.csv("Devices by launch")[1:]
        self.assertEqual(sorted(rows), [["0 → 1", "1", "load", "64"], ["0 → 1", "2", "store", "32"], ["0 → 1", "3", "load", "64"],
                                        ["1 → 0", "0", "load", "128"], ["1 → 0", "2", "load", "128"]])
        self.page.move("#devices canvas", 0.6, 0.2)
        self.assertIn("32 B by stores", self.page.text("#tip").replace("\u00a0", " "))

    def test_links(self):
        """Below one switch: out of 1 go 256 bytes of loads and the copy, out of 0 the rest."""
        rows = self.page.run("memtraceReport.panels.devices.links().map((l) => [l.name, l.bytes])")
        self.assertEqual(sorted(rows), [["PCIe from 0", 160], ["PCIe from 1", 512], ["PCIe to 0", 512], ["PCIe to 1", 160]])


class PingPong(Panels):
    """ping is read and pong written in launches 0 and 2, the other way round in 1 and 3; a counter lives for launches 1 and 2."""
    @classmethod
    def make(cls):
        a, b, c, events, launches = 0x10000, 0x20000, 0x30000, [], []
        for i, (base, n, name) in enumerate(((a, 1024, "ping"), (b, 1024, "pong"))):
            events.append({"ev": "alloc", "seq": i, "id": i, "base": hex(base), "bytes": n, "kind": "cudaMalloc", "name": name, "file": "/x/a.cu", "line": 3 + i})
        for step in range(4):
            read, write = (a, b) if step % 2 == 0 else (b, a)
            records = [record(0, LOAD, 4, read + 4 * i, (0, 0, 0)) for i in range(32)] + [record(0, STORE, 4, write + 512, (0, 0, 0))]
            if step in (1, 2):
                records.append(record(0, ATOMIC, 8, c, (0, 0, 0)))
            if step == 1:
                events.append({"ev": "alloc", "seq": 15, "id": 7, "base": hex(c), "bytes": 8, "kind": "cudaMalloc", "name": "once"})
            launches.append(("k%d" % step, records))
            events.append({"ev": "launch", "seq": 10 * step + 6, "kernel": "k%d" % step, "traced": True, "records": len(records)})
        events.append({"ev": "free", "seq": 30, "id": 7})
        cls.write("t", trace(launches))
        cls.write("t.meta", companion(events, None, {"records_written": 134, "records_counted": 134}))
        run(BIN + "/mt-report", cls.path("t"), "-o", cls.path("r.html"))

    def setUp(self):
        super().setUp()
        self.page.open(self.path("r.html"))

    def sums(self, key):
        return self.page.run(f"memtraceReport.panels.buffers.map.sums().map((s) => [...s.{key}])")

    def test_by_launch(self):
        self.assertEqual(self.page.run("memtraceReport.panels.buffers.shown().map((b) => [b.label, b.from, b.to])"), [["#0 ping", 0, 4], ["#1 pong", 0, 4], ["#7 once", 1, 3]])
        self.assertEqual(self.sums("load"), [[128, 0, 128, 0], [0, 128, 0, 128], [0, 8, 8, 0]])
        self.assertEqual(self.sums("store"), [[0, 4, 0, 4], [4, 0, 4, 0], [0, 8, 8, 0]])
        self.assertEqual(self.sums("atomics"), [[0] * 4, [0] * 4, [0, 1, 1, 0]])
        self.assertEqual(self.csv("Buffers by launch")[:3], [["buffer", "launch", "kernel", "read (B)", "written (B)", "loads", "stores", "atomics"],
                                                             ["#0 ping", "0", "k0", "128", "0", "32", "0", "0"], ["#0 ping", "1", "k1", "0", "4", "0", "1", "0"]])

    def test_by_address(self):
        """Pieces of 16 bytes: ping's first eight are read in launch 0, its 33rd is written in launch 1."""
        heat = self.page.run("memtraceReport.panels.buffers.heat.sums().map((s) => [s.rows, [...s.grid]])")
        expected = [0] * 256
        for piece in range(8):
            expected[4 * piece] = expected[4 * piece + 2] = 16
        expected[4 * 32 + 1] = expected[4 * 32 + 3] = 4
        self.assertEqual(heat[0], [64, expected])
        self.assertEqual(heat[2], [2, [0, 16, 16, 0, 0, 0, 0, 0]])
        self.page.click("#buffers [data-value=read]")
        self.assertEqual(sum(self.page.run("[...memtraceReport.panels.buffers.heat.sums()[0].grid]")), 256)

    def test_footprint(self):
        """ping and pong have two lines of 128 bytes that are touched, the counter one; launch 1 or 2 touches three of them."""
        self.assertEqual(self.figure("footprint"), "640 B")
        self.assertIn("The whole run touches 5 lines (640 B); its largest launch, 1 (k1), 384 B.", self.page.text("#buffers"))

    def test_keys(self):
        self.page.run("document.querySelector('#buffers canvas').focus()")
        for key in ("ArrowDown", "ArrowDown", "ArrowRight", "ArrowDown"):
            self.page.key(key)
        tip = self.page.text("#tip")
        for word in ("#7 once", "launch 1: k1", "read 8 B, written 8 B", "1 access, 1 of them atomics"):
            self.assertIn(word, tip)
        self.page.key("Enter")
        self.assertEqual(self.page.run("[memtraceReport.state.buffer, memtraceReport.state.superstep]"), ["#7 once", 1])
        self.assertEqual(self.page.run("memtraceReport.panels.buffers.heat.sums().length"), 1, "the chosen one alone")
        self.assertEqual(self.hash(), "#&launch=1&buffer=#7 once")

    def test_links(self):
        """A link shows what was looked at; what the page does not have is ignored."""
        self.page.open(self.path("r.html"), "#buffers&launch=2&buffer=%231%20pong")
        self.assertEqual(self.page.run("[memtraceReport.state.buffer, memtraceReport.state.superstep]"), ["#1 pong", 2])
        self.assertLess(abs(self.page.run("document.getElementById('buffers').getBoundingClientRect().top")), 200)
        self.page.run("new Promise((done) => { addEventListener('hashchange', () => done(), {once: true}); location.hash = '#volumes&launch=3'; })")
        self.assertEqual(self.page.run("memtraceReport.state.superstep"), 3)
        self.page.open(self.path("r.html"), "#volumes&launch=99&from=77&line=/etc/passwd:1&buffer=%3Cimg%3E&nonsense=%zz&toString=1")
        self.assertEqual(self.page.run("['superstep', 'source', 'line', 'buffer'].map((k) => memtraceReport.state[k])"), [None] * 4)
        self.page.open(self.path("r.html"), "#launch=1")

    def test_files(self):
        """Each picture as SVG that an XML parser reads, with its words in it, and as PNG; each has a table of its own."""
        self.page.click("#volumes [data-value=log]")
        labels = self.page.run("Object.keys(memtraceReport.figures).filter((k) => memtraceReport.figures[k].svg)")
        self.assertLessEqual({"Timeline", "Volumes", "Buffers by launch", "Addresses over launches", "Stride graph", "Misses by size of a cache",
                              "Transfers from kernel to kernel", "Transfers from CTA to CTA"}, set(labels))
        for label in labels:
            tree = self.svg(label)
            self.assertEqual(tree.tag, SVG + "svg")
            self.assertGreater(len(list(tree.iter())), 5, label)
            self.assertGreater(len(self.csv(label)), 1, label)
            png = self.page.run(f"memtraceReport.figures[{json.dumps(label)}].png().then((b) => new Promise((done) => {{ const r = new FileReader(); r.onload = () => done(r.result); r.readAsDataURL(b); }}))")
            self.assertEqual(base64.b64decode(png.partition(",")[2])[:8], b"\x89PNG\r\n\x1a\n", label)
        words = [t.text for t in self.svg("Buffers by launch").iter(SVG + "text")]
        self.assertEqual(words, ["#0 ping", "#1 pong", "#7 once", "0", "1", "2", "3"])
        self.page.click("#buffers .tools button")
        self.assertEqual(self.page.run("document.querySelector('#buffers .astable').innerText.includes('#7 once')"), True)

    def test_everything_has_a_name(self):
        """What can have the focus says what it is; sections, tables and tabs are marked as such; nothing but what has a use can have it."""
        nameless = self.page.run("[...document.querySelectorAll('button, a[href], input, select, [tabindex=\"0\"]')].filter((e) => !(e.getAttribute('aria-label') || e.textContent.trim() || e.labels && e.labels.length)).map((e) => e.outerHTML)")
        self.assertEqual(nameless, [])
        self.assertEqual(self.page.run("[...document.querySelectorAll('main > section')].filter((s) => !document.getElementById(s.getAttribute('aria-labelledby')))"), [])
        self.assertEqual(self.page.run("[...document.querySelectorAll('#tables [role=tab]')].filter((t) => t.tabIndex === 0).length"), 1, "one stop, then arrows")
        self.assertEqual(self.page.run("document.querySelectorAll('[tabindex]:not([tabindex=\"0\"]):not([tabindex=\"-1\"])').length"), 0, "the order is that of the page")
        see = self.page.run("[...document.querySelectorAll('#glance a')].map((a) => [a.getAttribute('aria-label'), !!document.getElementById(a.hash.slice(1).split('&')[0])])")
        self.assertTrue(see and all(there and label.startswith("see ") for label, there in see), see)

    def test_copy_of_the_state_in_words(self):
        """One word for one thing: what users read says launch."""
        self.assertNotIn("superstep", self.page.run("document.querySelector('main').innerText").lower())


class Source(Panels):
    """A comm.json written by hand: line 7 has two loads, of different variables, and a store; line 9 a race."""
    @classmethod
    def make(cls):
        volume = lambda load, store: {"Load": load, "Store": store, "loads": load // 4, "stores": store // 4, "atomics": 0, "unknown": 0}
        sums = lambda n, sectors, distinct: {"requests": n, "accesses": 32 * n, "bytes": 128 * n, "distinct": distinct, "sectors": sectors, "lines": n}
        request = lambda *a: dict(sums(*a), efficiency=1.0, single=0, irregular=0, strides={})
        place = lambda line, column, variable, kind, *a: dict({"line": f"/s/a.cu:{line}", "column": column, "variable": variable, "kernel": "k", "type": kind}, **sums(*a))
        lines = {"/s/a.cu:7": {"k": volume(512, 256)}, "/s/a.cu:9": {"k": volume(128, 0)}, "/s/b.cu:2": {"k": volume(384, 0)}}
        cls.write("c.json", json.dumps({
            "format": "memtrace-comm", "version": 1, "inputs": ["x"], "complete": True, "notes": [], "KDV": {"k": {"0": {"Load": 1024, "Store": 256}}},
            "lines": {"lines": lines, "variables": {"x": {"k": volume(256, 0)}, "y": {"k": volume(256, 0)}}, "allocations": None},
            "coalescing": {"unmasked": 0, "kernels": {"k": {"/s/a.cu:7": {"load": request(4, 72, 512), "store": request(2, 8, 256)}, "/s/a.cu:9": {"load": request(1, 32, 128)}}},
                           "sites": [place(7, 5, "out", "store", 2, 8, 256), place(7, 14, "x", "load", 2, 8, 256), place(7, 21, "y", "load", 2, 64, 256), place(9, 3, "x", "load", 1, 32, 128)]},
            "conflicts": {"k": {"0": [{"a": {"type": "store", "line": "/s/a.cu:9"}, "b": {"type": "load", "line": "/s/a.cu:7"}, "bytes": 12, "address": "0x10", "allocation": None,
                                       "ctas": [[0, 0, 0], [3, 0, 0]]}]}}}))
        run(BIN + "/mt-report", "--from", cls.path("c.json"), "-o", cls.path("r.html"))

    def setUp(self):
        super().setUp()
        self.page.open(self.path("r.html"))

    def rows(self):
        return self.page.run("[...document.querySelectorAll('#lines .code tbody tr')].map((r) => [...r.children].slice(1, 6).map((c) => c.innerText.trim().replaceAll('\\u00a0', ' ')))")

    def chosen(self):
        return self.page.run("[document.getElementById('file').value, ...[...document.querySelectorAll('#lines .chosen')].map((r) => r.dataset.line)]")

    def test_columns(self):
        """80 sectors of six requests; 768 of the 2,560 bytes are used. 1,024 of 2,048 bytes of y are in vain."""
        rows = self.rows()
        self.assertEqual(rows[0][:4], ["768 B", "13.3", "30 %" if "30 %" in rows[0] else "30.0 %", "12 B"])
        self.assertEqual([r[:3] + r[4:] for r in rows[1:4]], [["256 B", "4.0", "100 %", "└ column 5, out, store"], ["256 B", "4.0", "100 %", "└ column 14, x, load"],
                                                              ["256 B", "32.0", "12.5 %", "└ column 21, y, load"]])
        self.assertEqual(rows[4][:4], ["128 B", "32.0", "12.5 %", "12 B"])
        self.assertEqual(self.csv("Bytes by line")[1], ["/s/a.cu:7", "512", "256", "768 B"])

    def test_next_hottest(self):
        """By bytes: 7 of a.cu, 2 of b.cu, 9 of a.cu, and again from the beginning; by conflicts only two lines are there."""
        self.page.run("document.querySelector('#lines .code').focus()")
        seen = []
        for key in "nnnnp":
            self.page.key(key)
            seen.append(self.chosen())
        a, b = "/s/a.cu", "/s/b.cu"
        self.assertEqual(seen, [[a, "7"], [b, "2"], [a, "9"], [a, "7"], [a, "9"]])
        self.page.click("#lines [data-value=wasted]")
        self.page.click("#next-hottest")
        self.assertEqual(self.chosen(), [a, "7"], "1,792 bytes in vain against 896")
        self.assertEqual(self.page.run("memtraceReport.panels.lines.order().length"), 2)
        self.assertEqual(self.hash(), "#&line=/s/a.cu:7")

    def test_every_bar_jumps(self):
        a = "/s/a.cu"
        for selector, line in (("[aria-label='Bytes by line'] tr:nth-child(3) button", "9"), ("[aria-label='Sectors moved by line'] tr:nth-child(1) button", "7"),
                               ("[aria-label='By variable'] tr:nth-child(2) button", "7"), ("#conflicts tbody td:nth-child(3) button", "9")):
            self.page.run("memtraceReport.setState({line: null})")
            self.page.click(selector)
            self.assertEqual(self.chosen(), [a, line], selector)
            self.assertTrue(self.page.run("(() => { const b = document.querySelector('#lines .chosen').getBoundingClientRect(); return b.top > 0 && b.bottom < innerHeight; })()"), selector)

    def test_see(self):
        """"see" goes to the block itself."""
        self.page.click("#glance [data-glance=conflicts] a")
        self.assertEqual(self.hash(), "#conflicts")
        self.page.click("#glance [data-glance=line] a")
        self.assertEqual(self.chosen(), ["/s/a.cu", "7"])


class Many(Panels):
    """500 instances of a template, 2,000 launches, copies; the newest instance moves 1,000 times what others do."""
    KERNELS, LAUNCHES = 500, 2000
    NAME = "solver::detail::relax<solver::detail::policy_with_a_long_name<%d, float>, %d, float>"

    @classmethod
    def make(cls):
        events, launches = [{"ev": "alloc", "seq": i, "id": i, "base": hex(0x100000 * (i + 1)), "bytes": 4096, "kind": "cudaMalloc", "name": "buffer_%d" % i} for i in range(30)], []
        events += [{"ev": "memcpy", "seq": 30 + i, "kind": kind, "dst": "0x100000", "src": "0x9", "bytes": 64, "stream": 0, "begin_ns": 5 + i} for i, kind in enumerate(("h2d", "d2h"))]
        for step in range(cls.LAUNCHES):
            k = step % cls.KERNELS
            n = 1000 if k == cls.KERNELS - 1 else 1
            records = [record(0, LOAD, 4, 0x100000 * (step % 30 + 1) + 4 * i, (0, 0, 0)) for i in range(n)] + [record(0, STORE, 4, 0x100000 * ((step + 1) % 30 + 1), (1, 0, 0))]
            launches.append((cls.NAME % (k, k), records))
            events.append({"ev": "launch", "seq": 100 + step, "stream": 0, "kernel": cls.NAME % (k, k), "grid": [2, 1, 1], "block": [1, 1, 1], "begin_ns": 1000 + step * 100, "end_ns": 1090 + step * 100,
                           "traced": True, "records": len(records)})
        written = sum(len(r) for _, r in launches)
        cls.write("t", trace(launches))
        cls.write("t.meta", companion(events, {"device": "cpu"}, {"records_written": written, "records_counted": written}))
        run(BIN + "/mt-report", cls.path("t"), "-o", cls.path("r.html"))

    def setUp(self):
        super().setUp()
        self.page.open(self.path("r.html"))

    def test_bounded(self):
        self.assertLess(os.path.getsize(self.path("r.html")), 5 << 20)
        self.assertLess(self.page.nodes(), 3000)
        for label in self.page.run("Object.keys(memtraceReport.figures)"):
            self.assertLess(len(self.csv(label)), 6000, label)

    def test_names_keep_their_ends(self):
        """Where a name has no room its end, which tells instances apart, is there."""
        words = self.page.run("[...document.querySelectorAll('#timeline .name')].map((e) => e.lastElementChild.lastElementChild.textContent)")
        self.assertEqual([w.endswith(f" {i}, float>") for i, w in enumerate(words)], [True] * 12)
        self.page.click("#timeline .legend button")
        self.assertEqual(self.page.run("document.querySelectorAll('#timeline .name').length"), 112)
        shown = self.page.run("[...document.querySelectorAll('#timeline .name')].every((e) => { const b = e.lastElementChild.lastElementChild.getBoundingClientRect(); return b.right <= innerWidth && b.width > 20; })")
        self.assertTrue(shown)
        texts = [t.text for t in self.svg("Transfers from kernel to kernel").iter(SVG + "text")]
        self.assertGreater(len([t for t in texts if re.search(r"….*\d+, float>$", t)]), 8)

    def test_log_scale(self):
        """4 against 4,000 bytes: on the linear scale nothing to be seen, on the other one a sixth."""
        def lowest():
            heights = [float(r.get("height")) for r in self.svg("Volumes").iter(SVG + "rect") if r.get("width") != "100%" and r.get("fill") == self.page.run("getComputedStyle(document.documentElement).getPropertyValue('--load-pale').trim()")]
            return min(h for h in heights if h) / max(heights)
        self.page.click("#volumes [data-value=kernel]")
        self.assertEqual(self.page.run("memtraceReport.panels.volumes.list().n"), self.KERNELS)
        linear = lowest()
        self.page.click("#volumes [data-value=log]")
        self.assertLess(linear, 0.02)
        self.assertGreater(lowest(), 0.1)

    def test_search(self):
        """Over everything: one of 500 kernels, its four launches, a buffer."""
        find = lambda words: self.page.run(f"(() => {{ const f = memtraceReport.find([...memtraceReport.searchEntries()], {json.dumps(words)}); return [f.all, f.found.map((e) => e.kind + ' ' + e.text)]; }})()")
        number, found = find("relax 317, kernel")
        self.assertEqual([number, found], [1, ["kernel " + self.NAME % (317, 317)]])
        number, found = find("<317,")
        self.assertEqual([number, [f for f in found if f.startswith("launch")]], [5, [f"launch {s} " + self.NAME % (317, 317) for s in (317, 817, 1317, 1817)]])
        self.assertEqual(find("float")[0], self.KERNELS + self.LAUNCHES)
        self.assertLessEqual(len(find("float")[1]), 80)
        self.page.run("document.querySelector('main').focus()")
        self.page.key("/")
        for key in "launch 817":
            self.page.key(key)
        self.page.key("Enter")
        self.assertEqual(self.page.run("memtraceReport.state.superstep"), 817)
        self.assertTrue(self.page.run("document.getElementById('found').hidden"))

    def test_top_and_rest(self):
        self.assertEqual(self.page.run("memtraceReport.panels.buffers.shown().length"), 12)
        self.page.click("#buffers .bar > button.quiet")
        self.assertEqual(self.page.run("memtraceReport.panels.buffers.shown().length"), 30)
        self.page.run("memtraceReport.setState({buffer: '#29 buffer_29'})")
        self.assertEqual(self.page.run("memtraceReport.panels.buffers.heat.sums().length"), 1)
        rows = "document.querySelectorAll('[aria-label=\"By allocation\"] tr').length"
        self.assertEqual(self.page.run(rows), 10)
        self.page.click("#allocations .tools button.quiet")
        self.assertEqual(self.page.run(rows), 30)

    def test_legend_of_copies(self):
        self.assertIn("copies host → device", self.page.text("#timeline .legend"))
        self.assertIn("copies device → host", self.page.text("#timeline .legend"))
        self.assertEqual(self.page.run("[...document.querySelectorAll('#timeline .legend i.up, #timeline .legend i.down')].map((e) => e.className)"), ["down", "up"])

    def test_narrow(self):
        self.page.run("document.getElementById('buffers').scrollIntoView()")
        self.page.settle()
        self.page.run("document.querySelector('#buffers select').append(new Option('long_'.repeat(1000)))")
        try:
            for width in (400, 1280, 1920):
                self.page.size(width, 900)
                self.page.settle()
                self.assertEqual(self.page.run("document.documentElement.scrollWidth"), width)
                out = self.page.run("[...document.querySelectorAll('main button, main canvas, main select, main output, main h3')].filter((e) => e.offsetParent && !e.closest('.scroll, .code, .sideways') && e.getBoundingClientRect().right > innerWidth + 1).map((e) => e.outerHTML.slice(0, 99))")
                self.assertEqual(out, [], width)
            for width in (400, 448, 512):  # "communication" is the longest
                self.page.size(width, 900)
                self.page.settle()
                out = self.page.run("""[...document.querySelectorAll('.tile .k')].filter((e) => {
                    const words = document.createRange();
                    words.selectNodeContents(e);
                    return words.getBoundingClientRect().right > e.getBoundingClientRect().right + 0.5;
                }).map((e) => e.textContent)""")
                self.assertEqual(out, [], width)
        finally:
            self.page.size(1300, 900)


class Crowded(Panels):
    """2,000 launches of nine kernels, each of which loads what the one before stored; in the middle one of a tenth kernel, whose four
    CTAs store into one line; nine copies that lie close together."""
    LAUNCHES, LARGE, RACER = 2000, 700, 1000
    NAMES = ["residual", "exchange_halo", "boundary", "sweep_red", "sweep_black", "restrict", "prolongate", "partial_sums", "write_back"]

    @classmethod
    def make(cls):
        big, flags, launches = 0x100000, 0x200000, []
        events = [{"ev": "alloc", "seq": i, "id": i, "base": hex(base), "bytes": n, "kind": "cudaMalloc", "name": name} for i, (base, n, name) in enumerate(((big, 4096, "big"), (flags, 128, "flags")))]
        for step in range(cls.LAUNCHES):
            if step == cls.RACER:
                records = [record(0, STORE, 4, flags + 4 * c, (c, 0, 0)) for c in range(4)]
            else:
                records = [record(0, LOAD, 4, big + 4 * i, (0, 0, 0)) for i in range(1000 if step == cls.LARGE else 1)] + [record(0, STORE, 4, big, (0, 0, 0))]
            name = "racer" if step == cls.RACER else cls.NAMES[step % 9]
            launches.append((name, records))
            events.append({"ev": "launch", "seq": 100 + 10 * step, "stream": 0, "kernel": name, "grid": [4, 1, 1], "block": [1, 1, 1], "begin_ns": 1000 + step * 100, "end_ns": 1090 + step * 100, "traced": True, "records": len(records)})
        places = [(10, "h2d"), (10, "d2h"), (10, "d2h"), (10, "d2h"), *((k, "d2h") for k in range(11, 16))]
        events += [{"ev": "memcpy", "seq": 91 + 10 * k + i, "kind": kind, "dst": hex(big), "src": hex(big + 4), "bytes": 4, "stream": 0, "begin_ns": 991 + 100 * k + i} for i, (k, kind) in enumerate(places)]
        cls.records = sum(len(r) for _, r in launches)
        cls.write("t", trace(launches))
        cls.write("t.meta", companion(sorted(events, key=lambda e: e["seq"]), {"device": "cpu"}, {"records_written": cls.records, "records_counted": cls.records}))
        run(BIN + "/mt-report", cls.path("t"), "-o", cls.path("r.html"))
        run(BIN + "/mt-report", "-t", "999..1001", cls.path("t"), "-o", cls.path("part.html"))

    def setUp(self):
        super().setUp()
        self.page.open(self.path("r.html"))

    def test_volumes_of_many(self):
        """A bar of several launches is the largest of them, not their sum: 1,000 loads of 4 bytes, and else one load."""
        bins = self.page.run("(() => { const b = memtraceReport.panels.volumes.bins(); return [b.n, [...b.load], [...b.store]]; })()")
        self.assertLess(bins[0], self.LAUNCHES)
        self.assertEqual((sorted(set(bins[1])), set(bins[2])), ([4, 4000], {4, 16}))
        self.assertIn("Each bar is the largest value of each kind", self.page.text("#volumes-note"))
        self.assertIn("neighbouring launches", self.page.text("#buffers-note"))

    def test_all_copies(self):
        """In time and in order, whatever lies beside them."""
        for value in ("true", "false"):
            self.page.click(f"#timeline [data-value={value}]")
            marks = self.page.run("memtraceReport.panels.timeline.copies()")
            self.assertEqual({k: sum(m.get(k, 0) for m in marks) for k in ("h2d", "d2h")}, {"h2d": 1, "d2h": 8}, marks)
            self.assertTrue(all(len(m) == 1 for m in marks), marks)
        self.assertIn("8", [t.text for t in self.svg("Timeline").iter(SVG + "text")])

    def test_false_sharing_of_a_small_kernel(self):
        """racer's four stores are 0.1 % of the run's accesses, and all of its own."""
        self.assertEqual(self.glance()["sharing"], "False sharing of 128-byte lines between CTAs: 100 % of the accesses of racer, most in #1 flags. see")
        rows = self.page.run("memtraceReport.figures['Accesses by sharing'].rows().map((r) => [r.name, r.text])")
        self.assertEqual([r[0] for r in rows], ["#1 flags", "#0 big"])
        self.assertEqual(rows[0][1].replace("\u00a0", " "), "4, 100 % false sharing")

    def test_selection(self):
        """Three launches: two with a load and a store each, and racer."""
        self.page.open(self.path("part.html"))
        tile = lambda key: self.page.text(f"[data-figure={key}]").replace("\u00a0", " ").split("\n")
        self.assertEqual(tile("launches")[1:3], ["3", "of 2,000 of the run; 3 kernels, 290 ns"])
        self.assertEqual(tile("records")[1:3], ["8", f"accesses of threads, of {grouped(self.records)} of the run"])
        self.assertIn("of the whole run; largest launch shown 128 B", tile("footprint")[-1])
        self.assertIn("The run, including launches not shown here, touches", self.glance()["footprint"])
        self.assertIn("Copies of the run 9", self.page.text("#tables .tabs"))
        self.assertTrue(run(BIN + "/mt-extract", "--format=summary", "-t", "999..1001", self.path("t")).startswith(f"3 of the run's 2000 launches, 8 of its {self.records} accesses\n"))

    def test_names_have_room(self):
        """On a narrow screen each kernel has its name, and each number its unit."""
        try:
            for width in (400, 1280):
                self.page.size(width, 900)
                self.page.open(self.path("r.html"))
                self.page.click("#volumes [data-value=kernel]")
                names = [t.text for t in self.svg("Volumes").iter(SVG + "text")]
                self.assertEqual([n for n in [*self.NAMES, "racer"] if n not in names], [], width)
                texts = [t.text for t in self.svg("Transfers from kernel to kernel").iter(SVG + "text")]
                self.assertEqual([n for n in self.NAMES if texts.count(n) != 2], [], (width, texts))
                self.assertEqual([t for t in texts if "…" in t], [], width)
        finally:
            self.page.size(1300, 900)


class Nonsense(Panels):
    """A comm.json that nobody's memtrace extract wrote: what cannot be drawn says so, the rest is there."""
    @classmethod
    def make(cls):
        volume = {"KDV": {"k": {"0": {"Load": 8, "Store": 0}}}}
        for i, more in enumerate(({"traffic": 5, "reuse": [], "coalescing": {"kernels": 7, "sites": 3}}, {"traffic": {"launch_step": 0, "allocations": {"x": {"bytes": 1e18, "piece": 1e-9, "launches": [[0, 1, 2]], "heat": [[0, 10**9, 1, 2]]}}}},
                                  {"traffic": {"allocations": {"x": None}}}, {"traffic": {"allocations": {"x": {"launches": [[], 5, "x"], "heat": {}}}}})):
            cls.write(f"{i}.json", json.dumps({"format": "memtrace-comm", "version": 1, "inputs": ["x"], "complete": True, "notes": [], **volume, **more}))
            run(BIN + "/mt-report", "--from", cls.path(f"{i}.json"), "-o", cls.path(f"{i}.html"))

    def test_rest_is_there(self):
        for i in range(4):
            self.page.open(self.path(f"{i}.html"))
            self.assertEqual(self.figure("load"), "8 B", i)
            self.assertEqual(self.table("Kernels")[1][:4], ["k", "1", "0", "8"], i)
            self.assertEqual("This panel cannot be drawn" in self.page.run("document.querySelector('main').innerText"), len(self.page.problems) > 0, i)
            self.page.problems.clear()


class Large(Panels):
    """Numbers and names that need room: a comm.json of eight kernels, each of which reads of the one before."""
    RECORDS, BUFFERS = 268488800, 13
    NAMES = [f"stage_{i}_{'x' * i}" for i in range(8)]

    @classmethod
    def make(cls):
        transfers = {a: {"0,0,0": {str(i): {b: {"1,0,0": {str(i + 1): {"Size": 4, "cnt": 1}}}}}} for i, (a, b) in enumerate(zip(cls.NAMES, cls.NAMES[1:]))}
        volumes = {name: {str(i): {"Load": 2**40, "Store": 2**39}} for i, name in enumerate(cls.NAMES)}
        cls.write("l.json", json.dumps({"format": "memtrace-comm", "version": 1, "inputs": ["x"], "complete": True, "notes": [], "records": cls.RECORDS, "KDV": volumes, "KCV": volumes, "transfers": transfers}))
        run(BIN + "/mt-report", "--from", cls.path("l.json"), "-o", cls.path("l.html"))
        events = [{"ev": "alloc", "seq": 0, "id": i, "base": hex(4096 * (1 + i)), "bytes": 64, "kind": "cudaMalloc", "name": f"b{i}"} for i in range(cls.BUFFERS)]
        events += [{"ev": "launch", "seq": 1, "kernel": "k", "traced": True, "records": 2 * cls.BUFFERS}]
        cls.write("t", trace([("k", [record(0, LOAD, 4, 4096 * (1 + i) + k, (0, 0, 0)) for i in range(cls.BUFFERS) for k in (0, 4)])]))
        cls.write("t.meta", companion(events, None, {"records_written": 2 * cls.BUFFERS, "records_counted": 2 * cls.BUFFERS}))
        run(BIN + "/mt-report", cls.path("t"), "-o", cls.path("r.html"))

    def test_rims(self):
        """More buffers than colours: no two have the same rim, and each has its number."""
        self.page.open(self.path("r.html"))
        rims = dict(self.page.run("[...document.querySelectorAll('#graph .node')].map((n) => [n.querySelector('.small').textContent, ['stroke', 'stroke-dasharray'].map((k) => n.querySelector('circle').getAttribute(k)).join()])"))
        self.assertEqual(sorted(rims), sorted(f"#{i}" for i in range(self.BUFFERS)))
        self.assertEqual(len(set(rims.values())), self.BUFFERS)
        self.assertIn("First accesses have no stride: 13 of 26 accesses.", self.page.text("#strides .lead"))

    def test_room(self):
        try:
            for width in (400, 1280):
                self.page.size(width, 900)
                self.page.open(self.path("l.html"))
                self.assertEqual(self.figure("records"), "268,488,800")
                self.assertEqual(self.page.run("[document.querySelector('[data-figure=records]').title, document.querySelector('[data-figure=records] .v').innerText]"), ["268,488,800", "268.5 million"])
                self.assertEqual(self.page.run("[...document.querySelectorAll('.tile')].filter((e) => e.scrollWidth > e.clientWidth).map((e) => e.innerText)"), [])
                rows = self.page.run("(() => { const n = {}; for (const e of document.querySelectorAll('.tile')) n[e.offsetTop] = (n[e.offsetTop] || 0) + 1; return Object.values(n); })()")
                self.assertLess(max(rows) - min(rows), len(rows) + 1, rows)
                self.assertGreaterEqual(min(rows), max(rows) // 2, rows)
                # The place of each name is that of its column; none is left out.
                texts = [t for t in self.svg("Transfers from kernel to kernel").iter(SVG + "text") if t.get("transform")]
                self.assertEqual([(t.text, "rotate(-90)" in t.get("transform")) for t in texts], [(name, True) for name in self.NAMES])
                x = [float(t.get("transform")[10:].split()[0]) for t in texts]
                self.assertEqual(x, sorted(x))
                self.assertGreater(min(b - a for a, b in zip(x, x[1:])), 14)
        finally:
            self.page.size(1300, 900)


class Hostile(Panels):
    """Names that are markup or formulas stay text in files, too."""
    @classmethod
    def make(cls):
        events = [{"ev": "alloc", "seq": 0, "id": 0, "base": "0x1000", "bytes": 64, "kind": "cudaMalloc", "name": EVIL},
                  {"ev": "launch", "seq": 1, "kernel": "=HYPERLINK(\"http://x\")", "traced": True, "records": 1}, {"ev": "launch", "seq": 2, "kernel": EVIL + "\x01", "traced": True, "records": 1}]
        cls.write("t", trace([("=HYPERLINK(\"http://x\")", [record(0, STORE, 4, 0x1000, (0, 0, 0))]), (EVIL + "\x01", [record(0, LOAD, 4, 0x1000, (1, 0, 0))])]))
        cls.write("t.meta", companion(events, None, {"records_written": 2, "records_counted": 2}))
        run(BIN + "/mt-report", cls.path("t"), "-o", cls.path("r.html"))

    def test_files(self):
        self.page.open(self.path("r.html"))
        for label in ("Buffers by launch", "Timeline", "Transfers from kernel to kernel"):
            tree = self.svg(label)
            self.assertEqual([e for e in tree.iter() if e.tag in (SVG + "script", SVG + "img")], [])
        names = [r[1] for r in self.csv("Timeline")[1:]]
        self.assertEqual(names[0], "'=HYPERLINK(\"http://x\")")
        self.assertTrue(names[1].startswith(EVIL))
        self.assertIn(EVIL, self.page.run("memtraceReport.panels.buffers.shown()[0].label"))


if __name__ == "__main__":
    main()
