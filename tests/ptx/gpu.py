#!/usr/bin/env python3
"""Code for GPUs that mt-ptx makes of nvcc's PTX: gpu.py --build DIR --cuda DIR

ptxas must take it for each architecture, with and without the hidden parameter of the kernels. And it runs, on the stand-in for a
GPU (tests/gpu/standin): divergence, packets of all kinds in rings that are always full, many streams. The records must be those of
the CPU image of the same module. Exit code 1 if one differs, 77 without nvcc."""
import argparse
import os
import re
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.realpath(__file__))
ROOT = os.path.realpath(os.path.join(HERE, "..", ".."))
sys.path.insert(0, os.path.join(HERE, "..", "e2e"))
sys.path.insert(0, HERE)
import conformance  # noqa: E402
import world as w  # noqa: E402
import cases_channel as channel  # noqa: E402


def call(*command):
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    if done.returncode:
        raise w.Failed(f"{' '.join(command)}: exit code {done.returncode}\n{done.stdout[-1000:]}{done.stderr[-3000:]}")
    return done.stdout


def check_assembled(o, work):
    """PTX for compute_75 as it is, for three architectures; what is for a newer one than asked for is refused."""
    tool, ptxas = os.path.join(o.build, "bin", "mt-ptx"), os.path.join(o.cuda, "bin", "ptxas")
    for name in ("histogram", "device_calls", "stencil_2d"):
        ptx, out = os.path.join(work, name + ".ptx"), os.path.join(work, "out.ptx")
        call(o.nvcc, "-ptx", "-O3", "-lineinfo", "-arch=compute_75", "-I" + os.path.join(ROOT, "include"),
             os.path.join(ROOT, "examples", name, name + ".cu"), "-o", ptx)
        with open(ptx, encoding="utf-8") as f:
            before = [(entry, text.count(".param")) for entry, text in re.findall(r"\.entry (\w+)\((.*?)\)", f.read(), re.S)]
        for arch in ("sm_75", "sm_80", "sm_90"):
            call(tool, "--emit-ptx=" + arch, ptx, "-o", out)
            call(ptxas, "-arch=" + arch, out, "-o", os.path.join(work, "out.cubin"))
            with open(out, encoding="utf-8") as f:
                found = dict((entry, text.count(".param")) for entry, text in re.findall(r"\.entry (\w+)\((.*?)\)", f.read(), re.S))
            want = dict(before + [(entry + "__memtrace_traced", n + 1) for entry, n in before])
            w.same(f"kernels of {name} for {arch}, and their parameters", found, want)
    newer = subprocess.run([tool, "--emit-ptx=sm_70", ptx], capture_output=True, text=True, timeout=60)
    w.holds(f"an older architecture: {newer.stderr!r}", newer.returncode == 1 and "for sm_75 and later" in newer.stderr)


def check_records(o, work):
    """The program of e2e.channel by nvcc, its CUDA runtime in it, under mt-run: on the CPU device, and with the code that the runtime
    has made for a GPU."""
    app, tool = os.path.join(work, "channel"), os.path.join(o.build, "bin", "mt-ptx")
    standin = w.Standin(o.build)
    call(o.nvcc, "-O3", "-lineinfo", "-arch=sm_90", os.path.join(ROOT, "tests", "e2e", "src", "channel.cu"), "-o", app)
    call(tool, app, "--gpu=sm_90", "-o", app + ".image")
    call(tool, app + ".image", "--mt-only=nothing", "-o", app + ".gpu.0")
    world = w.World(o.build, ROOT, work, variables={"MEMTRACE_CACHE": os.path.join(o.build, "tests", "cache")})
    there = {**standin.variables, "MEMTRACE_TEST_SAME": "1"}
    app = [os.path.join(o.build, "bin", "mt-run"), app]
    plain = world.run_ok(app)
    for slots in ("32", "32K"):
        result = world.run_ok(app, MEMTRACE_RING_SLOTS=slots, **there)
        w.same("output", (result.out, result.err), (plain.out, plain.err))
        w.same("device", result.companion().events[0]["device"], "gpu")
        channel.whole(result)
        w.same(f"records, {slots} slots", channel.contents(result, sm=False), channel.contents(plain, sm=False))
    result = world.run_ok([*app, "stress", "400"], MEMTRACE_RING_SLOTS=32, **there)
    for stream in result.streams():
        channel.whole(result, stream)
        for launch in result.trace(stream):
            w.same("records", launch.ctas(), {(c, 0, 0): {("load", 4): 64, ("store", 4): 64} for c in range(4)})


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("--build", "--cuda"):
        parser.add_argument(name, required=True)
    o = parser.parse_args()
    o.build, o.nvcc = os.path.realpath(o.build), conformance.nvcc_of(os.path.realpath(o.build))
    if not o.nvcc:
        print("skipped: this CUDA toolkit has no nvcc")
        return 77
    failed = 0
    with tempfile.TemporaryDirectory(prefix="memtrace-ptx-gpu-") as work:
        for check in check_assembled, check_records:
            try:
                check(o, work)
                print(f"{check.__name__}: ok")
            except (w.Failed, subprocess.SubprocessError) as why:
                print(f"{check.__name__}: FAILED: {why}")
                failed = 1
    return failed


if __name__ == "__main__":
    sys.exit(main())
