#!/usr/bin/env python3
"""libmemtrace.so against the toolkit's own libcudart.so: exported names, error names and error texts.

usage: check_exports.py LIBMEMTRACE LIBCUDART
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
    return {line.split()[2].split("@")[0] for line in out.splitlines() if " T " in line}


def main():
    ours_path, theirs_path = sys.argv[1:]
    if not os.path.exists(theirs_path):
        print("no", theirs_path)
        return 77
    ours, theirs = exports(ours_path), exports(theirs_path)
    wrong = []
    missing = sorted(n for n in theirs - ours if n not in INTERNAL
                     and re.sub(r"(_pt[ds][sz])?$", r"_v2\1", n, count=1) not in ours)
    if missing:
        wrong.append("not exported: " + " ".join(missing))
    strange = sorted(n for n in ours if not re.match(r"_{0,2}cuda|mt_cpu_|__mt_|mt_runtime_version$|memtrace_(start|stop)$|nvtx(Domain|Range)|InitializeInjectionNvtx2$", n))
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
