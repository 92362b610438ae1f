#!/usr/bin/env python3
"""The Pin tool's shim on a made-up machine (fake/): shim.py CASE --program FILE --bin DIR. What must be in the
traces is written down by hand, or counted by the programs."""
import argparse
import json
import os
import re
import struct
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCE = os.path.join(HERE, "..", "host", "src")
FUNCTIONS = os.path.join(SOURCE, "inc_functions.txt")
ARGS = None


def tool(*words, code=0, name="trace.out"):
    """(standard output, standard error, trace)."""
    with tempfile.TemporaryDirectory() as d:
        trace = os.path.join(d, name)
        split = words.index("--")
        p = subprocess.run([ARGS.program, *words[:split], "-o", trace, *words[split:]], capture_output=True, text=True, timeout=60)
        assert p.returncode == code, (words, p.returncode, p.stderr)
        if code:
            return p.stdout, p.stderr, ""
        with open(trace, "rb") as f:
            return p.stdout, p.stderr, f.read() if name.endswith(".mtc") else f.read().decode()


def script(name, data, *args):
    p = subprocess.run([sys.executable, "-B", os.path.join(SOURCE, name), *args], input=data, capture_output=True, text=True)
    return p.returncode, p.stderr


def agrees(program, options, failed=()):
    """Whether the trace says what the program counted; the trace's form is right in any case."""
    out, _, trace = tool("-mode", "atomic", "-f", FUNCTIONS, *options, "--", program, "4", "3000")
    code, why = script("fmt_check.py", trace, "--all-ended")
    assert code == 0, why
    merged = subprocess.run([os.path.join(ARGS.bin, "mt-convert"), "--order=time"], input=trace, capture_output=True, text=True)
    assert merged.returncode == 0, merged.stderr
    with tempfile.NamedTemporaryFile("w") as said:
        said.write(out)
        said.flush()
        code, why = script(program + "_sim.py", merged.stdout, "--expect", said.name, *failed)
    return code == 0, why


def case_atomic():
    """Locks around each access, failed swaps, returns, registration, region: replayed exactly; without locks not."""
    for program in ("inc", "cas"):
        for options in ([], ["-r", "1"], ["-i", "1"], ["-locks", "1"], ["-l", "4096", "-block", "8"], ["-a", "1", "-d", "10"]):
            good, why = agrees(program, options)
            assert good, (program, options, why)
    good, why = agrees("cas", ["-c", "1"], ["--failed-writes"])
    assert good, why
    assert not all(agrees("inc", ["-t", "1"])[0] for _ in range(5)), "without locks all went well: the test shows nothing"


def mat_lines(trace):
    """(last three digits of the instruction's address, address, offset, type, size, bytes) of each access."""
    rows = [x.split() for x in trace.splitlines() if ":" not in x]
    assert all(int(a) - int(o) == int(b) for _, a, o, b, *_ in rows)
    return [(int(ip) & 0xfff, int(a), int(o), int(t), int(s), int(n)) for ip, a, o, b, t, s, n in rows]


READ, WRITE = 1, 2
AT_20000 = [(0x23c, 0x20000, 0, READ, 4, 50), (0x23c, 0x20020, 32, WRITE, 4, 50)] * 2 + [
    (0x240, 0x20000, 0, READ, 4, 50), (0x240, 0x20008, 8, READ, 4, 50)]
MAT = [(0x200, 0x10000, 0, WRITE, 4, 100), (0x204, 0x10063, 99, READ, 1, 100), (0x210, 0x20010, 16, WRITE, 8, 50),
       (0x214, 0x20010, 16, READ, 8, 50), (0x218, 0x30048, 72, WRITE, 8, 80), (0x21c, 0x40010, 16, WRITE, 8, 24),
       (0x21e, 0x20000, 0, READ, 4, 50),
       (0x220, 0x5007f, 127, WRITE, 1, 128), (0x22c, 0x101fff, 8191, READ, 1, 8192), (0x234, 0x101000, 4096, READ, 1, 8192),
       (0x238, 0x600800, 2048, WRITE, 2, 4096), *AT_20000, (0x244, 0x600000, 0, WRITE, 64, 4096),
       (0x254, 0x20000, 0, READ, 4, 50)]
WORK = [(0x24c, 0x20000, 0, READ, 4, 50)]
SWITCHED = [(0x250, 0x20000, 0, READ, 4, 50)]


def case_mat():
    """Allocations by every way in, tail calls, exceptions, operands, threshold, routine and signals."""
    def run(*options):
        return mat_lines(tool("-mode", "mat", *options, "--", "mat")[2])

    assert run() == MAT + WORK + SWITCHED * 3, run()
    assert run("-signal", "1") == SWITCHED, run("-signal", "1")
    assert run("-routine", "work") == WORK, run("-routine", "work")
    assert run("-routine", "other", "-routine", "work") == WORK
    own = [x for x in MAT + WORK + SWITCHED * 3 if x[0] != 0x254]
    assert run("-own", "1") == own, run("-own", "1")
    assert run("-library", "none") == run("-library", "libc") == own, run("-library", "none")
    assert run("-library", "data") == run("-library", "libr", "-library", "library") == run(), run("-library", "data")
    large = [x for x in MAT if x[5] >= 100]
    assert run("-threshold", "100") == large, run("-threshold", "100")
    text = tool("--", "mat")[2]  # mat is what one gets without -mode
    assert text.startswith(f"{0x401200} made_up.c:512\n{0x401200} 65536 0 65536 2 4 100\n"), text[:200]


