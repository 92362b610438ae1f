"""What the cases have in common: compiling, running, reading traces."""
import collections
import os
import re

import harness

HERE = os.path.dirname(os.path.realpath(__file__))
Access = collections.namedtuple("Access", "thread op address size place function variable")


class World(harness.World):
    parent = harness.MEMORY

    def __init__(self, work, variant=None):
        super().__init__(work, variant)
        self.cc, self.dump = self.tool("mt-cc"), os.path.join(self.build, "tests", "bin", "test_hostllvm_dump")

    def path(self, name):
        return os.path.join(self.work, name)

    def command(self, argv, env=None, code=0, timeout=120):
        return harness.call(argv, code, env={**os.environ, **(env or {})}, cwd=self.work, timeout=timeout)

    def compile(self, source, *flags, host="--host", name=None):
        out = self.path(name or source.replace(".", "_"))
        self.command([self.cc, host, *flags, os.path.join(HERE, "src", source), "-o", out])
        return out

    def run(self, program, *args, words="mat", env=None, code=0, file="trace.mtc"):
        """The result, with .trace: the path of its container."""
        trace = self.path(file)
        if os.path.exists(trace):
            os.unlink(trace)
        r = self.command([program, *args], {"MEMTRACE_HOST": f"{words} -o {trace}", **(env or {})}, code)
        r.trace = trace
        return r

    def lines(self, trace, *order):
        r = self.command([self.dump, trace, *order])
        return r.stdout.splitlines()

    def accesses(self, trace, *order):
        found = []
        for line in self.lines(trace, *order):
            if line.startswith("A "):
                _, thread, op, address, size, place, function, variable = line.split(" ", 7)
                found.append(Access(int(thread), op, int(address, 16), int(size), place, function, variable))
        return found

    def end(self, trace):
        """What the trace says of itself: is it complete, how many accesses are lost."""
        r = self.command([os.path.join(self.build, "bin", "mt-dump"), "--head", "0", trace], code=None)
        line = [x for x in r.stdout.splitlines() if x.startswith("end ")][-1]
        words = re.findall(r"\d+", line)
        return line.startswith("end complete"), int(words[1]) - int(words[0])


def inside(accesses, base, size):
    return [a for a in accesses if base <= a.address < base + size]
