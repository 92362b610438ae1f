#!/usr/bin/env python3
"""memtrace report's pages in a browser: figures against comm.json and against numbers derived by hand, clicks, keys, sliders,
names that look like HTML, and a trace of 10,000 CTAs, of which the page may have only so many elements."""
import json
import os

from page_case import BIN, Case, EVIL, SOURCE, grouped, leaves, main, run
from traces import LOAD, STORE, companion, record, trace


class Worked(Case):
    """The worked example of docs/definitions.md; its numbers are derived there by hand."""
    @classmethod
    def make(cls):
        golden = os.path.join(SOURCE, "tests/golden/succeed/worked-example.trace")
        run(BIN + "/mt-report", golden, "-o", cls.path("r.html"))

    def setUp(self):
        super().setUp()
        self.page.open(self.path("r.html"))

    def test_figures(self):
        # fill loads 8 and stores 8; sum loads 20, of them 16 that a CTA wrote, and stores 8; the host brings 8.
        expected = {"launches": "2", "records": "8", "ctas": "4", "load": "28 B", "store": "16 B", "commLoad": "16 B",
                    "fromHost": "8 B", "unordered": "4 B"}
        for key, value in expected.items():
            self.assertEqual(self.figure(key), value, key)
        self.assertEqual(self.page.text("#complete"), "complete")
        self.assertIn("3 accesses in sum have no record", self.page.text("#missing"))

    def test_tables(self):
        head, *rows = self.table("Kernels")
        self.assertEqual(head[:7], ["kernel", "launches", "CTA instances", "loaded (B)", "stored (B)", "comm. load (B)", "comm. store (B)"])
        self.assertEqual(head[7:10], ["other CTA, same launch (B)", "other CTA, earlier launch (B)", "same CTA, earlier launch (B)"])
        self.assertEqual([r[7:10] for r in rows], [["0", "0", "0"], ["4", "4", "8"]])
        self.assertEqual([r[:7] for r in rows], [["fill", "1", "2", "8", "8", "0", "8"], ["sum", "1", "2", "20", "8", "16", "4"]])
        rows = self.table("Transfers")[1:]
        self.assertEqual(rows, [["<host>", "0", "fill", "0", "8", "2", "0"], ["fill", "0", "sum", "1", "12", "3", "0"],
                                ["sum", "1", "sum", "1", "4", "1", "4"]])
        self.assertEqual([r[:5] for r in self.table("Allocations")[1:]], [["1", "cudaMalloc", "–", "0x100", "8"], ["2", "cudaMalloc", "out", "0x200", "260"]])
        self.assertEqual([r[:2] + r[4:] for r in self.table("Copies")[1:]], [["0", "h2d", "8", "1"], ["2", "d2h", "4", "1"]])

    def test_glance(self):
        """sum loads 20 and stores 8 of 44 bytes; 16 of the 28 loaded ones are communication, 12 of them go from fill to sum. Two of
        fill's four accesses, its stores, fall into one line, at different bytes. Of two CTAs that are apart half of the bytes cross."""
        self.assertEqual(self.glance(), {
            "sharing": "False sharing of 128-byte lines between CTAs: 50.0 % of the accesses of fill, most in #2 out. see",
            "conflicts": "No races between CTAs of one launch. see",
            "kernel": "sum moves most: 28 B, 63.6 % of all bytes, in 1 of 2 launches. see",
            "comm": "Of the bytes that CTAs load, 4 B (14.3 %) were last written by another CTA of the same launch, 4 B (14.3 %) by another CTA of an earlier launch, "
                    "8 B (28.6 %) by the same CTA of an earlier launch; most go from fill to sum: 12 B. see",
            "footprint": "The run touches 3 cache lines of 128 bytes: its footprint is 384 B. see",
            "placement": "Split over 2 devices, 50.0 % of the communication would cross between devices (best placement tried: blocks of CTAs). see",
            "finding": "leak (and 1 more): `out` (260 bytes) is not freed when the program ends."})

    def test_placement(self):
        """CTA 1's half of what sum loads from fill, 4 bytes, and of total, 4: each is read once."""
        self.assertEqual(self.page.run("memtraceReport.figures['Bytes across devices'].rows().map((r) => [r.name, r.text.replaceAll('\\u00a0', ' '), r.parts.map((p) => p[0])])")[0],
                         ["blocks of CTAs", "8 B, 50.0 %; 8 B distinct", [8, 0]])

    def test_panels_one_by_one(self):
        """Between two panels the page can answer."""
        self.assertGreaterEqual(self.page.run("memtraceReport.turns()"), 8)

    def test_launch_slider(self):
        """With the keyboard: all, then the launches one after another."""
        self.assertEqual(self.map_sum("ctas"), [24, 6])
        self.page.run("document.getElementById('launch').focus()")
        for words, cells in [("launch 0: fill", [8, 2]), ("launch 1: sum", [16, 4]), ("launch 1: sum", [16, 4])]:
            self.page.key("ArrowRight")
            self.assertEqual(self.page.text("#launch-words"), words)
            self.assertEqual(self.map_sum("ctas"), cells)
            self.assertEqual(self.map_sum("kernels"), cells)
        self.page.key("ArrowLeft")
        self.page.key("ArrowLeft")
        self.assertEqual(self.page.text("#launch-words"), "all launches")

    def test_choosing_a_kernel_pair(self):
        """<host>, fill, sum in rows and columns: a click on fill -> sum leaves its CTAs."""
        left, side = self.page.run("(() => { const c = document.querySelector('#kernel-map canvas'); return [150 / c.clientWidth, 336 / c.clientWidth]; })()")
        height = self.page.run("document.querySelector('#kernel-map canvas').clientHeight")
        self.page.click("#kernel-map canvas", left + side * 5 / 6, (20 + 336 / 2) / height)
        self.assertEqual(self.page.text("#cta-map h3 span"), "CTA → CTA: fill → sum")
        self.assertEqual(self.map_sum("ctas"), [12, 3])
        self.page.click("#cta-map h3 button")
        self.assertEqual(self.map_sum("ctas"), [24, 6])

    def test_cell_by_keyboard(self):
        """Down from the first cell (host, host) to the right: host -> CTA 0 took 4 bytes in one access."""
        self.page.run("document.querySelector('#cta-map canvas').focus()")
        self.page.key("ArrowRight")
        self.page.key("ArrowRight")
        tip = self.page.text("#tip")
        self.assertIn("host → CTA 0", tip)
        self.assertIn("4 B", tip)
        self.assertIn("1 access", tip)
        self.page.key("Escape")
        self.assertTrue(self.page.run("document.getElementById('tip').hidden"))

    def test_sort_and_filter(self):
        self.table("Kernels")
        first = "document.querySelector('#tables tbody tr:not(.pad) td').innerText"
        self.page.click("#tables th:nth-child(4) button")
        self.assertEqual(self.page.run(first), "sum", "most bytes first")
        self.assertEqual(self.page.run("document.querySelector('#tables th:nth-child(4)').getAttribute('aria-sort')"), "descending")
        self.page.click("#tables th:nth-child(4) button")
        self.assertEqual(self.page.run(first), "fill")
        self.page.click("#tables input[type=search]")
        for c in "su":
            self.page.key(c)
        self.assertEqual(self.page.run("document.querySelectorAll('#tables tbody tr').length"), 1)
        self.assertEqual(self.page.run(first), "sum")
        self.assertEqual(self.page.text("#tables [role=status]"), "1 of 2 rows")

    def test_volumes(self):
        sums = "(() => { const l = memtraceReport.panels.volumes.list(), f = (a) => [...a]; return [f(l.load), f(l.store), f(l.commLoad), f(l.commStore)]; })()"
        self.assertEqual(self.page.run(sums), [[8, 20], [8, 8], [0, 16], [8, 4]])
        self.page.click("#volumes [data-value=cta]")
        self.assertEqual(self.page.run(sums), [[16, 12], [8, 8], [8, 8], [8, 4]])
        # CTA 0 loads its own word of fill and the other one's; CTA 1 its own, and the atomic's of CTA 0.
        self.assertEqual(self.page.run("['sameLaunch', 'sameCta'].map((k) => [...memtraceReport.panels.volumes.list()[k]])"), [[0, 4], [4, 4]])
        self.page.run("memtraceReport.setState({superstep: 1})")
        self.assertEqual(self.page.run(sums), [[12, 8], [4, 4], [8, 8], [4, 0]])
        self.page.click("#volumes [data-value=sm]")
        self.assertEqual(self.page.run(sums), [[12, 8], [4, 4], [8, 8], [4, 0]])

    def test_themes(self):
        colour = "getComputedStyle(document.body).backgroundColor"
        light = self.page.run(colour)
        self.page.click("#theme")
        self.assertNotEqual(self.page.run(colour), light)
        self.page.click("#theme")
        self.assertEqual(self.page.run(colour), light)

    def test_timeline_by_keyboard(self):
        self.page.run("document.querySelector('#timeline canvas').focus()")
        for step in (0, 1):
            self.page.key("ArrowRight")
            self.assertEqual(self.page.run("memtraceReport.state.superstep"), step)
        self.page.key("Escape")
        self.assertIsNone(self.page.run("memtraceReport.state.superstep"))

    def test_stands_alone(self):
        """One file: d3 and its licence are in it, and nothing is asked of a network (tearDown)."""
        self.assertEqual(self.page.run("d3.version"), "5.16.0")
        self.assertIn("Redistributions in binary form must reproduce", self.page.run("document.querySelector('.licence').textContent"))
        self.assertIn("Mike Bostock", self.page.run("document.querySelector('.licence').textContent"))
        self.assertEqual(self.page.run("document.querySelectorAll('[src]:not([src^=\"data:\"]), link[href]:not([href^=\"data:\"])').length"), 0)


