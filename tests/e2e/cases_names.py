"""What allocations are called, by the source: tests/e2e/src/names.cu has the names as comments, in their order."""
import json
import os
import re

from harness import case, holds, same


def wanted(world):
    text = open(os.path.join(world.src, "names.cu"), encoding="utf-8").read()
    names = []
    for line in re.findall(r"[;)]\s+// (.*)$", text[text.index("int main"):], re.M):
        names += [line] if line.startswith("called") else line.split()
    return names


@case("names.sources", whole=True)
def sources(world):
    want = wanted(world)
    holds("the source has names", len(want) > 35)
    for level in ("-O0", "-O2"):
        app = world.compile(os.path.join(world.src, "names.cu"), level, "-std=c++17", "-I" + os.path.join(world.source, "include"))
        result = world.run_ok([app], MEMTRACE_FORMAT="compact")
        same("results", result.out, "done\n")
        trace = result.path() + ".mtc"
        dump = world.call([world.tool("mt-dump"), "--companion", "--head", "0", trace]).stdout
        allocs = re.findall(r"^alloc (\d+) 0x\w+ \d+ bytes (\S+) seq \d+(?: '(.*)')?(?: freed \d+)?(?: at .*)?$", dump, re.M)
        same(level, [name for _, kind, name in allocs if kind not in ("symbol", "device")], want)
        symbols = {name for _, kind, name in allocs if kind == "symbol"}
        holds(f"variables of the device keep their names: {symbols}", {"counter", "total"} <= symbols)
        number = {name: ident for ident, _, name in allocs}
        comm = json.loads(world.call([world.tool("mt-extract"), "-s", "lines", trace]).stdout)
        pool = want[-1]
        same("allocations of the lines", set(comm["lines"]["allocations"]),
             {f"#{number[n]} {n}" for n in ("dcol", "x", "counter", "total", pool)})
        text = world.call([world.tool("mt-extract"), "--format", "text", "-s", "lines", trace]).stdout
        holds("in the tables", f"#{number['dcol']} dcol" in text and pool in text and "\x1b" not in text)
        dot = world.call([world.tool("mt-graph"), trace]).stdout
        holds("in the graph: " + dot, f'label="{number["dcol"]}:dcol ' in dot and '<b>\\"so\\"</b>\\\\x0a' in dot)
        world.call(["dot", "-Tsvg"], input=dot)
        world.call([world.tool("mt-graph"), "--format=graphml", trace])
        page = os.path.join(world.folder("page"), "r.html")
        world.call([world.tool("mt-report"), trace, "-o", page])
        html = open(page, encoding="utf-8").read()
        holds("on the page, and not as a tag", "object.data_" in html and "<b>\\\"so" not in html)


@case("names.absent")
def absent(world):
    """The annotation in a program without memtrace; and calls that may allocate, in one that is not traced."""
    source = os.path.join(world.folder("c"), "plain.c")
    with open(source, "w", encoding="utf-8") as f:
        f.write('#include <memtrace/annotate.h>\nint main(void) { int a; MEMTRACE_NAME(&a, "a"); return 0; }\n')
    out = source[:-2]
    for compiler in (["gcc", "-std=c11"], ["g++", "-x", "c++"], ["clang-19", "-O2"]):
        world.call([*compiler, "-I" + os.path.join(world.source, "include"), source, "-o", out])
        world.call([out])
    app = world.compile(os.path.join(world.src, "names.cu"), "-O2", "-std=c++17", "-I" + os.path.join(world.source, "include"))
    result = world.run_ok([app], MEMTRACE_ENABLE=0)
    same("results", result.out, "done\n")
