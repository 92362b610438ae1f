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
    structs = FIXED + some(7, 200 if world.long else 14)
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
