#!/usr/bin/env python3
"""memtrace extract --format=summary says what the page's "At a glance" says, sentence by sentence and in its order (one made of a comm.json, too, but for
what its sections do not have), and what is made here of the
figures of its comm.json, sentence by sentence; on random traces and on the worked example, whose sentences are derived by hand in page_test.py.
usage: summary_test.py BIN SOURCE GEN_DEVICE"""
import json
import math
import os
import random
import re
import subprocess
import sys

from page_case import BIN, Case, SOURCE, main, run
import property_test as cases
from spaces import LOAD, SHARED, STORE, container
import traces

GEN_DEVICE = sys.argv.pop(3)


# ---- sentences from the figures of a comm.json ----

def size(n):
    units = ["B", "KiB", "MiB", "GiB"]
    u = 0
    while n >= 1024 and u < 3:
        n, u = n / 1024, u + 1
    return "%s %s" % (format(n, ",d") if not u else "%.*f" % (2 if n < 10 else 1 if n < 100 else 0, math.nextafter(n, math.inf)), units[u])


def share(part, whole):
    p = 100 * part / whole if whole else 0
    words = "%.0f" % p if part == whole or not part else "< 0.1" if p < 0.1 else "> 99.9" if p > 99.9 else "%.1f" % math.nextafter(p, math.inf)
    return words + " %"


def many(n, word):
    return "%s %s" % (format(n, ",d"), word if n == 1 else word + ("es" if word[-2:] in ("ch", "ss") else "s"))


def base(place):
    return place.rsplit("/", 1)[-1]


def short(kernel):
    name, angle, rest = kernel.partition("<")
    name = name.rsplit("::", 1)[-1]
    return name + ("<…>" if angle and len(name + angle + rest) > 40 else angle + rest)


def most(rows, key):
    return min(enumerate(rows), key=lambda x: (-key(x[1]), x[0]))[1]


def of_kernels(c):
    sums = {}
    for kernel, steps in c["KDV"].items():
        sums[kernel] = (sum(v["Load"] for v in steps.values()), sum(v["Store"] for v in steps.values()), len(steps), min(map(int, steps)))
    moved = sum(a + b for a, b, *_ in sums.values())
    if moved:
        top = min(sums, key=lambda k: (-sums[k][0] - sums[k][1], sums[k][3]))
        load, store, n, _ = sums[top]
        if len(sums) == 1:
            yield "One kernel, %s, moves all bytes: %s loaded, %s stored in %s." % (short(top), size(load), size(store), many(n, "launch"))
        else:
            yield "%s moves most: %s, %s of all bytes, in %d of %s." % (short(top), size(load + store), share(load + store, moved), n, many(sum(s[2] for s in sums.values()), "launch"))


def of_transfers(c, local, strict):
    sent = {}
    for source, ctas in c["transfers"].items():
        for steps in ctas.values():
            for step, targets in steps.items():
                for target, places in targets.items():
                    for place in places.values():
                        for reader, t in place.items():
                            row = sent.setdefault((source, target), [0, int(reader), int(step)])
                            sent[source, target] = [row[0] + t["Size"], min(row[1], int(reader)), min(row[2], int(step))]
    load = sum(v["Load"] for steps in c["KDV"].values() for v in steps.values())
    by = [sum(v[kind] for steps in c["senders"].values() for v in steps.values()) for kind in ("same_launch", "earlier_launch", "same_cta")]
    if not sum(by):
        return
    who = ["another CTA of the same launch", "another CTA of an earlier launch", "the same CTA of an earlier launch"]
    parts = ["%s (%s)%%s by %s" % (size(n), share(n, load).replace("%", "%%"), w) for i, (n, w) in enumerate(zip(by, who)) if not (i == 0 and strict or i == 2 and local)]
    words = ", ".join([parts[0] % " were last written"] + [p % "" for p in parts[1:]])
    pairs = {k: v for k, v in sent.items() if "<host>" not in k}
    top = min(pairs, key=lambda k: (-pairs[k][0], pairs[k][1], pairs[k][2])) if pairs else None
    yield "Of the bytes that CTAs load, %s%s." % (words, "" if not pairs or len(pairs) == 1 and top[0] == top[1] else "; %s %s to %s%s" % ("most go from" if len(pairs) > 1 else "all of them from", *map(short, top),
                                        ": " + size(pairs[top][0]) if len(pairs) > 1 else ""))