class Names(Case):
    """Names that are HTML stay text, wherever they are shown."""
    @classmethod
    def make(cls):
        events = [{"ev": "alloc", "seq": 0, "id": 0, "base": "0x1000", "bytes": 64, "kind": "cudaMalloc", "name": EVIL, "file": EVIL, "line": 3},
                  {"ev": "site", "id": 0, "file": cls.path("a<b>.cu"), "line": 2, "column": 1, "function": EVIL, "op": "store", "size": 4, "var": EVIL},
                  {"ev": "launch", "seq": 1, "stream": 0, "kernel": EVIL, "grid": [1, 1, 1], "block": [2, 1, 1], "begin_ns": 10, "end_ns": 30,
                   "traced": True, "records": 2, "file": cls.path("a<b>.cu"), "line": 4}]
        cls.write("a<b>.cu", "// one\n" + EVIL + "</script>\n\n// four\n")
        cls.write("t<u>", trace([(EVIL, [record(0, STORE, 4, 0x1000, (0, 0, 0)), record(0, STORE, 4, 0x1004, (0, 0, 0))])]))
        cls.write("t<u>.meta", companion(events, {"program": "/bin/" + EVIL, "device": "cpu"}, {"records_written": 2, "records_counted": 2}))
        run(BIN + "/mt-report", cls.path("t<u>"), "-o", cls.path("r.html"), "--title", "a & <b>" + EVIL, "--source-root", cls.path("."))

    def test_harmless(self):
        self.page.open(self.path("r.html"))
        self.assertIn("a & <b>" + EVIL, self.page.run("document.title"))
        self.assertEqual(self.page.run("document.querySelectorAll('img').length"), 0)
        self.assertEqual(self.page.run("document.querySelectorAll('script').length"), 3)
        self.assertIn(EVIL, self.page.text("h1"))
        self.assertEqual(self.table("Kernels")[1][0], EVIL)
        self.assertEqual(self.table("Sites")[1][6], EVIL)
        lines = self.page.run("[...document.querySelectorAll('#lines .code td.source')].map((c) => c.innerText)")
        self.assertEqual(lines[1].strip(), EVIL + "</script>")
        self.page.move("#timeline canvas", 0.5, 0.3)
        self.assertIn(EVIL, self.page.text("#tip"))


