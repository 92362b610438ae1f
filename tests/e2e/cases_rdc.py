"""Device code in several files (-fgpu-rdc), linked in every way there is: tests/e2e/src/rdc."""
import json
import os
import subprocess
from collections import Counter

import compact
from checks import totals
from cuda import Standin
from harness import case, holds, nvcc_of, same

N = 64
OUTPUT = f"seven 7 sum {3 * N} early {5 * (N - 1)} float 1.5\n"
STORES = {("store", 4): N}
# Kernels in launch order, each with its accesses: counted in the source by hand. Functions of the other file count for
# the kernel that calls them; shared and constant memory is not global.
WANTED = [
    ("scaled", STORES),                                               # from a constructor
    ("functions", {("load", 4): 2 * N, ("store", 4): N}),             # in[i] and offset
    ("make_shapes", None),                                            # new: what it stores is the compiler's affair
    ("virtuals", {("load", 8): 3 * N, ("store", 4): N}),              # pointer, object's table, its entry
    ("pointers", STORES),
    ("shared", STORES),
    ("atomics", {("atomic", 4): 2 * N}),
    ("variables", {("load", 4): N, ("store", 4): N + 1}),
    ("scaled", STORES),
    ("fill<float>", STORES),
    ("scaled", STORES),                                               # launched by the other file
    ("fill<float>", STORES),
]


def sources(world):
    return [os.path.join(world.src, "rdc", name) for name in ("main.cu", "parts.cu")]


def check(world, what, app):
    result = world.run_ok(app)
    same(f"{what}: output", (result.out, result.err), (OUTPUT, ""))
    launches = result.trace()
    same(f"{what}: kernels", [launch.kernel for launch in launches], [name for name, _ in WANTED])
    for launch, (name, counts) in zip(launches, WANTED):
        if counts is not None:
            same(f"{what}: accesses of {name}", totals(launch), counts)
    meta = result.companion()
    holds(f"{what}: the trace is complete", meta.end()["complete"])
    same(f"{what}: files of the sites", {os.path.basename(s["file"]) for s in meta.all("site")}, {"main.cu", "parts.cu", "parts.h"})
    symbols = [a["name"] for a in meta.all("alloc") if a["kind"] == "symbol"]
    for name in ("offset", "total", "common"):
        same(f"{what}: how often {name} is listed", symbols.count(name), 1)


@case("rdc.levels", whole=True)
def levels(world):
    """One command, at several levels, with debug information, for three architectures."""
    kinds = ["-O0", "-g"], ["-O3", "--offload-arch=sm_80", "--offload-arch=sm_90"], ["-O2", "-arch=sm_75"]
    for flags in kinds if world.long else kinds[:2]:
        app = world.compile(sources(world), "-rdc=true", *flags)
        check(world, " ".join(flags), app)


@case("rdc.links")
def links(world):
    """Objects, archives, -dlink with another linker, clang alone without a device link: the same program."""
    folder = world.folder("objects")
    main, parts = (os.path.join(folder, name) for name in ("main.o", "parts.o"))
    for source, made in zip(sources(world), (main, parts)):
        world.call([world.tool("mt-cc"), *world.flags, "-O2", "--mt-gpu-trace=on", "-dc", source, "-o", made])
    check(world, "objects", world.compile([main, parts]))
    check(world, "objects, the other way round", world.compile([parts, main]))

    archive = os.path.join(folder, "libparts.a")
    world.call(["ar", "rcs", archive, parts])
    check(world, "archive", world.compile([main, archive]))
    check(world, "archive by -l", world.compile([main], "-L", folder, "-lparts"))

    linked = os.path.join(folder, "linked.o")
    world.call([world.tool("mt-cc"), "-dlink", main, parts, "-o", linked])
    runtime = ["-L" + os.path.join(world.build, "cuda-overlay", "lib64"), "-lcudart", "-lstdc++"]
    app = os.path.join(folder, "dlink")
    world.call(["gcc", main, parts, linked, *runtime, "-o", app])
    check(world, "-dlink and gcc", app)
    check(world, "-dlink and mt-cc", world.compile([main, parts, linked]))
    whole = os.path.join(folder, "libwhole.a")
    world.call(["ar", "rcs", whole, parts, linked])
    world.call(["gcc", main, whole, *runtime, "-o", app])
    check(world, "archive with its device link", app)

    world.call(["clang++-19", main, parts, *runtime, "-o", app])
    check(world, "no device link", app)


