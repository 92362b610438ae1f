#!/usr/bin/env python3
"""Shared and local memory in memtrace report's page: shared.cu, whose figures are derived here by hand, and traces written by hand."""
import base64
import csv
import io
import json
import os
import re
import subprocess
import unittest
import xml.etree.ElementTree as ET

from page_case import BIN, Case, EVIL, SOURCE, main, run
from spaces import LOAD, LOCAL, SHARED, STORE, container

PROGRAM = os.path.join(SOURCE, "tests/report/shared.cu")
SVG = "{http://www.w3.org/2000/svg}"
SECTIONS = "[...document.querySelectorAll('main > section')].map((s) => s.id)"
# Of each line of `banks`, of one CTA, which is one warp: wavefronts, those without conflicts, and the most of a request. 32 lanes 32 words apart
# are in one bank; two words apart two of them share each; atomics at one word come one after the other.
BANKS = {"column": (32, 1, 32), "row": (1, 1, 1), "every second": (2, 1, 2), "every second again": (2, 1, 2), "one word": (32, 1, 32)}


def names():
    with open(PROGRAM) as f:
        return {i: text.split("// ")[1].strip() for i, text in enumerate(f, 1) if "// " in text and i > 1}


class Pages(Case):
    def csv(self, label):
        rows = list(csv.reader(io.StringIO(self.page.run(f"memtraceReport.figures[{json.dumps(label)}].csv()"))))
        return [dict(zip(rows[0], r)) for r in rows[1:]]

    def banks(self, kernel):
        """{name of the line: its figures} of what is looked at."""
        name = names()
        return {name[int(r["source"].rpartition(":")[2])]: r for r in self.csv("Bank conflicts by line") if r["kernel"] == kernel}

    def chosen(self):
        return self.page.run("[...document.querySelectorAll('#lines .chosen')].map((r) => +r.dataset.line)")


