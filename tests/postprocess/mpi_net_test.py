#!/usr/bin/env python3
"""memtrace extract under mpirun on four hosts that have nothing but TCP between them: network namespaces, joined by a bridge. The
same bytes as memtrace extract alone, and as many bytes on the wires as the ranks say that they sent.

usage: mpi_net_test.py BIN_FOLDER GEN_TRACE GEN_DEVICE     exit code 77 (skipped) where there is no MPI or no namespaces
"""
import json
import os
import random
import subprocess
import sys
import tempfile

import traces

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from netns import HOSTS, NAMES, enter, impossible, mpirun, sent_on_wires


def table(text):
    """Lines of --stats as dictionaries."""
    lines = [line.split() for line in text.decode().splitlines() if line[:4].strip().isdigit() or line.startswith("rank ")]
    names = [n for n in lines[0] if n not in ("MB",)]
    return [dict(zip(names, line)) for line in lines[1:]]


def same(ranks, folder, *args):
    alone = subprocess.run(args, stdin=subprocess.DEVNULL, capture_output=True)
    before = sent_on_wires()
    together = mpirun(ranks, folder, *args, "--stats")
    assert (alone.returncode, alone.stdout) == (together.returncode, together.stdout), (args, together.returncode, together.stderr)
    assert alone.returncode == 0 and alone.stdout, alone.stderr
    rows = table(together.stderr)
    assert [int(r["rank"]) for r in rows] == list(range(ranks)), together.stderr
    assert {r["host"] for r in rows} == set(NAMES), together.stderr
    assert sum(int(r["accesses"]) for r in rows) == json.loads(alone.stdout)["records"], together.stderr
    assert abs(sum(float(r["sent"]) for r in rows) - sum(float(r["got"]) for r in rows)) < 0.01 * ranks, together.stderr
    for i, (old, new) in enumerate(zip(before, sent_on_wires())):
        said = sum(float(r["sent"]) for r in rows if r["host"] == NAMES[i]) * 1e6
        if ranks > len(HOSTS):  # those of one host have it among themselves, in part
            said /= 2
        assert new - old > said, (i, new - old, together.stderr)
    return together.stderr


def write_raw(path):
    """Rows that take turns, accesses anywhere, and some that lie in regions of two ranks."""
    rng = random.Random(3)
    launches = []
    for k in range(4):
        base, records = 0x7F0000000000, []
        for cta in range(60):
            for t in range(64):
                at = base + 4 * (64 * cta + t)
                records += [traces.record(cta % 4, 0, 4, at + k % 2 * 65536, (cta, 0, 0)),
                            traces.record(cta % 4, 1, 4, at + (k + 1) % 2 * 65536, (cta, 0, 0))]
            for _ in range(100):
                size = rng.choice([1, 4, 8, 16])
                records.append(traces.record(cta % 4, rng.choice([0, 1, 2]), size, base + rng.randrange(1 << 20) // 4 * 4, (cta, 0, 0)))
            records.append(traces.record(cta % 4, 2, 8, base + 65536 * rng.randrange(1, 9) - 4, (cta, 0, 0)))
        launches.append(("kernel%d" % (k % 3), records))
    with open(path, "wb") as f:
        f.write(traces.trace(launches))


def inside(folder, gen_trace, gen_device):
    program = os.path.join(sys.argv[1], "mt-extract")
    raw, compact, regular = (os.path.join(folder, name) for name in ("raw", "compact.mtc", "regular"))
    write_raw(raw)
    with open(compact, "wb") as f:
        subprocess.run([gen_device, "7", "1", compact, "16"], stdout=subprocess.DEVNULL, check=True)
    with open(regular, "wb") as f:
        subprocess.run([gen_trace, "stencil", "4000000"], stdout=f, check=True)
    same(4, folder, program, "-s", "all,more", raw)
    same(4, folder, program, "-s", "all,more", compact)
    same(8, folder, program, "-s", "quick", raw)
    print(same(4, folder, program, "-s", "quick", regular).decode())
    print("four hosts: the same bytes over TCP")


def main():
    why = impossible()
    if not why and not os.path.exists(os.path.join(sys.argv[1], "../libexec/memtrace/mt-extract-mpi")):
        why = "mt-extract-mpi was not built"
    if why:
        print(why + ": skipped")
        return 77
    enter()
    inside(tempfile.mkdtemp(dir="/run"), *sys.argv[2:4])
    return 0


if __name__ == "__main__":
    sys.exit(main())
