"""mat mode: graphs computed by hand, and what switches tracing on and off."""
import collections
import itertools
import os
import re
import signal
import struct
import subprocess

from harness import Skipped, case, clean, holds, same, size, until
from world import ENGINES, MACHINE


def summary(graph, sizes):
    """Nodes {(name, stride, type): count} and edges {(node, node): count} of the buffers with these sizes; buffers of
    equal size are distinguished by a number at the end: 5008, 5008#2."""
    names, seen = {}, collections.Counter()
    for b in sorted((b for b in graph["buffers"] if b["size"] in sizes), key=lambda b: b["id"]):
        seen[b["size"]] += 1
        names[b["id"]] = str(b["size"]) + (f"#{seen[b['size']]}" if seen[b["size"]] > 1 else "")
    nodes = {n["id"]: (names[n["buffer"]], n["stride"], n["type"]) for n in graph["nodes"] if n["buffer"] in names}
    counts = {nodes[n["id"]]: n["count"] for n in graph["nodes"] if n["id"] in nodes}
    edges = {(nodes[e["from"]], nodes[e["to"]]): e["count"] for e in graph["edges"]
             if e["from"] in nodes and e["to"] in nodes}
    return counts, edges, seen


# strides.c by hand. 1000 writes make 999 strides of 8; 200 reads from offset 0 on: one of 0 - 7992, 199 of 40; and so on.
A, B = "8000", "1200"
NODES = {(A, 8, "write"): 999, (A, -7992, "read"): 1, (A, 40, "read"): 199, (A, -7960, "read"): 1, (A, 8, "read"): 299,
         (B, 4, "write"): 299, ("5008", -16, "write"): 312, ("5008#2", 24, "write"): 208, ("90000", 4, "read"): 149,
         ("7200", 8, "write"): 899, ("7200", 24, "write"): 299}
EDGES = {((A, 8, "write"), (A, 8, "write")): 998, ((A, 8, "write"), (A, -7992, "read")): 1,
         ((A, -7992, "read"), (A, 40, "read")): 1, ((A, 40, "read"), (A, 40, "read")): 198,
         ((A, 40, "read"), (A, -7960, "read")): 1, ((A, -7960, "read"), (A, 8, "read")): 1,
         ((A, 8, "read"), (B, 4, "write")): 299, ((B, 4, "write"), (A, 8, "read")): 298,
         ((B, 4, "write"), ("5008", -16, "write")): 1, (("5008", -16, "write"), ("5008", -16, "write")): 311,
         (("5008#2", 24, "write"), ("5008#2", 24, "write")): 207, (("5008#2", 24, "write"), ("90000", 4, "read")): 1,
         (("90000", 4, "read"), ("90000", 4, "read")): 148,
         (("7200", 8, "write"), ("7200", 8, "write")): 898, (("7200", 24, "write"), ("7200", 24, "write")): 298}
SIZES = {8000, 1200, 5008, 90000, 7200}


def check_graph(what, graph, nodes, edges):
    got_nodes, got_edges, seen = summary(graph, SIZES)
    same(f"{what}: nodes", got_nodes, nodes)
    # From the last node of walk() and again() to what comes next there are other edges, through the allocator's work.
    same(f"{what}: edges", {k: v for k, v in got_edges.items() if k in edges or k[0][0] == k[1][0]}, edges)
    return seen


@case("mat.graph", *ENGINES)
def graph(w):
    program = w.compile("strides.c", "-O1")
    native = w.call([program]).stdout
    result = w.host("mat", "--", program)
    same("output", result.out, native)
    g = w.graph(result.trace)
    seen = check_graph("container", g, NODES, EDGES)
    same("buffers", dict(seen), {8000: 1, 1200: 1, 5008: 2, 90000: 1, 7200: 1})
    holds("the trace is complete", g["complete"])
    if w.engine == "llvm":  # which knows variables: those that first lead to what malloc gave
        names = {b["size"]: b["name"] for b in g["buffers"] if b["size"] in SIZES}
        same("names", [names[k] for k in (8000, 1200)], ["a", "b"])
        dot = w.call([w.tool("mt-graph"), result.trace]).stdout
        holds("names in the drawing", ":a 8 8000 " in dot and ":b 4 1200 " in dot)
    fives = [b for b in g["buffers"] if b["size"] == 5008]
    if native.split()[1] == "1" and result.out.split()[1] == "1":
        same("the second buffer of 5008 bytes has the address of the first", fives[0]["base"], fives[1]["base"])


