"""What run-gpu traces on a GPU through injection: programs as nvcc made them (inject/*.cu) and Python's packages, under the kit's
memtrace run. All numbers are counted by hand from the sources. With --device cpu the same programs run on the CPU device.

A case returns figures in words, or None."""
import collections
import concurrent.futures
import copy
import glob
import importlib.util
import os
import re
import shutil
import sys

import cases_channel
import timed
import trace
from cuda import Result
from harness import Failed, holds, same

HERE = os.path.dirname(os.path.realpath(__file__))
CASES = {}
# {kernel of kinds.cu: {(kind, bytes): records of global memory}}, of 32 lanes
KINDS = {
    "loads": {("load", size): 32 for size in (1, 2, 4, 8, 16)} | {("store", 4): 32},
    "stores": {("store", size): 32 for size in (1, 2, 4, 8, 16)},
    "atomics": {("atomic", 4): 3 * 32, ("atomic", 8): 32},
    "copies": {("load", size): 32 for size in (4, 8, 16)},
    "bulk": {("load", 512): 1, ("store", 512): 1},
    "on_chip": {("store", 4): 32},
    "matrix": {("store", 4): 32},
    "local": {("store", 4): 32},
    "cluster": {("store", 4): 64},
}
# Of a lane: a store, a load, an atomic, a thread at a barrier; four stores, a thread at a barrier, a row of a matrix; eight stores
# into local memory, and a load.
ON_CHIP = {"on_chip": 4 * 32, "matrix": 6 * 32, "local": 9 * 32}
NVBIT_SLOWER = "100 to 1,000"  # published for tracing all memory accesses with NVBit


def case(name):
    def add(function):
        CASES[name] = function
        return function
    return add


# ---- running ---------------------------------------------------------------------------------------


def on_gpu(world):
    """Not so where the CPU device takes a GPU's place."""
    return world.injects


def program(world, name):
    path = os.path.join(world.build, "bin", "inject-" + name)
    if not os.path.exists(path):
        raise timed.Skipped(f"the kit has no {os.path.basename(path)}: it was made for other cases, or without nvcc")
    return path


def run(world, words, traced=True, folder=None, code=0, **variables):
    """A Result. The program gets neither the kit's libraries nor its CUDA runtime: it has its own."""
    if not world.mt_run:
        raise timed.Skipped("on the CPU device this needs a build folder (--build)")
    folder = folder or world.folder("run")
    env = {k: v for k, v in os.environ.items() if not k.startswith("MEMTRACE_")}
    device = "gpu" if on_gpu(world) else "cpu"
    env.update({"MEMTRACE_DEVICE": device, "MEMTRACE_CACHE": os.path.join(world.work, "cache"), "MEMTRACE_DIR": folder}, **variables)
    words = [*([world.mt_run, "-f", variables.get("MEMTRACE_FORMAT", "raw")] if traced else []), *map(str, words)]
    process = timed.call(words, world.seconds, env=env)
    print(f"$ {' '.join(words)} {variables}: {process.returncode}\n{process.stdout[-3000:]}{process.stderr[-6000:]}", flush=True)
    if process.returncode != code:
        raise Failed(f"exit code {process.returncode}: {process.stdout[-500:]}{process.stderr[-1500:]}")
    return Result(process, folder)


def traces(result, ends=""):
    """Numbers of the traces, raw or compact."""
    found = [re.fullmatch(r"MemTrace-pipe-(\d+)" + ends, name) for name in os.listdir(result.folder)]
    return sorted(int(m.group(1)) for m in found if m)


def counts(result, whole=True):
    """{kernel: {(kind, bytes): records}} of all raw traces, each of which is whole, unless that is not asked for."""
    found = collections.defaultdict(collections.Counter)
    for stream in traces(result):
        if whole:
            cases_channel.whole(result, stream)
        for launch in result.trace(stream):
            for sizes in launch.ctas().values():
                found[launch.kernel].update(sizes)
    return {kernel: dict(sizes) for kernel, sizes in found.items()}


def passed(world, mode, *more, **variables):
    result = run(world, [program(world, "basic"), mode, *more], **variables)
    same("output", result.out, "passed\n")
    return result


def compact(world, words, **variables):
    """(companion of the first trace, Result)"""
    result = run(world, words, MEMTRACE_FORMAT="compact", **variables)
    companion = trace.Companion(result.path() + ".mtc.meta")
    holds("complete", companion.end()["complete"])
    return companion, result


def added(threads, launches=1):
    return {"add": {("load", 4): 2 * threads * launches, ("store", 4): threads * launches}}


