#!/usr/bin/env python3
"""Traces of very many launches or pages: what one costs in memory, where memory is limited, and sums by kernel counted by hand. usage: launches_test.py BIN_FOLDER
[--memory]"""
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from traces import LOAD, STORE, companion, record, trace  # noqa: E402

BIN = os.path.abspath(sys.argv[1])
BASE, LINE, LINES = 0x10000, 128, 5
FEW, MANY = 20000, 60000
# most bytes of memory that a launch of its own adds
MOST = (("two runs compared", 1300, ["mt-compare", "--volumes"], 2), ("the page", 3200, ["mt-report"], 1), ("reuse", 1700, ["mt-extract", "-s", "reuse"], 1),
        ("volumes", 900, ["mt-extract", "-s", "KDV"], 1))


def records(i):
    """Launch i stores to 1 + i % LINES lines from two CTAs, each to bytes of its own, and loads the first word again."""
    own = [record(cta, STORE, 4, BASE + LINE * k + 64 * cta, (cta, 0, 0)) for k in range(1 + i % LINES) for cta in range(2)]
    return own + [record(0, LOAD, 4, BASE, (0, 0, 0))]


def kernel(i):
    return "even" if i % 2 == 0 else "odd"


def make(folder, n):
    """A compact trace of n launches, with the companion that its program would have written beside it."""
    raw, path = os.path.join(folder, f"raw-{n}"), os.path.join(folder, f"{n}.mtc")
    launches = [(kernel(i), records(i)) for i in range(n)]
    events = [{"ev": "alloc", "seq": 1, "id": 0, "base": hex(BASE), "bytes": LINE * LINES, "kind": "cudaMalloc", "file": "/x/a.cu", "line": 3}]
    events += [{"ev": "launch", "seq": 10 + i, "called": 10 + i, "kernel": kernel(i), "mangled": "_Z" + kernel(i), "signature": kernel(i) + "(int*)", "stream": 0,
                "grid": [2, 1, 1], "block": [1, 1, 1], "file": "/x/a.cu", "line": 5, "begin_ns": 100 * i, "end_ns": 100 * i + 7, "records": len(r), "traced": True}
               for i, (_, r) in enumerate(launches)]
    sums = sum(len(r) for _, r in launches)
    with open(raw, "wb") as f:
        f.write(trace(launches))
    for name in (raw, path):
        with open(name + ".meta", "w", encoding="utf-8") as f:
            f.write(companion(events, None, {"records_written": sums, "records_counted": sums}))
    subprocess.run([BIN + "/mt-convert", "--to=mtc", "-o", path, raw], check=True)
    return path


# A process begins with the most memory of the one that starts it: a small one does.
PEAK = """import os, subprocess, sys
null = subprocess.DEVNULL
p = subprocess.Popen(sys.argv[1:], stdout=null, stderr=null)
_, status, usage = os.wait4(p.pid, 0)
print(status, usage.ru_maxrss)
"""


def peak(*command):
    """Bytes of memory that a command had at most."""
    status, kib = map(int, subprocess.run([sys.executable, "-c", PEAK, *command], capture_output=True, check=True).stdout.split())
    assert status == 0, (command, status)
    return 1024 * kib


def memory(few, many):
    for what, most, (tool, *options), runs in MOST:
        peaks = [peak(os.path.join(BIN, tool), *options, "--threads=2" if tool != "mt-compare" else "--format=json", *[path] * runs) for path in (few, many)]
        a_launch = (peaks[1] - peaks[0]) / (MANY - FEW)
        assert a_launch < most, f"{what}: {a_launch:.0f} bytes for a launch"