@case("mat.grown", "llvm")
def grown(w):
    """What realloc makes of NULL is called after its variable, unoptimised and optimised."""
    for level in ("-O0", "-O1", "-O2"):
        result = w.host("mat", "--", w.compile("grown.c", level))
        same(f"{level}: output", result.out, "374250\n")
        names = {b["size"]: b["name"] for b in w.graph(result.trace)["buffers"]}
        same(f"{level}: names", (names.get(4000), names.get(8000)), ("constant", "grown"))


@case("mat.threshold", *ENGINES)
def threshold(w):
    program = w.compile("strides.c", "-O1")
    result = w.host("mat", "--threshold=4096", "--", program)
    g = w.graph(result.trace)
    small = [b for b in g["buffers"] if 0 < b["size"] < 4096]
    same("buffers below the threshold", small, [])
    nodes = {k: v for k, v in NODES.items() if k[0] != B}
    edges = {k: v for k, v in EDGES.items() if B not in (k[0][0], k[1][0])}
    edges[(A, 8, "read"), (A, 8, "read")] = 298
    edges[(A, 8, "read"), ("5008", -16, "write")] = 1
    check_graph("threshold", g, nodes, edges)


@case("mat.text", *ENGINES)
def text(w):
    """The text trace has the same accesses."""
    program = w.compile("strides.c", "-O1")
    rows = w.mat(w.host("mat", "--threshold=5000", "--", program, trace="mat.txt"))
    got = collections.Counter((size, offset, kind, n) for _, _, offset, _, kind, n, size, _ in rows if size in SIZES)
    want = collections.Counter()
    want.update((8000, 8 * i, 2, 8) for i in range(1000))
    want.update((8000, 40 * i, 1, 8) for i in range(200))
    want.update((8000, 8 * i, 1, 8) for i in range(300))
    want.update((5008, 8 * i, 2, 8) for i in range(625, -1, -2))
    want.update((5008, 8 * i, 2, 8) for i in range(0, 626, 3))
    want.update((90000, 4 * i, 1, 4) for i in range(150))
    want.update((7200, 8 * i, 2, 8) for i in range(900))
    want.update((7200, 24 * i, 2, 8) for i in range(300))
    same("accesses", dict(got), dict(want))
    for _, address, offset, base, _, _, size, place in rows:
        same("offset", offset, address - base)
        holds(f"offset {offset} lies in {size} bytes", 0 <= offset < size)
        if size in SIZES and size != 90000:
            holds(f"place {place!r}", "strides.c" in place)


