#!/usr/bin/env python3
"""Runs kernels as vectors, as threads in a loop or on fibers, traced and not: all must give the same.

run.py --build DIR --kernels N SEED...   kernels made by chance (generate.py); SEED is a number or A-B
run.py --build DIR --shapes              shapes.cu: kernels whose results are known beforehand"""
import argparse
import os
import re
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.realpath(__file__))
sys.path.insert(0, HERE)
import generate  # noqa: E402

WAYS = {
    "threads": {"MEMTRACE_ENABLE": "0", "MEMTRACE_CPU_VECTORS": "0"},
    "vectors": {"MEMTRACE_ENABLE": "0"},
    "one worker": {"MEMTRACE_ENABLE": "0", "MEMTRACE_CPU_THREADS": "1"},
    "traced": {},
    "fibers": {"MEMTRACE_ENABLE": "0", "MEMTRACE_CPU_VECTORS": "fibers"},
    "checked": {"MEMTRACE_CHECK": "1"},
}


def call(command, **variables):
    env = {k: v for k, v in os.environ.items() if not k.startswith("MEMTRACE_")}
    done = subprocess.run(command, capture_output=True, text=True, timeout=1200, errors="replace",
                          env={**env, "MEMTRACE_DEVICE": "cpu", **variables})
    if done.returncode:
        sys.exit(f"{command}: exit code {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-3000:]}")
    return done


def build(args, source, program, *flags):
    """Compiles; returns (kernels that have code for warps, why others have none)."""
    said = call([os.path.join(args.build, "bin", "mt-cc"), "-std=c++17", "-w", "--mt-gpu-trace=off", "--mt-verbose=on", *flags, source,
                 "-o", program]).stderr
    return said.count("; not traced, warps as vectors"), re.findall(r"its warps cannot be vectors: (.*)", said)


def compare(program, folder):
    first = None
    for way, variables in WAYS.items():
        out = call([program], MEMTRACE_DIR=folder, **variables).stdout
        for name in os.listdir(folder):
            os.unlink(os.path.join(folder, name))
        first = first or (way, out)
        for a, b in zip(first[1].splitlines(), out.splitlines()):
            if a != b:
                sys.exit(f"{program}: {first[0]}: {a}; {way}: {b}")
        if first[1] != out:
            sys.exit(f"{program}: {way} says less or more than {first[0]}")
    return first[1]


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--build", required=True)
    p.add_argument("--kernels", type=int, default=14)
    p.add_argument("--shapes", action="store_true")
    p.add_argument("seeds", nargs="*")
    args = p.parse_args()
    with tempfile.TemporaryDirectory() as work:
        folder = os.path.join(work, "traces")
        os.makedirs(folder)
        if args.shapes:
            for level in ("-O2", "-O0"):
                have, lack = build(args, os.path.join(HERE, "shapes.cu"), os.path.join(work, "shapes"), level)
                # one spins, one calls by pointer, one has a barrier that some lanes do not come to
                if (have, sorted(lack)) != (13, ["a barrier that not all lanes come to", "a call by pointer", "mt_cpu_yield"]):
                    sys.exit(f"shapes.cu {level}: {have} kernels as vectors, not: {lack}")
                said = compare(os.path.join(work, "shapes"), folder)
                if said.splitlines()[-1] != "all right":
                    sys.exit(said)
        for word in args.seeds:
            low, _, high = word.partition("-")
            for seed in range(int(low), int(high or low) + 1):
                source = os.path.join(work, f"chance{seed}.cu")
                with open(source, "w", encoding="utf-8") as f:
                    f.write(generate.program(seed, args.kernels))
                have, lack = build(args, source, os.path.join(work, "chance"), "-O1")
                if have < 0.8 * args.kernels:
                    sys.exit(f"seed {seed}: only {have} of {args.kernels} kernels run as vectors: {lack}")
                compare(os.path.join(work, "chance"), folder)
                print(f"seed {seed}: {have} of {args.kernels} kernels as vectors, the same in {len(WAYS)} ways", flush=True)


if __name__ == "__main__":
    main()
