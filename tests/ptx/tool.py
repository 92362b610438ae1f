#!/usr/bin/env python3
"""mt-ptx as a command: tool.py --build DIR. Options, exit codes and messages; then, with nvcc, fatbins of all packings, in
objects and programs, of one architecture and several, which must give the IR that the PTX beside them gives; and damaged ones."""
import argparse
import os
import random
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.realpath(__file__))
sys.path.insert(0, HERE)
import corpus  # noqa: E402

KERNEL = """.version 8.0
.target sm_80
.address_size 64
.visible .entry good(.param .u64 p)
{
    .reg .b64 %x; .reg .b32 %r;
    ld.param.u64 %x, [p]; ld.global.u32 %r, [%x]; add.u32 %r, %r, 1; st.global.u32 [%x], %r; ret;
}
"""
BAD = ".visible .entry bad() {\n    frobnicate.u32 %r1;\n    .nonsense;\n}\n"
SOURCE = '__global__ void add(int *p) { p[threadIdx.x] += 1; }\nint main() { return 0; }\n'
failed = 0


def expect(what, holds, more=""):
    global failed
    if not holds:
        failed += 1
        print(f"FAILED {what} {more}")


def call(*words, **more):
    return subprocess.run(words, capture_output=True, text=True, timeout=300, **more)


def options(tool, work):
    expect("--help", "Usage: mt-ptx" in call(tool, "--help").stdout)
    expect("--version", call(tool, "--version").stdout.startswith("mt-ptx "))
    good, bad, image = (os.path.join(work, name) for name in ("good.ptx", "bad.ptx", "image"))
    for path, text in (good, KERNEL), (bad, KERNEL + BAD):
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)
    for words, code in (([], 2), ([good], 2), ([good, bad, "-o", image], 2), ([good, "-O9", "-o", image], 2),
                        ([good, "--mt-nothing=1", "-o", image], 2), ([good, "--module=x", "-o", image], 2),
                        ([os.path.join(work, "none"), "-o", image], 1), ([good, "-o", os.path.join(work, "no", "where")], 1),
                        ([good, "-o", image], 0)):
        done = call(tool, *words)
        expect(f"{words}: exit code", done.returncode == code, f"{done.returncode} {done.stderr}")
        expect(f"{words}: words", bool(done.stderr) == (code != 0), done.stderr)
    with open(image, "rb") as f:
        head = f.read(28)
    expect("an empty fatbin and the payload", head[:4] == b"\x50\xed\x55\xba" and head[16:24] == b"MTCPUIM1", str(head))
    for name, text in ("empty", ""), ("words.txt", "root:x:0:0:\n" * 9):
        with open(os.path.join(work, name), "w", encoding="utf-8") as f:
            f.write(text)
        done = call(tool, "--list", os.path.join(work, name))
        expect(f"--list of {name}", done.returncode == 3 and not done.stdout and name in done.stderr, f"{done.returncode} {done.stdout}")
    evil = os.path.join(work, "evil.ptx")
    with open(evil, "w", encoding="utf-8") as f:
        f.write(KERNEL + ".visible .entry k\x1b]0;pwn\x07\u009b31m(.param .u64 a)\n{\n \x1b[2J bad;\n ret;\n}\n" + BAD.replace("frobnicate", "frob\x1b[2Jnicate"))
    for words in ["--list", evil], [evil, "-o", image]:
        done = call(tool, *words)
        seen = {c for c in done.stdout + done.stderr if ord(c) < 32 or 127 <= ord(c) < 160} - {"\n"}
        expect(f"{words}: nothing for a terminal to obey", not seen and "\\x1b" in done.stdout + done.stderr, f"{seen} {done.stdout} {done.stderr}")
    done = call(tool, bad, "-o", image)
    expect("a bad kernel beside a good one", done.returncode == 0 and f"{bad}:11: bad cannot run" in done.stderr, done.stderr)
    done = call(tool, "-v", good, "-o", image)
    expect("-v", "1 kernels" in done.stderr and "kernel good: traced" in done.stderr, done.stderr)
    expect("sites of the PTX's own lines", "2 sites" in done.stderr, done.stderr)
    done = call(tool, "--emit-ir", good)
    expect("--emit-ir", done.returncode == 0 and "define void @good(ptr" in done.stdout, done.stderr)
    for text in "", "\0\0", ".version", "\x7fELF", "hello\n", KERNEL[:-3]:
        with open(good, "w", encoding="utf-8") as f:
            f.write(text)
        done = call(tool, good, "-o", image)
        expect(f"{text!r}: exit code", done.returncode == 3, f"{done.returncode} {done.stderr}")


