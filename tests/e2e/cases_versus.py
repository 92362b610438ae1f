"""Two runs side by side (memtrace compare --volumes, memtrace report A -- B): tests/e2e/src/versus before and after, counted by hand."""
import json
import os
import re

from harness import case, holds, same

WARPS = 64 * 64 // 32
# (figure, before, after) of whole kernels. A warp's row of 32 floats is 4 sectors, its column of 32 rows is 32; scale's flag is one
# sector for each warp that stores it, and 4 bytes that 16 CTAs store, or one thread.
KERNELS = {
    "transpose": {"launches": (1, 1), "loaded": (16384, 16384), "stored": (16384, 16384), "requests": (2 * WARPS, 2 * WARPS),
                  "sectors": (WARPS * (4 + 32), WARPS * (4 + 4)), "distinct": (32768, 32768), "conflicts": (0, 0),
                  "falsely_shared": (4096, 0), "accesses": (8192, 8192), "largest_launch": (32768, 32768)},
    "scale": {"launches": (1, 1), "loaded": (16384, 16384), "stored": (16384 + 4096 * 4, 16384 + 4),
              "requests": (3 * WARPS, 2 * WARPS + 1), "sectors": (WARPS * (4 + 4 + 1), WARPS * (4 + 4) + 1),
              "distinct": (32768 + WARPS * 4, 32768 + 4), "conflicts": (4, 0),
              "accesses": (3 * 4096, 2 * 4096 + 1), "largest_launch": (16384 + 128, 16384 + 128)},
}
# Where the line is that has these words: each of before and of after, None: it has no partner.
LINES = {("out[x * N + y] =", "= in[(y + i)"), (None, "out[(y + i)"), ("*flag = factor", "*flag = factor"), ("out[i] *=", "out[i] *=")}
BUFFERS = {"transpose": {("in", "in"), ("out", "out")}, "scale": {("flag", "flag"), ("out", "out")}}


def source(world, side):
    return os.path.join(world.src, "versus", side, "transpose.cu")


def line_of(world, side, words):
    if words is None:
        return None
    with open(source(world, side), encoding="utf-8") as f:
        [number] = [n for n, text in enumerate(f, 1) if words in text]
    return f"{source(world, side)}:{number}"


def runs(world):
    folders = []
    for side in ("before", "after"):
        result = world.run_ok([world.compile(source(world, side), "-O2")], MEMTRACE_FORMAT="compact")
        same("results", result.out, "done\n")
        folders.append(result.folder)
    return folders


def sampled(world, compare, whole):
    """Half of the CTAs are no improvement; runs of which the same is traced are compared."""
    app = world.compile(source(world, "before"), "-O2")
    half, again, selected = (world.run_ok([app], MEMTRACE_FORMAT="compact", **more).folder for more in (
        {"MEMTRACE_SAMPLE": "cta:2"}, {"MEMTRACE_SAMPLE": "cta:2"}, {"MEMTRACE_KERNELS": "scale"}))
    either = ("transpose", "scale")  # both alike
    for a, b, kernels, parts in ((whole, half, either, (16, 8)), (half, whole, either, (8, 16)), (whole, selected, ("transpose",), (16, 0))):
        out = json.loads(world.call([*compare, "--format=json", a, b]).stdout)
        same("no verdict", (out["verdict"], out["same_part"]), ("none", False))
        says = "A and B cannot be compared: they were sampled or selected differently. Of the CTAs of "
        holds(out["sentence"], out["sentence"].startswith(says))
        holds(f"{out['sentence']}: {parts}", out["sentence"].endswith(tuple(
            f"{kernel} {parts[0]} of 16 are in A, {parts[1]} of 16 are in B." for kernel in kernels)))
        holds("in the text", out["sentence"] in world.call([*compare, a, b]).stdout)
    same("sampled alike", json.loads(world.call([*compare, "--format=json", half, again]).stdout)["verdict"], "same")
    trace, other = (os.path.join(folder, "MemTrace-pipe-0.mtc") for folder in (whole, half))
    for wrong, why in ((other + ".meta", "of another run"), (__file__, "is no companion")):
        holds(why, why in world.call([world.tool("mt-extract"), "--companion", wrong, trace], 2).stderr)
    page = os.path.join(world.folder("page"), "r.html")
    world.call([world.tool("mt-report"), whole, "--", half, "-o", page])
    holds("the page", "A and B cannot be compared" in open(page, encoding="utf-8").read())


