#!/usr/bin/env python3
"""examples/demo.sh from end to end: its table against the formulas, its pictures, its comm.json files.
usage: test_demo.py BUILD_DIR"""
import importlib.util
import json
import os
import re
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree as xml

sys.dont_write_bytecode = True
EXAMPLES = os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..", "examples")
ARGUMENTS = {"stencil_1d": [5, 64, 4], "producer_consumer": [4, 64, 2]}  # the demo's; else the defaults
SVG = "{http://www.w3.org/2000/svg}"


def expectation(name):
    spec = importlib.util.spec_from_file_location(name, os.path.join(EXAMPLES, name, "expect.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def rows(list_):
    """Of a list in the page's data, with the names of its columns."""
    return [dict(zip(list_["columns"], row)) for row in list_["rows"]]


class Demo(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="memtrace-demo-")
        cls.out = os.path.join(cls.folder.name, "with a space")
        process = subprocess.run([os.path.join(EXAMPLES, "demo.sh"), BUILD, cls.out], capture_output=True, text=True)
        cls.text, cls.said = process.stdout, process.stderr
        if process.returncode:
            raise AssertionError(f"demo.sh: exit code {process.returncode}\n{process.stdout}{process.stderr}")

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def table(self):
        """{example: (launches, records, (bytes from the same launch, from other CTAs of earlier ones, from the same CTA), streams)}."""
        rows = re.findall(r"^(\w+) +(\d+) +([\d,]+) +([\d,]+) +([\d,]+) +([\d,]+) (\d) trace \+ \d companion$", self.text, re.M)
        rows = [(r[0], *(int(n.replace(",", "")) for n in r[1:])) for r in rows]
        return {r[0]: (r[1], r[2], r[3:6], r[6]) for r in rows}

    def test_table(self):
        table = self.table()
        names = sorted(n for n in os.listdir(EXAMPLES) if os.path.exists(os.path.join(EXAMPLES, n, "expect.py")))
        self.assertEqual(sorted(table), names)
        for name in names:
            module = expectation(name)
            args = ARGUMENTS.get(name, module.DEFAULTS)
            launches = module.launches(args, "-O2")
            records = sum(n for launch in launches for cta in launch["ctas"].values() for n in cta.values())
            streams = len({launch["stream"] for launch in launches})
            self.assertEqual((table[name][0], table[name][1], table[name][3]), (len(launches), records, streams), name)
            if name.startswith(("stencil", "producer")):
                who = [0, 0, 0]
                for (_, cta, step, _, reader, at), (size, _) in module.transfers(args).items():
                    who[0 if step == at else 2 if cta == reader else 1] += size
                self.assertEqual(table[name][2], tuple(who), name)

    def test_pictures(self):
        pictures = re.findall(r"^  (/.*)\.svg \(\.png, \.dot\)$", self.text, re.M)
        self.assertEqual(len(pictures), 5, self.text)
        for picture in pictures:
            root = xml.parse(picture + ".svg").getroot()
            classes = [g.get("class") for g in root.iter(SVG + "g")]
            self.assertGreater(classes.count("node"), 2, picture)
            self.assertGreater(classes.count("edge"), 2, picture)
            with open(picture + ".png", "rb") as f:
                self.assertEqual(f.read(8), b"\x89PNG\r\n\x1a\n")

    def test_transfer_picture(self):
        """One arrow per entry of the stencil's transfer map, and one from the host to each CTA."""
        ctas, threads, steps = args = ARGUMENTS["stencil_1d"]
        root = xml.parse(os.path.join(self.out, "stencil_1d", "transfers.svg")).getroot()
        edges = [g for g in root.iter(SVG + "g") if g.get("class") == "edge"]
        self.assertEqual(len(edges), len(expectation("stencil_1d").transfers(args)) + ctas)
        words = [t.text for t in root.iter(SVG + "text")]
        self.assertEqual(words.count("12 B"), 2 * (ctas - 1) * (steps - 1))
        self.assertEqual(words.count(f"{4 * threads} B"), ctas * (steps - 1))

    def reports(self):
        if "no reports" in self.said:
            self.skipTest("mt-report is not built")
        return re.findall(r"^  (/.*report\.html)$", self.text, re.M)

    def test_reports(self):
        """A page per example; what it says of the stencil is in test_transfer_picture's formula, too."""
        reports = self.reports()
        self.assertEqual(len(reports), len(self.table()))
        for path in reports:
            with open(path, encoding="utf-8") as f:
                data = json.loads(re.search(r'<script id="data" type="application/json">(.*?)</script>', f.read(), re.S)[1])
            self.assertTrue(data["complete"], path)
            self.assertEqual(data["totals"]["records"], self.table()[os.path.basename(os.path.dirname(path))][1])
            if "/stencil" in path or "/producer" in path: # in others the order of CTAs matters, which varies from run to run
                between = sum(t["size"] for t in rows(data["transfers"]) if data["kernels"][t["source"]] != "<host>")
                self.assertEqual(between, sum(self.table()[os.path.basename(os.path.dirname(path))][2]), path)
            # Each byte that is loaded or stored is so by a line and in a buffer or symbol that the trace knows.
            for places in (data["lines"]["lines"], data["lines"]["allocations"]):
                volumes = [v for kernels in places.values() for v in kernels.values()]
                self.assertEqual(sum(v["Load"] for v in volumes), sum(launch["load"] for launch in rows(data["launches"])), path)
                self.assertEqual(sum(v["Store"] for v in volumes), sum(launch["store"] for launch in rows(data["launches"])), path)

    def test_tutorial(self):
        """A page with shared memory, whose column of 32 words is 32-way conflicts, and one of the two versions."""
        self.reports()
        with open(os.path.join(self.out, "tutorial", "report.html"), encoding="utf-8") as f:
            data = json.loads(re.search(r'<script id="data" type="application/json">(.*?)</script>', f.read(), re.S)[1])
        # turn runs twice; its 64 CTAs of 8 warps load four columns each
        tile = [r for r in data["shared"]["banks"]["rows"] if r["kernel"] == "turn" and r["type"] == "load"]
        self.assertEqual([(r["variable"], r["requests"], r["wavefronts"], r["ideal"], r["worst"]) for r in tile], [("tile", 2 * 64 * 8 * 4, 32 * 4096, 4096, 32)])
        self.assertEqual(data["shared"]["hazards"]["rows"], [])
        with open(os.path.join(self.out, "tutorial", "both.html"), encoding="utf-8") as f:
            self.assertIn("B is mixed", f.read())

    def test_lanes(self):
        """c[i] = a[i] + b[i]: all lanes of all accesses are 4 bytes from their neighbours."""
        self.reports()
        folder = os.path.join(self.out, "vector_add", "compact")
        graph = json.loads(subprocess.run([os.path.join(BUILD, "bin/mt-graph"), "--lanes", "-f", "json", os.path.join(folder, "MemTrace-pipe-0.mtc")],
                                          capture_output=True, check=True).stdout)
        self.assertEqual({n["stride"] for n in graph["nodes"]}, {4})
        self.assertEqual(sorted(n["type"] for n in graph["nodes"]), ["read", "read", "write"])
        self.assertEqual(len({n["count"] for n in graph["nodes"]}), 1)

    def test_comm(self):
        for name in self.table():
            with open(os.path.join(self.out, name, "comm.json"), encoding="utf-8") as f:
                self.assertTrue(json.load(f)["complete"], name)


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    BUILD = sys.argv.pop(1)
    unittest.main()
