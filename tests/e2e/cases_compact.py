"""MEMTRACE_FORMAT=compact beside raw traces of the same program: the same records, and more."""
import glob
import json
import os
import re
import resource
import signal
import subprocess
from collections import Counter

import cases_examples
import compact
import trace
from harness import case, holds, same

EXAMPLES = cases_examples.NAMES


def files(result):
    return sorted(int(re.fullmatch(r".*-(\d+)\.mtc", p).group(1))
                  for p in glob.glob(os.path.join(result.folder, "MemTrace-pipe-*.mtc")))


def read(result, stream=0):
    return compact.read(result.path(stream) + ".mtc")


def placed(launches, events, stream):
    """[(launch, its line, function from (address, size) to (allocation, offset))]"""
    places = trace.Places(events)
    said = [e for e in events.all("launch") if e["traced"] and e["stream"] == stream]
    same("launch lines", len(said), len(launches))
    return [(launch, e, finder(places, e["seq"])) for e, launch in zip(said, launches)]


def finder(places, seq):
    known = {}

    def place(address, size):
        if (address, size) not in known:
            known[address, size] = places.find(address, size, seq)
        return known[address, size]
    return place


def same_records(what, raw, packed):
    """Launch by launch the same records; the companion's lines are in the container, too."""
    same(f"{what}: streams", files(packed), raw.streams())
    for stream in raw.streams():
        launches, events = read(packed, stream)
        lines = trace.Companion(packed.path(stream) + ".mtc.meta")
        for kind in ("header", "site", "launch", "end"):
            same(f"{what}: {kind} lines", events.all(kind), lines.all(kind))
        holds(f"{what}: complete", events.end()["complete"])
        a, b = placed(raw.trace(stream), raw.companion(stream), stream), placed(launches, events, stream)
        same(f"{what}: kernels", [launch.kernel for launch, *_ in b], [launch.kernel for launch, *_ in a])
        sites = {e["id"]: e for e in events.all("site")}
        total = 0
        for (x, _, xp), (y, line, yp) in zip(a, b):
            same(f"{what}: number of the launch", y.seq, line["seq"])
            want = Counter((smid, kind, size, xp(at, size), cta) for smid, kind, size, at, cta in x.records())
            got = Counter((smid, kind, size, yp(at, size), cta) for smid, kind, size, at, cta in y.records())
            same(f"{what}: records of {x.kernel}", dict(got), dict(want))
            same(f"{what}: count of {x.kernel}", line["records"], x.count)
            bx, by, bz = line["block"]
            for _, thread, site, _, kind, size, _ in y.accesses():
                holds(f"{what}: a thread of the block", thread < bx * by * bz)
                holds(f"{what}: site {site}", sites[site]["op"] == kind and sites[site]["size"] in (0, size))
            total += x.count
        same(f"{what}: records_written", events.end()["records_written"], total)


def in_turn(what, raw, packed, kernel):
    """A kernel whose threads ran one after the other: each thread's accesses, put after each other, are the CTA's."""
    launches, events = read(packed)
    a, b = placed(raw.trace(), raw.companion(), 0), placed(launches, events, 0)
    seen = 0
    for (x, _, xp), (y, _, yp) in zip(a, b):
        if x.kernel != kernel:
            continue
        want = {cta: [(kind, size, xp(at, size)) for kind, size, at in list_] for cta, list_ in x.cta_sequences().items()}
        got = {}
        for (cta, _), accesses in sorted(y.threads().items()):
            got.setdefault(cta, []).extend((kind, size, yp(at, size)) for _, kind, size, at in accesses)
        same(f"{what}: threads in turn", got, want)
        seen += 1
    holds(f"{what}: kernel {kernel} was there", seen)


def records_of(launches):
    return sum(len(r[6]) for x in launches for r in x.runs)


def both(world, app, *arguments, **env):
    raw = world.run_ok([app, *arguments], **env)
    packed = world.run_ok([app, *arguments], MEMTRACE_FORMAT="compact", **env)
    same("output", packed.out, raw.out)
    same("words", packed.err, raw.err)
    return raw, packed


