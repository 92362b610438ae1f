"""Records of shared and local memory, and what memtrace extract -s shared makes of them. The program is src/onchip.cu."""
import json
import os
import re

import cases_compact
from harness import case, holds, same

SPACES = "--mt-spaces=global,shared,local"
STANDIN = {"MEMTRACE_DEVICE": "standin"}  # with --standin alone
WAYS = ((), ("--mt-vectors=off",))  # warps are vectors, threads are fibers

# Of each line of `banks`, of one warp: wavefronts, and those that are conflicts. From CUDA's rule, by hand.
BANKS = {"row": (1, 0), "column": (32, 31), "padded": (1, 0), "every second": (2, 1), "one word": (2, 0),
         "pairs of a column": (16, 15), "doubles": (2, 0), "every second double": (4, 2), "fours": (4, 0),
         "every second four": (8, 4), "bytes": (1, 0), "half of a column": (16, 15), "atomics at one word": (32, 31),
         "atomics of a row": (1, 0), "doubles, backwards": (2, 0)}

# Words at which two threads race: {(kernel, name of one line, name of the other, between): words}, whatever the order of the two.
HAZARDS = {
    # each thread's word is read by one of another warp, in two CTAs
    ("unordered", "unordered load", "unordered store", "warps"): 256,
    # thread 0 reads the words of 31 lanes of its warp and of 96 threads of others
    ("summed_by_one", "summed load", "summed store", "lanes"): 31,
    ("summed_by_one", "summed load", "summed store", "warps"): 96,
    ("lanes_unordered", "lanes load", "lanes store", "lanes"): 128,
    # three warps write what the one before them wrote
    ("overwritten", "overwritten", "overwritten", "warps"): 96,
    # bytes: 124 of them are a neighbour's in the same warp, 3 of another's
    ("halves_meet", "halves load", "halves store", "lanes"): 124,
    ("halves_meet", "halves load", "halves store", "warps"): 3,
    # thread 0's store and the atomics of 63 others; its own atomic hides nothing
    ("set_late", "added", "set", "lanes"): 31,
    ("set_late", "added", "set", "warps"): 32,
    # thread t reads what warp t counted
    ("read_early", "binned", "read out", "lanes"): 1,
    ("read_early", "binned", "read out", "warps"): 3,
    # each lane's word was read by its neighbour, then by itself
    ("neighbours_first", "changed", "next", "lanes"): 32,
    # thread 63 stores what both warps have read; its own one is behind a __syncwarp
    ("two_warps", "both warps", "by one", "warps"): 1,
}


def anywhere():
    """Different words of the fullest bank for the line "anywhere"."""
    words = {(i * i * 7 + i * 13) % 1024 for i in range(32)}
    return max(sum(1 for w in words if w % 32 == b) for b in range(32))


def program(world, *flags):
    return world.compile(os.path.join(world.src, "onchip.cu"), "-O2", *flags)


def names(world, source="onchip.cu"):
    """{line: name}"""
    with open(os.path.join(world.src, source)) as f:
        return {i: text.split("// ")[1].strip() for i, text in enumerate(f, 1) if "// " in text}


def shared(world, result, *options):
    out = json.loads(world.call([world.tool("mt-extract"), "-s", "shared", *options, result.path() + ".mtc"]).stdout)
    return dict(out["shared"], complete=out["complete"])


def check_banks(world, got, ctas=2):
    name, want = names(world), {**BANKS, "anywhere": (anywhere(), anywhere() - 1)}
    kernels = [launch["kernel"] for launch in got["launches"]]
    found = {}
    for c in got["banks"]:
        if kernels[c["launch"]] == "banks":
            at = found.setdefault(name[c["line"]], [0, 0])
            at[0] += c["wavefronts"]
            at[1] += c["conflicts"]
    same("wavefronts and conflicts", found, {k: [ctas * a, ctas * b] for k, (a, b) in want.items()})


