"""Modules that are compiled kernel by kernel.

parts.cu, built by nvcc, prints what the arithmetic gives whether its module becomes one image or one for each kernel; what
memtrace extract finds in the traces of both is the same. How often mt-ptx is called says which kernels were compiled."""
import json
import os
import re
import shutil
import subprocess

from cases_images import expect, run_parts
from harness import Failed, call, case, nvcc_of, tool

HERE = os.path.dirname(os.path.realpath(__file__))
SOURCE = os.path.join(HERE, "parts.cu")
BYTES = 0x01010101
SYMBOL = "symbol 1 5 of 4 bytes\n"
KERNELS = SYMBOL + f"""add {BYTES * 10 + 5} {BYTES * 20 + 5} {BYTES * 30 + 5} {BYTES * 40 + 5}
count {sum(range(256))} 100 {BYTES * 10 + 6} {BYTES * 20 + 6}
in where
where 1 1 101
attributes cudaSuccess 4
"""
POINTERS = f"""by_pointer {' '.join(str(1000 + (3 if t & 1 else 2) * t) for t in range(8))}
by_chosen {' '.join(str(3 * t + 3) for t in range(8))}
"""
TABLE = f"by_table {' '.join(str((3 if t & 1 else 2) * t) for t in range(8))}\n"
THREADS = SYMBOL + f"threads {' '.join(str(24 * (n + 5)) for n in range(6))}\n"
END = "cudaSuccess\n"
EACH, ONE = {"MEMTRACE_PTX_OPTIONS": "--divide=0"}, {"MEMTRACE_PTX_OPTIONS": "--divide=off"}


def compile_all(nvcc, work):
    base = [nvcc, "--cudart=shared", "-arch=sm_90", "-std=c++17", SOURCE]
    jobs = {"plain": ["-lineinfo"], "pointers": ["-DPOINTERS"], "table": ["-DTABLE", "-lineinfo"]}
    running = [subprocess.Popen([*base, *words, "-o", os.path.join(work, name)]) for name, words in jobs.items()]
    if any([p.wait() for p in running]):
        raise Failed("nvcc fails")


def extract(place):
    """What is in the run's traces, without what differs between any two runs."""
    done = call([tool("mt-extract"), "--sections", "KCV,KDV,transfers,more", place.folder])
    return re.sub('"0x[0-9a-f]+"', '""', done.stdout.replace(place.folder, ""))


def sites(place, kernel):
    """Of the functions that belong to this kernel alone."""
    keys = "file", "line", "column", "function", "op", "size", "var"
    return sorted(tuple(str(s[k]).replace(place.folder, "") for k in keys) for s in place.companion()
                  if s["ev"] == "site" and s["function"].startswith(kernel))


def ran(place, program, calls, want, *words, **more):
    done = place.run(program, *words, MEMTRACE_FORMAT="compact", MEMTRACE_CPU_THREADS="1", **more)
    made = place.made()
    expect(f"{os.path.basename(program)} {words}", done.stdout == want + END, done.stdout + done.stderr)
    expect(f"{os.path.basename(program)} {words}: mt-ptx is called", made == calls, f"{made} times, not {calls}\n{done.stderr}")
    return extract(place) if words == () else ""


def grouped(text, apart):
    """The results, but for what depends on requests, or on the order of threads, of the kernels `apart`; accesses of these in
    requests and without; kernels that the results themselves say are apart."""
    found = json.loads(text)
    coalescing = found["coalescing"]
    lost = sum(at["accesses"] for k in apart for line in coalescing["kernels"].pop(k, {}).values() for at in line.values())
    coalescing["sites"] = [x for x in coalescing["sites"] if x["kernel"] not in apart]
    for k in apart:
        del found["reuse"]["kernels"][k]
    found["gaps"] = []
    return found, lost + coalescing.pop("unmasked"), found.pop("apart", [])