def line_of(world, name, text):
    """The one line of a source that has this text."""
    with open(os.path.join(world.src, "rdc", name)) as f:
        found = [number for number, line in enumerate(f, 1) if text in line]
    same(f"lines of {name} with {text}", len(found), 1)
    return name, found[0]


@case("rdc.sites")
def sites(world):
    """Each access has the site of the line that makes it, in whichever file, on both ways from the CPU device."""
    app = world.compile(sources(world), "-rdc=true", "-O2")
    main, parts = (lambda text: line_of(world, "main.cu", text)), (lambda text: line_of(world, "parts.cu", text))
    sum_line, scaled_line = main("add(in, i) + offset"), parts("factor * threadIdx.x")
    virtual, fill_line = main("area(i) + weights"), line_of(world, "parts.h", "out[threadIdx.x] = value")
    wanted = {"scaled": {scaled_line: N}, "functions": {parts("2 * p[i]"): N, sum_line: 2 * N}, "virtuals": {virtual: 4 * N},
              "atomics": {main("atomicAdd(&total, 1)"): N, parts("atomicAdd(&total, 2)"): N},
              "variables": {main("common = 9"): 1, parts("return common"): N, main("= read_common()"): N},
              "pointers": {main("pick(i & 1)(i)"): N}, "fill<float>": {fill_line: N}}
    for more in ({},):
        result = world.run_ok(app, MEMTRACE_FORMAT="compact", **more)
        launches, events = compact.read(result.path() + ".mtc")
        places = {e["id"]: (os.path.basename(e["file"]), e["line"]) for e in events.all("site")}
        same(f"{more}: kernels", {launch.kernel for launch in launches} - {"make_shapes", "shared"}, set(wanted))
        for launch in launches:
            if launch.kernel in wanted:
                got = Counter(places.get(site) for _, _, site, *_ in launch.accesses())
                same(f"{more}: accesses of {launch.kernel}", dict(got), wanted[launch.kernel])


@case("rdc.shared_library")
def shared_library(world):
    """A library and a program, each with device code of several files and the same names in it."""
    folder = world.folder("objects")
    text = {
        "one.cu": "__device__ int f(int); __device__ int v = 1;\n"
                  "static __global__ void k(int *p) { p[threadIdx.x] = f(threadIdx.x) + v; }\n"
                  "#ifdef LIB\nextern \"C\" int lib() {\n#else\n#include <cstdio>\nextern \"C\" int lib(); int main() {\n#endif\n"
                  "int *p; cudaMallocManaged(&p, 128); k<<<1, 32>>>(p); cudaDeviceSynchronize(); int r = p[3];\n"
                  "#ifndef LIB\nprintf(\"%d %d\\n\", r, lib());\nreturn 0;\n#endif\nreturn r; }\n",
        "two.cu": "extern __device__ int v; __device__ int f(int i) { return FACTOR * i + v; }\n",
    }
    for name, what in text.items():
        with open(os.path.join(folder, name), "w") as f:
            f.write(what)
    files = [os.path.join(folder, name) for name in text]
    library = os.path.join(folder, "libdevice.so")
    for hidden in ([], ["-fvisibility=hidden"]):
        world.compile(files, "-O2", "-rdc=true", "-DLIB", "-DFACTOR=10", "-fPIC", "-shared", out=library)
        app = world.compile(files + [library], "-O2", "-rdc=true", "-DFACTOR=1", *hidden)
        result = world.run_ok(app, LD_LIBRARY_PATH=folder)
        same("output", (result.out, result.err), ("5 32\n", ""))
        same("records", [totals(launch) for launch in result.trace()], [{("load", 4): 64, ("store", 4): 32}] * 2)


