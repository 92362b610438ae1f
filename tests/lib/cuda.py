"""Programs of mt-cc: how the tests compile and run them, and what their traces are."""
import contextlib
import fcntl
import glob
import hashlib
import importlib.util
import os
import re
import shutil

import harness
import headers
import trace
from harness import Failed, clean, run

OPT_LEVELS = ("-O0", "-O1", "-O2", "-O3")


class Result:
    """What a run left: exit code, stdout, stderr, folder of its traces."""

    def __init__(self, process, folder):
        self.code, self.out, self.err, self.folder = process.returncode, process.stdout, process.stderr, folder

    def streams(self):
        """Numbers of the trace files."""
        found = [re.fullmatch(r"MemTrace-pipe-(\d+)", name) for name in os.listdir(self.folder)]
        return sorted(int(m.group(1)) for m in found if m)

    def path(self, stream=0):
        return os.path.join(self.folder, f"MemTrace-pipe-{stream}")

    def trace(self, stream=0):
        return trace.read(self.path(stream))

    def companion(self, stream=0):
        return trace.Companion(self.path(stream) + ".meta")


class Standin:
    """A GPU's place taken by the CPU device: what the compiler made for a GPU, its record functions among it, is read back from
    its PTX, and the runtime does all that it does on a GPU (tests/gpu/standin). `variables`: of each run."""

    def __init__(self, build):
        self.folder, self.tool = os.path.join(build, "tests", "gpu"), harness.tool("mt-ptx", build)
        folder = self.folder
        if not os.path.exists(os.path.join(folder, "libmt-standin-device.so")):
            raise harness.Skipped("the stand-in for a GPU is not built")
        self.variables = {"MEMTRACE_DEVICE": "gpu", "MEMTRACE_CUDART": os.path.join(folder, "libmt-standin-cudart.so"),
                          "MEMTRACE_TEST_DEVICE": os.path.join(folder, "libmt-standin-device.so"), "LD_LIBRARY_PATH": folder,
                          "GLIBC_TUNABLES": "glibc.rtld.optional_static_tls=8192"}  # room for a second libmemtrace.so

    def images(self, program):
        """Makes PROGRAM.gpu.0 and so on, of the program's fatbins in their order."""
        listed = harness.call([self.tool, "--list", program])
        for i, number in enumerate(re.findall(r"^(\d+): PTX", listed.stdout, re.M)):
            done = run([self.tool, program, "--module=" + number, "--mt-only=nothing", "-o", f"{program}.gpu.{i}"])
            if done.returncode or done.stderr:
                raise Failed(f"mt-ptx {program}: {done.stderr[-3000:]}")


# More words on the command line of such tests (run.py).
OPTIONS = (
    (("--flag",), {"action": "append", "default": [], "dest": "flags", "help": "one more word for mt-cc; may be given again"}),
    (("--variable",), {"action": "append", "default": [], "dest": "variables", "metavar": "NAME=VALUE", "type": lambda v: v.split("=", 1),
                       "help": "set in each traced program's environment; may be given again"}),
    (("--standin",), {"action": "store_true",
                      "help": "what runs with MEMTRACE_DEVICE=standin runs the GPU's own code, read back from its PTX"}),
)


