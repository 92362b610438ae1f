"""Threads and processes that begin and end in all ways, in atomic mode: each atomic addition is in the trace, once."""
import collections
import os
import re
import resource
import signal
import struct
import subprocess
import time

from harness import Failed, case, clean, holds, same, until
from world import ENGINES, MACHINE, read_atomic


def cells(out):
    """{name: [(address, count)]} of what lives.c printed."""
    found = collections.defaultdict(list)
    for line in out.splitlines():
        words = line.split()
        if words and words[0] == "cell":
            found[words[2]].append((int(words[1]), int(words[3])))
    return found


def additions(w, result):
    """{address: Counter(thread)} of instructions that read and write the same 8 bytes."""
    found = collections.defaultdict(collections.Counter)
    last = {}
    for time, thread, kind, operands in w.atomic(result):
        holds(f"time of thread {thread} goes forward", last.get(thread, -1) <= time)
        last[thread] = time
        if kind == "m" and operands.get("r") == operands.get("w") and operands.get("w", (0, 0))[1] == 8:
            found[operands["w"][0]][thread] += 1
    return found


def check(w, *words, code=0, programs_words=()):
    program = w.compile("lives.c", "-O1", atomic=True)
    result = w.host("atomic", *words, "--", program, *programs_words, trace="lives.out", code=code)
    found, told = additions(w, result), cells(result.out)
    holds(f"the program told its cells: {result}", told)
    for name, list_ in told.items():
        for address, count in list_:
            same(f"{name}: additions to {address:#x}", sum(found[address].values()), count)
    return result, found, told


@case("lives.threads64", *ENGINES)
def many(w):
    _, found, told = check(w, programs_words=("many", 64))
    same("cells", len(told["thread"]), 64)
    threads = [t for address, _ in told["thread"] for t in found[address]]
    same("each cell has a thread of its own", len(set(threads)), 64)


@case("lives.threads200", *ENGINES)
def more(w):
    """64 at a time; ended threads' places are used again."""
    check(w, "-l", "1024", programs_words=("many", 200))


@case("lives.exits", *ENGINES)
def exits(w):
    result, _, _ = check(w, programs_words=("exits",))
    kinds = collections.Counter(kind for _, _, kind, _ in w.atomic(result))
    same("threads", kinds["tr"], 8)
    # One thread lives until the end; two leave by a system call of their own, which the compile-time engine cannot see.
    ended = 7 if w.engine == "qemu" else 5
    holds(f"{kinds['tf']} threads ended, at least {ended}", kinds["tf"] >= ended)


@case("lives.cancel", "llvm")
def cancel(w):
    """Not under qemu: 7.2 itself does not survive pthread_cancel, with or without a plugin."""
    check(w, programs_words=("cancel",))


@case("lives.fork", *ENGINES)
def fork(w):
    """The child runs on, untraced; the parent's trace is whole."""
    check(w, programs_words=("fork",))


@case("lives.signal", *ENGINES)
def signals(w):
    """A handler that runs between any two instructions of the program."""
    check(w, programs_words=("signal",))


@case("lives.vfork", *MACHINE)
def vfork(w):
    """A child of vfork that closes all descriptors and execs, in the program's own memory."""
    program = w.compile("vfork.c", "-O1")
    for mode in ("mat", "atomic", "insn"):
        result = w.host(mode, "--verbose", "--", program, code=6, timeout=300)
        same("output", result.out, "child\nstatus 0\n")
        holds(f"complete: {result.err}", ", complete" in result.err and "memtrace:" not in result.err)


@case("lives.exec", *ENGINES)
def execs(w):
    result, found, told = check(w, programs_words=("exec", "/bin/echo"))
    holds(f"the new program ran: {result.out}", result.out.endswith("from exec\n"))
    del found, told


