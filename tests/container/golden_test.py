"""Golden containers: golden_test.py READ_MTC READ_DEVICE MT_CONVERT FOLDER

succeed/NAME.mtc: NAME.txt is what the reader hands out in file order, NAME.seq.txt by sequence number,
NAME.device.txt, NAME.all.txt (with shared and local memory)
accesses of kernels, by launches; NAME.FORMAT.txt what memtrace convert makes of it; each also after packing it anew. "N x LINE" in
these files stands for N lines. fail/NAME.mtc: fail/expected.json says
the offset, words of the message and how many records are whole."""
import json
import os
import re
import subprocess
import sys
import tempfile

read, read_device, convert, folder = sys.argv[1:5]
bad = 0


def run(*args, stdin=None):
    return subprocess.run(args, capture_output=True, stdin=stdin, timeout=60, check=False)


def check(what, got, want):
    global bad
    if got != want:
        bad += 1
        at = differs(got, want) if isinstance(got, bytes) else 0
        print("%s, from line %d on: got\n%s\nwanted\n%s" % (what, at + 1, tail(got, at), tail(want, at)))


def differs(got, want):
    """The first line, from 0, in which two outputs differ."""
    return next((i for i, pair in enumerate(zip(got.splitlines(), want.splitlines())) if pair[0] != pair[1]),
                min(got.count(b"\n"), want.count(b"\n")))


def tail(said, line):
    return (b"\n".join(said.splitlines()[line:]).decode() if isinstance(said, bytes) else str(said))[:1500]


def slurp(path):
    with open(path, "rb") as f:
        return re.sub(rb"^(\d+) x (.*\n)", lambda m: m[2] * int(m[1]), f.read(), flags=re.M)


def succeed(name, mtc, base):
    count = 0
    for order in ("file", "seq"):
        want = base + (".txt" if order == "file" else ".seq.txt")
        if os.path.exists(want):
            check("%s, order %s" % (name, order), run(read, order, mtc).stdout, slurp(want))
            count += 1
    if os.path.exists(base + ".device.txt"):
        check(name + ", device", run(read_device, "next", mtc).stdout, slurp(base + ".device.txt"))
        with open(mtc, "rb") as f:
            check(name + ", device, pipe", run("sh", "-c", "cat | '%s' next -" % read_device, stdin=f).stdout, slurp(base + ".device.txt"))
        count += 2
    if os.path.exists(base + ".all.txt"):
        check(name + ", device, all memory", run(read_device, "all", mtc).stdout, slurp(base + ".all.txt"))
        count += 1
    for form in ("atomic", "mat", "insn"):
        want = "%s.%s.txt" % (base, form)
        if os.path.exists(want):
            p = run(convert, "--to", form, mtc)
            check(name + " as " + form, p.stdout, slurp(want))
            check(name + ": exit code", (p.returncode, p.stderr), (0, b""))
            check(name + " by its mode", run(convert, mtc).stdout, slurp(want))
            count += 1
    return count


def fail(name, mtc, want):
    program, first, letter = (read_device, "next", "a") if "accesses" in want else (read, "file", "r")
    for how in ("file", "pipe"):
        if how == "pipe" and "index" in want["message"]:
            continue  # read through without looking at it
        with open(mtc, "rb") as f:
            p = run(program, first, mtc) if how == "file" else run("sh", "-c", "cat | '%s' %s -" % (program, first), stdin=f)
        lines = p.stdout.decode().splitlines()
        said = [x for x in lines if x.startswith("!")]
        check("%s (%s): messages" % (name, how), len(said), 1)
        _, _, offset, words = (said or ["! 0 0 nothing"])[0].split(" ", 3)
        check("%s (%s): offset" % (name, how), int(offset), want["offset"])
        check("%s (%s): %s" % (name, how, words), want["message"] in words, True)
        check("%s (%s): records" % (name, how), sum(x.startswith(letter) for x in lines),
              want["accesses" if letter == "a" else "records"])


done = 0
with tempfile.TemporaryDirectory() as tmp:
    for f in sorted(os.listdir(os.path.join(folder, "succeed"))):
        if not f.endswith(".mtc"):
            continue
        path = os.path.join(folder, "succeed", f)
        n = succeed(f, path, path[:-4])
        check(f + ": something expected", n > 0, True)
        for level in ("0", "9"):
            again = os.path.join(tmp, f)
            p = run(convert, "--to", "mtc", "--level", level, "-o", again, path)
            cut = f == "head-only.mtc"  # valid, but whoever converts it hears that there may have been more
            check(f + " packed anew", (p.returncode, b"cut off" in p.stderr), (3, True) if cut else (0, False))
            check(f + " packed anew, quietly", cut or not p.stderr, True)
            done += succeed(f + " packed anew", again, path[:-4])
        done += n
with open(os.path.join(folder, "fail", "expected.json"), encoding="utf-8") as f:
    expected = json.load(f)
for f in sorted(os.listdir(os.path.join(folder, "fail"))):
    if f.endswith(".mtc"):
        fail(f, os.path.join(folder, "fail", f), expected.pop(f[:-4]))
        done += 1
check("expected and missing", expected, {})
print("%d comparisons" % done)
sys.exit(bad != 0)
