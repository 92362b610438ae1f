#!/usr/bin/env python3
"""trace.py BUILD: the traces of test_driver's kernels against counts by hand, and their files and lines."""
import glob
import json
import os
import subprocess
import sys
import tempfile

# kernel: loads and stores of 4 bytes (atomics are both), over all of its launches in test_driver
ADD = 2 * 1000
COUNT = 64 * 64
ACROSS = 1 << 20
IOTA = ACROSS + 5 + 5 + 50
# down: a load, a store and an atomic in each of 7 rounds
TOGETHER = 2 * 8 * 64  # three atomics and a load each

build = sys.argv[1]
for options in "", "--divide=0":  # each module as one image, and each kernel with its own
    with tempfile.TemporaryDirectory() as folder:
        env = dict(os.environ, MEMTRACE_DIR=folder, MEMTRACE_CACHE=os.path.join(build, "tests", "cache"), MEMTRACE_PTX_OPTIONS=options)
        run = subprocess.run([os.path.join(build, "tests/bin/test_driver")], env=env, capture_output=True, text=True, timeout=300)
        if run.returncode:
            sys.exit(run.stdout + run.stderr)
        for missing in "cuTexObjectGetResourceDesc", "cuImportExternalMemory":
            if run.stderr.count(missing) != 1:
                sys.exit("the missing function was not named once:\n" + run.stderr)
        out = subprocess.run([os.path.join(build, "bin/mt-extract"), folder], capture_output=True, text=True, timeout=300)
        if out.returncode:
            sys.exit(out.stderr)
        got = json.loads(out.stdout)
        bytes_of = {}
        for kernel, launches in got["KDV"].items():
            for v in launches.values():
                load, store = bytes_of.get(kernel, (0, 0))
                bytes_of[kernel] = load + v["Load"], store + v["Store"]
        want = {"add": (8 * ADD, 4 * ADD), "count": (4 * COUNT, 4 * COUNT), "iota": (0, 4 * IOTA), "k": (4, 4), "seldom": (4, 4), "pairs": (32, 24),
                "down": (7 * 8, 7 * 8), "together": (16 * TOGETHER, 12 * TOGETHER)}
        if bytes_of != want or not got["complete"]:
            sys.exit(f"bytes are {bytes_of}, expected {want}; complete: {got['complete']} {got['notes']}")
        text = "".join(open(f).read() for f in glob.glob(folder + "/*.meta"))
        for kind in ('"ev":"memcpy"', '"ev":"memset"', '"ev":"alloc"'):
            if kind not in text:
                sys.exit(f"no companion has a line with {kind}")
print("kernels, bytes and copies are as counted by hand")
