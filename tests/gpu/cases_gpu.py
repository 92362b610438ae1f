"""What run-gpu runs. Each case gets a KitWorld whose programs run on the device under test, and says what is wrong by
raising Failed. `plain(world)` is the same world on the CPU device: the two must agree."""
import copy
import os
import resource
import shutil
import signal
import subprocess
import threading
import time

import cases_channel
import cases_examples
import checks
import rows
import trace
from harness import Failed, holds, same

HERE = os.path.dirname(os.path.realpath(__file__))
LEVELS = ("-O0", "-O2")
E2E = ("channel", "graphs", "failing", "endless", "stream_order", "default_stream", "channel_launches", "gpu_ends")
CONFORMANCE = ("atomics", "memory", "warp", "block", "integer", "async", "ptx_memory", "simd", "range")
# No CTA races with another: comm.json is the same on every device.
DETERMINISTIC = ("vector_add", "stencil_1d", "stencil_2d", "matrix_multiply")
CASES = {}


def case(name):
    def add(function):
        CASES[name] = function
        return function
    return add


def programs(source):
    """(source file, flags of mt-cc) of all that the cases run, those of the conformance topics apart."""
    for name in cases_examples.NAMES:
        for level in LEVELS:
            yield os.path.join(source, "examples", name, name + ".cu"), [level]
    for name in E2E:
        extra = ["-fgpu-default-stream=per-thread"] if name == "default_stream" else []
        yield os.path.join(source, "tests", "e2e", "src", name + ".cu"), ["-O2", *extra]


def plain(world):
    other = copy.copy(world)
    other.variables = {k: v for k, v in world.variables.items() if not k.startswith("MEMTRACE_")}
    other.variables["MEMTRACE_DEVICE"] = "cpu"
    return other


def app(world, name):
    return world.compile(os.path.join(world.src, name + ".cu"), "-O2")


# ---- the examples ----------------------------------------------------------------------------------


def check_example(world, name, level):
    expect = world.expectation(name)
    for arguments in (expect.QUICK, expect.DEFAULTS):
        program = world.compile(world.example(name), level)
        untraced = world.run_ok([program, *arguments], traced=False)
        traced = world.run_ok([program, *arguments])
        same("output of the traced run", traced.out, untraced.out)
        same("words of the traced run", traced.err, untraced.err)
        checks.kernels_and_counts(traced, expect.launches(arguments, level))
        checks.own_counts(traced)
        for stream in traced.streams():
            cases_channel.whole(traced, stream)
        if name in DETERMINISTIC and arguments == expect.QUICK:
            other = plain(world).run_ok([program, *arguments])
            same("comm.json of the device and of the CPU device", cases_channel.figures(world, traced, sm=False),
                 cases_channel.figures(world, other, sm=False))


for example in cases_examples.NAMES:
    for optimised in LEVELS:
        case(f"{example} {optimised}")(lambda world, n=example, l=optimised: check_example(world, n, l))


# ---- streams and graphs -----------------------------------------------------------------------------


@case("1,000 launches on 8 streams")
def stress(world):
    result = world.run_ok([app(world, "channel"), "stress", 1000])
    same("output", result.out, "channel: passed\n")
    same("streams", len(result.streams()), 8)
    for stream in result.streams():
        cases_channel.whole(result, stream)
        launches = result.trace(stream)
        same("launches", len(launches), 125)
        for launch in launches:
            same("records", launch.ctas(), {(c, 0, 0): {("load", 4): 64, ("store", 4): 64} for c in range(4)})


