"""Requests of kernels whose lanes leave loops by what they read in them (src/polls.cu): as the lanes of a warp make them together, counted by hand."""
import json
import os
import re
import types
from collections import Counter

import cases_compact
from harness import Skipped, case, holds, nvcc_of, same

N = 512
P = [i if i < 8 else i - (i * 5 % 7 + 1) for i in range(N)]
X = [i if i < 50 and i % 3 else i * 13 % 50 for i in range(N)]


def table():
    keys = [-1] * 64
    for i in range(50):
        s = i * 7 % 64
        while keys[s] >= 0:
            s = (s + 1) % 64
        keys[s] = i
    return keys


def looks(r):
    n = 1
    while P[r] != r:
        r, n = P[r], n + 1
    return n


def probes(keys, t):
    n = 1
    while keys[(t * 7 + n - 1) % 64] not in (t % 50, -1):
        n += 1
    return n


def loop_of_jumps(lanes, count):
    """Round by round: who is in the loop, who comes to which line."""
    at, behind = {t: t for t in lanes}, set()
    while at:
        count["jumps: looks"] += 1
        behind |= {t for t in at if P[at[t]] == at[t]}
        at = {t: P[r] for t, r in at.items() if P[r] != r}
        count["jumps: continued"] += any(q % 4 == 1 for q in at.values())
        rest = {t: q for t, q in at.items() if q % 4 != 1}
        count["jumps: case 0"] += any(q % 3 == 0 for q in rest.values())
        count["jumps: case 1"] += any(q % 3 == 1 for q in rest.values())
        count["jumps: case 2"] += any(q % 3 for q in rest.values())
        gone, broken = ({t for t, q in rest.items() if q % 11 == which} for which in (7, 3))
        count["jumps: returned"] += bool(gone)
        count["jumps: broken"] += bool(broken)
        behind |= broken
        at = {t: q for t, q in at.items() if t not in gone | broken}
    count["jumps: behind"] += bool(behind)


def loop_of_choices(lanes, count):
    v, here = {t: X[t] for t in lanes}, set(lanes)
    m = {t: 1 + X[t] % 4 for t in lanes}
    for i in range(4):
        here = {t for t in here if i < m[t]}
        case = {t: (v[t] + i) % 4 for t in here}
        for c, which in (0, {0}), (1, {1}), (2, {1, 2}):
            count[f"chosen: case {c}"] += any(case[t] in which for t in here)
        for t in here:
            v[t] += 4 * (case[t] == 3)
        here = {t for t in here if t % 32 >= 20}
    count["chosen: behind"] += 1


def expected(threads):
    count, keys, starts = Counter(), table(), range(0, threads, 32)
    for first in starts:
        lanes = range(first, min(first + 32, threads))
        for cta in range(2):
            count.update(["walk: before", "walk: behind", "walk: past"])
            count["look"] += max(looks(cta * threads + t) for t in lanes)
        for kernel in "relaxed", "added", "waits":
            count.update([f"{kernel}: before", f"{kernel}: behind", f"{kernel}: past"])
        count.update(["in_turn: before", "in_turn: past"])
        count["look_relaxed"] += max(looks(t) for t in lanes)
        count["added: looks"] += max(looks(t) for t in lanes)
        for k in range(3):
            those = [t for t in lanes if t != 3 and k < 1 + t % 3]
            count["nested: each"] += bool(those)
            count["nested: looks"] += max((looks(t + k * 37) for t in those), default=0)
        count["nested: behind"] += any(t != 3 for t in lanes)
        count["twice: first"] += max(looks(t) for t in lanes)
        count["twice: second"] += max(looks(300 - t % 256) for t in lanes)
        count["twice: between"] += 2 # a load, a store
        count["twice: behind"] += 1
        loop_of_jumps(lanes, count)
        loop_of_choices(lanes, count)
        count["counted: looks"] += max(P[t] % 9 + 1 for t in lanes)
        count["counted: behind"] += 1
        count["found: looks"] += max(probes(keys, t) for t in lanes)
        count["found: behind"] += 1
    count["waits: sets"] = 1
    count["in_turn: turn"] = 3 * threads - 1 # one lane at a time
    return count


def marks(source):
    """{line: mark}"""
    with open(source, encoding="utf-8") as f:
        text = f.read().splitlines()
    found = {i: re.search(r"// (\w+: [\w ]+)$", line) for i, line in enumerate(text, 1)}
    of = {i: m[1] for i, m in found.items() if m}
    of[next(i for i, line in enumerate(text, 1) if "return *(volatile" in line)] = "look"
    of[next(i for i, line in enumerate(text, 1) if "ld.relaxed" in line)] = "look_relaxed"
    return of


