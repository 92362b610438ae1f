"""What barriers order (hazards of the section shared): objects and phases, parts of warps, and programs by chance. The program is src/barriers.cu."""
import os
import random

import cases_onchip
from cases_onchip import SPACES, STANDIN, WAYS, shared
from harness import case, holds, same

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
    # in the second launch alone
    ("tile_of_two", "loaded before it met", "stored by the tile", "warps"): 256,
    ("counted_by_two", "counted by warp 0", "loaded after warp 1", "warps"): 1,
    ("stored_by_two", "loaded after lane 1", "stored by two lanes", "lanes"): 1,
}


def program(world, *flags):
    return world.compile(os.path.join(world.src, SOURCE), "-O2", SM, SPACES, *flags)


@case("onchip.barriers")
def onchip_barriers(world):
    """Each mbarrier orders what lies before an arrival with what lies after a wait for its phase; a part of a warp orders itself."""
    for way in WAYS:
        result = world.run_ok(program(world, *way), MEMTRACE_FORMAT="compact")
        same("words", result.err, "")
        got = shared(world, result)
        # Of fibers it is not known that two lanes stored together: the second one hides the first.
        cases_onchip.check_hazards(world, got, SOURCE, {k: n for k, n in HAZARDS.items() if not way or k[0] != "stored_by_two"})
        same("known barriers", shared(world, result, "--kernels=^[^t]|^tw")["loose"], 0)
        holds("of tiles it is not known which met", got["loose"] > 0)


# ---- programs by chance, against vector clocks of threads that forget nothing

NOTHING, LOAD, STORE, ATOMIC, LOAD_BYTE, STORE_BYTE, SYNCTHREADS, SYNCWARP, SYNC, ARRIVE, COPY, COMMIT, WAIT, WAIT_ALL = range(14)
LAUNCHES = 150