@case("divergence, blocks, rings that are always full")
def divergence(world):
    program = app(world, "channel")
    other = plain(world).run_ok(program)
    for slots in ("32", "32K"):
        result = world.run_ok(program, MEMTRACE_RING_SLOTS=slots)
        same("output", result.out, other.out)
        cases_channel.whole(result)
        same("records", cases_channel.contents(result, sm=False), cases_channel.contents(other, sm=False))
        order, place = {}, cases_channel.relative(result.companion())
        for _, kind, _, address, _ in result.trace()[0].records():
            word = place(address)[1] // 4
            order.setdefault(word // cases_channel.ROUNDS, []).append(word)
        same("each thread's order", order,
             {t: cases_channel.written(t) for t in range(cases_channel.THREADS) if cases_channel.written(t)})


@case("graphs")
def graphs(world):
    program = app(world, "graphs")
    other, result = plain(world).run_ok(program), world.run_ok(program)
    same("output", result.out, other.out)
    for stream in other.streams():
        cases_channel.whole(result, stream)
        same("records", cases_channel.contents(result, stream, sm=False),
             cases_channel.contents(other, stream, sm=False))


@case("captured graphs, events between streams")
def order(world):
    for arguments in ([], [7]):
        result = world.run_ok([app(world, "stream_order"), *arguments])
        same("output", result.out, "stream_order: passed\n")
        for stream in result.streams():
            cases_channel.whole(result, stream)


@case("per-thread default streams")
def per_thread(world):
    source = os.path.join(world.src, "default_stream.cu")
    result = world.run_ok(world.compile(source, "-O2", "-fgpu-default-stream=per-thread"))
    for stream in result.streams():
        cases_channel.whole(result, stream)


@case("cooperative launches")
def together(world):
    result = world.run_ok([app(world, "channel_launches"), "together"])
    same("output", result.out, "passed\n")
    cases_channel.whole(result)
    launches = result.trace()
    same("launches", len(launches), 3)
    for launch in launches:
        same("records", cases_channel.in_arrays(launch, result.companion(), (0, 1)), {(0, "store", 4): 192, (0, "load", 4): 192, (1, "store", 4): 192})


ADD = {(c, 0, 0): {("load", 4): 64, ("store", 4): 64} for c in range(3)}


@case("launch attributes, clusters")
def attributes(world):
    """Clusters are of sm_90 and later: where there are none, the launch fails and the others have been."""
    result = world.run_ok([app(world, "channel_launches"), "attributes"])
    holds(f"output: {result.out!r}", result.out.startswith("clusters: cuda") and result.out.endswith(", passed\n"))
    cases_channel.whole(result)
    same("records", [launch.ctas() for launch in result.trace()], [ADD] * (5 if "cudaSuccess" in result.out else 4))


@case("a kernel that runs beside what the host waits for")
def beside(world):
    result = world.run_ok([app(world, "channel_launches"), "beside"], timeout=120)
    same("words", (result.out, result.err), ("passed\n", ""))
    for stream in result.streams():
        cases_channel.whole(result, stream)


@case("all devices at once")
def devices(world):
    result = world.run_ok([app(world, "channel_launches"), "devices"])
    holds(f"output: {result.out!r}", result.out.endswith(", passed\n"))
    count = int(result.out.split()[1].rstrip(","))
    for stream in result.streams():
        cases_channel.whole(result, stream)
    same("a stream per device", len(result.streams()), count)
    same("records", [launch.ctas() for stream in result.streams() for launch in result.trace(stream)], [ADD] * (5 * count))


@case("1,024 threads with many registers")
def registers(world):
    """They are launched with record calls, too: what does not fit is spilled."""
    result = world.run_ok([app(world, "gpu_ends"), "registers"])
    same("words", (result.out, result.err), ("passed\n", ""))
    cases_channel.whole(result)
    [launch] = result.trace()
    same("records", launch.ctas(), {(c, 0, 0): {("load", 4): 56 * 1024, ("store", 4): 1024} for c in range(2)})


@case("graphs with a captured library call")
def captured_library(world):
    """Its kernels are not traced, ours are; the library has a CUDA runtime of its own. Where there is no GPU it cannot run."""
    result = world.run_ok([app(world, "gpu_ends"), "library"])
    can = "captured" if world.variables["MEMTRACE_DEVICE"] == "gpu" else "cannot run"
    same("output", result.out, f"library: {can}, passed\n")
    [stream] = result.streams()
    cases_channel.whole(result, stream)
    same("records", [launch.ctas() for launch in result.trace(stream)], [ADD] * 6)


# ---- ends -------------------------------------------------------------------------------------------


@case("cudaDeviceReset, end without a wait")
def reset(world):
    result = world.run_ok([app(world, "channel"), "reset"])
    launches = [launch for stream in result.streams() for launch in result.trace(stream)]
    for launch in launches:
        same("records", launch.ctas(), {(c, 0, 0): {("load", 4): 64, ("store", 4): 64} for c in range(4)})
    holds("all but the last launch, which nobody waited for, are there", len(launches) >= 3)


@case("kernel, cudaMemcpy, return")
def returns(world):
    """The copy has waited for the kernel, nobody for its records."""
    for _ in range(5):
        result = world.run_ok([app(world, "gpu_ends"), "return"])
        same("words", (result.out, result.err), ("passed\n", ""))
        cases_channel.whole(result)
        same("records", [launch.ctas() for launch in result.trace()], [ADD])


def read_late(path, out):
    """Reads a FIFO as somebody who looks away for six seconds."""
    with open(path, "rb") as fifo, open(out, "wb") as file:
        file.write(fifo.read(4096))
        time.sleep(6)
        shutil.copyfileobj(fifo, file)


@case("a FIFO that stalls for six seconds")
def stall(world):
    for slots in ("64", "32K"):
        folder, got = world.folder("fifo"), world.folder("got")
        fifo, out = (os.path.join(f, "MemTrace-pipe-0") for f in (folder, got))
        os.mkfifo(fifo)
        reader = threading.Thread(target=read_late, args=(fifo, out), daemon=True)
        reader.start()
        result = world.run_ok([app(world, "gpu_ends"), "many"], folder=folder, MEMTRACE_RING_SLOTS=slots)
        reader.join(60)
        same("words", (result.out, result.err), ("passed\n", ""))
        shutil.copy(fifo + ".meta", got)
        result.folder = got
        cases_channel.whole(result)
        [launch] = result.trace()
        same("records", launch.ctas(), {(c, 0, 0): {("store", 4): 32 * 256} for c in range(64)})


@case("kernels that fail")
def failing(world):
    for how in ("assert", "trap"):
        result = world.run_ok([app(world, "failing"), how], timeout=120)
        holds(f"the program sees an error: {result.out!r}", result.out.startswith("cudaError"))
        launches = result.trace()
        same("the good launch", launches[0].ctas(), {(0, 0, 0): {("store", 4): 32}})
        # the CPU device has all that was done before it failed
        same("complete", result.companion().end()["complete"], world.variables["MEMTRACE_DEVICE"] == "cpu")


def end_by(world, number, command):
    """Sends a signal to a program that goes on for ever, when its trace has begun; returns its folder."""
    folder = world.folder("ended")
    env = {k: v for k, v in os.environ.items() if not k.startswith("MEMTRACE_")}
    env.update(world.variables, MEMTRACE_DIR=folder)
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=env, preexec_fn=cases_channel.default_signals)
    try:
        same("first line", process.stdout.readline(), "ready\n")
        cases_channel.wait_until_written(os.path.join(folder, "MemTrace-pipe-0"))
        process.send_signal(number)
        process.wait(60)
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
    return folder


