"""One program, every engine: where they see the same, and exactly where they do not.

touches.c makes accesses to heap buffers that nothing else touches, by volatile and atomic operations. All engines must
see the same multiset of (buffer, offset, size, reads, writes), but for:
  - the compile-time engine sees memcpy, memset and memmove as one load and one store of all bytes, the others the
    instructions inside the C library: the same bytes, in other pieces;
  - engines on machine code see one access that reads and writes where the compiler merged a load and a store of the
    source into one instruction;
  - qemu's code for a compare-and-swap, as the processor, has no view of "failed" but ZF; text lines are the same;
  - the compile-time engine sees no library function: what free() and printf() do is not in its trace."""
import collections
import os
import re
import shutil
import subprocess

from harness import Skipped, case, clean, holds, need, same
from world import ENGINES, read_mat

BLOCKS = (1444, 1555)  # touched by memcpy, memset, memmove


def r(offset, size):
    return (offset, size, "r")


def wr(offset, size):
    return (offset, size, "w")


EXPECTED = {
    # sizes(): each object is written, then read for the next
    1111: [wr(0, 1), r(0, 1), wr(2, 2), r(2, 2), wr(4, 4), r(4, 4), wr(8, 8), r(8, 8), wr(16, 4), r(16, 4), wr(24, 8),
           r(33, 1), wr(33, 1), r(24, 8), r(0, 1)],
    # add, exchange, compare-and-swap: read and write; the one that fails reads
    1222: [r(0, 8), wr(0, 8), r(8, 8), wr(8, 8), r(16, 8), wr(16, 8), r(16, 8),
           r(16, 8)],
    1328: [wr(0, 16), r(0, 16), wr(32, 16)],
    1999: [access for i in range(0, 400, 3) for access in (r(4 * i + 4, 4), wr(4 * i, 4))],
}


def ranges(*spans):
    return {b for begin, length in spans for b in range(begin, begin + length)}


# Bytes read and written by blocks(): memcpy(d, e, 200), memset(d + 500, 1, 100), memmove(d + 100, d, 200), d[100].
COVERED = {(1444, "w"): ranges((0, 200), (500, 100), (100, 200)), (1444, "r"): ranges((0, 200), (100, 1)),
           (1555, "r"): ranges((0, 200)), (1555, "w"): set()}


def observe(w, engine, level="-O1"):
    program = w.compile("touches.c", level, "-fno-builtin", "-mno-sse3", engine=engine)
    native = w.call([program]).stdout
    result = w.host("mat", "--", program, trace=f"{engine}.txt", engine=engine)
    same("output", result.out, native)
    singles, covered = collections.defaultdict(collections.Counter), {k: set() for k in COVERED}
    for _, _, offset, _, kind, size, allocated, _ in w.mat(result):
        kinds = {1: "r", 2: "w"}[kind]
        if allocated in EXPECTED:
            singles[allocated][offset, size, kinds] += 1
        elif allocated in BLOCKS:
            covered[allocated, kinds] |= ranges((offset, size))
    return singles, covered


def check(w, engine, level):
    singles, covered = observe(w, engine, level)
    for buffer, accesses in EXPECTED.items():
        same(f"{engine} {level}: buffer of {buffer} bytes", dict(singles[buffer]), dict(collections.Counter(accesses)))
    for key, bytes_ in COVERED.items():
        same(f"{engine} {level}: bytes {key}", sorted(covered[key]), sorted(bytes_))


@case("engines.touches", *ENGINES)
def touches(w):
    for level in ("-O0", "-O1", "-O2"):
        check(w, w.engine, level)


@case("engines.differ")
def differ(w):
    """What the compile-time engine does not see: the C library and the stack's spills and return addresses."""
    if not (w.has("llvm") and w.has("qemu")):
        from world import Skipped
        raise Skipped("needs both engines")
    program = w.compile("touches.c", "-O1", engine="llvm")
    rows = {}
    for engine in ("llvm", "qemu"):
        # The instrumented program under qemu as well, with tracing of its own left off: the same machine code.
        rows[engine] = w.mat(w.host("mat", "--all", "1", "--", program, trace=f"{engine}-all.txt", engine=engine,
                                    env=clean(MEMTRACE_DIR=w.work)))
    same("traces besides", [n for n in os.listdir(w.work) if n.startswith("MemTrace")], [])
    places = {engine: {place.rsplit(":", 1)[0].rsplit("/", 1)[-1] for *_, place in rows[engine]} for engine in rows}
    same("files that the compile-time engine has accesses in", places["llvm"] - {""}, {"touches.c"})
    holds(f"qemu sees the C library, too: {len(rows['qemu'])} accesses, {len(rows['llvm'])}",
          len(rows["qemu"]) > 10 * len(rows["llvm"]))