# ---- what decides ----------------------------------------------------------------------------------


@case("injection: what is found")
def found(world):
    """NVIDIA's library and ours are in the kit, and memtrace run takes them."""
    words = timed.call([os.path.join(world.build, "tools", "mt-run"), "--list"], world.seconds, env={k: v for k, v in os.environ.items() if k != "MEMTRACE_SANITIZER"} | {"MEMTRACE_DEVICE": "gpu"})
    print(words.stdout, words.stderr)
    if not glob.glob(os.path.join(world.build, "sanitizer", "*", "libsanitizer-public.so")):
        raise timed.Skipped("the kit has no libsanitizer-public.so")
    holds(words.stdout + words.stderr, f"by {world.build}/sanitizer" in words.stdout)
    return " ".join(line.strip() for line in words.stdout.splitlines() if f"{world.build}/sanitizer" in line).replace(world.build + "/", "")


@case("injection: vector_add")
def add(world):
    same("records", counts(passed(world, "add")), added(1000))


WITHOUT = [{}, {"MEMTRACE_ENGINE": "preload"}, *({"MEMTRACE_GPU_WITHOUT": parts} for parts in ("exits", "graphs", "driver", "exits,graphs,driver"))]


def tried(world, **variables):
    """What comes of vector_add: right, or what is wrong."""
    short = copy.copy(world)
    short.seconds = min(world.seconds, 4)
    try:
        found = [line["records"] for line in launches_of(passed(short, "add", **variables), "add")]
        return "right" if found == [3000] else f"records {found}"
    except (Failed, timed.Hung) as why:
        return str(why).partition("\n")[0][:100]


@case("injection: what to do without")
def without(world):
    """If vector_add is not traced: with the other way in, and without parts of the engine, which shows the one that does not go with the driver."""
    if not on_gpu(world):
        raise timed.Skipped("on a GPU alone")
    words = []
    for variables in WITHOUT:
        words.append(f"{' '.join(f'{k}={v}' for k, v in variables.items()) or 'as it is'}: {tried(world, **variables)}")
        if words == ["as it is: right"]:
            break
    return "; ".join(words)


def check_kinds(result, found_in):
    names = result.out.split()
    holds(f"kernels: {names}", len(names) >= 5 and set(names) <= set(KINDS))
    for name in names:
        same(name, found_in.get(name), KINDS[name])
    return f"{len(names)} of {len(KINDS)} kernels"


@case("injection: kinds of accesses")
def kinds(world):
    result = run(world, [program(world, "kinds")])
    return check_kinds(result, counts(result))


@case("injection: shared and local memory")
def on_chip(world):
    result = run(world, ["--spaces=global,shared,local", program(world, "kinds")], MEMTRACE_FORMAT="compact")
    companion = trace.Companion(result.path() + ".mtc.meta")
    holds("complete", companion.end()["complete"])
    others = {e["kernel"]: e.get("others", 0) for e in companion.all("launch")}
    for kernel, number in ON_CHIP.items():
        same(f"{kernel}: of shared and local memory", others.get(kernel), number)
    for kernel, sizes in KINDS.items():
        if kernel in others:
            records = [e["records"] for e in companion.all("launch") if e["kernel"] == kernel]
            same(f"{kernel}: of global memory", records, [sum(sizes.values())])
    return f"others {others}"


# ---- Python ----------------------------------------------------------------------------------------


def python(world, source, *words, needs=()):
    """Runs inject/SOURCE or a path under the machine's Python, if that has the packages it needs."""
    if not on_gpu(world):
        raise timed.Skipped("on a GPU alone")
    for package in needs:
        if importlib.util.find_spec(package) is None:
            raise timed.Skipped(f"this Python has no {package}")
    result = run(world, [sys.executable, os.path.join(HERE, "inject", source), *words], KIT=world.build)
    holds(f"output: {result.out!r}", result.out.endswith("right\n"))
    return result


def summed(result):
    """(launches, records), all whole."""
    for stream in traces(result):
        cases_channel.whole(result, stream)
    launches = [e for s in traces(result) for e in result.companion(s).all("launch") if e["traced"]]
    return len(launches), sum(e["records"] for e in launches)


@case("injection: PyTorch, eager")
def torch_eager(world):
    """y + y of 1,024 floats stores 4,096 bytes; the optimiser's step may add with the same kernel."""
    result = python(world, "torch_step.py", needs=["torch"])
    launches, records = summed(result)
    adding = {kernel: moved(sizes) for kernel, sizes in counts(result).items() if "add" in kernel.lower()}
    holds(f"bytes that adding loaded and stored: {adding}", adding)
    holds(f"bytes that adding stored: {adding}", any(stored >= 4096 for _, stored in adding.values()))
    return f"{launches} launches, {records} records"


