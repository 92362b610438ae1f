#!/usr/bin/env python3
"""test_probe.py PLAY PROBE SANITIZER FOLDER: the probe's answers about the callbacks that ../inject/play.c makes, whose library is ../inject/api.c, and
what it says of NVIDIA's own libraries below FOLDER. All is counted by hand: a launch has two CTAs of a warp, each thread stores once."""
import glob
import os
import subprocess
import sys
import tempfile
import types
import unittest
import unittest.mock

HERE = os.path.dirname(os.path.realpath(__file__))
sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(HERE, ".."))
import cases_probe  # noqa: E402
import decide  # noqa: E402
import harness  # noqa: E402
import timed  # noqa: E402

KERNEL = "_ZN3app5scaleEPfi"
BEGIN = ["entry: InitializeInjection, called by the driver; Subscribe: good", "AddPatches: good", "AllocHost in a callback: good", "Alloc in a callback: good",
         "copy to the GPU in the callback of a loaded module: good"]
PATCHED = ["PatchInstructions: exits good, accesses good; PatchModule: good"]
STREAM = "a stream's data: context, stream, handle"
DEFAULT = "default stream: a launch's handle is the same as that of GetStreamHandle"
LAUNCH = ["SetLaunchCallbackData, launch: good", "order: cuLaunchKernel{ LAUNCH_BEGIN LAUNCH_END }"]
SEEN = "memory of AllocHost: a store is seen while the kernel runs"
OTHERS = ["order: cuLaunchKernel{ LAUNCH_BEGIN LAUNCH_END }=701", "SetLaunchCallbackData, node of an upload: good", "order: cuGraphLaunch{ NODE_BEGIN }",
          "SetLaunchCallbackData, node: good"]
WAITS = ["copy to the host in the callback of a wait: good", "copy to the host at the end of a call that waits: good"]
NO_PLACE = "patches: their place: a result of the test"
PC = [f"pc: {KERNEL}: its access is at +0x40 of 0 bytes", NO_PLACE]
CALLS = "callbacks of each domain: 1: 16, 3: 4, 4: 2, 5: 8, 10: 2,"


def exits(how, ended, accesses):
    return f"exits: {how}, {KERNEL}: {ended} of 64 threads, {accesses} accesses"


def counted(ended):
    return [exits("launch", ended, 64), exits("refused launch", 0, 0), exits("node of an upload", 0, 0), exits("node", ended, 64)]


