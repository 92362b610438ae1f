#!/usr/bin/env python3
"""memtrace extract against the brute-force extractor on random small traces.

usage: property_test.py MT_EXTRACT [CASES] [SEED] [GEN_HOST]     a failing case is kept and its command printed
With GEN_HOST each case has a host trace of several threads beside the traces of kernels.
"""
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
from multiprocessing import Pool

import brute
import host_traces
import traces

SECTIONS = ["KCV", "KDV", "CCV", "CDV", "SCV", "SDV", "HCV", "HDV", "transfers", "senders", "addresses"]
KERNELS = ["a", "b<int, 3>", "ns::c", "a2", '"q\\uote"', "\u00e9t\u00e9", ""]


def make_records(rng, style):
    base = rng.choice([0x7F0000000000, 0x7F0000000FC0, 0x7F000000FFC0, 0x7F000000FFC0, 0x10, 0x2000])
    span = rng.choice([16, 64, 200, 5000])
    if style == "any" and rng.random() < 0.2:  # around the end of the address space
        base, span = 0xFFFFFFFFFFFFFFF0, 24
    ctas = [
        (rng.choice([0, 1, 2, 3, 10, 2**32 - 1]), rng.choice([0, 0, 1, 65535]), rng.choice([0, 0, 0, 2, 65535]))
        for _ in range(rng.randint(1, 5))
    ]
    sms = [rng.choice([0, 1, 7, 131, 2**32 - 1]) for _ in range(rng.randint(1, 3))]
    pinned = rng.random() < 0.5  # one SM per CTA, as on a device
    kinds = rng.choices([0, 1, 2, 3], weights=[10, 8, 2, rng.choice([0, 1])], k=400)

    def one(kind):
        if style == "words" or (style == "parts" and kind != 0):
            size = rng.choice([4, 4, 4, 8, 16])
            address = base + rng.randrange(0, span, 4)
        elif style == "vectors":
            size = rng.choice([4, 8, 16, 32, 4096])
            address = base + rng.randrange(0, span, size if size < 64 else 4)
        elif style in ("bytes", "parts"):
            size = rng.choice([1, 1, 2, 3, 4, 6])
            address = base + rng.randrange(0, span)
        else:
            size = rng.choice([1, 2, 3, 4, 5, 8, 12, 16, 33, 100] + ([9000] if rng.random() < 0.01 else []))
            address = base + rng.randrange(0, span)
        cta = rng.choice(ctas)
        sm = sms[hash(cta) % len(sms)] if pinned else rng.choice(sms)
        return traces.record(sm, kind, size, address % 2**64, cta), base, span

    return [one(k) for k in kinds]


def with_rows(rng, records):
    """Some of the records become rows: each access where the one before ends, or at the same place."""
    out = []
    for r in records:
        out.append(r)
        if rng.random() < 0.08:
            w = [int.from_bytes(r[8 * i : 8 * i + 8], "little") for i in range(3)]
            step = rng.choice([w[0] & 0xFFFFFFF] * 4 + [0])
            for k in range(1, rng.choice([2, 5, 6, 7, 20, 40])):
                out.append(r[:8] + ((w[1] + k * step) % 2**64).to_bytes(8, "little") + r[16:])
    return out


def hexadecimal(rng, n):
    return hex(n) if rng.random() < 0.9 else n


def make_copy(rng, seq, base, span):
    low = base if base < 2**62 else 0
    at = lambda: low + rng.randrange(0, span, rng.choice([1, 4]))
    n = rng.choice([1, 3, 4, 16, 64, 200] + ([4096, 9000] if rng.random() < 0.2 else []))
    if rng.random() < 0.15:  # what was there before belongs to nobody any more
        return {"ev": "alloc", "seq": seq, "id": seq, "base": hexadecimal(rng, at()), "bytes": n, "kind": "cudaMalloc"}
    if rng.random() < 0.3:
        e = {"ev": "memset", "seq": seq, "dst": at(), "value": 7, "bytes": n, "stream": -1}
        pitch = "pitch"
    else:
        e = {"ev": "memcpy", "seq": seq, "kind": rng.choice(["h2d", "h2d", "h2h", "d2d", "d2d", "d2h"])}
        e.update(dst=at(), src=at(), bytes=n, stream=0)
        if rng.random() < 0.3:  # overlapping itself
            e["dst"] = max(0, e["src"] + rng.choice([-5, -4, 3, 4, 8, 60]))
        pitch = "dpitch"
    if rng.random() < 0.3:
        width, height = rng.randint(1, 20), rng.randint(1, 4)
        e.update(width=width, height=height, bytes=width * height)
        e[pitch] = width + rng.randint(0, 20)
        if e["ev"] == "memcpy":
            e["spitch"] = width + rng.randint(0, 9)
    for key in ("dst", "src"):
        if key in e:
            e[key] = hexadecimal(rng, e[key])
    return e


PLACES = ["a.cu:7", "/src/b.cc:12", "/src/b.cc:9", "b.cc:100", None]
HOST_OPS = ["load", "store", "atomic", "cas", "cas-failed", "unknown"]


