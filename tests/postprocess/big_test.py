#!/usr/bin/env python3
"""Regular traces of millions of records against figures computed by hand. usage: big_test.py BIN_FOLDER GEN_TRACE"""
import json
import os
import subprocess
import sys

BIN, GEN = sys.argv[1:3]  # --memory: memory does not grow with the records
LAUNCH = 2 * 512 * 512 * 16 + 512 * 512  # records of matmul16: each thread loads an element of two tiles 16 times, and stores one


def extract(pattern, records, *options):
    gen = subprocess.Popen([GEN, pattern, str(records)], stdout=subprocess.PIPE)
    out = subprocess.run([BIN + "/mt-extract", *options, "-"], stdin=gen.stdout, capture_output=True, check=True)
    assert gen.wait() == 0
    return json.loads(out.stdout)


def totals(volumes):
    return {s: (v["Load"], v["Store"]) for k in volumes.values() for s, v in k.items()}


def stencil():
    """4096 CTAs of 256 cells; cell i is read by cells i-1, i, i+1, so 3 loads of 4 bytes per cell."""
    n, ctas = 4096 * 256, 4096
    got = extract("stencil", 2 * 4 * n)
    assert got["records"] == 2 * 4 * n
    assert totals(got["KDV"]) == {"0": (12 * n, 4 * n), "1": (12 * n, 4 * n)}
    assert totals(got["KCV"]) == {"0": (0, 4 * n), "1": (12 * n, 0)}
    t = got["transfers"]["stencil(float const*, float*)"]
    for c in (0, 1, 77, ctas - 1):
        to = t["%d,0,0" % c]["0"]["stencil(float const*, float*)"]
        expected = {"%d,0,0" % (c - 1): 1, "%d,0,0" % c: 3 * 256 - 2, "%d,0,0" % (c + 1): 1}
        # at the ends of the row the clamped neighbour is the cell itself
        expected["%d,0,0" % c] += (c == 0) + (c == ctas - 1)
        expected = {k: v for k, v in expected.items() if k not in ("-1,0,0", "%d,0,0" % ctas)}
        assert {k: v["1"] for k, v in to.items()} == {k: {"Size": 4 * v, "cnt": v} for k, v in expected.items()}, (c, to)
    local = extract("stencil", 2 * 4 * n, "--same-cta=local")
    assert totals(local["KCV"])["1"] == (4 * 2 * (ctas - 1), 0)


def matmul():
    """C = A * B with 1024 x 1024 floats in 32 x 32 tiles: each CTA loads 32 tiles of A and of B."""
    loads = 2 * 1024 * 1024 * 32
    got = extract("matmul", 1, "--sections", "KDV,CDV,SDV,KCV")
    assert totals(got["KDV"]) == {"0": (4 * loads, 4 * 1024 * 1024)}
    assert totals(got["KCV"]) == {"0": (0, 0)}
    ctas = got["CDV"]["matmul<32>(float*, float*, float*)"]["0"]
    assert len(ctas) == 1024 and set(map(str, ctas.values())) == {str({"Load": 4 * loads // 1024, "Store": 4096})}
    assert len(got["SDV"]["matmul<32>(float*, float*, float*)"]["0"]) == 16
    keys = [tuple(map(int, k.split(",")))[::-1] for k in ctas]
    assert keys == sorted(keys)


def single_bytes():
    n = 4096 * 256
    got = extract("bytes", 2 * 4 * n, "--sections", "KCV,KDV")
    assert totals(got["KDV"]) == {"0": (3 * n, n), "1": (3 * n, n)}
    assert totals(got["KCV"]) == {"0": (0, n), "1": (3 * n, 0)}


def peak(launches):
    """Records read from a pipe, and the most memory that memtrace extract had (KiB)."""
    gen = subprocess.Popen([GEN, "matmul16", str((launches - 1) * LAUNCH + 1)], stdout=subprocess.PIPE)
    out = subprocess.Popen([BIN + "/mt-extract", "-s", "quick", "--threads=2", "-"], stdin=gen.stdout,
                           stdout=subprocess.PIPE)
    gen.stdout.close()
    text = out.stdout.read()
    _, status, usage = os.wait4(out.pid, 0)
    assert gen.wait() == 0 and status == 0
    return json.loads(text)["records"], usage.ru_maxrss


def memory():
    """Five times the records over the same bytes: the same memory, but for the CTAs of four launches. A tenth of a byte for each
    record would show."""
    records, small = peak(1)
    assert records == LAUNCH
    records, big = peak(5)
    assert records == 5 * LAUNCH
    assert big < 1.2 * small, (small, big)


stencil()
matmul()
single_bytes()
if "--memory" in sys.argv:
    memory()
print("stencil, matmul and single bytes: volumes and transfers as computed by hand")
