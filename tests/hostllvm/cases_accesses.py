"""What is recorded: accesses in their order, with their places, and what is left out."""
import collections
import os
import re
import struct

from harness import Failed, Skipped, case, same
from world import HERE, inside


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
    case("everything_O" + number)(lambda w, level=number: everything(w, level))


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


# What src/intrinsics.c reads of `from` and writes to `to`, by function: bytes from their beginnings, and sizes.
AVX2 = {
    "gather_d_d": [("load", "from", 4 * i, 4) for i in (3, 1, 4, 1, 5, 9, 2, 6)],
    "gather_d_pd": [("load", "from", -8, 8)],
    "gather_q_ps": [("load", "from", 40 + 2 * i, 4) for i in (-2, 0, 20, 8)],
    "maskload": [("load", "from", 32, 4), ("load", "from", 40, 8), ("load", "from", 60, 4)],
    "maskstore": [("store", "to", 8, 16)],
    "maskmov": [("store", "to", 40, 2), ("store", "to", 44, 1), ("store", "to", 55, 1)],
}
AVX512 = {
    "gather_512": [("load", "from", 8 * i, 8) for i in (1, 5, 6, 8)],
    "scatter_512": [("store", "to", 80, 4), ("store", "to", 120, 4)],
    "scatter_256": [("store", "to", 4 * i, 4) for i in (40, 42, 44, 41)],
    "narrowed": [("store", "to", 200, 3), ("store", "to", 215, 1)],
}


@case
def masked_lanes(w):
    """Gathers, scatters and masked moves that are x86's own intrinsics: the lanes that the mask leaves."""
    flags = open("/proc/cpuinfo").read().split()
    if "avx2" not in flags:
        raise Skipped("this processor has no AVX2")
    more = ["avx512"] if {"avx512f", "avx512vl", "avx512bw"} <= set(flags) else []
    want = {**AVX2, **(AVX512 if more else {})}
    for level in ("-O0", "-O2"):
        for host, words in (("--host", "mat"), ("--host=atomic", "atomic")):
            r = w.run(w.compile("intrinsics.c", level, host=host), *more, words=words)
            base = dict(zip(("from", "to"), (int(x, 16) for x in r.stdout.split()[:2])))
            got = {f: [] for f in want}
            for a in w.accesses(r.trace):
                op, name = want[a.function][0][:2] if a.function in want else (None, "to")
                if a.op == op and -8 <= a.address - base[name] < 256:
                    got[a.function].append((op, name, a.address - base[name], a.size))
            same(f"{level} {words}", got, want)
            same(f"{level} {words}: complete, lost", w.end(r.trace), (True, 0))


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
def intrinsics(w):
    """What stays an intrinsic to the end: those with a known operand are recorded, all others counted and named."""
    with open(w.path("intrinsics.c"), "w") as f:
        f.write("""#include <immintrin.h>
#include <stdarg.h>
#include <stdio.h>
static unsigned char cell[256] __attribute__((aligned(64)));
__attribute__((noinline)) static int second(int n, ...)
{
    va_list a, b;
    va_start(a, n);
    va_copy(b, a);
    (void)va_arg(b, int);
    int x = va_arg(b, int);
    va_end(b);
    va_end(a);
    return x;
}
int main(int argc, char **argv)
{
    volatile __m128i x;
    volatile __m256i y;
    for (int i = 0; i < 10; i++) {
        x = _mm_lddqu_si128((__m128i *)(cell + 1));
        y = _mm256_lddqu_si256((__m256i *)(cell + 32));
    }
    _mm_prefetch(cell + 64, _MM_HINT_T0);
    _mm_clflush(cell + 64);
    _mm_mfence();
    printf("%p %d\\n", (void *)cell, second(2, argc, 7));
    return 0;
}
""")
    r = w.command([w.cc, "--host", "-O1", "-mavx2", "intrinsics.c", "-o", "intrinsics"])
    same("warnings", r.stderr, "")
    r = w.run(w.path("intrinsics"), words="mat --all")
    cell = int(r.stdout.split()[0], 16)
    got = collections.Counter((a.op, a.address - cell, a.size) for a in inside(w.accesses(r.trace), cell, 256))
    same("accesses to cell", dict(got), {("load", 1, 16): 10, ("load", 32, 32): 10})
    lists = collections.Counter(a.op for a in w.accesses(r.trace) if a.size == 24)
    same("argument lists: begun and copied", dict(lists), {"store": 2, "load": 1})
    same("complete, lost, output", (*w.end(r.trace), r.stdout.split()[1]), (True, 0, "7"))
    with open(w.path("unknown.c"), "w") as f:
        f.write("""#include <immintrin.h>
int enter(char *p, const char *key, __m128i x, __m128i *y)
{
    _xsave(p, 7);
    return _mm_aesenc128kl_u8(y, x, key);
}
""")
    r = w.command([w.cc, "--host", "-O1", "-mxsave", "-mkl", "-c", "unknown.c"])
    same("warnings", re.findall(r"unknown.c:(\d+):.* without a record .*llvm.x86.(\w+)", r.stderr), [("4", "xsave"), ("5", "aesenc128kl")])


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
def loops(w):
    """Loops whose entries are left out where they are made: nothing is missing, and each round is in the buffer that realloc
    gave, with another thread that allocates, too."""
    with open(w.path("loops.c"), "w") as f:
        f.write("""#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
static volatile int done;
static void *rings(void *arg) { while (!done) free(malloc(100)); return arg; }
int main(int argc, char **argv)
{
    pthread_t thread;
    volatile short *p = NULL;
    if (argc > 1)
        pthread_create(&thread, NULL, rings, NULL);
    for (long n = 1; n <= 40; n++) {
        p = realloc((void *)p, 2 * n * 977);
        printf("%p\\n", (void *)p);
        for (long i = 0; i < n * 100; i++) {
            p[i * 9] = 1;
            p[i] = p[n * 100 - i];
        }
    }
    if (argc > 1) {
        done = 1;
        pthread_join(thread, NULL);
    }
    return 0;
}
""")
    program = w.path("loops")
    w.command([w.cc, "--host", "-O1", w.path("loops.c"), "-o", program, "-pthread"])
    for arguments in ((), ("ring",)):
        r = w.run(program, *arguments)
        same("complete, lost", w.end(r.trace), (True, 0))
        want = [(op, int(base, 16) + 2 * at) for n, base in enumerate(r.stdout.split(), 1) for i in range(n * 100)
                for op, at in (("store", i * 9), ("load", n * 100 - i), ("store", i))]
        got = [(a.op, a.address) for a in w.accesses(r.trace) if a.size == 2]
        same("accesses, first that differs", (len(got), next((x for x in zip(got, want) if x[0] != x[1]), None)), (len(want), None))
