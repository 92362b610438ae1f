"""How the tests compile and run programs: paths, compilers, environments, comparisons."""
import contextlib
import glob
import hashlib
import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys

import headers
import trace

OPT_LEVELS = ("-O0", "-O1", "-O2", "-O3")


class Failed(Exception):
    """A check did not hold."""


def same(what, got, want):
    """Raises Failed with both values, cut to a readable length, or with the differing keys of two dicts."""
    if got == want:
        return
    if isinstance(got, dict) and isinstance(want, dict):
        keys = [k for k in {**want, **got} if got.get(k) != want.get(k)]
        lines = [f"{k}: got {got.get(k)}, expected {want.get(k)}" for k in keys[:8]]
        raise Failed(f"{what}: {len(keys)} keys differ\n    " + "\n    ".join(lines))
    raise Failed(f"{what}: got {str(got)[:2000]}, expected {str(want)[:2000]}")


def holds(what, condition):
    if not condition:
        raise Failed(what)


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
        self.folder, self.tool = os.path.join(build, "tests", "gpu"), os.path.join(build, "libexec", "memtrace", "mt-ptx")
        folder = self.folder
        self.variables = {"MEMTRACE_DEVICE": "gpu", "MEMTRACE_CUDART": os.path.join(folder, "libmt-standin-cudart.so"),
                          "MEMTRACE_TEST_DEVICE": os.path.join(folder, "libmt-standin-device.so"), "LD_LIBRARY_PATH": folder,
                          "GLIBC_TUNABLES": "glibc.rtld.optional_static_tls=8192"}  # room for a second libmemtrace.so

    def images(self, program):
        """Makes PROGRAM.gpu.0 and so on, of the program's fatbins in their order."""
        listed = subprocess.run([self.tool, "--list", program], capture_output=True, text=True, timeout=60, check=True)
        for i, number in enumerate(re.findall(r"^(\d+): PTX", listed.stdout, re.M)):
            done = subprocess.run([self.tool, program, "--module=" + number, "--mt-only=nothing", "-o", f"{program}.gpu.{i}"],
                                  capture_output=True, text=True, timeout=600)
            if done.returncode or done.stderr:
                raise Failed(f"mt-ptx {program}: {done.stderr[-3000:]}")


class World:
    """`build`: build folder with bin/ and lib/; `source`: repository; `work`: private folder for what tests make;
    `flags`: more words for mt-cc; `standin`: what runs with MEMTRACE_DEVICE=standin."""

    def __init__(self, build, source, work, flags=(), variables=(), standin=False):
        self.build, self.source, self.work, self.flags = build, source, work, list(flags)
        self.standin = Standin(build) if standin else None
        self.variables = dict(variables)  # MEMTRACE_ variables of each run
        self.examples = os.path.join(source, "examples")
        self.src = os.path.join(source, "tests", "e2e", "src")
        self.counter = 0

    def tool(self, name):
        return os.path.join(self.build, "bin", name)

    def folder(self, name):
        self.counter += 1
        path = os.path.join(self.work, f"{self.counter:03}-{name}")
        shutil.rmtree(path, ignore_errors=True)
        os.makedirs(path)
        return path

    def call(self, command, code=0, **more):
        """Runs a tool; its exit code must be `code`."""
        process = subprocess.run(command, capture_output=True, text=True, timeout=600, **more)
        if process.returncode != code:
            raise Failed(f"{shlex.join(command)}\n  exit code {process.returncode}, not {code}\n"
                         f"{process.stdout[-2000:]}{process.stderr[-4000:]}")
        return process

    def kept(self, sources, flags):
        """Where a program is kept that several tests compile in the same way; None: it is not one of those. The name is of all that
        goes into it, but for CUDA's headers."""
        if any(not re.match(r"-(O|g$|std=|D|lineinfo$|-mt-)", f) for f in [*self.flags, *flags]) or \
                any(not s.startswith((self.examples, self.src)) for s in sources):
            return None
        h = hashlib.sha256(repr([self.flags, flags, sources, os.environ.get("MEMTRACE_PASS_OPTIONS")]).encode())
        tools = [self.tool("mt-cc"), *sorted(glob.glob(os.path.join(self.build, "lib", "libMemtrace*"))),
                 *sorted(glob.glob(os.path.join(self.build, "lib", "memtrace", "*.bc"))), os.path.join(self.build, "lib", "libmemtrace.so")]
        for path in [*tools, *sources, *glob.glob(os.path.join(self.examples, "common", "*")), *glob.glob(os.path.join(self.src, "*.h"))]:
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
        # The GPU's code with records is not run here, and takes a quarter of the time: -O2 has it, other levels do not.
        words = {*self.flags, *flags}
        if not self.standin and {"-O0", "-O1", "-O3"} & words and not {"-O2", "-c", "-fgpu-rdc", "-rdc=true", "--host"} & words and \
                all(s.endswith(".cu") for s in sources):
            flags = (*flags, "--mt-gpu-trace=off")
        kept = self.kept(sources, flags) if not out and code == 0 else None
        out = out or os.path.join(self.folder("build"), "app")
        if kept and os.path.exists(kept):
            shutil.copy2(kept, out)
            process = None
        else:
            words = [*self.flags, *flags]
            if code == 0 and all(s.endswith(".cu") for s in sources):
                words += headers.words(self.tool("mt-cc"), words)
            process = self.call([self.tool("mt-cc"), *words, *sources, "-o", out], code)
            if kept and not process.stderr:
                shutil.copy2(out, f"{kept}.{os.getpid()}")
                os.replace(f"{kept}.{os.getpid()}", kept)
        if self.standin and code == 0:
            self.standin.images(out)
        return out if code == 0 else process

    def run(self, command, traced=True, folder=None, timeout=300, **variables):
        """Runs a program with a private trace folder and no other MEMTRACE_ variables."""
        command = [command] if isinstance(command, str) else command
        folder = folder or self.folder("run")
        env = {k: v for k, v in os.environ.items() if not k.startswith("MEMTRACE_")}
        env.update({"MEMTRACE_DIR": folder, "MEMTRACE_DEVICE": "cpu", **self.variables})
        if not traced:
            env["MEMTRACE_ENABLE"] = "0"
        env.update({k: str(v) for k, v in variables.items()})
        if env["MEMTRACE_DEVICE"] == "standin":
            env.update(self.standin.variables)
        process = subprocess.run([str(c) for c in command], capture_output=True, text=True, timeout=timeout, env=env)
        result = Result(process, folder)
        result.device = "gpu" if env["MEMTRACE_DEVICE"] == "gpu" else "cpu"
        return result

    def run_ok(self, command, **more):
        result = self.run(command, **more)
        if result.code != 0:
            raise Failed(f"{command}: exit code {result.code}\n{result.out[-1000:]}{result.err[-3000:]}")
        return result

    def extract(self, paths, *options, code=0):
        """comm.json of mt-extract as a Python object."""
        import json
        process = self.call([self.tool("mt-extract"), *options, *paths], code)
        return json.loads(process.stdout)

    def example(self, name):
        return os.path.join(self.examples, name, name + ".cu")

    def expectation(self, name):
        """The module examples/<name>/expect.py."""
        spec = importlib.util.spec_from_file_location(f"expect_{name}", os.path.join(self.examples, name, "expect.py"))
        module = importlib.util.module_from_spec(spec)
        sys.dont_write_bytecode = True
        spec.loader.exec_module(module)
        return module


CASES = {}


def case(name):
    """Registers a test function that gets a World."""
    def add(function):
        if name in CASES:
            raise ValueError(f"two cases are called {name}")
        CASES[name] = function
        return function
    return add