def both(place, work, name, kernels, more, apart=()):
    """One image, and one for each kernel, of which `kernels` are launched or asked for."""
    program = os.path.join(work, name)
    one = ran(place, program, 1, KERNELS + more, **ONE)
    expected = {k: sites(place, k) for k in kernels}
    for calls in 1 + len(kernels), 0: # the base, too; then all is kept
        each = ran(place, program, calls, KERNELS + more, **EACH)
        (a, in_one, all_grouped), (b, in_each, not_grouped) = grouped(one, apart), grouped(each, apart)
        expect(f"{name}: the same trace", a == b, f"{one}\n{each}")
        expect(f"{name}: not grouped", (all_grouped, sorted(not_grouped)) == ([], sorted(apart)), f"{all_grouped} {not_grouped}")
        expect(f"{name}: accesses without requests", in_one == in_each, f"{in_one} {in_each}")
        found = {k: sites(place, k) for k in kernels}
        expect(f"{name}: the same sites", found == expected, f"{found} {expected}")
        expect(f"{name}: no other kernels", not sites(place, "many"), str(sites(place, "many")))


def plain(place, work):
    program = os.path.join(work, "plain")
    ran(place, program, 0, "", "memory", **EACH)
    ran(place, program, 1, SYMBOL, "symbols", **EACH)
    shutil.rmtree(place.cache)
    both(place, work, "plain", ["add", "count", "fill", "where"], "")


def pointers(place, work):
    """And without -lineinfo: its lines are those of the PTX, which comes with the base. A kernel that calls functions of another
    image by pointer runs a thread at a time."""
    both(place, work, "pointers", ["add", "count", "fill", "where", "choose", "by_pointer", "by_chosen"], POINTERS, ["by_pointer", "by_chosen"])


def table(place, work):
    """The addresses of functions are in a variable's first value alone."""
    both(place, work, "table", ["add", "count", "fill", "where", "by_table"], TABLE, ["by_table"])


def threads(place, work):
    """Twelve at once: each kernel is compiled once."""
    ran(place, os.path.join(work, "plain"), 7, THREADS, "threads", **EACH)


def bad(place, work):
    """Without mt-ptx a kernel fails when it is launched, and says why."""
    program, hidden = os.path.join(work, "plain"), place.tool + ".hidden"
    ran(place, program, 1, SYMBOL, "symbols", **EACH)
    with open(hidden, "w", encoding="utf-8") as f:
        f.write(f'#!/bin/sh\ncase "$*" in *--kernel*) echo no such luck >&2; exit 1;; esac\nexec {place.tool} "$@"\n')
    os.chmod(hidden, 0o755)
    done = place.run(program, MEMTRACE_PTX_TOOL=hidden, **EACH)
    expect("the reason", "cannot run on the CPU device: no such luck" in done.stderr and "cudaErrorNoKernelImageForDevice" in done.stdout,
           done.stdout + done.stderr)
    expect("incomplete", not place.companion()[-1]["complete"], "")


# Of six kernels, of which each waits, calls a function that another one calls, and has a variable of its own. MORE changes the third
# one, LINE moves all of them, NEW puts one before them all.
VERSIONS = """#include <cstdio>
%(LINE)s
__device__ int total;
__constant__ int table[6] = {1, 4, 7, 10, 13, 16};
template <int I> __device__ int value;
__device__ __noinline__ int twice(int x) { return 2 * x; }
%(NEW)s
template <int I> __global__ void add(int *out)
{
    __shared__ int s[32];
    s[threadIdx.x] = twice(table[I]);
    __syncthreads();
    if constexpr (I == 2) out[32] += %(MORE)s;
    atomicAdd(&total, s[31 - threadIdx.x]);
    value<I> = I;
    out[I] = value<I>;
}
template <int I> void launch(int *out)
{
    add<I><<<1, 32>>>(out);
    if constexpr (I < 5) launch<I + 1>(out);
}
int main()
{
    int *out, sum;
    cudaMalloc(&out, 256); cudaMemset(out, 0, 256); launch<0>(out); cudaMemcpyFromSymbol(&sum, total, sizeof sum); printf("%%d\\n", sum);
}
"""
SUM = f"{32 * 2 * (1 + 4 + 7 + 10 + 13 + 16)}\n"
NEW = """template <int I> __global__ void newer(int *out) { __shared__ int own[32]; own[threadIdx.x] = I; __syncthreads(); out[threadIdx.x] = twice(own[0]); }
template __global__ void newer<0>(int *);"""
VERSION = {"LINE": "", "NEW": "", "MORE": "1"}


