"""MEMTRACE_SINK=extract: the result is byte for byte that of mt-extract on the trace of the same program, and the program
does not notice. The program is src/live.cu; with one worker thread it does the same in each run."""
import json
import os
import re
import subprocess
import time

from harness import case, holds, same


def program(world):
    return world.compile(os.path.join(world.src, "live.cu"), "-O2")


def both(world, command, *words, **env):
    """(comm.json of mt-extract on the trace, of MEMTRACE_SINK), as bytes, and the result of the second run."""
    env.setdefault("MEMTRACE_CPU_THREADS", 1)
    folder, out = world.folder("same"), os.path.join(world.folder("out"), "comm.json")
    plain = world.run_ok(command, folder=folder, **env)
    sections = [] if any(w.startswith("--sections") for w in words) else ["-s", "quick"]
    want = world.call([world.tool("mt-extract"), *sections, *words, *(plain.path(n) for n in plain.streams())]).stdout
    for name in os.listdir(folder):
        os.unlink(os.path.join(folder, name))
    live = world.run_ok(command, folder=folder, MEMTRACE_SINK=" ".join([f"extract:{out}", *words]), **env)
    same("files left", os.listdir(folder), [])
    same("output", live.out, plain.out)
    # A live run forgets what memory is of which kind, so it has no sentence on memory that host code may write.
    want = re.sub(r',?\n  "Host code may have written[^\n]*', "", want).replace('"gaps": [\n ]', '"gaps": []')
    with open(out, encoding="utf-8") as f:
        return want, f.read(), live


@case("live.examples")
def examples(world):
    for name, args in (("stencil_1d", [5, 64, 4]), ("reduction", []), ("histogram", [])):
        if not os.path.exists(world.example(name)):
            continue
        app = world.compile(world.example(name), "-O2")
        want, got, _ = both(world, [app, *map(str, args)])
        same(name, got, want)


@case("live.streams")
def streams(world):
    """Launches that overlap, copies between, an address that is used again, a stream that goes away."""
    app = program(world)
    # As a rank of an MPI program: mt-extract is not.
    want, got, live = both(world, [app, "streams", "10"], MEMTRACE_CPU_THREADS=2, OMPI_COMM_WORLD_SIZE=2, OMPI_COMM_WORLD_RANK=1)
    same("comm.json", got, want)
    comm = json.loads(got)
    same("inputs", [os.path.basename(p) for p in comm["inputs"]], ["MemTrace-pipe-0", "MemTrace-pipe-1", "MemTrace-pipe-2"])
    same("order", (list(comm["KDV"]["slow"]), list(comm["KDV"]["fast"]), comm["complete"], comm["launches"]), (["0"], ["1"], True, 9))
    holds("host copies", "<host>" in comm["transfers"])
    same("words", live.err, "")
    for words in (["--strict", "--same-cta=local"], ["--sections=KCV,transfers", "--no-host"], ["--kernels=^shift", "--supersteps=2:5"]):
        want, got, _ = both(world, [app, "streams", "10"], *words, MEMTRACE_CPU_THREADS=2)
        same(str(words), got, want)


@case("live.held")
def held(world):
    """More waits for an earlier launch than fits into the memory set aside (64 MiB): 8 * 200,000 accesses of warps, of 56 bytes."""
    app = program(world)
    out = os.path.join(world.folder("out"), "comm.json")
    world.run_ok([app, "streams", "200000"], MEMTRACE_SINK=f"extract:{out} --sections=KDV", MEMTRACE_CPU_THREADS=2)
    with open(out, encoding="utf-8") as f:
        comm = json.load(f)
    same("all of it", (comm["complete"], comm["KDV"]["fast"]["1"]["Store"], comm["KDV"]["slow"]["0"]), (True, 256 * 200000 * 4, {"Load": 256, "Store": 512}))


@case("live.samples")
def samples(world):
    app = world.compile(os.path.join(world.src, "ctas.cu"), "-O2")
    want, got, _ = both(world, [app, "4"], MEMTRACE_SAMPLE="launch:2,cta:8")
    same("comm.json", got, want)
    holds("with estimates", "estimates" in json.loads(got))
    want, got, _ = both(world, [app, "2"], MEMTRACE_KERNELS="waits|loop", MEMTRACE_BUFFER="4K")
    same("comm.json", got, want)
    same("left out", json.loads(got)["untraced_launches"], 4)


# Some containers refuse it: then what names addresses is not compared.
SAME_PLACES = ["setarch", "-R"] if subprocess.run(["setarch", "-R", "true"], capture_output=True).returncode == 0 else []