class Program(Pages):
    @classmethod
    def make(cls):
        if not os.path.exists(BIN + "/mt-cc"):
            raise unittest.SkipTest("there is no mt-cc")
        run(BIN + "/mt-cc", "-O2", "--mt-spaces=global,shared,local", PROGRAM, "-o", cls.path("app"))
        environment = {k: v for k, v in os.environ.items() if not k.startswith("MEMTRACE_")}
        os.mkdir(cls.path("run"))
        subprocess.run([cls.path("app")], check=True, env={**environment, "MEMTRACE_FORMAT": "compact", "MEMTRACE_DIR": cls.path("run"), "MEMTRACE_DEVICE": "cpu"})
        run(BIN + "/mt-report", cls.path("run"), "-o", cls.path("r.html"))

    def setUp(self):
        super().setUp()
        self.page.open(self.path("r.html"))

    def expect(self, ctas):
        found = self.banks("banks")
        self.assertEqual(sorted(found), sorted(BANKS))
        for name, (wavefronts, ideal, worst) in BANKS.items():
            r = found[name]
            self.assertEqual([int(r[k]) for k in ("requests", "accesses", "bytes", "wavefronts", "without conflicts", "conflicts", "worst")],
                             [ctas, 32 * ctas, 128 * ctas, ctas * wavefronts, ctas * ideal, ctas * (wavefronts - ideal), worst], name)

    def test_banks(self):
        """Of all launches, of each of the two, and of one without such accesses."""
        self.expect(5)
        self.assertEqual(len(self.csv("Bank conflicts by line")), len(BANKS) + 2)
        for step, ctas in ((0, 2), (1, 3)):
            self.page.run(f"memtraceReport.setState({{superstep: {step}}})")
            self.expect(ctas)
            each = sum(w for w, _, _ in BANKS.values()), sum(i for _, i, _ in BANKS.values())
            self.assertEqual(self.page.text("#banks-sum").replace("\u00a0", " "), f"{5 * ctas} requests in {ctas * each[0]} wavefronts, {100 * (each[0] - each[1]) / each[0]:.1f} % of them bank conflicts")
        self.page.run("memtraceReport.setState({superstep: 3})")
        self.assertEqual(self.csv("Bank conflicts by line"), [])
        self.assertIn("The selected launch does not access shared memory.", self.page.text("#banks"))

    def test_bars(self):
        """The largest first, each with its two parts and a way to its line."""
        words = self.page.run("[...document.querySelectorAll('#banks table.bars tr')].map((r) => [r.children[0].innerText, r.children[2].innerText])")
        line = {name: n for n, name in names().items()}
        self.assertEqual(words[2:4], [[f"shared.cu:{line['every second']} store tile", "10 for 5 requests, up to 2-way"],
                                      [f"shared.cu:{line['every second again']} load tile", "10 for 5 requests, up to 2-way"]])
        self.assertEqual(sorted(words[:2]), sorted([[f"shared.cu:{line['column']} store tile", "160 for 5 requests, up to 32-way"],
                                                    [f"shared.cu:{line['one word']} atomic hits", "160 for 5 requests, up to 32-way"]]))
        self.assertEqual(self.page.run("[...document.querySelectorAll('#banks table.bars tr:nth-child(1) i')].map((i) => i.style.width)"), ["3.125%", "96.875%"])
        self.page.click("#banks table.bars tr:nth-child(3) button")
        self.assertEqual(self.chosen(), [line["every second"]])
        self.page.settle()
        self.assertIn(f"line={'%2F'.join(['', *PROGRAM.split('/')[1:]])}%3A{line['every second']}", self.page.run("new Promise((done) => setTimeout(() => done(location.hash), 300))"))
        self.page.open(self.path("r.html"), f"#hazards&line={PROGRAM}:{line['stored']}")
        self.assertEqual(self.chosen(), [line["stored"]])

    def test_source(self):
        """The source view has a column of them, and goes from the hottest to the next."""
        line = {name: n for n, name in names().items()}
        self.page.click("#lines [data-value=banks]")
        self.assertEqual(self.page.run("memtraceReport.panels.lines.order().map((l) => [l.line, l.at.banks])"),
                         [[line["column"], 155], [line["one word"], 155], [line["every second"], 5], [line["every second again"], 5]])
        self.page.click("#next-hottest")
        self.assertEqual(self.chosen(), [line["column"]])
        self.assertIn("155", self.page.run("[...document.querySelector('#lines .chosen').children].map((c) => c.innerText)"))

    def test_hazards(self):
        """Each of 64 threads of three CTAs loads what one of the other warp stores; which comes first is up to the run."""
        line = {name: n for n, name in names().items()}
        table = "[...document.querySelectorAll('#hazards tbody tr')].map((r) => [...r.children].map((c) => c.innerText))"
        rows = self.page.run(table)
        store, load = (f"{kind} shared.cu:{line[name]}" for kind, name in (("store", "stored"), ("load", "loaded")))
        self.assertEqual(sum(int(r[5]) for r in rows), 3 * 64)
        for r in rows:
            self.assertEqual(r[:3], ["RAW", store, load] if r[0] == "RAW" else ["WAR", load, store])
            self.assertEqual(r[3:5], ["unordered", "warps"])
            self.assertIn(r[6:8], (["2", "2"], ["1", "2"], ["1", "4"]))
            a, b, address = re.fullmatch(r"0,0,0: (\d+), (\d+) at 0x([0-9a-f]+)", r[8]).groups()
            self.assertEqual(int(a) + int(b), 63)
        self.assertIn("2", {r[7] for r in rows})
        for step, words in ((2, 64), (4, 2 * 64)):
            self.page.run(f"memtraceReport.setState({{superstep: {step}}})")
            some = self.page.run(table)
            self.assertEqual([sum(int(r[5]) for r in some), {r[6] for r in some}], [words, {"1"}])
            self.assertEqual([r[7:] for r in some], [next(a[7:] if a[7] == str(step) else ["–", "–"] for a in rows if a[:3] == r[:3]) for r in some])
        self.page.run("memtraceReport.setState({superstep: 0})")
        self.assertIn("The selected launch has no hazards.", self.page.text("#hazards"))
        self.page.run("memtraceReport.setState({superstep: null})")
        self.page.click("#hazards tbody td:nth-child(2) button")
        self.assertEqual(self.chosen(), [line["stored" if rows[0][0] == "RAW" else "loaded"]])

    def test_local(self):
        """8 stores and 12 loads of 4 bytes by 64 threads."""
        name = names()
        self.assertEqual({(name[int(r["source"].rpartition(":")[2])], r["type"]): (r["accesses"], r["bytes"]) for r in self.csv("Local memory by line")},
                         {("local store", "store"): ("512", "2048"), ("local load", "load"): ("768", "3072")})

    def test_glance(self):
        glance, line = self.glance(), {name: n for n, name in names().items()}
        self.assertIn("hazard", glance["hazards"])
        self.assertIn("shared memory (no barrier between accesses of two threads), the largest in unordered:", glance["hazards"])
        # 345 of banks and 12 of the other kernel; 25 and 12 of them without conflicts
        self.assertEqual(glance["banks"].replace("\u00a0", " "), f"Bank conflicts cause 89.6 % of the wavefronts of shared memory, most at the store at shared.cu:{line['column']} (32-way). see")
        self.page.click("#glance [data-glance=banks] a")
        self.assertEqual(self.page.run("location.hash"), "#banks")

    def test_files(self):
        for label in ("Bank conflicts by line", "Local memory by line"):
            tree = ET.fromstring(self.page.run(f"memtraceReport.figures['{label}'].svg()"))
            words = [t.text for t in tree.iter(SVG + "text")]
            self.assertEqual(len(words), 2 * len(self.csv(label)))
            png = self.page.run(f"memtraceReport.figures['{label}'].png().then((b) => new Promise((done) => {{ const r = new FileReader(); r.onload = () => done(r.result); r.readAsDataURL(b); }}))")
            self.assertEqual(base64.b64decode(png.partition(",")[2])[:8], b"\x89PNG\r\n\x1a\n")
        self.page.click("#banks .tools button[aria-expanded]")
        self.assertEqual(self.page.run("document.querySelectorAll('#banks .astable tbody tr').length"), len(BANKS) + 2)

    def test_parts(self):
        """--quick leaves it out; a filter shows what is of the kernel."""
        run(BIN + "/mt-report", "--quick", self.path("run"), "-o", self.path("q.html"))
        self.page.open(self.path("q.html"))
        self.assertNotIn("shared", self.page.run(SECTIONS))
        run(BIN + "/mt-report", "-k", "^local$", self.path("run"), "-o", self.path("l.html"))
        self.page.open(self.path("l.html"))
        self.assertEqual([self.page.text("#shared h2"), self.page.run("document.querySelectorAll('#shared .blocks > div').length"), self.page.text("#nav").count("Local memory")], ["Local memory", 1, 1])
        self.assertEqual({"banks", "hazards"} & set(self.glance()), set())

    def test_narrow(self):
        try:
            for width in (400, 1280, 1920):
                self.page.size(width, 900)
                self.page.settle()
                self.assertEqual(self.page.run("document.documentElement.scrollWidth"), width)
                out = self.page.run("[...document.querySelectorAll('#shared *')].filter((e) => e.offsetParent && !e.closest('.scroll') && e.getBoundingClientRect().right > innerWidth + 1).map((e) => e.outerHTML.slice(0, 99))")
                self.assertEqual(out, [], width)
                # Names of bars and lines of source are there as they are.
                self.assertEqual(self.page.run("[...document.querySelectorAll('#banks .bars th, #banks .bars .mid > *')].filter((e) => e.scrollWidth > e.clientWidth && getComputedStyle(e).display !== 'inline').map((e) => e.innerText)"), [], width)
                source = self.page.run("[...document.querySelectorAll('#lines tr.hit td.source')].map((e) => [e.getBoundingClientRect().left, e.clientWidth, e.innerText.length])")
                self.assertTrue(source and all(left < width - 190 and room > 180 for left, room, _ in source), (width, source))
        finally:
            self.page.size(1300, 900)