def sums(path, n):
    """Comparing adds launches of a kernel up while it reads."""
    out = json.loads(subprocess.run([BIN + "/mt-compare", "--volumes", "--format=json", path, path], capture_output=True, check=True).stdout)
    assert out["verdict"] == "same", out
    assert {k["a"] for k in out["kernels"]} == {"even", "odd"}
    for k in out["kernels"]:
        of = [i for i in range(n) if kernel(i) == k["a"]]
        lines = [1 + i % LINES for i in of]
        for figure, want in (("launches", len(of)), ("stored", 8 * sum(lines)), ("loaded", 4 * len(of)), ("largest_launch", LINE * max(lines)),
                             ("falsely_shared", 2 * sum(lines) + len(of))):
            assert k[figure]["a"] == k[figure]["b"] == want, (k["a"], figure, k[figure], want)
        [buffer] = k["buffers"]
        assert buffer["falsely_shared"]["b"] == 2 * sum(lines) + len(of), buffer


def histograms(path, n):
    """memtrace extract has each launch: the load is the second use of its line, by a CTA that used 1 + i % LINES lines since."""
    out = json.loads(subprocess.run([BIN + "/mt-extract", "-s", "reuse", path], capture_output=True, check=True).stdout)["reuse"]["kernels"]
    for i in range(0, n, 7):
        r, lines = out[kernel(i)][str(i)], 1 + i % LINES
        distance = lines - 1
        bucket = str(1 << (distance.bit_length() - 1) if distance else 0)
        assert r["CTA"]["cold"] == 2 * lines and r["CTA"]["histogram"] == {bucket: 1}, (i, r)
        assert r["CTA"]["lines"] == 2 * lines and r["CTA"]["largest"] == lines and r["uses"] == 2 * lines + 1, (i, r)


def sparse(folder, pages):
    """One byte of each page, stored by one launch and loaded by another CTA in the next."""
    path = os.path.join(folder, f"sparse-{pages}")
    with open(path, "wb") as f:
        f.write(trace([(name, [record(0, kind, 1, BASE + 4096 * i, (x, 0, 0)) for i in range(pages)]) for name, kind, x in (("put", STORE, 0), ("get", LOAD, 1))]))
    return path


def page(folder):
    """What a page costs of which one byte is used: far less than entries for all its bytes (16 KB, with the readers twice that)."""
    few, many = (sparse(folder, n) for n in (5000, 30000))
    for sections, most in (("KCV,KDV", 2500), ("quick", 3500), ("all,more", 14000)):
        peaks = [peak(BIN + "/mt-extract", "-s", sections, "--no-companion", path) for path in (few, many)]
        a_page = (peaks[1] - peaks[0]) / 25000
        assert a_page < most, f"-s {sections}: {a_page:.0f} bytes for a page"


def limited(folder):
    """Where addresses are limited, reading ends in time, says why and what needs less, and what was read has its results."""
    path, limit = sparse(folder, 200000), 320 << 20
    command = [BIN + "/mt-extract", "-s", "KDV,transfers,more", "--threads=1", "--no-companion", path]
    whole = subprocess.run(command, capture_output=True, check=False)
    assert whole.returncode == 0 and b"memory" not in whole.stderr, (whole.returncode, whole.stderr)
    some = subprocess.run(command, capture_output=True, check=False, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)))
    words = some.stderr.decode()
    assert some.returncode == 3, (some.returncode, words)
    for part in ("memory runs out: ", "until ulimit -v", "--launches=A..B reads less", "-s quick", "interrupted after"):
        assert part in words, (part, words)
    whole, some = json.loads(whole.stdout), json.loads(some.stdout)
    assert whole["records"] == 400000 and 1000 < some["records"] < 200000 and not some["complete"], some["records"]
    assert some["KDV"] == {"put": {"0": {"Load": 0, "Store": some["records"]}}}, some["KDV"]
    assert any("interrupted after" in note for note in some["notes"])


folder = tempfile.mkdtemp(prefix="mt-launches-")
try:
    paths = [make(folder, n) for n in (FEW, MANY)]
    sums(paths[0], FEW)
    histograms(paths[0], FEW)
    if "--memory" in sys.argv:
        memory(*paths)
        page(folder)
        limited(folder)
finally:
    shutil.rmtree(folder)
print("launches: sums by kernel, histograms and memory of each launch")
