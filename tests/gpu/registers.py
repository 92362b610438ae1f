#!/usr/bin/env python3
"""Kernels with record calls can be launched with as many threads as without: by the registers that ptxas gives both
versions of each, whose PTX is in one file (NAME__memtrace_traced and NAME). Threads are what the launch bounds allow, or
1,024. Prints the most registers of each file, with and without, and what is spilled.

usage: registers.py --mt-cc MT-CC --cuda ROOT --work DIR [--arch sm_75,sm_80,sm_90] [--include DIR] [--list] -- FILE.cu...
"""
import argparse
import os
import re
import subprocess
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "lib"))
import headers  # noqa: E402

TRACED = "__memtrace_traced"
SM_REGISTERS, MOST = 65536, 1024


def run(*cmd):
    done = subprocess.run(cmd, text=True, capture_output=True)
    if done.returncode:
        sys.exit("failed: %s\n%s%s" % (" ".join(cmd), done.stdout, done.stderr))
    return done.stdout + done.stderr


def bounds(ptx):
    """{kernel: (threads that its .maxntid allows, is there a limit of registers or of blocks)}"""
    found = {}
    for name, directives in re.findall(r"\.entry (\w+)\([^{]*?\)([^{]*)\{", ptx):
        limit = re.search(r"\.maxntid (\d+)(?:, *(\d+))?(?:, *(\d+))?", directives)
        found[name] = (int(limit[1]) * int(limit[2] or 1) * int(limit[3] or 1) if limit else MOST,
                       bool(re.search(r"\.maxnreg|\.minnctapersm", directives)))
    return found


def kernels(said):
    """{kernel: (registers, bytes of spill stores)} from the words of ptxas -v"""
    found = {}
    for name, rest in re.findall(r"Compiling entry function '(\w+)' for.*?\n(.*?)(?=Compiling entry|\Z)", said, re.S):
        found[name] = (int(re.search(r"Used (\d+) registers", rest)[1]), int(re.search(r"(\d+) bytes spill stores", rest)[1]))
    return found


def threads(registers):
    """The most of a block: a warp's registers come in pieces of 256, and warps are spread over four schedulers."""
    warps = SM_REGISTERS // 4 // ((32 * registers + 255) // 256 * 256) * 4
    return min(MOST, 32 * warps)


def check(o, source, arch):
    """Of the kernels that can record: [(name, possible threads, with, without)]"""
    name = os.path.join(o.work, "%s.%s" % (os.path.splitext(os.path.basename(source))[0], arch))
    words = ["-O2", "-std=c++17", "--mt-cpu-image=off", "-arch=" + arch, "-ptx", *("-I" + i for i in o.include)]
    run(o.mt_cc, *words, *headers.words(o.mt_cc, words, source), source, "-o", name + ".ptx")
    with open(name + ".ptx", encoding="utf-8") as f:
        limit = bounds(f.read())
    used = kernels(run(os.path.join(o.cuda, "bin", "ptxas"), "-v", "-arch=" + arch, name + ".ptx", "-o", name + ".cubin"))
    rows = []
    for kernel, plain in used.items():
        traced = used.get(kernel + TRACED)
        if traced:
            most, limited = limit[kernel + TRACED]
            if most != limit[kernel][0]:
                sys.exit("%s: %s: launch bounds differ from those without record calls" % (source, kernel))
            if most > 256 and not limited:
                sys.exit("%s: %s: nothing limits its registers" % (source, kernel))
            rows.append((kernel, min(most, threads(plain[0])), traced, plain))
    if not rows:
        sys.exit("%s, %s: no kernel has two versions:\n%s" % (source, arch, "\n".join(used)))
    return rows


def main():
    ap = argparse.ArgumentParser()
    for name in ("--mt-cc", "--cuda", "--work"):
        ap.add_argument(name, required=True)
    ap.add_argument("--arch", default="sm_75,sm_80,sm_90")
    ap.add_argument("--include", action="append", default=[])
    ap.add_argument("--list", action="store_true", help="each kernel")
    ap.add_argument("source", nargs="+")
    o = ap.parse_args()
    os.makedirs(o.work, exist_ok=True)
    bad = count = 0
    for source in o.source:
        for arch in o.arch.split(","):
            rows = check(o, source, arch)
            most = max(rows, key=lambda r: r[2][0])
            count += len(rows)
            print("%s %s: %u kernels, most registers with record calls %u (the same kernel without: %u), without %u, "
                  "bytes spilled with %u, without %u"
                  % (os.path.basename(source), arch, len(rows), most[2][0], most[3][0], max(r[3][0] for r in rows),
                     sum(r[2][1] for r in rows), sum(r[3][1] for r in rows)), flush=True)
            for kernel, want, traced, plain in rows:
                fails = threads(traced[0]) < want
                bad += fails
                if fails or o.list:
                    print("%s%s: %u registers, %u without record calls: %u of %u threads; spills %u, %u"
                          % ("FAILED " if fails else "  ", kernel, traced[0], plain[0], min(threads(traced[0]), want), want,
                             traced[1], plain[1]))
    print("%u kernels, %u failed" % (count, bad))
    sys.exit(bad != 0)


main()
