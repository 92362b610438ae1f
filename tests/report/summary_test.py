#!/usr/bin/env python3
"""mt-extract --format=summary says what the page's "At a glance" says, sentence by sentence and in its order; on random traces and on
the worked example, whose sentences are derived by hand in page_test.py. Buffers that take turns are counted here by hand. usage: summary_test.py BIN SOURCE GEN_DEVICE"""
import json
import os
import random
import subprocess
import sys

from page_case import BIN, Case, SOURCE, main, run
import property_test as cases
from spaces import LOAD, SHARED, STORE, container
import traces

GEN_DEVICE = sys.argv.pop(3)


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
    def launches(cls, name, launches, sizes=(256, 256, 256), kinds=("cudaMalloc",) * 6, more=(), status=(), untraced=()):
        """A trace of launches: (kernel, [(type, buffer)]); buffers of these sizes and kinds; more events; of each launch a status, and how many
        accesses have no record."""
        records = [(k, [traces.record(0, kind, 4, 0x1000 * (b + 1), (0, 0, 0)) for kind, b in uses]) for k, uses in launches]
        path = cls.write(name, traces.trace(records))
        events = [{"ev": "alloc", "seq": 0, "id": i, "base": hex(0x1000 * (i + 1)), "bytes": n, "kind": kinds[i], "name": "abcdef"[i]} for i, n in enumerate(sizes)]
        events += [{"ev": "launch", "seq": i + 1, "kernel": k, "traced": True, "records": len(r), "status": (*status, *[0] * 9)[i] if i < 9 else 0, "untraced": (*untraced, *[0] * 9)[i] if i < 9 else 0} for i, (k, r) in enumerate(records)]
        events += more
        n = sum(len(r) for _, r in records)
        cls.write(name + ".meta", traces.companion(events, None, {"records_written": n, "records_counted": n}))
        return path

    def test_the_same_sentences(self):
        seen = set()
        for i, paths in enumerate(self.cases):
            for options in ((), ("-t", "1.."), ("--devices=3", "--line-size=64"), *([("--same-cta=local",), ("--strict",)] if i < 2 else [])):
                done = subprocess.run([BIN + "/mt-extract", "--format=summary", *options, *paths], capture_output=True, text=True)
                self.assertIn(done.returncode, (0, 3), done.stderr)
                said = [" ".join(x.split()) for x in done.stdout.splitlines() if x[:2] in ("! ", "- ")]
                page = subprocess.run([BIN + "/mt-report", *options, *paths, "-o", self.path("r.html")], capture_output=True, text=True)
                self.assertEqual(page.returncode, done.returncode)
                self.page.open(self.path("r.html"))
                shown = self.page.run("[...document.querySelectorAll('#glance li')].map((i) => [i.className, i.dataset.glance, i.innerText.replace(/\\s+/g, ' ')])")
                self.assertEqual(said, [("! " if look else "- ") + words.removesuffix(" see") for look, _, words in shown], (paths, options))
                seen |= {name for _, name, _ in shown}
        self.assertGreaterEqual(seen, {"comm", "kernel", "conflicts", "coalescing", "sharing", "placement", "nothing", "hazards", "banks", "turns", "footprint"})

    def test_by_hand(self):
        said = run(BIN + "/mt-extract", "--format=summary", self.cases[0][0]).splitlines()
        self.assertIn("! CTAs share cache lines of 128 bytes falsely: 50.0 % of the accesses of fill, most of them in #2 out.", said)
        self.assertIn("- Of what CTAs load, 4 B (14.3 %) were last written by another CTA of the same launch, 4 B (14.3 %) by another CTA of an earlier launch, "
                      "8 B (28.6 %) by the same CTA of an earlier launch; most of it goes from fill to sum: 12 B.", said)
        self.assertIn("- The run touches 3 cache lines of 128 bytes: its footprint is 384 B.", said)

    def test_taken_apart(self):
        words = "- It is not known how well the accesses of k%s go together: lanes of %s warps were taken apart."
        for path, kernels, who in zip(self.apart, (["k"], ["k", "l"]), (("", "its"), (" and 1 other kernel", "their"))):
            said = run(BIN + "/mt-extract", "--format=summary", path)
            self.assertIn(words % who, said)
            self.assertIn("most is lost by the load at a.cu:%d:" % (1 + len(kernels)), said)
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
        self.assertEqual(self.notes(self.launches("g6", [("k", write)], kinds=("managed",) * 6)), [], "nothing reads it")
        kinds = ("host", "managed", "cudaMalloc", "host", "host")  # the fourth is only written
        self.assertEqual(self.notes(self.launches("g7", [("k", both)], (256,) * 5, kinds)), host("#0 a, #1 b, #4 e"))
        self.assertEqual(self.notes(self.launches("g8", [("k", [(traces.LOAD, i) for i in range(5)])], (256,) * 5, ("host",) * 5)), host("#0 a, #1 b, #2 c and 2 others"))

    def test_ties(self):
        """Of kernels that move as much, and of pairs, the one launched first; the page says the same."""
        path = self.launches("ties", [("z", [(traces.STORE, 0)]), ("b", [(traces.LOAD, 0)]), ("a", [(traces.LOAD, 0)])])
        said = run(BIN + "/mt-extract", "--format=summary", path)
        self.assertIn("- z moves most: 4 B, 33.3 % of all bytes, in 1 of 3 launches.", said)
        self.assertIn("most of it goes from z to b: 4 B.", said)
        run(BIN + "/mt-report", path, "-o", self.path("r.html"))
        self.page.open(self.path("r.html"))
        shown = " ".join(self.page.text("#glance").replace("\u00a0", " ").split())
        self.assertIn("z moves most: 4 B", shown)
        self.assertIn("most of it goes from z to b: 4 B.", shown)

    def test_lines_of_a_file(self):
        """Those that move bytes of global memory, as in the sentence on lines: one of four; two access shared memory, one nothing."""
        run(BIN + "/mt-report", self.path("both.mtc"), "-o", self.path("r.html"))
        self.page.open(self.path("r.html"))
        self.assertEqual(self.page.run("[...document.querySelectorAll('#file option')].map((o) => o.textContent)"), ["a.cu  (1 line)"])

    def test_halves(self):
        """A warp that loads 8 bytes every 16: 256 of the 512 bytes of its 16 sectors; of 4 bytes that lie together nothing is said."""
        said = run(BIN + "/mt-extract", "--format=summary", self.path("halves.mtc"))
        self.assertIn("Warps use 50.0 % of the 512 B that they move; most is lost by the load at a.cu:1: 16.0 sectors per request, 50.0 % used "
                      "(clang may access values of 16 bytes, float4 or __int128, in two halves; nvcc does not).", said)
        self.assertNotIn("halves", run(BIN + "/mt-extract", "--format=summary", self.path("both.mtc")))

    def turns(self, *of):
        return [x for x in run(BIN + "/mt-extract", "--format=summary", self.launches("turns", *of)).splitlines() if " take turns" in x]

    def test_turns(self):
        forth, back = [(traces.LOAD, 0), (traces.STORE, 1)], [(traces.LOAD, 1), (traces.STORE, 0)]
        between = ("other", [(traces.LOAD, 0), (traces.STORE, 0)])
        say = "- #0 a and #1 b (256 B each) take turns: k reads one and writes the other, and its next launch the other way round, "
        self.assertEqual(self.turns([("k", forth), between, ("k", back), ("k", forth), between]), [say + "2 times."])
        self.assertEqual(self.turns([("k", forth), ("k", back)]), [say + "1 time."])
        more = [(traces.LOAD, 2), (traces.STORE, 3)], [(traces.LOAD, 3), (traces.STORE, 2)]
        self.assertEqual(self.turns([("k", forth + more[0]), ("k", back + more[1])], (256,) * 4), [say + "1 time; so do others: 1 pair."])
        for launches in ([("k", forth), ("k", forth)], [("k", forth), ("l", back)],  # one direction only; of another kernel
                         [("k", [(traces.LOAD, 0), (traces.STORE, 0)])] * 3, [("k", [(traces.ATOMIC, 0)])] * 3,  # in place
                         [("k", forth + [(traces.LOAD, 1)]), ("k", back)]):  # the written one is read, too
            self.assertEqual(self.turns(launches), [], launches)
        self.assertEqual(self.turns([("k", forth), ("k", back)], (256, 128)), [], "of other sizes")


if __name__ == "__main__":
    main()
