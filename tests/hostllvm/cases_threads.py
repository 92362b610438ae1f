"""Threads, and the order between them in atomic mode."""
import collections
import os

from harness import Failed, case, same
from world import inside


@case
def threads(w):
    """Every thread's accesses, each once."""
    for n in (1, 4, 64):
        r = w.run(w.compile("threads.c", "-O2"), str(n))
        counter, swapped, part = (int(x, 16) for x in r.stdout.split()[:3])
        total, won = (int(x) for x in r.stdout.split()[3:])
        accesses = w.accesses(r.trace)
        at = collections.Counter((a.address, a.op) for a in accesses)
        same("increments", at[counter, "atomic"], total)
        same("swaps that wrote", at[swapped, "cas"], won)
        same("swaps that did not", at[swapped, "cas-failed"], n * 500 - won)
        for i in range(n):
            mine = [a for a in inside(accesses, part + i * 4000, 4000) if a.op == "store"]
            same(f"stores of thread {i}", [a.address for a in mine], [part + i * 4000 + 8 * k for k in range(500)])
            same("threads that store there", len({a.thread for a in mine}), 1)


def replay(w, n, words):
    """Do loads, increments and swaps of the counters, in the order of time, give what the program saw?"""
    r = w.run(w.compile("threads.c", "-O1", host="--host=atomic"), str(n), words=words)
    counter, swapped = (int(x, 16) for x in r.stdout.split()[:2])
    total, won = (int(x) for x in r.stdout.split()[3:])
    value, succeeded, wrong, increments, next_of = 0, 0, 0, 0, collections.Counter()
    for a in w.accesses(r.trace, "time"):
        if a.address == counter and a.op == "atomic":
            increments += 1
        if a.address == swapped and a.op in ("cas", "cas-failed"):
            expected = next_of[a.thread]  # thread tries 0, 1, 2 …
            next_of[a.thread] += 1
            wrong += (value == expected) != (a.op == "cas")
            if a.op == "cas":
                value += 1
                succeeded += 1
    same("increments", increments, total)
    same("swaps that wrote", succeeded, won)
    return wrong


@case
def atomic(w):
    """--host=atomic: each swap succeeds in the trace's order exactly when it did in the program."""
    for n in (2, 4, 16):
        for _ in range(3):
            same(f"swaps out of order with {n} threads", replay(w, n, "atomic"), 0)


@case
def atomic_needs_a_build(w):
    r = w.run(w.compile("threads.c", "-O1"), "2", words="atomic")
    if "--host=atomic" not in r.stderr:
        raise Failed("no word about --host=atomic: " + r.stderr)
    same("lines, but for what was lost", len([x for x in r.stderr.splitlines() if "could not be recorded" not in x]), 1)
    r = w.run(w.compile("threads.c", "-O1", host="--host=atomic"), "2", words="mat")
    same("mat mode with a build for atomic: words", r.stderr, "")
    counter = int(r.stdout.split()[0], 16)
    same("increments", len([a for a in w.accesses(r.trace) if (a.address, a.op) == (counter, "atomic")]), 1000)


@case
def insn_is_refused(w):
    r = w.run(w.compile("threads.c", "-O1"), "1", words="insn")
    if "memtrace host insn" not in r.stderr or os.path.exists(r.trace):
        raise Failed("insn mode: " + r.stderr)
