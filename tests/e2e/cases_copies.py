"""Hazards of asynchronous copies: what is waited for too late, too little or not at all. The program is src/copies.cu."""
import os
import types

import cases_onchip
from cases_onchip import SPACES, STANDIN, WAYS, shared
from harness import Skipped, case, holds, nvcc_of, same

SOURCE = "copies.cu"
SM = "--cuda-gpu-arch=sm_90"
BULK = (("lanes", 31), ("warps", 32))  # of the 64 words of thread 0's copy those of its warp and of the other one
BULK_OWN = (*BULK, ("thread", 1))

# Words at which a copy races, as in cases_onchip.py. Kernels without a row have none. Each of 64 threads has a word.
HAZARDS = {
    ("unwaited", "copied, never waited for", "loaded from the other warp", "warps"): 64,
    ("late", "copied, waited for behind the barrier", "loaded too early", "warps"): 64,
    ("not_committed", "copied, in no group", "loaded all the same", "warps"): 64,
    ("no_barrier", "copied, waited for by one", "loaded by another", "warps"): 64,
    ("own_unwaited", "copied by itself", "loaded by itself", "thread"): 64,
    ("second_group", "copied by the second group", "loaded after the first", "warps"): 64,
    ("by_half", "copied by half a warp", "loaded by half a warp", "warps"): 32,
    ("copied_twice", "and once more", "copied once", "thread"): 64,
    ("stored_before", "copied over its own", "stored while it is copied", "thread"): 64,
    ("reused", "copied while others read", "read", "warps"): 64,
    # in each of six rounds
    ("three_stages_weak", "copied into a stage", "loaded a stage too early", "warps"): 6 * 64,
    ("arrived_without", "copied, and a plain arrival", "loaded after plain arrivals", "warps"): 64,
    ("arrived_before", "copied after the arrival", "loaded after copies of before", "warps"): 64,
    ("object_unwaited", "copied, and no wait for the object", "loaded after another barrier", "warps"): 64,
    **{("bulk_unwaited", "bulk copy", "loaded while it goes on", between): n for between, n in BULK_OWN},
    **{("bulk_other_object", "bulk copy for one object", "loaded after the other", between): n for between, n in BULK_OWN},
    **{("bulk_reused", "bulk copy while others read", "read in both rounds", between): n for between, n in BULK},
    **{("out_and_overwritten", "bulk copy out", "overwritten", between): n for between, n in BULK_OWN},
    **{("out_second_group", "overwritten after the first", "second bulk copy out", between): n for between, n in BULK_OWN},
}


def check(world, result):
    same("prints", result.out, "done\n")
    got = shared(world, result)
    cases_onchip.check_hazards(world, got, SOURCE, HAZARDS)
    same("known barriers", got["loose"], 0)


@case("onchip.copies")
def onchip_copies(world):
    """A copy's word is a hazard until it is waited for, and none after that."""
    for way in WAYS:
        app = world.compile(os.path.join(world.src, SOURCE), "-O2", SM, SPACES, *way)
        check(world, world.run_ok(app, MEMTRACE_FORMAT="compact"))


@case("onchip.copies.nvcc")
def onchip_copies_nvcc(world):
    """The same of nvcc's code."""
    nvcc = nvcc_of()
    if not nvcc:
        raise Skipped("this CUDA toolkit has no nvcc")
    folder = world.folder("nvcc")
    app, out = os.path.join(folder, "app"), os.path.join(folder, "run")
    world.call([nvcc, "-O3", "-std=c++17", "-arch=sm_90", "-lineinfo", os.path.join(world.src, SOURCE), "-o", app])
    done = world.call([world.tool("memtrace"), "run", "-o", out, "--spaces", "global,shared", app],
                      env={**os.environ, "MEMTRACE_DEVICE": "cpu", "MEMTRACE_CACHE": folder})
    path = os.path.join(out, next(f for f in sorted(os.listdir(out)) if f.endswith(".mtc"))).removesuffix(".mtc")
    check(world, types.SimpleNamespace(out=done.stdout, path=lambda: path))


def copies(world, result):
    """{(kernel, what happens): threads} of records of copies; of objects with the phase."""
    out, kernel = {}, None
    for line in world.call([world.tool("mt-dump"), "--runs", result.path() + ".mtc"]).stdout.splitlines():
        kernel = line.split()[2] if line.startswith("launch ") else kernel
        if line.startswith("copy "):
            _, size, _, threads, address, *_ = line.split()
            key = (kernel, int(size), int(address, 16) & 7)
            out[key] = out.get(key, 0) + int(threads)
    return out


@case("onchip.copies.text")
def onchip_copies_text(world):
    """The GPU's code: the same records of copies as on the CPU device."""
    if not world.standin:
        raise Skipped("it runs with --standin")
    app = world.compile(os.path.join(world.src, SOURCE), "-O2", SM, SPACES)
    a, b = (copies(world, world.run_ok(app, MEMTRACE_FORMAT="compact", **way)) for way in ({}, STANDIN))
    same("records", b, a)
    # a copy and a commit for each of two groups of 64 threads, and a wait for all but one; three rounds of one thread's copy
    mine = {key: n for key, n in a.items() if key[0] in ("first_group", "bulk")}
    same("by hand", mine, {("first_group", 1, 0): 128, ("first_group", 2, 0): 128, ("first_group", 4, 4): 64,
                           ("bulk", 8, 0): 2, ("bulk", 8, 1): 1})
    holds("all kinds", {key[1] for key in a} == {1, 2, 4, 8, 16})
