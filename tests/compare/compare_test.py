#!/usr/bin/env python3
"""memtrace compare against plain Python on random traces, and cases computed by hand. usage: compare_test.py BIN [CASES]"""
import collections
import csv
import io
import json
import os
import random
import shutil
import struct
import subprocess
import sys
import tempfile

BIN = sys.argv[1]


# ---- the same once more ----

def sequences(accesses):
    """Per actor, in the order of their first node: [(buffer by first use, stride, type)]; accesses are (actor, buffer,
    address, type)."""
    before, names, out = {}, {}, collections.OrderedDict()
    for actor, buffer, address, kind in accesses:
        if (actor, buffer) in before:
            name = names.setdefault(buffer, len(names))
            out.setdefault(actor, []).append((name, address - before[actor, buffer], kind))
        before[actor, buffer] = address
    return list(out.values())


def distance(a, b):
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        last, row[0] = row[0], i
        for j, y in enumerate(b, 1):
            last, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, last + (x != y))
    return row[-1]


def runs(actors):
    return [[x for i, x in enumerate(a) if i == 0 or a[i - 1] != x] for a in actors]


def flat(actors):
    return [x for a in actors for x in a]


def edit(a, b, cap):
    x, y = flat(a), flat(b)
    return 1 - distance(x, y) / max(len(x), len(y)) if x or y else 1


def frequent(actors, n, threshold):
    grams = collections.Counter(tuple(a[i:i + n]) for a in actors for i in range(len(a) - n + 1))
    least = threshold * sum(grams.values())
    return {g: c for g, c in grams.items() if c >= least}


def common(a, b):
    if not a or not b:
        return 1.0 if not a and not b else 0.0
    x, y = sum(a.values()), sum(b.values())
    return sum(min(a[g] / x, b[g] / y) for g in a if g in b)


# ---- traces ----

def mat(folder, name, accesses, at=4096):
    """A MAT text trace: one actor; buffers of 1024 bytes from `at` on."""
    path = os.path.join(folder, name)
    with open(path, "w") as f:
        f.write("9 a.c:1\n")
        for _, buffer, offset, kind in accesses:
            base = at + 8192 * buffer
            f.write("9 %d %d %d %d 8 1024\n" % (base + offset, offset, base, {"read": 1, "write": 2}[kind]))
        f.write("0 <end>:0\n")
    return path


def raw(folder, name, launches):
    """A raw trace without companion (one buffer): launches of (cta, buffer, address, type)."""
    path = os.path.join(folder, name)
    with open(path, "wb") as f:
        f.write(bytes([24]))
        for launch in launches:
            f.write(b"k\n")
            for cta, _, address, kind in launch:
                f.write(struct.pack("<QQQ", {"read": 0, "write": 1}[kind] << 28 | 4, address, cta << 32))
            f.write(bytes(24))
    return path


def random_walk(rng, length):
    """Loops over a few buffers, as programs have them."""
    out, at = [], {}
    while len(out) < length:
        buffer, stride, kind = rng.randrange(4), rng.choice([4, 8, 8, -16]), rng.choice(["read", "write"])
        for _ in range(rng.choice([1, 3, 20])):
            at[buffer] = (at.get(buffer, 512) + stride) % 1024
            out.append((0, buffer, at[buffer], kind))
    return out[:length]


def run(*args, code=0):
    r = subprocess.run([BIN + "/mt-compare", *args], capture_output=True)
    assert r.returncode == code, (args, r.returncode, r.stderr)
    return r


def compare(paths, *options, code=0):
    return json.loads(run("-f", "json", *options, *paths, code=code).stdout)


def close(got, want, what):
    assert len(got) == len(want), what
    for i, row in enumerate(want):
        for k, x in enumerate(row):
            assert abs(got[i][k] - x) < 2e-6, "%s [%d][%d]: %s, not %s" % (what, i, k, got[i][k], x)


# ---- tests ----

