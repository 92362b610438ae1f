"""What the tests of memtrace report's pages share: a trace that becomes a page, and the page in a browser."""
import atexit
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
BIN, SOURCE = map(os.path.abspath, sys.argv[1:3])
sys.path[:0] = [os.path.join(SOURCE, "tests/postprocess"), os.path.join(SOURCE, "tools/pictures")]
import chromium
from traces import trace

EVIL = "<script>document.title='taken'</script><img src=x onerror=alert(1)>"


def run(*command, code=0):
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    if done.returncode != code:
        raise AssertionError(f"{command}: {done.returncode}\n{done.stderr}")
    return done.stdout


def leaves(transfers):
    """(from, CTA, superstep, to, CTA, superstep, bytes, accesses) of a comm.json."""
    for source, ctas in transfers.items():
        for cta, steps in ctas.items():
            for step, targets in steps.items():
                for target, to in targets.items():
                    for to_cta, at in to.items():
                        for to_step, leaf in at.items():
                            yield source, cta, int(step), target, to_cta, int(to_step), leaf["Size"], leaf["cnt"]


def grouped(n):
    return f"{n:,}"


class Case(unittest.TestCase):
    page = None  # one browser for all classes

    @classmethod
    def setUpClass(cls):
        cls.dir = tempfile.mkdtemp(prefix="mt-page-")
        cls.addClassCleanup(shutil.rmtree, cls.dir)
        cls.make()
        if not Case.page:
            Case.page = chromium.Page()
            atexit.register(Case.page.close)

    @classmethod
    def make(cls):
        pass

    @classmethod
    def path(cls, name):
        return os.path.join(cls.dir, name)

    @classmethod
    def write(cls, name, data):
        with open(cls.path(name), "wb") as f:
            f.write(data if isinstance(data, bytes) else data.encode())
        return cls.path(name)

    def setUp(self):
        self.page.problems.clear()

    def tearDown(self):
        self.assertEqual(self.page.problems, [])

    def figure(self, key):
        return self.page.run(f"document.querySelector('[data-figure={key}]').dataset.exact")

    def table(self, name):
        """Heads and rows of a table, as the page shows them (all must fit)."""
        self.page.click(f"#tables [role=tab][data-table={name}]")
        return self.page.run("[...document.querySelectorAll('#tables table tr:not(.pad)')].map((r) => [...r.children].map((c) => c.textContent.trim()))")

    def glance(self):
        return dict(self.page.run("[...document.querySelectorAll('#glance li')].map((i) => [i.dataset.glance, i.innerText.replace(/\\s+/g, ' ')])"))

    def cta_map_words(self):
        return self.page.run("(() => { const p = CanvasRenderingContext2D.prototype, f = p.fillText, out = []; p.fillText = function (t, ...r) { out.push(t); f.call(this, t, ...r); };"
                             "memtraceReport.panels.transfers.ctas.draw(); p.fillText = f; return out; })()")

    def map_sum(self, panel):
        return self.page.run(f"(() => {{ const s = memtraceReport.panels.transfers.{panel}.sums(); const f = (a) => a.reduce((x, y) => x + y, 0);"
                             "return [f(s.bytes), f(s.count)]; })()")


def main():
    """usage: …_test.py BIN_FOLDER SOURCE_FOLDER. Exit code 77: there is no Chromium."""
    if not chromium.PROGRAM:
        print("no Chromium here: the pages are not tested")
        sys.exit(77)
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