@case("versus.volumes")
def volumes(world):
    before, after = runs(world)
    compare = [world.tool("mt-compare"), "--volumes"]
    out = json.loads(world.call([*compare, "--format", "json", before, after]).stdout)
    same("verdict", (out["format"], out["verdict"], out["same_work"]), ("memtrace-volumes", "better", False))
    same("kernels, most sectors first", [(k["a"], k["b"]) for k in out["kernels"]], [(k, k) for k in KERNELS])
    lines = set()
    for kernel in out["kernels"]:
        for figure, (a, b) in KERNELS[kernel["a"]].items():
            same(f"{kernel['a']}: {figure}", kernel[figure], {"a": a, "b": b, "change": round((b - a) / a, 6) if a else None})
        lines |= {(line["a"], line["b"]) for line in kernel["lines"]}
        same("buffers of " + kernel["a"], {(b["a"], b["b"]) for b in kernel["buffers"]}, BUFFERS[kernel["a"]])
    same("lines that moved", lines, {(line_of(world, "before", a), line_of(world, "after", b)) for a, b in LINES})
    [flag] = [line for line in out["kernels"][1]["lines"] if line["a"] == line_of(world, "before", "*flag = factor")]
    same("its efficiency: a word of a sector", flag["efficiency"], {"a": 0.125, "b": 0.125})
    same("its sectors", (flag["sectors"]["a"], flag["sectors"]["b"]), (WARPS, 1))
    same("efficiency of transpose", out["kernels"][0]["efficiency"], {"a": round(8 / 36, 6), "b": 1.0})
    same("footprint: two plates and a flag", out["all"]["footprint"], {"a": 2 * 16384 + 128, "b": 2 * 16384 + 128, "change": 0})
    holds("of the run alone", all("footprint" not in k for k in out["kernels"]))
    text = world.call([*compare, before, after]).stdout
    holds("the text has signs: " + text, "B is better: sectors 5760 -> 2049 (-64.4 %)" in text and "4608 -> 1024 (-77.8 %)" in text)
    back = json.loads(world.call([*compare, "--format=json", after, before]).stdout)
    same("the other way round", (back["verdict"], back["all"]["sectors"]), ("worse", {"a": 2049, "b": 5760, "change": round(3711 / 2049, 6)}))
    nothing = json.loads(world.call([*compare, "--format=json", before, before]).stdout)
    same("one run with itself", (nothing["verdict"], nothing["same_work"]), ("same", True))
    holds("nothing moved", all(line["a"] == line["b"] for k in nothing["kernels"] for line in k["lines"]))
    text = world.call([*compare, after, after]).stdout
    same("a column of nothing is left out", (text.count("conflicting bytes"), text.count("sectors")), (1, 3))
    raw = world.run_ok([world.compile(source(world, "before"), "-O2")], MEMTRACE_FORMAT="raw").folder
    half = json.loads(world.call([*compare, "--format=json", raw, before]).stdout)
    same("raw traces know accesses", [half["all"]["accesses"][side] for side in "ab"], [8192 + 3 * 4096] * 2)
    same("lines of one run are no lines", [k["lines"] for k in half["kernels"]], [[], []])
    holds("and it is said: " + half["sentence"], half["sentence"].startswith("B is the same; not compared: only B knows sectors"))
    text = world.call([*compare, raw, before]).stdout
    holds("in the text, too: " + text, "By source line: not known of A" in text and "(none) ->" not in text)
    some = json.loads(world.call([*compare, "--format=json", "-k", "scale", before, after]).stdout)
    same("one kernel", [k["b"] for k in some["kernels"]], ["scale"])
    none = world.call([*compare, "--format=json", "-k", "nosuch", before, after])
    holds("nothing matches: " + none.stderr, none.stderr.count("no launch matches --kernels nosuch: the trace has 2") == 2)
    same("and there is nothing to compare", (json.loads(none.stdout)["verdict"], json.loads(none.stdout)["kernels"]), ("none", []))
    sampled(world, compare, before)
    world.call([*compare, before], code=2)
    world.call([*compare, "--lanes", before, after], code=2)
    world.call([*compare, "--format=csv", before, after], code=2)


