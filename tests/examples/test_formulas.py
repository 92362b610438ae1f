#!/usr/bin/env python3
"""The examples' formulas against enumeration: every thread of every CTA is walked, its accesses are counted one by
one, and the last writer of every cell is remembered. No trace and no tool takes part."""
import importlib.util
import os
import sys
import unittest

sys.dont_write_bytecode = True
EXAMPLES = os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..", "examples")


def expectation(name):
    spec = importlib.util.spec_from_file_location(name, os.path.join(EXAMPLES, name, "expect.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Walk:
    """Counts accesses of one launch after another and who reads what from whom."""

    def __init__(self):
        self.launches, self.transfers, self.host, self.writer = [], {}, {}, {}

    def begin(self, kernel, stream=0):
        self.launches.append((kernel, stream, {}))

    def access(self, cta, kind, size, cell=None):
        kernel, _, ctas = self.launches[-1]
        counts = ctas.setdefault(cta, {})
        counts[kind, size] = counts.get((kind, size), 0) + 1
        if cell is None:
            return
        step = len(self.launches) - 1
        if kind == "load":
            source = self.writer.get(cell)
            if source == "host":
                self.host[step] = self.host.get(step, 0) + size
            elif source and source != (kernel, cta, step):
                bytes_, times = self.transfers.get(source + (kernel, cta, step), (0, 0))
                self.transfers[source + (kernel, cta, step)] = bytes_ + size, times + 1
        else:
            self.writer[cell] = kernel, cta, step

    def result(self):
        return self.launches


def wanted(launches):
    out = []
    for launch in launches:
        ctas = {cta: {k: n for k, n in counts.items() if n} for cta, counts in launch["ctas"].items()}
        out.append((launch["kernel"], launch["stream"], {cta: counts for cta, counts in ctas.items() if counts}))
    return out


class Formulas(unittest.TestCase):
    def compare(self, module, args, walk):
        self.assertEqual(wanted(module.launches(args, "-O2")), walk.result())
        if hasattr(module, "transfers"):
            self.assertEqual(module.transfers(args), walk.transfers)
        if hasattr(module, "host_bytes"):
            self.assertEqual(module.host_bytes(args), walk.host)

    def test_vector_add(self):
        module = expectation("vector_add")
        for n, threads, count in ([1000, 128, 2], [1, 1, 1], [257, 256, 1], module.QUICK):
            walk = Walk()
            for _ in range(count):
                walk.begin("vector_add")
                for i in range(-(-n // threads) * threads):
                    if i < n:
                        for kind in ("load", "load", "store"):
                            walk.access((i // threads, 0, 0), kind, 4)
            self.compare(module, [n, threads, count], walk)

    def test_matrix_multiply(self):
        module = expectation("matrix_multiply")
        for count, wa, ha, wb in ([1, 64, 32, 96], module.QUICK):
            walk = Walk()
            for _ in range(count):
                walk.begin("matrix_multiply")
                for row in range(ha):
                    for column in range(wb):
                        cta = column // 32, row // 32, 0
                        for _ in range(0, wa, 32):
                            walk.access(cta, "load", 4)
                            walk.access(cta, "load", 4)
                        walk.access(cta, "store", 4)
            # The order of first touch differs between the two; dicts compare without it.
            self.compare(module, [count, wa, ha, wb], walk)

    def test_stencil_1d(self):
        module = expectation("stencil_1d")
        for ctas, threads, steps in ([1, 8, 2], [2, 3, 3], [5, 32, 3], module.DEFAULTS):
            walk, n = Walk(), ctas * threads
            walk.writer = {(0, i): "host" for i in range(n)}
            for step in range(steps):
                walk.begin("stencil_1d")
                for i in range(n):
                    cta, t = (i // threads, 0, 0), i % threads
                    walk.access(cta, "load", 4, (step % 2, i))
                    if t < 3 and i - 3 >= 0:
                        walk.access(cta, "load", 4, (step % 2, i - 3))
                    if t < 3 and i + threads < n:
                        walk.access(cta, "load", 4, (step % 2, i + threads))
                for i in range(n):
                    walk.access((i // threads, 0, 0), "store", 4, ((step + 1) % 2, i))
            self.compare(module, [ctas, threads, steps], walk)

    def test_stencil_2d(self):
        module = expectation("stencil_2d")
        for gx, gy, steps in ([1, 1, 2], [2, 1, 2], [1, 3, 2], [3, 3, 3], module.DEFAULTS):
            walk, width, height = Walk(), gx * 16, gy * 8
            cells = [(x, y) for y in range(height) for x in range(width)]
            walk.writer = {(0, cell): "host" for cell in cells}
            for step in range(steps):
                walk.begin("stencil_2d")
                for x, y in cells:
                    edge = x in (0, width - 1) or y in (0, height - 1)
                    for cell in [(x, y)] if edge else [(x - 1, y), (x + 1, y), (x, y - 1), (x, y + 1)]:
                        walk.access((x // 16, y // 8, 0), "load", 4, (step % 2, cell))
                for x, y in cells:
                    walk.access((x // 16, y // 8, 0), "store", 4, ((step + 1) % 2, (x, y)))
            self.compare(module, [gx, gy, steps], walk)

    def test_reduction(self):
        module = expectation("reduction")
        for n, ctas, threads in ([1000, 3, 64], [1, 4, 32], [385, 4, 96], module.QUICK):
            walk = Walk()
            for kernel, last in (("reduce_atomic", "atomic"), ("reduce_partial", "store")):
                walk.begin(kernel)
                for t in range(ctas * threads):
                    for i in range(t, n, ctas * threads):
                        walk.access((t // threads, 0, 0), "load", 4, None)
                    if t % threads == 0:
                        walk.access((t // threads, 0, 0), last, 4, ("partial", t) if last == "store" else None)
            walk.begin("reduce_final")
            for i in range(ctas):
                walk.access((0, 0, 0), "load", 4, ("partial", i * threads))
            walk.access((0, 0, 0), "store", 4)
            self.assertEqual(wanted(module.launches([n, ctas, threads], "-O2")), walk.result())
            self.assertEqual(module.transfers([n, ctas, threads]), walk.transfers)

    def test_histogram(self):
        module = expectation("histogram")
        for n, ctas, threads in ([1000, 3, 96], [5, 4, 32], [1, 1, 1]):
            walk = Walk()
            for kernel in ("histogram_global", "histogram_shared"):
                walk.begin(kernel)
                for t in range(ctas * threads):
                    cta = t // threads, 0, 0
                    for _ in range(t, n, ctas * threads):
                        walk.access(cta, "load", 1)
                        if kernel == "histogram_global":
                            walk.access(cta, "atomic", 4)
                    if kernel == "histogram_shared":
                        for _ in range(t % threads, 256, threads):
                            walk.access(cta, "atomic", 4)
            self.compare(module, [n, ctas, threads], walk)

    def test_producer_consumer(self):
        module = expectation("producer_consumer")
        for ctas, threads, rounds in ([3, 32, 3], [1, 1, 1], [4, 5, 4]):
            walk = Walk()
            for r in range(rounds):
                walk.begin("produce", 0)
                for i in range(ctas * threads):
                    walk.access((i // threads, 0, 0), "store", 4, (r % 2, i))
                walk.begin("consume", 1)
                for i in range(ctas * threads):
                    c, t = divmod(i, threads)
                    walk.access((c, 0, 0), "load", 4, (r % 2, (ctas - 1 - c) * threads + t))
                    walk.access((c, 0, 0), "store", 4, ("out", r, i))
            self.compare(module, [ctas, threads, rounds], walk)

    def test_halo_exchange(self):
        module = expectation("halo_exchange")
        for width, rows, steps, devices in ([4, 3, 1, 2], [33, 9, 2, 3], [5, 1, 1, 1], [3, 1, 1, 4]):
            walk = Walk()
            for _ in range(steps):
                for d in range(devices):
                    walk.begin("step", d)
                    for y in range(d * rows, (d + 1) * rows):
                        for x in range(width):
                            edge = x in (0, width - 1) or y in (0, devices * rows - 1)
                            for _ in range(1 if edge else 4):
                                walk.access((x // 32, (y - d * rows) // 8, 0), "load", 4)
                            walk.access((x // 32, (y - d * rows) // 8, 0), "store", 4)
            self.assertEqual(wanted(module.launches([width, rows, steps], "-O2", devices)), walk.result())

    def test_sites_are_lines_of_the_program(self):
        for name in sorted(os.listdir(EXAMPLES)):
            program = os.path.join(EXAMPLES, name, name + ".cu")
            if os.path.exists(program):
                with open(program, encoding="utf-8") as f:
                    lines = {line.strip() for line in f}
                self.assertEqual([s for s in expectation(name).SITES if s not in lines], [], name)

    def test_figures_in_readmes(self):
        """matrix_multiply's figures as the README says them."""
        module = expectation("matrix_multiply")
        (launch,) = module.launches(module.DEFAULTS, "-O2")
        self.assertEqual(len(launch["ctas"]), 200)
        self.assertEqual(set(map(str, launch["ctas"].values())), {str({("load", 4): 20480, ("store", 4): 1024})})
        with open(os.path.join(EXAMPLES, "matrix_multiply", "README.md"), encoding="utf-8") as f:
            text = f.read()
        for figure in ("20,480", "1,024", "4,096,000", "204,800", "200 CTAs"):
            self.assertIn(figure, text)


if __name__ == "__main__":
    unittest.main()