@case("injection: cuBLAS")
def cublas(world):
    """A product of matrices of 64 by 64 floats: reads both, writes one."""
    return product(world, 64, 4)


@case("injection: cuBLAS, bf16")
def cublas_half(world):
    """A product of matrices of 512 by 512, with tensor cores. From sm_90 on its kernel may use tensor copies, which a library before 13.3 does not see."""
    return product(world, 512, 2, "bf16")


def product(world, n, size, *more):
    if on_gpu(world) and not blas(world):
        raise timed.Skipped("there is no libcublas.so.12 or .13")
    result = python(world, "cublas_gemm.py", *more)
    lines = [e for s in traces(result) for e in result.companion(s).all("launch")]
    unseen = [e["kernel"] for e in lines if not e["traced"] or e["untraced"]]
    if unseen or not lines:
        told = result.err + str([e for s in traces(result) for e in result.companion(s).all("end")])
        holds(f"the user is told of {unseen}: {told}", not lines or any(e["untraced"] for e in lines) or '"complete": False' in told.replace("'", '"'))
        return f"not seen, and said: {unseen}"
    launches, records = summed(result)
    loaded, stored = (sum(both) for both in zip(*[moved(sizes) for sizes in counts(result).values()]))
    holds(f"bytes stored: {stored}", stored >= n * n * size)
    holds(f"bytes loaded: {loaded}", loaded >= 2 * n * n * size)
    return f"{launches} launches, {records} records"


