#!/usr/bin/env python3
"""Modules that a program loads by the driver API, on the stand-in for a GPU (tests/gpu/standin): gpu.py BUILD CC CUDA

The driver gets them with record calls, and the records are those of the CPU device. Code for a GPU alone runs as it is."""
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
    return [(launch.kernel, launch.ctas()) for launch in result.trace()]


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
                   [("iota", 1000)] * 3 + [("add", 3000), ("add", 192)])
            for form in "raw", "compact":
                result = world.run_ok([app, kernels], MEMTRACE_FORMAT=form, **there)
                w.same("output", (result.out, result.err), (plain.out, plain.err))
                companion = w.trace.Companion(result.path() + (".mtc" if form == "compact" else "") + ".meta")
                w.same("device", companion.events[0]["device"], "gpu")
                w.same("complete", companion.end()["complete"], True)
                w.same("copies", [(e["kind"], e["bytes"]) for e in companion.all("memcpy")], [("d2h", 4000), ("h2d", 4000), ("d2h", 4000)])
                w.same("records", companion.end()["records_written"], 3 * 1000 + 3000 + 192)
                if form == "raw":
                    w.same("records of each CTA", contents(result), contents(plain))
        except w.Failed as why:
            print(f"FAILED: {why}")
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
