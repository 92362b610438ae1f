"""--library: of the loader and the C library only what touches the program's data, and the rest is counted; `memtrace host` without a kind."""
import collections
import os
import re
import shutil
import subprocess

from harness import case, clean, holds, need, same
from world import ENGINES, MACHINE

FROM, TO, TABLE, TEXT = 2001, 2002, 2004, 36
KINDS = {1: "r", 2: "w"}


def build(w):
    """library.c and its library."""
    part = os.path.join(w.work, "libpart.so")
    w.call(["gcc", "-O1", "-g", "-fno-builtin", "-shared", "-fPIC", os.path.join(w.src, "library_part.c"), "-o", part])
    return w.compile("library.c", "-O1", "-fno-builtin", f"-Wl,-rpath,{w.work}", sources=[part])


def steady(w, *words, trace, code=0):
    """As w.host, with the same addresses each time: code that goes by alignment does the same."""
    setarch = ["setarch", "-R"] if shutil.which("setarch") else []
    path = w.path(trace)
    said = w.call([*setarch, w.tool("mt-host"), f"--engine={w.engine}", *words[:1], "-o", path, *words[1:]], code)
    return path, said


def counted(w, path):
    """Accesses in a container, and how many it says were left out."""
    said = w.call([w.tool("mt-dump"), path]).stdout
    left = re.search(r"^left out: (\d+) accesses", said, re.M)
    holds("it is whole", "\nend complete" in said)
    return len(re.findall(r"^\d+ (?:load|store|atomic|cas|cas-failed) ", said, re.M)), int(left[1]) if left else 0


def modules(w, path):
    """The files whose code has sites in a container."""
    said = w.call([w.tool("mt-dump"), "--stat", "--sites", path]).stdout
    return {os.path.basename(m) for m in re.findall(r" module (\S+)", said)}


def spread(rows, size):
    """{(offset of a byte, r or w): times} of the buffer."""
    return collections.Counter((row[2] + k, KINDS[row[4]]) for row in rows if row[6] == size for k in range(row[5]))


@case("library.buffers", *MACHINE)
def buffers(w):
    """With `data` the three buffers have all bytes that they have with `all`; nothing of allocator, stdio and loader."""
    program, rows, pool = build(w), {}, 0
    for which in ("all", "data"):
        path, said = steady(w, "mat", "--all", f"--library={which}", "--", program, trace=f"{which}.txt")
        same("output", re.sub("0x.*", "", said.stdout), "0 wrong, 35 letters, \n")
        pool = int(said.stdout.split()[-1], 16)
        rows[which] = w.mat(type("", (), {"trace": path}))
    for size in (FROM, TO, TABLE, TEXT):
        same(f"bytes of {size}", spread(rows["data"], size), spread(rows["all"], size))
    whole = {(at, kind): 1 for at in range(2000) for kind in "rw"}
    same("each byte of the first is written once", {at: n for at, n in spread(rows["data"], FROM).items() if at[1] == "w"},
         {at: n for at, n in whole.items() if at[1] == "w"})
    same("all of both is touched", [set(spread(rows["data"], size)) == set(whole) for size in (FROM, TO)], [True, True])
    own = [r for r in rows["data"] if "library.c" in r[7]]
    same("the program's own writes to the first", sorted(r[2] for r in own if r[6] == FROM), [4 * i for i in range(500)])
    reads = collections.Counter(r[2] for r in own if r[6] == TABLE)
    holds("main reads each once, comparisons more", min(reads[4 * i] for i in range(500)) >= 2)
    same("its own accesses are those of `all`", [r[1:7] for r in own],
         [r[1:7] for r in rows["all"] if "library.c" in r[7]])
    near = min(r[0] for r in own)
    others = [r for r in rows["data"] if abs(r[0] - near) > 0x10000 and "library_part.c" not in r[7]]
    named = {FROM, TO, TABLE, TEXT}
    inside = [r for r in others if r[6] not in named and not pool <= r[1] < pool + 3000]
    part = min((r[0] for r in rows["all"] if "library_part.c" in r[7]))
    inside = [r for r in inside if abs(r[0] - part) > 0x10000 and not (r[6] and abs(r[1] - near) < 0x10000)]
    same("the C library's accesses to other memory", inside[:5], [])
    holds("`all` has them", sum(not r[6] for r in rows["all"]) > 10000)
    same("variables of libraries are data", set(range(pool, pool + 3000)) -
         {r[1] + k for r in others if r[4] == 2 for k in range(r[5])}, set())


@case("library.sums", *MACHINE)
def sums(w):
    """What is recorded and what is left out are together what there is."""
    program = build(w)
    for mode, more, choices in (("atomic", [], ("all", "data", "none", "libpart", "libc")), ("mat", [], ("data", "none")),
                                ("mat", ["--routine=main"], ("data", "none"))):
        every = counted(w, steady(w, mode, *more, "--", program, trace="all.mtc")[0])
        same(f"{mode} {more}: nothing is left out", every[1], 0)
        for which in choices:
            path = steady(w, mode, *more, f"--library={which}", "--", program, trace=f"{which}.mtc")[0]
            recorded, left = counted(w, path)
            same(f"{mode} {more} {which}: {recorded} and {left} left out", recorded + left, every[0])
            holds(f"{which} leaves out {left}", which == "all" or more or left > 10000)
            files = modules(w, path)
            same(f"{which}: code of the loader", any(f.startswith("ld-") for f in files), which == "all")
            same(f"{which}: the C library", any(f.startswith("libc.") for f in files), which in ("all", "data", "libc"))
            same(f"{which}: the program's library", "libpart.so" in files, which in ("all", "data", "libpart"))
    owned = steady(w, "mat", "--own", "--", program, trace="own.mtc")[0]
    same("--own is --library=none", counted(w, owned),
         counted(w, steady(w, "mat", "--library=none", "--", program, trace="none.mtc")[0]))