def by_hand(folder):
    """a: strides 8 8 8 4; b: strides 8 8 4 4, at other addresses and with the buffers allocated the other way round."""
    one = mat(folder, "one", [(0, 0, x, "read") for x in (0, 8, 16, 24, 28)])
    two = mat(folder, "two", [(0, 3, x, "read") for x in (0, 8, 16, 20, 24)], at=1 << 40)
    # 8 8 8 4 -> 8 8 4 4: one exchange of four
    got = compare([one, two], "--ngram", "2")
    close(got["levenshtein"]["distance"], [[0, 0.25], [0.25, 0]], "by hand")
    # 2-grams: one has 88 88 84, two has 88 84 44: min(2/3, 1/3) + min(1/3, 1/3) + 0
    close(got["ngrams"]["similarity"], [[1, 2 / 3], [2 / 3, 1]], "2-grams by hand")
    assert [(g["nodes"], g["count"]) for g in got["inputs"][0]["frequent"]] == [
        ([[0, 8, "read"]] * 2, 2), ([[0, 8, "read"], [0, 4, "read"]], 1)], got["inputs"][0]
    # with a threshold of 50 % one keeps 88 (2 of 3), two keeps nothing
    close(compare([one, two], "--ngram", "2", "--threshold", "50")["ngrams"]["similarity"], [[1, 0], [0, 1]], "50 %")
    # a type makes another node
    three = mat(folder, "three", [(0, 0, x, "write") for x in (0, 8, 16, 24, 28)])
    close(compare([one, three])["levenshtein"]["distance"], [[0, 1], [1, 0]], "writes")
    # which buffer comes first has no meaning, which one comes back has
    ab = mat(folder, "ab", [(0, b, x, "read") for x, b in ((0, 1), (0, 2), (8, 1), (8, 2), (16, 1))])
    ba = mat(folder, "ba", [(0, b, x, "read") for x, b in ((0, 2), (0, 1), (8, 2), (8, 1), (16, 2))])
    aa = mat(folder, "aa", [(0, b, x, "read") for x, b in ((0, 1), (0, 2), (8, 1), (16, 1), (8, 2))])
    # ab, ba: (0 8)(1 8)(0 8); aa: (0 8)(0 8)(1 8)
    close(compare([ab, ba, aa])["levenshtein"]["distance"], [[0, 0, 2 / 3], [0, 0, 2 / 3], [2 / 3, 2 / 3, 0]], "renaming")


def outputs(folder, paths):
    """Text and CSV say what JSON says."""
    got = compare(paths)
    for measure, key in (("levenshtein", "distance"), ("ngrams", "similarity")):
        want = [[1 - x if key == "distance" else x for x in row] for row in got[measure][key]]
        lines = run("--measure", measure, *paths).stdout.decode().splitlines()
        assert lines[0].startswith("# ") and "similarity" in lines[0]
        text = [[float(x) for x in line.split()[1:len(paths) + 1]] for line in lines[2:]]
        for i, row in enumerate(want):
            assert all(abs(x - y) < 6e-5 for x, y in zip(row, text[i]))
            assert lines[2 + i].endswith(paths[i])
        rows = list(csv.reader(io.StringIO(run("-f", "csv", "--measure", measure, *paths).stdout.decode(), newline="")))
        assert rows[0][1:] == paths and [r[0] for r in rows[1:]] == paths
        close([[float(x) for x in r[1:]] for r in rows[1:]], want, "csv")
        far = list(csv.reader(io.StringIO(run("-f", "csv", "--distance", "--measure", measure, *paths).stdout.decode())))
        close([[float(x) for x in r[1:]] for r in far[1:]], [[1 - x for x in row] for row in want], "distances")


def random_case(folder, rng):
    cap = rng.choice([65536, 65536, 40, 7])
    traces, paths = [], []
    for i in range(rng.randint(2, 5)):
        if traces and rng.random() < 0.3:
            walk = list(traces[rng.randrange(len(traces))])
            for _ in range(rng.randint(0, 6)):
                if walk:
                    del walk[rng.randrange(len(walk))]
        else:
            walk = random_walk(rng, rng.choice([0, 1, 2, 60, 150]))
        traces.append(walk)
        paths.append(mat(folder, "t%d" % i, walk, at=rng.choice([4096, 1 << 30])))
    actors = [sequences(t) for t in traces]
    check(paths, actors, cap, rng)
    outputs(folder, paths)


def random_raw(folder, rng):
    """CTAs of several launches, interleaved: each is an actor of its own."""
    paths, actors = [], []
    for i in range(rng.randint(2, 4)):
        launches = []
        for _ in range(rng.randint(0, 3)):
            walks = [[(c, 0, a + b * 8192, k) for _, b, a, k in random_walk(rng, rng.choice([0, 5, 30]))] for c in range(3)]
            launch = []
            while any(walks):
                walk = rng.choice([w for w in walks if w])
                launch.append(walk.pop(0))
            launches.append(launch)
        paths.append(raw(folder, "r%d" % i, launches))
        actors.append(sequences([((n, c), b, a, k) for n, launch in enumerate(launches) for c, b, a, k in launch]))
    check(paths, actors, 65536, rng)
    saved(folder, paths, actors, rng)


def saved(folder, paths, actors, rng):
    """A graph saved with its sequence is as good as its trace; without, nodes and edges are 1- and 2-grams."""
    graphs, plain = [], []
    for i, path in enumerate(paths):
        for files, extra in ((graphs, ["--sequence"]), (plain, [])):
            files.append(os.path.join(folder, "g%d%s.json" % (i, "s" if extra else "")))
            subprocess.run([BIN + "/mt-graph", "-f", "json", *extra, "-o", files[-1], path], check=True, capture_output=True)
    n = str(rng.randint(1, 4))
    a, b = compare(paths, "--ngram", n), compare(graphs, "--ngram", n)
    assert a["levenshtein"] == b["levenshtein"] and a["ngrams"] == b["ngrams"], (paths, graphs)
    mixed = compare([paths[0], *graphs[1:]], "--ngram", n)
    assert mixed["levenshtein"] == a["levenshtein"]
    for n in ("1", "2"):  # one buffer: its name is the same either way
        c = compare(plain, "--ngram", n, "--threshold", "0")
        close(c["ngrams"]["similarity"], compare(paths, "--ngram", n, "--threshold", "0")["ngrams"]["similarity"], "plain graphs")
        assert all(x is None for row in c["levenshtein"]["distance"] for x in row)
    assert compare(plain, "--ngram", "3")["ngrams"]["similarity"][0][0] is None


