#!/usr/bin/env python3
"""memtrace extract under mpirun against memtrace extract alone: the same bytes and exit codes, and no rank waits for one that failed.

usage: mpi_test.py BIN_FOLDER GEN_HOST GEN_DEVICE [CASES]     exit code 77 (skipped) where there is no MPI
"""
import json
import os
import random
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

sys.path.append(os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "container"))
import host_traces
import mtc
import property_test
import traces

BIN, GEN_HOST, GEN_DEVICE = sys.argv[1:4]
CASES = int(sys.argv[4]) if len(sys.argv) > 4 else 60
PROGRAM, CONVERT = os.path.join(BIN, "mt-extract"), os.path.join(BIN, "mt-convert")
ENVIRONMENT = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
                   OMPI_MCA_rmaps_base_oversubscribe="1", OMPI_MCA_btl_vader_single_copy_mechanism="none")
FURTHER = ["lines", "coalescing", "reuse", "sharing", "conflicts", "traffic", "placement"]
ROUND = 1 << 17  # records a rank (round_mpi.h)
LIMIT = 120  # seconds; a hang fails the test


def mpirun(ranks, *args):
    return subprocess.run(["mpirun", "--oversubscribe", "-n", str(ranks), *args], env=ENVIRONMENT, stdin=subprocess.DEVNULL,
                          capture_output=True, timeout=LIMIT)


def write_case(seed, folder):
    """Arguments of memtrace extract for a random case."""
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
        same((2, 4, 3, 3)[seed % 4], write_case(seed, folder), "seed %d" % seed)
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
    for ranks in (1, 2):
        same(ranks, [PROGRAM, path], "big, %d ranks" % ranks)
    same(2, [PROGRAM, "-s", "KCV,transfers,sharing,placement", path], "with further sections")
    same(3, [PROGRAM, "-s", "more", "--sample=4", "--line-size=32", path], "all further sections")
    same(4, [PROGRAM, "--format=text", "-s", "more", "--kernels=kernel[12]", path], "as text, some kernels")
    return path


def turns(folder):
    """Threads that do the same one after another, as loops over threads leave it: apart, on each other's bytes, backwards, from
    region to region, of two owners at once."""
    rng = random.Random(11)
    launches = []
    for k in range(8):
        records = []
        for cta in range(30):
            where = 0x7F0000000000 + rng.randrange(1 << 16) * 8
            ways = [(rng.choice([0, 0, 1, 2]), rng.choice([1, 4, 8]), where + rng.choice([0, 4, 64, 65536, 3 << 16]), rng.choice([4, 8, -4, 0, 3]))
                    for _ in range(rng.randint(1, 9))]
            for t in range(rng.randint(1, 300)):
                records += [traces.record(cta % 4, kind, size, at + t * step, (cta % 20, 0, 0)) for kind, size, at, step in ways]
        launches.append(("kernel%d" % k, records))
    path = os.path.join(folder, "turns")
    with open(path, "wb") as f:
        f.write(traces.trace(launches))
    subprocess.run([CONVERT, "-o", path + ".mtc", path], check=True)
    same(2, [PROGRAM, "-s", "all", path], "turns")
    same(3, [PROGRAM, "-s", "all", "--strict", path + ".mtc"], "turns, compact")
    same(3, [PROGRAM, "-s", "quick", "--same-cta=local", path], "turns, local")


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
    assert same(4, [PROGRAM, big], "big and compact").returncode == 0
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
        assert same(3 if what in ("type", "cut") else 2, [PROGRAM, "-s", "quick", bad], what).returncode == 3
    rows = [traces.record(0, 1, 4, 64 + 4 * i, (i, 0, 0)) for i in range(700)]  # no rank reads all of them
    with open(bad, "wb") as f:
        f.write(traces.trace([("k", rows)]))
    for code, picked in ((0, rows[:129] + [rows[256], rows[512]]), (3, rows[:129] + [rows[256], rows[513]])):
        with open(bad + ".meta", "w") as f:
            f.write(traces.companion([{"ev": "launch", "seq": 1, "kernel": "k", "traced": True, "records": 700, "sample": hex(mtc.xxh3(b"".join(picked)))}],
                                     None, {"records_written": 700, "records_counted": 700}))
        r = same(2, [PROGRAM, "-s", "quick", bad], "another run's companion")
        assert r.returncode == code and (b"launch 0 (byte 3) has other records" in r.stderr) == bool(code), r.stderr


