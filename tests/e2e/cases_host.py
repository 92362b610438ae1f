"""Host and device in one picture: bytes from a host line through copies to CTAs and back (mt-cc --host)."""
import json
import os
import re
import shutil

from cases_programs import source
from harness import case, clean, holds, same


def marks(path):
    """{mark: "file:line"} of the comments /* MARK */ that are alone after a statement."""
    out = {}
    for number, line in enumerate(open(path), 1):
        if line.rstrip().endswith("*/") and ";" in line:
            word = line.rstrip()[:-2].split("/*")[-1].strip()
            if word.isupper():
                out[word] = f"{path}:{number}"
    return out


def flat(transfers):
    """{(source kernel, its CTA or line, superstep, destination …): bytes}"""
    out = {}
    for sk, by_cta in transfers.items():
        for sc, by_step in by_cta.items():
            for ss, by_kernel in by_step.items():
                for dk, to_cta in by_kernel.items():
                    for dc, to_step in to_cta.items():
                        for ds, v in to_step.items():
                            out[sk, sc, int(ss), dk, dc, int(ds)] = v["Size"]
    return out


@case("host.picture", whole=True)
def picture(world):
    """Pageable, pinned and managed memory: each byte's way from file:line to CTA and from CTA to file:line."""
    path = source(world, "host_picture.cu")
    at = marks(path)
    same("marks", sorted(at), ["HIGH", "LOW", "READ", "STAGE"])
    for level in ("-O0", "-O2"):
        app = world.compile(path, level, "--host")
        plain = world.run_ok(app, traced=False, MEMTRACE_HOST="off")
        traced = world.run_ok(app)
        same(f"{level}: output", (traced.out, traced.err), (plain.out, plain.err))
        host = os.path.join(traced.folder, "MemTrace-host.mtc")
        pipes = [traced.path(n) for n in traced.streams()]
        comm = world.extract([*pipes, host])
        holds(f"{level}: complete", comm["complete"])
        want = {}
        for step, low in ((0, "LOW"), (1, "STAGE"), (2, "LOW")):
            for cta in range(4):
                writer = at[low] if cta < 2 else at["HIGH"]
                want["<host>", writer, step, "twice", f"{cta},0,0", step] = 256
                want["twice", f"{cta},0,0", step, "<host>", at["READ"], step + 1] = 256
        same(f"{level}: transfers", flat(comm["transfers"]), want)
        # Without the host's trace the copies are all that is known of the host.
        blind = flat(world.extract(pipes)["transfers"])
        holds(f"{level}: without host trace", all(k[0] == "<host>" and k[1] not in at.values() for k in blind))


@case("host.picture_binary")
def picture_binary(world):
    """The same by the qemu engine, program built without --host: exact where the program's own lines touch the data."""
    path = source(world, "host_picture.cu")
    at = marks(path)
    app = world.compile(path, "-O1", "-g")
    plain = world.run_ok(app, traced=False)
    folder = world.folder("run")
    host = os.path.join(folder, "host.mtc")
    traced = world.run_ok([world.tool("mt-host"), "mat", "-o", host, "--", app], folder=folder)
    same("output", (traced.out, traced.err), (plain.out, plain.err))
    got = flat(world.extract([*[traced.path(n) for n in traced.streams()], host])["transfers"])
    own = {k: v for k, v in got.items() if k[1] in at.values() or k[4] in at.values()}
    want, staged = {}, 0
    for step in range(3):
        for cta in range(4):
            want["twice", f"{cta},0,0", step, "<host>", at["READ"], step + 1] = 256
            if step != 1 or cta >= 2:
                want["<host>", at["LOW" if cta < 2 else "HIGH"], step, "twice", f"{cta},0,0", step] = 256
    same("transfers of the program's lines", own, want)
    # What memcpy moved is at the C library's instructions, however many it takes.
    for (kernel, _, step, *reader), size in got.items():
        if kernel == "<host>" and step == 1 and reader[1] in ("0,0,0", "1,0,0"):
            staged += size
    same("bytes through memcpy", staged, 512)


@case("host.main_ends_first")
def main_ends_first(world):
    """pthread_exit in main: the process ends with its last thread, as natively; the traces are whole."""
    path = source(world, "threads_end.cu")
    for flags in ((), ("--host",)):
        app = world.compile(path, "-O1", *flags, "-pthread")
        run = world.run_ok([app, "exit"], timeout=60)
        same(f"{flags}: output", run.out.split(), ["2", "2", "exit"])
        comm = world.extract([run.path(n) for n in run.streams()])
        holds(f"{flags}: complete", comm["complete"])
        same(f"{flags}: launches, records", (comm["launches"], comm["records"]), (2, 2 * 2 * 4096))
    qemu = shutil.which("qemu-x86_64")  # its own threads are not the program's
    if qemu:
        run = world.run_ok([qemu, world.compile(path, "-O1", "-pthread"), "exit"], timeout=60, MEMTRACE_ENABLE="0")
        same("qemu: output", run.out.split(), ["2", "2", "exit"])