def of_lines(c):
    sums = {line: sum(v["Load"] + v["Store"] for v in kernels.values()) for line, kernels in ((c["lines"] or {}).get("lines") or {}).items()}
    known = {k: v for k, v in sums.items() if k != "?"}
    if len(known) > 1 and sum(sums.values()):
        top = min(known, key=lambda k: (-known[k], k))
        yield "Line %s moves most of %s: %s, %s of all bytes." % (base(top), many(len(known), "line"), size(known[top]), share(known[top], sum(sums.values())))


def of_coalescing(c):
    rows = [(kernel, line, kind, r) for kernel, lines in ((c["coalescing"] or {}).get("kernels") or {}).items() if kernel not in c.get("apart", [])
            for line, kinds in lines.items() for kind, r in kinds.items()]
    vain = lambda x: max(0, 32 * x[3]["sectors"] - x[3]["distinct"])
    moved, lost = sum(32 * x[3]["sectors"] for x in rows), sum(map(vain, rows))
    if moved and lost < 0.1 * moved:
        yield "Accesses are well coalesced: warps use %s of the bytes that they fetch or store." % share(moved - lost, moved)
    elif moved:
        kernel, line, kind, r = most(rows, vain)
        halves = any(r["strides"].get(s) for s in ("16", "-16")) and r["bytes"] < 16 * r["accesses"]
        yield "Warps use %s of the %s that they fetch or store. Worst: the %s at %s, %.1f sectors per request, %s used%s." % (
            share(moved - lost, moved), size(moved), kind, short(kernel) if line == "?" else base(line), math.nextafter(r["sectors"] / r["requests"], math.inf), share(r["distinct"], 32 * r["sectors"]),
            " (clang may access values of 16 bytes, float4 or __int128, in two halves; nvcc does not)" if halves else "")


def of_sharing(c):
    found = []
    for kernel, steps in c["sharing"]["kernels"].items():
        sums = {}
        for v in steps.values():
            for label, kinds in v["allocations"].items():
                bad, n = sums.get(label, (0, 0))
                sums[label] = (bad + kinds["false"]["accesses"], n + sum(k["accesses"] for k in kinds.values()))
        bad, n = (sum(x) for x in zip(*sums.values())) if sums else (0, 0)
        at = lambda label: (-sums[label][0], int(label[1:].split()[0]) if label[0] == "#" else 1 << 62)
        if bad and bad / n >= 0.01:
            found.append((-bad / n, -bad, kernel, n, min(sums, key=at)))
    found.sort()
    if found:
        parts = ["%s of %s of %s, most in %s" % (share(-bad, n), "those" if i else "the accesses", short(kernel), label) for i, (_, bad, kernel, n, label) in enumerate(found[:3])]
        yield "False sharing of %d-byte lines between CTAs: %s%s." % (c["sharing"]["line_size"], "; ".join(parts), "; also in " + many(len(found) - 3, "other kernel") if len(found) > 3 else "")


def of_conflicts(c):
    rows = [(kernel, x) for kernel, steps in c["conflicts"].items() for found in steps.values() for x in found]
    together = [x for _, x in rows if x.get("cooperative")]
    rows = [(kernel, x) for kernel, x in rows if not x.get("cooperative")]
    if together:
        yield "%s in cooperative launches, whose barriers of the grid may order them, are not judged." % (
            "1 pair of accesses" if len(together) == 1 else f"{len(together):,} pairs of accesses")
    if rows:
        kernel, top = most(rows, lambda x: x[1]["bytes"])
        side = lambda s: (base(s["line"]) + " " if s["line"] else "") + s["type"]
        yield "%s between CTAs of one launch, unless the program orders them; the largest in %s: %s against %s on %s." % (
            many(len(rows), "possible race"), short(kernel), side(top["a"]), side(top["b"]), size(top["bytes"]))


