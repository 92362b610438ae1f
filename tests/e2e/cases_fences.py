"""Scope and order of each access, and records of fences. The program is src/fences.cu, which says beside each instruction what PTX's manual says of it."""
import json
import os
import re
import types

import cases_onchip
from cases_onchip import STANDIN, WAYS, shared
from harness import Skipped, case, holds, nvcc_of, same

SOURCE = "fences.cu"
FLAGS = "--cuda-gpu-arch=sm_90", "--mt-spaces=global,shared"
FENCES = {"cta": 0xf1, "cluster": 0xf2, "gpu": 0xf3, "sys": 0xf4}
HAS_FENCES, MINOR = 32, 5

# Threads of `fences` that come to a fence of this scope: 96 in all, 32 of them with a number that 3 divides, 32 in half warps;
# the loop runs once in the first CTA, twice in the second.
THREADS = {"cta": 3 * 96, "cluster": 2 * 96, "gpu": 32 + 48 + 2 * 48 + 96, "sys": 32 + 2 * 96}
# As warps: two in each CTA come to each of them, but only one to fence.acq_rel.sys.
WARPS = {"cta": 3 * 4, "cluster": 2 * 4, "gpu": 4 + 2 + 2 * 2 + 4, "sys": 2 + 2 * 4}


def said(world):
    """{line: (op, space, scope, order)} as the source says."""
    with open(os.path.join(world.src, SOURCE), encoding="utf-8") as f:
        found = {i: re.search(r"// = (\S+) (\S+) (\S+) (\S+)$", line) for i, line in enumerate(f, 1)}
    return {i: m.groups() for i, m in found.items() if m}


def by_program(world, *flags, **variables):
    return world.run_ok(world.compile(os.path.join(world.src, SOURCE), "-O2", *FLAGS, *flags), MEMTRACE_FORMAT="compact", **variables)


def by_nvcc(world):
    nvcc = nvcc_of()
    if not nvcc:
        raise Skipped("this CUDA toolkit has no nvcc")
    folder = world.folder("nvcc")
    app, out = os.path.join(folder, "app"), os.path.join(folder, "run")
    world.call([nvcc, "-O3", "-std=c++17", "-arch=sm_90", "-lineinfo", os.path.join(world.src, SOURCE), "-o", app])
    done = world.call([world.tool("memtrace"), "run", "-o", out, "--spaces", "global,shared", app],
                      env={**os.environ, "MEMTRACE_DEVICE": "cpu", "MEMTRACE_CACHE": folder})
    path = os.path.join(out, next(f for f in sorted(os.listdir(out)) if f.endswith(".mtc"))).removesuffix(".mtc")
    return types.SimpleNamespace(out=done.stdout, err=done.stderr, path=lambda: path)


def check_sites(world, result):
    want, found = said(world), {}
    with open(result.path() + ".mtc.meta", encoding="utf-8") as f:
        sites = [line for line in map(json.loads, f) if line["ev"] == "site" and os.path.basename(line["file"]) == SOURCE]
    for s in sites:
        space = "-" if s["op"] == "fence" else s.get("space", "global")
        found.setdefault(s["line"], set()).add((s["op"], space, s.get("scope", "-"), s.get("order", "-")))
        same(f"line {s['line']}: strong", s.get("strong", False), s["op"] in ("load", "store") and "order" in s)
    same("the sites of lines", {i: found.get(i) for i in want}, {i: {of} for i, of in want.items()})
    others = {i: of for i, of in found.items() if i not in want and any(x[0] != "fence" and x[2] != "-" for x in of)}
    same("strong ones of other lines", others, {})


def runs(world, result):
    """[(kernel, what, scope, threads, address)] of all runs; what: load, store, fence …"""
    out, kernel = [], None
    for line in world.call([world.tool("mt-dump"), "--runs", result.path() + ".mtc"]).stdout.splitlines():
        kernel = line.split()[2] if line.startswith("launch ") else kernel
        found = re.match(r"(?:(\w+) )?(\w+) (\d+) x (\d+) 0x(\w+)", line)
        if found:
            of, what, size, threads, address = found.groups()
            out.append((kernel, what, of, int(size), int(threads), int(address, 16)))
    return out


def check_fences(world, result, grouped):
    threads, warps, order = dict.fromkeys(FENCES, 0), dict.fromkeys(FENCES, 0), []
    for kernel, what, of, size, n, address in runs(world, result):
        if what == "fence":
            same("size and number", (size, address), (1, FENCES[of]))
        if kernel == "fences":
            same("all that fences does", what, "fence")
            threads[of] += n
            warps[of] += 1
        if kernel == "published":
            order.append((what, of))
    same("threads at fences", threads, THREADS)
    same("records of fences", warps, WARPS if grouped else THREADS)
    one = [("store", None), ("fence", "gpu"), ("store", None), ("fence", "cta"), ("store", None), ("fence", "sys")]
    same("the order", order, one * (1 if grouped else 32))
    with open(result.path() + ".mtc", "rb") as f:
        head = f.read(64)
    same("minor version and feature", (int.from_bytes(head[14:16], "little"), head[16] & HAS_FENCES), (MINOR, HAS_FENCES))


def check_hazards(world, result):
    got = shared(world, result, "--kernels=fenced")
    cases_onchip.check_hazards(world, got, SOURCE, {("fenced_only", "loaded after the fence", "stored before the fence", "warps"): 64})
    same("known barriers", got["loose"], 0)


@case("fences")
def fences(world):
    """Each form of ld, st, atom, red and fence, and what C++ makes of them; as vectors and as fibers."""
    for way in WAYS:
        result = by_program(world, *way)
        same("output", (result.out, result.err), ("done\n", ""))
        check_sites(world, result)
        check_fences(world, result, not way)
        check_hazards(world, result)


@case("fences.nvcc")
def fences_nvcc(world):
    """The same of nvcc's code."""
    result = by_nvcc(world)
    same("output", result.out, "done\n")
    check_sites(world, result)
    check_fences(world, result, True)
    check_hazards(world, result)


@case("fences.gpu")
def fences_gpu(world):
    """The GPU's code (with --standin): the same sites and fences as on the CPU device."""
    result = by_program(world, **STANDIN)
    check_sites(world, result)
    fences = {}
    for kernel, what, of, _, n, address in runs(world, result):
        if (kernel, what) == ("fences", "fence"):
            same("number", address, FENCES[of])
            fences[of] = fences.get(of, 0) + n
    same("threads at fences", fences, THREADS)


@case("fences.without")
def fences_without(world):
    """Without shared memory there are no records of fences, but scopes; and the feature bit is not there."""
    result = world.run_ok(world.compile(os.path.join(world.src, SOURCE), "-O2", FLAGS[0]), MEMTRACE_FORMAT="compact")
    holds("no fences", not any(what == "fence" for _, what, *_ in runs(world, result)))
    with open(result.path() + ".mtc", "rb") as f:
        same("features", f.read(64)[16] & ~(4 | 64), 0)
    with open(result.path() + ".mtc.meta", encoding="utf-8") as f:
        sites = [line for line in map(json.loads, f) if line["ev"] == "site"]
    same("scopes", {s["scope"] for s in sites if "scope" in s}, set(FENCES))
