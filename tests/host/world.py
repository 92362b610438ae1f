"""How the tests of host tracing build programs, run them under mt-host, and read what comes out."""
import json
import os
import re
import shlex
import shutil
import subprocess
import sys

ENGINES = ("llvm", "dynamorio", "qemu")
MACHINE = ("dynamorio", "qemu")  # on machine code
MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else "/tmp"


class Failed(Exception):
    """A check did not hold."""


class Skipped(Exception):
    """What the check needs is not on this machine."""


def same(what, got, want):
    """Raises Failed with both values, or with the differing keys of two dicts."""
    if got == want:
        return
    if isinstance(got, dict) and isinstance(want, dict):
        keys = [k for k in {**want, **got} if got.get(k) != want.get(k)]
        lines = [f"{k}: got {got.get(k)}, expected {want.get(k)}" for k in keys[:12]]
        raise Failed(f"{what}: {len(keys)} keys differ\n    " + "\n    ".join(lines))
    raise Failed(f"{what}: got {str(got)[:2000]}, expected {str(want)[:2000]}")


def holds(what, condition):
    if not condition:
        raise Failed(what)


def need(program):
    path = shutil.which(program)
    if not path:
        raise Skipped(f"{program} is not installed")
    return path


class Result:
    """What a run left: exit code, stdout, stderr, the trace's path."""

    def __init__(self, process, trace, command):
        self.code, self.out, self.err, self.trace, self.command = (process.returncode, process.stdout, process.stderr,
                                                                   trace, command)

    def __str__(self):
        return f"{shlex.join(self.command)}\n  exit code {self.code}\n{self.out[-1000:]}{self.err[-3000:]}"


class World:
    """`build`: build folder with bin/ and lib/; `source`: repository; `work`: private folder; `engine`: of this case."""

    def __init__(self, build, source, work, engine=None):
        self.build, self.source, self.work, self.engine = build, source, work, engine
        self.src = os.path.join(source, "tests", "host", "src")
        self.counter = 0

    def tool(self, name):
        path = os.path.join(self.build, "bin", name)
        if not os.path.exists(path):
            raise Skipped(f"{name} is not built")
        return path

    def has(self, engine):
        """1 if the engine can run here."""
        if engine == "qemu":
            return os.path.exists(self.part("mt-host-qemu.so")) and shutil.which("qemu-x86_64") is not None
        if engine == "dynamorio":
            said = subprocess.run([self.tool("mt-host"), "--engines"], capture_output=True, text=True)
            return re.search(r"^dynamorio +usable:", said.stdout, re.M) is not None
        return any(os.path.exists(os.path.join(self.build, "lib", n)) for n in ("libmemtrace-host.so",)) and \
            os.path.exists(os.path.join(self.build, "bin", "mt-cc"))

    def part(self, name):
        return os.path.join(self.build, "lib", "memtrace", name)

    def path(self, name):
        self.counter += 1
        return os.path.join(self.work, f"{self.counter:03}-{name}")

    def environment(self, **variables):
        env = {k: v for k, v in os.environ.items() if not k.startswith("MEMTRACE_")}
        env.update({k: str(v) for k, v in variables.items()})
        return env

    def call(self, command, code=0, timeout=300, text=True, **more):
        process = subprocess.run([str(c) for c in command], capture_output=True, text=text, timeout=timeout,
                                 env=more.pop("env", None) or self.environment(), **more)
        if process.returncode != code:
            raise Failed(f"{shlex.join(map(str, command))}\n  exit code {process.returncode}, not {code}\n"
                         f"{process.stdout[-2000:]}{process.stderr[-4000:]}")
        return process

    def compile(self, name, *flags, engine=None, libraries=(), sources=(), atomic=False):
        """A program from tests/host/src: for the compile-time engine by mt-cc --host, else by the system's compiler.
        atomic: it will be traced in atomic mode, too."""
        out = self.path(os.path.basename(name).rsplit(".", 1)[0])
        files = [os.path.join(self.src, n) for n in (name, *sources)]
        flags = list(flags) or ["-O1"]
        if (engine or self.engine) == "llvm":
            command = [self.tool("mt-cc"), "--host=atomic" if atomic else "--host"]
        else:
            command = ["g++" if name.endswith(".cpp") else "gcc"]
        if "annotate" in libraries:
            flags += self.annotation()
            files.append("-lmemtrace-annotation")
        self.call([*command, "-g", "-Wall", *flags, *files, "-o", out, "-pthread"])
        return out

    def annotation(self):
        """Flags for the annotation library."""
        library = os.path.join(self.build, "lib")
        return [f"-I{os.path.join(self.source, 'include')}", f"-L{library}", f"-Wl,-rpath,{library}"]

    def host(self, mode, *words, trace="trace.mtc", engine=None, code=0, timeout=120, stdin=None, cwd=None, env=None):
        """Runs mt-host; `words`: options, "--", program and arguments. `trace`: name of a new output file, or a path."""
        if not os.path.isabs(trace):
            trace = self.path(trace)
        command = [self.tool("mt-host"), f"--engine={engine or self.engine or 'auto'}", mode, "-o", trace,
                   *map(str, words)]
        process = subprocess.run(command, capture_output=True, text=True, timeout=timeout, stdin=stdin, cwd=cwd,
                                 env=env or self.environment(), errors="replace")
        result = Result(process, trace, command)
        if code is not None and process.returncode != code:
            raise Failed(f"exit code is not {code}: {result}")
        return result

    def graph(self, trace, *options, code=0):
        return json.loads(self.call([self.tool("mt-graph"), "-f", "json", *options, trace], code).stdout)

    def mat(self, result):
        return list(read_mat(result.trace))

    def atomic(self, result):
        return list(read_atomic(result.trace))