@case("mat.files", *ENGINES)
def files(w):
    """--mat-files: the two files as MAT's script reads them. A write has type 0; each address of an instruction in the one
    file has its line in the other; the accesses are those of the plain text."""
    program, folder = w.compile("strides.c", "-O1"), w.path("files")
    os.mkdir(folder)
    result = w.host("mat", "--mat-files", "--threshold=5000", "--", program, trace=os.path.join(folder, "x.txt"))
    same("files", sorted(os.listdir(folder)), ["sourcelines.txt", "x.txt"])
    with open(result.trace, encoding="utf-8") as f:
        lines = f.read()
    holds("every line is seven numbers", re.fullmatch(r"(\d+ \d+ \d+ \d+ [01] \d+ \d+\n)+", lines))
    rows = [tuple(map(int, x.split())) for x in lines.splitlines()]
    with open(os.path.join(folder, "sourcelines.txt"), encoding="utf-8") as f:
        places = [x.rstrip("\n").split(" ") for x in f]
    same("two words in each line, the second one with its line", [x for x in places if len(x) != 2 or
                                                                 not re.fullmatch(r".*:\d+", x[1])], [])
    ips = [int(x[0]) for x in places]
    same("instructions ascend, each once", ips, sorted({r[0] for r in rows}))
    place = dict(zip(ips, (x[1].rsplit("/", 1)[-1] for x in places)))
    text = open(os.path.join(w.src, "strides.c"), encoding="utf-8").read().splitlines()

    def at(words):  # the line of the source after the comment
        return f"strides.c:{1 + next(i for i, t in enumerate(text) if words in t)}"
    got = collections.Counter((r[2], r[4], place[r[0]]) for r in rows if r[6] == 8000)
    want = collections.Counter((8 * i, 0, at("a[i] = i;")) for i in range(1000))
    want.update((40 * i, 1, at("sum += a[i];")) for i in range(200))
    want.update((8 * i, 1, at("b[i] = (int)a[i];")) for i in range(300))
    same("accesses to the buffer of 8000 bytes", dict(got), dict(want))
    plain = w.mat(w.host("mat", "--threshold=5000", "--", program, trace="plain.txt"))
    same("accesses of the plain text", collections.Counter((r[2], r[4] % 2, *r[5:7]) for r in rows if r[6] in SIZES),
         collections.Counter((r[2], r[4] % 2, *r[5:7]) for r in plain if r[6] in SIZES))
    nodes = {k: v for k, v in summary(w.graph(result.trace), {8000})[0].items()}
    same("mt-graph of it", nodes, {k: v for k, v in NODES.items() if k[0] == A})
    drawn = w.graph(result.trace, "--node", "buffer,stride,type,site")
    a = {b["id"] for b in drawn["buffers"] if b["size"] == 8000}
    same("its lines", sorted({n["site"].rsplit("/", 1)[-1] for n in drawn["nodes"] if n["buffer"] in a}),
         sorted({x[2] for x in want}))


@case("mat.files_named", *MACHINE)
def files_named(w):
    """Without -o: memtrace.txt and sourcelines.txt in the current folder. What is not a file of its own leaves the places there,
    too. A container is refused."""
    program = w.compile("hello.c", "-O1")
    for words, want in (([], ["memtrace.txt", "sourcelines.txt"]), (["-o", "/dev/null"], ["sourcelines.txt"]),
                        (["-o", "a/b.txt"], ["a"])):
        folder = w.path("named")
        os.makedirs(os.path.join(folder, "a"))
        w.call([w.tool("mt-host"), "--engine=qemu", "mat", "--mat-files", *words, "--", program], cwd=folder)
        same(f"{words}: files", sorted(x for x in os.listdir(folder) if x != "a" or os.listdir(f"{folder}/a")), want)
    same("beside the trace", sorted(os.listdir(f"{folder}/a")), ["b.txt", "sourcelines.txt"])
    process = w.call([w.tool("mt-host"), "mat", "--mat-files", "-o", "x.mtc", "--", program], code=2)
    holds(f"a container is refused: {process.stderr}", "--mat-files" in process.stderr and "x.mtc" in process.stderr)


@case("mat.reads_everywhere", *ENGINES)
def outside(w):
    """With --all 1 accesses outside all allocations are there, too."""
    program = w.compile("strides.c", "-O0")
    few = w.mat(w.host("mat", "--", program, trace="few.txt"))
    more = w.mat(w.host("mat", "--all", "1", "--", program, trace="all.txt"))
    holds(f"{len(more)} accesses with --all, {len(few)} without", len(more) > len(few))