def make_host(rng, style, base, span, last):
    """Accesses of up to three threads, near what the kernels touch; `last`: the last number given to a CUDA call."""
    accesses = []
    for thread in range(rng.randint(1, 3)):
        seq = 0
        for _ in range(rng.choice([0, 3, 30, 60])):
            if rng.random() < 0.3:
                seq = min(seq + rng.choice([1, 1, 2, 5]), last + 2)
            size = rng.choice([4, 4, 8, 16] if style in ("words", "vectors") else [1, 2, 3, 4, 8, 16, 33])
            if rng.random() < 0.02:
                size = rng.choice([4096, 9000])
            address = base + rng.randrange(0, span, 4 if style in ("words", "vectors") else 1)
            op = rng.choices(HOST_OPS, [10, 8, 1, 1, 1, 0.5])[0]
            accesses.append({"seq": seq, "thread": thread, "place": rng.choice(PLACES), "op": op,
                             "addr": address % 2**64, "size": size})
    return accesses


def write_case(folder, data, metas):
    """The traces of make_case, with their companions where they have one: paths."""
    paths = []
    for i, (d, m) in enumerate(zip(data, metas)):
        paths.append(os.path.join(folder, "t%d" % i))
        with open(paths[-1], "wb") as f:
            f.write(d)
        if m is not None:
            with open(paths[-1] + ".meta", "w") as f:
                f.write(m)
    return paths


def make_case(rng, with_host):
    """Traces, companions (text or None), options, whether all is whole, and accesses of the host (or None)."""
    style = rng.choice(["words", "vectors", "parts", "parts", "bytes", "any", "any"])
    pool = make_records(rng, style)
    base, span = pool[0][1:]
    nfiles = rng.choice([1, 1, 1, 2, 3])
    files = [[] for _ in range(nfiles)]
    seqs = [[] for _ in range(nfiles)]
    shared, seq = [], 1 if with_host else 0  # 0: before the first call
    for _ in range(rng.randint(0, 6)):
        while rng.random() < 0.5:
            shared.append(make_copy(rng, seq, base, span))
            seq += 1
        i = rng.randrange(nfiles)
        files[i].append((rng.choice(KERNELS), with_rows(rng, [r[0] for r in rng.sample(pool, rng.choice([0, 1, 5, 20, 40]))])))
        seqs[i].append(seq)
        seq += rng.randint(1, 3)
    data = [traces.trace(f) for f in files]
    metas = []
    for i in range(nfiles):
        events = [
            {"ev": "launch", "seq": s, "kernel": n, "traced": True, "records": len(r), "untraced": 2}
            for s, (n, r) in zip(seqs[i], files[i])
        ]
        if rng.random() < 0.3:
            events.append({"ev": "launch", "seq": seq + i, "kernel": "z", "traced": False, "records": 0})
        events = sorted(events + shared, key=lambda e: e["seq"])
        total = sum(len(r) for _, r in files[i])
        end = {"records_written": total, "records_counted": total}
        metas.append(traces.companion(events, {"stream": i}, end))
    whole, was_cut, cut_file = True, False, 0
    if rng.random() < 0.1:
        i = rng.randrange(nfiles)
        cut_file, cut = i, rng.randint(0, len(data[i]))
        was_cut = cut < len(data[i])
        data[i] = data[i][:cut]
        whole = brute.parse(data[i])[1]
    if rng.random() < 0.25:
        if rng.random() < 0.5:
            metas = [None] * nfiles
        else:
            metas[rng.randrange(nfiles)] = None
    if was_cut and metas[cut_file] is not None:
        whole = False  # cut between two launches: only the companion knows
    options = {
        "local": rng.random() < 0.3,
        "strict": rng.random() < 0.3,
        "host": rng.random() < 0.8,
        "kernels": rng.choice([None, None, None, "^a", "b|c"]),
        "supersteps": rng.choice([None, None, None, (1, 3), (2, None), (0, 1)]),
        "sections": rng.choice([SECTIONS, SECTIONS, SECTIONS[:9], SECTIONS[8:], rng.sample(SECTIONS, 3), ["KDV", "SDV"], ["CDV"]]),
    }
    accesses = make_host(rng, style, base, span, seq) if with_host else None
    return data, metas, options, whole, accesses


def command(program, paths, o):
    args = [program, "--sections", ",".join(o["sections"])]
    args += ["--same-cta=local"] if o["local"] else []
    args += ["--strict"] if o["strict"] else []
    args += [] if o["host"] else ["--no-host"]
    args += ["--kernels", o["kernels"]] if o["kernels"] is not None else []
    if o["supersteps"]:
        a, b = o["supersteps"]
        args += ["--launches", "%d..%s" % (a, "" if b is None else b - 1)]
    return args + paths