@case("kill, Ctrl-C")
def killed(world):
    for number in (signal.SIGKILL, signal.SIGINT, signal.SIGTERM):
        folder = end_by(world, number, [app(world, "endless")])
        comm = world.extract([os.path.join(folder, "MemTrace-pipe-0")], code=3)
        same("complete", comm["complete"], False)
        holds("whole launches are there", len(comm["KDV"]["touch"]) >= 10)


@case("kill, Ctrl-C while a kernel runs")
def killed_within(world):
    for number in (signal.SIGKILL, signal.SIGINT, signal.SIGTERM):
        folder = end_by(world, number, [app(world, "channel_launches"), "spin"])
        comm = world.extract([os.path.join(folder, "MemTrace-pipe-0")], code=3)
        same("complete", comm["complete"], False)
        same("kernels", set(comm["KDV"]), {"spin"})


@case("a full disk")
def full(world):
    """A limit on file size stands for it."""
    program, folder, limit = world.compile(world.example("stencil_2d"), "-O2"), world.folder("full"), 1 << 16
    untraced = world.run_ok(program, traced=False)

    def little_room():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    process = subprocess.run([program], capture_output=True, text=True, preexec_fn=little_room, timeout=300,
                             env=dict(os.environ, **world.variables, MEMTRACE_DIR=folder))
    same("exit code and output", (process.returncode, process.stdout), (0, untraced.out))
    holds(f"the user is told: {process.stderr!r}", "MemTrace-pipe-0" in process.stderr)
    meta = trace.Companion(os.path.join(folder, "MemTrace-pipe-0.meta"), cut=True)
    holds("not complete", not meta.all("end") or not meta.end()["complete"])


# ---- conformance ------------------------------------------------------------------------------------


def check_topic(world, topic):
    source = os.path.join(world.source, "tests", "conformance", topic + ".cu")
    wish = rows.settings(source)
    level = wish["levels"].split()[0]
    program, wrong, count = world.compile(source, level), [], 0
    saved = dict(os.environ)
    os.environ.update(world.variables)
    extra = " ".join([wish["environment"], *(f"{k}={v}" for k, v in world.variables.items() if k.startswith("MEMTRACE_"))])
    try:
        pairs = rows.run_program(program, world.folder("rows") + "/run", extra) if rows.has_plain(program) else []
        for number, name in enumerate(rows.names_of(program, "alone")):
            pairs += rows.run_program(program, world.folder("alone") + "/run", extra, [name])
        for fields, found in pairs:
            verdict, _ = rows.compare(fields, found)
            count += 1
            if verdict != "ok" and not verdict.startswith("skipped"):
                wrong.append(f"{fields[0]}: {verdict}")
    finally:
        os.environ.clear()
        os.environ.update(saved)
    if wrong:
        raise Failed(f"{len(wrong)} of {count} rows:\n    " + "\n    ".join(wrong[:40]))


for one in CONFORMANCE:
    case(f"conformance {one}")(lambda world, t=one: check_topic(world, t))
