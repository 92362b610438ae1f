"""The GPU's own code, its rings and their reader, on the stand-in for a GPU (tests/gpu/standin). The records are those of the CPU
device, in each thread's order, however small the rings."""
import json
import os
import resource
import signal
import subprocess
import time
from collections import Counter

from harness import case, holds, same, size, until

WARP = {"MEMTRACE_DEVICE": "standin", "MEMTRACE_RING_SLOTS": "32"}
ROUNDS, THREADS, CTA = 12, 240, 80


def places(companion):
    """(number of an allocation, offset) of an address; (None, the address) of one in none of them."""
    spans = [(int(e["base"], 16), e["bytes"], i) for i, e in enumerate(companion.all("alloc"))]
    return lambda address: next(((i, address - base) for base, size, i in spans if base <= address < base + size), (None, address))


def relative(companion):
    """The same for kernels all of whose accesses lie in the program's allocations."""
    place = places(companion)

    def translate(address):
        found = place(address)
        if found[0] is None:
            raise AssertionError(hex(address))
        return found
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


@case("channel.elsewhere")
def channel_elsewhere(world):
    """Under memtrace run on a GPU the library that the driver loads records a program of mt-cc, too; this one leaves it to that."""
    app = world.compile(os.path.join(world.src, "channel.cu"), "-O2")
    plain = world.run_ok(app)
    for engine in ("inject", "preload"):
        result = world.run_ok(app, MEMTRACE_ENGINE=engine, **WARP)
        same("output", (result.out, result.err), (plain.out, plain.err))
        same("files", os.listdir(result.folder), [])
    holds("on the CPU device", world.run_ok(app, MEMTRACE_ENGINE="inject").companion().end()["complete"])


@case("channel.left_out")
def channel_left_out(world):
    """A program that was compiled without code for traces on a GPU runs there as ever; it says how to get one, once, and its trace says that
    it is not complete. On the CPU device it is traced."""
    app = world.compile(os.path.join(world.src, "channel.cu"), "-O2", "--mt-gpu-trace=off")
    plain, left = world.run_ok(app), world.run_ok(app, **WARP)
    same("output", left.out, plain.out)
    holds(left.err, left.err.count("--mt-gpu-trace=on") == 1 and left.err.count("memtrace run") == 1 and not plain.err)
    for trace, complete in ((plain, True), (left, False)):
        comm = world.extract([trace.path()], code=0 if complete else 3)
        same("complete", comm["complete"], complete)


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
    on an address are in the order of the trace, which is not that of the threads: sorted."""
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
    same("output", plain.out, "cudaErrorStreamCaptureUnsupported\n%d %d %d\n" % sums)
    for environment in (WARP, {**WARP, "MEMTRACE_RING_SLOTS": "32K", "MEMTRACE_CPU_THREADS": "1"}):
        result = world.run_ok(app, **environment)
        same("output", (result.out, result.err), (plain.out, plain.err))
        for stream in (0, 1):
            whole(result, stream)
            same("kernels", [launch.kernel for launch in result.trace(stream)], launches[stream])
            same("records", contents(result, stream), contents(plain, stream))


def launches_app(world):
    return world.compile(os.path.join(world.src, "channel_launches.cu"), "-O2")


def in_arrays(launch, companion, arrays):
    """How often each type and size in the allocations of these numbers. The others are the library's barrier: on a GPU it lies
    in memory of NVIDIA's runtime, which the program never allocated."""
    place = places(companion)
    return dict(Counter((place(address)[0], kind, size) for _, kind, size, address, _ in launch.records()
                        if place(address)[0] in arrays))


@case("channel.together")
def channel_together(world):
    """CTAs that wait for one another, cooperative launches by every entry point: they all are there at once, and the rings do
    not stop them."""
    app = launches_app(world)
    for more in (WARP, {**WARP, "MEMTRACE_RING_SLOTS": "32K"}):
        result = world.run_ok([app, "together"], **more)
        same("words", (result.out, result.err), ("passed\n", ""))
        whole(result)
        meta = result.companion()
        same("outside", places(meta)(4), (None, 4))
        same("launches", [(e["kernel"], e["cooperative"]) for e in meta.all("launch")], [("together", True)] * 3)
        for launch in result.trace():
            same("records", in_arrays(launch, meta, (0, 1)), {(0, "store", 4): 192, (0, "load", 4): 192, (1, "store", 4): 192})