def whole(world, command, form, *words, **env):
    """As `both`, for what needs whole traces, as bytes. Their addresses are the same in both runs."""
    env.update(MEMTRACE_CPU_THREADS=1, MEMTRACE_FORMAT="compact")
    folder, out = world.folder("whole"), os.path.join(world.folder("out"), "out." + form)
    command = [*SAME_PLACES, *command]
    plain = world.run_ok(command, folder=folder, **env)
    made = [plain.path(n) + ".mtc" for n in range(len(os.listdir(folder)) // 2)]
    want = os.path.join(world.folder("want"), "want." + form)
    world.call([world.tool("mt-extract"), *words, "-o", want, *made])
    for name in os.listdir(folder):
        os.unlink(os.path.join(folder, name))
    live = world.run_ok(command, folder=folder, MEMTRACE_SINK=" ".join([f"extract:{out}", *words]), **env)
    same("files left", os.listdir(folder), [])
    same("output", live.out, plain.out)
    with open(want, "rb") as f, open(out, "rb") as g:
        return f.read(), g.read()


@case("live.whole")
def whole_traces(world):
    """Sections that look twice or must know allocations and sites before, other formats: all that mt-extract gives."""
    app = world.compile(world.example("stencil_1d"), "-O2")
    for form, words in (("json", ["-s", "all"]), ("json", ["-s", "more"]), ("json", ["--kernels=.", "-s", "all,more"]),
                        ("text", ["--format=text", "-s", "quick,coalescing,lines"]), ("dot", ["--format=dot"])):
        want, got = whole(world, [app, "5", "64", "4"], form, *words)
        if SAME_PLACES or not words[-1].startswith("all"):
            same(str(words), got, want)
    comm = json.loads(whole(world, [app, "5", "64", "4"], "json", "-s", "coalescing,lines,addresses")[1])
    holds("coalescing, lines and addresses", comm["coalescing"] and comm["lines"] and comm["addresses"])
    # Streams that end before the program does, addresses that are used again. Launches of two streams overlap: their traces
    # may have the first ones in either order.
    want, got = whole(world, [program(world), "streams", "10"], "json", "-s", "sharing,reuse,KDV")
    want, got = json.loads(want), json.loads(got)
    same("inputs", [os.path.basename(p) for p in got["inputs"]], ["MemTrace-pipe-0.mtc", "MemTrace-pipe-1.mtc", "MemTrace-pipe-2.mtc"])
    same("streams", {k: got[k] for k in ("complete", "launches", "KDV")}, {k: want[k] for k in ("complete", "launches", "KDV")})


@case("live.killed")
def killed(world):
    """Nothing is written, what was there before stays, and mt-extract goes away."""
    app = program(world)
    folder = world.folder("out")
    out = os.path.join(folder, "comm.json")
    for before, words in ((None, ""), ("old", ""), ("old", " -s more")):
        if before:
            with open(out, "w", encoding="ascii") as f:
                f.write(before)
        result = world.run([app, "killed"], MEMTRACE_SINK=f"extract:{out}{words}")
        same("killed", result.code, -9)
        for _ in range(1200):
            if out.encode() not in subprocess.run(["ps", "ax", "-o", "args"], capture_output=True, check=True).stdout:
                break
            time.sleep(0.1)
        else:
            holds("mt-extract has ended", False)
        same("files", os.listdir(folder), ["comm.json"] if before else [])
    with open(out, encoding="ascii") as f:
        same("old", f.read(), "old")


@case("live.children")
def children(world):
    """The program has no child that it does not know, no signal of one; its own may outlive it."""
    app = program(world)
    out = os.path.join(world.folder("out"), "comm-%p.json")
    begin = time.monotonic()
    result = world.run_ok([app, "children"], MEMTRACE_SINK=f"extract:{out}")
    holds("it did not wait for its own child", time.monotonic() - begin < 15)
    same("children", result.out, "0 children, 0 signals\n")
    names = os.listdir(os.path.dirname(out))
    holds(f"one result, with the process's number: {names}", len(names) == 1 and names[0][5:-5].isdigit())


@case("live.failures")
def failures(world):
    app = program(world)
    folder = world.folder("out")
    out = os.path.join(folder, "comm.json")
    for sink in (f"extract:{out} --bogus", f"extract:{out} -s more --line-size=7", f"extract:{folder}/none/comm.json"):
        result = world.run_ok([app, "streams", "10"], MEMTRACE_SINK=sink)
        holds(f"{sink}: {result.err}", "mt-extract has ended" in result.err)
        same("nothing is written", (os.listdir(folder), result.streams()), ([], []))
    result = world.run_ok([app, "streams", "10"], MEMTRACE_SINK="file:x")
    holds(f"said: {result.err}", "MEMTRACE_SINK=file:x: " in result.err and "traces go to files" in result.err)
    same("and they do", result.streams(), [0, 1, 2])
    result = world.run_ok([app, "untraced"], MEMTRACE_SINK=f"extract:{out}")
    same("no launch, no result, no words", (os.listdir(folder), result.err), ([], ""))


@case("live.sanitized")
def sanitized(world):
    """In a program with ThreadSanitizer, which a start of mt-extract ended."""
    app = world.compile(os.path.join(world.src, "sanitized.cu"), "-O1", "-fsanitize=thread")
    for env in ({}, {"MEMTRACE_SINK": "extract:" + os.path.join(world.folder("out"), "comm.json")}):
        result = world.run_ok(app, **env)
        same(f"output, words with {env}", (result.out, "ThreadSanitizer" in result.err), ("1 2000 1 0\n", False))
