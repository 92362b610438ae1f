#!/usr/bin/env python3
"""The further analyses of memtrace extract: on random raw traces against brute force, placements computed again and, where
there are few CTAs, compared with all placements there are; options and cases by hand.

usage: locality_extract_test.py MT_EXTRACT [CASES]
"""
import itertools
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from multiprocessing import Pool

import brute
import brute_locality
import property_test
import traces

POLICIES = ("block", "robin", "mincut")
TABLES = ("lines", "coalescing", "reuse", "sharing", "conflicts", "traffic")


def extract(program, paths, *options):
    r = subprocess.run([program, "--sections", "CDV,transfers,more", *options, *paths], capture_output=True, timeout=120)
    return r, json.loads(r.stdout) if r.stdout else None


def edges(out):
    """[(source CTA, reader CTA, bytes)], CTAs as (superstep, kernel, text)."""
    found = []
    for path, leaf in property_test.leaves(out["transfers"], 6):
        if "<host>" not in (path[0], path[3]):
            found.append(((path[2], path[0], path[1]), (path[5], path[3], path[4]), leaf["Size"]))
    return found


def launches(out):
    """{(superstep, kernel): [CTA texts, z-major]}; from the data volumes, which are in this order."""
    return {(s, k): list(ctas) for k, steps in out["CDV"].items() for s, ctas in steps.items()}


def crossing(es, place):
    return sum(n for a, b, n in es if place[a] != place[b])


def simple(ctas, devices):
    block, robin = {}, {}
    for (s, k), texts in ctas.items():
        for i, t in enumerate(texts):
            block[s, k, t] = i * devices // len(texts)
            robin[s, k, t] = i % devices
    return block, robin