def versions(place, work):
    """What of a program was there before is not made again, and its sites have the lines that they would have."""
    nvcc, source = nvcc_of(), os.path.join(work, "versions.cu")
    for lines in ["-lineinfo"], []:
        shutil.rmtree(place.cache, ignore_errors=True)
        for more, calls in ({}, 7), ({"LINE": "\n\n"}, 1), ({"MORE": "threadIdx.x"}, 2), ({"NEW": NEW}, 1), ({"NEW": NEW, "LINE": "\n"}, 1):
            with open(source, "w", encoding="utf-8") as f:
                f.write(VERSIONS % {**VERSION, **more})
            program = os.path.join(work, "versions")
            call([nvcc, "--cudart=shared", "-arch=sm_90", "-std=c++17", *lines, source, "-o", program])
            if not lines and not calls - 1 and "LINE" in more:
                calls = 0 # without lines the device code is the same
            found = []
            for kept in place.cache, "off":
                done = place.run(program, MEMTRACE_PTX_OPTIONS="", MEMTRACE_CACHE=kept)
                made, want = place.made(), calls if kept != "off" else 7
                expect(f"{lines} {more}", done.stdout == SUM and not done.stderr, done.stdout + done.stderr)
                expect(f"{lines} {more} {kept}: mt-ptx is called", made == want, f"{made} times, not {want}")
                found.append((sites(place, "add"), [(e["kernel"], os.path.basename(e["file"]), e["records"]) for e in place.companion() if e["ev"] == "launch"]))
            expect(f"{lines} {more}: the same sites", found[0] == found[1] and len(found[0][0]) == 20, str(found))
            texts = {s["file"] for s in place.companion() if s["ev"] == "site"}
            expect(f"{lines} {more}: of this version", all(os.path.basename(t) in os.listdir(place.folder) or t == source for t in texts), str(texts))


def together(place, work):
    """Two programs that fill the same cache; files that are damaged; no room."""
    program = os.path.join(work, "versions")
    shutil.rmtree(place.cache, ignore_errors=True)
    environments = [place.environment(MEMTRACE_PTX_OPTIONS="", MEMTRACE_AHEAD=n) for n in ("1", "4")]
    running = [subprocess.Popen([program], env=e, stdout=subprocess.PIPE, text=True) for e in environments]
    expect("two at once", all(p.communicate()[0] == SUM for p in running))
    made = place.made()
    expect("each kernel is made by one of them or each", 7 <= made <= 14, str(made))
    images = place.images()
    expect("one file each", len(images) == 7, str(images))
    done = place.run(program, MEMTRACE_PTX_OPTIONS="")
    expect("all is there", done.stdout == SUM and place.made() == 0, done.stderr)
    for path, change in zip(images, (lambda b: b[:-1], lambda b: b[:200] + bytes([b[200] ^ 1]) + b[201:], lambda b: b"")):
        with open(path, "rb") as f:
            data = f.read()
        with open(path, "wb") as f:
            f.write(change(data))
    done = place.run(program, MEMTRACE_PTX_OPTIONS="")
    expect("damaged ones are made anew", done.stdout == SUM and not done.stderr and place.made() == 3, done.stderr)
    shutil.rmtree(place.cache)
    done = place.run(program, MEMTRACE_PTX_OPTIONS="", MEMTRACE_CACHE_LIMIT="1000")
    expect("no room", done.stdout == SUM and not done.stderr and place.made() == 7 and not place.images(), done.stderr)


def next_ones(place, work):
    """While one is made, the next are: of six that are launched all in their order, no more than those are; of the first one alone
    those that other processors would take."""
    program = os.path.join(work, "versions")
    for ahead, many in ("1", [7]), ("3", [7]):
        shutil.rmtree(place.cache, ignore_errors=True)
        done = place.run(program, MEMTRACE_PTX_OPTIONS="", MEMTRACE_AHEAD=ahead)
        made = place.made()
        expect(f"ahead {ahead}", done.stdout == SUM and made in many, f"{made} {done.stderr}")


@case("parts")
def parts(world):
    run_parts(world, compile_all, (plain, pointers, table, threads, bad, versions, together, next_ones))
