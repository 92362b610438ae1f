"""What a user gets to see of a host program: planted faults, each named; misses as cachegrind counts them; what dhat says of blocks."""
import json
import os
import re
import shutil

from harness import Skipped, case, clean, holds, same
from world import ENGINES, MACHINE


def marks(path):
    """{mark: "file:line"} of the comments /* MARK */ at ends of lines."""
    out = {}
    with open(path, encoding="utf-8") as f:
        for number, line in enumerate(f, 1):
            mark = re.search(r"/\* ([A-Z]+) \*/$", line.rstrip())
            if mark:
                out[mark[1]] = f"{path}:{number}"
    return out


def close(what, got, want, part):
    holds(f"{what}: {got}, not {want} or {100 * part} % from it", abs(got - want) <= part * want)


def extract(w, trace, *words):
    return w.call([w.tool("mt-extract"), "-q", *words, trace]).stdout


@case("answers.planted", *ENGINES)
def planted(w):
    """Twelve faults, each named by the summary or by one table that it leads to."""
    source = os.path.join(w.src, "planted.c")
    at = {k: v.replace(w.src + "/", "") for k, v in marks(source).items()}
    program = w.compile("planted.c", "-O1", atomic=True)
    trace = w.host("atomic", *(() if w.engine == "llvm" else ("--library=data",)), "--", program, source).trace
    summary = extract(w, trace, "-f", "summary")
    out = json.loads(extract(w, trace, "-s", "misses,bounces,lines"))
    misses = {m["line"].rsplit("/", 1)[-1]: m for m in out["misses"]["lines"]}
    # 1: a matrix by columns. Each of 256 * 256 loads misses and uses 8 bytes of 64.
    columns = misses[at["COLUMNS"]]
    same("columns", (columns["accesses"], columns["misses"], columns["used"], columns["fetched"]), (65536, 65536, 524288, 4194304))
    holds(f"columns in the summary: {summary}", re.search(r"^! .*worst: " + at["COLUMNS"], summary, re.M))
    # 2, 3: a stride of 128 bytes, one member of a struct of 64 bytes.
    for mark, loads in (("STRIDED", 4096), ("MEMBER", 4000)):
        m = misses[at[mark]]
        close(f"{mark}: misses", m["misses"], loads, 0.01)
        close(f"{mark}: used of 64 bytes", m["used"] * 8, m["fetched"], 0.01)
    # 4: counters side by side go to and fro for other bytes: 4 threads have 312 turns each, and each turn but the first takes the line.
    counters = [b for b in out["bounces"] if b["label"].endswith(" counters") and b["from"].endswith(at["FALSE"]) and b["to"].endswith(at["FALSE"])]
    same(f"counters: {out['bounces']}", [sum(b[k] for b in counters) for k in ("times", "same")], [4 * 312 - 1, 0])
    holds("counters in the summary", re.search(r"^! .* cache-line transfers between threads are in .*counters", summary, re.M))
    # 5: what a lock protects goes with it, for the same bytes, in 125 turns each; so does the lock itself, where its library is seen.
    total = [b for b in out["bounces"] if b["label"].endswith(" total") and b["to"].endswith(at["LOCKED"]) and b["from"].endswith(at["LOCKED"])]
    same(f"total: {out['bounces']}", [sum(b[k] for b in total) for k in ("times", "same")], [4 * 125 - 1] * 2)
    if w.engine in MACHINE:
        holds("the lock", any(b["label"].endswith(" lock") for b in out["bounces"]))
    # 6, 7, 8: never touched, written and never read, not freed.
    for words, mark, size in (("is never read or written", "NEVER", 100000), ("is written and never read", "UNREAD", 8000), ("is not freed when the program ends", "NEVER", 100000)):
        holds(f"{words}: {summary}", any(words in line and f"({size} bytes" in line and at[mark] in line for line in summary.splitlines()))
    # 9: realloc in small steps.
    holds("realloc", f"realloc at {at['GROW']} is called 100 times, for 493 KiB in total" in summary)
    # 10: a hash table whose neighbours collide: 1,000 insertions look at 492,164 slots and more (64 keys begin at each home).
    hot = max(out["lines"]["lines"].items(), key=lambda kv: sum(v["Load"] + v["Store"] for v in kv[1].values()))
    same("hottest line", hot[0].rsplit("/", 1)[-1], at["PROBE"])
    holds("in the summary", f"Line {at['PROBE']} moves most" in summary)
    # 12: of ten copies the first and the last bring something; a machine engine sees no call.
    if w.engine == "llvm":
        holds(f"copies: {summary}", f"{at['AGAIN']}: 8 of 10 copies bring bytes that are there already: 256000 in total" in summary)
    # 11: a mapped file that is read twice.
    size = os.path.getsize(source)
    mapped = [v for k, v in out["lines"]["allocations"].items() if " mmap" in k and sum(x["Load"] for x in v.values()) == 2 * size]
    holds(f"mapped: {out['lines']['allocations']}", len(mapped) == 1)


