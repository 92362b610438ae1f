"""Reads of what nobody wrote: words, and what lies between the members of structs."""
import os
import re
import shutil

from findings import check
from harness import Skipped, case, holds, run, same
from layouts import FIXED, lacking, program, some

HERE = os.path.dirname(os.path.realpath(__file__))


def builds(world, source, name):
    yield "mt-cc", world.compile(source, "-O1", "-arch=sm_90", "--mt-spaces=global,shared")
    if not shutil.which("nvcc"):
        raise Skipped("no nvcc")
    built = world.path(name)
    run(["nvcc", "-O1", "-arch=sm_90", "-lineinfo", source, "-o", built])
    yield "nvcc", built


def told(program_, how, lack):
    """{layout: [words]} of kernels; {None: [bytes]} of copies to the host."""
    found = {}
    for f in check("--kinds=init", program_, str(how), str(lack), code=0 if lack < 0 else 1)[0]["findings"]:
        layout = re.search(r"<S(\d+)>", f.get("kernel", ""))
        found.setdefault(layout and int(layout[1]), []).append(f["count"])
    return found


@case("layouts", whole=True)
def layouts(world):
    """Of structs that are filled by members and copied as a whole nothing is told but the one member that one of them lacks."""
    structs = FIXED + some(7, 200 if world.long else 4)
    source = world.path("layouts.cu")
    with open(source, "w", encoding="utf-8") as f:
        f.write(program(structs))
    for compiler, built in builds(world, source, "layouts"):
        for how in range(3):
            same(f"{compiler} {how}", told(built, how, -1), {})
            for lack in range(5):
                found = told(built, how, lack)
                due = [lacking(members, lack % len(members)) for members in structs]
                if how == 0:
                    least, most = (sum(x[i][0] for x in due) for i in range(2))
                    holds(f"{compiler} host {lack}: {least} <= {found} <= {most}", list(found) == [None] and least <= sum(found[None]) <= most)
                    continue
                wrong = {n: found.get(n) for n, x in enumerate(due) if len(found.get(n, [])) != 1 or not x[0][1] <= found[n][0] <= x[1][1]}
                holds(f"{compiler} {how} {lack}: {[(structs[n], got, due[n]) for n, got in wrong.items()]}", not wrong and len(found) == len(structs))


# kernel of unwritten.cu: words that nothing wrote, bytes of an access, and who reads the first, all by hand
SHARED = {
    "again": (2 * 32, 4, [0, 0, 0], [32, 0, 0]),  # the upper half, of two CTAs, three times at two lines
    "wide": (2 * 16, 8, [0, 0, 0], [16, 0, 0]),
    "narrow": (8, 1, [0, 0, 0], [32, 0, 0]),
    "by_last": (4, 16, [0, 0, 0], [31, 1, 0]),
}


@case("shared_words")
def shared_words(world):
    """Of shared memory distinct words of each CTA, with the size and the thread of the first access."""
    one = {**os.environ, "MEMTRACE_CPU_THREADS": "1"}  # CTAs come in order
    for compiler, built in builds(world, os.path.join(HERE, "unwritten.cu"), "unwritten"):
        found = {re.search(r"\w+", f["kernel"])[0]: (f["count"], f["size"], f["cta"], f["thread"]) for f in check("--kinds=init", built, code=1, env=one)[0]["findings"]}
        same(compiler, found, SHARED)


@case("exchange")
def exchange(world):
    """An exchange whose result nobody uses reads nothing; one whose result is used does, and so does any other atomic."""
    due = {"uses": [64, 32, 32], "shared_uses": [64], "adds": [32]}  # words; those of 8 bytes are two
    for compiler, built in builds(world, os.path.join(HERE, "exchange.cu"), "exchange"):
        found = {}
        for f in check("--kinds=init", built, code=1)[0]["findings"]:
            found.setdefault(re.search(r"\w+", f["kernel"])[0], []).append(f["count"])
        same(compiler, {kernel: sorted(n, reverse=True) for kernel, n in found.items()}, due)


@case("apart")
def apart(world):
    """Each call is a finding, and each block that it takes from, with lines and without."""
    if not shutil.which("nvcc"):
        raise Skipped("no nvcc")
    for flags in (["-g"], ["-g", "-O2"], []):
        built = world.path("apart" + "".join(flags))
        run(["nvcc", *flags, "-arch=sm_90", os.path.join(HERE, "apart.cu"), "-o", built])
        found = check("--kinds=init", built, code=1)[0]["findings"]
        same(f"{flags}", sorted(f["count"] for f in found), [100, 200, 300, 400, 500])
        same(f"{flags}: calls", len({f.get("line") or f["at"] for f in found}), 4)
        same(f"{flags}: blocks", len({re.search(r"\(1024 bytes, (.*)\)", f["message"])[1] for f in found}), 2)


@case("left_out")
def left_out(world):
    """Bad accesses by generic pointers, at constant addresses, too, are told and left out; all else is as it should be."""
    source = os.path.join(HERE, "left_out.cu")
    with open(source, encoding="utf-8") as f:
        line = {int(number[1]): i for i, number in ((i, re.search(r";\s+// (\d)$", text)) for i, text in enumerate(f, 1)) if number}
    due = {("out-of-bounds", line[1], 1), ("out-of-bounds", line[2], 1), ("misaligned", line[3], 1)} | {("out-of-bounds", line[i], 16) for i in (4, 5, 6)}
    vectors = "--mt-spaces=global,shared", "--mt-spaces=global,shared --mt-vectors=off", "--mt-spaces=global"
    programs = [(how, world.compile(source, "-O1", "-arch=sm_90", *how.split()), {}) for how in vectors]
    if shutil.which("nvcc"):
        built = world.path("left_out")
        run(["nvcc", "-arch=sm_90", "-lineinfo", source, "-o", built])
        programs += [("nvcc", built, {}), ("nvcc, fibers", built, {"MEMTRACE_PTX_OPTIONS": "--mt-vectors=off"})]
    for how, built, env in programs:
        found = check("--kinds=memory,calls,race", built, code=1, env={**os.environ, **env})[0]["findings"]
        same(how, {(f["kind"], f.get("line"), f["count"]) for f in found}, due)