def requests(result, mark):
    launches, events = cases_compact.read(result)
    line, count = {e["id"]: e["line"] for e in events.all("site")}, Counter()
    for launch in launches:
        for *_, site, _ in launch.runs:
            count[mark.get(line[site])] += 1
    return count, {e["kernel"] for e in events.all("launch") if e.get("parted") or e.get("ungrouped")}


def accesses(result, mark):
    launches, events = cases_compact.read(result)
    line, count = {e["id"]: e["line"] for e in events.all("site")}, Counter()
    for launch in launches:
        for *_, site, addresses in launch.runs:
            count[mark.get(line[site])] += len(addresses)
    return count


def check(world, what, result, threads, apart=()):
    """apart: kernels whose accesses are not grouped, which is said."""
    mark = marks(os.path.join(world.src, "polls.cu"))
    count, said = requests(result, mark)
    want = {m: n for m, n in expected(threads).items() if m.split(":")[0] not in apart}
    same(f"{what}, {threads} threads", {m: count[m] for m in want}, want)
    same(f"{what}, {threads} threads: not grouped", {kernel.split("(")[0] for kernel in said}, apart)


SIZES = 1, 20, 32, 40, 64, 160


def check_all(world, what, run):
    """Where a lane may wait for another one of its warp, each is a fiber."""
    for threads in SIZES:
        result = run(threads)
        same("output", result.out, "0 wrong\n")
        check(world, what, result, threads, {"in_turn", "waits", "counted"} if threads > 1 else set())


@case("polls.vectors")
def polls_vectors(world):
    app = world.compile(os.path.join(world.src, "polls.cu"), "-O2", "--mt-gpu-trace=off")
    check_all(world, "vectors", lambda threads: world.run_ok([app, str(threads)], MEMTRACE_FORMAT="compact"))
    result = world.run_ok([app, "64"], MEMTRACE_FORMAT="compact")
    launches, events = cases_compact.read(result)
    single = {e["kernel"] for e in events.all("launch") if e.get("ungrouped")}
    out, text = (world.call([world.tool("mt-extract"), "-s", "coalescing", "-f", f, result.path() + ".mtc"]).stdout for f in ("json", "text"))
    out = json.loads(out)
    same("kernels whose requests are not known", set(out["apart"]), single)
    same("kernels with requests", set(out["coalescing"]["kernels"]), {x.kernel for x in launches} - single)
    left_out = sum(len(a) for x in launches if x.kernel in single for *_, a in x.runs)
    same("accesses without requests", out["coalescing"]["unmasked"], left_out)
    bare = json.loads(world.call([world.tool("mt-extract"), "-s", "coalescing", "--no-companion", result.path() + ".mtc"]).stdout)["coalescing"]
    same("without the launches' lines", (bare["unmasked"], set(bare["kernels"])), (left_out, set(out["coalescing"]["kernels"])))
    holds("said in words", f"  {left_out} accesses are not grouped into requests" in text and "not grouped into requests of warps" in " ".join(out["gaps"]))


@case("polls.fibers")
def polls_fibers(world):
    """What fibers do is not grouped: it is what the lanes of vectors do."""
    source = os.path.join(world.src, "polls.cu")
    mark, apps = marks(source), [world.compile(source, "-O2", "--mt-gpu-trace=off", "--mt-vectors=" + how) for how in ("on", "off")]
    for threads in SIZES:
        results = [world.run_ok([app, str(threads)], MEMTRACE_FORMAT="compact") for app in apps]
        want, got = ({m: n for m, n in accesses(r, mark).items() if m in expected(threads)} for r in results)
        same(f"{threads} threads: accesses", got, want)
        launches, events = cases_compact.read(results[1])
        same(f"{threads} threads: not grouped", {e.get("ungrouped", False) for e in events.all("launch")}, {threads > 1})


def compile_by_nvcc(world, source):
    nvcc = nvcc_of()
    if not nvcc:
        raise Skipped("this CUDA toolkit has no nvcc")
    app = os.path.join(world.folder("nvcc"), "app")
    world.call([nvcc, "-O3", "-arch=sm_90", "-lineinfo", os.path.join(world.src, source), "-o", app])
    return app


def run_of_nvcc(world, app, how, *words):
    """how: MEMTRACE_PTX_OPTIONS"""
    out = world.folder("run" + how + "-".join(words))
    done = world.call([world.tool("memtrace"), "run", "-o", out, app, *words], env={**os.environ, "MEMTRACE_DEVICE": "cpu", "MEMTRACE_PTX_OPTIONS": how})
    path = os.path.join(out, next(f for f in sorted(os.listdir(out)) if f.endswith(".mtc"))).removesuffix(".mtc")
    return types.SimpleNamespace(out=done.stdout, path=lambda _=0: path)


@case("polls.nvcc")
def polls_nvcc(world):
    """The same of nvcc's code."""
    app = compile_by_nvcc(world, "polls.cu")
    check_all(world, "nvcc", lambda threads: run_of_nvcc(world, app, "", str(threads)))
