#!/usr/bin/env python3
"""Atomic mode of the core, with prog_atomic as program and engine in one. usage: test_atomic.py PROGRAM CASE"""
import collections
import os
import re
import subprocess
import sys
import tempfile
import threading
import time

import hosttrace

PROGRAM = sys.argv[1]
LINE = re.compile(r"(\d+)\t(-1|\d+)\t(?:(m)((?:\tr\t\d+\t\d+)?(?:\tr2\t\d+)?(?:\tw\t\d+\t\d+)?)|(tr|tf|start_roi|end_roi|"
                  r"ctxt_change|thread_sync)|(fc)\t([^\t]+)((?:\t\d+){4})|(fr)\t([^\t]+)((?:\t\d+){2}))\n")


def run(what, threads, count, *options, env=None, seconds=300, code=0):
    done = subprocess.run([PROGRAM, what, str(threads), str(count), "atomic", *options], text=True, timeout=seconds,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={**os.environ, **(env or {})})
    assert done.returncode == code, (done.returncode, done.stdout, done.stderr)
    return done.stdout, done.stderr


class Entry:
    def __init__(self, time, thread, kind):
        self.time, self.thread, self.kind = time, thread, kind
        self.r = self.r2 = self.w = self.size = self.wsize = None
        self.rest = None


def parse(path):
    """A strict parser of its own: every byte of the file belongs to a line of the format."""
    out = []
    with open(path) as f:
        for number, text in enumerate(f, 1):
            m = LINE.fullmatch(text)
            assert m, "%s:%d: %r" % (path, number, text)
            e = Entry(int(m[1]), int(m[2]), m[3] or m[5] or m[6] or m[9])
            if m[3]:
                assert m[4], "%s:%d: empty access" % (path, number)
                words = m[4].split("\t")[1:]
                while words:
                    what = words.pop(0)
                    if what == "r":
                        e.r, e.size = int(words.pop(0)), int(words.pop(0))
                    elif what == "r2":
                        assert e.r is not None
                        e.r2 = int(words.pop(0))
                    else:
                        e.w, e.wsize = int(words.pop(0)), int(words.pop(0))
            elif m[6]:
                e.rest = (m[7], *map(int, m[8].split("\t")[1:]))
            elif m[9]:
                e.rest = (m[10], *map(int, m[11].split("\t")[1:]))
            out.append(e)
    return out


