#!/usr/bin/env python3
"""Runs kernels as vectors and with a fiber for each thread (--mt-vectors=off), traced and not: all must give the same, and the traces of
both must say that each thread accessed the same, in the same order.

run.py --build DIR --kernels N SEED...   kernels made by chance (generate.py); SEED is a number or A-B
run.py --build DIR --shapes              shapes.cu, calls.cu and waits.cu: kernels whose results are known beforehand"""
import argparse
import os
import re
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.realpath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "e2e")]
import generate  # noqa: E402
import headers  # noqa: E402

WAYS = {
    "untraced": {"MEMTRACE_ENABLE": "0"},
    "one worker": {"MEMTRACE_ENABLE": "0", "MEMTRACE_CPU_THREADS": "1"},
    "traced": {},
    "checked": {"MEMTRACE_CHECK": "1"},
}


WAITS = {"locks"}  # how often they look depends on who comes first


def call(command, **variables):
    env = {k: v for k, v in os.environ.items() if not k.startswith("MEMTRACE_")}
    done = subprocess.run(command, capture_output=True, text=True, timeout=1200, errors="replace",
                          env={**env, "MEMTRACE_DEVICE": "cpu", **variables})
    if done.returncode:
        sys.exit(f"{command}: exit code {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-3000:]}")
    return done


def build(args, source, program, *flags):
    """Compiles, and PROGRAM.threads; returns (kernels of which some launches are vectors, why not all of each)."""
    mt_cc, words = os.path.join(args.build, "bin", "mt-cc"), ["-std=c++17", "-w", "--mt-gpu-trace=off", "--mt-verbose=on", *flags]
    words += headers.words(mt_cc, words)
    call([mt_cc, *words, "--mt-vectors=off", source, "-o", program + ".threads"])
    said = call([mt_cc, *words, source, "-o", program]).stderr
    return said.count("warps are vectors"), re.findall(r"fibers?: (.*)", said)


def accesses(args, trace):
    """For each launch of a compact trace its kernel and what each thread accessed: {(CTA, thread): [(site, type, bytes, place)]}; a place is
    an allocation's number and an offset in it, as addresses differ from run to run."""
    launches, allocations = [], []
    for line in call([os.path.join(args.build, "bin", "mt-dump"), "--runs", "--companion", trace]).stdout.splitlines():
        word = line.split()
        if word[0] == "launch":
            launches.append((word[2], {}))
        if word[0] == "alloc":
            allocations.append((int(word[2], 16), int(word[3])))
        found = re.match(r"(load|store|atomic) (\d+)(?: x (\d+))? (\S+)(?: ([+-]\d+))? cta (\S+) sm \d+ warp (\d+) mask (\S+) site (\d+)", line)
        if not found:
            continue
        kind, size, count, at, stride, cta, warp, mask, site = found.groups()
        lanes = [i for i in range(32) if int(mask, 16) >> i & 1]
        listed = [int(a, 16) for a in at.split(",")]
        if len(listed) == 1:
            listed = [listed[0] + i * int(stride or 0) for i in range(int(count or 1))]
        for lane, address in zip(lanes, listed, strict=True):
            place = next((i, address - base) for i, (base, length) in enumerate(allocations) if 0 <= address - base < length)
            launches[-1][1].setdefault((cta, int(warp) * 32 + lane), []).append((site, kind, size, place))
    return launches


def compare_accesses(args, program, folder):
    """Vectors and threads: what each thread did. Returns how many accesses were compared."""
    seen = []
    for way in program, program + ".threads":
        call([way], MEMTRACE_DIR=folder, MEMTRACE_FORMAT="compact")
        seen.append(accesses(args, os.path.join(folder, "MemTrace-pipe-0.mtc")))
    if [name for name, _ in seen[0]] != [name for name, _ in seen[1]]:
        sys.exit(f"{program}: the traces of vectors and of threads have other launches")
    for (name, a), (_, b) in zip(*seen):
        for thread in () if name in WAITS else sorted(a.keys() | b.keys()):
            if a.get(thread) != b.get(thread):
                sys.exit(f"{program}: {name}, thread {thread}: as vectors {a.get(thread)}, else {b.get(thread)}")
    return sum(len(seq) for _, threads in seen[0] for seq in threads.values())


def ways(program):
    """(name, variables, program)"""
    for way, variables in WAYS.items():
        yield way, variables, program
        yield way + ", threads", variables, program + ".threads"


def compare(args, program, folder):
    first = None
    for way, variables, path in ways(program):
        out = call([path], MEMTRACE_DIR=folder, **variables).stdout
        for name in os.listdir(folder):
            os.unlink(os.path.join(folder, name))
        first = first or (way, out)
        for a, b in zip(first[1].splitlines(), out.splitlines()):
            if a != b:
                sys.exit(f"{program}: {first[0]}: {a}; {way}: {b}")
        if first[1] != out:
            sys.exit(f"{program}: {way} says less or more than {first[0]}")
    if compare_accesses(args, program, folder) < 1000:
        sys.exit(f"{program}: hardly any access was recorded")
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
                have, lack = build(args, os.path.join(HERE, "waits.cu"), os.path.join(work, "waits"), level, "--cuda-gpu-arch=sm_90")
                # lanes that take turns, from one to the next, or a lock in two places; unoptimised, the other way that cuda::barrier has; in CTAs of any
                # shape, waits of threads whose threadIdx.x is in a range
                few = 1 + (level == "-O0")
                if (have, lack) != (11 - few, (few + 2) * ["lanes that may wait for others of their warp"]):
                    sys.exit(f"waits.cu {level}: {have} kernels as vectors, not: {lack}")
                for way, variables, path in ways(os.path.join(work, "waits")):
                    said = call([path], MEMTRACE_DIR=folder, **variables).stdout
                    if said.splitlines()[-1] != "all right":
                        sys.exit(f"waits.cu {level}, {way}: {said}")
                have, lack = build(args, os.path.join(HERE, "shapes.cu"), os.path.join(work, "shapes"), level)
                # one has a barrier that some lanes do not come to
                if (have, lack) != (15, ["a barrier that not all lanes come to"]):
                    sys.exit(f"shapes.cu {level}: {have} kernels as vectors, not: {lack}")
                said = compare(args, os.path.join(work, "shapes"), folder)
                have, lack = build(args, os.path.join(HERE, "calls.cu"), os.path.join(work, "calls"), level)
                if (have, lack) != (8, []):
                    sys.exit(f"calls.cu {level}: {have} kernels as vectors, not: {lack}")
                said += compare(args, os.path.join(work, "calls"), folder)
                if said.splitlines().count("all right") != 2:
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
                compare(args, os.path.join(work, "chance"), folder)
                print(f"seed {seed}: {have} of {args.kernels} kernels as vectors, the same in {2 * len(WAYS)} ways", flush=True)


if __name__ == "__main__":
    main()
