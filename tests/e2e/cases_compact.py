"""MEMTRACE_FORMAT=compact beside raw traces of the same program: the same records, and more."""
import glob
import os
import re
from collections import Counter

import cases_examples
import compact
import trace
from world import Failed, case, holds, same

EXAMPLES = cases_examples.NAMES


def files(result):
    return sorted(int(re.fullmatch(r".*-(\d+)\.mtc", p).group(1))
                  for p in glob.glob(os.path.join(result.folder, "MemTrace-pipe-*.mtc")))


def read(result, stream=0):
    return compact.read(result.path(stream) + ".mtc")


def placed(launches, events, stream):
    """[(launch, its line, function from (address, size) to (allocation, offset))]"""
    places = trace.Places(events)
    said = [e for e in events.all("launch") if e["traced"] and e["stream"] == stream]
    same("launch lines", len(said), len(launches))
    return [(launch, e, finder(places, e["seq"])) for e, launch in zip(said, launches)]


def finder(places, seq):
    known = {}

    def place(address, size):
        if (address, size) not in known:
            known[address, size] = places.find(address, size, seq)
        return known[address, size]
    return place


def same_records(what, raw, packed):
    """Launch by launch the same records; the companion's lines stand in the container, too."""
    same(f"{what}: streams", files(packed), raw.streams())
    for stream in raw.streams():
        launches, events = read(packed, stream)
        lines = trace.Companion(packed.path(stream) + ".mtc.meta")
        for kind in ("header", "site", "launch", "end"):
            same(f"{what}: {kind} lines", events.all(kind), lines.all(kind))
        holds(f"{what}: complete", events.end()["complete"])
        a, b = placed(raw.trace(stream), raw.companion(stream), stream), placed(launches, events, stream)
        same(f"{what}: kernels", [launch.kernel for launch, *_ in b], [launch.kernel for launch, *_ in a])
        sites = {e["id"]: e for e in events.all("site")}
        total = 0
        for (x, _, xp), (y, line, yp) in zip(a, b):
            same(f"{what}: number of the launch", y.seq, line["seq"])
            want = Counter((smid, kind, size, xp(at, size), cta) for smid, kind, size, at, cta in x.records())
            got = Counter((smid, kind, size, yp(at, size), cta) for smid, kind, size, at, cta in y.records())
            same(f"{what}: records of {x.kernel}", dict(got), dict(want))
            same(f"{what}: count of {x.kernel}", line["records"], x.count)
            bx, by, bz = line["block"]
            for _, thread, site, _, kind, size, _ in y.accesses():
                holds(f"{what}: a thread of the block", thread < bx * by * bz)
                holds(f"{what}: site {site}", sites[site]["op"] == kind and sites[site]["size"] in (0, size))
            total += x.count
        same(f"{what}: records_written", events.end()["records_written"], total)


def in_turn(what, raw, packed, kernel):
    """A kernel whose threads ran one after the other: each thread's accesses, put behind each other, are the CTA's."""
    launches, events = read(packed)
    a, b = placed(raw.trace(), raw.companion(), 0), placed(launches, events, 0)
    seen = 0
    for (x, _, xp), (y, _, yp) in zip(a, b):
        if x.kernel != kernel:
            continue
        want = {cta: [(kind, size, xp(at, size)) for kind, size, at in list_] for cta, list_ in x.cta_sequences().items()}
        got = {}
        for (cta, _), accesses in sorted(y.threads().items()):
            got.setdefault(cta, []).extend((kind, size, yp(at, size)) for _, kind, size, at in accesses)
        same(f"{what}: threads in turn", got, want)
        seen += 1
    holds(f"{what}: kernel {kernel} was there", seen)


def both(world, app, *arguments, **env):
    raw = world.run_ok([app, *arguments], **env)
    packed = world.run_ok([app, *arguments], MEMTRACE_FORMAT="compact", **env)
    same("output", packed.out, raw.out)
    same("words", packed.err, raw.err)
    return raw, packed


def add(name):
    @case(f"compact.{name}")
    def run(world):
        arguments = world.expectation(name).QUICK
        for level in ("-O0", "-O2"):
            app = world.compile(world.example(name), level)
            for threads in (1, 2):
                raw, packed = both(world, app, *arguments, MEMTRACE_CPU_THREADS=threads)
                same_records(f"{name} {level}, {threads} threads", raw, packed)


for example in EXAMPLES:
    add(example)