class Probe(unittest.TestCase):
    play, probe, sanitizer, libraries = "", "", "", ""

    def lines(self, **more):
        with tempfile.TemporaryDirectory() as folder:
            image, out = os.path.join(folder, "image"), os.path.join(folder, "out")
            with open(image, "w", encoding="ascii") as file:
                file.write("an image")
            environment = {**os.environ, "PROBE_LIBRARY": self.sanitizer, "PROBE_PATCHES": image, "PROBE_OUT": out, "PROBE_SPIN": "scale", **more}
            process = subprocess.run([self.play, self.probe, os.path.realpath(__file__)], env=environment, capture_output=True, text=True, timeout=60)
            self.assertEqual((process.returncode, process.stderr), (0, ""))
            with open(out, encoding="utf-8") as file:
                return file.read().splitlines()

    def check(self, lines, *must):
        self.assertEqual(sorted(lines), sorted(line for part in must for line in ([part] if isinstance(part, str) else part)))

    def test_order_ends_and_words(self):
        self.check(self.lines(), BEGIN, PATCHED, STREAM, DEFAULT, LAUNCH, SEEN, OTHERS, WAITS, counted(64), PC, CALLS)

    def test_newer_layout(self):
        self.check(self.lines(API_GREEN="1"), BEGIN, PATCHED, "a stream's data: context, green context, stream, handle", DEFAULT, LAUNCH, SEEN, OTHERS, WAITS,
                   counted(64), PC, CALLS)

    def test_no_exits(self):
        self.check(self.lines(API_NO_EXITS="1"), BEGIN, PATCHED, STREAM, DEFAULT, LAUNCH, SEEN, OTHERS, WAITS, counted(0), CALLS)

    def test_fault(self):
        """One of two warps has ended, and no store was seen while the launch's call went on."""
        self.check(self.lines(API_PLAY="fault"), BEGIN, PATCHED, DEFAULT, "SetLaunchCallbackData, launch: good", "order: cuLaunchKernel{ LAUNCH_BEGIN }",
                   "memory of AllocHost: nothing is seen while the kernel runs", "copy to the host after error 700: good", exits("launch", 32, 32), PC,
                   "callbacks of each domain: 1: 4, 3: 2, 5: 1,")

    def test_instructions(self):
        """The stand-in knows 40; nothing is patched."""
        lines = self.lines(PROBE_IDS="1")
        self.assertIn("instructions that can be patched: " + " ".join(map(str, range(1, 41))), lines)
        self.assertEqual([line for line in lines if line.startswith("PatchInstructions")], [])

    def test_nodes(self):
        """Three nodes, which run when all have been called back, or each at once."""
        for more, start in (({}, "has not started in the second one's callback"), ({"API_AT_ONCE": "1"}, "starts before the second one's callback has returned")):
            self.check(self.lines(API_PLAY="graph", API_NODES="3", **more), BEGIN, PATCHED, STREAM, "SetLaunchCallbackData, node: good",
                       f"nodes: the first one {start}", "order: cuGraphLaunch{ NODE_BEGIN (3 times) }", WAITS, exits("node", 64, 64), PC,
                       "callbacks of each domain: 1: 4, 3: 3, 4: 1, 10: 3,")

    def test_events(self):
        """Newer libraries have the green context before the stream."""
        for more, word in (({}, 3), ({"API_GREEN": "1"}, 4)):
            self.assertIn(f"a recorded event's data: the default stream's handle is word {word}", self.lines(API_PLAY="order", **more))

    def test_refusals(self):
        taken = self.lines(API_TAKEN="1")
        self.check(taken, "entry: InitializeInjection, called by the driver; Subscribe: a result of the test", "callbacks of each domain: none was made")
        self.assertIn("AddPatches: a result of the test", self.lines(API_FAIL="AddPatches"))
        self.assertIn("PatchInstructions: exits good, accesses good; PatchModule: a result of the test", self.lines(API_FAIL="PatchModule"))
        self.assertIn("AllocHost in a callback: a result of the test", self.lines(API_FAIL="AllocHost"))

    def test_constructor(self):
        """Subscribed before the program begins."""
        lines = self.lines(LD_PRELOAD=self.probe, PROBE_ENTRY="constructor")
        self.assertIn("entry: a constructor; Subscribe: good", lines)
        self.check(lines[1:], BEGIN[1:], PATCHED, STREAM, DEFAULT, LAUNCH, SEEN, OTHERS, WAITS, counted(64), PC, CALLS)

    def test_figures(self):
        """What ../cases_probe.py makes of the lines."""
        lines = self.lines()
        self.assertEqual(cases_probe.exits(lines)["node", KERNEL], (64, 64, 64))
        found = [cases_probe.state(*one) for one in ((lines, 0), ([], "hangs"), ([], 1), (self.lines(API_TAKEN="1"), 0), (self.lines(API_SILENT="1"), 0),
                                                     (self.lines(API_NO_EXITS="1"), 0), (self.lines(PROBE_LIBRARY="/none"), 0))]
        self.assertEqual(found[:-1], ["traces", "hangs", "not loaded", "entry: InitializeInjection, called by the driver; Subscribe: a result of the test",
                                      "no callback", "no exits"])
        self.assertRegex(found[-1], "library: /none")
        self.assertEqual(cases_probe.ranges([1, 2, 3, 5]), "1-3, 5")

    def kit(self, folder, program):
        """A world whose kit has the stand-ins, and whose program makes the callbacks."""
        for name in ("probe", "sanitizer/13", "work"):
            os.makedirs(os.path.join(folder, name))
        os.symlink(self.sanitizer, os.path.join(folder, "sanitizer", "13", "libsanitizer-public.so"))
        os.symlink(self.probe, os.path.join(folder, "probe", "libmt-probe.so"))
        with open(os.path.join(folder, "probe", "probe-13.fatbin"), "w", encoding="ascii") as file:
            file.write("an image")
        path = os.path.join(folder, "probe", "program")
        with open(path, "w", encoding="ascii") as file:
            file.write(f"#!/bin/sh\n{program}\n")
        os.chmod(path, 0o755)
        return types.SimpleNamespace(build=folder, work=os.path.join(folder, "work"), seconds=60, injects=True,
                                     folder=lambda name: tempfile.mkdtemp(prefix=name, dir=os.path.join(folder, "work")))

    def test_cases(self):
        """The cases of a run on a GPU: what goes together is found and kept for the questions, and answers are judged."""
        with tempfile.TemporaryDirectory() as folder:
            world = self.kit(folder, f'PROBE_SPIN=scale exec {self.play} "$CUDA_INJECTION64_PATH" {__file__}')
            with self.assertRaises(timed.Skipped):
                cases_probe.order(world)
            self.assertEqual(cases_probe.injected(world), "sanitizer/13/libsanitizer-public.so with probe-13.fatbin: traces")
            self.assertIn("order: cuLaunchKernel{ LAUNCH_BEGIN LAUNCH_END }", cases_probe.order(world))
            self.assertIn("}=701", cases_probe.refused(world))
            with self.assertRaisesRegex(harness.Failed, "exits"):  # other kernels than the case's
                cases_probe.ends(world)
            self.assertIn("the probe: sanitizer/13/libsanitizer-public.so with probe-13.fatbin by injection: traces", decide.fits([], world))

    def test_without_exits(self):
        """A way by which accesses are seen is kept until there is one that traces."""
        with tempfile.TemporaryDirectory() as folder:
            world = self.kit(folder, f'PROBE_SPIN=scale API_NO_EXITS=1 exec {self.play} "$CUDA_INJECTION64_PATH" {__file__}')
            with self.assertRaisesRegex(harness.Failed, "none: .*: no exits"):
                cases_probe.injected(world)
            self.assertEqual(cases_probe.noted(world)[2:], ["injection", "no exits"])
            for one, word in ((("a", "b", "constructor"), "traces"), (("c", "d", "injection"), "traces")):
                cases_probe.note(world, one, word)
            self.assertEqual(cases_probe.noted(world), ["a", "b", "constructor", "traces"])

    def test_cases_that_hang(self):
        """Nothing is kept of a program that hangs, and the next ones are not asked when there is no time."""
        with tempfile.TemporaryDirectory() as folder, unittest.mock.patch.object(cases_probe, "SECONDS", 1):
            world = self.kit(folder, "exec sleep 1000")
            with self.assertRaisesRegex(harness.Failed, "none: .*: hangs"):
                cases_probe.injected(world)
            world.seconds = 0
            with self.assertRaisesRegex(harness.Failed, "none: .*: not asked"):
                cases_probe.injected(world)

    def test_libraries(self):
        """NVIDIA's own, without a GPU."""
        found = cases_probe.libraries(os.path.dirname(self.libraries))
        for path in found:
            lines = cases_probe.looked(path)
            self.assertEqual(lines[:2], ["functions that memtrace calls: all", "Subscribe: 0"], path)
            self.assertIn(lines[2].split(": ")[1], cases_probe.VERSIONS.values())
            self.assertIn("4: 1-", lines[3])


if __name__ == "__main__":
    Probe.play, Probe.probe, Probe.sanitizer, Probe.libraries = sys.argv[1:5]
    unittest.main(argv=sys.argv[:1])