@case("answers.neighbours", *ENGINES)
def neighbours(w):
    """False sharing is named whether the threads overlapped or not; what is ordered, apart or done once is none."""
    at = {k: v.replace(w.src + "/", "") for k, v in marks(os.path.join(w.src, "neighbours.c")).items()}
    program = w.compile("neighbours.c", "-O1", atomic=True)
    trace = w.host("atomic", *(() if w.engine == "llvm" else ("--library=data",)), "--", program).trace
    found, few = {}, set()
    for f in json.loads(extract(w, trace, "-s", "conflicts"))["false_pairs"]:
        label, sides = f["label"].split()[-1], {f[k]["line"].rsplit("/", 1)[-1] for k in ("a", "b")}
        if f["accesses"] < 64:
            few.add(label)
        elif "neighbours.c" in str(sides):
            found.setdefault(label, []).append((sides, f))
    same("buffers", sorted(found), ["late", "limit", "ticket"])
    holds(f"once: {few}", "once" in few and not few & {"apart", "table", "phases", "guarded", "serial", "handed"})
    for label, distance in (("late", 8), ("limit", 8), ("ticket", 4)):
        for sides, f in found[label]:
            same(f"{label}: lines", sides, {at[label.upper() + k] for k in "AB"})
            same(f"{label}: {f}", (f["distance"], f["lines"]), (distance, 1))
    # Each of the second thread's 20,000 updates (compile-time engine: loads and stores) but its first 16 accesses meets the first
    # thread's last one. The line is taken over once: the threads did not overlap.
    for sides, f in found["late"]:
        holds(f"late: {f}", 0 <= 20000 - f["accesses"] <= 16)
    same("late: taken over", sum(f["handed"] for _, f in found["late"]), 1)
    summary = extract(w, trace, "-f", "summary")
    line = re.search(r"^! False sharing in .*$", summary, re.M)
    holds(f"sentence: {summary}", line and "by layout only" in line[0] and "At 64 B apart" in line[0] and "2 other buffers" in line[0])


@case("answers.cachegrind", *ENGINES)
def cachegrind(w):
    """Misses by line are those of cachegrind with the same cache; where an address does not matter, to the last one."""
    if not shutil.which("valgrind"):
        raise Skipped("no valgrind")
    source = os.path.join(w.src, "walks.c")
    at, program = marks(source), w.compile("walks.c", "-O1", atomic=True)
    native = program
    if w.engine == "llvm":  # cachegrind looks at the program as it would be
        native = w.path("native")
        w.call(["clang-19" if shutil.which("clang-19") else "clang", "-O1", "-g", source, "-o", native])
    for cache in ((32768, 8), (8192, 2)):
        theirs = w.path("cachegrind.out")
        w.call(["valgrind", "--tool=cachegrind", "--cache-sim=yes", f"--D1={cache[0]},{cache[1]},64", f"--cachegrind-out-file={theirs}", native])
        want, file, events = {}, "", []
        with open(theirs, encoding="utf-8") as f:
            for line in f:
                if line.startswith("events:"):
                    events = line.split()[1:]
                elif line.startswith("fl="):
                    file = line[3:].strip()
                elif line[0].isdigit() and file.endswith("walks.c"):
                    words = line.split()
                    row = dict(zip(events, map(int, words[1:])))
                    want[int(words[0])] = (row["Dr"] + row["Dw"], row["D1mr"] + row["D1mw"])
        trace = w.host("atomic", *(() if w.engine == "llvm" else ("--library=data",)), "--", program).trace
        ours = {int(m["line"].rsplit(":", 1)[1]): (m["accesses"], m["misses"])
                for m in json.loads(extract(w, trace, "-s", "misses", f"--data-cache={cache[0]},{cache[1]}"))["misses"]["lines"] if m["line"].endswith("walks.c:" + m["line"].rsplit(":", 1)[1])}
        for mark, place in at.items():
            line = int(place.rsplit(":", 1)[1])
            holds(f"{cache}: {mark} is there", line in ours)
            if w.engine == "llvm" and line not in want:  # clang found that nobody reads it; what is traced is seen to be read
                continue
            if w.engine in MACHINE:
                same(f"{cache}: accesses of {mark}", ours[line][0], want[line][0])
            close(f"{cache}: misses of {mark}", ours[line][1], want[line][1], 0.005)


HEAP = ("blocks", "bytes", "peak_blocks", "peak_bytes", "end_blocks", "end_bytes")