def add(name):
    @case(f"compact.{name}", whole=True)
    def run(world):
        arguments = world.expectation(name).QUICK
        for level in ("-O0", "-O2"):
            app = world.compile(world.example(name), level)
            for threads in (1, 2):
                raw, packed = both(world, app, *arguments, MEMTRACE_CPU_THREADS=threads)
                same_records(f"{name} {level}, {threads} threads", raw, packed)


for example in EXAMPLES:
    add(example)


def same_tools(world, what, raw, packed):
    """memtrace extract says the same of both, and memtrace convert makes the records that the container holds."""
    def comm(result, suffix):
        said = world.extract([result.path(s) + suffix for s in raw.streams()], "--sections", "KCV,KDV,CCV,CDV,SCV,SDV,transfers")
        return {k: v for k, v in said.items() if k != "inputs"}
    a, b = comm(raw, ""), comm(packed, ".mtc")
    for key in {**a, **b}:
        same(f"{what}: {key} of mt-extract", b.get(key), a.get(key))
    for stream in raw.streams():
        back = packed.path(stream) + ".back"
        world.call([world.tool("mt-convert"), packed.path(stream) + ".mtc", "-o", back])
        launches, _ = read(packed, stream)
        same(f"{what}: mt-convert", [(x.kernel, list(x.records())) for x in trace.read(back)],
             [(x.kernel, list(x.records())) for x in launches])


@case("compact.tools")
def tools(world):
    for name in ("stencil_1d", "stencil_2d", "reduction"):  # of one stream: others may order launches otherwise each time
        app = world.compile(world.example(name), "-O2")
        for threads in (1, 2) if name != "reduction" else (1,):  # its CTAs add to one place
            raw, packed = both(world, app, *world.expectation(name).QUICK, MEMTRACE_CPU_THREADS=threads)
            same_tools(world, f"{name}, {threads} threads", raw, packed)


def read_of(world, app, threads):
    return read(world.run_ok(app, MEMTRACE_FORMAT="compact", MEMTRACE_CPU_THREADS=threads))[0]


@case("compact.divergent", whole=True)
def divergent(world):
    for level in ("-O0", "-O2"):
        source, threads = os.path.join(world.src, "divergent.cu"), "--mt-vectors=off"
        app = world.compile(source, level, "--mt-vectors=on")
        for flags, env in (((), {"MEMTRACE_CPU_THREADS": 1}), ((), {"MEMTRACE_CPU_THREADS": 2}), ((), {"MEMTRACE_CHECK": 1}),
                           ((threads,), {}), ((threads,), {"MEMTRACE_CPU_THREADS": 1, "MEMTRACE_BUFFER": "4K"})):
            raw, packed = both(world, world.compile(source, level, *flags) if flags else app, **env)
            same_records(f"divergent {level} {flags} {env}", raw, packed)
            if flags:  # else a raw trace has the lanes of an access one after the other
                for kernel in ("rows", "branches", "copies"):
                    in_turn(f"divergent {level} {env} {kernel}", raw, packed, kernel)
        if level == "-O0":  # the loop is as it was written: a warp goes round as often as its longest row is long
            longest = {}
            for i in range(500):
                warp = i // 96, i % 96 // 32
                longest[warp] = max(longest.get(warp, 0), i * 7 % 13)
            for result in (read_of(world, app, 1), read_of(world, app, 2)):
                rows = [x for x in result if x.kernel == "rows"][0]
                same("accesses of warps", len(rows.runs), sum(2 + n for n in longest.values()))