class World(harness.World):
    """`flags`: more words for mt-cc; `variables`: MEMTRACE_ variables of each run; `standin`: what runs with MEMTRACE_DEVICE=standin."""

    def __init__(self, work, variant=None, build=None, source=None, flags=(), variables=(), standin=False):
        super().__init__(work, variant, build, source)
        self.flags, self.variables = list(flags), dict(variables)
        self.standin = Standin(self.build) if standin else None
        self.examples = os.path.join(self.source, "examples")
        self.tests = os.path.join(self.source, "tests")
        self.src = os.path.join(self.tests, "e2e", "src")

    def levels(self, *levels):
        """Which a program is compiled with: -O0 and -O2, or those that are named; in ctest's configuration `long` all."""
        return OPT_LEVELS if self.long else levels or ("-O0", "-O2")

    def fibers(self):
        """For programs that take ten times as long to compile as vectors: that is for configuration `long`."""
        return () if self.long else ("--mt-vectors=off",)

    def kept(self, sources, flags):
        """Where a program is kept that several tests compile in the same way; None: it is not one of those. The name is of all that
        goes into it, but for CUDA's headers."""
        if any(not re.match(r"-(O|g$|std=|D|lineinfo$|-mt-|-cuda-gpu-arch=|arch=|rdc=true$|I.*/include$)", f) for f in [*self.flags, *flags]) or \
                any(not s.startswith((self.examples, self.tests)) for s in sources):
            return None
        h = hashlib.sha256(repr([self.flags, flags, sources, os.environ.get("MEMTRACE_PASS_OPTIONS")]).encode())
        tools = [self.tool("mt-cc"), *sorted(glob.glob(os.path.join(self.build, "lib", "libMemtrace*"))),
                 *sorted(glob.glob(os.path.join(self.build, "lib", "memtrace", "*.bc"))), os.path.join(self.build, "lib", "libmemtrace.so")]
        beside = [path for folder in {os.path.dirname(s) for s in sources} for path in glob.glob(os.path.join(folder, "*.*h"))]
        for path in [*tools, *sources, *glob.glob(os.path.join(self.examples, "common", "*")), *sorted(beside)]:
            at = os.stat(path)
            h.update(repr((path, at.st_size, at.st_mtime_ns)).encode())
        folder = os.path.join(self.build, "tests", "compiled")
        os.makedirs(folder, exist_ok=True)
        for path in glob.glob(os.path.join(folder, "*")):
            with contextlib.suppress(FileNotFoundError):  # another test does the same
                if os.stat(path).st_mtime < os.stat(tools[-1]).st_mtime:  # of an older build
                    os.unlink(path)
        return os.path.join(folder, h.hexdigest())

    def compile(self, sources, *flags, out=None, code=0):
        """mt-cc of one or more sources into a program; returns its path (or the process when code is not 0)."""
        sources = [sources] if isinstance(sources, str) else sources
        # The GPU's code with records is run by the stand-in only, and takes a third of the time: the examples have it at -O2, others do not.
        words = {*self.flags, *flags}
        if not any(w.startswith(("--mt-gpu-trace", "--mt-cpu-image", "--plain")) for w in words):
            wants = self.standin or not set(OPT_LEVELS) & words or {"-c", "-fgpu-rdc", "-rdc=true", "--host"} & words or \
                not all(s.endswith(".cu") and ("-O2" not in words or s.startswith(self.tests)) for s in sources)
            flags = (*flags, "--mt-gpu-trace=" + ("on" if wants else "off"))
        # Unoptimised code for vectors takes longest to compile; -O2 has them.
        if "-O0" in words and not self.long and not self.standin and not any("--mt-vectors" in f for f in words) and \
                all(s.startswith((self.src, self.examples)) and s.endswith(".cu") for s in sources):
            flags = (*flags, "--mt-vectors=off")
        kept = self.kept(sources, flags) if not out and code == 0 else None
        out = out or os.path.join(self.folder("build"), "app")
        with open(kept + ".lock", "w", encoding="utf-8") if kept else contextlib.nullcontext() as lock:
            if kept:
                fcntl.flock(lock, fcntl.LOCK_EX)  # tests that begin together want the same program
            process = self.compile_or_copy(kept, sources, flags, out, code)
        if self.standin and code == 0:
            self.standin.images(out)
        return out if code == 0 else process

    def compile_or_copy(self, kept, sources, flags, out, code):
        if kept and os.path.exists(kept):
            shutil.copy2(kept, out)
            return None
        words = [*self.flags, *flags]
        if code == 0 and all(s.endswith(".cu") for s in sources):
            words += headers.words(self.tool("mt-cc"), words, *sources)
        process = self.call([self.tool("mt-cc"), *words, *sources, "-o", out], code)
        if kept and not process.stderr:
            shutil.copy2(out, f"{kept}.{os.getpid()}")
            os.replace(f"{kept}.{os.getpid()}", kept)
        return process

    def run(self, command, traced=True, folder=None, timeout=300, **variables):
        """Runs a program with a private trace folder and no other MEMTRACE_ variables."""
        command = [command] if isinstance(command, str) else command
        folder = folder or self.folder("run")
        env = clean(**{"MEMTRACE_DIR": folder, "MEMTRACE_DEVICE": "cpu", **self.variables})
        if not traced:
            env["MEMTRACE_ENABLE"] = "0"
        env.update({k: str(v) for k, v in variables.items()})
        if env["MEMTRACE_DEVICE"] == "standin":
            if not self.standin:
                raise harness.Skipped("it runs with --standin")
            env.update(self.standin.variables)
        result = Result(run(command, timeout, env=env), folder)
        result.device = "gpu" if env["MEMTRACE_DEVICE"] == "gpu" else "cpu"
        return result

    def run_ok(self, command, **more):
        result = self.run(command, **more)
        if result.code != 0:
            raise Failed(f"{command}: exit code {result.code}\n{result.out[-1000:]}{result.err[-3000:]}")
        return result

    def extract(self, paths, *options, code=0):
        """comm.json of memtrace extract as a Python object."""
        return self.json("mt-extract", *options, *paths, code=code)

    def example(self, name):
        return os.path.join(self.examples, name, name + ".cu")

    def expectation(self, name):
        """The module examples/<name>/expect.py."""
        spec = importlib.util.spec_from_file_location(f"expect_{name}", os.path.join(self.examples, name, "expect.py"))
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

