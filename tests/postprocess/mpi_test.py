#!/usr/bin/env python3
"""mt-extract under mpirun against mt-extract alone: the same bytes and exit codes, and no rank waits for one that failed.

usage: mpi_test.py BIN_FOLDER GEN_HOST GEN_DEVICE [CASES]     exit code 77 (skipped) where there is no MPI
"""
import os
import random
import shutil
import subprocess
import sys
import tempfile

import host_traces
import property_test
import traces

BIN, GEN_HOST, GEN_DEVICE = sys.argv[1:4]
CASES = int(sys.argv[4]) if len(sys.argv) > 4 else 60
PROGRAM, CONVERT = os.path.join(BIN, "mt-extract"), os.path.join(BIN, "mt-convert")
ENVIRONMENT = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
                   OMPI_MCA_rmaps_base_oversubscribe="1", OMPI_MCA_btl_vader_single_copy_mechanism="none")
FURTHER = ["lines", "coalescing", "reuse", "sharing", "conflicts", "placement"]
LIMIT = 120  # seconds; a hang fails the test


def mpirun(ranks, *args):
    return subprocess.run(["mpirun", "--oversubscribe", "-n", str(ranks), *args], env=ENVIRONMENT, stdin=subprocess.DEVNULL,
                          capture_output=True, timeout=LIMIT)


def write_case(seed, folder):
    """Arguments of mt-extract for a random case."""
    rng = random.Random(seed)
    with_host = seed % 3 == 0
    data, metas, options, _, accesses = property_test.make_case(rng, with_host)
    if seed % 2:  # the ranks' order of things must not show in any of them
        options["sections"] = options["sections"] + rng.sample(FURTHER, rng.choice([1, 2, 6]))
    given = []
    compact = seed % 4 in (1, 2)
    for i, (d, m) in enumerate(zip(data, metas)):
        given.append(os.path.join(folder, "t%d" % i))
        with open(given[-1], "wb") as f:
            f.write(d)
        if m is not None:
            with open(given[-1] + ".meta", "w") as f:
                f.write(m)
        if compact and i == 0:  # beside raw traces, if there are more
            subprocess.run([CONVERT, "-o", given[-1] + ".mtc", given[-1]], stderr=subprocess.DEVNULL)
            given[-1] += ".mtc"
    if accesses is not None:
        host_traces.write(GEN_HOST, os.path.join(folder, "host.mtc"), host_traces.script(accesses), 1)
        given.append(os.path.join(folder, "host.mtc"))
    return property_test.command(PROGRAM, given, options)


def same(ranks, args, what):
    alone = subprocess.run(args, stdin=subprocess.DEVNULL, capture_output=True)
    together = mpirun(ranks, *args)
    assert alone.returncode == together.returncode, (what, args, alone.returncode, together.returncode, together.stderr)
    assert alone.stdout == together.stdout, (what, args, together.stderr)
    assert alone.stdout or alone.returncode == 2
    return alone


def random_cases():
    for seed in range(1, CASES + 1):
        folder = tempfile.mkdtemp(prefix="mt-mpi-")
        same((2, 4, 3, 1)[seed % 4], write_case(seed, folder), "seed %d" % seed)
        shutil.rmtree(folder)


