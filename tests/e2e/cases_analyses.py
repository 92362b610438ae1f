"""The further analyses of memtrace extract on compact traces of kernels whose sectors, conflicts and shared lines are known, and
on examples: the figures are counted by hand or come from the examples' own expectations."""
import ctypes
import json
import os
import re
import shutil

from cases_extract import volumes
from harness import case, holds, same

SECTIONS = "--sections=KDV,more"
CTAS, THREADS = 4, 64
WARPS = CTAS * THREADS // 32


def extract(world, result, *options):
    paths = sorted(os.path.join(result.folder, f) for f in os.listdir(result.folder) if f.endswith(".mtc"))
    holds("there is a compact trace", paths)
    return world.extract(paths, SECTIONS, *options)


def extract_text(world, result):
    return world.call([world.tool("mt-extract"), "--format=text", "-s", "coalescing", result.path() + ".mtc"]).stdout


def marks(source):
    """{mark: "file:line"} of the comments `// @mark`."""
    with open(source) as f:
        return {m.group(1): f"{source}:{n}" for n, line in enumerate(f, 1) for m in [re.search(r"// @(\S+)", line)] if m}


def run(world, *flags):
    source = os.path.join(world.src, "analyses.cu")
    app = world.compile(source, *flags)
    result = world.run_ok([app], MEMTRACE_FORMAT="compact", MEMTRACE_CPU_SMS=2)
    return marks(source), extract(world, result, "--line-size=128"), result


# mark: (type, lanes, size, different bytes, sectors and lines of 128 bytes a request, lane stride or None, efficiency in percent)
REQUESTS = {
    "unit-load": ("load", 32, 4, 128, 4, 1, 4, 100),
    "unit-store": ("store", 32, 4, 128, 4, 1, 4, 100),
    "wide-load": ("load", 32, 4, 128, 32, 32, 128, 12.5),
    "shifted-load": ("load", 32, 4, 128, 5, 2, 4, 80),  # 128 bytes from a sector's second word on
    "uniform-load": ("load", 32, 4, 4, 1, 1, 0, 12.5),  # one word of a sector
    "double-load": ("load", 32, 8, 256, 8, 2, 8, 100),
    "odd-load": ("load", 16, 4, 64, 4, 1, 8, 50),
    # Sectors as Nsight Compute's smsp__sass_l1tex_t_sectors_pipe_lsu_mem_global_op_atom was published to count them (its
    # l1tex__average_t_sectors_per_request_…_op_atom said 8, 32 and 4 of the same kernels).
    "atomic": ("atomic", 32, 4, 16, 1, 1, None, 50),  # four words in turn
    "atomic-one": ("atomic", 32, 4, 4, 1, 1, 0, 12.5),
    "atomic-each": ("atomic", 32, 4, 128, 4, 1, 4, 100),
}