def dhat_heap(w, program):
    """{(lines in wrapped.c, innermost first): what HEAP names} as dhat has it, and the sums at the peak."""
    theirs = w.path("dhat.out")
    w.call(["valgrind", "--tool=dhat", f"--dhat-out-file={theirs}", program])
    with open(theirs, encoding="utf-8") as f:
        points = json.load(f)
    want = {}
    for p in points["pps"]:
        lines = tuple(int(m[1]) for m in (re.search(r"\(wrapped\.c:(\d+)\)", points["ftbl"][i]) for i in p["fs"]) if m)
        was = want.setdefault(lines, [0] * 6)
        want[lines] = [a + p[k] for a, k in zip(was, ("tbk", "tb", "gbk", "gb", "ebk", "eb"))]
    return want, sum(p["gb"] for p in points["pps"]), sum(p["gbk"] for p in points["pps"])


@case("answers.wrapped", *MACHINE)
def wrapped(w):
    """Who holds the heap at its peak and at the end, by call stack, is what dhat says, to the last byte."""
    if not shutil.which("valgrind"):
        raise Skipped("no valgrind")
    for flags in ("-O0", "-O2"):
        program = w.compile("wrapped.c", flags)
        want, peak, blocks = dhat_heap(w, program)
        trace = w.host("atomic", "--library=data", "--", program).trace
        out = json.loads(extract(w, trace, "-s", "traffic"))
        ours = {}
        for r in out["heap"]:
            lines = tuple(int(n) for n in re.findall(r"wrapped\.c:(\d+)", (r["line"] or "") + "; " + (r["callers"] or "")))
            was = ours.setdefault(lines, [0] * 6)
            ours[lines] = [a + r[k] for a, k in zip(was, HEAP)]
        same(f"{flags}: by stack", {k: v for k, v in ours.items() if k}, {k: v for k, v in want.items() if k})
        same(f"{flags}: stacks", len([k for k in ours if k]), 5)
        same(f"{flags}: peak", (out["heap_peak"]["bytes"], out["heap_peak"]["blocks"]), (peak, blocks))
        trace = w.host("mat", "--library=data", "--", program, trace="mat.mtc").trace
        same(f"{flags}: mat", json.loads(extract(w, trace, "-s", "traffic"))["heap_peak"], out["heap_peak"])


@case("answers.leaks_by_stack", *ENGINES)
def leaks_by_stack(w):
    """Leaks of one wrapper are told apart by who called it, the largest first; each engine says what it can."""
    at = {k: int(v.rsplit(":", 1)[1]) for k, v in marks(os.path.join(w.src, "wrapped.c")).items()}
    program = w.compile("wrapped.c", "-O1", atomic=True)
    trace = w.host("atomic", *(() if w.engine == "llvm" else ("--library=data",)), "--", program).trace
    summary = extract(w, trace, "-f", "summary")
    line = re.search(r"leak at .*", summary)
    # The compile-time engine has lines of inlined calls only: the two calls in main are one to it.
    lines = w.engine != "llvm"
    said = ("4 more from this line, 15000 bytes in total", "(and 1 more)") if lines else ("5 more from this line, 18000 bytes in total", "leak at")
    holds(f"leak: {summary}", line and f"wrapped.c:{at['CHECKED']}" in line[0] and all(s in line[0] for s in said))
    outer = f"wrapped.c:{at['MAINA']} in main" if lines else "wrapped:main"
    holds(f"callers: {line[0]}", re.search(rf"called from wrapped\.c:{at['LEAKS']} in leaks, [\w.-]*{outer}\.$", line[0]))
    rows = [r for r in json.loads(extract(w, trace, "-s", "traffic"))["heap"] if r["end_bytes"] and "wrapped.c" in (r["line"] or "")]
    same(f"rows: {rows}", [(r["end_blocks"], r["end_bytes"]) for r in rows], [(5, 15000), (1, 3000)] if lines else [(6, 18000)])
    holds(f"heap: {summary}", re.search(r"^- The heap is largest with 85\.7 KiB in 7 blocks, after 20 of 21 ", summary, re.M))


