#!/usr/bin/env python3
"""Tests of the compile-time engine: run.py --build DIR [--dump PROGRAM] [--list] [CASE...]. Exit code 1 if one fails."""
import argparse
import collections
import json
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import time
import traceback

HERE = os.path.dirname(os.path.realpath(__file__))
MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
CASES = {}
Access = collections.namedtuple("Access", "thread op address size place function variable")


class Failed(Exception):
    pass


def same(what, got, want):
    if got != want:
        raise Failed(f"{what}: got {str(got)[:1500]}, expected {str(want)[:1500]}")


def case(function):
    CASES[function.__name__] = function
    return function


class World:
    def __init__(self, build, dump, work):
        self.build, self.dump, self.work = build, dump, work
        self.cc = os.path.join(build, "bin", "mt-cc")

    def path(self, name):
        return os.path.join(self.work, name)

    def command(self, argv, env=None, code=0, timeout=120):
        r = subprocess.run(argv, env={**os.environ, **(env or {})}, cwd=self.work, capture_output=True, text=True,
                           errors="replace", timeout=timeout)
        if code is not None and r.returncode != code:
            raise Failed(f"{' '.join(argv)}: exit code {r.returncode}\n{r.stdout[-1500:]}{r.stderr[-3000:]}")
        return r

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


def everything(w, level):
    """The same accesses, in the same order, at the same places in memory as clang's callbacks count them."""
    plain = w.path("plain")
    flags = ["-O" + level, "-fno-discard-value-names", "-gline-tables-only"]
    w.command(["clang-19", *flags, "-fsanitize-coverage=func,trace-loads,trace-stores", "-c",
               os.path.join(HERE, "src", "everything.c"), "-o", w.path("counted.o")])
    w.command(["clang-19", "-O2", os.path.join(HERE, "src", "counter.c"), w.path("counted.o"), "-o", plain])
    traced = w.compile("everything.c", "-O" + level)
    count = w.command([plain], {"COUNTER": w.path("counter.bin")})
    trace = w.run(traced)
    same("output", trace.stdout.split("\n")[1], count.stdout.split("\n")[1])
    base = {name: int(r.stdout.split()[1], 16) for name, r in (("want", count), ("got", trace))}
    size = int(count.stdout.split()[2])
    sizes = (1, 2, 4, 8) if level == "0" else (1, 2, 4, 8, 16)  # there, 16 bytes are a copy of a structure
    data = open(w.path("counter.bin"), "rb").read()
    want = [("store" if e[2] else "load", e[1], e[0] - base["want"] if 0 <= e[0] - base["want"] < size else None)
            for e in struct.iter_unpack("<QII", data)]
    got = [(a.op, a.size, a.address - base["got"] if 0 <= a.address - base["got"] < size else None)
           for a in w.accesses(trace.trace) if a.op in ("load", "store") and a.size in sizes]
    if len(want) < 10000:
        raise Failed(f"only {len(want)} accesses: the test tests nothing")
    for i, (g, x) in enumerate(zip(got, want)):
        if g != x:
            raise Failed(f"access {i} of {len(want)}: got {got[i - 2:i + 3]}, expected {want[i - 2:i + 3]}")
    same("number of accesses", len(got), len(want))


for number in "0123":
    CASES["everything_O" + number] = lambda w, level=number: everything(w, level)