@case("rdc.mixed")
def mixed(world):
    """Objects with and without relocatable device code in one program; a name that both have stays apart."""
    folder = world.folder("objects")
    text = {
        "main.cu": "#include <cstdio>\n__device__ int f(int); void whole(int *); void other(int *);\n"
                   "__global__ void k(int *p) { p[threadIdx.x] = f(threadIdx.x); }\n"
                   "int main() { int *p; cudaMallocManaged(&p, 128); k<<<1, 32>>>(p); cudaDeviceSynchronize();\n"
                   "printf(\"%d\", p[7]); whole(p); printf(\" %d\", p[7]); other(p); printf(\" %d\\n\", p[7]); }\n",
        "rdc.cu": "__device__ int f(int i) { return 2 * i; }\n",
        "whole.cu": "__device__ int f(int i) { return 3 * i; }\n__global__ void k3(int *p) { p[threadIdx.x] += f(threadIdx.x); }\n"
                    "void whole(int *p) { k3<<<1, 32>>>(p); cudaDeviceSynchronize(); }\n",
        "host.cpp": "#include <cuda_runtime.h>\nvoid other(int *p) { cudaMemset(p, 0, 128); cudaDeviceSynchronize(); }\n",
    }
    for name, what in text.items():
        with open(os.path.join(folder, name), "w") as f:
            f.write(what)
    objects = []
    for name in text:
        objects.append(os.path.join(folder, name + ".o"))
        rdc = ["-rdc=true"] if name in ("main.cu", "rdc.cu") else []
        world.call([world.tool("mt-cc"), "-O2", *rdc, "-c", os.path.join(folder, name), "-o", objects[-1]])
    for what, inputs in (("objects", objects), ("a source and objects", [os.path.join(folder, "host.cpp"), *objects[:3]])):
        result = world.run_ok(world.compile(inputs))
        same(f"{what}: output", (result.out, result.err), ("14 35 0\n", ""))
        same(f"{what}: records", [totals(launch) for launch in result.trace()],
             [STORES_32, {("load", 4): 32, ("store", 4): 32}])


STORES_32 = {("store", 4): 32}
# What same_one.cu and same_two.cu launch, by its name in the source and how often; accesses by hand.
ONE_WORD = {("load", 4): 2, ("store", 4): 2}
SAME = [("each<one(int*)::'lambda'(int)>", {("load", 4): 4, ("store", 4): 4}), ("(anonymous namespace)::own", ONE_WORD), ("hid", ONE_WORD),
        ("hid", ONE_WORD), ("hid#2", ONE_WORD), ("(anonymous namespace)::own#2", ONE_WORD),
        ("each<main::'lambda'(int)>", {("load", 4): 4, ("store", 4): 4}), ("hid#2", ONE_WORD)]


@case("rdc.names")
def names(world):
    """Static kernels and variables have the source's names, those of two files are two, and runs of two builds are comparable."""
    folder, runs = world.folder("objects"), []
    files = [os.path.join(world.src, "rdc", name) for name in ("same_one.cu", "same_two.cu")]
    archive = os.path.join(folder, "libone.a")
    world.call([world.tool("mt-cc"), "-O1", "-dc", "-DOTHER", files[0], "-o", os.path.join(folder, "one.o")])
    world.call(["ar", "rcs", archive, os.path.join(folder, "one.o")])
    for what, inputs in (("rdc", [*files, "-O2", "-rdc=true"]), ("archive", [files[1], archive, "-O1", "-DOTHER", "-rdc=true"]),
                         ("no rdc", [*files, "-O1"])):
        app = world.compile(inputs, "--mt-gpu-trace=off")
        result = world.run_ok(app)
        same(f"{what}: output", (result.out, result.err), ("1001 2025 6 9\n", ""))
        same(f"{what}: kernels", [(launch.kernel, totals(launch)) for launch in result.trace()], SAME)
        meta = result.companion()
        symbols = sorted(a["name"] for a in meta.all("alloc") if a["kind"] == "symbol")
        same(f"{what}: variables", symbols, ["(anonymous namespace)::counter"] * 2 + ["step"] * 2)
        same(f"{what}: variables of sites", {s["var"] for s in meta.all("site")}, {"p", "step", "(anonymous namespace)::counter"})
        runs.append(result.folder)
        hidden = world.run_ok(app, MEMTRACE_KERNELS="^hid$", MEMTRACE_SAMPLE="launch:2")
        same(f"{what}: selected by the source's name", [launch.kernel for launch in hidden.trace()], ["hid", "hid#2"])
    for other in runs[1:]:
        compared = world.call([world.tool("mt-compare"), "--volumes", "--format=json", runs[0], other])
        kernels = [(k["a"], k["b"]) for k in json.loads(compared.stdout)["kernels"]]
        same("kernels side by side", sorted(kernels), sorted({(name, name) for name, _ in SAME}))


