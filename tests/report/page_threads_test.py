#!/usr/bin/env python3
"""The page of a host program: threads in place of CTAs, in words, figures and tables. The trace is written by hand."""
import json
import os
import subprocess
import sys

from page_case import BIN, Case, EVIL, main, run

GEN_HOST = os.path.abspath(sys.argv.pop(3))
import host_traces  # noqa: E402  page_case has set the path


def at(time, thread, line, op, addr, size, seq=9):
    return {"time": time, "seq": seq, "thread": thread, "place": "/src/%s.c:%d" % (EVIL if line == 66 else "app", line), "op": op, "addr": addr, "size": size}


class Program(Case):
    @classmethod
    def make(cls):
        accesses, time = [], 0
        for i in range(8):  # thread 0 writes 8 lines, 1 and 2 read one byte of each
            time += 1
            accesses.append(at(time, 0, 10, "store", 0x1000 + 64 * i, 8))
        for thread in (1, 2):
            for i in range(8):
                time += 1
                accesses.append(at(time, thread, 20, "load", 0x1000 + 64 * i, 1))
        accesses.append(at(time + 1, 0, 66, "store", 0x8000, 4))
        events = [{"ev": "alloc", "seq": 1, "id": 0, "base": "0x1000", "bytes": 512, "kind": "malloc", "file": "/src/app.c", "line": 5},
                  {"ev": "alloc", "seq": 2, "id": 1, "base": "0x3000", "bytes": 100, "kind": "malloc", "file": "/src/app.c", "line": 6}]
        cls.trace = cls.path("h.mtc")
        host_traces.write(GEN_HOST, cls.trace, host_traces.script(accesses, events, header={"mode": "atomic", "program": "/bin/prog", "engine": "qemu"}), timed=True)
        run(BIN + "/mt-report", cls.trace, "-o", cls.path("r.html"))

    def setUp(self):
        super().setUp()
        self.page.open(self.path("r.html"))

    def test_words(self):
        text = self.page.run("document.querySelector('main').innerText")
        for word in ("CTA", "kernel", "launch"):
            self.assertNotIn(word, text)
        self.assertEqual(self.page.run("[...document.querySelectorAll('main > section')].map((s) => s.id)"),
                         ["overview", "transfers", "volumes", "buffers", "strides", "lines", "plots", "tables"])
        self.assertEqual(self.page.run("document.title"), "prog – memtrace report")

    def test_figures(self):
        """By hand: 8 stores of 8 bytes and one of 4; 16 loads of a byte, each of a byte that thread 0 wrote."""
        self.assertEqual([self.figure(k) for k in ("ctas", "records", "load", "store", "commLoad")], ["3", "25", "16 B", "68 B", "16 B"])
        comm = json.loads(subprocess.run([BIN + "/mt-extract", "-s", "misses,bounces", self.trace], capture_output=True, check=True).stdout)
        self.assertEqual(self.page.run("memtraceReport.data.misses"), comm["misses"])
        self.assertEqual([(b["times"], b["same"]) for b in comm["bounces"]], [(8, 8)])  # thread 2 finds the lines shared
        self.assertEqual({m["line"]: m["misses"] for m in comm["misses"]["lines"] if "app" in m["line"]}, {"/src/app.c:10": 8, "/src/app.c:20": 16})

    def test_lines(self):
        """Misses and what is used, by line: of 8 lines of 64 bytes, each of which a thread fetches for 8 bytes, 8 * 8 of 512 are used."""
        heads = self.page.run("[...document.querySelectorAll('#lines .code th')].map((c) => c.textContent)")
        rows = self.page.run("[...document.querySelectorAll('#lines .code tr[data-line]')].map((r) => [...r.cells].map((c) => c.textContent.trim()))")
        rows = {r[0]: dict(zip(heads, r)) for r in rows}
        self.assertEqual({n: (r["misses"], r["used"].replace("\u00a0", " ")) for n, r in rows.items() if n in ("10", "20")}, {"10": ("8", "12.5 %"), "20": ("16", "1.6 %")})

    def test_buffers(self):
        rows = self.page.run("[...document.querySelectorAll('#buffers tbody tr')].map((r) => [...r.cells].map((c) => c.textContent))")
        self.assertEqual([r[:4] for r in rows], [["#0 malloc app.c:5", "app.c:5", "1", "512"], ["#1 malloc", "app.c:6", "1", "100"]])
        self.assertEqual([r[-1] for r in rows], ["–", "never touched"])

    def test_glance_is_the_summary(self):
        said = subprocess.run([BIN + "/mt-extract", "-f", "summary", self.trace], capture_output=True, text=True, check=True).stdout
        glance = self.page.run("[...document.querySelectorAll('#glance li')].map((l) => [...l.childNodes].filter((n) => n.tagName !== 'A').map((n) => n.textContent).join('').trim())")
        def plain(text):
            return text.replace("\u00a0", " ").strip()
        self.assertEqual(sorted(plain(g) for g in glance), sorted(plain(line[2:]) for line in said.splitlines()[1:] if line[:2] in ("! ", "- ")))


if __name__ == "__main__":
    main()
