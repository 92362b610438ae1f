#!/usr/bin/env python3
"""The alloc, free and cut lines of a container say who owns what: replayed here, they must give the owners that the
brute-force model of test_index has at the end. usage: test_lines.py TEST_INDEX"""
import os
import subprocess
import sys
import tempfile

import hosttrace

GRAIN = 64


def main():
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        out = subprocess.run([sys.argv[1], "20000", "5", "0", "t.mtc"], check=True, capture_output=True, text=True).stdout
        meta, _, _ = hosttrace.read("t.mtc")
        owner = {True: {}, False: {}}  # layer is maps -> grain -> id
        kind, seqs = {}, []

        def paint(layer, low, high, new, old=None):
            for g in range(low // GRAIN, (high + GRAIN - 1) // GRAIN):
                if old is None or owner[layer].get(g) == old:
                    owner[layer][g] = new

        for m in meta:
            if m["ev"] not in ("alloc", "free", "cut"):
                continue
            base = int(m["base"], 16)
            seqs.append(m["seq"])
            if m["ev"] == "alloc":
                kind[m["id"]] = (m["kind"] in ("mmap", "brk"), base, base + m["bytes"])
                paint(kind[m["id"]][0], base, base + m["bytes"], m["id"])
            elif m["ev"] == "free":
                assert base == kind[m["id"]][1]
                paint(*kind[m["id"]], None, m["id"])
            else:
                paint(kind[m["id"]][0], base, base + m["bytes"], None, m["id"])
        assert seqs == sorted(seqs)
        compared = 0
        for line in out.splitlines():
            word = line.split()
            if word[0] == "own":
                address, block, held = map(int, word[1:])
                got = [owner[layer].get(address // GRAIN) for layer in (False, True)]
                want = [block - 1 if block else None, held - 1 if held else None]
                assert got == want, (hex(address), got, want)
                compared += 1
        assert compared == 16384


main()
