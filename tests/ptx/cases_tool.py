"""mt-ptx as a command. Options, exit codes and messages; then, with nvcc, fatbins of all packings, in objects and programs, of one
architecture and several, which must give the IR that the PTX beside them gives; and damaged ones."""
import os
import random
import re
import resource
import signal
import struct
import tempfile

import harness
from harness import Skipped, case, holds, nvcc_of, run, same
from harness import call as must

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


def expect(what, condition, more=""):
    holds(f"{what} {more}", condition)


def call(*words, **more):
    return run(words, 300, **more)


def options(tool, work):
    expect("--help", "Usage: mt-ptx" in call(tool, "--help").stdout)
    expect("--version", call(tool, "--version").stdout.startswith("mt-ptx "))
    good, bad, image = (os.path.join(work, name) for name in ("good.ptx", "bad.ptx", "image"))
    for path, text in (good, KERNEL), (bad, KERNEL + BAD):
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)
    for words, code in (([], 2), ([good], 2), ([good, bad, "-o", image], 2), 
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


HEAD = ".version 8.0\n.target sm_80\n.address_size 64\n"
BODY = HEAD + ".visible .entry k(.param .u64 p)\n{{\n.reg .b32 %r<4>;\nmov.u32 %r1, %tid.x;\n{}ret;\n}}\n"


def jumps(n, times=1, labels=4):
    return BODY.format("T: .branchtargets " + ",".join(f"L{i % labels}" for i in range(n)) + ";\n" + "brx.idx %r1, T;\n" * times
                       + "".join(f"L{i}: add.u32 %r2, %r2, {i};\n" for i in range(labels)))


# What a small text can ask for: the exit code, and what is said.
BOMBS = {
    "values": (HEAD + ".global .align 4 .u32 g[100000000] = {1,2,3};\n", 3, "--limit=382M"),
    "rows": (HEAD + ".global .b32 g[2][100000000] = {{1},{2}};\n", 3, "--limit=382M"),
    "zeros": (HEAD + ".global .b32 g[100000000];\n" + BODY.format("")[len(HEAD):], 0, ""),
    "registers": (HEAD + "".join(f".func f{i}() {{\n.reg .b32 %r<1000000>;\nret;\n}}\n" for i in range(100)), 0, "--limit="),
    "results": (HEAD + ".func (.param .b8 r[100000000]) f(.param .b8 a[100000000]) {\nret;\n}\n", 3, "--limit="),
    "jumps": (jumps(200000), 0, ""), "many jumps": (jumps(3000, 3000), 0, ""), "labels": (jumps(20000, 1, 20000), 0, ""),
    "lines": (HEAD + "".join(f".global .b32 v{i} = {{1,2,3}};\n" for i in range(50000)), 3, "more values"),
    "backwards": (HEAD + "".join(f".func f{i}();\n" for i in range(5000)) + "".join(f".func f{i}() {{\nret;\n}}\n" for i in range(4999, -1, -1)), 0, ""),
    "braces": (BODY.format("{" * 100000 + "}" * 100000), 0, "nested too deep"),
    "local": (BODY.format(".local .b8 d[268435456];\n.reg .b64 %p;\nmov.u64 %p, d;\nst.local.u32 [%p], %r1;\n"), 0, ""),
}


def entry(kind, data, unpacked, flags):
    padded = data + b"\0" * (-len(data) % 8)
    return struct.pack("<HHIQIIHHIIIQQQ", kind, 0x101, 64, len(padded), len(data), 0, 0, 8, 80, 0, 0, flags, 0, unpacked) + padded


def packed_bombs():
    """A kernel, and NULs behind it: name -> the fatbin. Zstd's blocks are a byte and how often it is repeated; LZ4 has a match."""
    text = KERNEL.encode()
    zstd = b"\x28\xb5\x2f\xfd\xa0" + struct.pack("<I", len(text) + 8191 * 131072)
    zstd += (len(text) << 3).to_bytes(3, "little") + text
    zstd += b"".join((int(i == 8190) | 2 | 131072 << 3).to_bytes(3, "little") + b"\0" for i in range(8191))
    more, n = divmod(len(text) + 1 - 15, 255)
    lz4 = b"\xff" + b"\xff" * more + bytes([n]) + text + b"\0" + b"\1\0" + b"\xff" * 263000 + b"\0" + b"\x50" + b"\0" * 5
    unpacked = len(text) + 1 + 19 + 255 * 263000 + 5
    for name, data, size, flags in (("zstd", zstd, len(text) + 8191 * 131072, 0x8000), ("lz4", lz4, unpacked, 0x2000)):
        whole = entry(1, data, size, flags)
        yield name, struct.pack("<IHHQ", 0xba55ed50, 1, 16, len(whole)) + whole


def measured(*words):
    """What it says, seconds of processor time and MiB of memory."""
    with tempfile.TemporaryFile("w+") as said:
        pid = os.posix_spawn(words[0], words, os.environ, file_actions=[(os.POSIX_SPAWN_DUP2, said.fileno(), 1), (os.POSIX_SPAWN_DUP2, said.fileno(), 2)])
        _, status, used = os.wait4(pid, 0)
        said.seek(0)
        return os.waitstatus_to_exitcode(status), said.read(), used.ru_utime + used.ru_stime, used.ru_maxrss / 1024


def bombs(tool, work):
    """Time and memory are bounded by the input, or a number is refused that an option raises."""
    image, path = os.path.join(work, "image"), os.path.join(work, "bomb")
    for name, (text, code, says) in BOMBS.items():
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)
        got, said, seconds, memory = measured(tool, path, "-o", image)
        expect(f"bomb {name}", got == code and says in said and seconds < 10 and memory < 300, f"{got} {seconds} s {memory} MiB {said[:300]}")
    with open(path, "w", encoding="utf-8") as f:
        f.write(BOMBS["values"][0].replace("100000000", "6000000") + BODY.format("")[len(HEAD):])
    got, said, _, memory = measured(tool, path, "-o", image)
    expect("a number that is refused", got == 3 and "--limit=23M" in said and memory < 300, said)
    got, said, _, memory = measured(tool, "--limit=23M", path, "-o", image)
    expect("and let", got == 0 and memory < 400, f"{memory} {said}")
    for name, data in packed_bombs():
        with open(path, "wb") as f:
            f.write(data)
        got, said, seconds, memory = measured(tool, path, "-o", image)
        expect(f"fatbin {name}", got == 3 and "--limit=" in said and seconds < 10 and memory < 200, f"{got} {seconds} s {memory} MiB {said[:300]}")
        got, said, _, _ = measured(tool, "--limit=1G", path, "-o", image) if name == "lz4" else (0, "", 0, 0)
        expect(f"fatbin {name}, let", got == 0, said)
    data = struct.pack("<IHHQ", 0xba55ed50, 1, 16, 0) * 4096
    names = b"\0.shstrtab\0.nv_fatbin\0"
    table = struct.pack("<IIQQQQIIQQ", 1, 3, 0, 0, 64, len(names), 0, 0, 1, 0)
    table += struct.pack("<IIQQQQIIQQ", 11, 1, 0, 0, 64 + len(names), len(data), 0, 0, 1, 0) * 60000
    with open(path, "wb") as f:
        f.write(struct.pack("<4sBBBB8xHHIQQQIHHHHHH", b"\x7fELF", 2, 1, 1, 0, 1, 62, 1, 0, 0, 64 + len(names) + len(data), 0, 64, 0, 0, 64, 60001, 0)
                + names + data + table)
    got, said, seconds, memory = measured(tool, "--list", path)
    expect("sections over each other", got == 3 and "damaged" in said and seconds < 10 and memory < 300, f"{got} {seconds} s {memory} MiB {said[:300]}")


