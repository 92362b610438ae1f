"""Programs as they are, under the default engine: what they print is what they print natively."""
import os
import re
import subprocess
import sys

from harness import case, clean, holds, need, same
from world import ENGINES


def compare(w, command, stdin=b"", mode="mat", words=(), trace="t.mtc", timeout=240):
    """Same output, same errors, same exit code; the trace is complete."""
    native = subprocess.run(command, input=stdin, capture_output=True, env=clean(), timeout=300)
    trace = w.path(trace)
    line = [w.tool("mt-host"), "--verbose", mode, "-o", trace, *words, "--", *command]
    traced = subprocess.run(line, input=stdin, capture_output=True, env=clean(), timeout=timeout)
    lines = traced.stderr.splitlines(keepends=True)
    own = [text.decode() for text in lines if text.startswith(b"mt-host: ")]
    same(f"{command}: stdout", traced.stdout, native.stdout)
    same(f"{command}: stderr", b"".join(t for t in lines if not t.startswith(b"mt-host: ")).decode(errors="replace"),
         native.stderr.decode(errors="replace"))
    same(f"{command}: exit code", traced.returncode, native.returncode)
    if trace.endswith(".mtc"):
        found = re.search(r"([0-9,]+) accesses, complete", "".join(own))
        holds(f"{command}: the trace is complete: {own}", found)
        holds(f"{command}: {found[1]} accesses", int(found[1].replace(",", "")) > 10000)
    return trace


def need_default(w):
    if not w.has("qemu"):
        from world import Skipped
        raise Skipped("qemu-user or the plugin is not here")


@case("programs.sqlite3")
def sqlite(w):
    need_default(w)
    script = b"""create table t(a integer primary key, b text, c real);
with recursive n(i) as (select 1 union all select i+1 from n where i < 1000)
  insert into t select i, 'row ' || (i * 7919 % 1009), i / 7.0 from n;
create index bc on t(b, c);
select count(*), sum(a), round(avg(c), 6), min(b), max(b) from t;
select b, count(*) from t where b like 'row 1%' group by substr(b, 1, 6) order by 2 desc, 1 limit 5;
delete from t where a % 3 = 0; vacuum; select count(*), total(c) from t; pragma integrity_check;
select * from nothing;
"""
    compare(w, [need("sqlite3"), ":memory:"], script)


@case("programs.python")
def python(w):
    need_default(w)
    program = ("import json, re, hashlib\n"
               "d = {str(i): [i * 3, i / 7, 'x' * (i % 9)] for i in range(500)}\n"
               "t = json.dumps(d, sort_keys=True)\n"
               "assert json.loads(t) == d\n"
               "print(len(t), hashlib.sha256(t.encode()).hexdigest(), len(re.findall(r'x+', t)))\n"
               "try:\n    1 / 0\nexcept ZeroDivisionError as e:\n    print(e)\n"
               "raise SystemExit(5)\n")
    compare(w, [os.path.realpath(sys.executable), "-S", "-E", "-c", program])


@case("programs.gzip")
def gzip(w):
    need_default(w)
    with open(os.path.join(w.source, "docs", "internals.md"), "rb") as f:
        text = f.read() * 4
    compare(w, [need("gzip"), "-9nc"], text)
    packed = subprocess.run([need("gzip"), "-9nc"], input=text, capture_output=True).stdout
    compare(w, [need("gzip"), "-dc"], packed)


@case("programs.sort")
def sort(w):
    need_default(w)
    path = w.path("numbers")
    with open(path, "w", encoding="ascii") as f:
        for i in range(20000):
            f.write(f"{i * 7919 % 20011} line {i}\n")
    compare(w, [need("sort"), "--parallel=4", "-S", "8M", "-n", path])


@case("programs.exceptions", *ENGINES)
def exceptions(w):
    for mode, trace in (("mat", "t.mtc"), ("atomic", "t.out")):
        program = w.compile("throws.cpp", "-O2", atomic=mode == "atomic")
        native = w.call([program])
        result = w.host(mode, "--", program, trace=trace)
        same(f"{mode}: output", (result.out, result.err), (native.stdout, native.stderr))


