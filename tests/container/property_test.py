"""Random containers: what the writer was given, what a decoder written from the specification finds in the
file, and what libmemtrace-reader hands out must be one thing; in all three orders.

    property_test.py GEN_MTC READ_MTC [CASES]
"""
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import mtc  # noqa: E402

gen, read = sys.argv[1:3]
cases = int(sys.argv[3]) if len(sys.argv) > 3 else 60
SEQ = 9


def run(*args):
    p = subprocess.run(args, capture_output=True, text=True, timeout=120)
    if p.returncode != 0:
        raise SystemExit("%s: exit %d\n%s%s" % (" ".join(args), p.returncode, p.stdout[:500], p.stderr))
    return p.stdout.splitlines()


def truth(text, timed):
    """[(thread, [("a"|"e", ...)])] per chunk, in file order."""
    out = []
    for line in text:
        kind, *rest = line.split()
        v = [int(x) for x in rest]
        if kind == "c":
            out.append((v[0], []))
        elif kind == "a":
            out[-1][1].append(("a", v[0], v[1], v[2], v[3] if timed else 0))
        else:
            out[-1][1].append(("e", v[0], v[1] if timed else 0, v[2:]))
    return out


def as_read(chunks, firsts):
    """The lines that read_mtc prints for these chunks in file order, each with (seq, time, thread)."""
    out = []
    for (thread, items), seq in zip(chunks, firsts):
        for it in items:
            if it[0] == "a":
                out.append(("r %d %d %d %d %d %d" % (thread, seq, it[1], it[2], it[3], it[4]), seq, it[4], thread))
            else:
                if it[1] == SEQ:
                    seq = it[3][0]
                out.append((" ".join(str(x) for x in ["e", thread, seq, it[1], it[2], *it[3]]), seq, it[2], thread))
    return out


def compare(what, seed, a, b):
    if a == b:
        return
    for i, (x, y) in enumerate(zip(a, b)):
        if x != y:
            raise SystemExit("seed %d, %s: item %d: %s against %s" % (seed, what, i, x, y))
    raise SystemExit("seed %d, %s: %d items against %d" % (seed, what, len(a), len(b)))


def one(seed, path):
    timed = seed % 2
    given = truth(run(gen, str(seed), str(timed), str(seed % 3), path), timed)
    with open(path, "rb") as f:
        data = f.read()
    all_chunks = list(mtc.chunks(data))
    host = [c for c in all_chunks if c.type == mtc.HOST]
    found = [(c.key, mtc.host(c.payload, timed)) for c in host]
    compare("specification", seed, given, found)
    for c, (_, items) in zip(host, found):
        assert c.items == len(items), "items of the chunk at %d" % c.offset
    assert bool(mtc.read_head(data)["features"] & mtc.HAS_TIMES) == bool(timed)
    lines = as_read(found, [c.first for c in host])
    by_file = [x[0] for x in lines]
    compare("file order", seed, by_file, run(read, "file", path))
    by_seq = [x[0] for x in sorted(lines, key=lambda x: (x[1], x[3]))]
    compare("by sequence number", seed, by_seq, run(read, "seq", path))
    if timed:
        by_time = [x[0] for x in sorted(lines, key=lambda x: (x[2], x[3]))]
        compare("by time", seed, by_time, [x for x in run(read, "time", path) if x != "-"])
    # Without tail and index: the same from a scan, and through a pipe.
    index = all_chunks[-1].offset if all_chunks[-1].type == mtc.INDEX else len(data)
    assert index < len(data)
    cut = data[:index]
    with open(path, "wb") as f:
        f.write(cut)
    compare("scan", seed, by_file, run(read, "file", path))
    for what, sent in (("pipe", data), ("pipe without tail", cut)):
        p = subprocess.run([read, "file", "-"], input=sent, capture_output=True, timeout=60, check=True)
        compare(what, seed, by_file, p.stdout.decode().splitlines())
    return sum(len(i) for _, i in found)


with tempfile.TemporaryDirectory() as folder:
    total = sum(one(seed, os.path.join(folder, "x.mtc")) for seed in range(cases))
print("%d containers, %d items" % (cases, total))
assert total > cases * 500
