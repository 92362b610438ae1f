"""Programs of tests/e2e/src: address spaces, kinds of access, filters, streams, several files, failures, names."""
import json
import os
import re
import subprocess

import checks
import trace
from checks import totals
from harness import case, holds, same


def source(world, name):
    return os.path.join(world.src, name)


def every_level(world, name, wanted, flags=(), levels=()):
    """Compiles src/<name>.cu at each level, runs it without and with tracing; [(kernel, totals)] must be `wanted`."""
    for level in levels or world.levels():
        app = world.compile(source(world, name + ".cu"), level, *flags)
        plain = world.run_ok(app, traced=False)
        traced = world.run_ok(app)
        same(f"{name} {level}: output", (traced.out, traced.err), (plain.out, plain.err))
        got = [(launch.kernel, totals(launch)) for launch in traced.trace()]
        same(f"{name} {level}: kernels", [k for k, _ in got], [k for k, _ in wanted])
        for (kernel, counts), (_, want) in zip(got, wanted):
            same(f"{name} {level}: {kernel}", counts, want)
        holds(f"{name} {level}: the companion says that the trace is complete",
              traced.companion().end()["complete"])


@case("spaces", whole=True)
def spaces(world):
    """Only global memory is recorded; generic pointers are decided at run time; same at every level."""
    n = 64
    every_level(world, "spaces", [
        ("selected", {("load", 4): n // 2, ("store", 4): n}),
        ("by_value", {("store", 4): n}),
        ("all_spaces", {("load", 4): 2 * n, ("store", 4): n}),
        ("constants", {("store", 4): n}),
        ("locals", {("store", 4): n}),
        ("selected_atomic", {("atomic", 4): n // 4, ("store", 4): 1}),
        ("no_global", {}),
    ])


@case("absent", whole=True)
def absent(world):
    """Results of shuffles and votes that CUDA does not define: reported once, counted for each launch."""
    for level in world.levels():
        run = world.run_ok(world.compile(source(world, "absent.cu"), level))
        said = [line for line in run.err.splitlines() if "undefined" in line]
        holds(f"absent {level}: {run.err}", len(said) == 1 and "kernel exited: lane 0 of warp 0 of CTA (0,0,0) shuffles from lane 1, "
              "which has exited" in said[0])
        same(f"absent {level}", [(e["kernel"], e.get("undefined")) for e in run.companion().all("launch")],
             [("defined", None), ("exited", 1), ("missing", 16), ("elsewhere", 16), ("unnamed", 1)])


@case("guards", whole=True)
def guards(world):
    """Loops over threads run where the test around the kernel's body holds, with and without record calls."""
    for level in ("-O1", "-O2") if world.long else ("-O2",):
        app = world.compile(source(world, "guards.cu"), level)
        plain = world.run_ok(app, traced=False)
        traced = world.run_ok(app)
        same(f"guards {level}: output", (traced.out, traced.err), (plain.out, plain.err))
        stores = {}
        for launch in traced.trace():
            stores[launch.kernel] = stores.get(launch.kernel, 0) + totals(launch).get(("store", 4), 0)
        passed = dict(line.split() for line in plain.out.splitlines())
        same(f"guards {level}: recorded stores", stores, {k: int(n) for k, n in passed.items()})


@case("strides")
def strides(world):
    """Threads of grid-stride loops go on together, and do what each alone would have done."""
    app = world.compile(source(world, "strides.cu"), "-O2")
    plain = world.run_ok(app, traced=False)
    traced = world.run_ok(app)
    same("strides: output", (traced.out, traced.err), (plain.out, plain.err))
    stores = {}
    for launch in traced.trace():
        stores[launch.kernel] = stores.get(launch.kernel, 0) + totals(launch).get(("store", 4), 0)
    iterations = dict(line.split() for line in plain.out.splitlines())
    for kernel in ("plain_u", "plain_s", "plain_z", "large_u", "large_s"):
        same(f"strides: stores of {kernel}", stores[kernel], int(iterations[kernel]))


@case("kinds", whole=True)
def kinds(world):
    """Each kind of access leaves one record of its size per thread."""
    n = 32
    every_level(world, "kinds", [
        ("volatile_access", {("load", 4): n, ("store", 4): n}),
        ("read_only", {("load", 4): n, ("store", 4): n}),
        ("vectors", {("load", 8): 2 * n, ("store", 8): 2 * n}),  # clang's copy of a struct, not a vector
        ("add", {("atomic", 4): n}),
        ("subtract", {("atomic", 4): n}),
        ("exchange", {("atomic", 4): n}),
        ("minimum", {("atomic", 4): n}),
        ("maximum", {("atomic", 4): n}),
        ("increment", {("atomic", 4): n}),
        ("decrement", {("atomic", 4): n}),
        ("bits", {("atomic", 4): 3 * n}),
        ("compare_and_swap", {("atomic", 4): n}),
        ("add_wide", {("atomic", 8): n}),
        ("add_float", {("atomic", 4): n}),
        ("add_double", {("atomic", 8): n}),
        ("add_scoped", {("atomic", 4): 2 * n}),
        ("take_ticket", {("atomic", 4): n, ("store", 4): n}),
        ("predicated", {("store", 4): n // 2}),
        ("narrow", {("load", 1): n, ("store", 2): n}),
        ("fill", {("store", 1): 48 * n}),  # of unknown length: a loop over bytes
        ("fill", {}),
    ])


FILTERED = [
    ("plain", {("store", 4): 32}),
    ("calls_quiet_helper", {("load", 4): 32, ("store", 4): 32}),
    ("partly", {("load", 4): 64, ("store", 4): 64}),
    ("in_a_quiet_region", {}),
    ("in_spite_of_region", {("store", 4): 32}),
    ("last", {("atomic", 4): 32, ("store", 4): 32}),
]


def skipped_launches(result):
    return [e["kernel"] for e in result.companion().all("launch") if not e["traced"]]


@case("filters", whole=True)
def filters(world):
    """Attributes and pragmas. A skipped kernel's launch is not in the trace, the companion names it; a kernel in a
    quiet region is a launch without records."""
    every_level(world, "filters", FILTERED)
    result = world.run_ok(world.compile(source(world, "filters.cu"), "-O2"))
    same("launches that were not traced", skipped_launches(result), ["skipped"])
    untouched = world.compile(source(world, "filters.cu"), "-O2")
    same("output without tracing", world.run_ok(untouched, traced=False).out, result.out)


@case("filter_options")
def filter_options(world):
    """kernels=, exclude= and only= on the command line; a bad value is a compiler error that names it."""
    def names(*options):
        app = world.compile(source(world, "filters.cu"), "-O2", *(f"-fplugin-arg-memtrace-{o}" for o in options))
        return [(launch.kernel, totals(launch)) for launch in world.run_ok(app).trace()]

    base = FILTERED
    asked = "in_spite_of_region"  # [[memtrace::trace]] is stronger than a filter
    same("kernels=^p", names("kernels=^p"), [k for k in base if k[0].startswith("p") or k[0] == asked])
    same("exclude=l", names("exclude=l"), [k for k in base if "l" not in k[0]])
    same("both", names("kernels=^p", "exclude=y$"), [k for k in base if k[0] in ("plain", asked)])
    for only in ("loads", "stores", "atomics"):
        want = [(k, {key: n for key, n in c.items() if key[0] == only[:-1]}) for k, c in base]
        same(f"only={only}", names(f"only={only}"), want)
    want = [(k, {key: n for key, n in c.items() if key[0] != "load"}) for k, c in base]
    same("only=stores,atomics", names("only=stores,atomics"), want)
    for bad in ("kernels=(", "exclude=[", "only=reads", "nonsense=1"):
        process = world.compile(source(world, "filters.cu"), f"-fplugin-arg-memtrace-{bad}", code=1)
        key = bad.split("=")[0]
        holds(f"the error for {bad} is the compiler's and names it: {process.stderr[-500:]}",
              re.search(r"error: .*" + key, process.stderr))


@case("streams")
def streams(world):
    """The same kernel on two streams at once: records do not mix; one file per stream, by first launch."""
    for threads in (1, 2, 4):
        app = world.compile(source(world, "streams.cu"), "-O2") if threads == 1 else app
        result = world.run_ok(app, MEMTRACE_CPU_THREADS=threads)
        same("trace files", result.streams(), [0, 1, 2])
        wanted = []
        for stream, (rounds, count) in enumerate(((40, 4), (60, 4), (3, 1))):
            ctas = {(c, 0, 0): {("atomic", 4): 64 * rounds} for c in range(8)}
            wanted += [dict(kernel="bump", stream=stream, grid=(8, 1, 1), block=(64, 1, 1), ctas=ctas)] * count
        checks.kernels_and_counts(result, wanted)
        checks.companions(result, wanted, [source(world, "streams.cu")])
        for stream in range(3):
            meta = result.companion(stream)
            allocs = sorted(base for base, *_ in meta.allocations())
            for launch in result.trace(stream):
                addresses = [a for a, _ in launch.spans()]
                same(f"stream {stream} touches its own array", min(addresses),
                     meta.allocations()[stream][0])
                same(f"stream {stream}: different addresses", len(addresses), 512)
            same("allocations", len(allocs), 3)


@case("multi_file", whole=True)
def multi_file(world):
    """Kernels of one name in two files, a helper in a header, main in plain C++; objects linked by mt-cc."""
    for level in ("-O0", "-O2"):
        folder = world.folder("objects")
        objects = []
        for name in ("multi_first.cu", "multi_second.cu", "multi_main.cpp"):
            objects.append(world.compile(source(world, name), level, "-c", out=os.path.join(folder, name + ".o")))
        app = world.compile(objects, level, out=os.path.join(folder, "app"))
        result = world.run_ok(app)
        same("output", result.out, "multi: passed\n")
        first = {(c, 0, 0): {("load", 4): min(32, 100 - 32 * c), ("store", 4): min(32, 100 - 32 * c)} for c in range(4)}
        second = {(0, 0, 0): {("load", 4): 128, ("store", 4): 64}, (1, 0, 0): {("load", 4): 71, ("store", 4): 36}}
        wanted = [dict(kernel="kernel", stream=0, grid=(4, 1, 1), block=(32, 1, 1), ctas=first),
                  dict(kernel="kernel#2", stream=0, grid=(2, 1, 1), block=(64, 1, 1), ctas=second)]
        checks.kernels_and_counts(result, wanted)
        sources = [source(world, f) for f in ("multi_first.cu", "multi_second.cu", "multi_helper.cuh", "multi_main.cpp")]
        checks.companions(result, wanted, sources)
        checks.sites(result, sources, {
            "return p[i] * 2;": ["load 4"],
            "out[i] = twice(in, i) + 1;": ["store 4"],
            "out[i] = sum;": ["store 4"],
        })


@case("host_threads")
def host_threads(world):
    """Four host threads launch on their own streams at once: each stream's file has its own launches, all of them."""
    app = world.compile(source(world, "threads.cu"), "-O2")
    for _ in range(5):
        result = world.run_ok(app)
        same("trace files", result.streams(), [0, 1, 2, 3])
        rounds = []
        for stream in result.streams():
            launches = result.trace(stream)
            same(f"launches of stream {stream}", len(launches), 20)
            counts = {n for launch in launches for cta in launch.ctas().values() for n in cta.values()}
            holds(f"stream {stream}: each CTA the same work: {counts}", len(counts) == 1)
            rounds.append(counts.pop() // 32)
            same("one array per stream", len({a for launch in launches for a, _ in launch.spans()}), 128)
            holds("complete", result.companion(stream).end()["complete"])
        same("all four amounts of work", sorted(rounds), [1, 2, 3, 4])


@case("killed")
def killed(world):
    """A program that is killed: whole launches stay readable, the companion has no end, memtrace extract says so (3)."""
    app = world.compile(source(world, "endless.cu"), "-O2")
    folder = world.folder("killed")
    process = subprocess.Popen([app], stdout=subprocess.PIPE, text=True,
                               env=dict(os.environ, MEMTRACE_DIR=folder, MEMTRACE_DEVICE="cpu"))
    try:
        same("first line", process.stdout.readline(), "ready\n")
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
    meta = trace.Companion(os.path.join(folder, "MemTrace-pipe-0.meta"), cut=True)
    same("no end", meta.all("end"), [])
    extract = world.call([world.tool("mt-extract"), os.path.join(folder, "MemTrace-pipe-0")], code=3)
    comm = json.loads(extract.stdout)
    same("not complete", comm["complete"], False)
    steps = comm["KDV"].get("touch", {})
    holds(f"launches that were whole are there: {len(steps)}", len(steps) >= 1)
    for step in list(steps)[:-1]:
        same(f"superstep {step}", steps[step], {"Load": 0, "Store": 4096})


@case("no_launch")
def no_launch(world):
    """A program that launches nothing leaves no trace of records and no words."""
    result = world.run_ok(world.compile(source(world, "no_launch.cu"), "-O2"))
    same("output", (result.out, result.err), ("no_launch: passed\n", ""))
    for stream in result.streams():
        same("launches", result.trace(stream), [])


@case("failing")
def failing(world):
    """A kernel that fails: the program sees CUDA's error, the trace is whole, the companion says which launch."""
    app = world.compile(source(world, "failing.cu"), "-O2")
    for how, error, number in (("assert", "cudaErrorAssert", 710), ("trap", "cudaErrorLaunchFailure", 719),
                               ("free", "cudaErrorLaunchFailure", 719), ("address", "cudaErrorIllegalAddress", 700)):
        result = world.run_ok([app, how])
        same(f"{how}: error", result.out, error + "\n")
        same(f"{how}: same without tracing", world.run_ok([app, how], traced=False).out, error + "\n")
        launches = result.trace()
        same(f"{how}: kernels", [launch.kernel for launch in launches], ["good", f"bad_{how}"])
        same(f"{how}: the good launch", totals(launches[0]), {("store", 4): 32})
        said = result.companion().all("launch")
        same(f"{how}: status", [e["status"] for e in said], [0, number])
        same(f"{how}: records", [e["records"] for e in said], [launch.count for launch in launches])
        holds(f"{how}: what was done before it failed is there", 0 < launches[1].count <= 96)
        if how == "free":
            holds(f"what was freed: {result.err!r}", "no block that a kernel's malloc gave" in result.err)
        if how == "assert":
            holds(f"the assertion's text is on stderr: {result.err!r}",
                  "failing.cu" in result.err and "Assertion" in result.err and "thread" in result.err)


@case("names")
def names(world):
    """Kernel names as users write them, without parameters; the companion distinguishes overloads."""
    result = world.run_ok(world.compile(source(world, "scopes.cu"), "-O2"))
    same("names", [launch.kernel for launch in result.trace()], [
        "(anonymous namespace)::hidden", "(anonymous namespace)::tagged<(anonymous namespace)::Tag>", "plain_c",
        "overloaded", "overloaded", "flags<true, (char)120>", "apply<Functor>"])
    said = result.companion().all("launch")
    signatures = [e["signature"] for e in said if e["kernel"] == "overloaded"]
    same("signatures of overloads", signatures, ["overloaded(int*, int)", "overloaded(int*, float)"])
    mangled = [e["mangled"] for e in said]
    same("mangled names", [mangled[2], mangled[3], mangled[4]], ["plain_c", "_Z10overloadedPii", "_Z10overloadedPif"])


@case("entry_points", whole=True)
def entry_points(world):
    """<<<>>>, cudaLaunchKernel, cudaLaunchKernelEx(C) and a cooperative launch trace alike."""
    for level in ("-O0", "-O2"):
        app = world.compile(source(world, "entries.cu"), level)
        result = world.run_ok(app)
        launches = result.trace()
        same("kernels", [launch.kernel for launch in launches], ["bump"] * 4 + ["meet"])
        for launch in launches[:4]:
            same("bump", totals(launch), {("load", 4): 32, ("store", 4): 32})
        meet = launches[4].ctas()
        same("CTAs of meet", sorted(meet), [(c, 0, 0) for c in range(3)])
        for cta, counts in meet.items():
            loads = counts.get(("load", 4), 0)
            holds(f"meet, CTA {cta}: its own accesses are there: {counts}",
                  loads >= 32 and counts[("store", 4)] >= 64)
        same("output", world.run_ok(app, traced=False).out, result.out)


@case("plain_clang")
def plain_clang(world):
    """clang++ -fplugin=libMemtrace-AA.so alone, with the flags that any CUDA build needs, gives the same trace."""
    name = "stencil_1d"
    app = os.path.join(world.folder("build"), "app")
    world.call(["clang++-19", f"-fplugin={world.build}/lib/libMemtrace-AA.so", *world.flags, "-O2",
                f"--cuda-path={world.build}/cuda-overlay", "--cuda-gpu-arch=sm_90", world.example(name), "-o", app,
                f"-L{world.build}/cuda-overlay/lib64", "-lcudart"])
    own = checks.placed(world.run_ok(app, MEMTRACE_CPU_THREADS=1))
    wrapped = checks.placed(world.run_ok(world.compile(world.example(name), "-O2"), MEMTRACE_CPU_THREADS=1))
    holds("same trace as with mt-cc", own == wrapped)


@case("folded_stubs")
def folded_stubs(world):
    """Kernels of one signature: linkers that fold functions of the same code leave their host stubs apart. Without the plugin the stubs
    are folded, and a launch is an error."""
    flags = ["-O2", "-ffunction-sections", "-fuse-ld=lld", "-Wl,--icf=all"]
    for more in ([], ["-flto"]):
        result = world.run_ok(world.compile(source(world, "folded.cu"), *flags, *more))
        same(f"{more}: output", (result.out, result.err), ("1234 0\n", ""))
        same(f"{more}: kernels", [launch.kernel for launch in result.trace()], ["first", "second", "more<3>", "more<4>"])
    app = os.path.join(world.folder("build"), "app")
    world.call(["clang++-19", *flags, f"--cuda-path={world.build}/cuda-overlay", "-Wno-unknown-cuda-version", "--cuda-gpu-arch=sm_90",
                source(world, "folded.cu"), "-o", app, f"-L{world.build}/cuda-overlay/lib64", "-lcudart"])
    result = world.run_ok(app)
    same("output without the plugin", result.out, "0 98\n")
    holds(f"it is said once: {result.err}", len(re.findall(r"one address[^\n]*--icf=all[^\n]*mt-cc\n", result.err)) == result.err.count("\n") == 1)


@case("two_steps", whole=True)
def two_steps(world):
    """Augment first (-plugin cuda-aug … -E), compile the augmented file with the pass, link with the host and device
    utilities: the same trace."""
    library, folder = os.path.join(world.build, "lib", "libMemtrace-AA.so"), world.folder("two-steps")
    common = [f"--cuda-path={world.build}/cuda-overlay", "--cuda-gpu-arch=sm_75", "-O1", "-Wno-unknown-cuda-version"]
    utils = os.path.join(world.source, "runtime", "utils")
    for file, out in (("TraceUtils.cpp", "hutils.o"), ("DeviceUtils.cu", "dutils.o")):
        world.call(["clang++-19", "-c", *common, os.path.join(utils, file), "-o", os.path.join(folder, out)])
    for name in ("vector_add", "stencil_1d", "device_calls") if world.long else ("vector_add", "device_calls"):
        augmented = os.path.join(folder, "augmented-kernel.cu")
        world.call(["clang++-19", "-Xclang", "-load", "-Xclang", library, "-Xclang", "-plugin", "-Xclang", "cuda-aug",
                    "-Xclang", "-plugin-arg-cuda-aug", "-Xclang", "-f", "-Xclang", "-plugin-arg-cuda-aug", "-Xclang",
                    augmented, *common, "-I" + os.path.join(world.examples, name), "-E", world.example(name)])
        holds("the augmented file is there", os.path.getsize(augmented) > 0)
        obj = os.path.join(folder, "kernel.o")
        world.call(["clang++-19", "-c", "-Xclang", "-load", "-Xclang", library, f"-fpass-plugin={library}", *common,
                    "-I" + os.path.join(world.examples, name), augmented, "-o", obj])
        app = os.path.join(folder, "app")
        world.call(["clang++-19", *common, "-o", app, os.path.join(folder, "dutils.o"),
                    os.path.join(folder, "hutils.o"), obj, f"-L{world.build}/cuda-overlay/lib64", "-lcudart"])
        two = checks.placed(world.run_ok(app, MEMTRACE_CPU_THREADS=1))
        one = checks.placed(world.run_ok(world.compile(world.example(name), "-O1"), MEMTRACE_CPU_THREADS=1))
        holds(f"{name}: same trace as the one-flag way", two == one)


@case("textures", whole=True)
def textures(world):
    """The program compares its fetches with a sampler of its own. Fetches have no records, and each is counted."""
    for level in ("-O0", "-O2"):
        app = world.compile(source(world, "textures.cu"), level, *world.fibers())
        result = world.run_ok(app)
        same(f"textures {level}: result", re.sub(r"^[1-9]\d*", "N", re.sub(r"[1-9]\d+ values", "N values", result.out)),
             "N launches, N values, 0 wrong\n")
        launches = result.companion().all("launch")
        same(f"textures {level}: launches", len(launches), int(result.out.split()[0]))
        for launch in launches:
            same(f"textures {level}: untraced in {launch['kernel']}", launch["untraced"], launch["block"][0])
        fetched = sum(launch["block"][0] for launch in launches)
        same(f"textures {level}: mt-extract's count", world.extract([result.path()], "-s", "quick")["untraced"], fetched)


@case("surfaces", whole=True)
def surfaces(world):
    """Surfaces and levels of detail, checked by the program; a launch that leaves its surface fails. Copies of arrays
    are in the companion, with as many bytes as the arrays have."""
    for level in ("-O0", "-O2"):
        app = world.compile(source(world, "surfaces.cu"), level, *world.fibers())
        result = world.run_ok(app)
        words = result.out.split()
        same(f"surfaces {level}: result", words[1:4] + words[5:] if len(words) == 6 else result.out,
             ["accesses,", words[2], "checks,", "wrong"])
        same(f"surfaces {level}: wrong", words[4], "0")
        launches = result.companion().all("launch")
        same(f"surfaces {level}: untraced", sum(e["untraced"] for e in launches), int(words[0]))
        # Each kernel copy: two arrays in, one and the kept elements out; of this size, here those of float4.
        sizes = {}
        for e in result.companion().all("memcpy"):
            sizes[e["kind"], e["bytes"]] = sizes.get((e["kind"], e["bytes"]), 0) + 1
        same(f"surfaces {level}: copies of 9 x 5 elements of 16 bytes", [sizes.get((k, 720)) for k in ("h2d", "d2h")], [2, 2])
        same(f"surfaces {level}: arrays", sorted({e["kind"] for e in result.companion().all("alloc")}), ["array", "cudaMalloc"])
        trapped = world.run_ok([app, "trap"])
        same(f"surfaces {level}: trap", trapped.out, "cudaErrorLaunchFailure\n")
        holds("why", "surface access outside" in trapped.err)
        foreign = world.run_ok([app, "foreign"])
        same(f"surfaces {level}: foreign", foreign.out, "cudaErrorIllegalAddress\n")
        holds("why", "is not a texture object" in foreign.err)
