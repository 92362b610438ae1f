#!/usr/bin/env python3
"""The further analyses against their brute-force counterparts on random runs, in parts merged at random.

usage: locality_test.py RUN_ANALYSES [CASES] [SEED]     a failing case's script is kept and its command printed
"""
import json
import os
import random
import subprocess
import sys
import tempfile
from multiprocessing import Pool

import brute_locality

KERNELS = ["a", "b<int,3>", "ns::c", "a2"]
FILES = ["k.cu", "/src/b.cu", ""]


def make_sites(rng):
    ids = rng.sample(range(0, 12), rng.randint(0, 8))
    return [(i, rng.choice(FILES), rng.choice([7, 12, 100]), rng.choice(["in", "out", ""]), rng.choice([3, 3, 9, 20])) for i in ids]


def make_allocs(rng, base, span):
    """Some use an address again, none lives while another one is there."""
    allocs = []
    for i in range(rng.choice([0, 1, 3, 6])):
        born = 2 * rng.randint(0, 8) + 1  # numbers are of one event each: launches have the even ones
        start = (base + rng.randrange(0, span)) % 2**64
        size = min(rng.choice([1, 64, 300, 5000]), 2**64 - start)
        dead = rng.choice([None, born + 2 * rng.randint(1, 9)])
        if all(b + n <= start or start + size <= b or (d is not None and d <= born) or (dead is not None and dead <= s)
               for _, b, n, s, d, _ in allocs):
            allocs.append((i + 1, start, size, born, dead, rng.choice(["", "x", "y"])))
    return allocs


def make_run(rng, style, base, span, ctas):
    cta = rng.choice(ctas)
    kind = rng.choices(brute_locality.TYPES, [8, 6, 3, 1])[0]
    size = rng.choice([4, 4, 4, 8, 16] if style == "words" else [1, 1, 2, 3, 4, 8, 16, 33, 130])
    step = 4 if style == "words" else 1
    start = base + rng.randrange(0, span, step)
    count = rng.choice([1, 1, 2, 5, 32])
    shape = rng.random()
    if shape < 0.6:
        stride = rng.choice([size, size, 0, -size, 4, -4, 64, 128, 132] + ([1, 3] if style == "bytes" else []))
        addresses, given = [(start + i * stride) % 2**64 for i in range(count)], False
    else:
        stride, given = 0, True
        addresses = [(base + rng.randrange(0, span, step)) % 2**64 for _ in range(count)]
        if shape > 0.9:  # evenly spaced all the same
            addresses = [(start + i * size) % 2**64 for i in range(count)]
    mask = 0
    if rng.random() < 0.8:
        mask = sum(1 << lane for lane in rng.sample(range(32), count))
    run = {"cta": cta, "sm": hash(cta) % 3 if rng.random() < 0.9 else 7, "type": kind, "size": size,
           "addresses": addresses, "mask": mask, "site": rng.randrange(0, 14)}
    word = cta[0] << 32 | cta[1] << 16 | cta[2]
    text = "R %d %d %d %d %d %d %d %d %d" % (addresses[0], stride, word, run["sm"],
                                             brute_locality.TYPES.index(kind) << 28 | size, count, mask,
                                             0xFFFFFFFF if not mask else rng.randrange(4), run["site"])
    return run, text + "".join(" %d" % a for a in addresses) if given else text


def make_case(rng):
    style = rng.choice(["words", "bytes"])
    base = rng.choice([0x7F0000000000, 0x7F0000000FC0, 0x10, 2**64 - 256])
    span = rng.choice([16, 200, 1500])
    ctas = [(rng.choice([0, 1, 2, 3, 2**32 - 1]), rng.choice([0, 0, 1, 65535]), rng.choice([0, 0, 2, 65535]))
            for _ in range(rng.randint(1, 5))]
    sites, allocs = make_sites(rng), make_allocs(rng, base, span)
    script = ["S %d %s %d %s %d" % (i, f or "-", n, v or "-", c) for i, f, n, v, c in sites]
    script += ["A %d %d %d %d %d %s" % (i, b, n, s, 2**64 - 1 if d is None else d, t or "-")
               for i, b, n, s, d, t in allocs]
    cut = rng.choice([0, 0.05, 0.3])
    trace, seq, masked = [], 0, rng.random() < 0.9
    names = [rng.choice(KERNELS) for _ in range(rng.randint(1, 5))]
    for superstep, name in enumerate(names):
        seq += 2 * rng.randint(1, 3)
        launch = {"superstep": superstep, "seq": rng.choice([seq, seq, None]), "kernel": name,
                  "selected": rng.random() < 0.8, "runs": []}
        trace.append(launch)
        script.append("L %d %d %d %s" % (superstep, 2**64 - 1 if launch["seq"] is None else launch["seq"],
                                         launch["selected"], name))
        for _ in range(rng.choice([0, 1, 10, 40])):
            run, text = make_run(rng, style, base, span, ctas)
            if not masked:
                words = text.split()
                run["mask"], words[7] = 0, "0"
                text = " ".join(words)
            launch["runs"].append(run)
            script.append(text)
            while rng.random() < cut:
                script.append("P")
        while rng.random() < cut:
            script.append("P")
    return trace, sites, allocs, script