def chance_step(rng, threads, actors, copies):
    """[(operation, argument)] by thread. Few threads do something, so that they often meet."""
    step, kind = [(NOTHING, 0)] * threads, rng.random()
    some = [t for t in actors if rng.random() < 0.6] or actors
    if kind < 0.03:
        return [(SYNCTHREADS, 0)] * threads
    if kind < 0.3:
        for warp in {t // 32 for t in some}:
            mask = sum(1 << t % 32 for t in some if t // 32 == warp)
            for lane in range(32):
                if mask >> lane & 1:
                    step[warp * 32 + lane] = (SYNCWARP, mask - (mask >> 31 << 32))
    elif kind < 0.5:
        warps, first = sorted({t // 32 for t in some}), rng.choice([SYNC, ARRIVE])
        for warp in warps:
            what = first if warp == warps[0] and len(warps) > 1 else SYNC
            step[warp * 32:warp * 32 + 32] = [(what, 32 * len(warps))] * 32
    else:  # of one kind: an instruction of each warp
        what = rng.choice([LOAD, LOAD, STORE, ATOMIC, ATOMIC, ATOMIC, LOAD_BYTE, STORE_BYTE] if not copies else
                          [LOAD, STORE, COPY, COPY, COMMIT, COMMIT, WAIT, WAIT, WAIT_ALL])
        for t in some:
            step[t] = (what, rng.choice([0, 0, 1]))
    return step


def chance_meet(clocks, come, wait):
    """What those who come did is before what those who wait do now."""
    new = [max(of) for of in zip(*(clocks[t] for t in come))]
    for t in wait:
        clocks[t] = [max(of) for of in zip(clocks[t], new)]
    for t in come:
        clocks[t][t] += 1


def chance_copy(clock, done, groups, what, x):
    """Of a thread: `groups` has how many copies there were when each was closed, and at last how many there are."""
    if what == COPY:
        groups[-1] += 1
    if what in (COMMIT, WAIT_ALL):
        groups.append(groups[-1])
    left = {WAIT: x, WAIT_ALL: 0}.get(what, len(groups))
    if len(groups) > left + 1:
        clock[done] = max(clock[done], groups[-2 - left])


def chance_races(threads, steps):
    """The words at which two threads race, or a thread and a copy: number `threads` + t is that of t's copies, whose time is how many there were."""
    clocks, past, words = [[int(t == u) for u in range(2 * threads)] for t in range(threads)], {}, set()
    groups = [[0] for _ in range(threads)]
    for i, step in enumerate(steps):
        meet = {}
        for t, (what, x) in enumerate(step):
            if SYNCTHREADS <= what <= ARRIVE:
                meet.setdefault((what == SYNCWARP and (t // 32, x)), []).append(t)
        for come in meet.values():
            chance_meet(clocks, come, [t for t in come if step[t][0] != ARRIVE])
        for t, (what, x) in enumerate(step):
            chance_copy(clocks[t], threads + t, groups[t], what, x)
            if what in (NOTHING, SYNCTHREADS, SYNCWARP, SYNC, ARRIVE, COMMIT, WAIT, WAIT_ALL):
                continue
            plain = {LOAD_BYTE: LOAD, STORE_BYTE: STORE, COPY: STORE}.get(what, what)
            by = (threads + t, groups[t][-1]) if what == COPY else (t, clocks[t][t])
            for b in [x] if what in (LOAD_BYTE, STORE_BYTE) else range(4 * x, 4 * x + 4):
                for u, time, before, at in past.get(b, ()):
                    alike = plain == before and plain != STORE
                    if u != t and not alike and (at, u % threads // 32) != (i, t // 32) and clocks[t][u] < time:
                        words.add(b // 4)
                past.setdefault(b, []).append((*by, plain, i))
    return words


@case("onchip.chance")
def onchip_chance(world):
    """Programs by chance: a word has a hazard where the model has one, and nowhere else."""
    rng = random.Random(9)
    programs = []
    for i in range(LAUNCHES):
        threads, copies = 32 * rng.choice([1, 2, 3]), i % 3 == 0
        actors = rng.sample([t for t in range(threads) if t % 32 < 3], 3)
        programs.append((threads, [chance_step(rng, threads, actors, copies) for _ in range(rng.randint(4, 8 + 6 * copies))]))
    path = os.path.join(world.folder("chance"), "programs")
    with open(path, "w", encoding="ascii") as f:
        for threads, steps in programs:
            rows = [[v[i] for v in step] for step in steps for i in (0, 1)]
            f.write(f"{threads} {len(steps)}\n" + "".join(" ".join(map(str, row)) + "\n" for row in rows))
    result = world.run_ok([program(world), path], MEMTRACE_FORMAT="compact")
    racing = 0
    for i, (threads, steps) in enumerate(programs):
        want = chance_races(threads, steps)
        found = shared(world, result, f"--launches={i}")["hazards"]
        same(f"launch {i}: hazards", bool(found), bool(want))
        holds(f"launch {i}: words {found}, not {want}", {h["address"] // 4 % 4 for h in found} <= want)
        racing += bool(want)
    holds(f"both kinds of programs: {racing}", LAUNCHES // 4 < racing < LAUNCHES * 3 // 4)


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
    a, b = (objects(world, world.run_ok(app, MEMTRACE_FORMAT="compact", **way)) for way in ({}, STANDIN))
    same("phases", b, a)
    got = {key: n for key, n in a.items() if key[0] in ("next_phase", "not_over", "in_a_hurry")}
    # two CTAs of 64; nobody's wait is over; 128 in each phase. 2: set up
    same("by hand", got, {("next_phase", "arrive", 0): 128, ("next_phase", "arrive", 1): 128, ("next_phase", "barrier", 0): 128,
                          ("next_phase", "arrive", 2): 2, ("not_over", "arrive", 0): 32, ("not_over", "arrive", 2): 1,
                          ("in_a_hurry", "arrive", 0): 128, ("in_a_hurry", "arrive", 1): 128, ("in_a_hurry", "arrive", 2): 1,
                          ("in_a_hurry", "barrier", 0): 128, ("in_a_hurry", "barrier", 1): 128})
    holds("set up twice", a["set_up_again", "arrive", 2] == 2 and a["set_up_again", "arrive", 0] == 64)
