#!/usr/bin/env python3
"""Runs the kernels of bench/life.cu as vectors: all have code for that, and each gives what plain C does (bench/life.h). life.py --build DIR"""
import argparse
import os
import re
import subprocess
import sys
import tempfile

BENCH = os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..", "bench")


def call(command, **variables):
    env = {k: v for k, v in os.environ.items() if not k.startswith("MEMTRACE_")}
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, env={**env, "MEMTRACE_DEVICE": "cpu", **variables})
    if done.returncode:
        sys.exit(f"{command}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stderr


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--build", required=True)
    args = p.parse_args()
    with open(os.path.join(BENCH, "life.def"), encoding="utf-8") as f:
        kernels = re.findall(r"^LIFE\((\w+)", f.read(), re.M)
    with tempfile.TemporaryDirectory() as work:
        program = os.path.join(work, "life")
        sources = [os.path.join(BENCH, name) for name in ("loops.cu", "life.cu")]
        said = call([os.path.join(args.build, "bin", "mt-cc"), "-O2", "-w", "--mt-gpu-trace=off", "--mt-verbose=on", *sources, "-o", program])
        lack = re.findall(r"kernel (.*?):.* its warps cannot be vectors: (.*)", said)
        if lack or "warps as vectors" not in said:
            sys.exit(f"not as vectors: {lack}\n{said}")
        for kernel in kernels:
            call([program, kernel, "1"], MEMTRACE_ENABLE="0", MEMTRACE_DIR=work)
    print(f"{len(kernels)} kernels as vectors give what plain C gives")


if __name__ == "__main__":
    main()
