#!/usr/bin/env python3
"""Modules that a program loads by the driver API, on the stand-in for a GPU (tests/gpu/standin): gpu.py BUILD CC CUDA

The driver gets them with record calls, and the records are those of the CPU device, those of graphs, too. Where no such code can be
made, the program's own runs, and each launch is counted. Fills, copies and arrays leave the lines that they leave there."""
import os
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.realpath(__file__))
ROOT = os.path.realpath(os.path.join(HERE, "..", ".."))
sys.path.insert(0, os.path.join(HERE, "..", "e2e"))
import world as w  # noqa: E402


def contents(result):
    return [(launch.kernel, launch.ctas()) for stream in (0, 1) for launch in result.trace(stream)]


LAUNCHES = [("iota", 1000)] * 3 + [("add", 3000), ("add", 192)]
GRAPHS = [("iota", 1000), ("add", 3000)] * 2 + [("iota", 500), ("add", 3000), ("add", 3000), ("iota", 500)]
FILLS = [(1, 100, None), (2, 200, None), (3, 128, None), (0, 8, 4), (7, 16, 8), (9, 4, None), (0, 12, 4), (5, 4, None)]  # value, bytes, a row's
COPIES = [("d2h", 4000), ("h2d", 4000), ("d2h", 4000), ("d2d", 16), ("d2d", 128), ("d2h", 128)]


def companion_of(result, form="raw", stream=0):
    return w.trace.Companion(result.path(stream) + (".mtc" if form == "compact" else "") + ".meta")


def memory(companion):
    return ([(e["value"], e["bytes"], e.get("width")) for e in companion.all("memset")], [(e["kind"], e["bytes"]) for e in companion.all("memcpy")],
            len([e for e in companion.all("alloc") if e["kind"] == "array"]))


def main():
    build, cc, cuda = sys.argv[1:]
    with tempfile.TemporaryDirectory(prefix="memtrace-driver-gpu-") as work:
        app, kernels = os.path.join(work, "app"), os.path.join(HERE, "kernels.ptx")
        done = subprocess.run([cc, os.path.join(HERE, "gpu.c"), "-I", cuda, f"-L{build}/lib", "-l:libmemtrace.so", f"-Wl,-rpath,{build}/lib", "-o", app],
                              capture_output=True, text=True, timeout=100)
        if done.returncode:
            sys.exit(done.stderr)
        world = w.World(build, ROOT, work, variables={"MEMTRACE_CACHE": os.path.join(build, "tests", "cache")})
        there = w.Standin(build).variables
        try:
            plain = world.run_ok([app, kernels])
            w.same("records of the CPU device", [(k, sum(n for sizes in ctas.values() for n in sizes.values())) for k, ctas in contents(plain)],
                   LAUNCHES + GRAPHS)
            w.same("fills, copies and arrays", memory(companion_of(plain)), (FILLS, COPIES, 1))
            for form in "raw", "compact":
                result = world.run_ok([app, kernels], MEMTRACE_FORMAT=form, **there)
                w.same("output", (result.out, result.err), (plain.out, plain.err))
                companion = companion_of(result, form)
                w.same("device", companion.events[0]["device"], "gpu")
                w.same("complete", companion.end()["complete"], True)
                w.same("fills, copies and arrays", memory(companion), (FILLS, COPIES, 1))
                w.same("records", [companion_of(result, form, i).end()["records_written"] for i in (0, 1)],
                       [sum(n for _, n in launches) for launches in (LAUNCHES, GRAPHS)])
                if form == "raw":
                    w.same("records of each CTA", contents(result), contents(plain))
            result = world.run_ok([app, kernels], MEMTRACE_PTX_OPTIONS="--mt-nonsense=1", **there)
            companion = companion_of(result)
            w.same("output without record calls", result.out, plain.out)
            w.same("counted", [(e["kernel"], e["traced"]) for e in companion.all("launch")], [(k, False) for k, _ in LAUNCHES + GRAPHS])
            w.same("complete without them", companion.end()["complete"], False)
        except w.Failed as why:
            print(f"FAILED: {why}")
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
