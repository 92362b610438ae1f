"""Signals, jumps, libraries that come and go, and the ways a process ends."""
import collections
import json
import os
import subprocess
import time

from harness import Failed, case, same
from world import inside


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
/* Allocates far below where the handler was, however large this processor's signal frames are. */
__attribute__((noinline)) static void *deep(void)
{
    volatile char room[1 << 18];
    room[cell[5]] = 1;
    return malloc(64 + (size_t)room[cell[6]]);
}
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
    nowhere = deep();
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
                    err = p.communicate(timeout=300)[1]
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
    """Host accesses lie between the right CUDA calls; of the runtime, only what copies read is in the host's trace, of kernels nothing."""
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
        want += [("store", "in", 3 * k)] * 64 + [("load", "in", 3 * k + 1), ("store", "in", 3 * k + 2)] + [("load", "out", 3 * k + 3)] * 64
    same("accesses and calls before them", got, want)
    same("files", others, {"order.cu"})


@case
def closes_everything(w):
    """A program that closes all descriptors, as daemons do, and opens a file of its own with our number, in another folder."""
    with open(w.path("daemon.c"), "w") as f:
        f.write("""#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
static volatile int cell[400000];
int main(int argc, char **argv)
{
    printf("%p\\n", (void *)cell);
    fflush(stdout);
    for (int i = 0; i < 200000; i++)
        cell[i] = i;
    for (int fd = 0; fd < 256; fd++)
        close(fd);
    for (int fd = 0; fd < 64; fd++) {
        int got = open(argv[1], O_RDWR | O_CREAT, 0600);
        if (fcntl(got, F_GETFD) < 0 || got > 255)
            return 1;
    }
    if (chdir("/"))
        return 2;
    for (int i = 200000; i < 400000; i++)
        cell[i] = i;
    return 0;
}
""")
    w.command([w.cc, "--host", "-O2", "-fno-vectorize", "-fno-unroll-loops", "daemon.c", "-o", "daemon"])
    theirs = w.path("theirs")
    for file in ("trace.mtc", "./trace.mtc"):  # by its whole name, and by one that means nothing elsewhere
        if os.path.exists(w.path("trace.mtc")):
            os.unlink(w.path("trace.mtc"))
        r = w.command([w.path("daemon"), theirs],
                      {"MEMTRACE_HOST": f"mat -o {w.path('trace.mtc') if file == 'trace.mtc' else file}"})
        base = int(r.stdout.split()[0], 16)
        stores = [a.address for a in inside(w.accesses(w.path("trace.mtc")), base, 1600000) if a.op == "store"]
        same("stores", stores, [base + 4 * i for i in range(400000)])
        same("complete and lost", w.end(w.path("trace.mtc")), (True, 0))
        same("bytes in the program's file", os.path.getsize(theirs), 0)


@case
def without_stdio(w):
    """Started without stdin, stdout and stderr: what the program opens first gets 0, as ever."""
    with open(w.path("bare.c"), "w") as f:
        f.write("""#include <fcntl.h>
#include <unistd.h>
static volatile int cell[100];
int main(int argc, char **argv)
{
    int fd = open(argv[1], O_RDWR | O_CREAT, 0600);
    for (int i = 0; i < 100; i++)
        cell[i] = i;
    return fd == 0 && open("/dev/null", O_WRONLY) == 1 && open("/dev/null", O_WRONLY) == 2 ? 7 : 1;
}
""")
    w.command([w.cc, "--host", "-O2", "-fno-vectorize", "-fno-unroll-loops", "bare.c", "-o", "bare"])
    trace = w.path("bare.mtc")
    w.command(["sh", "-c", 'exec "$0" "$1" <&- >&- 2>&-', w.path("bare"), w.path("first")],
              {"MEMTRACE_HOST": f"mat -o {trace}"}, code=7)
    same("stores", len([a for a in w.accesses(trace) if a.op == "store" and a.variable == "cell"]), 100)
    same("bytes in the program's file", os.path.getsize(w.path("first")), 0)


@case
def lookups(w):
    """What dlsym frees before anybody else does: the program runs, traced or not."""
    program = w.compile("lookups.c", "-O1")
    for how in ("off", "mat"):
        process = subprocess.run([program], capture_output=True, text=True, timeout=60,
                                 env=dict(os.environ, MEMTRACE_HOST=how, MEMTRACE_DIR=w.work))
        same(f"{how}: exit code and output", (process.returncode, process.stdout), (0, "found 0\n"))