def links(tool, work):
    """Another user's link is not followed, one's own is."""
    path, link, target = (os.path.join(work, name) for name in ("linked.ptx", "link", "target"))
    with open(path, "w", encoding="utf-8") as f:
        f.write(KERNEL)
    os.symlink(target, link)
    for words in [], ["--emit-ir"]:
        for owner in (65534, 0) if os.geteuid() == 0 else (os.geteuid(),):
            os.chown(link, owner, -1, follow_symlinks=False)
            done = call(tool, path, *words, "-o", link)
            own = owner == os.geteuid()
            expect(f"link of {owner}", (done.returncode, "of another user" in done.stderr, os.path.exists(target)) == (int(not own), not own, own), done.stderr)
        os.unlink(target)


def deep(tool, work):
    """A long chain of instructions with little stack: as much is taken as the hard limit allows."""
    path = os.path.join(work, "deep.ptx")
    with open(path, "w", encoding="utf-8") as f:
        f.write(KERNEL.replace("add.u32 %r, %r, 1;", "mad.lo.u32 %r,%r,%r,%r;\n" * 2000))
    hard = resource.getrlimit(resource.RLIMIT_STACK)[1]
    done = call(tool, path, "-o", os.path.join(work, "image"), preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_STACK, (512 << 10, hard)))
    expect("a long chain", done.returncode == 0, f"{done.returncode} {done.stderr}")


