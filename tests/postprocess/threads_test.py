#!/usr/bin/env python3
"""Host traces alone: a program is a launch, its threads are CTAs. Cases by hand, and random programs against an oracle
that knows nothing of shadows, pages and runs: a dictionary of bytes.

usage: threads_test.py BIN_FOLDER GEN_HOST [RANDOM_PROGRAMS]
"""
import json
import os
import random
import subprocess
import sys
import tempfile
import unittest

import host_traces

BIN, GEN_HOST = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
PROGRAMS = int(sys.argv[3]) if len(sys.argv) > 3 else 60
READS, WRITES = host_traces.READS, host_traces.WRITES


def at(time, thread, line, op, addr, size, seq=1):
    return {"time": time, "seq": seq, "thread": thread, "place": "/src/app.c:%d" % line, "op": op, "addr": addr, "size": size}


def alloc(seq, ident, base, size, line, kind="malloc"):
    return {"ev": "alloc", "seq": seq, "id": ident, "base": hex(base), "bytes": size, "kind": kind, "file": "/src/app.c", "line": line}


def free(seq, ident, base):
    return {"ev": "free", "seq": seq, "id": ident, "base": hex(base)}


class Case(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="mt-threads-")
        self.addCleanup(self.folder.cleanup)

    def trace(self, accesses, events=(), timed=True, name="h.mtc", **more):
        path = os.path.join(self.folder.name, name)
        host_traces.write(GEN_HOST, path, host_traces.script(
            accesses, events, header={"mode": "atomic", "program": "/bin/prog", "engine": "qemu"}, **more), timed=timed)
        return path

    def extract(self, *args):
        r = subprocess.run([BIN + "/mt-extract", *args], capture_output=True, check=True)
        return r.stdout.decode()

    def json(self, path, sections="all"):
        return json.loads(self.extract("-s", sections, path))


def transfers(comm):
    """{(writing thread, reading thread): bytes}"""
    out = {}
    for source, ctas in comm["transfers"].items():
        for writer, steps in ctas.items():
            for kernels in steps.values():
                for target, readers in kernels.items():
                    for reader, cells in readers.items():
                        for cell in cells.values():
                            assert source == target == "prog"
                            key = int(writer.split(",")[0]), int(reader.split(",")[0])
                            out[key] = out.get(key, 0) + cell["Size"]
    return out


