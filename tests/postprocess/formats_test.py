#!/usr/bin/env python3
"""memtrace extract --format=csv, sqlite and dot on random traces: the same figures as comm.json, ranges as counted here.

usage: formats_test.py BIN [CASES] [SEED] [GEN_HOST]     a failing case is kept and its folder printed
"""
import csv
import io
import json
import os
import random
import re
import shutil
import sqlite3
import subprocess
import sys
import tempfile

import brute
import host_traces
import property_test as cases

VOLUMES = ["KCV", "KDV", "CCV", "CDV", "SCV", "SDV", "HCV", "HDV"]


def run(command, ok=(0, 3)):
    p = subprocess.run(command, capture_output=True, text=True)
    if p.returncode not in ok:
        raise AssertionError("%s: exit code %d: %s" % (" ".join(command), p.returncode, p.stderr))
    return p


def flatten_volumes(out):
    rows = set()
    for s in VOLUMES:
        for kernel, steps in out.get(s, {}).items():
            for step, v in steps.items():
                if s[0] in "KH":
                    name, key = ("<host>", kernel) if s[0] == "H" else (kernel, "")
                    rows.add((s, name, int(step), key, v["Load"], v["Store"]))
                else:
                    rows.update((s, kernel, int(step), key, c["Load"], c["Store"]) for key, c in v.items())
    return rows


def flatten_transfers(out):
    return {(p[0], p[1], int(p[2]), p[3], p[4], int(p[5]), t["Size"], t["cnt"], int(t.get("unordered", False)))
            for p, t in cases.leaves(out.get("transfers", {}), 6)}


def rows_of(text):
    return list(csv.reader(io.StringIO(text, newline="")))


def check_csv(tool, args, out):
    rows = rows_of(run([tool, "--format=csv", *args]).stdout)
    assert rows[0] == ["section", "kernel", "superstep", "key", "load", "store"], rows[0]
    got = [(r[0], r[1], int(r[2]), r[3], int(r[4]), int(r[5])) for r in rows[1:]]
    assert len(got) == len(set(got)), "a row stands twice"
    assert set(got) == flatten_volumes(out), set(got) ^ flatten_volumes(out)
    rows = rows_of(run([tool, "--format=csv", "-s", "transfers", *args]).stdout)
    got = [(r[0], r[1], int(r[2]), r[3], r[4], int(r[5]), int(r[6]), int(r[7]), int(r[8])) for r in rows[1:]]
    assert len(got) == len(set(got)) and set(got) == flatten_transfers(out)


def merge(ranges):
    """Half-open, sorted, neither overlapping nor touching."""
    out = []
    for a, b in sorted(ranges):
        if out and a <= out[-1][1]:
            out[-1][1] = max(out[-1][1], b)
        else:
            out.append([a, b])
    return [tuple(r) for r in out]


def expected_ranges(launches, selected):
    """launches: lists of (smid, type, size, address, cta) in launch order."""
    want = set()
    for number, records in enumerate(launches):
        sets = {}
        for _, kind, size, address, cta in records:
            sets.setdefault((cta, kind), []).append((address, address + size))
        for (cta, kind), ranges in sets.items():
            if number in selected:
                want.update((number, *cta, kind, a, b) for a, b in merge(ranges))
    return want


def check_sqlite(tool, args, out, folder, launches, whole):
    path = os.path.join(folder, "out.db")
    code = run([tool, "--format=sqlite", "--tag=a tag", "-o", path, *args]).returncode
    db = sqlite3.connect(path)
    q = lambda sql: set(db.execute(sql))
    assert q("PRAGMA integrity_check") == {("ok",)} and q("PRAGMA foreign_key_check") == set()
    assert q("SELECT value FROM meta WHERE key = 'complete'") == {("0" if code else "1" if whole else "not known",)}
    got = {("KCV", k, n, "", cl, cs) for n, k, _, _, cl, cs, *_ in q("SELECT * FROM kernel_volumes")}
    got |= {("KDV", k, n, "", l, s) for n, k, l, s, *_ in q("SELECT * FROM kernel_volumes")}
    senders = {(k, int(n), v["same_launch"], v["earlier_launch"], v["same_cta"]) for k, steps in out["senders"].items() for n, v in steps.items()}
    assert q("SELECT kernel, launch, from_same_launch, from_earlier_launch, from_same_cta FROM kernel_volumes") == senders
    assert q("SELECT sum(comm_load) - sum(from_same_launch) - sum(from_earlier_launch) - sum(from_same_cta) FROM sm_volumes") <= {(0,), (None,)}
    for name, load, store in (("CCV", "comm_load", "comm_store"), ("CDV", "load", "store")):
        got |= q("SELECT '%s', kernel, launch, x || ',' || y || ',' || z, sum(%s), sum(%s) FROM cta_volumes v "
                 "JOIN launches l ON l.id = v.launch GROUP BY launch, x, y, z" % (name, load, store))
    for name, load, store in (("SCV", "comm_load", "comm_store"), ("SDV", "load", "store")):
        got |= q("SELECT '%s', kernel, launch, CAST(sm AS TEXT), %s, %s FROM sm_volumes v JOIN launches l ON l.id = "
                 "v.launch" % (name, load, store))
    want = {r for r in flatten_volumes(out) if r[0][0] != "H"}
    assert got == want, got ^ want
    end = ("coalesce({0}.kernel, '<host>'), coalesce({1}_x || ',' || {1}_y || ',' || {1}_z, {2}.place), "
           "coalesce({1}_launch, {2}.superstep)")
    got = list(db.execute("SELECT " + end.format("a", "src", "p") + ", " + end.format("b", "dst", "q") +
                          ", bytes, accesses, unordered FROM transfers LEFT JOIN launches a ON a.id = src_launch "
                          "LEFT JOIN launches b ON b.id = dst_launch LEFT JOIN host_volumes p ON p.id = src_host "
                          "LEFT JOIN host_volumes q ON q.id = dst_host"))
    assert len(got) == len(set(got)) and set(got) == flatten_transfers(out), set(got) ^ flatten_transfers(out)
    assert q("SELECT (SELECT count(*) FROM transfers WHERE src_host), (SELECT count(*) FROM transfers WHERE dst_host)") == {
        (sum(t[0] == "<host>" for t in got), sum(t[3] == "<host>" for t in got))}, "the host is true, its first place, too"
    kernels = q("SELECT id, tag, kernel, launch FROM kernels")
    assert all(t == "a tag" and i == n for i, t, _, n in kernels)
    reported = {i for i, in q("SELECT id FROM launches WHERE selected")}
    assert {k for k, in q("SELECT kernel FROM kernel_volumes")} == set(out["KDV"])
    got = q("SELECT kernel, x, y, z, kind, start, stop FROM ctas")
    if all(r[3] + r[2] < 2**63 for records in launches for r in records):
        assert got == expected_ranges(launches, reported), got ^ expected_ranges(launches, reported)
    db.close()
    return path