def failures(folder, path):
    """None of these may wait for ever; each says why."""
    r = mpirun(3, PROGRAM, os.path.join(folder, "nowhere"))
    assert r.returncode == 2 and r.stderr.count(b"cannot open") == 1, r.stderr
    r = mpirun(2, PROGRAM, "--no-such-option", path)
    assert r.returncode == 2 and r.stderr.count(b" is unknown") == 1, r.stderr
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


def catches(pid_file, number):
    """Is there a process, and has it a handler for the signal?"""
    try:
        with open(pid_file) as f, open("/proc/%d/status" % int(f.read())) as status:
            caught = next(line for line in status if line.startswith("SigCgt"))
        with open(pid_file) as f, open("/proc/%d/comm" % int(f.read())) as comm:
            return int(caught.split()[1], 16) >> (number - 1) & 1 and comm.read().startswith("mt-extract-mpi")
    except FileNotFoundError:
        return False


def interrupted(folder):
    """One rank is told to stop before the first record is read: all stop after the first round, and the
    output is that of a trace which ends there."""
    rng = random.Random(7)
    records = [traces.record(i // 64 % 5, rng.choice([0, 1, 2]), 4, 0x7F0000000000 + rng.randrange(1 << 16) * 4,
                             (i // 640 % 50, 0, 0)) for i in range(300000)]
    path, short = os.path.join(folder, "long"), os.path.join(folder, "long-short")
    meta = traces.companion([{"ev": "launch", "seq": 1, "kernel": "k", "traced": True, "records": 300000, "untraced": 0}],
                            None, {"records_written": 300000, "records_counted": 300000})
    for name, part in ((path, records), (short, records[:2 * ROUND])):
        with open(name, "wb") as f:
            f.write(traces.trace([("k", part)]))
    with open(path + ".json", "w") as f:
        f.write(meta)
    alone = subprocess.run([PROGRAM, "-s", "quick", "--no-companion", short], capture_output=True, check=True)
    for number, sections in ((signal.SIGTERM, "quick"), (signal.SIGINT, "all,more")):
        # Rank 0 waits for its companion, the others for rank 0; meanwhile rank 1 is told.
        fifo, pid = os.path.join(folder, "fifo"), os.path.join(folder, "pid")
        os.mkfifo(fifo)
        held = os.open(fifo, os.O_RDWR)
        options = [PROGRAM, "-s", sections, path, "--companion"]
        command = ["mpirun", "--oversubscribe", "-n", "1", *options, fifo, ":", "-n", "1", "sh", "-c",
                   'echo $$ > "$0.new" && mv "$0.new" "$0" && exec "$@"', pid, *options, path + ".json"]
        p = subprocess.Popen(command, env=ENVIRONMENT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        killer = threading.Timer(LIMIT, p.kill)
        killer.start()
        while p.poll() is None and not catches(pid, number):
            time.sleep(0.01)
        with open(pid) as f:
            os.kill(int(f.read()), number)
        os.write(held, meta.encode())
        while p.poll() is None and select.select([held], [], [], 0)[0]:  # until rank 0 has taken it
            time.sleep(0.01)
        os.close(held)
        os.unlink(fifo)
        os.unlink(pid)
        out, err = p.communicate()
        killer.cancel()
        assert p.returncode == 3 and b"stopped while reading" in err, (p.returncode, err)
        got, expected = json.loads(out), json.loads(alone.stdout)
        assert not got["complete"] and got["records"] == 2 * ROUND, (got["complete"], got["records"])
        for section in ("KCV", "KDV", "CCV", "CDV", "SCV", "SDV", "transfers"):
            assert got[section] == expected[section], section
        if sections != "quick":
            assert any("further analyses are left out" in note for note in got["notes"]) and "reuse" not in got, got["notes"]
            assert got["addresses"] == {}


def main():
    if not shutil.which("mpirun") or not os.path.exists(os.path.join(BIN, "../libexec/memtrace/mt-extract-mpi")):
        print("no MPI here: skipped")
        return 77
    folder = tempfile.mkdtemp(prefix="mt-mpi-")
    path = big_case(folder)
    turns(folder)
    compact_cases(folder, path)
    damaged(folder, path)
    failures(folder, path)
    interrupted(folder)
    shutil.rmtree(folder)
    random_cases()
    print("%d random traces and a big one: the same bytes under mpirun" % CASES)
    return 0


if __name__ == "__main__":
    sys.exit(main())