def check_hazards(world, got, source="onchip.cu", want=HAZARDS):
    name, found = names(world, source), {}
    for h in got["hazards"]:
        sides = sorted(name.get(h[i]["line"], f"line {h[i]['line']}") for i in ("first", "second"))
        key = (h["kernel"], *sides, h["between"])
        found[key] = found.get(key, 0) + h["count"]
    same("hazards", found, want)
    same("judged", (got["unjudged"], got["parted"]), (0, 0))


@case("onchip.banks")
def onchip_banks(world):
    """Bank conflicts of accesses whose banks are known. Accesses of fibers are as many, and not grouped into requests."""
    results = [world.run_ok(program(world, SPACES, *way), MEMTRACE_FORMAT="compact") for way in WAYS]
    same("words", [r.err for r in results], ["", ""])
    vectors, got = (shared(world, r) for r in results)
    check_banks(world, vectors)
    for what in "banks", "local":
        volumes = [sorted((c["launch"], c["line"], c["column"], c["type"], c["accesses"], c["bytes"]) for c in x[what]) for x in (vectors, got)]
        same(f"{what} of fibers", volumes[1], volumes[0])
        same("requests", {(c["requests"], c.get("wavefronts", 0), c.get("worst", 0)) for c in got[what]}, {(0, 0, 0)})
    result = results[1]
    columns = {}
    for c in got["banks"] + got["local"]:
        columns.setdefault(c["line"], set()).add(c["column"])
    holds("a line with two accesses", any(len(c) > 1 for c in columns.values()))
    text = world.call([world.tool("mt-extract"), "-s", "shared", "-f", "text", "--top=1000", result.path() + ".mtc"]).stdout
    holds("words of what is not grouped", "are not grouped into requests" in text and
          all("not grouped" in row for row in re.findall(r"(?m)^  onchip\.cu:.*", text.split("Hazards of")[0])))
    places = re.findall(r"(?m)^  onchip\.cu:([\d:]+) ", text.split("Hazards of")[0])
    same("columns where they tell accesses apart", set(places),
         {f"{c['line']}:{c['column']}" if len(columns[c["line"]]) > 1 else str(c["line"]) for c in got["banks"]})


@case("onchip.addresses")
def onchip_addresses(world):
    """The second pass, for addresses, is told of global memory alone, whatever the first one needs."""
    examples = os.path.join(world.src, "../../../examples")
    app = world.compile(os.path.join(examples, "reduction/reduction.cu"), "-O2", "-I" + os.path.join(examples, "common"), SPACES)
    trace = world.run_ok(app, MEMTRACE_FORMAT="compact").path() + ".mtc"
    got = {s: json.loads(world.call([world.tool("mt-extract"), "-s", s, trace]).stdout) for s in ("addresses", "addresses,shared")}
    holds("there are addresses", got["addresses"]["addresses"])
    same("addresses", got["addresses,shared"]["addresses"], got["addresses"]["addresses"])


@case("onchip.hazards")
def onchip_hazards(world):
    """Accesses that no barrier orders are found, word by word, and no others."""
    for way in WAYS:
        check_hazards(world, shared(world, world.run_ok(program(world, SPACES, *way), MEMTRACE_FORMAT="compact")))


def tensors(world, *more):
    folder = os.path.join(os.path.dirname(os.path.dirname(world.src)), "conformance")
    app = world.compile(os.path.join(folder, "tensor.cu"), "-O1", "-std=c++17", "-arch=sm_90a", *more, "-I" + folder, SPACES, "--mt-gpu-trace=off")
    return shared(world, world.run_ok([app, "--out", os.devnull], MEMTRACE_FORMAT="compact"))


