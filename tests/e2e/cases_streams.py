"""Streams that run side by side, and graphs: what communicates with what, byte by byte."""
import os

from cases_extract import flat_transfers, ordered_transfers
from harness import case, holds, same

CTAS, THREADS = 4, 32


def wanted(first, rounds):
    """produce of round r is superstep first + 2 r, consume the one after it; CTAs face each other."""
    return {("produce", (CTAS - 1 - c, 0, 0), first + 2 * r, "consume", (c, 0, 0), first + 2 * r + 1):
            (4 * THREADS, THREADS) for r in range(rounds) for c in range(CTAS)}


@case("stream_order")
def stream_order(world):
    """Everything is queued before anything runs: sequence numbers and transfers follow the events."""
    app = world.compile(os.path.join(world.src, "stream_order.cu"), "-O2")
    for workers in (1, 3):
        result = world.run_ok(app, MEMTRACE_CPU_THREADS=workers)
        same("output", result.out, "stream_order: passed\n")
        same("kernels", [[g.kernel for g in result.trace(s)] for s in result.streams()],
             [["hold"] + ["produce"] * 3, ["consume"] * 3])
        comm = world.extract([result.path(s) for s in result.streams()])
        holds("complete", comm["complete"])
        same("transfers", ordered_transfers(comm), wanted(1, 3))
        unordered = [k for k, leaf in flat_transfers(comm).items() if leaf.get("unordered")]
        same("transfers without an order", unordered, [])
        log = result.companion(0)
        numbers = sorted([(e["seq"], e["kernel"]) for s in result.streams() for e in result.companion(s).all("launch")] +
                         [(e["seq"], e["kind"]) for e in log.all("memcpy")])
        same("order", [what for _, what in numbers], ["hold"] + ["produce", "d2d", "consume", "d2h"] * 3)


@case("graph_launches")
def graph_launches(world):
    """A captured graph, launched again and again: each kernel of each launch is in the trace, in order."""
    app = world.compile(os.path.join(world.src, "stream_order.cu"), "-O2")
    count = 7
    result = world.run_ok([app, count])
    same("output", result.out, "stream_order: passed\n")
    same("trace files: all of it runs in the stream of the launch", result.streams(), [0])
    launches = result.trace()
    same("kernels", [g.kernel for g in launches], ["produce", "consume"] * count)
    for g in launches:
        kinds = {("store", 4): THREADS} if g.kernel == "produce" else {("load", 4): THREADS, ("store", 4): THREADS}
        same(g.kernel, g.ctas(), {(c, 0, 0): kinds for c in range(CTAS)})
    meta = result.companion()
    same("copies", [e["kind"] for e in meta.all("memcpy")], ["d2d", "d2h"] * count)
    seqs = [e["seq"] for e in meta.all("launch")]
    same("each launch has its number", (sorted(set(seqs)), len(seqs)), (seqs, 2 * count))
    same("transfers", ordered_transfers(world.extract([result.path()])), wanted(0, count))
    holds("complete", meta.end()["complete"])


@case("graph_nodes")
def graph_nodes(world):
    """Nodes of all types by cudaGraphAddNode; conditional ones: the kernels of the bodies that are taken are launches, in order."""
    result = world.run_ok(world.compile(os.path.join(world.src, "graph_nodes.cu"), "-O2"))
    same("output", (result.out, result.err), ("graph_nodes: done\n", ""))
    launches = result.trace()
    same("kernels", [g.kernel for g in launches],
         ["add"] * 6 + ["decide", "add"] * 2 + (["down", "add"] * 3 + ["add"]) * 2 + ["decide", "add", "add"])
    kinds = {"add": {("load", 4): 32, ("store", 4): 32}, "decide": {}, "down": {("load", 4): 1, ("store", 4): 1}}
    for g in launches:
        same(g.kernel, g.ctas().get((0, 0, 0), {}), kinds[g.kernel])
    meta = result.companion()
    same("copies", [e["kind"] for e in meta.all("memcpy")], ["d2h"] * (3 + 2 + 3 + 1))
    same("fills", [e["bytes"] for e in meta.all("memset")], [128] * 3 + [128] * 2 + [256, 4, 4] + [128])
    holds("complete", meta.end()["complete"])


@case("default_stream")
def default_stream(world):
    """-fgpu-default-stream=per-thread: the default streams of two host threads run side by side."""
    app = world.compile(os.path.join(world.src, "default_stream.cu"), "-O2", "-fgpu-default-stream=per-thread")
    for workers in (1, 2):
        result = world.run_ok(app, timeout=120, MEMTRACE_CPU_THREADS=workers)
        same("output", result.out, "default_stream: passed\n")
        same("trace files", result.streams(), [0, 1])
        for stream in result.streams():
            same("kernels", [g.kernel for g in result.trace(stream)], ["meet"])


@case("plugins")
def plugins(world):
    """Libraries that are unloaded before anything of CUDA is called, and after their kernels have run."""
    libraries = []
    for factor in (3, 10):
        libraries.append(world.compile(os.path.join(world.src, "plugin.cu"), "-O2", f"-DFACTOR={factor}", "-fPIC", "-shared",
                                       out=os.path.join(world.work, f"libplugin{factor}.so")))
    app = world.compile(os.path.join(world.src, "plugins.cu"), "-O2")
    traced = world.run_ok([app, *libraries])
    values = []
    for x in (0, 31):
        for _ in range(2):
            x = ((x + 3) * 2 + 10) * 2
        values.append(str(x))
    same("output", traced.out.split(), values)
    same("kernels", [launch.kernel for launch in traced.trace()], ["in_library", "in_program"] * 4)
    holds("complete", traced.companion().end()["complete"])


@case("call_places", whole=True)
def call_places(world):
    """Each allocation, copy, fill and launch has the line of the call that made it."""
    path = os.path.join(world.src, "call_places.cu")
    with open(path, encoding="utf-8") as f:
        want = sorted((line.split("@")[1].strip(), k) for k, line in enumerate(f, 1) if "// @" in line)
    for level in ("-O0", "-O2"):
        result = world.run_ok(world.compile(path, level))
        same("output", result.out, "0 failed, 31\n")
        meta = result.companion()
        have = sorted((what, e["line"]) for what in ("alloc", "memset", "memcpy", "launch") for e in meta.all(what)
                      if e.get("kind") != "symbol")
        same(f"{level}: what is not expected", [h for h in have if h not in want], [])
        same(f"{level}: what is missing", [w for w in want if w not in have], [])
        same(f"{level}: how many", len(have), len(want))