def fatbins(tool, nvcc, work):
    source, ptx, image = (os.path.join(work, name) for name in ("add.cu", "add.ptx", "image"))
    with open(source, "w", encoding="utf-8") as f:
        f.write(SOURCE)
    must([nvcc, "-ptx", "-arch=sm_90", source, "-o", ptx])
    want = call(tool, "--emit-ir", ptx).stdout.split("target triple")[1].split("\n!")[0]
    several = ["-gencode=arch=compute_75,code=compute_75", "-gencode=arch=compute_90,code=[sm_90,compute_90]"]
    for how in (["-arch=sm_90", "-Xfatbin=-compress-mode=none"], ["-arch=sm_90", "-Xfatbin=-compress-mode=speed"],
                ["-arch=sm_90", "-Xfatbin=-compress-mode=size"], ["-arch=sm_90", "-Xfatbin=-compress-all"], several,
                ["-arch=sm_90", "-rdc=true"]):
        for flags, name, of in ((["-fatbin"], "x.fatbin", "add.cu"), (["-c"], "x.o", "add.cu"), ([], "x", "x.o")):
            out = os.path.join(work, name)
            if call(nvcc, *how, *flags, os.path.join(work, of), "-o", out).returncode != 0:
                print(f"left out: {how} {flags}")
                continue
            modules = call(tool, "--list", out).stdout
            number = [line.split(":")[0] for line in modules.splitlines() if ": PTX for compute_90" in line]
            expect(f"{how} {flags}: one module", len(number) == 1, modules)
            done = call(tool, "--emit-ir", out, f"--module={(number or [0])[0]}")
            got = done.stdout.split("target triple")[-1].split("\n!")[0]
            expect(f"{how} {flags}: the same IR", got == want, done.stderr)
    only = os.path.join(work, "sass")
    must([nvcc, "-gencode=arch=compute_90,code=sm_90", source, "-o", only])
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
        done = call(tool, "--emit-ir", broken, "-o", os.devnull)
        expect(f"damage {case} of {path}", done.returncode in (0, 1, 3), f"{done.returncode} {done.stderr[:300]}")


DIES = "#include <signal.h>\nint LLVMTargetMachineEmitToMemoryBuffer(void) { raise(SIGSEGV); return 1; }\n"


@case("signals")
def signals(world):
    """LLVM's code generator dies: mt-ptx says by which signal, at which kernel, and a way out; so does a program whose kernel it was."""
    tool, library, ptx = harness.tool("mt-ptx"), world.path("dies.so"), world.path("good.ptx")
    for path, text in (library + ".c", DIES), (ptx, KERNEL):
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)
    must(["cc", "-shared", "-fPIC", library + ".c", "-o", library])
    said = "memtrace: SIGSEGV while LLVM compiled kernel good: {} in MEMTRACE_PTX_OPTIONS"
    for words, way in ([], "--mt-vectors=off"), (["--mt-vectors=off"], "--mt-cpu=x86-64-v2"):
        done = call(tool, "--kernel", "good", *words, ptx, "-o", world.path("image"), env={**os.environ, "LD_PRELOAD": library})
        same(f"{words}: ended by", done.returncode, -signal.SIGSEGV)
        holds(done.stderr, done.stderr.startswith(said.format(way)))
    if nvcc_of():
        script, program = world.path("tool"), world.path("program")
        with open(script, "w", encoding="utf-8") as f:
            f.write(f"#!/bin/sh\nexport LD_PRELOAD={library}\nexec {tool} \"$@\"\n")
        os.chmod(script, 0o755)
        with open(program + ".cu", "w", encoding="utf-8") as f:
            f.write('extern "C" ' + SOURCE.replace("return 0", "int *p; cudaMalloc(&p, 128); good<<<1, 1>>>(p); return cudaGetLastError() == 0").replace("add", "good"))
        must([nvcc_of(), "--cudart=shared", program + ".cu", "-o", program])
        done = call(harness.tool("mt-run"), program, env=harness.clean(MEMTRACE_PTX_TOOL=script, MEMTRACE_CACHE="off", MEMTRACE_DIR=world.work))
        holds(done.stderr, done.returncode == 0 and re.search("good has .*SIGSEGV while LLVM compiled the module: --mt-vectors=off in MEM", done.stderr))


NEVER = """#include <cstdio>
__global__ void k(int *o) { if (o[0] == 77) cudaGetDeviceCount(o); o[0]++; }
int main() { int *o, h; cudaMalloc(&o, 4); cudaMemset(o, 0, 4); k<<<1, 1>>>(o); cudaMemcpy(&h, o, 4, cudaMemcpyDeviceToHost); printf("%d\\n", h); }
"""


@case("uncalled")
def uncalled(world):
    """A program that is linked with libcudadevrt: what it calls of that and cannot run is said, and nothing of the rest, some 500 functions."""
    if not nvcc_of():
        raise Skipped("this CUDA toolkit has no nvcc")
    program = world.path("never")
    with open(program + ".cu", "w", encoding="utf-8") as f:
        f.write(NEVER)
    must([nvcc_of(), "--cudart=shared", "-rdc=true", "-arch=sm_90", program + ".cu", "-lcudadevrt", "-o", program])
    done = call(harness.tool("mt-run"), program, env=harness.clean(MEMTRACE_CACHE="off", MEMTRACE_DIR=world.work))
    same("output", done.stdout, "1\n")
    said = re.findall("cannot run this: call of (\\w+)", done.stderr)
    holds(done.stderr, len(said) == 1 and said[0].endswith("GetDeviceCount"))


@case("tool")
def whole_tool(world):
    tool, work = harness.tool("mt-ptx"), world.work
    options(tool, work)
    bombs(tool, work)
    links(tool, work)
    deep(tool, work)
    if nvcc_of():
        fatbins(tool, nvcc_of(), work)
    else:
        print("this CUDA toolkit has no nvcc: no fatbins")
