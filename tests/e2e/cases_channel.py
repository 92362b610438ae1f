"""MEMTRACE_CHANNEL=warp: the GPU's record functions, rings and reader on the CPU device. The records are those of the plain
way, in each thread's order, however small the rings."""
import json
import os
from collections import Counter

from world import case, holds, same

WARP = {"MEMTRACE_CHANNEL": "warp", "MEMTRACE_RING_SLOTS": "32"}
ROUNDS, THREADS, CTA = 12, 240, 80


def relative(companion):
    """(name of an allocation, offset) of an address."""
    spans = [(int(e["base"], 16), e["bytes"], i) for i, e in enumerate(companion.all("alloc"))]

    def translate(address):
        for base, size, i in spans:
            if base <= address < base + size:
                return i, address - base
        raise AssertionError(hex(address))
    return translate


def contents(result, stream=0, sm=True):
    """Per launch: kernel, and per CTA a multiset of (SM, type, size, place)."""
    place = relative(result.companion(0))
    out = []
    for launch in result.trace(stream):
        ctas = {}
        for number, kind, size, address, cta in launch.records():
            ctas.setdefault(cta, Counter())[number if sm else 0, kind, size, place(address)] += 1
        out.append((launch.kernel, ctas))
    return out


def whole(result, stream=0):
    """The companion says that all is there, and the device's own count is the same."""
    end = result.companion(stream).end()
    same("records", end["records_written"], end["records_counted"])
    holds("complete", end["complete"])


def written(t):
    """The words that `diverge` stores in thread t, in order."""
    rounds = [r for r in range(ROUNDS) if r <= t % 7 + 4]
    return [t * ROUNDS + r for r in rounds if (t * 5 + r * 3) % 4]