def big_case(folder):
    """Many batches, launches of every length, all regions; what a rank reads comes from every other one."""
    rng = random.Random(5)
    launches = []
    for k in range(12):
        base, size = 0x7F0000000000, rng.choice([4, 8, 16])
        n = rng.choice([0, 1, 7, 20000, 60000]) if k < 11 else 5000
        records = []
        for i in range(n):
            address = base + rng.randrange(1 << 20) // 4 * 4 if i % 5 else base + 65536 * rng.randrange(1, 9) - 4
            records.append(traces.record(i // 50 % 7, rng.choice([0, 0, 1, 2]), size, address, (i // 300 % 40, k % 2, 0)))
        launches.append(("kernel%d" % (k % 3), records))
    path = os.path.join(folder, "big")
    with open(path, "wb") as f:
        f.write(traces.trace(launches))
    for ranks in (1, 2, 4):
        same(ranks, [PROGRAM, path], "big, %d ranks" % ranks)
    same(2, [PROGRAM, "-s", "KCV,transfers,sharing,placement", path], "with further sections")
    same(3, [PROGRAM, "-s", "more", "--sample=4", "--line-size=32", path], "all further sections")
    same(4, [PROGRAM, "--format=text", "-s", "more", "--kernels=kernel[12]", path], "as text, some kernels")
    return path


def compact_cases(folder, path):
    """Warps, gathers and several chunks a launch, of several streams; as they are, without index, and damaged."""
    container = os.path.join(folder, "random.mtc")
    for seed in range(1, CASES // 2 + 1):
        with open(container, "wb") as f:
            subprocess.run([GEN_DEVICE, str(seed), str(seed % 2), container, "16"], stdout=subprocess.DEVNULL, check=True)
        r = same((2, 3, 4)[seed % 3], [PROGRAM, "-s", ("quick", "CDV,transfers,more", "all,more", "more")[seed % 4], container], "compact %d" % seed)
        assert r.returncode == 0, r.stderr
    big = os.path.join(folder, "big.mtc")
    subprocess.run([CONVERT, "-o", big, path], check=True)
    with open(big, "rb") as f:
        data = f.read()
    for ranks in (1, 2, 4):
        assert same(ranks, [PROGRAM, big], "big and compact, %d ranks" % ranks).returncode == 0
    middle = len(data) // 2
    for what, bad in (("cut", data[:-40]), ("flipped", data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1:])):
        with open(big, "wb") as f:
            f.write(bad)
        assert same(3, [PROGRAM, "-s", "quick", big], "compact, " + what).returncode == 3


def damaged(folder, path):
    """What one alone makes of it: a record that cannot be, in the last rank's part; an end that is missing."""
    with open(path, "rb") as f:
        data = f.read()
    for what, at, change in (("type", len(data) - 24 * 9, b"\x04\0\0\x70"), ("size", len(data) - 24 * 5, bytes(4)),
                             ("end", len(data) - 3, b"abc"), ("cut", None, None)):
        bad = os.path.join(folder, "bad-" + what)
        with open(bad, "wb") as f:
            f.write(data[:-30] if at is None else data[:at] + change + data[at + len(change):])
        for ranks in (2, 3):
            assert same(ranks, [PROGRAM, "-s", "quick", bad], what).returncode == 3


def failures(folder, path):
    """None of these may wait for ever; each says why."""
    r = mpirun(3, PROGRAM, os.path.join(folder, "nowhere"))
    assert r.returncode == 2 and r.stderr.count(b"cannot open") == 1, r.stderr
    r = mpirun(2, PROGRAM, "--no-such-option", path)
    assert r.returncode == 2 and r.stderr.count(b"unknown or incomplete option") == 1, r.stderr
    r = mpirun(2, PROGRAM, "-")
    assert r.returncode == 2 and b"several ranks cannot all read it" in r.stderr, r.stderr
    # One rank's machine has no such file, or another one.
    r = mpirun(1, PROGRAM, path, ":", "-n", "2", PROGRAM, os.path.join(folder, "nowhere"))
    assert r.returncode == 2 and b"rank 1 cannot begin" in r.stderr, r.stderr
    other = os.path.join(folder, "other")
    with open(other, "wb") as f:
        f.write(traces.trace([("k", [traces.record(0, 1, 4, 64, (9, 9, 9))])]))
    short = os.path.join(folder, "short")
    with open(short, "wb") as f:
        f.write(traces.trace([("k", [traces.record(0, 1, 4, 64, (9, 9, 9))] * 3)]))
    r = mpirun(1, PROGRAM, other, ":", "-n", "1", PROGRAM, short)
    assert r.returncode == 1 and b"the ranks read different traces" in r.stderr, (r.returncode, r.stderr)
    assert not r.stdout
    # A full disk on rank 0, after the others are done.
    r = mpirun(2, PROGRAM, "-o", "/dev/full", path)
    assert r.returncode == 1 and b"No space left" in r.stderr, r.stderr


def main():
    if not shutil.which("mpirun") or not os.path.exists(PROGRAM + "-mpi"):
        print("no MPI here: skipped")
        return 77
    folder = tempfile.mkdtemp(prefix="mt-mpi-")
    path = big_case(folder)
    compact_cases(folder, path)
    damaged(folder, path)
    failures(folder, path)
    shutil.rmtree(folder)
    random_cases()
    print("%d random traces and a big one: the same bytes under mpirun" % CASES)
    return 0


if __name__ == "__main__":
    sys.exit(main())