class ByHand(Case):
    def test_who_wrote_what_another_reads(self):
        """Order is that of the times, not of the threads' numbers or of the file."""
        got = self.json(self.trace([at(1, 1, 10, "store", 0x100, 8), at(3, 1, 11, "load", 0x100, 4), at(2, 0, 20, "store", 0x100, 2),
                                    at(4, 0, 21, "load", 0x100, 8), at(5, 2, 30, "atomic", 0x104, 4)]))
        self.assertEqual(got["launches"], 1)
        self.assertEqual(transfers(got), {(0, 1): 2, (1, 0): 6, (1, 2): 4})
        self.assertEqual({k: v["0"] for k, v in got["HDV"].items()}, {
            "/src/app.c:10": {"Load": 0, "Store": 8}, "/src/app.c:11": {"Load": 4, "Store": 0}, "/src/app.c:20": {"Load": 0, "Store": 2},
            "/src/app.c:21": {"Load": 8, "Store": 0}, "/src/app.c:30": {"Load": 4, "Store": 4}})
        self.assertEqual(got["CDV"]["prog"]["0"]["1,0,0"], {"Load": 4, "Store": 8})

    def test_memory_that_is_handed_out_again(self):
        """Freed by one thread, given to another: what it reads has no writer, and it is another buffer."""
        events = [alloc(1, 0, 0x1000, 64, 5), free(2, 0, 0x1000), alloc(3, 1, 0x1000, 32, 6)]
        got = self.json(self.trace([at(1, 0, 10, "store", 0x1000, 8), at(2, 0, 10, "store", 0x1028, 8),
                                    at(3, 1, 11, "load", 0x1000, 8, seq=3), at(4, 1, 12, "load", 0x1028, 8, seq=3)], events), "transfers,lines")
        self.assertEqual(transfers(got), {(0, 1): 8})  # beyond the new block's 32 bytes nothing is new
        self.assertEqual({k: (v["prog"]["Load"], v["prog"]["Store"]) for k, v in got["lines"]["allocations"].items()},
                         {"#0 malloc app.c:5": (0, 16), "#1 malloc app.c:6": (8, 0), "?": (8, 0)})

    def test_memory_from_before_a_thread(self):
        """What is there before a thread begins is new before its first access, also where nothing else comes between: what it writes has
        a writer."""
        events = [alloc(1, 0, 0x1000, 64, 5)]
        got = self.json(self.trace([at(2, 0, 10, "store", 0x1000, 8, seq=2), at(4, 1, 11, "load", 0x1000, 8, seq=2)], events, begins={0: 1, 1: 3}), "transfers")
        self.assertEqual(transfers(got), {(0, 1): 8})

    def test_realloc_takes_along(self):
        events = [alloc(1, 0, 0x1000, 16, 5), free(2, 0, 0x1000), alloc(3, 1, 0x2000, 32, 6, "realloc")]
        got = self.json(self.trace([at(1, 0, 10, "store", 0x1000, 8), at(2, 1, 11, "load", 0x2000, 8, seq=3)], events))
        self.assertEqual(transfers(got), {(0, 1): 8})

    def test_one_call_is_one_buffer(self):
        events = [alloc(2 * i + 1, i, 0x1000 + 0x100 * i, 16, 5) for i in range(4)]
        got = self.json(self.trace([at(i + 1, 0, 10, "store", 0x1000 + 0x100 * i, 8, seq=9) for i in range(3)], events), "lines,traffic")
        self.assertEqual({k: v["prog"]["Store"] for k, v in got["lines"]["allocations"].items()}, {"#0 malloc app.c:5 ×4": 24})
        words = self.extract("-f", "summary", os.path.join(self.folder.name, "h.mtc"))
        self.assertIn("written and never read", words)
        self.assertIn("never read or written", words)

    def test_heap(self):
        """Bytes held at the peak and at the end, by line and callers; a freed block counts until its free."""
        def made(seq, ident, size, stack, kind="malloc"):
            return dict(alloc(seq, ident, 0x1000 * (ident + 1), size, 5, kind), stack=stack)
        events = [{"ev": "stack", "id": 3, "callers": ["/src/app.c:9 in a", "/src/app.c:20 in main"]}, {"ev": "stack", "id": 4, "callers": ["/src/app.c:9 in b"]},
                  made(1, 0, 100, 3), made(2, 1, 50, 4), free(3, 0, 0x1000), made(4, 2, 70, 3), made(5, 3, 10, 0), free(6, 1, 0x2000),
                  made(7, 4, 8, 4), made(8, 5, 1000000, 3, "mmap")]
        path = self.trace([at(1, 0, 10, "store", 0x9000, 8)], events)
        got = self.json(path, "traffic")
        self.assertEqual(got["heap_peak"], {"bytes": 150, "blocks": 2, "nth": 2, "allocations": 5, "line": "/src/app.c:5"})
        rows = [[r[k] for k in ("callers", "blocks", "bytes", "peak_blocks", "peak_bytes", "end_blocks", "end_bytes")] for r in got["heap"]]
        self.assertEqual(rows, [["/src/app.c:9 in a; /src/app.c:20 in main", 2, 170, 1, 100, 1, 70], ["/src/app.c:9 in b", 2, 58, 1, 50, 1, 8],
                                [None, 1, 10, 0, 0, 1, 10]])
        said = self.extract("-f", "summary", path)
        self.assertIn("The heap is largest with 150 B in 2 blocks, after 2 of 5 allocations; most is held by app.c:5 (called from app.c:9 in a, app.c:20 in main): 100 B.", said)
        self.assertRegex(said, r"leak at \S*app.c:5 \(and 2 more\): an allocation \(70 bytes, .*, called from app.c:9 in a, app.c:20 in main\.")

    def test_bounces(self):
        """Two counters in one line, 3 rounds: each hand-over but the first; a flag that one sets and two poll."""
        accesses, time = [], 0
        for _ in range(3):
            for thread in (0, 1):
                for op in ("load", "store"):
                    time += 1
                    accesses.append(at(time, thread, 10 + thread, op, 0x1000 + 8 * thread, 8))
        for _ in range(2):
            accesses.append(at(time + 1, 0, 20, "store", 0x2000, 4))
            accesses.append(at(time + 2, 1, 21, "load", 0x2000, 4))  # taken over
            accesses.append(at(time + 3, 2, 21, "load", 0x2000, 4))  # no longer modified
            time += 3
        got = {(b["from"][-2:], b["to"][-2:], b["type"]): (b["times"], b["same"]) for b in self.json(self.trace(accesses), "bounces")["bounces"]}
        self.assertEqual(got, {("10", "11", "load"): (3, 0), ("11", "10", "load"): (2, 0), ("20", "21", "load"): (2, 2)})

    def test_without_times(self):
        """No order between threads: no such section, and everything else is there."""
        got = self.json(self.trace([dict(at(1, 0, 10, "store", 0x100, 8)), at(2, 1, 11, "load", 0x100, 8)], timed=False), "more,transfers")
        self.assertNotIn("bounces", got)
        self.assertNotIn("conflicts", got)
        self.assertIn("sharing", got)
        said = self.extract("-f", "summary", os.path.join(self.folder.name, "h.mtc"))
        self.assertIn("Races between threads are not known", said)
        self.assertNotIn("No races between threads", said)

    def test_words(self):
        path = self.trace([at(1, 0, 10, "store", 0x100, 8), at(2, 1, 11, "load", 0x100, 8)])
        for form in ("summary", "text"):
            words = self.extract("-f", form, path)
            self.assertNotIn("CTA", words)
            self.assertNotIn("kernel", words)
        self.assertIn("The program, prog, loads 8 B and stores 8 B in 2 threads.", self.extract("-f", "summary", path))