@case("channel.attributes")
def channel_attributes(world):
    app = launches_app(world)
    for more in ({}, WARP):
        result = world.run_ok([app, "attributes"], **more)
        same("words", (result.out, result.err), ("clusters: cudaSuccess, passed\n", ""))
        whole(result)
        same("records", [launch.ctas() for launch in result.trace()],
             [{(c, 0, 0): {("load", 4): 64, ("store", 4): 64} for c in range(3)}] * 5)
        same("clusters", [e.get("cluster") for e in result.companion().all("launch")],
             [None] * 3 + [[1, 1, 1], [3, 1, 1]])


@case("channel.beside")
def channel_beside(world):
    """A kernel that runs until the host says so does not hold up a host that waits for something else."""
    begin = time.monotonic()
    result = world.run_ok([launches_app(world), "beside"], MEMTRACE_CPU_THREADS=2, timeout=120, **WARP)
    same("words", (result.out, result.err), ("passed\n", ""))
    holds("nobody gave up", time.monotonic() - begin < 60)
    kernels = {}
    for stream in result.streams():
        whole(result, stream)
        for launch in result.trace(stream):
            kernels.setdefault(launch.kernel, []).append(launch.ctas())
    adds = {(0, 0, 0): {("load", 4): 32, ("store", 4): 32}}
    same("records", kernels, {"add": [adds, adds], "until": [{(0, 0, 0): {("store", 4): 64}}]})


@case("channel.ended")
def channel_ended(world):
    """A program that is killed, or ended by Ctrl-C, while a kernel runs: what its trace has is good, and it is not complete."""
    app = launches_app(world)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
        folder = world.folder("ended")
        env = {k: v for k, v in os.environ.items() if not k.startswith("MEMTRACE_")}
        env.update(WARP, MEMTRACE_CPU_THREADS="2", **world.standin.variables, MEMTRACE_DIR=folder)
        process = subprocess.Popen([app, "spin"], stdout=subprocess.PIPE, text=True, env=env, preexec_fn=default_signals)
        try:
            same("first line", process.stdout.readline(), "ready\n")
            wait_until_written(os.path.join(folder, "MemTrace-pipe-0"))
            process.send_signal(number)
            same("end", process.wait(300), -number)
        finally:
            process.kill()
            process.wait()
            process.stdout.close()
        comm = world.extract([os.path.join(folder, "MemTrace-pipe-0")], code=3)
        same("complete", comm["complete"], False)
        same("kernels", set(comm["KDV"]), {"spin"})


def wait_until_written(trace):
    """A kernel that runs leaves records in memory first; some of them, with its name, have come to the file."""
    until("records in the file", lambda: size(trace) >= 1024)


def default_signals():
    """Whoever runs tests in the background ignores Ctrl-C."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)


@case("channel.full")
def channel_full(world):
    """No more room for the traces (a limit on file size stands for a full disk): the kernels go on, the user is told, and what
    is there is whole as far as it goes."""
    app, limit = world.compile(world.example("histogram"), "-O2"), 1 << 16
    untraced = world.run_ok(app, traced=False)
    for form, name in (("raw", "MemTrace-pipe-0"), ("compact", "MemTrace-pipe-0.mtc")):
        folder = world.folder(form)

        def little_room():
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

        process = subprocess.run([app], capture_output=True, text=True, preexec_fn=little_room, timeout=300,
                                 env={**os.environ, **WARP, **world.standin.variables, "MEMTRACE_DIR": folder, "MEMTRACE_FORMAT": form, "MEMTRACE_LEVEL": "0"})
        same(f"{form}: exit code and output", (process.returncode, process.stdout), (0, untraced.out))
        holds(f"{form}: the user is told: {process.stderr!r}", name in process.stderr)
        holds(f"{form}: no more than there was room", os.path.getsize(os.path.join(folder, name)) <= limit)
        done = subprocess.run([world.tool("mt-extract"), os.path.join(folder, name)], capture_output=True, text=True, timeout=300)
        same(f"{form}: mt-extract", (done.returncode, json.loads(done.stdout)["complete"]), (3, False))