@case("compact.programs")
def programs(world):
    """Several files with relocatable device code, streams and graphs, a second count, part of the CTAs."""
    import cases_rdc
    app = world.compile(cases_rdc.sources(world), "-rdc=true", "-O2")
    raw, packed = both(world, app)
    same_records("rdc", raw, packed)
    app = world.compile(os.path.join(world.src, "stream_order.cu"), "-O2", "--mt-count=on")
    for threads in (1, 3):
        raw, packed = both(world, app, 5, MEMTRACE_CPU_THREADS=threads)
        same_records("graphs", raw, packed)
        several = world.compile(os.path.join(world.src, "threads.cu"), "-O2")
        raw, packed = both(world, several, MEMTRACE_CPU_THREADS=threads)
        same("complete", [read(packed, s)[1].end()["complete"] for s in files(packed)], [True] * len(raw.streams()))
        same("records of each stream", sorted(records_of(read(packed, s)[0]) for s in files(packed)),
             sorted(sum(x.count for x in raw.trace(s)) for s in raw.streams()))
    for env in ({"MEMTRACE_SAMPLE": "cta:3"}, {"MEMTRACE_KERNELS": "consume"}, {"MEMTRACE_LAUNCHES": "1:3"}):
        raw, packed = both(world, app, 5, **env)
        same_records(f"graphs {env}", raw, packed)
    raw, packed = both(world, app, 5, MEMTRACE_LIMIT=1)
    same("launches under a limit", len(read(packed)[0]), len(raw.trace()))
    holds("some are left out", len(raw.trace()) < 10)


@case("compact.files")
def names(world):
    """Names by pattern; a FIFO; a level; what is there already."""
    app, folder = world.compile(world.example("vector_add"), "-O2"), world.folder("names")
    world.run_ok(app, folder=folder, MEMTRACE_FORMAT="compact", MEMTRACE_PATTERN="mine-?.mtc", MEMTRACE_LEVEL=0)
    world.run_ok(app, folder=folder, MEMTRACE_FORMAT="compact", MEMTRACE_PATTERN="other-?", MEMTRACE_LEVEL=9)
    same("files", sorted(os.listdir(folder)), ["mine-0.mtc", "mine-0.mtc.meta", "other-0.mtc", "other-0.mtc.meta"])
    sizes = [os.path.getsize(os.path.join(folder, f"{name}-0.mtc")) for name in ("mine", "other")]
    holds(f"a higher level makes it smaller: {sizes}", sizes[1] < sizes[0])
    same("mode", oct(os.stat(os.path.join(folder, "mine-0.mtc")).st_mode & 0o777), oct(0o600))
    fifo, copy = os.path.join(folder, "MemTrace-pipe-0.mtc"), os.path.join(folder, "copy")
    os.mkfifo(fifo)
    with open(copy, "wb") as f:
        cat = subprocess.Popen(["cat", fifo], stdout=f)
        world.run_ok(app, folder=folder, MEMTRACE_FORMAT="compact")
        same("cat", cat.wait(60), 0)
    launches, events = compact.read(copy)
    holds("through a FIFO", events.end()["complete"] and records_of(launches) == 300000)


@case("compact.full")
def full(world):
    """No more room: whole chunks stay, one line says so, the companion and the readers say what is missing."""
    app, folder = world.compile(world.example("histogram"), "-O2"), world.folder("full")
    plain = world.run_ok([app, 2000000], traced=False)
    limit = 100000  # the CPU image, too, must have room in its memory file

    def little_room():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    process = subprocess.run([app, "2000000"], capture_output=True, text=True, preexec_fn=little_room,
                             env=dict(os.environ, MEMTRACE_DIR=folder, MEMTRACE_DEVICE="cpu", MEMTRACE_FORMAT="compact"))
    same("exit code and output", (process.returncode, process.stdout), (0, plain.out))
    path = os.path.join(folder, "MemTrace-pipe-0.mtc")
    holds(f"one message that names the file: {process.stderr!r}",
          process.stderr.startswith("memtrace: ") and path in process.stderr and len(process.stderr.splitlines()) == 1)
    holds("not longer than there was room", os.path.getsize(path) <= limit)
    with open(path, "rb") as f:
        chunks = list(compact.mtc.chunks(f.read()))
    kept = sum(c.items for c in chunks if c.type == compact.mtc.DEVICE)
    end = trace.Companion(path + ".meta").end()
    same("what the companion says", (end["complete"], end["records_written"]), (False, kept))
    holds("something is lost", kept < end["records_counted"] and trace.Companion(path + ".meta").all("lost"))
    said = world.call([world.tool("mt-extract"), path], code=3)
    same("mt-extract", json.loads(said.stdout)["complete"], False)


