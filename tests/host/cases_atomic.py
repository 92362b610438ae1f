"""atomic mode: the order in the trace is one that happened. inc and cas (src/share.c) count what only somebody who
knows the order of all increments can count; the simulators replay the merged trace and must count the same."""
import io
import os
import subprocess
import sys
import time

from harness import Skipped, case, holds, same
from world import ENGINES


def build(w, name):
    return w.compile(name, "-O1", sources=["share.c"], atomic=True, libraries=("annotate",))


def replay(w, merged, name, failed_writes=False):
    """(lines that the program must have printed, problems)."""
    sys.path.insert(0, w.src)
    try:
        import share_sim
    finally:
        sys.path.remove(w.src)
    sim = share_sim.Replay(failed_writes)
    sim.feed(merged)
    return sim.report(name == "cas.c"), sim.problems


def through_pipe(w, program, name, words, threads, total, code=0):
    """The seed's tool chain: program -> FIFO -> memtrace convert --order=time -> simulator. ("" if they agree, what the program printed)."""
    pipe = w.path("pipe")
    os.mkfifo(pipe)
    merge = subprocess.Popen(["sh", "-c", f'exec "{w.tool("mt-convert")}" --order=time < "{pipe}"'], stdout=subprocess.PIPE, text=True)
    timed = None
    try:
        import threading
        merged = []
        timed = threading.Thread(target=lambda: merged.append(merge.stdout.read()))
        timed.start()
        result = w.host("atomic", "-f", os.path.join(w.src, "inc_functions.txt"), *words, "--", program, threads, total,
                        trace=pipe, code=code)
        timed.join(60)
        holds("mt-convert came to its end", not timed.is_alive())
        same("exit code of mt-convert", merge.wait(300), 0)
    finally:
        merge.kill()
        merge.wait()
        if timed:
            timed.join()
        os.unlink(pipe)
    lines, problems = replay(w, io.StringIO(merged[0]), name)
    told = [line for line in result.out.splitlines() if line.startswith("thread ")]
    holds(f"the program printed its counts: {result}", told)
    if problems or lines != told:
        return "; ".join(problems[:3]) + f" trace: {lines} program: {told}"
    return ""


# Threads, increments and options of the runs: few and many locks, large and small blocks, small and large lag.
VARIANTS = ((2, 2000, []), (4, 2000, []), (3, 1500, ["-l", "1"]), (4, 1500, ["-b", "8", "-l", "4096"]),
            (8, 1600, ["-a", "1", "-d", "10"]), (4, 2000, ["-a", "4096", "-d", "1000000"]), (4, 2000, ["-i", "1"]),
            (2, 2000, ["-r", "1"]), (4, 1200, ["-b", "4096", "-l", "2"]), (16, 1600, []))


def runs(w, name, count):
    program = build(w, name)
    for i in range(count):
        threads, total, words = VARIANTS[i % len(VARIANTS)]
        why = through_pipe(w, program, name, words, threads, total)
        same(f"run {i} of {threads} threads, {total} increments, {words}", why, "")


@case("atomic.inc25", *ENGINES)
def increments(w):
    runs(w, "inc.c", 25)


@case("atomic.cas25", *ENGINES)
def swaps(w):
    runs(w, "cas.c", 25)


@case("atomic.unlocked_fails", *ENGINES)
def unlocked(w):
    """With -t 1 the same check fails: it can see the difference."""
    program = build(w, "inc.c")
    end, tries = time.monotonic() + 60, 0
    while time.monotonic() < end:
        tries += 1
        if through_pipe(w, program, "inc.c", ["-t", "1"], 4, 20000):
            return
    raise Skipped(f"{tries} runs without locks had no wrong order: threads did not meet")


def merged(path, order=None):
    """What the merge must give, by sorting: without times and thread_sync."""
    with open(path, encoding="ascii") as f:
        rows = [line.rstrip("\n").split("\t") for line in f]
    rows = [r for r in rows if r[2] != "thread_sync"]
    rows.sort(key=order or (lambda r: int(r[0])))
    return rows


@case("atomic.format", *ENGINES)
def form(w):
    """A file: accepted by the format's checker; the merge is what sort makes of it; the merge is accepted."""
    program = build(w, "cas.c")
    result = w.host("atomic", "-f", os.path.join(w.src, "inc_functions.txt"), "--", program, 4, 3000, trace="cas.out")
    checker = [sys.executable, "-B", os.path.join(w.src, "fmt_check.py")]
    with open(result.trace, encoding="ascii") as f:
        w.call([*checker], stdin=f)
    with open(result.trace, encoding="ascii") as f:
        text = w.call([w.tool("mt-convert"), "--order=time"], stdin=f).stdout
    path = w.path("merged")
    with open(path, "w", encoding="ascii") as f:
        f.write(text)
    with open(path, encoding="ascii") as f:
        w.call([*checker, "--merged"], stdin=f)
    got, rows = text.splitlines(), merged(result.trace)
    same("lines", len(got), len(rows))
    # Lines of one time may be in any order.
    begin = 0
    while begin < len(rows):
        end = begin
        while end < len(rows) and rows[end][0] == rows[begin][0]:
            end += 1
        same(f"lines of time {rows[begin][0]}", sorted(got[begin:end]), sorted("\t".join(r[1:]) for r in rows[begin:end]))
        begin = end
    native = subprocess.run(["sh", "-c", f"sort -k 1 -n '{result.trace}' | sed '/thread_sync/d' | "
                             "awk 'BEGIN {OFS=\"\\t\"}; {$1=\"\";sub(\"\\t\\t\",\"\")}1' | wc -l"],
                            capture_output=True, text=True)
    same("lines of the seed's shell line", int(native.stdout), len(got))