@case("analyses.coalescing")
def coalescing(world):
    line, out, result = run(world, "-O2")
    found = {}
    for kernel, lines in out["coalescing"]["kernels"].items():
        for place, types in lines.items():
            for kind, cell in types.items():
                found[place, kind] = cell
    text = extract_text(world, result)
    for mark, (kind, lanes, size, distinct, sectors, lines, stride, percent) in REQUESTS.items():
        cell = found[line[mark], kind]
        want = {"requests": WARPS, "accesses": WARPS * lanes, "bytes": WARPS * lanes * size, "distinct": WARPS * distinct, "sectors": WARPS * sectors,
                "lines": WARPS * lines, "efficiency": percent / 100, "single": 0,
                "irregular": WARPS if stride is None else 0, "strides": {} if stride is None else {str(stride): WARPS}}
        same(mark, {k: cell[k] for k in want}, want)
        row = re.search(rf"^  {re.escape(os.path.basename(line[mark]))} +\S+ +{kind} .*$", text, re.M)
        holds(f"{mark}: the same figure in the text: {row and row.group()}", row and f" {percent:.1f} %" in row.group())
    cell = found[line["gather-load"], "load"]
    squares = {lane * lane % 32 for lane in range(32)}
    same("gathered", (cell["irregular"], cell["distinct"], cell["sectors"], cell["lines"]),
         (WARPS, WARPS * 4 * len(squares), WARPS * len({4 * s // 32 for s in squares}), WARPS))
    same("one word for all lanes", found[line["uniform-load"], "load"]["distinct"], WARPS * 4)
    same("accesses without mask", out["coalescing"]["unmasked"], 0)
    holds("no float4 here", "float4" not in text)


# kernel: (requests, bytes, sectors, lines) of the loads of a warp, then of its stores. Counted by hand: lane i has element i, the first
# element of a warp begins a sector and a line.
VECTORS = {
    "floats_4": ((1, 512, 16, 4), (1, 512, 16, 4)),  # one of 16 bytes: 512 bytes in a row
    "doubles_2": ((1, 512, 16, 4), (1, 512, 16, 4)),
    "ints_4": ((1, 512, 16, 4), (1, 128, 4, 1)),
    "halves_2": ((1, 128, 4, 1), (1, 128, 4, 1)),
    "struct_12": ((3, 384, 36, 9), (3, 384, 36, 9)),  # three of 4 bytes, each in all 12 sectors and 3 lines of the 384 bytes
    "struct_16": ((4, 512, 64, 16), (4, 512, 64, 16)),  # four of 4 bytes, each in all 16 sectors and 4 lines of the 512 bytes
    "struct_aligned": ((2, 512, 32, 8), (2, 512, 32, 8)),  # LLVM copies at most 8 bytes at a time
    "cub_cached": ((1, 512, 16, 4), (1, 512, 16, 4)),
    "cub_ints": ((4, 512, 64, 16), (1, 512, 16, 4)),
}


@case("analyses.vectors")
def vectors(world):
    app = world.compile(os.path.join(world.src, "vectors.cu"), "-O2", "-std=c++17")
    result = world.run_ok([app], MEMTRACE_FORMAT="compact", MEMTRACE_CPU_SMS=2)
    same("results", result.out, "0 wrong\n")
    kernels = extract(world, result, "--line-size=128")["coalescing"]["kernels"]
    for kernel, want in VECTORS.items():
        for kind, (requests, size, sectors, lines) in zip(("load", "store"), want):
            cells = [types[kind] for types in kernels[kernel].values() if kind in types]
            got = {k: sum(c[k] for c in cells) for k in ("requests", "accesses", "bytes", "sectors", "lines")}
            same(f"{kernel}, {kind}s", got, {"requests": WARPS * requests, "accesses": WARPS * requests * 32, "bytes": WARPS * size,
                                            "sectors": WARPS * sectors, "lines": WARPS * lines})
            if len(cells) == 1:
                same(f"{kernel}, efficiency of {kind}s", cells[0]["efficiency"], round(size / (32 * sectors), 6))
    same("kernels", set(kernels), set(VECTORS))
    halves = "clang may copy a float4 or an __int128 by two accesses of 8 bytes"
    holds("said where there are halves", halves in extract_text(world, result))


@case("analyses.conflicts")
def conflicts(world):
    line, out, result = run(world, "-O2")
    racy, exchange = out["conflicts"].pop("racy"), out["conflicts"].pop("exchange")
    same("kernels that do not race", out["conflicts"], {})
    [pairs] = racy.values()
    store, load = {"type": "store", "line": line["race-store"]}, {"type": "load", "line": line["race-load"]}
    same("pairs of racy", sorted((json.dumps(sorted((p["a"], p["b"]), key=str)), p["bytes"]) for p in pairs),
         sorted([(json.dumps(sorted((store, store), key=str)), 4), (json.dumps(sorted((store, load), key=str)), 4)]))
    for p in pairs:
        holds("two CTAs are named, of the first allocation, not ordered",
              sorted(p["ctas"]) == [[0, 0, 0], [1, 0, 0]] and p["allocation"].startswith("#0 ") and "cooperative" not in p)
    [[pair]] = exchange.values()
    same("grid.sync is between these two", (sorted((pair["a"]["line"], pair["b"]["line"])), pair["bytes"], pair["cooperative"]),
         (sorted((line["before"], line["after"])), 4 * CTAS, True))
    text = world.call([world.tool("mt-extract"), "--format=text", "-s", "conflicts",
                       os.path.join(result.folder, "MemTrace-pipe-0.mtc")]).stdout
    same("the report for people names both lines",
         [len(re.findall(r"analyses[.]cu:[0-9]+", row)) for row in text.splitlines() if " racy " in row], [2, 2])


@case("analyses.notes")
def notes(world):
    """What a trace does not say is null or "?", and a note says so."""
    app = world.compile(os.path.join(world.src, "analyses.cu"), "-O2")
    out = world.extract([world.run_ok([app], MEMTRACE_CPU_SMS=2).path()], SECTIONS)
    same("raw", (out["lines"]["lines"], out["lines"]["variables"], out["coalescing"]), (None, None, None))
    same("lines of conflicts", {p[s]["line"] for k in out["conflicts"].values() for ps in k.values() for p in ps for s in "ab"},
         {None})
    holds("allocations are known all the same", "?" not in out["lines"]["allocations"])
    holds("notes", len(out["notes"]) == 2 and "lane masks" in out["notes"][0] and "sites" in out["notes"][1])
    result = world.run_ok([app], MEMTRACE_FORMAT="compact", MEMTRACE_CPU_SMS=2)
    path = os.path.join(result.folder, "MemTrace-pipe-0.mtc")
    same("compact", world.extract([path], SECTIONS)["notes"], [])
    with open(path, "rb") as f:
        live = world.call([world.tool("mt-extract"), SECTIONS, "--no-host", "-"], stdin=f)
    same("compact from a file on standard input", json.loads(live.stdout)["notes"], [])
    for args in ("", " --no-host"):  # a container has its allocations and copies inside
        process = world.call(["sh", "-c", 'cat "$1" | "$2" %s,transfers%s -' % (SECTIONS, args), "sh", path, world.tool("mt-extract")])
        same("compact from a pipe" + args, dict(json.loads(process.stdout), inputs=[path]), world.extract([path], SECTIONS + ",transfers", *args.split()))
    process = world.call(["sh", "-c", 'cat "$1" | "$2" %s --no-companion -' % SECTIONS, "sh", path, world.tool("mt-extract")])
    live = json.loads(process.stdout)
    holds("as it comes: lines come too late", len(live["notes"]) == 1 and "sites" in live["notes"][0])
    holds("masks do not", live["coalescing"]["kernels"])


@case("analyses.sharing")
def sharing(world):
    line, out, result = run(world, "-O2")
    kinds = {}
    for kernel, steps in out["sharing"]["kernels"].items():
        [step] = steps.values()
        for allocation, cell in step["allocations"].items():
            kinds[kernel, int(allocation[1])] = tuple(cell[k]["lines"] for k in ("private", "read", "true", "false"))
    want = {
        ("coalesced", 0): (8, 0, 0, 0), ("coalesced", 1): (8, 0, 0, 0),
        ("strided", 0): (256, 0, 0, 0),
        ("shifted", 0): (6, 3, 0, 0),  # a CTA reads 256 bytes, the last word in the next one's line
        ("uniform", 0): (0, 1, 0, 0),
        ("counted", 1): (0, 0, 2, 0),  # words 0 to 8, words 32 to 63
        ("neighbours", 1): (0, 0, 0, 1),
        ("racy", 0): (0, 0, 1, 0), ("racy", 1): (4, 0, 0, 0),
        ("exchange", 0): (0, 0, 1, 0),
    }
    same("lines by kind", {k: kinds.get(k) for k in want}, want)
    [step] = out["sharing"]["kernels"]["neighbours"].values()
    same("top", [(t["sharing"], t["accesses"], t["writers"]) for t in step["top"]], [("false", CTAS, CTAS)])
    out = extract(world, result, "--line-size=32")
    [step] = out["sharing"]["kernels"]["neighbours"].values()
    same("lines of 32 bytes are private", [c["private"]["lines"] for c in step["allocations"].values()], [CTAS])


@case("analyses.examples")
def examples(world):
    """Volumes by line, variable and allocation add up to the data volume; uses and requests to the accesses."""
    for name in ("stencil_1d", "matrix_multiply", "histogram", "reduction"):
        expect = world.expectation(name)
        app = world.compile(world.example(name), "-O2")
        result = world.run_ok([app, *expect.QUICK], MEMTRACE_FORMAT="compact", MEMTRACE_CPU_SMS=3)
        out = extract(world, result)
        want, accesses = {}, {}
        for launch in expect.launches(expect.QUICK, "-O2"):
            for counts in launch["ctas"].values():
                sum_ = want.setdefault(launch["kernel"], {"Load": 0, "Store": 0})
                for way, n in volumes(counts).items():
                    sum_[way] += n
                accesses[launch["kernel"]] = accesses.get(launch["kernel"], 0) + sum(counts.values())
        for by in ("lines", "variables", "allocations"):
            got, count = {}, {}
            for place, kernels in out["lines"][by].items():
                holds(f"{name}: {by} are known", place != "?")
                for kernel, cell in kernels.items():
                    sum_ = got.setdefault(kernel, {"Load": 0, "Store": 0})
                    for way in sum_:
                        sum_[way] += cell[way]
                    count[kernel] = count.get(kernel, 0) + sum(cell[k] for k in ("loads", "stores", "atomics", "unknown"))
            same(f"{name}: volumes by {by}", got, {k: v for k, v in want.items() if any(v.values())})
            same(f"{name}: accesses by {by}", count, {k: n for k, n in accesses.items() if n})
        for kernel, lines in out["coalescing"]["kernels"].items():
            same(f"{name}: lanes of requests", sum(c["accesses"] for t in lines.values() for c in t.values()), accesses[kernel])
        for kernel, steps in out["reuse"]["kernels"].items():
            uses = sum(s["uses"] for s in steps.values())
            holds(f"{name}: each access uses a line", uses >= accesses.get(kernel, 0))
            for step in steps.values():
                for level in ("CTA", "SM", "device"):
                    same(f"{name}: each use is cold or again", step[level]["cold"] + sum(step[level]["histogram"].values()),
                         step["uses"])
        policies = out["placement"]["policies"]
        holds(f"{name}: mincut is not worse", policies["mincut"]["cross"] <= min(p["cross"] for p in policies.values()))


class Hash128(ctypes.Structure):
    _fields_ = [("low", ctypes.c_uint64), ("high", ctypes.c_uint64)]


@case("analyses.sources")
def sources(world):
    """A program says what its sources held, raw and compact; the page of memtrace report shows them while that is so."""
    folder = world.folder("source")
    source = shutil.copy(os.path.join(world.src, "analyses.cu"), folder)
    app = world.compile(source, "-O2")
    digest = ctypes.CDLL("libxxhash.so.0").XXH3_128bits
    digest.restype, digest.argtypes = Hash128, [ctypes.c_char_p, ctypes.c_size_t]
    with open(source, "rb") as f:
        text = f.read()
    hash_ = digest(text, len(text))
    for form, suffix in (("raw", ""), ("compact", ".mtc")):
        result = world.run_ok([app], MEMTRACE_FORMAT=form)
        trace = os.path.join(result.folder, "MemTrace-pipe-0" + suffix)
        with open(trace + ".meta") as f:
            said = [e for e in map(json.loads, f) if e["ev"] == "source" and e["file"] == source]
        same(form, said, [{"ev": "source", "file": source, "bytes": len(text), "xxh128": f"{hash_.high:016x}{hash_.low:016x}"}])
        page = world.call([world.tool("mt-report"), "--quick", trace], 0).stdout
        holds(f"{form}: the page has lines of the source", "@unit-load" in page)
    with open(source, "ab") as f:
        f.write(b"\n")
    page = world.call([world.tool("mt-report"), "--quick", trace], 0).stdout
    holds("it is another file now", "@unit-load" not in page)
    page = world.call([world.tool("mt-report"), "--quick", "--source-root", folder, trace], 0).stdout
    holds("the user means it all the same", "@unit-load" in page)