def oracle(accesses):
    """Transfers between threads and hand-overs of lines of 64 bytes, one byte and one access at a time."""
    writer, moved, lines, bounces = {}, {}, {}, {}
    for a in sorted(accesses, key=lambda a: (a["time"], a["thread"])):
        span = range(a["addr"], a["addr"] + a["size"])
        if a["op"] in READS:
            for byte in span:
                if byte in writer and writer[byte] != a["thread"]:
                    key = writer[byte], a["thread"]
                    moved[key] = moved.get(key, 0) + 1
        for number in sorted({byte // 64 for byte in span}):
            owner = lines.get(number)
            mine = {byte for byte in span if byte // 64 == number}
            if owner and owner["dirty"] and owner["thread"] != a["thread"]:
                kind = "load" if a["op"] in ("load", "cas-failed") else "store" if a["op"] == "store" else "atomic"
                key = owner["place"], a["place"], kind
                times, same = bounces.get(key, (0, 0))
                bounces[key] = times + 1, same + bool(owner["bytes"] & mine)
                owner["dirty"] = False
            if a["op"] in WRITES:
                if not owner or owner["thread"] != a["thread"]:
                    owner = lines[number] = {"thread": a["thread"], "bytes": set()}
                owner.update(dirty=True, place=a["place"])
                owner["bytes"] |= mine
        if a["op"] in WRITES:
            for byte in span:
                writer[byte] = a["thread"]
    return moved, bounces


def cache_oracle(accesses, size, ways):
    """Misses by place: a list of lines per set and thread, last used last."""
    sets, caches, out, fetched = size // ways // 64, {}, {}, {}
    for a in sorted(accesses, key=lambda a: (a["time"], a["thread"])):
        row = out.setdefault(a["place"], [0, 0, 0])
        row[0] += 1
        missed = False
        for line in range(a["addr"] // 64, (a["addr"] + a["size"] - 1) // 64 + 1):
            kept = caches.setdefault((a["thread"], line % sets), [])
            mine = {b for b in range(a["addr"], a["addr"] + a["size"]) if b // 64 == line}
            if line in (k[0] for k in kept):
                entry = next(k for k in kept if k[0] == line)
                kept.remove(entry)
            else:
                missed = True
                entry = [line, set(), a["place"]]
                fetched.setdefault(a["place"], []).append(entry)
                if len(kept) == ways:
                    kept.pop(0)
            entry[1] |= mine
            kept.append(entry)
        row[1] += missed
        row[2] += missed and a["op"] == "store"
    return {place: (*row, 64 * len(fetched.get(place, ())), sum(len(e[1]) for e in fetched.get(place, ()))) for place, row in out.items()}


def race_oracle(accesses, ends, near=None):
    """near, a set: gets the pairs of sides with which two threads touch different bytes of a line, one a store, that nothing orders.
    {(place and type, place and type): bytes} of pairs that nothing orders: happens-before as sets of earlier accesses, without clocks."""
    order = sorted(accesses, key=lambda a: (a["time"], a["thread"]))
    first, past, released, words, last, pairs, loads, over = order[0]["thread"], {}, {}, set(), {}, {}, {}, set()

    def of(thread, i):
        return {k for k in range(i) if order[k]["thread"] == thread}

    for i, a in enumerate(order):
        t = a["thread"]
        for thread, time in ends.items():  # an end comes before all that the first thread does
            if time < a["time"] and thread in past and thread not in over:
                over.add(thread)
                if first in past:
                    past[first] |= of(thread, i) | past[thread]
        if t not in past:
            past[t] = of(first, i) | past.get(first, set()) if t != first else set()
        word = a["addr"] >> 2
        if near is not None:
            for k, b in enumerate(order[:i]):
                if b["thread"] != t and k not in past[t] and b["addr"] // 64 == a["addr"] // 64 and {a["op"], b["op"]} != {"load"} and \
                        (a["addr"] + a["size"] <= b["addr"] or b["addr"] + b["size"] <= a["addr"]):
                    near.add(tuple(sorted((x["place"], x["op"]) for x in (a, b))))
        if a.get("strong"):
            words.add(word)
        if word in words:
            if a["op"] != "store":
                past[t] |= released.get(word, set())
            past[t].add(i)
            if a["op"] != "load":
                released[word] = released.get(word, set()) | past[t]
            continue
        if len(past) - len(over) < 2:  # nothing is looked at while one lives
            past[t].add(i)
            continue
        past[t].add(i)
        stores = a["op"] != "load"
        loads[t] = loads.get(t, 0) + (not stores)
        for byte in range(a["addr"], a["addr"] + a["size"]):
            store, load = last.get(byte, (None, None))
            for before in (store, load if stores else None):
                if before is None or order[before]["thread"] == t or before in past[t]:
                    continue
                other = order[before]["thread"]
                if not stores and other in over:  # it has waited for it
                    past[t] |= of(other, i) | past[other]
                elif not stores and loads[t] <= 16:  # it was made by it
                    past[t] |= of(other, i)
                else:
                    b = order[before]
                    sides = tuple(sorted(((x["place"], "load" if x["op"] == "load" else "store") for x in (a, b))))
                    pairs.setdefault(sides, set()).add(byte)
            last[byte] = (i, None) if stores else (store, i)
    return {k: len(v) for k, v in pairs.items()}


class Races(Case):
    def found(self, accesses, ends, begins=None):
        path = self.trace(accesses, ends=ends, begins=begins)
        out = {}
        for steps in self.json(path, "conflicts")["conflicts"].values():
            for c in [c for step in steps.values() for c in step]:
                out[tuple(sorted(((s["line"], s["type"]) for s in (c["a"], c["b"]))))] = c["bytes"]
        return out

    def test_by_hand(self):
        """A flag that is no atomic does not order; one that is does; a lock does; a thread's end does."""
        def flag(strong):
            return [at(1, 0, 1, "load", 0x500, 4), *(at(2, 1, 1, "load", 0x500, 4) for _ in range(20)),
                    at(3, 0, 10, "store", 0x100, 8), dict(at(4, 0, 11, "store", 0x200, 4), strong=strong),
                    dict(at(5, 1, 20, "load", 0x200, 4), strong=strong), at(6, 1, 21, "load", 0x104, 4)]
        self.assertEqual(self.found(flag(True), {}), {})
        self.assertEqual(self.found(flag(False), {}), {(("/src/app.c:10", "store"), ("/src/app.c:21", "load")): 4,
                                                       (("/src/app.c:11", "store"), ("/src/app.c:20", "load")): 4})
        late = [a for a in flag(False) if a["place"][-2:] not in ("11", "20")]
        self.assertEqual(self.found(late, {}), {(("/src/app.c:10", "store"), ("/src/app.c:21", "load")): 4})
        self.assertEqual(self.found(late, {0: 4}), {})
        both = [at(1, 0, 1, "load", 0x500, 4), at(2, 1, 2, "store", 0x100, 4), at(4, 2, 3, "store", 0x100, 4)]
        self.assertEqual(self.found(both, {1: 3}), {})  # one after the other
        self.assertEqual(self.found(both, {1: 3}, {2: 1}), {(("/src/app.c:2", "store"), ("/src/app.c:3", "store")): 4})  # the second did not wait for the first
        self.assertEqual(self.found([*both[:2], at(4, 0, 3, "store", 0x100, 4)], {1: 3}), {})  # who made them waited

    def near(self, accesses, ends=None, begins=None):
        got = self.json(self.trace(accesses, ends=ends, begins=begins), "conflicts")
        self.assertIn("false_pairs", got)
        return {tuple(sorted((f[k]["line"], f["%s" % k]["type"]) for k in "ab")): f for f in got["false_pairs"]}

    def test_false_sharing(self):
        """One thread after the other by chance; the same ordered by an end, by a lock; a lock beside its data; 64 bytes apart; loads."""
        def two(second=0x108, ops=("store", "store"), begin=1):
            warm = [at(k, t, 1, "load", 0x5000 + 64 * t, 4) for t in (0, 1, 2) for k in range(begin, begin + 20)]
            return warm + [*(at(100 + k, 1, 10, ops[0], 0x100, 8) for k in range(5)), *(at(200 + k, 2, 20, ops[1], second, 8) for k in range(7))]
        key = (("/src/app.c:10", "store"), ("/src/app.c:20", "store"))
        got = self.near(two())
        self.assertEqual(set(got), {key})
        self.assertEqual({k: got[key][k] for k in ("accesses", "handed", "lines", "distance")}, {"accesses": 7, "handed": 1, "lines": 1, "distance": 8})
        self.assertEqual((got[key]["a"]["thread"], got[key]["b"]["thread"], got[key]["address"]), (1, 2, 0x100))
        self.assertEqual(set(self.near(two(0x138))), {key})  # the last word of the line
        self.assertEqual(self.near(two(0x140)), {})  # the next line
        self.assertEqual(self.near(two(0x100)), {})  # the same bytes: no false sharing
        self.assertEqual(self.near(two(ops=("load", "load"))), {})
        self.assertEqual(set(self.near(two(ops=("load", "store")))), {(("/src/app.c:10", "load"), ("/src/app.c:20", "store"))})
        self.assertEqual(set(self.near(two(ops=("atomic", "atomic")))), {(("/src/app.c:10", "atomic"), ("/src/app.c:20", "atomic"))})
        late = [a for a in two() if a["thread"] != 2] + [at(k, 2, 20, "store", 0x108, 8) for k in range(300, 340)]
        self.assertEqual(self.near(late, {1: 250}), {})  # made after the other had ended, by the first thread
        self.assertEqual(set(self.near(late, {1: 250}, {2: 90})), {key})  # made before: it did not wait for that end
        def locked(lock):
            warm = [at(k, t, 1, "load", 0x5000 + 64 * t, 4) for t in (0, 1, 2) for k in range(1, 21)]
            for k in range(10):
                t = 1 + k % 2
                warm += [dict(at(100 + 4 * k, t, 30, "atomic", lock, 4), strong=True), at(101 + 4 * k, t, 10 * t, "store", 0x100 + 8 * t, 8),
                         dict(at(102 + 4 * k, 3 - t, 32, "cas-failed", lock, 4), strong=True),  # the other one waits
                         dict(at(103 + 4 * k, t, 31, "store", lock, 4), strong=True)]
            return warm
        self.assertEqual(self.near(locked(0x900)), {})
        self.assertEqual(self.near(locked(0x100)), {})  # the lock is in their line

    def test_false_sharing_in_new_memory(self):
        """What a thread did to a block that was freed is no neighbour of the next one there."""
        events = [alloc(1, 0, 0x1000, 64, 5), free(2, 0, 0x1000), alloc(3, 1, 0x1000, 64, 6)]
        warm = [at(k, t, 1, "load", 0x5000 + 64 * t, 4) for t in (0, 1, 2) for k in range(1, 21)]
        stores = [at(100, 1, 10, "store", 0x1000, 8), at(200, 2, 20, "store", 0x1008, 8, seq=3)]
        path = self.trace(warm + stores, events)
        self.assertEqual(self.json(path, "conflicts")["false_pairs"], [])
        path = self.trace(warm + stores, events[:1])
        self.assertEqual(len(self.json(path, "conflicts")["false_pairs"]), 1)

    def test_false_sharing_by_chance(self):
        """Whatever is reported is in an oracle without clocks, lines and states."""
        found = 0
        for seed in range(PROGRAMS):
            rng = random.Random(5000 + seed)
            accesses = [at(k, t, 1, "load", 0x5000 + 64 * t, 4) for t in range(4) for k in range(1, 21)]
            for time in range(30, 150):
                thread, word = rng.randrange(4), rng.randrange(20)
                if word < 2:
                    accesses.append(dict(at(time, thread, rng.randint(1, 3), rng.choice(("load", "store", "atomic")), 0x1000 + 4 * word, 4), strong=True))
                else:
                    accesses.append(at(time, thread, rng.randint(4, 9), rng.choice(("load", "store", "atomic")), 0x1000 + 4 * word, 4))
            near = set()
            race_oracle(accesses, {}, near)
            got = set(self.near(accesses))
            found += len(got)
            self.assertLessEqual(got, near, seed)
        self.assertGreater(found, PROGRAMS)

    def test_by_chance(self):
        for seed in range(PROGRAMS):
            rng = random.Random(1000 + seed)
            threads, accesses, ends = rng.randint(2, 5), [], {}
            for time in range(1, rng.randint(2, 120)):
                alive = [t for t in range(threads) if t not in ends]
                if len(alive) > 1 and rng.random() < 0.02:
                    ends[rng.choice(alive)] = time
                    continue
                thread, word = rng.choice(alive), rng.randrange(6)
                if word < 2:  # what is for order; now and then something else goes there
                    accesses.append(dict(at(time, thread, rng.randint(1, 3), rng.choice(("load", "store", "atomic")), 0x1000 + 8 * word, 4), strong=rng.random() < 0.8))
                else:
                    accesses.append(at(time, thread, rng.randint(4, 9), rng.choice(("load", "load", "store", "atomic")), 0x1000 + 8 * word + rng.choice((0, 0, 4, 2)), rng.choice((1, 2, 4))))
            self.assertEqual(self.found(accesses, {t: e for t, e in ends.items() if any(a["thread"] == t for a in accesses)}), race_oracle(accesses, ends), seed)


class Random(Case):
    def compared(self, before, after):
        """memtrace compare has the figures of host programs, too: of both runs, as the oracles count them."""
        r = subprocess.run([BIN + "/mt-compare", "-q", "--volumes", "-f", "json", before[0], after[0]], capture_output=True, check=True)
        got = json.loads(r.stdout)["all"]
        for key, side in (("a", before), ("b", after)):
            _, accesses, bounces = side
            lines = cache_oracle(accesses, 32768, 8).values()
            want = {"misses": sum(m for _, m, *_ in lines), "fetched": sum(f for *_, f, _ in lines), "bounces": sum(n for n, _ in bounces.values())}
            self.assertEqual({k: got[k][key] for k in want}, want)

    def test_programs(self):
        before = None
        for seed in range(PROGRAMS):
            rng = random.Random(seed)
            threads, span, accesses = rng.randint(1, 6), rng.choice((64, 256, 5000)), []
            for time in range(1, rng.randint(2, 400)):
                size = rng.choice((1, 2, 4, 8, 16, 100))
                accesses.append(at(time, rng.randrange(threads), rng.randint(1, 9), rng.choice(("load", "store", "atomic", "cas-failed")),
                                   0x1000 + rng.randrange(span), size))
            moved, bounces = oracle(accesses)
            size, ways = rng.choice(((256, 2), (128, 1), (1024, 16), (32768, 8)))
            path = self.trace(accesses, name="%d.mtc" % seed, chunk=lambda r=rng: r.random() < 0.02)
            got = json.loads(self.extract("-s", "transfers,bounces,misses,CDV", "--data-cache=%d,%d" % (size, ways), path))
            self.assertEqual({m["line"]: (m["accesses"], m["misses"], m["store_misses"], m["fetched"], m["used"]) for m in got["misses"]["lines"]},
                             cache_oracle(accesses, size, ways), seed)
            self.assertEqual(transfers(got), moved, seed)
            self.assertEqual({(b["from"], b["to"], b["type"]): (b["times"], b["same"]) for b in got["bounces"]}, bounces, seed)
            for thread in range(threads):
                sums = {"Load": sum(a["size"] for a in accesses if a["thread"] == thread and a["op"] in READS),
                        "Store": sum(a["size"] for a in accesses if a["thread"] == thread and a["op"] in WRITES)}
                self.assertEqual(got["CDV"]["prog"]["0"].get("%d,0,0" % thread, {"Load": 0, "Store": 0}), sums, (seed, thread))
            if before and seed % 5 == 0:
                self.compared(before, (path, accesses, bounces))
            before = path, accesses, bounces


if __name__ == "__main__":
    sys.argv[1:] = []
    unittest.main()