@case("channel.records")
def channel_records(world):
    """Divergence, threads that end early, lanes far apart, blocks; both levels; workers side by side and one alone."""
    for level in ("-O0", "-O2"):
        app = world.compile(os.path.join(world.src, "channel.cu"), level)
        plain = world.run_ok(app)
        for workers in (1, 3):
            result = world.run_ok(app, MEMTRACE_CPU_THREADS=workers, **WARP)
            same("output", (result.out, result.err), (plain.out, plain.err))
            whole(result)
            same(f"records {level}, {workers} workers", contents(result), contents(plain))
            launches = result.trace()
            place = relative(result.companion())
            order = {}
            for _, kind, size, address, _ in launches[0].records():
                if level == "-O2" or place(address)[1] < THREADS * ROUNDS * 4:
                    word = place(address)[1] // 4
                    order.setdefault(word // ROUNDS, []).append(word)
            same("each thread's order", order, {t: written(t) for t in range(THREADS) if written(t)})
            sizes = sorted(min(16, t * 3 % 20) for t in range(48) if t * 3 % 20)
            some = {"MEMTRACE_CTAS": "1:2"}
            same("some CTAs", contents(world.run_ok(app, **some, **WARP)), contents(world.run_ok(app, **some)))
            same("blocks", sorted(size for _, _, size, _, _ in launches[2].records()), sizes)


@case("channel.stress")
def channel_stress(world):
    """1,000 launches on 8 streams from 8 threads: nothing is lost, and each stream has its own."""
    app = world.compile(os.path.join(world.src, "channel.cu"), "-O2")
    result = world.run_ok([app, "stress", "1000"], MEMTRACE_CPU_THREADS=3, **WARP)
    same("output", result.out, "channel: passed\n")
    same("streams", len(result.streams()), 8)
    for stream in result.streams():
        whole(result, stream)
        launches = result.trace(stream)
        same("launches", len(launches), 125)
        for launch in launches:
            same("records", launch.ctas(), {(c, 0, 0): {("load", 4): 64, ("store", 4): 64} for c in range(4)})
        numbers = [e["seq"] for e in result.companion(stream).all("launch")]
        same("order", numbers, sorted(set(numbers)))


@case("channel.reset")
def channel_reset(world):
    """cudaDeviceReset takes the rings along: nothing of before it is lost, and the next launch has new ones. The program ends
    without a wait."""
    app = world.compile(os.path.join(world.src, "channel.cu"), "-O2")
    result = world.run_ok([app, "reset"], **WARP)
    same("words", (result.out, result.err), ("", ""))
    launches = [launch for stream in result.streams() for launch in result.trace(stream)]
    for stream in result.streams():
        whole(result, stream)
    same("launches", [launch.ctas() for launch in launches],
         [{(c, 0, 0): {("load", 4): 64, ("store", 4): 64} for c in range(4)}] * 4)


def figures(world, result, sm=True):
    """comm.json with addresses as places in allocations: those themselves differ from run to run. Operations of one launch
    on an address stand in the order of the trace, which is not that of the threads: sorted."""
    place = relative(result.companion(0))

    def same_everywhere(value):
        if isinstance(value, dict):
            return {same_everywhere(k): same_everywhere(v) for k, v in value.items() if sm or k != "smid"}
        if isinstance(value, list):
            return sorted(map(same_everywhere, value), key=lambda v: json.dumps(v, sort_keys=True))
        return str(place(int(value, 0))) if isinstance(value, str) and value.startswith("0x") else value
    comm = world.extract([result.path(s) for s in result.streams()])
    for section in ["inputs"] + ([] if sm else ["SCV", "SDV"]):
        del comm[section]
    return same_everywhere(comm)


@case("channel.comm")
def channel_comm(world):
    """Programs in which no two CTAs race: the same comm.json."""
    for name in ("vector_add", "stencil_1d", "stencil_2d", "matrix_multiply"):
        app = world.compile(world.example(name), "-O2")
        arguments = world.expectation(name).QUICK
        plain = world.run_ok([app, *arguments])
        result = world.run_ok([app, *arguments], **WARP)
        same("output", (result.out, result.err), (plain.out, plain.err))
        same(name, figures(world, result), figures(world, plain))


@case("channel.failing")
def channel_failing(world):
    """A kernel that traps: the program hears of it, nothing hangs, what arrived is kept, and the trace says that it is not
    whole."""
    app = world.compile(os.path.join(world.src, "failing.cu"), "-O2")
    for how, error in (("assert", "cudaErrorAssert"), ("trap", "cudaErrorLaunchFailure")):
        result = world.run_ok([app, how], timeout=120, **WARP)
        same("error", result.out, error + "\n")
        launches = result.trace()
        same("kernels", [launch.kernel for launch in launches], ["good", f"bad_{how}"])
        same("the good launch", launches[0].ctas(), {(0, 0, 0): {("store", 4): 32}})
        holds("what came before the end", launches[1].ctas()[0, 0, 0][("store", 4)] == 32)
        holds("not complete", not result.companion().end()["complete"])


@case("channel.graphs")
def channel_graphs(world):
    """Graphs on the GPU's way through the API: captured and made by hand, with child graphs, changed and launched again, in two
    streams. The same launches with the same records as the plain way, which knows nothing of contexts."""
    app = world.compile(os.path.join(world.src, "graphs.cu"), "-O2")
    plain = world.run_ok(app, MEMTRACE_CPU_THREADS=2)
    launches = {0: ["fill", "fill", "add"] * 4 + ["fill", "add"] + ["fill", "fill", "add"],
                1: ["fill", "fill", "add"] * 3 + ["fill", "fill", "fill", "add"] * 2 + ["fill", "fill", "add"]}
    sums = (5 * 12, 5 * 8, 5 * 6)  # words below 40 in all launches, below 64 in eight, the others in six
    same("output", plain.out, "%d %d %d\n" % sums)
    for environment in (WARP, {**WARP, "MEMTRACE_RING_SLOTS": "32K", "MEMTRACE_CPU_THREADS": "1"}):
        result = world.run_ok(app, **environment)
        same("output", (result.out, result.err), (plain.out, plain.err))
        for stream in (0, 1):
            whole(result, stream)
            same("kernels", [launch.kernel for launch in result.trace(stream)], launches[stream])
            same("records", contents(result, stream), contents(plain, stream))
