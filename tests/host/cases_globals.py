"""Global variables are buffers: names, sizes and places are nm's, accesses those that the source makes."""
import collections
import json
import re
import struct
import subprocess

from harness import case, holds, need, same
from world import ENGINES

# Element, count and direction of each walk in globals.cpp.
WALKS = {"table": ("write", 8, 100), "scratch": ("write", 8, 70), "primes": ("read", 4, 50),
         "ns::pool<40>::slots": ("write", 2, 40), "ns::origin": ("write", 8, 30)}


def nm(program, *flags):
    """{name: (address, bytes)} of data, by nm."""
    text = subprocess.run([need("nm"), "-S", "--defined-only", *flags, program], capture_output=True, text=True,
                          check=True).stdout
    rows = re.finditer(r"^([0-9a-f]+) ([0-9a-f]+) ([bBdDrRuVv]) (.+)$", text, re.M)
    return {m[4].split("@")[0]: (int(m[1], 16), int(m[2], 16)) for m in rows}


def sections(program):
    text = subprocess.run([need("readelf"), "-SW", program], capture_output=True, text=True, check=True).stdout
    rows = re.finditer(r"^ +\[ *\d+\] (\.(?:data|bss|rodata)[.\w]*) +\w+ +([0-9a-f]+) [0-9a-f]+ ([0-9a-f]+)", text, re.M)
    return {(m[1], int(m[2], 16), int(m[3], 16)) for m in rows if int(m[3], 16)}


def allocations(trace):
    """The alloc lines of a container that was written with --level=0."""
    with open(trace, "rb") as f:
        data = f.read()
    at, lines = struct.unpack_from("<I", data, 8)[0], []
    while data[at:at + 4] == b"MTCK":
        kind, codec = struct.unpack_from("<HB", data, at + 4)
        stored = struct.unpack_from("<Q", data, at + 8)[0]
        if kind == 1:
            same("codec of a meta chunk", codec, 0)
            lines += [json.loads(x) for x in data[at + 64:at + 64 + stored].splitlines()]
        at += 64 + (stored + 7) // 8 * 8
    return [(x["kind"], x["name"], int(x["base"], 0), x["bytes"]) for x in lines if x["ev"] == "alloc"]


@case("globals.names", *ENGINES)
def names(w):
    """Each variable with a size that nm lists is a buffer with its name, where it is in memory; the sections, too."""
    for flags in (["-O1"], ["-O1", "-fno-pie", "-no-pie"]):
        program = w.compile("globals.cpp", *flags)
        buffers = allocations(w.host("mat", "--level=0", "--", program).trace)
        bias = next(base for _, name, base, _ in buffers if name == "table") - nm(program)["table"][0]
        holds(f"bias {bias:#x} is of pages", bias % 4096 == 0)
        got = {(name, base - bias, size) for kind, name, base, size in buffers if kind == "global"}
        want = {(n, *at) for n, at in nm(program, "-C").items() if not n.startswith("memtrace.host.")}  # the pass's own
        same(f"{flags}: buffers that nm does not know", got - want, set())
        same(f"{flags}: variables that are no buffers", {r[1:] for r in want} - {r[1:] for r in got}, set())
        same(f"{flags}: sections", {(name, base - bias, size) for kind, name, base, size in buffers if kind == "section"},
             sections(program))


@case("globals.accesses", *ENGINES)
def accesses(w):
    """What the source does to them, and to the heap as before."""
    program = w.compile("globals.cpp", "-O1")
    g = w.graph(w.host("mat", "--routine=main", "--", program).trace)
    name = {b["id"]: b["name"] if b["kind"] == "global" else str(b["size"]) for b in g["buffers"]}
    counts = collections.Counter()
    for n in g["nodes"]:
        counts[name[n["buffer"]], n["type"], n["stride"]] += n["count"]
    for buffer, (kind, step, count) in {**WALKS, "8000": ("write", 8, 1000)}.items():
        same(f"{buffer}: steps", counts[buffer, kind, step], count - 1)
    calls = [n for n in name.values() if n.startswith("count(int)::calls")]
    same("static variable of a function", len(calls), 1)
    rows = w.mat(w.host("mat", "--routine=main", "--", program, trace="globals.txt"))
    at = {b["name"]: b["size"] for b in g["buffers"]}
    got = collections.Counter((size, kind) for _, _, _, _, kind, n, size, _ in rows if n in (8, 4, 2))
    same("text: table", got[at["table"], 2], 100)
    same("text: scratch", got[at["scratch"], 2], 70)


@case("globals.stripped", *ENGINES)
def stripped(w):
    """Without symbols the sections are left, and hold all of it."""
    program = w.compile("globals.cpp", "-O1")
    holds("scratch has a symbol", nm(program, "-C")["scratch"][1] == 560)
    w.call([need("strip"), program])
    g = w.graph(w.host("mat", "--", program).trace)
    names = {b["name"] for b in g["buffers"] if b["kind"] == "global"}
    holds(f"no name of its own: {names}", not names & set(WALKS))
    inside = {b["id"] for b in g["buffers"] if b["name"] == ".bss"}
    same("steps through scratch", sum(n["count"] for n in g["nodes"] if n["buffer"] in inside and n["stride"] == 8 and
                                      n["type"] == "write") >= 69, True)
