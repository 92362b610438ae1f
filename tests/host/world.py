"""How the tests of host tracing build programs, run them under memtrace host, and read what comes out."""
import os
import re
import shlex
import shutil

import harness
from harness import Failed, Skipped, clean, run

ENGINES = ("llvm", "dynamorio", "qemu")
MACHINE = ("dynamorio", "qemu")  # on machine code


class Result:
    """What a run left: exit code, stdout, stderr, the trace's path."""

    def __init__(self, process, trace, command):
        self.code, self.out, self.err, self.trace, self.command = (process.returncode, process.stdout, process.stderr,
                                                                   trace, command)

    def __str__(self):
        return f"{shlex.join(self.command)}\n  exit code {self.code}\n{self.out[-1000:]}{self.err[-3000:]}"


class World(harness.World):
    """A case's variant is its engine."""
    parent = harness.MEMORY

    def __init__(self, work, engine=None):
        super().__init__(work, engine)
        self.engine, self.src = engine, os.path.join(self.source, "tests", "host", "src")
        self.tool("mt-host")
        if engine and not self.has(engine):
            raise Skipped(f"engine {engine} is not here")

    def has(self, engine):
        """1 if the engine can run here."""
        if engine == "qemu":
            return os.path.exists(self.part("mt-host-qemu.so")) and shutil.which("qemu-x86_64") is not None
        if engine == "dynamorio":
            said = run([self.tool("mt-host"), "--engines"])
            return re.search(r"^dynamorio +usable:", said.stdout, re.M) is not None
        return any(os.path.exists(os.path.join(self.build, "lib", n)) for n in ("libmemtrace-host.so",)) and \
            os.path.exists(os.path.join(self.build, "bin", "mt-cc"))

    def part(self, name):
        return os.path.join(self.build, "lib", "memtrace", name)

    def call(self, command, code=0, timeout=300, env=None, **more):
        return harness.call(command, code, timeout=timeout, env=env or clean(), **more)

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
        """Runs memtrace host; `words`: options, "--", program and arguments. `trace`: name of a new output file, or a path."""
        if not os.path.isabs(trace):
            trace = self.path(trace)
        command = [self.tool("mt-host"), f"--engine={engine or self.engine or 'auto'}", mode, "-o", trace,
                   *map(str, words)]
        process = run(command, timeout, stdin=stdin, cwd=cwd, env=env or clean())
        result = Result(process, trace, command)
        if code is not None and process.returncode != code:
            raise Failed(f"exit code is not {code}: {result}")
        return result

    def graph(self, trace, *options, code=0):
        return self.json("mt-graph", "-f", "json", *options, trace, code=code)

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
