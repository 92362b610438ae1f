"""Tracing changes no result: the same bits with records, without, without code for records, with a count, and through the channel
of the GPU path."""
import os

from cases_examples import NAMES
from harness import case, holds, same

# {what: (flags for mt-cc, variables for the run)}; the first is a kernel with nothing of ours in it. Those without flags share their
# program with the cases of the examples, the counted one with `counts`.
COUNTED = ["--mt-gpu-trace=off", "--mt-count=on"]
WAYS = {
    "not instrumented": (["--mt-gpu-trace=off", "--mt-exclude=.*"], {}),
    "not traced": ([], {"MEMTRACE_ENABLE": 0}),
    "traced": ([], {}),
    "compact": ([], {"MEMTRACE_FORMAT": "compact"}),
    "counted": (COUNTED, {}),
    "counted only": (["--mt-gpu-trace=off", "--mt-count=only"], {}),
}


def each_way(world, sources, *flags):
    """(way, program, variables): a program for each way, compiled once for those of the same flags."""
    apps = {}
    for way, (more, variables) in WAYS.items():
        key = " ".join(more)
        if key not in apps:
            apps[key] = world.compile(sources, *flags, *more)
        yield way, apps[key], variables


def bits_of(world, way, app, arguments, variables):
    """(what it prints, what it brings back from the device)"""
    told = os.path.join(world.folder("bits"), "told")
    result = world.run_ok([app, *arguments], MEMTRACE_CPU_THREADS=1, BITS=told,
                          LD_PRELOAD=os.path.join(world.build, "tests", "e2e", "mt-test-bits.so"), **variables)
    holds(f"{way}: traced or not", bool(os.listdir(result.folder)) == (way not in ("not instrumented", "not traced")))
    with open(told, encoding="utf-8") as f:
        return result.out, f.read()


def add(name):
    @case("bits." + name)
    def example(world):
        arguments = world.expectation(name).QUICK
        want = None
        for way, app, variables in each_way(world, world.example(name), "-O2"):
            got = bits_of(world, way, app, arguments, variables)
            holds(f"{name}: something comes back", got[1])
            want = want or got
            same(f"{name}, {way}", got, want)


for each in NAMES:
    add(each)


@case("fused", whole=True)
def fused(world):
    """Sums of products are fused where nvcc fuses them, and alike in all ways to build and run."""
    source = os.path.join(world.src, "fused.cu")
    for level in ("-O0", "-O1", "-O3") if world.long else ("-O3",):
        want = None
        for way, app, variables in each_way(world, source, level):
            got = world.run_ok(app, **variables).out
            want = want or got
            same(f"{level}, {way}", got, want)
            holds(f"{level}, {way}: fused", "simple: fused\n" in got)
    for flag in ("-fmad=false", "-ffp-contract=off"):
        holds(flag, "simple: apart\n" in world.run_ok(world.compile(source, "-O2", flag)).out)