class Nothing(Case):
    """A launch without accesses: sentences in place of empty pictures."""
    @classmethod
    def make(cls):
        events = [{"ev": "launch", "seq": 1, "stream": 0, "kernel": "idle", "grid": [3, 1, 1], "block": [32, 1, 1], "begin_ns": 10, "end_ns": 30, "traced": True,
                   "records": 0, "file": "/nowhere/a.cu", "line": 2}]
        cls.write("t", trace([("idle", [])]))
        cls.write("t.meta", companion(events, {"device": "cpu"}, {"records_written": 0, "records_counted": 0}))
        run(BIN + "/mt-report", cls.path("t"), "-o", cls.path("r.html"))

    def test_words(self):
        self.page.open(self.path("r.html"))
        self.assertEqual(list(self.glance()), ["nothing"])
        self.assertIn("No access of the traced launches was recorded", self.glance()["nothing"])
        self.assertEqual(self.page.run("document.querySelectorAll('#volumes canvas, #plots .curve, #transfers canvas').length"), 0)
        self.assertIn("No bytes of global memory", self.page.text("#volumes"))
        self.assertNotIn("raw trace", self.page.text("#lines"))
        self.assertNotIn("–", self.page.text("[data-figure=commLoad]"))


class LongNames(Case):
    """Names of templates that are longer than the page is wide do not widen it."""
    @classmethod
    def make(cls):
        name = "library::detail::transform_kernel<" + "very_long_namespace::functor_with_no_blank<" * 40 + "int" + ">" * 41
        events = [{"ev": "launch", "seq": 1, "stream": 0, "kernel": name, "grid": [1, 1, 1], "block": [2, 1, 1], "begin_ns": 10, "end_ns": 30, "traced": True, "records": 2}]
        cls.write("t", trace([(name, [record(0, STORE, 4, 0x1000, (0, 0, 0)), record(0, STORE, 4, 0x1000, (1, 0, 0))])]))
        cls.write("t.meta", companion(events, {"device": "cpu"}, {"records_written": 2, "records_counted": 2}))
        run(BIN + "/mt-report", cls.path("t"), "-o", cls.path("r.html"))

    def test_width(self):
        try:
            for width in (700, 1400):
                self.page.size(width, 900)
                self.page.open(self.path("r.html"))
                self.assertEqual(self.page.run("document.documentElement.scrollWidth"), width)
        finally:
            self.page.size(1300, 900)
        self.assertIn("1 possible race between CTAs", self.glance()["conflicts"])
        self.assertIn("transform_kernel<…>", self.glance()["conflicts"])