def check(paths, actors, cap, rng):
    n, percent = rng.randint(1, 5), rng.choice([0, 1, 1, 20])
    got = compare(paths, "--ngram", str(n), "--threshold", str(percent), "--cap", str(cap))
    how, used = "nodes", actors
    if any(len(flat(a)) > cap for a in actors):
        how, used = "runs", [runs(a) for a in actors]
        if any(len(flat(a)) > cap for a in used):
            how, used = "first runs", [[flat(a)[:cap]] for a in used]  # one actor here: the first in time
    assert got["levenshtein"]["of"] == how
    far = [[1 - edit(a, b, cap) for b in used] for a in used]
    close(got["levenshtein"]["distance"], far, "levenshtein %s cap %d" % (paths, cap))
    most = [frequent(a, n, percent / 100) for a in actors]
    close(got["ngrams"]["similarity"], [[common(a, b) for b in most] for a in most], "%d-grams %s" % (n, paths))
    for i, a in enumerate(actors):
        row = got["inputs"][i]
        assert row["nodes"] == len(flat(a)) and row["runs"] == len(flat(runs(a)))
        name = lambda g: tuple((b, s, t) for b, s, t in g["nodes"])
        assert {name(g): g["count"] for g in row["frequent"]} == most[i]
    for key, matrix in (("distance", got["levenshtein"]["distance"]), ("similarity", got["ngrams"]["similarity"])):
        for i in range(len(paths)):
            assert matrix[i][i] == (0 if key == "distance" else 1)
            assert all(matrix[i][k] == matrix[k][i] and 0 <= matrix[i][k] <= 1 for k in range(len(paths)))


def usage(folder):
    one = mat(folder, "one", [(0, 0, x, "read") for x in (0, 8, 16)])
    atomic = os.path.join(folder, "atomic")
    with open(atomic, "w") as f:
        f.write("1\t0\ttr\n")
    for args, words in (
        ([one], b"at least two traces"), ([one, folder + "/none"], b"none"), ([one, one, "--ngram", "9"], b"from 1 to 8"),
        ([one, one, "--threshold", "x"], b"percentage"), ([one, one, "--measure", "x"], b"levenshtein"), ([one, one, "-f", "x"], b"csv"),
        ([one, atomic], b"text trace of atomic mode"), ([one, one, "-o", one], b"is one of the inputs"),
        ([one, one, "-o", one], b"is one of the inputs"),
    ):
        assert words in run(*args, code=2).stderr, args
    close(compare([one, one])["levenshtein"]["distance"], [[0, 0], [0, 0]], "itself")
    cut = os.path.join(folder, "cut")
    with open(one) as f, open(cut, "w") as g:
        g.write(f.read()[:-5])
    got = compare([one, cut], code=3)
    assert [i["complete"] for i in got["inputs"]] == [True, False]


def threads_and_ctas():
    """A trace that knows threads beside one that does not; lanes against lanes."""
    golden = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "golden")
    with_threads, without = golden + "/container/succeed/device.mtc", golden + "/succeed/stencil.trace"
    call = lambda *args: subprocess.run([BIN + "/mt-compare", *args], capture_output=True)
    assert b"has threads and" in call(with_threads, without).stderr
    assert b"has threads" not in call(with_threads, with_threads).stderr
    assert b"--lanes" in call(with_threads, with_threads).stderr
    assert b"has threads" not in call(without, without).stderr
    lanes = json.loads(call("-f", "json", "--lanes", with_threads, with_threads).stdout)
    assert lanes["levenshtein"]["distance"] == [[0, 0], [0, 0]]
    assert lanes["inputs"][0]["nodes"] != json.loads(call("-f", "json", with_threads, with_threads).stdout)["inputs"][0]["nodes"]


def long_traces(folder):
    """300,000 accesses each: runs are compared, in seconds."""
    rng = random.Random(1)
    paths = [mat(folder, "long%d" % i, random_walk(rng, 300000)) for i in range(2)]
    got = compare(paths)
    assert got["levenshtein"]["of"] == "runs" and got["inputs"][0]["compared"] == got["inputs"][0]["runs"] <= 65536
    assert 0 < got["levenshtein"]["distance"][0][1] < 1


def main():
    cases = int(sys.argv[2]) if len(sys.argv) > 2 else 100
    folder = tempfile.mkdtemp(prefix="mt-compare-")
    by_hand(folder)
    usage(folder)
    threads_and_ctas()
    for seed in range(cases):
        rng = random.Random(seed)
        try:
            random_case(folder, rng)
            random_raw(folder, rng)
        except Exception:
            print("seed %d, kept in %s" % (seed, folder))
            raise
    long_traces(folder)
    shutil.rmtree(folder)
    print("%d random comparisons as plain Python has them" % (2 * cases))


if __name__ == "__main__":
    main()