def sample(w):
    """DynamoRIO's drrun, and its own sample client that writes each access, copied: it writes beside itself."""
    said = w.call([w.tool("mt-host"), "--engines"]).stdout
    found = re.search(r"^dynamorio +usable: (.*)/bin64/drrun$", said, re.M)
    for folder in ("samples/bin64", "api/bin") if found else ():
        library = os.path.join(found[1], folder, "libmemtrace_simple.so")
        if os.path.exists(library):
            os.makedirs(os.path.join(w.work, "sample"), exist_ok=True)
            return os.path.join(found[1], "bin64", "drrun"), shutil.copy(library, os.path.join(w.work, "sample"))
    raise Skipped("no DynamoRIO with its sample memtrace_simple here")


@case("engines.sample")
def counts_of_sample(w):
    """Reads and writes of whole programs, libraries and start included: DynamoRIO's own sample counts as many, to 0.2 %."""
    drrun, library = sample(w)
    steady = ["setarch", "-R"] if shutil.which("setarch") else []
    for command in ([need("true")], [need("sort"), "-n", os.path.join(w.source, "README.md")],
                    [w.compile("touches.c", "-O1", engine="dynamorio")]):
        subprocess.run([*steady, drrun, "-no_follow_children", "-c", library, "--", *command], check=True, timeout=120,
                       stdout=subprocess.DEVNULL, env=clean())
        theirs = 0
        for name in os.listdir(os.path.dirname(library)):
            if name.endswith(".log"):
                path = os.path.join(os.path.dirname(library), name)
                with open(path, encoding="ascii") as f:
                    theirs += sum(line.endswith((", r\n", ", w\n")) for line in f)
                os.unlink(path)
        trace = w.path("all.txt")
        w.call([*steady, w.tool("mt-host"), "-q", "--engine=dynamorio", "mat", "--all", "-o", trace, "--", *command],
               env=clean())
        ours = len(read_mat(trace))
        holds(f"{command[0]}: {ours} accesses, the sample has {theirs}", theirs and abs(ours / theirs - 1) <= 0.002)


@case("engines.drcachesim")
def cache_simulator(w):
    """DynamoRIO's own tools read what memtrace convert makes of a trace: as many loads and stores."""
    drrun, _ = sample(w)
    trace, converted = w.path("threads.mtc"), w.path("app.trace")
    w.call([w.tool("mt-host"), "-q", "--engine=dynamorio", "atomic", "-o", trace, "--", w.compile("lives.c", "-O1", engine="dynamorio"), "many", "3"])
    w.call([w.tool("mt-convert"), "--to", "drmemtrace", "-o", converted, trace])
    rows = [line.split() for line in w.call([w.tool("mt-dump"), "--stat", trace]).stdout.splitlines()]
    rows = [[int(x) for x in row[3:6]] for row in rows if len(row) == 11 and row[0].isdigit()]
    said = w.call([drrun, "-t", "drcachesim", "-infile", converted, "-tool", "basic_counts"])
    loads, stores = (int(n) for n in re.findall(r"(\d+) total data (?:loads|stores)", said.stdout + said.stderr)[:2])
    failed = w.call([w.tool("mt-dump"), trace]).stdout.count(" cas-failed ")
    same("loads, stores", (loads, stores + failed), (sum(r[0] + r[2] for r in rows), sum(r[1] + r[2] for r in rows)))
    said = w.call([drrun, "-t", "drcachesim", "-infile", converted])
    hits = re.findall(r"L1D\d .*\n +Hits: +(\d+)\n +Misses: +(\d+)", said.stdout + said.stderr)
    holds(f"its caches see them: {hits}", sum(int(n) for pair in hits for n in pair) >= loads + stores)
