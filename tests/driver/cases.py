"""The driver API: test_driver's kernels against counts by hand; launches in a program that carries its own records."""
import glob
import os

import cuda
import trace
from harness import call, case, expect, same

HERE = os.path.dirname(os.path.realpath(__file__))
World = cuda.World
# kernel: loads and stores of 4 bytes (atomics are both), over all of its launches in test_driver
ADD = 2 * 1000
COUNT = 64 * 64
ACROSS = 1 << 20
IOTA = ACROSS + 5 + 5 + 50
# down: a load, a store and an atomic in each of 7 rounds
TOGETHER = 2 * 8 * 64  # three atomics and a load each



@case("api")
def api(world):
    """The traces of test_driver, and their files and lines; each module as one image, and each kernel with its own."""
    for options in "", "--divide=0":
        run = world.run_ok(os.path.join(world.build, "tests/bin/test_driver"), MEMTRACE_CACHE=os.path.join(world.build, "tests", "cache"),
                           MEMTRACE_PTX_OPTIONS=options)
        for missing in "cuTexObjectGetResourceDesc", "cuImportExternalMemory":
            expect(run.err.count(missing) == 1, "the missing function was not named once:", run.err)
        got, bytes_of = world.extract([run.folder]), {}
        for kernel, launches in got["KDV"].items():
            for v in launches.values():
                load, store = bytes_of.get(kernel, (0, 0))
                bytes_of[kernel] = load + v["Load"], store + v["Store"]
        same("bytes", bytes_of, {"add": (8 * ADD, 4 * ADD), "count": (4 * COUNT, 4 * COUNT), "iota": (0, 4 * IOTA), "k": (4, 4), "seldom": (4, 4),
                                 "pairs": (32, 24), "down": (7 * 8, 7 * 8), "together": (16 * TOGETHER, 12 * TOGETHER)})
        expect(got["complete"], got["notes"])
        text = "".join(open(f, encoding="utf-8").read() for f in glob.glob(run.folder + "/*.meta"))
        for kind in ('"ev":"memcpy"', '"ev":"memset"', '"ev":"alloc"'):
            expect(kind in text, "no companion has a line with", kind)


def build(world, name):
    """NAME.c of this folder, linked with the runtime."""
    app = world.path("app")
    call(["cc", os.path.join(HERE, name), "-I", f"{world.build}/cuda-overlay/include", f"-L{world.build}/lib", "-l:libmemtrace.so",
          f"-Wl,-rpath,{world.build}/lib", "-o", app])
    return app, os.path.join(HERE, "kernels.ptx")


@case("devices")
def devices(world):
    """MEMTRACE_CPU_DEVICES=3: contexts, what belongs to them, and peers."""
    for options in "", "--mt-vectors=off":
        result = world.run_ok(build(world, "devices.c"), MEMTRACE_CPU_DEVICES="3", MEMTRACE_PTX_OPTIONS=options,
                              MEMTRACE_CACHE=os.path.join(world.build, "tests", "cache"))
        same(f"output {options}", result.out, "0 wrong\n")
        expect("which GPU 0 does not reach" in result.err, "the bad store is not said:", result.err)


@case("unknown")
def unknown(world):
    """On the stand-in for a GPU (tests/gpu/standin) each launch runs, is a line without a trace, and makes the traces incomplete, however
    the program came to the function that launches; so do graphs of the driver API and its copies. The GPU's threads have more stack than
    the program asked for, which does not see it."""
    app, kernels = build(world, "unknown.c")
    there = {"MEMTRACE_CACHE": os.path.join(world.build, "tests", "cache"), **cuda.Standin(world.build).variables}
    same("stack of threads", world.run_ok([app, kernels, "stack"], **there).out, "1024 2000 4256 1024\n")
    for words in [], ["graph"]:
        result = world.run_ok([app, kernels, *words], **there)
        same("output", result.out, "1 999\n")
        companion = trace.Companion(result.path(0) + ".meta")
        same("launches", [(e["kernel"], e["traced"], e["grid"], e["block"]) for e in companion.all("launch")],
             [("iota", False, [8, 1, 1], [128, 1, 1])] * 3)
        same("complete", companion.end()["complete"], False)