@case
def libc(w):
    """The bytes that functions of the C library touch."""
    for flags in (["-O0"], ["-O2", "-fno-builtin"]):
        r = w.run(w.compile("libc.c", *flags))
        a, b, c = (int(x, 16) for x in r.stdout.split("\n")[0].split())
        d = int(r.stdout.split()[-1], 16)
        name = {**{a + i: ("a", i) for i in range(256)}, **{b + i: ("b", i) for i in range(256)},
                **{c + i: ("c", i) for i in range(256)}, d: ("d", 0)}
        got = [(x.op, *name[x.address], x.size) for x in w.accesses(r.trace) if x.address in name]
        same(str(flags), got, [
            ("store", "a", 0, 100),
            ("load", "a", 0, 100), ("store", "b", 0, 100),
            ("load", "a", 0, 5), ("store", "a", 1, 5),
            ("store", "c", 0, 6),                                             # strcpy
            ("load", "c", 0, 6), ("load", "c", 0, 5),                         # strlen, strnlen
            ("load", "c", 0, 4),                                              # strcmp with "help"
            ("load", "a", 0, 100), ("load", "b", 0, 100),                     # memcmp: equal
            ("load", "c", 0, 3),                                              # strchr
            ("load", "c", 0, 6), ("load", "c", 200, 1), ("store", "c", 5, 1),  # strcat
            ("load", "c", 0, 6), ("store", "b", 0, 10),                       # strncpy
            ("load", "a", 0, 5),                                              # memchr: not found
            ("load", "c", 0, 6), ("store", "d", 0, 6)])                       # strdup