@case("onchip.tensors")
def onchip_tensors(world):
    """The side of shared memory of tensor copies: blocks, and chunks of 16 bytes where a swizzle leaves gaps: rows of half its
    span, 24 of them, of 1, 2 and 4 chunks in tests/conformance/tensor.cu. Blocks up to 32 bytes, of which there are 3, are
    looked at, too. The kernel runs a thread at a time: no wavefronts. None has a hazard; without the wait for its barrier, each word of a box is one."""
    got = tensors(world)
    kernels = [launch["kernel"] for launch in got["launches"]]
    mine = [c for c in got["banks"] if kernels[c["launch"]] == "load" and c["type"] == "store"]
    same("chunks: not grouped", {(c["requests"], c["wavefronts"], c["conflicts"]) for c in mine}, {(0, 0, 0)})
    same("hazards", got["hazards"], [])
    raced = tensors(world, "-DNO_WAIT=1")["hazards"]
    same("kernels with hazards", {(h["kernel"], h["kind"], h["first"]["type"], h["second"]["type"]) for h in raced}, {("load", "RAW", "store", "load")})
    same("between", {h["between"] for h in raced}, {"warps", "lanes", "thread"})


def local_of(world, got):
    """{(name or line, type): accesses}"""
    name, out = names(world), {}
    for c in got["local"]:
        key = (name.get(c["line"], c["line"]), c["type"])
        out[key] = out.get(key, 0) + c["accesses"]
    return out


@case("onchip.local")
def onchip_local(world):
    """Local arrays, and pointers of which only the run shows where they lead."""
    for way in WAYS:
        result = world.run_ok(program(world, SPACES, *way), MEMTRACE_FORMAT="compact")
        got = shared(world, result)
        found = local_of(world, got)
        same("local", {k: found.get(k) for k in (("local store", "store"), ("local load", "load"), ("anywhere load", "load"))},
             {("local store", "store"): 8 * 64, ("local load", "load"): 12 * 64, ("anywhere load", "load"): 4 * 64})
        kernels = [launch["kernel"] for launch in got["launches"]]
        loads = sum(c["accesses"] for c in got["banks"]
                    if names(world).get(c["line"]) == "anywhere load" and kernels[c["launch"]] == "mixed")
        same("shared loads of a pointer", loads, 4 * 64)


def sums(world, result):
    """Launches, CTAs, records, loads, stores, atomics, bytes of each kernel: what memtrace dump --stat says but for addresses."""
    path = result.path() if os.path.exists(result.path()) else result.path() + ".mtc"
    rows = [row.split() for row in world.call([world.tool("mt-dump"), "--stat", path]).stdout.splitlines()[1:]]
    return [(row[:9], row[-1]) for row in rows]


@case("onchip.beside")
def onchip_beside(world):
    """What is recorded of global memory, and the program's output, are the same with and without; raw traces have nothing else."""
    plain, more = program(world), program(world, SPACES)
    out = world.run_ok(plain, traced=False).out
    before = world.run_ok(plain, MEMTRACE_FORMAT="compact")
    threads = program(world, SPACES, *WAYS[1])
    for app, way in ((more, {}), (threads, {}), (more, {"MEMTRACE_FORMAT": "raw"}), (more, {"MEMTRACE_CHECK": "1"}),
                     (threads, {"MEMTRACE_CHECK": "1"})):
        result = world.run_ok(app, **{"MEMTRACE_FORMAT": "compact", **way})
        same(f"output {way}", result.out, out)
        same(f"global memory {way}", sums(world, result), sums(world, before))
        raw = os.path.exists(result.path())
        end = result.companion().end() if raw else cases_compact.read(result)[1].end()
        holds(f"complete {way}", end["complete"])
        same(f"beside it {way}", "others_written" in end, not raw)
    refused = world.call([world.tool("mt-extract"), "-s", "shared", before.path() + ".mtc"], 2).stderr
    holds("the way out", "--mt-spaces=global,shared,local" in refused)