@case("versus.long_lines")
def long_lines(world):
    """Two lines of 70 loads each that changed places: one pair is in order, the other one is found by its accesses."""
    folder, lines = world.folder("long"), [" + ".join(f"{name}[{i}]" for i in range(70)) for name in "ab"]
    runs = []
    for side, order in (("before", (0, 1)), ("after", (1, 0))):
        path = os.path.join(folder, side + ".cu")
        with open(path, "w", encoding="utf-8") as f:
            f.write("#include <cuda_runtime.h>\n__global__ void sums(const volatile int *a, const volatile int *b, int *out)\n{\n    int s = 0;\n" +
                    "".join(f"    s += {lines[i]};\n" for i in order) + "    *out = s;\n}\nint main()\n{\n    int *m;\n"
                    "    cudaMalloc(&m, 1024);\n    cudaMemset(m, 0, 1024);\n    sums<<<1, 1>>>(m, m + 70, m + 140);\n    return cudaDeviceSynchronize();\n}\n")
        runs.append(world.run_ok([world.compile(path, "-O1")], MEMTRACE_FORMAT="compact").folder)
    out = json.loads(world.call([world.tool("mt-compare"), "--volumes", "--format=json", *runs]).stdout)
    same("each sum is found", {tuple(int(line[side].rpartition(":")[2]) for side in "ab") for line in out["kernels"][0]["lines"]}, {(5, 6), (6, 5), (7, 7)})


@case("versus.page")
def page(world):
    before, after = runs(world)
    path = os.path.join(world.folder("page"), "r.html")
    world.call([world.tool("mt-report"), "--title", "<b>&\"", before, "--", after, "-o", path])
    html = open(path, encoding="utf-8").read()
    holds("verdict and figures", "B is better" in html and "4,608 → 1,024" in html and "22.2\u00a0% → 100.0\u00a0%" in html)
    holds("a title is no tag", "<h1>&lt;b&gt;&amp;&quot;</h1>" in html or "<h1>&lt;b&gt;&amp;\"</h1>" in html)
    holds("numbers of the verdict", "sectors 5,760 → 2,049 (−64.4\u00a0%)" in html)
    once = world.run_ok([world.compile(source(world, "before"), "-O2", "-DONCE")], MEMTRACE_FORMAT="compact").folder
    world.call([world.tool("mt-report"), before, "--", once, "-o", path])
    some = open(path, encoding="utf-8").read().split("<details")[1:]
    heads = [re.sub("<[^>]*>", "|", part.partition("</summary>")[0]) for part in some]
    same("what changed is first, and open; scale has fewer sectors", [re.split(r"\|+", h) for h in heads],
         [[' class="card" open>', "scale", "bytes stored 32,768 → 16,388 (−50.0\u00a0%)", "sectors 1,152 → 1,025 (−11.0\u00a0%)", "conflicting bytes 4 → 0 (−100.0\u00a0%)", ""], [' class="card">', "transpose", "sectors 4,608, nothing changed", ""]])
    columns = [re.findall(r"<th scope=\"col\"[^>]*>([^<]*)", part.partition("</table>")[0])[1:] for part in some]
    holds(f"columns that are zero in both are not there: {columns}", "conflicting bytes" in columns[0] and not {"conflicting bytes", "hazards"} & set(columns[1]))
    holds("no script", "<script" not in html and "default-src 'none'" in html)
    opened, closed = re.findall(r"<(table|details|section|tr|td|th|span)\b", html), re.findall(r"</(table|details|section|tr|td|th|span)>", html)
    same("tags are closed", sorted(opened), sorted(closed))
    app = world.compile(os.path.join(world.src, "names.cu"), "-O2", "-std=c++17", "-I" + os.path.join(world.source, "include"))
    odd = world.run_ok([app], MEMTRACE_FORMAT="compact").folder
    world.call([world.tool("mt-report"), odd, "--", odd, "-o", path])
    html = open(path, encoding="utf-8").read()
    holds("names are text", "called &lt;b&gt;" in html and "called <b>" not in html and "The whole runs" in html)
    raw = world.run_ok([world.compile(source(world, "before"), "-O2")], MEMTRACE_FORMAT="raw")
    world.call([world.tool("mt-report"), raw.folder, "--", after, "-o", path])
    holds("without lanes there are no sectors", "5,760" not in open(path, encoding="utf-8").read())
    trace = os.path.join(after, "MemTrace-pipe-0.mtc")
    world.call([world.tool("mt-report"), before, "--", trace, "-o", trace], code=2)
    world.call([world.tool("mt-report"), "--quick", before, "--", after, "-o", path], code=2)
    world.call([world.tool("mt-report"), before, "--", "-o", path], code=2)
    world.call([world.tool("mt-report"), "-o", path, "--", before])
    holds("one run behind --", "<script" in open(path, encoding="utf-8").read())