@case
def lanes(w):
    """Masked vectors, gathers, scatters: the lanes that the mask leaves, in mat and in atomic mode."""
    source = os.path.join(HERE, "src", "lanes.ll")
    flags = ["-O3"] + (["-mavx2"] if " avx2 " in open("/proc/cpuinfo").read() else [])
    at = [700, 3, 3, 500, 0, 90, 91, 1023]
    want = [("load", "from", 8, 32), ("store", "to", 8, 32)]
    for op, name in (("load", "from"), ("store", "to")):
        want += [(op, name, 16, 4), (op, name, 20, 8), (op, name, 23, 4)]
    for picked in (at, [at[2], at[5]]):
        want += [("load", "from", i, 4) for i in picked] + [("store", "to", i, 4) for i in picked]
    want += [("load", "from", 32, 16), ("store", "to", 32, 16)]
    for host, words in (("--host", "mat"), ("--host=atomic", "atomic"), ("--host=atomic", "mat"),
                        ("--host=atomic", "atomic -l 1"), ("--host=atomic", "atomic -b 1 -l 1048576")):
        w.command(["opt-19", "-load-pass-plugin=" + os.path.join(w.build, "lib", "libMemtrace-Pass.so"),
                   "-passes=memtrace-host-trace", source, "-o", w.path("lanes.bc")],
                  {"MEMTRACE_PASS_OPTIONS": "host=" + ("atomic" if "atomic" in host else "on")})
        program = w.compile("lanes.c", *flags, w.path("lanes.bc"), host=host)
        r = w.run(program, words=words)
        base = dict(zip(("from", "to", "where", "picked"), (int(x, 16) for x in r.stdout.split()[:4])))
        size = {"from": 4096, "to": 4096, "where": 148, "picked": 148}
        same("sum", r.stdout.split()[4], str(sum(i * 29 % 1024 for i in range(37) if i * 29 % 1024 & 1)))
        got = [(a.op, name, (a.address - base[name]) // 4, a.size, a.function)
               for a in w.accesses(r.trace, *(["time"] if words != "mat" else [])) for name in base
               if base[name] <= a.address < base[name] + size[name]]
        same(f"{words}: accesses of lanes.ll", [g[:4] for g in got if g[4].startswith("copy_")], want)
        ours = collections.Counter()
        for op, name, first, n, function in got:
            if function == "pick":
                ours.update({(op, name, first + i): 1 for i in range(n // 4)})
        odd = [i for i in range(37) if i * 29 % 1024 & 1]
        same(f"{words}: elements that the loop reads and writes", {k: v for k, v in ours.items() if k[1] != "where"},
             {**{("load", "from", i * 29 % 1024): 1 for i in odd}, **{("store", "picked", i): 1 for i in odd}})
        same(f"{words}: elements of where", {k[2] for k in ours if k[1] == "where"}, set(range(37)))
        same(f"{words}: complete, lost", w.end(r.trace), (True, 0))


@case
def io(w):
    """What read, write and their like touch for the program, at the place of the call."""
    text = open(os.path.join(HERE, "src", "io.cpp")).read().splitlines()
    want = []
    for number, line in enumerate(text, 1):
        for part in line.split(" // ")[-1].split(", ") if " // " in line else []:
            what = re.match(r"(load|store)? ?(line|\d+) (\d+)(?=$|:)", part)
            if what:
                op = what[1] or want[-1][0]
                want.append((op, "line" if what[2] == "line" else int(what[2]), int(what[3]), number))
    same("accesses in the source's remarks", len(want), 14)
    for flags in (["-O0"], ["-O2"], ["-O2", "-D_FORTIFY_SOURCE=2"]):
        for host, words in (("--host", "mat"), ("--host=atomic", "atomic")):
            r = w.run(w.compile("io.cpp", *flags, host=host), w.path("io.data"), words=words)
            base, line = int(r.stdout.split()[0], 16), int(r.stdout.split()[1], 16)
            got = [(a.op, "line" if a.address == line else a.address - base, a.size, int(a.place.split(":")[1]))
                   for a in w.accesses(r.trace) if a.address == line or base <= a.address < base + 4096]
            same(f"{flags} {words}", got, want)
            same("complete, lost", w.end(r.trace), (True, 0))


@case
def lost(w):
    """What has no record is counted, in the trace and when it is compiled: inline assembly, modules not built for atomic."""
    with open(w.path("asm.c"), "w") as f:
        f.write("""#include <stdio.h>
static int cell[4];
static inline __attribute__((always_inline)) void bump(int *p) { __asm__ volatile("incl %0" : "+m"(*p)); }
int main(void)
{
    for (int i = 0; i < 1000; i++) {
        bump(cell);
        bump(cell + 1);
    }
    __asm__ volatile("" : : : "memory"); /* touches nothing */
    for (int i = 0; i < 10; i++)
        __asm__ goto("testl $1, %0; jz %l1" : : "m"(cell[0]) : : out);
out:
    printf("%d\\n", cell[0] + cell[1]);
    return 0;
}
""")
    for host, words in (("--host", "mat"), ("--host=atomic", "atomic")):
        r = w.command([w.cc, host, "-O2", "-fno-unroll-loops", "asm.c", "-o", "asm"])
        same("warnings", re.findall(r"asm.c:(\d+):.* without a record .*inline asm", r.stderr), ["3", "12"])
        r = w.run(w.path("asm"), words=words)
        same("output", r.stdout, "2000\n")
        same(f"{words}: complete, lost", w.end(r.trace), (False, 2001))  # the jump is taken at the first
    r = w.run(w.compile("threads.c", "-O1"), "2", words="atomic")
    complete, count = w.end(r.trace)
    if complete or count < 2000:
        raise Failed(f"a module that is not built for atomic mode: {count} lost")


@case
def threads(w):
    """Every thread's accesses, each once."""
    for n in (1, 4, 64):
        r = w.run(w.compile("threads.c", "-O2"), str(n))
        counter, swapped, part = (int(x, 16) for x in r.stdout.split()[:3])
        total, won = (int(x) for x in r.stdout.split()[3:])
        accesses = w.accesses(r.trace)
        at = collections.Counter((a.address, a.op) for a in accesses)
        same("increments", at[counter, "atomic"], total)
        same("swaps that wrote", at[swapped, "cas"], won)
        same("swaps that did not", at[swapped, "cas-failed"], n * 500 - won)
        for i in range(n):
            mine = [a for a in inside(accesses, part + i * 4000, 4000) if a.op == "store"]
            same(f"stores of thread {i}", [a.address for a in mine], [part + i * 4000 + 8 * k for k in range(500)])
            same("threads that store there", len({a.thread for a in mine}), 1)


def replay(w, n, words):
    """Do loads, increments and swaps of the counters, in the order of time, give what the program saw?"""
    r = w.run(w.compile("threads.c", "-O1", host="--host=atomic"), str(n), words=words)
    counter, swapped = (int(x, 16) for x in r.stdout.split()[:2])
    total, won = (int(x) for x in r.stdout.split()[3:])
    value, succeeded, wrong, increments, next_of = 0, 0, 0, 0, collections.Counter()
    for a in w.accesses(r.trace, "time"):
        if a.address == counter and a.op == "atomic":
            increments += 1
        if a.address == swapped and a.op in ("cas", "cas-failed"):
            expected = next_of[a.thread]  # thread tries 0, 1, 2 …
            next_of[a.thread] += 1
            wrong += (value == expected) != (a.op == "cas")
            if a.op == "cas":
                value += 1
                succeeded += 1
    same("increments", increments, total)
    same("swaps that wrote", succeeded, won)
    return wrong


@case
def atomic(w):
    """--host=atomic: each swap succeeds in the trace's order exactly when it did in the program."""
    for n in (2, 4, 16):
        for _ in range(3):
            same(f"swaps out of order with {n} threads", replay(w, n, "atomic"), 0)


@case
def atomic_needs_a_build(w):
    r = w.run(w.compile("threads.c", "-O1"), "2", words="atomic")
    if "--host=atomic" not in r.stderr:
        raise Failed("no word about --host=atomic: " + r.stderr)
    same("lines", len(r.stderr.splitlines()), 1)
    r = w.run(w.compile("threads.c", "-O1", host="--host=atomic"), "2", words="mat")
    same("mat mode with a build for atomic: words", r.stderr, "")
    counter = int(r.stdout.split()[0], 16)
    same("increments", len([a for a in w.accesses(r.trace) if (a.address, a.op) == (counter, "atomic")]), 1000)


@case
def insn_is_refused(w):
    r = w.run(w.compile("threads.c", "-O1"), "1", words="insn")
    if "mt-host insn" not in r.stderr or os.path.exists(r.trace):
        raise Failed("insn mode: " + r.stderr)


@case
def signals(w):
    """Neither the interrupted code's accesses nor the handler's are lost, and each stream is in its order."""
    r = w.run(w.compile("signals.c", "-O2", "-fno-vectorize"))
    mine, yours = (int(x, 16) for x in r.stdout.split()[:2])
    ticks = int(r.stdout.split()[2])
    same("sigaction gives back the program's handler", r.stdout.split()[3], "1")
    accesses = [a for a in w.accesses(r.trace) if a.op == "store"]
    first = [(a.address - mine) // 4 for a in inside(accesses, mine, 4 << 16)]
    second = [(a.address - yours) // 4 for a in inside(accesses, yours, 4 * 4096)]
    for i, x in enumerate(first):
        if x != i % (1 << 16):
            raise Failed(f"store {i} of main is to element {x}")
    same("whole rounds", len(first) % (1 << 16), 0)
    same("stores of the handler", second, [i % 4096 for i in range(4 * ticks)])


@case
def jumps(w):
    """A handler left by siglongjmp: what it interrupted goes on, or is counted when that is not sure."""
    with open(w.path("jump.c"), "w") as f:
        f.write("""#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
static volatile int cell[64];
static int *volatile nowhere;
static sigjmp_buf back;
static void handler(int sig) { cell[63] = sig; siglongjmp(back, 1); }
int main(int argc, char **argv)
{
    signal(SIGUSR1, handler);
    signal(SIGSEGV, handler);
    for (volatile int i = 0; i < 10; i++)
        if (!sigsetjmp(back, 1)) {
            cell[0] = 1;
            cell[1] = 2;
            if (argc > 1)
                raise(SIGUSR1);
            else
                cell[2] = *nowhere;
            cell[3] = 4;
        }
    cell[4] = 5;
    printf("%p\\n", (void *)cell);
    return 0;
}
""")
    w.command([w.cc, "--host", "-O1", "jump.c", "-o", "jump"])
    for args, lost, at_least in ((["1"], 0, 10), ([], 150, 0)):
        r = w.run(w.path("jump"), *args)
        base = int(r.stdout, 16)
        counts = collections.Counter((a.address - base) // 4 for a in inside(w.accesses(r.trace), base, 256))
        same("stores of the handler, in front of the jump, behind it, at the end",
             (counts[63], counts[0] >= at_least, counts[3], counts[4]), (10, True, 0, 1))
        same("complete, lost", w.end(r.trace), (not lost, lost))


@case
def exceptions(w):
    """A throw leaves functions that --routine names: what comes after them is not inside."""
    program = w.compile("escape.cpp", "-O1", "--mt-host-functions=^(inner|outer)$")
    plain = w.run(program)
    cells = int(plain.stdout.split()[0], 16)
    same("output", plain.stdout.split()[1:], [str(19 * 43), "1"])
    counts = collections.Counter(a.address - cells for a in w.accesses(plain.trace) if a.op == "store")
    same("stores to the cells", (counts[0], counts[8]), (20, 20))
    r = w.run(program, words="mat --routine inner")
    cells = int(r.stdout.split()[0], 16)
    counts = collections.Counter(a.address - cells for a in w.accesses(r.trace) if a.op == "store")
    same("stores to the cells inside of inner", (counts[0], counts[8]), (0, 20))


@case
def filters(w):
    """only=, pragmas, attributes, private stack slots."""
    source = w.path("filters.c")
    with open(source, "w") as f:
        f.write("""#include <stdio.h>
static volatile int a[4], b[4], c[4];
__attribute__((memtrace_skip)) void skipped(void) { a[0] = 1; }
#pragma memtrace off
void off(void) { b[0] = 1; }
#pragma memtrace on
void on(void) { int local = 3; c[0] = local; c[1] += 1; }
int main(void) { skipped(); off(); on(); printf("%p %p %p\\n", (void *)a, (void *)b, (void *)c); return 0; }
""")

    def counts(*flags):
        program = w.path("filters")
        w.command([w.cc, "--host", "-O0", *flags, source, "-o", program])
        r = w.run(program)
        where = [int(x, 16) for x in r.stdout.split()]
        accesses = w.accesses(r.trace)
        ours = [sorted(a.op for a in inside(accesses, base, 16)) for base in where]
        return ours + [len([a for a in accesses if a.variable == "local"])]

    same("all", counts(), [[], [], ["load", "store", "store"], 2])
    same("only loads", counts("--mt-only=loads"), [[], [], ["load"], 1])
    same("without private slots", counts("--mt-host-stack=off"), [[], [], ["load", "store", "store"], 0])


@case
def places(w):
    """File, line, column, function, variable."""
    source = w.path("places.c")
    with open(source, "w") as f:
        f.write("#include <stdlib.h>\nlong total;\nint main(int argc, char **argv)\n{\n"
                "    long *numbers = malloc(80);\n    for (int i = 0; i < 10; i++)\n"
                "        numbers[i] = i * argc;\n    total = numbers[3];\n    free(numbers);\n    return 0;\n}\n")
    for level in ("-O0", "-O2", "-O2 -g", "-O2 -gline-tables-only"):
        w.command([w.cc, "--host", *level.split(), "-fno-vectorize", "-fno-unroll-loops", source, "-o", w.path("places")])
        r = w.run(w.path("places"))
        got = {(a.op, a.place.split("/")[-1].rsplit(":", 1)[0], a.function, a.variable) for a in w.accesses(r.trace)
               if a.variable in ("numbers", "total") and a.size == 8}
        want = {("store", "places.c:7", "main", "numbers"), ("store", "places.c:8", "main", "total")}
        if not want <= got:
            raise Failed(f"{level}: {sorted(got)} lacks {sorted(want - got)}")


@case
def shared(w):
    """A library that is loaded, unloaded and loaded again."""
    with open(w.path("lib.c"), "w") as f:
        f.write("int cell; int *touch(void) { cell++; return &cell; }\n")
    with open(w.path("main.c"), "w") as f:
        f.write("""#include <dlfcn.h>
#include <stdio.h>
int main(void)
{
    for (int i = 0; i < 3; i++) {
        void *h = dlopen("./lib.so", RTLD_NOW);
        int *(*touch)(void) = (int *(*)(void))dlsym(h, "touch");
        printf("%p\\n", (void *)touch());
        dlclose(h);
    }
    return 0;
}
""")
    w.command([w.cc, "--host", "-O2", "-fPIC", "-shared", "lib.c", "-o", "lib.so"])
    w.command([w.cc, "--host", "-O2", "main.c", "-o", "main"])
    r = w.run(w.path("main"))
    cells = {int(x, 16) for x in r.stdout.split()}
    got = [(a.op, os.path.basename(a.place).split(":")[0], a.variable) for a in w.accesses(r.trace) if a.address in cells]
    same("accesses of the library", got, [("load", "lib.c", "cell"), ("store", "lib.c", "cell")] * 3)


@case
def ways_out(w):
    """However the program ends, the trace has what it did."""
    source = w.path("out.c")
    with open(source, "w") as f:
        f.write("""#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
static volatile int cell[1000];
int main(int argc, char **argv)
{
    printf("%p\\n", (void *)cell);
    fflush(stdout);
    for (int i = 0; i < 1000; i++)
        cell[i] = i;
    switch (*argv[1]) {
    case 'r': return 7;
    case 'e': exit(7);
    case 'u': _exit(7);
    case 'q': quick_exit(7);
    case 'a': abort();
    case 's': *(volatile int *)16 = 1; break;
    case 'k': raise(SIGTERM); break;
    case 'x': execl("/bin/sh", "sh", "-c", "exit 7", (char *)0); break;
    case 'f': if (fork() == 0) { cell[0] = 5; exit(3); } wait(NULL); return 7;
    case 'v': if (vfork() == 0) execlp("true", "true", (char *)0); wait(NULL); cell[3] = 4; return 7;
    }
    return 1;
}
""")
    w.command([w.cc, "--host", "-O2", "-fno-vectorize", "-fno-unroll-loops", source, "-o", w.path("out")])
    for how, code in dict(r=7, e=7, u=7, q=7, a=-6, s=-11, k=-15, x=7, f=7, v=7).items():
        r = w.run(w.path("out"), how, code=code)
        base = int(r.stdout.split()[0], 16)
        stores = [a for a in inside(w.accesses(r.trace), base, 4000) if a.op == "store"]
        same(f"{how}: stores", len(stores), 1001 if how == "v" else 1000)


@case
def killed(w):
    """Two threads are traced while a signal or main ends the program: the other one goes on unharmed to the end."""
    with open(w.path("loop.c"), "w") as f:
        f.write("""#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>
static volatile long part[2][256];
static void *work(void *mine)
{
    unsigned x = 1;
    for (volatile long *m = mine;;)
        for (int i = 0; i < 256; i++) {
            for (int k = 0; k < 32; k++) /* some time without an access: a shorter trace */
                x = x * 1664525u + (x >> 7);
            m[i] += x;
        }
}
int main(int argc, char **argv)
{
    pthread_t t;
    pthread_create(&t, NULL, work, (void *)part[1]);
    write(1, "x", 1);
    if (argc == 1)
        work((void *)part[0]);
    usleep(5000);
    return 7;
}
static void late(void) __attribute__((destructor(101)));
static void late(void)
{
    usleep(5000); /* untraced meanwhile */
}
""")
    for mode in ("mat", "atomic"):
        w.command([w.cc, "--host" if mode == "mat" else "--host=atomic", "-O2", "loop.c", "-o", "loop", "-lpthread"])
        for i in range(6 if mode == "mat" else 4):
            trace, main = w.path(f"{mode}{i}.mtc"), i % 4 == 3
            with subprocess.Popen([w.path("loop"), "main"] if main else [w.path("loop")],
                                  env={**os.environ, "MEMTRACE_HOST": f"{mode} -o {trace}"}, stdin=subprocess.DEVNULL,
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as p:
                try:
                    p.stdout.read(1)
                    if not main:
                        time.sleep(0.001 * i)
                        p.terminate()
                    err = p.communicate(timeout=30)[1]
                finally:
                    p.kill()
            same(f"{mode} {i}: exit code", p.returncode, 7 if main else -15)
            r = w.command([os.path.join(w.build, "bin", "mt-dump"), "--head", "0", trace], code=None)
            ends = [x.split(":")[0] for x in r.stdout.splitlines() if x.startswith("end ")]
            if "the trace has no end" in err:
                same("no end", (r.returncode, ends), (3, []))
            elif not main:
                same("end", (r.returncode, ends, err), (3, ["end incomplete"], ""))
            else:
                same("end", ends, ["end complete"])
            os.unlink(trace)


@case
def names(w):
    """%p in the name; a traced program that another one starts leaves its trace alone."""
    with open(w.path("names.c"), "w") as f:
        f.write("""#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>
static volatile int cell[100];
int main(int argc, char **argv)
{
    int n = argc > 1 ? 100 : 50;
    if (argc > 1 && fork() == 0)
        execl(argv[0], argv[0], (char *)0);
    wait(NULL);
    for (int i = 0; i < n; i++)
        cell[i] = i;
    printf("%d %p\\n", (int)getpid(), (void *)cell);
    return 0;
}
""")
    w.command([w.cc, "--host", "-O1", "-fno-unroll-loops", "names.c", "-o", "names"])

    def stores(trace, base):
        return len([a for a in inside(w.accesses(w.path(trace)), base, 400) if a.op == "store"])

    for name, words, dir in (("MemTrace-host{}.mtc", None, w.work), ("n-%p{}.mtc", "mat -o n-%p.mtc", w.path("."))):
        env = {"MEMTRACE_DIR": dir, **({"MEMTRACE_HOST": words} if words else {})}
        r = w.command([w.path("names"), "1"], env)
        (child, at_child), (parent, at_parent) = ((int(x.split()[0]), int(x.split()[1], 16)) for x in r.stdout.splitlines())
        of_parent = name.format("").replace("%p", str(parent))
        of_child = "MemTrace-host.mtc" if words else name.format("." + str(child))
        same("stores of the parent", stores(of_parent, at_parent), 100)
        same("stores of the child", stores(of_child, at_child), 50)
        if not words and f"{of_child}" not in r.stderr:
            raise Failed("no word about the child's name: " + r.stderr)


@case
def cuda(w):
    """Host accesses lie between the right CUDA calls; neither kernels nor the runtime are in the host's trace."""
    program = w.compile("order.cu", "-O1", "-fno-vectorize", "-fno-unroll-loops")
    r = w.run(program, env={"MEMTRACE_DEVICE": "cpu", "MEMTRACE_DIR": w.work})
    base, out = (int(x, 16) for x in r.stdout.split()[:2])
    same("result", r.stdout.split()[2], str(sum(2 * (i + k) for i in range(64) for k in range(5))))
    with open(w.path("MemTrace-pipe-0.meta")) as f:
        meta = [json.loads(line) for line in f]
    calls = sorted((m["seq"], m["ev"], m.get("kind")) for m in meta if m["ev"] in ("memcpy", "launch"))
    same("CUDA calls", [c[1:] for c in calls], [("memcpy", "h2d"), ("launch", None), ("memcpy", "d2h")] * 5)
    seq, got, others = 0, [], set()
    for line in w.lines(r.trace):
        words = line.split()
        if words[0] == "S":
            seq = int(words[1])
        if words[0] != "A":
            continue
        address = int(words[3], 16)
        others.add(words[5].split("/")[-1].split(":")[0])
        if base <= address < base + 256 or out <= address < out + 256:
            before = len([c for c in calls if c[0] <= seq])
            got.append((words[2], "in" if address < base + 256 and address >= base else "out", before))
    want = []
    for k in range(5):
        want += [("store", "in", 3 * k)] * 64 + [("store", "in", 3 * k + 2)] + [("load", "out", 3 * k + 3)] * 64
    same("accesses and calls before them", got, want)
    same("files", others, {"order.cu"})


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build")
    parser.add_argument("--dump")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("cases", nargs="*")
    args = parser.parse_args()
    if args.list:
        print("\n".join(CASES))
        return 0
    failed = 0
    for name in args.cases or CASES:
        work = tempfile.mkdtemp(prefix="mt-hostllvm-", dir=MEMORY)
        try:
            CASES[name](World(os.path.realpath(args.build), os.path.realpath(args.dump), work))
            print(f"ok {name}")
        except Failed as why:
            print(f"FAILED {name}: {why}")
            failed = 1
        except Exception:
            print(f"FAILED {name}:\n{traceback.format_exc()}")
            failed = 1
        finally:
            shutil.rmtree(work, ignore_errors=True)
        sys.stdout.flush()
    return failed


if __name__ == "__main__":
    sys.exit(main())