def of_placement(c):
    p = c["placement"]
    if p["load"]:
        best = most(["block", "robin", "mincut"], lambda k: -p["policies"][k]["cross"])
        cross = p["policies"][best]["cross"]
        if "ran" not in p or p["ran"] > cross:
            yield "Split over %s, %s would cross between devices (best placement tried: %s)%s." % (many(p["devices"], "device"), share(cross, p["load"]) + " of the communication" if cross else "no communication",
                  {"block": "blocks of CTAs", "robin": "round robin", "mincut": "least traffic found"}[best], "; as it ran: " + share(p["ran"], p["load"]) if "ran" in p else "")


def of_turns(c):
    """Buffers that a launch only reads and its kernel's next one only writes, and the other way round, in pairs of one size."""
    if c["traffic"] is None or c["traffic"].get("launch_step", 1) > 1:
        return
    uses, kernel_of, found = {}, {int(s): k for k, steps in c["KDV"].items() for s in steps}, {}
    for label, a in c["traffic"]["allocations"].items():
        for step, load, store, *_ in a["launches"] if "id" in a else ():
            if load or store:
                uses.setdefault(step, {})[a["id"]] = (label, a["bytes"], bool(load), bool(store))
    last = {}
    for step in sorted(s for s in uses if s in kernel_of):
        kernel, now, before = kernel_of[step], uses[step], last.get(kernel_of[step], {})
        last[kernel] = now
        both = sorted(set(now) & set(before))
        read = [i for i in both if now[i][2:] == (True, False) and before[i][2:] == (False, True)]
        for i in [i for i in both if now[i][2:] == (False, True) and before[i][2:] == (True, False)]:
            other = next((k for k in read if now[k][1] == now[i][1]), None)
            if other is not None:
                read.remove(other)
                key = (min(i, other), max(i, other), kernel)
                found[key] = found.get(key, 0) + 1
    names = {i: (label, n) for use in uses.values() for i, (label, n, *_) in use.items()}
    if found:
        a, b, kernel = min(found, key=lambda k: (-found[k], -names[k[0]][1], k))
        others = len({k[:2] for k in found}) - 1
        yield "Double buffering: %s reads one of %s and %s (%s each) and writes the other, and its next launch swaps them, %s%s." % (
            short(kernel), names[a][0], names[b][0], size(names[a][1]), many(found[a, b, kernel], "time"), "; " + many(others, "more pair") if others else "")


# How sentences of each kind begin or go on, so that none is missed.
KINDS = {"kernel": ("moves all bytes:", "moves most:"), "comm": ("Of the bytes that CTAs load",), "line": ("moves most of",), "coalescing": ("Warps use", "well coalesced"), "sharing": ("False sharing",),
         "conflicts": ("between CTAs of one launch,",), "placement": ("best placement tried",), "turns": ("Double buffering",)}


def model(c, options):
    yield from of_kernels(c)
    yield from of_transfers(c, "--same-cta=local" in options, "--strict" in options)
    for of in (of_lines, of_coalescing, of_sharing, of_conflicts, of_placement, of_turns):
        yield from of(c)