@case("compact.limit")
def limits(world):
    """The file size limit in the index, in the last lines, in the records: message, companion and memtrace extract say the same."""
    app = world.compile(world.example("histogram"), "-O2")

    def run(name, limit):
        folder = world.folder(name)
        env = dict(os.environ, MEMTRACE_DIR=folder, MEMTRACE_DEVICE="cpu", MEMTRACE_FORMAT="compact", MEMTRACE_CPU_THREADS="1",
                   MEMTRACE_LEVEL="0")  # not compressed: two runs have the same size, but for some digits
        process = subprocess.run([app, "1000000"], capture_output=True, text=True, env=env,
                                 preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)))
        same("exit code", process.returncode == 0, limit > 4096)
        return os.path.join(folder, "MemTrace-pipe-0.mtc"), process.stderr

    same("too little for the code itself", [w in run("image", 4096)[1] for w in ("raise it (ulimit -f)", "mt-cc")], [True, False])
    path, words = run("whole", 1 << 30)
    same("no words", words, "")
    with open(path, "rb") as f:
        chunks = list(compact.mtc.chunks(f.read()))
    index, lines = chunks[-1].offset, [c.offset for c in chunks if c.type == compact.mtc.META][-1]
    for name, limit, complete in ("index", index + 40, True), ("lines", lines + 70, False), ("records", lines - 200, False):
        path, words = run(name, limit)
        holds(f"{name}: one message: {words!r}", path in words and len(words.splitlines()) == 1 and "ulimit -f" in words)
        same(f"{name}: the message", "is incomplete" in words, not complete)
        same(f"{name}: the companion", trace.Companion(path + ".meta").end()["complete"], complete)
        said = json.loads(world.call([world.tool("mt-extract"), path], code=0 if complete else 3).stdout)
        same(f"{name}: mt-extract", said["complete"], complete)
        notes = " ".join(said["notes"])
        holds(f"{name}: why: {notes!r}", complete or ("ulimit -f" in notes and "killed" not in notes))


@case("compact.killed")
def killed(world):
    """kill -9: whole chunks, and every launch that has ended is whole."""
    app, folder = world.compile(os.path.join(world.src, "endless.cu"), "-O2"), world.folder("killed")
    env = dict(os.environ, MEMTRACE_DIR=folder, MEMTRACE_DEVICE="cpu", MEMTRACE_FORMAT="compact")
    process = subprocess.Popen([app], stdout=subprocess.PIPE, text=True, env=env)
    same("it runs", process.stdout.readline(), "ready\n")
    process.kill()
    process.wait()
    process.stdout.close()
    path = os.path.join(folder, "MemTrace-pipe-0.mtc")
    with open(path, "rb") as f:
        data = f.read()
    ended, items = [], 0
    try:
        for chunk in compact.mtc.chunks(data):
            if chunk.type == compact.mtc.DEVICE:  # a launch has several where several workers ran it
                items = chunk.items + (0 if chunk.flags & compact.BEGIN else items)
                ended += [items] if chunk.flags & compact.END else []
    except compact.mtc.Bad as why:  # the last one may be cut
        holds(f"{why}: nothing but the end is missing", int(str(why).rsplit(" ", 1)[1]) > len(data) - 100000)
    holds(f"{len(ended)} launches", len(ended) >= 50)
    same("accesses of each", set(ended), {1024})
    said = world.call([world.tool("mt-extract"), path], code=3)
    same("mt-extract", json.loads(said.stdout)["complete"], False)


@case("compact.freed_late")
def freed_late(world):
    """What is freed after the only stream is gone is no leak: the container was closed before."""
    app = world.compile(os.path.join(world.src, "freed_late.cu"), "-O2")
    result = world.run_ok([app], MEMTRACE_FORMAT="compact")
    path = next(os.path.join(result.folder, n) for n in os.listdir(result.folder) if n.endswith(".mtc"))
    summary = world.call([world.tool("mt-extract"), "-f", "summary", path]).stdout
    holds(summary, "2 launches" in summary and "leak" not in summary)
