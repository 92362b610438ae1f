"""Images that programs of nvcc get at run time.

Programs with a shared CUDA runtime, which is ours here. Results are those of the arithmetic; accesses are counted by hand;
lines without -lineinfo are looked up in the PTX that lies beside the trace. A script in place of mt-ptx counts how often it is
called."""
import glob
import json
import os
import re
import shutil
import signal
import subprocess
import time

import harness
from harness import BUILD, Skipped, case, clean, holds, nvcc_of

HERE = os.path.dirname(os.path.realpath(__file__))
SOURCE = os.path.join(HERE, "images.cu")
SUM = sum(i * (1 + i % 4) + 7 for i in range(1000))
MANY = """#include <cstdio>
enum { N = 12 };
__device__ int total;
__constant__ int table[N] = {1, 4, 7, 10, 13, 16, 19, 22, 25, 28, 31, 34};
__device__ __noinline__ int twice(int x) { return 2 * x; }
template <int I> __global__ void add(int *out) { __shared__ int s[32]; s[threadIdx.x] = twice(table[I]); __syncthreads();
    atomicAdd(&total, s[31 - threadIdx.x]); out[I] = I; }
template <int I> void launch(int *out) { add<I><<<1, 32>>>(out); if constexpr (I + 1 < N) launch<I + 1>(out); }
int main() { int *out, h[N], sum; cudaMalloc(&out, sizeof h); launch<0>(out); cudaMemcpyFromSymbol(&sum, total, sizeof sum);
    cudaMemcpy(h, out, sizeof h, cudaMemcpyDeviceToHost); printf("%d", sum); for (int v : h) printf(" %d", v); }
"""
GOOD = f"symbol: cudaSuccess\nwork: cudaSuccess\nsum {SUM}\n"
QUIET = "children 0, none to wait for\n"


def expect(what, condition, more=""):
    holds(f"{what} {more}", condition)


class Place:
    """Where programs of one test run: the runtime as libcudart, a cache, a mt-ptx that counts its calls."""

    def __init__(self, build, work):
        self.build, self.work = build, work
        self.lib, self.cache, self.calls = (os.path.join(work, n) for n in ("lib", "cache", "calls"))
        os.makedirs(self.lib)
        for name in "libcudart.so.12", "libcudart.so.13":
            os.symlink(os.path.join(build, "lib", "libmemtrace.so"), os.path.join(self.lib, name))
        self.tool = os.path.join(work, "tool")
        with open(self.tool, "w", encoding="utf-8") as f:
            f.write(f"""#!/bin/sh
echo $LD_LIBRARY_PATH$LD_PRELOAD called >> {self.calls}
{build}/libexec/memtrace/mt-ptx "$@"
code=$?
echo ended >> {self.calls}
exit $code
""")
        os.chmod(self.tool, 0o755)
        self.runs = 0

    def environment(self, **more):
        self.folder = os.path.join(self.work, f"run-{self.runs}")
        self.runs += 1
        os.makedirs(self.folder)
        return clean(**{"MEMTRACE_DIR": self.folder, "MEMTRACE_DEVICE": "cpu", "MEMTRACE_CACHE": self.cache, "MEMTRACE_PTX_TOOL": self.tool,
                        "MEMTRACE_PTX_OPTIONS": "--divide=off", "MEMTRACE_AHEAD": "1", "LD_LIBRARY_PATH": self.lib, **more})

    def run(self, program, *words, **more):
        return harness.run([program, *words], 120, env=self.environment(**more))

    def made(self):
        """How often mt-ptx was called since the last time. Waits for it: it keeps the image when the program has it."""
        deadline, lines = time.monotonic() + 300, []
        while os.path.exists(self.calls) and time.monotonic() < deadline:
            with open(self.calls, encoding="utf-8") as f:
                lines = f.read().splitlines()
            if lines.count("ended") * 2 == len(lines):
                os.remove(self.calls)
                break
            time.sleep(0.02)
        expect("nothing of ours is loaded into mt-ptx, which ends", set(lines) <= {"called", "ended"} and
               lines.count("ended") == lines.count("called"), str(lines))
        return lines.count("ended")

    def companion(self):
        with open(glob.glob(os.path.join(self.folder, "MemTrace-pipe-0*.meta"))[0], encoding="utf-8") as f:
            return [json.loads(line) for line in f]

    def images(self):
        return sorted(glob.glob(os.path.join(self.cache, "*.image")))