class Summary(Case):
    @classmethod
    def make(cls):
        golden = os.path.join(SOURCE, "tests/golden/succeed")
        cls.cases = [[os.path.join(golden, n)] for n in ("worked-example.trace", "stencil.trace", "empty.trace", "no-access.trace")]
        for seed in range(1, 7):
            paths = [cls.path("t%d.mtc" % seed)]
            if seed % 2:
                subprocess.run([GEN_DEVICE, str(seed), "1", paths[0], "64"], check=True, stdout=subprocess.DEVNULL)
            else:
                data, metas, _, _, _ = cases.make_case(random.Random(seed), False)
                paths = []
                for i, (d, m) in enumerate(zip(data, metas)):
                    paths.append(cls.write("t%d-%d" % (seed, i), d))
                    if m is not None:
                        cls.write("t%d-%d.meta" % (seed, i), m)
            cls.cases.append(paths)
        # Hazards and conflicts of shared memory; with bad accesses to global memory, and without any.
        lines = [("a.cu", 1 + i, "v") for i in range(4)]
        onchip = [(1, LOAD + SHARED, 4, 0xffffffff, 0, 64), (2, STORE + SHARED, 4, 3, 0, 4), (1, LOAD + SHARED, 4, 2, 0, 4)]
        cls.cases.append([cls.write("onchip.mtc", container([("k", onchip)], lines))])
        cls.cases.append([cls.write("both.mtc", container([("k", [(3, LOAD, 4, 0xffffffff, 4096, 128), *onchip])], lines))])
        # Scattered loads, of which those of k and l may be one request.
        apart = [(k, [(1 + i, LOAD, 4, 1 << lane, 4096 + 4096 * i + 64 * lane, 0) for lane in range(32)]) for i, k in enumerate("klm")]
        cls.apart = [cls.write("apart%d.mtc" % n, container(apart, lines, "kl"[:n])) for n in (1, 2)]
        cls.cases += [[path] for path in cls.apart]
        # Random launches that swap buffers, of two sizes, or do not: the page finds those that take turns by itself.
        cls.cases.append([cls.write("halves.mtc", container([("k", [(1, LOAD, 8, 0xffffffff, 4096, 16)])], lines))])
        for seed in range(3):
            rng = random.Random(seed)
            some = [(rng.choice("kl"), [(rng.choice((traces.LOAD, traces.STORE)), b) for b in range(6) if rng.random() < 0.9]) for _ in range(30)]
            cls.cases.append([cls.launches("swap%d" % seed, some, (256,) * 3 + (512,) * 3)])

    @classmethod
    def launches(cls, name, launches, sizes=(256, 256, 256), kinds=("cudaMalloc",) * 6, more=(), status=(), untraced=(), repeated=()):
        """A trace of launches: (kernel, [(type, buffer)]); buffers of these sizes and kinds; more events; of each launch a status, how many
        accesses have no record, and how many repeat others."""
        records = [(k, [traces.record(0, kind, 4, 0x1000 * (b + 1), (0, 0, 0)) for kind, b in uses]) for k, uses in launches]
        path = cls.write(name, traces.trace(records))
        events = [{"ev": "alloc", "seq": 0, "id": i, "base": hex(0x1000 * (i + 1)), "bytes": n, "kind": kinds[i], "name": "abcdef"[i]} for i, n in enumerate(sizes)]
        events += [{"ev": "launch", "seq": i + 1, "kernel": k, "traced": True, "records": len(r), "status": (*status, *[0] * 9)[i] if i < 9 else 0, "untraced": (*untraced, *[0] * 9)[i] if i < 9 else 0, "repeated": (*repeated, *[0] * 9)[i] if i < 9 else 0} for i, (k, r) in enumerate(records)]
        events += more
        n = sum(len(r) for _, r in records)
        cls.write(name + ".meta", traces.companion(events, None, {"records_written": n, "records_counted": n}))
        return path

    def test_the_same_sentences(self):
        seen = set()
        for i, paths in enumerate(self.cases):
            for k, options in enumerate(((), ("-t", "1.."), ("--devices=3", "--line-size=64"), *([("--same-cta=local",), ("--strict",)] if i < 2 else []))):
                done = subprocess.run([BIN + "/mt-extract", "--format=summary", *options, *paths], capture_output=True, text=True)
                self.assertIn(done.returncode, (0, 3), done.stderr)
                said = [" ".join(x.split()) for x in done.stdout.splitlines() if x[:2] in ("! ", "- ")]
                comm = json.loads(subprocess.run([BIN + "/mt-extract", "-s", "all,more", *options, *paths], capture_output=True, text=True).stdout)
                words = [x[2:] for x in said]
                self.assertEqual(sorted(x for x in words if any(w in x for of in KINDS.values() for w in of)), sorted(model(comm, options)), (paths, options))
                if k in (1, 2) and (i + k) % 2:
                    continue  # a page takes longer than all the rest: of these options each second trace has one
                page = subprocess.run([BIN + "/mt-report", *options, *paths, "-o", self.path("r.html")], capture_output=True, text=True)
                self.assertEqual(page.returncode, done.returncode)
                self.page.open(self.path("r.html"))
                shown = self.page.run("[...document.querySelectorAll('#glance li')].map((i) => [i.className, i.dataset.glance, i.innerText.replace(/\\s+/g, ' ')])")
                self.assertEqual(said, [("! " if look else "- ") + words.removesuffix(" see") for look, _, words in shown], (paths, options))
                seen |= {name for _, name, _ in shown}
        self.assertGreaterEqual(seen, {"comm", "kernel", "conflicts", "coalescing", "sharing", "placement", "nothing", "hazards", "banks", "turns", "footprint"})

    # Of tables that no comm.json has: shared memory (of which a sentence says that there is some), calls that allocated, findings.
    OF_TRACES = {"banks", "hazards", "growing", "finding"}

    def glance(self, *words):
        run(BIN + "/mt-report", *words, "-o", self.path("r.html"))
        with open(self.path("r.html"), encoding="utf-8") as f:
            (data,) = re.findall(r'<script id="data" type="application/json">(.*?)</script>', f.read(), re.S)
        return json.loads(data.replace(" to global memory was", " was"))["glance"]

    def test_of_a_comm_json(self):
        """The same sentences, where the file has what they are of."""
        seen = 0
        for paths in self.cases:
            for options in ((), ("-t", "1.."), ("--devices=3", "--line-size=64", "--same-cta=local")):
                comm = self.write("g.json", run(BIN + "/mt-extract", "-q", "-s", "quick,more", *options, *paths))
                said = [x for x in self.glance(*options, *paths) if x[0] not in self.OF_TRACES]
                self.assertEqual(self.glance("--from", comm), said, (paths, options))
                seen += len(said)
                part = self.write("g.json", run(BIN + "/mt-extract", "-q", "-s", "KDV,sharing", *options, *paths))
                self.assertEqual(self.glance("--from", part), [x for x in said if x[0] in ("kernel", "sharing", "nothing", *["placement"] * (len(options) > 2))], (paths, options))
        self.assertGreater(seen, 100)

    def test_by_hand(self):
        said = run(BIN + "/mt-extract", "--format=summary", self.cases[0][0]).splitlines()
        self.assertIn("! False sharing of 128-byte lines between CTAs: 50.0 % of the accesses of fill, most in #2 out.", said)
        self.assertIn("- Of the bytes that CTAs load, 4 B (14.3 %) were last written by another CTA of the same launch, 4 B (14.3 %) by another CTA of an earlier launch, "
                      "8 B (28.6 %) by the same CTA of an earlier launch; most go from fill to sum: 12 B.", said)
        self.assertIn("- The run touches 3 cache lines of 128 bytes: its footprint is 384 B.", said)

    def test_taken_apart(self):
        words = "- Coalescing of k%s is not known: the accesses of %s warps are not grouped into requests as on a GPU."
        for path, kernels, who in zip(self.apart, (["k"], ["k", "l"]), (("", "its"), (" and 1 other kernel", "their"))):
            said = run(BIN + "/mt-extract", "--format=summary", path)
            self.assertIn(words % who, said)
            self.assertIn("Worst: the load at a.cu:%d," % (1 + len(kernels)), said)
            self.assertEqual(json.loads(run(BIN + "/mt-extract", "-s", "coalescing", path))["apart"], kernels)
        self.assertNotIn("apart", json.loads(run(BIN + "/mt-extract", self.cases[0][0])))

    def notes(self, path, *options):
        """What summary, text, page and JSON say of gaps: all the same, where it is known what kernels read."""
        gaps = lambda notes: [x for x in notes if x[0].isdigit() or x.startswith("Host")]  # others are of raw traces
        said = {f: gaps(x[6:] for x in run(BIN + "/mt-extract", "--format=" + f, *more, *options, path).splitlines() if x.startswith("note: ")) for f, more in (("summary", []), ("text", ["-s", "traffic"]))}
        run(BIN + "/mt-report", *options, path, "-o", self.path("r.html"))
        self.page.open(self.path("r.html"))
        missing = lambda: [x for x in self.page.run("[...document.querySelectorAll('#missing li')].map((i) => i.textContent)") if x in gaps([x])]
        shown = missing()
        self.assertEqual((said["text"], shown), (said["summary"], said["summary"]))
        comm = self.write("c.json", run(BIN + "/mt-extract", "-s", "traffic", *options, path))
        self.assertEqual(json.load(open(comm))["gaps"], shown)
        run(BIN + "/mt-report", "--from", comm, "-o", self.path("r.html"))
        self.page.open(self.path("r.html"))
        self.assertEqual(missing(), shown)
        return shown

    def test_gaps(self):
        write, read, both = [(traces.STORE, 0)], [(traces.LOAD, 0)], [(traces.LOAD, 0), (traces.LOAD, 1), (traces.LOAD, 2), (traces.STORE, 3), (traces.LOAD, 4)]
        gone = [{"ev": "launch", "seq": 10 + i, "kernel": "second", "traced": False, "records": 0, "status": 700 * i} for i in range(2)]
        stale = [("first", write), ("third", read)]
        why = " not traced, by attribute, pragma, filter or limit; what "
        self.assertEqual(self.notes(self.launches("g0", stale)), [])
        self.assertEqual(self.notes(self.launches("g1", stale, more=gone[:1])), ["1 launch was" + why + "it writes is not known."])
        self.assertEqual(self.notes(self.launches("g2", stale, more=gone[:1] * 2), "-k", "third"), ["1 launch of the run was" + why + "it writes is not known."])
        self.assertEqual(self.notes(self.launches("g3", stale, status=(0, 719))), ["1 launch failed (third: error 719); its accesses are those made up to there."])
        self.assertEqual(self.notes(self.launches("g4", stale, status=(719,), more=gone)), ["2 launches were" + why + "they write is not known.",
                         "2 launches failed (the first is first: error 719); their accesses are those made up to there."])
        host = lambda names: ["Host code may have written managed or mapped memory (" + names + "); what it writes is not seen: mt-cc --host records it."]
        self.assertEqual(self.notes(self.launches("g5", stale, kinds=("managed",) * 6)), host("#0 a"))
        what = " in no figure: texture and surface accesses, bulk tensor copies, instructions of inline asm that memtrace does not know."
        self.assertEqual(self.notes(self.launches("u1", stale, untraced=(0, 1))), ["1 access in third has no record and is" + what])
        self.assertEqual(self.notes(self.launches("u2", [*stale, ("first", write), ("k", write)], untraced=(1000, 1500, 600, 2)), "-k", "third"),
                         ["3,102 accesses of the run in first and 2 other kernels have no record and are" + what], "first has 1600 in two launches")
        what = " in no figure; the first and the last of each series are."
        self.assertEqual(self.notes(self.launches("p1", stale, repeated=(0, 1))), ["1 access (most of third) repeated the one before, as threads do that wait for others, and is" + what])
        self.assertEqual(self.notes(self.launches("p2", stale, repeated=(1500, 7))), ["1,507 accesses (most of first) repeated the one before, as threads do that wait for others, and are" + what])
        self.assertEqual(self.notes(self.launches("g6", [("k", write)], kinds=("managed",) * 6)), [], "nothing reads it")
        kinds = ("host", "managed", "cudaMalloc", "host", "host")  # the fourth is only written
        self.assertEqual(self.notes(self.launches("g7", [("k", both)], (256,) * 5, kinds)), host("#0 a, #1 b, #4 e"))
        self.assertEqual(self.notes(self.launches("g8", [("k", [(traces.LOAD, i) for i in range(5)])], (256,) * 5, ("host",) * 5)), host("#0 a, #1 b, #2 c and 2 others"))

    def test_ties(self):
        """Of kernels that move as much, and of pairs, the one launched first; the page says the same."""
        path = self.launches("ties", [("z", [(traces.STORE, 0)]), ("b", [(traces.LOAD, 0)]), ("a", [(traces.LOAD, 0)])])
        said = run(BIN + "/mt-extract", "--format=summary", path)
        self.assertIn("- z moves most: 4 B, 33.3 % of all bytes, in 1 of 3 launches.", said)
        self.assertIn("most go from z to b: 4 B.", said)
        run(BIN + "/mt-report", path, "-o", self.path("r.html"))
        self.page.open(self.path("r.html"))
        shown = " ".join(self.page.text("#glance").replace("\u00a0", " ").split())
        self.assertIn("z moves most: 4 B", shown)
        self.assertIn("most go from z to b: 4 B.", shown)

    def test_lines_of_a_file(self):
        """Those that move bytes of global memory, as in the sentence on lines: one of four; two access shared memory, one nothing."""
        run(BIN + "/mt-report", self.path("both.mtc"), "-o", self.path("r.html"))
        self.page.open(self.path("r.html"))
        self.assertEqual(self.page.run("[...document.querySelectorAll('#file option')].map((o) => o.textContent)"), ["a.cu  (1 line)"])

    def test_halves(self):
        """A warp that loads 8 bytes every 16: 256 of the 512 bytes of its 16 sectors; of 4 bytes that lie together nothing is said."""
        said = run(BIN + "/mt-extract", "--format=summary", self.path("halves.mtc"))
        self.assertIn("Warps use 50.0 % of the 512 B that they fetch or store. Worst: the load at a.cu:1, 16.0 sectors per request, 50.0 % used "
                      "(clang may access values of 16 bytes, float4 or __int128, in two halves; nvcc does not).", said)
        self.assertNotIn("halves", run(BIN + "/mt-extract", "--format=summary", self.path("both.mtc")))

    def turns(self, *of):
        return [x for x in run(BIN + "/mt-extract", "--format=summary", self.launches("turns", *of)).splitlines() if "Double buffering" in x]

    def test_turns(self):
        forth, back = [(traces.LOAD, 0), (traces.STORE, 1)], [(traces.LOAD, 1), (traces.STORE, 0)]
        between = ("other", [(traces.LOAD, 0), (traces.STORE, 0)])
        say = "- Double buffering: k reads one of #0 a and #1 b (256 B each) and writes the other, and its next launch swaps them, "
        self.assertEqual(self.turns([("k", forth), between, ("k", back), ("k", forth), between]), [say + "2 times."])
        self.assertEqual(self.turns([("k", forth), ("k", back)]), [say + "1 time."])
        more = [(traces.LOAD, 2), (traces.STORE, 3)], [(traces.LOAD, 3), (traces.STORE, 2)]
        self.assertEqual(self.turns([("k", forth + more[0]), ("k", back + more[1])], (256,) * 4), [say + "1 time; 1 more pair."])
        for launches in ([("k", forth), ("k", forth)], [("k", forth), ("l", back)],  # one direction only; of another kernel
                         [("k", [(traces.LOAD, 0), (traces.STORE, 0)])] * 3, [("k", [(traces.ATOMIC, 0)])] * 3,  # in place
                         [("k", forth + [(traces.LOAD, 1)]), ("k", back)]):  # the written one is read, too
            self.assertEqual(self.turns(launches), [], launches)
        self.assertEqual(self.turns([("k", forth), ("k", back)], (256, 128)), [], "of other sizes")


if __name__ == "__main__":
    main()