def check_dot(tool, args, out):
    want = {"cta": {}, "launch": {}, "kernel": {}}
    for sk, sc, ss, dk, dc, ds, size, count, _ in flatten_transfers(out):
        for by, src, dst in (("cta", (sk, sc, ss), (dk, dc, ds)),
                             ("launch", (sk, sc if sk == "<host>" else ss), (dk, dc if dk == "<host>" else ds)),
                             ("kernel", (sk, sc if sk == "<host>" else ""), (dk, dc if dk == "<host>" else ""))):
            if by == "cta":  # the host's places are one node each
                src, dst = (x[:2] if x[0] == "<host>" else x for x in (src, dst))
            key = (src, dst)
            b, n = want[by].get(key, (0, 0))
            want[by][key] = (b + size, n + count)
    for by, edges in want.items():
        text = run([tool, "--format=dot", "--by=" + by, "--edges=0", *args]).stdout
        got = sorted((int(b), int(n)) for b, n in re.findall(r'-> \w+ \[.*tooltip="(\d+) bytes in (\d+) accesses"', text))
        assert got == sorted(edges.values()), (by, got, sorted(edges.values()))
        nodes = {n for e in edges for n in e}
        assert len(re.findall(r"^  [nh]\d+ \[label", text, re.M)) == len(nodes), (by, nodes, text)
        if edges:
            text = run([tool, "--format=dot", "--by=" + by, "--edges=1", *args]).stdout
            assert text.count("->") == 1
            biggest = int(re.search(r'tooltip="(\d+) bytes', text)[1])
            assert biggest == max(b for b, _ in edges.values())
            assert ("the 1 largest of %d transfers" % len(edges) in text) == (len(edges) > 1)


def in_order(data, metas):
    """Records of all launches in launch order."""
    return [[(r["sm"], brute.TYPES.index(r["type"]), r["size"], r["addr"], r["cta"]) for r in e[2]]
            for e in brute.order(data, metas, False) if e[0] == "launch"]


def one(bin_folder, seed, gen_host):
    rng = random.Random(seed)
    data, metas, options, _, accesses = cases.make_case(rng, gen_host is not None)
    options["sections"] = cases.SECTIONS[:10] # without addresses
    folder = tempfile.mkdtemp(prefix="mt-formats-", dir=os.environ.get("MT_TEST_TMP"))
    paths = cases.write_case(folder, data, metas)
    tool = os.path.join(bin_folder, "mt-extract")
    if accesses is not None:
        paths.append(os.path.join(folder, "host.mtc"))
        host_traces.write(gen_host, paths[-1], host_traces.script(accesses))
    command = cases.command(tool, paths, options)
    args = [a for a in command[1:] if a not in ("--sections", ",".join(options["sections"]))]
    try:
        out = json.loads(run(command).stdout)
        check_csv(tool, args, out)
        check_dot(tool, args, out)
        check_sqlite(tool, args, out, folder, in_order(data, metas), None not in metas)
    except Exception:
        print("seed %d, kept in %s: %s" % (seed, folder, " ".join(args)))
        raise
    shutil.rmtree(folder)


def usage(tool):
    for args, word in ((["--format=sqlite", "x"], "needs a file"), (["--format=csv", "-s", "KCV,transfers", "x"], "one table"),
                       (["--format=csv", "-s", "addresses", "x"], "addresses"), (["--format=dot", "-s", "KCV", "x"], "transfers"),
                       (["--format=pickle", "x"], "json, sqlite, csv, dot"), (["--edges=-1", "x"], "number")):
        p = run([tool, *args], ok=(2,))
        assert word in p.stderr, (args, p.stderr)


def main():
    bin_folder, count = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 40
    first = int(sys.argv[3]) if len(sys.argv) > 3 else 1
    usage(os.path.join(bin_folder, "mt-extract"))
    for seed in range(first, first + count):
        one(bin_folder, seed, sys.argv[4] if len(sys.argv) > 4 else None)
    print("%d cases" % count)


if __name__ == "__main__":
    main()