def check_invariants(out):
    for k, steps in out.get("KCV", {}).items():
        for s, v in steps.items():
            for what in ("Load", "Store"):
                for part in ("CCV", "SCV"):
                    if part in out and sum(x[what] for x in out[part][k][s].values()) != v[what]:
                        return "%s does not add up to KCV" % part
            if "transfers" in out:
                into = 0
                for source, t in out["transfers"].items():
                    if source != "<host>":
                        for per_step in t.values():
                            for per_kernel in per_step.values():
                                for per_cta in per_kernel.get(k, {}).values():
                                    into += per_cta.get(s, {"Size": 0})["Size"]
                if into != v["Load"]:
                    return "transfers into %s/%s are %d bytes, KCV says %d" % (k, s, into, v["Load"])
    return check_host(out)


def leaves(table, depth):
    if depth == 0:
        yield (), table
        return
    for k, v in table.items():
        for path, leaf in leaves(v, depth - 1):
            yield (k,) + path, leaf


def check_host(out):
    for (place, step), v in leaves(out.get("HCV", {}), 2):
        if "HDV" in out and v["Load"] > out["HDV"].get(place, {}).get(step, {"Load": 0})["Load"]:
            return "%s/%s reads more from CTAs than it reads" % (place, step)
        if "transfers" in out:
            into = sum(t["Size"] for p, t in leaves(out["transfers"], 6) if p[3:] == ("<host>", place, step))
            if into != v["Load"]:
                return "transfers into %s/%s are %d bytes, HCV says %d" % (place, step, into, v["Load"])
    if any(p[0] == p[3] == "<host>" for p, _ in leaves(out.get("transfers", {}), 6)):
        return "the host talks to itself"
    return None


PASSING = {"KDV", "CDV", "SDV", "HDV", "transfers"}


def run_case(job):
    program, seed, gen_host = job
    rng = random.Random(seed)
    data, metas, options, whole, accesses = make_case(rng, gen_host is not None)
    folder = tempfile.mkdtemp(prefix="mt-property-", dir=os.environ.get("MT_TEST_TMP"))
    paths = write_case(folder, data, metas)
    piped = len(paths) == 1 and metas[0] is None and rng.random() < 0.3
    traces_given = ["-"] if piped else list(paths)
    convert = os.path.join(os.path.dirname(program), "mt-convert")
    if whole and None not in metas and seed % 3 == 0 and os.path.exists(convert):  # the same as compact traces
        for i, path in enumerate(paths):
            if seed % 2 or i % 2:
                subprocess.run([convert, "-o", path + ".mtc", path], check=True, capture_output=True)
                traces_given[i] = path + ".mtc"
    if accesses is not None:
        script = host_traces.script(accesses, chunk=lambda: rng.random() < 0.1, sized=lambda: rng.random() < 0.5)
        host_traces.write(gen_host, os.path.join(folder, "host.mtc"), script, rng.choice([0, 1, 3]))
        traces_given.insert(rng.randint(0, len(paths)), os.path.join(folder, "host.mtc"))
    args = command(program, traces_given, options) + rng.choice([[], ["--threads", "1"], ["--threads", "3"], ["--threads=6"]])
    r = subprocess.run(args, input=data[0] if piped else None, stdin=None if piped else subprocess.DEVNULL,
                       capture_output=True)
    problem = None
    try:
        got = json.loads(r.stdout, parse_float=None)
        expected = brute.extract(data, metas, accesses=accesses, **options)
        if "--launches" in args and set(options["sections"]) <= PASSING and got["unknown"] < expected["unknown"]:
            expected["unknown"] = got["unknown"]  # of what was read: launches of compact traces were passed over
        shown = {k: got[k] for k in got if k in expected}
        if json.dumps(shown) != json.dumps(expected):
            problem = "output differs\n got      %s\n expected %s" % (json.dumps(shown), json.dumps(expected))
        elif [k for k in got if k in SECTIONS] != [s for s in SECTIONS if s in options["sections"] and (s[0] != "H" or s in expected)]:
            problem = "sections are %s" % list(got)
        elif got["complete"] is not (False if not whole else None if None in metas else True) or r.returncode != (0 if whole else 3):
            problem = "complete %s, exit code %d, trace whole %s" % (got["complete"], r.returncode, whole)
        else:
            problem = check_invariants(got)
    except (ValueError, KeyError) as e:
        problem = "no proper output (exit code %d): %r" % (r.returncode, e)
    if problem is None:
        shutil.rmtree(folder)
        return None
    return "seed %d: %s\n%s\n%s" % (seed, " ".join(args), problem, r.stderr.decode(errors="replace"))


def main():
    program = sys.argv[1]
    cases = int(sys.argv[2]) if len(sys.argv) > 2 else 3000
    first = int(sys.argv[3]) if len(sys.argv) > 3 else 1
    gen_host = sys.argv[4] if len(sys.argv) > 4 else None
    failed = 0
    os.environ["PYTHONHASHSEED"] = "0"
    with Pool(min(4, os.cpu_count() or 1)) as pool:
        for problem in pool.imap_unordered(run_case, [(program, first + i, gen_host) for i in range(cases)], chunksize=50):
            if problem:
                failed += 1
                if failed <= 3:
                    print(problem)
    print("%d of %d random traces agree with the brute-force extractor" % (cases - failed, cases))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
