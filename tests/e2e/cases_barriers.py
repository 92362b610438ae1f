"""What barriers order (mt-shared's hazards): objects and phases, parts of warps. The program is src/barriers.cu."""
import os

import cases_onchip
from cases_onchip import SPACES, WARP, WAYS, shared
from world import case, holds, same

SOURCE = "barriers.cu"
SM = "--cuda-gpu-arch=sm_90"

# Words at which two threads race, as in cases_onchip.py. Kernels without a row have none.
HAZARDS = {
    # two CTAs of 32 words each
    ("other_object", "loaded after the other", "stored for one", "warps"): 64,
    ("next_phase", "loaded in this one", "stored in the next phase", "warps"): 64,
    ("not_over", "loaded all the same", "stored, and not waited for", "warps"): 32,
    # the second store of 64 threads and the first load of what they stored before
    ("in_a_hurry", "overwritten early", "read late", "warps"): 64,
    # lane 0 arrived after its own store only
    ("elected", "loaded after one arrived", "stored by all lanes", "warps"): 31,
    ("waited_by_one", "loaded by those who have not waited", "stored for one lane", "warps"): 31,
    ("gone", "loaded after they left", "stored by half a warp that leaves", "warps"): 16,
    ("half_a_warp", "loaded from the other half", "stored by a warp", "lanes"): 16,
    # warps 0 and 1 read what 2 and 3 stored
    ("pairs", "loaded from the other pair", "stored by pairs", "warps"): 64,
}


def program(world):
    return world.compile(os.path.join(world.src, SOURCE), "-O2", SM, SPACES)


@case("onchip.barriers")
def onchip_barriers(world):
    """Each mbarrier orders what lies before an arrival with what lies after a wait for its phase; a part of a warp orders itself."""
    app = program(world)
    for way in WAYS:
        result = world.run_ok(app, MEMTRACE_FORMAT="compact", **way)
        same("words", result.err, "")
        got = shared(world, result)
        cases_onchip.check_hazards(world, got, SOURCE, HAZARDS)
        same("known barriers", got["loose"], 0)


def objects(world, result):
    """{(kernel, arrives or waits, phase): threads} at mbarriers."""
    out, kernel = {}, None
    for line in world.call([world.tool("mt-dump"), "--runs", result.path() + ".mtc"]).stdout.splitlines():
        kernel = line.split()[2] if line.startswith("launch ") else kernel
        for what in ("barrier", "arrive"):
            if line.startswith(f"{what} 8 x "):
                words = line.split()
                key = (kernel, what, int(words[4], 16) & 7)
                out[key] = out.get(key, 0) + int(words[3])
    return out


@case("onchip.phases")
def onchip_phases(world):
    """The GPU's code (with --standin), or its record functions: threads by phase of mbarriers, as on the CPU device."""
    app = program(world)
    a, b = (objects(world, world.run_ok(app, MEMTRACE_FORMAT="compact", **way)) for way in ({}, WARP))
    same("phases", b, a)
    got = {key: n for key, n in a.items() if key[0] in ("next_phase", "not_over", "in_a_hurry")}
    # two CTAs of 64; nobody's wait is over; 128 in each phase. 2: set up
    same("by hand", got, {("next_phase", "arrive", 0): 128, ("next_phase", "arrive", 1): 128, ("next_phase", "barrier", 0): 128,
                          ("next_phase", "arrive", 2): 2, ("not_over", "arrive", 0): 32, ("not_over", "arrive", 2): 1,
                          ("in_a_hurry", "arrive", 0): 128, ("in_a_hurry", "arrive", 1): 128, ("in_a_hurry", "arrive", 2): 1,
                          ("in_a_hurry", "barrier", 0): 128, ("in_a_hurry", "barrier", 1): 128})
    holds("set up twice", a["set_up_again", "arrive", 2] == 2 and a["set_up_again", "arrive", 0] == 64)