@case("host.read")
def read(world):
    """What copies to the device read counts as read, by bytes, under each engine; blocks of the CUDA runtime are not the program's."""
    path = source(world, "host_read.cu")
    apps = {"llvm": world.compile(path, "-O1", "--host=atomic"), "qemu": (plain := world.compile(path, "-O1", "-g")), "dynamorio": plain}
    usable = world.call([world.tool("mt-host"), "--engines"]).stdout
    for engine, app in apps.items():
        if not re.search(rf"^{engine} +usable", usable, re.M):
            continue
        for mode in ("atomic", "mat"):
            trace = world.path(f"{engine}-{mode}.mtc")
            world.call([world.tool("mt-host"), f"--engine={engine}", mode, "-o", trace, "--", app], env=clean(MEMTRACE_DEVICE="cpu", MEMTRACE_DIR=world.folder("run")))
            said = world.call([world.tool("mt-extract"), "-q", "-f", "summary", trace]).stdout
            findings = re.findall(r"^- (\w+) at .*?\((\d+) bytes", said, re.M)
            same(f"{engine} {mode}: {said}", sorted(findings), [("leak", "50000"), ("unread", "12000")])
            lines = json.loads(world.call([world.tool("mt-extract"), "-q", "-s", "lines", trace]).stdout)["lines"]["allocations"]
            loads = sum(v["Load"] for label, by in lines.items() if "malloc host_read.cu" in label for v in by.values())
            same(f"{engine} {mode}: bytes loaded of the four blocks", loads, 40000 + 8 * 256 + 125 * 4)


@case("host.late")
def late(world):
    """Before the CUDA runtime is there, the engine numbers events; then the runtime goes on from its number."""
    app, usable = world.compile(source(world, "host_late.cu"), "-O1", "-g"), world.call([world.tool("mt-host"), "--engines"]).stdout
    back = "SELECT sum(seq < before) FROM (SELECT seq, lag(seq) OVER (ORDER BY id) AS before FROM allocations)"
    for engine in re.findall(r"^(qemu|dynamorio) +usable", usable, re.M):
        trace = world.path(f"{engine}.mtc")
        world.call([world.tool("mt-host"), f"--engine={engine}", "atomic", "-o", trace, "--", app], env=clean(MEMTRACE_DEVICE="cpu", MEMTRACE_DIR=world.folder("run")))
        same(f"{engine}: allocations out of order", world.call([world.tool("memtrace"), "query", "-q", "--csv", trace, back]).stdout.splitlines()[1:], ["0"])
        lines = json.loads(world.call([world.tool("mt-extract"), "-q", "-s", "lines", trace]).stdout)["lines"]["allocations"]
        by = next(by for label, by in lines.items() if "new host_late.cu" in label)
        same(f"{engine}: bytes of the block", (sum(v["Load"] for v in by.values()), sum(v["Store"] for v in by.values())), (4, 4000))


@case("host.read_beside")
def read_beside(world):
    """Traces of kernels and of the host read together have what the host's has alone: what is not freed, or never read."""
    traced = world.run_ok(world.compile(source(world, "host_read.cu"), "-O1", "--host=atomic"))
    pipes = [traced.path(n) for n in traced.streams()]
    holds("a trace beside the host's", pipes)
    said = world.call([world.tool("mt-extract"), "-q", "-f", "summary", *pipes, os.path.join(traced.folder, "MemTrace-host.mtc")]).stdout
    found = re.findall(r"^- (\w+) at \S+host_read\.cu:\d+( \(and \d+ more\))?: .*?\((\d+) bytes", said, re.M)
    # Of the device's block, which nothing reads, too, the words are: it is larger.
    same(said, sorted(found), [("leak", "", "50000"), ("unread", " (and 1 more)", "40000")])


@case("host.cancelled")
def cancelled(world):
    """Threads cancelled at any moment inside CUDA calls take no lock along: others go on, and the end comes."""
    app = world.compile(source(world, "threads_end.cu"), "-O1", "-pthread")
    for variables in ({}, {"MEMTRACE_CPU_THREADS": "1"}):
        run = world.run_ok([app, "cancel"], timeout=120, **variables)
        same(f"{variables}: output", run.out.split(), ["40", "40"])


@case("host.before_a_thread")
def before_a_thread(world):
    """What main wrote before the first thread began has a writer: 1024 bytes to the thread, and 4 back, by each mode and engine."""
    path = source(world, "host_before.c")
    usable = world.call([world.tool("mt-host"), "--engines"]).stdout
    for engine, flags in (("llvm", {"mat": "--host", "atomic": "--host=atomic"}), ("qemu", {})):
        if not re.search(rf"^{engine} +usable", usable, re.M):
            continue
        for mode in ("mat", "atomic"):
            trace, app = world.path(f"before-{engine}-{mode}.mtc"), world.path(f"before-{engine}-{mode}")
            cc = [world.tool("mt-cc"), flags[mode]] if flags else ["cc"]
            world.call([*cc, "-O0", "-g", "-pthread", "-o", app, path])
            world.call([world.tool("mt-host"), f"--engine={engine}", mode, "-o", trace, "--", app])
            sent = {}
            for (_, writer, _, _, reader, _), n in flat(world.extract([trace])["transfers"]).items():
                sent[writer, reader] = sent.get((writer, reader), 0) + n
            data = sent.get(("0,0,0", "1,0,0"), 0)
            holds(f"{engine} {mode}: {sent}", data == 1024 if flags else 1024 <= data < 2048)  # machine code has the stack and the loader's data, too
            if mode == "atomic":  # a mat trace knows no order of what came after the thread's begin
                holds(f"{engine} {mode}: back, {sent}", sent.get(("1,0,0", "0,0,0"), 0) >= 4)
