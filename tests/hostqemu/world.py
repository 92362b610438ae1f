"""What the cases share: programs, runs under qemu with the plugin, readers of what they write."""
import os
import re
import struct
import subprocess

import harness
from harness import call, need, same

SOURCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "src")


class World(harness.World):
    def __init__(self, work, variant=None):
        super().__init__(work, variant)
        self.plugin, self.qemu, self.stderr = os.path.join(self.build, "lib", "memtrace", "mt-host-qemu.so"), need("qemu-x86_64"), ""

    def path(self, name):
        return os.path.join(self.work, name)

    def compile(self, source, *flags):
        program = self.path(source.rsplit(".", 1)[0])
        call([need("g++") if source.endswith("pp") else "gcc", "-o", program, os.path.join(SOURCE, source), *flags])
        return program

    def native(self, *words, **more):
        return harness.run(words, 900, **more)

    def start(self, mode, trace, words, **options):
        """The process, under the plugin."""
        given = [f"mode={mode}", "output=" + self.path(trace).replace(",", ",,")]
        for name, value in options.items():
            given += [f"{name}={v}" for v in (value if isinstance(value, list) else [value])]
        return subprocess.Popen([self.qemu, "-plugin", ",".join([self.plugin] + given), *words], text=True,
                                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def run(self, mode, trace, *words, code=0, **options):
        """Its standard output; its standard error is in self.stderr."""
        p = self.start(mode, trace, words, **options)
        out, self.stderr = p.communicate(timeout=900)
        same(f"exit code of {words} ({self.stderr})", p.returncode, code)
        return out


# ---- readers, independent of the project's ----

def atomic_lines(path):
    """[(time, thread, words)] by time; accesses as [("r" | "r2" | "w", address, size)]."""
    lines = []
    with open(path, encoding="utf-8") as f:
        for line in f:
            words = line.rstrip("\n").split("\t")
            lines.append((int(words[0]), int(words[1]), words[2:]))
    return sorted(lines, key=lambda l: l[0])


def accesses(words):
    """"m r A S w A S" -> [("r", A, S), ("w", A, S)]; r2 has the size of r."""
    found, k, size = [], 1, None
    while k < len(words):
        if words[k] == "r2":
            found.append(("r", int(words[k + 1]), size))
            k += 2
        else:
            size = int(words[k + 2])
            found.append((words[k], int(words[k + 1]), size))
            k += 3
    return found


def insn_log(path):
    """{address: (text, reads, writes)}, {order: (address, [(r | w, address, size)])}"""
    insns, executions, address = {}, {}, None
    with open(path, encoding="utf-8") as f:
        for line in f:
            words = line.rstrip("\n").split("\t")
            if words[0]:
                address = int(words[0], 16)
                insns[address] = (words[1], words[2][2:].split(), words[3][2:].split())
            else:
                operands = [(words[k].lower(), int(words[k + 1], 16), int(words[k + 2])) for k in
                            range(2, len(words), 3)]
                executions[int(words[1])] = (address, operands)
    return insns, executions


def meta(path):
    """The meta lines of a container that was written with level=0."""
    import json
    with open(path, "rb") as f:
        data = f.read()
    at, lines = struct.unpack_from("<I", data, 8)[0], []
    while at + 64 <= len(data) and data[at:at + 4] == b"MTCK":
        kind, codec = struct.unpack_from("<HB", data, at + 4)
        stored = struct.unpack_from("<Q", data, at + 8)[0]
        if kind == 1:
            same("codec of a meta chunk", codec, 0)
            lines += [json.loads(l) for l in data[at + 64:at + 64 + stored].decode().splitlines()]
        at += 64 + (stored + 7) // 8 * 8
    return lines


def symbols(program):
    text = call([need("nm"), program]).stdout
    return {m[2]: int(m[1], 16) for m in re.finditer(r"^([0-9a-f]+) . (\S+)$", text, re.M)}
