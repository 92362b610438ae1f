#!/usr/bin/env python3
"""ptxas accepts an instrumented kernel with the GPU's record functions linked in, for each GPU that counts, and none of
the functions spills registers; nor does tracing keep kernels from compiling that fill their static shared memory.
Prints registers and the version of ptxas.

usage: ptxas.py --llvm BINDIR --cuda ROOT --bitcode gpu-device.bc --work DIR [--pass libMemtrace-Pass.so] [ARCH...]
"""
import argparse
import os
import re
import subprocess
import sys

FUNCTIONS = {"kernel", "__mt_gpu_begin", "__mt_gpu_access_global", "__mt_gpu_access_global_n", "record_block", "__mt_gpu_untraced",
             "__mt_gpu_count_global", "__mt_gpu_count_global_n", "record_count", "count_block"}


def run(*cmd):
    done = subprocess.run(cmd, text=True, capture_output=True)
    if done.returncode:
        sys.exit("failed: %s\n%s%s" % (" ".join(cmd), done.stdout, done.stderr))
    return done.stdout + done.stderr


def check(o, arch):
    here = os.path.dirname(os.path.abspath(__file__))
    linked, ptx = (os.path.join(o.work, "kernel_%s.%s" % (arch, e)) for e in ("bc", "ptx"))
    run(os.path.join(o.llvm, "llvm-link"), os.path.join(here, "kernel.ll"), o.bitcode, "-o", linked)
    run(os.path.join(o.llvm, "llc"), "-mcpu=" + arch, linked, "-o", ptx)
    said = run(os.path.join(o.cuda, "bin", "ptxas"), "-v", "-arch", arch, ptx, "-o", ptx[:-3] + "cubin")
    spills = dict(re.findall(r"Function properties for (\S+)\n\s*(.*)", said))
    missing = FUNCTIONS - set(spills)
    if missing:
        sys.exit("%s: ptxas says nothing of %s:\n%s" % (arch, ", ".join(sorted(missing)), said))
    bad = {f: s for f, s in spills.items() if not re.match(r"0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads", s)}
    if bad:
        sys.exit("%s: %s" % (arch, "; ".join("%s: %s" % b for b in bad.items())))
    used = re.search(r"Used (\d+) registers", said)
    if not used or " smem" in said:
        sys.exit("%s: the kernel should use no shared memory:\n%s" % (arch, said))
    print("%s: %s registers with all record functions called, no spills, no shared memory" % (arch, used[1]))


def check_full(o, arch):
    here = os.path.dirname(os.path.abspath(__file__))
    traced, ptx = (os.path.join(o.work, "full_%s.%s" % (arch, e)) for e in ("bc", "ptx"))
    os.environ["MEMTRACE_PASS_OPTIONS"] = "cpu-image=off"
    run(os.path.join(o.llvm, "opt"), "-load-pass-plugin=" + o.plugin, "-passes=memtrace-device",
        os.path.join(here, "full.ll"), "-o", traced)
    run(os.path.join(o.llvm, "llc"), "-mcpu=" + arch, traced, "-o", ptx)
    said = run(os.path.join(o.cuda, "bin", "ptxas"), "-v", "-arch", arch, ptx, "-o", ptx[:-3] + "cubin")
    kernels = {name: (int(registers), int(shared)) for name, registers, shared in re.findall(
        r"Compiling entry function '(\w+)'.*?Used (\d+) registers.*?(\d+) bytes smem", said, re.S)}
    names = {"direct", "direct__memtrace_traced", "helped", "helped__memtrace_traced", "indirect"}
    if set(kernels) != names or {s for _, s in kernels.values()} != {49152}:
        sys.exit("%s: two kernels in two versions, and one that cannot be traced, should use 49152 bytes of shared memory each:\n%s" % (arch, said))
    # As it was: a load, an addition to the address, a store.
    if kernels["direct"][0] > 12 or kernels["direct__memtrace_traced"][0] <= kernels["direct"][0]:
        sys.exit("%s: registers with and without record calls: %s" % (arch, kernels))
    print("%s: registers of a kernel with record calls %u, without %u"
          % (arch, kernels["direct__memtrace_traced"][0], kernels["direct"][0]))


def check_other(o, arch, bitcode):
    """The record functions of bench/gpu. Alone they save registers, so nothing is said of spills: the pass inlines what is
    called from a kernel."""
    name = os.path.splitext(os.path.basename(bitcode))[0]
    ptx = os.path.join(o.work, "%s_%s.ptx" % (name, arch))
    run(os.path.join(o.llvm, "llc"), "-mcpu=" + arch, bitcode, "-o", ptx)
    run(os.path.join(o.cuda, "bin", "ptxas"), "-c", "-arch", arch, ptx, "-o", ptx[:-3] + "o")


def main():
    ap = argparse.ArgumentParser()
    for name in ("--llvm", "--cuda", "--bitcode", "--work"):
        ap.add_argument(name, required=True)
    ap.add_argument("--pass", dest="plugin")
    ap.add_argument("--other", action="append", default=[])
    ap.add_argument("arch", nargs="*", default=["sm_75", "sm_80", "sm_90"])
    o = ap.parse_args()
    os.makedirs(o.work, exist_ok=True)
    print(run(os.path.join(o.cuda, "bin", "ptxas"), "--version").strip().splitlines()[-1])
    for arch in o.arch:
        check(o, arch)
        for bitcode in o.other:
            check_other(o, arch, bitcode)
        if o.plugin:
            check_full(o, arch)


main()
