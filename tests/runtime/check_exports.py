#!/usr/bin/env python3
"""libmemtrace.so against the toolkit's own libcudart.so: exported names, error names and error texts; and, with CUDA 13,
the names and version nodes that programs for older versions ask for.

usage: check_exports.py LIBMEMTRACE LIBCUDART OLDER.DEF
Exit codes: 0 equal, 1 something differs, 77 there is no libcudart.so to compare with.
"""
import ctypes
import os
import re
import subprocess
import sys

# Called by NVIDIA's own tools, or kept for programs older than the header.
INTERNAL = {"__cudaGetProcAddress", "__cudaRegisterUnifiedTable", "cudaProfilerInitialize",
            "cudaStreamUpdateCaptureDependencies_ptsz"}


def exports(path):
    out = subprocess.run(["nm", "-D", "--defined-only", path], text=True, check=True, capture_output=True).stdout
    return [line.split()[2] for line in out.splitlines() if " T " in line]


def default(names):
    """What a program without versions can get."""
    return {re.sub("@@.*", "", n) for n in names if "@" not in n.replace("@@", "")}


def check_older(names, rows, wrong):
    """Every name of ours under every node, and those of older.def."""
    nodes = {"12": "@libcudart.so.12", "11": "@libcudart.so.11.0"}
    for major, node in nodes.items():
        have = {n[:-len(node)] for n in names if n.endswith(node) and "@@" not in n}
        want = {n for n in default(names) if re.match("_{0,2}cuda", n)} | {n for m, n in rows if m == major}
        if have != want:
            wrong.append(f"{node}: not there {sorted(want - have)}, too many {sorted(have - want)}")


def main():
    ours_path, theirs_path, older = sys.argv[1:]
    if not os.path.exists(theirs_path):
        print("no", theirs_path)
        return 77
    names = exports(ours_path)
    ours, theirs = default(names), default(exports(theirs_path))
    wrong = []
    if any(n.endswith("@@libcudart.so.13") for n in names):
        with open(older, encoding="utf-8") as f:
            check_older(names, re.findall(r"^MT_(?:OLDER|GONE)\((\d+), (\w+)\)", f.read(), re.M), wrong)
    missing = sorted(n for n in theirs - ours if n not in INTERNAL
                     and re.sub(r"(_pt[ds][sz])?$", r"_v2\1", n, count=1) not in ours)
    if missing:
        wrong.append("not exported: " + " ".join(missing))
    strange = sorted(n for n in ours if not re.match(r"_{0,2}cuda|cu[A-Z]|mt_cpu_|__mt_|mt_runtime_version$|memtrace_(start|stop)$|nvtx(Domain|Range)|(__)?nvrtc|(__)?nvJitLink|InitializeInjectionNvtx(2|Extension)$", n))
    if strange:
        wrong.append("exported, but no name of ours: " + " ".join(strange))

    a, b = ctypes.CDLL(ours_path), ctypes.CDLL(theirs_path)
    for lib in (a, b):
        lib.cudaGetErrorName.restype = lib.cudaGetErrorString.restype = ctypes.c_char_p
    codes = texts = 0
    for code in range(0, 1100):
        name = b.cudaGetErrorName(code)
        if a.cudaGetErrorName(code) != name:
            wrong.append(f"error {code}: {a.cudaGetErrorName(code)} instead of {name}")
        known = name != b"unrecognized error code"
        codes += known
        texts += known and a.cudaGetErrorString(code) == b.cudaGetErrorString(code)
        if known and "-v" in os.environ.get("CHECK", "") and a.cudaGetErrorString(code) != b.cudaGetErrorString(code):
            print(code, a.cudaGetErrorString(code), b.cudaGetErrorString(code))
    print(f"{len(theirs & ours)} names, {codes} errors, {texts} with the same text")
    print("\n".join(wrong))
    return 1 if wrong or codes < 80 or texts < 90 else 0


if __name__ == "__main__":
    sys.exit(main())
