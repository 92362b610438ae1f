"""Which launches are traced: MEMTRACE_KERNELS, MEMTRACE_LAUNCHES, MEMTRACE_LIMIT, marks in the program. The program (src/selection.cu)
launches kernels a and space::b<int> in turns, five times."""
import os

from harness import case, holds, same

A, B = ("a", 32), ("space::b<int>", 192)  # records: 1 a thread of 32, 3 a thread of 64
ALL = [A, B] * 5


def program(world):
    return world.compile(os.path.join(world.src, "selection.cu"), "-O2")


def traced(world, app, *args, **env):
    """[(kernel, records)] of the trace, [left_out] of all launches; the program's output stays as it is."""
    plain = world.run_ok([app, *args], traced=False)
    result = world.run_ok([app, *args], **env)
    same("output", result.out, plain.out)
    if not result.streams():
        holds(f"that nothing is traced is said: {result.err}", "no launch is traced" in result.err)
        return [], None
    lines = [e for e in result.companion().all("launch")]
    same("launches in the companion", len(lines), len(ALL))
    for e in lines:
        same(f"left out, or traced: {e}", e["traced"], "left_out" not in e)
    same("complete", result.companion().end()["complete"], True)
    return [(k.kernel, k.count) for k in result.trace()], [e.get("left_out") for e in sorted(lines, key=lambda e: e["seq"])]


@case("selection.none")
def none(world):
    same("all", traced(world, program(world)), (ALL, [None] * 10))


@case("selection.kernels")
def kernels(world):
    app, why = program(world), "MEMTRACE_KERNELS"
    same("one", traced(world, app, MEMTRACE_KERNELS="^a$"), ([A] * 5, [None, why] * 5))
    same("the other", traced(world, app, MEMTRACE_KERNELS="!^a$"), ([B] * 5, [why, None] * 5))
    same("part of a name", traced(world, app, MEMTRACE_KERNELS="space::b<(int|float)>"), ([B] * 5, [why, None] * 5))
    same("neither", traced(world, app, MEMTRACE_KERNELS="nobody"), ([], None))
    for bad in ("a(", "(" * 50000 + "a" + ")" * 50000, "a" + "{1,255}" * 4):  # the C library ends the program for the second, and has no end for the third
        result = world.run_ok(app, MEMTRACE_KERNELS=bad)
        holds(f"a bad expression is said: {result.err}", f"MEMTRACE_KERNELS={bad[:200]}" in result.err and "all kernels are traced" in result.err)
        same("and all are traced", [(k.kernel, k.count) for k in result.trace()], ALL)


@case("selection.launches")
def launches(world):
    app, why = program(world), "MEMTRACE_LAUNCHES"
    same("a range", traced(world, app, MEMTRACE_LAUNCHES="3:5"), ([B, A, B], [why] * 3 + [None] * 3 + [why] * 4))
    same("both included", traced(world, app, MEMTRACE_LAUNCHES="3..5")[0], [B, A, B])
    for size, said in (("1", 1), ("0", 0)):
        err = world.run_ok(app, MEMTRACE_LIMIT_WARN=size).err
        same(f"MEMTRACE_LIMIT_WARN={size}", err.count("(MEMTRACE_LIMIT_WARN) and grow on"), said)
    same("one", traced(world, app, MEMTRACE_LAUNCHES="4")[0], [A])
    same("from", traced(world, app, MEMTRACE_LAUNCHES="8:")[0], [A, B])
    same("up to", traced(world, app, MEMTRACE_LAUNCHES=":2")[0], [A, B, A])
    same("of one kernel", traced(world, app, MEMTRACE_LAUNCHES="1:2", MEMTRACE_KERNELS="b"),
         ([B, B], ["MEMTRACE_KERNELS", why, "MEMTRACE_KERNELS", None, "MEMTRACE_KERNELS", None] + ["MEMTRACE_KERNELS", why] * 2))
    for bad in ("2:1", ":", "x", "1:x", "1-2"):
        result = world.run_ok(app, MEMTRACE_LAUNCHES=bad)
        holds(f"{bad} is refused: {result.err}", f"MEMTRACE_LAUNCHES={bad}: " in result.err)
        same("and all are traced", len(list(result.trace())), 10)


@case("selection.limit")
def limit(world):
    app, why = program(world), "MEMTRACE_LIMIT"
    # One launch at a time: the bytes of the one before are known when the next begins. a: 768 bytes, b: 4608.
    got = traced(world, app, "one by one", MEMTRACE_LIMIT="1", MEMTRACE_CPU_THREADS="1")
    same("the first is whole", got[0][0], A)
    holds(f"and the last is left out: {got}", got[1][-1] == why and len(got[0]) < 10)
    same("enough", traced(world, app, MEMTRACE_LIMIT="1M"), (ALL, [None] * 10))


@case("selection.marks")
def marks(world):
    app = program(world)
    rest = [A, B] * 2
    same("between stop and start", traced(world, app, "marks"), (rest + rest, [None] * 4 + ["memtrace_stop"] * 2 + [None] * 4))
    same("not before the first start", traced(world, app, "marks", MEMTRACE_FROM_START="0"),
         (rest, ["memtrace_stop"] * 6 + [None] * 4))
    same("cudaProfilerStart alone changes nothing", traced(world, app, "profiler")[0], ALL)
    same("but what it encloses is traced when asked for", traced(world, app, "profiler", MEMTRACE_FROM_START="0")[0], [A, B])


@case("selection.marks_elsewhere")
def marks_elsewhere(world):
    """The header works without the plugin and the runtime."""
    source = os.path.join(world.folder("plain"), "plain.c")
    with open(source, "w", encoding="ascii") as f:
        f.write("#include <memtrace/annotate.h>\nint main(void) { MEMTRACE_STOP; MEMTRACE_START; return 0; }\n")
    out = source[:-2]
    world.call(["gcc", "-Wall", "-Werror", "-I", os.path.join(world.source, "include"), source, "-o", out])
    world.call([out])
