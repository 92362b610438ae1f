"""What the pass has to know of unusual code: warps in step, functions that ask for active lanes."""
import os
import re
import resource

import headers
import trace
from cases_bits import COUNTED
from cases_programs import totals
from harness import case, holds, same


def source(world, name):
    return os.path.join(world.src, name + ".cu")


@case("headers", whole=True)
def headers_parsed_once(world):
    """Most tests take CUDA's headers from a file that clang made of them: what comes out is the same as without."""
    folder, mt_cc = world.folder("headers"), world.tool("mt-cc")
    programs = (source(world, "kinds"), "-O0"), (source(world, "grid_barriers"), "-O0"), (world.example("matrix_multiply"), "-O2")
    for path, level in programs if world.long else programs[:2]:
        for half, flags in (("device", ["-S", "--cuda-device-only"]), ("host", ["-c", "--mt-gpu-trace=off"])):
            words = headers.words(mt_cc, [level, *flags], path)
            holds(f"{half}: a file for each half that is compiled", len(words) == (2 if half == "device" else 4))
            made = []
            for more in ([], words):
                out = os.path.join(folder, "out")
                world.call([mt_cc, level, *flags, *more, path, "-o", out])
                with open(out, "rb") as f:  # the host half's names of variables have no fixed order
                    made.append(f.read() if half == "device" else sorted(world.call(["nm", "-S", out]).stdout.split()))
            holds(f"{path} {level}, {half}: the same", made[0] and made[0] == made[1])
    same("words that may change what headers say", [headers.words(mt_cc, [word]) for word in (
        "-g", "-DNDEBUG", "-D__CUDA_NO_HALF_OPERATORS__", "-fno-gpu-rdc", "-MD")], [[]] * 5)


@case("warp_synchronous", whole=True)
def warp_synchronous(world):
    """Lanes that exchange data with no barrier between: a warp runs in step."""
    for level in world.levels():
        app = world.compile(source(world, "warp_synchronous"), level, "--mt-vectors=on")
        for threads in (1, 2):
            same(f"{level}, {threads} threads", world.run_ok(app, MEMTRACE_CPU_THREADS=threads).out, "warp_synchronous: 9 of 9\n")


@case("warps_alike")
def warps_alike(world):
    """Warps that overwrite what others read before a warp function: right, as no warp runs ahead."""
    app, fibers = (world.compile(source(world, "warps_alike"), "-O2", *way) for way in ((), ("--mt-vectors=off",)))
    for traced in (True, False):
        for way in (app, fibers):
            out = world.run_ok(way, traced=traced, MEMTRACE_CPU_THREADS=1).out
            same(f"rows, traced: {traced}, {way}", out, "20480 of 20480\n")


@case("large_frame", whole=True)
def large_frame(world):
    """A frame larger than a device thread's stack ends the launch with words, and works with a larger stack."""
    for level in ("-O0", "-O2"):
        app = world.compile(source(world, "large_frame"), level)
        for how in ([], ["waits"]):
            small = world.run([app, *how], MEMTRACE_CPU_THREADS=1)
            same(f"{level}: {how}: output", small.out, "cudaErrorIllegalAddress, 0 wrong\n")
            holds(f"{level}: {how}: words: {small.err!r}", "stack overflow of a device thread" in small.err)
            large = world.run_ok([app, *how], MEMTRACE_CPU_STACK="4M")
            same(f"{level}: {how}: with a larger stack", large.out, "cudaSuccess, 0 wrong\n")