@case("answers.dhat", *MACHINE)
def dhat(w):
    """Blocks that dhat finds never read or never touched are those of our findings, by size and number."""
    if not shutil.which("valgrind"):
        raise Skipped("no valgrind")
    source = os.path.join(w.src, "planted.c")
    program, theirs = w.compile("planted.c", "-O1"), w.path("dhat.out")
    at = {k: v.replace(w.src + "/", "") for k, v in marks(source).items()}
    w.call(["valgrind", "--tool=dhat", f"--dhat-out-file={theirs}", program, source])
    with open(theirs, encoding="utf-8") as f:
        points = json.load(f)
    frames = points["ftbl"]
    want = {}
    for p in points["pps"]:
        place = next((re.search(r"\((planted\.c:\d+)\)", frames[i]) for i in p["fs"][:2] if "planted.c:" in frames[i]), None)  # not through a library
        if place:
            want[place[1]] = (p["tbk"], p["tb"], p["rb"], p["wb"])
    trace = w.host("atomic", "--library=data", "--", program, source).trace
    out = json.loads(extract(w, trace, "-s", "lines"))["lines"]["allocations"]
    ours = {}
    for label, by in out.items():
        place = re.search(r"(planted\.c:\d+)(?: ×(\d+))?$", label)
        if place and " mmap " not in label:
            v = next(iter(by.values()))
            ours[place[1]] = (int(place[2] or 1), v["Load"], v["Store"])
    for place, (blocks, _, read, written) in want.items():
        if read or written:
            holds(f"{place}: {ours}", place in ours)
            same(f"{place}: blocks", ours[place][0], blocks)
            # dhat counts what realloc copies as well, and its memcpy is another one than the C library's, which takes some bytes twice
            if ours[place][0] == 1 and place not in (at["STATE"], at["BACKUP"]):
                same(f"{place}: bytes read and written", ours[place][1:], (read, written))
        else:
            holds(f"{place} is never touched", place not in ours)


@case("answers.hands_on", *ENGINES)
def hands_on(w):
    """What write, send, fwrite and their kin take is read: 1000 to 8000 bytes, each once; of nine blocks one is never read."""
    program = w.compile("hands_on.c", "-O1", atomic=True)
    for mode in ("atomic", "mat"):
        for library in ([],) if w.engine == "llvm" else ([], ["--library=data"]):
            result = w.host(mode, *library, "--", program)
            same("it ran as ever", result.out, "36000\n")
            out = json.loads(extract(w, result.trace, "-s", "lines"))["lines"]["allocations"]
            loads = sum(v["Load"] for label, by in out.items() if "hands_on.c:" in label for v in by.values())
            close(f"{mode} {library}: bytes loaded", loads, 36000, 0.005 if library else 0.05)  # some bytes twice in the C library's copy
            unread = [line for line in extract(w, result.trace, "-f", "summary").splitlines() if " is written and never read" in line]
            holds(f"{mode} {library}: unread: {unread}", len(unread) == 1 and "(9000 bytes" in unread[0])


@case("answers.hands_all", *MACHINE)
def hands_all(w):
    """Many places that hand on, and a call of many pieces: each byte is read."""
    result = w.host("atomic", "--", w.compile("hands_all.c", "-O1", atomic=True))
    same("it ran as ever", result.out, "1600\n")
    out = json.loads(extract(w, result.trace, "-s", "lines"))["lines"]["allocations"]
    loads = sum(v["loads"] for label, by in out.items() if "malloc hands_all.c:" in label for v in by.values())
    same(f"loads of both blocks: {list(out)}", loads, 600 + 1000)


@case("answers.called", *ENGINES)
def called(w):
    """A program has the name that it was called by, and not that of the file where a link leads, by path and from PATH."""
    program = w.compile("hello.c", "-O1", atomic=True)
    folder = w.path("links")
    os.mkdir(folder)
    os.symlink(program, os.path.join(folder, "greets"))
    there = clean(PATH=f"{folder}:{os.environ['PATH']}")
    for word, cwd, env in ((f"{folder}/greets", "/", clean()), ("./greets", folder, clean()), ("greets", "/", there)):
        result = w.host("atomic", "--", word, trace=w.path("called.mtc"), cwd=cwd, env=env)
        said = w.call([w.tool("mt-dump"), result.trace]).stdout
        holds(f"{word}: {said[:300]}", f" of {folder}/greets by " in said)
        said = extract(w, result.trace, "-f", "summary")
        holds(f"{word}: {said}", "program, greets, " in said)


@case("answers.members", "llvm")
def members(w):
    """The compile-time engine says which member of which variable, unoptimised and optimised."""
    for level in ("-O0", "-O1"):
        trace = w.host("mat", "--", w.compile("members.c", level)).trace
        out = json.loads(extract(w, trace, "-s", "lines"))["lines"]["variables"]
        got = {k: (sum(v["loads"] for v in by.values()), sum(v["stores"] for v in by.values())) for k, by in out.items()}
        same(f"{level}: list.kind", got.get("list.kind"), (100, 100))
        same(f"{level}: list.next", got.get("list.next"), (0, 100))
        walked = {k: v for k, v in got.items() if k.endswith(".y2") and v[0]}
        same(f"{level}: y2 {got}", sum(v[0] for v in walked.values()), 1000)