# ---- text traces (docs/trace-format.md) ----

def read_mat(path):
    """(ip, address, offset, base, type, size, allocated size, place) of each access of a text MAT trace. Numbers are
    decimal or 0x…; a line `ip file:line` says where an ip is."""
    places, rows = {}, []
    with open(path, encoding="utf-8", errors="replace") as f:
        for line in f:
            words = line.split()
            if len(words) == 7:
                rows.append(tuple(int(w, 0) for w in words))
            elif len(words) >= 2 and not line.startswith("#"):
                places[int(words[0], 0)] = line.split(None, 1)[1].strip()
            elif words and not line.startswith("#"):
                raise Failed(f"{path}: line is neither an access nor a place: {line!r}")
    return [(*row, places.get(row[0], "")) for row in rows]


def read_atomic(path):
    """Rows (time, thread, kind, {letter: (address, size)} or the words after the kind) in the order of the file."""
    for line in open(path, encoding="utf-8", errors="replace"):
        words = line.rstrip("\n").split("\t")
        time, thread, kind = int(words[0]), int(words[1]), words[2]
        if kind != "m":
            yield time, thread, kind, words[3:]
            continue
        operands, i, size = {}, 3, 0
        while i < len(words):
            if words[i] == "r2":
                operands["r2"] = (int(words[i + 1]), size)
                i += 2
            else:
                size = int(words[i + 2])
                operands[words[i]] = (int(words[i + 1]), size)
                i += 3
        yield time, thread, kind, operands


# ---- registration ----

CASES = {}


def case(name, *engines, tools=()):
    """Registers a test function that gets a World; once per engine if there are any: NAME.ENGINE."""
    def add(function):
        for engine in engines or (None,):
            full = f"{name}.{engine}" if engine else name
            if full in CASES:
                raise ValueError(f"two cases are called {full}")
            CASES[full] = (function, engine)
        return function
    return add


def clean(text):
    """Output without what differs from run to run: addresses."""
    return re.sub(r"0x[0-9a-f]+", "0x…", text)


assert sys.version_info >= (3, 9)