def compile_all(nvcc, work):
    base = [nvcc, "--cudart=shared", "-O3", "-Xcompiler=-O0", "-Xfatbin=-compress-mode=none"]
    gencode = "-gencode=arch=compute_{},code={}".format
    jobs = {"lines": ["-lineinfo", gencode(90, "compute_90"), "-DODD=900", SOURCE],
            "bare": [gencode(80, "compute_80"), gencode(90, "compute_90"), "-DODD=900", SOURCE],
            "sass": [gencode(90, "sm_90"), SOURCE],
            "many": ["-std=c++17", "-arch=sm_90", os.path.join(work, "many.cu")],
            "rdc": ["-rdc=true", "-arch=sm_90", "-DRDC", SOURCE, os.path.join(work, "more.cu")]}
    with open(os.path.join(work, "many.cu"), "w", encoding="utf-8") as f:
        f.write(MANY)
    with open(os.path.join(work, "more.cu"), "w", encoding="utf-8") as f:
        f.write(f'#define MORE\n#include "{SOURCE}"\n')
    for name, words in jobs.items():
        harness.call([*base, *words, "-o", os.path.join(work, name)])
        with open(os.path.join(work, name), "r+b") as f: # an instruction that nobody knows
            data = f.read()
            f.seek(0)
            f.write(data.replace(b"bfind.u32", b"bfonk.u32"))


def first_runs(place, work):
    """When an image is made, that it is right, and that it is kept."""
    program = os.path.join(work, "lines")
    for mode, said in ("nothing", "nothing\n"), ("memory", "malloc: cudaSuccess\nfree: cudaSuccess\n"):
        done = place.run(program, mode)
        expect(f"{mode}: nothing is made", done.stdout == said and place.made() == 0, done.stdout + done.stderr)
    for calls in 1, 0:
        done = place.run(program)
        expect(f"run that makes {calls}", done.stdout == GOOD + QUIET and place.made() == calls, done.stdout + done.stderr)
        said = [line for line in done.stderr.splitlines() if line.startswith("memtrace:")]
        expect("the kernel with an unknown opcode is named once",
               len(said) == 1 and "which" in said[0] and "bfonk" in said[0], done.stderr)
        lines = place.companion()
        expect("complete", lines[-1]["complete"] and lines[-1]["records_written"] == 3 * 1000, str(lines[-1]))
        expect("lines of the source", {(os.path.basename(s["file"]), s["line"]) for s in lines if s["ev"] == "site"
                                       and s["function"].startswith("work")} == {("images.cu", 36)})
    done = place.run(program, "which")
    expect("it fails alone", GOOD in done.stdout and "which: cudaSuccess" not in done.stdout, done.stdout)
    done = place.run(program, "closed")
    expect("descriptors 0 and 2 closed", done.stdout == GOOD + QUIET, done.stdout)