ASSEMBLY = [
    ("computed", {("load", 4): 20, ("store", 4): 32}, 0),
    ("loop", {("store", 8): 32 * 33 // 2}, 0),
    ("copy", {("load", 16): 4, ("store", 4): 32}, 0),
    ("halves", {("atomic", 2): 32}, 0),
    ("chase", {("load", 8): 32, ("load", 4): 32, ("store", 4): 32}, 0),
    ("bulk", {("load", 64): 1, ("store", 4): 32}, 0),
]


def by_kind(launch):
    """Accesses and bytes of loads, stores, atomics."""
    out = [0] * 6
    for (kind, size), n in totals(launch).items():
        at = 2 * ("load", "store", "atomic").index(kind)
        out[at] += n
        out[at + 1] += n * size
    return out


@case("variables", whole=True)
def variables(world):
    """The variable of each site is the one that the source names there, at every level, or none; never another."""
    with open(source(world, "variables"), encoding="utf-8") as f:
        said = {n: re.search(r"// (is|may be): (.*)", text) for n, text in enumerate(f, 1)}
    want = {n: m.group(2).split() for n, m in said.items() if m}
    for level in world.levels():
        app = world.compile(source(world, "variables"), level)
        result = world.run_ok(app, MEMTRACE_FORMAT="compact")
        same(f"{level}: output", result.out, "0\n")
        got = {}
        for site in trace.Companion(result.path() + ".mtc.meta").all("site"):
            if site["file"].endswith("variables.cu"):
                got.setdefault(site["line"], set()).add(site.get("var") or "-")
        wrong = {n: names for n, names in got.items() if n in want and not names <= set(want[n])}
        same(f"{level}: lines with other names", wrong, {})
        same(f"{level}: lines without an access", sorted(n for n in want if n not in got), [])
        symbols = {a["name"] for a in trace.Companion(result.path() + ".mtc.meta").all("alloc") if a["kind"] == "symbol"}
        holds(f"{level}: names of symbols: {symbols}", "vtable for Scaled" in symbols and not any(s.startswith("_Z") for s in symbols))


@case("assembly", whole=True)
def assembly(world):
    """Addresses, predicates and loops inside inline asm, addresses that it loads itself: each access has its record."""
    for level in ("-O0", "-O2"):
        app = world.compile(source(world, "assembly"), level, "--mt-count=on")
        result = world.run_ok(app)
        same(f"{level}: output", result.out, "assembly: 1153 of 1153\n")
        launches, said = result.trace(), result.companion().all("launch")
        same(f"{level}: kernels", [launch.kernel for launch in launches], [name for name, _, _ in ASSEMBLY])
        for launch, line, (name, want, untraced) in zip(launches, said, ASSEMBLY):
            same(f"{level}: {name}", totals(launch), want)
            same(f"{level}: {name}: untraced", line["untraced"], untraced)
            same(f"{level}: {name}: second count", line["counted"], by_kind(launch))
        holds(f"{level}: complete", result.companion().end()["complete"])


@case("counts")
def counts(world):
    """The second count agrees with the records in every example, instead of them too; memtrace dump shows and compares."""
    names = [n for n in sorted(os.listdir(world.examples)) if os.path.exists(world.example(n))]
    holds("there are examples", len(names) >= 8)
    for name in names:
        result = world.run_ok(world.compile(world.example(name), "-O2", *COUNTED))
        for stream in result.streams():
            said = [e for e in result.companion(stream).all("launch") if e["traced"]]
            same(f"{name}: second count", [e["counted"] for e in said], [by_kind(l) for l in result.trace(stream)])
            holds(f"{name}: complete", result.companion(stream).end()["complete"])
        if name == "vector_add":
            alone = world.run_ok(world.compile(world.example(name), "-O2", "--mt-count=only"))
            same("without records: records", [launch.count for launch in alone.trace()], [0] * len(said))
            same("without records: counts", [e["counted"] for e in alone.companion().all("launch")],
                 [e["counted"] for e in said])
            same("without records: output", alone.out, result.out)
            show_counts(world, result, said)


@case("counts.overwritten")
def counts_overwritten(world):
    """Loads whose value nobody uses: at -O0 the GPU's code has them (clang -S), and both counts have."""
    for level, loads in (("-O0", 64), ("-O2", 32)):
        for count in "on", "only":
            result = world.run_ok(world.compile(source(world, "overwritten"), level, "--mt-count=" + count))
            said = [e["counted"] for e in result.companion().all("launch")]
            same(f"{level} {count}: counted", (said, result.err), ([[loads, 4 * loads, 32, 128, 0, 0]], ""))
            if count == "on":
                same(f"{level}: recorded", [by_kind(launch) for launch in result.trace()], said)
                holds(f"{level}: complete", result.companion().end()["complete"])


def show_counts(world, result, said):
    """memtrace dump --counts; then with a count that is one off, as the companion has it."""
    shown = world.call([world.tool("mt-dump"), "--counts", result.path()]).stdout.splitlines()
    want = []
    for i, e in enumerate(said):
        c = e["counted"]
        sums = f"{i} loads {c[0]} {c[1]} stores {c[2]} {c[3]} atomics {c[4]} {c[5]} {e['kernel']}"
        want += [f"recorded {sums}", f"counted  {sums}"]
    same("mt-dump --counts", shown, want)
    meta = result.path() + ".meta"
    with open(meta) as f:
        text = f.read()
    c = said[0]["counted"]
    with open(meta, "w") as f:
        f.write(text.replace(f'"counted":[{c[0]},', f'"counted":[{c[0] + 1},'))
    world.call([world.tool("mt-dump"), "--counts", result.path()], code=1)


@case("many_sites", whole=True)
def many_sites(world):
    """The processor time to compile a file grows as the number of its accesses does, not faster: 16,000 of them, or 6,000."""
    made = os.path.join(world.folder("many"), "many.cu")
    with open(made, "w", encoding="utf-8") as f:
        for kernel in range(80 if world.long else 30):
            lines = "".join(f"    p[threadIdx.x + {(32 + kernel) * i}] += 1;\n" for i in range(100))
            f.write(f"__global__ void k{kernel}(float *p)\n{{\n{lines}}}\n")

    def seconds(*flags):
        before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
        world.call([world.tool("mt-cc"), "-O2", "-S", "--cuda-device-only", *flags, made, "-o", made + ".ptx"])
        return resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before

    for mode in ((), ("-fgpu-rdc",)):
        plain, traced = seconds("--plain", *mode), seconds("--mt-cpu-image=off", "--mt-gpu-trace=on", *mode)
        holds(f"{mode} {traced:.1f} s for two versions of each kernel, {plain:.1f} s without the plugin", traced < 4 * plain)