def bounds(offsets, count, on, off, slack):
    """Traced indices: one run that begins within `slack` after `on` and ends within `slack` after `off`."""
    holds("something was traced", offsets)
    first, last = offsets[0] // 8, offsets[-1] // 8
    same("one run without gaps", [o // 8 for o in offsets], list(range(first, last + 1)))
    holds(f"begins at {first}, signal before {on}", on <= first <= on + slack)
    holds(f"ends at {last}, signal before {off}", off - 1 <= last <= off + slack)


@case("mat.signal", *ENGINES)
def signals(w):
    """SIGUSR1 and SIGUSR2 switch within 1,000 instructions: an iteration has 5 or more."""
    program = w.compile("switched.c", "-O1")
    count, on, off = 60000, 20000, 40000
    result = w.host("mat", "--signal", "--threshold=100000", "--", program, count, on, off, trace="switched.txt")
    same("output", result.out, f"{count - 1}\n")
    rows = [r for r in w.mat(result) if r[6] == 8 * count and r[4] == 2]
    bounds([r[2] for r in rows], count, on, off, 200)


@case("mat.signal_from_outside", *ENGINES)
def signals_outside(w):
    """Sent to memtrace host, as a user does, while the program runs. It stores again and again where the signals come: the trace grows, or not."""
    program, position, trace = w.compile("switched.c", "-O1"), w.path("position"), w.path("out.txt")

    def now():
        with open(position, "rb") as f:
            return struct.unpack("<3q", f.read(24))

    def go_to(i):
        with open(position, "r+b") as f:
            f.seek(8)
            f.write(struct.pack("<q", i))
        until(f"index {i}", lambda: now()[0] == i, host)

    def off():
        before, stored = size(trace), now()[2]
        until("stores", lambda: now()[2] > stored + 100000, host)  # as text, more than any buffer has
        return size(trace) == before

    count, on_at, off_at = 60000, 5000, 15000
    with open(position, "wb") as f:
        f.write(struct.pack("<3q", 0, on_at, 0))
    command = [w.tool("mt-host"), f"--engine={w.engine}", "mat", "--signal", "--threshold=100000", "-o", trace, "--",
               program, str(count), "0", "0", position]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=clean()) as host:
        go_to(on_at)
        host.send_signal(signal.SIGUSR1)
        until("text", lambda: size(trace), host)
        go_to(off_at)
        host.send_signal(signal.SIGUSR2)
        until("the end of text", off, host)
        go_to(off_at + 1000)
        host.send_signal(signal.SIGTERM)
        code = host.wait(300)
        errors = host.stderr.read().decode()
    same(f"exit code; {errors}", code, 128 + signal.SIGTERM)
    rows = [r[2] // 8 for r in w.mat(type("R", (), {"trace": trace})) if r[6] == 8 * count and r[4] == 2]
    same("one run from signal to signal", [i for i, _ in itertools.groupby(rows)], list(range(on_at, off_at + 1)))


def inside(rows, size):
    return sorted(r[2] for r in rows if r[6] == size)


OUTER = sorted(1000 * d + o for d in range(3) for o in [*range(10), *range(100, 200), *range(200, 300), 900])


@case("mat.routine", *ENGINES)
def routine(w):
    """--routine holds through calls, function pointers, recursion and longjmp; other callers of the same are left out."""
    for level in ("-O0", "-O2"):
        program = w.compile("routines.c", level)
        words = ["--routine=outer", "--routine", "outer_tail", "--routine=outer_left", "--", program]
        rows = w.mat(w.host("mat", *words, trace="routine.txt"))
        same(f"{level}: outer", inside(rows, 6666), OUTER)
        same(f"{level}: outer_tail and the helper it ends in", inside(rows, 5555), [0, *range(100, 200)])
        same(f"{level}: outer_left", inside(rows, 4444), [0, 107])
        same(f"{level}: called by main", inside(rows, 7777), [])
        rows = w.mat(w.host("mat", "--routine=helper", "--", program, trace="helper.txt"))
        same(f"{level}: helper", inside(rows, 7777), [1000 * k + i for k in range(4) for i in range(100)])
        same(f"{level}: outer's own", [o for o in inside(rows, 6666) if o % 1000 < 100], [])


@case("mat.own", *ENGINES)
def own(w):
    """--own: no access of a library's code, in buffers of the program either; what the program does, by itself and under
    qsort, is all there. With lazy binding the loader's xsave runs after each first call."""
    program = w.compile("own.c", "-O1", "-Wl,-z,lazy")
    rows = w.mat(w.host("mat", "--own", "--all", "--", program, trace="own.txt"))
    same("places", sorted({r[7].rsplit("/", 1)[-1].split(":")[0] for r in rows if r[7]}), ["own.c"])
    at = next(r[0] for r in rows if r[7])  # what begins the program has no line, but is near; libraries are not
    holds("no library's code", all(abs(r[0] - at) < 0x10000 for r in rows))
    same("writes to the buffer", sorted(r[2] for r in rows if r[6] == 3200 and r[4] == 2), [8 * i for i in range(400)])
    reads = collections.Counter(r[2] for r in rows if r[6] == 3200 and r[4] == 1)
    same("elements read", sorted(reads), [8 * i for i in range(400)])
    holds("the comparisons read two each, and main each once", sum(reads.values()) >= 400 + 2 * 399)
    words = collections.defaultdict(set)
    for r in rows:
        if not r[7]:
            words[r[0]].add(r[1])
    holds("a jump to a library reads its word, not what the loader reads", all(len(x) < 9 for x in words.values()))
    rows = w.mat(w.host("mat", "--own", "--routine=compare", "--", program, trace="compare.txt"))
    same("compare reads", {(r[4], r[5]) for r in rows if r[6] == 3200}, {(1, 8)})
    same("and nothing else", {r[6] for r in rows}, {3200})


@case("mat.routine_unwound", *ENGINES)
def unwound(w):
    """--routine and exceptions: caught inside, and outside."""
    for level in ("-O0", "-O2"):
        program = w.compile("unwinds.cpp", level)
        rows = w.mat(w.host("mat", "--routine=outer", "--", program, trace="unwound.txt"))
        same(f"{level}: outside", inside(rows, 7777), [])
        same(f"{level}: inside", inside(rows, 6666), [1000 * i + o for i in range(3) for o in (7, 50, 60, 107, 150)])


@case("mat.killed", *ENGINES)
def killed(w):
    """A program that is killed leaves a trace that can be read, and says that it is cut."""
    program = w.compile("lives.c", "-O1")
    for number in (signal.SIGTERM, signal.SIGKILL, signal.SIGSEGV):
        result = w.host("mat", "--", program, "killed", int(number), code=128 + number)
        process = subprocess.run([w.tool("mt-graph"), "-f", "json", result.trace], capture_output=True, text=True)
        holds(f"mt-graph after signal {number}: exit code {process.returncode} {process.stderr}",
              process.returncode in (0, 3))
        if number == signal.SIGKILL:
            same("mt-graph says that the trace is cut off", process.returncode, 3)


@case("mat.broken", *MACHINE)
def broken(w):
    """A fault leaves of its block what came before it, not the access that failed; registers that the program changes
    and never reads stay its own; a program that dies of a trap ends."""
    program = w.compile("broken.c", "-O1", "-fomit-frame-pointer")
    for words in ([], ["trap"]):
        native = subprocess.run([program, *words], capture_output=True, text=True, env=clean())
        result = w.host("mat", "--", program, *words, trace="t.txt", code=None, timeout=300)
        same("output", result.out, native.stdout)
        same("exit code", result.code, native.returncode if native.returncode >= 0 else 128 - native.returncode)
        seen = collections.Counter((allocated, offset, {1: "r", 2: "w"}[kind])
                                   for _, _, offset, _, kind, _, allocated, _ in w.mat(result)
                                   if allocated in (1777, 1888))
        same("accesses", dict(seen), {**{(1777, k, "w"): 100 for k in (0, 4, 12, 16)}, (1777, 8, "r"): 100,
                                      (1777, 12, "r"): 100, (1888, 0, "r"): 700, (1888, 4, "w"): 700})


@case("mat.jit", *MACHINE)
def jit(w):
    """Code that is written between its runs, and stores beside it: the program's registers stay its own, and all is
    seen."""
    program = w.compile("jit.c", "-O1")
    rounds = 300
    for trace in ("t.txt", "t.mtc"):
        result = w.host("mat", "--", program, trace=trace)
        same("output", result.out, f"wrong 0 sum {7 * rounds} added {1002 + 1000 * rounds}\n")
    result = w.host("mat", "--", program, trace="t.txt")
    seen = collections.Counter((allocated, offset, {1: "r", 2: "w"}[kind])
                               for _, _, offset, _, kind, _, allocated, _ in w.mat(result)
                               if allocated in (1777, 1888, 1999))
    want = {(1777, 0, "w"): 1, (1777, 0, "r"): rounds, (1888, 0, "w"): rounds, (1888, 0, "r"): rounds,
            (1999, 16, "r"): rounds + 1, (1999, 16, "w"): rounds + 1}  # `add` is both; printed once
    want.update({(1999, 8 * k, "r"): rounds for k in (0, 1, 3)})
    want.update({(1999, 8 * k, "w"): 1 for k in (0, 1, 3)})
    want.update({(1999, 8 * k, "w"): rounds for k in (4, 5, 6)})
    same("accesses", dict(seen), want)


@case("mat.avx512", "dynamorio")
def avx512(w):
    """Whole and masked vectors, a gather and a scatter: counts by hand. (qemu cannot run it: lives.refused.)"""
    with open("/proc/cpuinfo", encoding="utf-8") as f:
        if " avx512f" not in f.read():
            raise Skipped("this processor has no AVX-512")
    result = w.host("mat", "--", w.compile("avx512.c", "-O1"), trace="t.txt")
    lanes = [k for k in range(16) if 0xdb6d >> k & 1]
    same("output", result.out, f"{sum(2 * k for k in range(100)) - sum(4 * k for k in lanes)}\n")
    seen = collections.Counter((allocated, {1: "r", 2: "w"}[kind], size, offset if size != 4 else 0)
                               for _, _, offset, _, kind, size, allocated, _ in w.mat(result)
                               if allocated in (1777, 1888))
    want = {(1777, "w", 4, 0): 100, (1777, "r", 16, 384): 1, (1777, "r", 4, 0): len(lanes),
            (1888, "w", 16, 384): 1, (1888, "w", 4, 0): len(lanes), (1888, "r", 4, 0): 100}
    want.update({(block, kind, 64, 64 * k): 1 for block, kind in ((1777, "r"), (1888, "w")) for k in range(6)})
    same("accesses", dict(seen), want)


@case("mat.bits", *MACHINE)
def bits(w):
    """Where a register says which word of a string of bits is touched; enter stores one word; xsave as much as its mask
    says (qemu: in pieces). Counts by hand."""
    result = w.host("mat", "--", w.compile("bits.c", "-O1"), trace="t.txt")
    seen = collections.Counter((allocated, offset, size, {1: "r", 2: "w"}[kind])
                               for _, _, offset, _, kind, size, allocated, _ in w.mat(result)
                               if allocated in (1777, 1888) or (allocated == 4160 and w.engine == "dynamorio"))
    words = [(1777, 120, 8, "r"), (1888, 248, 8, "w"), (1888, 248, 8, "r")]
    words += [(1777, at, size, kind) for at, size in ((8, 4), (504, 8), (4, 2), (64, 8)) for kind in "rw"]
    want = {word: 5 for word in words}
    if w.engine == "dynamorio":
        want.update({(4160, 0, 832, "w"): 5, (4160, 0, 576, "w"): 5, (4160, 0, 576, "r"): 5})
        want.update({(4160, 8 * k, 8, "w"): 1 for k in range(65, 72)})
    same("accesses", dict(seen), want)
    holds("nothing is lost", "lost" not in result.err)