class OneRow(Case):
    """A grid of one row: round numbers on the axes of the CTA map, whatever is in front of the first CTA."""
    @classmethod
    def make(cls):
        def launch(shift):
            return [r for c in range(300) for r in (record(0, LOAD, 4, 0x1000 + 4 * ((c + shift) % 300), (c, 0, 0)), record(0, STORE, 4, 0x2000 + 4 * c, (c, 0, 0)))]
        back = [record(0, STORE, 4, 0x1000 + 4 * c, (c, 0, 0)) for c in range(300)]
        events = [{"ev": "memcpy", "seq": 0, "kind": "h2d", "dst": "0x1000", "src": "0x9", "bytes": 1200, "stream": 0},
                  {"ev": "site", "id": 0, "file": "/nowhere/a.cu", "line": 3, "op": "load", "size": 4}]
        events += [{"ev": "launch", "seq": 1 + i, "kernel": k, "traced": True, "records": n} for i, (k, n) in enumerate((("a", 600), ("b", 300), ("a", 600)))]
        cls.write("t", trace([("a", launch(0)), ("b", back), ("a", launch(1))]))
        cls.write("t.meta", companion(events, None, {"records_written": 1500, "records_counted": 1500}))
        run(BIN + "/mt-report", cls.path("t"), "-o", cls.path("r.html"))
        run(BIN + "/mt-report", "--quick", cls.path("t"), "-o", cls.path("q.html"))

    def test_round_numbers(self):
        self.page.open(self.path("r.html"))
        words = self.cta_map_words()
        numbers = [int(w) for w in words if w.isdigit()]
        self.assertIn("host", words)
        self.assertGreater(len(numbers), 8)
        self.assertEqual([n for n in numbers if n % 5], [])
        self.page.run("(() => { for (let i = 0; i < 3; i++) memtraceReport.panels.transfers.ctas.zoom(0.5); })()")
        numbers = [int(w) for w in self.cta_map_words() if w.isdigit()]
        self.assertGreater(len(numbers), 8)
        steps = {b - a for a, b in zip(numbers, numbers[1:]) if b > a}
        self.assertLessEqual(steps, {1, 2, 5, 10, 20})

    def test_words_of_quick(self):
        self.page.open(self.path("q.html"))
        self.assertNotIn("raw trace", self.page.text("#lines"))


