#!/usr/bin/env python3
"""Runs kernels that have a host reference of their own as vectors: those of bench/life.cu (bench/life.h), and bounded.cu. All have code
for that, and each gives what the host gives. life.py --build DIR"""
import argparse
import os
import re
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.realpath(__file__))
sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(HERE, "..", "e2e"))
import headers  # noqa: E402
BENCH = os.path.join(HERE, "..", "..", "bench")


def call(command, **variables):
    env = {k: v for k, v in os.environ.items() if not k.startswith("MEMTRACE_")}
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, env={**env, "MEMTRACE_DEVICE": "cpu", **variables})
    if done.returncode:
        sys.exit(f"{command}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stderr


def build(args, program, *sources):
    mt_cc, words = os.path.join(args.build, "bin", "mt-cc"), ["-O2", "-w", "--mt-gpu-trace=off", "--mt-verbose=on"]
    said = call([mt_cc, *words, *headers.words(mt_cc, words), *sources, "-o", program])
    lack = re.findall(r"kernel (.*?):.* fibers?: (.*)", said)
    if lack or "warps are vectors" not in said:
        sys.exit(f"not as vectors: {lack}\n{said}")


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--build", required=True)
    args = p.parse_args()
    with open(os.path.join(BENCH, "life.def"), encoding="utf-8") as f:
        kernels = re.findall(r"^LIFE\((\w+)", f.read(), re.M)
    with tempfile.TemporaryDirectory() as work:
        life, bounded = os.path.join(work, "life"), os.path.join(work, "bounded")
        build(args, life, os.path.join(BENCH, "loops.cu"), os.path.join(BENCH, "life.cu"))
        build(args, bounded, os.path.join(HERE, "bounded.cu"))
        for command in [[life, kernel, "1"] for kernel in kernels] + [[bounded]]:
            call(command, MEMTRACE_ENABLE="0", MEMTRACE_DIR=work)
    print(f"{len(kernels)} kernels of bench/life.cu and bounded.cu as vectors give what the host gives")


if __name__ == "__main__":
    main()
