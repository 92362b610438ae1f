"""NVTX ranges: MEMTRACE_NVTX, and `range` lines of companions. The program is src/nvtx.cu, compiled with the toolkit's own
NVTX header and nothing else: it finds libmemtrace.so by itself."""
import os

from harness import Failed, case, holds, same

INSIDE = {1: [], 2: ["outer"], 3: ["outer", "innér €"], 4: ["outer", "innér €", "known name"], 5: [], 6: ["thread"],
          7: ["outer", "known name"], 8: [], 9: ["started", "known name"], 10: ["known name"], 11: [], 12: ["for ever"]}


def program(world):
    if not os.path.exists(os.path.join(world.build, "cuda-overlay", "include", "nvtx3", "nvToolsExt.h")):
        return None
    return world.compile(os.path.join(world.src, "nvtx.cu"), "-O2")


def launches(result):
    """[(N, left_out)] of all kernels k<N>, in the order of the calls."""
    lines = {}
    for stream in result.streams():
        for e in result.companion(stream).all("launch"):
            lines[e["seq"]] = (int(e["kernel"][2:-1]), e.get("left_out"))
    return [lines[seq] for seq in sorted(lines)]


@case("nvtx.filter")
def nvtx_filter(world):
    app = program(world)
    if not app:
        return
    for text, fits in (("^outer$", lambda n: n == "outer"), ("known", lambda n: n == "known name"), ("innér €|thread", lambda n: n in ("innér €", "thread")),
                       ("started", lambda n: n == "started"), ("e", lambda n: "e" in n)):
        for no in ("", "!"):
            result = world.run_ok([app], MEMTRACE_NVTX=no + text)
            same("levels, a pop without a push, two ids", result.out, "10100 1 1\n")
            same(no + text, launches(result),
                 [(n, None if any(map(fits, names)) != bool(no) else "MEMTRACE_NVTX") for n, names in INSIDE.items()])
    result = world.run_ok([app], MEMTRACE_NVTX="(")
    holds(f"a bad expression is said: {result.err}", "MEMTRACE_NVTX=(: " in result.err)
    same("and all are traced", [why for _, why in launches(result)], [None] * 12)


@case("nvtx.ranges")
def ranges(world):
    """Which launches lie in which range, by the numbers in the companion."""
    app = program(world)
    if not app:
        return
    result = world.run_ok([app])
    companion = result.companion()
    calls = sorted((e["called"], int(e["kernel"][2:-1])) for e in companion.all("launch"))
    same("all traced", sorted(n for _, n in calls), sorted(INSIDE))
    got = [(e["name"], e["domain"], e["kind"], e.get("open", False), [n for called, n in calls if e["begin"] < called <= e["seq"]])
           for e in companion.all("range")]
    # Ranges of one thread, by their ends; launches of other threads lie between the numbers, too.
    same("ranges", got, [("thread", "", "push", False, [6]), ("innér €", "", "push", False, [3, 4, 5, 6]),
                         ("known name", "library", "push", False, [4, 5, 6, 7]), ("outer", "", "push", False, [2, 3, 4, 5, 6, 7]),
                         ("started", "", "start", False, [9]), ("known name", "library", "start", False, [9, 10]),
                         ("for ever", "", "push", True, [12])])
    threads = {e["name"]: e["thread"] for e in companion.all("range")}
    holds("threads", threads["thread"] != threads["outer"] == threads["started"])
    for e in companion.all("range"):
        holds("times", e["begin_ns"] <= e["end_ns"])


@case("nvtx.other_tool")
def other_tool(world):
    """Who has set the variable keeps it; without tracing it is not set at all, for children neither."""
    app = program(world)
    if not app:
        return
    result = world.run_ok([app], NVTX_INJECTION64_PATH="/nowhere/tool.so")
    same("no ranges", result.companion().all("range"), [])
    same("all traced", [why for _, why in launches(result)], [None] * 12)
    source = os.path.join(world.folder("env"), "env.cu")
    with open(source, "w", encoding="ascii") as f:
        f.write('#include <cstdio>\n#include <cstdlib>\nint main() { cudaFree(0); const char *p = getenv("NVTX_INJECTION64_PATH"); '
                'puts(p ? p : "none"); }\n')
    env = world.compile(source)
    same("not traced", world.run_ok([env], traced=False).out, "none\n")
    where = world.run_ok([env]).out.strip()
    if not os.path.samefile(where, os.path.join(world.build, "lib", "libmemtrace.so")):
        raise Failed(f"NVTX would load {where}")


@case("nvtx.old_library")
def old_library(world):
    """Programs of libnvToolsExt call functions by name."""
    source = os.path.join(world.folder("old"), "old.cu")
    with open(source, "w", encoding="ascii") as f:
        f.write('extern "C" int nvtxRangePushA(const char *);\nextern "C" int nvtxRangePop(void);\n'
                "__global__ void k(int *p) { *p = 1; }\n"
                "int main() { int *p; cudaMalloc(&p, 4); k<<<1, 1>>>(p); nvtxRangePushA(\"here\"); k<<<1, 1>>>(p); nvtxRangePop(); "
                "k<<<1, 1>>>(p); return cudaDeviceSynchronize(); }\n")
    result = world.run_ok([world.compile(source)], MEMTRACE_NVTX="here")
    same("launches", [e.get("left_out") for e in sorted(result.companion().all("launch"), key=lambda e: e["seq"])],
         ["MEMTRACE_NVTX", None, "MEMTRACE_NVTX"])


@case("nvtx.elsewhere")
def nvtx_elsewhere(world):
    """A program that a traced one starts finds our name in its environment. NVTX loads us there for nothing: we say no."""
    script = """import ctypes, sys
table = (ctypes.c_void_p * 32)(*([1] * 32))
MODULE = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.POINTER(ctypes.POINTER(ctypes.c_void_p)),
                          ctypes.POINTER(ctypes.c_uint))
slots = (ctypes.c_void_p * 32)(*(ctypes.addressof(table),) * 32)
def module(number, out, size):
    out[0] = ctypes.cast(slots, ctypes.POINTER(ctypes.c_void_p))
    size[0] = 32
    return 1
class Callbacks(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("module", MODULE)]
callbacks = Callbacks(16, MODULE(module))
GET = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_uint32)
get = GET(lambda number: ctypes.addressof(callbacks))
library = ctypes.CDLL(sys.argv[1], mode=int(sys.argv[2]))
print(library.InitializeInjectionNvtx2(get))
"""
    library = os.path.join(world.build, "lib", "libmemtrace.so")
    for mode, answer in ((os.RTLD_LOCAL | os.RTLD_NOW, "0"), (os.RTLD_GLOBAL | os.RTLD_NOW, "1")):
        result = world.run_ok(["python3", "-c", script, library, mode])
        same(f"answer with {mode}", result.out.strip(), answer)