@case("rdc.undefined")
def undefined(world):
    """What no file defines: nvlink says so; without a device link, the program does."""
    folder = world.folder("objects")
    source = os.path.join(folder, "main.cu")
    with open(source, "w") as f:
        f.write("#include <cstdio>\n__device__ int nowhere(int);\n__global__ void k(int *p) { *p = nowhere(3); }\n"
                "int main() { int *p; cudaMallocManaged(&p, 4); k<<<1, 1>>>(p); cudaError_t e = cudaGetLastError();\n"
                "printf(\"%s\\n\", e ? \"failed\" : \"ran\"); }\n")
    done = world.compile(source, "-rdc=true", code=255)
    holds("nvlink names the function", "nowhere" in done.stderr)
    app = os.path.join(folder, "app")
    world.call([world.tool("mt-cc"), "-dc", source, "-o", os.path.join(folder, "main.o")])
    subprocess.run(["clang++-19", os.path.join(folder, "main.o"), "-o", app, "-lcudart",
                    "-L" + os.path.join(world.build, "cuda-overlay", "lib64")], check=True)
    result = world.run(app)
    holds(f"the runtime names the function: {result.err}", "nowhere" in result.err)
    same("output", result.out, "failed\n")


def run_managed(world, what, command, symbols):
    result = world.run_ok(command)
    # First: mine[1] = 20 + 110, theirs[1] = 8 + 8. Then: mine[0] = 1 + 110 + 11, theirs[0] = 1000 + 1000 …
    early, kind, place = result.out.splitlines()
    same(f"{what}: output", (early, kind, result.err), ("cudaSuccess first 146 mine 122 141 121 theirs 2000 32 same 1 hidden 56", "type 3", ""))
    launches = result.trace()
    # mine and hidden; theirs is read in each file and stored: of one variable, so the second load may be left out
    counts = {("load", 4): (3 * N, 4 * N), ("store", 4): (2 * N, 2 * N)}
    for launch in launches[:2]:
        for key, (low, high) in counts.items():
            holds(f"{what}: {key} of {launch.kernel}: {totals(launch)}", low <= totals(launch)[key] <= high)
    same(f"{what}: the last launch", totals(launches[2]), {("load", 4): 1, ("store", 4): 1})
    meta = result.companion()
    holds(f"{what}: the trace is complete", meta.end()["complete"])
    listed = [a for a in meta.all("alloc") if a["kind"] == "symbol"]
    found = {a["name"]: (int(a["base"], 16), a["bytes"]) for a in listed}
    for name, at in zip(("mine", "theirs"), place.split()):
        same(f"{what}: {name} in the companion", found.get(name), (int(at, 16), 4 * N))
        stored = {a for launch in launches[:2] for _, kind, _, a, _ in launch.records() if kind == "store"}
        holds(f"{what}: stores to {name}", stored >= set(range(int(at, 16), int(at, 16) + 4 * N, 4)))
    same(f"{what}: places of variables", len({a["base"] for a in listed}), symbols)


@case("rdc.managed", whole=True)
def managed(world):
    """__managed__ variables of several files: one for all, on both sides, before main, too; static ones apart. nvcc's program the same."""
    files = [os.path.join(world.src, "managed", name) for name in ("main.cu", "parts.cu")]
    for flags in (["-O0"], ["-O2"]):
        run_managed(world, flags, world.compile(files, "-rdc=true", "-DEARLY", *flags), 4)
    nvcc = nvcc_of()
    if nvcc:
        app = os.path.join(world.folder("nvcc"), "app")
        world.call([nvcc, "-rdc=true", "-arch=sm_90", "-lineinfo", *files, "-o", app])
        run_managed(world, "nvcc", [world.tool("mt-run"), "-f", "raw", app], 4)


@case("rdc.managed_refused")
def managed_refused(world):
    """No wrong result where clang's __managed__ variables cannot work: on a GPU, without the plugin, in other variables' first values."""
    source = os.path.join(world.folder("source"), "main.cu")
    with open(source, "w") as f:
        f.write("#include <cstdio>\n__managed__ int n = 3;\n#ifdef REFER\n__device__ int *p = &n;\n#endif\n"
                "__global__ void k() { n = 5; }\nint main() { n = 1; k<<<1, 1>>>(); cudaError_t e = cudaDeviceSynchronize();\n"
                "if (!e) e = cudaGetLastError();\nprintf(\"%s %d\\n\", e ? \"failed\" : \"ran\", n); }\n")
    app = world.compile(source, "-O2")
    same("output", world.run_ok(app).out, "ran 5\n")
    standin = Standin(world.build)
    standin.images(app)
    result = world.run(app, **standin.variables)
    holds(f"on a GPU: {result.out}{result.err}", result.out.startswith("failed") and "compile the program with nvcc" in result.err.lower())
    for flags in (["--plain"], ["--mt-cpu-image=off"]):
        done = world.compile(source, *flags, code=1)
        holds(f"{flags}: {done.stderr}", "nvcc" in done.stderr)
    holds("in a first value", "not a constant" in world.compile(source, "-DREFER", code=1).stderr)
