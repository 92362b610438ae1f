"""What kernels are made of in C++ (src/language.cu), and the libraries that come with CUDA (src/libraries.cu)."""
import os
import re
import sys

from checks import totals
from harness import case, holds, same

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "postprocess"))
import brute  # noqa: E402

N = 64
COPY = {("load", 4): N, ("store", 4): N}
STORES = {("store", 4): N}
WANTED = [
    ("plain_name", COPY),
    ("scale<int, 7>", COPY),
    ("apply<", COPY),  # four times, with a lambda, one for both sides, a generic one, a functor
    ("apply<", COPY),
    ("apply<", COPY),
    ("apply<", COPY),
    ("sum_all<", STORES),
    ("by_reference", STORES),
]


@case("language")
def language(world):
    """extern "C", templates, lambdas: the same accesses at every level."""
    for flags in (["-O0", "-g"], ["-O2", "--extended-lambda"], ["-O3"]):
        app = world.compile(os.path.join(world.src, "language.cu"), "-std=c++17", *flags)
        result = world.run_ok(app)
        same(f"{flags}: output", (result.out, result.err), ("right\n", ""))
        launches = result.trace()
        same(f"{flags}: launches", len(launches), len(WANTED))
        for launch, (name, counts) in zip(launches, WANTED):
            holds(f"{flags}: {launch.kernel} is {name}", launch.kernel.startswith(name))
            same(f"{flags}: accesses of {launch.kernel}", totals(launch), counts)


@case("small_vectors")
def small_vectors(world):
    """Vectors of all small types by value: LLVM 19 reads two bytes, and bools, where they are not."""
    for flags in (["-O0"], ["-O2"], ["-O2", "--mt-vectors=off"]):
        result = world.run_ok(world.compile(os.path.join(world.src, "small_vectors.cu"), "-std=c++17", "-Wno-psabi", *flags))
        same(f"{flags}: output", (result.out, result.err), ("right\n", ""))


@case("kernel_heap", whole=True)
def kernel_heap(world):
    """malloc in kernels ends where cudaLimitMallocHeapSize says, rounded up to 16 bytes a block; other launches free and use
    it again; what is stored in it is traced, at any optimisation."""
    n = 1 << 13
    for flags in (["-O0"], ["-O2"]):
        result = world.run_ok(world.compile(os.path.join(world.src, "kernel_heap.cu"), *flags))
        same(f"{flags}: output", (result.out, result.err),
             (f"{1 << 17} bytes: {n} of {n}, then 0\nlimit 1\ncopy 1 free 1\nagain {n}, then 0\nlarge {(1 << 17) // 40000}\n"
              f"{8 << 20} bytes: 8 of 64\n", ""))
        launches = result.trace()
        same(f"{flags}: the last launch", totals(launches[-1]), {("store", 1): 8 * 256, ("atomic", 4): 8})
        events = [e for e in result.companion().all("alloc") if e["kind"] == "device"]
        same(f"{flags}: blocks", len(events), n + n // 2 + 3 + 8)


def senders(world, result, suffix):
    """By launch: bytes of another CTA of it, of another CTA of an earlier one, of the same CTA of an earlier one."""
    out = world.extract([result.path() + suffix], "--sections=senders")
    holds("complete", out["complete"] is not False)
    launches = {int(step): tuple(s.values()) for kernel in out["senders"].values() for step, s in kernel.items()}
    return [launches[step] for step in sorted(launches)]


@case("kernel_heap.senders")
def kernel_heap_senders(world):
    """What a kernel stores in memory that it allocates itself stays its own: each CTA of `use` reads a pointer of 8 bytes and
    an int of the other CTA; each of `again` the same of its own number, before it frees the block and allocates anew."""
    app = world.compile(os.path.join(world.src, "kernel_heap_senders.cu"), "-O2")
    want = [(0, 0, 0), (0, 2 * (8 + 4), 0), (0, 0, 2 * (8 + 4)), (0, 2 * (8 + 4), 0)]
    for form, suffix in (("raw", ""), ("compact", ".mtc")):
        result = world.run_ok(app, MEMTRACE_FORMAT=form)
        same(f"{form}: output", result.out, "1 1 2 2\n")
        same(form, senders(world, result, suffix), want)
        if form == "raw":
            with open(result.path(), "rb") as trace, open(result.path() + ".meta", encoding="utf-8") as meta:
                slow = brute.extract([trace.read()], [meta.read()], sections=["senders", "transfers"])
            out = world.extract([result.path()], "--sections=senders,transfers")
            same("byte by byte", {k: slow[k] for k in ("senders", "transfers")}, {k: out[k] for k in ("senders", "transfers")})


@case("grid_barriers")
def grid_barriers(world):
    """All that CTAs do before a barrier of the grid is in the trace before what any does after it, also with several worker
    threads: each int is read once, by the CTA opposite, after the first barrier."""
    app = world.compile(os.path.join(world.src, "grid_barriers.cu"), "-O2")
    for form, suffix in (("raw", ""), ("compact", ".mtc")):
        result = world.run_ok(app, MEMTRACE_FORMAT=form, MEMTRACE_CPU_THREADS=4)
        same(f"{form}: output", result.out, "grid_barriers: passed\n")
        same(form, senders(world, result, suffix), [(256 * 4, 0, 0)] * 20)


def bytes_touched(launches, kind, base, size):
    """{how often a byte of [base, base + size) was touched: how many bytes}."""
    times = [0] * size
    for launch in launches:
        for _, what, n, address, _ in launch.records():
            if what == kind:
                for at in range(max(address, base), min(address + n, base + size)):
                    times[at - base] += 1
    return {t: times.count(t) for t in set(times)}


@case("libraries", whole=True)
def libraries(world):
    """CUB and Thrust give the right answers. A reduction reads each byte of its input once. A scan writes each once;
    it reads the last element for threads that have none, too."""
    n = 3000
    total = n * (n - 1) // 2  # values are 0 … n - 1 in some order: 7919 is prime and does not divide n
    result = world.run_ok(world.compile(os.path.join(world.src, "libraries.cu"), "-O2", "-std=c++17", "--extended-lambda", *world.fibers()))
    m = re.fullmatch(rf"values 0x(\w+) sum {total} error 0\nscan 0x(\w+) wrong 0 error 0\nthrust sum {2 * total} wrong 0\n",
                     result.out)
    holds(f"output: {result.out}{result.err}", m)
    values, scan = (int(address, 16) for address in m.groups())
    launches = result.trace()
    names = [launch.kernel for launch in launches]
    first_scan = next(i for i, name in enumerate(names) if "scan" in name.lower())
    last_scan = max(i for i, name in enumerate(names) if "scan" in name.lower())
    same("reads of the reduction", bytes_touched(launches[:first_scan], "load", values, 4 * n), {1: 4 * n})
    holds("the scan reads each byte", 0 not in bytes_touched(launches[first_scan:last_scan + 1], "load", values, 4 * n))
    same("writes of the scan", bytes_touched(launches[first_scan:last_scan + 1], "store", scan, 4 * n), {1: 4 * n})
    holds("the trace is complete", result.companion().end()["complete"])


@case("sanitized")
def sanitized(world):
    """A program with ThreadSanitizer."""
    app = world.compile(os.path.join(world.src, "sanitized.cu"), "-O1", "-fsanitize=thread")
    result = world.run_ok(app)
    same("output, words", (result.out, "ThreadSanitizer" in result.err), ("1 2000 1 0\n", False))
