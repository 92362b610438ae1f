"""Modules that are compiled kernel by kernel.

parts.cu, built by nvcc, prints what the arithmetic gives whether its module becomes one image or one for each kernel; what
mt-extract finds in the traces of both is the same. How often mt-ptx is called says which kernels were compiled."""
import os
import re
import shutil
import subprocess

from cases_images import expect, run_parts
from harness import Failed, call, case, tool

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
THREADS = SYMBOL + f"threads {' '.join(str(24 * (n + 5)) for n in range(6))}\n"
END = "cudaSuccess\n"
EACH, ONE = {"MEMTRACE_PTX_OPTIONS": "--divide=0"}, {"MEMTRACE_PTX_OPTIONS": "--divide=off"}


def compile_all(nvcc, work):
    base = [nvcc, "--cudart=shared", "-arch=sm_90", "-std=c++17", SOURCE]
    jobs = {"plain": ["-lineinfo"], "pointers": ["-DPOINTERS"]}
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


def both(place, work, name, kernels, more):
    """One image, and one for each kernel, of which `kernels` are launched or asked for."""
    program = os.path.join(work, name)
    one = ran(place, program, 1, KERNELS + more, **ONE)
    expected = {k: sites(place, k) for k in kernels}
    for calls in 1 + len(kernels), 0: # the base, too; then all is kept
        each = ran(place, program, calls, KERNELS + more, **EACH)
        expect(f"{name}: the same trace", one == each, f"{one}\n{each}")
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
    """And without -lineinfo: its lines are those of the PTX, which comes with the base."""
    both(place, work, "pointers", ["add", "count", "fill", "where", "choose", "by_pointer", "by_chosen"], POINTERS)


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


@case("parts")
def parts(world):
    run_parts(world, compile_all, (plain, pointers, threads, bad))