class Without(Pages):
    """A trace without such records has no panel, and nothing of it in its data."""
    @classmethod
    def make(cls):
        run(BIN + "/mt-report", os.path.join(SOURCE, "tests/golden/succeed/worked-example.trace"), "-o", cls.path("r.html"))

    def test_nothing(self):
        self.page.open(self.path("r.html"))
        self.assertEqual(self.page.run("[memtraceReport.data.shared, document.getElementById('shared')]"), [None, None])
        self.assertNotIn("hared memory", self.page.run("document.body.innerText"))


class Written(Pages):
    """Names that are HTML; 32 lanes 16 bytes apart that load 8 bytes each. 3,000 launches of 25 lines; 2,100 lines."""
    @classmethod
    def make(cls):
        cls.write("evil.mtc", container([(EVIL, [(1, LOAD + SHARED, 8, 0xffffffff, 0, 16), (2, STORE + SHARED, 4, 3, 0, 4), (1, LOAD + SHARED, 4, 2, 0, 4), (3, LOAD + LOCAL, 4, 1, 0, 4)])],
                                        [(EVIL + ".cu", 7, EVIL), (EVIL + ".cu", 8, EVIL), ("b.cu", 1, EVIL)]))
        lines = [(f"f{i}.cu", 1 + i, "v") for i in range(2100)]
        cls.write("many.mtc", container([(f"k{n % 2}", [(1 + i, LOAD + SHARED, 4, 0xffffffff, 0, 4 * n % 64) for i in range(25)]) for n in range(3000)], lines))
        cls.write("wide.mtc", container([("k", [(1 + i, LOAD + SHARED, 4, 0xffffffff, 0, 4 + 4 * (i % 3)) for i in range(2100)])], lines))
        for name in ("evil", "many", "wide"):
            run(BIN + "/mt-report", cls.path(name + ".mtc"), "-o", cls.path(name + ".html"))

    def test_harmless(self):
        self.page.open(self.path("evil.html"))
        rows = self.csv("Bank conflicts by line")
        # Two half-warps; in each 16 lanes ask for 32 of 64 words in a row, two of each bank. And a load of one lane.
        self.assertEqual([rows[0][k] for k in ("type", "requests", "wavefronts", "without conflicts", "worst", "variable")], ["load", "2", "5", "3", "2", EVIL])
        self.assertEqual(self.page.run("document.querySelectorAll('img, script').length"), 3)
        self.assertEqual([e for e in ET.fromstring(self.page.run("memtraceReport.figures['Bank conflicts by line'].svg()")).iter() if e.tag in (SVG + "script", SVG + "img")], [])
        words = self.page.run("[...document.querySelectorAll('#hazards tbody tr')].map((r) => [...r.children].map((c) => c.textContent))")
        self.assertEqual([(r[0], r[3]) for r in words], [("WAR", EVIL), ("RAW", EVIL)])
        self.assertIn("alert(1)>", self.glance()["hazards"])

    def test_no_global_memory(self):
        self.page.open(self.path("evil.html"))
        self.assertIn("to global memory", self.glance()["nothing"])

    def test_bounded(self):
        """Too many figures of launches to be in a page, and too many lines: it says so, and the sums are there."""
        self.page.open(self.path("many.html"))
        self.assertLess(os.path.getsize(self.path("many.html")), 3 << 20)
        self.assertIn("too many to show one alone", self.page.text("#banks"))
        self.assertEqual(sum(int(r["requests"]) for r in self.csv("Bank conflicts by line")), 75000)
        self.page.run("memtraceReport.setState({superstep: 7})")
        self.assertEqual(len(self.csv("Bank conflicts by line")), 50)
        self.page.open(self.path("wide.html"))
        self.assertIn("The 100 lines with the smallest figures are left out.", self.page.text("#banks"))
        self.assertEqual(len(self.csv("Bank conflicts by line")), 2000)
        self.assertLess(self.page.nodes(), 3000)


if __name__ == "__main__":
    main()