def run_case(job):
    program, seed = job
    rng = random.Random(seed)
    trace, sites, allocs, script = make_case(rng)
    line_bits, bits, top = rng.choice([5, 6, 7, 7, 9]), rng.choice([0, 0, 0, 1, 3]), rng.choice([0, 1, 2, 10])
    cells = rng.choice([0, 0, 3, 20, 100])
    args = [program, str(line_bits), str(bits), str(top), str(seed), str(cells)]
    r = subprocess.run(args, input="\n".join(script).encode() + b"\n", capture_output=True, timeout=60)
    expected = brute_locality.analyse(trace, sites, allocs, 2**line_bits, bits, top, cells or 1 << 16)
    try:
        got = json.loads(r.stdout)
    except ValueError as e:
        got = "%r, exit code %d, %s" % (e, r.returncode, r.stderr.decode(errors="replace"))
    if r.returncode == 0 and json.dumps(got) == json.dumps(expected):
        return None
    kept = os.path.join(tempfile.gettempdir(), "mt-more-%d.script" % seed)
    with open(kept, "w") as f:
        f.write("\n".join(script) + "\n")
    for section in expected:
        if not isinstance(got, dict) or json.dumps(got.get(section)) != json.dumps(expected[section]):
            show = got[section] if isinstance(got, dict) and section in got else got
            return "%s < %s\n%s is\n %s\nnot\n %s" % (" ".join(args), kept, section, json.dumps(show),
                                                       json.dumps(expected[section]))
    return "%s < %s: sections %s" % (" ".join(args), kept, list(got))


def many_case(job):
    """Too many lines, in parts: what reuse says it knows, and errors by its own words."""
    program, seed = job
    rng = random.Random(seed)
    script, trace = [], []
    for superstep in range(3):
        script.append("L %d %d 1 k" % (superstep, 2 * superstep))
        trace.append({"superstep": superstep, "kernel": "k", "selected": True, "runs": []})
        for i in range(1500):
            cta, lanes = rng.randrange(150), rng.choice([1, 2, 8])
            start = rng.choice([rng.randrange(1200), 8 * cta + i % 8, min(int(rng.paretovariate(0.7)), 1200)])
            addresses = [128 * (start + 7 * lane * lane) for lane in range(lanes)]
            trace[-1]["runs"].append({"cta": cta, "sm": cta % 3, "type": "load", "size": 4, "addresses": addresses})
            script.append("R %d 0 %d %d 4 %d 1 0 0 %s" % (addresses[0], cta << 32, cta % 3, lanes, " ".join(map(str, addresses))))
            if rng.random() < 0.002:
                script.append("P")
    expected = brute_locality.reuse(trace, 128, 0)
    for most in (400, 100, 1 << 20):
        r = subprocess.run([program, "7", str(-most), "0", str(seed), "0"], input="\n".join(script).encode() + b"\n", capture_output=True, timeout=60)
        got = json.loads(r.stdout)["reuse"] if r.returncode == 0 else None
        wrong = "exit code %d" % r.returncode if got is None else None
        if most == 1 << 20 and got != expected:
            wrong = "not exact below the limit"
        for step, cell in expected["kernels"]["k"].items() if most < 1 << 20 and not wrong else ():
            have = got["kernels"]["k"][step]
            uses, error = have["error_uses"], 4 * have["error_lines"]
            for level in ("CTA", "SM", "device"):
                a, b = have[level], cell[level]
                if a["cold"] + sum(a["histogram"].values()) != have["uses"] or have["uses"] != cell["uses"] or a["contexts"] != b["contexts"]:
                    wrong = "step %s, %s: uses or contexts" % (step, level)
                beyond = lambda x, d: x["cold"] + sum(n for k, n in x["histogram"].items() if int(k) >= d)
                for d in (512, 1024) if level == "device" else (1 << 40,):
                    if not beyond(b, 2 * d) - 4 * uses <= beyond(a, d) <= beyond(b, d // 2) + 4 * uses:
                        wrong = "step %s, %s: beyond %d: %s, not %s (+- %d)" % (step, level, d, a, b, uses)
            if abs(have["device"]["lines"] - cell["device"]["lines"]) > error or not error and most == 100:
                wrong = "step %s: %s lines, not %s" % (step, have["device"]["lines"], cell["device"]["lines"])
        if wrong:
            return "seed %d, at most %d lines: %s" % (seed, most, wrong)
    return None


def main():
    program = sys.argv[1]
    cases = int(sys.argv[2]) if len(sys.argv) > 2 else 1000
    first = int(sys.argv[3]) if len(sys.argv) > 3 else 1
    failed = 0
    os.environ["PYTHONHASHSEED"] = "0"
    with Pool(min(4, os.cpu_count() or 1)) as pool:
        for problem in pool.imap_unordered(many_case, [(program, first + i) for i in range(max(4, cases // 100))]):
            if problem:
                failed += 1
                print(problem)
        for problem in pool.imap_unordered(run_case, [(program, first + i) for i in range(cases)], chunksize=20):
            if problem:
                failed += 1
                if failed <= 2:
                    print(problem)
    print("%d of %d random cases agree with brute force" % (cases - failed, cases))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