def ptx_lines(place, work):
    """Without -lineinfo: lines of the PTX, of the version of which everything is understood."""
    done = place.run(os.path.join(work, "bare"), "which")
    expect("the PTX that is understood", done.stdout == GOOD + "which: cudaSuccess\narch 800\n" + QUIET, done.stdout + done.stderr)
    sites = [s for s in place.companion() if s["ev"] == "site"]
    texts = glob.glob(os.path.join(place.folder, "MemTrace-*.ptx"))
    expect("PTX beside the trace", len(texts) == 1 and {s["file"] for s in sites} == set(texts), str(texts))
    with open(texts[0], encoding="utf-8") as f:
        text = f.read().splitlines()
    expect("sites: two loads (one of step) and a store, and a store", len(sites) == 4, str(sites))
    for s in sites:
        expect("an access", re.search(rf"\b{'ld' if s['op'] == 'load' else 'st'}\.global", text[s["line"] - 1]),
               text[s["line"] - 1])
    expect("parameters", sorted(s["var"] for s in sites) == ["arg0", "arg1", "arg2", "step"], str({s["var"] for s in sites}))
    page = os.path.join(place.work, "page.html")
    moved = place.folder + "-moved"
    for folder in place.folder, moved:
        if folder == moved:
            os.rename(place.folder, moved)
        subprocess.run([os.path.join(place.build, "bin", "mt-report"), folder, "-o", page], check=True, capture_output=True, timeout=60)
        with open(page, encoding="utf-8") as f:
            expect("the page has the PTX", text[sites[0]["line"] - 1].strip() in f.read(), folder)


def cache(place, work):
    """What others may do to the folder, and what does not fit."""
    program = os.path.join(work, "lines")
    place.run(program)
    place.made()
    shutil.rmtree(place.cache)
    procs = [subprocess.Popen([program], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=place.environment())
             for _ in range(2)]
    expect("two at once", all(p.communicate()[0] == GOOD + QUIET for p in procs))
    expect("made by one of them or each", place.made() in (1, 2))
    expect("kept once", len(place.images()) == 1 and os.stat(place.cache).st_mode & 0o777 == 0o700, str(place.images()))
    with open(place.images()[0], "rb") as f:
        whole = f.read()
    for damage in whole[:100], whole[:-1], whole[:5000] + bytes([whole[5000] ^ 1]) + whole[5001:], b"":
        with open(place.images()[0], "wb") as f:
            f.write(damage)
        expect("damaged: made anew", place.run(program).stdout == GOOD + QUIET and place.made() == 1)
    name = place.images()[0]
    os.rename(name, os.path.join(work, "elsewhere"))
    os.symlink(os.path.join(work, "elsewhere"), name)
    expect("a link is not followed", place.run(program).stdout == GOOD + QUIET and place.made() == 1)
    for what, more in (("off", {"MEMTRACE_CACHE": "off"}), ("no folder", {"MEMTRACE_CACHE": "/proc/none"}),
                       ("no room", {"MEMTRACE_CACHE_LIMIT": "1000"}), ("other options", {"MEMTRACE_PTX_OPTIONS": "--divide=off --mt-vectors=off"})):
        env = place.environment()
        done = subprocess.run([program], capture_output=True, text=True, timeout=60, env={**env, **more})
        expect(what, done.stdout == GOOD + QUIET and place.made() == (what != "no room"), done.stderr)
    os.chmod(place.cache, 0o755)
    done = place.run(program)
    expect("open to others: not used", done.stdout == GOOD + QUIET and place.made() == 1 and "chmod 700" in done.stderr, done.stderr)
    os.chmod(place.cache, 0o700)
    for what, owner, mode in (("others can write", 0, 0o777), ("belongs to user 65534", 65534, 0o700)):
        if owner == 0 or os.geteuid() == 0:
            folder = os.path.join(work, what)
            os.mkdir(folder)
            os.chmod(folder, mode)
            os.chown(folder, owner or os.geteuid(), -1)
            done = place.run(program, MEMTRACE_CACHE=folder)
            expect(what, done.stdout == GOOD + QUIET and place.made() == 1 and what in done.stderr and not os.listdir(folder), done.stderr)
            shutil.copy(os.path.join(place.build, "libexec", "memtrace", "mt-ptx"), folder)
            done = place.run(program, MEMTRACE_PTX_TOOL=os.path.join(folder, "mt-ptx"), MEMTRACE_CACHE="off")
            expect("a tool there: " + what, "cudaErrorNoKernelImageForDevice" in done.stdout and what in done.stderr, done.stdout + done.stderr)
    tool = os.path.join(place.build, "libexec", "memtrace", "mt-ptx")
    said = subprocess.run([tool, "--cache-list", "--cache", place.cache], capture_output=True, text=True).stdout
    sizes = sum(os.path.getsize(p) for p in place.images())
    expect("--cache-list", said.endswith(f"{len(place.images())} images, {sizes} bytes in {place.cache}\n") and sizes > 0, said)
    limit = max(map(os.path.getsize, place.images())) + 100 # of them all
    place.run(program, MEMTRACE_PTX_OPTIONS="--divide=off --mt-only=loads", MEMTRACE_CACHE_LIMIT=str(limit))
    place.made()
    expect("bounded", len(place.images()) == 1, str(place.images()))
    subprocess.run([tool, "--cache-clear", "--cache", place.cache], check=True, capture_output=True)
    expect("--cache-clear", os.listdir(place.cache) == [])