@case("library.text", *MACHINE)
def text(w):
    """A trace in text leaves out the same, and says it."""
    program = build(w)
    path, said = steady(w, "atomic", "--library=data", "--", program, trace="t.out")
    left = re.search(r"(\d+) accesses of libraries' code were left out; --library=all", said.stderr)
    holds(f"it says so: {said.stderr}", left)
    recorded, again = counted(w, steady(w, "atomic", "--library=data", "--", program, trace="t.mtc")[0])
    same("as many as in a container", int(left[1]), again)
    lines = sum(row[2] == "m" for row in w.atomic(type("", (), {"trace": path})))
    holds(f"{lines} lines of {recorded} accesses", 0 < lines <= recorded)


@case("library.compiled", "llvm")
def compiled(w):
    """The compile-time engine sees no library: the option changes nothing there."""
    program = w.compile("own.c", "-O1", atomic=True)
    counts = {which: counted(w, w.host("atomic", f"--library={which}", "--", program).trace)
              for which in ("all", "data", "none")}
    same("all the same", set(counts.values()), {counts["all"]})
    same("nothing left out", counts["all"][1], 0)


@case("library.unasked", *ENGINES)
def unasked(w):
    """`memtrace host PROGRAM`: atomic, a container, --library=data; options and a program that is called mat."""
    program = build(w) if w.engine != "llvm" else w.compile("own.c", "-O1", atomic=True)
    host = [w.tool("mt-host"), f"--engine={w.engine}"]

    def run(*words, code=0):
        process = subprocess.run([*host, *words], cwd=w.work, capture_output=True, text=True, env=clean(), timeout=120)
        same(f"{words}: exit code; {process.stderr}", process.returncode, code)
        return process
    run(program)
    path = os.path.join(w.work, "memory_trace.mtc")
    asked = w.host("atomic", "--library=data", "--", program).trace
    got, want = counted(w, path), counted(w, asked)
    holds(f"as with all words: {got}, {want}", abs(got[0] - want[0]) < 50 and abs(got[1] - want[1]) < 500)
    said = w.call([w.tool("mt-dump"), "--stat", path]).stdout
    holds(f"its mode: {said}", "# atomic of" in said)
    os.unlink(path)
    shutil.copy(program, os.path.join(w.work, "mat"))
    run("--library=none", "-o", "x.mtc", "--", "./mat")
    same("the file that was asked for", os.path.exists(path), False)
    if w.engine != "llvm":
        same("none of a library", {f for f in modules(w, os.path.join(w.work, "x.mtc")) if f.startswith("lib")}, set())
        summary = w.call([w.tool("mt-extract"), "--format=summary", asked]).stdout
        holds(f"the summary says what is left out: {summary}", re.search(r"note: [\d,]+ accesses of libraries, .*left out",
                                                                         summary))
        return
    plain = w.compile("own.c", "-O1")  # its accesses cannot be put in order
    run(plain)
    holds("a program without order", "# mat of" in w.call([w.tool("mt-dump"), "--stat", path]).stdout)


def programs(w, command, *words):
    path = w.path("p.mtc")
    w.call([w.tool("mt-host"), f"--engine={w.engine}", *words, "-o", path, "--", *command], env=clean(), timeout=240)
    return path


@case("library.sqlite3", *MACHINE)
def sqlite(w):
    """sqlite3 does its work in a library: its functions are there, the loader's are not."""
    command = [need("sqlite3"), ":memory:", "create table t(a); insert into t values(1), (2); select sum(a) from t;"]
    files = modules(w, programs(w, command))
    holds(f"libsqlite3 is there: {files}", any(f.startswith("libsqlite3.") for f in files))
    same("the loader", [f for f in files if f.startswith("ld-")], [])
    files = modules(w, programs(w, command, "--library=libsqlite3"))
    same("that library alone", {f.split(".")[0] for f in files}, {"sqlite3", "libsqlite3"})


@case("library.python", *MACHINE)
def python(w):
    """Extension modules of Python count as the program's code."""
    program = "import _struct, array; a = array.array('d', range(500)); print(_struct.pack('<d', sum(a))[-1])"
    found = subprocess.run(["python3", "-c", "import array, sys; print(sys.executable); print(getattr(array, '__file__', ''))"],
                           capture_output=True, text=True, check=True).stdout.split("\n")
    path = programs(w, [os.path.realpath(found[0]), "-S", "-E", "-c", program])
    files = modules(w, path)
    wanted = os.path.basename(found[1] or os.path.realpath(found[0]))
    holds(f"{wanted} is there: {sorted(files)}", wanted in files)
    same("the loader", [f for f in files if f.startswith("ld-")], [])