@case("programs.pipeline")
def pipeline(w):
    """bash forks for each part: the shell is traced, its children run as if nothing were."""
    need_default(w)
    compare(w, [need("bash"), "-c", "seq 1 3000 | grep 7 | sort -rn | head -3; cat <(echo a) | tr a b; "
                "f() { local x=$1; ((x > 1)) && f $((x - 1)); echo $x; }; f 20 | wc -l; exit 3"])


@case("programs.insn")
def insn(w):
    need_default(w)
    compare(w, [need("ls"), "-la", w.src], mode="insn", trace="ls.out")


@case("programs.atomic")
def atomic(w):
    need_default(w)
    path = w.path("numbers")
    with open(path, "w", encoding="ascii") as f:
        f.write("".join(f"{i * 7919 % 20011}\n" for i in range(8000)))
    compare(w, [need("sort"), "--parallel=2", "-n", path], mode="atomic", trace="sort.mtc")


@case("programs.exec")
def exec_chain(w):
    """What the program becomes by exec is traced too, each under a name of its own, with the argv[0] it was given."""
    need_default(w)
    trace = compare(w, ["sh", "-c", 'exec bash -c "exec gzip -c" unused'], b"some words " * 1000)
    programs = []
    for name in (".mtc", ".exec1.mtc", ".exec2.mtc"):
        said = subprocess.run([w.tool("mt-dump"), "--stat", trace[:-4] + name], capture_output=True, text=True, check=True)
        programs.append(os.path.basename(re.search(r"# mat of (\S+) ", said.stdout)[1]))
    same("one trace for each program", programs[1:], ["bash", "gzip"])
    holds("no more of them", not os.path.exists(trace[:-4] + ".exec3.mtc"))
    # A relative output keeps its folder when the program has gone elsewhere; argv[0] is what exec gave.
    show = 'import sys; print(open("/proc/self/cmdline", "rb").read().split(b"\\0")[:2])'
    python = os.path.realpath(sys.executable)
    line = [w.tool("mt-host"), "mat", "-o", "r.mtc", "--", need("bash"), "-c",
            f"cd / && exec -a another {python} -c '{show}'"]
    p = subprocess.run(line, cwd=w.work, capture_output=True, text=True, env=clean(), timeout=240)
    same("exit code and words", (p.returncode, p.stderr), (0, ""))
    # drrun has no word for an argv[0] that is not the program's (docs/host.md).
    holds(f"argv[0]: {p.stdout}", ("another" if not w.has("dynamorio") else python) in p.stdout)
    holds("the trace stands where the first one does", os.path.exists(os.path.join(w.work, "r.exec1.mtc")))


@case("programs.exec_self")
def exec_self(w):
    """A program that becomes itself by a name of its file in /proc, or by a descriptor: it runs, and its trace is its own."""
    need_default(w)
    program = w.compile("again.c", "-O1", "-g")
    with open(os.path.join(w.src, "again.c"), encoding="utf-8") as f:
        line = next(n for n, text in enumerate(f, 1) if "words[i] = i" in text)
    for way in ("self", "pid", "memory", "at", "script", "child", "parent"):
        trace = w.path(way + ".mtc")
        native, result = w.call([program, way], code=5), w.host("mat", "--", program, way, trace=trace, code=5, engine="qemu")
        same(f"{way}: output", (result.out, result.err), (native.stdout, native.stderr))
        second = trace[:-4] + ".exec1.mtc"
        same(f"{way}: a second trace", os.path.exists(second), way not in ("child", "parent"))
        if way in ("self", "pid"):
            lines = w.call([w.tool("mt-dump"), second]).stdout
            same(f"{way}: what the second one stored", len(re.findall(rf"(?m) store 8 .*again\.c:{line}$", lines)), 77)