def case_insn():
    """Each instruction once, the main image only, registers once and marked, its executions in order."""
    want = ("0x401000\tmovaps xmm0, xmm0\tR:xmm0* st0*\tW:xmm0* st0*\n\t1\n\t3\n\t5\n"
            "0x401010\tadd qword ptr [rbx], rax\tR:rbx rax\tW:rflags\n"
            + "".join(f"\t{2 * i}\tR\t0x{0x7000 + 8 * i:x}\t8\tW\t0x{0x7000 + 8 * i:x}\t8\n" for i in range(3)))
    got = tool("-mode", "insn", "--", "insn")[2]
    assert got == want, got


def meta_lines(data):
    """The JSON lines of a container whose chunks are stored as they are."""
    at, lines = struct.unpack_from("<I", data, 8)[0], []
    while data[at:at + 4] == b"MTCK":
        kind, codec = struct.unpack_from("<HB", data, at + 4)
        stored = struct.unpack_from("<Q", data, at + 8)[0]
        assert codec == 0
        if kind == 1:
            lines += [json.loads(x) for x in data[at + 64:at + 64 + stored].splitlines()]
        at += 64 + (stored + 7) // 8 * 8
    return lines


def case_container():
    """What the text does not show: kinds and numbers of allocations, one site for each operand, the engine's name."""
    lines = meta_lines(tool("-mode", "mat", "-level", "0", "--", "mat", name="t.mtc")[2])
    allocs = [(x["kind"], int(x["bytes"])) for x in lines if x["ev"] == "alloc" and
              x["kind"] not in ("global", "section")]
    assert allocs == [("malloc", 100), ("realloc", 50), ("calloc", 80), ("new", 24), ("memalign", 128), ("mmap", 8192),
                      ("brk", 4096)], allocs
    globals_ = {int(x["base"], 0) - 0x700000000000: x["name"] for x in lines if x["ev"] == "alloc" and
                x["kind"] == "global"}
    table = subprocess.run(["nm", "-S", ARGS.program], capture_output=True, text=True, check=True).stdout
    rows = [x.split() for x in table.splitlines() if re.match(r"\S+ \S+ [bBdDrRuVv] ", x)]
    rows = [x for x in rows if int(x[0], 16) > 255]  # those of a thread have offsets
    assert set(globals_) == {int(x[0], 16) for x in rows}, globals_
    assert "mt_pin_mode" in (x[3] for x in rows if globals_[int(x[0], 16)] == "mt_pin_mode"), globals_
    where = [x for x in lines if x["ev"] == "site" and int(str(x["ip"]), 0) == 0x40123c]
    assert [x["op"] for x in where] == ["load", "store"], where
    assert next(x for x in lines if x["ev"] == "header")["engine"] == "pin"
    assert next(x for x in lines if x["ev"] == "header")["program"].endswith("mat"), lines[0]
    lines = meta_lines(tool("-mode", "insn", "-level", "0", "--", "insn", name="t.mtc")[2])
    sites = [int(str(x["ip"]), 0) for x in lines if x["ev"] == "site"]
    assert sorted(sites) == [0x401000, 0x401010, 0x401010], lines


def case_ends():
    """exec ends the trace, a failed one does not; a child writes nothing, its parent counts it; a fault leaves no record and no lock."""
    def addresses(program):
        trace = tool("-mode", "mat", "-all", "1", "--", program)[2]
        return [int(x.split()[1]) for x in trace.splitlines() if ":" not in x]

    assert addresses("exec") == [0x1000, 0x1008], addresses("exec")
    assert 0x1010 not in addresses("fork")
    end = meta_lines(tool("-mode", "mat", "-all", "1", "-level", "0", "--", "parent", name="t.mtc")[2])[-1]
    assert (end["ev"], end.get("children"), end["complete"]) == ("end", 2, True), end
    trace = tool("-mode", "atomic", "-l", "1", "--", "fault")[2]
    code, why = script("fmt_check.py", trace, "--all-ended")
    assert code == 0, why
    rows = [x.split("\t")[2:] for x in trace.splitlines()]
    stores = sorted(x[2] for x in rows if x[0] == "m")
    assert stores == [str(0x1004), str(0x1008), str(0x100c)] and rows.count(["ctxt_change"]) == 1, trace


def case_options():
    """What is wrong is said, before the program starts; exit code 2."""
    for words, text in ((["-mode", "atomic", "-l", "3"], "power of two"), (["-mode", "other"], "'other'"),
                        (["-mode", "atomic", "-r", "2"], "0|1"), (["-nonsense", "1"], "usage: pin -t"),
                        (["-mode", "atomic", "-f", "/none/there"], "/none/there")):
        out, err, _ = tool(*words, "--", "inc", "1", "2", code=2)
        assert text in err and out == "", (words, out, err)


def main():
    global ARGS
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("case", choices=[k[5:] for k in globals() if k.startswith("case_")])
    parser.add_argument("--program", required=True)
    parser.add_argument("--bin", required=True)
    ARGS = parser.parse_args()
    globals()["case_" + ARGS.case]()


if __name__ == "__main__":
    main()