class Big(Case):
    """10,000 CTAs, 6 launches: each reads from 5 CTAs of the launch before."""
    N, LAUNCHES = 10000, 6

    @classmethod
    def make(cls):
        a, b, launches, events = 0x10000000, 0x20000000, [], []
        events.append({"ev": "memcpy", "seq": 0, "kind": "h2d", "dst": hex(a), "src": "0x7000", "bytes": 4 * cls.N, "stream": 0})
        for step in range(cls.LAUNCHES):
            records = []
            for c in range(cls.N):
                cta = (c % 100, c // 100, 0)
                records += [record(c % 132, LOAD, 4, a + 4 * k, cta) for k in (c - 100, c - 1, c, c + 1, c + 100) if 0 <= k < cls.N]
                records.append(record(c % 132, STORE, 4, b + 4 * c, cta))
            name = ("relax_even", "relax_odd")[step % 2]
            launches.append((name, records))
            events.append({"ev": "launch", "seq": 1 + step, "stream": 0, "kernel": name, "grid": [100, 100, 1], "block": [1, 1, 1],
                           "begin_ns": 1000 + step * 5000, "end_ns": 5000 + step * 5000, "traced": True, "records": len(records)})
            a, b = b, a
        written = sum(len(r) for _, r in launches)
        cls.write("t", trace(launches))
        cls.write("t.meta", companion(events, {"device": "cpu", "sms": 132}, {"records_written": written, "records_counted": written}))
        run(BIN + "/mt-report", cls.path("t"), "-o", cls.path("r.html"))
        cls.comm = json.loads(run(BIN + "/mt-extract", "-s", "quick", cls.path("t")))

    def setUp(self):
        super().setUp()
        self.page.open(self.path("r.html"))

    def test_figures(self):
        volume = lambda section, key: sum(v[key] for steps in self.comm[section].values() for v in steps.values())
        for key, section, name in (("load", "KDV", "Load"), ("store", "KDV", "Store"), ("commLoad", "KCV", "Load")):
            self.assertEqual(self.figure(key), grouped(volume(section, name)) + " B")
        # By hand: rows above and below are missing for 100 CTAs each, left and right neighbours for one each.
        self.assertEqual(self.figure("load"), grouped(self.LAUNCHES * 4 * (5 * self.N - 202)) + " B")
        self.assertEqual(self.figure("ctas"), grouped(self.N * self.LAUNCHES))
        transfers = list(leaves(self.comm["transfers"]))
        for step in [None, *range(self.LAUNCHES)]:
            self.page.run(f"memtraceReport.setState({{superstep: {json.dumps(step)}}})")
            chosen = [t for t in transfers if step is None or t[5] == step]
            self.assertEqual(self.map_sum("ctas"), [sum(t[6] for t in chosen), sum(t[7] for t in chosen)])
            self.assertEqual(self.map_sum("kernels"), self.map_sum("ctas"))

    def test_zoom_shows_single_ctas(self):
        """Zoomed in as far as it goes, the tooltip of a cell is the transfer of comm.json."""
        self.page.run("memtraceReport.setState({superstep: 3})")
        width, height = self.page.run("(() => { const c = document.querySelector('#cta-map canvas'); return [c.clientWidth, c.clientHeight]; })()")
        side = min(width - 76, 560) # of the matrix, which begins at (72, 20); its middle is on the diagonal
        for _ in range(24):
            self.page.wheel("#cta-map canvas", -100, (72 + side / 2) / width, (20 + side / 2) / height)
        view = self.page.run("(() => { const v = memtraceReport.panels.transfers.ctas.view(); return [v.r, v.c, v.n]; })()")
        self.assertLess(view[2], 12)
        sums = self.page.run("[...memtraceReport.panels.transfers.ctas.sums().bytes]")
        name = lambda place: "host" if place == 0 else f"{(place - 1) % 100},{(place - 1) // 100},0"
        size = {(t[1] if t[0] != "<host>" else "host", t[4]): t[6] for t in leaves(self.comm["transfers"]) if t[5] == 3}
        self.assertEqual(sums, [size.get((name(view[0] + i), name(view[1] + k)), 0) for i in range(view[2]) for k in range(view[2])])
        self.assertGreater(sum(sums), 0)

    def test_rows_of_the_grid_are_named(self):
        """The axes of the CTA map name CTAs at which rows of the 100 x 100 grid begin, not some in between."""
        texts = self.cta_map_words()
        names = [t for t in texts if "," in t]
        self.assertGreater(len(names), 10)
        self.assertEqual([t for t in names if not t.startswith("0,")], [])
        self.assertIn("host", texts)

    def test_unpacked_in_pieces(self):
        """Long lists leave the page time to answer: a piece has 65,536 numbers' worth of cells or CTAs at most."""
        cells, ctas = self.page.run("[memtraceReport.data.cells.count, memtraceReport.data.ctas.count]")
        pieces = self.page.run("[...memtraceReport.unpackLists()].length")
        self.assertGreaterEqual(pieces, cells // 65536 + ctas // 65536)
        self.assertGreater(pieces, 4)

    def test_work_is_bounded(self):
        """However the page is used, its elements stay few, and a drawing adds up no more cells than there are."""
        most = 2500
        self.assertLess(self.page.nodes(), most)
        cells = self.page.run("memtraceReport.data.cells.count")
        self.assertEqual(cells, len(list(leaves(self.comm["transfers"]))))
        for step in range(self.LAUNCHES):
            self.page.run(f"memtraceReport.setState({{superstep: {step}}})")
            self.assertEqual(self.page.run("memtraceReport.panels.transfers.ctas.sums().work"),
                             sum(1 for t in leaves(self.comm["transfers"]) if t[5] == step))
        self.page.click("#volumes [data-value=cta]")
        self.assertLessEqual(self.page.run("memtraceReport.panels.volumes.bins().n"), 700)
        self.assertEqual(self.page.run("memtraceReport.panels.volumes.list().n"), self.N)
        for name in ("Kernels", "Launches", "Transfers", "Copies"):
            self.table(name)
            self.assertLess(self.page.nodes(), most)


class ManyRows(Case):
    """A table of 20,000 rows has a screenful of them, whichever part is looked at."""
    @classmethod
    def make(cls):
        events = [{"ev": "alloc", "seq": i, "id": i, "base": hex(4096 * (i + 1)), "bytes": i * 7919 % 20011, "kind": "cudaMalloc"} for i in range(20000)]
        events.append({"ev": "launch", "seq": 20000, "kernel": "k", "traced": True, "records": 0})
        cls.write("t", trace([("k", [])]))
        cls.write("t.meta", companion(events, None, {"records_written": 0, "records_counted": 0}))
        run(BIN + "/mt-report", cls.path("t"), "-o", cls.path("r.html"))

    def test_scroll_sort(self):
        self.page.open(self.path("r.html"))
        self.page.click("#tables [role=tab][data-table=Allocations]")
        rows = "document.querySelectorAll('#tables tbody tr:not(.pad)').length"
        ids = "[...document.querySelectorAll('#tables tbody tr:not(.pad)')].map((r) => +r.children[0].innerText.replaceAll(',', ''))"
        self.assertLess(self.page.run(rows), 60)
        self.page.run("document.querySelector('#tables .scroll').scrollTop = 300000")
        self.page.settle()
        self.assertLess(self.page.run(rows), 60)
        self.assertIn(10000, self.page.run(ids), "30 pixels a row")
        self.page.run("document.querySelector('#tables .scroll').scrollTop = 1e9")
        self.page.settle()
        self.assertEqual(self.page.run(ids)[-1], 19999)
        self.page.click("#tables th:nth-child(5) button")
        largest = max(range(20000), key=lambda i: i * 7919 % 20011)
        self.assertEqual(self.page.run(ids)[0], largest)
        self.assertLess(self.page.nodes(), 1500)


if __name__ == "__main__":
    main()