@case("lives.killed", *ENGINES)
def killed(w):
    """Killed by a signal: memtrace host says which by its exit code; what it did before is in the trace."""
    for number in (signal.SIGTERM, signal.SIGABRT, signal.SIGSEGV):
        check(w, programs_words=("killed", int(number)), code=128 + number)
    program = w.compile("lives.c", "-O1", atomic=True)
    result = w.host("atomic", "--", program, "killed", int(signal.SIGKILL), trace="kill.out", code=128 + signal.SIGKILL)
    (address, count), = cells(result.out)["main"]
    got = sum(additions(w, result)[address].values())
    holds(f"{got} of {count} additions before SIGKILL", count - 256 <= got <= count)  # the rest was not written yet


@case("lives.memory", *ENGINES)
def container(w):
    """The same in a container: complete, and as many accesses as threads made."""
    program = w.compile("lives.c", "-O1")
    result = w.host("mat", "--verbose", "--", program, "many", 64)
    g = w.graph(result.trace)
    holds("complete", g["complete"])
    size = 256 * 8 * 8
    ids = [b["id"] for b in g["buffers"] if b["size"] == size]
    same("buffers of the cells", len(ids), 1)
    # Each thread adds to one cell: stride 0; at -O1 an addition is one instruction that reads and writes.
    counts = collections.Counter()
    for n in g["nodes"]:
        if n["buffer"] == ids[0] and n["stride"] == 0:
            counts[n["type"]] += n["count"]
    holds(f"64 threads of 1000 additions: {dict(counts)}", 64 * 999 in counts.values() or
          sum(counts.values()) in (64 * 999, 2 * 64 * 999))


@case("lives.orphan", *ENGINES)
def orphan(w):
    """SIGKILL of memtrace host ends the program and what runs it, too."""
    command = [w.tool("mt-host"), f"--engine={w.engine}", "mat", "-o", w.path("orphan.mtc"), "--", "/bin/sh", "-c",
               "echo $$; read forever"]
    if w.engine == "llvm":
        loop = w.path("loop.c")
        with open(loop, "w", encoding="ascii") as f:
            f.write('#include <stdio.h>\n#include <unistd.h>\nint main(void) { printf("%d\\n", (int)getpid()); fflush(stdout); '
                    'return getchar(); }\n')
        program = w.path("loop")
        w.call([w.tool("mt-cc"), "--host", loop, "-o", program])
        command[-3:] = [program]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=clean())
    child = int(process.stdout.readline())
    holds("it runs", os.path.exists(f"/proc/{child}"))
    process.kill()
    process.wait()

    def gone():
        try:
            with open(f"/proc/{child}/stat", encoding="utf-8") as f:
                return f.read().rsplit(")", 1)[1].split()[0] in "ZX"
        except (FileNotFoundError, ProcessLookupError):
            return True
    try:
        until("its end", gone)
    except Failed:
        os.kill(child, signal.SIGKILL)
        raise
    process.stdin.close()
    process.stdout.close()


def stores(text, cell):
    """How many elements of 20000 `int` at `cell` a text of mat says are written, each once and in order; -1: otherwise."""
    rows = [line.split() for line in text.splitlines()]
    where = [int(r[1]) - cell for r in rows if len(r) == 7 and r[4] == "2" and 0 <= int(r[1]) - cell < 80000]
    return len(where) if where == [4 * i for i in range(len(where))] else -1


def limited(soft, hard):
    return lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@case("lives.closes", *ENGINES)