def best(es, ctas, devices):
    """The least that any placement with equal shares lets cross; None if there are too many."""
    ways = []
    for (s, k), texts in ctas.items():
        share = -(-len(texts) // devices)
        if devices ** len(texts) > 5000:
            return None
        ways.append([dict(zip(((s, k, t) for t in texts), d)) for d in itertools.product(range(devices), repeat=len(texts))
                     if all(d.count(i) <= share for i in range(devices))])
    count = 1
    for w in ways:
        count *= len(w)
    if count > 3000:
        return None
    return min(crossing(es, {k: v for part in choice for k, v in part.items()}) for choice in itertools.product(*ways))


def assigned(out):
    return {(s, k, t): d for k, steps in out["placement"]["assignment"].items() for s, ts in steps.items() for t, d in ts.items()}


def check_distinct(out, reads, policy, place, devices):
    """Each byte once for each launch and device that reads it on another one than its last writer's."""
    p, got = out["placement"], out["placement"]["policies"][policy]
    first = {}
    for address, writer, reader in reads:
        if place[writer] != place[reader]:
            first.setdefault((reader[:2], place[reader], address), place[writer])
    between = Counter((source, reader) for (_, reader, _), source in first.items())
    into = Counter(launch for launch, _, _ in first)
    matrix = [[between[i, j] for j in range(devices)] for i in range(devices)]
    if got["distinct"] != len(first) or got["distinct_traffic"] != matrix:
        return "%s: %s, but %d bytes differ: %s" % (policy, got, len(first), matrix)
    for k, steps in p["kernels"].items():
        for s, cell in steps.items():
            if cell["distinct"][policy] != into[s, k]:
                return "%s: other bytes into %s %s: %s" % (policy, k, s, cell)
    return None


def check_placement(out, devices):
    p, es, ctas = out["placement"], edges(out), launches(out)
    places = dict(zip(POLICIES, simple(ctas, devices)))
    places["mincut"] = assigned(out)
    if set(places["mincut"]) != set(places["block"]):
        return "the assignment has other CTAs"
    for (s, k), texts in ctas.items():
        share = -(-len(texts) // devices)
        mine = [places["mincut"][s, k, t] for t in texts]
        if any(mine.count(d) > share for d in range(devices)) or any(d not in range(devices) for d in mine):
            return "launch %s is not dealt out evenly: %s" % (s, mine)
    if p["devices"] != devices or p["load"] != sum(n for _, _, n in es):
        return "devices or load"
    for policy, place in places.items():
        got = p["policies"][policy]
        matrix = [[sum(n for a, b, n in es if (place[a], place[b]) == (i, j)) for j in range(devices)]
                  for i in range(devices)]
        if got["cross"] != crossing(es, place) or got["traffic"] != matrix:
            return "%s: %s, not %d %s" % (policy, got, crossing(es, place), matrix)
        for (s, k) in ctas:
            into = [e for e in es if e[1][:2] == (s, k)]
            cell = p["kernels"][k][s]
            if cell[policy] != crossing(into, place) or cell["load"] != sum(n for _, _, n in into):
                return "%s into %s %s" % (policy, k, s)
    cut = p["policies"]["mincut"]["cross"]
    if cut > min(p["policies"][x]["cross"] for x in POLICIES):
        return "mincut is worse than the simple ones"
    least = best(es, ctas, devices)
    if least is not None and cut < least:
        return "mincut %d is better than the best, %d" % (cut, least)
    return None


def as_runs(data, metas, options):
    """The launches of a case as brute_locality wants them: one access a run."""
    events = [e for e in brute.order(data, metas, False) if e[0] == "launch"]
    first, end = options["supersteps"] or (0, None)
    return [{"superstep": s, "seq": None, "kernel": name,
             "selected": s >= first and (end is None or s < end)
             and (options["kernels"] is None or re.search(options["kernels"], name) is not None),
             "runs": [{"cta": r["cta"], "sm": r["sm"], "type": r["type"], "size": r["size"], "addresses": [r["addr"]],
                       "mask": 0, "site": 0} for r in records]}
            for s, (_, name, records) in enumerate(events)]


def run_case(job):
    program, seed = job
    rng = random.Random(seed)
    data, metas, options, _, _ = property_test.make_case(rng, False)
    # Allocations are locality_test's matter.
    metas = [m and "".join(line for line in m.splitlines(True) if '"ev": "alloc"' not in line) for m in metas]
    if any(r["size"] > 500 for e in brute.order(data, metas, False) if e[0] == "launch" for r in e[2]):
        return None  # too slow to count byte by byte
    devices, line, bits = rng.choice([1, 2, 3, 4]), rng.choice([32, 64, 128, 4096]), rng.choice([0, 0, 2])
    folder = tempfile.mkdtemp(prefix="mt-more-", dir=os.environ.get("MT_TEST_TMP"))
    paths = property_test.write_case(folder, data, metas)
    flags = ["--devices=%d" % devices, "--line-size=%d" % line, "--sample=%d" % 2**bits,
             "--threads=%d" % rng.choice([1, 2, 3, 8])]
    chosen = property_test.command(program, paths, dict(options, sections=["more"]))[3:-len(paths)]
    r, out = extract(program, paths, *flags, *chosen)
    expected = brute_locality.analyse(as_runs(data, metas, options), [], [], line, bits)
    problem = None
    if out is None:
        problem = "no output"
    elif json.dumps({k: out[k] for k in TABLES}) != json.dumps(expected):
        problem = "differs\n got      %s\n expected %s" % (json.dumps({k: out[k] for k in TABLES}), json.dumps(expected))
    else:
        o = {k: options[k] for k in ("local", "strict", "host", "kernels", "supersteps")}
        places = {"mincut": assigned(out)}
        if options["kernels"] is None and options["supersteps"] is None:
            problem = check_placement(out, devices)
            places.update(zip(POLICIES, simple(launches(out), devices)))
        reads = brute.extract(data, metas, sections=["reads"], **o)["reads"]
        for policy, place in places.items():
            problem = problem or check_distinct(out, reads, policy, place, devices)
    shutil.rmtree(folder)
    return problem and "seed %d %s %s: %s\n%s" % (seed, flags, chosen, problem, r.stderr.decode())


def write(folder, name, launches_):
    path = os.path.join(folder, name)
    with open(path, "wb") as f:
        f.write(traces.trace(launches_))
    return path


def check(what, condition):
    if not condition:
        sys.exit("failed: " + what)


def by_hand(program, folder):
    at = lambda kind, size, address, x: traces.record(x % 4, kind, size, address, (x, 0, 0))
    # Four CTAs write a word each into one line, then each reads its own: false sharing, no conflict.
    path = write(folder, "false", [("k", [at(traces.STORE, 4, 0x1000 + 4 * x, x) for x in range(4)] * 3)])
    _, out = extract(program, [path])
    cell = out["sharing"]["kernels"]["k"]["0"]
    check("a line of four words of four CTAs is falsely shared",
          cell["top"] == [{"address": "0x1000", "allocation": None, "sharing": "false", "accesses": 12, "writers": 4}])
    check("words apart do not conflict", out["conflicts"] == {})
    # With lines of 32 bytes and words 32 bytes apart there is none.
    path = write(folder, "padded", [("k", [at(traces.STORE, 4, 0x1000 + 32 * x, x) for x in range(4)])])
    check("padding helps", extract(program, [path], "--line-size=32")[1]["sharing"]["kernels"]["k"]["0"]["top"] == [])
    # A race: CTA 1 loads what CTA 0 stores, three of the four bytes.
    path = write(folder, "race", [("k", [at(traces.STORE, 4, 0x1000, 0), at(traces.LOAD, 4, 0x1001, 1)])])
    check("a load of stored bytes conflicts", extract(program, [path])[1]["conflicts"]["k"]["0"] == [
        {"a": {"type": "load", "line": None}, "b": {"type": "store", "line": None}, "bytes": 3, "address": "0x1001",
         "allocation": None, "ctas": [[1, 0, 0], [0, 0, 0]]}])
    # The same in two launches is ordered, and atomics do not race with each other.
    path = write(folder, "fine", [("k", [at(traces.STORE, 4, 0x1000, 0)]), ("k", [at(traces.LOAD, 4, 0x1001, 1)]),
                                  ("a", [at(traces.ATOMIC, 4, 0x1000, x) for x in range(5)])])
    check("launches and atomics are in order", extract(program, [path])[1]["conflicts"] == {})
    # A loop over 5 lines, 3 times, by one CTA: 5 cold, then distance 4 always.
    path = write(folder, "loop", [("k", [at(traces.LOAD, 4, 0x1000 + 128 * i, 0) for i in range(5)] * 3)])
    level = {"contexts": 1, "lines": 5, "largest": 5, "cold": 5, "histogram": {"4": 10}}
    check("a cyclic loop has distance n - 1", extract(program, [path])[1]["reuse"]["kernels"] ==
          {"k": {"0": {"uses": 15, "CTA": level, "SM": level, "device": level}}})
    # Kernel b's CTA i reads what kernel a's CTA 7 - i wrote: what a simple placement gets wrong and a good one need not.
    path = write(folder, "mirror", [("a", [at(traces.STORE, 8, 0x1000 + 8 * x, x) for x in range(8)]),
                                    ("b", [at(traces.LOAD, 8, 0x1000 + 8 * (7 - x), x) for x in range(8)])])
    p = extract(program, [path], "--devices=2")[1]["placement"]
    check("all cross in blocks, none at best",
          [p["policies"][x]["cross"] for x in POLICIES] == [64, 64, 0] and p["load"] == 64)
    # All threads of four CTAs read one scalar that a CTA of the launch before wrote: to the other device it goes once, whoever reads how often.
    scalar(program, folder)
    many_readers(program, folder)
    blocks(program, folder)
    return path


def scalar(program, folder):
    load = lambda x: traces.record(x % 4, traces.LOAD, 4, 0x1000, (x, 0, 0))
    path = write(folder, "scalar", [("a", [traces.record(0, traces.STORE, 4, 0x1000, (0, 0, 0))]), ("b", [load(t % 4) for t in range(128)]),
                                    ("b", [load(x) for x in range(4) for t in range(32)])])
    p = extract(program, [path], "--devices=2")[1]["placement"]
    check("a scalar read by 64 threads of the other device, in two launches", [p["policies"]["block"][k] for k in ("cross", "distinct")] == [512, 8] and
          p["policies"]["block"]["distinct_traffic"] == [[0, 8], [0, 0]] and p["kernels"]["b"]["1"]["distinct"]["block"] == 4)
    p = extract(program, [path], "--devices=4")[1]["placement"]
    check("and by three devices", [p["policies"]["robin"][k] for k in ("cross", "distinct")] == [768, 24])


def many_readers(program, folder):
    """Hundreds of CTAs in no order, so that each word has a history of its own."""
    rng = random.Random(7)
    some = lambda kind, n: [traces.record(0, kind, 4, 0x1000 + 4 * rng.randrange(40) + rng.choice([0, 0, 0, 0, 2]), (rng.randrange(300), 0, 0)) for _ in range(n)]
    launched = [("a", some(traces.STORE, 200)), ("b", some(traces.LOAD, 8000) + some(traces.ATOMIC, 50) + some(traces.LOAD, 8000)), ("b", some(traces.LOAD, 4000))]
    path = write(folder, "many", launched)
    reads = brute.extract([traces.trace(launched)], [None], sections=["reads"])["reads"]
    for devices, threads in ((2, 1), (100, 4)):
        out = extract(program, [path], "--devices=%d" % devices, "--threads=%d" % threads)[1]
        places = dict(zip(POLICIES, (*simple(launches(out), devices), assigned(out))))
        for policy, place in places.items():
            check("many readers", check_distinct(out, reads, policy, place, devices) is None)


def blocks(program, folder):
    """CTA 1 reads a megabyte, which one access of CTA 0 wrote: words of it, then all, all again, and a part."""
    of = lambda kind, size, address, x: traces.record(0, kind, size, 0x100000 + address, (x, 0, 0))
    words = [of(traces.LOAD, 4, 4096 * i + 8, 1) for i in (0, 40, 41, 255)]
    whole = [of(traces.LOAD, 1 << 20, 0, x) for x in (0, 1, 1)]
    path = write(folder, "blocks", [("a", [of(traces.STORE, 1 << 20, 0, 0)]), ("b", words + whole + [of(traces.LOAD, 700001, 99, 1), *words])])
    for threads in (1, 2, 5):
        p = extract(program, [path], "--threads=%d" % threads)[1]["placement"]["policies"]["block"]
        check("blocks", (p["cross"], p["distinct"]) == ((2 << 20) + 700001 + 32, 1 << 20))


def rows(program, path, section, *options):
    """The cells of a table in text form, by words."""
    r = subprocess.run([program, "--format=text", "-s", section, *options, path], capture_output=True, text=True)
    check("text of " + section, r.returncode == 0)
    return [line.split() for line in r.stdout.splitlines()]


def long_names(program, folder):
    """A table has kernels' names in short, as the page has; other formats have them whole."""
    path, long = os.path.join(folder, "names"), "v::Policy<int, v::Sum>, "
    names = {"k": "k", "a::b::axpy<v::f>": "axpy<v::f>", "(anonymous namespace)::h": "h", "d::Reduce<%sint>" % (3 * long): "Reduce<…>",
             "n::" + 50 * "x": 50 * "x", "<odd>::k": "k"}
    with open(path, "wb") as f:
        f.write(traces.trace([(name, [traces.record(0, traces.STORE, 4, 0x1000, (0, 0, 0))]) for name in names]))
    r = subprocess.run([program, "--format=text", "-s", "KDV", "--no-companion", path], capture_output=True, text=True)
    check("short names", sorted(x.split()[0] for x in r.stdout.splitlines() if x.endswith(" 0")) == sorted(names.values()))
    check("whole names", set(extract(program, [path], "--no-companion", "-s", "KDV")[1]["KDV"]) == set(names))


def as_text(program, folder):
    path = os.path.join(folder, "mirror")
    check("volumes", ["a", "1", "0", "64", "0", "64", "0", "0", "0"] in rows(program, path, "KDV"))
    check("placement", ["round", "robin", "64", "100.0", "%", "64"] in rows(program, path, "placement") and
          ["least", "traffic", "found", "0", "0.0", "%", "0"] in rows(program, path, "placement"))
    check("no volumes beside", not [r for r in rows(program, path, "placement") if "a" in r])
    check("conflicts", ["k", "load", "?", "store", "?", "1", "3", "0", "0x1001", "1,0,0", "0,0,0"] in
          rows(program, os.path.join(folder, "race"), "conflicts"))
    check("sharing", ["k", "?", "0", "0", "0", "1", "12", "12"] in
          rows(program, os.path.join(folder, "false"), "sharing"))
    check("reuse", ["k", "CTA", "1", "5", "33.3", "%", "66.7", "%", "66.7", "%", "66.7", "%", "66.7", "%"] in
          rows(program, os.path.join(folder, "loop"), "reuse"))
    check("footprint", "the run touches 5 lines of 128 bytes (640 B): its footprint".split() in rows(program, os.path.join(folder, "loop"), "reuse"))
    check("no more rows than --top", [["...", "and", "1", "more"] in rows(program, path, "KDV", *o) for o in ((), ("--top=1",), ("--top=2",))] == [0, 1, 0])
    r = subprocess.run("%s --format=text %s > /dev/full" % (program, path), shell=True, capture_output=True)
    check("a full disk is told", r.returncode == 1 and b"No space left" in r.stderr)


def usage(program, path):
    for option in ("--line-size=16", "--line-size=100", "--line-size=x", "--sample=3", "--sample=0", "--devices=0",
                   "--devices=257", "--format=xml", "--devices=two", "--top=-1", "--sections=morer"):
        r = subprocess.run([program, option, path], capture_output=True)
        check(option + " is refused", r.returncode == 2 and not r.stdout and option.split("=")[1].encode() in r.stderr)
    r = subprocess.run([program, path], capture_output=True)
    check("none of them by default", not set(json.loads(r.stdout)) & set(TABLES + ("placement",)))
    out = json.loads(subprocess.run([program, "-s", "conflicts,KDV,Sharing", path], capture_output=True).stdout)
    check("only those that are named", [k for k in out if k in TABLES + ("KDV", "KCV", "placement", "transfers")] ==
          ["KDV", "sharing", "conflicts"])


def long(program, folder):
    """Thousands of lines, so that what keeps their order is grown and put together anew: beside a plain list by last use."""
    rng = random.Random(3)
    records, recent, histogram, cold = [], [], {}, 0
    for i in range(30000):
        line = rng.randrange(4000) if rng.random() < 0.5 else i // 10 % 3000
        records.append(traces.record(0, traces.LOAD, 8, 0x100000 + 128 * line, (rng.randrange(5), 0, 0)))
        if line in recent:
            distance = recent.index(line)
            recent.remove(line)
            bucket = str(0 if distance == 0 else 2 ** (distance.bit_length() - 1))
            histogram[bucket] = histogram.get(bucket, 0) + 1
        else:
            cold += 1
        recent.insert(0, line)
    path = write(folder, "long", [("k", records[:20000]), ("k", records[20000:])])
    steps = extract(program, [path])[1]["reuse"]["kernels"]["k"].values()
    got = {}
    for step in steps:
        for bucket, n in step["device"]["histogram"].items():
            got[bucket] = got.get(bucket, 0) + n
    check("distances among thousands of lines", got == histogram and sum(s["device"]["cold"] for s in steps) == cold)


def error_bound(program, folder):
    """What --sample states as standard errors holds within four of them, on lines of very different use."""
    rng = random.Random(5)
    records = []
    for _ in range(40000):
        line = min(int(rng.paretovariate(0.7)), 3000) if rng.random() < 0.7 else rng.randrange(6000)
        records.append(traces.record(0, traces.LOAD, 4, 0x100000 + 128 * line, (rng.randrange(3), 0, 0)))
    path = write(folder, "skewed", [("k", records)])
    exact = extract(program, [path])[1]["reuse"]["kernels"]["k"]["0"]
    for sample in (2, 8, 16):
        got = extract(program, [path], "--sample=%d" % sample)[1]["reuse"]["kernels"]["k"]["0"]
        check("uses are counted, not estimated", got["uses"] == exact["uses"] == 40000)
        check("working set at %d" % sample,
              abs(got["device"]["lines"] - exact["device"]["lines"]) <= 4 * got["error_lines"])
        for level in ("CTA", "SM", "device"):
            check("cold uses at %d" % sample, abs(got[level]["cold"] - exact[level]["cold"]) <= 4 * got["error_uses"])
            # Uses at or beyond a distance; a factor of two allows for the distance's own error.
            beyond = lambda h, d: sum(n for b, n in h.items() if int(b) >= d)
            for d in (512, 1024, 2048):
                low, high = beyond(exact[level]["histogram"], 2 * d), beyond(exact[level]["histogram"], d // 2)
                n, e = beyond(got[level]["histogram"], d), 4 * got["error_uses"]
                check("uses beyond %d at %d" % (d, sample), low - e <= n <= high + e)


def distances(lines):
    """Of a list of lines: how many of their uses are at a distance of 2^k or more, for each k, and cold ones; by a tree of sums over time."""
    tree, last, beyond, cold = [0] * (len(lines) + 1), {}, [0] * 40, 0

    def add(i, n):
        while i < len(tree):
            tree[i] += n
            i += i & -i

    def below(i):
        n = 0
        while i:
            n += tree[i]
            i -= i & -i
        return n

    for now, line in enumerate(lines, 1):
        if line in last:
            distance = len(last) - below(last[line])
            for k in range(distance.bit_length()):
                beyond[k] += 1
            add(last[line], -1)
        else:
            cold += 1
        last[line] = now
        add(now, 1)
    return beyond, cold


def many_lines(rng):
    """More lines than are followed: what kernels do to them, in the order of the device."""
    n = 60000
    yield "random", [rng.randrange(n) for _ in range(150000)]
    yield "zipf", [min(int(rng.paretovariate(0.15)), 10**8) for _ in range(250000)]
    yield "stencil", [i + d for _ in range(2) for i in range(n) for d in (0, 200, -200) if i + d >= 0]
    yield "sort", [i ^ 1 << b for b in (0, 3, 9, 15) for i in range(1 << 16)] + [rng.randrange(1 << 16) for _ in range(50000)]


def sampled_by_default(program, folder, names):
    """Above a size: beside all lines (--sample=1) and beside a count of our own, within four of the errors that it states."""
    rng = random.Random(11)
    before = [traces.record(0, traces.LOAD, 1 << 18, 0x80000000, (0, 0, 0))] * 600  # more than a million uses, of 2048 lines
    for name, lines in (pair for pair in many_lines(rng) if pair[0] in names):
        path = write(folder, name, [("before", before), ("k", [traces.record(i // 640 % 4, traces.LOAD, 4, 0x1000000 + 128 * n, (i // 320, 0, 0))
                                           for i, n in enumerate(lines)])])
        got, exact = (extract(program, [path], "-s", "reuse", *o)[1]["reuse"] for o in ((), ("--sample=1",)))
        check("the rate is said", got["sample"] > 1 == exact["sample"])
        check("the footprint is exact with --sample=1", exact["footprint"] == len(set(lines)) + 2048)
        cell, all_of = got["kernels"]["k"]["1"], exact["kernels"]["k"]["1"]
        check("the footprint is near", abs(got["footprint"] - exact["footprint"]) <= 4 * cell["error_lines"])
        check("uses are counted", cell["uses"] == all_of["uses"] == len(lines) and cell["CTA"]["contexts"] == all_of["CTA"]["contexts"])
        beyond, cold = distances(lines)
        far = lambda level, k: sum(n for b, n in level["histogram"].items() if int(b) >= 1 << k)
        check("our own count", cold == all_of["device"]["cold"] and all(far(all_of["device"], k) == beyond[k] for k in range(20)))
        for level in ("CTA", "SM", "device"):
            a, b, e = cell[level], all_of[level], 4 * cell["error_uses"]
            check("%s: all uses of %s" % (name, level), a["cold"] + sum(a["histogram"].values()) == len(lines))
            check("%s: cold uses of %s" % (name, level), abs(a["cold"] - b["cold"]) <= e)
            for k in range(6, 16):
                check("%s: uses of %s beyond %d" % (name, level, 1 << k), far(b, k + 1) - e <= far(a, k) <= far(b, k - 1) + e)
        off = max(abs(far(cell[w], k) - far(all_of[w], k)) for w in ("CTA", "SM", "device") for k in range(6, 16)) / len(lines)
        print("%s: one of %d lines; lines off by %.2f %% (stated: %.2f), uses beyond a distance by %.2f %% (stated: %.2f)" %
              (name, got["sample"], 100 * abs(got["footprint"] / exact["footprint"] - 1), 100 * cell["error_lines"] / exact["footprint"],
               100 * off, 100 * cell["error_uses"] / len(lines)))
    small = write(folder, "small", [("k", [traces.record(0, traces.LOAD, 4, 0x1000000 + 128 * (i * 7919 % 8000), (i % 4, 0, 0)) for i in range(30000)])])
    check("few lines are exact", extract(program, [small])[1]["reuse"] == extract(program, [small], "--sample=1")[1]["reuse"])


def main():
    program = sys.argv[1]
    cases = int(sys.argv[2]) if len(sys.argv) > 2 else 300
    os.environ["PYTHONHASHSEED"] = "0"
    with tempfile.TemporaryDirectory(prefix="mt-more-") as folder:
        usage(program, by_hand(program, folder))
        as_text(program, folder)
        long_names(program, folder)
        long(program, folder)
        error_bound(program, folder)
        sampled_by_default(program, folder, ("random", "zipf", "stencil", "sort") if cases > 50 else ("zipf", "stencil"))
    failed = 0
    with Pool(min(4, os.cpu_count() or 1)) as pool:
        for problem in pool.imap_unordered(run_case, [(program, i) for i in range(1, cases + 1)], chunksize=10):
            if problem:
                failed += 1
                if failed <= 2:
                    print(problem)
    print("%d of %d random traces agree" % (cases - failed, cases))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
