"""Allocations, against what programs say of their own."""
import collections

from harness import case, holds, same
from world import meta


def said(out):
    """What the program said: [(what, base, bytes, kind, line)]"""
    events = []
    for line in out.splitlines():
        w = line.split()
        if w[0] == "alloc":
            events.append(("alloc", int(w[2], 16), int(w[3]), w[1], int(w[4])))
        elif w[0] == "cut":
            events.append(("cut", int(w[1], 16), int(w[2]), None, None))
        elif w[0] == "free":
            events.append(("free", int(w[1], 16), None, None, None))
    return events


def traced(path, source, want):
    """The same of the allocations that `source` asked for. The pages that malloc maps at the line of its call are not
    the program's own."""
    kinds = {e[4]: e[3] for e in want if e[0] == "alloc"}
    events, ours = [], {}
    for line in meta(path):
        if line["ev"] == "alloc" and line["file"].endswith(source) and line["kind"] != "brk":
            if line["kind"] == "mmap" and kinds.get(line["line"]) != "mmap":
                continue
            ours[line["id"]] = int(line["base"], 16)
            events.append(("alloc", int(line["base"], 16), line["bytes"], line["kind"], line["line"]))
        elif line["ev"] in ("free", "cut") and line["id"] in ours:
            events.append((line["ev"], int(line["base"], 16), line.get("bytes"), None, None))
    return events


def compare(have, want):
    for k, (h, x) in enumerate(zip(have, want)):
        same(f"event {k}", h, x)
    same("number of events", len(have), len(want))


FLAGS = ("-g", "-O1", "-fno-builtin", "-foptimize-sibling-calls", "-pthread")


def family(w, *flags):
    program = w.compile("heap.c", *FLAGS, *flags)
    want = said(w.run("mat", "heap.mtc", program, level=0))
    holds("the program said something", len(want) > 40)
    compare(traced(w.path("heap.mtc"), "heap.c", want), want)


@case("heap.family")
def dynamic(w):
    family(w)


@case("heap.static")
def static(w):
    family(w, "-static")


@case("heap.threads")
def threads(w):
    program = w.compile("heap.c", *FLAGS)
    want = [e for e in said(w.run("mat", "heap.mtc", program, "threads", level=0)) if e[0] == "alloc"]
    have = [e for e in traced(w.path("heap.mtc"), "heap.c", want) if e[0] == "alloc"]
    mine, theirs = collections.Counter(have), collections.Counter(want)
    same("allocations: too many, missing", (mine - theirs, theirs - mine), (mine - mine, mine - mine))
    live = {}
    for line in meta(w.path("heap.mtc")):
        if line["ev"] == "alloc":
            live[line["id"]] = line
        elif line["ev"] == "free":
            live.pop(line["id"])
    same("blocks that live at the end", [l for l in live.values() if l["file"].endswith("heap.c") and l["kind"] == "malloc"],
         [])


@case("heap.cxx")
def cxx(w):
    """new and delete, exceptions through frames of the allocator's callers, an operator new that throws."""
    program = w.compile("throws.cpp", "-g", "-O1")
    want = said(w.run("mat", "heap.mtc", program, level=0))
    compare(traced(w.path("heap.mtc"), "throws.cpp", want), want)