def closes(w):
    """A program that closes all descriptors, or lays another one over them, has the numbers that it has natively, and the
    trace goes on: in a file, in a FIFO, on a descriptor that the user has opened."""
    plain = w.compile("closes.c", "-O1", engine="qemu")
    program = w.compile("closes.c", "-O1", "-fno-unroll-loops", *(["-fno-vectorize"] if w.engine == "llvm" else []))
    for limit in ((200, 400), (200, 200)):
        for way in ("nothing", "close", "dup", "from", "range", "listed"):
            native = subprocess.run([plain, way], capture_output=True, text=True, preexec_fn=limited(*limit))
            holds("natively", native.stdout.startswith("3 4 "))
            for kind in ("file", "fifo", "number"):
                if way == "dup" and limit[0] == limit[1] and kind != "file":
                    continue  # all numbers that there may be are the program's: the trace is given up, in words
                what = f"{limit} {way} {kind}"
                path = w.path("closes.out")
                if kind == "fifo":
                    os.mkfifo(path)
                read, write = os.pipe()
                output = f"/dev/fd/{write}" if kind == "number" else path
                with subprocess.Popen([w.tool("mt-host"), f"--engine={w.engine}", "mat", "--all", "--own", "-o", output, "--",
                                       program, way], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                      env=clean(), pass_fds=[write] if kind == "number" else [],
                                      preexec_fn=limited(*limit)) as p:
                    os.close(write)
                    if kind == "file":
                        out, err = p.communicate(timeout=120)
                        with open(path, encoding="utf-8") as f:
                            text = f.read()
                    else:
                        with open(path, encoding="utf-8") if kind == "fifo" else os.fdopen(os.dup(read)) as f:
                            text = f.read()
                        out, err = p.communicate(timeout=120)
                os.close(read)
                if kind != "number" or way != "nothing":  # that number the program has, too
                    same(f"{what}: exit code, which is a number ({err})", p.returncode, native.returncode)
                if kind != "number":
                    same(f"{what}: numbers", out.split()[:2], ["3", "4"])
                same(f"{what}: stores ({err})", stores(text, int(out.split()[2])), 20000)


@case("lives.refused", "qemu")
def refused(w):
    """An instruction that qemu cannot run is named, with its place and the engine that can, before SIGILL; once; not if the
    program does not get there."""
    program = w.compile("refused.c", "-O1")
    with open(os.path.join(w.src, "refused.c"), encoding="utf-8") as f:
        line = 1 + next(i for i, text in enumerate(f) if "/* here */" in text)
    for words, code, out in ((["0"], 0, "before\n0\n"), (["1"], 128 + signal.SIGILL, "before\n"),
                             (["3", "catch"], 0, "before\n3\n")):
        for mode in ("mat", "atomic", "insn"):
            result = w.host(mode, "--", program, *words, code=code)
            same(f"{words}: output", result.out, out)
            said = [x for x in result.err.splitlines() if "cannot run" in x]
            same(f"{words}: {said}", len(said), 1 if words != ["0"] else 0)
            for part in ("'vpaddd zmm2, zmm1, zmm0'", "AVX512", f"refused.c:{line}", "in wide", "SIGILL",
                         "--engine=pin" if mode == "insn" else "mt-cc --host"):
                holds(f"{said} has {part}", not said or part in said[0])
            holds("it comes before qemu's own words", not said or "uncaught" not in result.err.split(said[0])[0])


@case("lives.behind", "dynamorio")
def behind_calls(w):
    """A call is made for the first time while other threads are in the code behind it, which then gets something
    inserted: they go on there, and each of their rounds is in the trace."""
    program = w.compile("behind.c", "-O1")
    for mode in ("mat", "atomic", "insn"):
        result = w.host(mode, *(() if mode == "insn" else ("--own",)), "--", program, trace=f"{mode}.mtc")
        said = w.call([w.tool("mt-dump"), result.trace]).stdout
        holds(f"{mode}: it is whole", "\nend complete" in said)
        stores = collections.Counter(int(address, 16) for address in re.findall(r"^\d+ store 8 0x(\w+)", said, re.M))
        told = [rounds for list_ in cells(result.out).values() for rounds in list_]
        same(f"{mode}: rounds in the trace", [(address, stores[address]) for address, _ in told], told)