def without(place, work):
    """Machine code alone; no mt-ptx; an end in the middle of it."""
    done = place.run(os.path.join(work, "sass"))
    expect("machine code alone", "work: cudaErrorNoKernelImageForDevice" in done.stdout and "machine code alone" in done.stderr
           and "_Z4workiPKiPi" in done.stderr, done.stdout + done.stderr)
    lines = place.companion()
    launches = [x for x in lines if x["ev"] == "launch"]
    expect("its launch is there, untraced", len(launches) == 1 and launches[0]["kernel"] == "work" and not launches[0]["traced"]
           and not lines[-1]["complete"], str(lines))
    said = subprocess.run([os.path.join(place.build, "libexec", "memtrace", "mt-ptx"), "--list", os.path.join(work, "sass")], capture_output=True,
                          text=True).stdout
    expect("--list", "kernel work(int, int const*, int*): cannot run: machine code alone" in said and "sm_90" in said, said)
    said = subprocess.run([os.path.join(place.build, "libexec", "memtrace", "mt-ptx"), "--list", os.path.join(work, "lines")], capture_output=True,
                          text=True).stdout
    expect("--list", "kernel work(int, int const*, int*): can be traced" in said and "kernel which(int*): cannot run" in said, said)
    done = place.run(os.path.join(work, "lines"), MEMTRACE_PTX_TOOL="/nowhere/mt-ptx")
    expect("no mt-ptx", "work: cudaErrorNoKernelImageForDevice" in done.stdout and "/nowhere/mt-ptx" in done.stderr, done.stderr)
    progress(place, work)
    left_behind(place, work)
    slow = os.path.join(place.work, "slow")
    with open(slow, "w", encoding="utf-8") as f:
        f.write(f"#!/bin/sh\necho $$ > {place.work}/pid\nexec sleep 60\n")
    os.chmod(slow, 0o755)
    p = subprocess.Popen([os.path.join(work, "lines")], env=place.environment(MEMTRACE_PTX_TOOL=slow), start_new_session=True,
                         preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
    while not os.path.exists(f"{place.work}/pid"):
        time.sleep(0.02)
    os.killpg(p.pid, signal.SIGINT)
    expect("Ctrl-C ends the program at once", p.wait(300) == -signal.SIGINT)
    with open(f"{place.work}/pid", encoding="utf-8") as f:
        os.kill(int(f.read()), signal.SIGTERM)


def left_behind(place, work):
    """What would stay after a kill: while LLVM works nothing has a name in TMPDIR, and the linker sees its own files alone."""
    tmp, linker = os.path.join(place.work, "tmp"), os.path.join(place.work, "linker")
    os.makedirs(tmp)
    with open(linker, "w", encoding="utf-8") as f:
        f.write(f'#!/bin/sh\nls {tmp} > {place.work}/names\nexec ld "$@"\n')
    os.chmod(linker, 0o755)
    done = place.run(os.path.join(work, "lines"), TMPDIR=tmp, MEMTRACE_LD=linker, MEMTRACE_CACHE="off")
    with open(f"{place.work}/names", encoding="utf-8") as f:
        kinds = {os.path.splitext(name)[1] for name in f.read().split()}
    place.made()  # it may still be removing them
    expect("files of the linker alone", "work: cudaSuccess" in done.stdout and kinds == {".o", ".so"} and not os.listdir(tmp), (kinds, done.stdout, done.stderr))
    for mode, ends in (0o777, "cudaErrorNoKernelImageForDevice"), (0o1777, "cudaSuccess"):
        os.chmod(tmp, mode)
        done = place.run(os.path.join(work, "lines"), TMPDIR=tmp, MEMTRACE_CACHE="off")
        expect(f"TMPDIR of mode {mode:o}", f"work: {ends}" in done.stdout and ("set TMPDIR" in done.stderr) == (mode == 0o777), done.stderr)


def progress(place, work):
    """On a terminal: how long it has taken so far, and the line is gone in the end."""
    late = os.path.join(place.work, "late")
    with open(late, "w", encoding="utf-8") as f:
        f.write(f"#!/bin/sh\nsleep 2.6\nexec {place.build}/libexec/memtrace/mt-ptx \"$@\"\n")
    os.chmod(late, 0o755)
    ours, theirs = os.openpty()
    with subprocess.Popen([os.path.join(work, "lines")], stdout=subprocess.PIPE, stderr=theirs, text=True,
                          env=place.environment(MEMTRACE_PTX_TOOL=late)) as p:
        out = p.communicate()[0]
    os.close(theirs)
    said = os.read(ours, 65536).decode()
    expect("progress on a terminal", out == GOOD + QUIET and re.search(r"\rmemtrace: making a CPU image of lines: \w+, [23] s .*\r\x1b\[K",
                                                                      said), repr(said))
    os.close(ours)


def files(place, work):
    done = place.run(os.path.join(work, "rdc"))
    total = sum(2 * i + 100 + 1 for i in range(32))
    expect("files with relocatable device code", done.stdout == GOOD + f"files: cudaSuccess\nfiles {total}\n" + QUIET,
           done.stdout + done.stderr)
    expect("all of it is traced", place.companion()[-1]["complete"] and place.companion()[-1]["records_written"] == 3000 + 32 + 32 + 64)
    said = subprocess.run([os.path.join(place.build, "libexec", "memtrace", "mt-ptx"), "--list", os.path.join(work, "rdc")], capture_output=True,
                          text=True).stdout
    expect("--list of them", "cannot run" not in said and said.count("other(int*)") == 2, said)


def many(place, work):
    """Kernels that several processes compile have the same variables; and one process compiles them as well."""
    want = " ".join(str(x) for x in [sum(32 * 2 * (3 * i + 1) for i in range(12)), *range(12)])
    all_of_them = os.sched_getaffinity(0)
    for processors in all_of_them, {min(all_of_them)}:
        os.sched_setaffinity(0, processors)
        done = place.run(os.path.join(work, "many"), MEMTRACE_CACHE="off")
        expect(f"12 kernels by {len(processors)} processors", done.stdout == want and place.companion()[-1]["complete"],
               done.stdout + done.stderr)
    os.sched_setaffinity(0, all_of_them)


def run_parts(world, compile_programs, parts):
    """Each part in a place of its own."""
    if not nvcc_of():
        raise Skipped("this CUDA toolkit has no nvcc")
    compile_programs(nvcc_of(), world.work)
    for part in parts:
        part(Place(BUILD, world.folder(part.__name__)), world.work)


@case("images")
def images(world):
    run_parts(world, compile_all, (first_runs, ptx_lines, cache, without, files, many))