@case("atomic.failed_writes", *ENGINES)
def failed(w):
    """-c 1: a compare-and-swap that failed is a write too; the default has it as a read."""
    program = build(w, "cas.c")
    functions = os.path.join(w.src, "inc_functions.txt")
    for words in ([], ["-c", "1"]):
        pipe = w.host("atomic", "-f", functions, *words, "--", program, 4, 3000, trace="cas.out")
        rows = merged(pipe.trace)
        lines, problems = replay(w, ["\t".join(r[1:]) + "\n" for r in rows], "cas.c", bool(words))
        same(f"{words}: problems", problems, [])
        told = [line for line in pipe.out.splitlines() if line.startswith("thread ")]
        if words:
            told = ["\t".join([c[0], c[1], c[3]]) for c in (line.split("\t") for line in told)]
        same(f"{words}: counts", lines, told)


@case("atomic.container", *ENGINES)
def container(w):
    """The compact container has the same trace: what --order=time makes of it passes the simulator."""
    program = build(w, "inc.c")
    result = w.host("atomic", "-f", os.path.join(w.src, "inc_functions.txt"), "--", program, 4, 3000)
    text = w.call([w.tool("mt-convert"), "--order=time"], input=w.call([w.tool("mt-convert"), result.trace]).stdout).stdout
    lines, problems = replay(w, text.splitlines(keepends=True), "inc.c")
    same("problems", problems, [])
    same("counts", lines, [line for line in result.out.splitlines() if line.startswith("thread ")])


@case("atomic.special", *ENGINES)
def special(w):
    """Calls of the annotation library's malloc and free, once each, whether or not the compile-time engine compiles it."""
    names = w.path("names")
    with open(names, "w", encoding="ascii") as f:
        f.write("atomic_trace::special_malloc\natomic_trace::special_free\nmake\n")
    own = ["special_own.cpp"]
    for level, sources in (("-O0", []), ("-O2", []), ("-O1 -DOWN_HEADER", []), ("-O0 -DOWN_HEADER", own),
                           ("-O2 -DOWN_HEADER", own)):
        program = w.compile("special.cpp", *level.split(), libraries=[] if sources else ["annotate"], sources=sources,
                            atomic=True)
        result = w.host("atomic", "-f", names, "--", program, trace="special.out")
        rows = [r for r in merged(result.trace) if r[2] in ("fc", "fr")]
        a, b = result.out.split()
        want = [["make", "123"], ["special_malloc", "123"], ["special_malloc", a], ["make", a],
                ["make", "45"], ["special_malloc", "45"], ["special_malloc", b], ["make", b],
                ["special_free", a], ["special_free", None], ["special_free", b], ["special_free", None]]
        same(f"{level}: kinds", [r[2] for r in rows], ["fc", "fc", "fr", "fr"] * 2 + ["fc", "fr"] * 2)
        same(f"{level}: calls", [[r[3].split("::")[-1].split("(")[0], r[5] if x[1] else None] for r, x in zip(rows, want)], want)
        sp = [int(r[4]) for r in rows]
        same(f"{level}: a return has its call's stack pointer", [sp[2], sp[3], sp[9], sp[11]], [sp[1], sp[0], sp[8], sp[10]])
        holds(f"{level}: make's callee is deeper", sp[1] < sp[0])
        same(f"{level}: main's callees have one stack pointer", {sp[0], sp[4], sp[8], sp[10]}, {sp[0]})


@case("atomic.cold", *ENGINES)
def cold(w):
    """A part of a function that its compiler moved away is not a call of the function."""
    names = w.path("names")
    with open(names, "w", encoding="ascii") as f:
        f.write("work\n")
    program = w.compile("cold.cpp", "-O2", atomic=True)
    if w.engine == "qemu":
        symbols = w.call(["nm", "-C", program]).stdout
        holds(f"the compiler has moved a part away: {symbols}", "work(int) [clone .cold]" in symbols)
    result = w.host("atomic", "-f", names, "--", program, trace="cold.out")
    kinds = [r[2:4] for r in merged(result.trace) if r[2] in ("fc", "fr")]
    same("calls and returns, as many as the program counts", kinds, [["fc", "work"], ["fr", "work"]] * 30)
    same("the program's count", result.out.split()[0], "30")


@case("atomic.unknown", *ENGINES)
def unknown(w):
    """Names in -f and --routine that no function has are said, others are not."""
    names = w.path("names")
    with open(names, "w", encoding="ascii") as f:
        f.write("work\nwrok\nns::nothing\n")
    program = w.compile("cold.cpp", "-O2", atomic=True)
    said = [w.host("atomic", "-f", names, "--", program, trace="u.out").err,
            w.host("mat", "--routine=wrok", "--routine=work", "--routine=ns::nothing", "--", program).err]
    for text in said:
        lines = [line for line in text.splitlines() if "no function is called" in line]
        same(f"words on names in {text}", len(lines), 1)
        same("the names", lines[0].split("called ")[1].split(";")[0], "wrok, ns::nothing")
    same("nothing to say", "no function" in w.host("mat", "--routine=main", "--", program).err, False)