@case("lives.children", *ENGINES)
def children(w):
    """Processes that the program begins are not in its trace: they are counted, wherever it is called complete. The
    compile-time engine sees those of fork."""
    program = w.compile("children.c", "-O1", atomic=True)
    count = "2" if w.engine == "llvm" else "3"
    result = w.host("atomic", "--verbose", "--", program)
    holds(f"memtrace host says it: {result.err}", f"complete; {count} child processes not traced" in
          re.sub(r"; [\d,]+ of libraries left out", "", result.err))
    holds("memtrace dump", f"\nnot traced: {count} child processes\n" in w.call([w.tool("mt-dump"), result.trace]).stdout)
    said = w.call([w.tool("mt-extract"), "--format", "summary", result.trace]).stdout
    holds(f"summary: {said}", f"{count} child processes of the program are not traced" in said)
    alone = w.host("atomic", "--verbose", "--", w.compile("hello.c", "-O1", atomic=True), trace="alone.mtc")
    holds(f"none: {alone.err}", "not traced" not in alone.err)


@case("lives.leaks", *ENGINES)
def leaks(w):
    """Of several leaks the summary names the one of most bytes, and not that of most blocks or the first."""
    result = w.host("atomic", "--", w.compile("leaks.c", "-O1", atomic=True))
    said = w.call([w.tool("mt-extract"), "--format", "summary", result.trace]).stdout
    holds(f"summary: {said}", re.search(r"leak at .*leaks\.c:11 \(and 1 more\): an allocation \(500000 bytes", said))


ENDLESS = (("atomic", "mtc", "add"), ("atomic", "mtc", "swap"), ("atomic", "mtc", "copy"), ("mat", "mtc", "add"),
           ("atomic", "out", "add"), ("atomic", "out", "long"), ("mat", "txt", "swap"),
           ("insn", "mtc", "add"), ("insn", "txt", "copy"))


def counted(w, trace):
    """Stores and atomics of the lines of endless.c that count."""
    with open(f"{w.src}/endless.c", encoding="utf-8") as f:
        lines = [i for i, line in enumerate(f, 1) if "*count;" in line or "*count)" in line or "swap(count," in line]
    found = w.json("mt-extract", "-q", "-s", "lines", "-f", "json", trace, code=3)["lines"]["lines"]
    of = [of for place, of in found.items() if re.search(rf"endless\.c:({'|'.join(map(str, lines))})$", place)]
    return sum(r["stores"] + r["atomics"] for rows in of for r in rows.values())


def endless_run(w, program, run, number):
    mode, ending, way = run
    trace, page = w.path(f"{mode}-{way}-{number}.{ending}"), w.path("page")
    with open(page, "wb") as f:
        f.write(bytes(4096))

    def rounds():
        with open(page, "rb") as f:
            return struct.unpack("<Q", f.read(8))[0]
    command = [w.tool("mt-host"), f"--engine={w.engine}", mode, "-o", trace, "--", program, page, way]
    with subprocess.Popen(command, stderr=subprocess.PIPE, env=clean()) as host:
        until("rounds", lambda: rounds() > 100, host)
        time.sleep(0.3)  # a thread has left the cache and is in there again
        host.send_signal(number)
        try:
            host.wait(60)
        finally:
            host.kill()
        code, errors = host.wait(), host.stderr.read().decode()
    same(f"exit code of {run}; {errors}", code, 128 + number)
    if mode == "atomic" and ending == "mtc":
        same(f"{run}: rounds", counted(w, trace), rounds())
    elif way == "long":
        stores = collections.Counter(o["w"][0] for _, _, kind, o in read_atomic(trace) if kind == "m" and "w" in o)
        same(f"{run}: rounds", max(stores.values()), rounds())
    os.remove(trace)


@case("lives.endless", *ENGINES, whole=True)
def endless(w):
    """A signal ends a loop that makes no system call, wherever it comes; up to there nothing is lost or counted twice."""
    program = w.compile("endless.c", "-O1", atomic=True)
    for i, run in enumerate(ENDLESS):
        if not w.long and i not in (0, 5):
            continue
        if run[0] == "insn" and w.engine == "llvm":
            continue
        for number in (signal.SIGINT, signal.SIGTERM)[i % 2:][:1 + (w.long and i == 0)]:
            endless_run(w, program, run, number)
