#!/usr/bin/env python3
"""Launches of the driver API in a program that carries its own records, on the stand-in for a GPU (tests/gpu/standin): unknown.py BUILD CC CUDA

Each launch runs, is a line without a trace, and makes the traces incomplete, however the program came to the function that launches; so do
graphs of the driver API and its copies. The GPU's threads have more stack than the program asked for, which does not see it."""
import os
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.realpath(__file__))
ROOT = os.path.realpath(os.path.join(HERE, "..", ".."))
sys.path.insert(0, os.path.join(HERE, "..", "e2e"))
import world as w  # noqa: E402


def main():
    build, cc, cuda = sys.argv[1:]
    with tempfile.TemporaryDirectory(prefix="memtrace-driver-unknown-") as work:
        app, kernels = os.path.join(work, "app"), os.path.join(HERE, "kernels.ptx")
        done = subprocess.run([cc, os.path.join(HERE, "unknown.c"), "-I", cuda, f"-L{build}/lib", "-l:libmemtrace.so", f"-Wl,-rpath,{build}/lib",
                               "-o", app], capture_output=True, text=True, timeout=100)
        if done.returncode:
            sys.exit(done.stderr)
        world = w.World(build, ROOT, work, variables={"MEMTRACE_CACHE": os.path.join(build, "tests", "cache")})
        there = w.Standin(build).variables
        try:
            w.same("stack of threads", world.run_ok([app, kernels, "stack"], **there).out, "1024 2000 4256 1024\n")
            for words in [], ["graph"]:
                result = world.run_ok([app, kernels, *words], **there)
                w.same("output", result.out, "1 999\n")
                companion = w.trace.Companion(result.path(0) + ".meta")
                w.same("launches", [(e["kernel"], e["traced"], e["grid"], e["block"]) for e in companion.all("launch")],
                       [("iota", False, [8, 1, 1], [128, 1, 1])] * 3)
                w.same("complete", companion.end()["complete"], False)
        except w.Failed as failed:
            print(f"FAILED: {failed}")
            return 1
    return 0


sys.exit(main())