def totals(world, result):
    """Without lines: sums of shared and of local memory per kernel and type; threads at barriers; words with hazards."""
    got = shared(world, result)
    kernels, out = [launch["kernel"] for launch in got["launches"]], {}
    for what in ("banks", "local"):
        for c in got[what]:
            at = out.setdefault((what, kernels[c["launch"]], c["type"]), [0] * 4)
            for i, key in enumerate(("accesses", "bytes", "wavefronts", "conflicts")):
                at[i] += c.get(key, 0)
    # No hazards: on the stand-in shared addresses are whole pointers, not what lies before them in the CTA's.
    kernel = None
    for line in world.call([world.tool("mt-dump"), "--runs", result.path() + ".mtc"]).stdout.splitlines():
        kernel = line.split()[2] if line.startswith("launch ") else kernel
        for what in ("barrier 1 x ", "arrive 1 x ", "warp barrier 4 x ", "barrier 8 x ", "arrive 8 x "):
            if line.startswith(what):
                out[what, kernel] = out.get((what, kernel), 0) + int(line[len(what):].split()[0])
    # in which parts the lanes of a warp come there is not the same in all ways: those that wait in a loop, and those that atomics wait for
    return {key: n for key, n in out.items() if key[0] not in ("banks", "local") or key[1] not in ("through_memory", "set_late")}


@case("onchip.text")
def onchip_text(world):
    """The GPU's code, on the stand-in for a GPU: the same as the CPU device's."""
    app = program(world, SPACES)
    a, b = (totals(world, world.run_ok(app, MEMTRACE_FORMAT="compact", **way)) for way in ({}, STANDIN))
    same("shared and local memory", b, a)
    holds("barriers", a["barrier 1 x ", "ordered"] == 3 * 2 * 128 and a["arrive 1 x ", "handed_over"] == 3 * 2 * 128)


@case("onchip.matrix")
def onchip_matrix(world):
    """A tile of 16 x 16: halves are 512 bytes, floats 1024, of 128 bytes a wavefront. Of ldmatrix's rows, 32 bytes apart, each second one
    has the same banks."""
    app = world.compile(os.path.join(world.src, "onchip_matrix.cu"), "-O2", "--cuda-gpu-arch=sm_80", SPACES)
    result = world.run_ok([app], MEMTRACE_FORMAT="compact")
    same("the product", result.out, "16\n")
    name, found = names(world, "onchip_matrix.cu"), {}
    got = shared(world, result)
    for c in got["banks"]:
        if c["line"] in name:
            found[name[c["line"]]] = (c["requests"], c["wavefronts"], c["conflicts"])
    tile = {"wmma load": (1, 4, 0), "wmma store": (1, 8, 0), "ldmatrix": (1, 8, 4)}
    same("requests, wavefronts, conflicts", {k: found.get(k) for k in tile}, tile)
    check_hazards(world, got, "onchip_matrix.cu", {("read_too_early", "loaded by the other", "stored by one warp", "warps"): 256})


