#!/usr/bin/env python3
"""Insn mode of the core against what prog_insn says it executed. usage: test_insn.py PROGRAM CASE"""
import os
import subprocess
import sys
import tempfile

import hosttrace

PROGRAM = sys.argv[1]


def run(threads, count, *options, env=None):
    done = subprocess.run([PROGRAM, str(threads), str(count), "insn", *options], text=True, timeout=100,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={**os.environ, **(env or {})})
    assert done.returncode == 0, (done.returncode, done.stderr)
    return done.stdout, done.stderr


def parse(path):
    """[(ip, head fields, [(order, operands)])], by what docs/trace-format.md says."""
    out = []
    with open(path) as f:
        for line in f:
            word = line.rstrip("\n").split("\t")
            if word[0]:
                ip, text, reads, writes = word
                assert ip[:2] == "0x" and reads[:2] == "R:" and writes[:2] == "W:", line
                out.append((int(ip, 16), (text, reads, writes), []))
                continue
            operands = [(word[i], int(word[i + 1], 16), int(word[i + 2])) for i in range(2, len(word), 3)]
            assert all(o[0] in "RW" for o in operands)
            out[-1][2].append((int(word[1]), operands))
    return out


def expected(out):
    got = {}
    for line in out.splitlines():
        word = line.split()
        operands = [(word[i], int(word[i + 1]), int(word[i + 2])) for i in range(2, len(word), 3)]
        got.setdefault(int(word[1]), []).append((int(word[0]), operands))
    return [(ip, *got[ip]) for ip in sorted(got)]


def text():
    for count in (1, 100, 60000):
        out, err = run(1, count, "-o", "t.txt")
        assert not err, err
        got = parse("t.txt")
        for ip, head, _ in got:
            k = (5000 - ip) // 3
            assert head == ("op%d eax, [rbx]" % k, "R:r%d xmm1*" % k, "W:eax"), head
        assert [(ip, *e) for ip, _, e in got] == expected(out)


def threads():
    """The order is one over all threads, without gaps; a container has the same executions."""
    run(6, 20000, "-o", "t.txt")
    got = parse("t.txt")
    assert [g[0] for g in got] == sorted(g[0] for g in got)
    orders = sorted(o for g in got for o, _ in g[2])
    assert orders == list(range(120000))
    for g in got:
        assert [o for o, _ in g[2]] == sorted(o for o, _ in g[2])
    for env in ({}, {"SYN_SPAWN": "1"}):
        run(6, 5000, "-o", "t.mtc", env=env)
        meta, chunks, tail = hosttrace.read("t.mtc")
        ops = {m["id"]: m["op"] for m in meta if m["ev"] == "site"}
        assert tail and [m["text"] for m in meta if m["ev"] == "site" and "text" in m][3] == "op3 eax, [rbx]"
        orders = []
        for items in hosttrace.by_thread(chunks).values():
            last = -1
            for _, i in items:
                if i[0] != "access":
                    continue
                if i[1] % 4 == 0:
                    assert ops[i[1]] == "exec" and i[4] > last
                    orders.append(i[4])
                    last = i[4]
                else:
                    assert i[4] == last and ops[i[1]] in ("load", "store")
        assert sorted(orders) == list(range(30000))


def full():
    """No scratch file, or no room in it."""
    done = subprocess.run([PROGRAM, "1", "10", "insn", "-o", "t.txt"], env={**os.environ, "TMPDIR": "/no/where"},
                          capture_output=True, text=True)
    assert done.returncode == 1 and "TMPDIR" in done.stderr, done.stderr
    out, err = run(1, 30000, "-o", "t.txt", env={"SYN_FSIZE": "900000"})
    assert err.count("\n") == 1 and "scratch file" in err and "File too large" in err, err
    got = [(ip, *e) for ip, _, e in parse("t.txt")]
    want = expected(out)
    assert 0 < len(got) and all(set(map(str, g[1:])) <= set(map(str, w[1:])) for g, w in zip(got, want))


def main():
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        globals()[sys.argv[2]]()


main()