def fatbins(tool, nvcc, work):
    source, ptx, image = (os.path.join(work, name) for name in ("add.cu", "add.ptx", "image"))
    with open(source, "w", encoding="utf-8") as f:
        f.write(SOURCE)
    call(nvcc, "-ptx", "-arch=sm_90", source, "-o", ptx, check=True)
    want = call(tool, "--emit-ir", ptx).stdout.split("target triple")[1].split("\n!")[0]
    several = ["-gencode=arch=compute_75,code=compute_75", "-gencode=arch=compute_90,code=[sm_90,compute_90]"]
    for how in (["-arch=sm_90", "-Xfatbin=-compress-mode=none"], ["-arch=sm_90", "-Xfatbin=-compress-mode=speed"],
                ["-arch=sm_90", "-Xfatbin=-compress-mode=size"], ["-arch=sm_90", "-Xfatbin=-compress-all"], several,
                ["-arch=sm_90", "-rdc=true"]):
        for flags, name in ((["-fatbin"], "x.fatbin"), (["-c"], "x.o"), ([], "x")):
            out = os.path.join(work, name)
            if call(nvcc, *how, *flags, source, "-o", out).returncode != 0:
                print(f"left out: {how} {flags}")
                continue
            modules = call(tool, "--list", out).stdout
            number = [line.split(":")[0] for line in modules.splitlines() if ": PTX for compute_90" in line]
            expect(f"{how} {flags}: one module", len(number) == 1, modules)
            done = call(tool, "--emit-ir", out, f"--module={(number or [0])[0]}")
            got = done.stdout.split("target triple")[-1].split("\n!")[0]
            expect(f"{how} {flags}: the same IR", got == want, done.stderr)
    only = os.path.join(work, "sass")
    call(nvcc, "-gencode=arch=compute_90,code=sm_90", source, "-o", only, check=True)
    done = call(tool, only, "-o", image)
    expect("machine code alone", done.returncode == 1 and "machine code alone" in done.stderr, done.stderr)
    damage(tool, os.path.join(work, "x.fatbin"), work)
    damage(tool, os.path.join(work, "x.o"), work)


def damage(tool, path, work):
    with open(path, "rb") as f:
        whole = f.read()
    rng, broken = random.Random(5), os.path.join(work, "broken")
    for case in range(120):
        data = bytearray(whole[:rng.randrange(len(whole))] if case % 3 == 0 else whole)
        for _ in range(rng.choice((0, 1, 4, 40)) if case % 3 == 0 else rng.choice((1, 4, 40))):
            if data:
                data[rng.randrange(min(len(data), 512) if case % 2 else len(data))] = rng.randrange(256)
        with open(broken, "wb") as f:
            f.write(data)
        done = call(tool, "--emit-ir", broken, "-o", os.devnull, errors="replace")
        expect(f"damage {case} of {path}", done.returncode in (0, 1, 3), f"{done.returncode} {done.stderr[:300]}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", required=True)
    args = parser.parse_args()
    tool = os.path.join(args.build, "bin", "mt-ptx")
    with tempfile.TemporaryDirectory(prefix="memtrace-mt-ptx-") as work:
        options(tool, work)
        nvcc = os.path.join(corpus.toolkit(args.build), "bin", "nvcc")
        if os.path.exists(nvcc):
            fatbins(tool, nvcc, work)
        else:
            print("this CUDA toolkit has no nvcc: no fatbins")
    print(f"{failed} failures" if failed else "fine")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