@case("onchip.versus")
def onchip_versus(world):
    """Two runs side by side: what is on the chip counts, too, and a summary says it."""
    app = program(world, SPACES)
    kernels = re.findall(r"kernel (\w+)", world.call([world.tool("mt-run"), "--list", app]).stdout)
    holds(f"each kernel once: {kernels}", "unordered" in kernels and len(kernels) == len(set(kernels)) and not any("memtrace" in k for k in kernels))
    run = world.run_ok(app, MEMTRACE_FORMAT="compact")
    path = run.path() + ".mtc"
    compare = [world.tool("mt-compare"), "--volumes", "--format=json"]
    name = names(world)
    both = json.loads(world.call([*compare, path, path]).stdout)
    same("verdict", both["verdict"], "same")
    direct = shared(world, run)
    same("all conflicts", both["all"]["bank_conflicts"]["a"], sum(c["conflicts"] for c in direct["banks"]))
    same("all hazards", both["all"]["hazards"]["a"], sum(h["count"] for h in direct["hazards"]))
    same("all of local memory", both["all"]["local"]["a"], sum(c["bytes"] for c in direct["local"]))
    kernels = {k["a"]: k for k in both["kernels"]}
    same("hazards of a kernel", kernels["unordered"]["hazards"]["b"], 256)
    lines = {name.get(int(line["a"].rsplit(":", 1)[1])): line for line in kernels["banks"]["lines"] if line["a"] != "?"}
    same("conflicts of a line", lines["column"]["bank_conflicts"]["a"], 2 * BANKS["column"][1])
    same("of global memory it has nothing", (lines["column"]["accesses"], lines["column"]["sectors"]), ({"a": 0, "b": 0, "change": None},) * 2)
    text = world.call([world.tool("mt-compare"), "--volumes", path, path]).stdout
    holds("columns of the text", "bank conflicts  hazards  bytes local" in re.sub(" {2,}", "  ", text))
    without = world.run_ok([world.compile(os.path.join(world.src, "onchip.cu"), "-O2")], MEMTRACE_FORMAT="compact").path() + ".mtc"
    one = json.loads(world.call([*compare, path, without]).stdout)
    same("what one run does not know", one["all"]["bank_conflicts"]["b"], None)
    holds("nor the other", "bank_conflicts" not in json.loads(world.call([*compare, without, without]).stdout)["all"])
    before = world.compile(os.path.join(world.src, "versus", "before", "transpose.cu"), "-O2")  # uses no shared memory
    none = world.run_ok([before], MEMTRACE_FORMAT="compact", MEMTRACE_SPACES="global,shared").path() + ".mtc"
    for a, b in ((path, none), (none, path)):
        some = json.loads(world.call([*compare, a, b]).stdout)
        same("recorded, and none", [some["all"]["bank_conflicts"][side] == 0 for side in "ab"], [a == none, b == none])
        holds("both know it: " + some["sentence"], "not compared" not in some["sentence"])
    page = os.path.join(world.folder("page"), "r.html")
    world.call([world.tool("mt-report"), path, "--", path, "-o", page])
    holds("the page", "wavefronts of bank conflicts" in open(page, encoding="utf-8").read())
    world.call([world.tool("mt-report"), without, "--", without, "-o", page])
    holds("a page without", "wavefronts of bank conflicts" not in open(page, encoding="utf-8").read())
    for there, text in ((path, "to shared and local memory are left out"), (without, "")):
        for words in (["mt-dump", "--stat", there], ["mt-dump", "-f", "csv", there], ["mt-convert", "--to", "raw", "-o", os.path.join(world.folder("raw"), "t"), there]):
            err = world.call([world.tool(words[0]), *words[1:]]).stderr
            holds(f"{words}: {err}", text in err if text else not err)
    same("nothing is left out", world.call([world.tool("mt-dump"), "--runs", path]).stderr, "")
    says = world.call([world.tool("mt-extract"), "--format=summary", path]).stdout
    lost, waves = (sum(c[k] for c in direct["banks"]) for k in ("conflicts", "wavefronts"))
    holds("the summary: " + says, f"! Bank conflicts cause {100 * lost / waves:.1f} % of the wavefronts of shared memory" in says and
          "hazards in shared memory (no barrier between accesses of two threads), the largest in lanes_unordered: store" in says)
    holds("a summary without", "shared memory" not in world.call([world.tool("mt-extract"), "--format=summary", without]).stdout)
    rows = world.call([world.tool("mt-dump"), "--format=csv", path]).stdout.splitlines()
    same("columns of CSV", rows[0], "launch,kernel,type,bytes,address,cta_x,cta_y,cta_z,sm")
    plain = [line for line in world.call([world.tool("mt-dump"), path]).stdout.splitlines() if " cta " in line]
    same("records", len(rows) - 1, len(plain))
    kind, size, address, _, cta, _, sm = plain[0].split()
    same("the first one", rows[1].split(",")[2:], [kind, size, str(int(address, 16)), *cta.split(","), sm])
    world.call([world.tool("mt-dump"), "--format=csv", "--stat", path], code=2)
    world.call([world.tool("mt-report"), "--format=pdf", path], code=2)