def blas(world):
    spec = importlib.util.spec_from_file_location("cublas_gemm", os.path.join(HERE, "inject", "cublas_gemm.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.find("cublas")


def moved(sizes):
    """(bytes loaded, bytes stored)."""
    return tuple(sum(size * n for (kind, size), n in sizes.items() if kind == what) for what in ("load", "store"))


@case("injection: Triton")
def triton(world):
    result = python(world, "triton_add.py", needs=["triton", "torch"])
    same("bytes loaded and stored by add", moved(counts(result).get("add", {})), (8000, 4000))


@case("injection: CuPy")
def cupy(world):
    result = python(world, os.path.join(HERE, "..", "python", "programs", "cupy_kernels.py"), needs=["cupy"])
    launches, records = summed(result)
    holds(f"launches, records: {launches}, {records}", launches and records)
    same("bytes loaded and stored by add", moved(counts(result).get("add", {})), (8192, 4096))
    return f"{launches} launches, {records} records"


# ---- launches, streams, rings ----------------------------------------------------------------------


@case("injection: a graph launched three times")
def graph(world):
    result = passed(world, "graph")
    same("records", counts(result), added(256 + 512, 3))
    records = [e["records"] for s in traces(result) for e in result.companion(s).all("launch")]
    same("records of each launch", sorted(records), [768] * 3 + [1536] * 3)


@case("injection: two streams")
def streams(world):
    result = passed(world, "streams")
    same("records", counts(result), added(256, 200))
    same("launches of each stream", [len(result.trace(s)) for s in traces(result)], [100, 100])


@case("injection: rings that are always full")
def full(world):
    for slots in ("32", "32K"):
        same(f"records, {slots} slots", counts(passed(world, "many", MEMTRACE_RING_SLOTS=slots)), {"many": {("store", 4): 64 * 256 * 32}})


@case("injection: 32 sites in one warp")
def lanes(world):
    same("records", counts(passed(world, "lanes", MEMTRACE_RING_SLOTS="32")), {"lanes": {("store", 4): 32}})
    if on_gpu(world):  # the CPU device's code is not the GPU's
        companion, _ = compact(world, [program(world, "basic"), "lanes"])
        same("sites", len({e["at"] for e in companion.all("site") if e.get("symbol", "").startswith("_Z5lanes")}), 32)


@case("injection: compact")
def compact_add(world):
    companion, result = compact(world, [program(world, "basic"), "add"])
    same("records", [e["records"] for e in companion.all("launch")], [3000])
    lines = {(os.path.basename(e["file"]), e["op"]) for e in companion.all("site")}
    holds(f"sites: {lines}", {("basic.cu", "load"), ("basic.cu", "store")} <= lines)
    return f"{os.path.getsize(result.path() + '.mtc')} bytes"


# ---- ways that are hard to trace -------------------------------------------------------------------


def way(world, *words, **variables):
    result = run(world, [program(world, "ways"), *words], **variables)
    if result.out.startswith("needs "):
        raise timed.Skipped(f"the GPU is too old: it {result.out.strip()}")
    same("output", result.out, "passed\n")
    return result


def launches_of(result, kernel):
    return [e for s in traces(result) for e in result.companion(s).all("launch") if e["kernel"] == kernel]


def seen_or_said(world, what, kernel, recorded, more):
    """`recorded`: the kernel's records by instructions that every version of NVIDIA's library reports. `more`: its other accesses. The CPU
    device has both, or counts the others. On a GPU the launch names what is not reported, and its trace is not called complete."""
    result = way(world, what)
    [line] = launches_of(result, kernel)
    sizes = counts(result, whole=False).get(kernel, {})
    complete = all(result.companion(s).end()["complete"] for s in traces(result))
    if sizes == {**recorded, **more} and complete:
        return "all is recorded"
    same("records", sizes, recorded)
    holds(f"accesses without a record: {line['untraced']}", line["untraced"] > 0)
    holds(f"complete: {complete}, {line}", not complete and line.get("unseen") if on_gpu(world) else complete)
    return f"{line['untraced']} accesses are counted without a record: {line.get('unseen', '')}"


STORED = {("store", 4): 32}


@case("injection: tensor copies (TMA)")
def tensor(world):
    """A box of 8 rows of 64 bytes, in and out, by one lane."""
    return seen_or_said(world, "tensor", "tensor", {}, {("load", 64): 8, ("store", 64): 8})


@case("injection: textures")
def textures(world):
    return seen_or_said(world, "texture", "texture", STORED, {("load", 4): 32})


@case("injection: surfaces")
def surfaces(world):
    return seen_or_said(world, "surface", "surface", STORED, {("store", 4): 64})


@case("injection: multicast memory")
def multicast(world):
    """The kernel has the instruction and does not come to it."""
    return seen_or_said(world, "multicast", "multicast", STORED, {})


@case("injection: generic pointers to shared memory")
def generic(world):
    """Of 32 lanes 16 store to global memory, 16 to shared; all store once more."""
    same("records", counts(way(world, "generic")), {"generic": {("store", 4): 16 + 32}})


@case("injection: barriers of the grid")
def turns(world):
    """4 CTAs of 64 threads store ten times each. The barrier's own memory is not the program's."""
    result = way(world, "turns")
    cases_channel.whole(result)
    [launch] = result.trace()
    same("records", cases_channel.in_arrays(launch, result.companion(), (0,)), {(0, "store", 4): 4 * 64 * 10})
    return f"{sum(sum(sizes.values()) for sizes in launch.ctas().values())} records with those of the barrier"


@case("injection: a thread waits for a flag")
def flags(world):
    """The waiting CTA loads the flag (array 0) as often as it likes, at least once a thread."""
    result = way(world, "flags")
    cases_channel.whole(result)
    [launch] = result.trace()
    found = cases_channel.in_arrays(launch, result.companion(), (0, 1, 2))
    polls = found.pop((0, "load", 4), 0)
    same("records", found, {(0, "store", 4): 1, (1, "store", 4): 32, (1, "load", 4): 32, (2, "store", 4): 32})
    holds(f"loads of the flag: {polls}", polls >= 32 or on_gpu(world))  # repeats may be counted without records
    return f"{polls} records of loads of the flag"


@case("injection: a graph of 1,100 nodes")
def long_graph(world):
    same("records", counts(way(world, "graph", 1100, 1)), {"next": {("load", 4): 1100 * 32, ("store", 4): 1100 * 32}})


@case("injection: 100 launches of one graph in two streams")
def many_graphs(world):
    same("records", counts(way(world, "graph", 2, 100)), {"next": {("load", 4): 200 * 32, ("store", 4): 200 * 32}})


@case("injection: a kernel that stays, others beside it")
def persistent(world):
    """16 items of 32 stores and one word that says so; 16 launches meanwhile, each waited for. Loads of the flag are as many as they are."""
    found = counts(way(world, "persistent"))
    found["persistent"].pop(("load", 4), None)
    same("records", found, {"persistent": {("store", 4): 16 * 32 + 16}, "next": {("load", 4): 16 * 32, ("store", 4): 16 * 32}})


@case("injection: two processes")
def processes(world):
    """Both at once, each with a folder of its own."""
    with concurrent.futures.ThreadPoolExecutor(2) as both:
        results = list(both.map(lambda _: passed(world, "streams"), range(2)))
    for result in results:
        same("records", counts(result), added(256, 200))


# ---- what it costs ---------------------------------------------------------------------------------


def milliseconds(result):
    ms, accesses, word = result.out.split()
    same("output", word, "passed")
    return float(ms), int(accesses)


@case("injection: time and bytes")
def cost(world):
    """vector_add of 2^20 threads: milliseconds a launch, from events. Traces lie in memory if there is room."""
    launches = 20 if on_gpu(world) else 2
    words = [program(world, "basic"), "time", launches]
    room = "/dev/shm" if os.path.isdir("/dev/shm") and shutil.disk_usage("/dev/shm").free > 4 << 30 else world.work
    plain, accesses = milliseconds(run(world, words, traced=False) if on_gpu(world) else run(world, words, MEMTRACE_ENABLE="0"))
    lines = [f"untraced {plain:.4f} ms"]
    for name, more in (("off", {"MEMTRACE_ENABLE": "0"}), ("not chosen", {"MEMTRACE_KERNELS": "none"}),
                       *((f"compact, {n} readers", {"MEMTRACE_FORMAT": "compact", "MEMTRACE_GPU_READERS": str(n)}) for n in (1, 2, 4, 8)),
                       ("compact", {"MEMTRACE_FORMAT": "compact"}), ("raw", {"MEMTRACE_FORMAT": "raw"})):
        folder = os.path.join(room, f"memtrace-{os.getpid()}")
        os.makedirs(folder)
        try:
            ms, _ = milliseconds(run(world, words, folder=folder, **more))
            size = sum(os.path.getsize(p) for p in glob.glob(os.path.join(folder, "MemTrace-pipe-*")) if not p.endswith(".meta"))
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        lines.append(f"{name} {ms:.4f} ms, {ms / max(plain, 1e-9):.1f} times, {size / (accesses * (launches + 1)):.2f} bytes an access")
    return "; ".join(lines) + f" (NVBit: {NVBIT_SLOWER} times)"


@case("injection: the bus")
def bus(world):
    """What no tracing can be faster than: copies to pinned memory of the host, and a kernel that writes there."""
    if not on_gpu(world):
        raise timed.Skipped("on a GPU alone")
    result = run(world, [program(world, "basic"), "bus"], traced=False)
    holds(f"output: {result.out!r}", result.out.endswith("passed\n"))
    return result.out.splitlines()[0]


# ---- what only hardware can answer -----------------------------------------------------------------


@case("injection: threads that end early")
def early(world):
    """33 threads in a CTA, three ends. On a GPU nothing is said at the wait: as many threads have ended as there were."""
    result = passed(world, "early", MEMTRACE_VERBOSE="1")
    # 2 CTAs of 33 threads: 22 store, 11 again; 12 CTAs of 11 by 3: 7 of 11 in x store, 3 again
    same("records", counts(result), {"early": {("store", 4): 2 * 33 + 12 * 3 * 10}})
    holds(result.err, "do not say when they end" not in result.err)


@case("injection: shared memory of launches, one refused")
def refused(world):
    result = passed(world, "refused")
    same("records", counts(result), {"large_shared": {("store", 4): 64}})
    lines = [(e["shared"], e["status"], e["traced"]) for s in traces(result) for e in result.companion(s).all("launch")]
    good = [line for line in lines if line[2]]
    same("shared memory, status", good, [(1000, 0, True), (2000, 0, True)])
    return f"launches {lines}"


@case("injection: the driver's own kernels")
def copies(world):
    result = passed(world, "copies")
    kernels = [(e["kernel"], e["records"], e["traced"]) for s in traces(result) for e in result.companion(s).all("launch")]
    same("records", counts(result).get("add"), added(1000)["add"])
    same("kernels", kernels, [("add", 3000, True)])


@case("injection: lazy and eager loading")
def loading(world):
    if not on_gpu(world):
        raise timed.Skipped("on a GPU alone")
    sites = []
    for how in ("LAZY", "EAGER"):
        companion, _ = compact(world, [program(world, "basic"), "add"], CUDA_MODULE_LOADING=how)
        sites.append(sorted((e.get("at"), e["line"], e["op"], e.get("guess", False)) for e in companion.all("site")))
    same("sites", sites[0], sites[1])
    return f"{sites[0]}"


@case("injection: a module loaded while a kernel runs")
def module(world):
    """The kernel goes on until the host has come back from loading; the program fails when that waited for the kernel."""
    if not on_gpu(world):
        raise timed.Skipped("on a GPU alone")
    result = passed(world, "module", os.path.join(world.build, "lib", "libinject-module.so"))
    return f"launches {[len(result.trace(s)) for s in traces(result)]}"
