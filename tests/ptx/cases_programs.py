"""Programs of nvcc under memtrace run beside those of mt-cc: they print the same, and make the same accesses."""
import glob
import os
from collections import Counter

import trace
from cases_conformance import build_program
from cuda import World
from harness import SOURCE, Skipped, case, nvcc_of, same, tool

HERE = os.path.dirname(os.path.realpath(__file__))


def ran(world, program):
    result, found = world.run_ok(program), Counter()
    for path in sorted(glob.glob(os.path.join(result.folder, "MemTrace-pipe-*[0-9]"))):
        same(f"{path} is complete", trace.Companion(path + ".meta").end()["complete"], True)
        for launch in trace.read(path):
            for sizes in launch.ctas().values():
                for (kind, size), n in sizes.items():
                    found[launch.kernel, kind, size] += n
    return result.out, found


@case("programs", long=True)
def programs(world):
    if not nvcc_of():
        raise Skipped("this CUDA toolkit has no nvcc")
    world = World(world.work)
    for source in sorted(glob.glob(os.path.join(SOURCE, "examples", "*", "*.cu"))):
        ours, theirs = world.path("ours"), world.path("theirs")
        world.call([tool("mt-cc"), "-O2", "--mt-gpu-trace=off", source, "-o", ours])
        build_program(source, ["-I" + os.path.join(SOURCE, "include")], theirs)
        (said, counts), (also, others) = ran(world, ours), ran(world, theirs)
        same(f"{source}: prints", also, said)
        same(f"{source}: accesses", others, counts)
        same(f"{source}: has accesses", bool(counts), True)
    app = world.path("managed")  # clang does not take it: what it prints and its accesses, by hand
    build_program(os.path.join(HERE, "managed.cu"), [], app)
    same("managed", ran(world, app), ("11 2 3 4\n200 7 21\n", {("mirror", kind, 4): 66 for kind in ("load", "store")}))
