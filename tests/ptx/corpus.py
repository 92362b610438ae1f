#!/usr/bin/env python3
"""Code that compilers made, through the reader and back: corpus.py --build DIR --clang CLANG --llc LLC [--work DIR] KIND...

KIND is optimised (nvcc -O3 -lineinfo), debug (nvcc -G) or clang (clang++ -S, without the plugin). The kernels of the
examples, of tests/conformance and of tests/hardware become PTX; mt-ptx reads each without a word, and llc makes PTX of its
IR again, which ptxas takes for sm_75, sm_80 and sm_90 where it took the first. The numbers of kernels are the same. Exit
code 1 if a file fails, 77 without nvcc."""
import argparse
import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.realpath(__file__))
ROOT = os.path.join(HERE, "..", "..")
SOURCES = ("examples/*/*.cu", "tests/conformance/*.cu", "tests/hardware/kernels/*.cu")
TARGETS = (75, 80, 90)


def toolkit(build):
    with open(os.path.join(build, "cuda-overlay", "bin", ".memtrace-overlay"), encoding="utf-8") as f:
        return dict(line.strip().split("=", 1) for line in f if "=" in line)["cuda"]


def call(*words):
    return subprocess.run(words, capture_output=True, text=True, timeout=600)


def to_ptx(args, kind, source, arch, out):
    """False: the compiler does not take this source for that architecture."""
    include = [f"-I{os.path.dirname(source)}", f"-I{os.path.join(ROOT, 'include')}"]
    if kind == "clang":
        done = call(args.clang, "-S", "--cuda-device-only", f"--cuda-gpu-arch=sm_{arch}", "-std=c++17", "-O2",
                    "-gline-tables-only", "-Wno-unknown-cuda-version", f"--cuda-path={args.build}/cuda-overlay", *include, source,
                    "-o", out)
    else:
        how = ["-G"] if kind == "debug" else ["-O3", "-lineinfo"]
        done = call(os.path.join(args.cuda, "bin", "nvcc"), "-ptx", "-std=c++17", "--expt-relaxed-constexpr", *how,
                    f"-arch=sm_{arch}", *include, source, "-o", out)
    return done.returncode == 0


def check(args, kind, source, arch, stem):
    """A sentence about what is wrong, "" when nothing is, or None: there is nothing to check."""
    ptx, ir, again = stem + ".ptx", stem + ".ll", stem + ".again.ptx"
    ptxas = os.path.join(args.cuda, "bin", "ptxas")
    if not to_ptx(args, kind, source, arch, ptx):
        return None
    if call(ptxas, f"-arch=sm_{arch}", ptx, "-o", os.devnull).returncode != 0:
        return None
    done = call(os.path.join(args.build, "libexec", "memtrace", "mt-ptx"), "--emit-ir", ptx, "-o", ir)
    if done.returncode != 0 or done.stderr:
        return f"mt-ptx: exit code {done.returncode}: {done.stderr[:600]}"
    done = call(args.llc, f"-mcpu=sm_{arch}", "-mattr=+ptx83", "-O2", ir, "-o", again)
    if done.returncode != 0:
        return f"llc: {done.stderr[:600]}"
    with open(ptx, encoding="utf-8", errors="replace") as f:
        before = f.read()
    with open(again, encoding="utf-8", errors="replace") as f:
        after = f.read()
    version = re.search(r"^\.version.*", before, re.M)[0]  # LLVM 19 ends at 8.5
    with open(again, "w", encoding="utf-8") as f:
        f.write(re.sub(r"^\.version.*", version, after, count=1, flags=re.M))
    done = call(ptxas, f"-arch=sm_{arch}", again, "-o", os.devnull)
    if done.returncode != 0:
        return f"ptxas: {done.stderr[:600]}"
    kernels = [sorted(re.findall(r"\.entry\s+([\w$]+)", text)) for text in (before, after)]
    return "" if kernels[0] == kernels[1] else f"kernels: {kernels[0]} became {kernels[1]}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", required=True)
    parser.add_argument("--clang", required=True)
    parser.add_argument("--llc", required=True)
    parser.add_argument("--work")
    parser.add_argument("kinds", nargs="+")
    args = parser.parse_args()
    args.build = os.path.realpath(args.build)
    args.cuda = toolkit(args.build)
    if not os.path.exists(os.path.join(args.cuda, "bin", "nvcc")):
        print("skipped: this CUDA toolkit has no nvcc")
        return 77
    work = args.work or tempfile.mkdtemp(prefix="memtrace-corpus-")
    os.makedirs(work, exist_ok=True)
    sources = sorted(p for pattern in SOURCES for p in glob.glob(os.path.join(ROOT, pattern)))
    failed = checked = 0
    try:
        for kind in args.kinds:
            for number, source in enumerate(sources):
                arch = TARGETS[-1 if kind == "debug" else number % 3]  # each file for one of them
                found = check(args, kind, source, arch, os.path.join(work, os.path.basename(source)[:-3]))
                if found is None and arch != TARGETS[-1]:
                    arch = TARGETS[-1]
                    found = check(args, kind, source, arch, os.path.join(work, os.path.basename(source)[:-3]))
                checked += found is not None
                if found:
                    failed += 1
                    print(f"FAILED {kind} {os.path.relpath(source, ROOT)} sm_{arch}: {found}", flush=True)
    finally:
        if not args.work:
            shutil.rmtree(work, ignore_errors=True)
    print(f"{checked} files, {failed} failed")
    return 1 if failed or checked < 20 * len(args.kinds) else 0


if __name__ == "__main__":
    sys.exit(main())