def lamport(entries, block=64):
    """Per thread in the order of the file, times do not go back; accesses of one block have all different times."""
    last, seen = collections.defaultdict(int), collections.defaultdict(set)
    for e in entries:
        assert e.time >= last[e.thread], "thread %d goes back to %d" % (e.thread, e.time)
        if e.kind == "m":
            assert e.time > last[e.thread]
            blocks = set()
            for address, size in ((e.r, e.size), (e.r2, e.size), (e.w, e.wsize)):
                if address is not None:
                    blocks.update(range(address // block, (address + max(size, 1) - 1) // block + 1))
            for b in blocks:
                assert e.time not in seen[b], "two accesses of block %d at %d" % (b, e.time)
                seen[b].add(e.time)
        last[e.thread] = e.time


def merge(entries):
    """Streaming merge by the newest time seen of each thread that runs: (sorted entries, most that had to wait)."""
    newest, waiting, out, most = {}, [], [], 0
    import heapq
    for i, e in enumerate(entries):
        if e.thread >= 0:
            newest[e.thread] = e.time
        heapq.heappush(waiting, (e.time, i, e))
        if e.kind == "tf":
            del newest[e.thread]
        floor = min(newest.values(), default=e.time)
        most = max(most, len(waiting))
        while waiting and waiting[0][0] <= floor:
            out.append(heapq.heappop(waiting)[2])
    while waiting:
        out.append(heapq.heappop(waiting)[2])
    for a, b in zip(out, out[1:]):
        assert a.time <= b.time, "merge put %d after %d" % (b.time, a.time)
    return out, most


def truth(stdout):
    counts, failed, counter = {}, {}, None
    for line in stdout.splitlines():
        word = line.split()
        if word[0] == "counter":
            counter = int(word[1])
        elif word[0] == "thread":
            counts[int(word[1])] = (int(word[2]), int(word[3]))
        elif word[0] == "failed":
            failed[int(word[1])] = int(word[2])
    return counter, counts, failed


def replay(entries, counter):
    """Increments and even values before them, per thread, from the trace alone."""
    value, got = 0, collections.defaultdict(lambda: [0, 0])
    for e in sorted(entries, key=lambda e: e.time):
        if e.kind == "m" and e.r == counter and e.w == counter:
            got[e.thread][0] += 1
            got[e.thread][1] += value % 2 == 0
            value += 1
    return {t: tuple(c) for t, c in got.items()}


def same(stdout, path):
    entries = parse(path)
    counter, counts, failed = truth(stdout)
    lamport(entries)
    merge(entries)
    if failed:
        # failed compare-and-swaps read only; each attempt begins with a load
        reads = collections.Counter(e.thread for e in entries if e.kind == "m" and e.r == counter and e.w is None)
        for thread, n in failed.items():
            assert reads[thread] == counts[thread][0] + 2 * n, (reads, counts, failed)
    return replay(entries, counter) == counts


def inc():
    for i in range(50):
        what = "cas" if i % 5 == 4 else "inc"
        options = [["-l", "1"], [], ["-l", "64", "-b", "4096", "-a", "7"], ["-d", "50"], []][i % 5]
        out, err = run(what, 2 + i % 4, 500, "-o", "t%d.out" % i, *options)
        assert not err, err
        assert same(out, "t%d.out" % i), "run %d" % i
    out, _ = run("inc", 64, 100, "-o", "many.out")
    assert same(out, "many.out")


def unlocked():
    """Without address locks the same check must fail: else it checks nothing."""
    for rounds in (2000, 2000, 2000, 8000, 32000, 128000):  # threads that run one after the other do nothing wrong
        out, _ = run("inc", 4, rounds, "-o", "t.out", "-t", "1")
        entries = parse("t.out")
        counter, counts, _ = truth(out)
        if replay(entries, counter) != counts:
            return
    assert False, "without locks all was right"


def late():
    """Operands that are learnt after the access: one lock for all, which is said to those who gave -l; -c 1 logs failures as writes."""
    out, err = run("cas", 4, 300, "-o", "t.out", "-l", "128", env={"SYN_LATE": "1"})
    assert "one address lock" in err, err
    _, err = run("cas", 4, 300, "-o", "quiet.out", env={"SYN_LATE": "1"})
    assert "one address lock" not in err, err
    assert same(out, "t.out")
    out, _ = run("cas", 4, 300, "-o", "t.out", "-c", "1")
    counter, counts, failed = truth(out)
    writes = collections.Counter(e.thread for e in parse("t.out") if e.kind == "m" and e.w is not None)
    assert writes == {t: n + failed[t] for t, (n, _) in counts.items()}, (writes, counts, failed)


def lag():
    """Half of the threads sleep: the others must not run away in the file."""
    for d, a in ((200, 16), (1000, 64)):
        run("private", 4, 20000, "-o", "t.out", "-d", str(d), "-a", str(a))
        entries = parse("t.out")
        lamport(entries)
        _, most = merge(entries)
        assert any(e.kind == "thread_sync" for e in entries)
        # All are at M - d or later for the newest time M that was checked. Each thread may have made a accesses
        # since it last checked, started and ended; each of these moves the newest clock on by one.
        apart = d + 4 * (a + 2)
        assert most <= 4 * (apart + 1), "%d entries had to wait with -d %d" % (most, d)
        newest = {}
        for e in entries:
            newest[e.thread] = e.time
            if e.kind == "tf":
                del newest[e.thread]
            elif newest:
                assert max(newest.values()) - min(newest.values()) <= apart, (e.time, newest)
        assert sum(e.kind == "m" for e in entries) == 4 * 20000


def stale():
    """An access that waits in the buffer does not show how far its thread is: alone, it is exact that -d holds."""
    for d, a in ((1000, 16), (100, 1)):
        run("stale", 1, d - a, "-o", "t.out", "-d", str(d), "-a", str(a))
        newest = {}
        for e in parse("t.out"):
            newest[e.thread] = e.time
            if e.kind == "m" and e.thread == 1:
                assert e.time - newest[0] <= d, (e.time, newest)


def come():
    run("come", 16, 320, "-o", "t.out")
    entries = parse("t.out")
    lamport(entries)
    merge(entries)
    alive = set()
    for e in entries:
        if e.kind == "tr":
            assert e.thread not in alive
            alive.add(e.thread)
        else:
            assert e.thread in alive
        if e.kind == "tf":
            alive.remove(e.thread)
    assert not alive and sum(e.kind == "m" for e in entries) == 320 * 50


NAMES = """tr 40|m 40 r128|fc 40 lib::work 1000 4 5 18446744073709551615|fc -1 lib::work 77 1 2 3|fr -1 lib::work 77 9|
ctxt_change -1|fr 40 lib::work 1000 7|fc -1 lib::work 5 0 0 0|start_roi 40|m 40 w192|end_roi 40|m 40 w256|tf 40|tr 41|
ctxt_change 41|tf 41""".replace("\n", "").split("|")


def show(e):
    rest = "" if e.rest is None else " " + " ".join(map(str, e.rest))
    if e.kind == "m":
        rest = " r%d" % e.r if e.r is not None else " w%d" % e.w
    return "%s %d%s" % (e.kind, e.thread, rest)


def names():
    with open("functions", "w") as f:
        f.write("  lib::work \n\nother\nlib::work\r\n")
    out, _ = run("names", 1, 1, "-r", "-f", "functions", "-o", "t.out")
    assert "numbers 1 4 0 3" in out, out
    entries = parse("t.out")
    merge(entries)
    got = [show(e) for e in sorted(entries, key=lambda e: e.time)]
    assert got == NAMES, "\n".join(got)
    run("names", 1, 1, "-r", "1", "-i", "1", "-f", "functions", "-o", "t.out")
    got = [show(e) for e in sorted(parse("t.out"), key=lambda e: e.time)]
    assert got == [n for n in NAMES if n not in ("m 40 r128", "m 40 w256")], "\n".join(got)


def die():
    out, err = run("die", 1, 1, "-o", "t.out")
    assert "survived" in out and err.count("\n") == 1 and "address lock" in err, (out, err)
    parse("t.out")


def fork():
    for env in ({}, {"SYN_SPAWN": "1"}):
        run("fork", 1, 100, "-o", "t.out", env=env)
        assert sum(e.kind == "m" for e in parse("t.out")) == 100
        run("fork", 1, 100, "-o", "t.mtc", "--level", "0", env=env)
        _, chunks, tail = hosttrace.read("t.mtc")
        assert tail and sum(i[0] == "access" for c in chunks for i in c[3]) == 100


def slow():
    """Everybody waits for a reader that takes its time: nobody's locks are taken away, nothing is lost."""
    os.mkfifo("pipe")
    got = []

    def read():
        with open("pipe") as f:
            time.sleep(3)
            got.append(f.read())

    reader = threading.Thread(target=read)
    reader.start()
    out, err = run("inc", 16, 2000, "-o", "pipe")
    reader.join()
    assert not err, err
    with open("t.out", "w") as f:
        f.write(got[0])
    assert same(out, "t.out")


def wide():
    run("wide", 1, 1, "-o", "t.out", "-b", "64", "-l", "8")
    with open("t.out") as f:
        got = [line.split("\t", 1)[1] for line in f]
    assert got == ["0\ttr\n", "0\tm\tr\t60\t8\tw\t100000\t200\n", "0\tm\tr\t8\t4\tr2\t16\n", "0\tm\tr\t8\t4\n",
                   "0\tm\tr\t16\t8\tw\t24\t4\n", "0\tm\tw\t0\t1048576\n", "0\tm\tw\t8\t8\n", "0\tm\tw\t8\t4\n",
                   "0\tm\tw\t16\t4\n", "0\tm\tr\t8\t4\n", "0\ttf\n"], got
    lamport(parse("t.out"))


def container():
    """The container of a run says the same as a text would."""
    marks = {"SYN_MARKS": "1"}  # a thread that is alone takes no locks
    for env in ({}, {"SYN_SPAWN": "1"}, marks, marks, {**marks, "SYN_SPAWN": "1"}):
        out, _ = run("inc", 4, 3000, "-o", "t.mtc", "--level", "0", env=env)
        counter, counts, _ = truth(out)
        meta, chunks, tail = hosttrace.read("t.mtc")
        assert tail
        ops = {m["id"]: m["op"] for m in meta if m["ev"] == "site"}
        entries, name = [], {}
        for thread, _, _, items in chunks:
            for i in items:
                if i[0] == "event" and i[1] == "tr":
                    name[thread] = i[3][0]
                if i[0] == "access":
                    assert ops[i[1]] == "atomic" and i[3] in (0, 8)
                    e = Entry(i[4], name[thread], "m")
                    e.r = e.w = i[2]
                    e.size = e.wsize = 8
                    entries.append(e)
        lamport(entries)
        assert replay(entries, counter) == counts
        end = [m for m in meta if m["ev"] == "end"]
        assert len(end) == 1 and end[0]["complete"] is True
        assert end[0]["records_written"] == sum(len(c[3]) for c in chunks)


def main():
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        globals()[sys.argv[2]]()


main()
